/*
 * The session machine's insides, shared by the files of this room and nobody else.
 *
 * Two halves. `pw_durable` is written by the fold alone (fold.c): it is what the journal says.
 * `pw_volatile` is the rest: calls in flight, what waits, the append under way. Both are plain
 * values, so a step that runs out of memory puts both back (session.c) and the same input may be
 * given again.
 *
 * Invariants:
 *   1. Only pw_fold_apply writes pw_durable, but for `list`, `capacity`, `first` and `end`, which
 * pw_list_reserve may move to a larger block.
 *   2. One append is under way at most; while it is, nothing is decided (append.c).
 *   3. An append is made by folding its records as they are added (a trial): each decision sees the
 * state that the records before it make. When the append is complete the durable half is put back;
 * the same prepared records are applied for good at PW_IN_APPENDED, which therefore cannot fail.
 *   4. Memory lives in rooms (an arena each). A room made in a failed step is freed; a room let go
 * in a step is freed when that step has succeeded.
 *   5. What a driver may still read (a request, a call, the context it names) is let go when that
 * call has ended.
 */
#ifndef PW_CORE_STATE_H
#define PW_CORE_STATE_H

#include "base/id.h"
#include "base/siphash.h"
#include "core/session.h"
#include "core/transcript.h"
#include "core/value.h"

/* After an exhaustive switch: a value that is none of its enum's. */
#define PW_NEVER(what) pw_assert_failed(__FILE__, __LINE__, what)

/* --- Memory --- */

typedef struct pw_room {
    pw_arena arena;
    struct pw_room *next, *prev; /* all rooms of the session */
    struct pw_room *fresh_next;  /* those made in this step */
    struct pw_room *leaving_next;
    bool leaving;
    bool window; /* a running model call may still read it */
} pw_room;

/* --- The durable half --- */

/* How a call was settled. X(NAME, "text in tool.completed") */
#define PW_OUTCOME_TABLE(X)                                                                        \
    X(DONE, "done")                                                                                \
    X(ERROR, "error")                                                                              \
    X(UNKNOWN, "unknown")                                                                          \
    X(CANCELLED, "cancelled")                                                                      \
    X(DENIED, "denied")                                                                            \
    X(PAUSED, "paused")                                                                            \
    X(MALFORMED, "malformed")                                                                      \
    X(REPEATED, "repeated")

typedef enum pw_outcome {
#define PW_OUTCOME_ENUM(name, text) PW_OUTCOME_##name,
    PW_OUTCOME_TABLE(PW_OUTCOME_ENUM)
#undef PW_OUTCOME_ENUM
} pw_outcome;
const char *pw_outcome_name(pw_outcome);

/* What a turn, or a session, used (H2). The names are those of the record. */
#define PW_TOTALS_TABLE(X)                                                                         \
    X(input_tokens)                                                                                \
    X(output_tokens)                                                                               \
    X(cached_tokens)                                                                               \
    X(reasoning_tokens)                                                                            \
    X(cost_micros)                                                                                 \
    X(unpriced_calls)                                                                              \
    X(lost_calls)                                                                                  \
    X(iterations)                                                                                  \
    X(tool_calls)                                                                                  \
    X(retries)                                                                                     \
    X(fallbacks)                                                                                   \
    X(protocol_failures)

typedef struct pw_totals {
#define PW_TOTALS_FIELD(name) int64_t name;
    PW_TOTALS_TABLE(PW_TOTALS_FIELD)
#undef PW_TOTALS_FIELD
} pw_totals;

/* A call of the open turn's last assistant message. */
typedef struct pw_call {
    const pw_part *part;
    pw_str step;             /* tool:<n>:<id> */
    int64_t n;               /* the number of its tool message */
    pw_short_hash signature; /* F4: name and canonical arguments */
    int64_t streak; /* F4: model steps before this one, running, that made the same call with the
                       same outcome */
    pw_short_hash streak_outcome;
    pw_short_hash outcome_hash; /* of this one, once closed */
    int64_t intents;            /* tool.started records */
    int64_t limit_at_ms;
    int64_t perhaps; /* executions that may have begun in a process that died */
    bool closed;
    pw_outcome outcome;
} pw_call;

