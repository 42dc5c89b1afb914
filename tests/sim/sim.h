/*
 * The simulator: several processes, many sessions, one memory store, and everything that can go
 * wrong.
 *
 * A run is a pure function of its plan, and a plan is a pure function of its seed (plan.c) or a
 * fixed story (story.c). Time is an event queue (queue.c). An owner (owner.c) is a small runtime:
 * it joins, beats, takes sessions, steps their machines and does their effects (effect.c); a writer
 * commits its appends (writer.c). People (people.c) send, cancel and withdraw. The world (world.c)
 * answers model calls and runs tools and remembers what it did. The judge keeps its own fold of
 * every journal, read back from the store after each commit (ledger.c), and holds all of it against
 * the rules (check.c, at_end.c, strict.c). It shares no code with src/core but the header types.
 *
 * Every source of chance is a hash of the seed and of names that stay the same when other moves are
 * left out, so that a failing plan can be shrunk by leaving moves out (shrink.c).
 */
#ifndef PW_SIM_H
#define PW_SIM_H

#include <stdio.h>

#include "base/heap.h"
#include "base/id.h"
#include "base/utf8.h"
#include "core/event.h"
#include "core/session.h"
#include "store/memory.h"
#include "store/store.h"

enum {
    SIM_SESSIONS = 6,
    SIM_OWNERS = 5, /* the last one is the healthy owner of the end */
    SIM_MOVES = 96,
    SIM_REQUESTS = 64,   /* of one session */
    SIM_TURNS = 96,      /* of one session */
    SIM_DEFINITIONS = 7, /* the last one has fallbacks and nothing else */
    SIM_LEFT_OUT = 64,   /* of one session */
    SIM_TROUBLES = 6,
    SIM_LEASE_MS = 10000,
    SIM_EVENTS_MAX = 60000 /* a run that needs more never comes to rest */
};

/* --- What is planned -------------------------------------------------------------------------- */

typedef enum sim_move_kind {
    MOVE_MESSAGE, /* a: request, b: content variant; c: 1 reject when busy */
    MOVE_CANCEL, /* a: 0 the open turn, 1 the last ended one, 2 an unknown one, 3 the one before the
                    open one */
    MOVE_WITHDRAW,  /* a: request */
    MOVE_DRAIN,     /* owner */
    MOVE_TAKE_OVER, /* owner, session */
    MOVE_CRASH,  /* owner, at the a-th boundary from now on; b: ms until its place is taken by a new
                    process */
    MOVE_FREEZE, /* owner, a: ms */
    MOVE_JUMP,   /* a: ms, the wall clock */
    MOVE_FAULT,  /* a: pw_memory_fault, b: how many writes, c: writes to pass before */
    MOVE_RACE /* a message of the next claim of this session is withdrawn just before it commits */
} sim_move_kind;

typedef struct sim_move {
    sim_move_kind kind;
    int64_t at_ms;
    int32_t session, owner, a, b, c;
} sim_move;

typedef struct sim_story {
    const char *name;
    const char *const *model; /* what the model says, call by call; NULL ends; then "text" */
    const char *moves;        /* story.c reads it */
    int32_t definition;
} sim_story;

/* Bugs planted in the driver and the world, to prove that the judge sees them. X(NAME, "rule that
 * must catch it") */
#define SIM_BUG_TABLE(X)                                                                           \
    X(NOTHING, "")                                                                                 \
    X(ONCE_TWICE, "D")        /* a once tool is run again by the next life */                      \
    X(SKIP_APPEND, "J4")      /* an append is answered but never done */                           \
    X(TELL_EARLY, "H3")       /* events are told when the append is asked for */                   \
    X(LOSE_MESSAGE, "A1")     /* a message is answered `accepted` and forgotten */                 \
    X(OTHER_KEY, "D1")        /* the second execution of a step gets another key */                \
    X(NO_FENCE, "J1")         /* a take-over does not raise the epoch */                           \
    X(TRANSACT_OUTSIDE, "D2") /* a transactional tool's write is not undone with its step */       \
    X(DROP_RESULT, "C9")      /* a request goes out without one of its results */                  \
    X(CHANGE_PREFIX, "C10")   /* an early message reads otherwise in the second request */         \
    X(UNKNOWN_IS_OK, "J4")    /* an append of unknown outcome is taken for done */                 \
    X(HIDE_CANCEL, "I1")      /* the machine is never shown a cancel */                            \
    X(UNCOUNTED_CRASH, "C4")  /* a recovery is taken as if it were our own again */                \
    X(EARLY_EFFECT, "ORDER")  /* a call's effect is done while the append before it is not */      \
    X(WITHDRAW_ANYWAY, "A7")  /* a claimed message is told to be withdrawn */                      \
    X(CHANGE_RESULT, "D")     /* the machine is told another result than the tool gave */          \
    X(ZOMBIE, "J1")           /* a fenced owner goes on to call the model */                       \
    X(REPEAT_RECEIPT, "C3")   /* a tool with a receipt is run again */                             \
    X(STALE_WAKE, "A7")       /* the wake told before an unreleased rest is not written */         \
    X(OTHER_MODEL, "F6")      /* after a fallback the first model is asked again */                \
    X(SEND_LEFT_OUT, "C9")    /* a part that was left out is sent all the same */                  \
    X(OTHER_RESPONSE, "G6")   /* a reply is asked anew though it can be resumed */
