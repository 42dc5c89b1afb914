/*
 * The loop thread: every open session's machine is stepped here and nowhere else.
 *
 *   other threads ──notes──► drain ──┐
 *   uv: http, tools, alarms ─────────┴─► inputs of each seat ─► step ─► effects
 *                                                                          │
 *   writer ◄── all appends of a round at once ◄── outbox ◄─────────────────┘
 *
 * Rules that its files keep:
 *   1. Nothing acts inside a callback: callbacks append inputs to a seat and mark it ready.
 *   2. Each batch of a session begins with one PW_IN_TIME; the effects of a step are done in the
 *      order given, before the next step.
 *   3. An input that a step refused for lack of memory stays first in its queue.
 *   4. The loop waits for nobody: writes go to the writer, reads to the readers; both answer by
 *      a note.
 *   5. A seat leaves the table at once, its memory only when no job and no call of it is under way.
 *
 * A seat is a session as this process holds it:
 *   TAKING → LOADING → OPEN → LETTING_GO → GONE    the usual life
 *   OPEN → GONE                                    let go in its last append, or fenced
 *   OPEN → LOST → TAKING (reload)                  an append's outcome is unknown, or memory for
 *                                                  an effect was refused (J4)
 *   LOADING → LETTING_GO → FAILING → GONE          it cannot be loaded: left alone for a while
 */
#ifndef PW_RUNTIME_LOOP_H
#define PW_RUNTIME_LOOP_H

#include "model/model.h"
#include "net/http.h"
#include "runtime/alarm.h"
#include "runtime/blocks.h"
#include "runtime/readers.h"
#include "runtime/writer.h"
#include "tool/tool.h"

#define PW_SEATS_MAX 1024 /* sessions taken at once; more stay due */
#define PW_SEAT_BUCKETS 2048
#define PW_RUNNING_BUCKETS 1024
#define PW_INBOX_LIMIT 64
#define PW_MAX_ATTEMPTS 5   /* C4 */
#define PW_RECHECK_MS 10000 /* J6: no wake sleeps longer than this without a look at the clock */
#define PW_RETRY_MS 100

typedef struct pw_seat pw_seat;
typedef struct pw_running pw_running;
typedef struct pw_farewell pw_farewell;
typedef struct pw_pinned pw_pinned;

/* --- What other threads tell the loop --- */

typedef struct pw_note pw_note;
struct pw_note {
    pw_note *next;
    void (*act)(pw_loop *, pw_note *); /* on the loop thread; may give inputs, may not step */
};
/* Any thread; never blocks; the note is the teller's until `act`. */
void pw_loop_tell(pw_loop *, pw_note *);
void pw_loop_poke(pw_loop *); /* any thread: look at the store for what others did */
/* An inbox row of this session is durable; to be looked at from `due_at_ms` on. `agent`: the
 * session's, if this process has it, or NULL. */
void pw_loop_hint(pw_loop *, int64_t session_id, const pw_agent *agent, int64_t due_at_ms);

/* --- Inputs --- */

typedef struct pw_given pw_given;
struct pw_given {
    pw_given *next;
    pw_input input;
    void (*used)(pw_loop *, pw_seat *,
                 pw_given *); /* after it was stepped or dropped: gives its memory back */
    bool of_call;             /* survives a reload (J4) */
};

/* --- Seats --- */

typedef enum pw_seat_state {
    PW_SEAT_TAKING,
    PW_SEAT_LOADING,
    PW_SEAT_OPEN,
    PW_SEAT_LETTING_GO,
    PW_SEAT_LOST,
    PW_SEAT_FAILING,
    PW_SEAT_GONE
} pw_seat_state;

typedef struct pw_seat_job { /* `job` comes first, so that a done() finds the whole */
    pw_job job;
    pw_note note;
    pw_op op;
    pw_seat *seat;
    pw_loop *loop;
    bool busy;
} pw_seat_job;

