/*
 * Recorded Chat Completions answers (PROVIDERS.md 12): whole, in pieces and cut at every event,
 * against the expected results that come with them, or the failure that was said in band.
 */
#include "support.h"

#include <string.h>

static const char *const recordings[] = {
    "azure_empty_first_chunk.sse",    "openrouter_claude_parallel_tools.sse",
    "groq_error_event_midstream.sse", "mistral_thinking_array.sse",
    "ollama_reasoning_tool.sse",      "gemini_compat_empty_tool_id_json.json",
};
#define RECORDING_COUNT (sizeof recordings / sizeof recordings[0])

static int64_t count(const pw_json *holder, const char *name)
{
    return pw_json_i64_or(pw_json_get(holder, name), -1);
}

static int64_t least_0(int64_t value)
{
    return value < 0 ? 0 : value;
}

static void check_calls(const pw_reply *reply, const pw_json *expected)
{
    const pw_json *calls = pw_json_get(expected, "tool_calls");
    const pw_json *call = calls ? calls->child : NULL;
    for (size_t i = 0; i < reply->part_count; i++) {
        const pw_part *part = &reply->parts[i];
        if (part->kind == PW_PART_TOOL_CALL) {
            assert_non_null(call);
            assert_false(part->broken);
            assert_true(pw_str_equal(part->provider_id, pw_json_text(pw_json_get(call, "id"))));
            assert_true(pw_str_equal(part->name, pw_json_text(pw_json_get(call, "name"))));
            assert_true(
                pw_str_equal(part->arguments, pw_json_text(pw_json_get(call, "arguments"))));
            call = call->next;
        }
    }
    assert_null(call);
}

static void check_usage(const pw_usage *usage, const pw_json *said)
{
    const pw_json *prompt = pw_json_get(said, "prompt_tokens_details");
    const pw_json *completion = pw_json_get(said, "completion_tokens_details");
    const int64_t hidden = count(said, "total_tokens") - count(said, "prompt_tokens") -
                           count(said, "completion_tokens");
    assert_int_equal(usage->in_cache_read, count(prompt, "cached_tokens"));
    assert_int_equal(usage->in_cache_write, count(prompt, "cache_write_tokens"));
    assert_int_equal(usage->in_uncached, count(said, "prompt_tokens") -
                                             least_0(count(prompt, "cached_tokens")) -
                                             least_0(count(prompt, "cache_write_tokens")));
    assert_int_equal(usage->out, count(said, "completion_tokens") + hidden);
    assert_int_equal(usage->reasoning, hidden > 0 ? hidden : count(completion, "reasoning_tokens"));
    int64_t cost = -1;
    (void)pw_json_micros(pw_json_get(said, "cost"), &cost);
    assert_int_equal(usage->cost_micros, cost);
}

static void check_reply(const pw_reply *reply, pw_str expected_text)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *expected = parse(&arena, expected_text);
    const pw_json *id = pw_json_get(expected, "id"), *model = pw_json_get(expected, "model");
    assert_true(!id || pw_str_equal(reply->response_id, id->text));
    assert_true(!model || pw_str_equal(reply->model, model->text));
    assert_true(pw_str_is(reply->provider, "openai-chat"));
    check_text(reply, PW_PART_TEXT, pw_json_text(pw_json_get(expected, "text")));
    check_text(reply, PW_PART_THINKING, pw_json_text(pw_json_get(expected, "reasoning")));
    check_calls(reply, expected);
    check_usage(&reply->usage, pw_json_get(expected, "usage"));
    const bool calls = pw_str_is(pw_json_text(pw_json_get(expected, "stop_reason")), "tool_calls");
    assert_int_equal(reply->stop, calls ? PW_STOP_TOOL_CALLS : PW_STOP_DONE);
    pw_arena_free(&arena);
}

/* What was said in band, as the class that asks again: what began well was a good request. */
static void check_failure(const pw_failure *failure, pw_str expected_text)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *error = pw_json_get(parse(&arena, expected_text), "error");
    assert_non_null(error);
    assert_int_equal(failure->failure_class, PW_FAILURE_RETRY);
    assert_true(pw_str_equal(failure->code, pw_json_text(pw_json_get(error, "code"))));
    assert_true(pw_str_equal(failure->message, pw_json_text(pw_json_get(error, "message"))));
    pw_arena_free(&arena);
}

