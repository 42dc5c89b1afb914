/*
 * Reads lists of prices and prices a call; see prices.h. Whole numbers only: micro-dollars per
 * million tokens times tokens, summed, divided and rounded up once. A sum that no 64 bits hold is
 * the largest they do: a bound is reached, not missed.
 */
#include "model/prices.h"

#include "base/schema.h"

#define MILLION 1000000
#define ANTHROPIC "anthropic"

/* --- Reading --- */

static int64_t money_of(const pw_json *row, const char *name)
{
    int64_t micros = -1;
    (void)pw_json_micros(pw_json_get(row, name), &micros);
    return micros;
}

/* A rate's multiple that a row leaves out, rounded up. */
static int64_t times(int64_t rate, int64_t by, int64_t of)
{
    return (rate * by + of - 1) / of;
}

static pw_rates rates_of(const pw_json *row, pw_str provider)
{
    pw_rates r = {.input = money_of(row, "input"),
                  .output = money_of(row, "output"),
                  .cache_read = money_of(row, "cache_read"),
                  .cache_write = money_of(row, "cache_write"),
                  .cache_write_1h = money_of(row, "cache_write_1h"),
                  .reasoning = money_of(row, "reasoning")};
    if (pw_str_is(provider, ANTHROPIC)) { /* PROVIDERS: the same multiples for every model */
        r.cache_read = r.cache_read >= 0 ? r.cache_read : times(r.input, 1, 10);
        r.cache_write = r.cache_write >= 0 ? r.cache_write : times(r.input, 5, 4);
        r.cache_write_1h = r.cache_write_1h >= 0 ? r.cache_write_1h : times(r.input, 2, 1);
    }
    return r;
}

static pw_status fill_price(const pw_json *row, pw_str model, pw_arena *arena, pw_price *price)
{
    const pw_json *over = pw_json_get(row, "over");
    const pw_str provider = pw_json_text(pw_json_get(row, "provider"));
    *price = (pw_price){.rates = rates_of(row, provider),
                        .over_tokens = pw_json_i64_or(pw_json_get(over, "tokens"), -1),
                        .web_search = money_of(row, "web_search")};
    if (over) {
        price->over = rates_of(over, provider);
    }
    PW_TRY(pw_arena_dup(arena, provider, &price->provider));
    return pw_arena_dup(arena, model, &price->model);
}

static bool is_date(pw_str s)
{
    static const char form[] = "0000-00-00";
    if (s.len != sizeof(form) - 1) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        const bool digit = s.ptr[i] >= '0' && s.ptr[i] <= '9';
        if (form[i] == '0' ? !digit : s.ptr[i] != form[i]) {
            return false;
        }
    }
    return true;
}

static pw_status check(const pw_json *root, pw_arena *scratch, pw_error *error)
{
    const pw_json *schema = NULL;
    PW_TRY(pw_json_parse(scratch, pw_str_from(pw_prices_schema_json), 0, &schema, error));
    PW_TRY(pw_schema_apply(schema, root, scratch, NULL, error));
    return is_date(pw_json_text(pw_json_get(root, "date")))
               ? PW_OK
               : PW_FAIL(error, PW_INVALID, "/date: expected a day such as 2026-10-24");
}

static pw_status fill(const pw_json *root, pw_arena *arena, pw_prices *ret)
{
    const pw_json *list = pw_json_get(root, "prices");
    size_t count = 0;
    for (const pw_json *row = list->child; row; row = row->next) {
        count += pw_json_get(row, "models")->count;
    }
    pw_price *rows = PW_NEW_ARRAY(arena, pw_price, count + 1);
    if (!rows) {
        return PW_NOMEM;
    }
    pw_prices prices = {.rows = rows};
    for (const pw_json *row = list->child; row; row = row->next) {
        const pw_json *models = pw_json_get(row, "models");
        for (const pw_json *model = models->child; model; model = model->next) {
            PW_TRY(fill_price(row, model->text, arena, &rows[prices.count++]));
        }
    }
    PW_TRY(pw_arena_dup(arena, pw_json_text(pw_json_get(root, "date")), &prices.date));
    *ret = prices;
    return PW_OK;
}

