/* The heap with a book kept about it; every block remembers its size, so wrong sizes are caught. */
#include "support/failing_allocator.h"

#include <stdio.h>
#include <stdlib.h>

#define SIZE_LIMIT ((size_t)1 << 30) /* as if the machine had no more */
#define ROOM 16                      /* before each block: its size, keeping alignment */

static void wrong(const char *what, size_t said, size_t is)
{
    fprintf(stderr, "pw_test_allocator: %s: told %zu, is %zu\n", what, said, is);
    abort();
}

static void *resize(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    pw_test_allocator *t = ctx;
    char *block = ptr != NULL ? (char *)ptr - ROOM : NULL;
    size_t size = 0;
    if (block != NULL) {
        memcpy(&size, block, sizeof size);
    }
    if (size != old_size) {
        wrong("old size", old_size, size);
    }
    if (new_size == 0) {
        if (block != NULL) {
            memset(block, 0xDD, size + ROOM);
            free(block);
            t->live_bytes -= size;
            t->live_blocks--;
        }
        return NULL;
    }
    t->calls++;
    if (t->fail_at != 0 && (t->calls == t->fail_at || (t->fail_forever && t->calls > t->fail_at))) {
        t->failed++;
        return NULL;
    }
    if (new_size > SIZE_LIMIT) {
        return NULL;
    }
    /* Always moves: nobody may rely on growing in place. */
    char *moved = malloc(ROOM + new_size);
    if (moved == NULL) {
        return NULL;
    }
    memcpy(moved, &new_size, sizeof new_size);
    memset(moved + ROOM, 0xCC, new_size);
    if (block != NULL) {
        memcpy(moved + ROOM, ptr, size < new_size ? size : new_size);
        memset(block, 0xDD, size + ROOM);
        free(block);
    } else {
        t->live_blocks++;
    }
    t->live_bytes += new_size - size;
    t->peak_bytes = t->live_bytes > t->peak_bytes ? t->live_bytes : t->peak_bytes;
    return moved + ROOM;
}

void pw_test_allocator_init(pw_test_allocator *t)
{
    *t = (pw_test_allocator){.allocator = {resize, t}};
}

void pw_test_allocator_fail(pw_test_allocator *t, uint64_t at, bool forever)
{
    t->calls = 0;
    t->failed = 0;
    t->fail_at = at;
    t->fail_forever = forever;
}
