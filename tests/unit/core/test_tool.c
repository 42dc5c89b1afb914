/* Tools: effects, limits, results, errors, protocol failures, repetition (C7, D1, D2, D4, D6, D7,
 * D8, F1-F4, F7). */
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

static void test_D1_key_is_the_same_on_every_attempt_and_of_no_name(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "put", "{}");
    h_commit(&h);
    pw_sha256 hash;
    pw_sha256_begin(&hash);
    pw_sha256_add_sized(&hash, PW_STR("uid-1"));
    pw_sha256_add_sized(&hash, h.tool->turn);
    pw_sha256_add_sized(&hash, PW_STR("tool:2:toolu_1"));
    const pw_hash key = pw_sha256_end(&hash);
    const pw_hash_hex hex = pw_hash_to_hex(&key);
    assert_true(pw_str_is(h.tool->key, hex.text));
    assert_int_equal(h.tool->attempt, 1);
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_true(pw_str_is(h.tool->key, hex.text));
    assert_int_equal(h.tool->attempt, 2);
    h_tool(&h, "1");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "2");
    h_free(&h);
}

static void test_D2_a_transactional_failure_is_an_ordinary_receipt(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    assert_non_null(h.transact);
    assert_int_equal(h.inside->limit_ms, 2000);
    h_tool_error(&h, "SqlError", "no such table");
    assert_non_null(h.append);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "result", "{\"error\":\"SqlError: no such table\"}");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "effects", "\"transactional\"");
    h_free(&h);
}

static void test_D2_over_its_limit_everything_is_undone_and_it_is_an_error(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"error\"");
    h_free(&h);
}

static void test_D2_not_committed_transaction_runs_again_after_a_pause(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    const uint64_t call = h.inside->call, ticket = h.transact->ticket;
    h_not(&h, PW_NOT_COMMITTED);
    assert_null(h.transact);
    assert_int_equal(h.wake, h.now + 100);
    h_time(&h, h.wake);
    assert_non_null(h.transact);
    assert_int_not_equal(h.inside->call, call);
    assert_int_not_equal(h.transact->ticket, ticket);
    assert_int_equal(h.inside->attempt, 2);
    h_commit_transact(&h, "7");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "2");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "result", "7");
    h_free(&h);
}

static void test_D2_a_result_by_the_wrong_door_is_ignored(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    const pw_input wrong = {
        .kind = PW_IN_TOOL_RESULT,
        .tool = {h.inside->call, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")}}};
    h_step(&h, &wrong);
    assert_null(h.append);
    h_commit_transact(&h, "2");
    assert_int_equal(h_count(&h, PW_RECORD_TOOL_COMPLETED), 1);
    h_free(&h);
}

static void test_D2_a_filled_receipt_that_is_broken_is_corrupt(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "buy", "{}");
    h_commit(&h);
    pw_effects effects;
    const pw_input bad = {.kind = PW_IN_APPENDED,
                          .appended = {h.transact->ticket, PW_STR("{\"v\":1}")}};
    char *before = h_durable(&h, h.s);
    assert_int_equal(pw_session_step(h.s, &bad, &effects), PW_CORRUPT);
    char *after = h_durable(&h, h.s);
    assert_string_equal(before, after);
    free(before);
    free(after);
    h_commit_transact(&h, "2");
    h_free(&h);
}

static void test_D4_intent_is_durable_before_a_once_call(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    assert_int_equal(h.append->record_count, 2);
    assert_int_equal(h.append->records[1].kind, PW_RECORD_TOOL_STARTED);
    assert_int_equal(h.tool_count, 0);
    h_commit(&h);
    assert_int_equal(h.tool_count, 1);
    h_expect(&h, PW_RECORD_TOOL_STARTED, "execution", "1");
    h_tool(&h, "1");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "1");
    h_free(&h);
}

