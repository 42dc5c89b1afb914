/*
 * Answers of OpenAI Responses, one small stream for every quirk of PROVIDERS.md 4 and every bug of
 * its section 13 that touches them. No recording of response.incomplete, refusal.delta or a flat
 * `error` event exists: those streams are made by hand after the reference.
 */
#include "support.h"

#include <string.h>

#define CREATED                                                                                    \
    "{\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\","          \
    "\"status\":\"in_progress\"}}"
#define COMPLETED                                                                                  \
    "{\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\","        \
    "\"status\":\"completed\"}}"
#define ADDED(index, item)                                                                         \
    "{\"type\":\"response.output_item.added\",\"output_index\":" #index ",\"item\":" item "}"
#define DONE(index, item)                                                                          \
    "{\"type\":\"response.output_item.done\",\"output_index\":" #index ",\"item\":" item "}"
#define TEXT(index, text)                                                                          \
    "{\"type\":\"response.output_text.delta\",\"output_index\":" #index                            \
    ",\"content_index\":0,\"delta\":\"" text "\"}"
#define ARGUMENTS(index, text)                                                                     \
    "{\"type\":\"response.function_call_arguments.delta\",\"output_index\":" #index                \
    ",\"delta\":\"" text "\"}"
#define MESSAGE(id, text)                                                                          \
    "{\"id\":\"" id "\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\","     \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"" text                                      \
    "\",\"annotations\":[],\"logprobs\":[]}]}"
#define OPEN_MESSAGE(id)                                                                           \
    "{\"id\":\"" id "\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":\"assistant\","   \
    "\"content\":[]}"
#define CALL(id, call, name, arguments)                                                            \
    "{\"id\":\"" id "\",\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"" call   \
    "\",\"name\":\"" name "\",\"arguments\":\"" arguments "\"}"

/* What these events are told as holds all of `holds` (NULL ends). */
static void expect(const char *body, const char *const *wanted)
{
    char *whole = told(pw_str_from(body), WHOLE);
    char *pieces = told(pw_str_from(body), PIECES(3));
    assert_string_equal(whole, pieces);
    for (size_t i = 0; wanted[i]; i++) {
        assert_holds(whole, wanted[i]);
    }
    free(whole);
    free(pieces);
}

#define EXPECT(body, ...)                                                                          \
    do {                                                                                           \
        char *expected_body = (body);                                                              \
        expect(expected_body, (const char *const[]){__VA_ARGS__, NULL});                           \
        free(expected_body);                                                                       \
    } while (0)

static char *copy(const char *text)
{
    char *made = malloc(strlen(text) + 1);
    return strcpy(made, text);
}

/* --- Assembling (4.4) --- */

static void test_P4_plain_text(void **state)
{
    (void)state;
    EXPECT(events(CREATED, ADDED(0, OPEN_MESSAGE("m")), TEXT(0, "Hel"), TEXT(0, "lo"),
                  DONE(0, MESSAGE("m", "Hello")), COMPLETED, NULL),
           "reply done [] id=resp_1 model=gpt-x", "\ntext id= name= text=Hello arguments= raw=\n",
           "\nshown=Hello\n");
}

/* Bug 14: GitHub Copilot gives an item another id in every event. */
static void test_P13_bug14_ids_that_rotate(void **state)
{
    (void)state;
    EXPECT(events(CREATED, ADDED(0, OPEN_MESSAGE("a1")),
                  "{\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"a2\","
                  "\"content_index\":0,\"delta\":\"one\"}",
                  "{\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"a3\","
                  "\"content_index\":0,\"delta\":\" two\"}",
                  DONE(0, MESSAGE("a4", "one two")), COMPLETED, NULL),
           "\ntext id= name= text=one two arguments= raw=\nusage", "\nshown=one two\n");
}

/* Bug 2 and 4.4: items interleave; item 1 opens and closes before item 0 is done. */
static void test_P13_bug2_items_that_interleave(void **state)
{
    (void)state;
    EXPECT(events(CREATED, ADDED(0, CALL("f0", "c0", "one", "")),
                  ADDED(1, CALL("f1", "c1", "two", "")), ARGUMENTS(0, "{\\\"a\\\":"),
                  ARGUMENTS(1, "{\\\"b\\\":2}"), DONE(1, CALL("f1", "c1", "two", "{\\\"b\\\":2}")),
                  ARGUMENTS(0, "1}"), DONE(0, CALL("f0", "c0", "one", "{\\\"a\\\":1}")), COMPLETED,
                  NULL),
           "reply tool_calls",
           "tool_call id=c0 name=one text= arguments={\"a\":1} raw=\n"
           "tool_call id=c1 name=two text= arguments={\"b\":2} raw=\n");
}

static void test_P4_items_are_in_the_order_of_their_index(void **state)
{
    (void)state;
    EXPECT(events(DONE(2, MESSAGE("c", "third")), DONE(0, MESSAGE("a", "first")),
                  DONE(1, MESSAGE("b", "second")), COMPLETED, NULL),
           "text=first arguments= raw=\ntext id= name= text=second arguments= raw=\n"
           "text id= name= text=third");
}

