/*
 * The judge's fold: every journal, read back from the store after each commit, and understood
 * without the engine's help. What a record may say, and when, is checked as it is read (B, C, D,
 * M6); what depends on who does what is in check.c.
 */
#include <stdlib.h>

#include "sim.h"

typedef struct reading {
    sim *s;
    sim_ledger *l;
    const pw_record *record;
    const pw_json *body;
    sim_turn *turn; /* the open one, NULL when none */
} reading;

static pw_str text_of(const reading *r, const char *key)
{
    return pw_json_text(pw_json_get(r->body, key));
}

static int64_t number_of(const reading *r, const char *key, int64_t fallback)
{
    return pw_json_i64_or(pw_json_get(r->body, key), fallback);
}

static void bad(const reading *r, const char *rule, const char *what)
{
    sim_fail(r->s, rule, "%s record %llu (%s): %s", r->l->name, (unsigned long long)r->record->seq,
             pw_record_kind_name(r->record->kind), what);
}

void ledger_init(sim *s)
{
    for (int32_t i = 0; i < s->plan->sessions; i++) {
        sim_ledger *l = &s->ledgers[i];
        snprintf(l->name, sizeof l->name, "s%d", i);
        snprintf(l->uid, sizeof l->uid, "uid-%d-%llx", i, (unsigned long long)s->plan->seed);
        l->open = -1;
    }
}

/* --- Looking things up ------------------------------------------------------------------------ */

sim_turn *ledger_turn(sim_ledger *l, pw_str turn)
{
    for (int32_t i = l->turn_count; i-- > 0;) {
        if (pw_str_equal(l->turns[i].id, turn)) {
            return &l->turns[i];
        }
    }
    return NULL;
}

sim_step *ledger_step(sim_ledger *l, pw_str turn, pw_str step)
{
    for (int32_t i = l->step_count; i-- > 0;) {
        if (pw_str_equal(l->steps[i].id, step) &&
            pw_str_equal(l->turns[l->steps[i].turn].id, turn)) {
            return &l->steps[i];
        }
    }
    return NULL;
}

sim_request *ledger_request(sim_ledger *l, pw_str id)
{
    for (int32_t i = 0; i < l->request_count; i++) {
        if (pw_str_is(id, l->requests[i].id)) {
            return &l->requests[i];
        }
    }
    return NULL;
}

static sim_message *add_message(sim_ledger *l, pw_role role, uint64_t seq)
{
    if (l->message_count == l->message_room) {
        l->message_room = l->message_room ? 2 * l->message_room : 32;
        l->messages = realloc(l->messages, (size_t)l->message_room * sizeof *l->messages);
        PW_ASSERT(l->messages);
    }
    sim_message *m = &l->messages[l->message_count++];
    *m = (sim_message){.role = role, .seq = seq, .turn = l->open, .step = -1, .n = ++l->n};
    return m;
}

static sim_step *add_step(sim_ledger *l)
{
    if (l->step_count == l->step_room) {
        l->step_room = l->step_room ? 2 * l->step_room : 32;
        l->steps = realloc(l->steps, (size_t)l->step_room * sizeof *l->steps);
        PW_ASSERT(l->steps);
    }
    sim_step *step = &l->steps[l->step_count++];
    *step = (sim_step){.turn = l->open};
    return step;
}

/* --- turn.opened ------------------------------------------------------------------------------ */

/* B3: SHA-256 of the claimed ids, sorted bytewise, joined with \n. */
static void check_turn_id(const reading *r, const pw_json *requests)
{
    pw_str ids[64];
    size_t count = 0;
    for (const pw_json *q = requests->child; q && count < 64; q = q->next) {
        pw_str id = pw_json_text(pw_json_get(q, "id"));
        size_t at = count++;
        for (; at > 0 && pw_str_compare(ids[at - 1], id) > 0; at--) {
            ids[at] = ids[at - 1];
        }
        ids[at] = id;
    }
    pw_sha256 sha;
    pw_sha256_begin(&sha);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            pw_sha256_add(&sha, PW_STR("\n"));
        }
        pw_sha256_add(&sha, ids[i]);
    }
    pw_hash hash = pw_sha256_end(&sha);
    if (!pw_str_is(r->record->turn, pw_hash_to_hex(&hash).text)) {
        bad(r, "B3", "the turn's id is not made of its requests");
    }
}

