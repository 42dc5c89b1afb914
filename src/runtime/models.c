/*
 * pawl_inspect's "models": which models the agents name and what they cost; with `check`, each is
 * asked for a few words, one after the other, through the same codec and carrier as a turn's calls.
 * The caller's thread, a loop of its own; no session, nothing stored. Must never show a key (N3).
 */
#include <uv.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "core/view_inner.h"
#include "net/http.h"
#include "runtime/endpoint.h"
#include "runtime/loop.h"
#include "runtime/read_inner.h"

enum { WITHIN_MS = 20000, BODY_MOST = 65536, REPLY_TOKENS = 16 };

/* One request to one model. */
typedef struct probe {
    pw_arena arena; /* its own: a key is in it */
    uv_loop_t loop;
    uv_timer_t limit;
    pw_http *http;
    const pw_provider *provider;
    pw_endpoint endpoint;
    pw_model_stream *stream;
    pw_render render;
    pw_http_request request;
    pw_buffer body; /* of an answer that is not 2xx */
    int status;
    bool ended, late, no_memory;
    const char *state; /* works no_key refused unreachable slow */
    pw_str code, detail;
} probe;

static void say(probe *b, const char *state, pw_str code, pw_str detail)
{
    b->state = state;
    b->code = code;
    b->detail = detail;
}

static bool good(const probe *b)
{
    return b->status >= 200 && b->status < 300;
}

/* --- What came */

static void finish(probe *b)
{
    b->ended = true;
    uv_stop(&b->loop);
}

static void said_no(probe *b, pw_failure failure)
{
    bool broke = pw_str_is(failure.code, "cut_off");
    say(b, broke ? "unreachable" : "refused", failure.code, failure.message);
}

static void heard_end(probe *b)
{
    b->endpoint.now_ms = pw_now_ms();
    if (!good(b)) {
        said_no(b, b->provider->failure(&b->endpoint, b->status, NULL, 0, pw_buffer_str(&b->body),
                                        &b->arena));
        return;
    }
    const pw_reply *reply = NULL;
    pw_failure failure = {.usage = PW_USAGE_UNKNOWN};
    pw_status status = b->provider->end(b->stream, &b->endpoint, &reply, &failure);
    b->no_memory = status == PW_NOMEM;
    if (status == PW_OK) {
        say(b, "works", PW_STR_NONE, reply->model);
    } else {
        said_no(b, failure);
    }
}

static void heard_broken(probe *b, const pw_http_event *event)
{
    pw_str message = PW_STR_NONE;
    (void)pw_arena_dup(&b->arena, event->message, &message);
    if (b->late) {
        say(b, "slow", PW_STR("timeout"), PW_STR("no whole answer within the limit"));
    } else {
        say(b, "unreachable", pw_str_from(event->code), message);
    }
}

static void heard_bytes(probe *b, pw_str bytes)
{
    const pw_delta *deltas;
    size_t count;
    bool progress;
    if (!good(b)) {
        (void)pw_buffer_add(&b->body, bytes); /* over the maximum: what came first is enough */
    } else if (b->provider->feed(b->stream, bytes, &deltas, &count, &progress, NULL) != PW_OK) {
        b->no_memory = true;
        finish(b);
    }
}

static void heard(void *context, const pw_http_event *event)
{
    probe *b = context;
    if (b->ended) {
        return;
    }
    switch (event->kind) {
    case PW_HTTP_HEAD:
        b->status = event->status;
        break;
    case PW_HTTP_BYTES:
        heard_bytes(b, event->bytes);
        break;
    case PW_HTTP_END:
        heard_end(b);
        finish(b);
        break;
    case PW_HTTP_BROKEN:
        heard_broken(b, event);
        finish(b);
        break;
    }
}

static void too_late(uv_timer_t *timer)
{
    probe *b = timer->data;
    b->late = true;
    pw_http_abort(b->http, 1);
}

/* --- Asking */

/* The model's options with a short reply asked for, and without what needs a longer one. */
static pw_status short_options(const pw_json *model, pw_arena *arena, const pw_json **ret)
{
    static const char *const left_out[] = {"max_tokens", "thinking", "fallback", "reasoning",
                                           "background"};
    pw_buffer text;
    pw_json_writer w;
    pw_buffer_init_arena(&text, arena, (size_t)1 << 24);
    pw_json_begin(&w, &text);
    pw_json_object(&w);
    for (const pw_json *member = model->child; member; member = member->next) {
        bool kept = true;
        for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++) {
            kept = kept && !pw_str_is(member->key, left_out[i]);
        }
        if (kept) {
            pw_json_key_str(&w, member->key);
            pw_json_raw(&w, member->raw);
        }
    }
    pw_json_put_i64(&w, "max_tokens", REPLY_TOKENS);
    pw_json_object_end(&w);
    PW_TRY(text.failed);
    return pw_json_parse(arena, pw_buffer_str(&text), 0, ret, NULL);
}

