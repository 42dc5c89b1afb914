/*
 * pawl: an LLM agent's turn as a durable process.
 *
 * Open a store, add tools and agents, start; submit messages, wait for turns, follow events. Every
 * step of a turn is committed as it finishes; the process may be killed at any instant and the turn
 * goes on where it was (docs/semantics.md; rules are cited by name, like A1).
 *
 *   pawl_open → pawl_tool_add*, pawl_agent_add* → pawl_start
 *             → pawl_submit, pawl_wait, pawl_follow, … → pawl_drain → pawl_close
 *
 * Ownership: inputs are borrowed for the call. Outputs are a pawl_doc you free: JSON in the shapes
 * of docs/api.md.
 *
 * Threads: any thread may call any function. Your code is called in two places only: a tool (a pool
 * thread; a transactional one: the writer thread) and `log` (any thread). The rest you pull. No
 * callback may call pawl_close or pawl_wait (PAWL_MISUSE).
 *
 * Errors: PAWL_OK is 0, failures are negative; the pawl_error you pass (or NULL) gets a sentence.
 * Outputs are written only on success.
 *
 * Structs begin with their size: set it to sizeof, zero the rest; new members are added at the end.
 */
#ifndef PAWL_PAWL_H
#define PAWL_PAWL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION "0.1.0"

#define PAWL_OK 0
#define PAWL_NOMEM (-1)
#define PAWL_INVALID (-2)
#define PAWL_NOT_FOUND (-3)
#define PAWL_CONFLICT (-4)
#define PAWL_BUSY (-5)
#define PAWL_TOO_LARGE (-6)
#define PAWL_FORBIDDEN (-7)
#define PAWL_CLOSED (-8)
#define PAWL_EXPIRED (-9)
#define PAWL_TIMEOUT (-10)
#define PAWL_SUSPENDED (-11)
#define PAWL_UNAVAILABLE (-12)
#define PAWL_NOT_COMMITTED (-13)
#define PAWL_STALE (-14)
#define PAWL_FENCED (-15)
#define PAWL_UNKNOWN (-16)
#define PAWL_MISUSE (-17)
#define PAWL_UNSUPPORTED (-18)
#define PAWL_NEWER_SCHEMA (-19)
#define PAWL_READ_ONLY (-20)
#define PAWL_FULL (-21)
#define PAWL_CORRUPT (-22)
#define PAWL_IO (-23)
#define PAWL_LOCKED (-24)
#define PAWL_END (-25)
#define PAWL_CANCELLED (-26)
#define PAWL_QUARANTINED (-27)
#define PAWL_INTERNAL (-28)

typedef struct pawl pawl;
typedef struct pawl_doc pawl_doc;
typedef struct pawl_events pawl_events;
typedef struct pawl_call pawl_call;

typedef struct pawl_str {
    const char *ptr;
    size_t len;
} pawl_str;

typedef struct pawl_error {
    int32_t code, line; /* where the error was born, for a bug report */
    const char *file;
    char message[240];
} pawl_error;

const char *pawl_version(void);
const char *pawl_status_name(int32_t code); /* "not_found" */

/* --- Opening and closing --- */

typedef struct pawl_options {
    size_t size;
    pawl_str store;     /* "sqlite:PATH", "memory:"; empty: $PAWL_STORE, else
                           sqlite:$XDG_STATE_HOME/pawl/pawl.db */
    pawl_str agents;    /* a folder of agents' folders, or one agent's folder; empty: none */
    pawl_str principal; /* whose sessions; empty: "local" */
    int32_t threads;    /* pool threads for native tools; 0: 4 */
    int32_t flags;      /* PAWL_OPEN_* */
    void *ctx;
    /* level: 0 error, 1 warning, 2 information; NULL: nothing is logged */
    void (*log)(void *ctx, int32_t level, pawl_str json);
    pawl_str outbound_allow; /* what http tools may reach beyond public addresses: addresses and
                                networks by commas, "127.0.0.1, 10.0.0.0/8"; empty:
                                $PAWL_OUTBOUND_ALLOW */
    pawl_str prices; /* a file of prices (docs/agents.md) asked before those of the program; empty:
                        $PAWL_PRICES, else none */
} pawl_options;
/* Inspect: creates and migrates nothing; pawl_start and pawl_submit are PAWL_MISUSE. */
#define PAWL_OPEN_READ_ONLY 1

/* Reads and admits; owns nothing yet. PAWL_INVALID (options, an agent's file: the message has file
 * and line), PAWL_NEWER_SCHEMA, PAWL_CORRUPT, PAWL_READ_ONLY, PAWL_LOCKED, PAWL_FULL, PAWL_IO,
 * PAWL_UNAVAILABLE. */
int32_t pawl_open(const pawl_options *, pawl **ret, pawl_error *);

