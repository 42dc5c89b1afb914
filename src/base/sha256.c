/*
 * SHA-256 as FIPS 180-4 writes it. Sixteen rounds are unrolled, so no state moves between registers
 * and the message schedule stays in sixteen words.
 */
#include "base/sha256.h"

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, int by)
{
    return (x >> by) | (x << (32 - by));
}

static inline uint32_t load_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One round; the callers rename the eight variables instead of moving them. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
    do {                                                                                           \
        (h) += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((g) ^ ((e) & ((f) ^ (g)))) +      \
               k[i] + w[i];                                                                        \
        (d) += (h);                                                                                \
        (h) +=                                                                                     \
            (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (((a) & (b)) | ((c) & ((a) | (b))));  \
    } while (0)

/* The message schedule in place: w holds the last 16 words, and word i becomes word i + 16. */
#define EXPAND(i)                                                                                  \
    do {                                                                                           \
        const uint32_t x = w[((i) + 1) & 15], y = w[((i) + 14) & 15];                              \
        w[i] += (rotate(x, 7) ^ rotate(x, 18) ^ (x >> 3)) + w[((i) + 9) & 15] +                    \
                (rotate(y, 17) ^ rotate(y, 19) ^ (y >> 10));                                       \
    } while (0)

#define EIGHT(step, i)                                                                             \
    step(a, b, c, d, e, f, g, h, (i));                                                             \
    step(h, a, b, c, d, e, f, g, (i) + 1);                                                         \
    step(g, h, a, b, c, d, e, f, (i) + 2);                                                         \
    step(f, g, h, a, b, c, d, e, (i) + 3);                                                         \
    step(e, f, g, h, a, b, c, d, (i) + 4);                                                         \
    step(d, e, f, g, h, a, b, c, (i) + 5);                                                         \
    step(c, d, e, f, g, h, a, b, (i) + 6);                                                         \
    step(b, c, d, e, f, g, h, a, (i) + 7)

#define LATER_ROUND(a, b, c, d, e, f, g, h, i)                                                     \
    EXPAND(i);                                                                                     \
    ROUND(a, b, c, d, e, f, g, h, i)

static void compress(uint32_t state[8], const uint8_t *p, size_t blocks)
{
    for (; blocks > 0; blocks--, p += 64) {
        uint32_t w[16];
        for (size_t i = 0; i < 16; i++) {
            w[i] = load_big_endian(p + 4 * i);
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        const uint32_t *k = round_constants;
        EIGHT(ROUND, 0);
        EIGHT(ROUND, 8);
        for (int sixteen = 1; sixteen < 4; sixteen++) {
            k += 16;
            EIGHT(LATER_ROUND, 0);
            EIGHT(LATER_ROUND, 8);
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
}

void pw_sha256_begin(pw_sha256 *sha)
{
    *sha = (pw_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                  0x1f83d9ab, 0x5be0cd19},
    };
}

void pw_sha256_add(pw_sha256 *sha, pw_str s)
{
    if (s.len == 0) {
        return;
    }
    const uint8_t *p = (const uint8_t *)s.ptr;
    size_t left = s.len;
    const size_t waiting = (size_t)(sha->bytes % 64);
    sha->bytes += left;
    if (waiting > 0) {
        size_t take = 64 - waiting < left ? 64 - waiting : left;
        memcpy(sha->block + waiting, p, take);
        p += take;
        left -= take;
        if (waiting + take < 64) {
            return;
        }
        compress(sha->state, sha->block, 1);
    }
    compress(sha->state, p, left / 64);
    p += left / 64 * 64;
    if (left % 64 > 0) {
        memcpy(sha->block, p, left % 64);
    }
}

static void store_big_endian(uint8_t to[8], uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        to[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

void pw_sha256_add_sized(pw_sha256 *sha, pw_str s)
{
    uint8_t size[8];
    store_big_endian(size, s.len);
    pw_sha256_add(sha, (pw_str){(const char *)size, sizeof size});
    pw_sha256_add(sha, s);
}

pw_hash pw_sha256_end(pw_sha256 *sha)
{
    uint8_t tail[72] = {0x80};
    const uint64_t bits = sha->bytes * 8;
    const size_t waiting = (size_t)(sha->bytes % 64);
    const size_t padding = waiting < 56 ? 56 - waiting : 120 - waiting;
    store_big_endian(tail + padding, bits);
    pw_sha256_add(sha, (pw_str){(const char *)tail, padding + 8});
    pw_hash hash;
    for (size_t i = 0; i < 32; i++) {
        hash.bytes[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return hash;
}

pw_hash pw_sha256_of(pw_str s)
{
    pw_sha256 sha;
    pw_sha256_begin(&sha);
    pw_sha256_add(&sha, s);
    return pw_sha256_end(&sha);
}

pw_hash_hex pw_hash_to_hex(const pw_hash *hash)
{
    pw_hash_hex hex;
    for (size_t i = 0; i < 32; i++) {
        hex.text[2 * i] = "0123456789abcdef"[hash->bytes[i] >> 4];
        hex.text[2 * i + 1] = "0123456789abcdef"[hash->bytes[i] & 15];
    }
    hex.text[64] = '\0';
    return hex;
}
