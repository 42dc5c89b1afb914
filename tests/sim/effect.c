/*
 * Doing what a machine asks, in the order it asks, with a chance to die before and after each
 * effect.
 */
#include <stdlib.h>

#include "sim.h"

sim_call *call_new(sim *s, sim_live *l, bool model, uint64_t call)
{
    for (int32_t i = 0; i < s->call_count; i++) {
        if (s->calls[i].call == call && s->calls[i].session == l->session) {
            sim_fail(s, "C12", "%s: call id %llu is used twice", s->ledgers[l->session].name,
                     (unsigned long long)call);
        }
    }
    if (s->call_count == s->call_room) {
        s->call_room = s->call_room ? 2 * s->call_room : 64;
        s->calls = realloc(s->calls, (size_t)s->call_room * sizeof *s->calls);
        PW_ASSERT(s->calls);
    }
    sim_call *c = &s->calls[s->call_count++];
    *c = (sim_call){.owner = l->owner,
                    .session = l->session,
                    .life = s->owners[l->owner].life,
                    .serial = l->serial,
                    .call = call,
                    .model = model};
    return c;
}

static void call_at(sim *s, sim_call *c, int64_t at)
{
    queue_push(
        s,
        (sim_event){.at = at, .kind = EVENT_CALL, .a = (int32_t)(c - s->calls), .b = ++c->version});
}

/* --- Model calls */

static void do_model(sim *s, sim_live *l, const pw_model_request *request)
{
    s->model_calls++;
    check_model(s, l, request);
    if (s->failed) {
        return;
    }
    sim_ledger *ledger = &s->ledgers[l->session];
    sim_call *c = call_new(s, l, true, request->call);
    c->step_id = sim_dup(s, request->step);
    c->turn = sim_dup(s, request->turn);
    c->said = world_model(s, ledger, request);
    sim_note(s, "owner %d: %s model call %llx, %.*s, attempt %d try %d, %zu messages", l->owner,
             ledger->name, (unsigned long long)request->call, PW_STR_ARG(request->step),
             request->attempt, request->tries, request->count);
    call_at(s, c, s->now + c->said->piece_ms);
}

static pw_str piece_of(const sim_said *said, int32_t piece)
{
    size_t from = 0;
    for (int32_t i = 0; i < piece; i++) {
        from += pw_utf8_cut(pw_str_slice(said->text, from, said->text.len), 7);
    }
    size_t length = piece + 1 == said->pieces && !said->fails
                        ? said->text.len - from
                        : pw_utf8_cut(pw_str_slice(said->text, from, said->text.len), 7);
    return pw_str_slice(said->text, from, from + length);
}

static bool model_event(sim *s, sim_live *l, sim_call *c)
{
    if (!c->aborted && !c->accepted && c->said->response.len > 0) {
        c->accepted = true;
        return life_step(
            s, l,
            &(pw_input){.kind = PW_IN_MODEL_ACCEPTED,
                        .accepted = {.call = c->call, .response_id = c->said->response}});
    }
    if (!c->aborted && c->piece < c->said->pieces) {
        pw_str bytes = piece_of(c->said, c->piece);
        c->piece++;
        if (l->text_call != c->call) {
            l->text_call = c->call;
            l->text_bytes = 0;
        }
        bool reasoning = bytes.len > 0 && c->piece == 1 && c->said->pieces > 3;
        bool on =
            bytes.len == 0 ||
            life_step(
                s, l,
                &(pw_input){.kind = PW_IN_MODEL_DELTA,
                            .delta = {.call = c->call, .reasoning = reasoning, .bytes = bytes}});
        c = NULL; /* a step may have moved the calls */
        return on;
    }
    c->ended = true;
    sim_ledger *ledger = &s->ledgers[c->session];
    bool answers = !c->aborted || sim_chance(s, 0xab07, c->call, 4) == 0;
    if (answers && !c->said->fails) {
        ledger->reply_hashes[ledger->reply_count++ % 16] =
            world_parts_hash(c->said->parts, c->said->reply.part_count, false);
        return life_step(s, l,
                         &(pw_input){.kind = PW_IN_MODEL_REPLY,
                                     .reply = {.call = c->call, .reply = &c->said->reply}});
    }
    if (answers && c->said->rejects.seq > 0) {
        ledger->rejected = c->said->rejects;
        ledger->may_leave = c->said->may_leave;
    }
    pw_failure aborted = {.failure_class = PW_FAILURE_RETRY,
                          .code = PW_STR("aborted"),
                          .message = PW_STR("aborted"),
                          .usage = PW_USAGE_UNKNOWN};
    return life_step(s, l,
                     &(pw_input){.kind = PW_IN_MODEL_FAILED,
                                 .failed = {.call = c->call,
                                            .failure = answers ? &c->said->failure : &aborted}});
}

