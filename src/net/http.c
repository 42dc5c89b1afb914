/*
 * Carries HTTP requests: libcurl's multi socket interface driven by a libuv loop (http.h).
 *
 * curl says which sockets to watch (on_socket) and when to be woken (on_timer_asked); libuv's polls
 * and timer tell it what happened; after each such telling the finished transfers are collected and
 * ended. That is the only place, with `soon`, where an easy handle is destroyed: never inside one
 * of its own callbacks. `soon` is a timer of zero length that runs on the loop's next turn what
 * must not run where it was asked for: aborts, and the end of everything.
 *
 * Life of a transfer: start → (looked up and checked, when guarded) → (HEAD → BYTES*) → END |
 * BROKEN. The check is made twice: of the answer to the one look-up (guarded.c), and of each
 * address at the moment a socket is made for it, so that no difference between readers of URLs
 * opens a door. Whatever goes wrong inside a callback (a cap, no memory, an abort) is marked on the
 * transfer, and the mark words its end.
 *
 * A thousand transfers at once are ordinary: buffers are small, and a body is read out of the
 * caller's slices.
 */
#include "net/http_inner.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"

#define BODY_BYTES_DEFAULT ((size_t)64 << 20)
#define RECEIVE_BUFFER 8192L
#define SEND_BUFFER 16384L /* curl's least */
#define IDLE_CONNECTIONS 64L
#define HEAD_BYTES_MAX ((size_t)64 << 10)
#define HEAD_LINES_MAX 256

typedef struct pw_watch { /* one socket */
    uv_poll_t poll;
    pw_http *http;
    curl_socket_t socket;
    struct pw_watch *prev, *next;
} watch;

static void *allocate(const pw_http *http, size_t size)
{
    return http->allocator->resize(http->allocator->ctx, NULL, 0, size);
}

static void release(const pw_http *http, void *ptr, size_t size)
{
    http->allocator->resize(http->allocator->ctx, ptr, size, 0);
}

/* --- Ends --- */

/* When in doubt, yes: whoever must not do a thing twice asks. */
static bool was_sent(const pw_transfer *t)
{
    curl_off_t sending_began_us = 0;
    long head_bytes = 0;
    (void)t->http->curl->easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &sending_began_us);
    (void)t->http->curl->easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &head_bytes);
    return t->head_told || t->body_sent > 0 || head_bytes > 0 || sending_began_us > 0;
}

static const char *code_of(const pw_transfer *t, CURLcode result)
{
    switch ((int)result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return "dns";
    case CURLE_COULDNT_CONNECT:
        return "connect";
    case CURLE_OPERATION_TIMEDOUT:
        return was_sent(t) ? "timeout" : "connect";
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_USE_SSL_FAILED:
        return "tls";
    case CURLE_PARTIAL_FILE:
        return "cut_off";
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_FAIL_REWIND:
        return t->head_told ? "cut_off" : "reset";
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return was_sent(t) ? "transport" : "url"; /* an answer that is no HTTP is the second too */
    case CURLE_OUT_OF_MEMORY:
        return "no_memory";
    default:
        return t->head_told ? "cut_off" : "transport";
    }
}

static pw_str words_of(const pw_transfer *t, CURLcode result)
{
    if (t->mark && t->why) {
        return pw_str_from(t->why);
    }
    if (t->mark) {
        return pw_str_is(pw_str_from(t->mark), "too_large") ? PW_STR("the answer is over its limit")
               : pw_str_is(pw_str_from(t->mark), "aborted") ? PW_STR("it was aborted")
                                                            : PW_STR("out of memory");
    }
    if (t->words[0] != '\0' && result != CURLE_URL_MALFORMAT) {
        return pw_str_from(t->words); /* names host and port at most */
    }
    return pw_str_from(t->http->curl->easy_strerror(result));
}

static void free_transfer(pw_transfer *t)
{
    pw_http *http = t->http;
    if (t->easy) {
        t->http->curl->easy_cleanup(t->easy);
    }
    t->http->curl->slist_free_all(t->headers);
    t->http->curl->slist_free_all(t->places);
    pw_arena_free(&t->arena);
    release(http, t, sizeof *t);
}

