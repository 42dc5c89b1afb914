/*
 * The transcript checker and its repair (C9).
 *
 * A call's identity is (number of its assistant message, call id): ids are unique within a message,
 * numbers within a session (C1), so provider ids that come again never collide (D10). A result says
 * whose it is by its step, `tool:<n>:<id>`; one without a step belongs to the assistant message
 * before it.
 */
#include "core/state.h"

#include "base/format.h"
#include "base/utf8.h"

/* --- What both need. --- */

static const pw_part *next_call(const pw_message *message, size_t *at)
{
    while (*at < message->part_count) {
        const pw_part *part = &message->parts[(*at)++];
        if (part->kind == PW_PART_TOOL_CALL) {
            return part;
        }
    }
    return NULL;
}

static bool step_names(pw_str step, int64_t n, pw_str call)
{
    char text[32];
    const size_t head = pw_format(text, sizeof(text), "tool:%lld:", (long long)n);
    return step.len == head + call.len && memcmp(step.ptr, text, head) == 0 &&
           pw_str_equal(pw_str_slice(step, head, step.len), call);
}

static bool answers(const pw_message *result, const pw_message *assistant, const pw_part *call)
{
    return result->step.len > 0 ? step_names(result->step, assistant->n, call->call)
                                : pw_str_equal(result->call, call->call);
}

static bool is_call_of(const pw_message *result, const pw_message *assistant)
{
    size_t at = 0;
    for (const pw_part *call; assistant && (call = next_call(assistant, &at));) {
        if (answers(result, assistant, call)) {
            return true;
        }
    }
    return false;
}

static bool arguments_fit(const pw_part *part)
{
    const pw_str text = pw_str_trim(part->arguments);
    return part->broken || (text.len > 0 && text.ptr[0] == '{' && pw_json_valid(text));
}

static bool text_fits(const pw_message *message)
{
    for (size_t i = 0; i < message->part_count; i++) {
        if (!pw_utf8_clean(message->parts[i].text) || !pw_utf8_clean(message->parts[i].name)) {
            return false;
        }
    }
    return message->role != PW_ROLE_TOOL || pw_json_valid(message->result);
}

/* The id that two calls of the message share, or the second of them. */
static const pw_part *repeated_call(const pw_message *message)
{
    for (size_t i = 0; i < message->part_count; i++) {
        for (size_t k = 0; k < i && message->parts[i].kind == PW_PART_TOOL_CALL; k++) {
            if (message->parts[k].kind == PW_PART_TOOL_CALL &&
                pw_str_equal(message->parts[k].call, message->parts[i].call)) {
                return &message->parts[i];
            }
        }
    }
    return NULL;
}

/* --- The checker.
 * -------------------------------------------------------------------------------------------------
 */

typedef struct checker {
    const pw_message *assistant; /* whose calls are being answered */
    const pw_part *owed;         /* the next of them; NULL: none */
    size_t at;
    int64_t last_n; /* of the last assistant message */
} checker;

static pw_transcript_fault fault(const char *what, const pw_message *message, pw_str call)
{
    return (pw_transcript_fault){.what = what, .seq = message->seq, .call = call};
}

static bool check_result(checker *c, const pw_message *message, pw_transcript_fault *ret)
{
    if (c->owed && answers(message, c->assistant, c->owed)) {
        c->owed = next_call(c->assistant, &c->at);
        return true;
    }
    size_t at = 0;
    bool answered = c->assistant != NULL;
    for (const pw_part *call; c->assistant && (call = next_call(c->assistant, &at));) {
        answered = answered && call != c->owed;
        if (answers(message, c->assistant, call)) {
            *ret =
                fault(answered ? "duplicate_result" : "misplaced_result", message, message->call);
            return false;
        }
    }
    *ret = fault("orphan_result", message, message->call);
    return false;
}

