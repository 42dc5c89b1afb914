/* Canonical form, cleaning, equality and the writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/utf8.h"

typedef struct fixture {
    pw_arena arena;
    pw_buffer out;
} fixture;

static void begin(fixture *f)
{
    pw_arena_init(&f->arena, &pw_heap, 0, 0);
    pw_buffer_init(&f->out, &pw_heap, 1 << 22);
}

static void end(fixture *f)
{
    pw_buffer_free(&f->out);
    pw_arena_free(&f->arena);
}

static const pw_json *read_json(fixture *f, pw_str text)
{
    const pw_json *json;
    pw_error error;
    if (pw_json_parse(&f->arena, text, PW_JSON_MEND_UTF8, &json, &error) != PW_OK) {
        fail_msg("%.*s: %s", PW_STR_ARG(text), error.message);
    }
    return json;
}

#define R "\xEF\xBF\xBD"

static void test_A6_canonical_json_sorts_keys(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {" { \"b\" : 1 , \"a\" : [ 1 , 2 ] } ", "{\"a\":[1,2],\"b\":1}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"{\"b\":{\"z\":1,\"a\":{}},\"a\":[],\"b\":0}", "{\"a\":[],\"b\":0}"},
        {"{\"a\":1,\"b\":{\"d\":1,\"c\":[{\"f\":1,\"e\":2}]}}",
         "{\"a\":1,\"b\":{\"c\":[{\"e\":2,\"f\":1}],\"d\":1}}"},
        {"{\"\\u00e9\":1,\"z\":2,\"\":3,\"aa\":4,\"a\":5,\"\\ud83d\\ude00\":6,\"\\uffee\":7}",
         "{\"\":3,\"a\":5,\"aa\":4,\"z\":2,\"\xC3\xA9\":1,\"\xEF\xBF\xAE\":7,\"\xF0\x9F\x98\x80\":"
         "6}"},
        {"\"\\u0041\\/\\u000a\\u0008\\u0022\\u005c\\u001F\\u0000\\u007f\"",
         "\"A/\\n\\b\\\"\\\\\\u001f\\u0000\x7f\""},
        {"[1.0,1e2,-0,0.10]", "[1.0,1e2,-0,0.10]"},
        {"[true,false,null,\"\",{},[]]", "[true,false,null,\"\",{},[]]"},
        {"\"\\ud800\"", "\"" R "\""},
        {"7", "7"},
    };
    fixture f;
    begin(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pw_buffer_clear(&f.out);
        const pw_json *json = read_json(&f, pw_str_from(cases[i][0]));
        assert_int_equal(pw_json_canonical(&f.out, json, &f.arena), PW_OK);
        assert_string_equal(f.out.ptr, cases[i][1]);
        /* Idempotent. */
        char first[200];
        snprintf(first, sizeof first, "%s", f.out.ptr);
        pw_buffer_clear(&f.out);
        assert_int_equal(pw_json_canonical(&f.out, read_json(&f, pw_str_from(first)), &f.arena),
                         PW_OK);
        assert_string_equal(f.out.ptr, first);
    }
    end(&f);
}

static void test_A6_canonical_form_of_many_keys(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    for (unsigned count = 0; count < 130; count++) {
        pw_buffer text;
        pw_buffer_init(&text, &pw_heap, 100000);
        (void)pw_buffer_byte(&text, '{');
        for (unsigned i = 0; i < count; i++) {
            (void)pw_buffer_format(&text, "%s\"k%03u\":%u", i > 0 ? "," : "", i * 59 % 131, i);
        }
        (void)pw_buffer_byte(&text, '}');
        const pw_json *json = read_json(&f, pw_buffer_str(&text));
        pw_buffer_clear(&f.out);
        assert_int_equal(pw_json_canonical(&f.out, json, &f.arena), PW_OK);
        const pw_json *sorted = read_json(&f, pw_buffer_str(&f.out));
        assert_int_equal(sorted->count, count);
        for (const pw_json *m = sorted->child; m != NULL && m->next != NULL; m = m->next) {
            assert_true(pw_str_compare(m->key, m->next->key) < 0);
        }
        assert_true(pw_json_equal(json, sorted));
        pw_buffer_free(&text);
        pw_arena_reset(&f.arena);
    }
    end(&f);
}

