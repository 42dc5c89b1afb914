/*
 * pawl_inspect's "request": the next request of a session, exactly as it would be sent. The stored
 * records are folded and the machine is stepped as an owner would, in this call's own memory: what
 * it wants appended is answered as durable and thrown away, what it wants to wait for has passed,
 * and the first request it makes is rendered by its codec and shown. Must never take the session,
 * write, ask or run anything (J3), and knows no key (N3).
 */
#include "base/heap.h"
#include "core/transcript.h"
#include "runtime/endpoint.h"
#include "runtime/loop.h"
#include "runtime/read_inner.h"

enum { STEPS_MOST = 64, REQUEST_MOST = 256 << 20 };

typedef struct rehearsal {
    pw_question *q;
    pw_arena *arena;
    pw_session *session;
    const pw_definition *pinned;
    int64_t now_ms;
    uint64_t ticket; /* of the append to be answered; 0: none */
    pw_str receipt;
    int64_t wake_at_ms;
    const pw_model_request *request;
    pw_buffer *calls; /* names of tools that come first */
    bool rests;
    pw_json_writer *problems;
    size_t problem_count;
} rehearsal;

/* --- Problems */

static void add_problem(rehearsal *r, pw_str what, uint64_t seq, pw_str call, pw_str detail,
                        bool mended)
{
    pw_json_writer *w = r->problems;
    r->problem_count++;
    pw_json_object(w);
    pw_json_put_str(w, "what", what);
    if (seq > 0) {
        pw_json_put_i64(w, "seq", (int64_t)seq);
    } else {
        pw_json_put_str(w, "seq", PW_STR_NONE);
    }
    pw_json_put_str(w, "call", call.len > 0 ? call : PW_STR_NONE);
    pw_json_put_str(w, "detail", detail.len > 0 ? detail : PW_STR_NONE);
    pw_json_put_bool(w, "mended", mended);
    pw_json_object_end(w);
}

/* What the stored transcript lacks, as the machine would record it (C9). */
static pw_status add_repairs(rehearsal *r, const pw_record *record)
{
    const pw_json *body = NULL;
    PW_TRY(pw_json_parse(r->arena, record->body, 0, &body, NULL));
    const pw_json *list = pw_json_get(body, "repairs");
    for (const pw_json *fault = list ? list->child : NULL; fault; fault = fault->next) {
        int64_t seq = pw_json_i64_or(pw_json_get(fault, "seq"), 0);
        add_problem(r, pw_json_text(pw_json_get(fault, "what")), seq > 0 ? (uint64_t)seq : 0,
                    pw_json_text(pw_json_get(fault, "call")), PW_STR_NONE, true);
    }
    return PW_OK;
}

/* --- Loading */

/* The definition that the open turn pins: an agent's of today where it is equal, else the stored
 * one. */
static pw_status find_pinned(rehearsal *r, pw_str hash)
{
    const pawl *p = r->q->p;
    for (size_t i = 0; i < p->agent_count; i++) {
        if (pw_str_equal(hash, pw_str_from(p->agents[i]->definition->hash.text))) {
            r->pinned = p->agents[i]->definition;
            return PW_OK;
        }
    }
    pw_op blob = {.kind = PW_OP_BLOB, .blob = {.hash = hash}};
    PW_TRY(pw_read_op(r->q->p, &blob, r->arena, r->q->error));
    return pw_definition_parse(r->arena, blob.blob.bytes, &r->pinned, r->q->error);
}

static pw_status load(rehearsal *r, pw_inbox *ret_inbox)
{
    const pw_session_row *row = &r->q->row;
    pw_op ops[2] = {{.kind = PW_OP_INBOX,
                     .arena = r->arena,
                     .inbox = {.session_id = row->id, .limit = PW_INBOX_LIMIT}},
                    {.kind = PW_OP_RECORDS,
                     .arena = r->arena,
                     .records = {.session_id = row->id, .from_seq = row->base_seq}}};
    size_t count = row->last_seq > 0 ? 2 : 1;
    pw_store_execute(r->q->p->store, ops, count);
    for (size_t i = 0; i < count; i++) {
        if (ops[i].status != PW_OK) {
            *r->q->error = ops[i].error;
            return ops[i].status;
        }
    }
    pw_session_options options = {.allocator = &pw_heap, .uid = row->uid};
    PW_TRY(pw_session_new(&options, &r->session));
    for (size_t i = 0; count > 1 && i < ops[1].records.count; i++) {
        PW_TRY(pw_session_fold(r->session, &ops[1].records.records[i], r->q->error));
    }
    *ret_inbox = ops[0].inbox.inbox;
    pw_str hash = pw_session_pinned_hash(r->session);
    return hash.len > 0 ? find_pinned(r, hash) : PW_OK;
}

