/*
 * The Message of HTTP.md: what a record added to the conversation, for people and programs to read.
 *
 * Provider-bound bytes (signatures, encrypted reasoning) never leave through here.
 */
#include "core/view_inner.h"

pw_status pw_view_reply_text(const pw_json *parts, pw_arena *arena, pw_str *ret)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, PW_VIEW_MAXIMUM);
    for (const pw_json *p = parts ? parts->child : NULL; p; p = p->next) {
        pw_str type = pw_json_text(pw_json_get(p, "type"));
        if (pw_str_is(type, "text") || pw_str_is(type, "refusal")) {
            (void)pw_buffer_add(&text, pw_json_text(pw_json_get(p, "text")));
        }
    }
    *ret = text.len > 0 ? pw_buffer_str(&text) : PW_STR("");
    return text.failed;
}

const pw_json *pw_view_error_of(const pw_json *result)
{
    const pw_json *said = pw_json_get(result, "error");
    return said && result->count == 1 ? said : result;
}

static void message_head(pw_json_writer *w, const pw_record *record, int64_t n)
{
    pw_json_object(w);
    pw_json_key(w, "n");
    if (n > 0) {
        pw_json_integer(w, n);
    } else {
        pw_json_nothing(w);
    }
    pw_json_put_i64(w, "seq", (int64_t)record->seq);
    pw_json_put_time(w, "at", record->at_ms);
    pw_json_put_str(w, "turn", record->turn);
    if (record->step.len > 0) {
        pw_json_put_str(w, "step", record->step);
    }
}

/* One part as a reader sees it; the provider's own bytes stay in the journal. */
static void part_write(pw_json_writer *w, const pw_json *part, pw_arena *scratch)
{
    pw_str type = pw_json_text(pw_json_get(part, "type"));
    pw_json_object(w);
    pw_json_put_str(w, "type", type);
    if (pw_str_is(type, "tool_call")) {
        pw_view_put(w, "call", pw_json_get(part, "call"), scratch);
        pw_view_put(w, "name", pw_json_get(part, "name"), scratch);
        pw_view_put(w, "arguments", pw_json_get(part, "arguments"), scratch);
        if (pw_json_get(part, "broken")) {
            pw_view_put(w, "broken", pw_json_get(part, "broken"), scratch);
        }
    } else if (pw_json_get(part, "text")) {
        pw_view_put(w, "text", pw_json_get(part, "text"), scratch);
    }
    pw_json_object_end(w);
}

static void request_write(pw_json_writer *w, const pw_json *request, pw_arena *scratch)
{
    pw_json_object(w);
    pw_view_put(w, "id", pw_json_get(request, "id"), scratch);
    pw_view_put_time(w, "at", pw_json_get(request, "at"));
    pw_view_put(w, "source", pw_json_get(request, "source"), scratch);
    pw_view_put(w, "user", pw_json_get(request, "user"), scratch);
    if (pw_json_get(request, "metadata")) {
        pw_view_put(w, "metadata", pw_json_get(request, "metadata"), scratch);
    }
    pw_json_object_end(w);
}

/* A claim of several requests is one message: its content is theirs in order, as they gave it. */
static void opened_write(pw_json_writer *w, const pw_record *record, const pw_json *body,
                         pw_arena *scratch)
{
    const pw_json *requests = pw_json_get(body, "requests");
    pw_str role = pw_json_text(pw_json_get(pw_json_at(requests, 0), "role"));
    message_head(w, record, pw_json_i64_or(pw_json_get(body, "n"), 0));
    pw_json_put_str(w, "role", role.len > 0 ? role : PW_STR("user"));
    pw_json_key(w, "content");
    pw_json_array(w);
    for (const pw_json *r = requests ? requests->child : NULL; r; r = r->next) {
        const pw_json *content = pw_json_get(r, "content");
        for (const pw_json *p = content ? content->child : NULL; p; p = p->next) {
            pw_buffer clean;
            pw_buffer_init_arena(&clean, scratch, PW_VIEW_MAXIMUM);
            if (pw_json_clean(&clean, p) == PW_OK) {
                pw_json_raw(w, pw_buffer_str(&clean));
            } else {
                w->out->failed = clean.failed;
            }
        }
    }
    pw_json_array_end(w);
    pw_json_key(w, "requests");
    pw_json_array(w);
    for (const pw_json *r = requests ? requests->child : NULL; r; r = r->next) {
        request_write(w, r, scratch);
    }
    pw_json_array_end(w);
    pw_json_object_end(w);
}

