/*
 * A session in memory: its rooms, its step, its inputs. What follows from an input is decided in
 * turn.c.
 *
 * A step: take a snapshot of both halves; let the input in; decide; on success free what was let
 * go, on failure put the snapshot back and free what was made. So a failed step leaves nothing
 * behind, and the effects of a successful one stay readable until the next.
 */
#include "core/fold.h"

enum { TEXT_MAX = 1024 * 1024 }; /* of a streaming message kept for M2 and cancels */
enum { GHOSTS_MAX = 64 };
enum {
    ROOM_BLOCK_MAX = 8 * 1024
}; /* a room is one of many: what its newest block has left must not be much */
#define COUNTER_MAX (((uint64_t)1 << 24) - 1)
#define COUNTER_REST (COUNTER_MAX - 4096)

/* --- Rooms. --- */

/* A test build allocates in small pieces, so that each of them can be made to fail. */
#ifdef PW_TIGHT_ROOMS
#define FIRST_BLOCK(size) ((size_t)64)
#else
#define FIRST_BLOCK(size) ((size_t)(size))
#endif

pw_room *pw_room_new(pw_session *s, size_t first_block)
{
    pw_arena arena;
    pw_arena_init(&arena, s->allocator, FIRST_BLOCK(first_block), 0);
    arena.block_size_max = ROOM_BLOCK_MAX;
    (void)first_block;
    pw_room *room = PW_NEW(&arena, pw_room);
    if (!room) {
        return NULL;
    }
    room->arena = arena; /* it lives in its own first block */
    room->next = s->rooms;
    if (s->rooms) {
        s->rooms->prev = room;
    }
    s->rooms = room;
    room->fresh_next = s->fresh;
    s->fresh = room;
    return room;
}

void pw_room_leave(pw_session *s, pw_room *room)
{
    if (room && !room->leaving) {
        room->leaving = true;
        room->leaving_next = s->leaving;
        s->leaving = room;
    }
}

static void room_free(pw_session *s, pw_room *room)
{
    if (room->prev) {
        room->prev->next = room->next;
    } else {
        s->rooms = room->next;
    }
    if (room->next) {
        room->next->prev = room->prev;
    }
    pw_arena arena = room->arena;
    pw_arena_free(&arena);
}

/* Does a call run whose bytes are in the window? */
static bool calls_are_out(const pw_session *s)
{
    if (s->v.model.state == PW_LIVE_RUNNING) {
        return true;
    }
    for (const pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        if (!ghost->answered) {
            return true;
        }
    }
    return false; /* a running tool's turn is open: its room is not let go */
}

/* What was let go in a step that succeeded; the window's rooms wait for the calls that may read
 * them. */
static void rooms_settle(pw_session *s)
{
    s->fresh = NULL;
    while (s->leaving) {
        pw_room *room = s->leaving;
        s->leaving = room->leaving_next;
        if (room->window) {
            room->leaving_next = s->retired;
            s->retired = room;
        } else {
            room_free(s, room);
        }
    }
    if (s->retired && !calls_are_out(s)) {
        while (s->retired) {
            pw_room *room = s->retired;
            s->retired = room->leaving_next;
            room_free(s, room);
        }
    }
}

static void rooms_undo(pw_session *s)
{
    while (s->leaving) {
        s->leaving->leaving = false;
        s->leaving = s->leaving->leaving_next;
    }
    while (s->fresh) {
        pw_room *room = s->fresh;
        s->fresh = room->fresh_next;
        room_free(s, room);
    }
}

/* Those that have answered are kept for what they may still say, the newest of them. */
static void ghosts_forget(pw_session *s)
{
    size_t answered = 0;
    pw_ghost **link = &s->v.ghosts;
    while (*link) {
        pw_ghost *ghost = *link;
        const bool listens = ghost->answered && !ghost->late;
        if (ghost->over || (listens && ++answered > GHOSTS_MAX)) {
            *link = ghost->next;
            pw_room_leave(s, ghost->held);
            pw_room_leave(s, ghost->kept);
            pw_room_leave(s, ghost->room);
        } else {
            link = &ghost->next;
        }
    }
}

