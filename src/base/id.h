/*
 * Ids and a random stream, both made only of what they are given: no entropy source, no clock.
 */
#ifndef PW_BASE_ID_H
#define PW_BASE_ID_H

#include "base/str.h"

typedef struct pw_uuid {
    char text[37];
} pw_uuid; /* 36 characters and a NUL */

pw_uuid pw_uuid_v7(int64_t now_ms, const uint8_t random[10]); /* RFC 9562: sorts by time */
pw_uuid pw_uuid_v4(const uint8_t random[16]);

/* A deterministic stream of random numbers (SplitMix64) from a seed; good for jitter, ids and
 * simulations, not for secrets. */
typedef struct pw_random {
    uint64_t state;
} pw_random;
void pw_random_seed(pw_random *, const uint8_t seed[32]);
uint64_t pw_random_next(pw_random *);
uint64_t pw_random_below(pw_random *,
                         uint64_t bound); /* 0 .. bound - 1, unbiased; bound 0 gives 0 */
void pw_random_bytes(pw_random *, uint8_t *to, size_t size);

#endif
