/* Following: each stored event once, in order, from any cursor; live text once, never twice (M1,
 * M2, M3). */
#include "fixture.h"

#include <poll.h>
#include <stdio.h>
#include <uv.h>

#include "base/heap.h"
#include "story.h"

#define MANY 4096

typedef struct told {
    char id[48];
    char name[48];
    char *data;
} told;

typedef struct tale {
    told list[MANY];
    size_t count;
} tale;

static tale *new_tale(void)
{
    return calloc(1, sizeof(tale));
}

static void free_tale(tale *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->list[i].data);
    }
    free(t);
}

static pawl_events *follow(fixture *f, const char *session, const char *cursor)
{
    pawl_events *e = NULL;
    int32_t status = pawl_follow(&f->p, (pawl_str){session, strlen(session)},
                                 (pawl_str){cursor, strlen(cursor)}, &e, &f->error);
    if (status != PAWL_OK) {
        fail_msg("%s: %s", cursor, f->error.message);
    }
    return e;
}

static bool next(pawl_events *e, int64_t timeout_ms, tale *to)
{
    pawl_event event = {.size = sizeof(event)};
    int32_t status = pawl_events_next(e, timeout_ms, &event);
    if (status == PAWL_TIMEOUT || status == PAWL_END) {
        return false;
    }
    assert_int_equal(status, PAWL_OK);
    assert_true(to->count < MANY);
    told *t = &to->list[to->count++];
    snprintf(t->id, sizeof(t->id), "%.*s", (int)event.id.len, event.id.ptr ? event.id.ptr : "");
    snprintf(t->name, sizeof(t->name), "%.*s", (int)event.name.len, event.name.ptr);
    t->data = strndup(event.data_json.ptr, event.data_json.len);
    return true;
}

static void drain(pawl_events *e, tale *to)
{
    while (next(e, 0, to)) {
    }
}

static tale *whole(fixture *f, const char *cursor)
{
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", cursor);
    drain(e, t);
    pawl_events_close(e);
    return t;
}

static void writer_pretended(fixture *f)
{
    static int somebody;
    f->p.writer =
        (pw_writer *)(void *)&somebody; /* never called: it only means that news will come */
}

static void test_M4_the_first_event_is_a_snapshot(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    tale *t = whole(f, "0");
    assert_string_equal(t->list[0].name, "snapshot");
    assert_string_equal(t->list[0].id, "");
    assert_non_null(
        strstr(t->list[0].data,
               "\"cursor\":\"0\",\"live\":false,\"queue\":[],\"inputs\":[],\"open\":null"));
    assert_int_equal(t->count, 1 + STORY_EVENTS - 1);
    assert_string_equal(t->list[t->count - 1].name, "turn.completed");
    free_tale(t);
}

/* The property: from the id of any event, exactly what came after it. */
static void test_M1_from_every_cursor_exactly_the_rest(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    tale *all = whole(f, "");
    for (size_t i = 1; i < all->count; i++) {
        tale *rest = whole(f, all->list[i].id);
        assert_int_equal(rest->count - 1, all->count - 1 - i);
        for (size_t j = 1; j < rest->count; j++) {
            assert_string_equal(rest->list[j].id, all->list[i + j].id);
            assert_string_equal(rest->list[j].name, all->list[i + j].name);
            assert_string_equal(rest->list[j].data, all->list[i + j].data);
        }
        free_tale(rest);
    }
    free_tale(all);
}

/* The same, read as stored pages of every size. */
static void test_M1_pages_of_stored_events_are_the_same_story(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    tale *all = whole(f, "0");
    for (int limit = 1; limit <= STORY_EVENTS; limit++) {
        char path[120];
        size_t seen = 0;
        snprintf(path, sizeof(path), "/v1/sessions/s1/events?limit=%d", limit);
        for (;;) {
            pawl_doc *page = fixture_read(f, path);
            const pw_json *tree;
            pawl_str text = pawl_doc_text(page);
            assert_int_equal(pw_json_parse(&f->arena, (pw_str){text.ptr, text.len}, 0, &tree, NULL),
                             PW_OK);
            const pw_json *events = pw_json_get(tree, "events");
            assert_true(events->count <= (uint32_t)limit);
            for (const pw_json *e = events->child; e; e = e->next) {
                seen++;
                assert_str(pw_json_text(pw_json_get(e, "id")), all->list[seen].id);
                assert_str(pw_json_text(pw_json_get(e, "event")), all->list[seen].name);
                assert_str(pw_json_get(e, "data")->raw, all->list[seen].data);
            }
            pw_str cursor = fixture_get(page, "next_cursor");
            bool more = !pw_str_is(cursor, "null");
            snprintf(path, sizeof(path), "/v1/sessions/s1/events?limit=%d&after=%.*s", limit,
                     PW_STR_ARG(cursor));
            pawl_doc_free(page);
            if (!more) {
                break;
            }
        }
        assert_int_equal(seen, all->count - 1);
    }
    free_tale(all);
}

