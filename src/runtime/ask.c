/*
 * Asking a model: a provider's codec between a session and the transport, or a script played by
 * alarms. Runs on the loop thread. Must never keep a key longer than the call, never put one into a
 * log or an error (N3), and never start or abort a transfer from inside the transfer's own handler.
 *
 * Progress is what the codec says it is (F9): keep-alives do not move the limit. A call that this
 * process breaks off (stalled, too large, no memory) ends through the same door as one that broke
 * by itself.
 */
#include "runtime/endpoint.h"
#include "runtime/loop.h"

enum { FAREWELL_MS = 2000, CONNECT_MS = 10000, FIRST_TOKEN_MS = 120000, IDLE_MS = 120000 };

/* --- Deltas and ends --- */

typedef struct said { /* an input with its bytes */
    pw_given given;
    size_t size;
    char bytes[];
} said;

static void said_used(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)seat;
    said *it = (said *)(void *)given;
    loop->p->allocator->resize(loop->p->allocator->ctx, it, it->size, 0);
}

static said *new_said(pw_loop *loop, pw_str bytes, pw_str *ret)
{
    const pw_allocator *allocator = loop->p->allocator;
    size_t size = sizeof(said) + bytes.len;
    said *it = allocator->resize(allocator->ctx, NULL, 0, size);
    if (!it) {
        return NULL;
    }
    it->size = size;
    it->given = (pw_given){.used = said_used, .of_call = true};
    memcpy(it->bytes, bytes.ptr, bytes.len);
    *ret = (pw_str){it->bytes, bytes.len};
    return it;
}

static bool give_delta(pw_loop *loop, pw_running *running, bool reasoning, pw_str bytes)
{
    if (bytes.len == 0 || running->seat->state == PW_SEAT_GONE) {
        return true;
    }
    pw_str copy;
    said *it = new_said(loop, bytes, &copy);
    if (!it) {
        return false;
    }
    it->given.input =
        (pw_input){.kind = PW_IN_MODEL_DELTA,
                   .delta = {.call = running->call, .reasoning = reasoning, .bytes = copy}};
    pw_seat_give(loop, running->seat, &it->given);
    return true;
}

/* Tells the session, once, under which id its reply can be resumed; before any delta of it. */
static bool give_accepted(pw_loop *loop, pw_running *running, pw_str response_id)
{
    if (response_id.len == 0 || running->response_id.len > 0) {
        return true;
    }
    if (pw_arena_dup(&running->arena, response_id, &running->response_id) != PW_OK) {
        return false;
    }
    if (running->seat->state == PW_SEAT_GONE) {
        return true;
    }
    pw_str copy;
    said *it = new_said(loop, response_id, &copy);
    if (!it) {
        running->response_id = PW_STR_NONE;
        return false;
    }
    it->given.input = (pw_input){.kind = PW_IN_MODEL_ACCEPTED,
                                 .accepted = {.call = running->call, .response_id = copy}};
    pw_seat_give(loop, running->seat, &it->given);
    return true;
}

static pw_sold sold_by(const pw_running *running, pw_str answered)
{
    return (pw_sold){.provider =
                         running->provider ? pw_str_from(running->provider->name) : PW_STR_NONE,
                     .base_url = running->endpoint.base_url,
                     .asked = running->asked,
                     .answered = answered};
}

static void end_reply(pw_loop *loop, pw_running *running, const pw_reply *reply)
{
    running->reply = *reply;
    const pw_sold sold = sold_by(running, reply->model);
    running->reply.usage.cost_micros = pw_priced(loop->p, &sold, &reply->usage);
    running->last.input = (pw_input){.kind = PW_IN_MODEL_REPLY,
                                     .reply = {.call = running->call, .reply = &running->reply}};
    pw_running_end(loop, running);
}