typedef struct pw_operation { /* F7: what the turn did to the world */
    const struct pw_operation *before;
    pw_str step, name;
    pw_effects_class effects;
    pw_outcome outcome;
} pw_operation;

typedef struct pw_turn {
    bool open;
    bool
        damaged; /* records of it are missing: no call with effects is run from what is left (C9) */
    pw_str id, run, agent, definition;
    pw_str source, speaker; /* speaker: JSON or empty */
    pw_str requests;        /* JSON array of ids */
    pw_budget budget;
    int64_t opened_at_ms, deadline_at_ms; /* -1: none */
    uint64_t opened_seq, first_seq;
    int64_t attempts;
    pw_totals totals;
    pw_str model;   /* of the last reply, or the fallback that is asked since */
    int64_t choice; /* which of the definition's models is asked (F6) */
    bool answered;  /* has a receipt: from here on only models of the same provider are asked */
    /* Of the model step that is owed: */
    int64_t retries, waits, empties, quarantines;
    int64_t earlier_quarantines; /* of them, those of models asked before (F6) */
    pw_str response_id;          /* the provider works on it under this id; or empty */
    bool response_unsure;  /* begun in a life that is over: lost when it cannot be resumed (G6) */
    int64_t wait_until_ms; /* wait.set and not over; -1: none */
    /* Calls of the last assistant message, in order; a model step is owed when none is open. */
    pw_call *calls;
    size_t call_count, closed_count;
    int64_t calls_n;                /* the assistant message's number */
    const pw_operation *operations; /* newest first */
    bool changed_something;         /* a call with effects succeeded (C6) */
} pw_turn;

typedef struct pw_span { /* one turn's messages in the window */
    pw_room *room;
    struct pw_span *newer;
    uint64_t opened_seq;
} pw_span;

typedef struct pw_durable {
    uint64_t last_seq;
    int64_t generation;
    int64_t messages; /* the number of the last message */
    int64_t turns;
    pw_totals totals; /* of the turns that ended */
    pw_str initiator; /* JSON or empty */
    pw_turn turn;
    /* The window: list[first..end). */
    const pw_message **list;
    size_t first, end, capacity;
    pw_room *list_room;
    uint64_t window_seq;     /* the turn it begins with */
    uint64_t window_version; /* raised when the front moves or a repair is applied; not content */
    pw_span *newest;
} pw_durable;

/* A record read and allocated, ready to be applied. */
typedef struct pw_prepared pw_prepared;

/* --- The volatile half --- */

/* The states of a turn (CORE.md). X(NAME, "name", "what it may become") */
#define PW_PHASE_TABLE(X)                                                                          \
    X(NONE, "none", "opening, asking (load), running (load), waiting (load)")                      \
    X(OPENING, "opening", "asking, none (stale claim)")                                            \
    X(ASKING, "asking", "replied, waiting, ending")                                                \
    X(REPLIED, "replied", "running, asking, waiting, ending")                                      \
    X(RUNNING, "running", "asking, ending")                                                        \
    X(WAITING, "waiting", "asking, ending")                                                        \
    X(ENDING, "ending", "none")

typedef enum pw_phase {
#define PW_PHASE_ENUM(name, text, to) PW_PHASE_##name,
    PW_PHASE_TABLE(PW_PHASE_ENUM)
#undef PW_PHASE_ENUM
} pw_phase;

typedef enum pw_live_state {
    PW_LIVE_IDLE,   /* not begun in this life */
    PW_LIVE_INTENT, /* its tool.started is written in this life; not begun */
    PW_LIVE_RUNNING,
    PW_LIVE_ENDED,  /* its last input is kept */
    PW_LIVE_SETTLED /* its end is in the append under way, or durable */
} pw_live_state;

