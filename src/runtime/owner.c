/*
 * Ownership (J2): this process's row and beat, who else is dead, and what is due. Runs on the loop
 * thread, but for join and leave (the caller's, while no loop runs) and read_alive (a reader's).
 * Must never judge a process dead by wall clock: by its lock, or by a beat that did not change for
 * a lease of our own monotonic time.
 */
#include "base/id.h"
#include "runtime/admit.h"
#include "runtime/loop.h"

enum { DUE_LIMIT = 1024, SWEEP_LATEST_MS = 10000 };

static void fire_tick(void *loop, pw_alarm *);
static void fire_sweep(void *loop, pw_alarm *);
static void read_owners(pw_loop *);

/* --- Joining and leaving --- */

static void new_id(pw_owner *owner)
{
    uint8_t random[10];
    pw_entropy(random, sizeof random);
    pw_uuid id = pw_uuid_v7(pw_now_ms(), random);
    memcpy(owner->id.text, id.text, sizeof owner->id.text);
}

static pw_op own_op(pw_loop *loop, pw_op_kind kind)
{
    return (pw_op){
        .kind = kind,
        .owner = {.owner = loop->owner.id, .address = PW_STR_NONE, .now_ms = pw_now_ms()}};
}

static void init_job(pw_loop *loop, pw_owner_job *job)
{
    job->loop = loop;
    pw_arena_init(&job->arena, loop->p->allocator, 1024, 0);
}

pw_status pw_owner_join(pw_loop *loop, pw_error *error)
{
    pw_owner *owner = &loop->owner;
    init_job(loop, &owner->beat);
    init_job(loop, &owner->owners);
    init_job(loop, &owner->due);
    init_job(loop, &owner->named);
    owner->tick.fire = fire_tick;
    owner->sweep.fire = fire_sweep;
    new_id(owner);
    pw_op op = own_op(loop, PW_OP_JOIN);
    op.arena = &owner->beat.arena;
    /* A store that many begin to use at once is busy, and a handle can be started only once. */
    return pw_admit_op(loop->p, &op, error);
}

void pw_owner_leave(pw_loop *loop)
{
    pw_op op = own_op(loop, PW_OP_LEAVE);
    op.arena = &loop->owner.beat.arena;
    pw_writer_do(loop->p->writer, &op, 1);
    if (op.status != PW_OK) {
        pw_log(loop->p, 1, "leave_failed", "this process's row stays in the store: %s",
               op.error.message);
    }
}

void pw_owner_free(pw_loop *loop)
{
    pw_owner *owner = &loop->owner;
    pw_arena_free(&owner->beat.arena);
    pw_arena_free(&owner->owners.arena);
    pw_arena_free(&owner->due.arena);
    pw_arena_free(&owner->named.arena);
    if (owner->others) {
        loop->p->allocator->resize(loop->p->allocator->ctx, owner->others,
                                   owner->other_capacity * sizeof *owner->others, 0);
    }
    owner->others = NULL;
}

bool pw_owner_busy(const pw_loop *loop)
{
    const pw_owner *owner = &loop->owner;
    return owner->beat.busy || owner->owners.busy || owner->due.busy || owner->named.busy;
}

/* --- Jobs --- */

static void job_done(pw_job *job)
{
    pw_owner_job *mine = (pw_owner_job *)(void *)job;
    pw_loop_tell(mine->loop, &mine->note);
}

static void begin_job(pw_owner_job *mine, void (*act)(pw_loop *, pw_note *), void (*done)(pw_job *))
{
    mine->busy = true;
    mine->op.arena = &mine->arena;
    mine->job = (pw_job){.ops = &mine->op, .count = 1, .done = done};
    mine->note.act = act;
}

static pw_owner_job *job_of(pw_note *note)
{
    return (pw_owner_job *)(void *)((char *)note - offsetof(pw_owner_job, note));
}

/* --- Our beat --- */

/* Our row is gone: whatever we held is another's by now, or will be. Nothing of it may be written
 * any more (J1). */
static void drop_all(pw_loop *loop)
{
    for (size_t i = 0; i < PW_SEAT_BUCKETS; i++) {
        pw_seat *next;
        for (pw_seat *seat = loop->seats[i]; seat; seat = next) {
            next = seat->next_in_table;
            seat->hinted = false;
            pw_seat_drop(loop, seat);
        }
    }
}

