/*
 * The journal's records: the only durable truth. A record says what became true; its body is JSON
 * text with a version `v` (1 in all of these). Times in bodies are integers, ms since 1970 UTC.
 * Unknown members are ignored, so that an older program reads a newer minor form; a newer `v` is
 * PW_NEWER_SCHEMA.
 *
 * A member that would be null is left out, and so is one at its usual value: `tries` and
 * `executions` 1, `is_error` false, a figure of a turn's usage 0. (Older bodies say them.)
 *
 * turn.opened
 * {"v","run","agent","definition":hash,"requests":[{"id","n","at","role","source","user":{"id","attested"}|null,
 *                   "by"?,"content":[parts],"metadata"?}],"n":message
 * number,"budget":{…},"deadline_at","first_seq",
 *                   "before":{"messages","turns","usage":{…}},"generation","initiator":{"id"}|null}
 *                  (requests[].n is the inbox row's number; content parts as the client gave them)
 * attempt.started  {"v","attempt","run","cause":"recovery|drained|taken|reload|resume","lost":0|1}
 * model.completed  {"v","n","provider","model","asked"?: the model's name as it was asked for,
 * where the reply names another,
 *                   "response_id","parts":[…],"stop","stop_detail","usage":{…},"started_at","tries"}
 *                  parts: {"type","text"?,"call"?,"id"?,"name"?,"arguments"? (the exact JSON) or
 * "broken"? (a string),"raw"?, "effects"? (a call's, where its tool is there)} model.discarded
 * {"v","try","code","shown":bytes of text shown,"usage"}           (code `empty_reply`: a whole
 * reply with nothing in it, an iteration) model.retrying
 * {"v","try","class","code","message","until","usage"? (where no model.discarded of the try has
 * it)} wait.set         {"v","reason":"rate_limit","code","message","until"}            (F10)
 * tool.started     {"v","call","name","execution","limit_at"}                      (`once` only,
 * D3) tool.completed
 * {"v","call","name","effects","outcome":"done|error|unknown|cancelled|denied|paused|malformed|repeated",
 *                   "result":what the model
 * reads,"is_error","started_at","executions","truncated"?:bytes of the whole,"whole"?:its blob}
 * tool.late        {"v","call","name","outcome","result"}                          (D8: evidence,
 * never in the transcript) transcript.repaired {"v","repairs":[{"seq","what","call"?}]} (C9)
 * turn.ended
 * {"v","state","reason","detail","actor","text","stop","requests":[ids],"agent","model","attempts","started_at",
 *                   "usage":{…},"operations":[{"step","name","effects","outcome"}],"code","silent"?:true
 * (C6)}
 *
 * model.accepted
 * {"v","response_id","provider","model"}    (the provider works on the owed step under this id, by
 * which a later request can resume it)
 *
 * model.fallback
 * {"v","try","from":{"index","provider","model"},"to":{…},"code","message","usage"? (as
 * model.retrying's),"lost"?:1}       (F6: from here on the turn asks model `to`)
 *
 * Of a reply that can be resumed: attempt.started has "resumed":true when the attempt goes on with
 * it, and no call is lost; model.retrying and wait.set have "resumable":true when the next try
 * does. "lost":1 in model.retrying, wait.set, model.fallback and transcript.repaired: it was to be
 * resumed, and will not be (G6).
 *
 * transcript.repaired for a part that the provider rejects by its position (C9):
 * {"seq": the message's record,"part": from 0,"what":"quarantined"}: it reads as a placeholder from
 * there on, wherever that message is in the window.
 *
 * usage (of a turn)
 * {"input_tokens","output_tokens","cached_tokens","reasoning_tokens","cost_micros","unpriced_calls","lost_calls",
 *                   "iterations","tool_calls","retries","fallbacks","protocol_failures"}
 */
#ifndef PW_CORE_RECORD_H
#define PW_CORE_RECORD_H

#include "base/json.h"
#include "base/sha256.h"

/* X(NAME, "name in the journal"). The order is not stored. */
#define PW_RECORD_TABLE(X)                                                                         \
    X(TURN_OPENED, "turn.opened")                                                                  \
    X(ATTEMPT_STARTED, "attempt.started")                                                          \
    X(MODEL_COMPLETED, "model.completed")                                                          \
    X(MODEL_DISCARDED, "model.discarded")                                                          \
    X(MODEL_RETRYING, "model.retrying")                                                            \
    X(WAIT_SET, "wait.set")                                                                        \
    X(MODEL_ACCEPTED, "model.accepted")                                                            \
    X(MODEL_FALLBACK, "model.fallback")                                                            \
    X(TOOL_STARTED, "tool.started")                                                                \
    X(TOOL_COMPLETED, "tool.completed")                                                            \
    X(TOOL_LATE, "tool.late")                                                                      \
    X(TRANSCRIPT_REPAIRED, "transcript.repaired")                                                  \
    X(TURN_ENDED, "turn.ended")

