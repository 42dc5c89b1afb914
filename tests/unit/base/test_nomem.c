/*
 * Memory that fails at the k-th request, once and for ever, for every k until nothing fails: each
 * function answers PW_NOMEM or the right thing, and gives back what it took.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/schema.h"
#include "base/utf8.h"
#include "support/failing_allocator.h"

/* Runs with what t hands out and frees all of it; any answer but PW_OK and PW_NOMEM is a failure.
 */
typedef pw_status (*scenario)(pw_test_allocator *t);

static void sweep(scenario run)
{
    for (int forever = 0; forever < 2; forever++) {
        uint64_t k = 0;
        bool clean = false;
        while (!clean) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            pw_test_allocator_fail(&t, ++k, forever != 0);
            const pw_status status = run(&t);
            assert_true(status == PW_OK || status == PW_NOMEM);
            assert_true(status == PW_OK || t.failed > 0);
            assert_int_equal(t.live_bytes, 0);
            assert_int_equal(t.live_blocks, 0);
            clean = t.failed == 0;
            assert_true(k < 10000);
        }
        assert_true(k > 1); /* it does allocate */
    }
}

static size_t make_document(char *text, size_t size)
{
    size_t len = 0;
    text[len++] = '[';
    for (int i = 0; i < 120; i++) {
        len += (size_t)snprintf(
            text + len, size - len,
            "%s{\"z%d\":\"a\\n\\u00e9 %d\",\"a\":[1.5,true,{\"y\":null,\"x\":\"\\ud800\"}],"
            "\"a\":%d}",
            i > 0 ? "," : "", i, i, i);
    }
    text[len++] = ']';
    return len;
}

static char document[16384];
static size_t document_len;

static pw_status parse_into(pw_arena *arena, const pw_json **ret)
{
    const size_t held = arena->held;
    pw_error error;
    const pw_status status = pw_json_parse(arena, (pw_str){document, document_len}, 0, ret, &error);
    if (status != PW_OK) {
        assert_int_equal(error.code, status);
        assert_int_equal(arena->held, held);
    }
    return status;
}

static pw_status run_parse(pw_test_allocator *t)
{
    pw_arena arena;
    pw_arena_init(&arena, &t->allocator, 0, 0);
    const pw_json *json = NULL;
    const pw_status status = parse_into(&arena, &json);
    if (status == PW_OK) {
        assert_int_equal(json->count, 120);
        assert_int_equal(pw_json_i64_or(pw_json_get(pw_json_at(json, 119), "a"), -1), 119);
    } else {
        assert_null(json);
    }
    pw_arena_free(&arena);
    return status;
}

static pw_status run_parse_unique(pw_test_allocator *t)
{
    pw_arena arena;
    pw_arena_init(&arena, &t->allocator, 64, 0);
    const pw_json *json;
    const pw_status status = pw_json_parse(
        &arena, PW_STR("{\"b\":{\"y\":1,\"x\":[1,2,3],\"w\":\"\\n\"},\"a\":2,\"c\":{}}"),
        PW_JSON_UNIQUE_KEYS, &json, NULL);
    pw_arena_free(&arena);
    return status;
}

static pw_status write_out(pw_test_allocator *t, bool canonical, bool in_arena)
{
    pw_arena arena;
    pw_arena_init(&arena, &t->allocator, 0, 0);
    pw_buffer out;
    if (in_arena) {
        pw_buffer_init_arena(&out, &arena, 1 << 20);
    } else {
        pw_buffer_init(&out, &t->allocator, 1 << 20);
    }
    const pw_json *json;
    pw_status status = parse_into(&arena, &json);
    if (status == PW_OK) {
        status = canonical ? pw_json_canonical(&out, json, &arena) : pw_json_clean(&out, json);
        assert_int_equal(out.failed, status);
        if (status == PW_OK) {
            assert_true(pw_json_valid(pw_buffer_str(&out)));
            assert_true(pw_utf8_valid(pw_buffer_str(&out)));
        } else {
            assert_int_equal(out.len, 0);
        }
    }
    pw_buffer_free(&out);
    pw_arena_free(&arena);
    return status;
}

static pw_status run_canonical(pw_test_allocator *t)
{
    return write_out(t, true, false);
}

static pw_status run_canonical_in_arena(pw_test_allocator *t)
{
    return write_out(t, true, true);
}

static pw_status run_clean(pw_test_allocator *t)
{
    return write_out(t, false, false);
}

