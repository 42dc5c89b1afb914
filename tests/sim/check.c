/*
 * The invariants that hold at the moment of an effect: what an append may say, what a model and a
 * tool may be asked, and that nothing starts before what it depends on is in the store. Each
 * failure names its rule.
 */
#include <stdlib.h>

#include "sim.h"

/* --- M5 --------------------------------------------------------------------------------------- */

void check_reason(sim *s, pw_turn_state state, pw_str reason, pw_str where)
{
    static const char *const failed[] = {"model",         "empty_reply", "protocol",
                                         "repetition",    "tool_fatal",  "poison",
                                         "input_expired", "value_limit", NULL};
    static const char *const paused[] = {"max_tool_calls", "max_cost_usd", "max_tokens",
                                         "deadline",       "context",      NULL};
    static const char *const exhausted[] = {"max_iterations", NULL};
    static const char *const cancelled[] = {"user", "replaced", "reset", "parent", NULL};
    static const char *const waiting[] = {"rate_limit", "retry", "child", "store", "suspect", NULL};
    static const char *const none[] = {"", NULL};
    const char *const *list = none;
    switch (state) {
    case PW_TURN_FAILED:
        list = failed;
        break;
    case PW_TURN_PAUSED:
        list = paused;
        break;
    case PW_TURN_EXHAUSTED:
        list = exhausted;
        break;
    case PW_TURN_CANCELLED:
        list = cancelled;
        break;
    case PW_TURN_WAITING:
        list = waiting;
        break;
    case PW_TURN_RUNNING:
    case PW_TURN_SUSPENDED:
    case PW_TURN_COMPLETED:
        break;
    }
    for (; *list; list++) {
        if (pw_str_is(reason, *list)) {
            return;
        }
    }
    sim_fail(s, "M5", "%.12s: %s with the reason `%.*s`", where.ptr ? where.ptr : "",
             pw_turn_state_name(state), PW_STR_ARG(reason));
}

/* --- Appends ---------------------------------------------------------------------------------- */

static bool holds(const pw_append *a, pw_record_kind kind)
{
    for (size_t i = 0; i < a->record_count; i++) {
        if (a->records[i].kind == kind) {
            return true;
        }
    }
    return false;
}

void check_append_asked(sim *s, sim_live *l, const pw_append *a)
{
    const char *name = s->ledgers[l->session].name;
    if (l->append) {
        sim_fail(s, "APPEND", "%s: a second append while one is in flight", name);
        return;
    }
    pw_session_view view = pw_session_look(l->machine);
    for (size_t i = 0; i < a->record_count; i++) {
        if (a->records[i].seq != view.last_seq + 1 + i) {
            sim_fail(s, "J1", "%s: an append of record %llu after %llu", name,
                     (unsigned long long)a->records[i].seq,
                     (unsigned long long)(view.last_seq + i));
        }
    }
    bool ends = holds(a, PW_RECORD_TURN_ENDED);
    if (a->record_count == 0) {
        sim_fail(s, "APPEND", "%s: an append without records", name);
    } else if (ends != (a->turn_ended_seq != 0) ||
               (ends && (!pw_str_equal(a->settle_cancels_of, a->turn) || !a->head.set ||
                         a->head.turn.len > 0))) {
        sim_fail(s, "I7", "%s: an end that does not settle cancels or leaves the turn open", name);
    } else if (holds(a, PW_RECORD_TURN_OPENED) != (a->turn_opened_seq != 0)) {
        sim_fail(s, "B3", "%s: a claim that does not open its turn's row", name);
    } else if (holds(a, PW_RECORD_MODEL_COMPLETED) && !a->receipt) {
        sim_fail(s, "C4", "%s: an append with a model's receipt does not say so", name);
    } else if (a->receipt && !holds(a, PW_RECORD_MODEL_COMPLETED) &&
               !holds(a, PW_RECORD_TOOL_COMPLETED) && !holds(a, PW_RECORD_TURN_ENDED)) {
        sim_fail(s, "C4", "%s: an append without a receipt says it has one", name);
    }
    if (a->head.set && a->head.turn.len > 0) {
        check_reason(s, a->head.state, a->head.reason, a->head.turn);
    }
    check_cancelled(s, l, a);
}

