/*
 * When all is over: every message has one end and no session is left open (A7), the store agrees
 * with itself and with the judge, the events of any position tell the same story (M1), and
 * transactional tools did what their receipts say (D).
 */
#include "sim.h"

static void check_requests(sim *s, sim_ledger *l)
{
    for (int32_t i = 0; i < l->request_count; i++) {
        sim_request *q = &l->requests[i];
        pw_op op = {.kind = PW_OP_MESSAGE,
                    .message = {.session_id = l->id, .request_id = pw_str_from(q->id)}};
        sim_execute(s, &op, 1);
        bool there = op.status == PW_OK;
        if (q->fate == FATE_NONE) {
            if (there) {
                sim_fail(s, "A1", "%s %s is in the store and nobody was told", l->name, q->id);
            }
            continue;
        }
        pw_disposition want = q->fate == FATE_CLAIMED ? PW_ANSWERED : PW_WITHDRAWN;
        if (!there) {
            sim_fail(s, q->fate == FATE_PENDING ? "A1" : "A7", "%s %s was accepted and is lost",
                     l->name, q->id);
        } else if (q->fate == FATE_PENDING) {
            sim_fail(s, "A7", "%s %s was never taken", l->name, q->id);
        } else if (op.message.row.disposition != want) {
            sim_fail(s, "A7", "%s %s is %s at the end", l->name, q->id,
                     pw_disposition_name(op.message.row.disposition));
        } else if (want == PW_ANSWERED &&
                   !pw_str_equal(op.message.row.turn, l->turns[q->turn].id)) {
            sim_fail(s, "A7", "%s %s is said to be of another turn", l->name, q->id);
        }
    }
}

static void check_row(sim *s, sim_ledger *l)
{
    pw_op ops[2] = {{.kind = PW_OP_SESSION, .session = {.session_id = l->id}},
                    {.kind = PW_OP_INBOX, .inbox = {.session_id = l->id, .limit = 64}}};
    sim_execute(s, ops, 2);
    const pw_session_row *row = &ops[0].session.row;
    if (ops[0].status != PW_OK || row->turn.len > 0 || row->quarantined ||
        pw_str_is(row->owner, s->owners[SIM_OWNERS - 1].id.text)) {
        sim_fail(s, "A7", "%s is not idle and let go at the end", l->name);
    } else if (row->last_seq != l->last_seq || row->epoch != l->epoch) {
        sim_fail(s, "J1", "%s: the row says record %llu, epoch %llu", l->name,
                 (unsigned long long)row->last_seq, (unsigned long long)row->epoch);
    } else if (ops[1].inbox.inbox.count > 0) {
        sim_fail(s, "I7", "%s: %zu inbox rows still wait", l->name, ops[1].inbox.inbox.count);
    }
}

static void check_turn_rows(sim *s, sim_ledger *l)
{
    pw_op op = {.kind = PW_OP_TURNS, .turns = {.session_id = l->id, .limit = 1000}};
    sim_execute(s, &op, 1);
    if (op.status != PW_OK || op.turns.count != (size_t)l->turn_count) {
        sim_fail(s, "B1", "%s: %zu turn rows for %d turns", l->name, op.turns.count, l->turn_count);
        return;
    }
    for (int32_t i = 0; i < l->turn_count; i++) {
        const pw_turn_row *row = &op.turns.rows[i];
        const sim_turn *t = &l->turns[i];
        if (!pw_str_equal(row->turn, t->id) || row->opened_seq != t->opened_seq ||
            row->ended_seq != t->ended_seq || row->state != t->state) {
            sim_fail(s, "H1", "%s: the row of turn %d does not say what its records say", l->name,
                     i);
        }
    }
}

static void check_world(sim *s, sim_ledger *l)
{
    for (int32_t i = 0; i < l->step_count; i++) {
        const sim_step *step = &l->steps[i];
        if (!step->known || step->effects != PW_EFFECTS_TRANSACTIONAL) {
            continue;
        }
        int64_t is = pw_store_memory_world_get(s->store, world_key(s, l, step));
        if (s->plan->bug == BUG_TRANSACT_OUTSIDE && step->runs > 0) {
            is = step->runs; /* planted: nothing was ever undone */
            s->planted = true;
        }
        int64_t want = step->receipt == RECEIPT_DONE ? 1 : 0;
        if (is != want) {
            sim_fail(s, "D2", "%s %.*s: written %lld times, and the receipt says %lld", l->name,
                     PW_STR_ARG(step->id), (long long)is, (long long)want);
        }
    }
}

/* --- M1, M6 ----------------------------------------------------------------------------------- */

