/*
 * Is a tool's declaration right, as far as its kind is concerned? The parts that all tools share
 * were checked with the definition. Every message begins with the field.
 */
#include "base/utf8.h"
#include "tool/tool_inner.h"

static const char *const common_keys[] = {"name",  "kind",     "description",  "effects",
                                          "input", "limit_ms", "result_limit", NULL};
static const char *const native_keys[] = {NULL};
static const char *const sql_keys[] = {"sql", NULL};
static const char *const command_keys[] = {"run", "env", NULL};
static const char *const http_keys[] = {
    "url", "method", "headers", "signing_secret_env", "signing_secret_file", NULL};
static const char *const later_kinds[] = {"mcp", "agent", NULL};
/* Ours to give, not the environment's. */
static const char *const own_names[] = {"PAWL_SESSION",         "PAWL_TURN",    "PAWL_STEP",
                                        "PAWL_IDEMPOTENCY_KEY", "PAWL_ANSWERS", NULL};

static bool is_among(const char *const *list, pw_str text)
{
    while (*list != NULL && !pw_str_is(text, *list)) {
        list++;
    }
    return *list != NULL;
}

static pw_status check_keys(const pw_json *config, const char *const *own, pw_str kind,
                            pw_error *error)
{
    const pw_json *member = pw_json_is(config, PW_JSON_OBJECT) ? config->child : NULL;
    for (; member != NULL; member = member->next) {
        if (!is_among(common_keys, member->key) && !is_among(own, member->key)) {
            return PW_FAIL(error, PW_INVALID, "%.*s: not a key of a tool of kind %.*s",
                           PW_STR_ARG(member->key), PW_STR_ARG(kind));
        }
    }
    return PW_OK;
}

static bool has_nul(pw_str text)
{
    return text.len > 0 && memchr(text.ptr, 0, text.len) != NULL;
}

static pw_status check_run(const pw_json *run, pw_error *error)
{
    if (!pw_json_is(run, PW_JSON_ARRAY) || run->count == 0) {
        return PW_FAIL(error, PW_INVALID,
                       "run: expected a list of strings: the program and its arguments");
    }
    for (const pw_json *word = run->child; word != NULL; word = word->next) {
        if (!pw_json_is(word, PW_JSON_STRING) || has_nul(word->text)) {
            return PW_FAIL(
                error, PW_INVALID, "run: expected strings without NUL, found %.*s",
                PW_STR_ARG(pw_str_slice(word->raw, 0, word->raw.len < 60 ? word->raw.len : 60)));
        }
    }
    if (run->child->text.len == 0) {
        return PW_FAIL(error, PW_INVALID, "run: expected a program first, found \"\"");
    }
    return PW_OK;
}

bool pw_tool_good_variable(pw_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9')) {
            return false;
        }
    }
    return name.len > 0 && name.len <= 256;
}

static pw_status check_env(const pw_json *env, pw_error *error)
{
    if (env == NULL) {
        return PW_OK;
    }
    if (!pw_json_is(env, PW_JSON_ARRAY)) {
        return PW_FAIL(error, PW_INVALID, "env: expected a list of names of variables");
    }
    for (const pw_json *name = env->child; name != NULL; name = name->next) {
        if (!pw_json_is(name, PW_JSON_STRING) || !pw_tool_good_variable(name->text)) {
            return PW_FAIL(
                error, PW_INVALID, "env: expected a variable's name, found %.*s",
                PW_STR_ARG(pw_str_slice(name->raw, 0, name->raw.len < 60 ? name->raw.len : 60)));
        }
        if (is_among(own_names, name->text)) {
            return PW_FAIL(error, PW_INVALID, "env: %.*s is always set, by the engine",
                           PW_STR_ARG(name->text));
        }
    }
    return PW_OK;
}

static pw_status check_command(const pw_tool_declaration *tool, pw_error *error)
{
    if (tool->effects == PW_EFFECTS_TRANSACTIONAL) {
        return PW_FAIL(error, PW_INVALID,
                       "effects: expected none, idempotent or once for a tool "
                       "of kind command, found transactional");
    }
    PW_TRY(check_run(pw_json_get(tool->config, "run"), error));
    return check_env(pw_json_get(tool->config, "env"), error);
}

pw_status pw_tool_declaration_check(const pw_tool_declaration *tool, pw_error *error)
{
    if (pw_str_is(tool->kind, "native")) {
        return check_keys(tool->config, native_keys, tool->kind, error);
    }
    if (pw_str_is(tool->kind, "sql")) {
        PW_TRY(check_keys(tool->config, sql_keys, tool->kind, error));
        return pw_sql_check(tool, error);
    }
    if (pw_str_is(tool->kind, "command")) {
        PW_TRY(check_keys(tool->config, command_keys, tool->kind, error));
        return check_command(tool, error);
    }
    if (pw_str_is(tool->kind, "http")) {
        PW_TRY(check_keys(tool->config, http_keys, tool->kind, error));
        return pw_http_check(tool, error);
    }
    if (is_among(later_kinds, tool->kind)) {
        return PW_FAIL(error, PW_UNSUPPORTED,
                       "kind: tools of kind %.*s are not supported in this version",
                       PW_STR_ARG(tool->kind));
    }
    return PW_FAIL(error, PW_INVALID, "kind: expected native, sql, command or http, found \"%.*s\"",
                   PW_STR_ARG(tool->kind));
}
