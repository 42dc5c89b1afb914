/*
 * Requests to servers of Chat Completions: the prefix and what dialects change of it, the stable
 * prefix (C10), what goes back (C8), ids (D10), what people say, turns that must alternate, options
 * and failures (PROVIDERS.md 5.1, 5.4, 6, 8, 10). Quotes are single ones, to be read by people.
 */
#include "support.h"

#include <string.h>

#define MODEL(name, more) "{'provider':'openai-chat','name':'" name "'" more "}"

/* ' for ". */
static char *readable(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; *at; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    return copy;
}

static void begin(fixture *f, const char *model)
{
    char *json = readable(model);
    fixture_init(f, "{}");
    pw_str kept = PW_STR_NONE; /* the tree borrows the text */
    assert_int_equal(pw_arena_dup(&f->arena, pw_str_from(json), &kept), PW_OK);
    f->model.options = parse(&f->arena, kept);
    f->model.provider = pw_json_text(pw_json_get(f->model.options, "provider"));
    f->model.name = pw_json_text(pw_json_get(f->model.options, "name"));
    free(json);
}

static void expect_conversation(fixture *f, const char *wanted)
{
    char *text = conversation(f, 0), *right = readable(wanted);
    assert_string_equal(text, right);
    free(text);
    free(right);
}

static void expect_holds(fixture *f, const char *what, bool held)
{
    char *text = conversation(f, 0), *wanted = readable(what);
    if (holds(text, wanted) != held) {
        fail_msg("%s\n  is %s\n%s", wanted, held ? "not in" : "in", text);
    }
    free(text);
    free(wanted);
}

static pw_http_request whole_request(fixture *f, const char *base_url, const char *key)
{
    const pw_endpoint endpoint = {.base_url = pw_str_from(base_url), .key = pw_str_from(key)};
    pw_http_request http = {.method = PW_STR_NONE};
    assert_int_equal(tested->request(&endpoint, &f->request, &f->render, &f->arena, &http, NULL),
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

/* --- Prefix, URL, headers --- */

typedef struct server {
    const char *url, *options, *prefix, *sent_to, *header, *value;
} server;

#define OPENAI "https://api.openai.com/v1"
#define STREAM "'stream':true,'stream_options':{'include_usage':true},'messages':["

static const server servers[] = {
    {OPENAI, ",'max_tokens':100,'temperature':0.70,'reasoning_effort':'low'",
     "{'model':'m','max_completion_tokens':100,'temperature':0.70,'reasoning_effort':'low'," STREAM,
     OPENAI "/chat/completions", "authorization", "Bearer key-0123456789"},
    {"http://localhost:11434/v1", ",'base_url':'http://localhost:11434/v1','max_tokens':100",
     "{'model':'m','max_tokens':100," STREAM, "http://localhost:11434/v1/chat/completions",
     "authorization", "Bearer key-0123456789"},
    {"http://h/v1/",
     ",'base_url':'http://h/v1/','api_key_env':'K','max_tokens':1,"
     "'max_tokens_field':'max_completion_tokens','stream_options':false",
     "{'model':'m','max_completion_tokens':1,'stream':true,'messages':[",
     "http://h/v1/chat/completions", "authorization", "Bearer key-0123456789"},
    {"https://x.openai.azure.com/openai/deployments/d",
     ",'base_url':'https://x.openai.azure.com/openai/deployments/d','api_key_env':'K',"
     "'api_version':'2024-10-21'",
     "{'model':'m'," STREAM,
     "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
     "api-key", "key-0123456789"},
    {"https://x.openai.azure.com/openai/v1",
     ",'base_url':'https://x.openai.azure.com/openai/v1','api_key_env':'K','auth':'bearer'",
     "{'model':'m'," STREAM, "https://x.openai.azure.com/openai/v1/chat/completions",
     "authorization", "Bearer key-0123456789"},
    {"https://api.mistral.ai/v1", ",'base_url':'https://api.mistral.ai/v1','api_key_file':'k'",
     "{'model':'m','stream':true,'messages':[", "https://api.mistral.ai/v1/chat/completions",
     "authorization", "Bearer key-0123456789"},
    {"http://proxy", ",'base_url':'http://proxy','dialect':'mistral'",
     "{'model':'m','stream':true,'messages':[", "http://proxy/chat/completions", "authorization",
     "Bearer key-0123456789"},
    {"https://API.Mistral.ai:443/v1", ",'base_url':'https://API.Mistral.ai:443/v1'",
     "{'model':'m','stream':true,'messages':[", "https://API.Mistral.ai:443/v1/chat/completions",
     "authorization", "Bearer key-0123456789"},
    {"https://eu-west1-aiplatform.googleapis.com/v1",
     ",'base_url':'https://eu-west1-aiplatform.googleapis.com/v1'", "{'model':'m'," STREAM,
     "https://eu-west1-aiplatform.googleapis.com/v1/chat/completions", "authorization",
     "Bearer key-0123456789"},
    {"http://my-api.openai.com", ",'base_url':'http://my-api.openai.com'", "{'model':'m'," STREAM,
     "http://my-api.openai.com/chat/completions", "authorization", "Bearer key-0123456789"},
    /* a name that only ends alike is another host */
    {"http://notapi.mistral.ai", ",'base_url':'http://notapi.mistral.ai'", "{'model':'m'," STREAM,
     "http://notapi.mistral.ai/chat/completions", "authorization", "Bearer key-0123456789"},
};

static void test_P5_1_P6_prefix_url_and_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        const server *s = &servers[i];
        char model[400];
        snprintf(model, sizeof model, "{'provider':'openai-chat','name':'m'%s}", s->options);
        fixture f;
        begin(&f, model);
        say(&f, "hi");
        const pw_http_request http = whole_request(&f, s->url, "key-0123456789");
        char *prefix = readable(s->prefix);
        if (!pw_str_is(http.body[0], prefix)) {
            fail_msg("%s: %.*s", s->url, PW_STR_ARG(http.body[0]));
        }
        assert_true(pw_str_is(http.url, s->sent_to));
        assert_true(pw_str_is(http.method, "POST"));
        assert_true(pw_str_is(http.body[2], "]}"));
        const pw_str value = header_of(&http, s->header);
        assert_true(s->value ? pw_str_is(value, s->value) : value.ptr == NULL);
        free(prefix);
        fixture_free(&f);
    }
}

