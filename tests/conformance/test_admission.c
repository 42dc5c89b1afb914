/* Admission, withdrawal, cancellation: A1, A2, A4, A7, I3, I7. */
#include "conformance/stories.h"

static void test_A1_accepted_then_existing_with_where_it_stands(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s", "r1", "hello");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    assert_int_equal(op.admit.row.n, 1);
    assert_int_equal(op.admit.row.position, 1);
    assert_int_equal(op.admit.row.disposition, PW_PENDING);
    assert_int_equal(op.admit.row.at_ms, k->now_ms);
    assert_text(op.admit.row.request_id, "r1");
    assert_text(op.admit.row.digest, "hello");
    assert_text(op.admit.row.body, "hello");
    int64_t id = op.admit.session_id;
    assert_true(id > 0);
    kit_reopen(k);
    op = kit_admit(k, "s", "r1", "hello");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_EXISTING);
    assert_int_equal(op.admit.session_id, id);
    assert_int_equal(op.admit.row.n, 1);
    assert_int_equal(op.admit.row.position, 1);
    assert_int_equal(kit_row(k, id).admitted, 1);
}

static void test_A1_same_id_other_content_conflicts(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    pw_op op = kit_admit(k, "s", "r1", "other");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_CONFLICT);
    assert_text(op.admit.row.digest, "hello");
    assert_int_equal(kit_row(k, id).admitted, 1);
    kit_sound(k);
}

static void test_A1_a_request_id_belongs_to_its_session(void **state)
{
    kit *k = *state;
    int64_t one = kit_session(k, "one"), two = kit_session(k, "two");
    assert_true(one != two);
    pw_op op = kit_admit(k, "one", "r1", "hello");
    op.admit.principal = PW_STR("else");
    op.admit.uid = PW_STR("uid-else");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    assert_true(op.admit.session_id != one && op.admit.session_id != two);
}

static void test_A1_another_agent_is_a_conflict_of_its_own(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    pw_op op = kit_admit(k, "s", "r2", "x");
    op.admit.agent = PW_STR("sales");
    op.admit.agent_named = true;
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_OTHER_AGENT);
    op.admit.agent_named = false; /* a default is no wish */
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    assert_text(kit_row(k, id).agent, "ops");
    assert_int_equal(kit_row(k, id).admitted, 2);
}

static void test_A1_answered_requests_are_existing_for_ever(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = kit_admit(k, "s", "r1", "hello");
    kit_ok(k, &op);
    assert_int_equal(op.admit.row.disposition, PW_CLAIMED);
    assert_text(op.admit.row.turn, "t1");
    assert_int_equal(op.admit.row.position, 0);
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1);
    pw_op end = kit_append(k, id, 1, &e->append);
    kit_ok(k, &end);
    kit_reopen(k);
    op = kit_admit(k, "s", "r1", "hello");
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_EXISTING);
    assert_int_equal(op.admit.row.disposition, PW_ANSWERED);
    assert_text(op.admit.row.turn, "t1");
    assert_int_equal(op.admit.row.body.len, 0); /* it has moved to the journal */
}

static void test_A2_of_many_at_once_one_is_accepted(void **state)
{
    kit *k = *state;
    pw_op ops[20];
    for (int i = 0; i < 20; i++) {
        ops[i] = kit_admit(k, "s", i % 2 == 0 ? "a" : "b", i < 18 ? "same" : "other");
    }
    kit_run(k, ops, 20);
    int counts[5] = {0};
    for (int i = 0; i < 20; i++) {
        assert_status(ops[i], PW_OK);
        counts[ops[i].admit.answer]++;
        assert_int_equal(ops[i].admit.row.n, 1 + i % 2);
    }
    assert_int_equal(counts[PW_ADMITTED], 2);
    assert_int_equal(counts[PW_ADMIT_EXISTING], 16);
    assert_int_equal(counts[PW_ADMIT_CONFLICT], 2);
    assert_int_equal(kit_row(k, ops[0].admit.session_id).admitted, 2);
    kit_sound(k);
}