static void end_failed(pw_loop *loop, pw_running *running, pw_failure failure)
{
    const pw_sold sold = sold_by(running, PW_STR_NONE);
    failure.usage.cost_micros = pw_priced(loop->p, &sold, &failure.usage);
    running->failure = failure;
    running->last.input =
        (pw_input){.kind = PW_IN_MODEL_FAILED,
                   .failed = {.call = running->call, .failure = &running->failure}};
    pw_running_end(loop, running);
}

static pw_failure broken_off(const char *code)
{
    pw_str message = PW_STR("the call was broken off");
    if (pw_str_is(pw_str_from(code), "stalled")) {
        message = PW_STR("the model made no progress within its limit");
    } else if (pw_str_is(pw_str_from(code), "too_large")) {
        message = PW_STR("the model's answer is larger than what is read");
    } else if (pw_str_is(pw_str_from(code), "no_memory")) {
        message = PW_STR("out of memory while the answer was read");
    }
    return pw_transport_failure(code, message);
}

/* --- A script --- */

/* Plays what is due, then sets the alarm for the next piece or for the limit that passes before it.
 */
static void play_on(pw_loop *loop, pw_running *running)
{
    for (; running->play_at < running->play_count; running->play_at++) {
        const pw_play *play = &running->plays[running->play_at];
        if (play->delay_ms > 0 && !running->heard) {
            bool first = running->play_at == 0 ||
                         running->plays[running->play_at - 1].kind == PW_PLAY_ACCEPTED;
            int64_t limit_ms = first ? running->first_token_ms : running->idle_ms;
            running->give_up = play->delay_ms > limit_ms ? "stalled" : NULL;
            int64_t wait_ms = running->give_up ? limit_ms : play->delay_ms;
            pw_alarm_set(&loop->alarms, &running->alarm, pw_monotonic_ms() + wait_ms);
            return;
        }
        running->heard = false; /* its delay, if any, has passed */
        switch (play->kind) {
        case PW_PLAY_ACCEPTED:
            if (!give_accepted(loop, running, play->bytes)) {
                end_failed(loop, running, broken_off("no_memory"));
                return;
            }
            break;
        case PW_PLAY_DELTA:
        case PW_PLAY_REASONING:
            if (!give_delta(loop, running, play->kind == PW_PLAY_REASONING, play->bytes)) {
                end_failed(loop, running, broken_off("no_memory"));
                return;
            }
            break;
        case PW_PLAY_REPLY:
            end_reply(loop, running, &play->reply);
            return;
        case PW_PLAY_FAILED:
            end_failed(loop, running, play->failure);
            return;
        }
    }
}

static void fire_play(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    pw_running *running = (pw_running *)(void *)((char *)alarm - offsetof(pw_running, alarm));
    if (running->ended) {
        return;
    }
    if (running->give_up) {
        end_failed(loop, running, broken_off(running->give_up));
        return;
    }
    running->heard = true;
    play_on(loop, running);
}

static void play_script(pw_loop *loop, pw_running *running, const pw_model_request *request)
{
    pw_error error = {0};
    pw_status status = pw_scripted_play(request, pw_now_ms(), &running->arena, &running->plays,
                                        &running->play_count, &error);
    if (status != PW_OK) {
        pw_failure failure =
            pw_transport_failure(pw_status_code(status), PW_STR("the script could not be played"));
        failure.failure_class = status == PW_NOMEM ? PW_FAILURE_RETRY : PW_FAILURE_FINAL;
        end_failed(loop, running, failure);
        return;
    }
    running->alarm.fire = fire_play;
    play_on(loop, running);
}

/* --- A transfer --- */

static void fire_stall(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    pw_running *running = (pw_running *)(void *)((char *)alarm - offsetof(pw_running, alarm));
    if (running->ended || loop->http_closed) {
        return;
    }
    int64_t limit_ms = running->heard ? running->idle_ms : running->first_token_ms;
    int64_t until_ms = running->heard_ms + limit_ms;
    if (!running->give_up && until_ms > pw_monotonic_ms()) {
        pw_alarm_set(&loop->alarms, &running->alarm, until_ms);
        return;
    }
    if (!running->give_up) {
        running->give_up = "stalled";
    }
    pw_http_abort(loop->http, running->id);
}

