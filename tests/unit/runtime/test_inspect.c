/* pawl_inspect's questions about models and requests, and the option that names prices, as an
 * embedding program meets them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pawl/pawl.h>

#define S(literal) ((pawl_str){(literal), sizeof(literal) - 1})

static char path[64];

static void write_prices(const char *text)
{
    snprintf(path, sizeof(path), "/tmp/pawl-prices-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static pawl *open_with(pawl_options options)
{
    pawl *p = NULL;
    pawl_error error = {0};
    options.store = S("memory:");
    if (pawl_open(&options, &p, &error) != PAWL_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(
        pawl_agent_add(
            p, S("a"),
            S("{\"name\":\"a\",\"model\":{\"provider\":\"anthropic\",\"name\":\"mine-1\"}}"),
            &error),
        PAWL_OK);
    return p;
}

static void assert_get(const pawl_doc *doc, const char *at, const char *wanted)
{
    pawl_str found = {0};
    assert_int_equal(pawl_doc_get(doc, at, &found), PAWL_OK);
    if (found.len != strlen(wanted) || memcmp(found.ptr, wanted, found.len) != 0) {
        fail_msg("%s: %.*s, not %s", at, (int)found.len, found.ptr, wanted);
    }
}

static void test_G1_prices_of_ones_own_are_named_by_an_option(void **state)
{
    (void)state;
    pawl_doc *doc = NULL;
    write_prices(
        "{\"date\":\"2020-02-02\",\"prices\":[{\"provider\":\"anthropic\",\"models\":[\"mine-*\"],"
        "\"input\":1.5,\"output\":2}]}");
    pawl *p =
        open_with((pawl_options){.size = sizeof(pawl_options), .prices = {path, strlen(path)}});
    assert_int_equal(pawl_inspect(p, S("models"), &doc, NULL), PAWL_OK);
    assert_get(doc, "own_prices_date", "2020-02-02");
    assert_get(doc, "models.0.price.input", "1.5");
    assert_get(doc, "models.0.price.cache_write_1h", "3");
    pawl_doc_free(doc);
    pawl_close(p);
    unlink(path);
}

static void test_an_older_programs_options_name_no_prices(void **state)
{
    (void)state;
    pawl_doc *doc = NULL;
    pawl *p =
        open_with((pawl_options){.size = offsetof(pawl_options, prices), .prices = S("nowhere")});
    assert_int_equal(pawl_inspect(p, S("models?agent=a"), &doc, NULL), PAWL_OK);
    assert_get(doc, "models.0.price", "null");
    pawl_doc_free(doc);
    pawl_close(p);
}

static void test_a_wrong_list_is_invalid_and_names_file_and_member(void **state)
{
    (void)state;
    pawl *p = NULL;
    pawl_error error = {0};
    write_prices(
        "{\"date\":\"2020-02-02\",\"prices\":[{\"provider\":\"anthropic\",\"models\":[\"m\"],"
        "\"input\":1}]}");
    pawl_options options = {
        .size = sizeof(options), .store = S("memory:"), .prices = {path, strlen(path)}};
    assert_int_equal(pawl_open(&options, &p, &error), PAWL_INVALID);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, "output"));
    assert_int_equal(pawl_open(&options, &p, NULL), PAWL_INVALID);
    unlink(path);
    assert_int_equal(pawl_open(&options, &p, &error), PAWL_INVALID);
    assert_null(p);
}

static void test_wrong_questions_name_the_parameter(void **state)
{
    (void)state;
    static const struct {
        const char *what, *says;
        int32_t code;
    } wrong[] = {{"model", "models", PAWL_INVALID},
                 {"models?agents=a", "agents", PAWL_INVALID},
                 {"models?agent=b", "agent", PAWL_NOT_FOUND},
                 {"models?check=yes", "check", PAWL_INVALID},
                 {"models?check=1&within=0s", "within", PAWL_INVALID},
                 {"models?agent=a&agent=a", "agent", PAWL_INVALID},
                 {"models?agent=%zz", "hex", PAWL_INVALID},
                 {"request", "session", PAWL_INVALID},
                 {"request?session=", "session", PAWL_INVALID},
                 {"request?session=s&body=2", "body", PAWL_INVALID},
                 {"request?session=s", "\"s\"", PAWL_NOT_FOUND}};
    pawl *p = open_with((pawl_options){.size = sizeof(pawl_options)});
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pawl_error error = {0};
        pawl_doc *doc = NULL;
        pawl_str what = {wrong[i].what, strlen(wrong[i].what)};
        assert_int_equal(pawl_inspect(p, what, &doc, &error), wrong[i].code);
        assert_int_equal(pawl_inspect(p, what, &doc, NULL), wrong[i].code);
        assert_null(doc);
        if (!strstr(error.message, wrong[i].says)) {
            fail_msg("%s: %s", wrong[i].what, error.message);
        }
    }
    pawl_close(p);
}

static void test_the_next_request_of_a_session_that_waits(void **state)
{
    (void)state;
    pawl *p = open_with((pawl_options){.size = sizeof(pawl_options)});
    pawl_doc *doc = NULL;
    pawl_message message = {.size = sizeof(message), .request_id = S("r1"), .text = S("Hello?")};
    assert_int_equal(pawl_submit(p, S("s"), &message, &doc, NULL), PAWL_OK);
    pawl_doc_free(doc);
    assert_int_equal(pawl_inspect(p, S("request?session=s"), &doc, NULL), PAWL_OK);
    assert_get(doc, "state", "ready");
    assert_get(doc, "ok", "true");
    assert_get(doc, "body.messages.0.role", "user");
    assert_get(doc, "sizes.messages", "1");
    pawl_doc_free(doc);
    assert_int_equal(pawl_inspect(p, S("request?session=s&prompt=More&body=0"), &doc, NULL),
                     PAWL_OK);
    assert_get(doc, "sizes.messages", "1"); /* both are one turn (B8) */
    pawl_str body = {0};
    assert_int_equal(pawl_doc_get(doc, "body", &body), PAWL_NOT_FOUND);
    pawl_doc_free(doc);
    assert_int_equal(pawl_read(p, S("/v1/sessions/s/messages/r1"), &doc, NULL), PAWL_OK);
    assert_get(doc, "disposition", "pending");
    pawl_doc_free(doc);
    pawl_close(p);
}

int main(void)
{
    (void)unsetenv("PAWL_PRICES");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_G1_prices_of_ones_own_are_named_by_an_option),
        cmocka_unit_test(test_an_older_programs_options_name_no_prices),
        cmocka_unit_test(test_a_wrong_list_is_invalid_and_names_file_and_member),
        cmocka_unit_test(test_wrong_questions_name_the_parameter),
        cmocka_unit_test(test_the_next_request_of_a_session_that_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
