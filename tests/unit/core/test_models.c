/* The models of a turn: fallbacks (F6), parts left out (C9), replies that are resumed
 * (PROVIDERS 4.5).
 */
#include "driver.h"

static const char image[] =
    "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{\"type\":\"text\",\"text\":"
    "\"look\"},{\"type\":\"image\",\"source\":{\"data\":\"eA==\"}}]}";

static void begin(harness *h, const char *agent)
{
    h_new(h, agent);
    h_say(h, "r1", "hello");
    h_inbox(h);
    h_commit(h);
}

static void begin_image(harness *h)
{
    h_new(h, h_agent);
    h_say_body(h, "r1", image);
    h_inbox(h);
    h_commit(h);
}

static void recover(harness *h)
{
    h_crash(h, PW_CAUSE_RECOVERY);
    h_inbox(h);
    h_commit(h);
}

static void call_and_answer(harness *h)
{
    h_call(h, "put", "{}");
    h_commit(h);
    h_tool(h, "1");
    h_commit(h);
}

/* --- F6 --- */

static void test_F6_fallback_goes_on_with_the_same_transcript(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    assert_true(pw_str_is(h.model->model->name, "m1"));
    call_and_answer(&h);
    const size_t count = h.model->count;
    h_fail(&h, PW_FAILURE_NEXT, "insufficient_quota", 0);
    h_commit(&h);
    assert_true(pw_str_is(h.model->model->name, "m2"));
    assert_int_equal(h.model->count, count);
    assert_int_equal(h.model->same, count); /* C10 */
    assert_int_equal(h.model->tries, 1);
    h_expect(&h, PW_RECORD_MODEL_FALLBACK, "from",
             "{\"index\":0,\"provider\":\"scripted\",\"model\":\"m1\"}");
    h_expect(&h, PW_RECORD_MODEL_FALLBACK, "to",
             "{\"index\":1,\"provider\":\"scripted\",\"model\":\"m2\"}");
    h_expect(&h, PW_RECORD_MODEL_FALLBACK, "code", "\"insufficient_quota\"");
    h_reply(&h, &(pw_reply){.parts = &(pw_part){.kind = PW_PART_TEXT, .text = PW_STR("ok")},
                            .part_count = 1,
                            .stop = PW_STOP_DONE,
                            .usage = PW_USAGE_UNKNOWN});
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_COMPLETED, "model", "\"m2\""); /* the reply named none */
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.fallbacks", "1");
    h_expect(&h, PW_RECORD_TURN_ENDED, "model", "\"m2\"");
    assert_int_equal(h_count(&h, PW_RECORD_TURN_ENDED), 1);
    h_free(&h);
}

static void test_case_B1_a_fallback_inside_a_turn_makes_no_second_reply(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    h_delta(&h, "Half of a first ");
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    assert_int_equal(h.append->record_count, 2); /* what was shown is taken back with it */
    assert_int_equal(h.append->records[0].kind, PW_RECORD_MODEL_DISCARDED);
    assert_int_equal(h.append->records[1].kind, PW_RECORD_MODEL_FALLBACK);
    h_commit(&h);
    h_text(&h, "the reply");
    h_commit(&h);
    assert_int_equal(h_count(&h, PW_RECORD_MODEL_COMPLETED), 1);
    assert_int_equal(h_count(&h, PW_RECORD_TURN_ENDED), 1);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"the reply\"");
    h_free(&h);
}

static void test_F6_tries_begin_anew_and_only_when_they_are_used_up(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    for (int model = 0; model < 2; model++) {
        for (int i = 1; i <= 4; i++) {
            assert_int_equal(h.model->tries, i);
            assert_true(pw_str_is(h.model->model->name, model == 0 ? "m1" : "m2"));
            h_fail(&h, PW_FAILURE_RETRY, "http_500", 0);
            h_commit(&h);
            if (i < 4) {
                h_time(&h, h.wake);
            }
        }
    }
    assert_true(
        pw_str_is(h.model->model->name, "far")); /* no receipt yet: another family will do */
    h_text(&h, "ok");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.fallbacks", "2");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.retries", "6");
    h_free(&h);
}

