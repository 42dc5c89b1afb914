/*
 * One reader of server-sent events for every provider (PROVIDERS.md 2; WHATWG HTML "Server-sent
 * events").
 *
 * Bytes in any pieces → events. Lines end with LF, CRLF or CR; a BOM at the start is skipped;
 * comments only count as bytes; one space after the colon is dropped; several `data:` lines join
 * with LF; dispatch on the empty line, and leniently at the end of input when the pending data is
 * whole JSON or `[DONE]`. A line over the maximum is PW_TOO_LARGE.
 */
#ifndef PW_MODEL_SSE_H
#define PW_MODEL_SSE_H

#include "base/json.h"

#define PW_SSE_MAX_EVENT (32u << 20)

typedef struct pw_sse_event {
    pw_str name;    /* `event:` field or empty */
    pw_str data;    /* joined, trailing spaces kept */
    pw_str unknown; /* the last unknown field's value seen in this event (llama.cpp's `error:`) */
    pw_str unknown_name;
} pw_sse_event;

typedef pw_status (*pw_sse_handler)(
    void *ctx, const pw_sse_event *); /* not PW_OK stops the feed with that status */

typedef struct pw_sse {
    pw_buffer line, data, name, unknown, unknown_name;
    bool has_data, started, after_cr;
    uint64_t bytes;
} pw_sse;

void pw_sse_init(pw_sse *, const pw_allocator *, size_t maximum);
void pw_sse_free(pw_sse *);
pw_status pw_sse_feed(pw_sse *, pw_str bytes, pw_sse_handler, void *ctx, pw_error *);
pw_status pw_sse_end(pw_sse *, pw_sse_handler, void *ctx, pw_error *);

#endif