pw_status pw_list_reserve(pw_session *s, size_t more)
{
    pw_durable *d = &s->d;
    if (d->capacity - d->end >= more) {
        return PW_OK;
    }
    const size_t count = pw_window_count(d);
    const size_t capacity = (count + more) + (count + more) / 2 + 16;
    pw_room *room = pw_room_new(s, capacity * sizeof(d->list[0]) + sizeof(pw_room) + 64);
    if (!room) {
        return PW_NOMEM;
    }
    room->window = true;
    const pw_message **list = PW_NEW_ARRAY(&room->arena, const pw_message *, capacity);
    if (!list) {
        return PW_NOMEM;
    }
    if (count > 0) {
        memcpy(list, d->list + d->first, count * sizeof(list[0]));
    }
    d->list = list;
    d->first = 0;
    d->end = count;
    d->capacity = capacity;
    d->list_room = room;
    return PW_OK;
}

/* --- Small things the other files need. --- */

pw_effect *pw_effect_add(pw_session *s, pw_effect_kind kind)
{
    if (s->effect_count == s->effect_capacity) {
        const size_t capacity = s->effect_capacity > 0 ? s->effect_capacity * 2 : 8;
        pw_effect *list = PW_NEW_ARRAY(&s->step, pw_effect, capacity);
        if (!list) {
            return NULL;
        }
        if (s->effect_count > 0) {
            memcpy(list, s->effects, s->effect_count * sizeof(list[0]));
        }
        s->effects = list;
        s->effect_capacity = capacity;
    }
    pw_effect *effect = &s->effects[s->effect_count++];
    *effect = (pw_effect){.kind = kind};
    return effect;
}

/* Ids are never reused within an epoch; a session that lives so long that they run short rests and
 * is taken anew. */
uint64_t pw_next_id(pw_session *s)
{
    s->v.counter++;
    PW_ASSERT(s->v.counter <= COUNTER_MAX);
    if (s->v.counter > COUNTER_REST) {
        s->v.draining = true;
    }
    return s->v.epoch << 24 | s->v.counter;
}

static const char *const phase_lines[] = {
#define PHASE_LINE(name, text, to) text " \xE2\x86\x92 " to,
    PW_PHASE_TABLE(PHASE_LINE)
#undef PHASE_LINE
        NULL,
};

const char *const *pw_turn_transitions(void)
{
    return phase_lines;
}

void pw_phase_move(pw_session *s, pw_phase to)
{
#define BIT(phase) (1u << PW_PHASE_##phase)
    static const unsigned legal[] = {
        [PW_PHASE_NONE] = BIT(OPENING) | BIT(ASKING) | BIT(RUNNING) | BIT(WAITING),
        [PW_PHASE_OPENING] = BIT(ASKING) | BIT(NONE),
        [PW_PHASE_ASKING] = BIT(REPLIED) | BIT(WAITING) | BIT(ENDING),
        [PW_PHASE_REPLIED] = BIT(RUNNING) | BIT(ASKING) | BIT(WAITING) | BIT(ENDING),
        [PW_PHASE_RUNNING] = BIT(ASKING) | BIT(ENDING),
        [PW_PHASE_WAITING] = BIT(ASKING) | BIT(ENDING),
        [PW_PHASE_ENDING] = BIT(NONE),
    };
#undef BIT
    PW_ASSERT(legal[s->v.phase] & 1u << to);
    s->v.phase = to;
}

void pw_scratch_reset(pw_session *s)
{
    pw_arena_reset(&s->scratch);
}

/* --- Life. --- */