/* Is it what was accepted? Its line of the opening message (B4) goes to `text`. */
static bool content_is(const reading *r, const pw_json *request, const sim_request *q,
                       pw_buffer *text)
{
    char room[160];
    int32_t session = (int32_t)(r->l - r->s->ledgers);
    pw_str want = people_text(session, (int32_t)(q - r->l->requests), q->variant, room);
    int32_t minute = (int32_t)(q->at_ms / 60000 % 1440);
    if (text->len > 0) {
        pw_buffer_byte(text, '\x1e');
    }
    if (pw_json_at(pw_json_get(request, "content"), 0) == NULL) {
        return false;
    }
    pw_buffer_format(text, "[%d%d:%d%d] %.*s", minute / 600, minute / 60 % 10, minute % 60 / 10,
                     minute % 10, PW_STR_ARG(want));
    return pw_str_equal(
        want, pw_json_text(pw_json_get(pw_json_at(pw_json_get(request, "content"), 0), "text")));
}

/* A7, B1, B8: what is claimed is the oldest that waits, in order, without gaps, and alike. */
static void claim_one(const reading *r, const pw_json *request, const sim_request **before,
                      pw_buffer *text)
{
    sim_ledger *l = r->l;
    sim_request *q = ledger_request(l, pw_json_text(pw_json_get(request, "id")));
    if (!q) {
        bad(r, "A1", "it claims a request that nobody sent");
        return;
    }
    if (q->fate != FATE_PENDING) {
        bad(r, q->fate == FATE_CLAIMED ? "A1" : "A7",
            q->fate == FATE_CLAIMED ? "it claims a request of another turn"
                                    : "it claims what was withdrawn or never accepted");
        return;
    }
    for (int32_t i = 0; i < l->request_count; i++) {
        if (l->requests[i].fate == FATE_PENDING && l->requests[i].n < q->n) {
            bad(r, "A7", "an older message is overtaken");
        }
    }
    if (*before && (!people_alike(r->s, l, *before, q) || (*before)->n >= q->n)) {
        bad(r, "B8", "messages that are not alike, or not in order, are in one turn");
    }
    if (pw_json_i64_or(pw_json_get(request, "n"), 0) != (int64_t)q->n ||
        pw_json_i64_or(pw_json_get(request, "at"), 0) != q->at_ms) {
        bad(r, "B3", "a request's number or time is not the inbox row's");
    }
    if (!content_is(r, request, q, text)) {
        bad(r, "A1", "a claimed message is not what was accepted");
    }
    int64_t debounce =
        sim_definition(r->s, r->s->plan->definition[l - r->s->ledgers], 0)->debounce_ms;
    if (!*before && !r->s->jumped && r->record->at_ms < q->at_ms + debounce) {
        bad(r, "B2", "it is claimed before the debounce is over");
    }
    q->fate = FATE_CLAIMED;
    q->turn = l->open;
    *before = q;
    r->turn->images +=
        people_image(r->s, (int32_t)(l - r->s->ledgers), (int32_t)(q - l->requests), q->variant);
}

/* B4: the history is a run of whole turns that ends before this one, of at most `context.messages`
 * messages. */
static void check_window(const reading *r, const sim_turn *t)
{
    const sim_ledger *l = r->l;
    int32_t from = t->first_message;
    for (int32_t i = 0; i < l->turn_count; i++) {
        if (l->turns[i].opened_seq == t->first_seq) {
            from = l->turns[i].first_message;
        }
    }
    int64_t most = t->definition->context_messages;
    if ((from == t->first_message && t->first_seq != t->opened_seq) ||
        (most >= 0 && t->first_message - from > most)) {
        bad(r, "B4", "the history is no run of whole turns, or too long");
    }
}

