/*
 * The one store contract. A store keeps sessions, inboxes and journals; it decides nothing about
 * turns.
 *
 * Operations are plain structs, executed in batches. `pw_store_execute` is synchronous: write
 * operations of one call are one transaction where the backend has them, each operation with a
 * result of its own; a refused operation changes nothing and disturbs no neighbour. Answers are
 * typed (J4): PW_OK            done, durable PW_NOT_COMMITTED nothing changed; the same may be
 * tried again (`error` says why: full, locked, read_only, io …) PW_STALE         an inbox row it
 * names is no longer pending; nothing changed PW_FENCED        the epoch is not current, or the
 * owner's row is gone; nothing changed PW_UNKNOWN       nobody knows (connection died, COMMIT
 * itself gave an I/O error) others           PW_INVALID, PW_NOT_FOUND, PW_TOO_LARGE, PW_CORRUPT,
 * PW_NOMEM, … nothing changed A commit is never inferred. Results live in the operation's arena.
 * Times are wall-clock ms, given by the caller; a store reads no clock for anything it stores.
 * Every op but those marked (reads) must come from one thread at a time; reads may come from any
 * thread, also while a write is under way. Reading never fences (J3).
 */
#ifndef PW_STORE_STORE_H
#define PW_STORE_STORE_H

#include "core/record.h"
#include "core/session.h" /* pw_inbox_row */

typedef struct pw_store pw_store;

typedef struct pw_owner_id {
    char text[37];
} pw_owner_id; /* a UUIDv7 per process start (J2) */

/* An owner found dead by the caller: its lock is free, or its beat has not changed for a lease of
 * the caller's own monotonic time. */
typedef struct pw_dead_owner {
    pw_owner_id id;
    uint64_t
        beat; /* the beat seen: it counts as dead only while its row still says so, or is gone */
} pw_dead_owner;

/* The session row. Strings live in the op's arena. */
typedef struct pw_session_row {
    int64_t id; /* the store's own number for it, never reused */
    pw_str uid, principal, name, agent;
    int64_t generation;
    uint64_t epoch;
    pw_str owner; /* owner id or empty */
    pw_str turn;  /* open turn or empty */
    pw_turn_state state;
    pw_str reason;
    uint64_t base_seq; /* where a load begins; 0: nothing yet */
    uint64_t last_seq;
    int64_t wake_at_ms; /* -1: none */
    uint64_t admitted;
    int64_t crashes;
    bool quarantined;
    bool owner_released; /* the last owner let go on purpose (drain, wait, rest): taking it is no
                            interruption */
    int64_t created_at_ms, since_ms;
} pw_session_row;

typedef struct pw_message_row { /* an admitted message, as A1 and A7 tell it */
    pw_str request_id, digest, body;
    uint64_t n;
    int64_t at_ms;
    pw_disposition disposition; /* ANSWERED is derived: claimed by a turn that has ended */
    pw_str turn;
    int64_t position; /* 1 = next, among pending ones; 0 otherwise */
} pw_message_row;

typedef struct pw_turn_row {
    pw_str turn;
    uint64_t opened_seq, ended_seq; /* ended_seq 0: open */
    pw_turn_state state;
} pw_turn_row;

/* X(NAME): W write, R read */
typedef enum pw_op_kind {
    PW_OP_ADMIT,    /* W anyone: a message (A1-A4, A7), creating the session's row if need be */
    PW_OP_WITHDRAW, /* W anyone: a pending message (I3) */
    PW_OP_CANCEL,   /* W anyone: admits a cancel of a turn (I7) */
    PW_OP_JOIN,     /* W register this owner's row, beat 1 */
    PW_OP_BEAT,     /* W beat + 1; PW_FENCED: the row is gone */
    PW_OP_LEAVE,    /* W remove the row; its sessions stay as they are */
    PW_OP_TAKE,     /* W epoch + 1, owner = me (J1, J2, C4) */
    PW_OP_RELEASE,  /* W let go without an append */
    PW_OP_APPEND,   /* W the owner, under its epoch */
    PW_OP_OWNERS,   /* R every owner row: id, beat, address */
    PW_OP_DUE, /* R free sessions with wake_at <= now, earliest first; and the next wake_at after
                  now */
    PW_OP_SESSION,  /* R one session's row, by principal and name or by id */
    PW_OP_SESSIONS, /* R rows of a principal, paged by name */
    PW_OP_RECORDS,  /* R records of a session from a seq */
    PW_OP_INBOX,    /* R what waits: every waiting cancel, then the oldest waiting messages, at most
                       `limit` */
    PW_OP_MESSAGE,  /* R one message by request id */
    PW_OP_TURN,     /* R one turn's row */
    PW_OP_TURNS,    /* R turns of a session by opened_seq, paged */
    PW_OP_BLOB,     /* R bytes by hash */
    PW_OP_VERIFY    /* R (W with rebuild): checks everything that can be checked, reports faults as
                       text lines */
} pw_op_kind;