static void test_M1_garbage_is_refused(void **state)
{
    fixture *f = *state;
    static const char *const bad[] = {"x", "-1", "1-0", "1..2", "now ", "1-2-3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pawl_events *e = NULL;
        assert_int_equal(pawl_follow(&f->p, (pawl_str){"s1", 2}, (pawl_str){bad[i], strlen(bad[i])},
                                     &e, &f->error),
                         PAWL_INVALID);
        assert_null(e);
        assert_holds(pw_str_from(f->error.message), "cursor");
    }
    static const char *const names[] = {"", "\xff", "a\x1b[31m", "a#b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pawl_events *e = NULL;
        assert_int_equal(pawl_follow(&f->p, (pawl_str){names[i], strlen(names[i])},
                                     (pawl_str){"0", 1}, &e, &f->error),
                         PAWL_INVALID);
        assert_null(e);
        assert_holds(pw_str_from(f->error.message), "session");
    }
}

static void test_M4_a_cursor_beyond_the_end_is_resynced(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    tale *all = whole(f, "0");
    static const char *const beyond[] = {"11", "11-1", "999.7"};
    for (size_t i = 0; i < 3; i++) {
        tale *t = whole(f, beyond[i]);
        assert_int_equal(t->count, all->count + 1);
        assert_string_equal(t->list[0].name, "snapshot");
        assert_non_null(strstr(t->list[0].data, "\"cursor\":\"0\""));
        assert_string_equal(t->list[1].name, "resync");
        assert_string_equal(t->list[2].id, all->list[1].id);
        free_tale(t);
    }
    free_tale(all);
}

static void test_M1_now_is_only_what_comes(void **state)
{
    fixture *f = *state;
    fixture_story(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "now");
    drain(e, t);
    assert_int_equal(t->count, 1);
    assert_non_null(strstr(t->list[0].data, "\"cursor\":\"10\""));
    fixture_take(f, "s1");
    pw_record opened = RECORD(11, TURN_OPENED, "t2", "", "{\"v\":1,\"requests\":[],\"n\":7}");
    fixture_append(f, &opened, 1, 0);
    assert_true(next(e, 2000, t));
    assert_string_equal(t->list[1].id, "11");
    pawl_events_close(e);
    free_tale(t);
}

static void test_M1_a_session_that_is_not_there_yet_is_waited_for(void **state)
{
    fixture *f = *state;
    writer_pretended(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "0");
    int fd = pawl_events_fd(e);
    drain(e, t);
    assert_int_equal(t->count, 1);
    assert_string_equal(t->list[0].name, "snapshot");
    fixture_admit(f, "s1", "r1", 1, 1);
    pw_hub_admitted(f->p.hub, f->session_id);
    drain(e, t);
    assert_int_equal(t->count, 2);
    assert_string_equal(t->list[1].name, "message.queued");
    assert_non_null(strstr(t->list[1].data, "\"request_id\":\"r1\",\"position\":1"));
    fixture_take(f, "s1");
    pw_record opened = STORY_OPENED;
    fixture_append(f, &opened, 1, 1);
    pw_hub_committed(f->p.hub, f->session_id, 1, true);
    drain(e, t);
    assert_int_equal(t->count, 3);
    assert_string_equal(t->list[2].name, "turn.started");
    assert_int_equal(pawl_events_fd(e), fd);
    pawl_events_close(e);
    free_tale(t);
}