/* The verdict must be right or absent: never a wrong yes or no. */
static pw_status apply(pw_test_allocator *t, const char *value_text, pw_status right)
{
    static const char schema_text[] =
        "{\"$defs\":{\"n\":{\"anyOf\":[{\"type\":\"null\"},{\"oneOf\":[{\"type\":\"integer\"},{"
        "\"allOf\":[{"
        "\"not\":{\"type\":\"number\"}},{\"$ref\":\"#/$defs/"
        "list\"}]}]}]},\"list\":{\"type\":\"array\","
        "\"uniqueItems\":true,\"items\":{\"$ref\":\"#/$defs/n\"}}},\"properties\":{\"v\":{\"$ref\":"
        "\"#/$defs/n\"}},\"required\":[\"v\"],\"additionalProperties\":false}";
    pw_arena arena, scratch;
    pw_arena_init(&arena, &t->allocator, 0, 0);
    pw_arena_init(&scratch, &t->allocator, 64, 0);
    const pw_json *schema, *value, *at = NULL;
    pw_error error = {0};
    pw_status status = pw_json_parse(&arena, pw_str_from(schema_text), 0, &schema, &error);
    if (status == PW_OK) {
        status = pw_json_parse(&arena, pw_str_from(value_text), 0, &value, &error);
    }
    if (status == PW_OK) {
        status = pw_schema_check(schema, &scratch, &error);
    }
    if (status == PW_OK) {
        status = pw_schema_apply(schema, value, &scratch, &at, &error);
        assert_true(status == right || status == PW_NOMEM);
        assert_int_equal(status == PW_INVALID, at != NULL);
        status = status == right ? PW_OK : status;
    }
    pw_arena_free(&scratch);
    pw_arena_free(&arena);
    return status;
}

static pw_status run_schema_that_fits(pw_test_allocator *t)
{
    return apply(t, "{\"v\":[1,[2,null,[[3],[4]]],[]]}", PW_OK);
}

static pw_status run_schema_that_fails(pw_test_allocator *t)
{
    return apply(t, "{\"v\":[1,[2,null,[[3],[3.0]]],[]]}", PW_INVALID);
}

static pw_status run_buffer(pw_test_allocator *t)
{
    pw_buffer b;
    pw_buffer_init(&b, &t->allocator, 1 << 20);
    pw_status last = PW_OK;
    for (int i = 0; i < 300; i++) {
        const size_t before = b.len;
        pw_status status;
        switch (i % 5) {
        case 0:
            status = pw_buffer_add(&b, PW_STR("0123456789abcdef"));
            break;
        case 1:
            status = pw_buffer_byte(&b, 'x');
            break;
        case 2:
            status = pw_buffer_i64(&b, -123456789);
            break;
        case 3:
            status = pw_buffer_format(&b, "%d-%s", i, "formatted text of some length");
            break;
        default:
            status = pw_utf8_mend(&b, PW_STR("ab\xFF\0cd"));
            break;
        }
        assert_true(status == PW_OK || b.len == before);
        assert_true(last == PW_OK || status == last);
        assert_true(b.ptr == NULL || b.ptr[b.len] == '\0');
        last = status;
    }
    assert_int_equal(b.failed, last);
    pw_buffer_free(&b);
    return last;
}

static pw_status run_arena(pw_test_allocator *t)
{
    pw_arena arena;
    pw_arena_init(&arena, &t->allocator, 0, 0);
    pw_status status = PW_OK;
    const pw_arena_mark start = pw_arena_mark_get(&arena);
    for (size_t i = 0; i < 200; i++) {
        const pw_arena_mark mark = pw_arena_mark_get(&arena);
        const size_t held = arena.held;
        const size_t size = i % 7 == 0 ? 5000 * i : 48;
        unsigned char *at = pw_arena_alloc(&arena, size);
        if (at == NULL) {
            status = PW_NOMEM;
            assert_int_equal(arena.held, held);
            assert_ptr_equal(pw_arena_mark_get(&arena).head, mark.head);
            assert_int_equal(pw_arena_mark_get(&arena).used, mark.used);
        } else {
            memset(at, 1, size);
        }
        if (i % 13 == 0) {
            pw_arena_rewind(&arena, mark);
        }
    }
    pw_arena_rewind(&arena, start);
    assert_int_equal(arena.held, 0);
    return status;
}

static void test_allocation_failures_are_answered(void **state)
{
    (void)state;
    document_len = make_document(document, sizeof document);
    static const scenario scenarios[] = {
        run_parse, run_parse_unique,     run_canonical,         run_canonical_in_arena,
        run_clean, run_schema_that_fits, run_schema_that_fails, run_buffer,
        run_arena,
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        sweep(scenarios[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation_failures_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
