/*
 * Recorded Anthropic answers (PROVIDERS.md 12): whole, in 7-byte pieces, and cut at every event,
 * against the expected results that come with them.
 */
#include "support.h"

#include <string.h>

#include "base/sha256.h"

static const char *const recordings[] = {
    "thinking_then_tool_use.sse",      "pause_turn_web_search.sse", "tool_search_then_tool_use.sse",
    "stop_sequence_prefill.sse",       "tool_use_no_arguments.sse", "web_search_citations.sse",
    "max_tokens_inside_tool_json.sse",
};
#define RECORDING_COUNT (sizeof recordings / sizeof recordings[0])

static void check_calls(pw_arena *arena, const pw_reply *reply, const pw_json *expected)
{
    const pw_json *call = pw_json_get(expected, "tool_calls")->child;
    const pw_json *server = pw_json_get(expected, "server_tool_uses")->child;
    for (size_t i = 0; i < reply->part_count; i++) {
        const pw_part *part = &reply->parts[i];
        if (part->kind == PW_PART_TOOL_CALL) {
            assert_non_null(call);
            assert_true(pw_str_equal(part->provider_id, pw_json_text(pw_json_get(call, "id"))));
            assert_true(pw_str_equal(part->name, pw_json_text(pw_json_get(call, "name"))));
            const pw_json *cut = pw_json_get(call, "arguments_incomplete");
            assert_int_equal(part->broken, cut != NULL);
            if (cut) {
                assert_true(pw_str_equal(part->arguments, cut->text));
            } else {
                assert_true(
                    pw_json_equal(parse(arena, part->arguments), pw_json_get(call, "arguments")));
            }
            call = call->next;
        } else if (part->kind == PW_PART_SERVER_TOOL) {
            const pw_json *block = parse(arena, part->raw);
            if (pw_str_is(pw_json_text(pw_json_get(block, "type")), "server_tool_use")) {
                assert_non_null(server);
                assert_true(pw_json_equal(pw_json_get(block, "id"), pw_json_get(server, "id")));
                assert_true(pw_json_equal(pw_json_get(block, "name"), pw_json_get(server, "name")));
                assert_true(
                    pw_json_equal(pw_json_get(block, "input"), pw_json_get(server, "arguments")));
                server = server->next;
            }
        }
    }
    assert_null(call);
    assert_null(server);
}

static void check_blocks(pw_arena *arena, const pw_reply *reply, const pw_json *expected)
{
    const pw_json *types = pw_json_get(expected, "blocks");
    assert_int_equal(types->count, reply->part_count);
    int64_t citations = 0;
    size_t i = 0;
    for (const pw_json *type = types->child; type; type = type->next, i++) {
        const pw_part *part = &reply->parts[i];
        const pw_json *raw = part->raw.len > 0 ? parse(arena, part->raw) : NULL;
        if (raw) {
            assert_true(pw_json_equal(pw_json_get(raw, "type"), type));
        } else {
            assert_true(pw_str_is(type->text, part->kind == PW_PART_TEXT ? "text" : "tool_use"));
        }
        const pw_json *list = pw_json_get(raw, "citations");
        citations += list ? list->count : 0;
        const pw_json *signature = pw_json_get(raw, "signature");
        if (signature) {
            const pw_hash hash = pw_sha256_of(signature->text);
            const pw_hash_hex hex = pw_hash_to_hex(&hash);
            const pw_json *want = pw_json_get(expected, "signature_sha256");
            assert_true(pw_str_is(pw_json_text(want), hex.text));
        }
    }
    assert_int_equal(citations, pw_json_i64_or(pw_json_get(expected, "citations"), 0));
}

