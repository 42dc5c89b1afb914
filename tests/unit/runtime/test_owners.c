/*
 * Several owners of one SQLite file: who follows, who takes over, and what is left of a process
 * that was killed at the worst moment. The killed ones are this program run again as `child URL
 * SCENARIO`; it ends only by being killed.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void pause_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* --- What the tools do to the world: lines in a file beside the store --- */

typedef struct world {
    bench *b;
    int hang; /* this process is to be killed inside the tool */
} world;

static void world_path(bench *b, const char *name, char to[128])
{
    const char *path = b->url + strlen("sqlite:");
    snprintf(to, 128, "%.*s/%s", (int)(strrchr(path, '/') - path), path, name);
}

static void add_line(bench *b, const char *file, pawl_str line)
{
    char path[128];
    world_path(b, file, path);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line.ptr, line.len) < 0 || write(fd, "\n", 1) != 1 || close(fd) != 0) {
        abort();
    }
}

static int count_lines(bench *b, const char *file, int *ret_equal)
{
    char path[128], first[256] = "", line[256];
    world_path(b, file, path);
    FILE *in = fopen(path, "re");
    int count = 0;
    *ret_equal = 1;
    while (in && fgets(line, sizeof line, in)) {
        if (count++ == 0) {
            snprintf(first, sizeof first, "%s", line);
        }
        *ret_equal = *ret_equal && strcmp(first, line) == 0;
    }
    if (in) {
        fclose(in);
    }
    return count;
}

static int32_t act(pawl_call *call, void *ctx)
{
    world *w = ctx;
    add_line(w->b, "effects", pawl_call_key(call));
    while (w->hang) {
        pause_ms(10);
    }
    return pawl_call_return(call, S("\"acted\""));
}

static int32_t order(pawl_call *call, void *ctx)
{
    world *w = ctx;
    sqlite3 *db = pawl_call_handle(call, PAWL_SQLITE);
    if (!db ||
        sqlite3_exec(db, "insert into orders(item) values('tea')", NULL, NULL, NULL) != SQLITE_OK) {
        return pawl_call_fatal(call, S("it could not write"));
    }
    add_line(w->b, "effects", pawl_call_key(call));
    while (w->hang) {
        pause_ms(10);
    }
    return pawl_call_return(call, S("\"ordered\""));
}

static const char script[] =
    "[{\"when\":{\"role\":\"user\",\"last\":\"slow\"},\"delay\":\"400ms\",\"text\":\"slow done\"},"
    "{\"when\":{\"role\":\"user\",\"last\":\"hang\"},\"delay\":\"60s\",\"text\":\"never\"},"
    "{\"when\":{\"role\":\"user\",\"last\":\"once\"},\"calls\":[{\"name\":\"act_once\","
    "\"arguments\":{}}]},"
    "{\"when\":{\"role\":\"user\",\"last\":\"idempotent\"},\"calls\":[{\"name\":\"act_again\","
    "\"arguments\":{}}]},"
    "{\"when\":{\"role\":\"user\",\"last\":\"none\"},\"calls\":[{\"name\":\"look\",\"arguments\":{}"
    "}]},"
    "{\"when\":{\"role\":\"user\",\"last\":\"order\"},\"calls\":[{\"name\":\"order\",\"arguments\":"
    "{}}]},"
    "{\"when\":{\"role\":\"tool\",\"last\":\"unknown\"},\"text\":\"outcome "
    "unknown\"},{\"text\":\"{{last}}\"}]";
static const char tools[] =
    "[{\"name\":\"act_once\",\"kind\":\"native\"},{\"name\":\"act_again\",\"kind\":\"native\"},"
    "{\"name\":\"look\",\"kind\":\"native\"},{\"name\":\"order\",\"kind\":\"native\"}]";

static void open_world(bench *b, world *w, int32_t transactional_limit_ms)
{
    bench_open(b);
    bench_tool(b, "act_once", PAWL_ONCE, act, w, 0);
    bench_tool(b, "act_again", PAWL_IDEMPOTENT, act, w, 0);
    bench_tool(b, "look", PAWL_NONE, act, w, 0);
    bench_tool(b, "order", PAWL_TRANSACTIONAL, order, w, transactional_limit_ms);
    bench_agent(b, script, tools, NULL);
}

/* --- The child --- */

static int child(const char *url, const char *text)
{
    bench b = {0};
    world w = {.b = &b, .hang = 1};
    snprintf(b.url, sizeof b.url, "%s", url);
    open_world(&b, &w, 60000);
    pawl_start_options options = {.size = sizeof options, .lease_ms = 300};
    bench_start_with(&b, &options);
    if (bench_submit(&b, "s1", "r1", text) != PAWL_OK) {
        return 1;
    }
    for (;;) {
        pause_ms(1000);
    }
}

