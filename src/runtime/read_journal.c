/*
 * Turns, steps, the transcript and stored events, as pawl_read answers them: pages cut out of the
 * journal. It holds one page of records at a time, never a history.
 */
#include "runtime/read_inner.h"

#include "core/event.h"

#define RECORDS_AT_A_TIME 128
#define LATE_WINDOW 256 /* how far behind a turn's end evidence of it is looked for (D8) */

/* --- Turns --- */

/* How much of a turn is read: its first record and its last, when it ended; so, but all of an open
 * one; all, and what may stand behind its end. */
typedef enum turn_depth { TURN_ENDS, TURN_SUMS, TURN_WHOLE } turn_depth;

static pw_status read_all(pawl *p, const pw_session_row *row, const pw_turn_row *turn,
                          uint64_t extra, pw_arena *arena, pw_view_turn *ret, pw_error *error)
{
    pw_op op = {.kind = PW_OP_RECORDS,
                .records = {.session_id = row->id,
                            .from_seq = turn->opened_seq,
                            .to_seq = turn->ended_seq > 0 ? turn->ended_seq + extra : 0,
                            .turn = turn->turn}};
    PW_TRY(pw_read_op(p, &op, arena, error));
    ret->records = op.records.records;
    ret->count = op.records.count;
    return PW_OK;
}

static pw_status read_ends(pawl *p, const pw_session_row *row, const pw_turn_row *turn,
                           pw_arena *arena, pw_view_turn *ret, pw_error *error)
{
    uint64_t at[2] = {turn->opened_seq, turn->ended_seq};
    pw_record *records = PW_NEW_ARRAY(arena, pw_record, 2);
    if (!records) {
        return PW_NOMEM;
    }
    ret->records = records;
    for (size_t i = 0; i < 2 && at[i] > 0; i++) {
        pw_op op = {.kind = PW_OP_RECORDS,
                    .records = {.session_id = row->id, .from_seq = at[i], .to_seq = at[i]}};
        PW_TRY(pw_read_op(p, &op, arena, error));
        if (op.records.count > 0) {
            records[ret->count++] = op.records.records[0];
        }
    }
    return PW_OK;
}

/* A turn with its records and, while it is open, the session's standing. */
static pw_status view_of(pawl *p, const pw_session_row *row, const pw_turn_row *turn,
                         turn_depth depth, pw_arena *arena, pw_view_turn *ret, pw_error *error)
{
    bool open = turn->ended_seq == 0;
    *ret = (pw_view_turn){
        .session = row->name, .first_only = depth == TURN_ENDS, .row_state = turn->state};
    if (depth == TURN_WHOLE || (depth == TURN_SUMS && open)) {
        PW_TRY(read_all(p, row, turn, depth == TURN_WHOLE ? LATE_WINDOW : 0, arena, ret, error));
    } else {
        PW_TRY(read_ends(p, row, turn, arena, ret, error));
    }
    if (open && pw_str_equal(row->turn, turn->turn)) {
        pw_owners_seen owners;
        pw_standing standing;
        PW_TRY(pw_owners_look(p, arena, &owners, error));
        PW_TRY(pw_stand(p, row, &owners, arena, &standing, error));
        ret->row_state = row->state;
        ret->row_reason = standing.reason;
        ret->row_since_ms = standing.reason.len > 0 ? standing.since_ms : 0;
    }
    return PW_OK;
}

static pw_status find_turn(pawl *p, const pw_session_row *row, pw_str turn, pw_arena *arena,
                           pw_turn_row *ret, pw_error *error)
{
    pw_op op = {.kind = PW_OP_TURN, .turn = {.session_id = row->id, .turn = turn}};
    pw_status status = pw_read_op(p, &op, arena, error);
    if (status == PW_NOT_FOUND) {
        return PW_FAIL(error, PW_NOT_FOUND, "the session has no such turn");
    }
    if (status == PW_OK) {
        *ret = op.turn.row;
    }
    return status;
}

