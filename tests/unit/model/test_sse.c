/* The reader of server-sent events: every line of PROVIDERS.md 2, and every way to cut the input.
 */
#include "support.h"

#include <string.h>

#include "model/sse.h"

typedef struct log {
    pw_buffer text;
    pw_status answer;
} log;

static pw_status on_event(void *ctx, const pw_sse_event *event)
{
    log *l = ctx;
    pw_buffer_add(&l->text, PW_STR("<"));
    pw_buffer_add(&l->text, event->name);
    pw_buffer_add(&l->text, PW_STR("|"));
    pw_buffer_add(&l->text, event->data);
    if (event->unknown_name.len > 0) {
        pw_buffer_add(&l->text, PW_STR("|"));
        pw_buffer_add(&l->text, event->unknown_name);
        pw_buffer_add(&l->text, PW_STR("="));
        pw_buffer_add(&l->text, event->unknown);
    }
    pw_buffer_add(&l->text, PW_STR(">"));
    return l->answer;
}

/* The events of `input`, cut into pieces at two places and read to its end. */
static char *read_events(pw_str input, size_t first, size_t second)
{
    log l = {.answer = PW_OK};
    pw_sse sse;
    pw_buffer_init(&l.text, &pw_heap, 1 << 20);
    pw_sse_init(&sse, &pw_heap, PW_SSE_MAX_EVENT);
    const size_t cuts[] = {0, first, second, input.len};
    for (size_t i = 0; i < 3; i++) {
        const pw_str piece = pw_str_slice(input, cuts[i], cuts[i + 1]);
        assert_int_equal(pw_sse_feed(&sse, piece, on_event, &l, NULL), PW_OK);
    }
    assert_int_equal(pw_sse_end(&sse, on_event, &l, NULL), PW_OK);
    assert_int_equal(sse.bytes, input.len);
    pw_buffer_byte(&l.text, '.');
    char *text = malloc(l.text.len + 1);
    memcpy(text, l.text.ptr, l.text.len + 1);
    pw_buffer_free(&l.text);
    pw_sse_free(&sse);
    return text;
}

static void expect_events(const char *input, const char *events_told)
{
    const pw_str text = pw_str_from(input);
    for (size_t first = 0; first <= text.len; first++) {
        for (size_t second = first; second <= text.len; second++) {
            char *got = read_events(text, first, second);
            if (strcmp(got, events_told) != 0) {
                fail_msg("%s cut at %zu and %zu: %s, not %s", input, first, second, got,
                         events_told);
            }
            free(got);
        }
    }
}

static void test_P2_line_ends(void **state)
{
    (void)state;
    expect_events("data: a\n\ndata: b\n\n", "<|a><|b>.");
    expect_events("data: a\r\n\r\ndata: b\r\n\r\n", "<|a><|b>.");
    expect_events("data: a\r\rdata: b\r\r", "<|a><|b>.");
    expect_events("event: x\r\ndata: a\n\rdata: b\r\n\n", "<x|a><|b>.");
    expect_events("data: a\r\ndata: b\r\n\r\n", "<|a\nb>."); /* no empty line inside CRLF */
}

static void test_P2_byte_order_mark(void **state)
{
    (void)state;
    expect_events("\xEF\xBB\xBF"
                  "data: a\n\n",
                  "<|a>.");
    expect_events("data: a\n\n\xEF\xBB\xBF"
                  "data: b\n\n",
                  "<|a>."); /* only at the very start */
}

static void test_P2_comments_dispatch_nothing(void **state)
{
    (void)state;
    expect_events(": OPENROUTER PROCESSING\n\n:\n\n: ping\n\ndata: a\n\n", "<|a>.");
    expect_events("data: a\n: in between\ndata: b\n\n", "<|a\nb>.");
}

static void test_P2_fields(void **state)
{
    (void)state;
    expect_events("data:{\"a\":1}\n\n", "<|{\"a\":1}>.");
    expect_events("data:  two\n\n", "<| two>."); /* one space only */
    expect_events("data: a:b: c\n\n", "<|a:b: c>.");
    expect_events("data\n\n", "<|>.");
    expect_events("data:\ndata:\n\n", "<|\n>.");
    expect_events("data: trailing   \n\n", "<|trailing   >.");
    expect_events("id: 7\nretry: 3\ndata: a\n\n", "<|a>.");
}

static void test_P2_event_name_after_data(void **state)
{
    (void)state;
    expect_events("data: a\nevent: late\n\n", "<late|a>.");
    expect_events("event: alone\n\ndata: a\n\n", "<|a>."); /* the name goes with its event */
    expect_events("event: x\nevent: y\ndata: a\n\n", "<y|a>.");
}

