/*
 * Anthropic streams: one small stream for every quirk of PROVIDERS.md 3.5 to 3.7 and the assembling
 * bugs of 13. Every one is read whole, in pieces of 1 and 7 bytes, and cut once at every byte: all
 * must tell the same.
 */
#include "support.h"

#include <string.h>

#define START                                                                                      \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"claude-x-1-20260101\"," \
    "\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}"
#define TEXT_BLOCK(index)                                                                          \
    "{\"type\":\"content_block_start\",\"index\":" #index                                          \
    ",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}"
#define TEXT(index, text)                                                                          \
    "{\"type\":\"content_block_delta\",\"index\":" #index                                          \
    ",\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}}"
#define TOOL_BLOCK(index, id, name)                                                                \
    "{\"type\":\"content_block_start\",\"index\":" #index                                          \
    ",\"content_block\":{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"" name                 \
    "\",\"input\":{}}}"
#define JSON(index, text)                                                                          \
    "{\"type\":\"content_block_delta\",\"index\":" #index                                          \
    ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"" text "\"}}"
#define BLOCK(index, block)                                                                        \
    "{\"type\":\"content_block_start\",\"index\":" #index ",\"content_block\":" block "}"
#define DELTA(index, delta)                                                                        \
    "{\"type\":\"content_block_delta\",\"index\":" #index ",\"delta\":" delta "}"
#define CLOSE(index) "{\"type\":\"content_block_stop\",\"index\":" #index "}"
#define STOP(reason)                                                                               \
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason                             \
    "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":20}}"
#define END "{\"type\":\"message_stop\"}"

/* What the body tells, however it is cut. The caller frees. */
static char *told_however_cut(const char *body)
{
    const pw_str bytes = pw_str_from(body);
    char *whole = told(bytes, WHOLE);
    for (size_t at = 1; at < bytes.len; at++) {
        char *cut = told(bytes, CUT_AT(at));
        assert_string_equal(cut, whole);
        free(cut);
    }
    const size_t pieces[] = {1, 7};
    for (size_t i = 0; i < 2; i++) {
        char *cut = told(bytes, PIECES(pieces[i]));
        assert_string_equal(cut, whole);
        free(cut);
    }
    return whole;
}

#define expect(body_expression, ...)                                                               \
    do {                                                                                           \
        char *body = (body_expression);                                                            \
        char *text = told_however_cut(body);                                                       \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {                            \
            assert_holds(text, wanted[w]);                                                         \
        }                                                                                          \
        free(text);                                                                                \
        free(body);                                                                                \
    } while (0)

static void test_P3_5_plain_text(void **state)
{
    (void)state;
    expect(events(START, TEXT_BLOCK(0), "{\"type\":\"ping\"}", TEXT(0, "Hel"),
                  TEXT(0, "lo \\u00e9\\n"), CLOSE(0), STOP("end_turn"), END, NULL),
           "reply done [] id=msg_1 model=claude-x-1-20260101",
           "\ntext id= name= text=Hello \xC3\xA9\n", "arguments= raw=\n", "usage=10/-1/-1/20/-1",
           "shown=Hello \xC3\xA9\n\nthought=");
}

static void test_P3_5_start_may_hold_text(void **state)
{
    (void)state;
    expect(events(START, BLOCK(0, "{\"type\":\"text\",\"text\":\"He\"}"), TEXT(0, "y"), CLOSE(0),
                  STOP("end_turn"), END, NULL),
           "text=Hey", "shown=Hey");
}

static void test_P3_5_thinking_and_signature(void **state)
{
    (void)state;
    expect(
        events(
            START, BLOCK(0, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}"),
            DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"a \\\"b\\\" \\u20ac\\u0001\"}"),
            DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"\",\"estimated_tokens\":9}"),
            DELTA(0, "{\"type\":\"signature_delta\",\"signature\":\"Sig+/==\"}"), CLOSE(0),
            TEXT_BLOCK(1), TEXT(1, "x"), CLOSE(1), STOP("end_turn"), END, NULL),
        "thinking id= name= text=a \"b\" \xE2\x82\xAC\x01 arguments= "
        "raw={\"type\":\"thinking\",\"thinking\":"
        "\"a \\\"b\\\" \xE2\x82\xAC\\u0001\",\"signature\":\"Sig+/==\"}",
        "thought=a \"b\" \xE2\x82\xAC\x01");
}

