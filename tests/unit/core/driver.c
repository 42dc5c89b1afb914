#include "driver.h"

#define AGENT(fallbacks)                                                                           \
    "{\"name\":\"ops\",\"instructions\":\"Be brief.\","                                            \
    "\"model\":{\"provider\":\"scripted\",\"name\":\"m1\"" fallbacks "},"                          \
    "\"tools\":["                                                                                  \
    "{\"name\":\"read\",\"effects\":\"none\",\"input\":{\"type\":\"object\",\"properties\":{"      \
    "\"path\":{\"type\":\"string\"}},\"required\":[\"path\"]}},"                                   \
    "{\"name\":\"put\",\"effects\":\"idempotent\"},"                                               \
    "{\"name\":\"send\",\"effects\":\"once\"},"                                                    \
    "{\"name\":\"buy\",\"effects\":\"transactional\"}]}"

const char h_agent[] = AGENT("");
const char h_agent_models[] =
    AGENT(",\"fallback\":[{\"name\":\"m2\"},{\"provider\":\"other\",\"name\":\"far\"},"
          "{\"name\":\"m3\"}]");

static pw_str dup_text(harness *h, pw_str text)
{
    pw_str copy;
    assert_int_equal(pw_arena_dup(&h->arena, text, &copy), PW_OK);
    return copy;
}

const pw_definition *h_definition(harness *h, const char *json)
{
    const pw_definition *definition;
    pw_error error = {0};
    if (pw_definition_parse(&h->arena, pw_str_from(json), &definition, &error) != PW_OK) {
        fail_msg("definition: %s", error.message);
    }
    return definition;
}

void h_new_with(harness *h, const char *definition, const pw_allocator *allocator)
{
    memset(h, 0, sizeof(*h));
    h->allocator = allocator;
    h->now = 1700000000000;
    h->max_attempts = 5;
    h->epoch = 1;
    h->wake = -1;
    h->compare = true;
    h->records = calloc(H_RECORDS_MAX, sizeof(pw_record));
    pw_arena_init(&h->arena, &pw_heap, 0, 0);
    pw_buffer_init(&h->log, &pw_heap, (size_t)1 << 30);
    h->today = h->pinned = h_definition(h, definition);
    pw_session_options options = {h->allocator, PW_STR("uid-1")};
    while (pw_session_new(&options, &h->s) == PW_NOMEM) {
        h->failed_steps++;
    }
}

void h_new(harness *h, const char *definition)
{
    h_new_with(h, definition, &pw_heap);
    h_open(h, PW_CAUSE_NEW, NULL, 0);
}

void h_free(harness *h)
{
    pw_session_free(h->s);
    pw_buffer_free(&h->log);
    pw_arena_free(&h->arena);
    free(h->records);
}

/* --- Effects
 * --------------------------------------------------------------------------------------------------
 */

static void log_line(harness *h, const char *what, pw_str detail)
{
    pw_buffer_add(&h->log, pw_str_from(what));
    pw_buffer_byte(&h->log, ' ');
    pw_buffer_add(&h->log, detail);
    pw_buffer_byte(&h->log, '\n');
}

static void log_append(harness *h, const pw_append *a)
{
    pw_buffer_format(&h->log,
                     "append %llu turn=%.*s opened=%llu ended=%llu state=%d receipt=%d settle=%.*s",
                     (unsigned long long)a->ticket, PW_STR_ARG(a->turn),
                     (unsigned long long)a->turn_opened_seq, (unsigned long long)a->turn_ended_seq,
                     (int)a->turn_state, a->receipt, PW_STR_ARG(a->settle_cancels_of));
    pw_buffer_format(&h->log, " head=%d,%d,%.*s,%.*s,%lld,%lld,%llu,%d blobs=%zu consumed=%zu\n",
                     a->head.set, (int)a->head.state, PW_STR_ARG(a->head.turn),
                     PW_STR_ARG(a->head.reason), (long long)a->head.base_seq,
                     (long long)a->head.wake_at_ms, (unsigned long long)a->head.looked_n,
                     a->head.release, a->blob_count, a->consumed_count);
    for (size_t i = 0; i < a->record_count; i++) {
        pw_buffer_format(&h->log, "  %llu %lld %s %.*s %.*s ",
                         (unsigned long long)a->records[i].seq, (long long)a->records[i].at_ms,
                         pw_record_kind_name(a->records[i].kind), PW_STR_ARG(a->records[i].turn),
                         PW_STR_ARG(a->records[i].step));
        pw_buffer_add(&h->log, a->records[i].body);
        pw_buffer_byte(&h->log, '\n');
    }
}

