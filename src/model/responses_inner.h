/*
 * What the files of the OpenAI Responses codec share: request (rendering), stream (events to
 * items), reply (items to parts). Not a contract of the room.
 *
 * Nothing is left at the provider (store: false), so every output item goes back in its place and
 * none is referred to by its id. What is kept of an item, in pw_part.raw:
 *   message        nothing, when it is one plain text or refusal; its frame with an empty content,
 *                  when it has more members than that (phase); else the whole item. One with text
 *                  and a refusal becomes two parts, each with an item of its own
 *   reasoning      the whole item; nothing, when it was cut: it is never sent then
 *   function_call  nothing, unless it has more members than that (caller, namespace …): then its
 *                  frame with empty arguments. On the way out its call_id and arguments are written
 *                  anew from the neutral fields, so arguments are not stored twice and ids stay
 *                  unique (D10)
 *   anything else  the whole item
 */
#ifndef PW_MODEL_RESPONSES_INNER_H
#define PW_MODEL_RESPONSES_INNER_H

#include "model/reading.h"
#include "model/rendering.h"

#define PW_RESPONSES_MAX_ITEMS 4096
#define PW_RESPONSES_MAX_PIECES 4096 /* of all items together: each is looked for among all */

typedef enum pw_piece_kind {
    PW_PIECE_TEXT,      /* output_text of a message, by content_index */
    PW_PIECE_REFUSAL,   /* by content_index */
    PW_PIECE_SUMMARY,   /* of a reasoning item, by summary_index */
    PW_PIECE_REASONING, /* reasoning_text, by content_index */
    PW_PIECE_ARGUMENTS, /* of a function_call */
    PW_PIECE_INPUT      /* of a custom_tool_call */
} pw_piece_kind;

/* A text of an item as its deltas gave it. */
typedef struct pw_piece pw_piece;
struct pw_piece {
    pw_piece *older;
    pw_piece_kind kind;
    int64_t index;
    pw_buffer text;
    pw_str held; /* the first half of a surrogate pair that a delta ended with, as it was escaped */
};

typedef struct pw_item pw_item;
struct pw_item {
    pw_item *older;
    int64_t index; /* output_index: what items are told apart by; ids may change on the way */
    bool done;     /* `json` is output_item.done's */
    pw_str id, type;
    pw_str json; /* as it was added, until it is done */
    pw_piece *pieces;
};

typedef struct pw_responses_stream {
    pw_model_stream reading; /* first */
    pw_item *items;          /* the newest first */
    size_t item_count, piece_count;
    bool background;
    pw_str id, model;
    pw_str status; /* as the last event said it */
    pw_str reason; /* incomplete_details.reason */
    pw_usage usage;
    pw_reply reply;
} pw_responses_stream;

/* All items as parts of stream->reply, in stream->reading.kept. */
pw_status pw_responses_reply_make(pw_responses_stream *);

pw_status pw_responses_request(const pw_endpoint *, const pw_model_request *, pw_render *,
                               pw_arena *, pw_http_request *ret, pw_error *);
pw_status pw_responses_cancel(const pw_endpoint *, pw_str response_id, pw_arena *,
                              pw_http_request *ret, pw_error *);
/* A rendering with this codec's rules. */
void pw_responses_rendering(pw_rendering *, const pw_model_request *, pw_render *, pw_arena *);
/* How many contents of a user's message this part becomes. */
pw_status pw_responses_count_contents(pw_rendering *, const pw_part *, size_t *ret);
/* The part of a model's message that became its `item`-th item; SIZE_MAX: it has fewer. */
pw_status pw_responses_part_of_item(pw_rendering *, const pw_message *, size_t item, size_t *ret);
/* The server's id of the item that is kept of a part; empty: none is. */
pw_status pw_responses_id_of_part(pw_rendering *, const pw_message *, size_t part, pw_str *ret);
bool pw_responses_rejected(const pw_model_request *, int http_status, pw_str body, pw_arena *,
                           size_t *ret_message, size_t *ret_part);
pw_status pw_responses_stream_new(const pw_allocator *, pw_model_stream **ret);
pw_str pw_responses_accepted(const pw_model_stream *);
pw_status pw_responses_end(pw_model_stream *, const pw_endpoint *, const pw_reply **ret,
                           pw_failure *ret_failure);

#endif
