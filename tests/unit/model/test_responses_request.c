/* Requests to OpenAI Responses: what goes back of a reply (C8), history that is valid (C9,
 * PROVIDERS.md 10), stable bytes (C10), ids (D10), options, background. */
#include "support.h"

#include <string.h>

#define MODEL "{\"provider\":\"openai\",\"name\":\"gpt-5.1\"}"

static const pw_endpoint somewhere = {.base_url = PW_STR_INIT("https://h/v1/"),
                                      .key = PW_STR_INIT("sk-test-key")};

static pw_http_request rendered(fixture *f)
{
    pw_http_request http = {.method = PW_STR_NONE};
    pw_error error = {.message = ""};
    if (tested->request(&somewhere, &f->request, &f->render, &f->arena, &http, &error) != PW_OK) {
        fail_msg("%s", error.message);
    }
    return http;
}

static void expect_prefix(const char *model, const char *wanted)
{
    fixture f;
    fixture_init(&f, model);
    say(&f, "x");
    const pw_http_request http = rendered(&f);
    char *text = calloc(1, http.body[0].len + 1);
    memcpy(text, http.body[0].ptr, http.body[0].len);
    assert_holds(text, wanted);
    assert_true(pw_str_is(http.body[2], "]}"));
    free(text);
    fixture_free(&f);
}

static void expect_sent(fixture *f, const char *wanted)
{
    char *sent = conversation(f, 0);
    assert_string_equal(sent, wanted);
    free(sent);
    fixture_free(f);
}

#define USER                                                                                       \
    "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"      \
    "\"go\"}]}"
#define SAID(text)                                                                                 \
    "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","         \
    "\"text\":\"" text "\"}]}"
#define SENT_CALL(id, name, arguments)                                                             \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"" name                          \
    "\",\"arguments\":\"" arguments "\"}"
#define OUTPUT(id, output)                                                                         \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":\"" output "\"}"
#define REASONING                                                                                  \
    "{\"id\":\"rs_1\",\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"e\"}"

/* --- Prefix --- */

static void test_P4_stateless(void **state)
{
    (void)state;
    expect_prefix(MODEL, "{\"model\":\"gpt-5.1\",\"store\":false,\"include\":["
                         "\"reasoning.encrypted_content\"],\"stream\":true,\"stream_options\":{"
                         "\"include_obfuscation\":false},\"input\":[");
    /* models that do not reason refuse the include */
    expect_prefix("{\"provider\":\"openai\",\"name\":\"gpt-4o-2024-08-06\"}",
                  "\"store\":false,\"stream\":true");
}

static void test_P4_options(void **state)
{
    (void)state;
    expect_prefix(
        "{\"name\":\"m\",\"max_tokens\":99,\"temperature\":0.50,\"reasoning\":{\"effort\":"
        "\"low\",\"summary\":\"auto\"},\"text\":{\"verbosity\":\"low\"},\"service_tier\":"
        "\"flex\"}",
        "\"max_output_tokens\":99,\"temperature\":0.50,\"reasoning\":{\"effort\":\"low\","
        "\"summary\":\"auto\"},\"text\":{\"verbosity\":\"low\"},\"service_tier\":\"flex\"");
    expect_prefix("{\"name\":\"m\",\"background\":true}", "\"background\":true,\"store\":true,");
    expect_prefix("{\"name\":\"m\",\"background\":false}", "\"m\",\"store\":false,");
}

