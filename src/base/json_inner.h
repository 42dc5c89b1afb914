/*
 * What the files of JSON share among themselves (json*.c, schema.c); not a contract of the room.
 */
#ifndef PW_BASE_JSON_INNER_H
#define PW_BASE_JSON_INNER_H

#include "base/json.h"

/*
 * A number's text read as exact decimal: digits × 10^scale, without leading or trailing zeros. It
 * borrows the text. Exponents beyond ±10^15 are taken as that.
 */
typedef struct pw_decimal {
    bool negative;
    const char *whole, *fraction; /* the digits before and after the point */
    size_t whole_len;
    size_t first; /* index of the first significant digit, counted over both */
    size_t count; /* significant digits; 0: the number is zero */
    int64_t scale;
} pw_decimal;

pw_decimal pw_decimal_of(pw_str number);
int pw_decimal_digit(const pw_decimal *, size_t index); /* of the significant ones */
int pw_decimal_compare(const pw_decimal *, const pw_decimal *);
bool pw_decimal_is_whole(const pw_decimal *);
/* The number × 10^shift when that is a whole number (`round`: rounded, half away from zero) and
 * fits. */
bool pw_decimal_i64(const pw_decimal *, int shift, bool round, int64_t *ret);

/*
 * The members of an object sorted by key, bytewise and stable, in scratch. Repeated keys are all
 * there, in their order. NULL: no memory.
 */
const pw_json **pw_json_sorted(const pw_json *object, pw_arena *scratch);

/* A whole string with its quotes; with `nul_mended` a NUL is written as U+FFFD instead of \u0000.
 */
void pw_json_quote(pw_buffer *, pw_str, bool nul_mended);

#endif
