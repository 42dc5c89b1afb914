/*
 * The fold: what a record does to the durable half. Reading a record (fold_prepare.c) may fail;
 * this cannot.
 *
 * Applying writes nothing but *d, the calls of the open turn, and list entries at and behind
 * d->end.
 */
#include "core/fold.h"

static void apply_opened(pw_durable *d, const pw_prepared *p)
{
    d->turn = p->opened.turn;
    d->generation = p->opened.generation;
    d->messages = p->opened.n;
    d->turns = p->opened.turns;
    d->totals = p->opened.totals;
    d->initiator = p->opened.initiator;
    if (d->newest) {
        d->newest->newer = p->opened.span;
    }
    d->newest = p->opened.span;
    const size_t before = d->first;
    while (d->first < d->end && d->list[d->first]->seq < d->turn.first_seq) {
        d->first++;
    }
    if (d->first != before) {
        d->window_version++;
    }
    d->window_seq = d->turn.first_seq;
    PW_ASSERT(d->end < d->capacity);
    d->list[d->end++] = p->opened.message;
}

static void apply_attempt(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    turn->attempts = p->attempt.attempt;
    turn->run = p->attempt.run;
    turn->totals.lost_calls += p->attempt.lost ? 1 : 0;
    turn->wait_until_ms = -1;
    turn->response_unsure |= p->attempt.resumed;
    const size_t owed = pw_first_owed(turn);
    if (p->attempt.interrupted && owed < turn->call_count) {
        turn->calls[owed].perhaps++;
    }
}

/* What the provider worked on is done with, or will not be asked for again. */
static void forget_response(pw_turn *turn, int64_t lost)
{
    turn->response_id = PW_STR_NONE;
    turn->response_unsure = false;
    turn->totals.lost_calls += lost;
}

static void apply_model(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    PW_ASSERT(d->end < d->capacity);
    d->list[d->end++] = p->model.message;
    d->messages = p->model.message->n;
    turn->model = p->model.message->model;
    turn->totals.iterations++;
    pw_totals_spend(&turn->totals, &p->model.usage, true);
    turn->answered = true;
    turn->retries = turn->waits = turn->empties = 0;
    turn->quarantines = turn->earlier_quarantines = 0;
    turn->wait_until_ms = -1;
    forget_response(turn, 0);
    if (p->model.call_count > 0) {
        memcpy(p->model.calls, p->model.fresh, p->model.call_count * sizeof(pw_call));
    }
    turn->calls = p->model.calls;
    turn->call_count = p->model.call_count;
    turn->closed_count = 0;
    turn->calls_n = p->model.message->n;
}

static void apply_receipt(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    PW_ASSERT(d->end < d->capacity);
    d->list[d->end++] = p->receipt.message;
    if (p->receipt.call == SIZE_MAX) {
        return;
    }
    pw_call *call = &turn->calls[p->receipt.call];
    PW_ASSERT(!call->closed);
    call->closed = true;
    call->outcome = p->receipt.outcome;
    call->outcome_hash = p->receipt.outcome_hash;
    turn->closed_count++;
    d->messages = d->messages > call->n ? d->messages : call->n;
    switch (p->receipt.outcome) {
    case PW_OUTCOME_DONE:
    case PW_OUTCOME_ERROR:
    case PW_OUTCOME_UNKNOWN:
        turn->totals.tool_calls++;
        break;
    case PW_OUTCOME_MALFORMED:
        turn->totals.protocol_failures++;
        break;
    case PW_OUTCOME_CANCELLED:
    case PW_OUTCOME_DENIED:
    case PW_OUTCOME_PAUSED:
    case PW_OUTCOME_REPEATED:
        break;
    }
    if (p->receipt.operation) {
        turn->operations = p->receipt.operation;
        turn->changed_something |= p->receipt.outcome == PW_OUTCOME_DONE;
    }
}

static void apply_discarded(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    if (p->discarded.empty) {
        turn->totals.iterations++;
        turn->empties++;
        forget_response(turn, 0);
    }
    if (p->discarded.has_usage) {
        pw_totals_spend(&turn->totals, &p->discarded.usage,
                        p->discarded.empty || p->discarded.shown);
    }
}