/* B6: the last model step's append is the end's. */
static void check_last_step(sim *s, const sim_ledger *l, const pw_append *a)
{
    for (size_t i = 0; i < a->record_count; i++) {
        const pw_record *r = &a->records[i];
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 4096, 0);
        const pw_json *body = NULL;
        if (pw_json_parse(&arena, r->body, 0, &body, NULL) == PW_OK &&
            r->kind == PW_RECORD_TURN_ENDED &&
            pw_str_is(pw_json_text(pw_json_get(body, "state")), "completed") &&
            !holds(a, PW_RECORD_MODEL_COMPLETED) && !pw_json_true(pw_json_get(body, "silent"))) {
            sim_fail(s, "B6", "%s: completed apart from its last model step", l->name);
        }
        if (body && r->kind == PW_RECORD_MODEL_COMPLETED && !holds(a, PW_RECORD_TURN_ENDED)) {
            const pw_json *parts = pw_json_get(body, "parts");
            pw_str stop = pw_json_text(pw_json_get(body, "stop"));
            bool calls = false, text = false;
            for (const pw_json *p = parts ? parts->child : NULL; p; p = p->next) {
                pw_str type = pw_json_text(pw_json_get(p, "type"));
                calls = calls || pw_str_is(type, "tool_call");
                text = text || (pw_str_is(type, "text") &&
                                pw_str_trim(pw_json_text(pw_json_get(p, "text"))).len > 0);
            }
            if (!calls && text &&
                (pw_str_is(stop, "done") || pw_str_is(stop, "max_output") ||
                 pw_str_is(stop, "refused") || pw_str_is(stop, "filtered") ||
                 pw_str_is(stop, "stop_sequence"))) {
                sim_fail(s, "B6", "%s: the final model step does not end the turn", l->name);
            }
        }
        pw_arena_free(&arena);
    }
}

/* B8: the claim took the longest run that it had seen. */
static void check_longest(sim *s, const sim_ledger *l, const sim_live *live)
{
    const sim_turn *t = &l->turns[l->turn_count - 1];
    const sim_request *last = NULL, *next = NULL;
    for (int32_t i = 0; i < l->request_count; i++) {
        const sim_request *q = &l->requests[i];
        if (q->fate == FATE_CLAIMED && q->turn == l->turn_count - 1 && (!last || q->n > last->n)) {
            last = q;
        }
        if (q->fate == FATE_PENDING && (!next || q->n < next->n)) {
            next = q;
        }
    }
    for (int32_t i = 0; i < l->request_count && last && next; i++) {
        const sim_request *q = &l->requests[i];
        if (q->fate == FATE_WITHDRAWN && q->n > last->n && q->n < next->n) {
            return; /* it may have stood between them when the machine looked */
        }
    }
    if (last && next && t->claimed < 32 && next->n <= live->inbox_at_append &&
        people_alike(s, l, last, next)) {
        sim_fail(s, "B8", "%s: a claim leaves out %s, which is like the rest", l->name, next->id);
    }
}

/* The store after an append was executed, whatever it answered. */
void check_appended(sim *s, sim_ledger *l, sim_live *live, const pw_append *a, pw_str body)
{
    uint64_t before = l->last_seq;
    int64_t crashes = l->crashes;
    ledger_read(s, l);
    if (s->failed || l->last_seq == before) {
        return;
    }
    if (l->last_seq != before + a->record_count || a->records[0].seq != before + 1) {
        sim_fail(s, "J1", "%s: an append added other records than its own", l->name);
        return;
    }
    pw_op op = {.kind = PW_OP_RECORDS, .records = {.session_id = l->id, .from_seq = before + 1}};
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 4096, 0);
    op.arena = &arena;
    sim_execute(s, &op, 1);
    for (size_t i = 0; i < op.records.count && i < a->record_count; i++) {
        const pw_record *is = &op.records.records[i], *said = &a->records[i];
        bool filled = live->transact && i == live->receipt->record;
        if (is->kind != said->kind || is->at_ms != said->at_ms ||
            !pw_str_equal(is->turn, said->turn) || !pw_str_equal(is->step, said->step) ||
            (filled ? body.len > 0 && !pw_str_equal(is->body, body)
                    : !pw_str_equal(is->body, said->body))) {
            sim_fail(s, "J4", "%s: record %llu is not what was appended", l->name,
                     (unsigned long long)is->seq);
        }
    }
    pw_arena_free(&arena);
    const sim_turn *t = l->turn_count ? &l->turns[l->turn_count - 1] : NULL;
    if (t && t->ended_seq > before && pw_str_is(t->reason, "poison") &&
        crashes < s->plan->max_attempts) {
        sim_fail(s, "C4", "%s is sealed as poison after %lld crashes", l->name, (long long)crashes);
    }
    if (live->sealing && t && t->ended_seq > before && !pw_str_is(t->reason, "poison") &&
        t->state != PW_TURN_CANCELLED) {
        sim_fail(s, "C4", "%s: poison is sealed as something else", l->name);
    }
    if (t && t->opened_seq > before) {
        check_longest(s, l, live);
    }
    check_last_step(s, l, a);
    if (a->receipt) {
        l->crashes = 0;
    }
    if (t && t->ended_seq > before) {
        live->sealing = false;
    }
}

