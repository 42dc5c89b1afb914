/*
 * One SQLite file and many processes: J2, J4, J8, case I3, case J2, case O3. Everything here forks,
 * kills, locks or damages; what every store does alike is in tests/conformance.
 */
#include "conformance/kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *path_of(const kit *k)
{
    return k->url + strlen("sqlite:");
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static char *bytes_of(const char *path, size_t *ret_size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *ret_size = (size_t)ftell(f);
    rewind(f);
    char *bytes = malloc(*ret_size + 1);
    assert_int_equal(fread(bytes, 1, *ret_size, f), *ret_size);
    fclose(f);
    return bytes;
}

static int files_in(const char *dir)
{
    int count = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        count += e->d_name[0] != '.';
    }
    closedir(d);
    return count;
}

static void raw(const kit *k, const char *sql)
{
    sqlite3 *db;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path_of(k), &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s", message);
    }
    sqlite3_close(db);
}

static pw_status try_open(const char *url, bool read_only, pw_store **ret, pw_error *error)
{
    pw_store_options options = {
        .url = pw_str_from(url), .allocator = &pw_heap, .read_only = read_only};
    *ret = NULL;
    return pw_store_open(&options, ret, error);
}

/* A child starts with nothing of its parent's store: no SQLite connection may cross a fork. */
static pid_t child(kit *k, void (*body)(kit *, int arg), int arg)
{
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        kit mine = {.now_ms = k->now_ms, .me = k->me};
        memcpy(mine.url, k->url, sizeof(mine.url));
        memcpy(mine.dir, k->dir, sizeof(mine.dir));
        pw_arena_init(&mine.arena, &pw_heap, 0, 0);
        mine.store = kit_open(mine.url);
        if (mine.store == NULL) {
            _exit(100);
        }
        body(&mine, arg);
        kit_close(&mine);
        _exit(0);
    }
    return pid;
}