typedef struct pw_live_model {
    pw_live_state state;
    uint64_t call;
    int64_t started_at_ms;
    int32_t tries;
    pw_str step;           /* in `room` */
    pw_str accepted;       /* in `room`: the id to be recorded; empty: none, or recorded */
    pw_room *room;         /* of the request */
    pw_room *kept;         /* of what came back */
    const pw_reply *reply; /* one of the two */
    const pw_failure *failure;
} pw_live_model;

typedef struct pw_live_call {
    pw_live_state state;
    uint64_t call;
    int64_t started_at_ms;
    int64_t execution;
    pw_effects_class effects;
    bool alive; /* begun in the session's life before */
    bool fits;  /* its arguments were checked (F3) */
    pw_room *room, *kept;
    const pw_tool_outcome *outcome;
} pw_live_call;

/* A call that was settled before it ended: its last input is yet to come (D8). */
typedef struct pw_ghost {
    struct pw_ghost *next;
    pw_room *room; /* this struct, its strings */
    pw_room *held; /* what the driver may still read */
    uint64_t call;
    bool model;
    bool answered; /* its end came; only a late result can still come */
    bool over;     /* to be forgotten */
    bool settled;  /* its tool.late is in the append under way */
    pw_str turn, step, id, name;
    pw_effects_class effects;
    pw_room *kept;
    const pw_tool_outcome *late;
} pw_ghost;

typedef struct pw_pending {
    pw_room *room; /* NULL: no append under way */
    const pw_append *append;
    pw_prepared *const *prepared;
    size_t count;
    bool transact;
    size_t call_index;  /* of a transaction */
    bool in_flight;     /* false: not committed, to be given again */
    bool drops_waiting; /* a claim: the waiting rows it names are gone when it is durable */
    uint64_t claimed_n;
} pw_pending;

typedef struct pw_volatile {
    bool opened, inbox_seen, draining, resting;
    bool attempt_due; /* attempt.started is to be written before anything is done (C4) */
    int64_t now_ms;
    pw_random random;
    uint64_t epoch, counter;
    pw_cause cause;
    int64_t crashes, max_attempts;
    const pw_definition *pinned, *today;
    pw_phase phase;
    /* What waits. */
    pw_room *inbox_room;
    const pw_inbox_row *rows;
    size_t row_count;
    bool more;
    uint64_t looked_n;
    uint64_t claimed_n; /* messages up to this row are claimed by us */
    /* What runs. */
    pw_live_model model;
    pw_live_call *live; /* beside durable.turn.calls of message live_n */
    size_t live_count;
    int64_t live_n;
    pw_room *live_room;
    pw_ghost *ghosts;
    uint64_t text_bytes; /* of the message that streams */
    /* Waits. */
    int64_t retry_at_ms; /* before which the model is not asked again; -1: none */
    pw_str wait_reason;  /* static text */
    int64_t store_at_ms; /* when the append (or transaction) is given again; -1: none */
    int64_t store_pause_ms;
    int64_t wake_at_ms; /* the last PW_DO_WAKE; -1: none */
    /* The context as the model saw it last. */
    size_t sent, checked;
    uint64_t sent_version, checked_version;
    pw_pending append;
} pw_volatile;

/* The append being made (append.c). */
typedef struct pw_build {
    pw_room *room;
    pw_durable saved;
    pw_call *saved_calls;
    pw_record *records;
    pw_prepared **prepared;
    size_t count, capacity;
    pw_blob *blobs;
    size_t blob_count;
    pw_consumed *consumed;
    size_t consumed_count;
    bool claims, ends, waits, begins; /* what the head must say */
    bool receipt;
    pw_turn_state end_state;
    pw_str turn; /* the id, when it opens or ends one */
    uint64_t claimed_n;
} pw_build;

