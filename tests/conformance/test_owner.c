/* Ownership: J1, J2, C4, J7: who may take what, when it counts as an interruption, and what is due.
 */
#include "conformance/stories.h"

static void join(kit *k, const char *owner)
{
    pw_op op = kit_owner_op(k, PW_OP_JOIN, owner);
    kit_ok(k, &op);
}

static void leave(kit *k, const char *owner)
{
    pw_op op = kit_owner_op(k, PW_OP_LEAVE, owner);
    kit_ok(k, &op);
}

static pw_op take(kit *k, int64_t id, const char *owner, pw_taken wanted)
{
    pw_op op = kit_take(k, id, owner);
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, wanted);
    return op;
}

static void test_J2_owners_join_beat_and_leave(void **state)
{
    kit *k = *state;
    join(k, "you");
    k->now_ms += 5;
    pw_op beat = kit_owner_op(k, PW_OP_BEAT, "you");
    kit_ok(k, &beat);
    pw_op op = {.kind = PW_OP_OWNERS, .arena = &k->arena};
    kit_ok(k, &op);
    assert_int_equal(op.owners.count, 2);
    assert_string_equal(op.owners.rows[0].id.text, k->me.text);
    assert_int_equal(op.owners.rows[0].beat, 1);
    assert_int_equal(op.owners.rows[1].beat, 2);
    assert_int_equal(op.owners.rows[1].at_ms, k->now_ms);
    assert_text(op.owners.rows[1].address, "127.0.0.1:1");
    join(k, "you"); /* again: as it was */
    kit_ok(k, &op);
    assert_int_equal(op.owners.rows[1].beat, 2);
    leave(k, "you");
    leave(k, "you");
    kit_run(k, &beat, 1);
    assert_status(beat, PW_FENCED);
    kit_ok(k, &op);
    assert_int_equal(op.owners.count, 1);
}

static void test_J2_a_free_session_is_taken_once(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    join(k, "you");
    pw_op op = take(k, id, "you", PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_NEW);
    assert_int_equal(op.take.row.epoch, 1);
    assert_int_equal(op.take.row.id, id);
    assert_text(op.take.row.owner, kit_owner("you").text);
    assert_text(op.take.row.uid, "uid-s");
    assert_text(op.take.row.name, "s");
    assert_text(op.take.row.principal, "local");
    assert_text(op.take.row.agent, "ops");
    assert_int_equal(op.take.row.admitted, 1);
    assert_false(op.take.row.owner_released);
    take(k, id, "", PW_TAKE_NOT_FREE);
    take(k, id, "you", PW_TAKE_NOT_FREE); /* one's own again only by `reload` */
    take(k, 4711, "", PW_TAKE_NONE);
    assert_int_equal(kit_row(k, id).epoch, 1);
}

static void test_J2_an_owner_without_a_row_takes_nothing(void **state)
{
    kit *k = *state;
    int64_t id = kit_session(k, "s");
    pw_op op = kit_take(k, id, "stranger");
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    assert_int_equal(kit_row(k, id).epoch, 0);
}

static void test_J2_a_dead_owner_is_dead_only_with_the_beat_seen(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    join(k, "you");
    pw_dead_owner dead[2] = {{kit_owner("nobody"), 1}, {k->me, 1}};
    pw_op beat = kit_owner_op(k, PW_OP_BEAT, "me");
    kit_ok(k, &beat);
    pw_op op = kit_take(k, id, "you");
    op.take.dead = dead;
    op.take.dead_count = 2;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOT_FREE); /* it has beaten since */
    dead[1].beat = 2;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_RECOVERY);
    assert_int_equal(op.take.row.crashes, 1);
    pw_op owners = {.kind = PW_OP_OWNERS, .arena = &k->arena};
    kit_ok(k, &owners); /* and with nothing left its row is gone */
    assert_int_equal(owners.owners.count, 1);
    kit_run(k, &beat, 1);
    assert_status(beat, PW_FENCED);
}

