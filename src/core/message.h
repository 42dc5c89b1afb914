/*
 * The neutral transcript: what people, models and tools said, in the one form that every provider
 * codec, view and test reads.
 *
 * A part that a provider bound to itself (signature, encrypted reasoning, citations, server tools)
 * also keeps that provider's block byte-exact in `raw`, which is what goes back to the same
 * provider (C8). Where the neutral fields alone rebuild an equal block, `raw` is empty: nothing is
 * stored twice. All strings are borrowed from an arena that outlives the message.
 */
#ifndef PW_CORE_MESSAGE_H
#define PW_CORE_MESSAGE_H

#include "base/json.h"

/* X(NAME, "type in JSON") */
#define PW_PART_TABLE(X)                                                                           \
    X(TEXT, "text")                                                                                \
    X(THINKING, "thinking") /* text may be ""; without raw (signature) it is never sent */         \
    X(TOOL_CALL, "tool_call")                                                                      \
    X(SERVER_TOOL, "server_tool") /* a server tool's use or result: raw only, never run here */    \
    X(REFUSAL, "refusal")                                                                          \
    X(OTHER, "other") /* raw only, kept and echoed; images and documents of a user's message       \
                         (content part as given) too */

typedef enum pw_part_kind {
#define PW_PART_ENUM(name, text) PW_PART_##name,
    PW_PART_TABLE(PW_PART_ENUM)
#undef PW_PART_ENUM
} pw_part_kind;

typedef struct pw_part {
    pw_part_kind kind;
    pw_str text; /* TEXT, THINKING, REFUSAL */
    pw_str call; /* TOOL_CALL: the engine's id (C1, D10), set by the core, empty from a codec */
    pw_str
        provider_id;  /* TOOL_CALL: as the provider said it: may be empty or repeated; data only */
    pw_str name;      /* TOOL_CALL */
    pw_str arguments; /* TOOL_CALL: the exact bytes; a valid JSON value unless `broken` */
    bool broken;   /* TOOL_CALL: arguments are not whole JSON (cut off, malformed): never run, never
                      sent raw */
    pw_str raw;    /* one JSON value: the provider's block, or empty */
    bool left_out; /* stands for a part that a provider rejected (C9) */
} pw_part;

typedef enum pw_role { PW_ROLE_USER, PW_ROLE_TRIGGER, PW_ROLE_ASSISTANT, PW_ROLE_TOOL } pw_role;
const char *pw_role_name(pw_role); /* "user" "trigger" "assistant" "tool" */

/* One message. A claim of several requests is one user message, its text already rendered by B4. */
typedef struct pw_message {
    pw_role role;
    int64_t n;    /* counts the session's messages since its last reset, from 1 (C1) */
    uint64_t seq; /* the record that holds it */
    int64_t at_ms;
    pw_str turn, step;
    const pw_part *parts; /* USER, TRIGGER, ASSISTANT */
    size_t part_count;
    pw_str provider,
        model; /* ASSISTANT: who made it; raw parts go back to the same provider and family only */
    pw_str asked; /* ASSISTANT: the name it was asked for by (an alias), where the reply names
                     another; else empty */
    /* TOOL: the answer to exactly one call of the assistant message before */
    pw_str call;
    pw_str name;
    pw_str result; /* one JSON value: what the model reads */
    bool is_error;
} pw_message;

/* Why the model stopped: one closed set (PROVIDERS.md 1). X(NAME, "text") */
#define PW_STOP_TABLE(X)                                                                           \
    X(DONE, "done")                                                                                \
    X(TOOL_CALLS, "tool_calls")                                                                    \
    X(PAUSED, "paused") /* the provider paused in its own server tools: ask again at once */       \
    X(MAX_OUTPUT, "max_output")                                                                    \
    X(CONTEXT_FULL, "context_full")                                                                \
    X(STOP_SEQUENCE, "stop_sequence")                                                              \
    X(REFUSED, "refused")                                                                          \
    X(FILTERED, "filtered")                                                                        \
    X(COMPACTED, "compacted")

