/*
 * Loading agents: read, check against the published schema, complete, check again with those who
 * will use it (definition, provider, tools). Each check goes on as far as it can, so that one look
 * shows all problems.
 */
#include <dirent.h>
#include <errno.h>

#include "agent/agent_inner.h"
#include "base/format.h"
#include "base/schema.h"
#include "model/model.h"
#include "tool/tool.h"

#define AGENTS_MAX ((size_t)1000)

typedef struct loading {
    pw_arena *arena;
    pw_folder folder;
    pw_problems problems;
    pw_source yaml;
    const pw_json *schema;
    pw_str name; /* of the folder */
} loading;

/* --- Against the schema ----------------------------------------------------------------------- */

/* Keys and kinds that are designed but not built: the message should not be "unknown key". */
static const char *const later_keys[] = {"surfaces", "schedules", NULL};
static const char *const later_tool_keys[] = {"approval", "trust_annotations", NULL};
static const char *const later_kinds[] = {"mcp", "agent", NULL};

static bool is_among(const char *const *list, pw_str text)
{
    while (*list != NULL && !pw_str_is(text, *list)) {
        list++;
    }
    return *list != NULL;
}

static void add(loading *l, const pw_json *at, const char *text)
{
    const pw_str path = pw_source_path(&l->yaml, at, l->arena);
    pw_problem_add(&l->problems, PW_INVALID, l->yaml.path, pw_source_line(&l->yaml, at), "%.*s%s%s",
                   PW_STR_ARG(path), path.len > 0 ? ": " : "", text);
}

static bool find_later(loading *l, const pw_json *object, const char *const *keys)
{
    bool found = false;
    const pw_json *member = pw_json_is(object, PW_JSON_OBJECT) ? object->child : NULL;
    for (; member != NULL; member = member->next) {
        if (is_among(keys, member->key)) {
            add(l, member, "is not supported in this version");
            found = true;
        }
    }
    return found;
}

static bool apply(loading *l, const pw_json *schema, const pw_json *value)
{
    const pw_json *at = value;
    pw_error error = {0};
    const pw_status status = pw_schema_apply(schema, value, l->arena, &at, &error);
    if (status == PW_NOMEM) {
        l->problems.no_memory = true;
    } else if (status != PW_OK) {
        const char *text = strstr(error.message, ": "); /* our own path is nicer than its pointer */
        add(l, at != NULL ? at : value, text != NULL ? text + 2 : error.message);
    }
    return status == PW_OK;
}

static void check_tool(loading *l, const pw_json *schema, const pw_json *tool)
{
    const pw_json *kind = pw_json_get(tool, "kind");
    bool later = find_later(l, tool, later_tool_keys);
    if (pw_json_is(kind, PW_JSON_STRING) && is_among(later_kinds, kind->text)) {
        pw_problem_add(&l->problems, PW_INVALID, l->yaml.path, pw_source_line(&l->yaml, kind),
                       "%.*s: tools of kind %.*s are not supported in this version",
                       PW_STR_ARG(pw_source_path(&l->yaml, kind, l->arena)),
                       PW_STR_ARG(kind->text));
        later = true;
    }
    if (!later) {
        (void)apply(l, schema, tool);
    }
}

/* Member by member, as an application of a schema ends with its first fault. */
static void check_schema(loading *l)
{
    const pw_json *root = l->yaml.root;
    const pw_json *properties = pw_json_get(l->schema, "properties");
    if (!pw_json_is(root, PW_JSON_OBJECT)) {
        (void)apply(l, l->schema, root);
        return;
    }
    for (const pw_json *member = root->child; member != NULL; member = member->next) {
        const pw_json *schema = pw_json_get_str(properties, member->key);
        if (is_among(later_keys, member->key)) {
            add(l, member, "is not supported in this version");
        } else if (schema == NULL) {
            add(l, member, "there is no such key");
        } else if (pw_str_is(member->key, "tools") && pw_json_is(member, PW_JSON_ARRAY)) {
            const pw_json *items = pw_json_get(schema, "items");
            for (const pw_json *tool = member->child; tool != NULL; tool = tool->next) {
                check_tool(l, items, tool);
            }
        } else {
            (void)apply(l, schema, member);
        }
    }
    if (pw_problems_count(&l->problems) == 0) {
        (void)apply(l, l->schema, root); /* what only the whole shows: a key that is missing */
    }
}

/* --- With those who will use it --------------------------------------------------------------- */

static void add_found(loading *l, const pw_source *source, const pw_json *from, pw_status status,
                      const char *message)
{
    const pw_json *at = pw_source_find(from, pw_str_from(message));
    pw_problem_add(&l->problems, status == PW_UNSUPPORTED ? PW_INVALID : status, source->path,
                   pw_source_line(source, at), "%s", message);
}

