/*
 * Every read, write, sync, open and shared page of a short story fails once, or from there on for
 * ever: an I/O error or a full disk. Whatever happens, answers are typed, what was acknowledged is
 * there after a reopen (and after a crash, which is a copy of the files), what was answered `not
 * committed` is not, and the store is sound. Case I3.
 */
#include "conformance/kit.h"
#include "fault_vfs.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEPS = 4, ADMISSIONS = 3 };

typedef struct story {
    kit *k;
    uint64_t epoch;
    uint64_t last_seq;      /* of what is known to be there */
    bool maybe_more;        /* one append beyond it has an unknown fate */
    uint64_t admitted;      /* acknowledged */
    uint64_t admitted_most; /* with those of unknown fate */
    int64_t id;
    bool over; /* the store does not come back: the story ends here */
} story;

static void typed(const pw_op *op)
{
    switch ((int)op->status) {
    case PW_OK:
        assert_int_equal(op->error.code, PW_OK);
        return;
    case PW_NOT_COMMITTED:
        assert_true(op->error.code == PW_FULL || op->error.code == PW_IO ||
                    op->error.code == PW_LOCKED || op->error.code == PW_READ_ONLY);
        break;
    case PW_UNKNOWN:
    case PW_IO:
    case PW_FULL:
    case PW_CORRUPT: /* a page that could not be read whole */
    case PW_READ_ONLY:
        break;
    case PW_NOMEM:
        assert_true((fault_plan.what & FAULT_MEMORY) != 0);
        break;
    default:
        print_error("untyped: %d %s\n", op->status, op->error.message);
        fail();
    }
    assert_true(op->error.message[0] != '\0');
}

/* Tries again while nothing was changed; a store that never comes back ends the story. */
static void until_known(story *s, pw_op *op)
{
    for (int i = 0; i < 3; i++) {
        kit_run(s->k, op, 1);
        typed(op);
        if (op->status == PW_OK || op->status == PW_UNKNOWN) {
            return;
        }
    }
    s->over = true;
}

static void admissions(story *s)
{
    for (int i = 0; i < ADMISSIONS && !s->over; i++) {
        char request[4] = {'r', (char)('1' + i), '\0', '\0'};
        pw_op op = kit_admit(s->k, "s", request, "hello");
        for (int tries = 0; tries < 3; tries++) { /* an admission may be sent again (A2) */
            until_known(s, &op);
            s->admitted_most = (uint64_t)i + 1;
            if (s->over || op.status == PW_OK) {
                break;
            }
        }
        if (op.status == PW_OK) {
            s->id = op.admit.session_id;
            s->admitted = (uint64_t)i + 1;
        } else {
            s->over = true;
        }
    }
}

/* J4: after an unknown fate the owner takes its session again, and only then looks. */
static void take(story *s, bool reload)
{
    pw_op op;
    for (int i = 0; i < 5 && !s->over; i++) {
        op = kit_take(s->k, s->id, "");
        op.take.reload = reload || i > 0;
        until_known(s, &op);
        if (s->over || op.status == PW_OK) {
            break;
        }
    }
    if (s->over || op.status != PW_OK) {
        s->over = true;
        return;
    }
    assert_int_equal(op.take.answer, PW_TOOK);
    s->epoch = op.take.row.epoch;
    assert_true(op.take.row.last_seq == s->last_seq ||
                (s->maybe_more && op.take.row.last_seq == s->last_seq + 1));
    s->last_seq = op.take.row.last_seq;
    s->maybe_more = false;
}

static void append(story *s)
{
    uint64_t seq = s->last_seq + 1;
    kit_entry *e = seq == 1       ? kit_turn_opened(s->k, 1, "t1", 1, ADMISSIONS)
                   : seq == STEPS ? kit_turn_ended(s->k, seq, "t1", ADMISSIONS)
                                  : kit_step(s->k, seq, "t1", "tool:1:a");
    pw_op op = kit_append(s->k, s->id, s->epoch, &e->append);
    until_known(s, &op);
    if (s->over) {
        return;
    }
    if (op.status == PW_OK) {
        s->last_seq = seq;
        return;
    }
    s->maybe_more = true;
    take(s, true);
}

static void tell(story *s)
{
    admissions(s);
    if (!s->over) {
        take(s, false);
    }
    while (!s->over && s->last_seq < STEPS) {
        append(s);
    }
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        unlink(to);
        return;
    }
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (ssize_t n; (n = read(in, bytes, sizeof(bytes))) > 0;) {
        assert_int_equal(write(out, bytes, (size_t)n), n);
    }
    close(in);
    close(out);
}

