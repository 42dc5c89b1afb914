/* Reading an answer, as far as all providers agree (reading.h; PROVIDERS.md 2). */
#include "model/reading.h"

#include "base/utf8.h"

#define FIRST_BLOCK 1024
#define EVENT_BLOCK 4096 /* holds the tree of an ordinary event: reading one allocates nothing */
#define MOST_TOKENS INT64_C(100000000000)

/* --- Life --- */

pw_status pw_reading_new(const pw_reader *reader, const pw_allocator *allocator,
                         pw_model_stream **ret)
{
    PW_ASSERT(reader->size >= sizeof(pw_model_stream));
    pw_model_stream *s = allocator->resize(allocator->ctx, NULL, 0, reader->size);
    if (!s) {
        return PW_NOMEM;
    }
    memset(s, 0, reader->size);
    s->reader = reader;
    s->allocator = allocator;
    pw_sse_init(&s->sse, allocator, PW_SSE_MAX_EVENT);
    pw_arena_init(&s->kept, allocator, FIRST_BLOCK, 0);
    pw_arena_init(&s->scratch, allocator, EVENT_BLOCK, 0);
    pw_arena_init(&s->deltas, allocator, FIRST_BLOCK, 0);
    pw_buffer_init(&s->object, allocator, PW_READING_MAX_REPLY);
    *ret = s;
    return PW_OK;
}

void pw_reading_free(pw_model_stream *s)
{
    if (!s) {
        return;
    }
    if (s->reader->release) {
        s->reader->release(s);
    }
    pw_sse_free(&s->sse);
    pw_buffer_free(&s->object);
    pw_arena_free(&s->kept);
    pw_arena_free(&s->scratch);
    pw_arena_free(&s->deltas);
    s->allocator->resize(s->allocator->ctx, s, s->reader->size, 0);
}

/* --- Failures in band --- */

pw_status pw_reading_fail(pw_model_stream *s, const pw_json *error)
{
    if (s->trouble != PW_TROUBLE_NONE) {
        return PW_OK;
    }
    pw_fault fault = {.status = 0};
    (void)pw_fault_read(error, &fault);
    pw_str *texts[] = {&fault.type, &fault.code, &fault.detail, &fault.message, &fault.param};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        PW_TRY(pw_arena_dup(&s->kept, *texts[i], texts[i]));
    }
    s->fault = fault;
    s->trouble = PW_TROUBLE_SAID;
    return PW_OK;
}

pw_status pw_reading_unreadable(pw_model_stream *s, const char *what)
{
    if (s->trouble == PW_TROUBLE_NONE) {
        s->trouble = PW_TROUBLE_UNREADABLE;
        s->fault = (pw_fault){.message = pw_str_from(what)};
    }
    return PW_OK;
}

pw_status pw_reading_no_reply(pw_model_stream *s, const pw_json *body)
{
    pw_fault fault = {.status = 0};
    return pw_fault_read(body, &fault) ? pw_reading_fail(s, body)
                                       : pw_reading_unreadable(s, "the answer is not a reply");
}

pw_status pw_reading_failure(pw_model_stream *s, const pw_endpoint *endpoint, const pw_usage *usage,
                             pw_failure *ret)
{
    switch (s->trouble) {
    case PW_TROUBLE_SAID:
        s->fault.status = pw_fault_status(&s->fault);
        *ret = pw_fault_class(endpoint, &s->fault, &s->kept);
        break;
    case PW_TROUBLE_UNREADABLE:
        *ret = pw_transport_failure("unreadable", s->fault.message);
        break;
    case PW_TROUBLE_NONE:
        *ret = pw_transport_failure("cut_off", PW_STR("the answer ended before it was whole"));
        break;
    }
    ret->usage = *usage;
    return PW_END;
}

/* --- What is kept and shown --- */

pw_status pw_reading_keep_json(pw_model_stream *s, const pw_json *json, pw_str *ret)
{
    if (pw_utf8_valid(json->raw)) {
        return pw_arena_dup(&s->kept, json->raw, ret);
    }
    pw_buffer clean;
    pw_buffer_init_arena(&clean, &s->kept, PW_READING_MAX_REPLY);
    PW_TRY(pw_json_clean(&clean, json));
    *ret = pw_buffer_str(&clean);
    return PW_OK;
}