static void test_P4_tools_and_instructions(void **state)
{
    (void)state;
    static const char *const models[] = {MODEL, "{\"name\":\"m\",\"strict_tools\":true}"};
    static const char *const strict[] = {"\"strict\":false", "\"strict\":true"};
    for (size_t i = 0; i < 2; i++) {
        fixture f;
        fixture_init(&f, models[i]);
        const pw_json *schema = NULL;
        assert_int_equal(
            pw_json_parse(&f.arena, PW_STR("{\"properties\":{\"a\":{}}}"), 0, &schema, NULL),
            PW_OK);
        const pw_tool_declaration tools[] = {
            {.name = PW_STR_INIT("look"), .description = PW_STR_INIT("Looks."), .input = schema},
            {.name = PW_STR_INIT("wait")}};
        f.definition.instructions = PW_STR("Be kind.");
        f.definition.tools = tools;
        f.definition.tool_count = 2;
        say(&f, "x");
        const pw_http_request http = rendered(&f);
        char wanted[1000], *text = calloc(1, http.body[0].len + 1);
        memcpy(text, http.body[0].ptr, http.body[0].len);
        snprintf(
            wanted, sizeof wanted,
            "\"instructions\":\"Be kind.\",\"tools\":[{\"type\":\"function\",\"name\":\"look\","
            "\"description\":\"Looks.\",\"parameters\":{\"properties\":{\"a\":{}},\"type\":"
            "\"object\"},%s},{\"type\":\"function\",\"name\":\"wait\",\"parameters\":{\"type\":"
            "\"object\",\"properties\":{}},%s}],",
            strict[i], strict[i]);
        assert_holds(text, wanted);
        free(text);
        fixture_free(&f);
    }
}

/* --- Where it goes --- */

static bool has_header(const pw_http_request *http, const char *name, const char *value)
{
    for (size_t i = 0; i < http->header_count; i++) {
        if (pw_str_is(http->headers[i].name, name)) {
            return pw_str_is(http->headers[i].value, value);
        }
    }
    return value[0] == '\0';
}

static void test_P4_headers_and_url(void **state)
{
    (void)state;
    static const struct {
        const char *base, *url;
    } urls[] = {{"https://api.openai.com/v1", "https://api.openai.com/v1/responses"},
                {"https://api.openai.com", "https://api.openai.com/v1/responses"},
                {"https://openrouter.ai/api/v1/", "https://openrouter.ai/api/v1/responses"},
                {"http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/responses"}};
    fixture f;
    fixture_init(&f, "{\"name\":\"m\",\"organization\":\"org-1\",\"project\":\"proj_2\"}");
    say(&f, "x");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const pw_endpoint endpoint = {.base_url = pw_str_from(urls[i].base),
                                      .key = PW_STR_INIT("k")};
        pw_http_request http = {.method = PW_STR_NONE};
        assert_int_equal(tested->request(&endpoint, &f.request, &f.render, &f.arena, &http, NULL),
                         PW_OK);
        assert_true(pw_str_is(http.method, "POST"));
        assert_true(pw_str_is(http.url, urls[i].url));
        assert_true(has_header(&http, "authorization", "Bearer k"));
        assert_true(has_header(&http, "content-type", "application/json"));
        assert_true(has_header(&http, "openai-organization", "org-1"));
        assert_true(has_header(&http, "openai-project", "proj_2"));
    }
    const pw_endpoint keyless = {.base_url = PW_STR_INIT("http://h")};
    pw_http_request http = {.method = PW_STR_NONE};
    assert_int_equal(tested->request(&keyless, &f.request, &f.render, &f.arena, &http, NULL),
                     PW_OK);
    assert_true(has_header(&http, "authorization", ""));
    fixture_free(&f);
}

static void test_N3_a_key_that_no_header_carries(void **state)
{
    (void)state;
    const pw_endpoint endpoint = {.base_url = PW_STR_INIT("http://h"), .key = PW_STR_INIT("a\nb")};
    fixture f;
    pw_http_request http = {.method = PW_STR_NONE};
    pw_error error = {.message = ""};
    fixture_init(&f, MODEL);
    say(&f, "x");
    assert_int_equal(tested->request(&endpoint, &f.request, &f.render, &f.arena, &http, &error),
                     PW_INVALID);
    assert_lacks(error.message, "a\nb");
    assert_int_equal(tested->cancel(&endpoint, PW_STR("r"), &f.arena, &http, &error), PW_INVALID);
    fixture_free(&f);
}

static void test_there_is_nothing_to_send(void **state)
{
    (void)state;
    fixture f;
    pw_http_request http = {.method = PW_STR_NONE};
    fixture_init(&f, MODEL);
    assert_int_equal(tested->request(&somewhere, &f.request, &f.render, &f.arena, &http, NULL),
                     PW_INVALID);
    fixture_free(&f);
}

