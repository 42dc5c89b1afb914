/*
 * What servers of Chat Completions do (PROVIDERS.md 5, 6 and 13), one small stream each: the events
 * and what comes of them. Quotes are single ones, to be read by people. Every stream is read whole
 * and in pieces.
 */
#include "support.h"

#include <string.h>

#define DELTA(delta) "{'choices':[{'index':0,'delta':" delta "}]}"
#define TOOL(call) DELTA("{'tool_calls':[" call "]}")
#define END(reason) "{'choices':[{'index':0,'delta':{},'finish_reason':'" reason "'}]}"
#define DONE "[DONE]"

#define REPLY(stop) "reply " stop " [] id= model= "
#define TEXT(text) "\ntext id= name= text=" text " arguments= raw="
#define THINKING(text) "\nthinking id= name= text=" text " arguments= raw="
#define REFUSAL(text) "\nrefusal id= name= text=" text " arguments= raw="
#define CALL(id, name, arguments)                                                                  \
    "\ntool_call id=" id " name=" name " text= arguments=" arguments " raw="
#define BROKEN(id, name, arguments)                                                                \
    "\ntool_call id=" id " name=" name " text= arguments=" arguments " broken raw="
#define SEEN(shown, thought)                                                                       \
    "\nusage=-1/-1/-1/-1/-1"                                                                       \
    "\nshown=" shown "\nthought=" thought
#define CALLS_ONLY SEEN("", "")
#define CUT_OFF "failure retry cut_off until=0 message=the answer ended before it was whole"

typedef struct quirk {
    const char *name;
    const char *events[10];
    const char *told;
} quirk;

