/*
 * Requests to Anthropic: the stable prefix (C10), what goes back byte-exact (C8), ids (D10),
 * results, and what is left out (PROVIDERS.md 3.2 to 3.4 and 10).
 */
#include "support.h"

#include "model/rendering.h"

#include <string.h>

#define MODEL "{\"provider\":\"anthropic\",\"name\":\"claude-x-1-20260101\"}"

static void expect_conversation(fixture *f, const char *wanted)
{
    char *text = conversation(f, 0);
    assert_string_equal(text, wanted);
    free(text);
}

/* The next request begins with this one's bytes; and rendering it anew gives the same. */
static char *next_conversation(fixture *f, char *before, size_t same)
{
    char *text = conversation(f, same);
    assert_true(strncmp(text, before, strlen(before)) == 0);
    pw_render_free(&f->render);
    pw_render_init(&f->render, &pw_heap);
    char *anew = conversation(f, 0); /* as after a restart */
    assert_string_equal(anew, text);
    free(anew);
    free(before);
    return text;
}

static pw_http_request whole_request(fixture *f, const char *base_url, const char *key)
{
    const pw_endpoint endpoint = {.base_url = pw_str_from(base_url), .key = pw_str_from(key)};
    pw_http_request http = {.method = PW_STR_NONE};
    assert_int_equal(
        pw_provider_anthropic.request(&endpoint, &f->request, &f->render, &f->arena, &http, NULL),
        PW_OK);
    return http;
}

static pw_str header_of(const pw_http_request *http, const char *name)
{
    for (size_t i = 0; i < http->header_count; i++) {
        if (pw_str_is(http->headers[i].name, name)) {
            return http->headers[i].value;
        }
    }
    return PW_STR_NONE;
}

static void test_P3_1_url_and_headers(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "hi");
    pw_http_request http = whole_request(&f, "https://api.anthropic.com/", "sk-ant-api-1");
    assert_true(pw_str_is(http.method, "POST"));
    assert_true(pw_str_is(http.url, "https://api.anthropic.com/v1/messages"));
    assert_true(pw_str_is(header_of(&http, "content-type"), "application/json"));
    assert_true(pw_str_is(header_of(&http, "accept"), "text/event-stream"));
    assert_true(pw_str_is(header_of(&http, "accept-encoding"), "identity"));
    assert_true(pw_str_is(header_of(&http, "anthropic-version"), "2023-06-01"));
    assert_true(pw_str_is(header_of(&http, "x-api-key"), "sk-ant-api-1"));
    assert_null(header_of(&http, "authorization").ptr);
    http = whole_request(&f, "http://h:1/x", "sk-ant-oat-2");
    assert_true(pw_str_is(http.url, "http://h:1/x/v1/messages"));
    assert_true(pw_str_is(header_of(&http, "authorization"), "Bearer sk-ant-oat-2"));
    assert_null(header_of(&http, "x-api-key").ptr);
    http = whole_request(&f, "http://h", "");
    assert_int_equal(http.header_count, 4);
    fixture_free(&f);
}

static void test_N3_the_key_is_in_no_body_and_no_error(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "hi");
    const pw_http_request http = whole_request(&f, "http://h", "canary-0123456789");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pw_str_find(http.body[i], PW_STR("canary")), SIZE_MAX);
    }
    assert_int_equal(pw_str_find(http.url, PW_STR("canary")), SIZE_MAX);
    const pw_endpoint bad = {.base_url = PW_STR_INIT("http://h"),
                             .key = PW_STR_INIT("canary\r\nx: y")};
    pw_http_request ignored = {.method = PW_STR_NONE};
    pw_error error = {.message = ""};
    assert_int_equal(
        pw_provider_anthropic.request(&bad, &f.request, &f.render, &f.arena, &ignored, &error),
        PW_INVALID);
    assert_lacks(error.message, "canary");
    fixture_free(&f);
}

