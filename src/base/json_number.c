/*
 * Numbers as exact decimals. A number's text is never turned into a floating-point value: 0.1 stays
 * 0.1, and 12345678901234567890 keeps its last digit. All functions take the text of a valid JSON
 * number.
 */
#include "base/json_inner.h"

#define EXPONENT_MAX ((int64_t)1000000000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t read_exponent(const char *p, const char *end)
{
    if (p == end) {
        return 0;
    }
    p++; /* e or E */
    const bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    int64_t exponent = 0;
    for (; p < end && exponent < EXPONENT_MAX; p++) {
        exponent = exponent * 10 + (*p - '0');
    }
    exponent = exponent > EXPONENT_MAX ? EXPONENT_MAX : exponent;
    return negative ? -exponent : exponent;
}

static char digit_at(const pw_decimal *d, size_t index)
{
    return index < d->whole_len ? d->whole[index] : d->fraction[index - d->whole_len];
}

pw_decimal pw_decimal_of(pw_str number)
{
    pw_decimal d = {0};
    const char *p = number.ptr, *end = p + number.len;
    if (p < end && *p == '-') {
        d.negative = true;
        p++;
    }
    d.whole = p;
    while (p < end && is_digit(*p)) {
        p++;
    }
    d.whole_len = (size_t)(p - d.whole);
    d.fraction = p;
    size_t digits = d.whole_len;
    if (p < end && *p == '.') {
        d.fraction = ++p;
        while (p < end && is_digit(*p)) {
            p++;
        }
        digits += (size_t)(p - d.fraction);
    }
    const int64_t exponent = read_exponent(p, end);
    while (d.first < digits && digit_at(&d, d.first) == '0') {
        d.first++;
    }
    if (d.first == digits) {
        d.negative = false; /* -0 is 0 */
        return d;
    }
    while (digit_at(&d, digits - 1) == '0') {
        digits--;
    }
    d.count = digits - d.first;
    d.scale = (int64_t)d.whole_len - (int64_t)digits + exponent;
    return d;
}

int pw_decimal_digit(const pw_decimal *d, size_t index)
{
    return digit_at(d, d->first + index) - '0';
}

static int compare_magnitude(const pw_decimal *a, const pw_decimal *b)
{
    const int64_t a_order = a->scale + (int64_t)a->count, b_order = b->scale + (int64_t)b->count;
    if (a_order != b_order) {
        return a_order < b_order ? -1 : 1;
    }
    const size_t shared = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < shared; i++) {
        const int difference = pw_decimal_digit(a, i) - pw_decimal_digit(b, i);
        if (difference != 0) {
            return difference;
        }
    }
    return (a->count > b->count) - (a->count < b->count);
}

int pw_decimal_compare(const pw_decimal *a, const pw_decimal *b)
{
    const int a_sign = a->count == 0 ? 0 : a->negative ? -1 : 1;
    const int b_sign = b->count == 0 ? 0 : b->negative ? -1 : 1;
    if (a_sign != b_sign) {
        return a_sign < b_sign ? -1 : 1;
    }
    return a_sign == 0 ? 0 : a_sign * compare_magnitude(a, b);
}

bool pw_decimal_is_whole(const pw_decimal *d)
{
    return d->count == 0 || d->scale >= 0;
}

bool pw_decimal_i64(const pw_decimal *d, int shift, bool round, int64_t *ret)
{
    const int64_t scale = d->scale + shift;
    const int64_t kept = (int64_t)d->count + scale; /* digits of the whole number asked for */
    if (d->count == 0 || kept < 0) {
        *ret = 0;
        return d->count == 0 || round;
    }
    if (kept > 19 || (scale < 0 && !round)) {
        return false;
    }
    uint64_t value = 0; /* 19 digits always fit */
    for (int64_t i = 0; i < kept; i++) {
        const int digit = i < (int64_t)d->count ? pw_decimal_digit(d, (size_t)i) : 0;
        value = value * 10 + (uint64_t)digit;
    }
    if (kept < (int64_t)d->count && pw_decimal_digit(d, (size_t)kept) >= 5) {
        value++;
    }
    if (value > (uint64_t)INT64_MAX + (d->negative ? 1u : 0u)) {
        return false;
    }
    *ret = d->negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool pw_json_i64(const pw_json *json, int64_t *ret)
{
    if (!pw_json_is(json, PW_JSON_NUMBER)) {
        return false;
    }
    if (pw_str_i64(json->raw, ret)) {
        return true;
    }
    const pw_decimal d = pw_decimal_of(json->raw);
    int64_t value;
    if (!pw_decimal_i64(&d, 0, false, &value)) {
        return false;
    }
    *ret = value;
    return true;
}

int64_t pw_json_i64_or(const pw_json *json, int64_t fallback)
{
    int64_t value;
    return pw_json_i64(json, &value) ? value : fallback;
}

bool pw_json_micros(const pw_json *json, int64_t *ret)
{
    if (!pw_json_is(json, PW_JSON_NUMBER)) {
        return false;
    }
    const pw_decimal d = pw_decimal_of(json->raw);
    int64_t value;
    if (!pw_decimal_i64(&d, 6, true, &value)) {
        return false;
    }
    *ret = value;
    return true;
}
