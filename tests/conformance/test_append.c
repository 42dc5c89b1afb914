/* Appends: the fence, what they change, and how they are refused: J1, J4, B3, B6, A7, C4, N2. */
#include "conformance/stories.h"

static void test_J1_the_journal_is_what_was_appended(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, 2, PW_RECORD_MODEL_COMPLETED, "t1", "model:1");
    kit_entry_record(k, e, 3, PW_RECORD_TOOL_STARTED, "t1", "tool:1:a");
    kit_entry_record(k, e, 4, PW_RECORD_TOOL_COMPLETED, "t1", "tool:1:a");
    e->records[1].body = PW_STR("{\"v\":1,\"n\":1e400}");
    e->records[2].at_ms = k->now_ms + 7;
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    kit_reopen(k);
    op = kit_read(k, PW_OP_RECORDS, id);
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(op.records.records[i].seq, i + 1);
    }
    assert_int_equal(op.records.records[0].kind, PW_RECORD_TURN_OPENED);
    assert_int_equal(op.records.records[2].kind, PW_RECORD_TOOL_STARTED);
    assert_text(op.records.records[2].body, "{\"v\":1,\"n\":1e400}");
    assert_text(op.records.records[2].turn, "t1");
    assert_text(op.records.records[2].step, "tool:1:a");
    assert_int_equal(op.records.records[3].at_ms, k->now_ms + 7);
    assert_int_equal(kit_row(k, id).last_seq, 4);
    kit_sound(k);
}

static void test_J1_old_epoch_is_fenced(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op take = kit_take(k, id, "");
    take.take.reload = true;
    kit_ok(k, &take);
    assert_int_equal(take.take.row.epoch, 2);
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    op = kit_append(k, id, 3, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    op = kit_append(k, 999, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    assert_int_equal(kit_row(k, id).last_seq, 1);
    op = kit_append(k, id, 2, &e->append);
    kit_ok(k, &op);
    kit_sound(k);
}

static void test_J1_a_session_let_go_takes_no_append(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = {.kind = PW_OP_RELEASE, .release = {id, 1, 0, 1}};
    kit_ok(k, &op);
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
}

static void test_J2_seq_has_no_gap_and_no_double(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    kit_entry *e = kit_step(k, 3, "t1", "tool:1:a");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID);
    e = kit_step(k, 1, "t1", "tool:1:a");
    op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    /* the same first seq with more behind it leaves nothing behind either */
    e = kit_step(k, 1, "t1", "tool:1:a");
    kit_entry_record(k, e, 2, PW_RECORD_TOOL_LATE, "t1", "tool:1:b");
    op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    assert_int_equal(kit_row(k, id).last_seq, 1);
    e = kit_entry_new(k);
    op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID); /* no record */
    kit_entry_record(k, e, 2, PW_RECORD_TOOL_LATE, "t1", "a");
    kit_entry_record(k, e, 4, PW_RECORD_TOOL_LATE, "t1", "a");
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID);
    kit_sound(k);
}

static void test_B3_a_claim_is_one_commit(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    pw_op op = kit_admit(k, "s", "r2", "more");
    kit_ok(k, &op);
    op = kit_admit(k, "s", "r3", "behind");
    kit_ok(k, &op);
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 2);
    op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    pw_session_row row = kit_row(k, id);
    assert_text(row.turn, "t1");
    assert_int_equal(row.state, PW_TURN_RUNNING);
    assert_int_equal(row.base_seq, 1);
    assert_int_equal(row.wake_at_ms, 0);
    op = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 1);
    assert_int_equal(op.inbox.inbox.rows[0].n, 3);
    op = kit_read(k, PW_OP_MESSAGE, id);
    op.message.request_id = PW_STR("r2");
    kit_ok(k, &op);
    assert_int_equal(op.message.row.disposition, PW_CLAIMED);
    assert_text(op.message.row.turn, "t1");
    op = kit_read(k, PW_OP_TURN, id);
    op.turn.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.turn.row.opened_seq, 1);
    assert_int_equal(op.turn.row.ended_seq, 0);
    kit_sound(k);
}

