/*
 * The life of a seat: taking a session, letting go of it, losing and regaining it; loop.h has the
 * states. Runs on the loop thread; the small done() functions only pass the answer on. Must never
 * free what a job or a call still reads.
 */
#include "runtime/loop.h"

enum { BACKOFF_MIN_MS = 100, BACKOFF_MAX_MS = 5000, FAILING_MS = 30000, TAKE_AGAIN_MS = 200 };

/* --- The table --- */

static pw_seat **place_of(pw_loop *loop, int64_t id)
{
    return &loop->seats[(uint64_t)id % PW_SEAT_BUCKETS];
}

pw_seat *pw_seat_find(pw_loop *loop, int64_t id)
{
    pw_seat *seat = *place_of(loop, id);
    while (seat && seat->id != id) {
        seat = seat->next_in_table;
    }
    return seat;
}

static void unlink_seat(pw_loop *loop, pw_seat *seat)
{
    pw_seat **at = place_of(loop, seat->id);
    while (*at && *at != seat) {
        at = &(*at)->next_in_table;
    }
    if (*at) {
        *at = seat->next_in_table;
        loop->seat_count--;
    }
}

static pw_seat *new_seat(pw_loop *loop, int64_t id)
{
    const pw_allocator *allocator = &loop->blocks.allocator;
    pw_seat *seat = allocator->resize(allocator->ctx, NULL, 0, sizeof *seat);
    if (!seat) {
        return NULL;
    }
    memset(seat, 0, sizeof *seat);
    seat->id = id;
    seat->wake_at_ms = -1;
    seat->own.seat = seat->append.seat = seat->inbox.seat = seat->transact.seat = seat;
    seat->own.loop = seat->append.loop = seat->inbox.loop = seat->transact.loop = loop;
    seat->wake.fire = pw_seat_fire_wake;
    seat->retry.fire = pw_seat_fire_retry;
    pw_arena_init(&seat->arena, allocator, 1024, 0);
    pw_arena_init(&seat->inbox_arena, allocator, 4096, 0);
    pw_arena_init(&seat->transact.arena, allocator, 4096, 0);
    pw_render_init(&seat->render, allocator);
    pw_seat **place = place_of(loop, id);
    seat->next_in_table = *place;
    *place = seat;
    loop->seat_count++;
    loop->seat_total++;
    loop->seat_high = loop->seat_high > loop->seat_total ? loop->seat_high : loop->seat_total;
    return seat;
}

/* Inputs not stepped: what a call said is kept for the session's next life when `keep_calls`, all
 * else is stale by then. */
static void clear_inputs(pw_loop *loop, pw_seat *seat, bool keep_calls)
{
    pw_given *given = seat->first;
    seat->first = seat->last = NULL;
    while (given) {
        pw_given *next = given->next;
        if (keep_calls && given->of_call) {
            pw_seat_give(loop, seat, given);
        } else if (given->used) {
            given->used(loop, seat, given);
        }
        given = next;
    }
}

void pw_seat_sweep_up(pw_loop *loop, pw_seat *seat)
{
    if (seat->state != PW_SEAT_GONE || seat->ready || seat->own.busy || seat->append.busy ||
        seat->transact.busy || seat->inbox.busy || seat->running) {
        return;
    }
    pw_session_free(seat->session);
    pw_pinned_release(loop, seat->pinned);
    pw_render_free(&seat->render);
    pw_arena_free(&seat->arena);
    pw_arena_free(&seat->inbox_arena);
    pw_arena_free(&seat->transact.arena);
    loop->blocks.allocator.resize(&loop->blocks, seat, sizeof *seat, 0);
    loop->seat_total--;
    pw_loop_calm(loop);
}

static void abort_calls(pw_loop *loop, pw_seat *seat)
{
    pw_running *next;
    for (pw_running *running = seat->running; running; running = next) {
        next = running->next_in_seat;
        pw_running_abort(loop, running);
    }
}