static void test_P2_unknown_field_is_kept(void **state)
{
    (void)state;
    expect_events("error: {\"code\":500}\n\n", "<||error={\"code\":500}>.");
    expect_events("data: a\nerror: x\n\ndata: b\n\n", "<|a|error=x><|b>.");
    expect_events("weird: x\n\ndata: a\n\n", "<|a>."); /* nothing else dispatches without data */
    expect_events("error: cut off", "<||error=cut off>.");
}

static void test_P2_end_of_input(void **state)
{
    (void)state;
    expect_events("data: {\"a\":1}", "<|{\"a\":1}>.");
    expect_events("data: {\"a\":1}\n", "<|{\"a\":1}>.");
    expect_events("data: {\"a\":1}  \r\n", "<|{\"a\":1}  >.");
    expect_events("data: [DONE]", "<|[DONE]>.");
    expect_events("data:  [DONE] \n", "<| [DONE] >.");
    expect_events("data: {\"a\":", ".");
    expect_events("data: plain", ".");
    expect_events("event: x", ".");
    expect_events("", ".");
}

static void test_P13_9_characters_are_never_cut(void **state)
{
    (void)state;
    expect_events("data: \xE2\x82\xAC\xF0\x9F\x98\x80\n\n", "<|\xE2\x82\xAC\xF0\x9F\x98\x80>.");
}

static void test_P2_caps(void **state)
{
    (void)state;
    const pw_str inputs[] = {PW_STR_INIT("data: 0123456789\n\n"), PW_STR_INIT("0123456789012345"),
                             PW_STR_INIT("data: 012345\ndata: 678901\ndata: 234567\n\n"),
                             PW_STR_INIT("event: 012345678901234567\n\n")};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        for (size_t piece = 1; piece <= inputs[i].len; piece++) {
            log l = {.answer = PW_OK};
            pw_sse sse;
            pw_error error = {.message = ""};
            pw_buffer_init(&l.text, &pw_heap, 1 << 20);
            pw_sse_init(&sse, &pw_heap, 14);
            pw_status status = PW_OK;
            for (size_t at = 0; status == PW_OK && at < inputs[i].len; at += piece) {
                const size_t end = at + piece > inputs[i].len ? inputs[i].len : at + piece;
                status = pw_sse_feed(&sse, pw_str_slice(inputs[i], at, end), on_event, &l, &error);
            }
            assert_int_equal(status, PW_TOO_LARGE);
            assert_holds(error.message, "14 bytes");
            pw_sse_free(&sse);
            pw_buffer_free(&l.text);
        }
    }
}

static void test_P2_long_line(void **state)
{
    (void)state;
    const size_t size = 3 << 20;
    char *body = malloc(size + 16);
    memcpy(body, "data: ", 6);
    memset(body + 6, 'x', size);
    memcpy(body + 6 + size, "\n\n", 2);
    log l = {.answer = PW_OK};
    pw_sse sse;
    pw_buffer_init(&l.text, &pw_heap, 8 << 20);
    pw_sse_init(&sse, &pw_heap, PW_SSE_MAX_EVENT);
    for (size_t at = 0; at < size + 8; at += 1000) {
        const size_t end = at + 1000 > size + 8 ? size + 8 : at + 1000;
        const pw_str piece = {body + at, end - at};
        assert_int_equal(pw_sse_feed(&sse, piece, on_event, &l, NULL), PW_OK);
    }
    assert_int_equal(l.text.len, size + 3);
    pw_sse_free(&sse);
    pw_buffer_free(&l.text);
    free(body);
}

static void test_the_handlers_answer_stops_the_feed(void **state)
{
    (void)state;
    log l = {.answer = PW_CANCELLED};
    pw_sse sse;
    pw_buffer_init(&l.text, &pw_heap, 1 << 20);
    pw_sse_init(&sse, &pw_heap, 1 << 20);
    const pw_str input = PW_STR("data: a\n\ndata: b\n\n");
    assert_int_equal(pw_sse_feed(&sse, input, on_event, &l, NULL), PW_CANCELLED);
    assert_string_equal(l.text.ptr, "<|a>");
    pw_sse_free(&sse);
    pw_buffer_free(&l.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_P2_line_ends),
        cmocka_unit_test(test_P2_byte_order_mark),
        cmocka_unit_test(test_P2_comments_dispatch_nothing),
        cmocka_unit_test(test_P2_fields),
        cmocka_unit_test(test_P2_event_name_after_data),
        cmocka_unit_test(test_P2_unknown_field_is_kept),
        cmocka_unit_test(test_P2_end_of_input),
        cmocka_unit_test(test_P13_9_characters_are_never_cut),
        cmocka_unit_test(test_P2_caps),
        cmocka_unit_test(test_P2_long_line),
        cmocka_unit_test(test_the_handlers_answer_stops_the_feed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
