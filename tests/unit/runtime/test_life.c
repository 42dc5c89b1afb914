/* What interrupts a turn from inside its own process: cancel, withdraw, drain, close, misuse,
 * stalls. Both stores. */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char slow[] =
    "[{\"when\":{\"turn\":\"slow\"},\"delay\":\"30s\",\"text\":\"too late\"},"
    "{\"text\":\"You said: {{last}}\"}]";

static void test_a_cancel_stops_a_running_model_call_within_a_second_i7(void **state)
{
    bench b;
    char turn[80];
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    int64_t begin_ms = now_ms();
    assert_int_equal(pawl_cancel(b.p, S("s1"), bench_str(turn), NULL), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    assert_in_range(now_ms() - begin_ms, 0, 1000);
    bench_expect(doc, "state", "cancelled");
    bench_expect(doc, "reason", "user");
    pawl_doc_free(doc);
    assert_int_equal(pawl_cancel(b.p, S("s1"), bench_str(turn), NULL), PAWL_OK); /* twice */
    assert_int_equal(pawl_cancel(b.p, S("s1"), S("nothing"), NULL), PAWL_NOT_FOUND);
    bench_turn(&b, "s1", "r2", "next", "completed", "You said: next");
    bench_end(&b);
}

static void test_a_late_cancel_is_closed_i7(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "quick"), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    char turn[80];
    snprintf(turn, sizeof turn, "%s", bench_get(doc, "id"));
    pawl_doc_free(doc);
    assert_int_equal(pawl_cancel(b.p, S("s1"), bench_str(turn), NULL), PAWL_CLOSED);
    bench_end(&b);
}

static void test_a_pending_message_is_withdrawn_a_claimed_one_cancelled_i3(void **state)
{
    bench b;
    char turn[80];
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    assert_int_equal(bench_submit(&b, "s1", "r2", "behind"), PAWL_OK);
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_withdraw(b.p, S("s1"), S("r2"), &doc, NULL), PAWL_OK);
    bench_expect(doc, "withdrawn", "true");
    pawl_doc_free(doc);
    assert_int_equal(pawl_withdraw(b.p, S("s1"), S("r2"), &doc, NULL), PAWL_OK);
    pawl_doc_free(doc);
    assert_int_equal(pawl_wait(b.p, S("s1"), S("r2"), 5000, &doc, NULL), PAWL_CANCELLED);
    assert_int_equal(pawl_withdraw(b.p, S("s1"), S("r9"), &doc, NULL), PAWL_NOT_FOUND);
    assert_int_equal(pawl_withdraw(b.p, S("s1"), S("r1"), &doc, NULL), PAWL_OK);
    bench_expect(doc, "withdrawn", "false");
    bench_expect(doc, "turn", turn);
    pawl_doc_free(doc);
    doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "cancelled");
    pawl_doc_free(doc);
    assert_int_equal(pawl_withdraw(b.p, S("s1"), S("r1"), &doc, NULL), PAWL_CLOSED);
    bench_end(&b);
}

static void test_a_busy_session_rejects_when_asked_to_a4(void **state)
{
    bench b;
    char turn[80];
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    pawl_message m = {.size = sizeof m, .request_id = S("r2"), .text = S("x"), .mode = PAWL_REJECT};
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_submit(b.p, S("s1"), &m, &doc, NULL), PAWL_BUSY);
    bench_expect(doc, "code", "busy");
    pawl_doc_free(doc);
    assert_int_equal(pawl_cancel(b.p, S("s1"), bench_str(turn), NULL), PAWL_OK);
    bench_end(&b);
}

static int32_t wait_a_little(pawl_call *call, void *ctx)
{
    atomic_fetch_add((atomic_int *)ctx, 1);
    usleep(200000);
    return pawl_call_return(call, S("\"ok\""));
}

static int has_begun(void *ctx)
{
    return atomic_load((atomic_int *)ctx) > 0;
}

static const char uses_tool[] =
    "[{\"when\":{\"role\":\"user\"},\"calls\":[{\"name\":\"work\",\"arguments\":{}}]},"
    "{\"text\":\"finished\"}]";
static const char work[] = "[{\"name\":\"work\",\"kind\":\"native\"}]";

static void test_a_drain_leaves_the_turn_open_and_the_next_process_ends_it_i6(void **state)
{
    bench b;
    atomic_int calls = 0;
    (void)state;
    bench_begin(&b, "sqlite");
    bench_open(&b);
    bench_tool(&b, "work", PAWL_ONCE, wait_a_little, &calls, 0);
    bench_agent(&b, uses_tool, work, NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "go"), PAWL_OK);
    bench_until(has_begun, &calls);
    assert_int_equal(pawl_drain(b.p, 10000), PAWL_OK);
    assert_int_equal(bench_submit(&b, "s2", "r1", "later"), PAWL_OK); /* admitted, not run */
    pawl_doc *doc = bench_read(&b, "/v1/sessions/s1/messages/r1");
    bench_expect(doc, "disposition", "claimed");
    pawl_doc_free(doc);
    bench_close(&b);

    bench_open(&b);
    bench_tool(&b, "work", PAWL_ONCE, wait_a_little, &calls, 0);
    bench_agent(&b, uses_tool, work, NULL);
    bench_start(&b);
    doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "completed");
    bench_expect(doc, "text", "finished");
    bench_expect(doc, "attempts", "2");
    pawl_doc_free(doc);
    doc = bench_wait(&b, "s2", "r1");
    bench_expect(doc, "attempts", "1");
    pawl_doc_free(doc);
    assert_int_equal(calls, 2); /* once for each turn: the first one's receipt was kept */
    bench_end(&b);
}

