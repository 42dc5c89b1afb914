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

#define FIRST_BLOCK 1024
#define EVENT_BLOCK 4096 /* holds the tree of an ordinary event: reading one allocates nothing */
#define MOST_TOKENS INT64_C(100000000000)

/* --- Life --- */

pw_status pw_anthropic_stream_new(const pw_allocator *allocator, pw_model_stream **ret)
{
    pw_model_stream *s = allocator->resize(allocator->ctx, NULL, 0, sizeof *s);
    if (!s) {
        return PW_NOMEM;
    }
    *s = (pw_model_stream){.allocator = allocator, .usage = PW_USAGE_UNKNOWN};
    pw_sse_init(&s->sse, allocator, PW_SSE_MAX_EVENT);
    pw_arena_init(&s->kept, allocator, FIRST_BLOCK, 0);
    pw_arena_init(&s->scratch, allocator, EVENT_BLOCK, 0);
    pw_arena_init(&s->deltas, allocator, FIRST_BLOCK, 0);
    pw_buffer_init(&s->object, allocator, PW_ANTHROPIC_MAX_REPLY);
    *ret = s;
    return PW_OK;
}

void pw_anthropic_stream_free(pw_model_stream *s)
{
    if (!s) {
        return;
    }
    for (size_t i = 0; i < s->block_count; i++) {
        pw_buffer_free(&s->blocks[i]->text);
        pw_buffer_free(&s->blocks[i]->citations);
    }
    pw_sse_free(&s->sse);
    pw_buffer_free(&s->object);
    pw_arena_free(&s->kept);
    pw_arena_free(&s->scratch);
    pw_arena_free(&s->deltas);
    s->allocator->resize(s->allocator->ctx, s, sizeof *s, 0);
}

/* --- Failures in band --- */

pw_status pw_anthropic_fail(pw_model_stream *s, const pw_json *error)
{
    if (s->failed) {
        return PW_OK;
    }
    pw_anthropic_fault fault = {.status = 0};
    pw_anthropic_fault_read(error, &fault);
    PW_TRY(pw_arena_dup(&s->kept, fault.type, &s->failure_type));
    PW_TRY(pw_arena_dup(&s->kept, fault.code, &s->failure_code));
    PW_TRY(pw_arena_dup(&s->kept, fault.message, &s->failure_text));
    s->failed = true;
    return PW_OK;
}

pw_status pw_anthropic_unreadable(pw_model_stream *s, const char *what)
{
    if (!s->failed) {
        s->failed = s->unreadable = true;
        s->failure_text = pw_str_from(what);
    }
    return PW_OK;
}

/* --- Blocks --- */

static pw_status keep_json(pw_model_stream *s, const pw_json *json, pw_str *ret)
{
    if (pw_utf8_valid(json->raw)) {
        return pw_arena_dup(&s->kept, json->raw, ret);
    }
    pw_buffer clean;
    pw_buffer_init_arena(&clean, &s->kept, PW_ANTHROPIC_MAX_REPLY);
    PW_TRY(pw_json_clean(&clean, json));
    *ret = pw_buffer_str(&clean);
    return PW_OK;
}

/* Keeps a string member when it is there; otherwise leaves `ret` alone. */
static pw_status keep_text(pw_model_stream *s, const pw_json *string, pw_str *ret)
{
    return pw_json_is(string, PW_JSON_STRING) ? pw_arena_dup(&s->kept, string->text, ret) : PW_OK;
}

