/* pawl_read's paths and pages, documents, and inspect. */
#include "fixture.h"

#include <stdio.h>

#include "base/heap.h"
#include "story.h"

static void test_J3_every_path_of_the_native_api_answers(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    static const char *const paths[] = {
        "/v1/sessions",
        "/v1/sessions?status=idle&agent=ops&limit=200",
        "/v1/sessions/s1",
        "/v1/sessions/s1/why",
        "/v1/sessions/s1/messages",
        "/v1/sessions/s1/messages?include=steps",
        "/v1/sessions/s1/messages/r1",
        "/v1/sessions/s1/turns",
        "/v1/sessions/s1/turns/t1",
        "/v1/sessions/s1/turns/t1/steps",
        "/v1/sessions/s1/events",
        "/v1/sessions/s1/events?after=4-1&limit=2",
        "/v1/agents",
        "/v1/sessions/%73%31",
        "/v1/sessions?",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        pawl_doc *doc = fixture_read(f, paths[i]);
        pawl_str text = pawl_doc_text(doc);
        assert_true(pw_json_valid((pw_str){text.ptr, text.len}));
        pawl_doc_free(doc);
    }
}

static void test_A8_what_is_asked_wrongly_is_named(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    static const struct {
        const char *path;
        int32_t code;
        const char *names;
    } bad[] = {
        {"/v1/sessions?colour=red", PAWL_INVALID, "colour"},
        {"/v1/sessions?status=happy", PAWL_INVALID, "status"},
        {"/v1/sessions?limit=0", PAWL_INVALID, "limit"},
        {"/v1/sessions?limit=201", PAWL_INVALID, "limit"},
        {"/v1/sessions?limit=", PAWL_INVALID, "limit"},
        {"/v1/sessions?limit=5&limit=6", PAWL_INVALID, "limit"},
        {"/v1/sessions?cursor=!!", PAWL_INVALID, "cursor"},
        {"/v1/sessions?cursor=A", PAWL_INVALID, "cursor"},
        {"/v1/sessions/s1?limit=5", PAWL_INVALID, "limit"},
        {"/v1/sessions/s1/messages?include=all", PAWL_INVALID, "include"},
        {"/v1/sessions/s1/messages?cursor=7", PAWL_INVALID, "cursor"},
        {"/v1/sessions/s1/messages?cursor=0-1", PAWL_INVALID, "cursor"},
        {"/v1/sessions/s1/turns?cursor=x", PAWL_INVALID, "cursor"},
        {"/v1/sessions/s1/events?after=x", PAWL_INVALID, "cursor"},
        {"/v1/sessions/s1/events?cursor=1", PAWL_INVALID, "cursor"},
        {"/v1/sessions/%", PAWL_INVALID, "path"},
        {"/v1/sessions/%4", PAWL_INVALID, "path"},
        {"/v1/sessions/%zz", PAWL_INVALID, "path"},
        {"/v1/sessions/%ff", PAWL_INVALID, "path"},
        {"/v1/sessions/%00", PAWL_INVALID, "path"},
        {"/v1/sessions/nobody", PAWL_NOT_FOUND, "nobody"},
        {"/v1/sessions/s1/turns/none", PAWL_NOT_FOUND, "turn"},
        {"/v1/sessions/s1/messages/none", PAWL_NOT_FOUND, "request id"},
        {"/v1/agents/none", PAWL_NOT_FOUND, "agent"},
        {"/v1/", PAWL_NOT_FOUND, "path"},
        {"/v1/sessions//s1", PAWL_NOT_FOUND, "path"},
        {"/v1/sessions/s1/nonsense", PAWL_NOT_FOUND, "path"},
        {"/v1/a/b/c/d/e/f/g/h/i/j", PAWL_NOT_FOUND, "path"},
        {"sessions", PAWL_NOT_FOUND, "path"},
        {"", PAWL_NOT_FOUND, "path"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fixture_refused(f, bad[i].path, bad[i].code, bad[i].names);
    }
}

static void test_H2_a_session_sums_what_its_turns_used(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1");
    assert_at(doc, "id", "s1");
    assert_at(doc, "uid", "uid-s1");
    assert_at(doc, "agent", "ops");
    assert_at(doc, "status", "idle");
    assert_at(doc, "reason", "null");
    assert_at(doc, "turn", "null");
    assert_at(doc, "queue", "[]");
    assert_at(doc, "inputs", "[]");
    assert_at(doc, "usage.turns", "1");
    assert_at(doc, "usage.input_tokens", "3000");
    assert_at(doc, "usage.cost_usd", "0.0123");
    pawl_doc_free(doc);
    fixture_admit(f, "empty", "r", 1, INT64_MAX / 2);
    doc = fixture_read(f, "/v1/sessions/empty");
    assert_at(doc, "usage.turns", "0");
    assert_at(doc, "status", "queued");
    assert_at(doc, "queue.0.request_id", "r");
    pawl_doc_free(doc);
}

static void test_N4_sessions_come_in_pages(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 7; i++) {
        char name[32];
        snprintf(name, sizeof(name), "s/%d \xc3\xa9", i);
        fixture_admit(f, name, "r", 1, 1);
    }
    for (int limit = 1; limit <= 8; limit++) {
        char path[200], seen[80] = "";
        snprintf(path, sizeof(path), "/v1/sessions?limit=%d", limit);
        for (bool more = true; more;) {
            pawl_doc *doc = fixture_read(f, path);
            for (int i = 0; i < limit; i++) {
                char member[32];
                pawl_str id;
                snprintf(member, sizeof(member), "items.%d.id", i);
                if (pawl_doc_get(doc, member, &id) == PAWL_OK) {
                    strncat(seen, id.ptr + 2, 1);
                }
            }
            pw_str cursor = fixture_get(doc, "next_cursor");
            more = !pw_str_is(cursor, "null");
            snprintf(path, sizeof(path), "/v1/sessions?limit=%d&cursor=%.*s", limit,
                     PW_STR_ARG(cursor));
            pawl_doc_free(doc);
        }
        assert_string_equal(seen, "0123456");
    }
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s%2f3%20%C3%a9");
    assert_at(doc, "id", "s/3 \xc3\xa9");
    pawl_doc_free(doc);
}