static void test_P3_2_prefix(void **state)
{
    (void)state;
    fixture f;
    fixture_init(
        &f, "{\"provider\":\"anthropic\",\"name\":\"m\",\"max_tokens\":4096,\"temperature\":0.70,"
            "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000}}");
    const pw_json *schema = NULL, *bare = NULL;
    pw_json_parse(&f.arena,
                  PW_STR("{\"properties\":{\"n\":{\"minimum\":1.0}},\"type\":\"object\"}"), 0,
                  &schema, NULL);
    pw_json_parse(&f.arena, PW_STR("{\"required\":[\"a\"]}"), 0, &bare, NULL);
    const pw_tool_declaration tools[] = {
        {.name = PW_STR_INIT("look"), .description = PW_STR_INIT("Looks."), .input = schema},
        {.name = PW_STR_INIT("bare"), .input = bare},
        {.name = PW_STR_INIT("any")}};
    f.definition.instructions = PW_STR("Be \"kind\".");
    f.definition.tools = tools;
    f.definition.tool_count = 3;
    say(&f, "hi");
    pw_http_request http = whole_request(&f, "http://h", "");
    const char *wanted = "{\"model\":\"m\",\"max_tokens\":4096,\"system\":[{\"type\":\"text\","
                         "\"text\":\"Be \\\"kind\\\".\","
                         "\"cache_control\":{\"type\":\"ephemeral\"}}],\"tools\":[{\"name\":"
                         "\"look\",\"description\":\"Looks.\","
                         "\"input_schema\":{\"properties\":{\"n\":{\"minimum\":1.0}},\"type\":"
                         "\"object\"}},{\"name\":\"bare\","
                         "\"input_schema\":{\"required\":[\"a\"],\"type\":\"object\"}},{\"name\":"
                         "\"any\",\"input_schema\":{\"type\":"
                         "\"object\"},\"cache_control\":{\"type\":\"ephemeral\"}}],\"thinking\":{"
                         "\"type\":\"enabled\",\"budget_tokens\":"
                         "2000},\"temperature\":0.70,\"cache_control\":{\"type\":\"ephemeral\"},"
                         "\"stream\":true,\"messages\":[";
    assert_int_equal(http.body[0].len, strlen(wanted));
    assert_memory_equal(http.body[0].ptr, wanted, strlen(wanted));
    assert_true(pw_str_is(http.body[2], "]}"));
    fixture_free(&f);

    fixture_init(&f, "{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":\"adaptive\"}");
    say(&f, "hi");
    http = whole_request(&f, "http://h", "");
    assert_true(pw_str_is(
        http.body[0], "{\"model\":\"m\",\"max_tokens\":8192,\"thinking\":{\"type\":\"adaptive\"},"
                      "\"cache_control\":{\"type\":\"ephemeral\"},\"stream\":true,\"messages\":["));
    fixture_free(&f);
}

static void test_P3_3_results_are_one_message_in_call_order(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "hi");
    pw_part *parts = answer(&f, 3);
    parts[0] = text_part("Let me see.");
    parts[1] = call_part("toolu_a", "look", "{ \"n\" : 1.50, \"s\":\"\\u00e9\" }");
    parts[2] = call_part("toolu_b", "look", "{}");
    result(&f, "toolu_a", "{\"ok\": 1.50}");
    result(&f, "toolu_b", "\"plain \\\"text\\\"\"")->is_error = true;
    parts = answer(&f, 1);
    parts[0] = call_part("toolu_c", "look", "{}");
    result(&f, "toolu_c", "\"\"");
    say(&f, "and?");
    expect_conversation(
        &f, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]},"
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Let me see.\"},"
            "{\"type\":\"tool_use\",\"id\":\"c2_toolu_a\",\"name\":\"look\",\"input\":{\"n\":1.50,"
            "\"s\":\"\xC3\xA9\"}},"
            "{\"type\":\"tool_use\",\"id\":\"c2_toolu_b\",\"name\":\"look\",\"input\":{}}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c2_toolu_"
            "a\",\"content\":"
            "\"{\\\"ok\\\": "
            "1.50}\"},{\"type\":\"tool_result\",\"tool_use_id\":\"c2_toolu_b\",\"content\":"
            "\"plain \\\"text\\\"\",\"is_error\":true}]},"
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c5_toolu_c\","
            "\"name\":\"look\","
            "\"input\":{}}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c5_toolu_"
            "c\"}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"and?\"}]}");
    fixture_free(&f);
}

