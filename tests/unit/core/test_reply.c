/* What comes back from the model (C1, C2, C5, C6, C8, C10, D10, F5, F10, G6). */
#include "driver.h"

static void begin(harness *h)
{
    h_new(h, h_agent);
    h_say(h, "r1", "hello");
    h_inbox(h);
    h_commit(h);
}

static void reply_with(harness *h, pw_part *parts, size_t count, pw_stop stop)
{
    h_reply(h, &(pw_reply){.parts = parts,
                           .part_count = count,
                           .stop = stop,
                           .model = PW_STR("m1"),
                           .provider = PW_STR("scripted"),
                           .usage = {3, 0, 0, 1, 0, 10}});
}

static void test_C6_an_end_says_how_it_ended(void **state)
{
    (void)state;
    static const struct {
        pw_stop stop;
        const char *text;
    } stops[] = {
        {PW_STOP_DONE, "\"done\""},
        {PW_STOP_MAX_OUTPUT, "\"max_output\""},
        {PW_STOP_STOP_SEQUENCE, "\"stop_sequence\""},
        {PW_STOP_FILTERED, "\"filtered\""},
        {PW_STOP_REFUSED, "\"refused\""},
        {PW_STOP_TOOL_CALLS, "\"done\""},
    };
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        harness h;
        begin(&h);
        pw_part parts[2] = {{.kind = PW_PART_TEXT, .text = PW_STR("he")},
                            {.kind = PW_PART_TEXT, .text = PW_STR("llo")}};
        reply_with(&h, parts, 2, stops[i].stop);
        h_commit(&h);
        h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
        h_expect(&h, PW_RECORD_TURN_ENDED, "stop", stops[i].text);
        h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"hello\"");
        h_free(&h);
    }
}

static void test_C6_refusal_text_is_the_reply(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part part = {.kind = PW_PART_REFUSAL, .text = PW_STR("no")};
    reply_with(&h, &part, 1, PW_STOP_REFUSED);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"no\"");
    h_free(&h);
}

static void test_C6_paused_is_asked_again_at_once_and_counts(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part part = {.kind = PW_PART_SERVER_TOOL, .raw = PW_STR("{\"type\":\"server_tool_use\"}")};
    reply_with(&h, &part, 1, PW_STOP_PAUSED);
    h_commit(&h);
    assert_int_equal(h.model_count, 2);
    assert_int_equal(h.model->count, 2);
    assert_int_equal(h.model->messages[1]->role, PW_ROLE_ASSISTANT);
    assert_true(pw_str_is(h.model->messages[1]->parts[0].raw, "{\"type\":\"server_tool_use\"}"));
    h_text(&h, "ok");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.iterations", "2");
    h_free(&h);
}

static void test_C6_abnormal_end_with_nothing_fails_before_it_commits(void **state)
{
    (void)state;
    static const pw_stop stops[] = {PW_STOP_MAX_OUTPUT, PW_STOP_REFUSED, PW_STOP_FILTERED};
    for (size_t i = 0; i < 3; i++) {
        harness h;
        begin(&h);
        pw_part part = {.kind = PW_PART_TEXT, .text = PW_STR(" \n")};
        reply_with(&h, &part, 1, stops[i]);
        h_commit(&h);
        assert_int_equal(h_count(&h, PW_RECORD_MODEL_COMPLETED), 0);
        h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
        h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"empty_reply\"");
        h_expect(&h, PW_RECORD_TURN_ENDED, "usage.input_tokens", "3");
        h_expect(&h, PW_RECORD_TURN_ENDED, "usage.iterations", "1");
        assert_int_equal(h.model_count, 1); /* not retried */
        h_free(&h);
    }
}

static void test_C6_normal_empty_reply_is_asked_once_more_then_fails(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    reply_with(&h, NULL, 0, PW_STOP_DONE);
    h_commit(&h);
    assert_int_equal(h.model_count, 2);
    assert_int_equal(h.model->tries, 2);
    /* Also over a crash it is asked once more only. */
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model_count, 3);
    reply_with(&h, NULL, 0, PW_STOP_DONE);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"empty_reply\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"empty_reply:done\"");
    h_free(&h);
}

