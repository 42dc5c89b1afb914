/*
 * HTTP tools: a POST a call, through the outbound guard.
 *
 *   going ──answer or break──► ended
 *     ▲  └─ may be tried again (none, idempotent) ─► waiting ─┐
 *     └───────────────────────────────────────────────────────┘
 *
 * Every try of a call carries the same key and id. A `once` call is tried once. When its connection
 * breaks after any of it may have reached the server, or the answer is one of who stands between
 * and gave up on the server (408, 502, 504), what it did is unknown: it ends as abandoned, which
 * the session machine makes D4's answer. No redirect is followed, no connection used twice.
 *
 * Secrets are read from the environment or a file at the call, live in the call's arena, go into
 * headers alone, and are blotted out of whatever the server answers (N3).
 */
#include "base/clock.h"
#include "base/format.h"
#include "base/utf8.h"
#include "net/secret.h"
#include "net/sign.h"
#include "tool/tool_inner.h"

enum {
    TRIES_MAX = 4,
    BACKOFF_MS = 500, /* full jitter up to it, doubled with each try */
    CONNECT_MS = 10000,
    SECRET_LEAST = 6, /* shorter ones are no secrets, and would blot out too much */
    OWN_HEADERS = 5   /* content-type, idempotency-key, webhook-id, -timestamp, -signature */
};
#define ANSWER_MAX ((size_t)8 << 20)
#define MESSAGE_READ ((size_t)64 << 10) /* of an error's text; F1 cuts at 2,000 characters */

typedef struct web {
    pw_run *run;
    pw_effects_class effects;
    pw_str url, key, body;
    pw_header *headers; /* the declared ones, then ours */
    size_t declared;
    pw_str signing; /* empty: not signed */
    pw_str *secrets;
    size_t secret_count;
    char seconds[24];
    pw_signature signature;
    int tries;
    bool going, timer_made;
    uv_timer_t again;
    /* The answer of this try. */
    int status;
    bool park;
    int64_t retry_after_ms;
    pw_buffer answer;
    pw_buffer text; /* its JSON string, when it is not JSON */
} web;

