/*
 * The carrier of requests against a small server in a thread: what arrives, in what pieces, how a
 * transfer breaks, aborting, reuse, and many at once. The server's behaviour is the request's path.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/failing_allocator.h"
#include "../support/holds.h"
#include "net/http.h"

/* --- The server --- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int listener, port;
    int accepted, open, holding, hold_for;
} server = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool put(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool put_text(int fd, const char *text)
{
    return put(fd, text, strlen(text));
}

/* One request: its head in `head`, its body in a new block. False: the client is gone. */
static bool take_request(int fd, char *head, size_t head_size, char **ret_body, size_t *ret_size)
{
    size_t used = 0;
    while (used < 4 || memcmp(head + used - 4, "\r\n\r\n", 4) != 0) {
        if (used + 1 == head_size || recv(fd, head + used, 1, 0) != 1) {
            return false;
        }
        used++;
    }
    head[used] = '\0';
    const char *length = strcasestr(head, "content-length:");
    *ret_size = length ? strtoul(length + 15, NULL, 10) : 0;
    *ret_body = malloc(*ret_size + 1);
    for (size_t at = 0; at < *ret_size;) {
        const ssize_t got = recv(fd, *ret_body + at, *ret_size - at, 0);
        if (got <= 0) {
            free(*ret_body);
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

static void put_reset(int fd)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

#define CHUNKED                                                                                    \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

/* Until all the expected ones are here; then everybody goes on. */
static void hold(void)
{
    pthread_mutex_lock(&server.lock);
    server.holding++;
    pthread_cond_broadcast(&server.changed);
    while (server.holding < server.hold_for) {
        pthread_cond_wait(&server.changed, &server.lock);
    }
    pthread_mutex_unlock(&server.lock);
}

static bool put_huge(int fd)
{
    static char block[65536];
    bool ok = put_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    for (int i = 0; ok && i < 16000; i++) {
        ok = put(fd, block, sizeof block);
    }
    return false;
}

/* True: the connection may carry another request. */
static bool respond(int fd, const char *head, const char *body, size_t size)
{
    char line[256], byte = 0;
    if (strstr(head, " /echo ")) {
        snprintf(line, sizeof line, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                 size + strlen(head));
        return put_text(fd, line) && put(fd, head, strlen(head)) && put(fd, body, size);
    }
    if (strstr(head, " /chunked ")) {
        return put_text(fd, CHUNKED "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n");
    }
    if (strstr(head, " /seven ")) {
        static const char whole[] =
            "HTTP/1.1 100 Continue\r\n\r\n" CHUNKED "b\r\nhello world\r\n0\r\n\r\n";
        for (size_t i = 0; i < sizeof whole - 1; i += 7) {
            if (!put(fd, whole + i, sizeof whole - 1 - i < 7 ? sizeof whole - 1 - i : 7)) {
                return false;
            }
            usleep(300);
        }
        return true;
    }
    if (strstr(head, " /error ")) {
        return put_text(fd, "HTTP/1.1 529 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy");
    }
    if (strstr(head, " /redirect ")) {
        return put_text(fd, "HTTP/1.1 302 Found\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n");
    }
    if (strstr(head, " /early ")) {
        put_text(fd, CHUNKED "5\r\nhel");
        return false;
    }
    if (strstr(head, " /reset ")) {
        put_reset(fd);
        return false;
    }
    if (strstr(head, " /reset_later ")) {
        put_text(fd, CHUNKED "5\r\nhello\r\n");
        usleep(20000);
        put_reset(fd);
        return false;
    }
    if (strstr(head, " /once ")) { /* leaves without saying so */
        put_text(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        return false;
    }
    if (strstr(head, " /huge ")) {
        return put_huge(fd);
    }
    if (strstr(head, " /headers ")) {
        bool ok = put_text(fd, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; ok && i < 400; i++) {
            ok = put_text(fd, "X-Many: of them\r\n");
        }
        return ok && put_text(fd, "Content-Length: 0\r\n\r\n");
    }
    if (strstr(head, " /stall ")) {
        put_text(fd, CHUNKED "5\r\nhello\r\n");
        (void)!recv(fd, &byte, 1, 0); /* until the client goes */
        return false;
    }
    if (strstr(head, " /hold ")) {
        hold();
        return put_text(fd, CHUNKED "5\r\nhello\r\n0\r\n\r\n");
    }
    return false;
}

static void *serve_one(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char head[8192], *body = NULL;
    size_t size = 0;
    bool more = true;
    while (more && take_request(fd, head, sizeof head, &body, &size)) {
        more = respond(fd, head, body, size);
        free(body);
    }
    close(fd);
    pthread_mutex_lock(&server.lock);
    server.open--;
    pthread_cond_broadcast(&server.changed);
    pthread_mutex_unlock(&server.lock);
    return NULL;
}

static void *serve(void *arg)
{
    pthread_attr_t small;
    (void)arg;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    for (;;) {
        const int fd = accept(server.listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        const int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_mutex_lock(&server.lock);
        server.accepted++;
        server.open++;
        pthread_mutex_unlock(&server.lock);
        pthread_t thread;
        if (pthread_create(&thread, &small, serve_one, (void *)(intptr_t)fd) != 0) {
            close(fd);
        }
    }
}

static int start_server(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    if (bind(server.listener, (struct sockaddr *)&address, size) != 0 ||
        listen(server.listener, 1024) != 0 ||
        getsockname(server.listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, serve, NULL) != 0) {
        return -1;
    }
    server.port = ntohs(address.sin_port);
    return 0;
}

/* --- The client --- */

typedef struct outcome {
    int heads, ends, status;
    size_t pieces, size;
    char text[1 << 13];
    char code[32], message[300], header[64];
} outcome;

typedef struct client {
    uv_loop_t loop;
    pw_test_allocator memory;
    pw_http *http;
    outcome *outcomes; /* by call */
    size_t count, ended;
    uint64_t abort_on_bytes; /* a call to abort once its first bytes came */
    uv_timer_t later;
    bool closed;
} client;

static void on_later(uv_timer_t *timer)
{
    client *c = timer->data;
    pw_http_abort(c->http, c->abort_on_bytes);
}

static void on_event(void *ctx, const pw_http_event *event)
{
    client *c = ctx;
    outcome *o = &c->outcomes[event->call];
    assert_int_equal(o->ends, 0); /* nothing after the end */
    switch (event->kind) {
    case PW_HTTP_HEAD:
        o->heads++;
        o->status = event->status;
        for (size_t i = 0; i < event->header_count; i++) {
            if (pw_str_is(event->headers[i].name, "Retry-After")) {
                snprintf(o->header, sizeof o->header, "%.*s", PW_STR_ARG(event->headers[i].value));
            }
        }
        break;
    case PW_HTTP_BYTES:
        assert_int_equal(o->heads, 1);
        o->pieces++;
        if (o->size + event->bytes.len < sizeof o->text) {
            memcpy(o->text + o->size, event->bytes.ptr, event->bytes.len);
        }
        o->size += event->bytes.len;
        if (c->abort_on_bytes && c->abort_on_bytes == event->call) {
            uv_timer_start(&c->later, on_later, 0, 0);
        }
        break;
    case PW_HTTP_END:
    case PW_HTTP_BROKEN:
        o->ends++;
        c->ended++;
        snprintf(o->code, sizeof o->code, "%s", event->code ? event->code : "end");
        snprintf(o->message, sizeof o->message, "%.*s", PW_STR_ARG(event->message));
        break;
    }
}

static void client_init(client *c, size_t count)
{
    memset(c, 0, sizeof *c);
    c->outcomes = calloc(count + 1, sizeof *c->outcomes);
    c->count = count;
    assert_int_equal(uv_loop_init(&c->loop), 0);
    pw_test_allocator_init(&c->memory);
    uv_timer_init(&c->loop, &c->later);
    c->later.data = c;
    assert_int_equal(pw_http_new(&c->loop, &c->memory.allocator, on_event, c, &c->http, NULL),
                     PW_OK);
}

static void on_closed(void *ctx)
{
    client *c = ctx;
    c->closed = true;
}

static void client_free(client *c)
{
    pw_http_close(c->http, on_closed, c);
    uv_close((uv_handle_t *)&c->later, NULL);
    assert_int_equal(uv_run(&c->loop, UV_RUN_DEFAULT), 0);
    assert_true(c->closed);
    assert_int_equal(uv_loop_close(&c->loop), 0);
    assert_int_equal(c->memory.live_bytes, 0);
    free(c->outcomes);
}

static pw_status start(client *c, uint64_t call, const char *path, const pw_http_limits *limits)
{
    char url[200];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", server.port, path);
    const pw_header headers[] = {{PW_STR_INIT("x-api-key"), PW_STR_INIT("canary")},
                                 {PW_STR_INIT("content-type"), PW_STR_INIT("application/json")}};
    const pw_http_request request = {
        .method = PW_STR_INIT("POST"),
        .url = pw_str_from(url),
        .headers = headers,
        .header_count = 2,
        .body = {PW_STR_INIT("{\"a\":["), PW_STR_INIT("1,2"), PW_STR_INIT("]}")}};
    return pw_http_start(c->http, call, &request, limits, NULL);
}

static outcome *run_one(client *c, uint64_t call, const char *path, const pw_http_limits *limits)
{
    assert_int_equal(start(c, call, path, limits), PW_OK);
    while (c->outcomes[call].ends == 0) {
        uv_run(&c->loop, UV_RUN_ONCE);
    }
    assert_int_equal(c->outcomes[call].ends, 1);
    assert_lacks(c->outcomes[call].message, "canary");
    return &c->outcomes[call];
}

static void test_a_request_arrives_whole(void **state)
{
    (void)state;
    client c;
    client_init(&c, 8);
    const outcome *o = run_one(&c, 1, "/echo", NULL);
    assert_string_equal(o->code, "end");
    assert_int_equal(o->status, 200);
    assert_holds(o->text, "POST /echo HTTP/1.1\r\n");
    assert_holds(o->text, "x-api-key: canary\r\n");
    assert_holds(o->text, "content-type: application/json\r\n");
    assert_holds(o->text, "Content-Length: 11\r\n");
    assert_holds(o->text, "\r\n\r\n{\"a\":[1,2]}");
    assert_lacks(o->text, "Expect");
    client_free(&c);
}

static void test_a_large_body_arrives_whole(void **state)
{
    (void)state;
    client c;
    client_init(&c, 2);
    const size_t sizes[] = {100000, 3000000, 70001};
    pw_http_request request = {.method = PW_STR_INIT("POST")};
    size_t total = 0;
    for (size_t i = 0; i < 3; i++) {
        char *bytes = malloc(sizes[i]);
        memset(bytes, 'a' + (int)i, sizes[i]);
        request.body[i] = (pw_str){bytes, sizes[i]};
        total += sizes[i];
    }
    char url[100];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/echo", server.port);
    request.url = pw_str_from(url);
    assert_int_equal(pw_http_start(c.http, 1, &request, NULL, NULL), PW_OK);
    while (c.ended == 0) {
        uv_run(&c.loop, UV_RUN_ONCE);
    }
    assert_string_equal(c.outcomes[1].code, "end");
    assert_in_range(c.outcomes[1].size, total + 50, total + 500);
    for (size_t i = 0; i < 3; i++) {
        free((void *)(uintptr_t)request.body[i].ptr);
    }
    client_free(&c);
}

static void test_answers(void **state)
{
    (void)state;
    client c;
    client_init(&c, 8);
    const outcome *o = run_one(&c, 1, "/chunked", NULL);
    assert_string_equal(o->code, "end");
    assert_string_equal(o->text, "hello world");
    assert_int_equal(o->heads, 1);
    o = run_one(&c, 2, "/seven", NULL); /* with a 100 before it */
    assert_string_equal(o->code, "end");
    assert_string_equal(o->text, "hello world");
    assert_int_equal(o->heads, 1);
    o = run_one(&c, 3, "/error", NULL);
    assert_string_equal(o->code, "end");
    assert_int_equal(o->status, 529);
    assert_string_equal(o->header, "7");
    assert_string_equal(o->text, "busy");
    o = run_one(&c, 4, "/redirect", NULL); /* not followed */
    assert_string_equal(o->code, "end");
    assert_int_equal(o->status, 302);
    client_free(&c);
}

static void test_broken_transfers(void **state)
{
    (void)state;
    client c;
    client_init(&c, 8);
    outcome *o = run_one(&c, 1, "/early", NULL);
    assert_string_equal(o->code, "cut_off");
    assert_string_equal(o->text, "hel");
    o = run_one(&c, 2, "/reset", NULL);
    assert_string_equal(o->code, "reset");
    assert_int_equal(o->heads, 0);
    o = run_one(&c, 3, "/reset_later", NULL);
    assert_string_equal(o->code, "cut_off");
    assert_string_equal(o->text, "hello");
    const pw_http_limits soon = {.total_ms = 50};
    o = run_one(&c, 4, "/stall", &soon);
    assert_string_equal(o->code, "timeout");
    const int port = server.port;
    server.port = 1; /* nobody listens */
    o = run_one(&c, 5, "/echo?key=secret", NULL);
    server.port = port;
    assert_string_equal(o->code, "connect");
    assert_lacks(o->message, "secret");
    client_free(&c);
}

static void test_caps(void **state)
{
    (void)state;
    client c;
    client_init(&c, 8);
    const pw_http_limits small = {.body_bytes = 100000};
    outcome *o = run_one(&c, 1, "/huge", &small);
    assert_string_equal(o->code, "too_large");
    assert_in_range(o->size, 80000, 100000);
    o = run_one(&c, 2, "/headers", NULL);
    assert_string_equal(o->code, "too_large");
    assert_int_equal(o->heads, 0);
    client_free(&c);
}

static void test_bad_urls(void **state)
{
    (void)state;
    const char *const urls[] = {"file:///etc/hostname", "http://", "http://127.0.0.1:99999/",
                                "ftp://127.0.0.1/x"};
    client c;
    client_init(&c, 8);
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const pw_http_request request = {.method = PW_STR_INIT("POST"),
                                         .url = pw_str_from(urls[i])};
        if (pw_http_start(c.http, i, &request, NULL, NULL) == PW_OK) {
            while (c.outcomes[i].ends == 0) {
                uv_run(&c.loop, UV_RUN_ONCE);
            }
            assert_string_equal(c.outcomes[i].code, "url");
            assert_int_equal(c.outcomes[i].size, 0);
        }
    }
    client_free(&c);
}

static void test_abort(void **state)
{
    (void)state;
    client c;
    client_init(&c, 8);
    c.abort_on_bytes = 1;
    outcome *o = run_one(&c, 1, "/stall", NULL);
    assert_string_equal(o->code, "aborted");
    assert_string_equal(o->text, "hello");
    assert_int_equal(start(&c, 2, "/stall", NULL), PW_OK);
    pw_http_abort(c.http,
                  2); /* before anything happened: not at once, but on the loop's next turn */
    assert_int_equal(c.outcomes[2].ends, 0);
    pw_http_abort(c.http, 2);
    pw_http_abort(c.http, 77);
    uv_run(&c.loop, UV_RUN_ONCE);
    assert_string_equal(c.outcomes[2].code, "aborted");
    pw_http_abort(c.http, 2); /* over already */
    o = run_one(&c, 3, "/chunked", NULL);
    assert_string_equal(o->code, "end");
    client_free(&c);
}

static void test_closing_ends_all(void **state)
{
    (void)state;
    client c;
    client_init(&c, 50);
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(start(&c, i, "/stall", NULL), PW_OK);
    }
    while (c.outcomes[49].size == 0) {
        uv_run(&c.loop, UV_RUN_ONCE);
    }
    pw_http_close(c.http, on_closed, &c);
    assert_int_equal(start(&c, 0, "/stall", NULL), PW_CLOSED);
    uv_close((uv_handle_t *)&c.later, NULL);
    uv_run(&c.loop, UV_RUN_DEFAULT);
    assert_true(c.closed);
    assert_int_equal(c.ended, 50);
    assert_int_equal(uv_loop_close(&c.loop), 0);
    assert_int_equal(c.memory.live_bytes, 0);
    free(c.outcomes);
}

static int accepted(void)
{
    pthread_mutex_lock(&server.lock);
    const int count = server.accepted;
    pthread_mutex_unlock(&server.lock);
    return count;
}

static void test_connections_are_reused(void **state)
{
    (void)state;
    client c;
    client_init(&c, 20);
    const int before = accepted();
    for (uint64_t i = 0; i < 10; i++) {
        assert_string_equal(run_one(&c, i, i % 2 ? "/echo" : "/chunked", NULL)->code, "end");
    }
    assert_int_equal(accepted() - before, 1);
    /* a server that leaves silently: the next request goes over a new connection, body and all */
    for (uint64_t i = 10; i < 15; i++) {
        assert_string_equal(run_one(&c, i, "/once", NULL)->code, "end");
        pthread_mutex_lock(&server.lock);
        while (server.open > 0) { /* it has left; were it leaving just now, this would be a "reset",
                                     tried again above */
            pthread_cond_wait(&server.changed, &server.lock);
        }
        pthread_mutex_unlock(&server.lock);
    }
    assert_holds(run_one(&c, 15, "/echo", NULL)->text, "{\"a\":[1,2]}");
    client_free(&c);
}

static void test_the_environments_proxies_are_not_asked(void **state)
{
    (void)state;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    client c;
    client_init(&c, 2);
    assert_string_equal(run_one(&c, 1, "/echo", NULL)->code, "end");
    client_free(&c);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
}

static size_t resident_bytes(void)
{
    long pages = 0, ignored = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2) {
        pages = 0;
    }
    if (file) {
        fclose(file);
    }
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_500_at_once(void **state)
{
    (void)state;
    const size_t count = 500;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    client c;
    client_init(&c, count);
    server.hold_for = (int)count;
    const size_t before = resident_bytes();
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(start(&c, i, "/hold", NULL), PW_OK);
    }
    while (c.ended < count) {
        uv_run(&c.loop, UV_RUN_ONCE);
    }
    print_message("%zu bytes a transfer, the server's threads included\n",
                  (resident_bytes() - before) / count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(c.outcomes[i].code, "end");
        assert_string_equal(c.outcomes[i].text, "hello");
    }
    client_free(&c);
}

static void test_failed_allocations(void **state)
{
    (void)state;
    for (uint64_t at = 1;; at++) {
        client c;
        client_init(&c, 4);
        pw_test_allocator_fail(&c.memory, at, false);
        if (start(&c, 1, "/chunked", NULL) == PW_OK) {
            while (c.outcomes[1].ends == 0) {
                uv_run(&c.loop, UV_RUN_ONCE);
            }
            if (c.memory.failed == 0) {
                assert_string_equal(c.outcomes[1].code, "end");
            } else if (strcmp(c.outcomes[1].code, "end") != 0) {
                assert_string_equal(c.outcomes[1].code, "no_memory");
            }
        }
        const bool last = c.memory.failed == 0;
        pw_test_allocator_fail(&c.memory, 0, false);
        assert_string_equal(run_one(&c, 2, "/chunked", NULL)->code,
                            "end"); /* and the next one is well */
        client_free(&c);
        if (last) {
            assert_true(at > 3);
            break;
        }
    }
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_test_allocator_fail(&t, 1, false);
    uv_loop_t loop;
    pw_http *http = NULL;
    uv_loop_init(&loop);
    assert_int_equal(pw_http_new(&loop, &t.allocator, on_event, NULL, &http, NULL), PW_NOMEM);
    assert_null(http);
    assert_int_equal(uv_loop_close(&loop), 0);
    pw_http_close(NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_arrives_whole),
        cmocka_unit_test(test_a_large_body_arrives_whole),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_broken_transfers),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_closing_ends_all),
        cmocka_unit_test(test_connections_are_reused),
        cmocka_unit_test(test_the_environments_proxies_are_not_asked),
        cmocka_unit_test(test_500_at_once),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, start_server, NULL);
}
