/*
 * Appends: making one, giving it to the store, hearing how it went (J1, J4).
 *
 * While an append is made its records are folded on trial, so that what is decided next sees them;
 * then the durable half is put back, and the prepared records wait in the append for
 * PW_IN_APPENDED. Of a session one append is under way at most.
 *
 *   none → in flight → none           durable: the records are applied for good
 *            │  ↑
 *            ↓  │ its time has come
 *          not committed              the same append again, 0.1 s doubling to 5 s (a transaction
 * is decided anew)
 */
#include "core/fold.h"

enum { STORE_PAUSE_FIRST_MS = 100, STORE_PAUSE_MAX_MS = 5000 };

pw_status pw_build_begin(pw_session *s)
{
    pw_build *b = &s->build;
    if (b->room) {
        return PW_OK;
    }
    PW_ASSERT(!s->v.append.room);
    /* Each record adds one message at most: those of the calls that are owed, or of a reply and its
     * calls. */
    const size_t parts = s->v.model.reply ? s->v.model.reply->part_count : 0;
    PW_TRY(pw_list_reserve(s, s->d.turn.call_count + parts + 4));
    pw_room *room = pw_room_new(s, 4096);
    if (!room) {
        return PW_NOMEM;
    }
    const size_t calls = s->d.turn.call_count * sizeof(pw_call);
    pw_call *saved_calls = pw_arena_alloc(&room->arena, calls);
    if (!saved_calls) {
        return PW_NOMEM;
    }
    if (calls > 0) {
        memcpy(saved_calls, s->d.turn.calls, calls);
    }
    *b = (pw_build){.room = room, .saved = s->d, .saved_calls = saved_calls};
    return PW_OK;
}

static pw_status build_grow(pw_build *b)
{
    if (b->count < b->capacity) {
        return PW_OK;
    }
    const size_t capacity = b->capacity > 0 ? b->capacity * 2 : 4;
    pw_record *records = PW_NEW_ARRAY(&b->room->arena, pw_record, capacity);
    pw_prepared **prepared = PW_NEW_ARRAY(&b->room->arena, pw_prepared *, capacity);
    if (!records || !prepared) {
        return PW_NOMEM;
    }
    if (b->count > 0) {
        memcpy(records, b->records, b->count * sizeof(records[0]));
        memcpy(prepared, b->prepared, b->count * sizeof(prepared[0]));
    }
    b->records = records;
    b->prepared = prepared;
    b->capacity = capacity;
    return PW_OK;
}

pw_status pw_build_add(pw_session *s, const pw_draft *draft)
{
    pw_build *b = &s->build;
    PW_TRY(build_grow(b));
    pw_record record = {
        .seq = s->d.last_seq + 1,
        .at_ms = s->v.now_ms,
        .kind = draft->kind,
        .body = draft->body,
    };
    /* Their owners, a call's room or a turn's, may be gone before the append is answered. */
    PW_TRY(pw_arena_dup(&b->room->arena, draft->turn, &record.turn));
    PW_TRY(pw_arena_dup(&b->room->arena, draft->step, &record.step));
    pw_prepared *prepared;
    const pw_status status = pw_fold_prepare(s, &record, &prepared, NULL);
    PW_ASSERT(status == PW_OK || status == PW_NOMEM); /* we read what we wrote */
    PW_TRY(status);
    b->records[b->count] = record;
    b->prepared[b->count] = prepared;
    b->count++;
    pw_fold_apply(&s->d, prepared);
    return PW_OK;
}

pw_status pw_build_blob(pw_session *s, const pw_hash_hex *hash, pw_str bytes)
{
    pw_build *b = &s->build;
    pw_blob *blobs = PW_NEW_ARRAY(&b->room->arena, pw_blob, b->blob_count + 1);
    if (!blobs) {
        return PW_NOMEM;
    }
    if (b->blob_count > 0) {
        memcpy(blobs, b->blobs, b->blob_count * sizeof(blobs[0]));
    }
    blobs[b->blob_count] = (pw_blob){.hash = *hash, .bytes = bytes};
    b->blobs = blobs;
    b->blob_count++;
    return PW_OK;
}

/* A call with effects that was settled before it ended may still say what it did (D8): the session
 * stays for that. */
bool pw_evidence_expected(const pw_session *s)
{
    for (const pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        if (!ghost->model && !ghost->answered && ghost->effects != PW_EFFECTS_NONE) {
            return true;
        }
    }
    return false;
}

static void fill_head(const pw_session *s, const pw_build *b, pw_append *a)
{
    const bool waiting = pw_waiting_first(s) != NULL || s->v.more;
    pw_head *head = &a->head;
    *head = (pw_head){.base_seq = -1, .looked_n = s->v.looked_n, .state = PW_TURN_RUNNING};
    head->set = b->claims || b->ends || b->waits || b->begins;
    if (b->ends) {
        head->state = b->end_state;
        head->wake_at_ms = waiting ? 0 : -1;
        head->release = s->v.draining || (!waiting && !pw_evidence_expected(s));
    } else if (b->waits) {
        head->state = PW_TURN_WAITING;
        head->turn = s->d.turn.id;
        head->reason = PW_STR("rate_limit");
        head->wake_at_ms = s->d.turn.wait_until_ms;
        head->release = true;
    } else if (b->claims || b->begins) {
        head->turn = s->d.turn.id;
        head->base_seq = b->claims ? (int64_t)s->d.turn.first_seq : -1;
    }
}