void pw_seat_drop(pw_loop *loop, pw_seat *seat)
{
    if (seat->state == PW_SEAT_GONE) {
        return;
    }
    bool again =
        (seat->hinted || seat->inbox_again || seat->inbox.busy) && !loop->draining && !seat->failed;
    seat->state = PW_SEAT_GONE;
    unlink_seat(loop, seat);
    pw_alarm_clear(&loop->alarms, &seat->wake);
    pw_alarm_clear(&loop->alarms, &seat->retry);
    pw_hub_forget(loop->p->hub, seat->id);
    if (!seat->append.busy && !seat->transact.busy) {
        pw_running_forget_requests(seat);
        pw_session_free(seat->session);
        seat->session = NULL;
    }
    clear_inputs(loop, seat, false);
    abort_calls(loop, seat);
    pw_seat_mark_ready(loop, seat); /* swept up after this round */
    if (again) {
        pw_owner_hint(loop, seat->id, seat->agent);
    }
    if (loop->owner.starved || seat->suspect) {
        pw_owner_sweep(loop);
    }
    pw_seat_suspect(loop, seat, false);
}

/* --- Taking --- */

static void note_done(pw_job *job)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)job;
    pw_loop_tell(mine->loop, &mine->note);
}

static void send_own(pw_loop *loop, pw_seat *seat, void (*act)(pw_loop *, pw_note *))
{
    seat->own.busy = true;
    seat->own.job = (pw_job){.ops = &seat->own.op, .count = 1, .done = note_done};
    seat->own.note.act = act;
    pw_loop_send(loop, &seat->own.job);
}

/* C4: sessions that were interrupted twice are run one at a time. */
void pw_seat_suspect(pw_loop *loop, pw_seat *seat, bool suspect)
{
    if (seat->suspect != suspect) {
        seat->suspect = suspect;
        loop->suspect_count = suspect ? loop->suspect_count + 1 : loop->suspect_count - 1;
    }
}

static void act_taken(pw_loop *loop, pw_note *note);

static void send_take(pw_loop *loop, pw_seat *seat)
{
    const pw_dead_owner *dead = NULL;
    size_t dead_count = 0;
    (void)pw_owner_dead_list(loop, &seat->arena, &dead,
                             &dead_count); /* without it: not free, and tried again later */
    bool refuse = loop->suspect_count > (seat->suspect ? 1u : 0u);
    seat->state = PW_SEAT_TAKING;
    seat->own.op = (pw_op){.kind = PW_OP_TAKE,
                           .arena = &seat->arena,
                           .take = {.session_id = seat->id,
                                    .owner = loop->owner.id,
                                    .dead = dead,
                                    .dead_count = dead_count,
                                    .take_over = seat->took_over,
                                    .reload = seat->reload,
                                    .only_due = !seat->took_over && !seat->reload,
                                    .max_attempts = PW_MAX_ATTEMPTS,
                                    .refuse_suspect_from = refuse ? 2 : -1,
                                    .now_ms = pw_now_ms()}};
    send_own(loop, seat, act_taken);
}

pw_seat *pw_seat_take(pw_loop *loop, int64_t id, const pw_agent *agent, const pw_session_row *row,
                      bool take_over)
{
    if (loop->seat_count >= PW_SEATS_MAX) {
        loop->owner.starved = true;
        return NULL;
    }
    pw_seat *seat = new_seat(loop, id);
    if (!seat) {
        loop->owner.starved = true;
        return NULL;
    }
    seat->agent = agent;
    seat->took_over = take_over;
    pw_seat_suspect(loop, seat,
                    row && row->crashes >= 1 && row->owner.len > 0 && row->turn.len > 0);
    send_take(loop, seat);
    return seat;
}

/* --- Letting go of the row without an append --- */

static void send_release(pw_loop *loop, pw_seat *seat);

/* What went wrong in a row is tried again a little later each time. */
static int64_t next_backoff_ms(pw_seat *seat)
{
    int64_t doubled_ms = seat->backoff_ms ? seat->backoff_ms * 2 : BACKOFF_MIN_MS;
    seat->backoff_ms = doubled_ms < BACKOFF_MAX_MS ? doubled_ms : BACKOFF_MAX_MS;
    return seat->backoff_ms;
}

static void act_released(pw_loop *loop, pw_note *note)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)((char *)note - offsetof(pw_seat_job, note));
    pw_seat *seat = mine->seat;
    mine->busy = false;
    pw_status status = mine->op.status;
    if (seat->state == PW_SEAT_GONE) {
        pw_seat_mark_ready(loop, seat);
        return;
    }
    bool again = status != PW_OK && status != PW_FENCED && !loop->stopping;
    if (again) { /* ours until the store says otherwise: let go later */
        pw_alarm_set(&loop->alarms, &seat->retry, pw_monotonic_ms() + next_backoff_ms(seat));
        return;
    }
    if (seat->failed && !loop->draining) {
        seat->state = PW_SEAT_FAILING;
        pw_alarm_set(&loop->alarms, &seat->retry, pw_monotonic_ms() + FAILING_MS);
        return;
    }
    pw_seat_drop(loop, seat);
}

