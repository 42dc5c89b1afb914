/* SQL tools: binding, results, errors, limits; and what declarations of all kinds are refused for.
 */
#include <sqlite3.h>
#include <unistd.h>

#include "base/format.h"
#include "base/heap.h"
#include "bench.h"
#include "support/failing_allocator.h"

static sqlite3 *open_db(const char *path)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static pw_tool_outcome transact(bench *b, sqlite3 *db, const char *sql_json, const char *arguments)
{
    char text[4096];
    pw_format(text, sizeof text,
              "{\"name\":\"x\",\"kind\":\"sql\",\"effects\":\"transactional\",\"sql\":%s}",
              sql_json);
    const pw_tool_call call = bench_call(bench_tool(b, text), arguments, 1);
    pw_tool_outcome end;
    assert_int_equal(
        pw_tool_transact(b->runner, &call, &bench_place, db, PAWL_SQLITE, &b->arena, &end), PW_OK);
    return end;
}

static void test_D2_statements_run_in_order_and_the_last_rows_are_the_result(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    sqlite3 *db = open_db(":memory:");
    pw_tool_outcome end =
        transact(&b, db,
                 "[\"create table if not exists o (id integer primary key, item text); -- c\","
                 "\"insert into o (item) values (:item) returning id, item\"]",
                 "{\"item\":\"oak 'tray'\"}");
    assert_text(end.json, "{\"rows\":[{\"id\":1,\"item\":\"oak 'tray'\"}]}");
    end = transact(
        &b, db, "\"insert into o (item) values (:item); insert into o (item) select item from o;\"",
        "{}");
    assert_text(end.json, "{\"changes\":3}");
    end = transact(
        &b, db, "\"select count(*) n, max(item) n from o; update o set item = 'z' where id = 1\"",
        "{}");
    assert_text(end.json, "{\"rows\":[{\"n\":4,\"n_2\":\"oak 'tray'\"}]}");
    assert_text(transact(&b, db, "\"select id from o where id > 99\"", "{}").json, "{\"rows\":[]}");
    assert_text(transact(&b, db, "\"create table t2 (a)\"", "{}").json, "{\"changes\":0}");
    sqlite3_close(db);
    bench_close(&b);
}

static void test_C8_values_go_in_and_out_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *type, *result;
    } rows[] = {
        {"null", "null", "null"},
        {"true", "integer", "1"},
        {"false", "integer", "0"},
        {"9223372036854775807", "integer", "9223372036854775807"},
        {"-9223372036854775808", "integer", "-9223372036854775808"},
        {"9223372036854775808", "text", "\"9223372036854775808\""},
        {"0.1", "real", "0.1"},
        {"1e3", "real", "1000.0"},
        {"5e-324", "real", "4.94065645841247e-324"},
        {"0.30000000000000004", "real", "0.30000000000000004"},
        {"-0.0", "real", "-0.0"},
        {"1e999", "real", "\"Infinity\""},
        {"\"a\\u0000b\\\"\"", "text",
         "\"a\xEF\xBF\xBD"
         "b\\\"\""},
        {"[1, {\"a\": 2.50}]", "text", "\"[1, {\\\"a\\\": 2.50}]\""},
    };
    bench b;
    bench_open(&b, NULL);
    sqlite3 *db = open_db(":memory:");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char arguments[200], expected[200];
        pw_format(arguments, sizeof arguments, "{\"v\":%s}", rows[i].argument);
        pw_format(expected, sizeof expected, "{\"rows\":[{\"t\":\"%s\",\"v\":%s}]}", rows[i].type,
                  rows[i].result);
        assert_text(transact(&b, db, "\"select typeof(:v) t, :v v\"", arguments).json, expected);
    }
    assert_text(transact(&b, db,
                         "\"select x'00ff10' b, x'' e, x'0102' two, cast(x'61ff' as text) t\"",
                         "{}")
                    .json,
                "{\"rows\":[{\"b\":{\"base64\":\"AP8Q\"},\"e\":{\"base64\":\"\"},"
                "\"two\":{\"base64\":\"AQI=\"},\"t\":\"a\xEF\xBF\xBD\"}]}");
    assert_text(transact(&b, db, "\"select :gone is null g\"", "{}").json,
                "{\"rows\":[{\"g\":1}]}");
    sqlite3_close(db);
    bench_close(&b);
}

