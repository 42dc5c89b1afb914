/*
 * Admission from the host's threads: submit, cancel, withdraw. The caller's thread; the write
 * itself is the writer's. Must never answer before the row is durable (A1), and never send anything
 * of a refused message to the store.
 *
 * Admissions are safe to repeat: one that the store refused for the moment or did not answer is
 * sent again until it is told, for at most half a minute (A2).
 */
#include <time.h>

#include "base/id.h"
#include "base/utf8.h"
#include "core/definition.h"
#include "core/view.h"
#include "runtime/admit.h"
#include "runtime/loop.h"
#include "runtime/read_inner.h"
#include "runtime/setup.h"

enum { PATIENCE_MS = 30000, PAUSE_FIRST_MS = 5, PAUSE_MAX_MS = 500, ANSWER_TRIES = 8 };
#define BODY_MAX ((size_t)1 << 20)

/* What an admission is about to say, and what went wrong with it: for the problem document (A2). */
typedef struct admission {
    pawl *p;
    pw_arena arena;
    const pawl_message *message;
    pw_str session, request_id, agent, content, body, source;
    const pw_agent *own; /* the session's agent, when this process has it */
    bool agent_named;
    pw_hash_hex digest;
    const char *field;    /* at fault */
    int64_t bytes, limit; /* too_large */
    pw_error *error;
} admission;

static pw_str str_of(pawl_str s)
{
    return (pw_str){s.ptr, s.len};
}

/* --- What every call from outside asks first --- */

pw_status pw_call_allowed(pawl *p, bool writes, pw_error *error)
{
    if (!p) {
        return PW_FAIL(error, PW_MISUSE, "no handle");
    }
    pw_loop *loop = pw_loop_of(p);
    if (writes && !p->writer) {
        return PW_FAIL(error, PW_MISUSE, "the handle was opened read-only");
    }
    if ((loop && pw_loop_here(loop)) || (p->writer && pw_writer_here(p->writer))) {
        return PW_FAIL(
            error, PW_MISUSE,
            "this would wait for its own thread: not from log, nor a transactional tool");
    }
    return PW_OK;
}

static bool good_id(pw_str id)
{
    return id.len >= 1 && id.len <= 200 && pw_utf8_clean(id) && !pw_utf8_has_control(id);
}

pw_status pw_session_name_check(pw_str name, pw_error *error)
{
    if (!good_id(name)) {
        return PW_FAIL(error, PW_INVALID,
                       "session: a name has 1 to 200 bytes of text without control characters");
    }
    if (pw_str_find(name, PW_STR("#")) != SIZE_MAX) {
        return PW_FAIL(error, PW_INVALID, "session: a name has no #");
    }
    return PW_OK;
}

void pw_pause_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&left, NULL);
}

