/*
 * Reads an Anthropic answer: bytes to events to blocks (PROVIDERS.md 3.5). What the blocks mean is
 * said at the end, in anthropic_reply.c.
 *
 * Blocks are keyed by `index`, the newest with that index first, so a gateway that starts every
 * block at 0 still assembles. The first failure in band is kept and everything after it is ignored,
 * as is everything after message_stop. Whether the body is a stream or one object is decided by its
 * first byte.
 */
#include "model/anthropic_inner.h"

#include "base/utf8.h"

static pw_status list_block(pw_anthropic_stream *s, pw_anthropic_block *block)
{
    if (s->block_count == s->block_capacity) {
        const size_t capacity = s->block_capacity ? s->block_capacity * 2 : 8;
        pw_anthropic_block **list = PW_NEW_ARRAY(&s->reading.kept, pw_anthropic_block *, capacity);
        if (!list) {
            return PW_NOMEM;
        }
        if (s->block_count > 0) {
            memcpy(list, s->blocks, s->block_count * sizeof(pw_anthropic_block *));
        }
        s->blocks = list;
        s->block_capacity = capacity;
    }
    s->blocks[s->block_count++] = block;
    return PW_OK;
}

static pw_status new_block(pw_anthropic_stream *s, int64_t index, const pw_json *content_block,
                           pw_anthropic_block **ret)
{
    if (s->block_count == PW_ANTHROPIC_MAX_BLOCKS) {
        return PW_TOO_LARGE;
    }
    pw_anthropic_block *block = PW_NEW(&s->reading.kept, pw_anthropic_block);
    if (!block) {
        return PW_NOMEM;
    }
    block->index = index;
    pw_buffer_init(&block->text, s->reading.allocator, PW_READING_MAX_REPLY);
    pw_buffer_init(&block->citations, s->reading.allocator, PW_READING_MAX_REPLY);
    PW_TRY(pw_reading_keep_json(&s->reading, content_block, &block->start));
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(content_block, "type"), &block->type));
    PW_TRY(list_block(s, block)); /* from here on it is freed with the stream */
    if (pw_str_is(block->type, "text")) {
        PW_TRY(pw_buffer_add(&block->text, pw_json_text(pw_json_get(content_block, "text"))));
    } else if (pw_str_is(block->type, "thinking")) {
        PW_TRY(pw_buffer_add(&block->text, pw_json_text(pw_json_get(content_block, "thinking"))));
        PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(content_block, "signature"),
                                    &block->signature));
    } else if (pw_str_is(block->type, "fallback")) { /* another model answers from here */
        const pw_json *model = pw_json_get(content_block, "model");
        PW_TRY(pw_reading_keep_text(&s->reading, model, &s->model));
        PW_TRY(pw_reading_keep_text(
            &s->reading, pw_json_get(pw_json_get(content_block, "to"), "model"), &s->model));
    }
    *ret = block;
    return PW_OK;
}

static pw_anthropic_block *find_block(const pw_anthropic_stream *s, const pw_json *event)
{
    const int64_t index = pw_json_i64_or(pw_json_get(event, "index"), -1);
    for (size_t i = s->block_count; i-- > 0;) {
        if (s->blocks[i]->index == index) {
            return s->blocks[i];
        }
    }
    return NULL;
}

static pw_status append_shown(pw_anthropic_stream *s, pw_anthropic_block *block,
                              const pw_json *text, const char *type)
{
    if (!pw_str_is(block->type, type)) {
        return PW_OK;
    }
    PW_TRY(pw_buffer_add(&block->text, pw_json_text(text)));
    return pw_reading_show(&s->reading, pw_json_text(text), type[1] == 'h'); /* thinking, text */
}

static pw_status take_citation(pw_anthropic_stream *s, pw_anthropic_block *block,
                               const pw_json *citation)
{
    if (!citation) {
        return PW_OK;
    }
    s->reading.progress = true;
    if (block->citations.len > 0) {
        PW_TRY(pw_buffer_byte(&block->citations, ','));
    }
    return pw_utf8_valid(citation->raw) ? pw_buffer_add(&block->citations, citation->raw)
                                        : pw_json_clean(&block->citations, citation);
}