static void test_J2_a_dead_owner_stays_while_it_has_sessions(void **state)
{
    kit *k = *state;
    int64_t one = kit_running(k, "one");
    int64_t two = kit_running(k, "two");
    join(k, "you");
    pw_dead_owner dead = {k->me, 1};
    pw_op op = kit_take(k, one, "you");
    op.take.dead = &dead;
    op.take.dead_count = 1;
    kit_ok(k, &op);
    pw_op owners = {.kind = PW_OP_OWNERS, .arena = &k->arena};
    kit_ok(k, &owners);
    assert_int_equal(owners.owners.count, 2);
    op = kit_take(k, two, "you");
    op.take.dead = &dead;
    op.take.dead_count = 1;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    kit_ok(k, &owners);
    assert_int_equal(owners.owners.count, 1);
}

static void test_C4_a_drained_turn_is_no_interruption(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = {.kind = PW_OP_RELEASE, .release = {id, 1, 0, 1}};
    kit_ok(k, &op);
    assert_true(kit_row(k, id).owner_released);
    op = take(k, id, "", PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_DRAINED);
    assert_int_equal(op.take.row.crashes, 0);
    assert_int_equal(op.take.row.epoch, 2);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 1, 0, 1}};
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {4711, 1, 0, 1}};
    kit_run(k, &op, 1);
    assert_status(op, PW_FENCED);
}

static void test_C4_a_dead_owner_with_no_turn_is_no_interruption(void **state)
{
    kit *k = *state;
    int64_t id = kit_taken(k, "s");
    join(k, "you");
    leave(k, "me");
    pw_op op = take(k, id, "you", PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_NEW);
    assert_int_equal(op.take.row.crashes, 0);
}

/* A turn of `me` that ended up in `state`, still owned. */
static int64_t waiting(kit *k, const char *session, pw_turn_state turn_state)
{
    int64_t id = kit_running(k, session);
    kit_entry *e = kit_entry_new(k);
    kit_entry_record(k, e, 2, PW_RECORD_WAIT_SET, "t1", "");
    e->append.turn = PW_STR("t1");
    e->append.turn_state = turn_state;
    e->append.head = (pw_head){.set = true,
                               .state = turn_state,
                               .turn = PW_STR("t1"),
                               .base_seq = -1,
                               .wake_at_ms = k->now_ms + 50,
                               .looked_n = 1};
    pw_op op = kit_append(k, id, 1, &e->append);
    kit_ok(k, &op);
    return id;
}

static void test_C4_a_suspended_turn_is_exempt(void **state)
{
    kit *k = *state;
    int64_t id = waiting(k, "p", PW_TURN_SUSPENDED);
    join(k, "you");
    leave(k, "me");
    pw_op op = kit_take(k, id, "you");
    op.take.max_attempts = 0;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_RESUME);
    assert_int_equal(op.take.row.crashes, 0);
}

/* A waiting turn is let go of: one that a dead process owned died of being loaded, and would for
 * ever. */
static void test_C4_a_process_that_dies_of_a_waiting_turn_counts(void **state)
{
    kit *k = *state;
    int64_t id = waiting(k, "w", PW_TURN_WAITING);
    leave(k, "me");
    join(k, "p1");
    pw_op op = take(k, id, "p1", PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_RESUME); /* no call of it was lost */
    assert_int_equal(op.take.row.crashes, 1);
    leave(k, "p1");
    join(k, "p2");
    op = kit_take(k, id, "p2");
    op.take.refuse_suspect_from = 2;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOT_FREE);
    op = kit_take(k, id, "p2");
    op.take.max_attempts = 1;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_QUARANTINED);
}

