/* Classes of failed calls: the table of PROVIDERS.md 8 row by row (F5), times, and what a person
 * gets to read (N3). */
#include "support.h"

#include <string.h>

#define ERROR(type, message)                                                                       \
    "{\"type\":\"error\",\"error\":{\"type\":\"" type "\",\"message\":\"" message "\"}}"

typedef struct row {
    int status;
    const char *headers[4]; /* name, value, name, value */
    const char *body;
    pw_failure_class class;
    const char *code;
    int64_t until_after_ms; /* of NOW_MS; 0: none */
} row;

static pw_failure fail_with(pw_arena *arena, const row *r, const char *key)
{
    const pw_endpoint endpoint = {.key = pw_str_from(key), .now_ms = NOW_MS};
    pw_header headers[2];
    size_t count = 0;
    for (size_t i = 0; i < 4 && r->headers[i]; i += 2) {
        headers[count++] = (pw_header){pw_str_from(r->headers[i]), pw_str_from(r->headers[i + 1])};
    }
    return pw_provider_anthropic.failure(&endpoint, r->status, headers, count, pw_str_from(r->body),
                                         arena);
}

static void check_rows(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_failure f = fail_with(&arena, &rows[i], "a-key-of-some-length");
        const int64_t until = rows[i].until_after_ms ? NOW_MS + rows[i].until_after_ms : 0;
        if (f.failure_class != rows[i].class || !pw_str_is(f.code, rows[i].code) ||
            f.until_ms != until) {
            fail_msg("row %zu (%d %s): class %d code %.*s until %lld", i, rows[i].status,
                     rows[i].body, (int)f.failure_class, PW_STR_ARG(f.code),
                     (long long)(f.until_ms - NOW_MS));
        }
        assert_true(f.message.len > 0);
        assert_int_equal(f.usage.out, -1);
        pw_arena_free(&arena);
    }
}

