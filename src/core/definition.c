#include "core/definition.h"

#include "base/format.h"
#include "base/schema.h"

enum {
    LIMIT_MS_DEFAULT = 60 * 1000,
    LIMIT_MS_TRANSACTIONAL = 2 * 1000,
    RESULT_LIMIT_DEFAULT = 256 * 1024,
    PROTOCOL_FAILURES_DEFAULT = 5
};
#define MS_MAX ((int64_t)10 * 365 * 24 * 60 * 60 * 1000)
#define COUNT_MAX ((int64_t)1 << 40)

static const char *const effects_names[] = {
#define EFFECTS_NAME(name, text) text,
    PW_EFFECTS_TABLE(EFFECTS_NAME)
#undef EFFECTS_NAME
};
enum { EFFECTS_COUNT = sizeof(effects_names) / sizeof(effects_names[0]) };

const char *pw_effects_name(pw_effects_class effects)
{
    PW_ASSERT((unsigned)effects < (unsigned)EFFECTS_COUNT);
    return effects_names[effects];
}

bool pw_effects_from(pw_str text, pw_effects_class *ret)
{
    for (size_t i = 0; i < EFFECTS_COUNT; i++) {
        if (pw_str_is(text, effects_names[i])) {
            *ret = (pw_effects_class)i;
            return true;
        }
    }
    return false;
}

/* --- One field at a time: absent keeps the default, a wrong one is PW_INVALID and says which. */

typedef struct reader {
    const pw_json *object;
    const char *where; /* "", "budget.", … */
    pw_error *error;
} reader;

static pw_status read_integer(const reader *r, const char *key, int64_t least, int64_t most,
                              int64_t *value)
{
    const pw_json *member = pw_json_get(r->object, key);
    if (!member) {
        return PW_OK;
    }
    int64_t read;
    if (!pw_json_i64(member, &read) || read < least || read > most) {
        return PW_FAIL(r->error, PW_INVALID, "%s%s must be a whole number from %lld to %lld",
                       r->where, key, (long long)least, (long long)most);
    }
    *value = read;
    return PW_OK;
}

/* As read_integer; null means: no such bound. */
static pw_status read_bound(const reader *r, const char *key, int64_t most, int64_t *value)
{
    if (pw_json_is(pw_json_get(r->object, key), PW_JSON_NULL)) {
        *value = -1;
        return PW_OK;
    }
    return read_integer(r, key, 1, most, value);
}

static pw_status read_text(const reader *r, const char *key, pw_str *value)
{
    const pw_json *member = pw_json_get(r->object, key);
    if (!member) {
        return PW_OK;
    }
    if (!pw_json_is(member, PW_JSON_STRING)) {
        return PW_FAIL(r->error, PW_INVALID, "%s%s must be a text", r->where, key);
    }
    *value = pw_json_text(member);
    return PW_OK;
}

static pw_status known_keys(const reader *r, const char *const *keys)
{
    for (const pw_json *m = r->object->child; m; m = m->next) {
        bool known = false;
        for (const char *const *key = keys; *key && !known; key++) {
            known = pw_str_is(m->key, *key);
        }
        if (!known) {
            return PW_FAIL(r->error, PW_INVALID, "%s%.*s is not known", r->where,
                           (int)(m->key.len < 64 ? m->key.len : 64), m->key.ptr);
        }
    }
    return PW_OK;
}

static pw_status read_object(const reader *r, const char *key, const pw_json **ret)
{
    const pw_json *member = pw_json_get(r->object, key);
    if (member && !pw_json_is(member, PW_JSON_OBJECT)) {
        return PW_FAIL(r->error, PW_INVALID, "%s%s must be an object", r->where, key);
    }
    *ret = member;
    return PW_OK;
}

pw_status pw_budget_apply(pw_budget *budget, const pw_json *object, pw_error *error)
{
    static const char *const keys[] = {"max_iterations", "max_tool_calls", "max_cost_usd",
                                       "max_tokens",     "deadline_ms",    NULL};
    if (!object || pw_json_is(object, PW_JSON_NULL)) {
        return PW_OK;
    }
    if (!pw_json_is(object, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "budget must be an object");
    }
    const reader r = {object, "budget.", error};
    PW_TRY(known_keys(&r, keys));
    pw_budget read = *budget;
    PW_TRY(read_bound(&r, "max_iterations", COUNT_MAX, &read.max_iterations));
    PW_TRY(read_bound(&r, "max_tool_calls", COUNT_MAX, &read.max_tool_calls));
    PW_TRY(read_bound(&r, "max_tokens", COUNT_MAX, &read.max_tokens));
    PW_TRY(read_bound(&r, "deadline_ms", MS_MAX, &read.deadline_ms));
    const pw_json *cost = pw_json_get(object, "max_cost_usd");
    if (pw_json_is(cost, PW_JSON_NULL)) {
        read.max_cost_micros = -1;
    } else if (cost && (!pw_json_is(cost, PW_JSON_NUMBER) ||
                        !pw_json_micros(cost, &read.max_cost_micros) || read.max_cost_micros < 0)) {
        return PW_FAIL(error, PW_INVALID, "budget.max_cost_usd must be a number of at least 0");
    }
    *budget = read;
    return PW_OK;
}