static bool check_assistant(checker *c, const pw_message *message, pw_transcript_fault *ret)
{
    const pw_part *repeated = repeated_call(message);
    if (repeated || (c->assistant && message->n > 0 && message->n <= c->last_n)) {
        *ret = fault("repeated_call", message, repeated ? repeated->call : PW_STR_NONE);
        return false;
    }
    for (size_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].kind == PW_PART_TOOL_CALL && !arguments_fit(&message->parts[i])) {
            *ret = fault("bad_arguments", message, message->parts[i].call);
            return false;
        }
    }
    c->assistant = message;
    c->last_n = message->n;
    c->at = 0;
    c->owed = next_call(message, &c->at);
    return true;
}

static bool check_message(checker *c, const pw_message *message, bool first,
                          pw_transcript_fault *ret)
{
    if (first && message->role != PW_ROLE_USER && message->role != PW_ROLE_TRIGGER) {
        *ret = fault("starts_wrong", message, PW_STR_NONE);
        return false;
    }
    if (!text_fits(message)) {
        *ret = fault("bad_text", message, message->call);
        return false;
    }
    if (message->role == PW_ROLE_TOOL) {
        return check_result(c, message, ret);
    }
    if (c->owed) {
        *ret = fault("missing_result", c->assistant, c->owed->call);
        return false;
    }
    return message->role != PW_ROLE_ASSISTANT || check_assistant(c, message, ret);
}

pw_status pw_transcript_check_from(const pw_message *const *messages, size_t from, size_t count,
                                   pw_arena *scratch, bool *ret_valid, pw_transcript_fault *ret)
{
    (void)scratch;
    checker c = {0};
    *ret_valid = false;
    for (size_t i = from; i > 0; i--) {
        if (messages[i - 1]->role == PW_ROLE_ASSISTANT) {
            c.assistant = messages[i - 1];
            c.last_n = c.assistant->n;
            break;
        }
    }
    for (size_t i = from; i < count; i++) {
        if (!check_message(&c, messages[i], i == 0, ret)) {
            return PW_OK;
        }
    }
    if (c.owed) {
        *ret = fault("missing_result", c.assistant, c.owed->call);
        return PW_OK;
    }
    *ret_valid = true;
    return PW_OK;
}

pw_status pw_transcript_check(const pw_message *const *messages, size_t count, pw_arena *scratch,
                              bool *ret_valid, pw_transcript_fault *ret)
{
    return pw_transcript_check_from(messages, 0, count, scratch, ret_valid, ret);
}

/* --- The repair.
 * ----------------------------------------------------------------------------------------------------
 */

typedef struct mender {
    pw_arena *arena;
    const pw_message *const *messages;
    size_t count;
    bool *used; /* results that found their place */
    const pw_message **list;
    size_t length, capacity;
    pw_transcript_fault *faults;
    size_t fault_count, fault_capacity;
} mender;

static pw_status note(mender *m, const char *what, const pw_message *message, pw_str call)
{
    if (m->fault_count == m->fault_capacity) {
        const size_t capacity = m->fault_capacity > 0 ? m->fault_capacity * 2 : 8;
        pw_transcript_fault *faults = PW_NEW_ARRAY(m->arena, pw_transcript_fault, capacity);
        if (!faults) {
            return PW_NOMEM;
        }
        if (m->fault_count > 0) {
            memcpy(faults, m->faults, m->fault_count * sizeof(faults[0]));
        }
        m->faults = faults;
        m->fault_capacity = capacity;
    }
    m->faults[m->fault_count++] = fault(what, message, call);
    return PW_OK;
}

static pw_status put(mender *m, const pw_message *message)
{
    if (m->length == m->capacity) {
        const size_t capacity = m->capacity > 0 ? m->capacity * 2 : m->count + 16;
        const pw_message **list = PW_NEW_ARRAY(m->arena, const pw_message *, capacity);
        if (!list) {
            return PW_NOMEM;
        }
        if (m->length > 0) {
            memcpy(list, m->list, m->length * sizeof(list[0]));
        }
        m->list = list;
        m->capacity = capacity;
    }
    m->list[m->length++] = message;
    return PW_OK;
}

