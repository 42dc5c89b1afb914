/*
 * Calls under way: tools, transactions, and the table that models share. A call is known outside by
 * an id of this process, since two sessions may use the same one. Runs on the loop thread but for
 * run_transaction (the writer).
 *
 * A call ends once, by pw_running_end, with the one input that its seat gets; its memory lives
 * until that was stepped. A session that is gone meanwhile does not get it. Must never lose an end
 * for lack of memory: the input is part of the call.
 */
#include "base/format.h"
#include "runtime/loop.h"

static pw_running **bucket_of(pw_loop *loop, uint64_t id)
{
    return &loop->running[id % PW_RUNNING_BUCKETS];
}

pw_running *pw_running_find(pw_loop *loop, uint64_t id)
{
    pw_running *running = *bucket_of(loop, id);
    while (running && running->id != id) {
        running = running->next_in_table;
    }
    return running;
}

static void free_running(pw_loop *loop, pw_running *running)
{
    pw_alarm_clear(&loop->alarms, &running->alarm);
    pw_running **at = bucket_of(loop, running->id);
    while (*at != running) {
        at = &(*at)->next_in_table;
    }
    *at = running->next_in_table;
    at = &running->seat->running;
    while (*at != running) {
        at = &(*at)->next_in_seat;
    }
    *at = running->next_in_seat;
    if (running->stream) {
        running->provider->stream_free(running->stream);
    }
    pw_buffer_free(&running->body);
    pw_arena_free(&running->arena);
    loop->blocks.allocator.resize(&loop->blocks, running, sizeof *running, 0);
}

static void end_used(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)seat;
    free_running(loop, (pw_running *)(void *)((char *)given - offsetof(pw_running, last)));
}

pw_running *pw_running_new(pw_loop *loop, pw_seat *seat, uint64_t call, pw_str step, bool model)
{
    const pw_allocator *allocator = &loop->blocks.allocator;
    pw_running *running = allocator->resize(allocator->ctx, NULL, 0, sizeof *running);
    if (!running) {
        return NULL;
    }
    memset(running, 0, sizeof *running);
    running->id = ++loop->last_running;
    running->call = call;
    running->seat = seat;
    running->model = model;
    running->last.used = end_used;
    running->last.of_call = true;
    pw_arena_init(&running->arena, allocator, 1024, 0);
    pw_buffer_init(&running->body, allocator, 256 * 1024);
    pw_running **bucket = bucket_of(loop, running->id);
    running->next_in_table = *bucket;
    *bucket = running;
    running->next_in_seat = seat->running;
    seat->running = running;
    if (pw_arena_dup(&running->arena, step, &running->step) != PW_OK) {
        free_running(loop, running);
        return NULL;
    }
    return running;
}

void pw_running_end(pw_loop *loop, pw_running *running)
{
    PW_ASSERT(!running->ended);
    running->ended = true;
    pw_alarm_clear(&loop->alarms, &running->alarm);
    pw_seat *seat = running->seat;
    if (seat->state == PW_SEAT_GONE) {
        free_running(loop, running);
        pw_seat_mark_ready(loop, seat); /* it may be swept up now */
        return;
    }
    pw_seat_give(loop, seat, &running->last);
}

void pw_running_abort(pw_loop *loop, pw_running *running)
{
    if (running->ended || running->aborting) {
        return;
    }
    running->aborting = true;
    if (running->model) {
        pw_running_abort_model(loop, running);
    } else if (!loop->tools_closed) {
        pw_tool_abort(loop->tools, running->id, false);
    }
}

void pw_running_abort_call(pw_loop *loop, pw_seat *seat, uint64_t call, bool for_good)
{
    for (pw_running *running = seat->running; running; running = running->next_in_seat) {
        if (running->call == call) {
            if (for_good && !running->ended && !running->aborting && !loop->stopping) {
                pw_farewell_send(loop, running);
            }
            pw_running_abort(loop, running);
            return;
        }
    }
}

void pw_running_forget_requests(pw_seat *seat)
{
    for (pw_running *running = seat->running; running; running = running->next_in_seat) {
        running->request = NULL;
    }
}

/* --- Tools --- */