/* --- Tools. */

static bool tool_name_fits(pw_str name)
{
    if (name.len == 0 || name.len > 64) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}

static pw_status read_tool(pw_arena *arena, const pw_json *object, pw_tool_declaration *tool,
                           pw_error *error)
{
    const reader r = {object, "tool ", error};
    if (!pw_json_is(object, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "each of tools must be an object");
    }
    PW_TRY(read_text(&r, "name", &tool->name));
    if (!tool_name_fits(tool->name)) {
        return PW_FAIL(error, PW_INVALID, "a tool's name must match ^[a-zA-Z0-9_-]{1,64}$");
    }
    tool->kind = PW_STR("native");
    PW_TRY(read_text(&r, "kind", &tool->kind));
    PW_TRY(read_text(&r, "description", &tool->description));
    pw_str effects = PW_STR("once");
    PW_TRY(read_text(&r, "effects", &effects));
    if (!pw_effects_from(effects, &tool->effects)) {
        return PW_FAIL(error, PW_INVALID,
                       "tool %.*s: effects must be one of none, idempotent, once, "
                       "transactional",
                       PW_STR_ARG(tool->name));
    }
    tool->limit_ms =
        tool->effects == PW_EFFECTS_TRANSACTIONAL ? LIMIT_MS_TRANSACTIONAL : LIMIT_MS_DEFAULT;
    PW_TRY(read_integer(&r, "limit_ms", 1, MS_MAX, &tool->limit_ms));
    tool->result_limit = RESULT_LIMIT_DEFAULT;
    PW_TRY(read_integer(&r, "result_limit", 64, (int64_t)1 << 29, &tool->result_limit));
    PW_TRY(read_object(&r, "input", &tool->input));
    tool->config = object;
    if (tool->input) {
        pw_error why = {0};
        const pw_status status = pw_schema_check(tool->input, arena, &why);
        if (status != PW_OK) {
            return PW_FAIL(error, status, "tool %.*s: input: %s", PW_STR_ARG(tool->name),
                           why.message);
        }
    }
    return PW_OK;
}

static pw_status read_tools(pw_arena *arena, const reader *r, pw_definition *definition)
{
    const pw_json *list = pw_json_get(r->object, "tools");
    if (!list) {
        return PW_OK;
    }
    if (!pw_json_is(list, PW_JSON_ARRAY)) {
        return PW_FAIL(r->error, PW_INVALID, "tools must be a list");
    }
    pw_tool_declaration *tools = PW_NEW_ARRAY(arena, pw_tool_declaration, list->count);
    if (!tools) {
        return PW_FAIL(r->error, PW_NOMEM, "out of memory reading tools");
    }
    size_t count = 0;
    for (const pw_json *item = list->child; item; item = item->next) {
        PW_TRY(read_tool(arena, item, &tools[count], r->error));
        for (size_t i = 0; i < count; i++) {
            if (pw_str_equal(tools[i].name, tools[count].name)) {
                return PW_FAIL(r->error, PW_INVALID, "two tools have the name %.*s",
                               PW_STR_ARG(tools[i].name));
            }
        }
        count++;
    }
    definition->tools = tools;
    definition->tool_count = count;
    return PW_OK;
}

/* --- The whole. */

/* One of model.fallback: a whole model, but for the provider, which is the first one's where it is
 * left out. */
static pw_status read_fallback(const pw_json *item, const pw_model_choice *first, size_t index,
                               pw_model_choice *ret, pw_error *error)
{
    char where[40];
    pw_format(where, sizeof where, "model.fallback[%zu].", index);
    if (!pw_json_is(item, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "model.fallback[%zu] must be a model", index);
    }
    const reader m = {item, where, error};
    *ret = (pw_model_choice){.options = item};
    PW_TRY(read_text(&m, "provider", &ret->provider));
    PW_TRY(read_text(&m, "name", &ret->name));
    if (ret->provider.len == 0) {
        ret->provider = first->provider;
    }
    if (ret->name.len == 0) {
        return PW_FAIL(error, PW_INVALID, "model.fallback[%zu] must have a name", index);
    }
    if (pw_json_get(item, "fallback")) {
        return PW_FAIL(error, PW_INVALID,
                       "model.fallback[%zu].fallback is not known: list them one after another",
                       index);
    }
    return PW_OK;
}

