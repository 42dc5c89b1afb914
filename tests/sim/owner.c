/*
 * Owners: processes that join, beat, find what is free and due, take it, drain, freeze and die.
 * What a process knows of others' deaths is by their locks or by their beats, as J2 says; nobody
 * here looks into another's memory.
 */
#include "sim.h"

enum { OWNER_DUE_LIMIT = 8, OWNER_DEAD_MAX = 16 };

static void sweep_at(sim *s, int32_t owner, int64_t at)
{
    sim_owner *o = &s->owners[owner];
    if (o->alive && (o->sweep_at < s->now || at < o->sweep_at)) {
        o->sweep_at = at;
        queue_push(
            s,
            (sim_event){
                .at = at, .kind = EVENT_SWEEP, .owner = owner, .life = o->life, .b = (uint64_t)at});
    }
}

void owner_start(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    if (o->alive || (s->ending && owner != SIM_OWNERS - 1)) {
        return;
    }
    uint32_t life = o->life + 1;
    uint64_t number = ++s->process;
    *o = (sim_owner){.alive = true, .life = life, .beat_at = s->now, .sweep_at = -1};
    uint8_t random[10];
    pw_random r = {sim_mix(s->plan->seed, number)};
    pw_random_bytes(&r, random, sizeof random);
    pw_uuid id = pw_uuid_v7(sim_wall(s), random);
    memcpy(o->id.text, id.text, sizeof o->id.text);
    pw_op op = {.kind = PW_OP_JOIN,
                .owner = {.owner = o->id, .address = PW_STR("here"), .now_ms = sim_wall(s)}};
    sim_execute(s, &op, 1);
    sim_note(s, "owner %d starts: %s", owner, pw_status_code(op.status));
    if (op.status != PW_OK) { /* a process that cannot join ends, and is started again */
        o->alive = false;
        queue_push(s, (sim_event){.at = s->now + 500, .kind = EVENT_START, .owner = owner});
        return;
    }
    queue_push(s, (sim_event){.at = s->now + SIM_LEASE_MS / 3,
                              .kind = EVENT_BEAT,
                              .owner = owner,
                              .life = o->life});
    sweep_at(s, owner, s->now + 5);
}

static void forget_calls(sim *s, int32_t owner)
{
    for (int32_t i = 0; i < s->call_count; i++) {
        sim_call *c = &s->calls[i];
        if (c->ended || c->owner != owner || c->orphan) {
            continue;
        }
        /* A child of a killed process may go on to do what it was told (D4). */
        bool goes_on = !c->model && !c->effect && c->effects != PW_EFFECTS_TRANSACTIONAL &&
                       sim_chance(s, 0x0f1a, c->call + (uint64_t)i, 2) == 0;
        if (goes_on) {
            c->orphan = true;
            queue_push(
                s, (sim_event){.at = s->now + 30, .kind = EVENT_CALL, .a = i, .b = ++c->version});
        } else {
            c->ended = true;
            if (!c->model) {
                s->ledgers[c->session].steps[c->step].lives_running--;
            }
        }
    }
}

void owner_crash(sim *s, int32_t owner, int64_t back_ms)
{
    sim_owner *o = &s->owners[owner];
    if (!o->alive) {
        return;
    }
    sim_note(s, "owner %d dies", owner);
    s->crashes++;
    for (int32_t i = 0; i < SIM_SESSIONS; i++) {
        if (o->lives[i]) {
            o->lives[i]->gone = true;
            o->lives[i]->machine = NULL;
            heap_drop(&o->lives[i]->heap);
            o->lives[i] = NULL;
        }
        o->reload[i] = false;
    }
    o->alive = false;
    o->frozen = false;
    o->life++;
    o->crash_in = 0;
    forget_calls(s, owner);
    if (back_ms >= 0) {
        queue_push(s, (sim_event){.at = s->now + back_ms, .kind = EVENT_START, .owner = owner});
    }
}

void owner_freeze(sim *s, int32_t owner, int64_t ms)
{
    sim_owner *o = &s->owners[owner];
    if (o->alive && !o->frozen) {
        sim_note(s, "owner %d freezes for %lld ms", owner, (long long)ms);
        o->frozen = true;
        o->thaw_at = s->now + ms;
        queue_push(
            s, (sim_event){.at = o->thaw_at, .kind = EVENT_THAW, .owner = owner, .life = o->life});
    }
}

