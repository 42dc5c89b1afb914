/* Agents' folders: what a right one becomes, and what a person reads of a wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "base/heap.h"
#include "base/schema.h"
#include "support/failing_allocator.h"

static char top[64]; /* a fresh folder for each test */

static int make_top(void **state)
{
    (void)state;
    strcpy(top, "/tmp/pawl-agent-XXXXXX");
    return mkdtemp(top) == NULL;
}

static int drop_top(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", top);
    return system(command);
}

static void put_file(const char *name, const char *text, size_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", top, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *name, const char *text)
{
    put_file(name, text, strlen(text));
}

static void put_folder(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", top, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void drop(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", top, name);
    (void)unlink(path);
}

#define MODEL "model: { provider: scripted, name: x, script: [] }\n"

/* What is told of the folder, without its path. */
static void check_told(const char *expected)
{
    pw_arena arena;
    pw_buffer report;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_buffer_init(&report, &pw_heap, 1 << 16);
    const pw_agent *agent = NULL;
    pw_error error = {0};
    const pw_status status = pw_agent_load(pw_str_from(top), &arena, &agent, &report, &error);
    char text[8192] = "";
    size_t len = 0;
    for (size_t i = 0; i < report.len;) {
        if (strncmp(report.ptr + i, top, strlen(top)) == 0) {
            i += strlen(top) + 1;
            continue;
        }
        text[len++] = report.ptr[i++];
    }
    text[len] = '\0';
    assert_string_equal(text, expected);
    assert_int_equal(status == PW_OK, expected[0] == '\0');
    if (status != PW_OK) { /* the error is the first line */
        const size_t first = strcspn(report.ptr, "\n");
        const size_t shown = strlen(error.message);
        assert_true(shown <= first);
        assert_memory_equal(error.message, report.ptr, shown);
    }
    pw_buffer_free(&report);
    pw_arena_free(&arena);
}