static void test_a_close_in_the_middle_of_a_turn_leaves_it_open_j5(void **state)
{
    bench b;
    char turn[80];
    (void)state;
    bench_begin(&b, "sqlite");
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    int64_t begin_ms = now_ms();
    bench_close(&b);
    assert_in_range(now_ms() - begin_ms, 0, 5000);

    bench_open(&b);
    bench_agent(&b, "[{\"text\":\"new script\"}]", "[]", NULL); /* the pinned one is used (C11) */
    bench_start(&b);
    bench_turn(&b, "s2", "r1", "hello", "completed", "new script");
    assert_int_equal(pawl_cancel(b.p, S("s1"), bench_str(turn), NULL), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "cancelled");
    pawl_doc_free(doc);
    bench_end(&b);
}

/* --- Misuse --- */

typedef struct naughty {
    bench *b;
    int32_t waited, drained, submitted;
} naughty;

static int32_t misuse(pawl_call *call, void *ctx)
{
    naughty *n = ctx;
    pawl_doc *doc = NULL;
    n->waited = pawl_wait(n->b->p, S("s1"), S("r1"), 10, &doc, NULL);
    n->drained = pawl_drain(n->b->p, 10);
    pawl_close(n->b->p); /* refused: nothing is closed */
    pawl_message m = {.size = sizeof m, .request_id = S("from-tool"), .text = S("x")};
    n->submitted = pawl_submit(n->b->p, S("other"), &m, &doc, NULL);
    pawl_doc_free(doc);
    return pawl_call_return(call, S("\"ok\""));
}

static void test_a_tool_may_not_wait_for_its_own_engine(void **state)
{
    bench b;
    naughty n = {.b = &b};
    bench_begin(&b, *state);
    bench_open(&b);
    bench_tool(&b, "work", PAWL_NONE, misuse, &n, 0);
    bench_agent(&b, uses_tool, work, NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "finished");
    assert_int_equal(n.waited, PAWL_MISUSE);
    assert_int_equal(n.drained, PAWL_MISUSE);
    assert_int_equal(n.submitted, PAWL_OK);
    bench_end(&b);
}

static void test_a_transactional_tool_may_not_submit(void **state)
{
    bench b;
    naughty n = {.b = &b};
    (void)state;
    bench_begin(&b, "sqlite");
    bench_open(&b);
    bench_tool(&b, "work", PAWL_TRANSACTIONAL, misuse, &n, 0);
    bench_agent(&b, uses_tool, work, NULL);
    bench_start(&b);
    bench_turn(&b, "s1", "r1", "go", "completed", "finished");
    assert_int_equal(n.waited, PAWL_MISUSE);
    assert_int_equal(n.submitted, PAWL_MISUSE);
    bench_end(&b);
}

static void test_F6_a_fallback_of_an_unknown_provider_is_named_by_its_place(void **state)
{
    bench b;
    pawl_error error = {0};
    bench_begin(&b, *state);
    bench_open(&b);
    static const char agent[] =
        "{\"model\":{\"provider\":\"scripted\",\"name\":\"x\",\"script\":[],\"fallback\":["
        "{\"name\":\"y\",\"script\":[]},{\"provider\":\"nobody\",\"name\":\"z\"}]}}";
    assert_int_equal(pawl_agent_add(b.p, S("default"), bench_str(agent), &error), PAWL_INVALID);
    assert_non_null(strstr(error.message, "model.fallback[1].provider: expected one of "));
    bench_end(&b);
}

static void test_what_is_done_out_of_order_is_misuse(void **state)
{
    bench b;
    pawl_error error = {0};
    pawl_doc *doc = NULL;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, work, NULL);
    assert_int_equal(pawl_start(b.p, NULL, &error), PAWL_INVALID); /* `work` was not added */
    assert_non_null(strstr(error.message, "work"));
    bench_tool(&b, "work", PAWL_NONE, misuse, NULL, 0);
    bench_start(&b);
    assert_int_equal(pawl_start(b.p, NULL, &error), PAWL_MISUSE);
    pawl_tool tool = {.size = sizeof tool, .name = S("late"), .run = misuse};
    assert_int_equal(pawl_tool_add(b.p, &tool, &error), PAWL_MISUSE);
    assert_int_equal(pawl_agent_add(b.p, S("late"), S("{}"), &error), PAWL_MISUSE);
    assert_int_equal(pawl_start(NULL, NULL, &error), PAWL_MISUSE);
    assert_int_equal(pawl_submit(NULL, S("s"), NULL, &doc, &error), PAWL_MISUSE);
    assert_int_equal(pawl_submit(b.p, S("s"), NULL, &doc, &error), PAWL_MISUSE);
    pawl_close(NULL);
    bench_end(&b);
}

