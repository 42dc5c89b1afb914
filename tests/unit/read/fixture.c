/* See fixture.h. */
#include "fixture.h"

#include <stdio.h>

#include "base/heap.h"
#include "story.h"

void assert_str(pw_str got, const char *want)
{
    if (!pw_str_is(got, want)) {
        fail_msg("got %.*s, wanted %s", PW_STR_ARG(got), want);
    }
}

void assert_holds(pw_str text, const char *part)
{
    if (pw_str_find(text, pw_str_from(part)) == SIZE_MAX) {
        fail_msg("\"%s\" is not in: %.*s", part, PW_STR_ARG(text));
    }
}

pw_str fixture_get(const pawl_doc *doc, const char *path)
{
    pawl_str got;
    if (pawl_doc_get(doc, path, &got) != PAWL_OK) {
        fail_msg("no %s in %s", path, pawl_doc_text(doc).ptr);
    }
    return (pw_str){got.ptr, got.len};
}

void assert_at(const pawl_doc *doc, const char *path, const char *want)
{
    pw_str got = fixture_get(doc, path);
    if (!pw_str_is(got, want)) {
        fail_msg("%s is %.*s, wanted %s, in %s", path, PW_STR_ARG(got), want,
                 pawl_doc_text(doc).ptr);
    }
}

int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    pw_store_options options = {.url = PW_STR("memory:"), .allocator = &pw_heap};
    f->p.allocator = &pw_heap;
    f->p.principal = PW_STR("local");
    pw_arena_init(&f->arena, &pw_heap, 0, 0);
    pw_arena_init(&f->p.arena, &pw_heap, 0, 0);
    assert_int_equal(pw_store_open(&options, &f->p.store, NULL), PW_OK);
    assert_int_equal(pw_hub_new(&pw_heap, &f->p.hub), PW_OK);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture *f = *state;
    pw_hub_close(f->p.hub);
    pw_hub_free(f->p.hub);
    pw_store_close(f->p.store);
    pw_arena_free(&f->p.arena);
    pw_arena_free(&f->arena);
    free(f);
    return 0;
}

static void execute(fixture *f, pw_op *op)
{
    op->arena = &f->arena;
    pw_store_execute(f->p.store, op, 1);
    if (op->status != PW_OK) {
        fail_msg("op %d: %s: %s", (int)op->kind, pw_status_code(op->status), op->error.message);
    }
}

void fixture_admit(fixture *f, const char *session, const char *request_id, int64_t at_ms,
                   int64_t due_ms)
{
    char uid[64];
    snprintf(uid, sizeof(uid), "uid-%s", session);
    pw_op op = {.kind = PW_OP_ADMIT,
                .admit = {.principal = f->p.principal,
                          .session = pw_str_from(session),
                          .uid = pw_str_from(uid),
                          .agent = PW_STR("ops"),
                          .request_id = pw_str_from(request_id),
                          .digest = PW_STR("d"),
                          .body = PW_STR("{\"role\":\"user\",\"source\":\"cli\",\"user\":null,"
                                         "\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}"),
                          .now_ms = at_ms,
                          .due_at_ms = due_ms}};
    execute(f, &op);
    assert_int_equal(op.admit.answer, PW_ADMITTED);
    f->session_id = op.admit.session_id;
}

void fixture_take(fixture *f, const char *session)
{
    if (f->owner.text[0] == '\0') {
        snprintf(f->owner.text, sizeof(f->owner.text), "018c0000-0000-7000-8000-000000000001");
        pw_op join = {
            .kind = PW_OP_JOIN,
            .owner = {.owner = f->owner, .address = PW_STR("host/7"), .now_ms = pw_now_ms()}};
        execute(f, &join);
    }
    pw_op find = {.kind = PW_OP_SESSION,
                  .session = {.principal = f->p.principal, .session = pw_str_from(session)}};
    execute(f, &find);
    pw_op take = {.kind = PW_OP_TAKE,
                  .take = {.session_id = find.session.row.id,
                           .owner = f->owner,
                           .max_attempts = 5,
                           .refuse_suspect_from = -1,
                           .now_ms = pw_now_ms()}};
    execute(f, &take);
    assert_int_equal(take.take.answer, PW_TOOK);
    f->session_id = take.take.row.id;
    f->epoch = take.take.row.epoch;
}