static pw_status read_turn(pawl *p, const pw_session_row *row, const pw_turn_row *turn,
                           turn_depth depth, pw_arena *arena, pw_buffer *ret, pw_error *error)
{
    pw_view_turn view;
    PW_TRY(view_of(p, row, turn, depth, arena, &view, error));
    return pw_view_turn_json(&view, arena, ret, error);
}

pw_status pw_read_turn(pawl *p, const pw_session_row *row, pw_str turn, pw_arena *arena,
                       pw_buffer *ret, pw_error *error)
{
    pw_turn_row found;
    PW_TRY(find_turn(p, row, turn, arena, &found, error));
    return read_turn(p, row, &found, TURN_SUMS, arena, ret, error);
}

pw_status pw_read_turn_ends(pawl *p, const pw_session_row *row, pw_str turn, pw_arena *arena,
                            pw_buffer *ret, pw_error *error)
{
    pw_turn_row found;
    PW_TRY(find_turn(p, row, turn, arena, &found, error));
    return read_turn(p, row, &found, TURN_ENDS, arena, ret, error);
}

static pw_status write_turn(pw_question *q, const pw_turn_row *turn)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, q->arena, PW_ANSWER_MAX);
    PW_TRY(read_turn(q->p, &q->row, turn, TURN_SUMS, q->arena, &text, q->error));
    pw_json_raw(q->w, pw_buffer_str(&text));
    return PW_OK;
}

pw_status pw_answer_turn(pw_question *q)
{
    pw_turn_row turn;
    PW_TRY(find_turn(q->p, &q->row, q->part[3], q->arena, &turn, q->error));
    return write_turn(q, &turn);
}

static pw_status end_page_at(pw_question *q, bool more, uint64_t at)
{
    pw_buffer next;
    pw_buffer_init_arena(&next, q->arena, 64);
    if (more) {
        PW_TRY(pw_buffer_u64(&next, at));
    }
    pw_page_end(q, more ? pw_buffer_str(&next) : PW_STR_NONE);
    return PW_OK;
}

pw_status pw_answer_turns(pw_question *q)
{
    pw_op op = {.kind = PW_OP_TURNS, .turns = {.session_id = q->row.id, .limit = q->limit + 1}};
    PW_TRY(pw_cursor_number(q, &op.turns.after_seq));
    PW_TRY(pw_read_op(q->p, &op, q->arena, q->error));
    bool more = op.turns.count > q->limit;
    size_t count = more ? q->limit : op.turns.count;
    pw_page_begin(q);
    for (size_t i = 0; i < count; i++) {
        pw_arena_mark mark = pw_arena_mark_get(q->arena);
        PW_TRY(write_turn(q, &op.turns.rows[i]));
        pw_arena_rewind(q->arena, mark);
    }
    return end_page_at(q, more, more ? op.turns.rows[count - 1].opened_seq : 0);
}

/* The steps of a turn as a parsed array. */
static pw_status steps_of(pw_question *q, const pw_turn_row *turn, const pw_json **ret)
{
    pw_view_turn view;
    pw_buffer text;
    pw_buffer_init_arena(&text, q->arena, PW_ANSWER_MAX);
    PW_TRY(view_of(q->p, &q->row, turn, TURN_WHOLE, q->arena, &view, q->error));
    PW_TRY(pw_view_steps_json(&view, q->arena, &text, q->error));
    return pw_json_parse(q->arena, pw_buffer_str(&text), 0, ret, q->error);
}

pw_status pw_answer_steps(pw_question *q)
{
    pw_turn_row turn;
    const pw_json *steps;
    uint64_t from;
    PW_TRY(pw_cursor_number(q, &from));
    PW_TRY(find_turn(q->p, &q->row, q->part[3], q->arena, &turn, q->error));
    PW_TRY(steps_of(q, &turn, &steps));
    from = from < steps->count ? from : steps->count;
    pw_page_begin(q);
    uint64_t i = 0;
    for (const pw_json *s = steps->child; s; s = s->next, i++) {
        if (i >= from && i < from + q->limit) {
            pw_json_raw(q->w, s->raw);
        }
    }
    return end_page_at(q, i > from + q->limit, from + q->limit);
}

