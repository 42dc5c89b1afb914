/*
 * Following a session: stored events pulled from the store by cursor, then live text pulled from
 * the hub by position (M1, M2, M3).
 *
 * There is no queue for a subscriber anywhere: what it has not asked for costs nothing. One pass
 * looks, in this order, at
 *   1. the snapshot, once;  2. what is at hand of the record being told;  3. the page of records
 * read;  4. the store;
 *   5. messages that were queued;  6. live reasoning and text;  7. and then waits for news.
 *
 * Invariants:
 *   1. `at` is the place up to which everything stored was told: all records up to at.seq, and
 * at.index events of the one behind it.
 *   2. Live text is told only when it stands behind at.seq exactly; otherwise the store is asked
 * first. So an event never comes before an older one, and each stored one comes once.
 *   3. `shown` bytes of the open message were told (or were in the cursor); whatever discards them
 * is told before newer text (C5).
 */
#include "runtime/read_inner.h"

#include "base/format.h"
#include "base/heap.h"
#include "runtime/admit.h"
#include "runtime/loop.h"

#define PAGE_FIRST 16
#define PAGE_MAX 100
#define PAGE_BYTES ((size_t)1 << 20) /* aimed at: long records make short pages */
#define POLL_MS 50 /* a handle without a writer hears no news: it asks the store */
#define DATA_MAX ((size_t)64 << 20)

struct pawl_events {
    pawl *p;
    pw_str name;
    int64_t session_id; /* 0: there is no such session yet */
    pw_hub_interest *interest;
    pw_arena arena; /* name, turn */
    pw_arena page_arena, event_arena;

    pw_cursor at;
    bool snapshot_told, resync, from_now;
    bool stored_due; /* the store may have more */
    bool queue_due;
    uint64_t admitted; /* the last admission seen */

    const pw_record *page;
    size_t page_count, page_at, page_limit;
    const pw_event_out *events;
    size_t event_count, event_at;

    bool restart_due; /* tell message.restarted before anything else */
    uint64_t shown, shown_life, reasoning_shown, reasoning_life;
    int32_t shown_attempt;
    char turn[72]; /* of the last record told, or the row's */
    size_t turn_len;
    char step[160];
    size_t step_len;
};

/* --- Telling --- */

static void remember(char *to, size_t size, size_t *len, pw_str from)
{
    *len = from.len < size ? from.len : size;
    if (*len > 0) {
        memcpy(to, from.ptr, *len);
    }
}

typedef struct live_event {
    pw_buffer data;
    pw_json_writer w;
} live_event;

static void live_begin(pawl_events *f, live_event *e, bool with_step)
{
    pw_buffer_init_arena(&e->data, &f->event_arena, DATA_MAX);
    pw_json_begin(&e->w, &e->data);
    pw_json_object(&e->w);
    pw_json_put_str(&e->w, "session", f->name);
    pw_json_put_str(&e->w, "turn", f->turn_len > 0 ? (pw_str){f->turn, f->turn_len} : PW_STR_NONE);
    if (with_step && f->step_len > 0) {
        pw_json_put_str(&e->w, "step", (pw_str){f->step, f->step_len});
        pw_json_put_i64(&e->w, "attempt", f->shown_attempt);
    }
    pw_json_put_time(&e->w, "at", pw_now_ms());
}

static int32_t live_end(live_event *e, const char *name, pw_str id, pawl_event *ret)
{
    pw_json_object_end(&e->w);
    if (e->data.failed != PW_OK) {
        return e->data.failed;
    }
    pw_str n = pw_str_from(name), d = pw_buffer_str(&e->data);
    ret->id = (pawl_str){id.ptr, id.len};
    ret->name = (pawl_str){n.ptr, n.len};
    ret->data_json = (pawl_str){d.ptr, d.len};
    return PAWL_OK;
}

static pw_status delta_id(pawl_events *f, uint64_t seq, uint64_t bytes, pw_str *ret)
{
    char text[48];
    size_t len = pw_format(text, sizeof(text), "%llu.%llu", (unsigned long long)seq,
                           (unsigned long long)bytes);
    return pw_arena_dup(&f->event_arena, (pw_str){text, len}, ret);
}

/* A cursor as text: where this stream stands. */
static pw_status cursor_text(pawl_events *f, pw_str *ret)
{
    char text[64];
    unsigned long long seq = f->at.seq;
    size_t len = f->at.index > 0 ? pw_format(text, sizeof(text), "%llu-%u", seq + 1, f->at.index)
                 : f->shown > 0
                     ? pw_format(text, sizeof(text), "%llu.%llu", seq, (unsigned long long)f->shown)
                     : pw_format(text, sizeof(text), "%llu", seq);
    return pw_arena_dup(&f->event_arena, (pw_str){text, len}, ret);
}

