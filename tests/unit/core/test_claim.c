/* Claims: which messages make a turn, and what it says of them (A5, B2-B5, B8, N4). */
#include "driver.h"

#include "base/sha256.h"

static void commit_turn(harness *h, const char *text)
{
    h_commit(h);
    h_text(h, text);
    h_commit(h);
}

static void test_B3_turn_id_is_hash_of_sorted_ids(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r2", "second");
    h_say(&h, "r1", "first");
    h_say(&h, "r10", "third");
    h_inbox(&h);
    const pw_hash hash = pw_sha256_of(PW_STR("r1\nr10\nr2"));
    const pw_hash_hex hex = pw_hash_to_hex(&hash);
    assert_true(pw_str_is(h.append->turn, hex.text));
    assert_int_equal(h.append->consumed_count, 3);
    assert_int_equal(h.append->consumed[0].disposition, PW_CLAIMED);
    assert_int_equal(h.append->blob_count, 1); /* C11: the definition is pinned */
    assert_true(pw_str_equal(h.append->blobs[0].bytes, h.today->text));
    assert_true(h.append->head.set && h.append->head.wake_at_ms == 0 && !h.append->head.release);
    assert_int_equal(h.append->head.base_seq, 1);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_OPENED, "requests.1.id", "\"r1\"");
    h_expect(&h, PW_RECORD_TURN_OPENED, "requests.1.n", "2");
    h_expect(&h, PW_RECORD_TURN_OPENED, "n", "1");
    h_expect(&h, PW_RECORD_TURN_OPENED, "v", "1");
    h_expect(&h, PW_RECORD_TURN_OPENED, "budget.max_iterations", "50");
    h_expect(&h, PW_RECORD_TURN_OPENED, "budget.max_tokens", "null");
    const pw_str definition = h_field(&h, h_last(&h, PW_RECORD_TURN_OPENED), "definition");
    assert_true(pw_str_find(definition, pw_str_from(h.today->hash.text)) == 1);
    assert_true(pw_str_is(pw_session_pinned_hash(h.s), h.today->hash.text));
    h_free(&h);
}

static void test_B4_one_message_is_verbatim_with_its_parts(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say_body(
        &h, "r1",
        "{\"role\":\"user\",\"source\":\"http\",\"content\":[{\"type\":\"text\",\"text\":"
        "\"a\\u00e9 \\n\"},"
        "{\"type\":\"image\",\"url\":\"u\", \"n\":1.50},{\"type\":\"text\",\"text\":\"b\"}]}");
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->count, 1);
    const pw_message *m = h.model->messages[0];
    assert_int_equal(m->role, PW_ROLE_USER);
    assert_int_equal(m->part_count, 3);
    assert_true(pw_str_is(m->parts[0].text, "a\xC3\xA9 \n"));
    assert_int_equal(m->parts[1].kind, PW_PART_OTHER);
    assert_true(pw_str_is(m->parts[1].raw, "{\"type\":\"image\",\"url\":\"u\", \"n\":1.50}"));
    assert_true(pw_str_is(m->parts[2].text, "b"));
    h_free(&h);
}

static void test_B4_batch_is_rendered_with_times_and_images_after_their_entry(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h.now = 1700000000000; /* 22:13:20 UTC */
    h_say(&h, "r1", "one");
    h.now += 60000;
    h_say_body(&h, "r2",
               "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{\"type\":"
               "\"image\",\"url\":\"u\"},{\"type\":\"text\",\"text\":\"two\"}]}");
    h.now += 60000;
    h_say(&h, "r3", "one");
    h_inbox(&h);
    h_commit(&h);
    const pw_message *m = h.model->messages[0];
    assert_int_equal(m->part_count, 3);
    assert_true(
        pw_str_is(m->parts[0].text, "## Unanswered messages\n\n[22:13] one\n\n[22:14] two"));
    assert_true(pw_str_is(m->parts[1].raw, "{\"type\":\"image\",\"url\":\"u\"}"));
    assert_true(pw_str_is(m->parts[2].text, "[22:15] one"));
    /* The same bytes for ever: after a restart too. */
    h_crash(&h, PW_CAUSE_RECOVERY);
    h_inbox(&h);
    h_commit(&h);
    assert_true(pw_str_is(h.model->messages[0]->parts[0].text,
                          "## Unanswered messages\n\n[22:13] one\n\n[22:14] two"));
    h_free(&h);
}

