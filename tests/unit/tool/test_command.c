/* Command tools: what they see, how they end, and that nothing of theirs stays. Each test also runs
 * without pidfds. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/format.h"
#include "base/heap.h"
#include "base/utf8.h"
#include "bench.h"
#include "support/failing_allocator.h"

static bool without_pidfd;

static void open_with(bench *b, const pw_tool_host *host)
{
    bench_open(b, host);
    b->runner->no_pidfd = without_pidfd;
}

static const pw_tool_declaration *shell(bench *b, const char *script)
{
    pw_buffer json;
    pw_buffer_init_arena(&json, &b->arena, 1 << 16);
    pw_buffer_add(&json, PW_STR("{\"name\":\"x\",\"kind\":\"command\",\"env\":[\"LISTED\"],"
                                "\"run\":[\"/bin/sh\",\"-c\",\""));
    pw_json_escape(&json, pw_str_from(script));
    pw_buffer_add(&json, PW_STR("\"]}"));
    return bench_tool(b, json.ptr);
}

static pw_tool_outcome run_shell(bench *b, const char *script, const char *arguments)
{
    return bench_run(b, shell(b, script), arguments);
}

static void test_C8_json_of_a_command_passes_as_it_is(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    pw_tool_outcome end = run_shell(&b, "cat", "{\"n\":12345678901234567890.10, \"x\":[1e400]}");
    assert_int_equal(end.kind, PW_TOOL_RESULT);
    assert_text(end.json, "{\"n\":12345678901234567890.10, \"x\":[1e400]}");
    assert_text(run_shell(&b, "echo; echo ' true '", "{}").json, "true");
    bench_close(&b);
}

static void test_A8_text_of_a_command_becomes_a_valid_string(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    assert_text(run_shell(&b, "echo it is 'done\"'", "{}").json, "\"it is done\\\"\"");
    assert_text(run_shell(&b, "printf 'a\\377b\\n'", "{}").json, "\"a\xEF\xBF\xBD"
                                                                 "b\"");
    assert_text(run_shell(&b, "printf '\"\\\\ud83d\"'", "{}").json, "\"\xEF\xBF\xBD\"");
    assert_text(run_shell(&b, "printf '\"a\\377\"'", "{}").json, "\"a\xEF\xBF\xBD\"");
    assert_text(run_shell(&b, "true", "{}").json, "\"\"");
    bench_close(&b);
}

static void test_N3_command_sees_its_environment_and_nothing_else(void **state)
{
    (void)state;
    setenv("ANTHROPIC_API_KEY", "canary", 1);
    setenv("LISTED", "yes", 1);
    setenv("LANG", "C", 1);
    bench b;
    open_with(&b, NULL);
    pw_tool_outcome end =
        run_shell(&b,
                  "env | sed 's/=.*//' | grep -v -x -e PWD -e SHLVL -e _ -e OLDPWD"
                  " | LC_ALL=C sort | tr '\\n' ' '",
                  "{}");
    assert_text(end.json, "\"HOME LANG LISTED PATH PAWL_ANSWERS PAWL_IDEMPOTENCY_KEY PAWL_SESSION "
                          "PAWL_STEP PAWL_TURN \"");
    end = run_shell(&b,
                    "echo $PAWL_SESSION,$PAWL_TURN,$PAWL_STEP,$PAWL_IDEMPOTENCY_KEY,"
                    "$PAWL_ANSWERS,$LISTED",
                    "{}");
    assert_text(end.json, "\"s1,t1,tool:1:c1,k1,{},yes\"");
    unsetenv("ANTHROPIC_API_KEY");
    bench_close(&b);
}

