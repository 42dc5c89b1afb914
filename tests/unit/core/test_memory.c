/* Memory and determinism: failing allocations at every point, the same inputs twice, cost per step
 * that stays flat. */
#include "driver.h"

/* A life with all that allocates: batch, calls of all effects, errors, retries, cancel, late
 * result, crash, repair, waits. */
static void first_turn(harness *h)
{
    h_say(h, "r1", "one");
    h_say_body(h, "r2",
               "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{\"type\":"
               "\"image\",\"url\":\"u\"},{\"type\":\"text\",\"text\":\"two\"}]}");
    h_inbox(h);
    h_commit(h);
    h_delta(h, "Let me ");
    h_delta(h, "see");
    h_fail(h, PW_FAILURE_RETRY, "cut_off", 0);
    h_commit(h);
    h_time(h, h->now + 60000);
    pw_part parts[6] = {
        {.kind = PW_PART_THINKING, .text = PW_STR("hm"), .raw = PW_STR("{\"sig\":1}")},
        h_call_part("a", "read", "{\"path\":\"\\ud83d\"}"),
        h_call_part("b", "read", "{\"path\":7}"),
        h_call_part("c", "put", "{}"),
        h_call_part("c", "send", "{\"to\":\"x\"}"),
        h_call_part("", "buy", "{\"n\":1.50}")};
    h_calls(h, parts, 6);
    h_commit(h);
    h_tool(h, "{\"long\":"
              "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
              "aaaaa\"}");
    h_commit(h);
    h_tool_error(h, "Odd", "it \xFF broke");
    h_commit(h);
    h_tool(h, "not json");
    h_commit(h);
    h_not(h, PW_NOT_COMMITTED);
    h_time(h, h->now + 100);
    h_commit_transact(h, "{\"id\":7}");
    h_text(h, "done");
    h_say(h, "r3", "three");
    h_inbox(h);
    h_not(h, PW_NOT_COMMITTED);
    h_time(h, h->now + 100);
    h_commit(h);
}

static void second_turn(harness *h)
{
    if (h->rested) {
        h_crash(h, PW_CAUSE_NEW);
        h_inbox(h);
    }
    h_commit(h);
    h_call(h, "send", "{}");
    h_commit(h);
    const uint64_t call = h->tool_call;
    h_tool_abandoned(h, true);
    h_commit(h);
    h_tool_outcome(h, call, &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = PW_STR("\"late\"")});
    h_commit(h);
    h_call(h, "put", "{\"again\":true}");
    h_commit(h);
    h_crash(h, PW_CAUSE_RECOVERY);
    h_inbox(h);
    h_commit(h);
    h_tool(h, "1");
    h_commit(h);
    h_fail(h, PW_FAILURE_WAIT, "rate_limit_error", h->now + 30000);
    h_commit(h);
    h->now += 31000;
    h_crash(h, PW_CAUSE_RESUME);
    h_inbox(h);
    h_commit(h);
    h_delta(h, "half");
    h_cancel(h, "{\"reason\":\"user\",\"by\":\"U1\"}");
    h_inbox(h);
    h_commit(h);
    assert_true(h->rested);
}

/* A reply that is resumed, a part that is left out, a fallback. */
static void third_turn(harness *h)
{
    h_crash(h, PW_CAUSE_NEW);
    h_say_body(h, "r4",
               "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{\"type\":"
               "\"text\",\"text\":\"four\"},{\"type\":\"image\",\"url\":\"u\"}]}");
    h_inbox(h);
    h_commit(h);
    h_accept(h, "resp_1");
    h_delta(h, "Wel");
    h_commit(h);
    h_fail(h, PW_FAILURE_RETRY, "cut_off", 0);
    h_commit(h);
    h_time(h, h->now + 60000);
    h_reject(h, h->model->count - 1, 1);
    h_commit(h);
    h_accept(h, "resp_2");
    h_commit(h);
    h_crash(h, PW_CAUSE_RECOVERY);
    h_inbox(h);
    h_commit(h);
    h_delta(h, "Well");
    h_fail(h, PW_FAILURE_NEXT, "not_found_error", 0);
    h_commit(h);
    h_text(h, "done");
    h_commit(h);
}

