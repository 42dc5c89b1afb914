/*
 * Memory: one allocator function that a host hands in, and arenas on top of it.
 *
 * An arena gives out memory that is freed all at once. Nothing in `core` frees piecemeal. Every
 * allocation may fail: the result is NULL (or PW_NOMEM) and nothing has changed. Not thread-safe:
 * one thread uses an arena at a time.
 */
#ifndef PW_BASE_ARENA_H
#define PW_BASE_ARENA_H

#include "base/status.h"
#include "base/str.h"

/* Lua's contract: new_size 0 frees and returns NULL; ptr NULL allocates; otherwise resizes, and on
 * failure returns NULL leaving the old block as it was. Must be thread-safe. */
typedef struct pw_allocator {
    void *(*resize)(void *ctx, void *ptr, size_t old_size, size_t new_size);
    void *ctx;
} pw_allocator;

typedef struct pw_arena_block pw_arena_block;

typedef struct pw_arena {
    const pw_allocator *allocator;
    pw_arena_block *head;  /* newest block */
    size_t block_size;     /* size of the next ordinary block; doubles up to block_size_max */
    size_t block_size_max; /* 64 KiB unless set to less after init */
    size_t held;           /* bytes taken from the allocator */
    size_t limit;          /* 0: none; otherwise `held` never exceeds it */
} pw_arena;

typedef struct pw_arena_mark {
    pw_arena_block *head;
    size_t used;
} pw_arena_mark;

/* Allocates nothing. `first_block` is the size of the first block (0: 1 KiB). */
void pw_arena_init(pw_arena *, const pw_allocator *, size_t first_block, size_t limit);
void pw_arena_free(
    pw_arena *); /* gives everything back; the arena can be used again; a zeroed arena is fine */
void pw_arena_reset(pw_arena *); /* as free, but may keep the first block for the next use */

/* Aligned to 16, zeroed. Size 0 gives a non-NULL pointer. Overflow of count * size gives NULL. */
void *pw_arena_alloc(pw_arena *, size_t size);
void *pw_arena_array(pw_arena *, size_t count, size_t size);
#define PW_NEW(arena, type) ((type *)pw_arena_alloc((arena), sizeof(type)))
#define PW_NEW_ARRAY(arena, type, count) ((type *)pw_arena_array((arena), (count), sizeof(type)))

/* As pw_arena_alloc but not zeroed: for bytes that are written at once. */
void *pw_arena_bytes(pw_arena *, size_t size);

/* A copy of the bytes, followed by a NUL that is not counted. Copying an empty string gives "" . */
pw_status pw_arena_dup(pw_arena *, pw_str, pw_str *ret);

/* Everything allocated after the mark is given back at once. */
pw_arena_mark pw_arena_mark_get(const pw_arena *);
void pw_arena_rewind(pw_arena *, pw_arena_mark);

#endif