/* Breaks it off as soon as we are out of its handler. */
static void give_up_soon(pw_loop *loop, pw_running *running, const char *code)
{
    if (!running->give_up) {
        running->give_up = code;
        pw_alarm_set(&loop->alarms, &running->alarm, pw_monotonic_ms());
    }
}

static bool good_status(int status)
{
    return status >= 200 && status < 300;
}

static void heard_head(pw_loop *loop, pw_running *running, const pw_http_event *event)
{
    running->status = event->status;
    running->header_count = 0;
    pw_header *headers = PW_NEW_ARRAY(&running->arena, pw_header, event->header_count);
    if (!headers) {
        give_up_soon(loop, running, "no_memory");
        return;
    }
    for (size_t i = 0; i < event->header_count; i++) {
        if (pw_arena_dup(&running->arena, event->headers[i].name, &headers[i].name) != PW_OK ||
            pw_arena_dup(&running->arena, event->headers[i].value, &headers[i].value) != PW_OK) {
            give_up_soon(loop, running, "no_memory");
            return;
        }
    }
    running->headers = headers;
    running->header_count = event->header_count;
}

static void heard_bytes(pw_loop *loop, pw_running *running, const pw_http_event *event)
{
    if (running->give_up) {
        return;
    }
    if (!good_status(running->status)) {
        (void)pw_buffer_add(&running->body,
                            event->bytes); /* over the maximum: what came first is enough */
        running->heard_ms = pw_monotonic_ms();
        return;
    }
    const pw_delta *deltas = NULL;
    size_t count = 0;
    bool progress = false;
    pw_error error = {0};
    pw_status status =
        running->provider->feed(running->stream, event->bytes, &deltas, &count, &progress, &error);
    if (status != PW_OK) {
        give_up_soon(loop, running, status == PW_TOO_LARGE ? "too_large" : "no_memory");
        return;
    }
    const pw_provider *provider = running->provider;
    if (provider->accepted && !give_accepted(loop, running, provider->accepted(running->stream))) {
        give_up_soon(loop, running, "no_memory");
        return;
    }
    if (progress) {
        running->heard_ms = pw_monotonic_ms();
    }
    if (progress && !running->heard) { /* from here the limit between tokens holds */
        running->heard = true;
        pw_alarm_set(&loop->alarms, &running->alarm, running->heard_ms + running->idle_ms);
    }
    for (size_t i = 0; i < count; i++) {
        if (!give_delta(loop, running, deltas[i].reasoning, deltas[i].bytes)) {
            give_up_soon(loop, running, "no_memory");
            return;
        }
    }
}

/* A stream that broke was paid for as far as it came: its usage counts (G1, G6). */
static void end_broken(pw_loop *loop, pw_running *running, pw_failure failure)
{
    const pw_reply *reply = NULL;
    pw_failure so_far = {.usage = PW_USAGE_UNKNOWN};
    if (running->stream && good_status(running->status)) {
        pw_status status =
            running->provider->end(running->stream, &running->endpoint, &reply, &so_far);
        if (status == PW_OK && !running->give_up) {
            end_reply(loop, running, reply); /* only the end mark was lost: the reply is whole */
            return;
        }
        failure.usage = status == PW_OK ? reply->usage : so_far.usage;
    }
    end_failed(loop, running, failure);
}

/* The reply that was to be resumed is not there, in whatever words: the request itself is not at
 * fault, and is sent. */
static bool lost_its_reply(const pw_running *running)
{
    return running->request && running->request->resume.len > 0 &&
           (running->status == 400 || running->status == 404 || running->status == 410);
}

/* An answer that is not 2xx. Where it names a part of the request, the session leaves that out
 * (C9).
 */