bool owner_boundary(sim *s, int32_t owner, const char *where)
{
    sim_owner *o = &s->owners[owner];
    if (s->ending) {
        return false;
    }
    s->boundaries++;
    bool second =
        s->plan->crash_again > 0 && s->boundaries == s->plan->crash_at + s->plan->crash_again;
    if (s->plan->crash_at == s->boundaries || second) {
        sim_note(s, "boundary %llu (%s): trouble %d", (unsigned long long)s->boundaries, where,
                 s->plan->crash_kind);
        switch (s->plan->crash_kind) {
        case 0:
            owner_crash(s, owner, 700);
            return true;
        case 1:
            owner_freeze(s, owner, 2 * SIM_LEASE_MS + 5000);
            break;
        case 5: /* as soon as what is being done is done */
            queue_push(
                s, (sim_event){.at = s->now, .kind = EVENT_DRAIN, .owner = owner, .life = o->life});
            break;
        default:
            s->fault = (pw_memory_fault)(s->plan->crash_kind - 1);
            s->fault_count = 1;
            s->fault_skip = 0;
        }
    }
    if (o->crash_in > 0 && --o->crash_in == 0) {
        sim_note(s, "boundary %llu (%s)", (unsigned long long)s->boundaries, where);
        owner_crash(s, owner, o->crash_back_ms);
        return true;
    }
    return false;
}

/* --- Who is dead (J2)? */

static bool process_alive(const sim *s, const pw_owner_id *id)
{
    for (int32_t i = 0; i < SIM_OWNERS; i++) {
        if (s->owners[i].alive && strcmp(s->owners[i].id.text, id->text) == 0) {
            return true;
        }
    }
    return false;
}

static bool beat_stopped(sim *s, sim_owner *o, const pw_owner_id *id, uint64_t beat)
{
    for (int32_t i = 0; i < o->seen_count; i++) {
        if (strcmp(o->seen[i].id.text, id->text) == 0) {
            if (o->seen[i].beat != beat) {
                o->seen[i].beat = beat;
                o->seen[i].since = s->now;
            }
            return s->now - o->seen[i].since >= SIM_LEASE_MS;
        }
    }
    int32_t at = o->seen_count < 16 ? o->seen_count++ : (int32_t)(beat % 16);
    o->seen[at].id = *id;
    o->seen[at].beat = beat;
    o->seen[at].since = s->now;
    return false;
}

static size_t find_dead(sim *s, int32_t owner, pw_dead_owner dead[OWNER_DEAD_MAX])
{
    sim_owner *o = &s->owners[owner];
    pw_op op = {.kind = PW_OP_OWNERS};
    sim_execute(s, &op, 1);
    size_t count = 0;
    for (size_t i = 0; op.status == PW_OK && i < op.owners.count && count < OWNER_DEAD_MAX; i++) {
        const pw_owner_id *id = &op.owners.rows[i].id;
        if (strcmp(id->text, o->id.text) == 0) {
            continue;
        }
        bool gone = beat_stopped(s, o, id, op.owners.rows[i].beat);
        if (s->plan->locks ? !process_alive(s, id) : gone) {
            dead[count++] = (pw_dead_owner){.id = *id, .beat = op.owners.rows[i].beat};
        }
    }
    return count;
}

/* --- Taking */

static bool owns_suspect(sim *s, int32_t owner)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        if (s->owners[owner].lives[i] && s->ledgers[i].crashes >= 2) {
            return true;
        }
    }
    return false;
}