static void live(harness *h, const pw_test_allocator *memory)
{
    h_new_with(h, h_agent_models, memory ? &memory->allocator : &pw_heap);
    h->watch = memory;
    h->compare = false;
    h_open(h, PW_CAUSE_NEW, NULL, 0);
    first_turn(h);
    second_turn(h);
    h_expect(h, PW_RECORD_TURN_ENDED, "state", "\"cancelled\"");
    third_turn(h);
    h_expect(h, PW_RECORD_TURN_ENDED, "usage.fallbacks", "1");
}

static void test_the_same_inputs_give_the_same_bytes(void **state)
{
    (void)state;
    harness a, b;
    live(&a, NULL);
    live(&b, NULL);
    assert_int_equal(a.log.len, b.log.len);
    assert_memory_equal(a.log.ptr, b.log.ptr, a.log.len);
    h_free(&a);
    h_free(&b);
}

static void test_a_failed_allocation_anywhere_changes_nothing(void **state)
{
    (void)state;
    harness whole;
    live(&whole, NULL);
    uint64_t k = 0, delayed = 0;
    for (;;) {
        pw_test_allocator memory;
        pw_test_allocator_init(&memory);
        pw_test_allocator_fail(&memory, ++k, false);
        harness *h = calloc(1, sizeof(*h));
        live(h, &memory);
        assert_int_equal(whole.log.len, h->log.len);
        assert_memory_equal(whole.log.ptr, h->log.ptr, whole.log.len);
        const size_t failed = h->failed_steps;
        h_free(h);
        free(h);
        assert_int_equal(memory.live_bytes, 0);
        assert_int_equal(memory.live_blocks, 0);
        if (memory.failed == 0) {
            break;
        }
        assert_true(failed <= 1); /* a buffer that can not double may still grow to what it needs */
        delayed += failed;
    }
    print_message("allocations: %llu\n", (unsigned long long)k);
    assert_true(k > 100 && delayed > k / 2);
    h_free(&whole);
}

/* For ever: memory is gone from the k-th allocation of a step on, and comes back after it has
 * failed. */
static void *lean_resize(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    pw_test_allocator *memory = ctx;
    return memory->allocator.resize(memory->allocator.ctx, ptr, old_size, new_size);
}

static pw_status starved_step(pw_session *s, const pw_input *input, pw_test_allocator *memory,
                              pw_effects *ret)
{
    for (uint64_t k = 1;; k++) {
        pw_test_allocator_fail(memory, k, true);
        const pw_status status = pw_session_step(s, input, ret);
        if (status != PW_NOMEM) {
            pw_test_allocator_fail(memory, 0, false);
            return status;
        }
        assert_true(k < 5000);
    }
}

static void test_memory_that_is_gone_for_a_while_only_delays_a_step(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    const pw_allocator allocator = {lean_resize, &memory};
    pw_session_options options = {&allocator, PW_STR("uid-1")};
    harness h;
    h_new(&h, h_agent);
    pw_session *s;
    assert_int_equal(pw_session_new(&options, &s), PW_OK);
    pw_effects effects;
    const pw_input opened = {.kind = PW_IN_OPENED,
                             .opened = {.epoch = 1, .cause = PW_CAUSE_NEW, .today = h.today}};
    assert_int_equal(starved_step(s, &opened, &memory, &effects), PW_OK);
    const pw_inbox_row row = {.n = 1,
                              .request_id = PW_STR("r1"),
                              .body = PW_STR("{\"role\":\"user\",\"source\":\"http\",\"content\":[{"
                                             "\"type\":\"text\",\"text\":\"x\"}]}")};
    const pw_input inbox = {.kind = PW_IN_INBOX, .inbox = {&row, 1, false, 1}};
    assert_int_equal(starved_step(s, &inbox, &memory, &effects), PW_OK);
    assert_int_equal(effects.list[0].kind, PW_DO_APPEND);
    pw_input done = {.kind = PW_IN_APPENDED,
                     .appended = {effects.list[0].append->ticket, PW_STR_NONE}};
    assert_int_equal(starved_step(s, &done, &memory, &effects), PW_OK);
    assert_int_equal(effects.list[0].kind, PW_DO_MODEL);
    pw_part parts[2] = {h_call_part("a", "buy", "{}"), h_call_part("b", "put", "{}")};
    const pw_reply reply = {
        .parts = parts, .part_count = 2, .stop = PW_STOP_TOOL_CALLS, .usage = PW_USAGE_UNKNOWN};
    const pw_input said = {.kind = PW_IN_MODEL_REPLY,
                           .reply = {effects.list[0].model->call, &reply}};
    assert_int_equal(starved_step(s, &said, &memory, &effects), PW_OK);
    done.appended.ticket = effects.list[0].append->ticket;
    assert_int_equal(starved_step(s, &done, &memory, &effects), PW_OK);
    assert_int_equal(effects.list[0].kind, PW_DO_TRANSACT);
    pw_str body;
    assert_int_equal(
        pw_receipt_fill(effects.list[0].transact.receipt, PW_STR("7"), &h.arena, &body), PW_OK);
    done.appended.ticket = effects.list[0].transact.append->ticket;
    done.appended.receipt_body = body;
    assert_int_equal(starved_step(s, &done, &memory, &effects), PW_OK);
    assert_int_equal(effects.list[0].kind, PW_DO_TOOL);
    pw_session_free(s);
    assert_int_equal(memory.live_bytes, 0);
    h_free(&h);
}