/* --- What people say --- */

static void test_users_content(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    pw_message *message = add_message(&f, PW_ROLE_USER, 8);
    pw_part *parts = (pw_part *)(uintptr_t)message->parts;
    parts[0] = text_part("see");
    parts[1] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":"
                        "\"image/png\",\"data\":\"QUJD\"}}");
    parts[2] =
        raw_part(PW_PART_OTHER, "",
                 "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://x/y\"}}");
    parts[3] =
        raw_part(PW_PART_OTHER, "",
                 "{\"type\":\"document\",\"title\":\"a.pdf\",\"context\":\"mine\",\"source\":{"
                 "\"type\":\"base64\",\"media_type\":\"application/pdf\",\"data\":\"QUJD\"}}");
    parts[4] =
        raw_part(PW_PART_OTHER, "",
                 "{\"type\":\"document\",\"source\":{\"type\":\"url\",\"url\":\"https://x/z\"}}");
    parts[5] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"document\",\"title\":\"T\",\"source\":{\"type\":\"text\","
                        "\"media_type\":\"text/plain\",\"data\":\"words\"}}");
    parts[6] = text_part(" \n");
    parts[7] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"document\",\"source\":{\"type\":\"base64\",\"media_type\":"
                        "\"application/pdf\",\"data\":\"QUJD\"}}");
    add_message(&f, PW_ROLE_TRIGGER, 0);
    expect_sent(
        &f,
        "{\"type\":\"message\",\"role\":\"user\",\"content\":["
        "{\"type\":\"input_text\",\"text\":\"see\"},"
        "{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":\"data:image/"
        "png;base64,QUJD\"},"
        "{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":\"https://x/y\"},"
        "{\"type\":\"input_text\",\"text\":\"mine\"},"
        "{\"type\":\"input_file\",\"filename\":\"a.pdf\",\"file_data\":"
        "\"data:application/pdf;base64,QUJD\"},"
        "{\"type\":\"input_file\",\"file_url\":\"https://x/z\"},"
        "{\"type\":\"input_text\",\"text\":\"T\\n\\nwords\"},"
        "{\"type\":\"input_file\",\"filename\":\"document.pdf\",\"file_data\":"
        "\"data:application/pdf;base64,QUJD\"}]},"
        "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
        "\"(empty message)\"}]}");
}

/* --- What goes back --- */

static void test_C8_rebuilt_from_the_neutral_fields(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 4);
    parts[0] = text_part("a\x01");
    parts[1] = (pw_part){.kind = PW_PART_REFUSAL, .text = PW_STR_INIT("no")};
    parts[2] = call_part("x1", "look", "{\"a\": 1.50}");
    parts[3] = text_part("\n\n");
    result(&f, "x1", "\"seen\"");
    expect_sent(
        &f, USER
        "," SAID("a\\u0001") ",{\"type\":\"message\",\"role\":\"assistant\","
                             "\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}," SENT_CALL(
                                 "c2_x1", "look", "{\\\"a\\\": 1.50}") "," OUTPUT("c2_x1", "seen"));
}

