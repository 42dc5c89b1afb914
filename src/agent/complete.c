/*
 * agent.yaml's keys into a definition's: durations become milliseconds, files that are named are
 * read in, what a kind of tool takes for granted is written out. What is not touched here passes
 * through byte for byte.
 */
#include "agent/agent_inner.h"
#include "base/schema.h"
#include "base/utf8.h"

typedef struct work {
    pw_completing *c;
    const pw_source *source;
    pw_json_writer w;
    pw_source *script; /* of the model that is being put */
} work;

#define PROBLEM(self, value, ...)                                                                  \
    pw_problem_add((self)->c->problems, PW_INVALID, (self)->source->path,                          \
                   pw_source_line((self)->source, (value)), __VA_ARGS__)

static pw_str path_of(const work *self, const pw_json *value)
{
    return pw_source_path(self->source, value, self->c->arena);
}

static pw_str shown(const pw_json *value)
{
    return pw_str_slice(value->raw, 0, value->raw.len < 60 ? value->raw.len : 60);
}

static void put_duration(work *self, const char *key, const pw_json *value, int64_t least)
{
    int64_t ms = 0;
    if (value->type == PW_JSON_NULL) {
        pw_json_put_raw(&self->w, key, value->raw);
    } else if (!pw_json_is(value, PW_JSON_STRING) || !pw_str_duration_ms(value->text, &ms) ||
               ms < least) {
        const pw_str path = path_of(self, value);
        const pw_str found = shown(value);
        PROBLEM(self, value, "%.*s: expected a duration such as 300ms, 10s or 5m%s, found %.*s",
                PW_STR_ARG(path), least > 0 ? ", more than 0" : "", PW_STR_ARG(found));
    } else {
        pw_json_put_i64(&self->w, key, ms);
    }
}

static void put_as_it_is(work *self, const pw_json *member)
{
    pw_json_key_str(&self->w, member->key);
    pw_json_raw(&self->w, member->raw);
}

/* --- Files ------------------------------------------------------------------------------------ */

static bool read_named(work *self, const pw_json *value, pw_str *ret)
{
    const pw_str path = path_of(self, value);
    if (self->c->folder == NULL) {
        PROBLEM(self, value, "%.*s: no files can be named here", PW_STR_ARG(path));
        return false;
    }
    pw_error error = {0};
    const pw_status status = pw_folder_read(self->c->folder, value->text, ret, &error);
    if (status != PW_OK) {
        pw_problem_add(self->c->problems, status == PW_FORBIDDEN ? PW_INVALID : status,
                       self->source->path, pw_source_line(self->source, value), "%.*s: %.*s %s",
                       PW_STR_ARG(path), PW_STR_ARG(value->text),
                       status == PW_NOT_FOUND ? "is not in the agent's folder" : error.message);
        return false;
    }
    return true;
}

/* "JSON byte 17: expected …": the line of that byte. */
static int line_of_byte(pw_str text, const char *message)
{
    static const char begins[] = "JSON byte ";
    if (strncmp(message, begins, sizeof begins - 1) != 0) {
        return 0;
    }
    size_t offset = 0;
    for (const char *c = message + sizeof begins - 1; *c >= '0' && *c <= '9'; c++) {
        offset = offset * 10 + (size_t)(*c - '0');
    }
    int line = 1;
    for (size_t i = 0; i < offset && i < text.len; i++) {
        line += text.ptr[i] == '\n';
    }
    return line;
}

static bool read_schema_file(work *self, const pw_json *value, pw_source *file)
{
    if (!read_named(self, value, &file->json)) {
        return false;
    }
    file->path = pw_folder_shown(self->c->folder, value->text);
    file->lines = NULL;
    pw_error error = {0};
    const pw_status status =
        pw_json_parse(self->c->arena, file->json, PW_JSON_UNIQUE_KEYS, &file->root, &error);
    if (status != PW_OK) {
        pw_problem_add(self->c->problems, status, file->path,
                       line_of_byte(file->json, error.message), "%s", error.message);
    } else if (!pw_json_is(file->root, PW_JSON_OBJECT)) {
        pw_problem_add(self->c->problems, PW_INVALID, file->path, 1,
                       "expected a JSON Schema, an object");
        return false;
    }
    return status == PW_OK;
}

static int line_in(const pw_source *file, const pw_json *value)
{
    if (file->lines != NULL) {
        return pw_source_line(file, value);
    }
    int line = 1;
    for (const char *at = file->json.ptr; at < value->raw.ptr; at++) {
        line += *at == '\n';
    }
    return line;
}

