/* Schemas: each keyword with values that fit and that do not, bad schemas, hostile schemas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/schema.h"

static const pw_json *read_json(pw_arena *arena, const char *text)
{
    const pw_json *json;
    pw_error error;
    if (pw_json_parse(arena, pw_str_from(text), 0, &json, &error) != PW_OK) {
        fail_msg("%s: %s", text, error.message);
    }
    return json;
}

static pw_status apply(const char *schema, const char *value, pw_error *error, char at[100])
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *s = read_json(&arena, schema), *v = read_json(&arena, value), *fault = NULL;
    *error = (pw_error){0};
    if (pw_schema_check(s, &arena, error) != PW_OK) {
        fail_msg("%s: %s", schema, error->message);
    }
    const pw_status status = pw_schema_apply(s, v, &arena, &fault, error);
    assert_int_equal(status == PW_INVALID, fault != NULL);
    if (at != NULL) {
        snprintf(at, 100, "%.*s", PW_STR_ARG(fault != NULL ? fault->raw : PW_STR("")));
    }
    assert_int_equal(pw_schema_apply(s, v, &arena, NULL, NULL), status);
    pw_arena_free(&arena);
    return status;
}

typedef struct value_case {
    const char *schema;
    const char *fits[8];
    const char *fails[10];
} value_case;

static const value_case cases[] = {
    {"true", {"1", "null", "{}"}, {NULL}},
    {"{}", {"1", "null", "{}"}, {NULL}},
    {"false", {NULL}, {"1", "null", "{}", "[]"}},
    {"{\"type\":\"null\"}", {"null"}, {"0", "false", "\"\"", "[]", "{}"}},
    {"{\"type\":\"boolean\"}", {"true", "false"}, {"0", "null", "\"true\""}},
    {"{\"type\":\"string\"}", {"\"\"", "\"a\""}, {"0", "null", "[]"}},
    {"{\"type\":\"array\"}", {"[]", "[1]"}, {"{}", "null", "\"[]\""}},
    {"{\"type\":\"object\"}", {"{}", "{\"a\":1}"}, {"[]", "null", "1"}},
    {"{\"type\":\"number\"}", {"0", "-1.5", "1e999"}, {"\"0\"", "null", "true"}},
    {"{\"type\":\"integer\"}",
     {"0", "-7", "1.0", "1e3", "123456789012345678901234567890", "1.50e1"},
     {"1.5", "1e-1", "\"1\"", "null", "true", "0.99999999999999999999999999999"}},
    {"{\"type\":[\"string\",\"null\"]}", {"\"a\"", "null"}, {"1", "[]", "false"}},
    {"{\"enum\":[1,\"a\",null,{\"b\":[1]}]}",
     {"1", "1.0", "\"a\"", "null", "{\"b\":[1.0]}"},
     {"2", "\"1\"", "false", "{\"b\":[]}", "{}"}},
    {"{\"const\":{\"a\":1,\"b\":2}}", {"{\"b\":2.0,\"a\":1}"}, {"{\"a\":1}", "1", "null"}},
    {"{\"const\":null}", {"null"}, {"0", "{}"}},
    {"{\"minimum\":2}", {"2", "2.0", "3", "1e99", "\"x\""}, {"1", "1.99999999999999999999", "-3"}},
    {"{\"maximum\":2.5}", {"2.5", "0", "-1e9"}, {"2.50000000000000000001", "3", "1e1"}},
    {"{\"exclusiveMinimum\":0}", {"1", "0.00001", "\"\""}, {"0", "-0.0", "-1", "0e5"}},
    {"{\"exclusiveMaximum\":-1}", {"-2", "-1.1"}, {"-1", "-0.9", "0"}},
    {"{\"minimum\":9007199254740993}", {"9007199254740993"}, {"9007199254740992"}},
    {"{\"multipleOf\":3}",
     {"0", "3", "-9", "3.0", "300000000000000000000000", "\"a\"", "3e100"},
     {"1", "4.5", "3.1", "100000000000000000000000", "1e100"}},
    {"{\"multipleOf\":0.01}", {"1", "0.25", "10.50", "1e2"}, {"0.001", "0.255"}},
    {"{\"multipleOf\":1}", {"1", "1e400"}, {"1.5"}},
    {"{\"minLength\":2}",
     {"\"ab\"", "\"\\u00e9\\u00e9\"", "\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\"", "1"},
     {"\"\"", "\"a\"", "\"\xF0\x9F\x98\x80\"", "\"\\ud83d\\ude00\""}},
    {"{\"maxLength\":2}", {"\"\"", "\"ab\"", "\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\""}, {"\"abc\""}},
    {"{\"minItems\":1}", {"[0]", "{}", "\"\""}, {"[]"}},
    {"{\"maxItems\":1}", {"[]", "[0]"}, {"[0,1]"}},
    {"{\"uniqueItems\":true}",
     {"[]", "[1,2,\"1\"]", "[[1],[2]]", "[{\"a\":1},{\"a\":2}]", "[0,false,null,\"\"]", "\"aa\""},
     {"[1,1]", "[1,1.0]", "[\"a\",\"b\",\"a\"]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1.0}]",
      "[[1],[1e0]]", "[null,null]", "[{\"a\":0,\"a\":1},{\"a\":1}]", "[[[1]],[[1.0]]]"}},
    {"{\"uniqueItems\":false}", {"[1,1]"}, {NULL}},
    {"{\"minProperties\":1}", {"{\"a\":1}", "[]"}, {"{}"}},
    {"{\"maxProperties\":1}", {"{}", "{\"a\":1}"}, {"{\"a\":1,\"b\":2}"}},
    {"{\"required\":[\"a\",\"b\"]}",
     {"{\"a\":1,\"b\":null}", "[]", "1"},
     {"{}", "{\"a\":1}", "{\"b\":1}"}},
    {"{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":false}}",
     {"{}", "{\"a\":\"x\"}", "{\"c\":1}", "[]", "\"a\""},
     {"{\"a\":1}", "{\"b\":1}", "{\"c\":1,\"a\":null}"}},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":false}",
     {"{}", "{\"a\":1}", "[1]"},
     {"{\"b\":1}", "{\"a\":1,\"b\":1}"}},
    {"{\"additionalProperties\":false}", {"{}"}, {"{\"a\":1}"}},
    {"{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"integer\"}}",
     {"{\"a\":\"x\",\"b\":1}"},
     {"{\"b\":\"x\"}"}},
    {"{\"patternProperties\":{\"^x\":{}},\"additionalProperties\":false}", {"{\"x1\":1}"}, {NULL}},
    {"{\"items\":{\"type\":\"integer\"}}", {"[]", "[1,2]", "{}", "\"a\""}, {"[1,\"a\"]", "[null]"}},
    {"{\"items\":false}", {"[]"}, {"[1]"}},
    {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,2]", "[1,\"a\",null]"}},
    {"{\"items\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}",
     {"[1,\"a\",null]", "[]"},
     {"[\"a\"]", "[1,2]"}},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":5}]}", {"\"a\"", "5", "null"}, {"4"}},
    {"{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}",
     {"2", "3", "4"},
     {"1", "6", "0", "\"a\""}},
    {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", {"1", "3"}, {"0", "4"}},
    {"{\"not\":{\"type\":\"string\"}}", {"1", "null"}, {"\"a\""}},
    {"{\"not\":{\"not\":{\"type\":\"string\"}}}", {"\"a\""}, {"1"}},
    {"{\"not\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"boolean\"}]}}",
     {"1", "[]"},
     {"null", "true"}},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"integer\"}}}", {"1"}, {"\"a\""}},
    {"{\"$ref\":\"#/definitions/a~1b%20c~0\",\"definitions\":{\"a/b c~\":{\"type\":\"null\"}}}",
     {"null"},
     {"1"}},
    {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#\"}},"
     "\"additionalProperties\":false}",
     {"{\"v\":1}", "{\"next\":{\"next\":{\"v\":2}}}"},
     {"{\"next\":{\"next\":{\"v\":null}}}", "{\"next\":{\"x\":1}}", "{\"next\":1}"}},
    {"{\"anyOf\":[true],\"$ref\":\"#/anyOf/0\"}", {"1"}, {NULL}},
    {"{\"$ref\":\"#/$defs/a\",\"maximum\":5,\"$defs\":{\"a\":{\"minimum\":1}}}",
     {"1", "5"},
     {"0", "6"}},
    {"{\"format\":\"email\",\"pattern\":\"^x$\",\"title\":7,\"default\":[],\"x-any\":{\"type\":1}}",
     {"1", "\"not mail\""},
     {NULL}},
    {"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{"
     "\"n\":{\"type\":\"string\",\"minLength\":1}}},\"minItems\":1}",
     {"[{\"n\":\"a\"}]"},
     {"[]", "{}", "[{}]", "[{\"n\":\"\"}]", "[{\"n\":\"a\"},{\"n\":1}]"}},
};

static void test_F3_each_keyword_fits_and_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pw_error error;
        for (size_t j = 0; j < 8 && cases[i].fits[j] != NULL; j++) {
            if (apply(cases[i].schema, cases[i].fits[j], &error, NULL) != PW_OK) {
                fail_msg("%s should fit %s: %s", cases[i].fits[j], cases[i].schema, error.message);
            }
        }
        for (size_t j = 0; j < 10 && cases[i].fails[j] != NULL; j++) {
            if (apply(cases[i].schema, cases[i].fails[j], &error, NULL) != PW_INVALID) {
                fail_msg("%s should not fit %s", cases[i].fails[j], cases[i].schema);
            }
            assert_true(strlen(error.message) > 10);
        }
    }
}

static void test_F3_errors_say_path_expected_and_found(void **state)
{
    (void)state;
    static const char *const messages[][4] = {
        {"{\"type\":\"object\"}", "[1]", "(top): expected an object, found [1]", "[1]"},
        {"{\"properties\":{\"items\":{\"items\":{\"properties\":{\"name\":{\"type\":\"string\"}}}}}"
         "}",
         "{\"items\":[{},{},{},{\"name\":7}]}", "/items/3/name: expected a string, found 7", "7"},
        {"{\"properties\":{\"a/b~\":{\"type\":[\"string\",\"null\"]}}}", "{\"a/b~\":1}",
         "/a~1b~0: expected a string or null, found 1", "1"},
        {"{\"required\":[\"city\"]}", "{\"town\":1}", "(top): the property \"city\" is missing",
         "{\"town\":1}"},
        {"{\"properties\":{\"a\":{},\"b\":{}},\"additionalProperties\":false}", "{\"c\":3}",
         "/c: this property is not allowed here; allowed: a, b", "3"},
        {"{\"enum\":[\"x\",\"y\"]}", "\"z\"", "(top): expected one of [\"x\",\"y\"], found \"z\"",
         "\"z\""},
        {"{\"minimum\":5}", "4", "(top): expected at least 5, found 4", "4"},
        {"{\"minLength\":3}", "\"\xC3\xA9\"", "(top): expected at least 3 characters, found 1",
         "\"\xC3\xA9\""},
        {"{\"maxItems\":1}", "[1,2]", "(top): expected at most 1 items, found 2", "[1,2]"},
        {"{\"uniqueItems\":true}", "[1,2,1]", "/2: repeats an earlier item", "1"},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", "\"a\"",
         "(top): expected an integer or null, found \"a\"", "\"a\""},
        {"{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"object\",\"required\":[\"id\"]}]}", "{}",
         "(top): the property \"id\" is missing", "{}"},
        {"{\"anyOf\":[{\"properties\":{\"kind\":{\"const\":\"a\"},\"n\":{\"type\":\"integer\"}}},"
         "{\"properties\":{\"kind\":{\"const\":\"b\"},\"n\":{\"type\":\"string\"}}}]}",
         "{\"kind\":\"b\",\"n\":1}", "/n: expected a string, found 1", "1"},
        {"{\"oneOf\":[{},{}]}", "1", "(top): fits several forms where it must fit exactly one",
         "1"},
        {"{\"properties\":{\"a\":false}}", "{\"a\":1}", "/a: nothing is allowed here", "1"},
    };
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        pw_error error;
        char at[100];
        assert_int_equal(apply(messages[i][0], messages[i][1], &error, at), PW_INVALID);
        assert_string_equal(error.message, messages[i][2]);
        assert_string_equal(at, messages[i][3]);
    }
}

static void test_bad_schemas_are_refused_at_load(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1", "object or a boolean"},
        {"[]", "object or a boolean"},
        {"{\"type\":\"strin\"}", "/type"},
        {"{\"type\":7}", "/type"},
        {"{\"type\":[]}", "/type"},
        {"{\"type\":[\"string\",1]}", "/type"},
        {"{\"properties\":[]}", "/properties"},
        {"{\"properties\":{\"a\":1}}", "/properties"},
        {"{\"properties\":{\"a\":{\"items\":{\"required\":\"x\"}}}}",
         "/properties/a/items/required"},
        {"{\"required\":[1]}", "/required"},
        {"{\"required\":true}", "/required"},
        {"{\"additionalProperties\":\"no\"}", "/additionalProperties"},
        {"{\"items\":1}", "/items"},
        {"{\"items\":[1]}", "/items"},
        {"{\"prefixItems\":{}}", "/prefixItems"},
        {"{\"enum\":{}}", "/enum"},
        {"{\"minimum\":\"1\"}", "/minimum"},
        {"{\"exclusiveMaximum\":true}", "/exclusiveMaximum"},
        {"{\"multipleOf\":0}", "/multipleOf"},
        {"{\"multipleOf\":-2}", "/multipleOf"},
        {"{\"minLength\":-1}", "/minLength"},
        {"{\"maxLength\":1.5}", "/maxLength"},
        {"{\"minItems\":\"1\"}", "/minItems"},
        {"{\"maxProperties\":null}", "/maxProperties"},
        {"{\"uniqueItems\":1}", "/uniqueItems"},
        {"{\"anyOf\":[]}", "/anyOf"},
        {"{\"anyOf\":{}}", "/anyOf"},
        {"{\"oneOf\":[1]}", "/oneOf"},
        {"{\"allOf\":[{\"type\":1}]}", "/allOf/0/type"},
        {"{\"not\":1}", "/not"},
        {"{\"$defs\":{\"a\":{\"not\":{\"enum\":1}}}}", "/$defs/a/not/enum"},
        {"{\"$ref\":1}", "/$ref"},
        {"{\"$ref\":\"#/$defs/none\"}", "/$ref"},
        {"{\"$ref\":\"other.json\"}", "/$ref"},
        {"{\"$ref\":\"http://example.org/s\"}", "/$ref"},
        {"{\"$ref\":\"#anchor\"}", "/$ref"},
        {"{\"$ref\":\"\"}", "/$ref"},
        {"{\"$ref\":\"#/type\",\"type\":\"string\"}", "/$ref"},
        {"{\"$ref\":\"#\"}", "/$ref"},
        {"{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}}}",
         "/$defs/a/$ref"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        pw_error error = {0};
        const pw_json *schema = read_json(&arena, bad[i][0]);
        if (pw_schema_check(schema, &arena, &error) != PW_INVALID) {
            fail_msg("%s was taken", bad[i][0]);
        }
        if (strstr(error.message, bad[i][1]) == NULL) {
            fail_msg("%s: %s", bad[i][0], error.message);
        }
        /* Applied all the same it does no harm. */
        (void)pw_schema_apply(schema, read_json(&arena, "{\"a\":[1,\"x\"]}"), &arena, NULL, NULL);
        (void)pw_schema_apply(schema, schema, &arena, NULL, NULL);
        pw_arena_free(&arena);
    }
    assert_int_equal(pw_schema_check(NULL, NULL, NULL), PW_INVALID);
}

