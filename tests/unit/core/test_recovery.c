/* Crashes at every boundary, attempts, poison, alive calls, the store's answers (C3, C4, C12, D4,
 * G6, J1, J4, J5). */
#include "driver.h"

static void begin(harness *h)
{
    h_new(h, h_agent);
    h_say(h, "r1", "hello");
    h_inbox(h);
    h_commit(h);
}

/* --- A whole story, with a crash before or after each thing that happens. --- */

typedef struct story {
    harness h;
    uint64_t event, crash_at; /* the crash comes at this event */
    bool crash_after; /* after the thing was done, before it is told; else before it is done */
    pw_cause cause;
    size_t runs[4]; /* how often each tool did its effect */
    char keys[4][65];
    size_t committed_buys;
    size_t asked;
} story;

static bool crash_here(story *t, bool after)
{
    return t->event == t->crash_at && after == t->crash_after;
}

static void crash(story *t)
{
    t->crash_at = 0;
    h_crash(&t->h, t->cause);
    h_inbox(&t->h);
}

static size_t tool_index(pw_str name)
{
    static const char *const names[] = {"read", "put", "send", "buy"};
    for (size_t i = 0; i < 4; i++) {
        if (pw_str_is(name, names[i])) {
            return i;
        }
    }
    fail();
    return 0;
}

static void run_tool(story *t)
{
    const size_t i = tool_index(t->h.tool->name);
    if (t->runs[i] > 0) {
        assert_memory_equal(t->keys[i], t->h.tool->key.ptr, 64); /* D1 */
    }
    memcpy(t->keys[i], t->h.tool->key.ptr, 64);
    t->runs[i]++;
    if (crash_here(t, true)) {
        crash(t);
        return;
    }
    h_tool(&t->h, "{\"ok\":true}");
}

static void answer_model(story *t)
{
    t->asked++;
    if (crash_here(t, true)) {
        crash(t);
        return;
    }
    if (pw_str_is(t->h.model->step, "model:2")) {
        pw_part parts[5] = {{.kind = PW_PART_TEXT, .text = PW_STR("working")},
                            h_call_part("a", "read", "{\"path\":\"x\"}"),
                            h_call_part("b", "put", "{}"),
                            h_call_part("c", "send", "{}"),
                            h_call_part("d", "buy", "{}")};
        h_calls(&t->h, parts, 5);
    } else {
        assert_true(pw_str_is(t->h.model->step, "model:7"));
        h_text(&t->h, "all done");
    }
}

static void run_story(story *t)
{
    harness *h = &t->h;
    h_new(h, h_agent);
    h_say(h, "r1", "go");
    h_inbox(h);
    while (!h->rested) {
        t->event++;
        if (crash_here(t, false)) {
            crash(t);
        } else if (h->append) {
            if (crash_here(t, true)) {
                const pw_append *a = h->append; /* committed, and the answer never comes */
                for (size_t i = 0; i < a->record_count; i++) {
                    pw_record *r = &h->records[h->record_count++];
                    *r = a->records[i];
                    assert_int_equal(pw_arena_dup(&h->arena, r->turn, &r->turn), PW_OK);
                    assert_int_equal(pw_arena_dup(&h->arena, r->step, &r->step), PW_OK);
                    assert_int_equal(pw_arena_dup(&h->arena, r->body, &r->body), PW_OK);
                }
                for (size_t i = 0; i < a->consumed_count; i++) {
                    h->rows[a->consumed[i].n - 1].disposition = a->consumed[i].disposition;
                }
                crash(t);
            } else {
                h_commit(h);
            }
        } else if (h->transact) {
            t->runs[3]++;
            if (crash_here(t, true)) {
                t->runs[3]--; /* rolled back with the process */
                crash(t);
            } else {
                h_commit_transact(h, "{\"id\":1}");
            }
        } else if (h->tool) {
            run_tool(t);
        } else if (h->model) {
            answer_model(t);
        } else {
            fail_msg("nothing happens at event %llu", (unsigned long long)t->event);
        }
        assert_true(t->event < 200);
    }
}