void pw_transfer_finish(pw_transfer *t, CURLcode result)
{
    pw_http *http = t->http;
    const bool good = result == CURLE_OK && !t->mark && t->head_told;
    const char *code = t->mark ? t->mark : code_of(t, result);
    if (t->lookup) {
        pw_lookup_drop(t->lookup);
    }
    (void)http->curl->multi_remove_handle(http->multi, t->easy); /* also if it never came in */
    if (t->prev) {
        t->prev->next = t->next;
    } else {
        http->transfers = t->next;
    }
    if (t->next) {
        t->next->prev = t->prev;
    }
    const pw_http_event event = {.kind = good ? PW_HTTP_END : PW_HTTP_BROKEN,
                                 .call = t->call,
                                 .status = t->status,
                                 .code = good ? NULL : code,
                                 .message = good ? PW_STR_NONE : words_of(t, result),
                                 .sent = !good && was_sent(t)};
    http->handler(http->ctx, &event);
    free_transfer(t);
}

static void collect_finished(pw_http *http)
{
    int left = 0;
    const CURLMsg *message = NULL;
    while ((message = http->curl->multi_info_read(http->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        const CURLcode result = message->data.result; /* the message goes with its handle */
        pw_transfer *t = NULL;
        if (http->curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK && t) {
            pw_transfer_finish(t, result);
        }
    }
}

/* --- Sockets and timers: curl's questions, libuv's answers --- */

void pw_http_one_gone(pw_http *http)
{
    if (--http->open_handles > 0 || !http->torn_down) {
        return;
    }
    void (*closed)(void *) = http->closed;
    void *ctx = http->closed_ctx;
    if (http->curl) {
        http->curl->global_cleanup();
    }
    release(http, http, sizeof *http);
    if (closed) {
        closed(ctx);
    }
}

static void on_watch_closed(uv_handle_t *handle)
{
    watch *w = handle->data;
    pw_http *http = w->http;
    release(http, w, sizeof *w);
    pw_http_one_gone(http);
}

static void on_timer_closed(uv_handle_t *handle)
{
    pw_http_one_gone(handle->data);
}

static void close_watch(watch *w)
{
    pw_http *http = w->http;
    if (w->prev) {
        w->prev->next = w->next;
    } else {
        http->watches = w->next;
    }
    if (w->next) {
        w->next->prev = w->prev;
    }
    (void)uv_poll_stop(&w->poll);
    uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static void on_readiness(uv_poll_t *poll, int status, int events)
{
    const watch *w = poll->data;
    pw_http *http = w->http;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;
    flags |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    flags |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    int running = 0;
    (void)http->curl->multi_socket_action(http->multi, w->socket, flags, &running);
    collect_finished(http);
}

static void on_soon(uv_timer_t *timer);

static void ask_soon(pw_http *http)
{
    (void)uv_timer_start(&http->soon, on_soon, 0, 0);
}

static watch *new_watch(pw_http *http, curl_socket_t socket)
{
    watch *w = allocate(http, sizeof *w);
    if (!w) {
        return NULL;
    }
    *w = (watch){.http = http, .socket = socket};
    if (uv_poll_init_socket(http->loop, &w->poll, socket) != 0) {
        release(http, w, sizeof *w);
        return NULL;
    }
    w->poll.data = w;
    w->next = http->watches;
    if (w->next) {
        w->next->prev = w;
    }
    http->watches = w;
    http->open_handles++;
    return w;
}

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *ctx, void *socket_ctx)
{
    pw_http *http = ctx;
    watch *w = socket_ctx;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            (void)http->curl->multi_assign(http->multi, socket, NULL);
            close_watch(w);
        }
        return 0;
    }
    w = w ? w : new_watch(http, socket);
    if (w) {
        const int events =
            (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
        (void)http->curl->multi_assign(http->multi, socket, w);
        if (uv_poll_start(&w->poll, events, on_readiness) == 0) {
            return 0;
        }
    }
    /* Saying -1 would end every transfer: only this one cannot go on. */
    pw_transfer *t = NULL;
    if (http->curl->easy_getinfo(easy, CURLINFO_PRIVATE, &t) == CURLE_OK && t) {
        t->mark = "no_memory";
        ask_soon(http);
    }
    return 0;
}

static void on_time(uv_timer_t *timer)
{
    pw_http *http = timer->data;
    int running = 0;
    (void)http->curl->multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect_finished(http);
}

static int on_timer_asked(CURLM *multi, long wait_ms, void *ctx)
{
    pw_http *http = ctx;
    (void)multi;
    if (http->torn_down) {
        return 0;
    }
    if (wait_ms < 0) {
        (void)uv_timer_stop(&http->timer);
    } else {
        (void)uv_timer_start(&http->timer, on_time, (uint64_t)wait_ms, 0);
    }
    return 0;
}

static void tear_down(pw_http *http)
{
    http->torn_down = true;
    if (http->curl) {
        (void)http->curl->multi_cleanup(http->multi);
    }
    while (http->watches) {
        close_watch(http->watches);
    }
    uv_close((uv_handle_t *)&http->timer, on_timer_closed);
    uv_close((uv_handle_t *)&http->soon, on_timer_closed);
}

static void on_soon(uv_timer_t *timer)
{
    pw_http *http = timer->data;
    for (pw_transfer *t = http->transfers, *next = NULL; t; t = next) {
        next = t->next;
        if (t->mark) {
            pw_transfer_finish(t, CURLE_OK);
        }
    }
    if (http->closing && !http->torn_down) {
        tear_down(http);
    }
}

/* --- One transfer's callbacks --- */

static curl_socket_t on_open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    pw_transfer *t = ctx;
    (void)purpose;
    if (t->guarded && !pw_guard_allows(&address->addr, t->allow)) {
        pw_guarded_forbid(t);
        return CURL_SOCKET_BAD;
    }
    int type = address->socktype;
#ifdef SOCK_CLOEXEC
    type |= SOCK_CLOEXEC; /* from birth: no tool inherits it */
#endif
    const int fd = socket(address->family, type, address->protocol);
#ifndef SOCK_CLOEXEC
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
#endif
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static size_t on_read(char *to, size_t size, size_t count, void *ctx)
{
    pw_transfer *t = ctx;
    size_t room = size * count, given = 0, begin = 0;
    if (t->mark) { /* after an abort the caller's bytes are not looked at */
        return CURL_READFUNC_ABORT;
    }
    for (size_t i = 0; i < 3 && given < room; i++) {
        const size_t end = begin + t->body[i].len;
        if (t->body_sent < end) {
            const size_t from = t->body_sent - begin, left = end - t->body_sent;
            const size_t piece = left < room - given ? left : room - given;
            memcpy(to + given, t->body[i].ptr + from, piece);
            given += piece;
            t->body_sent += piece;
        }
        begin = end;
    }
    return given;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    pw_transfer *t = ctx;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->body_size) {
        return CURL_SEEKFUNC_CANTSEEK;
    }
    t->body_sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool keep_header(pw_transfer *t, pw_str line)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    if (!colon) {
        return true;
    }
    t->head_bytes += line.len;
    if (t->head_count == HEAD_LINES_MAX || t->head_bytes > HEAD_BYTES_MAX) {
        t->mark = "too_large";
        return false;
    }
    if (!t->head && !(t->head = PW_NEW_ARRAY(&t->arena, pw_header, HEAD_LINES_MAX))) {
        t->mark = "no_memory";
        return false;
    }
    const size_t at = (size_t)(colon - line.ptr);
    pw_header *header = &t->head[t->head_count];
    if (pw_arena_dup(&t->arena, pw_str_slice(line, 0, at), &header->name) != PW_OK ||
        pw_arena_dup(&t->arena, pw_str_trim(pw_str_slice(line, at + 1, line.len)),
                     &header->value) != PW_OK) {
        t->mark = "no_memory";
        return false;
    }
    t->head_count++;
    return true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    pw_transfer *t = ctx;
    const pw_str line = pw_str_trim((pw_str){bytes, size * count});
    if (t->mark) {
        return 0;
    }
    if (t->head_told) {
        return size * count; /* a trailer */
    }
    if (pw_str_begins(line, PW_STR("HTTP/"))) { /* one more head: what was before was a 1xx */
        t->head_count = t->head_bytes = 0;
        return size * count;
    }
    if (line.len > 0) {
        return keep_header(t, line) ? size * count : 0;
    }
    long status = 0;
    (void)t->http->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200) {
        t->status = (int)status;
        t->head_told = true;
        const pw_http_event event = {.kind = PW_HTTP_HEAD,
                                     .call = t->call,
                                     .status = t->status,
                                     .headers = t->head,
                                     .header_count = t->head_count};
        t->http->handler(t->http->ctx, &event);
        pw_arena_free(&t->arena);
        t->head = NULL;
        t->head_count = 0;
    }
    return size * count;
}

