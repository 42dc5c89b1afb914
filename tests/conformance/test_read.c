/* Reading: it never fences, pages are in order, and what is not there is said so. J3, N4. */
#include "conformance/stories.h"

#include <pthread.h>

static void test_J3_reading_changes_nothing(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    for (int i = 0; i < 3; i++) {
        pw_op ops[] = {kit_read(k, PW_OP_SESSION, id), kit_read(k, PW_OP_RECORDS, id),
                       kit_read(k, PW_OP_INBOX, id), kit_read(k, PW_OP_TURNS, id),
                       kit_due(k, "you")};
        kit_run(k, ops, 5);
        for (int n = 0; n < 5; n++) {
            assert_status(ops[n], PW_OK);
        }
    }
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
}

static void test_what_is_not_there_is_said_so(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    pw_op ops[] = {kit_read(k, PW_OP_SESSION, 99), kit_read(k, PW_OP_RECORDS, 99),
                   kit_read(k, PW_OP_INBOX, 99),   kit_read(k, PW_OP_TURNS, 99),
                   kit_read(k, PW_OP_TURN, id),    kit_read(k, PW_OP_MESSAGE, id),
                   kit_read(k, PW_OP_SESSION, 0)};
    ops[4].turn.turn = PW_STR("t9");
    ops[5].message.request_id = PW_STR("r9");
    ops[6].session.principal = PW_STR("local");
    ops[6].session.session = PW_STR("none");
    for (int i = 0; i < 7; i++) {
        kit_run(k, &ops[i], 1);
        assert_status(ops[i], PW_NOT_FOUND);
    }
    pw_op op = kit_read(k, PW_OP_RECORDS, id);
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 0);
    op = kit_read(k, PW_OP_TURNS, id);
    kit_ok(k, &op);
    assert_int_equal(op.turns.count, 0);
    op = kit_read(k, PW_OP_SESSION, 0);
    op.session.principal = PW_STR("local");
    op.session.session = PW_STR("s");
    kit_ok(k, &op);
    assert_int_equal(op.session.row.id, id);
    assert_int_equal(op.session.row.epoch, 0);
    assert_int_equal(op.session.row.generation, 0);
    assert_false(op.session.row.owner_released);
    assert_int_equal(op.session.row.created_at_ms, k->now_ms);
    assert_int_equal(op.session.row.since_ms, k->now_ms);
}

static void test_M1_records_from_a_cursor(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    for (uint64_t seq = 2; seq <= 40; seq++) {
        kit_entry *e = kit_step(k, seq, seq % 2 == 0 ? "t1" : "t2", "tool:1:a");
        pw_op op = kit_append(k, id, 1, &e->append);
        kit_ok(k, &op);
    }
    pw_op op = kit_read(k, PW_OP_RECORDS, id);
    op.records.from_seq = 11;
    op.records.to_seq = 20;
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 10);
    assert_int_equal(op.records.records[0].seq, 11);
    op.records.limit = 3;
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 3);
    assert_int_equal(op.records.records[2].seq, 13);
    op.records.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 3);
    assert_int_equal(op.records.records[2].seq, 16);
    op.records = (__typeof__(op.records)){.session_id = id, .from_seq = 41};
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 0);
    op.records.from_seq = 0;
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 40);
}

static void test_N4_turns_by_page(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    static const char *const names[] = {"t9", "t3", "t7", "t1", "t5"};
    for (uint64_t i = 0; i < 5; i++) {
        kit_entry *e = kit_turn_opened(k, 2 * i + 1, names[i], 0, 0);
        kit_entry_record(k, e, 2 * i + 2, PW_RECORD_TURN_ENDED, names[i], "");
        e->append.turn_ended_seq = 2 * i + 2;
        e->append.turn_state = PW_TURN_FAILED;
        e->append.head.turn = PW_STR_NONE;
        pw_op op = kit_append(k, id, 1, &e->append);
        kit_ok(k, &op);
    }
    pw_op op = kit_read(k, PW_OP_TURNS, id);
    op.turns.limit = 2;
    kit_ok(k, &op);
    assert_int_equal(op.turns.count, 2);
    assert_text(op.turns.rows[0].turn, "t9");
    assert_int_equal(op.turns.rows[1].state, PW_TURN_FAILED);
    op.turns.after_seq = op.turns.rows[1].opened_seq;
    op.turns.limit = 0;
    kit_ok(k, &op);
    assert_int_equal(op.turns.count, 3);
    assert_text(op.turns.rows[0].turn, "t7");
    assert_text(op.turns.rows[2].turn, "t5");
    assert_int_equal(op.turns.rows[2].ended_seq, 10);
    kit_sound(k);
}

