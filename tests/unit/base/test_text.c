/* Status, strings, format, UTF-8, times, ids, hashes: known answers and edges. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/heap.h"
#include "base/id.h"
#include "base/sha256.h"
#include "base/siphash.h"
#include "base/utf8.h"

/* --- Status and errors. */

static void test_status_table_is_consistent(void **state)
{
    (void)state;
    assert_string_equal(pw_status_code(PW_OK), "ok");
    assert_string_equal(pw_status_code(PW_NOT_FOUND), "not_found");
    assert_string_equal(pw_status_code((pw_status)-1000), "internal");
    assert_true(pw_status_may_retry(PW_NOMEM));
    assert_false(pw_status_may_retry(PW_FENCED));
#define CHECK_ROW(name, number, code, text, retry)                                                 \
    assert_int_equal(PW_##name, number);                                                           \
    assert_string_equal(pw_status_code(PW_##name), code);                                          \
    assert_string_equal(pw_status_meaning(PW_##name), text);                                       \
    assert_int_equal(pw_status_may_retry(PW_##name), retry);
    PW_STATUS_TABLE(CHECK_ROW)
#undef CHECK_ROW
}

static void test_A8_error_messages_are_valid_text(void **state)
{
    (void)state;
    pw_error error;
    assert_int_equal(PW_FAIL(NULL, PW_BUSY, "ignored %d", 1), PW_BUSY);
    assert_int_equal(PW_FAIL(&error, PW_IO, "disk %d", 3), PW_IO);
    assert_int_equal(error.code, PW_IO);
    assert_string_equal(error.message, "disk 3");
    assert_non_null(error.file);
    assert_true(error.line > 0);
    (void)PW_FAIL(&error, PW_IO, "bad \xFF\xC3 bytes%c.", 0);
    assert_string_equal(error.message, "bad ?? bytes?.");
    /* Cut at every phase of a 4-byte character. */
    for (int lead = 230; lead < 240; lead++) {
        char text[400];
        memset(text, 'a', (size_t)lead);
        memcpy(text + lead, "\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80", 13);
        (void)PW_FAIL(&error, PW_IO, "%s", text);
        const size_t len = strlen(error.message);
        assert_true(len < sizeof error.message && len > 235);
        assert_true(pw_utf8_valid((pw_str){error.message, len}));
        assert_null(memchr(error.message, '?', len));
    }
}

/* --- Format. */

#define FORMATS(expected, ...)                                                                     \
    do {                                                                                           \
        char text_[200];                                                                           \
        assert_int_equal(pw_format(text_, sizeof text_, __VA_ARGS__), strlen(expected));           \
        assert_string_equal(text_, expected);                                                      \
    } while (0)

static void test_format_writes_what_printf_would(void **state)
{
    (void)state;
    FORMATS("", "%s", "");
    FORMATS("a%b", "a%%b");
    FORMATS("x:yz:q", "x:%s:%c", "yz", 'q');
    FORMATS("[abc][ab][]", "[%.*s][%.*s][%.*s]", 9, "abc", 2, "abc", 0, "abc");
    FORMATS("-2147483648 2147483647 4294967295", "%d %d %u", INT_MIN, INT_MAX, UINT_MAX);
    FORMATS("-9223372036854775808", "%lld", LLONG_MIN);
    FORMATS("-9223372036854775808", "%ld", LONG_MIN);
    FORMATS("18446744073709551615", "%llu", ULLONG_MAX);
    FORMATS("18446744073709551615 18446744073709551615", "%lu %zu", ULONG_MAX, SIZE_MAX);
    FORMATS("0 ff ffffffff", "%x %x %x", 0u, 255u, UINT_MAX);
    FORMATS("05 00 0f 007 -05", "%02d %02u %02x %03d %03d", 5, 0u, 15u, 7, -5);
    FORMATS("ffffffffffffffff 00000000deadbeef", "%llx %016llx", ULLONG_MAX, 0xdeadbeefULL);
}

static void test_money_is_exact(void **state)
{
    (void)state;
    static const struct {
        int64_t micros;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "0.000001"},
                 {4500, "0.0045"},
                 {1000000, "1"},
                 {1250000, "1.25"},
                 {100000, "0.1"},
                 {INT64_MAX, "9223372036854.775807"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[PW_MONEY_SIZE];
        assert_int_equal(pw_format_money(text, cases[i].micros), strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void test_format_counts_what_does_not_fit(void **state)
{
    (void)state;
    char text[8];
    for (size_t size = 0; size <= sizeof text; size++) {
        memset(text, '#', sizeof text);
        assert_int_equal(pw_format(text, size, "%s%d", "abcdef", 12345), 11);
        if (size > 0) {
            assert_int_equal(strlen(text), size - 1);
            assert_memory_equal(text, "abcdef12345", size - 1);
        }
        for (size_t i = size; i < sizeof text; i++) {
            assert_int_equal(text[i], '#');
        }
    }
    assert_int_equal(pw_format(NULL, 0, "%d", 100), 3);
}

/* --- Strings. */

static void test_str_search_and_compare(void **state)
{
    (void)state;
    assert_true(pw_str_compare(PW_STR("a"), PW_STR("b")) < 0);
    assert_true(pw_str_compare(PW_STR("a"), PW_STR("ab")) < 0);
    assert_true(pw_str_compare(PW_STR("\x7f"), PW_STR("\x80")) < 0);
    assert_int_equal(pw_str_compare(PW_STR_NONE, PW_STR("")), 0);
    assert_true(pw_str_begins(PW_STR("child:1"), PW_STR("child:")));
    assert_false(pw_str_begins(PW_STR("chi"), PW_STR("child:")));
    assert_true(pw_str_begins(PW_STR_NONE, PW_STR_NONE));
    assert_true(pw_str_ends(PW_STR("a.yaml"), PW_STR(".yaml")));
    assert_false(pw_str_ends(PW_STR("yaml"), PW_STR(".yaml")));
    assert_int_equal(pw_str_find(PW_STR("aaab"), PW_STR("aab")), 1);
    assert_int_equal(pw_str_find(PW_STR("aaab"), PW_STR("")), 0);
    assert_int_equal(pw_str_find(PW_STR("aaab"), PW_STR("c")), SIZE_MAX);
    assert_int_equal(pw_str_find(PW_STR("a"), PW_STR("aa")), SIZE_MAX);
    assert_int_equal(pw_str_find(PW_STR_NONE, PW_STR("a")), SIZE_MAX);
    assert_true(pw_str_is(pw_str_trim(PW_STR(" \t\r\n a b \v\f")), "a b"));
    assert_int_equal(pw_str_trim(PW_STR("  ")).len, 0);
}

static void test_str_numbers_fit_or_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.0", false, 0},
        {"0x10", false, 0},
        {"--1", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 77;
        assert_int_equal(pw_str_i64(pw_str_from(cases[i].text), &value), cases[i].fits);
        assert_int_equal(value, cases[i].fits ? cases[i].value : 77);
    }
    uint64_t u;
    assert_true(pw_str_u64(PW_STR("18446744073709551615"), &u));
    assert_true(u == UINT64_MAX);
    assert_false(pw_str_u64(PW_STR("18446744073709551616"), &u));
    assert_false(pw_str_u64(PW_STR("-1"), &u));
}

static void test_str_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"0s", 0},
        {"300ms", 300},
        {"10m", 600000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"3650d", 315360000000},
        {"4000d", -1},
        {"999999999999999999999s", -1},
        {"", -1},
        {"s", -1},
        {"10", -1},
        {"-1s", -1},
        {"1.5s", -1},
        {"1 s", -1},
        {"1h30m", -1},
        {"1w", -1},
        {"1S", -1},
        {"1msx", -1},
        {"315360000001ms", 315360000001},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        assert_int_equal(pw_str_duration_ms(pw_str_from(cases[i].text), &ms), cases[i].ms >= 0);
        assert_int_equal(ms, cases[i].ms);
    }
}

/* --- UTF-8. */

/* An independent judge: decode by value, then ask whether the value and its length are right. */
static bool naive_valid(const uint8_t *p, size_t len)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t at = 0;
    while (at < len) {
        const uint8_t c = p[at];
        const size_t length = c < 0x80   ? 1
                              : c < 0xC0 ? 0
                              : c < 0xE0 ? 2
                              : c < 0xF0 ? 3
                              : c < 0xF8 ? 4
                                         : 0;
        if (length == 0 || at + length > len) {
            return false;
        }
        uint32_t value = length == 1 ? c : c & (0x7Fu >> length);
        for (size_t i = 1; i < length; i++) {
            if ((p[at + i] & 0xC0) != 0x80) {
                return false;
            }
            value = value << 6 | (p[at + i] & 0x3Fu);
        }
        if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF) ||
            (length > 1 && value < least[length])) {
            return false;
        }
        at += length;
    }
    return true;
}

static void test_A8_every_short_sequence_is_judged_rightly(void **state)
{
    (void)state;
    /* All of 1 and 2 bytes; of 3 and 4 those at the edges of every range. */
    static const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                    0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                    0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    const size_t count = sizeof edges;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const uint8_t two[2] = {(uint8_t)a, (uint8_t)b};
            assert_int_equal(pw_utf8_valid((pw_str){(const char *)two, 2}), naive_valid(two, 2));
            assert_int_equal(pw_utf8_valid((pw_str){(const char *)two, 1}), naive_valid(two, 1));
        }
    }
    for (size_t i = 0; i < count * count * count * count; i++) {
        const uint8_t four[4] = {edges[i % count], edges[i / count % count],
                                 edges[i / count / count % count],
                                 edges[i / count / count / count]};
        for (size_t len = 3; len <= 4; len++) {
            if (pw_utf8_valid((pw_str){(const char *)four, len}) != naive_valid(four, len)) {
                fail_msg("%02x %02x %02x %02x (%zu)", four[0], four[1], four[2], four[3], len);
            }
        }
    }
}

static void test_A8_bad_bytes_are_found_at_every_offset(void **state)
{
    (void)state;
    char text[64];
    for (size_t len = 1; len <= sizeof text; len++) {
        for (size_t at = 0; at < len; at++) {
            memset(text, 'a', len);
            text[at] = '\xFF';
            assert_int_equal(pw_utf8_valid_prefix((pw_str){text, len}), at);
            text[at] = '\0';
            assert_true(pw_utf8_valid((pw_str){text, len}));
            assert_false(pw_utf8_clean((pw_str){text, len}));
        }
    }
    assert_true(pw_utf8_valid(PW_STR_NONE));
    assert_true(pw_utf8_clean(PW_STR_NONE));
}

#define R "\xEF\xBF\xBD"

static void test_A8_text_is_mended(void **state)
{
    (void)state;
    static const struct {
        pw_str from;
        const char *to;
    } cases[] = {
        {PW_STR_INIT(""), ""},
        {PW_STR_INIT("plain"), "plain"},
        {PW_STR_INIT("a\0b"), "a" R "b"},
        {PW_STR_INIT("\xC0\xAF"), R R},
        {PW_STR_INIT("\xED\xA0\x80"), R R R},
        {PW_STR_INIT("\xE2\x82"), R},
        {PW_STR_INIT("\xE2\x82"
                     "A"),
         R "A"},
        {PW_STR_INIT("\xF0\x9F\x98"), R},
        {PW_STR_INIT("\xF0\x80\x80"
                     "A"),
         R R R "A"},
        {PW_STR_INIT("\xF4\x91\x92\x93\xFF"
                     "A\x80\xBF"
                     "B"),
         R R R R R "A" R R "B"},
        {PW_STR_INIT("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                     "A"),
         R R R R "A"}, /* Unicode table 3-11 */
        {PW_STR_INIT("na\xC3\xAFve \xF0\x9F\x98\x80"), "na\xC3\xAFve \xF0\x9F\x98\x80"},
    };
    pw_buffer b;
    pw_buffer_init(&b, &pw_heap, 1000);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pw_buffer_clear(&b);
        assert_int_equal(pw_utf8_mend(&b, cases[i].from), PW_OK);
        assert_true(pw_str_is(pw_buffer_str(&b), cases[i].to));
        assert_true(pw_utf8_clean(pw_buffer_str(&b)));
    }
    pw_buffer_free(&b);
    pw_buffer_init(&b, &pw_heap, 5);
    (void)pw_buffer_add(&b, PW_STR("x"));
    assert_int_equal(pw_utf8_mend(&b, PW_STR("ab\xFF\xFF")), PW_TOO_LARGE);
    assert_string_equal(b.ptr, "x");
    pw_buffer_free(&b);
}

static void test_D7_cut_never_splits_a_character(void **state)
{
    (void)state;
    const pw_str text = PW_STR("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z\xE6\x97\xA5");
    static const size_t bounds[] = {0, 1, 3, 6, 10, 11, 14};
    for (size_t limit = 0; limit <= text.len + 3; limit++) {
        size_t expected = 0;
        for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
            expected = bounds[i] <= limit ? bounds[i] : expected;
        }
        assert_int_equal(pw_utf8_cut(text, limit), expected);
    }
    assert_int_equal(pw_utf8_cut(PW_STR_NONE, 5), 0);
    assert_int_equal(pw_utf8_cut(PW_STR("\x80\x80\x80\x80\x80\x80"), 5), 5);
    /* A string that was cut before loses its broken end. */
    assert_int_equal(pw_utf8_cut(PW_STR("ab\xE2\x82"), 100), 2);
}

