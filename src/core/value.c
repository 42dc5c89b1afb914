#include "core/value.h"

#include "base/utf8.h"

size_t pw_value_depth(pw_str json)
{
    size_t depth = 0, deepest = 0;
    bool string = false;
    for (size_t i = 0; i < json.len; i++) {
        const char c = json.ptr[i];
        if (string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                string = false;
            }
        } else if (c == '"') {
            string = true;
        } else if (c == '[' || c == '{') {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return deepest;
}

/* The unit that `\uXXXX` at `at` names; -1: there is no such escape. */
static int32_t escaped_unit(pw_str json, size_t at)
{
    if (at + 6 > json.len || json.ptr[at] != '\\' || json.ptr[at + 1] != 'u') {
        return -1;
    }
    int32_t unit = 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        const char c = json.ptr[i];
        const int32_t digit = c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Is there an escape of half a pair or of a NUL, or invalid UTF-8? Escapes stand in strings alone.
 */
static bool needs_mending(pw_str json)
{
    for (size_t i = 0; i < json.len; i++) {
        const size_t more = pw_str_find_byte(pw_str_slice(json, i, json.len), '\\');
        if (more == SIZE_MAX) {
            break;
        }
        i += more;
        const int32_t unit = escaped_unit(json, i), next = escaped_unit(json, i + 6);
        if (unit == 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) {
            return true;
        }
        if (unit >= 0xD800 && unit <= 0xDBFF) {
            if (next < 0xDC00 || next > 0xDFFF) {
                return true;
            }
            i += 6;
        }
        i += unit >= 0 ? 5 : 1;
    }
    return !pw_utf8_valid(json);
}

pw_status pw_value_clean(pw_arena *arena, pw_str json, pw_str *ret, bool *ret_fit)
{
    if (!needs_mending(json)) {
        *ret_fit = pw_json_valid_within(json, PW_VALUE_DEPTH_MAX);
        *ret = json;
        return PW_OK;
    }
    const pw_json *tree;
    const pw_status status = pw_json_parse(arena, json, PW_JSON_MEND_UTF8, &tree, NULL);
    if (status == PW_NOMEM) {
        return status;
    }
    *ret_fit = false;
    if (status != PW_OK || pw_value_depth(tree->raw) > PW_VALUE_DEPTH_MAX) {
        return PW_OK;
    }
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
    PW_TRY(pw_json_clean(&out, tree));
    *ret = pw_buffer_str(&out);
    *ret_fit = true;
    return PW_OK;
}

static size_t escaped_size(unsigned char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '\b':
    case '\f':
    case '\n':
    case '\r':
    case '\t':
        return 2;
    default:
        return c < 0x20 ? 6 : 1;
    }
}

size_t pw_value_escaped_cut(pw_str text, size_t limit)
{
    size_t size = 0, at = 0;
    while (at < text.len) {
        const size_t more = escaped_size((unsigned char)text.ptr[at]);
        if (size + more > limit) {
            return pw_utf8_cut(text, at);
        }
        size += more;
        at++;
    }
    return text.len;
}

/* The prefix of at most `characters` characters of valid UTF-8. */
static size_t characters_cut(pw_str text, size_t characters)
{
    size_t seen = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (((unsigned char)text.ptr[i] & 0xC0) != 0x80) {
            if (seen == characters) {
                return i;
            }
            seen++;
        }
    }
    return text.len;
}

pw_status pw_value_text(pw_arena *arena, pw_str text, size_t characters, pw_str *ret)
{
    if (!pw_utf8_clean(text)) {
        pw_buffer mended;
        pw_buffer_init_arena(&mended, arena, PW_BODY_MAX);
        PW_TRY(pw_utf8_mend(&mended, text));
        text = pw_buffer_str(&mended);
    }
    *ret = pw_str_slice(text, 0, characters_cut(text, characters));
    return PW_OK;
}

pw_status pw_value_of_error(pw_arena *arena, pw_str error_class, pw_str message, pw_str *ret)
{
    pw_buffer whole;
    pw_buffer_init_arena(&whole, arena, PW_BODY_MAX);
    if (error_class.len > 0) {
        (void)pw_buffer_add(&whole, error_class);
        (void)pw_buffer_add(&whole, PW_STR(": "));
    }
    (void)pw_buffer_add(&whole, message);
    PW_TRY(whole.failed);
    pw_str text;
    PW_TRY(pw_value_text(arena, pw_buffer_str(&whole), PW_ERROR_CHARACTERS_MAX, &text));
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
    pw_json_writer w;
    pw_json_begin(&w, &out);
    pw_json_object(&w);
    pw_json_put_str(&w, "error", text.ptr ? text : PW_STR(""));
    pw_json_object_end(&w);
    PW_TRY(out.failed);
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

/* A result over its limit: its size and its first part, as text (D7). */
static pw_status cut_result(pw_arena *arena, pw_str json, size_t limit, pw_str *ret)
{
    pw_str text = json;
    if (json.len > 0 && json.ptr[0] == '"') {
        const pw_json *tree;
        PW_TRY(pw_json_parse(arena, json, 0, &tree, NULL));
        text = pw_json_text(tree);
    }
    pw_buffer head;
    pw_buffer_init_arena(&head, arena, PW_BODY_MAX);
    (void)pw_buffer_add(&head, PW_STR("{\"truncated\":true,\"bytes\":"));
    (void)pw_buffer_u64(&head, json.len);
    (void)pw_buffer_add(&head, PW_STR(",\"text\":\""));
    PW_TRY(head.failed);
    const size_t around = head.len + 2;
    text.len = pw_value_escaped_cut(text, limit > around ? limit - around : 0);
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
    PW_TRY(pw_buffer_reserve(&out, limit > around ? limit : around));
    (void)pw_buffer_add(&out, pw_buffer_str(&head));
    pw_json_escape(&out, text);
    (void)pw_buffer_add(&out, PW_STR("\"}"));
    PW_TRY(out.failed);
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

pw_status pw_value_of_result(pw_arena *arena, pw_str result, int64_t limit, pw_value *ret)
{
    pw_str json;
    bool fit;
    PW_TRY(pw_value_clean(arena, pw_str_trim(result), &json, &fit));
    if (!fit) {
        pw_str text;
        PW_TRY(pw_value_text(arena, result, SIZE_MAX, &text));
        pw_buffer out;
        pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
        (void)pw_buffer_byte(&out, '"');
        pw_json_escape(&out, text);
        (void)pw_buffer_byte(&out, '"');
        PW_TRY(out.failed);
        json = pw_buffer_str(&out);
    }
    ret->cut = limit >= 0 && json.len > (uint64_t)limit;
    ret->json = json;
    if (ret->cut) {
        PW_TRY(cut_result(arena, json, (size_t)limit, &ret->json));
    }
    return PW_OK;
}
