/*
 * The runner: starts calls, asks them to end, and tells how they ended, each exactly once.
 *
 * Everything that ends goes through one queue that the loop empties when it is woken: a kind never
 * tells from inside its own start or abort, and a host may start and abort from inside `done`.
 * Closing is that queue run dry: every call ends or is abandoned, the threads go, then the handles.
 */
#include "base/utf8.h"
#include "tool/tool_inner.h"

#define THREADS_DEFAULT ((size_t)4)
#define OUTPUT_DEFAULT ((size_t)50 * 1024 * 1024)

int64_t pw_tool_now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000u);
}

/* --- The queue -------------------------------------------------------------------------------- */

static void wake(pw_tool_runner *runner)
{
    (void)uv_async_send(&runner->wake); /* fails only on a closing handle, which is closed last */
}

static void make_ready(pw_run *run)
{
    pw_tool_runner *runner = run->runner;
    if (!run->ready) {
        run->ready = true;
        run->ready_next = NULL;
        if (runner->ready_last != NULL) {
            runner->ready_last->ready_next = run;
        } else {
            runner->ready_first = run;
        }
        runner->ready_last = run;
    }
    wake(runner);
}

void pw_run_end(pw_run *run)
{
    PW_ASSERT(!run->ended);
    run->ended = true;
    make_ready(run);
}

void pw_run_abandon(pw_run *run)
{
    if (!run->ended && !run->abandoned) {
        run->abandoned = true;
        make_ready(run);
    }
}

static void tell(pw_run *run)
{
    pw_tool_host *host = &run->runner->host;
    if (run->ended && run->told) {
        if (host->late != NULL && run->abandoned && run->outcome.kind != PW_TOOL_ABANDONED) {
            host->late(host->ctx, run->call, &run->outcome);
        }
        return;
    }
    const pw_tool_outcome abandoned = {.kind = PW_TOOL_ABANDONED,
                                       .limit_passed = run->limit_passed};
    run->told = true;
    if (run->ended && run->outcome.kind == PW_TOOL_ABANDONED) {
        run->outcome.limit_passed = run->limit_passed || !run->aborted;
    }
    host->done(host->ctx, run->call, run->ended ? &run->outcome : &abandoned);
}

static void check_closed(pw_tool_runner *runner);

static void on_wake(uv_async_t *handle)
{
    pw_tool_runner *runner = handle->data;
    pw_pool_collect(runner);
    pw_command_child(runner);
    while (runner->ready_first != NULL) {
        pw_run *run = runner->ready_first;
        runner->ready_first = run->ready_next;
        if (runner->ready_first == NULL) {
            runner->ready_last = NULL;
        }
        run->ready = false;
        tell(run);
        if (run->ended) {
            run->kind->release(run);
        } else if (runner->closing && run->kind == &pw_run_command) {
            pw_command_drop(run);
        }
    }
    check_closed(runner);
}

/* --- Runs ------------------------------------------------------------------------------------- */

static pw_run *run_new(pw_tool_runner *runner, const pw_run_kind *kind, const pw_tool_call *call)
{
    const pw_allocator *allocator = runner->host.allocator;
    pw_run *run = allocator->resize(allocator->ctx, NULL, 0, sizeof *run);
    if (run == NULL) {
        return NULL;
    }
    memset(run, 0, sizeof *run);
    run->runner = runner;
    run->kind = kind;
    run->call = call->call;
    run->due_ms = pw_tool_now_ms() + call->limit_ms;
    atomic_init(&run->over, false);
    pw_arena_init(&run->arena, allocator, 0, 0);
    run->next = runner->runs;
    if (run->next != NULL) {
        run->next->previous = run;
    }
    runner->runs = run;
    return run;
}

void pw_run_free(pw_run *run)
{
    pw_tool_runner *runner = run->runner;
    PW_ASSERT(!run->ready);
    if (run->previous != NULL) {
        run->previous->next = run->next;
    } else {
        runner->runs = run->next;
    }
    if (run->next != NULL) {
        run->next->previous = run->previous;
    }
    pw_arena_free(&run->arena);
    runner->host.allocator->resize(runner->host.allocator->ctx, run, sizeof *run, 0);
    check_closed(runner);
}

static const pw_run_kind *kind_of(const pw_tool_declaration *tool)
{
    static const pw_run_kind *const kinds[] = {&pw_run_native, &pw_run_sql, &pw_run_command,
                                               &pw_run_http};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (pw_str_is(tool->kind, kinds[i]->name)) {
            return kinds[i];
        }
    }
    return NULL;
}