/* A message that nobody has sent yet, behind those that wait. */
static pw_status add_prompt(rehearsal *r, pw_str prompt, pw_inbox *inbox)
{
    pw_str content;
    pw_buffer body;
    pw_json_writer w;
    PW_TRY(pw_content_normalize(prompt, PW_STR_NONE, r->arena, &content, r->q->error));
    pw_buffer_init_arena(&body, r->arena, REQUEST_MOST);
    pw_json_begin(&w, &body);
    pw_json_object(&w);
    pw_json_put_str(&w, "role", PW_STR("user"));
    pw_json_put_str(&w, "source", PW_STR("cli"));
    pw_json_put_str(&w, "user", PW_STR_NONE);
    pw_json_put_raw(&w, "content", content);
    pw_json_object_end(&w);
    PW_TRY(body.failed);
    pw_inbox_row *rows = PW_NEW_ARRAY(r->arena, pw_inbox_row, inbox->count + 1);
    if (!rows) {
        return PW_NOMEM;
    }
    for (size_t i = 0; i < inbox->count; i++) {
        rows[i] = inbox->rows[i];
    }
    rows[inbox->count] = (pw_inbox_row){.n = inbox->looked_n + 1,
                                        .kind = PW_INBOX_MESSAGE,
                                        .request_id = PW_STR("replay-dry-run"),
                                        .body = pw_buffer_str(&body),
                                        .at_ms = r->now_ms,
                                        .disposition = PW_PENDING};
    *inbox = (pw_inbox){.rows = rows, .count = inbox->count + 1, .looked_n = inbox->looked_n + 1};
    return PW_OK;
}

/* --- Stepping */

static pw_status take_append(rehearsal *r, const pw_append *append)
{
    r->ticket = append->ticket;
    r->receipt = PW_STR_NONE;
    for (size_t i = 0; i < append->record_count; i++) {
        if (append->records[i].kind == PW_RECORD_TRANSCRIPT_REPAIRED) {
            PW_TRY(add_repairs(r, &append->records[i]));
        }
    }
    return PW_OK;
}

static void take_call(rehearsal *r, const pw_tool_call *call)
{
    (void)pw_buffer_format(r->calls, "%s%.*s", r->calls->len > 0 ? ", " : "",
                           PW_STR_ARG(call->name));
}

static pw_status take_effects(rehearsal *r, const pw_effects *effects)
{
    for (size_t i = 0; i < effects->count; i++) {
        const pw_effect *effect = &effects->list[i];
        switch (effect->kind) {
        case PW_DO_APPEND:
            PW_TRY(take_append(r, effect->append));
            break;
        case PW_DO_TRANSACT:
            take_call(r, effect->transact.call);
            break;
        case PW_DO_MODEL:
            r->request = effect->model;
            break;
        case PW_DO_TOOL:
            take_call(r, effect->tool);
            break;
        case PW_DO_WAKE:
            r->wake_at_ms = effect->wake_at_ms;
            break;
        case PW_DO_REST:
            r->rests = true;
            break;
        case PW_DO_ABORT:
        case PW_DO_TELL:
            break;
        }
    }
    return PW_OK;
}

static pw_status step(rehearsal *r, const pw_input *input)
{
    pw_effects effects;
    pw_status status = pw_session_step(r->session, input, &effects);
    return status == PW_OK ? take_effects(r, &effects) : status;
}

static pw_status step_at(rehearsal *r, const pw_input *input)
{
    pw_input time = {.kind = PW_IN_TIME, .time = {.now_ms = r->now_ms}};
    pw_entropy(time.time.random, sizeof time.time.random);
    PW_TRY(step(r, &time));
    return input ? step(r, input) : PW_OK;
}

static bool decided(const rehearsal *r)
{
    return r->request || r->calls->len > 0 || r->rests;
}