static void test_D6_limits(void **state)
{
    (void)state;
    static const struct {
        const char *tool, *arguments, *outcome;
    } cases[] = {{"read", "{\"path\":\"x\"}", "\"error\""},
                 {"put", "{}", "\"error\""},
                 {"send", "{}", "\"unknown\""}};
    for (size_t i = 0; i < 3; i++) {
        harness h;
        begin(&h);
        h_call(&h, cases[i].tool, cases[i].arguments);
        h_commit(&h);
        assert_int_equal(h.tool->limit_ms, 60000);
        h_tool_abandoned(&h, true);
        h_commit(&h);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", cases[i].outcome);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "is_error", "true");
        assert_non_null(h.model);
        h_free(&h);
    }
}

static void test_D6_a_limit_never_passes_the_deadline(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"budget\":{"
                 "\"deadline_ms\":5000},"
                 "\"tools\":[{\"name\":\"put\",\"effects\":\"idempotent\"},{\"name\":\"send\"}]}");
    h.now += 2000;
    pw_part parts[2] = {h_call_part("a", "put", "{}"), h_call_part("b", "send", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    assert_int_equal(h.tool->limit_ms, 3000);
    h_tool(&h, "1");
    h_commit(&h);
    char at[32];
    snprintf(at, sizeof(at), "%lld", (long long)(h.now + 3000));
    h_expect(&h, PW_RECORD_TOOL_STARTED, "limit_at", at);
    h_free(&h);
}

static void test_D8_an_intent_whose_limit_passed_before_it_began_is_not_run(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h.now += 61000; /* the store was away that long */
    h_commit(&h);
    assert_int_equal(h.tool_count, 0);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"error\"");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "0");
    h_free(&h);
}

static void test_D7_a_long_result_is_cut_on_a_character_and_kept_whole(void **state)
{
    (void)state;
    harness h;
    begin_as(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"tools\":[{"
                 "\"name\":\"read\",\"effects\":\"none\",\"result_limit\":100},"
                 "{\"name\":\"buy\",\"effects\":\"transactional\",\"result_limit\":100}]}");
    char json[600] = "\"";
    for (int i = 0; i < 100; i++) {
        strcat(json, "\xF0\x9F\x98\x80");
    }
    strcat(json, "\"");
    pw_part parts[2] = {h_call_part("a", "read", "{}"), h_call_part("b", "buy", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_tool(&h, json);
    assert_int_equal(h.append->blob_count, 1);
    assert_true(pw_str_is(h.append->blobs[0].bytes, json));
    const pw_hash whole = pw_sha256_of(pw_str_from(json));
    assert_string_equal(h.append->blobs[0].hash.text, pw_hash_to_hex(&whole).text);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "truncated", "402");
    h_commit_transact(&h, json);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "truncated", "402");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "is_error", "false");
    for (size_t i = 2; i < 4; i++) {
        const pw_message *m = h.model->messages[i];
        assert_true(m->result.len <= 100);
        assert_true(pw_json_valid(m->result));
        assert_true(pw_str_begins(
            m->result, PW_STR("{\"truncated\":true,\"bytes\":402,\"text\":\"\xF0\x9F\x98\x80")));
        assert_true(pw_str_ends(m->result, PW_STR("\xF0\x9F\x98\x80\"}")));
    }
    h_free(&h);
}

static void test_F1_an_error_is_read_by_the_model_and_bounded(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    char *message = malloc(10001);
    for (int i = 0; i < 3333; i++) {
        memcpy(message + 3 * i, "\xE2\x82\xAC", 4);
    }
    pw_part parts[2] = {h_call_part("a", "put", "{}"), h_call_part("b", "put", "{\"b\":1}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_tool_error(&h, "IOError", "disk \"full\"");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "result", "{\"error\":\"IOError: disk \\\"full\\\"\"}");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "is_error", "true");
    h_tool_error(&h, "", message);
    h_commit(&h);
    const pw_str result = h.model->messages[3]->result;
    assert_int_equal(result.len, 2000 * 3 + strlen("{\"error\":\"\"}"));
    assert_true(h.model->messages[3]->is_error);
    free(message);
    h_free(&h);
}