static void test_N4_sessions_by_page_and_filter(void **state)
{
    kit *k = *state;
    static const char *const names[] = {"delta", "alpha", "echo", "charlie", "bravo"};
    for (int i = 0; i < 5; i++) {
        pw_op op = kit_admit(k, names[i], "r1", "x");
        op.admit.agent = i == 2 ? PW_STR("sales") : PW_STR("ops");
        kit_ok(k, &op);
    }
    kit_running(k, "foxtrot");
    pw_op gone = kit_withdraw(k, "alpha", "r1");
    kit_ok(k, &gone);
    pw_op op = {
        .kind = PW_OP_SESSIONS, .arena = &k->arena, .sessions = {.principal = PW_STR("local")}};
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 6);
    assert_text(op.sessions.rows[0].name, "alpha");
    assert_text(op.sessions.rows[5].name, "foxtrot");
    op.sessions.limit = 2;
    op.sessions.after_name = PW_STR("bravo");
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 2);
    assert_text(op.sessions.rows[0].name, "charlie");
    assert_text(op.sessions.rows[1].name, "delta");
    op.sessions = (__typeof__(op.sessions)){.principal = PW_STR("local"), .agent = PW_STR("sales")};
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 1);
    op.sessions =
        (__typeof__(op.sessions)){.principal = PW_STR("local"), .status = PW_STR("running")};
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 1);
    assert_text(op.sessions.rows[0].turn, "t1");
    op.sessions.status = PW_STR("queued");
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 4);
    op.sessions.status = PW_STR("idle");
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 1);
    assert_text(op.sessions.rows[0].name, "alpha");
    op.sessions.status = PW_STR("quarantined");
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 0);
    op.sessions = (__typeof__(op.sessions)){.principal = PW_STR("else")};
    kit_ok(k, &op);
    assert_int_equal(op.sessions.count, 0);
}

static void test_every_cancel_comes_before_the_messages(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    for (int i = 0; i < 5; i++) {
        char request[3] = {'m', (char)('0' + i), '\0'};
        pw_op op = kit_admit(k, "s", request, "x");
        kit_ok(k, &op);
    }
    pw_op op = kit_cancel(k, "s", "t1");
    kit_ok(k, &op);
    op = kit_read(k, PW_OP_INBOX, id);
    op.inbox.limit = 2;
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 3);
    assert_int_equal(op.inbox.inbox.rows[0].kind, PW_INBOX_CANCEL);
    assert_int_equal(op.inbox.inbox.rows[1].n, 2);
    assert_int_equal(op.inbox.inbox.rows[2].n, 3);
    assert_true(op.inbox.inbox.more);
    assert_int_equal(op.inbox.inbox.looked_n, 7);
    op.inbox.limit = 0;
    kit_ok(k, &op);
    assert_int_equal(op.inbox.inbox.count, 6);
    assert_false(op.inbox.inbox.more);
}

typedef struct reading {
    pw_store *store;
    int64_t id;
    bool stop;
    size_t reads;
    const char *trouble;
} reading;

