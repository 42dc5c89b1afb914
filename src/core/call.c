/*
 * Tool calls of the last reply: each is checked, run by what its effects allow, and settled (D,
 * F1-F4).
 *
 *   idle → intent (once: tool.started first) → running → ended → settled
 *     └────────────────────────────────────────↗            ↗
 *     └── not run: malformed, repeated, unknown, cancelled, paused
 *
 * Calls run one at a time in call order. The live half is an array beside the durable calls.
 */
#include "core/state.h"

static pw_live_call *live_of(pw_session *s, size_t i)
{
    PW_ASSERT(i < s->v.live_count);
    return &s->v.live[i];
}

pw_status pw_calls_live(pw_session *s)
{
    const pw_turn *turn = &s->d.turn;
    if (s->v.live_n == turn->calls_n && s->v.live_count == turn->call_count) {
        return PW_OK;
    }
    pw_room *room = pw_room_new(s, sizeof(pw_room) + 64 + turn->call_count * sizeof(pw_live_call));
    if (!room) {
        return PW_NOMEM;
    }
    pw_live_call *live = PW_NEW_ARRAY(&room->arena, pw_live_call, turn->call_count);
    if (!live) {
        return PW_NOMEM;
    }
    pw_room_leave(s, s->v.live_room);
    s->v.live_room = room;
    s->v.live = live;
    s->v.live_count = turn->call_count;
    s->v.live_n = turn->calls_n;
    return PW_OK;
}

/* --- Receipts
 * ---------------------------------------------------------------------------------------------------
 */

static pw_effects_class effects_of(const pw_session *s, const pw_call *call)
{
    const pw_tool_declaration *tool;
    pw_effects_class effects = PW_EFFECTS_ONCE;
    (void)pw_call_tool(s, call->part->name, &tool, &effects);
    return effects;
}