/* --- The transcript
 * ------------------------------------------------------------------------------------------ * A
 * group is a message and what answers it: results stand in the order of the calls (D3), which is
 * not the journal's. The cursor is `<seq of the group>-<messages of it already given>`. */

typedef struct group {
    const pw_record *head; /* turn.opened or model.completed */
    const pw_json *parts;  /* of an assistant message */
    int64_t n;
    const pw_record **results;
    size_t result_count, result_capacity;
} group;

typedef struct transcript {
    pw_question *q;
    group g;
    size_t skip; /* messages of the first group to leave out */
    size_t given;
    bool full;
    uint64_t next_seq;
    size_t next_index, index; /* index: of the message in its group */
    pw_str turns[PW_PAGE_MAX];
    size_t turn_count;
} transcript;

static void remember_turn(transcript *t, pw_str turn)
{
    if (t->turn_count == 0 || !pw_str_equal(t->turns[t->turn_count - 1], turn)) {
        if (t->turn_count < PW_PAGE_MAX) {
            t->turns[t->turn_count++] = turn;
        }
    }
}

static pw_status give(transcript *t, const pw_record *record, int64_t tool_n)
{
    size_t index = t->index++;
    if (t->full || index < t->skip) {
        return PW_OK;
    }
    size_t before = t->q->w->out->len;
    if (t->given == t->q->limit) {
        pw_buffer probe; /* is there a message at all? only then is there a next page */
        pw_json_writer w;
        pw_buffer_init_arena(&probe, t->q->arena, PW_ANSWER_MAX);
        pw_json_begin(&w, &probe);
        pw_json_array(&w);
        PW_TRY(pw_view_message_json(record, tool_n, t->q->arena, &w, t->q->error));
        t->full = probe.len > 1;
        t->next_seq = t->g.head ? t->g.head->seq : record->seq;
        t->next_index = index;
        return PW_OK;
    }
    PW_TRY(pw_view_message_json(record, tool_n, t->q->arena, t->q->w, t->q->error));
    if (t->q->w->out->len > before) {
        t->given++;
        remember_turn(t, record->turn);
    }
    return PW_OK;
}

static const pw_record *result_of(const group *g, pw_str call)
{
    for (size_t i = 0; i < g->result_count; i++) {
        pw_str step = g->results[i]->step; /* tool:<n>:<call> */
        if (step.len > call.len && pw_str_ends(step, call) &&
            step.ptr[step.len - call.len - 1] == ':') {
            return g->results[i];
        }
    }
    return NULL;
}

static pw_status flush(transcript *t)
{
    group *g = &t->g;
    if (!g->head) {
        return PW_OK;
    }
    t->index = 0;
    PW_TRY(give(t, g->head, 0));
    int64_t n = g->n;
    for (const pw_json *p = g->parts ? g->parts->child : NULL; p; p = p->next) {
        if (!pw_str_is(pw_json_text(pw_json_get(p, "type")), "tool_call")) {
            continue;
        }
        n++;
        const pw_record *result = result_of(g, pw_json_text(pw_json_get(p, "call")));
        if (result) {
            PW_TRY(give(t, result, n));
        } else {
            t->index++;
        }
    }
    *g = (group){0};
    t->skip = 0;
    return PW_OK;
}

static pw_status add_result(transcript *t, const pw_record *r)
{
    group *g = &t->g;
    if (g->result_count == g->result_capacity) {
        size_t capacity = g->result_capacity > 0 ? g->result_capacity * 2 : 8;
        const pw_record **bigger = pw_arena_array(t->q->arena, capacity, sizeof(*bigger));
        if (!bigger) {
            return PW_NOMEM;
        }
        if (g->result_count > 0) {
            memcpy(bigger, g->results, g->result_count * sizeof(*bigger));
        }
        g->results = bigger;
        g->result_capacity = capacity;
    }
    g->results[g->result_count++] = r;
    return PW_OK;
}