static int ended(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void must(bool truth, int code)
{
    if (!truth) {
        _exit(code);
    }
}

/* Again while another process holds the lock: what every caller does. */
static void run_patiently(kit *k, pw_op *op)
{
    do {
        kit_run(k, op, 1);
    } while (op->status == PW_NOT_COMMITTED && op->error.code == PW_LOCKED);
}

/* --- opening and closing */

static void test_J8_a_newer_schema_is_refused_and_untouched(void **state)
{
    kit *k = *state;
    kit_running(k, "s");
    kit_close(k);
    raw(k, "update pawl_meta set value = '2' where key = 'schema'");
    size_t size, after;
    char *before = bytes_of(path_of(k), &size);
    pw_store *store;
    for (int read_only = 0; read_only < 2; read_only++) {
        pw_error error = {0};
        assert_int_equal(try_open(k->url, read_only, &store, &error), PW_NEWER_SCHEMA);
        assert_non_null(strstr(error.message, "2"));
        assert_null(store);
        char *bytes = bytes_of(path_of(k), &after);
        assert_int_equal(after, size);
        assert_memory_equal(bytes, before, size);
        free(bytes);
    }
    assert_int_equal(files_in(k->dir), 1);
    raw(k, "update pawl_meta set value = '1' where key = 'schema'");
    k->store = kit_open(k->url);
    assert_non_null(k->store);
    kit_sound(k);
    free(before);
}

static void test_J8_a_newer_schema_in_the_log_is_untouched_too(void **state)
{
    kit *k = *state;
    char wal[160], copy[600], url[640];
    sqlite3 *db;
    size_t sizes[4];
    kit_running(k, "s");
    kit_close(k);
    assert_int_equal(sqlite3_open(path_of(k), &db), SQLITE_OK);
    sqlite3_exec(db, "update pawl_meta set value = '2'", NULL, NULL, NULL);
    /* a crash now leaves the newer version in the log alone: take the files away as they are */
    snprintf(wal, sizeof(wal), "%s-wal", path_of(k));
    snprintf(copy, sizeof(copy), "cp %s %s/copy.db && cp %s %s/copy.db-wal", path_of(k), k->dir,
             wal, k->dir);
    assert_int_equal(system(copy), 0);
    sqlite3_close(db);
    snprintf(copy, sizeof(copy), "%s/copy.db", k->dir);
    snprintf(wal, sizeof(wal), "%s/copy.db-wal", k->dir);
    snprintf(url, sizeof(url), "sqlite:%s", copy);
    char *db_before = bytes_of(copy, &sizes[0]), *wal_before = bytes_of(wal, &sizes[1]);
    pw_store *store;
    pw_error error = {0};
    assert_int_equal(try_open(url, false, &store, &error), PW_NEWER_SCHEMA);
    char *db_after = bytes_of(copy, &sizes[2]), *wal_after = bytes_of(wal, &sizes[3]);
    assert_int_equal(sizes[0], sizes[2]);
    assert_int_equal(sizes[1], sizes[3]);
    assert_memory_equal(db_before, db_after, sizes[0]);
    assert_memory_equal(wal_before, wal_after, sizes[1]);
    free(db_before);
    free(db_after);
    free(wal_before);
    free(wal_after);
    raw(k, "update pawl_meta set value = '1'");
    k->store = kit_open(k->url);
}

static void test_a_close_leaves_one_file(void **state)
{
    kit *k = *state;
    kit_running(k, "s");
    pw_store *second = kit_open(k->url);
    assert_non_null(second);
    kit_close(k);
    assert_true(files_in(k->dir) > 1); /* somebody still works with it */
    k->store = second;
    kit_sound(k);
    kit_close(k);
    assert_int_equal(files_in(k->dir), 1);
    k->store = kit_open(k->url);
    kit_sound(k);
}

static void open_only(kit *k, int arg)
{
    (void)arg;
    must(k->store != NULL, 1);
}

static void test_many_processes_may_race_to_create(void **state)
{
    kit *k = *state;
    for (int round = 0; round < 5; round++) {
        pid_t pids[8];
        snprintf(k->url, sizeof(k->url), "sqlite:%s/fresh%d.db", k->dir, round);
        for (int i = 0; i < 8; i++) {
            pids[i] = child(k, open_only, 0);
        }
        for (int i = 0; i < 8; i++) {
            assert_int_equal(ended(pids[i]), 0);
        }
    }
    snprintf(k->url, sizeof(k->url), "sqlite:%s/fresh0.db", k->dir);
    assert_int_equal(access(path_of(k), F_OK), 0);
    char lock[200];
    snprintf(lock, sizeof(lock), "%s-lock", path_of(k));
    assert_int_not_equal(access(lock, F_OK), 0); /* and the last one took the lock file away */
    pw_store *store = kit_open(k->url);
    assert_non_null(store);
    pw_store_close(store);
}

static void test_an_apps_own_tables_live_beside(void **state)
{
    kit *k = *state;
    kit_close(k);
    kit_dir_remove(k->dir);
    kit_dir_make(k->dir);
    snprintf(k->url, sizeof(k->url), "sqlite:%s/app.db", k->dir);
    raw(k, "create table orders(id); insert into orders values(7); pragma user_version = 42");
    k->store = kit_open(k->url);
    assert_non_null(k->store);
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "me");
    kit_ok(k, &join);
    kit_running(k, "s");
    sqlite3 *db;
    sqlite3_stmt *s;
    sqlite3_open(path_of(k), &db);
    sqlite3_prepare_v2(db, "select id, (select user_version from pragma_user_version) from orders",
                       -1, &s, NULL);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(s, 0), 7);
    assert_int_equal(sqlite3_column_int(s, 1), 42);
    sqlite3_finalize(s);
    sqlite3_close(db);
    kit_sound(k);
}

static void test_open_says_what_is_wrong(void **state)
{
    kit *k = *state;
    char url[200];
    pw_store *store;
    pw_error error = {0};
    snprintf(url, sizeof(url), "sqlite:%s/none/pawl.db", k->dir);
    assert_int_equal(try_open(url, false, &store, &error), PW_UNAVAILABLE);
    snprintf(url, sizeof(url), "sqlite:%s/none.db", k->dir);
    assert_int_equal(try_open(url, true, &store, &error), PW_NOT_FOUND);
    snprintf(url, sizeof(url), "sqlite:%s", k->dir);
    assert_int_equal(try_open(url, false, &store, &error), PW_INVALID);
    snprintf(url, sizeof(url), "sqlite:%s/garbage.db", k->dir);
    FILE *f = fopen(url + 7, "wb");
    for (int i = 0; i < 9000; i++) {
        fputc(i * 7 % 251, f);
    }
    fclose(f);
    assert_int_equal(try_open(url, false, &store, &error), PW_CORRUPT);
    size_t size;
    char *bytes = bytes_of(url + 7, &size);
    assert_int_equal(size, 9000);
    for (int i = 0; i < 9000; i++) {
        assert_int_equal((unsigned char)bytes[i], i * 7 % 251);
    }
    free(bytes);
    unlink(url + 7);
    assert_int_equal(files_in(k->dir), 4); /* pawl.db, -wal, -shm, -lock: nothing of those above */
}