struct pw_session {
    const pw_allocator *allocator;
    pw_room *home; /* this struct and the uid */
    pw_str uid;
    pw_siphash_key alike; /* F4: of the uid, so that every process counts the same calls as alike */
    pw_durable d;
    pw_volatile v;
    pw_buffer text; /* the message that streams: for M2 and the text a cancel keeps */
    pw_build build;
    /* Memory's books; not part of the state. */
    pw_room *rooms, *fresh, *leaving, *retired;
    pw_span *oldest;
    pw_room *list_held;
    pw_arena step;    /* effects; reset by the next step */
    pw_arena scratch; /* parsing; reset within a step */
    pw_effect *effects;
    size_t effect_count, effect_capacity;
};

/* --- session.c --- */
pw_room *pw_room_new(pw_session *, size_t first_block); /* NULL: out of memory */
void pw_room_leave(pw_session *, pw_room *); /* NULL is fine; freed when the step has succeeded */
pw_effect *pw_effect_add(pw_session *, pw_effect_kind); /* NULL: out of memory */
uint64_t pw_next_id(pw_session *);                      /* of a call or a ticket */
pw_status pw_list_reserve(pw_session *, size_t more);
void pw_phase_move(pw_session *, pw_phase to);
void pw_scratch_reset(pw_session *);

static inline const pw_message *const *pw_window(const pw_durable *d)
{
    return (const pw_message *const *)(d->list + d->first);
}
static inline size_t pw_window_count(const pw_durable *d)
{
    return d->end - d->first;
}

/* --- fold.c --- */
/* Reads the record and allocates all that applying it needs (in the open turn's room, or a new
 * one); changes nothing. */
pw_status pw_fold_prepare(pw_session *, const pw_record *, pw_prepared **ret, pw_error *);
void pw_fold_apply(
    pw_durable *,
    const pw_prepared *); /* cannot fail; may be done again after the durable half was put back */
void pw_window_trim(pw_session *); /* lets go of what lies before the window */

/* --- append.c --- */
typedef struct pw_draft { /* a record to be */
    pw_record_kind kind;
    pw_str turn, step;
    pw_str body;
} pw_draft;
pw_status pw_build_begin(pw_session *);                 /* no-op when begun */
pw_status pw_build_add(pw_session *, const pw_draft *); /* folds it on trial */
pw_status pw_build_blob(pw_session *, const pw_hash_hex *, pw_str bytes);
pw_status pw_build_finish(pw_session *); /* PW_DO_APPEND, and the durable half put back */
pw_status pw_build_transact(pw_session *, size_t call_index, const pw_receipt *,
                            const pw_tool_call *, const pw_draft *);
static inline bool pw_building(const pw_session *s)
{
    return s->build.room != NULL;
}
pw_status pw_append_answered(pw_session *, const pw_input *);
bool pw_evidence_expected(const pw_session *);
pw_status
pw_append_again(pw_session *); /* gives a not committed append again when its time has come */

/* --- turn.c --- */
typedef enum pw_progress {
    PW_HELD,
    PW_MOVED
} pw_progress; /* nothing more to decide before something happens; decide again */
pw_status pw_advance(pw_session *);
pw_status pw_rest_now(pw_session *, bool released);

typedef struct pw_ending {
    pw_turn_state state;
    const char *reason; /* M5, NULL: none */
    pw_str detail;      /* for a person */
    pw_str actor;
    pw_str text;      /* the reply, or PW_STR_NONE */
    const char *stop; /* NULL: none */
    const char *code; /* NULL: none; "<code>:<code_detail>" when that is not empty */
    pw_str code_detail;
    bool silent;
} pw_ending;
pw_status pw_turn_end(pw_session *, const pw_ending *);
pw_status pw_turn_interrupt(pw_session *,
                            bool *ret_ended); /* cancel, poison, deadline: whichever is due */