static void test_F2_a_fatal_error_fails_the_turn_and_closes_what_is_owed(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[3] = {h_call_part("a", "put", "{}"), h_call_part("b", "send", "{}"),
                        h_call_part("c", "buy", "{}")};
    h_calls(&h, parts, 3);
    h_commit(&h);
    h_tool_fatal(&h, "no key configured");
    assert_int_equal(h.append->record_count, 4);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"tool_fatal\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"tool_fatal:put\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "detail", "\"no key configured\"");
    assert_int_equal(h_count(&h, PW_RECORD_TOOL_COMPLETED), 3);
    assert_int_equal(h.tool_count, 1);
    h_free(&h);
}

static void test_F3_every_malformed_call_is_answered_and_the_good_one_runs(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    char *garbage = malloc(1024 * 1024 + 1);
    memset(garbage, '\x01', 1024 * 1024);
    garbage[1024 * 1024] = 0;
    pw_part parts[7] = {h_call_part("a", "read", "{\"path\":"),
                        h_call_part("b", "read", "null"),
                        h_call_part("c", "read", "[1]"),
                        h_call_part("d", "nope", "{}"),
                        h_call_part("e", "read", garbage),
                        h_call_part("f", "read", "{\"path\":\"x\"}"),
                        h_call_part("g", "", "{}")};
    h_calls(&h, parts, 7);
    assert_int_equal(h.append->record_count, 6); /* all before the good one, in one append */
    h_commit(&h);
    assert_true(pw_str_is(h.tool->step, "tool:2:f"));
    h_tool(&h, "1");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    h_commit_all(&h);
    /* The sixth is over max_protocol_failures (5). */
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"protocol\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"protocol:unknown_tool\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.protocol_failures", "6");
    assert_int_equal(h.tool_count, 1);
    size_t malformed = 0;
    for (size_t i = 0; i < h.record_count; i++) {
        if (h.records[i].kind == PW_RECORD_TOOL_COMPLETED &&
            pw_str_is(h_field(&h, &h.records[i], "outcome"), "\"malformed\"")) {
            assert_true(h_field(&h, &h.records[i], "result").len <= 2048);
            malformed++;
        }
    }
    assert_int_equal(malformed, 6);
    free(garbage);
    h_free(&h);
}

static void test_F3_schema_violation_says_what_was_expected(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "read", "{\"path\":7}");
    h_commit(&h);
    const pw_str result = h_field(&h, h_last(&h, PW_RECORD_TOOL_COMPLETED), "result");
    assert_true(pw_str_find(result, PW_STR("/path")) != SIZE_MAX);
    assert_true(pw_str_find(result, PW_STR("Expected: ")) != SIZE_MAX);
    assert_int_equal(h.model_count, 2);
    h_free(&h);
}

static void test_F3_a_broken_call_is_never_sent_raw(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "read", "[1]");
    h_commit(&h);
    assert_true(h.model->messages[1]->parts[0].broken);
    assert_true(pw_str_is(h.model->messages[1]->parts[0].arguments, "[1]"));
    h_free(&h);
}

