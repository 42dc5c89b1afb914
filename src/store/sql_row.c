/*
 * Rows into results: the other half of sql.c. Pure. It must copy whatever it keeps: cells are
 * borrowed for one call.
 */
#include "store/sql.h"

_Static_assert(PW_PENDING == 0 && PW_CLAIMED == 1 && PW_SUPERSEDED == 3 && PW_WITHDRAWN == 4 &&
                   PW_SETTLED == 5 && PW_INBOX_MESSAGE == 0 && PW_INBOX_CANCEL == 1,
               "these numbers are in the tables and in the statements");

/* --- cells */

static int64_t i64(const pw_sql_value *cell)
{
    int64_t number = 0;
    if (cell->type == PW_SQL_INTEGER) {
        return cell->number;
    }
    return cell->type == PW_SQL_TEXT && pw_str_i64(cell->text, &number) ? number : 0;
}

static uint64_t u64(const pw_sql_value *cell)
{
    int64_t number = i64(cell);
    return number < 0 ? 0 : (uint64_t)number;
}

static pw_status str(pw_arena *arena, const pw_sql_value *cell, pw_str *ret)
{
    bool text = cell->type == PW_SQL_TEXT || cell->type == PW_SQL_BYTES;
    return pw_arena_dup(arena, text ? cell->text : PW_STR_NONE, ret);
}

static void *list_add(pw_sql_run *run, size_t size)
{
    if (run->row_count == run->row_capacity) {
        size_t capacity = run->row_capacity == 0 ? 8 : run->row_capacity * 2;
        char *rows = pw_arena_array(run->op->arena, capacity, size);
        if (rows == NULL) {
            return NULL;
        }
        if (run->row_count > 0) {
            memcpy(rows, run->rows, run->row_count * size);
        }
        run->rows = rows;
        run->row_capacity = capacity;
    }
    return (char *)run->rows + size * run->row_count++;
}

static pw_status damaged(pw_sql_run *run, const char *what, const pw_sql_value *cell)
{
    return PW_FAIL(&run->op->error, PW_CORRUPT, "the store holds an unknown %s `%.*s`", what,
                   PW_STR_ARG(cell->text));
}

/* --- rows */

static pw_status session_row(pw_sql_run *run, const pw_sql_value *c, pw_session_row *ret)
{
    pw_arena *arena = run->op->arena;
    pw_session_row row = {.id = i64(&c[0]),
                          .generation = i64(&c[5]),
                          .epoch = u64(&c[6]),
                          .state = PW_TURN_RUNNING,
                          .base_seq = u64(&c[11]),
                          .last_seq = u64(&c[12]),
                          .wake_at_ms = c[13].type == PW_SQL_NULL ? -1 : i64(&c[13]),
                          .admitted = u64(&c[14]),
                          .crashes = i64(&c[15]),
                          .quarantined = i64(&c[16]) != 0,
                          .created_at_ms = i64(&c[17]),
                          .since_ms = i64(&c[18])};
    row.owner_released = row.epoch > 0 && c[7].text.len == 0;
    if (c[8].text.len > 0 && !pw_turn_state_from(c[9].text, &row.state)) {
        return damaged(run, "status", &c[9]);
    }
    PW_TRY(str(arena, &c[1], &row.uid));
    PW_TRY(str(arena, &c[2], &row.principal));
    PW_TRY(str(arena, &c[3], &row.name));
    PW_TRY(str(arena, &c[4], &row.agent));
    PW_TRY(str(arena, &c[7], &row.owner));
    PW_TRY(str(arena, &c[8], &row.turn));
    PW_TRY(str(arena, &c[10], &row.reason));
    *ret = row;
    return PW_OK;
}

static pw_status message_row(pw_sql_run *run, const pw_sql_value *c, pw_message_row *ret)
{
    pw_arena *arena = run->op->arena;
    pw_message_row row = {.n = u64(&c[2]),
                          .at_ms = i64(&c[6]),
                          .disposition = (pw_disposition)i64(&c[7]),
                          .position = i64(&c[10])};
    if (row.disposition == PW_CLAIMED && c[9].type != PW_SQL_NULL) {
        row.disposition = PW_ANSWERED;
    }
    PW_TRY(str(arena, &c[3], &row.request_id));
    PW_TRY(str(arena, &c[4], &row.digest));
    PW_TRY(str(arena, &c[5], &row.body));
    PW_TRY(str(arena, &c[8], &row.turn));
    *ret = row;
    return PW_OK;
}

