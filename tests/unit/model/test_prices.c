/* Prices: what is listed, which name fits, and what a call comes to, to the micro-dollar (G1). */
#include "support.h"

#include <string.h>

#include "../support/failing_allocator.h"
#include "model/prices.h"

static pw_arena arena;

static pw_prices list_of(const char *json)
{
    pw_prices list;
    pw_error error = {0};
    if (pw_prices_parse(pw_str_from(json), &arena, &arena, &list, &error) != PW_OK) {
        fail_msg("%s", error.message);
    }
    return list;
}

static pw_prices ours(void)
{
    return list_of(pw_prices_json);
}

static int64_t cost(const pw_prices *list, const char *model, pw_usage usage)
{
    usage.cost_micros = -1;
    const pw_price *price = pw_price_find(list, PW_STR("anthropic"), pw_str_from(model));
    return pw_price_usage(price, &usage);
}

static int setup(void **state)
{
    (void)state;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pw_arena_free(&arena);
    return 0;
}

static void test_G1_the_shipped_list_prices_all_kinds_of_tokens(void **state)
{
    (void)state;
    const pw_prices list = ours();
    assert_int_equal(list.date.len, 10);
    const pw_usage usage = {.in_uncached = 1000,
                            .in_cache_read = 20000,
                            .in_cache_write = 3000,
                            .in_cache_write_1h = 1000,
                            .out = 500,
                            .reasoning = 400,
                            .web_searches = 2};
    /* 3 + .3 × 20 + 3.75 × 2 + 6 × 1 + 15 × .5 in thousandths, and 2 cents */
    assert_int_equal(cost(&list, "claude-sonnet-4-5", usage),
                     3000 + 6000 + 7500 + 6000 + 7500 + 20000);
}

static void test_G1_a_sum_is_rounded_up_once(void **state)
{
    (void)state;
    const pw_prices list =
        list_of("{\"date\":\"2026-01-01\",\"prices\":[{\"provider\":\"anthropic\","
                "\"models\":[\"m\"],\"input\":0.000001,\"output\":0.4}]}");
    assert_int_equal(cost(&list, "m", (pw_usage){.in_uncached = 1}), 1);
    assert_int_equal(cost(&list, "m", (pw_usage){.in_uncached = 1, .out = 2}), 1); /* .800001 */
    assert_int_equal(cost(&list, "m", (pw_usage){.out = 5}), 2);                   /* exactly */
    assert_int_equal(cost(&list, "m", (pw_usage){.in_uncached = 0}), 0);
}

static void test_G1_what_cannot_be_priced_is_unknown_and_never_0(void **state)
{
    (void)state;
    const pw_prices list = list_of(
        "{\"date\":\"2026-01-01\",\"prices\":[{\"provider\":\"other\",\"models\":[\"m\"],\"input\":"
        "1,\"output\":2}]}");
    const pw_price *price = pw_price_find(&list, PW_STR("other"), PW_STR("m"));
    assert_non_null(price);
    pw_usage usage = PW_USAGE_UNKNOWN;
    assert_int_equal(pw_price_usage(price, &usage), -1);
    usage.in_uncached = 10;
    assert_int_equal(pw_price_usage(price, &usage), -1); /* its output is not known */
    usage.out = 10;
    assert_int_equal(pw_price_usage(price, &usage), 30);
    assert_int_equal(pw_price_usage(NULL, &usage), -1);
    usage.in_cache_read = 1; /* and no price for it */
    assert_int_equal(pw_price_usage(price, &usage), -1);
    usage.in_cache_read = 0;
    usage.web_searches = 1;
    assert_int_equal(pw_price_usage(price, &usage), -1);
    usage.web_searches = 0;
    usage.unlisted = true;
    assert_int_equal(pw_price_usage(price, &usage), -1);
    usage.cost_micros = 7; /* what the provider reports comes first */
    assert_int_equal(pw_price_usage(price, &usage), 7);
    assert_int_equal(pw_price_usage(NULL, &usage), 7);
}

