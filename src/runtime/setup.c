/*
 * Tools and agents before the start; see setup.h. Any thread, one at a time. Must never change an
 * agent that somebody may already read: a completed one is a new one, put in by replacing the whole
 * list.
 */
#include "runtime/setup.h"

#include "base/schema.h"
#include "base/utf8.h"

typedef struct added_tool added_tool;
struct added_tool { /* outlives the handle while an abandoned call of it may return */
    const pw_allocator *allocator;
    pw_inside *inside;
    pawl_tool tool;
    bool taken; /* the runner frees it */
    added_tool *next;
};

struct pw_setup {
    uv_mutex_t mutex;
    added_tool *first, *last;
    bool fixed;
};

static pw_str str_of(pawl_str s)
{
    return (pw_str){s.ptr, s.len};
}

pw_status pw_setup_new(pawl *p)
{
    pw_setup *setup = PW_NEW(&p->arena, pw_setup);
    if (!setup || uv_mutex_init(&setup->mutex) != 0) {
        return PW_NOMEM;
    }
    p->setup = setup;
    return PW_OK;
}

static void free_tool(added_tool *added)
{
    if (added->tool.ctx_free) {
        added->tool.ctx_free(added->tool.ctx);
    }
    pw_inside_unref(added->inside);
    added->allocator->resize(added->allocator->ctx, added, sizeof *added, 0);
}

void pw_setup_free(pawl *p)
{
    if (!p->setup) {
        return;
    }
    added_tool *next;
    for (added_tool *added = p->setup->first; added; added = next) {
        next = added->next;
        if (!added->taken) {
            free_tool(added);
        }
    }
    uv_mutex_destroy(&p->setup->mutex);
    p->setup = NULL;
}

/* --- Tools --- */

static int32_t run_marked(pawl_call *call, void *ctx)
{
    added_tool *added = ctx;
    pw_inside *inside = pw_inside_ref(added->inside);
    pw_inside_mark mark;
    pw_inside_enter(inside, &mark);
    int32_t code = added->tool.run(call, added->tool.ctx);
    pw_inside_leave(inside, &mark);
    pw_inside_unref(inside);
    return code;
}

static void free_marked(void *ctx)
{
    free_tool(ctx);
}

static pw_status check_tool(pawl *p, const pawl_tool *tool, pw_error *error)
{
    if (!tool || tool->size < offsetof(pawl_tool, ctx) || tool->size > 4096) {
        return PW_FAIL(error, PW_INVALID, "tool.size: set it to sizeof(pawl_tool)");
    }
    if (tool->name.len == 0 || tool->name.len > 64 || !tool->run) {
        return PW_FAIL(error, PW_INVALID,
                       "tool: a name of 1 to 64 characters and a run function are needed");
    }
    if (tool->effects < PAWL_NONE || tool->effects > PAWL_TRANSACTIONAL || tool->limit_ms < 0) {
        return PW_FAIL(error, PW_INVALID, "tool %.*s: effects or limit_ms out of range",
                       PW_STR_ARG(str_of(tool->name)));
    }
    if (!pw_utf8_clean(str_of(tool->description))) {
        return PW_FAIL(error, PW_INVALID,
                       "tool %.*s: description: expected valid UTF-8 without NUL",
                       PW_STR_ARG(str_of(tool->name)));
    }
    for (const added_tool *added = p->setup->first; added; added = added->next) {
        if (pw_str_equal(str_of(added->tool.name), str_of(tool->name))) {
            return PW_FAIL(error, PW_CONFLICT, "a tool %.*s was added before",
                           PW_STR_ARG(str_of(tool->name)));
        }
    }
    if (tool->schema_json.len == 0) {
        return PW_OK;
    }
    pw_arena scratch;
    pw_arena_init(&scratch, p->allocator, 0, 0);
    const pw_json *schema = NULL;
    pw_status status =
        pw_json_parse(&scratch, str_of(tool->schema_json), PW_JSON_UNIQUE_KEYS, &schema, error);
    status = status == PW_OK ? pw_schema_check(schema, &scratch, error) : status;
    pw_arena_free(&scratch);
    return status;
}

static pw_status copy_str(pw_arena *arena, pawl_str *s)
{
    pw_str copy;
    PW_TRY(pw_arena_dup(arena, str_of(*s), &copy));
    *s = (pawl_str){copy.ptr, copy.len};
    return PW_OK;
}

static pw_status add_tool(pawl *p, const pawl_tool *tool, pw_error *error)
{
    if (p->setup->fixed) {
        return PW_FAIL(error, PW_MISUSE, "tools are fixed once pawl_start was called");
    }
    PW_TRY(check_tool(p, tool, error));
    added_tool *added = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof *added);
    if (!added) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *added = (added_tool){.allocator = p->allocator};
    memcpy(&added->tool, tool, tool->size < sizeof added->tool ? tool->size : sizeof added->tool);
    if (copy_str(&p->arena, &added->tool.name) != PW_OK ||
        copy_str(&p->arena, &added->tool.description) != PW_OK ||
        copy_str(&p->arena, &added->tool.schema_json) != PW_OK) {
        p->allocator->resize(p->allocator->ctx, added, sizeof *added, 0);
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    added->inside = pw_inside_ref(p->inside);
    if (p->setup->last) {
        p->setup->last->next = added;
    } else {
        p->setup->first = added;
    }
    p->setup->last = added;
    return PW_OK;
}

