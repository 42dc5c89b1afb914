/*
 * Every allocation of the codecs fails once, and from some point on for ever: the answer is
 * PW_NOMEM or the right one, nothing leaks, and a render cache stays usable.
 */
#include "support.h"

#include <string.h>

#include "../support/failing_allocator.h"

static const char anthropic_body[] =
    "data: "
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"x\","
    "\"usage\":{\"input_tokens\":1}}}\n\n"
    "data: "
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{"
    "\"type\":\"thinking\",\"thinking\":\"\"}}\n\n"
    "data: "
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
    "\"thinking_delta\",\"thinking\":\"hm\"}}\n\n"
    "data: "
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
    "\"signature_delta\",\"signature\":\"s\"}}\n\n"
    "data: "
    "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{"
    "\"type\":\"text\",\"text\":\"\"}}\n\n"
    "data: "
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
    "\"text_delta\",\"text\":\"a\\u0000b\"}}\n\n"
    "data: "
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
    "\"citations_delta\",\"citation\":{\"a\":1}}}\n\n"
    "data: "
    "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{"
    "\"type\":\"tool_use\",\"id\":\"t\",\"name\":"
    "\"n\",\"input\":{},\"caller\":1}}\n\n"
    "data: "
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":"
    "\"input_json_delta\",\"partial_json\":"
    "\"{\\\"a\\\":1}\"}}\n\n"
    "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
    "data: "
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},"
    "\"usage\":{\"output_tokens\":5}}\n\n"
    "data: {\"type\":\"message_stop\"}\n\n";

static const char chat_body[] =
    "data: "
    "{\"id\":\"i\",\"model\":\"m\",\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\","
    "\"content\":"
    "\"a\\u0000b\"}}]}\n\n"
    "data: "
    "{\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"x\"}]"
    "}}]}"
    "\n\n"
    "data: "
    "{\"choices\":[{\"delta\":{\"reasoning_details\":[{\"type\":\"reasoning.text\",\"text\":\"y\","
    "\"signature\":\"s\"}],\"extra_content\":{\"a\":1}}}]}\n\n"
    "data: "
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":"
    "\"f\","
    "\"arguments\":\"{}\"},\"extra_content\":{\"a\":1}}]}}]}\n\n"
    "data: "
    "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":"
    "\"g\","
    "\"arguments\":{\"b\":1}}}],\"function_call\":{\"name\":\"h\"}}}]}\n\n"
    "data: {\"choices\":[{\"finish_reason\":\"bored\"}],\"usage\":{\"prompt_tokens\":1}}\n\n"
    "data: [DONE]\n\n";

static const char responses_body[] =
    "data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n"
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,"
    "\"summary_index\":0,\"delta\":\"a\\u0000b\"}\n\n"
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,"
    "\"summary_index\":1,\"delta\":\"c\"}\n\n"
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":2,\"delta\":\"x\"}\n\n"
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":"
    "\"message\",\"phase\":\"p\",\"content\":[{\"type\":\"output_text\",\"text\":\"t\"},"
    "{\"type\":\"refusal\",\"refusal\":\"no\"}]}}\n\n"
    "data: {\"type\":\"response.output_item.added\",\"output_index\":3,\"item\":{\"type\":"
    "\"function_call\",\"call_id\":\"c\",\"name\":\"n\",\"caller\":1,\"arguments\":\"\"}}\n\n"
    "data: {\"type\":\"response.function_call_arguments.done\",\"output_index\":3,"
    "\"arguments\":\"{}\"}\n\n"
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{"
    "\"input_tokens\":1}}}\n\n";

static void sweep_reading(pw_str body)
{
    char *right = told(body, WHOLE);
    const size_t pieces[] = {0, 7};
    for (size_t p = 0; p < 2; p++) {
        for (int forever = 0; forever < 2; forever++) {
            uint64_t at = 1;
            for (;; at++) {
                pw_test_allocator t;
                pw_test_allocator_init(&t);
                pw_test_allocator_fail(&t, at, forever != 0);
                pw_buffer out;
                pw_buffer_init(&out, &pw_heap, 1 << 20);
                const pw_status status =
                    run_stream(&t.allocator, body, (cutting){pieces[p], SIZE_MAX}, &out);
                if (t.failed == 0 ||
                    status != PW_NOMEM) { /* an arena may do with a smaller block */
                    assert_int_equal(status, PW_OK);
                    assert_string_equal(out.ptr, right);
                }
                assert_int_equal(t.live_bytes, 0);
                pw_buffer_free(&out);
                if (t.failed == 0) {
                    break;
                }
            }
            assert_true(at > 10);
        }
    }
    free(right);
}

static void test_reading_an_answer(void **state)
{
    (void)state;
    sweep_reading(PW_STR(anthropic_body));
    tested = &pw_provider_chat;
    sweep_reading(PW_STR(chat_body));
    tested = &pw_provider_openai;
    sweep_reading(PW_STR(responses_body));
    tested = &pw_provider_anthropic;
}

static void fill_anthropic(fixture *f)
{
    say(f, "x\xFF");
    pw_part *parts = answer(f, 4);
    parts[0] = raw_part(PW_PART_THINKING, "a",
                        "{\"type\":\"thinking\",\"thinking\":\"a\",\"signature\":\"s\"}");
    parts[1] = raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"server_tool_use\",\"id\":\"s\"}");
    parts[2] =
        raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"x_tool_result\",\"tool_use_id\":\"s\"}");
    parts[3] = call_part("t", "look", "{\"a\":\"b\"}");
    parts[3].raw =
        PW_STR("{\"type\":\"tool_use\",\"id\":\"o\",\"name\":\"look\",\"input\":{},\"caller\":1}");
    result(f, "t", "\"text\"");
    for (int i = 0; i < 20; i++) {
        say(f, "more");
    }
}