static void test_A8_clean_keeps_order_and_mends_strings(void **state)
{
    (void)state;
    static const struct {
        pw_str from;
        const char *to;
    } cases[] = {
        {PW_STR_INIT(" { \"b\" : 1 ,\n\"a\" : [ ] , \"b\" : 1.50 } "),
         "{\"b\":1,\"a\":[],\"b\":1.50}"},
        {PW_STR_INIT("[\"a\\u0000b\",\"\\ud800\",\"\\udc00x\",\"\\ud83d\\ude00\"]"),
         "[\"a" R "b\",\"" R "\",\"" R "x\",\"\xF0\x9F\x98\x80\"]"},
        {PW_STR_INIT("{\"\\ud800\\u0000\":\"\\u0001\\/\\\"\"}"), "{\"" R R "\":\"\\u0001/\\\"\"}"},
        {PW_STR_INIT("[\"\xFF\",{\"\xC3\":1}]"), "[\"" R "\",{\"" R "\":1}]"},
        {PW_STR_INIT("\"plain\""), "\"plain\""},
    };
    fixture f;
    begin(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pw_buffer_clear(&f.out);
        assert_int_equal(pw_json_clean(&f.out, read_json(&f, cases[i].from)), PW_OK);
        assert_string_equal(f.out.ptr, cases[i].to);
        assert_true(pw_utf8_clean(pw_buffer_str(&f.out)));
        assert_true(pw_json_valid(pw_buffer_str(&f.out)));
    }
    end(&f);
}

static void test_deepest_trees_are_written_and_compared(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    char text[PW_JSON_MAX_DEPTH * 12 + 1];
    size_t len = 0;
    for (int i = 0; i < PW_JSON_MAX_DEPTH; i++) {
        memcpy(text + len, "{\"b\":1,\"a\":", 11);
        len += 11;
    }
    text[len++] = '0';
    memset(text + len, '}', PW_JSON_MAX_DEPTH);
    len += PW_JSON_MAX_DEPTH;
    assert_true(len <= sizeof text);
    const pw_json *json = read_json(&f, (pw_str){text, len});
    assert_int_equal(pw_json_canonical(&f.out, json, &f.arena), PW_OK);
    assert_true(pw_json_equal(json, read_json(&f, pw_buffer_str(&f.out))));
    pw_buffer clean;
    pw_buffer_init(&clean, &pw_heap, 100000);
    assert_int_equal(pw_json_clean(&clean, json), PW_OK);
    assert_true(pw_str_equal(pw_buffer_str(&clean), (pw_str){text, len}));
    pw_buffer_free(&clean);
    end(&f);
}

static void test_writing_is_all_or_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const pw_json *json = read_json(&f, PW_STR("{\"b\":[1,2,{\"c\":\"text\"}],\"a\":null}"));
    assert_int_equal(pw_json_clean(&f.out, json), PW_OK);
    const size_t whole = f.out.len;
    for (size_t maximum = 2; maximum < whole + 2; maximum++) {
        for (int canonical = 0; canonical < 2; canonical++) {
            pw_buffer b;
            pw_buffer_init(&b, &pw_heap, maximum);
            (void)pw_buffer_add(&b, PW_STR("<>"));
            const pw_status status =
                canonical ? pw_json_canonical(&b, json, &f.arena) : pw_json_clean(&b, json);
            assert_int_equal(status, PW_TOO_LARGE);
            assert_int_equal(b.failed, PW_TOO_LARGE);
            assert_string_equal(b.ptr, "<>");
            pw_buffer_free(&b);
        }
    }
    end(&f);
}

static void test_equality(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool canonical, value;
    } cases[] = {
        {"1", "1", true, true},
        {"1", "1.0", false, true},
        {"100", "1e2", false, true},
        {"0", "-0.0e5", false, true},
        {"1", "2", false, false},
        {"-1", "1", false, false},
        {"0.1", "0.10000000000000000000000000000001", false, false},
        {"9007199254740993", "9007199254740992", false, false},
        {"1", "\"1\"", false, false},
        {"1", "true", false, false},
        {"true", "false", false, false},
        {"null", "null", true, true},
        {"\"\\u0041\"", "\"A\"", true, true},
        {"\"a\"", "\"b\"", false, false},
        {"[]", "{}", false, false},
        {"[1,2]", "[1,2]", true, true},
        {"[1,2]", "[2,1]", false, false},
        {"[1,2]", "[1]", false, false},
        {"[[1],[2]]", "[[1],[3]]", false, false},
        {"[{\"a\":[1]}]", "[{\"a\":[1.0]}]", false, true},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true, true},
        {"{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}", false, false},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false, false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1}", false, false},
        {"{\"a\":1}", "{\"b\":1}", false, false},
        {"{\"a\":0,\"a\":1}", "{\"a\":1}", true, true},
        {"{\"a\":1}", "{\"a\":0,\"a\":1}", true, true},
        {"{\"a\":1,\"a\":0}", "{\"a\":1}", false, false},
        {"{\"a\":0,\"a\":1}", "{\"a\":2,\"a\":1}", true, true},
        {"{\"a\":{\"x\":[1,{\"y\":1}]},\"a\":1}", "{\"a\":{\"x\":[1,{\"y\":2}]},\"a\":1}", true,
         true},
        {"{\"a\":{\"x\":1},\"a\":1,\"b\":2}", "{\"a\":{\"x\":2},\"a\":1,\"b\":3}", false, false},
        {"{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":1}", false, false},
        {"{\"x\":{\"c\":1,\"d\":[]},\"y\":0}", "{\"y\":0,\"x\":{\"d\":[],\"c\":1}}", true, true},
        {"{\"x\":{\"c\":1,\"d\":[]},\"y\":0}", "{\"y\":0,\"x\":{\"d\":[0],\"c\":1}}", false, false},
    };
    fixture f;
    begin(&f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pw_json *a = read_json(&f, pw_str_from(cases[i].a));
        const pw_json *b = read_json(&f, pw_str_from(cases[i].b));
        if (pw_json_equal(a, b) != cases[i].canonical ||
            pw_json_equal(b, a) != cases[i].canonical ||
            pw_json_equal_value(a, b) != cases[i].value ||
            pw_json_equal_value(b, a) != cases[i].value) {
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        }
        /* The definition: equal as canonical forms. */
        pw_buffer_clear(&f.out);
        (void)pw_json_canonical(&f.out, a, &f.arena);
        const size_t cut = f.out.len;
        (void)pw_json_canonical(&f.out, b, &f.arena);
        const pw_str both = pw_buffer_str(&f.out);
        assert_int_equal(
            pw_str_equal(pw_str_slice(both, 0, cut), pw_str_slice(both, cut, both.len)),
            cases[i].canonical);
    }
    assert_true(pw_json_equal(NULL, NULL));
    assert_false(pw_json_equal(NULL, read_json(&f, PW_STR("null"))));
    end(&f);
}