static void append(fixture *f, pw_append *a)
{
    pw_op op = {.kind = PW_OP_APPEND,
                .append = {.session_id = f->session_id, .epoch = f->epoch, .append = a}};
    execute(f, &op);
}

static pw_turn_state state_of_end(const pw_record *r)
{
    static const char *const ends[] = {"completed", "failed", "paused", "exhausted", "cancelled"};
    for (size_t i = 0; i < 5; i++) {
        char member[40];
        snprintf(member, sizeof(member), "\"state\":\"%s\"", ends[i]);
        if (pw_str_find(r->body, pw_str_from(member)) != SIZE_MAX) {
            return (pw_turn_state)(PW_TURN_COMPLETED + i);
        }
    }
    fail_msg("no state in %.*s", PW_STR_ARG(r->body));
    return PW_TURN_FAILED;
}

void fixture_head(fixture *f, const pw_record *r, const pw_head *head)
{
    pw_append a = {.records = r,
                   .record_count = 1,
                   .turn = r->turn,
                   .turn_state = PW_TURN_RUNNING,
                   .head = *head};
    if (r->kind != PW_RECORD_TURN_OPENED && r->kind != PW_RECORD_TURN_ENDED) {
        a.turn = PW_STR_NONE;
    }
    pw_consumed consumed = {.n = 1, .disposition = PW_CLAIMED};
    if (r->kind == PW_RECORD_TURN_OPENED) {
        a.turn_opened_seq = r->seq;
        a.consumed = &consumed;
        a.consumed_count = 1;
    }
    if (r->kind == PW_RECORD_TURN_ENDED) {
        a.turn_ended_seq = r->seq;
        a.turn_state = state_of_end(r);
    }
    append(f, &a);
}

void fixture_append(fixture *f, const pw_record *records, size_t count, uint64_t claims)
{
    for (size_t i = 0; i < count; i++) {
        const pw_record *r = &records[i];
        pw_append a = {.records = r, .record_count = 1, .turn_state = PW_TURN_RUNNING};
        pw_consumed consumed = {.n = claims, .disposition = PW_CLAIMED};
        if (r->kind == PW_RECORD_TURN_OPENED) {
            a.turn = r->turn;
            a.turn_opened_seq = r->seq;
            a.consumed = claims > 0 ? &consumed : NULL;
            a.consumed_count = claims > 0 ? 1 : 0;
            a.head =
                (pw_head){.set = true, .turn = r->turn, .state = PW_TURN_RUNNING, .base_seq = -1};
        } else if (r->kind == PW_RECORD_TURN_ENDED) {
            a.turn = r->turn;
            a.turn_ended_seq = r->seq;
            a.turn_state = state_of_end(r);
            a.head = (pw_head){
                .set = true, .base_seq = -1, .wake_at_ms = -1, .looked_n = 99, .release = true};
        }
        append(f, &a);
    }
}

void fixture_leave(fixture *f)
{
    pw_op op = {.kind = PW_OP_LEAVE, .owner = {.owner = f->owner, .now_ms = pw_now_ms()}};
    execute(f, &op);
    f->owner.text[0] = '\0';
}

void fixture_story(fixture *f)
{
    static const pw_record story[] = {STORY};
    fixture_admit(f, "s1", "r1", 1700000000500, 1700000000500);
    fixture_take(f, "s1");
    fixture_append(f, story, STORY_COUNT, 1);
}

pawl_doc *fixture_read(fixture *f, const char *path)
{
    pawl_doc *doc = NULL;
    int32_t status = pawl_read(&f->p, (pawl_str){path, strlen(path)}, &doc, &f->error);
    if (status != PAWL_OK) {
        fail_msg("%s: %s", path, f->error.message);
    }
    return doc;
}

void fixture_refused(fixture *f, const char *path, int32_t code, const char *names)
{
    pawl_doc *doc = NULL;
    f->error = (pawl_error){0};
    assert_int_equal(pawl_read(&f->p, (pawl_str){path, strlen(path)}, &doc, &f->error), code);
    assert_null(doc);
    assert_holds(pw_str_from(f->error.message), names);
}
