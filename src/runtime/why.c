/*
 * Where a session stands and why it is not running now: one closed list of reasons (M5), and a
 * sentence or two that a person can act on (case P2).
 *
 * It says what rows and records show and nothing more: where the cause cannot be known it names
 * what is known. It must never call a thing by another's name: an owner that died is not a user's
 * interruption, a wait for room is not the agent's fault.
 */
#include "runtime/read_inner.h"

#include "base/clock.h"

#define STALE_BEAT_MS                                                                              \
    30000                 /* three leases: on stores that cannot tell a live process by its lock */
#define PATIENCE_MS 10000 /* a live process that could take what is due does so within this */
#define WORDS_MAX 4096

/* --- Owners --- */

pw_status pw_owners_look(pawl *p, pw_arena *arena, pw_owners_seen *ret, pw_error *error)
{
    pw_op op = {.kind = PW_OP_OWNERS};
    PW_TRY(pw_read_op(p, &op, arena, error));
    pw_owners_seen seen = {.list = PW_NEW_ARRAY(arena, pw_owner_seen, op.owners.count),
                           .count = op.owners.count};
    if (!seen.list) {
        return PW_NOMEM;
    }
    int64_t now = pw_now_ms();
    for (size_t i = 0; i < seen.count; i++) {
        pw_owner_seen *o = &seen.list[i];
        PW_TRY(pw_arena_dup(arena, pw_str_from(op.owners.rows[i].id.text), &o->id));
        o->address = op.owners.rows[i].address;
        o->at_ms = op.owners.rows[i].at_ms;
        o->beat = op.owners.rows[i].beat;
        int alive = pw_store_owner_alive(p->store, &op.owners.rows[i].id);
        o->alive = alive > 0 || (alive < 0 && now - o->at_ms < STALE_BEAT_MS);
        seen.alive += o->alive ? 1 : 0;
    }
    *ret = seen;
    return PW_OK;
}

const pw_owner_seen *pw_owner_of(const pw_owners_seen *owners, pw_str id)
{
    for (size_t i = 0; i < owners->count; i++) {
        if (pw_str_equal(owners->list[i].id, id)) {
            return &owners->list[i];
        }
    }
    return NULL;
}

/* --- The pieces of a standing --- */

typedef struct looking {
    pawl *p;
    const pw_session_row *row;
    const pw_owners_seen *owners;
    const pw_owner_seen *owner; /* its owner's row; NULL: none */
    bool owned;                 /* by a process that lives */
    pw_arena *arena;
    pw_error *error;
    pw_standing *to;
    pw_buffer words;
    int64_t now_ms;
    pw_inbox inbox;
    size_t messages; /* waiting, as far as looked */
} looking;

static const char *in_words(const pw_turn_state state)
{
    return pw_turn_state_name(state);
}

/* A turn's id is long; its first digits name it well enough in a sentence. */
static pw_str short_id(pw_str id)
{
    return pw_str_slice(id, 0, id.len < 12 ? id.len : 12);
}

static void say_who_goes_on(looking *l)
{
    if (l->owners->alive == 0) {
        pw_buffer_format(
            &l->words,
            " No process runs sessions on this store now: `pawl run -s %.*s` resumes it first.",
            PW_STR_ARG(l->row->name));
    } else {
        pw_buffer_format(&l->words,
                         " It goes on as soon as a process that has agent %.*s takes it.",
                         PW_STR_ARG(l->row->agent));
    }
}

static void say_what_waits(looking *l)
{
    if (l->messages > 0) {
        pw_buffer_format(&l->words, " %zu%s message%s wait%s behind it.", l->messages,
                         l->inbox.more ? " or more" : "", l->messages == 1 ? "" : "s",
                         l->messages == 1 ? "s" : "");
    }
}

static void stand(looking *l, const char *state, const char *reason, int64_t since_ms)
{
    l->to->state = pw_str_from(state);
    l->to->reason = pw_str_from(reason);
    l->to->since_ms = since_ms;
}

