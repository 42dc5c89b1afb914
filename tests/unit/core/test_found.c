/* What the simulator found, one small story each. */
#include "driver.h"

/* The append that seals a poisoned turn got no answer: the reload that follows has to seal it, not
 * to run it. */
static void test_C4_a_reload_amid_sealing_still_seals(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "hello");
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h.crashes = h.max_attempts - 1;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    assert_non_null(h.append);
    h_not(&h, PW_UNKNOWN);
    assert_true(h.rested);
    h_crash(&h, PW_CAUSE_RELOAD);
    h_inbox(&h);
    h_commit_all(&h);
    assert_int_equal(h.model_count, 1);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"poison\"");
    h_free(&h);
}

/* A person who takes the session by name tries again. */
static void test_C4_taken_by_name_tries_again(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "hello");
    h_inbox(&h);
    h_commit(&h);
    h.crashes = h.max_attempts;
    h_crash(&h, PW_CAUSE_TAKEN);
    h_inbox(&h);
    h_commit_all(&h);
    assert_int_equal(h.model_count, 2);
    h_free(&h);
}

/* A call that was aborted with its turn ends after a reload: its late result is evidence of that
 * turn, not of the one that is open now. */
static void test_D8_a_late_result_belongs_to_the_turn_of_its_call(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "put it");
    h_inbox(&h);
    h_commit(&h);
    h_call(&h, "put", "{\"v\":1}");
    h_commit_all(&h);
    char step[64];
    snprintf(step, sizeof step, "%.*s", PW_STR_ARG(h.tool->step));
    pw_alive_call alive = {.call = h.tool_call, .step = pw_str_from(step)};
    char first[80];
    snprintf(first, sizeof first, "%.*s", PW_STR_ARG(h_look(&h).turn));
    h_cancel(&h, "{\"reason\":\"user\"}");
    h_inbox(&h);
    h_commit_all(&h);
    h_say(&h, "r2", "next");
    h_inbox(&h);
    h_commit(&h);
    pw_session_free(h.s);
    pw_session_options options = {h.allocator, PW_STR("uid-1")};
    assert_int_equal(pw_session_new(&options, &h.s), PW_OK);
    h.append = NULL;
    h.model = NULL;
    h_load(&h);
    h.epoch++;
    h_open(&h, PW_CAUSE_RELOAD, &alive, 1);
    h_inbox(&h);
    h_commit_all(&h);
    pw_tool_outcome outcome = {.kind = PW_TOOL_RESULT, .json = PW_STR("\"late\"")};
    h_tool_outcome(&h, alive.call, &outcome);
    h_commit_all(&h);
    const pw_record *late = h_last(&h, PW_RECORD_TOOL_LATE);
    assert_non_null(late);
    assert_true(pw_str_is(late->turn, first));
    assert_true(pw_str_is(late->step, step));
    h_expect(&h, PW_RECORD_TOOL_LATE, "name", "\"put\"");
    h_free(&h);
}

/* The clock is set back between the intent of a once call and its beginning: its limit is still the
 * tool's. */
static void test_J6_a_clock_set_back_gives_a_call_no_more_time(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "send it");
    h_inbox(&h);
    h_commit(&h);
    h_call(&h, "send", "{}");
    assert_non_null(h.append);
    h_time(&h, h.now - 600000);
    h_commit_all(&h);
    assert_int_equal(h.tool->effects, PW_EFFECTS_ONCE);
    assert_true(h.tool->limit_ms > 0 && h.tool->limit_ms <= h.tool->tool->limit_ms);
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C4_a_reload_amid_sealing_still_seals),
        cmocka_unit_test(test_C4_taken_by_name_tries_again),
        cmocka_unit_test(test_D8_a_late_result_belongs_to_the_turn_of_its_call),
        cmocka_unit_test(test_J6_a_clock_set_back_gives_a_call_no_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