static void test_F5_statuses(void **state)
{
    (void)state;
    const row rows[] = {
        {400,
         {NULL},
         ERROR("invalid_request_error", "no"),
         PW_FAILURE_FINAL,
         "invalid_request_error",
         0},
        {401,
         {NULL},
         ERROR("authentication_error", "no"),
         PW_FAILURE_FINAL,
         "authentication_error",
         0},
        {402, {NULL}, ERROR("billing_error", "no"), PW_FAILURE_NEXT, "billing_error", 0},
        {403, {NULL}, ERROR("permission_error", "no"), PW_FAILURE_FINAL, "permission_error", 0},
        {404, {NULL}, ERROR("not_found_error", "no"), PW_FAILURE_NEXT, "not_found_error", 0},
        {408, {NULL}, "", PW_FAILURE_RETRY, "http_408", 0},
        {409, {NULL}, ERROR("conflict_error", "no"), PW_FAILURE_RETRY, "conflict_error", 0},
        {413, {NULL}, ERROR("request_too_large", "no"), PW_FAILURE_REPAIR, "request_too_large", 0},
        {422, {NULL}, "{}", PW_FAILURE_FINAL, "http_422", 0},
        {425, {NULL}, "", PW_FAILURE_RETRY, "http_425", 0},
        {429, {NULL}, ERROR("rate_limit_error", "no"), PW_FAILURE_RETRY, "rate_limit_error", 0},
        {500, {NULL}, ERROR("api_error", "no"), PW_FAILURE_RETRY, "api_error", 0},
        {502, {NULL}, "<html>Bad gateway</html>", PW_FAILURE_RETRY, "http_502", 0},
        {503, {NULL}, "", PW_FAILURE_RETRY, "http_503", 0},
        {504, {NULL}, ERROR("timeout_error", "no"), PW_FAILURE_RETRY, "timeout_error", 0},
        {520, {NULL}, "", PW_FAILURE_RETRY, "http_520", 0},
        {524, {NULL}, "", PW_FAILURE_RETRY, "http_524", 0},
        {529, {NULL}, ERROR("overloaded_error", "no"), PW_FAILURE_RETRY, "overloaded_error", 0},
        {302, {NULL}, "", PW_FAILURE_FINAL, "http_302", 0},
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void test_F5_wait_with_a_time(void **state)
{
    (void)state;
    const row rows[] = {
        {429, {"retry-after", "12"}, "", PW_FAILURE_WAIT, "http_429", 12000},
        {429, {"Retry-After", " 1.5 "}, "", PW_FAILURE_WAIT, "http_429", 1500},
        {429, {"retry-after", "30", "retry-after-ms", "250"}, "", PW_FAILURE_WAIT, "http_429", 250},
        {429,
         {"retry-after", "Mon, 30 Nov 2026 14:58:47 GMT"},
         "",
         PW_FAILURE_WAIT,
         "http_429",
         60000 - 123},
        {429,
         {"retry-after", "Mon, 30 Nov 2026 14:50:00 GMT"},
         "",
         PW_FAILURE_RETRY,
         "http_429",
         0}, /* past */
        {429, {"retry-after", "0"}, "", PW_FAILURE_RETRY, "http_429", 0},
        {429, {"retry-after", "-5"}, "", PW_FAILURE_RETRY, "http_429", 0},
        {429, {"retry-after", "soon"}, "", PW_FAILURE_RETRY, "http_429", 0},
        {429, {"retry-after", ""}, "", PW_FAILURE_RETRY, "http_429", 0},
        {429, {"retry-after", "99999999999999999999"}, "", PW_FAILURE_RETRY, "http_429", 0},
        {429,
         {"retry-after", "9999999999"},
         "",
         PW_FAILURE_WAIT,
         "http_429",
         INT64_C(366) * 24 * 3600 * 1000},
        {503, {"retry-after", "2"}, "", PW_FAILURE_WAIT, "http_503", 2000},
        {529,
         {"retry-after", "2"},
         ERROR("overloaded_error", "x"),
         PW_FAILURE_WAIT,
         "overloaded_error",
         2000},
        {500, {"retry-after", "2"}, "", PW_FAILURE_RETRY, "http_500", 2000}, /* a hint only */
        {429,
         {"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset",
          "2026-11-30T14:58:00Z"},
         "",
         PW_FAILURE_WAIT,
         "http_429",
         13000 - 123},
        {429,
         {"anthropic-ratelimit-tokens-remaining", "5", "anthropic-ratelimit-tokens-reset",
          "2026-11-30T14:58:00Z"},
         "",
         PW_FAILURE_RETRY,
         "http_429",
         0},
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

/* OpenAI's headers say how long, not when. */
static void test_F5_rate_limits_of_openai(void **state)
{
    (void)state;
    static const struct {
        const char *reset;
        int64_t wait_ms; /* 0: not understood */
    } resets[] = {{"12ms", 12},     {"17.4s", 17400}, {"6m0s", 360000}, {"1h2m3.5s", 3723500},
                  {"1d", 86400000}, {"0s", 0},        {"soon", 0},      {"5", 0},
                  {"", 0},          {"s", 0},         {"3x", 0},        {"1s 2s", 0}};
    for (size_t i = 0; i < sizeof resets / sizeof resets[0]; i++) {
        const row rows[] = {
            {429,
             {"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", resets[i].reset},
             "",
             resets[i].wait_ms > 0 ? PW_FAILURE_WAIT : PW_FAILURE_RETRY,
             "http_429",
             resets[i].wait_ms},
            {429,
             {"X-RateLimit-Remaining-Requests", "0", "X-RateLimit-Reset-Requests", resets[i].reset},
             "",
             resets[i].wait_ms > 0 ? PW_FAILURE_WAIT : PW_FAILURE_RETRY,
             "http_429",
             resets[i].wait_ms},
            {429,
             {"x-ratelimit-remaining-tokens", "9", "x-ratelimit-reset-tokens", resets[i].reset},
             "",
             PW_FAILURE_RETRY,
             "http_429",
             0},
        };
        check_rows(rows, sizeof rows / sizeof rows[0]);
    }
}

/* Every shape of an error's body that PROVIDERS.md tells of (3.8, 4, 6). */
static void test_P8_bodies_of_errors(void **state)
{
    (void)state;
    static const struct {
        const char *body, *code, *message;
    } bodies[] = {
        {ERROR("overloaded_error", "m"), "overloaded_error", "m"},
        {"{\"error\":{\"message\":\"m\",\"type\":\"tokens\",\"param\":null,\"code\":\"rate_limit_"
         "exceeded\"}}",
         "rate_limit_exceeded", "m"},
        {"{\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\",\"param\":null}",
         "server_error", "m"},
        {"{\"error\":{\"code\":503,\"message\":\"m\",\"type\":\"unavailable_error\"}}",
         "unavailable_error", "m"},
        {"{\"error\":{\"code\":\"503\",\"message\":\"m\"}}", "http_418", "m"},
        {"[{\"error\":{\"code\":400,\"message\":\"m\",\"status\":\"INVALID_ARGUMENT\"}}]",
         "INVALID_ARGUMENT", "m"},
        {"{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"m\"}]}", "http_418", "m"},
        {"{\"detail\":[\"m\"]}", "http_418", "m"},
        {"{\"object\":\"error\",\"message\":\"m\",\"type\":\"BadRequestError\",\"code\":400}",
         "BadRequestError", "m"},
        {"{\"object\":\"error\",\"message\":{\"detail\":[]},\"type\":\"x\",\"code\":null}", "x",
         "the provider answered 418 without a message"},
        {"{\"code\":\"invalid-argument\",\"error\":\"m\"}", "invalid-argument", "m"},
        {"{\"code\":\"Some words of text\",\"error\":\"m\"}", "http_418", "m"},
        {"{\"error\":\"m\"}", "http_418", "m"},
        {"\"m\"", "http_418", "m"},
        {"{\"message\":\"m\"}", "http_418", "m"},
        {"{\"error\":null}", "http_418", "the provider answered 418 without a message"},
        {"[]", "http_418", "the provider answered 418 without a message"},
        {"7", "http_418", "the provider answered 418 without a message"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const row r = {.status = 418, .body = bodies[i].body};
        const pw_failure f = fail_with(&arena, &r, "");
        if (!pw_str_is(f.code, bodies[i].code) || !pw_str_is(f.message, bodies[i].message)) {
            fail_msg("%s: %.*s: %.*s", bodies[i].body, PW_STR_ARG(f.code), PW_STR_ARG(f.message));
        }
        pw_arena_free(&arena);
    }
}

static void test_P8_x_should_retry_wins(void **state)
{
    (void)state;
    const row rows[] = {
        {400, {"x-should-retry", "true"}, "", PW_FAILURE_RETRY, "http_400", 0},
        {529, {"x-should-retry", "false"}, "", PW_FAILURE_NEXT, "http_529", 0},
        {429, {"x-should-retry", "false", "retry-after", "3"}, "", PW_FAILURE_NEXT, "http_429", 0},
        {400, {"x-should-retry", "false"}, "", PW_FAILURE_FINAL, "http_400", 0},
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void test_P8_context_overflow(void **state)
{
    (void)state;
    const row rows[] = {
        {400,
         {"x-should-retry", "false"},
         ERROR("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {400,
         {NULL},
         ERROR("context_length_exceeded", "no"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {400,
         {NULL},
         ERROR("x", "This model's maximum context length is 8 tokens"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {400,
         {NULL},
         ERROR("exceed_context_size_error", "no"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {400,
         {NULL},
         ERROR("x", "The input token count (9) exceeds the maximum"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {400, {NULL}, ERROR("x", "Too many tokens"), PW_FAILURE_REPAIR, "context_length", 0},
        {413, {NULL}, ERROR("x", "Input is too long"), PW_FAILURE_REPAIR, "context_length", 0},
        {400,
         {NULL},
         ERROR("x", "input length and `max_tokens` exceed context limit: 9"),
         PW_FAILURE_REPAIR,
         "context_length",
         0},
        {500,
         {NULL},
         ERROR("api_error", "too many tokens in flight"),
         PW_FAILURE_RETRY,
         "api_error",
         0},
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void test_P8_money_and_what_never_fits(void **state)
{
    (void)state;
    const row rows[] = {
        {429, {NULL}, ERROR("insufficient_quota", "no"), PW_FAILURE_NEXT, "insufficient_quota", 0},
        {429,
         {"retry-after", "5"},
         "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"m\",\"details\":{\"error_code\":"
         "\"enforced_spend_limit_reached\"}}}",
         PW_FAILURE_NEXT,
         "enforced_spend_limit_reached",
         0},
        {429,
         {NULL},
         "{\"error\":{\"message\":\"m\",\"code\":\"credit_balance_exhausted\"}}",
         PW_FAILURE_NEXT,
         "credit_balance_exhausted",
         0},
        {400,
         {NULL},
         ERROR("invalid_request_error", "Your credit balance is too low to access the API."),
         PW_FAILURE_NEXT,
         "credit_balance_exhausted",
         0},
        {429,
         {"retry-after", "4"},
         "{\"error\":{\"type\":\"rate_limit_error\",\"message\":\"m\",\"details\":{\"error_code\":"
         "\"ramp_limit_exceeded\"}}}",
         PW_FAILURE_WAIT,
         "rate_limit_error",
         4000},
        {429,
         {"retry-after", "4"},
         ERROR("rate_limit_error", "Request too large for m: Limit 1, Requested 30"),
         PW_FAILURE_REPAIR,
         "request_too_large",
         0},
    };
    check_rows(rows, sizeof rows / sizeof rows[0]);
}

static void expect_message(const char *body, const char *key, const char *wanted)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const row r = {.status = 400, .body = body};
    const pw_failure f = fail_with(&arena, &r, key);
    char *text = calloc(1, f.message.len + 1);
    memcpy(text, f.message.ptr, f.message.len);
    assert_string_equal(text, wanted);
    free(text);
    pw_arena_free(&arena);
}

static void test_F5_only_the_message_field(void **state)
{
    (void)state;
    expect_message(ERROR("x", "just \\\"this\\\""), "", "just \"this\"");
    expect_message("{\"message\":\"flat\"}", "", "flat");
    expect_message("{\"detail\":\"flat too\"}", "", "flat too");
    expect_message("{\"error\":\"a string\"}", "", "a string");
    expect_message("<html>secret details</html>", "",
                   "the provider answered 400 without a message");
    expect_message("{\"stack\":\"at x.js:1\"}", "", "the provider answered 400 without a message");
    expect_message(ERROR("x", "a\\u0000b\\ud800"), "",
                   "a\xEF\xBF\xBD"
                   "b\xEF\xBF\xBD");
}

static void test_N3_keys_are_blotted_out(void **state)
{
    (void)state;
    expect_message(ERROR("x", "invalid key my.secret/key given"), "my.secret/key",
                   "invalid key [key] given");
    expect_message(ERROR("x", "my.secret/keymy.secret/key"), "my.secret/key", "[key][key]");
    expect_message(ERROR("x", "your sk-ant-api03-AbC_123-xyz, or SK-PROJ-1234567"), "",
                   "your [key], or [key]");
    expect_message(ERROR("x", "the task-list-of-mine is sk-1"), "",
                   "the task-list-of-mine is sk-1");
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const row r = {.status = 401,
                   .body = ERROR("canary_key_1", "x")}; /* even where a code is expected */
    assert_true(pw_str_is(fail_with(&arena, &r, "canary_key_1").code, "http_401"));
    const row s = {.status = 401, .body = ERROR("sk-ant-abcdef", "x")};
    assert_true(pw_str_is(fail_with(&arena, &s, "").code, "http_401"));
    const row t = {.status = 401, .body = ERROR("two words", "x")};
    assert_true(pw_str_is(fail_with(&arena, &t, "").code, "http_401"));
    pw_arena_free(&arena);
    /* in band too: the stream's endpoint has this key */
    char *body =
        events("{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"bad "
               "test-key-0123456789 !\"}}",
               NULL);
    char *text = told_text(body);
    assert_holds(text, "message=bad [key] !");
    free(text);
    free(body);
}

static void test_F5_messages_are_cut(void **state)
{
    (void)state;
    const size_t size = 3000;
    char *body = malloc(size * 2 + 100);
    char *at = body + sprintf(body, "{\"error\":{\"message\":\"");
    for (size_t i = 0; i < size; i++) {
        memcpy(at, "\xC3\xA9", 2);
        at += 2;
    }
    strcpy(at, "\"}}");
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const row r = {.status = 400, .body = body};
    const pw_failure f = fail_with(&arena, &r, "");
    assert_int_equal(f.message.len, 4000); /* 2,000 characters */
    pw_arena_free(&arena);
    free(body);
    expect_message("", "", "the provider answered 400 without a message");
}

static void test_a_key_at_the_cut_leaves_no_part(void **state)
{
    (void)state;
    char body[3000];
    char *at = body + sprintf(body, "{\"error\":{\"message\":\"");
    memset(at, 'x', 1990);
    strcpy(at + 1990, " sk-ant-canary-canary\"}}");
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const row r = {.status = 400, .body = body};
    assert_int_equal(pw_str_find(fail_with(&arena, &r, "").message, PW_STR("sk-")), SIZE_MAX);
    pw_arena_free(&arena);
}

static void test_transport_failures_are_tried_again(void **state)
{
    (void)state;
    const char *const codes[] = {"connect", "dns", "tls", "reset", "timeout", "stalled", "cut_off"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const pw_failure f = pw_transport_failure(codes[i], PW_STR("words"));
        assert_int_equal(f.failure_class, PW_FAILURE_RETRY);
        assert_true(pw_str_is(f.code, codes[i]));
        assert_true(pw_str_is(f.message, "words"));
        assert_int_equal(f.usage.out, -1);
        assert_int_equal(f.usage.cost_micros, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F5_statuses),
        cmocka_unit_test(test_F5_wait_with_a_time),
        cmocka_unit_test(test_F5_rate_limits_of_openai),
        cmocka_unit_test(test_P8_bodies_of_errors),
        cmocka_unit_test(test_P8_x_should_retry_wins),
        cmocka_unit_test(test_P8_context_overflow),
        cmocka_unit_test(test_P8_money_and_what_never_fits),
        cmocka_unit_test(test_F5_only_the_message_field),
        cmocka_unit_test(test_N3_keys_are_blotted_out),
        cmocka_unit_test(test_F5_messages_are_cut),
        cmocka_unit_test(test_a_key_at_the_cut_leaves_no_part),
        cmocka_unit_test(test_transport_failures_are_tried_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