static void test_F1_sql_error_is_what_the_model_reads(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    sqlite3 *db = open_db(":memory:");
    transact(&b, db, "\"create table o (item text not null unique)\"", "{}");
    transact(&b, db, "\"insert into o values ('a')\"", "{}");
    pw_tool_outcome end = transact(&b, db, "\"insert into o values (:i)\"", "{\"i\":\"a\"}");
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.error_class, "SQLError");
    assert_text(end.message, "UNIQUE constraint failed: o.item");
    assert_text(transact(&b, db, "\"insert into o values (:i)\"", "{}").message,
                "NOT NULL constraint failed: o.item");
    assert_text(transact(&b, db, "\"selec 1\"", "{}").message, "near \"selec\": syntax error");
    sqlite3_close(db);
    const pw_tool_call call = bench_call(
        bench_tool(&b, "{\"name\":\"x\",\"kind\":\"sql\",\"sql\":\"select 1\"}"), "{}", 1);
    assert_int_equal(pw_tool_transact(b.runner, &call, &bench_place, NULL, 0, &b.arena, &end),
                     PW_OK);
    assert_int_equal(end.kind, PW_TOOL_FATAL); /* a store without transactions */
    bench_close(&b);
}

static void test_rows_are_capped_and_say_so(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    sqlite3 *db = open_db(":memory:");
    const char *count = "\"with recursive c(n) as (select 1 union all select n + 1 from c limit :l)"
                        " select n from c\"";
    pw_tool_outcome end = transact(&b, db, count, "{\"l\":1000}");
    assert_true(pw_str_ends(end.json, PW_STR("{\"n\":1000}]}")));
    end = transact(&b, db, count, "{\"l\":1001}");
    assert_true(pw_str_ends(
        end.json, PW_STR("{\"n\":1000}],\"truncated\":\"only the first 1000 rows are here\"}")));
    end = transact(
        &b, db, "\"select 1 a union all select 2 union all select hex(zeroblob(4000000))\"", "{}");
    assert_text(end.json, "{\"rows\":[{\"a\":1},{\"a\":2}],"
                          "\"truncated\":\"only the first 2 rows are here\"}");
    sqlite3_close(db);
    bench_close(&b);
}

/* --- Read-only -------------------------------------------------------------------------------- */

static char path[64];

