/* Cancelling, draining, bounds of the budget (I1, I2, I3, I6, I7, G1, G3, M5, M6). */
#include "driver.h"

static void begin_as(harness *h, const char *definition)
{
    h_new(h, definition);
    h_say(h, "r1", "hello");
    h_inbox(h);
    h_commit(h);
}

static void begin(harness *h)
{
    begin_as(h, h_agent);
}

static void cancel(harness *h)
{
    h_cancel(h, "{\"reason\":\"user\",\"by\":\"U1\"}");
    h_inbox(h);
}

static void expect_cancelled(harness *h)
{
    h_expect(h, PW_RECORD_TURN_ENDED, "state", "\"cancelled\"");
    h_expect(h, PW_RECORD_TURN_ENDED, "reason", "\"user\"");
    h_expect(h, PW_RECORD_TURN_ENDED, "actor", "\"U1\"");
    assert_int_equal(h_last(h, PW_RECORD_TURN_ENDED)->seq, h->record_count); /* M6: last */
    assert_int_equal(h->rows[1].disposition, PW_SETTLED);
}

static void test_I7_cancel_stops_a_streaming_model_and_keeps_its_text(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    const uint64_t call = h.model_call;
    h_delta(&h, "half an ans");
    cancel(&h);
    assert_int_equal(h.abort_count, 1);
    assert_int_equal(h.aborts[0], call);
    assert_non_null(h.append); /* nobody waits for the call's end */
    assert_int_equal(h.append->record_count, 1);
    assert_true(pw_str_equal(h.append->settle_cancels_of, h_look(&h).turn));
    h_commit(&h);
    expect_cancelled(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"half an ans\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.unpriced_calls", "1");
    assert_true(h.rested && h.released);
    h_free(&h);
}

static void test_I1_cancel_before_the_model_is_asked(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "hello");
    h_inbox(&h);
    /* The cancel is admitted the moment the opening is durable. */
    const pw_append *a = h.append;
    h_say_body(&h, "x", "{\"reason\":\"user\",\"by\":\"U1\"}");
    h.rows[1].kind = PW_INBOX_CANCEL;
    assert_int_equal(pw_arena_dup(&h.arena, a->turn, &h.rows[1].request_id), PW_OK);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model_count, 0);
    h_commit(&h);
    expect_cancelled(&h);
    h_free(&h);
}

static void test_I1_cancel_after_a_reply_and_before_its_commit(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "put", "{}");
    h_commit(&h);
    const uint64_t late = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    /* A tool.late is under way; the reply and the cancel come meanwhile. */
    h_tool_outcome(&h, late, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    assert_non_null(h.append);
    h_text(&h, "whole answer");
    cancel(&h);
    h_commit(&h);
    h_commit(&h);
    expect_cancelled(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"whole answer\"");
    assert_int_equal(h_count(&h, PW_RECORD_MODEL_COMPLETED), 1);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.input_tokens", "30"); /* H2: it was spent */
    h_free(&h);
}

static void test_I1_cancel_of_a_running_call_goes_by_its_effects(void **state)
{
    (void)state;
    static const struct {
        const char *tool, *arguments, *outcome;
    } cases[] = {{"read", "{\"path\":\"x\"}", "\"cancelled\""},
                 {"put", "{}", "\"cancelled\""},
                 {"send", "{}", "\"unknown\""}};
    for (size_t i = 0; i < 3; i++) {
        harness h;
        begin(&h);
        pw_part parts[3] = {h_call_part("a", "put", "{\"first\":1}"),
                            h_call_part("b", cases[i].tool, cases[i].arguments),
                            h_call_part("c", "send", "{}")};
        h_calls(&h, parts, 3);
        h_commit(&h);
        h_tool(&h, "1");
        h_commit(&h);
        const uint64_t call = h.tool_call;
        cancel(&h);
        assert_int_equal(h.aborts[h.abort_count - 1], call);
        assert_int_equal(h.append->record_count, 3);
        h_commit(&h);
        expect_cancelled(&h);
        const pw_record *second = &h.records[h.record_count - 3],
                        *third = &h.records[h.record_count - 2];
        assert_true(pw_str_is(h_field(&h, second, "outcome"), cases[i].outcome));
        assert_true(pw_str_is(h_field(&h, third, "outcome"), "\"cancelled\""));
        assert_true(pw_str_is(h_field(&h, third, "result"), "{\"cancelled\":true}"));
        assert_int_equal(h.model_count, 1);
        h_free(&h);
    }
}

static void test_D8_the_answer_of_a_cancelled_once_call_is_kept_as_evidence(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t call = h.tool_call;
    cancel(&h);
    assert_false(h.append->head.release); /* its end is worth waiting for */
    h_commit(&h);
    assert_false(h.rested);
    h_tool_outcome(&h, call,
                   &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("\"sent\"")});
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_LATE, "result", "\"sent\"");
    assert_true(h.rested);
    h_free(&h);
}

