/*
 * Reads an OpenAI Responses answer: bytes to events to items (PROVIDERS.md 4.4 to 4.7). What the
 * items mean is said at the end, in responses_reply.c.
 *
 * Items are keyed by output_index, the newest with that index first; ids are not trusted, some
 * gateways change them in every event. output_item.done is authoritative; what was gathered from
 * deltas stands in where it never came. The final response's own output is looked at only when the
 * stream had no item at all. The first failure in band is kept and everything after it is ignored,
 * so an `error` event and the response.failed behind it are one failure.
 */
#include "model/responses_inner.h"

static pw_responses_stream *own(pw_model_stream *stream)
{
    return (pw_responses_stream *)stream;
}

/* --- Items --- */

static pw_status add_item(pw_responses_stream *s, int64_t index, pw_item **ret)
{
    if (s->item_count == PW_RESPONSES_MAX_ITEMS) {
        return PW_TOO_LARGE;
    }
    pw_item *item = PW_NEW(&s->reading.kept, pw_item);
    if (!item) {
        return PW_NOMEM;
    }
    item->older = s->items;
    item->index = index;
    s->items = item;
    s->item_count++;
    *ret = item;
    return PW_OK;
}

/* By output_index; where there is none, by item_id, else the newest. */
static pw_item *find_item(const pw_responses_stream *s, const pw_json *event)
{
    int64_t index = 0;
    const bool indexed = pw_json_i64(pw_json_get(event, "output_index"), &index);
    const pw_str id = pw_json_text(pw_json_get(event, "item_id"));
    for (pw_item *item = s->items; item; item = item->older) {
        if (indexed ? item->index == index : id.len > 0 && pw_str_equal(item->id, id)) {
            return item;
        }
    }
    return indexed ? NULL : s->items;
}

static int64_t index_of(const pw_responses_stream *s, const pw_json *event)
{
    return pw_json_i64_or(pw_json_get(event, "output_index"), (int64_t)s->item_count);
}

static pw_status take_json(pw_responses_stream *s, pw_item *item, const pw_json *json)
{
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(json, "id"), &item->id));
    PW_TRY(pw_reading_keep_text(&s->reading, pw_json_get(json, "type"), &item->type));
    return pw_reading_keep_json(&s->reading, json, &item->json);
}

/* --- Pieces of text --- */

static pw_piece *find_piece(const pw_item *item, pw_piece_kind kind, int64_t index)
{
    pw_piece *piece = item->pieces;
    while (piece && (piece->kind != kind || piece->index != index)) {
        piece = piece->older;
    }
    return piece;
}

static pw_status get_piece(pw_responses_stream *s, pw_item *item, pw_piece_kind kind, int64_t index,
                           pw_piece **ret)
{
    *ret = find_piece(item, kind, index);
    if (*ret) {
        return PW_OK;
    }
    if (s->piece_count == PW_RESPONSES_MAX_PIECES) {
        return PW_TOO_LARGE;
    }
    pw_piece *piece = PW_NEW(&s->reading.kept, pw_piece);
    if (!piece) {
        return PW_NOMEM;
    }
    piece->kind = kind;
    piece->index = index;
    piece->older = item->pieces;
    pw_buffer_init(&piece->text, s->reading.allocator, PW_READING_MAX_REPLY);
    item->pieces = piece; /* from here on it is freed with the stream */
    s->piece_count++;
    *ret = piece;
    return PW_OK;
}

/* Length of a first half of a surrogate pair at the end of a JSON string; 0: there is none. */
static size_t open_surrogate(pw_str raw)
{
    const size_t length = sizeof "\\ud83d" - 1;
    if (raw.len < length + 2) {
        return 0;
    }
    const size_t at = raw.len - 1 - length;
    const char *escape = raw.ptr + at;
    size_t slashes = 0; /* an even number of them before it, or it is none */
    while (slashes < at && raw.ptr[at - 1 - slashes] == '\\') {
        slashes++;
    }
    const char third = (char)(escape[3] | 0x20);
    const bool high = escape[0] == '\\' && escape[1] == 'u' && (escape[2] | 0x20) == 'd' &&
                      (third == '8' || third == '9' || third == 'a' || third == 'b');
    return high && slashes % 2 == 0 ? length : 0;
}