static void test_J4_a_reload_is_no_interruption(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    pw_op op = kit_take(k, id, "");
    op.take.reload = true;
    op.take.only_due = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_RELOAD);
    assert_int_equal(op.take.row.epoch, 2);
    assert_int_equal(op.take.row.crashes, 0);
    join(k, "you");
    op = kit_take(k, id, "you");
    op.take.reload = true; /* not mine: no excuse */
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOT_FREE);
    /* the append of unknown fate had let go: it is free, and taken as such */
    kit_entry *e = kit_turn_ended(k, 2, "t1", 1);
    op = kit_append(k, id, 2, &e->append);
    kit_ok(k, &op);
    op = kit_take(k, id, "");
    op.take.reload = true;
    op.take.only_due = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_NEW);
}

static void test_J2_taking_over_by_name(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    join(k, "you");
    pw_op op = kit_take(k, id, "you");
    op.take.take_over = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_TAKEN);
    assert_int_equal(op.take.row.crashes, 0);
    assert_int_equal(op.take.row.epoch, 2);
    leave(k, "you"); /* dead, but asked for by name: not counted */
    op = kit_take(k, id, "");
    op.take.take_over = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.cause, PW_CAUSE_TAKEN);
    assert_int_equal(op.take.row.crashes, 0);
}

static void test_C4_interruptions_end_in_quarantine(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    leave(k, "me");
    for (int crash = 1; crash <= 3; crash++) {
        char name[3] = {'p', (char)('0' + crash), '\0'};
        join(k, name);
        pw_op op = kit_take(k, id, name);
        op.take.max_attempts = 3;
        kit_ok(k, &op);
        assert_int_equal(op.take.answer, PW_TOOK);
        assert_int_equal(op.take.cause, PW_CAUSE_RECOVERY);
        assert_int_equal(op.take.row.crashes, crash);
        leave(k, name);
    }
    join(k, "me");
    pw_op op = kit_take(k, id, "");
    op.take.max_attempts = 3;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_QUARANTINED);
    pw_session_row row = kit_row(k, id);
    assert_true(row.quarantined);
    assert_int_equal(row.crashes, 3);
    assert_int_equal(row.owner.len, 0);
    assert_int_equal(row.epoch, 5); /* whoever held it is fenced for good */
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_QUARANTINED);
    assert_int_equal(kit_row(k, id).epoch, 5);
    pw_op due = kit_due(k, "");
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 0);
    op.take.take_over = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.cause, PW_CAUSE_TAKEN);
    assert_int_equal(op.take.row.crashes, 0);
    assert_false(op.take.row.quarantined);
    kit_sound(k);
}

static void test_C4_suspects_are_refused_while_another_is_in_hand(void **state)
{
    kit *k = *state;
    int64_t id = kit_running(k, "s");
    leave(k, "me");
    join(k, "p1");
    take(k, id, "p1", PW_TOOK);
    leave(k, "p1");
    join(k, "me");
    pw_op op = kit_take(k, id, "");
    op.take.refuse_suspect_from = 2;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOT_FREE);
    assert_int_equal(kit_row(k, id).crashes, 1);
    op.take.refuse_suspect_from = 3;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    assert_int_equal(op.take.row.crashes, 2);
}

static void test_J7_only_due_sessions_when_asked(void **state)
{
    kit *k = *state;
    pw_op op = kit_admit(k, "s", "r1", "x");
    op.admit.due_at_ms = k->now_ms + 100;
    kit_ok(k, &op);
    int64_t id = op.admit.session_id;
    op = kit_take(k, id, "");
    op.take.only_due = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOTHING_DUE);
    op.take.now_ms += 100;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TOOK);
    op = (pw_op){.kind = PW_OP_RELEASE, .release = {id, 1, -1, 1}};
    kit_ok(k, &op);
    op = kit_take(k, id, "");
    op.take.only_due = true;
    kit_ok(k, &op);
    assert_int_equal(op.take.answer, PW_TAKE_NOTHING_DUE);
}