static pw_status admit_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    op->admit.session_id = i64(&c[0]);
    bool other_agent = op->admit.agent_named && !pw_str_equal(c[1].text, op->admit.agent);
    if (run->refused && other_agent) {
        op->admit.answer = PW_ADMIT_OTHER_AGENT;
        return PW_OK;
    }
    if (c[2].type == PW_SQL_NULL) {
        op->admit.answer = PW_ADMIT_BUSY;
        return PW_OK;
    }
    op->admit.answer = PW_ADMITTED;
    if (run->refused) {
        op->admit.answer =
            pw_str_equal(c[4].text, op->admit.digest) ? PW_ADMIT_EXISTING : PW_ADMIT_CONFLICT;
    }
    return message_row(run, c, &op->admit.row);
}

static pw_status withdraw_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    if (i64(&c[0]) != PW_CLAIMED) {
        op->withdraw.answer = PW_WITHDRAW_TWICE;
        return PW_OK;
    }
    op->withdraw.answer = PW_WITHDRAW_CLAIMED;
    op->withdraw.ended = c[2].type != PW_SQL_NULL;
    return str(op->arena, &c[1], &op->withdraw.turn);
}

static pw_status cancel_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    op->cancel.session_id = i64(&c[0]);
    if (c[2].type == PW_SQL_NULL) {
        op->cancel.answer = PW_CANCEL_NONE;
        return PW_OK;
    }
    if (!pw_turn_state_from(c[2].text, &op->cancel.turn_state)) {
        return damaged(run, "turn state", &c[2]);
    }
    op->cancel.answer = !run->refused              ? PW_CANCEL_ADMITTED
                        : c[1].type != PW_SQL_NULL ? PW_CANCEL_ENDED
                                                   : PW_CANCEL_TWICE;
    return PW_OK;
}

static pw_status take_before_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    PW_TRY(session_row(run, c, &op->take.row));
    const pw_session_row *row = &op->take.row;
    run->epoch_before = row->epoch;
    run->joined = i64(&c[20]) != 0;
    run->before = (pw_take_before){.nobody = row->owner.len == 0,
                                   .mine = pw_str_is(row->owner, op->take.owner.text),
                                   .quarantined = row->quarantined,
                                   .turn_open = row->turn.len > 0,
                                   .state = row->state};
    run->before.dead = !run->before.nobody && !run->before.mine && i64(&c[19]) == 0;
    return PW_OK;
}

static pw_status why_row(pw_sql_run *run, const pw_sql_value *c)
{
    const pw_op *op = run->op;
    const pw_append *a = op->append.append;
    pw_error *error = &run->op->error;
    uint64_t first = a->records[0].seq;
    if (run->blind && c[4].type != PW_SQL_NULL && u64(&c[4]) == op->append.epoch) {
        run->refused = false; /* its first row is there, so all of it is */
        return PW_OK;
    }
    if (u64(&c[0]) != op->append.epoch || c[1].text.len == 0) {
        return PW_OK; /* fenced: the result says so */
    }
    if (first <= u64(&c[2])) {
        return PW_FAIL(error, PW_FENCED, "record %llu is there already", (unsigned long long)first);
    }
    if (first != u64(&c[2]) + 1) {
        return PW_FAIL(error, PW_INVALID, "record %llu would leave a gap",
                       (unsigned long long)first);
    }
    if (u64(&c[3]) != a->consumed_count) {
        return PW_FAIL(error, PW_STALE, "an inbox row that the append names is not pending");
    }
    return PW_FAIL(error, PW_CORRUPT, "an append was refused for no reason in the tables");
}

static pw_status owner_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    if (list_add(run, sizeof(*op->owners.rows)) == NULL) {
        return PW_NOMEM;
    }
    op->owners.rows = run->rows;
    size_t at = run->row_count - 1;
    size_t len = c[0].text.len < sizeof(pw_owner_id) ? c[0].text.len : sizeof(pw_owner_id) - 1;
    memcpy(op->owners.rows[at].id.text, c[0].text.ptr, len);
    op->owners.rows[at].beat = u64(&c[1]);
    op->owners.rows[at].at_ms = i64(&c[3]);
    return str(op->arena, &c[2], &op->owners.rows[at].address);
}

static pw_status sessions_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_session_row *row = list_add(run, sizeof(*row));
    return row == NULL ? PW_NOMEM : session_row(run, c, row);
}

static pw_status record_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_arena *arena = run->op->arena;
    pw_record *r = list_add(run, sizeof(*r));
    if (r == NULL) {
        return PW_NOMEM;
    }
    r->seq = u64(&c[0]);
    r->at_ms = i64(&c[1]);
    if (!pw_record_kind_from(c[2].text, &r->kind)) {
        return damaged(run, "record kind", &c[2]);
    }
    PW_TRY(str(arena, &c[3], &r->turn));
    PW_TRY(str(arena, &c[4], &r->step));
    return str(arena, &c[5], &r->body);
}