pw_tool_place pw_seat_place(const pw_seat *seat)
{
    return (pw_tool_place){.session = seat->row.name,
                           .directory = seat->agent ? seat->agent->directory : PW_STR_NONE};
}

static pw_status keep_outcome(pw_arena *arena, const pw_tool_outcome *outcome, pw_tool_outcome *ret)
{
    *ret = *outcome;
    PW_TRY(pw_arena_dup(arena, outcome->json, &ret->json));
    PW_TRY(pw_arena_dup(arena, outcome->error_class, &ret->error_class));
    return pw_arena_dup(arena, outcome->message, &ret->message);
}

static void end_tool(pw_loop *loop, pw_running *running, const pw_tool_outcome *outcome)
{
    if (keep_outcome(&running->arena, outcome, &running->outcome) != PW_OK) {
        running->outcome =
            (pw_tool_outcome){.kind = PW_TOOL_ABANDONED}; /* it ran, and what it said is lost */
    }
    running->last.input = (pw_input){.kind = PW_IN_TOOL_RESULT,
                                     .tool = {.call = running->call, .outcome = &running->outcome}};
    pw_running_end(loop, running);
}

void pw_tool_ended(void *context, uint64_t id, const pw_tool_outcome *outcome)
{
    pw_loop *loop = context;
    pw_running *running = pw_running_find(loop, id);
    if (running && !running->ended) {
        end_tool(loop, running, outcome);
    }
}

static void fire_limit(void *context, pw_alarm *alarm)
{
    pw_loop *loop = context;
    pw_running *running = (pw_running *)(void *)((char *)alarm - offsetof(pw_running, alarm));
    if (!running->ended && !running->aborting && !loop->tools_closed) {
        running->aborting = true;
        pw_tool_abort(loop->tools, running->id, true);
    }
}

bool pw_begin_tool(pw_loop *loop, pw_seat *seat, const pw_tool_call *call)
{
    pw_running *running = pw_running_new(loop, seat, call->call, call->step, false);
    if (!running) {
        return false;
    }
    pw_tool_call mine = *call;
    mine.call = running->id;
    pw_tool_place place = pw_seat_place(seat);
    pw_error error = {0};
    pw_status status = pw_tool_start(loop->tools, &mine, &place, &error);
    if (status == PW_OK) {
        running->alarm.fire = fire_limit;
        int64_t limit_ms = call->limit_ms > 0 ? call->limit_ms : 1;
        pw_alarm_set(&loop->alarms, &running->alarm, pw_monotonic_ms() + limit_ms);
        return true;
    }
    /* Nothing was started: what the host has set up wrongly is fatal (F2), what may pass is the
     * tool's error (F1). */
    bool fatal = status == PW_NOT_FOUND || status == PW_UNSUPPORTED;
    pw_tool_outcome outcome = {.kind = fatal ? PW_TOOL_FATAL : PW_TOOL_ERROR,
                               .error_class =
                                   fatal ? PW_STR_NONE : pw_str_from(pw_status_code(status)),
                               .message = pw_str_from(error.message)};
    end_tool(loop, running, &outcome);
    return true;
}

/* --- Transactions (D2) --- */

static pw_status run_transaction(void *context, void *handle, pw_arena *arena, pw_str *ret_body)
{
    pw_seat_transact *mine = context;
    pw_loop *loop = mine->loop;
    pw_tool_place place = pw_seat_place(mine->seat);
    pw_tool_outcome outcome = {.kind = PW_TOOL_FATAL};
    pw_status status = pw_tool_transact(loop->tools, mine->call, &place, handle,
                                        loop->p->traits.handle_kind, arena, &outcome);
    if (status != PW_OK) {
        bool fatal = status == PW_NOT_FOUND || status == PW_UNSUPPORTED || status == PW_INVALID;
        outcome = (pw_tool_outcome){.kind = fatal ? PW_TOOL_FATAL : PW_TOOL_ERROR,
                                    .error_class =
                                        fatal ? PW_STR_NONE : pw_str_from(pw_status_code(status)),
                                    .message = pw_str_from(pw_status_meaning(status))};
    }
    mine->outcome = outcome;
    mine->ran = true;
    if (outcome.kind != PW_TOOL_RESULT) {
        return PW_CANCELLED; /* rolled back; `outcome` says why */
    }
    return pw_receipt_fill(mine->transact.receipt, outcome.json, arena, ret_body);
}