/* What follows must end, soon, and with neither yes nor no. */
static void test_hostile_schemas_end_by_budget(void **state)
{
    (void)state;
    pw_error error;
    assert_int_equal(apply("{\"allOf\":[{\"$ref\":\"#\"}]}", "1", &error, NULL), PW_TOO_LARGE);
    assert_int_equal(apply("{\"anyOf\":[{\"$ref\":\"#\"}]}", "1", &error, NULL), PW_TOO_LARGE);
    assert_int_equal(apply("{\"not\":{\"$ref\":\"#\"}}", "1", &error, NULL), PW_TOO_LARGE);
    assert_int_equal(apply("{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":"
                           "\"#/$defs/b\"}]},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"}]}}}",
                           "{}", &error, NULL),
                     PW_TOO_LARGE);
    /* Every level tries the next one twice: 2^40 ways. */
    pw_buffer schema;
    pw_buffer_init(&schema, &pw_heap, 100000);
    (void)pw_buffer_add(&schema, PW_STR("{\"$ref\":\"#/$defs/d0\",\"$defs\":{"));
    for (int i = 0; i < 40; i++) {
        (void)pw_buffer_format(
            &schema, "\"d%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},",
            i, i + 1, i + 1);
    }
    (void)pw_buffer_add(&schema, PW_STR("\"d40\":{\"type\":\"null\"}}}"));
    assert_int_equal(apply(schema.ptr, "1", &error, NULL), PW_TOO_LARGE);
    assert_int_equal(apply(schema.ptr, "null", &error, NULL), PW_OK);
    pw_buffer_free(&schema);
    /* The same through the depth of the value. */
    assert_int_equal(
        apply("{\"type\":\"array\",\"oneOf\":[{\"items\":{\"$ref\":\"#\"}},{\"items\":{\"$ref\":\"#"
              "\"}}]}",
              "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
              &error, NULL),
        PW_TOO_LARGE);
}

