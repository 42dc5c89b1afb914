/*
 * Reading records (record.h documents each body). What is read comes from a store: nothing here is
 * asserted, everything wrong is PW_CORRUPT.
 *
 * A record that is missing is not an error (C9: a damaged store stays usable): the turn it belonged
 * to is marked as damaged, and what the transcript lacks is mended by a recorded overlay
 * (context.c).
 */
#include "core/fold.h"

#include "base/format.h"

typedef struct reader {
    pw_session *s;
    const pw_record *record;
    const pw_json *body;
    pw_arena *arena; /* of the turn */
    pw_prepared *p;
    pw_error *error;
} reader;

static pw_status corrupt(const reader *r, const char *what)
{
    return PW_FAIL(r->error, PW_CORRUPT, "record %llu (%s): %s", (unsigned long long)r->record->seq,
                   pw_record_kind_name(r->record->kind), what);
}

static pw_status no_memory(const reader *r)
{
    return PW_FAIL(r->error, PW_NOMEM, "out of memory at record %llu",
                   (unsigned long long)r->record->seq);
}

static pw_status keep(const reader *r, pw_str text, pw_str *ret)
{
    if (text.len == 0) {
        *ret = PW_STR_NONE;
        return PW_OK;
    }
    return pw_arena_dup(r->arena, text, ret) == PW_OK ? PW_OK : no_memory(r);
}

static pw_status keep_member(const reader *r, const pw_json *object, const char *key, pw_str *ret)
{
    return keep(r, pw_json_text(pw_json_get(object, key)), ret);
}

static int64_t number(const reader *r, const char *key, int64_t fallback)
{
    return pw_json_i64_or(pw_json_get(r->body, key), fallback);
}

static pw_status open_body(reader *r)
{
    const pw_status status = pw_json_parse(&r->s->scratch, r->record->body, 0, &r->body, r->error);
    if (status == PW_NOMEM) {
        return no_memory(r);
    }
    if (status != PW_OK || !pw_json_is(r->body, PW_JSON_OBJECT)) {
        return corrupt(r, "the body is not a JSON object");
    }
    int64_t version;
    if (!pw_json_i64(pw_json_get(r->body, "v"), &version) || version < 1) {
        return corrupt(r, "the body has no version");
    }
    if (version > 1) {
        return PW_FAIL(r->error, PW_NEWER_SCHEMA, "record %llu has a body of version %lld",
                       (unsigned long long)r->record->seq, (long long)version);
    }
    return PW_OK;
}

static pw_status new_message(const reader *r, pw_role role, pw_message **ret)
{
    pw_message *message = PW_NEW(r->arena, pw_message);
    if (!message) {
        return no_memory(r);
    }
    message->role = role;
    message->seq = r->record->seq;
    message->at_ms = r->record->at_ms;
    PW_TRY(keep(r, r->record->step, &message->step));
    const pw_turn *turn = &r->s->d.turn;
    if (turn->open && pw_str_equal(turn->id, r->record->turn)) {
        message->turn = turn->id;
    } else {
        PW_TRY(keep(r, r->record->turn, &message->turn));
    }
    *ret = message;
    return PW_OK;
}

/* --- turn.opened --- */

static void read_budget(const pw_json *object, pw_budget *budget)
{
    *budget = (pw_budget){
        .max_iterations = pw_json_i64_or(pw_json_get(object, "max_iterations"), -1),
        .max_tool_calls = pw_json_i64_or(pw_json_get(object, "max_tool_calls"), -1),
        .max_cost_micros = pw_json_i64_or(pw_json_get(object, "max_cost_micros"), -1),
        .max_tokens = pw_json_i64_or(pw_json_get(object, "max_tokens"), -1),
        .deadline_ms = pw_json_i64_or(pw_json_get(object, "deadline_ms"), -1),
    };
}

static pw_status read_request_ids(const reader *r, const pw_json *requests, pw_str *ret)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, r->arena, PW_BODY_MAX);
    pw_json_writer w;
    pw_json_begin(&w, &out);
    pw_json_array(&w);
    for (const pw_json *request = requests->child; request; request = request->next) {
        pw_json_string(&w, pw_json_text(pw_json_get(request, "id")));
    }
    pw_json_array_end(&w);
    if (out.failed != PW_OK) {
        return no_memory(r);
    }
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

