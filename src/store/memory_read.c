/*
 * The memory store's read operations: rows copied into the op's arena. They must change nothing
 * (J3) but an operation's results.
 */
#include "store/memory_table.h"

static pw_status no_memory(pw_error *error)
{
    return PW_FAIL(error, PW_NOMEM, "no memory for the result");
}

static pw_status not_found(pw_error *error, const char *what)
{
    return PW_FAIL(error, PW_NOT_FOUND, "there is no such %s", what);
}

pw_status mem_copy_session(pw_arena *arena, const mem_session *s, pw_session_row *ret)
{
    pw_session_row row = {.id = s->id,
                          .generation = s->generation,
                          .epoch = s->epoch,
                          .state = s->state,
                          .base_seq = s->base_seq,
                          .last_seq = s->records.count,
                          .wake_at_ms = s->wake_at_ms,
                          .admitted = s->inbox.count,
                          .crashes = s->crashes,
                          .quarantined = s->quarantined,
                          .owner_released = s->epoch > 0 && s->owner.text[0] == '\0',
                          .created_at_ms = s->created_at_ms,
                          .since_ms = s->since_ms};
    PW_TRY(pw_arena_dup(arena, s->uid, &row.uid));
    PW_TRY(pw_arena_dup(arena, s->principal, &row.principal));
    PW_TRY(pw_arena_dup(arena, s->name, &row.name));
    PW_TRY(pw_arena_dup(arena, s->agent, &row.agent));
    PW_TRY(pw_arena_dup(arena, pw_str_from(s->owner.text), &row.owner));
    PW_TRY(pw_arena_dup(arena, mem_text_str(&s->turn), &row.turn));
    PW_TRY(pw_arena_dup(arena, mem_text_str(&s->reason), &row.reason));
    *ret = row;
    return PW_OK;
}

static pw_disposition disposition_of(const mem_row *row)
{
    bool ended = row->disposition == PW_CLAIMED && row->turn != NULL && row->turn->ended_seq != 0;
    return ended ? PW_ANSWERED : row->disposition;
}

pw_status mem_copy_message(pw_arena *arena, const mem_row *row, pw_message_row *ret)
{
    pw_message_row copy = {
        .n = row->n, .at_ms = row->at_ms, .disposition = disposition_of(row), .position = 0};
    PW_TRY(pw_arena_dup(arena, row->request_id, &copy.request_id));
    PW_TRY(pw_arena_dup(arena, row->digest, &copy.digest));
    PW_TRY(pw_arena_dup(arena, (pw_str){row->body, row->body_len}, &copy.body));
    PW_TRY(pw_arena_dup(arena, row->turn != NULL ? row->turn->turn : PW_STR_NONE, &copy.turn));
    if (row->disposition == PW_PENDING && row->n > 0) {
        for (const mem_row *r = row; r != NULL; r = r->prev) {
            copy.position++;
        }
    }
    *ret = copy;
    return PW_OK;
}

static pw_status read_owners(mem_store *m, pw_op *op)
{
    op->owners.rows = pw_arena_array(op->arena, m->owner_count, sizeof(*op->owners.rows));
    if (op->owners.rows == NULL) {
        return no_memory(&op->error);
    }
    for (size_t i = 0; i < m->owner_count; i++) {
        const mem_owner *o = &m->owners[i];
        op->owners.rows[i].id = o->id;
        op->owners.rows[i].beat = o->beat;
        op->owners.rows[i].at_ms = o->at_ms;
        if (pw_arena_dup(op->arena, o->address, &op->owners.rows[i].address) != PW_OK) {
            return no_memory(&op->error);
        }
    }
    op->owners.count = m->owner_count;
    return PW_OK;
}

/* --- DUE */

static bool is_mine(const mem_session *s, const pw_op *op)
{
    return s->owner.text[0] != '\0' && mem_owner_same(&s->owner, &op->due.owner);
}