static void test_C6_silent_completion_where_a_tool_with_effects_succeeded(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    reply_with(&h, NULL, 0, PW_STOP_DONE);
    h_commit(&h);
    reply_with(&h, NULL, 0, PW_STOP_DONE);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "null");
    h_expect(&h, PW_RECORD_TURN_ENDED, "silent", "true");
    h_expect(&h, PW_RECORD_TURN_ENDED, "stop", "\"done\"");
    h_free(&h);
}

static void test_C6_a_tool_without_effects_does_not_excuse_silence(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "read", "{\"path\":\"x\"}");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    for (int i = 0; i < 2; i++) {
        reply_with(&h, NULL, 0, PW_STOP_DONE);
        h_commit(&h);
    }
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"empty_reply\"");
    h_free(&h);
}

static void test_C6_full_context_pauses(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part part = {.kind = PW_PART_TEXT, .text = PW_STR("half")};
    reply_with(&h, &part, 1, PW_STOP_CONTEXT_FULL);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"paused\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"context\"");
    h_free(&h);
}

static void test_C6_whole_calls_of_a_cut_reply_run_and_open_ones_never(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[3] = {{.kind = PW_PART_TEXT, .text = PW_STR("I will")},
                        h_call_part("a", "put", "{\"x\":1}"),
                        h_call_part("b", "send", "{\"x\":")};
    parts[2].broken = true;
    reply_with(&h, parts, 3, PW_STOP_MAX_OUTPUT);
    h_commit(&h);
    assert_true(pw_str_is(h.tool->name, "put"));
    h_tool(&h, "1");
    h_commit(&h);
    assert_int_equal(h.tool_count, 1);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    assert_int_equal(h.model->count, 4);
    h_free(&h);
}

static void test_C6_calls_of_a_refused_reply_are_closed_unrun(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[2] = {{.kind = PW_PART_TEXT, .text = PW_STR("I can not")},
                        h_call_part("a", "send", "{}")};
    reply_with(&h, parts, 2, PW_STOP_REFUSED);
    h_commit(&h);
    assert_int_equal(h.tool_count, 0);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"cancelled\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "stop", "\"refused\"");
    h_free(&h);
}

static void test_D10_repeated_and_unfit_provider_ids_never_collide(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[6] = {
        h_call_part("dup", "put", "{\"a\":1}"),  h_call_part("dup", "put", "{\"a\":2}"),
        h_call_part("", "put", "{\"a\":3}"),     h_call_part("functions.x:0", "put", "{\"a\":4}"),
        h_call_part("ok-1", "put", "{\"a\":5}"), h_call_part("", "put", "{\"a\":6}")};
    static const char *const ids[] = {"tool:2:.1", "tool:2:.2",   "tool:2:.3",
                                      "tool:2:.4", "tool:2:ok-1", "tool:2:.6"};
    h_calls(&h, parts, 6);
    h_commit(&h);
    pw_str keys[6];
    for (size_t i = 0; i < 6; i++) {
        assert_true(pw_str_is(h.tool->step, ids[i]));
        keys[i] = h.tool->key;
        assert_int_equal(pw_arena_dup(&h.arena, h.tool->key, &keys[i]), PW_OK);
        for (size_t k = 0; k < i; k++) {
            assert_false(pw_str_equal(keys[k], keys[i])); /* D1 */
        }
        h_tool(&h, "1");
        h_commit(&h);
    }
    assert_int_equal(h.model->count, 8);
    /* The same ids again, in the next message: other steps. */
    h_calls(&h, parts, 2);
    h_commit(&h);
    assert_true(pw_str_is(h.tool->step, "tool:9:.1"));
    h_free(&h);
}