/* What output_item.done says counts, whatever the deltas were. */
static void test_P4_done_is_authoritative(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, OPEN_MESSAGE("m")), TEXT(0, "wrong"), DONE(0, MESSAGE("m", "right")),
                  TEXT(0, " late"), COMPLETED, NULL),
           "text=right arguments=");
    EXPECT(events(ADDED(0, CALL("f", "c", "n", "")), ARGUMENTS(0, "{\\\"a\\\":1"),
                  DONE(0, CALL("f", "c", "n", "{\\\"a\\\":2}")), COMPLETED, NULL),
           "arguments={\"a\":2} raw=");
}

/* The encrypted content of output_item.added may be half. */
static void test_P4_encrypted_content_of_done(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, "{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[],"
                           "\"encrypted_content\":\"half\"}"),
                  DONE(0, "{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[],"
                          "\"encrypted_content\":\"whole\"}"),
                  DONE(1, MESSAGE("m", "x")), COMPLETED, NULL),
           "thinking id= name= text= arguments= raw={\"id\":\"rs\",\"type\":\"reasoning\","
           "\"summary\":[],\"encrypted_content\":\"whole\"}\n");
    /* never done: never sent */
    EXPECT(events(ADDED(0, "{\"id\":\"rs\",\"type\":\"reasoning\",\"summary\":[],"
                           "\"encrypted_content\":\"half\"}"),
                  "{\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\","
                  "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}",
                  NULL),
           "reply max_output []", "thinking id= name= text= arguments= raw=\n");
}

static void test_P4_reasoning_without_anything_is_kept(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, "{\"id\":\"rs\",\"type\":\"reasoning\",\"content\":[],\"summary\":[]}"),
                  DONE(1, CALL("f", "c", "n", "{}")), COMPLETED, NULL),
           "thinking id= name= text= arguments= raw={\"id\":\"rs\",\"type\":\"reasoning\","
           "\"content\":[],\"summary\":[]}\n");
}

#define SUMMARY(index, text)                                                                       \
    "{\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"summary_"            \
    "index\":" #index ",\"delta\":\"" text "\"}"

static void test_P4_summaries_are_paragraphs(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, "{\"type\":\"reasoning\",\"summary\":[]}"), SUMMARY(0, "a"),
                  SUMMARY(0, "b"), SUMMARY(1, "c"),
                  DONE(0, "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
                          "\"text\":\"ab\"},{\"type\":\"summary_text\",\"text\":\"c\"}]}"),
                  DONE(1, MESSAGE("m", "x")), COMPLETED, NULL),
           "thinking id= name= text=ab\n\nc arguments=", "\nthought=ab\n\nc");
    /* open models say what they think */
    EXPECT(events(ADDED(0, "{\"type\":\"reasoning\",\"summary\":[]}"),
                  "{\"type\":\"response.reasoning_text.delta\",\"output_index\":0,"
                  "\"content_index\":0,\"delta\":\"hm\"}",
                  DONE(0, "{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":"
                          "\"reasoning_text\",\"text\":\"hm\"}]}"),
                  DONE(1, MESSAGE("m", "x")), COMPLETED, NULL),
           "thinking id= name= text=hm arguments=", "\nthought=hm");
}

/* Gateways leave events out: deltas, output_item.added, output_item.done, the final output. */
static void test_P4_what_a_gateway_leaves_out(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, MESSAGE("m", "only done")), COMPLETED, NULL),
           "text=only done arguments=", "\nshown=only done\n");
    EXPECT(events(TEXT(0, "only "), TEXT(0, "deltas"), COMPLETED, NULL), "reply done",
           "text=only deltas arguments= raw=", "\nshown=only deltas\n");
    EXPECT(
        events(ADDED(0, CALL("f", "c", "n", "")), ARGUMENTS(0, "{\\\"a\\\":1}"), COMPLETED, NULL),
        "reply tool_calls", "tool_call id=c name=n text= arguments={\"a\":1} raw=");
    EXPECT(events("{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
                  "\"output\":[" MESSAGE("m", "final only") "]}}",
                  NULL),
           "text=final only arguments=", "\nshown=final only\n");
    EXPECT(events("{\"type\":\"response.output_text.done\",\"output_index\":0,\"content_index\":0,"
                  "\"text\":\"done text\"}",
                  COMPLETED, NULL),
           "text=done text arguments=", "\nshown=done text\n");
    /* a done message without its content */
    EXPECT(
        events(TEXT(0, "kept"), DONE(0, "{\"type\":\"message\",\"content\":[]}"), COMPLETED, NULL),
        "text=kept arguments=");
    /* no output_index at all: by item_id, else the newest */
    EXPECT(events("{\"type\":\"response.output_item.added\",\"item\":" OPEN_MESSAGE("a") "}",
                  "{\"type\":\"response.output_item.added\",\"item\":" CALL("f", "c", "n", "") "}",
                  "{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{}\"}",
                  "{\"type\":\"response.output_text.delta\",\"item_id\":\"a\",\"delta\":\"x\"}",
                  COMPLETED, NULL),
           "text id= name= text=x arguments= raw=\ntool_call id=c name=n text= arguments={} raw=");
}

