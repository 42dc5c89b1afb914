/*
 * Operations as programs of statements. Each kind of operation is a row of small functions, one a
 * statement, which fill in parameters or say that there is nothing to do. Pure; it must never hold
 * a condition that is not also in the statement's text: what is skipped here is only what could
 * have changed nothing.
 */
#include "store/sql.h"

/* --- parameters */

static void p_i64(pw_sql_run *run, int64_t number)
{
    PW_ASSERT(run->param_count < PW_SQL_MAX_PARAMS);
    run->params[run->param_count++] = (pw_sql_value){.type = PW_SQL_INTEGER, .number = number};
}

static void p_u64(pw_sql_run *run, uint64_t number)
{
    p_i64(run, number > INT64_MAX ? INT64_MAX : (int64_t)number);
}

static void p_str(pw_sql_run *run, pw_str text)
{
    PW_ASSERT(run->param_count < PW_SQL_MAX_PARAMS);
    run->params[run->param_count++] =
        (pw_sql_value){.type = PW_SQL_TEXT, .text = text.ptr != NULL ? text : PW_STR("")};
}

static void p_c(pw_sql_run *run, const char *text)
{
    p_str(run, pw_str_from(text));
}

static void p_bytes(pw_sql_run *run, pw_str bytes)
{
    p_str(run, bytes);
    run->params[run->param_count - 1].type = PW_SQL_BYTES;
}

static void p_null(pw_sql_run *run)
{
    PW_ASSERT(run->param_count < PW_SQL_MAX_PARAMS);
    run->params[run->param_count++] = (pw_sql_value){.type = PW_SQL_NULL};
}

/* Times and seqs that may be absent are NULL in the tables. */
static void p_time(pw_sql_run *run, int64_t at_ms)
{
    if (at_ms < 0) {
        p_null(run);
    } else {
        p_i64(run, at_ms);
    }
}

static void p_limit(pw_sql_run *run, size_t limit)
{
    p_i64(run, limit == 0 || limit >= INT64_MAX ? INT64_MAX : (int64_t)limit);
}

static bool emit(pw_sql_run *run, pw_sql_statement *ret, pw_sql_id id)
{
    *ret = (pw_sql_statement){.id = id, .params = run->params, .count = run->param_count};
    return true;
}

/* A list that cannot be made fails the operation before its first statement. */
static bool list_failed(pw_sql_run *run, const pw_buffer *b)
{
    if (b->failed != PW_OK) {
        run->failed = PW_NOMEM;
        return true;
    }
    run->list = pw_buffer_str(b);
    return false;
}

static void list_dead(pw_sql_run *run, const pw_dead_owner *dead, size_t count)
{
    pw_buffer b;
    if (count == 0) {
        run->list = PW_STR("");
        return;
    }
    pw_buffer_init_arena(&b, run->scratch, 1u << 20);
    pw_buffer_byte(&b, ',');
    for (size_t i = 0; i < count; i++) {
        pw_buffer_add(&b, pw_str_from(dead[i].id.text));
        pw_buffer_byte(&b, ':');
        pw_buffer_u64(&b, dead[i].beat);
        pw_buffer_byte(&b, ',');
    }
    list_failed(run, &b);
}

/* Each between two newlines, which no agent's name holds; empty: of any agent. */
static pw_str list_agents(pw_sql_run *run, const pw_str *agents, size_t count)
{
    pw_buffer b;
    if (count == 0) {
        return PW_STR("");
    }
    pw_buffer_init_arena(&b, run->scratch, 1u << 26);
    pw_buffer_byte(&b, '\n');
    for (size_t i = 0; i < count; i++) {
        pw_buffer_add(&b, agents[i]);
        pw_buffer_byte(&b, '\n');
    }
    return list_failed(run, &b) ? PW_STR("") : run->list;
}

/* --- ADMIT: ?1 principal ?2 name in all but the first */

static bool admit_session(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_op *op = run->op;
    p_str(run, op->admit.uid);
    p_str(run, op->admit.principal);
    p_str(run, op->admit.session);
    p_str(run, op->admit.agent);
    p_i64(run, op->admit.now_ms);
    return emit(run, ret, PW_SQL_ADMIT_SESSION);
}