/* --- What is told (M1, H3) -------------------------------------------------------------------- */

void check_told(sim *s, sim_ledger *l, uint64_t last_seq)
{
    if (last_seq > l->last_seq) {
        sim_fail(s, "H3", "%s: record %llu is told before it is durable", l->name,
                 (unsigned long long)last_seq);
        return;
    }
    if (last_seq <= l->told_seq) {
        return;
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 8192, 0);
    pw_op op = {.kind = PW_OP_RECORDS,
                .arena = &arena,
                .records = {.session_id = l->id, .from_seq = l->told_seq + 1, .to_seq = last_seq}};
    sim_execute(s, &op, 1);
    for (size_t i = 0; i < op.records.count; i++) {
        const pw_event_out *events = NULL;
        size_t count = 0;
        pw_error error = {0};
        if (pw_event_tell(&op.records.records[i], pw_str_from(l->name), &arena, &events, &count,
                          &error) != PW_OK) {
            sim_fail(s, "M1", "%s: record %llu cannot be told: %s", l->name,
                     (unsigned long long)op.records.records[i].seq, error.message);
        }
        for (size_t k = 0; k < count; k++) {
            l->story_hash = sim_hash(events[k].id, l->story_hash);
            l->story_hash = sim_hash(events[k].name, l->story_hash);
            l->story_hash = sim_hash(events[k].data, l->story_hash);
        }
    }
    l->told_seq = last_seq;
    pw_arena_free(&arena);
}

/* --- Memory and journal say the same ---------------------------------------------------------- */

void check_fold(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    if (l->epoch != ledger->epoch || s->failed) {
        return;
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 16384, 0);
    pw_op row = {.kind = PW_OP_SESSION, .arena = &arena, .session = {.session_id = ledger->id}};
    sim_execute(s, &row, 1);
    pw_op op = {.kind = PW_OP_RECORDS,
                .arena = &arena,
                .records = {.session_id = ledger->id, .from_seq = row.session.row.base_seq}};
    sim_execute(s, &op, 1);
    pw_session_options options = {.allocator = &pw_heap, .uid = pw_str_from(ledger->uid)};
    pw_session *fresh = NULL;
    bool ok = pw_session_new(&options, &fresh) == PW_OK;
    pw_error error = {0};
    for (size_t i = 0; ok && i < op.records.count; i++) {
        ok = pw_session_fold(fresh, &op.records.records[i], &error) == PW_OK;
    }
    pw_buffer a, b;
    pw_buffer_init(&a, &pw_heap, 1 << 24);
    pw_buffer_init(&b, &pw_heap, 1 << 24);
    ok = ok && pw_session_durable_text(fresh, &a) == PW_OK &&
         pw_session_durable_text(l->machine, &b) == PW_OK;
    if (!ok) {
        sim_fail(s, "C3", "%s: the journal does not fold: %s", ledger->name, error.message);
    } else if (!pw_str_equal(pw_buffer_str(&a), pw_buffer_str(&b))) {
        size_t at = 0;
        while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at]) {
            at++;
        }
        at = at > 40 ? at - 40 : 0;
        sim_fail(s, "FOLD", "%s at %llu: the journal folds to %.100s, memory holds %.100s",
                 ledger->name, (unsigned long long)ledger->last_seq, a.ptr + (at < a.len ? at : 0),
                 b.ptr + (at < b.len ? at : 0));
    }
    pw_buffer_free(&a);
    pw_buffer_free(&b);
    pw_session_free(fresh);
    pw_arena_free(&arena);
}

/* --- Before any call -------------------------------------------------------------------------- */