/* --- Time --- */

static void test_a_model_without_progress_is_stalled_and_retried_f9(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    static const char agent[] =
        "{\"model\":{\"provider\":\"scripted\",\"name\":\"x\",\"first_token_timeout_ms\":50,"
        "\"script\":"
        "[{\"when\":{\"try\":1},\"delay\":\"20s\",\"text\":\"never\"},{\"text\":\"second try\"}]}}";
    pawl_error error = {0};
    if (pawl_agent_add(b.p, S("default"), bench_str(agent), &error) != PAWL_OK) {
        fail_msg("agent: %s", error.message);
    }
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "go"), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "text", "second try");
    bench_expect(doc, "usage.retries", "1");
    pawl_doc_free(doc);
    bench_end(&b);
}

static void test_messages_within_the_debounce_are_one_turn_b2(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", "\"debounce_ms\":300");
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "one"), PAWL_OK);
    assert_int_equal(bench_submit(&b, "s1", "r2", "two"), PAWL_OK);
    pawl_doc *first = bench_wait(&b, "s1", "r1"), *second = bench_wait(&b, "s1", "r2");
    bench_expect(second, "id", bench_get(first, "id"));
    pawl_doc_free(first);
    pawl_doc_free(second);
    bench_end(&b);
}

static void test_a_turn_over_its_deadline_pauses_g3(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", "\"budget\":{\"deadline_ms\":200}");
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "paused");
    bench_expect(doc, "reason", "deadline");
    pawl_doc_free(doc);
    bench_end(&b);
}

static void test_a_wait_ends_at_its_timeout(void **state)
{
    bench b;
    char turn[80];
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, slow, "[]", NULL);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    pawl_doc *doc = NULL;
    int64_t begin_ms = now_ms();
    assert_int_equal(pawl_wait(b.p, S("s1"), S("r1"), 50, &doc, NULL), PAWL_TIMEOUT);
    assert_in_range(now_ms() - begin_ms, 45, 5000);
    bench_end(&b);
}

/* --- Many --- */

static void test_three_hundred_sessions_run_at_once_and_all_end_b1(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, "[{\"delay\":\"5ms\",\"text\":\"ok\"}]", "[]", NULL);
    bench_start(&b);
    char name[16];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_int_equal(bench_submit(&b, name, "r1", "go"), PAWL_OK);
    }
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "s%d", i);
        pawl_doc *doc = bench_wait(&b, name, "r1");
        bench_expect(doc, "state", "completed");
        pawl_doc_free(doc);
    }
    assert_int_equal(b.errors, 0);
    bench_end(&b);
}

static void test_a_queue_of_messages_is_answered_in_order_b5(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    bench_agent(&b, "[{\"delay\":\"1ms\",\"text\":\"{{last}}\"}]", "[]", NULL);
    bench_start(&b);
    char id[16];
    for (int i = 0; i < 150; i++) {
        snprintf(id, sizeof id, "r%d", i);
        assert_int_equal(bench_submit(&b, "s1", id, id), PAWL_OK);
    }
    for (int i = 0; i < 150; i++) {
        snprintf(id, sizeof id, "r%d", i);
        pawl_doc *doc = bench_wait(&b, "s1", id);
        bench_expect(doc, "state", "completed");
        pawl_doc_free(doc);
    }
    bench_end(&b);
}

#define BOTH(test)                                                                                 \
    {#test " memory", test, NULL, NULL, (void *)(uintptr_t) "memory"},                             \
    {                                                                                              \
#test " sqlite", test, NULL, NULL, (void *)(uintptr_t) "sqlite"                            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_cancel_stops_a_running_model_call_within_a_second_i7),
        BOTH(test_a_late_cancel_is_closed_i7),
        BOTH(test_a_pending_message_is_withdrawn_a_claimed_one_cancelled_i3),
        BOTH(test_a_busy_session_rejects_when_asked_to_a4),
        cmocka_unit_test(test_a_drain_leaves_the_turn_open_and_the_next_process_ends_it_i6),
        cmocka_unit_test(test_a_close_in_the_middle_of_a_turn_leaves_it_open_j5),
        BOTH(test_a_tool_may_not_wait_for_its_own_engine),
        cmocka_unit_test(test_a_transactional_tool_may_not_submit),
        BOTH(test_F6_a_fallback_of_an_unknown_provider_is_named_by_its_place),
        BOTH(test_what_is_done_out_of_order_is_misuse),
        BOTH(test_a_model_without_progress_is_stalled_and_retried_f9),
        BOTH(test_messages_within_the_debounce_are_one_turn_b2),
        BOTH(test_a_turn_over_its_deadline_pauses_g3),
        BOTH(test_a_wait_ends_at_its_timeout),
        BOTH(test_three_hundred_sessions_run_at_once_and_all_end_b1),
        BOTH(test_a_queue_of_messages_is_answered_in_order_b5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