static void test_C7_a_tool_gone_today_is_a_protocol_failure(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h.today = h_definition(&h, "{\"name\":\"ops\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},"
                               "\"tools\":[{\"name\":\"put\",\"effects\":\"idempotent\"}]}");
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    pw_part parts[2] = {h_call_part("a", "read", "{\"path\":\"x\"}"),
                        h_call_part("b", "put", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    assert_true(pw_str_is(h.tool->name, "put"));
    h_free(&h);
}

static void test_C7_effects_are_the_stricter_of_start_and_today(void **state)
{
    (void)state;
    static const struct {
        const char *pinned, *today;
        pw_effects_class counts;
    } cases[] = {
        {"none", "once", PW_EFFECTS_ONCE},
        {"once", "none", PW_EFFECTS_ONCE},
        {"none", "idempotent", PW_EFFECTS_IDEMPOTENT},
        {"idempotent", "none", PW_EFFECTS_IDEMPOTENT},
        {"transactional", "none", PW_EFFECTS_TRANSACTIONAL},
        {"none", "transactional", PW_EFFECTS_NONE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        harness h;
        char text[512];
        static const char form[] = "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},"
                                   "\"tools\":[{\"name\":\"t\",\"effects\":\"%s\"}]}";
        snprintf(text, sizeof(text), form, cases[i].pinned);
        begin_as(&h, text);
        snprintf(text, sizeof(text), form, cases[i].today);
        h.today = h_definition(&h, text);
        h_crash(&h, PW_CAUSE_RECOVERY);
        h_inbox(&h);
        h_commit(&h);
        h_call(&h, "t", "{}");
        h_commit(&h);
        const pw_tool_call *call = h.inside ? h.inside : h.tool;
        assert_int_equal(call->effects, cases[i].counts);
        assert_int_equal(h.inside != NULL, cases[i].counts == PW_EFFECTS_TRANSACTIONAL);
        h_free(&h);
    }
}

static void test_C7_from_once_to_none_is_still_not_run_again(void **state)
{
    (void)state;
    harness h;
    static const char form[] = "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},"
                               "\"tools\":[{\"name\":\"t\",\"effects\":\"%s\"}]}";
    char text[512];
    for (int turned = 0; turned < 2; turned++) {
        /* Also the other way: begun as harmless, today it is not. */
        snprintf(text, sizeof(text), form, turned ? "none" : "once");
        begin_as(&h, text);
        h_call(&h, "t", "{}");
        h_commit(&h);
        assert_int_equal(h.tool_count, 1);
        snprintf(text, sizeof(text), form, turned ? "once" : "none");
        h.today = h_definition(&h, text);
        h_crash(&h, PW_CAUSE_RECOVERY);
        h_inbox(&h);
        h_commit_all(&h);
        if (turned) {
            /* The attempt that finds it does not know whether it ran. */
            h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"unknown\"");
        }
        assert_int_equal(h.tool_count, 1);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"unknown\"");
        h_free(&h);
    }
}

/* Gone today, but begun before the crash: its receipt may not say that it was not run (D4). */
static void test_C7_a_tool_gone_today_that_may_have_run_is_unknown(void **state)
{
    (void)state;
    static const struct {
        const char *effects, *outcome;
    } cases[] = {
        {"none", "\"malformed\""},
        {"idempotent", "\"unknown\""},
        {"once", "\"unknown\""},
        {"transactional", "\"malformed\""}, /* rolled back: it did not run */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        harness h;
        char text[512];
        snprintf(text, sizeof(text),
                 "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},"
                 "\"tools\":[{\"name\":\"t\",\"effects\":\"%s\"}]}",
                 cases[i].effects);
        begin_as(&h, text);
        h_call(&h, "t", "{}");
        h_commit_all(&h);
        assert_true(h.tool_count == 1 || h.transact);
        h.today =
            h_definition(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"}}");
        h_crash(&h, PW_CAUSE_RECOVERY);
        h_inbox(&h);
        h_commit_all(&h);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", cases[i].outcome);
        assert_int_equal(h.model_count, 2);
        h_free(&h);
    }
}

/* A name that the start did not know never ran, however often its process died. */
static void test_F3_a_tool_that_never_was_is_not_unknown_after_a_crash(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[2] = {h_call_part("a", "buy", "{}"), h_call_part("b", "nothing", "{}")};
    h_calls(&h, parts, 2);
    h_commit(&h);
    h_commit_transact(&h, "1");
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit_all(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    h_free(&h);
}

/* Drained between the intent and the call: it is known not to have run. */
static void test_I6_an_intent_that_a_drain_overtakes_is_not_unknown(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    assert_int_equal(h_count(&h, PW_RECORD_TOOL_STARTED), 0); /* under way */
    h_drain(&h);
    h_commit_all(&h);
    assert_int_equal(h.tool_count, 0);
    assert_true(h.rested);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"error\"");
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "0");
    h_crash(&h, PW_CAUSE_DRAINED);
    h_inbox(&h);
    h_commit_all(&h);
    assert_int_equal(h_count(&h, PW_RECORD_TOOL_COMPLETED), 1);
    assert_int_equal(h.model_count, 2);
    h_free(&h);
}