static pw_status read_turn(const reader *r, const pw_json *requests, pw_turn *turn)
{
    const pw_json *first = requests->child;
    *turn = (pw_turn){.open = true, .wait_until_ms = -1, .attempts = 1};
    PW_TRY(keep(r, r->record->turn, &turn->id));
    PW_TRY(keep_member(r, r->body, "run", &turn->run));
    PW_TRY(keep_member(r, r->body, "agent", &turn->agent));
    PW_TRY(keep_member(r, r->body, "definition", &turn->definition));
    PW_TRY(keep_member(r, first, "source", &turn->source));
    const pw_json *user = pw_json_get(first, "user");
    if (pw_json_is(user, PW_JSON_OBJECT)) {
        PW_TRY(keep(r, user->raw, &turn->speaker));
    }
    PW_TRY(read_request_ids(r, requests, &turn->requests));
    read_budget(pw_json_get(r->body, "budget"), &turn->budget);
    turn->opened_at_ms = r->record->at_ms;
    turn->deadline_at_ms = number(r, "deadline_at", -1);
    turn->opened_seq = r->record->seq;
    const int64_t first_seq = number(r, "first_seq", (int64_t)r->record->seq);
    if (first_seq < 1 || (uint64_t)first_seq > r->record->seq) {
        return corrupt(r, "first_seq is out of range");
    }
    turn->first_seq = (uint64_t)first_seq;
    return PW_OK;
}

static pw_status prepare_opened(reader *r)
{
    pw_room *room = pw_room_new(r->s, 1024);
    if (!room) {
        return no_memory(r);
    }
    room->window = true;
    r->arena = &room->arena;
    pw_span *span = PW_NEW(r->arena, pw_span);
    if (!span) {
        return no_memory(r);
    }
    *span = (pw_span){.room = room, .opened_seq = r->record->seq};
    r->p->opened.span = span;

    const pw_json *requests = pw_json_get(r->body, "requests");
    if (!pw_json_is(requests, PW_JSON_ARRAY) || requests->count == 0 || r->record->turn.len == 0) {
        return corrupt(r, "it names no turn or no requests");
    }
    PW_TRY(read_turn(r, requests, &r->p->opened.turn));
    const pw_json *before = pw_json_get(r->body, "before");
    r->p->opened.n = number(r, "n", 0);
    r->p->opened.generation = number(r, "generation", 0);
    r->p->opened.turns = pw_json_i64_or(pw_json_get(before, "turns"), 0);
    pw_decode_totals(pw_json_get(before, "usage"), &r->p->opened.totals);
    if (r->p->opened.n < 1) {
        return corrupt(r, "its message has no number");
    }
    const pw_json *initiator = pw_json_get(r->body, "initiator");
    if (pw_json_is(initiator, PW_JSON_OBJECT)) {
        PW_TRY(keep(r, initiator->raw, &r->p->opened.initiator));
    }
    const bool trigger = pw_str_is(pw_json_text(pw_json_get(requests->child, "role")), "trigger");
    pw_message *message;
    PW_TRY(new_message(r, trigger ? PW_ROLE_TRIGGER : PW_ROLE_USER, &message));
    message->turn = r->p->opened.turn.id;
    message->n = r->p->opened.n;
    const pw_part *parts;
    if (pw_render_batch(requests, r->arena, &parts, &message->part_count) != PW_OK) {
        return no_memory(r);
    }
    message->parts = parts;
    r->p->opened.message = message;
    return PW_OK;
}

/* --- model.completed --- */

static bool part_kind_from(pw_str text, pw_part_kind *ret)
{
    static const char *const names[] = {
#define PART_NAME(name, text) text,
        PW_PART_TABLE(PART_NAME)
#undef PART_NAME
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (pw_str_is(text, names[i])) {
            *ret = (pw_part_kind)i;
            return true;
        }
    }
    return false;
}

