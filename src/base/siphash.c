/* SipHash as its paper and reference code have it: two rounds a word of eight bytes, four for each
 * half of the answer. */
#include "base/siphash.h"

static inline uint64_t load_little_endian(const uint8_t *p)
{
    uint64_t word = 0;
    for (size_t i = 0; i < 8; i++) {
        word |= (uint64_t)p[i] << (8 * i);
    }
    return word;
}

static void store_little_endian(uint8_t *to, uint64_t word)
{
    for (size_t i = 0; i < 8; i++) {
        to[i] = (uint8_t)(word >> (8 * i));
    }
}

static inline uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static inline void rounds(uint64_t v[4], int count)
{
    for (int i = 0; i < count; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static inline void add(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

pw_short_hash pw_siphash(const pw_siphash_key *key, pw_str text)
{
    const uint64_t k0 = load_little_endian(key->bytes), k1 = load_little_endian(key->bytes + 8);
    uint64_t v[4] = {
        k0 ^ 0x736f6d6570736575,
        k1 ^ 0x646f72616e646f6d ^ 0xee,
        k0 ^ 0x6c7967656e657261,
        k1 ^ 0x7465646279746573,
    };
    const uint8_t *p = (const uint8_t *)text.ptr;
    for (size_t words = text.len / 8; words > 0; words--, p += 8) {
        add(v, load_little_endian(p));
    }
    uint8_t tail[8] = {0};
    if (text.len % 8 > 0) {
        memcpy(tail, p, text.len % 8);
    }
    tail[7] = (uint8_t)text.len;
    add(v, load_little_endian(tail));
    pw_short_hash hash;
    v[2] ^= 0xee;
    rounds(v, 4);
    store_little_endian(hash.bytes, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    rounds(v, 4);
    store_little_endian(hash.bytes + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
    return hash;
}