static void end_refused(pw_loop *loop, pw_running *running)
{
    const pw_provider *provider = running->provider;
    const pw_str body = pw_buffer_str(&running->body);
    const int status = running->status;
    pw_failure failure = provider->failure(&running->endpoint, status, running->headers,
                                           running->header_count, body, &running->arena);
    const bool looked = running->request && running->request->resume.len > 0;
    if (lost_its_reply(running)) {
        failure.failure_class = PW_FAILURE_RETRY;
        failure.code = PW_STR("response_gone");
    } else {
        failure.still_works = looked && (failure.failure_class == PW_FAILURE_RETRY ||
                                         failure.failure_class == PW_FAILURE_WAIT);
    }
    /* 404: an item of it is looked up, and not there; most others of these are of the model. */
    const bool may_name = status == 404 || (failure.failure_class == PW_FAILURE_FINAL &&
                                            (status == 400 || status == 413 || status == 422));
    if (may_name && provider->rejected && running->request && !lost_its_reply(running)) {
        failure.rejected = provider->rejected(running->request, status, body, &running->arena,
                                              &failure.rejected_message, &failure.rejected_part);
    }
    if (failure.rejected) {
        failure.failure_class = PW_FAILURE_FINAL;
    }
    end_failed(loop, running, failure);
}

static void heard_end(pw_loop *loop, pw_running *running)
{
    running->endpoint.now_ms = pw_now_ms();
    if (running->give_up) {
        end_broken(loop, running, broken_off(running->give_up));
    } else if (good_status(running->status)) {
        const pw_reply *reply = NULL;
        pw_failure failure = pw_transport_failure("cut_off", PW_STR("the answer ended early"));
        if (running->provider->end(running->stream, &running->endpoint, &reply, &failure) ==
            PW_OK) {
            end_reply(loop, running, reply);
        } else {
            end_failed(loop, running, failure);
        }
    } else {
        end_refused(loop, running);
    }
}

/* --- Stopping what the provider does (PROVIDERS.md 4.5) --- */

struct pw_farewell {
    pw_farewell *next;
    uint64_t id;
    pw_arena arena; /* it lives here itself, with its request's body */
};

static void free_farewell(pw_farewell *farewell)
{
    pw_arena arena = farewell->arena;
    pw_arena_free(&arena);
}

/* Whatever the provider answers: it was asked. */
static void farewell_heard(pw_loop *loop, const pw_http_event *event)
{
    if (event->kind != PW_HTTP_END && event->kind != PW_HTTP_BROKEN) {
        return;
    }
    for (pw_farewell **at = &loop->farewells; *at; at = &(*at)->next) {
        if ((*at)->id == event->call) {
            pw_farewell *farewell = *at;
            *at = farewell->next;
            free_farewell(farewell);
            return;
        }
    }
}

void pw_farewell_send(pw_loop *loop, const pw_running *running)
{
    const pw_provider *provider = running->provider;
    if (!provider || !provider->cancel || running->response_id.len == 0 || loop->http_closed) {
        return;
    }
    pw_arena arena;
    pw_arena_init(&arena, loop->p->allocator, 1024, 0);
    pw_http_request http = {0};
    pw_http_limits limits = {.connect_ms = FAREWELL_MS, .total_ms = FAREWELL_MS};
    pw_endpoint endpoint = running->endpoint;
    endpoint.now_ms = pw_now_ms();
    pw_farewell *farewell = PW_NEW(&arena, pw_farewell);
    const uint64_t id = ++loop->last_running;
    if (!farewell ||
        provider->cancel(&endpoint, running->response_id, &arena, &http, NULL) != PW_OK ||
        pw_http_start(loop->http, id, &http, &limits, NULL) != PW_OK) {
        pw_arena_free(&arena);
        return;
    }
    *farewell = (pw_farewell){.next = loop->farewells, .id = id, .arena = arena};
    loop->farewells = farewell;
}

void pw_farewells_free(pw_loop *loop)
{
    while (loop->farewells) {
        pw_farewell *next = loop->farewells->next;
        free_farewell(loop->farewells);
        loop->farewells = next;
    }
}

