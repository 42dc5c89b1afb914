/* C9: the checker, the repair, and a damaged store that stays usable. */
#include "driver.h"

#include "base/id.h"

enum { MOST = 64 };

typedef struct tale {
    pw_arena arena;
    const pw_message *list[MOST];
    size_t count;
    int64_t n;
    uint64_t seq;
} tale;

static void tale_new(tale *t)
{
    memset(t, 0, sizeof(*t));
    pw_arena_init(&t->arena, &pw_heap, 0, 0);
}

static pw_message *add(tale *t, pw_role role)
{
    pw_message *m = PW_NEW(&t->arena, pw_message);
    m->role = role;
    m->n = ++t->n;
    m->seq = ++t->seq;
    m->turn = PW_STR("t");
    t->list[t->count++] = m;
    return m;
}

static void user(tale *t)
{
    pw_message *m = add(t, PW_ROLE_USER);
    pw_part *part = PW_NEW(&t->arena, pw_part);
    part->text = PW_STR("hi");
    m->parts = part;
    m->part_count = 1;
}

static pw_message *calls(tale *t, size_t count, const char *const *ids)
{
    pw_message *m = add(t, PW_ROLE_ASSISTANT);
    pw_part *parts = PW_NEW_ARRAY(&t->arena, pw_part, count);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (pw_part){.kind = PW_PART_TOOL_CALL,
                             .call = pw_str_from(ids[i]),
                             .name = PW_STR("f"),
                             .arguments = PW_STR("{}")};
    }
    m->parts = parts;
    m->part_count = count;
    return m;
}

static pw_message *result(tale *t, int64_t n, const char *id)
{
    pw_message *m = add(t, PW_ROLE_TOOL);
    char step[64];
    snprintf(step, sizeof(step), "tool:%lld:%s", (long long)n, id);
    m->call = pw_str_from(id);
    m->name = PW_STR("f");
    m->result = PW_STR("\"real\"");
    assert_int_equal(pw_arena_dup(&t->arena, pw_str_from(step), &m->step), PW_OK);
    return m;
}

static const char *fault_of(tale *t)
{
    bool valid;
    pw_transcript_fault fault = {0};
    assert_int_equal(pw_transcript_check(t->list, t->count, &t->arena, &valid, &fault), PW_OK);
    return valid ? "" : fault.what;
}

/* The repaired transcript is valid; returns how many faults it names. */
static size_t mend(tale *t, const pw_message *const **ret, size_t *ret_count, const char *first)
{
    const pw_transcript_fault *faults;
    size_t fault_count;
    bool valid;
    pw_transcript_fault fault = {0};
    assert_int_equal(
        pw_transcript_repair(t->list, t->count, &t->arena, ret, ret_count, &faults, &fault_count),
        PW_OK);
    assert_int_equal(pw_transcript_check(*ret, *ret_count, &t->arena, &valid, &fault), PW_OK);
    if (!valid) {
        fail_msg("after the repair: %s", fault.what);
    }
    if (first) {
        assert_true(fault_count > 0);
        assert_string_equal(faults[0].what, first);
    }
    return fault_count;
}

static const char *const ab[] = {"a", "b"};

static void test_C9_a_valid_transcript_passes_and_is_left_alone(void **state)
{
    (void)state;
    tale t;
    const pw_message *const *list;
    size_t count;
    tale_new(&t);
    assert_string_equal(fault_of(&t), "");
    user(&t);
    calls(&t, 2, ab);
    result(&t, 2, "a");
    result(&t, 2, "b");
    calls(&t, 2, ab); /* the same ids in another message */
    result(&t, 5, "a");
    result(&t, 5, "b");
    user(&t);
    user(&t);
    assert_string_equal(fault_of(&t), "");
    assert_int_equal(mend(&t, &list, &count, NULL), 0);
    assert_int_equal(count, t.count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(list[i], t.list[i]);
    }
    pw_arena_free(&t.arena);
}

