/*
 * An owner's writer: all appends that wait, in one execute; transactional tools alone. After each
 * commit, or after an answer that says nothing, the judge reads the store.
 */
#include "sim.h"

typedef struct running {
    sim *s;
    sim_live *l;
    sim_call *call;
    sim_step *step;
} running;

static pw_status run_tool(void *ctx, void *handle, pw_arena *arena, pw_str *ret_body)
{
    running *r = ctx;
    const sim_did *did = &r->call->did;
    r->step->runs++;
    pw_str key = world_key(r->s, &r->s->ledgers[r->l->session], r->step);
    for (int32_t i = 0; i < did->writes; i++) { /* several writes: all or none of them count */
        PW_TRY(pw_memory_world_add(handle, key, i == 0 ? 1 : 0));
    }
    if (did->hangs) {
        return PW_TIMEOUT;
    }
    if (did->outcome.kind != PW_TOOL_RESULT) {
        return PW_CANCELLED;
    }
    if (r->step->said_count < 6) {
        r->step->said[r->step->said_count++] = world_value_hash(did->outcome.json);
    }
    return pw_receipt_fill(r->l->receipt, did->outcome.json, arena, ret_body);
}

static void transact(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    sim_call *c = &s->calls[l->transact_call];
    running r = {.s = s, .l = l, .call = c, .step = &ledger->steps[c->step]};
    pw_transact t = {.session_id = ledger->id,
                     .epoch = l->epoch,
                     .append = l->append,
                     .receipt = l->receipt,
                     .limit_ms = l->transact->limit_ms,
                     .arena = &s->arena,
                     .run = run_tool,
                     .ctx = &r};
    int32_t runs = r.step->runs;
    pw_store_transact(s->store, &t);
    l->executed = true;
    l->body = t.body;
    l->answer = t.status;
    l->tool_failed = r.step->runs > runs && (t.status == PW_TIMEOUT || t.status == PW_CANCELLED);
    sim_note(s, "owner %d: transaction of %s: %s", l->owner, ledger->name,
             pw_status_code(t.status));
}

/* A message of the claim is withdrawn between the look and the commit. */
static void race(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    const pw_append *a = l->append;
    if (!s->race[l->session] || a->consumed_count == 0 ||
        a->records[0].kind != PW_RECORD_TURN_OPENED) {
        return;
    }
    s->race[l->session] = false;
    uint64_t n = a->consumed[sim_chance(s, 0x7ace, l->serial, a->consumed_count)].n;
    for (int32_t i = 0; i < ledger->request_count; i++) {
        if (ledger->requests[i].fate == FATE_PENDING && ledger->requests[i].n == n) {
            people_withdraw(s, l->session, &ledger->requests[i]);
        }
    }
}

static void judge(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    const pw_append *a = l->append;
    bool current = l->epoch == ledger->epoch;
    if (l->answer == PW_OK && !current) {
        sim_fail(s, "J1", "%s: an append under epoch %llu is accepted, %llu is current",
                 ledger->name, (unsigned long long)l->epoch, (unsigned long long)ledger->epoch);
        return;
    }
    if (l->answer == PW_FENCED && current) {
        sim_fail(s, "J1", "%s: an append of the owner is refused as fenced", ledger->name);
        return;
    }
    uint64_t before = ledger->last_seq;
    check_appended(s, ledger, l, a, l->body);
    if (s->failed) {
        return;
    }
    bool done = ledger->last_seq > before;
    if (l->answer == PW_OK && ledger->last_seq != a->records[a->record_count - 1].seq) {
        sim_fail(s, "J4", "%s: an append is answered and is not in the store", ledger->name);
    } else if (done && l->answer != PW_OK && l->answer != PW_UNKNOWN) {
        sim_fail(s, "J4", "%s: an append answered %s changed the store", ledger->name,
                 pw_status_code(l->answer));
    }
}

static void execute(sim *s, sim_live **lives, size_t count)
{
    pw_op ops[SIM_SESSIONS] = {0};
    for (size_t i = 0; i < count; i++) {
        sim_live *l = lives[i];
        ops[i] = (pw_op){.kind = PW_OP_APPEND,
                         .append = {.session_id = s->ledgers[l->session].id,
                                    .epoch = l->epoch,
                                    .append = l->append}};
    }
    bool skips = s->plan->bug == BUG_SKIP_APPEND && count > 0 && s->appends > 3;
    if (!skips) {
        sim_execute(s, ops, count);
    }
    s->planted = s->planted || skips;
    for (size_t i = 0; i < count; i++) {
        sim_live *l = lives[i];
        l->executed = true;
        l->answer = ops[i].status;
        l->body = PW_STR_NONE;
        sim_note(s, "owner %d: append to %s of %zu records: %s %s", l->owner,
                 s->ledgers[l->session].name, l->append->record_count, pw_status_code(l->answer),
                 ops[i].error.message);
    }
    s->appends += count;
}