/* The final output is not added a second time, whatever its ids are (OpenRouter). */
static void test_P4_final_output_counts_once(void **state)
{
    (void)state;
    char *body = events(DONE(0, MESSAGE("m", "once")),
                        "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
                        "\"output\":[" MESSAGE("other", "once") "]}}",
                        NULL);
    char *text = told_text(body);
    char *first = strstr(text, "text=once");
    assert_non_null(first);
    assert_null(strstr(first + 1, "text=once"));
    free(text);
    free(body);
    EXPECT(events(DONE(0, MESSAGE("m", "x")),
                  "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
                  "\"output\":[]}}",
                  NULL),
           "text=x arguments=");
}

/* Bedrock: `data:` before `event:` (also a recording); and events named only by `event:`. */
static void test_P4_names_of_events(void **state)
{
    (void)state;
    EXPECT(copy("data: " DONE(0, MESSAGE("m", "x")) "\nevent: response.output_item.done\n\n"
                                                    "data: " COMPLETED
                                                    "\nevent: response.completed\n\n"),
           "text=x arguments=");
    EXPECT(copy("event: response.output_item.done\ndata: {\"output_index\":0,\"item\":" MESSAGE(
               "m", "x") "}\n\nevent: response.completed\ndata: {\"response\":{}}\n\n"),
           "reply done", "text=x arguments=");
}

/* --- Calls --- */

/* Bug 15: there is no stop for tools; the calls that are there decide. */
static void test_P13_bug15_calls_decide(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, MESSAGE("m", "let me see")), DONE(1, CALL("f", "c", "n", "{}")),
                  COMPLETED, NULL),
           "reply tool_calls []");
}

/* A call made by a program is still in_progress in a response that is completed: it runs. */
static void test_P4_program_calls(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, "{\"id\":\"cm\",\"type\":\"program\",\"call_id\":\"p\",\"code\":\"x\"}"),
                  DONE(1, "{\"id\":\"f\",\"type\":\"function_call\",\"status\":\"in_progress\","
                          "\"arguments\":\"{\\\"a\\\":1}\",\"call_id\":\"c\",\"caller\":{\"type\":"
                          "\"program\",\"caller_id\":\"p\"},\"name\":\"n\"}"),
                  COMPLETED, NULL),
           "reply tool_calls", "other id= name= text= arguments= raw={\"id\":\"cm\"",
           "tool_call id=c name=n text= arguments={\"a\":1} raw={\"id\":\"f\",\"type\":"
           "\"function_call\",\"status\":\"in_progress\",\"arguments\":\"\",\"call_id\":\"c\","
           "\"caller\":{\"type\":\"program\",\"caller_id\":\"p\"},\"name\":\"n\"}\n");
}

static void test_P4_arguments(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, CALL("f", "c", "n", "")), COMPLETED, NULL), "arguments={} raw=");
    EXPECT(events(DONE(0, CALL("f", "c", "n", " {} ")), COMPLETED, NULL), "arguments={} raw=");
    EXPECT(events(DONE(0, CALL("f", "c", "n", "{\\\"a\\\":")), COMPLETED, NULL), "reply tool_calls",
           "arguments={\"a\": broken raw=");
    EXPECT(events(DONE(0, CALL("f", "c", "n", "[1]")), COMPLETED, NULL), "arguments=[1] broken");
    EXPECT(events(DONE(0, CALL("f", "c", "n", "{\\\"a\\\":1.50}")), COMPLETED, NULL),
           "arguments={\"a\":1.50} raw=");
    EXPECT(events(DONE(0, "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\","
                          "\"arguments\":{\"a\":1}}"),
                  COMPLETED, NULL),
           "arguments={\"a\":1} raw=");
}

#define INCOMPLETE(reason)                                                                         \
    "{\"type\":\"response.incomplete\",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-x\","       \
    "\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"" reason                       \
    "\"},\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}"

/* Bug 7: arguments that the token limit cut are never run, also where they happen to be whole. */
static void test_P13_bug7_cut_arguments(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, CALL("f", "c", "n", "")), ARGUMENTS(0, "{\\\"a\\\":"),
                  INCOMPLETE("max_output_tokens"), NULL),
           "reply max_output []", "arguments={\"a\": broken", "usage=3/-1/-1/4/-1");
    EXPECT(events(ADDED(0, CALL("f", "c", "n", "")), ARGUMENTS(0, "{}"),
                  INCOMPLETE("max_output_tokens"), NULL),
           "arguments={} broken");
    EXPECT(events(ADDED(0, CALL("f", "c", "n", "")), INCOMPLETE("max_output_tokens"), NULL),
           "arguments={} broken");
    EXPECT(events(DONE(0, "{\"type\":\"function_call\",\"status\":\"incomplete\",\"call_id\":\"c\","
                          "\"name\":\"n\",\"arguments\":\"{}\"}"),
                  INCOMPLETE("max_output_tokens"), NULL),
           "arguments={} broken");
}