/* What a taking must answer and count, said by the judge from the row before it (C4, J1, J2). */
static void check_taken(sim *s, int32_t owner, const pw_op *op, const pw_session_row *before,
                        bool owner_dead)
{
    sim_ledger *l = &s->ledgers[op->take.session_id - 1];
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        l = s->ledgers[i].id == op->take.session_id ? &s->ledgers[i] : l;
    }
    bool mine = pw_str_is(before->owner, s->owners[owner].id.text);
    bool free_now = before->owner.len == 0 || owner_dead || (mine && op->take.reload);
    if (!free_now && !op->take.take_over) {
        sim_fail(s, "J2", "%s is taken from a live owner", l->name);
    }
    if (before->epoch != l->epoch || op->take.row.epoch != before->epoch + 1) {
        sim_fail(s, "J1", "%s: epoch %llu after %llu", l->name,
                 (unsigned long long)op->take.row.epoch, (unsigned long long)l->epoch);
    }
    bool interrupted = before->turn.len > 0 && before->state != PW_TURN_SUSPENDED && owner_dead &&
                       !mine && before->owner.len > 0 && !op->take.take_over;
    bool recovery = interrupted && before->state == PW_TURN_RUNNING;
    int64_t want = before->quarantined ? 0 : l->crashes + (interrupted ? 1 : 0);
    if (op->take.row.crashes != want || (recovery != (op->take.cause == PW_CAUSE_RECOVERY))) {
        sim_fail(s, "C4", "%s: %lld crashes counted, not %lld (cause %d)", l->name,
                 (long long)op->take.row.crashes, (long long)want, (int)op->take.cause);
    }
    if (want > s->plan->max_attempts) {
        sim_fail(s, "C4", "%s is loaded after %lld crashes", l->name, (long long)want);
    }
    l->crashes = op->take.row.crashes;
    l->epoch = op->take.row.epoch;
}

static bool is_dead(sim *s, pw_str owner, const pw_dead_owner *dead, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pw_str_is(owner, dead[i].id.text)) {
            return true;
        }
    }
    if (owner.len == 0) {
        return false;
    }
    pw_op op = {.kind = PW_OP_OWNERS};
    sim_execute(s, &op, 1);
    for (size_t i = 0; i < op.owners.count; i++) {
        if (pw_str_is(owner, op.owners.rows[i].id.text)) {
            return false;
        }
    }
    return true; /* its row is gone */
}

/* True when the answer is known. */
static bool take(sim *s, int32_t owner, pw_op *op)
{
    sim_owner *o = &s->owners[owner];
    int64_t id = op->take.session_id;
    pw_op before = {.kind = PW_OP_SESSION, .session = {.session_id = id}};
    sim_execute(s, &before, 1);
    if (before.status != PW_OK) {
        return true;
    }
    bool dead = is_dead(s, before.session.row.owner, op->take.dead, op->take.dead_count);
    op->take.owner = o->id;
    op->take.max_attempts = s->plan->max_attempts;
    op->take.refuse_suspect_from = owns_suspect(s, owner) ? 2 : -1;
    op->take.now_ms = sim_wall(s);
    if (s->plan->bug == BUG_NO_FENCE && op->take.take_over && before.session.row.owner.len > 0 &&
        before.session.row.turn.len > 0) {
        op->take.row = before.session.row; /* planted: it simply goes on, beside the other */
        op->take.cause = PW_CAUSE_TAKEN;
        s->planted = true;
        return true;
    }
    if (s->plan->bug == BUG_UNCOUNTED_CRASH && dead && before.session.row.turn.len > 0 &&
        before.session.row.state == PW_TURN_RUNNING && before.session.row.owner.len > 0) {
        op->take.take_over = true; /* planted */
        s->planted = true;
        sim_execute(s, op, 1);
        op->take.take_over = false;
    } else {
        sim_execute(s, op, 1);
    }
    sim_note(s, "owner %d takes session id %lld: %s, answer %d, cause %d, crashes %lld", owner,
             (long long)id, pw_status_code(op->status), (int)op->take.answer, (int)op->take.cause,
             (long long)op->take.row.crashes);
    if (op->status == PW_OK && op->take.answer == PW_TOOK) {
        check_taken(s, owner, op, &before.session.row, dead);
        return true;
    }
    /* The epoch may have risen without our knowing, or to set the row aside. */
    pw_op after = {.kind = PW_OP_SESSION, .session = {.session_id = id}};
    sim_execute(s, &after, 1);
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        if (s->ledgers[i].id == id && after.status == PW_OK) {
            s->ledgers[i].epoch = after.session.row.epoch;
            s->ledgers[i].crashes = after.session.row.crashes;
        }
    }
    return op->status == PW_OK || op->status == PW_FENCED || op->status == PW_NOT_FOUND;
}

static int32_t session_of(const sim *s, int64_t id)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        if (s->ledgers[i].id == id) {
            return i;
        }
    }
    return -1;
}

