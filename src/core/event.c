/*
 * The telling of records (M1, M4) and the reading of cursors (M1, M2).
 *
 * It knows one record at a time and nothing else: no session, no store, no subscriber. So an event
 * is the same whoever asks, and whenever. It must never tell what the record does not say.
 */
#include "core/event.h"

#include "base/format.h"
#include "core/view_inner.h"

typedef struct telling {
    const pw_record *record;
    const pw_json *body;
    pw_str session;
    pw_arena *arena;
    pw_error *error;
    pw_event_out *events;
    size_t count, capacity;
    pw_buffer data;
    pw_json_writer writer;
} telling;

static void begin(telling *t)
{
    pw_buffer_init_arena(&t->data, t->arena, PW_VIEW_MAXIMUM);
    pw_json_begin(&t->writer, &t->data);
    pw_json_object(&t->writer);
}

static void begin_with_head(telling *t)
{
    begin(t);
    pw_json_writer *w = &t->writer;
    pw_json_put_str(w, "session", t->session);
    pw_json_put_str(w, "turn", t->record->turn);
    if (t->record->step.len > 0) {
        pw_json_put_str(w, "step", t->record->step);
    }
    pw_json_put_time(w, "at", t->record->at_ms);
}

static pw_status end(telling *t, pw_str name)
{
    pw_json_object_end(&t->writer);
    if (t->data.failed != PW_OK) {
        return t->data.failed;
    }
    PW_ASSERT(t->count < t->capacity);
    t->events[t->count++] = (pw_event_out){.name = name, .data = pw_buffer_str(&t->data)};
    return PW_OK;
}

static pw_status tell_opened(telling *t)
{
    begin_with_head(t);
    pw_json_writer *w = &t->writer;
    pw_view_put(w, "agent", pw_json_get(t->body, "agent"), t->arena);
    pw_view_put(w, "run", pw_json_get(t->body, "run"), t->arena);
    pw_json_put_i64(w, "attempt", 1);
    pw_json_key(w, "requests");
    pw_json_array(w);
    const pw_json *requests = pw_json_get(t->body, "requests");
    for (const pw_json *r = requests ? requests->child : NULL; r; r = r->next) {
        pw_json_string(w, pw_json_text(pw_json_get(r, "id")));
    }
    pw_json_array_end(w);
    pw_view_put_time(w, "deadline_at", pw_json_get(t->body, "deadline_at"));
    return end(t, PW_STR("turn.started"));
}

static pw_status tell_attempt(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "attempt", pw_json_get(t->body, "attempt"), t->arena);
    pw_view_put(&t->writer, "run", pw_json_get(t->body, "run"), t->arena);
    pw_view_put(&t->writer, "cause", pw_json_get(t->body, "cause"), t->arena);
    return end(t, PW_STR("attempt.started"));
}

static bool blank(pw_str text)
{
    return pw_str_trim(text).len == 0;
}

static bool is_call(const pw_json *part)
{
    return pw_str_is(pw_json_text(pw_json_get(part, "type")), "tool_call");
}

static pw_status tell_call(telling *t, const pw_json *part)
{
    begin_with_head(t);
    pw_json_writer *w = &t->writer;
    pw_view_put(w, "call", pw_json_get(part, "call"), t->arena);
    pw_view_put(w, "name", pw_json_get(part, "name"), t->arena);
    pw_view_put(w, "arguments", pw_json_get(part, "arguments"), t->arena);
    pw_view_put(w, "effects", pw_json_get(part, "effects"), t->arena);
    const pw_json *broken = pw_json_get(part, "broken");
    if (broken) {
        pw_view_put(w, "broken", broken, t->arena);
    }
    return end(t, PW_STR("action.requested"));
}

static pw_status tell_reply(telling *t)
{
    const pw_json *parts = pw_json_get(t->body, "parts");
    pw_str text;
    PW_TRY(pw_view_reply_text(parts, t->arena, &text));
    if (!blank(text)) {
        begin_with_head(t);
        pw_json_put_str(&t->writer, "text", text);
        pw_view_put(&t->writer, "stop", pw_json_get(t->body, "stop"), t->arena);
        pw_view_put_call_usage(&t->writer, "usage", pw_json_get(t->body, "usage"));
        PW_TRY(end(t, PW_STR("message.completed")));
    }
    for (const pw_json *part = parts ? parts->child : NULL; part; part = part->next) {
        if (is_call(part)) {
            PW_TRY(tell_call(t, part));
        }
    }
    return PW_OK;
}