typedef enum pw_admitted {
    PW_ADMITTED,
    PW_ADMIT_EXISTING,
    PW_ADMIT_CONFLICT,
    PW_ADMIT_OTHER_AGENT,
    PW_ADMIT_BUSY
} pw_admitted;
typedef enum pw_withdrawn {
    PW_WITHDREW,
    PW_WITHDRAW_TWICE,
    PW_WITHDRAW_CLAIMED /* turn says by which; ended says whether it is over */,
    PW_WITHDRAW_NONE
} pw_withdrawn;
typedef enum pw_cancelled {
    PW_CANCEL_ADMITTED,
    PW_CANCEL_TWICE,
    PW_CANCEL_ENDED /* turn_state says how */,
    PW_CANCEL_NONE
} pw_cancelled;
typedef enum pw_taken {
    PW_TOOK,
    PW_TAKE_NOT_FREE,
    PW_TAKE_QUARANTINED /* this taking was refused (C4), the row is marked */,
    PW_TAKE_NOTHING_DUE,
    PW_TAKE_NONE
} pw_taken;

typedef struct pw_op {
    pw_op_kind kind;
    pw_status status; /* out */
    pw_error error;   /* out, when status is not PW_OK */
    pw_arena *arena;  /* results are made here (APPEND, BEAT, … need none) */
    union {
        struct {
            pw_str principal, session, uid /* for a new row */, agent, request_id, digest, body;
            bool reject_when_busy; /* A4 */
            bool agent_named;      /* the message named it: another agent than the session's is a
                                      conflict */
            int64_t now_ms, due_at_ms;
            /* out */
            pw_admitted answer;
            int64_t session_id;
            pw_message_row row;
        } admit;
        struct {
            pw_str principal, session, request_id;
            int64_t now_ms;
            pw_withdrawn answer; /* out */
            pw_str turn;
            bool ended;
        } withdraw;
        struct {
            pw_str principal, session, turn, body;
            int64_t now_ms;
            pw_cancelled answer; /* out */
            pw_turn_state turn_state;
            int64_t session_id;
        } cancel;
        struct {
            pw_owner_id owner;
            pw_str address;
            int64_t now_ms;
        } owner; /* JOIN, BEAT, LEAVE */
        struct {
            int64_t session_id;
            pw_owner_id owner;
            const pw_dead_owner *dead;
            size_t dead_count;
            bool take_over;       /* by name, from a live owner (J2); also lifts quarantine */
            bool reload;          /* our own again after PW_UNKNOWN: no interruption (J4) */
            bool only_due;        /* only while wake_at <= now */
            int64_t max_attempts; /* C4: an interruption that would make crashes > max_attempts is
                                     refused and marks the row quarantined */
            int64_t refuse_suspect_from; /* >= 0: an interruption that would make crashes this or
                                            more is refused (NOT_FREE) */
            int64_t now_ms;
            pw_taken answer;    /* out */
            pw_cause cause;     /* out: NEW RECOVERY DRAINED RESUME TAKEN RELOAD */
            pw_session_row row; /* out: as it is now */
        } take;
        struct {
            int64_t session_id;
            uint64_t epoch;
            int64_t wake_at_ms; /* -1 none; looked_n as in pw_head */
            uint64_t looked_n;
        } release;
        struct {
            int64_t session_id;
            uint64_t epoch;
            const pw_append *append;
        } append;
        struct {
            struct {
                pw_owner_id id;
                uint64_t beat;
                pw_str address;
                int64_t at_ms;
            } * rows; /* out */
            size_t count;
        } owners;
        struct {
            int64_t now_ms;
            pw_owner_id owner; /* me: my own sessions are not listed */
            const pw_dead_owner *dead;
            size_t dead_count;
            const pw_str *agents; /* sessions of these alone, by name; with `session_id` of any */
            size_t agent_count;   /* 0: of any agent */
            size_t limit;
            int64_t session_id;   /* > 0: that one alone */
            pw_session_row *rows; /* out */
            size_t count;
            int64_t next_wake_ms; /* out: the earliest wake_at after now of any session not mine
                                     (and of these agents); -1 none */
        } due;
        struct {
            int64_t session_id; /* or 0 and by name */
            pw_str principal, session;
            pw_session_row row; /* out; status PW_NOT_FOUND */
        } session;
        struct {
            pw_str principal, after_name, status, agent; /* filters may be empty */
            size_t limit;
            pw_session_row *rows; /* out */
            size_t count;
        } sessions;
        struct {
            int64_t session_id;
            uint64_t from_seq, to_seq; /* inclusive; to_seq 0: to the end */
            pw_str turn;               /* only this turn's, when not empty */
            size_t limit;              /* 0: all */
            pw_record *records;        /* out */
            size_t count;
        } records;
        struct {
            int64_t session_id;
            size_t limit;
            pw_inbox inbox; /* out */
        } inbox;
        struct {
            int64_t session_id;
            pw_str request_id;
            pw_message_row row; /* out; status PW_NOT_FOUND */
        } message;
        struct {
            int64_t session_id;
            pw_str turn;
            pw_turn_row row; /* out */
        } turn;
        struct {
            int64_t session_id;
            uint64_t after_seq;
            size_t limit;
            pw_turn_row *rows; /* out */
            size_t count;
        } turns;
        struct {
            pw_str hash;
            pw_str bytes; /* out */
        } blob;
        struct {
            bool rebuild;
            pw_str report; /* out: one line a fault, empty when sound */
            int64_t faults;
        } verify;
    };
} pw_op;