static void test_A4_reject_when_busy_looks_in_its_own_transaction(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s", "r1", "hello");
    op.admit.reject_when_busy = true;
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED); /* a new session is not busy */
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_EXISTING); /* A1 comes first */
    op = kit_admit(k, "s", "r2", "more");
    op.admit.reject_when_busy = true;
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_BUSY); /* a message waits */
    assert_int_equal(kit_row(k, op.admit.session_id).admitted, 1);
    int64_t id = kit_running(k, "t");
    op = kit_admit(k, "t", "r2", "more");
    op.admit.reject_when_busy = true;
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_BUSY); /* a turn runs */
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1);
    pw_op end = kit_append(k, id, 1, &e->append);
    kit_ok(k, &end);
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    pw_op pair[2] = {kit_admit(k, "u", "a", "x"), kit_admit(k, "u", "b", "x")};
    pair[0].admit.reject_when_busy = pair[1].admit.reject_when_busy = true;
    kit_run(k, pair, 2);
    assert_int_equal(pair[0].admit.answer, PW_ADMITTED);
    assert_int_equal(pair[1].admit.answer, PW_ADMIT_BUSY);
}

static void test_A7_order_and_positions(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    for (int i = 2; i <= 5; i++) {
        char request[3] = {'r', (char)('0' + i), '\0'};
        pw_op op = kit_admit(k, "s", request, "x");
        kit_ok(k, &op);
        assert_int_equal(op.admit.row.n, i);
        assert_int_equal(op.admit.row.position, i);
    }
    pw_op gone = kit_withdraw(k, "s", "r2");
    kit_ok(k, &gone);
    pw_op op = kit_read(k, PW_OP_MESSAGE, id);
    op.message.request_id = PW_STR("r4");
    kit_ok(k, &op);
    assert_int_equal(op.message.row.position, 3);
    op = kit_read(k, PW_OP_INBOX, id);
    op.inbox.limit = 3;
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 3);
    assert_true(op.inbox.inbox.more);
    assert_int_equal(op.inbox.inbox.looked_n, 5);
    assert_int_equal(op.inbox.inbox.rows[0].n, 1);
    assert_int_equal(op.inbox.inbox.rows[1].n, 3);
    assert_int_equal(op.inbox.inbox.rows[2].n, 4);
    assert_text(op.inbox.inbox.rows[0].body, "hello");
    op.inbox.limit = 4;
    kit_ok(k, &op);
    assert_false(op.inbox.inbox.more);
}

static void test_A7_admission_lowers_the_wake_and_never_raises_it(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s", "r1", "x");
    op.admit.due_at_ms = k->now_ms + 500;
    kit_ok(k, &op);
    int64_t id = op.admit.session_id;
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 500);
    op = kit_admit(k, "s", "r2", "x");
    op.admit.due_at_ms = k->now_ms + 900;
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 500);
    op = kit_admit(k, "s", "r3", "x");
    op.admit.due_at_ms = k->now_ms + 100;
    kit_ok(k, &op);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 100);
    op.admit.due_at_ms = 0;
    kit_ok(k, &op);
    assert_int_equal(op.admit.answer, PW_ADMIT_EXISTING);
    assert_int_equal(kit_row(k, id).wake_at_ms, k->now_ms + 100);
}

static void test_I3_withdrawing_a_pending_message(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    pw_op op = kit_withdraw(k, "s", "r1");
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDREW);
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_TWICE);
    pw_op read = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &read);
    assert_int_equal(read.inbox.inbox.count, 0);
    read = kit_read(k, PW_OP_MESSAGE, id);
    read.message.request_id = PW_STR("r1");
    kit_ok(k, &read);
    assert_int_equal(read.message.row.disposition, PW_WITHDRAWN);
    op = kit_withdraw(k, "s", "never");
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_NONE);
    op = kit_withdraw(k, "nowhere", "r1");
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_NONE);
}

static void test_I3_withdrawing_a_claimed_message_names_its_turn(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = kit_withdraw(k, "s", "r1");
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_CLAIMED);
    assert_text(op.withdraw.turn, "t1");
    assert_false(op.withdraw.ended);
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1);
    pw_op end = kit_append(k, id, 1, &e->append);
    kit_ok(k, &end);
    kit_ok(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_CLAIMED);
    assert_true(op.withdraw.ended);
}

static void test_I7_a_cancel_names_its_turn(void **state)
{
    kit *k = *state;
    pw_op op = kit_cancel(k, "nowhere", "t1");
    kit_ok(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_NONE);
    int64_t id = kit_running(k, "s");
    op = kit_cancel(k, "s", "t2");
    kit_ok(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_NONE);
    assert_int_equal(kit_row(k, id).admitted, 1);
    op = kit_cancel(k, "s", "t1");
    kit_ok(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_ADMITTED);
    assert_int_equal(op.cancel.session_id, id);
    assert_int_equal(op.cancel.turn_state, PW_TURN_RUNNING);
    kit_ok(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_TWICE);
    assert_int_equal(kit_row(k, id).admitted, 2);
    pw_op read = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &read);
    assert_int_equal(read.inbox.inbox.count, 1);
    assert_int_equal(read.inbox.inbox.rows[0].kind, PW_INBOX_CANCEL);
    assert_int_equal(read.inbox.inbox.rows[0].n, 2);
    assert_text(read.inbox.inbox.rows[0].request_id, "t1");
    assert_text(read.inbox.inbox.rows[0].body, "{\"reason\":\"user\"}");
}

