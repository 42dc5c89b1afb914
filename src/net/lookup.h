/*
 * A host's addresses, looked up once, off the loop (libuv's pool), within a limit. Loop thread.
 *
 *   start ──► done (addresses, or why not) ──► gone
 *      └ drop ───────────────────────────────► gone, without done
 *
 * The system's resolver cannot be stopped: after a drop or the limit its thread ends when it likes,
 * and only then is it gone.
 */
#ifndef PW_NET_LOOKUP_H
#define PW_NET_LOOKUP_H

#include <uv.h>

#include "base/arena.h"

typedef struct pw_lookup pw_lookup;

typedef struct pw_lookup_ask {
    uv_loop_t *loop;
    const pw_allocator *allocator;
    pw_str host; /* at most 253 bytes */
    uint16_t port;
    int64_t limit_ms;
    /* Once, unless dropped; `list` lives for the call; NULL: `why` says why not. Afterwards the
     * lookup is not to be named again. */
    void (*done)(void *ctx, const struct addrinfo *list, const char *why);
    void *ctx;
    void (*gone)(void *owner); /* its memory is given back: the last thing that is heard of it */
    void *owner;
} pw_lookup_ask;

pw_status pw_lookup_start(const pw_lookup_ask *, pw_lookup **ret); /* PW_NOMEM, PW_IO */
void pw_lookup_drop(pw_lookup *);

#endif