static void reload(sim *s, int32_t owner, int32_t session)
{
    sim_owner *o = &s->owners[owner];
    if (!o->reload[session] || o->lives[session]) {
        return;
    }
    pw_op op = {.kind = PW_OP_TAKE, .take = {.session_id = s->ledgers[session].id, .reload = true}};
    if (!take(s, owner, &op)) {
        queue_push(s, (sim_event){.at = s->now + 250,
                                  .kind = EVENT_RELOAD,
                                  .owner = owner,
                                  .life = o->life,
                                  .a = session});
        return;
    }
    o->reload[session] = false;
    if (op.status == PW_OK && op.take.answer == PW_TOOK) {
        if (!owner_boundary(s, owner, "after the taking")) {
            life_open(s, owner, &op);
        }
    }
}

static void sweep(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    if (o->draining) {
        return;
    }
    pw_dead_owner dead[OWNER_DEAD_MAX];
    size_t dead_count = find_dead(s, owner, dead);
    pw_op due = {.kind = PW_OP_DUE,
                 .due = {.now_ms = sim_wall(s),
                         .owner = o->id,
                         .dead = dead,
                         .dead_count = dead_count,
                         .limit = OWNER_DUE_LIMIT}};
    sim_execute(s, &due, 1);
    for (size_t i = 0; due.status == PW_OK && i < due.due.count; i++) {
        int32_t session = session_of(s, due.due.rows[i].id);
        if (session < 0 || o->lives[session] || o->reload[session]) {
            continue;
        }
        pw_op op = {.kind = PW_OP_TAKE,
                    .take = {.session_id = due.due.rows[i].id,
                             .dead = dead,
                             .dead_count = dead_count,
                             .only_due = true}};
        if (!take(s, owner, &op)) {
            o->reload[session] =
                true; /* perhaps it is ours: take it again, as after an append (J4) */
            queue_push(s, (sim_event){.at = s->now + 250,
                                      .kind = EVENT_RELOAD,
                                      .owner = owner,
                                      .life = o->life,
                                      .a = session});
        } else if (op.status == PW_OK && op.take.answer == PW_TOOK) {
            if (owner_boundary(s, owner, "after the taking")) {
                return;
            }
            life_open(s, owner, &op);
            if (!o->alive) {
                return;
            }
        }
    }
    int64_t wait = s->ending ? 60000 : 4000;
    if (due.due.next_wake_ms >= 0 && due.due.next_wake_ms - sim_wall(s) < wait) {
        wait = due.due.next_wake_ms - sim_wall(s);
    }
    sweep_at(s, owner, s->now + (wait < 5 ? 5 : wait));
}

/* Sessions set aside after too many crashes wait for a person, who asks for them by name (C4). */
static void lift_quarantine(sim *s, int32_t owner)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        pw_op op = {.kind = PW_OP_SESSION, .session = {.session_id = s->ledgers[i].id}};
        if (s->ledgers[i].id > 0) {
            sim_execute(s, &op, 1);
            if (op.status == PW_OK && op.session.row.quarantined) {
                owner_take_over(s, owner, i);
            }
        }
    }
}

void owner_take_over(sim *s, int32_t owner, int32_t session)
{
    sim_owner *o = &s->owners[owner];
    if (!o->alive || o->frozen || o->draining || o->lives[session] || o->reload[session] ||
        s->ledgers[session].id == 0) {
        return;
    }
    pw_op op = {.kind = PW_OP_TAKE,
                .take = {.session_id = s->ledgers[session].id, .take_over = true}};
    if (!take(s, owner, &op)) {
        o->reload[session] = true;
        queue_push(s, (sim_event){.at = s->now + 250,
                                  .kind = EVENT_RELOAD,
                                  .owner = owner,
                                  .life = o->life,
                                  .a = session});
    } else if (op.status == PW_OK && op.take.answer == PW_TOOK) {
        if (!owner_boundary(s, owner, "after the taking")) {
            life_open(s, owner, &op);
        }
    }
}

static void left_if_empty(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    if (!o->alive || !o->draining || !owner_quiet(s, owner)) {
        return;
    }
    pw_op op = {.kind = PW_OP_LEAVE, .owner = {.owner = o->id, .now_ms = sim_wall(s)}};
    sim_execute(s, &op, 1);
    sim_note(s, "owner %d leaves: %s", owner, pw_status_code(op.status));
    o->alive = false;
    o->life++;
    forget_calls(s, owner);
    queue_push(s, (sim_event){.at = s->now + 1500, .kind = EVENT_START, .owner = owner});
}