static void test_N3_the_key_goes_into_its_header_only(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ",'base_url':'http://elsewhere/v1'"));
    say(&f, "hi");
    const pw_http_request http = whole_request(&f, "http://elsewhere/v1", "canary-0123456789");
    for (size_t i = 0; i < http.header_count; i++) {
        assert_int_equal(pw_str_find(http.headers[i].value, PW_STR("canary")) != SIZE_MAX,
                         pw_str_is(http.headers[i].name, "authorization"));
    }
    assert_int_equal(pw_str_find(http.url, PW_STR("canary")), SIZE_MAX);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pw_str_find(http.body[i], PW_STR("canary")), SIZE_MAX);
    }
    const pw_endpoint bad = {.base_url = PW_STR_INIT("http://h"),
                             .key = PW_STR_INIT("canary\r\nx: y")};
    pw_http_request ignored = {.method = PW_STR_NONE};
    pw_error error = {.message = ""};
    assert_int_equal(tested->request(&bad, &f.request, &f.render, &f.arena, &ignored, &error),
                     PW_INVALID);
    assert_lacks(error.message, "canary");
    fixture_free(&f);
}

static void add_tools(fixture *f, pw_tool_declaration *tools)
{
    tools[0] = (pw_tool_declaration){
        .name = PW_STR_INIT("look"),
        .description = PW_STR_INIT("Looks."),
        .input = parse(&f->arena, PW_STR("{\"properties\":{\"n\":{\"minimum\":1.0}}}"))};
    tools[1] = (pw_tool_declaration){.name = PW_STR_INIT("any")};
    f->definition.tools = tools;
    f->definition.tool_count = 2;
    f->definition.instructions = PW_STR("Be kind.");
}

static void expect_prefix(fixture *f, const char *wanted)
{
    const pw_http_request http = whole_request(f, OPENAI, "");
    char *right = readable(wanted);
    if (!pw_str_is(http.body[0], right)) {
        fail_msg("%.*s\n  is not\n%s", PW_STR_ARG(http.body[0]), right);
    }
    free(right);
}

#define TOOLS                                                                                      \
    "'tools':[{'type':'function','function':{'name':'look','description':'Looks.','parameters':{"  \
    "'properties':{'n':{'minimum':1.0}},'type':'object'}}},{'type':'function','function':{"        \
    "'name':'any','parameters':{'type':'object'}}}]"