static bool due_free(const mem_store *m, const mem_session *s, const pw_op *op)
{
    return !s->quarantined && !is_mine(s, op) &&
           (s->owner.text[0] == '\0' || mem_owner_dead(m, s, op->due.dead, op->due.dead_count));
}

static bool of_agents(const mem_session *s, const pw_op *op)
{
    for (size_t i = 0; i < op->due.agent_count; i++) {
        if (pw_str_equal(s->agent, op->due.agents[i])) {
            return true;
        }
    }
    return op->due.agent_count == 0;
}

static void next_wake(pw_op *op, const mem_session *s)
{
    if (op->due.next_wake_ms < 0 || s->wake_at_ms < op->due.next_wake_ms) {
        op->due.next_wake_ms = s->wake_at_ms;
    }
}

/* Walks the top of the heap: what is due is found without looking at what is not. The found ones
 * are put into the first half of scratch; the second half is the walk's own list. */
static size_t due_walk(mem_store *m, pw_op *op)
{
    if (m->heap.count == 0) {
        return 0; /* the lists may not be there yet */
    }
    mem_session **found = (mem_session **)m->scratch.items;
    mem_session **todo = found + m->sessions.count;
    size_t found_count = 0, todo_count = 0;
    todo[todo_count++] = m->heap.items[0];
    while (todo_count > 0) {
        mem_session *s = todo[--todo_count];
        bool later = s->wake_at_ms > op->due.now_ms;
        bool wanted = of_agents(s, op);
        if (later && wanted && !s->quarantined && !is_mine(s, op)) {
            next_wake(op, s);
            continue; /* those below it wake no earlier */
        }
        if (!later && wanted && due_free(m, s, op)) {
            found[found_count++] = s;
        }
        for (size_t child = 2 * s->heap_at + 1; child <= 2 * s->heap_at + 2; child++) {
            if (child < m->heap.count) {
                todo[todo_count++] = m->heap.items[child];
            }
        }
    }
    return found_count;
}

static bool due_before(const mem_session *a, const mem_session *b)
{
    return a->wake_at_ms != b->wake_at_ms ? a->wake_at_ms < b->wake_at_ms : a->id < b->id;
}

static void sift(mem_session **list, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && due_before(list[child], list[child + 1])) {
            child++;
        }
        if (!due_before(list[at], list[child])) {
            return;
        }
        mem_session *s = list[at];
        list[at] = list[child];
        list[child] = s;
    }
}

/* Heap sort: no memory, and the order of equals never depends on anything but the rows. */
static void due_sort(mem_session **list, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift(list, i - 1, count);
    }
    for (size_t end = count; end > 1; end--) {
        mem_session *s = list[0];
        list[0] = list[end - 1];
        list[end - 1] = s;
        sift(list, 0, end - 1);
    }
}

static pw_status copy_sessions(pw_op *op, mem_session *const *list, size_t count,
                               pw_session_row **ret)
{
    *ret = PW_NEW_ARRAY(op->arena, pw_session_row, count);
    if (*ret == NULL) {
        return no_memory(&op->error);
    }
    for (size_t i = 0; i < count; i++) {
        if (mem_copy_session(op->arena, list[i], &(*ret)[i]) != PW_OK) {
            return no_memory(&op->error);
        }
    }
    return PW_OK;
}

static pw_status read_due(mem_store *m, pw_op *op)
{
    size_t count = 0;
    if (op->due.session_id > 0) {
        mem_session *s = mem_session_by_id(m, op->due.session_id);
        if (s != NULL && s->wake_at_ms >= 0) {
            if (s->wake_at_ms <= op->due.now_ms && due_free(m, s, op)) {
                m->scratch.items[count++] = s;
            } else if (s->wake_at_ms > op->due.now_ms && !s->quarantined && !is_mine(s, op)) {
                next_wake(op, s);
            }
        }
    } else {
        count = due_walk(m, op);
        due_sort((mem_session **)m->scratch.items, count);
    }
    if (op->due.limit > 0 && count > op->due.limit) {
        count = op->due.limit;
    }
    PW_TRY(copy_sessions(op, (mem_session *const *)m->scratch.items, count, &op->due.rows));
    op->due.count = count;
    return PW_OK;
}