static void judge_story(story *t)
{
    harness *h = &t->h;
    if (h_count(h, PW_RECORD_TURN_OPENED) == 0) {
        fail_msg("crash at %llu: no turn", (unsigned long long)t->event);
    }
    h_expect(h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    assert_int_equal(h_count(h, PW_RECORD_TURN_OPENED),
                     1); /* C3: the opening is not appended twice */
    assert_int_equal(h_count(h, PW_RECORD_TURN_ENDED), 1);
    assert_int_equal(h_count(h, PW_RECORD_MODEL_COMPLETED),
                     2); /* C1: a step with a receipt is not run again */
    assert_int_equal(h_count(h, PW_RECORD_TOOL_COMPLETED), 4);
    assert_true(t->runs[0] >= 1 && t->runs[0] <= 2);
    assert_true(t->runs[1] >= 1 && t->runs[1] <= 2);
    assert_true(t->runs[2] <= 1);    /* at most once */
    assert_int_equal(t->runs[3], 1); /* exactly once */
    assert_true(t->asked >= 2 && t->asked <= 3);
    for (size_t i = 0; i < h->record_count; i++) {
        if (pw_str_is(h->records[i].step, "tool:2:c") &&
            h->records[i].kind == PW_RECORD_TOOL_COMPLETED) {
            const bool unknown = pw_str_is(h_field(h, &h->records[i], "outcome"), "\"unknown\"");
            assert_true(unknown || t->runs[2] == 1);
        }
    }
}

static void test_C3_a_crash_at_every_boundary_keeps_every_guarantee(void **state)
{
    (void)state;
    story whole = {0};
    run_story(&whole);
    judge_story(&whole);
    assert_int_equal(whole.asked, 2);
    const uint64_t events = whole.event;
    h_free(&whole.h);
    static const pw_cause causes[] = {PW_CAUSE_RECOVERY, PW_CAUSE_TAKEN, PW_CAUSE_RELOAD};
    for (uint64_t at = 1; at <= events; at++) {
        for (int after = 0; after < 2; after++) {
            for (size_t c = 0; c < 3; c++) {
                story *t = calloc(1, sizeof(*t));
                t->crash_at = at;
                t->crash_after = after;
                t->cause = causes[c];
                run_story(t);
                judge_story(t);
                h_free(&t->h);
                free(t);
            }
        }
    }
}

static void test_fold_of_every_prefix_of_a_journal_is_sound(void **state)
{
    (void)state;
    story whole = {0};
    run_story(&whole);
    for (size_t count = 0; count <= whole.h.record_count; count++) {
        pw_session *s;
        pw_session_options options = {&pw_heap, PW_STR("uid-1")};
        assert_int_equal(pw_session_new(&options, &s), PW_OK);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(pw_session_fold(s, &whole.h.records[i], NULL), PW_OK);
        }
        free(h_durable(&whole.h, s));
        pw_session_free(s);
    }
    h_free(&whole.h);
}

/* --- Attempts (C4)
 * --------------------------------------------------------------------------------------------------
 */

static void test_C4_a_recovery_is_a_new_attempt_and_counts_a_lost_call(void **state)
{
    (void)state;
    static const struct {
        pw_cause cause;
        const char *name, *lost;
    } causes[] = {{PW_CAUSE_RECOVERY, "\"recovery\"", "1"},
                  {PW_CAUSE_DRAINED, "\"drained\"", "1"},
                  {PW_CAUSE_TAKEN, "\"taken\"", "1"},
                  {PW_CAUSE_RELOAD, "\"reload\"", "1"},
                  {PW_CAUSE_RESUME, "\"resume\"", "0"}};
    for (size_t i = 0; i < 5; i++) {
        harness h;
        begin(&h);
        h_crash(&h, causes[i].cause);
        assert_null(h.append); /* nothing before the inbox */
        h_inbox(&h);
        assert_int_equal(h.append->record_count, 1);
        assert_false(h.append->receipt);
        assert_true(h.append->head.set && h.append->head.state == PW_TURN_RUNNING);
        h_commit(&h);
        h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "cause", causes[i].name);
        h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", causes[i].lost);
        h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "attempt", "2");
        assert_int_equal(h.model->attempt, 2);
        h_text(&h, "done");
        assert_true(h.append->receipt);
        h_commit(&h);
        h_expect(&h, PW_RECORD_TURN_ENDED, "usage.lost_calls", causes[i].lost);
        h_expect(&h, PW_RECORD_TURN_ENDED, "attempts", "2");
        h_free(&h);
    }
}

