/*
 * The Turn of HTTP.md, made from a turn's records, and what all shapes share.
 *
 * A turn that ended is told from its turn.ended alone, so that its shape never changes again; an
 * open one from what is durable so far and the session row's word. Nothing here guesses: what no
 * record says is null.
 */
#include "core/view_inner.h"

#include "base/format.h"

pw_status pw_view_body(const pw_record *record, pw_arena *arena, const pw_json **ret,
                       pw_error *error)
{
    const pw_json *body;
    pw_status status = pw_json_parse(arena, record->body, 0, &body, NULL);
    if (status == PW_NOMEM) {
        return status;
    }
    if (status != PW_OK || !pw_json_is(body, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_CORRUPT, "record %llu (%s) does not hold a JSON object",
                       (unsigned long long)record->seq, pw_record_kind_name(record->kind));
    }
    int64_t version = pw_json_i64_or(pw_json_get(body, "v"), 0);
    if (version != 1) {
        return PW_FAIL(error, version > 1 ? PW_NEWER_SCHEMA : PW_CORRUPT,
                       "record %llu (%s) is of version %lld; this program reads version 1",
                       (unsigned long long)record->seq, pw_record_kind_name(record->kind),
                       (long long)version);
    }
    *ret = body;
    return PW_OK;
}

static void raw_or_null(pw_json_writer *w, const char *key, pw_str json)
{
    pw_json_key(w, key);
    if (json.len > 0) {
        pw_json_raw(w, json);
    } else {
        pw_json_nothing(w);
    }
}

void pw_view_put(pw_json_writer *w, const char *key, const pw_json *value, pw_arena *scratch)
{
    bool plain = !value || value->type == PW_JSON_NULL || value->type == PW_JSON_BOOL ||
                 value->type == PW_JSON_NUMBER;
    if (plain) {
        raw_or_null(w, key, value ? value->raw : PW_STR_NONE);
        return;
    }
    pw_buffer clean;
    pw_buffer_init_arena(&clean, scratch, PW_VIEW_MAXIMUM);
    if (pw_json_clean(&clean, value) != PW_OK) {
        w->out->failed = w->out->failed != PW_OK ? w->out->failed : clean.failed;
        return;
    }
    raw_or_null(w, key, pw_buffer_str(&clean));
}

void pw_view_put_time(pw_json_writer *w, const char *key, const pw_json *ms)
{
    int64_t at;
    pw_json_put_time(w, key, pw_json_i64(ms, &at) ? at : -1);
}

void pw_view_put_cost(pw_json_writer *w, const char *key, int64_t micros)
{
    if (micros < 0) {
        pw_json_put_str(w, key, PW_STR_NONE);
        return;
    }
    char text[PW_MONEY_SIZE];
    const size_t len = pw_format_money(text, micros);
    pw_json_put_str(w, key, (pw_str){text, len});
}

static int64_t at_least_0(const pw_json *usage, const char *key)
{
    int64_t value = pw_json_i64_or(pw_json_get(usage, key), 0);
    return value > 0 ? value : 0;
}

/* The record keeps what the provider said in its parts (pw_usage's names); older and foreign ones
 * may hold the sums. */
pw_view_usage pw_view_call_usage(const pw_json *usage)
{
    pw_view_usage u = {.cost_micros = -1};
    if (!pw_json_is(usage, PW_JSON_OBJECT)) {
        return u;
    }
    int64_t read = at_least_0(usage, "in_cache_read");
    u.input = at_least_0(usage, "in_uncached") + read + at_least_0(usage, "in_cache_write") +
              at_least_0(usage, "input_tokens");
    u.output = at_least_0(usage, "out") + at_least_0(usage, "output_tokens");
    u.cached = read + at_least_0(usage, "cached_tokens");
    u.reasoning = at_least_0(usage, "reasoning") + at_least_0(usage, "reasoning_tokens");
    u.cost_micros = pw_json_i64_or(pw_json_get(usage, "cost_micros"), -1);
    static const char *const figures[] = {"in_uncached", "in_cache_read", "in_cache_write", "out",
                                          "cost_micros"};
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        u.known = u.known || pw_json_i64_or(pw_json_get(usage, figures[i]), -1) >= 0;
    }
    return u;
}

