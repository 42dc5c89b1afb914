/*
 * Times as text and back: the proleptic Gregorian calendar by arithmetic (days counted from a March
 * that starts the year, so the leap day comes last), RFC 3339 and the date of HTTP.
 */
#include "base/clock.h"

#include "base/format.h"

#define DAY_MS ((int64_t)86400000)
/* What RFC 3339 can write: years 0000 to 9999. */
#define FIRST_MS ((int64_t)-62167219200000)
#define LAST_MS ((int64_t)253402300799999)

typedef struct civil {
    int64_t year;
    unsigned month, day; /* 1-12, 1-31 */
} civil;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0 ? 1 : 0);
}

static int64_t days_from_civil(civil date)
{
    const int64_t year = date.month <= 2 ? date.year - 1 : date.year;
    const int64_t era = floor_div(year, 400);
    const int64_t year_of_era = year - era * 400;
    const int64_t month = date.month > 2 ? date.month - 3 : date.month + 9;
    const int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static civil civil_from_days(int64_t days)
{
    days += 719468;
    const int64_t era = floor_div(days, 146097);
    const int64_t day_of_era = days - era * 146097;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t month = (5 * day_of_year + 2) / 153;
    civil date = {
        .year = year_of_era + era * 400,
        .month = (unsigned)(month < 10 ? month + 3 : month - 9),
        .day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1),
    };
    date.year += date.month <= 2 ? 1 : 0;
    return date;
}