/* False: nothing more can be said (or it failed). The life may not know yet that it is fenced. */
static bool check_start(sim *s, sim_live *l, pw_str turn, const char *what)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    if (l->fenced) {
        sim_fail(s, "J1", "%s: a fenced owner starts a %s call", ledger->name, what);
        return false;
    }
    if (l->epoch != ledger->epoch) {
        return false;
    }
    sim_turn *t = ledger->open >= 0 ? &ledger->turns[ledger->open] : NULL;
    if (!t || !pw_str_equal(t->id, turn)) {
        sim_fail(s, "ORDER", "%s: a %s call for a turn that is not open in the store", ledger->name,
                 what);
    } else if (l->sealing) {
        sim_fail(s, "C4", "%s: a %s call in a turn that is only to be sealed", ledger->name, what);
    } else if (t->must_cancel) {
        sim_fail(s, "I1", "%s: a %s call after the turn's cancel was seen", ledger->name, what);
    } else if (t->deadline_at_ms >= 0 && l->given_ms >= t->deadline_at_ms) {
        sim_fail(s, "G3", "%s: a %s call after the deadline", ledger->name, what);
    } else if (t->budget.max_tokens >= 0 && t->tokens >= t->budget.max_tokens) {
        sim_fail(s, "G3", "%s: a %s call, and the tokens are spent", ledger->name, what);
    } else if (t->budget.max_cost_micros >= 0 && t->cost >= t->budget.max_cost_micros) {
        sim_fail(s, "G3", "%s: a %s call, and the money is spent", ledger->name, what);
    } else if (t->malformed > t->definition->max_protocol_failures) {
        sim_fail(s, "F3", "%s: a %s call after too many protocol failures", ledger->name, what);
    } else if (l->drained) {
        sim_fail(s, "I6", "%s: a %s call while draining", ledger->name, what);
    }
    return !s->failed;
}

/* --- Model calls ------------------------------------------------------------------------------ */

uint64_t check_message_hash(const pw_message *m)
{
    uint64_t h = sim_mix((uint64_t)m->role, (uint64_t)m->n);
    h = sim_mix(h, world_parts_hash(m->parts, m->part_count, true));
    h = sim_hash(m->call, h);
    h = sim_hash(m->result, h);
    return sim_mix(h, m->is_error);
}

static bool is_placeholder(const pw_part *part)
{
    return part->kind == PW_PART_TEXT && part->raw.len == 0 &&
           pw_str_ends(part->text, PW_STR(" left out: the provider rejected it]"));
}

/* B4: one message verbatim; several under a heading, in order, each with its time. */
static bool opening_is(const sim_ledger *l, const pw_message *m, const sim_message *want,
                       int32_t claimed)
{
    char room[8192];
    size_t length = 0;
    int32_t images = 0;
    bool text_gone = false;
    for (size_t i = 0; i < m->part_count && length + m->parts[i].text.len < sizeof room; i++) {
        const bool left_out = check_left_out(l, m->seq, i);
        if (left_out != m->parts[i].left_out || (left_out && !is_placeholder(&m->parts[i]))) {
            return false;
        }
        images += m->parts[i].kind == PW_PART_OTHER ||
                  (left_out && pw_str_begins(m->parts[i].text, PW_STR("[image ")));
        text_gone = text_gone || (left_out && pw_str_begins(m->parts[i].text, PW_STR("[text ")));
        if (!left_out && m->parts[i].kind == PW_PART_TEXT && m->parts[i].text.len > 0) {
            memcpy(room + length, m->parts[i].text.ptr, m->parts[i].text.len);
            length += m->parts[i].text.len;
        }
    }
    pw_str text = {room, length}, rest = want->text;
    if (images != want->images || text_gone) {
        return images == want->images;
    }
    if (claimed == 1) {
        return pw_str_equal(text, pw_str_slice(rest, 8, rest.len));
    }
    if (!pw_str_begins(text, PW_STR("## Unanswered messages"))) {
        return false;
    }
    while (rest.len > 0) {
        size_t end = pw_str_find(rest, PW_STR("\x1e"));
        pw_str line = pw_str_slice(rest, 0, end == SIZE_MAX ? rest.len : end);
        size_t at = pw_str_find(text, line);
        if (at == SIZE_MAX) {
            return false;
        }
        text = pw_str_slice(text, at + line.len, text.len);
        rest = pw_str_slice(rest, end == SIZE_MAX ? rest.len : end + 1, rest.len);
    }
    return true;
}

