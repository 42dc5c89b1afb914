/* The suite's chapters: each file gives its tests, main.c runs them all on one backend. */
#ifndef PW_TEST_STORE_STORIES_H
#define PW_TEST_STORE_STORIES_H

#include "conformance/kit.h"

#define STORY(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

extern const struct CMUnitTest admission_stories[], append_stories[], owner_stories[],
    read_stories[];
extern const size_t admission_stories_count, append_stories_count, owner_stories_count,
    read_stories_count;

#endif