/* --- Tool calls */

static void do_tool(sim *s, sim_live *l, const pw_tool_call *call)
{
    s->tool_calls++;
    check_tool(s, l, call, false);
    if (s->failed) {
        return;
    }
    sim_ledger *ledger = &s->ledgers[l->session];
    sim_step *step = ledger_step(ledger, call->turn, call->step);
    sim_call *c = call_new(s, l, false, call->call);
    c->step = (int32_t)(step - ledger->steps);
    c->step_id = step->id;
    c->turn = sim_dup(s, call->turn);
    c->name = step->name;
    c->effects = call->effects;
    c->limit_at = s->now + call->limit_ms;
    memcpy(c->key, call->key.ptr, 64);
    if (s->plan->bug == BUG_OTHER_KEY && step->starts > 0) {
        c->key[0] = c->key[0] == '0' ? '1' : '0';
        s->planted = true;
    }
    step->starts++;
    step->lives_running++;
    world_tool(s, ledger, step, call->effects, &c->did);
    sim_note(s, "owner %d: %s tool %.*s call %llx, %.*s, execution %d, %s", l->owner, ledger->name,
             PW_STR_ARG(step->name), (unsigned long long)call->call, PW_STR_ARG(step->id),
             call->attempt, pw_effects_name(call->effects));
    call_at(s, c, s->now + c->did.effect_ms);
}

static bool tool_answer(sim *s, sim_live *l, sim_call *c)
{
    bool limit = s->now >= c->limit_at && c->did.answer_ms > 0 && !c->answered;
    pw_tool_outcome abandoned = {.kind = PW_TOOL_ABANDONED, .limit_passed = limit && !c->aborted};
    sim_ledger *ledger = &s->ledgers[c->session];
    sim_step *step = &ledger->steps[c->step];
    bool abandons = !c->answered && (c->did.hangs || (c->aborted && sim_chance(s, 7, c->call, 3)));
    pw_tool_outcome outcome = abandons ? abandoned : c->did.outcome;
    if (abandons && c->did.late) {
        c->answered = true; /* and then, too late, it answers all the same (D8) */
        c->did.hangs = false;
        call_at(s, c, s->now + 400);
    } else {
        c->ended = true;
        step->lives_running--;
    }
    if (outcome.kind == PW_TOOL_RESULT && step->said_count < 6) {
        step->said[step->said_count++] = world_value_hash(outcome.json);
        if (s->plan->bug == BUG_CHANGE_RESULT && outcome.json.len < 200) {
            outcome.json = PW_STR("\"planted\"");
            s->planted = true;
        }
    }
    return life_step(
        s, l,
        &(pw_input){.kind = PW_IN_TOOL_RESULT, .tool = {.call = c->call, .outcome = &outcome}});
}

static bool tool_effect(sim *s, sim_call *c)
{
    sim_ledger *ledger = &s->ledgers[c->session];
    bool own = !c->orphan;
    if (own && owner_boundary(s, c->owner, "before the tool's effect")) {
        return false; /* `c` went with its owner, or goes on as an orphan */
    }
    c->effect = true;
    bool never = (c->aborted || c->did.hangs) && sim_chance(s, 8, c->call, 2);
    if (!never) {
        world_run(s, ledger, &ledger->steps[c->step], c);
    }
    if (own && owner_boundary(s, c->owner, "after the tool's effect")) {
        return false;
    }
    int64_t at = c->did.hangs && !c->aborted ? c->limit_at : s->now + c->did.answer_ms;
    call_at(s, c, at);
    if (!own) {
        c->ended = true;
        ledger->steps[c->step].lives_running--;
    }
    return true;
}

