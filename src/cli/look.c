/* Looking at a store: sessions, one session, its events, why it is not running; and the checks.
 * Nothing here changes anything but `verify --rebuild`. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 100

/* --- Lists as one JSON array --- */

typedef struct joined {
    const char *list;
    bool any;
} joined;

static bool join_item(void *ctx, const pawl_doc *page, size_t index)
{
    joined *j = ctx;
    pawl_str item = cli_get(page, "%s.%zu", j->list, index);
    printf("%s%.*s", j->any ? "," : "", (int)item.len, item.ptr);
    j->any = true;
    return true;
}

static int32_t print_list(pawl *p, const char *path, pawl_error *error)
{
    joined j = {.list = "items"};
    putchar('[');
    int32_t code = cli_each(p, path, "items", join_item, &j, error);
    putchar(']');
    return code;
}

/* --- sessions
 * --------------------------------------------------------------------------------------------------
 */

static bool session_row(void *ctx, const pawl_doc *page, size_t i)
{
    size_t *count = ctx;
    if ((*count)++ == 0) {
        printf("%-38s%-13s%-18s%-14s%7s  %-12s%s\n", "SESSION", "STATUS", "REASON", "AGENT",
               "TURNS", "COST", "SINCE");
    }
    pawl_str cost = cli_get(page, "items.%zu.usage.cost_usd", i);
    char shown[40];
    snprintf(shown, sizeof(shown), "%s%.*s", cost.ptr ? "$" : "unknown", (int)cost.len,
             cost.ptr ? cost.ptr : "");
    pawl_str turns = cli_get(page, "items.%zu.usage.turns", i),
             since = cli_get(page, "items.%zu.since", i);
    cli_cell(cli_get(page, "items.%zu.id", i), 36);
    cli_cell(cli_get(page, "items.%zu.status", i), 11);
    cli_cell(cli_get(page, "items.%zu.reason", i), 16);
    cli_cell(cli_get(page, "items.%zu.agent", i), 12);
    printf("%7.*s  %-12s%.*s\n", (int)turns.len, turns.ptr ? turns.ptr : "", shown, (int)since.len,
           since.ptr ? since.ptr : "");
    return true;
}

int cli_sessions(cli *c)
{
    int status = CLI_DONE;
    pawl_error error = {0};
    pawl *p = cli_open(c, true, &status);
    if (!p) {
        return status;
    }
    const char *by_status = c->option[CLI_status], *by_agent = c->option[CLI_agent];
    char *path = cli_path(by_status && by_agent ? "/v1/sessions?status=%s&agent=%s"
                          : by_status           ? "/v1/sessions?status=%s"
                          : by_agent            ? "/v1/sessions?agent=%s"
                                                : "/v1/sessions?",
                          by_status ? by_status : by_agent, by_agent);
    size_t count = 0;
    int32_t code = PAWL_NOMEM;
    if (path && c->json) {
        fputs("{\"items\":", stdout);
        code = print_list(p, path, &error);
        fputs(",\"next_cursor\":null}\n", stdout);
    } else if (path) {
        code = cli_each(p, path, "items", session_row, &count, &error);
        fputs(code == PAWL_OK && count == 0 ? "no sessions\n" : "", stderr);
    }
    free(path);
    pawl_close(p);
    return code == PAWL_OK ? CLI_DONE : cli_fail(c, code, &error, NULL);
}

/* --- show
 * --------------------------------------------------------------------------------------------------------
 */

