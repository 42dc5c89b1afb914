/* `pawl models`: what the agents' models are and cost; `pawl models check`: does each answer? And
 * `pawl replay`: the next request of a session, shown and not sent. Nothing here changes anything.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t inspect(pawl *p, const char *format, const char *first, const char *second,
                       pawl_doc **ret, pawl_error *error)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    char *what = cli_path(format, first, second);
#pragma GCC diagnostic pop
    int32_t code = what ? pawl_inspect(p, cli_str(what), ret, error) : PAWL_NOMEM;
    free(what);
    return code;
}

/* --- models
 * ------------------------------------------------------------------------------------------------
 */

static void print_rate(const pawl_doc *doc, size_t i, const char *rate)
{
    pawl_str money = cli_get(doc, "models.%zu.price.%s", i, rate);
    printf("%9.*s", money.ptr ? (int)money.len : 1, money.ptr ? money.ptr : "-");
}

static void print_prices(const pawl_doc *doc)
{
    printf("%-16s%-32s%9s%9s%9s%9s%9s\n", "AGENT", "MODEL", "IN", "OUT", "READ", "WRITE", "1H");
    for (size_t i = 0; cli_get(doc, "models.%zu.agent", i).ptr; i++) {
        cli_cell(cli_get(doc, "models.%zu.agent", i), 14);
        cli_cell(cli_get(doc, "models.%zu.model", i), 30);
        if (!cli_get(doc, "models.%zu.price", i).ptr) {
            fputs("  unknown", stdout);
        } else {
            static const char *const rates[] = {"input", "output", "cache_read", "cache_write",
                                                "cache_write_1h"};
            for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
                print_rate(doc, i, rates[r]);
            }
        }
        putchar('\n');
    }
    pawl_str date = cli_get(doc, "prices_date"), own = cli_get(doc, "own_prices_date");
    printf("US$ per million tokens; prices of %.*s", (int)date.len, date.ptr ? date.ptr : "");
    if (own.ptr) {
        printf(", your own of %.*s first", (int)own.len, own.ptr);
    }
    putchar('\n');
}

static void print_checks(const pawl_doc *doc)
{
    for (size_t i = 0; cli_get(doc, "models.%zu.agent", i).ptr; i++) {
        pawl_str state = cli_get(doc, "models.%zu.state", i);
        pawl_str ms = cli_get(doc, "models.%zu.duration_ms", i);
        pawl_str detail = cli_get(doc, "models.%zu.detail", i);
        cli_cell(cli_get(doc, "models.%zu.agent", i), 14);
        cli_cell(cli_get(doc, "models.%zu.model", i), 30);
        cli_cell(cli_is(state, "no_key") ? cli_str("no key") : state, 11);
        printf("%7.*s ms  %s", (int)ms.len, ms.ptr ? ms.ptr : "",
               cli_get(doc, "models.%zu.price", i).ptr ? "priced" : "price unknown");
        if (detail.ptr && !cli_is(state, "works")) {
            fputs("  ", stdout);
            cli_write(stdout, detail, isatty(STDOUT_FILENO));
        }
        putchar('\n');
    }
}

static int say_models(cli *c, pawl *p, bool check)
{
    pawl_error error = {0};
    pawl_doc *doc = NULL;
    const char *agent = cli_agent_name(c, p), *within = c->option[CLI_within];
    int32_t code = inspect(p, check ? "models?agent=%s&check=1&within=%s" : "models?agent=%s",
                           agent, within ? within : "20s", &doc, &error);
    if (code != PAWL_OK) {
        return cli_fail(c, code, &error, NULL);
    }
    if (c->json) {
        printf("%s\n", pawl_doc_text(doc).ptr);
    } else if (!cli_get(doc, "models.0.agent").ptr) {
        fputs("no agents: -a FOLDER, --agents DIR or PAWL_AGENTS say where they are\n", stderr);
    } else {
        (check ? print_checks : print_prices)(doc);
    }
    int status = cli_is(cli_get(doc, "ok"), "true") ? CLI_DONE : CLI_FAILED;
    pawl_doc_free(doc);
    return status;
}

