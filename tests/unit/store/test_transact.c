/* Transactional tools on SQLite and on the memory store that pretends: D2. */
#include "conformance/kit.h"
#include "store/memory.h"

#include <sqlite3.h>
#include <stdio.h>

typedef struct tool {
    const char *sql; /* several statements; each is tried whatever became of the one before */
    pw_status answer;
    int first_error;
    bool leave_open; /* a statement that still runs */
    sqlite3_stmt *open;
    int calls;
} tool;

static void run_sql(tool *t, sqlite3 *db)
{
    const char *sql = t->sql;
    while (sql != NULL && *sql != '\0') {
        sqlite3_stmt *s = NULL;
        const char *tail = "";
        int rc = sqlite3_prepare_v2(db, sql, -1, &s, &tail);
        while (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        }
        int done = sqlite3_finalize(s);
        rc = rc == SQLITE_OK ? done : rc;
        if (rc != SQLITE_OK && t->first_error == SQLITE_OK) {
            t->first_error = rc;
        }
        if (tail == sql || (rc != SQLITE_OK && *tail == '\0')) {
            tail = strchr(sql, ';') != NULL ? strchr(sql, ';') + 1 : "";
        }
        sql = tail;
    }
}

static pw_status run(void *ctx, void *handle, pw_arena *arena, pw_str *ret_body)
{
    tool *t = ctx;
    t->calls++;
    run_sql(t, handle);
    if (t->leave_open) {
        sqlite3_prepare_v2(handle, "insert into app(x) values(90), (91) returning x", -1, &t->open,
                           NULL);
        sqlite3_step(t->open);
    }
    return t->answer != PW_OK ? t->answer
                              : pw_arena_dup(arena, PW_STR("{\"v\":1,\"result\":7}"), ret_body);
}

static const pw_receipt receipt = {.record = 0};

static pw_transact call(kit *k, int64_t id, uint64_t epoch, uint64_t seq, tool *t)
{
    kit_entry *e = kit_step(k, seq, "t1", "tool:1:a");
    e->records[0].body = PW_STR("hole");
    pw_transact x = {.session_id = id,
                     .epoch = epoch,
                     .append = &e->append,
                     .receipt = &receipt,
                     .limit_ms = 2000,
                     .arena = &k->arena,
                     .run = run,
                     .ctx = t};
    pw_store_transact(k->store, &x);
    return x;
}

static int64_t app_count(kit *k)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    char path[128];
    snprintf(path, sizeof(path), "%s/pawl.db", k->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    int64_t count = -1;
    if (sqlite3_prepare_v2(db, "select count(*) from app", -1, &s, NULL) == SQLITE_OK) {
        sqlite3_step(s);
        count = sqlite3_column_int64(s, 0);
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
    return count;
}

static int64_t with_app(kit *k)
{
    int64_t id = kit_running(k, "s");
    tool t = {.sql = "create table app(x integer primary key, y text)"};
    pw_transact x = call(k, id, 1, 2, &t);
    assert_status(x, PW_OK);
    return id;
}

static void test_D2_writes_and_receipt_commit_together(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    tool t = {.sql = "insert into app(x) values(1); insert into app(x) values(2)"};
    pw_transact x = call(k, id, 1, 3, &t);
    assert_status(x, PW_OK);
    assert_text(x.body, "{\"v\":1,\"result\":7}");
    assert_false(x.limit_passed);
    assert_int_equal(app_count(k), 2);
    kit_reopen(k);
    pw_op op = kit_read(k, PW_OP_RECORDS, id);
    op.records.from_seq = 3;
    kit_ok(k, &op);
    assert_int_equal(op.records.count, 1);
    assert_text(op.records.records[0].body, "{\"v\":1,\"result\":7}");
    assert_int_equal(app_count(k), 2);
    kit_sound(k);
}

static void test_D2_a_failed_tool_is_undone(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    tool t = {.sql = "insert into app(x) values(1)", .answer = PW_INVALID};
    pw_transact x = call(k, id, 1, 3, &t);
    assert_status(x, PW_INVALID);
    assert_false(x.limit_passed);
    assert_int_equal(app_count(k), 0);
    assert_int_equal(kit_row(k, id).last_seq, 2);
    t.answer = PW_OK;
    x = call(k, id, 1, 3, &t);
    assert_status(x, PW_OK);
    assert_int_equal(app_count(k), 1);
}

static void test_D2_fenced_or_stale_before_it_runs(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    tool t = {.sql = "insert into app(x) values(1)"};
    pw_transact x = call(k, id, 9, 3, &t);
    assert_status(x, PW_FENCED);
    x = call(k, id, 1, 2, &t);
    assert_status(x, PW_FENCED);
    kit_entry *e = kit_step(k, 3, "t1", "tool:1:a");
    e->consumed[0] = (pw_consumed){1, PW_SETTLED};
    e->append.consumed_count = 1;
    x.append = &e->append;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_STALE);
    assert_int_equal(t.calls, 0);
    pw_receipt beyond = {.record = 1};
    x.receipt = &beyond;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_INVALID);
    assert_int_equal(app_count(k), 0);
}