static void test_P5_1_system_and_tools(void **state)
{
    (void)state;
    pw_tool_declaration tools[2];
    fixture f;
    begin(&f, MODEL("m", ",'parallel_tool_calls':false,'system_role':'developer'"));
    say(&f, "hi");
    /* parallel_tool_calls is refused where there are no tools */
    expect_prefix(&f, "{'model':'m'," STREAM);
    add_tools(&f, tools);
    expect_prefix(&f, "{'model':'m'," TOOLS ",'parallel_tool_calls':false," STREAM
                      "{'role':'developer','content':'Be kind.'},");
    fixture_free(&f);

    begin(&f, MODEL("anthropic/claude-x", ",'dialect':'openrouter'"));
    say(&f, "hi");
    add_tools(&f, tools);
    expect_prefix(&f, "{'model':'anthropic/claude-x'," TOOLS
                      ",'cache_control':{'type':'ephemeral'}," STREAM
                      "{'role':'system','content':[{'type':'text','text':'Be kind.',"
                      "'cache_control':{'type':'ephemeral'}}]},");
    fixture_free(&f);

    begin(&f, MODEL("openai/gpt-x", ",'dialect':'openrouter'"));
    say(&f, "hi");
    f.definition.instructions = PW_STR("Be kind.");
    expect_prefix(&f, "{'model':'openai/gpt-x'," STREAM "{'role':'system','content':'Be kind.'},");
    fixture_free(&f);
}

/* --- Messages --- */

static void fill_loop(fixture *f)
{
    say(f, "hi");
    pw_part *parts = answer(f, 3);
    parts[0] = text_part("Let me see.");
    parts[1] = call_part("toolu_a", "look", "{ \"n\" : 1.50 }");
    parts[2] = call_part(".2", "look", "{}");
    result(f, "toolu_a", "{\"ok\": 1.50}");
    result(f, ".2", "\"plain \\\"text\\\"\"")->is_error = true;
    parts = answer(f, 1);
    parts[0] = call_part("toolu_a", "look", "{}"); /* the provider said it again */
    result(f, "toolu_a", "\"\"");
    say(f, "and?");
}

#define CALL_JSON(id, arguments)                                                                   \
    "{'id':'" id "','type':'function','function':{'name':'look','arguments':'" arguments "'}}"

static void test_P5_1_results_follow_their_calls(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ""));
    fill_loop(&f);
    expect_conversation(
        &f,
        "{'role':'user','content':'hi'},"
        "{'role':'assistant','content':'Let me see.','tool_calls':[" CALL_JSON(
            "c2_toolu_a",
            "{ \\'n\\' : 1.50 }") "," CALL_JSON("p2_2",
                                                "{}") "]},"
                                                      "{'role':'tool','tool_call_id':'c2_toolu_a','"
                                                      "content':'{\\'ok\\': 1.50}'},"
                                                      "{'role':'tool','tool_call_id':'p2_2','"
                                                      "content':'plain \\'text\\''},"
                                                      "{'role':'assistant','content':null,'tool_"
                                                      "calls':[" CALL_JSON(
                                                          "c5_toolu_a",
                                                          "{}") "]},"
                                                                "{'role':'tool','tool_call_id':'c5_"
                                                                "toolu_a','content':''},"
                                                                "{'role':'user','content':'and?'}");
    fixture_free(&f);
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Bugs 25 and 26: whatever the provider's ids, what goes out is unique, of the right form, and
 * equal for call and result. */
static void check_ids(const char *model, size_t length, bool exact, bool plain)
{
    static const char *const calls[] = {
        "functions.Bash:0", "call_0", ".1", "c1_x",
        "a23456789012345678901234567890123456789012345678901234567"};
    fixture f;
    pw_str ids[10], answers[10];
    size_t count = 0, answered = 0;
    begin(&f, model);
    for (int round = 0; round < 2; round++) { /* the same ids again in a later answer */
        say(&f, "hi");
        pw_part *parts = answer(&f, 5);
        for (size_t i = 0; i < 5; i++) {
            parts[i] = call_part(calls[i], "look", "{}");
        }
        for (size_t i = 0; i < 5; i++) {
            result(&f, calls[i], "1");
        }
    }
    char *sent = conversation(&f, 0);
    pw_buffer list;
    pw_buffer_init_arena(&list, &f.arena, SIZE_MAX / 4);
    pw_buffer_format(&list, "[%s]", sent);
    for (const pw_json *m = parse(&f.arena, pw_buffer_str(&list))->child; m; m = m->next) {
        const pw_json *made = pw_json_get(m, "tool_calls");
        for (const pw_json *call = made ? made->child : NULL; call; call = call->next) {
            ids[count++] = pw_json_text(pw_json_get(call, "id"));
        }
        if (pw_json_get(m, "tool_call_id")) {
            answers[answered++] = pw_json_text(pw_json_get(m, "tool_call_id"));
        }
    }
    assert_int_equal(count, 10);
    assert_int_equal(answered, 10);
    for (size_t i = 0; i < count; i++) {
        assert_true(pw_str_equal(ids[i], answers[i]));
        assert_true(exact ? ids[i].len == length : ids[i].len > 0 && ids[i].len <= length);
        for (size_t k = 0; plain && k < ids[i].len; k++) {
            assert_true(is_alphanumeric(ids[i].ptr[k]));
        }
        for (size_t k = 0; k < i; k++) {
            assert_false(pw_str_equal(ids[i], ids[k]));
        }
    }
    free(sent);
    fixture_free(&f);
}

