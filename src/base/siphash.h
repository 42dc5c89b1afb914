/*
 * SipHash-2-4 with 128 bits (Aumasson and Bernstein): a short keyed hash for what stays in memory
 * and is only asked whether it is the same (F4). Who does not know the key cannot make two texts
 * alike. Never for what is stored or compared with another program's: that is SHA-256's.
 */
#ifndef PW_BASE_SIPHASH_H
#define PW_BASE_SIPHASH_H

#include "base/str.h"

typedef struct pw_siphash_key {
    uint8_t bytes[16];
} pw_siphash_key;

typedef struct pw_short_hash {
    uint8_t bytes[16];
} pw_short_hash;

pw_short_hash pw_siphash(const pw_siphash_key *, pw_str);

#endif
