/* The script player: rules, pacing, calls, failures, and checking a script at load
 * (docs/scripted.md). */
#include "support.h"

#include <string.h>

static const char *script_model(const char *rules)
{
    static char text[8192];
    snprintf(text, sizeof text, "{\"provider\":\"scripted\",\"name\":\"tape\",\"script\":%s}",
             rules);
    return text;
}

/* The whole answer in one line: [+delay]kind(bytes) … */
static char *play(fixture *f)
{
    const pw_play *list = NULL;
    size_t count = 0;
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, 1 << 22);
    assert_int_equal(pw_scripted_play(&f->request, NOW_MS, &f->arena, &list, &count, NULL), PW_OK);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const pw_play *p = &list[i];
        const bool last = p->kind == PW_PLAY_REPLY || p->kind == PW_PLAY_FAILED;
        assert_int_equal(last, i + 1 == count);
        if (p->delay_ms) {
            pw_buffer_format(&out, "+%lld", (long long)p->delay_ms);
        }
        if (p->kind == PW_PLAY_REPLY) {
            pw_buffer_format(&out, "REPLY %d %.*s", (int)p->reply.stop,
                             PW_STR_ARG(p->reply.response_id));
            assert_true(pw_str_is(p->reply.provider, "scripted"));
            assert_true(pw_str_is(p->reply.model, "tape"));
            for (size_t k = 0; k < p->reply.part_count; k++) {
                const pw_part *part = &p->reply.parts[k];
                pw_buffer_format(&out, " <%d %.*s%.*s %.*s %.*s%s>", (int)part->kind,
                                 PW_STR_ARG(part->text), PW_STR_ARG(part->name),
                                 PW_STR_ARG(part->provider_id), PW_STR_ARG(part->arguments),
                                 part->broken ? " broken" : "");
            }
            pw_buffer_format(&out, " usage=%lld/%lld/%lld/%lld",
                             (long long)p->reply.usage.in_uncached,
                             (long long)p->reply.usage.in_cache_read, (long long)p->reply.usage.out,
                             (long long)p->reply.usage.cost_micros);
        } else if (p->kind == PW_PLAY_FAILED) {
            pw_buffer_format(&out, "FAILED %d %.*s: %.*s until=%lld", (int)p->failure.failure_class,
                             PW_STR_ARG(p->failure.code), PW_STR_ARG(p->failure.message),
                             p->failure.until_ms ? (long long)(p->failure.until_ms - NOW_MS) : 0);
        } else {
            pw_buffer_format(&out, "%s(%.*s)", p->kind == PW_PLAY_DELTA ? "D" : "R",
                             PW_STR_ARG(p->bytes));
        }
    }
    char *text = malloc(out.len + 1);
    memcpy(text, out.ptr, out.len + 1);
    pw_buffer_free(&out);
    return text;
}

static void expect_play(fixture *f, const char *wanted)
{
    char *text = play(f), *again = play(f);
    assert_string_equal(text, wanted);
    assert_string_equal(again, wanted); /* deterministic */
    free(text);
    free(again);
}

static void test_text_is_streamed_in_characters(void **state)
{
    (void)state;
    fixture f;
    fixture_init(
        &f, script_model("[{\"delay\":\"300ms\",\"think\":\"hm\",\"text\":\"a\xC3\xA9\xE2\x82\xAC"
                         "d{{last}}\","
                         "\"chunk\":2,\"pace\":\"5ms\"}]"));
    say(&f, "Z\xC3\xA9");
    expect_play(&f, "+305R(hm)+5D(a\xC3\xA9)+5D(\xE2\x82\xAC"
                    "d)+5D(Z\xC3\xA9)REPLY 0 scripted-1-1 <1 hm  >"
                    " <0 a\xC3\xA9\xE2\x82\xAC"
                    "dZ\xC3\xA9  > usage=0/0/0/0");
    fixture_free(&f);
}

static void test_no_rule_matches(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, script_model("[{\"when\":{\"last\":\"never\"}}]"));
    say(&f, "hi");
    char *text = play(&f);
    assert_holds(text, "(no rule of the script matches)");
    free(text);
    fixture_free(&f);
}