static pw_status inbox_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    if (run->id == PW_SQL_INBOX_MESSAGES && op->inbox.limit > 0 &&
        run->row_count - run->index >= op->inbox.limit) {
        op->inbox.inbox.more = true;
        return PW_OK;
    }
    pw_inbox_row *row = list_add(run, sizeof(*row));
    if (row == NULL) {
        return PW_NOMEM;
    }
    row->n = u64(&c[0]);
    row->kind = i64(&c[1]) == PW_INBOX_CANCEL ? PW_INBOX_CANCEL : PW_INBOX_MESSAGE;
    row->at_ms = i64(&c[4]);
    row->disposition = (pw_disposition)i64(&c[5]);
    PW_TRY(str(op->arena, &c[2], &row->request_id));
    return str(op->arena, &c[3], &row->body);
}

static pw_status turn_row(pw_sql_run *run, const pw_sql_value *c, pw_turn_row *row)
{
    row->opened_seq = u64(&c[1]);
    row->ended_seq = u64(&c[2]);
    if (!pw_turn_state_from(c[3].text, &row->state)) {
        return damaged(run, "turn state", &c[3]);
    }
    return str(run->op->arena, &c[0], &row->turn);
}

static pw_status turns_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_turn_row *row = list_add(run, sizeof(*row));
    return row == NULL ? PW_NOMEM : turn_row(run, c, row);
}

void pw_sql_fault(pw_sql_run *run, pw_str line)
{
    run->op->verify.faults++;
    pw_buffer_add(&run->report, line);
    pw_buffer_byte(&run->report, '\n');
}

static pw_status verify_blob_row(pw_sql_run *run, const pw_sql_value *c)
{
    pw_hash hash = pw_sha256_of(c[2].text);
    pw_hash_hex hex = pw_hash_to_hex(&hash);
    if (!pw_str_is(c[0].text, hex.text) || u64(&c[1]) != c[2].text.len) {
        run->op->verify.faults++;
        pw_buffer_format(&run->report, "blob %.*s is not what its hash says\n",
                         PW_STR_ARG(c[0].text));
    }
    return PW_OK;
}

pw_status pw_sql_row_keep(pw_sql_run *run, const pw_sql_value *c)
{
    pw_op *op = run->op;
    if (run->id == PW_SQL_VERIFY_BLOBS) {
        return verify_blob_row(run, c);
    }
    if (run->id >= PW_SQL_VERIFY_FIRST) {
        pw_sql_fault(run, c[0].text);
        return PW_OK;
    }
    if (run->id == PW_SQL_INBOX_LOOKED) {
        op->inbox.inbox.looked_n = u64(&c[0]);
        return PW_OK;
    }
    if (run->id == PW_SQL_DUE_NEXT || run->id == PW_SQL_DUE_NEXT_ONE) {
        op->due.next_wake_ms = i64(&c[0]);
        return PW_OK;
    }
    if (run->id == PW_SQL_SESSION_EXISTS) {
        return PW_OK; /* that it came is all */
    }
    switch (op->kind) {
    case PW_OP_ADMIT:
        return admit_row(run, c);
    case PW_OP_WITHDRAW:
        return withdraw_row(run, c);
    case PW_OP_CANCEL:
        return cancel_row(run, c);
    case PW_OP_TAKE:
        return run->id == PW_SQL_TAKE_BEFORE ? take_before_row(run, c)
                                             : session_row(run, c, &op->take.row);
    case PW_OP_APPEND:
        return why_row(run, c);
    case PW_OP_OWNERS:
        return owner_row(run, c);
    case PW_OP_DUE:
    case PW_OP_SESSIONS:
        return sessions_row(run, c);
    case PW_OP_SESSION:
        return session_row(run, c, &op->session.row);
    case PW_OP_RECORDS:
        return record_row(run, c);
    case PW_OP_INBOX:
        return inbox_row(run, c);
    case PW_OP_MESSAGE:
        return message_row(run, c, &op->message.row);
    case PW_OP_TURN:
        return turn_row(run, c, &op->turn.row);
    case PW_OP_TURNS:
        return turns_row(run, c);
    case PW_OP_BLOB:
        return str(op->arena, &c[0], &op->blob.bytes);
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
    case PW_OP_RELEASE:
    case PW_OP_VERIFY:
        break; /* no rows of their own */
    }
    return PW_OK;
}

/* --- what the operation answers */

