/*
 * Native tools: C functions of the host program, and the pawl_call they are given.
 *
 * The first of pawl_call_return, _error and _fatal settles a call; later ones are PAWL_MISUSE and
 * change nothing. Whatever a call refers to lives in its run's arena, which an abandoned call keeps
 * until its thread returns: a function that ignores its limit does no harm but to its thread.
 */
#include "base/schema.h"
#include "base/utf8.h"
#include "tool/tool_inner.h"

#define CLASS_BYTES ((size_t)200)
#define MESSAGE_BYTES                                                                              \
    ((size_t)64 * 1024) /* F1 cuts what the model reads; this bounds what is copied */

struct pawl_call {
    pw_arena *arena;
    pw_str arguments, key, info;
    int64_t due_ms;
    atomic_bool over;
    void *handle;
    int32_t handle_kind;
    bool settled;
    pw_tool_outcome outcome;
    const pawl_tool *tool;
    pw_run *run; /* NULL: transactional */
};

/* --- Registering ------------------------------------------------------------------------------ */

static pw_str from_public(pawl_str s)
{
    return (pw_str){s.ptr, s.len};
}

static bool good_name(pw_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return name.len >= 1 && name.len <= 64;
}

const pw_native *pw_native_find(const pw_tool_runner *runner, pw_str name)
{
    for (const pw_native *n = runner->natives; n != NULL; n = n->next) {
        if (pw_str_equal(from_public(n->tool.name), name)) {
            return n;
        }
    }
    return NULL;
}

const struct pawl_tool *pw_tool_native_get(const pw_tool_runner *runner, pw_str name)
{
    const pw_native *native = pw_native_find(runner, name);
    return native != NULL ? &native->tool : NULL;
}

static pw_status check_schema(pw_tool_runner *runner, pw_str schema, pw_error *error)
{
    if (schema.len == 0) {
        return PW_OK;
    }
    pw_arena scratch;
    pw_arena_init(&scratch, runner->host.allocator, 0, 0);
    const pw_json *value = NULL;
    pw_status status = pw_json_parse(&scratch, schema, PW_JSON_UNIQUE_KEYS, &value, error);
    if (status == PW_OK) {
        status = pw_schema_check(value, &scratch, error);
    }
    pw_arena_free(&scratch);
    return status;
}

static pw_status check_tool(pw_tool_runner *runner, const pawl_tool *tool, pw_error *error)
{
    if (tool->size < offsetof(pawl_tool, ctx)) {
        return PW_FAIL(error, PW_INVALID, "size: expected sizeof(pawl_tool), found %zu",
                       tool->size);
    }
    if (!good_name(from_public(tool->name))) {
        return PW_FAIL(error, PW_INVALID,
                       "name: expected 1 to 64 letters, digits, _ or -, found \"%.*s\"",
                       PW_STR_ARG(from_public(tool->name)));
    }
    if (tool->run == NULL) {
        return PW_FAIL(error, PW_INVALID, "run: expected a function");
    }
    if (tool->effects < PAWL_NONE || tool->effects > PAWL_TRANSACTIONAL) {
        return PW_FAIL(error, PW_INVALID,
                       "effects: expected one of PAWL_NONE to "
                       "PAWL_TRANSACTIONAL, found %d",
                       tool->effects);
    }
    if (tool->limit_ms < 0) {
        return PW_FAIL(error, PW_INVALID, "limit_ms: expected 0 or more, found %d", tool->limit_ms);
    }
    if (!pw_utf8_clean(from_public(tool->description))) {
        return PW_FAIL(error, PW_INVALID, "description: expected valid UTF-8");
    }
    if (pw_native_find(runner, from_public(tool->name)) != NULL) {
        return PW_FAIL(error, PW_CONFLICT, "a tool named %.*s was added before",
                       PW_STR_ARG(from_public(tool->name)));
    }
    return check_schema(runner, from_public(tool->schema_json), error);
}

static pw_status copy(pw_arena *arena, pawl_str *s)
{
    pw_str copied;
    PW_TRY(pw_arena_dup(arena, from_public(*s), &copied));
    *s = (pawl_str){copied.ptr, copied.len};
    return PW_OK;
}