static void test_wrong_agents_are_told_by_file_line_and_key(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *told;
    } rows[] = {
        {MODEL, ""},
        {"", "agent.yaml:1: there is nothing in this file\n"},
        {"[1]", "agent.yaml:1: expected an object, found [1]\n"},
        {"name: a\n", "agent.yaml:1: the property \"model\" is missing\n"},
        {MODEL "budget:\n  max_iterations: many\n",
         "agent.yaml:3: budget.max_iterations: expected an integer or null, found \"many\"\n"},
        {MODEL "budget: { max_iterations: 0 }\n",
         "agent.yaml:2: budget.max_iterations: expected at least 1, found 0\n"},
        {MODEL "budget:\n  deadline: 10 minutes\n",
         "agent.yaml:3: budget.deadline: expected a duration such as 300ms, 10s or 5m, more than "
         "0, "
         "found \"10 minutes\"\n"},
        {MODEL "budget: { deadline: 0s }\n", "agent.yaml:2: budget.deadline: expected a duration "
                                             "such as 300ms, 10s or 5m, more than 0, "
                                             "found \"0s\"\n"},
        {MODEL "debounce: 5\n", "agent.yaml:2: debounce: expected a string, found 5\n"},
        {MODEL "debounce: soon\n",
         "agent.yaml:2: debounce: expected a duration such as 300ms, 10s or 5m, found \"soon\"\n"},
        {MODEL "tols: []\n", "agent.yaml:2: tols: there is no such key\n"},
        {MODEL "surfaces: {}\nschedules: []\n",
         "agent.yaml:2: surfaces: is not supported in this version\n"
         "agent.yaml:3: schedules: is not supported in this version\n"},
        {"model: { provider: scripted, name: x, script: [], fallback: y }\n",
         "agent.yaml:1: model.fallback: expected an array, found \"y\"\n"},
        {"model:\n  provider: scripted\n  name: x\n  script: []\n  fallback:\n"
         "    - { name: y, script: [] }\n    - { name: z, scrpt: [] }\n",
         "agent.yaml:7: model.fallback[1].scrpt: there is no such option\n"},
        {"model:\n  provider: scripted\n  name: x\n  script: []\n  fallback:\n"
         "    - { provider: nobody, name: y }\n    - { name: z }\n",
         "agent.yaml:6: model.fallback[0].provider: expected one of anthropic, openai, "
         "openai-chat, scripted, found "
         "\"nobody\"\nagent.yaml:7: model.fallback[1].script is missing\n"},
        {"model:\n  provider: scripted\n  name: x\n  script: []\n  fallback:\n"
         "    - name: y\n      script: []\n      idle_timeout: long\n",
         "agent.yaml:8: model.fallback[0].idle_timeout: expected a duration such as 300ms, 10s or "
         "5m, more than 0, found \"long\"\n"},
        {"model:\n  provider: scripted\n  name: x\n  script: []\n  fallback:\n"
         "    - { name: y, script: [], fallback: [] }\n",
         "agent.yaml:6: model.fallback[0].fallback is not known: list them one after another\n"},
        {"model: { provider: nobody, name: x }\n",
         "agent.yaml:1: model.provider: expected one of anthropic, openai, openai-chat, scripted, "
         "found \"nobody\"\n"},
        {"model: { provider: scripted, name: x }\n", "agent.yaml:1: model.script is missing\n"},
        {"model:\n  provider: scripted\n  name: x\n  script:\n    - text: a\n    - tekst: b\n",
         "agent.yaml:6: model.script[1].tekst: there is no such option\n"},
        {"name: a b\n" MODEL,
         "agent.yaml:1: name: expected up to 64 letters, digits, ., _ or -, found \"a b\"\n"},
        {"name: 5\n" MODEL, "agent.yaml:1: name: expected a string, found 5\n"},
        {MODEL "tools:\n  - name: a\n    kind: mcp\n    url: x\n  - name: b\n    kind: native\n"
               "    approval: { when: always }\n",
         "agent.yaml:4: tools[0].kind: tools of kind mcp are not supported in this version\n"
         "agent.yaml:8: tools[1].approval: is not supported in this version\n"},
        {MODEL "tools:\n  - { name: a, kind: shell }\n  - { kind: sql }\n  - 5\n",
         "agent.yaml:3: tools[0].kind: expected one of [\"native\", \"sql\", \"command\", "
         "\"http\"], found "
         "\"shell\"\n"
         "agent.yaml:4: tools[1]: the property \"name\" is missing\n"
         "agent.yaml:5: tools[2]: expected an object, found 5\n"},
        {MODEL "tools:\n  - name: a\n    kind: command\n    run: ./a\n",
         "agent.yaml:5: tools[0].run: expected an array, found \"./a\"\n"},
        {MODEL
         "tools:\n  - name: a\n    kind: command\n    effects: transactional\n    run: [./a]\n",
         "agent.yaml:5: tools[0].effects: expected none, idempotent or once for a tool of kind "
         "command, "
         "found transactional\n"},
        {MODEL "tools:\n  - name: a\n    kind: sql\n    run: [x]\n    sql: select 1\n",
         "agent.yaml:5: tools[0].run: not a key of a tool of kind sql\n"},
        {MODEL "tools:\n  - name: a\n    kind: sql\n    sql: select :x\n    input:\n      "
               "properties: { y: {} }\n",
         "agent.yaml:5: tools[0].sql: :x is not a property of `input`\n"},
        {MODEL "tools:\n  - { name: a, kind: native }\n  - { name: a, kind: native }\n",
         "agent.yaml:4: tools[1].name: an earlier tool is named \"a\" too\n"},
        {MODEL "tools:\n  - name: a\n    kind: native\n    input:\n      type: objekt\n",
         "agent.yaml:6: tools[0].input: schema /type: expected the name of a type or a list of "
         "them, found \"objekt\"\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: no.json }\n",
         "agent.yaml:3: tools[0].input: no.json is not in the agent's folder\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: /etc/passwd }\n",
         "agent.yaml:3: tools[0].input: /etc/passwd lies outside the agent's folder\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: ../../etc/passwd }\n",
         "agent.yaml:3: tools[0].input: ../../etc/passwd lies outside the agent's folder\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: link.json }\n",
         "agent.yaml:3: tools[0].input: link.json lies outside the agent's folder\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: . }\n",
         "agent.yaml:3: tools[0].input: . lies outside the agent's folder\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: big.json }\n",
         "agent.yaml:3: tools[0].input: big.json is larger than 1 MiB\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: broken.json }\n",
         "broken.json:3: JSON byte 13: expected a key, found '}'\n"},
        {MODEL "tools:\n  - { name: a, kind: native, input: wrong.json }\n",
         "wrong.json:3: schema /properties/x/type: expected the name of a type or a list of them, "
         "found 5\n"},
        {"model: { provider: scripted, name: x, script: script.yaml }\n",
         "script.yaml:3: [1].when.rol: there is no such option\n"},
        {"model: { provider: scripted, name: x, script: list.yaml }\n",
         "list.yaml:1: expected a list of rules\n"},
        {"model: { provider: scripted, name: x, script: bad.yaml }\n",
         "bad.yaml:2: the key \"a\" is repeated; it is on line 1 already\n"},
        {"budget: 5\nfoo: 1\n" MODEL "tools: {}\n",
         "agent.yaml:1: budget: expected an object, found 5\n"
         "agent.yaml:2: foo: there is no such key\n"
         "agent.yaml:4: tools: expected an array, found {}\n"},
    };
    char link_path[200];
    snprintf(link_path, sizeof link_path, "%s/link.json", top);
    assert_int_equal(symlink("/etc/passwd", link_path), 0);
    put("instructions.md", "Be kind.\n");
    put("broken.json", "{\n  \"a\": 1,\n }\n}");
    put("wrong.json", "{\"properties\": {\n  \"x\": {\n    \"type\": 5 } } }\n");
    put("script.yaml", "- text: a\n- when:\n    rol: user\n");
    put("list.yaml", "a: 1\n");
    put("bad.yaml", "a: 1\na: 2\n");
    static char big[(1 << 20) + 1];
    memset(big, ' ', sizeof big);
    put_file("big.json", big, sizeof big);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("agent.yaml", rows[i].yaml);
        check_told(rows[i].told);
    }
}