/* --- The session, which may not be there yet --- */

static pw_status look_for_session(pawl_events *f, pw_session_row *ret, bool *ret_found)
{
    pw_op op = {
        .kind = PW_OP_SESSION,
        .session = {.session_id = f->session_id, .principal = f->p->principal, .session = f->name}};
    pw_status status = pw_read_op(f->p, &op, &f->event_arena, NULL);
    *ret_found = status == PW_OK;
    if (status != PW_OK) {
        return status == PW_NOT_FOUND ? PW_OK : status;
    }
    *ret = op.session.row;
    if (f->session_id == 0) { /* from here on only its own news counts */
        PW_TRY(pw_hub_watch_instead(f->interest, ret->id));
        f->session_id = ret->id;
        f->stored_due = true;
        f->queue_due = true;
    }
    return PW_OK;
}

static bool is_live(const pawl_events *f, const pw_session_row *row, const pw_hub_live *live)
{
    const pw_loop *loop = pw_loop_of(f->p);
    if (!loop) {
        return false;
    }
    bool mine_to_run = loop->only_session.len == 0 || pw_str_equal(loop->only_session, f->name);
    return live->held || (mine_to_run && row->owner.len == 0);
}

/* Does the cursor stand in the message that is open? Records may have come amid it. */
static bool stands_in(const pawl_events *f, const pw_hub_live *live)
{
    return live->open && live->from_seq <= f->at.seq && f->at.seq <= live->after_seq &&
           f->at.index == 0;
}

/* The place where the stream begins, once the session is there. */
static void begin_at(pawl_events *f, const pw_session_row *row, const pw_hub_live *live)
{
    if (f->from_now) {
        f->at = (pw_cursor){.seq = row->last_seq};
        bool open = live->open && live->after_seq == row->last_seq;
        f->shown = open ? live->text_bytes : 0;
    } else if (pw_cursor_beyond(&f->at, row->last_seq)) {
        f->resync = true;
        f->at = (pw_cursor){0};
        f->shown = 0;
    }
    f->from_now = false;
    remember(f->turn, sizeof(f->turn), &f->turn_len, row->turn);
    if (stands_in(f, live)) {
        f->shown_life = live->life;
        f->shown_attempt = live->attempt;
        remember(f->step, sizeof(f->step), &f->step_len, live->step);
        if (f->shown > live->text_bytes) {
            f->restart_due = true;
        }
    }
}

static pw_status write_snapshot(pawl_events *f, live_event *e, const pw_session_row *row,
                                const pw_hub_live *live)
{
    pw_str cursor;
    PW_TRY(cursor_text(f, &cursor));
    pw_json_put_str(&e->w, "cursor", cursor);
    pw_json_put_bool(&e->w, "live", row ? is_live(f, row, live) : pw_loop_of(f->p) != NULL);
    pw_json_key(&e->w, "queue");
    pw_json_array(&e->w);
    if (row) {
        PW_TRY(pw_queue_write(f->p, row, &e->w, &f->event_arena, &f->admitted, NULL));
    }
    pw_json_array_end(&e->w);
    pw_json_put_raw(&e->w, "inputs", PW_STR("[]"));
    pw_json_key(&e->w, "open");
    if (!live->open || !row) {
        pw_json_nothing(&e->w);
        return PW_OK;
    }
    bool here = stands_in(f, live) && f->shown <= live->text.len;
    pw_json_object(&e->w);
    pw_json_put_str(&e->w, "step", live->step);
    pw_json_put_i64(&e->w, "attempt", live->attempt);
    pw_json_put_str(&e->w, "text",
                    here ? pw_str_slice(live->text, 0, (size_t)f->shown) : PW_STR(""));
    pw_json_object_end(&e->w);
    return PW_OK;
}

static int32_t tell_snapshot(pawl_events *f, pawl_event *ret)
{
    pw_session_row row;
    pw_hub_live live = {0};
    bool found;
    PW_TRY(look_for_session(f, &row, &found));
    if (found) {
        PW_TRY(pw_hub_live_get(f->p->hub, f->session_id, 0, &f->event_arena, &live));
        begin_at(f, &row, &live);
    } else if (f->at.seq > 0 || f->at.index > 0) {
        f->resync = true;
        f->at = (pw_cursor){0};
        f->shown = 0;
    }
    live_event e;
    live_begin(f, &e, false);
    PW_TRY(write_snapshot(f, &e, found ? &row : NULL, &live));
    PW_TRY(live_end(&e, "snapshot", PW_STR(""), ret));
    f->snapshot_told = true;
    f->stored_due = true;
    return PAWL_OK;
}

