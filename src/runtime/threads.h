/* Threads of the engine's own: born with every signal blocked, so that a host's handlers never run
 * on them. */
#ifndef PW_RUNTIME_THREADS_H
#define PW_RUNTIME_THREADS_H

#include <uv.h>

#include "base/status.h"

pw_status pw_thread_start(uv_thread_t *ret, void (*run)(void *), void *argument, pw_error *);

#endif