static void show_part(const pawl_doc *page, size_t message, size_t part, bool terminal)
{
    char at[64];
    snprintf(at, sizeof(at), "items.%zu.content.%zu", message, part);
    pawl_str type = cli_get(page, "%s.type", at), text = cli_get(page, "%s.text", at);
    if (cli_is(type, "tool_call")) {
        pawl_str name = cli_get(page, "%s.name", at), arguments = cli_get(page, "%s.arguments", at);
        fputs("  → ", stdout);
        cli_write(stdout, name, terminal);
        fputc(' ', stdout);
        cli_write(stdout, arguments.ptr ? arguments : cli_str("(broken arguments)"), terminal);
    } else if (cli_is(type, "tool_result")) {
        pawl_str result = cli_get(page, "%s.result", at);
        bool error = cli_is(cli_get(page, "%s.is_error", at), "true");
        fputs(error ? "  ✗ " : "  ← ", stdout);
        cli_write(stdout,
                  (pawl_str){result.ptr ? result.ptr : "null",
                             result.ptr ? (result.len > 400 ? 400 : result.len) : 4},
                  terminal);
        fputs(result.len > 400 ? "…" : "", stdout);
    } else if (text.ptr) {
        fputs(cli_is(type, "thinking") ? "  (thinking) " : "  ", stdout);
        cli_write(stdout, text, terminal);
    } else {
        printf("  [%.*s]", (int)type.len, type.ptr ? type.ptr : "");
    }
    fputc('\n', stdout);
}

static bool show_message(void *ctx, const pawl_doc *page, size_t i)
{
    bool terminal = isatty(STDOUT_FILENO);
    (void)ctx;
    pawl_str role = cli_get(page, "items.%zu.role", i), at = cli_get(page, "items.%zu.at", i),
             n = cli_get(page, "items.%zu.n", i);
    bool partial = cli_is(cli_get(page, "items.%zu.partial", i), "true");
    printf("%.*s %.*s  %.*s%s\n", (int)n.len, n.ptr ? n.ptr : "-", (int)role.len,
           role.ptr ? role.ptr : "", (int)at.len, at.ptr ? at.ptr : "",
           partial ? "  (partial)" : "");
    for (size_t part = 0; cli_get(page, "items.%zu.content.%zu", i, part).ptr; part++) {
        show_part(page, i, part, terminal);
    }
    return true;
}

static bool show_turn(void *ctx, const pawl_doc *page, size_t i)
{
    (void)ctx;
    pawl_str id = cli_get(page, "items.%zu.id", i), state = cli_get(page, "items.%zu.state", i),
             reason = cli_get(page, "items.%zu.reason", i);
    pawl_str attempts = cli_get(page, "items.%zu.attempts", i),
             in = cli_get(page, "items.%zu.usage.input_tokens", i);
    pawl_str out = cli_get(page, "items.%zu.usage.output_tokens", i),
             calls = cli_get(page, "items.%zu.usage.tool_calls", i);
    pawl_str ms = cli_get(page, "items.%zu.usage.duration_ms", i);
    printf("turn %.12s  %.*s%s%.*s%s  attempts %.*s, tool calls %.*s, tokens %.*s in %.*s out, ",
           id.ptr ? id.ptr : "", (int)state.len, state.ptr ? state.ptr : "", reason.ptr ? " (" : "",
           (int)reason.len, reason.ptr ? reason.ptr : "", reason.ptr ? ")" : "", (int)attempts.len,
           attempts.ptr, (int)calls.len, calls.ptr, (int)in.len, in.ptr, (int)out.len, out.ptr);
    cli_print_cost(stdout, cli_get(page, "items.%zu.usage.cost_usd", i));
    printf(", %.*s ms\n", (int)ms.len, ms.ptr);
    return true;
}

static int32_t show_as_json(pawl *p, const char *base, const pawl_doc *session, pawl_error *error)
{
    char path[9000];
    printf("{\"session\":%s,\"messages\":", pawl_doc_text(session).ptr);
    snprintf(path, sizeof(path), "%s/messages", base);
    int32_t code = print_list(p, path, error);
    fputs(",\"turns\":", stdout);
    snprintf(path, sizeof(path), "%s/turns", base);
    code = code == PAWL_OK ? print_list(p, path, error) : code;
    fputs("}\n", stdout);
    return code;
}