static void check(const reading *r, pw_str expected)
{
    if (r->status == PW_OK) {
        check_reply(r->reply, expected);
    } else {
        assert_int_equal(r->status, PW_END);
        check_failure(&r->failure, expected);
    }
}

static void test_P12_chat_whole_and_in_pieces(void **state)
{
    (void)state;
    const size_t pieces[] = {SIZE_MAX / 2, 7, 1, 1000};
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("chat", recordings[i], &body, &expected);
        for (size_t k = 0; k < 4; k++) {
            reading r = read_body(body, pieces[k]);
            check(&r, expected);
            tested->stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* Where a cut leaves enough to know how the answer ended. */
static bool is_known(pw_str body)
{
    return pw_str_find(body, PW_STR("\"finish_reason\":\"")) != SIZE_MAX ||
           pw_str_find(body, PW_STR("event: error")) != SIZE_MAX;
}

/* Cut at every event: cut_off as long as no end is known, then the whole reply, but for usage that
 * comes after the reason, or what was said in band. */
static void test_P12_chat_cut_at_every_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("chat", recordings[i], &body, &expected);
        for (size_t at = 0; at + 1 < body.len; at++) {
            if (at > 0 && !(body.ptr[at - 1] == '\n' && body.ptr[at] == '\n')) {
                continue;
            }
            const pw_str begun = pw_str_slice(body, 0, at == 0 ? 0 : at + 1);
            reading r = read_body(begun, 4096);
            if (!is_known(begun)) {
                assert_int_equal(r.status, PW_END);
                assert_int_equal(r.failure.failure_class, PW_FAILURE_RETRY);
                assert_true(pw_str_is(r.failure.code, "cut_off"));
            } else if (r.status == PW_OK && r.reply->usage.out < 0) {
                assert_true(r.reply->stop == PW_STOP_TOOL_CALLS || r.reply->stop == PW_STOP_DONE);
            } else {
                check(&r, expected);
            }
            tested->stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* One JSON value cut anywhere is nothing. */
static void test_P12_chat_object_cut_at_every_byte(void **state)
{
    (void)state;
    pw_str body, expected;
    recording("chat", "gemini_compat_empty_tool_id_json.json", &body, &expected);
    for (size_t at = 0; at < body.len; at++) {
        reading r = read_body(pw_str_slice(body, 0, at), SIZE_MAX / 2);
        assert_int_equal(r.status, PW_END);
        assert_true(pw_str_is(r.failure.code, "cut_off"));
        tested->stream_free(r.stream);
    }
    forget(body, expected);
}

/* Bug 29: Gemini's signature goes back as it came. */
static void test_C8_chat_echo_of_a_recording(void **state)
{
    (void)state;
    pw_str body, expected;
    recording("chat", "gemini_compat_empty_tool_id_json.json", &body, &expected);
    reading r = read_body(body, 7);
    fixture f;
    fixture_init(&f, "{\"provider\":\"openai-chat\",\"name\":\"gemini-2.5-pro-preview-05-06\","
                     "\"dialect\":\"gemini\"}");
    say(&f, "go");
    pw_message *message = add_message(&f, PW_ROLE_ASSISTANT, 0);
    message->provider = r.reply->provider;
    message->model = r.reply->model;
    message->parts = r.reply->parts;
    message->part_count = r.reply->part_count;
    for (size_t k = 0; k < r.reply->part_count; k++) {
        r.reply->parts[k].call = PW_STR(".1");
    }
    char *sent = conversation(&f, 0);
    const size_t from = pw_str_find(body, PW_STR("{\"google\""));
    const size_t length = pw_str_find(pw_str_slice(body, from, body.len), PW_STR("}}")) + 2;
    assert_true(pw_str_find(pw_str_from(sent), pw_str_slice(body, from, from + length)) !=
                SIZE_MAX);
    free(sent);
    fixture_free(&f);
    tested->stream_free(r.stream);
    forget(body, expected);
}

int main(void)
{
    tested = &pw_provider_chat;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P12_chat_whole_and_in_pieces),
        cmocka_unit_test(test_P12_chat_cut_at_every_event),
        cmocka_unit_test(test_P12_chat_object_cut_at_every_byte),
        cmocka_unit_test(test_C8_chat_echo_of_a_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