static void test_J7_due_lists_what_is_free_earliest_first(void **state)
{
    kit *k = *state;
    static const int64_t at[6] = {30, 10, 20, 500, 10, 900};
    int64_t ids[6];
    for (int i = 0; i < 6; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        pw_op op = kit_admit(k, name, "r1", "x");
        op.admit.due_at_ms = k->now_ms + at[i];
        kit_ok(k, &op);
        ids[i] = op.admit.session_id;
    }
    pw_op due = kit_due(k, "");
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 0);
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 10);
    due.due.now_ms += 30;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 4);
    assert_int_equal(due.due.rows[0].id, ids[1]);
    assert_int_equal(due.due.rows[1].id, ids[4]);
    assert_int_equal(due.due.rows[2].id, ids[2]);
    assert_int_equal(due.due.rows[3].id, ids[0]);
    assert_text(due.due.rows[3].name, "a");
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 500);
    due.due.limit = 2;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 2);
    due.due.session_id = ids[0];
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 1);
    assert_int_equal(due.due.rows[0].id, ids[0]);
    assert_int_equal(due.due.next_wake_ms, -1);
    due.due.session_id = ids[3];
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 0);
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 500);
}

static void test_J7_due_of_some_agents_is_not_hidden_by_others(void **state)
{
    kit *k = *state;
    static const char *const agents[] = {"other", "op",  "ops%", "OPS",
                                         "o_s",   "ops", "ops",  "sales"};
    int64_t ids[8];
    for (int i = 0; i < 8; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        pw_op op = kit_admit(k, name, "r1", "x");
        op.admit.agent = pw_str_from(agents[i]);
        op.admit.due_at_ms = k->now_ms + i;
        kit_ok(k, &op);
        ids[i] = op.admit.session_id;
    }
    const pw_str mine[] = {PW_STR("sales"), PW_STR("ops")};
    pw_op due = kit_due(k, "");
    due.due.now_ms += 5;
    due.due.agents = mine;
    due.due.agent_count = 2;
    due.due.limit = 1;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 1);
    assert_int_equal(due.due.rows[0].id, ids[5]);
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 6);
    due.due.limit = 100;
    due.due.now_ms += 5;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 3);
    assert_int_equal(due.due.rows[2].id, ids[7]);
    assert_int_equal(due.due.next_wake_ms, -1);
    due.due.agent_count = 1; /* sales alone */
    due.due.now_ms = k->now_ms;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 0);
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 7);
    due.due.session_id = ids[0]; /* one that is named is of any agent */
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 1);
}

static void test_J7_due_knows_mine_theirs_and_the_dead(void **state)
{
    kit *k = *state;
    int64_t mine = kit_running(k, "mine");
    join(k, "you");
    int64_t yours = kit_session(k, "yours");
    take(k, yours, "you", PW_TOOK);
    int64_t nobodys = kit_session(k, "nobodys");
    pw_op due = kit_due(k, "");
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 1);
    assert_int_equal(due.due.rows[0].id, nobodys);
    pw_dead_owner dead = {kit_owner("you"), 1};
    due.due.dead = &dead;
    due.due.dead_count = 1;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 2);
    assert_int_equal(due.due.rows[0].id, yours);
    dead.beat = 9;
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 1);
    due.due.dead_count = 0;
    leave(k, "you"); /* no row: dead for everybody */
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 2);
    due = kit_due(k, "third");
    leave(k, "me");
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 3);
    assert_int_equal(due.due.rows[0].id, mine); /* an open running turn is always due */
    due.due.owner = (pw_owner_id){{0}};
    kit_ok(k, &due);
    assert_int_equal(due.due.count, 3);
}

static void test_J7_next_wake_is_not_mine(void **state)
{
    kit *k = *state;
    int64_t ids[2];
    for (int i = 0; i < 2; i++) {
        pw_op op = kit_admit(k, i == 0 ? "a" : "b", "r1", "x");
        op.admit.due_at_ms = k->now_ms + 100 + 100 * i;
        kit_ok(k, &op);
        ids[i] = op.admit.session_id;
    }
    take(k, ids[0], "", PW_TOOK);
    pw_op due = kit_due(k, "");
    kit_ok(k, &due);
    assert_int_equal(due.due.next_wake_ms, k->now_ms + 200);
    take(k, ids[1], "", PW_TOOK);
    kit_ok(k, &due);
    assert_int_equal(due.due.next_wake_ms, -1);
}

