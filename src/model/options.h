/*
 * Tables of options: what an object of a model's configuration may hold. One walk over the object
 * finds unknown members, wrong types, numbers out of range and missing members, and names the
 * member at fault.
 */
#ifndef PW_MODEL_OPTIONS_H
#define PW_MODEL_OPTIONS_H

#include "base/json.h"

typedef enum pw_option_type {
    PW_OPTION_STRING,
    PW_OPTION_INTEGER, /* within least … most */
    PW_OPTION_BOOLEAN,
    PW_OPTION_ARRAY,
    PW_OPTION_OBJECT,
    PW_OPTION_DURATION, /* "300ms", or an integer of milliseconds */
    PW_OPTION_ANY       /* the caller looks at it */
} pw_option_type;

typedef struct pw_option {
    const char *name;
    pw_option_type type;
    bool required;
    int64_t least, most;
} pw_option;

/* `where` stands before the member's name in an error: "model." or "script[2].when.". */
pw_status pw_options_check(const pw_json *object, const char *where, const pw_option *table,
                           size_t count, pw_error *);

/* A DURATION's milliseconds; `fallback` when it is absent. */
int64_t pw_option_duration(const pw_json *value, int64_t fallback);

#endif