static void check_schema(work *self, const pw_source *file, const pw_json *schema)
{
    pw_error error = {0};
    const pw_status status = pw_schema_check(schema, self->c->arena, &error);
    if (status == PW_OK) {
        return;
    }
    static const char begins[] = "schema ";
    const bool placed = strncmp(error.message, begins, sizeof begins - 1) == 0;
    const pw_json *at =
        placed ? pw_source_find(schema, pw_str_from(error.message + sizeof begins - 1)) : schema;
    const pw_str path = file->lines != NULL ? path_of(self, schema) : PW_STR("");
    pw_problem_add(self->c->problems, status, file->path, line_in(file, at), "%.*s%s%s",
                   PW_STR_ARG(path), path.len > 0 ? ": " : "", error.message);
}

static void put_input(work *self, const pw_json *member)
{
    pw_source file = *self->source;
    file.root = member;
    if (!pw_json_is(member, PW_JSON_STRING) || read_schema_file(self, member, &file)) {
        check_schema(self, &file, file.root);
        pw_json_put_raw(&self->w, "input", file.root->raw);
    }
}

static void put_script(work *self, const pw_json *member)
{
    pw_source *script = self->script;
    pw_str text;
    if (!pw_json_is(member, PW_JSON_STRING)) {
        put_as_it_is(self, member);
        return;
    }
    if (!read_named(self, member, &text)) {
        return;
    }
    script->path = pw_folder_shown(self->c->folder, member->text);
    pw_error error = {0};
    pw_status status =
        pw_yaml_to_json(text, script->path, self->c->arena, &script->json, &script->lines, &error);
    if (status == PW_OK) {
        status = pw_json_parse(self->c->arena, script->json, 0, &script->root, &error);
    }
    if (status != PW_OK) { /* the message has path and line already */
        pw_problem_add(self->c->problems, status, PW_STR_NONE, 0, "%s", error.message);
    } else if (!pw_json_is(script->root, PW_JSON_ARRAY)) {
        pw_problem_add(self->c->problems, PW_INVALID, script->path, 1, "expected a list of rules");
    } else {
        pw_json_put_raw(&self->w, "script", script->root->raw);
    }
}

/* --- Objects ---------------------------------------------------------------------------------- */

static void put_model_members(work *self, const pw_json *model);

/* Each as the model itself: what it leaves out but its provider is not taken from the first. */
static void put_fallbacks(work *self, const pw_json *list)
{
    pw_json_key(&self->w, "fallback");
    pw_json_array(&self->w);
    for (const pw_json *item = list->child; item != NULL; item = item->next) {
        self->script++;
        if (!pw_json_is(item, PW_JSON_OBJECT)) {
            pw_json_raw(&self->w, item->raw);
            continue;
        }
        pw_json_object(&self->w);
        put_model_members(self, item);
        pw_json_object_end(&self->w);
    }
    pw_json_array_end(&self->w);
}

static void put_model_members(work *self, const pw_json *model)
{
    static const struct {
        const char *from, *to;
    } times[] = {{"connect_timeout", "connect_timeout_ms"},
                 {"first_token_timeout", "first_token_timeout_ms"},
                 {"idle_timeout", "idle_timeout_ms"}};
    const pw_json *fallbacks = NULL;
    for (const pw_json *member = model->child; member != NULL; member = member->next) {
        size_t i = 0;
        while (i < sizeof times / sizeof times[0] && !pw_str_is(member->key, times[i].from)) {
            i++;
        }
        if (i < sizeof times / sizeof times[0]) {
            put_duration(self, times[i].to, member, 1);
        } else if (pw_str_is(member->key, "script")) {
            put_script(self, member);
        } else if (pw_str_is(member->key, "fallback") && self->script == self->c->scripts &&
                   pw_json_is(member, PW_JSON_ARRAY)) {
            fallbacks = member; /* last: the scripts are counted in that order */
        } else {
            put_as_it_is(self, member);
        }
    }
    if (fallbacks != NULL) {
        put_fallbacks(self, fallbacks);
    }
}

static void put_model(work *self, const pw_json *model)
{
    const pw_json *fallbacks = pw_json_get(model, "fallback");
    self->c->script_count = 1 + (pw_json_is(fallbacks, PW_JSON_ARRAY) ? fallbacks->count : 0);
    self->script = self->c->scripts =
        PW_NEW_ARRAY(self->c->arena, pw_source, self->c->script_count);
    if (self->script == NULL) {
        self->w.out->failed = PW_NOMEM;
        return;
    }
    pw_json_key(&self->w, "model");
    pw_json_object(&self->w);
    put_model_members(self, model);
    pw_json_object_end(&self->w);
}