void pw_view_put_call_usage(pw_json_writer *w, const char *key, const pw_json *usage)
{
    pw_view_usage u = pw_view_call_usage(usage);
    pw_json_key(w, key);
    pw_json_object(w);
    pw_json_put_i64(w, "input_tokens", u.input);
    pw_json_put_i64(w, "output_tokens", u.output);
    pw_json_put_i64(w, "cached_tokens", u.cached);
    pw_json_put_i64(w, "reasoning_tokens", u.reasoning);
    pw_view_put_cost(w, "cost_usd", u.cost_micros);
    pw_json_object_end(w);
}

/* --- A turn --- */

/* X(member of the Turn's usage, also the name in the journal): all but the cost, in the order of
 * the shape. */
#define TURN_COUNTERS(X)                                                                           \
    X(unpriced_calls)                                                                              \
    X(lost_calls)                                                                                  \
    X(iterations)                                                                                  \
    X(tool_calls)                                                                                  \
    X(retries)                                                                                     \
    X(fallbacks)                                                                                   \
    X(protocol_failures)

typedef struct turn_usage {
    int64_t input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_micros;
#define COUNTER(name) int64_t name;
    TURN_COUNTERS(COUNTER)
#undef COUNTER
} turn_usage;

/* What a Turn says; JSON snippets, empty: null. */
typedef struct turn_facts {
    pw_str session, turn, state, reason, detail, actor, text, stop, requests, agent, model,
        operations, continues;
    int64_t attempts, since_ms, started_ms, ended_ms, last_ms;
    bool unsummed; /* an open turn's records were not all read */
    turn_usage usage;
} turn_facts;

static void usage_read(turn_usage *u, const pw_json *usage)
{
    u->input_tokens = at_least_0(usage, "input_tokens");
    u->output_tokens = at_least_0(usage, "output_tokens");
    u->cached_tokens = at_least_0(usage, "cached_tokens");
    u->reasoning_tokens = at_least_0(usage, "reasoning_tokens");
    u->cost_micros = at_least_0(usage, "cost_micros");
#define READ(name) u->name = at_least_0(usage, #name);
    TURN_COUNTERS(READ)
#undef READ
}

static void usage_members(pw_json_writer *w, const turn_usage *u)
{
    pw_json_put_i64(w, "input_tokens", u->input_tokens);
    pw_json_put_i64(w, "output_tokens", u->output_tokens);
    pw_json_put_i64(w, "cached_tokens", u->cached_tokens);
    pw_json_put_i64(w, "reasoning_tokens", u->reasoning_tokens);
    bool nothing_priced = u->cost_micros <= 0 && u->unpriced_calls > 0;
    pw_view_put_cost(w, "cost_usd", nothing_priced ? -1 : u->cost_micros);
#define WRITE(name) pw_json_put_i64(w, #name, u->name);
    TURN_COUNTERS(WRITE)
#undef WRITE
}

static void usage_write(pw_json_writer *w, const turn_facts *f)
{
    pw_json_key(w, "usage");
    if (f->unsummed) {
        pw_json_nothing(w);
        return;
    }
    pw_json_object(w);
    usage_members(w, &f->usage);
    int64_t until = f->ended_ms >= 0 ? f->ended_ms : f->last_ms;
    int64_t duration = until - f->started_ms;
    pw_json_put_i64(w, "duration_ms", f->started_ms >= 0 && duration > 0 ? duration : 0);
    pw_json_object_end(w);
}

static void facts_write(pw_json_writer *w, const turn_facts *f, int64_t event_at_ms)
{
    pw_json_put_str(w, "id", f->turn);
    pw_json_put_str(w, "session", f->session);
    if (event_at_ms >= 0) {
        pw_json_put_str(w, "turn", f->turn);
        pw_json_put_time(w, "at", event_at_ms);
    }
    pw_json_put_str(w, "state", f->state);
    raw_or_null(w, "reason", f->reason);
    raw_or_null(w, "detail", f->detail);
    raw_or_null(w, "actor", f->actor);
    pw_json_put_time(w, "since", f->since_ms);
    raw_or_null(w, "text", f->text);
    raw_or_null(w, "stop", f->stop);
    pw_json_put_raw(w, "requests", f->requests.len > 0 ? f->requests : PW_STR("[]"));
    raw_or_null(w, "continues", f->continues);
    raw_or_null(w, "agent", f->agent);
    raw_or_null(w, "model", f->model);
    if (f->unsummed) {
        raw_or_null(w, "attempts", PW_STR_NONE);
    } else {
        pw_json_put_i64(w, "attempts", f->attempts);
    }
    pw_json_put_time(w, "started_at", f->started_ms);
    pw_json_put_time(w, "ended_at", f->ended_ms);
    pw_json_put_raw(w, "inputs", PW_STR("[]"));
    pw_json_put_raw(w, "operations",
                    f->unsummed             ? PW_STR("null")
                    : f->operations.len > 0 ? f->operations
                                            : PW_STR("[]"));
    usage_write(w, f);
}