typedef struct question { /* what is asked, and all it points to */
    pw_part part;
    pw_message message;
    const pw_message *list[1];
    pw_model_choice model;
    pw_definition definition;
    pw_model_request request;
} question;

static pw_status make_question(const pw_agent *agent, const pw_model_choice *model, pw_arena *arena,
                               question *q)
{
    q->part = (pw_part){.kind = PW_PART_TEXT, .text = PW_STR("Reply with OK.")};
    q->message = (pw_message){.role = PW_ROLE_USER,
                              .n = 1,
                              .seq = 1,
                              .at_ms = pw_now_ms(),
                              .parts = &q->part,
                              .part_count = 1};
    q->list[0] = &q->message;
    q->model = *model;
    PW_TRY(short_options(model->options, arena, &q->model.options));
    q->definition = (pw_definition){.name = agent->name,
                                    .models = &q->model,
                                    .model_count = 1,
                                    .budget = PW_BUDGET_DEFAULT,
                                    .context_messages = -1};
    q->request = (pw_model_request){.call = 1,
                                    .turn = PW_STR("check"),
                                    .step = PW_STR("model:1"),
                                    .attempt = 1,
                                    .tries = 1,
                                    .definition = &q->definition,
                                    .model = &q->model,
                                    .source = PW_STR("cli"),
                                    .messages = q->list,
                                    .count = 1};
    return PW_OK;
}

/* A script needs no asking: what it answers last says whether it can. */
static pw_status play(probe *b, const question *q, pw_error *error)
{
    const pw_play *plays = NULL;
    size_t count = 0;
    PW_TRY(pw_scripted_play(&q->request, pw_now_ms(), &b->arena, &plays, &count, error));
    if (count > 0 && plays[count - 1].kind == PW_PLAY_FAILED) {
        said_no(b, plays[count - 1].failure);
    } else {
        say(b, "works", PW_STR_NONE, q->model.name);
    }
    return PW_OK;
}

static pw_status carry(probe *b, const pw_json *model, int64_t within_ms, pw_error *error)
{
    pw_http_limits limits = {
        .connect_ms = pw_json_i64_or(pw_json_get(model, "connect_timeout_ms"), within_ms)};
    if (uv_timer_init(&b->loop, &b->limit) != 0) {
        return PW_NOMEM;
    }
    b->limit.data = b;
    pw_status status = pw_http_new(&b->loop, &pw_heap, heard, b, &b->http, error);
    if (status == PW_OK) {
        status = pw_http_start(b->http, 1, &b->request, &limits, error);
    }
    if (status == PW_OK && uv_timer_start(&b->limit, too_late, (uint64_t)within_ms, 0) == 0) {
        while (!b->ended && uv_run(&b->loop, UV_RUN_DEFAULT) != 0) {
        }
    }
    uv_close((uv_handle_t *)&b->limit, NULL);
    pw_http_close(b->http, NULL, NULL);
    while (uv_run(&b->loop, UV_RUN_DEFAULT) != 0) {
    }
    return status == PW_OK && (b->no_memory || !b->ended) ? PW_NOMEM : status;
}

static pw_status ask(probe *b, const question *q, int64_t within_ms, pw_error *error)
{
    const pw_json *options = q->model.options;
    if (b->provider->local) {
        return play(b, q, error);
    }
    PW_TRY(pw_endpoint_place(b->provider, options, &b->arena, &b->endpoint));
    pw_status status = pw_endpoint_key(b->provider, options, &b->arena, &b->endpoint, error);
    if (status == PW_NOT_FOUND) {
        say(b, "no_key", PW_STR("no_key"), pw_str_from(error->message));
        return PW_OK;
    }
    PW_TRY(status);
    PW_TRY(b->provider->stream_new(&pw_heap, &b->stream));
    status =
        b->provider->request(&b->endpoint, &q->request, &b->render, &b->arena, &b->request, error);
    if (status == PW_INVALID) {
        say(b, "refused", PW_STR("invalid"), pw_str_from(error->message));
        return PW_OK;
    }
    PW_TRY(status);
    if (uv_loop_init(&b->loop) != 0) {
        return PW_NOMEM;
    }
    status = carry(b, options, within_ms, error);
    (void)uv_loop_close(&b->loop);
    return status;
}

static pw_status check_model(pw_question *out, const pw_agent *agent, const pw_model_choice *model,
                             int64_t within_ms, bool *ret_works)
{
    probe b = {.provider = pw_provider_find(model->provider)};
    question q;
    pw_error error = {0};
    int64_t begin_ms = pw_monotonic_ms();
    pw_arena_init(&b.arena, &pw_heap, 0, 0);
    pw_render_init(&b.render, &pw_heap);
    pw_buffer_init(&b.body, &pw_heap, BODY_MOST);
    pw_status status = make_question(agent, model, &b.arena, &q);
    status = status == PW_OK ? ask(&b, &q, within_ms, &error) : status;
    if (status == PW_OK) {
        pw_json_put_str(out->w, "state", pw_str_from(b.state));
        pw_json_put_str(out->w, "code", b.code.len > 0 ? b.code : PW_STR_NONE);
        pw_json_put_str(out->w, "detail", b.detail.len > 0 ? b.detail : PW_STR_NONE);
        pw_json_put_i64(out->w, "duration_ms", pw_monotonic_ms() - begin_ms);
        *ret_works = pw_str_is(PW_STR("works"), b.state);
    } else if (status != PW_NOMEM && out->error) {
        *out->error = error;
    }
    if (b.stream) {
        b.provider->stream_free(b.stream);
    }
    pw_buffer_free(&b.body);
    pw_render_free(&b.render);
    pw_arena_free(&b.arena);
    return status;
}