/* Bug 6: a call is not closed because its text happens to parse. */
static void test_P13_bug6_arguments_that_parse_early(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, CALL("f", "c", "n", "")), ARGUMENTS(0, "{}"), ARGUMENTS(0, " "),
                  DONE(0, CALL("f", "c", "n", "{\\\"a\\\":1}")), COMPLETED, NULL),
           "arguments={\"a\":1} raw=");
}

/* Bug 16 and 25: what a bridge gives the same index, or the same call_id, are two calls. */
static void test_P13_bug16_equal_places_and_ids(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, CALL("f1", "c", "one", "")), ARGUMENTS(0, "{\\\"a\\\":1}"),
                  DONE(0, CALL("f1", "c", "one", "{\\\"a\\\":1}")),
                  ADDED(0, CALL("f2", "c", "two", "")), ARGUMENTS(0, "{\\\"b\\\":2}"),
                  DONE(0, CALL("f2", "c", "two", "{\\\"b\\\":2}")), COMPLETED, NULL),
           "tool_call id=c name=one text= arguments={\"a\":1} raw=\n"
           "tool_call id=c name=two text= arguments={\"b\":2} raw=\n");
    EXPECT(events(DONE(0, CALL("f1", "c", "one", "{}")), DONE(0, CALL("f2", "d", "two", "{}")),
                  COMPLETED, NULL),
           "name=one", "name=two");
}

/* No custom tool is offered: its call cannot run, and is answered so. */
static void test_P4_custom_tool_calls(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, "{\"id\":\"ct\",\"type\":\"custom_tool_call\",\"call_id\":\"c\","
                           "\"name\":\"n\",\"input\":\"\"}"),
                  "{\"type\":\"response.custom_tool_call_input.delta\",\"output_index\":0,"
                  "\"delta\":\"do it\"}",
                  DONE(0, "{\"id\":\"ct\",\"type\":\"custom_tool_call\",\"call_id\":\"c\","
                          "\"name\":\"n\",\"input\":\"do it\"}"),
                  COMPLETED, NULL),
           "reply tool_calls", "tool_call id=c name=n text= arguments=do it broken raw={\"id\"");
}

/* --- Messages --- */

static void test_P4_phase_is_kept(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, "{\"id\":\"m\",\"type\":\"message\",\"status\":\"completed\","
                          "\"content\":[{\"type\":\"output_text\",\"annotations\":[],\"text\":"
                          "\"a\"}],\"phase\":\"commentary\",\"role\":\"assistant\"}"),
                  COMPLETED, NULL),
           "text id= name= text=a arguments= raw={\"id\":\"m\",\"type\":\"message\",\"status\":"
           "\"completed\",\"content\":[],\"phase\":\"commentary\",\"role\":\"assistant\"}\n");
    EXPECT(events(DONE(0, "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\","
                          "\"text\":\"a\"}],\"phase\":null}"),
                  COMPLETED, NULL),
           "text=a arguments= raw=\n");
}

static void test_P4_annotations_are_kept(void **state)
{
    (void)state;
    EXPECT(events(DONE(0, "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":"
                          "\"a\",\"annotations\":[{\"url\":\"u\"}]}]}"),
                  COMPLETED, NULL),
           "text=a arguments= raw={\"type\":\"message\",\"content\":[{\"type\":\"output_text\","
           "\"text\":\"a\",\"annotations\":[{\"url\":\"u\"}]}]}\n");
    EXPECT(events(DONE(0, "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":"
                          "\"a\"},{\"type\":\"output_text\",\"text\":\"b\"}]}"),
                  COMPLETED, NULL),
           "text=ab arguments= raw={\"type\":\"message\",\"content\":[{\"type\":\"output_text\",");
}

#define REFUSE(text)                                                                               \
    "{\"type\":\"response.refusal.delta\",\"output_index\":0,\"content_index\":0,\"delta\":"       \
    "\"" text "\"}"