static void test_C10_stable_prefix(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "hi");
    char *text = conversation(&f, 0);
    for (int step = 0; step < 8; step++) {
        const size_t same = f.count;
        pw_part *parts = answer(&f, 3);
        parts[0] = raw_part(PW_PART_THINKING, "hm",
                            "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"}");
        parts[1] = call_part("a", "look", "{\"x\": 1}");
        parts[2] = call_part(".2", "look", "{}");
        result(&f, "a", "1");
        result(&f, ".2", "null");
        text = next_conversation(&f, text, step % 2 ? same : 0);
    }
    say(&f, "again");
    text = next_conversation(&f, text, f.count - 1);
    /* an answer that is left out whole leaves the bytes as they were */
    pw_part *parts = answer(&f, 1);
    parts[0] = text_part(" \n");
    say(&f, "still there?");
    text = next_conversation(&f, text, f.count - 2);
    free(text);
    fixture_free(&f);
}

static void test_C10_only_new_messages_are_rendered(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "first");
    free(conversation(&f, 0));
    f.messages[0].part_count = 0; /* would render otherwise */
    pw_part *parts = answer(&f, 1);
    parts[0] = text_part("b");
    say(&f, "c");
    char *text = conversation(&f, 1);
    assert_holds(text, "first");
    free(text);
    text = conversation(&f, 0);
    assert_lacks(text, "first");
    free(text);
    fixture_free(&f);
}

static void test_C10_a_cut_inside_results_goes_back_to_their_start(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 2);
    parts[0] = call_part("a", "t", "{}");
    parts[1] = call_part("b", "t", "{}");
    result(&f, "a", "1");
    pw_message *second = result(&f, "b", "2");
    free(conversation(&f, 0));
    second->result = PW_STR("3");
    char *text = conversation(&f, 3);
    fixture_free(&f);
    assert_holds(text, "\"c2_b\",\"content\":\"3\"");
    assert_holds(text, "[{\"type\":\"tool_result\",\"tool_use_id\":\"c2_a\",\"content\":\"1\"}");
    free(text);
}

static void test_D10_ids_are_unique_and_in_the_alphabet(void **state)
{
    (void)state;
    const char *const calls[] = {
        "call_0",
        ".1",
        ".2",
        "functions.Bash:0",
        "functions.Bash:1",
        "_1",
        "a b",
        "0123456789012345678901234567890123456789012345678901234567890123"};
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    for (int round = 0; round < 2; round++) { /* the provider repeats its ids in the next message */
        pw_part *parts = answer(&f, 8);
        for (size_t i = 0; i < 8; i++) {
            parts[i] = call_part(calls[i], "t", "{}");
        }
        for (size_t i = 0; i < 8; i++) {
            result(&f, calls[i], "1");
        }
    }
    char *text = conversation(&f, 0);
    assert_holds(text, "\"id\":\"c2_call_0\"");
    assert_holds(text, "\"id\":\"p2_1\"");
    assert_holds(text, "\"id\":\"c11_call_0\"");
    pw_str ids[64];
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, "\"id\":\"")) != NULL;) {
        at += 6;
        ids[count++] = (pw_str){at, (size_t)(strchr(at, '"') - at)};
    }
    assert_int_equal(count, 16);
    for (size_t i = 0; i < count; i++) {
        assert_true(ids[i].len > 0 && ids[i].len <= 64);
        for (size_t k = 0; k < ids[i].len; k++) {
            assert_non_null(strchr(
                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", ids[i].ptr[k]));
        }
        for (size_t k = 0; k < i; k++) {
            assert_false(pw_str_equal(ids[i], ids[k]));
        }
        char of_result[100];
        snprintf(of_result, sizeof of_result, "\"tool_use_id\":\"%.*s\"", PW_STR_ARG(ids[i]));
        assert_holds(text, of_result);
    }
    free(text);
    fixture_free(&f);
}

#define SIGNED "{\"type\":\"thinking\", \"thinking\":\"a\\u20ac \\/ \",\"signature\":\"S+/==\"}"

static void test_P13_20_thinking_goes_back_byte_exact(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 5);
    parts[0] = raw_part(PW_PART_THINKING, "a", SIGNED);
    parts[1] = raw_part(PW_PART_THINKING, "", "{\"type\":\"redacted_thinking\",\"data\":\"D\"}");
    parts[2] = raw_part(PW_PART_TEXT, "cited",
                        "{\"type\":\"text\",\"text\":\"cited\",\"citations\":[{\"n\":1.0}]}");
    parts[3] = (pw_part){.kind = PW_PART_THINKING, .text = PW_STR_INIT("unsigned")};
    parts[4] = raw_part(PW_PART_OTHER, "", "{\"type\":\"container_upload\",\"file_id\":\"f\"}");
    say(&f, "y");
    char *text = conversation(&f, 0);
    assert_holds(text, "\"content\":[" SIGNED ",{\"type\":\"redacted_thinking\",\"data\":\"D\"},"
                       "{\"type\":\"text\",\"text\":\"cited\",\"citations\":[{\"n\":1.0}]},"
                       "{\"type\":\"container_upload\",\"file_id\":\"f\"}]");
    assert_lacks(text, "unsigned");
    free(text);
    fixture_free(&f);
}

