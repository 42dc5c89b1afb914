/*
 * Which part of a request OpenAI Responses complains about (C9): its errors name the place in the
 * body as `input[3].content[1]`, in `param` or in the message, or reasoning by its id.
 *
 * That place is one of the body, not of the transcript: a message may be several items or none, a
 * part several contents or none. So the items are counted as they are rendered. Must never point at
 * a call, a result or a text of the model.
 */
#include "model/responses_inner.h"

/* The number in `text` behind `word`, as "input[" 3 "]"; `text` goes on behind it. */
static bool take_index(pw_str *text, pw_str word, uint64_t *ret)
{
    const size_t at = pw_str_find(*text, word);
    if (at == SIZE_MAX) {
        return false;
    }
    const pw_str rest = pw_str_slice(*text, at + word.len, text->len);
    const size_t end = pw_str_find(rest, PW_STR("]"));
    if (end == SIZE_MAX || end > 9 || !pw_str_u64(pw_str_slice(rest, 0, end), ret)) {
        return false;
    }
    *text = pw_str_slice(rest, end, rest.len);
    return true;
}

typedef struct place {
    uint64_t item, content;
    bool has_content;
} place;

static bool find_place(pw_str text, place *ret)
{
    if (!take_index(&text, PW_STR("input["), &ret->item)) {
        return false;
    }
    ret->has_content = pw_str_begins(text, PW_STR("].content["));
    return !ret->has_content || take_index(&text, PW_STR("].content["), &ret->content);
}

/* The part that gave the user message this content. */
static bool find_part(pw_rendering *r, const pw_message *message, uint64_t content, size_t *ret)
{
    uint64_t first = 0;
    for (size_t i = 0; i < message->part_count; i++) {
        size_t count = 0;
        if (pw_responses_count_contents(r, &message->parts[i], &count) != PW_OK) {
            return false;
        }
        if (content < first + count) {
            *ret = i;
            return true;
        }
        first += count;
    }
    return false;
}

/* What stands at that place, if it may be left out. */
static bool find_at(pw_rendering *r, const place *at, size_t *ret_message, size_t *ret_part)
{
    size_t item = 0;
    if (!pw_rendering_find(r, (size_t)at->item, ret_message, &item)) {
        return false;
    }
    const pw_message *message = r->request->messages[*ret_message];
    if (pw_message_speaks(message)) {
        return at->has_content && find_part(r, message, at->content, ret_part);
    }
    return message->role == PW_ROLE_ASSISTANT &&
           pw_responses_part_of_item(r, message, item, ret_part) == PW_OK && *ret_part != SIZE_MAX;
}

/* Reasoning that can no longer be read is named by its id: "The encrypted content for item rs_…
 * could not be verified." */
static bool find_reasoning(pw_rendering *r, pw_str text, size_t *ret_message, size_t *ret_part)
{
    const size_t at = pw_str_find(text, PW_STR("rs_"));
    size_t end = at == SIZE_MAX ? text.len : at;
    while (end < text.len && text.ptr[end] != ' ' && text.ptr[end] != '\'') {
        end++;
    }
    const pw_str wanted = at == SIZE_MAX ? PW_STR_NONE : pw_str_slice(text, at, end);
    for (size_t i = 0; wanted.len > 0 && i < r->request->count; i++) {
        const pw_message *message = r->request->messages[i];
        for (size_t k = 0; k < message->part_count; k++) {
            pw_str id = PW_STR_NONE;
            if (message->parts[k].kind == PW_PART_THINKING &&
                pw_responses_id_of_part(r, message, k, &id) == PW_OK && pw_str_equal(id, wanted)) {
                *ret_message = i;
                *ret_part = k;
                return true;
            }
        }
    }
    return false;
}

bool pw_responses_rejected(const pw_model_request *request, int http_status, pw_str body,
                           pw_arena *arena, size_t *ret_message, size_t *ret_part)
{
    const pw_json *json = NULL;
    pw_fault fault = {.status = http_status};
    if (pw_json_parse(arena, pw_str_trim(body), PW_JSON_MEND_UTF8, &json, NULL) != PW_OK ||
        !pw_fault_read(json, &fault)) {
        return false;
    }
    place at = {.item = 0};
    pw_render render;
    pw_rendering r;
    size_t message = 0, part = 0;
    pw_render_init(&render, arena->allocator);
    pw_responses_rendering(&r, request, &render, arena);
    const bool placed = find_place(fault.param, &at) || find_place(fault.message, &at);
    const bool found = placed ? find_at(&r, &at, &message, &part)
                              : find_reasoning(&r, fault.message, &message, &part);
    pw_render_free(&render);
    if (!found || !pw_part_may_leave(request->messages[message], part)) {
        return false;
    }
    *ret_message = message;
    *ret_part = part;
    return true;
}