pw_status pw_session_new(const pw_session_options *options, pw_session **ret)
{
    pw_session seed = {.allocator = options->allocator};
    pw_room *home = pw_room_new(&seed, sizeof(pw_room) + sizeof(pw_session) + 512);
    if (!home) {
        return PW_NOMEM;
    }
    pw_session *s = PW_NEW(&home->arena, pw_session);
    pw_str uid;
    if (!s || pw_arena_dup(&home->arena, options->uid, &uid) != PW_OK) {
        room_free(&seed, home);
        return PW_NOMEM;
    }
    s->allocator = options->allocator;
    s->home = s->rooms = home;
    s->uid = uid;
    const pw_hash hash = pw_sha256_of(uid);
    memcpy(s->alike.bytes, hash.bytes, sizeof s->alike.bytes);
    s->d.turn.wait_until_ms = s->d.turn.deadline_at_ms = -1;
    s->v.retry_at_ms = s->v.store_at_ms = s->v.wake_at_ms = -1;
    pw_arena_init(&s->step, options->allocator, FIRST_BLOCK(2048), 0);
    pw_arena_init(&s->scratch, options->allocator, FIRST_BLOCK(4096), 0);
    pw_buffer_init(&s->text, options->allocator, TEXT_MAX);
    *ret = s;
    return PW_OK;
}

void pw_session_free(pw_session *s)
{
    if (!s) {
        return;
    }
    pw_arena_free(&s->step);
    pw_arena_free(&s->scratch);
    pw_buffer_free(&s->text);
    pw_room *home = s->home;
    for (pw_room *room = s->rooms; room;) {
        pw_room *next = room->next;
        if (room != home) {
            pw_arena arena = room->arena;
            pw_arena_free(&arena);
        }
        room = next;
    }
    pw_arena arena = home->arena;
    pw_arena_free(&arena);
}

pw_status pw_session_fold(pw_session *s, const pw_record *record, pw_error *error)
{
    PW_ASSERT(!s->v.opened);
    pw_arena_reset(&s->step);
    const pw_arena_mark mark =
        s->d.newest ? pw_arena_mark_get(&s->d.newest->room->arena) : (pw_arena_mark){0};
    pw_durable saved = s->d;
    pw_prepared *prepared;
    pw_status status = pw_list_reserve(s, 1);
    if (status != PW_OK) {
        (void)PW_FAIL(error, status, "out of memory at record %llu",
                      (unsigned long long)record->seq);
    } else {
        status = pw_fold_prepare(s, record, &prepared, error);
    }
    pw_arena_reset(&s->scratch);
    if (status != PW_OK) {
        s->d = saved;
        rooms_undo(s);
        if (s->d.newest) {
            pw_arena_rewind(&s->d.newest->room->arena, mark);
        }
        return status;
    }
    pw_fold_apply(&s->d, prepared);
    pw_window_trim(s);
    rooms_settle(s);
    return PW_OK;
}

/* --- The step. --- */

typedef struct snapshot {
    pw_durable d;
    pw_volatile v;
    pw_call *calls;
    pw_live_call *live;
    pw_ghost *ghosts; /* as they stand in the list */
    size_t text_len;
    pw_arena_mark mark;
} snapshot;

static pw_status snapshot_ghosts(pw_session *s, snapshot *shot)
{
    size_t count = 0;
    for (const pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        count++;
    }
    shot->ghosts = PW_NEW_ARRAY(&s->step, pw_ghost, count);
    if (!shot->ghosts) {
        return PW_NOMEM;
    }
    count = 0;
    for (const pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        shot->ghosts[count++] = *ghost;
    }
    return PW_OK;
}

