/* YAML into JSON: scalars by YAML 1.2's JSON schema, refusals with their lines, the table of lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "base/heap.h"
#include "support/failing_allocator.h"

static void check(const char *yaml, const char *expected)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str json = PW_STR_NONE;
    pw_error error = {0};
    const pw_status status =
        pw_yaml_to_json(pw_str_from(yaml), PW_STR("f"), &arena, &json, NULL, &error);
    if (status != PW_OK) {
        assert_string_equal(error.message, expected);
        assert_int_equal(status, PW_INVALID);
    } else {
        const pw_json *root = NULL;
        char text[2048];
        assert_true(json.len < sizeof text);
        memcpy(text, json.ptr, json.len);
        text[json.len] = '\0';
        assert_string_equal(text, expected);
        assert_int_equal(pw_json_parse(&arena, json, PW_JSON_UNIQUE_KEYS, &root, NULL), PW_OK);
    }
    pw_arena_free(&arena);
}

static void test_scalars_are_read_by_the_json_schema(void **state)
{
    (void)state;
    check("[null, true, false, 0, -1, 1.50, 1e3, 12345678901234567890]",
          "[null,true,false,0,-1,1.50,1e3,12345678901234567890]");
    check("[yes, no, on, True, NULL, ~, 0x10, 0o7, 01, +1, .5, 1., 1_000, .inf, 2026-01-02, 10:30, "
          "1.2.3]",
          "[\"yes\",\"no\",\"on\",\"True\",\"NULL\",\"~\",\"0x10\",\"0o7\",\"01\",\"+1\",\".5\","
          "\"1.\",\"1_000\","
          "\".inf\",\"2026-01-02\",\"10:30\",\"1.2.3\"]");
    check("['null', \"true\", '5', !!str 5, ! 6, '']",
          "[\"null\",\"true\",\"5\",\"5\",\"6\",\"\"]");
    check("a:\nb: ''\nc: |\n  x\n   y\nd: >\n  one\n  two\n5: {}\nnull: []\n",
          "{\"a\":null,\"b\":\"\",\"c\":\"x\\n y\\n\",\"d\":\"one two\\n\",\"5\":{},\"null\":[]}");
    check("\"q\\\"\\\\\\n\\x1b\\u263a\\U0001F600\"",
          "\"q\\\"\\\\\\n\\u001b\xE2\x98\xBA\xF0\x9F\x98\x80\"");
    check("\xEF\xBB\xBFx: 1 # c", "{\"x\":1}");
    check("%YAML 1.2\n---\n- 1\n...\n", "[1]");
}

static void test_what_is_refused_names_its_line(void **state)
{
    (void)state;
    check("", "f:1: there is nothing in this file");
    check("# only\n", "f:1: there is nothing in this file");
    check("a: 1\n---\nb: 2\n", "f:2: expected one document, found another");
    check("a: 1\nb: 2\n'a': 3\n", "f:3: the key \"a\" is repeated; it is on line 1 already");
    check("x: {a: 1, b: {a: 2}, c: [{a: 3}], a: 4}",
          "f:1: the key \"a\" is repeated; it is on line 1 already");
    check("a: &x 1\nb: *x\n", "f:1: anchors are not supported");
    check("a: &x [1]\n", "f:1: anchors are not supported");
    check("a: 1\nb: *x\n", "f:2: aliases are not supported");
    check("a: !!int 5\n", "f:1: tags are not supported");
    check("\n\na: !mine {}\n", "f:3: tags are not supported");
    check("? [1]\n: 2\n", "f:1: expected a key, found a list or a mapping");
    check("? \n: 2\n", "f:1: expected a key, found nothing");
    check("a: \"\\0\"\n", "f:1: a text must not hold NUL");
    check("a: 1\nb: [1\nc: 2\n",
          "f:3: not YAML: while parsing a flow sequence, did not find expected ',' or ']'");
    check("a: 1\n b: 2\n", "f:2: not YAML: mapping values are not allowed in this context");
    check("a: 1\nb: \xFF\n", "f:2: not YAML: invalid leading UTF-8 octet");
    check("a: 1\nb: \x01\n", "f:2: not YAML: control characters are not allowed");
    check("a: \"\\ud83d\"\n", "f:1: not YAML: while parsing a quoted scalar, found invalid Unicode "
                              "character escape code");
    char deep[201];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    deep[200] = '\0';
    check(deep, "f:1: nested too deep");
}

static void test_lines_of_values(void **state)
{
    (void)state;
    static const char yaml[] = "a: 1\nb:\n  c:\n    - x\n    - {d: 5,\n       e: 6}\n";
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str json;
    const pw_yaml_lines *lines = NULL;
    const pw_json *root = NULL;
    assert_int_equal(pw_yaml_to_json(pw_str_from(yaml), PW_STR("f"), &arena, &json, &lines, NULL),
                     PW_OK);
    assert_int_equal(pw_json_parse(&arena, json, 0, &root, NULL), PW_OK);
    const pw_json *c = pw_json_get(pw_json_get(root, "b"), "c");
    assert_int_equal(pw_yaml_line(lines, json, root->raw), 1);
    assert_int_equal(pw_yaml_line(lines, json, pw_json_get(root, "a")->raw), 1);
    assert_int_equal(pw_yaml_line(lines, json, pw_json_get(root, "b")->raw), 2);
    assert_int_equal(pw_yaml_line(lines, json, c->raw), 3);
    assert_int_equal(pw_yaml_line(lines, json, pw_json_at(c, 0)->raw), 4);
    assert_int_equal(pw_yaml_line(lines, json, pw_json_at(c, 1)->raw), 5);
    assert_int_equal(pw_yaml_line(lines, json, pw_json_get(pw_json_at(c, 1), "e")->raw), 6);
    assert_int_equal(pw_yaml_line(lines, json, PW_STR("elsewhere")), 0);
    pw_arena_free(&arena);
}

static void test_many_keys_cost_no_square(void **state)
{
    (void)state;
    pw_buffer yaml;
    pw_buffer_init(&yaml, &pw_heap, (size_t)1 << 21);
    for (int i = 0; i < 100000; i++) {
        pw_buffer_format(&yaml, "k%d: 1\n", i);
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str json;
    assert_int_equal(pw_yaml_to_json(pw_buffer_str(&yaml), PW_STR("f"), &arena, &json, NULL, NULL),
                     PW_OK);
    pw_arena_free(&arena);
    pw_buffer_free(&yaml);
}

static void test_every_failed_allocation_is_an_answer(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        pw_arena arena;
        pw_arena_init(&arena, &memory.allocator, 64, 0);
        pw_test_allocator_fail(&memory, k, k % 2 == 0);
        pw_str json;
        const pw_status status = pw_yaml_to_json(PW_STR("a: [1, two, {b: 3}]\nc: x\n"), PW_STR("f"),
                                                 &arena, &json, NULL, NULL);
        assert_true(status == PW_OK || (status == PW_NOMEM && memory.failed > 0));
        if (status == PW_OK) { /* an arena may get along with a smaller block */
            assert_true(pw_str_is(json, "{\"a\":[1,\"two\",{\"b\":3}],\"c\":\"x\"}"));
        }
        failed = memory.failed > 0;
        pw_arena_free(&arena);
        assert_int_equal(memory.live_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_are_read_by_the_json_schema),
        cmocka_unit_test(test_what_is_refused_names_its_line),
        cmocka_unit_test(test_lines_of_values),
        cmocka_unit_test(test_many_keys_cost_no_square),
        cmocka_unit_test(test_every_failed_allocation_is_an_answer),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
