/*
 * Command tools: a child process a call.
 *
 *   running ──exit──► reaped, what is in its pipes is read, ended
 *      │ abort, too much output: SIGKILL to its process group
 *      └─► killed ──exit──► as above
 *             └─ does not die in GRACE_MS (a program of another user's): abandoned
 *
 * The call ends with its own process, not with its pipes: what a child leaves in the background may
 * hold those open for as long as it likes. The group is killed only while its leader is not reaped
 * yet, so that its number cannot have become somebody else's. Who exits is seen by a pidfd; where
 * there is none, by SIGCHLD.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/format.h"
#include "base/utf8.h"
#include "tool/tool_inner.h"

#define GRACE_MS 2000
#define LINE_BYTES ((size_t)8 * 1024) /* F1 cuts at 2,000 characters */
#define READ_BYTES ((size_t)64 * 1024)
#define READS_A_WAKE 16 /* then others have their turn */

typedef struct last_line {
    char now[LINE_BYTES], last[LINE_BYTES];
    size_t now_len, last_len;
} last_line;

struct pw_command {
    pw_run *run;
    pid_t pid; /* 0: not started, or reaped */
    int out_fd, err_fd, pid_fd;
    uv_poll_t out, err, exit;
    uv_timer_t grace;
    bool out_made, err_made, exit_made, grace_made;
    int handles;      /* not yet closed */
    pw_buffer output; /* standard output */
    pw_buffer text;   /* its JSON string, when it is not JSON */
    bool too_much, killed, released;
    int status;                  /* of waitpid; -1: somebody else took it */
    last_line complaint;         /* standard error */
    pw_command *previous, *next; /* of runner->commands */
};

/* --- Its outputs ------------------------------------------------------------------------------ */

static void line_end(last_line *line)
{
    if (pw_str_trim((pw_str){line->now, line->now_len}).len > 0) {
        memcpy(line->last, line->now, line->now_len);
        line->last_len = line->now_len;
    }
    line->now_len = 0;
}

static void line_add(last_line *line, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\n') {
            line_end(line);
        } else if (line->now_len < LINE_BYTES) {
            line->now[line->now_len++] = bytes[i];
        }
    }
}

static void kill_group(pw_command *c)
{
    if (c->pid > 0 && !c->killed) {
        c->killed = true;
        (void)kill(-c->pid, SIGKILL); /* EPERM: the grace timer sees to it */
    }
}

static void take_output(pw_command *c, bool is_error, const char *bytes, size_t size)
{
    if (is_error) {
        line_add(&c->complaint, bytes, size);
    } else if (!c->too_much && pw_buffer_add(&c->output, (pw_str){bytes, size}) != PW_OK) {
        c->too_much = true;
        kill_group(c);
    }
}

/* True when there is nothing more for now or for ever (`*ret_end`). */
static bool read_some(pw_command *c, bool is_error, bool *ret_end)
{
    char bytes[READ_BYTES];
    ssize_t size = -1;
    do {
        size = read(is_error ? c->err_fd : c->out_fd, bytes, sizeof bytes);
    } while (size < 0 && errno == EINTR);
    *ret_end = size == 0 || (size < 0 && errno != EAGAIN);
    if (size <= 0) {
        return true;
    }
    take_output(c, is_error, bytes, (size_t)size);
    return false;
}

static void on_output(uv_poll_t *handle, int status, int events)
{
    (void)events;
    pw_command *c = handle->data;
    const bool is_error = handle == &c->err;
    bool end = status < 0;
    for (int i = 0; i < READS_A_WAKE && !end; i++) {
        if (read_some(c, is_error, &end)) {
            break;
        }
    }
    if (end || (c->too_much && !is_error)) {
        (void)uv_poll_stop(handle);
    }
}

static void drain(pw_command *c)
{
    /* A child left behind may write for ever: no more than the cap is looked at. */
    size_t left = c->run->runner->host.output_bytes / READ_BYTES + 2;
    bool end = false;
    while (left-- > 0 && !c->too_much && !read_some(c, false, &end)) {
    }
    left = READS_A_WAKE;
    while (left-- > 0 && !read_some(c, true, &end)) {
    }
}

/* --- Its end ---------------------------------------------------------------------------------- */

