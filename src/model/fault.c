/*
 * Classes of failed calls (fault.h): the HTTP status, the error's type and code, and a short table
 * of phrases where the protocol gives nothing else.
 */
#include "model/fault.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/utf8.h"

#define MESSAGE_CHARACTERS 2000
#define MESSAGE_READ ((size_t)256 << 10) /* of a longer message only this much is looked at */
#define KEY_LEAST 6
#define WAIT_MOST_MS (INT64_C(366) * 24 * 3600 * 1000)

/* --- Text that is safe to keep --- */

static bool is_key_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Length of a secret that begins at `at`, or 0. */
static size_t secret_at(pw_str text, size_t at, pw_str key)
{
    const pw_str rest = pw_str_slice(text, at, text.len);
    if (key.len >= KEY_LEAST && pw_str_begins(rest, key)) {
        return key.len;
    }
    const bool inside_word = at > 0 && is_key_byte(text.ptr[at - 1]);
    if (inside_word || rest.len < 3 || lower(rest.ptr[0]) != 's' || lower(rest.ptr[1]) != 'k' ||
        (rest.ptr[2] != '-' && rest.ptr[2] != '_')) {
        return 0;
    }
    size_t length = 3;
    while (length < rest.len && is_key_byte(rest.ptr[length])) {
        length++;
    }
    return length >= 3 + KEY_LEAST ? length : 0;
}

static size_t cut_characters(pw_str text, size_t most)
{
    size_t at = 0;
    while (at < text.len && most > 0) {
        at++;
        while (at < text.len && ((uint8_t)text.ptr[at] & 0xC0) == 0x80) {
            at++;
        }
        most--;
    }
    return at;
}

static pw_str safe_text(pw_str text, pw_str key, pw_arena *arena)
{
    pw_buffer mended, out;
    pw_buffer_init_arena(&mended, arena, MESSAGE_READ * 4);
    pw_buffer_init_arena(&out, arena, MESSAGE_READ * 8);
    const size_t read = text.len > MESSAGE_READ ? pw_utf8_cut(text, MESSAGE_READ) : text.len;
    if (pw_utf8_mend(&mended, pw_str_slice(text, 0, read)) != PW_OK) {
        return PW_STR("(out of memory)");
    }
    const pw_str clean = pw_buffer_str(&mended);
    size_t from = 0;
    for (size_t at = 0; at < clean.len;) {
        const size_t secret = secret_at(clean, at, key);
        if (secret > 0) {
            (void)pw_buffer_add(&out, pw_str_slice(clean, from, at));
            (void)pw_buffer_add(&out, PW_STR("[key]"));
            from = at + secret;
        }
        at += secret > 0 ? secret : 1;
    }
    (void)pw_buffer_add(&out, pw_str_slice(clean, from, clean.len));
    if (out.failed != PW_OK) {
        return PW_STR("(out of memory)");
    }
    const pw_str whole = pw_buffer_str(&out);
    return pw_str_slice(whole, 0, cut_characters(whole, MESSAGE_CHARACTERS));
}

/* A provider's own word, when it is short and plain enough to be a code. */
static bool is_code(pw_str word, pw_str key)
{
    if (word.len == 0 || word.len > 64 ||
        (key.len >= KEY_LEAST && pw_str_find(word, key) != SIZE_MAX)) {
        return false;
    }
    for (size_t i = 0; i < word.len; i++) {
        if (!(is_key_byte(word.ptr[i]) || word.ptr[i] == '.') || secret_at(word, i, key) > 0) {
            return false;
        }
    }
    return true;
}

