/*
 * Borrowed strings: comparing, searching, trimming, and reading the few notations that people write
 * in configuration (whole numbers, durations). Everything here works on bytes; characters are
 * utf8.h's business.
 */
#include "base/str.h"

#include "base/utf8_inner.h"

#include <limits.h>

int pw_str_compare(pw_str a, pw_str b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared > 0 ? memcmp(a.ptr, b.ptr, shared) : 0;
    if (order != 0) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

bool pw_str_begins(pw_str s, pw_str prefix)
{
    return s.len >= prefix.len && pw_str_equal(pw_str_slice(s, 0, prefix.len), prefix);
}

bool pw_str_ends(pw_str s, pw_str suffix)
{
    return s.len >= suffix.len && pw_str_equal(pw_str_slice(s, s.len - suffix.len, s.len), suffix);
}

size_t pw_str_find_byte(pw_str s, char byte)
{
    size_t at = 0;
    while (s.len - at >= 8) {
        const uint64_t marks = pw_bytes_equal(pw_load8(s.ptr + at), (unsigned char)byte);
        if (marks != 0) {
            at += pw_bytes_before_mark(marks);
            break;
        }
        at += 8;
    }
    for (; at < s.len; at++) {
        if (s.ptr[at] == byte) {
            return at;
        }
    }
    return SIZE_MAX;
}

size_t pw_str_find(pw_str s, pw_str what)
{
    if (what.len == 0) {
        return 0;
    }
    if (what.len > s.len) {
        return SIZE_MAX;
    }
    const size_t end = s.len - what.len + 1;
    for (size_t at = 0; at < end; at++) {
        const size_t more = pw_str_find_byte(pw_str_slice(s, at, end), what.ptr[0]);
        if (more == SIZE_MAX) {
            break;
        }
        at += more;
        if (memcmp(s.ptr + at, what.ptr, what.len) == 0) {
            return at;
        }
    }
    return SIZE_MAX;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

pw_str pw_str_trim(pw_str s)
{
    while (s.len > 0 && is_space(s.ptr[s.len - 1])) {
        s.len--;
    }
    while (s.len > 0 && is_space(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    return s;
}

bool pw_str_u64(pw_str s, uint64_t *ret)
{
    if (s.len == 0) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret = value;
    return true;
}

bool pw_str_i64(pw_str s, int64_t *ret)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t magnitude;
    if (!pw_str_u64(negative ? pw_str_slice(s, 1, s.len) : s, &magnitude)) {
        return false;
    }
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) {
        return false;
    }
    /* Negated while unsigned: the magnitude of INT64_MIN has no int64_t. */
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool pw_str_duration_ms(pw_str s, int64_t *ret_ms)
{
    static const struct {
        pw_str suffix;
        int64_t ms;
    } units[] = {
        /* `ms` before `m` and `s`: the first suffix that fits is taken. */
        {PW_STR_INIT("ms"), 1},          {PW_STR_INIT("s"), 1000},     {PW_STR_INIT("m"), 60000},
        {PW_STR_INIT("h"), 3600 * 1000}, {PW_STR_INIT("d"), 86400000},
    };
    const int64_t ten_years_ms = (int64_t)3653 * 86400000; /* with its leap days */
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!pw_str_ends(s, units[i].suffix)) {
            continue;
        }
        uint64_t number;
        if (!pw_str_u64(pw_str_slice(s, 0, s.len - units[i].suffix.len), &number) ||
            number > (uint64_t)(ten_years_ms / units[i].ms)) {
            return false;
        }
        *ret_ms = (int64_t)number * units[i].ms;
        return true;
    }
    return false;
}
