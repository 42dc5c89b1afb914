/* Events told from records (M1, M4, M6), and cursors (M1, M2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/heap.h"
#include "core/event.h"
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

static size_t tell(fixture *f, const pw_record *record, const pw_event_out **ret)
{
    size_t count = 0;
    assert_int_equal(pw_event_tell(record, PW_STR("s1"), &f->arena, ret, &count, &f->error), PW_OK);
    return count;
}

static const pw_json *data_of(fixture *f, const pw_event_out *event)
{
    const pw_json *data;
    assert_int_equal(pw_json_parse(&f->arena, event->data, PW_JSON_UNIQUE_KEYS, &data, &f->error),
                     PW_OK);
    assert_null(memchr(event->data.ptr, '\n', event->data.len));
    assert_str(pw_json_text(pw_json_get(data, "session")), "s1");
    assert_str(pw_json_text(pw_json_get(data, "turn")), "t1");
    return data;
}

static void test_M1_a_record_of_several_events_numbers_all_but_the_last(void **state)
{
    fixture *f = *state;
    const pw_event_out *e;
    assert_int_equal(tell(f, &story[3], &e), 3);
    assert_str(e[0].id, "4-1");
    assert_str(e[0].name, "message.completed");
    assert_str(e[1].id, "4-2");
    assert_str(e[1].name, "action.requested");
    assert_str(e[2].id, "4");
    const pw_json *data = data_of(f, &e[2]);
    assert_str(pw_json_text(pw_json_get(data, "step")), "model:2");
    assert_str(pw_json_get(pw_json_get(data, "arguments"), "order")->raw, "12345678901234567890");
}

static void test_M1_a_record_is_told_the_same_each_time(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < STORY_COUNT; i++) {
        const pw_event_out *a, *b;
        size_t count = tell(f, &story[i], &a);
        assert_int_equal(tell(f, &story[i], &b), count);
        for (size_t j = 0; j < count; j++) {
            assert_true(pw_str_equal(a[j].id, b[j].id) && pw_str_equal(a[j].data, b[j].data));
        }
    }
}

static void test_M4_names(void **state)
{
    fixture *f = *state;
    static const char *const names[STORY_EVENTS] = {
        "turn.started",     "message.restarted", "model.retrying",  "message.completed",
        "action.requested", "action.requested",  "attempt.started", "action.completed",
        "action.completed", "message.completed", "turn.completed",  NULL};
    size_t n = 0;
    for (size_t i = 0; i < STORY_COUNT; i++) {
        const pw_event_out *e;
        size_t count = tell(f, &story[i], &e);
        for (size_t j = 0; j < count; j++) {
            assert_str(e[j].name, names[n++]);
            (void)data_of(f, &e[j]);
        }
    }
    assert_null(names[n]);
}

static void test_M6_a_started_turn_is_closed_by_one_terminal_with_the_turns_fields(void **state)
{
    fixture *f = *state;
    const pw_event_out *e;
    assert_int_equal(tell(f, &story[9], &e), 1);
    const pw_json *data = data_of(f, &e[0]);
    assert_str(pw_json_text(pw_json_get(data, "id")), "t1");
    assert_str(pw_json_text(pw_json_get(data, "state")), "completed");
    assert_str(pw_json_text(pw_json_get(data, "text")), "Done.");
    assert_str(pw_json_text(pw_json_get(pw_json_get(data, "usage"), "cost_usd")), "0.0123");
    assert_int_equal(pw_json_i64_or(pw_json_get(pw_json_get(data, "usage"), "duration_ms"), -1),
                     9000);
}

static void test_M6_an_unknown_call_is_closed_by_an_error(void **state)
{
    fixture *f = *state;
    const pw_event_out *e;
    assert_int_equal(tell(f, &story[6], &e), 1);
    const pw_json *data = data_of(f, &e[0]);
    assert_str(pw_json_text(pw_json_get(data, "outcome")), "unknown");
    assert_non_null(pw_json_get(data, "error"));
    assert_null(pw_json_get(data, "result"));
    assert_str(pw_json_text(pw_json_get(data, "started_at")), "2023-11-14T22:13:25.000Z");
}

static void test_D8_late_and_started_records_tell_nothing(void **state)
{
    fixture *f = *state;
    pw_record late = RECORD(11, TOOL_LATE, "t1", "tool:2:b", "{\"v\":1}");
    const pw_event_out *e;
    assert_int_equal(tell(f, &late, &e), 0);
    assert_int_equal(tell(f, &story[4], &e), 0);
}

static void test_F6_a_fallback_names_both_models_and_why(void **state)
{
    fixture *f = *state;
    const pw_record record =
        RECORD(3, MODEL_FALLBACK, "t1", "model:2",
               "{\"v\":1,\"try\":2,\"from\":{\"index\":0,\"provider\":\"p\",\"model\":\"m-0\"},"
               "\"to\":{\"index\":1,\"provider\":\"p\",\"model\":\"m-1\"},\"code\":\"gone\","
               "\"message\":\"no such model\",\"usage\":{\"in_uncached\":4,\"out\":1},\"lost\":1}");
    const pw_event_out *e;
    assert_int_equal(tell(f, &record, &e), 1);
    assert_str(e[0].name, "model.fallback");
    assert_str(e[0].id, "3");
    const pw_json *data = data_of(f, &e[0]);
    assert_str(pw_json_get(data, "from")->raw,
               "{\"index\":0,\"provider\":\"p\",\"model\":\"m-0\"}");
    assert_str(pw_json_text(pw_json_get(pw_json_get(data, "to"), "model")), "m-1");
    assert_str(pw_json_text(pw_json_get(data, "code")), "gone");
    assert_str(pw_json_text(pw_json_get(data, "message")), "no such model");
    assert_null(pw_json_get(data, "usage"));
}

static void test_M1_a_reply_that_is_accepted_tells_nothing(void **state)
{
    fixture *f = *state;
    const pw_record record =
        RECORD(3, MODEL_ACCEPTED, "t1", "model:2", "{\"v\":1,\"response_id\":\"resp_1\"}");
    const pw_event_out *e;
    assert_int_equal(tell(f, &record, &e), 0);
}

static void test_C6_blank_text_is_no_message(void **state)
{
    fixture *f = *state;
    pw_record blank =
        RECORD(3, MODEL_COMPLETED, "t1", "model:2",
               "{\"v\":1,\"n\":2,\"model\":\"m\",\"parts\":[{\"type\":\"text\",\"text\":\" "
               "\\n\"},{\"type\":\"tool_call\",\"call\":\"a\",\"name\":\"x\",\"broken\":\"{\"}],"
               "\"stop\":\"tool_calls\",\"usage\":{}}");
    const pw_event_out *e;
    assert_int_equal(tell(f, &blank, &e), 1);
    assert_str(e[0].name, "action.requested");
    assert_str(e[0].id, "3");
    const pw_json *data = data_of(f, &e[0]);
    assert_true(pw_json_is(pw_json_get(data, "arguments"), PW_JSON_NULL));
    assert_str(pw_json_text(pw_json_get(data, "broken")), "{");
}

static void test_M1_an_event_with_foreign_line_breaks_is_one_line(void **state)
{
    fixture *f = *state;
    pw_record r =
        RECORD(3, TOOL_COMPLETED, "t1", "tool:2:a",
               "{\"v\":1,\"call\":\"a\",\"name\":\"x\",\"effects\":\"none\",\"outcome\":\"done\","
               "\"result\":{\n \"a\" :\r\n 1.0 },\"is_error\":false,\"executions\":1}");
    const pw_event_out *e;
    assert_int_equal(tell(f, &r, &e), 1);
    assert_str(pw_json_get(data_of(f, &e[0]), "result")->raw, "{\"a\":1.0}");
}

static void test_J8_a_newer_or_damaged_body_is_named(void **state)
{
    fixture *f = *state;
    pw_record newer = RECORD(7, WAIT_SET, "t1", "", "{\"v\":2}");
    pw_record broken = RECORD(8, WAIT_SET, "t1", "", "[]");
    const pw_event_out *e;
    size_t count;
    assert_int_equal(pw_event_tell(&newer, PW_STR("s1"), &f->arena, &e, &count, &f->error),
                     PW_NEWER_SCHEMA);
    assert_non_null(strstr(f->error.message, "record 7"));
    assert_int_equal(pw_event_tell(&broken, PW_STR("s1"), &f->arena, &e, &count, &f->error),
                     PW_CORRUPT);
    assert_non_null(strstr(f->error.message, "record 8"));
}

static void test_M1_cursors(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        pw_cursor want;
    } good[] = {
        {"", {0, 0, 0}},      {"0", {0, 0, 0}},   {"12", {12, 0, 0}},
        {"12-3", {11, 3, 0}}, {"1-1", {0, 1, 0}}, {"12.40", {12, 0, 40}},
        {"12.0", {12, 0, 0}}, {"0.7", {0, 0, 7}}, {"18446744073709551615", {UINT64_MAX, 0, 0}},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        pw_cursor c;
        pw_error error = {0};
        assert_int_equal(pw_cursor_parse(pw_str_from(good[i].text), &c, &error), PW_OK);
        assert_true(c.seq == good[i].want.seq && c.index == good[i].want.index &&
                    c.bytes == good[i].want.bytes);
    }
}

static void test_M1_garbage_is_no_cursor(void **state)
{
    (void)state;
    static const char *const bad[] = {"x",
                                      "-1",
                                      "1-",
                                      "1.",
                                      "1-0",
                                      "0-1",
                                      " 1",
                                      "1 ",
                                      "+1",
                                      "1.-2",
                                      "1--2",
                                      "1-2-3",
                                      "1.2.3",
                                      "1e3",
                                      "18446744073709551616",
                                      "1-4294967296",
                                      "..",
                                      "\xff"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pw_cursor c = {7, 7, 7};
        pw_error error = {0};
        assert_int_equal(pw_cursor_parse(pw_str_from(bad[i]), &c, &error), PW_INVALID);
        assert_int_equal(c.seq, 7);
        assert_true(error.message[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_M1_a_record_of_several_events_numbers_all_but_the_last,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_M1_a_record_is_told_the_same_each_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_M4_names, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_M6_a_started_turn_is_closed_by_one_terminal_with_the_turns_fields, setup,
            teardown),
        cmocka_unit_test_setup_teardown(test_M6_an_unknown_call_is_closed_by_an_error, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_D8_late_and_started_records_tell_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_F6_a_fallback_names_both_models_and_why, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_M1_a_reply_that_is_accepted_tells_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_C6_blank_text_is_no_message, setup, teardown),
        cmocka_unit_test_setup_teardown(test_M1_an_event_with_foreign_line_breaks_is_one_line,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_J8_a_newer_or_damaged_body_is_named, setup, teardown),
        cmocka_unit_test(test_M1_cursors),
        cmocka_unit_test(test_M1_garbage_is_no_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