/* --- sessions */

static pw_status read_session(mem_store *m, pw_op *op)
{
    const mem_session *s = op->session.session_id != 0
                               ? mem_session_by_id(m, op->session.session_id)
                               : mem_session_find(m, op->session.principal, op->session.session);
    if (s == NULL) {
        return not_found(&op->error, "session");
    }
    if (mem_copy_session(op->arena, s, &op->session.row) != PW_OK) {
        return no_memory(&op->error);
    }
    return PW_OK;
}

static bool status_is(const mem_session *s, pw_str status)
{
    if (status.len == 0) {
        return true;
    }
    if (s->quarantined) {
        return pw_str_is(status, "quarantined");
    }
    if (s->turn.len == 0) {
        return pw_str_is(status, s->messages.count > 0 ? "queued" : "idle");
    }
    return pw_str_is(status, pw_turn_state_name(s->state));
}

static pw_status read_sessions(mem_store *m, pw_op *op)
{
    mem_session **found = (mem_session **)m->scratch.items;
    size_t count = 0;
    for (size_t i = 0; i < m->sessions.count; i++) {
        mem_session *s = m->sessions.items[i];
        if (!pw_str_equal(s->principal, op->sessions.principal) ||
            pw_str_compare(s->name, op->sessions.after_name) <= 0 ||
            (op->sessions.agent.len > 0 && !pw_str_equal(s->agent, op->sessions.agent)) ||
            !status_is(s, op->sessions.status)) {
            continue;
        }
        size_t at = count++; /* insertion: a page of names in order; lists are for people */
        for (; at > 0 && pw_str_compare(s->name, found[at - 1]->name) < 0; at--) {
            found[at] = found[at - 1];
        }
        found[at] = s;
        if (op->sessions.limit > 0 && count > op->sessions.limit) {
            count = op->sessions.limit;
        }
    }
    PW_TRY(copy_sessions(op, found, count, &op->sessions.rows));
    op->sessions.count = count;
    return PW_OK;
}

/* --- journal, inbox, turns, blobs */

static pw_status copy_record(pw_arena *arena, const pw_record *from, pw_record *ret)
{
    *ret = *from;
    PW_TRY(pw_arena_dup(arena, from->turn, &ret->turn));
    PW_TRY(pw_arena_dup(arena, from->step, &ret->step));
    return pw_arena_dup(arena, from->body, &ret->body);
}

static pw_status read_records(mem_store *m, pw_op *op)
{
    const mem_session *s = mem_session_by_id(m, op->records.session_id);
    if (s == NULL) {
        return not_found(&op->error, "session");
    }
    size_t from = op->records.from_seq > 0 ? (size_t)op->records.from_seq - 1 : 0;
    size_t to = s->records.count;
    if (op->records.to_seq > 0 && op->records.to_seq < to) {
        to = (size_t)op->records.to_seq;
    }
    size_t limit = op->records.limit > 0 ? op->records.limit : SIZE_MAX;
    size_t room = from < to ? to - from : 0;
    pw_record *list = PW_NEW_ARRAY(op->arena, pw_record, room < limit ? room : limit);
    size_t count = 0;
    for (size_t i = from; list != NULL && i < to && count < limit; i++) {
        const mem_record *r = s->records.items[i];
        if (op->records.turn.len > 0 && !pw_str_equal(r->record.turn, op->records.turn)) {
            continue;
        }
        if (copy_record(op->arena, &r->record, &list[count]) != PW_OK) {
            list = NULL;
        }
        count++;
    }
    if (list == NULL) {
        return no_memory(&op->error);
    }
    op->records.records = list;
    op->records.count = count;
    return PW_OK;
}