static pw_status take_block_delta(pw_anthropic_stream *s, const pw_json *event)
{
    pw_anthropic_block *block = find_block(s, event);
    const pw_json *delta = pw_json_get(event, "delta");
    const pw_str type = pw_json_text(pw_json_get(delta, "type"));
    if (!block) {
        return pw_reading_unreadable(&s->reading, "a delta came for a block that was not started");
    }
    if (pw_str_is(type, "text_delta")) {
        return append_shown(s, block, pw_json_get(delta, "text"), "text");
    }
    if (pw_str_is(type, "thinking_delta")) {
        s->reading.progress |= pw_json_get(delta, "estimated_tokens") != NULL;
        return append_shown(s, block, pw_json_get(delta, "thinking"), "thinking");
    }
    if (pw_str_is(type, "input_json_delta")) {
        const pw_str piece = pw_json_text(pw_json_get(delta, "partial_json"));
        s->reading.progress |= piece.len > 0;
        return pw_buffer_add(&block->text, piece);
    }
    if (pw_str_is(type, "signature_delta")) {
        s->reading.progress = true;
        return pw_reading_keep_text(&s->reading, pw_json_get(delta, "signature"),
                                    &block->signature);
    }
    if (pw_str_is(type, "citations_delta")) {
        return take_citation(s, block, pw_json_get(delta, "citation"));
    }
    if (pw_str_is(type, "compaction_delta") && pw_json_get(delta, "content")) {
        pw_buffer_clear(&block->text);
        s->reading.progress = block->assigned = true;
        return pw_json_clean(&block->text, pw_json_get(delta, "content"));
    }
    return PW_OK; /* a type made after us */
}

/* --- Events --- */

static void take_counts(pw_usage *usage, const pw_json *said)
{
    pw_reading_count(&usage->in_uncached, said, "input_tokens");
    pw_reading_count(&usage->in_cache_read, said, "cache_read_input_tokens");
    pw_reading_count(&usage->in_cache_write, said, "cache_creation_input_tokens");
    pw_reading_count(&usage->out, said, "output_tokens");
    pw_reading_count(&usage->in_cache_write_1h, pw_json_get(said, "cache_creation"),
                     "ephemeral_1h_input_tokens");
}

/* List prices are for the ordinary tier, speed and place. */
static void take_terms(pw_usage *usage, const pw_json *said)
{
    static const struct {
        const char *name, *ordinary, *none;
    } terms[] = {{"service_tier", "standard", "standard"},
                 {"speed", "standard", "standard"},
                 {"inference_geo", "global", "not_available"}};
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        const pw_json *value = pw_json_get(said, terms[i].name);
        if (pw_json_is(value, PW_JSON_STRING) && !pw_str_is(value->text, terms[i].ordinary) &&
            !pw_str_is(value->text, terms[i].none)) {
            usage->unlisted = true;
        }
    }
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void take_usage(pw_usage *usage, const pw_json *said)
{
    /* Cumulative: the latest word counts. */
    take_counts(usage, said);
    pw_reading_count(&usage->reasoning, pw_json_get(said, "output_tokens_details"),
                     "thinking_tokens");
    pw_reading_count(&usage->web_searches, pw_json_get(said, "server_tool_use"),
                     "web_search_requests");
    take_terms(usage, said);
    const pw_json *passes = pw_json_get(said, "iterations");
    if (!pw_json_is(passes, PW_JSON_ARRAY) || passes->count == 0) {
        return;
    }
    /* With compaction the top level covers the last pass only: the sum is what was spent. */
    pw_usage sum = {.in_uncached = 0};
    for (const pw_json *pass = passes->child; pass; pass = pass->next) {
        pw_usage one = {.in_uncached = 0};
        take_counts(&one, pass);
        sum.in_uncached += one.in_uncached;
        sum.in_cache_read += one.in_cache_read;
        sum.in_cache_write += one.in_cache_write;
        sum.out += one.out;
        sum.in_cache_write_1h += one.in_cache_write_1h;
    }
    usage->in_uncached = greater(sum.in_uncached, usage->in_uncached);
    usage->in_cache_read = greater(sum.in_cache_read, usage->in_cache_read);
    usage->in_cache_write = greater(sum.in_cache_write, usage->in_cache_write);
    usage->out = greater(sum.out, usage->out);
    usage->in_cache_write_1h = greater(sum.in_cache_write_1h, usage->in_cache_write_1h);
}

static pw_status take_stop(pw_anthropic_stream *s, const pw_json *holder)
{
    const pw_json *details = pw_json_get(holder, "stop_details");
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(holder, "stop_reason"), &s->stop_reason));
    PW_TRY(
        pw_reading_keep_text(&s->reading, pw_json_get(holder, "stop_sequence"), &s->stop_sequence));
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(details, "category"), &s->stop_details));
    return pw_reading_keep_text(&s->reading, pw_json_get(details, "explanation"), &s->stop_details);
}

static pw_status take_head(pw_anthropic_stream *s, const pw_json *message)
{
    s->started = true;
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(message, "id"), &s->id));
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(message, "model"), &s->model));
    take_usage(&s->usage, pw_json_get(message, "usage"));
    return PW_OK;
}