pw_status pw_prices_parse(pw_str json, pw_arena *scratch, pw_arena *arena, pw_prices *ret,
                          pw_error *error)
{
    const pw_json *root = NULL;
    PW_TRY(pw_json_parse(scratch, json, PW_JSON_UNIQUE_KEYS, &root, error));
    PW_TRY(check(root, scratch, error));
    return fill(root, arena, ret) == PW_OK ? PW_OK : PW_FAIL(error, PW_NOMEM, "out of memory");
}

/* --- Finding --- */

/* What may follow a name without making it another model's: -20250929 -2025-04-14 @20250929
 * -latest. */
static bool names_a_version(pw_str tail)
{
    if (tail.len == 0) {
        return true;
    }
    if (tail.ptr[0] != '-' && tail.ptr[0] != '@') {
        return false;
    }
    tail = pw_str_slice(tail, 1, tail.len);
    if (pw_str_is(tail, "latest") || is_date(tail)) {
        return true;
    }
    size_t digits = 0;
    while (digits < tail.len && tail.ptr[digits] >= '0' && tail.ptr[digits] <= '9') {
        digits++;
    }
    return digits == 8 && digits == tail.len;
}

static bool fits(pw_str pattern, pw_str model)
{
    if (pw_str_ends(pattern, PW_STR("*"))) {
        return pw_str_begins(model, pw_str_slice(pattern, 0, pattern.len - 1));
    }
    return pw_str_begins(model, pattern) &&
           names_a_version(pw_str_slice(model, pattern.len, model.len));
}

const pw_price *pw_price_find(const pw_prices *prices, pw_str provider, pw_str model)
{
    const pw_price *best = NULL;
    for (; prices && !best && model.len > 0; prices = prices->below) {
        for (size_t i = 0; i < prices->count; i++) {
            const pw_price *row = &prices->rows[i];
            if (pw_str_equal(row->provider, provider) && fits(row->model, model) &&
                (!best || row->model.len > best->model.len)) {
                best = row;
            }
        }
    }
    return best;
}

/* --- Pricing --- */

/* Adds count × rate; false: there is something to price and no rate for it. */
static bool add_cost(int64_t *sum, int64_t count, int64_t rate)
{
    if (count <= 0) {
        return true;
    }
    if (rate < 0) {
        return false;
    }
    if (rate > 0 && count > (INT64_MAX - *sum) / rate) {
        *sum = INT64_MAX;
    } else {
        *sum += count * rate;
    }
    return true;
}

static int64_t at_least_0(int64_t count)
{
    return count > 0 ? count : 0;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

pw_str pw_price_seller(pw_str provider, pw_str base_url)
{
    const bool openai =
        base_url.len == 0 || pw_str_begins(base_url, PW_STR("https://api.openai.com/"));
    return pw_str_is(provider, "openai-chat") && openai ? PW_STR("openai") : provider;
}

int64_t pw_price_usage(const pw_price *price, const pw_usage *usage)
{
    if (usage->cost_micros >= 0) {
        return usage->cost_micros;
    }
    if (!price || usage->unlisted || usage->in_uncached < 0 || usage->out < 0) {
        return -1;
    }
    const int64_t read = at_least_0(usage->in_cache_read);
    const int64_t write = at_least_0(usage->in_cache_write);
    const int64_t hour = smaller(at_least_0(usage->in_cache_write_1h), write);
    const bool over =
        price->over_tokens >= 0 && usage->in_uncached + read + write > price->over_tokens;
    const pw_rates *rates = over ? &price->over : &price->rates;
    const int64_t apart =
        rates->reasoning >= 0 ? smaller(at_least_0(usage->reasoning), usage->out) : 0;
    int64_t sum = 0;
    const bool whole = add_cost(&sum, usage->in_uncached, rates->input) &&
                       add_cost(&sum, read, rates->cache_read) &&
                       add_cost(&sum, write - hour, rates->cache_write) &&
                       add_cost(&sum, hour, rates->cache_write_1h) &&
                       add_cost(&sum, usage->out - apart, rates->output) &&
                       add_cost(&sum, apart, rates->reasoning) &&
                       add_cost(&sum, usage->web_searches,
                                price->web_search < 0 ? -1 : price->web_search * MILLION);
    return whole ? sum / MILLION + (sum % MILLION != 0) : -1;
}