#ifndef PW_TIGHT_ROOMS
/* --- Cost
 * ---------------------------------------------------------------------------------------------------------
 */

typedef struct cost {
    uint64_t calls;
    size_t bytes;
} cost;

static cost iterate(harness *h, pw_test_allocator *memory, int i)
{
    char arguments[64];
    const size_t live = memory->live_bytes;
    pw_test_allocator_fail(memory, 0, false);
    snprintf(arguments, sizeof(arguments), "{\"i\":%d}", i);
    h_call(h, "put", arguments);
    h_commit(h);
    h_tool(h, "\"ok\"");
    h_commit(h);
    return (cost){memory->calls, memory->live_bytes > live ? memory->live_bytes - live : 0};
}

static void test_case_I1_cost_of_a_step_does_not_grow_with_what_was_said(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    harness h;
    h_new_with(&h,
               "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"budget\":{\"max_"
               "iterations\":null,\"max_tool_calls\":null,\"deadline_ms\":null},"
               "\"tools\":[{\"name\":\"put\",\"effects\":\"idempotent\"}]}",
               &memory.allocator);
    h.compare = false;
    h.quiet = true;
    h_open(&h, PW_CAUSE_NEW, NULL, 0);
    h_say(&h, "r1", "go");
    h_inbox(&h);
    h_commit(&h);
    uint64_t early = 0, late = 0;
    for (int i = 0; i < 2000; i++) {
        const cost c = iterate(&h, &memory, i);
        early += i >= 100 && i < 400 ? c.calls : 0;
        late += i >= 1700 ? c.calls : 0;
    }
    print_message("allocations of 300 iterations: early %llu, late %llu; live %zu bytes\n",
                  (unsigned long long)early, (unsigned long long)late, memory.live_bytes);
    assert_true(late <= early + early / 20);
    assert_true(memory.live_bytes < (size_t)2000 * 4096);
    h_text(&h, "done");
    h_commit(&h);
    h_free(&h);
    assert_int_equal(memory.live_bytes, 0);
}

static void test_N4_a_session_holds_its_window_not_its_history(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    harness h;
    h_new_with(&h,
               "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"context\":{"
               "\"messages\":20}}",
               &memory.allocator);
    h.compare = false;
    h.quiet = true;
    h_open(&h, PW_CAUSE_NEW, NULL, 0);
    size_t early = 0;
    h_say(&h, "r", "hello");
    h_inbox(&h);
    for (uint64_t i = 1; i <= 600; i++) {
        h_commit(&h);
        h.row_count = 0; /* the next message waits, so that the session stays in memory */
        h_say(&h, i % 2 ? "odd" : "even", "hello");
        h.rows[0].n = h.first_n = i + 1;
        h_inbox(&h);
        h_text(&h, "a reply of some length, to have something to hold");
        h_commit(&h);
        early = i == 100 ? memory.live_bytes : early;
        assert_true(h_look(&h).window_messages <= 22);
    }
    print_message("live bytes: %zu at 100 turns, %zu at 600\n", early, memory.live_bytes);
    assert_true(memory.live_bytes <= early + early / 4);
    h_free(&h);
    assert_int_equal(memory.live_bytes, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_inputs_give_the_same_bytes),
        cmocka_unit_test(test_a_failed_allocation_anywhere_changes_nothing),
        cmocka_unit_test(test_memory_that_is_gone_for_a_while_only_delays_a_step),
#ifndef PW_TIGHT_ROOMS
        cmocka_unit_test(test_case_I1_cost_of_a_step_does_not_grow_with_what_was_said),
        cmocka_unit_test(test_N4_a_session_holds_its_window_not_its_history),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
