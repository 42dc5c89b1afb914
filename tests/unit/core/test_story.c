/* One turn with tools of all four classes of effects, from claim to end. */
#include "driver.h"

static void test_B6_text_reply_ends_the_turn_in_one_append(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "hello");
    h_inbox(&h);
    assert_non_null(h.append);
    assert_int_equal(h.append->record_count, 1);
    assert_int_equal(h.model_count, 0); /* nothing starts before it is durable */
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h_text(&h, "hi");
    assert_int_equal(h.append->record_count, 2);
    assert_int_equal(h.append->records[1].kind, PW_RECORD_TURN_ENDED);
    assert_true(h.append->head.release);
    h_commit(&h);
    assert_true(h.rested && h.released);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"hi\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.iterations", "1");
    h_free(&h);
}

static void test_D_a_turn_runs_tools_of_every_effects_class(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "do it");
    h_inbox(&h);
    h_commit(&h);
    pw_part parts[4] = {
        h_call_part("a", "read", "{\"path\":\"x\"}"),
        h_call_part("b", "put", "{\"v\":1}"),
        h_call_part("c", "send", "{}"),
        h_call_part("d", "buy", "{\"n\":1.50}"),
    };
    h_calls(&h, parts, 4);
    assert_int_equal(h.append->record_count, 1);
    h_commit(&h);
    assert_int_equal(h.tool->effects, PW_EFFECTS_NONE);
    h_tool(&h, "{\"text\":\"file\"}");
    h_commit(&h);
    assert_int_equal(h.tool->effects, PW_EFFECTS_IDEMPOTENT);
    h_tool(&h, "true");
    /* D3: the intent of a once call is in the append that settles what comes before it. */
    assert_int_equal(h.append->record_count, 2);
    assert_int_equal(h.append->records[1].kind, PW_RECORD_TOOL_STARTED);
    h_commit(&h);
    assert_int_equal(h.tool->effects, PW_EFFECTS_ONCE);
    h_tool(&h, "\"sent\"");
    h_commit(&h);
    assert_non_null(h.transact);
    assert_true(pw_str_is(h.inside->arguments, "{\"n\":1.50}"));
    h_commit_transact(&h, "{\"id\":7}");
    assert_non_null(h.model);
    assert_int_equal(h.model->count, 6);
    assert_int_equal(h.model->same, 1);
    assert_true(pw_str_is(h.model->step, "model:7"));
    h_text(&h, "done");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.tool_calls", "4");
    h_expect(&h, PW_RECORD_TURN_ENDED, "operations.2.step", "\"tool:2:d\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "operations.0.name", "\"put\"");
    assert_true(h.rested);
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_B6_text_reply_ends_the_turn_in_one_append),
        cmocka_unit_test(test_D_a_turn_runs_tools_of_every_effects_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