static void test_D2_what_a_tool_may_not_say(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    static const char *const refused[] = {
        "commit",
        "rollback",
        "end",
        "begin",
        "savepoint x",
        "release x",
        "rollback to x",
        "attach 'x' as x",
        "detach x",
        "pragma synchronous = off",
        "pragma writable_schema = 1",
        "vacuum",
        "insert into pawl_journal select * from pawl_journal",
        "update pawl_sessions set epoch = 9",
        "delete from pawl_inbox",
        "insert into PAWL_meta values('x', 'y')",
        "create table pawl_mine(x)",
        "drop table pawl_turns",
        "alter table pawl_turns add column x",
        "drop view pawl_view_turns",
        "create index mine on pawl_journal(at)",
        "drop index pawl_journal_seq",
        "create trigger t after insert on pawl_journal begin delete from app; end",
        "create temp trigger t after insert on pawl_journal begin delete from app; end",
        ("create trigger u after insert on app begin delete from pawl_turns; end; insert into "
         "app(x) values(1)"),
        "create temp table pawl_sessions(x)",
        "reindex pawl_journal",
        "analyze pawl_journal",
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        tool t = {.sql = refused[i], .answer = PW_INVALID};
        pw_transact x = call(k, id, 1, 3, &t);
        assert_status(x, PW_INVALID);
        if (t.first_error == SQLITE_OK) {
            fail_msg("not refused: %s", refused[i]);
        }
    }
    tool t = {
        .sql =
            "select * from pawl_sessions; with recursive c(n) as (select 1 union all select n + 1 "
            "from c where n < 5) insert into app(x, y) select n, upper('a') from c; "
            "create index app_y on app(y); create temp table mine(x); update app set y = 'b'; "
            "delete from app where x = 5"};
    pw_transact x = call(k, id, 1, 3, &t);
    assert_status(x, PW_OK);
    assert_int_equal(t.first_error, SQLITE_OK);
    assert_int_equal(app_count(k), 4);
    kit_sound(k);
}

static void test_D2_over_its_limit_it_is_undone(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    tool t = {
        .sql =
            "insert into app(x) values(1); with recursive c(n) as (select 1 union all select n + 1 "
            "from c) select max(n) from c"};
    kit_entry *e = kit_step(k, 3, "t1", "tool:1:a");
    pw_transact x = {.session_id = id,
                     .epoch = 1,
                     .append = &e->append,
                     .receipt = &receipt,
                     .limit_ms = 60,
                     .arena = &k->arena,
                     .run = run,
                     .ctx = &t};
    pw_store_transact(k->store, &x);
    assert_status(x, PW_TIMEOUT);
    assert_true(x.limit_passed);
    assert_int_equal(t.first_error, SQLITE_INTERRUPT);
    assert_int_equal(app_count(k), 0);
    assert_int_equal(kit_row(k, id).last_seq, 2);
}

static void test_D2_a_lost_transaction_is_undone_whole(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    /* the second insert rolls everything back; the third would be a commit of its own */
    tool t = {.sql = "insert into app(x) values(1); insert or rollback into app(x) values(1); "
                     "insert into app(x) values(2)"};
    pw_transact x = call(k, id, 1, 3, &t);
    assert_status(x, PW_TIMEOUT);
    assert_true(x.limit_passed);
    assert_int_equal(app_count(k), 0);
    assert_int_equal(kit_row(k, id).last_seq, 2);
    tool raise = {.sql = "create trigger guard before insert on app when new.x = 13 begin "
                         "select raise(rollback, 'no'); end"};
    x = call(k, id, 1, 3, &raise);
    assert_status(x, PW_OK);
    t = (tool){.sql = "insert into app(x) values(1); insert into app(x) values(13); insert into "
                      "app(x) values(3)"};
    x = call(k, id, 1, 4, &t);
    assert_status(x, PW_TIMEOUT);
    assert_int_equal(app_count(k), 0);
    t = (tool){.sql = "insert into app(x) values(1)"};
    x = call(k, id, 1, 4, &t);
    assert_status(x, PW_OK);
    assert_int_equal(app_count(k), 1);
    kit_sound(k);
}

static void test_D2_a_statement_left_running_does_no_harm(void **state)
{
    kit *k = *state;
    int64_t id = with_app(k);
    tool t = {.leave_open = true};
    pw_transact x = call(k, id, 1, 3, &t);
    assert_status(x, PW_OK);
    assert_int_equal(app_count(k), 2);
    sqlite3_finalize(t.open);
    t = (tool){.leave_open = true, .answer = PW_INVALID};
    x = call(k, id, 1, 4, &t);
    assert_status(x, PW_INVALID);
    sqlite3_finalize(t.open);
    kit_entry *e = kit_step(k, 4, "t1", "tool:1:b");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
}

