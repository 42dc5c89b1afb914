/* Sessions, their messages' dispositions, and agents, as pawl_read answers them (A7, M5, N4: what a
 * list costs does not grow with history). */
#include "runtime/read_inner.h"

#include "runtime/loop.h" /* pw_agent_find */

/* --- Shared --- */

pw_status pw_last_turn(pawl *p, const pw_session_row *row, pw_arena *arena, pw_turn_row *ret,
                       bool *ret_found, pw_error *error)
{
    *ret_found = false;
    if (row->last_seq == 0) {
        return PW_OK;
    }
    pw_op last = {
        .kind = PW_OP_RECORDS,
        .records = {.session_id = row->id, .from_seq = row->last_seq, .to_seq = row->last_seq}};
    PW_TRY(pw_read_op(p, &last, arena, error));
    if (last.records.count == 0) {
        return PW_OK;
    }
    pw_op turn = {.kind = PW_OP_TURN,
                  .turn = {.session_id = row->id, .turn = last.records.records[0].turn}};
    pw_status status = pw_read_op(p, &turn, arena, error);
    if (status == PW_OK) {
        *ret = turn.turn.row;
        *ret_found = true;
    }
    return status == PW_NOT_FOUND ? PW_OK : status;
}

pw_status pw_queue_write(pawl *p, const pw_session_row *row, pw_json_writer *w, pw_arena *arena,
                         uint64_t *ret_looked_n, pw_error *error)
{
    pw_op op = {.kind = PW_OP_INBOX, .inbox = {.session_id = row->id, .limit = PW_PAGE_MAX}};
    PW_TRY(pw_read_op(p, &op, arena, error));
    int64_t position = 0;
    for (size_t i = 0; i < op.inbox.inbox.count; i++) {
        const pw_inbox_row *m = &op.inbox.inbox.rows[i];
        if (m->kind != PW_INBOX_MESSAGE) {
            continue;
        }
        pw_json_object(w);
        pw_json_put_str(w, "request_id", m->request_id);
        pw_json_put_str(w, "disposition", pw_str_from(pw_disposition_name(m->disposition)));
        pw_json_put_i64(w, "position", ++position);
        pw_json_put_time(w, "at", m->at_ms);
        pw_json_object_end(w);
    }
    if (ret_looked_n) {
        *ret_looked_n = op.inbox.inbox.looked_n;
    }
    return PW_OK;
}

/* --- A session --- */

static pw_status read_record(pw_question *q, const pw_session_row *row, uint64_t seq,
                             const pw_record **ret)
{
    pw_op op = {.kind = PW_OP_RECORDS,
                .records = {.session_id = row->id, .from_seq = seq, .to_seq = seq}};
    PW_TRY(pw_read_op(q->p, &op, q->arena, q->error));
    *ret = op.records.count > 0 ? op.records.records : NULL;
    return PW_OK;
}

/* Two records, however long the turn (N4). */
static pw_status write_usage(pw_question *q, const pw_session_row *row)
{
    pw_turn_row turn;
    bool found;
    const pw_record *opened = NULL, *ended = NULL;
    PW_TRY(pw_last_turn(q->p, row, q->arena, &turn, &found, q->error));
    if (found) {
        PW_TRY(read_record(q, row, turn.opened_seq, &opened));
    }
    if (found && turn.ended_seq > 0) {
        PW_TRY(read_record(q, row, turn.ended_seq, &ended));
    }
    pw_json_key(q->w, "usage");
    return pw_view_usage_json(opened, ended, q->arena, q->w, q->error);
}

static void write_owner(pw_question *q, const pw_session_row *row, const pw_owners_seen *owners)
{
    pw_json_key(q->w, "owner");
    if (row->owner.len == 0) {
        pw_json_nothing(q->w);
        return;
    }
    const pw_owner_seen *owner = pw_owner_of(owners, row->owner);
    pw_json_object(q->w);
    pw_json_put_str(q->w, "id", row->owner);
    pw_json_put_bool(q->w, "alive", owner && owner->alive);
    pw_json_put_str(q->w, "address", owner ? owner->address : PW_STR_NONE);
    pw_json_put_time(q->w, "beat_at", owner ? owner->at_ms : -1);
    pw_json_object_end(q->w);
}