static void test_I7_the_end_settles_every_cancel_of_its_turn(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op cancel = kit_cancel(k, "s", "t1");
    kit_ok(k, &cancel);
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1); /* which has not seen it */
    pw_op end = kit_append(k, id, 1, &e->append);
    kit_ok(k, &end);
    pw_op read = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &read);
    assert_int_equal(read.inbox.inbox.count, 0);
    kit_ok(k, &cancel);
    assert_int_equal(cancel.cancel.answer, PW_CANCEL_ENDED);
    assert_int_equal(cancel.cancel.turn_state, PW_TURN_COMPLETED);
    kit_sound(k);
}

static void test_I7_a_dropped_cancel_may_be_sent_again(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op cancel = kit_cancel(k, "s", "t1");
    kit_ok(k, &cancel);
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    e->consumed[e->append.consumed_count++] = (pw_consumed){2, PW_SETTLED};
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    cancel.cancel.body = PW_STR("{\"reason\":\"parent\"}");
    kit_ok(k, &cancel);
    assert_int_equal(cancel.cancel.answer, PW_CANCEL_ADMITTED);
    pw_op read = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &read);
    assert_int_equal(read.inbox.inbox.count, 1);
    assert_int_equal(read.inbox.inbox.rows[0].n, 3);
    assert_text(read.inbox.inbox.rows[0].body, "{\"reason\":\"parent\"}");
    kit_sound(k);
}

static void test_A8_text_with_zero_bytes_and_quotes_is_only_text(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s'; drop table pawl_inbox; --", "r%_,1,", "x");
    op.admit.body = (pw_str){"a\0b'\"%", 6};
    kit_ok(k, &op);
    pw_op read = kit_read(k, PW_OP_INBOX, op.admit.session_id);
    kit_ok(k, &read);
    assert_int_equal(read.inbox.inbox.rows[0].body.len, 6);
    assert_memory_equal(read.inbox.inbox.rows[0].body.ptr, "a\0b'\"%", 6);
    assert_text(read.inbox.inbox.rows[0].request_id, "r%_,1,");
}

static void test_admission_is_refused_when_it_makes_no_sense(void **state)
{
    kit *k = *state;
    kit_session(k, "s");
    pw_op ops[3] = {kit_admit(k, "a", "", "x"), kit_admit(k, "b", "r", "x"),
                    kit_admit(k, "c", "r", "x")};
    ops[1].admit.due_at_ms = -1;
    ops[2].admit.uid = PW_STR("uid-s"); /* another session's */
    kit_run(k, ops, 3);
    assert_status(ops[0], PW_INVALID);
    assert_status(ops[1], PW_INVALID);
    assert_status(ops[2], PW_CONFLICT);
    pw_op list = {
        .kind = PW_OP_SESSIONS, .arena = &k->arena, .sessions = {.principal = PW_STR("local")}};
    kit_ok(k, &list);
    assert_int_equal(list.sessions.count, 1);
}

const struct CMUnitTest admission_stories[] = {
    STORY(test_A1_accepted_then_existing_with_where_it_stands),
    STORY(test_A1_same_id_other_content_conflicts),
    STORY(test_A1_a_request_id_belongs_to_its_session),
    STORY(test_A1_another_agent_is_a_conflict_of_its_own),
    STORY(test_A1_answered_requests_are_existing_for_ever),
    STORY(test_A2_of_many_at_once_one_is_accepted),
    STORY(test_A4_reject_when_busy_looks_in_its_own_transaction),
    STORY(test_A7_order_and_positions),
    STORY(test_A7_admission_lowers_the_wake_and_never_raises_it),
    STORY(test_I3_withdrawing_a_pending_message),
    STORY(test_I3_withdrawing_a_claimed_message_names_its_turn),
    STORY(test_I7_a_cancel_names_its_turn),
    STORY(test_I7_the_end_settles_every_cancel_of_its_turn),
    STORY(test_I7_a_dropped_cancel_may_be_sent_again),
    STORY(test_A8_text_with_zero_bytes_and_quotes_is_only_text),
    STORY(test_admission_is_refused_when_it_makes_no_sense),
};
const size_t admission_stories_count = sizeof(admission_stories) / sizeof(admission_stories[0]);