static pid_t run_child(bench *b, const char *text)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_runtime_owners", "child", b->url, text, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void kill_child(pid_t pid)
{
    int status = 0;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static int has_effect(void *ctx)
{
    int equal;
    return count_lines(ctx, "effects", &equal) > 0;
}

static void make_orders(bench *b)
{
    sqlite3 *db = NULL;
    bench_open(b); /* makes the file */
    bench_close(b);
    assert_int_equal(sqlite3_open(b->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "create table orders(item text)", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static int count_orders(bench *b)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *select = NULL;
    assert_int_equal(sqlite3_open(b->url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "select count(*) from orders", -1, &select, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int count = sqlite3_column_int(select, 0);
    sqlite3_finalize(select);
    sqlite3_close(db);
    return count;
}

/* A child is killed inside the tool that `text` makes the model call; we go on. The turn, to be
 * freed. */
static pawl_doc *die_and_resume(bench *b, world *w, const char *text)
{
    bench_begin(b, "sqlite");
    make_orders(b);
    pid_t pid = run_child(b, text);
    bench_until(has_effect, b);
    kill_child(pid);
    open_world(b, w, 0);
    bench_start(b);
    pawl_doc *turn = bench_wait(b, "s1", "r1");
    bench_expect(turn, "state", "completed");
    bench_expect(turn, "attempts", "2");
    return turn;
}

static void test_a_once_call_of_a_killed_process_is_unknown_and_never_run_again_d4(void **state)
{
    (void)state;
    bench b;
    int equal;
    world w = {.b = &b};
    pawl_doc *turn = die_and_resume(&b, &w, "once");
    bench_expect(turn, "text", "outcome unknown");
    pawl_doc_free(turn);
    assert_int_equal(count_lines(&b, "effects", &equal), 1);
    bench_end(&b);
}

static void test_an_idempotent_call_of_a_killed_process_runs_again_with_its_key_d1(void **state)
{
    (void)state;
    bench b;
    int equal;
    world w = {.b = &b};
    pawl_doc *turn = die_and_resume(&b, &w, "idempotent");
    bench_expect(turn, "text", "acted");
    pawl_doc_free(turn);
    assert_int_equal(count_lines(&b, "effects", &equal), 2);
    assert_true(equal);
    bench_end(&b);
}

static void test_a_transactional_call_of_a_killed_process_takes_effect_once_d2(void **state)
{
    (void)state;
    bench b;
    world w = {.b = &b};
    pawl_doc *turn = die_and_resume(&b, &w, "order");
    bench_expect(turn, "text", "ordered");
    pawl_doc_free(turn);
    bench_close(&b);
    assert_int_equal(count_orders(&b), 1);
    bench_end(&b);
}

/* --- Two owners that live --- */

static int is_running(void *ctx)
{
    bench *b = ctx;
    pawl_doc *doc = NULL;
    if (pawl_read(b->p, S("/v1/sessions/s1"), &doc, NULL) != PAWL_OK) {
        return 0;
    }
    int running = strcmp(bench_get(doc, "turn"), "null") != 0;
    pawl_doc_free(doc);
    return running;
}

static void test_a_second_process_waits_for_what_the_first_one_runs_a3(void **state)
{
    (void)state;
    bench b, second;
    world w = {.b = &b};
    bench_begin(&b, "sqlite");
    make_orders(&b);
    open_world(&b, &w, 0);
    bench_start(&b);
    second = b;
    bench_open(&second); /* admits and waits; runs nothing */
    bench_agent(&second, script, "[]", NULL);
    assert_int_equal(bench_submit(&second, "s1", "r1", "slow"), PAWL_OK);
    pawl_doc *turn = bench_wait(&second, "s1", "r1");
    bench_expect(turn, "text", "slow done");
    pawl_doc_free(turn);
    bench_close(&second);
    bench_end(&b);
}

static void test_a_cancel_reaches_the_process_that_runs_the_turn_i7(void **state)
{
    (void)state;
    bench b, second;
    char turn[80];
    world w = {.b = &b};
    bench_begin(&b, "sqlite");
    make_orders(&b);
    open_world(&b, &w, 0);
    bench_start(&b);
    assert_int_equal(bench_submit(&b, "s1", "r1", "hang"), PAWL_OK);
    bench_turn_id(&b, "s1", "r1", turn);
    second = b;
    bench_open(&second);
    int64_t begin_ms = now_ms();
    assert_int_equal(pawl_cancel(second.p, S("s1"), bench_str(turn), NULL), PAWL_OK);
    pawl_doc *doc = bench_wait(&second, "s1", "r1");
    bench_expect(doc, "state", "cancelled");
    assert_in_range(now_ms() - begin_ms, 0, 1000);
    pawl_doc_free(doc);
    bench_close(&second);
    bench_end(&b);
}

static void test_a_live_owner_keeps_its_session_until_it_is_taken_over_by_name_j2(void **state)
{
    (void)state;
    bench b, second;
    world w = {.b = &b};
    bench_begin(&b, "sqlite");
    make_orders(&b);
    open_world(&b, &w, 0);
    pawl_start_options options = {.size = sizeof options, .lease_ms = 300};
    bench_start_with(&b, &options);
    assert_int_equal(bench_submit(&b, "s1", "r1", "hang"), PAWL_OK);
    bench_until(is_running, &b);
    second = b;
    open_world(&second, &w, 0);
    bench_start_with(&second, &options);
    pause_ms(700); /* two leases: still the first one's */
    pawl_doc *doc = bench_read(&second, "/v1/sessions/s1/turns");
    bench_expect(doc, "items.0.attempts", "1");
    pawl_doc_free(doc);
    bench_close(&second);

    open_world(&second, &w, 0);
    pawl_start_options by_name = {
        .size = sizeof by_name, .session = S("s1"), .take_over = 1, .lease_ms = 300};
    bench_start_with(&second, &by_name);
    char turn[80];
    bench_turn_id(&b, "s1", "r1", turn);
    for (int i = 0; i < 400; i++) {
        doc = bench_read(&second, "/v1/sessions/s1/turns");
        int taken = strcmp(bench_get(doc, "items.0.attempts"), "2") == 0;
        pawl_doc_free(doc);
        if (taken) {
            break;
        }
        pause_ms(10);
    }
    assert_int_equal(pawl_cancel(second.p, S("s1"), bench_str(turn), NULL), PAWL_OK);
    doc = bench_wait(&second, "s1", "r1");
    bench_expect(doc, "state", "cancelled");
    bench_expect(doc, "attempts", "2");
    pawl_doc_free(doc);
    bench_close(&second);
    /* the first one was fenced, changed nothing, and goes on with other sessions */
    bench_turn(&b, "s2", "r1", "hello", "completed", "hello");
    bench_end(&b);
}

static void test_a_process_that_runs_one_session_leaves_the_others_alone_j2(void **state)
{
    (void)state;
    bench b;
    world w = {.b = &b};
    bench_begin(&b, "sqlite");
    make_orders(&b);
    open_world(&b, &w, 0);
    pawl_start_options by_name = {.size = sizeof by_name, .session = S("mine")};
    bench_start_with(&b, &by_name);
    assert_int_equal(bench_submit(&b, "other", "r1", "hello"), PAWL_OK);
    bench_turn(&b, "mine", "r1", "hello", "completed", "hello");
    pawl_doc *doc = NULL;
    assert_int_equal(pawl_wait(b.p, S("other"), S("r1"), 200, &doc, NULL), PAWL_TIMEOUT);
    bench_end(&b);
}

/* --- A store that cannot be written for a while --- */

typedef struct holder {
    sqlite3 *db;
} holder;

static void hold(holder *h, bench *b)
{
    assert_int_equal(sqlite3_open(b->url + strlen("sqlite:"), &h->db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(h->db, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
}

static void let_go(holder *h)
{
    assert_int_equal(sqlite3_exec(h->db, "rollback", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(h->db), SQLITE_OK);
}

static void test_a_turn_waits_for_a_store_that_cannot_be_written_j4(void **state)
{
    (void)state;
    bench b;
    holder h;
    world w = {.b = &b};
    bench_begin(&b, "sqlite");
    make_orders(&b);
    open_world(&b, &w, 0);
    bench_start(&b);
    bench_turn(&b, "s1", "r0", "first", "completed", "first");
    assert_int_equal(bench_submit(&b, "s1", "r1", "slow"), PAWL_OK);
    char turn[80];
    bench_turn_id(&b, "s1", "r1", turn);
    hold(&h, &b);
    pause_ms(2500); /* longer than one try of the store; the model has answered meanwhile */
    let_go(&h);
    pawl_doc *doc = bench_wait(&b, "s1", "r1");
    bench_expect(doc, "state", "completed");
    bench_expect(doc, "text", "slow done");
    pawl_doc_free(doc);
    bench_end(&b);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "child") == 0) {
        return child(argv[2], argv[3]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_once_call_of_a_killed_process_is_unknown_and_never_run_again_d4),
        cmocka_unit_test(test_an_idempotent_call_of_a_killed_process_runs_again_with_its_key_d1),
        cmocka_unit_test(test_a_transactional_call_of_a_killed_process_takes_effect_once_d2),
        cmocka_unit_test(test_a_second_process_waits_for_what_the_first_one_runs_a3),
        cmocka_unit_test(test_a_cancel_reaches_the_process_that_runs_the_turn_i7),
        cmocka_unit_test(test_a_live_owner_keeps_its_session_until_it_is_taken_over_by_name_j2),
        cmocka_unit_test(test_a_process_that_runs_one_session_leaves_the_others_alone_j2),
        cmocka_unit_test(test_a_turn_waits_for_a_store_that_cannot_be_written_j4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
