/*
 * The memory store's write operations. Each one prepares everything that can fail and then changes
 * its rows with nothing that can: refused means untouched. It must never look at a clock, nor
 * answer otherwise than the SQL stores do (tests/conformance runs both through the same stories).
 */
#include "store/memory_table.h"

static pw_status no_memory(pw_error *error)
{
    return PW_FAIL(error, PW_NOMEM, "no memory for the operation");
}

/* --- what both inserts into an inbox share */

/* Room in every table that a new inbox row touches. */
static pw_status row_room(mem_store *m, mem_session *s)
{
    PW_TRY(mem_list_reserve(&s->inbox, m->allocator, 1));
    return mem_index_reserve(&m->by_request, m->allocator);
}

/* A7: admission only ever lowers the hint. */
static void wake_lower(mem_store *m, mem_session *s, int64_t at_ms)
{
    if (at_ms >= 0 && (s->wake_at_ms < 0 || at_ms < s->wake_at_ms)) {
        mem_session_wake(m, s, at_ms);
    }
}

/* The owner's word on its next wake; rows it has not looked at may only make it earlier (A7). */
static void wake_set(mem_store *m, mem_session *s, int64_t at_ms, uint64_t looked_n)
{
    if (s->inbox.count > looked_n) {
        wake_lower(m, s, at_ms);
    } else if (s->wake_at_ms != at_ms) {
        mem_session_wake(m, s, at_ms);
    }
}

static void row_admit(mem_store *m, mem_session *s, mem_row *row, int64_t now_ms, int64_t due_at_ms)
{
    s->inbox.items[s->inbox.count++] = row;
    row->n = s->inbox.count;
    row->at_ms = now_ms;
    mem_row_wait(row);
    wake_lower(m, s, due_at_ms);
}

/* --- ADMIT, WITHDRAW, CANCEL */

static pw_status admit_known(const pw_op *op, const mem_row *row, pw_admitted *answer,
                             pw_message_row *ret)
{
    *answer = pw_str_equal(row->digest, op->admit.digest) ? PW_ADMIT_EXISTING : PW_ADMIT_CONFLICT;
    return mem_copy_message(op->arena, row, ret);
}

/* A new row in `s`, which is linked here when it is new too. */
static pw_status admit_new(mem_store *m, pw_op *op, mem_session *s, bool created)
{
    mem_row *row = mem_row_make(m, s, PW_INBOX_MESSAGE, op->admit.request_id, op->admit.digest,
                                op->admit.body);
    pw_message_row copy = {0};
    if (row == NULL || row_room(m, s) != PW_OK || (created && mem_session_room(m) != PW_OK) ||
        mem_copy_message(op->arena, row, &copy) != PW_OK) {
        mem_row_free(m, row);
        return no_memory(&op->error);
    }
    if (created) {
        mem_session_link(m, s);
    }
    row_admit(m, s, row, op->admit.now_ms, op->admit.due_at_ms);
    mem_index_put(&m->by_request, mem_row_hash(s, row->kind, row->request_id), row);
    copy.n = row->n;
    copy.at_ms = row->at_ms;
    copy.position = (int64_t)s->messages.count;
    op->admit.row = copy;
    op->admit.session_id = s->id;
    op->admit.answer = PW_ADMITTED;
    return PW_OK;
}

static pw_status write_admit(mem_store *m, pw_op *op)
{
    mem_session *s = mem_session_find(m, op->admit.principal, op->admit.session);
    if (s == NULL) {
        if (mem_session_by_uid(m, op->admit.uid) != NULL) {
            return PW_FAIL(&op->error, PW_CONFLICT, "the uid is another session's");
        }
        s = mem_session_make(m, op);
        pw_status status = s == NULL ? no_memory(&op->error) : admit_new(m, op, s, true);
        if (status != PW_OK) {
            mem_session_free(m, s);
        }
        return status;
    }
    op->admit.session_id = s->id;
    if (op->admit.agent_named && !pw_str_equal(op->admit.agent, s->agent)) {
        op->admit.answer = PW_ADMIT_OTHER_AGENT;
        return PW_OK;
    }
    const mem_row *row = mem_row_find(m, s, PW_INBOX_MESSAGE, op->admit.request_id);
    if (row != NULL) {
        if (admit_known(op, row, &op->admit.answer, &op->admit.row) != PW_OK) {
            return no_memory(&op->error);
        }
        return PW_OK;
    }
    if (op->admit.reject_when_busy && (s->turn.len > 0 || s->messages.count > 0)) {
        op->admit.answer = PW_ADMIT_BUSY;
        return PW_OK;
    }
    return admit_new(m, op, s, false);
}

