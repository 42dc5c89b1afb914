/* Turns, Steps and Messages as they are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/heap.h"
#include "core/view.h"
#include "story.h"

static const pw_record story[] = {STORY};

typedef struct fixture {
    pw_arena arena;
    pw_error error;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f = (fixture){0};
    pw_arena_init(&f.arena, &pw_heap, 0, 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pw_arena_free(&f->arena);
    return 0;
}

static void assert_str(pw_str got, const char *want)
{
    if (!pw_str_is(got, want)) {
        fail_msg("got %.*s, wanted %s", PW_STR_ARG(got), want);
    }
}

static const pw_json *parsed(fixture *f, const pw_buffer *text)
{
    const pw_json *json;
    assert_int_equal(
        pw_json_parse(&f->arena, pw_buffer_str(text), PW_JSON_UNIQUE_KEYS, &json, &f->error),
        PW_OK);
    return json;
}

static const pw_json *turn_of(fixture *f, size_t count, pw_turn_state state, pw_str reason)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, &f->arena, 1 << 20);
    pw_view_turn turn = {.session = PW_STR("s1"),
                         .records = story,
                         .count = count,
                         .row_state = state,
                         .row_reason = reason};
    assert_int_equal(pw_view_turn_json(&turn, &f->arena, &out, &f->error), PW_OK);
    return parsed(f, &out);
}

static const pw_json *steps_of(fixture *f, size_t count)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, &f->arena, 1 << 20);
    pw_view_turn turn = {.session = PW_STR("s1"), .records = story, .count = count};
    assert_int_equal(pw_view_steps_json(&turn, &f->arena, &out, &f->error), PW_OK);
    return parsed(f, &out);
}

static int64_t usage(const pw_json *turn, const char *name)
{
    return pw_json_i64_or(pw_json_get(pw_json_get(turn, "usage"), name), -1);
}

/* HTTP.md's Turn, member for member and in its order. */
static void test_H2_a_turn_has_every_member_of_the_shape(void **state)
{
    fixture *f = *state;
    static const char *const members[] = {
        "id",         "session",  "state",    "reason",     "detail", "actor", "since",
        "text",       "stop",     "requests", "continues",  "agent",  "model", "attempts",
        "started_at", "ended_at", "inputs",   "operations", "usage"};
    static const char *const counters[] = {
        "input_tokens",   "output_tokens",     "cached_tokens", "reasoning_tokens", "cost_usd",
        "unpriced_calls", "lost_calls",        "iterations",    "tool_calls",       "retries",
        "fallbacks",      "protocol_failures", "duration_ms"};
    for (int open = 0; open < 2; open++) {
        const pw_json *turn = turn_of(f, open ? 9 : 10, PW_TURN_RUNNING, PW_STR_NONE);
        assert_int_equal(turn->count, sizeof(members) / sizeof(members[0]));
        const pw_json *m = turn->child;
        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++, m = m->next) {
            assert_str(m->key, members[i]);
        }
        m = pw_json_get(turn, "usage")->child;
        for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++, m = m->next) {
            assert_str(m->key, counters[i]);
        }
    }
}

static void test_H2_an_ended_turn_is_told_from_its_end(void **state)
{
    fixture *f = *state;
    const pw_json *turn = turn_of(f, 10, PW_TURN_SUSPENDED, PW_STR("ignored"));
    assert_str(pw_json_text(pw_json_get(turn, "state")), "completed");
    assert_true(pw_json_is(pw_json_get(turn, "reason"), PW_JSON_NULL));
    assert_str(pw_json_text(pw_json_get(turn, "text")), "Done.");
    assert_int_equal(usage(turn, "input_tokens"), 3000);
    assert_str(pw_json_text(pw_json_get(pw_json_get(turn, "usage"), "cost_usd")), "0.0123");
    assert_str(pw_json_text(pw_json_get(turn, "ended_at")), "2023-11-14T22:13:30.000Z");
    assert_str(pw_json_get(turn, "requests")->raw, "[\"r1\"]");
}

static void test_H2_late_evidence_behind_the_end_changes_nothing(void **state)
{
    fixture *f = *state;
    pw_record with_late[] = {
        STORY,
        RECORD(11, TOOL_LATE, "t1", "tool:2:b",
               "{\"v\":1,\"call\":\"b\",\"name\":\"refund\",\"outcome\":\"done\",\"result\":7}")};
    pw_view_turn turn = {.session = PW_STR("s1"), .records = with_late, .count = 11};
    pw_buffer out;
    pw_buffer_init_arena(&out, &f->arena, 1 << 20);
    assert_int_equal(pw_view_turn_json(&turn, &f->arena, &out, &f->error), PW_OK);
    assert_str(turn_of(f, 10, PW_TURN_RUNNING, PW_STR_NONE)->raw, out.ptr);
    pw_buffer_init_arena(&out, &f->arena, 1 << 20);
    assert_int_equal(pw_view_steps_json(&turn, &f->arena, &out, &f->error), PW_OK);
    const pw_json *refund = pw_json_at(parsed(f, &out), 2);
    assert_str(pw_json_text(pw_json_get(refund, "state")), "unknown");
    assert_str(pw_json_get(pw_json_get(refund, "late"), "result")->raw, "7");
}