static void test_P3_5_signature_is_assigned(void **state)
{
    (void)state;
    expect(
        events(START, BLOCK(0, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"old\"}"),
               DELTA(0, "{\"type\":\"signature_delta\",\"signature\":\"one\"}"),
               DELTA(0, "{\"type\":\"signature_delta\",\"signature\":\"two\"}"), CLOSE(0),
               STOP("end_turn"), END, NULL),
        "raw={\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"two\"}"); /* display omitted:
                                                                                   "" is kept */
}

static void test_P13_21_unsigned_thinking_has_no_raw(void **state)
{
    (void)state;
    expect(events(START, BLOCK(0, "{\"type\":\"thinking\",\"thinking\":\"\"}"),
                  DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}"), CLOSE(0),
                  STOP("end_turn"), END, NULL),
           "thinking id= name= text=hm arguments= raw=\n");
}

static void test_P3_5_whole_blocks_in_the_start(void **state)
{
    (void)state;
    expect(events(START,
                  BLOCK(0, "{ \"type\": \"redacted_thinking\", \"data\":\"En\\/cr\\u0041\" }"),
                  CLOSE(0),
                  BLOCK(1, "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"s\",\"content\":"
                           "[{\"n\":1.50}]}"),
                  CLOSE(1), BLOCK(2, "{\"type\":\"container_upload\",\"file_id\":\"f\"}"), CLOSE(2),
                  BLOCK(3, "{\"type\":\"from_the_future\",\"x\":null}"), CLOSE(3), STOP("end_turn"),
                  END, NULL),
           "thinking id= name= text= arguments= raw={ \"type\": \"redacted_thinking\", "
           "\"data\":\"En\\/cr\\u0041\" }",
           "server_tool id= name= text= arguments= "
           "raw={\"type\":\"web_search_tool_result\",\"tool_use_id\":\"s\","
           "\"content\":[{\"n\":1.50}]}",
           "other id= name= text= arguments= raw={\"type\":\"container_upload\",\"file_id\":\"f\"}",
           "other id= name= text= arguments= raw={\"type\":\"from_the_future\",\"x\":null}");
}

static void test_P3_5_citations(void **state)
{
    (void)state;
    expect(events(START, BLOCK(0, "{\"citations\":[],\"type\":\"text\",\"text\":\"\"}"),
                  TEXT(0, "cited"),
                  DELTA(0, "{\"type\":\"citations_delta\",\"citation\":{\"url\":\"u\",\"n\":1e2}}"),
                  DELTA(0, "{\"type\":\"citations_delta\",\"citation\":{\"url\":\"v\"}}"), CLOSE(0),
                  TEXT_BLOCK(1), TEXT(1, " "), CLOSE(1), STOP("end_turn"), END, NULL),
           "text id= name= text=cited arguments= "
           "raw={\"citations\":[{\"url\":\"u\",\"n\":1e2},{\"url\":\"v\"}],"
           "\"type\":\"text\",\"text\":\"cited\"}",
           "text id= name= text=  arguments= raw=\n");
}