/* A copy whose text and arguments are fit to be sent. */
static pw_status mend_message(mender *m, const pw_message *message, const pw_message **ret)
{
    pw_message *copy = PW_NEW(m->arena, pw_message);
    pw_part *parts = PW_NEW_ARRAY(m->arena, pw_part, message->part_count);
    if (!copy || !parts) {
        return PW_NOMEM;
    }
    *copy = *message;
    for (size_t i = 0; i < message->part_count; i++) {
        parts[i] = message->parts[i];
        PW_TRY(pw_value_text(m->arena, parts[i].text, SIZE_MAX, &parts[i].text));
        PW_TRY(pw_value_text(m->arena, parts[i].name, SIZE_MAX, &parts[i].name));
        parts[i].broken |= parts[i].kind == PW_PART_TOOL_CALL && !arguments_fit(&parts[i]);
    }
    copy->parts = parts;
    if (message->role == PW_ROLE_TOOL) {
        pw_value value;
        PW_TRY(pw_value_of_result(m->arena, message->result, -1, &value));
        copy->result = value.json;
    }
    *ret = copy;
    return PW_OK;
}

static pw_status mended(mender *m, const pw_message *message, const pw_message **ret)
{
    *ret = message;
    bool arguments = true;
    for (size_t i = 0; i < message->part_count; i++) {
        arguments &=
            message->parts[i].kind != PW_PART_TOOL_CALL || arguments_fit(&message->parts[i]);
    }
    if (text_fits(message) && arguments) {
        return PW_OK;
    }
    PW_TRY(note(m, arguments ? "bad_text" : "bad_arguments", message, message->call));
    return mend_message(m, message, ret);
}

static pw_status put_missing(mender *m, const pw_message *assistant, const pw_part *call, int64_t n)
{
    pw_message *message = PW_NEW(m->arena, pw_message);
    if (!message) {
        return PW_NOMEM;
    }
    *message = (pw_message){
        .role = PW_ROLE_TOOL,
        .n = n,
        .seq = assistant->seq,
        .at_ms = assistant->at_ms,
        .turn = assistant->turn,
        .call = call->call,
        .name = call->name,
        .result =
            PW_STR("{\"outcome\":\"unknown\",\"message\":\"The result of this call is missing. "
                   "It may or may not have run: do not assume either way.\"}"),
        .is_error = true,
    };
    pw_buffer step;
    pw_buffer_init_arena(&step, m->arena, 4096 + call->call.len);
    (void)pw_buffer_format(&step, "tool:%lld:", (long long)assistant->n);
    PW_TRY(pw_buffer_add(&step, call->call));
    message->step = pw_buffer_str(&step);
    PW_TRY(note(m, "missing_result", assistant, call->call));
    return put(m, message);
}

