/* Arenas and buffers: alignment, limits, overflow, marks, maximum, sticky failure. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/id.h"
#include "support/failing_allocator.h"

static void test_arena_memory_is_aligned_and_zeroed(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_arena arena;
    pw_arena_init(&arena, &t.allocator, 0, 0);
    for (size_t round = 0; round < 3; round++) {
        for (size_t size = 0; size < 3000; size += 7) {
            unsigned char *at = pw_arena_alloc(&arena, size);
            assert_non_null(at);
            assert_int_equal((uintptr_t)at % 16, 0);
            for (size_t i = 0; i < size; i++) {
                assert_int_equal(at[i], 0);
            }
            memset(at, 0xAB, size);
        }
        pw_arena_reset(&arena);
    }
    assert_true(t.live_blocks <= 1);
    assert_int_equal(arena.held, t.live_bytes);
    pw_arena_free(&arena);
    assert_int_equal(t.live_blocks, 0);
    assert_int_equal(arena.held, 0);
    pw_arena_free(&arena);
}

static void test_arena_zeroed_can_be_freed(void **state)
{
    (void)state;
    pw_arena arena = {0};
    pw_arena_free(&arena);
    pw_arena_reset(&arena);
}

static void test_arena_overflow_is_refused(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_arena arena;
    pw_arena_init(&arena, &t.allocator, 0, 0);
    assert_non_null(pw_arena_alloc(&arena, 0));
    assert_null(pw_arena_array(&arena, SIZE_MAX / 2, 3));
    for (size_t below = 0; below < 200; below++) {
        assert_null(pw_arena_bytes(&arena, SIZE_MAX - below));
    }
    pw_str copy;
    assert_int_equal(pw_arena_dup(&arena, (pw_str){"", SIZE_MAX}, &copy), PW_NOMEM);
    pw_arena_free(&arena);
    assert_int_equal(t.live_bytes, 0);
}

static void test_arena_never_holds_more_than_its_limit(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    for (size_t limit = 64; limit < 20000; limit += 333) {
        pw_arena arena;
        pw_arena_init(&arena, &t.allocator, 0, limit);
        size_t given = 0;
        while (pw_arena_alloc(&arena, 48) != NULL) {
            given += 48;
            assert_true(arena.held <= limit);
            assert_true(t.live_bytes <= limit);
        }
        assert_null(pw_arena_alloc(&arena, limit));
        assert_true(given + 48 + 1024 > limit - limit / 4 || limit < 2000);
        pw_arena_free(&arena);
    }
    assert_int_equal(t.live_bytes, 0);
}

static void test_arena_big_requests_do_not_waste_the_current_block(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_arena arena;
    pw_arena_init(&arena, &t.allocator, 4096, 0);
    char *first = pw_arena_alloc(&arena, 16);
    assert_non_null(pw_arena_alloc(&arena, 100000));
    char *second = pw_arena_alloc(&arena, 16);
    assert_true(second > first && second - first <= 64);
    pw_arena_free(&arena);
    assert_int_equal(t.live_bytes, 0);
}

/* Random marks and rewinds against a model: what was made before the mark stays untouched. */
static void test_arena_rewind_gives_back_what_is_younger(void **state)
{
    (void)state;
    enum { DEPTH = 12, PIECES = 4000 };
    static struct {
        unsigned char *at;
        size_t size;
        unsigned char fill;
    } pieces[PIECES];
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_random random;
    pw_random_seed(&random, (const uint8_t[32]){7});
    for (int round = 0; round < 40; round++) {
        pw_arena arena;
        pw_arena_init(&arena, &t.allocator, 64u << (round % 6), 0);
        pw_arena_mark marks[DEPTH];
        size_t made[DEPTH], held[DEPTH], count = 0, depth = 0;
        for (int step = 0; step < 600; step++) {
            const uint64_t what = pw_random_below(&random, 10);
            if (what == 0 && depth < DEPTH) {
                made[depth] = count;
                held[depth] = arena.held;
                marks[depth++] = pw_arena_mark_get(&arena);
            } else if (what == 1 && depth > 0) {
                depth = (size_t)pw_random_below(&random, depth);
                pw_arena_rewind(&arena, marks[depth]);
                count = made[depth];
                assert_int_equal(arena.held, held[depth]);
                assert_int_equal(arena.held, t.live_bytes);
            } else if (count < PIECES) {
                const bool big = pw_random_below(&random, 8) == 0;
                const size_t size = 1 + (size_t)pw_random_below(&random, big ? 90000 : 200);
                pieces[count].at = pw_arena_alloc(&arena, size);
                pieces[count].size = size;
                pieces[count].fill = (unsigned char)(step + 1);
                memset(pieces[count].at, pieces[count].fill, size);
                count++;
            }
        }
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(pieces[i].at[0], pieces[i].fill);
            assert_int_equal(pieces[i].at[pieces[i].size - 1], pieces[i].fill);
        }
        pw_arena_free(&arena);
        assert_int_equal(t.live_bytes, 0);
    }
}