static void fill_chat(fixture *f)
{
    say(f, "x\xFF");
    pw_part *parts = answer(f, 3);
    parts[0] = raw_part(PW_PART_THINKING, "a", "{\"reasoning_details\":[1]}");
    parts[1] = text_part("b");
    parts[2] = call_part("t", "look", "{\"a\":\"b\"}");
    parts[2].raw = PW_STR("{\"extra_content\":{\"a\":1}}");
    result(f, "t", "\"text\"");
    pw_message *seen = add_message(f, PW_ROLE_USER, 1);
    ((pw_part *)(uintptr_t)seen->parts)[0] =
        raw_part(PW_PART_OTHER, "",
                 "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
                 "\"data\":\"QQ==\"}}");
    for (int i = 0; i < 20; i++) {
        say(f, "more");
    }
}

static void fill_responses(fixture *f)
{
    pw_message *seen = add_message(f, PW_ROLE_USER, 2);
    pw_part *parts = (pw_part *)(uintptr_t)seen->parts;
    parts[0] = text_part("x\xFF");
    parts[1] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"document\",\"title\":\"t\",\"source\":{\"type\":\"base64\","
                        "\"media_type\":\"application/pdf\",\"data\":\"QQ==\"}}");
    parts = answer(f, 4);
    parts[0] = raw_part(PW_PART_THINKING, "a", "{\"id\":\"r\",\"type\":\"reasoning\"}");
    parts[1] = raw_part(PW_PART_TEXT, "b", "{\"type\":\"message\",\"content\":[],\"phase\":\"p\"}");
    parts[2] = call_part("t", "look", "{\"a\":\"b\"}");
    parts[2].raw = PW_STR("{\"type\":\"function_call\",\"arguments\":\"\",\"caller\":1}");
    parts[3] = call_part("u", "look", "free");
    parts[3].broken = true;
    parts[3].raw = PW_STR("{\"type\":\"custom_tool_call\",\"input\":\"free\"}");
    result(f, "t", "\"text\"");
    result(f, "u", "\"no\"");
    for (int i = 0; i < 20; i++) {
        say(f, "more");
    }
}

static void sweep_rendering(const char *model, void (*fill)(fixture *))
{
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            fixture f;
            fixture_init(&f, model);
            fill(&f);
            pw_render render;
            pw_arena arena;
            pw_render_init(&render, &t.allocator);
            pw_arena_init(&arena, &t.allocator, 0, 0);
            const pw_endpoint endpoint = {.base_url = PW_STR_INIT("http://h"),
                                          .key = PW_STR_INIT("k")};
            pw_http_request http = {.method = PW_STR_NONE};
            pw_test_allocator_fail(&t, at, forever != 0);
            pw_status status = tested->request(&endpoint, &f.request, &render, &arena, &http, NULL);
            const uint64_t failed = t.failed;
            assert_true(status == PW_OK || (failed && status == PW_NOMEM));
            pw_test_allocator_fail(&t, 0, false);
            f.request.same = f.count; /* whatever was left behind, the next one is right */
            status = tested->request(&endpoint, &f.request, &render, &arena, &http, NULL);
            assert_int_equal(status, PW_OK);
            char *right = conversation(&f, 0);
            assert_int_equal(http.body[1].len, strlen(right));
            assert_memory_equal(http.body[1].ptr, right, strlen(right));
            free(right);
            pw_arena_free(&arena);
            pw_render_free(&render);
            assert_int_equal(t.live_bytes, 0);
            fixture_free(&f);
            if (!failed) {
                assert_true(at > 5);
                break;
            }
        }
    }
}

static void test_rendering_a_request(void **state)
{
    (void)state;
    sweep_rendering("{\"provider\":\"anthropic\",\"name\":\"claude-x\"}", fill_anthropic);
    tested = &pw_provider_chat;
    sweep_rendering("{\"provider\":\"openai-chat\",\"name\":\"m\",\"dialect\":\"other\"}",
                    fill_chat);
    sweep_rendering("{\"provider\":\"openai-chat\",\"name\":\"m\",\"dialect\":\"perplexity\","
                    "\"echo_reasoning\":true}",
                    fill_chat);
    tested = &pw_provider_openai;
    sweep_rendering("{\"provider\":\"openai\",\"name\":\"m\"}", fill_responses);
    tested = &pw_provider_anthropic;
}

