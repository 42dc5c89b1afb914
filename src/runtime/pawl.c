/*
 * The handle: opening, starting, draining, closing, and the few functions that need no session. The
 * caller's thread. Must never leave half a handle behind: what a failed open or start made, it
 * takes down again.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/format.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "runtime/loop.h"
#include "runtime/setup.h"

_Static_assert(sizeof(pawl_error) == sizeof(pw_error), "a pawl_error is a pw_error");
_Static_assert(offsetof(pawl_error, message) == offsetof(pw_error, message),
               "a pawl_error is a pw_error");
#define SAME_NUMBER(name, number, code, text, retry) _Static_assert(PAWL_##name == number, #name);
PW_STATUS_TABLE(SAME_NUMBER)
#undef SAME_NUMBER

const char *pawl_version(void)
{
    return PAWL_VERSION;
}

const char *pawl_status_name(int32_t code)
{
    return pw_status_code((pw_status)code);
}

/* --- Opening --- */

/* Makes the directories of a path, all but its last part, for this user alone. */
static pw_status make_directories(char *path, pw_error *error)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') {
            continue;
        }
        *at = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *at = '/';
        if (failed) {
            return PW_FAIL(error, PW_IO, "the directory of the store cannot be made: %s", path);
        }
    }
    return PW_OK;
}

pw_status pw_setup_default_store(pw_arena *arena, bool read_only, pw_str *ret, pw_error *error)
{
    const char *store = getenv("PAWL_STORE");
    if (store && *store) {
        return pw_arena_dup(arena, pw_str_from(store), ret);
    }
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool own = state && *state == '/';
    if (!own && !(home && *home == '/')) {
        return PW_FAIL(error, PW_INVALID,
                       "store: no $PAWL_STORE, $XDG_STATE_HOME or $HOME says where to keep it");
    }
    char *text = pw_arena_bytes(arena, 4096);
    if (!text) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    size_t len = pw_format(text, 4096, "sqlite:%s%s/pawl/pawl.db", own ? state : home,
                           own ? "" : "/.local/state");
    if (len >= 4096) {
        return PW_FAIL(error, PW_INVALID, "store: the path of the default store is too long");
    }
    if (!read_only) {
        PW_TRY(make_directories(text + sizeof "sqlite:" - 1, error));
    }
    *ret = (pw_str){text, len};
    return PW_OK;
}

pw_str pw_setup_store_path(const pawl *p)
{
    pw_str url = {p->options.store.ptr, p->options.store.len};
    pw_str scheme = PW_STR("sqlite:");
    return pw_str_begins(url, scheme) ? pw_str_slice(url, scheme.len, url.len) : PW_STR_NONE;
}

static pw_status read_outbound(pawl *p, pw_error *error)
{
    pw_str text = {p->options.outbound_allow.ptr, p->options.outbound_allow.len};
    const bool own = text.len > 0;
    if (!own) {
        text = pw_str_from(getenv("PAWL_OUTBOUND_ALLOW"));
    }
    p->options.outbound_allow = (pawl_str){NULL, 0};
    return pw_networks_parse(own ? "options.outbound_allow" : "PAWL_OUTBOUND_ALLOW", text,
                             &p->arena, &p->outbound, error);
}

static pw_status copy_options(pawl *p, const pawl_options *options, pw_error *error)
{
    if (options && (options->size < offsetof(pawl_options, ctx) || options->size > 4096)) {
        return PW_FAIL(error, PW_INVALID, "options.size: set it to sizeof(pawl_options)");
    }
    if (options) {
        memcpy(&p->options, options,
               options->size < sizeof p->options ? options->size : sizeof p->options);
    }
    if ((p->options.flags & ~PAWL_OPEN_READ_ONLY) != 0 || p->options.threads < 0) {
        return PW_FAIL(error, PW_INVALID,
                       "options.flags or options.threads: not a value this version knows");
    }
    PW_TRY(read_outbound(p, error));
    pw_str store = {p->options.store.ptr, p->options.store.len};
    pw_str agents = {p->options.agents.ptr, p->options.agents.len};
    pw_str principal = {p->options.principal.ptr, p->options.principal.len};
    if (principal.len == 0) {
        principal = PW_STR("local");
    }
    if (principal.len > 200 || !pw_utf8_clean(principal) || pw_utf8_has_control(principal)) {
        return PW_FAIL(error, PW_INVALID,
                       "options.principal: 1 to 200 bytes of text without control characters");
    }
    if (store.len == 0) {
        bool read_only = (p->options.flags & PAWL_OPEN_READ_ONLY) != 0;
        PW_TRY(pw_setup_default_store(&p->arena, read_only, &store, error));
    } else {
        PW_TRY(pw_arena_dup(&p->arena, store, &store));
    }
    PW_TRY(pw_arena_dup(&p->arena, agents, &agents));
    PW_TRY(pw_arena_dup(&p->arena, principal, &p->principal));
    pw_str prices = {p->options.prices.ptr, p->options.prices.len};
    PW_TRY(pw_arena_dup(&p->arena, prices, &prices));
    p->options.prices = (pawl_str){prices.ptr, prices.len};
    p->options.store = (pawl_str){store.ptr, store.len};
    p->options.agents = (pawl_str){agents.ptr, agents.len};
    p->options.principal = (pawl_str){p->principal.ptr, p->principal.len};
    return PW_OK;
}

