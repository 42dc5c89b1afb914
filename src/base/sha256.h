/* SHA-256 (FIPS 180-4), for content hashes, turn ids (B3), idempotency keys (D1). Not for
 * passwords. */
#ifndef PW_BASE_SHA256_H
#define PW_BASE_SHA256_H

#include "base/str.h"

typedef struct pw_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} pw_sha256;

typedef struct pw_hash {
    uint8_t bytes[32];
} pw_hash;
typedef struct pw_hash_hex {
    char text[65];
} pw_hash_hex; /* 64 lowercase hex digits and a NUL */

void pw_sha256_begin(pw_sha256 *);
void pw_sha256_add(pw_sha256 *, pw_str);
void pw_sha256_add_sized(pw_sha256 *, pw_str); /* 8 bytes of length, big-endian, then the bytes:
                                                  composite keys are never joined (A8) */
pw_hash pw_sha256_end(pw_sha256 *);
pw_hash pw_sha256_of(pw_str);
pw_hash_hex pw_hash_to_hex(const pw_hash *);

#endif