typedef enum sim_bug {
#define SIM_BUG_ENUM(name, rule) BUG_##name,
    SIM_BUG_TABLE(SIM_BUG_ENUM)
#undef SIM_BUG_ENUM
        BUG_COUNT
} sim_bug;

typedef struct sim_plan {
    uint64_t seed;
    int32_t sessions, owners;
    int32_t definition[SIM_SESSIONS];
    bool locks;         /* a dead process is seen at once (J2: local stores); else by its beat */
    bool many;          /* the model likes to ask for many calls */
    bool changed_agent; /* later processes have other declarations of the same tools (C7) */
    int32_t max_attempts, inbox_limit;
    int32_t starve_permille; /* of a session's allocations that fail */
    int32_t failures;        /* 0..9: how often models and tools fail */
    const sim_story *story;
    uint64_t crash_at;    /* boundary of the whole run at which its owner dies; 0: none */
    uint64_t crash_again; /* boundaries after that for a second crash; 0: none */
    int32_t crash_kind;   /* 0 crash, 1 freeze, 2 refused, 3 unknown done, 4 unknown not done (the
                             next write), 5 drain */
    sim_bug bug;
    sim_move moves[SIM_MOVES];
    int32_t move_count;
} sim_plan;

void plan_make(sim_plan *, uint64_t seed);
void plan_print(const sim_plan *, FILE *);
pw_str plan_definition(int32_t index, int32_t version,
                       pw_arena *); /* an agent's definition as JSON */

extern const sim_story sim_stories[];
extern const int32_t sim_story_count;
void story_plan(sim_plan *, int32_t story);

/* --- The judge's fold ------------------------------------------------------------------------- */

typedef enum sim_receipt {
    RECEIPT_NONE,
    RECEIPT_DONE,
    RECEIPT_ERROR,
    RECEIPT_UNKNOWN,
    RECEIPT_CANCELLED,
    RECEIPT_DENIED,
    RECEIPT_PAUSED,
    RECEIPT_MALFORMED,
    RECEIPT_REPEATED
} sim_receipt;

typedef struct sim_step { /* a tool call, from the model's message on */
    pw_str id, call, name, arguments;
    int32_t turn, message; /* index of its tool message in the ledger's messages */
    int64_t n;             /* of its assistant message */
    uint64_t signature;    /* name and arguments as one value (F4) */
    bool broken, intent;
    bool early; /* settled in the same append as its message */
    sim_receipt receipt;
    uint64_t receipt_seq, intent_epoch;
    pw_str result;
    bool is_error;
    int32_t starts;        /* DO_TOOL and DO_TRANSACT */
    int32_t runs;          /* what the world did, committed or not */
    int32_t lives_running; /* calls of it that have not ended, whoever's */
    uint64_t said[6];      /* hashes of the results that tools gave */
    int32_t said_count;
    pw_effects_class effects; /* as pinned; ONCE when unknown */
    bool known;               /* the tool is declared */
    char key[65];
} sim_step;

typedef struct sim_message {
    pw_role role;
    uint64_t seq, hash;
    int32_t turn, step; /* step: index of a tool message's */
    int64_t n;
    bool empty; /* nothing to show a model: may be left out */
    pw_str text;
    int32_t images; /* of an opening message */
} sim_message;

typedef struct sim_part { /* a part of a message, by the record that holds it */
    uint64_t seq;
    size_t part;
} sim_part;

typedef enum sim_fate { FATE_NONE, FATE_PENDING, FATE_CLAIMED, FATE_WITHDRAWN } sim_fate;

typedef struct sim_request {
    char id[24];
    int32_t variant; /* of the content that was accepted */
    sim_fate fate;
    bool maybe; /* an admission of it was answered `unknown` */
    uint64_t n;
    int64_t at_ms;
    int32_t turn;
} sim_request;

