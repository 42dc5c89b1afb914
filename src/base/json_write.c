/*
 * The JSON writer: commas and colons are its own affair, escapes go out by runs. It keeps no
 * status: a failure sticks in the buffer, and its callers look there once, at the end.
 */
#include "base/clock.h"
#include "base/json_inner.h"
#include "base/utf8.h"
#include "base/utf8_inner.h"

/* Length of the run at the front that needs no escape. */
static size_t plain_run(pw_str s)
{
    const char *p = s.ptr, *const end = p + s.len;
    while (end - p >= 8) {
        const uint64_t word = pw_load8(p);
        const uint64_t marks =
            pw_bytes_below(word, 0x20) | pw_bytes_equal(word, '"') | pw_bytes_equal(word, '\\');
        if (marks != 0) {
            p += pw_bytes_before_mark(marks);
            break;
        }
        p += 8;
    }
    while (p < end && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') {
        p++;
    }
    return (size_t)(p - s.ptr);
}

static void escape_byte(pw_buffer *out, unsigned char c, bool nul_mended)
{
    static const char hex[] = "0123456789abcdef";
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    size_t len = 2;
    switch (c) {
    case '"':
    case '\\':
        text[1] = (char)c;
        break;
    case '\b':
        text[1] = 'b';
        break;
    case '\f':
        text[1] = 'f';
        break;
    case '\n':
        text[1] = 'n';
        break;
    case '\r':
        text[1] = 'r';
        break;
    case '\t':
        text[1] = 't';
        break;
    default:
        len = c == 0 && nul_mended ? pw_utf8_encode(0xFFFD, text) : 6;
    }
    pw_buffer_add(out, (pw_str){text, len});
}

static void escape_as(pw_buffer *out, pw_str s, bool nul_mended)
{
    while (s.len > 0) {
        const size_t run = plain_run(s);
        pw_buffer_add(out, pw_str_slice(s, 0, run));
        if (run == s.len || out->failed != PW_OK) {
            return;
        }
        escape_byte(out, (unsigned char)s.ptr[run], nul_mended);
        s = pw_str_slice(s, run + 1, s.len);
    }
}

void pw_json_escape(pw_buffer *out, pw_str s)
{
    escape_as(out, s, false);
}

void pw_json_quote(pw_buffer *out, pw_str s, bool nul_mended)
{
    if (s.len > SIZE_MAX - 2 || pw_buffer_reserve(out, s.len + 2) != PW_OK) {
        return;
    }
    const size_t run = s.len > 0 ? plain_run(s) : 0;
    char *to = out->ptr + out->len;
    *to++ = '"';
    if (run > 0) {
        memcpy(to, s.ptr, run);
        to += run;
    }
    if (run == s.len) { /* the usual string has nothing to escape */
        *to++ = '"';
        *to = '\0';
        out->len += s.len + 2;
        return;
    }
    *to = '\0';
    out->len += run + 1;
    escape_as(out, pw_str_slice(s, run, s.len), nul_mended);
    pw_buffer_byte(out, '"');
}

void pw_json_begin(pw_json_writer *w, pw_buffer *out)
{
    w->out = out;
    w->depth = 0;
    w->comma[0] = false;
    w->after_key = false;
}

static void before_value(pw_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->comma[w->depth]) {
        pw_buffer_byte(w->out, ',');
    }
    w->comma[w->depth] = true;
}

static void open(pw_json_writer *w, char bracket)
{
    before_value(w);
    pw_buffer_byte(w->out, bracket);
    PW_ASSERT(w->depth + 1 < PW_JSON_MAX_DEPTH);
    w->comma[++w->depth] = false;
}

static void close(pw_json_writer *w, char bracket)
{
    PW_ASSERT(w->depth > 0 && !w->after_key);
    w->depth--;
    pw_buffer_byte(w->out, bracket);
}

void pw_json_object(pw_json_writer *w)
{
    open(w, '{');
}

void pw_json_object_end(pw_json_writer *w)
{
    close(w, '}');
}

void pw_json_array(pw_json_writer *w)
{
    open(w, '[');
}

void pw_json_array_end(pw_json_writer *w)
{
    close(w, ']');
}

static void quoted(pw_json_writer *w, pw_str s)
{
#ifndef NDEBUG
    PW_ASSERT(pw_utf8_valid(s)); /* text is made valid on the way in (A8), not here */
#endif
    pw_json_quote(w->out, s, false);
}

void pw_json_key_str(pw_json_writer *w, pw_str key)
{
    PW_ASSERT(w->depth > 0 && !w->after_key);
    before_value(w);
    quoted(w, key);
    pw_buffer_byte(w->out, ':');
    w->after_key = true;
}

void pw_json_key(pw_json_writer *w, const char *key)
{
    pw_json_key_str(w, pw_str_from(key));
}

void pw_json_string(pw_json_writer *w, pw_str s)
{
    before_value(w);
    quoted(w, s);
}

void pw_json_integer(pw_json_writer *w, int64_t value)
{
    before_value(w);
    pw_buffer_i64(w->out, value);
}

void pw_json_boolean(pw_json_writer *w, bool value)
{
    before_value(w);
    pw_buffer_add(w->out, value ? PW_STR("true") : PW_STR("false"));
}

void pw_json_nothing(pw_json_writer *w)
{
    before_value(w);
    pw_buffer_add(w->out, PW_STR("null"));
}

void pw_json_raw(pw_json_writer *w, pw_str json)
{
    PW_ASSERT(json.len > 0);
    before_value(w);
    pw_buffer_add(w->out, json);
}

void pw_json_put_str(pw_json_writer *w, const char *key, pw_str s)
{
    pw_json_key(w, key);
    if (s.ptr == NULL) {
        pw_json_nothing(w);
    } else {
        pw_json_string(w, s);
    }
}

void pw_json_put_i64(pw_json_writer *w, const char *key, int64_t value)
{
    pw_json_key(w, key);
    pw_json_integer(w, value);
}

void pw_json_put_bool(pw_json_writer *w, const char *key, bool value)
{
    pw_json_key(w, key);
    pw_json_boolean(w, value);
}

void pw_json_put_raw(pw_json_writer *w, const char *key, pw_str json)
{
    pw_json_key(w, key);
    pw_json_raw(w, json);
}

void pw_json_put_time(pw_json_writer *w, const char *key, int64_t ms)
{
    pw_json_key(w, key);
    if (ms < 0) {
        pw_json_nothing(w);
    } else {
        const pw_time_text time = pw_time_rfc3339(ms);
        pw_json_string(w, pw_str_from(time.text));
    }
}
