/*
 * What an OpenAI Responses answer means, once it is whole: items to neutral parts, the raw items
 * that must go back, and the stop (PROVIDERS.md 4.3 to 4.6). What is kept raw is said in
 * responses_inner.h.
 */
#include "model/responses_inner.h"

#define PARTS_PER_ITEM 2 /* a message with text and a refusal */

typedef struct making {
    pw_responses_stream *stream;
    pw_arena *arena;
    const pw_item *item;
    const pw_json *json; /* of the item, texts filled in */
    pw_part *parts;
    size_t count;
} making;

/* --- Writing items --- */

static pw_status write_raw(pw_arena *arena, const pw_json *item, const pw_member *members,
                           size_t count, pw_str *ret)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 7);
    PW_TRY(pw_block_write(&out, item, members, count));
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

/* Has the object no members but these, and others that are null? */
static bool is_plain(const pw_json *object, const char *const *names)
{
    for (const pw_json *member = object->child; member; member = member->next) {
        size_t i = 0;
        while (names[i] && !pw_str_is(member->key, names[i])) {
            i++;
        }
        if (!names[i] && member->type != PW_JSON_NULL) {
            return false;
        }
    }
    return true;
}

/* --- Items that were never done: what the deltas gave --- */

static const pw_piece *next_piece(const pw_item *item, pw_piece_kind kind, int64_t after)
{
    const pw_piece *next = NULL;
    for (const pw_piece *piece = item->pieces; piece; piece = piece->older) {
        if (piece->kind == kind && piece->index > after && (!next || piece->index < next->index)) {
            next = piece;
        }
    }
    return next;
}

/* The list of content parts that these pieces make; empty text: there are none. */
static pw_status write_list(const pw_item *item, pw_arena *arena, const pw_piece_kind *kinds,
                            size_t kind_count, pw_str *ret)
{
    static const struct {
        const char *type, *text;
    } names[] = {[PW_PIECE_TEXT] = {"output_text", "text"},
                 [PW_PIECE_REFUSAL] = {"refusal", "refusal"},
                 [PW_PIECE_SUMMARY] = {"summary_text", "text"},
                 [PW_PIECE_REASONING] = {"reasoning_text", "text"}};
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 7);
    pw_json_begin(&w, &out);
    pw_json_array(&w);
    size_t count = 0;
    for (size_t k = 0; k < kind_count; k++) {
        const pw_piece_kind kind = kinds[k];
        for (const pw_piece *piece = next_piece(item, kind, INT64_MIN); piece;
             piece = next_piece(item, kind, piece->index)) {
            pw_str text = PW_STR_NONE;
            PW_TRY(pw_reading_clean_text(arena, pw_buffer_str(&piece->text), &text));
            pw_json_object(&w);
            pw_json_put_str(&w, "type", pw_str_from(names[kind].type));
            pw_json_put_str(&w, names[kind].text, text.ptr ? text : PW_STR(""));
            pw_json_object_end(&w);
            count++;
        }
    }
    pw_json_array_end(&w);
    *ret = count > 0 ? pw_buffer_str(&out) : PW_STR_NONE;
    return out.failed;
}

/* The text of a call as a JSON string; empty: no delta came. */
static pw_status write_text(const pw_item *item, pw_arena *arena, pw_piece_kind kind, pw_str *ret)
{
    const pw_piece *piece = next_piece(item, kind, INT64_MIN);
    pw_str text = PW_STR_NONE;
    *ret = PW_STR_NONE;
    if (!piece || piece->text.len == 0) {
        return PW_OK;
    }
    PW_TRY(pw_reading_clean_text(arena, pw_buffer_str(&piece->text), &text));
    return pw_reading_string_json(arena, text, ret);
}

static bool is_empty(const pw_json *value)
{
    return !value || value->type == PW_JSON_NULL ||
           (value->type == PW_JSON_STRING && value->text.len == 0) ||
           (value->type == PW_JSON_ARRAY && value->count == 0);
}