typedef struct sim_turn {
    pw_str id;
    uint64_t opened_seq, ended_seq, first_seq;
    int32_t first_message; /* in the ledger's, of its opening */
    pw_turn_state state;
    pw_str reason;
    const pw_definition *definition;
    pw_budget budget;
    int64_t deadline_at_ms, wait_until_ms;
    int32_t attempts, iterations, tool_calls, malformed, owed, lost;
    int64_t tokens, cost;
    bool cancel_admitted, must_cancel;
    int32_t claimed;           /* requests */
    int32_t images;            /* of its opening message */
    int32_t choice, fallbacks; /* F6 */
    bool answered;
    int32_t retries, quarantines; /* of the step that is owed, with this model */
    pw_str response_id;           /* by which it can be resumed; or empty */
    bool unsure;                  /* begun in a life that is over */
    uint64_t *prefix;             /* hashes of the messages of its last model request (C10) */
    size_t prefix_count;
} sim_turn;

typedef struct sim_ledger {
    char name[16], uid[40];
    int64_t id; /* 0: no row yet */
    uint64_t epoch, last_seq;
    int64_t crashes;
    int32_t open; /* index of the open turn, -1 */
    sim_turn turns[SIM_TURNS];
    int32_t turn_count;
    sim_step *steps;
    int32_t step_count, step_room;
    sim_message *messages;
    int32_t message_count, message_room;
    int64_t n; /* messages said so far (C1) */
    sim_request requests[SIM_REQUESTS];
    int32_t request_count;
    /* what the model was asked and said last, for C8 */
    pw_str asked_step;
    int32_t asked;
    uint64_t reply_hashes[16];
    int32_t reply_count;
    int32_t asks; /* model calls of the session, for stories */
    sim_part left_out[SIM_LEFT_OUT];
    int32_t left_out_count;
    sim_part rejected;   /* what the provider rejected last; seq 0: nothing */
    bool may_leave;      /* and that is a part that may be left out */
    uint64_t told_seq;   /* the subscriber's cursor */
    uint64_t story_hash; /* of all events told to it in order */
} sim_ledger;

/* --- Processes -------------------------------------------------------------------------------- */

typedef struct sim sim;
typedef struct sim_block sim_block;

typedef struct sim_heap { /* one life's memory: all of it goes at once when the process dies */
    pw_allocator allocator;
    sim_block *blocks;
    size_t bytes;
    pw_random random;
    int32_t starve_permille;
    bool on; /* only inside a step */
    uint64_t failures;
} sim_heap;

typedef struct sim_live {  /* a session in an owner's memory */
    struct sim_live *next; /* all that were ever made, for freeing */
    int32_t owner, session;
    uint64_t serial, epoch, clock; /* clock: how many times it was given the time */
    sim_heap heap;
    pw_session *machine;
    pw_arena arena;          /* definitions and what was loaded */
    const pw_append *append; /* in flight */
    const pw_receipt *receipt;
    const pw_tool_call *transact;
    int32_t transact_call;
    bool executed; /* the store has answered; the machine has not heard */
    pw_status answer;
    pw_str body;      /* of a transaction */
    bool tool_failed; /* the transaction's tool ended otherwise */
    bool opened, more, gone, drained, fenced, sealing;
    bool ends_again; /* an append that ends the turn was not committed: it will be given again as it
                        is */
    uint64_t looked_n, inbox_max_n, inbox_at_append;
    int64_t wake_at_ms;
    uint64_t wake_version;
    int64_t given_ms;  /* the last time it was told */
    bool cancel_first; /* its first look at the inbox showed the open turn's cancel */
    uint64_t *sent;    /* hashes of the messages of its last request, for `same` */
    size_t sent_count;
    uint64_t text_bytes; /* told of the open message */
    uint64_t text_call;
} sim_live;

typedef struct sim_owner {
    bool alive, frozen, draining;
    uint32_t life;
    pw_owner_id id;
    int64_t thaw_at, beat_at, start_at;
    sim_live *lives[SIM_SESSIONS];
    bool reload[SIM_SESSIONS];          /* after an unknown append */
    uint64_t last_serial[SIM_SESSIONS]; /* of this process's last life of each session */
    bool writer;                        /* its writer is about to run */
    struct {
        pw_owner_id id;
        uint64_t beat;
        int64_t since;
    } seen[16];
    int32_t seen_count;
    int32_t crash_in; /* boundaries until it dies; 0: never */
    int32_t crash_back_ms;
    int64_t sweep_at;
} sim_owner;

typedef struct sim_did { /* how a tool run ends */
    pw_tool_outcome outcome;
    bool hangs, late;
    int64_t effect_ms, answer_ms;
    int32_t writes;
} sim_did;