static void test_P3_5_server_tool_use(void **state)
{
    (void)state;
    expect(
        events(
            START,
            BLOCK(0, "{\"type\":\"server_tool_use\",\"id\":\"srv\",\"name\":\"web_search\","
                     "\"input\":{},\"k\":1}"),
            JSON(0, ""), JSON(0, "{\\\"q\\\":"), JSON(0, " \\\"x\\\"}"), CLOSE(0),
            BLOCK(1, "{\"type\":\"mcp_tool_use\",\"id\":\"m\",\"name\":\"n\",\"input\":{\"a\":1}}"),
            CLOSE(1), STOP("pause_turn"), END, NULL),
        "reply paused", /* only tool_use is the client's */
        "raw={\"type\":\"server_tool_use\",\"id\":\"srv\",\"name\":\"web_search\",\"input\":{\"q\":"
        " \"x\"},\"k\":1}",
        "raw={\"type\":\"mcp_tool_use\",\"id\":\"m\",\"name\":\"n\",\"input\":{\"a\":1}}");
}

static void test_P3_5_compaction(void **state)
{
    (void)state;
    expect(events(START, BLOCK(0, "{\"type\":\"compaction\",\"content\":null}"),
                  DELTA(0, "{\"type\":\"compaction_delta\",\"content\":\"first\"}"),
                  DELTA(0, "{\"type\":\"compaction_delta\",\"content\":\"whole\"}"), CLOSE(0),
                  STOP("compaction"), END, NULL),
           "reply compacted",
           "other id= name= text= arguments= raw={\"type\":\"compaction\",\"content\":\"whole\"}");
}

static void test_P3_5_fallback_names_the_model(void **state)
{
    (void)state;
    expect(events(START, BLOCK(0, "{\"type\":\"fallback\",\"model\":\"claude-y-2\"}"), CLOSE(0),
                  TEXT_BLOCK(1), TEXT(1, "x"), CLOSE(1), STOP("end_turn"), END, NULL),
           "model=claude-y-2", "other id= name= text= arguments= raw={\"type\":\"fallback\"");
}

/* --- Calls ---- */

static void test_P3_5_call_with_split_arguments(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "toolu_1", "look"), JSON(0, ""), JSON(0, "{\\\"na"),
                  JSON(0, "me\\\": \\\"\\\\u00"), JSON(0, "e9\\\", \\\"n\\\": 1.0"), JSON(0, "}"),
                  CLOSE(0), STOP("tool_use"), END, NULL),
           "reply tool_calls",
           "tool_call id=toolu_1 name=look text= arguments={\"name\": \"\\u00e9\", \"n\": 1.0} "
           "raw=\n");
}

static void test_P13_8_tool_without_arguments(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "t", "now"), JSON(0, ""), CLOSE(0), STOP("tool_use"), END,
                  NULL),
           "arguments={} raw=\n");
    expect(events(START, TOOL_BLOCK(0, "t", "now"), CLOSE(0), STOP("tool_use"), END, NULL),
           "arguments={} raw=\n");
    expect(events(START, BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"now\"}"),
                  CLOSE(0), STOP("tool_use"), END, NULL),
           "arguments={} raw=\n");
}

static void test_P13_8_whole_input_in_the_start(void **state)
{
    (void)state;
    expect(
        events(
            START,
            BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{\"a\": 1.50}}"),
            JSON(0, ""), CLOSE(0), STOP("tool_use"), END, NULL),
        "arguments={\"a\": 1.50} raw=\n");
}

static void test_P3_5_caller_is_kept(void **state)
{
    (void)state;
    expect(
        events(START,
               BLOCK(0, "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{},"
                        "\"caller\":{\"type\":"
                        "\"direct\"}}"),
               JSON(0, "{\\\"a\\\":1}"), CLOSE(0), STOP("tool_use"), END, NULL),
        "arguments={\"a\":1} "
        "raw={\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{},\"caller\":{\"type\":"
        "\"direct\"}}");
}

static void test_P13_2_interleaved_deltas_go_by_index(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "a", "x"), TOOL_BLOCK(1, "b", "y"), JSON(1, "{\\\"b\\\":"),
                  JSON(0, "{\\\"a\\\":"), JSON(1, "2}"), JSON(0, "1}"), CLOSE(1), CLOSE(0),
                  STOP("tool_use"), END, NULL),
           "id=a name=x text= arguments={\"a\":1}", "id=b name=y text= arguments={\"b\":2}");
}