static void fold_opened(reading *r)
{
    sim *s = r->s;
    sim_ledger *l = r->l;
    if (l->open >= 0) {
        bad(r, "B1", "a turn is open already");
        return;
    }
    if (ledger_turn(l, r->record->turn)) {
        bad(r, "A1", "this turn has been before");
        return;
    }
    if (l->turn_count == SIM_TURNS) {
        bad(r, "setup", "too many turns for the simulator");
        return;
    }
    s->turns++;
    l->open = l->turn_count++;
    sim_turn *t = r->turn = &l->turns[l->open];
    *t = (sim_turn){.id = sim_dup(s, r->record->turn),
                    .opened_seq = r->record->seq,
                    .attempts = 1,
                    .first_message = l->message_count,
                    .deadline_at_ms = number_of(r, "deadline_at", -1),
                    .wait_until_ms = -1,
                    .first_seq = (uint64_t)number_of(r, "first_seq", 0)};
    for (int32_t version = 0; version < 2; version++) {
        const pw_definition *d = sim_definition(s, s->plan->definition[l - s->ledgers], version);
        if (d && pw_str_is(text_of(r, "definition"), d->hash.text)) {
            t->definition = d;
            t->budget = d->budget;
        }
    }
    if (!t->definition) {
        bad(r, "C11", "the definition is nobody's");
        return;
    }
    const pw_json *requests = pw_json_get(r->body, "requests");
    const sim_request *before = NULL;
    pw_buffer text;
    pw_buffer_init_arena(&text, &s->arena, 1 << 16);
    for (const pw_json *q = requests ? requests->child : NULL; q && !s->failed; q = q->next) {
        claim_one(r, q, &before, &text);
        t->claimed++;
    }
    if (!s->failed && (t->claimed == 0 || t->claimed > 32)) {
        bad(r, "B8", "no request, or more than 32");
    }
    if (s->failed) {
        return;
    }
    check_turn_id(r, requests);
    sim_message *m = add_message(l, PW_ROLE_USER, r->record->seq);
    m->text = pw_buffer_str(&text);
    m->images = t->images;
    check_window(r, t);
    if (number_of(r, "n", 0) != m->n) {
        bad(r, "C1", "the message is numbered wrongly");
    }
}

/* --- The model -------------------------------------------------------------------------------- */

static bool fits_as_id(pw_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return id.len >= 1 && id.len <= 64;
}

static void fold_call(reading *r, const pw_json *parts, const pw_json *part, int64_t n)
{
    sim_ledger *l = r->l;
    pw_str call = pw_json_text(pw_json_get(part, "call"));
    pw_str id = pw_json_text(pw_json_get(part, "id"));
    int32_t alike = 0;
    for (const pw_json *p = parts->child; p; p = p->next) {
        alike += pw_str_is(pw_json_text(pw_json_get(p, "type")), "tool_call") &&
                 pw_str_equal(pw_json_text(pw_json_get(p, "id")), id);
    }
    if (fits_as_id(id) && alike == 1 ? !pw_str_equal(call, id)
                                     : call.len < 2 || call.ptr[0] != '.') {
        bad(r, "C1", "a call has not the id that the rule gives it");
    }
    sim_step *step = add_step(l);
    step->id = sim_format(r->s, "tool:%lld:%.*s", (long long)n, PW_STR_ARG(call));
    step->call = sim_dup(r->s, call);
    step->name = sim_dup(r->s, pw_json_text(pw_json_get(part, "name")));
    const pw_json *arguments = pw_json_get(part, "arguments");
    step->broken = !arguments;
    step->arguments = sim_dup(r->s, arguments ? arguments->raw : PW_STR_NONE);
    const pw_tool_declaration *tool = pw_definition_tool(r->turn->definition, step->name);
    step->known = tool != NULL;
    step->n = n;
    step->signature = sim_mix(sim_hash(step->name, 5),
                              arguments ? world_value_hash(arguments->raw)
                                        : sim_hash(pw_json_text(pw_json_get(part, "broken")), 6));
    step->effects = tool ? tool->effects : PW_EFFECTS_ONCE;
    step->message = l->message_count;
    for (int32_t i = 0; i + 1 < l->step_count; i++) {
        if (l->steps[i].turn == l->open && pw_str_equal(l->steps[i].id, step->id)) {
            bad(r, "D10", "two calls have one step id");
        }
    }
    sim_message *m = add_message(l, PW_ROLE_TOOL, 0);
    m->step = l->step_count - 1;
    r->turn->owed++;
}

/* As world_parts_hash, of the record's JSON. */
static uint64_t hash_parts(const pw_json *parts, bool with_calls)
{
    static const char *const types[] = {
#define TYPE_TEXT(name, text) text,
        PW_PART_TABLE(TYPE_TEXT)
#undef TYPE_TEXT
    };
    uint64_t h = 17;
    for (const pw_json *p = parts->child; p; p = p->next) {
        pw_str type = pw_json_text(pw_json_get(p, "type"));
        uint64_t kind = 0;
        while (kind < sizeof types / sizeof *types && !pw_str_is(type, types[kind])) {
            kind++;
        }
        const pw_json *arguments = pw_json_get(p, "arguments"), *raw = pw_json_get(p, "raw");
        const pw_json *broken = pw_json_get(p, "broken");
        h = sim_mix(h, kind);
        h = sim_hash(pw_json_text(pw_json_get(p, "text")), h);
        h = sim_hash(pw_json_text(pw_json_get(p, "id")), h);
        h = sim_hash(pw_json_text(pw_json_get(p, "name")), h);
        h = sim_hash(arguments ? arguments->raw : pw_json_text(broken), h);
        h = sim_hash(raw ? raw->raw : PW_STR_NONE, h);
        if (with_calls) {
            h = sim_hash(pw_json_text(pw_json_get(p, "call")), h);
        }
    }
    return h;
}