bool pw_fault_says(pw_str text, const char *phrase)
{
    const size_t length = strlen(phrase);
    for (size_t at = 0; at + length <= text.len; at++) {
        size_t i = 0;
        while (i < length && lower(text.ptr[at + i]) == phrase[i]) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return false;
}

static bool says_any(pw_str text, const char *const *phrases)
{
    for (size_t i = 0; phrases[i]; i++) {
        if (pw_fault_says(text, phrases[i])) {
            return true;
        }
    }
    return false;
}

/* --- Headers --- */

static pw_str header(const pw_fault *fault, const char *name)
{
    return pw_header_get(fault->headers, fault->header_count, name);
}

/* "12" or "12.5", times `unit` milliseconds. */
static bool decimal_ms(pw_str text, int64_t unit, int64_t *ret)
{
    const size_t dot = pw_str_find(text, PW_STR("."));
    const size_t whole = dot != SIZE_MAX ? dot : text.len;
    uint64_t number = 0;
    if (!pw_str_u64(pw_str_slice(text, 0, whole), &number)) {
        return false;
    }
    int64_t ms = number > (uint64_t)WAIT_MOST_MS ? WAIT_MOST_MS : (int64_t)number * unit;
    int64_t scale = unit;
    for (size_t i = whole + 1; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        scale /= 10;
        ms += (text.ptr[i] - '0') * scale;
    }
    *ret = ms > WAIT_MOST_MS ? WAIT_MOST_MS : ms;
    return true;
}

/* "12ms", "17.4s", "6m0s": pieces of a number and a unit. */
static bool duration_ms(pw_str text, int64_t *ret)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t sum = 0;
    size_t at = 0;
    while (at < text.len) {
        const size_t number = at;
        while (at < text.len && !is_letter(text.ptr[at])) {
            at++;
        }
        const size_t unit = at;
        while (at < text.len && is_letter(text.ptr[at])) {
            at++;
        }
        const pw_str word = pw_str_slice(text, unit, at);
        size_t i = 0;
        while (i < sizeof units / sizeof units[0] && !pw_str_is(word, units[i].unit)) {
            i++;
        }
        int64_t ms = 0;
        if (i == sizeof units / sizeof units[0] ||
            !decimal_ms(pw_str_slice(text, number, unit), units[i].ms, &ms)) {
            return false;
        }
        sum = sum + ms > WAIT_MOST_MS ? WAIT_MOST_MS : sum + ms;
    }
    *ret = sum;
    return text.len > 0;
}

/* When a limit that is used up is filled again, as Anthropic says it (a time) and as OpenAI does (a
 * duration); 0: the headers do not say. */