static void test_G1_an_open_turn_counts_every_attempt_once(void **state)
{
    fixture *f = *state;
    const pw_json *turn = turn_of(f, 9, PW_TURN_RUNNING, PW_STR_NONE);
    assert_str(pw_json_text(pw_json_get(turn, "state")), "running");
    assert_int_equal(usage(turn, "input_tokens"), 10 + 1000 + 2000);
    assert_int_equal(usage(turn, "output_tokens"), 2 + 20 + 30);
    assert_int_equal(usage(turn, "cached_tokens"), 300);
    assert_int_equal(usage(turn, "reasoning_tokens"), 5);
    assert_int_equal(usage(turn, "unpriced_calls"), 1);
    assert_int_equal(usage(turn, "lost_calls"), 1);
    assert_int_equal(usage(turn, "iterations"), 2);
    assert_int_equal(usage(turn, "tool_calls"), 2);
    assert_int_equal(usage(turn, "retries"), 1);
    assert_str(pw_json_text(pw_json_get(pw_json_get(turn, "usage"), "cost_usd")), "0.0123");
    assert_int_equal(pw_json_i64_or(pw_json_get(turn, "attempts"), 0), 2);
    assert_int_equal(pw_json_get(turn, "operations")->count, 2);
}

static void test_F6_an_open_turn_counts_its_fallbacks_and_a_step_all_its_tries(void **state)
{
    fixture *f = *state;
    const pw_record records[] = {
        STORY_OPENED, STORY_RETRYING,
        RECORD(4, MODEL_FALLBACK, "t1", "model:2",
               "{\"v\":1,\"try\":2,\"from\":{\"index\":0,\"provider\":\"p\",\"model\":\"m-0\"},"
               "\"to\":{\"index\":1,\"provider\":\"p\",\"model\":\"m-1\"},\"code\":\"gone\","
               "\"message\":\"no such model\",\"usage\":{\"in_uncached\":4,\"out\":1},\"lost\":1}"),
        RECORD(5, MODEL_COMPLETED, "t1", "model:2",
               "{\"v\":1,\"n\":2,\"model\":\"m-1\",\"parts\":[],\"stop\":\"paused\",\"tries\":3}")};
    for (size_t count = 3; count <= 4; count++) {
        pw_buffer out;
        pw_buffer_init_arena(&out, &f->arena, 1 << 20);
        pw_view_turn turn = {.session = PW_STR("s1"), .records = records, .count = count};
        assert_int_equal(pw_view_turn_json(&turn, &f->arena, &out, &f->error), PW_OK);
        const pw_json *shown = parsed(f, &out);
        assert_int_equal(usage(shown, "fallbacks"), 1);
        assert_int_equal(usage(shown, "retries"), 1);
        assert_int_equal(usage(shown, "lost_calls"), 1);
        assert_int_equal(usage(shown, "input_tokens"), 4);
        assert_str(pw_json_text(pw_json_get(shown, "model")), "m-1");
        pw_buffer_init_arena(&out, &f->arena, 1 << 20);
        assert_int_equal(pw_view_steps_json(&turn, &f->arena, &out, &f->error), PW_OK);
        const pw_json *step = pw_json_at(parsed(f, &out), 0);
        assert_int_equal(pw_json_i64_or(pw_json_get(step, "executions"), 0), count == 3 ? 2 : 5);
    }
}

static void test_M5_an_open_turn_takes_the_rows_word_for_its_reason(void **state)
{
    fixture *f = *state;
    const pw_json *turn = turn_of(f, 3, PW_TURN_WAITING, PW_STR("rate_limit"));
    assert_str(pw_json_text(pw_json_get(turn, "state")), "waiting");
    assert_str(pw_json_text(pw_json_get(turn, "reason")), "rate_limit");
    assert_true(pw_json_is(pw_json_get(turn, "ended_at"), PW_JSON_NULL));
    assert_true(pw_json_is(pw_json_get(turn, "text"), PW_JSON_NULL));
}

static void test_G1_nothing_priced_is_null(void **state)
{
    fixture *f = *state;
    const pw_json *turn = turn_of(f, 2, PW_TURN_RUNNING, PW_STR_NONE);
    assert_true(pw_json_is(pw_json_get(pw_json_get(turn, "usage"), "cost_usd"), PW_JSON_NULL));
    turn = turn_of(f, 1, PW_TURN_RUNNING, PW_STR_NONE);
    assert_str(pw_json_text(pw_json_get(pw_json_get(turn, "usage"), "cost_usd")), "0");
}