static void apply_retrying(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    turn->totals.retries++;
    if (p->retrying.counted) {
        turn->retries++;
    } else {
        turn->waits++;
    }
    if (p->retrying.has_usage) {
        pw_totals_spend(&turn->totals, &p->retrying.usage, false);
    }
    if (!p->retrying.resumable) {
        forget_response(turn, p->retrying.lost);
    }
}

static void apply_wait(pw_durable *d, const pw_prepared *p)
{
    d->turn.wait_until_ms = p->wait.until_ms;
    d->turn.waits++;
    d->turn.totals.retries++;
    if (!p->wait.resumable) {
        forget_response(&d->turn, p->wait.lost);
    }
}

/* F6: tries begin anew with the model that is asked from here on. */
static void apply_fallback(pw_durable *d, const pw_prepared *p)
{
    pw_turn *turn = &d->turn;
    turn->totals.fallbacks++;
    turn->choice = p->fallback.to;
    turn->model = p->fallback.model;
    turn->retries = turn->waits = turn->empties = 0;
    turn->earlier_quarantines = turn->quarantines; /* which stay bounded for the step */
    turn->wait_until_ms = -1;
    if (p->fallback.has_usage) {
        pw_totals_spend(&turn->totals, &p->fallback.usage, false);
    }
    forget_response(turn, p->fallback.lost);
}

static void apply_ended(pw_durable *d, const pw_prepared *p)
{
    pw_totals_add(&d->totals, &p->ended);
    d->turns++;
    d->turn = (pw_turn){.wait_until_ms = -1, .deadline_at_ms = -1};
}

static void apply_repaired(pw_durable *d, const pw_prepared *p)
{
    d->list = p->repaired.list;
    d->first = 0;
    d->end = p->repaired.count;
    d->capacity = p->repaired.capacity;
    d->list_room = p->repaired.room;
    d->window_version++;
    if (p->repaired.quarantined > 0) {
        d->turn.quarantines += p->repaired.quarantined;
        forget_response(&d->turn, p->repaired.lost);
    }
}

void pw_fold_apply(pw_durable *d, const pw_prepared *p)
{
    PW_ASSERT(p->seq > d->last_seq);
    d->last_seq = p->seq;
    if (p->gap) {
        d->turn.damaged = true;
    }
    switch (p->kind) {
    case PW_RECORD_TURN_OPENED:
        apply_opened(d, p);
        return;
    case PW_RECORD_ATTEMPT_STARTED:
        apply_attempt(d, p);
        return;
    case PW_RECORD_MODEL_COMPLETED:
        apply_model(d, p);
        return;
    case PW_RECORD_MODEL_DISCARDED:
        apply_discarded(d, p);
        return;
    case PW_RECORD_MODEL_RETRYING:
        apply_retrying(d, p);
        return;
    case PW_RECORD_WAIT_SET:
        apply_wait(d, p);
        return;
    case PW_RECORD_MODEL_ACCEPTED:
        d->turn.response_id = p->response_id;
        return;
    case PW_RECORD_MODEL_FALLBACK:
        apply_fallback(d, p);
        return;
    case PW_RECORD_TOOL_STARTED:
        if (p->started.call != SIZE_MAX) {
            d->turn.calls[p->started.call].intents++;
            d->turn.calls[p->started.call].limit_at_ms = p->started.limit_at_ms;
        }
        return;
    case PW_RECORD_TOOL_COMPLETED:
        apply_receipt(d, p);
        return;
    case PW_RECORD_TOOL_LATE:
        return;
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        apply_repaired(d, p);
        return;
    case PW_RECORD_TURN_ENDED:
        apply_ended(d, p);
        return;
    }
    PW_NEVER("a prepared record of no kind");
}

void pw_window_trim(pw_session *s)
{
    while (s->oldest && s->d.newest && s->oldest != s->d.newest &&
           s->oldest->opened_seq < s->d.window_seq) {
        pw_room *room = s->oldest->room;
        s->oldest = s->oldest->newer;
        pw_room_leave(s, room);
    }
    if (!s->oldest) {
        s->oldest = s->d.newest;
    }
    if (s->list_held != s->d.list_room) {
        pw_room_leave(s, s->list_held);
        s->list_held = s->d.list_room;
    }
}
