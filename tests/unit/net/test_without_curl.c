/* What calling out says where libcurl is not installed: this program is built to load one that is
 * not there. */
#include "../support/failing_allocator.h"
#include "../support/holds.h"
#include "net/http.h"

static void on_event(void *ctx, const pw_http_event *event)
{
    (void)ctx;
    (void)event;
    fail_msg("an event of a transfer that was not started");
}

static void on_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void test_a_missing_libcurl_is_unavailable_and_named(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    pw_http *http = NULL;
    assert_int_equal(pw_http_new(&loop, &memory.allocator, on_event, NULL, &http, NULL), PW_OK);
    const pw_http_request request = {.method = PW_STR_INIT("POST"),
                                     .url = PW_STR_INIT("http://127.0.0.1:1/")};
    for (int i = 0; i < 2; i++) {
        pw_error error = {0};
        assert_int_equal(pw_http_start(http, 1, &request, NULL, &error), PW_UNAVAILABLE);
        assert_holds(error.message, "unavailable: libcurl");
        assert_holds(error.message, "libnone-such.so.0");
    }
    pw_http_abort(http, 1);
    bool closed = false;
    pw_http_close(http, on_closed, &closed);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(memory.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_libcurl_is_unavailable_and_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