static void test_writer_puts_commas_and_colons(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pw_json_writer w;
    pw_json_begin(&w, &f.out);
    pw_json_object(&w);
    pw_json_put_str(&w, "s", PW_STR("a\"b\\c\n\x01\x7f\xC3\xA9/"));
    pw_json_put_str(&w, "empty", PW_STR(""));
    pw_json_put_str(&w, "none", PW_STR_NONE);
    pw_json_put_i64(&w, "least", INT64_MIN);
    pw_json_put_bool(&w, "yes", true);
    pw_json_put_raw(&w, "raw", PW_STR("[1.0]"));
    pw_json_put_time(&w, "at", 0);
    pw_json_put_time(&w, "never", -1);
    pw_json_key(&w, "list");
    pw_json_array(&w);
    pw_json_integer(&w, 1);
    pw_json_nothing(&w);
    pw_json_boolean(&w, false);
    pw_json_object(&w);
    pw_json_object_end(&w);
    pw_json_array(&w);
    pw_json_array_end(&w);
    pw_json_string(&w, PW_STR("x"));
    pw_json_array_end(&w);
    pw_json_key_str(&w, PW_STR("k\"\n"));
    pw_json_raw(&w, PW_STR("0"));
    pw_json_object_end(&w);
    assert_int_equal(f.out.failed, PW_OK);
    assert_string_equal(
        f.out.ptr, "{\"s\":\"a\\\"b\\\\c\\n\\u0001\x7f\xC3\xA9/\",\"empty\":\"\",\"none\":null,"
                   "\"least\":-9223372036854775808,\"yes\":true,\"raw\":[1.0],"
                   "\"at\":\"1970-01-01T00:00:00.000Z\",\"never\":null,"
                   "\"list\":[1,null,false,{},[],\"x\"],\"k\\\"\\n\":0}");
    assert_true(pw_json_valid(pw_buffer_str(&f.out)));
    end(&f);
}

static void test_escapes_are_found_at_every_offset(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    char text[40];
    for (size_t len = 1; len <= sizeof text; len++) {
        for (size_t at = 0; at < len; at++) {
            for (unsigned c = 0; c < 128; c++) {
                memset(text, 'a', len);
                text[at] = (char)c;
                pw_buffer_clear(&f.out);
                (void)pw_buffer_byte(&f.out, '"');
                pw_json_escape(&f.out, (pw_str){text, len});
                (void)pw_buffer_byte(&f.out, '"');
                const pw_json *back = read_json(&f, pw_buffer_str(&f.out));
                assert_true(pw_str_equal(back->text, (pw_str){text, len}));
            }
        }
        pw_arena_reset(&f.arena);
    }
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_A6_canonical_json_sorts_keys),
        cmocka_unit_test(test_A6_canonical_form_of_many_keys),
        cmocka_unit_test(test_A8_clean_keeps_order_and_mends_strings),
        cmocka_unit_test(test_deepest_trees_are_written_and_compared),
        cmocka_unit_test(test_writing_is_all_or_nothing),
        cmocka_unit_test(test_equality),
        cmocka_unit_test(test_writer_puts_commas_and_colons),
        cmocka_unit_test(test_escapes_are_found_at_every_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
