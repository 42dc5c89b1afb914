/*
 * What a Chat Completions answer means, once it is whole: runs and calls to parts, what must go
 * back, the stop, usage (PROVIDERS.md 5.2 to 5.5 and 11).
 */
#include "model/chat_inner.h"

/* --- The stop --- */

typedef enum outcome {
    NORMAL, /* a call that is there counts more than this reason */
    CUT,    /* the last call may lack its arguments */
    FAILED
} outcome;

typedef struct reason {
    const char *name; /* in lower case */
    outcome outcome;
    pw_stop stop;
    int status; /* FAILED: the HTTP status that it stands for */
} reason;

static const reason reasons[] = {
    {"stop", NORMAL, PW_STOP_DONE, 0},
    {"eos", NORMAL, PW_STOP_DONE, 0},
    {"end_turn", NORMAL, PW_STOP_DONE, 0},
    {"tool_calls", NORMAL, PW_STOP_DONE, 0},
    {"function_call", NORMAL, PW_STOP_DONE, 0},
    {"tool_use", NORMAL, PW_STOP_DONE, 0},
    {"stop_sequence", NORMAL, PW_STOP_STOP_SEQUENCE, 0},
    {"length", CUT, PW_STOP_MAX_OUTPUT, 0},
    {"max_tokens", CUT, PW_STOP_MAX_OUTPUT, 0},
    {"model_length", CUT, PW_STOP_CONTEXT_FULL, 0},
    {"content_filter", CUT, PW_STOP_FILTERED, 0},
    {"safety", CUT, PW_STOP_FILTERED, 0},
    {"refusal", CUT, PW_STOP_REFUSED, 0},
    {"error", FAILED, PW_STOP_DONE, 500},
    {"insufficient_system_resource", FAILED, PW_STOP_DONE, 503},
    {"malformed_function_call", FAILED, PW_STOP_DONE, 500},
};

/* Gemini's are in capitals. */
static bool is_reason(pw_str said, const char *name)
{
    if (said.len != strlen(name)) {
        return false;
    }
    for (size_t i = 0; i < said.len; i++) {
        const char c = said.ptr[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != name[i]) {
            return false;
        }
    }
    return true;
}

/* NULL: none, or one that we do not know: then what is there decides. */
static const reason *reason_of(const pw_chat_stream *s)
{
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (is_reason(s->finish, reasons[i].name)) {
            return &reasons[i];
        }
    }
    return NULL;
}

pw_status pw_chat_finish_check(pw_chat_stream *s)
{
    const reason *why = reason_of(s);
    if (why && why->outcome == FAILED && s->base.trouble == PW_TROUBLE_NONE) {
        s->base.trouble = PW_TROUBLE_SAID;
        s->base.fault = (pw_fault){.status = why->status,
                                   .type = pw_str_from(why->name),
                                   .message = PW_STR("the provider ended its answer as failed")};
    }
    return PW_OK;
}

static pw_stop stop_of(const pw_chat_stream *s, bool calls, bool refusal)
{
    const reason *why = reason_of(s);
    if (why && why->outcome == CUT) {
        return why->stop;
    }
    if (calls) {
        return PW_STOP_TOOL_CALLS;
    }
    return refusal ? PW_STOP_REFUSED : why ? why->stop : PW_STOP_DONE;
}

/* --- Parts --- */

/* An object of the members that are there; empty where none is. */
static pw_status members_json(pw_arena *arena, const pw_member *members, size_t count, pw_str *ret)
{
    static const pw_json nothing = {.type = PW_JSON_OBJECT};
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 7);
    *ret = PW_STR_NONE;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any |= members[i].json.len > 0;
    }
    if (any) {
        PW_TRY(pw_block_write(&out, &nothing, members, count));
        *ret = pw_buffer_str(&out);
    }
    return PW_OK;
}

/* Some send "{}" where the arguments begin, and then the arguments. */
static pw_str without_placeholder(pw_str arguments)
{
    const pw_str rest = pw_str_begins(arguments, PW_STR("{}"))
                            ? pw_str_trim(pw_str_slice(arguments, 2, arguments.len))
                            : PW_STR_NONE;
    return rest.len > 0 && rest.ptr[0] == '{' ? rest : arguments;
}

static pw_status is_object(pw_chat_stream *s, pw_str json, bool *ret)
{
    const pw_json *parsed = NULL;
    pw_arena_reset(&s->base.scratch);
    const pw_status status = pw_json_parse(&s->base.scratch, json, 0, &parsed, NULL);
    *ret = status == PW_OK && pw_json_is(parsed, PW_JSON_OBJECT);
    return status == PW_NOMEM ? status : PW_OK;
}

static pw_status call_part(pw_chat_stream *s, const pw_chat_call *call, bool cut, pw_part *ret)
{
    pw_arena *arena = &s->base.kept;
    pw_str arguments = without_placeholder(pw_str_trim(pw_buffer_str(&call->arguments)));
    const bool silent = arguments.len == 0;
    arguments = silent ? PW_STR("{}") : arguments;
    bool object = false;
    PW_TRY(is_object(s, arguments, &object));
    *ret = (pw_part){.kind = PW_PART_TOOL_CALL, .broken = !object || (cut && silent)};
    const pw_member members[] = {{.name = "extra_content", .json = call->extra}};
    PW_TRY(members_json(arena, members, 1, &ret->raw));
    PW_TRY(pw_reading_clean_text(arena, call->id, &ret->provider_id));
    PW_TRY(pw_reading_clean_text(arena, call->name, &ret->name));
    return pw_reading_clean_text(arena, arguments, &ret->arguments);
}

static bool says_nothing(const pw_chat_call *call)
{
    return call->name.len == 0 && call->arguments.len == 0;
}

