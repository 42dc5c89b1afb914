/*
 * Loading: a session's rows become a folded machine. The reading and folding run on a reader's
 * thread, which has the new machine to itself until the loop gets it; pw_seat_load and act_loaded
 * run on the loop thread. Must never load what this process has not taken (J4).
 */
#include "runtime/loop.h"

typedef struct seat_load {
    pw_job job;
    pw_note note;
    pw_op ops[2]; /* inbox, records */
    pw_loop *loop;
    pw_seat *seat;
    pw_arena arena;
    pw_session *session;
    pw_pinned *pinned;
    pw_status status;
    pw_error error;
    pw_given opened, inbox;
} seat_load;

static void free_load(seat_load *load)
{
    const pw_allocator *allocator = &load->loop->blocks.allocator;
    pw_arena_free(&load->arena);
    allocator->resize(allocator->ctx, load, sizeof *load, 0);
}

/* --- On a reader's thread --- */

static bool agent_pins(const pawl *p, pw_str hash)
{
    for (size_t i = 0; i < p->agent_count; i++) {
        if (pw_str_equal(hash, pw_str_from(p->agents[i]->definition->hash.text))) {
            return true;
        }
    }
    return false;
}

static void free_pinned(const pw_allocator *allocator, pw_pinned *pinned)
{
    if (pinned) {
        pw_arena_free(&pinned->arena);
        allocator->resize(allocator->ctx, pinned, sizeof *pinned, 0);
    }
}

/* The definition that the open turn pins, when no agent of today is equal to it (C11). */
static pw_status read_pinned(seat_load *load)
{
    pawl *p = load->loop->p;
    pw_str hash = pw_session_pinned_hash(load->session);
    if (hash.len == 0 || agent_pins(p, hash)) {
        return PW_OK;
    }
    pw_pinned *pinned = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof *pinned);
    if (!pinned) {
        return PW_FAIL(&load->error, PW_NOMEM, "out of memory");
    }
    *pinned = (pw_pinned){0};
    pw_arena_init(&pinned->arena, p->allocator, 4096, 0);
    pw_op blob = {.kind = PW_OP_BLOB, .arena = &pinned->arena, .blob = {.hash = hash}};
    pw_store_execute(p->store, &blob, 1);
    pw_status status = blob.status;
    if (status != PW_OK) {
        load->error = blob.error;
        status = status == PW_NOT_FOUND
                     ? PW_FAIL(&load->error, PW_CORRUPT, "the pinned definition %.*s is not stored",
                               PW_STR_ARG(hash))
                     : status;
    } else {
        status =
            pw_definition_parse(&pinned->arena, blob.blob.bytes, &pinned->definition, &load->error);
        status = status == PW_INVALID ? PW_CORRUPT : status;
    }
    if (status != PW_OK) {
        free_pinned(p->allocator, pinned);
        return status;
    }
    load->pinned = pinned;
    return PW_OK;
}

static pw_status fold_all(seat_load *load)
{
    for (size_t i = 0; i < load->job.count; i++) {
        if (load->ops[i].status != PW_OK) {
            load->error = load->ops[i].error;
            return load->ops[i].status;
        }
    }
    pw_session_options options = {.allocator = &load->loop->blocks.allocator,
                                  .uid = load->seat->row.uid};
    PW_TRY(pw_session_new(&options, &load->session));
    const pw_op *records = &load->ops[1];
    for (size_t i = 0; load->job.count > 1 && i < records->records.count; i++) {
        PW_TRY(pw_session_fold(load->session, &records->records.records[i], &load->error));
    }
    return read_pinned(load);
}

static void load_done(pw_job *job)
{
    seat_load *load = (seat_load *)(void *)job;
    load->status = fold_all(load);
    if (load->status != PW_OK) {
        pw_session_free(load->session);
        load->session = NULL;
    }
    pw_loop_tell(load->loop, &load->note);
}

/* --- On the loop --- */

static void load_used(pw_loop *loop, pw_seat *seat, pw_given *given)
{
    (void)loop;
    (void)seat;
    free_load((seat_load *)(void *)((char *)given - offsetof(seat_load, inbox)));
}

void pw_pinned_release(pw_loop *loop, pw_pinned *pinned)
{
    if (!pinned || --pinned->references > 0) {
        return;
    }
    pw_pinned **at = &loop->pinned;
    while (*at != pinned) {
        at = &(*at)->next;
    }
    *at = pinned->next;
    free_pinned(loop->p->allocator, pinned);
}