/* Frames get their content back; ids go, but where an item cannot be without. */
static void test_C8_kept_items(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 7);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] =
        raw_part(PW_PART_TEXT, "a\"b",
                 "{\"id\":\"m\",\"type\":\"message\",\"status\":\"completed\",\"content\":[],"
                 "\"phase\":\"commentary\",\"role\":\"assistant\"}");
    parts[2] = raw_part(PW_PART_TEXT, "cited",
                        "{\"id\":\"m\",\"type\":\"message\",\"content\":[{\"type\":\"output_text\","
                        "\"text\":\"cited\",\"annotations\":[{\"url\":\"u\"}]}]}");
    parts[3] = raw_part(PW_PART_SERVER_TOOL, "",
                        "{\"id\":\"ws\",\"type\":\"web_search_call\",\"status\":\"completed\"}");
    parts[4] = raw_part(PW_PART_SERVER_TOOL, "", "{\"id\":\"mc\",\"type\":\"mcp_call\"}");
    parts[5] = raw_part(PW_PART_OTHER, "",
                        "{\"id\":\"cm\",\"type\":\"program\",\"call_id\":\"p\",\"code\":\"x\"}");
    parts[6] = call_part(".1", "n", "{}");
    parts[6].raw = PW_STR("{\"id\":\"f\",\"type\":\"function_call\",\"status\":\"in_progress\","
                          "\"arguments\":\"\",\"call_id\":\"c\",\"caller\":{\"type\":\"program\","
                          "\"caller_id\":\"p\"},\"name\":\"n\"}");
    result(&f, ".1", "{\"a\":1}");
    expect_sent(
        &f, USER
        "," REASONING ",{\"type\":\"message\",\"status\":\"completed\",\"content\":[{\"type\":"
        "\"output_text\",\"text\":\"a\\\"b\"}],\"phase\":\"commentary\",\"role\":\"assistant\"},"
        "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"cited\","
        "\"annotations\":[{\"url\":\"u\"}]}],\"role\":\"assistant\"},"
        "{\"type\":\"web_search_call\",\"status\":\"completed\"},{\"id\":\"mc\",\"type\":\"mcp_"
        "call\"},"
        "{\"type\":\"program\",\"call_id\":\"p\",\"code\":\"x\"},"
        "{\"type\":\"function_call\",\"status\":\"in_progress\",\"arguments\":\"{}\",\"call_id\":"
        "\"p2_1\",\"caller\":{\"type\":\"program\",\"caller_id\":\"p\"},\"name\":\"n\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"p2_1\",\"output\":\"{\\\"a\\\":1}\"}");
}

/* What would be refused in a message that is kept whole stays behind, the rest goes as it came. */
static void test_C9_contents_that_would_be_refused(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 3);
    parts[0] = raw_part(PW_PART_TEXT, "hi",
                        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
                        "\"output_text\",\"text\":\"\"}, null, 5, {}, [\"x\"], {\"type\":"
                        "\"output_text\",\"text\":7}, {\"type\":\"output_text\", \"text\":\"hi\"},"
                        "{\"type\":\"refusal\",\"refusal\":\" \"},{\"type\":\"later\"}]}");
    parts[1] = raw_part(PW_PART_TEXT, "bare",
                        "{\"type\":\"message\",\"role\":\"user\",\"content\":[\"bare\",3]}");
    parts[2] = raw_part(PW_PART_REFUSAL, "no",
                        "{\"type\":\"message\",\"phase\":\"p\",\"content\":\"odd\"}");
    expect_sent(
        &f,
        USER ",{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":"
             "\"output_text\", \"text\":\"hi\"},{\"type\":\"later\"}]}," SAID(
                 "bare") ","
                         "{\"type\":\"message\",\"phase\":\"p\",\"content\":[{\"type\":\"refusal\","
                         "\"refusal\":\"no\"}],\"role\":\"assistant\"}");
}

/* Bug 28: a reasoning item and the item behind it go both or neither. */
static void test_P13_bug28_reasoning_and_its_follower(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 3);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[2] = call_part("x", "n", "{}");
    result(&f, "x", "1");
    parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] = text_part(" "); /* blank: it does not go, nor does what was thought before it */
    parts = answer(&f, 1);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING); /* max_output: nothing came behind it */
    parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] = raw_part(PW_PART_OTHER, "", "{\"type\":\"computer_call\",\"call_id\":\"z\"}");
    parts = answer(&f, 3);
    parts[0] = (pw_part){.kind = PW_PART_THINKING, .text = PW_STR_INIT("cut")};
    parts[1] =
        raw_part(PW_PART_THINKING, "", "{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[]}");
    parts[2] = text_part("b");
    expect_sent(&f, USER "," REASONING "," REASONING "," SENT_CALL("c2_x", "n", "{}") "," OUTPUT(
                        "c2_x", "1") ",{\"type\":\"reasoning\",\"summary\":[]}," SAID("b"));
}

