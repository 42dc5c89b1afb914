/*
 * Planted bugs: what a wrong driver, store or tool would do. The self-test demands that the judge
 * sees each of them.
 */
#include "sim.h"

void plant_request(sim *s, const sim_ledger *l, pw_model_request *q, const pw_message *list[512],
                   pw_message *changed)
{
    for (size_t i = 0; i < q->count && q->count < 512; i++) {
        list[i] = q->messages[i];
    }
    q->messages = list;
    if (s->plan->bug == BUG_DROP_RESULT && list[q->count - 1]->role == PW_ROLE_TOOL) {
        q->count--;
        s->planted = true;
    }
    if (s->plan->bug == BUG_OTHER_MODEL && q->model != q->definition->models) {
        q->model = q->definition->models;
        s->planted = true;
    }
    if (s->plan->bug == BUG_OTHER_RESPONSE && q->resume.len > 0) {
        q->resume = PW_STR_NONE;
        s->planted = true;
    }
    for (size_t i = 0; i < q->count && s->plan->bug == BUG_SEND_LEFT_OUT; i++) {
        if (list[i]->part_count > 0 && list[i]->parts[0].left_out) {
            static const pw_part back = {.kind = PW_PART_TEXT, .text = PW_STR_INIT("back again")};
            *changed = *list[i];
            changed->parts = &back;
            changed->part_count = 1;
            list[i] = changed;
            s->planted = true;
        }
    }
    if (s->plan->bug == BUG_CHANGE_PREFIX && l->open >= 0 && l->turns[l->open].prefix_count > 0) {
        *changed = *list[0];
        changed->n += 1000;
        list[0] = changed;
        s->planted = true;
    }
}

/* A new life runs a once tool again whose intent it finds without a receipt. */
void plant_recovery(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    for (int32_t i = 0; i < ledger->step_count && s->plan->bug == BUG_ONCE_TWICE; i++) {
        sim_step *step = &ledger->steps[i];
        if (step->intent && !step->receipt && step->runs > 0 && step->turn == ledger->open) {
            sim_call call = {.effects = PW_EFFECTS_ONCE};
            memcpy(call.key, step->key, sizeof call.key);
            s->planted = true;
            world_run(s, ledger, step, &call);
            return;
        }
    }
}

static void try_tool(sim *s, sim_live *l, pw_str turn, pw_str step)
{
    pw_tool_call call = {.turn = turn, .step = step, .key = PW_STR("0")};
    s->planted = true;
    check_tool(s, l, &call, false);
}

/* A call begins while the append of the message that makes it is in flight. */
void plant_early(sim *s, sim_live *l, const pw_append *a)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 4096, 0);
    for (size_t i = 0; i < a->record_count && s->plan->bug == BUG_EARLY_EFFECT; i++) {
        const pw_json *body = NULL;
        if (a->records[i].kind != PW_RECORD_MODEL_COMPLETED ||
            pw_json_parse(&arena, a->records[i].body, 0, &body, NULL) != PW_OK) {
            continue;
        }
        const pw_json *parts = pw_json_get(body, "parts");
        for (const pw_json *p = parts ? parts->child : NULL; p && !s->failed; p = p->next) {
            if (pw_str_is(pw_json_text(pw_json_get(p, "type")), "tool_call")) {
                pw_str call = pw_json_text(pw_json_get(p, "call"));
                try_tool(s, l, a->records[i].turn,
                         sim_format(s, "tool:%lld:%.*s",
                                    (long long)pw_json_i64_or(pw_json_get(body, "n"), 0),
                                    PW_STR_ARG(call)));
            }
        }
    }
    pw_arena_free(&arena);
}

/* A tool is run again though its receipt is there. */
void plant_repeat(sim *s, sim_live *l)
{
    sim_ledger *ledger = &s->ledgers[l->session];
    for (int32_t i = ledger->step_count; i-- > 0 && s->plan->bug == BUG_REPEAT_RECEIPT;) {
        sim_step *step = &ledger->steps[i];
        if (step->receipt == RECEIPT_DONE && step->turn == ledger->open &&
            l->epoch == ledger->epoch) {
            try_tool(s, l, ledger->turns[step->turn].id, step->id);
            return;
        }
    }
}

/* The driver forgets the wake that the machine told just before it rested. */
bool plant_wake(sim *s, const pw_effects *effects, size_t index)
{
    const bool before_rest =
        index + 1 < effects->count && effects->list[index].kind == PW_DO_WAKE &&
        effects->list[index + 1].kind == PW_DO_REST && !effects->list[index + 1].rest.released;
    if (s->plan->bug != BUG_STALE_WAKE || !before_rest) {
        return false;
    }
    s->planted = true;
    return true;
}