static pw_status read_model(pw_arena *arena, const reader *r, pw_definition *definition)
{
    pw_model_choice first = {.options = NULL};
    PW_TRY(read_object(r, "model", &first.options));
    const reader m = {first.options, "model.", r->error};
    if (first.options) {
        PW_TRY(read_text(&m, "provider", &first.provider));
        PW_TRY(read_text(&m, "name", &first.name));
    }
    if (first.provider.len == 0 || first.name.len == 0) {
        return PW_FAIL(r->error, PW_INVALID, "model must have a provider and a name");
    }
    const pw_json *fallbacks = pw_json_get(first.options, "fallback");
    if (fallbacks && !pw_json_is(fallbacks, PW_JSON_ARRAY)) {
        return PW_FAIL(r->error, PW_INVALID, "model.fallback must be a list of models");
    }
    const size_t more = fallbacks ? fallbacks->count : 0;
    pw_model_choice *models = PW_NEW_ARRAY(arena, pw_model_choice, more + 1);
    if (!models) {
        return PW_FAIL(r->error, PW_NOMEM, "out of memory reading models");
    }
    models[0] = first;
    definition->models = models;
    definition->model_count = 1;
    for (const pw_json *item = fallbacks ? fallbacks->child : NULL; item; item = item->next) {
        PW_TRY(read_fallback(item, &first, definition->model_count - 1,
                             &models[definition->model_count], r->error));
        definition->model_count++;
    }
    return PW_OK;
}

static pw_status read_definition(pw_arena *arena, const reader *r, pw_definition *definition)
{
    static const char *const keys[] = {
        "name",    "instructions",          "model", "budget", "debounce_ms",
        "context", "max_protocol_failures", "tools", NULL};
    static const char *const context_keys[] = {"messages", NULL};
    if (!pw_json_is(r->object, PW_JSON_OBJECT)) {
        return PW_FAIL(r->error, PW_INVALID, "a definition must be an object");
    }
    PW_TRY(known_keys(r, keys));
    PW_TRY(read_text(r, "name", &definition->name));
    if (definition->name.len == 0) {
        return PW_FAIL(r->error, PW_INVALID, "a definition must have a name");
    }
    PW_TRY(read_text(r, "instructions", &definition->instructions));
    PW_TRY(read_model(arena, r, definition));
    definition->budget = PW_BUDGET_DEFAULT;
    PW_TRY(pw_budget_apply(&definition->budget, pw_json_get(r->object, "budget"), r->error));
    PW_TRY(read_integer(r, "debounce_ms", 0, MS_MAX, &definition->debounce_ms));
    definition->max_protocol_failures = PROTOCOL_FAILURES_DEFAULT;
    PW_TRY(
        read_integer(r, "max_protocol_failures", 0, COUNT_MAX, &definition->max_protocol_failures));
    definition->context_messages = -1;
    const pw_json *context = NULL;
    PW_TRY(read_object(r, "context", &context));
    if (context) {
        const reader c = {context, "context.", r->error};
        PW_TRY(known_keys(&c, context_keys));
        PW_TRY(read_integer(&c, "messages", 0, COUNT_MAX, &definition->context_messages));
    }
    return read_tools(arena, r, definition);
}

pw_status pw_definition_parse(pw_arena *arena, pw_str json, const pw_definition **ret,
                              pw_error *error)
{
    const pw_json *given;
    PW_TRY(pw_json_parse(arena, json, PW_JSON_UNIQUE_KEYS, &given, error));
    pw_buffer canonical;
    pw_buffer_init_arena(&canonical, arena, (size_t)1 << 28);
    const pw_status status = pw_json_canonical(&canonical, given, arena);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "a definition could not be written canonically");
    }
    pw_definition *definition = PW_NEW(arena, pw_definition);
    if (!definition) {
        return PW_FAIL(error, PW_NOMEM, "out of memory reading a definition");
    }
    definition->text = pw_buffer_str(&canonical);
    const pw_hash hash = pw_sha256_of(definition->text);
    definition->hash = pw_hash_to_hex(&hash);
    PW_TRY(pw_json_parse(arena, definition->text, 0, &definition->json, error));
    const reader r = {definition->json, "", error};
    PW_TRY(read_definition(arena, &r, definition));
    *ret = definition;
    return PW_OK;
}

const pw_tool_declaration *pw_definition_tool(const pw_definition *definition, pw_str name)
{
    for (size_t i = 0; i < definition->tool_count; i++) {
        if (pw_str_equal(definition->tools[i].name, name)) {
            return &definition->tools[i];
        }
    }
    return NULL;
}