static void test_P10_6_another_model_or_provider_gets_no_raw(void **state)
{
    (void)state;
    const struct {
        const char *provider, *made_by, *asked;
        bool same;
    } table[] = {
        {"anthropic", "claude-x-1-20260101", "claude-x-1-20260101", true},
        {"anthropic", "claude-x-1-20260101", "claude-x-1", true},
        {"anthropic", "claude-x-1-20260101", "claude-x-1-latest", true},
        {"anthropic", "claude-x-4-20260101", "claude-x-4-0", true},
        {"anthropic", "claude-x-1-20260101", "anthropic/claude-x-1", true},
        {"anthropic", "claude-x-1-20260101", "eu.anthropic.claude-x-1-20260101-v1:0", true},
        {"anthropic", "claude-x-1-20260101", "claude-x-1@20260101", true},
        {"anthropic", "claude-x-1-20260101", "claude-x-2", false},
        {"anthropic", "claude-x-4-5-20260101", "claude-x-4", false},
        {"responses", "claude-x-1-20260101", "claude-x-1", false}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        fixture f;
        fixture_init(&f, MODEL);
        f.model.name = pw_str_from(table[i].asked);
        say(&f, "x");
        pw_part *parts = answer(&f, 5);
        f.messages[1].provider = pw_str_from(table[i].provider);
        f.messages[1].model = pw_str_from(table[i].made_by);
        parts[0] = raw_part(PW_PART_THINKING, "a", SIGNED);
        parts[1] = raw_part(PW_PART_TEXT, "cited",
                            "{\"type\":\"text\",\"text\":\"cited\",\"citations\":[1]}");
        parts[2] = raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"server_tool_use\",\"id\":\"s\"}");
        parts[3] =
            raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"x_tool_result\",\"tool_use_id\":\"s\"}");
        parts[4] = call_part("t", "look", "{}");
        parts[4].raw = PW_STR(
            "{\"type\":\"tool_use\",\"id\":\"o\",\"name\":\"look\",\"input\":{},\"caller\":1}");
        result(&f, "t", "1");
        char *text = conversation(&f, 0);
        assert_holds(text, "\"text\":\"cited\"");
        assert_holds(text, "\"id\":\"c2_t\"");
        assert_int_equal(holds(text, "thinking"), table[i].same);
        assert_int_equal(holds(text, "server_tool_use"), table[i].same);
        assert_int_equal(holds(text, "x_tool_result"), table[i].same);
        assert_int_equal(holds(text, "citations"), table[i].same);
        assert_int_equal(holds(text, "caller"), table[i].same);
        free(text);
        fixture_free(&f);
    }
}

static void test_another_family_starts_the_rendering_anew(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_THINKING, "a", SIGNED);
    parts[1] = text_part("b");
    say(&f, "y");
    free(conversation(&f, 0));
    f.model.name = PW_STR("claude-y-9");
    char *text = conversation(&f, 3); /* all the same messages, but not for this model */
    assert_lacks(text, "thinking");
    free(text);
    fixture_free(&f);
}

