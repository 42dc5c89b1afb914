/* Base64, there and back (base64.h). */
#include "base/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void pw_base64_text(pw_str bytes, char *to)
{
    const uint8_t *from = (const uint8_t *)bytes.ptr;
    for (size_t i = 0; i < bytes.len; i += 3) {
        const size_t left = bytes.len - i;
        const uint32_t three = (uint32_t)from[i] << 16 |
                               (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)from[i + 2] : 0);
        *to++ = digits[three >> 18];
        *to++ = digits[three >> 12 & 63];
        *to++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[three & 63] : '=';
    }
    *to = '\0';
}

pw_status pw_base64_add(pw_buffer *buffer, pw_str bytes)
{
    char text[PW_BASE64_SIZE(96)];
    for (size_t i = 0; i < bytes.len; i += 96) {
        const size_t size = bytes.len - i < 96 ? bytes.len - i : 96;
        pw_base64_text(pw_str_slice(bytes, i, i + size), text);
        PW_TRY(pw_buffer_add(buffer, (pw_str){text, PW_BASE64_SIZE(size) - 1}));
    }
    return PW_OK;
}

static int value_of(char c)
{
    for (int value = 0; value < 64; value++) {
        if (digits[value] == c) {
            return value;
        }
    }
    return -1;
}

pw_status pw_base64_decode(pw_arena *arena, pw_str text, pw_str *ret)
{
    size_t padding = 0;
    while (padding < 2 && padding < text.len && text.ptr[text.len - 1 - padding] == '=') {
        padding++;
    }
    if (text.len % 4 != 0) {
        return PW_INVALID;
    }
    const size_t size = text.len / 4 * 3 - padding;
    uint8_t *bytes = pw_arena_bytes(arena, size + 3);
    if (!bytes) {
        return PW_NOMEM;
    }
    for (size_t i = 0, at = 0; i < text.len; i += 4, at += 3) {
        const size_t held = i + 4 == text.len ? 4 - padding : 4;
        uint32_t three = 0;
        for (size_t k = 0; k < 4; k++) {
            const int value = k < held ? value_of(text.ptr[i + k]) : 0;
            if (value < 0) {
                return PW_INVALID;
            }
            three = three << 6 | (uint32_t)value;
        }
        bytes[at] = (uint8_t)(three >> 16);
        bytes[at + 1] = (uint8_t)(three >> 8);
        bytes[at + 2] = (uint8_t)three;
        if ((held == 2 && (three & 0xffff) != 0) || (held == 3 && (three & 0xff) != 0)) {
            return PW_INVALID; /* bits that would be lost */
        }
    }
    *ret = (pw_str){(const char *)bytes, size};
    return PW_OK;
}