static void test_a_name_fits_with_its_date_and_no_other_model(void **state)
{
    (void)state;
    const pw_prices list = ours();
    static const struct {
        const char *model, *row; /* NULL: unknown */
    } names[] = {{"claude-sonnet-4-5", "claude-sonnet-4-5"},
                 {"claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
                 {"claude-sonnet-4-5@20250929", "claude-sonnet-4-5"},
                 {"claude-3-5-haiku-latest", "claude-3-5-haiku"},
                 {"claude-opus-4-20250514", "claude-opus-4"},
                 {"claude-opus-4-1-20250805", "claude-opus-4-1"},
                 {"claude-opus-4-99", NULL},
                 {"claude-opus-4-5-turbo", NULL},
                 {"claude-sonnet-4-5-2025092", NULL},
                 {"claude-sonnet", NULL},
                 {"claude-test-1", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const pw_price *price =
            pw_price_find(&list, PW_STR("anthropic"), pw_str_from(names[i].model));
        if (!names[i].row) {
            assert_null(price);
        } else {
            assert_non_null(price);
            assert_true(pw_str_is(price->model, names[i].row));
        }
    }
    assert_null(pw_price_find(&list, PW_STR("openai"), PW_STR("claude-sonnet-4-5")));
    const pw_price *dated = pw_price_find(&list, PW_STR("openai"), PW_STR("gpt-4o-2024-05-13"));
    assert_int_equal(dated->rates.input, 5000000);
    dated = pw_price_find(&list, PW_STR("openai"), PW_STR("gpt-4o-2024-11-20"));
    assert_int_equal(dated->rates.input, 2500000);
}

static void test_a_list_of_ones_own_comes_first_and_its_longest_name_counts(void **state)
{
    (void)state;
    const pw_prices below = ours();
    pw_prices own =
        list_of("{\"date\":\"2026-01-01\",\"prices\":["
                "{\"provider\":\"anthropic\",\"models\":[\"claude-*\"],\"input\":1,\"output\":1},"
                "{\"provider\":\"anthropic\",\"models\":[\"claude-sonnet-*\",\"x\"],\"input\":2,"
                "\"output\":2}]}");
    own.below = &below;
    const pw_usage usage = {.in_uncached = 1000000};
    assert_int_equal(cost(&own, "claude-sonnet-4-5", usage), 2000000);
    assert_int_equal(cost(&own, "claude-opus-4-5", usage), 1000000);
    assert_int_equal(cost(&own, "x", usage), 2000000);
    assert_int_equal(cost(&own, "y", usage), -1);
    const pw_price *other = pw_price_find(&own, PW_STR("openai"), PW_STR("o3"));
    assert_int_equal(other->rates.output, 8000000);
}

static void test_a_long_request_costs_its_own_rates_on_every_token(void **state)
{
    (void)state;
    const pw_prices list = ours();
    pw_usage usage = {.in_uncached = 90000, .in_cache_read = 10000, .out = 1000};
    assert_int_equal(cost(&list, "claude-haiku-5-5", usage), 9000 + 100 + 500);
    usage.in_uncached++;
    assert_int_equal(cost(&list, "claude-haiku-5-5", usage), 45001 + 500 + 2500);
}

static void test_reasoning_may_have_a_price_apart(void **state)
{
    (void)state;
    const pw_prices list = list_of(
        "{\"date\":\"2026-01-01\",\"prices\":[{\"provider\":\"anthropic\",\"models\":[\"m\"],"
        "\"input\":1,\"output\":2,\"reasoning\":5}]}");
    assert_int_equal(cost(&list, "m", (pw_usage){.out = 10, .reasoning = 4}), 12 + 20);
    assert_int_equal(cost(&list, "m", (pw_usage){.out = 10, .reasoning = 40}), 50);
}

static void test_more_than_64_bits_hold_is_the_most_they_do(void **state)
{
    (void)state;
    const pw_prices list = list_of(
        "{\"date\":\"2026-01-01\",\"prices\":[{\"provider\":\"anthropic\",\"models\":[\"m\"],"
        "\"input\":100000,\"output\":100000}]}");
    const pw_usage usage = {.in_uncached = INT64_C(100000000000), .out = INT64_C(100000000000)};
    assert_int_equal(cost(&list, "m", usage), INT64_MAX / 1000000 + 1);
}

static void test_wrong_lists_name_the_member(void **state)
{
    (void)state;
#define ROW(members) "{\"date\":\"2026-01-01\",\"prices\":[{" members "}]}"
#define GOOD "\"provider\":\"p\",\"models\":[\"m\"],\"input\":1"
    static const struct {
        const char *json, *says;
    } wrong[] = {
        {"{", "JSON"},
        {"[]", "object"},
        {"{\"date\":\"2026-01-01\"}", "prices"},
        {"{\"date\":\"yesterday!\",\"prices\":[]}", "/date"},
        {"{\"date\":\"2026-01-01\",\"prices\":[],\"currency\":\"EUR\"}", "currency"},
        {ROW(GOOD), "output"},
        {ROW(GOOD ",\"output\":\"2\""), "/prices/0/output"},
        {ROW(GOOD ",\"output\":-1"), "/prices/0/output"},
        {ROW(GOOD ",\"output\":100001"), "/prices/0/output"},
        {ROW(GOOD ",\"output\":1,\"cache_reed\":1"), "cache_reed"},
        {ROW(GOOD ",\"output\":1,\"over\":{\"tokens\":0,\"input\":1,\"output\":1}"),
         "/prices/0/over/tokens"},
        {ROW("\"provider\":\"p\",\"models\":[],\"input\":1,\"output\":1"), "/prices/0/models"},
        {ROW("\"provider\":\"p\",\"models\":[\"\"],\"input\":1,\"output\":1"),
         "/prices/0/models/0"},
        {ROW(GOOD ",\"output\":1,\"output\":2"), "output"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pw_prices list;
        pw_error error = {0};
        assert_int_equal(pw_prices_parse(pw_str_from(wrong[i].json), &arena, &arena, &list, &error),
                         PW_INVALID);
        assert_holds(error.message, wrong[i].says);
    }
}

static void test_G1_openai_sells_the_same_models_over_both_protocols(void **state)
{
    (void)state;
    static const struct {
        const char *provider, *base_url, *seller;
    } rows[] = {{"openai-chat", "", "openai"},
                {"openai-chat", "https://api.openai.com/v1", "openai"},
                {"openai-chat", "https://api.openai.com.evil.example/v1", "openai-chat"},
                {"openai-chat", "http://localhost:11434/v1", "openai-chat"},
                {"openai", "", "openai"},
                {"anthropic", "", "anthropic"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const pw_str seller =
            pw_price_seller(pw_str_from(rows[i].provider), pw_str_from(rows[i].base_url));
        assert_true(pw_str_is(seller, rows[i].seller));
    }
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            pw_test_allocator_fail(&t, at, forever != 0);
            pw_arena scratch, kept;
            pw_arena_init(&scratch, &t.allocator, 0, 0);
            pw_arena_init(&kept, &t.allocator, 0, 0);
            pw_prices list;
            const pw_status status =
                pw_prices_parse(pw_str_from(pw_prices_json), &scratch, &kept, &list, NULL);
            assert_true(status == PW_NOMEM || status == PW_OK);
            pw_arena_free(&scratch);
            if (status == PW_OK) { /* strings are the list's own */
                assert_non_null(pw_price_find(&list, PW_STR("openai"), PW_STR("o3")));
            }
            pw_arena_free(&kept);
            assert_int_equal(t.live_bytes, 0);
            if (t.failed == 0) {
                assert_true(at > 3);
                break;
            }
        }
    }
}

/* --- What the codec tells of a call */

static pw_usage usage_of(const char *usage)
{
    char body[1024];
    snprintf(
        body, sizeof(body),
        "{\"type\":\"message\",\"id\":\"m\",\"role\":\"assistant\",\"model\":\"x\",\"content\":[{"
        "\"type\":\"text\",\"text\":\"hi\"}],\"stop_reason\":\"end_turn\",\"usage\":%s}",
        usage);
    pw_model_stream *stream = NULL;
    const pw_delta *deltas;
    size_t count;
    bool progress;
    const pw_reply *reply = NULL;
    pw_failure failure;
    const pw_endpoint endpoint = {.now_ms = NOW_MS};
    assert_int_equal(pw_provider_anthropic.stream_new(&pw_heap, &stream), PW_OK);
    assert_int_equal(
        pw_provider_anthropic.feed(stream, pw_str_from(body), &deltas, &count, &progress, NULL),
        PW_OK);
    assert_int_equal(pw_provider_anthropic.end(stream, &endpoint, &reply, &failure), PW_OK);
    const pw_usage found = reply->usage;
    pw_provider_anthropic.stream_free(stream);
    return found;
}

static void test_G1_anthropic_tells_hour_writes_searches_and_terms(void **state)
{
    (void)state;
    pw_usage u =
        usage_of("{\"input_tokens\":5,\"output_tokens\":1,\"cache_creation_input_tokens\":30,"
                 "\"cache_creation\":{\"ephemeral_5m_input_tokens\":10,"
                 "\"ephemeral_1h_input_tokens\":20},\"server_tool_use\":{"
                 "\"web_search_requests\":3},\"service_tier\":\"standard\","
                 "\"inference_geo\":\"not_available\"}");
    assert_int_equal(u.in_cache_write, 30);
    assert_int_equal(u.in_cache_write_1h, 20);
    assert_int_equal(u.web_searches, 3);
    assert_false(u.unlisted);
    assert_int_equal(u.cost_micros, -1);
    assert_true(usage_of("{\"input_tokens\":5,\"service_tier\":\"priority\"}").unlisted);
    assert_true(usage_of("{\"input_tokens\":5,\"speed\":\"fast\"}").unlisted);
    assert_true(usage_of("{\"input_tokens\":5,\"inference_geo\":\"us\"}").unlisted);
    assert_false(usage_of("{\"input_tokens\":5,\"service_tier\":null}").unlisted);
    u = usage_of(
        "{\"input_tokens\":1,\"output_tokens\":1,\"iterations\":["
        "{\"input_tokens\":2,\"cache_creation_input_tokens\":4,\"cache_creation\":{"
        "\"ephemeral_1h_input_tokens\":4}},{\"input_tokens\":3,"
        "\"cache_creation_input_tokens\":5,\"cache_creation\":{\"ephemeral_1h_input_tokens\":"
        "5}}]}");
    assert_int_equal(u.in_cache_write, 9);
    assert_int_equal(u.in_cache_write_1h, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_G1_the_shipped_list_prices_all_kinds_of_tokens, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_G1_a_sum_is_rounded_up_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_G1_what_cannot_be_priced_is_unknown_and_never_0, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_name_fits_with_its_date_and_no_other_model, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_a_list_of_ones_own_comes_first_and_its_longest_name_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_request_costs_its_own_rates_on_every_token,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_reasoning_may_have_a_price_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_more_than_64_bits_hold_is_the_most_they_do, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_wrong_lists_name_the_member, setup, teardown),
        cmocka_unit_test(test_G1_openai_sells_the_same_models_over_both_protocols),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_G1_anthropic_tells_hour_writes_searches_and_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