static void put_budget(work *self, const pw_json *budget)
{
    pw_json_key(&self->w, "budget");
    pw_json_object(&self->w);
    for (const pw_json *member = budget->child; member != NULL; member = member->next) {
        if (pw_str_is(member->key, "deadline")) {
            put_duration(self, "deadline_ms", member, 1);
        } else {
            put_as_it_is(self, member);
        }
    }
    pw_json_object_end(&self->w);
}

static void put_tool(work *self, const pw_json *tool)
{
    pw_json_object(&self->w);
    for (const pw_json *member = tool->child; member != NULL; member = member->next) {
        if (pw_str_is(member->key, "limit")) {
            put_duration(self, "limit_ms", member, 1);
        } else if (pw_str_is(member->key, "input")) {
            put_input(self, member);
        } else {
            put_as_it_is(self, member);
        }
    }
    if (pw_str_is(pw_json_text(pw_json_get(tool, "kind")), "sql") &&
        pw_json_get(tool, "effects") == NULL) {
        pw_json_put_str(&self->w, "effects", PW_STR("transactional"));
    }
    pw_json_object_end(&self->w);
}

static void check_names(work *self, const pw_json *tools)
{
    for (const pw_json *tool = tools->child; tool != NULL; tool = tool->next) {
        const pw_json *name = pw_json_get(tool, "name");
        for (const pw_json *other = tools->child; other != tool && name != NULL;
             other = other->next) {
            if (pw_str_equal(pw_json_text(name), pw_json_text(pw_json_get(other, "name")))) {
                const pw_str path = path_of(self, name);
                PROBLEM(self, name, "%.*s: an earlier tool is named \"%.*s\" too", PW_STR_ARG(path),
                        PW_STR_ARG(name->text));
                break;
            }
        }
    }
}

static void put_tools(work *self, const pw_json *tools)
{
    check_names(self, tools);
    pw_json_key(&self->w, "tools");
    pw_json_array(&self->w);
    for (const pw_json *tool = tools->child; tool != NULL; tool = tool->next) {
        if (pw_json_is(tool, PW_JSON_OBJECT)) {
            put_tool(self, tool);
        } else {
            pw_json_raw(&self->w, tool->raw);
        }
    }
    pw_json_array_end(&self->w);
}

static void put_instructions(work *self)
{
    pw_str text;
    pw_error error = {0};
    const pw_str name = PW_STR("instructions.md");
    const pw_str path = pw_folder_shown(self->c->folder, name);
    const pw_status status = pw_folder_read(self->c->folder, name, &text, &error);
    if (status != PW_OK) {
        pw_problem_add(self->c->problems, status == PW_FORBIDDEN ? PW_INVALID : status, path, 0,
                       "%s%s", error.message,
                       status == PW_NOT_FOUND ? "; an agent needs its instructions" : "");
        return;
    }
    if (!pw_utf8_clean(text)) {
        const size_t good = pw_utf8_valid_prefix(text);
        int line = 1;
        for (size_t i = 0; i < good && text.ptr[i] != '\0'; i++) {
            line += text.ptr[i] == '\n';
        }
        pw_problem_add(self->c->problems, PW_INVALID, path, line,
                       "expected text in UTF-8 without NUL");
        return;
    }
    pw_json_put_str(&self->w, "instructions", text);
}

static void put_member(work *self, const pw_json *member)
{
    const bool object = pw_json_is(member, PW_JSON_OBJECT);
    if (pw_str_is(member->key, "model") && object) {
        put_model(self, member);
    } else if (pw_str_is(member->key, "budget") && object) {
        put_budget(self, member);
    } else if (pw_str_is(member->key, "debounce")) {
        put_duration(self, "debounce_ms", member, 0);
    } else if (pw_str_is(member->key, "tools") && pw_json_is(member, PW_JSON_ARRAY)) {
        put_tools(self, member);
    } else {
        put_as_it_is(self, member);
    }
}

pw_status pw_agent_complete(pw_completing *c, pw_str *ret_json)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, c->arena, (size_t)64 * PW_AGENT_FILE_MAX);
    work self = {.c = c, .source = c->source};
    pw_json_begin(&self.w, &out);
    pw_json_object(&self.w);
    if (pw_json_get(c->source->root, "name") == NULL) {
        pw_json_put_str(&self.w, "name", c->name);
    }
    if (c->folder != NULL) {
        put_instructions(&self);
    }
    for (const pw_json *member = c->source->root->child; member != NULL; member = member->next) {
        put_member(&self, member);
    }
    pw_json_object_end(&self.w);
    if (out.failed != PW_OK) {
        return out.failed;
    }
    *ret_json = pw_buffer_str(&out);
    return PW_OK;
}
