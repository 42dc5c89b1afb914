/*
 * Which model is asked (F6), what is left out of the transcript (C9), and what is resumed (G6): by
 * the journal and what the world said alone.
 */
#include "sim.h"

static bool is_among(pw_str text, const char *const *list)
{
    while (*list && !pw_str_is(text, *list)) {
        list++;
    }
    return *list != NULL;
}

static bool eligible(const sim_turn *t, size_t index)
{
    const pw_model_choice *models = t->definition->models;
    return !t->answered || pw_str_equal(models[index].provider, models[t->choice].provider);
}

/* The next model that may be asked; 0: none. */
static size_t next_model(const sim_turn *t)
{
    for (size_t i = (size_t)t->choice + 1; i < t->definition->model_count; i++) {
        if (eligible(t, i)) {
            return i;
        }
    }
    return 0;
}

/* --- What is asked --- */

void check_asked(sim *s, const sim_ledger *l, const pw_model_request *q)
{
    const sim_turn *t = &l->turns[l->open];
    const pw_model_choice *want = &t->definition->models[t->choice];
    if (!pw_str_equal(q->model->name, want->name) ||
        !pw_str_equal(q->model->provider, want->provider)) {
        sim_fail(s, "F6", "%s: %.*s is asked, the turn is at %.*s", l->name,
                 PW_STR_ARG(q->model->name), PW_STR_ARG(want->name));
    } else if (!pw_str_equal(q->resume, t->response_id)) {
        sim_fail(s, "G6", "%s: a request resumes `%.*s`, the journal says `%.*s`", l->name,
                 PW_STR_ARG(q->resume), PW_STR_ARG(t->response_id));
    } else if (t->quarantines > 8) {
        sim_fail(s, "C9", "%s: asked again after %d parts were left out of one step", l->name,
                 t->quarantines);
    }
}

/* --- F6 --- */

void check_fallback(sim *s, sim_ledger *l, sim_turn *t, const pw_json *body)
{
    const pw_json *from = pw_json_get(body, "from"), *to = pw_json_get(body, "to");
    const size_t next = next_model(t);
    const bool gone = pw_str_is(pw_json_text(pw_json_get(body, "code")), "not_found_error");
    if (pw_json_i64_or(pw_json_get(from, "index"), -1) != t->choice || next == 0 ||
        pw_json_i64_or(pw_json_get(to, "index"), -1) != (int64_t)next ||
        !pw_str_equal(pw_json_text(pw_json_get(to, "model")), t->definition->models[next].name)) {
        sim_fail(s, "F6", "%s: a fallback that is not to the next model that may be asked",
                 l->name);
        return;
    }
    if (!gone && t->retries < 3) {
        sim_fail(s, "F6", "%s: a fallback after %d tries", l->name, t->retries + 1);
    }
    check_forgotten(s, t, body);
    t->choice = (int32_t)next;
    t->fallbacks++;
    t->retries = 0;
}

/* A turn that failed for its model had nothing left to try. */
void check_failed(sim *s, const sim_ledger *l, const sim_turn *t, pw_str code)
{
    static const char *const nexts[] = {"model:not_found_error", "model:http_500", "model:cut_off",
                                        "model:connect",         "model:stalled",  NULL};
    if (is_among(code, nexts) && next_model(t) > 0) {
        sim_fail(s, "F6", "%s: failed, and another model may be asked", l->name);
    } else if (pw_str_is(code, "model:rejected") && l->rejected.seq > 0 && t->quarantines < 8 &&
               l->may_leave) {
        sim_fail(s, "C9", "%s: failed, and the part that was rejected may be left out", l->name);
    }
}

/* --- C9 --- */

bool check_left_out(const sim_ledger *l, uint64_t seq, size_t part)
{
    for (int32_t i = 0; i < l->left_out_count; i++) {
        if (l->left_out[i].seq == seq && l->left_out[i].part == part) {
            return true;
        }
    }
    return false;
}