static pw_status quoted(pw_arena *arena, pw_str text, pw_str *ret)
{
    if (text.len == 0) {
        *ret = PW_STR_NONE;
        return PW_OK;
    }
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, arena, PW_VIEW_MAXIMUM);
    pw_json_begin(&w, &out);
    pw_json_string(&w, text);
    *ret = pw_buffer_str(&out);
    return out.failed;
}

static pw_str raw_of(const pw_json *object, const char *key)
{
    const pw_json *value = pw_json_get(object, key);
    return value ? value->raw : PW_STR_NONE;
}

/* G4: the turn that continues another has the request `continue:<turn id>`. */
static pw_status continues_of(pw_str request_id, pw_arena *arena, pw_str *ret)
{
    pw_str prefix = PW_STR("continue:");
    if (!pw_str_begins(request_id, prefix)) {
        return PW_OK;
    }
    return quoted(arena, pw_str_slice(request_id, prefix.len, request_id.len), ret);
}

static pw_status ended_facts(const pw_record *ended, pw_arena *arena, turn_facts *f,
                             pw_error *error)
{
    const pw_json *body;
    PW_TRY(pw_view_body(ended, arena, &body, error));
    pw_turn_state state;
    f->state = pw_json_text(pw_json_get(body, "state"));
    if (!pw_turn_state_from(f->state, &state) || !pw_turn_state_ended(state)) {
        return PW_FAIL(error, PW_CORRUPT, "record %llu ends a turn in no terminal state",
                       (unsigned long long)ended->seq);
    }
    f->turn = ended->turn;
    f->reason = raw_of(body, "reason");
    f->detail = raw_of(body, "detail");
    f->actor = raw_of(body, "actor");
    f->text = raw_of(body, "text");
    f->stop = raw_of(body, "stop");
    f->requests = raw_of(body, "requests");
    f->agent = raw_of(body, "agent");
    f->model = raw_of(body, "model");
    f->operations = raw_of(body, "operations");
    f->attempts = pw_json_i64_or(pw_json_get(body, "attempts"), 1);
    f->started_ms = pw_json_i64_or(pw_json_get(body, "started_at"), -1);
    f->ended_ms = ended->at_ms;
    f->since_ms = ended->at_ms;
    usage_read(&f->usage, pw_json_get(body, "usage"));
    pw_str first = pw_json_text(pw_json_at(pw_json_get(body, "requests"), 0));
    return continues_of(first, arena, &f->continues);
}

pw_status pw_view_ended_members(const pw_record *ended, pw_str session, bool event, pw_arena *arena,
                                pw_json_writer *w, pw_error *error)
{
    turn_facts f = {.session = session};
    PW_TRY(ended_facts(ended, arena, &f, error));
    facts_write(w, &f, event ? ended->at_ms : -1);
    return PW_OK;
}

/* --- An open turn: the sum of its records so far --- */

static pw_status opened_facts(const pw_json *body, pw_arena *arena, turn_facts *f)
{
    f->agent = raw_of(body, "agent");
    f->attempts = 1;
    pw_buffer ids;
    pw_json_writer w;
    pw_buffer_init_arena(&ids, arena, PW_VIEW_MAXIMUM);
    pw_json_begin(&w, &ids);
    pw_json_array(&w);
    const pw_json *requests = pw_json_get(body, "requests");
    for (const pw_json *r = requests ? requests->child : NULL; r; r = r->next) {
        pw_json_string(&w, pw_json_text(pw_json_get(r, "id")));
    }
    pw_json_array_end(&w);
    f->requests = pw_buffer_str(&ids);
    PW_TRY(ids.failed);
    pw_str first = pw_json_text(pw_json_get(pw_json_at(requests, 0), "id"));
    return continues_of(first, arena, &f->continues);
}

