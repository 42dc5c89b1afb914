/*
 * What tools and models hand over, made fit to be kept and sent for ever: valid text (A8), bounded
 * depth, results cut to their limit (D7), errors as the model reads them (F1).
 */
#ifndef PW_CORE_VALUE_H
#define PW_CORE_VALUE_H

#include "base/json.h"

/* A body is bounded by what its parts are bounded by; this only keeps arithmetic safe. */
#define PW_BODY_MAX ((size_t)1 << 30)

enum {
    /* A value nested deeper than this is not kept as it is: it is embedded in records and events,
     * which must themselves stay below PW_JSON_MAX_DEPTH. */
    PW_VALUE_DEPTH_MAX = 96,
    PW_ERROR_CHARACTERS_MAX = 2000 /* F1 */
};

typedef struct pw_value {
    pw_str json;
    bool cut; /* over the limit: `json` holds the first part and says so */
} pw_value;

/* How deep a text that is valid JSON nests: 0 for a scalar. */
size_t pw_value_depth(pw_str json);

/* A tool's result as the model reads it: valid, clean text, at most `limit` bytes (D7). What is not
 * one JSON value, or is nested too deep, is kept as a string. */
pw_status pw_value_of_result(pw_arena *, pw_str result, int64_t limit, pw_value *ret);

/* {"error":"Class: message"}, cut to PW_ERROR_CHARACTERS_MAX characters (F1); the class may be
 * empty. */
pw_status pw_value_of_error(pw_arena *, pw_str error_class, pw_str message, pw_str *ret);

/* The text valid (A8) and at most `characters` long; itself when it is so already. */
pw_status pw_value_text(pw_arena *, pw_str text, size_t characters, pw_str *ret);

/* One JSON value with all strings and keys made valid (A8); itself, byte for byte, when nothing was
 * to be mended. False in `ret_fit`: not JSON or too deep. */
pw_status pw_value_clean(pw_arena *, pw_str json, pw_str *ret, bool *ret_fit);

/* The greatest prefix that cuts no character and whose JSON escaped form is at most `limit` bytes.
 */
size_t pw_value_escaped_cut(pw_str text, size_t limit);

#endif