/* --- The list */

static void write_rates(pw_json_writer *w, const pw_rates *rates)
{
    pw_view_put_cost(w, "input", rates->input);
    pw_view_put_cost(w, "output", rates->output);
    pw_view_put_cost(w, "cache_read", rates->cache_read);
    pw_view_put_cost(w, "cache_write", rates->cache_write);
    pw_view_put_cost(w, "cache_write_1h", rates->cache_write_1h);
    pw_view_put_cost(w, "reasoning", rates->reasoning);
}

/* Strings, as money is everywhere; null: unknown. */
static void write_price(pw_json_writer *w, const pw_price *price)
{
    pw_json_key(w, "price");
    if (!price) {
        pw_json_nothing(w);
        return;
    }
    pw_json_object(w);
    write_rates(w, &price->rates);
    pw_view_put_cost(w, "web_search", price->web_search);
    pw_json_key(w, "over");
    if (price->over_tokens < 0) {
        pw_json_nothing(w);
    } else {
        pw_json_object(w);
        pw_json_put_i64(w, "tokens", price->over_tokens);
        write_rates(w, &price->over);
        pw_json_object_end(w);
    }
    pw_json_object_end(w);
}

static pw_status write_model(pw_question *q, const pw_agent *agent, size_t index, int64_t within_ms,
                             bool *ret_works)
{
    const pw_model_choice *model = &agent->definition->models[index];
    pw_str base = pw_json_text(pw_json_get(model->options, "base_url"));
    pw_status status = PW_OK;
    pw_json_object(q->w);
    pw_json_put_str(q->w, "agent", agent->name);
    pw_json_put_str(q->w, "provider", model->provider);
    pw_json_put_str(q->w, "model", model->name);
    pw_json_put_bool(q->w, "fallback", index > 0);
    pw_json_put_str(q->w, "base_url", base.len > 0 ? base : PW_STR_NONE);
    if (within_ms > 0) {
        status = check_model(q, agent, model, within_ms, ret_works);
    }
    const pw_sold sold = {.provider = model->provider, .base_url = base, .asked = model->name};
    write_price(q->w, pw_price_of(q->p, &sold));
    pw_json_object_end(q->w);
    return status;
}

static pw_status write_models(pw_question *q, pw_str only, int64_t within_ms, bool *ret_ok)
{
    bool found = false;
    pw_json_key(q->w, "models");
    pw_json_array(q->w);
    for (size_t i = 0; i < q->p->agent_count; i++) {
        const pw_agent *agent = q->p->agents[i];
        if (only.len > 0 && !pw_str_equal(agent->name, only)) {
            continue;
        }
        found = true;
        for (size_t m = 0; m < agent->definition->model_count; m++) {
            bool works = true;
            PW_TRY(write_model(q, agent, m, within_ms, &works));
            *ret_ok = *ret_ok && works;
        }
    }
    pw_json_array_end(q->w);
    return found || only.len == 0
               ? PW_OK
               : PW_FAIL(q->error, PW_NOT_FOUND, "agent: there is no agent %.*s here",
                         PW_STR_ARG(pw_str_slice(only, 0, pw_utf8_cut(only, 120))));
}

pw_status pw_answer_models(pw_question *q)
{
    pw_str check = pw_question_parameter(q, "check"), within = pw_question_parameter(q, "within");
    int64_t within_ms = WITHIN_MS;
    if (check.ptr && !pw_str_is(check, "1")) {
        return PW_FAIL(q->error, PW_INVALID, "check: is not 1");
    }
    if (within.ptr && (!pw_str_duration_ms(within, &within_ms) || within_ms < 1)) {
        return PW_FAIL(q->error, PW_INVALID, "within: expected a duration such as 20s, found %.*s",
                       PW_STR_ARG(pw_str_slice(within, 0, pw_utf8_cut(within, 120))));
    }
    bool ok = true;
    pw_json_object(q->w);
    pw_json_put_str(q->w, "prices_date", q->p->list_prices.date);
    pw_json_put_str(q->w, "own_prices_date",
                    q->p->own_prices.date.len > 0 ? q->p->own_prices.date : PW_STR_NONE);
    PW_TRY(write_models(q, pw_question_parameter(q, "agent"), check.ptr ? within_ms : 0, &ok));
    pw_json_put_bool(q->w, "ok", ok);
    pw_json_object_end(q->w);
    return PW_OK;
}