static void test_P4_refusals(void **state)
{
    (void)state;
    EXPECT(events(ADDED(0, OPEN_MESSAGE("m")), REFUSE("I "), REFUSE("can't"),
                  "{\"type\":\"response.refusal.done\",\"output_index\":0,\"content_index\":0,"
                  "\"refusal\":\"I can't\"}",
                  DONE(0, "{\"type\":\"message\",\"content\":[{\"type\":\"refusal\",\"refusal\":"
                          "\"I can't\"}]}"),
                  COMPLETED, NULL),
           "reply refused [I can't]", "refusal id= name= text=I can't arguments= raw=\n",
           "\nshown=I can't\n");
    EXPECT(events(ADDED(0, OPEN_MESSAGE("m")), REFUSE("no"), COMPLETED, NULL), "reply refused [no]",
           "refusal id= name= text=no");
    /* text before it: two parts, each an item of its own when it must be kept */
    EXPECT(events(DONE(0, "{\"type\":\"message\",\"phase\":\"x\",\"content\":[{\"type\":"
                          "\"output_text\",\"text\":\"Well\"},{\"type\":\"refusal\",\"refusal\":"
                          "\"no\"}]}"),
                  COMPLETED, NULL),
           "reply refused [no]",
           "text id= name= text=Well arguments= raw={\"type\":\"message\",\"phase\":\"x\","
           "\"content\":[{\"type\":\"output_text\",\"text\":\"Well\"}]}\n",
           "refusal id= name= text=no arguments= raw={\"type\":\"message\",\"phase\":\"x\","
           "\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}\n");
}

/* Server tools are never run here, and go back as they came. */
static void test_P4_server_tools(void **state)
{
    (void)state;
    EXPECT(
        events(ADDED(0, "{\"id\":\"ws\",\"type\":\"web_search_call\",\"status\":\"in_progress\"}"),
               "{\"type\":\"response.web_search_call.searching\",\"output_index\":0}",
               DONE(0, "{\"id\":\"ws\",\"type\":\"web_search_call\",\"status\":\"completed\","
                       "\"action\":{\"query\":\"q\"}}"),
               DONE(1, "{\"id\":\"co\",\"type\":\"compaction\",\"encrypted_content\":\"e\"}"),
               DONE(2, MESSAGE("m", "x")), COMPLETED, NULL),
        "reply done",
        "server_tool id= name= text= arguments= raw={\"id\":\"ws\",\"type\":\"web_search_call\","
        "\"status\":\"completed\",\"action\":{\"query\":\"q\"}}\n",
        "other id= name= text= arguments= raw={\"id\":\"co\",\"type\":\"compaction\"");
}

/* --- Ends (4.6) --- */

static void test_P4_incomplete(void **state)
{
    (void)state;
    EXPECT(
        events(ADDED(0, OPEN_MESSAGE("m")), TEXT(0, "so f"), INCOMPLETE("max_output_tokens"), NULL),
        "reply max_output []", "text=so f");
    EXPECT(events(DONE(0, "{\"type\":\"reasoning\",\"summary\":[]}"),
                  INCOMPLETE("max_output_tokens"), NULL),
           "reply max_output []");
    EXPECT(events(TEXT(0, "a"), INCOMPLETE("content_filter"), NULL), "reply filtered []");
    EXPECT(events(TEXT(0, "a"), INCOMPLETE("steered"), NULL), "reply paused [steered]");
    EXPECT(events(TEXT(0, "a"), INCOMPLETE("max_messages"), NULL), "reply paused [max_messages]");
    EXPECT(events(TEXT(0, "a"), INCOMPLETE("new_reason"), NULL), "reply max_output [new_reason]");
}

/* Bug 12: a stream that ends early is never done. */
static void test_P13_bug12_cut_off(void **state)
{
    (void)state;
    EXPECT(events(CREATED, TEXT(0, "half"), NULL), "failure retry cut_off", "\nshown=half\n");
    EXPECT(events(CREATED, DONE(0, MESSAGE("m", "x")), NULL), "failure retry cut_off");
    EXPECT(copy(""), "failure retry cut_off");
    EXPECT(copy(": keep-alive\n\n"), "failure retry cut_off");
}

/* Gateways end with [DONE]: after the response, or in its stead. */
static void test_P2_done_marker(void **state)
{
    (void)state;
    EXPECT(copy("data: " DONE(0, MESSAGE("m", "x")) "\n\ndata: " COMPLETED
                                                    "\n\ndata: [DONE]\n\ndata: " DONE(
                                                        1, MESSAGE("n", "late")) "\n\n"),
           "reply done", "text=x arguments= raw=\nusage");
    EXPECT(copy("data: " DONE(0, MESSAGE("m", "x")) "\n\ndata: [DONE]\n\n"), "reply done",
           "text=x arguments=");
    EXPECT(copy("data: " TEXT(0, "open") "\n\ndata: [DONE]\n\n"), "failure retry cut_off");
    EXPECT(copy("data: [DONE]\n\n"), "failure retry cut_off");
}

#define FAILED(code)                                                                               \
    "{\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":"       \
    "\"" code "\",\"message\":\"words\"}}}"

