/*
 * The loop thread itself: notes in, steps, effects out; see loop.h for the rules. Everything here
 * but pw_loop_tell, _poke, _hint, _drain, _close runs on the loop thread. Must never wait for the
 * store, and never step inside a callback.
 */
#include "runtime/loop.h"

#include "base/heap.h"
#include "runtime/setup.h"
#include "runtime/threads.h"

enum { BLOCKS_KEPT_MAX = 4 * 1024 * 1024 };
enum { BURST = 8, CALM_MS = 2000 };

/* --- Notes --- */

void pw_loop_tell(pw_loop *loop, pw_note *note)
{
    pw_note *before = atomic_load_explicit(&loop->notes, memory_order_relaxed);
    do {
        note->next = before;
    } while (!atomic_compare_exchange_weak_explicit(&loop->notes, &before, note,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if (!before) {
        (void)uv_async_send(&loop->async);
    }
}

void pw_loop_poke(pw_loop *loop)
{
    if (!atomic_exchange(&loop->poked, true)) {
        (void)uv_async_send(&loop->async);
    }
}

typedef struct hint_note {
    pw_note note;
    int64_t session_id, due_at_ms;
    const pw_agent *agent;
} hint_note;

static void act_hint(pw_loop *loop, pw_note *note)
{
    hint_note *hint = (hint_note *)(void *)note;
    if (hint->due_at_ms > pw_now_ms() && !pw_seat_find(loop, hint->session_id)) {
        pw_owner_wake_at(loop, hint->due_at_ms);
    } else {
        pw_owner_hint(loop, hint->session_id, hint->agent);
    }
    loop->p->allocator->resize(loop->p->allocator->ctx, hint, sizeof *hint, 0);
}

void pw_loop_hint(pw_loop *loop, int64_t session_id, const pw_agent *agent, int64_t due_at_ms)
{
    const pw_allocator *allocator = loop->p->allocator;
    hint_note *hint = allocator->resize(allocator->ctx, NULL, 0, sizeof *hint);
    if (!hint) {
        pw_loop_poke(loop); /* the sweep finds what a hint missed (A7) */
        return;
    }
    *hint = (hint_note){.note = {.act = act_hint},
                        .session_id = session_id,
                        .due_at_ms = due_at_ms,
                        .agent = agent};
    pw_loop_tell(loop, &hint->note);
}

/* Notes in the order they were told. */
static void drain_notes(pw_loop *loop)
{
    pw_note *newest = atomic_exchange_explicit(&loop->notes, NULL, memory_order_acq_rel);
    pw_note *oldest = NULL;
    while (newest) {
        pw_note *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        pw_note *next = oldest->next;
        oldest->act(loop, oldest);
        oldest = next;
    }
    if (atomic_exchange(&loop->poked, false)) {
        pw_owner_sweep(loop);
        for (size_t i = 0; i < PW_SEAT_BUCKETS && loop->seat_count > 0; i++) {
            for (pw_seat *seat = loop->seats[i]; seat; seat = seat->next_in_table) {
                pw_seat_look(loop, seat);
            }
        }
    }
}

/* --- Stepping --- */

void pw_loop_send(pw_loop *loop, pw_job *job)
{
    job->next = NULL;
    if (loop->outbox_last) {
        loop->outbox_last->next = job;
    } else {
        loop->outbox_first = job;
    }
    loop->outbox_last = job;
}

static void take_entropy(pw_loop *loop, uint8_t to[32])
{
    if (loop->entropy_left < 32) {
        pw_entropy(loop->entropy, sizeof loop->entropy);
        loop->entropy_left = sizeof loop->entropy;
    }
    loop->entropy_left -= 32;
    memcpy(to, loop->entropy + loop->entropy_left, 32);
    memset(loop->entropy + loop->entropy_left, 0, 32);
}

static void append_answered(pw_loop *loop, pw_note *note);

static void append_done(pw_job *job)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)job;
    pw_loop_tell(mine->loop, &mine->note);
}

static void do_append(pw_loop *loop, pw_seat *seat, const pw_append *append)
{
    pw_seat_job *mine = &seat->append;
    PW_ASSERT(!mine->busy && !seat->transact.busy);
    mine->busy = true;
    mine->op =
        (pw_op){.kind = PW_OP_APPEND,
                .append = {.session_id = seat->id, .epoch = seat->row.epoch, .append = append}};
    mine->job = (pw_job){.ops = &mine->op, .count = 1, .done = append_done};
    mine->note.act = append_answered;
    pw_loop_send(loop, &mine->job);
}

