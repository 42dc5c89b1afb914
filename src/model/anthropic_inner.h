/*
 * What the files of the Anthropic codec share: request (rendering), stream (events to blocks),
 * reply (blocks to parts), failure (classes). Not a contract of the room.
 *
 * What is kept of a provider's block, in pw_part.raw:
 *   text           nothing, unless it has citations or members we do not know: then the whole block
 *   thinking       the whole block, when it is signed; an unsigned one has no raw and is never sent
 *   tool_use       nothing, unless it has more members than type, id, name and input (caller,
 * toolset_name …): then the block as content_block_start gave it. On the way out its id and input
 * are written anew from the neutral fields, so arguments are not stored twice and ids stay unique
 * (D10) server tools   the whole block, use and result alike anything else  the whole block
 */
#ifndef PW_MODEL_ANTHROPIC_INNER_H
#define PW_MODEL_ANTHROPIC_INNER_H

#include "model/model.h"
#include "model/sse.h"

#define PW_ANTHROPIC_MAX_REPLY                                                                     \
    ((size_t)64 << 20) /* bytes of one answer, all its events together                             \
                        */
#define PW_ANTHROPIC_MAX_BLOCKS 10000

/* A block being assembled. `start` is content_block as it came; deltas gather beside it. */
typedef struct pw_anthropic_block {
    int64_t index;
    bool closed;
    bool assigned; /* compaction: `text` replaces the content as a JSON value */
    pw_str type, start;
    pw_buffer text;      /* text, thinking, or partial JSON; compaction: one JSON value */
    pw_buffer citations; /* JSON values joined by commas */
    pw_str signature;
} pw_anthropic_block;

struct pw_model_stream {
    const pw_allocator *allocator;
    pw_sse sse;
    pw_arena kept;    /* lives as long as the stream: starts, signatures, the reply */
    pw_arena scratch; /* one event */
    pw_arena deltas;  /* one feed */
    pw_delta *delta_list;
    size_t delta_count, delta_capacity;
    enum { PW_BODY_UNDECIDED, PW_BODY_EVENTS, PW_BODY_OBJECT, PW_BODY_FOREIGN } body;
    pw_buffer object; /* PW_BODY_OBJECT: the body so far */
    size_t received;
    bool progress;
    pw_anthropic_block **blocks;
    size_t block_count, block_capacity;
    bool started, ended; /* message_start, message_stop */
    pw_str id, model, stop_reason, stop_sequence, stop_details;
    pw_usage usage;
    bool failed; /* in band, or unreadable: `failure_type` and `failure_text` say it */
    bool unreadable;
    pw_str failure_type, failure_code, failure_text;
    pw_reply reply;
};

/* A block from a content_block's JSON (a start event's, or a whole message's). */
pw_status pw_anthropic_block_new(pw_model_stream *, int64_t index, const pw_json *content_block,
                                 pw_anthropic_block **ret);
/* All blocks as parts of stream->reply, in stream->kept. */
pw_status pw_anthropic_reply_make(pw_model_stream *);
/* A whole message object, as sent to a request that did not stream: blocks, stop and usage. */
pw_status pw_anthropic_message_take(pw_model_stream *, const pw_json *message);
void pw_anthropic_usage_take(pw_usage *usage, const pw_json *said);
/* Remembers the first failure only. `text` is copied. */
pw_status pw_anthropic_fail(pw_model_stream *, const pw_json *error);
pw_status pw_anthropic_unreadable(pw_model_stream *, const char *what);

/* Writes `block` with these members replaced, or appended where it has none. A replacement with a
 * NULL pointer is skipped. */
typedef struct pw_member {
    const char *name;
    pw_str json;
} pw_member;
pw_status pw_anthropic_block_write(pw_buffer *, const pw_json *block, const pw_member *,
                                   size_t count);

/* What a failure was said to be, before it is classed. */
typedef struct pw_anthropic_fault {
    int status;                 /* HTTP status, or the one that stands for an in-band type */
    pw_str type, code, message; /* error.type, error.details.error_code, error.message */
    const pw_header *headers;
    size_t header_count;
} pw_anthropic_fault;
pw_failure pw_anthropic_class(const pw_endpoint *, const pw_anthropic_fault *, pw_arena *);
int pw_anthropic_status_of(
    pw_str type); /* in-band errors: 529 for overloaded_error …; 500 for others */
/* `ret` gets the pieces of an error body or event; missing ones stay empty. */
void pw_anthropic_fault_read(const pw_json *body, pw_anthropic_fault *ret);

pw_failure pw_anthropic_failure(const pw_endpoint *, int http_status, const pw_header *, size_t,
                                pw_str body, pw_arena *);
pw_status pw_anthropic_request(const pw_endpoint *, const pw_model_request *, pw_render *,
                               pw_arena *, pw_http_request *ret, pw_error *);
pw_status pw_anthropic_stream_new(const pw_allocator *, pw_model_stream **ret);
void pw_anthropic_stream_free(pw_model_stream *);
pw_status pw_anthropic_feed(pw_model_stream *, pw_str bytes, const pw_delta **ret,
                            size_t *ret_count, bool *ret_progress, pw_error *);
pw_status pw_anthropic_end(pw_model_stream *, const pw_endpoint *, const pw_reply **ret,
                           pw_failure *ret_failure);

/* The part of a model's name that signatures are bound to: without a date, "-latest", a version
 * tag, a host's prefix. */
pw_str pw_anthropic_family(pw_str model);

#endif