/* What a step writes in place is copied; everything else is a value or only grows. */
static pw_status snapshot_take(pw_session *s, bool arrays, snapshot *shot)
{
    shot->d = s->d;
    shot->v = s->v;
    shot->text_len = s->text.len;
    shot->calls = NULL;
    shot->live = NULL;
    shot->ghosts = NULL;
    if (arrays && s->v.ghosts) {
        PW_TRY(snapshot_ghosts(s, shot));
    }
    if (s->d.newest) {
        shot->mark = pw_arena_mark_get(&s->d.newest->room->arena);
    }
    const size_t calls = s->d.turn.call_count * sizeof(pw_call);
    if (arrays && calls > 0) {
        shot->calls = pw_arena_alloc(&s->step, calls);
        if (!shot->calls) {
            return PW_NOMEM;
        }
        memcpy(shot->calls, s->d.turn.calls, calls);
    }
    const size_t live = s->v.live_count * sizeof(pw_live_call);
    if (arrays && live > 0) {
        shot->live = pw_arena_alloc(&s->step, live);
        if (!shot->live) {
            return PW_NOMEM;
        }
        memcpy(shot->live, s->v.live, live);
    }
    return PW_OK;
}

static void snapshot_restore(pw_session *s, const snapshot *shot)
{
    s->d = shot->d;
    s->v = shot->v;
    if (shot->calls) {
        memcpy(s->d.turn.calls, shot->calls, s->d.turn.call_count * sizeof(pw_call));
    }
    if (shot->live) {
        memcpy(s->v.live, shot->live, s->v.live_count * sizeof(pw_live_call));
    }
    if (shot->ghosts) {
        size_t i = 0;
        for (pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
            *ghost = shot->ghosts[i++];
        }
    }
    s->text.len = shot->text_len;
    s->text.failed = PW_OK;
    s->build = (pw_build){0};
    if (s->d.newest) {
        pw_arena_rewind(&s->d.newest->room->arena, shot->mark);
    }
    rooms_undo(s);
}

static pw_status take_opened(pw_session *s, const pw_opened *opened)
{
    PW_ASSERT(!s->v.opened);
    if (s->d.turn.open &&
        (!opened->pinned || s->d.turn.choice >= (int64_t)opened->pinned->model_count)) {
        return PW_CORRUPT;
    }
    s->v.opened = true;
    s->v.epoch = opened->epoch;
    s->v.cause = opened->cause;
    s->v.crashes = opened->crashes;
    s->v.max_attempts = opened->max_attempts;
    s->v.pinned = opened->pinned;
    s->v.today = opened->today;
    s->v.attempt_due = s->d.turn.open && opened->cause != PW_CAUSE_NEW;
    PW_TRY(pw_calls_live(s));
    if (!s->d.turn.open) {
        PW_ASSERT(s->v.phase == PW_PHASE_NONE);
    } else if (s->d.turn.closed_count < s->d.turn.call_count) {
        pw_phase_move(s, PW_PHASE_RUNNING);
    } else if (s->d.turn.wait_until_ms >= 0) {
        pw_phase_move(s, PW_PHASE_WAITING);
        s->v.wait_reason = PW_STR("rate_limit");
    } else {
        pw_phase_move(s, PW_PHASE_ASKING);
    }
    for (size_t i = 0; i < opened->alive_count; i++) {
        PW_TRY(pw_call_alive(s, &opened->alive[i]));
    }
    return PW_OK;
}

static pw_status take_inbox(pw_session *s, const pw_inbox *inbox)
{
    pw_room *room = pw_room_new(s, 1024);
    if (!room) {
        return PW_NOMEM;
    }
    pw_inbox_row *rows = PW_NEW_ARRAY(&room->arena, pw_inbox_row, inbox->count);
    if (!rows) {
        return PW_NOMEM;
    }
    for (size_t i = 0; i < inbox->count; i++) {
        rows[i] = inbox->rows[i];
        PW_TRY(pw_arena_dup(&room->arena, inbox->rows[i].request_id, &rows[i].request_id));
        PW_TRY(pw_arena_dup(&room->arena, inbox->rows[i].body, &rows[i].body));
    }
    pw_room_leave(s, s->v.inbox_room);
    s->v.inbox_room = room;
    s->v.rows = rows;
    s->v.row_count = inbox->count;
    s->v.more = inbox->more;
    s->v.looked_n = inbox->looked_n;
    s->v.inbox_seen = true;
    return PW_OK;
}