static int64_t wall_ms(void)
{
    uv_timeval64_t now = {0};
    (void)uv_gettimeofday(&now); /* fails only for a NULL */
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

static size_t answer_cap(const web *w)
{
    const size_t said = w->run->runner->host.output_bytes;
    return said < ANSWER_MAX ? said : ANSWER_MAX;
}

/* --- What the answer means -------------------------------------------------------------------- */

static void blot_plain(char *bytes, size_t size, pw_str secret)
{
    size_t at = 0, found = 0;
    while (at < size &&
           (found = pw_str_find((pw_str){bytes + at, size - at}, secret)) != SIZE_MAX) {
        memset(bytes + at + found, '*', secret.len);
        at += found + secret.len;
    }
}

/* The character that stands at the beginning of `text`, as inside a JSON string, if it is one of
 * ASCII, else -1; and how many bytes it takes. */
static int character_of(pw_str text, size_t *ret_length)
{
    static const char digits[] = "0123456789abcdef";
    const bool escape = text.len > 1 && text.ptr[0] == '\\';
    *ret_length = escape ? 2 : 1;
    if (!escape) {
        return (uint8_t)text.ptr[0];
    }
    if (text.ptr[1] != 'u') { /* no secret holds what the letters stand for */
        return strchr("\"\\/", text.ptr[1]) ? text.ptr[1] : -1;
    }
    int value = 0;
    for (size_t i = 2; i < 6; i++) {
        const char c = i < text.len ? text.ptr[i] : '\0';
        const char *digit = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
        if (!digit) {
            return -1;
        }
        value = value * 16 + (int)(digit - digits);
    }
    *ret_length = 6;
    return value < 0x80 ? value : -1;
}

/* Servers write JSON's strings with more escapes than they must: "\/", "\u003d". */
static void blot_escaped(char *bytes, size_t size, pw_str secret)
{
    size_t length = 0;
    for (size_t at = 0; at < size; at += length) {
        size_t end = at, same = 0, step = 0;
        while (same < secret.len && end < size &&
               character_of((pw_str){bytes + end, size - end}, &step) ==
                   (uint8_t)secret.ptr[same]) {
            end += step;
            same++;
        }
        (void)character_of((pw_str){bytes + at, size - at}, &length);
        if (same == secret.len) {
            memset(bytes + at, '*', end - at);
            length = end - at;
        }
    }
}

/* Before anything is read of it: what a body says is kept, and shown to the model. */
static void blot(const web *w, char *bytes, size_t size)
{
    const bool escapes = size > 0 && memchr(bytes, '\\', size) != NULL;
    for (size_t i = 0; i < w->secret_count; i++) {
        blot_plain(bytes, size, w->secrets[i]);
        if (escapes) {
            blot_escaped(bytes, size, w->secrets[i]);
        }
    }
}

__attribute__((format(printf, 2, 3))) static pw_str say(web *w, const char *format, ...)
{
    char *text = pw_arena_bytes(&w->run->arena, 80);
    if (text == NULL) {
        return PW_STR("HTTP");
    }
    va_list values;
    va_start(values, format);
    const size_t length = pw_format_va(text, 80, format, values);
    va_end(values);
    return (pw_str){text, length < 80 ? length : 79};
}

static pw_tool_outcome take_result(web *w)
{
    pw_tool_outcome outcome = {.kind = PW_TOOL_RESULT, .json = PW_STR("null")};
    const pw_str answer = pw_buffer_str(&w->answer);
    if (pw_str_trim(answer).len == 0) {
        return outcome;
    }
    pw_status status = pw_tool_json(&w->run->arena, answer, &outcome.json);
    if (status == PW_INVALID) {
        status = pw_tool_text(&w->text, w->run->runner->host.allocator, answer);
        outcome.json = pw_buffer_str(&w->text);
    }
    if (status != PW_OK) { /* it did what it did: the model must not take it for failed */
        pw_outcome_error(&outcome, "OutOfMemory", "the tool's result was lost: out of memory");
    }
    return outcome;
}

/* What a body says is wrong: its detail, error (or its message) or message, else all of it. */
static pw_str complaint(web *w)
{
    const pw_str all = pw_buffer_str(&w->answer);
    const pw_json *json = NULL;
    pw_str text = PW_STR_NONE;
    if (pw_json_parse(&w->run->arena, all, PW_JSON_MEND_UTF8, &json, NULL) == PW_OK) {
        static const char *const names[] = {"detail", "error", "message"};
        for (size_t i = 0; text.len == 0 && i < sizeof names / sizeof names[0]; i++) {
            const pw_json *member = pw_json_get(json, names[i]);
            text = pw_json_text(pw_json_is(member, PW_JSON_OBJECT) ? pw_json_get(member, "message")
                                                                   : member);
        }
    }
    text = pw_str_trim(text.len > 0 ? text : all);
    text.len = text.len > MESSAGE_READ ? pw_utf8_cut(text, MESSAGE_READ) : text.len;
    pw_buffer mended;
    pw_buffer_init_arena(&mended, &w->run->arena, text.len * 3 + 1);
    if (text.len == 0 || pw_utf8_mend(&mended, text) != PW_OK) {
        return PW_STR("the server said no more");
    }
    return pw_buffer_str(&mended);
}

/* Nobody who answers so knows whether the server did it (D4). */
static bool status_is_silent(int status)
{
    return status == 408 || status == 502 || status == 504;
}

static pw_tool_outcome answer_means(web *w)
{
    if (w->effects == PW_EFFECTS_ONCE && status_is_silent(w->status)) {
        return (pw_tool_outcome){.kind = PW_TOOL_ABANDONED};
    }
    if (w->status == 202 && w->park) {
        return (pw_tool_outcome){
            .kind = PW_TOOL_FATAL,
            .message = PW_STR("the tool asked to park (Pawl-Park), which is not supported in this "
                              "version")};
    }
    if (w->status < 300) {
        return take_result(w);
    }
    if (w->status < 400) {
        return (pw_tool_outcome){
            .kind = PW_TOOL_ERROR,
            .error_class = PW_STR("Redirect"),
            .message =
                say(w, "the server redirects (status %d), which is not followed", w->status)};
    }
    return (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                             .error_class = say(w, "HTTP %d", w->status),
                             .message = complaint(w)};
}

static pw_tool_outcome break_means(web *w, const pw_http_event *event)
{
    const bool once = w->effects == PW_EFFECTS_ONCE;
    if (w->run->aborted || (once && status_is_silent(w->status))) {
        return (pw_tool_outcome){.kind = PW_TOOL_ABANDONED};
    }
    if (pw_str_is(pw_str_from(event->code), "too_large") && w->status != 0) {
        return (pw_tool_outcome){
            .kind = PW_TOOL_ERROR,
            .error_class = PW_STR("TooLarge"),
            .message = say(w, "the answer (status %d) is over %zu bytes and was not kept",
                           w->status, answer_cap(w))};
    }
    if (once && event->sent) {
        return (pw_tool_outcome){.kind = PW_TOOL_ABANDONED};
    }
    pw_str message = PW_STR("the connection broke");
    (void)pw_arena_dup(&w->run->arena, event->message, &message);
    return (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                             .error_class = pw_str_is(pw_str_from(event->code), "forbidden")
                                                ? PW_STR("Forbidden")
                                                : PW_STR("Connection"),
                             .message = message};
}

static void end(web *w, pw_tool_outcome outcome)
{
    w->run->outcome = outcome;
    pw_run_end(w->run);
}

/* --- Trying ----------------------------------------------------------------------------------- */

static bool status_may_pass(int status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

static bool break_may_pass(const char *code)
{
    static const char *const codes[] = {"dns",     "connect", "reset",
                                        "cut_off", "timeout", "transport"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t jitter_ms(int tries)
{
    uint32_t random = 0;
    if (uv_random(NULL, NULL, &random, sizeof random, 0, NULL) != 0) {
        random = (uint32_t)uv_hrtime();
    }
    return (int64_t)(random % ((uint32_t)BACKOFF_MS << tries));
}

static void heard(void *runner, const pw_http_event *);
static void on_again(uv_timer_t *timer);

/* F5's manner, inside the call's own limit: false when it is not to be tried again. */
static bool try_again(web *w)
{
    if (w->effects == PW_EFFECTS_ONCE || w->run->aborted || w->tries >= TRIES_MAX) {
        return false;
    }
    int64_t wait_ms = jitter_ms(w->tries - 1);
    wait_ms = wait_ms > w->retry_after_ms ? wait_ms : w->retry_after_ms;
    if (wait_ms >= w->run->due_ms - pw_tool_now_ms()) {
        return false;
    }
    return uv_timer_start(&w->again, on_again, (uint64_t)wait_ms, 0) == 0;
}

static void sign(web *w)
{
    pw_header *own = w->headers + w->declared;
    if (w->signing.len == 0) {
        return;
    }
    const int64_t seconds = wall_ms() / 1000;
    own[3].value =
        (pw_str){w->seconds, pw_format(w->seconds, sizeof w->seconds, "%lld", (long long)seconds)};
    w->signature = pw_sign(w->signing, w->key, seconds, w->body);
    own[4].value = pw_str_from(w->signature.text);
}

static pw_status begin_try(web *w, pw_error *error)
{
    pw_tool_runner *runner = w->run->runner;
    if (runner->http == NULL) {
        PW_TRY(pw_http_new(runner->host.loop, runner->host.allocator, heard, runner, &runner->http,
                           error));
    }
    sign(w);
    const pw_http_request request = {.method = PW_STR("POST"),
                                     .url = w->url,
                                     .headers = w->headers,
                                     .header_count =
                                         w->declared + (w->signing.len > 0 ? OWN_HEADERS : 2),
                                     .body = {w->body}};
    const pw_http_limits limits = {.connect_ms = CONNECT_MS,
                                   .body_bytes = answer_cap(w),
                                   .guarded = true,
                                   .allow = &runner->host.outbound};
    pw_buffer_clear(&w->answer);
    w->status = 0;
    w->park = false;
    w->retry_after_ms = 0;
    w->tries++;
    PW_TRY(pw_http_start(runner->http, w->run->call, &request, &limits, error));
    w->going = true;
    return PW_OK;
}

static void on_again(uv_timer_t *timer)
{
    web *w = timer->data;
    pw_error error = {0};
    const pw_status status = begin_try(w, &error);
    if (status != PW_OK) {
        pw_str message = pw_str_from(pw_status_meaning(status));
        (void)pw_arena_dup(&w->run->arena, pw_str_from(error.message), &message);
        end(w, (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                                 .error_class = pw_str_from(pw_status_code(status)),
                                 .message = message});
    }
}

/* --- What is heard ---------------------------------------------------------------------------- */

static int64_t wait_of(pw_str retry_after)
{
    uint64_t seconds = 0;
    int64_t at_ms = 0;
    if (pw_str_u64(retry_after, &seconds)) {
        return seconds < 1000000 ? (int64_t)seconds * 1000 : INT64_C(1000000000);
    }
    if (pw_time_parse_http(retry_after, &at_ms)) {
        return at_ms > wall_ms() ? at_ms - wall_ms() : 0;
    }
    return 0;
}

static void heard_head(web *w, const pw_http_event *event)
{
    w->status = event->status;
    w->park = pw_str_is(pw_header_get(event->headers, event->header_count, "pawl-park"), "input");
    w->retry_after_ms = wait_of(pw_header_get(event->headers, event->header_count, "retry-after"));
}

static void heard_end(web *w)
{
    w->going = false;
    if (w->answer.failed != PW_OK) {
        pw_tool_outcome lost;
        pw_outcome_error(&lost, "OutOfMemory", "the tool's result was lost: out of memory");
        end(w, lost);
    } else if (!status_may_pass(w->status) || !try_again(w)) {
        blot(w, w->answer.ptr, w->answer.len);
        end(w, answer_means(w));
    }
}

static void heard_broken(web *w, const pw_http_event *event)
{
    w->going = false;
    const bool may_pass = break_may_pass(event->code) || status_may_pass(w->status);
    if (!may_pass || !try_again(w)) {
        end(w, break_means(w, event));
    }
}

static void heard(void *context, const pw_http_event *event)
{
    pw_tool_runner *runner = context;
    pw_run *run = runner->runs;
    while (run != NULL && !(run->kind == &pw_run_http && run->call == event->call)) {
        run = run->next;
    }
    web *w = run != NULL ? run->state : NULL;
    if (w == NULL || !w->going) {
        return;
    }
    switch (event->kind) {
    case PW_HTTP_HEAD:
        heard_head(w, event);
        break;
    case PW_HTTP_BYTES:
        (void)pw_buffer_add(&w->answer, event->bytes); /* sticky: looked at in the end */
        break;
    case PW_HTTP_END:
        heard_end(w);
        break;
    case PW_HTTP_BROKEN:
        heard_broken(w, event);
        break;
    }
}

/* --- Preparing -------------------------------------------------------------------------------- */

static pw_status write_body(web *w, const pw_tool_call *call, const pw_tool_place *place)
{
    pw_buffer body;
    pw_buffer_init_arena(&body, &w->run->arena, call->arguments.len + ((size_t)64 << 10));
    pw_json_writer writer;
    pw_json_begin(&writer, &body);
    pw_json_object(&writer);
    pw_json_put_str(&writer, "tool", call->name);
    pw_json_put_raw(&writer, "arguments", call->arguments);
    pw_json_put_str(&writer, "session", place->session);
    pw_json_put_str(&writer, "turn", call->turn);
    pw_json_put_str(&writer, "step", call->step);
    pw_json_put_raw(&writer, "answers", PW_STR("{}"));
    pw_json_object_end(&writer);
    w->body = pw_buffer_str(&body);
    return body.failed;
}

static void remember(web *w, pw_str secret)
{
    if (secret.len >= SECRET_LEAST) {
        w->secrets[w->secret_count++] = secret;
    }
}

/* "Bearer x": a server that says it back may say the last word alone. */
static void remember_value(web *w, pw_str value)
{
    size_t at = value.len;
    while (at > 0 && value.ptr[at - 1] != ' ') {
        at--;
    }
    remember(w, value);
    if (at > 0) {
        remember(w, pw_str_slice(value, at, value.len));
    }
}

static pw_status read_header(web *w, const pw_json *member, pw_header *ret, pw_error *error)
{
    const pw_str variable = pw_json_text(pw_json_get(member, "env"));
    pw_error why = {0};
    pw_str value;
    pw_status status = pw_secret_env(variable, &w->run->arena, &value, &why);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "headers.%.*s: %s", PW_STR_ARG(member->key), why.message);
    }
    if (pw_utf8_has_control(value)) {
        return PW_FAIL(error, PW_INVALID, "headers.%.*s: what %.*s holds fits into no header",
                       PW_STR_ARG(member->key), PW_STR_ARG(variable));
    }
    remember_value(w, value);
    ret->value = value;
    return pw_arena_dup(&w->run->arena, member->key, &ret->name);
}

static pw_status read_signing(web *w, const pw_json *config, pw_error *error)
{
    const pw_str file = pw_json_text(pw_json_get(config, "signing_secret_file"));
    const pw_str variable = pw_json_text(pw_json_get(config, "signing_secret_env"));
    if (file.len == 0 && variable.len == 0) {
        return PW_OK;
    }
    const char *field = file.len > 0 ? "signing_secret_file" : "signing_secret_env";
    pw_arena *arena = &w->run->arena;
    pw_error why = {0};
    pw_str secret;
    pw_status status = file.len > 0 ? pw_secret_file(file, arena, &secret, &why)
                                    : pw_secret_env(variable, arena, &secret, &why);
    if (status == PW_OK) {
        remember(w, secret);
        status = pw_sign_key(secret, arena, &w->signing, &why);
    }
    return status == PW_OK ? PW_OK : PW_FAIL(error, status, "%s: %s", field, why.message);
}

static pw_status read_headers(web *w, const pw_json *config, pw_error *error)
{
    const pw_json *headers = pw_json_get(config, "headers");
    const size_t count = headers != NULL ? headers->count : 0;
    w->headers = PW_NEW_ARRAY(&w->run->arena, pw_header, count + OWN_HEADERS);
    w->secrets = PW_NEW_ARRAY(&w->run->arena, pw_str, count * 2 + 1);
    if (w->headers == NULL || w->secrets == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    const pw_json *member = headers != NULL ? headers->child : NULL;
    for (; member != NULL; member = member->next) {
        PW_TRY(read_header(w, member, &w->headers[w->declared], error));
        w->declared++;
    }
    PW_TRY(read_signing(w, config, error));
    pw_header *own = w->headers + w->declared;
    own[0] = (pw_header){PW_STR("Content-Type"), PW_STR("application/json")};
    own[1] = (pw_header){PW_STR("Idempotency-Key"), w->key};
    own[2] = (pw_header){PW_STR("webhook-id"), w->key};
    own[3] = (pw_header){PW_STR("webhook-timestamp"), PW_STR_NONE};
    own[4] = (pw_header){PW_STR("webhook-signature"), PW_STR_NONE};
    return PW_OK;
}

static pw_status prepare(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                         pw_error *error)
{
    web *w = PW_NEW(&run->arena, web);
    if (w == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    w->run = run;
    w->effects = call->effects;
    const pw_allocator *allocator = run->runner->host.allocator;
    pw_buffer_init(&w->answer, allocator, ANSWER_MAX);
    pw_buffer_init(&w->text, allocator, ANSWER_MAX * 6 + 2);
    (void)uv_timer_init(run->runner->host.loop, &w->again); /* cannot fail */
    w->again.data = w;
    w->timer_made = true;
    run->state = w; /* from here `release` closes it */
    if (pw_arena_dup(&run->arena, pw_json_text(pw_json_get(call->tool->config, "url")), &w->url) !=
            PW_OK ||
        pw_arena_dup(&run->arena, call->key, &w->key) != PW_OK ||
        write_body(w, call, place) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    return read_headers(w, call->tool->config, error);
}

static pw_status start(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                       pw_error *error)
{
    pw_error why = {0};
    pw_status status = prepare(run, call, place, &why);
    if (status == PW_NOT_FOUND || status == PW_INVALID) { /* set up wrongly (F2) */
        pw_str message = PW_STR("the tool is set up wrongly");
        (void)pw_arena_dup(&run->arena, pw_str_from(why.message), &message);
        end(run->state, (pw_tool_outcome){.kind = PW_TOOL_FATAL, .message = message});
        return PW_OK;
    }
    if (status == PW_OK) {
        status = begin_try(run->state, &why);
    }
    return status == PW_OK ? PW_OK : PW_FAIL(error, status, "%s", why.message);
}

/* --- Ending early, letting go ----------------------------------------------------------------- */

static void abort_web(pw_run *run)
{
    web *w = run->state;
    if (w->going) {
        pw_http_abort(run->runner->http, run->call);
        return;
    }
    (void)uv_timer_stop(&w->again);
    end(w, (pw_tool_outcome){.kind = PW_TOOL_ABANDONED});
}

static void on_timer_closed(uv_handle_t *handle)
{
    web *w = handle->data;
    pw_buffer_free(&w->answer);
    pw_buffer_free(&w->text);
    pw_run_free(w->run);
}

static void release(pw_run *run)
{
    web *w = run->state;
    if (w == NULL || !w->timer_made) {
        pw_run_free(run);
        return;
    }
    uv_close((uv_handle_t *)&w->again, on_timer_closed);
}

const pw_run_kind pw_run_http = {
    .name = "http", .start = start, .abort = abort_web, .release = release};
