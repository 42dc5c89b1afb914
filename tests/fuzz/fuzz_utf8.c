/*
 * Any bytes through the UTF-8 functions, judged by a decoder of its own. What must hold: valid
 * means what the judge says; the prefix is the longest; mended text is clean, mending it again
 * changes nothing and clean text passes unchanged; a cut splits no character and loses less than
 * one.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/utf8.h"

#define MUST(condition) ((condition) ? (void)0 : __builtin_trap())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Length of the character at p, 0 when there is none: by value, not by table. */
static size_t judge(const uint8_t *p, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t c = p[0];
    if (c < 0x80) {
        return 1;
    }
    const size_t length = c < 0xC0 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF8 ? 4 : 0;
    if (length == 0 || length > left) {
        return 0;
    }
    uint32_t value = c & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
        value = value << 6 | (p[i] & 0x3Fu);
    }
    const bool scalar = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    return scalar && value >= least[length] ? length : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pw_str text = {(const char *)data, size};
    size_t good = 0;
    while (good < size && judge(data + good, size - good) > 0) {
        good += judge(data + good, size - good);
    }
    MUST(pw_utf8_valid_prefix(text) == good);
    MUST(pw_utf8_valid(text) == (good == size));
    pw_buffer once, twice;
    pw_buffer_init(&once, &pw_heap, 3 * size);
    pw_buffer_init(&twice, &pw_heap, 3 * size);
    MUST(pw_utf8_mend(&once, text) == PW_OK);
    const pw_str mended = pw_buffer_str(&once);
    MUST(pw_utf8_clean(mended));
    MUST(pw_utf8_mend(&twice, mended) == PW_OK && pw_str_equal(pw_buffer_str(&twice), mended));
    MUST(!pw_utf8_clean(text) || pw_str_equal(text, mended));
    for (size_t limit = 0; limit <= mended.len && limit < 300; limit++) {
        const size_t cut = pw_utf8_cut(mended, limit);
        MUST(cut <= limit && limit - cut < 4 && pw_utf8_valid(pw_str_slice(mended, 0, cut)));
        MUST(cut == mended.len ||
             cut + judge((const uint8_t *)mended.ptr + cut, mended.len - cut) > limit);
        MUST(pw_utf8_cut(text, limit) <= limit);
    }
    (void)pw_utf8_has_control(text);
    /* Also here: whatever is read as a time is written as the same time. */
    int64_t ms, back;
    if (pw_time_parse_rfc3339(text, &ms) && ms >= -62167219200000 && ms <= 253402300799999) {
        MUST(pw_time_parse_rfc3339(pw_str_from(pw_time_rfc3339(ms).text), &back) && back == ms);
    }
    (void)pw_time_parse_http(text, &ms);
    (void)pw_str_duration_ms(text, &ms);
    pw_buffer_free(&once);
    pw_buffer_free(&twice);
    return 0;
}