static void test_B2_debounce_counts_from_the_oldest_message(void **state)
{
    (void)state;
    harness h;
    h_new(&h,
          "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"debounce_ms\":1000}");
    const int64_t start = h.now;
    h_say(&h, "r1", "one");
    h_inbox(&h);
    assert_null(h.append);
    assert_int_equal(h.wake, start + 1000);
    h.now = start + 800;
    h_say(&h, "r2", "two");
    h_inbox(&h);
    assert_null(h.append);
    assert_int_equal(h.wake, start + 1000); /* never extended */
    h_time(&h, start + 1000);
    assert_int_equal(h.append->consumed_count, 2);
    h_free(&h);
}

static void test_B2_slack_waits_a_second_by_default(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say_body(&h, "r1",
               "{\"role\":\"user\",\"source\":\"slack\",\"content\":[{\"type\":\"text\",\"text\":"
               "\"x\"}]}");
    h_inbox(&h);
    assert_null(h.append);
    assert_int_equal(h.wake, h.now + 1000);
    h_free(&h);
}

static const char *body_of(char *to, const char *role, const char *source, const char *user,
                           const char *budget)
{
    snprintf(to, 512,
             "{\"role\":\"%s\",\"source\":\"%s\",\"user\":%s,\"content\":[{\"type\":\"text\","
             "\"text\":\"x\"}]%s%s}",
             role, source, user, *budget ? ",\"budget\":" : "", budget);
    return to;
}

static void test_B8_run_ends_where_role_source_speaker_or_budget_differ(void **state)
{
    (void)state;
    static const char *const others[][4] = {
        {"trigger", "http", "{\"id\":\"U1\",\"attested\":true}", ""},
        {"user", "cli", "{\"id\":\"U1\",\"attested\":true}", ""},
        {"user", "http", "{\"id\":\"U2\",\"attested\":true}", ""},
        {"user", "http", "{\"id\":\"U1\",\"attested\":false}", ""},
        {"user", "http", "null", ""},
        {"user", "http", "{\"id\":\"U1\",\"attested\":true}", "{\"max_iterations\":3}"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        harness h;
        char body[512];
        h_new(&h, h_agent);
        h_say_body(&h, "r1",
                   body_of(body, "user", "http", "{\"id\":\"U1\",\"attested\":true}", ""));
        h_say_body(&h, "r2",
                   body_of(body, "user", "http", "{ \"attested\": true, \"id\":\"U1\"}", ""));
        h_say_body(&h, "r3", body_of(body, others[i][0], others[i][1], others[i][2], others[i][3]));
        h_say_body(&h, "r4",
                   body_of(body, "user", "http", "{\"id\":\"U1\",\"attested\":true}", ""));
        h_inbox(&h);
        assert_int_equal(h.append->consumed_count, 2); /* and r4 does not overtake r3 */
        commit_turn(&h, "one");
        assert_false(h.rested); /* B5: what waits is the next turn */
        assert_int_equal(h.append->consumed_count, 1);
        assert_int_equal(h.append->consumed[0].n, 3);
        commit_turn(&h, "two");
        assert_int_equal(h.append->consumed[0].n, 4);
        commit_turn(&h, "three");
        assert_true(h.rested);
        h_free(&h);
    }
}

static void test_B8_at_most_32_messages_and_256_KiB_but_always_one(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    for (int i = 0; i < 40; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%d", i);
        h_say(&h, id, "x");
    }
    h_inbox(&h);
    assert_int_equal(h.append->consumed_count, 32);
    commit_turn(&h, "ok");
    assert_int_equal(h.append->consumed_count, 8);
    commit_turn(&h, "ok");
    h_free(&h);

    h_new(&h, h_agent);
    char *big = malloc(400 * 1024);
    int at = sprintf(big, "{\"role\":\"user\",\"source\":\"http\",\"user\":null,\"content\":[{"
                          "\"type\":\"text\",\"text\":\"");
    memset(big + at, 'x', 300 * 1024);
    strcpy(big + at + 300 * 1024, "\"}]}");
    h_say_body(&h, "r1", big);
    h_say(&h, "r2", "small");
    h_inbox(&h);
    assert_int_equal(h.append->consumed_count, 1);
    free(big);
    h_free(&h);
}

static void test_B5_messages_during_a_turn_wait_for_its_end(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "one");
    h_inbox(&h);
    h_commit(&h);
    h_say(&h, "r2", "two");
    h_inbox(&h);
    assert_null(h.append);
    h_text(&h, "answer");
    assert_false(h.append->head.release);
    assert_int_equal(h.append->head.wake_at_ms, 0);
    h_commit(&h);
    assert_int_equal(h.append->consumed[0].n, 2);
    h_commit(&h);
    assert_int_equal(h.model->count, 3);
    assert_int_equal(h.model->same, 1); /* C10 over turns */
    assert_true(pw_str_is(h.model->step, "model:4"));
    h_free(&h);
}