static void reply_write(pw_json_writer *w, const pw_record *record, const pw_json *body,
                        pw_arena *scratch)
{
    const pw_json *parts = pw_json_get(body, "parts");
    if (!parts || parts->count == 0) {
        return;
    }
    message_head(w, record, pw_json_i64_or(pw_json_get(body, "n"), 0));
    pw_json_put_str(w, "role", PW_STR("assistant"));
    pw_json_put_bool(w, "partial", false);
    pw_json_key(w, "content");
    pw_json_array(w);
    for (const pw_json *p = parts->child; p; p = p->next) {
        part_write(w, p, scratch);
    }
    pw_json_array_end(w);
    pw_json_object_end(w);
}

static void result_write(pw_json_writer *w, const pw_record *record, const pw_json *body, int64_t n,
                         pw_arena *scratch)
{
    message_head(w, record, n);
    pw_json_put_str(w, "role", PW_STR("tool"));
    pw_json_key(w, "content");
    pw_json_array(w);
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("tool_result"));
    pw_view_put(w, "call", pw_json_get(body, "call"), scratch);
    pw_view_put(w, "result", pw_json_get(body, "result"), scratch);
    pw_json_put_bool(w, "is_error", pw_json_true(pw_json_get(body, "is_error")));
    pw_json_object_end(w);
    pw_json_array_end(w);
    pw_json_object_end(w);
}

/* I7: a cancelled turn keeps the text so far; no model is sent it, so it has no number. */
static void partial_write(pw_json_writer *w, const pw_record *record, const pw_json *body)
{
    pw_str text = pw_json_text(pw_json_get(body, "text"));
    if (!pw_str_is(pw_json_text(pw_json_get(body, "state")), "cancelled") || text.len == 0) {
        return;
    }
    message_head(w, record, 0);
    pw_json_put_str(w, "role", PW_STR("assistant"));
    pw_json_put_bool(w, "partial", true);
    pw_json_key(w, "content");
    pw_json_array(w);
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("text"));
    pw_json_put_str(w, "text", text);
    pw_json_object_end(w);
    pw_json_array_end(w);
    pw_json_object_end(w);
}

pw_status pw_view_message_json(const pw_record *record, int64_t tool_n, pw_arena *scratch,
                               pw_json_writer *w, pw_error *error)
{
    const pw_json *body;
    switch (record->kind) {
    case PW_RECORD_TURN_OPENED:
        PW_TRY(pw_view_body(record, scratch, &body, error));
        opened_write(w, record, body, scratch);
        break;
    case PW_RECORD_MODEL_COMPLETED:
        PW_TRY(pw_view_body(record, scratch, &body, error));
        reply_write(w, record, body, scratch);
        break;
    case PW_RECORD_TOOL_COMPLETED:
        PW_TRY(pw_view_body(record, scratch, &body, error));
        result_write(w, record, body, tool_n, scratch);
        break;
    case PW_RECORD_TURN_ENDED:
        PW_TRY(pw_view_body(record, scratch, &body, error));
        partial_write(w, record, body);
        break;
    case PW_RECORD_ATTEMPT_STARTED:
    case PW_RECORD_MODEL_DISCARDED:
    case PW_RECORD_MODEL_RETRYING:
    case PW_RECORD_WAIT_SET:
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_MODEL_FALLBACK:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TOOL_LATE:
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        break;
    }
    return w->out->failed;
}