/* Fills in what the item as it came says nothing of. */
static pw_status fill_in(making *m)
{
    static const pw_piece_kind contents[] = {PW_PIECE_TEXT, PW_PIECE_REFUSAL, PW_PIECE_REASONING};
    static const pw_piece_kind summaries[] = {PW_PIECE_SUMMARY};
    pw_member members[] = {
        {.name = "content"}, {.name = "summary"}, {.name = "arguments"}, {.name = "input"}};
    PW_TRY(write_list(m->item, m->arena, contents, 3, &members[0].json));
    PW_TRY(write_list(m->item, m->arena, summaries, 1, &members[1].json));
    PW_TRY(write_text(m->item, m->arena, PW_PIECE_ARGUMENTS, &members[2].json));
    PW_TRY(write_text(m->item, m->arena, PW_PIECE_INPUT, &members[3].json));
    bool any = false;
    for (size_t i = 0; i < 4; i++) {
        const pw_json *said = pw_json_get(m->json, members[i].name);
        members[i].json = m->item->done && !is_empty(said) ? PW_STR_NONE : members[i].json;
        any |= members[i].json.ptr != NULL;
    }
    if (!any) {
        return PW_OK;
    }
    pw_str whole = PW_STR_NONE;
    PW_TRY(write_raw(m->arena, m->json, members, 4, &whole));
    return pw_json_parse(m->arena, whole, PW_JSON_MEND_UTF8, &m->json, NULL);
}

/* --- Messages --- */

static bool is_part(const pw_json *part, bool refusal)
{
    return pw_str_is(pw_json_text(pw_json_get(part, "type")), "refusal") == refusal;
}

static pw_str text_of(const pw_json *part, bool refusal)
{
    return pw_json_is(part, PW_JSON_STRING)
               ? part->text
               : pw_json_text(pw_json_get(part, refusal ? "refusal" : "text"));
}

/* One text or refusal with nothing about it that the text alone does not say. */
static bool is_plain_part(const pw_json *part)
{
    static const char *const known[] = {"type", "text", "refusal", "logprobs", "annotations", NULL};
    return pw_json_is(part, PW_JSON_OBJECT) && is_plain(part, known) &&
           is_empty(pw_json_get(part, "annotations")) && is_empty(pw_json_get(part, "logprobs"));
}

/* The message with only its texts, or only its refusals. */
static pw_status write_half(making *m, const pw_json *content, bool refusal, pw_str *ret)
{
    pw_buffer list;
    pw_json_writer w;
    pw_buffer_init_arena(&list, m->arena, PW_READING_MAX_REPLY * 7);
    pw_json_begin(&w, &list);
    pw_json_array(&w);
    for (const pw_json *one = content->child; one; one = one->next) {
        if (is_part(one, refusal)) {
            pw_json_raw(&w, one->raw);
        }
    }
    pw_json_array_end(&w);
    PW_TRY(list.failed);
    const pw_member half[] = {{.name = "content", .json = pw_buffer_str(&list)}};
    return write_raw(m->arena, m->json, half, 1, ret);
}

static pw_status message_raw(making *m, const pw_json *content, size_t count, bool refusal,
                             pw_part *part)
{
    static const char *const known[] = {"type", "id", "status", "role", "content", NULL};
    const pw_json *only = content ? content->child : NULL;
    const bool whole = !content || count == content->count; /* all of it is of this kind */
    if (!content || (whole && count <= 1 && (!only || is_plain_part(only)))) {
        const pw_member frame[] = {{.name = "content", .json = PW_STR_INIT("[]")}};
        return is_plain(m->json, known) ? PW_OK
                                        : write_raw(m->arena, m->json, frame, 1, &part->raw);
    }
    return whole ? write_raw(m->arena, m->json, NULL, 0, &part->raw)
                 : write_half(m, content, refusal, &part->raw);
}

static pw_status message_part(making *m, const pw_json *content, bool refusal, bool needed)
{
    pw_buffer text;
    size_t count = 0;
    pw_buffer_init_arena(&text, m->arena, PW_READING_MAX_REPLY * 3);
    for (const pw_json *one = content ? content->child : NULL; one; one = one->next) {
        if (is_part(one, refusal)) {
            PW_TRY(pw_buffer_add(&text, text_of(one, refusal)));
            count++;
        }
    }
    if (count == 0 && !needed) {
        return PW_OK;
    }
    pw_part *part = &m->parts[m->count++];
    part->kind = refusal ? PW_PART_REFUSAL : PW_PART_TEXT;
    PW_TRY(pw_reading_clean_text(m->arena, pw_buffer_str(&text), &part->text));
    return message_raw(m, content, count, refusal, part);
}

