/*
 * The session machine: inputs in, effects out. All of the engine's decisions are made here, and
 * nothing else is.
 *
 * It does no I/O, reads no clock, makes no random number, starts no thread. State changes only in
 * pw_session_step and pw_session_fold. Records change the durable half of the state at
 * PW_IN_APPENDED (never when the append is asked for), by the same function that folds them on
 * load, so what a crash would rebuild and what is in memory are the same by construction.
 *
 * A driver: TAKE the session in the store (new epoch), LOAD its row and records from base_seq,
 * pw_session_new, pw_session_fold each record, then step PW_IN_OPENED, then PW_IN_INBOX. After that
 * it steps whatever happens and does the effects of each step in the order given. One thread at a
 * time steps a session.
 *
 * A step either succeeds or, out of memory, leaves the session as it was (the same input may be
 * given again). Input for a call or ticket that is over is ignored, or recorded as `tool.late`
 * (D8).
 */
#ifndef PW_CORE_SESSION_H
#define PW_CORE_SESSION_H

#include "core/definition.h"
#include "core/message.h"
#include "core/record.h"

typedef struct pw_session pw_session;

/* --- What happened ---------------------------------------------------------------------------- */

typedef enum pw_input_kind {
    PW_IN_TIME,           /* comes first in every batch of inputs */
    PW_IN_OPENED,         /* once, after the load */
    PW_IN_INBOX,          /* what waits, replacing what was given before */
    PW_IN_APPENDED,       /* the append with this ticket is durable */
    PW_IN_NOT_APPENDED,   /* it is not, or nobody knows */
    PW_IN_MODEL_ACCEPTED, /* the provider works on it under an id by which it can be resumed */
    PW_IN_MODEL_DELTA,
    PW_IN_MODEL_REPLY,
    PW_IN_MODEL_FAILED,
    PW_IN_TOOL_RESULT,
    PW_IN_DRAIN /* stop at the next boundary, leave the turn open (I6) */
} pw_input_kind;

/* Why this process has the session now; becomes `cause` of attempt.started. */
#define PW_CAUSE_TABLE(X)                                                                          \
    X(NEW, "new")           /* no turn was open */                                                 \
    X(RECOVERY, "recovery") /* taken from a dead owner with a turn open: an interruption (C4) */   \
    X(DRAINED, "drained")   /* its owner had let go on purpose */                                  \
    X(RESUME, "resume")     /* of a journalled wait (from a dead owner an interruption too, but no \
                               call of it was lost) or a suspension */                             \
    X(TAKEN, "taken")       /* --take-over */                                                      \
    X(RELOAD, "reload")     /* our own again, after an append whose outcome was unknown (J4) */
typedef enum pw_cause {
#define PW_CAUSE_ENUM(name, text) PW_CAUSE_##name,
    PW_CAUSE_TABLE(PW_CAUSE_ENUM)
#undef PW_CAUSE_ENUM
} pw_cause;

typedef struct pw_alive_call { /* a call of the session's last life in this process that has not
                                  ended (C12) */
    uint64_t call;
    pw_str step;
    pw_str response_id; /* as PW_IN_MODEL_ACCEPTED told it in that life: perhaps it was not made
                           durable there; or empty */
} pw_alive_call;

typedef struct pw_opened {
    uint64_t
        epoch; /* of this taking: call ids and tickets are made from it, so they are never reused */
    pw_cause cause;
    int64_t crashes; /* as the row says after the taking */
    int64_t
        max_attempts; /* of this process (5): crashes >= this seals the turn failed(poison) (C4) */
    const pw_definition
        *pinned; /* the open turn's definition by its hash; NULL when no turn is open */
    const pw_definition *
        today; /* the agent as this process has it; NULL: gone (only cancelling and sealing work) */
    const pw_alive_call *alive;
    size_t alive_count;
} pw_opened;

typedef enum pw_inbox_kind { PW_INBOX_MESSAGE, PW_INBOX_CANCEL } pw_inbox_kind;