static void p_admitted(pw_sql_run *run)
{
    p_str(run, run->op->admit.principal);
    p_str(run, run->op->admit.session);
}

static bool admit_insert(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_op *op = run->op;
    p_admitted(run);
    p_str(run, op->admit.request_id);
    p_str(run, op->admit.digest);
    p_str(run, op->admit.body);
    p_i64(run, op->admit.now_ms);
    p_i64(run, op->admit.due_at_ms);
    p_i64(run, op->admit.agent_named);
    p_str(run, op->admit.agent);
    p_i64(run, op->admit.reject_when_busy);
    return emit(run, ret, PW_SQL_ADMIT_INSERT);
}

static bool admit_count(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = run->changed == 0;
    if (run->refused) {
        return false;
    }
    p_admitted(run);
    p_i64(run, run->op->admit.due_at_ms);
    return emit(run, ret, PW_SQL_ADMIT_COUNT);
}

static bool admit_result(pw_sql_run *run, pw_sql_statement *ret)
{
    p_admitted(run);
    p_str(run, run->op->admit.request_id);
    return emit(run, ret, PW_SQL_ADMIT_RESULT);
}

/* --- WITHDRAW, CANCEL */

static void p_withdrawn(pw_sql_run *run)
{
    p_str(run, run->op->withdraw.principal);
    p_str(run, run->op->withdraw.session);
    p_str(run, run->op->withdraw.request_id);
}

static bool withdraw(pw_sql_run *run, pw_sql_statement *ret)
{
    p_withdrawn(run);
    return emit(run, ret, PW_SQL_WITHDRAW);
}

static bool withdraw_result(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = run->changed == 0;
    p_withdrawn(run);
    return run->refused && emit(run, ret, PW_SQL_WITHDRAW_RESULT);
}

static void p_cancelled(pw_sql_run *run)
{
    p_str(run, run->op->cancel.principal);
    p_str(run, run->op->cancel.session);
}

static bool cancel_insert(pw_sql_run *run, pw_sql_statement *ret)
{
    p_cancelled(run);
    p_str(run, run->op->cancel.turn);
    p_str(run, run->op->cancel.body);
    p_i64(run, run->op->cancel.now_ms);
    return emit(run, ret, PW_SQL_CANCEL_INSERT);
}

static bool cancel_count(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = run->changed == 0;
    if (run->refused) {
        return false;
    }
    p_cancelled(run);
    p_i64(run, run->op->cancel.now_ms);
    return emit(run, ret, PW_SQL_ADMIT_COUNT);
}

static bool cancel_result(pw_sql_run *run, pw_sql_statement *ret)
{
    p_cancelled(run);
    p_str(run, run->op->cancel.turn);
    return emit(run, ret, PW_SQL_CANCEL_RESULT);
}

/* --- owners */

static bool owner_join(pw_sql_run *run, pw_sql_statement *ret)
{
    p_c(run, run->op->owner.owner.text);
    p_str(run, run->op->owner.address);
    p_i64(run, run->op->owner.now_ms);
    return emit(run, ret, PW_SQL_JOIN);
}

static bool owner_beat(pw_sql_run *run, pw_sql_statement *ret)
{
    p_c(run, run->op->owner.owner.text);
    p_i64(run, run->op->owner.now_ms);
    return emit(run, ret, PW_SQL_BEAT);
}

static bool owner_leave(pw_sql_run *run, pw_sql_statement *ret)
{
    p_c(run, run->op->owner.owner.text);
    return emit(run, ret, PW_SQL_LEAVE);
}

static bool owners_read(pw_sql_run *run, pw_sql_statement *ret)
{
    return emit(run, ret, PW_SQL_OWNERS);
}

/* --- TAKE, RELEASE */

static bool take_before(pw_sql_run *run, pw_sql_statement *ret)
{
    list_dead(run, run->op->take.dead, run->op->take.dead_count);
    p_i64(run, run->op->take.session_id);
    p_str(run, run->list);
    p_c(run, run->op->take.owner.text);
    return emit(run, ret, PW_SQL_TAKE_BEFORE);
}

