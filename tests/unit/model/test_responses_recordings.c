/*
 * Recorded OpenAI Responses answers (PROVIDERS.md 12): whole, in pieces and cut at every event,
 * against the expected results that come with them, or the failure that was said in band; and each
 * reply sent back.
 */
#include "support.h"

#include <string.h>

#include "base/sha256.h"

static const char *const recordings[] = {
    "reasoning_two_function_calls.sse",
    "commentary_message_then_call.sse",
    "bedrock_data_line_before_event_line.sse",
    "rate_limited_error_event_http200.sse",
    "program_calls_function.sse",
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

/* What an item is called in the expected result: its type, and a message's phase. */
static void check_item(const pw_part *part, const pw_json *raw, pw_str wanted)
{
    char name[80];
    const pw_str type = pw_json_text(pw_json_get(raw, "type"));
    const pw_str phase = pw_json_text(pw_json_get(raw, "phase"));
    const pw_str plain = part->kind == PW_PART_TEXT ? PW_STR("message") : PW_STR("function_call");
    snprintf(name, sizeof name, "%.*s%s%.*s", PW_STR_ARG(raw ? type : plain), phase.len ? ":" : "",
             PW_STR_ARG(phase));
    assert_true(pw_str_is(wanted, name));
}

static void check_items(pw_arena *arena, const pw_reply *reply, const pw_json *expected)
{
    const pw_json *item = pw_json_get(expected, "items")->child;
    const pw_json *call = pw_json_get(expected, "tool_calls")->child;
    for (size_t i = 0; i < reply->part_count; i++, item = item->next) {
        const pw_part *part = &reply->parts[i];
        const pw_json *raw = part->raw.len > 0 ? parse(arena, part->raw) : NULL;
        const pw_json *encrypted = pw_json_get(raw, "encrypted_content");
        assert_non_null(item);
        check_item(part, raw, item->text);
        if (encrypted) { /* the one of output_item.done */
            const pw_hash hash = pw_sha256_of(encrypted->text);
            const pw_hash_hex hex = pw_hash_to_hex(&hash);
            const pw_json *wanted = pw_json_get(expected, "encrypted_content_sha256");
            assert_true(pw_str_is(pw_json_text(wanted), hex.text));
        }
        if (part->kind == PW_PART_TOOL_CALL) {
            assert_false(part->broken);
            assert_true(pw_str_equal(part->provider_id, pw_json_text(pw_json_get(call, "id"))));
            assert_true(pw_str_equal(part->name, pw_json_text(pw_json_get(call, "name"))));
            assert_true(
                pw_str_equal(part->arguments, pw_json_text(pw_json_get(call, "arguments"))));
            call = call->next;
        }
    }
    assert_null(item);
    assert_null(call);
}

static void check_usage(const pw_usage *usage, const pw_json *said)
{
    const pw_json *input = pw_json_get(said, "input_tokens_details");
    const pw_json *output = pw_json_get(said, "output_tokens_details");
    assert_int_equal(usage->in_cache_read, count(input, "cached_tokens"));
    assert_int_equal(usage->in_cache_write, count(input, "cache_write_tokens"));
    assert_int_equal(usage->in_uncached, count(said, "input_tokens") -
                                             least_0(count(input, "cached_tokens")) -
                                             least_0(count(input, "cache_write_tokens")));
    assert_int_equal(usage->out, count(said, "output_tokens"));
    assert_int_equal(usage->reasoning, count(output, "reasoning_tokens"));
}

static void check_reply(const pw_reply *reply, pw_str expected_text)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *expected = parse(&arena, expected_text);
    assert_true(pw_str_equal(reply->response_id, pw_json_text(pw_json_get(expected, "id"))));
    assert_true(pw_str_equal(reply->model, pw_json_text(pw_json_get(expected, "model"))));
    assert_true(pw_str_is(reply->provider, "openai"));
    assert_true(pw_str_is(pw_json_text(pw_json_get(expected, "stop_reason")), "completed"));
    check_text(reply, PW_PART_TEXT, pw_json_text(pw_json_get(expected, "text")));
    check_text(reply, PW_PART_THINKING, pw_json_text(pw_json_get(expected, "reasoning")));
    check_items(&arena, reply, expected);
    check_usage(&reply->usage, pw_json_get(expected, "usage"));
    assert_int_equal(reply->stop, PW_STOP_TOOL_CALLS);
    pw_arena_free(&arena);
}

/* Of the `error` event and the response.failed behind it one failure; a request that never fits. */
static void check_failure(const pw_failure *failure, pw_str expected_text)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *error = pw_json_get(parse(&arena, expected_text), "error");
    assert_true(pw_str_is(pw_json_text(pw_json_get(error, "code")), "rate_limit_exceeded"));
    assert_int_equal(failure->failure_class, PW_FAILURE_REPAIR);
    assert_true(pw_str_is(failure->code, "request_too_large"));
    assert_true(pw_str_equal(failure->message, pw_json_text(pw_json_get(error, "message"))));
    assert_int_equal(failure->usage.out, -1);
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

