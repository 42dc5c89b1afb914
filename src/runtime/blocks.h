/*
 * Blocks: an allocator in front of another one that keeps what is freed for the next who asks for
 * as much.
 *
 * Sessions come and go by arenas of a few sizes, thousands a second: given back to the heap each
 * time, their pages are returned to the kernel and faulted in anew. What is kept is bounded;
 * everything beyond goes back at once. Thread-safe.
 */
#ifndef PW_RUNTIME_BLOCKS_H
#define PW_RUNTIME_BLOCKS_H

#include <uv.h>

#include "base/arena.h"

enum { PW_BLOCKS_CLASSES = 29 }; /* 512 to 64 KiB, four to a doubling */

typedef struct pw_blocks {
    pw_allocator allocator; /* what it is used by */
    const pw_allocator *under;
    uv_mutex_t mutex;
    void *first[PW_BLOCKS_CLASSES];
    size_t kept, kept_max; /* bytes */
} pw_blocks;

/* Used in place: it must not move. PW_NOMEM. */
pw_status pw_blocks_init(pw_blocks *, const pw_allocator *under, size_t kept_max);
void pw_blocks_give_back(pw_blocks *); /* all that is kept now */
void pw_blocks_free(pw_blocks *);      /* after all that came from it was given back */

#endif