static pw_status append_give(pw_session *s)
{
    pw_pending *pending = &s->v.append;
    pw_append *again = PW_NEW(&pending->room->arena, pw_append);
    pw_effect *effect = pw_effect_add(s, PW_DO_APPEND);
    if (!again || !effect) {
        return PW_NOMEM;
    }
    *again = *pending->append;
    again->ticket = pw_next_id(s);
    pending->append = again;
    pending->in_flight = true;
    s->v.store_at_ms = -1;
    effect->append = again;
    return PW_OK;
}

static void build_put_back(pw_session *s)
{
    pw_build *b = &s->build;
    s->d = b->saved;
    if (s->d.turn.call_count > 0) {
        memcpy(s->d.turn.calls, b->saved_calls, s->d.turn.call_count * sizeof(pw_call));
    }
}

pw_status pw_build_finish(pw_session *s)
{
    pw_build *b = &s->build;
    PW_ASSERT(b->count > 0);
    pw_append *a = PW_NEW(&b->room->arena, pw_append);
    if (!a) {
        return PW_NOMEM;
    }
    *a = (pw_append){
        .records = b->records,
        .record_count = b->count,
        .consumed = b->consumed,
        .consumed_count = b->consumed_count,
        .settle_cancels_of = b->ends ? b->turn : PW_STR_NONE,
        .turn = b->turn,
        .turn_opened_seq = b->claims ? b->records[0].seq : 0,
        .turn_ended_seq = b->ends ? b->records[b->count - 1].seq : 0,
        .turn_state = b->ends ? b->end_state : PW_TURN_RUNNING,
        .blobs = b->blobs,
        .blob_count = b->blob_count,
        .receipt = b->receipt,
    };
    fill_head(s, b, a);
    if (b->ends) {
        a->turn_ended_seq = 0;
        for (size_t i = 0; i < b->count; i++) {
            if (b->records[i].kind == PW_RECORD_TURN_ENDED) {
                a->turn_ended_seq = b->records[i].seq;
            }
        }
    }
    build_put_back(s);
    s->v.append = (pw_pending){
        .room = b->room,
        .append = a,
        .prepared = b->prepared,
        .count = b->count,
        .drops_waiting = b->claims,
        .claimed_n = b->claimed_n,
    };
    *b = (pw_build){0};
    return append_give(s);
}

/* D2: the receipt goes alone, and nothing is decided before the tool has spoken. */
pw_status pw_build_transact(pw_session *s, size_t call_index, const pw_receipt *receipt,
                            const pw_tool_call *call, const pw_draft *draft)
{
    pw_build *b = &s->build;
    PW_ASSERT(b->room && b->count == 0);
    pw_append *a = PW_NEW(&b->room->arena, pw_append);
    pw_record *record = PW_NEW(&b->room->arena, pw_record);
    pw_effect *effect = pw_effect_add(s, PW_DO_TRANSACT);
    if (!a || !record || !effect) {
        return PW_NOMEM;
    }
    *record = (pw_record){
        .seq = s->d.last_seq + 1,
        .at_ms = s->v.now_ms,
        .kind = draft->kind,
        .turn = draft->turn,
        .step = draft->step,
    };
    *a = (pw_append){
        .ticket = pw_next_id(s),
        .records = record,
        .record_count = 1,
        .head = {.base_seq = -1},
        .receipt = true,
    };
    effect->transact.append = a;
    effect->transact.receipt = receipt;
    effect->transact.call = call;
    s->v.append = (pw_pending){
        .room = b->room,
        .append = a,
        .transact = true,
        .call_index = call_index,
        .in_flight = true,
    };
    *b = (pw_build){0};
    return PW_OK;
}

/* --- Answers --- */

static void forget_model(pw_session *s)
{
    pw_room_leave(s, s->v.model.room);
    pw_room_leave(s, s->v.model.kept);
    s->v.model = (pw_live_model){0};
    s->v.text_bytes = 0;
    s->text.len = 0;
}

/* What the append settled is no longer needed. */
static void settle_live(pw_session *s)
{
    if (s->v.model.state == PW_LIVE_SETTLED) {
        forget_model(s);
    }
    for (size_t i = 0; i < s->v.live_count; i++) {
        pw_live_call *live = &s->v.live[i];
        if (live->state == PW_LIVE_SETTLED) {
            pw_room_leave(s, live->room);
            pw_room_leave(s, live->kept);
            live->room = live->kept = NULL;
            live->outcome = NULL;
        }
    }
    for (pw_ghost *ghost = s->v.ghosts; ghost; ghost = ghost->next) {
        ghost->over |= ghost->settled;
    }
}

