/* UUIDs from the randomness they are given, and a seeded random stream for jitter and simulations.
 */
#include "base/id.h"

static pw_uuid uuid_text(const uint8_t bytes[16])
{
    static const char hex[] = "0123456789abcdef";
    pw_uuid uuid;
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            uuid.text[at++] = '-';
        }
        uuid.text[at++] = hex[bytes[i] >> 4];
        uuid.text[at++] = hex[bytes[i] & 15];
    }
    uuid.text[at] = '\0';
    return uuid;
}

pw_uuid pw_uuid_v7(int64_t now_ms, const uint8_t random[10])
{
    /* 48 bits of time; before 1970 there is none. */
    const uint64_t ms = now_ms > 0 ? (uint64_t)now_ms : 0;
    uint8_t bytes[16];
    for (size_t i = 0; i < 6; i++) {
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    memcpy(bytes + 6, random, 10);
    bytes[6] = (uint8_t)(0x70 | (bytes[6] & 0x0F));
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3F));
    return uuid_text(bytes);
}

pw_uuid pw_uuid_v4(const uint8_t random[16])
{
    uint8_t bytes[16];
    memcpy(bytes, random, 16);
    bytes[6] = (uint8_t)(0x40 | (bytes[6] & 0x0F));
    bytes[8] = (uint8_t)(0x80 | (bytes[8] & 0x3F));
    return uuid_text(bytes);
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

void pw_random_seed(pw_random *random, const uint8_t seed[32])
{
    uint64_t state = 0;
    for (size_t word = 0; word < 4; word++) {
        uint64_t value = 0;
        for (size_t i = 0; i < 8; i++) {
            value |= (uint64_t)seed[word * 8 + i] << (8 * i); /* the same on every machine */
        }
        state = mix((state ^ value) + UINT64_C(0x9E3779B97F4A7C15));
    }
    random->state = state;
}

uint64_t pw_random_next(pw_random *random)
{
    random->state += UINT64_C(0x9E3779B97F4A7C15);
    return mix(random->state);
}

uint64_t pw_random_below(pw_random *random, uint64_t bound)
{
    if (bound == 0) {
        return 0;
    }
    /* The lowest (2^64 mod bound) numbers would make some results likelier: draw again. */
    const uint64_t unfair = (0 - bound) % bound;
    uint64_t number;
    do {
        number = pw_random_next(random);
    } while (number < unfair);
    return number % bound;
}

void pw_random_bytes(pw_random *random, uint8_t *to, size_t size)
{
    while (size > 0) {
        uint64_t number = pw_random_next(random);
        for (size_t i = 0; i < 8 && size > 0; i++, size--) {
            *to++ = (uint8_t)(number >> (8 * i));
        }
    }
}
