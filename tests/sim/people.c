/*
 * People and operators: they send messages (again, with other content, in bursts), cancel,
 * withdraw, drain and take over, and each answer that they get is held against what the judge knows
 * (A1, A4, I3, I7).
 */
#include "sim.h"

/* A request's content and who sent it are fixed by its place in the plan. */
static pw_str write_text(int32_t session, int32_t request, int32_t variant, bool json,
                         char room[160])
{
    static const char *const escaped[] = {"",
                                          " \\u00e9t\\u00e9",
                                          " \xe2\x82\xac 5",
                                          " \\\"so\\\"",
                                          " \xf0\x9f\x90\xa6",
                                          "\\nsecond line"};
    static const char *const plain[] = {"",        " \xc3\xa9t\xc3\xa9", " \xe2\x82\xac 5",
                                        " \"so\"", " \xf0\x9f\x90\xa6",  "\nsecond line"};
    int32_t tail = (session + 3 * request + variant) % 6;
    int length = snprintf(room, 160, "message %d.%d.%d%s", session, request, variant,
                          json ? escaped[tail] : plain[tail]);
    return (pw_str){room, (size_t)length};
}

pw_str people_text(int32_t session, int32_t request, int32_t variant, char room[160])
{
    return write_text(session, request, variant, false, room);
}

static uint64_t sender(const sim *s, int32_t session, int32_t request)
{
    return sim_chance(s, 0x5e2d, (uint64_t)(session * 1000 + request), 12);
}

static const char *sender_json(uint64_t sender)
{
    switch (sender) {
    case 0:
        return "\"source\":\"cli\",\"user\":null";
    case 1:
        return "\"source\":\"http\",\"user\":{\"id\":\"ann\",\"attested\":true}";
    case 2:
        return "\"source\":\"http\",\"user\":{\"id\":\"ann\",\"attested\":false}";
    default:
        return "\"source\":\"http\",\"user\":null";
    }
}

/* May these two be in one turn (B8)? */
bool people_alike(sim *s, const sim_ledger *l, const sim_request *a, const sim_request *b)
{
    int32_t session = (int32_t)(l - s->ledgers);
    return strcmp(sender_json(sender(s, session, (int32_t)(a - l->requests))),
                  sender_json(sender(s, session, (int32_t)(b - l->requests)))) == 0;
}

/* Some messages bring an image, after their text. */
bool people_image(const sim *s, int32_t session, int32_t request, int32_t variant)
{
    return variant == 2 ||
           (!s->plan->story && sim_chance(s, 0x13a6, (uint64_t)(session * 1000 + request), 3) == 0);
}

static pw_str body_of(sim *s, int32_t session, int32_t request, int32_t variant)
{
    char text[160];
    return sim_format(s,
                      "{\"role\":\"user\",%s,\"content\":[{\"type\":\"text\",\"text\":\"%s\"}%s]}",
                      sender_json(sender(s, session, request)),
                      write_text(session, request, variant, true, text).ptr,
                      people_image(s, session, request, variant)
                          ? ",{\"type\":\"image\",\"source\":{\"data\":\"aW1hZ2U=\"}}"
                          : "");
}

static bool someone_waits(const sim_ledger *l)
{
    for (int32_t i = 0; i < l->request_count; i++) {
        if (l->requests[i].fate == FATE_PENDING) {
            return true;
        }
    }
    return false;
}

static void check_existing(sim *s, sim_ledger *l, sim_request *r, const pw_op *op)
{
    const pw_message_row *row = &op->admit.row;
    pw_disposition want = r->fate == FATE_PENDING       ? PW_PENDING
                          : r->fate == FATE_WITHDRAWN   ? PW_WITHDRAWN
                          : l->turns[r->turn].ended_seq ? PW_ANSWERED
                                                        : PW_CLAIMED;
    if (row->disposition != want) {
        sim_fail(s, "A1", "%s %s is told to be %s and is %s", l->name, r->id,
                 pw_disposition_name(row->disposition), pw_disposition_name(want));
    } else if ((want == PW_CLAIMED || want == PW_ANSWERED) &&
               !pw_str_equal(row->turn, l->turns[r->turn].id)) {
        sim_fail(s, "A1", "%s %s is told to be of another turn", l->name, r->id);
    }
}