static int32_t show_in_words(pawl *p, const char *base, const pawl_doc *session, pawl_error *error)
{
    char path[9000];
    pawl_str id = cli_get(session, "id"), agent = cli_get(session, "agent"),
             status = cli_get(session, "status"), reason = cli_get(session, "reason");
    printf("session %.*s  agent %.*s  %.*s%s%.*s%s\n\n", (int)id.len, id.ptr, (int)agent.len,
           agent.ptr ? agent.ptr : "", (int)status.len, status.ptr ? status.ptr : "",
           reason.ptr ? " (" : "", (int)reason.len, reason.ptr ? reason.ptr : "",
           reason.ptr ? ")" : "");
    snprintf(path, sizeof(path), "%s/messages", base);
    int32_t code = cli_each(p, path, "items", show_message, NULL, error);
    fputc('\n', stdout);
    snprintf(path, sizeof(path), "%s/turns", base);
    return code == PAWL_OK ? cli_each(p, path, "items", show_turn, NULL, error) : code;
}

int cli_show(cli *c)
{
    int status = CLI_DONE;
    pawl_error error = {0};
    pawl_doc *session = NULL;
    pawl *p = cli_open(c, true, &status);
    if (!p) {
        return status;
    }
    char *base = cli_path("/v1/sessions/%s", c->arguments[0]);
    int32_t code = base ? pawl_read(p, cli_str(base), &session, &error) : PAWL_NOMEM;
    if (code == PAWL_OK) {
        code = (c->json ? show_as_json : show_in_words)(p, base, session, &error);
    }
    pawl_doc_free(session);
    free(base);
    pawl_close(p);
    return code == PAWL_OK ? CLI_DONE : cli_fail(c, code, &error, NULL);
}

/* --- tail
 * ---------------------------------------------------------------------------------------------------------
 */

static void tail_event(cli_teller *t, const pawl_event *e)
{
    pawl_doc *data = NULL;
    if (pawl_doc_parse(e->data_json, &data, NULL) != PAWL_OK) {
        return;
    }
    cli_tell(t, e, data);
    pawl_str turn = cli_get(data, "turn");
    if (!t->c->json && cli_is(e->name, "turn.started")) {
        cli_note(t, "turn %.12s started", turn.ptr ? turn.ptr : "");
    } else if (!t->c->json && cli_get(data, "ended_at").ptr) {
        (void)cli_tell_turn(t, data, false);
    }
    pawl_doc_free(data);
}

static int tail(cli *c, pawl *p)
{
    pawl_events *events = NULL;
    pawl_error error = {0};
    pawl_event e = {.size = sizeof(e)};
    cli_teller teller;
    bool follows = !c->option[CLI_no_follow];
    pawl_doc *session = NULL; /* one that is not there yet can be waited for, not told */
    int32_t code = cli_read(p, &session, &error, "/v1/sessions/%s", c->arguments[0]);
    pawl_doc_free(session);
    const bool waits = code == PAWL_NOT_FOUND && follows;
    if (code != PAWL_OK && !waits) {
        return cli_fail(c, code, &error, NULL);
    }
    code = pawl_follow(p, cli_str(c->arguments[0]), cli_str(c->option[CLI_after]), &events, &error);
    if (code != PAWL_OK) {
        return cli_fail(c, code, &error, NULL);
    }
    cli_teller_init(&teller, c);
    snprintf(teller.waiting_for, sizeof(teller.waiting_for), "nothing new");
    if (waits) {
        cli_note(&teller, "… there is no session \"%s\" yet", c->arguments[0]);
    }
    cli_signals();
    while (code == PAWL_OK && !cli_interrupts && !cli_terminated && !ferror(stdout)) {
        code = pawl_events_next(events, follows ? LOOK_MS : 0, &e);
        if (code == PAWL_OK) {
            tail_event(&teller, &e);
        } else if (code == PAWL_TIMEOUT && follows) {
            code = PAWL_OK;
        }
    }
    pawl_events_close(events);
    return code == PAWL_OK || code == PAWL_TIMEOUT
               ? CLI_DONE
               : cli_fail(c, code, NULL, "the session cannot be followed");
}

int cli_tail(cli *c)
{
    int status = CLI_DONE;
    pawl *p = cli_open(c, true, &status);
    if (p) {
        status = tail(c, p);
        pawl_close(p);
    }
    return status;
}

/* --- why, verify, doctor, agents check --- */

