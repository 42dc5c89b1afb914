/* A turn on a machine without libcurl: this program is built to load one that is not there. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* What is not installed does not come by waiting: no try is spent on it, and the reason is named.
 */
static void test_F5_a_missing_libcurl_fails_the_turn_at_once(void **state)
{
    bench b;
    bench_begin(&b, *state);
    bench_open(&b);
    static const char agent[] = "{\"model\":{\"provider\":\"anthropic\",\"name\":\"claude-x\","
                                "\"base_url\":\"http://127.0.0.1:1\"}}";
    assert_int_equal(pawl_agent_add(b.p, S("default"), bench_str(agent), NULL), PAWL_OK);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "go"), PAWL_OK);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "failed");
    bench_expect(doc, "reason", "model");
    bench_expect(doc, "usage.retries", "0");
    assert_non_null(strstr(bench_get(doc, "detail"), "libnone-such.so.0"));
    pawl_doc_free(doc);
    bench_end(&b);
}

int main(void)
{
    unsetenv("ANTHROPIC_API_KEY");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_F5_a_missing_libcurl_fails_the_turn_at_once, "memory"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
