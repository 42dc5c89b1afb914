/*
 * Tools: what they are is their kind's business, what they mean for a turn is not theirs. A kind is
 * given arguments that are valid JSON and fit the schema, and ends by exactly one pw_tool_outcome.
 * Limits are the runtime's.
 *
 * native    a C function, on a pool thread; a transactional one on the writer thread inside its
 * transaction sql       statements with :named arguments: transactional through the writer's
 * handle, `none` through a read-only connection on a pool thread command   a child process without
 * a shell: JSON in on standard input, result on standard output http      a POST to a server,
 * through the outbound guard
 */
#ifndef PW_TOOL_TOOL_H
#define PW_TOOL_TOOL_H

#include <uv.h>

#include "core/session.h"
#include "net/guard.h"

/* How a call ended: called on the loop thread, once per started call; strings live for the call
 * only. */
typedef void (*pw_tool_done)(void *ctx, uint64_t call, const pw_tool_outcome *);

typedef struct pw_tool_host {
    uv_loop_t *loop;
    const pw_allocator *allocator;
    pw_str store_path; /* of an SQLite store, for read-only sql tools; else empty */
    pw_tool_done done;
    void *ctx;
    size_t output_bytes; /* cap on a command's output, default 50 MiB (of http tools 8 MiB): over it
                            the call is an error */
    int32_t threads; /* of the pool for native calls and read-only sql; 0: 4. Stuck ones come on top
                        (D6) */
    pw_networks outbound; /* what http tools may reach beyond public addresses; outlives the runner
                           */
    pw_tool_done late; /* may be NULL. What an abandoned call ended with after its `done`: evidence
                          (D8), loop thread */
} pw_tool_host;

/* What the runtime adds to a pw_tool_call. Borrowed for the call of `start` only. */
typedef struct pw_tool_place {
    pw_str session;   /* name */
    pw_str directory; /* the agent's folder: commands run there; may be empty */
} pw_tool_place;

typedef struct pw_tool_runner
    pw_tool_runner; /* all tools of one process: loop thread only, but for pw_tool_transact */

pw_status pw_tool_runner_new(const pw_tool_host *, pw_tool_runner **ret, pw_error *);
/* Asks everything to end, waits for native calls up to their limits through the loop, then calls
 * `closed`. */
void pw_tool_runner_close(pw_tool_runner *, void (*closed)(void *ctx), void *ctx);

/* Is the declaration's own part right (kind known, effects possible for the kind, `run`, `sql`,
 * `env`)? Names the field. Unknown keys are errors. `native_known`: a native tool of that name is
 * registered. */
pw_status pw_tool_declaration_check(const pw_tool_declaration *, pw_error *);

/* Starts; PW_OK means `done` will be called (never from inside start). The call's bytes are copied
 * where needed. Otherwise nothing was started: PW_NOT_FOUND (native not registered),
 * PW_UNSUPPORTED, PW_NOMEM, PW_IO. */
pw_status pw_tool_start(pw_tool_runner *, const pw_tool_call *, const pw_tool_place *, pw_error *);
/* Asks it to end now: a command's process group is killed, a native call is told by
 * pawl_call_left_ms() == 0 and abandoned. `limit_passed` becomes the outcome's. It still ends by
 * `done`. A call that is over or unknown is ignored. */
void pw_tool_abort(pw_tool_runner *, uint64_t call, bool limit_passed);
size_t pw_tool_abandoned(
    const pw_tool_runner *); /* native calls abandoned whose thread has not returned (D6) */

/* Writer thread: runs a transactional tool on the open transaction. The outcome is made in `arena`.
 */
pw_status pw_tool_transact(pw_tool_runner *, const pw_tool_call *, const pw_tool_place *,
                           void *handle, int32_t handle_kind, pw_arena *arena,
                           pw_tool_outcome *ret);

/* native: registered before any call. pawl_tool of pawl.h, copied; takes ctx on success. */
struct pawl_tool;
pw_status pw_tool_native_add(pw_tool_runner *, const struct pawl_tool *, pw_error *);
/* As registered (strings live as long as the runner), or NULL. */
const struct pawl_tool *pw_tool_native_get(const pw_tool_runner *, pw_str name);

#endif