pw_status pw_tool_start(pw_tool_runner *runner, const pw_tool_call *call,
                        const pw_tool_place *place, pw_error *error)
{
    if (runner->closing) {
        return PW_FAIL(error, PW_CLOSED, "the tools are being closed");
    }
    const pw_run_kind *kind = kind_of(call->tool);
    if (kind == NULL) {
        return PW_FAIL(error, PW_UNSUPPORTED, "tools of kind %.*s are not supported",
                       PW_STR_ARG(call->tool->kind));
    }
    if (call->tool->effects == PW_EFFECTS_TRANSACTIONAL) {
        return PW_FAIL(error, PW_UNSUPPORTED,
                       "a transactional tool runs in the store's transaction only");
    }
    pw_run *run = run_new(runner, kind, call);
    if (run == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    pw_status status = kind->start(run, call, place, error);
    if (status != PW_OK) {
        run->told = true;
        kind->release(run);
    }
    return status;
}

static void abort_run(pw_run *run, bool limit_passed)
{
    if (!run->ended && !run->told && !run->aborted) {
        run->aborted = true;
        run->limit_passed = limit_passed;
        atomic_store(&run->over, true);
        run->kind->abort(run);
    }
}

void pw_tool_abort(pw_tool_runner *runner, uint64_t call, bool limit_passed)
{
    for (pw_run *run = runner->runs; run != NULL; run = run->next) {
        if (run->call == call) {
            abort_run(run, limit_passed);
            return;
        }
    }
    pthread_mutex_lock(&runner->transact_lock);
    if (runner->transacting != NULL && runner->transacting_call == call) {
        pw_call_over(runner->transacting);
    }
    pthread_mutex_unlock(&runner->transact_lock);
}

size_t pw_tool_abandoned(const pw_tool_runner *runner)
{
    pw_tool_runner *own = (pw_tool_runner *)(uintptr_t)runner; /* only the lock is written */
    pthread_mutex_lock(&own->pool.lock);
    size_t stuck = own->pool.stuck;
    pthread_mutex_unlock(&own->pool.lock);
    return stuck;
}

pw_status pw_tool_transact(pw_tool_runner *runner, const pw_tool_call *call,
                           const pw_tool_place *place, void *handle, int32_t handle_kind,
                           pw_arena *arena, pw_tool_outcome *ret)
{
    if (pw_str_is(call->tool->kind, "native")) {
        return pw_native_transact(runner, call, place, handle, handle_kind, arena, ret);
    }
    PW_ASSERT(pw_str_is(call->tool->kind, "sql"));
    pw_tool_outcome outcome = {.kind = PW_TOOL_FATAL};
    if (handle == NULL || handle_kind != PAWL_SQLITE) {
        outcome.message = PW_STR("this store has no SQL transactions for a tool of kind sql");
    } else {
        const pw_json *arguments = NULL;
        pw_status status = pw_json_parse(arena, call->arguments, 0, &arguments, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
        PW_ASSERT(status == PW_OK); /* the session machine lets only valid arguments through */
        PW_TRY(
            pw_sql_run(handle, pw_json_get(call->tool->config, "sql"), arguments, arena, &outcome));
    }
    *ret = outcome;
    return PW_OK;
}

void pw_outcome_error(pw_tool_outcome *outcome, const char *error_class, const char *message)
{
    *outcome = (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                                 .error_class = pw_str_from(error_class),
                                 .message = pw_str_from(message)};
}

/* A \u escape of a surrogate or of NUL may need mending; any other text of JSON does not. */
static bool may_need_mending(pw_str text)
{
    for (size_t i = 0; i + 3 < text.len; i++) {
        if (text.ptr[i] == '\\' && text.ptr[i + 1] == 'u' &&
            (text.ptr[i + 2] == 'd' || text.ptr[i + 2] == 'D' || text.ptr[i + 2] == '0')) {
            return true;
        }
    }
    return false;
}

pw_status pw_tool_json(pw_arena *arena, pw_str text, pw_str *ret)
{
    text = pw_str_trim(text);
    if (!may_need_mending(text) && pw_json_valid(text)) {
        *ret = text;
        return PW_OK;
    }
    const pw_json *value = NULL;
    pw_status status = pw_json_parse(arena, text, PW_JSON_MEND_UTF8, &value, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? PW_NOMEM : PW_INVALID;
    }
    pw_buffer clean;
    pw_buffer_init_arena(&clean, arena, text.len * 3 + 64);
    PW_TRY(pw_json_clean(&clean, value));
    *ret = pw_buffer_str(&clean);
    return PW_OK;
}

pw_status pw_tool_text(pw_buffer *out, const pw_allocator *allocator, pw_str text)
{
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r')) {
        text.len--;
    }
    pw_buffer mended;
    pw_buffer_init(&mended, allocator, text.len * 3 + 1);
    pw_status status = pw_utf8_clean(text) ? PW_OK : pw_utf8_mend(&mended, text);
    if (status == PW_OK) {
        (void)pw_buffer_byte(out, '"');
        pw_json_escape(out, mended.len > 0 ? pw_buffer_str(&mended) : text);
        status = pw_buffer_byte(out, '"');
    }
    pw_buffer_free(&mended);
    return status;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void runner_free(pw_tool_runner *runner)
{
    const pw_allocator *allocator = runner->host.allocator;
    for (pw_native *n = runner->natives; n != NULL; n = n->next) {
        if (n->tool.ctx_free != NULL) {
            n->tool.ctx_free(n->tool.ctx);
        }
    }
    pw_pool_free(&runner->pool);
    pthread_mutex_destroy(&runner->transact_lock);
    pw_arena_free(&runner->arena);
    allocator->resize(allocator->ctx, runner, sizeof *runner, 0);
}

void pw_runner_unhold(pw_tool_runner *runner)
{
    if (atomic_fetch_sub(&runner->holders, 1) == 1) {
        runner_free(runner);
    }
}

static void one_closed(void *context)
{
    pw_tool_runner *runner = context;
    if (--runner->handles == 0) {
        void (*closed)(void *) = runner->closed;
        void *ctx = runner->closed_ctx;
        pw_runner_unhold(runner);
        closed(ctx);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    one_closed(handle->data);
}

/* Its memory waits for handles of the loop, also when it was never started. */
static bool is_the_loops(const pw_run *run)
{
    return run->kind == &pw_run_command || run->kind == &pw_run_http;
}

static bool only_stuck_left(const pw_tool_runner *runner)
{
    for (const pw_run *run = runner->runs; run != NULL; run = run->next) {
        if (is_the_loops(run) || !run->told || run->ended) {
            return false;
        }
    }
    return true;
}

static void check_closed(pw_tool_runner *runner)
{
    if (!runner->closing || runner->ending || !only_stuck_left(runner) || !pw_pool_stop(runner)) {
        return;
    }
    runner->ending = true;
    pw_pool_leave(runner);
    if (runner->http != NULL) {
        runner->handles++;
        pw_http_close(runner->http, one_closed, runner);
    }
    uv_close((uv_handle_t *)&runner->wake, on_handle_closed);
    uv_close((uv_handle_t *)&runner->last_call, on_handle_closed);
    uv_close((uv_handle_t *)&runner->child, on_handle_closed);
}

static void on_last_call(uv_timer_t *timer)
{
    pw_tool_runner *runner = timer->data;
    for (pw_run *run = runner->runs; run != NULL; run = run->next) {
        if (!is_the_loops(run) && !run->told && pw_pool_abandon(runner, run)) {
            pw_run_abandon(run);
        }
    }
}

void pw_tool_runner_close(pw_tool_runner *runner, void (*closed)(void *ctx), void *ctx)
{
    PW_ASSERT(!runner->closing);
    runner->closing = true;
    runner->closed = closed;
    runner->closed_ctx = ctx;
    int64_t latest = 0;
    pw_run *next = NULL;
    for (pw_run *run = runner->runs; run != NULL; run = next) {
        next = run->next; /* dropping a run may free it */
        abort_run(run, false);
        if (run->kind == &pw_run_command) {
            if (run->told && !run->ended) {
                pw_command_drop(run);
            }
        } else if (!run->told && run->due_ms > latest) {
            latest = run->due_ms;
        }
    }
    const int64_t left = latest - pw_tool_now_ms();
    (void)uv_timer_start(&runner->last_call, on_last_call, left > 0 ? (uint64_t)left : 0, 0);
    wake(runner);
}

static pw_status init_handles(pw_tool_runner *runner)
{
    uv_loop_t *loop = runner->host.loop;
    if (uv_async_init(loop, &runner->wake, on_wake) != 0) {
        return PW_IO;
    }
    (void)uv_timer_init(loop, &runner->last_call); /* these two cannot fail on a loop that works */
    (void)uv_signal_init(loop, &runner->child);
    runner->wake.data = runner;
    runner->last_call.data = runner;
    runner->child.data = runner;
    uv_unref((uv_handle_t *)&runner->child);
    runner->handles = 3;
    return PW_OK;
}

pw_status pw_tool_runner_new(const pw_tool_host *host, pw_tool_runner **ret, pw_error *error)
{
    const pw_allocator *allocator = host->allocator;
    pw_tool_runner *runner = allocator->resize(allocator->ctx, NULL, 0, sizeof *runner);
    if (runner == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    memset(runner, 0, sizeof *runner);
    runner->host = *host;
    if (runner->host.output_bytes == 0) {
        runner->host.output_bytes = OUTPUT_DEFAULT;
    }
    atomic_init(&runner->holders, 1);
    pw_arena_init(&runner->arena, allocator, 0, 0);
    const size_t cap = host->threads > 0 ? (size_t)host->threads : THREADS_DEFAULT;
    pw_status status = pw_pool_init(&runner->pool, cap);
    if (status == PW_OK && pthread_mutex_init(&runner->transact_lock, NULL) != 0) {
        pw_pool_free(&runner->pool);
        status = PW_NOMEM;
    }
    if (status != PW_OK) {
        allocator->resize(allocator->ctx, runner, sizeof *runner, 0);
        return PW_FAIL(error, status, "no resources for tools");
    }
    status = pw_arena_dup(&runner->arena, host->store_path, &runner->host.store_path);
    if (status == PW_OK) {
        status = init_handles(runner);
    }
    if (status != PW_OK) {
        runner_free(runner);
        return PW_FAIL(error, status, "no resources for tools");
    }
    *ret = runner;
    return PW_OK;
}