static pw_status make_message(making *m)
{
    const pw_json *content = pw_json_get(m->json, "content");
    if (pw_json_is(content, PW_JSON_STRING)) { /* a gateway's short form */
        pw_part *part = &m->parts[m->count++];
        part->kind = PW_PART_TEXT;
        return pw_reading_clean_text(m->arena, content->text, &part->text);
    }
    content = pw_json_is(content, PW_JSON_ARRAY) ? content : NULL;
    const size_t before = m->count;
    PW_TRY(message_part(m, content, false, false));
    PW_TRY(message_part(m, content, true, false));
    return m->count > before ? PW_OK : message_part(m, content, false, true);
}

/* --- Reasoning --- */

static pw_status add_paragraphs(pw_buffer *out, const pw_json *list)
{
    for (const pw_json *one = pw_json_is(list, PW_JSON_ARRAY) ? list->child : NULL; one;
         one = one->next) {
        const pw_str text = pw_json_text(pw_json_get(one, "text"));
        if (text.len > 0 && out->len > 0) {
            PW_TRY(pw_buffer_add(out, PW_STR("\n\n")));
        }
        PW_TRY(pw_buffer_add(out, text));
    }
    return PW_OK;
}

static pw_status make_reasoning(making *m)
{
    pw_part *part = &m->parts[m->count++];
    pw_buffer text;
    pw_buffer_init_arena(&text, m->arena, PW_READING_MAX_REPLY * 4);
    PW_TRY(add_paragraphs(&text, pw_json_get(m->json, "summary")));
    if (text.len == 0) {
        PW_TRY(add_paragraphs(&text, pw_json_get(m->json, "content")));
    }
    part->kind = PW_PART_THINKING;
    part->raw = m->item->done ? m->json->raw : PW_STR_NONE; /* encrypted content may be half */
    return pw_reading_clean_text(m->arena, pw_buffer_str(&text), &part->text);
}

/* --- Calls --- */

static bool is_cut(const making *m)
{
    const bool half =
        pw_str_is(pw_json_text(pw_json_get(m->json, "status")), "incomplete") || !m->item->done;
    return half && !pw_str_is(m->stream->status, "completed");
}

static pw_status make_call(making *m)
{
    static const char *const known[] = {"type", "id",        "status", "call_id",
                                        "name", "arguments", NULL};
    static const pw_member frame[] = {{.name = "arguments", .json = PW_STR_INIT("\"\"")}};
    pw_part *part = &m->parts[m->count++];
    const pw_json *said = pw_json_get(m->json, "arguments");
    const pw_json *parsed = NULL;
    const bool text = pw_json_is(said, PW_JSON_STRING);
    pw_str arguments = text ? pw_str_trim(said->text) : is_empty(said) ? PW_STR_NONE : said->raw;
    arguments = arguments.len > 0 ? arguments : PW_STR("{}");
    pw_arena_reset(&m->stream->reading.scratch);
    const pw_status status =
        pw_json_parse(&m->stream->reading.scratch, arguments, 0, &parsed, NULL);
    if (status == PW_NOMEM) {
        return status;
    }
    part->kind = PW_PART_TOOL_CALL;
    part->broken = status != PW_OK || !pw_json_is(parsed, PW_JSON_OBJECT) || is_cut(m);
    PW_TRY(pw_reading_clean_text(m->arena, pw_json_text(pw_json_get(m->json, "call_id")),
                                 &part->provider_id));
    PW_TRY(
        pw_reading_clean_text(m->arena, pw_json_text(pw_json_get(m->json, "name")), &part->name));
    PW_TRY(pw_reading_clean_text(m->arena, arguments, &part->arguments));
    return is_plain(m->json, known) ? PW_OK : write_raw(m->arena, m->json, frame, 1, &part->raw);
}

/* No custom tool is ever offered: what the model wrote for one is no JSON, so it is a call that
 * cannot run and is answered so. */
static pw_status make_custom_call(making *m)
{
    pw_part *part = &m->parts[m->count++];
    part->kind = PW_PART_TOOL_CALL;
    part->broken = true;
    part->raw = m->json->raw;
    PW_TRY(pw_reading_clean_text(m->arena, pw_json_text(pw_json_get(m->json, "call_id")),
                                 &part->provider_id));
    PW_TRY(
        pw_reading_clean_text(m->arena, pw_json_text(pw_json_get(m->json, "name")), &part->name));
    return pw_reading_clean_text(m->arena, pw_json_text(pw_json_get(m->json, "input")),
                                 &part->arguments);
}

/* --- Items --- */