static void delta(fixture *f, uint64_t after, uint64_t so_far, const char *text)
{
    pw_hub_delta(f->p.hub, f->session_id, after, PW_STR("model:2"), 1, so_far, false,
                 pw_str_from(text));
}

static void begin_turn(fixture *f)
{
    writer_pretended(f);
    fixture_admit(f, "s1", "r1", 1, 1);
    fixture_take(f, "s1");
    pw_record opened = STORY_OPENED;
    fixture_append(f, &opened, 1, 1);
    pw_hub_committed(f->p.hub, f->session_id, 1, true);
}

/* The text a reader has: the snapshot's, then deltas; a restart empties it. */
static void fold(const tale *t, char *text, size_t size)
{
    text[0] = '\0';
    for (size_t i = 0; i < t->count; i++) {
        const told *e = &t->list[i];
        const char *at = strstr(e->data, "\"text\":\"");
        if (strcmp(e->name, "message.restarted") == 0) {
            text[0] = '\0';
        } else if (at &&
                   (strcmp(e->name, "message.delta") == 0 || strcmp(e->name, "snapshot") == 0)) {
            at += 8;
            size_t len = strlen(text);
            snprintf(text + len, size - len, "%.*s", (int)strcspn(at, "\""), at);
        }
    }
}

static void test_M2_live_text_comes_with_its_place(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    drain(e, t);
    delta(f, 1, 4, "Here");
    drain(e, t);
    delta(f, 1, 9, " is h");
    delta(f, 1, 13, "alf ");
    drain(e, t);
    assert_int_equal(t->count, 3);
    assert_string_equal(t->list[1].id, "1.4");
    assert_string_equal(t->list[2].id, "1.13"); /* pieces not yet told come as one (M3) */
    assert_non_null(strstr(t->list[2].data, "\"step\":\"model:2\",\"attempt\":1"));
    assert_non_null(strstr(t->list[2].data, "\"turn\":\"t1\""));
    assert_non_null(strstr(t->list[2].data, "\"text\":\" is half \""));
    pawl_events_close(e);
    free_tale(t);
}

static void test_M2_on_reconnect_the_text_so_far_comes_once(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    delta(f, 1, 4, "Here");
    delta(f, 1, 9, " is h");
    static const char *const cursors[] = {"0", "1", "1.0", "1.4", "1.7", "1.9", "now"};
    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
        char text[80];
        tale *t = whole(f, cursors[i]);
        fold(t, text, sizeof(text));
        assert_string_equal(text, "Here is h");
        assert_non_null(
            strstr(t->list[0].data, "\"open\":{\"step\":\"model:2\",\"attempt\":1,\"text\":"));
        free_tale(t);
    }
    tale *t = whole(f, "1.4");
    assert_int_equal(t->count, 2);
    assert_string_equal(t->list[1].id, "1.9");
    assert_non_null(strstr(t->list[1].data, "\"text\":\" is h\""));
    free_tale(t);
    t = whole(f, "1.9");
    assert_int_equal(t->count, 1);
    free_tale(t);
}

static void test_M2_a_record_amid_a_message_takes_nothing_back(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    delta(f, 1, 4, "Here");
    drain(e, t);
    pw_record accepted =
        RECORD(2, MODEL_ACCEPTED, "t1", "model:2", "{\"v\":1,\"response_id\":\"resp_1\"}");
    fixture_append(f, &accepted, 1, 0);
    pw_hub_passed(f->p.hub, f->session_id, 2);
    delta(f, 1, 9, " is h"); /* told before the session had heard that it is durable */
    drain(e, t);
    delta(f, 2, 13, "alf ");
    drain(e, t);
    char text[80];
    fold(t, text, sizeof(text));
    assert_string_equal(text, "Here is half ");
    assert_int_equal(t->count, 4);
    assert_string_equal(t->list[2].id, "2.9");
    assert_string_equal(t->list[3].id, "2.13");
    pawl_events_close(e);
    free_tale(t);
    static const char *const cursors[] = {"0", "1", "1.4", "1.9", "2", "2.9", "2.13", "now"};
    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++) {
        t = whole(f, cursors[i]);
        fold(t, text, sizeof(text));
        assert_string_equal(text, "Here is half ");
        free_tale(t);
    }
}