static void test_P12_responses_whole_and_in_pieces(void **state)
{
    (void)state;
    const size_t pieces[] = {SIZE_MAX / 2, 7, 1, 1000};
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("responses", recordings[i], &body, &expected);
        const bool fails = pw_str_find(body, PW_STR("response.failed")) != SIZE_MAX;
        for (size_t k = 0; k < 4; k++) {
            reading r = read_body(body, pieces[k]);
            assert_int_equal(r.status, fails ? PW_END : PW_OK);
            check(&r, expected);
            tested->stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* Where a cut leaves enough to know how the answer ended. */
static bool is_known(pw_str body)
{
    return pw_str_find(body, PW_STR("\"type\":\"response.completed\"")) != SIZE_MAX ||
           pw_str_find(body, PW_STR("event: error")) != SIZE_MAX;
}

static void test_P12_responses_cut_at_every_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("responses", recordings[i], &body, &expected);
        for (size_t at = 0; at + 1 < body.len; at++) {
            if (at > 0 && !(body.ptr[at - 1] == '\n' && body.ptr[at] == '\n')) {
                continue;
            }
            const pw_str begun = pw_str_slice(body, 0, at == 0 ? 0 : at + 1);
            reading r = read_body(begun, 4096);
            if (is_known(begun)) {
                check(&r, expected);
            } else {
                assert_int_equal(r.status, PW_END);
                assert_int_equal(r.failure.failure_class, PW_FAILURE_RETRY);
                assert_true(pw_str_is(r.failure.code, "cut_off"));
            }
            tested->stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* All items go back in their order, without ids of the server (but encrypted reasoning's own),
 * reasoning before what it came with (bug 28), calls with our own ids (bugs 25, 26), and everything
 * else as it came (C8). */
static void check_echo(pw_arena *arena, const pw_reply *reply, const pw_json *input)
{
    const pw_json *item = pw_json_at(input, 1);
    for (size_t i = 0; i < reply->part_count; i++, item = item->next) {
        const pw_part *part = &reply->parts[i];
        const pw_json *raw = part->raw.len > 0 ? parse(arena, part->raw) : NULL;
        if (part->kind == PW_PART_THINKING && i + 1 == reply->part_count) {
            return;
        }
        const bool encrypted = pw_json_get(raw, "encrypted_content") != NULL;
        assert_non_null(item);
        assert_true(encrypted == (pw_json_get(item, "id") != NULL));
        for (const pw_json *member = raw ? raw->child : NULL; member; member = member->next) {
            const pw_json *sent = pw_json_get_str(item, member->key);
            const bool ours = pw_str_is(member->key, "id") || pw_str_is(member->key, "call_id") ||
                              pw_str_is(member->key, "content") ||
                              pw_str_is(member->key, "arguments");
            assert_true((ours && part->kind != PW_PART_THINKING) || pw_str_is(member->key, "id") ||
                        pw_str_equal(sent->raw, member->raw));
        }
        if (part->kind == PW_PART_TOOL_CALL) {
            assert_true(pw_json_text(pw_json_get(item, "call_id")).len <= 64);
            assert_true(
                pw_str_equal(pw_json_text(pw_json_get(item, "arguments")), part->arguments));
        }
    }
}

static void test_C8_responses_echo_of_recordings(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("responses", recordings[i], &body, &expected);
        reading r = read_body(body, 7);
        fixture f;
        fixture_init(&f, "{\"provider\":\"openai\",\"name\":\"x\"}");
        if (r.status == PW_OK) {
            f.model.name = r.reply->model;
            say(&f, "go");
            pw_message *message = add_message(&f, PW_ROLE_ASSISTANT, 0);
            message->provider = r.reply->provider;
            message->model = r.reply->model;
            message->parts = r.reply->parts;
            message->part_count = r.reply->part_count;
            for (size_t k = 0; k < r.reply->part_count; k++) {
                r.reply->parts[k].call = r.reply->parts[k].provider_id;
            }
            char *sent = conversation(&f, 0);
            pw_buffer list;
            pw_buffer_init_arena(&list, &f.arena, SIZE_MAX / 4);
            pw_buffer_format(&list, "[%s]", sent);
            check_echo(&f.arena, r.reply, parse(&f.arena, pw_buffer_str(&list)));
            free(sent);
        }
        fixture_free(&f);
        tested->stream_free(r.stream);
        forget(body, expected);
    }
}

int main(void)
{
    tested = &pw_provider_openai;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P12_responses_whole_and_in_pieces),
        cmocka_unit_test(test_P12_responses_cut_at_every_event),
        cmocka_unit_test(test_C8_responses_echo_of_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