static void test_F6_across_families_only_before_the_first_receipt(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    call_and_answer(&h);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    assert_true(pw_str_is(h.model->model->name, "m3")); /* `far` is passed over */
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"model:not_found_error\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "operations.0.name", "\"put\""); /* F7 */
    h_free(&h);
}

static void test_F6_a_fallback_that_is_not_taken_is_said(void **state)
{
    (void)state;
    harness h;
    begin(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\",\"fallback\":[{"
              "\"provider\":\"q\",\"name\":\"n\"}]},\"tools\":[{\"name\":\"put\",\"effects\":"
              "\"idempotent\"}]}");
    call_and_answer(&h);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "detail",
             "\"the provider says no (the fallback n was not taken: it is of another provider, and "
             "this turn has receipts already)\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.fallbacks", "0");
    h_free(&h);
}

static void test_F6_what_another_model_would_hear_too_is_not_taken_there(void **state)
{
    (void)state;
    static const pw_failure_class classes[] = {PW_FAILURE_FINAL, PW_FAILURE_REPAIR};
    for (size_t i = 0; i < 2; i++) {
        harness h;
        begin(&h, h_agent_models);
        h_fail(&h, classes[i], "invalid_request_error", 0);
        h_commit(&h);
        assert_int_equal(h.model_count, 1);
        assert_int_equal(h_count(&h, PW_RECORD_MODEL_FALLBACK), 0);
        h_free(&h);
    }
}

static void
test_F6_a_recovery_goes_on_with_the_chosen_model_and_the_next_turn_with_the_first(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    recover(&h);
    assert_true(pw_str_is(h.model->model->name, "m2"));
    h_fail(&h, PW_FAILURE_RETRY, "http_500", 0);
    h_commit(&h);
    recover(&h);
    assert_int_equal(h.model->tries, 2);
    h_say(&h, "r2", "again");
    h_inbox(&h);
    h_text(&h, "ok");
    h_commit_all(&h);
    assert_true(pw_str_is(h.model->model->name, "m1"));
    h_free(&h);
}

static void test_F6_usage_of_the_model_that_failed_counts(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    const pw_failure failure = {.failure_class = PW_FAILURE_NEXT,
                                .code = PW_STR("not_found_error"),
                                .usage = {7, 0, 0, 2, 0, 40}};
    h_step(&h, &(pw_input){.kind = PW_IN_MODEL_FAILED, .failed = {h.model_call, &failure}});
    h_commit(&h);
    h_text(&h, "ok");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.input_tokens", "22");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.cost_micros", "340");
    h_free(&h);
}

static void test_F6_cancel_and_deadline_hold_between_models(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_cancel(&h, "{\"reason\":\"user\"}");
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model_count, 1); /* the next model is not asked */
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"cancelled\"");
    h_free(&h);
    begin(&h, h_agent_models);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h.now += (int64_t)31 * 60 * 1000;
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
    h_free(&h);
}

static void test_F6_a_record_that_names_no_model_of_the_agent_is_corrupt(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent_models);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    pw_session *s;
    pw_session_options options = {&pw_heap, PW_STR("uid-1")};
    assert_int_equal(pw_session_new(&options, &s), PW_OK);
    for (size_t i = 0; i < h.record_count; i++) {
        assert_int_equal(pw_session_fold(s, &h.records[i], NULL), PW_OK);
    }
    const pw_definition *one = h_definition(&h, h_agent);
    pw_effects effects;
    const pw_input opened = {
        .kind = PW_IN_OPENED,
        .opened = {.epoch = 9, .cause = PW_CAUSE_RECOVERY, .pinned = one, .today = one}};
    assert_int_equal(pw_session_step(s, &opened, &effects), PW_CORRUPT);
    pw_session_free(s);
    h_free(&h);
}

/* --- C9 --- */

static void expect_placeholder(const harness *h, size_t message, size_t part, const char *text)
{
    const pw_part *is = &h->model->messages[message]->parts[part];
    assert_int_equal(is->kind, PW_PART_TEXT);
    assert_true(is->left_out);
    assert_true(pw_str_is(is->text, text));
    assert_int_equal(is->raw.len, 0);
}