static pw_status add_runs(pw_chat_stream *s, pw_part *parts, size_t *count)
{
    pw_str details = PW_STR_NONE, raw = PW_STR_NONE;
    PW_TRY(pw_chat_details_json(s, &details));
    const pw_member members[] = {{.name = "reasoning_details", .json = details},
                                 {.name = "extra_content", .json = s->extra}};
    PW_TRY(members_json(&s->base.kept, members, 2, &raw));
    if (raw.len > 0 && (s->run_count == 0 || s->runs[0]->kind != PW_PART_THINKING)) {
        parts[(*count)++] = (pw_part){.kind = PW_PART_THINKING, .raw = raw};
        raw = PW_STR_NONE;
    }
    for (size_t i = 0; i < s->run_count; i++) {
        pw_part *part = &parts[(*count)++];
        *part = (pw_part){.kind = s->runs[i]->kind, .raw = raw};
        raw = PW_STR_NONE;
        PW_TRY(pw_reading_clean_text(&s->base.kept, pw_buffer_str(&s->runs[i]->text), &part->text));
    }
    return PW_OK;
}

static bool has_kind(const pw_part *parts, size_t count, pw_part_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        if (parts[i].kind == kind) {
            return true;
        }
    }
    return false;
}

pw_status pw_chat_reply_make(pw_chat_stream *s)
{
    const reason *why = reason_of(s);
    const bool cut = why && why->outcome == CUT;
    size_t count = 0;
    pw_part *parts = PW_NEW_ARRAY(&s->base.kept, pw_part, s->run_count + s->call_count + 1);
    if (!parts) {
        return PW_NOMEM;
    }
    PW_TRY(add_runs(s, parts, &count));
    for (size_t i = 0; i < s->call_count; i++) {
        if (!says_nothing(s->calls[i])) {
            const bool last = i + 1 == s->call_count;
            PW_TRY(call_part(s, s->calls[i], cut && last, &parts[count++]));
        }
    }
    const bool refusal = has_kind(parts, count, PW_PART_REFUSAL);
    s->reply = (pw_reply){.parts = parts,
                          .part_count = count,
                          .stop = stop_of(s, has_kind(parts, count, PW_PART_TOOL_CALL), refusal),
                          .provider = PW_STR("openai-chat"),
                          .usage = pw_chat_usage_neutral(&s->said)};
    if (!why) { /* a reason that we do not know */
        PW_TRY(pw_reading_clean_text(&s->base.kept, s->finish, &s->reply.stop_detail));
    }
    PW_TRY(pw_reading_clean_text(&s->base.kept, s->id, &s->reply.response_id));
    return pw_reading_clean_text(&s->base.kept, s->model, &s->reply.model);
}

/* --- Usage --- */

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void take_cost(int64_t *micros, const pw_json *cost)
{
    int64_t said = 0;
    const pw_json *total = pw_json_get(cost, "total_cost"); /* Perplexity */
    if (pw_json_micros(total ? total : cost, &said) && said >= 0) {
        *micros = said;
    }
}

void pw_chat_usage_take(pw_chat_usage *u, const pw_json *said)
{
    if (!pw_json_is(said, PW_JSON_OBJECT)) {
        return;
    }
    if (pw_json_get(said, "prompt_tokens") || pw_json_get(said, "completion_tokens")) {
        u->total = -1; /* of what was said before */
    }
    pw_reading_count(&u->prompt, said, "prompt_tokens");
    pw_reading_count(&u->completion, said, "completion_tokens");
    pw_reading_count(&u->total, said, "total_tokens");
    int64_t cached[4] = {-1, -1, -1, -1}; /* servers have four places for it */
    const pw_json *prompt = pw_json_get(said, "prompt_tokens_details");
    pw_reading_count(&cached[0], prompt, "cached_tokens");
    pw_reading_count(&cached[1], said, "prompt_cache_hit_tokens"); /* DeepSeek */
    pw_reading_count(&cached[2], said, "num_cached_tokens");       /* Mistral */
    pw_reading_count(&cached[3], said, "cached_tokens");           /* Kimi */
    const int64_t most = greater(greater(cached[0], cached[1]), greater(cached[2], cached[3]));
    u->cached = most >= 0 ? most : u->cached;
    pw_reading_count(&u->cache_write, prompt, "cache_write_tokens");
    pw_reading_count(&u->reasoning, said, "reasoning_tokens"); /* Perplexity */
    pw_reading_count(&u->reasoning, pw_json_get(said, "completion_tokens_details"),
                     "reasoning_tokens");
    take_cost(&u->cost_micros, pw_json_get(said, "market_cost")); /* Vercel */
    take_cost(&u->cost_micros, pw_json_get(said, "cost"));
}

pw_usage pw_chat_usage_neutral(const pw_chat_usage *u)
{
    pw_usage usage = PW_USAGE_UNKNOWN;
    usage.in_cache_read = u->cached;
    usage.in_cache_write = u->cache_write;
    usage.cost_micros = u->cost_micros;
    if (u->prompt >= 0) {
        usage.in_uncached =
            greater(u->prompt - greater(u->cached, 0) - greater(u->cache_write, 0), 0);
    }
    if (u->completion >= 0) {
        /* Tokens that only the total counts are hidden thinking (Gemini, xAI). */
        const int64_t hidden =
            u->prompt >= 0 ? greater(u->total - u->prompt - u->completion, 0) : 0;
        usage.out = u->completion + hidden;
        usage.reasoning = hidden > u->reasoning && hidden > 0 ? hidden : u->reasoning;
        usage.reasoning = usage.reasoning > usage.out ? usage.out : usage.reasoning;
    }
    return usage;
}
