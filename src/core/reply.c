/* What came back from the model: keeping it fit for ever, and what it means for the turn (C6, F5).
 */
#include "core/state.h"

#include "base/format.h"
#include "base/utf8.h"

enum {
    TRIES_MAX = 4,       /* F5 */
    QUARANTINES_MAX = 8, /* of one step (C9) */
    BACKOFF_MS = 1000,
    BACKOFF_RATE_MS = 5000,
    BACKOFF_MAX_MS = 60000,
    WAIT_MIN_MS = 1000,
    WAIT_JITTER_MAX_MS = 1000,
    WAIT_HELD_MAX_MS = 5000 /* F10: longer waits are journalled and hold nothing */
};

/* --- Keeping a reply --- */

/* C1: the provider's id where it can be ours and is the only one of its kind in the message. */
static bool id_fits(const pw_reply *reply, size_t at)
{
    const pw_str id = reply->parts[at].provider_id;
    if (id.len == 0 || id.len > 64) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        const char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    for (size_t i = 0; i < reply->part_count; i++) {
        if (i != at && reply->parts[i].kind == PW_PART_TOOL_CALL &&
            pw_str_equal(reply->parts[i].provider_id, id)) {
            return false;
        }
    }
    return true;
}

static pw_status keep_text(pw_arena *arena, pw_str text, pw_str *ret)
{
    pw_str fit;
    PW_TRY(pw_value_text(arena, text, SIZE_MAX, &fit));
    return pw_arena_dup(arena, fit, ret);
}

/* Arguments are one JSON object, or the call is broken: never run and never sent as they are (F3,
 * C9). */
static pw_status keep_arguments(pw_arena *arena, pw_part *part)
{
    pw_str json = pw_str_trim(part->arguments);
    bool fit = false;
    if (!part->broken && json.len == 0) {
        json = PW_STR("{}");
    }
    if (!part->broken && json.ptr[0] == '{') {
        PW_TRY(pw_value_clean(arena, json, &json, &fit));
    }
    part->broken = !fit;
    return fit ? pw_arena_dup(arena, json, &part->arguments)
               : keep_text(arena, part->arguments, &part->arguments);
}

static pw_status keep_part(const pw_reply *reply, size_t at, pw_arena *arena, pw_part *part)
{
    *part = reply->parts[at];
    PW_TRY(keep_text(arena, part->text, &part->text));
    bool fit = false;
    pw_str raw = part->raw;
    if (raw.len > 0 && pw_utf8_valid(raw)) {
        PW_TRY(pw_value_clean(arena, raw, &raw, &fit));
    }
    /* A signature holds for the very bytes that were signed: mended thinking is worth nothing (C8).
     */
    fit = fit && (part->kind != PW_PART_THINKING || raw.ptr == part->raw.ptr);
    part->raw = raw;
    if (fit) {
        PW_TRY(pw_arena_dup(arena, part->raw, &part->raw));
    } else {
        part->raw = PW_STR_NONE;
    }
    if (part->kind != PW_PART_TOOL_CALL) {
        return PW_OK;
    }
    PW_TRY(keep_text(arena, part->name, &part->name));
    PW_TRY(keep_text(arena, part->provider_id, &part->provider_id));
    if (id_fits(reply, at)) {
        part->call = part->provider_id;
    } else {
        char text[24];
        const size_t len = pw_format(text, sizeof(text), ".%zu", at + 1);
        PW_TRY(pw_arena_dup(arena, (pw_str){text, len}, &part->call));
    }
    return keep_arguments(arena, part);
}

pw_status pw_reply_keep(pw_session *s, const pw_reply *reply, pw_arena *arena, const pw_reply **ret)
{
    pw_reply *copy = PW_NEW(arena, pw_reply);
    pw_part *parts = PW_NEW_ARRAY(arena, pw_part, reply->part_count);
    if (!copy || !parts) {
        return PW_NOMEM;
    }
    *copy = *reply;
    copy->parts = parts;
    for (size_t i = 0; i < reply->part_count; i++) {
        PW_TRY(keep_part(reply, i, arena, &parts[i]));
    }
    const pw_model_choice *asked = pw_choice_now(s);
    const pw_str provider = reply->provider.len > 0 ? reply->provider : asked->provider;
    const pw_str model = reply->model.len > 0 ? reply->model : asked->name;
    PW_TRY(keep_text(arena, provider, &copy->provider));
    PW_TRY(keep_text(arena, model, &copy->model));
    PW_TRY(keep_text(arena, reply->stop_detail, &copy->stop_detail));
    PW_TRY(keep_text(arena, reply->response_id, &copy->response_id));
    *ret = copy;
    return PW_OK;
}