static pw_status read_part(const reader *r, const pw_json *object, pw_part *part)
{
    if (!part_kind_from(pw_json_text(pw_json_get(object, "type")), &part->kind)) {
        return corrupt(r, "a part has an unknown type");
    }
    PW_TRY(keep_member(r, object, "text", &part->text));
    const pw_json *raw = pw_json_get(object, "raw");
    if (raw) {
        PW_TRY(keep(r, raw->raw, &part->raw));
    }
    if (part->kind != PW_PART_TOOL_CALL) {
        return PW_OK;
    }
    PW_TRY(keep_member(r, object, "call", &part->call));
    PW_TRY(keep_member(r, object, "id", &part->provider_id));
    PW_TRY(keep_member(r, object, "name", &part->name));
    const pw_json *arguments = pw_json_get(object, "arguments");
    part->broken = !arguments;
    if (arguments) {
        PW_TRY(keep(r, arguments->raw, &part->arguments));
    } else {
        PW_TRY(keep_member(r, object, "broken", &part->arguments));
    }
    return part->call.len > 0 ? PW_OK : corrupt(r, "a call has no id");
}

/* F4: how often, running, this call ended alike in the model steps before. */
static void count_streak(const pw_turn *turn, pw_call *call)
{
    for (size_t i = 0; i < turn->call_count; i++) {
        const pw_call *before = &turn->calls[i];
        if (before->closed &&
            memcmp(&before->signature, &call->signature, sizeof(pw_short_hash)) == 0) {
            const bool alike =
                before->streak > 0 &&
                memcmp(&before->streak_outcome, &before->outcome_hash, sizeof(pw_short_hash)) == 0;
            call->streak = before->outcome == PW_OUTCOME_REPEATED || alike ? before->streak + 1 : 1;
            call->streak_outcome = before->outcome == PW_OUTCOME_REPEATED ? before->streak_outcome
                                                                          : before->outcome_hash;
            return;
        }
    }
}

static pw_status new_calls(reader *r, const pw_message *message, size_t count)
{
    pw_call *calls = PW_NEW_ARRAY(r->arena, pw_call, count);
    pw_call *fresh = PW_NEW_ARRAY(r->arena, pw_call, count);
    if (!calls || !fresh) {
        return no_memory(r);
    }
    size_t k = 0;
    for (size_t i = 0; i < message->part_count; i++) {
        const pw_part *part = &message->parts[i];
        if (part->kind != PW_PART_TOOL_CALL) {
            continue;
        }
        pw_call *call = &fresh[k++];
        call->part = part;
        call->n = message->n + (int64_t)k;
        char text[32];
        const size_t head = pw_format(text, sizeof(text), "tool:%lld:", (long long)message->n);
        char *step = pw_arena_alloc(r->arena, head + part->call.len);
        if (!step || pw_signature(r->s, part, &r->s->scratch, &call->signature) != PW_OK) {
            return no_memory(r);
        }
        memcpy(step, text, head);
        memcpy(step + head, part->call.ptr, part->call.len);
        call->step = (pw_str){step, head + part->call.len};
        count_streak(&r->s->d.turn, call);
    }
    r->p->model.calls = calls;
    r->p->model.fresh = fresh;
    r->p->model.call_count = count;
    return PW_OK;
}

static pw_status prepare_model(reader *r)
{
    const pw_json *list = pw_json_get(r->body, "parts");
    if (!pw_json_is(list, PW_JSON_ARRAY)) {
        return corrupt(r, "it has no parts");
    }
    pw_message *message;
    PW_TRY(new_message(r, PW_ROLE_ASSISTANT, &message));
    message->n = number(r, "n", 0);
    if (message->n < 1) {
        return corrupt(r, "its message has no number");
    }
    PW_TRY(keep_member(r, r->body, "provider", &message->provider));
    PW_TRY(keep_member(r, r->body, "model", &message->model));
    PW_TRY(keep_member(r, r->body, "asked", &message->asked));
    pw_part *parts = PW_NEW_ARRAY(r->arena, pw_part, list->count);
    if (!parts) {
        return no_memory(r);
    }
    size_t calls = 0;
    for (const pw_json *item = list->child; item; item = item->next) {
        PW_TRY(read_part(r, item, &parts[message->part_count]));
        calls += parts[message->part_count].kind == PW_PART_TOOL_CALL ? 1 : 0;
        message->part_count++;
    }
    message->parts = parts;
    r->p->model.message = message;
    r->p->model.usage = pw_decode_usage(pw_json_get(r->body, "usage"));
    return calls > 0 ? new_calls(r, message, calls) : PW_OK;
}

/* --- The small ones --- */

