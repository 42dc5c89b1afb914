/*
 * The Steps of HTTP.md: model calls and tool calls of one turn, each with where it stands.
 *
 * A step's place in the list is where the journal first speaks of it. Only records count: a call
 * that is running now but left no record yet (D3: all but `once` ones) is still `owed` here.
 */
#include "core/view_inner.h"

/* X(NAME, "state in JSON") */
#define STEP_STATES(X)                                                                             \
    X(OWED, "owed")                                                                                \
    X(RUNNING, "running")                                                                          \
    X(DONE, "done")                                                                                \
    X(ERROR, "error")                                                                              \
    X(UNKNOWN, "unknown")                                                                          \
    X(CANCELLED, "cancelled")                                                                      \
    X(DENIED, "denied")                                                                            \
    X(PAUSED, "paused")                                                                            \
    X(MALFORMED, "malformed")

typedef enum step_state {
#define STATE_ENUM(name, text) STEP_##name,
    STEP_STATES(STATE_ENUM)
#undef STATE_ENUM
} step_state;

static const char *state_name(step_state state)
{
    switch (state) {
#define STATE_CASE(name, text)                                                                     \
    case STEP_##name:                                                                              \
        return text;
        STEP_STATES(STATE_CASE)
#undef STATE_CASE
    }
    return "owed";
}

typedef struct step {
    pw_str id;
    bool model;
    step_state state;
    int64_t executions, attempt, started_ms, ended_ms;
    int64_t earlier; /* executions with the models asked before (F6) */
    const pw_json *name, *effects, *arguments, *result, *error, *stop, *usage, *late;
} step;

typedef struct steps {
    step *list;
    size_t count, capacity;
    int64_t attempt;
    pw_arena *arena;
} steps;

/* The latest steps are asked for most: looked for from the end. */
static step *find(steps *all, pw_str id)
{
    for (size_t i = all->count; i > 0; i--) {
        if (pw_str_equal(all->list[i - 1].id, id)) {
            return &all->list[i - 1];
        }
    }
    return NULL;
}

static step *add(steps *all, pw_str id, bool model)
{
    if (all->count == all->capacity) {
        size_t capacity = all->capacity > 0 ? all->capacity * 2 : 16;
        step *bigger = PW_NEW_ARRAY(all->arena, step, capacity);
        if (!bigger) {
            return NULL;
        }
        if (all->count > 0) {
            memcpy(bigger, all->list, all->count * sizeof(*bigger));
        }
        all->list = bigger;
        all->capacity = capacity;
    }
    step *s = &all->list[all->count++];
    *s =
        (step){.id = id, .model = model, .started_ms = -1, .ended_ms = -1, .attempt = all->attempt};
    return s;
}

static step *find_or_add(steps *all, pw_str id, bool model)
{
    step *s = find(all, id);
    return s ? s : add(all, id, model);
}

/* C1: `tool:<n>:<id>` where n is the assistant message's. */
static pw_status call_id(pw_arena *arena, pw_str model_step, pw_str call, pw_str *ret)
{
    pw_str prefix = PW_STR("model:");
    pw_str n = pw_str_begins(model_step, prefix)
                   ? pw_str_slice(model_step, prefix.len, model_step.len)
                   : PW_STR("0");
    pw_buffer id;
    pw_buffer_init_arena(&id, arena, 4096);
    (void)pw_buffer_add(&id, PW_STR("tool:"));
    (void)pw_buffer_add(&id, n);
    (void)pw_buffer_add(&id, PW_STR(":"));
    (void)pw_buffer_add(&id, call);
    *ret = pw_buffer_str(&id);
    return id.failed;
}