/* Another provider or family: nothing that was bound to it, and calls and results as they are. */
static void test_C8_another_family(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        fixture f;
        fixture_init(&f, MODEL);
        say(&f, "go");
        pw_part *parts = answer(&f, 4);
        parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
        parts[1] = raw_part(PW_PART_TEXT, "a",
                            "{\"type\":\"message\",\"content\":[],\"phase\":\"commentary\"}");
        parts[2] = raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"web_search_call\"}");
        parts[3] = call_part("x", "n", "{}");
        parts[3].raw = PW_STR("{\"type\":\"function_call\",\"caller\":1}");
        if (other) {
            f.messages[1].provider = PW_STR("openai-chat");
        } else {
            f.messages[1].model = PW_STR("gpt-5");
        }
        result(&f, "x", "1");
        expect_sent(&f,
                    USER "," SAID("a") "," SENT_CALL("c2_x", "n", "{}") "," OUTPUT("c2_x", "1"));
    }
}

/* The same family under another date, or asked for by an alias. */
static void test_C8_the_same_family(void **state)
{
    (void)state;
    static const struct {
        const char *model, *asked;
        bool same;
    } rows[] = {{"gpt-5.1-2025-11-13", "", true},
                {"gpt-5.1", "", true},
                {"openai/gpt-5.1", "", true},
                {"openai.gpt-5.1", "", true},
                {"something", "gpt-5.1", true},
                {"gpt-5.1-mini", "", false},
                {"gpt-5", "", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        fixture_init(&f, MODEL);
        say(&f, "go");
        pw_part *parts = answer(&f, 2);
        parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
        parts[1] = text_part("a");
        f.messages[1].model = pw_str_from(rows[i].model);
        f.messages[1].asked = pw_str_from(rows[i].asked);
        char *sent = conversation(&f, 0);
        assert_int_equal(holds(sent, REASONING), rows[i].same);
        free(sent);
        fixture_free(&f);
    }
}

/* --- Calls --- */

/* Bugs 25 and 26: ids are ours, unique, at most 64 characters, equal for call and output. */
static void test_D10_ids(void **state)
{
    (void)state;
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const ids[] = {"call_0", "functions.Bash:0", "", longest};
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    for (size_t round = 0; round < 2; round++) {
        pw_part *parts = answer(&f, 4);
        for (size_t i = 0; i < 4; i++) {
            parts[i] = call_part(ids[i], "n", "{}");
        }
        for (size_t i = 0; i < 4; i++) {
            result(&f, ids[i], "1");
        }
    }
    char *sent = conversation(&f, 0);
    pw_buffer list;
    pw_buffer_init_arena(&list, &f.arena, SIZE_MAX / 4);
    pw_buffer_format(&list, "[%s]", sent);
    const pw_json *items = parse(&f.arena, pw_buffer_str(&list));
    for (size_t i = 1; i < items->count; i++) {
        const pw_str id = pw_json_text(pw_json_get(pw_json_at(items, i), "call_id"));
        size_t seen = 0;
        for (size_t k = 1; k < items->count; k++) {
            seen += pw_str_equal(id, pw_json_text(pw_json_get(pw_json_at(items, k), "call_id")));
        }
        assert_true(id.len > 0 && id.len <= 64);
        assert_int_equal(seen, 2); /* the call and its output */
    }
    free(sent);
    fixture_free(&f);
}

/* Bug 30 and 10.5: arguments that are not whole JSON are never sent. */
static void test_C9_broken_arguments(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 2);
    parts[0] = call_part("x", "n", "{\"a\":");
    parts[0].broken = true;
    parts[1] = call_part("y", "c", "do it");
    parts[1].broken = true;
    parts[1].raw = PW_STR("{\"id\":\"ct\",\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":"
                          "\"c\",\"input\":\"do it\"}");
    result(&f, "x", "\"no\"");
    result(&f, "y", "\"no\"");
    expect_sent(&f, USER "," SENT_CALL(
                        "c2_x", "n",
                        "{}") ",{\"type\":\"custom_tool_call\","
                              "\"call_id\":\"c2_y\",\"name\":\"c\",\"input\":\"do it\"}," OUTPUT(
                                  "c2_x", "no") ","
                                                "{\"type\":\"custom_tool_call_output\",\"call_id\":"
                                                "\"c2_y\",\"output\":\"no\"}");
}