typedef struct pw_seat_transact {
    pw_job job;
    pw_note note;
    pw_transact transact;
    pw_seat *seat;
    pw_loop *loop;
    const pw_tool_call *call;
    pw_arena arena;
    pw_tool_outcome outcome;
    bool ran; /* the tool was asked; `outcome` is what it said */
    bool busy;
} pw_seat_transact;

struct pw_seat {
    int64_t id;
    pw_seat_state state;
    pw_seat *next_in_table, *next_ready;
    bool ready;
    pw_arena arena;        /* strings of `row` */
    pw_session_row row;    /* as the last TAKE left it */
    const pw_agent *agent; /* today's; NULL: this process has it no more */
    pw_pinned *pinned;
    pw_session *session;
    pw_render render;
    pw_given *first, *last; /* inputs not yet stepped */
    pw_running *running;    /* calls of this session that have not ended */

    pw_seat_job own; /* TAKE, RELEASE */
    pw_seat_job append;
    pw_given append_given;
    bool append_turn_ended;
    pw_seat_transact transact;
    pw_tool_outcome transact_outcome;
    pw_seat_job inbox;
    pw_given inbox_given;
    pw_arena inbox_arena;
    bool inbox_again; /* something changed since the read that is under way began */
    bool inbox_more;  /* rows wait behind those last given */
    uint64_t looked_n;
    bool stale,
        stale_read; /* an append was STALE: its answer is given with the inbox as it then is */

    int64_t wake_at_ms; /* wall clock, -1: none */
    int64_t wake_monotonic_ms;
    bool wake_told;
    pw_alarm wake;
    pw_alarm retry; /* after NOMEM, and between takes of a lost session */
    int64_t backoff_ms;

    bool rest, rest_released; /* PW_DO_REST was said in this step */
    bool unknown, fenced;     /* how its last append was answered */
    bool hinted; /* something came while it could not be looked at: look again after letting go */
    bool reload, took_over, suspect, drain_given, failed;
};

pw_seat *pw_seat_find(pw_loop *, int64_t id);
/* Starts to take it. NULL: no memory or no room (it stays due). `agent` NULL: whatever the row
 * says, which may be one that this process has not only for a session named at start. `row`: as DUE
 * showed it, or NULL. */
pw_seat *pw_seat_take(pw_loop *, int64_t id, const pw_agent *agent, const pw_session_row *row,
                      bool take_over);
void pw_seat_opened(pw_loop *, pw_seat *); /* its load has been given to it */
void pw_seat_not_loaded(pw_loop *, pw_seat *, pw_status);
void pw_seat_give(pw_loop *, pw_seat *, pw_given *);
void pw_seat_mark_ready(pw_loop *, pw_seat *);
void pw_seat_look(pw_loop *, pw_seat *); /* read its inbox again, soon */
void pw_seat_refused(pw_loop *, pw_seat *, uint64_t ticket, pw_status, const pw_error *);
void pw_seat_arm(pw_loop *, pw_seat *);    /* its wake, from wake_at_ms */
void pw_seat_rested(pw_loop *, pw_seat *); /* after the step that said PW_DO_REST */
void pw_seat_lost(pw_loop *, pw_seat *);   /* take and load again, keeping its calls */
void pw_seat_answered(pw_loop *, pw_seat *,
                      pw_status); /* an append or transaction, when it is not OPEN any more */
void pw_seat_suspect(pw_loop *, pw_seat *, bool);
void pw_seat_drop(pw_loop *, pw_seat *);  /* out of the table, calls aborted */
void pw_seat_leave(pw_loop *, pw_seat *); /* stopping: let go as soon as its append is answered */
void pw_seat_sweep_up(pw_loop *,
                      pw_seat *); /* frees it when it is GONE and nothing of it is under way */
void pw_seat_fire_wake(void *loop, pw_alarm *);
void pw_seat_fire_retry(void *loop, pw_alarm *);

/* load.c: rows → a folded session, on a reader's thread */
struct pw_pinned {
    pw_pinned *next;
    pw_arena arena;
    const pw_definition *definition;
    size_t references;
};
bool pw_seat_load(pw_loop *, pw_seat *); /* false: no memory */
void pw_pinned_release(pw_loop *, pw_pinned *);

