/*
 * Free lists by size class; see blocks.h. A block of a class is as large as the class, so that any
 * request of the class fits. Must never hold its mutex while the allocator beneath is at work.
 */
#include "runtime/blocks.h"

#include <string.h>

enum { SIZE_MIN = 512, SIZE_MAX_CLASS = 64 * 1024 };

/* The class that holds `size` bytes, or PW_BLOCKS_CLASSES: too small or too large to be kept. */
static unsigned class_of(size_t size, size_t *ret_size)
{
    if (size < SIZE_MIN || size > SIZE_MAX_CLASS) {
        *ret_size = size;
        return PW_BLOCKS_CLASSES;
    }
    unsigned doubling = 63 - (unsigned)__builtin_clzll((unsigned long long)size); /* 9 to 16 */
    size_t quarter = (size_t)1 << (doubling - 2);
    size_t quarters = (size - ((size_t)1 << doubling) + quarter - 1) / quarter; /* 0 to 4 */
    *ret_size = ((size_t)1 << doubling) + quarters * quarter;
    return (doubling - 9) * 4 + (unsigned)quarters;
}

static void *take(pw_blocks *blocks, unsigned class, size_t size)
{
    uv_mutex_lock(&blocks->mutex);
    void *block = blocks->first[class];
    if (block) {
        memcpy(&blocks->first[class], block, sizeof(void *));
        blocks->kept -= size;
    }
    uv_mutex_unlock(&blocks->mutex);
    return block ? block : blocks->under->resize(blocks->under->ctx, NULL, 0, size);
}

static void give_back(pw_blocks *blocks, unsigned class, size_t size, void *block)
{
    bool keep = false;
    if (class < PW_BLOCKS_CLASSES) {
        uv_mutex_lock(&blocks->mutex);
        keep = blocks->kept + size <= blocks->kept_max;
        if (keep) {
            memcpy(block, &blocks->first[class], sizeof(void *));
            blocks->first[class] = block;
            blocks->kept += size;
        }
        uv_mutex_unlock(&blocks->mutex);
    }
    if (!keep) {
        blocks->under->resize(blocks->under->ctx, block, size, 0);
    }
}

static void *blocks_resize(void *ctx, void *block, size_t old_size, size_t new_size)
{
    pw_blocks *blocks = ctx;
    size_t old_bytes = 0, new_bytes = 0;
    unsigned old_class = block ? class_of(old_size, &old_bytes) : PW_BLOCKS_CLASSES;
    unsigned new_class = class_of(new_size, &new_bytes);
    if (new_size == 0) {
        if (block) {
            give_back(blocks, old_class, old_bytes, block);
        }
        return NULL;
    }
    if (block && old_class == new_class &&
        (new_class < PW_BLOCKS_CLASSES || old_bytes == new_bytes)) {
        return block;
    }
    if (old_class == PW_BLOCKS_CLASSES && new_class == PW_BLOCKS_CLASSES) {
        return blocks->under->resize(blocks->under->ctx, block, old_bytes, new_bytes);
    }
    void *made = new_class < PW_BLOCKS_CLASSES
                     ? take(blocks, new_class, new_bytes)
                     : blocks->under->resize(blocks->under->ctx, NULL, 0, new_bytes);
    if (made && block) {
        memcpy(made, block, old_size < new_size ? old_size : new_size);
        give_back(blocks, old_class, old_bytes, block);
    }
    return made;
}

pw_status pw_blocks_init(pw_blocks *blocks, const pw_allocator *under, size_t kept_max)
{
    *blocks =
        (pw_blocks){.allocator = {blocks_resize, blocks}, .under = under, .kept_max = kept_max};
    return uv_mutex_init(&blocks->mutex) == 0 ? PW_OK : PW_NOMEM;
}

void pw_blocks_give_back(pw_blocks *blocks)
{
    for (unsigned class = 0; class < PW_BLOCKS_CLASSES; class ++) {
        size_t size = ((size_t)1 << (9 + class / 4)) + ((size_t)1 << (7 + class / 4)) * (class % 4);
        uv_mutex_lock(&blocks->mutex);
        void *block = blocks->first[class];
        blocks->first[class] = NULL;
        for (void *next = block; next; memcpy(&next, next, sizeof(void *))) {
            blocks->kept -= size;
        }
        uv_mutex_unlock(&blocks->mutex);
        while (block) {
            void *next;
            memcpy(&next, block, sizeof(void *));
            blocks->under->resize(blocks->under->ctx, block, size, 0);
            block = next;
        }
    }
}

void pw_blocks_free(pw_blocks *blocks)
{
    pw_blocks_give_back(blocks);
    uv_mutex_destroy(&blocks->mutex);
}