void owner_drain(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    if (!o->alive || o->frozen || o->draining || s->ending) {
        return;
    }
    sim_note(s, "owner %d drains", owner);
    o->draining = true;
    for (int32_t i = 0; i < s->plan->sessions && o->alive; i++) {
        if (o->lives[i] && life_step(s, o->lives[i], NULL)) { /* the time may make it act first */
            o->lives[i]->drained = true;
            life_step(s, o->lives[i], &(pw_input){.kind = PW_IN_DRAIN});
        }
    }
    left_if_empty(s, owner);
}

bool owner_quiet(const sim *s, int32_t owner)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        if (s->owners[owner].lives[i] || s->owners[owner].reload[i]) {
            return false;
        }
    }
    return true;
}

void owner_hint(sim *s, int32_t session)
{
    for (int32_t i = 0; i < SIM_OWNERS; i++) {
        sim_owner *o = &s->owners[i];
        int64_t at = s->now + 1 + (int64_t)sim_chance(s, s->order, 0x417, 40);
        if (o->alive && o->lives[session]) {
            queue_push(
                s, (sim_event){
                       .at = at, .kind = EVENT_HINT, .owner = i, .life = o->life, .a = session});
        } else if (o->alive) {
            sweep_at(s, i, at);
        }
    }
}

static void beat(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    pw_op op = {.kind = PW_OP_BEAT, .owner = {.owner = o->id, .now_ms = sim_wall(s)}};
    sim_execute(s, &op, 1);
    if (op.status == PW_FENCED) { /* its row is gone: every session is fenced; it begins anew */
        owner_crash(s, owner, 100);
        return;
    }
    if (s->ending) {
        lift_quarantine(s, owner);
    }
    sweep_at(s, owner, s->now + 1);
    queue_push(s, (sim_event){.at = s->now + (s->ending ? 30000 : SIM_LEASE_MS / 3),
                              .kind = EVENT_BEAT,
                              .owner = owner,
                              .life = o->life});
}

static void wake(sim *s, const sim_event *e)
{
    sim_owner *o = &s->owners[e->owner];
    sim_live *l = o->lives[e->a];
    if (l && l->opened && sim_mix(l->serial, l->wake_version) == e->b) {
        life_step(s, l, NULL);
    }
}

void owner_event(sim *s, const sim_event *e)
{
    sim_owner *o = &s->owners[e->owner];
    if (e->kind == EVENT_START) {
        owner_start(s, e->owner);
        return;
    }
    if (!o->alive || o->life != e->life) {
        return;
    }
    if (e->kind == EVENT_THAW) {
        o->frozen = false;
        return;
    }
    if (o->frozen) {
        sim_event later = *e;
        later.at = o->thaw_at;
        if (e->kind == EVENT_SWEEP) {
            o->sweep_at = later.at;
            later.b = (uint64_t)later.at;
        }
        queue_push(s, later);
        return;
    }
    switch (e->kind) {
    case EVENT_SWEEP:
        if ((int64_t)e->b == o->sweep_at) {
            o->sweep_at = -1;
            sweep(s, e->owner);
        }
        break;
    case EVENT_BEAT:
        beat(s, e->owner);
        break;
    case EVENT_HINT:
        if (o->lives[e->a] && o->lives[e->a]->opened) {
            life_inbox(s, o->lives[e->a]);
        } else if (!o->lives[e->a]) {
            sweep_at(s, e->owner, s->now + 1);
        }
        break;
    case EVENT_WAKE:
        wake(s, e);
        break;
    case EVENT_WRITE:
        writer_run(s, e->owner);
        break;
    case EVENT_ANSWER:
        writer_answer(s, e->owner, e->b);
        break;
    case EVENT_RELOAD:
        reload(s, e->owner, e->a);
        break;
    case EVENT_DRAIN:
        owner_drain(s, e->owner);
        return;
    case EVENT_MOVE:
    case EVENT_CALL:
    case EVENT_START:
    case EVENT_THAW:
    case EVENT_RETRY:
    case EVENT_END:
        break;
    }
    left_if_empty(s, e->owner);
}
