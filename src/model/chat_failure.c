/*
 * Failed calls of Chat Completions: classed as everybody's (fault.h), with a word on what to set
 * where a server does not know a field that we sent, and with the part that a server complains
 * about by its position (C9).
 *
 * The added word is advice for a person and decides nothing (F8).
 */
#include "model/chat_inner.h"

/* --- A field that the server does not know --- */

static const struct {
    const char *field, *advice;
} fields[] = {
    {"max_completion_tokens", "model.max_tokens_field says which field is sent"},
    {"max_tokens", "model.max_tokens_field says which field is sent"},
    {"stream_options", "set model.stream_options to false"},
    {"parallel_tool_calls", "leave out model.parallel_tool_calls"},
    {"reasoning_effort", "leave out model.reasoning_effort"},
    {"reasoning_content", "model.echo_reasoning says whether it is sent"},
    {"temperature", "leave out model.temperature"},
    {"tool_call_id", "set model.dialect to this server's"},
    {"developer", "set model.system_role to system"},
    {"cache_control", "set model.dialect to this server's"},
};

static const char *const unknown[] = {"unsupported", "not supported", "unknown",     "unrecognized",
                                      "unexpected",  "not permitted", "not allowed", "forbidden",
                                      "passed back", "must be",       NULL};

static const char *advice_for(const pw_fault *fault)
{
    bool refused = false;
    for (size_t i = 0; unknown[i]; i++) {
        refused |= pw_fault_says(fault->message, unknown[i]) ||
                   pw_fault_says(fault->code, unknown[i]) || pw_fault_says(fault->type, unknown[i]);
    }
    for (size_t i = 0; refused && i < sizeof fields / sizeof fields[0]; i++) {
        const bool meant = fault->param.len > 0 ? pw_str_is(fault->param, fields[i].field)
                                                : pw_fault_says(fault->message, fields[i].field);
        if (meant) {
            return fields[i].advice;
        }
    }
    return NULL;
}

static bool read_answer(int http_status, pw_str body, pw_arena *arena, const pw_json **ret_body,
                        pw_fault *ret)
{
    *ret = (pw_fault){.status = http_status};
    return (http_status == 400 || http_status == 422) &&
           pw_json_parse(arena, pw_str_trim(body), PW_JSON_MEND_UTF8, ret_body, NULL) == PW_OK &&
           pw_fault_read(*ret_body, ret);
}

pw_failure pw_chat_failure(const pw_endpoint *endpoint, int http_status, const pw_header *headers,
                           size_t header_count, pw_str body, pw_arena *arena)
{
    pw_failure failure =
        pw_fault_of_answer(endpoint, http_status, headers, header_count, body, arena);
    const pw_json *json = NULL;
    pw_fault fault;
    const char *advice =
        read_answer(http_status, body, arena, &json, &fault) ? advice_for(&fault) : NULL;
    if (advice && failure.failure_class == PW_FAILURE_FINAL) {
        pw_buffer text;
        pw_buffer_init_arena(&text, arena, 64 << 10);
        (void)pw_buffer_add(&text, failure.message);
        (void)pw_buffer_format(&text, " (%s)", advice);
        failure.message = text.failed == PW_OK ? pw_buffer_str(&text) : failure.message;
    }
    return failure;
}

/* --- A part that the server will not take --- */

/* The number after a word and a few marks: messages[3], messages.3, "messages",3. SIZE_MAX: none.
 * `ret_rest` is what stands behind it. */
static size_t number_after(pw_str text, pw_str word, pw_str *ret_rest)
{
    static const pw_str marks = PW_STR_INIT("[]('\"., /");
    const size_t found = pw_str_find(text, word);
    if (found == SIZE_MAX) {
        return SIZE_MAX;
    }
    size_t at = found + word.len;
    while (at < text.len && pw_str_find(marks, pw_str_slice(text, at, at + 1)) != SIZE_MAX) {
        at++;
    }
    size_t end = at;
    while (end < text.len && end < at + 9 && text.ptr[end] >= '0' && text.ptr[end] <= '9') {
        end++;
    }
    uint64_t number = 0;
    if (!pw_str_u64(pw_str_slice(text, at, end), &number)) {
        return SIZE_MAX;
    }
    *ret_rest = pw_str_slice(text, end, text.len);
    return (size_t)number;
}

typedef struct position {
    size_t message, part; /* SIZE_MAX: not said */
} position;

static position position_of(const pw_fault *fault, const pw_json *body)
{
    const pw_json *first = pw_json_at(pw_json_get(body, "detail"), 0);
    const pw_json *place = pw_json_get(first, "loc"); /* ["body","messages",3,"content",1] */
    const pw_str texts[] = {fault->param, place ? place->raw : PW_STR_NONE, fault->message};
    position found = {SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && found.message == SIZE_MAX; i++) {
        pw_str rest = PW_STR_NONE, ignored = PW_STR_NONE;
        found.message = number_after(texts[i], PW_STR("messages"), &rest);
        found.part = number_after(rest, PW_STR("content"), &ignored);
    }
    return found;
}

bool pw_chat_rejected(const pw_model_request *request, int http_status, pw_str body,
                      pw_arena *arena, size_t *ret_message, size_t *ret_part)
{
    const pw_json *json = NULL;
    pw_fault fault;
    if (!read_answer(http_status, body, arena, &json, &fault)) {
        return false;
    }
    const position at = position_of(&fault, json);
    size_t message = 0, part = 0;
    if (at.message == SIZE_MAX ||
        !pw_chat_find_part(request, at.message, at.part, arena, &message, &part) ||
        !pw_part_may_leave(request->messages[message], part)) {
        return false;
    }
    *ret_message = message;
    *ret_part = part;
    return true;
}
