/*
 * What the files of the Anthropic codec share: request (rendering), stream (events to blocks),
 * reply (blocks to parts). Not a contract of the room.
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

#include "model/reading.h"

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

typedef struct pw_anthropic_stream {
    pw_model_stream reading; /* first */
    pw_anthropic_block **blocks;
    size_t block_count, block_capacity;
    bool started; /* message_start came */
    pw_str id, model, stop_reason, stop_sequence, stop_details;
    pw_usage usage;
    pw_reply reply;
} pw_anthropic_stream;

/* All blocks as parts of stream->reply, in stream->reading.kept. */
pw_status pw_anthropic_reply_make(pw_anthropic_stream *);

pw_status pw_anthropic_request(const pw_endpoint *, const pw_model_request *, pw_render *,
                               pw_arena *, pw_http_request *ret, pw_error *);
/* Does this part become a block of the body, or is it left out of it? As the renderer does it. */
pw_status pw_anthropic_part_shows(const pw_model_request *, size_t message, size_t part, pw_arena *,
                                  bool *ret);
bool pw_anthropic_rejected(const pw_model_request *, int http_status, pw_str body, pw_arena *,
                           size_t *ret_message, size_t *ret_part);
pw_status pw_anthropic_stream_new(const pw_allocator *, pw_model_stream **ret);
pw_status pw_anthropic_end(pw_model_stream *, const pw_endpoint *, const pw_reply **ret,
                           pw_failure *ret_failure);

#endif