/* A delta's text, where one may end between the two halves of a character. */
static pw_status delta_text(pw_responses_stream *s, pw_piece *piece, const pw_json *delta,
                            pw_str *ret)
{
    *ret = pw_json_text(delta);
    if (!pw_json_is(delta, PW_JSON_STRING) || (!delta->mended && piece->held.len == 0)) {
        return PW_OK;
    }
    const size_t open = open_surrogate(delta->raw);
    const pw_str inside = pw_str_slice(delta->raw, 1, delta->raw.len - 1 - open);
    const pw_str half = pw_str_slice(delta->raw, delta->raw.len - 1 - open, delta->raw.len - 1);
    const pw_json *joined = NULL;
    pw_buffer text;
    pw_buffer_init_arena(&text, &s->reading.scratch, PW_READING_MAX_REPLY);
    (void)pw_buffer_byte(&text, '"');
    (void)pw_buffer_add(&text, piece->held);
    (void)pw_buffer_add(&text, inside);
    (void)pw_buffer_byte(&text, '"');
    PW_TRY(text.failed);
    piece->held = PW_STR_NONE;
    PW_TRY(open > 0 ? pw_arena_dup(&s->reading.kept, half, &piece->held) : PW_OK);
    PW_TRY(
        pw_json_parse(&s->reading.scratch, pw_buffer_str(&text), PW_JSON_MEND_UTF8, &joined, NULL));
    *ret = joined->text;
    return PW_OK;
}

static bool has_other_summary(const pw_item *item, const pw_piece *one)
{
    for (const pw_piece *piece = item->pieces; piece; piece = piece->older) {
        if (piece != one && piece->kind == PW_PIECE_SUMMARY && piece->text.len > 0) {
            return true;
        }
    }
    return false;
}

static pw_status append_piece(pw_responses_stream *s, const pw_item *item, pw_piece *piece,
                              pw_str text)
{
    const bool first = piece->text.len == 0;
    if (text.len == 0) {
        return PW_OK;
    }
    s->reading.progress = true;
    PW_TRY(pw_buffer_add(&piece->text, text));
    switch (piece->kind) {
    case PW_PIECE_TEXT:
    case PW_PIECE_REFUSAL:
        return pw_reading_show(&s->reading, text, false);
    case PW_PIECE_SUMMARY: /* each part of a summary is a paragraph */
        if (first && has_other_summary(item, piece)) {
            PW_TRY(pw_reading_show(&s->reading, PW_STR("\n\n"), true));
        }
        return pw_reading_show(&s->reading, text, true);
    case PW_PIECE_REASONING:
        return pw_reading_show(&s->reading, text, true);
    case PW_PIECE_ARGUMENTS:
    case PW_PIECE_INPUT:
        return PW_OK;
    }
    return PW_OK;
}

/* The whole text is known: what was not shown of it is, unless something else was. */
static pw_status settle_piece(pw_responses_stream *s, pw_item *item, pw_piece_kind kind,
                              int64_t index, pw_str whole)
{
    pw_piece *piece = NULL;
    if (whole.len == 0) {
        return PW_OK;
    }
    PW_TRY(get_piece(s, item, kind, index, &piece));
    const pw_str so_far = pw_buffer_str(&piece->text);
    if (pw_str_begins(whole, so_far)) {
        return append_piece(s, item, piece, pw_str_slice(whole, so_far.len, whole.len));
    }
    pw_buffer_clear(&piece->text);
    return pw_buffer_add(&piece->text, whole);
}

/* All texts of a whole item, so that they are shown where no delta came. */
static pw_status settle_item(pw_responses_stream *s, pw_item *item, const pw_json *json)
{
    static const struct {
        const char *list, *type, *text;
        pw_piece_kind kind;
    } table[] = {
        {"content", "output_text", "text", PW_PIECE_TEXT},
        {"content", "refusal", "refusal", PW_PIECE_REFUSAL},
        {"content", "reasoning_text", "text", PW_PIECE_REASONING},
        {"summary", "summary_text", "text", PW_PIECE_SUMMARY},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const pw_json *list = pw_json_get(json, table[i].list);
        int64_t index = 0;
        for (const pw_json *one = pw_json_is(list, PW_JSON_ARRAY) ? list->child : NULL; one;
             one = one->next, index++) {
            if (pw_str_is(pw_json_text(pw_json_get(one, "type")), table[i].type)) {
                const pw_str text = pw_json_text(pw_json_get(one, table[i].text));
                PW_TRY(settle_piece(s, item, table[i].kind, index, text));
            }
        }
    }
    return PW_OK;
}

