/*
 * The store's own memory runs out: at each allocation in turn an operation answers `no_memory` and
 * has changed nothing, which the same operation shows when it is tried again: it answers as if for
 * the first time. Both backends.
 */
#include "conformance/kit.h"
#include "support/failing_allocator.h"

#include <stdio.h>

static pw_test_allocator memory;

/* Runs an op; out of memory once, it is run again and must do as if nothing had been. */
static void again(kit *k, pw_op *op)
{
    kit_run(k, op, 1);
    if (op->status == PW_NOMEM) {
        assert_int_equal(op->error.code, PW_NOMEM);
        kit_run(k, op, 1);
    }
    assert_status(*op, PW_OK);
}

static void reads(kit *k, int64_t id)
{
    pw_op ops[] = {kit_read(k, PW_OP_SESSION, id),
                   kit_read(k, PW_OP_RECORDS, id),
                   kit_read(k, PW_OP_INBOX, id),
                   kit_read(k, PW_OP_MESSAGE, id),
                   kit_read(k, PW_OP_TURN, id),
                   kit_read(k, PW_OP_TURNS, id),
                   kit_due(k, "you"),
                   {.kind = PW_OP_OWNERS},
                   {.kind = PW_OP_SESSIONS},
                   {.kind = PW_OP_BLOB},
                   {.kind = PW_OP_VERIFY}};
    pw_hash hash = pw_sha256_of(PW_STR("{}"));
    pw_hash_hex hex = pw_hash_to_hex(&hash);
    ops[3].message.request_id = PW_STR("r1");
    ops[4].turn.turn = PW_STR("t1");
    ops[8].sessions.principal = PW_STR("local");
    ops[9].blob.hash = pw_str_from(hex.text);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        pw_arena arena;
        pw_arena_init(&arena, &memory.allocator, 16, 0);
        ops[i].arena = &arena;
        again(k, &ops[i]);
        if (i == 1) {
            assert_int_equal(ops[i].records.count, 4);
        }
        if (i == 10) {
            assert_int_equal(ops[i].verify.faults, 0);
        }
        pw_arena_free(&arena);
    }
}

static void writes(kit *k, pw_arena *arena)
{
    pw_op op = kit_owner_op(k, PW_OP_JOIN, "me");
    again(k, &op);
    for (int i = 1; i <= 3; i++) {
        char request[3] = {'r', (char)('0' + i), '\0'};
        op = kit_admit(k, "s", request, "hello");
        op.arena = arena;
        again(k, &op);
        assert_int_equal(op.admit.answer, PW_ADMITTED);
        assert_int_equal(op.admit.row.n, i);
        assert_int_equal(op.admit.session_id, 1);
    }
    pw_dead_owner dead = {kit_owner("nobody"), 1};
    op = kit_take(k, 1, "");
    op.arena = arena;
    op.take.dead = &dead;
    op.take.dead_count = 1;
    again(k, &op);
    assert_int_equal(op.take.row.epoch, 1);
    pw_hash hash = pw_sha256_of(PW_STR("{}"));
    kit_entry *e = kit_turn_opened(k, 1, "t1", 1, 2);
    kit_entry_record(k, e, 2, PW_RECORD_TOOL_STARTED, "t1", "tool:1:a");
    e->blobs[0] = (pw_blob){pw_hash_to_hex(&hash), PW_STR("{}")};
    e->blobs[1] = e->blobs[0];
    e->append.blob_count = 2;
    op = kit_append(k, 1, 1, &e->append);
    again(k, &op);
    op = kit_cancel(k, "s", "t1");
    op.arena = arena;
    again(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_ADMITTED);
    e = kit_step(k, 3, "t1", "tool:1:a");
    e->consumed[0] = (pw_consumed){4, PW_SETTLED};
    e->append.consumed_count = 1;
    op = kit_append(k, 1, 1, &e->append);
    again(k, &op);
    op = kit_cancel(k, "s", "t1"); /* anew, after it was dropped */
    op.arena = arena;
    again(k, &op);
    assert_int_equal(op.cancel.answer, PW_CANCEL_ADMITTED);
    op = kit_withdraw(k, "s", "r1");
    op.arena = arena;
    again(k, &op);
    assert_int_equal(op.withdraw.answer, PW_WITHDRAW_CLAIMED);
    e = kit_turn_ended(k, 4, "t1", 5);
    op = kit_append(k, 1, 1, &e->append);
    again(k, &op);
    op = kit_owner_op(k, PW_OP_LEAVE, "me");
    again(k, &op);
}

/* False when the story ended before the fault came. */
static bool round_at(uint64_t at)
{
    kit k = {.now_ms = 1700000000000, .me = kit_owner("me")};
    pw_arena arena;
    pw_error error = {0};
    strcpy(k.url, "memory:");
    if (strcmp(kit_scheme, "sqlite") == 0) {
        kit_dir_make(k.dir);
        snprintf(k.url, sizeof(k.url), "sqlite:%s/pawl.db", k.dir);
    }
    pw_test_allocator_init(&memory);
    pw_test_allocator_fail(&memory, at, false);
    pw_arena_init(&k.arena, &pw_heap, 0, 0); /* what the test itself needs does not fail */
    pw_store_options options = {.url = pw_str_from(k.url), .allocator = &memory.allocator};
    pw_status status = pw_store_open(&options, &k.store, &error);
    if (status == PW_NOMEM) {
        assert_null(k.store);
        assert_int_equal(memory.live_bytes, 0);
        status = pw_store_open(&options, &k.store, &error);
    }
    assert_int_equal(status, PW_OK);
    pw_arena_init(&arena, &memory.allocator, 16, 0);
    writes(&k, &arena);
    pw_arena_free(&arena);
    reads(&k, 1);
    bool failed = memory.failed > 0;
    kit_close(&k);
    assert_int_equal(memory.live_bytes, 0);
    assert_int_equal(memory.live_blocks, 0);
    pw_arena_free(&k.arena);
    if (k.dir[0] != '\0') {
        kit_dir_remove(k.dir);
    }
    return failed;
}

static void sweep(const char *scheme)
{
    uint64_t at = 1;
    kit_scheme = scheme;
    while (round_at(at)) {
        at++;
    }
    print_message("          %llu allocations\n", (unsigned long long)(at - 1));
    assert_true(at > 10);
}

static void test_out_of_memory_changes_nothing_memory(void **state)
{
    (void)state;
    sweep("memory");
}

static void test_out_of_memory_changes_nothing_sqlite(void **state)
{
    (void)state;
    sweep("sqlite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory_changes_nothing_memory),
        cmocka_unit_test(test_out_of_memory_changes_nothing_sqlite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
