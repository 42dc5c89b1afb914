/*
 * Guarded transfers: what is looked up, what is checked, where they connect. The resolver is this
 * file's: its getaddrinfo stands before the C library's for every library of this program, so a
 * second look-up, by whomever, would be seen.
 */
#include "../support/failing_allocator.h"
#include "../support/holds.h"
#include "../support/small_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "net/http.h"

/* --- The resolver --- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls, inside;
    bool blocked;
    const char *answers[4]; /* of each look-up: addresses by commas; NULL: no such name */
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct addrinfo *one(const char *text, size_t len, const char *service)
{
    char copy[64];
    struct addrinfo *info = calloc(1, sizeof *info + sizeof(struct sockaddr_in6));
    struct sockaddr_in *v4 = (void *)(info + 1);
    struct sockaddr_in6 *v6 = (void *)(info + 1);
    snprintf(copy, sizeof copy, "%.*s", (int)len, text);
    info->ai_addr = (void *)(info + 1);
    info->ai_socktype = SOCK_STREAM;
    info->ai_protocol = IPPROTO_TCP;
    if (inet_pton(AF_INET, copy, &v4->sin_addr) == 1) {
        info->ai_family = v4->sin_family = AF_INET;
        info->ai_addrlen = sizeof *v4;
        v4->sin_port = htons((uint16_t)atoi(service));
    } else {
        assert_int_equal(inet_pton(AF_INET6, copy, &v6->sin6_addr), 1);
        info->ai_family = v6->sin6_family = AF_INET6;
        info->ai_addrlen = sizeof *v6;
        v6->sin6_port = htons((uint16_t)atoi(service));
    }
    return info;
}

int getaddrinfo(const char *restrict node, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    (void)node;
    (void)hints;
    pthread_mutex_lock(&resolver.lock);
    const int call = resolver.calls++;
    resolver.inside++;
    pthread_cond_broadcast(&resolver.changed);
    while (resolver.blocked) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    resolver.inside--;
    const char *answer = resolver.answers[call < 3 ? call : 3];
    pthread_mutex_unlock(&resolver.lock);
    struct addrinfo **at = ret;
    *ret = NULL;
    while (answer && *answer) {
        const size_t len = strcspn(answer, ",");
        *at = one(answer, len, service ? service : "0");
        at = &(*at)->ai_next;
        answer += len + (answer[len] == ',');
    }
    return *ret ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *info)
{
    while (info) {
        struct addrinfo *next = info->ai_next;
        free(info);
        info = next;
    }
}

static void answer_with(const char *first, const char *second)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.calls = 0;
    resolver.answers[0] = first;
    resolver.answers[1] = resolver.answers[2] = resolver.answers[3] = second;
    pthread_mutex_unlock(&resolver.lock);
}

static void block(bool on)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.blocked = on;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
}

/* --- The server and the client --- */

static small_server server;

static void respond(int fd, const char *request)
{
    if (strstr(request, " /reset ")) {
        small_server_reset(fd);
        return;
    }
    if (strstr(request, " /cut ")) {
        small_server_put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
        return;
    }
    if (strstr(request, " /junk ")) {
        small_server_put(fd, "\1\2 this is no HTTP\r\n\r\n");
        return;
    }
    char head[600];
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", strlen(request));
    small_server_put(fd, head);
    small_server_put(fd, request);
    if (strstr(request, " /keep ")) { /* it would take more, and never answer it */
        small_server_wait_gone(fd);
    }
}

typedef struct client {
    uv_loop_t loop;
    pw_test_allocator memory;
    pw_http *http;
    pw_networks allow;
    pw_arena arena;
    size_t ended, size;
    bool closed, sent;
    char code[32], message[200], text[2048];
} client;

static void on_event(void *ctx, const pw_http_event *event)
{
    client *c = ctx;
    if (event->kind == PW_HTTP_BYTES && c->size + event->bytes.len < sizeof c->text) {
        memcpy(c->text + c->size, event->bytes.ptr, event->bytes.len);
        c->size += event->bytes.len;
    } else if (event->kind == PW_HTTP_END || event->kind == PW_HTTP_BROKEN) {
        c->ended++;
        c->sent = event->sent;
        snprintf(c->code, sizeof c->code, "%s", event->code ? event->code : "end");
        snprintf(c->message, sizeof c->message, "%.*s", PW_STR_ARG(event->message));
    }
}