typedef struct grammar {
    bool open;
    int32_t actions; /* asked for and not closed */
} grammar;

static void check_grammar(sim *s, const sim_ledger *l, grammar *g, const pw_event_out *e)
{
    static const char *const ends[] = {"turn.completed", "turn.failed", "turn.paused",
                                       "turn.exhausted", "turn.cancelled"};
    if (pw_str_is(e->name, "turn.started")) {
        if (g->open) {
            sim_fail(s, "M6", "%s: a turn starts inside another (event %.*s)", l->name,
                     PW_STR_ARG(e->id));
        }
        *g = (grammar){.open = true};
        return;
    }
    if (!g->open) {
        sim_fail(s, "M6", "%s: %.*s after the end (event %.*s)", l->name, PW_STR_ARG(e->name),
                 PW_STR_ARG(e->id));
    }
    g->actions += pw_str_is(e->name, "action.requested") - pw_str_is(e->name, "action.completed");
    if (g->actions < 0) {
        sim_fail(s, "M6", "%s: an action is closed that nobody asked for", l->name);
    }
    for (size_t i = 0; i < 5; i++) {
        if (pw_str_is(e->name, ends[i])) {
            if (g->actions != 0) {
                sim_fail(s, "M6", "%s: the turn ends with %d actions open", l->name, g->actions);
            }
            g->open = false;
        }
    }
}

/* An event's id, as a cursor, stands right after it. */
static void check_cursor(sim *s, const sim_ledger *l, const pw_event_out *e, uint64_t seq,
                         size_t index, size_t count)
{
    pw_cursor c = {0};
    bool last = index + 1 == count;
    if (pw_cursor_parse(e->id, &c, NULL) != PW_OK || c.bytes != 0 ||
        c.seq != (last ? seq : seq - 1) || c.index != (last ? 0 : index + 1)) {
        sim_fail(s, "M1", "%s: the cursor %.*s stands at %llu.%u", l->name, PW_STR_ARG(e->id),
                 (unsigned long long)c.seq, c.index);
    }
}

static void check_events(sim *s, sim_ledger *l)
{
    check_told(s, l, l->last_seq); /* the subscriber reads on to the end */
    uint64_t told = l->story_hash;
    pw_op op = {.kind = PW_OP_RECORDS, .records = {.session_id = l->id, .from_seq = 1}};
    sim_execute(s, &op, 1);
    uint64_t hash = 0;
    grammar g = {0};
    for (size_t i = 0; i < op.records.count && !s->failed; i++) {
        const pw_record *r = &op.records.records[i];
        const pw_event_out *events = NULL;
        size_t count = 0;
        pw_error error = {0};
        if (pw_event_tell(r, pw_str_from(l->name), &s->arena, &events, &count, &error) != PW_OK) {
            sim_fail(s, "M1", "%s: record %zu cannot be told: %s", l->name, i + 1, error.message);
            return;
        }
        for (size_t k = 0; k < count; k++) {
            hash = sim_hash(events[k].id, hash);
            hash = sim_hash(events[k].name, hash);
            hash = sim_hash(events[k].data, hash);
            check_grammar(s, l, &g, &events[k]);
            check_cursor(s, l, &events[k], r->seq, k, count);
        }
        s->hash = sim_hash(r->body, sim_mix(s->hash, (uint64_t)r->kind));
        s->hash = sim_hash(r->step, sim_mix(s->hash, (uint64_t)r->at_ms));
        s->hash = sim_hash(r->turn, s->hash);
    }
    if (!s->failed && hash != told) {
        sim_fail(s, "M1", "%s: told from the start, the events are another story", l->name);
    }
}

void check_end(sim *s)
{
    for (int32_t i = 0; i < s->plan->sessions && !s->failed; i++) {
        sim_ledger *l = &s->ledgers[i];
        if (l->id == 0 || l->request_count == 0) {
            continue;
        }
        ledger_read(s, l);
        if (l->open >= 0 && !s->failed) {
            sim_fail(s, "A7", "%s: a turn never ended", l->name);
        }
        check_requests(s, l);
        check_row(s, l);
        check_turn_rows(s, l);
        check_world(s, l);
        if (!s->failed) {
            check_events(s, l);
        }
    }
    pw_op op = {.kind = PW_OP_VERIFY};
    sim_execute(s, &op, 1);
    if (!s->failed && (op.status != PW_OK || op.verify.faults != 0)) {
        sim_fail(s, "VERIFY", "%s %.*s", pw_status_code(op.status), PW_STR_ARG(op.verify.report));
    }
}