static void test_D8_an_aborted_call_that_ends_abandoned_holds_nothing(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t call = h.tool_call;
    cancel(&h);
    h_commit(&h);
    h_tool_outcome(&h, call, &(pw_tool_outcome){.kind = PW_TOOL_ABANDONED});
    assert_null(h.append);
    assert_true(h.rested && !h.released);
    h_free(&h);
}

static void test_I1_a_transaction_in_the_writer_is_waited_for(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[2] = {h_call_part("a", "buy", "{}"), h_call_part("b", "buy", "{\"b\":1}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    cancel(&h);
    assert_null(h.append);
    assert_int_equal(h.abort_count, 0);
    h_commit_transact(&h, "7");
    h_commit(&h);
    expect_cancelled(&h);
    assert_int_equal(h.transact_count, 1);
    assert_true(pw_str_is(h_field(&h, &h.records[h.record_count - 3], "result"), "7"));
    h_free(&h);
}

static void test_I1_a_once_call_whose_intent_is_durable_but_not_begun_is_cancelled(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    cancel(&h); /* while model.completed and tool.started are under way */
    h_commit(&h);
    assert_int_equal(h.tool_count, 0);
    h_commit(&h);
    expect_cancelled(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"cancelled\"");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "0");
    h_free(&h);
}

static void test_I3_a_recovered_turn_is_cancelled_without_attempt_or_request(void **state)
{
    (void)state;
    for (int with_tool = 0; with_tool < 2; with_tool++) {
        harness h;
        begin(&h);
        if (with_tool) {
            pw_part parts[2] = {h_call_part("a", "send", "{}"), h_call_part("b", "put", "{}")};
            h_calls(&h, parts, 2);
            h_commit(&h);
        }
        h_cancel(&h, "{\"reason\":\"user\",\"by\":\"U1\"}");
        const size_t asked = h.model_count, run = h.tool_count;
        h_crash(&h, PW_CAUSE_RECOVERY);
        assert_null(h.append); /* nothing before the inbox */
        h_inbox(&h);
        h_commit(&h);
        expect_cancelled(&h);
        assert_int_equal(h_count(&h, PW_RECORD_ATTEMPT_STARTED), 0);
        assert_int_equal(h.model_count, asked);
        assert_int_equal(h.tool_count, run);
        if (with_tool) {
            assert_true(
                pw_str_is(h_field(&h, &h.records[h.record_count - 3], "outcome"), "\"unknown\""));
            h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"cancelled\"");
        }
        h_free(&h);
    }
}

static void test_I7_a_late_cancel_never_hits_the_next_turn(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_say(&h, "r2", "next");
    h_inbox(&h);
    h_text(&h, "done");
    h_cancel(&h, "{\"reason\":\"user\"}");
    h_inbox(&h); /* seen while the end is under way */
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    assert_int_equal(h.rows[2].disposition, PW_SETTLED); /* with the end, seen or not */
    h_commit(&h); /* the next turn opens: the session still knows the old cancel's row */
    assert_int_equal(h.model_count, 2);
    h_text(&h, "fine");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_I2_reasons_of_a_cancel(void **state)
{
    (void)state;
    static const char *const reasons[] = {"user", "replaced", "reset", "parent"};
    for (size_t i = 0; i < 4; i++) {
        harness h;
        char body[64], raw[64];
        begin(&h);
        snprintf(body, sizeof(body), "{\"reason\":\"%s\"}", reasons[i]);
        snprintf(raw, sizeof(raw), "\"%s\"", reasons[i]);
        h_cancel(&h, body);
        h_inbox(&h);
        h_commit(&h);
        h_expect(&h, PW_RECORD_TURN_ENDED, "reason", raw);
        h_expect(&h, PW_RECORD_TURN_ENDED, "actor", "null");
        h_free(&h);
    }
}

static void test_I1_a_message_after_the_stop_runs(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_cancel(&h, "{\"reason\":\"user\",\"by\":\"U1\"}");
    h_say(&h, "r2", "instead");
    h_inbox(&h);
    h_commit(&h);
    expect_cancelled(&h);
    h_commit(&h);
    assert_int_equal(h.model->count, 2);
    h_text(&h, "ok");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

/* --- Draining (I6)
 * ------------------------------------------------------------------------------------------------
 */

static void test_I6_drain_aborts_a_model_call_and_leaves_the_turn_open(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_drain(&h);
    assert_int_equal(h.abort_count, 1);
    assert_null(h.append);
    assert_true(h.rested && !h.released);
    h_crash(&h, PW_CAUSE_DRAINED);
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "cause", "\"drained\"");
    h_text(&h, "done");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "attempts", "2");
    h_free(&h);
}