/* Records that come amid a message and end none. */
static bool leaves_message_open(const pw_append *append)
{
    for (size_t i = 0; i < append->record_count; i++) {
        const pw_record_kind kind = append->records[i].kind;
        if (kind != PW_RECORD_MODEL_ACCEPTED && kind != PW_RECORD_TOOL_LATE) {
            return false;
        }
    }
    return true;
}

/* What an append that became durable means beyond the machine: who waits is told, and more may be
 * read. */
void pw_loop_committed(pw_loop *loop, pw_seat *seat, const pw_append *append)
{
    const uint64_t last_seq = append->records[append->record_count - 1].seq;
    if (leaves_message_open(append)) {
        pw_hub_passed(loop->p->hub, seat->id, last_seq);
    } else {
        pw_hub_committed(loop->p->hub, seat->id, last_seq, seat->state != PW_SEAT_GONE);
    }
    if (append->receipt && seat->suspect) {
        pw_seat_suspect(loop, seat, false);
        pw_owner_sweep(loop); /* another suspect may be taken now (C4) */
    }
    if (append->turn_ended_seq > 0) {
        pw_waiters_tell(&loop->p->waiters, seat->id);
    }
    if (append->consumed_count > 0 && seat->inbox_more) {
        pw_seat_look(loop, seat);
    }
}

/* Asks a session once to stop at its next boundary; without memory for that it is asked again at
 * the next turn of the loop. */
static void give_drain(pw_loop *loop, pw_seat *seat)
{
    const pw_allocator *allocator = loop->p->allocator;
    pw_given *given =
        seat->drain_given ? NULL : allocator->resize(allocator->ctx, NULL, 0, sizeof *given);
    if (given) {
        *given = (pw_given){.input = {.kind = PW_IN_DRAIN}, .used = pw_given_free};
        seat->drain_given = true;
        pw_seat_give(loop, seat, given);
    }
}

/* Does this append end the turn that the request named at start belongs to (J2)? */
static bool ends_the_request(pw_loop *loop, const pw_append *append)
{
    if (append->turn_ended_seq == 0 || loop->until_request.len == 0) {
        return false;
    }
    pw_arena scratch;
    pw_arena_init(&scratch, loop->p->allocator, 0, 0);
    const pw_json *body = NULL;
    bool named = false;
    for (size_t i = 0; i < append->record_count && !named; i++) {
        const pw_record *record = &append->records[i];
        if (record->kind == PW_RECORD_TURN_ENDED &&
            pw_json_parse(&scratch, record->body, 0, &body, NULL) == PW_OK) {
            const pw_json *requests = pw_json_get(body, "requests");
            for (const pw_json *id = requests ? requests->child : NULL; id; id = id->next) {
                named = named || pw_str_equal(pw_json_text(id), loop->until_request);
            }
        }
    }
    pw_arena_free(&scratch);
    return named;
}

static void append_answered(pw_loop *loop, pw_note *note)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)((char *)note - offsetof(pw_seat_job, note));
    pw_seat *seat = mine->seat;
    const pw_append *append = mine->op.append.append;
    pw_status status = mine->op.status;
    mine->busy = false;
    if (status == PW_OK && seat->session) {
        pw_loop_committed(loop, seat, append);
    }
    if (seat->state != PW_SEAT_OPEN) {
        pw_seat_answered(loop, seat, status);
        return;
    }
    seat->append_given =
        (pw_given){.input = {.kind = PW_IN_APPENDED, .appended = {.ticket = append->ticket}}};
    if (status == PW_OK) {
        if (ends_the_request(loop, append)) { /* before the answer: no further turn is claimed */
            loop->draining = true;
            give_drain(loop, seat);
        }
        pw_seat_give(loop, seat, &seat->append_given);
        return;
    }
    pw_seat_refused(loop, seat, append->ticket, status, &mine->op.error);
}

/* An append or transaction was answered otherwise than PW_OK: the machine is told in the four words
 * it knows (J4). */
