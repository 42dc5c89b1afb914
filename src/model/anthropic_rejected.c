/*
 * Which part of a request Anthropic rejects (C9): its errors name the place in the body,
 * `messages.3.content.1.image.source.base64: …`.
 *
 * That place is one of the body, not of the transcript: messages with nothing to send are not in
 * it, all results of one message are one message there, blank text is no block. So the body is
 * gone through again, as it was rendered. Must never point at a call, a result or what a model
 * said.
 */
#include "model/anthropic_inner.h"
#include "model/fault.h"

typedef struct place {
    uint64_t message, block;
} place;

/* The digits at the beginning of `text`, which are taken off it. */
static bool take_number(pw_str *text, uint64_t *ret)
{
    size_t length = 0;
    while (length < text->len && text->ptr[length] >= '0' && text->ptr[length] <= '9') {
        length++;
    }
    if (length == 0 || length > 9 || !pw_str_u64(pw_str_slice(*text, 0, length), ret)) {
        return false;
    }
    *text = pw_str_slice(*text, length, text->len);
    return true;
}

static bool take_word(pw_str *text, pw_str word)
{
    if (!pw_str_begins(*text, word)) {
        return false;
    }
    *text = pw_str_slice(*text, word.len, text->len);
    return true;
}

static bool find_place(pw_str message, place *ret)
{
    const pw_str begins = PW_STR("messages.");
    const size_t at = pw_str_find(message, begins);
    if (at == SIZE_MAX) {
        return false;
    }
    pw_str rest = pw_str_slice(message, at + begins.len, message.len);
    return take_number(&rest, &ret->message) && take_word(&rest, PW_STR(".content.")) &&
           take_number(&rest, &ret->block);
}

/* The `block`-th part of the message that is in the body; SIZE_MAX: it has fewer. `*ret_blocks`:
 * how many it has there. */
static pw_status find_part(const pw_model_request *request, size_t index, uint64_t block,
                           pw_arena *arena, uint64_t *ret_blocks, size_t *ret_part)
{
    const pw_message *message = request->messages[index];
    *ret_blocks = 0;
    *ret_part = SIZE_MAX;
    for (size_t part = 0; part < message->part_count; part++) {
        bool shows = false;
        PW_TRY(pw_anthropic_part_shows(request, index, part, arena, &shows));
        if (shows && *ret_blocks == block) {
            *ret_part = part;
        }
        *ret_blocks += shows;
    }
    return PW_OK;
}

static bool locate(const pw_model_request *request, const place *wanted, pw_arena *arena,
                   size_t *ret_message, size_t *ret_part)
{
    uint64_t at = 0;
    for (size_t i = 0; i < request->count; i++) {
        const pw_role role = request->messages[i]->role;
        uint64_t blocks = 0;
        if (role == PW_ROLE_TOOL) {
            const bool first = i == 0 || request->messages[i - 1]->role != PW_ROLE_TOOL;
            if (first && at++ == wanted->message) {
                return false;
            }
            continue;
        }
        if (find_part(request, i, wanted->block, arena, &blocks, ret_part) != PW_OK) {
            return false;
        }
        if (role == PW_ROLE_ASSISTANT && blocks == 0) {
            continue; /* it is not in the body */
        }
        if (at++ == wanted->message) {
            *ret_message = i;
            return *ret_part != SIZE_MAX;
        }
    }
    return false;
}

bool pw_anthropic_rejected(const pw_model_request *request, int http_status, pw_str body,
                           pw_arena *arena, size_t *ret_message, size_t *ret_part)
{
    (void)http_status;
    pw_fault fault = {0};
    const pw_json *json = NULL;
    place wanted;
    size_t message = 0, part = 0;
    if (pw_json_parse(arena, pw_str_trim(body), PW_JSON_MEND_UTF8, &json, NULL) != PW_OK) {
        return false;
    }
    if (!pw_fault_read(json, &fault) || !find_place(fault.message, &wanted) ||
        !locate(request, &wanted, arena, &message, &part) ||
        !pw_part_may_leave(request->messages[message], part)) {
        return false;
    }
    *ret_message = message;
    *ret_part = part;
    return true;
}