static void test_J7_many_sessions_wake_in_order(void **state)
{
    kit *k = *state;
    enum { COUNT = 300 };
    pw_op *ops = PW_NEW_ARRAY(&k->arena, pw_op, COUNT);
    char *names = PW_NEW_ARRAY(&k->arena, char, COUNT * 8);
    uint32_t random = 7;
    for (int i = 0; i < COUNT; i++) {
        char *name = names + 8 * i;
        name[0] = 's';
        name[1] = (char)('a' + i / 26);
        name[2] = (char)('a' + i % 26);
        ops[i] = kit_admit(k, name, "r1", "x");
        random = random * 1664525u + 1013904223u;
        ops[i].admit.due_at_ms = k->now_ms + random % 64;
    }
    kit_run(k, ops, COUNT);
    /* wake times move up and down, and away */
    for (int i = 0; i < COUNT; i += 2) {
        pw_op op = take(k, ops[i].admit.session_id, "", PW_TOOK);
        random = random * 1664525u + 1013904223u;
        int64_t wake = i % 6 == 0 ? -1 : k->now_ms + random % 64;
        op = (pw_op){.kind = PW_OP_RELEASE, .release = {op.take.row.id, 1, wake, 1}};
        kit_ok(k, &op);
    }
    pw_op due = kit_due(k, "");
    due.due.now_ms += 40;
    due.due.limit = 0;
    kit_ok(k, &due);
    size_t expected = 0;
    int64_t next = -1;
    for (int i = 0; i < COUNT; i++) {
        int64_t wake = kit_row(k, ops[i].admit.session_id).wake_at_ms;
        expected += wake >= 0 && wake <= due.due.now_ms;
        if (wake > due.due.now_ms && (next < 0 || wake < next)) {
            next = wake;
        }
    }
    assert_int_equal(due.due.count, expected);
    assert_int_equal(due.due.next_wake_ms, next);
    for (size_t i = 1; i < due.due.count; i++) {
        const pw_session_row *a = &due.due.rows[i - 1], *b = &due.due.rows[i];
        assert_true(a->wake_at_ms < b->wake_at_ms ||
                    (a->wake_at_ms == b->wake_at_ms && a->id < b->id));
    }
}

const struct CMUnitTest owner_stories[] = {
    STORY(test_J2_owners_join_beat_and_leave),
    STORY(test_J2_a_free_session_is_taken_once),
    STORY(test_J2_an_owner_without_a_row_takes_nothing),
    STORY(test_J2_a_dead_owner_is_dead_only_with_the_beat_seen),
    STORY(test_J2_a_dead_owner_stays_while_it_has_sessions),
    STORY(test_C4_a_drained_turn_is_no_interruption),
    STORY(test_C4_a_dead_owner_with_no_turn_is_no_interruption),
    STORY(test_C4_a_suspended_turn_is_exempt),
    STORY(test_C4_a_process_that_dies_of_a_waiting_turn_counts),
    STORY(test_J4_a_reload_is_no_interruption),
    STORY(test_J2_taking_over_by_name),
    STORY(test_C4_interruptions_end_in_quarantine),
    STORY(test_C4_suspects_are_refused_while_another_is_in_hand),
    STORY(test_J7_only_due_sessions_when_asked),
    STORY(test_J7_due_lists_what_is_free_earliest_first),
    STORY(test_J7_due_of_some_agents_is_not_hidden_by_others),
    STORY(test_J7_due_knows_mine_theirs_and_the_dead),
    STORY(test_J7_next_wake_is_not_mine),
    STORY(test_J7_many_sessions_wake_in_order),
};
const size_t owner_stories_count = sizeof(owner_stories) / sizeof(owner_stories[0]);
