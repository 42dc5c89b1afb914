/*
 * An allocator for tests: it counts what lives, checks every size it is told, and fails on demand.
 *
 * The sweep: set `fail_at` to 1, 2, 3 and so on (and `fail_forever` or not), run the code, and stop
 * at the first k for which `failed` stays 0. Whatever k, the code must answer PW_NOMEM or the right
 * thing, and leave live_bytes as it found it.
 */
#ifndef PW_TEST_FAILING_ALLOCATOR_H
#define PW_TEST_FAILING_ALLOCATOR_H

#include "base/arena.h"

typedef struct pw_test_allocator {
    pw_allocator allocator; /* hand out &t.allocator; valid while the struct does not move */
    size_t live_bytes, live_blocks, peak_bytes;
    uint64_t calls;    /* allocations and growths so far; giving back is not counted */
    uint64_t fail_at;  /* the call with this number fails (1 is the next after a reset); 0: none */
    bool fail_forever; /* and every one after it */
    uint64_t failed;   /* calls that were made to fail */
} pw_test_allocator;

void pw_test_allocator_init(pw_test_allocator *);
/* Counts calls from 0 again and sets what fails; what lives is kept. */
void pw_test_allocator_fail(pw_test_allocator *, uint64_t at, bool forever);

#endif