/* Never fails as a whole: look at each op's status. */
void pw_store_execute(pw_store *, pw_op *ops, size_t count);

/* A transactional tool (D2), alone: begin, check the epoch, run(ctx, handle, ret_body) which runs
 * the tool and fills the receipt (pw_receipt_fill) into the body of append's record
 * `receipt->record`, write the append with it, commit. `run` not PW_OK: everything it wrote is
 * rolled back and the op's status is that status (append not written). While run is on, COMMIT,
 * ROLLBACK, SAVEPOINT, ATTACH, PRAGMA and writes to pawl_* are refused, and statements stop after
 * `limit_ms`. Only on stores with `transactions`. */
typedef struct pw_transact {
    int64_t session_id;
    uint64_t epoch;
    const pw_append *append;
    const pw_receipt *receipt;
    int64_t limit_ms;
    pw_arena *arena;
    pw_status (*run)(void *ctx, void *handle, pw_arena *arena, pw_str *ret_body);
    void *ctx;
    /* out */
    pw_status status;
    pw_error error;
    pw_str body;       /* the filled body, when status is PW_OK */
    bool limit_passed; /* the limit stopped it, or its transaction was found gone */
} pw_transact;
void pw_store_transact(pw_store *, pw_transact *);

/* A hint that another process or connection committed; never needed for truth. Cheap (2 us). Writer
 * thread only. */
bool pw_store_changed(pw_store *);

/* J2: the lock that dies with a process, on stores that have one. Held from JOIN to LEAVE; `alive`
 * is 1 alive, 0 dead, -1 this store cannot tell. */
int pw_store_owner_alive(pw_store *, const pw_owner_id *);

typedef struct pw_store_traits {
    const char *name;  /* "sqlite", "memory" */
    bool transactions; /* D2 possible */
    bool many_processes;
    int64_t value_limit; /* bytes of one value; -1: none (N1) */
    int32_t handle_kind; /* PAWL_SQLITE or 0 */
    const char *version; /* of the library behind it */
    int32_t schema;      /* version of the tables; 0: the store keeps none */
} pw_store_traits;
pw_store_traits pw_store_traits_get(const pw_store *);

typedef struct pw_store_options {
    pw_str url; /* "sqlite:PATH", "memory:" */
    const pw_allocator *allocator;
    bool read_only; /* inspect: creates nothing, migrates nothing */
} pw_store_options;

/* PW_INVALID (unknown scheme, names the known ones), PW_NEWER_SCHEMA (untouched, J8), PW_CORRUPT,
 * PW_READ_ONLY, PW_LOCKED, PW_IO, PW_FULL, PW_UNAVAILABLE. */
pw_status pw_store_open(const pw_store_options *, pw_store **ret, pw_error *);
void pw_store_close(pw_store *); /* a SQLite file is left as one file when this was its last user */

#endif