static void test_matchers(void **state)
{
    (void)state;
    fixture f;
    fixture_init(
        &f, script_model("[{\"when\":{\"try\":2},\"text\":\"second "
                         "try\"},{\"when\":{\"attempt\":3},\"text\":\"third attempt\"},"
                         "{\"when\":{\"tool\":\"look\",\"is_error\":true},\"text\":\"it failed\"},"
                         "{\"when\":{\"tool\":\"look\",\"last\":\"blue\"},\"text\":\"it is blue\"},"
                         "{\"when\":{\"role\":\"tool\"},\"text\":\"a tool\"},"
                         "{\"when\":{\"role\":\"user\",\"step\":1,\"turn\":\"color\"},\"calls\":[{"
                         "\"name\":\"look\"}]},"
                         "{\"when\":{\"step\":2},\"text\":\"step two\"}]"));
    say(&f, "what color?");
    char *text = play(&f);
    assert_holds(text, "<2 look call_1 {}>");
    free(text);
    f.request.tries = 2;
    text = play(&f);
    assert_holds(text, "second try");
    free(text);
    f.request.tries = 1;
    f.request.attempt = 3;
    text = play(&f);
    assert_holds(text, "third attempt");
    free(text);
    f.request.attempt = 1;
    pw_part *parts = answer(&f, 1);
    parts[0] = call_part("a", "look", "{}");
    pw_message *first = result(&f, "a", "{\"is\":\"blue\"}");
    first->name = PW_STR("look");
    text = play(&f);
    assert_holds(text, "it is blue");
    free(text);
    pw_message *other = result(&f, "b", "\"red\"");
    first->is_error = true; /* any of the results just given */
    text = play(&f);
    assert_holds(text, "it failed");
    free(text);
    first->is_error = false;
    other->name = PW_STR("feel");
    text = play(&f);
    assert_holds(text, "a tool");
    free(text);
    pw_message *more = say(&f, "go on");
    text = play(&f);
    assert_holds(text, "step two");
    free(text);
    more->turn = f.request.turn =
        PW_STR("another turn"); /* steps and words are this turn's alone */
    text = play(&f);
    assert_holds(text, "no rule");
    free(text);
    fixture_free(&f);
}

static void test_calls_stop_usage(void **state)
{
    (void)state;
    fixture f;
    fixture_init(
        &f,
        script_model(
            "[{\"text\":\"t\",\"calls\":[{\"name\":\"a\",\"arguments\":{\"q\":\"{{last}}\",\"n\":1."
            "50}},{\"name\":\"b\","
            "\"id\":\"x\",\"broken\":\"{\\\"cut\"},{\"name\":\"c\",\"arguments\":[1]}],\"stop\":"
            "\"max_output\",\"usage\":"
            "{\"input_tokens\":3,\"cached_tokens\":2,\"output_tokens\":4,\"cost_usd\":0.0125}}]"));
    say(&f, "say \"hi\"\n");
    expect_play(
        &f, "D(t)REPLY 3 scripted-1-1 <0 t  > <2 a call_1 {\"q\":\"say \\\"hi\\\"\\n\",\"n\":1.50}>"
            " <2 b x {\"cut broken> <2 c call_3 [1] broken> usage=3/2/4/12500");
    fixture_free(&f);
    fixture_init(&f, script_model("[{\"text\":\"\",\"usage\":{\"cost_usd\":null}}]"));
    say(&f, "x");
    expect_play(&f, "REPLY 0 scripted-1-1 usage=0/0/0/-1");
    fixture_free(&f);
}

