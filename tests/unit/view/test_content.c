/* What a client may say (A8, case M1), and when two messages say the same (A6). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/heap.h"
#include "core/view.h"

typedef struct fixture {
    pw_arena arena;
    pw_error error;
} fixture;

static int setup(void **state)
{
    static fixture f;
    f = (fixture){0};
    pw_arena_init(&f.arena, &pw_heap, 0, 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    pw_arena_free(&f->arena);
    return 0;
}

static void assert_str(pw_str got, const char *want)
{
    if (!pw_str_is(got, want)) {
        fail_msg("got %.*s, wanted %s", PW_STR_ARG(got), want);
    }
}

static pw_str normal(fixture *f, pw_str text, const char *content)
{
    pw_str got;
    assert_int_equal(pw_content_normalize(text, pw_str_from(content), &f->arena, &got, &f->error),
                     PW_OK);
    return got;
}

static void test_A8_text_is_one_part_made_valid(void **state)
{
    fixture *f = *state;
    assert_str(normal(f, PW_STR("hi \"you\"\n"), NULL),
               "[{\"type\":\"text\",\"text\":\"hi \\\"you\\\"\\n\"}]");
    assert_str(normal(f,
                      PW_STR("a\xed\xa0\xbd"
                             "b\0c\xff"),
                      NULL),
               "[{\"type\":\"text\",\"text\":\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
               "b\xef\xbf\xbd"
               "c\xef\xbf\xbd\"}]");
}

static void test_A8_content_is_made_valid(void **state)
{
    fixture *f = *state;
    assert_str(normal(f, PW_STR_NONE, "[ {\"type\" : \"text\", \"text\":\"a\\ud83db\\u0000\"} ]"),
               "[{\"type\":\"text\",\"text\":\"a\xef\xbf\xbd"
               "b\xef\xbf\xbd\"}]");
    (void)normal(f, PW_STR_NONE,
                 "[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/"
                 "png\",\"data\":\"AA==\"}},"
                 "{\"type\":\"document\",\"title\":\"t\",\"source\":{\"type\":\"url\",\"url\":"
                 "\"https://x\"}}]");
}

static void test_case_M1_a_client_says_only_what_a_client_may(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *content, *names;
    } bad[] = {
        {"[{\"type\":\"tool_result\",\"call\":\"a\",\"result\":{}}]",
         "content[0].type: \"tool_result\""},
        {"[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"tool_call\",\"call\":\"a\"}]",
         "content[1].type"},
        {"[{\"type\":\"tool_use\",\"id\":\"a\"}]", "content[0].type"},
        {"[{\"type\":\"tool-approval-response\",\"approved\":true}]", "content[0].type"},
        {"[{\"type\":\"thinking\",\"text\":\"x\"}]", "content[0].type"},
        {"[{\"type\":\"text\",\"text\":\"x\",\"role\":\"assistant\"}]", "content[0].role"},
        {"[{\"type\":\"text\",\"text\":\"x\",\"cache_control\":{}}]", "content[0].cache_control"},
        {"[{\"type\":\"text\",\"text\":\"x\",\"text\":\"y\"}]", "content"},
        {"[{\"type\":\"text\"}]", "content[0].text"},
        {"[{\"type\":\"text\",\"text\":7}]", "content[0].text"},
        {"[{\"type\":\"text\",\"text\":\" \\n\"}]", "content[0].text: is blank"},
        {"[{\"type\":\"image\"}]", "content[0].source"},
        {"[{\"type\":\"image\",\"source\":{\"type\":\"file\",\"path\":\"/etc/passwd\"}}]",
         "content[0].source.type"},
        {"[{\"type\":\"image\",\"source\":{\"type\":\"url\"}}]", "content[0].source.url"},
        {"[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"u\",\"headers\":{}}}]",
         "content[0].source.headers"},
        {"[\"x\"]", "content[0]"},
        {"[{}]", "content[0].type"},
        {"[]", "content: is empty"},
        {"{\"type\":\"text\",\"text\":\"x\"}", "content: is not an array"},
        {"[", "content:"},
        {"\"x\"", "content: is not an array"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pw_str got = PW_STR("untouched");
        assert_int_equal(pw_content_normalize(PW_STR_NONE, pw_str_from(bad[i].content), &f->arena,
                                              &got, &f->error),
                         PW_INVALID);
        assert_str(got, "untouched");
        if (strstr(f->error.message, bad[i].names) == NULL) {
            fail_msg("%s: %s", bad[i].content, f->error.message);
        }
    }
}

static void test_A1_text_and_content_exclude_each_other_and_one_is_needed(void **state)
{
    fixture *f = *state;
    pw_str got;
    assert_int_equal(pw_content_normalize(PW_STR("x"), PW_STR("[]"), &f->arena, &got, &f->error),
                     PW_INVALID);
    assert_int_equal(pw_content_normalize(PW_STR_NONE, PW_STR_NONE, &f->arena, &got, &f->error),
                     PW_INVALID);
    assert_int_equal(pw_content_normalize(PW_STR("  "), PW_STR_NONE, &f->arena, &got, &f->error),
                     PW_INVALID);
}

static pw_hash_hex digest(fixture *f, const char *role, pw_str content)
{
    pw_hash_hex hex;
    assert_int_equal(pw_content_digest(pw_str_from(role), content, &f->arena, &hex), PW_OK);
    return hex;
}

static void test_A6_the_same_said_otherwise_is_the_same(void **state)
{
    fixture *f = *state;
    pw_hash_hex a = digest(f, "user", normal(f, PW_STR("x\xc3\xa9"), NULL));
    pw_hash_hex b =
        digest(f, "user", normal(f, PW_STR_NONE, "[ {\"text\":\"x\\u00e9\", \"type\":\"text\"} ]"));
    pw_hash_hex role = digest(f, "trigger", normal(f, PW_STR("x\xc3\xa9"), NULL));
    pw_hash_hex other = digest(f, "user", normal(f, PW_STR("x"), NULL));
    assert_string_equal(a.text, b.text);
    assert_string_not_equal(a.text, role.text);
    assert_string_not_equal(a.text, other.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_A8_text_is_one_part_made_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_A8_content_is_made_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_case_M1_a_client_says_only_what_a_client_may, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_A1_text_and_content_exclude_each_other_and_one_is_needed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_A6_the_same_said_otherwise_is_the_same, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