static void test_P13_1_blocks_that_all_say_index_0(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{\\\"a\\\":1}"), CLOSE(0),
                  TOOL_BLOCK(0, "b", "y"), JSON(0, "{\\\"b\\\":2}"), CLOSE(0), STOP("tool_use"),
                  END, NULL),
           "id=a name=x text= arguments={\"a\":1}", "id=b name=y text= arguments={\"b\":2}");
}

static void test_P13_6_calls_close_only_at_their_end(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{}"), JSON(0, "  "), CLOSE(0),
                  STOP("tool_use"), END, NULL),
           "arguments={} raw");
}

static void test_P13_7_cut_arguments_never_run(void **state)
{
    (void)state;
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{\\\"a\\\": \\\"lon"),
                  STOP("max_tokens"), END, NULL),
           "reply max_output", "arguments={\"a\": \"lon broken raw=");
    /* whole by accident, but still open */
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{\\\"a\\\":1}"), STOP("max_tokens"), END,
                  NULL),
           "arguments={\"a\":1} broken");
    /* nothing came of them before the limit, closed or not */
    expect(events(START, TOOL_BLOCK(0, "a", "x"), STOP("max_tokens"), END, NULL),
           "arguments={} broken");
    expect(events(START, TOOL_BLOCK(0, "a", "x"), CLOSE(0), STOP("max_tokens"), END, NULL),
           "arguments={} broken");
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{"),
                  STOP("model_context_window_exceeded"), END, NULL),
           "reply context_full", "broken");
    /* a call that was closed before the limit is whole */
    expect(events(START, TOOL_BLOCK(0, "a", "x"), JSON(0, "{\\\"a\\\":1}"), CLOSE(0), TEXT_BLOCK(1),
                  TEXT(1, "an"), STOP("max_tokens"), END, NULL),
           "reply max_output", "arguments={\"a\":1} raw=");
}

static void test_P13_30_arguments_are_an_object_or_broken(void **state)
{
    (void)state;
    const char *const bad[] = {JSON(0, "[1]"), JSON(0, "\\\"text\\\""), JSON(0, "null"),
                               JSON(0, "{\\\"a\\\":\\n01}"),
                               JSON(0, "{\\\"a\\\":\\\"line\\nbreak\\\"}")};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect(
            events(START, TOOL_BLOCK(0, "a", "x"), bad[i], CLOSE(0), STOP("tool_use"), END, NULL),
            "reply tool_calls", " broken raw=");
    }
}

/* --- Stops, usage ---- */

static void test_P3_6_stop_reasons(void **state)
{
    (void)state;
    const char *const table[][2] = {
        {"end_turn", "reply done []"},
        {"tool_use", "reply done []"}, /* says so, but asks for nothing */
        {"max_tokens", "reply max_output []"},
        {"stop_sequence", "reply stop_sequence []"},
        {"pause_turn", "reply paused []"},
        {"refusal", "reply refused []"},
        {"model_context_window_exceeded", "reply context_full []"},
        {"compaction", "reply compacted []"},
        {"something_new", "reply done [something_new]"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char stop[200];
        snprintf(stop, sizeof stop,
                 "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\"},\"usage\":{}}",
                 table[i][0]);
        expect(events(START, TEXT_BLOCK(0), TEXT(0, "x"), CLOSE(0), stop, END, NULL), table[i][1]);
    }
}

static void test_P13_15_calls_count_more_than_the_stop_reason(void **state)
{
    (void)state;
    const char *const reasons[] = {STOP("end_turn"), STOP("stop_sequence"), STOP("pause_turn"),
                                   STOP("new_one")};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        expect(events(START, TOOL_BLOCK(0, "a", "x"), CLOSE(0), reasons[i], END, NULL),
               "reply tool_calls");
    }
}