typedef struct sim_said { /* how a model call goes */
    pw_reply reply;
    pw_part parts[8];
    pw_failure failure;
    bool fails;
    pw_str response;  /* the id by which it can be resumed; or empty */
    sim_part rejects; /* what the failure names; seq 0: nothing */
    bool may_leave;   /* and that may be left out */
    int32_t pieces;   /* of the text, told as deltas */
    pw_str text;
    int64_t piece_ms;
} sim_said;

typedef struct sim_call {
    int32_t owner, session, step; /* step: in the ledger, of tools */
    uint32_t life;
    uint64_t serial; /* of the life that started it */
    uint64_t call;
    bool model, aborted, ended, held, effect, orphan, limit_passed, answered, accepted;
    pw_str step_id, turn, name, arguments;
    pw_effects_class effects;
    char key[65];
    int32_t piece;
    int64_t limit_at;
    uint32_t version; /* of its next event */
    sim_said *said;
    sim_did did;
} sim_call;

typedef enum sim_event_kind {
    EVENT_MOVE,
    EVENT_SWEEP,
    EVENT_BEAT,
    EVENT_HINT,
    EVENT_WAKE,
    EVENT_WRITE,
    EVENT_ANSWER,
    EVENT_CALL,
    EVENT_START,
    EVENT_THAW,
    EVENT_RELOAD,
    EVENT_RETRY,
    EVENT_DRAIN,
    EVENT_END
} sim_event_kind;

typedef struct sim_event {
    int64_t at;
    uint64_t order;
    sim_event_kind kind;
    int32_t owner, a; /* a: move, session or call */
    uint32_t life;
    uint64_t b; /* serial or version */
} sim_event;

struct sim {
    const sim_plan *plan;
    bool verbose;
    FILE *out;
    pw_arena arena;
    pw_store *store;
    int64_t now, wall_offset;
    sim_event *heap;
    size_t heap_count, heap_room;
    uint64_t order, events;
    sim_owner owners[SIM_OWNERS];
    sim_live *lives;
    uint64_t serial, process;
    sim_call *calls;
    int32_t call_count, call_room;
    sim_ledger ledgers[SIM_SESSIONS];
    const pw_definition *definitions[SIM_DEFINITIONS][2];
    uint64_t boundaries;
    pw_memory_fault fault;
    int32_t fault_count, fault_skip;
    bool asked_fault; /* the store asked in this execute */
    bool race[SIM_SESSIONS];
    bool ending, jumped, planted;
    int64_t end_since;
    /* numbers for the end's line */
    uint64_t appends, model_calls, tool_calls, crashes, turns, starved;
    uint64_t hash; /* of the store at the end */
    uint64_t spins;
    bool failed;
    char rule[16];
    char message[700];
};

/* One run; `ret` says how it went. */
typedef struct sim_result {
    bool failed;
    char rule[16];
    char message[700];
    uint64_t hash, boundaries, appends, model_calls, tool_calls, crashes, turns, events, starved;
    bool planted; /* the bug had its chance */
} sim_result;
void sim_run(const sim_plan *, bool verbose, sim_result *ret);
void sim_shrink(const sim_plan *, const sim_result *, sim_plan *ret);