pw_status pw_tool_native_add(pw_tool_runner *runner, const struct pawl_tool *tool, pw_error *error)
{
    PW_TRY(check_tool(runner, tool, error));
    pw_arena_mark mark = pw_arena_mark_get(&runner->arena);
    pw_native *native = PW_NEW(&runner->arena, pw_native);
    pw_status status = native != NULL ? PW_OK : PW_NOMEM;
    if (status == PW_OK) {
        const size_t size = tool->size < sizeof native->tool ? tool->size : sizeof native->tool;
        memcpy(&native->tool, tool, size);
        status = copy(&runner->arena, &native->tool.name);
    }
    if (status == PW_OK) {
        status = copy(&runner->arena, &native->tool.description);
    }
    if (status == PW_OK) {
        status = copy(&runner->arena, &native->tool.schema_json);
    }
    if (status != PW_OK) {
        pw_arena_rewind(&runner->arena, mark);
        return PW_FAIL(error, status, "out of memory");
    }
    native->next = runner->natives;
    runner->natives = native;
    return PW_OK;
}

/* --- What a tool's function calls ------------------------------------------------------------- */

pawl_str pawl_call_arguments(const pawl_call *call)
{
    return (pawl_str){call->arguments.ptr, call->arguments.len};
}

pawl_str pawl_call_key(const pawl_call *call)
{
    return (pawl_str){call->key.ptr, call->key.len};
}

pawl_str pawl_call_info_json(const pawl_call *call)
{
    return (pawl_str){call->info.ptr, call->info.len};
}

int64_t pawl_call_left_ms(const pawl_call *call)
{
    const bool over = atomic_load(&call->over) || (call->run && atomic_load(&call->run->over));
    const int64_t left = call->due_ms - pw_tool_now_ms();
    return over || left < 0 ? 0 : left;
}

void *pawl_call_handle(pawl_call *call, int32_t kind)
{
    return kind != 0 && kind == call->handle_kind ? call->handle : NULL;
}

/* Valid UTF-8 without NUL, cut; on no memory a text that says so. */
static pw_str kept(pw_arena *arena, pw_str text, size_t limit)
{
    if (text.len > limit) {
        text.len = pw_utf8_cut(text, limit);
    }
    pw_buffer mended;
    pw_buffer_init_arena(&mended, arena, text.len * 3 + 1);
    if (pw_utf8_mend(&mended, text) != PW_OK) {
        return PW_STR("(the message was lost: out of memory)");
    }
    return mended.ptr != NULL ? pw_buffer_str(&mended) : PW_STR("");
}

static int32_t settle(pawl_call *call, const pw_tool_outcome *outcome)
{
    if (call->settled) {
        return PAWL_MISUSE;
    }
    call->settled = true;
    call->outcome = *outcome;
    return PAWL_OK;
}

int32_t pawl_call_return(pawl_call *call, pawl_str json)
{
    if (call->settled) {
        return PAWL_MISUSE;
    }
    pw_tool_outcome outcome = {.kind = PW_TOOL_RESULT};
    pw_str own;
    pw_status status = pw_arena_dup(call->arena, from_public(json), &own);
    if (status == PW_OK) {
        status = pw_tool_json(call->arena, own, &outcome.json);
    }
    if (status == PW_INVALID) {
        outcome = (pw_tool_outcome){.kind = PW_TOOL_FATAL,
                                    .message = PW_STR("the tool returned what is not JSON")};
    } else if (status != PW_OK) {
        pw_outcome_error(&outcome, "OutOfMemory", "the tool's result was lost: out of memory");
    }
    (void)settle(call, &outcome);
    return (int32_t)status;
}

int32_t pawl_call_error(pawl_call *call, pawl_str error_class, pawl_str message)
{
    if (call->settled) {
        return PAWL_MISUSE;
    }
    const pw_tool_outcome outcome = {
        .kind = PW_TOOL_ERROR,
        .error_class = kept(call->arena, from_public(error_class), CLASS_BYTES),
        .message = kept(call->arena, from_public(message), MESSAGE_BYTES)};
    return settle(call, &outcome);
}

int32_t pawl_call_fatal(pawl_call *call, pawl_str message)
{
    if (call->settled) {
        return PAWL_MISUSE;
    }
    const pw_tool_outcome outcome = {
        .kind = PW_TOOL_FATAL, .message = kept(call->arena, from_public(message), MESSAGE_BYTES)};
    return settle(call, &outcome);
}

