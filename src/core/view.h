/*
 * The JSON shapes of HTTP.md (Turn, Step, Message), made from records: pure, so that every surface
 * shows the same.
 */
#ifndef PW_CORE_VIEW_H
#define PW_CORE_VIEW_H

#include "core/record.h"

/* One turn's records, in order, all of them (from its turn.opened); of one that ended its first and
 * its last are enough for a Turn. `row_state` and `row_reason` are the session row's word on an
 * open turn (waiting, suspended, interrupted, draining); ignored when the records hold turn.ended.
 */
typedef struct pw_view_turn {
    pw_str session;
    const pw_record *records;
    size_t count;
    bool first_only; /* of an open turn: what only all its records say is null in its Turn (model,
                        attempts, operations, usage) */
    pw_turn_state row_state;
    pw_str row_reason;
    int64_t row_since_ms; /* 0: the records say */
} pw_view_turn;

pw_status pw_view_turn_json(const pw_view_turn *, pw_arena *scratch, pw_buffer *ret,
                            pw_error *); /* a Turn */
pw_status pw_view_steps_json(const pw_view_turn *, pw_arena *scratch, pw_buffer *ret,
                             pw_error *); /* an array of Steps */
/* What a session's ended turns used, one object: what its last turn found (turn.opened's `before`)
 * and that turn's own once it ended. NULL: no such record. */
pw_status pw_view_usage_json(const pw_record *opened, const pw_record *ended, pw_arena *scratch,
                             pw_json_writer *, pw_error *);
/* Appends the Messages that this one record holds to an open array (0 or 1; a cancelled turn's
 * partial text is one, `partial` true and without a number). `tool_n` numbers a tool's result: its
 * assistant message's n + the position of its call from 1 (the record of a result does not know);
 * 0: null. */
pw_status pw_view_message_json(const pw_record *, int64_t tool_n, pw_arena *scratch,
                               pw_json_writer *, pw_error *);

/* A client's message content: `text` means one text part. Checked (A8: types text, image, document;
 * at least one part; nothing a client may not say: no tool, assistant or approval parts), mended
 * and written clean as a JSON array. */
pw_status pw_content_normalize(pw_str text, pw_str content_json, pw_arena *, pw_str *ret,
                               pw_error *);
/* The digest of role and content that A1 compares (A6). */
pw_status pw_content_digest(pw_str role, pw_str content, pw_arena *scratch, pw_hash_hex *ret);

#endif