static int64_t limits_reset_ms(const pw_fault *fault, int64_t now_ms)
{
    static const struct {
        const char *remaining, *reset;
    } limits[] = {
        {"anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
        {"anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
        {"anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
        {"anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
        {"x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"},
        {"x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"},
    };
    int64_t latest = 0;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int64_t at = 0, wait = 0;
        if (!pw_str_is(header(fault, limits[i].remaining), "0")) {
            continue;
        }
        const pw_str reset = header(fault, limits[i].reset);
        if (duration_ms(reset, &wait)) {
            at = now_ms + wait;
        } else if (!pw_time_parse_rfc3339(reset, &at)) {
            continue;
        }
        latest = at > latest ? at : latest;
    }
    return latest;
}

/* Wall time before which there is no point in asking; 0: not said. */
static int64_t until_of(const pw_fault *fault, int64_t now_ms)
{
    int64_t wait = 0, at = 0;
    if (decimal_ms(header(fault, "retry-after-ms"), 1, &wait) && wait > 0) {
        return now_ms + wait;
    }
    const pw_str after = header(fault, "retry-after");
    if (decimal_ms(after, 1000, &wait)) {
        return wait > 0 ? now_ms + wait : 0;
    }
    if (!pw_time_parse_http(after, &at) && fault->status == 429) {
        at = limits_reset_ms(fault, now_ms);
    }
    if (at <= now_ms) {
        return 0;
    }
    return at - now_ms > WAIT_MOST_MS ? now_ms + WAIT_MOST_MS : at;
}

/* --- The table --- */

static const char *const context_phrases[] = {
    "prompt is too long",   "context_length_exceeded", "maximum context length",
    "exceed_context_size",  "too many tokens",         "input is too long",
    "exceed context limit", "context window",          NULL};

static const char *const money_codes[] = {"insufficient_quota",
                                          "credit_balance_exhausted",
                                          "organization_spend_limit_exceeded",
                                          "project_spend_limit_exceeded",
                                          "organization_usage_limit_exceeded",
                                          "enforced_spend_limit_reached",
                                          "contract_spend_limit_reached",
                                          NULL};

static bool is_context(const pw_fault *fault)
{
    if (fault->status != 400 && fault->status != 413 && fault->status != 422) {
        return false;
    }
    const bool counted = pw_fault_says(fault->message, "input token count") &&
                         pw_fault_says(fault->message, "exceeds");
    return counted || says_any(fault->message, context_phrases) ||
           says_any(fault->type, context_phrases) || says_any(fault->code, context_phrases);
}

/* "Limit 1, Requested 30": no wait makes it fit. */
static bool never_fits(const pw_fault *fault)
{
    return fault->status == 429 && pw_fault_says(fault->message, "request too large");
}

static bool is_money(const pw_fault *fault, pw_str *ret_code)
{
    const pw_str words[] = {fault->code, fault->detail, fault->type};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (size_t k = 0; money_codes[k]; k++) {
            if (pw_str_is(words[i], money_codes[k])) {
                *ret_code = pw_str_from(money_codes[k]);
                return true;
            }
        }
    }
    if (pw_fault_says(fault->message, "credit balance is too low")) {
        *ret_code = PW_STR("credit_balance_exhausted");
        return true;
    }
    return false;
}

static bool is_passing(const pw_fault *fault)
{
    const int status = fault->status;
    /* Groq: the model wrote a call that does not fit; it may write another. */
    return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500 ||
           pw_str_is(fault->code, "tool_use_failed");
}

static pw_failure_class class_by_status(const pw_fault *fault, int64_t until_ms)
{
    const int status = fault->status;
    /* x-should-retry wins over the table in both directions. */
    const pw_str advice = header(fault, "x-should-retry");
    const bool retry =
        pw_str_is(advice, "true") || (is_passing(fault) && !pw_str_is(advice, "false"));
    if (retry) {
        const bool timed = status == 429 || status == 503 || status == 529;
        return timed && until_ms > 0 ? PW_FAILURE_WAIT : PW_FAILURE_RETRY;
    }
    const bool elsewhere = status == 402 || status == 404; /* no money here; no such model here */
    return is_passing(fault) || elsewhere ? PW_FAILURE_NEXT : PW_FAILURE_FINAL;
}

static pw_str code_of(const pw_endpoint *endpoint, const pw_fault *fault, pw_arena *arena)
{
    pw_str code = PW_STR("provider");
    char made[32];
    const pw_str words[] = {fault->code, fault->type};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (is_code(words[i], endpoint->key)) {
            return pw_arena_dup(arena, words[i], &code) == PW_OK ? code : PW_STR("provider");
        }
    }
    pw_format(made, sizeof made, "http_%d", fault->status);
    return pw_arena_dup(arena, pw_str_from(made), &code) == PW_OK ? code : PW_STR("provider");
}

static pw_str message_of(const pw_endpoint *endpoint, const pw_fault *fault, pw_arena *arena)
{
    if (fault->message.len > 0) {
        return safe_text(fault->message, endpoint->key, arena);
    }
    char made[64];
    pw_str text = PW_STR_NONE;
    pw_format(made, sizeof made, "the provider answered %d without a message", fault->status);
    return pw_arena_dup(arena, pw_str_from(made), &text) == PW_OK ? text
                                                                  : PW_STR("(out of memory)");
}

pw_failure pw_fault_class(const pw_endpoint *endpoint, const pw_fault *fault, pw_arena *arena)
{
    pw_failure failure = {.usage = PW_USAGE_UNKNOWN,
                          .code = code_of(endpoint, fault, arena),
                          .message = message_of(endpoint, fault, arena)};
    pw_str money = PW_STR_NONE;
    if (is_context(fault)) {
        failure.failure_class = PW_FAILURE_REPAIR;
        failure.code = PW_STR("context_length");
    } else if (fault->status == 413 || never_fits(fault)) {
        failure.failure_class = PW_FAILURE_REPAIR;
        failure.code = PW_STR("request_too_large");
    } else if (is_money(fault, &money)) {
        failure.failure_class = PW_FAILURE_NEXT;
        failure.code = money;
    } else {
        const int64_t until_ms = until_of(fault, endpoint->now_ms);
        failure.failure_class = class_by_status(fault, until_ms);
        const bool later =
            failure.failure_class == PW_FAILURE_WAIT || failure.failure_class == PW_FAILURE_RETRY;
        failure.until_ms = later ? until_ms : 0; /* of RETRY: a hint, not before */
    }
    return failure;
}

/* --- Reading what was said --- */

int pw_fault_status(const pw_fault *fault)
{
    static const struct {
        const char *word;
        int status;
    } table[] = {
        {"invalid_request_error", 400},
        {"invalid_prompt", 400},
        {"context_length_exceeded", 400},
        {"exceed_context_size_error", 400},
        {"authentication_error", 401},
        {"invalid_api_key", 401},
        {"billing_error", 402},
        {"permission_error", 403},
        {"not_found_error", 404},
        {"model_not_found", 404},
        {"conflict_error", 409},
        {"request_too_large", 413},
        {"rate_limit_error", 429},
        {"rate_limit_exceeded", 429},
        {"insufficient_quota", 429},
        {"api_error", 500},
        {"server_error", 500},
        {"slow_down", 503},
        {"server_is_overloaded", 503},
        {"unavailable_error", 503},
        {"timeout_error", 504},
        {"overloaded_error", 529},
    };
    const pw_str words[] = {fault->code, fault->type};
    if (fault->status > 0) {
        return fault->status;
    }
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            if (pw_str_is(words[k], table[i].word)) {
                return table[i].status;
            }
        }
    }
    return 500;
}