static void test_I6_drain_waits_for_a_tool_and_commits_its_receipt(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[2] = {h_call_part("a", "put", "{}"), h_call_part("b", "send", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_drain(&h);
    assert_false(h.rested);
    assert_int_equal(h.abort_count, 0);
    h_tool(&h, "1");
    assert_int_equal(h.append->record_count, 1); /* no intent of a call that is not begun */
    h_commit(&h);
    assert_true(h.rested && !h.released);
    assert_int_equal(h.tool_count, 1);
    h_crash(&h, PW_CAUSE_DRAINED);
    h_inbox(&h);
    h_commit(&h);
    assert_true(pw_str_is(h.tool->name, "send"));
    assert_int_equal(h.tool->attempt, 1);
    h_free(&h);
}

static void test_I6_drain_commits_a_reply_that_is_there(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_text(&h, "done");
    h_drain(&h);
    assert_false(h.rested);
    h_commit(&h);
    assert_true(h.rested);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_I6_drain_waits_for_a_transaction_but_never_begins_one_again(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    h_drain(&h);
    assert_false(h.rested);
    h_not(&h, PW_NOT_COMMITTED);
    assert_true(h.rested && !h.released);
    h_free(&h);
}

static void test_I6_drain_while_idle_debouncing_or_waiting(void **state)
{
    (void)state;
    harness h;
    h_new(&h,
          "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"debounce_ms\":1000}");
    h_say(&h, "r1", "x");
    h_inbox(&h);
    h_drain(&h);
    assert_true(h.rested && !h.released);
    h_free(&h);

    begin(&h);
    h_fail(&h, PW_FAILURE_RETRY, "http_500", 0);
    h_commit(&h);
    h_drain(&h);
    assert_true(h.rested && !h.released);
    h_free(&h);

    h_new(&h, h_agent); /* before any inbox */
    h_drain(&h);
    assert_true(h.rested);
    h_free(&h);
}

static void test_I6_a_claim_under_way_when_draining_stays_open(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "x");
    h_inbox(&h);
    h_drain(&h);
    h_commit(&h);
    assert_int_equal(h.model_count, 0);
    assert_true(h.rested && !h.released);
    h_crash(&h, PW_CAUSE_DRAINED);
    h_inbox(&h);
    h_commit(&h);
    h_text(&h, "ok");
    h_commit(&h);
    h_free(&h);
}

/* --- Bounds (G1, G3)
 * ------------------------------------------------------------------------------------------------
 */

#define TOOLS "\"tools\":[{\"name\":\"put\",\"effects\":\"idempotent\"},{\"name\":\"send\"}]"
#define AGENT(budget)                                                                              \
    "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"budget\":{" budget "}," TOOLS \
    "}"

static void test_G1_last_allowed_iteration_still_asking_is_exhausted_in_one_append(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"max_iterations\":2"));
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    h_call(&h, "put", "{\"b\":1}");
    assert_int_equal(h.append->record_count, 3);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"exhausted\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"max_iterations\"");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"paused\"");
    assert_int_equal(h.tool_count, 1);
    assert_true(pw_str_find(h_field(&h, h_last(&h, PW_RECORD_TURN_ENDED), "text"),
                            PW_STR("continue")) != SIZE_MAX);
    h_free(&h);
}

static void test_G3_tool_calls_are_bounded_before_each_call(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"max_tool_calls\":1"));
    pw_part parts[2] = {h_call_part("a", "put", "{}"), h_call_part("b", "send", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_tool(&h, "1");
    assert_int_equal(h.append->record_count, 3); /* the last receipt, what is not run, the end */
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"paused\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"max_tool_calls\"");
    assert_int_equal(h_count(&h, PW_RECORD_TOOL_STARTED), 0);
    h_free(&h);
}

static void test_G3_cost_and_tokens_pause_before_the_next_call(void **state)
{
    (void)state;
    static const struct {
        const char *definition, *reason, *detail;
    } cases[] = {{AGENT("\"max_cost_usd\":0.0009"), "\"max_cost_usd\"",
                  "\"the turn reached its bound max_cost_usd (0.0009 USD)\""},
                 {AGENT("\"max_tokens\":66"), "\"max_tokens\"",
                  "\"the turn reached its bound max_tokens (66)\""}};
    for (size_t i = 0; i < 2; i++) {
        harness h;
        begin_as(&h, cases[i].definition);
        for (int k = 0; k < 2; k++) {
            char arguments[32];
            snprintf(arguments, sizeof(arguments), "{\"k\":%d}", k);
            h_call(&h, "put", arguments);
            h_commit(&h);
            h_tool(&h, "1");
            h_commit(&h);
        }
        h_call(&h, "put", "{}"); /* the third goes over: nothing is begun after it */
        h_commit(&h);
        assert_int_equal(h.tool_count, 2);
        assert_int_equal(h.model_count, 3);
        h_expect(&h, PW_RECORD_TURN_ENDED, "reason", cases[i].reason);
        h_expect(&h, PW_RECORD_TURN_ENDED, "detail", cases[i].detail);
        h_free(&h);
    }
}

