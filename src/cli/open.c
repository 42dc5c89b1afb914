/* Opening a store, asking it, and saying what went wrong in one sentence with what to do about it.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_MAX_BYTES 8192
#define PATIENCE_MS 30000

pawl_str cli_str(const char *text)
{
    return (pawl_str){text, text ? strlen(text) : 0};
}

bool cli_is(pawl_str s, const char *text)
{
    return s.ptr && s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

/* --- Errors
 * -----------------------------------------------------------------------------------------------
 */

int cli_exit_of(int32_t code)
{
    switch (code) {
    case PAWL_OK:
        return CLI_DONE;
    case PAWL_INVALID:
    case PAWL_NOT_FOUND:
    case PAWL_CONFLICT:
    case PAWL_TOO_LARGE:
    case PAWL_FORBIDDEN:
    case PAWL_MISUSE:
    case PAWL_UNSUPPORTED:
        return CLI_USAGE;
    case PAWL_UNAVAILABLE:
    case PAWL_NOT_COMMITTED:
    case PAWL_UNKNOWN:
    case PAWL_NEWER_SCHEMA:
    case PAWL_READ_ONLY:
    case PAWL_FULL:
    case PAWL_CORRUPT:
    case PAWL_IO:
    case PAWL_LOCKED:
        return CLI_UNREACHABLE;
    case PAWL_SUSPENDED:
        return CLI_SUSPENDED;
    case PAWL_CANCELLED:
        return CLI_CANCELLED;
    default:
        return CLI_FAILED;
    }
}

static const char *advice(int32_t code)
{
    switch (code) {
    case PAWL_UNAVAILABLE:
    case PAWL_IO:
        return "; --store URL or PAWL_STORE says which store to use";
    case PAWL_LOCKED:
        return "; another program holds it: try again, or `pawl doctor`";
    case PAWL_CORRUPT:
        return "; `pawl verify` says what is damaged";
    case PAWL_FULL:
        return "; make room on the disk and repeat the command: nothing is lost";
    case PAWL_UNKNOWN:
    case PAWL_NOT_COMMITTED:
        return "; repeat the command with the same --request-id";
    default:
        return "";
    }
}

int cli_fail(const cli *c, int32_t code, const pawl_error *error, const char *what)
{
    (void)c;
    const char *message = error && error->message[0] ? error->message : pawl_status_name(code);
    fprintf(stderr, "pawl: %s%s", what ? what : "", what ? ": " : "");
    cli_write(stderr, cli_str(message), isatty(STDERR_FILENO));
    bool agent = code == PAWL_INVALID && strncmp(message, "agent:", 6) == 0;
    fprintf(stderr, "%s\n",
            agent ? "; -a FOLDER, --agents DIR or PAWL_AGENTS say where agents are" : advice(code));
    return cli_exit_of(code);
}

/* --- Opening --- */