static bool is_server_tool(pw_str type)
{
    return pw_str_ends(type, PW_STR("_call")) || pw_str_ends(type, PW_STR("_call_output")) ||
           pw_str_is(type, "mcp_list_tools") || pw_str_is(type, "tool_search_output");
}

static pw_status make_parts(making *m)
{
    const pw_str type = m->item->type;
    PW_TRY(pw_json_parse(m->arena, m->item->json, PW_JSON_MEND_UTF8, &m->json, NULL));
    PW_TRY(fill_in(m));
    if (pw_str_is(type, "message")) {
        return make_message(m);
    }
    if (pw_str_is(type, "reasoning")) {
        return make_reasoning(m);
    }
    if (pw_str_is(type, "function_call")) {
        return make_call(m);
    }
    if (pw_str_is(type, "custom_tool_call")) {
        return make_custom_call(m);
    }
    m->parts[m->count++] =
        (pw_part){.kind = is_server_tool(type) ? PW_PART_SERVER_TOOL : PW_PART_OTHER,
                  .raw = m->item->done ? m->json->raw : PW_STR_NONE};
    return PW_OK;
}

/* By output_index; where two have the same, in the order they came. */
static pw_status sorted_items(pw_responses_stream *s, const pw_item ***ret)
{
    const pw_item **list = PW_NEW_ARRAY(&s->reading.kept, const pw_item *, s->item_count);
    if (!list) {
        return PW_NOMEM;
    }
    size_t at = s->item_count;
    for (const pw_item *item = s->items; item; item = item->older) {
        list[--at] = item;
    }
    for (size_t i = 1; i < s->item_count; i++) {
        const pw_item *one = list[i];
        size_t k = i;
        for (; k > 0 && list[k - 1]->index > one->index; k--) {
            list[k] = list[k - 1];
        }
        list[k] = one;
    }
    *ret = list;
    return PW_OK;
}

/* --- The stop --- */

static bool has_part(const pw_part *parts, size_t count, pw_part_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        if (parts[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* There is no stop for tools: calls that are there decide, but for an answer that was cut. */
static pw_stop stop_of(const pw_responses_stream *s, const pw_part *parts, size_t count)
{
    const bool calls = has_part(parts, count, PW_PART_TOOL_CALL);
    if (pw_str_is(s->status, "incomplete")) {
        if (pw_str_is(s->reason, "content_filter")) {
            return PW_STOP_FILTERED;
        }
        if (!pw_str_is(s->reason, "max_messages") && !pw_str_is(s->reason, "steered")) {
            return PW_STOP_MAX_OUTPUT;
        }
        return calls ? PW_STOP_TOOL_CALLS : PW_STOP_PAUSED; /* it goes on in the next reply */
    }
    const pw_stop end = has_part(parts, count, PW_PART_REFUSAL) ? PW_STOP_REFUSED : PW_STOP_DONE;
    return calls ? PW_STOP_TOOL_CALLS : end;
}

/* Why it refused, or a reason that the stop does not say. */
static pw_str stop_detail(const pw_responses_stream *s, const making *m)
{
    const bool known =
        pw_str_is(s->reason, "max_output_tokens") || pw_str_is(s->reason, "content_filter");
    for (size_t i = 0; s->reply.stop == PW_STOP_REFUSED && i < m->count; i++) {
        if (m->parts[i].kind == PW_PART_REFUSAL) {
            return m->parts[i].text;
        }
    }
    return known ? PW_STR_NONE : s->reason;
}

pw_status pw_responses_reply_make(pw_responses_stream *s)
{
    pw_arena *arena = &s->reading.kept;
    making m = {.stream = s, .arena = arena};
    const pw_item **items = NULL;
    m.parts = PW_NEW_ARRAY(arena, pw_part, s->item_count * PARTS_PER_ITEM);
    if (!m.parts) {
        return PW_NOMEM;
    }
    PW_TRY(sorted_items(s, &items));
    for (size_t i = 0; i < s->item_count; i++) {
        m.item = items[i];
        PW_TRY(make_parts(&m));
    }
    s->reply = (pw_reply){.parts = m.parts,
                          .part_count = m.count,
                          .stop = stop_of(s, m.parts, m.count),
                          .provider = PW_STR("openai"),
                          .usage = s->usage};
    PW_TRY(pw_reading_clean_text(arena, stop_detail(s, &m), &s->reply.stop_detail));
    PW_TRY(pw_reading_clean_text(arena, s->id, &s->reply.response_id));
    return pw_reading_clean_text(arena, s->model, &s->reply.model);
}
