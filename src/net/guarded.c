/*
 * Guarded transfers: the host is looked up once, every address of the answer is checked, and curl
 * is given those addresses, so that it looks nothing up itself (http.h). Each address is checked
 * once more when a socket is made for it (http.c). Must never let curl ask a resolver.
 */
#include "base/format.h"
#include "net/http_inner.h"

#define ADDRESSES_MAX 16 /* that are tried; all are checked */

void pw_guarded_forbid(pw_transfer *t)
{
    t->mark = "forbidden";
    t->why = "the host has a private or reserved address, which outbound_allow "
             "(PAWL_OUTBOUND_ALLOW) does not list";
}

static void on_lookup_gone(void *owner)
{
    pw_http_one_gone(owner);
}

/* "+name:port:address,…": what curl takes for the answer to its own look-up. */
static bool pin(pw_transfer *t, const struct addrinfo *list)
{
    char text[64], line[256 + ADDRESSES_MAX * 50];
    size_t used = pw_format(line, sizeof line, "+%s:%d", t->name, (int)t->url.port);
    size_t count = 0;
    for (; list && count < ADDRESSES_MAX; list = list->ai_next) {
        const bool six = list->ai_family == AF_INET6;
        const void *address = list->ai_addr;
        if ((six ? uv_ip6_name(address, text, sizeof text)
                 : uv_ip4_name(address, text, sizeof text)) != 0) {
            continue;
        }
        used += pw_format(line + used, sizeof line - used, "%c%s%s%s", count == 0 ? ':' : ',',
                          six ? "[" : "", text, six ? "]" : "");
        count++;
    }
    const pw_curl *curl = t->http->curl;
    t->places = curl->slist_append(NULL, line);
    return count > 0 && t->places &&
           curl->easy_setopt(t->easy, CURLOPT_RESOLVE, t->places) == CURLE_OK;
}

static void on_looked_up(void *ctx, const struct addrinfo *list, const char *why)
{
    pw_transfer *t = ctx;
    t->lookup = NULL;
    if (t->mark) {
        return; /* aborted: `soon` ends it */
    }
    if (!list) {
        t->mark = "dns";
        t->why = why;
    } else if (!pw_guard_allows_all(list, t->allow)) {
        pw_guarded_forbid(t);
    } else if ((!t->url.literal && !pin(t, list)) ||
               t->http->curl->multi_add_handle(t->http->multi, t->easy) != CURLM_OK) {
        t->mark = "no_memory";
    }
    if (t->mark) {
        pw_transfer_finish(t, CURLE_OK);
    }
}

pw_status pw_guarded_look_up(pw_transfer *t, const pw_http_limits *limits)
{
    pw_http *http = t->http;
    const pw_lookup_ask ask = {.loop = http->loop,
                               .allocator = http->allocator,
                               .host = pw_str_from(t->name),
                               .port = t->url.port,
                               .limit_ms =
                                   limits->connect_ms > 0 ? limits->connect_ms : PW_HTTP_CONNECT_MS,
                               .done = on_looked_up,
                               .ctx = t,
                               .gone = on_lookup_gone,
                               .owner = http};
    PW_TRY(pw_lookup_start(&ask, &t->lookup));
    http->open_handles++;
    return PW_OK;
}

pw_status pw_guarded_read(pw_transfer *t, const pw_http_request *request,
                          const pw_http_limits *limits, pw_error *error)
{
    pw_error why = {0};
    const pw_status status = pw_url_parse(request->url, &t->url, &why);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "url: %s", why.message);
    }
    t->guarded = true;
    t->allow = limits->allow;
    const size_t length = pw_format(t->name, sizeof t->name, "%.*s", PW_STR_ARG(t->url.host));
    t->url.host = (pw_str){t->name, length}; /* the request's own bytes may go */
    return PW_OK;
}
