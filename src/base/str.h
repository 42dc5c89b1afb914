/*
 * A string is a pointer and a length: borrowed, never assumed NUL-terminated, never owned by
 * itself. The empty string may have a NULL pointer.
 */
#ifndef PW_BASE_STR_H
#define PW_BASE_STR_H

#include "base/mem.h"

typedef struct pw_str {
    const char *ptr;
    size_t len;
} pw_str;

#define PW_STR(literal) ((pw_str){(literal), sizeof(literal) - 1})
#define PW_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    } /* for static tables */
#define PW_STR_NONE ((pw_str){NULL, 0})
#define PW_STR_ARG(str) (int)(str).len, (str).ptr /* for %.*s */

static inline pw_str pw_str_from(const char *nul_terminated)
{
    return (pw_str){nul_terminated, nul_terminated ? strlen(nul_terminated) : 0};
}

static inline pw_str pw_str_slice(pw_str s, size_t from, size_t to)
{
    return (pw_str){s.ptr ? s.ptr + from : NULL, to - from};
}

static inline bool pw_str_equal(pw_str a, pw_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool pw_str_is(pw_str s, const char *nul_terminated)
{
    return pw_str_equal(s, pw_str_from(nul_terminated));
}

int pw_str_compare(pw_str a, pw_str b); /* bytewise; a prefix sorts first; <0, 0, >0 */
bool pw_str_begins(pw_str s, pw_str prefix);
bool pw_str_ends(pw_str s, pw_str suffix);
size_t pw_str_find(pw_str s, pw_str what);    /* offset, or SIZE_MAX */
size_t pw_str_find_byte(pw_str s, char byte); /* offset, or SIZE_MAX */
pw_str pw_str_trim(pw_str s);                 /* without ASCII white space at both ends */

/* Whole string as a number, base 10, optional '-', no spaces; false when it is anything else or
 * does not fit. */
bool pw_str_i64(pw_str s, int64_t *ret);
bool pw_str_u64(pw_str s, uint64_t *ret);

/* Durations as people write them: `0s`, `300ms`, `10m`, `2h`, `1d`; false otherwise or over 10
 * years. */
bool pw_str_duration_ms(pw_str s, int64_t *ret_ms);

#endif