static void test_C9_each_fault_is_named_and_mended(void **state)
{
    (void)state;
    const pw_message *const *list;
    size_t count;
    for (int kind = 0; kind < 10; kind++) {
        tale t;
        tale_new(&t);
        const char *expected = NULL;
        size_t length = 0;
        if (kind != 6) {
            user(&t);
        }
        switch (kind) {
        case 0: /* a result row is gone */
            calls(&t, 2, ab);
            result(&t, 2, "b");
            expected = "misplaced_result";
            length = 4;
            break;
        case 1: /* both are gone */
            calls(&t, 2, ab);
            user(&t);
            expected = "missing_result";
            length = 5;
            break;
        case 2: /* twice */
            calls(&t, 1, ab);
            result(&t, 2, "a");
            result(&t, 2, "a");
            expected = "duplicate_result";
            length = 3;
            break;
        case 3: /* moved behind a user message */
            calls(&t, 1, ab);
            user(&t);
            result(&t, 2, "a");
            expected = "missing_result";
            length = 4;
            break;
        case 4: /* of no call */
            result(&t, 9, "zz");
            expected = "orphan_result";
            length = 1;
            break;
        case 5: /* in the wrong order */
            calls(&t, 2, ab);
            result(&t, 2, "b");
            result(&t, 2, "a");
            expected = "misplaced_result";
            length = 4;
            break;
        case 6: /* begins with an answer */
            calls(&t, 1, ab);
            result(&t, 1, "a");
            user(&t);
            expected = "starts_wrong";
            length = 1;
            break;
        case 7: /* one message twice */
            calls(&t, 1, ab);
            result(&t, 2, "a");
            calls(&t, 1, ab)->n = 2;
            result(&t, 2, "a");
            expected = "repeated_call";
            length = 3;
            break;
        case 8: { /* arguments that are no object */
            pw_message *m = calls(&t, 1, ab);
            ((pw_part *)m->parts)[0].arguments = PW_STR("[1]");
            result(&t, 2, "a");
            expected = "bad_arguments";
            length = 3;
            break;
        }
        default: { /* text that is none */
            pw_message *m = calls(&t, 1, ab);
            ((pw_part *)m->parts)[0].name = PW_STR("f\xFF");
            result(&t, 2, "a")->result = PW_STR("oops");
            expected = "bad_text";
            length = 3;
            break;
        }
        }
        assert_string_equal(fault_of(&t), expected);
        assert_true(mend(&t, &list, &count, NULL) > 0);
        assert_int_equal(count, length);
        pw_arena_free(&t.arena);
    }
}

static void test_C9_a_moved_result_is_found_by_identity(void **state)
{
    (void)state;
    tale t;
    const pw_message *const *list;
    size_t count;
    tale_new(&t);
    user(&t);
    calls(&t, 1, ab);
    user(&t);
    calls(&t, 1, ab);
    result(&t, 4, "a")->result = PW_STR("\"second\"");
    result(&t, 2, "a")->result = PW_STR("\"first\"");
    mend(&t, &list, &count, "misplaced_result");
    assert_int_equal(count, 6);
    assert_true(pw_str_is(list[2]->result, "\"first\""));
    assert_true(pw_str_is(list[5]->result, "\"second\""));
    pw_arena_free(&t.arena);
}

static void test_C9_any_damage_is_mended(void **state)
{
    (void)state;
    pw_random random = {42};
    for (int round = 0; round < 3000; round++) {
        tale t;
        const pw_message *const *list;
        size_t count;
        tale_new(&t);
        while (t.count < 30) {
            const uint64_t what = pw_random_below(&random, 3);
            if (what == 0) {
                user(&t);
            } else {
                const size_t k = 1 + (size_t)pw_random_below(&random, 2);
                const int64_t n = calls(&t, k, ab)->n;
                for (size_t i = 0; i < k; i++) {
                    result(&t, n, ab[i]);
                }
            }
        }
        for (uint64_t hits = pw_random_below(&random, 6); hits > 0; hits--) {
            const size_t i = (size_t)pw_random_below(&random, t.count),
                         k = (size_t)pw_random_below(&random, t.count);
            const pw_message *moved = t.list[i];
            switch (pw_random_below(&random, 3)) {
            case 0: /* lost */
                memmove(&t.list[i], &t.list[i + 1], (t.count - i - 1) * sizeof(t.list[0]));
                t.count--;
                break;
            case 1: /* twice */
                t.list[t.count++] = moved;
                break;
            default: /* elsewhere */
                t.list[i] = t.list[k];
                t.list[k] = moved;
                break;
            }
        }
        mend(&t, &list, &count, NULL);
        pw_arena_free(&t.arena);
    }
}

/* --- In a session: rows of an ended turn were taken away, doubled, moved. --- */