static pw_str complaint(pw_command *c, pw_str otherwise)
{
    line_end(&c->complaint);
    const pw_str line = pw_str_trim((pw_str){c->complaint.last, c->complaint.last_len});
    if (line.len == 0) {
        return otherwise;
    }
    pw_buffer mended;
    pw_buffer_init_arena(&mended, &c->run->arena, line.len * 3 + 1);
    return pw_utf8_mend(&mended, line) == PW_OK ? pw_buffer_str(&mended) : otherwise;
}

static pw_str numbered(pw_command *c, const char *format, int number)
{
    char *text = pw_arena_bytes(&c->run->arena, 64);
    if (text == NULL) {
        return PW_STR("it failed");
    }
    return (pw_str){text, pw_format(text, 64, "%s %d", format, number)};
}

static void exited(pw_command *c, int code, pw_tool_outcome *outcome)
{
    if (code == 75) {
        *outcome = (pw_tool_outcome){
            .kind = PW_TOOL_FATAL,
            .message = PW_STR("the tool asked to park (exit status 75), which is not supported in "
                              "this version")};
    } else if (code == 78) {
        *outcome =
            (pw_tool_outcome){.kind = PW_TOOL_FATAL,
                              .message = complaint(c, PW_STR("the tool gave up (exit status 78)"))};
    } else if (code != 0) {
        const pw_str message = complaint(c, numbered(c, "exited with status", code));
        *outcome = (pw_tool_outcome){.kind = PW_TOOL_ERROR, .message = message};
    } else {
        const pw_str output = pw_buffer_str(&c->output);
        pw_status status = pw_tool_json(&c->run->arena, output, &outcome->json);
        if (status == PW_INVALID) {
            status = pw_tool_text(&c->text, c->run->runner->host.allocator, output);
            *outcome = (pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = pw_buffer_str(&c->text)};
        }
        if (status != PW_OK) {
            pw_outcome_error(outcome, "OutOfMemory", "the tool's result was lost: out of memory");
        }
    }
}

static void decide(pw_command *c, pw_tool_outcome *outcome)
{
    const bool known = c->status >= 0;
    if (c->run->aborted && !(known && WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0)) {
        outcome->kind = PW_TOOL_ABANDONED;
    } else if (c->too_much) {
        pw_outcome_error(outcome, "TooMuchOutput",
                         c->output.failed == PW_NOMEM
                             ? "the tool was stopped: no memory for its output"
                             : "the tool was stopped: its output is over the limit");
    } else if (!known) {
        pw_outcome_error(outcome, "",
                         "how the tool exited is not known: another part of this "
                         "program took its status");
    } else if (WIFEXITED(c->status)) {
        exited(c, WEXITSTATUS(c->status), outcome);
    } else {
        const pw_str message = complaint(c, numbered(c, "ended by signal", WTERMSIG(c->status)));
        *outcome = (pw_tool_outcome){
            .kind = PW_TOOL_ERROR, .error_class = PW_STR("Signal"), .message = message};
    }
}

static void unwatch(pw_command *c)
{
    pw_tool_runner *runner = c->run->runner;
    if (c->previous != NULL) {
        c->previous->next = c->next;
    } else if (runner->commands == c) {
        runner->commands = c->next;
    }
    if (c->next != NULL) {
        c->next->previous = c->previous;
    }
    c->previous = c->next = NULL;
}

