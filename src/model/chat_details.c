/*
 * reasoning_details: entries that come in pieces and must go back whole, in order and unchanged
 * (PROVIDERS.md 5.4). Pieces of a text or a summary are joined; a signature, a format or an id that
 * comes later is set; every other entry is kept as it came.
 */
#include "model/chat_inner.h"

/* The member that holds an entry's text, by its type. */
static const char *text_member(pw_str type)
{
    return pw_str_is(type, "reasoning.text")      ? "text"
           : pw_str_is(type, "reasoning.summary") ? "summary"
                                                  : NULL;
}

/* The entry that this one continues: the latest of its type, at its index where it says one. */
static pw_chat_detail *find_detail(const pw_chat_stream *s, pw_str type, bool has_index,
                                   int64_t index)
{
    for (size_t i = s->detail_count; i-- > 0;) {
        pw_chat_detail *detail = s->details[i];
        if (!pw_str_equal(detail->type, type)) {
            if (!has_index) {
                return NULL; /* without an index only neighbours belong together */
            }
        } else if (has_index == detail->has_index && (!has_index || index == detail->index)) {
            return detail;
        }
    }
    return NULL;
}

static pw_status open_detail(pw_chat_stream *s, const pw_json *entry, pw_chat_detail **ret)
{
    pw_chat_detail *detail = PW_NEW(&s->base.kept, pw_chat_detail);
    if (!detail) {
        return PW_NOMEM;
    }
    pw_buffer_init(&detail->text, s->base.allocator, PW_READING_MAX_REPLY);
    PW_TRY(pw_reading_keep_json(&s->base, entry, &detail->start));
    PW_TRY(pw_reading_keep_text(&s->base, pw_json_get(entry, "type"), &detail->type));
    PW_TRY(pw_chat_list_add(s, (void ***)&s->details, &s->detail_count, &s->detail_capacity,
                            PW_CHAT_MAX_DETAILS, detail));
    *ret = detail;
    return PW_OK;
}

static pw_status keep_later(pw_chat_stream *s, const pw_json *value, pw_str *ret)
{
    return value && value->type != PW_JSON_NULL ? pw_reading_keep_json(&s->base, value, ret)
                                                : PW_OK;
}

static pw_status take_entry(pw_chat_stream *s, const pw_json *entry, pw_buffer *said)
{
    const pw_str type = pw_json_text(pw_json_get(entry, "type"));
    const pw_json *number = pw_json_get(entry, "index");
    int64_t index = 0;
    const bool has_index = pw_json_is(number, PW_JSON_NUMBER) && pw_json_i64(number, &index);
    const char *member = text_member(type);
    pw_chat_detail *detail = member ? find_detail(s, type, has_index, index) : NULL;
    s->base.progress = true;
    if (!detail) {
        PW_TRY(open_detail(s, entry, &detail));
        detail->has_index = has_index;
        detail->index = index;
    } else {
        detail->continued = true;
        PW_TRY(keep_later(s, pw_json_get(entry, "signature"), &detail->signature));
        PW_TRY(keep_later(s, pw_json_get(entry, "format"), &detail->format));
        PW_TRY(keep_later(s, pw_json_get(entry, "id"), &detail->id));
    }
    const pw_str text = member ? pw_json_text(pw_json_get(entry, member)) : PW_STR_NONE;
    PW_TRY(pw_buffer_add(&detail->text, text));
    return pw_buffer_add(said, text);
}

pw_status pw_chat_details_delta(pw_chat_stream *s, const pw_json *details, pw_str *ret_text)
{
    pw_buffer said;
    pw_buffer_init_arena(&said, &s->base.scratch, PW_READING_MAX_REPLY);
    *ret_text = PW_STR_NONE;
    if (!pw_json_is(details, PW_JSON_ARRAY)) {
        return PW_OK;
    }
    for (const pw_json *entry = details->child; entry; entry = entry->next) {
        if (pw_json_is(entry, PW_JSON_OBJECT)) {
            PW_TRY(take_entry(s, entry, &said));
        }
    }
    *ret_text = pw_buffer_str(&said);
    return PW_OK;
}

static pw_status write_detail(pw_chat_stream *s, const pw_chat_detail *detail, pw_buffer *out)
{
    if (!detail->continued) {
        return pw_buffer_add(out, detail->start);
    }
    const pw_json *start = NULL;
    PW_TRY(pw_json_parse(&s->base.kept, detail->start, 0, &start, NULL));
    pw_member members[] = {{.name = text_member(detail->type)},
                           {.name = "signature", .json = detail->signature},
                           {.name = "format", .json = detail->format},
                           {.name = "id", .json = detail->id}};
    PW_TRY(pw_reading_string_json(&s->base.kept, pw_buffer_str(&detail->text), &members[0].json));
    return pw_block_write(out, start, members, sizeof members / sizeof members[0]);
}

pw_status pw_chat_details_json(pw_chat_stream *s, pw_str *ret)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, &s->base.kept, PW_READING_MAX_REPLY * 7);
    *ret = PW_STR_NONE;
    if (s->detail_count == 0) {
        return PW_OK;
    }
    for (size_t i = 0; i < s->detail_count; i++) {
        PW_TRY(pw_buffer_byte(&out, i == 0 ? '[' : ','));
        PW_TRY(write_detail(s, s->details[i], &out));
    }
    PW_TRY(pw_buffer_byte(&out, ']'));
    *ret = pw_buffer_str(&out);
    return PW_OK;
}