static void test_C9_a_rejected_part_is_left_out_and_asked_again(void **state)
{
    (void)state;
    harness h;
    begin_image(&h);
    assert_int_equal(h.model->messages[0]->parts[1].kind, PW_PART_OTHER);
    h_reject(&h, 0, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TRANSCRIPT_REPAIRED, "repairs",
             "[{\"seq\":1,\"part\":1,\"what\":\"quarantined\"}]");
    assert_int_equal(h.model_count, 2);
    assert_int_equal(h.model->tries, 2);
    assert_int_equal(h.model->same, 0); /* its bytes changed: rendered anew */
    assert_true(pw_str_is(h.model->messages[0]->parts[0].text, "look"));
    expect_placeholder(&h, 0, 1, "[image left out: the provider rejected it]");
    h_text(&h, "I see none");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_F6_C9_tries_begin_anew_with_a_fallback_after_a_part_was_left_out(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent_models);
    h_say_body(&h, "r1", image);
    h_inbox(&h);
    h_commit(&h);
    h_reject(&h, 0, 1);
    h_commit(&h);
    assert_int_equal(h.model->tries, 2);
    h_fail(&h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_FALLBACK, "try", "2");
    assert_true(pw_str_is(h.model->model->name, "m2"));
    assert_int_equal(h.model->tries, 1);
    recover(&h);
    assert_int_equal(h.model->tries, 1);
    h_free(&h);
}

static void test_C9_a_part_left_out_stays_out_in_later_turns_and_lives(void **state)
{
    (void)state;
    harness h;
    begin_image(&h);
    h_reject(&h, 0, 1);
    h_commit(&h);
    recover(&h);
    expect_placeholder(&h, 0, 1, "[image left out: the provider rejected it]");
    h_text(&h, "ok");
    h_commit(&h);
    h_crash(&h, PW_CAUSE_NEW);
    h_say(&h, "r2", "and?");
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->count, 3);
    expect_placeholder(&h, 0, 1, "[image left out: the provider rejected it]");
    recover(&h);
    expect_placeholder(&h, 0, 1, "[image left out: the provider rejected it]");
    h_free(&h);
}

/* N4: nothing is carried along: a load that begins behind the message needs no word of it, one that
 * begins before it reads the overlay too, which stands behind the message. */
static void test_C9_an_overlay_of_a_message_before_the_window_is_no_matter(void **state)
{
    (void)state;
    harness h;
    h_new(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"context\":{"
              "\"messages\":2}}");
    h_say_body(&h, "r1", image);
    h_inbox(&h);
    h_commit(&h);
    h_say(&h, "r2", "two");
    h_inbox(&h);
    h_text(&h, "one");
    h_commit_all(&h);
    h_reject(&h, 0, 1); /* of the turn before, while it is in the window */
    h_commit(&h);
    expect_placeholder(&h, 0, 1, "[image left out: the provider rejected it]");
    h_say(&h, "r3", "three");
    h_inbox(&h);
    h_text(&h, "two");
    h_commit_all(&h);
    assert_true(pw_str_is(h.model->messages[0]->parts[0].text, "two"));
    recover(&h); /* its load begins in the turn that holds the overlay */
    assert_int_equal(h.model->count, 3);
    h_text(&h, "three");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_C9_calls_results_and_what_a_model_said_are_never_left_out(void **state)
{
    (void)state;
    static const struct {
        size_t message, part;
    } places[] = {{1, 0}, {1, 1}, {2, 0}, {0, 1}, {9, 0}, {SIZE_MAX, SIZE_MAX}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        harness h;
        begin(&h, h_agent);
        pw_part parts[2] = {{.kind = PW_PART_TEXT, .text = PW_STR("I will")},
                            h_call_part("a", "put", "{}")};
        h_calls(&h, parts, 2);
        h_commit(&h);
        h_tool(&h, "1");
        h_commit(&h);
        h_reject(&h, places[i].message, places[i].part);
        h_commit(&h);
        h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"model:invalid_request_error\"");
        assert_int_equal(h_count(&h, PW_RECORD_TRANSCRIPT_REPAIRED), 0);
        h_free(&h);
    }
}