static void test_arena_dup_ends_with_nul(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_arena arena;
    pw_arena_init(&arena, &t.allocator, 0, 0);
    pw_str copy;
    assert_int_equal(pw_arena_dup(&arena, PW_STR("abc"), &copy), PW_OK);
    assert_string_equal(copy.ptr, "abc");
    assert_int_equal(pw_arena_dup(&arena, PW_STR_NONE, &copy), PW_OK);
    assert_string_equal(copy.ptr, "");
    assert_int_equal(copy.len, 0);
    pw_arena_free(&arena);
}

static void buffer_roundtrip(pw_buffer *b)
{
    assert_int_equal(pw_buffer_str(b).len, 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pw_buffer_add(b, PW_STR("abc")), PW_OK);
        assert_int_equal(pw_buffer_byte(b, '-'), PW_OK);
        assert_int_equal(b->ptr[b->len], 0);
    }
    assert_int_equal(b->len, 4000);
    pw_buffer_consume(b, 3996);
    assert_string_equal(b->ptr, "abc-");
    assert_int_equal(pw_buffer_i64(b, INT64_MIN), PW_OK);
    assert_int_equal(pw_buffer_u64(b, UINT64_MAX), PW_OK);
    assert_int_equal(pw_buffer_i64(b, 0), PW_OK);
    assert_int_equal(pw_buffer_format(b, "|%s %d|", "x", -5), PW_OK);
    assert_string_equal(b->ptr, "abc--922337203685477580818446744073709551615"
                                "0|x -5|");
    pw_buffer_clear(b);
    assert_string_equal(b->ptr, "");
    char wide[3000];
    memset(wide, 'w', sizeof wide);
    assert_int_equal(pw_buffer_format(b, "<%.*s>", (int)sizeof wide, wide), PW_OK);
    assert_int_equal(b->len, sizeof wide + 2);
    assert_int_equal(b->ptr[b->len - 1], '>');
}

static void test_buffer_grows_on_heap_and_arena(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_buffer b;
    pw_buffer_init(&b, &t.allocator, SIZE_MAX);
    buffer_roundtrip(&b);
    pw_buffer_free(&b);
    assert_int_equal(t.live_bytes, 0);
    pw_buffer_free(&b);
    pw_arena arena;
    pw_arena_init(&arena, &t.allocator, 0, 0);
    pw_buffer_init_arena(&b, &arena, 1 << 20);
    buffer_roundtrip(&b);
    pw_buffer_free(&b);
    pw_arena_free(&arena);
    assert_int_equal(t.live_bytes, 0);
    pw_buffer zeroed = {0};
    pw_buffer_free(&zeroed);
}

static void test_buffer_maximum_is_exact_and_failure_sticks(void **state)
{
    (void)state;
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_buffer b;
    for (size_t maximum = 0; maximum < 300; maximum++) {
        pw_buffer_init(&b, &t.allocator, maximum);
        for (size_t i = 0; i < maximum; i++) {
            assert_int_equal(pw_buffer_byte(&b, 'a'), PW_OK);
        }
        assert_int_equal(pw_buffer_byte(&b, 'b'), PW_TOO_LARGE);
        assert_int_equal(b.len, maximum);
        assert_int_equal(b.failed, PW_TOO_LARGE);
        pw_buffer_clear(&b);
        assert_int_equal(b.failed, PW_OK);
        assert_int_equal(pw_buffer_reserve(&b, maximum), PW_OK);
        assert_int_equal(pw_buffer_reserve(&b, maximum + 1), PW_TOO_LARGE);
        pw_buffer_free(&b);
    }
    pw_buffer_init(&b, &t.allocator, 10);
    assert_int_equal(pw_buffer_add(&b, PW_STR("12345")), PW_OK);
    assert_int_equal(pw_buffer_format(&b, "%s", "678901"), PW_TOO_LARGE);
    assert_string_equal(b.ptr, "12345");
    /* A piece that would fit is refused too: no hole in the middle. */
    assert_int_equal(pw_buffer_add(&b, PW_STR("6")), PW_TOO_LARGE);
    assert_string_equal(b.ptr, "12345");
    pw_buffer_free(&b);
    pw_buffer_init(&b, &t.allocator, SIZE_MAX);
    assert_int_equal(pw_buffer_byte(&b, 'x'), PW_OK);
    assert_int_equal(pw_buffer_reserve(&b, SIZE_MAX - 1), PW_NOMEM);
    assert_int_equal(b.len, 1);
    pw_buffer_free(&b);
    assert_int_equal(t.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_memory_is_aligned_and_zeroed),
        cmocka_unit_test(test_arena_zeroed_can_be_freed),
        cmocka_unit_test(test_arena_overflow_is_refused),
        cmocka_unit_test(test_arena_never_holds_more_than_its_limit),
        cmocka_unit_test(test_arena_big_requests_do_not_waste_the_current_block),
        cmocka_unit_test(test_arena_rewind_gives_back_what_is_younger),
        cmocka_unit_test(test_arena_dup_ends_with_nul),
        cmocka_unit_test(test_buffer_grows_on_heap_and_arena),
        cmocka_unit_test(test_buffer_maximum_is_exact_and_failure_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