/* Results stand in the order of their calls (D3), with the numbers that the model's context has
 * (C1), on pages of any size. */
static void test_C1_and_D3_the_transcript_in_order_on_any_page(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    for (int limit = 1; limit <= 6; limit++) {
        char path[200], numbers[40] = "", seqs[40] = "";
        int pages = 0;
        snprintf(path, sizeof(path), "/v1/sessions/s1/messages?limit=%d", limit);
        for (bool more = true; more; pages++) {
            pawl_doc *doc = fixture_read(f, path);
            for (int i = 0; i < limit; i++) {
                char member[32];
                pawl_str n, seq;
                snprintf(member, sizeof(member), "items.%d.n", i);
                if (pawl_doc_get(doc, member, &n) == PAWL_OK) {
                    snprintf(member, sizeof(member), "items.%d.seq", i);
                    assert_int_equal(pawl_doc_get(doc, member, &seq), PAWL_OK);
                    strncat(numbers, n.ptr, n.len);
                    strncat(seqs, seq.ptr, seq.len);
                }
            }
            pw_str cursor = fixture_get(doc, "next_cursor");
            more = !pw_str_is(cursor, "null");
            snprintf(path, sizeof(path), "/v1/sessions/s1/messages?limit=%d&cursor=%.*s", limit,
                     PW_STR_ARG(cursor));
            pawl_doc_free(doc);
        }
        assert_string_equal(numbers, "12345");
        assert_string_equal(seqs, "14879"); /* call a's receipt, 8, stands before call b's, 7 */
        assert_int_equal(pages, (5 + limit - 1) / limit);
    }
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/messages?include=steps");
    assert_at(doc, "steps.0.id", "model:2");
    assert_at(doc, "steps.2.state", "unknown");
    assert_at(doc, "items.2.content.0.call", "a");
    pawl_doc_free(doc);
}

static void test_A1_a_message_tells_where_it_stands(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    fixture_admit(f, "s1", "r2", 3, 3);
    fixture_admit(f, "s1", "r3", 4, 4);
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/messages/r1");
    assert_at(doc, "disposition", "answered");
    assert_at(doc, "position", "null");
    assert_at(doc, "turn.id", "t1");
    assert_at(doc, "turn.text", "Done.");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/messages/r3");
    assert_at(doc, "disposition", "pending");
    assert_at(doc, "position", "2");
    assert_at(doc, "turn", "null");
    pawl_doc_free(doc);
}

static void test_N4_turns_and_steps_come_in_pages(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    fixture_take(f, "s1");
    pw_record more[] = {RECORD(11, TURN_OPENED, "t2", "",
                               "{\"v\":1,\"requests\":[],\"n\":6,\"before\":{\"turns\":1,\"usage\":"
                               "{\"input_tokens\":3000}}}"),
                        RECORD(12, TURN_ENDED, "t2", "",
                               "{\"v\":1,\"state\":\"failed\",\"reason\":\"model\",\"requests\":[],"
                               "\"usage\":{\"input_tokens\":5}}")};
    fixture_append(f, more, 2, 0);
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/turns?limit=1");
    assert_at(doc, "items.0.id", "t1");
    assert_at(doc, "next_cursor", "1");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/turns?limit=1&cursor=1");
    assert_at(doc, "items.0.id", "t2");
    assert_at(doc, "items.0.reason", "model");
    assert_at(doc, "next_cursor", "null");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/turns/t1/steps?limit=3");
    assert_at(doc, "items.2.id", "tool:2:b");
    assert_at(doc, "next_cursor", "3");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/turns/t1/steps?limit=3&cursor=3");
    assert_at(doc, "items.0.id", "model:5");
    assert_at(doc, "next_cursor", "null");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/turns/t1/steps?limit=3&cursor=18446744073709551615");
    assert_at(doc, "items", "[]");
    assert_at(doc, "next_cursor", "null");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1");
    assert_at(doc, "usage.input_tokens", "3005");
    assert_at(doc, "usage.turns", "2");
    pawl_doc_free(doc);
}

