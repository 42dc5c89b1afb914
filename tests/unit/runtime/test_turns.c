/* Turns from submit to end through pawl.h, on both stores: the ordinary life, admission, tools of
 * each class. */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

static const char plain[] = "[{\"text\":\"You said: {{last}}\"}]";

static void a_turn(const char *kind)
{
    bench b;
    bench_begin(&b, kind);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "hello", "completed", "You said: hello");
    bench_turn(&b, "s1", "r2", "again", "completed", "You said: again");
    bench_turn(&b, "s2", "r1", "other", "completed", "You said: other");
    bench_end(&b);
    assert_int_equal(b.errors, 0);
}

static void test_a_submitted_message_becomes_a_completed_turn_b3(void **state)
{
    a_turn(*state);
}

/* --- Tools --- */

static int32_t count_call(pawl_call *call, void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    return pawl_call_return(call, pawl_call_arguments(call));
}

static int32_t write_row(pawl_call *call, void *ctx)
{
    (void)ctx;
    sqlite3 *db = pawl_call_handle(call, PAWL_SQLITE);
    if (!db) {
        return pawl_call_fatal(call, S("no handle"));
    }
    if (sqlite3_exec(db, "insert into orders(item) values('tea')", NULL, NULL, NULL) != SQLITE_OK) {
        return pawl_call_error(call, S("sql"), bench_str(sqlite3_errmsg(db)));
    }
    return pawl_call_return(call, S("{\"ordered\":true}"));
}

static const char three_tools[] =
    "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"look\",\"arguments\":{\"a\":1}},"
    "{\"name\":\"call_out\",\"arguments\":{\"b\":2}},{\"name\":\"act\",\"arguments\":{\"c\":3}}]},"
    "{\"when\":{\"role\":\"tool\"},\"text\":\"done\"}]";
static const char three_declared[] =
    "[{\"name\":\"look\",\"kind\":\"native\"},{\"name\":\"call_out\",\"kind\":\"native\"},"
    "{\"name\":\"act\",\"kind\":\"native\"},"
    "{\"name\":\"echo\",\"kind\":\"command\",\"run\":[\"cat\"],\"effects\":\"none\"}]";

static void test_tools_of_each_class_run_once_in_a_turn_d3(void **state)
{
    bench b;
    atomic_int calls[3] = {0};
    bench_begin(&b, *state);
    bench_open(&b);
    bench_tool(&b, "look", PAWL_NONE, count_call, &calls[0], 0);
    bench_tool(&b, "call_out", PAWL_IDEMPOTENT, count_call, &calls[1], 0);
    bench_tool(&b, "act", PAWL_ONCE, count_call, &calls[2], 0);
    bench_agent(&b, three_tools, three_declared, NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "done");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls[i], 1);
    }
    pawl_doc *steps = bench_read(&b, "/v1/sessions/s1/turns");
    bench_expect(steps, "items.0.usage.tool_calls", "3");
    pawl_doc_free(steps);
    bench_end(&b);
}

