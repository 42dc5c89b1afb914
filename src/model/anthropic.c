/* Anthropic Messages as a provider: its options, and its place in the table. The work is in the
 * files beside. */
#include "model/anthropic_inner.h"

#include "model/options.h"

#define THINKING_LEAST 1024

static const pw_option options[] = {PW_MODEL_OPTIONS, {.name = "thinking", .type = PW_OPTION_ANY}};

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
    PW_TRY(pw_model_options_check(model, options, sizeof options / sizeof options[0], 1, error));
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
    .stream_free = pw_reading_free,
    .feed = pw_reading_feed,
    .end = pw_anthropic_end,
    .failure = pw_fault_of_answer,
    .rejected = pw_anthropic_rejected,
};