/* What the machine last asked for, but never later than the row's state demands (A7). */
static int64_t release_wake_ms(const pw_seat *seat)
{
    if (!seat->session) {
        return seat->row.wake_at_ms;
    }
    pw_session_view view = pw_session_look(seat->session);
    bool owed = (view.turn.len > 0 && view.state == PW_TURN_RUNNING) ||
                (view.turn.len == 0 && view.waiting > 0);
    if (owed) {
        return view.turn.len > 0 || seat->wake_at_ms < 0 ? 0 : seat->wake_at_ms;
    }
    return view.turn.len > 0 && view.state == PW_TURN_WAITING && seat->wake_at_ms < 0
               ? 0
               : seat->wake_at_ms;
}

static void send_release(pw_loop *loop, pw_seat *seat)
{
    seat->state = PW_SEAT_LETTING_GO;
    pw_alarm_clear(&loop->alarms, &seat->retry); /* of the state before: it would send this twice */
    seat->own.op =
        (pw_op){.kind = PW_OP_RELEASE,
                .release = {.session_id = seat->id,
                            .epoch = seat->row.epoch,
                            .wake_at_ms = release_wake_ms(seat),
                            .looked_n = seat->looked_n ? seat->looked_n : seat->row.admitted}};
    send_own(loop, seat, act_released);
}

/* A lost session is asked for again until the store answers; each time a little later. */
static void try_later(pw_loop *loop, pw_seat *seat)
{
    seat->state = PW_SEAT_LOST;
    seat->reload = true;
    pw_alarm_set(&loop->alarms, &seat->retry, pw_monotonic_ms() + next_backoff_ms(seat));
}

static void took(pw_loop *loop, pw_seat *seat)
{
    seat->row = seat->own.op.take.row;
    pw_seat_suspect(loop, seat, seat->row.crashes >= 2);
    seat->looked_n = 0;
    if (!seat->agent) {
        seat->agent = pw_agent_find(loop->p, seat->row.agent);
    }
    bool mine = !seat->agent || pw_str_equal(seat->agent->name, seat->row.agent);
    if (loop->draining || !mine || seat->failed) {
        send_release(loop, seat);
        return;
    }
    if (!pw_seat_load(loop, seat)) {
        try_later(loop, seat);
    }
}

static void act_taken(pw_loop *loop, pw_note *note)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)((char *)note - offsetof(pw_seat_job, note));
    pw_seat *seat = mine->seat;
    mine->busy = false;
    pw_status status = mine->op.status;
    if (seat->state == PW_SEAT_GONE) {
        pw_seat_mark_ready(loop, seat);
        return;
    }
    if (status == PW_OK && mine->op.take.answer == PW_TOOK) {
        took(loop, seat);
        return;
    }
    if (status == PW_OK) {
        if (mine->op.take.answer == PW_TAKE_QUARANTINED) {
            pw_log(loop->p, 0, "quarantined", "session %lld is set aside after repeated crashes",
                   (long long)seat->id);
        }
        seat->hinted = seat->hinted && mine->op.take.answer == PW_TAKE_NOTHING_DUE;
        pw_seat_suspect(loop, seat, false); /* refused: not a reason to look again at once */
        pw_seat_drop(loop, seat);
        return;
    }
    if (status == PW_FENCED) { /* this process's row is gone (J2) */
        loop->owner.rejoin = true;
        pw_seat_drop(loop, seat);
        return;
    }
    if (seat->reload || status == PW_UNKNOWN) {
        if (loop->draining) {
            send_release(loop, seat); /* ours as before: left so, it would be an interruption */
        } else {
            try_later(loop, seat);
        }
        return;
    }
    pw_log(loop->p, 1, "take_refused", "session %lld: %s: %s", (long long)seat->id,
           pw_status_code(status), mine->op.error.message);
    pw_seat_drop(loop, seat);
    pw_owner_wake_at(loop, pw_now_ms() + TAKE_AGAIN_MS);
}

/* --- Reading its inbox --- */

static void inbox_used(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)given;
    pw_arena_reset(&seat->inbox_arena);
    seat->inbox.busy = false;
    if (seat->inbox_again && seat->state == PW_SEAT_OPEN) {
        pw_seat_look(loop, seat);
    }
}