/* A number, or its text, that is a status; else 0. */
static int status_said(const pw_json *value)
{
    int64_t number = 0;
    const bool said = pw_json_is(value, PW_JSON_STRING) ? pw_str_i64(value->text, &number)
                                                        : pw_json_i64(value, &number);
    return said && number >= 400 && number <= 599 ? (int)number : 0;
}

/* The first of a list of complaints, [{"msg": …}] or ["…"]; or a text. */
static pw_str complaint(const pw_json *value)
{
    const pw_json *first = pw_json_is(value, PW_JSON_ARRAY) ? pw_json_at(value, 0) : value;
    if (pw_json_is(first, PW_JSON_STRING)) {
        return first->text;
    }
    const pw_str message = pw_json_text(pw_json_get(first, "msg"));
    return message.len > 0 ? message : pw_json_text(pw_json_get(first, "message"));
}

static void read_members(const pw_json *error, pw_fault *ret)
{
    const pw_json *code = pw_json_get(error, "code");
    const int status = status_said(code);
    ret->type = pw_json_text(pw_json_get(error, "type"));
    if (pw_str_is(ret->type, "error")) { /* the event's own type, not the error's */
        ret->type = PW_STR_NONE;
    }
    if (ret->type.len == 0) {
        ret->type = pw_json_text(pw_json_get(error, "status")); /* Google: "INVALID_ARGUMENT" */
    }
    ret->code = status > 0 ? PW_STR_NONE : pw_json_text(code);
    ret->detail = pw_json_text(pw_json_get(pw_json_get(error, "details"), "error_code"));
    ret->param = pw_json_text(pw_json_get(error, "param"));
    ret->status = ret->status > 0 ? ret->status : status;
    ret->message = complaint(pw_json_get(error, "message"));
    if (ret->message.len == 0) {
        ret->message = complaint(pw_json_get(error, "detail"));
    }
}

bool pw_fault_read(const pw_json *body, pw_fault *ret)
{
    const pw_json *whole = pw_json_is(body, PW_JSON_ARRAY) ? pw_json_at(body, 0) : body;
    const pw_json *error = pw_json_get(whole, "error");
    if (pw_json_is(error, PW_JSON_OBJECT)) {
        read_members(error, ret);
        return true;
    }
    read_members(whole, ret);
    if (pw_json_is(error, PW_JSON_STRING)) { /* xAI: a code beside it */
        ret->message = error->text;
        return true;
    }
    if (pw_json_is(whole, PW_JSON_STRING)) {
        ret->message = whole->text;
    }
    return ret->message.len > 0 || pw_str_is(pw_json_text(pw_json_get(whole, "type")), "error") ||
           pw_str_is(pw_json_text(pw_json_get(whole, "object")), "error");
}

pw_failure pw_fault_of_answer(const pw_endpoint *endpoint, int http_status,
                              const pw_header *headers, size_t header_count, pw_str body,
                              pw_arena *arena)
{
    pw_fault fault = {.status = http_status};
    const pw_json *json = NULL;
    if (pw_json_parse(arena, pw_str_trim(body), PW_JSON_MEND_UTF8, &json, NULL) == PW_OK) {
        (void)pw_fault_read(json, &fault);
    }
    fault.headers = headers;
    fault.header_count = header_count;
    return pw_fault_class(endpoint, &fault, arena);
}
