/*
 * A turn told to a person as it happens, or as lines of JSON. Replies go to standard output,
 * everything beside them to standard error, so that `pawl run … > file` holds the reply alone. On a
 * terminal text streams; elsewhere a message is written when it is whole, since nothing written to
 * a file can be taken back (C5).
 */
#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define QUIET_MS 2000
#define NOTE_MAX 8192

typedef enum tint { TINT_NONE, TINT_DIM, TINT_GOOD, TINT_BAD, TINT_WARN } tint;

static const char *tint_on(const cli_teller *t, tint color)
{
    static const char *const codes[] = {"", "\033[2m", "\033[32m", "\033[31m", "\033[33m"};
    return t->c->color ? codes[color] : "";
}

static const char *tint_off(const cli_teller *t, tint color)
{
    return t->c->color && color != TINT_NONE ? "\033[0m" : "";
}

/* Control characters, also those of two bytes (U+0080 to U+009F), would be commands to a terminal.
 */
void cli_write(FILE *to, pawl_str text, bool terminal)
{
    if (text.len == 0) { /* there may be no bytes at all */
        return;
    }
    if (!terminal) {
        (void)fwrite(text.ptr, 1, text.len, to);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool pair = c == 0xC2 && i + 1 < text.len && (unsigned char)text.ptr[i + 1] < 0xA0;
        if (pair || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
            fputc('?', to);
            i += pair ? 1 : 0;
        } else {
            fputc(c, to);
        }
    }
}

void cli_cell(pawl_str text, int width)
{
    int columns = 0;
    for (size_t i = 0; i < text.len; i++) {
        columns += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    cli_write(stdout, text.ptr ? text : cli_str("-"), isatty(STDOUT_FILENO));
    columns = text.ptr ? columns : 1;
    printf("%*s", width > columns ? width - columns + 2 : 2, "");
}

void cli_teller_init(cli_teller *t, const cli *c)
{
    *t = (cli_teller){.c = c,
                      .text_terminal = isatty(STDOUT_FILENO) != 0,
                      .notes_terminal = isatty(STDERR_FILENO) != 0,
                      .quiet_since_ms = cli_now_ms()};
    snprintf(t->waiting_for, sizeof(t->waiting_for), "the turn to begin");
}

/* --- Lines
 * ------------------------------------------------------------------------------------------------
 */

static void end_progress(cli_teller *t)
{
    if (t->progress) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        t->progress = false;
    }
    t->quiet_since_ms = cli_now_ms();
}

static void end_line(cli_teller *t)
{
    if (t->mid_line) {
        fputc('\n', stdout);
        fflush(stdout);
        t->mid_line = false;
    }
}

static void write_text(cli_teller *t, pawl_str text)
{
    if (text.len == 0) {
        return;
    }
    end_progress(t);
    cli_write(stdout, text, t->text_terminal);
    fflush(stdout);
    t->mid_line = text.ptr[text.len - 1] != '\n';
}

static void begin_note(cli_teller *t)
{
    end_progress(t);
    end_line(t);
}

void cli_note(cli_teller *t, const char *format, ...)
{
    va_list args;
    if (t->c->json) {
        return;
    }
    char text[NOTE_MAX];
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    begin_note(t);
    fputs(tint_on(t, TINT_DIM), stderr);
    cli_write(stderr,
              (pawl_str){text, len < 0          ? 0
                               : len < NOTE_MAX ? (size_t)len
                                                : NOTE_MAX - 1},
              true); /* names and words from outside */
    fprintf(stderr, "%s\n", tint_off(t, TINT_DIM));
    fflush(stderr);
}

void cli_tell_progress(cli_teller *t)
{
    int64_t quiet = cli_now_ms() - t->quiet_since_ms;
    if (!t->notes_terminal || t->c->json || quiet < QUIET_MS || t->mid_line) {
        return;
    }
    fprintf(stderr, "\r\033[K%s… ", tint_on(t, TINT_DIM));
    cli_write(stderr, cli_str(t->waiting_for), true); /* a tool's name is what a model wrote */
    fprintf(stderr, ", %" PRId64 " s%s", quiet / 1000, tint_off(t, TINT_DIM));
    fflush(stderr);
    t->progress = true;
}