/* --- Events of items --- */

static pw_status take_added(pw_responses_stream *s, const pw_json *event)
{
    const pw_json *json = pw_json_get(event, "item");
    if (!pw_json_is(json, PW_JSON_OBJECT)) {
        return pw_reading_unreadable(&s->reading, "an item was added with nothing in it");
    }
    pw_item *item = NULL;
    s->reading.progress = true;
    PW_TRY(add_item(s, index_of(s, event), &item));
    return take_json(s, item, json);
}

static pw_status take_whole(pw_responses_stream *s, pw_item *item, const pw_json *json)
{
    item->done = true;
    PW_TRY(take_json(s, item, json));
    return settle_item(s, item, json);
}

static pw_status take_done(pw_responses_stream *s, const pw_json *event)
{
    const pw_json *json = pw_json_get(event, "item");
    if (!pw_json_is(json, PW_JSON_OBJECT)) {
        return pw_reading_unreadable(&s->reading, "an item was done with nothing in it");
    }
    pw_item *item = find_item(s, event);
    s->reading.progress = true;
    const pw_str id = pw_json_text(pw_json_get(json, "id"));
    if (item && item->done && !pw_str_equal(item->id, id)) {
        item = NULL; /* another one at the same place */
    }
    if (!item) {
        PW_TRY(add_item(s, index_of(s, event), &item));
    }
    return take_whole(s, item, json);
}

typedef struct text_event {
    const char *type, *text;
    pw_piece_kind kind;
    bool whole;
    const char *index, *item_type;
} text_event;

static const text_event text_events[] = {
    {"response.output_text.delta", "delta", PW_PIECE_TEXT, false, "content_index", "message"},
    {"response.output_text.done", "text", PW_PIECE_TEXT, true, "content_index", "message"},
    {"response.refusal.delta", "delta", PW_PIECE_REFUSAL, false, "content_index", "message"},
    {"response.refusal.done", "refusal", PW_PIECE_REFUSAL, true, "content_index", "message"},
    {"response.function_call_arguments.delta", "delta", PW_PIECE_ARGUMENTS, false, "", ""},
    {"response.function_call_arguments.done", "arguments", PW_PIECE_ARGUMENTS, true, "", ""},
    {"response.custom_tool_call_input.delta", "delta", PW_PIECE_INPUT, false, "", ""},
    {"response.custom_tool_call_input.done", "input", PW_PIECE_INPUT, true, "", ""},
    {"response.reasoning_summary_text.delta", "delta", PW_PIECE_SUMMARY, false, "summary_index",
     "reasoning"},
    {"response.reasoning_summary_text.done", "text", PW_PIECE_SUMMARY, true, "summary_index",
     "reasoning"},
    {"response.reasoning_text.delta", "delta", PW_PIECE_REASONING, false, "content_index",
     "reasoning"},
    {"response.reasoning_text.done", "text", PW_PIECE_REASONING, true, "content_index",
     "reasoning"},
};

/* Some gateways send texts of items that they never added. */
static pw_status imply_item(pw_responses_stream *s, const text_event *what, const pw_json *event,
                            pw_item **ret)
{
    PW_TRY(add_item(s, index_of(s, event), ret));
    (*ret)->type = pw_str_from(what->item_type);
    (*ret)->json = what->kind == PW_PIECE_TEXT || what->kind == PW_PIECE_REFUSAL
                       ? PW_STR("{\"type\":\"message\",\"role\":\"assistant\"}")
                       : PW_STR("{\"type\":\"reasoning\"}");
    return pw_reading_keep_text(&s->reading, pw_json_get(event, "item_id"), &(*ret)->id);
}

static pw_status take_text(pw_responses_stream *s, const text_event *what, const pw_json *event)
{
    const int64_t index = pw_json_i64_or(pw_json_get(event, what->index), 0);
    const pw_json *said = pw_json_get(event, what->text);
    pw_item *item = find_item(s, event);
    if (!item && what->item_type[0] == '\0') {
        return pw_reading_unreadable(&s->reading, "a delta came for a call that was not started");
    }
    if (!item) {
        PW_TRY(imply_item(s, what, event, &item));
    }
    if (item->done) {
        return PW_OK; /* its last word is said */
    }
    if (what->whole) {
        return settle_piece(s, item, what->kind, index, pw_json_text(said));
    }
    pw_piece *piece = NULL;
    pw_str text = PW_STR_NONE;
    PW_TRY(get_piece(s, item, what->kind, index, &piece));
    PW_TRY(delta_text(s, piece, said, &text));
    return append_piece(s, item, piece, text);
}

