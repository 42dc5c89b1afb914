/*
 * pawl_wait: until the turn of a request has ended, whoever runs it. The caller's thread. Must
 * never trust what woke it: the store says whether it is over; the wait is only until there is
 * reason to ask again, or a second has passed.
 */
#include "runtime/admit.h"
#include "runtime/read_inner.h"
#include "runtime/writer.h"

enum { LOOK_AGAIN_MS = 1000, LOOK_SOON_MS = 20 };

typedef struct wait {
    pawl *p;
    pw_session_row row;
    pw_str request_id;
    pw_str turn; /* once claimed */
    pw_arena arena;
} wait;

/* PW_OK: the turn is over. PW_END: not yet. */
static pw_status look(wait *w, pw_arena *arena, pw_error *error)
{
    if (w->turn.len == 0) {
        pw_op message = {.kind = PW_OP_MESSAGE,
                         .arena = arena,
                         .message = {.session_id = w->row.id, .request_id = w->request_id}};
        PW_TRY(pw_read_op(w->p, &message, arena, error));
        switch (message.message.row.disposition) {
        case PW_PENDING:
        case PW_SETTLED:
            return PW_END;
        case PW_SUPERSEDED:
        case PW_WITHDRAWN:
            return PW_FAIL(error, PW_CANCELLED, "the message was %s",
                           pw_disposition_name(message.message.row.disposition));
        case PW_CLAIMED:
        case PW_ANSWERED:
            PW_TRY(pw_arena_dup(&w->arena, message.message.row.turn, &w->turn));
            break;
        }
    }
    pw_op turn = {
        .kind = PW_OP_TURN, .arena = arena, .turn = {.session_id = w->row.id, .turn = w->turn}};
    PW_TRY(pw_read_op(w->p, &turn, arena, error));
    if (turn.turn.row.ended_seq > 0) {
        return PW_OK;
    }
    return turn.turn.row.state == PW_TURN_SUSPENDED
               ? PW_FAIL(error, PW_SUSPENDED, "the turn waits for a person")
               : PW_END;
}

static pw_status answer(wait *w, pawl_doc **ret, pw_error *error)
{
    pw_buffer text;
    pw_buffer_init(&text, w->p->allocator, PW_ANSWER_MAX);
    pw_status status = pw_read_turn(w->p, &w->row, w->turn, &w->arena, &text, error);
    status = status == PW_OK ? (pw_status)pw_doc_new(pw_buffer_str(&text), ret, (pawl_error *)error)
                             : status;
    pw_buffer_free(&text);
    return status;
}

/* One look at everything: PW_OK with the answer made, PW_END when it is not over, or why not. */
static pw_status look_and_answer(wait *w, pw_str name, pw_arena *scratch, pawl_doc **ret,
                                 pw_error *error)
{
    if (w->row.id == 0) {
        PW_TRY(pw_find_session(w->p, name, &w->arena, &w->row, error));
    }
    PW_TRY(look(w, scratch, error));
    return answer(w, ret, error);
}

/* A failure that may pass is waited out like a turn that has not ended. */
static bool goes_on(pw_status status)
{
    return status == PW_END || (pw_status_may_retry(status) && status != PW_NOMEM);
}

static pw_status wait_for(wait *w, pw_str name, int64_t timeout_ms, pawl_doc **ret, pw_error *error)
{
    pawl *p = w->p;
    int64_t until_ms = timeout_ms < 0 ? INT64_MAX : pw_monotonic_ms() + timeout_ms;
    bool entered = false;
    pw_waiter waiter;
    pw_arena scratch;
    pw_arena_init(&scratch, p->allocator, 4096, 0);
    pw_status status;
    for (;;) {
        if (!entered && w->row.id != 0) { /* before looking, so that nothing is missed */
            status = pw_waiters_enter(&p->waiters, &waiter, w->row.id);
            entered = status == PW_OK;
            if (!entered) {
                break;
            }
        }
        status = look_and_answer(w, name, &scratch, ret, error);
        pw_arena_reset(&scratch);
        if (!goes_on(status)) {
            break;
        }
        int64_t now_ms = pw_monotonic_ms();
        if (now_ms >= until_ms) {
            status = PW_FAIL(error, PW_TIMEOUT, "the turn has not ended within the time allowed");
            break;
        }
        int64_t look_ms = now_ms + (entered && status == PW_END ? LOOK_AGAIN_MS : LOOK_SOON_MS);
        look_ms = look_ms < until_ms ? look_ms : until_ms;
        if (entered && pw_waiters_wait(&p->waiters, &waiter, look_ms) == PW_END) {
            status = PW_END;
            break;
        }
        if (w->row.id == 0) {
            pw_pause_ms(LOOK_SOON_MS);
        }
    }
    pw_arena_free(&scratch);
    if (entered) {
        pw_waiters_leave(&p->waiters, &waiter);
    }
    return status == PW_END ? PW_FAIL(error, PW_END, "the handle is being closed") : status;
}

int32_t pawl_wait(pawl *p, pawl_str session, pawl_str request_id, int64_t timeout_ms,
                  pawl_doc **ret_turn, pawl_error *error)
{
    pw_error local = {0};
    pw_error *e = error ? (pw_error *)error : &local;
    PW_TRY(pw_call_allowed(p, false, e));
    if (pw_inside_here(p->inside)) {
        return PW_FAIL(e, PW_MISUSE, "pawl_wait cannot be called from a tool or from log");
    }
    if (!ret_turn) {
        return PW_FAIL(e, PW_MISUSE, "nowhere to put the answer");
    }
    pw_str name = {session.ptr, session.len};
    wait w = {.p = p, .request_id = {request_id.ptr, request_id.len}};
    PW_TRY(pw_session_name_check(name, e));
    pw_arena_init(&w.arena, p->allocator, 4096, 0);
    pw_status status = wait_for(&w, name, timeout_ms, ret_turn, e);
    pw_arena_free(&w.arena);
    return status == PW_NOMEM ? PW_FAIL(e, PW_NOMEM, "out of memory") : status;
}