static pw_status settle(pw_session *s, size_t i, pw_settled *settled)
{
    const pw_call *call = &s->d.turn.calls[i];
    pw_live_call *live = live_of(s, i);
    pw_draft draft = {.kind = PW_RECORD_TOOL_COMPLETED, .turn = s->d.turn.id, .step = call->step};
    PW_TRY(pw_build_begin(s));
    const bool begun = live->state != PW_LIVE_IDLE && live->state != PW_LIVE_INTENT;
    settled->started_at_ms = begun ? live->started_at_ms : -1;
    const int64_t earlier = call->intents > 0 ? call->intents : call->perhaps;
    settled->executions = begun ? live->execution : earlier;
    if (settled->outcome == PW_OUTCOME_MALFORMED || settled->outcome == PW_OUTCOME_REPEATED) {
        settled->executions = 0;
    } else if (live->state == PW_LIVE_INTENT) {
        settled->executions--; /* its intent is written, it was not begun */
    }
    PW_TRY(pw_encode_tool_completed(s, call, settled, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->build.receipt = true;
    live->state = PW_LIVE_SETTLED;
    return PW_OK;
}

static pw_status settle_words(pw_session *s, size_t i, pw_outcome outcome, pw_str result)
{
    pw_settled settled = {
        .effects = effects_of(s, &s->d.turn.calls[i]),
        .outcome = outcome,
        .result = result,
        .is_error = true,
    };
    return settle(s, i, &settled);
}

static pw_status settle_error(pw_session *s, size_t i, pw_outcome outcome, pw_str error_class,
                              pw_str message)
{
    pw_str result;
    PW_TRY(pw_value_of_error(&s->scratch, error_class, message, &result));
    return settle_words(s, i, outcome, result);
}

/* D4. */
static pw_status settle_unknown(pw_session *s, size_t i)
{
    return settle_words(
        s, i, PW_OUTCOME_UNKNOWN,
        PW_STR("{\"outcome\":\"unknown\",\"message\":\"This call may or may not have run: it was "
               "begun "
               "and its result was lost. Do not assume either way; find out before you repeat "
               "it.\"}"));
}

/* D7: a result over its limit is cut for the model and kept whole in the store. */
static pw_status settle_result(pw_session *s, size_t i, pw_str json)
{
    const pw_call *call = &s->d.turn.calls[i];
    const pw_tool_declaration *tool = NULL;
    pw_settled settled = {.outcome = PW_OUTCOME_DONE, .effects = PW_EFFECTS_ONCE};
    (void)pw_call_tool(s, call->part->name, &tool, &settled.effects);
    pw_value value;
    pw_hash_hex hash;
    PW_TRY(pw_build_begin(s));
    PW_TRY(pw_value_of_result(&s->build.room->arena, json, tool ? tool->result_limit : -1, &value));
    settled.result = value.json;
    if (value.cut) {
        pw_str whole;
        PW_TRY(pw_arena_dup(&s->build.room->arena, json, &whole));
        const pw_hash of_whole = pw_sha256_of(whole);
        hash = pw_hash_to_hex(&of_whole);
        PW_TRY(pw_build_blob(s, &hash, whole));
        settled.truncated = json.len;
        settled.whole = pw_str_from(hash.text);
    }
    return settle(s, i, &settled);
}

/* D6: nobody knows what an abandoned call did; where it can have changed nothing for good, that is
 * an error like any. */
static pw_status settle_abandoned(pw_session *s, size_t i, const pw_tool_outcome *outcome)
{
    const pw_live_call *live = live_of(s, i);
    if (live->effects == PW_EFFECTS_ONCE) {
        return settle_unknown(s, i);
    }
    if (outcome->limit_passed) {
        return settle_error(
            s, i, PW_OUTCOME_ERROR, PW_STR("Timeout"),
            live->effects == PW_EFFECTS_TRANSACTIONAL
                ? PW_STR("the call did not end within its time limit; everything it "
                         "wrote was undone")
                : PW_STR("the call did not end within its time limit"));
    }
    return settle_error(s, i, PW_OUTCOME_ERROR, PW_STR("Aborted"),
                        PW_STR("the call was stopped before it ended"));
}

/* The call's own end becomes its receipt. F2: a fatal one is the turn's end too. */
static pw_status settle_ended(pw_session *s, size_t i)
{
    const pw_tool_outcome *outcome = live_of(s, i)->outcome;
    switch (outcome->kind) {
    case PW_TOOL_RESULT:
        return settle_result(s, i, outcome->json);
    case PW_TOOL_ERROR:
        return settle_error(s, i, PW_OUTCOME_ERROR, outcome->error_class, outcome->message);
    case PW_TOOL_FATAL:
        return settle_error(s, i, PW_OUTCOME_ERROR, PW_STR_NONE, outcome->message);
    case PW_TOOL_ABANDONED:
        return settle_abandoned(s, i, outcome);
    }
    PW_NEVER("an outcome of no kind");
}

static pw_status settle_and_judge(pw_session *s, size_t i)
{
    const pw_tool_outcome *outcome = live_of(s, i)->outcome;
    const pw_call *call = &s->d.turn.calls[i];
    PW_TRY(settle_ended(s, i));
    if (outcome->kind != PW_TOOL_FATAL) {
        return PW_OK;
    }
    pw_str detail;
    PW_TRY(pw_value_text(&s->scratch, outcome->message, PW_ERROR_CHARACTERS_MAX, &detail));
    return pw_turn_end(s, &(pw_ending){
                              .state = PW_TURN_FAILED,
                              .reason = "tool_fatal",
                              .detail = detail,
                              .code = "tool_fatal",
                              .code_detail = call->part->name,
                          });
}

/* --- Closing what is owed when the turn ends --- */

static pw_status make_ghost(pw_session *s, size_t i, bool answered)
{
    pw_live_call *live = live_of(s, i);
    const pw_call *call = &s->d.turn.calls[i];
    pw_ghost *ghost;
    PW_TRY(pw_ghost_new(s, &ghost));
    pw_arena *arena = &ghost->room->arena;
    ghost->call = live->call;
    ghost->answered = answered;
    ghost->effects = live->effects;
    PW_TRY(pw_arena_dup(arena, s->d.turn.id, &ghost->turn));
    PW_TRY(pw_arena_dup(arena, call->step, &ghost->step));
    PW_TRY(pw_arena_dup(arena, call->part->call, &ghost->id));
    PW_TRY(pw_arena_dup(arena, call->part->name, &ghost->name));
    if (!answered) {
        ghost->held = live->room;
        live->room = NULL;
    }
    return PW_OK;
}

/* I1, D6: a running call is aborted and settled at once; its own end comes later and changes
 * nothing. */
static pw_status close_running(pw_session *s, size_t i, const pw_ending *ending)
{
    pw_live_call *live = live_of(s, i);
    pw_effect *effect = pw_effect_add(s, PW_DO_ABORT);
    if (!effect) {
        return PW_NOMEM;
    }
    effect->abort.call = live->call;
    effect->abort.for_good = true;
    PW_TRY(make_ghost(s, i, false));
    if (live->effects == PW_EFFECTS_ONCE) {
        return settle_unknown(s, i);
    }
    if (ending->state == PW_TURN_CANCELLED) {
        return settle_words(s, i, PW_OUTCOME_CANCELLED, PW_STR("{\"cancelled\":true}"));
    }
    return settle_error(s, i, PW_OUTCOME_ERROR, PW_STR("Aborted"),
                        PW_STR("the call was stopped because the turn ended"));
}

static pw_status close_not_run(pw_session *s, size_t i, const pw_ending *ending)
{
    switch (ending->state) {
    case PW_TURN_CANCELLED:
        return settle_words(s, i, PW_OUTCOME_CANCELLED, PW_STR("{\"cancelled\":true}"));
    case PW_TURN_PAUSED:
    case PW_TURN_EXHAUSTED:
        return settle_error(s, i, PW_OUTCOME_PAUSED, PW_STR_NONE,
                            PW_STR("not run: the turn reached a bound of its budget and paused"));
    case PW_TURN_COMPLETED:
        return settle_error(s, i, PW_OUTCOME_CANCELLED, PW_STR_NONE,
                            PW_STR("not run: the reply that asked for it was withheld"));
    case PW_TURN_FAILED:
    case PW_TURN_RUNNING:
    case PW_TURN_WAITING:
    case PW_TURN_SUSPENDED:
        return settle_error(s, i, PW_OUTCOME_CANCELLED, PW_STR_NONE,
                            PW_STR("not run: the turn failed"));
    }
    PW_NEVER("an ending of no state");
}

/* Was it begun in a life that is over, so that nobody knows what it did (D4)? What can have changed
 * nothing is not. */
static bool is_unknown(const pw_session *s, size_t i)
{
    const pw_call *call = &s->d.turn.calls[i];
    const pw_tool_declaration *tool = NULL;
    pw_effects_class effects = PW_EFFECTS_ONCE;
    const bool there = pw_call_tool(s, call->part->name, &tool, &effects);
    if (s->v.live[i].state != PW_LIVE_IDLE) {
        return false;
    }
    if (call->intents > 0) {
        return true;
    }
    /* A tool that the start did not know never ran. */
    if (tool && call->perhaps > 0) {
        if (effects == PW_EFFECTS_ONCE && tool->effects != PW_EFFECTS_ONCE) {
            return true; /* it was declared milder when it was begun, so it has no intent (C7) */
        }
        if (effects == PW_EFFECTS_IDEMPOTENT && !there) {
            return true; /* it is gone today: nothing can run it again with its key (C7) */
        }
    }
    return s->d.turn.damaged && effects != PW_EFFECTS_NONE;
}

pw_status pw_calls_close(pw_session *s, const pw_ending *ending)
{
    PW_TRY(pw_calls_live(s));
    for (size_t i = 0; i < s->d.turn.call_count; i++) {
        if (s->d.turn.calls[i].closed) {
            continue;
        }
        const pw_live_state state = live_of(s, i)->state;
        const bool unsure =
            is_unknown(s, i) || (state == PW_LIVE_IDLE && s->d.turn.calls[i].perhaps > 0 &&
                                 effects_of(s, &s->d.turn.calls[i]) == PW_EFFECTS_IDEMPOTENT);
        if (state == PW_LIVE_ENDED) {
            PW_TRY(settle_ended(s, i));
        } else if (state == PW_LIVE_RUNNING) {
            PW_TRY(close_running(s, i, ending));
        } else if (unsure) {
            PW_TRY(settle_unknown(s, i));
        } else {
            PW_TRY(close_not_run(s, i, ending));
        }
    }
    return PW_OK;
}

/* --- Beginning a call
 * -----------------------------------------------------------------------------------------------
 */

static int64_t limit_at(const pw_session *s, const pw_tool_declaration *tool)
{
    const int64_t at = s->v.now_ms + tool->limit_ms, deadline = s->d.turn.deadline_at_ms;
    return deadline >= 0 && deadline < at ? deadline : at;
}

/* The room of the call, the call in it, and an execution more. */
static pw_status new_tool_call(pw_session *s, size_t i, const pw_tool_declaration *tool,
                               pw_effects_class effects, pw_tool_call **ret)
{
    const pw_call *call = &s->d.turn.calls[i];
    pw_live_call *live = live_of(s, i);
    pw_room *room = pw_room_new(s, 512);
    if (!room) {
        return PW_NOMEM;
    }
    pw_tool_call *to = PW_NEW(&room->arena, pw_tool_call);
    pw_sha256 hash;
    pw_sha256_begin(&hash); /* D1 */
    pw_sha256_add_sized(&hash, s->uid);
    pw_sha256_add_sized(&hash, s->d.turn.id);
    pw_sha256_add_sized(&hash, call->step);
    const pw_hash key = pw_sha256_end(&hash);
    const pw_hash_hex hex = pw_hash_to_hex(&key);
    if (!to || pw_arena_dup(&room->arena, pw_str_from(hex.text), &to->key) != PW_OK) {
        return PW_NOMEM;
    }
    if (live->state == PW_LIVE_IDLE) {
        live->execution = (live->execution > 0 ? live->execution : call->perhaps) + 1;
    }
    live->state = PW_LIVE_RUNNING;
    live->call = pw_next_id(s);
    live->started_at_ms = s->v.now_ms;
    live->effects = effects;
    live->room = room;
    to->call = live->call;
    to->turn = s->d.turn.id;
    to->step = call->step;
    to->attempt = (int32_t)live->execution;
    to->tool = tool;
    to->effects = effects;
    to->name = call->part->name;
    to->arguments = call->part->arguments;
    to->speaker = s->d.turn.speaker;
    to->initiator = s->d.initiator;
    to->limit_ms = limit_at(s, tool) - s->v.now_ms;
    *ret = to;
    return PW_OK;
}

static pw_status begin_plain(pw_session *s, size_t i, const pw_tool_declaration *tool,
                             pw_effects_class effects, int64_t limit_ms)
{
    if (pw_building(s)) {
        return PW_OK;
    }
    pw_tool_call *to;
    PW_TRY(new_tool_call(s, i, tool, effects, &to));
    if (limit_ms >= 0 && limit_ms < to->limit_ms) { /* a clock set back gives no more time (J6) */
        to->limit_ms = limit_ms;
    }
    pw_effect *effect = pw_effect_add(s, PW_DO_TOOL);
    if (!effect) {
        return PW_NOMEM;
    }
    effect->tool = to;
    return PW_OK;
}

/* The intent is durable before the call (D4); its limit counts from there, and is absolute (D8). */
static pw_status begin_once(pw_session *s, size_t i, const pw_tool_declaration *tool,
                            pw_progress *progress)
{
    const pw_call *call = &s->d.turn.calls[i];
    pw_live_call *live = live_of(s, i);
    if (live->state == PW_LIVE_INTENT && pw_building(s)) {
        return PW_OK;
    }
    if (live->state == PW_LIVE_INTENT && s->v.now_ms >= call->limit_at_ms) {
        *progress = PW_MOVED;
        return settle_error(s, i, PW_OUTCOME_ERROR, PW_STR("Timeout"),
                            PW_STR("not run: its time limit passed before it could begin"));
    }
    if (live->state == PW_LIVE_INTENT) {
        return begin_plain(s, i, tool, PW_EFFECTS_ONCE, call->limit_at_ms - s->v.now_ms);
    }
    PW_TRY(pw_build_begin(s));
    pw_draft draft = {.kind = PW_RECORD_TOOL_STARTED, .turn = s->d.turn.id, .step = call->step};
    live->execution = call->intents + 1;
    live->effects = PW_EFFECTS_ONCE;
    live->state = PW_LIVE_INTENT;
    PW_TRY(pw_encode_tool_started(s, call, live->execution, limit_at(s, tool), &draft.body));
    return pw_build_add(s, &draft);
}

/* D2: the receipt, all but the result, goes along with the call. */
static pw_status begin_transaction(pw_session *s, size_t i, const pw_tool_declaration *tool)
{
    if (pw_building(s) || s->v.now_ms < s->v.store_at_ms) {
        return PW_OK;
    }
    s->v.store_at_ms = -1;
    const pw_call *call = &s->d.turn.calls[i];
    pw_tool_call *to;
    PW_TRY(new_tool_call(s, i, tool, PW_EFFECTS_TRANSACTIONAL, &to));
    PW_TRY(pw_build_begin(s));
    pw_receipt *receipt = PW_NEW(&s->build.room->arena, pw_receipt);
    if (!receipt) {
        return PW_NOMEM;
    }
    const pw_live_call *live = live_of(s, i);
    const pw_settled settled = {
        .effects = PW_EFFECTS_TRANSACTIONAL,
        .outcome = PW_OUTCOME_DONE,
        .started_at_ms = live->started_at_ms,
        .executions = live->execution,
    };
    PW_TRY(pw_encode_receipt(s, call, &settled, tool->result_limit, receipt));
    const pw_draft draft = {
        .kind = PW_RECORD_TOOL_COMPLETED, .turn = s->d.turn.id, .step = call->step};
    return pw_build_transact(s, i, receipt, to, &draft);
}

static pw_status begin(pw_session *s, size_t i, pw_progress *progress)
{
    const pw_tool_declaration *tool;
    pw_effects_class effects;
    const bool there = pw_call_tool(s, s->d.turn.calls[i].part->name, &tool, &effects);
    PW_ASSERT(there); /* pw_call_check said so */
    switch (effects) {
    case PW_EFFECTS_NONE:
    case PW_EFFECTS_IDEMPOTENT:
        return begin_plain(s, i, tool, effects, -1);
    case PW_EFFECTS_ONCE:
        return begin_once(s, i, tool, progress);
    case PW_EFFECTS_TRANSACTIONAL:
        return begin_transaction(s, i, tool);
    }
    PW_NEVER("effects of no class");
}

/* --- Deciding about the next call --- */

/* F4. */
static pw_status refuse_repeated(pw_session *s, size_t i)
{
    const pw_call *call = &s->d.turn.calls[i];
    if (call->streak >= 4) {
        return pw_turn_end(s, &(pw_ending){
                                  .state = PW_TURN_FAILED,
                                  .reason = "repetition",
                                  .detail = PW_STR("the model made the same call with the same "
                                                   "outcome in five steps running"),
                                  .code = "repetition",
                                  .code_detail = call->part->name,
                              });
    }
    return settle_error(
        s, i, PW_OUTCOME_REPEATED, PW_STR_NONE,
        PW_STR("not run: this very call had the same outcome in the steps before. "
               "Repeating it will not help: change the arguments, use another tool, "
               "or tell the user what stands in the way."));
}

/* F3. */
static pw_status refuse_malformed(pw_session *s, size_t i, const char *code, pw_str result)
{
    PW_TRY(settle_words(s, i, PW_OUTCOME_MALFORMED, result));
    if (s->d.turn.totals.protocol_failures <= s->v.pinned->max_protocol_failures) {
        return PW_OK;
    }
    return pw_turn_end(s,
                       &(pw_ending){
                           .state = PW_TURN_FAILED,
                           .reason = "protocol",
                           .detail = PW_STR("the model made too many calls that could not be run"),
                           .code = "protocol",
                           .code_detail = pw_str_from(code),
                       });
}

static pw_status decide(pw_session *s, size_t i, pw_progress *progress)
{
    const pw_call *call = &s->d.turn.calls[i];
    const char *code = NULL;
    pw_str result;
    pw_ending ending;
    bool reached = false;
    const pw_budget *budget = &s->d.turn.budget;
    *progress = PW_MOVED;
    if (live_of(s, i)->state == PW_LIVE_INTENT) {
        /* It was decided on when its intent was written. */
        *progress = PW_HELD;
        return begin(s, i, progress);
    }
    if (budget->max_iterations >= 0 && s->d.turn.totals.iterations >= budget->max_iterations) {
        PW_TRY(pw_bound_words(s, &ending, "max_iterations", budget->max_iterations));
        return pw_turn_end(s, &ending);
    }
    if (call->streak >= 2) {
        return refuse_repeated(s, i);
    }
    if (!live_of(s, i)
             ->fits) { /* once: it is decided on again when the append under way is durable */
        PW_TRY(pw_call_check(s, call->part, &s->scratch, &code, &result));
        if (code) {
            return refuse_malformed(s, i, code, result);
        }
        live_of(s, i)->fits = true;
    }
    PW_TRY(pw_bound_reached(s, true, &ending, &reached));
    if (reached) {
        return pw_turn_end(s, &ending);
    }
    *progress = PW_HELD;
    return begin(s, i, progress);
}

pw_status pw_calls_advance(pw_session *s, pw_progress *progress)
{
    bool ended;
    PW_TRY(pw_calls_live(s));
    const size_t i = pw_first_owed(&s->d.turn);
    if (i == s->d.turn.call_count) {
        pw_phase_move(s, PW_PHASE_ASKING);
        *progress = PW_MOVED;
        return PW_OK;
    }
    if (live_of(s, i)->state == PW_LIVE_ENDED) {
        *progress = PW_MOVED;
        return settle_and_judge(s, i);
    }
    PW_TRY(pw_turn_interrupt(s, &ended));
    if (ended) {
        return PW_OK;
    }
    const bool running = live_of(s, i)->state == PW_LIVE_RUNNING;
    if (s->v.attempt_due && !s->v.draining) {
        PW_TRY(pw_attempt_begin(s));
    }
    if (running) {
        return PW_OK;
    }
    if (s->v.draining && live_of(s, i)->state == PW_LIVE_INTENT) {
        /* Its intent alone would read as an unknown outcome for ever (D4), and it never began. */
        *progress = PW_MOVED;
        return settle_error(s, i, PW_OUTCOME_ERROR, PW_STR("NotStarted"),
                            PW_STR("not run: the program was stopping before it could begin"));
    }
    if (s->v.draining) {
        return pw_building(s) ? PW_OK : pw_rest_now(s, false);
    }
    if (is_unknown(s, i)) {
        *progress = PW_MOVED;
        return settle_unknown(s, i);
    }
    return decide(s, i, progress);
}

/* --- What comes from outside --- */

static pw_status keep_outcome(pw_arena *arena, const pw_tool_outcome *outcome,
                              const pw_tool_outcome **ret)
{
    pw_tool_outcome *copy = PW_NEW(arena, pw_tool_outcome);
    if (!copy) {
        return PW_NOMEM;
    }
    *copy = *outcome;
    PW_TRY(pw_arena_dup(arena, outcome->json, &copy->json));
    PW_TRY(pw_arena_dup(arena, outcome->error_class, &copy->error_class));
    PW_TRY(pw_arena_dup(arena, outcome->message, &copy->message));
    *ret = copy;
    return PW_OK;
}

pw_status pw_ghost_new(pw_session *s, pw_ghost **ret)
{
    pw_room *room = pw_room_new(s, 512);
    pw_ghost *ghost = room ? PW_NEW(&room->arena, pw_ghost) : NULL;
    if (!ghost) {
        return PW_NOMEM;
    }
    ghost->room = room;
    ghost->next = s->v.ghosts;
    s->v.ghosts = ghost;
    *ret = ghost;
    return PW_OK;
}

/* D8: the end of a call that was settled before. */
static pw_status ghost_ended(pw_session *s, pw_ghost *ghost, const pw_tool_outcome *outcome)
{
    ghost->answered = true;
    if (ghost->effects == PW_EFFECTS_NONE || ghost->turn.len == 0) {
        ghost->over = true;
        return PW_OK;
    }
    if (outcome->kind == PW_TOOL_ABANDONED || ghost->kept) {
        return PW_OK; /* its thread may still come back with a result */
    }
    pw_room *kept = pw_room_new(s, 512);
    if (!kept) {
        return PW_NOMEM;
    }
    ghost->kept = kept;
    return keep_outcome(&kept->arena, outcome, &ghost->late);
}

static pw_status call_over(pw_session *s, size_t i, const pw_tool_outcome *outcome)
{
    pw_live_call *live = live_of(s, i);
    const bool inside = s->v.append.transact && s->v.append.call_index == i;
    if (inside && outcome->kind == PW_TOOL_RESULT) {
        return PW_OK; /* its result comes with the receipt, or not at all */
    }
    pw_room *kept = pw_room_new(s, 512);
    if (!kept) {
        return PW_NOMEM;
    }
    PW_TRY(keep_outcome(&kept->arena, outcome, &live->outcome));
    live->kept = kept;
    live->state = PW_LIVE_ENDED;
    if (inside) {
        pw_room_leave(s, s->v.append.room);
        s->v.append = (pw_pending){0};
    }
    if (outcome->kind == PW_TOOL_ABANDONED && live->effects != PW_EFFECTS_NONE && !inside) {
        return make_ghost(s, i, true);
    }
    return PW_OK;
}

pw_status pw_call_ended(pw_session *s, const pw_input *input)
{
    for (size_t i = 0; i < s->v.live_count; i++) {
        if (s->v.live[i].state == PW_LIVE_RUNNING && s->v.live[i].call == input->tool.call) {
            return call_over(s, i, input->tool.outcome);
        }
    }
    for (pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        if (!ghost->model && ghost->call == input->tool.call) {
            return ghost_ended(s, ghost, input->tool.outcome);
        }
    }
    return PW_OK;
}

/* Where the call was settled: in this turn or an earlier one. NULL: the window does not reach back
 * to it. */
static const pw_message *settled_as(const pw_session *s, pw_str step)
{
    for (size_t i = s->d.end; i > s->d.first; i--) {
        const pw_message *message = s->d.list[i - 1];
        if (message->role == PW_ROLE_TOOL && pw_str_equal(message->step, step)) {
            return message;
        }
    }
    return NULL;
}

/* Its late result is evidence (D8) of the turn that it was made in; of none, when that is not
 * known. */
static pw_status alive_ghost(pw_session *s, const pw_alive_call *alive)
{
    const pw_message *message = settled_as(s, alive->step);
    pw_ghost *ghost;
    PW_TRY(pw_ghost_new(s, &ghost));
    ghost->call = alive->call;
    ghost->effects = PW_EFFECTS_ONCE;
    PW_TRY(pw_arena_dup(&ghost->room->arena, alive->step, &ghost->step));
    if (message) {
        PW_TRY(pw_arena_dup(&ghost->room->arena, message->turn, &ghost->turn));
        PW_TRY(pw_arena_dup(&ghost->room->arena, message->name, &ghost->name));
        PW_TRY(pw_arena_dup(&ghost->room->arena, message->call, &ghost->id));
    }
    return PW_OK;
}

/* C12: a call of the session's last life in this process: its step runs, or it is a ghost. */
pw_status pw_call_alive(pw_session *s, const pw_alive_call *alive)
{
    for (size_t i = 0; i < s->d.turn.call_count; i++) {
        const pw_call *call = &s->d.turn.calls[i];
        if (!call->closed && pw_str_equal(call->step, alive->step)) {
            pw_live_call *live = live_of(s, i);
            *live = (pw_live_call){
                .state = PW_LIVE_RUNNING,
                .call = alive->call,
                .started_at_ms = s->v.now_ms,
                .execution = call->perhaps + 1,
                .effects = effects_of(s, call),
                .alive = true,
            };
            return PW_OK;
        }
    }
    if (pw_str_begins(alive->step, PW_STR("model:"))) {
        return pw_model_alive(s, alive);
    }
    return alive_ghost(s, alive);
}

static pw_status add_late(pw_session *s, pw_ghost *ghost)
{
    pw_outcome outcome = PW_OUTCOME_ERROR;
    pw_str result;
    PW_TRY(pw_build_begin(s));
    if (ghost->late->kind == PW_TOOL_RESULT) {
        pw_value value;
        PW_TRY(pw_value_of_result(&s->scratch, ghost->late->json, 256 * 1024, &value));
        outcome = PW_OUTCOME_DONE;
        result = value.json;
    } else {
        PW_TRY(pw_value_of_error(&s->scratch, ghost->late->error_class, ghost->late->message,
                                 &result));
    }
    pw_draft draft = {.kind = PW_RECORD_TOOL_LATE, .turn = ghost->turn, .step = ghost->step};
    PW_TRY(pw_encode_tool_late(s, ghost, outcome, result, &draft.body));
    ghost->settled = true;
    return pw_build_add(s, &draft);
}

pw_status pw_late_settle(pw_session *s)
{
    for (pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        if (ghost->late && !ghost->settled && ghost->turn.len > 0) {
            PW_TRY(add_late(s, ghost));
        }
    }
    return PW_OK;
}