/* --- What is in it --- */

static bool has_calls(const pw_reply *reply)
{
    for (size_t i = 0; i < reply->part_count; i++) {
        if (reply->parts[i].kind == PW_PART_TOOL_CALL) {
            return true;
        }
    }
    return false;
}

/* Something for a person to read. */
static bool says_something(const pw_reply *reply)
{
    for (size_t i = 0; i < reply->part_count; i++) {
        const pw_part *part = &reply->parts[i];
        if ((part->kind == PW_PART_TEXT || part->kind == PW_PART_REFUSAL) &&
            pw_str_trim(part->text).len > 0) {
            return true;
        }
    }
    return false;
}

/* The reply's text: its text parts in a row, as they streamed; its refusal where it has no text. */
static pw_status text_of(const pw_reply *reply, pw_arena *arena, pw_str *ret)
{
    static const pw_part_kind kinds[] = {PW_PART_TEXT, PW_PART_REFUSAL};
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
    for (size_t k = 0; k < 2 && pw_str_trim(pw_buffer_str(&out)).len == 0; k++) {
        for (size_t i = 0; i < reply->part_count; i++) {
            if (reply->parts[i].kind == kinds[k]) {
                PW_TRY(pw_buffer_add(&out, reply->parts[i].text));
            }
        }
    }
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

pw_status pw_text_so_far(pw_session *s, pw_str *ret)
{
    *ret = PW_STR_NONE;
    if (s->v.model.state == PW_LIVE_ENDED && s->v.model.reply) {
        return text_of(s->v.model.reply, &s->scratch, ret);
    }
    if (s->v.model.state == PW_LIVE_RUNNING || s->v.model.state == PW_LIVE_ENDED) {
        return pw_arena_dup(&s->scratch, pw_buffer_str(&s->text), ret);
    }
    return PW_OK;
}

/* --- A whole reply (C6) --- */

static pw_status add_completed(pw_session *s, const pw_reply *reply)
{
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_COMPLETED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_model_completed(s, reply, s->d.messages + 1, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->build.receipt = true;
    s->v.model.state = PW_LIVE_SETTLED;
    return PW_OK;
}

static pw_status complete(pw_session *s, const pw_reply *reply, bool silent)
{
    const bool plain = reply->stop == PW_STOP_TOOL_CALLS;
    pw_ending ending = {
        .state = PW_TURN_COMPLETED,
        .stop = pw_stop_name(plain ? PW_STOP_DONE : reply->stop),
        .detail = reply->stop_detail,
        .silent = silent,
    };
    if (!silent) {
        PW_TRY(text_of(reply, &s->scratch, &ending.text));
    }
    return pw_turn_end(s, &ending);
}

/* Nothing in it: asked once more after a normal end, else the end of the turn. */
static pw_status settle_empty(pw_session *s, const pw_reply *reply)
{
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_DISCARDED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_discarded(s, PW_STR("empty_reply"), &reply->usage, &draft.body));
    const bool again = reply->stop == PW_STOP_PAUSED || reply->stop == PW_STOP_COMPACTED;
    const bool normal = reply->stop == PW_STOP_DONE || reply->stop == PW_STOP_TOOL_CALLS ||
                        reply->stop == PW_STOP_STOP_SEQUENCE;
    const bool first = s->d.turn.empties == 0;
    PW_TRY(pw_build_add(s, &draft));
    s->v.model.state = PW_LIVE_SETTLED;
    if (again || (normal && first)) {
        pw_phase_move(s, PW_PHASE_ASKING);
        return PW_OK;
    }
    if (normal && s->d.turn.changed_something) {
        return complete(s, reply, true);
    }
    return pw_turn_end(s,
                       &(pw_ending){
                           .state = PW_TURN_FAILED,
                           .reason = "empty_reply",
                           .detail = reply->stop_detail.len > 0
                                         ? reply->stop_detail
                                         : PW_STR("the model ended its reply with nothing in it"),
                           .stop = pw_stop_name(reply->stop),
                           .code = "empty_reply",
                           .code_detail = pw_str_from(pw_stop_name(reply->stop)),
                       });
}

static pw_status end_context(pw_session *s, pw_str detail)
{
    pw_ending ending;
    PW_TRY(pw_bound_words(s, &ending, "context", -1));
    if (detail.len > 0) {
        ending.detail = detail;
    }
    return pw_turn_end(s, &ending);
}

static pw_status settle_reply(pw_session *s, const pw_reply *reply)
{
    if (reply->stop == PW_STOP_CONTEXT_FULL) {
        return end_context(s, reply->stop_detail);
    }
    const bool again = reply->stop == PW_STOP_PAUSED || reply->stop == PW_STOP_COMPACTED;
    const bool withheld = reply->stop == PW_STOP_REFUSED || reply->stop == PW_STOP_FILTERED;
    const bool calls = has_calls(reply);
    PW_TRY(pw_build_begin(s));
    if (!says_something(reply) && (!calls || withheld) && !(again && reply->part_count > 0)) {
        return settle_empty(s, reply);
    }
    PW_TRY(add_completed(s, reply));
    if (calls && !withheld) {
        pw_phase_move(s, PW_PHASE_RUNNING);
        return PW_OK;
    }
    if (again) {
        pw_phase_move(s, PW_PHASE_ASKING);
        return PW_OK;
    }
    return complete(s, reply, false);
}

/* --- A failure (F5) --- */

static pw_status end_failed(pw_session *s, const pw_failure *failure)
{
    return pw_turn_end(s, &(pw_ending){
                              .state = PW_TURN_FAILED,
                              .reason = "model",
                              .detail = failure->message,
                              .code = "model",
                              .code_detail = failure->code,
                          });
}

/* The failed try's own record, in the append that says what comes next. */
static pw_status add_gone(pw_session *s, const pw_failure *failure)
{
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_DISCARDED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_discarded(s, failure->code, &failure->usage, &draft.body));
    return pw_build_add(s, &draft);
}