typedef struct pawl_start_options {
    size_t size;
    pawl_str session;       /* that one alone (J2); empty: all that is due and whose agent I have */
    int32_t take_over;      /* with `session`: also from a live owner */
    int64_t lease_ms;       /* 0: 10,000 */
    pawl_str until_request; /* with `session`: when this request's turn ends, let go and take
                               nothing more */
} pawl_start_options;

/* Takes and runs sessions; from here tools and agents are fixed. NULL: defaults. Once per handle.
 */
int32_t pawl_start(pawl *, const pawl_start_options *, pawl_error *);

/* Stops at the next boundary and leaves turns open: the next process resumes them (I6).
 * PAWL_TIMEOUT: some still run. */
int32_t pawl_drain(pawl *, int64_t timeout_ms);
/* Waits for running tools up to their limits. Without a drain before, running turns are left open
 * as they are. NULL is fine. */
void pawl_close(pawl *);

/* --- Messages and turns --- */

typedef struct pawl_message {
    size_t size;
    pawl_str request_id;    /* empty: one is made (A2) */
    pawl_str text;          /* one text part; or */
    pawl_str content_json;  /* an array of content parts */
    pawl_str agent;         /* empty: the session's, for a new session the default one */
    pawl_str user;          /* speaker id or empty */
    int32_t attested;       /* the channel vouches for `user` */
    int32_t mode;           /* PAWL_QUEUE, PAWL_REJECT */
    int32_t flags;          /* none yet: 0 */
    pawl_str budget_json;   /* overrides the agent's bounds */
    pawl_str source;        /* empty: "cli" */
    pawl_str metadata_json; /* an object kept with the message */
} pawl_message;
#define PAWL_QUEUE 0
#define PAWL_REJECT 1

/* Admits (A1, A2, A4): durable on return. `*ret`:
 * {"submitted":"accepted"|"existing","request_id",…}; "existing" carries the turn, with its result
 * if it ended. PAWL_CONFLICT, PAWL_BUSY, PAWL_TOO_LARGE, PAWL_INVALID name the field; they too set
 * `*ret` to a problem with the request id (A2); free it. Waits while the store cannot be written,
 * up to 30 s. */
int32_t pawl_submit(pawl *, pawl_str session, const pawl_message *, pawl_doc **ret, pawl_error *);

/* Waits for the end of the turn that this request belongs to, whoever runs it: PAWL_OK and a Turn.
 * PAWL_TIMEOUT (`timeout_ms` < 0: never), PAWL_NOT_FOUND, PAWL_CANCELLED: the message was
 * withdrawn. */
int32_t pawl_wait(pawl *, pawl_str session, pawl_str request_id, int64_t timeout_ms,
                  pawl_doc **ret_turn, pawl_error *);

/* A durable cancel of that turn (I1, I7). Twice is PAWL_OK. PAWL_NOT_FOUND; PAWL_CLOSED: it ended
 * otherwise. */
int32_t pawl_cancel(pawl *, pawl_str session, pawl_str turn, pawl_error *);
/* Withdraws a pending message at once; one that is claimed has its turn cancelled (I3).
 * {"withdrawn":true} or {"withdrawn":false,"turn":…}. Twice is PAWL_OK. PAWL_NOT_FOUND;
 * PAWL_CLOSED: its turn has ended. */
int32_t pawl_withdraw(pawl *, pawl_str session, pawl_str request_id, pawl_doc **ret, pawl_error *);

/* Every GET of the native API, by path and query: never fences an owner (J3). Path segments are
 * percent-encoded. PAWL_NOT_FOUND, PAWL_INVALID (names the parameter).
 *
 *   /v1/sessions[?status=&agent=&limit=&cursor=]
 *   /v1/sessions/{s}
 *   /v1/sessions/{s}/messages[?limit=&cursor=&include=steps]
 *   /v1/sessions/{s}/messages/{request_id}
 *   /v1/sessions/{s}/turns
 *   /v1/sessions/{s}/turns/{t}
 *   /v1/sessions/{s}/turns/{t}/steps
 *   /v1/sessions/{s}/events[?after=CURSOR&limit=]
 *   /v1/sessions/{s}/why
 *   /v1/agents
 *   /v1/agents/{a}
 */
int32_t pawl_read(pawl *, pawl_str path, pawl_doc **ret, pawl_error *);

/* `what`, with parameters as a query, percent-encoded:
 *
 *   verify[?rebuild=1], doctor     {"ok":bool,"checks":[{"name","ok","detail"}]}
 *   models[?agent=NAME]            the agents' models and their prices
 *   models?check=1[&within=20s]    each is asked for a few words too: this waits, on the caller's
 *                                  thread; "ok" false when one does not work; never shows a key
 *   request?session=NAME[&prompt=TEXT][&body=0]
 *                                  the session's next request as it would be sent, and what is
 *                                  wrong with it; takes and sends nothing (J3)
 *   counters                       of this handle: {"commits": transactions asked of the store}
 *
 * The shapes are in docs/api.md. PAWL_INVALID, PAWL_NOT_FOUND name the parameter. */
