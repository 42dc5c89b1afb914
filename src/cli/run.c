/*
 * `pawl run`: one message, followed until its turn ends, whoever runs it; and `pawl cancel`.
 *
 * The order matters: the stream is opened before the message is given, so that no event is missed;
 * the session is taken after, so that its turn is durable before anything is done. Whatever happens
 * to this process, the same command goes on from there.
 */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 100   /* how often signals are looked at */
#define CHECK_MS 2000 /* how often a message that waits is looked up */
#define DRAIN_MS 8000
#define PROMPT_MAX ((size_t)4 << 20)

typedef struct run {
    cli *c;
    pawl *p;
    char *session;
    char request[300];
    char turn[80]; /* once known */
    pawl_events *events;
    cli_teller teller;
    char told_reason[32];
    int interrupts_done;
    int64_t next_check_ms;
    bool ended, withdrawn;
    int status; /* when the loop has to stop: how the program ends */
} run;

/* --- The prompt --- */

static char *read_all(FILE *from, size_t *ret_len)
{
    size_t len = 0, capacity = 65536;
    char *text = malloc(capacity);
    while (text) {
        size_t got = fread(text + len, 1, capacity - len, from);
        len += got;
        if (got == 0 || len >= PROMPT_MAX) {
            break;
        }
        if (len == capacity) {
            char *bigger = realloc(text, capacity * 2);
            if (!bigger) {
                free(text);
                return NULL;
            }
            text = bigger;
            capacity *= 2;
        }
    }
    *ret_len = len;
    return text;
}

static char *prompt_of(const cli *c, size_t *ret_len)
{
    bool from_input = c->argument_count == 1 && strcmp(c->arguments[0], "-") == 0;
    return from_input ? read_all(stdin, ret_len) : cli_join(c, 0, ret_len);
}

/* --- Following
 * ------------------------------------------------------------------------------------------------
 */

static pawl_str session_of(const run *r)
{
    return cli_str(r->session);
}

static void set_turn(run *r, pawl_str turn)
{
    if (turn.ptr && turn.len < sizeof(r->turn)) {
        memcpy(r->turn, turn.ptr, turn.len);
        r->turn[turn.len] = '\0';
    }
}

static bool holds_our_request(const run *r, const pawl_doc *data)
{
    pawl_str id;
    for (size_t i = 0; (id = cli_get(data, "requests.%zu", i)).ptr; i++) {
        if (cli_is(id, r->request)) {
            return true;
        }
    }
    return false;
}

/* Events of other turns of the session are not this command's. */
static bool is_ours(run *r, const pawl_event *e, const pawl_doc *data)
{
    pawl_str turn = cli_get(data, "turn");
    if (!r->turn[0] && cli_is(e->name, "turn.started") && holds_our_request(r, data)) {
        set_turn(r, turn);
    }
    if (cli_is(e->name, "message.queued")) {
        return cli_is(cli_get(data, "request_id"), r->request);
    }
    return !turn.ptr || (r->turn[0] && cli_is(turn, r->turn)) || cli_is(e->name, "snapshot") ||
           cli_is(e->name, "resync");
}

static bool is_end(const pawl_event *e)
{
    static const char *const ends[] = {"turn.completed", "turn.failed",    "turn.paused",
                                       "turn.exhausted", "turn.cancelled", "turn.suspended"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (cli_is(e->name, ends[i])) {
            return true;
        }
    }
    return false;
}

static void on_event(run *r, const pawl_event *e)
{
    pawl_doc *data = NULL;
    if (pawl_doc_parse(e->data_json, &data, NULL) != PAWL_OK) {
        return;
    }
    if (is_ours(r, e, data)) {
        cli_tell(&r->teller, e, data);
        r->ended = r->turn[0] && cli_is(cli_get(data, "turn"), r->turn) && is_end(e);
    }
    pawl_doc_free(data);
}