static void test_A5_initiator_is_the_first_attested_speaker(void **state)
{
    (void)state;
    harness h;
    char body[512];
    h_new(&h, h_agent);
    h_say_body(&h, "r1", body_of(body, "user", "http", "{\"id\":\"U0\",\"attested\":false}", ""));
    h_say_body(&h, "r2", body_of(body, "user", "http", "{\"id\":\"U1\",\"attested\":true}", ""));
    h_say_body(&h, "r3", body_of(body, "user", "http", "{\"id\":\"U2\",\"attested\":true}", ""));
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_OPENED, "initiator", "null");
    h_text(&h, "x");
    h_commit(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_OPENED, "initiator", "{\"id\":\"U1\"}");
    h_call(&h, "put", "{}");
    h_commit(&h);
    assert_true(pw_str_is(h.tool->initiator, "{\"id\":\"U1\"}"));
    assert_true(pw_str_is(h.tool->speaker, "{\"id\":\"U1\",\"attested\":true}"));
    h_tool(&h, "1");
    h_commit(&h);
    h_text(&h, "x");
    h_commit(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_OPENED, "initiator", "{\"id\":\"U1\"}");
    h_expect(&h, PW_RECORD_TURN_OPENED, "requests.0.user.id", "\"U2\"");
    h_free(&h);
}

static void test_N4_window_is_whole_turns_and_the_rest_is_let_go(void **state)
{
    (void)state;
    harness h;
    h_new(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"context\":{"
              "\"messages\":4}}");
    for (int i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof(id), "r%d", i);
        h_say(&h, id, "x");
        h_inbox(&h);
        h_commit(&h);
        assert_int_equal(h.model->count, i < 2 ? 1 + 2 * i : 5);
        assert_int_equal(h.model->messages[0]->role, PW_ROLE_USER);
        h_text(&h, "ok");
        h_commit(&h);
        assert_true(h.rested);
        h_crash(&h, PW_CAUSE_NEW);
    }
    h_expect(&h, PW_RECORD_TURN_OPENED, "before.messages", "10");
    h_expect(&h, PW_RECORD_TURN_OPENED, "before.turns", "5");
    h_expect(&h, PW_RECORD_TURN_OPENED, "before.usage.iterations", "5");
    h_expect(&h, PW_RECORD_TURN_OPENED, "n", "11");
    h_expect(&h, PW_RECORD_TURN_OPENED, "first_seq", "10");
    assert_int_equal(h.base_seq, 10);
    h_free(&h);
}

static void test_B4_no_history_at_all_when_context_is_0(void **state)
{
    (void)state;
    harness h;
    h_new(&h, "{\"name\":\"a\",\"model\":{\"provider\":\"p\",\"name\":\"m\"},\"context\":{"
              "\"messages\":0}}");
    h_say(&h, "r1", "x");
    h_inbox(&h);
    h_commit(&h);
    h_say(&h, "r2", "y");
    h_inbox(&h);
    h_text(&h, "ok");
    h_commit(&h);
    h_commit(&h);
    assert_int_equal(h.model->count, 1);
    assert_int_equal(h.model->same, 0);
    assert_true(pw_str_is(h.model->step, "model:4")); /* C1: a moving window never renumbers */
    h_free(&h);
}

static void test_J4_stale_claim_looks_again_and_decides_anew(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "one");
    h_say(&h, "r2", "two");
    h_inbox(&h);
    h.rows[0].disposition = PW_WITHDRAWN;
    h_not(&h, PW_STALE);
    assert_null(h.append);
    h_time(&h, h.now + 10); /* nothing before the inbox */
    assert_null(h.append);
    h_inbox(&h);
    assert_int_equal(h.append->consumed_count, 1);
    assert_int_equal(h.append->consumed[0].n, 2);
    h_commit(&h);
    assert_int_equal(h.model_count, 1);
    h_free(&h);
}

static void test_J4_stale_claim_of_nothing_rests(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say(&h, "r1", "one");
    h_inbox(&h);
    h.rows[0].disposition = PW_WITHDRAWN;
    h_not(&h, PW_STALE);
    h_inbox(&h);
    assert_true(h.rested && !h.released);
    h_free(&h);
}