typedef enum pw_stop {
#define PW_STOP_ENUM(name, text) PW_STOP_##name,
    PW_STOP_TABLE(PW_STOP_ENUM)
#undef PW_STOP_ENUM
} pw_stop;
const char *pw_stop_name(pw_stop);

/* Usage of one model call, normalised (PROVIDERS.md 11); -1: the provider did not say. */
typedef struct pw_usage {
    int64_t in_uncached, in_cache_read, in_cache_write;
    int64_t out;         /* all output, reasoning included */
    int64_t reasoning;   /* the share of `out` */
    int64_t cost_micros; /* millionths of a US dollar as reported or priced; -1: unknown
                            (`unpriced_calls`) */
    /* For the price alone, never journalled: */
    int64_t in_cache_write_1h; /* the share of `in_cache_write` that is kept an hour */
    int64_t web_searches;      /* requests that the provider's own web search made */
    bool unlisted; /* a tier, speed or place that list prices do not cover: it cannot be priced */
} pw_usage;
#define PW_USAGE_UNKNOWN ((pw_usage){-1, -1, -1, -1, -1, -1, -1, -1, false})

/* A whole reply, as a codec hands it over. */
typedef struct pw_reply {
    pw_part *parts;
    size_t part_count;
    pw_stop stop;
    pw_str stop_detail; /* the stop sequence, a refusal's explanation; or empty */
    pw_str response_id, model, provider;
    pw_usage usage;
} pw_reply;

/* A failed call, classed once, in the codec (F5). X(NAME, "text") */
#define PW_FAILURE_TABLE(X)                                                                        \
    X(RETRY, "retry")   /* try again with backoff; counts as a try */                              \
    X(WAIT, "wait")     /* rate limit with a time: `until_ms`; no try counted */                   \
    X(REPAIR, "repair") /* the context is too long (G5) */                                         \
    X(NEXT, "next")     /* this model will not answer: a fallback may (F6) */                      \
    X(FINAL, "fail")    /* fails at once */

typedef enum pw_failure_class {
#define PW_FAILURE_ENUM(name, text) PW_FAILURE_##name,
    PW_FAILURE_TABLE(PW_FAILURE_ENUM)
#undef PW_FAILURE_ENUM
} pw_failure_class;

typedef struct pw_failure {
    pw_failure_class failure_class;
    pw_str code;      /* short and equal for equal causes: `rate_limit_error`, `connect`, `cut_off`,
                         `stalled`, `http_500` */
    pw_str message;   /* the provider's message field, for a person; never its raw body, never a key
                         (F5, N3) */
    int64_t until_ms; /* WAIT: wall time before which there is no point; 0: none */
    pw_usage usage;   /* what is known to have been spent */
    bool still_works; /* RETRY, WAIT: asked for a reply by its id, the provider refused this
                         request, and did not say that the reply is gone */
    bool rejected;    /* FINAL: the provider names the part it will not take (C9): */
    size_t rejected_message, rejected_part; /* of the request's messages, and of its parts */
} pw_failure;

/* May this part be left out when a provider rejects it, by what it is (C9)? Of a person's message
 * any; of a model's what was kept for its provider alone; never a call or a result. */
static inline bool pw_part_may_leave(const pw_message *message, size_t part)
{
    if (part >= message->part_count || message->parts[part].left_out) {
        return false;
    }
    const pw_part_kind kind = message->parts[part].kind;
    switch (message->role) {
    case PW_ROLE_USER:
    case PW_ROLE_TRIGGER:
        return kind == PW_PART_TEXT || kind == PW_PART_OTHER;
    case PW_ROLE_ASSISTANT:
        return kind == PW_PART_THINKING || kind == PW_PART_OTHER;
    case PW_ROLE_TOOL:
        break;
    }
    return false;
}

/* Did the connection fail, and not the provider? Then what it works on may still be there. By the
 * codes that model/model.h lists for such failures. */
bool pw_failure_is_transport(pw_str code);

#endif