static void test_P3_5_caller_goes_back_with_a_new_id(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 2);
    parts[0] = call_part("toolu_1", "look", "{\"a\":1.0}");
    parts[0].raw = PW_STR("{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"look\",\"input\":{}"
                          ",\"caller\":{\"type\":"
                          "\"direct\"}}");
    parts[1] = call_part("toolu_2", "look", "{\"cut");
    parts[1].broken = true;
    parts[1].raw = PW_STR("{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"look\",\"caller\":{"
                          "\"type\":\"direct\"}}");
    result(&f, "toolu_1", "1");
    result(&f, "toolu_2", "{\"error\":\"cut\"}");
    char *text = conversation(&f, 0);
    assert_holds(text, "{\"type\":\"tool_use\",\"id\":\"c2_toolu_1\",\"name\":\"look\",\"input\":{"
                       "\"a\":1.0},\"caller\":"
                       "{\"type\":\"direct\"}}");
    assert_holds(text, "{\"type\":\"tool_use\",\"id\":\"c2_toolu_2\",\"name\":\"look\",\"caller\":{"
                       "\"type\":\"direct\"},"
                       "\"input\":{}}");
    free(text);
    fixture_free(&f);
}

static void test_C9_a_name_that_a_model_made_up_goes_out_as_one_that_is_taken(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 2);
    parts[0] = call_part("a", "look at\xEF\xBF\xBD", "{}");
    parts[0].raw = PW_STR("{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"look at\xEF\xBF\xBD\","
                          "\"input\":{}}");
    parts[1] = call_part("b", "", "{}");
    result(&f, "a", "{\"error\":\"x\"}");
    result(&f, "b", "{\"error\":\"x\"}");
    char *text = conversation(&f, 0);
    assert_holds(text, "\"id\":\"c2_a\",\"name\":\"look_at_\",");
    assert_holds(text, "\"id\":\"c2_b\",\"name\":\"_\",");
    free(text);
    fixture_free(&f);
    char longest[100];
    memset(longest, 'n', sizeof longest);
    assert_int_equal(strlen(pw_tool_name_of((pw_str){longest, sizeof longest}).text), 64);
}

static void test_P13_30_input_is_always_an_object(void **state)
{
    (void)state;
    const char *const bad[] = {"", "null", "[1]", "\"{}\"", "{\"a\":", "12"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fixture f;
        fixture_init(&f, MODEL);
        say(&f, "x");
        pw_part *parts = answer(&f, 1);
        parts[0] = call_part("a", "t", bad[i]);
        parts[0].broken = i % 2 == 0;
        result(&f, "a", "1");
        char *text = conversation(&f, 0);
        assert_holds(text, "\"input\":{}}]}");
        free(text);
        fixture_free(&f);
    }
}

static void test_C8_numbers_pass_byte_exact(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 1);
    parts[0] = call_part(
        "a", "t",
        "{\"big\":123456789012345678901234567890,\"e\":1E+2,\"z\":-0.0, \"lone\":\"\\ud800\"}");
    result(&f, "a", "{\"v\": 9007199254740993, \"w\":1.10}");
    char *text = conversation(&f, 0);
    assert_holds(
        text,
        "{\"big\":123456789012345678901234567890,\"e\":1E+2,\"z\":-0.0,\"lone\":\"\xEF\xBF\xBD\"}");
    assert_holds(text, "\"content\":\"{\\\"v\\\": 9007199254740993, \\\"w\\\":1.10}\"");
    free(text);
    fixture_free(&f);
}

static void test_P13_22_blank_text_is_left_out(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 4);
    parts[0] = text_part("\n\n");
    parts[1] = text_part("kept ");
    parts[2] = text_part("\xC2\xA0\xE2\x80\x83\xE3\x80\x80");
    parts[3] = raw_part(PW_PART_TEXT, " ", "{\"type\":\"text\",\"text\":\" \",\"citations\":[1]}");
    parts = answer(&f, 1);
    parts[0] = text_part("");
    say(&f, " ");
    expect_conversation(
        &f, "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]},"
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"kept \"}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"(empty message)\"}]}");
    fixture_free(&f);
}

