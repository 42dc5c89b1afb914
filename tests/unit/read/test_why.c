/* Why a session is not running now: each cause under its own name (M5, case P2). */
#include "fixture.h"

#include "base/heap.h"
#include "story.h"

static void assert_why(fixture *f, const char *state, const char *reason, const char *words)
{
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/why");
    assert_at(doc, "session", "s1");
    assert_at(doc, "state", state);
    assert_at(doc, "reason", reason);
    assert_holds(fixture_get(doc, "words"), words);
    pw_str since = fixture_get(doc, "since");
    assert_false(pw_str_is(since, "null"));
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1"); /* the session says the same */
    assert_at(doc, "status", state);
    assert_at(doc, "reason", reason);
    pawl_doc_free(doc);
}

static void open_turn(fixture *f)
{
    fixture_admit(f, "s1", "r1", 1700000000500, 1700000000500);
    fixture_take(f, "s1");
    pw_record opened = STORY_OPENED;
    fixture_append(f, &opened, 1, 1);
}

static void test_M5_idle_says_how_the_last_turn_ended(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    assert_why(f, "idle", "null", "Its last turn, t1, completed at 2023-11-14T22:13:30.000Z.");
}

static void test_M5_idle_after_a_failure_names_its_reason_and_detail(void **state)
{
    fixture *f = *state;
    open_turn(f);
    pw_record ended =
        RECORD(2, TURN_ENDED, "t1", "",
               "{\"v\":1,\"state\":\"failed\",\"reason\":\"model\",\"detail\":\"no such model\"}");
    fixture_append(f, &ended, 1, 0);
    assert_why(f, "idle", "model", "failed at 2023-11-14T22:13:22.000Z (model): no such model.");
}

static void test_M5_idle_after_a_cancel_names_who(void **state)
{
    fixture *f = *state;
    open_turn(f);
    pw_record ended =
        RECORD(2, TURN_ENDED, "t1", "",
               "{\"v\":1,\"state\":\"cancelled\",\"reason\":\"user\",\"actor\":\"U1\"}");
    fixture_append(f, &ended, 1, 0);
    assert_why(f, "idle", "user", "was cancelled at 2023-11-14T22:13:22.000Z (user, by U1).");
}

static void test_M5_running_in_living_hands_needs_no_reason(void **state)
{
    fixture *f = *state;
    open_turn(f);
    fixture_admit(f, "s1", "r2", 1700000002000, 1700000002000);
    assert_why(f, "running", "null",
               "Running: turn t1 is in the hands of process 018c0000-0000-7000-8000-000000000001 "
               "(host/7), which is alive. "
               "1 message waits behind it.");
}

static void test_case_P2_a_dead_owner_is_not_an_interruption_by_the_user(void **state)
{
    fixture *f = *state;
    open_turn(f);
    fixture_leave(f); /* its row is gone, the session's still names it */
    assert_why(f, "running", "interrupted",
               "is gone; nobody cancelled it. No process runs sessions on this store now");
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/turns/t1");
    assert_at(doc, "state", "running");
    assert_at(doc, "reason", "interrupted");
    pawl_doc_free(doc);
}

static void test_case_P2_a_drained_turn_says_so(void **state)
{
    fixture *f = *state;
    open_turn(f);
    pw_op op = {
        .kind = PW_OP_RELEASE,
        .arena = &f->arena,
        .release = {
            .session_id = f->session_id, .epoch = f->epoch, .wake_at_ms = 0, .looked_n = 99}};
    pw_store_execute(f->p.store, &op, 1);
    assert_int_equal(op.status, PW_OK);
    assert_why(f, "running", "draining",
               "stopped on purpose and left it open. It goes on as soon as a process that has "
               "agent ops takes it.");
}

