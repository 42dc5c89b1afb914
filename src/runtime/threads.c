/* See threads.h. Any thread. Must leave the caller's own signal mask as it was. */
#include "runtime/threads.h"

#include <pthread.h>
#include <signal.h>

pw_status pw_thread_start(uv_thread_t *ret, void (*run)(void *), void *argument, pw_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return PW_FAIL(error, PW_UNAVAILABLE, "the signal mask of a new thread cannot be set");
    }
    int failed = uv_thread_create(ret, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        return PW_FAIL(error, PW_UNAVAILABLE, "a thread cannot be started: %s",
                       uv_strerror(failed));
    }
    return PW_OK;
}
