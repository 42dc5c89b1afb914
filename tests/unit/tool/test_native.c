/* Native tools: what a function may do with its call, threads that do not come back, and the
 * writer's transaction. */
#include <semaphore.h>
#include <unistd.h>

#include "base/heap.h"
#include "bench.h"
#include "support/failing_allocator.h"

#define S(literal) ((pawl_str){(literal), sizeof(literal) - 1})

static pw_tool_declaration declaration = {.name = PW_STR_INIT("x"),
                                          .kind = PW_STR_INIT("native"),
                                          .effects = PW_EFFECTS_ONCE,
                                          .limit_ms = 60000};

static void add(bench *b, pawl_tool_fn run, void *ctx)
{
    const pawl_tool tool = {
        .size = sizeof tool, .name = S("x"), .effects = PAWL_ONCE, .run = run, .ctx = ctx};
    assert_int_equal(pw_tool_native_add(b->runner, &tool, NULL), PW_OK);
}

static pw_tool_outcome run_one(pawl_tool_fn run, void *ctx)
{
    static bench b; /* the outcome's text outlives the call: one at a time */
    static bool open;
    if (open) {
        bench_close(&b);
        open = false;
    }
    if (run == NULL) {
        return (pw_tool_outcome){0};
    }
    bench_open(&b, NULL);
    open = true;
    add(&b, run, ctx);
    return bench_run(&b, &declaration, "{\"a\":1}");
}

static int32_t tell_all(pawl_call *call, void *ctx)
{
    (void)ctx;
    char text[1024];
    const pawl_str parts[] = {pawl_call_arguments(call), pawl_call_info_json(call)};
    assert_string_equal(pawl_call_key(call).ptr, "k1");
    assert_null(pawl_call_handle(call, PAWL_SQLITE));
    const int64_t left = pawl_call_left_ms(call);
    assert_true(left > 50000 && left <= 60000);
    const int size = snprintf(text, sizeof text, "[%.*s, %.*s]", (int)parts[0].len, parts[0].ptr,
                              (int)parts[1].len, parts[1].ptr);
    return pawl_call_return(call, (pawl_str){text, (size_t)size});
}

static void test_native_is_given_what_belongs_to_its_call(void **state)
{
    (void)state;
    assert_text(
        run_one(tell_all, NULL).json,
        "[{\"a\":1}, {\"session\":\"s1\",\"turn\":\"t1\",\"step\":\"tool:1:c1\",\"attempt\":1,"
        "\"speaker\":null,\"initiator\":null}]");
    run_one(NULL, NULL);
}

static int32_t give_error(pawl_call *call, void *ctx)
{
    (void)ctx;
    assert_int_equal(pawl_call_error(call, S("Shop"), S("closed \xFF today")), PAWL_OK);
    assert_int_equal(pawl_call_return(call, S("1")), PAWL_MISUSE); /* the first word counts */
    assert_int_equal(pawl_call_fatal(call, S("no")), PAWL_MISUSE);
    return pawl_call_error(call, S("Other"), S("other"));
}

static int32_t give_fatal(pawl_call *call, void *ctx)
{
    (void)ctx;
    return pawl_call_fatal(call, S("no account"));
}

static int32_t give_nothing(pawl_call *call, void *ctx)
{
    (void)call;
    (void)ctx;
    return PAWL_OK;
}

static int32_t give_junk(pawl_call *call, void *ctx)
{
    (void)ctx;
    assert_int_equal(pawl_call_return(call, S("{\"a\":")), PAWL_INVALID);
    return pawl_call_error(call, S(""), S("too late"));
}

static int32_t give_surrogate(pawl_call *call, void *ctx)
{
    (void)ctx;
    return pawl_call_return(call, S("{\"a\":\"\\ud83d\", \"n\":1.10}"));
}