/* Bug 11: an error inside a 200. Flat as documented, nested as recorded; one failure either way. */
static void test_P13_bug11_errors_in_band(void **state)
{
    (void)state;
    EXPECT(
        events(CREATED,
               "{\"type\":\"error\",\"code\":\"server_error\",\"message\":\"flat\",\"param\":null}",
               FAILED("rate_limit_exceeded"), NULL),
        "failure retry server_error until=0 message=flat");
    EXPECT(events(CREATED,
                  "{\"type\":\"error\",\"error\":{\"type\":\"server_error\",\"code\":null,"
                  "\"message\":\"nested\"}}",
                  NULL),
           "failure retry server_error until=0 message=nested");
    EXPECT(copy("event: error\ndata: {\"error\":{\"message\":\"named\"}}\n\n"),
           "failure retry http_500 until=0 message=named");
    EXPECT(events(CREATED, TEXT(0, "half"), FAILED("server_error"), NULL),
           "failure retry server_error until=0 message=words");
    EXPECT(events(FAILED("rate_limit_exceeded"), NULL), "failure retry rate_limit_exceeded");
    EXPECT(events(FAILED("vector_store_timeout"), NULL), "failure retry vector_store_timeout");
    EXPECT(events(FAILED("insufficient_quota"), NULL), "failure next insufficient_quota");
    EXPECT(events(FAILED("context_length_exceeded"), NULL), "failure repair context_length");
    static const char *const finals[] = {FAILED("invalid_prompt"), FAILED("bio_policy"),
                                         FAILED("misalignment_policy_violation"),
                                         FAILED("image_too_large"), FAILED("invalid_base64_image")};
    for (size_t i = 0; i < sizeof finals / sizeof finals[0]; i++) {
        EXPECT(events(finals[i], NULL), "failure fail ");
    }
    EXPECT(
        events("{\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":null}}",
               NULL),
        "failure retry http_500");
}

static void test_P4_cancelled(void **state)
{
    (void)state;
    EXPECT(
        events("{\"type\":\"response.cancelled\",\"response\":{\"status\":\"cancelled\"}}", NULL),
        "failure retry cancelled");
}

static void test_P4_unreadable(void **state)
{
    (void)state;
    EXPECT(copy("data: nonsense\n\n"), "failure retry unreadable");
    EXPECT(copy("<html>"), "failure retry unreadable");
    EXPECT(copy("{\"hello\":1}"), "failure retry unreadable");
    EXPECT(events("{\"type\":\"response.output_item.added\",\"item\":1}", NULL),
           "failure retry unreadable");
    EXPECT(events("{\"type\":\"response.output_item.done\"}", NULL), "failure retry unreadable");
    EXPECT(events(ARGUMENTS(0, "{}"), NULL), "failure retry unreadable");
}

/* --- One object to a request that asked for a stream --- */

static void test_P2_one_object(void **state)
{
    (void)state;
    EXPECT(copy("{\"id\":\"resp_1\",\"object\":\"response\",\"model\":\"gpt-x\",\"status\":"
                "\"completed\",\"error\":null,\"output\":[{\"type\":\"reasoning\",\"summary\":[]}"
                "," MESSAGE("m", "x") "," CALL("f", "c", "n",
                                               "{}") "],\"usage\":{\"input_tokens\":10,"
                                                     "\"input_tokens_details\":{"
                                                     "\"cached_tokens\":4,\"cache_write_"
                                                     "tokens\":1},\"output_tokens\":7,"
                                                     "\"output_tokens_details\":{"
                                                     "\"reasoning_tokens\":2}}}"),
           "reply tool_calls [] id=resp_1 model=gpt-x", "text=x", "tool_call id=c name=n",
           "usage=5/4/1/7/2");
    EXPECT(copy("{\"error\":{\"message\":\"m\",\"code\":\"server_error\"}}"),
           "failure retry server_error until=0 message=m");
    EXPECT(copy("{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":"
                "\"invalid_prompt\",\"message\":\"m\"}}"),
           "failure fail invalid_prompt until=0 message=m");
    EXPECT(copy("{\"object\":\"response\",\"status\":\"incomplete\",\"incomplete_details\":{"
                "\"reason\":\"content_filter\"},\"output\":[]}"),
           "reply filtered");
    EXPECT(copy("{\"object\":\"response\",\"status\":\"compl"), "failure retry cut_off");
}

/* --- Usage (4.7, 11) --- */

#define SPENT(usage)                                                                               \
    "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":" usage "}" \
    "}"

static void test_P11_usage(void **state)
{
    (void)state;
    EXPECT(events(SPENT("{\"input_tokens\":100,\"input_tokens_details\":{\"cached_tokens\":60,"
                        "\"cache_write_tokens\":30},\"output_tokens\":20,\"output_tokens_details\":"
                        "{\"reasoning_tokens\":15},\"total_tokens\":120}"),
                  NULL),
           "usage=10/60/30/20/15\n");
    EXPECT(
        events(SPENT("{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":60}}"), NULL),
        "usage=0/60/-1/-1/-1\n");
    EXPECT(events(SPENT("null"), NULL), "usage=-1/-1/-1/-1/-1\n");
    EXPECT(events(SPENT("{\"input_tokens\":1,\"output_tokens\":2,\"cost\":0.0125}"), NULL),
           "usage=1/-1/-1/2/-1 cost=12500\n");
}