static void test_C9_names_that_no_tool_has(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    pw_part *parts = answer(&f, 2);
    parts[0] = call_part("x", "a b.c", "{}");
    parts[1] = call_part("y", "d e", "{}");
    parts[1].raw =
        PW_STR("{\"type\":\"function_call\",\"name\":\"d e\",\"arguments\":\"\",\"caller\":1}");
    result(&f, "x", "1");
    result(&f, "y", "1");
    expect_sent(&f, USER
                "," SENT_CALL("c2_x", "a_b_c",
                              "{}") ",{\"type\":\"function_call\","
                                    "\"name\":\"d_e\",\"arguments\":\"{}\",\"caller\":1,\"call_"
                                    "id\":\"c2_y\"}," OUTPUT("c2_x", "1") "," OUTPUT("c2_y", "1"));
}

/* --- Stable bytes (C10) --- */

static void fill_step(fixture *f, int step)
{
    static char ids[20][8];
    snprintf(ids[step], sizeof ids[step], "x%d", step);
    pw_part *parts = answer(f, 3);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] = text_part("step");
    parts[2] = call_part(ids[step], "n", "{\"b\":2,\"a\":1}");
    result(f, ids[step], "{\"r\":1}");
}

static void test_C10_each_request_begins_with_the_one_before(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    char *before = conversation(&f, 0);
    for (int step = 0; step < 8; step++) {
        const size_t same = f.count;
        fill_step(&f, step);
        char *now = conversation(&f, same);
        assert_true(strncmp(now, before, strlen(before)) == 0);
        assert_true(strlen(now) > strlen(before));
        /* after a reload: all rendered anew */
        pw_render saved = f.render;
        pw_render_init(&f.render, &pw_heap);
        char *again = conversation(&f, 0);
        assert_string_equal(now, again);
        free(again);
        pw_render_free(&f.render);
        f.render = saved;
        free(before);
        before = now;
    }
    free(before);
    fixture_free(&f);
}

/* --- Background (4.5) --- */

static void test_P4_resume_and_cancel(void **state)
{
    (void)state;
    static const struct {
        const char *id, *get, *cancel;
    } rows[] = {{"resp_1", "https://h/v1/responses/resp_1?stream=true",
                 "https://h/v1/responses/resp_1/cancel"},
                {"a/../b?c", "https://h/v1/responses/a%2f..%2fb%3fc?stream=true",
                 "https://h/v1/responses/a%2f..%2fb%3fc/cancel"},
                {"..", "https://h/v1/responses/%2e%2e?stream=true",
                 "https://h/v1/responses/%2e%2e/cancel"}};
    fixture f;
    fixture_init(&f, "{\"name\":\"m\",\"background\":true}");
    say(&f, "x");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        f.request.resume = pw_str_from(rows[i].id);
        pw_http_request http = rendered(&f);
        assert_true(pw_str_is(http.method, "GET"));
        assert_true(pw_str_is(http.url, rows[i].get));
        assert_int_equal(http.body[0].len + http.body[1].len + http.body[2].len, 0);
        assert_true(has_header(&http, "authorization", "Bearer sk-test-key"));
        assert_int_equal(tested->cancel(&somewhere, f.request.resume, &f.arena, &http, NULL),
                         PW_OK);
        assert_true(pw_str_is(http.method, "POST"));
        assert_true(pw_str_is(http.url, rows[i].cancel));
        assert_true(has_header(&http, "authorization", "Bearer sk-test-key"));
        assert_int_equal(http.body[0].len, 0);
    }
    pw_http_request http = {.method = PW_STR_NONE};
    assert_int_equal(tested->cancel(&somewhere, PW_STR(""), &f.arena, &http, NULL), PW_INVALID);
    fixture_free(&f);
}