/* sim.c */
void sim_fail(sim *, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_note(sim *, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t sim_wall(const sim *);
pw_str sim_dup(sim *, pw_str);
pw_str sim_format(sim *, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t sim_mix(uint64_t a, uint64_t b);
uint64_t sim_hash(pw_str, uint64_t seed);
uint64_t sim_chance(const sim *, uint64_t a, uint64_t b, uint64_t bound); /* 0 .. bound - 1 */
void sim_execute(sim *, pw_op *, size_t count);
const pw_definition *sim_definition(sim *, int32_t index, int32_t version);

/* queue.c */
void queue_push(sim *, sim_event);
bool queue_pop(sim *, sim_event *ret);

/* heap.c */
void heap_init(sim_heap *, uint64_t seed, int32_t starve_permille);
void heap_drop(sim_heap *); /* the process died */

/* owner.c */
void owner_start(sim *, int32_t owner);
void owner_crash(sim *, int32_t owner, int64_t back_ms);
bool owner_boundary(sim *, int32_t owner, const char *where); /* true: it just died */
void owner_event(sim *, const sim_event *);
void owner_hint(sim *, int32_t session);
void owner_take_over(sim *, int32_t owner, int32_t session);
void owner_drain(sim *, int32_t owner);
void owner_freeze(sim *, int32_t owner, int64_t ms);
bool owner_quiet(const sim *, int32_t owner);

/* life.c: a session in memory */
void life_open(sim *, int32_t owner, const pw_op *taken);
bool life_step(
    sim *, sim_live *,
    const pw_input *); /* with the time before it; false: the life or its owner is over */
bool life_inbox(sim *, sim_live *);
void life_drop(sim *, sim_live *);
bool life_current(const sim *, const sim_live *);

/* effect.c */
bool effects_do(sim *, sim_live *, pw_effects);
void call_event(sim *, const sim_event *);
void calls_deliver_held(sim *, sim_live *);
void call_deliver(sim *, sim_live *, sim_call *);
sim_call *call_new(sim *, sim_live *, bool model, uint64_t call);

/* writer.c */
void writer_run(sim *, int32_t owner);
void writer_answer(sim *, int32_t owner, uint64_t serial);

/* check_model.c: which model is asked (F6), what is left out (C9), what is resumed (G6) */
void check_asked(sim *, const sim_ledger *, const pw_model_request *);
bool check_left_out(const sim_ledger *, uint64_t seq, size_t part);
void check_accepted(sim *, sim_ledger *, sim_turn *, const pw_record *, const pw_json *body);
void check_fallback(sim *, sim_ledger *, sim_turn *, const pw_json *body);
void check_quarantined(sim *, sim_ledger *, sim_turn *, const pw_json *body);
void check_tried_again(sim *, sim_turn *, const pw_json *body);
void check_failed(sim *, const sim_ledger *, const sim_turn *, pw_str code);
void check_forgotten(sim *, sim_turn *, const pw_json *body);

/* people.c */
bool people_image(const sim *, int32_t session, int32_t request, int32_t variant);
void people_move(sim *, const sim_move *);
void people_retry(sim *, const sim_event *);
void people_withdraw(sim *, int32_t session, sim_request *);
pw_str people_text(int32_t session, int32_t request, int32_t variant, char room[160]);
bool people_alike(sim *, const sim_ledger *, const sim_request *, const sim_request *);

/* world.c */
sim_said *world_model(sim *, sim_ledger *, const pw_model_request *);
void world_tool(sim *, sim_ledger *, const sim_step *, pw_effects_class, sim_did *);
void world_run(sim *, sim_ledger *, sim_step *, sim_call *);
uint64_t world_parts_hash(const pw_part *, size_t count, bool with_calls);
uint64_t world_value_hash(pw_str json);
pw_str world_key(sim *, const sim_ledger *,
                 const sim_step *); /* of a step in the store's world table */

/* ledger.c */
void ledger_init(sim *);
void ledger_read(sim *, sim_ledger *); /* all that is new in the store */
sim_step *ledger_step(sim_ledger *, pw_str turn, pw_str step);
sim_turn *ledger_turn(sim_ledger *, pw_str turn);
sim_request *ledger_request(sim_ledger *, pw_str id);
pw_json_type ledger_type(const pw_json *);

/* check.c */
void check_append_asked(sim *, sim_live *, const pw_append *);
void check_appended(sim *, sim_ledger *, sim_live *, const pw_append *, pw_str body);
void check_model(sim *, sim_live *, const pw_model_request *);
void check_tool(sim *, sim_live *, const pw_tool_call *, bool transact);
void check_fold(sim *, sim_live *);
void check_messages(sim *, sim_ledger *);
void check_told(sim *, sim_ledger *, uint64_t last_seq);
void check_reason(sim *, pw_turn_state, pw_str reason, pw_str where);
bool check_effects_allowed(pw_effects_class pinned, bool has_today, pw_effects_class today,
                           pw_effects_class effective);
uint64_t check_message_hash(const pw_message *);

/* check_turn.c */
void check_repeats(sim *, const sim_ledger *, const sim_step *);
void check_refused_repeat(sim *, const sim_ledger *, const sim_step *);
void check_cancelled(sim *, const sim_live *, const pw_append *);
void check_usage(sim *, const sim_ledger *, const sim_turn *, const pw_json *ended);

/* at_end.c */
void check_end(sim *);

/* plant.c */
void plant_request(sim *, const sim_ledger *, pw_model_request *, const pw_message *list[512],
                   pw_message *changed);
void plant_recovery(sim *, sim_live *);
void plant_early(sim *, sim_live *, const pw_append *);
void plant_repeat(sim *, sim_live *);
bool plant_wake(sim *, const pw_effects *, size_t index); /* true: this wake is not done */

/* strict.c: NULL when the transcript is one that a strict provider takes, else what is wrong */
const char *strict_check(const pw_message *const *, size_t count);

#endif