static pw_status write_withdraw(mem_store *m, pw_op *op)
{
    mem_session *s = mem_session_find(m, op->withdraw.principal, op->withdraw.session);
    mem_row *row = s == NULL ? NULL : mem_row_find(m, s, PW_INBOX_MESSAGE, op->withdraw.request_id);
    if (row == NULL) {
        op->withdraw.answer = PW_WITHDRAW_NONE;
    } else if (row->disposition == PW_PENDING) {
        mem_row_settle(m, row, PW_WITHDRAWN);
        op->withdraw.answer = PW_WITHDREW;
    } else if (row->turn != NULL) {
        if (pw_arena_dup(op->arena, row->turn->turn, &op->withdraw.turn) != PW_OK) {
            return no_memory(&op->error);
        }
        op->withdraw.answer = PW_WITHDRAW_CLAIMED;
        op->withdraw.ended = row->turn->ended_seq != 0;
    } else {
        op->withdraw.answer = PW_WITHDRAW_TWICE;
    }
    return PW_OK;
}

/* A cancel that was dropped while its turn went on (A4) may be sent again: it is admitted anew, as
 * a later row. */
static pw_status cancel_again(mem_store *m, pw_op *op, mem_session *s, mem_row *row)
{
    char *body = NULL;
    if (mem_list_reserve(&s->inbox, m->allocator, 1) != PW_OK ||
        (body = mem_alloc(m, op->cancel.body.len + 1)) == NULL) {
        return no_memory(&op->error);
    }
    mem_free(m, row->body, row->body_len + 1);
    row->body = body;
    row->body_len = mem_put(&body, op->cancel.body).len;
    s->inbox.items[row->n - 1] = NULL;
    row_admit(m, s, row, op->cancel.now_ms, op->cancel.now_ms);
    return PW_OK;
}

static pw_status write_cancel(mem_store *m, pw_op *op)
{
    mem_session *s = mem_session_find(m, op->cancel.principal, op->cancel.session);
    const mem_turn *turn = s == NULL ? NULL : mem_turn_find(m, s, op->cancel.turn);
    if (s != NULL) {
        op->cancel.session_id = s->id;
    }
    if (turn == NULL) {
        op->cancel.answer = PW_CANCEL_NONE;
        return PW_OK;
    }
    op->cancel.turn_state = turn->state;
    if (turn->ended_seq != 0) {
        op->cancel.answer = PW_CANCEL_ENDED;
        return PW_OK;
    }
    mem_row *row = mem_row_find(m, s, PW_INBOX_CANCEL, op->cancel.turn);
    op->cancel.answer =
        row != NULL && row->disposition == PW_PENDING ? PW_CANCEL_TWICE : PW_CANCEL_ADMITTED;
    if (op->cancel.answer == PW_CANCEL_TWICE) {
        return PW_OK;
    }
    if (row != NULL) {
        return cancel_again(m, op, s, row);
    }
    row = mem_row_make(m, s, PW_INBOX_CANCEL, op->cancel.turn, PW_STR_NONE, op->cancel.body);
    if (row == NULL || row_room(m, s) != PW_OK) {
        mem_row_free(m, row);
        return no_memory(&op->error);
    }
    row_admit(m, s, row, op->cancel.now_ms, op->cancel.now_ms);
    mem_index_put(&m->by_request, mem_row_hash(s, row->kind, row->request_id), row);
    return PW_OK;
}

/* --- JOIN, BEAT, LEAVE */