static pw_status on_transcript_record(transcript *t, const pw_record *r)
{
    const pw_json *body;
    switch (r->kind) {
    case PW_RECORD_TURN_OPENED:
    case PW_RECORD_MODEL_COMPLETED:
        PW_TRY(flush(t));
        PW_TRY(pw_json_parse(t->q->arena, r->body, 0, &body, NULL));
        t->g = (group){.head = r, .n = pw_json_i64_or(pw_json_get(body, "n"), 0)};
        t->g.parts = r->kind == PW_RECORD_MODEL_COMPLETED ? pw_json_get(body, "parts") : NULL;
        return PW_OK;
    case PW_RECORD_TOOL_COMPLETED:
        return add_result(t, r);
    case PW_RECORD_TURN_ENDED:
        PW_TRY(flush(t));
        t->index = 0;
        return give(t, r, 0);
    case PW_RECORD_ATTEMPT_STARTED:
    case PW_RECORD_MODEL_DISCARDED:
    case PW_RECORD_MODEL_RETRYING:
    case PW_RECORD_WAIT_SET:
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_MODEL_FALLBACK:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TOOL_LATE:
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        return PW_OK;
    }
    return PW_OK;
}

static pw_status parse_transcript_cursor(pw_question *q, uint64_t *ret_seq, size_t *ret_skip)
{
    pw_str cursor = pw_question_parameter(q, "cursor");
    *ret_seq = 1;
    *ret_skip = 0;
    if (!cursor.ptr) {
        return PW_OK;
    }
    size_t dash = pw_str_find(cursor, PW_STR("-"));
    uint64_t skip = 0;
    if (dash == SIZE_MAX || !pw_str_u64(pw_str_slice(cursor, 0, dash), ret_seq) ||
        !pw_str_u64(pw_str_slice(cursor, dash + 1, cursor.len), &skip) || *ret_seq == 0 ||
        skip > UINT32_MAX) {
        return PW_FAIL(q->error, PW_INVALID, "cursor: is not one of this list; next_cursor is");
    }
    *ret_skip = (size_t)skip;
    return PW_OK;
}

static pw_status write_steps_of_page(transcript *t)
{
    pw_question *q = t->q;
    pw_json_key(q->w, "steps");
    pw_json_array(q->w);
    for (size_t i = 0; i < t->turn_count; i++) {
        pw_turn_row turn;
        const pw_json *steps;
        PW_TRY(find_turn(q->p, &q->row, t->turns[i], q->arena, &turn, q->error));
        PW_TRY(steps_of(q, &turn, &steps));
        for (const pw_json *s = steps->child; s; s = s->next) {
            pw_json_raw(q->w, s->raw);
        }
    }
    pw_json_array_end(q->w);
    return PW_OK;
}

static pw_status read_transcript(transcript *t, uint64_t from)
{
    pw_question *q = t->q;
    while (!t->full) {
        pw_op op = {
            .kind = PW_OP_RECORDS,
            .records = {.session_id = q->row.id, .from_seq = from, .limit = RECORDS_AT_A_TIME}};
        PW_TRY(pw_read_op(q->p, &op, q->arena, q->error));
        for (size_t i = 0; i < op.records.count && !t->full; i++) {
            PW_TRY(on_transcript_record(t, &op.records.records[i]));
        }
        if (op.records.count < RECORDS_AT_A_TIME) {
            break;
        }
        from = op.records.records[op.records.count - 1].seq + 1;
    }
    return t->full ? PW_OK : flush(t);
}