static void as_nobody(const char *url, const char *dir)
{
    pw_store *store;
    pw_error error = {0};
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    must(chmod(url + 7, 0444) == 0 && chmod(dir, 0555) == 0, 2);
    if (geteuid() == 0) {
        must(setgid(65534) == 0 && setuid(65534) == 0, 3);
    }
    must(try_open(url, false, &store, &error) == PW_READ_ONLY, 4);
    if (try_open(url, true, &store, &error) != PW_OK) {
        print_error("%s\n", error.message);
        _exit(5);
    }
    pw_op op = {.kind = PW_OP_SESSION, .arena = &arena, .session = {.session_id = 1}};
    pw_store_execute(store, &op, 1);
    must(op.status == PW_OK && op.session.row.last_seq == 1, 6);
    pw_store_close(store);
    _exit(0);
}

static void test_J4_a_file_that_may_only_be_read(void **state)
{
    kit *k = *state;
    kit_running(k, "s");
    kit_close(k);
    pid_t pid = fork();
    if (pid == 0) {
        as_nobody(k->url, k->dir);
    }
    assert_int_equal(ended(pid), 0);
    assert_int_equal(chmod(k->dir, 0755), 0);
    assert_int_equal(chmod(path_of(k), 0644), 0);
    assert_int_equal(files_in(k->dir), 1);
    k->store = kit_open(k->url);
}

static void test_J4_a_store_opened_for_reading_writes_nothing(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_store *writer = k->store;
    pw_error error = {0};
    assert_int_equal(try_open(k->url, true, &k->store, &error), PW_OK);
    assert_int_equal(kit_row(k, id).last_seq, 1); /* while the other still writes */
    pw_op op = kit_admit(k, "s", "r9", "x");
    kit_run(k, &op, 1);
    assert_status(op, PW_NOT_COMMITTED);
    assert_int_equal(op.error.code, PW_READ_ONLY);
    assert_int_equal(pw_store_owner_alive(k->store, &k->me), 1);
    kit_close(k);
    k->store = writer;
}

/* Overwrites the root page of a table or index. */
static void damage(kit *k, const char *table)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(path_of(k), &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(
            db, "select rootpage, page_size from sqlite_master, pragma_page_size where name = ?1",
            -1, &s, NULL),
        SQLITE_OK);
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    long page = (long)sqlite3_column_int64(s, 0), size = (long)sqlite3_column_int64(s, 1);
    sqlite3_finalize(s);
    sqlite3_close(db);
    FILE *f = fopen(path_of(k), "r+b");
    fseek(f, (page - 1) * size, SEEK_SET);
    for (long i = 0; i < size; i++) {
        fputc(0xA5, f);
    }
    fclose(f);
}

static void test_J4_a_damaged_page_is_said_so(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    for (uint64_t seq = 2; seq < 60; seq++) {
        kit_entry *e = kit_step(k, seq, "t1", "tool:1:a");
        pw_op op = kit_append(k, id, 1, &e->append);
        kit_ok(k, &op);
    }
    kit_close(k);
    damage(k, "pawl_journal");
    damage(k, "pawl_inbox");
    k->store = kit_open(k->url);
    assert_non_null(k->store);
    pw_op ops[2] = {kit_read(k, PW_OP_RECORDS, id), kit_admit(k, "s", "r2", "x")};
    kit_run(k, &ops[0], 1);
    assert_status(ops[0], PW_CORRUPT);
    kit_run(k, &ops[1], 1);
    assert_status(ops[1], PW_CORRUPT);
    pw_op op = {.kind = PW_OP_VERIFY, .arena = &k->arena};
    kit_ok(k, &op);
    assert_true(op.verify.faults > 0);
    assert_true(op.verify.report.len > 0);
}