static void test_D10_P13_25_P13_26_chat_ids(void **state)
{
    (void)state;
    check_ids(MODEL("m", ""), 40, false, false);
    check_ids(MODEL("m", ",'dialect':'mistral'"), 9, true, true);
}

/* Bugs 22 and 30, and 10.4: blank text goes, a message with nothing left goes, what a person said
 * does not; broken arguments are never sent. */
static void test_P10_what_is_left_out(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ",'dialect':'deepseek','echo_reasoning':false"));
    say(&f, " \n");
    pw_part *parts = answer(&f, 2);
    parts[0] = text_part("\n\n");
    parts[1] = raw_part(PW_PART_THINKING, "hm", "");
    say(&f, "x");
    parts = answer(&f, 3);
    parts[0] = text_part("\n\n");
    parts[1] = call_part("a", "look", "{\"x\":1}"); /* whole as it stands, but the answer was cut */
    parts[1].broken = true;
    parts[2] = raw_part(PW_PART_SERVER_TOOL, "", "{\"type\":\"server_tool_use\"}");
    result(&f, "a", "\"arguments: not JSON\"");
    expect_conversation(&f, "{'role':'user','content':'(empty message)'},"
                            "{'role':'user','content':'x'},"
                            "{'role':'assistant','content':'','tool_calls':[" CALL_JSON(
                                "c4_a", "{}") "]},"
                                              "{'role':'tool','tool_call_id':'c4_a','content':"
                                              "'arguments: not JSON'}");
    fixture_free(&f);
}

/* --- What goes back (C8) --- */

#define DETAILS "{'reasoning_details':[{'type':'reasoning.text','text':'hm','signature':'s'}]}"
#define EXTRA "{'extra_content':{'google':{'thought_signature':'x'}}}"

static void fill_bound(fixture *f, const char *provider, const char *model, char *kept[2])
{
    kept[0] = readable(DETAILS);
    kept[1] = readable(EXTRA);
    say(f, "hi");
    pw_part *parts = answer(f, 3);
    f->messages[1].provider = pw_str_from(provider);
    f->messages[1].model = pw_str_from(model);
    parts[0] = raw_part(PW_PART_THINKING, "hm", kept[0]);
    parts[1] = text_part("so");
    parts[2] = call_part("a", "look", "{}");
    parts[2].raw = pw_str_from(kept[1]);
    result(f, "a", "1");
}

typedef struct echo {
    const char *model, *provider, *by;
    bool details, extra, reasoning;
} echo;

static const echo echoes[] = {
    {MODEL("m", ",'dialect':'openrouter'"), "openai-chat", "m", true, false, false},
    {MODEL("vendor/m-2", ",'dialect':'openrouter'"), "openai-chat", "vendor/m-2", true, false,
     false},
    {MODEL("m", ",'dialect':'gemini'"), "openai-chat", "m", false, true, false},
    {MODEL("m", ",'dialect':'other'"), "openai-chat", "m", true, true, false},
    {MODEL("m", ",'dialect':'openai'"), "openai-chat", "m", false, false, false},
    {MODEL("m", ",'dialect':'deepseek'"), "openai-chat", "m", false, false, true},
    {MODEL("m", ",'dialect':'vllm','echo_reasoning':true"), "openai-chat", "m", false, false, true},
    {MODEL("deepseek-r1", ",'dialect':'deepseek'"), "openai-chat", "deepseek-r1", false, false,
     false},
    /* another family, another provider: dropped as a unit */
    {MODEL("m", ",'dialect':'openrouter'"), "openai-chat", "n", false, false, false},
    {MODEL("m", ",'dialect':'gemini'"), "anthropic", "m", false, false, false},
};