/* What a check says of "model." is said of the model that was checked. */
static void add_of_model(loading *l, const char *where, pw_status status, const char *message)
{
    static const char begins[] = "model.";
    char text[sizeof((pw_error *)0)->message + 48];
    const bool placed = strncmp(message, begins, sizeof begins - 1) == 0;
    (void)pw_format(text, sizeof text, "%s%s", placed ? where : "",
                    placed ? message + sizeof begins - 1 : message);
    add_found(l, &l->yaml, l->yaml.root, status, text);
}

static void add_no_provider(loading *l, const char *where, pw_str provider)
{
    pw_buffer names;
    pw_buffer_init_arena(&names, l->arena, 400);
    for (const char *const *name = pw_provider_names(); *name != NULL; name++) {
        (void)pw_buffer_add(&names, names.len > 0 ? PW_STR(", ") : PW_STR(""));
        (void)pw_buffer_add(&names, pw_str_from(*name));
    }
    char path[64];
    (void)pw_format(path, sizeof path, "%sprovider", where);
    const pw_json *at = pw_source_find(l->yaml.root, pw_str_from(path));
    pw_problem_add(&l->problems, PW_INVALID, l->yaml.path, pw_source_line(&l->yaml, at),
                   "%s: expected one of %.*s, found \"%.*s\"", path,
                   PW_STR_ARG(pw_buffer_str(&names)), PW_STR_ARG(provider));
}

static void check_model(loading *l, const pw_model_choice *model, const char *where,
                        const pw_source *script)
{
    const pw_provider *provider = pw_provider_find(model->provider);
    if (provider == NULL) {
        add_no_provider(l, where, model->provider);
        return;
    }
    static const char in_script[] = "model.script[";
    pw_error error = {0};
    const pw_status status = provider->check(model->options, l->arena, &error);
    if (status != PW_OK && script->root != NULL &&
        strncmp(error.message, in_script, sizeof in_script - 1) == 0) {
        add_found(l, script, script->root, status, error.message + sizeof in_script - 2);
    } else if (status != PW_OK) {
        add_of_model(l, where, status, error.message);
    }
}

static void check_models(loading *l, const pw_definition *definition, const pw_source *scripts)
{
    for (size_t i = 0; i < definition->model_count; i++) {
        char where[40] = "model.";
        if (i > 0) {
            (void)pw_format(where, sizeof where, "model.fallback[%zu].", i - 1);
        }
        check_model(l, &definition->models[i], where, &scripts[i]);
    }
}

static void check_tools(loading *l, const pw_definition *definition)
{
    const pw_json *tools = pw_json_get(l->yaml.root, "tools");
    for (size_t i = 0; i < definition->tool_count; i++) {
        pw_error error = {0};
        const pw_status status = pw_tool_declaration_check(&definition->tools[i], &error);
        if (status != PW_OK) {
            const pw_json *tool = pw_json_at(tools, i);
            const pw_json *at = pw_source_find(tool, pw_str_from(error.message));
            const pw_str path = pw_source_path(&l->yaml, tool, l->arena);
            pw_problem_add(&l->problems, status == PW_UNSUPPORTED ? PW_INVALID : status,
                           l->yaml.path, pw_source_line(&l->yaml, at), "%.*s%s%s", PW_STR_ARG(path),
                           path.len > 0 ? "." : "", error.message);
        }
    }
}

static void check_users(loading *l, const pw_completing *completing, pw_agent *agent)
{
    pw_error error = {0};
    const pw_status status = pw_definition_parse(l->arena, agent->json, &agent->definition, &error);
    if (status != PW_OK) {
        add_found(l, &l->yaml, l->yaml.root, status, error.message);
        return;
    }
    agent->name = agent->definition->name;
    check_models(l, agent->definition, completing->scripts);
    check_tools(l, agent->definition);
}

/* --- One agent -------------------------------------------------------------------------------- */

static bool good_name(pw_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        const char c = name.ptr[i];
        const bool letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (i == 0 || (c != '_' && c != '.' && c != '-'))) {
            return false;
        }
    }
    return name.len >= 1 && name.len <= 64;
}

static void check_name(loading *l)
{
    const pw_json *given = pw_json_get(l->yaml.root, "name");
    const pw_str name = given != NULL ? pw_json_text(given) : l->name;
    if (!good_name(name)) {
        pw_problem_add(&l->problems, PW_INVALID, l->yaml.path, pw_source_line(&l->yaml, given),
                       "name: expected up to 64 letters, digits, ., _ or -, found \"%.*s\"%s",
                       PW_STR_ARG(name), given != NULL ? "" : ", the folder's name");
    }
}