static void add_usage(reading *r, const pw_json *usage)
{
    static const char *const tokens[] = {"in_uncached", "in_cache_read", "in_cache_write", "out"};
    for (size_t i = 0; usage && i < 4; i++) {
        int64_t n = pw_json_i64_or(pw_json_get(usage, tokens[i]), 0);
        r->turn->tokens += n > 0 ? n : 0;
    }
    int64_t cost = pw_json_i64_or(pw_json_get(usage, "cost_micros"), 0);
    r->turn->cost += cost > 0 ? cost : 0;
}

static void fold_model(reading *r)
{
    sim_ledger *l = r->l;
    int64_t n = number_of(r, "n", 0);
    char step[32];
    snprintf(step, sizeof step, "model:%lld", (long long)n);
    if (!pw_str_is(r->record->step, step) || n != l->n + 1) {
        bad(r, "C1", "the model step is numbered wrongly");
    }
    if (r->turn->owed > 0) {
        bad(r, "C3", "calls of the message before are still owed their results");
    }
    const pw_json *parts = pw_json_get(r->body, "parts");
    if (!parts) {
        bad(r, "C2", "no parts");
        return;
    }
    bool said = false;
    uint64_t hash = hash_parts(parts, false);
    for (int32_t i = 0; i < 16; i++) {
        said = said || (i < l->reply_count && l->reply_hashes[i] == hash);
    }
    if (!said) {
        bad(r, "C8", "the model never said this");
    }
    const pw_model_choice *asked = &r->turn->definition->models[r->turn->choice];
    if (!pw_str_equal(text_of(r, "provider"), asked->provider) ||
        !pw_str_equal(text_of(r, "model"), asked->name)) {
        bad(r, "F6", "it is said to be of a model that was not asked");
    }
    r->turn->answered = true;
    r->turn->retries = r->turn->quarantines = 0;
    r->turn->response_id = PW_STR_NONE;
    r->turn->unsure = false;
    r->turn->iterations++;
    add_usage(r, pw_json_get(r->body, "usage"));
    sim_message *m = add_message(l, PW_ROLE_ASSISTANT, r->record->seq);
    m->hash = hash_parts(parts, true);
    m->empty = parts->count == 0;
    for (const pw_json *p = parts->child; p; p = p->next) {
        if (pw_str_is(pw_json_text(pw_json_get(p, "type")), "tool_call")) {
            fold_call(r, parts, p, n);
        }
    }
}

static void fold_discarded(reading *r)
{
    if (pw_str_is(text_of(r, "code"), "empty_reply")) {
        r->turn->iterations++;
        r->turn->response_id = PW_STR_NONE;
        r->turn->unsure = false;
    }
    add_usage(r, pw_json_get(r->body, "usage"));
}

/* --- Tools ------------------------------------------------------------------------------------ */

static void fold_started(reading *r)
{
    sim_step *step = ledger_step(r->l, r->record->turn, r->record->step);
    if (!step) {
        bad(r, "C1", "no such step");
    } else if (step->receipt) {
        bad(r, "C3", "an intent after the receipt");
    } else if (step->intent) {
        bad(r, "D4", "a second intent of one step");
    } else {
        step->intent = true;
        step->intent_epoch = r->l->epoch;
    }
}

static sim_receipt receipt_of(pw_str outcome)
{
    static const char *const names[] = {"",       "done",   "error",     "unknown", "cancelled",
                                        "denied", "paused", "malformed", "repeated"};
    for (int32_t i = 1; i < 9; i++) {
        if (pw_str_is(outcome, names[i])) {
            return (sim_receipt)i;
        }
    }
    return RECEIPT_NONE;
}