/* Of a model's message a part may be left out that only its provider reads: it has no bytes to
 * send.
 */
static bool said_is(const sim_ledger *l, const pw_message *m, const sim_message *want)
{
    bool whole = true;
    for (size_t i = 0; i < m->part_count; i++) {
        const bool left_out = check_left_out(l, m->seq, i);
        if (left_out != m->parts[i].left_out || (left_out && m->parts[i].raw.len > 0)) {
            return false;
        }
        whole = whole && !left_out;
    }
    return !whole || world_parts_hash(m->parts, m->part_count, true) == want->hash;
}

static bool message_is(const sim_ledger *l, const pw_message *m, const sim_message *want)
{
    if (m->role != want->role) {
        return false;
    }
    switch (m->role) {
    case PW_ROLE_USER:
    case PW_ROLE_TRIGGER:
        return opening_is(l, m, want, l->turns[want->turn].claimed);
    case PW_ROLE_ASSISTANT:
        return said_is(l, m, want);
    case PW_ROLE_TOOL:
        return pw_str_equal(m->call, l->steps[want->step].call) &&
               pw_str_equal(m->result, want->text);
    }
    return false;
}

/* The request says what the journal says: all of the window, and nothing else (B4, C9). */
static void check_against_journal(sim *s, const sim_ledger *l, const pw_model_request *q)
{
    const sim_turn *t = &l->turns[l->open];
    int32_t at = t->first_message;
    for (int32_t i = 0; i < l->turn_count; i++) {
        at = l->turns[i].opened_seq == t->first_seq ? l->turns[i].first_message : at;
    }
    size_t i = 0;
    for (; at < l->message_count && !s->failed; at++) {
        const sim_message *want = &l->messages[at];
        if (i < q->count && message_is(l, q->messages[i], want)) {
            i++;
        } else if (!want->empty) {
            sim_fail(s, "C9",
                     "%s: message %zu of the request is not the journal's %lld (record %llu)",
                     l->name, i, (long long)want->n, (unsigned long long)want->seq);
        }
    }
    if (!s->failed && i != q->count) {
        sim_fail(s, "C9", "%s: the request holds %zu messages, the journal %zu", l->name, q->count,
                 i);
    }
}

/* C10, over restarts and within this life. */
static void check_prefix(sim *s, sim_live *l, sim_turn *t, const pw_model_request *q)
{
    const char *name = s->ledgers[l->session].name;
    uint64_t *hashes = malloc((q->count + 1) * sizeof *hashes);
    PW_ASSERT(hashes);
    for (size_t i = 0; i < q->count; i++) {
        hashes[i] = check_message_hash(q->messages[i]);
    }
    if (q->count < t->prefix_count ||
        (t->prefix_count && memcmp(hashes, t->prefix, t->prefix_count * sizeof *hashes) != 0)) {
        sim_fail(s, "C10", "%s: the request does not begin with the one before it", name);
    }
    if (q->same > l->sent_count || q->same > q->count ||
        (q->same && memcmp(hashes, l->sent, q->same * sizeof *hashes) != 0)) {
        sim_fail(s, "C10", "%s: `same` %zu is not true", name, q->same);
    }
    free(t->prefix);
    free(l->sent);
    t->prefix = hashes;
    t->prefix_count = l->sent_count = q->count;
    l->sent = malloc((q->count + 1) * sizeof *hashes);
    PW_ASSERT(l->sent);
    memcpy(l->sent, hashes, q->count * sizeof *hashes);
}