static void two_turns(harness *h)
{
    h_new(h, h_agent);
    h_say(h, "r1", "one");
    h_inbox(h);
    h_commit(h);
    pw_part parts[2] = {h_call_part("a", "put", "{}"), h_call_part("b", "put", "{\"b\":1}")};
    h_calls(h, parts, 2);
    h_commit(h);
    h_tool(h, "\"ra\"");
    h_commit(h);
    h_tool(h, "\"rb\"");
    h_commit(h);
    h_text(h, "done");
    h_commit(h);
    assert_int_equal(h->record_count, 6);
}

static void next_message(harness *h)
{
    h_crash(h, PW_CAUSE_NEW);
    h_say(h, "r2", "two");
    h_inbox(h);
    h_commit(h);
    assert_int_equal(h->append->records[0].kind, PW_RECORD_TRANSCRIPT_REPAIRED);
    assert_int_equal(h->append->record_count, 1);
    h_commit(h);
    assert_non_null(h->model);
    h_text(h, "fine");
    h_commit(h);
    h_expect(h, PW_RECORD_TURN_ENDED, "state", "\"completed\"");
    /* And ever after. */
    h_crash(h, PW_CAUSE_NEW);
    h_say(h, "r3", "three");
    h_inbox(h);
    h_commit(h);
    assert_non_null(h->model);
    assert_true(pw_str_is(h->model->messages[0]->parts[0].text, "one"));
}

static void test_C9_a_lost_result_row_is_mended_by_a_record(void **state)
{
    (void)state;
    harness h;
    two_turns(&h);
    memmove(&h.records[2], &h.records[3], 3 * sizeof(h.records[0]));
    h.record_count--;
    next_message(&h);
    h_expect(&h, PW_RECORD_TRANSCRIPT_REPAIRED, "repairs.0.what", "\"missing_result\"");
    assert_true(pw_str_find(h.model->messages[2]->result, PW_STR("unknown")) != SIZE_MAX);
    assert_true(pw_str_is(h.model->messages[3]->result, "\"rb\""));
    h_free(&h);
}

static void test_C9_a_doubled_or_moved_result_row_is_mended_by_a_record(void **state)
{
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        harness h;
        two_turns(&h);
        h.records[6] = h.records[2];
        h.records[6].seq = 7;
        h.record_count++;
        if (moved) {
            memmove(&h.records[2], &h.records[3], 4 * sizeof(h.records[0]));
            h.record_count--;
        }
        next_message(&h);
        h_expect(&h, PW_RECORD_TRANSCRIPT_REPAIRED, "repairs.0.what",
                 moved ? "\"misplaced_result\"" : "\"duplicate_result\"");
        assert_true(pw_str_is(h.model->messages[2]->result, "\"ra\""));
        h_free(&h);
    }
}

static void test_C9_a_gap_in_an_open_turn_runs_no_effect_on_a_guess(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "one");
    h_inbox(&h);
    h_commit(&h);
    pw_part parts[3] = {h_call_part("a", "buy", "{}"), h_call_part("b", "put", "{}"),
                        h_call_part("c", "read", "{\"path\":\"x\"}")};
    h_calls(&h, parts, 3);
    h_commit(&h);
    h_commit_transact(&h, "1");
    h_tool(&h, "1");
    h_commit(&h);
    /* The receipt of the purchase is gone. */
    h.records[2] = h.records[3];
    h.record_count--;
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit_all(&h);
    assert_int_equal(h.transact_count, 1);
    h_expect(&h, PW_RECORD_TOOL_COMPLETED, "outcome", "\"unknown\"");
    h_tool(&h, "2"); /* what only reads goes on */
    h_commit_all(&h);
    assert_non_null(h.model);
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C9_a_valid_transcript_passes_and_is_left_alone),
        cmocka_unit_test(test_C9_each_fault_is_named_and_mended),
        cmocka_unit_test(test_C9_a_moved_result_is_found_by_identity),
        cmocka_unit_test(test_C9_any_damage_is_mended),
        cmocka_unit_test(test_C9_a_lost_result_row_is_mended_by_a_record),
        cmocka_unit_test(test_C9_a_doubled_or_moved_result_row_is_mended_by_a_record),
        cmocka_unit_test(test_C9_a_gap_in_an_open_turn_runs_no_effect_on_a_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