static void test_command_inherits_no_descriptor_and_no_signal_state(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    const int leaky = dup(0); /* not close-on-exec */
    bench b;
    open_with(&b, NULL);
    pw_tool_outcome end = run_shell(&b,
                                    "for f in 0 1 2 3 4 5 6 7 8 9; do "
                                    "[ -e /proc/$$/fd/$f ] && printf $f; done; true",
                                    "{}");
    assert_text(end.json, "\"012\"");
    end = run_shell(&b, "sed -n 's/SigBlk:.//p' /proc/self/status", "{}");
    assert_text(end.json, "\"0000000000000000\"");
    end = run_shell(&b, "sed -n 's/SigIgn:./0x/p' /proc/self/status", "{}");
    assert_int_equal(strtoull(end.json.ptr + 1, NULL, 16) & 0x7FFFFFFF,
                     0); /* 32 up are the C library's */
    close(leaky);
    signal(SIGPIPE, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bench_close(&b);
}

static void test_command_takes_large_arguments_or_leaves_them(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    const size_t size = (size_t)8 << 20;
    char *big = malloc(size + 3);
    assert_non_null(big);
    memset(big, 'x', size + 2);
    big[0] = big[size + 1] = '"';
    big[size + 2] = '\0';
    assert_text(run_shell(&b, "wc -c | tr -d ' '", big).json, "8388610");
    assert_text(run_shell(&b, "exec <&-; echo 1", big).json,
                "1"); /* closes it, and SIGPIPE kills nobody */
    assert_text(run_shell(&b, "head -c 1 >/dev/null; echo 2", big).json, "2");
    pw_tool_outcome end = run_shell(&b, "cat", big);
    assert_int_equal(end.json.len, size + 2);
    free(big);
    bench_close(&b);
}

static void test_F1_error_is_the_last_line_of_standard_error(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    pw_tool_outcome end =
        run_shell(&b, "echo {}; echo first >&2; printf 'no \\377 more\\n\\n' >&2; exit 3", "{}");
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.message, "no \xEF\xBF\xBD more");
    assert_text(end.error_class, "");
    assert_text(run_shell(&b, "exit 4", "{}").message, "exited with status 4");
    end = run_shell(&b, "kill -9 $$", "{}");
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.error_class, "Signal");
    assert_text(end.message, "ended by signal 9");
    end = run_shell(&b, "head -c 100000 /dev/zero | tr '\\0' y >&2; exit 1", "{}");
    assert_int_equal(end.message.len, 8192);
    bench_close(&b);
}

static void test_F2_exit_78_is_fatal_and_so_is_a_program_that_is_not_there(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    pw_tool_outcome end = run_shell(&b, "echo no such account >&2; exit 78", "{}");
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_text(end.message, "no such account");
    assert_text(run_shell(&b, "exit 78", "{}").message, "the tool gave up (exit status 78)");
    end = run_shell(&b, "exit 75", "{}");
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_non_null(strstr(end.message.ptr, "not supported in this version"));
    end = bench_run(
        &b, bench_tool(&b, "{\"name\":\"x\",\"kind\":\"command\",\"run\":[\"./nowhere\"]}"), "{}");
    assert_int_equal(end.kind, PW_TOOL_FATAL);
    assert_text(end.message, "cannot run \"./nowhere\": No such file or directory");
    bench_close(&b);
}

static bool alive(long pid)
{
    return kill((pid_t)pid, 0) == 0;
}

static long read_pid(const char *path)
{
    char text[32] = "";
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        return 0;
    }
    const bool whole = fgets(text, sizeof text, f) != NULL && strchr(text, '\n') != NULL;
    fclose(f);
    return whole ? strtol(text, NULL, 10) : 0;
}

static char pid_file[64];
static bool pid_is_written(bench *b)
{
    (void)b;
    usleep(1000);
    uv_run(&b->loop, UV_RUN_NOWAIT);
    return read_pid(pid_file) > 0;
}

static void fresh_pid_file(void)
{
    pw_format(pid_file, sizeof pid_file, "/tmp/pawl-test-%d", (int)getpid());
    unlink(pid_file);
    setenv("LISTED", pid_file, 1);
}

static bool wait_gone(long pid)
{
    for (int i = 0; i < 5000 && alive(pid); i++) {
        usleep(1000);
    }
    return !alive(pid);
}