static bool take_update(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_op *op = run->op;
    if (!run->found) {
        return false;
    }
    p_i64(run, op->take.session_id);
    p_str(run, run->list);
    p_c(run, op->take.owner.text);
    p_i64(run, op->take.take_over);
    p_i64(run, op->take.reload);
    p_i64(run, op->take.only_due);
    p_i64(run, op->take.max_attempts);
    p_i64(run, op->take.refuse_suspect_from);
    p_i64(run, op->take.now_ms);
    return emit(run, ret, PW_SQL_TAKE_UPDATE);
}

static bool take_after(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = run->changed == 0;
    if (run->refused) {
        return false;
    }
    p_i64(run, run->op->take.session_id);
    return emit(run, ret, PW_SQL_TAKE_AFTER);
}

static bool take_bury(pw_sql_run *run, pw_sql_statement *ret)
{
    if (run->refused || run->op->take.dead_count == 0) {
        return false;
    }
    p_str(run, run->list);
    return emit(run, ret, PW_SQL_BURY);
}

static bool release(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->release.session_id);
    p_u64(run, run->op->release.epoch);
    p_time(run, run->op->release.wake_at_ms);
    p_u64(run, run->op->release.looked_n);
    return emit(run, ret, PW_SQL_RELEASE);
}

/* --- APPEND */

/* ?1 session ?2 first seq ?3 epoch, wherever a statement asks whether the append's first row is
 * there. */
static void p_append(pw_sql_run *run)
{
    p_i64(run, run->op->append.session_id);
    p_u64(run, run->op->append.append->records[0].seq);
    p_u64(run, run->op->append.epoch);
}

static void p_record(pw_sql_run *run, const pw_record *r)
{
    p_i64(run, run->op->append.session_id);
    p_u64(run, r->seq);
    p_u64(run, run->op->append.epoch);
    p_i64(run, r->at_ms);
    p_c(run, pw_record_kind_name(r->kind));
    p_str(run, r->turn);
    p_str(run, r->step);
    p_str(run, r->body);
}

typedef struct named { /* inbox rows with one disposition, or all */
    uint64_t low, high;
    int64_t count;
} named;

static named list_consumed(pw_sql_run *run, int disposition)
{
    const pw_append *a = run->op->append.append;
    named x = {.low = UINT64_MAX};
    pw_buffer b;
    pw_buffer_init_arena(&b, run->scratch, 1u << 20);
    pw_buffer_byte(&b, ',');
    for (size_t i = 0; i < a->consumed_count; i++) {
        const pw_consumed *c = &a->consumed[i];
        if (disposition >= 0 && c->disposition != (pw_disposition)disposition) {
            continue;
        }
        pw_buffer_u64(&b, c->n);
        pw_buffer_byte(&b, ',');
        x.low = c->n < x.low ? c->n : x.low;
        x.high = c->n > x.high ? c->n : x.high;
        x.count++;
    }
    list_failed(run, &b);
    return x;
}

static bool append_first(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    p_record(run, &a->records[0]);
    if (a->consumed_count == 0) {
        return emit(run, ret, run->follows ? PW_SQL_APPEND_FIRST_FOLLOWS : PW_SQL_APPEND_FIRST);
    }
    named x = list_consumed(run, -1);
    p_str(run, run->list);
    p_u64(run, x.low);
    p_u64(run, x.high);
    p_i64(run, x.count);
    return emit(run, ret,
                run->follows ? PW_SQL_APPEND_FIRST_CONSUMES_FOLLOWS : PW_SQL_APPEND_FIRST_CONSUMES);
}

static bool ask_why(pw_sql_run *run, pw_sql_statement *ret)
{
    named x = list_consumed(run, -1);
    p_i64(run, run->op->append.session_id);
    p_str(run, run->list);
    p_u64(run, x.low);
    p_u64(run, x.high);
    p_u64(run, run->op->append.append->records[0].seq);
    return emit(run, ret, PW_SQL_APPEND_WHY);
}

static bool append_why(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = !run->blind && run->changed == 0;
    return run->refused && ask_why(run, ret);
}

static bool append_why_last(pw_sql_run *run, pw_sql_statement *ret)
{
    run->refused = run->refused || run->blind; /* until its row says otherwise */
    return run->blind && ask_why(run, ret);
}

