/*
 * Looking a host up (lookup.h): libuv's getaddrinfo and a timer. Whichever comes first tells; the
 * memory goes when both are over.
 */
#include "net/lookup.h"

#include "base/format.h"

struct pw_lookup {
    uv_getaddrinfo_t request;
    uv_timer_t limit;
    pw_lookup_ask ask;
    bool told;
    int open; /* of the request and the timer */
};

static void leave(pw_lookup *lookup)
{
    if (--lookup->open > 0) {
        return;
    }
    const pw_lookup_ask ask = lookup->ask;
    ask.allocator->resize(ask.allocator->ctx, lookup, sizeof *lookup, 0);
    ask.gone(ask.owner);
}

static void on_timer_closed(uv_handle_t *handle)
{
    leave(handle->data);
}

static void tell(pw_lookup *lookup, const struct addrinfo *list, const char *why)
{
    if (!lookup->told) {
        lookup->told = true;
        uv_close((uv_handle_t *)&lookup->limit, on_timer_closed);
        lookup->ask.done(lookup->ask.ctx, list, why);
    }
}

static void on_answer(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    pw_lookup *lookup = request->data;
    tell(lookup, status == 0 ? list : NULL, status == 0 ? NULL : uv_strerror(status));
    uv_freeaddrinfo(list);
    leave(lookup);
}

static void on_limit(uv_timer_t *timer)
{
    pw_lookup *lookup = timer->data;
    tell(lookup, NULL, "the name was not resolved in time");
    (void)uv_cancel((uv_req_t *)&lookup->request); /* where a thread has not begun it */
}

pw_status pw_lookup_start(const pw_lookup_ask *ask, pw_lookup **ret)
{
    char host[256], port[8];
    PW_ASSERT(ask->host.len < sizeof host);
    pw_lookup *lookup = ask->allocator->resize(ask->allocator->ctx, NULL, 0, sizeof *lookup);
    if (!lookup) {
        return PW_NOMEM;
    }
    *lookup = (pw_lookup){.ask = *ask, .open = 2};
    lookup->request.data = lookup->limit.data = lookup;
    (void)pw_format(host, sizeof host, "%.*s", PW_STR_ARG(ask->host));
    (void)pw_format(port, sizeof port, "%d", (int)ask->port);
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const int failed = uv_getaddrinfo(ask->loop, &lookup->request, on_answer, host, port, &hints);
    if (failed) {
        ask->allocator->resize(ask->allocator->ctx, lookup, sizeof *lookup, 0);
        return failed == UV_ENOMEM ? PW_NOMEM : PW_IO;
    }
    (void)uv_timer_init(ask->loop, &lookup->limit); /* cannot fail */
    (void)uv_timer_start(&lookup->limit, on_limit, ask->limit_ms > 0 ? (uint64_t)ask->limit_ms : 0,
                         0);
    *ret = lookup;
    return PW_OK;
}

void pw_lookup_drop(pw_lookup *lookup)
{
    lookup->told = true;
    uv_close((uv_handle_t *)&lookup->limit, on_timer_closed);
    (void)uv_cancel((uv_req_t *)&lookup->request);
}