/* Why it has not begun, said once for each cause (case P2). */
static void say_why_not_begun(run *r)
{
    pawl_doc *why = NULL;
    if (cli_read(r->p, &why, NULL, "/v1/sessions/%s/why", r->session) == PAWL_OK) {
        pawl_str reason = cli_get(why, "reason"), words = cli_get(why, "words");
        if (reason.ptr && !cli_is(reason, r->told_reason)) {
            snprintf(r->told_reason, sizeof(r->told_reason), "%.*s", (int)reason.len, reason.ptr);
            cli_note(&r->teller, "… %.*s", (int)words.len, words.ptr ? words.ptr : "");
        }
    }
    pawl_doc_free(why);
}

/* Where the message stands; a withdrawn one tells no event. */
static void check_message(run *r)
{
    pawl_doc *message = NULL;
    r->next_check_ms = cli_now_ms() + CHECK_MS;
    if (cli_read(r->p, &message, NULL, "/v1/sessions/%s/messages/%s", r->session, r->request) ==
        PAWL_OK) {
        pawl_str disposition = cli_get(message, "disposition");
        r->withdrawn = cli_is(disposition, "withdrawn") || cli_is(disposition, "superseded");
        if (!r->turn[0]) {
            set_turn(r, cli_get(message, "turn.id"));
        }
        r->ended = r->ended || cli_is(disposition, "answered");
    }
    pawl_doc_free(message);
    if (!r->turn[0] && !r->withdrawn) {
        say_why_not_begun(r);
    }
}

/* The first asks for a cancel, durably; the second leaves. */
static void on_interrupt(run *r)
{
    r->interrupts_done++;
    if (r->interrupts_done > 1) {
        cli_note(&r->teller, "left; the turn is open: `pawl run -s %s` goes on with it",
                 r->session);
        r->status = CLI_CANCELLED;
        return;
    }
    pawl_doc *answer = NULL;
    pawl_error error = {0};
    int32_t code = r->turn[0]
                       ? pawl_cancel(r->p, session_of(r), cli_str(r->turn), &error)
                       : pawl_withdraw(r->p, session_of(r), cli_str(r->request), &answer, &error);
    if (code == PAWL_OK || code == PAWL_CLOSED) {
        cli_note(&r->teller, "… cancelling; Ctrl-C again leaves the turn to others");
        check_message(r);
    } else {
        (void)cli_fail(r->c, code, &error, "the cancel was not taken");
    }
    pawl_doc_free(answer);
}

static void on_terminated(run *r)
{
    cli_note(&r->teller, "… stopping at the next step");
    int32_t code = pawl_drain(r->p, DRAIN_MS);
    cli_note(&r->teller, "stopped%s; the turn is open: `pawl run -s %s` goes on with it",
             code == PAWL_OK ? "" : " (something still ran)", r->session);
    r->status = CLI_TERMINATED;
}

static void follow(run *r)
{
    pawl_event e = {.size = sizeof(e)};
    while (!r->ended && !r->withdrawn && r->status < 0) {
        int32_t code = pawl_events_next(r->events, LOOK_MS, &e);
        if (code == PAWL_OK) {
            on_event(r, &e);
        } else if (code != PAWL_TIMEOUT) {
            r->status = cli_fail(r->c, code, NULL, "the session cannot be followed");
        } else {
            cli_tell_progress(&r->teller);
            if (cli_now_ms() >= r->next_check_ms) {
                check_message(r);
            }
        }
        if (cli_terminated) {
            on_terminated(r);
        } else if (cli_interrupts > r->interrupts_done) {
            on_interrupt(r);
        }
    }
}

/* --- The message
 * ------------------------------------------------------------------------------------------------
 */