static void admitted(sim *s, sim_ledger *l, sim_request *r, int32_t variant, const pw_op *op)
{
    if (r->fate != FATE_NONE) {
        if (r->maybe) { /* the one of unknown outcome, told now */
            sim_fail(s, "A1", "%s %s is accepted twice", l->name, r->id);
        }
        sim_fail(s, "A1", "%s %s: an id is accepted a second time", l->name, r->id);
        return;
    }
    for (int32_t i = 0; i < l->request_count; i++) {
        if (l->requests[i].fate != FATE_NONE && l->requests[i].n >= op->admit.row.n) {
            sim_fail(s, "A7", "%s %s got the number %llu, which is not above all others", l->name,
                     r->id, (unsigned long long)op->admit.row.n);
        }
    }
    r->fate = FATE_PENDING;
    r->variant = variant;
    r->n = op->admit.row.n;
    r->at_ms = op->admit.now_ms;
    r->maybe = false;
    l->id = op->admit.session_id;
}

/* After an admission of unknown outcome: what does the store say? People ask again; the judge
 * looks. */
static void look_again(sim *s, sim_ledger *l, sim_request *r, int32_t variant, int64_t at_ms)
{
    pw_op find = {.kind = PW_OP_SESSION,
                  .session = {.principal = PW_STR("local"), .session = pw_str_from(l->name)}};
    sim_execute(s, &find, 1);
    if (find.status != PW_OK) {
        return;
    }
    l->id = find.session.row.id;
    pw_op op = {.kind = PW_OP_MESSAGE,
                .message = {.session_id = l->id, .request_id = pw_str_from(r->id)}};
    sim_execute(s, &op, 1);
    if (op.status == PW_OK && r->fate == FATE_NONE) {
        r->fate = FATE_PENDING;
        r->variant = variant;
        r->n = op.message.row.n;
        r->at_ms = at_ms;
        r->maybe = true;
    }
}

static void check_admit(sim *s, sim_ledger *l, sim_request *r, int32_t variant, pw_op *op)
{
    bool open = l->open >= 0 || someone_waits(l);
    switch (op->admit.answer) {
    case PW_ADMITTED:
        if (op->admit.reject_when_busy && open) {
            sim_fail(s, "A4", "%s %s is accepted, though the session is busy", l->name, r->id);
        }
        admitted(s, l, r, variant, op);
        owner_hint(s, (int32_t)(l - s->ledgers));
        break;
    case PW_ADMIT_EXISTING:
        if (r->fate == FATE_NONE) {
            sim_fail(s, "A1", "%s %s is existing, though nobody sent it", l->name, r->id);
        } else if (r->variant != variant) {
            sim_fail(s, "A1", "%s %s has other content and is existing", l->name, r->id);
        } else {
            check_existing(s, l, r, op);
        }
        break;
    case PW_ADMIT_CONFLICT:
        if (r->fate == FATE_NONE || r->variant == variant) {
            sim_fail(s, "A1", "%s %s is a conflict with itself", l->name, r->id);
        }
        break;
    case PW_ADMIT_BUSY:
        if (!op->admit.reject_when_busy || !open || r->fate != FATE_NONE) {
            sim_fail(s, "A4", "%s %s is refused as busy", l->name, r->id);
        }
        break;
    case PW_ADMIT_OTHER_AGENT:
        sim_fail(s, "A1", "%s %s: another agent", l->name, r->id);
        break;
    }
}