/* --- Events
 * ------------------------------------------------------------------------------------------------
 */

static void wait_for(cli_teller *t, const char *what, pawl_str name)
{
    snprintf(t->waiting_for, sizeof(t->waiting_for), "%s%.*s", what,
             (int)(name.len > 64 ? 64 : name.len), name.ptr ? name.ptr : "");
}

static void on_delta(cli_teller *t, const pawl_doc *data)
{
    pawl_str text = cli_get(data, "text");
    if (t->text_terminal) {
        write_text(t, text);
        t->shown += text.len;
    }
}

static void on_message(cli_teller *t, const pawl_doc *data)
{
    pawl_str text = cli_get(data, "text");
    size_t shown = t->shown < text.len ? (size_t)t->shown : text.len;
    if (text.ptr) {
        write_text(t, (pawl_str){text.ptr + shown, text.len - shown});
    }
    end_line(t);
    t->shown = 0;
}

static void on_restarted(cli_teller *t)
{
    if (t->shown > 0) {
        begin_note(t);
        fprintf(stderr, "%s… that text was taken back; the message starts over%s\n",
                tint_on(t, TINT_WARN), tint_off(t, TINT_WARN));
    }
    t->shown = 0;
}

static void write_error_line(cli_teller *t, pawl_str text)
{
    size_t end = 0;
    while (end < text.len && end < 300 && text.ptr[end] != '\n') {
        end++;
    }
    while (end < text.len && end > 0 && ((unsigned char)text.ptr[end] & 0xC0) == 0x80) {
        end--; /* not inside a character */
    }
    cli_write(stderr, (pawl_str){text.ptr, end}, true);
    fputs(end < text.len ? "…" : "", stderr);
    (void)t;
}

static void on_action(cli_teller *t, const pawl_doc *data)
{
    pawl_str name = cli_get(data, "name"), effects = cli_get(data, "effects"),
             outcome = cli_get(data, "outcome");
    int64_t at = cli_time_ms(cli_get(data, "at")),
            started = cli_time_ms(cli_get(data, "started_at"));
    bool done = cli_is(outcome, "done");
    begin_note(t);
    fputs("→ ", stderr);
    cli_write(stderr, name, true);
    if (effects.ptr) {
        fprintf(stderr, " %s(%.*s)%s", tint_on(t, TINT_DIM), (int)effects.len, effects.ptr,
                tint_off(t, TINT_DIM));
    }
    if (started >= 0 && at >= started) {
        fprintf(stderr, " %" PRId64 " ms", at - started);
    }
    int64_t executions = cli_get_number(data, 1, "executions");
    if (executions > 1) {
        fprintf(stderr, " (run %" PRId64 ")", executions);
    }
    if (done) {
        fprintf(stderr, " %s✓%s\n", tint_on(t, TINT_GOOD), tint_off(t, TINT_GOOD));
    } else {
        tint color = cli_is(outcome, "unknown") ? TINT_WARN : TINT_BAD;
        fprintf(stderr, " %s✗ %.*s%s", tint_on(t, color), (int)outcome.len,
                outcome.ptr ? outcome.ptr : "", tint_off(t, color));
        pawl_str error = cli_get(data, "error");
        if (error.ptr && cli_is(outcome, "error")) {
            fputs(": ", stderr);
            write_error_line(t, error);
        }
        fputc('\n', stderr);
    }
    t->calls_open -= t->calls_open > 0 ? 1 : 0;
    if (t->calls_open == 0) {
        wait_for(t, "waiting for the model", (pawl_str){NULL, 0});
    }
}

static void on_requested(cli_teller *t, const pawl_doc *data)
{
    t->calls_open++;
    wait_for(t, "running ", cli_get(data, "name"));
}

