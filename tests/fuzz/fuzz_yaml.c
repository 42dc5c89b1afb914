/*
 * Any bytes as YAML. What must hold: the JSON is valid, its keys are unique and its depth is
 * bounded; every value has a line inside the file; an error names file and line and is valid text.
 */
#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"
#include "base/heap.h"
#include "base/utf8.h"

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lines(const pw_yaml_lines *lines, pw_str json, const pw_json *root, int last)
{
    const pw_json *way[PW_JSON_MAX_DEPTH + 1];
    size_t depth = 0;
    way[0] = root;
    for (;;) {
        const pw_json *at = way[depth];
        const int line = pw_yaml_line(lines, json, at->raw);
        MUST(line >= 1 && line <= last);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pw_str yaml = {(const char *)data, size};
    int last = 1;
    for (size_t i = 0; i < size; i++) { /* YAML also breaks lines at CR, NEL, LS and PS */
        last += data[i] == '\n' || data[i] == '\r' || data[i] == 0x85 || data[i] == 0xA8 ||
                data[i] == 0xA9;
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str json = PW_STR_NONE;
    const pw_yaml_lines *lines = NULL;
    pw_error error = {0};
    const pw_status status = pw_yaml_to_json(yaml, PW_STR("f"), &arena, &json, &lines, &error);
    if (status == PW_OK) {
        const pw_json *root = NULL;
        MUST(pw_json_parse(&arena, json, PW_JSON_UNIQUE_KEYS, &root, NULL) == PW_OK);
        MUST(pw_utf8_clean(json));
        check_lines(lines, json, root, last + 1);
    } else {
        MUST(status == PW_INVALID);
        MUST(pw_str_begins(pw_str_from(error.message), PW_STR("f:")));
        MUST(pw_utf8_clean(pw_str_from(error.message)));
    }
    pw_arena_free(&arena);
    return 0;
}