static void transact_used(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)loop;
    (void)given;
    pw_arena_reset(&seat->transact.arena);
}

static void give_outcome(pw_loop *loop, pw_seat *seat, const pw_tool_outcome *outcome)
{
    seat->transact_outcome = *outcome;
    seat->append_given = (pw_given){
        .input = {.kind = PW_IN_TOOL_RESULT,
                  .tool = {.call = seat->transact.call->call, .outcome = &seat->transact_outcome}},
        .used = transact_used};
    pw_seat_give(loop, seat, &seat->append_given);
}

static void transact_failed(pw_loop *loop, pw_seat *seat)
{
    pw_seat_transact *mine = &seat->transact;
    const pw_transact *transact = &mine->transact;
    char text[120];
    if (transact->limit_passed) {
        (void)pw_format(text, sizeof text,
                        "the tool went over its limit of %lld ms; what it wrote was undone",
                        (long long)transact->limit_ms);
        pw_str message = PW_STR("the tool went over its limit; what it wrote was undone");
        (void)pw_arena_dup(&mine->arena, pw_str_from(text), &message);
        give_outcome(loop, seat,
                     &(pw_tool_outcome){.kind = PW_TOOL_ERROR,
                                        .error_class = PW_STR("timeout"),
                                        .message = message});
    } else if (mine->ran && mine->outcome.kind != PW_TOOL_RESULT) {
        give_outcome(loop, seat, &mine->outcome);
    } else if (transact->status == PW_UNSUPPORTED) {
        give_outcome(
            loop, seat,
            &(pw_tool_outcome){
                .kind = PW_TOOL_FATAL,
                .message = PW_STR("this store has no transactions for a tool to write in")});
    } else {
        seat->append_given = (pw_given){.used = transact_used};
        pw_seat_refused(loop, seat, transact->append->ticket, transact->status, &transact->error);
    }
}

static void act_transacted(pw_loop *loop, pw_note *note)
{
    pw_seat_transact *mine =
        (pw_seat_transact *)(void *)((char *)note - offsetof(pw_seat_transact, note));
    pw_seat *seat = mine->seat;
    mine->busy = false;
    pw_status status = mine->transact.status;
    if (status == PW_OK && seat->session) {
        pw_loop_committed(loop, seat, mine->transact.append);
    }
    if (seat->state != PW_SEAT_OPEN) {
        pw_arena_reset(&mine->arena);
        pw_seat_answered(loop, seat, status == PW_CANCELLED ? PW_OK : status);
        return;
    }
    if (status != PW_OK) {
        transact_failed(loop, seat);
        return;
    }
    seat->append_given = (pw_given){.input = {.kind = PW_IN_APPENDED,
                                              .appended = {.ticket = mine->transact.append->ticket,
                                                           .receipt_body = mine->transact.body}},
                                    .used = transact_used};
    pw_seat_give(loop, seat, &seat->append_given);
}

static void transact_done(pw_job *job)
{
    pw_seat_transact *mine = (pw_seat_transact *)(void *)job;
    pw_loop_tell(mine->loop, &mine->note);
}

void pw_begin_transact(pw_loop *loop, pw_seat *seat, const pw_append *append,
                       const pw_receipt *receipt, const pw_tool_call *call)
{
    pw_seat_transact *mine = &seat->transact;
    PW_ASSERT(!mine->busy && !seat->append.busy);
    mine->busy = true;
    mine->ran = false;
    mine->call = call;
    mine->transact = (pw_transact){.session_id = seat->id,
                                   .epoch = seat->row.epoch,
                                   .append = append,
                                   .receipt = receipt,
                                   .limit_ms = call->limit_ms,
                                   .arena = &mine->arena,
                                   .run = run_transaction,
                                   .ctx = mine};
    mine->job = (pw_job){.transact = &mine->transact, .done = transact_done};
    mine->note.act = act_transacted;
    pw_loop_send(loop, &mine->job);
}