/* Reaps it if it has exited. */
static void look(pw_command *c)
{
    if (c->pid <= 0 || c->released) {
        return;
    }
    int status = 0;
    pid_t got = -1;
    do {
        got = waitpid(c->pid, &status, WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        return;
    }
    c->status = got == c->pid ? status : -1;
    c->pid = 0;
    drain(c);
    decide(c, &c->run->outcome);
    pw_run_end(c->run);
}

static void on_exit_seen(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    pw_command *c = handle->data;
    look(c);
    if (c->pid == 0) {
        (void)uv_poll_stop(handle);
    }
}

void pw_command_child(pw_tool_runner *runner)
{
    pw_command *next = NULL;
    for (pw_command *c = runner->commands; c != NULL; c = next) {
        next = c->next;
        look(c);
        if (c->pid == 0) {
            unwatch(c);
        }
    }
}

static void on_child(uv_signal_t *handle, int number)
{
    (void)number;
    pw_command_child(handle->data);
}

/* --- Letting go ------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    pw_command *c = handle->data;
    if (--c->handles > 0) {
        return;
    }
    pw_run *run = c->run;
    if (c->out_fd >= 0) {
        (void)close(c->out_fd);
        (void)close(c->err_fd);
    }
    if (c->pid_fd >= 0) {
        (void)close(c->pid_fd);
    }
    pw_buffer_free(&c->output);
    pw_buffer_free(&c->text);
    pw_run_free(run);
}

static void release(pw_run *run)
{
    pw_command *c = run->state;
    if (c == NULL || c->handles == 0) {
        pw_run_free(run);
        return;
    }
    PW_ASSERT(!c->released);
    c->released = true;
    unwatch(c);
    if (c->out_made) {
        uv_close((uv_handle_t *)&c->out, on_closed);
    }
    if (c->err_made) {
        uv_close((uv_handle_t *)&c->err, on_closed);
    }
    if (c->exit_made) {
        uv_close((uv_handle_t *)&c->exit, on_closed);
    }
    uv_close((uv_handle_t *)&c->grace, on_closed);
}

void pw_command_drop(pw_run *run)
{
    pw_command *c = run->state;
    if (!c->released) {
        release(run);
    }
}

static void on_grace_over(uv_timer_t *timer)
{
    pw_command *c = timer->data;
    pw_run_abandon(c->run);
}

static void abort_command(pw_run *run)
{
    pw_command *c = run->state;
    kill_group(c);
    (void)uv_timer_start(&c->grace, on_grace_over, GRACE_MS, 0);
}

/* --- Starting --------------------------------------------------------------------------------- */

static pw_status make_argv(pw_arena *arena, const pw_json *run, char *const **ret)
{
    char **argv = PW_NEW_ARRAY(arena, char *, (size_t)run->count + 1);
    if (argv == NULL) {
        return PW_NOMEM;
    }
    size_t count = 0;
    for (const pw_json *word = run->child; word != NULL; word = word->next) {
        pw_str copied;
        PW_TRY(pw_arena_dup(arena, word->text, &copied));
        argv[count++] = (char *)(uintptr_t)copied.ptr; /* posix_spawn's type; nobody writes there */
    }
    *ret = argv;
    return PW_OK;
}

static pw_status put_variable(pw_arena *arena, char ***at, pw_str name, pw_str value)
{
    char *text = pw_arena_bytes(arena, name.len + value.len + 2);
    if (text == NULL) {
        return PW_NOMEM;
    }
    (void)pw_format(text, name.len + value.len + 2, "%.*s=%.*s", PW_STR_ARG(name),
                    PW_STR_ARG(value));
    *(*at)++ = text;
    return PW_OK;
}

static pw_status put_ours(pw_arena *arena, char ***at, pw_str name)
{
    pw_str terminated;
    PW_TRY(pw_arena_dup(arena, name, &terminated));
    const char *value = getenv(terminated.ptr);
    return value != NULL ? put_variable(arena, at, name, pw_str_from(value)) : PW_OK;
}

static pw_status make_envp(pw_arena *arena, const pw_tool_call *call, const pw_tool_place *place,
                           char *const **ret)
{
    static const pw_str always[] = {PW_STR_INIT("PATH"), PW_STR_INIT("HOME"), PW_STR_INIT("LANG")};
    const struct {
        pw_str name, value;
    } own[] = {{PW_STR("PAWL_SESSION"), place->session},
               {PW_STR("PAWL_TURN"), call->turn},
               {PW_STR("PAWL_STEP"), call->step},
               {PW_STR("PAWL_IDEMPOTENCY_KEY"), call->key},
               {PW_STR("PAWL_ANSWERS"), PW_STR("{}")}};
    const pw_json *listed = pw_json_get(call->tool->config, "env");
    char **envp = PW_NEW_ARRAY(arena, char *, 16 + (listed != NULL ? (size_t)listed->count : 0));
    if (envp == NULL) {
        return PW_NOMEM;
    }
    char **at = envp;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        PW_TRY(put_variable(arena, &at, own[i].name, own[i].value));
    }
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        PW_TRY(put_ours(arena, &at, always[i]));
    }
    for (const pw_json *name = listed != NULL ? listed->child : NULL; name; name = name->next) {
        PW_TRY(put_ours(arena, &at, name->text));
    }
    *ret = envp;
    return PW_OK;
}