static void test_user_content_passes_as_given(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    pw_message *message = add_message(&f, PW_ROLE_TRIGGER, 3);
    pw_part *parts = (pw_part *)(uintptr_t)message->parts;
    parts[0] = text_part("look");
    parts[1] =
        raw_part(PW_PART_OTHER, "",
                 "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"http://x/y\"}}");
    parts[2] = text_part("at it\x01 \"now\"");
    expect_conversation(&f,
                        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"look\"},"
                        "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"http://x/y\"}},"
                        "{\"type\":\"text\",\"text\":\"at it\\u0001 \\\"now\\\"\"}]}");
    fixture_free(&f);
}

#define USE(id)                                                                                    \
    "{\"type\":\"server_tool_use\",\"id\":\"" id "\",\"name\":\"web_search\",\"input\":{}}"
#define FOUND(id) "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"" id "\",\"content\":[]}"

static void test_P13_17_a_pause_goes_back_unchanged(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 4);
    parts[0] = raw_part(PW_PART_SERVER_TOOL, "", USE("s1"));
    parts[1] = raw_part(PW_PART_SERVER_TOOL, "", FOUND("s1"));
    parts[2] = text_part("more:");
    parts[3] = raw_part(PW_PART_SERVER_TOOL, "", USE("s2"));
    char *text = conversation(&f, 1);
    assert_holds(text, "[" USE("s1") "," FOUND("s1") ",{\"type\":\"text\",\"text\":\"more:\"}," USE(
                           "s2") "]");
    /* its result is in the next answer */
    parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_SERVER_TOOL, "", FOUND("s2"));
    parts[1] = text_part("done");
    say(&f, "thanks");
    text = next_conversation(&f, text, 2);
    assert_holds(text, "[" FOUND("s2") ",{\"type\":\"text\",\"text\":\"done\"}]");
    free(text);
    fixture_free(&f);
}

static void test_P10_2_what_nothing_will_answer_is_dropped(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 3);
    parts[0] = text_part("a");
    parts[1] = raw_part(PW_PART_SERVER_TOOL, "", USE("s1"));
    parts[2] = raw_part(PW_PART_SERVER_TOOL, "", FOUND("orphan"));
    char *text = conversation(&f, 0);
    assert_holds(text, USE("s1"));
    assert_lacks(text, "orphan");
    free(text);
    say(&f, "never mind"); /* the person spoke first */
    text = conversation(&f, 2);
    assert_lacks(text, "s1");
    free(text);
    fixture_free(&f);
}

static void test_P3_6_a_call_beside_an_open_server_tool(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "x");
    pw_part *parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_SERVER_TOOL, "", USE("code"));
    parts[1] = call_part("a", "t", "{}");
    parts[1].raw = PW_STR("{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"t\",\"input\":{},"
                          "\"caller\":{\"tool_id\":\"code\"}}");
    result(&f, "a", "1");
    char *text = conversation(&f, 0);
    assert_holds(text, USE("code"));
    assert_holds(text, "\"caller\":{\"tool_id\":\"code\"}");
    parts = answer(&f, 1);
    parts[0] = raw_part(PW_PART_SERVER_TOOL, "", FOUND("code"));
    say(&f, "y");
    text = next_conversation(&f, text, 3);
    assert_holds(text, USE("code"));
    assert_holds(text, FOUND("code"));
    free(text);
    fixture_free(&f);
}

static void test_no_message_is_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    const pw_endpoint endpoint = {.base_url = PW_STR_INIT("http://h")};
    pw_http_request http = {.method = PW_STR_NONE};
    assert_int_equal(
        pw_provider_anthropic.request(&endpoint, &f.request, &f.render, &f.arena, &http, NULL),
        PW_INVALID);
    fixture_free(&f);
}