static void stand_quarantined(looking *l)
{
    stand(l, "quarantined", "quarantined", l->row->since_ms);
    pw_buffer_format(&l->words,
                     "Set aside: turn %.*s took its process down %lld times, so it is not tried "
                     "again by itself. "
                     "`pawl run -s %.*s --take-over` tries once more.",
                     PW_STR_ARG(short_id(l->row->turn)), (long long)l->row->crashes,
                     PW_STR_ARG(l->row->name));
}

static void stand_running(looking *l)
{
    stand(l, in_words(l->row->state), NULL, l->row->since_ms);
    if (l->row->state == PW_TURN_WAITING) {
        l->to->reason = l->row->reason;
    }
    pw_buffer_format(&l->words,
                     "Running: turn %.*s is in the hands of process %.*s (%.*s), which is alive.",
                     PW_STR_ARG(short_id(l->row->turn)), PW_STR_ARG(l->row->owner),
                     PW_STR_ARG(l->owner->address));
    say_what_waits(l);
}

static void stand_interrupted(looking *l)
{
    stand(l, "running", "interrupted", l->owner ? l->owner->at_ms : l->row->since_ms);
    l->to->actor = l->row->owner;
    pw_buffer_format(
        &l->words,
        "Not running: the process that had turn %.*s (%.*s) is gone; nobody cancelled it.",
        PW_STR_ARG(short_id(l->row->turn)), PW_STR_ARG(l->row->owner));
    say_who_goes_on(l);
    say_what_waits(l);
}

static void stand_drained(looking *l)
{
    bool named = l->row->reason.len > 0;
    stand(l, "running", "draining", l->row->since_ms);
    if (named) {
        l->to->reason = l->row->reason;
    }
    pw_buffer_format(
        &l->words,
        "Not running: the process that had turn %.*s stopped on purpose and left it open.",
        PW_STR_ARG(short_id(l->row->turn)));
    say_who_goes_on(l);
    say_what_waits(l);
}