static void on_attempt(cli_teller *t, const pawl_doc *data)
{
    pawl_str cause = cli_get(data, "cause");
    cli_note(t, "… resumed: attempt %" PRId64 " (%.*s)", cli_get_number(data, 0, "attempt"),
             (int)cause.len, cause.ptr ? cause.ptr : "");
    wait_for(t, "waiting for the model", (pawl_str){NULL, 0});
}

static void on_retry(cli_teller *t, const pawl_doc *data)
{
    pawl_str code = cli_get(data, "code"), message = cli_get(data, "message");
    begin_note(t);
    fprintf(stderr, "%s… the model is asked again: %.*s%s", tint_on(t, TINT_WARN), (int)code.len,
            code.ptr ? code.ptr : "", message.len > 0 ? ": " : "");
    write_error_line(t, message);
    fprintf(stderr, "%s\n", tint_off(t, TINT_WARN));
    wait_for(t, "waiting for the model", (pawl_str){NULL, 0});
}

static void on_fallback(cli_teller *t, const pawl_doc *data)
{
    pawl_str code = cli_get(data, "code"), message = cli_get(data, "message");
    pawl_str from = cli_get(data, "from.model"), to = cli_get(data, "to.model");
    begin_note(t);
    fprintf(stderr, "%s… %.*s will not answer, %.*s is asked: %.*s%s", tint_on(t, TINT_WARN),
            (int)from.len, from.ptr ? from.ptr : "", (int)to.len, to.ptr ? to.ptr : "",
            (int)code.len, code.ptr ? code.ptr : "", message.len > 0 ? ": " : "");
    write_error_line(t, message);
    fprintf(stderr, "%s\n", tint_off(t, TINT_WARN));
    wait_for(t, "waiting for the model", (pawl_str){NULL, 0});
}

static void on_waiting(cli_teller *t, const pawl_doc *data)
{
    pawl_str reason = cli_get(data, "reason"), until = cli_get(data, "until");
    cli_note(t, "… waiting (%.*s) until %.*s", (int)reason.len, reason.ptr ? reason.ptr : "",
             (int)until.len, until.ptr ? until.ptr : "");
    wait_for(t, "waiting: ", reason);
}

static void on_queued(cli_teller *t, const pawl_doc *data)
{
    int64_t position = cli_get_number(data, 1, "position");
    if (position > 1) {
        cli_note(t, "… queued at place %" PRId64, position);
    }
}

static void on_terminal(cli_teller *t, const pawl_doc *data)
{
    pawl_str state = cli_get(data, "state");
    if (state.ptr && t->shown > 0) { /* a cancelled message's text so far stands as it is */
        end_line(t);
    }
    t->shown = 0;
}

static void write_json_event(const pawl_event *e)
{
    if (e->id.len > 0) {
        printf("{\"id\":\"%.*s\"", (int)e->id.len, e->id.ptr);
    } else {
        fputs("{\"id\":null", stdout);
    }
    printf(",\"event\":\"%.*s\",\"data\":", (int)e->name.len, e->name.ptr);
    (void)fwrite(e->data_json.ptr, 1, e->data_json.len, stdout);
    fputs("}\n", stdout);
    fflush(stdout);
}

void cli_tell(cli_teller *t, const pawl_event *e, const pawl_doc *data)
{
    static const struct {
        const char *name;
        void (*tell)(cli_teller *, const pawl_doc *);
    } tellers[] = {
        {"message.delta", on_delta},        {"message.completed", on_message},
        {"action.requested", on_requested}, {"action.completed", on_action},
        {"attempt.started", on_attempt},    {"model.retrying", on_retry},
        {"model.fallback", on_fallback},    {"turn.waiting", on_waiting},
        {"message.queued", on_queued},      {"turn.completed", on_terminal},
        {"turn.failed", on_terminal},       {"turn.paused", on_terminal},
        {"turn.exhausted", on_terminal},    {"turn.cancelled", on_terminal},
    };
    if (t->c->json) {
        write_json_event(e);
        return;
    }
    if (cli_is(e->name, "message.restarted")) {
        on_restarted(t);
        return;
    }
    if (cli_is(e->name, "turn.started")) {
        wait_for(t, "waiting for the model", (pawl_str){NULL, 0});
    }
    for (size_t i = 0; i < sizeof(tellers) / sizeof(tellers[0]); i++) {
        if (cli_is(e->name, tellers[i].name)) {
            tellers[i].tell(t, data);
        }
    }
}

