/*
 * The states of a turn: what is to be done next, given what is durable and what is under way.
 *
 *   none → opening → asking ⇄ replied → running → asking … → ending → none
 *                       ⇅ waiting                 (any) → ending
 *
 *   none      no turn is open
 *   opening   a claim is being appended
 *   asking    a model step is owed: not asked yet, or running
 *   replied   the model's answer, or its failure, is to be settled
 *   running   calls of the last reply are owed a result
 *   waiting   the model is not to be asked before a time
 *   ending    the turn's last append is under way
 *
 * pw_advance decides until nothing more can be decided: it either adds records to the append being
 * made, which changes what the next look sees, or begins something (a call, a rest) when nothing is
 * left to be made durable first.
 */
#include "core/state.h"

/* --- Endings
 * ------------------------------------------------------------------------------------------------
 */

/* A reply that streamed is thrown away: what was shown of it is taken back (C5). */
static pw_status discard_shown(pw_session *s, const pw_usage *usage)
{
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_DISCARDED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_discarded(s, PW_STR("ended"), usage, &draft.body));
    return pw_build_add(s, &draft);
}

/* The model's part of an ending: a running call is aborted, one that came back is counted. */
static pw_status end_model(pw_session *s, const pw_ending *ending, pw_totals *spent)
{
    pw_usage usage = PW_USAGE_UNKNOWN;
    const pw_live_state state = s->v.model.state;
    if (state != PW_LIVE_RUNNING && state != PW_LIVE_ENDED) {
        return PW_OK;
    }
    if (state == PW_LIVE_ENDED) {
        usage = s->v.model.reply ? s->v.model.reply->usage : s->v.model.failure->usage;
    }
    if (s->v.text_bytes > 0 && ending->state != PW_TURN_CANCELLED) {
        PW_TRY(discard_shown(s, &usage));
    } else {
        /* Nobody can say what a call cost that was cut off. */
        pw_totals_spend(spent, &usage, state == PW_LIVE_RUNNING || s->v.model.reply != NULL);
    }
    if (state == PW_LIVE_RUNNING) {
        return pw_model_abort(s, true);
    }
    s->v.model.state = PW_LIVE_SETTLED;
    return PW_OK;
}

/* G6: a reply that was to be resumed, and nothing came of it. One that runs or came is counted as
 * what it is. */
static bool ends_unheard(const pw_session *s)
{
    const bool heard = s->v.model.state == PW_LIVE_RUNNING ||
                       (s->v.model.state == PW_LIVE_ENDED && s->v.model.reply);
    return s->d.turn.response_unsure && !heard;
}