static void open_client(client *c, const char *allow)
{
    memset(c, 0, sizeof *c);
    pw_arena_init(&c->arena, &pw_heap, 0, 0);
    assert_int_equal(pw_networks_parse("allow", pw_str_from(allow), &c->arena, &c->allow, NULL),
                     PW_OK);
    assert_int_equal(uv_loop_init(&c->loop), 0);
    pw_test_allocator_init(&c->memory);
    assert_int_equal(pw_http_new(&c->loop, &c->memory.allocator, on_event, c, &c->http, NULL),
                     PW_OK);
}

static void on_closed(void *ctx)
{
    ((client *)ctx)->closed = true;
}

static void close_client(client *c)
{
    pw_http_close(c->http, on_closed, c);
    assert_int_equal(uv_run(&c->loop, UV_RUN_DEFAULT), 0);
    assert_true(c->closed);
    assert_int_equal(uv_loop_close(&c->loop), 0);
    assert_int_equal(c->memory.live_bytes, 0);
    pw_arena_free(&c->arena);
}

static pw_status start(client *c, const char *host, const char *path, int64_t connect_ms)
{
    char url[200];
    snprintf(url, sizeof url, "http://%s:%d%s", host, server.port, path);
    const pw_http_request request = {
        .method = PW_STR_INIT("POST"), .url = pw_str_from(url), .body = {PW_STR_INIT("{}")}};
    const pw_http_limits limits = {
        .connect_ms = connect_ms, .total_ms = 20000, .guarded = true, .allow = &c->allow};
    c->size = c->ended = 0;
    memset(c->text, 0, sizeof c->text);
    return pw_http_start(c->http, 1, &request, &limits, NULL);
}

static void wait_end(client *c)
{
    while (c->ended == 0) {
        uv_run(&c->loop, UV_RUN_ONCE);
    }
    assert_int_equal(c->ended, 1);
}

static const char *go(client *c, const char *host, const char *path)
{
    assert_int_equal(start(c, host, path, 0), PW_OK);
    wait_end(c);
    return c->code;
}

/* --- Tests --- */

static void test_it_is_looked_up_once_and_connected_to_what_was_checked(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    answer_with("127.0.0.1", "127.0.0.2"); /* a second look-up would go elsewhere */
    assert_string_equal(go(&c, "Rebind.example", "/x"), "end");
    assert_int_equal(resolver.calls, 1);
    char host[64];
    snprintf(host, sizeof host, "Host: Rebind.example:%d\r\n", server.port);
    assert_holds(c.text, host);
    close_client(&c);
}

static void test_every_transfer_is_checked_anew_on_a_connection_of_its_own(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    const int before = server.accepted;
    answer_with("127.0.0.1", "10.0.0.1"); /* rebinding between two calls */
    assert_string_equal(go(&c, "rebind.example", "/x"), "end");
    assert_string_equal(go(&c, "rebind.example", "/x"), "forbidden");
    assert_false(c.sent);
    assert_int_equal(resolver.calls, 2);
    answer_with("127.0.0.1", "127.0.0.1");
    assert_string_equal(go(&c, "rebind.example", "/keep"), "end");
    assert_string_equal(go(&c, "rebind.example", "/keep"), "end");
    assert_int_equal(server.accepted - before, 3);
    close_client(&c);
}

static void test_one_bad_address_in_the_answer_is_enough(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    const int before = server.accepted;
    static const char *const answers[] = {"127.0.0.1,127.0.0.2", "127.0.0.2,127.0.0.1",
                                          "127.0.0.1,::1", "::ffff:127.0.0.2", "169.254.169.254"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        answer_with(answers[i], NULL);
        assert_string_equal(go(&c, "both.example", "/x"), "forbidden");
        assert_holds(c.message, "outbound_allow");
    }
    assert_int_equal(server.accepted - before, 0);
    close_client(&c);
}

static void test_the_next_checked_address_is_tried(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.0/8, ::1");
    answer_with("127.0.0.2,127.0.0.1", NULL); /* nobody listens at the first */
    assert_string_equal(go(&c, "two.example", "/x"), "end");
    assert_int_equal(resolver.calls, 1);
    answer_with("::1,127.0.0.1", NULL);
    assert_string_equal(go(&c, "six.example", "/x"), "end");
    close_client(&c);
}

/* curl reads such a host as an address by itself and asks nobody: the socket is what is checked. */
static void test_an_address_that_only_curl_understands_is_caught_at_the_socket(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    const int before = server.accepted;
    answer_with("127.0.0.1", "127.0.0.1"); /* what our look-ups are told */
    static const char *const hosts[] = {"0x7f000002", "2130706434", "0177.0.0.2", "127.2"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        assert_string_equal(go(&c, hosts[i], "/x"), "forbidden");
        assert_false(c.sent);
    }
    assert_int_equal(server.accepted - before, 0);
    close_client(&c);
}