static int32_t tell_plain(pawl_events *f, const char *name, bool with_step, pawl_event *ret)
{
    live_event e;
    live_begin(f, &e, with_step);
    return live_end(&e, name, PW_STR(""), ret);
}

/* --- Stored events --- */

static void let_go_of_text(pawl_events *f)
{
    f->shown = 0;
    f->shown_life = 0;
    f->reasoning_shown = 0;
    f->reasoning_life = 0;
}

/* What a record does to text that was shown: the end of a message or a turn replaces it, a discard
 * tells so itself; a new attempt discards it without a word of its own, so it is said here. One
 * that comes amid a message leaves it as it is. */
static void before_record(pawl_events *f, const pw_record *r)
{
    switch (r->kind) {
    case PW_RECORD_ATTEMPT_STARTED:
        f->restart_due = f->shown > 0;
        break;
    case PW_RECORD_MODEL_ACCEPTED:
    case PW_RECORD_TOOL_LATE:
        remember(f->turn, sizeof(f->turn), &f->turn_len, r->turn);
        return;
    case PW_RECORD_TURN_OPENED:
    case PW_RECORD_MODEL_COMPLETED:
    case PW_RECORD_MODEL_DISCARDED:
    case PW_RECORD_TURN_ENDED:
    case PW_RECORD_MODEL_RETRYING:
    case PW_RECORD_WAIT_SET:
    case PW_RECORD_MODEL_FALLBACK:
    case PW_RECORD_TOOL_STARTED:
    case PW_RECORD_TOOL_COMPLETED:
    case PW_RECORD_TRANSCRIPT_REPAIRED:
        break;
    }
    if (!f->restart_due) {
        let_go_of_text(f);
    }
    remember(f->turn, sizeof(f->turn), &f->turn_len, r->turn);
}

static pw_status next_record(pawl_events *f)
{
    const pw_record *r = &f->page[f->page_at];
    pw_arena_reset(&f->event_arena);
    PW_TRY(pw_event_tell(r, f->name, &f->event_arena, &f->events, &f->event_count, NULL));
    f->page_at++;
    bool resumes = r->seq == f->at.seq + 1; /* inside this record, where the cursor says so */
    f->event_at = !resumes ? 0 : f->at.index < f->event_count ? f->at.index : f->event_count;
    before_record(f, r);
    if (f->event_at == f->event_count) {
        f->at = (pw_cursor){.seq = r->seq};
        f->event_count = 0;
        f->event_at = 0;
    }
    return PW_OK;
}

static int32_t tell_stored(pawl_events *f, pawl_event *ret)
{
    const pw_event_out *e = &f->events[f->event_at++];
    uint64_t seq = f->page[f->page_at - 1].seq;
    if (f->event_at == f->event_count) {
        f->at = (pw_cursor){.seq = seq};
        f->event_count = 0;
        f->event_at = 0;
    } else {
        f->at = (pw_cursor){.seq = seq - 1, .index = (uint32_t)f->event_at};
    }
    ret->id = (pawl_str){e->id.ptr, e->id.len};
    ret->name = (pawl_str){e->name.ptr, e->name.len};
    ret->data_json = (pawl_str){e->data.ptr, e->data.len};
    return PAWL_OK;
}

/* PW_END: nothing new. */
static pw_status read_page(pawl_events *f)
{
    f->page_count = 0;
    f->page_at = 0;
    pw_arena_reset(&f->page_arena);
    pw_op op = {.kind = PW_OP_RECORDS,
                .records = {.session_id = f->session_id,
                            .from_seq = f->at.seq + 1,
                            .limit = f->page_limit}};
    PW_TRY(pw_read_op(f->p, &op, &f->page_arena, NULL));
    if (op.records.count == 0) {
        f->stored_due = false;
        return PW_END;
    }
    f->page = op.records.records;
    f->page_count = op.records.count;
    f->stored_due = op.records.count == f->page_limit;
    size_t average = f->page_arena.held / op.records.count + 1;
    size_t fits = PAGE_BYTES / average;
    f->page_limit = fits < 1 ? 1 : fits > PAGE_MAX ? PAGE_MAX : fits;
    return PW_OK;
}