void check_model(sim *s, sim_live *l, const pw_model_request *request)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    pw_model_request q = *request;
    const pw_message *list[512];
    pw_message changed;
    if (s->plan->bug != BUG_NOTHING && q.count > 0 && q.count < 512) {
        plant_request(s, ledger, &q, list, &changed);
    }
    const char *what = strict_check(q.messages, q.count);
    if (what) {
        sim_fail(s, "C9", "%s: a strict provider refuses: %s", ledger->name, what);
        return;
    }
    if (!check_start(s, l, q.turn, "model")) {
        return;
    }
    sim_turn *t = &ledger->turns[ledger->open];
    if (l->append) {
        sim_fail(s, "ORDER", "%s: a model call while an append is in flight", ledger->name);
    } else if (t->owed > 0) {
        sim_fail(s, "ORDER", "%s: a model call while results are not in the store", ledger->name);
    } else if (t->budget.max_iterations >= 0 && t->iterations >= t->budget.max_iterations) {
        sim_fail(s, "G3", "%s: a model call over the iteration bound", ledger->name);
    }
    if (!pw_str_equal(q.step, sim_format(s, "model:%lld", (long long)ledger->n + 1))) {
        sim_fail(s, "C1", "%s: the model step is called %.*s", ledger->name, PW_STR_ARG(q.step));
    }
    for (int32_t i = 0; i < s->call_count; i++) {
        const sim_call *c = &s->calls[i];
        if (c->model && !c->ended && !c->aborted && c->session == l->session &&
            c->serial == l->serial) {
            sim_fail(s, "C12", "%s: two model calls at once", ledger->name);
        }
    }
    if (!s->failed) {
        check_asked(s, ledger, &q);
    }
    if (!s->failed) {
        check_against_journal(s, ledger, &q);
    }
    if (!s->failed) {
        check_prefix(s, l, t, &q);
    }
}

/* --- Tool calls ------------------------------------------------------------------------------- */

/* C7: the stricter of two; to or from transactional, as declared at the start. */
bool check_effects_allowed(pw_effects_class pinned, bool has_today, pw_effects_class today,
                           pw_effects_class effective)
{
    if (!has_today || pinned == PW_EFFECTS_TRANSACTIONAL || today == PW_EFFECTS_TRANSACTIONAL) {
        return effective == pinned;
    }
    return effective == (pinned > today ? pinned : today);
}

/* D1, put together by hand: SHA-256 over three strings, each after its length in 8 bytes, big end
 * first. */
static void make_key(sim *s, const sim_ledger *l, pw_str turn, pw_str step, pw_hash_hex *ret)
{
    pw_str parts[3] = {pw_str_from(l->uid), turn, step};
    char room[512];
    size_t length = 0;
    for (size_t i = 0; i < 3; i++) {
        for (int shift = 56; shift >= 0; shift -= 8) {
            room[length++] = (char)(uint8_t)((uint64_t)parts[i].len >> shift);
        }
        PW_ASSERT(length + parts[i].len < sizeof room);
        memcpy(room + length, parts[i].ptr, parts[i].len);
        length += parts[i].len;
    }
    pw_hash hash = pw_sha256_of((pw_str){room, length});
    *ret = pw_hash_to_hex(&hash);
    (void)s;
}

/* D3: none and idempotent calls may run together, eight at most; others alone, after all calls
 * before them. */
static void check_company(sim *s, sim_live *l, const sim_step *step, pw_effects_class effects)
{
    const sim_ledger *ledger = &s->ledgers[l->session];
    bool alone = effects == PW_EFFECTS_ONCE || effects == PW_EFFECTS_TRANSACTIONAL;
    int32_t beside = 0;
    for (int32_t i = 0; i < s->call_count; i++) {
        const sim_call *c = &s->calls[i];
        if (c->model || c->ended || c->answered || c->session != l->session ||
            c->serial != l->serial || ledger->steps[c->step].receipt) {
            continue;
        }
        beside++;
        if (alone || c->effects == PW_EFFECTS_ONCE) {
            sim_fail(s, "D3", "%s %.*s runs beside %.*s", ledger->name, PW_STR_ARG(step->id),
                     PW_STR_ARG(c->step_id));
        }
    }
    if (beside >= 8) {
        sim_fail(s, "D3", "%s: %d calls at once", ledger->name, beside + 1);
    }
    for (const sim_step *before = ledger->steps; alone && before < step; before++) {
        if (before->turn == step->turn && !before->receipt && effects == PW_EFFECTS_ONCE) {
            sim_fail(s, "D3", "%s %.*s begins before %.*s is settled", ledger->name,
                     PW_STR_ARG(step->id), PW_STR_ARG(before->id));
        }
    }
}