static pw_status write_session(pw_question *q, const pw_session_row *row,
                               const pw_owners_seen *owners)
{
    pw_json_writer *w = q->w;
    pw_standing standing;
    PW_TRY(pw_stand(q->p, row, owners, q->arena, &standing, q->error));
    pw_json_object(w);
    pw_json_put_str(w, "id", row->name);
    pw_json_put_str(w, "uid", row->uid);
    pw_json_put_str(w, "agent", row->agent);
    pw_json_put_str(w, "status", standing.state);
    pw_json_put_str(w, "reason", standing.reason.len > 0 ? standing.reason : PW_STR_NONE);
    pw_json_put_time(w, "since", standing.since_ms);
    pw_json_put_i64(w, "generation", row->generation);
    pw_json_put_str(w, "turn", row->turn.len > 0 ? row->turn : PW_STR_NONE);
    pw_json_key(w, "queue");
    pw_json_array(w);
    PW_TRY(pw_queue_write(q->p, row, w, q->arena, NULL, q->error));
    pw_json_array_end(w);
    pw_json_put_raw(w, "inputs", PW_STR("[]"));
    write_owner(q, row, owners);
    PW_TRY(write_usage(q, row));
    pw_json_put_raw(w, "metadata", PW_STR("{}"));
    pw_json_put_time(w, "created_at", row->created_at_ms);
    pw_json_object_end(w);
    return PW_OK;
}

pw_status pw_answer_session(pw_question *q)
{
    pw_owners_seen owners;
    PW_TRY(pw_owners_look(q->p, q->arena, &owners, q->error));
    return write_session(q, &q->row, &owners);
}

/* --- The list: its cursor is the last name, as base64url --- */

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static pw_status encode64(pw_arena *arena, pw_str from, pw_str *ret)
{
    char *to = pw_arena_bytes(arena, from.len / 3 * 4 + 8);
    if (!to) {
        return PW_NOMEM;
    }
    size_t len = 0;
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < from.len; i++) {
        bits = bits << 8 | (unsigned char)from.ptr[i];
        for (held += 8; held >= 6; held -= 6) {
            to[len++] = digits64[bits >> (held - 6) & 63];
        }
    }
    if (held > 0) {
        to[len++] = digits64[bits << (6 - held) & 63];
    }
    *ret = (pw_str){to, len};
    return PW_OK;
}

static bool decode64(pw_arena *arena, pw_str from, pw_str *ret)
{
    char *to = pw_arena_bytes(arena, from.len + 1);
    size_t len = 0;
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; to && i < from.len; i++) {
        const char *at = from.ptr[i] ? memchr(digits64, from.ptr[i], sizeof(digits64) - 1) : NULL;
        if (!at) {
            return false;
        }
        bits = bits << 6 | (uint32_t)(at - digits64);
        held += 6;
        if (held >= 8) {
            held -= 8;
            to[len++] = (char)(bits >> held & 255);
        }
    }
    *ret = (pw_str){to, len};
    return to && held < 6 && (bits & ((1u << held) - 1)) == 0;
}

static bool is_status(pw_str status)
{
    static const char *const all[] = {"idle",    "queued",    "running",
                                      "waiting", "suspended", "quarantined"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (pw_str_is(status, all[i])) {
            return true;
        }
    }
    return false;
}

pw_status pw_answer_sessions(pw_question *q)
{
    pw_op op = {.kind = PW_OP_SESSIONS,
                .sessions = {.principal = q->p->principal,
                             .status = pw_question_parameter(q, "status"),
                             .agent = pw_question_parameter(q, "agent"),
                             .limit = q->limit + 1}};
    pw_str cursor = pw_question_parameter(q, "cursor");
    if (op.sessions.status.len > 0 && !is_status(op.sessions.status)) {
        return PW_FAIL(
            q->error, PW_INVALID,
            "status: is not one of idle, queued, running, waiting, suspended, quarantined");
    }
    if (cursor.ptr && !decode64(q->arena, cursor, &op.sessions.after_name)) {
        return PW_FAIL(q->error, PW_INVALID, "cursor: is not one of this list; next_cursor is");
    }
    PW_TRY(pw_read_op(q->p, &op, q->arena, q->error));
    pw_owners_seen owners;
    PW_TRY(pw_owners_look(q->p, q->arena, &owners, q->error));
    bool more = op.sessions.count > q->limit;
    size_t count = more ? q->limit : op.sessions.count;
    pw_page_begin(q);
    for (size_t i = 0; i < count; i++) {
        PW_TRY(write_session(q, &op.sessions.rows[i], &owners));
    }
    pw_str next = PW_STR_NONE;
    if (more) {
        PW_TRY(encode64(q->arena, op.sessions.rows[count - 1].name, &next));
    }
    pw_page_end(q, next);
    return PW_OK;
}

/* --- One message by its request id --- */