static void test_C5_what_a_discard_took_back_is_told_before_new_text(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    delta(f, 1, 9, "Here is h");
    drain(e, t);
    pw_record discarded = STORY_DISCARDED;
    fixture_append(f, &discarded, 1, 0);
    pw_hub_committed(f->p.hub, f->session_id, 2, true);
    pw_hub_delta(f->p.hub, f->session_id, 2, PW_STR("model:2"), 1, 5, false, PW_STR("Other"));
    drain(e, t);
    assert_string_equal(t->list[2].name, "message.restarted");
    assert_string_equal(t->list[2].id, "2");
    assert_string_equal(t->list[3].id, "2.5");
    assert_int_equal(t->count, 4);
    pawl_events_close(e);
    free_tale(t);
    char text[80]; /* case F3, over a reconnect with the old cursor */
    t = whole(f, "1.9");
    fold(t, text, sizeof(text));
    assert_string_equal(text, "Other");
    assert_string_equal(t->list[1].name, "message.restarted");
    free_tale(t);
}

/* An append that is answered after its session was let go of tells of its records, and is no sign
 * that this process has the session: nobody would ever take such a sign back. */
static void test_M2_a_commit_after_letting_go_does_not_make_a_session_live(void **state)
{
    fixture *f = *state;
    pw_arena arena;
    pw_hub_live live;
    pw_hub_interest *interest = NULL;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    assert_int_equal(pw_hub_watch(f->p.hub, f->session_id, &interest), PW_OK);
    pw_hub_committed(f->p.hub, f->session_id, 1, true);
    assert_int_equal(pw_hub_live_get(f->p.hub, f->session_id, 0, &arena, &live), PW_OK);
    assert_true(live.held);
    pw_hub_forget(f->p.hub, f->session_id);
    while (pw_hub_wait(interest, 0) == PW_OK) {
    }
    pw_hub_committed(f->p.hub, f->session_id, 2, false);
    assert_int_equal(pw_hub_wait(interest, 0), PW_OK); /* it is news all the same */
    assert_int_equal(pw_hub_live_get(f->p.hub, f->session_id, 0, &arena, &live), PW_OK);
    assert_false(live.held);
    pw_hub_unwatch(interest);
    pw_arena_free(&arena);
}

/* A process that died wrote no discard: the new attempt takes the shown text back. */
static void test_case_F2_a_new_attempt_takes_shown_text_back_before_anything_else(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    delta(f, 1, 9, "Here is h");
    drain(e, t);
    pw_hub_forget(f->p.hub, f->session_id);
    pw_record attempt =
        RECORD(2, ATTEMPT_STARTED, "t1", "",
               "{\"v\":1,\"attempt\":2,\"run\":\"r\",\"cause\":\"recovery\",\"lost\":1}");
    fixture_append(f, &attempt, 1, 0);
    pw_hub_changed(f->p.hub);
    drain(e, t);
    assert_int_equal(t->count, 4);
    assert_string_equal(t->list[2].name, "message.restarted");
    assert_string_equal(t->list[2].id, "");
    assert_string_equal(t->list[3].name, "attempt.started");
    assert_string_equal(t->list[3].id, "2");
    pawl_events_close(e);
    free_tale(t);
    t = whole(f, "1.9");
    assert_string_equal(t->list[1].name, "message.restarted");
    assert_string_equal(t->list[2].name, "attempt.started");
    free_tale(t);
    t = whole(f, "1");
    assert_string_equal(t->list[1].name, "attempt.started");
    free_tale(t);
}

static void test_M2_text_that_began_anew_with_no_record_is_restarted(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    delta(f, 1, 9, "Here is h");
    drain(e, t);
    delta(f, 1, 3, "Now"); /* does not follow: the text begins anew */
    drain(e, t);
    assert_string_equal(t->list[2].name, "message.restarted");
    assert_string_equal(t->list[3].id, "1.3");
    pawl_events_close(e);
    free_tale(t);
    t = whole(f, "1.9");
    assert_string_equal(t->list[1].name, "message.restarted");
    assert_string_equal(t->list[2].id, "1.3");
    free_tale(t);
}