static void test_J4_a_named_row_not_pending_is_stale(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    for (int i = 2; i <= 4; i++) {
        char request[3] = {'r', (char)('0' + i), '\0'};
        pw_op op = kit_admit(k, "s", request, "x");
        kit_ok(k, &op);
    }
    pw_op gone = kit_withdraw(k, "s", "r3");
    kit_ok(k, &gone);
    kit_entry *e = kit_turn_opened(
        k, 1, "t1", 1, 3); /* 3 is withdrawn; 4, which is pending, must not make up for it */
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_STALE);
    e = kit_turn_opened(k, 1, "t1", 1, 1);
    e->consumed[1] = (pw_consumed){99, PW_CLAIMED};
    e->append.consumed_count = 2;
    op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_STALE);
    pw_session_row row = kit_row(k, id);
    assert_int_equal(row.last_seq, 0);
    assert_int_equal(row.turn.len, 0);
    op = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 3);
    e->consumed[1] = (pw_consumed){4, PW_CLAIMED}; /* not neighbours: fine */
    op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    op = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 1);
    assert_int_equal(op.inbox.inbox.rows[0].n, 2);
}

static void test_J4_named_rows_must_make_sense(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 1);
    e->consumed[0].disposition = PW_ANSWERED;
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID);
    e->consumed[0].disposition = PW_CLAIMED;
    e->consumed[1] = e->consumed[0];
    e->append.consumed_count = 2;
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID);
    e->append.consumed_count = 1;
    e->append.turn = PW_STR_NONE;
    kit_run(k, &op, 1);
    assert_status(op, PW_INVALID);
    assert_int_equal(kit_row(k, id).last_seq, 0);
}

static void test_B6_an_end_is_one_commit(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    kit_entry *e = kit_turn_ended(k, 3, "t1", 1);
    e->append.record_count = 0;
    kit_entry_record(k, e, 2, PW_RECORD_MODEL_COMPLETED, "t1", "model:2");
    kit_entry_record(k, e, 3, PW_RECORD_TURN_ENDED, "t1", "");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    pw_session_row row = kit_row(k, id);
    assert_int_equal(row.turn.len, 0);
    assert_int_equal(row.owner.len, 0);
    assert_true(row.owner_released);
    assert_int_equal(row.wake_at_ms, -1);
    assert_int_equal(row.epoch, 1);
    op = kit_read(k, PW_OP_TURN, id);
    op.turn.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.turn.row.ended_seq, 3);
    assert_int_equal(op.turn.row.state, PW_TURN_COMPLETED);
    kit_sound(k);
}

static void test_B6_a_turn_opened_and_ended_in_one_append(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 1);
    kit_entry_record(k, e, 2, PW_RECORD_TURN_ENDED, "t1", "");
    e->append.turn_ended_seq = 2;
    e->append.turn_state = PW_TURN_CANCELLED;
    e->append.head = (pw_head){.set = true, .base_seq = -1, .wake_at_ms = -1, .looked_n = 1};
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    op = kit_read(k, PW_OP_MESSAGE, id);
    op.message.request_id = PW_STR("r1");
    kit_ok(k, &op);
    assert_int_equal(op.message.row.disposition, PW_ANSWERED);
    pw_session_row row = kit_row(k, id);
    assert_text(row.owner, k->me.text); /* not let go */
    kit_sound(k);
}

static void test_A7_an_unseen_message_keeps_the_wake(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = kit_admit(k, "s", "r2", "unseen");
    op.admit.due_at_ms = k->now_ms + 50;
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, 0);
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1); /* has looked at row 1 only */
    op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, 0); /* left alone: it will be looked at */
    op = kit_take(k, id, "");
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 2, k->now_ms + 50, 2}};
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 50);
}

static void test_A7_an_owner_that_has_not_looked_may_still_wake_earlier(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s", "r1", "x");
    op.admit.due_at_ms = k->now_ms + 1000;
    kit_ok(k, &op);
    int64_t id = op.admit.session_id;
    op = kit_take(k, id, "");
    kit_ok(k, &op);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 1, k->now_ms + 10, 0}};
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 10);
    op = kit_take(k, id, "");
    kit_ok(k, &op);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 2, -1, 0}};
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 10);
    op = kit_take(k, id, "");
    kit_ok(k, &op);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 3, -1, 1}};
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, -1);
    assert_true(kit_row(k, id).owner_released);
}