/* --- What is live only --- */

/* PW_END: nothing was queued. One message is told at a time: the list is read again for the next,
 * which is no matter for so rare a thing. */
static int32_t tell_queued(pawl_events *f, pawl_event *ret)
{
    pw_op op = {.kind = PW_OP_INBOX, .inbox = {.session_id = f->session_id, .limit = PW_PAGE_MAX}};
    PW_TRY(pw_read_op(f->p, &op, &f->event_arena, NULL));
    int64_t position = 0;
    for (size_t i = 0; i < op.inbox.inbox.count; i++) {
        const pw_inbox_row *m = &op.inbox.inbox.rows[i];
        position += m->kind == PW_INBOX_MESSAGE ? 1 : 0;
        if (m->kind != PW_INBOX_MESSAGE || m->n <= f->admitted) {
            continue;
        }
        f->admitted = m->n;
        live_event e;
        live_begin(f, &e, false);
        pw_json_put_str(&e.w, "request_id", m->request_id);
        pw_json_put_i64(&e.w, "position", position);
        return live_end(&e, "message.queued", PW_STR(""), ret);
    }
    f->admitted = op.inbox.inbox.looked_n > f->admitted ? op.inbox.inbox.looked_n : f->admitted;
    f->queue_due = false;
    return PW_END;
}

static int32_t tell_reasoning(pawl_events *f, const pw_hub_live *live, pawl_event *ret)
{
    if (f->reasoning_life != live->life) {
        f->reasoning_life = live->life;
        f->reasoning_shown = 0;
    }
    pw_str text;
    uint64_t end;
    PW_TRY(pw_hub_reasoning_get(f->p->hub, f->session_id, f->reasoning_shown, &f->event_arena,
                                &text, &end));
    if (text.len == 0) {
        return PW_END;
    }
    f->reasoning_shown = end;
    live_event e;
    live_begin(f, &e, true);
    pw_json_put_str(&e.w, "text", text);
    return live_end(&e, "reasoning.delta", PW_STR(""), ret);
}

/* PW_END: no live text is due. */
static int32_t tell_live(pawl_events *f, pawl_event *ret)
{
    pw_hub_live live;
    PW_TRY(pw_hub_live_get(f->p->hub, f->session_id, f->shown, &f->event_arena, &live));
    if (!live.open || live.after_seq != f->at.seq || f->at.index > 0) {
        f->stored_due = f->stored_due || (live.open && live.after_seq > f->at.seq);
        return PW_END;
    }
    bool other = f->shown_life != 0 && f->shown_life != live.life;
    if (f->shown > 0 &&
        (other || f->shown > live.text_bytes)) { /* the text shown is not this one's beginning */
        let_go_of_text(f);
        return tell_plain(f, "message.restarted", true, ret);
    }
    f->shown_life = live.life;
    f->shown_attempt = live.attempt;
    remember(f->step, sizeof(f->step), &f->step_len, live.step);
    int32_t status = tell_reasoning(f, &live, ret);
    if (status != PW_END || live.text.len == 0) {
        return status;
    }
    pw_str id;
    PW_TRY(delta_id(f, live.after_seq, live.text_bytes, &id));
    f->shown = live.text_bytes;
    live_event e;
    live_begin(f, &e, true);
    pw_json_put_str(&e.w, "text", live.text);
    return live_end(&e, "message.delta", id, ret);
}

/* --- The stream
 * ---------------------------------------------------------------------------------------------------
 */

/* One look at everything. PW_END: there is nothing to tell now. */
static int32_t look(pawl_events *f, pawl_event *ret)
{
    if (!f->snapshot_told) {
        return tell_snapshot(f, ret);
    }
    if (f->resync) {
        f->resync = false;
        return tell_plain(f, "resync", false, ret);
    }
    if (f->session_id == 0) {
        pw_session_row row;
        bool found;
        PW_TRY(look_for_session(f, &row, &found));
        if (!found) {
            return PW_END;
        }
    }
    for (int asked = 0;;) {
        if (f->restart_due) {
            f->restart_due = false;
            let_go_of_text(f);
            return tell_plain(f, "message.restarted", true, ret);
        }
        if (f->event_at < f->event_count) {
            return tell_stored(f, ret);
        }
        if (f->page_at < f->page_count) {
            PW_TRY(next_record(f));
            continue;
        }
        pw_status status = f->stored_due ? read_page(f) : PW_END;
        if (status != PW_OK && status != PW_END) {
            return status;
        }
        if (status == PW_OK) {
            continue;
        }
        if (f->queue_due) {
            status = tell_queued(f, ret);
            if (status != PW_END) {
                return status;
            }
        }
        status = tell_live(f, ret);
        if (status != PW_END || !f->stored_due || asked++ > 0) {
            return status;
        }
    }
}