/* --- Calls --- */

struct pw_running {
    uint64_t id;   /* this process's: what tools and transfers know it by */
    uint64_t call; /* the session's */
    pw_seat *seat;
    pw_running *next_in_table, *next_in_seat;
    bool model, ended, aborting;
    const char
        *give_up; /* why this process broke it off: "stalled", "too_large", …; NULL: it did not */
    pw_str step;
    pw_arena arena;
    pw_alarm alarm; /* a tool's limit; a model's stall, or its script's next piece */
    pw_given last;  /* the input that ends it */
    pw_reply reply;
    pw_failure failure;
    pw_tool_outcome outcome;
    /* a model's */
    const pw_model_request *request; /* the session's; NULL when that is gone (C12) */
    pw_str response_id;              /* by which the provider knows it; or empty */
    const pw_provider *provider;
    pw_str asked; /* the model's name as the agent says it: what a failed call is priced by */
    pw_model_stream *stream;
    pw_endpoint endpoint;
    pw_buffer body; /* of an answer that is not 2xx */
    const pw_header *headers;
    size_t header_count;
    int status;
    int64_t first_token_ms, idle_ms, heard_ms;
    bool heard;
    const pw_play *plays;
    size_t play_count, play_at;
};

/* calls.c */
pw_running *pw_running_new(pw_loop *, pw_seat *, uint64_t call, pw_str step, bool model);
pw_running *pw_running_find(pw_loop *, uint64_t id);
void pw_running_end(
    pw_loop *, pw_running *); /* `last.input` says how; the seat gets it, or it is freed at once */
void pw_running_abort(pw_loop *, pw_running *);
void pw_running_abort_call(pw_loop *, pw_seat *, uint64_t call, bool for_good);
void pw_running_forget_requests(pw_seat *); /* the session that made them is about to go */
bool pw_begin_tool(pw_loop *, pw_seat *,
                   const pw_tool_call *); /* false: no memory; nothing started */
void pw_begin_transact(pw_loop *, pw_seat *, const pw_append *, const pw_receipt *,
                       const pw_tool_call *);
void pw_tool_ended(void *loop, uint64_t id, const pw_tool_outcome *);
pw_tool_place pw_seat_place(const pw_seat *);

/* ask.c */
bool pw_begin_model(pw_loop *, pw_seat *,
                    const pw_model_request *); /* false: no memory; nothing started */
void pw_model_heard(void *loop, const pw_http_event *);
void pw_running_abort_model(pw_loop *, pw_running *);
void pw_farewell_send(pw_loop *,
                      const pw_running *); /* asks the provider to stop working on it, once, best
                                              effort, within 2 s; its answer is no matter */
void pw_farewells_free(pw_loop *);         /* after the transport is gone */

/* pricing.c. The usage's cost: what the provider reported, else by the model that answered, else by
 * the one that was asked. `answered` may be empty, and `base_url`: the provider's own. */
typedef struct pw_sold {
    pw_str provider, base_url, asked, answered;
} pw_sold;
const pw_price *pw_price_of(const pawl *, const pw_sold *); /* NULL: no list has it */
int64_t pw_priced(const pawl *, const pw_sold *, const pw_usage *);

/* --- Ownership (owner.c) --- */

typedef struct pw_other_owner { /* another process, as its row was last seen */
    pw_owner_id id;
    uint64_t beat;
    int64_t since_ms; /* monotonic: when this beat was first seen */
    bool dead, seen;
} pw_other_owner;

typedef struct pw_owner_job { /* one under way at most of each */
    pw_job job;
    pw_note note;
    pw_op op;
    pw_loop *loop;
    pw_arena arena;
    bool busy, again;
} pw_owner_job;

