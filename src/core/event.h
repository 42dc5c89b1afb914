/*
 * Durable events are the journal, told (M1): this is the telling. Pure: a record in, its events
 * out; the same for live subscribers, replay from the store, every surface and every test.
 */
#ifndef PW_CORE_EVENT_H
#define PW_CORE_EVENT_H

#include "core/record.h"

typedef struct pw_event_out {
    pw_str id;   /* "<seq>", or "<seq>-<i>" for all but a record's last event (i from 1) */
    pw_str name; /* M4 */
    pw_str data; /* one JSON object, the shapes of HTTP.md:
                    {"session","turn","step"?,"attempt"?,"at",…} */
} pw_event_out;

/* turn.opened → turn.started · attempt.started → attempt.started · model.completed →
 * message.completed (when it has text that is not blank), then action.requested per call ·
 * model.discarded → message.restarted · model.retrying → model.retrying · wait.set → turn.waiting ·
 * tool.completed → action.completed · transcript.repaired → transcript.repaired · turn.ended →
 * turn.<state>, with the Turn's fields · tool.started, tool.late → nothing. */
pw_status pw_event_tell(const pw_record *, pw_str session_name, pw_arena *,
                        const pw_event_out **ret, size_t *ret_count, pw_error *);

/* Cursors (M1, M2): "<seq>", "<seq>-<i>", "<seq>.<bytes>", "0", "". */
typedef struct pw_cursor {
    uint64_t seq;
    uint32_t index; /* events of record seq + 1 already seen when the cursor was `<seq+1>-<index>`;
                       see pw_cursor_parse */
    uint64_t bytes; /* of the open message's text already seen */
} pw_cursor;
/* `<s>-<i>` means: everything before record s, and the first i events of record s → {s - 1, i, 0}.
 * PW_INVALID on garbage. */
pw_status pw_cursor_parse(pw_str, pw_cursor *ret, pw_error *);

#endif