static void test_P3_6_details(void **state)
{
    (void)state;
    expect(events(START,
                  "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"stop_sequence\",\"stop_"
                  "sequence\":"
                  "\"```\"},\"usage\":{}}",
                  END, NULL),
           "reply stop_sequence [```]");
    expect(
        events(
            START,
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\",\"stop_details\":"
            "{\"category\":\"bio\",\"explanation\":\"no such help\"}},\"usage\":{}}",
            END, NULL),
        "reply refused [no such help]");
    expect(
        events(
            START,
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\",\"stop_details\":"
            "{\"category\":\"bio\",\"explanation\":null}},\"usage\":{}}",
            END, NULL),
        "reply refused [bio]");
    expect(events(START, STOP("end_turn"), END, NULL),
           "reply done []"); /* empty content is still done */
}

static void test_P13_13_usage_is_overwritten(void **state)
{
    (void)state;
    expect(events("{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":2479,"
                  "\"output_tokens\":1,"
                  "\"cache_read_input_tokens\":5,\"cache_creation_input_tokens\":7}}}",
                  "{\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"input_tokens\":3000,"
                  "\"output_tokens\":5}}",
                  "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
                  "\"input_tokens\":404500,"
                  "\"output_tokens\":943,\"cache_read_input_tokens\":null,\"output_tokens_"
                  "details\":{\"thinking_tokens\":"
                  "261}}}",
                  END, NULL),
           "usage=404500/5/7/943/261");
}

static void test_P3_7_iterations_are_summed(void **state)
{
    (void)state;
    expect(
        events(
            START,
            "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
            "\"input_tokens\":"
            "10,\"output_tokens\":20,\"iterations\":[{\"type\":\"compaction\",\"input_tokens\":100,"
            "\"output_tokens\":30,\"cache_read_input_tokens\":55096},{\"type\":\"message\",\"input_"
            "tokens\":"
            "10,\"output_tokens\":20}]}}",
            END, NULL),
        "usage=110/55096/0/50/-1");
}

static void test_P3_7_nonsense_usage(void **state)
{
    (void)state;
    expect(
        events(START,
               "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
               "\"input_tokens\":"
               "9223372036854775807,\"output_tokens\":-5,\"iterations\":[{\"input_tokens\":9e18},"
               "{\"input_tokens\":9e18}]}}",
               END, NULL),
        "usage=200000000000/0/0/0/-1");
}

/* --- Failures ---- */

static void test_P13_12_early_close_is_cut_off(void **state)
{
    (void)state;
    expect(events(START, TEXT_BLOCK(0), TEXT(0, "half"), NULL),
           "failure retry cut_off until=0 message=the answer ended", "usage=10/-1/-1/1/-1",
           "shown=half");
    expect(events(NULL), "failure retry cut_off");
    expect(events(START, TEXT_BLOCK(0), TEXT(0, "x"), CLOSE(0), END, NULL),
           "failure retry cut_off"); /* no stop reason */
    /* without message_stop a known stop reason is enough */
    expect(events(START, TEXT_BLOCK(0), TEXT(0, "x"), CLOSE(0), STOP("end_turn"), NULL),
           "reply done");
}

static void test_P13_11_error_in_band(void **state)
{
    (void)state;
    expect(events(START, TEXT_BLOCK(0), TEXT(0, "half"),
                  "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                  "\"Overloaded\"}}",
                  TEXT(0, "never"), STOP("end_turn"), END, NULL),
           "failure retry overloaded_error until=0 message=Overloaded", "usage=10/",
           "shown=half\n");
    expect(events("{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
                  "\"prompt is too long: 9 "
                  "tokens > 8 maximum\"}}",
                  NULL),
           "failure repair context_length");
    expect(events("{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":"
                  "\"bad key\"}}",
                  NULL),
           "failure fail authentication_error");
    expect(events("{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":"
                  "\"slow\",\"details\":"
                  "{\"error_code\":\"enforced_spend_limit_reached\"}}}",
                  NULL),
           "failure next enforced_spend_limit_reached");
    expect(strdup("event: error\ndata: not json\n\n"), "failure retry http_500");
    expect(strdup("error: {\"code\":500,\"message\":\"slot lost\"}\n\n"), "failure retry http_500",
           "message=slot lost");
}