static void test_C9_thinking_that_is_rejected_is_never_sent_again(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    pw_part parts[2] = {
        {.kind = PW_PART_THINKING, .text = PW_STR("hm"), .raw = PW_STR("{\"signature\":\"x\"}")},
        h_call_part("a", "put", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    h_reject(&h, 1, 0);
    h_commit(&h);
    assert_int_equal(h.model->messages[1]->parts[0].raw.len, 0);
    assert_true(pw_str_is(h.model->messages[1]->parts[1].name, "put"));
    h_reject(&h, 1, 0); /* it is out already: the complaint is of something else */
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_free(&h);
}

static void test_C9_eight_parts_of_one_step_then_it_fails(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    char body[1200] = "{\"role\":\"user\",\"source\":\"http\",\"content\":[{\"type\":\"text\","
                      "\"text\":\"look\"}";
    for (int i = 0; i < 10; i++) {
        strcat(body, ",{\"type\":\"image\",\"source\":{\"data\":\"eA==\"}}");
    }
    strcat(body, "]}");
    h_say_body(&h, "r1", body);
    h_inbox(&h);
    h_commit(&h);
    for (size_t i = 1; i <= 8; i++) {
        h_reject(&h, 0, i);
        h_commit(&h);
        if (i == 4) {
            recover(&h); /* and the count survives a crash */
        }
    }
    h_reject(&h, 0, 9);
    h_commit(&h);
    assert_int_equal(h_count(&h, PW_RECORD_TRANSCRIPT_REPAIRED), 8);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"model\"");
    h_free(&h);
}

static void test_C9_the_deadline_ends_a_loop_of_rejections(void **state)
{
    (void)state;
    harness h;
    begin_image(&h);
    h_reject(&h, 0, 1);
    h.now += (int64_t)31 * 60 * 1000;
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"deadline\"");
    h_free(&h);
}

/* --- A reply that can be resumed --- */

static void test_G6_an_accepted_reply_is_recorded_and_nothing_waits_for_it(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    assert_int_equal(h.model->resume.len, 0);
    h_accept(&h, "resp_1");
    assert_int_equal(h.append->record_count, 1);
    assert_false(h.append->receipt);
    assert_false(h.append->head.set);
    h_delta(&h, "We");
    assert_int_equal(h.told_bytes, 2);
    h_commit(&h);
    h_expect(&h, PW_RECORD_MODEL_ACCEPTED, "response_id", "\"resp_1\"");
    h_expect(&h, PW_RECORD_MODEL_ACCEPTED, "model", "\"m1\"");
    h_accept(&h, "resp_1"); /* once */
    assert_null(h.append);
    h_delta(&h, "ll");
    assert_int_equal(h.told_bytes, 4); /* M2: the text goes on behind the record */
    h_text(&h, "Well");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"Well\"");
    h_free(&h);
}

static void test_G6_a_recovery_resumes_and_counts_no_lost_call(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_commit(&h);
    recover(&h);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", "0");
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "resumed", "true");
    assert_true(pw_str_is(h.model->resume, "resp_1"));
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    assert_int_equal(h.model->resume.len, 0); /* of another step */
    h_text(&h, "ok");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.lost_calls", "0");
    h_free(&h);
}

static void test_G6_an_id_that_was_not_recorded_is_not_known_to_a_recovery(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    recover(&h);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", "1");
    assert_int_equal(h.model->resume.len, 0);
    h_free(&h);
}

static void test_C5_a_resumed_stream_begins_anew_where_text_was_shown(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_delta(&h, "Hal");
    h_commit(&h);
    h_fail(&h, PW_FAILURE_RETRY, "cut_off", 0);
    h_commit(&h);
    assert_int_equal(h_count(&h, PW_RECORD_MODEL_DISCARDED), 1); /* message.restarted */
    h_expect(&h, PW_RECORD_MODEL_RETRYING, "resumable", "true");
    h_time(&h, h.wake);
    assert_true(pw_str_is(h.model->resume, "resp_1"));
    h_delta(&h, "Half");
    assert_int_equal(h.told_bytes, 4);
    h_free(&h);
}