static void test_M2_live_text_never_overtakes_a_stored_event(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    drain(e, t);
    pw_record discarded = STORY_DISCARDED;
    fixture_append(f, &discarded, 1, 0); /* durable, and the follower was not told */
    pw_hub_delta(f->p.hub, f->session_id, 2, PW_STR("model:2"), 1, 5, false, PW_STR("Other"));
    drain(e, t);
    assert_int_equal(t->count, 3);
    assert_string_equal(t->list[1].id, "2");
    assert_string_equal(t->list[2].id, "2.5");
    pawl_events_close(e);
    free_tale(t);
}

static void test_M2_reasoning_carries_no_id(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "1");
    drain(e, t);
    pw_hub_delta(f->p.hub, f->session_id, 1, PW_STR("model:2"), 1, 0, true, PW_STR("hm "));
    pw_hub_delta(f->p.hub, f->session_id, 1, PW_STR("model:2"), 1, 0, true, PW_STR("so"));
    delta(f, 1, 4, "Here");
    drain(e, t);
    assert_int_equal(t->count, 3);
    assert_string_equal(t->list[1].name, "reasoning.delta");
    assert_string_equal(t->list[1].id, "");
    assert_non_null(strstr(t->list[1].data, "\"text\":\"hm so\""));
    assert_string_equal(t->list[2].id, "1.4");
    pawl_events_close(e);
    free_tale(t);
}

static void test_M2_the_snapshot_says_who_is_live(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    pw_hub_forget(f->p.hub, f->session_id);
    tale *t = whole(f, "1");
    assert_non_null(strstr(t->list[0].data, "\"live\":false"));
    assert_non_null(strstr(t->list[0].data, "\"turn\":\"t1\""));
    assert_non_null(strstr(t->list[0].data, "\"open\":null"));
    free_tale(t);
}

static void test_A7_the_snapshot_lists_what_waits(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    fixture_admit(f, "s1", "r2", 5, 5);
    fixture_admit(f, "s1", "r3", 6, 6);
    tale *t = whole(f, "1");
    assert_non_null(strstr(t->list[0].data,
                           "{\"request_id\":\"r2\",\"disposition\":\"pending\",\"position\":1,"));
    assert_non_null(strstr(t->list[0].data,
                           "{\"request_id\":\"r3\",\"disposition\":\"pending\",\"position\":2,"));
    free_tale(t);
}

/* Longer than any page, each record of other length. */
static void test_M1_a_long_journal_is_told_whole(void **state)
{
    fixture *f = *state;
    enum { RECORDS = 1500 };
    fixture_admit(f, "s1", "r1", 1, 1);
    fixture_take(f, "s1");
    pw_record opened = STORY_OPENED;
    fixture_append(f, &opened, 1, 1);
    char *filler = malloc(70000);
    memset(filler, 'x', 70000);
    for (uint64_t seq = 2; seq <= RECORDS; seq++) {
        char *body = malloc(80000);
        int len = snprintf(body, 80000, "{\"v\":1,\"try\":1,\"code\":\"%.*s\"}",
                           seq % 100 == 0 ? 69000 : (int)(seq % 50), filler);
        pw_record r = {.seq = seq,
                       .at_ms = 1,
                       .kind = PW_RECORD_MODEL_RETRYING,
                       .turn = PW_STR("t1"),
                       .step = PW_STR("model:2"),
                       .body = {body, (size_t)len}};
        fixture_append(f, &r, 1, 0);
        free(body);
    }
    free(filler);
    tale *t = whole(f, "0");
    assert_int_equal(t->count, RECORDS + 1);
    for (size_t i = 1; i < t->count; i++) {
        char id[24];
        snprintf(id, sizeof(id), "%zu", i);
        assert_string_equal(t->list[i].id, id);
    }
    free_tale(t);
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_M3_the_descriptor_is_readable_while_there_is_something(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "0");
    int fd = pawl_events_fd(e);
    assert_true(fd >= 0);
    while (readable(fd)) {
        (void)next(e, 0, t);
    }
    assert_int_equal(t->count, 2);
    delta(f, 1, 4, "Here");
    assert_true(readable(fd));
    while (readable(fd)) {
        (void)next(e, 0, t);
    }
    assert_int_equal(t->count, 3);
    pawl_events_close(e);
    free_tale(t);
}