static void test_D6_expired_command_is_killed_with_its_group(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    fresh_pid_file();
    uint64_t call = 0;
    const pw_tool_declaration *tool =
        shell(&b, "trap '' TERM INT; sh -c 'echo $$ > $LISTED.new; mv $LISTED.new $LISTED; sleep "
                  "100' & wait; sleep 100");
    assert_int_equal(bench_start(&b, tool, "{}", &call, NULL), PW_OK);
    while (!pid_is_written(&b)) {
    }
    const long grandchild = read_pid(pid_file);
    assert_true(alive(grandchild));
    pw_tool_abort(b.runner, call, true);
    pw_tool_abort(b.runner, call, false); /* twice is once */
    assert_int_equal(b.ended, 0);
    assert_true(bench_wait(&b, 1, 5000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    assert_true(b.ends[call].outcome.limit_passed);
    assert_true(wait_gone(grandchild));
    pw_tool_abort(b.runner, call, true); /* over: ignored */
    pw_tool_abort(b.runner, 999, true);
    unlink(pid_file);
    bench_close(&b);
}

static void test_I1_cancelled_command_says_that_it_was_not_its_limit(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    uint64_t call = 0;
    assert_int_equal(bench_start(&b, shell(&b, "sleep 100"), "{}", &call, NULL), PW_OK);
    pw_tool_abort(b.runner, call, false);
    assert_true(bench_wait(&b, 1, 5000));
    assert_int_equal(b.ends[call].outcome.kind, PW_TOOL_ABANDONED);
    assert_false(b.ends[call].outcome.limit_passed);
    bench_close(&b);
}

static void test_command_left_in_the_background_holds_no_call(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    const int64_t begin = pw_tool_now_ms();
    pw_tool_outcome end = run_shell(&b, "sleep 100 & echo $!", "{}");
    assert_true(pw_tool_now_ms() - begin < 5000);
    assert_int_equal(end.kind, PW_TOOL_RESULT);
    const long left = strtol(end.json.ptr, NULL, 10);
    assert_true(alive(left)); /* it was asked for: it is not ours to kill */
    kill((pid_t)left, SIGKILL);
    bench_close(&b);
}

static void test_D7_output_over_the_cap_is_an_error(void **state)
{
    (void)state;
    bench b;
    open_with(&b, &(pw_tool_host){.output_bytes = 100000});
    pw_tool_outcome end = run_shell(&b, "head -c 100000 /dev/zero | tr '\\0' 1", "{}");
    assert_int_equal(end.kind, PW_TOOL_RESULT);
    end = run_shell(&b, "cat /dev/zero", "{}");
    assert_int_equal(end.kind, PW_TOOL_ERROR);
    assert_text(end.error_class, "TooMuchOutput");
    bench_close(&b);
}

static size_t open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    size_t count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void test_many_commands_at_once_leave_no_descriptor(void **state)
{
    (void)state;
    const size_t before = open_descriptors();
    bench b;
    open_with(&b, NULL);
    for (int i = 0; i < 40; i++) {
        uint64_t call = 0;
        assert_int_equal(bench_start(&b, shell(&b, "echo [$$]"), "{}", &call, NULL), PW_OK);
        if (i % 8 == 7) {
            pw_tool_abort(b.runner, call, false);
        }
    }
    assert_true(bench_wait(&b, 40, 20000));
    bench_close(&b);
    assert_int_equal(open_descriptors(), before);
}

static void test_close_ends_running_commands_and_tells_them(void **state)
{
    (void)state;
    bench b;
    open_with(&b, NULL);
    uint64_t call = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bench_start(&b, shell(&b, "sleep 100"), "{}", &call, NULL), PW_OK);
    }
    const int64_t begin = pw_tool_now_ms();
    bench_close(&b);
    assert_true(pw_tool_now_ms() - begin < 5000);
}

static void test_every_failed_allocation_is_an_answer(void **state)
{
    (void)state;
    pw_test_allocator memory;
    pw_test_allocator_init(&memory);
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        bench b;
        open_with(&b, &(pw_tool_host){.allocator = &memory.allocator});
        const pw_tool_declaration *tool = shell(&b, "printf 'text \\377'");
        pw_test_allocator_fail(&memory, k, k % 2 == 0);
        uint64_t call = 0;
        const pw_status status = bench_start(&b, tool, "{}", &call, NULL);
        assert_true(status == PW_OK || status == PW_NOMEM);
        if (status == PW_OK) {
            assert_true(bench_wait(&b, 1, 20000));
            const pw_tool_outcome end = b.ends[call].outcome;
            assert_true(end.kind == PW_TOOL_ERROR || pw_str_is(end.json, "\"text \xEF\xBF\xBD\""));
        }
        failed = memory.failed > 0;
        pw_test_allocator_fail(&memory, 0, false);
        bench_close(&b);
        assert_int_equal(memory.live_bytes, 0);
    }
}

#define EACH(X)                                                                                    \
    X(test_C8_json_of_a_command_passes_as_it_is)                                                   \
    X(test_A8_text_of_a_command_becomes_a_valid_string)                                            \
    X(test_N3_command_sees_its_environment_and_nothing_else)                                       \
    X(test_command_inherits_no_descriptor_and_no_signal_state)                                     \
    X(test_command_takes_large_arguments_or_leaves_them)                                           \
    X(test_F1_error_is_the_last_line_of_standard_error)                                            \
    X(test_F2_exit_78_is_fatal_and_so_is_a_program_that_is_not_there)                              \
    X(test_D6_expired_command_is_killed_with_its_group)                                            \
    X(test_I1_cancelled_command_says_that_it_was_not_its_limit)                                    \
    X(test_command_left_in_the_background_holds_no_call)                                           \
    X(test_D7_output_over_the_cap_is_an_error)                                                     \
    X(test_many_commands_at_once_leave_no_descriptor)                                              \
    X(test_close_ends_running_commands_and_tells_them)                                             \
    X(test_every_failed_allocation_is_an_answer)

int main(void)
{
#define TEST(name) cmocka_unit_test(name),
    const struct CMUnitTest tests[] = {EACH(TEST)};
#undef TEST
    const int first = cmocka_run_group_tests_name("commands", tests, NULL, NULL);
    without_pidfd = true;
    return first + cmocka_run_group_tests_name("commands by SIGCHLD", tests, NULL, NULL);
}