static void test_C4_runs_have_ids_of_their_own(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    const pw_str first = h_field(&h, h_last(&h, PW_RECORD_TURN_OPENED), "run");
    h.now += 1;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    const pw_str second = h_field(&h, h_last(&h, PW_RECORD_ATTEMPT_STARTED), "run");
    assert_int_equal(first.len, 38);
    assert_int_equal(second.len, 38);
    assert_false(pw_str_equal(first, second));
    h_free(&h);
}

static void test_C4_poison_seals_the_turn_and_keeps_its_work(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_part parts[4] = {h_call_part("a", "put", "{}"), h_call_part("b", "send", "{}"),
                        h_call_part("c", "put", "{\"c\":1}"), h_call_part("d", "buy", "{}")};
    h_calls(&h, parts, 4);
    h_commit(&h);
    h_tool(&h, "1");
    h_commit(&h);
    h.crashes = 4;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_say(&h, "r2", "next");
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"failed\"");
    h_expect(&h, PW_RECORD_TURN_ENDED, "reason", "\"poison\"");
    assert_int_equal(h_count(&h, PW_RECORD_ATTEMPT_STARTED), 0);
    assert_true(pw_str_is(h_field(&h, &h.records[h.record_count - 4], "outcome"), "\"unknown\""));
    assert_true(pw_str_is(h_field(&h, &h.records[h.record_count - 3], "outcome"), "\"cancelled\""));
    h_commit(&h); /* the session is unblocked: the next turn sees a valid transcript */
    assert_int_equal(h.model->count, 7);
    h_free(&h);
}

static void test_C4_a_cancel_comes_before_poison(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_cancel(&h, "{\"reason\":\"user\"}");
    h.crashes = 7;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"cancelled\"");
    h_free(&h);
}

static void test_J5_an_open_turn_resumes_before_anything_new(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_say(&h, "r2", "next");
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    assert_int_equal(h.append->records[0].kind, PW_RECORD_ATTEMPT_STARTED);
    h_commit(&h);
    h_text(&h, "first");
    h_commit(&h);
    assert_int_equal(h.append->records[0].kind, PW_RECORD_TURN_OPENED);
    h_free(&h);
}

static void test_C11_a_resume_uses_the_pinned_definition(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    const pw_definition *pinned = h.today;
    h.today =
        h_definition(&h, "{\"name\":\"ops\",\"model\":{\"provider\":\"x\",\"name\":\"other\"}}");
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_ptr_equal(h.model->definition, pinned);
    h_text(&h, "done");
    h_say(&h, "r2", "again");
    h_inbox(&h);
    h_commit(&h);
    h_crash(&h, PW_CAUSE_NEW);
    h_inbox(&h);
    h_commit(&h);
    assert_ptr_equal(h.model->definition, h.today);
    h_free(&h);
}

static void test_C11_an_agent_that_is_gone_can_still_be_talked_to_the_end(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h.today = NULL;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    h_call(&h, "put", "{}");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"malformed\"");
    h_text(&h, "well");
    h_commit(&h);
    assert_true(h.rested);
    h_free(&h);
}

static void test_an_open_turn_without_its_definition_is_corrupt(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    pw_session *s;
    pw_session_options options = {&pw_heap, PW_STR("uid-1")};
    pw_effects effects;
    assert_int_equal(pw_session_new(&options, &s), PW_OK);
    assert_int_equal(pw_session_fold(s, &h.records[0], NULL), PW_OK);
    const pw_input input = {.kind = PW_IN_OPENED,
                            .opened = {.epoch = 2, .cause = PW_CAUSE_RECOVERY}};
    assert_int_equal(pw_session_step(s, &input, &effects), PW_CORRUPT);
    pw_session_free(s);
    h_free(&h);
}

/* --- Alive calls (C12)
 * ------------------------------------------------------------------------------------------------
 */

static void reload_alive(harness *h, const char *step, uint64_t call)
{
    const pw_alive_call alive = {.call = call, .step = pw_str_from(step)};
    pw_session_free(h->s);
    h->append = NULL;
    h->epoch++;
    pw_session_options options = {h->allocator, PW_STR("uid-1")};
    assert_int_equal(pw_session_new(&options, &h->s), PW_OK);
    h_load(h);
    h_open(h, PW_CAUSE_RELOAD, &alive, 1);
    h_inbox(h);
}