static void test_C8_P13_27_P13_29_what_goes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof echoes / sizeof echoes[0]; i++) {
        const echo *e = &echoes[i];
        fixture f;
        char *kept[2];
        begin(&f, e->model);
        fill_bound(&f, e->provider, e->by, kept);
        expect_holds(&f,
                     "'reasoning_details':[{'type':'reasoning.text','text':'hm','signature':"
                     "'s'}]",
                     e->details);
        expect_holds(&f, "},'extra_content':{'google':{'thought_signature':'x'}}}]", e->extra);
        expect_holds(&f, "'reasoning_content':'hm'", e->reasoning);
        fixture_free(&f);
        free(kept[0]);
        free(kept[1]);
    }
}

/* Bug 27: DeepSeek wants it with every answer that calls, empty where there was none, and ignores
 * it outside a tool loop, where it is not sent. */
static void test_P5_4_reasoning_content_in_the_loop(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ",'dialect':'deepseek'"));
    say(&f, "hi");
    pw_part *parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_THINKING, "first", "");
    parts[1] = text_part("a");
    say(&f, "go on");
    parts = answer(&f, 1);
    parts[0] = call_part("a", "look", "{}");
    result(&f, "a", "1");
    parts = answer(&f, 2);
    parts[0] = raw_part(PW_PART_THINKING, "last", "");
    parts[1] = text_part("b");
    say(&f, "more");
    expect_conversation(
        &f, "{'role':'user','content':'hi'},{'role':'assistant','content':'a'},"
            "{'role':'user','content':'go on'},"
            "{'role':'assistant','content':'','reasoning_content':'','tool_calls':[" CALL_JSON(
                "c4_a", "{}") "]},{'role':'tool','tool_call_id':'c4_a','content':'1'},"
                              "{'role':'assistant','content':'b','reasoning_content':'last'},"
                              "{'role':'user','content':'more'}");
    fixture_free(&f);
}

/* --- What people say --- */

static void say_parts(fixture *f, const char *const *raws, size_t count)
{
    pw_message *message = add_message(f, PW_ROLE_USER, count);
    pw_part *parts = (pw_part *)(uintptr_t)message->parts;
    for (size_t i = 0; i < count; i++) {
        char *json = readable(raws[i]);
        pw_str kept = PW_STR_NONE;
        assert_int_equal(pw_arena_dup(&f->arena, pw_str_from(json), &kept), PW_OK);
        parts[i] = (pw_part){.kind = PW_PART_OTHER, .raw = kept};
        free(json);
    }
}

static const char *const things[] = {
    "{'type':'image','source':{'type':'base64','media_type':'image/png','data':'QQ=='}}",
    "{'type':'image','source':{'type':'url','url':'http://i'}}",
    ("{'type':'document','title':'T','source':{'type':'base64','media_type':'application/pdf',"
     "'data':'QQ=='}}"),
    "{'type':'document','title':'T','context':'C','source':{'type':'url','url':'http://d'}}",
    "{'type':'document','title':'T','source':{'type':'text','media_type':'text/plain','data':'D'}}",
};

#define IMAGES                                                                                     \
    "{'role':'user','content':[{'type':'image_url','image_url':{'url':'data:image/png;base64,QQ==" \
    "'}},{'type':'image_url','image_url':{'url':'http://i'}},"