void pw_call_over(pawl_call *call)
{
    atomic_store(&call->over, true);
}

/* --- Running ---------------------------------------------------------------------------------- */

static pw_status make_info(const pw_tool_call *call, const pw_tool_place *place, pw_arena *arena,
                           pw_str *ret)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, (size_t)1 << 20);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    pw_json_put_str(&w, "session", place->session);
    pw_json_put_str(&w, "turn", call->turn);
    pw_json_put_str(&w, "step", call->step);
    pw_json_put_i64(&w, "attempt", call->attempt);
    pw_json_put_raw(&w, "speaker", call->speaker.len > 0 ? call->speaker : PW_STR("null"));
    pw_json_put_raw(&w, "initiator", call->initiator.len > 0 ? call->initiator : PW_STR("null"));
    pw_json_object_end(&w);
    *ret = pw_buffer_str(&text);
    return text.failed;
}

static pw_status fill(pawl_call *made, const pw_tool_call *call, const pw_tool_place *place,
                      pw_arena *arena)
{
    made->arena = arena;
    made->due_ms = pw_tool_now_ms() + call->limit_ms;
    atomic_init(&made->over, false);
    PW_TRY(pw_arena_dup(arena, call->arguments, &made->arguments));
    PW_TRY(pw_arena_dup(arena, call->key, &made->key));
    return make_info(call, place, arena, &made->info);
}

static void run_function(pawl_call *call)
{
    (void)call->tool->run(call, call->tool->ctx);
    if (!call->settled) {
        call->outcome = (pw_tool_outcome){.kind = PW_TOOL_FATAL,
                                          .message = PW_STR("the tool did not return a result")};
    }
}

pw_status pw_native_transact(pw_tool_runner *runner, const pw_tool_call *call,
                             const pw_tool_place *place, void *handle, int32_t handle_kind,
                             pw_arena *arena, pw_tool_outcome *ret)
{
    const pw_native *native = pw_native_find(runner, call->name);
    if (native == NULL || handle == NULL) {
        *ret = (pw_tool_outcome){
            .kind = PW_TOOL_FATAL,
            .message = native == NULL ? PW_STR("this program has no native tool of that name")
                                      : PW_STR("this store has no transactions")};
        return PW_OK;
    }
    pawl_call made = {.tool = &native->tool, .handle = handle, .handle_kind = handle_kind};
    PW_TRY(fill(&made, call, place, arena));
    pthread_mutex_lock(&runner->transact_lock);
    runner->transacting = &made;
    runner->transacting_call = call->call;
    pthread_mutex_unlock(&runner->transact_lock);
    run_function(&made);
    pthread_mutex_lock(&runner->transact_lock);
    runner->transacting = NULL;
    pthread_mutex_unlock(&runner->transact_lock);
    *ret = made.outcome;
    return PW_OK;
}

static void work(pw_run *run)
{
    pawl_call *call = run->state;
    run_function(call);
    run->outcome = call->outcome;
}

static pw_status start(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                       pw_error *error)
{
    const pw_native *native = pw_native_find(run->runner, call->name);
    if (native == NULL) {
        return PW_FAIL(error, PW_NOT_FOUND, "this program has no native tool named %.*s",
                       PW_STR_ARG(call->name));
    }
    pawl_call *made = PW_NEW(&run->arena, pawl_call);
    if (made == NULL || fill(made, call, place, &run->arena) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    made->tool = &native->tool;
    made->run = run;
    run->state = made;
    run->work = work;
    return pw_pool_give(run->runner, run, error);
}

static void abort_call(pw_run *run)
{
    if (pw_pool_take_back(run->runner, run)) {
        pw_outcome_error(&run->outcome, "NotStarted",
                         "the tool was not run: no thread was free in time");
        pw_run_end(run);
    } else if (!run->runner->closing && pw_pool_abandon(run->runner, run)) {
        pw_run_abandon(run); /* closing waits for it instead, up to its limit */
    }
}

const pw_run_kind pw_run_native = {
    .name = "native", .start = start, .abort = abort_call, .release = pw_run_free};