pw_status pw_turn_end(pw_session *s, const pw_ending *ending)
{
    pw_totals spent = {0};
    PW_TRY(pw_build_begin(s));
    spent.lost_calls = ends_unheard(s) ? 1 : 0;
    PW_TRY(end_model(s, ending, &spent));
    PW_TRY(pw_calls_close(s, ending));
    pw_totals totals = s->d.turn.totals;
    pw_totals_add(&totals, &spent);
    pw_str turn;
    PW_TRY(pw_arena_dup(&s->build.room->arena, s->d.turn.id, &turn));
    pw_draft draft = {.kind = PW_RECORD_TURN_ENDED, .turn = turn};
    PW_TRY(pw_encode_turn_ended(s, ending, &totals, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->build.ends = true;
    s->build.end_state = ending->state;
    s->build.turn = turn;
    pw_phase_move(s, PW_PHASE_ENDING);
    return PW_OK;
}

const pw_inbox_row *pw_waiting_cancel(const pw_session *s)
{
    for (size_t i = 0; i < s->v.row_count; i++) {
        const pw_inbox_row *row = &s->v.rows[i];
        if (row->kind == PW_INBOX_CANCEL && pw_str_equal(row->request_id, s->d.turn.id)) {
            return row;
        }
    }
    return NULL;
}

static pw_status end_cancelled(pw_session *s, const pw_inbox_row *row)
{
    static const char *const reasons[] = {"user", "replaced", "reset", "parent"};
    const pw_json *body = NULL;
    if (pw_json_parse(&s->scratch, row->body, 0, &body, NULL) == PW_NOMEM) {
        return PW_NOMEM;
    }
    const pw_str said = pw_json_text(pw_json_get(body, "reason"));
    pw_ending ending = {
        .state = PW_TURN_CANCELLED,
        .reason = reasons[0],
        .actor = pw_json_text(pw_json_get(body, "by")),
        .code = "cancelled",
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (pw_str_is(said, reasons[i])) {
            ending.reason = reasons[i];
        }
    }
    ending.code_detail = pw_str_from(ending.reason);
    PW_TRY(pw_text_so_far(s, &ending.text));
    return pw_turn_end(s, &ending);
}

static pw_status end_poisoned(pw_session *s)
{
    return pw_turn_end(s, &(pw_ending){
                              .state = PW_TURN_FAILED,
                              .reason = "poison",
                              .detail = PW_STR("the process that ran this turn died too often"),
                              .code = "poison",
                          });
}

pw_status pw_turn_interrupt(pw_session *s, bool *ret_ended)
{
    *ret_ended = true;
    const pw_inbox_row *cancel = pw_waiting_cancel(s);
    if (cancel) {
        return end_cancelled(s, cancel);
    }
    /* Whatever brought it here again before it was sealed; a person's word alone tries again (C4).
     */
    if (s->v.attempt_due && s->v.cause != PW_CAUSE_TAKEN && s->v.max_attempts > 0 &&
        s->v.crashes >= s->v.max_attempts) {
        return end_poisoned(s);
    }
    const int64_t deadline = s->d.turn.deadline_at_ms;
    if (deadline >= 0 && s->v.now_ms >= deadline && s->v.model.state != PW_LIVE_ENDED) {
        pw_ending ending;
        PW_TRY(pw_bound_words(s, &ending, "deadline", -1));
        return pw_turn_end(s, &ending);
    }
    *ret_ended = false;
    return PW_OK;
}

/* --- The states
 * -----------------------------------------------------------------------------------------------
 */

static pw_status tell_wake(pw_session *s);

/* Who lets go of the row for us must know when it is due again: not at a deadline of a turn that is
 * over (A7, J7). */
pw_status pw_rest_now(pw_session *s, bool released)
{
    if (!released) {
        PW_TRY(tell_wake(s));
    }
    pw_effect *effect = pw_effect_add(s, PW_DO_REST);
    if (!effect) {
        return PW_NOMEM;
    }
    effect->rest.released = released;
    s->v.resting = true;
    return PW_OK;
}

/* Draining: nothing new is begun; what is being made durable is waited for. */
static pw_status rest_when_still(pw_session *s)
{
    return pw_building(s) ? PW_OK : pw_rest_now(s, false);
}

pw_status pw_attempt_begin(pw_session *s)
{
    uint8_t random[10];
    PW_TRY(pw_build_begin(s));
    pw_random_bytes(&s->v.random, random, sizeof(random));
    const pw_uuid run = pw_uuid_v7(s->v.now_ms, random);
    const bool owed = s->d.turn.closed_count == s->d.turn.call_count;
    const bool gone = owed && s->v.cause != PW_CAUSE_RESUME && s->v.model.state != PW_LIVE_RUNNING;
    const bool resumed = gone && s->d.turn.response_id.len > 0; /* not lost: gone on with (G6) */
    pw_draft draft = {.kind = PW_RECORD_ATTEMPT_STARTED, .turn = s->d.turn.id};
    PW_TRY(pw_encode_attempt(s, pw_str_from(run.text), gone && !resumed, resumed, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->build.begins = true;
    s->v.attempt_due = false;
    return PW_OK;
}

static pw_status advance_idle(pw_session *s)
{
    if (pw_building(s)) {
        return PW_OK;
    }
    if (s->v.draining) {
        return pw_rest_now(s, false);
    }
    const pw_inbox_row *first = pw_waiting_first(s);
    if (first && s->v.today) {
        return s->v.now_ms >= pw_claim_due_ms(s, first) ? pw_claim(s) : PW_OK;
    }
    return pw_evidence_expected(s) ? PW_OK : pw_rest_now(s, false);
}

static pw_status advance_asking(pw_session *s, pw_progress *progress)
{
    bool ended;
    PW_TRY(pw_turn_interrupt(s, &ended));
    if (ended) {
        return PW_OK;
    }
    if (s->v.model.state == PW_LIVE_ENDED) {
        pw_phase_move(s, PW_PHASE_REPLIED);
        *progress = PW_MOVED;
        return PW_OK;
    }
    PW_TRY(pw_accepted_add(s));
    if (s->v.draining) {
        if (s->v.model.state == PW_LIVE_RUNNING) {
            PW_TRY(pw_model_abort(s, false)); /* the next owner may go on with it */
        }
        return rest_when_still(s);
    }
    if (s->v.attempt_due) {
        PW_TRY(pw_attempt_begin(s));
    }
    if (s->v.model.state == PW_LIVE_RUNNING) {
        return PW_OK;
    }
    pw_ending ending;
    bool reached;
    PW_TRY(pw_bound_reached(s, false, &ending, &reached));
    if (reached) {
        return pw_turn_end(s, &ending);
    }
    return pw_building(s) ? PW_OK : pw_model_ask(s);
}

static pw_status advance_waiting(pw_session *s, pw_progress *progress)
{
    bool ended;
    PW_TRY(pw_turn_interrupt(s, &ended));
    if (ended) {
        return PW_OK;
    }
    if (s->v.draining) {
        return rest_when_still(s);
    }
    if (s->v.now_ms >= pw_wait_until(s) && !pw_building(s)) {
        s->v.retry_at_ms = -1;
        pw_phase_move(s, PW_PHASE_ASKING);
        *progress = PW_MOVED;
    }
    return PW_OK;
}

static pw_status advance_once(pw_session *s, pw_progress *progress)
{
    switch (s->v.phase) {
    case PW_PHASE_NONE:
        return advance_idle(s);
    case PW_PHASE_ASKING:
        return advance_asking(s, progress);
    case PW_PHASE_REPLIED:
        *progress = PW_MOVED;
        return pw_reply_settle(s);
    case PW_PHASE_RUNNING:
        return pw_calls_advance(s, progress);
    case PW_PHASE_WAITING:
        return advance_waiting(s, progress);
    case PW_PHASE_OPENING:
    case PW_PHASE_ENDING:
        return PW_OK; /* until it is durable */
    }
    PW_NEVER("a turn in no state");
}

/* --- When to look again --- */

int64_t pw_wait_until(const pw_session *s)
{
    const int64_t durable = s->d.turn.wait_until_ms;
    return s->v.retry_at_ms > durable ? s->v.retry_at_ms : durable;
}

static void earlier(int64_t *at, int64_t candidate)
{
    if (candidate >= 0 && (*at < 0 || candidate < *at)) {
        *at = candidate;
    }
}

static int64_t next_wake(const pw_session *s)
{
    int64_t at = s->v.store_at_ms;
    if (s->v.append.room) {
        return at; /* nothing is decided before it is durable */
    }
    if (s->v.phase == PW_PHASE_WAITING) {
        earlier(&at, pw_wait_until(s));
    }
    if (s->d.turn.open) {
        earlier(&at, s->d.turn.deadline_at_ms);
    } else if (s->v.today) {
        const pw_inbox_row *first = pw_waiting_first(s);
        earlier(&at, first ? pw_claim_due_ms(s, first) : -1);
    }
    return at;
}

static pw_status tell_wake(pw_session *s)
{
    if (s->v.wake_at_ms >= 0 && s->v.now_ms >= s->v.wake_at_ms) {
        s->v.wake_at_ms = -1; /* it has rung */
    }
    if (s->v.append.room && s->v.append.in_flight) {
        return PW_OK; /* its answer is the next thing to happen */
    }
    const int64_t at = next_wake(s);
    if (at == s->v.wake_at_ms) {
        return PW_OK;
    }
    pw_effect *effect = pw_effect_add(s, PW_DO_WAKE);
    if (!effect) {
        return PW_NOMEM;
    }
    effect->wake_at_ms = at;
    s->v.wake_at_ms = at;
    return PW_OK;
}

pw_status pw_advance(pw_session *s)
{
    if (!s->v.opened || (!s->v.inbox_seen && !s->v.draining)) {
        return PW_OK;
    }
    if (s->v.append.room) {
        PW_TRY(pw_append_again(s));
        return tell_wake(s);
    }
    PW_TRY(pw_late_settle(s));
    pw_progress progress;
    do {
        progress = PW_HELD;
        PW_TRY(advance_once(s, &progress));
    } while (progress == PW_MOVED && !s->v.resting && !s->v.append.room);
    if (pw_building(s)) {
        PW_TRY(pw_build_finish(s));
    }
    return s->v.resting ? PW_OK : tell_wake(s);
}