static void test_D4_steps_say_what_is_owed_running_unknown(void **state)
{
    fixture *f = *state;
    static const struct {
        size_t count;
        const char *refund, *order;
    } at[] = {{4, "owed", "owed"},
              {5, "running", "owed"},
              {7, "unknown", "owed"},
              {10, "unknown", "done"}};
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        const pw_json *steps = steps_of(f, at[i].count);
        const pw_json *order = pw_json_at(steps, 1), *refund = pw_json_at(steps, 2);
        assert_str(pw_json_text(pw_json_get(order, "id")), "tool:2:a");
        assert_str(pw_json_text(pw_json_get(refund, "id")), "tool:2:b");
        assert_str(pw_json_text(pw_json_get(order, "state")), at[i].order);
        assert_str(pw_json_text(pw_json_get(refund, "state")), at[i].refund);
    }
    const pw_json *steps = steps_of(f, 10);
    assert_int_equal(steps->count, 4);
    assert_int_equal(pw_json_i64_or(pw_json_get(pw_json_at(steps, 0), "executions"), 0), 2);
    assert_int_equal(pw_json_i64_or(pw_json_get(pw_json_at(steps, 1), "attempt"), 0), 2);
    assert_str(pw_json_get(pw_json_get(pw_json_at(steps, 1), "arguments"), "item")->raw, "1.50");
}

static const pw_json *message_of(fixture *f, const pw_record *record, int64_t n)
{
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, &f->arena, 1 << 20);
    pw_json_begin(&w, &out);
    pw_json_array(&w);
    assert_int_equal(pw_view_message_json(record, n, &f->arena, &w, &f->error), PW_OK);
    pw_json_array_end(&w);
    return parsed(f, &out);
}

static void test_C8_messages_never_show_what_a_provider_bound_to_itself(void **state)
{
    fixture *f = *state;
    const pw_json *list = message_of(f, &story[3], 0);
    assert_int_equal(list->count, 1);
    assert_int_equal(pw_str_find(list->raw, PW_STR("S3CRET")), SIZE_MAX);
    const pw_json *m = list->child;
    assert_str(pw_json_text(pw_json_get(m, "role")), "assistant");
    assert_int_equal(pw_json_get(m, "content")->count, 4);
    assert_str(pw_json_at(pw_json_get(m, "content"), 2)->raw,
               "{\"type\":\"tool_call\",\"call\":\"a\",\"name\":\"create_order\",\"arguments\":{"
               "\"item\":1.50}}");
}

static void test_A5_a_users_message_says_who_and_whence(void **state)
{
    fixture *f = *state;
    const pw_json *m = message_of(f, &story[0], 0)->child;
    assert_str(
        m->raw,
        "{\"n\":1,\"seq\":1,\"at\":\"2023-11-14T22:13:21.000Z\",\"turn\":\"t1\",\"role\":\"user\","
        "\"content\":[{\"type\":\"text\",\"text\":\"two orders\"}],\"requests\":[{\"id\":\"r1\","
        "\"at\":\"2023-11-14T22:13:20.500Z\",\"source\":\"http\",\"user\":{\"id\":\"U1\","
        "\"attested\":true}}]}");
}

static void test_C1_a_tools_message_is_numbered_by_its_call(void **state)
{
    fixture *f = *state;
    const pw_json *m = message_of(f, &story[6], 4)->child;
    assert_str(m->raw,
               "{\"n\":4,\"seq\":7,\"at\":\"2023-11-14T22:13:27.000Z\",\"turn\":\"t1\",\"step\":"
               "\"tool:2:b\","
               "\"role\":\"tool\",\"content\":[{\"type\":\"tool_result\",\"call\":\"b\",\"result\":"
               "{\"outcome\":\"unknown\"},\"is_error\":true}]}");
}

static void test_I7_a_cancelled_turns_text_so_far_is_partial(void **state)
{
    fixture *f = *state;
    pw_record ended =
        RECORD(5, TURN_ENDED, "t1", "",
               "{\"v\":1,\"state\":\"cancelled\",\"reason\":\"user\",\"text\":\"Half a\"}");
    const pw_json *m = message_of(f, &ended, 0)->child;
    assert_true(pw_json_true(pw_json_get(m, "partial")));
    assert_true(pw_json_is(pw_json_get(m, "n"), PW_JSON_NULL));
    assert_int_equal(message_of(f, &story[9], 0)->count, 0);
    assert_int_equal(message_of(f, &story[4], 0)->count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_H2_a_turn_has_every_member_of_the_shape, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_H2_an_ended_turn_is_told_from_its_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_H2_late_evidence_behind_the_end_changes_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_G1_an_open_turn_counts_every_attempt_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_F6_an_open_turn_counts_its_fallbacks_and_a_step_all_its_tries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_M5_an_open_turn_takes_the_rows_word_for_its_reason,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_G1_nothing_priced_is_null, setup, teardown),
        cmocka_unit_test_setup_teardown(test_D4_steps_say_what_is_owed_running_unknown, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_C8_messages_never_show_what_a_provider_bound_to_itself,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_A5_a_users_message_says_who_and_whence, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_C1_a_tools_message_is_numbered_by_its_call, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_I7_a_cancelled_turns_text_so_far_is_partial, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