static void test_options(void **state)
{
    (void)state;
    const struct {
        const char *model, *words; /* NULL: right */
    } table[] = {
        {MODEL, NULL},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"max_tokens\":1,\"thinking\":\"disabled\","
         "\"temperature\":1,"
         "\"base_url\":\"http://127.0.0.1:8000/"
         "x\",\"api_key_env\":\"K\",\"api_key_file\":\"f\",\"connect_timeout_ms\":1,"
         "\"first_token_timeout_ms\":2,\"idle_timeout_ms\":3}",
         NULL},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":{\"type\":\"enabled\",\"budget_"
         "tokens\":1024}}",
         NULL},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":{\"type\":\"between_tools\"}}",
         NULL},
        {"{\"provider\":\"anthropic\"}", "model.name is missing"},
        {"{\"provider\":\"anthropic\",\"name\":\"\"}", "model.name is empty"},
        {"{\"provider\":\"anthropic\",\"name\":7}", "model.name: expected a string"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"max_token\":1}",
         "model.max_token: there is no such option"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"max_tokens\":0}", "model.max_tokens"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"max_tokens\":1.5}", "model.max_tokens"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"temperature\":1.1}", "model.temperature"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"temperature\":\"warm\"}",
         "model.temperature"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":\"a lot\"}", "model.thinking"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":{\"type\":\"enabled\",\"budget_"
         "tokens\":8192}}",
         "budget_tokens"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"thinking\":{\"type\":\"enabled\"}}",
         "budget_tokens"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"base_url\":\"ftp://x\"}", "model.base_url"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"base_url\":\"http://\"}", "model.base_url"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"base_url\":\"http://x/?a=b\"}",
         "model.base_url"},
        {"{\"provider\":\"anthropic\",\"name\":\"m\",\"idle_timeout_ms\":\"2m\"}",
         "model.idle_timeout_ms"},
        {"[]", "expected an object"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_json *model = NULL;
        pw_error error = {.message = ""};
        assert_int_equal(pw_json_parse(&arena, pw_str_from(table[i].model), 0, &model, NULL),
                         PW_OK);
        const pw_status status = pw_provider_anthropic.check(model, &arena, &error);
        assert_int_equal(status, table[i].words ? PW_INVALID : PW_OK);
        if (table[i].words) {
            assert_holds(error.message, table[i].words);
        }
        pw_arena_free(&arena);
    }
    assert_ptr_equal(pw_provider_find(PW_STR("anthropic")), &pw_provider_anthropic);
    assert_ptr_equal(pw_provider_find(PW_STR("scripted")), &pw_provider_scripted);
    assert_null(pw_provider_find(PW_STR("anthropi")));
    for (const char *const *name = pw_provider_names(); *name; name++) {
        assert_string_equal(pw_provider_find(pw_str_from(*name))->name, *name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P3_1_url_and_headers),
        cmocka_unit_test(test_N3_the_key_is_in_no_body_and_no_error),
        cmocka_unit_test(test_P3_2_prefix),
        cmocka_unit_test(test_P3_3_results_are_one_message_in_call_order),
        cmocka_unit_test(test_C10_stable_prefix),
        cmocka_unit_test(test_C10_only_new_messages_are_rendered),
        cmocka_unit_test(test_C10_a_cut_inside_results_goes_back_to_their_start),
        cmocka_unit_test(test_D10_ids_are_unique_and_in_the_alphabet),
        cmocka_unit_test(test_P13_20_thinking_goes_back_byte_exact),
        cmocka_unit_test(test_P10_6_another_model_or_provider_gets_no_raw),
        cmocka_unit_test(test_another_family_starts_the_rendering_anew),
        cmocka_unit_test(test_P3_5_caller_goes_back_with_a_new_id),
        cmocka_unit_test(test_C9_a_name_that_a_model_made_up_goes_out_as_one_that_is_taken),
        cmocka_unit_test(test_P13_30_input_is_always_an_object),
        cmocka_unit_test(test_C8_numbers_pass_byte_exact),
        cmocka_unit_test(test_P13_22_blank_text_is_left_out),
        cmocka_unit_test(test_user_content_passes_as_given),
        cmocka_unit_test(test_P13_17_a_pause_goes_back_unchanged),
        cmocka_unit_test(test_P10_2_what_nothing_will_answer_is_dropped),
        cmocka_unit_test(test_P3_6_a_call_beside_an_open_server_tool),
        cmocka_unit_test(test_no_message_is_refused),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
