/* The conformance suite: `conformance memory` or `conformance sqlite`. Every backend passes all of
 * it. */
#include "conformance/stories.h"

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        const struct CMUnitTest *tests;
        size_t count;
    } chapters[] = {
        {"admission", admission_stories, admission_stories_count},
        {"append", append_stories, append_stories_count},
        {"owner", owner_stories, owner_stories_count},
        {"read", read_stories, read_stories_count},
    };
    int failed = 0;
    kit_scheme = argc > 1 ? argv[1] : "memory";
    for (size_t i = 0; i < sizeof(chapters) / sizeof(chapters[0]); i++) {
        failed += _cmocka_run_group_tests(chapters[i].name, chapters[i].tests, chapters[i].count,
                                          NULL, NULL);
    }
    return failed;
}