static void open_file(bench *b)
{
    pw_format(path, sizeof path, "/tmp/pawl-test-sql-%d", (int)getpid());
    unlink(path);
    sqlite3 *db = open_db(path);
    assert_int_equal(sqlite3_exec(db,
                                  "pragma journal_mode = wal; create table o (n);"
                                  "insert into o values (1), (2)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    bench_open(b, &(pw_tool_host){.store_path = pw_str_from(path)});
}

static pw_tool_outcome read_only(bench *b, const char *sql)
{
    char text[1024];
    pw_format(text, sizeof text,
              "{\"name\":\"x\",\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\"%s\"}", sql);
    return bench_run(b, bench_tool(b, text), "{\"n\":2}");
}

static void test_sql_without_effects_reads_and_cannot_write(void **state)
{
    (void)state;
    bench b;
    open_file(&b);
    assert_text(read_only(&b, "select n from o where n = :n").json, "{\"rows\":[{\"n\":2}]}");
    pw_tool_outcome end = read_only(&b, "insert into o values (3)");
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.message, "attempt to write a readonly database");
    assert_text(read_only(&b, "pragma query_only = 0").message, "not authorized");
    assert_text(read_only(&b, "attach '/tmp/other' as o").message, "not authorized");
    assert_text(read_only(&b, "begin").message, "not authorized");
    bench_close(&b);
    unlink(path);
}

static const char *const endless =
    "{\"name\":\"x\",\"kind\":\"sql\",\"effects\":\"none\",\"limit_ms\":%d,\"sql\":"
    "\"with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c\"}";

static void test_D6_reading_sql_ends_when_asked_and_at_its_limit(void **state)
{
    (void)state;
    bench b;
    open_file(&b);
    char text[400];
    uint64_t call = 0;
    pw_format(text, sizeof text, endless, 60000);
    assert_int_equal(bench_start(&b, bench_tool(&b, text), "{}", &call, NULL), PW_OK);
    assert_false(bench_wait(&b, 1, 20));
    pw_tool_abort(b.runner, call, true);
    assert_true(bench_wait(&b, 1, 5000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    assert_true(b.ends[call].outcome.limit_passed);
    pw_format(text, sizeof text, endless, 20);
    const pw_tool_outcome end = bench_run(&b, bench_tool(&b, text), "{}");
    assert_int_equal(end.kind, PW_TOOL_ABANDONED);
    assert_int_equal(pw_tool_abandoned(b.runner), 0);
    pw_format(text, sizeof text, endless, 60000);
    assert_int_equal(bench_start(&b, bench_tool(&b, text), "{}", &call, NULL), PW_OK);
    bench_close(&b); /* ends it */
    unlink(path);
}

static void test_sql_without_effects_needs_a_file(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    char text[400];
    pw_format(text, sizeof text, endless, 60000);
    uint64_t call = 0;
    assert_int_equal(bench_start(&b, bench_tool(&b, text), "{}", &call, NULL), PW_UNSUPPORTED);
    bench_close(&b);
}

static void test_every_failed_allocation_is_an_answer(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    bench b;
    bench_open(&b, NULL);
    sqlite3 *db = open_db(":memory:");
    const pw_tool_declaration *tool =
        bench_tool(&b, "{\"name\":\"x\",\"kind\":\"sql\",\"sql\":[\"select :a a, 0.5 r, cast(x'ff' "
                       "as text) t\"]}");
    const pw_tool_call call = bench_call(tool, "{\"a\":1.5}", 1);
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        pw_arena arena;
        pw_arena_init(&arena, &memory.allocator, 64, 0);
        pw_test_allocator_fail(&memory, k, k % 2 == 0);
        pw_tool_outcome end = {0};
        const pw_status status =
            pw_tool_transact(b.runner, &call, &bench_place, db, PAWL_SQLITE, &arena, &end);
        assert_true(status == PW_NOMEM || status == PW_OK);
        if (status == PW_OK) {
            assert_text(end.json, "{\"rows\":[{\"a\":1.5,\"r\":0.5,\"t\":\"\xEF\xBF\xBD\"}]}");
        }
        failed = memory.failed > 0;
        pw_arena_free(&arena);
        assert_int_equal(memory.live_bytes, 0);
    }
    sqlite3_close(db);
    bench_close(&b);
}

/* --- Declarations ----------------------------------------------------------------------------- */

static void test_wrong_declarations_name_the_field(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *message; /* NULL: right */
    } rows[] = {
        {"\"kind\":\"native\"", NULL},
        {"\"kind\":\"native\",\"description\":\"d\",\"result_limit\":100,\"limit_ms\":5,\"input\":{"
         "}",
         NULL},
        {"\"kind\":\"native\",\"run\":[\"x\"]", "run: not a key of a tool of kind native"},
        {"\"kind\":\"command\",\"run\":[\"./x\",\"\"],\"env\":[\"A_1\"]", NULL},
        {"\"kind\":\"command\"", "run: expected a list of strings: the program and its arguments"},
        {"\"kind\":\"command\",\"run\":\"./x\"",
         "run: expected a list of strings: the program and its arguments"},
        {"\"kind\":\"command\",\"run\":[]",
         "run: expected a list of strings: the program and its arguments"},
        {"\"kind\":\"command\",\"run\":[\"\"]", "run: expected a program first, found \"\""},
        {"\"kind\":\"command\",\"run\":[\"a\",5]", "run: expected strings without NUL, found 5"},
        {"\"kind\":\"command\",\"run\":[\"a\\u0000\"]",
         "run: expected strings without NUL, found \"a\\u0000\""},
        {"\"kind\":\"command\",\"run\":[\"a\"],\"env\":[\"1A\"]",
         "env: expected a variable's name, found \"1A\""},
        {"\"kind\":\"command\",\"run\":[\"a\"],\"env\":[\"A=b\"]",
         "env: expected a variable's name, found \"A=b\""},
        {"\"kind\":\"command\",\"run\":[\"a\"],\"env\":[\"PAWL_TURN\"]",
         "env: PAWL_TURN is always set, by the engine"},
        {"\"kind\":\"command\",\"run\":[\"a\"],\"shell\":true",
         "shell: not a key of a tool of kind command"},
        {"\"kind\":\"command\",\"run\":[\"a\"],\"effects\":\"transactional\"",
         "effects: expected none, idempotent or once for a tool of kind command, found "
         "transactional"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\"select 1\"", NULL},
        {"\"kind\":\"sql\",\"effects\":\"transactional\",\"sql\":[\"select ':x', [a:b], "
         "\\\"c:d\\\", 1 -- :no\\n"
         " /* ? */ + :item, `e?`\"],\"input\":{\"properties\":{\"item\":{}}}",
         NULL},
        {"\"kind\":\"sql\",\"sql\":\"select 1\"",
         "effects: expected transactional or none for a tool of kind sql, found once"},
        {"\"kind\":\"sql\",\"effects\":\"idempotent\",\"sql\":\"select 1\"",
         "effects: expected transactional or none for a tool of kind sql, found idempotent"},
        {"\"kind\":\"sql\",\"effects\":\"none\"",
         "sql: expected a statement or a list of statements"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\" \"",
         "sql: expected a statement or a list of statements"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":[]",
         "sql: expected at least one statement"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\"select ?1\"",
         "sql: expected parameters by name, like :item, found ?1"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\"select @a\"",
         "sql: expected parameters by name, like :item, found @a"},
        {"\"kind\":\"sql\",\"effects\":\"none\",\"sql\":\"select "
         ":itme\",\"input\":{\"properties\":{\"item\":{}}}",
         "sql: :itme is not a property of `input`"},
        {"\"kind\":\"mcp\"", "kind: tools of kind mcp are not supported in this version"},
        {"\"kind\":\"shell\"", "kind: expected native, sql, command or http, found \"shell\""},
    };
    bench b;
    bench_open(&b, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[600];
        pw_format(text, sizeof text, "{\"name\":\"x\",%s}", rows[i].rest);
        pw_error error = {0};
        const pw_status status = pw_tool_declaration_check(bench_tool(&b, text), &error);
        assert_string_equal(error.message, rows[i].message != NULL ? rows[i].message : "");
        assert_int_equal(status == PW_OK, rows[i].message == NULL);
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_D2_statements_run_in_order_and_the_last_rows_are_the_result),
        cmocka_unit_test(test_C8_values_go_in_and_out_exactly),
        cmocka_unit_test(test_F1_sql_error_is_what_the_model_reads),
        cmocka_unit_test(test_rows_are_capped_and_say_so),
        cmocka_unit_test(test_sql_without_effects_reads_and_cannot_write),
        cmocka_unit_test(test_D6_reading_sql_ends_when_asked_and_at_its_limit),
        cmocka_unit_test(test_sql_without_effects_needs_a_file),
        cmocka_unit_test(test_every_failed_allocation_is_an_answer),
        cmocka_unit_test(test_wrong_declarations_name_the_field),
    };
    return cmocka_run_group_tests_name("sql tools", tests, NULL, NULL);
}