pw_status pw_admit_op(pawl *p, pw_op *op, pw_error *error)
{
    int64_t until_ms = pw_monotonic_ms() + PATIENCE_MS;
    int64_t wait_ms = PAUSE_FIRST_MS;
    for (;;) {
        pw_op sent = *op;
        pw_writer_do(p->writer, &sent, 1);
        bool told = sent.status != PW_UNKNOWN && !pw_status_may_retry(sent.status);
        if (told || pw_monotonic_ms() + wait_ms >= until_ms) {
            *op = sent;
            break;
        }
        pw_pause_ms(wait_ms);
        wait_ms = wait_ms * 2 < PAUSE_MAX_MS ? wait_ms * 2 : PAUSE_MAX_MS;
    }
    if (op->status == PW_OK || op->status == PW_NOMEM) {
        return op->status == PW_OK ? PW_OK : PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (op->status == PW_UNKNOWN || pw_status_may_retry(op->status)) {
        return PW_FAIL(error, PW_UNAVAILABLE, "the store did not take it for %d s: %s: %s",
                       PATIENCE_MS / 1000, pw_status_code(op->status), op->error.message);
    }
    return PW_FAIL(error, op->status, "%s", op->error.message);
}

/* --- Checking a message --- */

static pw_status fault(admission *a, const char *field, pw_status status, const char *what)
{
    a->field = field;
    return PW_FAIL(a->error, status, "%s: %s", field, what);
}

static pw_status too_large(admission *a, const char *field, size_t bytes, int64_t limit)
{
    a->field = field;
    a->bytes = (int64_t)bytes;
    a->limit = limit;
    return PW_FAIL(a->error, PW_TOO_LARGE, "%s: %lld bytes, the limit is %lld", field,
                   (long long)bytes, (long long)limit);
}

static pw_status check_request_id(admission *a)
{
    if (a->request_id.len == 0) {
        uint8_t random[10];
        pw_entropy(random, sizeof random);
        pw_uuid id = pw_uuid_v7(pw_now_ms(), random);
        return pw_arena_dup(&a->arena, pw_str_from(id.text), &a->request_id);
    }
    if (!good_id(a->request_id)) {
        a->request_id = PW_STR_NONE; /* it may not even be text */
        return fault(a, "request_id", PW_INVALID,
                     "1 to 200 bytes of text without control characters");
    }
    static const char *const reserved[] = {"schedule:", "continue:", "child:"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (pw_str_begins(a->request_id, pw_str_from(reserved[i]))) {
            return fault(a, "request_id", PW_INVALID,
                         "an id may not begin with schedule:, continue: or child:");
        }
    }
    return PW_OK;
}

static pw_status check_source(admission *a)
{
    a->source = str_of(a->message->source);
    if (a->source.len == 0) {
        a->source = PW_STR("cli");
    }
    bool good = a->source.len <= 32;
    for (size_t i = 0; i < a->source.len && good; i++) {
        char c = a->source.ptr[i];
        good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    }
    if (!good) {
        return fault(a, "source", PW_INVALID, "1 to 32 of a-z, 0-9, _ and -");
    }
    if (pw_str_is(a->source, "schedule") || pw_str_is(a->source, "trigger") ||
        pw_str_is(a->source, "child")) {
        return fault(a, "source", PW_INVALID, "schedule, trigger and child are the engine's own");
    }
    return PW_OK;
}

static pw_status check_object(admission *a, const char *field, pw_str json, const pw_json **ret)
{
    *ret = NULL;
    if (json.len == 0) {
        return PW_OK;
    }
    if (json.len > BODY_MAX) {
        return too_large(a, field, json.len, (int64_t)BODY_MAX);
    }
    pw_error error = {0};
    pw_status status = pw_json_parse(&a->arena, json, PW_JSON_MEND_UTF8, ret, &error);
    if (status == PW_NOMEM) {
        return status;
    }
    if (status != PW_OK || !pw_json_is(*ret, PW_JSON_OBJECT)) {
        a->field = field;
        return PW_FAIL(a->error, PW_INVALID, "%s: a JSON object is expected%s%s", field,
                       status == PW_OK ? "" : ": ", error.message);
    }
    return PW_OK;
}

static pw_status write_clean(pw_json_writer *w, const char *key, const pw_json *value)
{
    pw_buffer clean;
    pw_buffer_init(&clean, w->out->allocator, BODY_MAX * 4);
    pw_status status = pw_json_clean(&clean, value);
    if (status == PW_OK) {
        pw_json_put_raw(w, key, pw_buffer_str(&clean));
    }
    pw_buffer_free(&clean);
    return status;
}

static pw_status write_body(admission *a, const pw_json *budget, const pw_json *metadata)
{
    const pawl_message *m = a->message;
    pw_buffer text;
    pw_buffer_init(&text, a->p->allocator, BODY_MAX * 8);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    pw_json_put_str(&w, "role", PW_STR("user"));
    pw_json_put_str(&w, "source", a->source);
    pw_json_key(&w, "user");
    if (m->user.len > 0) {
        pw_json_object(&w);
        pw_json_put_str(&w, "id", str_of(m->user));
        pw_json_put_bool(&w, "attested", m->attested != 0);
        pw_json_object_end(&w);
    } else {
        pw_json_nothing(&w);
    }
    pw_json_put_raw(&w, "content", a->content);
    pw_status status = budget ? write_clean(&w, "budget", budget) : PW_OK;
    status = status == PW_OK && metadata ? write_clean(&w, "metadata", metadata) : status;
    pw_json_object_end(&w);
    status = status == PW_OK ? text.failed : status;
    status = status == PW_OK ? pw_arena_dup(&a->arena, pw_buffer_str(&text), &a->body) : status;
    pw_buffer_free(&text);
    return status;
}

/* Everything that can be said against it without the store. */
static pw_status check_message(admission *a)
{
    const pawl_message *m = a->message;
    PW_TRY(check_request_id(a));
    PW_TRY(check_source(a));
    if (m->user.len > 0 && !good_id(str_of(m->user))) {
        return fault(a, "user", PW_INVALID, "1 to 200 bytes of text without control characters");
    }
    if (m->mode != PAWL_QUEUE && m->mode != PAWL_REJECT) {
        return fault(a, "mode", PW_INVALID, "PAWL_QUEUE or PAWL_REJECT");
    }
    if (m->flags != 0) {
        return fault(a, "flags", PW_INVALID, "none is known: 0");
    }
    if (m->text.len + m->content_json.len > BODY_MAX) {
        return too_large(a, "content", m->text.len + m->content_json.len, (int64_t)BODY_MAX);
    }
    if (m->text.len > 0 && m->content_json.len > 0) {
        return fault(a, "content", PW_INVALID, "either text or content, not both");
    }
    a->field = "content";
    PW_TRY(pw_content_normalize(str_of(m->text), str_of(m->content_json), &a->arena, &a->content,
                                a->error));
    PW_TRY(pw_content_digest(PW_STR("user"), a->content, &a->arena, &a->digest));
    const pw_json *budget = NULL, *metadata = NULL;
    PW_TRY(check_object(a, "budget", str_of(m->budget_json), &budget));
    PW_TRY(check_object(a, "metadata", str_of(m->metadata_json), &metadata));
    a->field = "budget";
    pw_budget bounds = PW_BUDGET_DEFAULT;
    PW_TRY(budget ? pw_budget_apply(&bounds, budget, a->error) : PW_OK);
    a->field = NULL;
    PW_TRY(write_body(a, budget, metadata));
    int64_t limit = a->p->traits.value_limit;
    if (a->body.len > BODY_MAX || (limit >= 0 && (int64_t)a->body.len > limit)) {
        return too_large(a, "content", a->body.len,
                         limit >= 0 && limit < (int64_t)BODY_MAX ? limit : (int64_t)BODY_MAX);
    }
    return PW_OK;
}

/* Whose session it is: the row's agent, else the one named, else the default. */
static pw_status find_agent(admission *a)
{
    pw_str named = str_of(a->message->agent);
    a->agent_named = named.len > 0;
    if (a->agent_named && !good_id(named)) {
        return fault(a, "agent", PW_INVALID, "1 to 200 bytes of text without control characters");
    }
    pw_session_row row = {0};
    pw_error ignored = {0};
    pw_status status = pw_find_session(a->p, a->session, &a->arena, &row, &ignored);
    if (status == PW_OK && !a->agent_named) {
        a->agent = row.agent;
        a->own = pw_agent_find(a->p, row.agent);
        return PW_OK;
    }
    if (a->agent_named) {
        a->agent = named;
        a->own = pw_agent_find(a->p, named);
        bool unknown = !a->own && a->p->agent_count > 0 && status == PW_NOT_FOUND;
        return unknown ? fault(a, "agent", PW_INVALID, "there is no agent of that name here")
                       : PW_OK;
    }
    a->own = pw_agent_default(a->p);
    if (!a->own) {
        return fault(a, "agent", PW_INVALID,
                     "a new session needs one, and this process has none: name it");
    }
    a->agent = a->own->name;
    return PW_OK;
}

/* --- Answers --- */

static int http_status_of(pw_status status)
{
    switch ((int)status) {
    case PW_CONFLICT:
        return 422;
    case PW_TOO_LARGE:
        return 413;
    case PW_BUSY:
    case PW_CLOSED:
        return 409;
    case PW_INVALID:
        return 400;
    case PW_NOT_FOUND:
        return 404;
    case PW_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

/* A problem that names the request, a made one too (A2). Without memory for it there is only the
 * error. */
static void answer_problem(admission *a, pw_status status, pawl_doc **ret)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, &a->arena, 65536);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    pw_json_put_str(&w, "type", PW_STR("about:blank"));
    pw_json_put_str(&w, "title", pw_str_from(pw_status_meaning(status)));
    pw_json_put_i64(&w, "status", http_status_of(status));
    pw_json_put_str(&w, "code", pw_str_from(pw_status_code(status)));
    pw_json_put_str(&w, "detail", pw_str_from(a->error->message));
    pw_json_put_str(&w, "field", pw_str_from(a->field));
    pw_json_put_str(&w, "request_id", a->request_id.len > 0 ? a->request_id : PW_STR_NONE);
    if (status == PW_TOO_LARGE) {
        pw_json_put_i64(&w, "bytes", a->bytes);
        pw_json_put_i64(&w, "limit", a->limit);
    }
    pw_json_object_end(&w);
    if (text.failed == PW_OK) {
        (void)pw_doc_new(pw_buffer_str(&text), ret, NULL);
    }
}

static pw_status write_admitted(admission *a, const pw_op *op, pawl_doc **ret)
{
    bool existing = op->admit.answer == PW_ADMIT_EXISTING;
    pw_session_row row = {.id = op->admit.session_id, .name = a->session};
    if (existing) {
        PW_TRY(pw_find_session(a->p, a->session, &a->arena, &row, a->error));
    }
    pw_buffer text;
    pw_buffer_init(&text, a->p->allocator, PW_ANSWER_MAX);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    const pw_submitted what = {&row, &op->admit.row, existing ? "existing" : "accepted",
                               .summed = false};
    pw_status status = pw_write_submitted(a->p, &what, &a->arena, &w, a->error);
    status = status == PW_OK ? text.failed : status;
    if (status == PW_OK) {
        status = (pw_status)pw_doc_new(pw_buffer_str(&text), ret, (pawl_error *)a->error);
    }
    pw_buffer_free(&text);
    return status;
}

/* It is admitted by now: what cannot be read for its answer at once is read a little later. */
static pw_status answer_admitted(admission *a, const pw_op *op, pawl_doc **ret)
{
    pw_status status = write_admitted(a, op, ret);
    for (int i = 0; i < ANSWER_TRIES && status != PW_NOMEM && pw_status_may_retry(status); i++) {
        pw_pause_ms(PAUSE_FIRST_MS << i);
        status = write_admitted(a, op, ret);
    }
    return status;
}

static void tell_admitted(pawl *p, int64_t session_id, const pw_agent *own, int64_t due_at_ms)
{
    pw_hub_admitted(p->hub, session_id);
    pw_loop *loop = pw_loop_of(p);
    if (loop) {
        pw_loop_hint(loop, session_id, own, due_at_ms);
    }
}

static pw_status admit(admission *a, pawl_doc **ret)
{
    PW_TRY(check_message(a));
    PW_TRY(find_agent(a));
    uint8_t random[16];
    pw_entropy(random, sizeof random);
    pw_uuid uid = pw_uuid_v4(random);
    int64_t now_ms = pw_now_ms();
    pw_op op = {.kind = PW_OP_ADMIT,
                .arena = &a->arena,
                .admit = {.principal = a->p->principal,
                          .session = a->session,
                          .uid = pw_str_from(uid.text),
                          .agent = a->agent,
                          .request_id = a->request_id,
                          .digest = pw_str_from(a->digest.text),
                          .body = a->body,
                          .reject_when_busy = a->message->mode == PAWL_REJECT,
                          .agent_named = a->agent_named,
                          .now_ms = now_ms,
                          .due_at_ms = now_ms + (a->own ? a->own->definition->debounce_ms : 0)}};
    PW_TRY(pw_admit_op(a->p, &op, a->error));
    switch (op.admit.answer) {
    case PW_ADMITTED:
        tell_admitted(a->p, op.admit.session_id, a->own, op.admit.due_at_ms);
        return answer_admitted(a, &op, ret);
    case PW_ADMIT_EXISTING:
        return answer_admitted(a, &op, ret);
    case PW_ADMIT_CONFLICT:
        return fault(a, "request_id", PW_CONFLICT,
                     "it was used before in this session with other content");
    case PW_ADMIT_OTHER_AGENT:
        return fault(a, "agent", PW_CONFLICT, "the session belongs to another agent");
    case PW_ADMIT_BUSY:
        return fault(a, "mode", PW_BUSY, "the session has an open turn or a waiting message");
    }
    return PW_FAIL(a->error, PW_INTERNAL, "the store gave no answer");
}

int32_t pawl_submit(pawl *p, pawl_str session, const pawl_message *message, pawl_doc **ret,
                    pawl_error *error)
{
    pw_error local = {0};
    pw_error *e = error ? (pw_error *)error : &local;
    PW_TRY(pw_call_allowed(p, true, e));
    if (!message || message->size < sizeof(size_t) || message->size > 4096 || !ret) {
        return PW_FAIL(e, PW_MISUSE,
                       "message.size: set it to sizeof(pawl_message); and a place for the answer");
    }
    pawl_message mine = {0};
    memcpy(&mine, message, message->size < sizeof mine ? message->size : sizeof mine);
    admission a = {.p = p,
                   .message = &mine,
                   .session = str_of(session),
                   .request_id = str_of(mine.request_id),
                   .error = e};
    pw_arena_init(&a.arena, p->allocator, 4096, 0);
    a.field = "session";
    pw_status status = pw_session_name_check(a.session, e);
    if (status == PW_OK) {
        a.field = NULL;
        status = admit(&a, ret);
    }
    if (status == PW_NOMEM) {
        (void)PW_FAIL(e, PW_NOMEM, "out of memory");
    } else if (status != PW_OK) {
        answer_problem(&a, status, ret);
    }
    pw_arena_free(&a.arena);
    return status;
}

/* --- Cancelling and withdrawing --- */

static pw_status cancel(pawl *p, pw_str session, pw_str turn, pw_arena *arena, pw_error *error)
{
    pw_op op = {.kind = PW_OP_CANCEL,
                .arena = arena,
                .cancel = {.principal = p->principal,
                           .session = session,
                           .turn = turn,
                           .body = PW_STR("{\"reason\":\"user\"}"),
                           .now_ms = pw_now_ms()}};
    PW_TRY(pw_admit_op(p, &op, error));
    switch (op.cancel.answer) {
    case PW_CANCEL_ADMITTED:
        tell_admitted(p, op.cancel.session_id, NULL, 0);
        return PW_OK;
    case PW_CANCEL_TWICE:
        return PW_OK;
    case PW_CANCEL_ENDED:
        if (op.cancel.turn_state == PW_TURN_CANCELLED) {
            return PW_OK;
        }
        return PW_FAIL(error, PW_CLOSED, "the turn has ended already: %s",
                       pw_turn_state_name(op.cancel.turn_state));
    case PW_CANCEL_NONE:
        break;
    }
    return PW_FAIL(error, PW_NOT_FOUND, "there is no such turn in this session");
}

int32_t pawl_cancel(pawl *p, pawl_str session, pawl_str turn, pawl_error *error)
{
    pw_error local = {0};
    pw_error *e = error ? (pw_error *)error : &local;
    PW_TRY(pw_call_allowed(p, true, e));
    PW_TRY(pw_session_name_check(str_of(session), e));
    if (!good_id(str_of(turn))) {
        return PW_FAIL(e, PW_NOT_FOUND, "there is no such turn in this session");
    }
    pw_arena arena;
    pw_arena_init(&arena, p->allocator, 0, 0);
    pw_status status = cancel(p, str_of(session), str_of(turn), &arena, e);
    pw_arena_free(&arena);
    return status;
}

static pw_status withdraw(pawl *p, pw_str session, pw_str request_id, pw_arena *arena,
                          pawl_doc **ret, pw_error *error)
{
    pw_op op = {.kind = PW_OP_WITHDRAW,
                .arena = arena,
                .withdraw = {.principal = p->principal,
                             .session = session,
                             .request_id = request_id,
                             .now_ms = pw_now_ms()}};
    PW_TRY(pw_admit_op(p, &op, error));
    pw_session_row row = {0};
    switch (op.withdraw.answer) {
    case PW_WITHDREW:
        if (pw_find_session(p, session, arena, &row, NULL) == PW_OK) {
            tell_admitted(p, row.id, pw_agent_find(p, row.agent), 0); /* the queue is another now */
            pw_waiters_tell(&p->waiters, row.id);
        }
        return (pw_status)pw_doc_new(PW_STR("{\"withdrawn\":true}"), ret, (pawl_error *)error);
    case PW_WITHDRAW_TWICE:
        return (pw_status)pw_doc_new(PW_STR("{\"withdrawn\":true}"), ret, (pawl_error *)error);
    case PW_WITHDRAW_CLAIMED:
        break;
    case PW_WITHDRAW_NONE:
        return PW_FAIL(error, PW_NOT_FOUND, "there is no such message in this session");
    }
    if (op.withdraw.ended) {
        return PW_FAIL(error, PW_CLOSED, "the message's turn has ended already");
    }
    PW_TRY(cancel(p, session, op.withdraw.turn, arena, error));
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, 4096);
    pw_json_writer w;
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    pw_json_put_bool(&w, "withdrawn", false);
    pw_json_put_str(&w, "turn", op.withdraw.turn);
    pw_json_object_end(&w);
    PW_TRY(text.failed);
    return (pw_status)pw_doc_new(pw_buffer_str(&text), ret, (pawl_error *)error);
}

int32_t pawl_withdraw(pawl *p, pawl_str session, pawl_str request_id, pawl_doc **ret,
                      pawl_error *error)
{
    pw_error local = {0};
    pw_error *e = error ? (pw_error *)error : &local;
    PW_TRY(pw_call_allowed(p, true, e));
    if (!ret) {
        return PW_FAIL(e, PW_MISUSE, "nowhere to put the answer");
    }
    PW_TRY(pw_session_name_check(str_of(session), e));
    if (!good_id(str_of(request_id))) {
        return PW_FAIL(e, PW_NOT_FOUND, "there is no such message in this session");
    }
    pw_arena arena;
    pw_arena_init(&arena, p->allocator, 0, 0);
    pw_status status = withdraw(p, str_of(session), str_of(request_id), &arena, ret, e);
    pw_arena_free(&arena);
    return status;
}