static void end_turn_memory(pw_session *s)
{
    pw_room_leave(s, s->v.live_room);
    s->v.live = NULL;
    s->v.live_room = NULL;
    s->v.live_count = 0;
    s->v.live_n = 0;
    s->v.attempt_due = false;
    s->v.retry_at_ms = -1;
    s->v.pinned = NULL;
}

static pw_status appended(pw_session *s, const pw_input *input)
{
    pw_pending pending = s->v.append;
    if (pending.transact) {
        pw_record record = pending.append->records[0];
        record.body = input->appended.receipt_body;
        pw_prepared *prepared;
        PW_TRY(pw_list_reserve(s, 1));
        PW_TRY(pw_fold_prepare(s, &record, &prepared, NULL));
        pw_fold_apply(&s->d, prepared);
        s->v.live[pending.call_index].state = PW_LIVE_SETTLED;
    } else {
        for (size_t i = 0; i < pending.count; i++) {
            pw_fold_apply(&s->d, pending.prepared[i]);
        }
    }
    s->v.append = (pw_pending){0};
    s->v.store_pause_ms = 0;
    pw_room_leave(s, pending.room);
    settle_live(s);
    if (s->v.phase == PW_PHASE_OPENING) {
        s->v.claimed_n = pending.claimed_n;
        s->v.pinned = s->v.today;
        pw_phase_move(s, PW_PHASE_ASKING);
    } else if (s->v.phase == PW_PHASE_ENDING) {
        end_turn_memory(s);
        pw_phase_move(s, PW_PHASE_NONE);
    }
    return pending.append->head.release ? pw_rest_now(s, true) : PW_OK;
}

static void pause_store(pw_session *s)
{
    s->v.store_pause_ms = s->v.store_pause_ms == 0 ? STORE_PAUSE_FIRST_MS : s->v.store_pause_ms * 2;
    if (s->v.store_pause_ms > STORE_PAUSE_MAX_MS) {
        s->v.store_pause_ms = STORE_PAUSE_MAX_MS;
    }
    s->v.store_at_ms = s->v.now_ms + s->v.store_pause_ms;
}

static void not_committed(pw_session *s)
{
    pw_pending *pending = &s->v.append;
    pause_store(s);
    pending->in_flight = false;
    if (pending->transact) {
        /* Nothing was done and nothing told: the call is begun anew when the store has had its
         * pause. */
        pw_live_call *live = &s->v.live[pending->call_index];
        live->state = PW_LIVE_IDLE;
        pw_room_leave(s, live->room);
        live->room = NULL;
        pw_room_leave(s, pending->room);
        *pending = (pw_pending){0};
    }
}

/* A claim named a row that is no longer waiting: another look at the inbox, then anew. */
static void stale_claim(pw_session *s)
{
    pw_prepared *const *prepared = s->v.append.prepared;
    for (size_t i = 0; i < s->v.append.count; i++) {
        if (prepared[i]->kind == PW_RECORD_TURN_OPENED) {
            pw_room_leave(s, prepared[i]->opened.span->room);
        }
    }
    pw_room_leave(s, s->v.append.room);
    s->v.append = (pw_pending){0};
    s->v.inbox_seen = false;
    pw_phase_move(s, PW_PHASE_NONE);
}

static pw_status abort_call(pw_session *s, uint64_t call)
{
    pw_effect *effect = pw_effect_add(s, PW_DO_ABORT);
    if (!effect) {
        return PW_NOMEM;
    }
    effect->abort.call = call; /* not for good: the new owner may resume it */
    return PW_OK;
}

/* J1: a fenced owner changes nothing more. */
static pw_status fenced(pw_session *s)
{
    if (s->v.model.state == PW_LIVE_RUNNING) {
        PW_TRY(abort_call(s, s->v.model.call));
    }
    for (size_t i = 0; i < s->v.live_count; i++) {
        const bool inside = s->v.append.transact && s->v.append.call_index == i;
        if (s->v.live[i].state == PW_LIVE_RUNNING && !inside) {
            PW_TRY(abort_call(s, s->v.live[i].call));
        }
    }
    return pw_rest_now(s, true);
}

pw_status pw_append_answered(pw_session *s, const pw_input *input)
{
    const pw_pending *pending = &s->v.append;
    const uint64_t ticket =
        input->kind == PW_IN_APPENDED ? input->appended.ticket : input->not_appended.ticket;
    if (!pending->room || !pending->in_flight || pending->append->ticket != ticket) {
        return PW_OK;
    }
    if (input->kind == PW_IN_APPENDED) {
        return appended(s, input);
    }
    if (input->not_appended.status == PW_FENCED) {
        return fenced(s);
    }
    if (input->not_appended.status == PW_UNKNOWN) {
        return pw_rest_now(s, false);
    }
    if (input->not_appended.status == PW_STALE && s->v.phase == PW_PHASE_OPENING) {
        stale_claim(s);
    } else {
        not_committed(s);
    }
    return PW_OK;
}

pw_status pw_append_again(pw_session *s)
{
    const pw_pending *pending = &s->v.append;
    if (pending->in_flight || s->v.now_ms < s->v.store_at_ms) {
        return PW_OK;
    }
    return append_give(s);
}
