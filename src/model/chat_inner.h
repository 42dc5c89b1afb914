/*
 * What the files of the Chat Completions codec share: dialect (what servers differ in), request
 * (rendering), content (a user's parts), stream (chunks to runs and calls), calls (routing of
 * tool-call deltas), details (reasoning_details), reply (runs and calls to parts, usage, stop),
 * failure. Not a contract of the room.
 *
 * Reading knows no dialect: every server's habits are read by the same rules. Rendering does.
 *
 * What is kept of the provider's own, in pw_part.raw: an object of members that go back as they
 * came, where the dialect wants them and the model is of the same family (C8):
 *   thinking    the first such part: {"reasoning_details":…} and {"extra_content":…} of the message
 *   tool_call   {"extra_content":…}, Gemini's thought signature
 * The text of reasoning_content is the thinking part's own text and is kept nowhere else.
 */
#ifndef PW_MODEL_CHAT_INNER_H
#define PW_MODEL_CHAT_INNER_H

#include "model/reading.h"
#include "model/rendering.h"

/* --- Dialects: what servers differ in, one row each --- */

typedef enum pw_chat_auth { PW_CHAT_BEARER, PW_CHAT_API_KEY } pw_chat_auth;
/* How a call's id is spelled (D10). */
typedef enum pw_chat_ids { PW_CHAT_IDS_40, PW_CHAT_IDS_9 } pw_chat_ids;
/* reasoning_content goes back with every answer of a tool loop: with calls, or right after results.
 */
typedef enum pw_chat_echo { PW_CHAT_ECHO_NONE, PW_CHAT_ECHO_LOOP } pw_chat_echo;
/* How a document is said: as a file; as a file that may also be a URL; as Mistral's document_url.
 */
typedef enum pw_chat_documents {
    PW_CHAT_FILE,
    PW_CHAT_FILE_OR_URL,
    PW_CHAT_DOCUMENT_URL
} pw_chat_documents;

typedef struct pw_chat_dialect {
    const char *name;
    const char *hosts[4];     /* its own: the host or the end of one; ":11434" a port */
    bool hosted;              /* its own hosts ask for a key */
    pw_chat_auth auth;        /* unless the option says otherwise */
    const char *tokens_field; /* unless the option says otherwise */
    pw_chat_ids ids;
    const char *no_content;   /* content of an answer that only calls, as JSON */
    pw_chat_echo reasoning;   /* unless the option says otherwise … */
    const char *no_reasoning; /* … or this is part of the model's name */
    bool echo_details;        /* reasoning_details */
    bool echo_extra;          /* extra_content */
    bool stream_options;      /* unless the option says otherwise */
    bool alternates;          /* user and assistant must take turns: neighbours are joined */
    bool cache_markers;       /* cache_control is passed on to Claude */
    pw_chat_documents documents;
} pw_chat_dialect;

/* By the option `dialect`, or by the host in base_url. NULL: there is no dialect of that name. */
const pw_chat_dialect *pw_chat_dialect_find(const pw_json *options, pw_str base_url);
/* Is this one of the dialect's own hosts? */
bool pw_chat_dialect_at(const pw_chat_dialect *, pw_str base_url);
/* Does reasoning_content go back to this model? By the option `echo_reasoning`, else the dialect.
 */
bool pw_chat_echoes_reasoning(const pw_chat_dialect *, const pw_json *options);
/* All names, for an error. */
pw_status pw_chat_dialect_names(pw_buffer *);

/* --- Reading --- */

#define PW_CHAT_MAX_CALLS 1000
#define PW_CHAT_MAX_RUNS 1000    /* beyond, text joins the last run of its kind */
#define PW_CHAT_MAX_DETAILS 1000 /* entries of reasoning_details */

/* Text of one kind in a row: TEXT, THINKING or REFUSAL. */
typedef struct pw_chat_run {
    pw_part_kind kind;
    pw_buffer text;
} pw_chat_run;

typedef struct pw_chat_call {
    bool has_index;
    int64_t index;
    pw_str id, name, extra;
    pw_buffer arguments;
    /* Where the arguments stand, byte by byte: whole when begun and at depth 0. */
    size_t depth;
    bool begun, in_string, escaped;
    pw_str named_again; /* a name that came after that: what comes next is another call */
} pw_chat_call;