/* --- The response itself --- */

static void take_usage(pw_usage *usage, const pw_json *said)
{
    const pw_json *input = pw_json_get(said, "input_tokens_details");
    const pw_json *output = pw_json_get(said, "output_tokens_details");
    int64_t all = -1, micros = 0;
    pw_reading_count(&all, said, "input_tokens");
    pw_reading_count(&usage->in_cache_read, input, "cached_tokens");
    pw_reading_count(&usage->in_cache_write, input, "cache_write_tokens");
    pw_reading_count(&usage->out, said, "output_tokens");
    pw_reading_count(&usage->reasoning, output, "reasoning_tokens");
    if (all >= 0) { /* cached tokens are part of the input */
        const int64_t cached = (usage->in_cache_read > 0 ? usage->in_cache_read : 0) +
                               (usage->in_cache_write > 0 ? usage->in_cache_write : 0);
        usage->in_uncached = all > cached ? all - cached : 0;
    }
    if (pw_json_micros(pw_json_get(said, "cost"), &micros) && micros >= 0) {
        usage->cost_micros = micros;
    }
}

static pw_status take_head(pw_responses_stream *s, const pw_json *response)
{
    pw_model_stream *reading = &s->reading;
    const pw_json *details = pw_json_get(response, "incomplete_details");
    PW_TRY(pw_reading_keep_text(reading, pw_json_get(response, "id"), &s->id));
    PW_TRY(pw_reading_keep_text(reading, pw_json_get(response, "model"), &s->model));
    PW_TRY(pw_reading_keep_text(reading, pw_json_get(response, "status"), &s->status));
    PW_TRY(pw_reading_keep_text(reading, pw_json_get(details, "reason"), &s->reason));
    s->background |= pw_json_true(pw_json_get(response, "background"));
    take_usage(&s->usage, pw_json_get(response, "usage"));
    return PW_OK;
}

/* The output of a response whose stream had no items. */
static pw_status take_output(pw_responses_stream *s, const pw_json *output)
{
    if (s->items || !pw_json_is(output, PW_JSON_ARRAY)) {
        return PW_OK;
    }
    int64_t index = 0;
    for (const pw_json *one = output->child; one; one = one->next, index++) {
        pw_item *item = NULL;
        if (pw_json_is(one, PW_JSON_OBJECT)) {
            PW_TRY(add_item(s, index, &item));
            PW_TRY(take_whole(s, item, one));
        }
    }
    return PW_OK;
}

/* Errors of what was sent, which no second try mends (PROVIDERS.md 4.6). */
static bool is_of_request(pw_str code)
{
    return pw_str_find(code, PW_STR("image")) != SIZE_MAX ||
           pw_str_find(code, PW_STR("policy")) != SIZE_MAX ||
           pw_str_begins(code, PW_STR("invalid_"));
}

static pw_status take_failure(pw_responses_stream *s, const pw_json *error)
{
    PW_TRY(pw_reading_fail(&s->reading, error));
    if (s->reading.fault.status == 0 && is_of_request(s->reading.fault.code)) {
        s->reading.fault.status = 400;
    }
    return PW_OK;
}

static bool is_status(const pw_responses_stream *s, const char *status)
{
    return pw_str_is(s->status, status);
}

static pw_status take_end(pw_responses_stream *s, const pw_json *response)
{
    PW_TRY(take_head(s, response));
    s->reading.ended = s->reading.progress = true;
    if (is_status(s, "failed")) {
        const pw_json *error = pw_json_get(response, "error");
        return take_failure(s, pw_json_is(error, PW_JSON_NULL) ? NULL : error);
    }
    return take_output(s, pw_json_get(response, "output"));
}

/* --- Events --- */

/* response.completed, .incomplete, .failed, .cancelled: where the response does not say its status
 * itself, the event's name does. */
static pw_status take_terminal(pw_responses_stream *s, pw_str type, const pw_json *event)
{
    const size_t prefix = sizeof "response." - 1;
    PW_TRY(pw_arena_dup(&s->reading.kept, pw_str_slice(type, prefix, type.len), &s->status));
    return take_end(s, pw_json_get(event, "response"));
}