static void check(const story *s, const char *url)
{
    pw_op op;
    kit k = {.store = kit_open(url), .now_ms = s->k->now_ms};
    assert_non_null(k.store);
    pw_arena_init(&k.arena, &pw_heap, 0, 0);
    kit_sound(&k);
    if (s->id != 0) {
        pw_session_row row = kit_row(&k, s->id);
        assert_true(row.last_seq == s->last_seq ||
                    (s->maybe_more && row.last_seq == s->last_seq + 1));
        assert_true(row.admitted >= s->admitted && row.admitted <= s->admitted_most);
        op = kit_read(&k, PW_OP_RECORDS, s->id);
        kit_ok(&k, &op);
        assert_int_equal(op.records.count, row.last_seq);
        for (uint64_t i = 0; i < s->admitted; i++) {
            char request[4] = {'r', (char)('1' + i), '\0', '\0'};
            op = kit_read(&k, PW_OP_MESSAGE, s->id);
            op.message.request_id = pw_str_from(request);
            kit_ok(&k, &op);
        }
    }
    pw_arena_free(&k.arena);
    pw_store_close(k.store);
}

/* What a crash here would leave: the files as they are (suffix ""), or only what was synced
 * (".disk"). */
static void check_crash(const story *s, const char *suffix)
{
    static const char *const parts[] = {"", "-wal"};
    char from[160], to[160], url[160];
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof(from), "%s/pawl.db%s%s", s->k->dir, parts[i], suffix);
        snprintf(to, sizeof(to), "%s/copy.db%s", s->k->dir, parts[i]);
        copy_file(from, to);
    }
    snprintf(to, sizeof(to), "%s/copy.db-shm", s->k->dir);
    unlink(to);
    snprintf(url, sizeof(url), "sqlite:%s/copy.db", s->k->dir);
    check(s, url);
}

/* One telling with one fault. False when the story is over before the fault comes. */
static bool round_of(unsigned what, uint64_t at, bool forever, bool full, bool torn)
{
    kit k = {.now_ms = 1700000000000, .me = kit_owner("me")};
    story s = {.k = &k};
    pw_error error = {0};
    kit_dir_make(k.dir);
    snprintf(k.url, sizeof(k.url), "sqlite:%s/pawl.db", k.dir);
    pw_arena_init(&k.arena, &pw_heap, 0, 0);
    fault_vfs_clear();
    fault_plan = (fault_vfs){
        .what = what, .at = at, .forever = forever, .full = full, .torn = torn, .disk = true};
    pw_store_options options = {.url = pw_str_from(k.url), .allocator = &pw_heap};
    pw_status status = pw_store_open(&options, &k.store, &error);
    if (status == PW_OK) {
        pw_op join = kit_owner_op(&k, PW_OP_JOIN, "me");
        until_known(&s, &join);
        if (!s.over && join.status == PW_UNKNOWN) {
            until_known(&s, &join);
            s.over = s.over || join.status != PW_OK;
        }
        if (!s.over) {
            tell(&s);
        }
    } else {
        assert_null(k.store);
        assert_true(status == PW_IO || status == PW_FULL || status == PW_LOCKED ||
                    status == PW_CORRUPT || (what == FAULT_MEMORY && status == PW_NOMEM));
        assert_int_equal(error.code, status);
    }
    bool failed = fault_plan.failed > 0;
    fault_vfs_clear();
    check_crash(&s, "");
    if (s.admitted > 0) {
        check_crash(&s, ".disk");
    }
    if (status == PW_OK) {
        pw_store_close(k.store);
    }
    check(&s, k.url);
    pw_arena_free(&k.arena);
    kit_dir_remove(k.dir);
    return failed;
}

/* There are thousands of allocations, most of them alike: every 11th, and another 11th each run
 * would be the same. */
static void test_J4_sqlite_runs_out_of_memory(void **state)
{
    uint64_t at = 1;
    (void)state;
    while (round_of(FAULT_MEMORY, at, at % 2 == 0, false, false)) {
        at += 11;
    }
    print_message("          %llu places\n", (unsigned long long)at);
}

static void sweep(unsigned what, bool forever, bool full, bool torn)
{
    uint64_t at = 1;
    while (round_of(what, at, forever, full, torn)) {
        at++;
    }
    print_message("          %llu places\n", (unsigned long long)(at - 1));
    assert_true(at > 1);
}