void writer_run(sim *s, int32_t owner)
{
    sim_owner *o = &s->owners[owner];
    o->writer = false;
    if (owner_boundary(s, owner, "before the commit")) {
        return;
    }
    sim_live *batch[SIM_SESSIONS], *all[SIM_SESSIONS];
    size_t count = 0, all_count = 0;
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        sim_live *l = o->lives[i];
        if (!l || !l->append || l->executed) {
            continue;
        }
        race(s, l);
        all[all_count++] = l;
        if (l->transact) {
            transact(s, l);
        } else {
            batch[count++] = l;
        }
    }
    if (count > 0) {
        execute(s, batch, count);
    }
    for (size_t i = 0; i < all_count && !s->failed; i++) {
        judge(s, all[i]);
        queue_push(s, (sim_event){.at = s->now + (int64_t)sim_chance(s, 0xa5, s->order, 3),
                                  .kind = EVENT_ANSWER,
                                  .owner = owner,
                                  .life = o->life,
                                  .b = all[i]->serial});
    }
    if (!s->failed) {
        (void)owner_boundary(s, owner, "after the commit");
    }
}

/* --- The answers ------------------------------------------------------------------------------ */

static void answer_not(sim *s, sim_live *l, uint64_t ticket, pw_status status)
{
    if (status == PW_FENCED) {
        l->fenced = true;
    }
    if (status != PW_NOT_COMMITTED && status != PW_STALE && status != PW_FENCED &&
        status != PW_UNKNOWN) {
        sim_fail(s, "store", "%s: an append is answered %s", s->ledgers[l->session].name,
                 pw_status_code(status));
        return;
    }
    bool on = life_step(s, l,
                        &(pw_input){.kind = PW_IN_NOT_APPENDED,
                                    .not_appended = {.ticket = ticket, .status = status}});
    if (on && status == PW_STALE) {
        life_inbox(s, l);
    } else if (on && (status == PW_FENCED || status == PW_UNKNOWN)) {
        sim_fail(s, status == PW_FENCED ? "J1" : "J4", "%s does not rest after %s",
                 s->ledgers[l->session].name, pw_status_code(status));
    }
}

static bool claims(const pw_append *a)
{
    return a->consumed_count > 0 && a->records[0].kind == PW_RECORD_TURN_OPENED;
}

static void answer_yes(sim *s, sim_live *l, const pw_append *a, pw_str body)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    uint64_t last = a->records[a->record_count - 1].seq;
    bool claimed = claims(a);
    bool ends = a->turn_ended_seq != 0;
    if (last > ledger->last_seq) {
        sim_fail(s, "J4", "%s: a machine is told that record %llu is durable, and it is not",
                 ledger->name, (unsigned long long)last);
        return;
    }
    check_told(s, ledger,
               last); /* subscribers first: it is durable, whoever owns the session now */
    bool on = life_step(s, l,
                        &(pw_input){.kind = PW_IN_APPENDED,
                                    .appended = {.ticket = a->ticket, .receipt_body = body}});
    /* After every append in each fourth seed; elsewhere at both ends of turns and at every third
     * append (it is half of the time). */
    if (on && (s->plan->seed % 4 == 0 || s->plan->story || claimed || ends || last % 3 == 0)) {
        check_fold(s, l);
    }
    if (on) {
        plant_repeat(s, l);
    }
    if (on && !s->failed && claimed && l->more) {
        life_inbox(s, l);
    }
}

void writer_answer(sim *s, int32_t owner, uint64_t serial)
{
    sim_live *l = NULL;
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        sim_live *x = s->owners[owner].lives[i];
        l = x && x->serial == serial ? x : l;
    }
    if (!l || !l->append || !l->executed || owner_boundary(s, owner, "before the answer")) {
        return;
    }
    const pw_append *a = l->append;
    const pw_tool_call *transact = l->transact;
    const uint64_t ticket = a->ticket;
    l->append = NULL;
    l->transact = NULL;
    pw_status status = l->answer;
    l->ends_again = status == PW_NOT_COMMITTED && a->turn_ended_seq != 0;
    if (status == PW_UNKNOWN && s->plan->bug == BUG_UNKNOWN_IS_OK) {
        status = l->answer = PW_OK;
        s->planted = true;
    }
    if (status == PW_FENCED && s->plan->bug == BUG_ZOMBIE && !transact) {
        l->fenced = true; /* and yet it is told to go on */
        s->planted = true;
        life_step(s, l, &(pw_input){.kind = PW_IN_APPENDED, .appended = {.ticket = a->ticket}});
        return;
    }
    if (transact && l->tool_failed) {
        const sim_did *did = &s->calls[l->transact_call].did;
        pw_tool_outcome outcome = did->outcome;
        if (status == PW_TIMEOUT) {
            outcome = (pw_tool_outcome){.kind = PW_TOOL_ABANDONED, .limit_passed = true};
        }
        life_step(s, l,
                  &(pw_input){.kind = PW_IN_TOOL_RESULT,
                              .tool = {.call = transact->call, .outcome = &outcome}});
    } else if (status == PW_OK) {
        answer_yes(s, l, a, l->body);
    } else {
        answer_not(s, l, ticket, status);
    }
    /* An answer to a ticket that is over is ignored. */
    if (!s->failed && life_current(s, l) && !l->fenced && status == PW_OK &&
        sim_chance(s, 0x71c, ticket + serial, 10) == 0) {
        life_step(s, l,
                  &(pw_input){.kind = PW_IN_NOT_APPENDED,
                              .not_appended = {.ticket = ticket, .status = PW_FENCED}});
    }
}
