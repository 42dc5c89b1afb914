/* OpenAI Responses as a provider: its options, its failures, and its place in the table. The work
 * is in the files beside. */
#include "model/responses_inner.h"

#include "model/options.h"

#define MAX_TOKENS_LEAST 16

static const pw_option options[] = {
    PW_MODEL_OPTIONS,
    {.name = "reasoning", .type = PW_OPTION_OBJECT},
    {.name = "text", .type = PW_OPTION_OBJECT},
    {.name = "service_tier", .type = PW_OPTION_STRING},
    {.name = "organization", .type = PW_OPTION_STRING},
    {.name = "project", .type = PW_OPTION_STRING},
    {.name = "background", .type = PW_OPTION_BOOLEAN},
    {.name = "strict_tools", .type = PW_OPTION_BOOLEAN},
};

/* One word of several, which the error lists. */
typedef struct choice {
    const char *holder, *name;
    const char *words[8]; /* NULL ends */
} choice;

static const choice choices[] = {
    {"reasoning", "effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"}},
    {"reasoning", "summary", {"auto", "concise", "detailed"}},
    {"text", "verbosity", {"low", "medium", "high"}},
};

static pw_status fail_choice(const choice *one, pw_error *error)
{
    char list[80];
    size_t length = 0;
    for (size_t i = 0; one->words[i] && length < sizeof list; i++) {
        const size_t size = strlen(one->words[i]);
        const size_t comma = i > 0 ? 2 : 0;
        if (length + comma + size >= sizeof list) {
            break;
        }
        memcpy(list + length, ", ", comma);
        memcpy(list + length + comma, one->words[i], size);
        length += comma + size;
    }
    return PW_FAIL(error, PW_INVALID, "model.%s.%s: expected one of %.*s", one->holder, one->name,
                   (int)length, list);
}

static pw_status check_choice(const pw_json *model, const choice *one, pw_error *error)
{
    const pw_json *value = pw_json_get(pw_json_get(model, one->holder), one->name);
    for (size_t i = 0; value && one->words[i]; i++) {
        if (pw_str_is(pw_json_text(value), one->words[i])) {
            return PW_OK;
        }
    }
    return value ? fail_choice(one, error) : PW_OK;
}

/* A line break in them would be another header. */
static pw_status check_header(const pw_json *model, const char *name, pw_error *error)
{
    const pw_json *value = pw_json_get(model, name);
    if (value && (value->text.len == 0 || !pw_is_header_text(value->text))) {
        return PW_FAIL(error, PW_INVALID, "model.%s: expected visible characters of ASCII", name);
    }
    return PW_OK;
}

static pw_status check(const pw_json *model, pw_arena *scratch, pw_error *error)
{
    static const pw_option reasoning[] = {{.name = "effort", .type = PW_OPTION_STRING},
                                          {.name = "summary", .type = PW_OPTION_STRING}};
    static const pw_option text[] = {{.name = "verbosity", .type = PW_OPTION_STRING}};
    (void)scratch;
    PW_TRY(pw_model_options_check(model, options, sizeof options / sizeof options[0], 2, error));
    const pw_json *limit = pw_json_get(model, "max_tokens");
    if (limit && pw_json_i64_or(limit, 0) < MAX_TOKENS_LEAST) {
        return PW_FAIL(error, PW_INVALID, "model.max_tokens: expected at least %d",
                       MAX_TOKENS_LEAST);
    }
    const pw_json *holder = pw_json_get(model, "reasoning");
    if (holder) {
        PW_TRY(pw_options_check(holder, "model.reasoning.", reasoning, 2, error));
    }
    holder = pw_json_get(model, "text");
    if (holder) {
        PW_TRY(pw_options_check(holder, "model.text.", text, 1, error));
    }
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        PW_TRY(check_choice(model, &choices[i], error));
    }
    PW_TRY(check_header(model, "organization", error));
    return check_header(model, "project", error);
}

const pw_provider pw_provider_openai = {
    .name = "openai",
    .default_base_url = "https://api.openai.com/v1",
    .default_key_env = "OPENAI_API_KEY",
    .check = check,
    .request = pw_responses_request,
    .stream_new = pw_responses_stream_new,
    .stream_free = pw_reading_free,
    .feed = pw_reading_feed,
    .accepted = pw_responses_accepted,
    .cancel = pw_responses_cancel,
    .end = pw_responses_end,
    .failure = pw_fault_of_answer,
    .rejected = pw_responses_rejected,
};