static bool is_directory(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_agent_folder(const char *path)
{
    char file[PATH_MAX_BYTES];
    struct stat s;
    int len = snprintf(file, sizeof(file), "%s/agent.yaml", path);
    return len > 0 && (size_t)len < sizeof(file) && stat(file, &s) == 0;
}

/* -a names a folder when it has a slash or is one. */
static bool agent_is_path(const char *agent)
{
    return agent && (strchr(agent, '/') || is_agent_folder(agent));
}

static const char *named_agent(const cli *c)
{
    const char *agent = c->option[CLI_agent] ? c->option[CLI_agent] : getenv("PAWL_AGENT");
    return agent && agent[0] ? agent : NULL;
}

static const char *agents_folder(const cli *c)
{
    if (agent_is_path(named_agent(c))) {
        return named_agent(c);
    }
    if (c->option[CLI_agents]) {
        return c->option[CLI_agents];
    }
    const char *folder = getenv("PAWL_AGENTS");
    return folder && folder[0] ? folder : is_directory("agents") ? "agents" : NULL;
}

/* All that is wrong with the agents' files, one a line; false: it is not that. */
static bool say_problems(const char *folder)
{
    pawl_doc *report = NULL;
    if (!folder || pawl_agents_check(cli_str(folder), &report, NULL) == PAWL_OK || !report) {
        pawl_doc_free(report);
        return false;
    }
    size_t count = 0;
    for (pawl_str line; (line = cli_get(report, "problems.%zu", count)).ptr; count++) {
        cli_write(stderr, line, isatty(STDERR_FILENO));
        fputc('\n', stderr);
    }
    pawl_doc_free(report);
    return count > 0;
}

/* A store that others are making or writing to is waited for, as an admission waits. */
static bool try_again(int32_t code, int64_t until_ms)
{
    const struct timespec pause = {0, 50000000};
    bool again = (code == PAWL_NOT_COMMITTED || code == PAWL_LOCKED) && cli_now_ms() < until_ms &&
                 !cli_terminated && !cli_interrupts;
    if (again) {
        (void)nanosleep(&pause, NULL);
    }
    return again;
}

/* Both may be at fault; the store's is told first. Looking creates nothing. */
static bool store_is_at_fault(const cli *c, bool read_only)
{
    pawl_options options = {.size = sizeof(options),
                            .store = cli_str(c->option[CLI_store]),
                            .flags = PAWL_OPEN_READ_ONLY};
    pawl *p = NULL;
    int32_t code = pawl_open(&options, &p, NULL);
    pawl_close(p);
    return code != PAWL_OK &&
           (read_only || code != PAWL_NOT_FOUND); /* a missing one is made, where it may be */
}

pawl *cli_open(cli *c, bool read_only, int *ret_status)
{
    unsigned takes = c->command->options;
    const char *folder = takes & CLI_BIT(agents) && !c->no_agents ? agents_folder(c) : NULL;
    pawl_options options = {.size = sizeof(options),
                            .store = cli_str(c->option[CLI_store]),
                            .agents = cli_str(folder),
                            .flags = read_only ? PAWL_OPEN_READ_ONLY : 0};
    pawl *p = NULL;
    pawl_error error = {0};
    int32_t code;
    int64_t until = cli_now_ms() + PATIENCE_MS;
    do {
        code = pawl_open(&options, &p, &error);
    } while (try_again(code, until));
    bool agents = (code == PAWL_INVALID || code == PAWL_NOT_FOUND) && folder &&
                  !store_is_at_fault(c, read_only);
    if (agents && say_problems(folder)) {
        *ret_status = CLI_USAGE;
    } else if (code != PAWL_OK) {
        code = code == PAWL_NOT_FOUND ? PAWL_UNAVAILABLE
                                      : code; /* of a store, that is what it means */
        *ret_status = cli_fail(c, code, &error, NULL);
    }
    return p;
}

int32_t cli_start(cli *c, pawl *p, const char *session, pawl_str request, pawl_error *error)
{
    pawl_start_options start = {.size = sizeof(start),
                                .session = cli_str(session),
                                .take_over = c->option[CLI_take_over] != NULL,
                                .until_request = request};
    return pawl_start(p, &start, error);
}

const char *cli_agent_name(cli *c, pawl *p)
{
    const char *agent = named_agent(c);
    if (!agent_is_path(agent)) {
        return agent ? agent : "";
    }
    pawl_doc *list = NULL;
    if (cli_read(p, &list, NULL, "/v1/agents?limit=1") == PAWL_OK) {
        pawl_str found = cli_get(list, "items.0.name");
        snprintf(c->agent, sizeof(c->agent), "%.*s", (int)found.len, found.ptr ? found.ptr : "");
    }
    pawl_doc_free(list);
    return c->agent;
}

/* --- Asking
 * -----------------------------------------------------------------------------------------------
 */

static char *add_encoded(char *to, const char *end, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text && to + 3 < end; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     strchr("-._~", c);
        if (plain) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    return to;
}

static char *path_va(const char *format, va_list args)
{
    char *path = malloc(PATH_MAX_BYTES);
    char *to = path, *end = path + PATH_MAX_BYTES - 1;
    for (const char *at = format; path && *at && to < end; at++) {
        if (at[0] == '%' && at[1] == 's') {
            to = add_encoded(to, end, va_arg(args, const char *));
            at++;
        } else {
            *to++ = *at;
        }
    }
    if (path) {
        *to = '\0';
    }
    return path;
}

char *cli_path(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *path = path_va(format, args);
    va_end(args);
    return path;
}

int32_t cli_read(pawl *p, pawl_doc **ret, pawl_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *path = path_va(format, args);
    va_end(args);
    int32_t code = path ? pawl_read(p, cli_str(path), ret, error) : PAWL_NOMEM;
    free(path);
    return code;
}

pawl_str cli_get(const pawl_doc *doc, const char *format, ...)
{
    char path[160];
    pawl_str found = {NULL, 0};
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    if (pawl_doc_get(doc, path, &found) != PAWL_OK || cli_is(found, "null")) {
        return (pawl_str){NULL, 0};
    }
    return found;
}

int64_t cli_get_number(const pawl_doc *doc, int64_t fallback, const char *path)
{
    pawl_str text = cli_get(doc, "%s", path);
    char digits[32];
    if (!text.ptr || text.len == 0 || text.len >= sizeof(digits)) {
        return fallback;
    }
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    char *end;
    int64_t number = strtoll(digits, &end, 10);
    return *end ? fallback : number;
}

int32_t cli_each(pawl *p, const char *path, const char *list,
                 bool (*item)(void *, const pawl_doc *, size_t), void *ctx, pawl_error *error)
{
    char cursor[2048] = "";
    for (;;) {
        pawl_doc *page = NULL;
        char *whole = malloc(PATH_MAX_BYTES);
        if (!whole) {
            return PAWL_NOMEM;
        }
        snprintf(whole, PATH_MAX_BYTES, "%s%climit=200%s%s", path, strchr(path, '?') ? '&' : '?',
                 cursor[0] ? "&cursor=" : "", cursor);
        int32_t code = pawl_read(p, cli_str(whole), &page, error);
        free(whole);
        if (code != PAWL_OK) {
            return code;
        }
        bool goes_on = true;
        for (size_t i = 0; goes_on && cli_get(page, "%s.%zu", list, i).ptr; i++) {
            goes_on = item(ctx, page, i);
        }
        pawl_str next = cli_get(page, "next_cursor");
        snprintf(cursor, sizeof(cursor), "%.*s", (int)next.len, next.ptr ? next.ptr : "");
        pawl_doc_free(page);
        if (!cursor[0] || !goes_on) {
            return PAWL_OK;
        }
    }
}

char *cli_join(const cli *c, size_t first, size_t *ret_len)
{
    size_t size = 1;
    for (size_t i = first; i < c->argument_count; i++) {
        size += strlen(c->arguments[i]) + 1;
    }
    char *text = malloc(size);
    size_t len = 0;
    for (size_t i = first; text && i < c->argument_count; i++) {
        if (i > first) {
            text[len++] = ' ';
        }
        size_t more = strlen(c->arguments[i]);
        memcpy(text + len, c->arguments[i], more);
        len += more;
    }
    if (text) {
        text[len] = '\0';
    }
    *ret_len = len;
    return text;
}

/* --- Clocks and ids --- */

int64_t cli_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t cli_time_ms(pawl_str text)
{
    struct tm t = {0};
    int ms = 0;
    char copy[40];
    if (!text.ptr || text.len >= sizeof(copy)) {
        return -1;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (sscanf(copy, "%d-%d-%dT%d:%d:%d.%dZ", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
               &t.tm_min, &t.tm_sec, &ms) != 7) {
        return -1;
    }
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    return (int64_t)timegm(&t) * 1000 + ms;
}

void cli_uuid(char to[37])
{
    unsigned char b[16];
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (getentropy(b, sizeof(b)) != 0) { /* never on a running system: still, two ids must differ */
        memset(b, 0, sizeof(b));
        memcpy(b + 8, &t.tv_nsec, 4);
        pid_t self = getpid();
        memcpy(b + 12, &self, 4);
    }
    uint64_t ms = (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
    for (int i = 0; i < 6; i++) {
        b[i] = (unsigned char)(ms >> (40 - 8 * i));
    }
    b[6] = (unsigned char)((b[6] & 0x0F) | 0x70);
    b[8] = (unsigned char)((b[8] & 0x3F) | 0x80);
    for (int i = 0, at = 0; i < 16; i++) {
        at += snprintf(to + at, (size_t)(37 - at), "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
    }
}
