/* Where a provider's complaint points (C9): every block of a request's body against the part that
 * it was rendered from. */
#include "support.h"

#include <string.h>

#define MODEL "{\"provider\":\"anthropic\",\"name\":\"claude-x-1\"}"

static bool rejected(fixture *f, const char *message, size_t *ret_message, size_t *ret_part)
{
    char body[512];
    snprintf(
        body, sizeof body,
        "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"%s\"}}",
        message);
    return pw_provider_anthropic.rejected(&f->request, 400, pw_str_from(body), &f->arena,
                                          ret_message, ret_part);
}

static pw_part *parts_of(pw_message *message)
{
    return (pw_part *)(uintptr_t)message->parts;
}

/* Blank text, unsigned thinking, a message with nothing to send, results that are one message: what
 * makes the body's positions other than the transcript's. Each part that shows says its place. */
static void fill(fixture *f)
{
    fixture_init(f, MODEL);
    pw_part *p = parts_of(add_message(f, PW_ROLE_USER, 4));
    p[0] = text_part("mark 0.0");
    p[1] = text_part("  ");
    p[2] = raw_part(PW_PART_OTHER, "", "{\"type\":\"image\",\"mark\":\"mark 0.2\"}");
    p[3] = text_part("mark 0.3");
    p = answer(f, 1);
    p[0] = raw_part(PW_PART_THINKING, "not signed", "");
    p = answer(f, 5);
    p[0] = raw_part(PW_PART_THINKING, "", "{\"type\":\"thinking\",\"signature\":\"mark 2.0\"}");
    p[1] = text_part("");
    p[2] = text_part("mark 2.2");
    p[3] = call_part("a", "tool", "{\"x\":\"mark 2.3\"}");
    p[4] = call_part("b", "tool", "{\"x\":\"mark 2.4\"}");
    result(f, "a", "\"mark 3.0\"");
    result(f, "b", "\"mark 4.0\"");
    p = parts_of(add_message(f, PW_ROLE_TRIGGER, 1));
    p[0] = text_part(" ");
    p = parts_of(add_message(f, PW_ROLE_USER, 2));
    p[0] = raw_part(PW_PART_OTHER, "", "{\"type\":\"document\",\"mark\":\"mark 6.0\"}");
    p[1] = text_part("mark 6.1");
}

static void expect_place(fixture *f, size_t message, size_t block, pw_str raw)
{
    char said[128];
    size_t found_message = 99, found_part = 99;
    snprintf(said, sizeof said, "messages.%zu.content.%zu.image.source: no", message, block);
    const bool found = rejected(f, said, &found_message, &found_part);
    const size_t mark = pw_str_find(raw, PW_STR("mark "));
    if (mark == SIZE_MAX) { /* "(empty message)" stands for no part */
        assert_false(found);
        return;
    }
    const size_t at = (size_t)(raw.ptr[mark + 5] - '0'), part = (size_t)(raw.ptr[mark + 7] - '0');
    const bool may = f->list[at]->role != PW_ROLE_TOOL && pw_part_may_leave(f->list[at], part);
    assert_int_equal(found, may);
    if (found) {
        assert_int_equal(found_message, at);
        assert_int_equal(found_part, part);
    }
}

static void test_C9_every_block_of_the_body_is_found_again(void **state)
{
    (void)state;
    fixture f;
    fill(&f);
    char *text = conversation(&f, 0);
    pw_buffer list;
    pw_buffer_init(&list, &pw_heap, 1 << 20);
    pw_buffer_format(&list, "[%s]", text);
    const pw_json *body = NULL;
    assert_int_equal(pw_json_parse(&f.arena, pw_buffer_str(&list), 0, &body, NULL), PW_OK);
    size_t m = 0, seen = 0;
    for (const pw_json *message = body->child; message; message = message->next, m++) {
        size_t b = 0;
        for (const pw_json *block = pw_json_get(message, "content")->child; block;
             block = block->next, b++, seen++) {
            expect_place(&f, m, b, block->raw);
        }
        expect_place(&f, m, b, PW_STR("")); /* one block more than there is */
    }
    assert_int_equal(m, 5);
    assert_int_equal(seen, 12);
    expect_place(&f, m, 0, PW_STR(""));
    pw_buffer_free(&list);
    free(text);
    fixture_free(&f);
}

static void test_C9_what_names_no_place_is_no_complaint_of_a_part(void **state)
{
    (void)state;
    static const char *const said[] = {
        "prompt is too long",
        "max_tokens: must be positive",
        "messages: at least one is needed",
        "messages.0: bad",
        "messages.0.content: bad",
        "messages.x.content.0: bad",
        "messages.0.content.: bad",
        "messages.99999999999999999999.content.0: bad",
        "messages.0.content.99999999999999999999: bad",
        "",
    };
    fixture f;
    fill(&f);
    size_t message, part;
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        assert_false(rejected(&f, said[i], &message, &part));
    }
    static const char *const bodies[] = {"", "not json", "[]", "{\"error\":7}", "null"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        assert_false(pw_provider_anthropic.rejected(&f.request, 400, pw_str_from(bodies[i]),
                                                    &f.arena, &message, &part));
    }
    fixture_free(&f);
}

static void test_C9_a_part_left_out_already_is_not_named_again(void **state)
{
    (void)state;
    fixture f;
    size_t message, part;
    fixture_init(&f, MODEL);
    say(&f, "[image left out: the provider rejected it]");
    assert_true(rejected(&f, "messages.0.content.0.text: no", &message, &part));
    parts_of(&f.messages[0])[0].left_out = true;
    assert_false(rejected(&f, "messages.0.content.0.text: no", &message, &part));
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_C9_every_block_of_the_body_is_found_again),
        cmocka_unit_test(test_C9_what_names_no_place_is_no_complaint_of_a_part),
        cmocka_unit_test(test_C9_a_part_left_out_already_is_not_named_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