int cli_why(cli *c)
{
    int status = CLI_DONE;
    pawl_error error = {0};
    pawl_doc *why = NULL;
    pawl *p = cli_open(c, true, &status);
    if (!p) {
        return status;
    }
    int32_t code = cli_read(p, &why, &error, "/v1/sessions/%s/why", c->arguments[0]);
    if (code != PAWL_OK) {
        status = cli_fail(c, code, &error, NULL);
    } else if (c->json) {
        printf("%s\n", pawl_doc_text(why).ptr);
    } else {
        cli_write(stdout, cli_get(why, "words"), isatty(STDOUT_FILENO));
        putchar('\n');
    }
    pawl_doc_free(why);
    pawl_close(p);
    return status;
}

static int inspect(cli *c, const char *what, bool read_only)
{
    int status = CLI_DONE;
    pawl_error error = {0};
    pawl_doc *report = NULL;
    pawl *p = cli_open(c, read_only, &status);
    if (!p && status == CLI_USAGE) { /* agents' files that are at fault hide nothing else */
        c->no_agents = true;
        p = cli_open(c, read_only, &status);
    }
    if (!p) {
        return status;
    }
    int32_t code = pawl_inspect(p, cli_str(what), &report, &error);
    if (code != PAWL_OK) {
        status = cli_fail(c, code, &error, NULL);
    } else {
        status = cli_is(cli_get(report, "ok"), "true") && !c->no_agents ? CLI_DONE : CLI_FAILED;
    }
    if (report && c->json) {
        printf("%s\n", pawl_doc_text(report).ptr);
    }
    for (size_t i = 0; report && !c->json && cli_get(report, "checks.%zu", i).ptr; i++) {
        bool ok = cli_is(cli_get(report, "checks.%zu.ok", i), "true");
        printf("%-6s", ok ? "ok" : "FAULT");
        cli_cell(cli_get(report, "checks.%zu.name", i), 12);
        cli_write(stdout, cli_get(report, "checks.%zu.detail", i), isatty(STDOUT_FILENO));
        putchar('\n');
    }
    pawl_doc_free(report);
    pawl_close(p);
    return status;
}

int cli_verify(cli *c)
{
    bool rebuild = c->option[CLI_rebuild] != NULL;
    return inspect(c, rebuild ? "verify?rebuild=1" : "verify", !rebuild);
}

int cli_doctor(cli *c)
{
    return inspect(c, "doctor", true);
}

/* The model that is asked, then those that are asked when it will not answer (F6). */
static void put_models(const pawl_doc *report, size_t agent)
{
    pawl_str model;
    for (size_t i = 0; (model = cli_get(report, "agents.%zu.models.%zu", agent, i)).ptr; i++) {
        fputs(i == 0 ? "" : ", else ", stdout);
        cli_write(stdout, model, isatty(STDOUT_FILENO));
    }
    fputc('\n', stdout);
}

int cli_agents_check(cli *c)
{
    pawl_doc *report = NULL;
    pawl_error error = {0};
    int32_t code = pawl_agents_check(cli_str(c->arguments[0]), &report, &error);
    if (!report) {
        return cli_fail(c, code, &error, NULL);
    }
    if (c->json) {
        printf("%s\n", pawl_doc_text(report).ptr);
    }
    for (size_t i = 0; !c->json && cli_get(report, "agents.%zu", i).ptr; i++) {
        pawl_str hash = cli_get(report, "agents.%zu.hash", i);
        pawl_str tools = cli_get(report, "agents.%zu.tools", i);
        cli_cell(cli_get(report, "agents.%zu.name", i), 20);
        printf("%.12s  %.*s tool%s  ", hash.ptr ? hash.ptr : "", (int)tools.len,
               tools.ptr ? tools.ptr : "", cli_is(tools, "1") ? "" : "s");
        put_models(report, i);
    }
    size_t problems = 0;
    for (pawl_str line; (line = cli_get(report, "problems.%zu", problems)).ptr; problems++) {
        if (!c->json) {
            fflush(stdout);
            cli_write(stderr, line, isatty(STDERR_FILENO));
            fputc('\n', stderr);
        }
    }
    pawl_doc_free(report);
    return code == PAWL_OK && problems == 0 ? CLI_DONE : CLI_USAGE;
}
