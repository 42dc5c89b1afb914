/*
 * Reads a Chat Completions answer: chunks to runs of text and to calls (PROVIDERS.md 5.2 to 5.5,
 * 6). What they mean is said at the end, in chat_reply.c.
 *
 * Everything is optional: choices may be empty, delta null, content a string, null or a list of
 * parts, usage anywhere. The first id and model that are not empty count, the last usage, and the
 * last finish_reason that is not empty. Several choices are read as one: one is all that is asked
 * for, and there are gateways that spread one answer over two.
 *
 * <think> inside content is left where it is: whoever wants it apart lets the server do it.
 */
#include "model/chat_inner.h"

/* --- Runs --- */

pw_status pw_chat_list_add(pw_chat_stream *s, void ***list, size_t *count, size_t *capacity,
                           size_t most, void *item)
{
    if (*count == most) {
        return PW_TOO_LARGE;
    }
    if (*count == *capacity) {
        const size_t larger = *capacity ? *capacity * 2 : 8;
        void **grown = PW_NEW_ARRAY(&s->base.kept, void *, larger);
        if (!grown) {
            return PW_NOMEM;
        }
        if (*count > 0) {
            memcpy(grown, *list, *count * sizeof *grown);
        }
        *list = grown;
        *capacity = larger;
    }
    (*list)[(*count)++] = item;
    return PW_OK;
}

static pw_chat_run *last_run(const pw_chat_stream *s, pw_part_kind kind)
{
    for (size_t i = s->run_count; i-- > 0;) {
        if (s->runs[i]->kind == kind) {
            return s->runs[i];
        }
        if (s->run_count < PW_CHAT_MAX_RUNS) {
            return NULL;
        }
    }
    return NULL;
}

/* Empty text opens nothing: many servers send content "" beside whatever else they say. */
static pw_status say(pw_chat_stream *s, pw_part_kind kind, pw_str text)
{
    if (text.len == 0) {
        return PW_OK;
    }
    pw_chat_run *run = last_run(s, kind);
    if (!run) {
        run = PW_NEW(&s->base.kept, pw_chat_run);
        if (!run) {
            return PW_NOMEM;
        }
        run->kind = kind;
        pw_buffer_init(&run->text, s->base.allocator, PW_READING_MAX_REPLY);
        /* One more than is counted to, so that every kind has its last run. */
        PW_TRY(pw_chat_list_add(s, (void ***)&s->runs, &s->run_count, &s->run_capacity,
                                PW_CHAT_MAX_RUNS + 3, run));
    }
    PW_TRY(pw_buffer_add(&run->text, text));
    return pw_reading_show(&s->base, text, kind == PW_PART_THINKING);
}

static pw_status think(pw_chat_stream *s, pw_chat_channel channel, pw_str text)
{
    if (text.len == 0) {
        return PW_OK;
    }
    s->channel = s->channel == PW_CHAT_NO_REASONING ? channel : s->channel;
    return s->channel == channel ? say(s, PW_PART_THINKING, text) : PW_OK;
}

/* --- One delta --- */

/* Mistral: {"type":"thinking","thinking":[{"type":"text","text":…}]} */
static pw_status take_thinking_part(pw_chat_stream *s, const pw_json *thinking)
{
    PW_TRY(think(s, PW_CHAT_CONTENT_PARTS, pw_json_text(thinking)));
    const bool list = pw_json_is(thinking, PW_JSON_ARRAY);
    for (const pw_json *one = list ? thinking->child : NULL; one; one = one->next) {
        PW_TRY(think(s, PW_CHAT_CONTENT_PARTS, pw_json_text(pw_json_get(one, "text"))));
    }
    return PW_OK;
}

static pw_status take_content(pw_chat_stream *s, const pw_json *content)
{
    if (!pw_json_is(content, PW_JSON_ARRAY)) {
        return say(s, PW_PART_TEXT, pw_json_text(content));
    }
    for (const pw_json *part = content->child; part; part = part->next) {
        const pw_str type = pw_json_text(pw_json_get(part, "type"));
        if (pw_str_is(type, "thinking")) {
            PW_TRY(take_thinking_part(s, pw_json_get(part, "thinking")));
        } else if (pw_str_is(type, "text")) {
            PW_TRY(say(s, PW_PART_TEXT, pw_json_text(pw_json_get(part, "text"))));
        } else if (pw_str_is(type, "refusal")) {
            PW_TRY(say(s, PW_PART_REFUSAL, pw_json_text(pw_json_get(part, "refusal"))));
        }
    }
    return PW_OK;
}

static pw_status take_reasoning(pw_chat_stream *s, const pw_json *delta)
{
    pw_str details = PW_STR_NONE;
    PW_TRY(pw_chat_details_delta(s, pw_json_get(delta, "reasoning_details"), &details));
    PW_TRY(
        think(s, PW_CHAT_REASONING_CONTENT, pw_json_text(pw_json_get(delta, "reasoning_content"))));
    PW_TRY(think(s, PW_CHAT_REASONING, pw_json_text(pw_json_get(delta, "reasoning"))));
    return think(s, PW_CHAT_DETAILS, details);
}

static pw_status take_delta(pw_chat_stream *s, const pw_json *delta)
{
    PW_TRY(take_reasoning(s, delta));
    PW_TRY(take_content(s, pw_json_get(delta, "content")));
    PW_TRY(say(s, PW_PART_REFUSAL, pw_json_text(pw_json_get(delta, "refusal"))));
    const pw_json *calls = pw_json_get(delta, "tool_calls");
    const bool list = pw_json_is(calls, PW_JSON_ARRAY);
    for (const pw_json *call = list ? calls->child : NULL; call; call = call->next) {
        PW_TRY(pw_chat_tool_delta(s, call));
    }
    const pw_json *extra = pw_json_get(delta, "extra_content");
    if (pw_json_is(extra, PW_JSON_OBJECT)) {
        s->base.progress = true;
        PW_TRY(pw_reading_keep_json(&s->base, extra, &s->extra));
    }
    return pw_chat_function_delta(s, pw_json_get(delta, "function_call"));
}