/* PAWL_OK: admitted, or there already; `*ret_turn`: the turn, when it has ended already. */
static int32_t submit(run *r, const char *agent, pawl_str prompt, pawl_doc **ret_turn,
                      pawl_error *error)
{
    pawl_doc *answer = NULL;
    pawl_message message = {.size = sizeof(message),
                            .request_id = cli_str(r->c->option[CLI_request_id]),
                            .text = prompt,
                            .agent = cli_str(agent),
                            .source = cli_str("cli")};
    int32_t code = pawl_submit(r->p, session_of(r), &message, &answer, error);
    if (code != PAWL_OK) {
        if (answer && r->c->json) {
            printf("%s\n", pawl_doc_text(answer).ptr);
        }
        pawl_doc_free(answer);
        return code;
    }
    pawl_str id = cli_get(answer, "request_id");
    snprintf(r->request, sizeof(r->request), "%.*s", (int)id.len, id.ptr ? id.ptr : "");
    set_turn(r, cli_get(answer, "turn.id"));
    pawl_str disposition = cli_get(answer, "disposition");
    r->withdrawn = cli_is(disposition, "withdrawn") || cli_is(disposition, "superseded");
    if (cli_is(disposition, "answered")) {
        code = cli_read(r->p, ret_turn, error, "/v1/sessions/%s/turns/%s", r->session, r->turn);
    }
    pawl_doc_free(answer);
    return code;
}

/* Without a prompt: what is open in the session, or the first that waits. */
static int32_t find_open(run *r, pawl_error *error)
{
    pawl_doc *session = NULL, *turn = NULL;
    int32_t code = cli_read(r->p, &session, error, "/v1/sessions/%s", r->session);
    if (code == PAWL_OK) {
        set_turn(r, cli_get(session, "turn"));
        pawl_str id = cli_get(session, "queue.0.request_id");
        if (r->turn[0] && cli_read(r->p, &turn, NULL, "/v1/sessions/%s/turns/%s", r->session,
                                   r->turn) == PAWL_OK) {
            id = cli_get(turn, "requests.0");
        }
        snprintf(r->request, sizeof(r->request), "%.*s", (int)id.len, id.ptr ? id.ptr : "");
        code = r->request[0] ? PAWL_OK : PAWL_END;
    }
    pawl_doc_free(session);
    pawl_doc_free(turn);
    return code;
}

/* Is there anybody who could do it? Asked before anything is written: a message that nobody takes
 * would wait for ever. */
static bool can_be_done(run *r, int *ret_status)
{
    pawl_doc *agents = NULL, *session = NULL;
    bool any = false, known = false, alive = false;
    pawl_str agent = {NULL, 0};
    if (cli_read(r->p, &session, NULL, "/v1/sessions/%s", r->session) == PAWL_OK) {
        agent = cli_get(session, "agent");
        alive = cli_is(cli_get(session, "owner.alive"), "true");
    }
    if (cli_read(r->p, &agents, NULL, "/v1/agents?limit=200") == PAWL_OK) {
        pawl_str name;
        for (size_t i = 0; (name = cli_get(agents, "items.%zu.name", i)).ptr; i++) {
            any = true;
            known = known || (name.len == agent.len && memcmp(name.ptr, agent.ptr, name.len) == 0);
        }
        known = known ||
                cli_get(agents, "next_cursor").ptr; /* more than one page: not looked through */
    }
    bool can = alive || (any && (!agent.ptr || known));
    if (!can && !any) {
        *ret_status = cli_usage(
            r->c,
            "there are no agents here: -a FOLDER, --agents DIR or PAWL_AGENTS say where they are");
    } else if (!can) {
        *ret_status = cli_usage(
            r->c, "session %s is agent %.*s's, which is not here: --agents DIR says where it is",
            r->session, (int)agent.len, agent.ptr);
    }
    pawl_doc_free(agents);
    pawl_doc_free(session);
    return can;
}

static int32_t take(run *r, pawl_error *error)
{
    return cli_start(r->c, r->p, r->session, cli_str(r->request), error);
}

/* The snapshot is taken now, so that `now` means: before the message. */
static int32_t begin_following(run *r, pawl_error *error)
{
    pawl_event e = {.size = sizeof(e)};
    int32_t code = pawl_follow(r->p, session_of(r), cli_str("now"), &r->events, error);
    if (code == PAWL_OK && pawl_events_next(r->events, 0, &e) == PAWL_OK) {
        on_event(r, &e);
    }
    return code;
}