/* Until it asks the model, or something else has to come first. */
static pw_status step_on(rehearsal *r)
{
    for (int i = 0; i < STEPS_MOST && !decided(r); i++) {
        if (r->ticket > 0) {
            pw_input appended = {.kind = PW_IN_APPENDED, .appended = {.ticket = r->ticket}};
            r->ticket = 0;
            PW_TRY(step_at(r, &appended));
        } else if (r->wake_at_ms > r->now_ms) { /* what it waits for has passed */
            r->now_ms = r->wake_at_ms;
            r->wake_at_ms = -1;
            PW_TRY(step_at(r, NULL));
        } else {
            return PW_OK;
        }
    }
    return PW_OK;
}

static pw_status rehearse(rehearsal *r, pw_str prompt)
{
    pw_inbox inbox = {0};
    PW_TRY(load(r, &inbox));
    if (prompt.len > 0) {
        PW_TRY(add_prompt(r, prompt, &inbox));
    }
    const pw_agent *agent = pw_agent_find(r->q->p, r->q->row.agent);
    pw_input opened = {.kind = PW_IN_OPENED,
                       .opened = {.epoch = r->q->row.epoch + 1,
                                  .cause = r->pinned ? PW_CAUSE_RECOVERY : PW_CAUSE_NEW,
                                  .max_attempts = INT64_MAX,
                                  .pinned = r->pinned,
                                  .today = agent ? agent->definition : r->pinned}};
    PW_TRY(step_at(r, &opened));
    pw_input waiting = {.kind = PW_IN_INBOX, .inbox = inbox};
    if (!decided(r) || r->rests) {
        r->rests = false;
        PW_TRY(step(r, &waiting));
    }
    return step_on(r);
}

/* --- The answer */

static void put_headers(pw_json_writer *w, const pw_http_request *http)
{
    pw_json_key(w, "headers");
    pw_json_object(w);
    for (size_t i = 0; i < http->header_count; i++) { /* rendered without a key: none is in them */
        pw_json_key_str(w, http->headers[i].name);
        pw_json_string(w, http->headers[i].value);
    }
    pw_json_object_end(w);
}

static void put_sizes(pw_json_writer *w, const pw_model_request *request,
                      const pw_http_request *http)
{
    const size_t parts = sizeof http->body / sizeof http->body[0];
    size_t all = 0;
    for (size_t i = 0; i < parts; i++) {
        all += http->body[i].len;
    }
    pw_json_key(w, "sizes");
    pw_json_object(w);
    pw_json_put_i64(w, "messages", (int64_t)request->count);
    pw_json_put_i64(w, "tools", (int64_t)request->definition->tool_count);
    pw_json_put_i64(w, "prefix_bytes", (int64_t)http->body[0].len);
    pw_json_put_i64(w, "conversation_bytes", (int64_t)http->body[1].len);
    pw_json_put_i64(w, "body_bytes", (int64_t)all);
    pw_json_object_end(w);
}

static pw_status put_body(rehearsal *r, const pw_http_request *http, bool wanted)
{
    const size_t parts = sizeof http->body / sizeof http->body[0];
    pw_buffer body;
    pw_buffer_init_arena(&body, r->arena, REQUEST_MOST);
    for (size_t i = 0; i < parts; i++) {
        PW_TRY(pw_buffer_add(&body, http->body[i]));
    }
    if (!pw_json_valid(pw_buffer_str(&body))) {
        add_problem(r, PW_STR("bad_json"), 0, PW_STR_NONE, PW_STR("the request's body is not JSON"),
                    false);
    } else if (wanted) {
        pw_json_put_raw(r->q->w, "body", pw_buffer_str(&body));
    }
    return body.failed;
}

