/*
 * Record bodies, version 1: one function each. core/record.h shows them all together; what differs
 * from it, or is not obvious there, is said here. Bodies are made in the room of the append being
 * made.
 */
#include "core/state.h"

#include "base/utf8.h"

typedef struct writer {
    pw_buffer out;
    pw_json_writer w;
} writer;

static void body_begin(pw_session *s, writer *b)
{
    pw_buffer_init_arena(&b->out, &s->build.room->arena, PW_BODY_MAX);
    pw_json_begin(&b->w, &b->out);
    pw_json_object(&b->w);
    pw_json_put_i64(&b->w, "v", 1);
}

static pw_status body_end(writer *b, pw_str *ret)
{
    pw_json_object_end(&b->w);
    PW_TRY(b->out.failed);
    *ret = pw_buffer_str(&b->out);
    return PW_OK;
}

/* What a body would say null of is left out of it (record.h): so empty text here. */
static void put_text(pw_json_writer *w, const char *key, pw_str text)
{
    if (text.len > 0) {
        pw_json_put_str(w, key, text);
    }
}

/* Text that came from outside (A8). */
static void put_outside(pw_session *s, writer *b, const char *key, pw_str text)
{
    if (!pw_utf8_clean(text)) {
        pw_str mended;
        if (pw_value_text(&s->scratch, text, SIZE_MAX, &mended) != PW_OK) {
            b->out.failed = PW_NOMEM;
            return;
        }
        text = mended;
    }
    put_text(&b->w, key, text);
}

static void put_raw(pw_json_writer *w, const char *key, pw_str json)
{
    if (json.len > 0) {
        pw_json_put_raw(w, key, json);
    }
}

/* Negative: none. */
static void put_count(pw_json_writer *w, const char *key, int64_t value)
{
    if (value >= 0) {
        pw_json_put_i64(w, key, value);
    }
}

static void put_unless(pw_json_writer *w, const char *key, int64_t value, int64_t usual)
{
    if (value != usual) {
        pw_json_put_i64(w, key, value);
    }
}

const char *pw_outcome_name(pw_outcome outcome)
{
    static const char *const names[] = {
#define OUTCOME_NAME(name, text) text,
        PW_OUTCOME_TABLE(OUTCOME_NAME)
#undef OUTCOME_NAME
    };
    PW_ASSERT((unsigned)outcome < sizeof(names) / sizeof(names[0]));
    return names[outcome];
}

/* --- Shared members --- */

void pw_encode_totals(pw_json_writer *w, const pw_totals *totals)
{
    pw_json_object(w);
#define PUT_TOTAL(name) put_unless(w, #name, totals->name, 0);
    PW_TOTALS_TABLE(PUT_TOTAL)
#undef PUT_TOTAL
    pw_json_object_end(w);
}

void pw_decode_totals(const pw_json *object, pw_totals *ret)
{
#define GET_TOTAL(name) ret->name = pw_json_i64_or(pw_json_get(object, #name), 0);
    PW_TOTALS_TABLE(GET_TOTAL)
#undef GET_TOTAL
}

/* Of one call: {"in_uncached","in_cache_read","in_cache_write","out","reasoning","cost_micros"};
 * absent: not said. */
void pw_encode_usage(pw_json_writer *w, const pw_usage *usage)
{
    pw_json_object(w);
    put_count(w, "in_uncached", usage->in_uncached);
    put_count(w, "in_cache_read", usage->in_cache_read);
    put_count(w, "in_cache_write", usage->in_cache_write);
    put_count(w, "out", usage->out);
    put_count(w, "reasoning", usage->reasoning);
    put_count(w, "cost_micros", usage->cost_micros);
    pw_json_object_end(w);
}

pw_usage pw_decode_usage(const pw_json *object)
{
    return (pw_usage){
        .in_uncached = pw_json_i64_or(pw_json_get(object, "in_uncached"), -1),
        .in_cache_read = pw_json_i64_or(pw_json_get(object, "in_cache_read"), -1),
        .in_cache_write = pw_json_i64_or(pw_json_get(object, "in_cache_write"), -1),
        .out = pw_json_i64_or(pw_json_get(object, "out"), -1),
        .reasoning = pw_json_i64_or(pw_json_get(object, "reasoning"), -1),
        .cost_micros = pw_json_i64_or(pw_json_get(object, "cost_micros"), -1),
    };
}