/* A step may be resumed and the next one asked anew: what is rendered stays in step with `same`. */
static void test_C10_a_resumed_request_keeps_the_conversation(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, MODEL);
    say(&f, "go");
    f.request.resume = PW_STR("resp_1");
    (void)rendered(&f);
    f.request.resume = PW_STR_NONE;
    fill_step(&f, 0);
    char *now = conversation(&f, 1);
    pw_render_free(&f.render);
    pw_render_init(&f.render, &pw_heap);
    char *anew = conversation(&f, 0);
    assert_string_equal(now, anew);
    free(now);
    free(anew);
    fixture_free(&f);
}

/* --- What is complained about by its position (C9) --- */

static void test_C9_rejected_by_position(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        bool found;
        size_t message, part;
    } rows[] = {
        {"{\"error\":{\"message\":\"m\",\"param\":\"input[0].content[1].image_url\"}}", true, 0, 2},
        {"{\"error\":{\"message\":\"Invalid 'input[0].content[0].text'.\",\"param\":null}}", true,
         0, 0},
        {"{\"error\":{\"param\":\"input[5].content[0]\"}}", true, 4, 0},
        {"{\"error\":{\"param\":\"input[5].content[1]\"}}", true, 4, 0}, /* its text, its context */
        {"{\"error\":{\"param\":\"input[5].content[2]\"}}", true, 4, 1},
        {"{\"error\":{\"param\":\"input[5].content[3]\"}}", false, 0, 0},
        {"{\"error\":{\"param\":\"input[2].content[0]\"}}", false, 0, 0}, /* what the model said */
        {"{\"error\":{\"param\":\"input[3]\"}}", false, 0, 0},
        {"{\"error\":{\"param\":\"input[6].content[0]\"}}", false, 0, 0},
        {"{\"error\":{\"param\":\"input[99999999999].content[0]\"}}", false, 0, 0},
        {"{\"error\":{\"param\":\"input[].content[0]\"}}", false, 0, 0},
        {"{\"error\":{\"param\":\"input[1].encrypted_content\"}}", true, 2, 0},
        {"{\"error\":{\"param\":\"input[4].output\"}}", false, 0, 0}, /* a result */
        {"{\"error\":{\"message\":\"The encrypted content for item rs_1 could not be verified.\","
         "\"code\":\"invalid_encrypted_content\"}}",
         true, 2, 0},
        {"{\"error\":{\"message\":\"The encrypted content for item rs_12 is odd.\"}}", false, 0, 0},
        {"{\"error\":{\"message\":\"no\"}}", false, 0, 0},
        {"nonsense", false, 0, 0},
    };
    fixture f;
    fixture_init(&f, MODEL);
    pw_message *message = add_message(&f, PW_ROLE_USER, 3);
    pw_part *parts = (pw_part *)(uintptr_t)message->parts;
    parts[0] = text_part("a");
    parts[1] = text_part(" "); /* is not sent */
    parts[2] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"u\"}}");
    parts = answer(&f, 1);
    parts[0] = text_part(" "); /* no item */
    parts = answer(&f, 4);
    parts[0] = raw_part(PW_PART_THINKING, "", REASONING);
    parts[1] = text_part("b");
    parts[2] = call_part("x", "n", "{}");
    parts[3] = text_part("");
    result(&f, "x", "1");
    message = add_message(&f, PW_ROLE_USER, 2);
    parts = (pw_part *)(uintptr_t)message->parts;
    parts[0] = raw_part(PW_PART_OTHER, "",
                        "{\"type\":\"document\",\"context\":\"c\",\"source\":{\"type\":\"url\","
                        "\"url\":\"u\"}}");
    parts[1] = text_part("last");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t at = 77, part = 77;
        const bool found =
            tested->rejected(&f.request, 400, pw_str_from(rows[i].body), &f.arena, &at, &part);
        if (found != rows[i].found || (found && (at != rows[i].message || part != rows[i].part))) {
            fail_msg("%s: %d %zu %zu", rows[i].body, found, at, part);
        }
    }
    fixture_free(&f);
}