static void test_missing_and_unreadable_files(void **state)
{
    (void)state;
    check_told("agent.yaml: there is no such file\n");
    put("agent.yaml", MODEL);
    check_told("instructions.md: there is no such file; an agent needs its instructions\n");
    put_file("instructions.md", "one\ntwo \xFF\n", 10);
    check_told("instructions.md:2: expected text in UTF-8 without NUL\n");
    drop("instructions.md");
    put_folder("instructions.md");
    check_told("instructions.md: is not a file\n");
    drop("agent.yaml");
    char path[200];
    snprintf(path, sizeof path, "%s/agent.yaml", top);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening one must not wait */
    check_told("agent.yaml: is not a file\n");
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_agent *agent = NULL;
    pw_error error = {0};
    assert_int_equal(pw_agent_load(PW_STR("/nowhere/at all"), &arena, &agent, NULL, &error),
                     PW_NOT_FOUND);
    assert_string_equal(error.message, "/nowhere/at all: No such file or directory");
    assert_int_equal(pw_agent_load(PW_STR(""), &arena, &agent, NULL, &error), PW_INVALID);
    pw_arena_free(&arena);
}

static const char *const whole =
    "name: shop\n"
    "model: { provider: scripted, name: m, script: rules.yaml, first_token_timeout: 20s, "
    "idle_timeout: 1m }\n"
    "budget: { max_iterations: 5, max_cost_usd: 2.00, deadline: 10m, max_tokens: null }\n"
    "debounce: 300ms\n"
    "context: { messages: 200 }\n"
    "max_protocol_failures: 3\n"
    "tools:\n"
    "  - { name: order, kind: sql, sql: select 1, input: order.json, limit: 1500ms }\n"
    "  - { name: ship, kind: command, run: [./ship, 'yes', \"5\"], env: [A], result_limit: 1000, "
    "effects: none }\n";