typedef struct pw_inbox_row {
    uint64_t n; /* admission order in the session, from 1 */
    pw_inbox_kind kind;
    pw_str request_id; /* MESSAGE: the client's; CANCEL: the turn's id (I7) */
    pw_str
        body; /* MESSAGE:
                 {"role","source","user":{"id","attested"}|null,"by"?,"content":[parts],"budget"?,"metadata"?};
                 CANCEL: {"reason":"user|replaced|reset|parent","by"?} */
    int64_t at_ms;
    pw_disposition disposition;
} pw_inbox_row;

typedef struct pw_inbox { /* every waiting cancel, then the oldest waiting messages, at most 64;
                             strings are copied */
    const pw_inbox_row *rows;
    size_t count;
    bool more;         /* further messages wait behind these */
    uint64_t looked_n; /* the row's `admitted` when this was read */
} pw_inbox;

/* How a tool call ended. */
typedef enum pw_tool_outcome_kind {
    PW_TOOL_RESULT,   /* json */
    PW_TOOL_ERROR,    /* F1: error_class (may be empty), message */
    PW_TOOL_FATAL,    /* F2: message */
    PW_TOOL_ABANDONED /* its limit passed or it was aborted: nobody knows what it did (D6) */
} pw_tool_outcome_kind;

typedef struct pw_tool_outcome {
    pw_tool_outcome_kind kind;
    pw_str json; /* RESULT: one valid JSON value (the driver checks or wraps as a string) */
    pw_str error_class, message;
    bool limit_passed; /* ABANDONED: by its own limit (a timeout), not by our abort */
} pw_tool_outcome;

typedef struct pw_input {
    pw_input_kind kind;
    union {
        struct {
            int64_t now_ms; /* wall clock; may jump: nothing but stored times depends on it */
            uint8_t random[32];
        } time;
        pw_opened opened;
        pw_inbox inbox;
        struct {
            uint64_t ticket;
            pw_str receipt_body; /* of a transaction: the filled body */
        } appended;
        struct {
            uint64_t ticket;
            pw_status status; /* NOT_COMMITTED, STALE (an inbox follows at once), FENCED, UNKNOWN */
        } not_appended;
        struct {
            uint64_t call;
            pw_str response_id;
        } accepted;
        struct {
            uint64_t call;
            bool reasoning;
            pw_str bytes; /* valid UTF-8 */
        } delta;
        struct {
            uint64_t call;
            const pw_reply *reply;
        } reply;
        struct {
            uint64_t call;
            const pw_failure *failure;
        } failed;
        struct {
            uint64_t call;
            const pw_tool_outcome *outcome;
        } tool;
    };
} pw_input;

/* --- What must be done ------------------------------------------------------------------------ */

typedef enum pw_effect_kind {
    PW_DO_APPEND,
    PW_DO_TRANSACT, /* a transactional tool and its receipt, in one commit (D2). Not run or rolled
                       back: its end comes as PW_IN_TOOL_RESULT (error, fatal, abandoned) for
                       `call`; committed: PW_IN_APPENDED with the filled body; else
                       PW_IN_NOT_APPENDED */
    PW_DO_MODEL,
    PW_DO_TOOL,
    PW_DO_ABORT, /* ask this call to end soon; it still ends by its own last input */
    PW_DO_TELL,  /* live only: a delta. Durable events are the records of an append, told when it is
                    durable */
    PW_DO_WAKE,  /* step me (PW_IN_TIME) at `at_ms`; the latest word replaces the one before; -1: no
                    wake */
    PW_DO_REST   /* nothing to hold: `released` says whether the last append let go of the row; drop
                    me from memory. No effect follows */
} pw_effect_kind;

typedef struct pw_model_request {
    uint64_t call;
    pw_str turn, step;
    int32_t attempt, tries;          /* attempt of the turn; 1 for the first try of this step */
    const pw_definition *definition; /* pinned (C11) */
    const pw_model_choice *model;    /* which of its models is asked (F6) */
    pw_str resume; /* the response id under which the provider still works on this very step
                      (pw_provider.accepted); empty: ask anew */
    pw_str source; /* of the turn: selects overlay and denied tools (L1) */
    const pw_message *const
        *messages; /* the context, oldest first; passed the transcript checker (C9) */
    size_t count;
    size_t same; /* the first `same` messages equal those of this session's request before (C10); 0
                    after a load */
    int64_t deadline_at_ms;
} pw_model_request;