static void test_G3_a_final_reply_over_its_budget_still_completes(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"max_tokens\":1,\"max_iterations\":1"));
    h_text(&h, "done");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_G3_the_deadline_ends_a_running_model_call(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"deadline_ms\":10000"));
    assert_int_equal(h.wake, h.now + 10000);
    h_delta(&h, "so far");
    h_time(&h, h.wake);
    assert_int_equal(h.abort_count, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_DISCARDED, "shown", "6"); /* C5 */
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"paused\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
    h_free(&h);
}

static void test_G3_the_deadline_ends_a_running_tool_by_its_effects(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        harness h;
        begin_as(&h, AGENT("\"deadline_ms\":10000"));
        pw_part parts[2] = {h_call_part("a", once ? "send" : "put", "{}"),
                            h_call_part("b", "put", "{\"b\":1}")};
        h_calls(&h, parts, 2);
        h_commit(&h);
        h_time(&h, h.now + 10000);
        h_commit(&h);
        assert_true(pw_str_is(h_field(&h, &h.records[h.record_count - 3], "outcome"),
                              once ? "\"unknown\"" : "\"error\""));
        assert_true(
            pw_str_is(h_field(&h, &h.records[h.record_count - 2], "outcome"), "\"paused\""));
        h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
        h_free(&h);
    }
}

static void test_D8_a_restart_neither_renews_nor_forgets_the_deadline(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"deadline_ms\":10000"));
    const int64_t deadline = h.now + 10000;
    h.now += 6000;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->deadline_at_ms, deadline);
    h.now += 6000;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
    assert_int_equal(h.model_count, 2);
    h_free(&h);
}

static void test_G3_a_reply_in_hand_at_the_deadline_counts(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, AGENT("\"deadline_ms\":10000"));
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t late = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_tool_outcome(&h, late, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    h_text(&h, "just in time"); /* while a tool.late is under way */
    h.now += 10000;
    h_commit(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_I7_cancel_stops_a_streaming_model_and_keeps_its_text),
        cmocka_unit_test(test_I1_cancel_before_the_model_is_asked),
        cmocka_unit_test(test_I1_cancel_after_a_reply_and_before_its_commit),
        cmocka_unit_test(test_I1_cancel_of_a_running_call_goes_by_its_effects),
        cmocka_unit_test(test_D8_the_answer_of_a_cancelled_once_call_is_kept_as_evidence),
        cmocka_unit_test(test_D8_an_aborted_call_that_ends_abandoned_holds_nothing),
        cmocka_unit_test(test_I1_a_transaction_in_the_writer_is_waited_for),
        cmocka_unit_test(test_I1_a_once_call_whose_intent_is_durable_but_not_begun_is_cancelled),
        cmocka_unit_test(test_I3_a_recovered_turn_is_cancelled_without_attempt_or_request),
        cmocka_unit_test(test_I7_a_late_cancel_never_hits_the_next_turn),
        cmocka_unit_test(test_I2_reasons_of_a_cancel),
        cmocka_unit_test(test_I1_a_message_after_the_stop_runs),
        cmocka_unit_test(test_I6_drain_aborts_a_model_call_and_leaves_the_turn_open),
        cmocka_unit_test(test_I6_drain_waits_for_a_tool_and_commits_its_receipt),
        cmocka_unit_test(test_I6_drain_commits_a_reply_that_is_there),
        cmocka_unit_test(test_I6_drain_waits_for_a_transaction_but_never_begins_one_again),
        cmocka_unit_test(test_I6_drain_while_idle_debouncing_or_waiting),
        cmocka_unit_test(test_I6_a_claim_under_way_when_draining_stays_open),
        cmocka_unit_test(test_G1_last_allowed_iteration_still_asking_is_exhausted_in_one_append),
        cmocka_unit_test(test_G3_tool_calls_are_bounded_before_each_call),
        cmocka_unit_test(test_G3_cost_and_tokens_pause_before_the_next_call),
        cmocka_unit_test(test_G3_a_final_reply_over_its_budget_still_completes),
        cmocka_unit_test(test_G3_the_deadline_ends_a_running_model_call),
        cmocka_unit_test(test_G3_the_deadline_ends_a_running_tool_by_its_effects),
        cmocka_unit_test(test_D8_a_restart_neither_renews_nor_forgets_the_deadline),
        cmocka_unit_test(test_G3_a_reply_in_hand_at_the_deadline_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