static void put_whole(void)
{
    put("agent.yaml", whole);
    put("instructions.md", "Be \"kind\".\n");
    put("rules.yaml", "- when: { last: hi }\n  text: yes\n");
    put("order.json", " {\"type\": \"object\", \"n\": 1.50}\n");
}

static void test_C11_a_whole_agent_becomes_one_definition(void **state)
{
    (void)state;
    put_whole();
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_agent *agent = NULL;
    assert_int_equal(pw_agent_load(pw_str_from(top), &arena, &agent, NULL, NULL), PW_OK);
    static const char expected[] =
        "{\"budget\":{\"deadline_ms\":600000,\"max_cost_usd\":2.00,\"max_iterations\":5,\"max_"
        "tokens\":null},"
        "\"context\":{\"messages\":200},\"debounce_ms\":300,\"instructions\":\"Be "
        "\\\"kind\\\".\\n\","
        "\"max_protocol_failures\":3,\"model\":{\"first_token_timeout_ms\":20000,\"idle_timeout_"
        "ms\":60000,"
        "\"name\":\"m\",\"provider\":\"scripted\",\"script\":[{\"text\":\"yes\",\"when\":{\"last\":"
        "\"hi\"}}]},"
        "\"name\":\"shop\",\"tools\":[{\"effects\":\"transactional\",\"input\":{\"n\":1.50,"
        "\"type\":\"object\"},"
        "\"kind\":\"sql\",\"limit_ms\":1500,\"name\":\"order\",\"sql\":\"select 1\"},"
        "{\"effects\":\"none\",\"env\":[\"A\"],\"kind\":\"command\",\"name\":\"ship\",\"result_"
        "limit\":1000,"
        "\"run\":[\"./ship\",\"yes\",\"5\"]}]}";
    char text[2048];
    assert_true(agent->definition->text.len < sizeof text);
    memcpy(text, agent->definition->text.ptr, agent->definition->text.len);
    text[agent->definition->text.len] = '\0';
    assert_string_equal(text, expected);
    assert_true(pw_str_is(agent->name, "shop"));
    assert_string_equal(agent->directory.ptr, top);
    assert_int_equal(agent->definition->budget.deadline_ms, 600000);
    assert_int_equal(agent->definition->tools[0].effects, PW_EFFECTS_TRANSACTIONAL);
    pw_arena_free(&arena);
}

static void test_agents_of_a_folder_are_sorted_and_unique(void **state)
{
    (void)state;
    put_folder("b");
    put_folder("a");
    put_folder(".hidden");
    put_folder("empty");
    put("note.txt", "");
    put("b/agent.yaml", MODEL);
    put("b/instructions.md", "");
    put("a/agent.yaml", "name: zed\n" MODEL);
    put("a/instructions.md", "");
    put(".hidden/agent.yaml", "x: y");
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_agent *const *agents = NULL;
    size_t count = 0;
    pw_error error = {0};
    assert_int_equal(pw_agents_load(pw_str_from(top), &arena, &agents, &count, NULL, &error),
                     PW_OK);
    assert_int_equal(count, 2);
    assert_true(pw_str_is(agents[0]->name, "b"));
    assert_true(pw_str_is(agents[1]->name, "zed"));
    char path[100];
    snprintf(path, sizeof path, "%s/a", top);
    assert_int_equal(pw_agents_load(pw_str_from(path), &arena, &agents, &count, NULL, &error),
                     PW_OK);
    assert_int_equal(count, 1);
    put("a/agent.yaml", "name: b\n" MODEL);
    assert_int_equal(pw_agents_load(pw_str_from(top), &arena, &agents, &count, NULL, &error),
                     PW_INVALID);
    assert_non_null(strstr(error.message, "agent.yaml: name: \"b\" is the agent of "));
    pw_buffer report;
    pw_buffer_init(&report, &pw_heap, 1 << 16);
    put("a/agent.yaml", "x: 1\n" MODEL);
    put("b/agent.yaml", "y: 1\n" MODEL);
    assert_int_equal(pw_agents_load(pw_str_from(top), &arena, &agents, &count, &report, &error),
                     PW_INVALID);
    assert_non_null(strstr(error.message, "/a/agent.yaml:1: x: there is no such key"));
    assert_non_null(strstr(report.ptr, "/b/agent.yaml:1: y: there is no such key"));
    snprintf(path, sizeof path, "%s/empty", top);
    assert_int_equal(pw_agents_load(pw_str_from(path), &arena, &agents, &count, NULL, &error),
                     PW_NOT_FOUND);
    pw_buffer_free(&report);
    pw_arena_free(&arena);
}