const pw_inbox_row *pw_waiting_cancel(const pw_session *);
pw_status pw_attempt_begin(pw_session *);
int64_t pw_wait_until(const pw_session *);

/* --- claim.c --- */
const pw_inbox_row *pw_waiting_first(const pw_session *); /* the oldest unclaimed message */
size_t pw_waiting_count(const pw_session *);
int64_t pw_claim_due_ms(const pw_session *, const pw_inbox_row *);
pw_status pw_claim(pw_session *);
/* B4: the parts of the message that these requests make, in `arena`. */
pw_status pw_render_batch(const pw_json *requests, pw_arena *, const pw_part **ret,
                          size_t *ret_count);

/* --- context.c --- */
uint64_t pw_context_first_seq(const pw_session *, int64_t messages, uint64_t own_seq);
pw_status pw_model_ask(
    pw_session *); /* PW_DO_MODEL, or transcript.repaired first (then something is being built) */
pw_status pw_model_abort(pw_session *, bool for_good); /* the running call becomes a ghost */
pw_status pw_model_alive(pw_session *, const pw_alive_call *);
pw_status pw_model_delta(pw_session *, const pw_input *);
pw_status pw_model_ended(pw_session *, const pw_input *);

pw_status pw_model_accepted(pw_session *, const pw_input *);
pw_status pw_accepted_add(pw_session *); /* its record, where one is due */

/* --- choice.c --- */
static inline const pw_model_choice *pw_choice_now(const pw_session *s)
{
    return &s->v.pinned->models[s->d.turn.choice];
}
/* The model to be asked after this one (F6). false: there is none, or `*ret_barred` is the one that
 * cannot be taken any more (else NULL). */
bool pw_choice_next(const pw_session *, size_t *ret_index, const pw_model_choice **ret_barred);

/* --- quarantine.c --- */
/* A copy of the message in which the part is a placeholder, or, of a model's, is never sent. */
pw_status pw_part_leave_out(const pw_message *, size_t part, pw_arena *, const pw_message **ret);

/* --- reply.c --- */
/* A copy fit to be kept and sent: ids given (C1), text and JSON made valid (A8). */
pw_status pw_reply_keep(pw_session *, const pw_reply *, pw_arena *, const pw_reply **ret);
pw_status pw_reply_settle(pw_session *); /* what came back from the model becomes records */
pw_status pw_text_so_far(pw_session *,
                         pw_str *ret); /* of the reply that streams or is kept; may be empty */

/* --- call.c --- */
pw_status pw_calls_advance(pw_session *, pw_progress *);
pw_status pw_calls_close(pw_session *,
                         const pw_ending *); /* every call still owed gets its receipt */
pw_status pw_calls_live(pw_session *);       /* the live half fits the durable calls */
pw_status pw_call_ended(pw_session *, const pw_input *);
pw_status pw_call_alive(pw_session *, const pw_alive_call *);
pw_status pw_ghost_new(pw_session *, pw_ghost **ret);
pw_status pw_late_settle(pw_session *); /* tool.late records for late results */
static inline size_t pw_first_owed(const pw_turn *turn)
{
    size_t i = 0;
    while (i < turn->call_count && turn->calls[i].closed) {
        i++;
    }
    return i;
}

/* --- budget.c --- */
void pw_totals_add(pw_totals *, const pw_totals *);
void pw_totals_spend(
    pw_totals *, const pw_usage *,
    bool whole); /* whole: a complete reply, which costs even where it does not say */
bool pw_usage_known(const pw_usage *);
/* The first bound that is reached, as the ending it makes. `tool`: before a tool call. */
pw_status pw_bound_reached(pw_session *, bool tool, pw_ending *ret, bool *ret_reached);
/* The ending that a bound makes: its words in the scratch arena. */
pw_status pw_bound_words(pw_session *, pw_ending *ret, const char *reason, int64_t bound);