/* `whole`: a reply that came, which costs even where it does not say. As the fold counts
 * (budget.c). */
static void add_call_usage(turn_usage *u, const pw_json *usage, bool whole)
{
    pw_view_usage call = pw_view_call_usage(usage);
    u->input_tokens += call.input;
    u->output_tokens += call.output;
    u->cached_tokens += call.cached;
    u->reasoning_tokens += call.reasoning;
    if (call.cost_micros >= 0) {
        u->cost_micros += call.cost_micros;
    } else if (whole || call.known) {
        u->unpriced_calls++;
    }
}

static void add_discarded(turn_usage *u, const pw_json *body)
{
    bool empty = pw_str_is(pw_json_text(pw_json_get(body, "code")), "empty_reply");
    u->iterations += empty ? 1 : 0;
    if (pw_json_is(pw_json_get(body, "usage"), PW_JSON_OBJECT)) {
        add_call_usage(u, pw_json_get(body, "usage"), empty || at_least_0(body, "shown") > 0);
    }
}

static bool was_run(pw_str outcome)
{
    return pw_str_is(outcome, "done") || pw_str_is(outcome, "error") ||
           pw_str_is(outcome, "unknown");
}

static pw_status add_operation(const pw_record *record, const pw_json *body, pw_json_writer *list,
                               pw_arena *arena)
{
    pw_json_object(list);
    pw_json_put_str(list, "step", record->step);
    pw_view_put(list, "name", pw_json_get(body, "name"), arena);
    pw_view_put(list, "effects", pw_json_get(body, "effects"), arena);
    pw_view_put(list, "outcome", pw_json_get(body, "outcome"), arena);
    pw_json_object_end(list);
    return list->out->failed;
}

/* An operation is a call with effects whose effect may be in the world (F7). */
static bool is_operation(const pw_json *body)
{
    pw_str outcome = pw_json_text(pw_json_get(body, "outcome"));
    return !pw_str_is(pw_json_text(pw_json_get(body, "effects")), "none") &&
           (pw_str_is(outcome, "done") || pw_str_is(outcome, "unknown"));
}

static pw_status add_record(const pw_record *record, turn_facts *f, pw_json_writer *operations,
                            pw_arena *arena, pw_error *error)
{
    const pw_json *body;
    PW_TRY(pw_view_body(record, arena, &body, error));
    pw_str outcome;
    switch (record->kind) {
    case PW_RECORD_TURN_OPENED:
        PW_TRY(opened_facts(body, arena, f));
        break;
    case PW_RECORD_ATTEMPT_STARTED:
        f->attempts = pw_json_i64_or(pw_json_get(body, "attempt"), f->attempts + 1);
        f->usage.lost_calls += at_least_0(body, "lost");
        f->since_ms = record->at_ms;
        break;
    case PW_RECORD_MODEL_COMPLETED:
        f->model = raw_of(body, "model");
        f->usage.iterations++;
        add_call_usage(&f->usage, pw_json_get(body, "usage"), true);
        break;
    case PW_RECORD_MODEL_DISCARDED:
        add_discarded(&f->usage, body);
        break;
    case PW_RECORD_MODEL_RETRYING:
        f->usage.retries++;
        f->usage.lost_calls += at_least_0(body, "lost");
        add_call_usage(&f->usage, pw_json_get(body, "usage"), false);
        break;
    case PW_RECORD_MODEL_FALLBACK:
        f->usage.fallbacks++;
        f->usage.lost_calls += at_least_0(body, "lost");
        f->model = raw_of(pw_json_get(body, "to"), "model");
        add_call_usage(&f->usage, pw_json_get(body, "usage"), false);
        break;
    case PW_RECORD_WAIT_SET:
        f->usage.retries++;
        f->usage.lost_calls += at_least_0(body, "lost");
        f->since_ms = record->at_ms;
        break;
    case PW_RECORD_TOOL_COMPLETED:
        outcome = pw_json_text(pw_json_get(body, "outcome"));
        f->usage.tool_calls += was_run(outcome) ? 1 : 0;
        f->usage.protocol_failures += pw_str_is(outcome, "malformed") ? 1 : 0;
        if (is_operation(body)) {
            PW_TRY(add_operation(record, body, operations, arena));
        }
        break;
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        f->usage.lost_calls += at_least_0(body, "lost");
        break;
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TOOL_LATE:
    case PW_RECORD_TURN_ENDED:
        break;
    }
    return PW_OK;
}

