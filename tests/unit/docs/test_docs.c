/* What the documents print from the source is what the source says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/session.h"

static char *read_document(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/docs/%s", PAWL_SOURCE, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t len = fread(text, 1, (1 << 20) - 1, file);
    assert_true(len > 0 && feof(file));
    fclose(file);
    return text;
}

static void test_the_states_of_a_turn_stand_in_the_architecture(void **state)
{
    (void)state;
    char *text = read_document("architecture.md");
    size_t lines = 0;
    for (const char *const *line = pw_turn_transitions(); *line; line++, lines++) {
        if (!strstr(text, *line)) {
            fail_msg("docs/architecture.md lacks the line: %s", *line);
        }
    }
    assert_true(lines >= 7);
    free(text);
}

static void test_every_status_code_stands_in_the_public_header(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/include/pawl/pawl.h", PAWL_SOURCE);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char text[1 << 18];
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = 0;
    char want[128];
#define CHECK(name, number, code, meaning, retry)                                                  \
    snprintf(want, sizeof want, (number) < 0 ? "#define PAWL_%s (%d)\n" : "#define PAWL_%s %d\n",  \
             #name, number);                                                                       \
    if (!strstr(text, want)) {                                                                     \
        fail_msg("pawl.h lacks: %s", want);                                                        \
    }
    PW_STATUS_TABLE(CHECK)
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_states_of_a_turn_stand_in_the_architecture),
        cmocka_unit_test(test_every_status_code_stands_in_the_public_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
