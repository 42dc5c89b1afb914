/*
 * A handle on a memory store, put together by hand: no threads run, every record is written by the
 * test. What reads must not need a loop or a writer.
 */
#ifndef TEST_READ_FIXTURE_H
#define TEST_READ_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the ones above first */
#include <cmocka.h>

#include "runtime/read_inner.h"

typedef struct fixture {
    pawl p;
    pw_arena arena; /* the test's own results */
    pw_owner_id owner;
    uint64_t epoch;
    int64_t session_id;
    pawl_error error;
} fixture;

int fixture_setup(void **state); /* a store and a handle; `*state` is the fixture */
int fixture_teardown(void **state);

void fixture_admit(fixture *, const char *session, const char *request_id, int64_t at_ms,
                   int64_t due_ms);
void fixture_take(fixture *, const char *session); /* joins as an owner when it has not */
/* Appends records as they are; a turn.opened claims inbox row `claims` (0: none), an end closes the
 * turn. */
void fixture_append(fixture *, const pw_record *, size_t count, uint64_t claims);
void fixture_head(fixture *, const pw_record *,
                  const pw_head *); /* one record, and the row's columns */
void fixture_leave(fixture *);
/* Session s1 with the whole story of view/story.h, its message r1 admitted and claimed. */
void fixture_story(fixture *);

pawl_doc *fixture_read(fixture *, const char *path); /* must succeed */
void fixture_refused(fixture *, const char *path, int32_t code,
                     const char *names); /* must fail so, and say what */
pw_str fixture_get(const pawl_doc *, const char *path);
void assert_str(pw_str got, const char *want);
void assert_holds(pw_str text, const char *part);
void assert_at(const pawl_doc *, const char *path, const char *want);

#endif