/* --- One chunk --- */

static bool is_error(const pw_json *error)
{
    return (pw_json_is(error, PW_JSON_OBJECT) && error->count > 0) ||
           (pw_json_is(error, PW_JSON_STRING) && error->text.len > 0);
}

static pw_status take_choice(pw_chat_stream *s, const pw_json *choice)
{
    if (is_error(pw_json_get(choice, "error"))) { /* OpenRouter */
        return pw_reading_fail(&s->base, choice);
    }
    /* A message beside deltas repeats them (Perplexity, Writer); alone it is all there is. */
    const pw_json *delta = pw_json_get(choice, "delta");
    const bool alone = s->whole || (s->run_count == 0 && s->call_count == 0);
    PW_TRY(take_delta(s, delta || !alone ? delta : pw_json_get(choice, "message")));
    const pw_json *finish = pw_json_get(choice, "finish_reason");
    if (pw_json_text(finish).len > 0) {
        s->base.progress = true;
        PW_TRY(pw_reading_keep_text(&s->base, finish, &s->finish));
    }
    pw_chat_usage_take(&s->said, pw_json_get(choice, "usage")); /* older Kimi */
    return PW_OK;
}

static pw_status take_chunk(pw_chat_stream *s, const pw_json *chunk)
{
    if (s->id.len == 0) {
        PW_TRY(pw_reading_keep_text(&s->base, pw_json_get(chunk, "id"), &s->id));
    }
    if (s->model.len == 0) {
        PW_TRY(pw_reading_keep_text(&s->base, pw_json_get(chunk, "model"), &s->model));
    }
    const pw_json *choices = pw_json_get(chunk, "choices");
    const bool list = pw_json_is(choices, PW_JSON_ARRAY);
    for (const pw_json *choice = list ? choices->child : NULL; choice; choice = choice->next) {
        PW_TRY(take_choice(s, choice));
    }
    /* Groq says the same numbers twice. */
    pw_chat_usage_take(&s->said, pw_json_get(pw_json_get(chunk, "x_groq"), "usage"));
    pw_chat_usage_take(&s->said, pw_json_get(chunk, "usage"));
    return PW_OK;
}

/* An error in an answer that began well: HTTP said 200, so only this tells. */
static bool says_error(pw_str type, const pw_json *chunk)
{
    pw_fault ignored = {.status = 0};
    return is_error(pw_json_get(chunk, "error")) || pw_str_is(type, "error") ||
           pw_str_is(pw_json_text(pw_json_get(chunk, "object")), "error") ||
           (!pw_json_get(chunk, "choices") && pw_fault_read(chunk, &ignored));
}

static pw_status on_event(pw_model_stream *base, pw_str type, const pw_json *chunk)
{
    pw_chat_stream *s = (pw_chat_stream *)base;
    if (says_error(type, chunk)) {
        pw_chat_usage_take(&s->said, pw_json_get(chunk, "usage"));
        return pw_reading_fail(base, chunk);
    }
    return take_chunk(s, chunk);
}

static pw_status on_object(pw_model_stream *base, const pw_json *body)
{
    pw_chat_stream *s = (pw_chat_stream *)base;
    if (!pw_json_is(pw_json_get(body, "choices"), PW_JSON_ARRAY) ||
        is_error(pw_json_get(body, "error"))) {
        return pw_reading_no_reply(base, body);
    }
    s->whole = true;
    return take_chunk(s, body);
}

/* --- Life --- */

static void release(pw_model_stream *base)
{
    pw_chat_stream *s = (pw_chat_stream *)base;
    for (size_t i = 0; i < s->run_count; i++) {
        pw_buffer_free(&s->runs[i]->text);
    }
    for (size_t i = 0; i < s->call_count; i++) {
        pw_buffer_free(&s->calls[i]->arguments);
    }
    for (size_t i = 0; i < s->detail_count; i++) {
        pw_buffer_free(&s->details[i]->text);
    }
}

static const pw_reader reader = {
    .size = sizeof(pw_chat_stream), .event = on_event, .object = on_object, .release = release};

pw_status pw_chat_stream_new(const pw_allocator *allocator, pw_model_stream **ret)
{
    PW_TRY(pw_reading_new(&reader, allocator, ret));
    ((pw_chat_stream *)*ret)->said = PW_CHAT_USAGE_UNKNOWN;
    return PW_OK;
}

pw_status pw_chat_end(pw_model_stream *base, const pw_endpoint *endpoint, const pw_reply **ret,
                      pw_failure *ret_failure)
{
    pw_chat_stream *s = (pw_chat_stream *)base;
    PW_TRY(pw_reading_end(base));
    PW_TRY(pw_chat_finish_check(s));
    const bool ended = s->finish.len > 0 || base->done || s->whole;
    if (base->trouble != PW_TROUBLE_NONE || !ended) {
        const pw_usage usage = pw_chat_usage_neutral(&s->said);
        const pw_status status = pw_reading_failure(base, endpoint, &usage, ret_failure);
        /* What began to answer was no bad request: it is asked again (PROVIDERS.md 8). */
        if (ret_failure->failure_class == PW_FAILURE_FINAL && s->run_count + s->call_count > 0) {
            ret_failure->failure_class = PW_FAILURE_RETRY;
        }
        return status;
    }
    PW_TRY(pw_chat_reply_make(s));
    *ret = &s->reply;
    return PW_OK;
}