static void test_C12_an_alive_tool_is_waited_for_not_run_again(void **state)
{
    (void)state;
    static const char *const tools[] = {"put", "send"};
    for (size_t i = 0; i < 2; i++) {
        harness h;
        begin(&h);
        h_call(&h, tools[i], "{}");
        h_commit(&h);
        reload_alive(&h, "tool:2:toolu_1", h.tool_call);
        h_commit(&h);
        assert_int_equal(h.tool_count, 1);
        h_tool(&h, "\"yes\"");
        h_commit(&h);
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"done\"");
        h_expect(&h, PW_RECORD_TOOL_COMPLETED, "executions", "1");
        assert_int_equal(h.model_count, 2);
        h_free(&h);
    }
}

static void test_C12_an_alive_model_call_is_waited_for_and_not_lost(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    reload_alive(&h, "model:2", h.model_call);
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h_expect(&h, PW_RECORD_ATTEMPT_STARTED, "lost", "0");
    h_text(&h, "done");
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_D8_an_alive_call_that_is_settled_is_evidence(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t call = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    reload_alive(&h, "tool:2:toolu_1", call);
    h_commit(&h);
    h_tool_outcome(&h, call,
                   &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("\"sent\"")});
    h_commit(&h);
    h_expect(&h, PW_RECORD_TOOL_LATE, "result", "\"sent\"");
    h_free(&h);
}

/* --- What the store says (J1, J4) --- */

