/*
 * What the files of the view share: reading a record's body, and the few members that both events
 * and shapes write. Not for other rooms.
 */
#ifndef PW_CORE_VIEW_INNER_H
#define PW_CORE_VIEW_INNER_H

#include "core/view.h"

/* Every text made here is bounded by what a record may hold; this stops a damaged one. */
#define PW_VIEW_MAXIMUM ((size_t)1 << 28)

/* A record's body as an object. PW_CORRUPT: not an object; PW_NEWER_SCHEMA: its `v` is not ours.
 * The errors name the record. */
pw_status pw_view_body(const pw_record *, pw_arena *, const pw_json **ret, pw_error *);

/* A member whose value came from outside: written on one line, numbers as they were; NULL is null.
 */
void pw_view_put(pw_json_writer *, const char *key, const pw_json *, pw_arena *scratch);
/* A time in ms as RFC 3339; what is not a time is null. */
void pw_view_put_time(pw_json_writer *, const char *key, const pw_json *ms);
/* Millionths of a dollar as a decimal string without trailing zeros ("0.0123"); negative is null.
 */
void pw_view_put_cost(pw_json_writer *, const char *key, int64_t micros);

/* One model call's usage: input_tokens counts cached ones too; what the provider did not say is 0.
 * cost_micros -1: not priced. */
typedef struct pw_view_usage {
    int64_t input, output, cached, reasoning, cost_micros;
    bool known; /* the provider said something, be it 0 */
} pw_view_usage;
pw_view_usage pw_view_call_usage(const pw_json *usage);
void pw_view_put_call_usage(pw_json_writer *, const char *key, const pw_json *usage);

/* The text of an assistant message's parts as subscribers saw it stream: text and refusals, joined.
 */
pw_status pw_view_reply_text(const pw_json *parts, pw_arena *, pw_str *ret);

/* A Turn's members from its turn.ended alone, into an open object; `event` adds what every event
 * carries (turn, at). */
pw_status pw_view_ended_members(const pw_record *ended, pw_str session, bool event, pw_arena *,
                                pw_json_writer *, pw_error *);

/* A tool's result as the error text of F1 when it is one ({"error": "…"}), else the whole value. */
const pw_json *pw_view_error_of(const pw_json *result);

#endif