static int64_t left_until(int64_t until_ms)
{
    if (until_ms < 0) {
        return -1;
    }
    int64_t left = until_ms - pw_monotonic_ms();
    return left > 0 ? left : 0;
}

static int32_t wait_for_news(pawl_events *f, int64_t until_ms)
{
    int64_t left = left_until(until_ms);
    bool polls = !f->p->writer;
    bool cut = polls && (left < 0 || left > POLL_MS);
    unsigned news = 0;
    pw_status status = pw_hub_wait_news(f->interest, cut ? POLL_MS : left, &news);
    if (status == PW_TIMEOUT && polls) {
        news = PW_NEWS_RECORDS;
        status = cut ? PW_OK : PW_TIMEOUT;
    }
    f->stored_due = f->stored_due || (news & PW_NEWS_RECORDS) != 0;
    f->queue_due = f->queue_due || (news & PW_NEWS_ADMITTED) != 0;
    return status;
}

int32_t pawl_events_next(pawl_events *f, int64_t timeout_ms, pawl_event *ret)
{
    if (!f || !ret) {
        return PAWL_MISUSE;
    }
    int64_t until = timeout_ms < 0 ? -1 : pw_monotonic_ms() + timeout_ms;
    for (;;) {
        if (f->event_count == 0) { /* events at hand live in it */
            pw_arena_reset(&f->event_arena);
        }
        pawl_event event = {0};
        int32_t status = look(f, &event);
        if (status == PAWL_OK) {
            ret->id = event.id;
            ret->name = event.name;
            ret->data_json = event.data_json;
            pw_hub_poke(f->interest);
            return PAWL_OK;
        }
        if (status != PW_END) {
            return status;
        }
        status = wait_for_news(f, until);
        if (status != PAWL_OK) {
            return status;
        }
    }
}

/* --- Life
 * -----------------------------------------------------------------------------------------------------------
 */

static pw_status open_stream(pawl_events *f, pw_str cursor, pw_error *error)
{
    f->from_now = pw_str_is(cursor, "now");
    if (!f->from_now) {
        PW_TRY(pw_cursor_parse(cursor, &f->at, error));
        f->shown = f->at.bytes;
    }
    PW_TRY(pw_arena_dup(&f->arena, f->name, &f->name));
    return pw_hub_watch(f->p->hub, 0, &f->interest);
}

int32_t pawl_follow(pawl *p, pawl_str session, pawl_str cursor, pawl_events **ret,
                    pawl_error *error)
{
    pw_error *e = (pw_error *)error;
    if (!p || !ret) {
        return PW_FAIL(e, PW_MISUSE, "pawl_follow needs a handle and a place for its stream");
    }
    PW_TRY(pw_session_name_check((pw_str){session.ptr, session.len}, e));
    pawl_events *f = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof(*f));
    if (!f) {
        return PW_FAIL(e, PW_NOMEM, "no memory for a stream of events");
    }
    *f = (pawl_events){.p = p, .name = {session.ptr, session.len}, .page_limit = PAGE_FIRST};
    pw_arena_init(&f->arena, p->allocator, 0, 0);
    pw_arena_init(&f->page_arena, p->allocator, 0, 0);
    pw_arena_init(&f->event_arena, p->allocator, 0, 0);
    pw_status status = open_stream(f, (pw_str){cursor.ptr, cursor.len}, e);
    if (status != PW_OK) {
        pawl_events_close(f);
        return status == PW_NOMEM ? PW_FAIL(e, PW_NOMEM, "no memory for a stream of events")
                                  : status;
    }
    *ret = f;
    return PAWL_OK;
}

int32_t pawl_events_fd(const pawl_events *f)
{
    return f && f->p->writer ? pw_hub_fd(f->interest) : -1;
}

void pawl_events_close(pawl_events *f)
{
    if (!f) {
        return;
    }
    const pw_allocator *allocator = f->p->allocator;
    pw_hub_unwatch(f->interest);
    pw_arena_free(&f->arena);
    pw_arena_free(&f->page_arena);
    pw_arena_free(&f->event_arena);
    allocator->resize(allocator->ctx, f, sizeof(*f), 0);
}