static pw_status open_parts(pawl *p, const pawl_options *options, pw_error *error)
{
    bool read_only = options && (options->flags & PAWL_OPEN_READ_ONLY) != 0;
    PW_TRY(pw_inside_new(p->allocator, &p->inside));
    PW_TRY(pw_setup_new(p));
    PW_TRY(copy_options(p, options, error));
    PW_TRY(pw_setup_prices(p, error));
    pw_store_options store = {.url = {p->options.store.ptr, p->options.store.len},
                              .allocator = p->allocator,
                              .read_only = read_only};
    PW_TRY(pw_store_open(&store, &p->store, error));
    p->traits = pw_store_traits_get(p->store);
    PW_TRY(pw_hub_new(p->allocator, &p->hub));
    if (p->options.agents.len > 0) {
        PW_TRY(pw_setup_load(p, (pw_str){p->options.agents.ptr, p->options.agents.len}, error));
    }
    return read_only ? PW_OK : pw_writer_new(p, &p->writer, error);
}

static void close_parts(pawl *p)
{
    pw_writer_close(p->writer);
    if (p->hub) {
        pw_hub_free(p->hub);
    }
    if (p->store) {
        pw_store_close(p->store);
    }
    pw_setup_free(p);
    pw_inside_unref(p->inside);
    pw_arena_free(&p->arena);
    pw_waiters_free(&p->waiters);
    p->allocator->resize(p->allocator->ctx, p, sizeof *p, 0);
}

int32_t pawl_open(const pawl_options *options, pawl **ret, pawl_error *error)
{
    pw_error *fault = (pw_error *)error;
    if (!ret) {
        return PW_FAIL(fault, PW_MISUSE, "nowhere to put the handle");
    }
    const pw_allocator *allocator = &pw_heap;
    pawl *p = allocator->resize(allocator->ctx, NULL, 0, sizeof *p);
    if (!p) {
        return PW_FAIL(fault, PW_NOMEM, "out of memory");
    }
    memset(p, 0, sizeof *p);
    p->allocator = allocator;
    if (pw_waiters_init(&p->waiters) != PW_OK) {
        allocator->resize(allocator->ctx, p, sizeof *p, 0);
        return PW_FAIL(fault, PW_NOMEM, "out of memory");
    }
    pw_arena_init(&p->arena, allocator, 4096, 0);
    pw_error local = {0};
    pw_status status = open_parts(p, options, fault ? fault : &local);
    if (status != PW_OK) {
        close_parts(p);
        return status == PW_NOMEM ? PW_FAIL(fault, PW_NOMEM, "out of memory") : status;
    }
    *ret = p;
    return PAWL_OK;
}

/* --- Starting, draining, closing --- */

static pw_status check_start(const pawl_start_options *options, pw_error *error)
{
    pw_str session = {options->session.ptr, options->session.len};
    if (options->lease_ms < 0 || (options->lease_ms > 0 && options->lease_ms < 30)) {
        return PW_FAIL(error, PW_INVALID, "lease_ms: 30 ms or more, or 0 for the default");
    }
    if (session.len > 200 || !pw_utf8_clean(session)) {
        return PW_FAIL(error, PW_INVALID, "session: a name has 1 to 200 bytes of text");
    }
    if (options->take_over && session.len == 0) {
        return PW_FAIL(error, PW_INVALID,
                       "take_over: only a session named with it can be taken over");
    }
    if (options->until_request.len > 0 && session.len == 0) {
        return PW_FAIL(error, PW_INVALID, "until_request: needs the session that it belongs to");
    }
    return PW_OK;
}

static pw_status start(pawl *p, const pawl_start_options *options, pw_error *error)
{
    PW_TRY(check_start(options, error));
    PW_TRY(pw_setup_fix(p, error));
    pw_loop *loop = NULL;
    PW_TRY(pw_loop_new(p, options, &loop, error));
    pw_status status = pw_setup_give_tools(p, loop->tools, error);
    bool joined = false;
    if (status == PW_OK) {
        status = pw_owner_join(loop, error);
        joined = status == PW_OK;
    }
    if (status == PW_OK) {
        status = pw_loop_run(loop, error);
    }
    if (status == PW_OK) {
        __atomic_store_n(&p->loop, loop, __ATOMIC_RELEASE);
        return PW_OK;
    }
    if (joined) {
        pw_owner_leave(loop);
    }
    pw_loop_abandon(loop);
    return status;
}