static pw_status write_join(mem_store *m, pw_op *op)
{
    if (mem_owner_find(m, &op->owner.owner) != NULL) {
        return PW_OK; /* sent again after an unknown answer */
    }
    if (m->owner_count == m->owner_capacity) {
        size_t capacity = m->owner_capacity == 0 ? 8 : m->owner_capacity * 2;
        mem_owner *owners =
            m->allocator->resize(m->allocator->ctx, m->owners, m->owner_capacity * sizeof(*owners),
                                 capacity * sizeof(*owners));
        if (owners == NULL) {
            return no_memory(&op->error);
        }
        m->owners = owners;
        m->owner_capacity = capacity;
    }
    char *address = mem_alloc(m, op->owner.address.len + 1);
    if (address == NULL) {
        return no_memory(&op->error);
    }
    mem_owner *o = &m->owners[m->owner_count++];
    *o = (mem_owner){.id = op->owner.owner, .beat = 1, .at_ms = op->owner.now_ms};
    o->address = mem_put(&address, op->owner.address);
    for (size_t i = 0; i < m->sessions.count;
         i++) { /* an id that joins anew finds what it still holds */
        mem_session *s = m->sessions.items[i];
        o->owned += mem_owner_same(&s->owner, &o->id);
    }
    return PW_OK;
}

static pw_status write_beat(mem_store *m, pw_op *op)
{
    mem_owner *o = mem_owner_find(m, &op->owner.owner);
    if (o == NULL) {
        return PW_FAIL(&op->error, PW_FENCED, "the owner's row is gone");
    }
    o->beat++;
    o->at_ms = op->owner.now_ms;
    return PW_OK;
}

static pw_status write_leave(mem_store *m, pw_op *op)
{
    mem_owner *o = mem_owner_find(m, &op->owner.owner);
    if (o != NULL) {
        mem_owner_remove(m, o);
    }
    return PW_OK;
}

/* --- TAKE, RELEASE */

static void owner_set(mem_store *m, mem_session *s, const pw_owner_id *to)
{
    mem_owner *from = s->owner.text[0] == '\0' ? NULL : mem_owner_find(m, &s->owner);
    if (from != NULL) {
        from->owned--;
    }
    mem_owner *owner = to == NULL ? NULL : mem_owner_find(m, to);
    if (owner != NULL) {
        owner->owned++;
    }
    s->owner = to == NULL ? (pw_owner_id){{0}} : *to;
}

static void dead_owners_remove(mem_store *m, const pw_dead_owner *dead, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mem_owner *o = mem_owner_find(m, &dead[i].id);
        if (o != NULL && o->beat == dead[i].beat && o->owned == 0) {
            mem_owner_remove(m, o);
        }
    }
}

/* The answer, and whether taking it counts as an interruption (C4). */
static pw_taken take_decide(const pw_op *op, const mem_session *s, const pw_take_before *b,
                            bool *ret_interrupts)
{
    bool again = op->take.reload && (b->mine || b->nobody);
    if (b->quarantined && !op->take.take_over) {
        return PW_TAKE_QUARANTINED;
    }
    if (!op->take.take_over && !b->nobody && !b->dead && !again) {
        return PW_TAKE_NOT_FREE;
    }
    if (op->take.only_due && !again && (s->wake_at_ms < 0 || s->wake_at_ms > op->take.now_ms)) {
        return PW_TAKE_NOTHING_DUE;
    }
    *ret_interrupts = pw_take_interrupts(b, op->take.take_over);
    if (*ret_interrupts && s->crashes + 1 > op->take.max_attempts) {
        return PW_TAKE_QUARANTINED;
    }
    if (*ret_interrupts && op->take.refuse_suspect_from >= 0 &&
        s->crashes + 1 >= op->take.refuse_suspect_from) {
        return PW_TAKE_NOT_FREE;
    }
    return PW_TOOK;
}

static pw_status take_done(mem_store *m, pw_op *op, mem_session *s, const pw_take_before *b,
                           bool interrupts)
{
    pw_str me = {op->take.owner.text, strlen(op->take.owner.text)};
    if (mem_copy_session(op->arena, s, &op->take.row) != PW_OK ||
        pw_arena_dup(op->arena, me, &op->take.row.owner) != PW_OK) {
        return no_memory(&op->error);
    }
    s->epoch++;
    if (interrupts) {
        s->crashes++;
    } else if (s->quarantined) { /* asked for by name: a fresh chance */
        s->crashes = 0;
    }
    s->quarantined = false;
    owner_set(m, s, &op->take.owner);
    dead_owners_remove(m, op->take.dead, op->take.dead_count);
    op->take.cause = pw_take_cause(b, op->take.take_over);
    op->take.row.epoch = s->epoch;
    op->take.row.crashes = s->crashes;
    op->take.row.quarantined = false;
    op->take.row.owner_released = false;
    return PW_OK;
}

