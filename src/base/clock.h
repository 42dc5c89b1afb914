/* Times as text. Milliseconds since 1970 UTC in, text out, and back; nothing here reads a clock. */
#ifndef PW_BASE_CLOCK_H
#define PW_BASE_CLOCK_H

#include "base/str.h"

typedef struct pw_time_text {
    char text[32];
} pw_time_text;

pw_time_text pw_time_rfc3339(int64_t ms);            /* 2026-11-30T14:37:47.123Z */
pw_time_text pw_time_hh_mm(int64_t ms);              /* 14:37, UTC (B4) */
bool pw_time_parse_rfc3339(pw_str, int64_t *ret_ms); /* any offset; fractions to ms */
bool pw_time_parse_http(pw_str,
                        int64_t *ret_ms); /* RFC 9110 IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT */

#endif