/* As the definition's, but money in micros; absent: no such bound. */
void pw_encode_budget(pw_json_writer *w, const pw_budget *budget)
{
    pw_json_object(w);
    put_count(w, "max_iterations", budget->max_iterations);
    put_count(w, "max_tool_calls", budget->max_tool_calls);
    put_count(w, "max_cost_micros", budget->max_cost_micros);
    put_count(w, "max_tokens", budget->max_tokens);
    put_count(w, "deadline_ms", budget->deadline_ms);
    pw_json_object_end(w);
}

/* --- turn.opened --- */

static void put_content(pw_json_writer *w, const pw_json *content)
{
    pw_json_key(w, "content");
    pw_json_array(w);
    for (const pw_json *part = content ? content->child : NULL; part; part = part->next) {
        if (pw_value_depth(part->raw) <= PW_VALUE_DEPTH_MAX) {
            pw_json_raw(w, part->raw);
            continue;
        }
        pw_json_object(w);
        pw_json_put_str(w, "type", PW_STR("text"));
        pw_json_put_str(w, "text", PW_STR("[a part of this message was nested too deep to keep]"));
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
}

/* requests[] are the inbox rows' own members; a member nested too deep to embed is left out. */
static pw_status put_request(pw_session *s, pw_json_writer *w, const pw_inbox_row *row)
{
    const pw_json *body;
    PW_TRY(pw_json_parse(&s->scratch, row->body, 0, &body, NULL));
    pw_json_object(w);
    pw_json_put_str(w, "id", row->request_id);
    pw_json_put_i64(w, "n", (int64_t)row->n);
    pw_json_put_i64(w, "at", row->at_ms);
    put_text(w, "role", pw_json_text(pw_json_get(body, "role")));
    put_text(w, "source", pw_json_text(pw_json_get(body, "source")));
    const pw_json *user = pw_json_get(body, "user");
    put_raw(w, "user", pw_json_is(user, PW_JSON_OBJECT) ? user->raw : PW_STR_NONE);
    const pw_json *by = pw_json_get(body, "by");
    if (by) {
        pw_json_put_raw(w, "by", by->raw);
    }
    put_content(w, pw_json_get(body, "content"));
    const pw_json *metadata = pw_json_get(body, "metadata");
    if (metadata && pw_value_depth(metadata->raw) <= PW_VALUE_DEPTH_MAX) {
        pw_json_put_raw(w, "metadata", metadata->raw);
    }
    pw_json_object_end(w);
    return PW_OK;
}

pw_status pw_encode_turn_opened(pw_session *s, const pw_claimed *claimed, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_str(&b.w, "run", claimed->run);
    pw_json_put_str(&b.w, "agent", claimed->definition->name);
    pw_json_put_str(&b.w, "definition", pw_str_from(claimed->definition->hash.text));
    pw_json_key(&b.w, "requests");
    pw_json_array(&b.w);
    for (size_t i = 0; i < claimed->row_count; i++) {
        PW_TRY(put_request(s, &b.w, claimed->rows[i]));
    }
    pw_json_array_end(&b.w);
    pw_json_put_i64(&b.w, "n", s->d.messages + 1);
    pw_json_key(&b.w, "budget");
    pw_encode_budget(&b.w, &claimed->budget);
    put_count(&b.w, "deadline_at", claimed->deadline_at_ms);
    pw_json_put_i64(&b.w, "first_seq", (int64_t)claimed->first_seq);
    pw_json_key(&b.w, "before");
    pw_json_object(&b.w);
    pw_json_put_i64(&b.w, "messages", s->d.messages);
    pw_json_put_i64(&b.w, "turns", s->d.turns);
    pw_json_key(&b.w, "usage");
    pw_encode_totals(&b.w, &s->d.totals);
    pw_json_object_end(&b.w);
    pw_json_put_i64(&b.w, "generation", s->d.generation);
    put_raw(&b.w, "initiator", claimed->initiator);
    return body_end(&b, ret);
}

pw_status pw_encode_attempt(pw_session *s, pw_str run, bool lost, bool resumed, pw_str *ret)
{
    static const char *const causes[] = {
#define CAUSE_NAME(name, text) text,
        PW_CAUSE_TABLE(CAUSE_NAME)
#undef CAUSE_NAME
    };
    writer b;
    body_begin(s, &b);
    pw_json_put_i64(&b.w, "attempt", s->d.turn.attempts + 1);
    pw_json_put_str(&b.w, "run", run);
    pw_json_put_str(&b.w, "cause", pw_str_from(causes[s->v.cause]));
    pw_json_put_i64(&b.w, "lost", lost ? 1 : 0);
    if (resumed) {
        pw_json_put_bool(&b.w, "resumed", true);
    }
    return body_end(&b, ret);
}

/* --- The model --- */

static void put_part(pw_session *s, writer *b, const pw_part *part)
{
    static const char *const types[] = {
#define PART_NAME(name, text) text,
        PW_PART_TABLE(PART_NAME)
#undef PART_NAME
    };
    pw_json_object(&b->w);
    pw_json_put_str(&b->w, "type", pw_str_from(types[part->kind]));
    if (part->text.len > 0 || part->kind == PW_PART_TEXT) {
        put_outside(s, b, "text", part->text);
    }
    if (part->kind == PW_PART_TOOL_CALL) {
        pw_json_put_str(&b->w, "call", part->call);
        put_outside(s, b, "id", part->provider_id);
        put_outside(s, b, "name", part->name);
        if (part->broken && part->arguments.len == 0) {
            pw_json_put_str(&b->w, "broken", PW_STR(""));
        } else if (part->broken) {
            put_outside(s, b, "broken", part->arguments);
        } else {
            pw_json_put_raw(&b->w, "arguments", part->arguments);
        }
        const pw_tool_declaration *tool;
        pw_effects_class effects;
        if (pw_call_tool(s, part->name, &tool,
                         &effects)) { /* told with the call, before it has run */
            pw_json_put_str(&b->w, "effects", pw_str_from(pw_effects_name(effects)));
        }
    }
    if (part->raw.len > 0) {
        pw_json_put_raw(&b->w, "raw", part->raw);
    }
    pw_json_object_end(&b->w);
}

/* The reply's parts have been made fit before (reply.c): calls have ids, arguments and raw are
 * valid JSON. */
pw_status pw_encode_model_completed(pw_session *s, const pw_reply *reply, int64_t n, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_i64(&b.w, "n", n);
    put_outside(s, &b, "provider", reply->provider);
    put_outside(s, &b, "model", reply->model);
    if (!pw_str_equal(reply->model, pw_choice_now(s)->name)) {
        put_outside(s, &b, "asked", pw_choice_now(s)->name);
    }
    put_outside(s, &b, "response_id", reply->response_id);
    pw_json_key(&b.w, "parts");
    pw_json_array(&b.w);
    for (size_t i = 0; i < reply->part_count; i++) {
        put_part(s, &b, &reply->parts[i]);
    }
    pw_json_array_end(&b.w);
    pw_json_put_str(&b.w, "stop", pw_str_from(pw_stop_name(reply->stop)));
    put_outside(s, &b, "stop_detail", reply->stop_detail);
    pw_json_key(&b.w, "usage");
    pw_encode_usage(&b.w, &reply->usage);
    pw_json_put_i64(&b.w, "started_at", s->v.model.started_at_ms);
    put_unless(&b.w, "tries", s->v.model.tries, 1);
    return body_end(&b, ret);
}

/* code `empty_reply`: a whole reply with nothing in it (C6), which counts as an iteration. */
pw_status pw_encode_discarded(pw_session *s, pw_str code, const pw_usage *usage, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_i64(&b.w, "try", s->v.model.tries);
    put_outside(s, &b, "code", code);
    pw_json_put_i64(&b.w, "shown", (int64_t)s->v.text_bytes);
    pw_json_key(&b.w, "usage");
    pw_encode_usage(&b.w, usage);
    return body_end(&b, ret);
}

/* A reply that was to be resumed will not be (G6). */
static void put_lost(pw_session *s, writer *b)
{
    if (s->d.turn.response_unsure) {
        pw_json_put_i64(&b->w, "lost", 1);
    }
}

/* `usage` is there when no model.discarded of the same try has it. */
static void put_failure_usage(pw_session *s, writer *b, const pw_failure *failure)
{
    if (s->v.text_bytes == 0 && pw_usage_known(&failure->usage)) {
        pw_json_key(&b->w, "usage");
        pw_encode_usage(&b->w, &failure->usage);
    }
}

static void put_resumable(pw_session *s, writer *b, bool resumable)
{
    if (resumable) {
        pw_json_put_bool(&b->w, "resumable", true);
    } else {
        put_lost(s, b);
    }
}

pw_status pw_encode_retrying(pw_session *s, const pw_failure *failure, const char *class_name,
                             int64_t until_ms, bool resumable, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_i64(&b.w, "try", s->v.model.tries);
    pw_json_put_str(&b.w, "class", pw_str_from(class_name));
    put_outside(s, &b, "code", failure->code);
    put_outside(s, &b, "message", failure->message);
    pw_json_put_i64(&b.w, "until", until_ms);
    put_failure_usage(s, &b, failure);
    put_resumable(s, &b, resumable);
    return body_end(&b, ret);
}

pw_status pw_encode_accepted(pw_session *s, pw_str response_id, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    put_outside(s, &b, "response_id", response_id);
    put_outside(s, &b, "provider", pw_choice_now(s)->provider);
    put_outside(s, &b, "model", pw_choice_now(s)->name);
    return body_end(&b, ret);
}

static void put_choice(pw_session *s, writer *b, const char *key, size_t index)
{
    const pw_model_choice *choice = &s->v.pinned->models[index];
    pw_json_key(&b->w, key);
    pw_json_object(&b->w);
    pw_json_put_i64(&b->w, "index", (int64_t)index);
    put_outside(s, b, "provider", choice->provider);
    put_outside(s, b, "model", choice->name);
    pw_json_object_end(&b->w);
}

pw_status pw_encode_fallback(pw_session *s, const pw_failure *failure, size_t to, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_i64(&b.w, "try", s->v.model.tries);
    put_choice(s, &b, "from", (size_t)s->d.turn.choice);
    put_choice(s, &b, "to", to);
    put_outside(s, &b, "code", failure->code);
    put_outside(s, &b, "message", failure->message);
    put_failure_usage(s, &b, failure);
    put_lost(s, &b);
    return body_end(&b, ret);
}

pw_status pw_encode_wait(pw_session *s, const pw_failure *failure, int64_t until_ms, bool resumable,
                         pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_str(&b.w, "reason", PW_STR("rate_limit"));
    put_outside(s, &b, "code", failure->code);
    put_outside(s, &b, "message", failure->message);
    pw_json_put_i64(&b.w, "until", until_ms);
    put_resumable(s, &b, resumable);
    return body_end(&b, ret);
}

/* --- Tools --- */

pw_status pw_encode_tool_started(pw_session *s, const pw_call *call, int64_t execution,
                                 int64_t limit_at_ms, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_str(&b.w, "call", call->part->call);
    put_text(&b.w, "name", call->part->name);
    pw_json_put_i64(&b.w, "execution", execution);
    pw_json_put_i64(&b.w, "limit_at", limit_at_ms);
    return body_end(&b, ret);
}

static void put_receipt_head(writer *b, const pw_call *call, const pw_settled *settled)
{
    pw_json_put_str(&b->w, "call", call->part->call);
    put_text(&b->w, "name", call->part->name);
    pw_json_put_str(&b->w, "effects", pw_str_from(pw_effects_name(settled->effects)));
    pw_json_put_str(&b->w, "outcome", pw_str_from(pw_outcome_name(settled->outcome)));
}

static void put_receipt_tail(writer *b, const pw_settled *settled)
{
    if (settled->is_error) {
        pw_json_put_bool(&b->w, "is_error", true);
    }
    put_count(&b->w, "started_at", settled->started_at_ms);
    put_unless(&b->w, "executions", settled->executions, 1);
}

/* started_at: absent when it was never begun. `whole`: the hash of the blob that holds a cut
 * result.
 */
pw_status pw_encode_tool_completed(pw_session *s, const pw_call *call, const pw_settled *settled,
                                   pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    put_receipt_head(&b, call, settled);
    pw_json_put_raw(&b.w, "result", settled->result);
    if (settled->truncated > 0) {
        pw_json_put_i64(&b.w, "truncated", (int64_t)settled->truncated);
        pw_json_put_str(&b.w, "whole", settled->whole);
    }
    put_receipt_tail(&b, settled);
    return body_end(&b, ret);
}

pw_status pw_encode_receipt(pw_session *s, const pw_call *call, const pw_settled *settled,
                            int64_t result_limit, pw_receipt *ret)
{
    writer b;
    body_begin(s, &b);
    put_receipt_head(&b, call, settled);
    pw_json_put_raw(&b.w, "result", PW_STR("0")); /* the hole, one byte wide */
    const size_t hole = b.out.len - 1;
    put_receipt_tail(&b, settled);
    pw_str body;
    PW_TRY(body_end(&b, &body));
    *ret = (pw_receipt){
        .record = 0,
        .before = pw_str_slice(body, 0, hole),
        .after = pw_str_slice(body, hole + 1, body.len),
        .result_limit = result_limit,
    };
    return PW_OK;
}

pw_status pw_encode_tool_late(pw_session *s, const pw_ghost *ghost, pw_outcome outcome,
                              pw_str result, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_put_str(&b.w, "call", ghost->id);
    put_text(&b.w, "name", ghost->name);
    pw_json_put_str(&b.w, "outcome", pw_str_from(pw_outcome_name(outcome)));
    pw_json_put_raw(&b.w, "result", result);
    return body_end(&b, ret);
}

pw_status pw_encode_repaired(pw_session *s, const pw_transcript_fault *faults, size_t count,
                             pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_key(&b.w, "repairs");
    pw_json_array(&b.w);
    for (size_t i = 0; i < count; i++) {
        pw_json_object(&b.w);
        pw_json_put_i64(&b.w, "seq", (int64_t)faults[i].seq);
        pw_json_put_str(&b.w, "what", pw_str_from(faults[i].what));
        if (faults[i].call.len > 0) {
            put_outside(s, &b, "call", faults[i].call);
        }
        pw_json_object_end(&b.w);
    }
    pw_json_array_end(&b.w);
    return body_end(&b, ret);
}

pw_status pw_encode_quarantined(pw_session *s, uint64_t seq, size_t part, pw_str *ret)
{
    writer b;
    body_begin(s, &b);
    pw_json_key(&b.w, "repairs");
    pw_json_array(&b.w);
    pw_json_object(&b.w);
    pw_json_put_i64(&b.w, "seq", (int64_t)seq);
    pw_json_put_i64(&b.w, "part", (int64_t)part);
    pw_json_put_str(&b.w, "what", PW_STR("quarantined"));
    pw_json_object_end(&b.w);
    pw_json_array_end(&b.w);
    put_lost(s, &b);
    return body_end(&b, ret);
}

/* --- turn.ended --- */

static void put_operations(pw_session *s, writer *b)
{
    /* They are kept newest first and told oldest first. */
    size_t count = 0;
    for (const pw_operation *o = s->d.turn.operations; o; o = o->before) {
        count++;
    }
    const pw_operation **order = PW_NEW_ARRAY(&s->scratch, const pw_operation *, count);
    if (!order) {
        b->out.failed = PW_NOMEM;
        return;
    }
    size_t at = count;
    for (const pw_operation *o = s->d.turn.operations; o; o = o->before) {
        order[--at] = o;
    }
    pw_json_key(&b->w, "operations");
    pw_json_array(&b->w);
    for (size_t i = 0; i < count; i++) {
        pw_json_object(&b->w);
        pw_json_put_str(&b->w, "step", order[i]->step);
        put_text(&b->w, "name", order[i]->name);
        pw_json_put_str(&b->w, "effects", pw_str_from(pw_effects_name(order[i]->effects)));
        pw_json_put_str(&b->w, "outcome", pw_str_from(pw_outcome_name(order[i]->outcome)));
        pw_json_object_end(&b->w);
    }
    pw_json_array_end(&b->w);
}

static pw_status put_code(pw_session *s, writer *b, const pw_ending *ending)
{
    if (!ending->code) {
        return PW_OK;
    }
    pw_buffer code;
    pw_buffer_init_arena(&code, &s->scratch, PW_BODY_MAX);
    (void)pw_buffer_add(&code, pw_str_from(ending->code));
    if (ending->code_detail.len > 0) {
        (void)pw_buffer_byte(&code, ':');
        (void)pw_buffer_add(&code, ending->code_detail);
    }
    PW_TRY(code.failed);
    put_outside(s, b, "code", pw_buffer_str(&code));
    return PW_OK;
}

/* `silent` is there, true, when a completed turn has nothing to say (C6). */
pw_status pw_encode_turn_ended(pw_session *s, const pw_ending *ending, const pw_totals *totals,
                               pw_str *ret)
{
    const pw_turn *turn = &s->d.turn;
    writer b;
    body_begin(s, &b);
    pw_json_put_str(&b.w, "state", pw_str_from(pw_turn_state_name(ending->state)));
    put_text(&b.w, "reason", pw_str_from(ending->reason));
    put_outside(s, &b, "detail", ending->detail);
    put_outside(s, &b, "actor", ending->actor);
    put_outside(s, &b, "text", ending->text);
    put_text(&b.w, "stop", pw_str_from(ending->stop));
    pw_json_put_raw(&b.w, "requests", turn->requests);
    put_text(&b.w, "agent", turn->agent);
    put_text(&b.w, "model", turn->model);
    pw_json_put_i64(&b.w, "attempts", turn->attempts);
    pw_json_put_i64(&b.w, "started_at", turn->opened_at_ms);
    pw_json_key(&b.w, "usage");
    pw_encode_totals(&b.w, totals);
    put_operations(s, &b);
    PW_TRY(put_code(s, &b, ending));
    if (ending->silent) {
        pw_json_put_bool(&b.w, "silent", true);
    }
    return body_end(&b, ret);
}