/* A receipt against what the world did (D). */
static void check_receipt(reading *r, const sim_step *step)
{
    bool once = pw_str_is(text_of(r, "effects"), "once");
    bool transactional = step->known && step->effects == PW_EFFECTS_TRANSACTIONAL;
    switch (step->receipt) {
    case RECEIPT_NONE:
        bad(r, "D", "an outcome that is none");
        break;
    case RECEIPT_DONE: {
        bool said = step->said_count >= 6;
        for (int32_t i = 0; i < step->said_count; i++) {
            said = said || step->said[i] == world_value_hash(step->result);
        }
        if (!said && number_of(r, "truncated", 0) == 0) {
            bad(r, "D", "no run of this tool gave this result");
        }
        if (step->runs == 0) {
            bad(r, "D", "done, and the tool never ran");
        }
        break;
    }
    case RECEIPT_ERROR:
        break;
    case RECEIPT_UNKNOWN:
        if (transactional) {
            bad(r, "D2", "a transactional call is never unknown");
        }
        break;
    case RECEIPT_CANCELLED:
    case RECEIPT_DENIED:
    case RECEIPT_PAUSED:
    case RECEIPT_MALFORMED:
    case RECEIPT_REPEATED:
        if (once && step->intent && (step->starts > 0 || step->intent_epoch != r->l->epoch)) {
            bad(r, "D4", "a once call that may have run is said not to have run");
        }
        if (step->starts > 0 && step->receipt != RECEIPT_CANCELLED &&
            step->receipt != RECEIPT_PAUSED && !r->s->plan->changed_agent) {
            bad(r, "F3", "a call that was refused has run");
        }
        r->turn->malformed += step->receipt == RECEIPT_MALFORMED ? 1 : 0;
        break;
    }
}

static void fold_completed(reading *r)
{
    sim_ledger *l = r->l;
    sim_step *step = ledger_step(l, r->record->turn, r->record->step);
    if (!step) {
        bad(r, "C1", "no such step");
        return;
    }
    if (step->receipt) {
        bad(r, "C3", "a second receipt of one step");
        return;
    }
    const pw_json *result = pw_json_get(r->body, "result");
    step->receipt = receipt_of(text_of(r, "outcome"));
    step->receipt_seq = r->record->seq;
    step->result = sim_dup(r->s, result ? result->raw : PW_STR_NONE);
    step->is_error = pw_json_true(pw_json_get(r->body, "is_error"));
    check_receipt(r, step);
    check_refused_repeat(r->s, l, step);
    sim_message *m = &l->messages[step->message];
    m->seq = r->record->seq;
    m->text = step->result;
    r->turn->owed--;
}

static void fold_late(reading *r)
{
    sim_step *step = ledger_step(r->l, r->record->turn, r->record->step);
    if (!step || !step->receipt) {
        bad(r, "D8", "a late result of a call that was not settled");
    }
}

/* --- turn.ended ------------------------------------------------------------------------------- */

static void fold_ended(reading *r)
{
    sim_ledger *l = r->l;
    sim_turn *t = r->turn;
    pw_turn_state state;
    if (!pw_turn_state_from(text_of(r, "state"), &state) || !pw_turn_state_ended(state)) {
        bad(r, "H1", "no terminal state");
        return;
    }
    if (t->owed > 0) {
        bad(r, "M6", "the turn ends with calls that have no result");
    }
    pw_str reason = text_of(r, "reason");
    check_reason(r->s, state, reason, r->record->turn);
    if (state == PW_TURN_CANCELLED && !t->cancel_admitted) {
        bad(r, "I7", "cancelled, and nobody asked for that");
    }
    if (state != PW_TURN_CANCELLED && t->must_cancel && !pw_str_is(reason, "poison")) {
        bad(r, "I1", "the turn ends otherwise though its cancel was seen");
    }
    if (number_of(r, "attempts", 0) != t->attempts) {
        bad(r, "H2", "attempts are counted wrongly");
    }
    const pw_json *requests = pw_json_get(r->body, "requests");
    if (!requests || (int32_t)requests->count != t->claimed) {
        bad(r, "B6", "the end does not name the claimed messages");
    }
    for (const pw_json *q = requests ? requests->child : NULL; q; q = q->next) {
        const sim_request *known = ledger_request(l, pw_json_text(q));
        if (!known || known->fate != FATE_CLAIMED || known->turn != l->open) {
            bad(r, "B6", "the end names a message that is not the turn's");
        }
    }
    check_failed(r->s, l, t, text_of(r, "code"));
    t->state = state;
    t->reason = sim_dup(r->s, reason);
    check_usage(r->s, l, t, r->body);
    t->ended_seq = r->record->seq;
    l->open = -1;
}