static unsigned days_in_month(int64_t year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

pw_time_text pw_time_rfc3339(int64_t ms)
{
    /* A time that has no such text is shown as the nearest that has one. */
    ms = ms < FIRST_MS ? FIRST_MS : ms > LAST_MS ? LAST_MS : ms;
    const int64_t days = floor_div(ms, DAY_MS);
    const civil date = civil_from_days(days);
    const unsigned in_day = (unsigned)(ms - days * DAY_MS);
    pw_time_text text;
    pw_format(text.text, sizeof text.text, "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ", (int)date.year,
              date.month, date.day, in_day / 3600000, in_day / 60000 % 60, in_day / 1000 % 60,
              in_day % 1000);
    return text;
}

pw_time_text pw_time_hh_mm(int64_t ms)
{
    const unsigned in_day = (unsigned)((ms % DAY_MS + DAY_MS) % DAY_MS);
    pw_time_text text;
    pw_format(text.text, sizeof text.text, "%02u:%02u", in_day / 3600000, in_day / 60000 % 60);
    return text;
}

typedef struct cursor {
    const char *p, *end;
} cursor;

static bool take_digits(cursor *in, int count, unsigned *ret)
{
    if (in->end - in->p < count) {
        return false;
    }
    unsigned value = 0;
    for (int i = 0; i < count; i++) {
        const char c = *in->p++;
        if (c < '0' || c > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(c - '0');
    }
    *ret = value;
    return true;
}

static bool take_one_of(cursor *in, const char *accepted, char *ret)
{
    if (in->p == in->end) {
        return false;
    }
    for (; *accepted != '\0'; accepted++) {
        if (*in->p == *accepted) {
            *ret = *in->p++;
            return true;
        }
    }
    return false;
}

static bool take(cursor *in, char wanted)
{
    const char accepted[2] = {wanted, '\0'};
    char ignored;
    return take_one_of(in, accepted, &ignored);
}

/* The index of the three-letter name that comes next. */
static bool take_name(cursor *in, const char *names, unsigned *ret)
{
    if (in->end - in->p < 3) {
        return false;
    }
    for (unsigned i = 0; names[3 * i] != '\0'; i++) {
        if (memcmp(in->p, names + 3 * i, 3) == 0) {
            in->p += 3;
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool take_time_of_day(cursor *in, unsigned *ret_seconds, bool *ret_leap)
{
    unsigned hour, minute, second;
    if (!take_digits(in, 2, &hour) || !take(in, ':') || !take_digits(in, 2, &minute) ||
        !take(in, ':') || !take_digits(in, 2, &second) || hour > 23 || minute > 59 || second > 60) {
        return false;
    }
    *ret_seconds = hour * 3600 + minute * 60 + second;
    *ret_leap = second == 60;
    return true;
}

/* Any number of digits; those after the third are below a millisecond. */
static bool take_fraction(cursor *in, unsigned *ret_ms)
{
    unsigned ms = 0, digits = 0;
    while (in->p < in->end && *in->p >= '0' && *in->p <= '9') {
        if (digits < 3) {
            ms = ms * 10 + (unsigned)(*in->p - '0');
            digits++;
        }
        in->p++;
    }
    if (digits == 0) {
        return false;
    }
    for (; digits < 3; digits++) {
        ms *= 10;
    }
    *ret_ms = ms;
    return true;
}

static bool take_offset(cursor *in, int64_t *ret_seconds)
{
    char sign;
    unsigned hour, minute;
    if (!take_one_of(in, "Zz+-", &sign)) {
        return false;
    }
    if (sign == 'Z' || sign == 'z') {
        *ret_seconds = 0;
        return true;
    }
    if (!take_digits(in, 2, &hour) || !take(in, ':') || !take_digits(in, 2, &minute) || hour > 23 ||
        minute > 59) {
        return false;
    }
    const int64_t seconds = (int64_t)hour * 3600 + minute * 60;
    *ret_seconds = sign == '-' ? -seconds : seconds;
    return true;
}

bool pw_time_parse_rfc3339(pw_str s, int64_t *ret_ms)
{
    if (s.len == 0) { /* its pointer may be NULL */
        return false;
    }
    cursor in = {s.ptr, s.ptr + s.len};
    unsigned year, month, day, seconds, ms = 0;
    bool leap;
    char separator;
    int64_t offset;
    if (s.len == 0 || !take_digits(&in, 4, &year) || !take(&in, '-') ||
        !take_digits(&in, 2, &month) || !take(&in, '-') || !take_digits(&in, 2, &day) ||
        !take_one_of(&in, "Tt ", &separator) || !take_time_of_day(&in, &seconds, &leap)) {
        return false;
    }
    if (take(&in, '.') && !take_fraction(&in, &ms)) {
        return false;
    }
    if (!take_offset(&in, &offset) || in.p != in.end || month < 1 || month > 12 || day < 1 ||
        day > days_in_month(year, month)) {
        return false;
    }
    const int64_t days = days_from_civil((civil){(int64_t)year, month, day});
    const int64_t utc = days * 86400 + seconds - offset;
    if (leap && floor_div(utc, 86400) * 86400 != utc) {
        return false; /* leap seconds are put at the end of a UTC day only */
    }
    *ret_ms = utc * 1000 + ms;
    return true;
}

bool pw_time_parse_http(pw_str s, int64_t *ret_ms)
{
    if (s.len != 29) { /* also an empty string, whose pointer may be NULL */
        return false;
    }
    cursor in = {s.ptr, s.ptr + s.len};
    unsigned weekday, day, month, year, seconds;
    bool leap;
    if (!take_name(&in, "SunMonTueWedThuFriSat", &weekday) || !take(&in, ',') || !take(&in, ' ') ||
        !take_digits(&in, 2, &day) || !take(&in, ' ') ||
        !take_name(&in, "JanFebMarAprMayJunJulAugSepOctNovDec", &month) || !take(&in, ' ') ||
        !take_digits(&in, 4, &year) || !take(&in, ' ') || !take_time_of_day(&in, &seconds, &leap)) {
        return false;
    }
    if (memcmp(in.p, " GMT", 4) != 0 || day < 1 || day > days_in_month(year, month + 1)) {
        return false;
    }
    const int64_t days = days_from_civil((civil){(int64_t)year, month + 1, day});
    *ret_ms = (days * 86400 + seconds) * 1000;
    return true;
}
