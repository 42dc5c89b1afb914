/*
 * A growable byte buffer that is made with its maximum, so that no input can make one grow without
 * bound. Appending over the maximum is PW_TOO_LARGE, out of memory is PW_NOMEM; both leave the
 * content as it was. The bytes are always followed by a NUL that is not counted.
 *
 * A failed append also marks the buffer (`failed`), so that a writer of many pieces may check once
 * at the end.
 */
#ifndef PW_BASE_BUFFER_H
#define PW_BASE_BUFFER_H

#include "base/arena.h"

typedef struct pw_buffer {
    const pw_allocator *allocator; /* NULL when the memory is an arena's */
    pw_arena *arena;               /* grows by copying; old pieces stay in the arena */
    char *ptr;
    size_t len, capacity, maximum;
    pw_status failed; /* first failure, sticky until cleared */
} pw_buffer;

void pw_buffer_init(pw_buffer *, const pw_allocator *, size_t maximum);
void pw_buffer_init_arena(pw_buffer *, pw_arena *, size_t maximum);
void pw_buffer_free(pw_buffer *);  /* safe on a zeroed one; nothing for an arena's */
void pw_buffer_clear(pw_buffer *); /* length 0, `failed` PW_OK, memory kept */

pw_status pw_buffer_reserve(pw_buffer *, size_t more);
pw_status pw_buffer_add(pw_buffer *, pw_str);
pw_status pw_buffer_byte(pw_buffer *, char);
pw_status pw_buffer_i64(pw_buffer *, int64_t);
pw_status pw_buffer_u64(pw_buffer *, uint64_t);
pw_status pw_buffer_format(pw_buffer *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void pw_buffer_consume(pw_buffer *, size_t from_front); /* moves the rest to the front */
static inline pw_str pw_buffer_str(const pw_buffer *b)
{
    return (pw_str){b->ptr, b->len};
}

#endif