static void test_F5_only_a_broken_connection_is_resumed(void **state)
{
    (void)state;
    static const struct {
        pw_failure_class failure_class;
        const char *code;
        bool resumes;
    } rows[] = {{PW_FAILURE_RETRY, "cut_off", true},         {PW_FAILURE_RETRY, "stalled", true},
                {PW_FAILURE_RETRY, "connect", true},         {PW_FAILURE_RETRY, "http_500", false},
                {PW_FAILURE_RETRY, "response_gone", false},  {PW_FAILURE_NEXT, "server", false},
                {PW_FAILURE_WAIT, "rate_limit_error", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        harness h;
        begin(&h, h_agent_models);
        h_accept(&h, "resp_1");
        h_commit(&h);
        recover(&h);
        h_fail(&h, rows[i].failure_class, rows[i].code, h.now + 2000);
        h_commit(&h);
        if (!h.model) {
            h_time(&h, h.wake);
        }
        assert_int_equal(h.model->resume.len, rows[i].resumes ? 6 : 0);
        h_text(&h, "ok");
        h_commit(&h);
        /* G6: the call that died with its process is lost when it is not gone on with. */
        h_expect(&h, PW_RECORD_TURN_ENDED, "usage.lost_calls", rows[i].resumes ? "0" : "1");
        h_free(&h);
    }
}

/* A provider that is busy when asked for the reply by its id works on all the same: what it makes
 * is paid for once. */
static void test_G6_a_refused_look_for_the_reply_is_repeated(void **state)
{
    (void)state;
    static const struct {
        pw_failure_class failure_class;
        int64_t after_ms;
    } rows[] = {{PW_FAILURE_RETRY, 0}, {PW_FAILURE_WAIT, 3000}, {PW_FAILURE_WAIT, 60000}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        harness h;
        begin(&h, h_agent_models);
        h_accept(&h, "resp_1");
        h_commit(&h);
        recover(&h);
        const pw_failure failure = {
            .failure_class = rows[i].failure_class,
            .code = PW_STR_INIT("http_503"),
            .message = PW_STR_INIT("busy"),
            .until_ms = rows[i].after_ms > 0 ? h.now + rows[i].after_ms : 0,
            .usage = PW_USAGE_UNKNOWN,
            .still_works = true,
        };
        h_step(&h, &(pw_input){.kind = PW_IN_MODEL_FAILED, .failed = {h.model_call, &failure}});
        h_commit(&h);
        const bool long_wait = rows[i].after_ms > 5000;
        h_expect(&h, long_wait ? PW_RECORD_WAIT_SET : PW_RECORD_MODEL_RETRYING, "resumable",
                 "true");
        if (long_wait) {
            h.now += rows[i].after_ms + 2000;
            h_crash(&h, PW_CAUSE_RESUME);
            h_inbox(&h);
            h_commit_all(&h);
        } else {
            h_time(&h, h.wake);
        }
        assert_true(pw_str_is(h.model->resume, "resp_1"));
        h_text(&h, "ok");
        h_commit(&h);
        h_expect(&h, PW_RECORD_TURN_ENDED, "usage.lost_calls", "0");
        h_free(&h);
    }
}

static void test_G6_a_reply_that_can_not_be_resumed_at_the_last_is_lost(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_commit(&h);
    recover(&h);
    h_fail(&h, PW_FAILURE_FINAL, "response_gone", 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.lost_calls", "1");
    h_free(&h);
}

static void test_J4_an_id_whose_append_is_unknown_is_recorded_by_the_next_life(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    const pw_alive_call alive = {
        .call = h.model_call, .step = PW_STR("model:2"), .response_id = PW_STR("resp_1")};
    h_not(&h, PW_UNKNOWN);
    assert_true(h.rested);
    pw_session_free(h.s);
    h.append = NULL;
    h.rested = false;
    h.epoch++;
    pw_session_options options = {h.allocator, PW_STR("uid-1")};
    assert_int_equal(pw_session_new(&options, &h.s), PW_OK);
    h_load(&h);
    h_open(&h, PW_CAUSE_RELOAD, &alive, 1);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h_count(&h, PW_RECORD_MODEL_ACCEPTED), 1);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", "0");
    assert_int_equal(h.model_count, 1); /* the call goes on */
    h_free(&h);
}

static void test_I6_a_drain_leaves_the_reply_to_be_resumed(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_drain(&h);
    assert_int_equal(h.abort_count, 0); /* its id is made durable first */
    h_commit(&h);
    assert_int_equal(h.abort_count, 1);
    assert_false(h.for_good);
    assert_true(h.rested);
    h_crash(&h, PW_CAUSE_DRAINED);
    h_inbox(&h);
    h_commit(&h);
    assert_true(pw_str_is(h.model->resume, "resp_1"));
    h_free(&h);
}

static void test_I1_a_cancel_stops_the_reply_for_good(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_commit(&h);
    h_delta(&h, "Hal");
    h_cancel(&h, "{\"reason\":\"user\"}");
    h_inbox(&h);
    assert_int_equal(h.abort_count, 1);
    assert_true(h.for_good);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"Hal\"");
    h_free(&h);
}