/* --- Background (4.5) --- */

#define QUEUED                                                                                     \
    "{\"type\":\"response.queued\",\"response\":{\"id\":\"resp_9\",\"status\":\"queued\","         \
    "\"background\":true}}"

static void test_P4_a_resumed_stream_begins_anywhere(void **state)
{
    (void)state;
    EXPECT(events(QUEUED, "{\"type\":\"response.in_progress\",\"response\":{\"id\":\"resp_9\"}}",
                  DONE(0, MESSAGE("m", "x")), COMPLETED, NULL),
           "reply done", "text=x");
    EXPECT(
        events("{\"type\":\"response.in_progress\",\"response\":{\"id\":\"resp_9\",\"model\":\"g\","
               "\"status\":\"in_progress\"}}",
               DONE(0, MESSAGE("m", "x")),
               "{\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}", NULL),
        "reply done [] id=resp_9 model=g", "text=x");
    EXPECT(events(QUEUED, NULL), "failure retry cut_off");
    /* a plain answer to the same question */
    EXPECT(copy("{\"id\":\"resp_9\",\"object\":\"response\",\"status\":\"queued\",\"output\":[]}"),
           "failure retry cut_off");
    EXPECT(copy("{\"id\":\"resp_9\",\"object\":\"response\",\"status\":\"in_progress\"}"),
           "failure retry cut_off");
    EXPECT(copy("{\"id\":\"resp_9\",\"object\":\"response\",\"status\":\"completed\",\"output\":"
                "[" MESSAGE("m", "x") "]}"),
           "reply done [] id=resp_9", "text=x");
}

/* The id is known with the first event, of a request in the background only. */
static void test_P4_accepted(void **state)
{
    (void)state;
    const char *const bodies[] = {"data: " QUEUED "\n\n", "data: " CREATED "\n\n"};
    for (size_t i = 0; i < 2; i++) {
        pw_model_stream *stream = NULL;
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = true;
        assert_int_equal(tested->stream_new(&pw_heap, &stream), PW_OK);
        assert_int_equal(tested->accepted(stream).len, 0);
        assert_int_equal(
            tested->feed(stream, pw_str_from(bodies[i]), &deltas, &count, &progress, NULL), PW_OK);
        assert_true(pw_str_is(tested->accepted(stream), i == 0 ? "resp_9" : ""));
        assert_false(progress); /* F9: waiting in a queue is none */
        tested->stream_free(stream);
    }
}

/* --- Progress (F9) --- */

