/*
 * Keeps text valid (A8): one walk over the bytes that knows where every well-formed character and
 * every maximal ill-formed part ends (utf8_inner.h), and the handful of questions asked of it.
 */
#include "base/utf8.h"

#include "base/utf8_inner.h"

static const pw_str replacement = PW_STR_INIT("\xEF\xBF\xBD"); /* U+FFFD */

/* Length of the longest prefix that is valid and, when asked for, has no NUL. */
static size_t good_prefix(pw_str s, bool nul_is_bad)
{
    if (s.len == 0) {
        return 0;
    }
    const uint8_t *start = (const uint8_t *)s.ptr, *p = start, *end = start + s.len;
    while (p < end) {
        if (end - p >= 8) {
            uint64_t word = pw_load8(p);
            uint64_t marks = word & PW_EACH_BYTE(0x80);
            if (nul_is_bad) {
                marks |= pw_bytes_below(word, 1);
            }
            if (marks == 0) {
                p += 8;
                continue;
            }
            p += pw_bytes_before_mark(marks);
        }
        bool ok;
        size_t length = pw_utf8_step(p, end, &ok);
        if (!ok || (nul_is_bad && *p == 0)) {
            break;
        }
        p += length;
    }
    return (size_t)(p - start);
}

bool pw_utf8_valid(pw_str s)
{
    return good_prefix(s, false) == s.len;
}

size_t pw_utf8_valid_prefix(pw_str s)
{
    return good_prefix(s, false);
}

bool pw_utf8_clean(pw_str s)
{
    return good_prefix(s, true) == s.len;
}

pw_status pw_utf8_mend(pw_buffer *out, pw_str s)
{
    const size_t before = out->len;
    while (s.len > 0) {
        size_t good = good_prefix(s, true);
        pw_status status = pw_buffer_add(out, pw_str_slice(s, 0, good));
        s = pw_str_slice(s, good, s.len);
        if (status == PW_OK && s.len > 0) {
            const uint8_t *p = (const uint8_t *)s.ptr;
            bool ok;
            size_t bad = pw_utf8_step(p, p + s.len, &ok); /* a NUL steps 1 */
            status = pw_buffer_add(out, replacement);
            s = pw_str_slice(s, bad, s.len);
        }
        if (status != PW_OK) {
            if (out->ptr != NULL) {
                out->len = before; /* all or nothing, as every append */
                out->ptr[before] = '\0';
            }
            return status;
        }
    }
    return PW_OK;
}

size_t pw_utf8_cut(pw_str s, size_t limit)
{
    if (limit >= s.len) {
        limit = s.len;
    }
    /* Back to the lead byte of the last character, which is at most three continuations away. */
    size_t lead = limit;
    while (lead > 0 && limit - lead < 4 && ((uint8_t)s.ptr[lead - 1] & 0xC0) == 0x80) {
        lead--;
    }
    if (lead == 0 || (uint8_t)s.ptr[lead - 1] < 0xC0) {
        return limit; /* ends in ASCII, or in bytes that are no character's */
    }
    lead--;
    const uint8_t *p = (const uint8_t *)s.ptr;
    bool ok;
    size_t length = pw_utf8_step(p + lead, p + s.len, &ok);
    if (lead + length > limit) {
        return lead; /* the limit falls inside it */
    }
    /* What the end of the string itself cuts off is dropped as well. */
    return !ok && lead + length == s.len ? lead : limit;
}

bool pw_utf8_has_control(pw_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        const uint8_t c = (uint8_t)s.ptr[i];
        if (c < 0x20 || c == 0x7F) {
            return true;
        }
        if (c == 0xC2 && i + 1 < s.len) {
            const uint8_t next = (uint8_t)s.ptr[i + 1];
            if (next >= 0x80 && next <= 0x9F) {
                return true;
            }
        }
    }
    return false;
}

size_t pw_utf8_encode(uint32_t c, char to[4])
{
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        c = 0xFFFD;
    }
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | (c >> 6));
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | (c >> 12));
        to[1] = (char)(0x80 | ((c >> 6) & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | (c >> 18));
    to[1] = (char)(0x80 | ((c >> 12) & 0x3F));
    to[2] = (char)(0x80 | ((c >> 6) & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}
