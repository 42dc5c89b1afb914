/*
 * A session in an owner's memory, from its load to its rest: the part of a runtime that feeds the
 * machine.
 *
 * Strings given to the machine are freed or overwritten right after each step: it must have copied
 * what it keeps.
 */
#include <stdlib.h>

#include "sim.h"

bool life_current(const sim *s, const sim_live *l)
{
    return !l->gone && s->owners[l->owner].alive && s->owners[l->owner].lives[l->session] == l;
}

void life_drop(sim *s, sim_live *l)
{
    if (s->owners[l->owner].lives[l->session] == l) {
        s->owners[l->owner].lives[l->session] = NULL;
    }
    if (!l->gone && l->machine) {
        pw_session_free(l->machine);
        if (l->heap.bytes != 0) {
            sim_fail(s, "memory", "%s: %zu bytes were not given back", s->ledgers[l->session].name,
                     l->heap.bytes);
        }
    }
    l->machine = NULL;
    l->gone = true;
    s->starved += l->heap.failures;
    heap_drop(&l->heap);
    pw_arena_free(&l->arena);
}

/* One input; out of memory, the same again. False: the life is over. */
static bool step_one(sim *s, sim_live *l, const pw_input *input)
{
    pw_effects effects = {0};
    pw_status status = PW_NOMEM;
    for (int32_t tries = 0; status == PW_NOMEM; tries++) {
        l->heap.on = tries < 6;
        status = pw_session_step(l->machine, input, &effects);
        if (status == PW_NOMEM && !l->heap.on) {
            sim_fail(s, "memory", "a step is out of memory though there is some");
            return false;
        }
    }
    l->heap.on = false;
    if (status != PW_OK) {
        sim_fail(s, "step", "%s: the machine answers %s to input %d", s->ledgers[l->session].name,
                 pw_status_code(status), (int)input->kind);
        return false;
    }
    return effects_do(s, l, effects) && life_current(s, l) && !s->failed;
}

bool life_step(sim *s, sim_live *l, const pw_input *input)
{
    pw_input time = {.kind = PW_IN_TIME, .time = {.now_ms = sim_wall(s)}};
    pw_random r = {sim_mix(sim_mix(s->plan->seed, l->serial), ++l->clock)};
    pw_random_bytes(&r, time.time.random, sizeof time.time.random);
    l->given_ms = time.time.now_ms;
    if (!step_one(s, l, &time)) {
        return false;
    }
    return input == NULL || step_one(s, l, input);
}

/* Shows the machine what waits. The time comes first, and may make it act before it sees the rows.
 */
bool life_inbox(sim *s, sim_live *l)
{
    if (!life_step(s, l, NULL)) {
        return false;
    }
    sim_ledger *ledger = &s->ledgers[l->session];
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 4096, 0);
    pw_op op = {.kind = PW_OP_INBOX,
                .arena = &arena,
                .inbox = {.session_id = ledger->id, .limit = (size_t)s->plan->inbox_limit}};
    sim_execute(s, &op, 1);
    if (op.status != PW_OK) {
        sim_fail(s, "store", "%s: reading the inbox: %s", ledger->name, op.error.message);
        pw_arena_free(&arena);
        return false;
    }
    pw_inbox inbox = op.inbox.inbox;
    pw_inbox_row rows[SIM_REQUESTS + 8];
    size_t count = 0;
    for (size_t i = 0; i < inbox.count && count < SIM_REQUESTS + 8; i++) {
        bool cancel = inbox.rows[i].kind == PW_INBOX_CANCEL;
        if (cancel && s->plan->bug == BUG_HIDE_CANCEL) {
            s->planted = true;
            continue;
        }
        rows[count++] = inbox.rows[i];
        if (!cancel) {
            l->inbox_max_n = inbox.rows[i].n > l->inbox_max_n ? inbox.rows[i].n : l->inbox_max_n;
        }
    }
    for (size_t i = 0; i < inbox.count; i++) {
        sim_turn *t = inbox.rows[i].kind == PW_INBOX_CANCEL
                          ? ledger_turn(ledger, inbox.rows[i].request_id)
                          : NULL;
        bool ending = l->ends_again || (l->append && l->append->turn_ended_seq);
        if (t && !t->ended_seq && !ending && !l->sealing && l->epoch == ledger->epoch) {
            t->must_cancel = true;
            l->cancel_first = l->cancel_first || l->looked_n == 0;
        }
    }
    inbox.rows = rows;
    inbox.count = count;
    l->more = inbox.more;
    l->looked_n = inbox.looked_n;
    sim_note(s, "owner %d: %s inbox: %zu rows%s", l->owner, ledger->name, inbox.count,
             inbox.more ? " and more" : "");
    bool on = life_step(s, l, &(pw_input){.kind = PW_IN_INBOX, .inbox = inbox});
    pw_arena_free(&arena);
    return on;
}

/* --- Loading */