static void test_F9_progress(void **state)
{
    (void)state;
    static const struct {
        const char *event;
        bool progress;
    } rows[] = {
        {CREATED, false},
        {"{\"type\":\"response.in_progress\",\"response\":{}}", false},
        {"{\"type\":\"keepalive\",\"sequence_number\":3}", false},
        {ADDED(0, OPEN_MESSAGE("m")), true},
        {TEXT(0, "x"), true},
        {TEXT(0, ""), false},
        {"{\"type\":\"response.web_search_call.searching\",\"output_index\":0}", true},
        {DONE(0, MESSAGE("m", "")), true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pw_model_stream *stream = NULL;
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = !rows[i].progress;
        char *body = events(rows[i].event, NULL);
        assert_int_equal(tested->stream_new(&pw_heap, &stream), PW_OK);
        assert_int_equal(tested->feed(stream, pw_str_from(body), &deltas, &count, &progress, NULL),
                         PW_OK);
        assert_int_equal(progress, rows[i].progress);
        tested->stream_free(stream);
        free(body);
    }
}

/* Bug 9 and 10: characters and line ends cut between pieces; `expect` reads every body so. */
static void test_P13_bug9_utf8_and_line_ends(void **state)
{
    (void)state;
    EXPECT(copy("\xEF\xBB\xBF"
                "data:" TEXT(0, "h\xC3\xA9\xF0\x9F\x98\x80") "\r\n\r\ndata:" COMPLETED "\r\n\r\n"),
           "text=h\xC3\xA9\xF0\x9F\x98\x80 arguments=", "\nshown=h\xC3\xA9\xF0\x9F\x98\x80\n");
    EXPECT(events(TEXT(0, "a\\u0000b\\ud800"), COMPLETED, NULL), "text=a\xEF\xBF\xBD"
                                                                 "b arguments=");
}

/* A character of two halves, cut between deltas: what is shown is what is kept. */
static void test_A8_surrogates_cut_between_deltas(void **state)
{
    (void)state;
    EXPECT(events(TEXT(0, "a\\ud83d"), TEXT(0, "\\ude00b"),
                  DONE(0, MESSAGE("m", "a\\ud83d\\ude00b")), COMPLETED, NULL),
           "text=a\xF0\x9F\x98\x80"
           "b arguments=",
           "\nshown=a\xF0\x9F\x98\x80"
           "b\n");
    EXPECT(
        events(TEXT(0, "\\uD83D"), TEXT(0, "\\uDE00\\ud83d"), TEXT(0, "\\ude00"), COMPLETED, NULL),
        "text=\xF0\x9F\x98\x80\xF0\x9F\x98\x80 ", "\nshown=\xF0\x9F\x98\x80\xF0\x9F\x98\x80\n");
    /* none: a lone half, a second half, an escaped backslash before it */
    EXPECT(events(TEXT(0, "\\ud83d"), TEXT(0, "x"), COMPLETED, NULL), "text=\xEF\xBF\xBDx ",
           "\nshown=\xEF\xBF\xBDx\n");
    EXPECT(events(TEXT(0, "\\ud83d"), TEXT(0, "\\ud83d\\ude00"), COMPLETED, NULL),
           "text=\xEF\xBF\xBD\xF0\x9F\x98\x80 ");
    EXPECT(events(TEXT(0, "\\ude00"), TEXT(0, "\\\\ud83d"), COMPLETED, NULL),
           "text=\xEF\xBF\xBD\\ud83d ", "\nshown=\xEF\xBF\xBD\\ud83d\n");
    EXPECT(events(TEXT(0, "a\\ud83d"), DONE(0, MESSAGE("m", "a\\ud83d")), COMPLETED, NULL),
           "text=a\xEF\xBF\xBD ", "\nshown=a\xEF\xBF\xBD\n");
}

static void test_too_many_items(void **state)
{
    (void)state;
    pw_buffer body, out;
    pw_buffer_init(&body, &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    for (int i = 0; i < 5000; i++) {
        pw_buffer_format(&body,
                         "data: {\"type\":\"response.output_item.added\",\"output_index\":%d,"
                         "\"item\":{\"type\":\"x\"}}\n\n",
                         i);
    }
    assert_int_equal(run_stream(&pw_heap, pw_buffer_str(&body), WHOLE, &out), PW_TOO_LARGE);
    pw_buffer_free(&body);
    pw_buffer_free(&out);
}

static void test_too_many_texts_of_one_item(void **state)
{
    (void)state;
    pw_buffer body, out;
    pw_buffer_init(&body, &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    for (int i = 0; i < 5000; i++) {
        pw_buffer_format(&body,
                         "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,"
                         "\"content_index\":%d,\"delta\":\"x\"}\n\n",
                         i);
    }
    assert_int_equal(run_stream(&pw_heap, pw_buffer_str(&body), WHOLE, &out), PW_TOO_LARGE);
    pw_buffer_free(&body);
    pw_buffer_free(&out);
}

int main(void)
{
    tested = &pw_provider_openai;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P4_plain_text),
        cmocka_unit_test(test_P13_bug14_ids_that_rotate),
        cmocka_unit_test(test_P13_bug2_items_that_interleave),
        cmocka_unit_test(test_P4_items_are_in_the_order_of_their_index),
        cmocka_unit_test(test_P4_done_is_authoritative),
        cmocka_unit_test(test_P4_encrypted_content_of_done),
        cmocka_unit_test(test_P4_reasoning_without_anything_is_kept),
        cmocka_unit_test(test_P4_summaries_are_paragraphs),
        cmocka_unit_test(test_P4_what_a_gateway_leaves_out),
        cmocka_unit_test(test_P4_final_output_counts_once),
        cmocka_unit_test(test_P4_names_of_events),
        cmocka_unit_test(test_P13_bug15_calls_decide),
        cmocka_unit_test(test_P4_program_calls),
        cmocka_unit_test(test_P4_arguments),
        cmocka_unit_test(test_P13_bug7_cut_arguments),
        cmocka_unit_test(test_P13_bug6_arguments_that_parse_early),
        cmocka_unit_test(test_P13_bug16_equal_places_and_ids),
        cmocka_unit_test(test_P4_custom_tool_calls),
        cmocka_unit_test(test_P4_phase_is_kept),
        cmocka_unit_test(test_P4_annotations_are_kept),
        cmocka_unit_test(test_P4_refusals),
        cmocka_unit_test(test_P4_server_tools),
        cmocka_unit_test(test_P4_incomplete),
        cmocka_unit_test(test_P13_bug12_cut_off),
        cmocka_unit_test(test_P2_done_marker),
        cmocka_unit_test(test_P13_bug11_errors_in_band),
        cmocka_unit_test(test_P4_cancelled),
        cmocka_unit_test(test_P4_unreadable),
        cmocka_unit_test(test_P2_one_object),
        cmocka_unit_test(test_P11_usage),
        cmocka_unit_test(test_P4_a_resumed_stream_begins_anywhere),
        cmocka_unit_test(test_P4_accepted),
        cmocka_unit_test(test_F9_progress),
        cmocka_unit_test(test_P13_bug9_utf8_and_line_ends),
        cmocka_unit_test(test_A8_surrogates_cut_between_deltas),
        cmocka_unit_test(test_too_many_items),
        cmocka_unit_test(test_too_many_texts_of_one_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