/* What the provider said, from the wait.set that the turn stands on (F10). */
static pw_status say_wait(looking *l)
{
    pw_op op = {.kind = PW_OP_RECORDS,
                .records = {.session_id = l->row->id,
                            .from_seq = l->row->last_seq,
                            .to_seq = l->row->last_seq}};
    PW_TRY(pw_read_op(l->p, &op, l->arena, l->error));
    const pw_json *body = NULL;
    if (op.records.count == 1 && op.records.records[0].kind == PW_RECORD_WAIT_SET) {
        pw_status status = pw_json_parse(l->arena, op.records.records[0].body, 0, &body, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
        l->to->since_ms = op.records.records[0].at_ms;
    }
    pw_str message = pw_json_text(pw_json_get(body, "message"));
    pw_str code = pw_json_text(pw_json_get(body, "code"));
    if (code.len > 0) {
        pw_buffer_format(&l->words, " The provider said %.*s%s%.*s.", PW_STR_ARG(code),
                         message.len > 0 ? ": " : "", PW_STR_ARG(message));
    }
    return PW_OK;
}

static pw_status stand_waiting(looking *l)
{
    stand(l, "waiting", NULL, l->row->since_ms);
    l->to->reason = l->row->reason;
    bool provider = pw_str_is(l->row->reason, "rate_limit") || pw_str_is(l->row->reason, "retry");
    l->to->actor = provider ? PW_STR("provider") : PW_STR_NONE;
    pw_buffer_format(&l->words, "Waiting (%.*s): turn %.*s goes on", PW_STR_ARG(l->row->reason),
                     PW_STR_ARG(short_id(l->row->turn)));
    if (l->row->wake_at_ms > l->now_ms) {
        pw_buffer_format(&l->words, " at %s", pw_time_rfc3339(l->row->wake_at_ms).text);
    } else {
        pw_buffer_add(&l->words, PW_STR(" now that its time has come"));
    }
    pw_buffer_format(&l->words, ", when a process that has agent %.*s takes it.",
                     PW_STR_ARG(l->row->agent));
    PW_TRY(say_wait(l));
    say_what_waits(l);
    return PW_OK;
}

static void stand_suspended(looking *l)
{
    stand(l, "suspended", "input", l->row->since_ms);
    pw_buffer_format(&l->words, "Suspended: turn %.*s waits for a person's answer.",
                     PW_STR_ARG(short_id(l->row->turn)));
    say_what_waits(l);
}

static const pw_inbox_row *oldest_message(const looking *l)
{
    for (size_t i = 0; i < l->inbox.count; i++) {
        if (l->inbox.rows[i].kind == PW_INBOX_MESSAGE) {
            return &l->inbox.rows[i];
        }
    }
    return NULL;
}

static void stand_queued(looking *l)
{
    const pw_inbox_row *first = oldest_message(l);
    int64_t due = l->row->wake_at_ms > first->at_ms ? l->row->wake_at_ms : first->at_ms;
    pw_buffer_format(&l->words, "Queued: message %.*s ", PW_STR_ARG(first->request_id));
    if (l->owned) {
        stand(l, "queued", "capacity", first->at_ms);
        pw_buffer_format(&l->words,
                         "is about to be taken by process %.*s, which holds the session.",
                         PW_STR_ARG(l->row->owner));
    } else if (l->row->wake_at_ms > l->now_ms) {
        stand(l, "queued", "debounce", first->at_ms);
        pw_buffer_format(&l->words, "waits until %s for more to come with it.",
                         pw_time_rfc3339(l->row->wake_at_ms).text);
    } else if (l->owners->alive == 0) {
        stand(l, "queued", "no_owner", first->at_ms);
        pw_buffer_format(&l->words,
                         "is durable, but no process runs sessions on this store now: `pawl run -s "
                         "%.*s` does it first.",
                         PW_STR_ARG(l->row->name));
    } else if (l->now_ms - due < PATIENCE_MS) {
        stand(l, "queued", "capacity", first->at_ms);
        pw_buffer_format(&l->words, "is due and waits to be taken by one of %zu live process%s.",
                         l->owners->alive, l->owners->alive == 1 ? "" : "es");
    } else {
        stand(l, "queued", "no_owner", first->at_ms);
        pw_buffer_format(&l->words,
                         "has been due for %lld s and none of %zu live process%s took it: none of "
                         "them has agent %.*s, "
                         "or they run other sessions only.",
                         (long long)((l->now_ms - due) / 1000), l->owners->alive,
                         l->owners->alive == 1 ? "" : "es", PW_STR_ARG(l->row->agent));
    }
}

static pw_status stand_idle(looking *l)
{
    stand(l, "idle", NULL, l->row->since_ms);
    pw_turn_row turn;
    bool found;
    PW_TRY(pw_last_turn(l->p, l->row, l->arena, &turn, &found, l->error));
    if (!found || turn.ended_seq == 0) {
        pw_buffer_add(&l->words, PW_STR("Idle: nothing was asked of it yet."));
        return PW_OK;
    }
    pw_op op = {.kind = PW_OP_RECORDS,
                .records = {.session_id = l->row->id,
                            .from_seq = turn.ended_seq,
                            .to_seq = turn.ended_seq}};
    PW_TRY(pw_read_op(l->p, &op, l->arena, l->error));
    const pw_json *body = NULL;
    if (op.records.count == 1) {
        pw_status status = pw_json_parse(l->arena, op.records.records[0].body, 0, &body, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
        l->to->since_ms = op.records.records[0].at_ms;
    }
    l->to->reason = pw_json_text(pw_json_get(body, "reason"));
    l->to->actor = pw_json_text(pw_json_get(body, "actor"));
    pw_buffer_format(&l->words, "Idle: nothing waits. Its last turn, %.*s, %s%s at %s",
                     PW_STR_ARG(short_id(turn.turn)),
                     turn.state == PW_TURN_CANCELLED || turn.state == PW_TURN_EXHAUSTED ||
                             turn.state == PW_TURN_PAUSED
                         ? "was "
                         : "",
                     in_words(turn.state), pw_time_rfc3339(l->to->since_ms).text);
    if (l->to->reason.len > 0) {
        pw_buffer_format(&l->words, " (%.*s%s%.*s)", PW_STR_ARG(l->to->reason),
                         l->to->actor.len > 0 ? ", by " : "", PW_STR_ARG(l->to->actor));
    }
    pw_str detail = pw_json_text(pw_json_get(body, "detail"));
    if (detail.len > 0) {
        pw_buffer_format(&l->words, ": %.*s", PW_STR_ARG(detail));
    }
    bool closed =
        detail.len > 0 && (pw_str_ends(detail, PW_STR(".")) || pw_str_ends(detail, PW_STR("…")));
    pw_buffer_add(&l->words, closed ? PW_STR("") : PW_STR("."));
    return PW_OK;
}

static pw_status stand_open(looking *l)
{
    if (l->row->state == PW_TURN_SUSPENDED) {
        stand_suspended(l);
    } else if (l->owned) {
        stand_running(l);
    } else if (l->row->state == PW_TURN_WAITING) {
        return stand_waiting(l);
    } else if (l->row->owner.len > 0) {
        stand_interrupted(l);
    } else {
        stand_drained(l);
    }
    return PW_OK;
}

static pw_status look(looking *l)
{
    pw_op op = {.kind = PW_OP_INBOX, .inbox = {.session_id = l->row->id, .limit = PW_PAGE_MAX}};
    PW_TRY(pw_read_op(l->p, &op, l->arena, l->error));
    l->inbox = op.inbox.inbox;
    for (size_t i = 0; i < l->inbox.count; i++) {
        l->messages += l->inbox.rows[i].kind == PW_INBOX_MESSAGE ? 1 : 0;
    }
    l->now_ms = pw_now_ms();
    l->owner = l->row->owner.len > 0 ? pw_owner_of(l->owners, l->row->owner) : NULL;
    l->owned = l->owner && l->owner->alive;
    if (l->row->quarantined) {
        stand_quarantined(l);
    } else if (l->row->turn.len > 0) {
        PW_TRY(stand_open(l));
    } else if (l->messages > 0) {
        stand_queued(l);
    } else {
        PW_TRY(stand_idle(l));
    }
    return PW_OK;
}

pw_status pw_stand(pawl *p, const pw_session_row *row, const pw_owners_seen *owners,
                   pw_arena *arena, pw_standing *ret, pw_error *error)
{
    pw_standing standing = {0};
    looking l = {
        .p = p, .row = row, .owners = owners, .arena = arena, .error = error, .to = &standing};
    pw_buffer_init_arena(&l.words, arena, WORDS_MAX);
    PW_TRY(look(&l));
    if (l.words.failed == PW_NOMEM) {
        return PW_NOMEM;
    }
    standing.words = pw_buffer_str(&l.words);
    *ret = standing;
    return PW_OK;
}

pw_status pw_answer_why(pw_question *q)
{
    pw_owners_seen owners;
    pw_standing s;
    PW_TRY(pw_owners_look(q->p, q->arena, &owners, q->error));
    PW_TRY(pw_stand(q->p, &q->row, &owners, q->arena, &s, q->error));
    pw_json_object(q->w);
    pw_json_put_str(q->w, "session", q->row.name);
    pw_json_put_str(q->w, "state", s.state);
    pw_json_put_str(q->w, "reason", s.reason.len > 0 ? s.reason : PW_STR_NONE);
    pw_json_put_str(q->w, "actor", s.actor.len > 0 ? s.actor : PW_STR_NONE);
    pw_json_put_time(q->w, "since", s.since_ms);
    pw_json_put_str(q->w, "words", s.words);
    pw_json_object_end(q->w);
    return PW_OK;
}
