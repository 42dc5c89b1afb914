/*
 * Carries HTTP requests: libcurl's multi interface on a libuv loop. Loop thread only. Nothing here
 * knows what a request is for.
 *
 * HTTP/1.1, no redirects, no proxies, connections reused, no signals, TCP keep-alive, certificates
 * checked. A transfer is never paused: over the cap it is aborted.
 *
 * A guarded transfer goes where net/guard.h allows and nowhere else: its host is looked up once,
 * every address of the answer is checked, and the connection is made to those addresses (name and
 * certificate stay the URL's). Its connection is its own, made for it and closed after it, so that
 * nothing is sent twice on a connection that turns out to be dead, and none reaches what was
 * checked at another time.
 *
 * Codes of BROKEN: connect, dns, tls, forbidden (by the guard), reset (no status came), timeout
 * (total_ms), cut_off (after the status), too_large (body_bytes, or 64 KiB of headers), aborted,
 * no_memory, url, transport (anything else).
 */
#ifndef PW_NET_HTTP_H
#define PW_NET_HTTP_H

#include <uv.h>

#include "base/arena.h"
#include "net/guard.h"
#include "net/message.h"

typedef struct pw_http pw_http;

typedef struct pw_http_limits {
    int64_t connect_ms; /* default 10 s */
    int64_t total_ms;   /* 0: none (the turn's deadline rules) */
    size_t body_bytes;  /* cap on the answer, default 64 MiB */
    bool guarded;
    const pw_networks *allow; /* of the guard, beyond public addresses; lives as long as the
                                 transfer; may be NULL */
} pw_http_limits;

typedef enum pw_http_event_kind {
    PW_HTTP_HEAD /* status and headers */,
    PW_HTTP_BYTES,
    PW_HTTP_END,
    PW_HTTP_BROKEN /* code: a transport failure's */
} pw_http_event_kind;
/* Everything an event points to lives only while the handler runs. */
typedef struct pw_http_event {
    pw_http_event_kind kind;
    uint64_t call;
    int status;
    const pw_header *headers;
    size_t header_count;
    pw_str bytes;
    const char *code;
    pw_str message; /* without the URL's query and without any header */
    bool sent;      /* BROKEN: some of the request may have reached the server */
} pw_http_event;
/* Called on the loop thread from inside the transfer; must not start or abort transfers itself:
 * queue it. After END or BROKEN no more comes for that call. */
typedef void (*pw_http_handler)(void *ctx, const pw_http_event *);

pw_status pw_http_new(uv_loop_t *, const pw_allocator *, pw_http_handler, void *ctx, pw_http **ret,
                      pw_error *);
/* The first one of the process loads libcurl: some 30 ms on the loop's thread; PW_UNAVAILABLE says
 * what is missing. A guarded one: PW_INVALID, PW_TOO_LARGE for a URL that net/url.h does not take.
 * Copies what it needs but not the body: the body's bytes must live until END, BROKEN or
 * pw_http_abort. Key headers are never logged. */
pw_status pw_http_start(pw_http *, uint64_t call, const pw_http_request *, const pw_http_limits *,
                        pw_error *);
void pw_http_abort(pw_http *,
                   uint64_t call); /* ends with BROKEN "aborted" on the loop's next turn; no event
                                      of it comes before that. Unknown or ended: nothing */
void pw_http_close(pw_http *, void (*closed)(void *ctx),
                   void *ctx); /* aborts all, on the loop's next turn; memory is gone when `closed`
                                  is called, which waits for names being looked up. NULL is fine
                                  (nothing is called) */

#endif
