/*
 * What every backend asks of an operation before it looks at its own rows: are its arguments
 * possible at all, does it write, and what a taking is called. Pure. It must never look at a store.
 */
#include "store/backend.h"

bool pw_op_writes(const pw_op *op)
{
    switch (op->kind) {
    case PW_OP_ADMIT:
    case PW_OP_WITHDRAW:
    case PW_OP_CANCEL:
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
    case PW_OP_TAKE:
    case PW_OP_RELEASE:
    case PW_OP_APPEND:
        return true;
    case PW_OP_VERIFY:
        return op->verify.rebuild;
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
        return false;
    }
    return false;
}

static pw_status consumed_check(const pw_append *append, pw_error *error)
{
    for (size_t i = 0; i < append->consumed_count; i++) {
        const pw_consumed *c = &append->consumed[i];
        if (c->disposition != PW_CLAIMED && c->disposition != PW_SETTLED) {
            return PW_FAIL(error, PW_INVALID, "inbox row %llu: an append claims or settles",
                           (unsigned long long)c->n);
        }
        if (c->disposition == PW_CLAIMED && append->turn.len == 0) {
            return PW_FAIL(error, PW_INVALID, "inbox row %llu is claimed by no turn",
                           (unsigned long long)c->n);
        }
        for (size_t k = 0; k < i; k++) {
            if (append->consumed[k].n == c->n) {
                return PW_FAIL(error, PW_INVALID, "inbox row %llu is named twice",
                               (unsigned long long)c->n);
            }
        }
    }
    return PW_OK;
}

pw_status pw_append_check(const pw_append *append, pw_error *error)
{
    if (append == NULL || append->record_count == 0) {
        return PW_FAIL(error, PW_INVALID, "an append holds at least one record");
    }
    uint64_t first = append->records[0].seq;
    if (first == 0 || first + append->record_count > INT64_MAX) {
        return PW_FAIL(error, PW_INVALID, "records are numbered from 1");
    }
    for (size_t i = 1; i < append->record_count; i++) {
        if (append->records[i].seq != first + i) {
            return PW_FAIL(error, PW_INVALID, "record %llu does not follow %llu",
                           (unsigned long long)append->records[i].seq,
                           (unsigned long long)(first + i - 1));
        }
    }
    for (size_t i = 0; i < append->blob_count; i++) {
        if (append->blobs[i].hash.text[0] == '\0') {
            return PW_FAIL(error, PW_INVALID, "a blob has no hash");
        }
    }
    return consumed_check(append, error);
}

static pw_status admit_check(const pw_op *op, pw_error *error)
{
    if (op->admit.session.len == 0 || op->admit.request_id.len == 0 || op->admit.uid.len == 0) {
        return PW_FAIL(error, PW_INVALID, "an admission names a session, a uid and a request id");
    }
    if (op->admit.due_at_ms < 0) {
        return PW_FAIL(error, PW_INVALID, "an admission is due at a time");
    }
    return PW_OK;
}

/* Outputs are cleared so that a refused op never shows an earlier run's result. */
static void results_clear(pw_op *op)
{
    switch (op->kind) {
    case PW_OP_ADMIT:
        op->admit.answer = PW_ADMITTED;
        op->admit.session_id = 0;
        op->admit.row = (pw_message_row){0};
        break;
    case PW_OP_WITHDRAW:
        op->withdraw.answer = PW_WITHDRAW_NONE;
        op->withdraw.turn = PW_STR_NONE;
        op->withdraw.ended = false;
        break;
    case PW_OP_CANCEL:
        op->cancel.answer = PW_CANCEL_NONE;
        op->cancel.turn_state = PW_TURN_RUNNING;
        op->cancel.session_id = 0;
        break;
    case PW_OP_TAKE:
        op->take.answer = PW_TAKE_NONE;
        op->take.cause = PW_CAUSE_NEW;
        op->take.row = (pw_session_row){0};
        break;
    case PW_OP_OWNERS:
        op->owners.rows = NULL;
        op->owners.count = 0;
        break;
    case PW_OP_DUE:
        op->due.rows = NULL;
        op->due.count = 0;
        op->due.next_wake_ms = -1;
        break;
    case PW_OP_SESSION:
        op->session.row = (pw_session_row){0};
        break;
    case PW_OP_SESSIONS:
        op->sessions.rows = NULL;
        op->sessions.count = 0;
        break;
    case PW_OP_RECORDS:
        op->records.records = NULL;
        op->records.count = 0;
        break;
    case PW_OP_INBOX:
        op->inbox.inbox = (pw_inbox){0};
        break;
    case PW_OP_MESSAGE:
        op->message.row = (pw_message_row){0};
        break;
    case PW_OP_TURN:
        op->turn.row = (pw_turn_row){0};
        break;
    case PW_OP_TURNS:
        op->turns.rows = NULL;
        op->turns.count = 0;
        break;
    case PW_OP_BLOB:
        op->blob.bytes = PW_STR_NONE;
        break;
    case PW_OP_VERIFY:
        op->verify.report = PW_STR_NONE;
        op->verify.faults = 0;
        break;
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
    case PW_OP_RELEASE:
    case PW_OP_APPEND:
        break;
    }
}

pw_status pw_op_begin(pw_op *op)
{
    op->status = PW_OK;
    op->error = (pw_error){0};
    results_clear(op);
    switch (op->kind) {
    case PW_OP_APPEND:
        op->status = pw_append_check(op->append.append, &op->error);
        break;
    case PW_OP_ADMIT:
        op->status = admit_check(op, &op->error);
        break;
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
        if (op->owner.owner.text[0] == '\0') {
            op->status = PW_FAIL(&op->error, PW_INVALID, "an owner has an id");
        }
        break;
    case PW_OP_TAKE:
        if (op->take.owner.text[0] == '\0') {
            op->status = PW_FAIL(&op->error, PW_INVALID, "an owner has an id");
        }
        break;
    case PW_OP_WITHDRAW:
    case PW_OP_CANCEL:
    case PW_OP_RELEASE:
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
        break;
    }
    return op->status;
}

pw_status pw_transact_fill(pw_transact *t, pw_str body, pw_append *ret)
{
    size_t count = t->append->record_count;
    pw_record *records = PW_NEW_ARRAY(t->arena, pw_record, count);
    if (records == NULL) {
        return PW_FAIL(&t->error, PW_NOMEM, "no memory for a receipt");
    }
    memcpy(records, t->append->records, count * sizeof(*records));
    records[t->receipt->record].body = body;
    *ret = *t->append;
    ret->records = records;
    return PW_OK;
}

bool pw_take_interrupts(const pw_take_before *b, bool take_over)
{
    return b->dead && b->turn_open && b->state != PW_TURN_SUSPENDED && !take_over;
}

pw_cause pw_take_cause(const pw_take_before *b, bool take_over)
{
    if (b->mine) {
        return PW_CAUSE_RELOAD;
    }
    if (take_over && (!b->nobody || b->quarantined)) {
        return PW_CAUSE_TAKEN;
    }
    if (!b->turn_open) {
        return PW_CAUSE_NEW;
    }
    if (b->state != PW_TURN_RUNNING) {
        return PW_CAUSE_RESUME;
    }
    return b->nobody ? PW_CAUSE_DRAINED : PW_CAUSE_RECOVERY;
}