pw_status pw_reading_keep_text(pw_model_stream *s, const pw_json *string, pw_str *ret)
{
    return pw_json_is(string, PW_JSON_STRING) ? pw_arena_dup(&s->kept, string->text, ret) : PW_OK;
}

pw_status pw_reading_clean_text(pw_arena *arena, pw_str text, pw_str *ret)
{
    if (pw_utf8_clean(text)) {
        *ret = text;
        return PW_OK;
    }
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 3);
    PW_TRY(pw_utf8_mend(&out, text));
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

pw_status pw_reading_string_json(pw_arena *arena, pw_str text, pw_str *ret)
{
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 6);
    pw_json_begin(&w, &out);
    pw_json_string(&w, text);
    *ret = pw_buffer_str(&out);
    return out.failed;
}

void pw_reading_count(int64_t *count, const pw_json *holder, const char *name)
{
    int64_t said = 0;
    const pw_json *value = pw_json_get(holder, name);
    if (pw_json_is(value, PW_JSON_NUMBER) && pw_json_i64(value, &said)) {
        *count = said < 0 ? 0 : said > MOST_TOKENS ? MOST_TOKENS : said;
    }
}

bool pw_reading_only_members(const pw_json *object, const char *const *names)
{
    for (const pw_json *member = object->child; member; member = member->next) {
        size_t i = 0;
        while (names[i] && !pw_str_is(member->key, names[i])) {
            i++;
        }
        if (!names[i]) {
            return false;
        }
    }
    return true;
}

pw_status pw_reading_show(pw_model_stream *s, pw_str text, bool reasoning)
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
        pw_buffer_init_arena(&mended, &s->deltas, PW_READING_MAX_REPLY);
        PW_TRY(pw_utf8_mend(&mended, text));
        delta->bytes = pw_buffer_str(&mended);
    }
    s->delta_count++;
    return PW_OK;
}

/* --- Events --- */

static pw_status on_event(void *ctx, const pw_sse_event *event)
{
    pw_model_stream *s = ctx;
    if (s->trouble != PW_TROUBLE_NONE || s->ended || s->done) {
        return PW_OK;
    }
    /* llama.cpp ends a failed stream with a field `error:`. */
    const bool bare_error = event->data.len == 0 && pw_str_is(event->unknown_name, "error");
    const bool named_error = bare_error || pw_str_is(event->name, "error");
    const pw_str data = pw_str_trim(bare_error ? event->unknown : event->data);
    s->done = pw_str_is(data, "[DONE]");
    if ((data.len == 0 && !named_error) || s->done) {
        return PW_OK;
    }
    pw_arena_reset(&s->scratch);
    const pw_json *json = NULL;
    const pw_status status = pw_json_parse(&s->scratch, data, PW_JSON_MEND_UTF8, &json, NULL);
    if (status == PW_NOMEM) {
        return status;
    }
    if (named_error) {
        return pw_reading_fail(s, json);
    }
    if (status != PW_OK || !pw_json_is(json, PW_JSON_OBJECT)) {
        return pw_reading_unreadable(s, "an event of the stream is not a JSON object");
    }
    const pw_json *type = pw_json_get(json, "type");
    return s->reader->event(s, type ? pw_json_text(type) : event->name, json);
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

pw_status pw_reading_feed(pw_model_stream *s, pw_str bytes, const pw_delta **ret, size_t *ret_count,
                          bool *ret_progress, pw_error *error)
{
    pw_arena_reset(&s->deltas);
    s->delta_list = NULL;
    s->delta_count = s->delta_capacity = 0;
    s->progress = false;
    if (bytes.len > PW_READING_MAX_REPLY - s->received) {
        return PW_FAIL(error, PW_TOO_LARGE, "the answer is over %zu bytes", PW_READING_MAX_REPLY);
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

pw_status pw_reading_end(pw_model_stream *s)
{
    if (s->body == PW_BODY_EVENTS) {
        return pw_sse_end(&s->sse, on_event, s, NULL);
    }
    if (s->body == PW_BODY_FOREIGN) {
        return pw_reading_unreadable(s, "the answer is neither a stream nor JSON");
    }
    if (s->body == PW_BODY_UNDECIDED) {
        return PW_OK;
    }
    const pw_json *json = NULL;
    const pw_status status =
        pw_json_parse(&s->kept, pw_buffer_str(&s->object), PW_JSON_MEND_UTF8, &json, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? status : PW_OK; /* cut off: nothing of it is known */
    }
    return s->reader->object(s, json);
}
