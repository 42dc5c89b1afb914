/* The C library's heap as a pw_allocator: for hosted builds only, not part of the freestanding
 * core. */
#ifndef PW_BASE_HEAP_H
#define PW_BASE_HEAP_H

#include "base/arena.h"

extern const pw_allocator pw_heap;

/* Gives free pages back to the kernel, where the C library can: it walks the whole heap. */
void pw_heap_trim(void);

#endif