static pw_status open_facts(const pw_view_turn *turn, pw_arena *arena, turn_facts *f,
                            pw_error *error)
{
    pw_buffer operations;
    pw_json_writer list;
    pw_buffer_init_arena(&operations, arena, PW_VIEW_MAXIMUM);
    pw_json_begin(&list, &operations);
    pw_json_array(&list);
    f->turn = turn->records[0].turn;
    f->started_ms = turn->records[0].at_ms;
    f->since_ms = f->started_ms;
    f->last_ms = turn->records[turn->count - 1].at_ms;
    f->ended_ms = -1;
    for (size_t i = 0; i < turn->count; i++) {
        PW_TRY(add_record(&turn->records[i], f, &list, arena, error));
    }
    pw_json_array_end(&list);
    f->operations = pw_buffer_str(&operations);
    PW_TRY(operations.failed);
    f->unsummed = turn->first_only;
    f->state = pw_str_from(pw_turn_state_name(turn->row_state));
    if (turn->row_since_ms > 0) {
        f->since_ms = turn->row_since_ms;
    }
    return quoted(arena, turn->row_reason, &f->reason);
}

static pw_status turn_facts_of(const pw_view_turn *turn, pw_arena *scratch, turn_facts *f,
                               pw_error *error)
{
    if (turn->count == 0 || turn->records[0].kind != PW_RECORD_TURN_OPENED) {
        return PW_FAIL(error, PW_CORRUPT, "a turn's records do not begin with turn.opened");
    }
    f->session = turn->session;
    const pw_record *ended = NULL;
    for (size_t i = turn->count; i > 0 && !ended;
         i--) { /* late evidence may stand behind it (D8) */
        ended = turn->records[i - 1].kind == PW_RECORD_TURN_ENDED ? &turn->records[i - 1] : NULL;
    }
    PW_TRY(ended ? ended_facts(ended, scratch, f, error) : open_facts(turn, scratch, f, error));
    if (ended && f->started_ms < 0) {
        f->started_ms = turn->records[0].at_ms;
    }
    return PW_OK;
}

pw_status pw_view_turn_json(const pw_view_turn *turn, pw_arena *scratch, pw_buffer *ret,
                            pw_error *error)
{
    turn_facts f = {0};
    PW_TRY(turn_facts_of(turn, scratch, &f, error));
    pw_json_writer w;
    pw_json_begin(&w, ret);
    pw_json_object(&w);
    facts_write(&w, &f, -1);
    pw_json_object_end(&w);
    return ret->failed;
}

static void usage_add(turn_usage *to, const turn_usage *more)
{
    to->input_tokens += more->input_tokens;
    to->output_tokens += more->output_tokens;
    to->cached_tokens += more->cached_tokens;
    to->reasoning_tokens += more->reasoning_tokens;
    to->cost_micros += more->cost_micros;
#define ADD(name) to->name += more->name;
    TURN_COUNTERS(ADD)
#undef ADD
}

pw_status pw_view_usage_json(const pw_record *opened, const pw_record *ended, pw_arena *scratch,
                             pw_json_writer *w, pw_error *error)
{
    turn_usage usage = {0};
    int64_t turns = 0;
    if (opened) {
        const pw_json *body;
        PW_TRY(pw_view_body(opened, scratch, &body, error));
        const pw_json *before = pw_json_get(body, "before");
        usage_read(&usage, pw_json_get(before, "usage"));
        turns = at_least_0(before, "turns");
    }
    if (ended) {
        turn_facts f = {0};
        PW_TRY(ended_facts(ended, scratch, &f, error));
        usage_add(&usage, &f.usage);
        turns++;
    }
    pw_json_object(w);
    pw_json_put_i64(w, "turns", turns);
    usage_members(w, &usage);
    pw_json_object_end(w);
    return w->out->failed;
}