static size_t on_write(char *bytes, size_t size, size_t count, void *ctx)
{
    pw_transfer *t = ctx;
    const size_t length = size * count;
    if (t->mark) {
        return 0;
    }
    if (length > t->limit - t->received) {
        t->mark = "too_large";
        return 0;
    }
    t->received += length;
    if (length > 0) {
        const pw_http_event event = {
            .kind = PW_HTTP_BYTES, .call = t->call, .status = t->status, .bytes = {bytes, length}};
        t->http->handler(t->http->ctx, &event);
    }
    return length;
}

/* --- Starting --- */

static bool put_header(pw_transfer *t, pw_arena *scratch, pw_str name, pw_str value)
{
    pw_buffer line;
    pw_buffer_init_arena(&line, scratch, HEAD_BYTES_MAX);
    (void)pw_buffer_add(&line, name);
    (void)pw_buffer_add(&line, value.len > 0 ? PW_STR(": ") : PW_STR(";"));
    (void)pw_buffer_add(&line, value);
    if (line.failed != PW_OK) {
        return false;
    }
    struct curl_slist *list = t->http->curl->slist_append(t->headers, line.ptr);
    if (!list) {
        return false;
    }
    t->headers = list;
    return true;
}

#define SET(option, value)                                                                         \
    (result = result == CURLE_OK ? t->http->curl->easy_setopt(t->easy, option, value) : result)