static void test_what_was_sent_is_told(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    answer_with(NULL, "127.0.0.1");
    assert_string_equal(go(&c, "none.example", "/x"), "dns");
    assert_false(c.sent);
    const int port = server.port;
    server.port = 1;
    assert_string_equal(go(&c, "closed.example", "/x"), "connect");
    assert_false(c.sent);
    server.port = port;
    assert_string_equal(go(&c, "a.example", "/reset"), "reset");
    assert_true(c.sent);
    assert_string_equal(go(&c, "a.example", "/cut"), "cut_off");
    assert_true(c.sent);
    assert_string_equal(go(&c, "a.example", "/junk"), "transport");
    assert_true(c.sent);
    close_client(&c);
}

static void wait_inside(int count)
{
    pthread_mutex_lock(&resolver.lock);
    while (resolver.inside < count) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    pthread_mutex_unlock(&resolver.lock);
}

static void test_a_look_up_that_hangs_holds_nothing_up(void **state)
{
    (void)state;
    client c;
    open_client(&c, "127.0.0.1");
    answer_with("127.0.0.1", "127.0.0.1");
    block(true);
    assert_int_equal(start(&c, "slow.example", "/x", 0), PW_OK);
    wait_inside(1);
    pw_http_abort(c.http, 1);
    wait_end(&c);
    assert_string_equal(c.code, "aborted");
    assert_false(c.sent);
    assert_int_equal(start(&c, "slow.example", "/x", 30), PW_OK);
    wait_end(&c);
    assert_string_equal(c.code, "dns");
    assert_holds(c.message, "in time");
    assert_int_equal(start(&c, "slow.example", "/x", 0), PW_OK); /* under way when all is closed */
    pw_http_close(c.http, on_closed, &c);
    uv_run(&c.loop, UV_RUN_NOWAIT);
    uv_run(&c.loop, UV_RUN_NOWAIT);
    assert_string_equal(c.code, "aborted");
    assert_false(c.closed); /* a thread is still at it */
    block(false);
    assert_int_equal(uv_run(&c.loop, UV_RUN_DEFAULT), 0);
    assert_true(c.closed);
    assert_int_equal(uv_loop_close(&c.loop), 0);
    assert_int_equal(c.memory.live_bytes, 0);
    pw_arena_free(&c.arena);
}

static void test_urls_that_are_not_taken(void **state)
{
    (void)state;
    client c;
    open_client(&c, "");
    static const char *const urls[] = {"http://a:b@127.0.0.1/", "file:///etc/passwd",
                                       "http://127.0.0.1\\@a/", "gopher://127.0.0.1/"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        const pw_http_request request = {.method = PW_STR_INIT("POST"),
                                         .url = pw_str_from(urls[i])};
        const pw_http_limits limits = {.guarded = true};
        pw_error error = {0};
        assert_int_equal(pw_http_start(c.http, 1, &request, &limits, &error), PW_INVALID);
        assert_holds(error.message, "url: ");
    }
    close_client(&c);
}

static void test_failed_allocations(void **state)
{
    (void)state;
    answer_with("127.0.0.1", "127.0.0.1");
    for (uint64_t at = 1;; at++) {
        client c;
        open_client(&c, "127.0.0.1");
        pw_test_allocator_fail(&c.memory, at, false);
        if (start(&c, "a.example", "/x", 0) == PW_OK) {
            wait_end(&c);
        }
        const bool last = c.memory.failed == 0;
        assert_true(!last || strcmp(c.code, "end") == 0);
        pw_test_allocator_fail(&c.memory, 0, false);
        assert_string_equal(go(&c, "a.example", "/x"), "end");
        close_client(&c);
        if (last) {
            assert_true(at > 4);
            return;
        }
    }
}

static int begin(void **state)
{
    (void)state;
    return small_server_start(&server, respond) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_looked_up_once_and_connected_to_what_was_checked),
        cmocka_unit_test(test_every_transfer_is_checked_anew_on_a_connection_of_its_own),
        cmocka_unit_test(test_one_bad_address_in_the_answer_is_enough),
        cmocka_unit_test(test_the_next_checked_address_is_tried),
        cmocka_unit_test(test_an_address_that_only_curl_understands_is_caught_at_the_socket),
        cmocka_unit_test(test_what_was_sent_is_told),
        cmocka_unit_test(test_a_look_up_that_hangs_holds_nothing_up),
        cmocka_unit_test(test_urls_that_are_not_taken),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