static void send(sim *s, const sim_move *m, int32_t index)
{
    sim_ledger *l = &s->ledgers[m->session];
    if (m->a >= SIM_REQUESTS) {
        return;
    }
    while (l->request_count <= m->a) {
        sim_request *r = &l->requests[l->request_count];
        snprintf(r->id, sizeof r->id, "r-%d-%d",
                 (int)sim_chance(s, 0x1d, (uint64_t)(m->session * 100 + l->request_count), 1000),
                 l->request_count);
        l->request_count++;
    }
    sim_request *r = &l->requests[m->a];
    pw_str body = body_of(s, m->session, m->a, m->b);
    pw_hash hash = pw_sha256_of(body);
    pw_hash_hex digest = pw_hash_to_hex(&hash);
    const pw_definition *d = sim_definition(s, s->plan->definition[m->session], 0);
    if (!d) {
        return;
    }
    int64_t now = sim_wall(s);
    pw_op op = {.kind = PW_OP_ADMIT,
                .admit = {.principal = PW_STR("local"),
                          .session = pw_str_from(l->name),
                          .uid = pw_str_from(l->uid),
                          .agent = d->name,
                          .request_id = pw_str_from(r->id),
                          .digest = pw_str_from(digest.text),
                          .body = body,
                          .reject_when_busy = m->c == 1,
                          .now_ms = now,
                          .due_at_ms = now + d->debounce_ms}};
    if (s->plan->bug == BUG_LOSE_MESSAGE && r->fate == FATE_NONE && m->a % 3 == 1) {
        r->fate = FATE_PENDING; /* planted: it is told to be accepted and is nowhere */
        r->variant = m->b;
        r->n = 1000 + (uint64_t)m->a;
        s->planted = true;
        return;
    }
    sim_execute(s, &op, 1);
    sim_note(s, "people: %s %s variant %d: %s, answer %d", l->name, r->id, m->b,
             pw_status_code(op.status), (int)op.admit.answer);
    if (op.status == PW_OK) {
        check_admit(s, l, r, m->b, &op);
    } else if (op.status == PW_UNKNOWN || op.status == PW_NOT_COMMITTED) {
        if (op.status == PW_UNKNOWN) {
            look_again(s, l, r, m->b, now);
        }
        queue_push(s, (sim_event){.at = s->now + 300, .kind = EVENT_RETRY, .a = index});
    } else {
        sim_fail(s, "A1", "%s %s: the store says %s: %s", l->name, r->id, pw_status_code(op.status),
                 op.error.message);
    }
}

static void cancel(sim *s, const sim_move *m, int32_t index)
{
    sim_ledger *l = &s->ledgers[m->session];
    sim_turn *t = NULL;
    int32_t last = l->open >= 0 ? l->open - 1 : l->turn_count - 1;
    if (m->a == 0 && l->open >= 0) {
        t = &l->turns[l->open];
    } else if ((m->a == 1 || m->a == 3) && last >= 0) {
        t = &l->turns[last];
    }
    pw_op op = {.kind = PW_OP_CANCEL,
                .cancel = {.principal = PW_STR("local"),
                           .session = pw_str_from(l->name),
                           .turn = t ? t->id : PW_STR("0000"),
                           .body = PW_STR("{\"reason\":\"user\"}"),
                           .now_ms = sim_wall(s)}};
    sim_execute(s, &op, 1);
    sim_note(s, "people: cancel %s turn %d: %s, answer %d", l->name, t ? (int)(t - l->turns) : -1,
             pw_status_code(op.status), (int)op.cancel.answer);
    if (op.status == PW_UNKNOWN || op.status == PW_NOT_COMMITTED) {
        if (t && !t->ended_seq && op.status == PW_UNKNOWN) {
            t->cancel_admitted = true; /* perhaps: it may then be cancelled, and need not */
        }
        queue_push(s, (sim_event){.at = s->now + 300, .kind = EVENT_RETRY, .a = index});
        return;
    }
    pw_cancelled want = !t ? PW_CANCEL_NONE : t->ended_seq ? PW_CANCEL_ENDED : PW_CANCEL_ADMITTED;
    pw_cancelled got = op.status == PW_NOT_FOUND ? PW_CANCEL_NONE : op.cancel.answer;
    if (got == PW_CANCEL_TWICE && want == PW_CANCEL_ADMITTED && t->cancel_admitted) {
        got = PW_CANCEL_ADMITTED;
    } else if (got == PW_CANCEL_ADMITTED && t && t->cancel_admitted && !s->plan->story &&
               want == PW_CANCEL_ADMITTED) {
        want = PW_CANCEL_ADMITTED;
    }
    if ((op.status != PW_OK && op.status != PW_NOT_FOUND) || got != want) {
        sim_fail(s, "I7", "%s: a cancel is answered %s %d, not %d", l->name,
                 pw_status_code(op.status), (int)op.cancel.answer, (int)want);
    } else if (want == PW_CANCEL_ENDED && op.cancel.turn_state != t->state) {
        sim_fail(s, "I7", "%s: a late cancel is told the wrong end", l->name);
    } else if (want == PW_CANCEL_ADMITTED) {
        t->cancel_admitted = true;
        owner_hint(s, m->session);
    }
}