static void test_verify_finds_what_was_tampered_with(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    static const struct {
        const char *sql, *undo, *says;
    } faults[] = {
        {"update pawl_journal set seq = 3 where seq = 2",
         "update pawl_journal set seq = 2 where seq = 3", "record 3 follows 1"},
        {"update pawl_journal set epoch = 7 where seq = 1", "update pawl_journal set epoch = 1",
         "epoch"},
        {"update pawl_journal set body = '{' where seq = 2",
         "update pawl_journal set body = '{}' where seq = 2", "not JSON"},
        {"update pawl_turns set opened_seq = 2", "update pawl_turns set opened_seq = 1",
         "disagrees"},
        {"update pawl_turns set state = 'failed'", "update pawl_turns set state = 'running'",
         "disagrees"},
        {"update pawl_sessions set turn = 'x'", "update pawl_sessions set turn = 't1'",
         "open turn"},
        {"update pawl_inbox set turn = 'x'", "update pawl_inbox set turn = 't1'",
         "claimed by no turn"},
        {"update pawl_sessions set admitted = 0", "update pawl_sessions set admitted = 1",
         "admitted"},
        {"insert into pawl_blobs values('ab', 1, 'x')", "delete from pawl_blobs", "blob ab"},
        {"update pawl_journal set body = '{\"requests\":[{\"id\":\"r7\",\"n\":7}]}' where seq = 1",
         "update pawl_journal set body = '{\"requests\":[{\"id\":\"r1\",\"n\":1}]}' where seq = 1",
         "message 7"},
        {"update pawl_journal set body = '{\"definition\":\"none\"}' where seq = 1",
         "update pawl_journal set body = '{}' where seq = 1", "definition"},
    };
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        raw(k, faults[i].sql);
        op = (pw_op){.kind = PW_OP_VERIFY, .arena = &k->arena};
        kit_ok(k, &op);
        if (op.verify.faults == 0 ||
            pw_str_find(op.verify.report, pw_str_from(faults[i].says)) == SIZE_MAX) {
            fail_msg("%s: %.*s", faults[i].sql, PW_STR_ARG(op.verify.report));
        }
        raw(k, faults[i].undo);
        kit_sound(k);
    }
    raw(k, "delete from pawl_turns");
    op = (pw_op){.kind = PW_OP_VERIFY, .arena = &k->arena, .verify = {.rebuild = true}};
    kit_ok(k, &op);
    assert_int_equal(op.verify.faults, 0);
}

static void test_views_for_people(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 1);
    e->records[0].body =
        PW_STR("{\"v\":1,\"requests\":[{\"id\":\"r1\",\"n\":1,\"at\":5,\"role\":\"user\","
               "\"content\":[{\"type\":\"text\",\"text\":\"hel\"},{\"type\":\"text\",\"text\":"
               "\"lo\"}]}]}");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    e = kit_entry_new(k);
    kit_entry_record(k, e, 2, PW_RECORD_MODEL_COMPLETED, "t1", "model:2");
    e->records[0].body =
        PW_STR("{\"v\":1,\"model\":\"m\",\"started_at\":1699999999000,"
               "\"parts\":[{\"type\":\"text\",\"text\":\"hi\"},{\"type\":\"tool_call\"}]}");
    op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    raw(k,
        "create temp table seen as select group_concat(role || ':' || text) as t from "
        "pawl_view_messages; "
        "select case when t = 'user:hello,assistant:hi' then 1 else json('wrong') end from seen; "
        "select case when duration_ms = 1000 and model = 'm' then 1 else json('wrong') end from "
        "pawl_view_steps; "
        "select case when state = 'running' and opened_at is not null then 1 else json('wrong') "
        "end "
        "from pawl_view_turns");
}

/* --- several processes */

static void take_and_step(kit *k, int session)
{
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "child");
    run_patiently(k, &join);
    pw_op op = kit_take(k, session, "child");
    op.take.take_over = true;
    run_patiently(k, &op);
    must(op.status == PW_OK && op.take.answer == PW_TOOK, 1);
    kit_entry *e = kit_step(k, op.take.row.last_seq + 1, "t1", "tool:1:a");
    pw_op append = kit_append(k, session, op.take.row.epoch, &e->append);
    run_patiently(k, &append);
    must(append.status == PW_OK, 2);
    must(pw_store_owner_alive(k->store, &k->me) == 1, 3);
    pw_op admit = kit_admit(k, "other", "from-child", "x");
    run_patiently(k, &admit);
    must(admit.status == PW_OK && admit.admit.answer == PW_ADMITTED, 4);
}

static void test_case_J2_two_processes_one_file(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    int64_t other = kit_running(k, "other");
    assert_false(pw_store_changed(k->store));
    assert_int_equal(ended(child(k, take_and_step, (int)id)), 0);
    assert_true(pw_store_changed(k->store));
    assert_false(pw_store_changed(k->store));
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    assert_int_equal(kit_row(k, id).last_seq, 2);
    e = kit_step(k, 2, "t1",
                 "tool:1:a"); /* its admission has not disturbed the owner of the other (A3) */
    op = kit_append(k, other, 1, &e->append);
    kit_ok(k, &op);
    assert_false(pw_store_changed(k->store)); /* our own commits are no news */
    assert_int_equal(kit_row(k, other).admitted, 2);
    kit_sound(k);
}

