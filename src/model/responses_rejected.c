/*
 * Which part of a request OpenAI Responses complains about (C9): its errors name the place in the
 * body as `input[3].content[1]`, in `param` or in the message.
 *
 * That place is one of the body, not of the transcript: a message may be several items or none, a
 * part several contents or none. So the items are counted as they are rendered. Must never point at
 * a call, a result or what a model said.
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

static bool find_place(pw_str text, uint64_t *ret_item, uint64_t *ret_content)
{
    return take_index(&text, PW_STR("input["), ret_item) &&
           pw_str_begins(text, PW_STR("].content[")) &&
           take_index(&text, PW_STR("].content["), ret_content);
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

bool pw_responses_rejected(const pw_model_request *request, int http_status, pw_str body,
                           pw_arena *arena, size_t *ret_message, size_t *ret_part)
{
    const pw_json *json = NULL;
    pw_fault fault = {.status = http_status};
    uint64_t item = 0, content = 0;
    if (pw_json_parse(arena, pw_str_trim(body), PW_JSON_MEND_UTF8, &json, NULL) != PW_OK ||
        !pw_fault_read(json, &fault) ||
        !(find_place(fault.param, &item, &content) || find_place(fault.message, &item, &content))) {
        return false;
    }
    pw_render render;
    pw_rendering r;
    size_t message = 0, part = 0;
    pw_render_init(&render, arena->allocator);
    pw_responses_rendering(&r, request, &render, arena);
    const bool found = pw_rendering_find(&r, (size_t)item, &message) &&
                       pw_message_speaks(request->messages[message]) &&
                       find_part(&r, request->messages[message], content, &part);
    pw_render_free(&render);
    if (found) {
        *ret_message = message;
        *ret_part = part;
    }
    return found;
}
