/*
 * What the files of the carrier share: http (transfers, libcurl and libuv together) and guarded (a
 * transfer's host, looked up and checked before it begins). Not a contract of the room.
 */
#ifndef PW_NET_HTTP_INNER_H
#define PW_NET_HTTP_INNER_H

#include "net/curl.h"
#include "net/http.h"
#include "net/lookup.h"
#include "net/url.h"

#define PW_HTTP_CONNECT_MS 10000 /* unless the limits say otherwise */

typedef struct pw_transfer pw_transfer;
struct pw_transfer {
    pw_http *http;
    pw_transfer *prev, *next;
    uint64_t call;
    CURL *easy;
    struct curl_slist *headers;
    bool guarded;
    const pw_networks *allow;
    pw_url url; /* guarded; its host is `name` */
    char name[256];
    pw_lookup *lookup;         /* under way */
    struct curl_slist *places; /* where the name leads */
    pw_str body[3];
    size_t body_size, body_sent;
    size_t limit, received; /* of the answer */
    pw_arena arena;         /* the answer's headers */
    pw_header *head;
    size_t head_count, head_bytes;
    int status;
    bool head_told;
    const char *mark; /* why it must end, or NULL */
    const char *why;  /* in words, or NULL: the mark's own */
    char words[CURL_ERROR_SIZE];
};

struct pw_http {
    uv_loop_t *loop;
    const pw_allocator *allocator;
    pw_http_handler handler;
    void *ctx;
    const pw_curl *curl; /* NULL, and `multi` too, until the first transfer */
    CURLM *multi;
    uv_timer_t timer, soon;
    pw_transfer *transfers;
    struct pw_watch *watches;
    size_t open_handles;
    bool closing, torn_down;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* Takes the transfer out, says how it ended, and frees it. Never called from curl's callbacks. */
void pw_transfer_finish(pw_transfer *, CURLcode);
/* One of `open_handles` is over; the carrier's memory goes with the last after its end. */
void pw_http_one_gone(pw_http *);

/* --- guarded.c */
/* Reads the URL strictly and keeps who may be reached: PW_INVALID, PW_TOO_LARGE. */
pw_status pw_guarded_read(pw_transfer *, const pw_http_request *, const pw_http_limits *,
                          pw_error *);
/* Looks the host up; the transfer begins, or is finished, when the answer is there. */
pw_status pw_guarded_look_up(pw_transfer *, const pw_http_limits *);
void pw_guarded_forbid(pw_transfer *);

#endif