static pw_status take_input(pw_session *s, const pw_input *input)
{
    switch (input->kind) {
    case PW_IN_TIME:
        s->v.now_ms = input->time.now_ms;
        pw_random_seed(&s->v.random, input->time.random);
        return PW_OK;
    case PW_IN_OPENED:
        return take_opened(s, &input->opened);
    case PW_IN_INBOX:
        return take_inbox(s, &input->inbox);
    case PW_IN_APPENDED:
    case PW_IN_NOT_APPENDED:
        return pw_append_answered(s, input);
    case PW_IN_MODEL_ACCEPTED:
        return pw_model_accepted(s, input);
    case PW_IN_MODEL_DELTA:
        return pw_model_delta(s, input);
    case PW_IN_MODEL_REPLY:
    case PW_IN_MODEL_FAILED:
        return pw_model_ended(s, input);
    case PW_IN_TOOL_RESULT:
        return pw_call_ended(s, input);
    case PW_IN_DRAIN:
        s->v.draining = true;
        return PW_OK;
    }
    PW_NEVER("an input of no kind");
}

pw_status pw_session_step(pw_session *s, const pw_input *input, pw_effects *ret)
{
    const bool delta = input->kind == PW_IN_MODEL_DELTA;
    snapshot shot;
    pw_arena_reset(&s->step);
    s->effects = NULL;
    s->effect_count = s->effect_capacity = 0;
    PW_TRY(snapshot_take(s, !delta, &shot));
    pw_status status = PW_OK;
    if (!s->v.resting) {
        status = take_input(s, input);
        if (status == PW_OK && !delta && !s->v.resting) {
            status = pw_advance(s);
        }
    }
    pw_arena_free(&s->scratch); /* not kept: sessions that wait for something are many */
    if (status != PW_OK) {
        snapshot_restore(s, &shot);
        s->effect_count = 0;
        return status;
    }
    PW_ASSERT(!pw_building(s));
    ghosts_forget(s);
    pw_window_trim(s);
    rooms_settle(s);
    *ret = (pw_effects){s->effects, s->effect_count};
    return PW_OK;
}

/* --- Looking at it. --- */

static pw_str view_reason(const pw_session *s)
{
    if (s->v.append.room && !s->v.append.in_flight) {
        return PW_STR("store");
    }
    if (s->v.phase == PW_PHASE_WAITING) {
        return s->v.wait_reason;
    }
    if (s->v.draining) {
        return PW_STR("draining");
    }
    if (!s->d.turn.open && pw_waiting_first(s)) {
        return PW_STR("debounce");
    }
    return PW_STR_NONE;
}

pw_session_view pw_session_look(const pw_session *s)
{
    const bool streaming = s->v.model.state == PW_LIVE_RUNNING;
    const bool waiting =
        s->v.phase == PW_PHASE_WAITING || (s->v.append.room && !s->v.append.in_flight);
    return (pw_session_view){
        .turn = s->d.turn.id,
        .state = waiting ? PW_TURN_WAITING : PW_TURN_RUNNING,
        .reason = view_reason(s),
        .last_seq = s->d.last_seq,
        .append_in_flight = s->v.append.room != NULL && s->v.append.in_flight,
        .draining = s->v.draining,
        .open_step = streaming ? s->v.model.step : PW_STR_NONE,
        .open_attempt = streaming ? (int32_t)s->d.turn.attempts : 0,
        .open_text = streaming ? pw_buffer_str(&s->text) : PW_STR_NONE,
        .waiting = pw_waiting_count(s),
        .window_messages = pw_window_count(&s->d),
    };
}

pw_str pw_session_pinned_hash(const pw_session *s)
{
    return s->d.turn.open ? s->d.turn.definition : PW_STR_NONE;
}