static pw_status take_result(pw_sql_run *run)
{
    pw_op *op = run->op;
    const pw_take_before *b = &run->before;
    if (!run->found) {
        op->take.answer = PW_TAKE_NONE;
        return PW_OK;
    }
    if (!run->joined) {
        return PW_FAIL(&op->error, PW_FENCED, "the owner's row is gone");
    }
    bool free_now = op->take.take_over || b->nobody || b->dead || (op->take.reload && b->mine);
    bool again = op->take.reload && (b->mine || b->nobody);
    if (!run->refused && op->take.row.owner.len > 0) {
        op->take.answer = PW_TOOK;
        op->take.cause = pw_take_cause(b, op->take.take_over);
        return PW_OK;
    }
    if (!run->refused || (b->quarantined && !op->take.take_over)) {
        op->take.answer = PW_TAKE_QUARANTINED;
    } else if (free_now && op->take.only_due && !again &&
               (op->take.row.wake_at_ms < 0 || op->take.row.wake_at_ms > op->take.now_ms)) {
        op->take.answer = PW_TAKE_NOTHING_DUE;
    } else {
        op->take.answer = PW_TAKE_NOT_FREE; /* owned, or a suspect while another is in hand */
    }
    op->take.row = (pw_session_row){0};
    return PW_OK;
}

static pw_status not_found(pw_sql_run *run, const char *what)
{
    return run->found ? PW_OK : PW_FAIL(&run->op->error, PW_NOT_FOUND, "there is no such %s", what);
}

static void lists_result(pw_sql_run *run)
{
    pw_op *op = run->op;
    void *rows = run->rows;
    size_t count = run->row_count;
    switch (op->kind) {
    case PW_OP_OWNERS:
        op->owners.rows = rows;
        op->owners.count = count;
        break;
    case PW_OP_DUE:
        op->due.rows = rows;
        op->due.count = count;
        break;
    case PW_OP_SESSIONS:
        op->sessions.rows = rows;
        op->sessions.count = count;
        break;
    case PW_OP_RECORDS:
        op->records.records = rows;
        op->records.count = count;
        break;
    case PW_OP_TURNS:
        op->turns.rows = rows;
        op->turns.count = count;
        break;
    case PW_OP_INBOX:
        op->inbox.inbox.rows = rows;
        op->inbox.inbox.count = count;
        break;
    case PW_OP_ADMIT:
    case PW_OP_WITHDRAW:
    case PW_OP_CANCEL:
    case PW_OP_JOIN:
    case PW_OP_BEAT:
    case PW_OP_LEAVE:
    case PW_OP_TAKE:
    case PW_OP_RELEASE:
    case PW_OP_APPEND:
    case PW_OP_SESSION:
    case PW_OP_MESSAGE:
    case PW_OP_TURN:
    case PW_OP_BLOB:
    case PW_OP_VERIFY:
        break; /* not lists */
    }
}

static pw_status result(pw_sql_run *run)
{
    pw_op *op = run->op;
    lists_result(run);
    switch (op->kind) {
    case PW_OP_ADMIT:
        return run->found ? PW_OK
                          : PW_FAIL(&op->error, PW_CONFLICT, "the uid is another session's");
    case PW_OP_WITHDRAW:
        if (!run->refused) {
            op->withdraw.answer = PW_WITHDREW;
        }
        return PW_OK;
    case PW_OP_BEAT:
        return run->changed > 0 ? PW_OK : PW_FAIL(&op->error, PW_FENCED, "the owner's row is gone");
    case PW_OP_TAKE:
        return take_result(run);
    case PW_OP_RELEASE:
        return run->changed > 0 ? PW_OK
                                : PW_FAIL(&op->error, PW_FENCED, "epoch %llu is not current",
                                          (unsigned long long)op->release.epoch);
    case PW_OP_APPEND:
        return !run->refused
                   ? PW_OK
                   : PW_FAIL(&op->error, PW_FENCED, "epoch %llu of session %lld is not current",
                             (unsigned long long)op->append.epoch,
                             (long long)op->append.session_id);
    case PW_OP_SESSION:
    case PW_OP_RECORDS:
    case PW_OP_INBOX:
    case PW_OP_TURNS:
        return not_found(run, "session");
    case PW_OP_MESSAGE:
        return not_found(run, "message");
    case PW_OP_TURN:
        return not_found(run, "turn");
    case PW_OP_BLOB:
        return not_found(run, "blob");
    case PW_OP_VERIFY:
        op->verify.report = pw_buffer_str(&run->report);
        return run->report.failed == PW_NOMEM
                   ? PW_FAIL(&op->error, PW_NOMEM, "no memory for the report")
                   : PW_OK;
    case PW_OP_CANCEL:
    case PW_OP_JOIN:
    case PW_OP_LEAVE:
    case PW_OP_OWNERS:
    case PW_OP_DUE:
    case PW_OP_SESSIONS:
        return PW_OK;
    }
    return PW_INVALID;
}

void pw_sql_result(pw_sql_run *run)
{
    run->op->status = result(run);
}