/* What was shown of it is taken back. */
static pw_status add_discarded(pw_session *s, const pw_failure *failure)
{
    return s->v.text_bytes > 0 ? add_gone(s, failure) : PW_OK;
}

/* So, and what it used is counted, where the record that follows does not say it. */
static pw_status add_spent(pw_session *s, const pw_failure *failure)
{
    return s->v.text_bytes > 0 || pw_usage_known(&failure->usage) ? add_gone(s, failure) : PW_OK;
}

/* Will the next try find the reply that the provider works on? */
static bool may_resume(const pw_session *s, const pw_failure *failure)
{
    return s->d.turn.response_id.len > 0 &&
           (pw_failure_is_transport(failure->code) || failure->still_works);
}

static pw_status add_retrying(pw_session *s, const pw_failure *failure, const char *class_name,
                              int64_t until_ms)
{
    PW_TRY(pw_build_begin(s));
    /* The connection may have broken before the id could be recorded. */
    if (pw_failure_is_transport(failure->code)) {
        PW_TRY(pw_accepted_add(s));
    }
    PW_TRY(add_discarded(s, failure));
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_RETRYING, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(
        pw_encode_retrying(s, failure, class_name, until_ms, may_resume(s, failure), &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->v.model.state = PW_LIVE_SETTLED;
    s->v.retry_at_ms = until_ms;
    pw_phase_move(s, PW_PHASE_WAITING);
    return PW_OK;
}

static bool is_rate_limit(const pw_failure *failure)
{
    return pw_str_find(failure->code, PW_STR("rate_limit")) != SIZE_MAX ||
           pw_str_is(failure->code, "http_429");
}

/* F6: the next model is asked at once, with the same transcript. */
static pw_status fall_back(pw_session *s, const pw_failure *failure, size_t to)
{
    PW_TRY(pw_build_begin(s));
    PW_TRY(add_discarded(s, failure));
    pw_draft draft = {
        .kind = PW_RECORD_MODEL_FALLBACK, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_fallback(s, failure, to, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->v.model.state = PW_LIVE_SETTLED;
    pw_phase_move(s, PW_PHASE_ASKING);
    return PW_OK;
}

/* What is asked now will not answer: another one may, or the turn fails and says why none did. */
static pw_status settle_next(pw_session *s, const pw_failure *failure)
{
    size_t to;
    const pw_model_choice *barred;
    if (pw_choice_next(s, &to, &barred)) {
        return fall_back(s, failure, to);
    }
    if (!barred) {
        return end_failed(s, failure);
    }
    pw_failure told = *failure;
    pw_buffer words;
    pw_buffer_init_arena(&words, &s->scratch, PW_BODY_MAX);
    (void)pw_buffer_add(&words, failure->message);
    (void)pw_buffer_format(&words,
                           "%s(the fallback %.*s was not taken: it is of another provider, "
                           "and this turn has receipts already)",
                           failure->message.len > 0 ? " " : "", PW_STR_ARG(barred->name));
    PW_TRY(words.failed);
    told.message = pw_buffer_str(&words);
    return end_failed(s, &told);
}

/* C9: the part that the provider names by its position is left out from here on, and asked again.
 */
static bool may_quarantine(const pw_session *s, const pw_failure *failure)
{
    return failure->rejected && s->d.turn.quarantines < QUARANTINES_MAX &&
           failure->rejected_message < pw_window_count(&s->d) &&
           pw_part_may_leave(pw_window(&s->d)[failure->rejected_message], failure->rejected_part);
}

static pw_status quarantine(pw_session *s, const pw_failure *failure)
{
    const uint64_t seq = pw_window(&s->d)[failure->rejected_message]->seq;
    PW_TRY(pw_build_begin(s));
    PW_TRY(add_spent(s, failure));
    pw_draft draft = {
        .kind = PW_RECORD_TRANSCRIPT_REPAIRED, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_quarantined(s, seq, failure->rejected_part, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->v.model.state = PW_LIVE_SETTLED;
    pw_phase_move(s, PW_PHASE_ASKING);
    return PW_OK;
}

/* Full jitter: anywhere between now and a bound that doubles. */
static pw_status settle_retry(pw_session *s, const pw_failure *failure)
{
    if (s->d.turn.retries + 1 >= TRIES_MAX) {
        return settle_next(s, failure);
    }
    int64_t most = is_rate_limit(failure) ? BACKOFF_RATE_MS : BACKOFF_MS;
    for (int64_t i = 0; i < s->d.turn.retries && most < BACKOFF_MAX_MS; i++) {
        most *= 2;
    }
    most = most < BACKOFF_MAX_MS ? most : BACKOFF_MAX_MS;
    const int64_t pause = (int64_t)pw_random_below(&s->v.random, (uint64_t)most + 1);
    s->v.wait_reason = PW_STR("retry");
    return add_retrying(s, failure, "retry", s->v.now_ms + pause);
}

/* F10: a long wait is a record; the session lets go and is taken again when it is over. */
static pw_status settle_wait(pw_session *s, const pw_failure *failure)
{
    int64_t until = failure->until_ms;
    if (until < s->v.now_ms + WAIT_MIN_MS) {
        until = s->v.now_ms + WAIT_MIN_MS;
    }
    if (s->d.turn.deadline_at_ms >= 0 && until >= s->d.turn.deadline_at_ms) {
        pw_ending ending;
        PW_TRY(pw_bound_words(s, &ending, "deadline", -1));
        return pw_turn_end(s, &ending);
    }
    s->v.wait_reason = PW_STR("rate_limit");
    if (until - s->v.now_ms <= WAIT_HELD_MAX_MS) {
        return add_retrying(s, failure, "wait", until);
    }
    /* Many wait for the same moment: they come a little apart. */
    const int64_t tenth = (until - s->v.now_ms) / 10;
    const int64_t apart = tenth < WAIT_JITTER_MAX_MS ? tenth : WAIT_JITTER_MAX_MS;
    until += (int64_t)pw_random_below(&s->v.random, (uint64_t)apart + 1);
    PW_TRY(pw_build_begin(s));
    PW_TRY(add_spent(s, failure));
    pw_draft draft = {.kind = PW_RECORD_WAIT_SET, .turn = s->d.turn.id, .step = s->v.model.step};
    PW_TRY(pw_encode_wait(s, failure, until, may_resume(s, failure), &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    s->build.waits = true;
    s->v.model.state = PW_LIVE_SETTLED;
    pw_phase_move(s, PW_PHASE_WAITING);
    return PW_OK;
}

static pw_status settle_failure(pw_session *s, const pw_failure *failure)
{
    switch (failure->failure_class) {
    case PW_FAILURE_RETRY:
        return settle_retry(s, failure);
    case PW_FAILURE_WAIT:
        return failure->until_ms > 0 ? settle_wait(s, failure) : settle_retry(s, failure);
    case PW_FAILURE_REPAIR:
        return end_context(s, failure->message);
    case PW_FAILURE_NEXT:
        return settle_next(s, failure);
    case PW_FAILURE_FINAL:
        return may_quarantine(s, failure) ? quarantine(s, failure) : end_failed(s, failure);
    }
    PW_NEVER("a failure of no class");
}

pw_status pw_reply_settle(pw_session *s)
{
    PW_ASSERT(s->v.model.state == PW_LIVE_ENDED);
    return s->v.model.reply ? settle_reply(s, s->v.model.reply)
                            : settle_failure(s, s->v.model.failure);
}