static void *read_all_the_time(void *ctx)
{
    reading *r = ctx;
    pw_arena arena;
    uint64_t last = 0;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
        pw_op ops[2] = {{.kind = PW_OP_SESSION, .arena = &arena, .session = {.session_id = r->id}},
                        {.kind = PW_OP_RECORDS, .arena = &arena, .records = {.session_id = r->id}}};
        pw_store_execute(r->store, ops, 2);
        if (ops[0].status != PW_OK || ops[1].status != PW_OK) {
            r->trouble = "a read failed";
        } else if (ops[0].session.row.last_seq != ops[1].records.count) {
            r->trouble = "a batch of reads saw two moments";
        } else if (ops[1].records.count < last) {
            r->trouble = "a later read saw less";
        }
        last = ops[1].records.count;
        r->reads++;
        pw_arena_reset(&arena);
    }
    pw_arena_free(&arena);
    return NULL;
}

static void test_J3_reads_from_other_threads_while_writing(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    reading readers[6];
    pthread_t threads[6];
    for (int i = 0; i < 6; i++) {
        readers[i] = (reading){.store = k->store, .id = id};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]), 0);
    }
    for (uint64_t seq = 2; seq <= 101; seq++) {
        kit_entry *e = kit_step(k, seq, "t1", "tool:1:a");
        pw_op op = kit_append(k, id, 1, &e->append);
        kit_ok(k, &op);
    }
    for (int i = 0; i < 6; i++) {
        __atomic_store_n(&readers[i].stop, true, __ATOMIC_RELEASE);
        pthread_join(threads[i], NULL);
        if (readers[i].trouble != NULL) {
            fail_msg("%s", readers[i].trouble);
        }
    }
    kit_sound(k);
}

static void test_verify_and_rebuild_leave_a_sound_store(void **state)
{
    kit *k = *state;
    int64_t a = kit_running(k, "a");
    int64_t b = kit_running(k, "b");
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1);
    pw_op op = kit_append(k, b, 1, &e->append);
    kit_ok(k, &op);
    kit_sound(k);
    op = (pw_op){.kind = PW_OP_VERIFY, .arena = &k->arena, .verify = {.rebuild = true}};
    kit_ok(k, &op);
    assert_int_equal(op.verify.faults, 0);
    op = kit_read(k, PW_OP_TURN, b);
    op.turn.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.turn.row.opened_seq, 1);
    assert_int_equal(op.turn.row.ended_seq, 2);
    assert_int_equal(op.turn.row.state, PW_TURN_COMPLETED);
    op = kit_read(k, PW_OP_TURN, a);
    op.turn.turn = PW_STR("t1");
    kit_ok(k, &op);
    assert_int_equal(op.turn.row.state, PW_TURN_RUNNING);
}

static void test_traits_and_urls(void **state)
{
    kit *k = *state;
    pw_store_traits traits = pw_store_traits_get(k->store);
    assert_string_equal(traits.name, kit_scheme);
    assert_non_null(traits.version);
    assert_int_equal(traits.value_limit, -1);
    assert_false(pw_store_changed(k->store));
    pw_store *store = NULL;
    static const char *const bad[] = {
        "", "postgres://x", "sqlite:", "sqlite::memory:", "memory:x", "sqlit"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pw_error error = {0};
        pw_store_options options = {.url = pw_str_from(bad[i]), .allocator = &pw_heap};
        assert_int_equal(pw_store_open(&options, &store, &error), PW_INVALID);
        assert_int_equal(error.code, PW_INVALID);
        assert_true(error.message[0] != '\0');
    }
    assert_null(store);
    pw_store_close(NULL);
    pw_store_execute(k->store, NULL, 0);
}

const struct CMUnitTest read_stories[] = {
    STORY(test_J3_reading_changes_nothing),
    STORY(test_what_is_not_there_is_said_so),
    STORY(test_M1_records_from_a_cursor),
    STORY(test_N4_turns_by_page),
    STORY(test_N4_sessions_by_page_and_filter),
    STORY(test_every_cancel_comes_before_the_messages),
    STORY(test_J3_reads_from_other_threads_while_writing),
    STORY(test_verify_and_rebuild_leave_a_sound_store),
    STORY(test_traits_and_urls),
};
const size_t read_stories_count = sizeof(read_stories) / sizeof(read_stories[0]);