static void test_A8_control_characters_are_seen(void **state)
{
    (void)state;
    assert_false(pw_utf8_has_control(PW_STR("plain \xC3\xA9 \xC2\xA0 ~")));
    assert_true(pw_utf8_has_control(PW_STR("a\nb")));
    assert_true(pw_utf8_has_control(PW_STR("a\0b")));
    assert_true(pw_utf8_has_control(PW_STR("\x7f")));
    assert_true(pw_utf8_has_control(PW_STR("\xC2\x80")));
    assert_true(pw_utf8_has_control(PW_STR("\xC2\x9F")));
    assert_false(pw_utf8_has_control(PW_STR_NONE));
}

static void test_utf8_encode_and_validate_agree(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110200; c++) {
        char bytes[4];
        const size_t length = pw_utf8_encode(c, bytes);
        const bool scalar = c < 0xD800 || (c > 0xDFFF && c <= 0x10FFFF);
        if (!pw_utf8_valid((pw_str){bytes, length}) ||
            pw_str_equal((pw_str){bytes, length}, PW_STR(R)) != (!scalar || c == 0xFFFD)) {
            fail_msg("U+%x", c);
        }
    }
}

/* --- Times. */

static void test_time_texts(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1796049467123, "2026-11-30T14:37:47.123Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {-2203891200000, "1900-03-01T00:00:00.000Z"},
        {-2203977600000, "1900-02-28T00:00:00.000Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {-62167219200000, "0000-01-01T00:00:00.000Z"},
        {1709164800000, "2024-02-29T00:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(pw_time_rfc3339(cases[i].ms).text, cases[i].text);
        int64_t back;
        assert_true(pw_time_parse_rfc3339(pw_str_from(cases[i].text), &back));
        assert_int_equal(back, cases[i].ms);
    }
    assert_string_equal(pw_time_rfc3339(INT64_MAX).text, "9999-12-31T23:59:59.999Z");
    assert_string_equal(pw_time_rfc3339(INT64_MIN).text, "0000-01-01T00:00:00.000Z");
    assert_string_equal(pw_time_hh_mm(1796049467123).text, "14:37");
    assert_string_equal(pw_time_hh_mm(-1).text, "23:59");
    assert_string_equal(pw_time_hh_mm(INT64_MIN).text, pw_time_hh_mm(INT64_MIN).text);
}

static void test_time_every_day_of_1200_years_goes_round(void **state)
{
    (void)state;
    for (int64_t day = -200000; day < 250000; day++) {
        const int64_t ms = day * 86400000 + (day * 7919 % 86400000 + 86400000) % 86400000;
        int64_t back;
        assert_true(pw_time_parse_rfc3339(pw_str_from(pw_time_rfc3339(ms).text), &back));
        if (back != ms) {
            fail_msg("day %lld", (long long)day);
        }
    }
}

static void test_time_rfc3339_is_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1969-12-31T19:00:00-05:00", 0},
        {"1970-01-01T00:00:00-00:00", 0},
        {"1970-01-01T00:00:00.5Z", 500},
        {"1970-01-01T00:00:00.0019999Z", 1},
        {"1970-01-01T00:00:00.123456789012Z", 123},
        {"1970-01-01T05:45:00+05:45", 0},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2017-01-01T00:59:60+01:00", 1483228800000},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        int64_t ms = -7;
        assert_true(pw_time_parse_rfc3339(pw_str_from(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    static const char *const bad[] = {
        "",
        "1970",
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-00-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T12:00:60Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00+1:00",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00Zx",
        " 1970-01-01T00:00:00Z",
        "970-01-01T00:00:00Z",
        "1970-1-01T00:00:00Z",
        "+1970-01-01T00:00:00Z",
        "1970/01/01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t ms = -7;
        if (pw_time_parse_rfc3339(pw_str_from(bad[i]), &ms)) {
            fail_msg("%s", bad[i]);
        }
        assert_int_equal(ms, -7);
    }
}

static void test_time_http_dates(void **state)
{
    (void)state;
    int64_t ms = -7;
    assert_true(pw_time_parse_http(PW_STR("Sun, 06 Nov 1994 08:49:37 GMT"), &ms));
    assert_int_equal(ms, 784111777000);
    static const char *const bad[] = {
        "",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "120",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Xxx, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "sun, 06 nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 1994 08:49:3 GMTx",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(pw_time_parse_http(pw_str_from(bad[i]), &ms));
    }
}

/* --- Ids. */

static void test_A2_uuid_v7_sorts_by_time(void **state)
{
    (void)state;
    uint8_t low[10], high[10];
    memset(low, 0, sizeof low);
    memset(high, 0xFF, sizeof high);
    char before[37] = "";
    for (int64_t ms = 0; ms < 281474976710655; ms = ms * 3 + 1) {
        const pw_uuid first = pw_uuid_v7(ms, low), last = pw_uuid_v7(ms, high);
        assert_true(strcmp(before, first.text) < 0);
        assert_true(strcmp(first.text, last.text) < 0);
        memcpy(before, last.text, sizeof before);
        assert_int_equal(strlen(first.text), 36);
        assert_int_equal(first.text[14], '7');
        assert_int_equal(first.text[19], '8');
        assert_int_equal(last.text[14], '7');
        assert_int_equal(last.text[19], 'b');
    }
    /* RFC 9562, A.6 */
    const uint8_t random[10] = {0x0C, 0xC3, 0x18, 0xC4, 0xDC, 0x0C, 0x0C, 0x07, 0x39, 0x8F};
    assert_string_equal(pw_uuid_v7(0x017F22E279B0, random).text,
                        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_string_equal(pw_uuid_v7(-5, low).text, "00000000-0000-7000-8000-000000000000");
    const uint8_t sixteen[16] = {0x91, 0x91, 0x08, 0xF7, 0x52, 0xD1, 0x33, 0x20,
                                 0x5B, 0xAC, 0xF8, 0x47, 0xDB, 0x41, 0x48, 0xA8};
    assert_string_equal(pw_uuid_v4(sixteen).text, "919108f7-52d1-4320-9bac-f847db4148a8");
}

static void test_random_is_deterministic_and_bounded(void **state)
{
    (void)state;
    pw_random a, b;
    uint8_t seed[32] = {1};
    pw_random_seed(&a, seed);
    pw_random_seed(&b, seed);
    uint64_t first = pw_random_next(&a);
    assert_true(first == pw_random_next(&b));
    for (size_t i = 0; i < 32; i++) {
        uint8_t other[32] = {1};
        other[i] ^= 0x80;
        pw_random_seed(&b, other);
        assert_true(first != pw_random_next(&b)); /* every byte of the seed counts */
    }
    size_t hits[7] = {0};
    for (int i = 0; i < 70000; i++) {
        hits[pw_random_below(&a, 7)]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_in_range(hits[i], 9500, 10500);
    }
    assert_int_equal(pw_random_below(&a, 0), 0);
    assert_int_equal(pw_random_below(&a, 1), 0);
    assert_true(pw_random_below(&a, UINT64_MAX) < UINT64_MAX);
    uint8_t bytes[21] = {0};
    pw_random_bytes(&a, bytes, 20);
    assert_int_equal(bytes[20], 0);
}

/* Every place of the byte in texts of every length, among bytes that differ from it by one bit. */
static void test_find_byte_at_every_place(void **state)
{
    (void)state;
    char text[40];
    for (size_t len = 0; len <= sizeof text; len++) {
        for (size_t at = 0; at <= len; at++) {
            for (size_t i = 0; i < len; i++) {
                text[i] = (char)(i % 2 == 0 ? '\\' ^ 1 : '\\' ^ 0x80);
            }
            if (at < len) {
                text[at] = '\\';
            }
            assert_int_equal(pw_str_find_byte((pw_str){text, len}, '\\'), at < len ? at : SIZE_MAX);
        }
    }
}

/* --- SHA-256. */

static void check_hash(pw_str text, const char *hex)
{
    const pw_hash hash = pw_sha256_of(text);
    assert_string_equal(pw_hash_to_hex(&hash).text, hex);
}

static void test_sha256_known_answers(void **state)
{
    (void)state;
    check_hash(PW_STR_NONE, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash(PW_STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash(PW_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_hash(PW_STR("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                      "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
               "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    pw_sha256 sha;
    pw_sha256_begin(&sha);
    char many[1000];
    memset(many, 'a', sizeof many);
    for (int i = 0; i < 1000; i++) {
        pw_sha256_add(&sha, (pw_str){many, sizeof many});
    }
    const pw_hash hash = pw_sha256_end(&sha);
    assert_string_equal(pw_hash_to_hex(&hash).text,
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The reference code's vectors: key 00 01 .. 0f, text 00 01 .. */
static void test_siphash_known_answers(void **state)
{
    static const struct {
        size_t len;
        uint8_t bytes[16];
    } known[] = {
        {0,
         {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
          0x93}},
        {1,
         {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
          0x45}},
        {15,
         {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3,
          0xd9}},
        {63,
         {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd,
          0x7c}},
    };
    (void)state;
    pw_siphash_key key;
    char text[64];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)i;
    }
    memcpy(key.bytes, text, sizeof key.bytes);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const pw_short_hash hash = pw_siphash(&key, (pw_str){text, known[i].len});
        assert_memory_equal(hash.bytes, known[i].bytes, sizeof hash.bytes);
    }
    const pw_short_hash none = pw_siphash(&key, PW_STR_NONE);
    assert_memory_equal(none.bytes, known[0].bytes, sizeof none.bytes);
}

static void test_sha256_splits_do_not_matter(void **state)
{
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i * 37);
    }
    for (size_t len = 0; len <= sizeof text; len++) {
        const pw_hash whole = pw_sha256_of((pw_str){text, len});
        for (size_t cut = 0; cut <= len; cut++) {
            pw_sha256 sha;
            pw_sha256_begin(&sha);
            pw_sha256_add(&sha, (pw_str){text, cut});
            pw_sha256_add(&sha, (pw_str){text + cut, len - cut});
            const pw_hash split = pw_sha256_end(&sha);
            assert_memory_equal(&whole, &split, sizeof whole);
        }
    }
}

static void test_A8_composite_keys_are_length_prefixed(void **state)
{
    (void)state;
    pw_sha256 sha;
    pw_sha256_begin(&sha);
    pw_sha256_add_sized(&sha, PW_STR("ab"));
    pw_sha256_add_sized(&sha, PW_STR("c"));
    const pw_hash one = pw_sha256_end(&sha);
    pw_sha256_begin(&sha);
    pw_sha256_add_sized(&sha, PW_STR("a"));
    pw_sha256_add_sized(&sha, PW_STR("bc"));
    const pw_hash other = pw_sha256_end(&sha);
    assert_memory_not_equal(&one, &other, sizeof one);
    const pw_hash spelled = pw_sha256_of(PW_STR("\0\0\0\0\0\0\0\2ab\0\0\0\0\0\0\0\1c"));
    assert_memory_equal(&one, &spelled, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_table_is_consistent),
        cmocka_unit_test(test_A8_error_messages_are_valid_text),
        cmocka_unit_test(test_format_writes_what_printf_would),
        cmocka_unit_test(test_money_is_exact),
        cmocka_unit_test(test_format_counts_what_does_not_fit),
        cmocka_unit_test(test_str_search_and_compare),
        cmocka_unit_test(test_str_numbers_fit_or_are_refused),
        cmocka_unit_test(test_str_durations),
        cmocka_unit_test(test_A8_every_short_sequence_is_judged_rightly),
        cmocka_unit_test(test_A8_bad_bytes_are_found_at_every_offset),
        cmocka_unit_test(test_A8_text_is_mended),
        cmocka_unit_test(test_D7_cut_never_splits_a_character),
        cmocka_unit_test(test_A8_control_characters_are_seen),
        cmocka_unit_test(test_utf8_encode_and_validate_agree),
        cmocka_unit_test(test_time_texts),
        cmocka_unit_test(test_time_every_day_of_1200_years_goes_round),
        cmocka_unit_test(test_time_rfc3339_is_read_strictly),
        cmocka_unit_test(test_time_http_dates),
        cmocka_unit_test(test_A2_uuid_v7_sorts_by_time),
        cmocka_unit_test(test_random_is_deterministic_and_bounded),
        cmocka_unit_test(test_sha256_known_answers),
        cmocka_unit_test(test_sha256_splits_do_not_matter),
        cmocka_unit_test(test_find_byte_at_every_place),
        cmocka_unit_test(test_siphash_known_answers),
        cmocka_unit_test(test_A8_composite_keys_are_length_prefixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