static pw_status finish(loading *l, pw_completing *completing, pw_agent *agent,
                        const pw_agent **ret, pw_buffer *report, pw_error *error)
{
    if (pw_json_is(l->yaml.root, PW_JSON_OBJECT)) {
        check_name(l);
        completing->arena = l->arena;
        completing->problems = &l->problems;
        completing->source = &l->yaml;
        completing->name = good_name(l->name)
                               ? l->name
                               : PW_STR("agent"); /* a bad one was told: it may not even be text */
        if (pw_agent_complete(completing, &agent->json) != PW_OK) {
            l->problems.no_memory = true;
        }
    }
    if (pw_problems_count(&l->problems) == 0 && !l->problems.no_memory) {
        check_users(l, completing, agent);
    }
    PW_TRY(pw_problems_end(&l->problems, report, error));
    *ret = agent;
    return PW_OK;
}

static pw_status tell(pw_buffer *report, const pw_error *error, pw_status status)
{
    if (report != NULL && error != NULL && status != PW_NOMEM) {
        (void)pw_buffer_format(report, "%s\n", error->message);
    }
    return status;
}

static pw_status read_yaml(loading *l, pw_error *error)
{
    const pw_str name = PW_STR("agent.yaml");
    pw_str text;
    pw_error why = {0};
    l->yaml.path = pw_folder_shown(&l->folder, name);
    pw_status status = pw_folder_read(&l->folder, name, &text, &why);
    if (status != PW_OK) {
        return PW_FAIL(error, status == PW_FORBIDDEN ? PW_INVALID : status, "%.*s: %s",
                       PW_STR_ARG(l->yaml.path), why.message);
    }
    PW_TRY(pw_yaml_to_json(text, l->yaml.path, l->arena, &l->yaml.json, &l->yaml.lines, error));
    status = pw_json_parse(l->arena, l->yaml.json, 0, &l->yaml.root, error);
    if (status == PW_OK) {
        status = pw_json_parse(l->arena, pw_str_from(pw_agent_schema_json), 0, &l->schema, error);
        PW_ASSERT(status == PW_OK || status == PW_NOMEM);
    }
    return status;
}

static pw_str last_part(pw_str path)
{
    size_t at = path.len;
    while (at > 0 && path.ptr[at - 1] != '/') {
        at--;
    }
    return pw_str_slice(path, at, path.len);
}