static bool watch_by_signal(pw_command *c)
{
    pw_tool_runner *runner = c->run->runner;
    if (!runner->child_watched) {
        if (uv_signal_start(&runner->child, on_child, SIGCHLD) != 0) {
            return false;
        }
        runner->child_watched = true;
    }
    c->next = runner->commands;
    if (c->next != NULL) {
        c->next->previous = c;
    }
    runner->commands = c;
    (void)uv_async_send(&runner->wake); /* it may have exited before we watched */
    return true;
}

static bool watch_exit(pw_command *c)
{
    uv_loop_t *loop = c->run->runner->host.loop;
    c->pid_fd = c->run->runner->no_pidfd ? -1 : pw_spawn_watch(c->pid);
    if (c->pid_fd >= 0 && uv_poll_init(loop, &c->exit, c->pid_fd) == 0) {
        c->exit_made = true;
        c->handles++;
        c->exit.data = c;
        if (uv_poll_start(&c->exit, UV_READABLE, on_exit_seen) == 0) {
            return true;
        }
    }
    return watch_by_signal(c);
}

static bool watch_outputs(pw_command *c)
{
    uv_loop_t *loop = c->run->runner->host.loop;
    if (uv_poll_init(loop, &c->out, c->out_fd) != 0) {
        return false;
    }
    c->out_made = true;
    c->handles++;
    c->out.data = c;
    if (uv_poll_init(loop, &c->err, c->err_fd) != 0) {
        return false;
    }
    c->err_made = true;
    c->handles++;
    c->err.data = c;
    return uv_poll_start(&c->out, UV_READABLE, on_output) == 0 &&
           uv_poll_start(&c->err, UV_READABLE, on_output) == 0;
}

static pw_status launch(pw_command *c, pw_spawn *child, pw_error *error)
{
    PW_TRY(pw_spawn_start(child, error));
    c->pid = child->pid;
    c->out_fd = child->out;
    c->err_fd = child->err;
    if (watch_outputs(c) && watch_exit(c)) {
        return PW_OK;
    }
    kill_group(c);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    c->pid = 0;
    return PW_FAIL(error, PW_IO, "cannot watch \"%s\"", child->argv[0]);
}

static pw_status prepare(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                         pw_spawn *child)
{
    pw_arena *arena = &run->arena;
    pw_command *c = PW_NEW(arena, pw_command);
    if (c == NULL) {
        return PW_NOMEM;
    }
    c->run = run;
    c->out_fd = c->err_fd = c->pid_fd = -1;
    const pw_allocator *allocator = run->runner->host.allocator;
    const size_t output_bytes = run->runner->host.output_bytes;
    pw_buffer_init(&c->output, allocator, output_bytes);
    pw_buffer_init(&c->text, allocator, output_bytes * 6 + 2);
    PW_TRY(make_argv(arena, pw_json_get(call->tool->config, "run"), &child->argv));
    PW_TRY(make_envp(arena, call, place, &child->envp));
    child->input = call->arguments;
    if (place->directory.len > 0) {
        pw_str directory;
        PW_TRY(pw_arena_dup(arena, place->directory, &directory));
        child->directory = directory.ptr;
    }
    (void)uv_timer_init(run->runner->host.loop, &c->grace);
    c->grace.data = c;
    c->handles = 1;
    run->state = c; /* from here `release` closes it */
    return PW_OK;
}

static pw_status start(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                       pw_error *error)
{
    pw_spawn child = {0};
    if (prepare(run, call, place, &child) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    pw_error why = {0};
    pw_status status = launch(run->state, &child, &why);
    if (status ==
        PW_NOT_FOUND) { /* it cannot be run: the agent is wrong, and the turn should say so (F2) */
        pw_str message;
        status = pw_arena_dup(&run->arena, pw_str_from(why.message), &message);
        if (status == PW_OK) {
            run->outcome = (pw_tool_outcome){.kind = PW_TOOL_FATAL, .message = message};
            pw_run_end(run);
        }
    }
    return status == PW_OK ? PW_OK : PW_FAIL(error, status, "%s", why.message);
}

const pw_run_kind pw_run_command = {
    .name = "command", .start = start, .abort = abort_command, .release = release};