static pw_status on_reply(steps *all, const pw_record *record, const pw_json *body)
{
    step *model = find_or_add(all, record->step, true);
    if (!model) {
        return PW_NOMEM;
    }
    model->state = STEP_DONE;
    model->attempt = all->attempt;
    model->name = pw_json_get(body, "model");
    model->stop = pw_json_get(body, "stop");
    model->usage = pw_json_get(body, "usage");
    model->executions = model->earlier + pw_json_i64_or(pw_json_get(body, "tries"), 1);
    model->started_ms = pw_json_i64_or(pw_json_get(body, "started_at"), -1);
    model->ended_ms = record->at_ms;
    const pw_json *parts = pw_json_get(body, "parts");
    for (const pw_json *p = parts ? parts->child : NULL; p; p = p->next) {
        if (!pw_str_is(pw_json_text(pw_json_get(p, "type")), "tool_call")) {
            continue;
        }
        pw_str id;
        PW_TRY(call_id(all->arena, record->step, pw_json_text(pw_json_get(p, "call")), &id));
        step *tool = find_or_add(all, id, false);
        if (!tool) {
            return PW_NOMEM;
        }
        tool->name = pw_json_get(p, "name");
        tool->effects = pw_json_get(p, "effects");
        tool->arguments = pw_json_get(p, "arguments");
    }
    return PW_OK;
}

static pw_status on_trouble(steps *all, const pw_record *record, const pw_json *body)
{
    step *model = find_or_add(all, record->step, true);
    if (!model) {
        return PW_NOMEM;
    }
    if (model->state != STEP_DONE) {
        model->state = STEP_RUNNING;
        model->attempt = all->attempt;
        const int64_t tries = model->earlier + pw_json_i64_or(pw_json_get(body, "try"), 0);
        model->executions = tries > model->executions ? tries : model->executions;
    }
    return PW_OK;
}

/* F6: tries are counted anew; the step is one for all of them. */
static pw_status on_fallback(steps *all, const pw_record *record, const pw_json *body)
{
    PW_TRY(on_trouble(all, record, body));
    step *model = find(all, record->step);
    model->earlier = model->executions;
    return PW_OK;
}

static pw_status on_started(steps *all, const pw_record *record, const pw_json *body)
{
    step *tool = find_or_add(all, record->step, false);
    if (!tool) {
        return PW_NOMEM;
    }
    tool->state = STEP_RUNNING;
    tool->attempt = all->attempt;
    tool->name = tool->name ? tool->name : pw_json_get(body, "name");
    tool->executions = pw_json_i64_or(pw_json_get(body, "execution"), 1);
    tool->started_ms = record->at_ms;
    return PW_OK;
}

static step_state state_of_outcome(pw_str outcome)
{
    if (pw_str_is(outcome,
                  "repeated")) { /* not run: the model reads an instruction as its error (F4) */
        return STEP_ERROR;
    }
    for (int s = STEP_DONE; s <= STEP_MALFORMED; s++) {
        if (pw_str_is(outcome, state_name((step_state)s))) {
            return (step_state)s;
        }
    }
    return STEP_UNKNOWN;
}

static pw_status on_receipt(steps *all, const pw_record *record, const pw_json *body)
{
    step *tool = find_or_add(all, record->step, false);
    if (!tool) {
        return PW_NOMEM;
    }
    tool->state = state_of_outcome(pw_json_text(pw_json_get(body, "outcome")));
    tool->attempt = all->attempt;
    tool->name = tool->name ? tool->name : pw_json_get(body, "name");
    tool->effects = pw_json_get(body, "effects");
    tool->executions = pw_json_i64_or(pw_json_get(body, "executions"), 1);
    tool->started_ms = pw_json_i64_or(pw_json_get(body, "started_at"), tool->started_ms);
    tool->ended_ms = record->at_ms;
    const pw_json *result = pw_json_get(body, "result");
    if (pw_json_true(pw_json_get(body, "is_error"))) {
        tool->error = pw_view_error_of(result);
    } else {
        tool->result = result;
    }
    return PW_OK;
}

