/*
 * Leaving out what a provider rejects by its position (C9), so that one bad part does not make a
 * session useless for ever.
 *
 * Of a person's message any part may go: a text in its place says so, to the model too. Of a
 * model's message only what was kept for the provider alone (thinking, blocks we do not read): it
 * is never sent again. A call and its result are never parted, and what a model said is never
 * unsaid.
 */
#include "core/state.h"

enum { TYPE_MAX = 32 };

static bool is_word(pw_str type)
{
    for (size_t i = 0; i < type.len; i++) {
        if ((type.ptr[i] < 'a' || type.ptr[i] > 'z') && type.ptr[i] != '_') {
            return false;
        }
    }
    return type.len > 0 && type.len <= TYPE_MAX;
}

/* "image", "document", … as the part calls itself; "part" where it says nothing fit to be said. */
static pw_status type_of(const pw_part *part, pw_arena *arena, pw_str *ret)
{
    const pw_json *json = NULL;
    *ret = PW_STR("part");
    if (part->kind == PW_PART_TEXT) {
        *ret = PW_STR("text");
        return PW_OK;
    }
    if (pw_json_parse(arena, part->raw, 0, &json, NULL) == PW_NOMEM) {
        return PW_NOMEM;
    }
    const pw_str type = pw_json_text(pw_json_get(json, "type"));
    *ret = is_word(type) ? type : *ret;
    return PW_OK;
}

static pw_status placeholder(const pw_part *part, pw_arena *arena, pw_part *ret)
{
    pw_str type;
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, 256);
    PW_TRY(type_of(part, arena, &type));
    (void)pw_buffer_byte(&text, '[');
    (void)pw_buffer_add(&text, type);
    PW_TRY(pw_buffer_add(&text, PW_STR(" left out: the provider rejected it]")));
    *ret = (pw_part){.kind = PW_PART_TEXT, .text = pw_buffer_str(&text), .left_out = true};
    return PW_OK;
}

pw_status pw_part_leave_out(const pw_message *message, size_t index, pw_arena *arena,
                            const pw_message **ret)
{
    pw_message *copy = PW_NEW(arena, pw_message);
    pw_part *parts = PW_NEW_ARRAY(arena, pw_part, message->part_count);
    if (!copy || !parts) {
        return PW_NOMEM;
    }
    *copy = *message;
    memcpy(parts, message->parts, message->part_count * sizeof(parts[0]));
    if (message->role == PW_ROLE_ASSISTANT) {
        parts[index].raw = PW_STR_NONE; /* without it, it is never sent */
        parts[index].left_out = true;
    } else {
        PW_TRY(placeholder(&message->parts[index], arena, &parts[index]));
    }
    copy->parts = parts;
    *ret = copy;
    return PW_OK;
}
