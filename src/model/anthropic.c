/* Anthropic Messages as a provider: its options, and its place in the table. The work is in the
 * files beside. */
#include "model/anthropic_inner.h"

#include "model/options.h"

#define MOST_MS (INT64_C(24) * 3600 * 1000)
#define THINKING_LEAST 1024

static const pw_option options[] = {
    {.name = "provider", .type = PW_OPTION_STRING},
    {.name = "fallback", .type = PW_OPTION_ARRAY}, /* read with the definition */
    {.name = "name", .type = PW_OPTION_STRING, .required = true},
    {.name = "max_tokens", .type = PW_OPTION_INTEGER, .least = 1, .most = 10000000},
    {.name = "thinking", .type = PW_OPTION_ANY},
    {.name = "temperature", .type = PW_OPTION_ANY},
    {.name = "base_url", .type = PW_OPTION_STRING},
    {.name = "api_key_env", .type = PW_OPTION_STRING},
    {.name = "api_key_file", .type = PW_OPTION_STRING},
    {.name = "connect_timeout_ms", .type = PW_OPTION_INTEGER, .least = 1, .most = MOST_MS},
    {.name = "first_token_timeout_ms", .type = PW_OPTION_INTEGER, .least = 1, .most = MOST_MS},
    {.name = "idle_timeout_ms", .type = PW_OPTION_INTEGER, .least = 1, .most = MOST_MS},
};

/* A user and password in it would be kept with the definition (N3). */
static bool is_url(pw_str url)
{
    size_t scheme = pw_str_begins(url, PW_STR("https://")) ? 8 : 0;
    scheme = pw_str_begins(url, PW_STR("http://")) ? 7 : scheme;
    for (size_t i = scheme; i < url.len && url.ptr[i] != '/'; i++) {
        if (url.ptr[i] == '@') {
            return false;
        }
    }
    for (size_t i = scheme; i < url.len; i++) {
        if ((uint8_t)url.ptr[i] <= 0x20 || url.ptr[i] == '?' || url.ptr[i] == '#') {
            return false;
        }
    }
    return scheme > 0 && url.len > scheme;
}

static pw_status check_thinking(const pw_json *thinking, int64_t max_tokens, pw_error *error)
{
    if (!thinking) {
        return PW_OK;
    }
    if (pw_json_is(thinking, PW_JSON_STRING) &&
        (pw_str_is(thinking->text, "adaptive") || pw_str_is(thinking->text, "disabled"))) {
        return PW_OK;
    }
    const pw_json *type = pw_json_get(thinking, "type");
    if (!pw_json_is(type, PW_JSON_STRING)) {
        return PW_FAIL(error, PW_INVALID,
                       "model.thinking: expected adaptive, disabled, or an object with a type");
    }
    int64_t tokens = 0;
    if (pw_str_is(type->text, "enabled") &&
        (!pw_json_i64(pw_json_get(thinking, "budget_tokens"), &tokens) || tokens < THINKING_LEAST ||
         tokens >= max_tokens)) {
        return PW_FAIL(
            error, PW_INVALID,
            "model.thinking.budget_tokens: expected %d up to less than max_tokens (%lld)",
            THINKING_LEAST, (long long)max_tokens);
    }
    return PW_OK;
}

static pw_status check(const pw_json *model, pw_arena *scratch, pw_error *error)
{
    (void)scratch;
    PW_TRY(pw_options_check(model, "model.", options, sizeof options / sizeof options[0], error));
    if (pw_json_text(pw_json_get(model, "name")).len == 0) {
        return PW_FAIL(error, PW_INVALID, "model.name is empty");
    }
    const pw_json *temperature = pw_json_get(model, "temperature");
    int64_t micros = 0;
    if (temperature && (!pw_json_micros(temperature, &micros) || micros < 0 || micros > 1000000)) {
        return PW_FAIL(error, PW_INVALID, "model.temperature: expected a number from 0 to 1");
    }
    const pw_json *url = pw_json_get(model, "base_url");
    if (url && !is_url(url->text)) {
        return PW_FAIL(
            error, PW_INVALID,
            "model.base_url: expected http:// or https:// and a host, without a user and "
            "without a query");
    }
    const int64_t max_tokens = pw_json_i64_or(pw_json_get(model, "max_tokens"), 8192);
    return check_thinking(pw_json_get(model, "thinking"), max_tokens, error);
}

const pw_provider pw_provider_anthropic = {
    .name = "anthropic",
    .default_base_url = "https://api.anthropic.com",
    .default_key_env = "ANTHROPIC_API_KEY",
    .check = check,
    .request = pw_anthropic_request,
    .stream_new = pw_anthropic_stream_new,
    .stream_free = pw_anthropic_stream_free,
    .feed = pw_anthropic_feed,
    .end = pw_anthropic_end,
    .failure = pw_anthropic_failure,
};