static void join_and_wait(kit *k, int arg)
{
    pw_op join = kit_owner_op(k, PW_OP_JOIN, "child");
    run_patiently(k, &join);
    must(join.status == PW_OK, 1);
    must(write(arg, "x", 1) == 1, 2);
    pause();
}

static void test_J2_the_lock_dies_with_its_process(void **state)
{
    kit *k = *state;
    pw_owner_id other = kit_owner("child");
    int fds[2];
    char byte;
    assert_int_equal(pw_store_owner_alive(k->store, &k->me), 1);
    assert_int_equal(pw_store_owner_alive(k->store, &other), 0);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = child(k, join_and_wait, fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    assert_int_equal(pw_store_owner_alive(k->store, &other), 1);
    pw_op twice = kit_owner_op(k, PW_OP_JOIN, "child");
    kit_run(k, &twice, 1);
    assert_status(twice, PW_CONFLICT); /* an id is one process's */
    kill(pid, SIGKILL);
    ended(pid);
    assert_int_equal(pw_store_owner_alive(k->store, &other), 0);
    pw_op op = {.kind = PW_OP_OWNERS, .arena = &k->arena};
    kit_ok(k, &op);
    assert_int_equal(op.owners.count, 2);
    pw_op beat =
        kit_owner_op(k, PW_OP_BEAT, "me"); /* it died with nothing in hand: a beat buries it */
    kit_ok(k, &beat);
    kit_ok(k, &op);
    assert_int_equal(op.owners.count, 1);
    pw_op leave = kit_owner_op(k, PW_OP_LEAVE, "me");
    kit_ok(k, &leave);
    assert_int_equal(pw_store_owner_alive(k->store, &k->me), 0);
    close(fds[0]);
    close(fds[1]);
}

static void hold_lock(kit *k, int ms)
{
    sqlite3 *db;
    sqlite3_open(path_of(k), &db);
    must(sqlite3_exec(db, "begin immediate", NULL, NULL, NULL) == SQLITE_OK, 1);
    must(write(3, "x", 1) == 1, 2);
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
    sqlite3_exec(db, "rollback", NULL, NULL, NULL);
    sqlite3_close(db);
}

static void test_case_I3_a_foreign_lock_is_outwaited(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    int fds[2];
    char byte;
    assert_int_equal(pipe(fds), 0);
    int kept = dup(3);
    assert_int_equal(dup2(fds[1], 3), 3);
    pid_t pid = child(k, hold_lock, 2500);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
    pw_op ops[2] = {kit_append(k, id, 1, &e->append), kit_admit(k, "s", "r2", "x")};
    int64_t start = now_ms();
    kit_run(k, ops, 2);
    int64_t waited = now_ms() - start;
    assert_true(waited >= 900 && waited < 2000); /* bounded, and not at once */
    for (int i = 0; i < 2; i++) {
        assert_status(ops[i], PW_NOT_COMMITTED);
        assert_int_equal(ops[i].error.code, PW_LOCKED);
    }
    assert_int_equal(kit_row(k, id).last_seq, 1); /* reading goes on meanwhile */
    int tries = 0;
    do {
        kit_run(k, ops, 2);
        tries++;
    } while (ops[0].status == PW_NOT_COMMITTED && tries < 10);
    assert_status(ops[0], PW_OK);
    assert_status(ops[1], PW_OK);
    assert_int_equal(ended(pid), 0);
    dup2(kept, 3);
    close(kept);
    close(fds[0]);
    close(fds[1]);
    kit_sound(k);
}

enum { WRITERS = 8, WRITES = 150 };

static int64_t log_size(const kit *k)
{
    char wal[200];
    struct stat st;
    snprintf(wal, sizeof(wal), "%s-wal", path_of(k));
    return stat(wal, &st) == 0 ? (int64_t)st.st_size : 0;
}

static void write_much(kit *k, int session)
{
    static char text[40000];
    char name[8];
    snprintf(name, sizeof(name), "w%d", session);
    memset(text, 'x', sizeof(text));
    text[0] = text[sizeof(text) - 1] = '"';
    pw_op op = kit_owner_op(k, PW_OP_JOIN, name);
    run_patiently(k, &op);
    op = kit_take(k, session, name);
    run_patiently(k, &op);
    must(op.status == PW_OK && op.take.answer == PW_TOOK, 1);
    uint64_t epoch = op.take.row.epoch;
    for (uint64_t seq = 1; seq <= WRITES; seq++) {
        kit_entry *e = kit_step(k, seq, "t1", "tool:1:a");
        e->records[0].body = (pw_str){text, sizeof(text)};
        op = kit_append(k, session, epoch, &e->append);
        run_patiently(k, &op);
        must(op.status == PW_OK, 2);
        pw_op read = kit_read(k, PW_OP_SESSION, session);
        kit_run(k, &read, 1);
        must(read.status == PW_OK && read.session.row.last_seq == seq, 3);
        pw_store_changed(k->store);
        must(log_size(k) < 64 << 20, 4);
    }
}

static void test_case_I3_the_log_stays_small_under_eight_writers(void **state)
{
    kit *k = *state;
    pid_t pids[WRITERS];
    int64_t ids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        ids[i] = kit_session(k, name);
    }
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = child(k, write_much, (int)ids[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(ended(pids[i]), 0);
    }
    print_message("          log: %lld KiB\n", (long long)(log_size(k) >> 10));
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(kit_row(k, ids[i]).last_seq, WRITES);
    }
    kit_sound(k);
}