static void take_append(harness *h, const pw_append *a)
{
    assert_null(h->append); /* one under way at most */
    assert_null(h->transact);
    assert_true(a->record_count > 0);
    for (size_t i = 0; i < a->record_count; i++) {
        const uint64_t last = h->record_count > 0 ? h->records[h->record_count - 1].seq : 0;
        assert_int_equal(a->records[i].seq, last + 1 + i);
    }
    if (a->head.set) {
        h->head = a->head;
    }
    if (!h->quiet) {
        log_append(h, a);
    }
}

static void take_model(harness *h, const pw_model_request *m)
{
    bool valid;
    pw_transcript_fault fault;
    pw_arena scratch;
    assert_null(h->append);
    pw_arena_init(&scratch, &pw_heap, 0, 0);
    assert_int_equal(pw_transcript_check(m->messages, m->count, &scratch, &valid, &fault), PW_OK);
    if (!valid) {
        fail_msg("C9: %s at %llu", fault.what, (unsigned long long)fault.seq);
    }
    pw_arena_free(&scratch);
    assert_true(m->same <= m->count);
    h->model = m;
    h->model_call = m->call;
    h->model_count++;
    pw_buffer_format(&h->log, "model %llu %.*s attempt=%d tries=%d count=%zu same=%zu\n",
                     (unsigned long long)m->call, PW_STR_ARG(m->step), m->attempt, m->tries,
                     m->count, m->same);
}

static void take_tool(harness *h, const char *what, const pw_tool_call *t)
{
    assert_true(pw_json_valid(t->arguments));
    assert_int_equal(t->key.len, 64);
    pw_buffer_format(&h->log, "%s %llu %.*s execution=%d %s limit=%lld key=%.*s ", what,
                     (unsigned long long)t->call, PW_STR_ARG(t->step), t->attempt,
                     pw_effects_name(t->effects), (long long)t->limit_ms, PW_STR_ARG(t->key));
    log_line(h, "", t->arguments);
}

static void take_effect(harness *h, const pw_effect *e)
{
    assert_false(h->rested); /* no effect follows a rest */
    switch (e->kind) {
    case PW_DO_APPEND:
        take_append(h, e->append);
        h->append = e->append;
        h->append_count++;
        break;
    case PW_DO_TRANSACT:
        take_append(h, e->transact.append);
        take_tool(h, "transact", e->transact.call);
        h->transact = e->transact.append;
        h->receipt = e->transact.receipt;
        h->inside = e->transact.call;
        h->transact_count++;
        break;
    case PW_DO_MODEL:
        take_model(h, e->model);
        break;
    case PW_DO_TOOL:
        take_tool(h, "tool", e->tool);
        h->tool = e->tool;
        h->tool_call = e->tool->call;
        h->tool_count++;
        break;
    case PW_DO_ABORT:
        assert_true(h->abort_count < H_ABORTS_MAX);
        h->aborts[h->abort_count++] = e->abort.call;
        h->for_good = e->abort.for_good;
        pw_buffer_format(&h->log, "abort %llu\n", (unsigned long long)e->abort.call);
        break;
    case PW_DO_TELL:
        h->told = dup_text(h, e->tell.bytes);
        h->told_bytes = e->tell.text_bytes;
        h->told_seq = e->tell.after_seq;
        log_line(h, "tell", e->tell.bytes);
        break;
    case PW_DO_WAKE:
        h->wake = e->wake_at_ms;
        pw_buffer_format(&h->log, "wake %lld\n", (long long)e->wake_at_ms);
        break;
    case PW_DO_REST:
        h->rested = true;
        h->released = e->rest.released;
        log_line(h, "rest", e->rest.released ? PW_STR("released") : PW_STR("held"));
        break;
    }
}