static CURLcode set_body(pw_transfer *t, const char *method)
{
    CURLcode result = CURLE_OK;
    if (t->body_size > 0 || pw_str_is(pw_str_from(method), "POST")) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body_size);
        SET(CURLOPT_READFUNCTION, on_read);
        SET(CURLOPT_READDATA, t);
        SET(CURLOPT_SEEKFUNCTION, on_seek);
        SET(CURLOPT_SEEKDATA, t);
        SET(CURLOPT_UPLOAD_BUFFERSIZE, SEND_BUFFER);
    }
    if (!pw_str_is(pw_str_from(method), "POST") && !pw_str_is(pw_str_from(method), "GET")) {
        SET(CURLOPT_CUSTOMREQUEST, method);
    }
    return result;
}

static CURLcode set_connection(pw_transfer *t, const pw_http_limits *limits)
{
    CURLcode result = CURLE_OK;
    const int64_t connect_ms =
        limits && limits->connect_ms > 0 ? limits->connect_ms : PW_HTTP_CONNECT_MS;
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, ""); /* what the environment says of proxies is not asked */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, 30L);
    SET(CURLOPT_TCP_KEEPINTVL, 15L);
    SET(CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    if (limits && limits->total_ms > 0) {
        SET(CURLOPT_TIMEOUT_MS, (long)limits->total_ms);
    }
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, t);
    if (t->guarded) {
        SET(CURLOPT_FRESH_CONNECT, 1L);
        SET(CURLOPT_FORBID_REUSE, 1L);
    }
    return result;
}

static CURLcode set_answer(pw_transfer *t)
{
    CURLcode result = CURLE_OK;
    SET(CURLOPT_PRIVATE, t);
    SET(CURLOPT_ERRORBUFFER, t->words);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_WRITEFUNCTION, on_write);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HTTPHEADER, t->headers);
    SET(CURLOPT_USERAGENT, "pawl");
    return result;
}

static pw_status prepare(pw_transfer *t, const pw_http_request *request,
                         const pw_http_limits *limits, pw_arena *scratch)
{
    pw_str url = PW_STR_NONE, method = PW_STR_NONE;
    bool ok = pw_arena_dup(scratch, request->url, &url) == PW_OK &&
              pw_arena_dup(scratch, request->method, &method) == PW_OK;
    for (size_t i = 0; ok && i < request->header_count; i++) {
        ok = put_header(t, scratch, request->headers[i].name, request->headers[i].value);
    }
    struct curl_slist *list = ok ? t->http->curl->slist_append(t->headers, "Expect:") : NULL;
    if (!list) {
        return PW_NOMEM;
    }
    t->headers = list;
    t->easy = t->http->curl->easy_init();
    if (!t->easy) {
        return PW_NOMEM;
    }
    CURLcode result = set_connection(t, limits);
    result = result == CURLE_OK ? set_body(t, method.ptr) : result;
    result = result == CURLE_OK ? set_answer(t) : result;
    result =
        result == CURLE_OK ? t->http->curl->easy_setopt(t->easy, CURLOPT_URL, url.ptr) : result;
    return result == CURLE_OK ? PW_OK : result == CURLE_OUT_OF_MEMORY ? PW_NOMEM : PW_UNSUPPORTED;
}