void pw_seat_refused(pw_loop *loop, pw_seat *seat, uint64_t ticket, pw_status status,
                     const pw_error *error)
{
    if (status != PW_STALE && status != PW_FENCED && status != PW_UNKNOWN) {
        if (status != PW_NOT_COMMITTED && !pw_status_may_retry(status)) {
            pw_log(loop->p, 0, "append_refused", "session %lld: %s: %s", (long long)seat->id,
                   pw_status_code(status), error->message);
        }
        status = PW_NOT_COMMITTED;
    }
    seat->unknown = status == PW_UNKNOWN;
    seat->fenced = status == PW_FENCED;
    seat->append_given.input = (pw_input){.kind = PW_IN_NOT_APPENDED,
                                          .not_appended = {.ticket = ticket, .status = status}};
    if (status == PW_STALE) {
        seat->stale = true;
        pw_seat_look(loop, seat);
        return;
    }
    pw_seat_give(loop, seat, &seat->append_given);
}

static void do_tell(pw_loop *loop, pw_seat *seat, const pw_effect *effect)
{
    pw_hub_delta(loop->p->hub, seat->id, effect->tell.after_seq, effect->tell.step,
                 effect->tell.attempt, effect->tell.text_bytes, effect->tell.reasoning,
                 effect->tell.bytes);
}

static void do_effects(pw_loop *loop, pw_seat *seat, const pw_effects *effects)
{
    bool memory = true;
    for (size_t i = 0; i < effects->count; i++) {
        const pw_effect *effect = &effects->list[i];
        switch (effect->kind) {
        case PW_DO_APPEND:
            do_append(loop, seat, effect->append);
            break;
        case PW_DO_TRANSACT:
            pw_begin_transact(loop, seat, effect->transact.append, effect->transact.receipt,
                              effect->transact.call);
            break;
        case PW_DO_MODEL:
            memory = pw_begin_model(loop, seat, effect->model) && memory;
            break;
        case PW_DO_TOOL:
            memory = pw_begin_tool(loop, seat, effect->tool) && memory;
            break;
        case PW_DO_ABORT:
            pw_running_abort_call(loop, seat, effect->abort.call, effect->abort.for_good);
            break;
        case PW_DO_TELL:
            do_tell(loop, seat, effect);
            break;
        case PW_DO_WAKE:
            seat->wake_at_ms = effect->wake_at_ms;
            seat->wake_told = false;
            seat->wake_monotonic_ms = pw_monotonic_ms() + (effect->wake_at_ms - pw_now_ms());
            break;
        case PW_DO_REST:
            seat->rest = true;
            seat->rest_released = effect->rest.released;
            break;
        }
    }
    if (!memory && !seat->rest) {
        seat->reload =
            true; /* an effect could not be begun: load anew and decide anew, nothing is lost */
    }
}

/* One input, its effects. False: it was refused and must be given again. */
static bool step(pw_loop *loop, pw_seat *seat, const pw_input *input)
{
    pw_effects effects = {0};
    pw_status status = pw_session_step(seat->session, input, &effects);
    if (status == PW_NOMEM) {
        pw_alarm_set(&loop->alarms, &seat->retry, pw_monotonic_ms() + PW_RETRY_MS);
        return false;
    }
    if (status != PW_OK) {
        pw_log(loop->p, 0, "step_failed", "session %lld: %s", (long long)seat->id,
               pw_status_code(status));
        seat->reload = seat->failed =
            true; /* what cannot be read now cannot be read at once again */
        return true;
    }
    do_effects(loop, seat, &effects);
    return true;
}

static void step_seat(pw_loop *loop, pw_seat *seat)
{
    if (seat->state != PW_SEAT_OPEN) {
        return;
    }
    pw_input time = {.kind = PW_IN_TIME, .time = {.now_ms = pw_now_ms()}};
    take_entropy(loop, time.time.random);
    if (!step(loop, seat, &time)) {
        return;
    }
    while (seat->first && !seat->rest && !seat->reload) {
        pw_given *given = seat->first;
        if (!step(loop, seat, &given->input)) {
            break;
        }
        if (given->input.kind == PW_IN_INBOX) { /* what still waits to be stepped is not seen */
            seat->looked_n = given->input.inbox.looked_n;
        }
        seat->first = given->next;
        if (!seat->first) {
            seat->last = NULL;
        }
        if (given->used) {
            given->used(loop, seat, given);
        }
    }
    if (seat->rest) {
        pw_seat_rested(loop, seat);
    } else if (seat->reload) {
        pw_seat_lost(loop, seat);
    } else {
        pw_seat_arm(loop, seat);
    }
}

void pw_seat_mark_ready(pw_loop *loop, pw_seat *seat)
{
    if (seat->ready) {
        return;
    }
    seat->ready = true;
    seat->next_ready = NULL;
    if (loop->ready_last) {
        loop->ready_last->next_ready = seat;
    } else {
        loop->ready_first = seat;
    }
    loop->ready_last = seat;
}