static void test_F4_third_is_not_run_and_fifth_fails(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    for (int i = 0; i < 2; i++) {
        h_call(&h, "put",
               i ? "{ \"b\":2,\"a\":1 }" : "{\"a\":1,\"b\":2}"); /* canonically the same */
        h_commit(&h);
        h_tool(&h, "\"pending\"");
        h_commit(&h);
    }
    for (int i = 0; i < 2; i++) {
        h_call(&h, "put", "{\"a\":1,\"b\":2}");
        h_commit(&h);
        assert_int_equal(h.tool_count, 2);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"repeated\"");
        h_crash(&h, PW_CAUSE_RECOVERY); /* the count is durable */
        h_inbox(&h);
        h_commit(&h);
    }
    h_call(&h, "put", "{\"a\":1,\"b\":2}");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"repetition\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "code", "\"repetition:put\"");
    h_free(&h);
}

static void test_F4_the_same_bad_call_is_told_at_3_and_fails_at_5(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    static const char *const outcomes[] = {"\"malformed\"", "\"malformed\"", "\"repeated\"",
                                           "\"repeated\""};
    for (int i = 0; i < 4; i++) {
        h_call(&h, "nope", "{\"x\":");
        h_commit(&h);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", outcomes[i]);
    }
    h_call(&h, "nope", "{\"x\":");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"repetition\"");
    h_free(&h);
}

static void test_F4_other_outcome_other_call_or_a_gap_begin_anew(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    static const char *const results[] = {"1", "1", "2", "2", "1", "1"};
    for (int i = 0; i < 6; i++) {
        if (i == 2 || i == 4) {
            h_call(&h, "put", "{\"other\":true}");
            h_commit(&h);
            h_tool(&h, i == 2 ? "5" : "6");
            h_commit(&h);
        }
        h_call(&h, "put", "{}");
        h_commit(&h);
        h_tool(&h, results[i]);
        h_commit(&h);
    }
    assert_int_equal(h.tool_count, 8);
    /* Different errors of the same call are the same outcome. */
    for (int i = 0; i < 2; i++) {
        h_call(&h, "put", "{\"e\":1}");
        h_commit(&h);
        h_tool_error(&h, "", i ? "this" : "that");
        h_commit(&h);
    }
    h_call(&h, "put", "{\"e\":1}");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"repeated\"");
    h_free(&h);
}

static void test_F4_several_in_one_message_count_once(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[3] = {h_call_part("a", "put", "{}"), h_call_part("b", "put", "{}"),
                        h_call_part("c", "put", "{}")};
    h_calls(&h, parts, 3);
    h_commit(&h);
    for (int i = 0; i < 3; i++) {
        h_tool(&h, "1");
        h_commit(&h);
    }
    h_call(&h, "put", "{}");
    h_commit(&h);
    assert_int_equal(h.tool_count, 4);
    h_free(&h);
}

static void test_D8_a_late_result_is_evidence_and_never_in_the_transcript(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t call = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"unknown\"");
    h_tool_outcome(&h, call,
                   &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("\"sent\"")});
    assert_int_equal(h.append->record_count, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_LATE, "result", "\"sent\"");
    h_expect(&h, PW_RECORD_TOOL_LATE, "name", "\"send\"");
    h_tool_outcome(&h, call,
                   &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("\"again\"")});
    assert_null(h.append); /* once is enough */
    assert_non_null(h.model);
    h_text(&h, "ok");
    h_commit(&h);
    h_free(&h);
}

static void test_F7_operations_are_listed_when_the_turn_fails(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[4] = {h_call_part("a", "put", "{}"), h_call_part("b", "read", "{\"path\":\"x\"}"),
                        h_call_part("c", "send", "{}"), h_call_part("d", "put", "{\"x\":1}")};
    h_calls(&h, parts, 4);
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_tool_error(&h, "", "no");
    h_commit(&h);
    h_fail(&h, PW_FAILURE_FINAL, "http_400", 0);
    h_commit(&h);
    h_expect(
        &h, PW_RECORD_TURN_ENDED, "operations",
        "[{\"step\":\"tool:2:a\",\"name\":\"put\",\"effects\":\"idempotent\",\"outcome\":\"done\"},"
        "{\"step\":\"tool:2:c\",\"name\":\"send\",\"effects\":\"once\",\"outcome\":\"unknown\"}]");
    h_expect(&h, PW_RECORD_TURN_ENDED, "usage.tool_calls", "4");
    h_free(&h);
}

