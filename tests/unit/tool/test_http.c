/*
 * HTTP tools against a small server: what a call ends as, how it is tried again, aborting at every
 * stage, closing with calls under way, and no memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../support/failing_allocator.h"
#include "../support/holds.h"
#include "../support/small_server.h"
#include "base/heap.h"
#include "bench.h"

static small_server server;
static atomic_int asked;

static void respond(int fd, const char *request)
{
    const int n = atomic_fetch_add(&asked, 1);
    if (strstr(request, "POST /ill ") || (strstr(request, "POST /twice ") && n < 2)) {
        small_server_put(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    } else if (strstr(request, "POST /escaped ")) {
        small_server_put(fd, "HTTP/1.1 200 OK\r\n\r\n{\"a\":\"tok\\/en-\\u0074oken\\u003D!\","
                             "\"b\":\"Bearer tok/en-token=\",\"c\":\"\\\\tok\\/en-token\\u003d\","
                             "\"d\":\"tok\\/en-\\u2074oken=\\n\"}");
    } else if (strstr(request, "POST /status/")) {
        char head[80];
        snprintf(head, sizeof head, "HTTP/1.1 %.3s No\r\nContent-Length: 2\r\n\r\nno",
                 strstr(request, "POST /status/") + sizeof "POST /status/" - 1);
        small_server_put(fd, head);
    } else if (strstr(request, "POST /vast504 ")) { /* over the cap of what is kept */
        small_server_put(fd, "HTTP/1.1 504 No\r\nContent-Length: 99999999\r\n\r\n");
        for (int i = 0; i < 9000; i++) {
            char kib[1025];
            memset(kib, 'x', 1024);
            kib[1024] = '\0';
            small_server_put(fd, kib);
        }
    } else if (strstr(request, "POST /wait ")) {
        small_server_put(fd, "HTTP/1.1 429 Slow\r\nRetry-After: 20\r\nContent-Length: 0\r\n\r\n");
    } else if (strstr(request, "POST /hang ")) {
        small_server_wait_gone(fd);
    } else if (strstr(request, "POST /reset ")) {
        small_server_reset(fd);
    } else if (strstr(request, "POST /text ")) {
        small_server_put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n\xff said\n\n");
    } else {
        small_server_put(fd, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"n\":1.0 }");
    }
}

static int begin(void **state)
{
    (void)state;
    return small_server_start(&server, respond) ? 0 : -1;
}

static pw_networks here(void)
{
    static const pw_network loopback = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
                                        128};
    return (pw_networks){&loopback, 1};
}

static void open_bench(bench *b, const pw_allocator *allocator)
{
    atomic_store(&asked, 0);
    bench_open(b, &(pw_tool_host){.allocator = allocator, .outbound = here()});
}

static const pw_tool_declaration *tool(bench *b, const char *path, const char *effects,
                                       const char *more)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"name\":\"web\",\"kind\":\"http\",\"effects\":\"%s\",\"url\":"
             "\"http://127.0.0.1:%d%s\"%s}",
             effects, server.port, path, more);
    const pw_tool_declaration *declaration = bench_tool(b, text);
    assert_int_equal(pw_tool_declaration_check(declaration, NULL), PW_OK);
    return declaration;
}