static pw_status write_take(mem_store *m, pw_op *op)
{
    mem_session *s = mem_session_by_id(m, op->take.session_id);
    if (s == NULL) {
        op->take.answer = PW_TAKE_NONE;
        return PW_OK;
    }
    if (mem_owner_find(m, &op->take.owner) == NULL) {
        return PW_FAIL(&op->error, PW_FENCED, "the owner's row is gone");
    }
    pw_take_before b = {.nobody = s->owner.text[0] == '\0',
                        .mine = mem_owner_same(&s->owner, &op->take.owner),
                        .quarantined = s->quarantined,
                        .turn_open = s->turn.len > 0,
                        .state = s->state};
    b.dead = !b.nobody && !b.mine && mem_owner_dead(m, s, op->take.dead, op->take.dead_count);
    bool interrupts = false;
    op->take.answer = take_decide(op, s, &b, &interrupts);
    if (op->take.answer == PW_TOOK) {
        return take_done(m, op, s, &b, interrupts);
    }
    if (op->take.answer == PW_TAKE_QUARANTINED && !s->quarantined) {
        s->quarantined = true;
        s->epoch++; /* whoever held it is fenced for good */
        s->since_ms = op->take.now_ms;
        owner_set(m, s, NULL);
        dead_owners_remove(m, op->take.dead, op->take.dead_count);
    }
    return PW_OK;
}

static pw_status fence(const mem_store *m, int64_t session_id, uint64_t epoch, mem_session **ret,
                       pw_error *error)
{
    mem_session *s = mem_session_by_id(m, session_id);
    if (s == NULL || s->epoch != epoch || s->owner.text[0] == '\0') {
        return PW_FAIL(error, PW_FENCED, "epoch %llu of session %lld is not current",
                       (unsigned long long)epoch, (long long)session_id);
    }
    *ret = s;
    return PW_OK;
}

static pw_status write_release(mem_store *m, pw_op *op)
{
    mem_session *s = NULL;
    PW_TRY(fence(m, op->release.session_id, op->release.epoch, &s, &op->error));
    owner_set(m, s, NULL);
    wake_set(m, s, op->release.wake_at_ms, op->release.looked_n);
    return PW_OK;
}

/* --- APPEND */

pw_status mem_append_check(mem_store *m, int64_t session_id, uint64_t epoch, const pw_append *a,
                           pw_error *error)
{
    mem_session *s = NULL;
    PW_TRY(fence(m, session_id, epoch, &s, error));
    if (a->records[0].seq <= s->records.count) {
        return PW_FAIL(error, PW_FENCED, "record %llu is there already",
                       (unsigned long long)a->records[0].seq);
    }
    if (a->records[0].seq != s->records.count + 1) {
        return PW_FAIL(error, PW_INVALID, "record %llu would leave a gap",
                       (unsigned long long)a->records[0].seq);
    }
    for (size_t i = 0; i < a->consumed_count; i++) {
        uint64_t n = a->consumed[i].n;
        const mem_row *row = n >= 1 && n <= s->inbox.count ? s->inbox.items[n - 1] : NULL;
        if (row == NULL || row->disposition != PW_PENDING) {
            return PW_FAIL(error, PW_STALE, "inbox row %llu is not pending", (unsigned long long)n);
        }
    }
    return PW_OK;
}

static mem_record *record_make(mem_store *m, const pw_record *from, uint64_t epoch)
{
    size_t size = sizeof(mem_record) + from->turn.len + from->step.len + from->body.len;
    mem_record *r = mem_alloc(m, size);
    if (r != NULL) {
        char *at = (char *)(r + 1);
        r->size = size;
        r->epoch = epoch;
        r->record = *from;
        r->record.turn = mem_put(&at, from->turn);
        r->record.step = mem_put(&at, from->step);
        r->record.body = mem_put(&at, from->body);
    }
    return r;
}