static pw_status world_run(void *ctx, void *handle, pw_arena *arena, pw_str *ret_body)
{
    const tool *t = ctx;
    assert_int_equal(pw_memory_world_add(handle, PW_STR("paid"), 5), PW_OK);
    assert_int_equal(pw_memory_world_add(handle, PW_STR("paid"), 2), PW_OK);
    return t->answer != PW_OK ? t->answer : pw_arena_dup(arena, PW_STR("{}"), ret_body);
}

static pw_memory_fault next_fault;
static pw_memory_fault fault(void *ctx, const pw_op *ops, size_t count)
{
    pw_memory_fault now = next_fault;
    (void)ctx;
    (void)ops;
    (void)count;
    next_fault = PW_MEMORY_FAULT_NONE;
    return now;
}

static void test_D2_the_memory_world_is_part_of_the_transaction(void **state)
{
    kit *k = *state;
    pw_store *sqlite = k->store;
    k->store = kit_open("memory:");
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "me");
    kit_ok(k, &join);
    int64_t id = kit_running(k, "s");
    tool t = {0};
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_transact x = {.session_id = id,
                     .epoch = 1,
                     .append = &e->append,
                     .receipt = &receipt,
                     .limit_ms = 10,
                     .arena = &k->arena,
                     .run = world_run,
                     .ctx = &t};
    pw_store_transact(k->store, &x);
    assert_status(x, PW_UNSUPPORTED); /* D2: a store without transactions refuses */
    pw_store_memory_set_transactions(k->store, true);
    pw_store_memory_fault(k->store, fault, NULL);
    t.answer = PW_TIMEOUT;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_TIMEOUT);
    assert_true(x.limit_passed);
    t.answer = PW_OK;
    next_fault = PW_MEMORY_FAULT_REFUSED;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_NOT_COMMITTED);
    next_fault = PW_MEMORY_FAULT_UNKNOWN_NOT_DONE;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_UNKNOWN);
    assert_int_equal(pw_store_memory_world_get(k->store, PW_STR("paid")), 0);
    assert_int_equal(kit_row(k, id).last_seq, 1);
    next_fault = PW_MEMORY_FAULT_UNKNOWN_DONE;
    pw_store_transact(k->store, &x);
    assert_status(x, PW_UNKNOWN);
    assert_int_equal(x.body.len, 0);
    assert_int_equal(pw_store_memory_world_get(k->store, PW_STR("paid")), 7);
    assert_int_equal(kit_row(k, id).last_seq, 2);
    pw_store_transact(k->store, &x);
    assert_status(x, PW_FENCED); /* that seq is there */
    pw_store_close(k->store);
    k->store = sqlite;
}

static void test_J4_the_memory_store_fails_before_after_and_unknown(void **state)
{
    kit *k = *state;
    pw_store *sqlite = k->store;
    k->store = kit_open("memory:");
    pw_store_memory_fault(k->store, fault, NULL);
    pw_op ops[2] = {kit_admit(k, "s", "r1", "x"), kit_admit(k, "t", "r1", "x")};
    static const pw_memory_fault faults[] = {
        PW_MEMORY_FAULT_REFUSED, PW_MEMORY_FAULT_UNKNOWN_NOT_DONE, PW_MEMORY_FAULT_UNKNOWN_DONE};
    for (int i = 0; i < 3; i++) {
        next_fault = faults[i];
        kit_run(k, ops, 2);
        for (int n = 0; n < 2; n++) {
            assert_status(ops[n], i == 0 ? PW_NOT_COMMITTED : PW_UNKNOWN);
            assert_int_equal(ops[n].error.code, PW_IO);
            assert_int_equal(ops[n].admit.row.n, 0); /* a commit is never inferred */
        }
        pw_op read = kit_read(k, PW_OP_SESSION, 2);
        next_fault = PW_MEMORY_FAULT_NONE;
        kit_run(k, &read, 1);
        assert_status(read, i == 2 ? PW_OK : PW_NOT_FOUND);
    }
    kit_run(k, ops, 2);
    assert_int_equal(ops[1].admit.answer, PW_ADMIT_EXISTING);
    pw_store_close(k->store);
    k->store = sqlite;
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
int main(void)
{
    kit_scheme = "sqlite";
    const struct CMUnitTest tests[] = {
        STORY(test_D2_writes_and_receipt_commit_together),
        STORY(test_D2_a_failed_tool_is_undone),
        STORY(test_D2_fenced_or_stale_before_it_runs),
        STORY(test_D2_what_a_tool_may_not_say),
        STORY(test_D2_over_its_limit_it_is_undone),
        STORY(test_D2_a_lost_transaction_is_undone_whole),
        STORY(test_D2_a_statement_left_running_does_no_harm),
        STORY(test_D2_the_memory_world_is_part_of_the_transaction),
        STORY(test_J4_the_memory_store_fails_before_after_and_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
