/*
 * Which threads are inside the host's code right now (a tool, the log function): from there some
 * calls would wait for themselves for ever and are refused as PAWL_MISUSE instead. Any thread. It
 * outlives the handle for as long as an abandoned tool may still return, so it is counted.
 */
#ifndef PW_RUNTIME_INSIDE_H
#define PW_RUNTIME_INSIDE_H

#include <uv.h>

#include "base/arena.h"

typedef struct pw_inside pw_inside;
typedef struct pw_inside_mark pw_inside_mark;
struct pw_inside_mark { /* on the stack of the call into the host */
    uv_thread_t thread;
    pw_inside_mark *next, *before;
};

pw_status pw_inside_new(const pw_allocator *, pw_inside **ret);
pw_inside *pw_inside_ref(pw_inside *);
void pw_inside_unref(pw_inside *); /* NULL is fine */

void pw_inside_enter(pw_inside *, pw_inside_mark *);
void pw_inside_leave(pw_inside *, pw_inside_mark *);
bool pw_inside_here(pw_inside *); /* is the calling thread in the host's code? */

#endif
