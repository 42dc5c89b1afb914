/*
 * Rules about a whole turn: repeated calls (F4), what a cancel keeps (I3, I7), what was used (G1,
 * G6, H2).
 */
#include "sim.h"

/* --- F4 --------------------------------------------------------------------------------------- */

/* The same call in the model step before `n` of this turn; NULL when it was not made there. */
static const sim_step *made_before(const sim_ledger *l, const sim_step *step, int64_t *n)
{
    int64_t before = 0;
    for (int32_t i = l->message_count; i-- > 0;) {
        const sim_message *m = &l->messages[i];
        if (m->turn == step->turn && m->role == PW_ROLE_ASSISTANT && m->n < *n) {
            before = m->n;
            break;
        }
    }
    *n = before;
    for (int32_t i = 0; i < l->step_count && before > 0; i++) {
        const sim_step *other = &l->steps[i];
        if (other->turn == step->turn && other->n == before &&
            other->signature == step->signature) {
            return other;
        }
    }
    return NULL;
}

/* The last of a step's alike calls counts for its message: they count once, and may differ. */
static bool alone_in_message(const sim_ledger *l, const sim_step *step)
{
    for (int32_t i = 0; i < l->step_count; i++) {
        const sim_step *other = &l->steps[i];
        if (other != step && other->turn == step->turn && other->n == step->n &&
            other->signature == step->signature) {
            return false;
        }
    }
    return true;
}

/* A call that is about to run: not the third of its kind with one byte-equal result. */
void check_repeats(sim *s, const sim_ledger *l, const sim_step *step)
{
    int64_t n = step->n;
    const sim_step *one = made_before(l, step, &n);
    const sim_step *two = one ? made_before(l, step, &n) : NULL;
    if (two && one->receipt == RECEIPT_DONE && two->receipt == RECEIPT_DONE &&
        pw_str_equal(one->result, two->result) && alone_in_message(l, one) &&
        alone_in_message(l, two)) {
        sim_fail(s, "F4", "%s %.*s: run a third time, after two equal results", l->name,
                 PW_STR_ARG(step->id));
    }
}

/* A call that was refused as repeated: it was made in the two steps before. */
void check_refused_repeat(sim *s, const sim_ledger *l, const sim_step *step)
{
    if (step->receipt != RECEIPT_REPEATED) {
        return;
    }
    int64_t n = step->n;
    const sim_step *one = made_before(l, step, &n);
    if (!one || !made_before(l, step, &n)) {
        sim_fail(s, "F4", "%s %.*s: refused as repeated, and it is not", l->name,
                 PW_STR_ARG(step->id));
    }
}

/* --- Cancels ---------------------------------------------------------------------------------- */

static const sim_call *streaming(const sim *s, const sim_live *l)
{
    for (int32_t i = 0; i < s->call_count; i++) {
        const sim_call *c = &s->calls[i];
        if (c->model && !c->ended && !c->aborted && c->serial == l->serial &&
            c->session == l->session && c->call == l->text_call) {
            return c;
        }
    }
    return NULL;
}

/* I3: a recovered turn with a cancel begins no attempt. I7: the end of a cancelled turn keeps the
 * text so far. */
void check_cancelled(sim *s, const sim_live *l, const pw_append *a)
{
    const char *name = s->ledgers[l->session].name;
    for (size_t i = 0; i < a->record_count; i++) {
        const pw_record *r = &a->records[i];
        if (l->cancel_first && r->kind == PW_RECORD_ATTEMPT_STARTED) {
            sim_fail(s, "I3", "%s: an attempt begins though the cancel was seen first", name);
        }
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 4096, 0);
        const pw_json *body = NULL;
        if (r->kind == PW_RECORD_TURN_ENDED && streaming(s, l) &&
            pw_json_parse(&arena, r->body, 0, &body, NULL) == PW_OK &&
            pw_str_is(pw_json_text(pw_json_get(body, "state")), "cancelled") &&
            pw_json_text(pw_json_get(body, "text")).len != l->text_bytes) {
            sim_fail(s, "I7", "%s: cancelled with %zu bytes of text, and %llu were told", name,
                     pw_json_text(pw_json_get(body, "text")).len,
                     (unsigned long long)l->text_bytes);
        }
        pw_arena_free(&arena);
    }
}

/* --- Usage ------------------------------------------------------------------------------------ */

static int64_t used(const pw_json *usage, const char *key)
{
    return pw_json_i64_or(pw_json_get(usage, key), 0); /* left out: 0 */
}

void check_usage(sim *s, const sim_ledger *l, const sim_turn *t, const pw_json *ended)
{
    const pw_json *usage = pw_json_get(ended, "usage");
    /* A last call that nothing came of has no record of its own: its usage is in the end's sum
     * alone. */
    int64_t more = used(usage, "input_tokens") + used(usage, "output_tokens") - t->tokens;
    int64_t paid = used(usage, "cost_micros") - t->cost;
    bool last_lost =
        t->state == PW_TURN_FAILED || t->state == PW_TURN_PAUSED || t->state == PW_TURN_CANCELLED;
    if (used(usage, "iterations") != t->iterations) {
        sim_fail(s, "H2", "%s: %lld iterations, and it says %lld", l->name,
                 (long long)t->iterations, (long long)used(usage, "iterations"));
    } else if (more < 0 || more > (last_lost ? 102 : 0)) {
        sim_fail(s, "G1", "%s: %lld tokens, and it says %lld + %lld", l->name, (long long)t->tokens,
                 (long long)used(usage, "input_tokens"), (long long)used(usage, "output_tokens"));
    } else if (paid != 0 && !(paid == 300 && last_lost)) {
        sim_fail(s, "G1", "%s: it cost %lld, and it says %lld", l->name, (long long)t->cost,
                 (long long)used(usage, "cost_micros"));
    } else if (used(usage, "lost_calls") < t->lost ||
               used(usage, "lost_calls") > t->lost + (t->unsure ? 1 : 0)) {
        sim_fail(s, "G6", "%s: %d lost calls, and it says %lld", l->name, t->lost,
                 (long long)used(usage, "lost_calls"));
    } else if (used(usage, "fallbacks") != t->fallbacks) {
        sim_fail(s, "F6", "%s: %d fallbacks, and it says %lld", l->name, t->fallbacks,
                 (long long)used(usage, "fallbacks"));
    } else if (used(usage, "protocol_failures") != t->malformed) {
        sim_fail(s, "H2", "%s: %d protocol failures, and it says %lld", l->name, t->malformed,
                 (long long)used(usage, "protocol_failures"));
    }
}