static void test_hostile_values_end_by_budget(void **state)
{
    (void)state;
    pw_error error;
    pw_buffer value;
    pw_buffer_init(&value, &pw_heap, 10000000);
    /* Records that look alike to the hash. */
    (void)pw_buffer_byte(&value, '[');
    for (int i = 0; i < 20000; i++) {
        (void)pw_buffer_format(&value, "%s{\"a\":[[%d]]}", i > 0 ? "," : "", i);
    }
    (void)pw_buffer_byte(&value, ']');
    assert_int_equal(apply("{\"uniqueItems\":true}", value.ptr, &error, NULL), PW_TOO_LARGE);
    /* Many plain ones are no trouble. */
    pw_buffer_clear(&value);
    (void)pw_buffer_byte(&value, '[');
    for (int i = 0; i < 100000; i++) {
        (void)pw_buffer_format(&value, "%s%d", i > 0 ? "," : "", i);
    }
    (void)pw_buffer_byte(&value, ']');
    assert_int_equal(apply("{\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"minimum\":0}}",
                           value.ptr, &error, NULL),
                     PW_OK);
    /* Deep ones go as deep as a value may. */
    pw_buffer_clear(&value);
    for (int i = 0; i < PW_JSON_MAX_DEPTH - 1; i++) {
        (void)pw_buffer_add(&value, PW_STR("{\"n\":"));
    }
    (void)pw_buffer_add(&value, PW_STR("{}"));
    for (int i = 0; i < PW_JSON_MAX_DEPTH - 1; i++) {
        (void)pw_buffer_byte(&value, '}');
    }
    assert_int_equal(
        apply("{\"type\":\"object\",\"properties\":{\"n\":{\"anyOf\":[{\"type\":\"null\"},"
              "{\"$ref\":\"#\"}]}}}",
              value.ptr, &error, NULL),
        PW_OK);
    pw_buffer_free(&value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F3_each_keyword_fits_and_fails),
        cmocka_unit_test(test_F3_errors_say_path_expected_and_found),
        cmocka_unit_test(test_bad_schemas_are_refused_at_load),
        cmocka_unit_test(test_hostile_schemas_end_by_budget),
        cmocka_unit_test(test_hostile_values_end_by_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
