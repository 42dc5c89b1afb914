/* The bench of the tools' tests (bench.h). */
#include "bench.h"

#include "base/heap.h"

const pw_tool_place bench_place = {.session = PW_STR_INIT("s1")};

static pw_tool_outcome keep(bench *b, const pw_tool_outcome *outcome)
{
    pw_tool_outcome kept = *outcome;
    assert_int_equal(pw_arena_dup(&b->arena, outcome->json, &kept.json), PW_OK);
    assert_int_equal(pw_arena_dup(&b->arena, outcome->error_class, &kept.error_class), PW_OK);
    assert_int_equal(pw_arena_dup(&b->arena, outcome->message, &kept.message), PW_OK);
    return kept;
}

static void on_done(void *ctx, uint64_t call, const pw_tool_outcome *outcome)
{
    bench *b = ctx;
    assert_in_range(call, 1, b->started);
    assert_false(b->ends[call].told); /* once */
    b->ends[call].told = true;
    b->ends[call].outcome = keep(b, outcome);
    b->ended++;
    if (outcome->kind == PW_TOOL_RESULT) {
        assert_true(pw_json_valid(outcome->json));
    }
}

static void on_late(void *ctx, uint64_t call, const pw_tool_outcome *outcome)
{
    bench *b = ctx;
    assert_true(b->ends[call].told);
    assert_false(b->ends[call].late);
    b->ends[call].late = true;
    b->ends[call].late_outcome = keep(b, outcome);
}

void bench_open(bench *b, const pw_tool_host *with)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    assert_int_equal(uv_timer_init(&b->loop, &b->timer), 0);
    b->timer.data = b;
    pw_arena_init(&b->arena, &pw_heap, 0, 0);
    pw_tool_host host = with != NULL ? *with : (pw_tool_host){0};
    host.loop = &b->loop;
    host.allocator = host.allocator != NULL ? host.allocator : &pw_heap;
    host.done = on_done;
    host.late = on_late;
    host.ctx = b;
    assert_int_equal(pw_tool_runner_new(&host, &b->runner, NULL), PW_OK);
}

static void on_closed(void *ctx)
{
    bench *b = ctx;
    assert_int_equal(b->ended, b->started); /* all told before */
    b->closed = true;
}

static void on_timer_closed(uv_handle_t *handle)
{
    ((bench *)handle->data)->timer_closed = true;
}

void bench_close(bench *b)
{
    pw_tool_runner_close(b->runner, on_closed, b);
    while (!b->closed) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&b->timer, on_timer_closed);
    while (!b->timer_closed) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    assert_int_equal(uv_run(&b->loop, UV_RUN_NOWAIT), 0);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    pw_arena_free(&b->arena);
}

const pw_tool_declaration *bench_tool(bench *b, const char *json)
{
    pw_tool_declaration *tool = PW_NEW(&b->arena, pw_tool_declaration);
    pw_str text;
    assert_int_equal(pw_arena_dup(&b->arena, pw_str_from(json), &text), PW_OK);
    assert_int_equal(pw_json_parse(&b->arena, text, 0, &tool->config, NULL), PW_OK);
    tool->name = pw_json_text(pw_json_get(tool->config, "name"));
    tool->kind = pw_json_text(pw_json_get(tool->config, "kind"));
    tool->input = pw_json_get(tool->config, "input");
    tool->effects = PW_EFFECTS_ONCE;
    const pw_json *effects = pw_json_get(tool->config, "effects");
    if (effects != NULL) {
        assert_true(pw_effects_from(effects->text, &tool->effects));
    }
    tool->limit_ms = pw_json_i64_or(pw_json_get(tool->config, "limit_ms"), 60000);
    return tool;
}

pw_tool_call bench_call(const pw_tool_declaration *tool, const char *arguments, uint64_t call)
{
    return (pw_tool_call){.call = call,
                          .turn = PW_STR("t1"),
                          .step = PW_STR("tool:1:c1"),
                          .attempt = 1,
                          .tool = tool,
                          .effects = tool->effects,
                          .name = tool->name,
                          .arguments = pw_str_from(arguments),
                          .key = PW_STR("k1"),
                          .limit_ms = tool->limit_ms};
}

pw_status bench_start(bench *b, const pw_tool_declaration *tool, const char *arguments,
                      uint64_t *ret_call, pw_error *error)
{
    assert_true(b->started + 1 < BENCH_CALLS);
    const pw_tool_call call = bench_call(tool, arguments, b->started + 1);
    const size_t ended = b->ended;
    const pw_status status = pw_tool_start(b->runner, &call, &bench_place, error);
    assert_int_equal(b->ended, ended); /* never from inside start */
    if (status == PW_OK) {
        b->started++;
        *ret_call = call.call;
    }
    return status;
}

static void on_timer(uv_timer_t *timer)
{
    ((bench *)timer->data)->limit_over = true;
}

static bool run_until(bench *b, bool (*so)(bench *), size_t ended, int64_t ms)
{
    b->limit_over = false;
    uv_update_time(&b->loop);
    uv_timer_start(&b->timer, on_timer, (uint64_t)ms, 0);
    while (!b->limit_over && (so != NULL ? !so(b) : b->ended < ended)) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&b->timer);
    return so != NULL ? so(b) : b->ended >= ended;
}

bool bench_wait(bench *b, size_t ended, int64_t ms)
{
    return run_until(b, NULL, ended, ms);
}

bool bench_until(bench *b, bool (*so)(bench *))
{
    return run_until(b, so, 0, 10000);
}

pw_tool_outcome bench_run(bench *b, const pw_tool_declaration *tool, const char *arguments)
{
    uint64_t call = 0;
    pw_error error = {0};
    const pw_status status = bench_start(b, tool, arguments, &call, &error);
    if (status != PW_OK) {
        fail_msg("not started: %s", error.message);
    }
    assert_true(bench_wait(b, b->started, 20000));
    return b->ends[call].outcome;
}