void pw_seat_give(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    given->next = NULL;
    if (seat->last) {
        seat->last->next = given;
    } else {
        seat->first = given;
    }
    seat->last = given;
    pw_seat_mark_ready(loop, seat);
}

/* Steps every seat that was ready when the round began; those made ready meanwhile are the next
 * round's. */
static void step_round(pw_loop *loop)
{
    pw_seat *last = loop->ready_last;
    while (loop->ready_first) {
        pw_seat *seat = loop->ready_first;
        loop->ready_first = seat->next_ready;
        if (!loop->ready_first) {
            loop->ready_last = NULL;
        }
        seat->ready = false;
        bool end = seat == last;
        step_seat(loop, seat);
        pw_seat_sweep_up(loop, seat);
        if (end) {
            break;
        }
    }
    pw_job *jobs = loop->outbox_first;
    loop->outbox_first = loop->outbox_last = NULL;
    pw_writer_give_all(loop->p->writer, jobs);
}

static void fire_alarms(pw_loop *loop)
{
    int64_t now_ms = pw_monotonic_ms();
    pw_alarm *alarm;
    while ((alarm = pw_alarm_due(&loop->alarms, now_ms))) {
        alarm->fire(loop, alarm);
    }
}

static void on_async(uv_async_t *async)
{
    (void)async; /* it only ends the wait: notes are drained after uv_run */
}

/* uv_run calls this before it polls, and would then wait for other events with no timer left. */
static void on_timer(uv_timer_t *timer)
{
    ((pw_loop *)timer->data)->timer_at_ms = -1;
    uv_stop(timer->loop);
}

static void arm_timer(pw_loop *loop)
{
    int64_t next_ms = pw_alarm_next(&loop->alarms);
    if (next_ms == loop->timer_at_ms) {
        return;
    }
    loop->timer_at_ms = next_ms;
    if (next_ms < 0) {
        (void)uv_timer_stop(&loop->timer);
        return;
    }
    int64_t left_ms = next_ms - pw_monotonic_ms();
    uv_update_time(&loop->uv);
    (void)uv_timer_start(&loop->timer, on_timer, left_ms > 0 ? (uint64_t)left_ms : 0, 0);
}

/* --- After a burst --- */

static void give_back(pw_job *job)
{
    pw_loop *loop = (pw_loop *)(void *)((char *)job - offsetof(pw_loop, give_back));
    pw_blocks_give_back(&loop->blocks);
    pw_heap_trim();
    atomic_store(&loop->giving_back, false);
}

static bool is_calm(const pw_loop *loop)
{
    return loop->seat_high >= BURST && loop->seat_total <= loop->seat_high / BURST;
}

static void fire_calm(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    (void)alarm;
    if (is_calm(loop) && !loop->stopping && !atomic_exchange(&loop->giving_back, true)) {
        loop->seat_high = loop->seat_total;
        loop->give_back = (pw_job){.done = give_back};
        pw_readers_give(loop->readers, &loop->give_back);
    }
}

/* What many sessions had is given back to the kernel when most of them are gone and none came for a
 * while: not on every rest, since it would be faulted in anew. */
void pw_loop_calm(pw_loop *loop)
{
    if (is_calm(loop)) {
        pw_alarm_set(&loop->alarms, &loop->calm, pw_monotonic_ms() + CALM_MS);
    }
}

/* --- Draining and closing --- */

static void look_drained(pw_loop *loop)
{
    if (!loop->draining || loop->seat_total > 0) {
        return;
    }
    uv_mutex_lock(&loop->mutex);
    loop->drained = true;
    uv_cond_broadcast(&loop->changed);
    uv_mutex_unlock(&loop->mutex);
}

void pw_given_free(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)seat;
    loop->p->allocator->resize(loop->p->allocator->ctx, given, sizeof *given, 0);
}

static void ask_to_drain(pw_loop *loop)
{
    for (size_t i = 0; i < PW_SEAT_BUCKETS && loop->seat_count > 0; i++) {
        pw_seat *next;
        for (pw_seat *seat = loop->seats[i]; seat; seat = next) {
            next = seat->next_in_table;
            if (seat->drain_given) {
                continue;
            }
            if (seat->state == PW_SEAT_LOST || seat->state == PW_SEAT_FAILING) {
                pw_seat_leave(loop, seat);
            } else if (seat->state == PW_SEAT_OPEN) {
                give_drain(loop, seat);
            }
        }
    }
}

