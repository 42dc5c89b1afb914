/* HMAC-SHA-256 (hmac.h). */
#include "base/hmac.h"

#define BLOCK 64

static void begin(pw_sha256 *sha, const uint8_t *key, uint8_t pad)
{
    uint8_t block[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        block[i] = key[i] ^ pad;
    }
    pw_sha256_begin(sha);
    pw_sha256_add(sha, (pw_str){(const char *)block, BLOCK});
}

void pw_hmac_begin(pw_hmac *hmac, pw_str key)
{
    uint8_t block[BLOCK] = {0};
    const pw_hash hash = pw_sha256_of(key);
    if (key.len > BLOCK) {
        memcpy(block, hash.bytes, sizeof hash.bytes);
    } else if (key.len > 0) {
        memcpy(block, key.ptr, key.len);
    }
    begin(&hmac->inner, block, 0x36);
    begin(&hmac->outer, block, 0x5c);
}

void pw_hmac_add(pw_hmac *hmac, pw_str bytes)
{
    pw_sha256_add(&hmac->inner, bytes);
}

pw_hash pw_hmac_end(pw_hmac *hmac)
{
    const pw_hash inner = pw_sha256_end(&hmac->inner);
    pw_sha256_add(&hmac->outer, (pw_str){(const char *)inner.bytes, sizeof inner.bytes});
    return pw_sha256_end(&hmac->outer);
}