static void test_P3_5_malformed_streams_are_tried_again(void **state)
{
    (void)state;
    expect(events(START, START, STOP("end_turn"), END, NULL), "failure retry unreadable",
           "second message");
    expect(events(START, TEXT(3, "x"), STOP("end_turn"), END, NULL), "failure retry unreadable",
           "not started");
    expect(events(START, "{\"type\":", STOP("end_turn"), END, NULL), "failure retry unreadable",
           "not a JSON object");
    expect(events(START, "{\"type\":\"content_block_start\",\"index\":0}", STOP("end_turn"), END,
                  NULL),
           "failure retry unreadable");
    expect(strdup("<html><body>502 Bad Gateway</body></html>"), "failure retry unreadable");
}

static void test_P3_5_unknown_is_ignored(void **state)
{
    (void)state;
    expect(events(START, "{\"type\":\"new_event\",\"index\":0}", TEXT_BLOCK(0),
                  DELTA(0, "{\"type\":\"new_delta\",\"x\":1}"), TEXT(0, "x"),
                  DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"not here\"}"), CLOSE(0),
                  CLOSE(9), STOP("end_turn"), END, TEXT(0, "after the end"), "[DONE]", NULL),
           "reply done", "text=x arguments", "shown=x\nthought=");
}

static void test_P2_type_from_the_event_name(void **state)
{
    (void)state;
    expect(strdup("event: message_start\ndata: {\"message\":{\"id\":\"m\"}}\n\n"
                  "data: {\"delta\":{\"stop_reason\":\"end_turn\"}}\nevent: message_delta\n\n"),
           "reply done [] id=m");
}

static void test_P2_json_answer_to_a_stream_request(void **state)
{
    (void)state;
    expect(strdup(" \r\n{\"id\":\"m\",\"type\":\"message\",\"model\":\"x\",\"content\":[{\"type\":"
                  "\"text\",\"text\":\"hi\"},"
                  "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"n\",\"input\":{\"a\":1}}],\"stop_"
                  "reason\":\"tool_use\","
                  "\"usage\":{\"input_tokens\":3,\"output_tokens\":4}} "),
           "reply tool_calls [] id=m model=x", "text=hi", "arguments={\"a\":1}",
           "usage=3/-1/-1/4/-1", "shown=\n");
    expect(
        strdup(
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}"),
        "failure retry overloaded_error");
    expect(strdup("{\"id\":\"m\",\"content\":[{\"type\":\"text\",\"te"), "failure retry cut_off");
    expect(strdup("{\"hello\":1}"), "failure retry unreadable");
}

static void test_A8_text_is_made_valid(void **state)
{
    (void)state;
    expect(events(START, TEXT_BLOCK(0),
                  TEXT(0, "a\\u0000b\\ud800c\xFF"
                          "d"),
                  CLOSE(0), STOP("end_turn"), END, NULL),
           "text=a\xEF\xBF\xBD"
           "b\xEF\xBF\xBD"
           "c\xEF\xBF\xBD"
           "d",
           "shown=a\xEF\xBF\xBD"
           "b");
}