static void test_F10_a_rate_limit_says_until_when_and_what_was_said(void **state)
{
    fixture *f = *state;
    open_turn(f);
    pw_record wait = RECORD(2, WAIT_SET, "t1", "model:2",
                            "{\"v\":1,\"reason\":\"rate_limit\",\"code\":\"rate_limit_error\","
                            "\"message\":\"slow down\",\"until\":4102444800000}");
    pw_head head = {.set = true,
                    .turn = PW_STR("t1"),
                    .state = PW_TURN_WAITING,
                    .reason = PW_STR("rate_limit"),
                    .base_seq = -1,
                    .wake_at_ms = 4102444800000,
                    .looked_n = 99,
                    .release = true};
    fixture_head(f, &wait, &head);
    assert_why(f, "waiting", "rate_limit",
               "at 2100-01-01T00:00:00.000Z, when a process that has agent ops takes it. "
               "The provider said rate_limit_error: slow down.");
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/turns/t1");
    assert_at(doc, "state", "waiting");
    assert_at(doc, "reason", "rate_limit");
    pawl_doc_free(doc);
}

static void test_M5_a_debounce_says_until_when(void **state)
{
    fixture *f = *state;
    fixture_admit(f, "s1", "r1", pw_now_ms(), pw_now_ms() + 60000);
    assert_why(f, "queued", "debounce", "Queued: message r1 waits until ");
}

static void test_case_P2_nobody_there_is_not_the_agents_fault(void **state)
{
    fixture *f = *state;
    fixture_admit(f, "s1", "r1", pw_now_ms(), pw_now_ms());
    assert_why(f, "queued", "no_owner", "no process runs sessions on this store now");
}

static void test_case_P2_a_wait_for_room_is_called_that(void **state)
{
    fixture *f = *state;
    fixture_admit(f, "other", "r1", 1, 1);
    fixture_take(f, "other");
    fixture_admit(f, "s1", "r1", pw_now_ms(), pw_now_ms());
    assert_why(f, "queued", "capacity", "is due and waits to be taken by one of 1 live process.");
}

static void test_J2_due_for_long_among_the_living_is_no_owner(void **state)
{
    fixture *f = *state;
    fixture_admit(f, "other", "r1", 1, 1);
    fixture_take(f, "other");
    fixture_admit(f, "s1", "r1", pw_now_ms() - 60000, pw_now_ms() - 60000);
    assert_why(f, "queued", "no_owner", "none of them has agent ops");
}

static void test_C4_quarantine_says_how_to_try_again(void **state)
{
    fixture *f = *state;
    open_turn(f);
    for (int i = 0; i < 8; i++) { /* taken from the dead until it is refused */
        pw_dead_owner dead = {.id = f->owner, .beat = 1};
        f->owner.text[35] = (char)('2' + i);
        pw_op join = {.kind = PW_OP_JOIN,
                      .arena = &f->arena,
                      .owner = {.owner = f->owner, .address = PW_STR("h"), .now_ms = 1}};
        pw_store_execute(f->p.store, &join, 1);
        pw_op take = {.kind = PW_OP_TAKE,
                      .arena = &f->arena,
                      .take = {.session_id = f->session_id,
                               .owner = f->owner,
                               .dead = &dead,
                               .dead_count = 1,
                               .max_attempts = 5,
                               .refuse_suspect_from = -1,
                               .now_ms = pw_now_ms()}};
        pw_store_execute(f->p.store, &take, 1);
        assert_int_equal(take.status, PW_OK);
        if (take.take.answer == PW_TAKE_QUARANTINED) {
            break;
        }
        assert_int_equal(take.take.answer, PW_TOOK);
    }
    assert_why(f, "quarantined", "quarantined", "`pawl run -s s1 --take-over` tries once more.");
    pawl_doc *doc = fixture_read(f, "/v1/sessions?status=quarantined");
    assert_at(doc, "items.0.id", "s1");
    pawl_doc_free(doc);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_M5_idle_says_how_the_last_turn_ended),
        TEST(test_M5_idle_after_a_failure_names_its_reason_and_detail),
        TEST(test_M5_idle_after_a_cancel_names_who),
        TEST(test_M5_running_in_living_hands_needs_no_reason),
        TEST(test_case_P2_a_dead_owner_is_not_an_interruption_by_the_user),
        TEST(test_case_P2_a_drained_turn_says_so),
        TEST(test_F10_a_rate_limit_says_until_when_and_what_was_said),
        TEST(test_M5_a_debounce_says_until_when),
        TEST(test_case_P2_nobody_there_is_not_the_agents_fault),
        TEST(test_case_P2_a_wait_for_room_is_called_that),
        TEST(test_J2_due_for_long_among_the_living_is_no_owner),
        TEST(test_C4_quarantine_says_how_to_try_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
