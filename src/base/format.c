/*
 * The printf of a room without a C library: strings, characters and whole numbers, zero-padded when
 * asked. It exists for error messages and small texts, so it is short rather than complete; what it
 * does not know is a bug of the caller and asserted, never printed wrongly.
 */
#include "base/format.h"

#include "base/status.h"

typedef struct sink {
    char *to;
    size_t size; /* of `to`, with the NUL */
    size_t len;  /* of the whole text so far, also of what did not fit */
} sink;

typedef struct conversion {
    size_t width;  /* zero-padded to this many digits */
    int precision; /* of a string; -1: none */
    char modifier; /* 0, 'l', 'L' for ll, 'z' */
    char kind;
} conversion;

static void put(sink *out, const char *from, size_t count)
{
    if (out->len < out->size) {
        size_t room = out->size - out->len;
        size_t fits = count < room ? count : room;
        if (fits > 0) {
            memcpy(out->to + out->len, from, fits);
        }
    }
    out->len += count;
}

static void put_number(sink *out, uint64_t magnitude, bool negative, unsigned base, size_t width)
{
    char digits[20 + 1 + 20]; /* the longest number, a sign, and room for a width up to 20 */
    size_t at = sizeof digits;
    size_t written = 0;
    do {
        digits[--at] = "0123456789abcdef"[magnitude % base];
        magnitude /= base;
        written++;
    } while (magnitude > 0);
    while (written + (negative ? 1 : 0) < width) {
        digits[--at] = '0';
        written++;
    }
    if (negative) {
        digits[--at] = '-';
    }
    put(out, digits + at, sizeof digits - at);
}

static const char *read_conversion(const char *p, conversion *c, int *ret_star_wanted)
{
    *c = (conversion){.precision = -1};
    *ret_star_wanted = 0;
    if (*p == '0') {
        p++;
        while (*p >= '0' && *p <= '9') {
            c->width = c->width * 10 + (size_t)(*p++ - '0');
        }
        PW_ASSERT(c->width > 0 && c->width <= 20);
    }
    if (p[0] == '.' && p[1] == '*') {
        *ret_star_wanted = 1;
        p += 2;
    }
    if (p[0] == 'l' && p[1] == 'l') {
        c->modifier = 'L';
        p += 2;
    } else if (p[0] == 'l' || p[0] == 'z') {
        c->modifier = *p++;
    }
    c->kind = *p;
    PW_ASSERT(c->kind != '\0');
    return p + 1;
}

static void put_string(sink *out, const char *text, const conversion *c)
{
    size_t len = 0;
    if (text == NULL) {
        text = "";
    } else if (c->precision < 0) {
        len = strlen(text);
    } else {
        while (len < (size_t)c->precision && text[len] != '\0') {
            len++;
        }
    }
    put(out, text, len);
}

/* A va_list inside a struct can be handed on by address on every ABI. */
typedef struct arguments {
    va_list list;
} arguments;

static uint64_t next_unsigned(arguments *args, char modifier)
{
    switch (modifier) {
    case 'L':
        return va_arg(args->list, unsigned long long);
    case 'l':
        return va_arg(args->list, unsigned long);
    case 'z':
        return va_arg(args->list, size_t);
    default:
        return va_arg(args->list, unsigned);
    }
}

static int64_t next_signed(arguments *args, char modifier)
{
    switch (modifier) {
    case 'L':
        return va_arg(args->list, long long);
    case 'l':
        return va_arg(args->list, long);
    case 'z':
        return (int64_t)va_arg(args->list, ptrdiff_t);
    default:
        return va_arg(args->list, int);
    }
}

static void convert(sink *out, const conversion *c, arguments *args)
{
    PW_ASSERT(c->precision < 0 || c->kind == 's');
    switch (c->kind) {
    case '%':
        put(out, "%", 1);
        return;
    case 'c': {
        char byte = (char)va_arg(args->list, int);
        put(out, &byte, 1);
        return;
    }
    case 's':
        put_string(out, va_arg(args->list, const char *), c);
        return;
    case 'd': {
        int64_t value = next_signed(args, c->modifier);
        uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
        put_number(out, magnitude, value < 0, 10, c->width);
        return;
    }
    case 'u':
        put_number(out, next_unsigned(args, c->modifier), false, 10, c->width);
        return;
    case 'x':
        put_number(out, next_unsigned(args, c->modifier), false, 16, c->width);
        return;
    default:
        PW_ASSERT(c->kind == '\0'); /* never true here: a conversion that pw_format does not know */
    }
}

size_t pw_format_va(char *to, size_t size, const char *format, va_list list)
{
    sink out = {to, size, 0};
    arguments args;
    va_copy(args.list, list);
    const char *p = format;
    while (*p != '\0') {
        const char *run = p;
        while (*p != '\0' && *p != '%') {
            p++;
        }
        put(&out, run, (size_t)(p - run));
        if (*p == '\0') {
            break;
        }
        conversion c;
        int star_wanted;
        p = read_conversion(p + 1, &c, &star_wanted);
        if (star_wanted) {
            /* A length over INT_MAX arrives negative: printing nothing beats reading past the end.
             */
            int precision = va_arg(args.list, int);
            c.precision = precision < 0 ? 0 : precision;
        }
        convert(&out, &c, &args);
    }
    va_end(args.list);
    if (size > 0) {
        to[out.len < size ? out.len : size - 1] = '\0';
    }
    return out.len;
}

size_t pw_format(char *to, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t len = pw_format_va(to, size, format, args);
    va_end(args);
    return len;
}

size_t pw_format_money(char to[PW_MONEY_SIZE], int64_t micros)
{
    size_t len = pw_format(to, PW_MONEY_SIZE, "%lld", (long long)(micros / 1000000));
    int64_t rest = micros % 1000000;
    if (rest > 0) {
        to[len++] = '.';
        for (int64_t unit = 100000; unit > 0 && rest > 0; unit /= 10) {
            to[len++] = (char)('0' + rest / unit);
            rest %= unit;
        }
    }
    to[len] = '\0';
    return len;
}