static void test_P5_1_images_and_documents(void **state)
{
    (void)state;
    static const struct {
        const char *model, *wanted;
    } rows[] = {
        {MODEL("m", ""), IMAGES "{'type':'file','file':{'filename':'T','file_data':"
                                "'data:application/pdf;base64,QQ=='}},"
                                "{'type':'text','text':'T\\n\\nC\\n\\nhttp://d'},"
                                "{'type':'text','text':'T\\n\\nD'}]}"},
        {MODEL("m", ",'dialect':'openrouter'"),
         IMAGES "{'type':'file','file':{'filename':'T','file_data':"
                "'data:application/pdf;base64,QQ=='}},{'type':'text','text':'C'},"
                "{'type':'file','file':{'filename':'T','file_data':'http://d'}},"
                "{'type':'text','text':'T\\n\\nD'}]}"},
        {MODEL("m", ",'dialect':'mistral'"),
         IMAGES "{'type':'document_url','document_url':'data:application/pdf;base64,QQ=='},"
                "{'type':'text','text':'C'},{'type':'document_url','document_url':'http://d'},"
                "{'type':'text','text':'T\\n\\nD'}]}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f;
        begin(&f, rows[i].model);
        say_parts(&f, things, 5);
        expect_conversation(&f, rows[i].wanted);
        fixture_free(&f);
    }
    fixture f;
    begin(&f, MODEL("m", ""));
    const char *const unknown[] = {"{'type':'later'}", "{'type':"};
    say_parts(&f, unknown, 2);
    expect_conversation(&f, "{'role':'user','content':[{'type':'text','text':'(empty message)'}]}");
    fixture_free(&f);
}

static void test_P10_9_turns_must_be_taken(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ",'dialect':'perplexity'"));
    say(&f, "a");
    say(&f, "b");
    pw_part *parts = answer(&f, 1);
    parts[0] = text_part(" ");
    add_message(&f, PW_ROLE_TRIGGER, 1);
    ((pw_part *)(uintptr_t)f.messages[3].parts)[0] = text_part("c");
    for (int i = 0; i < 2; i++) {
        parts = answer(&f, 2);
        parts[0] = text_part(i ? "e" : "d");
        parts[1] = text_part("!");
    }
    expect_conversation(&f, "{'role':'user','content':'a\\n\\nb\\n\\nc'},"
                            "{'role':'assistant','content':'d!\\n\\ne!'}");
    say(&f, "f");
    char *text = conversation(&f, f.count - 1);
    say_parts(&f, things, 1);
    char *
        anew = conversation(&f, f.count - 1),
       *wanted = readable(
           ",{'role':'user','content':[{'type':'text','text':'f'},{'type':'image_url','image_url':{"
           "'url':'data:image/png;base64,QQ=='}}]}");
    assert_holds(anew, wanted);
    assert_lacks(text, "image_url");
    free(text);
    free(anew);
    free(wanted);
    fixture_free(&f);
}

/* --- The stable prefix --- */

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

static void test_C10_chat_stable_prefix(void **state)
{
    (void)state;
    static const char *const models[] = {
        MODEL("m", ""), MODEL("m", ",'dialect':'mistral'"), MODEL("m", ",'dialect':'deepseek'"),
        MODEL("m", ",'dialect':'openrouter'"), MODEL("m", ",'dialect':'perplexity'")};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        fixture f;
        begin(&f, models[i]);
        say(&f, "hi");
        char *text = conversation(&f, 0);
        for (int step = 0; step < 8; step++) {
            const size_t same = f.count;
            pw_part *parts = answer(&f, 3);
            parts[0] = raw_part(PW_PART_THINKING, "hm", "{\"reasoning_details\":[1]}");
            parts[1] = call_part("a", "look", "{\"x\": 1}");
            parts[2] = call_part(".2", "look", "{}");
            result(&f, "a", "1");
            result(&f, ".2", "null");
            text = next_conversation(&f, text, step % 2 ? same : 0);
        }
        say(&f, "again");
        text = next_conversation(&f, text, f.count - 1);
        pw_part *parts = answer(&f, 1);
        parts[0] = text_part("yes");
        text = next_conversation(&f, text, f.count - 1);
        say(&f, "still there?");
        text = next_conversation(&f, text, f.count - 1);
        free(text);
        fixture_free(&f);
    }
}

/* A fallback of the same family at another server (F6): what was rendered for one is not sent to
 * the other. */
static void test_C10_F6_another_dialect_starts_anew(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ""));
    fill_loop(&f);
    free(conversation(&f, 0));
    char *json = readable(MODEL("m", ",'dialect':'mistral'"));
    f.model.options = parse(&f.arena, pw_str_from(json));
    char *text = conversation(&f, f.count);
    assert_lacks(text, "c2_toolu_a");
    assert_lacks(text, "null");
    free(text);
    free(json);
    fixture_free(&f);
}

