/*
 * Any bytes through the JSON reader and the writers. What must hold: reader and judge agree; a tree
 * lies inside its text; cleaned output parses and cleans to itself; canonical output parses, is its
 * own canonical form, and equals what it came from; an error has a message and leaves no memory.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/utf8.h"

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tree(const pw_json *json, pw_str text)
{
    const pw_json *way[PW_JSON_MAX_DEPTH + 1];
    size_t depth = 0;
    way[0] = json;
    for (;;) {
        const pw_json *at = way[depth];
        MUST(at->raw.ptr >= text.ptr && at->raw.ptr + at->raw.len <= text.ptr + text.len);
        MUST(at->raw.len > 0 && pw_utf8_valid(at->text) && pw_utf8_valid(at->key));
        uint32_t count = 0;
        for (const pw_json *m = at->child; m != NULL; m = m->next) {
            count++;
        }
        MUST(count == at->count);
        int64_t number;
        (void)pw_json_i64(at, &number);
        (void)pw_json_micros(at, &number);
        if (at->child != NULL) {
            MUST(depth < PW_JSON_MAX_DEPTH);
            way[++depth] = at->child;
            continue;
        }
        while (depth > 0 && way[depth]->next == NULL) {
            depth--;
        }
        if (depth == 0) {
            return;
        }
        way[depth] = way[depth]->next;
    }
}

static void write_both(const pw_json *json, pw_arena *arena, pw_buffer *clean, pw_buffer *canonical)
{
    MUST(pw_json_clean(clean, json) == PW_OK);
    MUST(pw_json_canonical(canonical, json, arena) == PW_OK);
    MUST(pw_json_valid(pw_buffer_str(clean)) && pw_json_valid(pw_buffer_str(canonical)));
    MUST(pw_utf8_clean(pw_buffer_str(clean)) && pw_utf8_clean(pw_buffer_str(canonical)));
}

static void check_writers(const pw_json *json, pw_arena *arena)
{
    pw_buffer out[4];
    for (int i = 0; i < 4; i++) {
        pw_buffer_init(&out[i], &pw_heap, (size_t)1 << 28);
    }
    const pw_json *again, *sorted;
    write_both(json, arena, &out[0], &out[1]);
    MUST(pw_json_parse(arena, pw_buffer_str(&out[0]), 0, &again, NULL) == PW_OK);
    MUST(pw_json_clean(&out[2], again) == PW_OK);
    MUST(pw_str_equal(pw_buffer_str(&out[0]), pw_buffer_str(&out[2])));
    MUST(pw_json_parse(arena, pw_buffer_str(&out[1]), PW_JSON_UNIQUE_KEYS, &sorted, NULL) == PW_OK);
    MUST(pw_json_canonical(&out[3], sorted, arena) == PW_OK);
    MUST(pw_str_equal(pw_buffer_str(&out[1]), pw_buffer_str(&out[3])));
    MUST(pw_json_equal(json, sorted) && pw_json_equal(sorted, json));
    MUST(pw_json_equal_value(json, sorted) && pw_json_equal_value(sorted, json));
    for (int i = 0; i < 4; i++) {
        pw_buffer_free(&out[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pw_str text = {(const char *)data, size};
    pw_arena arena;
    const bool valid = pw_json_valid(text);
    for (int flags = 0; flags < 4; flags++) {
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_json *json = NULL;
        pw_error error = {0};
        const pw_status status = pw_json_parse(&arena, text, flags, &json, &error);
        MUST(flags != 0 || (status == PW_OK) == valid);
        MUST(flags != PW_JSON_MEND_UTF8 || status == PW_OK || !valid);
        if (status == PW_OK) {
            check_tree(json, text);
            check_writers(json, &arena);
        } else {
            MUST(json == NULL && arena.held == 0 && error.message[0] != '\0');
            MUST(pw_utf8_clean(pw_str_from(error.message)));
        }
        pw_arena_free(&arena);
    }
    /* Any text, mended, can be written as a string and read back. */
    pw_buffer mended, quoted;
    pw_buffer_init(&mended, &pw_heap, (size_t)1 << 28);
    pw_buffer_init(&quoted, &pw_heap, (size_t)1 << 28);
    MUST(pw_utf8_mend(&mended, text) == PW_OK);
    pw_json_writer w;
    pw_json_begin(&w, &quoted);
    pw_json_string(&w, pw_buffer_str(&mended));
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *json;
    MUST(pw_json_parse(&arena, pw_buffer_str(&quoted), 0, &json, NULL) == PW_OK);
    MUST(pw_str_equal(json->text, pw_buffer_str(&mended)));
    pw_arena_free(&arena);
    pw_buffer_free(&mended);
    pw_buffer_free(&quoted);
    return 0;
}