static void test_H1_a_head_keeps_state_reason_and_since(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, 2, PW_RECORD_WAIT_SET, "t1", "");
    e->records[0].at_ms = k->now_ms + 100;
    e->append.turn = PW_STR("t1");
    e->append.turn_state = PW_TURN_WAITING;
    e->append.head = (pw_head){.set = true,
                               .state = PW_TURN_WAITING,
                               .turn = PW_STR("t1"),
                               .reason = PW_STR("rate_limit"),
                               .base_seq = -1,
                               .wake_at_ms = k->now_ms + 60000,
                               .looked_n = 1,
                               .release = true};
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    pw_session_row row = kit_row(k, id);
    assert_int_equal(row.state, PW_TURN_WAITING);
    assert_text(row.reason, "rate_limit");
    assert_int_equal(row.since_ms, k->now_ms + 100);
    assert_int_equal(row.base_seq, 1);
    assert_int_equal(row.wake_at_ms, k->now_ms + 60000);
    op = kit_read(k, PW_OP_TURN, id);
    op.turn.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.turn.row.state, PW_TURN_WAITING);
    op = kit_take(k, id, "");
    kit_ok(k, &op);
    assert_int_equal(op.take.cause, PW_CAUSE_RESUME);
    assert_int_equal(kit_row(k, id).since_ms, k->now_ms + 100);
    kit_sound(k);
}

static void test_C4_a_receipt_forgives_crashes(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op gone = kit_owner_op(k, PW_OP_LEAVE, "me");
    kit_ok(k, &gone);
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "you");
    kit_ok(k, &join);
    pw_op op = kit_take(k, id, "you");
    kit_ok(k, &op);
    assert_int_equal(op.take.cause, PW_CAUSE_RECOVERY);
    assert_int_equal(op.take.row.crashes, 1);
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, 2, PW_RECORD_ATTEMPT_STARTED, "t1", "");
    op = kit_append(k, id, 2, &e->append);
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).crashes, 1); /* no receipt */
    e = kit_step(k, 3, "t1", "tool:1:a");
    op = kit_append(k, id, 2, &e->append);
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).crashes, 0);
    e = kit_step(k, 4, "t1", "tool:1:b");
    op = kit_append(k, id, 2, &e->append);
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).crashes, 0);
}

static void test_N2_blobs_are_kept_once(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    pw_str bytes = {"{\"name\":\"ops\"}\0x", 16};
    pw_hash hash = pw_sha256_of(bytes);
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 1);
    e->blobs[0] = (pw_blob){pw_hash_to_hex(&hash), bytes};
    e->blobs[1] = e->blobs[0];
    e->append.blob_count = 2;
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    e = kit_step(k, 2, "t1", "tool:1:a");
    e->blobs[0] = (pw_blob){pw_hash_to_hex(&hash), bytes};
    e->append.blob_count = 1;
    op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    kit_reopen(k);
    pw_hash_hex hex = pw_hash_to_hex(&hash);
    op = (pw_op){.kind = PW_OP_BLOB, .arena = &k->arena, .blob = {.hash = pw_str_from(hex.text)}};
    kit_ok(k, &op);
    assert_int_equal(op.blob.bytes.len, 16);
    assert_memory_equal(op.blob.bytes.ptr, bytes.ptr, 16);
    op.blob.hash = PW_STR("0000");
    kit_run(k, &op, 1);
    assert_status(op, PW_NOT_FOUND);
    kit_sound(k);
}