static void act_drain(pw_loop *loop, pw_note *note)
{
    (void)note;
    loop->draining = true;
}

static void act_stop(pw_loop *loop, pw_note *note)
{
    (void)note;
    loop->draining = loop->stopping = true;
}

static void on_tools_closed(void *ctx)
{
    ((pw_loop *)ctx)->tools_closed = true;
}

static void on_http_closed(void *ctx)
{
    ((pw_loop *)ctx)->http_closed = true;
}

static void on_handle_closed(uv_handle_t *handle)
{
    (void)handle;
}

/* One step of closing at a time: seats let go, then tools, then transfers, then our own handles.
 * True: all is over. */
static bool close_on(pw_loop *loop)
{
    switch (loop->closing_step) {
    case 0:
        for (size_t i = 0; i < PW_SEAT_BUCKETS; i++) {
            pw_seat *next;
            for (pw_seat *seat = loop->seats[i]; seat; seat = next) {
                next = seat->next_in_table;
                pw_seat_leave(loop, seat);
            }
        }
        loop->closing_step = 1;
        pw_tool_runner_close(loop->tools, on_tools_closed, loop);
        return false;
    case 1:
        /* A farewell has a short limit of its own, and its turn's end is often ours too. */
        if (loop->seat_total > 0 || !loop->tools_closed || pw_owner_busy(loop) || loop->farewells) {
            return false;
        }
        loop->closing_step = 2;
        pw_http_close(loop->http, on_http_closed, loop);
        return false;
    case 2:
        if (!loop->http_closed) {
            return false;
        }
        loop->closing_step = 3;
        return true;
    default:
        return true;
    }
}