static pw_status tell_discarded(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "try", pw_json_get(t->body, "try"), t->arena);
    pw_view_put(&t->writer, "code", pw_json_get(t->body, "code"), t->arena);
    pw_view_put(&t->writer, "shown", pw_json_get(t->body, "shown"), t->arena);
    return end(t, PW_STR("message.restarted"));
}

static pw_status tell_retrying(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "try", pw_json_get(t->body, "try"), t->arena);
    pw_view_put(&t->writer, "code", pw_json_get(t->body, "code"), t->arena);
    pw_view_put(&t->writer, "class", pw_json_get(t->body, "class"), t->arena);
    pw_view_put(&t->writer, "message", pw_json_get(t->body, "message"), t->arena);
    pw_view_put_time(&t->writer, "until", pw_json_get(t->body, "until"));
    return end(t, PW_STR("model.retrying"));
}

static void put_choice(telling *t, const char *key)
{
    const pw_json *choice = pw_json_get(t->body, key);
    pw_json_key(&t->writer, key);
    pw_json_object(&t->writer);
    pw_view_put(&t->writer, "index", pw_json_get(choice, "index"), t->arena);
    pw_view_put(&t->writer, "provider", pw_json_get(choice, "provider"), t->arena);
    pw_view_put(&t->writer, "model", pw_json_get(choice, "model"), t->arena);
    pw_json_object_end(&t->writer);
}

static pw_status tell_fallback(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "try", pw_json_get(t->body, "try"), t->arena);
    put_choice(t, "from");
    put_choice(t, "to");
    pw_view_put(&t->writer, "code", pw_json_get(t->body, "code"), t->arena);
    pw_view_put(&t->writer, "message", pw_json_get(t->body, "message"), t->arena);
    return end(t, PW_STR("model.fallback"));
}

static pw_status tell_waiting(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "reason", pw_json_get(t->body, "reason"), t->arena);
    pw_view_put(&t->writer, "code", pw_json_get(t->body, "code"), t->arena);
    pw_view_put(&t->writer, "message", pw_json_get(t->body, "message"), t->arena);
    pw_view_put_time(&t->writer, "until", pw_json_get(t->body, "until"));
    return end(t, PW_STR("turn.waiting"));
}

static pw_status tell_action(telling *t)
{
    begin_with_head(t);
    pw_json_writer *w = &t->writer;
    pw_view_put(w, "call", pw_json_get(t->body, "call"), t->arena);
    pw_view_put(w, "name", pw_json_get(t->body, "name"), t->arena);
    pw_view_put(w, "effects", pw_json_get(t->body, "effects"), t->arena);
    pw_view_put(w, "outcome", pw_json_get(t->body, "outcome"), t->arena);
    const pw_json *result = pw_json_get(t->body, "result");
    if (pw_json_true(pw_json_get(t->body, "is_error"))) {
        pw_view_put(w, "error", pw_view_error_of(result), t->arena);
    } else {
        pw_view_put(w, "result", result, t->arena);
    }
    pw_view_put_time(w, "started_at", pw_json_get(t->body, "started_at"));
    pw_json_put_i64(w, "executions", pw_json_i64_or(pw_json_get(t->body, "executions"), 1));
    if (pw_json_get(t->body, "truncated")) {
        pw_view_put(w, "truncated", pw_json_get(t->body, "truncated"), t->arena);
    }
    return end(t, PW_STR("action.completed"));
}

static pw_status tell_repaired(telling *t)
{
    begin_with_head(t);
    pw_view_put(&t->writer, "repairs", pw_json_get(t->body, "repairs"), t->arena);
    return end(t, PW_STR("transcript.repaired"));
}

static pw_status tell_ended(telling *t)
{
    begin(t);
    PW_TRY(pw_view_ended_members(t->record, t->session, true, t->arena, &t->writer, t->error));
    pw_str state = pw_json_text(pw_json_get(t->body, "state"));
    char *name = pw_arena_bytes(t->arena, sizeof("turn.") + state.len);
    if (!name) {
        return PW_NOMEM;
    }
    memcpy(name, "turn.", 5);
    memcpy(name + 5, state.ptr, state.len);
    return end(t, (pw_str){name, 5 + state.len});
}