/* --- Options --- */

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *model, *error;
    } rows[] = {
        {MODEL("m", ""), NULL},
        {MODEL("m", ",'max_tokens':1,'temperature':2,'reasoning_effort':'high','dialect':'auto',"
                    "'echo_reasoning':true,'stream_options':false,'parallel_tool_calls':true,"
                    "'system_role':'system','max_tokens_field':'max_tokens','auth':'api-key',"
                    "'api_version':'2024-10-21','base_url':'http://h'"),
         NULL},
        {MODEL("", ""), "model.name is empty"},
        {MODEL("m", ",'thinking':'adaptive'"), "model.thinking: there is no such option"},
        {MODEL("m", ",'dialect':'klingon'"), "model.dialect: expected one of auto, other, openai,"},
        {MODEL("m", ",'auth':'basic'"), "model.auth: expected bearer or api-key"},
        {MODEL("m", ",'system_role':'user'"), "model.system_role: expected system or developer"},
        {MODEL("m", ",'max_tokens_field':'n'"),
         "model.max_tokens_field: expected max_tokens or max_completion_tokens"},
        {MODEL("m", ",'max_tokens':0"), "model.max_tokens: expected 1 to 10000000, not 0"},
        {MODEL("m", ",'temperature':2.1"), "model.temperature: expected a number from 0 to 2"},
        {MODEL("m", ",'stream_options':'no'"), "model.stream_options: expected true or false"},
        {MODEL("m", ",'api_version':'a&b'"), "model.api_version: expected letters, digits"},
        {MODEL("m", ",'reasoning_effort':''"), "model.reasoning_effort: expected letters, digits"},
        {MODEL("m", ",'base_url':'ftp://h'"), "model.base_url: expected http:// or https://"},
        {MODEL("m", ",'base_url':'https://openrouter.ai/api/v1'"),
         "model.api_key_env is missing: openrouter asks for a key"},
        {MODEL("m", ",'base_url':'https://openrouter.ai/api/v1','api_key_env':'K'"), NULL},
        {MODEL("m", ",'base_url':'https://api.openai.com/v1'"), NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        char *json = readable(rows[i].model);
        pw_error error = {.message = ""};
        const pw_status status = tested->check(parse(&arena, pw_str_from(json)), &arena, &error);
        if (status != (rows[i].error ? PW_INVALID : PW_OK)) {
            fail_msg("%s: %s", rows[i].model, error.message);
        }
        assert_holds(error.message, rows[i].error ? rows[i].error : "");
        free(json);
        pw_arena_free(&arena);
    }
}

/* --- Failures --- */

typedef struct answered {
    int status;
    const char *body, *told;
} answered;

static const answered failures[] = {
    {400,
     "{'error':{'message':'Unsupported parameter: max_tokens is not supported with this model."
     " Use max_completion_tokens instead.','type':'invalid_request_error','param':"
     "'max_tokens','code':'unsupported_parameter'}}",
     "instead. (model.max_tokens_field says which field is sent)"},
    {422,
     "{'detail':[{'type':'extra_forbidden','loc':['body','stream_options'],'msg':"
     "'stream_options: Extra inputs are not permitted'}]}",
     "(set model.stream_options to false)"},
    {400,
     "{'error':{'message':'The `reasoning_content` in the thinking mode must be passed back to"
     " the API.','type':'invalid_request_error'}}",
     "(model.echo_reasoning says whether it is sent)"},
    {400,
     "{'error':{'message':'max_tokens is too large: 100000. This model supports at most 4096 "
     "completion tokens','param':'max_tokens','code':null}}",
     NULL},
    {401, "{'error':{'message':'unknown key for temperature'}}", NULL},
};

static void test_F5_what_to_set_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        char *body = readable(failures[i].body);
        const pw_endpoint endpoint = {.now_ms = NOW_MS};
        const pw_failure failure =
            tested->failure(&endpoint, failures[i].status, NULL, 0, pw_str_from(body), &arena);
        assert_int_equal(failure.failure_class, PW_FAILURE_FINAL);
        pw_str text = PW_STR_NONE;
        assert_int_equal(pw_arena_dup(&arena, failure.message, &text), PW_OK);
        if (failures[i].told) {
            assert_holds(text.ptr, failures[i].told);
        } else {
            assert_lacks(text.ptr, "model.");
        }
        free(body);
        pw_arena_free(&arena);
    }
}

/* Groq: the model wrote a call that does not fit. */
static void test_F5_P6_a_call_that_groq_refuses_is_tried_again(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_endpoint endpoint = {.now_ms = NOW_MS};
    const pw_str body = PW_STR("{\"error\":{\"message\":\"failed\",\"type\":"
                               "\"invalid_request_error\",\"code\":\"tool_use_failed\"}}");
    const pw_failure failure = tested->failure(&endpoint, 400, NULL, 0, body, &arena);
    assert_int_equal(failure.failure_class, PW_FAILURE_RETRY);
    assert_true(pw_str_is(failure.code, "tool_use_failed"));
    pw_arena_free(&arena);
}