static int finish(run *r)
{
    pawl_doc *turn = NULL;
    pawl_error error = {0};
    if (r->withdrawn) {
        cli_note(&r->teller, "the message was withdrawn before its turn began");
        return CLI_CANCELLED;
    }
    int32_t code = cli_read(r->p, &turn, &error, "/v1/sessions/%s/turns/%s", r->session, r->turn);
    const int ended = code == PAWL_OK ? cli_exit_of_turn(turn) : CLI_DONE;
    /* A bound's words are the turn's text and no message: no event has told them. */
    int status = code == PAWL_OK ? cli_tell_turn(&r->teller, turn, ended == CLI_PAUSED)
                                 : cli_fail(r->c, code, &error, NULL);
    pawl_doc_free(turn);
    return status;
}

static int no_prompt(run *r, int32_t code, const pawl_error *error)
{
    return code == PAWL_END
               ? cli_usage(r->c, "nothing is open or waits in session %s: give a PROMPT",
                           r->session)
               : cli_fail(r->c, code, error, NULL);
}

static int run_turn(run *r, pawl_str prompt)
{
    pawl_error error = {0};
    pawl_doc *recorded = NULL;
    int status = CLI_DONE;
    if (!can_be_done(r, &status)) {
        return status;
    }
    int32_t code = begin_following(r, &error);
    if (code != PAWL_OK) {
        return cli_fail(r->c, code, &error, NULL);
    }
    code = prompt.len > 0 ? submit(r, cli_agent_name(r->c, r->p), prompt, &recorded, &error)
                          : find_open(r, &error);
    if (code != PAWL_OK) {
        return prompt.len > 0 ? cli_fail(r->c, code, &error, NULL) : no_prompt(r, code, &error);
    }
    if (!r->c->option[CLI_session]) { /* it is there from here on */
        fprintf(stderr, "session %s\n", r->session);
    }
    if (recorded) {
        status = cli_tell_turn(&r->teller, recorded, true);
        pawl_doc_free(recorded);
        return status;
    }
    if (!r->withdrawn) {
        code = take(r, &error);
        if (code != PAWL_OK) {
            return cli_fail(r->c, code, &error, NULL);
        }
        cli_signals();
        r->next_check_ms = cli_now_ms() + CHECK_MS;
        follow(r);
    }
    return r->status >= 0 ? r->status : finish(r);
}

/* Leaving by a second Ctrl-C waits for nothing: all that is durable is durable. */
static void leave(run *r)
{
    pawl_events_close(r->events);
    if (r->interrupts_done > 1) {
        (void)pawl_drain(r->p, 300);
        fflush(stdout);
        fflush(stderr);
        _exit(r->status);
    }
    if (r->status != CLI_TERMINATED) {
        (void)pawl_drain(r->p, DRAIN_MS); /* what waited behind our turn stays for others */
    }
    pawl_close(r->p);
}

int cli_run(cli *c)
{
    run r = {.c = c, .status = -1};
    char made[37];
    size_t len = 0;
    if (c->argument_count == 0 && !c->option[CLI_session]) {
        return cli_usage(c, "a PROMPT is missing");
    }
    char *prompt = prompt_of(c, &len);
    if (!prompt || len >= PROMPT_MAX || (len == 0 && c->argument_count > 0)) {
        free(prompt);
        return len == 0 ? cli_usage(c, "the PROMPT is empty")
                        : cli_usage(c, "the PROMPT is too long: it has %zu MiB or more",
                                    PROMPT_MAX >> 20);
    }
    int status = CLI_DONE;
    cli_uuid(made);
    r.session = strdup(c->option[CLI_session] ? c->option[CLI_session] : made);
    r.p = r.session ? cli_open(c, false, &status) : NULL;
    cli_teller_init(&r.teller, c);
    if (r.p) {
        status = run_turn(&r, (pawl_str){prompt, len});
        r.status = r.status < 0 ? status : r.status;
        leave(&r);
    }
    free(r.session);
    free(prompt);
    return status;
}