/* --- The end
 * ------------------------------------------------------------------------------------------------
 */

int cli_exit_of_turn(const pawl_doc *turn)
{
    static const struct {
        const char *state;
        int status;
    } exits[] = {{"completed", CLI_DONE},      {"failed", CLI_FAILED},
                 {"paused", CLI_PAUSED},       {"exhausted", CLI_PAUSED},
                 {"suspended", CLI_SUSPENDED}, {"cancelled", CLI_CANCELLED}};
    for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
        if (cli_is(cli_get(turn, "state"), exits[i].state)) {
            return exits[i].status;
        }
    }
    return CLI_FAILED;
}

void cli_print_cost(FILE *to, pawl_str cost)
{
    if (cost.ptr && !cli_is(cost, "0")) {
        fprintf(to, "$%.*s", (int)cost.len, cost.ptr);
    } else {
        fputs(cost.ptr ? "$0" : "cost unknown", to);
    }
}

static void write_count(const char *what, int64_t count)
{
    if (count > 0) {
        fprintf(stderr, ", %" PRId64 " %s%s", count, what, count == 1 ? "" : "s");
    }
}

int cli_tell_turn(cli_teller *t, const pawl_doc *turn, bool with_text)
{
    int status = cli_exit_of_turn(turn);
    if (t->c->json) {
        printf("%s\n", pawl_doc_text(turn).ptr);
        fflush(stdout);
        return status;
    }
    pawl_str text = cli_get(turn, "text");
    if (with_text && text.ptr) {
        write_text(t, text);
    }
    begin_note(t);
    pawl_str state = cli_get(turn, "state"), reason = cli_get(turn, "reason"),
             detail = cli_get(turn, "detail"), stop = cli_get(turn, "stop");
    tint color = status == CLI_DONE ? TINT_GOOD : status == CLI_FAILED ? TINT_BAD : TINT_WARN;
    fprintf(stderr, "%s%.*s%s", tint_on(t, color), (int)state.len, state.ptr ? state.ptr : "",
            tint_off(t, color));
    if (reason.ptr) {
        fprintf(stderr, " (%.*s)", (int)reason.len, reason.ptr);
    } else if (stop.ptr && !cli_is(stop, "done")) {
        fprintf(stderr, " (%.*s)", (int)stop.len, stop.ptr);
    }
    if (detail.len > 0) {
        fputs(": ", stderr);
        write_error_line(t, detail);
    }
    fputs(tint_on(t, TINT_DIM), stderr);
    write_count("attempt",
                cli_get_number(turn, 1, "attempts") > 1 ? cli_get_number(turn, 1, "attempts") : 0);
    write_count("iteration", cli_get_number(turn, 0, "usage.iterations"));
    write_count("tool call", cli_get_number(turn, 0, "usage.tool_calls"));
    write_count("fallback", cli_get_number(turn, 0, "usage.fallbacks"));
    write_count("token", cli_get_number(turn, 0, "usage.input_tokens") +
                             cli_get_number(turn, 0, "usage.output_tokens"));
    fputs(", ", stderr);
    cli_print_cost(stderr, cli_get(turn, "usage.cost_usd"));
    fprintf(stderr, ", %.1f s%s\n", (double)cli_get_number(turn, 0, "usage.duration_ms") / 1000.0,
            tint_off(t, TINT_DIM));
    fflush(stderr);
    return status;
}