static void check_arguments(sim *s, const sim_ledger *l, const sim_step *step,
                            const pw_tool_call *call)
{
    if (!step->known || step->broken || !pw_str_equal(call->name, step->name)) {
        sim_fail(s, "F3", "%s %.*s: a call that no tool can take is run", l->name,
                 PW_STR_ARG(step->id));
        return;
    }
    if (!pw_str_equal(call->arguments, step->arguments)) {
        sim_fail(s, "C8", "%s %.*s: the arguments are not the model's bytes", l->name,
                 PW_STR_ARG(step->id));
        return;
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 1024, 0);
    const pw_json *value = NULL;
    bool fits = pw_json_parse(&arena, call->arguments, 0, &value, NULL) == PW_OK &&
                pw_json_is(value, PW_JSON_OBJECT);
    if (fits && pw_str_is(step->name, "scan")) {
        fits = pw_json_is(pw_json_get(value, "x"), PW_JSON_NUMBER);
    }
    if (!fits) {
        sim_fail(s, "F3", "%s %.*s: arguments that do not fit are run: %.*s", l->name,
                 PW_STR_ARG(step->id), PW_STR_ARG(call->arguments));
    }
    pw_arena_free(&arena);
}

static void check_tool_budget(sim *s, const sim_ledger *l, const sim_step *step)
{
    int64_t started = 0;
    for (int32_t i = 0; i < l->step_count; i++) {
        const sim_step *other =
            &l->steps[i]; /* a tool that went away in between is no call any more (C7) */
        started +=
            other->turn == step->turn && other->starts > 0 && other->receipt != RECEIPT_MALFORMED;
    }
    const sim_turn *t = &l->turns[step->turn];
    if (step->starts == 0 && t->budget.max_tool_calls >= 0 && started >= t->budget.max_tool_calls) {
        sim_fail(s, "G3", "%s %.*s: over the bound of tool calls", l->name, PW_STR_ARG(step->id));
    }
}

static void check_once(sim *s, const sim_ledger *l, const sim_step *step)
{
    if (!step->intent) {
        sim_fail(s, "D", "%s %.*s: a once call before its intent is durable", l->name,
                 PW_STR_ARG(step->id));
    } else if (step->starts > 0) {
        sim_fail(s, "D", "%s %.*s: a once call is started again", l->name, PW_STR_ARG(step->id));
    }
}

static const pw_tool_declaration *tool_today(sim *s, const sim_live *l, pw_str name)
{
    bool later = s->plan->changed_agent && s->owners[l->owner].life > 2;
    return pw_definition_tool(sim_definition(s, s->plan->definition[l->session], later), name);
}

void check_tool(sim *s, sim_live *l, const pw_tool_call *call, bool transact)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    sim_step *step = ledger_step(ledger, call->turn, call->step);
    if (!step) {
        sim_fail(s, "ORDER", "%s %.*s: a tool call that is not in the store", ledger->name,
                 PW_STR_ARG(call->step));
        return;
    }
    if (step->receipt && l->epoch == ledger->epoch) {
        sim_fail(s, "C3", "%s %.*s: a tool with a receipt is run again", ledger->name,
                 PW_STR_ARG(call->step));
        return;
    }
    pw_hash_hex key;
    make_key(s, ledger, call->turn, call->step, &key);
    if (!pw_str_is(call->key, key.text)) {
        sim_fail(s, "D1", "%s %.*s: the key is not made as the rule says", ledger->name,
                 PW_STR_ARG(call->step));
    }
    if (!check_start(s, l, call->turn, "tool")) {
        return;
    }
    const pw_tool_declaration *today = tool_today(s, l, call->name);
    if (transact != (call->effects == PW_EFFECTS_TRANSACTIONAL)) {
        sim_fail(s, "D2", "%s %.*s: transactional or not?", ledger->name, PW_STR_ARG(call->step));
    } else if (!today) {
        sim_fail(s, "C7", "%s %.*s: a tool that is gone today is run", ledger->name,
                 PW_STR_ARG(call->step));
    } else if (!check_effects_allowed(step->effects, true, today->effects, call->effects)) {
        sim_fail(s, "C7", "%s %.*s runs as %s", ledger->name, PW_STR_ARG(call->step),
                 pw_effects_name(call->effects));
    } else if (call->limit_ms <= 0 || call->limit_ms > call->tool->limit_ms) {
        sim_fail(s, "D6", "%s %.*s: a limit of %lld ms", ledger->name, PW_STR_ARG(call->step),
                 (long long)call->limit_ms);
    } else if (transact && l->append) {
        sim_fail(s, "D2", "%s: a transaction beside an append", ledger->name);
    }
    if (!s->failed && call->effects == PW_EFFECTS_ONCE) {
        check_once(s, ledger, step);
    }
    if (!s->failed) {
        check_repeats(s, ledger, step);
        check_arguments(s, ledger, step, call);
        check_company(s, l, step, call->effects);
        check_tool_budget(s, ledger, step);
    }
}