static bool append_more(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    size_t at = run->index + 1;
    if (run->refused || at >= a->record_count) {
        run->index = 0;
        return false;
    }
    run->index++;
    run->again = true;
    p_record(run, &a->records[at]);
    if (!run->blind) {
        return emit(run, ret, PW_SQL_APPEND_MORE);
    }
    p_u64(run, a->records[0].seq);
    return emit(run, ret, PW_SQL_APPEND_MORE_BLIND);
}

static bool consume(pw_sql_run *run, pw_sql_statement *ret, pw_disposition disposition)
{
    const pw_append *a = run->op->append.append;
    if (run->refused || a->consumed_count == 0) {
        return false;
    }
    named x = list_consumed(run, (int)disposition);
    if (x.count == 0) {
        return false;
    }
    p_append(run);
    p_str(run, run->list);
    p_u64(run, x.low);
    p_u64(run, x.high);
    p_i64(run, (int64_t)disposition);
    p_str(run, disposition == PW_CLAIMED ? a->turn : PW_STR_NONE);
    return emit(run, ret, PW_SQL_APPEND_CONSUME);
}

static bool append_claim(pw_sql_run *run, pw_sql_statement *ret)
{
    return consume(run, ret, PW_CLAIMED);
}

static bool append_settle(pw_sql_run *run, pw_sql_statement *ret)
{
    return consume(run, ret, PW_SETTLED);
}

static bool append_cancels(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    if (run->refused || a->settle_cancels_of.len == 0) {
        return false;
    }
    p_append(run);
    p_str(run, a->settle_cancels_of);
    return emit(run, ret, PW_SQL_APPEND_CANCELS);
}

static void p_seq(pw_sql_run *run, uint64_t seq) /* 0: none */
{
    if (seq == 0) {
        p_null(run);
    } else {
        p_u64(run, seq);
    }
}

static bool append_turn(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    if (run->refused || a->turn.len == 0) {
        return false;
    }
    p_append(run);
    p_str(run, a->turn);
    if (a->turn_opened_seq != 0) {
        p_u64(run, a->turn_opened_seq);
        p_seq(run, a->turn_ended_seq);
        p_c(run, pw_turn_state_name(a->turn_state));
        return emit(run, ret, PW_SQL_APPEND_TURN_OPENED);
    }
    p_seq(run, a->turn_ended_seq);
    p_c(run, pw_turn_state_name(a->turn_state));
    return emit(run, ret, PW_SQL_APPEND_TURN);
}

static bool append_blob(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    if (run->refused || run->index >= a->blob_count) {
        return false;
    }
    const pw_blob *blob = &a->blobs[run->index++];
    run->again = true;
    p_append(run);
    p_c(run, blob->hash.text);
    p_i64(run, (int64_t)blob->bytes.len);
    p_bytes(run, blob->bytes);
    return emit(run, ret, PW_SQL_APPEND_BLOB);
}

static bool append_head(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_append *a = run->op->append.append;
    const pw_head *head = &a->head;
    if (run->refused || (!head->set && (!a->receipt || run->calm))) {
        return false;
    }
    p_append(run);
    if (!head->set) {
        return emit(run, ret, PW_SQL_APPEND_RECEIPT);
    }
    p_str(run, head->turn);
    p_c(run, head->turn.len > 0 ? pw_turn_state_name(head->state) : "idle");
    p_str(run, head->reason);
    p_i64(run, head->base_seq);
    p_time(run, head->wake_at_ms);
    p_u64(run, head->looked_n);
    p_i64(run, head->release);
    p_i64(run, a->receipt);
    p_i64(run, a->records[a->record_count - 1].at_ms);
    return emit(run, ret, PW_SQL_APPEND_HEAD);
}

/* --- reads */

static void p_due_owner(pw_sql_run *run)
{
    /* Nobody's sessions have the empty owner: a reader that is no owner must not look like it. */
    const char *me = run->op->due.owner.text;
    p_c(run, me[0] != '\0' ? me : "-");
}