/* --- guard.c --- */
/* F4. The signature of a call, and what an outcome counts as. */
pw_status pw_signature(const pw_session *, const pw_part *, pw_arena *scratch, pw_short_hash *ret);
pw_short_hash pw_outcome_hash(const pw_session *, pw_outcome, pw_str result);
/* F3: why this call cannot run: a code for `code` and the result that the model reads; NULL code:
 * it can. */
pw_status pw_call_check(pw_session *, const pw_part *, pw_arena *, const char **ret_code,
                        pw_str *ret_result);
/* C7: the effects that count; false: the tool is gone. */
bool pw_call_tool(const pw_session *, pw_str name, const pw_tool_declaration **ret,
                  pw_effects_class *ret_effects);

/* --- encode.c: one function a body --- */
typedef struct pw_claimed { /* what turn.opened says */
    pw_str turn, run;
    const pw_definition *definition;
    const pw_inbox_row *const *rows;
    size_t row_count;
    pw_budget budget;
    int64_t deadline_at_ms;
    uint64_t first_seq;
    pw_str initiator; /* JSON or empty */
} pw_claimed;
pw_status pw_encode_turn_opened(pw_session *, const pw_claimed *, pw_str *ret);
pw_status pw_encode_attempt(pw_session *, pw_str run, bool lost, bool resumed, pw_str *ret);
pw_status pw_encode_model_completed(pw_session *, const pw_reply *, int64_t n, pw_str *ret);
pw_status pw_encode_discarded(pw_session *, pw_str code, const pw_usage *, pw_str *ret);
pw_status pw_encode_retrying(pw_session *, const pw_failure *, const char *class_name,
                             int64_t until_ms, bool resumable, pw_str *ret);
pw_status pw_encode_accepted(pw_session *, pw_str response_id, pw_str *ret);
pw_status pw_encode_fallback(pw_session *, const pw_failure *, size_t to, pw_str *ret);
pw_status pw_encode_quarantined(pw_session *, uint64_t seq, size_t part, pw_str *ret);
pw_status pw_encode_wait(pw_session *, const pw_failure *, int64_t until_ms, bool resumable,
                         pw_str *ret);
pw_status pw_encode_tool_started(pw_session *, const pw_call *, int64_t execution,
                                 int64_t limit_at_ms, pw_str *ret);

typedef struct pw_settled { /* what tool.completed says */
    pw_effects_class effects;
    pw_outcome outcome;
    pw_str result;
    bool is_error;
    int64_t started_at_ms, executions;
    uint64_t truncated; /* bytes of the whole; 0: not cut */
    pw_str whole;       /* its blob, when cut */
} pw_settled;
pw_status pw_encode_tool_completed(pw_session *, const pw_call *, const pw_settled *, pw_str *ret);
/* The same with a hole where the result goes (D2). */
pw_status pw_encode_receipt(pw_session *, const pw_call *, const pw_settled *, int64_t result_limit,
                            pw_receipt *ret);
pw_status pw_encode_tool_late(pw_session *, const pw_ghost *, pw_outcome, pw_str result,
                              pw_str *ret);
pw_status pw_encode_repaired(pw_session *, const pw_transcript_fault *, size_t count, pw_str *ret);
pw_status pw_encode_turn_ended(pw_session *, const pw_ending *, const pw_totals *, pw_str *ret);
void pw_encode_totals(pw_json_writer *, const pw_totals *);
void pw_decode_totals(const pw_json *, pw_totals *ret);
void pw_encode_usage(pw_json_writer *, const pw_usage *);
pw_usage pw_decode_usage(const pw_json *);
void pw_encode_budget(pw_json_writer *, const pw_budget *);

/* --- transcript.c --- */
/* As pw_transcript_check, for messages[from..count): those before have passed and end with no call
 * owed. */
pw_status pw_transcript_check_from(const pw_message *const *, size_t from, size_t count,
                                   pw_arena *scratch, bool *ret_valid, pw_transcript_fault *ret);

#endif