static void test_failures(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, script_model("[{\"when\":{\"last\":\"wait\"},\"text\":\"ab\",\"error\":{"
                                  "\"class\":\"wait\",\"code\":\"rate\",\"message\":\"m\","
                                  "\"after\":\"2s\"}},{\"when\":{\"last\":\"cut\"},\"text\":\"ab\","
                                  "\"cut\":true},{\"when\":{\"last\":\"plain\"},"
                                  "\"error\":{}}]"));
    pw_part *part = (pw_part *)(uintptr_t)say(&f, "wait")->parts;
    expect_play(&f, "D(ab)FAILED 1 rate: m until=2000");
    part->text = PW_STR("cut");
    expect_play(&f, "D(ab)FAILED 0 cut_off: the stream ended before its end until=0");
    part->text = PW_STR("plain");
    expect_play(&f, "FAILED 0 scripted: the script says so until=0");
    fixture_free(&f);
}

static void test_repeat_fills(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, script_model("[{\"text\":\"start \",\"repeat\":100000,\"chunk\":50000}]"));
    say(&f, "x");
    const pw_play *list = NULL;
    size_t count = 0;
    assert_int_equal(pw_scripted_play(&f.request, NOW_MS, &f.arena, &list, &count, NULL), PW_OK);
    assert_int_equal(count, 4);
    assert_int_equal(list[3].reply.parts[0].text.len, 100006);
    fixture_free(&f);
}

static void test_A8_a_results_text_is_made_valid(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, script_model("[{\"text\":\"{{last}}\"}]"));
    say(&f, "x");
    pw_part *parts = answer(&f, 1);
    parts[0] = call_part("a", "t", "{}");
    result(&f, "a", "\"n\\u0000l\"");
    char *text = play(&f);
    assert_holds(text, "D(n\xEF\xBF\xBDl)");
    free(text);
    fixture_free(&f);
}

static void test_scripts_are_checked(void **state)
{
    (void)state;
    const char *const table[][2] = {
        {"[]", NULL},
        {"[{\"when\":{},\"delay\":5,\"pace\":\"1s\",\"chunk\":1,\"repeat\":0,\"cut\":false}]",
         NULL},
        {"{}", "model.script: expected an array"},
        {"[1]", "script[0]"},
        {"[{},{\"txt\":\"x\"}]", "model.script[1].txt: there is no such option"},
        {"[{\"when\":{\"lst\":\"x\"}}]", "model.script[0].when.lst"},
        {"[{\"when\":{\"role\":\"system\"}}]", "when.role"},
        {"[{\"when\":{\"step\":0}}]", "when.step"},
        {"[{\"delay\":\"soon\"}]", "model.script[0].delay: expected a duration"},
        {"[{\"delay\":-1}]", "delay"},
        {"[{\"chunk\":0}]", "chunk"},
        {"[{\"repeat\":99999999999}]", "repeat"},
        {"[{\"stop\":\"stopped\"}]", "there is no stop reason stopped"},
        {"[{\"error\":{\"class\":\"bad\"}}]", "error.class"},
        {"[{\"error\":{\"after\":\"x\"}}]", "error.after"},
        {"[{\"calls\":[{\"name\":\"a\"},{\"arguments\":{}}]}]",
         "model.script[0].calls[1].name is missing"},
        {"[{\"usage\":{\"cost_usd\":\"free\"}}]", "usage.cost_usd"},
        {"[{\"usage\":{\"input_tokens\":-1}}]", "usage.input_tokens"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pw_arena arena;
        pw_arena_init(&arena, &pw_heap, 0, 0);
        const pw_json *model = NULL;
        pw_error error = {.message = ""};
        assert_int_equal(
            pw_json_parse(&arena, pw_str_from(script_model(table[i][0])), 0, &model, NULL), PW_OK);
        const pw_status status = pw_provider_scripted.check(model, &arena, &error);
        assert_int_equal(status, table[i][1] ? PW_INVALID : PW_OK);
        if (table[i][1]) {
            assert_holds(error.message, table[i][1]);
        }
        pw_arena_free(&arena);
    }
    assert_true(pw_provider_scripted.local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_streamed_in_characters),
        cmocka_unit_test(test_no_rule_matches),
        cmocka_unit_test(test_matchers),
        cmocka_unit_test(test_calls_stop_usage),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_repeat_fills),
        cmocka_unit_test(test_A8_a_results_text_is_made_valid),
        cmocka_unit_test(test_scripts_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
