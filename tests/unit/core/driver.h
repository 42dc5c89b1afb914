/*
 * A driver of one session for tests: a fake journal and inbox, effects gathered where a test can
 * look at them, answers given when a test says so. After every durable append the journal is folded
 * anew and compared.
 */
#ifndef PW_TEST_CORE_DRIVER_H
#define PW_TEST_CORE_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/heap.h"
#include "core/session.h"
#include "core/transcript.h"
#include "support/failing_allocator.h"

enum { H_ROWS_MAX = 128, H_RECORDS_MAX = 40000, H_ABORTS_MAX = 64 };

typedef struct harness {
    const pw_allocator *allocator; /* of the session; may fail: a failed step is given again */
    pw_session *s;
    pw_arena arena; /* of the driver */
    uint64_t epoch;
    int64_t now;
    int64_t crashes;
    int64_t max_attempts;
    const pw_definition *today, *pinned;
    pw_record *records;
    size_t record_count;
    uint64_t base_seq;
    pw_inbox_row rows[H_ROWS_MAX];
    size_t row_count;
    bool more;
    pw_buffer log; /* every record and effect, for byte comparison */
    size_t failed_steps;
    bool compare; /* fold anew after every append */
    bool quiet;   /* no log */
    const pw_test_allocator
        *watch;       /* steps near its failure are compared: a failed one changes nothing */
    uint64_t first_n; /* the number of rows[0], when not 1 */

    /* What the session asked for. */
    const pw_append *append; /* under way */
    const pw_append *transact;
    const pw_receipt *receipt;
    const pw_tool_call *inside; /* the transactional call */
    const pw_model_request *model;
    const pw_tool_call *tool;
    uint64_t model_call, tool_call;
    uint64_t aborts[H_ABORTS_MAX];
    size_t abort_count;
    bool for_good; /* of the last abort */
    int64_t wake;
    bool rested, released;
    size_t model_count, tool_count, transact_count, append_count;
    pw_head head; /* of the last append given */
    pw_str told;  /* the last delta told */
    uint64_t told_bytes, told_seq;
} harness;

extern const char
    h_agent[]; /* tools: read (none), put (idempotent), send (once), buy (transactional) */

/* The same with models to fall back to: m2 of the first one's provider, far of another, m3. */
extern const char h_agent_models[];

void h_new(harness *, const char *definition);
void h_new_with(harness *, const char *definition, const pw_allocator *);
void h_free(harness *);
const pw_definition *h_definition(harness *, const char *json);

/* A crash: the session is dropped with all that is under way, loaded from the journal, and opened.
 */
void h_crash(harness *, pw_cause cause);
void h_load(harness *);
void h_open(harness *, pw_cause cause, const pw_alive_call *alive, size_t alive_count);

void h_step(harness *, const pw_input *); /* with a time before it */
void h_time(harness *, int64_t now);      /* moves the clock and steps */
void h_say(harness *, const char *request,
           const char *text); /* a row; not yet seen by the session */
void h_say_body(harness *, const char *request, const char *body);
void h_cancel(harness *, const char *body); /* of the open turn */
void h_inbox(harness *);
void h_commit(
    harness *); /* the append under way is durable (with `transact_result` for a transaction) */
void h_commit_transact(harness *, const char *result);
void h_commit_all(harness *);     /* as long as plain appends come */
void h_not(harness *, pw_status); /* the append or transaction under way is answered otherwise */
void h_drain(harness *);
void h_delta(harness *, const char *text);
void h_accept(harness *, const char *response_id);     /* of the model call that runs */
void h_reject(harness *, size_t message, size_t part); /* of its request, by the provider */

void h_reply(harness *, const pw_reply *);
void h_text(harness *, const char *text); /* a plain reply, then whatever becomes durable */
void h_call(harness *, const char *name, const char *arguments); /* a reply with one call */
pw_part h_call_part(const char *id, const char *name, const char *arguments);
void h_calls(harness *, pw_part *parts, size_t count);
void h_fail(harness *, pw_failure_class, const char *code, int64_t until);
void h_tool(harness *, const char *json);
void h_tool_error(harness *, const char *error_class, const char *message);
void h_tool_fatal(harness *, const char *message);
void h_tool_abandoned(harness *, bool limit_passed);
void h_tool_outcome(harness *, uint64_t call, const pw_tool_outcome *);

/* Looking. */
pw_session_view h_look(const harness *);
const pw_record *h_last(const harness *,
                        pw_record_kind); /* the last record of that kind, or NULL */
size_t h_count(const harness *, pw_record_kind);
pw_str h_field(harness *, const pw_record *,
               const char *path); /* "usage.iterations", "result.error"; raw JSON */
void h_expect(harness *, pw_record_kind, const char *path, const char *raw);
char *h_durable(harness *, pw_session *); /* freed by the caller with test's free() */
pw_str h_step_text(const pw_tool_call *);

#endif