static pw_status on_record(steps *all, const pw_record *record, pw_error *error)
{
    const pw_json *body;
    PW_TRY(pw_view_body(record, all->arena, &body, error));
    switch (record->kind) {
    case PW_RECORD_ATTEMPT_STARTED:
        all->attempt = pw_json_i64_or(pw_json_get(body, "attempt"), all->attempt + 1);
        return PW_OK;
    case PW_RECORD_MODEL_COMPLETED:
        return on_reply(all, record, body);
    case PW_RECORD_MODEL_DISCARDED:
    case PW_RECORD_MODEL_RETRYING:
    case PW_RECORD_WAIT_SET:
        return record->step.len > 0 ? on_trouble(all, record, body) : PW_OK;
    case PW_RECORD_MODEL_FALLBACK:
        return record->step.len > 0 ? on_fallback(all, record, body) : PW_OK;
    case PW_RECORD_TOOL_STARTED:
        return on_started(all, record, body);
    case PW_RECORD_TOOL_COMPLETED:
        return on_receipt(all, record, body);
    case PW_RECORD_TOOL_LATE: {
        step *tool = find(all, record->step);
        if (tool) {
            tool->late = body;
        }
        return PW_OK;
    }
    case PW_RECORD_TURN_ENDED: /* what had no receipt by now never will */
        for (size_t i = 0; i < all->count; i++) {
            step *s = &all->list[i];
            bool open = s->state == STEP_OWED || s->state == STEP_RUNNING;
            bool cancelled = pw_str_is(pw_json_text(pw_json_get(body, "state")), "cancelled");
            s->state = !open ? s->state : cancelled ? STEP_CANCELLED : STEP_ERROR;
        }
        return PW_OK;
    case PW_RECORD_TURN_OPENED:
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        return PW_OK;
    }
    return PW_OK;
}

static void step_write(pw_json_writer *w, const step *s, pw_str turn, pw_arena *scratch)
{
    pw_json_object(w);
    pw_json_put_str(w, "id", s->id);
    pw_json_put_str(w, "turn", turn);
    pw_json_put_str(w, "kind", s->model ? PW_STR("model") : PW_STR("tool"));
    pw_view_put(w, "name", s->name, scratch);
    pw_view_put(w, "effects", s->effects, scratch);
    pw_json_put_str(w, "state", pw_str_from(state_name(s->state)));
    pw_json_put_i64(w, "executions", s->executions);
    pw_json_put_i64(w, "attempt", s->attempt);
    pw_view_put(w, "arguments", s->arguments, scratch);
    pw_view_put(w, "result", s->result, scratch);
    pw_view_put(w, "error", s->error, scratch);
    pw_json_put_time(w, "started_at", s->started_ms);
    pw_json_put_time(w, "ended_at", s->ended_ms);
    if (s->model) {
        pw_view_put(w, "stop", s->stop, scratch);
        pw_view_put_call_usage(w, "usage", s->usage);
    }
    if (s->late) {
        pw_json_key(w, "late");
        pw_json_object(w);
        pw_view_put(w, "outcome", pw_json_get(s->late, "outcome"), scratch);
        pw_view_put(w, "result", pw_json_get(s->late, "result"), scratch);
        pw_json_object_end(w);
    }
    pw_json_object_end(w);
}

pw_status pw_view_steps_json(const pw_view_turn *turn, pw_arena *scratch, pw_buffer *ret,
                             pw_error *error)
{
    steps all = {.attempt = 1, .arena = scratch};
    for (size_t i = 0; i < turn->count; i++) {
        PW_TRY(on_record(&all, &turn->records[i], error));
    }
    pw_json_writer w;
    pw_json_begin(&w, ret);
    pw_json_array(&w);
    for (size_t i = 0; i < all.count; i++) {
        step_write(&w, &all.list[i], turn->records[0].turn, scratch);
    }
    pw_json_array_end(&w);
    return ret->failed;
}
