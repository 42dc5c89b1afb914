/*
 * Prices for the runtime: which lists there are, and what a call cost. The lists are read once, at
 * open. Must never make up a price: what no list has is unknown (G1).
 */
#include <stdlib.h>

#include "runtime/loop.h"
#include "runtime/setup.h"

static pw_status read_own(pawl *p, pw_str path, pw_arena *scratch, pw_error *error)
{
    pw_str json;
    pw_error fault = {0};
    pw_status status = pw_configuration_read(path, scratch, &json, &fault);
    status = status == PW_OK ? pw_prices_parse(json, scratch, &p->arena, &p->own_prices, &fault)
                             : status;
    if (status == PW_NOMEM) {
        return status;
    }
    return status == PW_OK ? PW_OK
                           : PW_FAIL(error, status == PW_NOT_FOUND ? PW_INVALID : status,
                                     "prices: %.*s: %s", PW_STR_ARG(path), fault.message);
}

pw_status pw_setup_prices(pawl *p, pw_error *error)
{
    pw_str path = {p->options.prices.ptr, p->options.prices.len};
    if (path.len == 0) {
        path = pw_str_from(getenv("PAWL_PRICES"));
    }
    pw_arena scratch;
    pw_arena_init(&scratch, p->allocator, 0, 0);
    pw_status status =
        pw_prices_parse(pw_str_from(pw_prices_json), &scratch, &p->arena, &p->list_prices, error);
    p->prices = &p->list_prices;
    if (status == PW_OK && path.len > 0) {
        status = read_own(p, path, &scratch, error);
        p->own_prices.below = &p->list_prices;
        p->prices = &p->own_prices;
    }
    pw_arena_free(&scratch);
    return status;
}

const pw_price *pw_price_of(const pawl *p, const pw_sold *sold)
{
    const pw_str sellers[] = {sold->provider, pw_price_seller(sold->provider, sold->base_url)};
    const pw_price *price = NULL;
    for (size_t i = 0; i < 2 && !price; i++) {
        price = pw_price_find(p->prices, sellers[i], sold->answered);
        price = price ? price : pw_price_find(p->prices, sellers[i], sold->asked);
    }
    return price;
}

int64_t pw_priced(const pawl *p, const pw_sold *sold, const pw_usage *usage)
{
    return pw_price_usage(pw_price_of(p, sold), usage);
}