/* --- Both */

/* The same last input once more: a call that is over ignores it. */
static void again(sim *s, int32_t index)
{
    sim_call *c = &s->calls[index];
    sim_live *l = s->owners[c->owner].lives[c->session];
    if (!c->ended || !l || !l->opened || !s->owners[c->owner].alive ||
        sim_chance(s, 0xa9a1, c->call, 12) != 0) {
        return;
    }
    if (!c->model) {
        pw_tool_outcome outcome = {.kind = PW_TOOL_RESULT, .json = PW_STR("\"again\"")};
        life_step(
            s, l,
            &(pw_input){.kind = PW_IN_TOOL_RESULT, .tool = {.call = c->call, .outcome = &outcome}});
    } else if (c->said->fails) {
        life_step(s, l,
                  &(pw_input){.kind = PW_IN_MODEL_FAILED,
                              .failed = {.call = c->call, .failure = &c->said->failure}});
    } else {
        life_step(s, l,
                  &(pw_input){.kind = PW_IN_MODEL_REPLY,
                              .reply = {.call = c->call, .reply = &c->said->reply}});
    }
}

void call_deliver(sim *s, sim_live *l, sim_call *c)
{
    c->held = false;
    int32_t index = (int32_t)(c - s->calls);
    if (owner_boundary(s, c->owner,
                       c->model ? "before a model's answer" : "before a tool's answer")) {
        return;
    }
    bool on = c->model ? model_event(s, l, c) : tool_answer(s, l, c);
    c = &s->calls[index];
    if (on && c->model && !c->ended) {
        call_at(s, c, s->now + c->said->piece_ms);
    } else if (on) {
        again(s, index);
    }
}

static void call_dropped(sim *s, sim_call *c)
{
    c->ended = true;
    if (!c->model) {
        s->ledgers[c->session].steps[c->step].lives_running--;
    }
}

void call_event(sim *s, const sim_event *e)
{
    sim_call *c = &s->calls[e->a];
    if (c->ended || c->version != e->b) {
        return;
    }
    if (!c->model && !c->effect) {
        tool_effect(s, c);
        return;
    }
    sim_owner *o = &s->owners[c->owner];
    if (!o->alive || o->life != c->life) {
        call_dropped(s, c);
        return;
    }
    if (o->frozen) {
        call_at(s, c, o->thaw_at);
        return;
    }
    sim_live *l = o->lives[c->session];
    if (l && l->opened) {
        call_deliver(s, l, c);
    } else if (l || o->reload[c->session]) {
        c->held = true; /* for the next life (C12) */
    } else {
        call_dropped(s, c);
    }
}

void calls_deliver_held(sim *s, sim_live *l)
{
    for (int32_t i = 0; i < s->call_count && life_current(s, l) && !s->failed; i++) {
        sim_call *c = &s->calls[i];
        if (c->held && !c->ended && c->owner == l->owner && c->session == l->session) {
            call_deliver(s, l, c);
        }
    }
}

static void do_abort(sim *s, sim_live *l, uint64_t call)
{
    for (int32_t i = 0; i < s->call_count; i++) {
        sim_call *c = &s->calls[i];
        if (c->call == call && c->session == l->session && c->owner == l->owner && !c->ended) {
            sim_note(s, "owner %d: abort %llx", l->owner, (unsigned long long)call);
            c->aborted = true;
            if (c->model || c->effect) {
                call_at(s, c, s->now + (int64_t)sim_chance(s, 0xab0, call, 900));
            }
        }
    }
}

static void do_wake(sim *s, sim_live *l, int64_t at_ms)
{
    l->wake_at_ms = at_ms;
    l->wake_version++;
    if (at_ms >= 0) {
        int64_t wait = at_ms - sim_wall(s);
        queue_push(s, (sim_event){.at = s->now + (wait < 0 ? 0 : wait),
                                  .kind = EVENT_WAKE,
                                  .owner = l->owner,
                                  .life = s->owners[l->owner].life,
                                  .a = l->session,
                                  .b = sim_mix(l->serial, l->wake_version)});
    }
}