static pw_status copy_waiting(pw_arena *arena, const mem_row *row, size_t count, pw_inbox_row *to)
{
    for (size_t i = 0; i < count; i++, row = row->next) {
        to[i] = (pw_inbox_row){
            .n = row->n, .kind = row->kind, .at_ms = row->at_ms, .disposition = row->disposition};
        PW_TRY(pw_arena_dup(arena, row->request_id, &to[i].request_id));
        PW_TRY(pw_arena_dup(arena, (pw_str){row->body, row->body_len}, &to[i].body));
    }
    return PW_OK;
}

static pw_status read_inbox(mem_store *m, pw_op *op)
{
    const mem_session *s = mem_session_by_id(m, op->inbox.session_id);
    if (s == NULL) {
        return not_found(&op->error, "session");
    }
    size_t messages = s->messages.count;
    if (op->inbox.limit > 0 && messages > op->inbox.limit) {
        messages = op->inbox.limit;
    }
    size_t count = s->cancels.count + messages;
    pw_inbox_row *rows = PW_NEW_ARRAY(op->arena, pw_inbox_row, count);
    if (rows == NULL ||
        copy_waiting(op->arena, s->cancels.first, s->cancels.count, rows) != PW_OK ||
        copy_waiting(op->arena, s->messages.first, messages, rows + s->cancels.count) != PW_OK) {
        return no_memory(&op->error);
    }
    op->inbox.inbox = (pw_inbox){.rows = rows,
                                 .count = count,
                                 .more = messages < s->messages.count,
                                 .looked_n = s->inbox.count};
    return PW_OK;
}

static pw_status read_message(mem_store *m, pw_op *op)
{
    const mem_session *s = mem_session_by_id(m, op->message.session_id);
    const mem_row *row =
        s == NULL ? NULL : mem_row_find(m, s, PW_INBOX_MESSAGE, op->message.request_id);
    if (row == NULL) {
        return not_found(&op->error, "message");
    }
    if (mem_copy_message(op->arena, row, &op->message.row) != PW_OK) {
        return no_memory(&op->error);
    }
    return PW_OK;
}

static pw_status copy_turn(pw_arena *arena, const mem_turn *t, pw_turn_row *ret)
{
    *ret = (pw_turn_row){.opened_seq = t->opened_seq, .ended_seq = t->ended_seq, .state = t->state};
    return pw_arena_dup(arena, t->turn, &ret->turn);
}

static pw_status read_turn(mem_store *m, pw_op *op)
{
    const mem_session *s = mem_session_by_id(m, op->turn.session_id);
    const mem_turn *t = s == NULL ? NULL : mem_turn_find(m, s, op->turn.turn);
    if (t == NULL) {
        return not_found(&op->error, "turn");
    }
    return copy_turn(op->arena, t, &op->turn.row) == PW_OK ? PW_OK : no_memory(&op->error);
}

static pw_status read_turns(mem_store *m, pw_op *op)
{
    const mem_session *s = mem_session_by_id(m, op->turns.session_id);
    if (s == NULL) {
        return not_found(&op->error, "session");
    }
    size_t from = s->turns.count;
    while (from > 0 && ((mem_turn *)s->turns.items[from - 1])->opened_seq > op->turns.after_seq) {
        from--;
    }
    size_t count = s->turns.count - from;
    if (op->turns.limit > 0 && count > op->turns.limit) {
        count = op->turns.limit;
    }
    pw_turn_row *rows = PW_NEW_ARRAY(op->arena, pw_turn_row, count);
    for (size_t i = 0; rows != NULL && i < count; i++) {
        if (copy_turn(op->arena, s->turns.items[from + i], &rows[i]) != PW_OK) {
            rows = NULL;
        }
    }
    if (rows == NULL) {
        return no_memory(&op->error);
    }
    op->turns.rows = rows;
    op->turns.count = count;
    return PW_OK;
}