static void test_F9_progress(void **state)
{
    (void)state;
    const struct {
        const char *event;
        bool progress;
    } table[] = {{START, false},
                 {"{\"type\":\"ping\"}", false},
                 {BLOCK(0, "{\"type\":\"thinking\",\"thinking\":\"\"}"), true},
                 {"{\"type\":\"ping\"}", false},
                 {DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"\"}"), false},
                 {DELTA(0, "{\"type\":\"thinking_delta\",\"thinking\":\"a\"}"), true},
                 {CLOSE(0), true},
                 {TOOL_BLOCK(1, "t", "n"), true},
                 {JSON(1, ""), false},
                 {JSON(1, "{"), true},
                 {STOP("tool_use"), true}};
    pw_model_stream *stream = NULL;
    assert_int_equal(pw_provider_anthropic.stream_new(&pw_heap, &stream), PW_OK);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char *body = events(table[i].event, NULL);
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = false;
        assert_int_equal(
            pw_provider_anthropic.feed(stream, pw_str_from(body), &deltas, &count, &progress, NULL),
            PW_OK);
        assert_int_equal(progress, table[i].progress);
        free(body);
    }
    const pw_str comment = PW_STR(": keep-alive\n\n");
    const pw_delta *deltas = NULL;
    size_t count = 0;
    bool progress = true;
    assert_int_equal(pw_provider_anthropic.feed(stream, comment, &deltas, &count, &progress, NULL),
                     PW_OK);
    assert_false(progress);
    pw_provider_anthropic.stream_free(stream);
}

static void test_a_reply_over_the_cap_is_refused(void **state)
{
    (void)state;
    pw_model_stream *stream = NULL;
    assert_int_equal(pw_provider_anthropic.stream_new(&pw_heap, &stream), PW_OK);
    const size_t size = (size_t)65 << 20;
    char *bytes = calloc(1, size);
    memset(bytes, ':', size);
    const pw_delta *deltas = NULL;
    size_t count = 0;
    bool progress = false;
    pw_error error = {.message = ""};
    const pw_str body = {bytes, size};
    assert_int_equal(pw_provider_anthropic.feed(stream, body, &deltas, &count, &progress, &error),
                     PW_TOO_LARGE);
    assert_holds(error.message, "the answer is over");
    pw_provider_anthropic.stream_free(stream);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P3_5_plain_text),
        cmocka_unit_test(test_P3_5_start_may_hold_text),
        cmocka_unit_test(test_P3_5_thinking_and_signature),
        cmocka_unit_test(test_P3_5_signature_is_assigned),
        cmocka_unit_test(test_P13_21_unsigned_thinking_has_no_raw),
        cmocka_unit_test(test_P3_5_whole_blocks_in_the_start),
        cmocka_unit_test(test_P3_5_citations),
        cmocka_unit_test(test_P3_5_server_tool_use),
        cmocka_unit_test(test_P3_5_compaction),
        cmocka_unit_test(test_P3_5_fallback_names_the_model),
        cmocka_unit_test(test_P3_5_call_with_split_arguments),
        cmocka_unit_test(test_P13_8_tool_without_arguments),
        cmocka_unit_test(test_P13_8_whole_input_in_the_start),
        cmocka_unit_test(test_P3_5_caller_is_kept),
        cmocka_unit_test(test_P13_2_interleaved_deltas_go_by_index),
        cmocka_unit_test(test_P13_1_blocks_that_all_say_index_0),
        cmocka_unit_test(test_P13_6_calls_close_only_at_their_end),
        cmocka_unit_test(test_P13_7_cut_arguments_never_run),
        cmocka_unit_test(test_P13_30_arguments_are_an_object_or_broken),
        cmocka_unit_test(test_P3_6_stop_reasons),
        cmocka_unit_test(test_P13_15_calls_count_more_than_the_stop_reason),
        cmocka_unit_test(test_P3_6_details),
        cmocka_unit_test(test_P13_13_usage_is_overwritten),
        cmocka_unit_test(test_P3_7_iterations_are_summed),
        cmocka_unit_test(test_P3_7_nonsense_usage),
        cmocka_unit_test(test_P13_12_early_close_is_cut_off),
        cmocka_unit_test(test_P13_11_error_in_band),
        cmocka_unit_test(test_P3_5_malformed_streams_are_tried_again),
        cmocka_unit_test(test_P3_5_unknown_is_ignored),
        cmocka_unit_test(test_P2_type_from_the_event_name),
        cmocka_unit_test(test_P2_json_answer_to_a_stream_request),
        cmocka_unit_test(test_A8_text_is_made_valid),
        cmocka_unit_test(test_F9_progress),
        cmocka_unit_test(test_a_reply_over_the_cap_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
