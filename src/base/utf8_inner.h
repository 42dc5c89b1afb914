/*
 * Shared by the files of base that walk text byte by byte (str.c, utf8.c, json.c, json_write.c);
 * not a contract of the room. Eight bytes are looked at a time with plain integer arithmetic: it
 * needs no vector unit, so WebAssembly gains as much as x86.
 */
#ifndef PW_BASE_UTF8_INNER_H
#define PW_BASE_UTF8_INNER_H

#include "base/mem.h"

#define PW_EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t pw_load8(const void *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/*
 * High bits mark the bytes that are below `limit` (<= 0x80), or equal to `byte`. A mark may be
 * false only above a true one (a borrow), so the lowest mark is always exact.
 */
static inline uint64_t pw_bytes_below(uint64_t word, uint64_t limit)
{
    return (word - PW_EACH_BYTE(limit)) & ~word & PW_EACH_BYTE(0x80);
}

static inline uint64_t pw_bytes_equal(uint64_t word, uint64_t byte)
{
    return pw_bytes_below(word ^ PW_EACH_BYTE(byte), 1);
}

/* The bytes of a JSON string that are more than themselves: a control, a quote, a backslash, not
 * ASCII. What is marked wrongly by one term (a byte over 0x80) is marked rightly by the last. */
static inline uint64_t pw_bytes_not_plain(uint64_t word)
{
    const uint64_t quotes = (word ^ PW_EACH_BYTE('"')) - PW_EACH_BYTE(1);
    const uint64_t backslashes = (word ^ PW_EACH_BYTE('\\')) - PW_EACH_BYTE(1);
    return ((word - PW_EACH_BYTE(0x20)) | quotes | backslashes | word) & PW_EACH_BYTE(0x80);
}

/* How many bytes of the word, in memory order, come before the first mark (marks is not 0). */
static inline size_t pw_bytes_before_mark(uint64_t marks)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(marks) / 8;
#else
    (void)marks; /* false marks come first in memory here: let the caller go byte by byte */
    return 0;
#endif
}

/*
 * One step at p < end. Returns the length of the character there (1-4) with *ok true; or, when it
 * is ill-formed, the length of its maximal ill-formed part (Unicode 3.9, table 3-8) with *ok false.
 */
static inline size_t pw_utf8_step(const uint8_t *p, const uint8_t *end, bool *ok)
{
    const uint8_t lead = p[0];
    *ok = true;
    if (lead < 0x80) {
        return 1;
    }
    size_t length = 2;
    uint8_t low = 0x80, high = 0xBF; /* what the second byte may be: where overlong forms hide */
    if (lead >= 0xC2 && lead <= 0xDF) {
        /* as set */
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        low = lead == 0xE0 ? 0xA0 : 0x80;
        high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        low = lead == 0xF0 ? 0x90 : 0x80;
        high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
        *ok = false;
        return 1;
    }
    for (size_t i = 1; i < length; i++) {
        if (end - p <= (ptrdiff_t)i || p[i] < low || p[i] > high) {
            *ok = false;
            return i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

#endif