static pw_status read_blob(mem_store *m, pw_op *op)
{
    const mem_blob *b = mem_blob_find(m, op->blob.hash);
    if (b == NULL) {
        return not_found(&op->error, "blob");
    }
    return pw_arena_dup(op->arena, b->bytes, &op->blob.bytes) == PW_OK ? PW_OK
                                                                       : no_memory(&op->error);
}

/* --- VERIFY: nothing can be damaged here but by a fault of our own, which is what simulations look
 * for. */

static void session_verify(const mem_session *s, pw_buffer *report, int64_t *faults)
{
    uint64_t epoch = 0;
    for (size_t i = 0; i < s->records.count; i++) {
        const mem_record *r = s->records.items[i];
        if (r->record.seq != i + 1 || r->epoch < epoch || r->epoch > s->epoch) {
            pw_buffer_format(report, "session %lld: record %llu out of order\n", (long long)s->id,
                             (unsigned long long)r->record.seq);
            ++*faults;
        }
        epoch = r->epoch;
    }
    for (size_t i = 0; i < s->turns.count; i++) {
        const mem_turn *t = s->turns.items[i];
        const mem_record *opened = t->opened_seq >= 1 && t->opened_seq <= s->records.count
                                       ? s->records.items[t->opened_seq - 1]
                                       : NULL;
        const mem_record *ended = t->ended_seq >= 1 && t->ended_seq <= s->records.count
                                      ? s->records.items[t->ended_seq - 1]
                                      : NULL;
        if (opened == NULL || opened->record.kind != PW_RECORD_TURN_OPENED ||
            !pw_str_equal(opened->record.turn, t->turn) ||
            (t->ended_seq != 0 && (ended == NULL || ended->record.kind != PW_RECORD_TURN_ENDED ||
                                   !pw_str_equal(ended->record.turn, t->turn))) ||
            (t->ended_seq != 0) != pw_turn_state_ended(t->state)) {
            pw_buffer_format(report, "session %lld: turn %.*s disagrees with its records\n",
                             (long long)s->id, PW_STR_ARG(t->turn));
            ++*faults;
        }
    }
}

static pw_status read_verify(mem_store *m, pw_op *op)
{
    pw_buffer report;
    int64_t faults = 0;
    pw_buffer_init_arena(&report, op->arena, 1u << 20);
    for (size_t i = 0; i < m->sessions.count; i++) {
        session_verify(m->sessions.items[i], &report, &faults);
    }
    if (report.failed == PW_NOMEM) {
        return no_memory(&op->error);
    }
    op->verify.report = pw_buffer_str(&report);
    op->verify.faults = faults;
    return PW_OK;
}

pw_status mem_read(mem_store *m, pw_op *op)
{
    switch (op->kind) {
    case PW_OP_OWNERS:
        return read_owners(m, op);
    case PW_OP_DUE:
        return read_due(m, op);
    case PW_OP_SESSION:
        return read_session(m, op);
    case PW_OP_SESSIONS:
        return read_sessions(m, op);
    case PW_OP_RECORDS:
        return read_records(m, op);
    case PW_OP_INBOX:
        return read_inbox(m, op);
    case PW_OP_MESSAGE:
        return read_message(m, op);
    case PW_OP_TURN:
        return read_turn(m, op);
    case PW_OP_TURNS:
        return read_turns(m, op);
    case PW_OP_BLOB:
        return read_blob(m, op);
    case PW_OP_VERIFY:
        return read_verify(m, op);
    case PW_OP_ADMIT:
    case PW_OP_WITHDRAW:
    case PW_OP_CANCEL:
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
    case PW_OP_TAKE:
    case PW_OP_RELEASE:
    case PW_OP_APPEND:
        break; /* mem_write's */
    }
    return PW_INVALID;
}