static pw_status list_block(pw_model_stream *s, pw_anthropic_block *block)
{
    if (s->block_count == s->block_capacity) {
        const size_t capacity = s->block_capacity ? s->block_capacity * 2 : 8;
        pw_anthropic_block **list = PW_NEW_ARRAY(&s->kept, pw_anthropic_block *, capacity);
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

pw_status pw_anthropic_block_new(pw_model_stream *s, int64_t index, const pw_json *content_block,
                                 pw_anthropic_block **ret)
{
    if (s->block_count == PW_ANTHROPIC_MAX_BLOCKS) {
        return PW_TOO_LARGE;
    }
    pw_anthropic_block *block = PW_NEW(&s->kept, pw_anthropic_block);
    if (!block) {
        return PW_NOMEM;
    }
    block->index = index;
    pw_buffer_init(&block->text, s->allocator, PW_ANTHROPIC_MAX_REPLY);
    pw_buffer_init(&block->citations, s->allocator, PW_ANTHROPIC_MAX_REPLY);
    PW_TRY(keep_json(s, content_block, &block->start));
    PW_TRY(keep_text(s, pw_json_get(content_block, "type"), &block->type));
    PW_TRY(list_block(s, block)); /* from here on it is freed with the stream */
    if (pw_str_is(block->type, "text")) {
        PW_TRY(pw_buffer_add(&block->text, pw_json_text(pw_json_get(content_block, "text"))));
    } else if (pw_str_is(block->type, "thinking")) {
        PW_TRY(pw_buffer_add(&block->text, pw_json_text(pw_json_get(content_block, "thinking"))));
        PW_TRY(keep_text(s, pw_json_get(content_block, "signature"), &block->signature));
    } else if (pw_str_is(block->type, "fallback")) { /* another model answers from here */
        const pw_json *model = pw_json_get(content_block, "model");
        PW_TRY(keep_text(s, model, &s->model));
        PW_TRY(keep_text(s, pw_json_get(pw_json_get(content_block, "to"), "model"), &s->model));
    }
    *ret = block;
    return PW_OK;
}

static pw_anthropic_block *find_block(const pw_model_stream *s, const pw_json *event)
{
    const int64_t index = pw_json_i64_or(pw_json_get(event, "index"), -1);
    for (size_t i = s->block_count; i-- > 0;) {
        if (s->blocks[i]->index == index) {
            return s->blocks[i];
        }
    }
    return NULL;
}

/* --- Deltas for those who watch --- */

static pw_status show(pw_model_stream *s, pw_str text, bool reasoning)
{
    if (text.len == 0) {
        return PW_OK;
    }
    s->progress = true;
    if (s->delta_count == s->delta_capacity) {
        const size_t capacity = s->delta_capacity ? s->delta_capacity * 2 : 16;
        pw_delta *list = PW_NEW_ARRAY(&s->deltas, pw_delta, capacity);
        if (!list) {
            return PW_NOMEM;
        }
        if (s->delta_count > 0) {
            memcpy(list, s->delta_list, s->delta_count * sizeof *list);
        }
        s->delta_list = list;
        s->delta_capacity = capacity;
    }
    pw_delta *delta = &s->delta_list[s->delta_count];
    delta->reasoning = reasoning;
    if (pw_utf8_clean(text)) {
        PW_TRY(pw_arena_dup(&s->deltas, text, &delta->bytes));
    } else {
        pw_buffer mended;
        pw_buffer_init_arena(&mended, &s->deltas, PW_ANTHROPIC_MAX_REPLY);
        PW_TRY(pw_utf8_mend(&mended, text));
        delta->bytes = pw_buffer_str(&mended);
    }
    s->delta_count++;
    return PW_OK;
}

static pw_status append_shown(pw_model_stream *s, pw_anthropic_block *block, const pw_json *text,
                              const char *type)
{
    if (!pw_str_is(block->type, type)) {
        return PW_OK;
    }
    PW_TRY(pw_buffer_add(&block->text, pw_json_text(text)));
    return show(s, pw_json_text(text), type[1] == 'h'); /* thinking, text */
}

static pw_status take_citation(pw_model_stream *s, pw_anthropic_block *block,
                               const pw_json *citation)
{
    if (!citation) {
        return PW_OK;
    }
    s->progress = true;
    if (block->citations.len > 0) {
        PW_TRY(pw_buffer_byte(&block->citations, ','));
    }
    return pw_utf8_valid(citation->raw) ? pw_buffer_add(&block->citations, citation->raw)
                                        : pw_json_clean(&block->citations, citation);
}

static pw_status take_block_delta(pw_model_stream *s, const pw_json *event)
{
    pw_anthropic_block *block = find_block(s, event);
    const pw_json *delta = pw_json_get(event, "delta");
    const pw_str type = pw_json_text(pw_json_get(delta, "type"));
    if (!block) {
        return pw_anthropic_unreadable(s, "a delta came for a block that was not started");
    }
    if (pw_str_is(type, "text_delta")) {
        return append_shown(s, block, pw_json_get(delta, "text"), "text");
    }
    if (pw_str_is(type, "thinking_delta")) {
        s->progress |= pw_json_get(delta, "estimated_tokens") != NULL;
        return append_shown(s, block, pw_json_get(delta, "thinking"), "thinking");
    }
    if (pw_str_is(type, "input_json_delta")) {
        const pw_str piece = pw_json_text(pw_json_get(delta, "partial_json"));
        s->progress |= piece.len > 0;
        return pw_buffer_add(&block->text, piece);
    }
    if (pw_str_is(type, "signature_delta")) {
        s->progress = true;
        return keep_text(s, pw_json_get(delta, "signature"), &block->signature);
    }
    if (pw_str_is(type, "citations_delta")) {
        return take_citation(s, block, pw_json_get(delta, "citation"));
    }
    if (pw_str_is(type, "compaction_delta") && pw_json_get(delta, "content")) {
        pw_buffer_clear(&block->text);
        s->progress = block->assigned = true;
        return pw_json_clean(&block->text, pw_json_get(delta, "content"));
    }
    return PW_OK; /* a type made after us */
}

/* --- Events --- */

/* A count as said, kept within what any answer can hold; null and nonsense leave what was there. */
static void take_count(int64_t *count, const pw_json *holder, const char *name)
{
    int64_t said = 0;
    const pw_json *value = pw_json_get(holder, name);
    if (pw_json_is(value, PW_JSON_NUMBER) && pw_json_i64(value, &said)) {
        *count = said < 0 ? 0 : said > MOST_TOKENS ? MOST_TOKENS : said;
    }
}

static void take_counts(pw_usage *usage, const pw_json *said)
{
    take_count(&usage->in_uncached, said, "input_tokens");
    take_count(&usage->in_cache_read, said, "cache_read_input_tokens");
    take_count(&usage->in_cache_write, said, "cache_creation_input_tokens");
    take_count(&usage->out, said, "output_tokens");
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void pw_anthropic_usage_take(pw_usage *usage, const pw_json *said)
{
    /* Cumulative: the latest word counts. */
    take_counts(usage, said);
    take_count(&usage->reasoning, pw_json_get(said, "output_tokens_details"), "thinking_tokens");
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
    }
    usage->in_uncached = greater(sum.in_uncached, usage->in_uncached);
    usage->in_cache_read = greater(sum.in_cache_read, usage->in_cache_read);
    usage->in_cache_write = greater(sum.in_cache_write, usage->in_cache_write);
    usage->out = greater(sum.out, usage->out);
}

static pw_status take_stop(pw_model_stream *s, const pw_json *holder)
{
    const pw_json *details = pw_json_get(holder, "stop_details");
    PW_TRY(keep_text(s, pw_json_get(holder, "stop_reason"), &s->stop_reason));
    PW_TRY(keep_text(s, pw_json_get(holder, "stop_sequence"), &s->stop_sequence));
    PW_TRY(keep_text(s, pw_json_get(details, "category"), &s->stop_details));
    return keep_text(s, pw_json_get(details, "explanation"), &s->stop_details);
}

static pw_status take_head(pw_model_stream *s, const pw_json *message)
{
    s->started = true;
    PW_TRY(keep_text(s, pw_json_get(message, "id"), &s->id));
    PW_TRY(keep_text(s, pw_json_get(message, "model"), &s->model));
    pw_anthropic_usage_take(&s->usage, pw_json_get(message, "usage"));
    return PW_OK;
}

pw_status pw_anthropic_message_take(pw_model_stream *s, const pw_json *message)
{
    PW_TRY(take_head(s, message));
    const pw_json *content = pw_json_get(message, "content");
    int64_t index = 0;
    for (const pw_json *one = content ? content->child : NULL; one; one = one->next) {
        pw_anthropic_block *block = NULL;
        if (pw_json_is(one, PW_JSON_OBJECT)) {
            PW_TRY(pw_anthropic_block_new(s, index++, one, &block));
            block->closed = true;
        }
    }
    return take_stop(s, message);
}

static pw_status take_block_start(pw_model_stream *s, const pw_json *event)
{
    const pw_json *content = pw_json_get(event, "content_block");
    const int64_t index = pw_json_i64_or(pw_json_get(event, "index"), (int64_t)s->block_count);
    if (!pw_json_is(content, PW_JSON_OBJECT)) {
        return pw_anthropic_unreadable(s, "a block started with nothing in it");
    }
    pw_anthropic_block *block = NULL;
    PW_TRY(pw_anthropic_block_new(s, index, content, &block));
    s->progress = true;
    const bool shown = pw_str_is(block->type, "text") || pw_str_is(block->type, "thinking");
    return shown ? show(s, pw_buffer_str(&block->text), pw_str_is(block->type, "thinking")) : PW_OK;
}

static pw_status take_event(pw_model_stream *s, pw_str type, const pw_json *event)
{
    if (pw_str_is(type, "message_start")) {
        return s->started ? pw_anthropic_unreadable(s, "a second message began in the stream")
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
            block->closed = s->progress = true;
        }
        return PW_OK;
    }
    if (pw_str_is(type, "message_delta")) {
        s->progress = true;
        pw_anthropic_usage_take(&s->usage, pw_json_get(event, "usage"));
        return take_stop(s, pw_json_get(event, "delta"));
    }
    if (pw_str_is(type, "message_stop")) {
        s->ended = s->progress = true;
        return PW_OK;
    }
    if (pw_str_is(type, "error")) {
        return pw_anthropic_fail(s, event);
    }
    return PW_OK; /* ping, and whatever came after us */
}

static pw_status on_event(void *ctx, const pw_sse_event *event)
{
    pw_model_stream *s = ctx;
    if (s->failed || s->ended) {
        return PW_OK;
    }
    const bool bare_error = event->data.len == 0 && pw_str_is(event->unknown_name, "error");
    const bool named_error = bare_error || pw_str_is(event->name, "error");
    const pw_str data = pw_str_trim(bare_error ? event->unknown : event->data);
    if ((data.len == 0 && !named_error) || pw_str_is(data, "[DONE]")) {
        return PW_OK;
    }
    pw_arena_reset(&s->scratch);
    const pw_json *json = NULL;
    pw_status status = pw_json_parse(&s->scratch, data, PW_JSON_MEND_UTF8, &json, NULL);
    if (status == PW_NOMEM) {
        return status;
    }
    if (named_error) {
        return pw_anthropic_fail(s, json);
    }
    if (status != PW_OK || !pw_json_is(json, PW_JSON_OBJECT)) {
        return pw_anthropic_unreadable(s, "an event of the stream is not a JSON object");
    }
    const pw_json *type = pw_json_get(json, "type");
    return take_event(s, type ? pw_json_text(type) : event->name, json);
}

/* --- Bytes --- */

static pw_str decide(pw_model_stream *s, pw_str bytes)
{
    while (bytes.len > 0 && s->body == PW_BODY_UNDECIDED) {
        const uint8_t c = (uint8_t)bytes.ptr[0];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == 0xEF || c == 0xBB ||
            c == 0xBF) {
            bytes = pw_str_slice(bytes, 1, bytes.len); /* white space, or a byte-order mark */
        } else if (c == '{' || c == '[') {
            s->body = PW_BODY_OBJECT;
        } else {
            s->body = c == '<' ? PW_BODY_FOREIGN : PW_BODY_EVENTS;
        }
    }
    return bytes;
}