static pw_status prepare_attempt(reader *r)
{
    r->p->attempt.attempt = number(r, "attempt", 0);
    r->p->attempt.lost = number(r, "lost", 0) != 0;
    r->p->attempt.resumed = pw_json_true(pw_json_get(r->body, "resumed"));
    const pw_str cause = pw_json_text(pw_json_get(r->body, "cause"));
    r->p->attempt.interrupted = !pw_str_is(cause, "drained") && !pw_str_is(cause, "resume");
    if (r->p->attempt.attempt < 1) {
        return corrupt(r, "it has no number");
    }
    return keep_member(r, r->body, "run", &r->p->attempt.run);
}

static void prepare_discarded(reader *r)
{
    const pw_json *usage = pw_json_get(r->body, "usage");
    r->p->discarded.has_usage = pw_json_is(usage, PW_JSON_OBJECT);
    r->p->discarded.usage = pw_decode_usage(usage);
    r->p->discarded.shown = number(r, "shown", 0) > 0;
    r->p->discarded.empty = pw_str_is(pw_json_text(pw_json_get(r->body, "code")), "empty_reply");
}

static void prepare_retrying(reader *r)
{
    const pw_json *usage = pw_json_get(r->body, "usage");
    r->p->retrying.has_usage = pw_json_is(usage, PW_JSON_OBJECT);
    r->p->retrying.usage = pw_decode_usage(usage);
    r->p->retrying.counted = pw_str_is(pw_json_text(pw_json_get(r->body, "class")), "retry");
    r->p->retrying.resumable = pw_json_true(pw_json_get(r->body, "resumable"));
    r->p->retrying.lost = number(r, "lost", 0) != 0;
}

static pw_status prepare_accepted(const reader *r)
{
    PW_TRY(keep_member(r, r->body, "response_id", &r->p->response_id));
    return r->p->response_id.len > 0 ? PW_OK : corrupt(r, "it names no response");
}

static pw_status prepare_fallback(const reader *r)
{
    const pw_json *to = pw_json_get(r->body, "to");
    const pw_json *usage = pw_json_get(r->body, "usage");
    r->p->fallback.has_usage = pw_json_is(usage, PW_JSON_OBJECT);
    r->p->fallback.usage = pw_decode_usage(usage);
    r->p->fallback.lost = number(r, "lost", 0) != 0;
    r->p->fallback.to = pw_json_i64_or(pw_json_get(to, "index"), -1);
    if (r->p->fallback.to <= r->s->d.turn.choice) {
        return corrupt(r, "it goes to no later model");
    }
    return keep_member(r, to, "model", &r->p->fallback.model);
}

