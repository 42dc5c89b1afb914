/* Whether a text holds another: shows both when it is not as asserted. */
#ifndef PW_TEST_HOLDS_H
#define PW_TEST_HOLDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline bool holds(const char *text, const char *what)
{
    return strstr(text, what) != NULL;
}

#define assert_holds(text, what)                                                                   \
    do {                                                                                           \
        if (!holds((text), (what))) {                                                              \
            fail_msg("%s\n  is not in\n%s", (what), (text));                                       \
        }                                                                                          \
    } while (0)
#define assert_lacks(text, what)                                                                   \
    do {                                                                                           \
        if (holds((text), (what))) {                                                               \
            fail_msg("%s\n  is in\n%s", (what), (text));                                           \
        }                                                                                          \
    } while (0)

#endif
