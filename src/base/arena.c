/*
 * Arenas: a list of blocks, newest first; memory is cut off the newest one.
 *
 * Invariants:
 *  1. Ordinary blocks are linked by `older`; only `head` gives out memory. What an older block had
 *     left is not used again.
 *  2. A request too big to be worth a new ordinary block gets a block of its own, hung off the
 * block that was head at that time (`big`), which goes on serving small requests.
 *  3. Hanging one on spends one unit of the head (`at` is where): so a mark's `used` tells which of
 *     a block's big ones are younger than the mark.
 *  4. `held` is the sum of all block sizes with their headers, and never over `limit`.
 */
#include "base/arena.h"

#define UNIT ((size_t)16)
#define BLOCK_SIZE_MAX ((size_t)64 * 1024)
#define BLOCK_SIZE_FIRST ((size_t)1024)

struct pw_arena_block {
    pw_arena_block
        *older; /* ordinary: the next older; big: the next older big one of the same block */
    pw_arena_block *big;
    size_t size; /* with this header */
    size_t used; /* with this header */
    size_t at;   /* of a big one: the `used` of its block before it was hung on */
};

#define HEADER ((sizeof(pw_arena_block) + UNIT - 1) / UNIT * UNIT)

void pw_arena_init(pw_arena *arena, const pw_allocator *allocator, size_t first_block, size_t limit)
{
    size_t size = first_block > 0 ? first_block : BLOCK_SIZE_FIRST;
    *arena = (pw_arena){
        .allocator = allocator,
        .block_size = size < HEADER + UNIT ? HEADER + UNIT : size,
        .block_size_max = BLOCK_SIZE_MAX,
        .limit = limit,
    };
}

static void block_free(pw_arena *arena, pw_arena_block *block)
{
    arena->held -= block->size;
    arena->allocator->resize(arena->allocator->ctx, block, block->size, 0);
}

/* The big ones of a block that were hung on at or after `used`. */
static void big_free(pw_arena *arena, pw_arena_block *block, size_t used)
{
    while (block->big != NULL && block->big->at >= used) {
        pw_arena_block *big = block->big;
        block->big = big->older;
        block_free(arena, big);
    }
}

static void head_free(pw_arena *arena)
{
    pw_arena_block *head = arena->head;
    big_free(arena, head, 0);
    arena->head = head->older;
    block_free(arena, head);
}

void pw_arena_free(pw_arena *arena)
{
    while (arena->head != NULL) {
        head_free(arena);
    }
}

void pw_arena_reset(pw_arena *arena)
{
    pw_arena_block *kept = arena->head;
    /* The newest block is the largest ordinary one; but one huge request is not held for ever. */
    if (kept == NULL || kept->size > BLOCK_SIZE_MAX) {
        pw_arena_free(arena);
        return;
    }
    arena->head = kept->older;
    pw_arena_free(arena);
    big_free(arena, kept, 0);
    kept->older = NULL;
    kept->used = HEADER;
    arena->head = kept;
}

static pw_arena_block *block_new(pw_arena *arena, size_t size)
{
    PW_ASSERT(arena->allocator != NULL);
    if (arena->limit > 0 && (size > arena->limit || arena->held > arena->limit - size)) {
        return NULL;
    }
    pw_arena_block *block = arena->allocator->resize(arena->allocator->ctx, NULL, 0, size);
    if (block == NULL) {
        return NULL;
    }
    *block = (pw_arena_block){.size = size, .used = HEADER};
    arena->held += size;
    return block;
}

/* `size` is rounded already, and does not fit into the head. */
static void *alloc_slow(pw_arena *arena, size_t size)
{
    if (size > SIZE_MAX - HEADER - UNIT) {
        return NULL;
    }
    pw_arena_block *head = arena->head;
    const size_t need = HEADER + size;
    if (head != NULL && size > arena->block_size / 4 && head->size - head->used >= UNIT) {
        pw_arena_block *big = block_new(arena, need);
        if (big == NULL) {
            return NULL;
        }
        big->used = need;
        big->at = head->used;
        big->older = head->big;
        head->big = big;
        head->used += UNIT;
        return (char *)big + HEADER;
    }
    size_t block_size = need > arena->block_size ? need : arena->block_size;
    if (arena->limit > 0 && block_size > need && arena->held < arena->limit &&
        block_size > arena->limit - arena->held) {
        /* The last block before the limit is only as big as the limit lets it be. */
        block_size = arena->limit - arena->held;
        block_size = block_size > need ? block_size : need;
    }
    pw_arena_block *block = block_new(arena, block_size);
    if (block == NULL) {
        return NULL;
    }
    if (arena->block_size < arena->block_size_max) {
        arena->block_size *= 2;
    }
    block->older = head;
    block->used = need;
    arena->head = block;
    return (char *)block + HEADER;
}

void *pw_arena_bytes(pw_arena *arena, size_t size)
{
    if (size > SIZE_MAX - UNIT) {
        return NULL;
    }
    size = size == 0 ? UNIT : (size + UNIT - 1) & ~(UNIT - 1);
    pw_arena_block *head = arena->head;
    if (head != NULL && head->size - head->used >= size) {
        void *at = (char *)head + head->used;
        head->used += size;
        return at;
    }
    return alloc_slow(arena, size);
}

void *pw_arena_alloc(pw_arena *arena, size_t size)
{
    void *at = pw_arena_bytes(arena, size);
    if (at != NULL && size > 0) {
        memset(at, 0, size);
    }
    return at;
}

void *pw_arena_array(pw_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    return pw_arena_alloc(arena, bytes);
}

pw_status pw_arena_dup(pw_arena *arena, pw_str s, pw_str *ret)
{
    if (s.len == SIZE_MAX) {
        return PW_NOMEM;
    }
    char *copy = pw_arena_bytes(arena, s.len + 1);
    if (copy == NULL) {
        return PW_NOMEM;
    }
    if (s.len > 0) {
        memcpy(copy, s.ptr, s.len);
    }
    copy[s.len] = '\0';
    *ret = (pw_str){copy, s.len};
    return PW_OK;
}

pw_arena_mark pw_arena_mark_get(const pw_arena *arena)
{
    return (pw_arena_mark){arena->head, arena->head != NULL ? arena->head->used : 0};
}

void pw_arena_rewind(pw_arena *arena, pw_arena_mark mark)
{
    while (arena->head != mark.head) {
        PW_ASSERT(arena->head != NULL); /* a mark outlived what it marked */
        head_free(arena);
    }
    if (mark.head != NULL) {
        PW_ASSERT(mark.used <= mark.head->used);
        big_free(arena, mark.head, mark.used);
        mark.head->used = mark.used;
    }
}