/* A whole message object, as sent to a request that did not stream. */
static pw_status take_message(pw_anthropic_stream *s, const pw_json *message)
{
    PW_TRY(take_head(s, message));
    const pw_json *content = pw_json_get(message, "content");
    int64_t index = 0;
    for (const pw_json *one = content ? content->child : NULL; one; one = one->next) {
        pw_anthropic_block *block = NULL;
        if (pw_json_is(one, PW_JSON_OBJECT)) {
            PW_TRY(new_block(s, index++, one, &block));
            block->closed = true;
        }
    }
    return take_stop(s, message);
}

static pw_status take_block_start(pw_anthropic_stream *s, const pw_json *event)
{
    const pw_json *content = pw_json_get(event, "content_block");
    const int64_t index = pw_json_i64_or(pw_json_get(event, "index"), (int64_t)s->block_count);
    if (!pw_json_is(content, PW_JSON_OBJECT)) {
        return pw_reading_unreadable(&s->reading, "a block started with nothing in it");
    }
    pw_anthropic_block *block = NULL;
    PW_TRY(new_block(s, index, content, &block));
    s->reading.progress = true;
    const bool shown = pw_str_is(block->type, "text") || pw_str_is(block->type, "thinking");
    return shown ? pw_reading_show(&s->reading, pw_buffer_str(&block->text),
                                   pw_str_is(block->type, "thinking"))
                 : PW_OK;
}

static pw_status take_event(pw_anthropic_stream *s, pw_str type, const pw_json *event)
{
    if (pw_str_is(type, "message_start")) {
        return s->started
                   ? pw_reading_unreadable(&s->reading, "a second message began in the stream")
                   : take_head(s, pw_json_get(event, "message"));
    }
    if (pw_str_is(type, "content_block_start")) {
        return take_block_start(s, event);
    }
    if (pw_str_is(type, "content_block_delta")) {
        return take_block_delta(s, event);
    }
    if (pw_str_is(type, "content_block_stop")) {
        pw_anthropic_block *block = find_block(s, event);
        if (block) {
            block->closed = s->reading.progress = true;
        }
        return PW_OK;
    }
    if (pw_str_is(type, "message_delta")) {
        s->reading.progress = true;
        take_usage(&s->usage, pw_json_get(event, "usage"));
        return take_stop(s, pw_json_get(event, "delta"));
    }
    if (pw_str_is(type, "message_stop")) {
        s->reading.ended = s->reading.progress = true;
        return PW_OK;
    }
    if (pw_str_is(type, "error")) {
        return pw_reading_fail(&s->reading, event);
    }
    return PW_OK; /* ping, and whatever came after us */
}

/* --- The whole --- */

static pw_status on_event(pw_model_stream *stream, pw_str type, const pw_json *event)
{
    return take_event((pw_anthropic_stream *)stream, type, event);
}

static pw_status on_object(pw_model_stream *stream, const pw_json *body)
{
    return pw_json_is(pw_json_get(body, "content"), PW_JSON_ARRAY)
               ? take_message((pw_anthropic_stream *)stream, body)
               : pw_reading_no_reply(stream, body);
}

static void release(pw_model_stream *stream)
{
    const pw_anthropic_stream *s = (const pw_anthropic_stream *)stream;
    for (size_t i = 0; i < s->block_count; i++) {
        pw_buffer_free(&s->blocks[i]->text);
        pw_buffer_free(&s->blocks[i]->citations);
    }
}

pw_status pw_anthropic_stream_new(const pw_allocator *allocator, pw_model_stream **ret)
{
    static const pw_reader reader = {.size = sizeof(pw_anthropic_stream),
                                     .event = on_event,
                                     .object = on_object,
                                     .release = release};
    pw_model_stream *stream = NULL;
    PW_TRY(pw_reading_new(&reader, allocator, &stream));
    ((pw_anthropic_stream *)stream)->usage = PW_USAGE_UNKNOWN;
    *ret = stream;
    return PW_OK;
}

pw_status pw_anthropic_end(pw_model_stream *stream, const pw_endpoint *endpoint,
                           const pw_reply **ret, pw_failure *ret_failure)
{
    pw_anthropic_stream *s = (pw_anthropic_stream *)stream;
    PW_TRY(pw_reading_end(stream));
    if (stream->trouble != PW_TROUBLE_NONE || s->stop_reason.len == 0) {
        return pw_reading_failure(stream, endpoint, &s->usage, ret_failure);
    }
    PW_TRY(pw_anthropic_reply_make(s));
    *ret = &s->reply;
    return PW_OK;
}