/* One copy of each pinned definition, shared by all its sessions. */
static const pw_definition *keep_pinned(pw_loop *loop, pw_seat *seat, seat_load *load)
{
    pw_str hash = pw_session_pinned_hash(load->session);
    if (hash.len == 0) {
        return NULL;
    }
    for (size_t i = 0; i < loop->p->agent_count; i++) {
        const pw_definition *definition = loop->p->agents[i]->definition;
        if (pw_str_equal(hash, pw_str_from(definition->hash.text))) {
            return definition;
        }
    }
    pw_pinned *pinned = load->pinned;
    for (pw_pinned *known = loop->pinned; known; known = known->next) {
        if (pw_str_equal(hash, pw_str_from(known->definition->hash.text))) {
            free_pinned(loop->p->allocator, pinned);
            pinned = known;
            break;
        }
    }
    if (pinned->references++ == 0) {
        pinned->next = loop->pinned;
        loop->pinned = pinned;
    }
    load->pinned = NULL;
    seat->pinned = pinned;
    return pinned->definition;
}

static bool list_alive(pw_seat *seat, pw_arena *arena, pw_opened *opened)
{
    size_t count = 0;
    for (pw_running *running = seat->running; running; running = running->next_in_seat) {
        count += !running->aborting;
    }
    if (count == 0) {
        return true;
    }
    pw_alive_call *alive = PW_NEW_ARRAY(arena, pw_alive_call, count);
    if (!alive) {
        return false;
    }
    opened->alive = alive;
    for (pw_running *running = seat->running; running; running = running->next_in_seat) {
        if (!running->aborting) {
            alive[opened->alive_count++] = (pw_alive_call){
                .call = running->call, .step = running->step, .response_id = running->response_id};
        }
    }
    return true;
}

static void open_seat(pw_loop *loop, pw_seat *seat, seat_load *load)
{
    pw_opened opened = {.epoch = seat->row.epoch,
                        .cause = seat->own.op.take.cause,
                        .crashes = seat->row.crashes,
                        .max_attempts = PW_MAX_ATTEMPTS,
                        .pinned = keep_pinned(loop, seat, load),
                        .today = seat->agent ? seat->agent->definition : NULL};
    (void)list_alive(seat, &load->arena, &opened); /* out of memory: its calls count as unknown */
    pw_given *kept = seat->first; /* what calls said meanwhile comes after the opening */
    seat->first = seat->last = NULL;
    seat->session = load->session;
    load->opened = (pw_given){.input = {.kind = PW_IN_OPENED, .opened = opened}};
    load->inbox = (pw_given){.input = {.kind = PW_IN_INBOX, .inbox = load->ops[0].inbox.inbox},
                             .used = load_used};
    seat->inbox_more = load->ops[0].inbox.inbox.more;
    pw_seat_give(loop, seat, &load->opened);
    pw_seat_give(loop, seat, &load->inbox);
    while (kept) {
        pw_given *next = kept->next;
        pw_seat_give(loop, seat, kept);
        kept = next;
    }
    pw_seat_opened(loop, seat);
}

static void act_loaded(pw_loop *loop, pw_note *note)
{
    seat_load *load = (seat_load *)(void *)((char *)note - offsetof(seat_load, note));
    pw_seat *seat = load->seat;
    seat->own.busy = false;
    if (load->status == PW_OK && seat->state == PW_SEAT_LOADING && !loop->draining) {
        open_seat(loop, seat, load);
        return;
    }
    if (load->status != PW_OK && seat->state == PW_SEAT_LOADING) {
        pw_log(loop->p, load->status == PW_CORRUPT ? 0 : 1, "load_failed", "session %.*s: %s: %s",
               PW_STR_ARG(seat->row.name), pw_status_code(load->status), load->error.message);
    }
    pw_status status = load->status;
    free_pinned(loop->p->allocator, load->pinned);
    pw_session_free(load->session);
    free_load(load);
    pw_seat_not_loaded(loop, seat, status);
}

bool pw_seat_load(pw_loop *loop, pw_seat *seat)
{
    const pw_allocator *allocator = &loop->blocks.allocator;
    seat_load *load = allocator->resize(allocator->ctx, NULL, 0, sizeof *load);
    if (!load) {
        return false;
    }
    memset(load, 0, sizeof *load);
    load->loop = loop;
    load->seat = seat;
    pw_arena_init(&load->arena, allocator, 8192, 0);
    load->ops[0] = (pw_op){.kind = PW_OP_INBOX,
                           .arena = &load->arena,
                           .inbox = {.session_id = seat->id, .limit = PW_INBOX_LIMIT}};
    load->ops[1] = (pw_op){.kind = PW_OP_RECORDS,
                           .arena = &load->arena,
                           .records = {.session_id = seat->id, .from_seq = seat->row.base_seq}};
    load->job =
        (pw_job){.ops = load->ops, .count = seat->row.last_seq > 0 ? 2 : 1, .done = load_done};
    load->note.act = act_loaded;
    seat->state = PW_SEAT_LOADING;
    seat->own.busy = true; /* it may not be freed meanwhile */
    pw_readers_give(loop->readers, &load->job);
    return true;
}