/* What is asked here is done by the owner's writer, a little later. */
static void do_append(sim *s, sim_live *l, const pw_append *append)
{
    check_append_asked(s, l, append);
    sim_owner *o = &s->owners[l->owner];
    if (l->answer != PW_NOT_COMMITTED) { /* else it is the same append again */
        l->inbox_at_append = l->inbox_max_n;
    }
    l->append = append;
    l->ends_again = false;
    l->executed = false;
    l->answer = PW_OK;
    if (s->plan->bug == BUG_TELL_EARLY) {
        s->planted = true;
        check_told(s, &s->ledgers[l->session], append->records[append->record_count - 1].seq);
    }
    plant_early(s, l, append);
    if (!o->writer) {
        o->writer = true;
        queue_push(s, (sim_event){.at = s->now + (int64_t)sim_chance(s, 0x317, s->order, 4),
                                  .kind = EVENT_WRITE,
                                  .owner = l->owner,
                                  .life = o->life});
    }
}

static void do_transact(sim *s, sim_live *l, const pw_effect *effect)
{
    const pw_tool_call *call = effect->transact.call;
    s->tool_calls++;
    check_tool(s, l, call, true);
    if (s->failed) {
        return;
    }
    sim_ledger *ledger = &s->ledgers[l->session];
    sim_step *step = ledger_step(ledger, call->turn, call->step);
    sim_call *c = call_new(s, l, false, call->call);
    c->step = (int32_t)(step - ledger->steps);
    c->step_id = step->id;
    c->turn = sim_dup(s, call->turn);
    c->name = step->name;
    c->effects = PW_EFFECTS_TRANSACTIONAL;
    c->ended = true; /* its end is the transaction's */
    step->starts++;
    world_tool(s, ledger, step, PW_EFFECTS_TRANSACTIONAL, &c->did);
    l->receipt = effect->transact.receipt;
    l->transact = call;
    l->transact_call = (int32_t)(c - s->calls);
    sim_note(s, "owner %d: %s transaction of %.*s, %.*s", l->owner, ledger->name,
             PW_STR_ARG(step->name), PW_STR_ARG(step->id));
    do_append(s, l, effect->transact.append);
}

static void do_tell(sim *s, sim_live *l, const pw_effect *e)
{
    if (e->tell.reasoning) {
        return;
    }
    l->text_bytes += e->tell.bytes.len;
    if (e->tell.text_bytes != l->text_bytes) {
        sim_fail(s, "M2", "%s: text told up to %llu is said to be %llu long",
                 s->ledgers[l->session].name, (unsigned long long)l->text_bytes,
                 (unsigned long long)e->tell.text_bytes);
    } else if (e->tell.after_seq > s->ledgers[l->session].last_seq) {
        sim_fail(s, "M2", "%s: text is told after a record that is not durable",
                 s->ledgers[l->session].name);
    }
}

/* A7, J7: a row that nobody owns is due again no later than what it holds is: an open turn soon or
 * at its wait's end, a waiting message at its time. Not at the deadline of a turn that is over. */
static void check_let_go(sim *s, sim_ledger *ledger)
{
    pw_op op = {.kind = PW_OP_SESSION, .session = {.session_id = ledger->id}};
    sim_execute(s, &op, 1);
    int64_t latest = -1;
    for (int32_t i = 0; i < ledger->request_count && ledger->open < 0; i++) {
        const sim_request *q = &ledger->requests[i];
        if (q->fate == FATE_PENDING && !q->maybe) {
            const int64_t due =
                q->at_ms +
                sim_definition(s, s->plan->definition[ledger - s->ledgers], 0)->debounce_ms;
            latest = latest < 0 || due < latest ? due : latest;
        }
    }
    if (ledger->open >= 0) {
        const sim_turn *t = &ledger->turns[ledger->open];
        latest = t->wait_until_ms > sim_wall(s) + 61000 ? t->wait_until_ms : sim_wall(s) + 61000;
    }
    const int64_t wake = op.session.row.wake_at_ms;
    const int64_t now = sim_wall(s);
    if (op.status == PW_OK && latest >= 0 && !s->jumped &&
        (wake < 0 || wake > (latest > now ? latest : now))) {
        sim_fail(s, "A7", "%s is let go and due at %lld, %lld ms after what waits", ledger->name,
                 (long long)wake, (long long)(wake - latest));
    }
}