static void fill_positions(fixture *f)
{
    f->definition.instructions = PW_STR("Be kind.");
    say(f, "hi"); /* element 1 */
    pw_part *parts = answer(f, 1);
    parts[0] = text_part(" "); /* none */
    parts = answer(f, 1);
    parts[0] = call_part("a", "look", "{}"); /* 2 */
    result(f, "a", "1");                     /* 3 */
    say_parts(f, things, 5);                 /* 4 */
}

typedef struct complaint {
    int status;
    const char *body;
    int message, part; /* -1: not said */
} complaint;

static const complaint complaints[] = {
    {400, "{'error':{'message':'Invalid image data','param':'messages[4].content[1].image_url'}}",
     4, 1},
    {400, "{'error':{'message':'messages.[4].content.[0].image_url.url: no such image'}}", 4, 0},
    {422, "{'detail':[{'loc':['body','messages',4,'user','content',2],'msg':'no files'}]}", 4, 2},
    {400, "{'error':{'message':'messages[1].content: too rude'}}", 0, 0},
    {400, "{'error':{'message':'messages[4].content: too much'}}", -1, -1},
    {400, "{'error':{'message':'messages[4].content[5]: out of range'}}", -1, -1},
    {400, "{'error':{'message':'messages[2].tool_calls[0]: bad'}}", -1, -1},
    {400, "{'error':{'message':'messages[3].content: bad'}}", -1, -1},
    {400, "{'error':{'message':'messages[0].content: bad'}}", -1, -1},
    {400, "{'error':{'message':'messages[99999999999999999999].content[0]: bad'}}", -1, -1},
    {400, "{'error':{'message':'messages with role tool must follow calls'}}", -1, -1},
    {500, "{'error':{'message':'messages[4].content[1]'}}", -1, -1},
    {400, "not JSON", -1, -1},
};

static void test_C9_the_part_complained_about(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof complaints / sizeof complaints[0]; i++) {
        const complaint *c = &complaints[i];
        fixture f;
        begin(&f, MODEL("m", ""));
        fill_positions(&f);
        char *body = readable(c->body);
        size_t message = 99, part = 99;
        const bool said =
            tested->rejected(&f.request, c->status, pw_str_from(body), &f.arena, &message, &part);
        if (said != (c->message >= 0) ||
            (said && ((int)message != c->message || (int)part != c->part))) {
            fail_msg("%s: %d %zu %zu", c->body, said, message, part);
        }
        free(body);
        fixture_free(&f);
    }
}

/* With a document that becomes two elements before it, and joined messages. */
static void test_C9_positions_where_turns_are_taken(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MODEL("m", ",'dialect':'perplexity'"));
    say(&f, "a");
    say_parts(&f, things, 2);
    pw_part *parts = answer(&f, 1);
    parts[0] = text_part("b");
    say(&f, "c");
    size_t message = 0, part = 0;
    const pw_str body = PW_STR("{\"error\":{\"message\":\"messages[0].content[2]: bad\"}}");
    assert_true(tested->rejected(&f.request, 400, body, &f.arena, &message, &part));
    assert_int_equal(message, 1);
    assert_int_equal(part, 1);
    const pw_str last = PW_STR("{\"error\":{\"message\":\"messages[2]: bad\"}}");
    assert_true(tested->rejected(&f.request, 400, last, &f.arena, &message, &part));
    assert_int_equal(message, 3);
    fixture_free(&f);
}

int main(void)
{
    tested = &pw_provider_chat;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P5_1_P6_prefix_url_and_headers),
        cmocka_unit_test(test_N3_the_key_goes_into_its_header_only),
        cmocka_unit_test(test_P5_1_system_and_tools),
        cmocka_unit_test(test_P5_1_results_follow_their_calls),
        cmocka_unit_test(test_D10_P13_25_P13_26_chat_ids),
        cmocka_unit_test(test_P10_what_is_left_out),
        cmocka_unit_test(test_C8_P13_27_P13_29_what_goes_back),
        cmocka_unit_test(test_P5_4_reasoning_content_in_the_loop),
        cmocka_unit_test(test_P5_1_images_and_documents),
        cmocka_unit_test(test_P10_9_turns_must_be_taken),
        cmocka_unit_test(test_C10_chat_stable_prefix),
        cmocka_unit_test(test_C10_F6_another_dialect_starts_anew),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_F5_what_to_set_is_said),
        cmocka_unit_test(test_F5_P6_a_call_that_groq_refuses_is_tried_again),
        cmocka_unit_test(test_C9_the_part_complained_about),
        cmocka_unit_test(test_C9_positions_where_turns_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