int32_t pawl_inspect(pawl *, pawl_str what, pawl_doc **ret, pawl_error *);

pawl_str pawl_doc_text(const pawl_doc *); /* NUL-terminated */
/* A member by path, like "usage.input_tokens" or "items.0.id": a string's text, otherwise the JSON
 * of the value. PAWL_NOT_FOUND. */
int32_t pawl_doc_get(const pawl_doc *, const char *path, pawl_str *ret);
/* A document from any JSON text (copied), so that an event's data can be picked apart too.
 * PAWL_INVALID: not JSON. */
int32_t pawl_doc_parse(pawl_str json, pawl_doc **ret, pawl_error *);
void pawl_doc_free(pawl_doc *);

/* --- Events: pulled, so that a slow reader slows nobody (M3) --- */

typedef struct pawl_event {
    size_t size;
    pawl_str id;   /* a cursor to resume after this event; empty for live-only ones (M2) */
    pawl_str name; /* M4 */
    pawl_str data_json;
} pawl_event;

/* Events after `cursor` ("" or "0": everything; "now": only what comes), first a `snapshot`, then
 * stored ones, then live ones. Works on sessions that other processes run (without deltas), and on
 * a session that does not exist yet. PAWL_INVALID: not a cursor. */
int32_t pawl_follow(pawl *, pawl_str session, pawl_str cursor, pawl_events **ret, pawl_error *);
/* PAWL_OK; PAWL_TIMEOUT; PAWL_END: the handle was closed under it. One thread a stream; strings
 * live until the next call. */
int32_t pawl_events_next(pawl_events *, int64_t timeout_ms, pawl_event *ret);
/* Readable when next() would not wait. -1: none; also on a read-only handle, which asks the store
 * itself: give next() a timeout. */
int32_t pawl_events_fd(const pawl_events *);
void pawl_events_close(pawl_events *); /* NULL is fine; before pawl_close */

/* --- Tools and agents: added between open and start --- */

#define PAWL_NONE 0          /* reads only: may run again */
#define PAWL_IDEMPOTENT 1    /* at least once, always with the same key */
#define PAWL_ONCE 2          /* at most once: after a crash its outcome is unknown */
#define PAWL_TRANSACTIONAL 3 /* exactly once: writes commit with the receipt */

/* Returns what pawl_call_return, _error or _fatal returned. A tool that returns without calling one
 * of them is fatal. */
typedef int32_t (*pawl_tool_fn)(pawl_call *, void *ctx);

typedef struct pawl_tool {
    size_t size;
    pawl_str name, description, schema_json; /* schema: of the arguments; empty: any object */
    int32_t effects;
    int32_t limit_ms; /* 0: 60,000 (transactional: 2,000) */
    pawl_tool_fn run;
    void *ctx;
    void (*ctx_free)(void *);
} pawl_tool;
int32_t pawl_tool_add(pawl *, const pawl_tool *, pawl_error *); /* copies; takes ctx on success */

/* A definition as JSON (docs/agents.md, the same keys as agent.yaml): no YAML, no files. Native
 * tools it declares ({"name":"x","kind":"native"}) take the rest of their declaration from
 * pawl_tool_add. */
int32_t pawl_agent_add(pawl *, pawl_str name, pawl_str definition_json, pawl_error *);

/* Loads and checks agents' folders without a store; `*ret`:
 * {"agents":[{"name","hash","models":[names, the first and its fallbacks],"tools"}],
 * "problems":["path:line: …"]}. PAWL_INVALID when there are problems (and sets `*ret`). */
int32_t pawl_agents_check(pawl_str directory, pawl_doc **ret, pawl_error *);

/* Inside a tool's run(). Strings live until it returns. */
pawl_str pawl_call_arguments(const pawl_call *); /* JSON, fits the schema */
pawl_str pawl_call_key(const pawl_call *); /* idempotency key, the same on every attempt (D1) */
/* session, turn, step, attempt, speaker, initiator */
pawl_str pawl_call_info_json(const pawl_call *);
int64_t pawl_call_left_ms(const pawl_call *); /* 0: over or cancelled: return soon (D6) */
/* The transaction's own handle; NULL unless transactional and of that kind. */
void *pawl_call_handle(pawl_call *, int32_t kind);
#define PAWL_SQLITE 1 /* sqlite3 * */
int32_t pawl_call_return(pawl_call *,
                         pawl_str json); /* PAWL_INVALID when not JSON; then the call is fatal */
int32_t pawl_call_error(pawl_call *, pawl_str error_class,
                        pawl_str message);              /* the model reads it (F1) */
int32_t pawl_call_fatal(pawl_call *, pawl_str message); /* the turn fails (F2) */

#ifdef __cplusplus
}
#endif
#endif