static void step_once(harness *h, const pw_input *input)
{
    pw_effects effects;
    pw_status status;
    for (;;) {
        char *before = NULL;
        if (h->watch && h->watch->fail_at > h->watch->calls &&
            h->watch->fail_at - h->watch->calls < 400) {
            before = h_durable(h, h->s);
        }
        const pw_session_view look = pw_session_look(h->s);
        status = pw_session_step(h->s, input, &effects);
        if (status == PW_NOMEM) {
            assert_non_null(before);
            char *after = h_durable(h, h->s);
            const pw_session_view now = pw_session_look(h->s);
            assert_string_equal(before, after); /* as it was */
            assert_int_equal(now.state, look.state);
            assert_int_equal(now.append_in_flight, look.append_in_flight);
            assert_int_equal(now.waiting, look.waiting);
            assert_true(pw_str_equal(now.open_text, look.open_text));
            assert_true(pw_str_equal(now.open_step, look.open_step));
            free(after);
            free(before);
            h->failed_steps++;
            continue;
        }
        free(before);
        break;
    }
    assert_int_equal(status, PW_OK);
    for (size_t i = 0; i < effects.count; i++) {
        take_effect(h, &effects.list[i]);
    }
}

void h_step(harness *h, const pw_input *input)
{
    pw_input time = {.kind = PW_IN_TIME, .time = {.now_ms = h->now}};
    for (size_t i = 0; i < 32; i++) {
        time.time.random[i] = (uint8_t)(h->now >> (i % 8 * 8));
    }
    step_once(h, &time);
    step_once(h, input);
}

void h_time(harness *h, int64_t now)
{
    pw_input time = {.kind = PW_IN_TIME, .time = {.now_ms = now}};
    h->now = now;
    for (size_t i = 0; i < 32; i++) {
        time.time.random[i] = (uint8_t)(h->now >> (i % 8 * 8));
    }
    step_once(h, &time);
}

/* --- Life
 * -----------------------------------------------------------------------------------------------------
 */

void h_load(harness *h)
{
    pw_error error = {0};
    for (size_t i = 0; i < h->record_count; i++) {
        if (h->records[i].seq < h->base_seq) {
            continue;
        }
        pw_status status;
        while ((status = pw_session_fold(h->s, &h->records[i], &error)) == PW_NOMEM) {
            h->failed_steps++;
        }
        if (status != PW_OK) {
            fail_msg("fold: %s", error.message);
        }
    }
}

void h_open(harness *h, pw_cause cause, const pw_alive_call *alive, size_t alive_count)
{
    const bool open = pw_session_pinned_hash(h->s).len > 0;
    const pw_input input = {.kind = PW_IN_OPENED,
                            .opened = {
                                .epoch = h->epoch,
                                .cause = open ? cause : PW_CAUSE_NEW,
                                .crashes = h->crashes,
                                .max_attempts = h->max_attempts,
                                .pinned = open ? h->pinned : NULL,
                                .today = h->today,
                                .alive = alive,
                                .alive_count = alive_count,
                            }};
    h->rested = h->released = false;
    h_step(h, &input);
}

void h_crash(harness *h, pw_cause cause)
{
    pw_session_free(h->s);
    h->s = NULL;
    h->append = h->transact = NULL;
    h->model = NULL;
    h->tool = h->inside = NULL;
    h->model_call = h->tool_call = 0;
    h->rested = false;
    h->wake = -1;
    h->epoch++;
    h->crashes += cause == PW_CAUSE_RECOVERY ? 1 : 0;
    pw_session_options options = {h->allocator, PW_STR("uid-1")};
    while (pw_session_new(&options, &h->s) == PW_NOMEM) {
        h->failed_steps++;
    }
    h_load(h);
    pw_buffer_add(&h->log, PW_STR("crash\n"));
    h_open(h, cause, NULL, 0);
}

/* --- The inbox
 * --------------------------------------------------------------------------------------------------
 */

static void add_row(harness *h, pw_inbox_kind kind, pw_str request, pw_str body)
{
    assert_true(h->row_count < H_ROWS_MAX);
    h->rows[h->row_count] = (pw_inbox_row){
        .n = h->row_count + 1,
        .kind = kind,
        .request_id = dup_text(h, request),
        .body = dup_text(h, body),
        .at_ms = h->now,
        .disposition = PW_PENDING,
    };
    h->row_count++;
}