static mem_turn *turn_make(mem_store *m, mem_session *s, pw_str turn)
{
    mem_turn *t = mem_alloc(m, sizeof(mem_turn) + turn.len);
    if (t != NULL) {
        char *at = (char *)(t + 1);
        t->size = sizeof(mem_turn) + turn.len;
        t->session = s;
        t->turn = mem_put(&at, turn);
    }
    return t;
}

/* What an append will add, made before anything is changed. */
typedef struct made {
    mem_turn *turn, *fresh_turn; /* the turn's row; and the same when it is new */
    size_t records, blobs;       /* put at the end of their lists, not counted there yet */
} made;

static void made_free(mem_store *m, mem_session *s, const made *x)
{
    for (size_t i = 0; i < x->records; i++) {
        mem_record *r = s->records.items[s->records.count + i];
        mem_free(m, r, r->size);
    }
    for (size_t i = 0; i < x->blobs; i++) {
        mem_blob *b = m->blobs.items[m->blobs.count + i];
        mem_free(m, b, b->size);
    }
    if (x->fresh_turn != NULL) {
        mem_free(m, x->fresh_turn, x->fresh_turn->size);
    }
}

static pw_status make_blobs(mem_store *m, const pw_append *a, made *x)
{
    PW_TRY(mem_list_reserve(&m->blobs, m->allocator, a->blob_count));
    for (size_t i = 0; i < a->blob_count; i++) {
        PW_TRY(mem_index_reserve(&m->by_hash, m->allocator));
        mem_blob *b = mem_alloc(m, sizeof(mem_blob) + a->blobs[i].bytes.len);
        if (b == NULL) {
            return PW_NOMEM;
        }
        char *at = (char *)(b + 1);
        b->size = sizeof(mem_blob) + a->blobs[i].bytes.len;
        b->hash = a->blobs[i].hash;
        b->bytes = mem_put(&at, a->blobs[i].bytes);
        m->blobs.items[m->blobs.count + x->blobs++] = b;
    }
    /* One reserve makes room for one row: ask for the rest while the index does not count them yet.
     */
    while (m->by_hash.capacity * 2 < (m->by_hash.count + a->blob_count) * 3) {
        size_t count = m->by_hash.count;
        m->by_hash.count = m->by_hash.capacity;
        pw_status status = mem_index_reserve(&m->by_hash, m->allocator);
        m->by_hash.count = count;
        PW_TRY(status);
    }
    return PW_OK;
}

static pw_status make_all(mem_store *m, mem_session *s, uint64_t epoch, const pw_append *a, made *x)
{
    PW_TRY(mem_list_reserve(&s->records, m->allocator, a->record_count));
    for (size_t i = 0; i < a->record_count; i++) {
        mem_record *r = record_make(m, &a->records[i], epoch);
        if (r == NULL) {
            return PW_NOMEM;
        }
        s->records.items[s->records.count + x->records++] = r;
    }
    if (a->turn.len > 0) {
        x->turn = mem_turn_find(m, s, a->turn);
        if (x->turn == NULL && a->turn_opened_seq != 0) {
            PW_TRY(mem_list_reserve(&s->turns, m->allocator, 1));
            PW_TRY(mem_index_reserve(&m->by_turn, m->allocator));
            x->turn = x->fresh_turn = turn_make(m, s, a->turn);
            if (x->turn == NULL) {
                return PW_NOMEM;
            }
        }
    }
    if (a->head.set) {
        PW_TRY(mem_text_reserve(&s->turn, m->allocator, a->head.turn.len));
        PW_TRY(mem_text_reserve(&s->reason, m->allocator, a->head.reason.len));
    }
    return a->blob_count > 0 ? make_blobs(m, a, x) : PW_OK;
}

static void settle_all(mem_store *m, mem_session *s, const pw_append *a, mem_turn *turn)
{
    for (size_t i = 0; i < a->consumed_count; i++) {
        mem_row *row = s->inbox.items[a->consumed[i].n - 1];
        mem_row_settle(m, row, a->consumed[i].disposition);
        row->turn = a->consumed[i].disposition == PW_CLAIMED ? turn : NULL;
    }
    if (a->settle_cancels_of.len > 0) {
        mem_row *row = mem_row_find(m, s, PW_INBOX_CANCEL, a->settle_cancels_of);
        if (row != NULL && row->disposition == PW_PENDING) {
            mem_row_settle(m, row, PW_SETTLED);
        }
    }
}