static void test_F1_F2_outcomes_of_a_native(void **state)
{
    (void)state;
    pw_tool_outcome end = run_one(give_error, NULL);
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.error_class, "Shop");
    assert_text(end.message, "closed \xEF\xBF\xBD today");
    end = run_one(give_fatal, NULL);
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_text(end.message, "no account");
    end = run_one(give_nothing, NULL);
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_text(end.message, "the tool did not return a result");
    end = run_one(give_junk, NULL);
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_text(end.message, "the tool returned what is not JSON");
    assert_text(run_one(give_surrogate, NULL).json, "{\"a\":\"\xEF\xBF\xBD\",\"n\":1.10}");
    run_one(NULL, NULL);
}

static void test_native_that_is_not_registered_is_not_started(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    uint64_t call = 0;
    pw_error error = {0};
    assert_int_equal(bench_start(&b, &declaration, "{}", &call, &error), PW_NOT_FOUND);
    assert_string_equal(error.message, "this program has no native tool named x");
    pw_tool_declaration other = declaration;
    other.kind = PW_STR("mcp");
    assert_int_equal(bench_start(&b, &other, "{}", &call, &error), PW_UNSUPPORTED);
    bench_close(&b);
}

static void free_ctx(void *ctx)
{
    *(int *)ctx += 1;
}

static void test_native_registration_is_checked_and_owns_its_ctx(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    int freed = 0;
    pw_error error = {0};
    pawl_tool tool = {.size = sizeof tool,
                      .name = S("good"),
                      .effects = PAWL_NONE,
                      .run = give_nothing,
                      .ctx = &freed,
                      .ctx_free = free_ctx};
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_OK);
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_CONFLICT);
    assert_non_null(pw_tool_native_get(b.runner, PW_STR("good")));
    assert_null(pw_tool_native_get(b.runner, PW_STR("goo")));
    tool.name = S("a b");
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    assert_string_equal(error.message,
                        "name: expected 1 to 64 letters, digits, _ or -, found \"a b\"");
    tool.name = S("b");
    tool.schema_json = S("{\"type\":\"strin\"}");
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    tool.schema_json = S("{");
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    tool.schema_json = S("");
    tool.effects = 4;
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    tool.effects = PAWL_NONE;
    tool.run = NULL;
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    tool.run = give_nothing;
    tool.size = 0;
    assert_int_equal(pw_tool_native_add(b.runner, &tool, &error), PW_INVALID);
    bench_close(&b);
    assert_int_equal(freed, 1); /* of those refused, ctx stays the caller's */
}

/* --- Threads ---------------------------------------------------------------------------------- */

typedef struct gate {
    sem_t begun, go;
} gate;

static int32_t wait_at_gate(pawl_call *call, void *ctx)
{
    gate *g = ctx;
    sem_post(&g->begun);
    while (sem_wait(&g->go) != 0) {
    }
    return pawl_call_return(call, pawl_call_left_ms(call) == 0 ? S("\"late\"") : S("\"done\""));
}

static void gate_open(gate *g)
{
    sem_init(&g->begun, 0, 0);
    sem_init(&g->go, 0, 0);
}

static void begun(gate *g, int count)
{
    while (count-- > 0) {
        while (sem_wait(&g->begun) != 0) {
        }
    }
}

static void go(gate *g, int count)
{
    while (count-- > 0) {
        sem_post(&g->go);
    }
}

static bool none_abandoned(bench *b)
{
    return pw_tool_abandoned(b->runner) == 0 && b->ends[1].late && b->ends[2].late;
}