static void test_a_command_tool_gives_its_output_to_the_model_d6(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(
        &b,
        "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"echo\",\"arguments\":{\"x\":7}}]},"
        "{\"text\":\"{{last}}\"}]",
        "[{\"name\":\"echo\",\"kind\":\"command\",\"run\":[\"cat\"],\"effects\":\"none\"}]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "{\"x\":7}");
    bench_end(&b);
}

static void make_orders(bench *b)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(b->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "create table if not exists orders(id integer primary key, item text)",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int count_orders(bench *b)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *select = NULL;
    assert_int_equal(sqlite3_open(b->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "select count(*) from orders", -1, &select, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int count = sqlite3_column_int(select, 0);
    sqlite3_finalize(select);
    sqlite3_close(db);
    return count;
}

static void test_a_transactional_tool_writes_with_its_receipt_d2(void **state)
{
    (void)state;
    bench b;
    bench_begin(&b, "sqlite");
    bench_open(&b);
    make_orders(&b);
    bench_tool(&b, "order", PAWL_TRANSACTIONAL, write_row, NULL, 0);
    bench_agent(&b,
                "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"order\",\"arguments\":{}}]},"
                "{\"text\":\"{{last}}\"}]",
                "[{\"name\":\"order\",\"kind\":\"native\"}]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "{\"ordered\":true}");
    bench_close(&b);
    assert_int_equal(count_orders(&b), 1);
    bench_end(&b);
}

static int32_t fail_after_writing(pawl_call *call, void *ctx)
{
    (void)ctx;
    sqlite3 *db = pawl_call_handle(call, PAWL_SQLITE);
    (void)sqlite3_exec(db, "insert into orders(item) values('milk')", NULL, NULL, NULL);
    return pawl_call_error(call, S("refused"), S("not today"));
}

static void test_a_failing_transactional_tool_is_undone_and_read_as_an_error_d2(void **state)
{
    (void)state;
    bench b;
    bench_begin(&b, "sqlite");
    bench_open(&b);
    make_orders(&b);
    bench_tool(&b, "order", PAWL_TRANSACTIONAL, fail_after_writing, NULL, 0);
    bench_agent(&b,
                "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"order\",\"arguments\":{}}]},"
                "{\"when\":{\"is_error\":true},\"text\":\"it failed\"},{\"text\":\"it worked\"}]",
                "[{\"name\":\"order\",\"kind\":\"native\"}]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "it failed");
    bench_close(&b);
    assert_int_equal(count_orders(&b), 0);
    bench_end(&b);
}

static void test_a_transactional_tool_on_a_store_without_transactions_is_fatal_d2(void **state)
{
    (void)state;
    bench b;
    bench_begin(&b, "memory");
    bench_open(&b);
    bench_tool(&b, "order", PAWL_TRANSACTIONAL, write_row, NULL, 0);
    bench_agent(&b, "[{\"calls\":[{\"name\":\"order\",\"arguments\":{}}]}]",
                "[{\"name\":\"order\",\"kind\":\"native\"}]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "failed", NULL);
    bench_end(&b);
}

/* --- Limits --- */

static int32_t sleep_long(pawl_call *call, void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    usleep(300000); /* C cannot be killed: it does not look at its time */
    return pawl_call_return(call, S("\"late\""));
}

static void test_a_tool_over_its_limit_is_abandoned_d6(void **state)
{
    bench b;
    static atomic_int calls[2]; /* an abandoned thread may outlive the test */
    bench_begin(&b, *state);
    bench_open(&b);
    bench_tool(&b, "slow", PAWL_NONE, sleep_long, &calls[0], 60);
    bench_tool(&b, "slow_once", PAWL_ONCE, sleep_long, &calls[1], 60);
    bench_agent(
        &b,
        "[{\"when\":{\"role\":\"user\",\"last\":\"none\"},\"calls\":[{\"name\":\"slow\","
        "\"arguments\":{}}]},"
        "{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"slow_once\",\"arguments\":{}}]},"
        "{\"when\":{\"last\":\"unknown\"},\"text\":\"unknown\"},"
        "{\"when\":{\"is_error\":true},\"text\":\"error\"},{\"text\":\"{{last}}\"}]",
        "[{\"name\":\"slow\",\"kind\":\"native\"},{\"name\":\"slow_once\",\"kind\":\"native\"}]",
        NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "none", "completed", "error");
    bench_turn(&b, "s1", "r2", "once", "completed", "unknown");
    bench_end(&b);
}

/* --- Admission --- */

static void test_the_same_request_is_existing_with_its_result_a1(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "hello", "completed", NULL);
    pawl_message m = {.size = sizeof m, .request_id = S("r1"), .text = S("hello")};
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_submit(b.p, S("s1"), &m, &doc, NULL), PAWL_OK);
    bench_expect(doc, "submitted", "existing");
    bench_expect(doc, "turn.state", "completed");
    bench_expect(doc, "turn.text", "You said: hello");
    pawl_doc_free(doc);
    m.text = S("other");
    doc = NULL;
    assert_int_equal(pawl_submit(b.p, S("s1"), &m, &doc, NULL), PAWL_CONFLICT);
    bench_expect(doc, "code", "conflict");
    bench_expect(doc, "request_id", "r1");
    pawl_doc_free(doc);
    bench_end(&b);
}

typedef struct racer {
    bench *b;
    int accepted, existing;
} racer;

static void *race(void *ctx)
{
    racer *r = ctx;
    pawl_message m = {.size = sizeof m, .request_id = S("same"), .text = S("hello")};
    pawl_doc *doc = NULL;
    if (pawl_submit(r->b->p, S("s1"), &m, &doc, NULL) == PAWL_OK) {
        r->accepted = strcmp(bench_get(doc, "submitted"), "accepted") == 0;
        r->existing = !r->accepted;
    }
    pawl_doc_free(doc);
    return NULL;
}

static void test_of_concurrent_submits_of_one_id_exactly_one_is_accepted_a2(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    bench_start(&b);
    pthread_t threads[16];
    racer racers[16];
    for (int i = 0; i < 16; i++) {
        racers[i] = (racer){.b = &b};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    int accepted = 0, existing = 0;
    for (int i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
        accepted += racers[i].accepted;
        existing += racers[i].existing;
    }
    assert_int_equal(accepted, 1);
    assert_int_equal(existing, 15);
    pawl_doc_free(bench_wait(&b, "s1", "same"));
    bench_end(&b);
}

static void refused(bench *b, const char *session, const pawl_message *m, int32_t code,
                    const char *field)
{
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_submit(b->p, bench_str(session), m, &doc, NULL), code);
    bench_expect(doc, "field", field);
    pawl_doc_free(doc);
}

static int32_t never(pawl_call *call, void *ctx)
{
    (void)ctx;
    return pawl_call_fatal(call, S("it was refused"));
}

static void test_a_message_that_is_not_acceptable_names_its_field_a8(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    pawl_message m = {.size = sizeof m, .text = S("x")};
    refused(&b, "", &m, PAWL_INVALID, "session");
    refused(&b, "a#g1", &m, PAWL_INVALID, "session");
    m.request_id = S("schedule:x");
    refused(&b, "s", &m, PAWL_INVALID, "request_id");
    m.request_id = S("r");
    m.budget_json = S("{\"max_iterations\":-4}");
    refused(&b, "s", &m, PAWL_INVALID, "budget");
    m.budget_json = S("");
    m.metadata_json = S("[1]");
    refused(&b, "s", &m, PAWL_INVALID, "metadata");
    m.metadata_json = S("");
    m.source = S("schedule");
    refused(&b, "s", &m, PAWL_INVALID, "source");
    m.source = S("");
    m.agent = S("nobody");
    refused(&b, "s", &m, PAWL_INVALID, "agent");
    m.agent = S("");
    m.text = S("");
    refused(&b, "s", &m, PAWL_INVALID, "content");
    static char large[(1 << 20) + 1];
    memset(large, 'x', sizeof large);
    m.text = (pawl_str){large, sizeof large};
    refused(&b, "s", &m, PAWL_TOO_LARGE, "content");
    m.text = S("x");
    m.metadata_json = (pawl_str){large, sizeof large};
    refused(&b, "s", &m, PAWL_TOO_LARGE, "metadata");
    pawl_tool tool = {
        .size = sizeof tool, .name = S("odd"), .description = S("\xff"), .run = never};
    pawl_error error = {0};
    assert_int_equal(pawl_tool_add(b.p, &tool, &error), PAWL_INVALID);
    assert_non_null(strstr(error.message, "description"));
    bench_end(&b);
}

static void test_waiting_for_what_does_not_exist_is_not_found(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    bench_start(&b);
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_wait(b.p, S("none"), S("r1"), 10, &doc, NULL), PAWL_NOT_FOUND);
    bench_turn(&b, "s1", "r1", "x", "completed", NULL);
    assert_int_equal(pawl_wait(b.p, S("s1"), S("r9"), 10, &doc, NULL), PAWL_NOT_FOUND);
    bench_end(&b);
}

static void test_messages_submitted_before_the_start_are_run_after_it_j5(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, plain, "[]", NULL);
    assert_int_equal(bench_submit(&b, "s1", "r1", "early"), PAWL_OK);
    bench_start(&b);
    pawl_doc *turn = bench_wait(&b, "s1", "r1");
    bench_expect(turn, "text", "You said: early");
    pawl_doc_free(turn);
    bench_end(&b);
}

/* Two at once would meet here: each waits a while for another to come in. */
static atomic_int inside, most_inside;

static int32_t meet(pawl_call *call, void *ctx)
{
    (void)ctx;
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&most_inside)) {
        atomic_store(&most_inside, now);
    }
    for (int i = 0; i < 100 && atomic_load(&inside) < 2; i++) {
        usleep(3000);
    }
    atomic_fetch_sub(&inside, 1);
    return pawl_call_return(call, S("{}"));
}

