/* A runner on a loop of its own, and what its calls ended with. Everything is checked at the end:
 * each call told once, nothing left. */
#ifndef PW_TEST_TOOL_BENCH_H
#define PW_TEST_TOOL_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tool/tool_inner.h"

#define BENCH_CALLS 64

typedef struct bench_end {
    bool told, late;
    pw_tool_outcome outcome, late_outcome; /* copied */
} bench_end;

typedef struct bench {
    uv_loop_t loop;
    pw_tool_runner *runner;
    pw_arena arena;
    size_t started, ended;
    bench_end ends[BENCH_CALLS]; /* by call, from 1 */
    uv_timer_t timer;
    bool closed, timer_closed, limit_over;
} bench;

void bench_open(bench *, const pw_tool_host *with /* may be NULL */);
void bench_close(bench *);

/* From JSON with the keys of a definition's tool. */
const pw_tool_declaration *bench_tool(bench *, const char *json);
/* Starts call number started + 1; `*ret_call` is its number. */
pw_status bench_start(bench *, const pw_tool_declaration *, const char *arguments,
                      uint64_t *ret_call, pw_error *);
/* Runs the loop until so many have ended in all, or for so long: false. */
bool bench_wait(bench *, size_t ended, int64_t ms);
/* Runs the loop until it is so, or 10 s have passed. */
bool bench_until(bench *, bool (*so)(bench *));
/* Starts, waits, and gives the outcome. */
pw_tool_outcome bench_run(bench *, const pw_tool_declaration *, const char *arguments);
pw_tool_call bench_call(const pw_tool_declaration *, const char *arguments, uint64_t call);
extern const pw_tool_place bench_place;

#define assert_text(str, expected)                                                                 \
    do {                                                                                           \
        const pw_str assert_str = (str);                                                           \
        char assert_copy[4096];                                                                    \
        const size_t assert_len =                                                                  \
            assert_str.len < sizeof assert_copy ? assert_str.len : sizeof assert_copy - 1;         \
        memcpy(assert_copy, assert_str.len > 0 ? assert_str.ptr : "", assert_len);                 \
        assert_copy[assert_len] = '\0';                                                            \
        assert_string_equal(assert_copy, (expected));                                              \
    } while (0)

#endif