static void test_a_refused_op_disturbs_no_neighbour(void **state)
{
    kit *k = *state;
    int64_t a = kit_running(k, "a"), b = kit_running(k, "b"), c = kit_running(k, "c");
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    kit_entry *stale = kit_step(k, 2, "t1", "tool:1:a");
    stale->consumed[stale->append.consumed_count++] = (pw_consumed){1, PW_CLAIMED};
    stale->append.turn = PW_STR("t1");
    stale->append.turn_state = PW_TURN_RUNNING;
    kit_entry *empty = kit_entry_new(k);
    kit_entry *gap = kit_step(k, 9, "t1", "tool:1:a");
    pw_op ops[] = {
        kit_append(k, a, 1, &e->append),
        kit_append(k, b, 7, &e->append),
        kit_append(k, c, 1, &stale->append),
        kit_append(k, a, 1, &empty->append),
        kit_admit(k, "a", "r1", "different"),
        kit_append(k, b, 1, &gap->append),
        kit_admit(k, "a", "r2", "second"),
        kit_owner_op(k, PW_OP_BEAT, "nobody"),
        kit_take(k, 4711, ""),
        kit_withdraw(k, "b", "r1"),
        kit_cancel(k, "c", "t1"),
        kit_read(k, PW_OP_RECORDS, a),
        kit_append(k, b, 1, &e->append),
    };
    size_t count = sizeof(ops) / sizeof(ops[0]);
    kit_run(k, ops, count);
    const pw_status wanted[] = {PW_OK,      PW_FENCED, PW_STALE,  PW_INVALID, PW_OK,
                                PW_INVALID, PW_OK,     PW_FENCED, PW_OK,      PW_OK,
                                PW_OK,      PW_OK,     PW_OK};
    for (size_t i = 0; i < count; i++) {
        assert_status(ops[i], wanted[i]);
        assert_int_equal(ops[i].error.code == PW_OK, wanted[i] == PW_OK);
    }
    assert_int_equal(ops[4].admit.answer, PW_ADMIT_CONFLICT);
    assert_int_equal(ops[6].admit.answer, PW_ADMITTED);
    assert_int_equal(ops[8].take.answer, PW_TAKE_NONE);
    assert_int_equal(ops[9].withdraw.answer, PW_WITHDRAW_CLAIMED);
    assert_int_equal(ops[10].cancel.answer, PW_CANCEL_ADMITTED);
    assert_int_equal(ops[11].records.count, 2); /* sees what came before it in the batch */
    kit_reopen(k);
    assert_int_equal(kit_row(k, a).last_seq, 2);
    assert_int_equal(kit_row(k, b).last_seq, 2);
    assert_int_equal(kit_row(k, c).last_seq, 1);
    kit_sound(k);
}

static void test_a_batch_sees_itself_in_order(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    kit_entry *open = kit_turn_opened(k, 1, "t1", 1, 1);
    kit_entry *step = kit_step(k, 2, "t1", "tool:1:a");
    kit_entry *end = kit_turn_ended(k, 3, "t1", 1);
    pw_op ops[] = {
        kit_take(k, id, ""),
        kit_append(k, id, 1, &open->append),
        kit_append(k, id, 1, &step->append),
        kit_append(k, id, 1, &end->append),
        kit_append(k, id, 1, &end->append),
        kit_take(k, id, ""),
    };
    kit_run(k, ops, 6);
    for (int i = 0; i < 4; i++) {
        assert_status(ops[i], PW_OK);
    }
    assert_status(ops[4], PW_FENCED);
    assert_status(ops[5], PW_OK);
    assert_int_equal(ops[5].take.answer, PW_TOOK);
    assert_int_equal(ops[5].take.row.epoch, 2);
    kit_sound(k);
}

static void test_large_bodies_are_kept_whole(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    size_t size = 3u << 20;
    char *text = PW_NEW_ARRAY(&k->arena, char, size);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)('a' + i % 23);
    }
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    e->records[0].body = (pw_str){text, size};
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    kit_reopen(k);
    op = kit_read(k, PW_OP_RECORDS, id);
    op.records.from_seq = 2;
    kit_ok(k, &op);
    assert_int_equal(op.records.records[0].body.len, size);
    assert_memory_equal(op.records.records[0].body.ptr, text, size);
}

const struct CMUnitTest append_stories[] = {
    STORY(test_J1_the_journal_is_what_was_appended),
    STORY(test_J1_old_epoch_is_fenced),
    STORY(test_J1_a_session_let_go_takes_no_append),
    STORY(test_J2_seq_has_no_gap_and_no_double),
    STORY(test_B3_a_claim_is_one_commit),
    STORY(test_J4_a_named_row_not_pending_is_stale),
    STORY(test_J4_named_rows_must_make_sense),
    STORY(test_B6_an_end_is_one_commit),
    STORY(test_B6_a_turn_opened_and_ended_in_one_append),
    STORY(test_A7_an_unseen_message_keeps_the_wake),
    STORY(test_A7_an_owner_that_has_not_looked_may_still_wake_earlier),
    STORY(test_H1_a_head_keeps_state_reason_and_since),
    STORY(test_C4_a_receipt_forgives_crashes),
    STORY(test_N2_blobs_are_kept_once),
    STORY(test_a_refused_op_disturbs_no_neighbour),
    STORY(test_a_batch_sees_itself_in_order),
    STORY(test_large_bodies_are_kept_whole),
};
const size_t append_stories_count = sizeof(append_stories) / sizeof(append_stories[0]);