/* Once, before the first transfer: who never calls out never loads libcurl. */
static pw_status begin_curl(pw_http *http, pw_error *error)
{
    const pw_curl *curl = pw_curl_load(error);
    if (!curl) {
        return PW_UNAVAILABLE;
    }
    if (curl->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return PW_FAIL(error, PW_UNAVAILABLE, "unavailable: libcurl does not start");
    }
    CURLM *multi = curl->multi_init();
    if (!multi) {
        curl->global_cleanup();
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    (void)curl->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl->multi_setopt(multi, CURLMOPT_SOCKETDATA, http);
    (void)curl->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer_asked);
    (void)curl->multi_setopt(multi, CURLMOPT_TIMERDATA, http);
    (void)curl->multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    (void)curl->multi_setopt(multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
    http->curl = curl;
    http->multi = multi;
    return PW_OK;
}

static void join(pw_http *http, pw_transfer *t)
{
    t->next = http->transfers;
    if (t->next) {
        t->next->prev = t;
    }
    http->transfers = t;
}

static pw_status begin(pw_transfer *t, const pw_http_request *request, const pw_http_limits *limits)
{
    pw_http *http = t->http;
    pw_arena scratch;
    pw_arena_init(&scratch, http->allocator, 0, 0);
    const pw_status status = prepare(t, request, limits, &scratch);
    pw_arena_free(&scratch);
    PW_TRY(status);
    if (t->guarded) {
        PW_TRY(pw_guarded_look_up(t, limits));
        join(http, t);
        return PW_OK;
    }
    join(http, t);
    const CURLMcode added = http->curl->multi_add_handle(http->multi, t->easy);
    if (added == CURLM_OK) {
        return PW_OK;
    }
    http->transfers = t->next;
    if (t->next) {
        t->next->prev = NULL;
    }
    return added == CURLM_RECURSIVE_API_CALL ? PW_MISUSE : PW_NOMEM;
}

pw_status pw_http_start(pw_http *http, uint64_t call, const pw_http_request *request,
                        const pw_http_limits *limits, pw_error *error)
{
    if (http->closing) {
        return PW_FAIL(error, PW_CLOSED, "the carrier is closing");
    }
    if (!http->curl) {
        PW_TRY(begin_curl(http, error));
    }
    pw_transfer *t = allocate(http, sizeof *t);
    if (!t) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *t = (pw_transfer){.http = http, .call = call};
    pw_arena_init(&t->arena, http->allocator, 0, HEAD_BYTES_MAX * 4);
    t->limit = limits && limits->body_bytes > 0 ? limits->body_bytes : BODY_BYTES_DEFAULT;
    for (size_t i = 0; i < 3; i++) {
        t->body[i] = request->body[i];
        t->body_size += request->body[i].len;
    }
    pw_status status = PW_OK;
    if (limits && limits->guarded) {
        status = pw_guarded_read(t, request, limits, error);
        if (status != PW_OK) {
            free_transfer(t);
            return status;
        }
    }
    status = begin(t, request, limits);
    if (status == PW_OK) {
        return PW_OK;
    }
    free_transfer(t);
    return PW_FAIL(error, status, "the request could not be started");
}

void pw_http_abort(pw_http *http, uint64_t call)
{
    for (pw_transfer *t = http->transfers; t; t = t->next) {
        if (t->call == call && !t->mark) {
            t->mark = "aborted";
            ask_soon(http);
            return;
        }
    }
}

/* --- Life --- */

pw_status pw_http_new(uv_loop_t *loop, const pw_allocator *allocator, pw_http_handler handler,
                      void *ctx, pw_http **ret, pw_error *error)
{
    pw_http *http = allocator->resize(allocator->ctx, NULL, 0, sizeof *http);
    if (!http) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *http = (pw_http){
        .loop = loop, .allocator = allocator, .handler = handler, .ctx = ctx, .open_handles = 2};
    (void)uv_timer_init(loop, &http->timer); /* cannot fail */
    (void)uv_timer_init(loop, &http->soon);
    http->timer.data = http->soon.data = http;
    *ret = http;
    return PW_OK;
}

void pw_http_close(pw_http *http, void (*closed)(void *ctx), void *ctx)
{
    if (!http) {
        return;
    }
    http->closing = true;
    http->closed = closed;
    http->closed_ctx = ctx;
    for (pw_transfer *t = http->transfers; t; t = t->next) {
        t->mark = t->mark ? t->mark : "aborted";
    }
    ask_soon(http);
}