static void test_D6_abandoned_native_is_counted_until_it_returns_and_others_go_on(void **state)
{
    (void)state;
    bench b;
    gate g;
    gate_open(&g);
    bench_open(&b, &(pw_tool_host){.threads = 2});
    add(&b, wait_at_gate, &g);
    uint64_t call = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bench_start(&b, &declaration, "{}", &call, NULL), PW_OK);
    }
    begun(&g, 2); /* the third waits for a thread */
    pw_tool_abort(b.runner, 1, true);
    pw_tool_abort(b.runner, 2, false);
    assert_int_equal(b.ended, 0); /* not from inside abort */
    begun(&g, 1);
    assert_true(bench_wait(&b, 2, 5000));
    assert_int_equal(b.ends[1].outcome.kind, PW_TOOL_ABANDONED);
    assert_true(b.ends[1].outcome.limit_passed);
    assert_int_equal(b.ends[2].outcome.kind, PW_TOOL_ABANDONED);
    assert_false(b.ends[2].outcome.limit_passed);
    assert_int_equal(pw_tool_abandoned(b.runner), 2);
    go(&g, 3);
    assert_true(bench_wait(&b, 3, 5000));
    assert_text(b.ends[3].outcome.json, "\"done\"");
    assert_true(bench_until(&b, none_abandoned));
    assert_text(b.ends[1].late_outcome.json, "\"late\""); /* D8: evidence */
    bench_close(&b);
}

static void test_native_that_found_no_thread_was_not_run(void **state)
{
    (void)state;
    bench b;
    gate g;
    gate_open(&g);
    bench_open(&b, &(pw_tool_host){.threads = 1});
    add(&b, wait_at_gate, &g);
    uint64_t call = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bench_start(&b, &declaration, "{}", &call, NULL), PW_OK);
    }
    begun(&g, 1);
    pw_tool_abort(b.runner, 3, true);
    assert_true(bench_wait(&b, 1, 5000));
    assert_int_equal(b.ends[3].outcome.kind, PW_TOOL_ERROR); /* known, so not an unknown outcome */
    assert_text(b.ends[3].outcome.error_class, "NotStarted");
    pw_tool_abort(b.runner, 4, true);
    go(&g, 2);
    assert_true(bench_wait(&b, 4, 5000));
    assert_int_equal(b.ends[1].outcome.kind, PW_TOOL_RESULT);
    assert_int_equal(b.ends[2].outcome.kind, PW_TOOL_RESULT);
    bench_close(&b);
}

static int32_t until_over(pawl_call *call, void *ctx)
{
    sem_post(&((gate *)ctx)->begun);
    while (pawl_call_left_ms(call) > 0) {
        usleep(500);
    }
    return pawl_call_return(call, S("\"returned\""));
}

static void test_close_waits_for_natives_and_uses_their_results(void **state)
{
    (void)state;
    static bench b;
    gate g;
    gate_open(&g);
    bench_open(&b, NULL);
    add(&b, until_over, &g);
    uint64_t call = 0;
    assert_int_equal(bench_start(&b, &declaration, "{}", &call, NULL), PW_OK);
    begun(&g, 1);
    bench_close(&b);
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_RESULT);
}

static void test_close_leaves_a_native_that_does_not_return_by_its_limit(void **state)
{
    (void)state;
    bench b;
    static gate g; /* its thread outlives this test */
    gate_open(&g);
    bench_open(&b, NULL);
    add(&b, wait_at_gate, &g);
    pw_tool_declaration brief = declaration;
    brief.limit_ms = 100;
    uint64_t call = 0;
    assert_int_equal(bench_start(&b, &brief, "{}", &call, NULL), PW_OK);
    begun(&g, 1);
    bench_close(&b);
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    go(&g, 1); /* frees the runner */
}

static void test_abandoned_threads_that_return_while_closing(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        bench b;
        static gate g;
        gate_open(&g);
        bench_open(&b, &(pw_tool_host){.threads = 3});
        add(&b, wait_at_gate, &g);
        uint64_t call = 0;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(bench_start(&b, &declaration, "{}", &call, NULL), PW_OK);
        }
        begun(&g, 3);
        pw_tool_abort(b.runner, 1, true);
        pw_tool_abort(b.runner, 2, true);
        pw_tool_abort(b.runner, 3, true);
        go(&g, 3);
        bench_close(&b);
    }
}

/* --- Transactions ----------------------------------------------------------------------------- */

static int32_t use_handle(pawl_call *call, void *ctx)
{
    assert_ptr_equal(pawl_call_handle(call, PAWL_SQLITE), ctx);
    assert_null(pawl_call_handle(call, 2));
    assert_null(pawl_call_handle(call, 0));
    assert_true(pawl_call_left_ms(call) <= 2000);
    return pawl_call_return(call, S("{\"ok\":true}"));
}