/* --- pawl cancel
 * ------------------------------------------------------------------------------------------------
 */

int cli_drive(cli *c, pawl *p, const char *session, pawl_str turn, pawl_doc **ret_turn)
{
    pawl_doc *now = NULL;
    pawl_error error = {0};
    char id[80];
    snprintf(id, sizeof(id), "%.*s", (int)turn.len, turn.ptr);
    int32_t code = cli_read(p, &now, &error, "/v1/sessions/%s/turns/%s", session, id);
    if (code == PAWL_OK && cli_get(now, "ended_at").ptr) {
        *ret_turn = now;
        return CLI_DONE;
    }
    pawl_str request = cli_get(now, "requests.0");
    code = code == PAWL_OK ? cli_start(c, p, session, request, &error) : code;
    cli_signals();
    while (code == PAWL_OK && !*ret_turn && !cli_interrupts && !cli_terminated) {
        code = pawl_wait(p, cli_str(session), request, LOOK_MS, ret_turn, &error);
        code = code == PAWL_TIMEOUT ? PAWL_OK : code;
    }
    pawl_doc_free(now);
    if (code != PAWL_OK) {
        return cli_fail(c, code, &error, NULL);
    }
    return *ret_turn ? CLI_DONE : CLI_TERMINATED;
}

/* The turn that is open, when none is named; empty: none. Free it. */
static char *turn_to_cancel(cli *c, pawl *p, int *ret_status)
{
    pawl_doc *session = NULL;
    pawl_error error = {0};
    int32_t code = cli_read(p, &session, &error, "/v1/sessions/%s", c->arguments[0]);
    if (code != PAWL_OK) {
        *ret_status = cli_fail(c, code, &error, NULL);
        return NULL;
    }
    pawl_str open = cli_get(session, "turn");
    char *turn = c->argument_count > 1 ? strdup(c->arguments[1])
                                       : strndup(open.ptr ? open.ptr : "", open.len);
    pawl_doc_free(session);
    return turn;
}

static int say_cancelled(const cli *c, const pawl_doc *turn)
{
    pawl_str state = cli_get(turn, "state");
    bool cancelled = cli_is(state, "cancelled");
    if (c->json) {
        printf("%s\n", pawl_doc_text(turn).ptr);
    } else {
        fprintf(stderr, cancelled ? "%.*s\n" : "it had ended already: %.*s\n", (int)state.len,
                state.ptr ? state.ptr : "");
    }
    return cancelled ? CLI_DONE : CLI_FAILED;
}

static int cancel_turn(cli *c, pawl *p, const char *turn)
{
    pawl_error error = {0};
    pawl_doc *ended = NULL;
    int32_t code = pawl_cancel(p, cli_str(c->arguments[0]), cli_str(turn), &error);
    if (code != PAWL_OK && code != PAWL_CLOSED) {
        return cli_fail(c, code, &error, NULL);
    }
    int status = cli_drive(c, p, c->arguments[0], cli_str(turn), &ended);
    if (status == CLI_DONE) {
        status = say_cancelled(c, ended);
    } else if (status == CLI_TERMINATED) {
        fprintf(stderr,
                "pawl: the cancel is durable and will be done by whoever has the session\n");
        status = CLI_DONE;
    }
    pawl_doc_free(ended);
    return status;
}

int cli_cancel(cli *c)
{
    int status = CLI_DONE;
    pawl *p = cli_open(c, false, &status);
    if (!p) {
        return status;
    }
    char *turn = turn_to_cancel(c, p, &status);
    if (turn && !turn[0]) {
        fprintf(stderr, "pawl: no turn of session %s is open\n", c->arguments[0]);
    } else if (turn) {
        status = cancel_turn(c, p, turn);
    }
    free(turn);
    (void)pawl_drain(p, DRAIN_MS);
    pawl_close(p);
    return status;
}
