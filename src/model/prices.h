/*
 * What models cost: a list of prices read from JSON (data/prices.json is compiled in), and what one
 * call's usage comes to by it. Pure: no I/O, no clock.
 *
 * Nothing is guessed: a model without a price, a kind of token without one, a tier that the list
 * does not cover, a usage that the provider did not tell make a cost of -1, which counts as an
 * unpriced call (G1), never 0. What the provider itself reports is taken before any list.
 */
#ifndef PW_MODEL_PRICES_H
#define PW_MODEL_PRICES_H

#include "core/message.h"

extern const char pw_prices_json[];        /* data/prices.json */
extern const char pw_prices_schema_json[]; /* data/prices.schema.json, which says the format */

/* In micro-dollars per million tokens; -1: unknown. */
typedef struct pw_rates {
    int64_t input, output, cache_read, cache_write, cache_write_1h;
    int64_t reasoning; /* -1: as output */
} pw_rates;

typedef struct pw_price {
    pw_str provider;
    pw_str model; /* a name (dated ones are the same), or with * at its end all that begin so */
    pw_rates rates;
    int64_t over_tokens; /* a request with more input than this costs `over`; -1: none does */
    pw_rates over;
    int64_t web_search; /* micro-dollars a request; -1: unknown */
} pw_price;

typedef struct pw_prices pw_prices;
struct pw_prices {
    pw_str date;
    const pw_price *rows;
    size_t count;
    const pw_prices *below; /* asked when nothing here fits; NULL: none */
};

/* Reads and checks a list, which lives in `arena`. PW_INVALID names the member at fault. */
pw_status pw_prices_parse(pw_str json, pw_arena *scratch, pw_arena *arena, pw_prices *ret,
                          pw_error *);
/* The longest name that fits, of the first list that has one. NULL: unknown. */
const pw_price *pw_price_find(const pw_prices *, pw_str provider, pw_str model);
/* Whose list a provider's models are in, where no list names that provider itself: OpenAI sells the
 * same models over both of its protocols. `base_url` may be empty: the provider's own. */
pw_str pw_price_seller(pw_str provider, pw_str base_url);
/* Micro-dollars, rounded up once. `usage->cost_micros` where it is known; -1: unknown. `price` may
 * be NULL. */
int64_t pw_price_usage(const pw_price *, const pw_usage *);

#endif