static pw_status render(rehearsal *r, const pw_provider *provider, bool with_body)
{
    const pw_model_request *request = r->request;
    pw_endpoint endpoint = {0};
    pw_http_request http = {0};
    pw_render rendered;
    pw_error error = {0};
    pw_render_init(&rendered, &pw_heap);
    pw_status status = pw_endpoint_place(provider, request->model->options, r->arena, &endpoint);
    if (status == PW_OK) {
        status = provider->request(&endpoint, request, &rendered, r->arena, &http, &error);
    }
    if (status == PW_OK) {
        pw_json_put_str(r->q->w, "method", http.method);
        pw_json_put_str(r->q->w, "url", http.url);
        put_headers(r->q->w, &http);
        put_sizes(r->q->w, request, &http);
        status = put_body(r, &http, with_body);
    } else if (status != PW_NOMEM) {
        pw_str words = PW_STR_NONE;
        status = pw_arena_dup(r->arena, pw_str_from(error.message), &words);
        add_problem(r, PW_STR("not_rendered"), 0, PW_STR_NONE, words, false);
    }
    pw_render_free(&rendered);
    return status;
}

static pw_status answer_request(rehearsal *r, bool with_body)
{
    const pw_model_request *request = r->request;
    pw_json_writer *w = r->q->w;
    bool valid = true;
    pw_transcript_fault fault = {0};
    PW_TRY(pw_transcript_check(request->messages, request->count, r->arena, &valid, &fault));
    if (!valid) {
        add_problem(r, pw_str_from(fault.what), fault.seq, fault.call, PW_STR_NONE, false);
    }
    pw_json_put_str(w, "turn", request->turn);
    pw_json_put_str(w, "step", request->step);
    pw_json_put_str(w, "provider", request->model->provider);
    pw_json_put_str(w, "model", request->model->name);
    const pw_provider *provider = pw_provider_find(request->model->provider);
    if (!provider) {
        add_problem(r, PW_STR("no_provider"), 0, PW_STR_NONE,
                    PW_STR("this program has no such provider"), false);
        return PW_OK;
    }
    if (provider->local) { /* its messages are its request */
        put_sizes(w, request, &(pw_http_request){0});
        return PW_OK;
    }
    return render(r, provider, with_body);
}

static pw_status answer(rehearsal *r, bool with_body)
{
    pw_json_writer *w = r->q->w;
    pw_json_object(w);
    pw_json_put_str(w, "session", r->q->row.name);
    pw_json_put_str(w, "state",
                    r->request          ? PW_STR("ready")
                    : r->calls->len > 0 ? PW_STR("tools")
                                        : PW_STR("idle"));
    pw_json_put_str(w, "calls", r->calls->len > 0 ? pw_buffer_str(r->calls) : PW_STR_NONE);
    if (r->request) {
        PW_TRY(answer_request(r, with_body));
    }
    pw_json_array_end(r->problems);
    PW_TRY(r->problems->out->failed);
    pw_json_put_raw(w, "problems", pw_buffer_str(r->problems->out));
    pw_json_put_bool(w, "ok", r->problem_count == 0);
    pw_json_object_end(w);
    return PW_OK;
}

pw_status pw_answer_request(pw_question *q)
{
    pw_str session = pw_question_parameter(q, "session");
    pw_str body = pw_question_parameter(q, "body");
    if (session.len == 0) {
        return PW_FAIL(q->error, PW_INVALID, "session: is missing");
    }
    if (body.ptr && !pw_str_is(body, "0") && !pw_str_is(body, "1")) {
        return PW_FAIL(q->error, PW_INVALID, "body: is neither 0 nor 1");
    }
    PW_TRY(pw_find_session(q->p, session, q->arena, &q->row, q->error));
    pw_buffer calls, list;
    pw_json_writer problems;
    pw_buffer_init_arena(&calls, q->arena, 65536);
    pw_buffer_init_arena(&list, q->arena, PW_ANSWER_MAX);
    pw_json_begin(&problems, &list);
    pw_json_array(&problems);
    rehearsal r = {.q = q,
                   .arena = q->arena,
                   .now_ms = pw_now_ms(),
                   .wake_at_ms = -1,
                   .calls = &calls,
                   .problems = &problems};
    pw_status status = rehearse(&r, pw_question_parameter(q, "prompt"));
    if (status == PW_CORRUPT && r.problem_count == 0) { /* the journal itself cannot be read */
        pw_str words = PW_STR_NONE;
        status = pw_arena_dup(q->arena, pw_str_from(q->error->message), &words);
        add_problem(&r, PW_STR("corrupt"), 0, PW_STR_NONE, words, false);
    }
    status = status == PW_OK ? answer(&r, !pw_str_is(body, "0")) : status;
    pw_session_free(r.session);
    return status;
}