static pw_status load(pw_str directory, pw_arena *arena, const pw_agent **ret, pw_buffer *report,
                      pw_error *error)
{
    loading *l = PW_NEW(arena, loading);
    pw_agent *agent = PW_NEW(arena, pw_agent);
    if (l == NULL || agent == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    l->arena = arena;
    pw_problems_init(&l->problems, arena);
    pw_status status = pw_folder_open(&l->folder, directory, arena, error);
    if (status == PW_OK) {
        agent->directory = pw_str_from(l->folder.real);
        l->name = last_part(agent->directory);
        status = read_yaml(l, error);
    }
    if (status != PW_OK) {
        return tell(report, error, status);
    }
    check_schema(l);
    pw_completing completing = {.folder = &l->folder};
    return finish(l, &completing, agent, ret, report, error);
}

pw_status pw_agent_load(pw_str directory, pw_arena *arena, const pw_agent **ret, pw_buffer *report,
                        pw_error *error)
{
    pw_error own;
    return load(directory, arena, ret, report, error != NULL ? error : &own);
}

pw_status pw_agent_from_json(pw_str name, pw_str json, pw_arena *arena, const pw_agent **ret,
                             pw_error *error)
{
    loading *l = PW_NEW(arena, loading);
    pw_agent *agent = PW_NEW(arena, pw_agent);
    if (l == NULL || agent == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    l->arena = arena;
    l->name = name;
    l->yaml.path = name;
    l->yaml.json = json;
    pw_problems_init(&l->problems, arena);
    PW_TRY(pw_json_parse(arena, json, PW_JSON_UNIQUE_KEYS, &l->yaml.root, error));
    if (!pw_json_is(l->yaml.root, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "expected a definition, an object");
    }
    pw_completing completing = {.folder = NULL};
    return finish(l, &completing, agent, ret, NULL, error);
}

/* --- A folder of them ------------------------------------------------------------------------- */

typedef struct names {
    pw_buffer list; /* of pw_str */
} names;

static size_t name_count(const names *n)
{
    return n->list.len / sizeof(pw_str);
}

static pw_str *name_list(const names *n)
{
    return (pw_str *)(void *)n->list.ptr;
}

static pw_status take_name(names *n, pw_str directory, pw_str name, pw_arena *arena)
{
    if (name.ptr[0] == '.' || !pw_folder_has(directory, name, PW_STR("agent.yaml"))) {
        return PW_OK;
    }
    pw_str copied;
    PW_TRY(pw_arena_dup(arena, name, &copied));
    PW_TRY(pw_buffer_add(&n->list, (pw_str){(const char *)&copied, sizeof copied}));
    pw_str *list = name_list(n);
    size_t at = name_count(n) - 1;
    while (at > 0 && pw_str_compare(list[at - 1], copied) > 0) {
        list[at] = list[at - 1];
        at--;
    }
    list[at] = copied;
    return PW_OK;
}

static pw_status list_folders(pw_str directory, pw_arena *arena, names *n, pw_error *error)
{
    pw_folder folder;
    PW_TRY(pw_folder_open(&folder, directory, arena, error));
    DIR *entries = opendir(folder.real);
    if (entries == NULL) {
        char text[128];
        const int code = errno;
        return PW_FAIL(error, code == ENOMEM ? PW_NOMEM : PW_IO, "%.*s: %s", PW_STR_ARG(directory),
                       strerror_r(code, text, sizeof text));
    }
    pw_status status = PW_OK;
    const struct dirent *entry = NULL;
    errno = 0;
    while (status == PW_OK && (entry = readdir(entries)) != NULL) {
        status = take_name(n, directory, pw_str_from(entry->d_name), arena);
        errno = 0;
    }
    if (status == PW_OK && errno != 0) {
        status = PW_IO;
    }
    (void)closedir(entries);
    if (status == PW_TOO_LARGE) {
        return PW_FAIL(error, status, "%.*s: more than %zu agents", PW_STR_ARG(directory),
                       AGENTS_MAX);
    }
    return status == PW_OK ? PW_OK
                           : PW_FAIL(error, status, "%.*s: cannot be read", PW_STR_ARG(directory));
}

static pw_status check_unique(const pw_agent *const *agents, size_t count, pw_buffer *report,
                              pw_error *error)
{
    for (size_t i = 1; i < count; i++) {
        if (pw_str_equal(agents[i - 1]->name, agents[i]->name)) {
            const pw_status status =
                PW_FAIL(error, PW_INVALID, "%.*s/agent.yaml: name: \"%.*s\" is the agent of %.*s",
                        PW_STR_ARG(agents[i]->directory), PW_STR_ARG(agents[i]->name),
                        PW_STR_ARG(agents[i - 1]->directory));
            return tell(report, error, status);
        }
    }
    return PW_OK;
}

static void sort_in(const pw_agent **agents, size_t count)
{
    for (size_t at = count - 1; at > 0; at--) {
        const pw_agent *before = agents[at - 1];
        if (pw_str_compare(before->name, agents[at]->name) <= 0) {
            return;
        }
        agents[at - 1] = agents[at];
        agents[at] = before;
    }
}

static pw_status load_all(pw_str directory, const names *n, pw_arena *arena,
                          const pw_agent **agents, pw_buffer *report, pw_error *error)
{
    pw_status first = PW_OK;
    size_t count = 0;
    for (size_t i = 0; i < name_count(n); i++) {
        pw_folder folder = {.arena = arena, .shown = directory};
        const pw_str path = pw_folder_shown(&folder, name_list(n)[i]);
        pw_error own = {0};
        const pw_status status = load(path, arena, &agents[count], report, &own);
        if (status == PW_OK) {
            sort_in(agents, ++count);
        } else if (first == PW_OK) {
            first = status;
            *error = own;
        }
    }
    return first != PW_OK ? first : check_unique(agents, count, report, error);
}

pw_status pw_agents_load(pw_str directory, pw_arena *arena, const pw_agent *const **ret,
                         size_t *ret_count, pw_buffer *report, pw_error *error)
{
    pw_error own;
    error = error != NULL ? error : &own;
    names n;
    pw_buffer_init_arena(&n.list, arena, AGENTS_MAX * sizeof(pw_str));
    const bool one = pw_folder_has(directory, PW_STR_NONE, PW_STR("agent.yaml"));
    pw_status status = one ? PW_OK : list_folders(directory, arena, &n, error);
    if (status != PW_OK) {
        return tell(report, error, status);
    }
    const size_t count = one ? 1 : name_count(&n);
    const pw_agent **agents = PW_NEW_ARRAY(arena, const pw_agent *, count);
    if (agents == NULL) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (count == 0) {
        status = PW_FAIL(error, PW_NOT_FOUND, "%.*s: no folder with an agent.yaml",
                         PW_STR_ARG(directory));
        return tell(report, error, status);
    }
    PW_TRY(one ? load(directory, arena, &agents[0], report, error)
               : load_all(directory, &n, arena, agents, report, error));
    *ret = agents;
    *ret_count = count;
    return PW_OK;
}