static void append_and_say(kit *k, int fd)
{
    pw_op op = kit_owner_op(k, PW_OP_JOIN, "child");
    run_patiently(k, &op);
    op = kit_take(k, 1, "child");
    op.take.take_over = true;
    run_patiently(k, &op);
    must(op.status == PW_OK && op.take.answer == PW_TOOK, 1);
    uint64_t epoch = op.take.row.epoch;
    for (uint64_t seq = op.take.row.last_seq + 1;; seq++) {
        kit_entry *e = kit_entry_new(k);
        kit_entry_record(k, e, seq, PW_RECORD_TOOL_STARTED, "t1", "tool:1:a");
        kit_entry_record(k, e, ++seq, PW_RECORD_TOOL_COMPLETED, "t1", "tool:1:a");
        op = kit_append(k, 1, epoch, &e->append);
        run_patiently(k, &op);
        must(op.status == PW_OK, 2);
        must(write(fd, &seq, sizeof(seq)) == sizeof(seq), 3);
    }
}

static void test_J4_killed_amid_commits_loses_nothing_acknowledged(void **state)
{
    kit *k = *state;
    kit_session(k, "s");
    uint32_t random = 99;
    for (int round = 0; round < 25; round++) {
        int fds[2];
        uint64_t acknowledged = 0, seq;
        assert_int_equal(pipe(fds), 0);
        pid_t pid = child(k, append_and_say, fds[1]);
        close(fds[1]);
        assert_int_equal(read(fds[0], &seq, sizeof(seq)), sizeof(seq));
        acknowledged = seq;
        random = random * 1664525u + 1013904223u;
        struct timespec t = {0, (long)(random % 30000000)};
        nanosleep(&t, NULL);
        kill(pid, SIGKILL);
        ended(pid);
        while (read(fds[0], &seq, sizeof(seq)) == sizeof(seq)) {
            acknowledged = seq;
        }
        close(fds[0]);
        pw_session_row row = kit_row(k, 1);
        assert_true(row.last_seq == acknowledged || row.last_seq == acknowledged + 2);
    }
    kit_sound(k);
}

#define STORY(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
int main(void)
{
    kit_scheme = "sqlite";
    const struct CMUnitTest tests[] = {
        STORY(test_J8_a_newer_schema_is_refused_and_untouched),
        STORY(test_J8_a_newer_schema_in_the_log_is_untouched_too),
        STORY(test_a_close_leaves_one_file),
        STORY(test_many_processes_may_race_to_create),
        STORY(test_an_apps_own_tables_live_beside),
        STORY(test_open_says_what_is_wrong),
        STORY(test_J4_a_file_that_may_only_be_read),
        STORY(test_J4_a_store_opened_for_reading_writes_nothing),
        STORY(test_J4_a_damaged_page_is_said_so),
        STORY(test_verify_finds_what_was_tampered_with),
        STORY(test_views_for_people),
        STORY(test_case_J2_two_processes_one_file),
        STORY(test_J2_the_lock_dies_with_its_process),
        STORY(test_case_I3_a_foreign_lock_is_outwaited),
        STORY(test_case_I3_the_log_stays_small_under_eight_writers),
        STORY(test_J4_killed_amid_commits_loses_nothing_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
