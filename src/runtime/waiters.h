/*
 * Threads that wait for a turn to end (pawl_wait). Told once a turn ends, not at every record, so
 * that a thousand waiters cost a running session nothing. What they are told is a hint: each looks
 * in the store for itself. Any thread.
 */
#ifndef PW_RUNTIME_WAITERS_H
#define PW_RUNTIME_WAITERS_H

#include <stdatomic.h>
#include <uv.h>

#include "base/arena.h"

#define PW_WAITERS_BUCKETS 64

typedef struct pw_waiter pw_waiter;
struct pw_waiter { /* on the waiting thread's stack */
    int64_t session_id;
    uv_cond_t wake;
    bool news;
    pw_waiter *next, *before;
};

typedef struct pw_waiters {
    uv_mutex_t mutex;
    uv_cond_t empty;
    pw_waiter *buckets[PW_WAITERS_BUCKETS];
    atomic_size_t count;
    bool closed;
} pw_waiters;

pw_status pw_waiters_init(pw_waiters *);
void pw_waiters_free(pw_waiters *);  /* after close */
void pw_waiters_close(pw_waiters *); /* wakes all with PW_END and waits until they have left */

pw_status pw_waiters_enter(pw_waiters *, pw_waiter *, int64_t session_id); /* PW_END when closed */
void pw_waiters_leave(pw_waiters *, pw_waiter *);
/* Until there is news or `until_ms` (monotonic; < 0: never). PW_OK, PW_TIMEOUT, PW_END. */
pw_status pw_waiters_wait(pw_waiters *, pw_waiter *, int64_t until_ms);
void pw_waiters_tell(pw_waiters *, int64_t session_id); /* 0: all */

#endif