/* G6: what can be resumed is not lost; what cannot is. */
static void fold_attempt(reading *r)
{
    const bool lost = number_of(r, "lost", 0) != 0;
    const bool resumed = pw_json_true(pw_json_get(r->body, "resumed"));
    sim_turn *t = r->turn;
    if (resumed && (t->response_id.len == 0 || t->owed > 0 || lost)) {
        bad(r, "G6", "an attempt resumes a reply that cannot be resumed");
    } else if (lost && t->response_id.len > 0) {
        bad(r, "G6", "a call is counted as lost that can be resumed");
    }
    t->lost += lost;
    t->unsure = t->unsure || resumed;
    t->wait_until_ms = -1;
}

/* --- All -------------------------------------------------------------------------------------- */

static void fold_one(reading *r)
{
    sim_ledger *l = r->l;
    if (r->record->seq != l->last_seq + 1) {
        bad(r, "J1", "a gap in seq");
        return;
    }
    l->last_seq = r->record->seq;
    r->turn = l->open >= 0 ? &l->turns[l->open] : NULL;
    if (r->record->kind == PW_RECORD_TURN_OPENED) {
        fold_opened(r);
        return;
    }
    if (r->record->kind == PW_RECORD_TOOL_LATE) {
        fold_late(r);
        return;
    }
    if (!r->turn || !pw_str_equal(r->turn->id, r->record->turn)) {
        bad(r, "M6", "it belongs to no open turn");
        return;
    }
    switch (r->record->kind) {
    case PW_RECORD_ATTEMPT_STARTED:
        if (number_of(r, "attempt", 0) != ++r->turn->attempts) {
            bad(r, "C4", "attempts are numbered wrongly");
        }
        fold_attempt(r);
        break;
    case PW_RECORD_MODEL_COMPLETED:
        fold_model(r);
        break;
    case PW_RECORD_MODEL_DISCARDED:
        fold_discarded(r);
        break;
    case PW_RECORD_MODEL_RETRYING:
        add_usage(r, pw_json_get(r->body, "usage"));
        check_tried_again(r->s, r->turn, r->body);
        break;
    case PW_RECORD_MODEL_ACCEPTED:
        check_accepted(r->s, r->l, r->turn, r->record, r->body);
        break;
    case PW_RECORD_MODEL_FALLBACK:
        add_usage(r, pw_json_get(r->body, "usage"));
        check_fallback(r->s, r->l, r->turn, r->body);
        break;
    case PW_RECORD_WAIT_SET:
        r->turn->wait_until_ms = number_of(r, "until", -1);
        check_tried_again(r->s, r->turn, r->body);
        check_reason(r->s, PW_TURN_WAITING, text_of(r, "reason"), r->record->turn);
        break;
    case PW_RECORD_TOOL_STARTED:
        fold_started(r);
        break;
    case PW_RECORD_TOOL_COMPLETED:
        fold_completed(r);
        break;
    case PW_RECORD_TURN_ENDED:
        fold_ended(r);
        break;
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        check_quarantined(r->s, r->l, r->turn, r->body);
        break;
    case PW_RECORD_TURN_OPENED:
    case PW_RECORD_TOOL_LATE:
        break;
    }
}

void ledger_read(sim *s, sim_ledger *l)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 8192, 0);
    pw_op op = {.kind = PW_OP_RECORDS,
                .arena = &arena,
                .records = {.session_id = l->id, .from_seq = l->last_seq + 1}};
    sim_execute(s, &op, 1);
    if (op.status != PW_OK) {
        sim_fail(s, "store", "%s: reading records: %s", l->name, op.error.message);
    }
    for (size_t i = 0; op.status == PW_OK && i < op.records.count && !s->failed; i++) {
        reading r = {.s = s, .l = l, .record = &op.records.records[i]};
        if (pw_json_parse(&arena, r.record->body, 0, &r.body, NULL) != PW_OK ||
            number_of(&r, "v", 0) != 1) {
            bad(&r, "M1", "the body is no JSON of version 1");
        } else {
            sim_note(s, "    %s %llu %s %.*s %.*s", l->name, (unsigned long long)r.record->seq,
                     pw_record_kind_name(r.record->kind), PW_STR_ARG(r.record->step),
                     r.record->kind == PW_RECORD_TURN_OPENED
                         ? 0
                         : (int)(r.record->body.len > 300 ? 300 : r.record->body.len),
                     r.record->body.ptr);
            fold_one(&r);
        }
    }
    pw_arena_free(&arena);
}
