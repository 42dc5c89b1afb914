/* The small pieces: tables of names, definitions, budgets, receipts with a hole, values. */
#include "driver.h"

#include "core/value.h"

static void test_tables_name_everything_and_find_it_again(void **state)
{
    (void)state;
    for (int i = 0; i <= PW_RECORD_TURN_ENDED; i++) {
        pw_record_kind kind;
        assert_true(
            pw_record_kind_from(pw_str_from(pw_record_kind_name((pw_record_kind)i)), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i <= PW_TURN_CANCELLED; i++) {
        pw_turn_state turn;
        assert_true(pw_turn_state_from(pw_str_from(pw_turn_state_name((pw_turn_state)i)), &turn));
        assert_int_equal(turn, i);
        assert_int_equal(pw_turn_state_ended(turn), i >= PW_TURN_COMPLETED);
    }
    for (int i = 0; i <= PW_EFFECTS_TRANSACTIONAL; i++) {
        pw_effects_class effects;
        assert_true(pw_effects_from(pw_str_from(pw_effects_name((pw_effects_class)i)), &effects));
        assert_int_equal(effects, i);
    }
    pw_record_kind kind;
    pw_turn_state turn;
    pw_effects_class effects;
    assert_false(pw_record_kind_from(PW_STR("turn.begun"), &kind));
    assert_false(pw_turn_state_from(PW_STR(""), &turn));
    assert_false(pw_effects_from(PW_STR("Once"), &effects));
    assert_string_equal(pw_disposition_name(PW_SETTLED), "settled");
    assert_string_equal(pw_role_name(PW_ROLE_TRIGGER), "trigger");
    assert_string_equal(pw_stop_name(PW_STOP_CONTEXT_FULL), "context_full");
    size_t lines = 0;
    for (const char *const *line = pw_turn_transitions(); *line; line++) {
        lines++;
    }
    assert_int_equal(lines, 7);
}

static void test_C11_a_definition_is_canonical_and_hashed(void **state)
{
    (void)state;
    harness h;
    h_new_with(&h, h_agent, &pw_heap);
    const pw_definition *a = h_definition(
        &h, "{\"name\":\"x\", \"model\":{\"name\":\"m\",\"provider\":\"p\",\"max_tokens\":1.0}}");
    const pw_definition *b = h_definition(
        &h, "{\"model\":{\"provider\":\"p\",\"max_tokens\":1.0,\"name\":\"m\"},\"name\":\"x\"}");
    const pw_hash hash = pw_sha256_of(a->text);
    assert_true(pw_str_is(
        a->text,
        "{\"model\":{\"max_tokens\":1.0,\"name\":\"m\",\"provider\":\"p\"},\"name\":\"x\"}"));
    assert_string_equal(a->hash.text, b->hash.text);
    assert_string_equal(a->hash.text, pw_hash_to_hex(&hash).text);
    assert_int_equal(a->budget.max_iterations, 50);
    assert_int_equal(a->budget.max_cost_micros, -1);
    assert_int_equal(a->context_messages, -1);
    assert_int_equal(a->max_protocol_failures, 5);
    assert_int_equal(a->tool_count, 0);
    const pw_definition *c = h.today;
    assert_int_equal(c->tool_count, 4);
    const pw_tool_declaration *buy = pw_definition_tool(c, PW_STR("buy"));
    assert_int_equal(buy->limit_ms, 2000);
    assert_int_equal(buy->result_limit, 262144);
    assert_int_equal(pw_definition_tool(c, PW_STR("send"))->limit_ms, 60000);
    assert_null(pw_definition_tool(c, PW_STR("nope")));
    h_free(&h);
}

#define MODEL "\"model\":{\"provider\":\"p\",\"name\":\"m\"}"

static void test_a_wrong_definition_is_refused_and_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *json, *word;
    } cases[] = {
        {"[]", "object"},
        {"{", "JSON"},
        {"{" MODEL "}", "name"},
        {"{\"name\":\"a\"}", "model"},
        {"{\"name\":\"a\",\"name\":\"b\"," MODEL "}", "name"},
        {"{\"name\":\"a\"," MODEL ",\"colour\":1}", "colour"},
        {"{\"name\":\"a\",\"model\":{\"provider\":\"p\"}}", "model"},
        {"{\"name\":7," MODEL "}", "name"},
        {"{\"name\":\"a\"," MODEL ",\"instructions\":[]}", "instructions"},
        {"{\"name\":\"a\"," MODEL ",\"debounce_ms\":-1}", "debounce_ms"},
        {"{\"name\":\"a\"," MODEL ",\"context\":{\"messages\":1.5}}", "context.messages"},
        {"{\"name\":\"a\"," MODEL ",\"context\":{\"tokens\":1}}", "tokens"},
        {"{\"name\":\"a\"," MODEL ",\"budget\":{\"max_iterations\":0}}", "budget.max_iterations"},
        {"{\"name\":\"a\"," MODEL ",\"budget\":{\"max_cost_usd\":\"1\"}}", "max_cost_usd"},
        {"{\"name\":\"a\"," MODEL ",\"budget\":{\"deadline\":\"1m\"}}", "deadline"},
        {"{\"name\":\"a\"," MODEL ",\"budget\":[]}", "budget"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":{}}", "tools"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[1]}", "tools"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[{\"name\":\"a b\"}]}", "name"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[{\"name\":\"x\"},{\"name\":\"x\"}]}", "x"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[{\"name\":\"x\",\"effects\":\"some\"}]}", "effects"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[{\"name\":\"x\",\"limit_ms\":0}]}", "limit_ms"},
        {"{\"name\":\"a\"," MODEL ",\"tools\":[{\"name\":\"x\",\"input\":{\"type\":7}}]}", "input"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pw_arena arena;
        pw_error error = {0};
        const pw_definition *definition = NULL;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_status status =
            pw_definition_parse(&arena, pw_str_from(cases[i].json), &definition, &error);
        assert_int_equal(status, PW_INVALID);
        assert_null(definition);
        if (!strstr(error.message, cases[i].word)) {
            fail_msg("%s: \"%s\" does not name %s", cases[i].json, error.message, cases[i].word);
        }
        pw_arena_free(&arena);
    }
}

static void test_G1_a_budget_overrides_only_what_it_names(void **state)
{
    (void)state;
    pw_arena arena;
    const pw_json *json;
    pw_budget budget = PW_BUDGET_DEFAULT;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_json_parse(&arena, PW_STR("{\"max_cost_usd\":1.25,\"max_tool_calls\":null}"), 0, &json,
                  NULL);
    assert_int_equal(pw_budget_apply(&budget, json, NULL), PW_OK);
    assert_int_equal(budget.max_iterations, 50);
    assert_int_equal(budget.max_cost_micros, 1250000);
    assert_int_equal(budget.max_tool_calls, -1);
    assert_int_equal(budget.deadline_ms, 1800000);
    pw_json_parse(&arena, PW_STR("{\"max_iterations\":3,\"max_tokens\":-5}"), 0, &json, NULL);
    assert_int_equal(pw_budget_apply(&budget, json, NULL), PW_INVALID);
    assert_int_equal(budget.max_iterations, 50); /* untouched on failure */
    assert_int_equal(pw_budget_apply(&budget, NULL, NULL), PW_OK);
    pw_arena_free(&arena);
}

static void test_D2_a_receipt_is_filled_and_cut(void **state)
{
    (void)state;
    pw_arena arena;
    pw_str body;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_receipt receipt = {.before = PW_STR("{\"v\":1,\"result\":"),
                                .after = PW_STR(",\"is_error\":false}"),
                                .result_limit = 60};
    assert_int_equal(pw_receipt_fill(&receipt, PW_STR("{\"a\":1.10}"), &arena, &body), PW_OK);
    assert_true(pw_str_is(body, "{\"v\":1,\"result\":{\"a\":1.10},\"is_error\":false}"));
    assert_int_equal(pw_receipt_fill(&receipt, PW_STR("oops"), &arena, &body), PW_OK);
    assert_true(pw_str_is(body, "{\"v\":1,\"result\":\"oops\",\"is_error\":false}"));
    char big[200];
    memset(big, 'x', sizeof(big));
    big[0] = big[199] = '"';
    assert_int_equal(pw_receipt_fill(&receipt, (pw_str){big, sizeof(big)}, &arena, &body), PW_OK);
    assert_true(pw_json_valid(body));
    assert_true(pw_str_find(body, PW_STR(",\"truncated\":200,\"is_error\"")) != SIZE_MAX);
    pw_arena_free(&arena);
}

static void test_D7_cutting_never_splits_a_character_at_any_limit(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    static const char text[] =
        "\"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\\n\\\"\\u0001 and so on and on and on, long "
        "enough to be cut at each of these limits, "
        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"";
    for (int64_t limit = 64; limit < 160; limit++) {
        pw_value value;
        assert_int_equal(pw_value_of_result(&arena, pw_str_from(text), limit, &value), PW_OK);
        assert_true(pw_json_valid(value.json));
        assert_true((int64_t)value.json.len <= limit);
        assert_int_equal(value.cut, limit < (int64_t)strlen(text));
    }
    pw_arena_free(&arena);
}

static void test_A8_values_are_made_valid(void **state)
{
    (void)state;
    pw_arena arena;
    pw_str out;
    bool fit;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    assert_int_equal(
        pw_value_clean(&arena, PW_STR("{\"\\ud83d\":\"\\u0000\", \"n\":1.0}"), &out, &fit), PW_OK);
    assert_true(fit);
    assert_true(pw_str_is(out, "{\"\xEF\xBF\xBD\":\"\xEF\xBF\xBD\",\"n\":1.0}"));
    static const char same[] = "{ \"a\" : \"\\u00e9\\ud83d\\ude00\" }";
    assert_int_equal(pw_value_clean(&arena, PW_STR(same), &out, &fit), PW_OK);
    assert_true(fit);
    assert_int_equal(pw_value_clean(&arena, PW_STR("{\"a\":\"\xFF\"}"), &out, &fit), PW_OK);
    assert_true(fit && pw_json_valid(out));
    assert_int_equal(pw_value_clean(&arena, PW_STR("{\"a\":"), &out, &fit), PW_OK);
    assert_false(fit);
    assert_int_equal(pw_value_depth(PW_STR("[{\"a\":[\"]]]\"]}]")), 3);
    assert_int_equal(pw_value_of_error(&arena, PW_STR("E"), PW_STR("a\0b"), &out), PW_OK);
    assert_true(pw_str_is(out, "{\"error\":\"E: a\xEF\xBF\xBD"
                               "b\"}"));
    assert_int_equal(pw_value_of_error(&arena, PW_STR_NONE, PW_STR_NONE, &out), PW_OK);
    assert_true(pw_str_is(out, "{\"error\":\"\"}"));
    pw_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_name_everything_and_find_it_again),
        cmocka_unit_test(test_C11_a_definition_is_canonical_and_hashed),
        cmocka_unit_test(test_a_wrong_definition_is_refused_and_says_why),
        cmocka_unit_test(test_G1_a_budget_overrides_only_what_it_names),
        cmocka_unit_test(test_D2_a_receipt_is_filled_and_cut),
        cmocka_unit_test(test_D7_cutting_never_splits_a_character_at_any_limit),
        cmocka_unit_test(test_A8_values_are_made_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