void h_say_body(harness *h, const char *request, const char *body)
{
    add_row(h, PW_INBOX_MESSAGE, pw_str_from(request), pw_str_from(body));
}

void h_say(harness *h, const char *request, const char *text)
{
    char body[2048];
    snprintf(body, sizeof(body),
             "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{\"type\":\"text\","
             "\"text\":\"%s\"}]}",
             text);
    h_say_body(h, request, body);
}

void h_cancel(harness *h, const char *body)
{
    add_row(h, PW_INBOX_CANCEL, pw_session_look(h->s).turn, pw_str_from(body));
}

void h_inbox(harness *h)
{
    pw_inbox_row waiting[H_ROWS_MAX];
    size_t count = 0;
    for (int kind = PW_INBOX_CANCEL; kind >= PW_INBOX_MESSAGE; kind--) {
        for (size_t i = 0; i < h->row_count; i++) {
            if (h->rows[i].disposition == PW_PENDING && (int)h->rows[i].kind == kind) {
                waiting[count++] = h->rows[i];
            }
        }
    }
    const pw_input input = {
        .kind = PW_IN_INBOX,
        .inbox = {.rows = waiting, .count = count, .more = h->more, .looked_n = h->row_count}};
    h_step(h, &input);
}

void h_drain(harness *h)
{
    h_step(h, &(pw_input){.kind = PW_IN_DRAIN});
}

/* --- The store
 * ---------------------------------------------------------------------------------------------------
 */

char *h_durable(harness *h, pw_session *s)
{
    (void)h;
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, (size_t)1 << 30);
    assert_int_equal(pw_session_durable_text(s, &out), PW_OK);
    char *text = malloc(out.len + 1);
    memcpy(text, out.ptr, out.len + 1);
    pw_buffer_free(&out);
    assert_true(pw_json_valid(pw_str_from(text)));
    return text;
}

static void compare_fold(harness *h)
{
    pw_session *fresh;
    pw_session_options options = {&pw_heap, PW_STR("uid-1")};
    pw_error error = {0};
    assert_int_equal(pw_session_new(&options, &fresh), PW_OK);
    for (size_t i = 0; i < h->record_count; i++) {
        if (h->records[i].seq >= h->base_seq &&
            pw_session_fold(fresh, &h->records[i], &error) != PW_OK) {
            fail_msg("fold: %s", error.message);
        }
    }
    char *a = h_durable(h, h->s), *b = h_durable(h, fresh);
    assert_string_equal(a, b);
    free(a);
    free(b);
    pw_session_free(fresh);
}

static void keep_records(harness *h, const pw_append *a, pw_str filled)
{
    for (size_t i = 0; i < a->record_count; i++) {
        assert_true(h->record_count < H_RECORDS_MAX);
        pw_record *r = &h->records[h->record_count++];
        *r = a->records[i];
        r->turn = dup_text(h, r->turn);
        r->step = dup_text(h, r->step);
        r->body = dup_text(h, filled.len > 0 ? filled : r->body);
        assert_true(pw_json_valid(r->body));
    }
    for (size_t i = 0; i < a->consumed_count; i++) {
        const uint64_t first = h->first_n > 0 ? h->first_n : 1;
        pw_inbox_row *row = &h->rows[a->consumed[i].n - first];
        assert_int_equal(row->disposition, PW_PENDING);
        row->disposition = a->consumed[i].disposition;
    }
    for (size_t i = 0; i < h->row_count; i++) {
        if (h->rows[i].kind == PW_INBOX_CANCEL && h->rows[i].disposition == PW_PENDING &&
            a->settle_cancels_of.len > 0 &&
            pw_str_equal(h->rows[i].request_id, a->settle_cancels_of)) {
            h->rows[i].disposition = PW_SETTLED;
        }
    }
    if (a->head.set && a->head.base_seq >= 0) {
        h->base_seq = (uint64_t)a->head.base_seq;
    }
    h->crashes = a->receipt ? 0 : h->crashes;
}

void h_commit(harness *h)
{
    const pw_append *a = h->append;
    assert_non_null(a);
    keep_records(h, a, PW_STR_NONE);
    const pw_input input = {.kind = PW_IN_APPENDED, .appended = {.ticket = a->ticket}};
    h->append = NULL;
    h_step(h, &input);
    if (h->compare) {
        compare_fold(h);
    }
}

