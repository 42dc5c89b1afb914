/*
 * A small printf that needs no C library: %s %.*s %c %d %u %ld %lu %lld %llu %zu %x %02x and %%.
 * Anything else in a format is a bug (asserted). No floating point.
 */
#ifndef PW_BASE_FORMAT_H
#define PW_BASE_FORMAT_H

#include <stdarg.h>

#include "base/mem.h"

/* Writes at most size - 1 bytes and a NUL (size 0: nothing); returns the length the whole text
 * would have. */
size_t pw_format(char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t pw_format_va(char *to, size_t size, const char *format, va_list)
    __attribute__((format(printf, 3, 0)));

#define PW_MONEY_SIZE 32
/* Millionths (not negative) as a decimal without trailing zeros, "0.0123"; returns its length. */
size_t pw_format_money(char to[PW_MONEY_SIZE], int64_t micros);

#endif
