/*
 * Tables of options: what an object of a model's configuration may hold. One walk over the object
 * finds unknown members, wrong types, numbers out of range and missing members, and names the
 * member at fault.
 */
#ifndef PW_MODEL_OPTIONS_H
#define PW_MODEL_OPTIONS_H

#include "base/json.h"

typedef enum pw_option_type {
    PW_OPTION_STRING,
    PW_OPTION_INTEGER, /* within least … most */
    PW_OPTION_BOOLEAN,
    PW_OPTION_ARRAY,
    PW_OPTION_OBJECT,
    PW_OPTION_DURATION, /* "300ms", or an integer of milliseconds */
    PW_OPTION_ANY       /* the caller looks at it */
} pw_option_type;

typedef struct pw_option {
    const char *name;
    pw_option_type type;
    bool required;
    int64_t least, most;
} pw_option;

/* `where` stands before the member's name in an error: "model." or "script[2].when.". */
pw_status pw_options_check(const pw_json *object, const char *where, const pw_option *table,
                           size_t count, pw_error *);

/* Of a model of any provider that is reached by HTTP. */
#define PW_OPTION_MOST_MS (INT64_C(24) * 3600 * 1000)
#define PW_MODEL_TIMEOUT(option)                                                                   \
    {                                                                                              \
        .name = option, .type = PW_OPTION_INTEGER, .least = 1, .most = PW_OPTION_MOST_MS           \
    }
#define PW_MODEL_OPTIONS                                                                           \
    {.name = "provider", .type = PW_OPTION_STRING},                                                \
        {.name = "fallback", .type = PW_OPTION_ARRAY}, /* read with the definition */              \
        {.name = "name", .type = PW_OPTION_STRING, .required = true},                              \
        {.name = "max_tokens", .type = PW_OPTION_INTEGER, .least = 1, .most = 10000000},           \
        {.name = "temperature", .type = PW_OPTION_ANY},                                            \
        {.name = "base_url", .type = PW_OPTION_STRING},                                            \
        {.name = "api_key_env", .type = PW_OPTION_STRING},                                         \
        {.name = "api_key_file", .type = PW_OPTION_STRING},                                        \
        PW_MODEL_TIMEOUT("connect_timeout_ms"), PW_MODEL_TIMEOUT("first_token_timeout_ms"),        \
        PW_MODEL_TIMEOUT("idle_timeout_ms")
/* A table that begins with PW_MODEL_OPTIONS, and what is said about those: a name that is not
 * empty, a URL without a user and a query (N3), a temperature from 0 to the greatest. */
pw_status pw_model_options_check(const pw_json *model, const pw_option *table, size_t count,
                                 int64_t most_temperature, pw_error *);

/* A DURATION's milliseconds; `fallback` when it is absent. */
int64_t pw_option_duration(const pw_json *value, int64_t fallback);

#endif