static void test_J1_a_fenced_owner_leaves_the_reply_to_the_next(void **state)
{
    (void)state;
    harness h;
    begin(&h, h_agent);
    h_accept(&h, "resp_1");
    h_not(&h, PW_FENCED);
    assert_int_equal(h.abort_count, 1);
    assert_false(h.for_good);
    h_free(&h);
}

static void test_A8_an_id_that_cannot_be_kept_is_not(void **state)
{
    (void)state;
    char many[600];
    memset(many, 'x', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    const char *const ids[] = {"", "a\xFF", many};
    for (size_t i = 0; i < 3; i++) {
        harness h;
        begin(&h, h_agent);
        h_accept(&h, ids[i]);
        assert_null(h.append);
        h_free(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F6_fallback_goes_on_with_the_same_transcript),
        cmocka_unit_test(test_case_B1_a_fallback_inside_a_turn_makes_no_second_reply),
        cmocka_unit_test(test_F6_tries_begin_anew_and_only_when_they_are_used_up),
        cmocka_unit_test(test_F6_across_families_only_before_the_first_receipt),
        cmocka_unit_test(test_F6_a_fallback_that_is_not_taken_is_said),
        cmocka_unit_test(test_F6_what_another_model_would_hear_too_is_not_taken_there),
        cmocka_unit_test(
            test_F6_a_recovery_goes_on_with_the_chosen_model_and_the_next_turn_with_the_first),
        cmocka_unit_test(test_F6_usage_of_the_model_that_failed_counts),
        cmocka_unit_test(test_F6_cancel_and_deadline_hold_between_models),
        cmocka_unit_test(test_F6_a_record_that_names_no_model_of_the_agent_is_corrupt),
        cmocka_unit_test(test_C9_a_rejected_part_is_left_out_and_asked_again),
        cmocka_unit_test(test_F6_C9_tries_begin_anew_with_a_fallback_after_a_part_was_left_out),
        cmocka_unit_test(test_C9_a_part_left_out_stays_out_in_later_turns_and_lives),
        cmocka_unit_test(test_C9_an_overlay_of_a_message_before_the_window_is_no_matter),
        cmocka_unit_test(test_C9_calls_results_and_what_a_model_said_are_never_left_out),
        cmocka_unit_test(test_C9_thinking_that_is_rejected_is_never_sent_again),
        cmocka_unit_test(test_C9_eight_parts_of_one_step_then_it_fails),
        cmocka_unit_test(test_C9_the_deadline_ends_a_loop_of_rejections),
        cmocka_unit_test(test_G6_an_accepted_reply_is_recorded_and_nothing_waits_for_it),
        cmocka_unit_test(test_G6_a_recovery_resumes_and_counts_no_lost_call),
        cmocka_unit_test(test_G6_an_id_that_was_not_recorded_is_not_known_to_a_recovery),
        cmocka_unit_test(test_C5_a_resumed_stream_begins_anew_where_text_was_shown),
        cmocka_unit_test(test_F5_only_a_broken_connection_is_resumed),
        cmocka_unit_test(test_G6_a_refused_look_for_the_reply_is_repeated),
        cmocka_unit_test(test_G6_a_reply_that_can_not_be_resumed_at_the_last_is_lost),
        cmocka_unit_test(test_J4_an_id_whose_append_is_unknown_is_recorded_by_the_next_life),
        cmocka_unit_test(test_I6_a_drain_leaves_the_reply_to_be_resumed),
        cmocka_unit_test(test_I1_a_cancel_stops_the_reply_for_good),
        cmocka_unit_test(test_J1_a_fenced_owner_leaves_the_reply_to_the_next),
        cmocka_unit_test(test_A8_an_id_that_cannot_be_kept_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
