/*
 * What is wrong with an agent's files: collected, so that one look shows all of it, and told with
 * file, line and key. A message of another room begins with a path of its own; the value it is
 * about is found by that path.
 */
#include <stdarg.h>

#include "agent/agent_inner.h"
#include "base/format.h"
#include "base/utf8.h"

#define PROBLEMS_MAX ((size_t)200)
#define PATH_BYTES ((size_t)200)

void pw_problems_init(pw_problems *p, pw_arena *arena)
{
    *p = (pw_problems){.arena = arena};
    pw_buffer_init_arena(&p->list, arena, PROBLEMS_MAX * sizeof(pw_problem));
}

size_t pw_problems_count(const pw_problems *p)
{
    return p->list.len / sizeof(pw_problem);
}

static const pw_problem *list_of(const pw_problems *p)
{
    return (const pw_problem *)(const void *)p->list.ptr;
}

/* Two checks may find fault with the same key: once is enough. */
static bool is_known(const pw_problems *p, pw_str path, int line, pw_str text)
{
    const size_t colon = pw_str_find(text, PW_STR(": "));
    if (line == 0 || colon == SIZE_MAX) {
        return false;
    }
    const pw_str key = pw_str_slice(text, 0, colon + 1);
    for (size_t i = 0; i < pw_problems_count(p); i++) {
        const pw_problem *known = &list_of(p)[i];
        if (known->line == line && pw_str_equal(known->path, path) &&
            pw_str_begins(known->text, key)) {
            return true;
        }
    }
    return false;
}

void pw_problem_add(pw_problems *p, pw_status status, pw_str path, int line, const char *format,
                    ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    const size_t whole = pw_format_va(text, sizeof text, format, args);
    va_end(args);
    size_t len = whole < sizeof text ? whole : sizeof text - 1;
    len = pw_utf8_cut((pw_str){text, len}, len);
    if (pw_problems_count(p) == PROBLEMS_MAX || is_known(p, path, line, (pw_str){text, len})) {
        return; /* nobody reads more than so many */
    }
    pw_problem problem = {.status = status, .path = path, .line = line};
    if (status == PW_NOMEM || pw_arena_dup(p->arena, (pw_str){text, len}, &problem.text) != PW_OK ||
        pw_buffer_add(&p->list, (pw_str){(const char *)&problem, sizeof problem}) != PW_OK) {
        p->no_memory = true;
    }
}

static pw_status write_one(pw_buffer *out, const pw_problem *problem, pw_str path)
{
    if (path.len > 0) { /* else the text says it */
        (void)pw_buffer_add(out, path);
        if (problem->line > 0) {
            (void)pw_buffer_format(out, ":%d", problem->line);
        }
        (void)pw_buffer_add(out, PW_STR(": "));
    }
    return pw_buffer_add(out, problem->text);
}

/* Stable, and few: the order of files is that of their first problem. */
static void sort_lines(const pw_problems *p)
{
    pw_problem *list = (pw_problem *)(void *)p->list.ptr;
    for (size_t i = 1; i < pw_problems_count(p); i++) {
        const pw_problem moving = list[i];
        size_t at = i;
        while (at > 0 && pw_str_equal(list[at - 1].path, moving.path) &&
               list[at - 1].line > moving.line) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = moving;
    }
}

pw_status pw_problems_end(pw_problems *p, pw_buffer *report, pw_error *error)
{
    if (p->no_memory) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    sort_lines(p);
    for (size_t i = 0; report != NULL && i < pw_problems_count(p); i++) {
        (void)write_one(report, &list_of(p)[i], list_of(p)[i].path);
        (void)pw_buffer_byte(report, '\n');
    }
    if (pw_problems_count(p) == 0) {
        return PW_OK;
    }
    const pw_problem *first = list_of(p);
    pw_str path = first->path;
    if (path.len > PATH_BYTES / 2) { /* an error's message is short: its end tells more */
        size_t cut = path.len - PATH_BYTES / 2;
        while (cut < path.len && path.ptr[cut] != '/') {
            cut++;
        }
        path = cut < path.len ? pw_str_slice(path, cut + 1, path.len) : path;
    }
    pw_buffer text;
    pw_buffer_init_arena(&text, p->arena, PATH_BYTES * 100);
    if (write_one(&text, first, path) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    return PW_FAIL(error, first->status, "%.*s", PW_STR_ARG(pw_buffer_str(&text)));
}

/* --- Places ----------------------------------------------------------------------------------- */

int pw_source_line(const pw_source *source, const pw_json *value)
{
    return value != NULL ? pw_yaml_line(source->lines, source->json, value->raw) : 0;
}

static bool holds(const pw_json *outer, const pw_json *inner)
{
    return inner->raw.ptr >= outer->raw.ptr &&
           inner->raw.ptr + inner->raw.len <= outer->raw.ptr + outer->raw.len;
}

pw_str pw_source_path(const pw_source *source, const pw_json *value, pw_arena *arena)
{
    pw_buffer path;
    pw_buffer_init_arena(&path, arena, PATH_BYTES);
    const pw_json *at = source->root;
    while (at != NULL && at != value) {
        unsigned index = 0;
        const pw_json *member = at->child;
        while (member != NULL && !holds(member, value)) {
            member = member->next;
            index++;
        }
        if (member != NULL && at->type == PW_JSON_ARRAY) {
            (void)pw_buffer_format(&path, "[%u]", index);
        } else if (member != NULL) {
            (void)pw_buffer_add(&path, path.len > 0 ? PW_STR(".") : PW_STR(""));
            (void)pw_buffer_add(&path, member->key);
        }
        at = member;
    }
    return pw_buffer_str(&path);
}

static bool ends_segment(char c)
{
    return c == '.' || c == '[' || c == ']' || c == '/' || c == ':' || c == ' ';
}

const pw_json *pw_source_find(const pw_json *from, pw_str message)
{
    const pw_json *at = from;
    size_t i = 0;
    while (i < message.len && message.ptr[i] != ':' && message.ptr[i] != ' ') {
        if (ends_segment(message.ptr[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < message.len && !ends_segment(message.ptr[end])) {
            end++;
        }
        const pw_str segment = pw_str_slice(message, i, end);
        uint64_t index = 0;
        const pw_json *next = NULL;
        if (pw_json_is(at, PW_JSON_OBJECT)) {
            next = pw_json_get_str(at, segment);
        } else if (pw_json_is(at, PW_JSON_ARRAY) && pw_str_u64(segment, &index)) {
            next = pw_json_at(at, (size_t)index);
        }
        if (next == NULL) {
            break;
        }
        at = next;
        i = end;
    }
    return at;
}