static pw_status write_turn_of(pawl *p, const pw_submitted *what, pw_arena *arena,
                               pw_json_writer *w, pw_error *error)
{
    const pw_str id = what->message->turn;
    pw_buffer turn;
    pw_buffer_init_arena(&turn, arena, PW_ANSWER_MAX);
    PW_TRY(what->summed ? pw_read_turn(p, what->row, id, arena, &turn, error)
                        : pw_read_turn_ends(p, what->row, id, arena, &turn, error));
    pw_json_raw(w, pw_buffer_str(&turn));
    return PW_OK;
}

pw_status pw_write_submitted(pawl *p, const pw_submitted *what, pw_arena *arena, pw_json_writer *w,
                             pw_error *error)
{
    const pw_message_row *m = what->message;
    pw_json_object(w);
    pw_json_put_str(w, "submitted", pw_str_from(what->submitted));
    pw_json_put_str(w, "request_id", m->request_id);
    pw_json_put_str(w, "session", what->row->name);
    pw_json_put_str(w, "disposition", pw_str_from(pw_disposition_name(m->disposition)));
    pw_json_key(w, "position");
    if (m->disposition == PW_PENDING) {
        pw_json_integer(w, m->position);
    } else {
        pw_json_nothing(w);
    }
    pw_json_key(w, "turn");
    if (m->turn.len > 0) {
        PW_TRY(write_turn_of(p, what, arena, w, error));
    } else {
        pw_json_nothing(w);
    }
    pw_json_object_end(w);
    return w->out->failed;
}

pw_status pw_answer_message(pw_question *q)
{
    pw_op op = {.kind = PW_OP_MESSAGE,
                .message = {.session_id = q->row.id, .request_id = q->part[3]}};
    pw_status status = pw_read_op(q->p, &op, q->arena, q->error);
    if (status == PW_NOT_FOUND) {
        return PW_FAIL(q->error, PW_NOT_FOUND, "the session has no message with that request id");
    }
    PW_TRY(status);
    const pw_submitted what = {&q->row, &op.message.row, "existing", .summed = true};
    return pw_write_submitted(q->p, &what, q->arena, q->w, q->error);
}

/* --- Agents
 * ------------------------------------------------------------------------------------------------------
 */

static void write_agent(pw_question *q, const pw_agent *a)
{
    pw_json_writer *w = q->w;
    const pw_definition *d = a->definition;
    pw_json_object(w);
    pw_json_put_str(w, "name", a->name);
    pw_json_put_str(w, "hash", pw_str_from(d->hash.text));
    pw_json_put_str(w, "provider", d->models[0].provider);
    pw_json_put_str(w, "model", d->models[0].name);
    pw_json_key(w, "fallback");
    pw_json_array(w);
    for (size_t i = 1; i < d->model_count; i++) {
        pw_json_object(w);
        pw_json_put_str(w, "provider", d->models[i].provider);
        pw_json_put_str(w, "model", d->models[i].name);
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
    pw_json_key(w, "tools");
    pw_json_array(w);
    for (size_t i = 0; i < d->tool_count; i++) {
        const pw_tool_declaration *t = &d->tools[i];
        pw_json_object(w);
        pw_json_put_str(w, "name", t->name);
        pw_json_put_str(w, "kind", t->kind);
        pw_json_put_str(w, "effects", pw_str_from(pw_effects_name(t->effects)));
        pw_json_put_str(w, "description", t->description.len > 0 ? t->description : PW_STR(""));
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
    pw_json_object_end(w);
}

pw_status pw_answer_agents(pw_question *q)
{
    uint64_t from;
    PW_TRY(pw_cursor_number(q, &from));
    size_t i = from < q->p->agent_count ? (size_t)from : q->p->agent_count;
    size_t end = q->p->agent_count - i > q->limit ? i + q->limit : q->p->agent_count;
    pw_page_begin(q);
    for (; i < end; i++) {
        write_agent(q, q->p->agents[i]);
    }
    pw_buffer next;
    pw_buffer_init_arena(&next, q->arena, 32);
    if (end < q->p->agent_count) {
        PW_TRY(pw_buffer_u64(&next, end));
    }
    pw_page_end(q, next.len > 0 ? pw_buffer_str(&next) : PW_STR_NONE);
    return PW_OK;
}

pw_status pw_answer_agent(pw_question *q)
{
    for (size_t i = 0; i < q->p->agent_count; i++) {
        if (pw_str_equal(q->p->agents[i]->name, q->part[1])) {
            write_agent(q, q->p->agents[i]);
            return PW_OK;
        }
    }
    return PW_FAIL(q->error, PW_NOT_FOUND, "this process has no such agent");
}
