/*
 * A strict provider: what it would answer 400 to. Written from the rules (C9, case N1) and apart
 * from the engine's own checker, on purpose in another way: it walks backwards from each message.
 */
#include "sim.h"

static const char *check_text(pw_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        size_t more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c == 0 || (c >= 0x80 && c < 0xc2) || c > 0xf4 || i + more >= text.len) {
            return c == 0 ? "a NUL in text" : "text that is not UTF-8";
        }
        uint32_t code = more == 0 ? c : more == 1 ? c & 31u : more == 2 ? c & 15u : c & 7u;
        for (size_t k = 1; k <= more; k++) {
            uint8_t next = (uint8_t)text.ptr[i + k];
            if ((next & 0xc0) != 0x80) {
                return "text that is not UTF-8";
            }
            code = code << 6 | (next & 63u);
        }
        if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000) || code > 0x10ffff ||
            (code >= 0xd800 && code < 0xe000)) {
            return "text that is not UTF-8";
        }
        i += more;
    }
    return NULL;
}

static const char *check_parts(const pw_message *m)
{
    for (size_t i = 0; i < m->part_count; i++) {
        const pw_part *p = &m->parts[i];
        const char *what = check_text(p->text);
        what = what ? what : check_text(p->name);
        if (what) {
            return what;
        }
        if (p->kind == PW_PART_TOOL_CALL) {
            if (m->role != PW_ROLE_ASSISTANT) {
                return "a call that no model made";
            }
            if (p->call.len == 0) {
                return "a call without an id";
            }
            if (!p->broken && !pw_json_valid(p->arguments)) {
                return "arguments that are no JSON";
            }
        }
        if (p->kind == PW_PART_TEXT && p->text.len == 0 && p->raw.len == 0) {
            return "an empty text block";
        }
    }
    return NULL;
}

/* The message `at` is a result: which call does it answer? Walk back over the results before it. */
static const char *check_result(const pw_message *const *list, size_t at)
{
    size_t results = 0, said = at;
    while (said > 0 && list[said - 1]->role == PW_ROLE_TOOL) {
        said--;
        results++;
    }
    if (said == 0 || list[said - 1]->role != PW_ROLE_ASSISTANT) {
        return "a result without a call before it";
    }
    const pw_message *m = list[said - 1];
    for (size_t i = 0; i < m->part_count; i++) {
        if (m->parts[i].kind == PW_PART_TOOL_CALL && results-- == 0) {
            return pw_str_equal(m->parts[i].call, list[at]->call) ? NULL : "results out of order";
        }
    }
    return "more results than calls";
}

static size_t calls_of(const pw_message *m)
{
    size_t calls = 0;
    for (size_t i = 0; i < m->part_count; i++) {
        calls += m->parts[i].kind == PW_PART_TOOL_CALL;
    }
    return calls;
}

const char *strict_check(const pw_message *const *list, size_t count)
{
    if (count == 0) {
        return "nothing is asked";
    }
    if (list[0]->role != PW_ROLE_USER && list[0]->role != PW_ROLE_TRIGGER) {
        return "it does not begin with a person";
    }
    if (list[count - 1]->role == PW_ROLE_ASSISTANT && calls_of(list[count - 1]) > 0) {
        return "calls without results at the end";
    }
    size_t owed = 0;
    for (size_t i = 0; i < count; i++) {
        const pw_message *m = list[i];
        const char *what = NULL;
        if (m->role == PW_ROLE_TOOL) {
            what = pw_json_valid(m->result) ? check_text(m->result) : "a result that is no JSON";
            what = what ? what : check_result(list, i);
            owed -= owed > 0 ? 1 : 0;
        } else if (owed > 0) {
            what = "a call without its result";
        } else {
            what = check_parts(m);
            owed = m->role == PW_ROLE_ASSISTANT ? calls_of(m) : 0;
        }
        if (what) {
            return what;
        }
    }
    return owed > 0 ? "a call without its result" : NULL;
}