/* What pawl_submit answers of a message that is there already. */
static pawl_doc *submitted(fixture *f, const char *session, const char *request_id)
{
    pw_session_row row;
    assert_int_equal(pw_find_session(&f->p, pw_str_from(session), &f->arena, &row, NULL), PW_OK);
    pw_op op = {.kind = PW_OP_MESSAGE,
                .message = {.session_id = row.id, .request_id = pw_str_from(request_id)}};
    assert_int_equal(pw_read_op(&f->p, &op, &f->arena, NULL), PW_OK);
    const pw_submitted what = {&row, &op.message.row, "existing", .summed = false};
    pw_buffer text;
    pw_json_writer w;
    pawl_doc *doc = NULL;
    pw_buffer_init_arena(&text, &f->arena, PW_ANSWER_MAX);
    pw_json_begin(&w, &text);
    assert_int_equal(pw_write_submitted(&f->p, &what, &f->arena, &w, NULL), PW_OK);
    assert_int_equal(pw_doc_new(pw_buffer_str(&text), &doc, NULL), PAWL_OK);
    return doc;
}

/* What a submission, a list or a poll shows of an open turn may not cost its whole length. */
static void test_N4_only_a_reader_who_asks_for_a_turn_sums_up_an_open_one(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    fixture_admit(f, "s1", "r2", 3, 3);
    fixture_take(f, "s1");
    pw_record more[] = {RECORD(11, TURN_OPENED, "t2", "",
                               "{\"v\":1,\"agent\":\"ops\",\"requests\":[{\"id\":\"r2\"}],\"n\":6,"
                               "\"before\":{\"turns\":1,\"usage\":{\"input_tokens\":3000}}}"),
                        RECORD(12, MODEL_COMPLETED, "t2", "model:7",
                               "{\"v\":1,\"n\":7,\"model\":\"m\",\"parts\":[],\"stop\":\"done\","
                               "\"usage\":{\"in_uncached\":5}}")};
    fixture_append(f, more, 2, 2);
    pawl_doc *doc = submitted(f, "s1", "r2");
    assert_at(doc, "submitted", "existing");
    assert_at(doc, "disposition", "claimed");
    assert_at(doc, "turn.id", "t2");
    assert_at(doc, "turn.agent", "ops");
    assert_at(doc, "turn.requests.0", "r2");
    assert_at(doc, "turn.model", "null");
    assert_at(doc, "turn.attempts", "null");
    assert_at(doc, "turn.operations", "null");
    assert_at(doc, "turn.usage", "null");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/messages/r2");
    assert_at(doc, "submitted", "existing");
    assert_at(doc, "turn.id", "t2");
    assert_at(doc, "turn.model", "m");
    assert_at(doc, "turn.attempts", "1");
    assert_at(doc, "turn.operations", "[]");
    assert_at(doc, "turn.usage.input_tokens", "5");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1");
    assert_at(doc, "turn", "t2");
    assert_at(doc, "usage.turns", "1");
    assert_at(doc, "usage.input_tokens", "3000");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/turns/t2");
    assert_at(doc, "model", "m");
    assert_at(doc, "attempts", "1");
    assert_at(doc, "usage.input_tokens", "5");
    pawl_doc_free(doc);
}

static void test_F6_an_agent_tells_its_fallbacks(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {
        "{\"name\":\"ops\",\"model\":{\"provider\":\"scripted\",\"name\":\"one\",\"fallback\":["
        "{\"name\":\"two\"},{\"provider\":\"openai\",\"name\":\"three\"}]}}",
        "{\"name\":\"plain\",\"model\":{\"provider\":\"scripted\",\"name\":\"one\"}}"};
    pw_agent agents[2] = {{.name = PW_STR_INIT("ops")}, {.name = PW_STR_INIT("plain")}};
    const pw_agent *const list[] = {&agents[0], &agents[1]};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            pw_definition_parse(&f->arena, pw_str_from(texts[i]), &agents[i].definition, NULL),
            PW_OK);
    }
    f->p.agents = list;
    f->p.agent_count = 2;
    pawl_doc *doc = fixture_read(f, "/v1/agents/ops");
    assert_at(doc, "model", "one");
    assert_at(doc, "fallback.0.provider", "scripted");
    assert_at(doc, "fallback.0.model", "two");
    assert_at(doc, "fallback.1.provider", "openai");
    assert_at(doc, "fallback.1.model", "three");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/agents");
    assert_at(doc, "items.0.fallback.1.model", "three");
    assert_at(doc, "items.1.fallback", "[]");
    pawl_doc_free(doc);
}