typedef struct pw_owner {
    pw_owner_id id;
    int64_t lease_ms;
    pw_other_owner *others;
    size_t other_count, other_capacity;
    pw_owner_job beat, owners, due, named;
    int *alive; /* of the OWNERS read under way, by row; in its arena */
    pw_alarm tick, sweep;
    bool starved;     /* more was due than could be taken */
    bool rejoin;      /* this process's row is gone: join anew under another id */
    bool named_taken; /* the session named at start was asked for (take_over counts once) */
} pw_owner;

pw_status pw_owner_join(pw_loop *, pw_error *);    /* before the thread starts */
void pw_owner_leave(pw_loop *);                    /* after it ended */
void pw_owner_begin(pw_loop *);                    /* first sweep */
void pw_owner_sweep(pw_loop *);                    /* what is due? coalesced */
void pw_owner_wake_at(pw_loop *, int64_t wall_ms); /* sweep then, at the latest */
void pw_owner_hint(pw_loop *, int64_t session_id, const pw_agent *);
pw_status pw_owner_dead_list(pw_loop *, pw_arena *, const pw_dead_owner **ret, size_t *ret_count);
void pw_owner_free(pw_loop *);
bool pw_owner_busy(const pw_loop *);

/* --- The loop itself (loop.c) --- */

struct pw_loop {
    pawl *p;
    pw_blocks blocks; /* of seats, sessions and calls */
    uv_loop_t uv;
    uv_async_t async;
    uv_timer_t timer;
    uv_thread_t thread;
    _Atomic(pw_note *) notes; /* newest first; taken whole */
    atomic_bool poked;
    pw_alarms alarms;
    int64_t timer_at_ms;
    pw_readers *readers;
    pw_tool_runner *tools;
    pw_http *http;
    pw_owner owner;

    pw_seat *seats[PW_SEAT_BUCKETS];
    size_t seat_count; /* in the table */
    size_t suspect_count;
    size_t seat_total; /* with those that are GONE but not yet free */
    size_t seat_high;  /* the most there were since memory was last given back */
    pw_alarm calm;
    pw_job give_back; /* on a reader's thread */
    atomic_bool giving_back;
    pw_seat *ready_first, *ready_last;
    pw_job *outbox_first, *outbox_last;
    pw_running *running[PW_RUNNING_BUCKETS];
    uint64_t last_running;
    pw_farewell *farewells; /* requests to stop that are under way (ask.c) */
    pw_pinned *pinned;
    uint8_t entropy[4096];
    size_t entropy_left;

    pw_str only_session;  /* J2: that one alone; in the handle's arena */
    pw_str until_request; /* and no further than the end of this request's turn; or empty */
    int64_t only_id;
    bool take_over;

    bool draining, stopping, tools_closed, http_closed;
    int closing_step;
    uv_mutex_t mutex; /* of the three below: pawl_drain and pawl_close wait here */
    uv_cond_t changed;
    bool drained;
    pw_note drain_note, stop_note;
    bool drain_told, stop_told;
};

pw_status pw_loop_new(pawl *, const pawl_start_options *, pw_loop **ret, pw_error *);
pw_status pw_loop_run(pw_loop *, pw_error *); /* starts the thread */
pw_status pw_loop_drain(pw_loop *, int64_t timeout_ms);
void pw_loop_abandon(pw_loop *);        /* made, but its thread could not be started: frees all */
void pw_loop_stop(pw_loop *);           /* lets go of all, joins the thread */
void pw_loop_close(pw_loop *);          /* frees all, after pw_loop_stop and the writer's end */
void pw_loop_send(pw_loop *, pw_job *); /* to the writer, with the rest of this batch */
void pw_loop_committed(pw_loop *, pw_seat *,
                       const pw_append *);            /* an append of this seat is durable */
void pw_given_free(pw_loop *, pw_seat *, pw_given *); /* `used` of one that was allocated alone */
void pw_loop_calm(pw_loop *);                         /* a seat was freed */
bool pw_loop_here(const pw_loop *);                   /* is the calling thread the loop's? */
const pw_agent *pw_agent_find(const pawl *, pw_str name);

#endif