static void close_hub(void *hub)
{
    pw_hub_close(hub);
}

static void test_M3_closing_wakes_a_reader(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    tale *t = new_tale();
    pawl_events *e = follow(f, "s1", "now");
    drain(e, t);
    uv_thread_t thread;
    assert_int_equal(uv_thread_create(&thread, close_hub, f->p.hub), 0);
    pawl_event event = {.size = sizeof(event)};
    assert_int_equal(pawl_events_next(e, -1, &event), PAWL_END);
    uv_thread_join(&thread);
    pawl_events_close(e);
    free_tale(t);
}

typedef struct speaker {
    fixture *f;
    uint64_t pieces;
} speaker;

static void speak(void *arg)
{
    speaker *s = arg;
    for (uint64_t i = 1; i <= s->pieces; i++) {
        delta(s->f, 1, i * 4, "abc ");
    }
}

/* However slowly it is read, what is told is the text, in order, each byte once. */
static void test_M3_a_slow_reader_gets_the_text_whole_and_costs_the_speaker_nothing(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    speaker s = {f, 20000};
    uv_thread_t thread;
    pawl_events *slow = follow(f, "s1", "now"), *quick = follow(f, "s1", "now");
    assert_int_equal(uv_thread_create(&thread, speak, &s), 0);
    uint64_t got = 0;
    pawl_event event = {.size = sizeof(event)};
    while (got < s.pieces * 4) {
        assert_int_equal(pawl_events_next(quick, 5000, &event), PAWL_OK);
        if (event.name.len == 13) { /* message.delta */
            got = strtoull(event.id.ptr + 2, NULL, 10);
        }
    }
    uv_thread_join(&thread);
    assert_int_equal(pawl_events_next(slow, 0, &event), PAWL_OK);
    const char *open = strstr(event.data_json.ptr, "\"open\":{");
    assert_non_null(open); /* all of it in the snapshot, as `now` was asked for */
    pawl_events_close(slow);
    pawl_events_close(quick);
}

static void test_case_F5_followers_that_never_read_hold_nothing(void **state)
{
    fixture *f = *state;
    begin_turn(f);
    pawl_events *idle[200];
    for (size_t i = 0; i < 200; i++) {
        idle[i] = follow(f, "s1", "0");
    }
    assert_true(pw_hub_has_interest(f->p.hub));
    speaker s = {f, 5000};
    speak(&s);
    for (size_t i = 0; i < 200; i++) {
        pawl_events_close(idle[i]);
    }
    assert_false(pw_hub_has_interest(f->p.hub));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_M4_the_first_event_is_a_snapshot),
        TEST(test_M1_from_every_cursor_exactly_the_rest),
        TEST(test_M1_pages_of_stored_events_are_the_same_story),
        TEST(test_M1_garbage_is_refused),
        TEST(test_M4_a_cursor_beyond_the_end_is_resynced),
        TEST(test_M1_now_is_only_what_comes),
        TEST(test_M1_a_session_that_is_not_there_yet_is_waited_for),
        TEST(test_M2_live_text_comes_with_its_place),
        TEST(test_M2_on_reconnect_the_text_so_far_comes_once),
        TEST(test_M2_a_record_amid_a_message_takes_nothing_back),
        TEST(test_C5_what_a_discard_took_back_is_told_before_new_text),
        TEST(test_M2_a_commit_after_letting_go_does_not_make_a_session_live),
        TEST(test_case_F2_a_new_attempt_takes_shown_text_back_before_anything_else),
        TEST(test_M2_text_that_began_anew_with_no_record_is_restarted),
        TEST(test_M2_live_text_never_overtakes_a_stored_event),
        TEST(test_M2_reasoning_carries_no_id),
        TEST(test_M2_the_snapshot_says_who_is_live),
        TEST(test_A7_the_snapshot_lists_what_waits),
        TEST(test_M1_a_long_journal_is_told_whole),
        TEST(test_M3_the_descriptor_is_readable_while_there_is_something),
        TEST(test_M3_closing_wakes_a_reader),
        TEST(test_M3_a_slow_reader_gets_the_text_whole_and_costs_the_speaker_nothing),
        TEST(test_case_F5_followers_that_never_read_hold_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
