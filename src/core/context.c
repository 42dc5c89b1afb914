/* The model's side of a turn: what it is shown (B4, C9, C10), and the call that shows it. */
#include "core/state.h"

#include "base/format.h"
#include "base/utf8.h"

enum { RESPONSE_ID_MAX = 512 }; /* a longer one is not kept: the reply is asked for anew */

/* The longest run of whole turns, newest first, with at most `messages` messages; all of the window
 * when that is -1. */
uint64_t pw_context_first_seq(const pw_session *s, int64_t messages, uint64_t own_seq)
{
    const pw_message *const *window = pw_window(&s->d);
    const size_t count = pw_window_count(&s->d);
    if (count == 0 || messages == 0) {
        return own_seq;
    }
    if (messages < 0) {
        return window[0]->seq;
    }
    uint64_t first = own_seq;
    for (size_t i = count; i > 0 && (int64_t)(count - i) < messages; i--) {
        const bool begins = i == 1 || !pw_str_equal(window[i - 1]->turn, window[i - 2]->turn);
        if (begins) {
            first = window[i - 1]->seq;
        }
    }
    return first;
}

/* --- Asking
 * ----------------------------------------------------------------------------------------------------
 */

/* C9: a damaged transcript is mended by a recorded overlay before it is sent. */
static pw_status repair(pw_session *s)
{
    const pw_message *const *mended;
    const pw_transcript_fault *faults;
    size_t count, fault_count;
    PW_TRY(pw_transcript_repair(pw_window(&s->d), pw_window_count(&s->d), &s->scratch, &mended,
                                &count, &faults, &fault_count));
    PW_TRY(pw_build_begin(s));
    pw_draft draft = {.kind = PW_RECORD_TRANSCRIPT_REPAIRED, .turn = s->d.turn.id};
    PW_TRY(pw_encode_repaired(s, faults, fault_count, &draft.body));
    return pw_build_add(s, &draft);
}

static pw_status check(pw_session *s, bool *ret_valid)
{
    const size_t count = pw_window_count(&s->d);
    const size_t from = s->v.checked_version == s->d.window_version ? s->v.checked : 0;
    pw_transcript_fault fault;
    PW_TRY(pw_transcript_check_from(pw_window(&s->d), from, count, &s->scratch, ret_valid, &fault));
    if (*ret_valid) {
        s->v.checked = count;
        s->v.checked_version = s->d.window_version;
    }
    return PW_OK;
}

/* The number of the next try of the owed step, with the model that is asked now. */
static int32_t tries_of(const pw_turn *turn)
{
    return (int32_t)(turn->retries + turn->waits + turn->empties + turn->quarantines -
                     turn->earlier_quarantines + 1);
}

static pw_status fill_request(pw_session *s, pw_model_request *request)
{
    char text[32];
    const size_t len = pw_format(text, sizeof(text), "model:%lld", (long long)(s->d.messages + 1));
    pw_arena *arena = &s->v.model.room->arena;
    const pw_turn *turn = &s->d.turn;
    const size_t count = pw_window_count(&s->d);
    *request = (pw_model_request){
        .call = pw_next_id(s),
        .turn = turn->id,
        .attempt = (int32_t)turn->attempts,
        .tries = tries_of(turn),
        .definition = s->v.pinned,
        .model = pw_choice_now(s),
        .resume = turn->response_id,
        .source = turn->source,
        .messages = pw_window(&s->d),
        .count = count,
        .same = s->v.sent_version == s->d.window_version ? s->v.sent : 0,
        .deadline_at_ms = turn->deadline_at_ms,
    };
    return pw_arena_dup(arena, (pw_str){text, len}, &request->step);
}

pw_status pw_model_ask(pw_session *s)
{
    bool valid;
    PW_TRY(check(s, &valid));
    if (!valid) {
        return repair(s);
    }
    pw_room *room = pw_room_new(s, 512);
    pw_effect *effect = pw_effect_add(s, PW_DO_MODEL);
    pw_model_request *request = room ? PW_NEW(&room->arena, pw_model_request) : NULL;
    if (!effect || !request) {
        return PW_NOMEM;
    }
    s->v.model = (pw_live_model){.room = room};
    PW_TRY(fill_request(s, request));
    s->v.model.state = PW_LIVE_RUNNING;
    s->v.model.call = request->call;
    s->v.model.step = request->step;
    s->v.model.tries = request->tries;
    s->v.model.started_at_ms = s->v.now_ms;
    s->v.text_bytes = 0;
    s->text.len = 0;
    s->v.sent = request->count;
    s->v.sent_version = s->d.window_version;
    effect->model = request;
    return PW_OK;
}

/* A call of the session's last life in this process: the step that is owed, or one that no longer
 * counts. */