static void test_C8_bound_content_and_numbers_pass_byte_exact(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    static const char raw[] = "{\"type\":\"thinking\", \"signature\":\"A+/=\", \"n\":1.0e+2}";
    pw_part parts[2] = {
        {.kind = PW_PART_THINKING, .text = PW_STR(""), .raw = PW_STR(raw)},
        h_call_part("a", "put", "{\"big\":12345678901234567890, \"f\":1.10, \"s\":\"\\u00e9\"}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    assert_true(pw_str_is(h.tool->arguments,
                          "{\"big\":12345678901234567890, \"f\":1.10, \"s\":\"\\u00e9\"}"));
    h_tool(&h, "{\"v\":0.10, \"w\":1e400}");
    h_commit(&h);
    for (int i = 0; i < 2; i++) {
        assert_true(pw_str_is(h.model->messages[1]->parts[0].raw, raw));
        assert_true(pw_str_is(h.model->messages[1]->parts[1].arguments,
                              "{\"big\":12345678901234567890, \"f\":1.10, \"s\":\"\\u00e9\"}"));
        assert_true(pw_str_is(h.model->messages[2]->result, "{\"v\":0.10, \"w\":1e400}"));
        h_crash(&h, PW_CAUSE_RECOVERY);
        h_inbox(&h);
        h_commit(&h);
    }
    h_free(&h);
}

static void test_A8_bad_text_of_a_model_is_mended_on_the_way_in(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[2] = {
        {.kind = PW_PART_TEXT, .text = {"a\0b\xFFz", 5}},
        h_call_part("a", "put", "{\"k\\ud83d\":\"\\ud800 \\u0000 \xF0\x9F\x98\x80\"}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    assert_true(pw_json_valid(h.tool->arguments));
    assert_true(pw_str_find(h.tool->arguments, PW_STR("\\ud8")) == SIZE_MAX);
    assert_true(pw_str_find(h.tool->arguments, PW_STR("\\u0000")) == SIZE_MAX);
    h_tool(&h, "\"\\udc00x\"");
    h_commit(&h);
    assert_true(pw_str_is(h.model->messages[2]->result, "\"\xEF\xBF\xBDx\""));
    assert_true(pw_str_is(h.model->messages[1]->parts[0].text, "a\xEF\xBF\xBD"
                                                               "b\xEF\xBF\xBDz"));
    h_free(&h);
}

static void test_C10_same_counts_what_the_last_request_had(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    assert_int_equal(h.model->same, 0);
    size_t count = 1;
    for (int i = 0; i < 5; i++) {
        char arguments[32];
        snprintf(arguments, sizeof(arguments), "{\"i\":%d}", i);
        h_call(&h, "put", arguments);
        h_commit(&h);
        h_tool(&h, "1");
        h_commit(&h);
        assert_int_equal(h.model->same, count);
        count = h.model->count;
    }
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->same, 0); /* after a load the codec begins anew */
    h_free(&h);
}

static void test_M2_deltas_are_told_with_bytes_of_text_so_far(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_delta(&h, "h\xC3\xA9");
    assert_int_equal(h.told_bytes, 3);
    assert_int_equal(h.told_seq, 1);
    h_step(&h,
           &(pw_input){.kind = PW_IN_MODEL_DELTA, .delta = {h.model_call, true, PW_STR("think")}});
    assert_int_equal(h.told_bytes, 3);
    h_delta(&h, "llo");
    assert_int_equal(h.told_bytes, 6);
    assert_true(pw_str_is(h_look(&h).open_text, "h\xC3\xA9llo"));
    assert_true(pw_str_is(h_look(&h).open_step, "model:2"));
    h_text(&h, "h\xC3\xA9llo");
    assert_int_equal(h_look(&h).open_step.len, 0);
    h_commit(&h);
    h_free(&h);
}

static void test_C5_discarded_text_is_a_record_before_new_text(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_delta(&h, "Here is the p");
    h_fail(&h, PW_FAILURE_RETRY, "cut_off", 0);
    assert_int_equal(h.append->record_count, 2);
    assert_int_equal(h.append->records[0].kind, PW_RECORD_MODEL_DISCARDED);
    assert_int_equal(h.append->records[1].kind, PW_RECORD_MODEL_RETRYING);
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_DISCARDED, "shown", "13");
    h_time(&h, h.now + 5000);
    assert_int_equal(h.model_count, 2);
    assert_int_equal(h.model->tries, 2);
    assert_int_equal(h_look(&h).open_text.len, 0);
    h_text(&h, "whole");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.retries", "1");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.unpriced_calls",
             "1"); /* G6: it cost, nobody knows what */
    h_free(&h);
}