static pw_status on_event(pw_model_stream *stream, pw_str type, const pw_json *event)
{
    static const char *const ends[] = {"response.completed", "response.incomplete",
                                       "response.failed", "response.cancelled"};
    pw_responses_stream *s = own(stream);
    for (size_t i = 0; i < sizeof text_events / sizeof text_events[0]; i++) {
        if (pw_str_is(type, text_events[i].type)) {
            return take_text(s, &text_events[i], event);
        }
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (pw_str_is(type, ends[i])) {
            return take_terminal(s, type, event);
        }
    }
    if (pw_str_is(type, "response.output_item.added")) {
        return take_added(s, event);
    }
    if (pw_str_is(type, "response.output_item.done")) {
        return take_done(s, event);
    }
    if (pw_str_is(type, "error") || (!pw_json_get(event, "type") && pw_json_get(event, "error"))) {
        return take_failure(s, event);
    }
    if (pw_json_get(event, "response")) { /* created, queued, in_progress: a resumed stream too */
        return take_head(s, pw_json_get(event, "response"));
    }
    /* Server tools at work, parts of items, and whatever came after us. */
    s->reading.progress |= pw_json_get(event, "output_index") != NULL;
    return PW_OK;
}

static pw_status on_object(pw_model_stream *stream, const pw_json *body)
{
    pw_responses_stream *s = own(stream);
    const pw_json *error = pw_json_get(body, "error");
    const bool response = pw_str_is(pw_json_text(pw_json_get(body, "object")), "response") ||
                          pw_json_is(pw_json_get(body, "output"), PW_JSON_ARRAY);
    if (!response) {
        return pw_reading_no_reply(stream, body);
    }
    if (!pw_json_get(body, "status") && error && !pw_json_is(error, PW_JSON_NULL)) {
        return take_failure(s, body);
    }
    if (!pw_json_get(body, "status")) {
        s->status = PW_STR("completed");
    }
    return take_end(s, body);
}

/* --- The whole --- */

static void release(pw_model_stream *stream)
{
    for (const pw_item *item = own(stream)->items; item; item = item->older) {
        for (pw_piece *piece = item->pieces; piece; piece = piece->older) {
            pw_buffer_free(&piece->text);
        }
    }
}

pw_status pw_responses_stream_new(const pw_allocator *allocator, pw_model_stream **ret)
{
    static const pw_reader reader = {.size = sizeof(pw_responses_stream),
                                     .event = on_event,
                                     .object = on_object,
                                     .release = release};
    pw_model_stream *stream = NULL;
    PW_TRY(pw_reading_new(&reader, allocator, &stream));
    own(stream)->usage = PW_USAGE_UNKNOWN;
    *ret = stream;
    return PW_OK;
}

pw_str pw_responses_accepted(const pw_model_stream *stream)
{
    const pw_responses_stream *s = (const pw_responses_stream *)stream;
    return s->background ? s->id : PW_STR_NONE;
}

/* A gateway ended the stream with [DONE] and without the response: whole, when all items are. */
static bool is_done_anyway(const pw_responses_stream *s)
{
    for (const pw_item *item = s->items; item; item = item->older) {
        if (!item->done) {
            return false;
        }
    }
    return s->reading.done && s->items;
}

pw_status pw_responses_end(pw_model_stream *stream, const pw_endpoint *endpoint,
                           const pw_reply **ret, pw_failure *ret_failure)
{
    pw_responses_stream *s = own(stream);
    PW_TRY(pw_reading_end(stream));
    if (!stream->ended && is_done_anyway(s)) {
        s->status = PW_STR("completed");
    }
    if (stream->trouble == PW_TROUBLE_NONE && is_status(s, "cancelled")) {
        *ret_failure =
            pw_transport_failure("cancelled", PW_STR("the reply was cancelled at the provider"));
        ret_failure->usage = s->usage;
        return PW_END;
    }
    if (stream->trouble != PW_TROUBLE_NONE ||
        (!is_status(s, "completed") && !is_status(s, "incomplete"))) {
        return pw_reading_failure(stream, endpoint, &s->usage, ret_failure);
    }
    PW_TRY(pw_responses_reply_make(s));
    *ret = &s->reply;
    return PW_OK;
}