static void act_inbox(pw_loop *loop, pw_note *note)
{
    pw_seat_job *mine = (pw_seat_job *)(void *)((char *)note - offsetof(pw_seat_job, note));
    pw_seat *seat = mine->seat;
    if (seat->state != PW_SEAT_OPEN) {
        pw_arena_reset(&seat->inbox_arena);
        mine->busy = false;
        seat->hinted = seat->hinted || seat->state != PW_SEAT_GONE;
        pw_seat_mark_ready(loop, seat);
        return;
    }
    if (mine->op.status != PW_OK) {
        pw_arena_reset(&seat->inbox_arena);
        mine->busy = false;
        seat->inbox_again = true;
        pw_alarm_set(&loop->alarms, &seat->retry, pw_monotonic_ms() + PW_RETRY_MS);
        return;
    }
    if (seat->stale_read) {
        seat->stale = seat->stale_read = false;
        pw_seat_give(loop, seat, &seat->append_given);
    }
    seat->inbox_more = mine->op.inbox.inbox.more;
    seat->inbox_given = (pw_given){.input = {.kind = PW_IN_INBOX, .inbox = mine->op.inbox.inbox},
                                   .used = inbox_used};
    pw_seat_give(loop, seat, &seat->inbox_given);
}

void pw_seat_look(pw_loop *loop, pw_seat *seat)
{
    if (seat->state != PW_SEAT_OPEN) {
        seat->hinted = true; /* a load reads the inbox, but perhaps it did already */
        return;
    }
    if (seat->inbox.busy) {
        seat->inbox_again = true;
        return;
    }
    seat->inbox_again = false;
    seat->stale_read = seat->stale;
    seat->inbox.busy = true;
    seat->inbox.op = (pw_op){.kind = PW_OP_INBOX,
                             .arena = &seat->inbox_arena,
                             .inbox = {.session_id = seat->id, .limit = PW_INBOX_LIMIT}};
    seat->inbox.job = (pw_job){.ops = &seat->inbox.op, .count = 1, .done = note_done};
    seat->inbox.note.act = act_inbox;
    pw_readers_give(loop->readers, &seat->inbox.job);
}

/* --- Waking --- */

/* A wake that passed was the machine's to act on; one it left standing is looked at again when the
 * clock was set back. */
void pw_seat_arm(pw_loop *loop, pw_seat *seat)
{
    if (seat->wake_at_ms < 0) {
        pw_alarm_clear(&loop->alarms, &seat->wake);
        return;
    }
    int64_t now_ms = pw_monotonic_ms();
    int64_t at_ms = seat->wake_monotonic_ms;
    if (seat->wake_told || at_ms <= now_ms) {
        int64_t left_ms = seat->wake_at_ms - pw_now_ms();
        at_ms = now_ms + (left_ms > 0 ? left_ms : 0);
    }
    if (at_ms > now_ms + PW_RECHECK_MS) {
        at_ms = now_ms + PW_RECHECK_MS;
    }
    if (!seat->wake.set || seat->wake.at_ms != at_ms) {
        pw_alarm_set(&loop->alarms, &seat->wake, at_ms);
    }
}

void pw_seat_fire_wake(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    pw_seat *seat = (pw_seat *)(void *)((char *)alarm - offsetof(pw_seat, wake));
    if (seat->state != PW_SEAT_OPEN || seat->wake_at_ms < 0) {
        return;
    }
    bool passed = pw_now_ms() >= seat->wake_at_ms;
    if (passed) {
        seat->wake_at_ms = -1; /* told once; the machine says when next */
    }
    if (passed || (!seat->wake_told && pw_monotonic_ms() > seat->wake_monotonic_ms + 1)) {
        seat->wake_told = true; /* not passed: the clock was set back; looked at again */
        pw_seat_mark_ready(loop, seat);
        return;
    }
    pw_seat_arm(loop, seat);
}

void pw_seat_fire_retry(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    pw_seat *seat = (pw_seat *)(void *)((char *)alarm - offsetof(pw_seat, retry));
    switch (seat->state) {
    case PW_SEAT_OPEN:
        if (seat->inbox_again && !seat->inbox.busy) {
            pw_seat_look(loop, seat);
        }
        pw_seat_mark_ready(loop, seat);
        break;
    case PW_SEAT_LOST:
        send_take(loop, seat);
        break;
    case PW_SEAT_LETTING_GO:
        send_release(loop, seat);
        break;
    case PW_SEAT_FAILING:
        pw_seat_drop(loop, seat);
        pw_owner_sweep(loop);
        break;
    case PW_SEAT_TAKING:
    case PW_SEAT_LOADING:
    case PW_SEAT_GONE:
        break;
    }
}