static void test_F5_four_tries_then_failed_model(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(h.model->tries, i);
        h_fail(&h, PW_FAILURE_RETRY, "http_500", 0);
        h_commit(&h);
        assert_int_equal(h_look(&h).state, PW_TURN_WAITING);
        assert_true(pw_str_is(h_look(&h).reason, "retry"));
        assert_true(h.wake >= h.now && h.wake <= h.now + 1000 * (1 << (i - 1)));
        h_time(&h, h.wake);
    }
    assert_int_equal(h.model_count, 4);
    h_fail(&h, PW_FAILURE_RETRY, "http_500", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"model\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"model:http_500\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "detail", "\"the provider says no\"");
    h_free(&h);
}

static void test_F5_tries_are_of_one_step_and_survive_a_crash(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    for (int i = 0; i < 3; i++) {
        h_fail(&h, PW_FAILURE_RETRY, "connect", 0);
        h_commit(&h);
        h_crash(&h, PW_CAUSE_RECOVERY); /* a wait under way after a crash: simply asked again */
        h_inbox(&h);
        h_commit(&h);
    }
    assert_int_equal(h.model->tries, 4);
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    assert_int_equal(h.model->tries, 1);
    h_free(&h);
}

static void test_F5_final_failures_are_not_retried(void **state)
{
    (void)state;
    static const pw_failure_class classes[] = {PW_FAILURE_FINAL, PW_FAILURE_NEXT};
    for (size_t i = 0; i < 2; i++) {
        harness h;
        begin(&h);
        h_fail(&h, classes[i], "authentication_error", 0);
        h_commit(&h);
        assert_int_equal(h.model_count, 1);
        h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"model:authentication_error\"");
        h_free(&h);
    }
}

static void test_G5_context_error_pauses_for_now(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_fail(&h, PW_FAILURE_REPAIR, "context_length_exceeded", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"paused\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"context\"");
    h_free(&h);
}

static void test_F10_long_wait_is_journalled_and_lets_go(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    const int64_t until = h.now + 30000;
    h_fail(&h, PW_FAILURE_WAIT, "rate_limit_error", until);
    assert_int_equal(h.append->records[0].kind, PW_RECORD_WAIT_SET);
    assert_true(h.append->head.release);
    assert_int_equal(h.append->head.state, PW_TURN_WAITING);
    assert_true(pw_str_is(h.append->head.reason, "rate_limit"));
    assert_true(h.append->head.wake_at_ms >= until && h.append->head.wake_at_ms <= until + 1000);
    const int64_t wake = h.append->head.wake_at_ms;
    h_commit(&h);
    assert_true(h.rested && h.released);
    /* Taken too early, it waits on. */
    h.now += 10000;
    h_crash(&h, PW_CAUSE_RESUME);
    h_inbox(&h);
    assert_null(h.append);
    assert_int_equal(h.model_count, 1);
    assert_int_equal(h.wake, wake);
    assert_true(pw_str_is(h_look(&h).reason, "rate_limit"));
    h_time(&h, wake);
    assert_int_equal(h.append->records[0].kind, PW_RECORD_ATTEMPT_STARTED);
    assert_int_equal(h.append->head.state, PW_TURN_RUNNING);
    h_commit(&h);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "cause", "\"resume\"");
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", "0");
    assert_int_equal(h.model_count, 2);
    h_text(&h, "at last");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "attempts", "2");
    h_free(&h);
}

static void test_F5_short_waits_are_not_counted_as_tries(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    for (int i = 0; i < 8; i++) {
        h_fail(&h, PW_FAILURE_WAIT, "rate_limit_error", h.now + 2000);
        assert_int_equal(h.append->record_count, 1);
        h_commit(&h);
        assert_int_equal(h.wake, h.now + 2000);
        h_time(&h, h.wake);
    }
    assert_int_equal(h.model_count, 9);
    h_free(&h);
}

static void test_F5_a_wait_past_the_deadline_pauses_at_once(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_fail(&h, PW_FAILURE_WAIT, "rate_limit_error", h.now + 31 * 60 * 1000);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"paused\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
    h_free(&h);
}

static void test_C2_a_model_step_commits_message_usage_and_model(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_text(&h, "x");
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "n", "2");
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "usage.in_uncached", "10");
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "usage.in_cache_write", "null");
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "model", "\"m1\"");
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "stop", "\"done\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.input_tokens", "15");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.cached_tokens", "5");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.output_tokens", "7");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.reasoning_tokens", "2");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.cost_micros", "300");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.unpriced_calls", "0");
    h_free(&h);
}