/* One entry of reasoning_details: as it came first, with what later deltas added. */
typedef struct pw_chat_detail {
    pw_str type, start;
    bool has_index;
    int64_t index;
    bool continued;
    pw_buffer text;               /* of `text` or `summary` */
    pw_str signature, format, id; /* JSON; what came later and is not null */
} pw_chat_detail;

/* -1: not said. */
typedef struct pw_chat_usage {
    int64_t prompt, completion, total, cached, cache_write, reasoning, cost_micros;
} pw_chat_usage;
#define PW_CHAT_USAGE_UNKNOWN ((pw_chat_usage){-1, -1, -1, -1, -1, -1, -1})

/* Several fields may carry the same reasoning: the first that has text is the one that counts. */
typedef enum pw_chat_channel {
    PW_CHAT_NO_REASONING,
    PW_CHAT_REASONING_CONTENT,
    PW_CHAT_REASONING,
    PW_CHAT_DETAILS,
    PW_CHAT_CONTENT_PARTS
} pw_chat_channel;

typedef struct pw_chat_stream {
    pw_model_stream base;
    pw_chat_run **runs;
    size_t run_count, run_capacity;
    pw_chat_call **calls;
    size_t call_count, call_capacity;
    pw_chat_call *old_function; /* of function_call deltas */
    pw_chat_detail **details;
    size_t detail_count, detail_capacity;
    pw_str extra; /* the message's extra_content */
    pw_chat_channel channel;
    pw_str id, model, finish;
    pw_chat_usage said;
    bool whole; /* one object, which needs no end mark */
    pw_reply reply;
} pw_chat_stream;

/* Adds to a growing list of pointers in the stream's arena; PW_TOO_LARGE at `most`. */
pw_status pw_chat_list_add(pw_chat_stream *, void ***list, size_t *count, size_t *capacity,
                           size_t most, void *item);

pw_status pw_chat_tool_delta(pw_chat_stream *, const pw_json *tool_call);
pw_status pw_chat_function_delta(pw_chat_stream *, const pw_json *function_call);
/* Keeps the entries; `ret_text` is what they say, for as long as the event lives. */
pw_status pw_chat_details_delta(pw_chat_stream *, const pw_json *details, pw_str *ret_text);
/* All entries as one JSON array, in the stream's arena; empty where there are none. */
pw_status pw_chat_details_json(pw_chat_stream *, pw_str *ret);

void pw_chat_usage_take(pw_chat_usage *, const pw_json *usage);
pw_usage pw_chat_usage_neutral(const pw_chat_usage *);
/* A finish_reason that is a failure becomes one. */
pw_status pw_chat_finish_check(pw_chat_stream *);
pw_status pw_chat_reply_make(pw_chat_stream *);

pw_status pw_chat_stream_new(const pw_allocator *, pw_model_stream **ret);
pw_status pw_chat_end(pw_model_stream *, const pw_endpoint *, const pw_reply **ret,
                      pw_failure *ret_failure);

/* --- Rendering --- */

/* A text or OTHER part of a user's message as elements of `content`; what cannot be said so, and
 * blank text, is left out. */
pw_status pw_chat_put_user_part(pw_rendering *, pw_json_writer *, pw_chat_documents,
                                const pw_part *);
pw_status pw_chat_request(const pw_endpoint *, const pw_model_request *, pw_render *, pw_arena *,
                          pw_http_request *ret, pw_error *);
/* The person's part that became element `content` (SIZE_MAX: not named) of element `element` of
 * messages. False: it is no such part, or it cannot be told. */
bool pw_chat_find_part(const pw_model_request *, size_t element, size_t content, pw_arena *,
                       size_t *ret_message, size_t *ret_part);
pw_failure pw_chat_failure(const pw_endpoint *, int http_status, const pw_header *, size_t,
                           pw_str body, pw_arena *);
bool pw_chat_rejected(const pw_model_request *, int http_status, pw_str body, pw_arena *,
                      size_t *ret_message, size_t *ret_part);

#endif