static void act_beat(pw_loop *loop, pw_note *note)
{
    pw_owner_job *mine = job_of(note);
    pw_owner *owner = &loop->owner;
    mine->busy = false;
    pw_status status = mine->op.status;
    pw_arena_reset(&mine->arena);
    if (loop->stopping) {
        return;
    }
    if (mine->op.kind == PW_OP_JOIN) {
        owner->rejoin = status != PW_OK;
        if (status == PW_OK) {
            read_owners(loop);
        }
        return;
    }
    if (status == PW_FENCED) {
        pw_log(loop->p, 1, "fenced",
               "this process was taken for dead; it lets go of all and joins anew");
        owner->rejoin = true;
        pw_alarm_set(&loop->alarms, &owner->tick, pw_monotonic_ms());
    } else if (status != PW_OK) {
        pw_log(loop->p, 1, "beat_failed", "%s: %s", pw_status_code(status), mine->op.error.message);
    }
}

static void send_beat(pw_loop *loop)
{
    pw_owner *owner = &loop->owner;
    if (owner->beat.busy) {
        return;
    }
    if (owner->rejoin) {
        drop_all(loop);
        new_id(owner);
    }
    owner->beat.op = own_op(loop, owner->rejoin ? PW_OP_JOIN : PW_OP_BEAT);
    begin_job(&owner->beat, act_beat, job_done);
    pw_loop_send(loop, &owner->beat.job);
}

static void fire_tick(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    if (loop->stopping) {
        return;
    }
    pw_alarm_set(&loop->alarms, alarm, pw_monotonic_ms() + loop->owner.lease_ms / 3);
    bool rejoin = loop->owner.rejoin;
    send_beat(loop);
    if (!rejoin) {
        read_owners(loop);
    }
}

/* --- Others --- */

static pw_other_owner *other_of(pw_loop *loop, const pw_owner_id *id)
{
    pw_owner *owner = &loop->owner;
    for (size_t i = 0; i < owner->other_count; i++) {
        if (memcmp(owner->others[i].id.text, id->text, sizeof id->text) == 0) {
            return &owner->others[i];
        }
    }
    if (owner->other_count == owner->other_capacity) {
        size_t capacity = owner->other_capacity ? owner->other_capacity * 2 : 8;
        const pw_allocator *allocator = loop->p->allocator;
        pw_other_owner *others =
            allocator->resize(allocator->ctx, owner->others, owner->other_capacity * sizeof *others,
                              capacity * sizeof *others);
        if (!others) {
            return NULL; /* seen at the next look */
        }
        owner->others = others;
        owner->other_capacity = capacity;
    }
    pw_other_owner *other = &owner->others[owner->other_count++];
    *other = (pw_other_owner){.id = *id, .since_ms = -1};
    return other;
}

static void judge(pw_loop *loop, const pw_owner_id *id, uint64_t beat, int alive)
{
    if (memcmp(id->text, loop->owner.id.text, sizeof id->text) == 0) {
        return;
    }
    pw_other_owner *other = other_of(loop, id);
    if (!other) {
        return;
    }
    int64_t now_ms = pw_monotonic_ms();
    if (other->since_ms < 0 || other->beat != beat) {
        other->beat = beat;
        other->since_ms = now_ms;
    }
    other->seen = true;
    other->dead = alive == 0 || (alive < 0 && now_ms - other->since_ms >= loop->owner.lease_ms);
}

static void act_owners(pw_loop *loop, pw_note *note)
{
    pw_owner_job *mine = job_of(note);
    pw_owner *owner = &loop->owner;
    mine->busy = false;
    if (mine->op.status == PW_OK && !loop->stopping) {
        for (size_t i = 0; i < owner->other_count; i++) {
            owner->others[i].seen = false;
        }
        for (size_t i = 0; i < mine->op.owners.count; i++) {
            judge(loop, &mine->op.owners.rows[i].id, mine->op.owners.rows[i].beat,
                  owner->alive ? owner->alive[i] : -1);
        }
        for (size_t i = owner->other_count; i > 0;
             i--) { /* their rows are gone: the store knows that by itself */
            if (!owner->others[i - 1].seen) {
                owner->others[i - 1] = owner->others[--owner->other_count];
            }
        }
    }
    pw_arena_reset(&mine->arena);
    owner->alive = NULL;
    pw_owner_sweep(loop);
}