static void withdraw(sim *s, int32_t session, sim_request *r, int32_t index)
{
    sim_ledger *l = &s->ledgers[session];
    pw_op op = {.kind = PW_OP_WITHDRAW,
                .withdraw = {.principal = PW_STR("local"),
                             .session = pw_str_from(l->name),
                             .request_id = pw_str_from(r->id),
                             .now_ms = sim_wall(s)}};
    sim_execute(s, &op, 1);
    sim_note(s, "people: withdraw %s %s: %s, answer %d", l->name, r->id, pw_status_code(op.status),
             (int)op.withdraw.answer);
    if (op.status == PW_UNKNOWN || op.status == PW_NOT_COMMITTED) {
        pw_op look = {.kind = PW_OP_MESSAGE,
                      .message = {.session_id = l->id, .request_id = pw_str_from(r->id)}};
        sim_execute(s, &look, 1);
        if (look.status == PW_OK && look.message.row.disposition == PW_WITHDRAWN) {
            r->fate = FATE_WITHDRAWN;
        }
        if (index >= 0) {
            queue_push(s, (sim_event){.at = s->now + 300, .kind = EVENT_RETRY, .a = index});
        }
        return;
    }
    pw_withdrawn want = r->fate == FATE_PENDING     ? PW_WITHDREW
                        : r->fate == FATE_WITHDRAWN ? PW_WITHDRAW_TWICE
                        : r->fate == FATE_CLAIMED   ? PW_WITHDRAW_CLAIMED
                                                    : PW_WITHDRAW_NONE;
    pw_withdrawn got = op.status == PW_NOT_FOUND ? PW_WITHDRAW_NONE : op.withdraw.answer;
    if (s->plan->bug == BUG_WITHDRAW_ANYWAY && got == PW_WITHDRAW_CLAIMED) {
        got = PW_WITHDREW;
        s->planted = true;
    }
    if (got != want) {
        sim_fail(s, got == PW_WITHDREW ? "A7" : "I3", "%s %s: withdrawal answered %s %d, not %d",
                 l->name, r->id, pw_status_code(op.status), (int)got, (int)want);
    } else if (got == PW_WITHDREW) {
        r->fate = FATE_WITHDRAWN;
        owner_hint(s, session);
    } else if (got == PW_WITHDRAW_CLAIMED &&
               (op.withdraw.ended != (l->turns[r->turn].ended_seq > 0) ||
                !pw_str_equal(op.withdraw.turn, l->turns[r->turn].id))) {
        sim_fail(s, "I3", "%s %s: a late withdrawal is told wrong things", l->name, r->id);
    }
}

void people_withdraw(sim *s, int32_t session, sim_request *r)
{
    withdraw(s, session, r, -1);
}

static void do_move(sim *s, const sim_move *m, int32_t index)
{
    switch (m->kind) {
    case MOVE_MESSAGE:
        send(s, m, index);
        break;
    case MOVE_CANCEL:
        cancel(s, m, index);
        break;
    case MOVE_WITHDRAW:
        if (m->a < s->ledgers[m->session].request_count) {
            withdraw(s, m->session, &s->ledgers[m->session].requests[m->a], index);
        }
        break;
    case MOVE_DRAIN:
        owner_drain(s, m->owner);
        break;
    case MOVE_TAKE_OVER:
        owner_take_over(s, m->owner, m->session);
        break;
    case MOVE_CRASH:
        s->owners[m->owner].crash_in = m->a;
        s->owners[m->owner].crash_back_ms = m->b;
        break;
    case MOVE_FREEZE:
        owner_freeze(s, m->owner, m->a);
        break;
    case MOVE_JUMP:
        sim_note(s, "the clock jumps by %d ms", m->a);
        s->wall_offset += m->a;
        s->jumped = true;
        break;
    case MOVE_FAULT:
        s->fault = (pw_memory_fault)m->a;
        s->fault_count = m->b;
        s->fault_skip = m->c;
        break;
    case MOVE_RACE:
        s->race[m->session] = true;
        break;
    }
}

void people_move(sim *s, const sim_move *m)
{
    do_move(s, m, (int32_t)(m - s->plan->moves));
}

void people_retry(sim *s, const sim_event *e)
{
    if (e->a >= 0) {
        do_move(s, &s->plan->moves[e->a], e->a);
    }
}