/* Lets go of the row where the machine could not in an append of its own. */
static bool let_go(sim *s, sim_live *l, int64_t wake_at_ms)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    pw_op op = {.kind = PW_OP_RELEASE,
                .release = {.session_id = ledger->id,
                            .epoch = l->epoch,
                            .wake_at_ms = wake_at_ms,
                            .looked_n = l->looked_n}};
    sim_execute(s, &op, 1);
    sim_note(s, "owner %d: %s is let go: %s", l->owner, ledger->name, pw_status_code(op.status));
    if (op.status == PW_OK && l->epoch != ledger->epoch) {
        sim_fail(s, "J1", "%s: a fenced owner lets go", ledger->name);
    } else if (op.status == PW_OK) {
        check_let_go(s, ledger);
    }
    return op.status == PW_OK || op.status == PW_FENCED;
}

/* What the machine asked for, but never later than what it leaves behind demands (A7). */
static int64_t wake_of(const pw_session_view *view, const sim_live *l)
{
    bool running = view->turn.len > 0 && view->state == PW_TURN_RUNNING;
    bool owed = view->turn.len > 0 ? view->state == PW_TURN_WAITING : view->waiting > 0;
    return running || (owed && l->wake_at_ms < 0) ? 0 : l->wake_at_ms;
}

static void do_rest(sim *s, sim_live *l, bool released)
{
    sim_owner *o = &s->owners[l->owner];
    pw_session_view view = pw_session_look(l->machine);
    bool unknown = l->executed && l->answer == PW_UNKNOWN;
    int32_t session = l->session;
    sim_note(s, "owner %d: %s rests%s%s", l->owner, s->ledgers[session].name,
             released ? ", released" : "", unknown ? ", unknown" : "");
    bool again = unknown;
    if (!released && !unknown && !l->fenced) {
        again = !let_go(s, l, wake_of(&view, l));
    }
    life_drop(s, l);
    if (again) {
        o->reload[session] = true;
        queue_push(s, (sim_event){.at = s->now + 20,
                                  .kind = EVENT_RELOAD,
                                  .owner = l->owner,
                                  .life = o->life,
                                  .a = session});
    }
}

static void do_one(sim *s, sim_live *l, const pw_effect *e)
{
    if (l->fenced && e->kind != PW_DO_ABORT && e->kind != PW_DO_REST && e->kind != PW_DO_WAKE) {
        sim_fail(s, "J1", "%s: a fenced machine asks for effect %d", s->ledgers[l->session].name,
                 (int)e->kind);
        return;
    }
    switch (e->kind) {
    case PW_DO_APPEND:
        do_append(s, l, e->append);
        break;
    case PW_DO_TRANSACT:
        do_transact(s, l, e);
        break;
    case PW_DO_MODEL:
        do_model(s, l, e->model);
        break;
    case PW_DO_TOOL:
        do_tool(s, l, e->tool);
        break;
    case PW_DO_ABORT:
        do_abort(s, l, e->abort.call);
        break;
    case PW_DO_TELL:
        do_tell(s, l, e);
        break;
    case PW_DO_WAKE:
        do_wake(s, l, e->wake_at_ms);
        break;
    case PW_DO_REST:
        do_rest(s, l, e->rest.released);
        break;
    }
}

bool effects_do(sim *s, sim_live *l, pw_effects effects)
{
    static const char *const names[] = {"append", "transact", "model", "tool",
                                        "abort",  "tell",     "wake",  "rest"};
    int32_t owner = l->owner;
    for (size_t i = 0; i < effects.count; i++) {
        const pw_effect *e = &effects.list[i];
        pw_effect_kind kind = e->kind;
        if (kind != PW_DO_TELL && kind != PW_DO_WAKE && owner_boundary(s, owner, names[kind])) {
            return false;
        }
        if (!plant_wake(s, &effects, i)) {
            do_one(s, l, e);
        }
        if (s->failed) {
            return false;
        }
        if (kind == PW_DO_REST) {
            if (i + 1 < effects.count) {
                sim_fail(s, "REST", "an effect follows the rest");
            }
            return false;
        }
    }
    return true;
}
