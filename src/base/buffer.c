/*
 * Growable buffers. Capacity doubles up to the maximum; a heap buffer is resized in place, an
 * arena's is copied into a larger piece. Once an append has failed the buffer takes nothing more,
 * so a writer of many pieces never leaves a text with a hole in the middle.
 */
#include "base/buffer.h"

#include "base/format.h"

#define CAPACITY_FIRST ((size_t)64)

void pw_buffer_init(pw_buffer *b, const pw_allocator *allocator, size_t maximum)
{
    *b = (pw_buffer){.allocator = allocator, .maximum = maximum};
}

void pw_buffer_init_arena(pw_buffer *b, pw_arena *arena, size_t maximum)
{
    *b = (pw_buffer){.arena = arena, .maximum = maximum};
}

void pw_buffer_free(pw_buffer *b)
{
    if (b->allocator != NULL && b->ptr != NULL) {
        b->allocator->resize(b->allocator->ctx, b->ptr, b->capacity, 0);
    }
    b->ptr = NULL;
    b->len = 0;
    b->capacity = 0;
    b->failed = PW_OK;
}

void pw_buffer_clear(pw_buffer *b)
{
    b->len = 0;
    b->failed = PW_OK;
    if (b->ptr != NULL) {
        b->ptr[0] = '\0';
    }
}

static char *resize(pw_buffer *b, size_t capacity)
{
    if (b->arena == NULL) {
        PW_ASSERT(b->allocator != NULL);
        return b->allocator->resize(b->allocator->ctx, b->ptr, b->capacity, capacity);
    }
    char *ptr = pw_arena_bytes(b->arena, capacity);
    if (ptr != NULL && b->len > 0) {
        memcpy(ptr, b->ptr, b->len);
    }
    return ptr;
}

static pw_status grow(pw_buffer *b, size_t more)
{
    if (b->failed != PW_OK) {
        return b->failed;
    }
    if (more > b->maximum - b->len) {
        return b->failed = PW_TOO_LARGE;
    }
    const size_t need = b->len + more + 1; /* the NUL */
    if (need == 0) {
        return b->failed = PW_NOMEM;
    }
    const size_t most = b->maximum < SIZE_MAX ? b->maximum + 1 : SIZE_MAX;
    size_t capacity = b->capacity > CAPACITY_FIRST / 2 ? b->capacity * 2 : CAPACITY_FIRST;
    if (capacity < b->capacity || capacity > most) {
        capacity = most;
    }
    if (capacity < need) {
        capacity = need;
    }
    char *ptr = resize(b, capacity);
    if (ptr == NULL && capacity > need) {
        capacity =
            need; /* near an arena's limit the doubled size may not fit where this one does */
        ptr = resize(b, capacity);
    }
    if (ptr == NULL) {
        return b->failed = PW_NOMEM;
    }
    ptr[b->len] = '\0';
    b->ptr = ptr;
    b->capacity = capacity;
    return PW_OK;
}

pw_status pw_buffer_reserve(pw_buffer *b, size_t more)
{
    if (b->failed == PW_OK && b->ptr != NULL && more < b->capacity - b->len &&
        more <= b->maximum - b->len) {
        return PW_OK;
    }
    return grow(b, more);
}

pw_status pw_buffer_add(pw_buffer *b, pw_str s)
{
    if (s.len == 0) {
        return b->failed;
    }
    PW_TRY(pw_buffer_reserve(b, s.len));
    memcpy(b->ptr + b->len, s.ptr, s.len);
    b->len += s.len;
    b->ptr[b->len] = '\0';
    return PW_OK;
}

pw_status pw_buffer_byte(pw_buffer *b, char byte)
{
    PW_TRY(pw_buffer_reserve(b, 1));
    b->ptr[b->len++] = byte;
    b->ptr[b->len] = '\0';
    return PW_OK;
}

static pw_status add_number(pw_buffer *b, uint64_t magnitude, bool negative)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    if (negative) {
        digits[--at] = '-'; /* fits: the magnitude of an int64_t has 19 digits */
    }
    return pw_buffer_add(b, (pw_str){digits + at, sizeof digits - at});
}

pw_status pw_buffer_i64(pw_buffer *b, int64_t value)
{
    return add_number(b, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

pw_status pw_buffer_u64(pw_buffer *b, uint64_t value)
{
    return add_number(b, value, false);
}

pw_status pw_buffer_format(pw_buffer *b, const char *format, ...)
{
    PW_TRY(b->failed);
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t room = b->ptr != NULL ? b->capacity - b->len : 0;
    const size_t len = pw_format_va(b->ptr != NULL ? b->ptr + b->len : NULL, room, format, args);
    va_end(args);
    pw_status status = pw_buffer_reserve(b, len);
    if (status == PW_OK) {
        if (len >= room) {
            pw_format_va(b->ptr + b->len, len + 1, format, again);
        }
        b->len += len;
    } else if (b->ptr != NULL) {
        b->ptr[b->len] = '\0'; /* what the first try wrote past the end */
    }
    va_end(again);
    return status;
}

void pw_buffer_consume(pw_buffer *b, size_t from_front)
{
    PW_ASSERT(from_front <= b->len);
    if (from_front == 0) {
        return;
    }
    b->len -= from_front;
    memmove(b->ptr, b->ptr + from_front, b->len);
    b->ptr[b->len] = '\0';
}