/* On a reader's thread, which has the job to itself until it tells. */
static void read_alive(pw_job *job)
{
    pw_owner_job *mine = (pw_owner_job *)(void *)job;
    pw_loop *loop = mine->loop;
    size_t count = mine->op.status == PW_OK ? mine->op.owners.count : 0;
    int *alive = PW_NEW_ARRAY(&mine->arena, int, count + 1);
    for (size_t i = 0; alive && i < count; i++) {
        alive[i] = pw_store_owner_alive(loop->p->store, &mine->op.owners.rows[i].id);
    }
    loop->owner.alive = alive;
    pw_loop_tell(loop, &mine->note);
}

static void read_owners(pw_loop *loop)
{
    pw_owner_job *mine = &loop->owner.owners;
    if (mine->busy) {
        return;
    }
    mine->op = (pw_op){.kind = PW_OP_OWNERS};
    begin_job(mine, act_owners, read_alive);
    pw_readers_give(loop->readers, &mine->job);
}

pw_status pw_owner_dead_list(pw_loop *loop, pw_arena *arena, const pw_dead_owner **ret,
                             size_t *ret_count)
{
    pw_owner *owner = &loop->owner;
    size_t count = 0;
    for (size_t i = 0; i < owner->other_count; i++) {
        count += owner->others[i].dead;
    }
    if (count == 0) {
        *ret = NULL;
        *ret_count = 0;
        return PW_OK;
    }
    pw_dead_owner *dead = PW_NEW_ARRAY(arena, pw_dead_owner, count);
    if (!dead) {
        return PW_NOMEM;
    }
    size_t at = 0;
    for (size_t i = 0; i < owner->other_count; i++) {
        if (owner->others[i].dead) {
            dead[at++] = (pw_dead_owner){.id = owner->others[i].id, .beat = owner->others[i].beat};
        }
    }
    *ret = dead;
    *ret_count = count;
    return PW_OK;
}

/* --- What is due --- */

static bool may_be_suspect(const pw_session_row *row)
{
    return row->owner.len > 0 && row->turn.len > 0 && row->crashes >= 1 &&
           row->state != PW_TURN_SUSPENDED;
}

static void take_row(pw_loop *loop, const pw_session_row *row)
{
    const pw_agent *agent = pw_agent_find(loop->p, row->agent);
    if (!pw_seat_find(loop, row->id) && (agent || loop->only_id == row->id)) {
        (void)pw_seat_take(loop, row->id, agent, row, false);
    }
}

static void act_due(pw_loop *loop, pw_note *note)
{
    pw_owner_job *mine = job_of(note);
    mine->busy = false;
    bool again = mine->again;
    mine->again = false;
    if (mine->op.status != PW_OK) {
        pw_log(loop->p, 1, "sweep_failed", "%s: %s", pw_status_code(mine->op.status),
               mine->op.error.message);
    } else if (!loop->draining) {
        const pw_session_row *suspect = NULL;
        loop->owner.starved = mine->op.due.count == DUE_LIMIT;
        for (size_t i = 0; i < mine->op.due.count; i++) {
            const pw_session_row *row = &mine->op.due.rows[i];
            if (!may_be_suspect(row)) {
                take_row(loop, row);
            } else if (!pw_seat_find(loop, row->id) && pw_agent_find(loop->p, row->agent) &&
                       (!suspect || row->crashes < suspect->crashes)) {
                suspect = row;
            }
        }
        if (suspect && loop->suspect_count == 0) {
            take_row(loop, suspect);
        }
        if (mine->op.due.next_wake_ms >= 0) {
            pw_owner_wake_at(loop, mine->op.due.next_wake_ms);
        }
    }
    pw_arena_reset(&mine->arena);
    if (again) {
        pw_owner_sweep(loop);
    }
}