pw_status pw_model_alive(pw_session *s, const pw_alive_call *alive)
{
    char text[32];
    const size_t len = pw_format(text, sizeof(text), "model:%lld", (long long)(s->d.messages + 1));
    if (s->v.phase != PW_PHASE_ASKING || !pw_str_equal(alive->step, (pw_str){text, len})) {
        pw_ghost *ghost;
        PW_TRY(pw_ghost_new(s, &ghost));
        ghost->model = true;
        ghost->call = alive->call;
        return PW_OK;
    }
    pw_room *room = pw_room_new(s, 512);
    if (!room) {
        return PW_NOMEM;
    }
    s->v.model = (pw_live_model){
        .state = PW_LIVE_RUNNING,
        .call = alive->call,
        .room = room,
        .started_at_ms = s->v.now_ms,
        .tries = tries_of(&s->d.turn),
    };
    PW_TRY(pw_arena_dup(&room->arena, alive->step, &s->v.model.step));
    const pw_input accepted = {
        .kind = PW_IN_MODEL_ACCEPTED,
        .accepted = {.call = alive->call, .response_id = alive->response_id}};
    return pw_model_accepted(s, &accepted);
}

/* The call goes on until it has ended; what it says no longer counts (I7: nobody waits for it). */
pw_status pw_model_abort(pw_session *s, bool for_good)
{
    pw_ghost *ghost;
    pw_effect *effect = pw_effect_add(s, PW_DO_ABORT);
    if (!effect) {
        return PW_NOMEM;
    }
    PW_TRY(pw_ghost_new(s, &ghost));
    effect->abort.call = s->v.model.call;
    effect->abort.for_good = for_good;
    ghost->model = true;
    ghost->call = s->v.model.call;
    ghost->held = s->v.model.room;
    s->v.model = (pw_live_model){0};
    s->v.text_bytes = 0;
    s->text.len = 0;
    return PW_OK;
}

/* --- Hearing
 * ---------------------------------------------------------------------------------------------------
 */

/* The provider works on it under an id: recorded soon (pw_accepted_add), so that a process after
 * this one can go on with that reply. Nothing waits for it. */
pw_status pw_model_accepted(pw_session *s, const pw_input *input)
{
    pw_live_model *model = &s->v.model;
    const pw_str id = input->accepted.response_id;
    if (model->state != PW_LIVE_RUNNING || model->call != input->accepted.call || id.len == 0 ||
        id.len > RESPONSE_ID_MAX || !pw_utf8_clean(id) || pw_str_equal(id, s->d.turn.response_id)) {
        return PW_OK;
    }
    return pw_arena_dup(&model->room->arena, id, &model->accepted);
}

pw_status pw_accepted_add(pw_session *s)
{
    if (s->v.model.accepted.len == 0) {
        return PW_OK;
    }
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_ACCEPTED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_build_begin(s));
    PW_TRY(pw_encode_accepted(s, s->v.model.accepted, &draft.body));
    s->v.model.accepted = PW_STR_NONE;
    return pw_build_add(s, &draft);
}

pw_status pw_model_delta(pw_session *s, const pw_input *input)
{
    if (s->v.model.state != PW_LIVE_RUNNING || s->v.model.call != input->delta.call) {
        return PW_OK;
    }
    const pw_str bytes = input->delta.bytes;
    pw_str copy;
    pw_effect *effect = pw_effect_add(s, PW_DO_TELL);
    if (!effect) {
        return PW_NOMEM;
    }
    PW_TRY(pw_arena_dup(&s->step, bytes, &copy));
    if (!input->delta.reasoning) {
        if (s->text.len + bytes.len <= s->text.maximum) {
            PW_TRY(pw_buffer_add(&s->text, bytes));
        }
        s->v.text_bytes += bytes.len;
    }
    effect->tell.reasoning = input->delta.reasoning;
    effect->tell.step = s->v.model.step;
    effect->tell.attempt = (int32_t)s->d.turn.attempts;
    effect->tell.after_seq = s->d.last_seq;
    effect->tell.text_bytes = s->v.text_bytes;
    effect->tell.bytes = copy;
    return PW_OK;
}

static pw_status keep_failure(pw_arena *arena, const pw_failure *failure, const pw_failure **ret)
{
    pw_failure *copy = PW_NEW(arena, pw_failure);
    if (!copy) {
        return PW_NOMEM;
    }
    *copy = *failure;
    pw_str code, message;
    PW_TRY(pw_value_text(arena, failure->code, 200, &code));
    PW_TRY(pw_value_text(arena, failure->message, PW_ERROR_CHARACTERS_MAX, &message));
    PW_TRY(pw_arena_dup(arena, code, &copy->code));
    PW_TRY(pw_arena_dup(arena, message, &copy->message));
    *ret = copy;
    return PW_OK;
}

pw_status pw_model_ended(pw_session *s, const pw_input *input)
{
    const bool failed = input->kind == PW_IN_MODEL_FAILED;
    const uint64_t call = failed ? input->failed.call : input->reply.call;
    for (pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        if (ghost->model && ghost->call == call) {
            ghost->answered = ghost->over = true;
        }
    }
    pw_live_model *model = &s->v.model;
    if (model->state != PW_LIVE_RUNNING || model->call != call) {
        return PW_OK;
    }
    pw_room *kept = pw_room_new(s, 1024);
    if (!kept) {
        return PW_NOMEM;
    }
    if (failed) {
        PW_TRY(keep_failure(&kept->arena, input->failed.failure, &model->failure));
    } else {
        PW_TRY(pw_reply_keep(s, input->reply.reply, &kept->arena, &model->reply));
    }
    model->kept = kept;
    model->state = PW_LIVE_ENDED;
    return PW_OK;
}