static void test_J4_not_committed_is_given_again_with_growing_pauses(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_text(&h, "done");
    static const int64_t pauses[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (size_t i = 0; i < 8; i++) {
        const pw_append *a = h.append;
        const uint64_t ticket = a->ticket;
        const pw_str body = a->records[0].body;
        h_not(&h, PW_NOT_COMMITTED);
        assert_null(h.append);
        assert_int_equal(h.wake, h.now + pauses[i]);
        assert_true(pw_str_is(h_look(&h).reason, "store"));
        assert_int_equal(h_look(&h).state, PW_TURN_WAITING);
        h_time(&h, h.wake - 1);
        assert_null(h.append);
        h_time(&h, h.wake);
        assert_non_null(h.append);
        assert_int_not_equal(h.append->ticket, ticket);
        assert_true(pw_str_equal(h.append->records[0].body, body));
        /* The first answer again, late: it is over. */
        h_step(&h, &(pw_input){.kind = PW_IN_APPENDED, .appended = {ticket, PW_STR_NONE}});
        assert_true(h_look(&h).append_in_flight);
    }
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    h_free(&h);
}

static void test_J1_a_fenced_owner_aborts_and_rests(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t late = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_tool_outcome(&h, late, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    const uint64_t call = h.model_call;
    h_not(&h, PW_FENCED);
    assert_int_equal(h.aborts[0], call);
    assert_true(h.rested && h.released);
    h_step(&h, &(pw_input){.kind = PW_IN_INBOX}); /* nothing more, whatever comes */
    h_time(&h, h.now + 1000000);
    h_free(&h);
}

static void test_J4_unknown_rests_without_aborting(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t late = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_tool_outcome(&h, late, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    h_not(&h, PW_UNKNOWN);
    assert_int_equal(h.abort_count, 0);
    assert_true(h.rested && !h.released);
    h_free(&h);
}

static void test_one_append_in_flight_and_what_ends_meanwhile_goes_into_the_next(void **state)
{
    (void)state;
    harness h;
    begin(&h);
    h_call(&h, "send", "{}");
    h_commit(&h);
    const uint64_t late = h.tool_call;
    h_tool_abandoned(&h, true);
    h_commit(&h);
    h_tool_outcome(&h, late, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("1")});
    const uint64_t ticket = h.append->ticket;
    h_text(&h, "done");
    assert_int_equal(h.append->ticket, ticket);
    h_commit(&h);
    assert_int_equal(h.append->record_count, 2);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_ENDED, "text", "\"done\"");
    h_free(&h);
}

/* --- What a store may hand us --- */

static pw_status fold_one(pw_session *s, uint64_t seq, pw_record_kind kind, const char *body)
{
    pw_error error = {0};
    const pw_record record = {
        .seq = seq, .kind = kind, .turn = PW_STR("t"), .body = pw_str_from(body)};
    const pw_status status = pw_session_fold(s, &record, &error);
    assert_true(status == PW_OK || error.message[0]);
    return status;
}

static void test_J8_what_does_not_parse_is_corrupt_and_newer_is_said(void **state)
{
    (void)state;
    pw_session *s;
    pw_session_options options = {&pw_heap, PW_STR("uid-1")};
    static const char opened[] =
        "{\"v\":1,\"turn\":\"t\",\"run\":\"r\",\"agent\":\"a\",\"definition\":\"d\",\"n\":1,"
        "\"requests\":[{\"id\":\"r1\",\"n\":1,\"at\":0,\"role\":\"user\",\"source\":\"http\","
        "\"content\":[]}],"
        "\"first_seq\":1,\"future\":{\"x\":1}}";
    assert_int_equal(pw_session_new(&options, &s), PW_OK);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_ENDED, "{\"v\":1}"),
                     PW_CORRUPT); /* begins in the middle */
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, "{\"v\":1}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, "{\"v\":"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, "[]"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, "{}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 1, (pw_record_kind)99, "{\"v\":1}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, "{\"v\":2}"), PW_NEWER_SCHEMA);
    assert_int_equal(fold_one(s, 1, PW_RECORD_TURN_OPENED, opened), PW_OK);
    assert_int_equal(fold_one(s, 1, PW_RECORD_ATTEMPT_STARTED, "{\"v\":1,\"attempt\":2}"),
                     PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_TURN_OPENED, opened), PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_ATTEMPT_STARTED, "{\"v\":1}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_MODEL_COMPLETED, "{\"v\":1,\"n\":2}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_MODEL_COMPLETED,
                              "{\"v\":1,\"n\":2,\"parts\":[{\"type\":\"odd\"}]}"),
                     PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_MODEL_COMPLETED,
                              "{\"v\":1,\"n\":2,\"parts\":[{\"type\":\"tool_call\"}]}"),
                     PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_TOOL_STARTED, "{\"v\":1}"), PW_CORRUPT);
    assert_int_equal(fold_one(s, 2, PW_RECORD_TOOL_COMPLETED, "{\"v\":1}"), PW_CORRUPT);
    assert_int_equal(
        fold_one(s, 2, PW_RECORD_ATTEMPT_STARTED, "{\"v\":1,\"attempt\":2,\"later\":[]}"), PW_OK);
    pw_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C3_a_crash_at_every_boundary_keeps_every_guarantee),
        cmocka_unit_test(test_fold_of_every_prefix_of_a_journal_is_sound),
        cmocka_unit_test(test_C4_a_recovery_is_a_new_attempt_and_counts_a_lost_call),
        cmocka_unit_test(test_C4_runs_have_ids_of_their_own),
        cmocka_unit_test(test_C4_poison_seals_the_turn_and_keeps_its_work),
        cmocka_unit_test(test_C4_a_cancel_comes_before_poison),
        cmocka_unit_test(test_J5_an_open_turn_resumes_before_anything_new),
        cmocka_unit_test(test_C11_a_resume_uses_the_pinned_definition),
        cmocka_unit_test(test_C11_an_agent_that_is_gone_can_still_be_talked_to_the_end),
        cmocka_unit_test(test_an_open_turn_without_its_definition_is_corrupt),
        cmocka_unit_test(test_C12_an_alive_tool_is_waited_for_not_run_again),
        cmocka_unit_test(test_C12_an_alive_model_call_is_waited_for_and_not_lost),
        cmocka_unit_test(test_D8_an_alive_call_that_is_settled_is_evidence),
        cmocka_unit_test(test_J4_not_committed_is_given_again_with_growing_pauses),
        cmocka_unit_test(test_J1_a_fenced_owner_aborts_and_rests),
        cmocka_unit_test(test_J4_unknown_rests_without_aborting),
        cmocka_unit_test(test_one_append_in_flight_and_what_ends_meanwhile_goes_into_the_next),
        cmocka_unit_test(test_J8_what_does_not_parse_is_corrupt_and_newer_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