static void test_finding_what_was_rejected(void **state)
{
    (void)state;
    const pw_str body = PW_STR("{\"error\":{\"param\":\"input[0].content[1]\"}}");
    fixture f;
    tested = &pw_provider_openai;
    fixture_init(&f, "{\"provider\":\"openai\",\"name\":\"m\"}");
    fill_responses(&f);
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_arena arena;
            size_t message = 77, part = 77;
            pw_test_allocator_init(&t);
            pw_arena_init(&arena, &t.allocator, 64, 0);
            pw_test_allocator_fail(&t, at, forever != 0);
            if (tested->rejected(&f.request, 400, body, &arena, &message, &part)) {
                assert_int_equal(message, 0);
                assert_int_equal(part, 1);
            } else {
                assert_true(t.failed > 0);
            }
            pw_arena_free(&arena);
            assert_int_equal(t.live_bytes, 0);
            if (t.failed == 0) {
                assert_true(at > 5);
                break;
            }
        }
    }
    fixture_free(&f);
    tested = &pw_provider_anthropic;
}

static void sweep_failure(int status, pw_failure_class wanted, pw_str answer_body)
{
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            pw_arena arena;
            pw_arena_init(&arena, &t.allocator, 64, 0);
            pw_test_allocator_fail(&t, at, forever != 0);
            const pw_endpoint endpoint = {.now_ms = NOW_MS};
            const pw_failure f = tested->failure(&endpoint, status, NULL, 0, answer_body, &arena);
            assert_int_equal(f.failure_class, wanted); /* the class needs no memory */
            assert_true(f.code.len > 0);
            assert_int_equal(pw_str_find(f.message, PW_STR("sk-ant")), SIZE_MAX);
            pw_arena_free(&arena);
            assert_int_equal(t.live_bytes, 0);
            if (t.failed == 0) {
                break;
            }
        }
    }
}

static void test_classing_a_failure(void **state)
{
    (void)state;
    sweep_failure(
        529, PW_FAILURE_RETRY,
        PW_STR("{\"error\":{\"type\":\"overloaded_error\",\"message\":\"no sk-ant-123456 now\"}}"));
    tested = &pw_provider_chat;
    sweep_failure(400, PW_FAILURE_FINAL,
                  PW_STR("{\"error\":{\"code\":\"unknown_parameter\",\"param\":\"stream_options\","
                         "\"message\":\"no sk-ant-123456 now\"}}"));
    tested = &pw_provider_anthropic;
}

/* Without memory there is no position, or the right one. */
static void test_finding_a_position(void **state)
{
    (void)state;
    const pw_str complaint = PW_STR("{\"error\":{\"message\":\"messages[3].content[0]: bad\"}}");
    fixture f;
    fixture_init(&f, "{\"provider\":\"openai-chat\",\"name\":\"m\"}");
    fill_chat(&f);
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            pw_arena arena;
            pw_arena_init(&arena, &t.allocator, 64, 0);
            pw_test_allocator_fail(&t, at, forever != 0);
            size_t message = 99, part = 99;
            const bool said =
                pw_provider_chat.rejected(&f.request, 400, complaint, &arena, &message, &part);
            assert_true(said || t.failed);
            assert_true(!said || (message == 3 && part == 0));
            pw_arena_free(&arena);
            assert_int_equal(t.live_bytes, 0);
            if (t.failed == 0) {
                break;
            }
        }
    }
    fixture_free(&f);
}

static void test_playing_a_script(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, "{\"provider\":\"scripted\",\"name\":\"s\",\"script\":[{\"when\":{\"turn\":"
                     "\"nothing\"}},{\"think\":"
                     "\"a long thought, longer than a chunk\",\"text\":\"{{last}} and "
                     "{{last}}\",\"repeat\":5000,"
                     "\"calls\":[{\"name\":\"t\",\"arguments\":{\"a\":\"{{last}}\"}}]}]}");
    say(&f, "x");
    pw_part *parts = answer(&f, 1);
    parts[0] = call_part("a", "t", "{}");
    result(&f, "a", "\"result\\u0000\"");
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator t;
            pw_test_allocator_init(&t);
            pw_arena arena;
            pw_arena_init(&arena, &t.allocator, 64, 0);
            pw_test_allocator_fail(&t, at, forever != 0);
            const pw_play *list = NULL;
            size_t count = 0;
            const pw_status status =
                pw_scripted_play(&f.request, NOW_MS, &arena, &list, &count, NULL);
            assert_true(status == PW_OK || (t.failed && status == PW_NOMEM));
            pw_arena_free(&arena);
            assert_int_equal(t.live_bytes, 0);
            if (t.failed == 0) {
                break;
            }
        }
    }
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_an_answer),
        cmocka_unit_test(test_rendering_a_request),
        cmocka_unit_test(test_finding_what_was_rejected),
        cmocka_unit_test(test_classing_a_failure),
        cmocka_unit_test(test_finding_a_position),
        cmocka_unit_test(test_playing_a_script),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