static void check_stop_and_usage(const pw_reply *reply, const pw_json *expected)
{
    const struct {
        const char *reason;
        pw_stop stop;
    } stops[] = {{"end_turn", PW_STOP_DONE},
                 {"tool_use", PW_STOP_TOOL_CALLS},
                 {"pause_turn", PW_STOP_PAUSED},
                 {"max_tokens", PW_STOP_MAX_OUTPUT},
                 {"stop_sequence", PW_STOP_STOP_SEQUENCE}};
    const pw_str reason = pw_json_text(pw_json_get(expected, "stop_reason"));
    bool found = false;
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        if (pw_str_is(reason, stops[i].reason)) {
            found = true;
            assert_int_equal(reply->stop, stops[i].stop);
        }
    }
    assert_true(found);
    assert_true(
        pw_str_equal(reply->stop_detail, pw_json_text(pw_json_get(expected, "stop_sequence"))));
    const pw_json *usage = pw_json_get(expected, "usage");
    const pw_json *details = pw_json_get(usage, "output_tokens_details");
    assert_int_equal(reply->usage.in_uncached,
                     pw_json_i64_or(pw_json_get(usage, "input_tokens"), -1));
    assert_int_equal(reply->usage.out, pw_json_i64_or(pw_json_get(usage, "output_tokens"), -1));
    assert_int_equal(reply->usage.in_cache_read,
                     pw_json_i64_or(pw_json_get(usage, "cache_read_input_tokens"), -1));
    assert_int_equal(reply->usage.in_cache_write,
                     pw_json_i64_or(pw_json_get(usage, "cache_creation_input_tokens"), -1));
    assert_int_equal(reply->usage.reasoning,
                     pw_json_i64_or(pw_json_get(details, "thinking_tokens"), -1));
}

static void check_reply(const pw_reply *reply, pw_str expected_text)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_json *expected = parse(&arena, expected_text);
    assert_true(pw_str_equal(reply->response_id, pw_json_text(pw_json_get(expected, "id"))));
    assert_true(pw_str_equal(reply->model, pw_json_text(pw_json_get(expected, "model"))));
    assert_true(pw_str_is(reply->provider, "anthropic"));
    check_text(reply, PW_PART_TEXT, pw_json_text(pw_json_get(expected, "text")));
    check_text(reply, PW_PART_THINKING, pw_json_text(pw_json_get(expected, "thinking")));
    check_calls(&arena, reply, expected);
    check_blocks(&arena, reply, expected);
    check_stop_and_usage(reply, expected);
    pw_arena_free(&arena);
}

static void test_P12_whole_and_in_pieces(void **state)
{
    (void)state;
    const size_t pieces[] = {SIZE_MAX / 2, 7, 1, 1000};
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("anthropic", recordings[i], &body, &expected);
        for (size_t k = 0; k < 4; k++) {
            reading r = read_body(body, pieces[k]);
            assert_int_equal(r.status, PW_OK);
            check_reply(r.reply, expected);
            pw_provider_anthropic.stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* Cut at every event: cut_off as long as no stop reason is known, then the whole reply. */
static void test_P12_cut_at_every_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("anthropic", recordings[i], &body, &expected);
        const size_t known = pw_str_find(body, PW_STR("event: message_delta"));
        for (size_t at = 0; at + 1 < body.len; at++) {
            if (at > 0 && !(body.ptr[at - 1] == '\n' && body.ptr[at] == '\n')) {
                continue;
            }
            reading r = read_body(pw_str_slice(body, 0, at == 0 ? 0 : at + 1), 4096);
            if (at < known) {
                assert_int_equal(r.status, PW_END);
                assert_int_equal(r.failure.failure_class, PW_FAILURE_RETRY);
                assert_true(pw_str_is(r.failure.code, "cut_off"));
                assert_int_equal(at == 0 ? -1 : 0, r.failure.usage.in_uncached < 0 ? -1 : 0);
            } else {
                assert_int_equal(r.status, PW_OK);
                check_reply(r.reply, expected);
            }
            pw_provider_anthropic.stream_free(r.stream);
        }
        forget(body, expected);
    }
}

/* What a recording assembled goes back as it came: thinking, its signature, server tools, citations
 * (C8). */
static void test_C8_echo_of_recordings(void **state)
{
    (void)state;
    for (size_t i = 0; i < RECORDING_COUNT; i++) {
        pw_str body, expected;
        recording("anthropic", recordings[i], &body, &expected);
        reading r = read_body(body, 7);
        fixture f;
        fixture_init(&f, "{\"provider\":\"anthropic\",\"name\":\"x\"}");
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
        for (size_t k = 0; k < r.reply->part_count; k++) {
            const pw_part *part = &r.reply->parts[k];
            if (part->raw.len > 0 && part->kind != PW_PART_TOOL_CALL) {
                assert_true(pw_str_find(pw_str_from(sent), part->raw) != SIZE_MAX);
            }
        }
        free(sent);
        fixture_free(&f);
        pw_provider_anthropic.stream_free(r.stream);
        forget(body, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P12_whole_and_in_pieces),
        cmocka_unit_test(test_P12_cut_at_every_event),
        cmocka_unit_test(test_C8_echo_of_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
