/* OpenAI's Chat Completions, as any server speaks them, as a provider: its options, and its place
 * in the table. The work is in the files beside. */
#include "model/chat_inner.h"

#include "model/options.h"

static const pw_option options[] = {
    PW_MODEL_OPTIONS,
    {.name = "dialect", .type = PW_OPTION_STRING},
    {.name = "auth", .type = PW_OPTION_STRING},
    {.name = "api_version", .type = PW_OPTION_STRING},
    {.name = "system_role", .type = PW_OPTION_STRING},
    {.name = "max_tokens_field", .type = PW_OPTION_STRING},
    {.name = "stream_options", .type = PW_OPTION_BOOLEAN},
    {.name = "parallel_tool_calls", .type = PW_OPTION_BOOLEAN},
    {.name = "reasoning_effort", .type = PW_OPTION_STRING},
    {.name = "echo_reasoning", .type = PW_OPTION_BOOLEAN},
};

/* An option of few words. */
static pw_status check_word(const pw_json *model, const char *name, const char *one,
                            const char *other, pw_error *error)
{
    const pw_json *value = pw_json_get(model, name);
    if (!value || pw_str_is(value->text, one) || pw_str_is(value->text, other)) {
        return PW_OK;
    }
    return PW_FAIL(error, PW_INVALID, "model.%s: expected %s or %s", name, one, other);
}

/* A word that goes into the URL or the request as it is. */
static pw_status check_plain(const pw_json *model, const char *name, pw_error *error)
{
    const pw_json *value = pw_json_get(model, name);
    bool plain = !value || value->text.len > 0;
    for (size_t i = 0; value && i < value->text.len; i++) {
        const char c = value->text.ptr[i];
        plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.');
    }
    return plain ? PW_OK
                 : PW_FAIL(error, PW_INVALID,
                           "model.%s: expected letters, digits, '-', '_' and '.'", name);
}

static pw_status check_dialect(const pw_json *model, pw_arena *scratch, pw_error *error)
{
    const pw_str url = pw_json_text(pw_json_get(model, "base_url"));
    const pw_chat_dialect *dialect = pw_chat_dialect_find(model, url);
    if (!dialect) {
        pw_buffer names;
        pw_buffer_init_arena(&names, scratch, 1024);
        PW_TRY(pw_chat_dialect_names(&names));
        return PW_FAIL(error, PW_INVALID, "model.dialect: expected one of %.*s",
                       PW_STR_ARG(pw_buffer_str(&names)));
    }
    /* Whoever else sells models is never sent what OPENAI_API_KEY holds. */
    const bool others = dialect->hosted && pw_chat_dialect_at(dialect, url) &&
                        !pw_str_is(pw_str_from(dialect->name), "openai");
    if (others && !pw_json_get(model, "api_key_env") && !pw_json_get(model, "api_key_file")) {
        return PW_FAIL(error, PW_INVALID,
                       "model.api_key_env is missing: %s asks for a key; name the variable that "
                       "holds it, or api_key_file",
                       dialect->name);
    }
    return PW_OK;
}

static pw_status check(const pw_json *model, pw_arena *scratch, pw_error *error)
{
    PW_TRY(pw_model_options_check(model, options, sizeof options / sizeof options[0], 2, error));
    PW_TRY(check_word(model, "auth", "bearer", "api-key", error));
    PW_TRY(check_word(model, "system_role", "system", "developer", error));
    PW_TRY(check_word(model, "max_tokens_field", "max_tokens", "max_completion_tokens", error));
    PW_TRY(check_plain(model, "api_version", error));
    PW_TRY(check_plain(model, "reasoning_effort", error));
    return check_dialect(model, scratch, error);
}

const pw_provider pw_provider_chat = {
    .name = "openai-chat",
    .default_base_url = "https://api.openai.com/v1",
    .default_key_env = "OPENAI_API_KEY",
    .check = check,
    .request = pw_chat_request,
    .stream_new = pw_chat_stream_new,
    .stream_free = pw_reading_free,
    .feed = pw_reading_feed,
    .end = pw_chat_end,
    .failure = pw_chat_failure,
    .rejected = pw_chat_rejected,
};