int32_t pawl_tool_add(pawl *p, const pawl_tool *tool, pawl_error *error)
{
    if (!p) {
        return PW_FAIL((pw_error *)error, PW_MISUSE, "no handle");
    }
    uv_mutex_lock(&p->setup->mutex);
    pw_status status = add_tool(p, tool, (pw_error *)error);
    uv_mutex_unlock(&p->setup->mutex);
    return status;
}

pw_status pw_setup_give_tools(pawl *p, pw_tool_runner *runner, pw_error *error)
{
    pw_status status = PW_OK;
    uv_mutex_lock(&p->setup->mutex);
    for (added_tool *added = p->setup->first; added && status == PW_OK; added = added->next) {
        pawl_tool marked = added->tool;
        marked.size = sizeof marked;
        marked.run = run_marked;
        marked.ctx = added;
        marked.ctx_free = free_marked;
        status = pw_tool_native_add(runner, &marked, error);
        added->taken = status == PW_OK;
    }
    if (status == PW_OK) { /* they may be freed by the runner from here on */
        p->setup->first = p->setup->last = NULL;
    }
    uv_mutex_unlock(&p->setup->mutex);
    return status;
}

/* --- Agents --- */

const pw_agent *pw_agent_find(const pawl *p, pw_str name)
{
    const pw_agent *const *agents = p->agents;
    for (size_t i = 0; i < p->agent_count; i++) {
        if (pw_str_equal(agents[i]->name, name)) {
            return agents[i];
        }
    }
    return NULL;
}

const pw_agent *pw_agent_default(const pawl *p)
{
    const pw_agent *agent = pw_agent_find(p, PW_STR("default"));
    return agent || p->agent_count == 0 ? agent : p->agents[0];
}

/* Puts who it is about before an error's message. */
static pw_status about(const pw_agent *agent, pw_status status, pw_error *error)
{
    if (status == PW_OK || !error) {
        return status;
    }
    char before[sizeof error->message];
    memcpy(before, error->message, sizeof before);
    return PW_FAIL(error, status, "agent %.*s: %s", PW_STR_ARG(agent->name), before);
}

/* The list with `agents` added at its end, or with equal names replaced. */
static pw_status put_agents(pawl *p, const pw_agent *const *agents, size_t count, bool replace,
                            pw_error *error)
{
    const pw_agent **list = PW_NEW_ARRAY(&p->arena, const pw_agent *, p->agent_count + count);
    if (!list) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    size_t total = 0;
    for (size_t i = 0; i < p->agent_count && !replace; i++) {
        list[total++] = p->agents[i];
    }
    for (size_t i = 0; i < count; i++) {
        if (!replace && pw_agent_find(p, agents[i]->name)) {
            return PW_FAIL(error, PW_CONFLICT, "an agent %.*s was added before",
                           PW_STR_ARG(agents[i]->name));
        }
        list[total++] = agents[i];
    }
    p->agents = list;
    p->agent_count = total;
    return PW_OK;
}

pw_status pw_setup_load(pawl *p, pw_str directory, pw_error *error)
{
    const pw_agent *const *agents = NULL;
    size_t count = 0;
    uv_mutex_lock(&p->setup->mutex);
    pw_status status = pw_agents_load(directory, &p->arena, &agents, &count, NULL, error);
    status = status == PW_OK ? put_agents(p, agents, count, false, error) : status;
    uv_mutex_unlock(&p->setup->mutex);
    return status;
}