static void loop_main(void *argument)
{
    pw_loop *loop = argument;
    pw_owner_begin(loop);
    for (;;) {
        drain_notes(loop);
        fire_alarms(loop);
        if (loop->draining && !loop->stopping) {
            ask_to_drain(loop);
        }
        step_round(loop);
        look_drained(loop);
        if (loop->stopping && close_on(loop)) {
            break;
        }
        if (loop->outbox_first) {
            continue; /* given by what closes: hand it over first */
        }
        arm_timer(loop);
        bool more = loop->ready_first != NULL ||
                    (loop->closing_step > 0 && loop->tools_closed && loop->http_closed);
        (void)uv_run(&loop->uv, more ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
    look_drained(loop);
}

bool pw_loop_here(const pw_loop *loop)
{
    uv_thread_t self = uv_thread_self();
    return uv_thread_equal(&loop->thread, &self) != 0;
}

pw_status pw_loop_drain(pw_loop *loop, int64_t timeout_ms)
{
    int64_t until_ms = pw_monotonic_ms() + timeout_ms;
    pw_status status = PW_OK;
    uv_mutex_lock(&loop->mutex);
    if (!loop->drain_told) {
        loop->drain_told = true;
        loop->drain_note.act = act_drain;
        pw_loop_tell(loop, &loop->drain_note);
    }
    while (!loop->drained && status == PW_OK) {
        int64_t left_ms = until_ms - pw_monotonic_ms();
        if (timeout_ms < 0) {
            uv_cond_wait(&loop->changed, &loop->mutex);
        } else if (left_ms <= 0) {
            status = PW_TIMEOUT;
        } else {
            (void)uv_cond_timedwait(&loop->changed, &loop->mutex, (uint64_t)left_ms * 1000000u);
        }
    }
    uv_mutex_unlock(&loop->mutex);
    return status;
}

/* --- Making and ending it --- */

static void free_halves(pw_loop *loop)
{
    pw_readers_close(loop->readers);
    pw_owner_free(loop);
    uv_cond_destroy(&loop->changed);
    uv_mutex_destroy(&loop->mutex);
    pw_blocks_free(&loop->blocks);
    loop->p->allocator->resize(loop->p->allocator->ctx, loop, sizeof *loop, 0);
}

/* The loop was never run: its handles are closed by the thread that made it. */
static void close_unrun(pw_loop *loop, bool handles)
{
    loop->tools_closed = !loop->tools;
    loop->http_closed = !loop->http;
    if (loop->tools) {
        pw_tool_runner_close(loop->tools, on_tools_closed, loop);
    }
    if (loop->http) {
        pw_http_close(loop->http, on_http_closed, loop);
    }
    while (!loop->tools_closed || !loop->http_closed) {
        (void)uv_run(&loop->uv, UV_RUN_ONCE);
    }
    if (handles) {
        uv_close((uv_handle_t *)&loop->async, on_handle_closed);
        uv_close((uv_handle_t *)&loop->timer, on_handle_closed);
    }
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0) {
    }
    (void)uv_loop_close(&loop->uv);
    free_halves(loop);
}

static pw_status start_parts(pw_loop *loop, pw_error *error)
{
    pawl *p = loop->p;
    pw_tool_host host = {
        .loop = &loop->uv, .allocator = p->allocator, .done = pw_tool_ended, .ctx = loop};
    host.store_path = pw_setup_store_path(p);
    host.threads = p->options.threads;
    host.outbound = p->outbound;
    PW_TRY(pw_readers_new(p, &loop->readers, error));
    PW_TRY(pw_tool_runner_new(&host, &loop->tools, error));
    PW_TRY(pw_http_new(&loop->uv, p->allocator, pw_model_heard, loop, &loop->http, error));
    return PW_OK;
}

pw_status pw_loop_new(pawl *p, const pawl_start_options *options, pw_loop **ret, pw_error *error)
{
    pw_loop *loop = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof *loop);
    if (!loop) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    memset(loop, 0, sizeof *loop);
    loop->p = p;
    loop->timer_at_ms = -1;
    loop->calm.fire = fire_calm;
    loop->owner.lease_ms = options->lease_ms > 0 ? options->lease_ms : 10000;
    loop->take_over = options->take_over != 0;
    atomic_init(&loop->notes, NULL);
    atomic_init(&loop->poked, false);
    pw_status status = pw_arena_dup(&p->arena, (pw_str){options->session.ptr, options->session.len},
                                    &loop->only_session);
    if (status == PW_OK) {
        status = pw_arena_dup(&p->arena,
                              (pw_str){options->until_request.ptr, options->until_request.len},
                              &loop->until_request);
    }
    status =
        status == PW_OK ? pw_blocks_init(&loop->blocks, p->allocator, BLOCKS_KEPT_MAX) : status;
    if (status != PW_OK) {
        p->allocator->resize(p->allocator->ctx, loop, sizeof *loop, 0);
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (uv_mutex_init(&loop->mutex) != 0) {
        pw_blocks_free(&loop->blocks);
        p->allocator->resize(p->allocator->ctx, loop, sizeof *loop, 0);
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (uv_cond_init(&loop->changed) != 0 || uv_loop_init(&loop->uv) != 0) {
        uv_mutex_destroy(&loop->mutex);
        pw_blocks_free(&loop->blocks);
        p->allocator->resize(p->allocator->ctx, loop, sizeof *loop, 0);
        return PW_FAIL(error, PW_UNAVAILABLE, "an event loop cannot be made");
    }
    if (uv_async_init(&loop->uv, &loop->async, on_async) != 0) {
        close_unrun(loop, false);
        return PW_FAIL(error, PW_UNAVAILABLE, "an event loop cannot be made");
    }
    (void)uv_timer_init(&loop->uv, &loop->timer);
    loop->timer.data = loop;
    status = start_parts(loop, error);
    if (status != PW_OK) {
        close_unrun(loop, true);
        return status;
    }
    *ret = loop;
    return PW_OK;
}

pw_status pw_loop_run(pw_loop *loop, pw_error *error)
{
    return pw_thread_start(&loop->thread, loop_main, loop, error);
}

void pw_loop_abandon(pw_loop *loop)
{
    close_unrun(loop, true);
}

void pw_loop_stop(pw_loop *loop)
{
    loop->stop_note.act = act_stop;
    pw_loop_tell(loop, &loop->stop_note);
    (void)uv_thread_join(&loop->thread);
}

/* After the thread ended and the writer, the last who may wake it. */
void pw_loop_close(pw_loop *loop)
{
    pw_note *next;
    for (pw_note *note = atomic_exchange(&loop->notes, NULL); note;
         note = next) { /* told too late */
        next = note->next;
        if (note->act == act_hint) {
            loop->p->allocator->resize(loop->p->allocator->ctx, note, sizeof(hint_note), 0);
        }
    }
    uv_close((uv_handle_t *)&loop->async, on_handle_closed);
    uv_close((uv_handle_t *)&loop->timer, on_handle_closed);
    while (uv_run(&loop->uv, UV_RUN_DEFAULT) != 0) {
    }
    (void)uv_loop_close(&loop->uv);
    pw_farewells_free(loop);
    free_halves(loop);
}