static void test_a_definition_from_json_takes_the_same_keys(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_agent *agent = NULL;
    pw_error error = {0};
    assert_int_equal(
        pw_agent_from_json(
            PW_STR("bot"),
            PW_STR("{\"model\":{\"provider\":\"scripted\",\"name\":\"m\",\"script\":[]},"
                   "\"instructions\":\"x\",\"debounce\":\"1s\",\"tools\":[{\"name\":\"t\","
                   "\"kind\":\"native\",\"limit_ms\":7}]}"),
            &arena, &agent, &error),
        PW_OK);
    assert_true(pw_str_is(agent->name, "bot"));
    assert_int_equal(agent->definition->debounce_ms, 1000);
    assert_int_equal(agent->definition->tools[0].limit_ms, 7);
    assert_int_equal(pw_agent_from_json(PW_STR("bot"),
                                        PW_STR("{\"model\":{\"provider\":\"scripted\","
                                               "\"name\":\"m\",\"script\":\"f.yaml\"}}"),
                                        &arena, &agent, &error),
                     PW_INVALID);
    assert_string_equal(error.message, "bot: model.script: no files can be named here");
    assert_int_equal(pw_agent_from_json(PW_STR("bot"), PW_STR("[]"), &arena, &agent, &error),
                     PW_INVALID);
    assert_int_equal(pw_agent_from_json(PW_STR("bot"), PW_STR("{"), &arena, &agent, &error),
                     PW_INVALID);
    pw_arena_free(&arena);
}

static void test_the_published_schema_is_one_and_the_example_is_right(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *schema = NULL;
    pw_error error = {0};
    assert_int_equal(pw_json_parse(&arena, pw_str_from(pw_agent_schema_json), PW_JSON_UNIQUE_KEYS,
                                   &schema, &error),
                     PW_OK);
    assert_int_equal(pw_schema_check(schema, &arena, &error), PW_OK);
    const pw_agent *const *agents = NULL;
    size_t count = 0;
    const pw_status status =
        pw_agents_load(PW_STR(PAWL_TEST_ROOT "/examples"), &arena, &agents, &count, NULL, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(status, PW_OK);
    pw_arena_free(&arena);
}

static void test_every_failed_allocation_is_an_answer(void **state)
{
    (void)state;
    put_whole();
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        pw_arena arena;
        pw_arena_init(&arena, &memory.allocator, 64, 0);
        pw_test_allocator_fail(&memory, k, k % 2 == 0);
        const pw_agent *const *agents = NULL;
        size_t count = 0;
        pw_error error = {0};
        const pw_status status =
            pw_agents_load(pw_str_from(top), &arena, &agents, &count, NULL, &error);
        if (status != PW_OK && (status != PW_NOMEM || memory.failed == 0)) {
            fail_msg("%d: %s", status, error.message);
        }
        failed = memory.failed > 0;
        pw_arena_free(&arena);
        assert_int_equal(memory.live_bytes, 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, drop_top)
    const struct CMUnitTest tests[] = {
        TEST(test_wrong_agents_are_told_by_file_line_and_key),
        TEST(test_missing_and_unreadable_files),
        TEST(test_C11_a_whole_agent_becomes_one_definition),
        TEST(test_agents_of_a_folder_are_sorted_and_unique),
        TEST(test_a_definition_from_json_takes_the_same_keys),
        TEST(test_the_published_schema_is_one_and_the_example_is_right),
        TEST(test_every_failed_allocation_is_an_answer),
    };
    return cmocka_run_group_tests_name("agents", tests, NULL, NULL);
}