static pw_status fold_all(sim *s, sim_live *l, pw_arena *arena)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    pw_op ops[2] = {{.kind = PW_OP_SESSION, .arena = arena, .session = {.session_id = ledger->id}},
                    {.kind = PW_OP_RECORDS, .arena = arena}};
    sim_execute(s, &ops[0], 1);
    ops[1].records.session_id = ledger->id;
    ops[1].records.from_seq = ops[0].session.row.base_seq;
    sim_execute(s, &ops[1], 1);
    if (ops[0].status != PW_OK || ops[1].status != PW_OK) {
        sim_fail(s, "store", "%s: loading: %s", ledger->name, ops[1].error.message);
        return PW_IO;
    }
    pw_session_options options = {.allocator = &l->heap.allocator, .uid = ops[0].session.row.uid};
    PW_TRY(pw_session_new(&options, &l->machine));
    for (size_t i = 0; i < ops[1].records.count; i++) {
        pw_error error = {0};
        pw_status status = pw_session_fold(l->machine, &ops[1].records.records[i], &error);
        if (status != PW_OK && status != PW_NOMEM) {
            sim_fail(s, "C3", "%s: record %llu does not fold: %s", ledger->name,
                     (unsigned long long)ops[1].records.records[i].seq, error.message);
        }
        PW_TRY(status);
    }
    return PW_OK;
}

/* Out of memory amid a load: thrown away and begun again. */
static bool load(sim *s, sim_live *l)
{
    pw_status status = PW_NOMEM;
    for (int32_t tries = 0; status == PW_NOMEM; tries++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 16384, 0);
        l->heap.on = tries < 3;
        status = fold_all(s, l, &arena);
        pw_arena_free(&arena);
        if (status != PW_OK) {
            pw_session_free(l->machine);
            l->machine = NULL;
            if (l->heap.bytes != 0) {
                sim_fail(s, "memory", "a failed load keeps %zu bytes", l->heap.bytes);
            }
        }
    }
    l->heap.on = false;
    return status == PW_OK && !s->failed;
}

static const pw_definition *pinned(sim *s, sim_live *l)
{
    pw_str hash = pw_session_pinned_hash(l->machine);
    if (hash.len == 0) {
        return NULL;
    }
    pw_op op = {.kind = PW_OP_BLOB, .arena = &l->arena, .blob = {.hash = hash}};
    sim_execute(s, &op, 1);
    if (op.status != PW_OK) {
        sim_fail(s, "C11", "%s: the pinned definition is not in the store",
                 s->ledgers[l->session].name);
        return NULL;
    }
    int32_t index = s->plan->definition[l->session];
    for (int32_t version = 0; version < 2; version++) {
        const pw_definition *d = sim_definition(s, index, version);
        if (d && pw_str_is(hash, d->hash.text)) {
            if (!pw_str_equal(d->text, op.blob.bytes)) {
                sim_fail(s, "C11", "the pinned definition's bytes changed");
            }
            return d;
        }
    }
    sim_fail(s, "C11", "a definition is pinned that nobody has");
    return NULL;
}

/* The last life's calls that have not ended go on in this one (C12). */
static void add_alive(sim *s, sim_live *l, pw_opened *opened, pw_alive_call room[16])
{
    sim_owner *o = &s->owners[l->owner];
    uint64_t last = o->last_serial[l->session];
    o->last_serial[l->session] = l->serial;
    for (int32_t i = 0; i < s->call_count && opened->alive_count < 16; i++) {
        sim_call *c = &s->calls[i];
        if (!c->ended && !c->orphan && c->owner == l->owner && c->session == l->session &&
            c->life == o->life && c->serial == last && !c->answered) {
            room[opened->alive_count++] =
                (pw_alive_call){.call = c->call,
                                .step = c->step_id,
                                .response_id = c->accepted ? c->said->response : PW_STR_NONE};
            c->serial = l->serial;
        }
    }
    opened->alive = room;
}

void life_open(sim *s, int32_t owner, const pw_op *taken)
{
    int32_t session = 0;
    while (s->ledgers[session].id != taken->take.session_id) {
        session++;
    }
    sim_live *l = calloc(1, sizeof *l);
    PW_ASSERT(l);
    l->next = s->lives;
    s->lives = l;
    l->owner = owner;
    l->session = session;
    l->serial = ++s->serial;
    l->epoch = taken->take.row.epoch;
    l->wake_at_ms = -1;
    heap_init(&l->heap, sim_mix(s->plan->seed, l->serial + 77), s->plan->starve_permille);
    pw_arena_init(&l->arena, &pw_heap, 1024, 0);
    s->owners[owner].lives[session] = l;
    if (!load(s, l) || owner_boundary(s, owner, "after the load")) {
        return;
    }
    plant_recovery(s, l);
    pw_alive_call alive[16];
    bool later = s->plan->changed_agent && s->owners[owner].life > 2;
    pw_opened opened = {.epoch = l->epoch,
                        .cause = taken->take.cause,
                        .crashes = taken->take.row.crashes,
                        .max_attempts = s->plan->max_attempts,
                        .pinned = pinned(s, l),
                        .today = sim_definition(s, s->plan->definition[session], later)};
    l->sealing =
        opened.crashes >= opened.max_attempts && opened.pinned && opened.cause != PW_CAUSE_TAKEN;
    add_alive(s, l, &opened, alive);
    sim_note(s, "owner %d opens %s: epoch %llu, cause %d, crashes %lld, %zu alive", owner,
             s->ledgers[session].name, (unsigned long long)l->epoch, (int)opened.cause,
             (long long)opened.crashes, opened.alive_count);
    if (s->failed || !life_step(s, l, &(pw_input){.kind = PW_IN_OPENED, .opened = opened})) {
        return;
    }
    l->opened = true;
    if (owner_boundary(s, owner, "after the opening") || !life_inbox(s, l)) {
        return;
    }
    if (s->owners[owner].draining) {
        l->drained = true;
        if (!life_step(s, l, &(pw_input){.kind = PW_IN_DRAIN})) {
            return;
        }
    }
    calls_deliver_held(s, l);
}