/* --- Options --- */

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *model, *error;
    } rows[] = {
        {"{\"provider\":\"openai\",\"name\":\"m\",\"max_tokens\":16,\"temperature\":2,"
         "\"reasoning\":{"
         "\"effort\":\"xhigh\",\"summary\":\"detailed\"},\"text\":{\"verbosity\":\"high\"},"
         "\"service_tier\":\"priority\",\"organization\":\"o\",\"project\":\"p\",\"background\":"
         "true,"
         "\"strict_tools\":false,\"base_url\":\"http://h/v1\",\"api_key_env\":\"E\","
         "\"idle_timeout_ms\":5}",
         NULL},
        {"{\"name\":\"\"}", "model.name is empty"},
        {"{\"name\":\"m\",\"max_tokens\":15}", "model.max_tokens: expected at least 16"},
        {"{\"name\":\"m\",\"temperature\":2.1}",
         "model.temperature: expected a number from 0 to 2"},
        {"{\"name\":\"m\",\"reasoning\":\"high\"}", "model.reasoning: expected an object"},
        {"{\"name\":\"m\",\"reasoning\":{\"effort\":\"huge\"}}",
         "model.reasoning.effort: expected one of none, minimal, low, medium, high, xhigh, max"},
        {"{\"name\":\"m\",\"reasoning\":{\"effort\":1}}",
         "model.reasoning.effort: expected a string"},
        {"{\"name\":\"m\",\"reasoning\":{\"summary\":\"long\"}}",
         "model.reasoning.summary: expected one of auto, concise, detailed"},
        {"{\"name\":\"m\",\"reasoning\":{\"budget\":1}}",
         "model.reasoning.budget: there is no such option"},
        {"{\"name\":\"m\",\"text\":{\"verbosity\":\"x\"}}",
         "model.text.verbosity: expected one of low, medium, high"},
        {"{\"name\":\"m\",\"text\":{\"format\":{}}}", "model.text.format: there is no such option"},
        {"{\"name\":\"m\",\"organization\":\"a\\r\\nb\"}",
         "model.organization: expected visible characters of ASCII"},
        {"{\"name\":\"m\",\"project\":\"\"}",
         "model.project: expected visible characters of ASCII"},
        {"{\"name\":\"m\",\"background\":1}", "model.background: expected true or false"},
        {"{\"name\":\"m\",\"store\":true}", "model.store: there is no such option"},
        {"{\"name\":\"m\",\"base_url\":\"https://u:p@h\"}", "model.base_url: expected http://"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pw_arena arena;
        pw_error error = {.message = ""};
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_status status =
            tested->check(parse(&arena, pw_str_from(rows[i].model)), &arena, &error);
        assert_int_equal(status, rows[i].error ? PW_INVALID : PW_OK);
        if (rows[i].error) {
            assert_holds(error.message, rows[i].error);
        }
        pw_arena_free(&arena);
    }
}

int main(void)
{
    tested = &pw_provider_openai;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P4_stateless),
        cmocka_unit_test(test_P4_options),
        cmocka_unit_test(test_P4_tools_and_instructions),
        cmocka_unit_test(test_P4_headers_and_url),
        cmocka_unit_test(test_N3_a_key_that_no_header_carries),
        cmocka_unit_test(test_there_is_nothing_to_send),
        cmocka_unit_test(test_users_content),
        cmocka_unit_test(test_C8_rebuilt_from_the_neutral_fields),
        cmocka_unit_test(test_C8_kept_items),
        cmocka_unit_test(test_C9_contents_that_would_be_refused),
        cmocka_unit_test(test_P13_bug28_reasoning_and_its_follower),
        cmocka_unit_test(test_C8_another_family),
        cmocka_unit_test(test_C8_the_same_family),
        cmocka_unit_test(test_D10_ids),
        cmocka_unit_test(test_C9_broken_arguments),
        cmocka_unit_test(test_C9_names_that_no_tool_has),
        cmocka_unit_test(test_C10_each_request_begins_with_the_one_before),
        cmocka_unit_test(test_P4_resume_and_cancel),
        cmocka_unit_test(test_C10_a_resumed_request_keeps_the_conversation),
        cmocka_unit_test(test_C9_rejected_by_position),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