pw_status pw_answer_messages(pw_question *q)
{
    pw_str include = pw_question_parameter(q, "include");
    if (include.ptr && !pw_str_is(include, "steps")) {
        return PW_FAIL(q->error, PW_INVALID, "include: is not steps");
    }
    transcript *t = PW_NEW(q->arena, transcript);
    if (!t) {
        return PW_NOMEM;
    }
    uint64_t from;
    t->q = q;
    PW_TRY(parse_transcript_cursor(q, &from, &t->skip));
    pw_page_begin(q);
    PW_TRY(read_transcript(t, from));
    pw_json_array_end(q->w);
    if (include.ptr) {
        PW_TRY(write_steps_of_page(t));
    }
    pw_buffer next;
    pw_buffer_init_arena(&next, q->arena, 64);
    if (t->full) {
        PW_TRY(pw_buffer_format(&next, "%llu-%zu", (unsigned long long)t->next_seq, t->next_index));
    }
    pw_json_put_str(q->w, "next_cursor", t->full ? pw_buffer_str(&next) : PW_STR_NONE);
    pw_json_object_end(q->w);
    return PW_OK;
}

/* --- Stored events --- */

static void write_event(pw_json_writer *w, pw_str id, pw_str name, pw_str data)
{
    pw_json_object(w);
    pw_json_put_str(w, "id", id);
    pw_json_put_str(w, "event", name);
    pw_json_put_raw(w, "data", data);
    pw_json_object_end(w);
}

static pw_status write_resync(pw_question *q)
{
    pw_buffer data;
    pw_json_writer w;
    pw_buffer_init_arena(&data, q->arena, 4096);
    pw_json_begin(&w, &data);
    pw_json_object(&w);
    pw_json_put_str(&w, "session", q->row.name);
    pw_json_put_str(&w, "turn", PW_STR_NONE);
    pw_json_put_time(&w, "at", pw_now_ms());
    pw_json_object_end(&w);
    PW_TRY(data.failed);
    write_event(q->w, PW_STR_NONE, PW_STR("resync"), pw_buffer_str(&data));
    return PW_OK;
}

/* Events of one page; `*ret_last`: the id of the last one written, when more are stored behind it.
 */
static pw_status write_events(pw_question *q, pw_cursor cursor, pw_str *ret_last)
{
    size_t given = 0;
    pw_str last = PW_STR_NONE;
    for (uint64_t from = cursor.seq + 1;;) {
        pw_op op = {.kind = PW_OP_RECORDS,
                    .records = {.session_id = q->row.id, .from_seq = from, .limit = q->limit}};
        PW_TRY(pw_read_op(q->p, &op, q->arena, q->error));
        for (size_t i = 0; i < op.records.count; i++) {
            const pw_event_out *events;
            size_t count;
            PW_TRY(pw_event_tell(&op.records.records[i], q->row.name, q->arena, &events, &count,
                                 q->error));
            bool resumes = op.records.records[i].seq == cursor.seq + 1;
            for (size_t j = resumes ? cursor.index : 0; j < count; j++) {
                if (given++ == q->limit) {
                    *ret_last = last;
                    return PW_OK;
                }
                write_event(q->w, events[j].id, events[j].name, events[j].data);
                last = events[j].id;
            }
        }
        if (op.records.count < q->limit) {
            return PW_OK;
        }
        from = op.records.records[op.records.count - 1].seq + 1;
    }
}

bool pw_cursor_beyond(const pw_cursor *cursor, uint64_t last_seq)
{
    return cursor->seq > last_seq || (cursor->index > 0 && cursor->seq >= last_seq);
}

pw_status pw_answer_events(pw_question *q)
{
    pw_cursor cursor;
    PW_TRY(pw_cursor_parse(pw_question_parameter(q, "after"), &cursor, q->error));
    pw_json_object(q->w);
    pw_json_key(q->w, "events");
    pw_json_array(q->w);
    if (pw_cursor_beyond(&cursor, q->row.last_seq)) {
        PW_TRY(write_resync(q));
        cursor = (pw_cursor){0};
    }
    pw_str last = PW_STR_NONE;
    PW_TRY(write_events(q, cursor, &last));
    pw_json_array_end(q->w);
    pw_json_put_str(q->w, "next_cursor", last);
    pw_json_object_end(q->w);
    return PW_OK;
}