static bool due_rows(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_op *op = run->op;
    list_dead(run, op->due.dead, op->due.dead_count);
    p_i64(run, op->due.now_ms);
    p_due_owner(run);
    p_str(run, run->list);
    if (op->due.session_id > 0) {
        p_i64(run, op->due.session_id);
        return emit(run, ret, PW_SQL_DUE_ONE);
    }
    p_limit(run, op->due.limit);
    p_str(run, list_agents(run, op->due.agents, op->due.agent_count));
    return emit(run, ret, PW_SQL_DUE);
}

static bool due_next(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->due.now_ms);
    p_due_owner(run);
    if (run->op->due.session_id > 0) {
        p_i64(run, run->op->due.session_id);
        return emit(run, ret, PW_SQL_DUE_NEXT_ONE);
    }
    p_str(run, list_agents(run, run->op->due.agents, run->op->due.agent_count));
    return emit(run, ret, PW_SQL_DUE_NEXT);
}

static bool session_read(pw_sql_run *run, pw_sql_statement *ret)
{
    if (run->op->session.session_id != 0) {
        p_i64(run, run->op->session.session_id);
        return emit(run, ret, PW_SQL_SESSION_BY_ID);
    }
    p_str(run, run->op->session.principal);
    p_str(run, run->op->session.session);
    return emit(run, ret, PW_SQL_SESSION_BY_NAME);
}

static bool sessions_read(pw_sql_run *run, pw_sql_statement *ret)
{
    p_str(run, run->op->sessions.principal);
    p_str(run, run->op->sessions.after_name);
    p_str(run, run->op->sessions.agent);
    p_str(run, run->op->sessions.status);
    p_limit(run, run->op->sessions.limit);
    return emit(run, ret, PW_SQL_SESSIONS);
}

static bool records_read(pw_sql_run *run, pw_sql_statement *ret)
{
    const pw_op *op = run->op;
    p_i64(run, op->records.session_id);
    p_u64(run, op->records.from_seq);
    p_u64(run, op->records.to_seq == 0 ? INT64_MAX : op->records.to_seq);
    p_str(run, op->records.turn);
    p_limit(run, op->records.limit);
    return emit(run, ret, PW_SQL_RECORDS);
}

/* An empty answer may mean that the session is not there. */
static bool session_exists(pw_sql_run *run, pw_sql_statement *ret)
{
    if (run->row_count > 0) {
        return false;
    }
    run->found = false;
    p_i64(run,
          run->op->kind == PW_OP_RECORDS ? run->op->records.session_id : run->op->turns.session_id);
    return emit(run, ret, PW_SQL_SESSION_EXISTS);
}

static bool inbox_looked(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->inbox.session_id);
    return emit(run, ret, PW_SQL_INBOX_LOOKED);
}

static bool inbox_cancels(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->inbox.session_id);
    return run->found && emit(run, ret, PW_SQL_INBOX_CANCELS);
}

static bool inbox_messages(pw_sql_run *run, pw_sql_statement *ret)
{
    size_t limit = run->op->inbox.limit;
    run->index = run->row_count; /* cancels come first; the limit is the messages' */
    p_i64(run, run->op->inbox.session_id);
    p_limit(run, limit == 0 || limit == SIZE_MAX ? 0 : limit + 1);
    return run->found && emit(run, ret, PW_SQL_INBOX_MESSAGES);
}

static bool message_read(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->message.session_id);
    p_str(run, run->op->message.request_id);
    return emit(run, ret, PW_SQL_MESSAGE);
}

static bool turn_read(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->turn.session_id);
    p_str(run, run->op->turn.turn);
    return emit(run, ret, PW_SQL_TURN);
}

static bool turns_read(pw_sql_run *run, pw_sql_statement *ret)
{
    p_i64(run, run->op->turns.session_id);
    p_u64(run, run->op->turns.after_seq);
    p_limit(run, run->op->turns.limit);
    return emit(run, ret, PW_SQL_TURNS);
}

static bool blob_read(pw_sql_run *run, pw_sql_statement *ret)
{
    p_str(run, run->op->blob.hash);
    return emit(run, ret, PW_SQL_BLOB);
}

static bool rebuild_clear(pw_sql_run *run, pw_sql_statement *ret)
{
    return run->op->verify.rebuild && emit(run, ret, PW_SQL_REBUILD_CLEAR);
}

static bool rebuild_turns(pw_sql_run *run, pw_sql_statement *ret)
{
    return run->op->verify.rebuild && emit(run, ret, PW_SQL_REBUILD_TURNS);
}