void h_commit_transact(harness *h, const char *result)
{
    const pw_append *a = h->transact;
    pw_str body;
    assert_non_null(a);
    assert_int_equal(pw_receipt_fill(h->receipt, pw_str_from(result), &h->arena, &body), PW_OK);
    keep_records(h, a, body);
    const pw_input input = {.kind = PW_IN_APPENDED,
                            .appended = {.ticket = a->ticket, .receipt_body = body}};
    h->transact = NULL;
    h->inside = NULL;
    h_step(h, &input);
    if (h->compare) {
        compare_fold(h);
    }
}

void h_commit_all(harness *h)
{
    while (h->append) {
        h_commit(h);
    }
}

void h_not(harness *h, pw_status status)
{
    const pw_append *a = h->append ? h->append : h->transact;
    assert_non_null(a);
    const pw_input input = {.kind = PW_IN_NOT_APPENDED,
                            .not_appended = {.ticket = a->ticket, .status = status}};
    h->append = h->transact = NULL;
    h->inside = NULL;
    h_step(h, &input);
}

/* --- The model and the tools --- */

void h_delta(harness *h, const char *text)
{
    h_step(h, &(pw_input){.kind = PW_IN_MODEL_DELTA,
                          .delta = {.call = h->model_call, .bytes = pw_str_from(text)}});
}

void h_reply(harness *h, const pw_reply *reply)
{
    const uint64_t call = h->model_call;
    assert_true(call != 0);
    h->model = NULL;
    h->model_call = 0;
    h_step(h, &(pw_input){.kind = PW_IN_MODEL_REPLY, .reply = {.call = call, .reply = reply}});
}

static const pw_usage usage = {.in_uncached = 10,
                               .in_cache_read = 5,
                               .in_cache_write = -1,
                               .out = 7,
                               .reasoning = 2,
                               .cost_micros = 300};

void h_text(harness *h, const char *text)
{
    pw_part part = {.kind = PW_PART_TEXT, .text = pw_str_from(text)};
    h_reply(h, &(pw_reply){.parts = &part,
                           .part_count = 1,
                           .stop = PW_STOP_DONE,
                           .model = PW_STR("m1"),
                           .provider = PW_STR("scripted"),
                           .usage = usage});
}

pw_part h_call_part(const char *id, const char *name, const char *arguments)
{
    return (pw_part){.kind = PW_PART_TOOL_CALL,
                     .provider_id = pw_str_from(id),
                     .name = pw_str_from(name),
                     .arguments = pw_str_from(arguments)};
}

void h_calls(harness *h, pw_part *parts, size_t count)
{
    h_reply(h, &(pw_reply){.parts = parts,
                           .part_count = count,
                           .stop = PW_STOP_TOOL_CALLS,
                           .model = PW_STR("m1"),
                           .provider = PW_STR("scripted"),
                           .usage = usage});
}

void h_call(harness *h, const char *name, const char *arguments)
{
    pw_part part = h_call_part("toolu_1", name, arguments);
    h_calls(h, &part, 1);
}

void h_fail(harness *h, pw_failure_class failure_class, const char *code, int64_t until)
{
    const pw_failure failure = {.failure_class = failure_class,
                                .code = pw_str_from(code),
                                .message = PW_STR("the provider says no"),
                                .until_ms = until,
                                .usage = PW_USAGE_UNKNOWN};
    const uint64_t call = h->model_call;
    assert_true(call != 0);
    h->model = NULL;
    h->model_call = 0;
    h_step(h, &(pw_input){.kind = PW_IN_MODEL_FAILED, .failed = {call, &failure}});
}

void h_accept(harness *h, const char *response_id)
{
    char copy[600]; /* gone before the session may look at it again */
    snprintf(copy, sizeof(copy), "%s", response_id);
    h_step(h, &(pw_input){.kind = PW_IN_MODEL_ACCEPTED,
                          .accepted = {h->model_call, pw_str_from(copy)}});
}