typedef enum pw_record_kind {
#define PW_RECORD_ENUM(name, text) PW_RECORD_##name,
    PW_RECORD_TABLE(PW_RECORD_ENUM)
#undef PW_RECORD_ENUM
} pw_record_kind;

const char *pw_record_kind_name(pw_record_kind);
bool pw_record_kind_from(pw_str, pw_record_kind *ret);

typedef struct pw_record {
    uint64_t seq; /* per session, from 1, no gaps, never reset; the event id (M1) */
    int64_t at_ms;
    pw_record_kind kind;
    pw_str turn; /* turn id */
    pw_str step; /* step id or empty */
    pw_str body; /* JSON text */
} pw_record;

/* What an owner's append changes besides adding records: plain data, executed by a store in one
 * transaction under the epoch (ARCHITECTURE "The journal"). */
typedef enum pw_turn_state {
    PW_TURN_RUNNING,
    PW_TURN_WAITING,
    PW_TURN_SUSPENDED,
    PW_TURN_COMPLETED,
    PW_TURN_FAILED,
    PW_TURN_PAUSED,
    PW_TURN_EXHAUSTED,
    PW_TURN_CANCELLED
} pw_turn_state;
const char *pw_turn_state_name(pw_turn_state); /* "running" … */
bool pw_turn_state_from(pw_str, pw_turn_state *ret);
static inline bool pw_turn_state_ended(pw_turn_state s)
{
    return s >= PW_TURN_COMPLETED;
}

typedef enum pw_disposition {
    PW_PENDING,
    PW_CLAIMED,
    PW_ANSWERED,
    PW_SUPERSEDED,
    PW_WITHDRAWN,
    PW_SETTLED /* a command (cancel) that was acted on or came too late */
} pw_disposition;
const char *pw_disposition_name(pw_disposition);

/* Content kept once, by its hash (pinned definitions; payloads later). */
typedef struct pw_blob {
    pw_hash_hex hash;
    pw_str bytes;
} pw_blob;

/* An inbox row this append consumes. The append is PW_STALE when a named row is not pending any
 * more. */
typedef struct pw_consumed {
    uint64_t n;
    pw_disposition disposition; /* PW_CLAIMED (by `turn`) or PW_SETTLED */
} pw_consumed;

/* The session row's columns that change. */
typedef struct pw_head {
    bool set;            /* false: the row is left alone */
    pw_turn_state state; /* of `turn`; meaningless when turn is empty */
    pw_str turn;         /* the open turn, or empty: idle */
    pw_str reason;       /* M5, or empty */
    int64_t base_seq;    /* where a load begins; -1: unchanged */
    int64_t wake_at_ms;  /* -1: nothing to wake for; an open running turn stays due (0) */
    uint64_t looked_n;   /* the last inbox row looked at: `wake_at` is not raised when `admitted` is
                            higher (A7) */
    bool release;        /* let go of the session: owner becomes nobody */
} pw_head;

typedef struct pw_append {
    uint64_t ticket;
    const pw_record *records;
    size_t record_count; /* at least one */
    const pw_consumed *consumed;
    size_t consumed_count;
    pw_str settle_cancels_of; /* a turn id: every waiting cancel of it becomes PW_SETTLED, seen or
                                 not (I7); or empty */
    pw_str turn;              /* pawl_turns row written with it, or empty */
    uint64_t turn_opened_seq; /* 0: not opened here */
    uint64_t turn_ended_seq;  /* 0: not ended here */
    pw_turn_state turn_state;
    const pw_blob *blobs;
    size_t blob_count;
    pw_head head;
    bool receipt; /* holds a receipt: the row's crash count goes to 0 (C4) */
} pw_append;

/* --- A receipt with a hole (D2): the record of a transactional call, all written but what the tool
 * will say. */
typedef struct pw_receipt {
    size_t record;        /* index in the append of the record whose body has the hole */
    pw_str before, after; /* body = before + result text + after */
    int64_t result_limit;
} pw_receipt;

/* Fills the hole: `result` is the tool's JSON (cut as D7 says, on a character boundary, saying so).
 * Pure; called on the writer thread inside the transaction. The body is made in `arena`. */
pw_status pw_receipt_fill(const pw_receipt *, pw_str result, pw_arena *, pw_str *ret_body);

#endif