static void test_D_results_that_are_not_json_are_kept_as_text(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    char deep[400] = "";
    for (int i = 0; i < 110; i++) {
        strcat(deep, "[");
    }
    for (int i = 0; i < 110; i++) {
        strcat(deep, "]");
    }
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_tool(&h, "not json \"x\"");
    h_commit(&h);
    assert_true(pw_str_is(h.model->messages[2]->result, "\"not json \\\"x\\\"\""));
    h_call(&h, "put", "{\"d\":1}");
    h_commit(&h);
    h_tool(&h, deep);
    h_commit(&h);
    assert_int_equal(h.model->messages[4]->result.ptr[0], '"');
    h_call(&h, "put", "{\"d\":2}");
    h_commit(&h);
    h_tool(&h, "");
    h_commit(&h);
    assert_true(pw_str_is(h.model->messages[6]->result, "\"\""));
    /* Arguments nested too deep to keep are malformed. */
    char arguments[500];
    snprintf(arguments, sizeof(arguments), "{\"x\":%s}", deep);
    h_call(&h, "put", arguments);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_D1_key_is_the_same_on_every_attempt_and_of_no_name),
        cmocka_unit_test(test_D2_a_transactional_failure_is_an_ordinary_receipt),
        cmocka_unit_test(test_D2_over_its_limit_everything_is_undone_and_it_is_an_error),
        cmocka_unit_test(test_D2_not_committed_transaction_runs_again_after_a_pause),
        cmocka_unit_test(test_D2_a_result_by_the_wrong_door_is_ignored),
        cmocka_unit_test(test_D2_a_filled_receipt_that_is_broken_is_corrupt),
        cmocka_unit_test(test_D4_intent_is_durable_before_a_once_call),
        cmocka_unit_test(test_D6_limits),
        cmocka_unit_test(test_D6_a_limit_never_passes_the_deadline),
        cmocka_unit_test(test_D8_an_intent_whose_limit_passed_before_it_began_is_not_run),
        cmocka_unit_test(test_D7_a_long_result_is_cut_on_a_character_and_kept_whole),
        cmocka_unit_test(test_F1_an_error_is_read_by_the_model_and_bounded),
        cmocka_unit_test(test_F2_a_fatal_error_fails_the_turn_and_closes_what_is_owed),
        cmocka_unit_test(test_F3_every_malformed_call_is_answered_and_the_good_one_runs),
        cmocka_unit_test(test_F3_schema_violation_says_what_was_expected),
        cmocka_unit_test(test_F3_a_broken_call_is_never_sent_raw),
        cmocka_unit_test(test_C7_a_tool_gone_today_is_a_protocol_failure),
        cmocka_unit_test(test_C7_effects_are_the_stricter_of_start_and_today),
        cmocka_unit_test(test_C7_from_once_to_none_is_still_not_run_again),
        cmocka_unit_test(test_C7_a_tool_gone_today_that_may_have_run_is_unknown),
        cmocka_unit_test(test_F3_a_tool_that_never_was_is_not_unknown_after_a_crash),
        cmocka_unit_test(test_I6_an_intent_that_a_drain_overtakes_is_not_unknown),
        cmocka_unit_test(test_F4_third_is_not_run_and_fifth_fails),
        cmocka_unit_test(test_F4_the_same_bad_call_is_told_at_3_and_fails_at_5),
        cmocka_unit_test(test_F4_other_outcome_other_call_or_a_gap_begin_anew),
        cmocka_unit_test(test_F4_several_in_one_message_count_once),
        cmocka_unit_test(test_D8_a_late_result_is_evidence_and_never_in_the_transcript),
        cmocka_unit_test(test_F7_operations_are_listed_when_the_turn_fails),
        cmocka_unit_test(test_D_results_that_are_not_json_are_kept_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