pw_status pw_anthropic_feed(pw_model_stream *s, pw_str bytes, const pw_delta **ret,
                            size_t *ret_count, bool *ret_progress, pw_error *error)
{
    pw_arena_reset(&s->deltas);
    s->delta_list = NULL;
    s->delta_count = s->delta_capacity = 0;
    s->progress = false;
    if (bytes.len > PW_ANTHROPIC_MAX_REPLY - s->received) {
        return PW_FAIL(error, PW_TOO_LARGE, "the answer is over %zu bytes", PW_ANTHROPIC_MAX_REPLY);
    }
    s->received += bytes.len;
    bytes = decide(s, bytes);
    pw_status status = PW_OK;
    if (s->body == PW_BODY_EVENTS) {
        status = pw_sse_feed(&s->sse, bytes, on_event, s, error);
    } else if (s->body == PW_BODY_OBJECT) {
        status = pw_buffer_add(&s->object, bytes);
        s->progress = bytes.len > 0;
    }
    if (status != PW_OK) {
        return status;
    }
    *ret = s->delta_list;
    *ret_count = s->delta_count;
    *ret_progress = s->progress;
    return PW_OK;
}

static pw_status end_body(pw_model_stream *s)
{
    if (s->body == PW_BODY_EVENTS) {
        return pw_sse_end(&s->sse, on_event, s, NULL);
    }
    if (s->body == PW_BODY_FOREIGN) {
        return pw_anthropic_unreadable(s, "the answer is neither a stream nor JSON");
    }
    if (s->body == PW_BODY_UNDECIDED) {
        return PW_OK;
    }
    const pw_json *json = NULL;
    const pw_status status =
        pw_json_parse(&s->kept, pw_buffer_str(&s->object), PW_JSON_MEND_UTF8, &json, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? status : PW_OK; /* cut off: no stop reason is known */
    }
    if (pw_json_is(pw_json_get(json, "content"), PW_JSON_ARRAY)) {
        return pw_anthropic_message_take(s, json);
    }
    return pw_json_get(json, "error") ? pw_anthropic_fail(s, json)
                                      : pw_anthropic_unreadable(s, "the answer is not a message");
}

pw_status pw_anthropic_end(pw_model_stream *s, const pw_endpoint *endpoint, const pw_reply **ret,
                           pw_failure *ret_failure)
{
    PW_TRY(end_body(s));
    if (s->failed && !s->unreadable) {
        const pw_anthropic_fault fault = {.status = pw_anthropic_status_of(s->failure_type),
                                          .type = s->failure_type,
                                          .code = s->failure_code,
                                          .message = s->failure_text};
        *ret_failure = pw_anthropic_class(endpoint, &fault, &s->kept);
    } else if (s->failed) {
        *ret_failure = pw_transport_failure("unreadable", s->failure_text);
    } else if (s->stop_reason.len == 0) {
        const pw_str text = PW_STR("the answer ended before it was whole");
        *ret_failure = pw_transport_failure("cut_off", text);
    } else {
        PW_TRY(pw_anthropic_reply_make(s));
        *ret = &s->reply;
        return PW_OK;
    }
    ret_failure->usage = s->usage;
    return PW_END;
}