int32_t pawl_start(pawl *p, const pawl_start_options *options, pawl_error *error)
{
    pw_error *fault = (pw_error *)error;
    if (!p || !p->writer) {
        return PW_FAIL(fault, PW_MISUSE, p ? "the handle was opened read-only" : "no handle");
    }
    if (pw_inside_here(p->inside)) {
        return PW_FAIL(fault, PW_MISUSE, "pawl_start cannot be called from a tool or from log");
    }
    pawl_start_options mine = {.size = sizeof mine};
    if (options && (options->size < sizeof(size_t) + sizeof(pawl_str) || options->size > 4096)) {
        return PW_FAIL(fault, PW_INVALID, "options.size: set it to sizeof(pawl_start_options)");
    }
    if (options) {
        memcpy(&mine, options, options->size < sizeof mine ? options->size : sizeof mine);
    }
    pw_error local = {0};
    return start(p, &mine, fault ? fault : &local);
}

int32_t pawl_drain(pawl *p, int64_t timeout_ms)
{
    if (!p) {
        return PAWL_MISUSE;
    }
    pw_loop *loop = pw_loop_of(p);
    if (!loop) {
        return PAWL_OK;
    }
    if (pw_inside_here(p->inside) || pw_loop_here(loop) || pw_writer_here(p->writer)) {
        return PAWL_MISUSE;
    }
    return pw_loop_drain(loop, timeout_ms);
}

void pawl_close(pawl *p)
{
    if (!p) {
        return;
    }
    pw_loop *loop = pw_loop_of(p);
    if (pw_inside_here(p->inside) || (loop && pw_loop_here(loop)) ||
        (p->writer && pw_writer_here(p->writer))) {
        pw_log(p, 0, "misuse", "pawl_close was called from a tool or from log: nothing was closed");
        return;
    }
    pw_hub_close(p->hub);
    pw_waiters_close(&p->waiters);
    if (loop) {
        pw_loop_stop(loop);
        pw_owner_leave(loop);
        pw_writer_close(p->writer); /* it may still poke the loop until here */
        p->writer = NULL;
        pw_loop_close(loop);
    }
    close_parts(p);
}

/* --- Checking agents --- */

static void write_agents(pw_json_writer *w, const pw_agent *const *agents, size_t count)
{
    pw_json_key(w, "agents");
    pw_json_array(w);
    for (size_t i = 0; i < count; i++) {
        pw_json_object(w);
        pw_json_put_str(w, "name", agents[i]->name);
        pw_json_put_str(w, "hash", pw_str_from(agents[i]->definition->hash.text));
        pw_json_key(w, "models");
        pw_json_array(w);
        for (size_t k = 0; k < agents[i]->definition->model_count; k++) {
            pw_json_string(w, agents[i]->definition->models[k].name);
        }
        pw_json_array_end(w);
        pw_json_put_i64(w, "tools", (int64_t)agents[i]->definition->tool_count);
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
}

/* One problem a line. */
static pw_status write_problems(pw_json_writer *w, pw_str report, pw_arena *arena)
{
    pw_buffer text; /* a file's name in it may not be text */
    pw_buffer_init_arena(&text, arena, report.len * 3 + 1);
    PW_TRY(pw_utf8_mend(&text, report));
    report = text.len > 0 ? pw_buffer_str(&text) : report;
    pw_json_key(w, "problems");
    pw_json_array(w);
    while (report.len > 0) {
        size_t end = pw_str_find(report, PW_STR("\n"));
        end = end == SIZE_MAX ? report.len : end;
        if (end > 0) {
            pw_json_string(w, pw_str_slice(report, 0, end));
        }
        report = pw_str_slice(report, end < report.len ? end + 1 : end, report.len);
    }
    pw_json_array_end(w);
    return PW_OK;
}

static pw_status agents_check(pw_str directory, pw_arena *arena, pawl_doc **ret, pw_error *error)
{
    pw_buffer report, text;
    pw_buffer_init_arena(&report, arena, (size_t)1 << 20);
    pw_buffer_init_arena(&text, arena, (size_t)4 << 20);
    const pw_agent *const *agents = NULL;
    size_t count = 0;
    pw_error first = {0};
    pw_status loaded = pw_agents_load(directory, arena, &agents, &count, &report, &first);
    count = loaded == PW_OK ? count : 0;
    if (loaded != PW_OK && report.len == 0) {
        if (error) {
            *error = first;
        }
        return loaded;
    }
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    write_agents(&w, agents, count);
    pw_status written = write_problems(&w, pw_buffer_str(&report), arena);
    pw_json_object_end(&w);
    pw_status status = loaded != PW_OK ? loaded : written;
    if (text.failed != PW_OK) {
        return PW_FAIL(error, text.failed, "the report could not be written");
    }
    PW_TRY((pw_status)pw_doc_new(pw_buffer_str(&text), ret, (pawl_error *)error));
    if (status != PW_OK && error) {
        *error = first;
    }
    return status;
}

int32_t pawl_agents_check(pawl_str directory, pawl_doc **ret, pawl_error *error)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 4096, 0);
    pw_error local = {0};
    pw_error *fault = error ? (pw_error *)error : &local;
    pw_status status =
        ret ? agents_check((pw_str){directory.ptr, directory.len}, &arena, ret, fault)
            : PW_FAIL(fault, PW_MISUSE, "nowhere to put the answer");
    pw_arena_free(&arena);
    return status;
}