/* The result of a call, wherever it stands: behind its message, or elsewhere in the transcript. */
static size_t find_result(const mender *m, size_t assistant_at, const pw_part *call)
{
    const pw_message *assistant = m->messages[assistant_at];
    for (size_t i = assistant_at + 1; i < m->count && m->messages[i]->role == PW_ROLE_TOOL; i++) {
        if (!m->used[i] && answers(m->messages[i], assistant, call)) {
            return i;
        }
    }
    for (size_t i = 0; i < m->count; i++) {
        if (m->messages[i]->role == PW_ROLE_TOOL && m->messages[i]->step.len > 0 && !m->used[i] &&
            answers(m->messages[i], assistant, call)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static pw_status put_result(mender *m, size_t assistant_at, size_t at, const pw_part *call,
                            bool in_place)
{
    const pw_message *result;
    PW_TRY(mended(m, m->messages[at], &result));
    m->used[at] = true;
    if (!in_place) {
        /* It is now a message of the place it was put in, and leaves the window with it. */
        pw_message *moved = PW_NEW(m->arena, pw_message);
        if (!moved) {
            return PW_NOMEM;
        }
        *moved = *result;
        moved->seq = m->messages[assistant_at]->seq;
        moved->turn = m->messages[assistant_at]->turn;
        PW_TRY(note(m, "misplaced_result", m->messages[at], call->call));
        result = moved;
    }
    return put(m, result);
}

/* Does the result stand behind `after`, with nothing but results between? */
static bool stands_behind(const mender *m, size_t after, size_t found)
{
    if (found <= after) {
        return false;
    }
    for (size_t i = after + 1; i < found; i++) {
        if (m->messages[i]->role != PW_ROLE_TOOL) {
            return false;
        }
    }
    return true;
}

static pw_status put_assistant(mender *m, size_t at)
{
    const pw_message *assistant;
    PW_TRY(mended(m, m->messages[at], &assistant));
    PW_TRY(put(m, assistant));
    size_t part = 0, last = at;
    int64_t n = assistant->n;
    for (const pw_part *call; (call = next_call(assistant, &part));) {
        n++;
        const size_t found = find_result(m, at, call);
        if (found == SIZE_MAX) {
            PW_TRY(put_missing(m, assistant, call, n));
            continue;
        }
        const bool in_place = stands_behind(m, last, found);
        PW_TRY(put_result(m, at, found, call, in_place));
        last = in_place ? found : last;
    }
    return PW_OK;
}

static pw_status mend_all(mender *m)
{
    bool begun = false;
    int64_t last_n = 0;
    for (size_t i = 0; i < m->count; i++) {
        const pw_message *message = m->messages[i];
        if (message->role == PW_ROLE_TOOL) {
            continue;
        }
        const bool opens = message->role == PW_ROLE_USER || message->role == PW_ROLE_TRIGGER;
        if (!begun && !opens) {
            PW_TRY(note(m, "starts_wrong", message, PW_STR_NONE));
            continue;
        }
        begun = true;
        if (opens) {
            const pw_message *fit;
            PW_TRY(mended(m, message, &fit));
            PW_TRY(put(m, fit));
            continue;
        }
        if (repeated_call(message) || (last_n > 0 && message->n > 0 && message->n <= last_n)) {
            PW_TRY(note(m, "repeated_call", message, PW_STR_NONE));
            continue;
        }
        last_n = message->n;
        PW_TRY(put_assistant(m, i));
    }
    return PW_OK;
}

/* Results that found no place: orphans, or second answers to a call that has one. */
static pw_status note_left_out(mender *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->messages[i]->role != PW_ROLE_TOOL || m->used[i]) {
            continue;
        }
        bool known = false;
        for (size_t k = 0; k < m->count && !known; k++) {
            known = m->messages[k]->role == PW_ROLE_ASSISTANT &&
                    is_call_of(m->messages[i], m->messages[k]);
        }
        PW_TRY(note(m, known ? "duplicate_result" : "orphan_result", m->messages[i],
                    m->messages[i]->call));
    }
    return PW_OK;
}

pw_status pw_transcript_repair(const pw_message *const *messages, size_t count, pw_arena *arena,
                               const pw_message *const **ret, size_t *ret_count,
                               const pw_transcript_fault **ret_faults, size_t *ret_fault_count)
{
    mender m = {.arena = arena, .messages = messages, .count = count};
    m.used = PW_NEW_ARRAY(arena, bool, count);
    if (!m.used) {
        return PW_NOMEM;
    }
    PW_TRY(mend_all(&m));
    PW_TRY(note_left_out(&m));
    *ret = m.list;
    *ret_count = m.length;
    *ret_faults = m.faults;
    *ret_fault_count = m.fault_count;
    return PW_OK;
}