/* --- Letting go --- */

/* Everything of a life that a reload starts anew; what its calls said is kept (C12). */
static void forget_life(pw_loop *loop, pw_seat *seat)
{
    pw_hub_forget(loop->p->hub, seat->id);
    pw_alarm_clear(&loop->alarms, &seat->wake);
    pw_running_forget_requests(seat);
    pw_session_free(seat->session);
    seat->session = NULL;
    seat->wake_at_ms = -1;
    seat->hinted = seat->inbox_again = seat->inbox_more = seat->stale = seat->stale_read = false;
    seat->rest = seat->unknown = false;
    pw_pinned_release(loop, seat->pinned);
    seat->pinned = NULL;
    clear_inputs(loop, seat,
                 true); /* `render` stays: a request that is being sent borrows its bytes */
}

void pw_seat_lost(pw_loop *loop, pw_seat *seat)
{
    PW_ASSERT(seat->state == PW_SEAT_OPEN);
    seat->state = PW_SEAT_LOST;
    seat->reload = true;
    pw_alarm_clear(&loop->alarms, &seat->retry);
    if (seat->append.busy || seat->transact.busy) {
        return; /* its answer comes first: pw_seat_answered */
    }
    forget_life(loop, seat);
    if (loop->draining) {
        send_release(loop, seat);
        return;
    }
    try_later(loop, seat);
}

/* The answer to an append or transaction of a seat that is not OPEN any more. */
void pw_seat_answered(pw_loop *loop, pw_seat *seat, pw_status status)
{
    if (seat->state != PW_SEAT_LOST) {
        pw_seat_mark_ready(loop, seat); /* GONE: swept up */
    } else if (status == PW_FENCED) {
        pw_seat_drop(loop, seat);
    } else if (loop->draining) {
        send_release(loop, seat);
    } else {
        forget_life(loop, seat);
        try_later(loop, seat);
    }
}

void pw_seat_rested(pw_loop *loop, pw_seat *seat)
{
    seat->rest = false;
    if (seat->unknown && !seat->rest_released) {
        pw_seat_lost(loop, seat);
        return;
    }
    if (seat->rest_released || seat->fenced) {
        pw_seat_drop(loop, seat);
        return;
    }
    send_release(loop, seat);
}

void pw_seat_leave(pw_loop *loop, pw_seat *seat)
{
    switch (seat->state) {
    case PW_SEAT_OPEN:
        if (seat->append.busy || seat->transact.busy) {
            seat->state = PW_SEAT_LOST; /* let go when it is answered */
        } else {
            send_release(loop, seat);
        }
        abort_calls(loop, seat);
        break;
    case PW_SEAT_LOST:
        if (!seat->append.busy && !seat->transact.busy) {
            send_release(loop, seat);
        }
        break;
    case PW_SEAT_FAILING:
        pw_seat_drop(loop, seat);
        break;
    case PW_SEAT_LETTING_GO:
        if (!seat->own.busy) {
            pw_seat_drop(loop, seat);
        }
        break;
    case PW_SEAT_TAKING:
    case PW_SEAT_LOADING:
    case PW_SEAT_GONE:
        break; /* its answer is looked at with `stopping` in mind */
    }
}

void pw_seat_opened(pw_loop *loop, pw_seat *seat)
{
    seat->state = PW_SEAT_OPEN;
    seat->reload = seat->took_over = seat->rest = seat->unknown = seat->fenced = false;
    seat->drain_given = false;
    seat->backoff_ms = 0;
    if (seat->hinted) {
        seat->hinted = false;
        pw_seat_look(loop, seat);
    }
}

/* What cannot be read is let go and left alone for a while; what merely could not be read now is
 * tried again soon. */
void pw_seat_not_loaded(pw_loop *loop, pw_seat *seat, pw_status status)
{
    if (seat->state != PW_SEAT_LOADING) {
        pw_seat_mark_ready(loop, seat);
        return;
    }
    seat->failed = status != PW_OK && !pw_status_may_retry(status);
    if (status == PW_OK || seat->failed) {
        send_release(loop, seat);
        return;
    }
    try_later(loop, seat);
}