static void test_D2_transactional_native_gets_the_handle(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    int handle = 0;
    add(&b, use_handle, &handle);
    pw_tool_declaration tool = declaration;
    tool.effects = PW_EFFECTS_TRANSACTIONAL;
    tool.limit_ms = 2000;
    const pw_tool_call call = bench_call(&tool, "{}", 1);
    pw_tool_outcome end;
    assert_int_equal(
        pw_tool_transact(b.runner, &call, &bench_place, &handle, PAWL_SQLITE, &b.arena, &end),
        PW_OK);
    assert_text(end.json, "{\"ok\":true}");
    assert_int_equal(pw_tool_transact(b.runner, &call, &bench_place, NULL, 0, &b.arena, &end),
                     PW_OK);
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    uint64_t started = 0;
    assert_int_equal(bench_start(&b, &tool, "{}", &started, NULL), PW_UNSUPPORTED);
    bench_close(&b);
}

static void *transact_on_a_thread(void *argument)
{
    bench *b = argument;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    int handle = 0;
    const pw_tool_call call = bench_call(&declaration, "{}", 7);
    pw_tool_outcome end;
    assert_int_equal(
        pw_tool_transact(b->runner, &call, &bench_place, &handle, PAWL_SQLITE, &arena, &end),
        PW_OK);
    assert_text(end.json, "\"returned\"");
    pw_arena_free(&arena);
    return NULL;
}

static void test_D6_abort_reaches_a_transactional_native(void **state)
{
    (void)state;
    bench b;
    gate g;
    gate_open(&g);
    bench_open(&b, NULL);
    add(&b, until_over, &g);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, transact_on_a_thread, &b), 0);
    begun(&g, 1);
    pw_tool_abort(b.runner, 7, false);
    pthread_join(writer, NULL);
    bench_close(&b);
}

static void test_every_failed_allocation_is_an_answer(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    bool failed = true;
    for (uint64_t k = 1; failed;
         k++) { /* the bench waits for each: one thread at a time allocates */
        bench b;
        bench_open(&b, &(pw_tool_host){.allocator = &memory.allocator});
        add(&b, give_surrogate, NULL);
        pw_test_allocator_fail(&memory, k, false);
        uint64_t call = 0;
        const pw_status status = bench_start(&b, &declaration, "{}", &call, NULL);
        assert_true(status == PW_OK || status == PW_NOMEM);
        if (status == PW_OK) {
            assert_true(bench_wait(&b, 1, 5000));
            const pw_tool_outcome end = b.ends[call].outcome;
            assert_true(end.kind == PW_TOOL_RESULT || end.kind == PW_TOOL_ERROR);
        }
        failed = memory.failed > 0;
        pw_test_allocator_fail(&memory, 0, false);
        bench_close(&b);
        assert_int_equal(memory.live_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native_is_given_what_belongs_to_its_call),
        cmocka_unit_test(test_F1_F2_outcomes_of_a_native),
        cmocka_unit_test(test_native_that_is_not_registered_is_not_started),
        cmocka_unit_test(test_native_registration_is_checked_and_owns_its_ctx),
        cmocka_unit_test(test_D6_abandoned_native_is_counted_until_it_returns_and_others_go_on),
        cmocka_unit_test(test_native_that_found_no_thread_was_not_run),
        cmocka_unit_test(test_close_waits_for_natives_and_uses_their_results),
        cmocka_unit_test(test_close_leaves_a_native_that_does_not_return_by_its_limit),
        cmocka_unit_test(test_abandoned_threads_that_return_while_closing),
        cmocka_unit_test(test_D2_transactional_native_gets_the_handle),
        cmocka_unit_test(test_D6_abort_reaches_a_transactional_native),
        cmocka_unit_test(test_every_failed_allocation_is_an_answer),
    };
    return cmocka_run_group_tests_name("native tools", tests, NULL, NULL);
}