static void head_set(mem_store *m, mem_session *s, const pw_head *head, int64_t at_ms)
{
    pw_turn_state state = head->turn.len > 0 ? head->state : PW_TURN_RUNNING;
    if (s->state != state || !pw_str_equal(mem_text_str(&s->turn), head->turn) ||
        !pw_str_equal(mem_text_str(&s->reason), head->reason)) {
        s->since_ms = at_ms;
    }
    mem_text_set(&s->turn, head->turn);
    mem_text_set(&s->reason, head->reason);
    s->state = state;
    if (head->base_seq >= 0) {
        s->base_seq = (uint64_t)head->base_seq;
    }
    wake_set(m, s, head->wake_at_ms, head->looked_n);
    if (head->release) {
        owner_set(m, s, NULL);
    }
}

pw_status mem_append(mem_store *m, int64_t session_id, uint64_t epoch, const pw_append *a,
                     pw_error *error)
{
    PW_TRY(mem_append_check(m, session_id, epoch, a, error));
    mem_session *s = mem_session_by_id(m, session_id);
    made x = {0};
    if (make_all(m, s, epoch, a, &x) != PW_OK) {
        made_free(m, s, &x);
        return no_memory(error);
    }
    s->records.count += x.records;
    if (x.fresh_turn != NULL) {
        s->turns.items[s->turns.count++] = x.turn;
        x.turn->opened_seq = a->turn_opened_seq;
        mem_index_put(&m->by_turn, mem_turn_hash(s, x.turn->turn), x.turn);
    }
    if (x.turn != NULL) {
        x.turn->state = a->turn_state;
        if (a->turn_ended_seq != 0) {
            x.turn->ended_seq = a->turn_ended_seq;
        }
    }
    settle_all(m, s, a, x.turn);
    for (size_t i = 0; i < x.blobs; i++) {
        mem_blob *b = m->blobs.items[m->blobs.count];
        if (mem_blob_find(m, pw_str_from(b->hash.text)) == NULL) {
            mem_index_put(&m->by_hash, mem_hash(2, pw_str_from(b->hash.text)), b);
            m->blobs.count++;
        } else { /* kept once (N2); the next one moves into its place */
            mem_free(m, b, b->size);
            size_t left = x.blobs - i - 1;
            memmove(&m->blobs.items[m->blobs.count], &m->blobs.items[m->blobs.count + 1],
                    left * sizeof(void *));
        }
    }
    if (a->receipt) {
        s->crashes = 0;
    }
    if (a->head.set) {
        head_set(m, s, &a->head, a->records[a->record_count - 1].at_ms);
    }
    return PW_OK;
}

pw_status mem_write(mem_store *m, pw_op *op)
{
    switch (op->kind) {
    case PW_OP_ADMIT:
        return write_admit(m, op);
    case PW_OP_WITHDRAW:
        return write_withdraw(m, op);
    case PW_OP_CANCEL:
        return write_cancel(m, op);
    case PW_OP_JOIN:
        return write_join(m, op);
    case PW_OP_BEAT:
        return write_beat(m, op);
    case PW_OP_LEAVE:
        return write_leave(m, op);
    case PW_OP_TAKE:
        return write_take(m, op);
    case PW_OP_RELEASE:
        return write_release(m, op);
    case PW_OP_APPEND:
        return mem_append(m, op->append.session_id, op->append.epoch, op->append.append,
                          &op->error);
    case PW_OP_OWNERS:
    case PW_OP_DUE:
    case PW_OP_SESSION:
    case PW_OP_SESSIONS:
    case PW_OP_RECORDS:
    case PW_OP_INBOX:
    case PW_OP_MESSAGE:
    case PW_OP_TURN:
    case PW_OP_TURNS:
    case PW_OP_BLOB:
    case PW_OP_VERIFY:
        return mem_read(m, op);
    }
    return PW_INVALID;
}
