/*
 * The statements themselves: each fits the schema, none that runs often walks a whole table, and an
 * append is safe with a host that runs all its statements without looking between them.
 */
#include "conformance/kit.h"
#include "store/sql.h"

#include <sqlite3.h>
#include <stdio.h>

static sqlite3 *open_raw(const kit *k)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(k->url + strlen("sqlite:"), &db), SQLITE_OK);
    return db;
}

static void test_every_statement_fits_the_schema(void **state)
{
    kit *k = *state;
    sqlite3 *db = open_raw(k);
    for (int id = 0; id < PW_SQL_COUNT; id++) {
        sqlite3_stmt *s = NULL;
        assert_non_null(pw_sql_text[id]);
        if (sqlite3_prepare_v2(db, pw_sql_text[id], -1, &s, NULL) != SQLITE_OK) {
            fail_msg("statement %d: %s", id, sqlite3_errmsg(db));
        }
        assert_true(sqlite3_bind_parameter_count(s) <= PW_SQL_MAX_PARAMS);
        assert_true(sqlite3_column_count(s) <= PW_SQL_MAX_CELLS);
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
}

/* Tables that grow are only searched. Owners are few; VERIFY and REBUILD read everything. */
static void test_N4_nothing_that_runs_often_walks_a_table(void **state)
{
    kit *k = *state;
    static const char *const large[] = {"pawl_sessions",
                                        "pawl_inbox",
                                        "pawl_journal",
                                        "pawl_turns",
                                        "pawl_blobs",
                                        "s",
                                        "i",
                                        "j",
                                        "t",
                                        "p"};
    sqlite3 *db = open_raw(k);
    for (int id = 0; id < PW_SQL_REBUILD_CLEAR; id++) {
        char sql[4096];
        sqlite3_stmt *s = NULL;
        snprintf(sql, sizeof(sql), "explain query plan %s", pw_sql_text[id]);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
        while (sqlite3_step(s) == SQLITE_ROW) {
            const char *line = (const char *)sqlite3_column_text(s, 3);
            for (size_t i = 0;
                 strncmp(line, "SCAN ", 5) == 0 && i < sizeof(large) / sizeof(large[0]); i++) {
                size_t len = strlen(large[i]);
                if (strncmp(line + 5, large[i], len) == 0 &&
                    (line[5 + len] == '\0' || line[5 + len] == ' ')) {
                    fail_msg("statement %d: %s\n%s", id, line, pw_sql_text[id]);
                }
            }
            if ((id == PW_SQL_DUE || id == PW_SQL_DUE_NEXT) && strstr(line, "wake_at") != NULL) {
                assert_non_null(strstr(line, "pawl_sessions_wake (wake_at"));
            }
        }
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
}

typedef struct asked { /* a statement kept for later */
    pw_sql_id id;
    pw_sql_value params[PW_SQL_MAX_PARAMS];
    size_t count;
} asked;

/* A host that gets all statements first and runs them in one go. */
static void run_blind(kit *k, sqlite3 *db, pw_op *op)
{
    pw_sql_run run;
    pw_sql_statement st;
    asked list[24];
    size_t count = 0;
    assert_int_equal(pw_op_begin(op), PW_OK);
    pw_sql_start(&run, op, &k->arena);
    run.blind = true;
    while (pw_sql_next(&run, &st)) {
        assert_true(count < 24);
        list[count].id = st.id;
        list[count].count = st.count;
        memcpy(list[count++].params, st.params, st.count * sizeof(*st.params));
    }
    assert_int_equal(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    for (size_t i = 0; i < count; i++) {
        sqlite3_stmt *s = NULL;
        assert_int_equal(sqlite3_prepare_v2(db, pw_sql_text[list[i].id], -1, &s, NULL), SQLITE_OK);
        for (size_t p = 0; p < list[i].count; p++) {
            const pw_sql_value *v = &list[i].params[p];
            int at = (int)p + 1;
            if (v->type == PW_SQL_INTEGER) {
                sqlite3_bind_int64(s, at, v->number);
            } else if (v->type == PW_SQL_TEXT) {
                sqlite3_bind_text(s, at, v->text.ptr, (int)v->text.len, SQLITE_STATIC);
            } else if (v->type == PW_SQL_BYTES) {
                sqlite3_bind_blob(s, at, v->text.ptr, (int)v->text.len, SQLITE_STATIC);
            }
        }
        while (sqlite3_step(s) == SQLITE_ROW) {
            pw_sql_value cells[PW_SQL_MAX_CELLS];
            for (int c = 0; c < sqlite3_column_count(s); c++) { /* a host that only has text */
                cells[c] = (pw_sql_value){.type = PW_SQL_NULL, .text = {"", 0}};
                if (sqlite3_column_type(s, c) != SQLITE_NULL) {
                    cells[c].type = PW_SQL_TEXT;
                    cells[c].text = pw_str_from((const char *)sqlite3_column_text(s, c));
                }
            }
            pw_sql_row(&run, cells, (size_t)sqlite3_column_count(s));
        }
        assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
    }
    assert_int_equal(sqlite3_exec(db, "commit", NULL, NULL, NULL), SQLITE_OK);
    pw_sql_end(&run);
}

static void test_J1_a_blind_host_refuses_whole_appends(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op cancel = kit_cancel(k, "s", "t1");
    kit_ok(k, &cancel);
    sqlite3 *db = open_raw(k);
    pw_hash hash = pw_sha256_of(PW_STR("{}"));
    kit_entry *e = kit_turn_ended(k, 3, "t1", 2);
    e->append.record_count = 0;
    kit_entry_record(k, e, 2, PW_RECORD_TOOL_COMPLETED, "t1", "tool:1:a");
    kit_entry_record(k, e, 3, PW_RECORD_TURN_ENDED, "t1", "");
    e->blobs[0] = (pw_blob){pw_hash_to_hex(&hash), PW_STR("{}")};
    e->append.blob_count = 1;
    e->consumed[0] = (pw_consumed){1, PW_SETTLED}; /* claimed long ago */
    e->append.consumed_count = 1;
    pw_op op = kit_append(k, id, 1, &e->append);
    run_blind(k, db, &op);
    assert_status(op, PW_STALE);
    e->append.consumed_count = 0;
    op = kit_append(k, id, 7, &e->append);
    run_blind(k, db, &op);
    assert_status(op, PW_FENCED);
    op = kit_append(k, 99, 1, &e->append);
    run_blind(k, db, &op);
    assert_status(op, PW_FENCED);
    pw_session_row row = kit_row(k, id);
    assert_int_equal(row.last_seq, 1);
    assert_text(row.turn, "t1");
    assert_true(row.owner.len > 0);
    pw_op blob = {.kind = PW_OP_BLOB,
                  .arena = &k->arena,
                  .blob = {.hash = pw_str_from(e->blobs[0].hash.text)}};
    kit_run(k, &blob, 1);
    assert_status(blob, PW_NOT_FOUND);
    e->consumed[0] = (pw_consumed){2, PW_SETTLED};
    e->append.consumed_count = 1;
    op = kit_append(k, id, 1, &e->append);
    run_blind(k, db, &op);
    assert_status(op, PW_OK);
    row = kit_row(k, id);
    assert_int_equal(row.last_seq, 3);
    assert_int_equal(row.turn.len, 0);
    kit_ok(k, &blob);
    pw_op inbox = kit_read(k, PW_OP_INBOX, id);
    kit_ok(k, &inbox);
    assert_int_equal(inbox.inbox.inbox.count, 0);
    sqlite3_close(db);
    kit_sound(k);
}

static void test_numbers_may_come_as_text(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    sqlite3 *db = open_raw(k);
    pw_op op = kit_read(k, PW_OP_SESSION, id);
    run_blind(k, db, &op);
    assert_status(op, PW_OK);
    assert_int_equal(op.session.row.epoch, 1);
    assert_int_equal(op.session.row.created_at_ms, k->now_ms);
    assert_int_equal(op.session.row.last_seq, 1);
    sqlite3_close(db);
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
int main(void)
{
    kit_scheme = "sqlite";
    const struct CMUnitTest tests[] = {
        STORY(test_every_statement_fits_the_schema),
        STORY(test_N4_nothing_that_runs_often_walks_a_table),
        STORY(test_J1_a_blind_host_refuses_whole_appends),
        STORY(test_numbers_may_come_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