static void act_named(pw_loop *loop, pw_note *note)
{
    pw_owner_job *mine = job_of(note);
    mine->busy = false;
    if (mine->op.status == PW_OK && !loop->draining) {
        const pw_session_row *row = &mine->op.session.row;
        loop->only_id = row->id;
        if (loop->take_over && !loop->owner.named_taken && !pw_seat_find(loop, row->id)) {
            loop->owner.named_taken = true;
            (void)pw_seat_take(loop, row->id, pw_agent_find(loop->p, row->agent), row, true);
        }
        pw_owner_sweep(loop);
    }
    pw_arena_reset(&mine->arena);
}

/* The session named at start may not exist yet: it is asked for until somebody admits to it. */
static void find_named(pw_loop *loop)
{
    pw_owner_job *mine = &loop->owner.named;
    if (mine->busy) {
        return;
    }
    mine->op = (pw_op){.kind = PW_OP_SESSION,
                       .session = {.principal = loop->p->principal, .session = loop->only_session}};
    begin_job(mine, act_named, job_done);
    pw_readers_give(loop->readers, &mine->job);
}

/* Only sessions of agents that this process has can be taken: however many others are due, they
 * hide none of these. Out of memory: of any agent. */
static const pw_str *agent_names(pw_loop *loop, pw_arena *arena, size_t *ret_count)
{
    const size_t count = loop->p->agent_count;
    pw_str *names = PW_NEW_ARRAY(arena, pw_str, count);
    for (size_t i = 0; names && i < count; i++) {
        names[i] = loop->p->agents[i]->name;
    }
    *ret_count = names ? count : 0;
    return names;
}

void pw_owner_sweep(pw_loop *loop)
{
    pw_owner_job *mine = &loop->owner.due;
    if (loop->draining || loop->owner.rejoin) {
        return;
    }
    if (loop->only_session.len > 0 && loop->only_id == 0) {
        find_named(loop);
        return;
    }
    if (mine->busy) {
        mine->again = true;
        return;
    }
    const pw_dead_owner *dead = NULL;
    size_t dead_count = 0;
    (void)pw_owner_dead_list(loop, &mine->arena, &dead, &dead_count);
    size_t agent_count = 0;
    const pw_str *agents = agent_names(loop, &mine->arena, &agent_count);
    mine->op = (pw_op){.kind = PW_OP_DUE,
                       .due = {.now_ms = pw_now_ms(),
                               .owner = loop->owner.id,
                               .dead = dead,
                               .dead_count = dead_count,
                               .agents = agents,
                               .agent_count = agent_count,
                               .limit = DUE_LIMIT,
                               .session_id = loop->only_id}};
    begin_job(mine, act_due, job_done);
    pw_readers_give(loop->readers, &mine->job);
}

static void fire_sweep(void *context, pw_alarm *alarm)
{
    (void)alarm;
    pw_owner_sweep(context);
}

void pw_owner_wake_at(pw_loop *loop, int64_t wall_ms)
{
    int64_t left_ms = wall_ms - pw_now_ms();
    left_ms = left_ms < 1 ? 1 : left_ms > SWEEP_LATEST_MS ? SWEEP_LATEST_MS : left_ms; /* J6 */
    int64_t at_ms = pw_monotonic_ms() + left_ms;
    if (!loop->owner.sweep.set || loop->owner.sweep.at_ms > at_ms) {
        pw_alarm_set(&loop->alarms, &loop->owner.sweep, at_ms);
    }
}

void pw_owner_hint(pw_loop *loop, int64_t session_id, const pw_agent *agent)
{
    pw_seat *seat = pw_seat_find(loop, session_id);
    if (seat) {
        pw_seat_look(loop, seat);
        return;
    }
    if (loop->draining || loop->owner.rejoin) {
        return;
    }
    if (loop->only_session.len > 0 && loop->only_id != session_id) {
        if (loop->only_id == 0) {
            find_named(loop);
        }
        return;
    }
    if (!agent && loop->only_id != session_id) {
        pw_owner_sweep(loop);
        return;
    }
    (void)pw_seat_take(loop, session_id, agent, NULL, false);
}

void pw_owner_begin(pw_loop *loop)
{
    pw_alarm_set(&loop->alarms, &loop->owner.tick, pw_monotonic_ms() + loop->owner.lease_ms / 3);
    read_owners(loop);
}