static int models(cli *c, bool check)
{
    int status = CLI_DONE;
    c->option[CLI_store] = "memory:"; /* a store is not what this is about */
    pawl *p = cli_open(c, false, &status);
    if (p) {
        status = say_models(c, p, check);
        pawl_close(p);
    }
    return status;
}

int cli_models(cli *c)
{
    return models(c, false);
}

int cli_models_check(cli *c)
{
    return models(c, true);
}

/* --- replay
 * ------------------------------------------------------------------------------------------------
 */

static void say_problems(const pawl_doc *doc)
{
    for (size_t i = 0; cli_get(doc, "problems.%zu.what", i).ptr; i++) {
        pawl_str what = cli_get(doc, "problems.%zu.what", i),
                 seq = cli_get(doc, "problems.%zu.seq", i),
                 call = cli_get(doc, "problems.%zu.call", i),
                 detail = cli_get(doc, "problems.%zu.detail", i);
        bool mended = cli_is(cli_get(doc, "problems.%zu.mended", i), "true");
        fputs("pawl: ", stderr);
        cli_write(stderr, what, true);
        fprintf(stderr, "%s%.*s%s", seq.ptr ? " at record " : "", (int)seq.len,
                seq.ptr ? seq.ptr : "", call.ptr ? ", call " : "");
        cli_write(stderr, call, true);
        fputs(detail.ptr ? ": " : "", stderr);
        cli_write(stderr, detail, true);
        fputs(mended ? "; it is mended in what is sent\n" : "\n", stderr);
    }
}

/* What there is instead of a request. */
static int say_none(const cli *c, const pawl_doc *doc)
{
    if (cli_is(cli_get(doc, "state"), "tools")) {
        pawl_str calls = cli_get(doc, "calls");
        fputs("pawl: no request yet: tools come first: ", stderr);
        cli_write(stderr, calls, true);
        fputc('\n', stderr);
        return CLI_DONE;
    }
    return cli_usage(c,
                     "nothing is open or waits in session %s: give a PROMPT to see what would be "
                     "sent for it",
                     c->arguments[0]);
}

static int say_request(const cli *c, const pawl_doc *doc)
{
    bool ok = cli_is(cli_get(doc, "ok"), "true");
    bool ready = cli_is(cli_get(doc, "state"), "ready");
    pawl_str body = cli_get(doc, "body");
    if (c->json) {
        printf("%s\n", pawl_doc_text(doc).ptr);
    } else {
        say_problems(doc);
        cli_write(stdout, body, isatty(STDOUT_FILENO));
        fputs(body.ptr ? "\n" : "", stdout);
    }
    if (!ok) {
        return CLI_FAILED;
    }
    if (!ready) {
        return say_none(c, doc);
    }
    if (!body.ptr && !c->json) {
        fputs("pawl: valid; a scripted model is asked without a request\n", stderr);
    }
    return CLI_DONE;
}

int cli_replay(cli *c)
{
    int status = CLI_DONE;
    pawl_error error = {0};
    pawl_doc *doc = NULL;
    size_t len = 0;
    if (!c->option[CLI_dry_run]) {
        return cli_usage(c, "only --dry-run is there: nothing is ever sent");
    }
    char *prompt = cli_join(c, 1, &len);
    pawl *p = prompt ? cli_open(c, true, &status) : NULL;
    if (p) {
        int32_t code = inspect(
            p, c->json ? "request?session=%s&prompt=%s&body=0" : "request?session=%s&prompt=%s",
            c->arguments[0], prompt, &doc, &error);
        status = code == PAWL_OK ? say_request(c, doc) : cli_fail(c, code, &error, NULL);
    }
    pawl_doc_free(doc);
    pawl_close(p);
    free(prompt);
    return status;
}