void pw_model_heard(void *context, const pw_http_event *event)
{
    pw_loop *loop = context;
    pw_running *running = pw_running_find(loop, event->call);
    if (!running || running->ended) {
        farewell_heard(loop, event);
        return;
    }
    switch (event->kind) {
    case PW_HTTP_HEAD:
        heard_head(loop, running, event);
        break;
    case PW_HTTP_BYTES:
        heard_bytes(loop, running, event);
        break;
    case PW_HTTP_END:
        heard_end(loop, running);
        break;
    case PW_HTTP_BROKEN:
        if (running->give_up) {
            end_broken(loop, running, broken_off(running->give_up));
        } else {
            pw_str message = PW_STR("the connection broke");
            (void)pw_arena_dup(&running->arena, event->message, &message);
            end_broken(loop, running, pw_transport_failure(event->code, message));
        }
        break;
    }
}

/* --- Starting --- */

static pw_status start_transfer(pw_loop *loop, pw_running *running, const pw_model_request *request,
                                pw_error *error)
{
    const pw_json *model = request->model->options;
    PW_TRY(pw_endpoint_place(running->provider, model, &running->arena, &running->endpoint));
    PW_TRY(pw_endpoint_key(running->provider, model, &running->arena, &running->endpoint, error));
    PW_TRY(running->provider->stream_new(loop->p->allocator, &running->stream));
    pw_http_request http = {0};
    PW_TRY(running->provider->request(&running->endpoint, request, &running->seat->render,
                                      &running->arena, &http, error));
    pw_http_limits limits = {
        .connect_ms = pw_json_i64_or(pw_json_get(model, "connect_timeout_ms"), CONNECT_MS)};
    PW_TRY(pw_http_start(loop->http, running->id, &http, &limits, error));
    running->heard_ms = pw_monotonic_ms();
    running->alarm.fire = fire_stall;
    pw_alarm_set(&loop->alarms, &running->alarm, running->heard_ms + running->first_token_ms);
    return PW_OK;
}

bool pw_begin_model(pw_loop *loop, pw_seat *seat, const pw_model_request *request)
{
    pw_running *running = pw_running_new(loop, seat, request->call, request->step, true);
    if (!running) {
        return false;
    }
    const pw_json *model = request->model->options;
    running->request = request;
    running->provider = pw_provider_find(request->model->provider);
    if (pw_arena_dup(&running->arena, request->model->name, &running->asked) != PW_OK) {
        end_failed(loop, running, broken_off("no_memory"));
        return true;
    }
    running->first_token_ms =
        pw_json_i64_or(pw_json_get(model, "first_token_timeout_ms"), FIRST_TOKEN_MS);
    running->idle_ms = pw_json_i64_or(pw_json_get(model, "idle_timeout_ms"), IDLE_MS);
    if (running->provider && running->provider->local) {
        play_script(loop, running, request);
        return true;
    }
    pw_error error = {0};
    pw_status status = running->provider
                           ? start_transfer(loop, running, request, &error)
                           : PW_FAIL(&error, PW_UNSUPPORTED, "this program has no provider %.*s",
                                     PW_STR_ARG(request->model->provider));
    if (status != PW_OK) {
        pw_str message = pw_str_from(pw_status_meaning(status));
        if (error.message[0]) {
            (void)pw_arena_dup(&running->arena, pw_str_from(error.message), &message);
        }
        pw_failure failure = pw_transport_failure(
            status == PW_NOT_FOUND ? "no_key" : pw_status_code(status), message);
        /* A libcurl that is missing is missing for as long as this process lives. */
        const bool passing = pw_status_may_retry(status) && status != PW_UNAVAILABLE;
        failure.failure_class = passing ? PW_FAILURE_RETRY : PW_FAILURE_FINAL;
        end_failed(loop, running, failure);
    }
    return true;
}

void pw_running_abort_model(pw_loop *loop, pw_running *running)
{
    if (running->provider && running->provider->local) {
        end_failed(loop, running, broken_off("aborted"));
    } else if (!loop->http_closed) {
        running->give_up = running->give_up ? running->give_up : "aborted";
        pw_http_abort(loop->http, running->id);
    }
}