static const quirk quirks[] = {
    /* --- 5.2: what may be missing, twice, or elsewhere --- */
    {"bug 5: Azure's first chunk has no choices and an empty id",
     {"{'choices':[],'id':'','model':''}",
      "{'choices':[{'delta':{'content':'hi'}}],'id':'c1','model':'m1'}", END("stop"),
      "{'choices':[],'id':'c2','model':'m2'}", DONE},
     "reply done [] id=c1 model=m1 " TEXT("hi") SEEN("hi", "")},
    {"usage is the last that is not null, wherever it stands",
     {DELTA("{'content':'hi'}"),
      "{'choices':[],'usage':{'prompt_tokens':9,'completion_tokens':5,'total_tokens':14}}",
      "{'choices':[],'usage':null,'moderation':{}}", END("stop"), DONE},
     REPLY("done") TEXT("hi") "\nusage=9/-1/-1/5/-1\nshown=hi\nthought="},
    {"delta null or missing, role empty or repeated, content null",
     {DELTA("null"), "{'choices':[{'index':0}]}", DELTA("{'role':'','content':null}"),
      DELTA("{'role':'assistant','content':'hi'}"), DELTA("{'role':'assistant','tool_calls':null}"),
      END("stop"), DONE},
     REPLY("done") TEXT("hi") SEEN("hi", "")},
    {"Mistral: content is a list, thinking and text in one delta",
     {DELTA("{'content':''}"),
      DELTA("{'content':[{'type':'thinking','thinking':[{'type':'text','text':'a'}]},"
            "{'type':'text','text':'1'}]}"),
      "{'choices':[{'delta':{'content':'2'},'finish_reason':'stop'}]}", DONE},
     REPLY("done") THINKING("a") TEXT("12") SEEN("12", "a")},
    {"Perplexity: a cumulative message beside the delta, no [DONE]",
     {"{'choices':[{'delta':{'content':'a'},'message':{'content':'a'}}]}",
      "{'choices':[{'delta':{'content':'b'},'message':{'content':'ab'},'finish_reason':'stop'}],"
      "'object':'chat.completion.done'}"},
     REPLY("done") TEXT("ab") SEEN("ab", "")},
    {"a whole message as the only event",
     {"{'choices':[{'message':{'content':'ab'},'finish_reason':'stop'}]}", DONE},
     REPLY("done") TEXT("ab") SEEN("ab", "")},
    {"refusal is empty, false, or said",
     {DELTA("{'refusal':''}"), DELTA("{'refusal':false}"), DELTA("{'refusal':'no'}"),
      DELTA("{'refusal':' way'}"), END("stop"), DONE},
     REPLY("refused") REFUSAL("no way") SEEN("no way", "")},
    {"finish_reason twice, and null after it",
     {DELTA("{'content':'a'}"), END("length"), "{'choices':[{'delta':{},'finish_reason':null}]}",
      END("length"), DONE},
     REPLY("max_output") TEXT("a") SEEN("a", "")},
    {"an empty finish_reason is none, [DONE] is enough (Snowflake)",
     {DELTA("{'content':'a'}"), END(""), DONE},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"an empty finish_reason takes none away",
     {DELTA("{'content':'a'}"), END("stop"), END("")},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"[DONE] without a reason, with whole calls",
     {TOOL("{'id':'a','function':{'name':'f','arguments':'{}'}}"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"eos (Together)",
     {DELTA("{'content':'a'}"), END("eos"), DONE},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"bug 12: neither reason nor [DONE]", {DELTA("{'content':'a'}")}, CUT_OFF SEEN("a", "")},
    {"what comes after [DONE] is not read",
     {DELTA("{'content':'a'}"), END("stop"), DONE, DELTA("{'content':'b'}")},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"two choices are one answer (Copilot)",
     {"{'choices':[{'index':0,'delta':{'content':'a'}},{'index':1,'delta':{'tool_calls':"
      "[{'id':'c','function':{'name':'f','arguments':'{}'}}]}}]}",
      END("stop"), DONE},
     REPLY("tool_calls") TEXT("a") CALL("c", "f", "{}") SEEN("a", "")},

    /* --- 5.2: routing --- */
    {"bug 1: Ollama gives every call index 0",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\':1}'}}"),
      TOOL("{'index':0,'id':'b','function':{'name':'g','arguments':'{\\'x\\':2}'}}"),
      END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':1}") CALL("b", "g", "{'x':2}") CALLS_ONLY},
    {"bug 16: index 0 for all, with pieces after the new id",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{'}}"),
      TOOL("{'index':0,'function':{'arguments':'}'}}"),
      TOOL("{'index':0,'id':'b','function':{'name':'g','arguments':'{\\'x\\''}}"),
      TOOL("{'index':0,'function':{'arguments':':2}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALL("b", "g", "{'x':2}") CALLS_ONLY},
    {"bug 2: deltas of two calls take turns, by id and by index",
     {TOOL("{'index':0,'id':'a','function':{'name':'f'}},{'index':1,'id':'b','function':{'name':"
           "'g'}}"),
      TOOL("{'index':1,'function':{'arguments':'{\\'x\\''}}"),
      TOOL("{'id':'a','function':{'arguments':'{\\'y\\''}}"),
      TOOL("{'index':1,'function':{'arguments':':1}'}}"),
      TOOL("{'index':0,'function':{'arguments':':2}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{'y':2}") CALL("b", "g", "{'x':1}") CALLS_ONLY},
    {"bug 3: no index at all",
     {TOOL("{'id':'a','function':{'name':'f','arguments':'{'}}"),
      TOOL("{'function':{'arguments':'}'}}"),
      TOOL("{'id':'b','function':{'name':'g','arguments':''}}"),
      TOOL("{'id':'b','function':{'arguments':'{}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALL("b", "g", "{}") CALLS_ONLY},
    {"bug 4: pieces without an id; null id and name (Writer)",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':''}}"),
      TOOL("{'index':0,'id':null,'function':{'name':null,'arguments':'{'}}"),
      TOOL("{'index':0,'id':'','function':{'name':'','arguments':'}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"rule 1: an id repeated with every piece is one call",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\''}}"),
      TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':':1}'}}"),
      TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':''}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':1}") CALLS_ONLY},
    {"rule 6: the first index is 1",
     {TOOL("{'index':1,'id':'a','function':{'name':'f','arguments':'{'}}"),
      TOOL("{'index':1,'function':{'arguments':'}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"rule 5: arguments as an object, or null",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':{'x':1.50}}}"),
      TOOL("{'index':1,'id':'b','function':{'name':'g','arguments':null}}"), END("tool_calls"),
      DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':1.50}") CALL("b", "g", "{}") CALLS_ONLY},
    {"bug 6, rule 7: text that parses closes nothing",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{}'}}"),
      TOOL("{'index':0,'function':{'arguments':'{\\'x\\':'}}"),
      TOOL("{'index':0,'function':{'arguments':'1}'}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':1}") CALLS_ONLY},
    {"bug 8, rule 8: no arguments are {}",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':''}}"), END("tool_calls"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"rule 8: what does not parse is broken, and the model is told",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{x'}}"), END("tool_calls"),
      DONE},
     REPLY("tool_calls") BROKEN("a", "f", "{x") CALLS_ONLY},
    {"bug 7: cut by the limit is not run",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\':1'}}"), END("length"),
      DONE},
     REPLY("max_output") BROKEN("a", "f", "{'x':1") CALLS_ONLY},
    {"bug 7: cut before the arguments is not run either",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':''}},"
           "{'index':1,'id':'b','function':{'name':'g','arguments':''}}"),
      END("length"), DONE},
     REPLY("max_output") CALL("a", "f", "{}") BROKEN("b", "g", "{}") CALLS_ONLY},
    {"rule 9: function_call",
     {DELTA("{'function_call':{'name':'f','arguments':'{'}}"),
      DELTA("{'function_call':{'arguments':'}'}}"), END("function_call"), DONE},
     REPLY("tool_calls") CALL("", "f", "{}") CALLS_ONLY},
    {"rule 10: one id, two whole calls",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\':1}'}}"),
      TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\':2}'}}"), END("stop"),
      DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':1}") CALL("a", "f", "{'x':2}") CALLS_ONLY},
    {"rule 10: one id at two indexes",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{'}}"),
      TOOL("{'index':1,'id':'a','function':{'name':'g','arguments':'{'}}"),
      TOOL("{'index':0,'id':'a','function':{'arguments':'}'}}"),
      TOOL("{'index':1,'function':{'arguments':'}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALL("a", "g", "{}") CALLS_ONLY},
    {"rule 10: one id again, its arguments in pieces",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{}'}}"),
      TOOL("{'index':0,'id':'a','function':{'name':'g','arguments':''}}"),
      TOOL("{'index':0,'function':{'arguments':'{\\'x\\':'}}"),
      TOOL("{'index':0,'function':{'arguments':'2}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALL("a", "g", "{'x':2}") CALLS_ONLY},
    {"Gemini: no id, no index, two calls",
     {TOOL("{'id':'','function':{'name':'f','arguments':'{}'}},"
           "{'id':'','function':{'name':'g','arguments':'{}'}}"),
      TOOL("{'id':'','function':{'name':'g','arguments':'{\\'x\\':1}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("", "f", "{}") CALL("", "g", "{}") CALL("", "g", "{'x':1}")
         CALLS_ONLY},
    {"another name with neither id nor index is another call",
     {TOOL("{'function':{'name':'f','arguments':''}}"),
      TOOL("{'function':{'name':'g','arguments':''}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("", "f", "{}") CALL("", "g", "{}") CALLS_ONLY},
    {"a brace inside a string, after a quote that is escaped, ends no arguments",
     {TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'{\\'x\\':\\'\\\\\\'}'}}"),
      TOOL("{'index':0,'id':'a','function':{'name':'f','arguments':'y\\'}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{'x':'\\'}y'}") CALLS_ONLY},
    {"an id that comes late",
     {TOOL("{'index':0,'function':{'name':'f','arguments':'{'}}"),
      TOOL("{'index':0,'id':'a','function':{'arguments':'}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"a delta with nothing in it opens no call",
     {DELTA("{'content':'a','tool_calls':[{}]}"), END("stop"), DONE},
     REPLY("done") TEXT("a") SEEN("a", "")},

    /* --- 5.3 --- */
    {"bug 15: stop with a call",
     {TOOL("{'id':'a','function':{'name':'f','arguments':'{}'}}"), END("stop"), DONE},
     REPLY("tool_calls") CALL("a", "f", "{}") CALLS_ONLY},
    {"tool_calls without a call",
     {DELTA("{'content':'a'}"), END("tool_calls"), DONE},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"filtered, without a delta (Azure)",
     {DELTA("{'content':'a'}"), "{'choices':[{'finish_reason':'content_filter'}]}", DONE},
     REPLY("filtered") TEXT("a") SEEN("a", "")},
    {"Gemini's capitals",
     {DELTA("{'content':'a'}"), END("MAX_TOKENS"), DONE},
     REPLY("max_output") TEXT("a") SEEN("a", "")},
    {"model_length (Mistral)",
     {DELTA("{'content':'a'}"), END("model_length"), DONE},
     REPLY("context_full") TEXT("a") SEEN("a", "")},
    {"a reason made after us is kept",
     {DELTA("{'content':'a'}"), END("bored"), DONE},
     "reply done [bored] id= model= " TEXT("a") SEEN("a", "")},
    {"DeepSeek has no room",
     {DELTA("{'content':'a'}"), END("insufficient_system_resource"), DONE},
     "failure retry insufficient_system_resource until=0 message=the provider ended its answer as "
     "failed" SEEN("a", "")},

    /* --- 5.4 --- */
    {"reasoning_content (DeepSeek)",
     {DELTA("{'reasoning_content':'a'}"), DELTA("{'content':'b','reasoning_content':null}"),
      END("stop"), DONE},
     REPLY("done") THINKING("a") TEXT("b") SEEN("b", "a")},
    {"reasoning said twice counts once (OpenRouter)",
     {DELTA("{'reasoning':'a','reasoning_details':[{'type':'reasoning.text','text':'a','index':0}]"
            "}"),
      DELTA("{'reasoning':'b','reasoning_details':[{'type':'reasoning.text','text':'b','index':0}]"
            "}"),
      DELTA("{'reasoning_details':[{'type':'reasoning.text','signature':'s','index':0}]}"),
      END("stop"), DONE},
     REPLY("done") THINKING("ab") "{'reasoning_details':[{'type':'reasoning.text','text':'ab','"
                                  "index':0,'signature':'s'}]}" SEEN("", "ab")},
    {"an encrypted detail is kept as it came, and shows nothing",
     {DELTA("{'reasoning_details':[{'type':'reasoning.encrypted','data':'x','format':'f'}]}"),
      DELTA("{'content':'a'}"), END("stop"), DONE},
     REPLY("done") THINKING("") "{'reasoning_details':[{'type':'reasoning.encrypted','data':'x','"
                                "format':'f'}]}" TEXT("a") SEEN("a", "")},
    {"a summary is shown",
     {DELTA("{'reasoning_details':[{'type':'reasoning.summary','summary':'a'}]}"),
      DELTA("{'reasoning_details':[{'type':'reasoning.summary','summary':'b'}]}"),
      DELTA("{'content':'c'}"), END("stop"), DONE},
     REPLY("done") THINKING(
         "ab") "{'reasoning_details':[{'type':'reasoning.summary','summary':'ab'}]}" TEXT("c")
         SEEN("c", "ab")},
    {"<think> inside content stays text",
     {DELTA("{'content':'<think>a</think>b'}"), END("stop"), DONE},
     REPLY("done") TEXT("<think>a</think>b") SEEN("<think>a</think>b", "")},
    {"bug 29: Gemini's signature is kept with its call",
     {TOOL("{'id':'','function':{'name':'f','arguments':'{}'},"
           "'extra_content':{'google':{'thought_signature':'x'}}}"),
      END("stop"), DONE},
     REPLY("tool_calls")
         CALL("", "f", "{}") "{'extra_content':{'google':{'thought_signature':'x'}}}" CALLS_ONLY},

    /* --- Errors in band (bug 11) --- */
    {"an error object in a 200 (vLLM), then [DONE]",
     {"{'error':{'message':'boom','type':'server_error','code':500}}", DONE},
     "failure retry server_error until=0 message=boom" CALLS_ONLY},
    {"a number as a code, beside a choice (OpenRouter)",
     {"{'error':{'code':402,'message':'no credits'},'choices':[{'delta':{'content':''},"
      "'finish_reason':'error'}]}",
      DONE},
     "failure next http_402 until=0 message=no credits" CALLS_ONLY},
    {"an error in the choice",
     {"{'choices':[{'delta':{},'finish_reason':'error','error':{'code':502,'message':'down'}}]}",
      DONE},
     "failure retry http_502 until=0 message=down" CALLS_ONLY},
    {"older vLLM",
     {"{'object':'error','message':'boom','type':'BadRequestError','code':400}", DONE},
     "failure fail BadRequestError until=0 message=boom" CALLS_ONLY},
    {"error null is none",
     {"{'error':null,'choices':[{'delta':{'content':'a'}}]}", END("stop"), DONE},
     REPLY("done") TEXT("a") SEEN("a", "")},
    {"what began well is asked again",
     {DELTA("{'content':'a'}"), "{'error':{'message':'bad','code':400}}"},
     "failure retry http_400 until=0 message=bad" SEEN("a", "")},
    {"the last choice ends in error",
     {DELTA("{'content':'a'}"), END("error"), DONE},
     "failure retry error until=0 message=the provider ended its answer as failed" SEEN("a", "")},
};

/* JSON for people: ' for ", and \' for a quote inside a string. */
static void add_json(pw_buffer *out, const char *text)
{
    for (const char *at = text; *at; at++) {
        pw_buffer_byte(out, *at == '\'' ? '"' : *at);
    }
}

static char *readable(const char *text)
{
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    add_json(&out, text);
    return out.ptr; /* the heap's: freed by free */
}

static char *body_of(const quirk *q)
{
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    for (size_t i = 0; i < 10 && q->events[i]; i++) {
        pw_buffer_add(&out, PW_STR("data: "));
        add_json(&out, q->events[i]);
        pw_buffer_add(&out, PW_STR("\n\n"));
    }
    return out.ptr;
}

static void test_P5_P6_P13_quirks(void **state)
{
    (void)state;
    const size_t pieces[] = {0, 7, 1};
    for (size_t i = 0; i < sizeof quirks / sizeof quirks[0]; i++) {
        char *body = body_of(&quirks[i]), *wanted = readable(quirks[i].told);
        for (size_t k = 0; k < 3; k++) {
            char *text = told(pw_str_from(body), PIECES(pieces[k]));
            if (strcmp(text, wanted) != 0) {
                fail_msg("%s\n%s\n--- instead of\n%s", quirks[i].name, text, wanted);
            }
            free(text);
        }
        free(body);
        free(wanted);
    }
}

/* --- Usage (5.5, 11) --- */

typedef struct account {
    const char *name, *chunks[3], *usage;
} account;

static const account accounts[] = {
    {"OpenAI: cached and reasoning are shares",
     {"{'usage':{'prompt_tokens':100,'completion_tokens':50,'total_tokens':150,"
      "'prompt_tokens_details':{'cached_tokens':60,'cache_write_tokens':30},"
      "'completion_tokens_details':{'reasoning_tokens':40}}}"},
     "usage=10/60/30/50/40"},
    {"never below 0, and never more reasoning than output (OpenRouter)",
     {"{'usage':{'prompt_tokens':5,'completion_tokens':10,'total_tokens':15,"
      "'prompt_tokens_details':{'cached_tokens':6},"
      "'completion_tokens_details':{'reasoning_tokens':11}}}"},
     "usage=0/6/-1/10/10"},
    {"DeepSeek: hit and miss",
     {"{'usage':{'prompt_tokens':100,'completion_tokens':5,'total_tokens':105,"
      "'prompt_cache_hit_tokens':64,'prompt_cache_miss_tokens':36}}"},
     "usage=36/64/-1/5/-1"},
    {"Mistral: num_cached_tokens beside details of 0",
     {"{'usage':{'prompt_tokens':100,'completion_tokens':5,'total_tokens':105,"
      "'prompt_tokens_details':{'cached_tokens':0},'num_cached_tokens':64}}"},
     "usage=36/64/-1/5/-1"},
    {"Gemini: hidden thinking is only in the total",
     {"{'usage':{'prompt_tokens':35,'completion_tokens':12,'total_tokens':109}}"},
     "usage=35/-1/-1/74/62"},
    {"Groq says it twice",
     {"{'x_groq':{'id':'r','usage':{'prompt_tokens':7,'completion_tokens':3,'total_tokens':10}},"
      "'usage':{'prompt_tokens':7,'completion_tokens':3,'total_tokens':10}}"},
     "usage=7/-1/-1/3/-1"},
    {"cumulative in every chunk: the last counts (Perplexity, vLLM)",
     {"{'usage':{'prompt_tokens':7,'completion_tokens':1,'total_tokens':8}}",
      "{'usage':{'prompt_tokens':7,'completion_tokens':2,'total_tokens':9}}",
      "{'usage':{'prompt_tokens':7,'completion_tokens':3}}"},
     "usage=7/-1/-1/3/-1"},
    {"a total is of its own numbers",
     {"{'usage':{'prompt_tokens':7,'completion_tokens':1,'total_tokens':20}}",
      "{'usage':{'prompt_tokens':7,'completion_tokens':3}}"},
     "usage=7/-1/-1/3/-1"},
    {"inside the choice (older Kimi)",
     {"{'choices':[{'delta':{},'usage':{'prompt_tokens':7,'completion_tokens':3}}]}"},
     "usage=7/-1/-1/3/-1"},
    {"cost as reported (OpenRouter)",
     {"{'usage':{'prompt_tokens':7,'completion_tokens':3,'cost':0.001285}}"},
     "usage=7/-1/-1/3/-1 cost=1285"},
    {"cost as reported (Perplexity)",
     {"{'usage':{'prompt_tokens':7,'completion_tokens':3,'cost':{'input_tokens_cost':0.1,"
      "'total_cost':0.005}}}"},
     "usage=7/-1/-1/3/-1 cost=5000"},
    {"cost as reported (Vercel)",
     {"{'usage':{'prompt_tokens':7,'completion_tokens':3,'market_cost':0.02}}"},
     "usage=7/-1/-1/3/-1 cost=20000"},
    {"nonsense is not counted",
     {"{'usage':{'prompt_tokens':'7','completion_tokens':-3,'cost':-1}}", "{'usage':[]}"},
     "usage=-1/-1/-1/0/-1"},
};

static void test_P11_chat_usage(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accounts / sizeof accounts[0]; i++) {
        quirk q = {.events = {DELTA("{'content':'a'}"), END("stop")}};
        for (size_t k = 0; k < 3; k++) {
            q.events[2 + k] = accounts[i].chunks[k];
        }
        char *body = body_of(&q), *text = told_text(body);
        char line[100];
        snprintf(line, sizeof line, "\n%s\n", accounts[i].usage);
        if (!holds(text, line)) {
            fail_msg("%s\n%s\n--- lacks\n%s", accounts[i].name, text, line);
        }
        free(text);
        free(body);
    }
}

/* --- Bytes --- */

/* llama.cpp: the failure is a field `error:` and no [DONE] comes. */
static void test_P6_llamacpp_error_field(void **state)
{
    (void)state;
    char *text =
        told_text("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
                  "error: {\"code\":500,\"message\":\"boom\",\"type\":\"server_error\"}\n\n");
    assert_holds(text, "failure retry server_error until=0 message=boom");
    free(text);
}

/* Bugs 9 and 10: characters and line ends cut between pieces, CRLF, a mark, data without a space,
 * comments. */
static void test_P13_9_P13_10_bytes(void **state)
{
    (void)state;
    const pw_str body =
        PW_STR("\xEF\xBB\xBF: OPENROUTER PROCESSING\r\n\r\n"
               "data:{\"choices\":[{\"delta\":{\"content\":\"a\xE2\x82\xAC\"}}]}\r\n\r\n"
               "data:{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n"
               "data: [DONE] \r\n\r\n");
    for (size_t at = 0; at < body.len; at++) {
        char *text = told(body, CUT_AT(at));
        assert_holds(text, "text=a\xE2\x82\xAC arguments=");
        assert_holds(text, "shown=a\xE2\x82\xAC\n");
        free(text);
    }
}

static void test_P2_whole_objects(void **state)
{
    (void)state;
    char *text = told_text("{\"id\":\"i\",\"model\":\"m\",\"choices\":[{\"message\":{\"content\":"
                           "\"a\",\"reasoning_content\":\"b\"},\"finish_reason\":null}]}");
    assert_holds(text, "reply done [] id=i model=m ");
    assert_holds(text, "text=b ");
    free(text);
    text =
        told_text("{\"choices\":[{\"message\":{\"content\":\"a\"}},{\"message\":{\"tool_calls\":[{"
                  "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}]}");
    assert_holds(text, "reply tool_calls [] ");
    free(text);
    text = told_text("{\"error\":\"too long\",\"code\":\"x\"}");
    assert_holds(text, "message=too long");
    free(text);
    text = told_text("[{\"error\":{\"code\":429,\"message\":\"slow\",\"status\":"
                     "\"RESOURCE_EXHAUSTED\"}}]");
    assert_holds(text, "failure retry RESOURCE_EXHAUSTED until=0 message=slow");
    free(text);
    text = told_text("{\"choices\":7}");
    assert_holds(text, "failure retry unreadable");
    free(text);
    text = told_text("<html>bad gateway</html>");
    assert_holds(text, "failure retry unreadable");
    free(text);
    text = told_text("");
    assert_holds(text, "failure retry cut_off");
    free(text);
}

/* More than any answer has: a clear end, no growth without bound. */
static void test_too_many_calls(void **state)
{
    (void)state;
    pw_buffer body, out;
    pw_buffer_init(&body, &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    for (int i = 0; i < 1001; i++) {
        pw_buffer_format(&body,
                         "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"%d\","
                         "\"function\":{\"name\":\"f\"}}]}}]}\n\n",
                         i);
    }
    assert_int_equal(run_stream(&pw_heap, pw_buffer_str(&body), WHOLE, &out), PW_TOO_LARGE);
    pw_buffer_free(&body);
    pw_buffer_free(&out);
}

/* Reasoning and text in turns, for ever: the texts are whole, the runs are not without number. */
static void test_many_runs(void **state)
{
    (void)state;
    pw_buffer body;
    pw_buffer_init(&body, &pw_heap, SIZE_MAX / 4);
    for (int i = 0; i < 2000; i++) {
        pw_buffer_format(&body, "data: {\"choices\":[{\"delta\":{\"%s\":\"x\"}}]}\n\n",
                         i % 2 ? "content" : "reasoning");
    }
    pw_buffer_add(&body, PW_STR("data: [DONE]\n\n"));
    reading r = read_body(pw_buffer_str(&body), 100000);
    assert_int_equal(r.status, PW_OK);
    assert_in_range(r.reply->part_count, 1000, 1003);
    size_t length[2] = {0, 0};
    for (size_t i = 0; i < r.reply->part_count; i++) {
        length[r.reply->parts[i].kind == PW_PART_TEXT] += r.reply->parts[i].text.len;
    }
    assert_int_equal(length[0], 1000);
    assert_int_equal(length[1], 1000);
    tested->stream_free(r.stream);
    pw_buffer_free(&body);
}

int main(void)
{
    tested = &pw_provider_chat;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P5_P6_P13_quirks),
        cmocka_unit_test(test_P11_chat_usage),
        cmocka_unit_test(test_P6_llamacpp_error_field),
        cmocka_unit_test(test_P13_9_P13_10_bytes),
        cmocka_unit_test(test_P2_whole_objects),
        cmocka_unit_test(test_too_many_calls),
        cmocka_unit_test(test_many_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