static void test_M4_stored_events_beyond_the_end_begin_with_resync(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    pawl_doc *doc = fixture_read(f, "/v1/sessions/s1/events?after=77");
    assert_at(doc, "events.0.event", "resync");
    assert_at(doc, "events.0.id", "null");
    assert_at(doc, "events.1.id", "1");
    pawl_doc_free(doc);
    doc = fixture_read(f, "/v1/sessions/s1/events?after=10");
    assert_at(doc, "events", "[]");
    assert_at(doc, "next_cursor", "null");
    pawl_doc_free(doc);
}

static void test_N1_a_document_gives_members_by_path(void **state)
{
    (void)state;
    pawl_doc *doc = NULL;
    assert_int_equal(
        pw_doc_new(PW_STR("{\"a\":{\"b\":[1.50,{\"c\":\"x\\ny\"}]},\"e\":null,\"\":7}"), &doc,
                   NULL),
        PAWL_OK);
    assert_at(doc, "a.b.0", "1.50");
    assert_at(doc, "a.b.1.c", "x\ny");
    assert_at(doc, "a.b.1", "{\"c\":\"x\\ny\"}");
    assert_at(doc, "e", "null");
    pawl_str got = {"untouched", 9};
    static const char *const missing[] = {"x", "a.x", "a.b.2", "a.b.-1", "a.b.x", "e.f", "a.b.0.c"};
    for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
        assert_int_equal(pawl_doc_get(doc, missing[i], &got), PAWL_NOT_FOUND);
        assert_int_equal(got.len, 9);
    }
    pawl_doc_free(doc);
    pawl_doc_free(NULL);
    doc = NULL;
    assert_int_equal(pw_doc_new(PW_STR("{"), &doc, NULL), PAWL_INTERNAL);
    assert_null(doc);
}

static pawl_doc *inspect(fixture *f, const char *what)
{
    pawl_doc *doc = NULL;
    if (pawl_inspect(&f->p, (pawl_str){what, strlen(what)}, &doc, &f->error) != PAWL_OK) {
        fail_msg("%s: %s", what, f->error.message);
    }
    return doc;
}

static void test_J7_verify_and_doctor_say_what_they_looked_at(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    pawl_doc *doc = inspect(f, "verify");
    assert_at(doc, "ok", "true");
    assert_at(doc, "checks.0.name", "store");
    pawl_doc_free(doc);
    doc = inspect(f, "doctor");
    pawl_str text = pawl_doc_text(doc);
    static const char *const names[] = {"store",  "sqlite",   "pawl",        "libuv", "libcurl",
                                        "owners", "sessions", "quarantined", "due",   "agents"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char member[60];
        snprintf(member, sizeof(member), "{\"name\":\"%s\",\"ok\":true", names[i]);
        assert_holds((pw_str){text.ptr, text.len}, member);
    }
    assert_holds((pw_str){text.ptr, text.len}, "1 alive, 0 dead");
    pawl_doc_free(doc);
    fixture_leave(f);
    fixture_admit(f, "orphan", "r", 1, 1);
    doc = inspect(f, "doctor");
    text = pawl_doc_text(doc);
    assert_at(doc, "ok", "false");
    assert_holds((pw_str){text.ptr, text.len}, "1 due and in nobody's hands: orphan");
    pawl_doc_free(doc);
    pawl_str nonsense = {"health", 6};
    assert_int_equal(pawl_inspect(&f->p, nonsense, &doc, &f->error), PAWL_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_J3_every_path_of_the_native_api_answers),
        TEST(test_A8_what_is_asked_wrongly_is_named),
        TEST(test_H2_a_session_sums_what_its_turns_used),
        TEST(test_N4_sessions_come_in_pages),
        TEST(test_C1_and_D3_the_transcript_in_order_on_any_page),
        TEST(test_A1_a_message_tells_where_it_stands),
        TEST(test_N4_turns_and_steps_come_in_pages),
        TEST(test_N4_only_a_reader_who_asks_for_a_turn_sums_up_an_open_one),
        TEST(test_F6_an_agent_tells_its_fallbacks),
        TEST(test_M4_stored_events_beyond_the_end_begin_with_resync),
        TEST(test_N1_a_document_gives_members_by_path),
        TEST(test_J7_verify_and_doctor_say_what_they_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