static void test_ends(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, NULL);
    pw_tool_outcome outcome = bench_run(&b, tool(&b, "/ok", "once", ""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_RESULT);
    assert_text(outcome.json, "{\"n\":1.0 }"); /* byte for byte */
    outcome = bench_run(&b, tool(&b, "/text", "once", ""), "{}");
    assert_text(outcome.json, "\"\xef\xbf\xbd said\"");
    outcome = bench_run(&b, tool(&b, "/ill", "once", ""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_ERROR);
    assert_text(outcome.error_class, "HTTP 503");
    assert_text(outcome.message, "busy");
    outcome = bench_run(&b, tool(&b, "/reset", "once", ""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_ABANDONED);
    assert_int_equal(atomic_load(&asked), 4); /* each once */
    outcome =
        bench_run(&b, tool(&b, "/ok", "once", ",\"headers\":{\"A\":{\"env\":\"NOT_SET\"}}"), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_FATAL);
    assert_text(outcome.message, "headers.A: NOT_SET is not set");
    setenv("BAD_VALUE", "a\r\nX-Injected: yes", 1);
    outcome = bench_run(&b, tool(&b, "/ok", "none", ",\"headers\":{\"A\":{\"env\":\"BAD_VALUE\"}}"),
                        "{}");
    assert_int_equal(outcome.kind, PW_TOOL_FATAL);
    assert_text(outcome.message, "headers.A: what BAD_VALUE holds fits into no header");
    setenv("BAD_SECRET", "whsec_canary", 1);
    outcome =
        bench_run(&b, tool(&b, "/ok", "none", ",\"signing_secret_env\":\"BAD_SECRET\""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_FATAL);
    assert_text(outcome.message, "signing_secret_env: expected a signing secret: whsec_ and the "
                                 "base64 of 16 to 64 bytes");
    bench_close(&b);
}

/* However a server spells it. What is blotted out is still JSON. */
static void test_N3_a_secret_is_blotted_out_of_json_whatever_its_escapes(void **state)
{
    (void)state;
    setenv("ACT_TOKEN", "Bearer tok/en-token=", 1);
    bench b;
    open_bench(&b, NULL);
    const pw_tool_outcome outcome = bench_run(
        &b,
        tool(&b, "/escaped", "none", ",\"headers\":{\"Authorization\":{\"env\":\"ACT_TOKEN\"}}"),
        "{}");
    assert_int_equal(outcome.kind, PW_TOOL_RESULT);
    assert_text(outcome.json, "{\"a\":\"************************!\",\"b\":\"********************\","
                              "\"c\":\"\\\\*******************\","
                              "\"d\":\"tok\\/en-\\u2074oken=\\n\"}");
    bench_close(&b);
}

/* Who stands between and gave up does not know what the server did. */
static void test_D4_once_and_an_answer_that_says_nothing_of_the_effect(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        bool unknown;
    } cases[] = {{"/status/408", true},  {"/status/502", true},  {"/status/504", true},
                 {"/status/400", false}, {"/status/425", false}, {"/status/429", false},
                 {"/status/500", false}, {"/status/503", false}, {"/vast504", true}};
    bench b;
    open_bench(&b, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pw_tool_outcome outcome = bench_run(&b, tool(&b, cases[i].path, "once", ""), "{}");
        assert_int_equal(outcome.kind, cases[i].unknown ? PW_TOOL_ABANDONED : PW_TOOL_ERROR);
        assert_int_equal(atomic_load(&asked), (int)i + 1); /* each once */
    }
    const pw_tool_outcome outcome =
        bench_run(&b, tool(&b, "/status/502", "none", ",\"limit_ms\":200"), "{}");
    assert_true(outcome.kind == PW_TOOL_ERROR ||
                outcome.limit_passed); /* nothing to be unsure of */
    bench_close(&b);
}

static void test_what_may_pass_is_tried_again(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, NULL);
    pw_tool_outcome outcome = bench_run(&b, tool(&b, "/twice", "idempotent", ""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_RESULT);
    assert_int_equal(atomic_load(&asked), 3);
    outcome = bench_run(&b, tool(&b, "/reset", "none", ""), "{}");
    assert_int_equal(outcome.kind, PW_TOOL_ERROR);
    assert_text(outcome.error_class, "Connection");
    assert_int_equal(atomic_load(&asked), 7); /* four tries */
    outcome = bench_run(&b, tool(&b, "/wait", "none", ",\"limit_ms\":15000"), "{}");
    assert_text(outcome.error_class, "HTTP 429"); /* its time does not fit: told at once */
    assert_int_equal(atomic_load(&asked), 8);
    bench_close(&b);
}

static bool has_asked(bench *b)
{
    (void)b;
    return atomic_load(&asked) > 0;
}

static void test_aborted_at_every_stage(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, NULL);
    uint64_t call = 0;
    const pw_tool_declaration *hang = tool(&b, "/hang", "once", "");
    assert_int_equal(bench_start(&b, hang, "{}", &call, NULL), PW_OK); /* looking up */
    pw_tool_abort(b.runner, call, false);
    pw_tool_abort(b.runner, call, false);
    assert_true(bench_wait(&b, 1, 10000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    assert_false(b.ends[call].outcome.limit_passed);
    atomic_store(&asked, 0);
    assert_int_equal(bench_start(&b, hang, "{}", &call, NULL), PW_OK); /* sent, no answer */
    while (!has_asked(&b)) {
        uv_run(&b.loop, UV_RUN_NOWAIT);
    }
    pw_tool_abort(b.runner, call, true);
    assert_true(bench_wait(&b, 2, 10000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    assert_true(b.ends[call].outcome.limit_passed);
    assert_int_equal(bench_start(&b, tool(&b, "/wait", "none", ""), "{}", &call, NULL), PW_OK);
    assert_false(bench_wait(&b, 3, 300)); /* waits to be tried again, in 20 s */
    pw_tool_abort(b.runner, call, true);
    assert_true(bench_wait(&b, 3, 10000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    pw_tool_abort(b.runner, call, true);
    bench_close(&b);
}

static void test_closing_with_calls_under_way(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, NULL);
    uint64_t call = 0;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(bench_start(&b, tool(&b, "/hang", "once", ""), "{}", &call, NULL), PW_OK);
        assert_int_equal(bench_start(&b, tool(&b, "/wait", "none", ""), "{}", &call, NULL), PW_OK);
    }
    assert_false(bench_wait(&b, 16, 100));
    bench_close(&b); /* each is told, and nothing is left */
    assert_int_equal(b.ended, 16);
}

static void test_failed_allocations(void **state)
{
    (void)state;
    setenv("ACT_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 1);
    setenv("ACT_TOKEN", "Bearer token-token", 1);
    static const char more[] = ",\"signing_secret_env\":\"ACT_SECRET\",\"headers\":{"
                               "\"Authorization\":{\"env\":\"ACT_TOKEN\"}}";
    static const char *const paths[] = {"/ok", "/text", "/ill"};
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t at = 1;; at++) {
            pw_test_allocator memory;
            pw_test_allocator_init(&memory);
            bench b;
            open_bench(&b, &memory.allocator);
            const pw_tool_declaration *declaration = tool(&b, paths[i], "once", more);
            uint64_t call = 0;
            pw_test_allocator_fail(&memory, at, false);
            const pw_status status = bench_start(&b, declaration, "{\"a\":1}", &call, NULL);
            if (status == PW_OK) {
                assert_true(bench_wait(&b, 1, 20000));
            } else {
                assert_int_equal(status, PW_NOMEM);
            }
            const bool last = memory.failed == 0;
            pw_test_allocator_fail(&memory, 0, false);
            bench_close(&b);
            assert_int_equal(memory.live_bytes, 0);
            if (last) {
                assert_int_equal(b.ends[call].outcome.kind,
                                 i == 2 ? PW_TOOL_ERROR : PW_TOOL_RESULT);
                assert_true(at > 6);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_N3_a_secret_is_blotted_out_of_json_whatever_its_escapes),
        cmocka_unit_test(test_D4_once_and_an_answer_that_says_nothing_of_the_effect),
        cmocka_unit_test(test_what_may_pass_is_tried_again),
        cmocka_unit_test(test_aborted_at_every_stage),
        cmocka_unit_test(test_closing_with_calls_under_way),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