void h_reject(harness *h, size_t message, size_t part)
{
    const pw_failure failure = {.failure_class = PW_FAILURE_FINAL,
                                .code = PW_STR("invalid_request_error"),
                                .message = PW_STR("that is no image"),
                                .usage = PW_USAGE_UNKNOWN,
                                .rejected = true,
                                .rejected_message = message,
                                .rejected_part = part};
    const uint64_t call = h->model_call;
    assert_true(call != 0);
    h->model = NULL;
    h->model_call = 0;
    h_step(h, &(pw_input){.kind = PW_IN_MODEL_FAILED, .failed = {call, &failure}});
}

void h_tool_outcome(harness *h, uint64_t call, const pw_tool_outcome *outcome)
{
    if (call == h->tool_call) {
        h->tool = NULL;
        h->tool_call = 0;
    }
    if (h->inside && call == h->inside->call) {
        h->inside = NULL;
        h->transact = NULL;
    }
    h_step(h, &(pw_input){.kind = PW_IN_TOOL_RESULT, .tool = {call, outcome}});
}

static uint64_t running_call(const harness *h)
{
    const uint64_t call = h->inside ? h->inside->call : h->tool_call;
    assert_true(call != 0);
    return call;
}

void h_tool(harness *h, const char *json)
{
    h_tool_outcome(h, running_call(h),
                   &(pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = pw_str_from(json)});
}

void h_tool_error(harness *h, const char *error_class, const char *message)
{
    h_tool_outcome(h, running_call(h),
                   &(pw_tool_outcome){.kind = PW_TOOL_ERROR,
                                      .error_class = pw_str_from(error_class),
                                      .message = pw_str_from(message)});
}

void h_tool_fatal(harness *h, const char *message)
{
    h_tool_outcome(h, running_call(h),
                   &(pw_tool_outcome){.kind = PW_TOOL_FATAL, .message = pw_str_from(message)});
}

void h_tool_abandoned(harness *h, bool limit_passed)
{
    h_tool_outcome(h, running_call(h),
                   &(pw_tool_outcome){.kind = PW_TOOL_ABANDONED, .limit_passed = limit_passed});
}

/* --- Looking
 * ----------------------------------------------------------------------------------------------------------
 */

pw_session_view h_look(const harness *h)
{
    return pw_session_look(h->s);
}

const pw_record *h_last(const harness *h, pw_record_kind kind)
{
    for (size_t i = h->record_count; i > 0; i--) {
        if (h->records[i - 1].kind == kind) {
            return &h->records[i - 1];
        }
    }
    return NULL;
}

size_t h_count(const harness *h, pw_record_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < h->record_count; i++) {
        count += h->records[i].kind == kind ? 1 : 0;
    }
    return count;
}

pw_str h_field(harness *h, const pw_record *record, const char *path)
{
    const pw_json *json;
    assert_non_null(record);
    assert_int_equal(pw_json_parse(&h->arena, record->body, 0, &json, NULL), PW_OK);
    while (json && *path) {
        const char *dot = strchr(path, '.');
        const size_t len = dot ? (size_t)(dot - path) : strlen(path);
        const pw_str key = {path, len};
        int64_t index;
        if (pw_json_is(json, PW_JSON_ARRAY) && pw_str_i64(key, &index)) {
            json = pw_json_at(json, (size_t)index);
        } else {
            json = pw_json_get_str(json, key);
        }
        path += len + (dot ? 1 : 0);
    }
    return json ? json->raw : PW_STR("(nothing)");
}

/* What a member that is left out stands for (record.h). */
static const char *usual_value(const pw_record *record, const char *path)
{
    if (strcmp(path, "executions") == 0 || strcmp(path, "tries") == 0) {
        return "1";
    }
    if (strcmp(path, "is_error") == 0) {
        return "false";
    }
    return record->kind == PW_RECORD_TURN_ENDED && strncmp(path, "usage.", 6) == 0 ? "0" : "null";
}

void h_expect(harness *h, pw_record_kind kind, const char *path, const char *raw)
{
    const pw_record *record = h_last(h, kind);
    if (!record) {
        fail_msg("no %s", pw_record_kind_name(kind));
        return;
    }
    pw_str found = h_field(h, record, path);
    if (pw_str_is(found, "(nothing)")) {
        found = pw_str_from(usual_value(record, path));
    }
    if (!pw_str_is(found, raw)) {
        fail_msg("%s.%s is %.*s, not %s", pw_record_kind_name(kind), path, PW_STR_ARG(found), raw);
    }
}