static void test_G1_unknown_price_is_reported(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part part = {.kind = PW_PART_TEXT, .text = PW_STR("x")};
    h_reply(&h,
            &(pw_reply){
                .parts = &part, .part_count = 1, .stop = PW_STOP_DONE, .usage = PW_USAGE_UNKNOWN});
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.unpriced_calls", "1");
    h_expect(&h, PW_RECORD_TURN_ENDED, "model",
             "\"m1\""); /* as pinned, where the reply does not say */
    h_free(&h);
}

static void test_out_of_order_inputs_are_ignored(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_reply reply = {.stop = PW_STOP_DONE, .usage = PW_USAGE_UNKNOWN};
    pw_failure failure = {.failure_class = PW_FAILURE_FINAL, .usage = PW_USAGE_UNKNOWN};
    const uint64_t call = h.model_call;
    h_step(&h, &(pw_input){.kind = PW_IN_MODEL_REPLY, .reply = {call + 100, &reply}});
    h_step(&h, &(pw_input){.kind = PW_IN_MODEL_FAILED, .failed = {call + 100, &failure}});
    h_step(&h, &(pw_input){.kind = PW_IN_MODEL_DELTA, .delta = {call + 100, false, PW_STR("x")}});
    h_step(&h, &(pw_input){.kind = PW_IN_APPENDED, .appended = {1, PW_STR_NONE}});
    h_step(&h, &(pw_input){.kind = PW_IN_NOT_APPENDED, .not_appended = {1, PW_FENCED}});
    h_tool_outcome(&h, 77, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    assert_null(h.append);
    assert_false(h.rested);
    h_text(&h, "x");
    h_step(&h, &(pw_input){.kind = PW_IN_MODEL_REPLY, .reply = {call, &reply}}); /* twice */
    h_commit(&h);
    assert_int_equal(h_count(&h, PW_RECORD_MODEL_COMPLETED), 1);
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C6_an_end_says_how_it_ended),
        cmocka_unit_test(test_C6_refusal_text_is_the_reply),
        cmocka_unit_test(test_C6_paused_is_asked_again_at_once_and_counts),
        cmocka_unit_test(test_C6_abnormal_end_with_nothing_fails_before_it_commits),
        cmocka_unit_test(test_C6_normal_empty_reply_is_asked_once_more_then_fails),
        cmocka_unit_test(test_C6_silent_completion_where_a_tool_with_effects_succeeded),
        cmocka_unit_test(test_C6_a_tool_without_effects_does_not_excuse_silence),
        cmocka_unit_test(test_C6_full_context_pauses),
        cmocka_unit_test(test_C6_whole_calls_of_a_cut_reply_run_and_open_ones_never),
        cmocka_unit_test(test_C6_calls_of_a_refused_reply_are_closed_unrun),
        cmocka_unit_test(test_D10_repeated_and_unfit_provider_ids_never_collide),
        cmocka_unit_test(test_C8_bound_content_and_numbers_pass_byte_exact),
        cmocka_unit_test(test_A8_bad_text_of_a_model_is_mended_on_the_way_in),
        cmocka_unit_test(test_C10_same_counts_what_the_last_request_had),
        cmocka_unit_test(test_M2_deltas_are_told_with_bytes_of_text_so_far),
        cmocka_unit_test(test_C5_discarded_text_is_a_record_before_new_text),
        cmocka_unit_test(test_F5_four_tries_then_failed_model),
        cmocka_unit_test(test_F5_tries_are_of_one_step_and_survive_a_crash),
        cmocka_unit_test(test_F5_final_failures_are_not_retried),
        cmocka_unit_test(test_G5_context_error_pauses_for_now),
        cmocka_unit_test(test_F10_long_wait_is_journalled_and_lets_go),
        cmocka_unit_test(test_F5_short_waits_are_not_counted_as_tries),
        cmocka_unit_test(test_F5_a_wait_past_the_deadline_pauses_at_once),
        cmocka_unit_test(test_C2_a_model_step_commits_message_usage_and_model),
        cmocka_unit_test(test_G1_unknown_price_is_reported),
        cmocka_unit_test(test_out_of_order_inputs_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