void check_quarantined(sim *s, sim_ledger *l, sim_turn *t, const pw_json *body)
{
    const pw_json *repairs = pw_json_get(body, "repairs");
    const pw_json *repair = pw_json_at(repairs, 0);
    const uint64_t seq = (uint64_t)pw_json_i64_or(pw_json_get(repair, "seq"), 0);
    const size_t part = (size_t)pw_json_i64_or(pw_json_get(repair, "part"), 0);
    if (!pw_str_is(pw_json_text(pw_json_get(repair, "what")), "quarantined") ||
        repairs->count != 1) {
        sim_fail(s, "C9", "%s: a repair, and nothing was damaged", l->name);
    } else if (seq != l->rejected.seq || part != l->rejected.part || !l->may_leave) {
        sim_fail(s, "C9", "%s: a part is left out that was not rejected, or must stay", l->name);
    } else if (check_left_out(l, seq, part)) {
        sim_fail(s, "C9", "%s: a part is left out twice", l->name);
    } else if (l->left_out_count == SIM_LEFT_OUT) {
        sim_fail(s, "setup", "too many parts are left out for the simulator");
    } else {
        l->left_out[l->left_out_count++] = (sim_part){.seq = seq, .part = part};
        t->quarantines++;
        t->prefix_count = 0; /* C10: the one exception there is here */
        l->rejected.seq = 0;
        check_forgotten(s, t, body);
    }
}

/* --- G6 --- */

void check_accepted(sim *s, sim_ledger *l, sim_turn *t, const pw_record *record,
                    const pw_json *body)
{
    const pw_str id = pw_json_text(pw_json_get(body, "response_id"));
    const pw_model_choice *asked = &t->definition->models[t->choice];
    bool said = false;
    for (int32_t i = 0; i < s->call_count; i++) {
        const sim_call *c = &s->calls[i];
        said =
            said || (c->model && c->accepted && &s->ledgers[c->session] == l &&
                     pw_str_equal(c->step_id, record->step) && pw_str_equal(c->said->response, id));
    }
    if (!said || t->owed > 0) {
        sim_fail(s, "G6", "%s: %.*s is recorded, and no call of this step has it", l->name,
                 PW_STR_ARG(id));
    } else if (!pw_str_equal(pw_json_text(pw_json_get(body, "model")), asked->name)) {
        sim_fail(s, "F6", "%s: a reply is said to be made by a model that is not asked", l->name);
    }
    t->response_id = sim_dup(s, id);
}

/* A record after which the reply is not resumed. */
void check_forgotten(sim *s, sim_turn *t, const pw_json *body)
{
    const bool lost = pw_json_i64_or(pw_json_get(body, "lost"), 0) != 0;
    if (lost != t->unsure) {
        sim_fail(s, "G6", "turn %.12s: a reply that will not be resumed is%s counted as lost",
                 t->id.ptr, lost ? "" : " not");
    }
    t->lost += lost;
    t->unsure = false;
    t->response_id = PW_STR_NONE;
}

/* After a broken connection, and when the provider only was too busy to say, the reply is resumed,
 * where it can be; after anything else it is not. */
void check_tried_again(sim *s, sim_turn *t, const pw_json *body)
{
    static const char *const broken[] = {"cut_off", "connect", "stalled", "aborted", "busy", NULL};
    const bool resumable = pw_json_true(pw_json_get(body, "resumable"));
    const bool want =
        is_among(pw_json_text(pw_json_get(body, "code")), broken) && t->response_id.len > 0;
    t->retries += pw_str_is(pw_json_text(pw_json_get(body, "class")), "retry");
    if (resumable != want) {
        sim_fail(s, "G6", "turn %.12s: the reply can%s be resumed, and it says otherwise",
                 t->id.ptr, want ? "" : " not");
    }
    if (!resumable) {
        check_forgotten(s, t, body);
    }
}