static pw_status tell(telling *t)
{
    switch (t->record->kind) {
    case PW_RECORD_TURN_OPENED:
        return tell_opened(t);
    case PW_RECORD_ATTEMPT_STARTED:
        return tell_attempt(t);
    case PW_RECORD_MODEL_COMPLETED:
        return tell_reply(t);
    case PW_RECORD_MODEL_DISCARDED:
        return tell_discarded(t);
    case PW_RECORD_MODEL_RETRYING:
        return tell_retrying(t);
    case PW_RECORD_WAIT_SET:
        return tell_waiting(t);
    case PW_RECORD_MODEL_FALLBACK:
        return tell_fallback(t);
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TOOL_LATE:
        return PW_OK;
    case PW_RECORD_TOOL_COMPLETED:
        return tell_action(t);
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        return tell_repaired(t);
    case PW_RECORD_TURN_ENDED:
        return tell_ended(t);
    }
    return PW_FAIL(t->error, PW_CORRUPT, "record %llu is of a kind nobody knows",
                   (unsigned long long)t->record->seq);
}

static pw_status number(telling *t)
{
    for (size_t i = 0; i < t->count; i++) {
        char text[48];
        size_t len = i + 1 < t->count ? pw_format(text, sizeof(text), "%llu-%zu",
                                                  (unsigned long long)t->record->seq, i + 1)
                                      : pw_format(text, sizeof(text), "%llu",
                                                  (unsigned long long)t->record->seq);
        PW_TRY(pw_arena_dup(t->arena, (pw_str){text, len}, &t->events[i].id));
    }
    return PW_OK;
}

static bool tells_nothing(pw_record_kind kind)
{
    return kind == PW_RECORD_MODEL_ACCEPTED || kind == PW_RECORD_TOOL_STARTED ||
           kind == PW_RECORD_TOOL_LATE;
}

pw_status pw_event_tell(const pw_record *record, pw_str session_name, pw_arena *arena,
                        const pw_event_out **ret, size_t *ret_count, pw_error *error)
{
    telling t = {.record = record, .session = session_name, .arena = arena, .error = error};
    if (tells_nothing(record->kind)) {
        *ret = NULL;
        *ret_count = 0;
        return PW_OK;
    }
    PW_TRY(pw_view_body(record, arena, &t.body, error));
    const pw_json *parts = pw_json_get(t.body, "parts");
    t.capacity = 1 + (pw_json_is(parts, PW_JSON_ARRAY) ? parts->count : 0);
    t.events = PW_NEW_ARRAY(arena, pw_event_out, t.capacity);
    if (!t.events) {
        return PW_NOMEM;
    }
    PW_TRY(tell(&t));
    PW_TRY(number(&t));
    *ret = t.events;
    *ret_count = t.count;
    return PW_OK;
}

/* --- Cursors --- */

static bool plain_number(pw_str text, uint64_t *ret)
{
    return text.len > 0 && text.ptr[0] != '-' && text.ptr[0] != '+' && pw_str_u64(text, ret);
}

pw_status pw_cursor_parse(pw_str text, pw_cursor *ret, pw_error *error)
{
    pw_cursor c = {0};
    if (text.len == 0) {
        *ret = c;
        return PW_OK;
    }
    size_t mark = 0;
    while (mark < text.len && text.ptr[mark] != '-' && text.ptr[mark] != '.') {
        mark++;
    }
    uint64_t rest = 0;
    bool good = plain_number(pw_str_slice(text, 0, mark), &c.seq);
    if (good && mark < text.len) {
        good = plain_number(pw_str_slice(text, mark + 1, text.len), &rest);
        if (good && text.ptr[mark] == '-') {
            good = c.seq > 0 && rest > 0 && rest <= UINT32_MAX;
            c.seq -= good ? 1 : 0;
            c.index = (uint32_t)rest;
        } else {
            c.bytes = rest;
        }
    }
    if (!good) {
        return PW_FAIL(
            error, PW_INVALID,
            "cursor: \"%.*s\" is none; the id of an event received is, or 0 for everything",
            text.len > 60 ? 60 : (int)text.len, text.ptr);
    }
    *ret = c;
    return PW_OK;
}
