/*
 * An input is [schema, value]. What must hold: a schema that passes the check gives a verdict or
 * ends by its budget; the verdict is the same the second time and with less memory to scratch in;
 * `not` of it is the opposite; its canonical form and the value's give the same verdict; the value
 * at fault is inside the value.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/schema.h"
#include "base/utf8.h"

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pw_status verdict(const pw_json *schema, const pw_json *value, pw_arena *arena)
{
    const pw_json *at = NULL;
    pw_error error = {0};
    const size_t held = arena->held;
    const pw_status status = pw_schema_apply(schema, value, arena, &at, &error);
    MUST(arena->held == held);
    MUST(status == PW_OK || status == PW_INVALID || status == PW_TOO_LARGE);
    MUST((status == PW_OK) == (error.message[0] == '\0'));
    MUST(pw_utf8_valid(pw_str_from(error.message)));
    if (at != NULL) {
        MUST(status == PW_INVALID && at->raw.ptr >= value->raw.ptr &&
             at->raw.ptr + at->raw.len <= value->raw.ptr + value->raw.len);
    }
    return status;
}

/* The same schema under `not`, without $ref (which would lead elsewhere). */
static void check_opposite(const pw_json *schema, const pw_json *value, pw_status was,
                           pw_arena *arena)
{
    if (pw_str_find(schema->raw, PW_STR("ref")) != SIZE_MAX ||
        pw_str_find(schema->raw, PW_STR("\\")) != SIZE_MAX || was == PW_TOO_LARGE) {
        return;
    }
    pw_buffer text;
    pw_buffer_init(&text, &pw_heap, (size_t)1 << 28);
    MUST(pw_buffer_format(&text, "{\"not\":") == PW_OK);
    MUST(pw_buffer_add(&text, schema->raw) == PW_OK && pw_buffer_byte(&text, '}') == PW_OK);
    const pw_json *opposite;
    if (pw_json_parse(arena, pw_buffer_str(&text), 0, &opposite, NULL) == PW_OK) {
        const pw_status status = verdict(opposite, value, arena);
        MUST(status == PW_TOO_LARGE || (status == PW_OK) == (was == PW_INVALID));
    }
    pw_buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *pair;
    pw_error error = {0};
    if (pw_json_parse(&arena, (pw_str){(const char *)data, size}, 0, &pair, NULL) == PW_OK &&
        pw_json_is(pair, PW_JSON_ARRAY) && pair->count == 2) {
        const pw_json *schema = pair->child, *value = schema->next;
        if (pw_schema_check(schema, &arena, &error) == PW_OK) {
            const pw_status was = verdict(schema, value, &arena);
            MUST(verdict(schema, value, &arena) == was);
            check_opposite(schema, value, was, &arena);
        } else {
            MUST(error.message[0] != '\0');
            (void)pw_schema_apply(schema, value, &arena, NULL, &error); /* no harm */
        }
    }
    pw_arena_free(&arena);
    return 0;
}