static bool verify(pw_sql_run *run, pw_sql_statement *ret)
{
    pw_sql_id id = (pw_sql_id)(PW_SQL_VERIFY_FIRST + run->index);
    if (id >= PW_SQL_COUNT) {
        return false;
    }
    run->index++;
    run->again = true;
    return emit(run, ret, id);
}

/* --- the programs */

typedef bool (*step_fn)(pw_sql_run *, pw_sql_statement *ret);
#define PROGRAM(...)                                                                               \
    (const step_fn[])                                                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static const step_fn *const programs[] = {
    [PW_OP_ADMIT] = PROGRAM(admit_session, admit_insert, admit_count, admit_result),
    [PW_OP_WITHDRAW] = PROGRAM(withdraw, withdraw_result),
    [PW_OP_CANCEL] = PROGRAM(cancel_insert, cancel_count, cancel_result),
    [PW_OP_JOIN] = PROGRAM(owner_join),
    [PW_OP_BEAT] = PROGRAM(owner_beat),
    [PW_OP_LEAVE] = PROGRAM(owner_leave),
    [PW_OP_TAKE] = PROGRAM(take_before, take_update, take_after, take_bury),
    [PW_OP_RELEASE] = PROGRAM(release),
    [PW_OP_APPEND] =
        PROGRAM(append_first, append_why, append_more, append_claim, append_settle, append_cancels,
                append_turn, append_blob, append_head, append_why_last),
    [PW_OP_OWNERS] = PROGRAM(owners_read),
    [PW_OP_DUE] = PROGRAM(due_rows, due_next),
    [PW_OP_SESSION] = PROGRAM(session_read),
    [PW_OP_SESSIONS] = PROGRAM(sessions_read),
    [PW_OP_RECORDS] = PROGRAM(records_read, session_exists),
    [PW_OP_INBOX] = PROGRAM(inbox_looked, inbox_cancels, inbox_messages),
    [PW_OP_MESSAGE] = PROGRAM(message_read),
    [PW_OP_TURN] = PROGRAM(turn_read),
    [PW_OP_TURNS] = PROGRAM(turns_read, session_exists),
    [PW_OP_BLOB] = PROGRAM(blob_read),
    [PW_OP_VERIFY] = PROGRAM(rebuild_clear, rebuild_turns, verify),
};

void pw_sql_start(pw_sql_run *run, pw_op *op, pw_arena *scratch)
{
    /* Everything but `params`, which is large and only read as far as it is written. */
    run->op = op;
    run->scratch = scratch;
    run->step = 0;
    run->index = 0;
    run->blind = false;
    run->calm = false;
    run->follows = false;
    run->changed = 0;
    run->refused = false;
    run->found = false;
    run->list = PW_STR_NONE;
    run->rows = NULL;
    run->row_count = 0;
    run->row_capacity = 0;
    run->failed = PW_OK;
    run->before = (pw_take_before){0};
    run->epoch_before = 0;
    run->joined = false;
    if (op->kind == PW_OP_VERIFY) {
        pw_buffer_init_arena(&run->report, op->arena, 1u << 20);
    }
}

bool pw_sql_next(pw_sql_run *run, pw_sql_statement *ret)
{
    const step_fn *program = programs[run->op->kind];
    while (run->failed == PW_OK && program[run->step] != NULL) {
        run->again = false;
        run->param_count = 0;
        bool emitted = program[run->step](run, ret);
        run->step += !run->again;
        if (emitted && run->failed == PW_OK) {
            run->id = ret->id;
            return true;
        }
    }
    return false;
}

void pw_sql_row(pw_sql_run *run, const pw_sql_value *cells, size_t count)
{
    (void)count;
    run->found = true;
    if (run->failed == PW_OK) {
        run->failed = pw_sql_row_keep(run, cells);
    }
}

void pw_sql_end(pw_sql_run *run)
{
    if (run->failed != PW_OK) {
        if (run->op->error.code == PW_OK) {
            PW_FAIL(&run->op->error, run->failed, "no memory for the operation");
        }
        run->op->status = run->failed;
        return;
    }
    pw_sql_result(run);
}