static void test_native_tools_run_on_as_many_threads_as_the_options_say(void **state)
{
    (void)state;
    for (int32_t threads = 1; threads <= 2; threads++) {
        bench b;
        bench_begin(&b, "memory");
        pawl_options options = {.size = sizeof options, .store = S("memory:"), .threads = threads};
        assert_int_equal(pawl_open(&options, &b.p, NULL), PAWL_OK);
        bench_tool(&b, "meet", PAWL_NONE, meet, NULL, 0);
        bench_agent(&b,
                    "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"meet\","
                    "\"arguments\":{}}]},{\"text\":\"done\"}]",
                    "[{\"name\":\"meet\",\"kind\":\"native\"}]", NULL);
        atomic_store(&most_inside, 0);
        assert_int_equal(bench_submit(&b, "s1", "r", "go"), PAWL_OK);
        assert_int_equal(bench_submit(&b, "s2", "r", "go"), PAWL_OK);
        bench_start(&b);
        pawl_doc_free(bench_wait(&b, "s1", "r"));
        pawl_doc_free(bench_wait(&b, "s2", "r"));
        assert_int_equal(atomic_load(&most_inside), threads);
        bench_end(&b);
    }
}

#define BOTH(test)                                                                                 \
    {#test " memory", test, NULL, NULL, (void *)(uintptr_t) "memory"},                             \
    {                                                                                              \
#test " sqlite", test, NULL, NULL, (void *)(uintptr_t) "sqlite"                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_submitted_message_becomes_a_completed_turn_b3),
        BOTH(test_tools_of_each_class_run_once_in_a_turn_d3),
        BOTH(test_a_command_tool_gives_its_output_to_the_model_d6),
        cmocka_unit_test(test_a_transactional_tool_writes_with_its_receipt_d2),
        cmocka_unit_test(test_a_failing_transactional_tool_is_undone_and_read_as_an_error_d2),
        cmocka_unit_test(test_a_transactional_tool_on_a_store_without_transactions_is_fatal_d2),
        BOTH(test_a_tool_over_its_limit_is_abandoned_d6),
        BOTH(test_the_same_request_is_existing_with_its_result_a1),
        BOTH(test_of_concurrent_submits_of_one_id_exactly_one_is_accepted_a2),
        BOTH(test_a_message_that_is_not_acceptable_names_its_field_a8),
        BOTH(test_waiting_for_what_does_not_exist_is_not_found),
        BOTH(test_messages_submitted_before_the_start_are_run_after_it_j5),
        cmocka_unit_test(test_native_tools_run_on_as_many_threads_as_the_options_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
