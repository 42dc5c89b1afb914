/*
 * One life's memory. A crash takes all of it at once, without a word to the machine; a life that
 * ends in order must have given everything back. While `on`, allocations fail at random: the
 * machine must then leave itself as it was.
 */
#include <stdlib.h>

#include "sim.h"

struct sim_block {
    sim_block *next, **link;
    size_t size;
    size_t padding; /* keeps what follows aligned to 16 */
};

static void unlink_block(sim_block *b)
{
    *b->link = b->next;
    if (b->next) {
        b->next->link = b->link;
    }
}

static void link_block(sim_heap *h, sim_block *b)
{
    b->next = h->blocks;
    b->link = &h->blocks;
    if (b->next) {
        b->next->link = &b->next;
    }
    h->blocks = b;
}

static void *heap_resize(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    sim_heap *h = ctx;
    sim_block *b = ptr ? (sim_block *)ptr - 1 : NULL;
    PW_ASSERT(!b || b->size == old_size);
    if (new_size == 0) {
        if (b) {
            h->bytes -= b->size;
            unlink_block(b);
            free(b);
        }
        return NULL;
    }
    if (h->on && h->starve_permille > 0 &&
        pw_random_below(&h->random, 1000) < (uint64_t)h->starve_permille) {
        h->failures++;
        return NULL;
    }
    if (b) {
        unlink_block(b);
        h->bytes -= b->size;
    }
    b = realloc(b, sizeof *b + new_size);
    PW_ASSERT(b);
    if (!ptr) {
        memset(b + 1, 0xa5, new_size < 512 ? new_size : 512); /* nobody may count on zeroes */
    }
    b->size = new_size;
    h->bytes += new_size;
    link_block(h, b);
    return b + 1;
}

void heap_init(sim_heap *h, uint64_t seed, int32_t starve_permille)
{
    *h = (sim_heap){.allocator = {.resize = heap_resize, .ctx = h},
                    .random = {seed},
                    .starve_permille = starve_permille};
}

void heap_drop(sim_heap *h)
{
    while (h->blocks) {
        sim_block *b = h->blocks;
        h->blocks = b->next;
        free(b);
    }
    h->bytes = 0;
}