static pw_status add_agent(pawl *p, pw_str name, pw_str json, pw_error *error)
{
    if (p->setup->fixed) {
        return PW_FAIL(error, PW_MISUSE, "agents are fixed once pawl_start was called");
    }
    if (name.len == 0 || name.len > 200 || !pw_utf8_clean(name) || pw_utf8_has_control(name)) {
        return PW_FAIL(error, PW_INVALID,
                       "name: 1 to 200 bytes of text without control characters");
    }
    pw_str owned_name, text;
    const pw_agent *agent = NULL;
    if (pw_arena_dup(&p->arena, name, &owned_name) != PW_OK ||
        pw_arena_dup(&p->arena, json, &text) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    PW_TRY(pw_agent_from_json(owned_name, text, &p->arena, &agent, error));
    if (!pw_str_equal(agent->name, name)) {
        return PW_FAIL(error, PW_INVALID,
                       "name: the definition names another agent than it is added as");
    }
    const pw_agent *const list[] = {agent};
    return put_agents(p, list, 1, false, error);
}

int32_t pawl_agent_add(pawl *p, pawl_str name, pawl_str definition_json, pawl_error *error)
{
    if (!p) {
        return PW_FAIL((pw_error *)error, PW_MISUSE, "no handle");
    }
    uv_mutex_lock(&p->setup->mutex);
    pw_status status = add_agent(p, str_of(name), str_of(definition_json), (pw_error *)error);
    uv_mutex_unlock(&p->setup->mutex);
    return status;
}

/* --- Completing native tools at the start --- */

static const pawl_tool *native_of(const pawl *p, pw_str name)
{
    for (const added_tool *added = p->setup->first; added; added = added->next) {
        if (pw_str_equal(str_of(added->tool.name), name)) {
            return &added->tool;
        }
    }
    return NULL;
}

static bool is_native(const pw_json *tool)
{
    return pw_str_is(pw_json_text(pw_json_get(tool, "kind")), "native");
}

/* What the agent does not say of a native tool, the program that added it says. */
static void write_tool(pawl *p, pw_json_writer *w, const pw_json *tool)
{
    const pawl_tool *native =
        is_native(tool) ? native_of(p, pw_json_text(pw_json_get(tool, "name"))) : NULL;
    if (!native) {
        pw_json_raw(w, tool->raw);
        return;
    }
    pw_json_object(w);
    for (const pw_json *member = tool->child; member; member = member->next) {
        pw_json_key_str(w, member->key);
        pw_json_raw(w, member->raw);
    }
    if (!pw_json_get(tool, "description") && native->description.len > 0) {
        pw_json_put_str(w, "description", str_of(native->description));
    }
    if (!pw_json_get(tool, "effects")) {
        pw_json_put_str(w, "effects",
                        pw_str_from(pw_effects_name(
                            native->effects == PAWL_NONE         ? PW_EFFECTS_NONE
                            : native->effects == PAWL_IDEMPOTENT ? PW_EFFECTS_IDEMPOTENT
                            : native->effects == PAWL_ONCE       ? PW_EFFECTS_ONCE
                                                                 : PW_EFFECTS_TRANSACTIONAL)));
    }
    if (!pw_json_get(tool, "input") && native->schema_json.len > 0) {
        pw_json_put_raw(w, "input", str_of(native->schema_json));
    }
    if (!pw_json_get(tool, "limit_ms") && native->limit_ms > 0) {
        pw_json_put_i64(w, "limit_ms", native->limit_ms);
    }
    pw_json_object_end(w);
}

static bool has_native(const pw_definition *definition)
{
    for (size_t i = 0; i < definition->tool_count; i++) {
        if (pw_str_is(definition->tools[i].kind, "native")) {
            return true;
        }
    }
    return false;
}

static pw_status complete(pawl *p, const pw_agent *agent, const pw_agent **ret, pw_error *error)
{
    *ret = agent;
    if (!has_native(agent->definition)) {
        return PW_OK;
    }
    for (size_t i = 0; i < agent->definition->tool_count; i++) {
        const pw_tool_declaration *tool = &agent->definition->tools[i];
        if (pw_str_is(tool->kind, "native") && !native_of(p, tool->name)) {
            return PW_FAIL(error, PW_INVALID,
                           "agent %.*s: tool %.*s: no native tool of that name was added",
                           PW_STR_ARG(agent->name), PW_STR_ARG(tool->name));
        }
    }
    pw_buffer text;
    pw_buffer_init_arena(&text, &p->arena, (size_t)16 << 20);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    for (const pw_json *member = agent->definition->json->child; member; member = member->next) {
        pw_json_key_str(&w, member->key);
        if (!pw_str_is(member->key, "tools")) {
            pw_json_raw(&w, member->raw);
            continue;
        }
        pw_json_array(&w);
        for (const pw_json *tool = member->child; tool; tool = tool->next) {
            write_tool(p, &w, tool);
        }
        pw_json_array_end(&w);
    }
    pw_json_object_end(&w);
    pw_agent *whole = PW_NEW(&p->arena, pw_agent);
    if (!whole || text.failed != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *whole = *agent;
    whole->json = pw_buffer_str(&text);
    PW_TRY(about(agent, pw_definition_parse(&p->arena, whole->json, &whole->definition, error),
                 error));
    *ret = whole;
    return PW_OK;
}

static pw_status fix(pawl *p, pw_error *error)
{
    if (p->setup->fixed) {
        return PW_FAIL(error, PW_MISUSE, "pawl_start was called before");
    }
    const pw_agent **agents = PW_NEW_ARRAY(&p->arena, const pw_agent *, p->agent_count + 1);
    if (!agents) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < p->agent_count; i++) {
        PW_TRY(complete(p, p->agents[i], &agents[i], error));
    }
    PW_TRY(put_agents(p, agents, p->agent_count, true, error));
    p->setup->fixed = true;
    return PW_OK;
}

pw_status pw_setup_fix(pawl *p, pw_error *error)
{
    uv_mutex_lock(&p->setup->mutex);
    pw_status status = fix(p, error);
    uv_mutex_unlock(&p->setup->mutex);
    return status;
}