/* The call of the open turn that this record's step names; SIZE_MAX: none. */
static size_t find_call(const reader *r)
{
    const pw_turn *turn = &r->s->d.turn;
    for (size_t i = 0; i < turn->call_count; i++) {
        if (pw_str_equal(turn->calls[i].step, r->record->step)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool outcome_from(pw_str text, pw_outcome *ret)
{
    for (unsigned i = 0; i <= PW_OUTCOME_REPEATED; i++) {
        if (pw_str_is(text, pw_outcome_name((pw_outcome)i))) {
            *ret = (pw_outcome)i;
            return true;
        }
    }
    return false;
}

static pw_status prepare_started(reader *r)
{
    r->p->started.call = find_call(r);
    r->p->started.limit_at_ms = number(r, "limit_at", -1);
    if (r->p->started.call == SIZE_MAX) {
        /* Its model.completed is missing: there is no call to mark. */
        return r->s->d.turn.damaged || r->p->gap ? PW_OK : corrupt(r, "it names no call");
    }
    return PW_OK;
}

static pw_status new_operation(reader *r, const pw_call *call, pw_effects_class effects)
{
    if (effects == PW_EFFECTS_NONE ||
        (r->p->receipt.outcome != PW_OUTCOME_DONE && r->p->receipt.outcome != PW_OUTCOME_UNKNOWN)) {
        return PW_OK;
    }
    pw_operation *operation = PW_NEW(r->arena, pw_operation);
    if (!operation) {
        return no_memory(r);
    }
    *operation = (pw_operation){
        .before = r->s->d.turn.operations,
        .step = call->step,
        .name = call->part->name,
        .effects = effects,
        .outcome = r->p->receipt.outcome,
    };
    r->p->receipt.operation = operation;
    return PW_OK;
}

static pw_status prepare_receipt(reader *r)
{
    pw_message *message;
    PW_TRY(new_message(r, PW_ROLE_TOOL, &message));
    PW_TRY(keep_member(r, r->body, "call", &message->call));
    PW_TRY(keep_member(r, r->body, "name", &message->name));
    const pw_json *result = pw_json_get(r->body, "result");
    pw_effects_class effects = PW_EFFECTS_ONCE;
    if (!result ||
        !outcome_from(pw_json_text(pw_json_get(r->body, "outcome")), &r->p->receipt.outcome)) {
        return corrupt(r, "it has no result or no outcome");
    }
    (void)pw_effects_from(pw_json_text(pw_json_get(r->body, "effects")), &effects);
    PW_TRY(keep(r, result->raw, &message->result));
    message->is_error = pw_json_true(pw_json_get(r->body, "is_error"));
    r->p->receipt.message = message;
    r->p->receipt.outcome_hash = pw_outcome_hash(r->s, r->p->receipt.outcome, result->raw);
    size_t at = find_call(r);
    if (at != SIZE_MAX && r->s->d.turn.calls[at].closed) {
        at = SIZE_MAX; /* a second receipt: the repair leaves it out */
    }
    r->p->receipt.call = at;
    if (at == SIZE_MAX) {
        return PW_OK;
    }
    message->n = r->s->d.turn.calls[at].n;
    return new_operation(r, &r->s->d.turn.calls[at], effects);
}

static bool is_quarantine(const pw_json *repair)
{
    return pw_str_is(pw_json_text(pw_json_get(repair, "what")), "quarantined");
}

/* C9: the part is left out where its message is in the window; one that lies before it is no
 * matter. */
static pw_status leave_out(const reader *r, const pw_json *repair)
{
    const int64_t seq = pw_json_i64_or(pw_json_get(repair, "seq"), -1);
    const int64_t part = pw_json_i64_or(pw_json_get(repair, "part"), -1);
    for (size_t i = 0; i < r->p->repaired.count; i++) {
        const pw_message **message = &r->p->repaired.list[i];
        if ((*message)->seq == (uint64_t)seq && part >= 0 &&
            pw_part_may_leave(*message, (size_t)part)) {
            return pw_part_leave_out(*message, (size_t)part, r->arena, message) == PW_OK
                       ? PW_OK
                       : no_memory(r);
        }
    }
    return PW_OK;
}

static pw_status leave_out_all(const reader *r, const pw_json *repairs)
{
    for (const pw_json *repair = repairs ? repairs->child : NULL; repair; repair = repair->next) {
        if (is_quarantine(repair)) {
            PW_TRY(leave_out(r, repair));
            r->p->repaired.quarantined++;
        }
    }
    return PW_OK;
}

static bool mends(const pw_json *repairs)
{
    for (const pw_json *repair = repairs ? repairs->child : NULL; repair; repair = repair->next) {
        if (!is_quarantine(repair)) {
            return true;
        }
    }
    return !repairs || !repairs->child;
}

static pw_status prepare_repaired(reader *r)
{
    pw_durable *d = &r->s->d;
    const pw_json *repairs = pw_json_get(r->body, "repairs");
    pw_room *room = pw_room_new(r->s, 1024);
    if (!room) {
        return no_memory(r);
    }
    room->window = true;
    const pw_message *const *mended = pw_window(d);
    const pw_transcript_fault *faults;
    size_t count = pw_window_count(d), fault_count;
    if (mends(repairs) && pw_transcript_repair(pw_window(d), pw_window_count(d), r->arena, &mended,
                                               &count, &faults, &fault_count) != PW_OK) {
        return no_memory(r);
    }
    r->p->repaired.capacity = count + count / 2 + 64;
    r->p->repaired.list = PW_NEW_ARRAY(&room->arena, const pw_message *, r->p->repaired.capacity);
    if (!r->p->repaired.list) {
        return no_memory(r);
    }
    if (count > 0) {
        memcpy(r->p->repaired.list, mended, count * sizeof(mended[0]));
    }
    r->p->repaired.count = count;
    r->p->repaired.room = room;
    r->p->repaired.lost = number(r, "lost", 0) != 0;
    return leave_out_all(r, repairs);
}

static pw_status read_body(reader *r)
{
    switch (r->record->kind) {
    case PW_RECORD_TURN_OPENED:
        return prepare_opened(r);
    case PW_RECORD_ATTEMPT_STARTED:
        return prepare_attempt(r);
    case PW_RECORD_MODEL_COMPLETED:
        return prepare_model(r);
    case PW_RECORD_MODEL_DISCARDED:
        prepare_discarded(r);
        return PW_OK;
    case PW_RECORD_MODEL_RETRYING:
        prepare_retrying(r);
        return PW_OK;
    case PW_RECORD_WAIT_SET:
        r->p->wait.until_ms = number(r, "until", -1);
        r->p->wait.lost = number(r, "lost", 0) != 0;
        r->p->wait.resumable = pw_json_true(pw_json_get(r->body, "resumable"));
        return PW_OK;
    case PW_RECORD_MODEL_ACCEPTED:
        return prepare_accepted(r);
    case PW_RECORD_MODEL_FALLBACK:
        return prepare_fallback(r);
    case PW_RECORD_TOOL_STARTED:
        return prepare_started(r);
    case PW_RECORD_TOOL_COMPLETED:
        return prepare_receipt(r);
    case PW_RECORD_TOOL_LATE:
        return PW_OK;
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        return prepare_repaired(r);
    case PW_RECORD_TURN_ENDED:
        pw_decode_totals(pw_json_get(r->body, "usage"), &r->p->ended);
        return PW_OK;
    }
    return PW_FAIL(r->error, PW_CORRUPT, "record %llu has no known kind",
                   (unsigned long long)r->record->seq);
}

/* May this record stand here? */
static pw_status check_place(const reader *r)
{
    const pw_durable *d = &r->s->d;
    const bool ours = d->turn.open && pw_str_equal(d->turn.id, r->record->turn);
    if (r->record->seq <= d->last_seq) {
        return corrupt(r, "its seq is not after the last");
    }
    if (!d->newest && r->record->kind != PW_RECORD_TURN_OPENED) {
        return corrupt(r, "the first record does not open a turn");
    }
    switch (r->record->kind) {
    case PW_RECORD_TURN_OPENED:
        return !d->turn.open || d->turn.damaged || r->p->gap
                   ? PW_OK
                   : corrupt(r, "the turn before it has not ended");
    case PW_RECORD_TOOL_LATE:
    case PW_RECORD_TOOL_COMPLETED:
        return PW_OK;
    case PW_RECORD_ATTEMPT_STARTED:
    case PW_RECORD_MODEL_COMPLETED:
    case PW_RECORD_MODEL_DISCARDED:
    case PW_RECORD_MODEL_RETRYING:
    case PW_RECORD_WAIT_SET:
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_MODEL_FALLBACK:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TRANSCRIPT_REPAIRED:
    case PW_RECORD_TURN_ENDED:
        return ours ? PW_OK : corrupt(r, "it is not of the open turn");
    }
    return PW_FAIL(r->error, PW_CORRUPT, "record %llu has no known kind",
                   (unsigned long long)r->record->seq);
}

pw_status pw_fold_prepare(pw_session *s, const pw_record *record, pw_prepared **ret,
                          pw_error *error)
{
    pw_arena *keep_in = s->build.room ? &s->build.room->arena : &s->step;
    reader r = {.s = s, .record = record, .error = error};
    if ((unsigned)record->kind > PW_RECORD_TURN_ENDED) {
        return PW_FAIL(error, PW_CORRUPT, "record %llu has no known kind",
                       (unsigned long long)record->seq);
    }
    r.p = PW_NEW(keep_in, pw_prepared);
    if (!r.p) {
        return no_memory(&r);
    }
    r.p->kind = record->kind;
    r.p->seq = record->seq;
    r.p->gap = s->d.last_seq > 0 && record->seq != s->d.last_seq + 1;
    PW_TRY(check_place(&r));
    r.arena = s->d.newest ? &s->d.newest->room->arena : NULL;
    const pw_arena_mark mark = pw_arena_mark_get(&s->scratch);
    pw_status status = open_body(&r);
    if (status == PW_OK) {
        status = read_body(&r);
    }
    pw_arena_rewind(&s->scratch, mark);
    if (status == PW_OK) {
        *ret = r.p;
    }
    return status;
}