#define SWEEP(name, ...)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        sweep(__VA_ARGS__);                                                                        \
    }
SWEEP(test_case_I3_a_write_is_torn, FAULT_WRITE, false, false, true)
SWEEP(test_case_I3_writes_fail_for_ever, FAULT_WRITE, true, false, true)
SWEEP(test_case_I3_the_disk_is_full_once, FAULT_WRITE | FAULT_TRUNCATE, false, true, true)
SWEEP(test_case_I3_the_disk_stays_full, FAULT_WRITE | FAULT_TRUNCATE, true, true, true)
SWEEP(test_case_I3_a_sync_fails_once, FAULT_SYNC, false, false, false)
SWEEP(test_case_I3_syncs_fail_for_ever, FAULT_SYNC, true, false, false)
SWEEP(test_J4_an_open_fails_once, FAULT_OPEN, false, false, false)
SWEEP(test_J4_a_read_fails_once, FAULT_READ, false, false, false)
SWEEP(test_J4_reads_fail_for_ever, FAULT_READ, true, false, false)
SWEEP(test_J4_a_shared_page_fails_once, FAULT_SHM, false, false, false)
SWEEP(test_J4_anything_fails_for_ever, FAULT_ANY, true, true, true)

static void test_one_sync_a_commit(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    uint64_t before = fault_plan.syncs;
    for (uint64_t seq = 2; seq <= 101; seq++) {
        kit_entry *e = kit_step(k, seq, "t1", "tool:1:a");
        pw_op op = kit_append(k, id, 1, &e->append);
        kit_ok(k, &op);
    }
    assert_int_equal(fault_plan.syncs - before, 100);
}

static void test_case_I3_a_full_batch_is_run_one_by_one(void **state)
{
    kit *k = *state;
    int64_t ids[8];
    pw_op ops[8];
    for (int i = 0; i < 8; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        ids[i] = kit_running(k, name);
        kit_entry *e = kit_step(k, 2, "t1", "tool:1:a");
        ops[i] = kit_append(k, ids[i], 1, &e->append);
    }
    fault_vfs_clear();
    fault_plan = (fault_vfs){.what = FAULT_WRITE, .at = 3, .full = true, .torn = true};
    kit_run(k, ops, 8);
    assert_int_equal(fault_plan.failed, 1);
    for (int i = 0; i < 8; i++) {
        assert_status(ops[i], PW_OK);
        assert_int_equal(kit_row(k, ids[i]).last_seq, 2);
    }
    for (int i = 0; i < 8; i++) {
        kit_entry *e = kit_step(k, 3, "t1", "tool:1:a");
        ops[i] = kit_append(k, ids[i], 1, &e->append);
    }
    fault_plan = (fault_vfs){.what = FAULT_SYNC, .at = 1};
    kit_run(k, ops, 8);
    for (int i = 0; i < 8; i++) { /* nobody knows, and nobody is asked again */
        assert_status(ops[i], PW_UNKNOWN);
        assert_int_equal(ops[i].error.code, PW_IO);
    }
    fault_vfs_clear();
    kit_sound(k);
}

int main(void)
{
    kit_scheme = "sqlite";
    if (fault_vfs_register() != SQLITE_OK) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_I3_a_write_is_torn),
        cmocka_unit_test(test_case_I3_writes_fail_for_ever),
        cmocka_unit_test(test_case_I3_the_disk_is_full_once),
        cmocka_unit_test(test_case_I3_the_disk_stays_full),
        cmocka_unit_test(test_case_I3_a_sync_fails_once),
        cmocka_unit_test(test_case_I3_syncs_fail_for_ever),
        cmocka_unit_test(test_J4_an_open_fails_once),
        cmocka_unit_test(test_J4_a_read_fails_once),
        cmocka_unit_test(test_J4_reads_fail_for_ever),
        cmocka_unit_test(test_J4_a_shared_page_fails_once),
        cmocka_unit_test(test_J4_anything_fails_for_ever),
        cmocka_unit_test(test_J4_sqlite_runs_out_of_memory),
        cmocka_unit_test_setup_teardown(test_one_sync_a_commit, kit_setup, kit_teardown),
        cmocka_unit_test_setup_teardown(test_case_I3_a_full_batch_is_run_one_by_one, kit_setup,
                                        kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