typedef struct pw_tool_call {
    uint64_t call;
    pw_str turn, step;
    int32_t attempt;                 /* execution number of this step, from 1 */
    const pw_tool_declaration *tool; /* as pinned */
    pw_effects_class effects;        /* the stricter of pinned and today (C7) */
    pw_str name, arguments;          /* arguments: valid JSON that fits the schema */
    pw_str key;                      /* D1: 64 hex digits */
    pw_str speaker;                  /* JSON {"id","attested"} or empty */
    pw_str initiator;                /* JSON {"id"} or empty */
    int64_t limit_ms;
} pw_tool_call;

typedef struct pw_effect {
    pw_effect_kind kind;
    union {
        const pw_append *append; /* bytes live until the ticket is answered */
        struct {
            const pw_append *append;
            const pw_receipt *receipt;
            const pw_tool_call *call;
        } transact;
        const pw_model_request *model; /* bytes live until the call is answered */
        const pw_tool_call *tool;
        struct {
            uint64_t call;
            bool for_good; /* nobody will ask for its answer again: what a provider still does for
                              it may be stopped too */
        } abort;
        struct {
            bool reasoning;
            pw_str step;
            int32_t attempt;
            uint64_t after_seq;  /* M2: the id is after_seq.text_bytes */
            uint64_t text_bytes; /* of this message's text so far, these bytes included */
            pw_str bytes;
        } tell;
        int64_t wake_at_ms;
        struct {
            bool released;
        } rest;
    };
} pw_effect;

typedef struct pw_effects {
    const pw_effect *list; /* valid until the next step */
    size_t count;
} pw_effects;

/* --- The machine --- */

typedef struct pw_session_options {
    const pw_allocator *allocator; /* all of the session's memory comes from here, in arenas */
    pw_str uid;                    /* copied */
} pw_session_options;

pw_status pw_session_new(const pw_session_options *, pw_session **ret);
void pw_session_free(pw_session *); /* NULL is fine. Not while an append of its is in flight */

/* Load: records from base_seq in order. PW_CORRUPT: an unknown kind, a seq that is not after the
 * last, a first record that opens no turn, one that can not stand where it stands, a body that does
 * not parse; PW_NEWER_SCHEMA; the error says which. A gap in seq is not an error (C9: a damaged
 * store stays usable): what the transcript lacks is mended by transcript.repaired, and in a turn
 * that is still open no call with effects is run on a guess. */
pw_status pw_session_fold(pw_session *, const pw_record *, pw_error *);
/* PW_OK, PW_NOMEM (as it was), or PW_CORRUPT from a filled receipt. */
pw_status pw_session_step(pw_session *, const pw_input *, pw_effects *ret);

/* --- Looking at it (any time between steps) --- */

typedef struct pw_session_view {
    pw_str turn; /* open turn or empty */
    pw_turn_state state;
    pw_str reason; /* M5 code of a non-running state, or empty */
    uint64_t last_seq;
    bool append_in_flight;
    bool draining;
    pw_str open_step; /* a model step that is streaming, or empty */
    int32_t open_attempt;
    pw_str open_text; /* its text so far (M2) */
    size_t waiting;   /* rows it knows of */
    size_t window_messages;
} pw_session_view;
pw_session_view pw_session_look(const pw_session *);

/* The hash of the definition that the open turn pins, to be found before PW_IN_OPENED; empty when
 * no turn is open. */
pw_str pw_session_pinned_hash(const pw_session *);

/* The durable half (what only the fold writes) as canonical JSON: equal for a session and for one
 * that folded its records anew. Simulator and debug builds compare them after every append. */
pw_status pw_session_durable_text(const pw_session *, pw_buffer *);

/* The table of turn states and their legal transitions, for the docs: one line each,
 * NUL-terminated; NULL ends. */
const char *const *pw_turn_transitions(void);

#endif