static void test_J2_no_agent_no_claim(void **state)
{
    (void)state;
    harness h;
    h_new_with(&h, h_agent, &pw_heap);
    h.today = NULL;
    h_open(&h, PW_CAUSE_NEW, NULL, 0);
    h_say(&h, "r1", "one");
    h_inbox(&h);
    assert_null(h.append);
    assert_true(h.rested && !h.released);
    h_free(&h);
}

static void test_B3_a_message_may_lower_the_budget(void **state)
{
    (void)state;
    harness h;
    char body[512];
    h_new(&h, h_agent);
    h_say_body(&h, "r1",
               body_of(body, "user", "http", "null",
                       "{\"max_iterations\":2,\"max_cost_usd\":0.5,\"deadline_ms\":60000}"));
    h_inbox(&h);
    h_commit(&h);
    h_expect(&h, PW_RECORD_TURN_OPENED, "budget.max_iterations", "2");
    h_expect(&h, PW_RECORD_TURN_OPENED, "budget.max_cost_micros", "500000");
    assert_int_equal(h.model->deadline_at_ms, h.now + 60000);
    assert_int_equal(h.wake, h.now + 60000);
    h_free(&h);
}

static void test_A5_a_trigger_keeps_its_role_and_metadata(void **state)
{
    (void)state;
    harness h;
    h_new(&h, h_agent);
    h_say_body(&h, "schedule:daily:1",
               "{\"role\":\"trigger\",\"source\":\"schedule\",\"user\":null,\"by\":\"daily\","
               "\"content\":[{\"type\":\"text\",\"text\":\"go\"}],\"metadata\":{\"k\":[1.0]}}");
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->messages[0]->role, PW_ROLE_TRIGGER);
    assert_true(pw_str_is(h.model->source, "schedule"));
    h_expect(&h, PW_RECORD_TURN_OPENED, "requests.0.by", "\"daily\"");
    h_expect(&h, PW_RECORD_TURN_OPENED, "requests.0.metadata", "{\"k\":[1.0]}");
    h_free(&h);
}

static void test_A8_deep_content_never_breaks_the_journal(void **state)
{
    (void)state;
    harness h;
    char body[2048], deep[600] = "";
    h_new(&h, h_agent);
    for (int i = 0; i < 120; i++) {
        strcat(deep, "[");
    }
    for (int i = 0; i < 120; i++) {
        strcat(deep, "]");
    }
    snprintf(body, sizeof(body),
             "{\"role\":\"user\",\"source\":\"http\",\"content\":[{\"type\":\"image\",\"x\":%s},{"
             "\"type\":\"text\",\"text\":\"t\"}],\"metadata\":%s}",
             deep, deep);
    h_say_body(&h, "r1", body);
    h_inbox(&h);
    h_commit(&h);
    assert_int_equal(h.model->messages[0]->part_count, 2);
    assert_int_equal(h.model->messages[0]->parts[0].kind, PW_PART_TEXT);
    h_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_B3_turn_id_is_hash_of_sorted_ids),
        cmocka_unit_test(test_B4_one_message_is_verbatim_with_its_parts),
        cmocka_unit_test(test_B4_batch_is_rendered_with_times_and_images_after_their_entry),
        cmocka_unit_test(test_B2_debounce_counts_from_the_oldest_message),
        cmocka_unit_test(test_B2_slack_waits_a_second_by_default),
        cmocka_unit_test(test_B8_run_ends_where_role_source_speaker_or_budget_differ),
        cmocka_unit_test(test_B8_at_most_32_messages_and_256_KiB_but_always_one),
        cmocka_unit_test(test_B5_messages_during_a_turn_wait_for_its_end),
        cmocka_unit_test(test_A5_initiator_is_the_first_attested_speaker),
        cmocka_unit_test(test_N4_window_is_whole_turns_and_the_rest_is_let_go),
        cmocka_unit_test(test_B4_no_history_at_all_when_context_is_0),
        cmocka_unit_test(test_J4_stale_claim_looks_again_and_decides_anew),
        cmocka_unit_test(test_J4_stale_claim_of_nothing_rests),
        cmocka_unit_test(test_J2_no_agent_no_claim),
        cmocka_unit_test(test_B3_a_message_may_lower_the_budget),
        cmocka_unit_test(test_A5_a_trigger_keeps_its_role_and_metadata),
        cmocka_unit_test(test_A8_deep_content_never_breaks_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
