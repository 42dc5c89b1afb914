/* The C library's heap behind pw_allocator; the one file of base that needs a hosted compiler. */
#include "base/heap.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static void *heap_resize(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_size);
}

const pw_allocator pw_heap = {heap_resize, NULL};

void pw_heap_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
