/*
 * JSON (RFC 8259), read strictly and written exactly.
 *
 * A parsed value is a read-only tree in an arena. It borrows the text: the text must outlive the
 * tree. Numbers are never converted unless asked for; every value knows the exact bytes it came
 * from (`raw`), so what passes through the engine is passed byte-exact (C8). No recursion
 * anywhere: depth is bounded by a limit, not by the stack.
 */
#ifndef PW_BASE_JSON_H
#define PW_BASE_JSON_H

#include "base/buffer.h"

#define PW_JSON_MAX_DEPTH 128

typedef enum pw_json_type {
    PW_JSON_NULL,
    PW_JSON_BOOL,
    PW_JSON_NUMBER,
    PW_JSON_STRING,
    PW_JSON_ARRAY,
    PW_JSON_OBJECT
} pw_json_type;

typedef struct pw_json pw_json;
struct pw_json {
    uint8_t type;   /* pw_json_type */
    bool truth;     /* BOOL */
    bool mended;    /* this string's text or key had a lone surrogate or (when asked for) bad UTF-8,
                       now U+FFFD */
    uint32_t count; /* ARRAY, OBJECT: members */
    pw_str raw;     /* the exact bytes of this value */
    pw_str text;    /* STRING: decoded (may hold NUL); borrows the input where it has no escapes */
    pw_str key;     /* the decoded name, when a member of an object */
    const pw_json *child, *next;
};

enum {
    PW_JSON_UNIQUE_KEYS = 1, /* a repeated key is an error (configuration); otherwise the last one
                                counts for pw_json_get */
    PW_JSON_MEND_UTF8 = 2    /* invalid UTF-8 inside strings becomes U+FFFD instead of an error */
};

/* The whole text must be one value, with white space around it allowed. PW_INVALID says the byte
 * offset and what was expected; PW_TOO_LARGE: deeper than PW_JSON_MAX_DEPTH; PW_NOMEM. A byte-order
 * mark is an error. Nothing is left in the arena on failure. */
pw_status pw_json_parse(pw_arena *, pw_str text, int flags, const pw_json **ret, pw_error *);

/* NULL-safe look-ups: a NULL or wrong-typed value gives NULL, PW_STR_NONE, false or the fallback.
 */
const pw_json *pw_json_get(const pw_json *object, const char *key);
const pw_json *pw_json_get_str(const pw_json *object, pw_str key);
const pw_json *pw_json_at(const pw_json *array, size_t index);
pw_str pw_json_text(const pw_json *); /* of a STRING */
bool pw_json_is(const pw_json *, pw_json_type);
bool pw_json_true(const pw_json *);
bool pw_json_i64(const pw_json *,
                 int64_t *ret); /* an integer that fits, also written 1e3 or 10.0 */
int64_t pw_json_i64_or(const pw_json *, int64_t fallback);
bool pw_json_micros(
    const pw_json *,
    int64_t *ret); /* a decimal number times 1,000,000, rounded half up; for money */

/* True when the text is exactly one valid JSON value; needs no memory. */
bool pw_json_valid(pw_str text);
/* The same, and nested no deeper than `depth` (0: a scalar; at most PW_JSON_MAX_DEPTH). */
bool pw_json_valid_within(pw_str text, uint32_t depth);

/* Canonical form (A6, D1, F4): keys sorted bytewise (last duplicate wins), no insignificant space,
 * shortest escapes, numbers as their text. Equal values spelled alike give equal bytes. `scratch`
 * holds sorting tables; they are given back, unless it is the buffer's own arena. */
pw_status pw_json_canonical(pw_buffer *, const pw_json *, pw_arena *scratch);
/* The same value compactly, keys in their order, strings made valid (A8: lone surrogates and NUL
 * become U+FFFD), numbers as their text. */
pw_status pw_json_clean(pw_buffer *, const pw_json *);
/* Equal as canonical forms, without memory where neither has objects. */
bool pw_json_equal(const pw_json *, const pw_json *);
/* Schema's equality (JSON Schema: 1 equals 1.0). */
bool pw_json_equal_value(const pw_json *, const pw_json *);

/* --- Writing. Commas and colons are put by the writer; failures stick in the buffer (check
 * buffer->failed once). */
typedef struct pw_json_writer {
    pw_buffer *out;
    uint32_t depth;
    bool comma[PW_JSON_MAX_DEPTH];
    bool after_key;
} pw_json_writer;

void pw_json_begin(pw_json_writer *, pw_buffer *);
void pw_json_object(pw_json_writer *);
void pw_json_object_end(pw_json_writer *);
void pw_json_array(pw_json_writer *);
void pw_json_array_end(pw_json_writer *);
void pw_json_key(pw_json_writer *, const char *key);
void pw_json_key_str(pw_json_writer *, pw_str key);
void pw_json_string(pw_json_writer *, pw_str); /* must be valid UTF-8 (asserted in debug builds) */
void pw_json_integer(pw_json_writer *, int64_t);
void pw_json_boolean(pw_json_writer *, bool);
void pw_json_nothing(pw_json_writer *);          /* null */
void pw_json_raw(pw_json_writer *, pw_str json); /* one valid value, copied as it is */
/* Members: key and value in one. An empty string is written as "", PW_STR_NONE (NULL pointer) as
 * null. */
void pw_json_put_str(pw_json_writer *, const char *key, pw_str);
void pw_json_put_i64(pw_json_writer *, const char *key, int64_t);
void pw_json_put_bool(pw_json_writer *, const char *key, bool);
void pw_json_put_raw(pw_json_writer *, const char *key, pw_str json);
void pw_json_put_time(pw_json_writer *, const char *key,
                      int64_t ms); /* RFC 3339 with ms; a negative time is null */
/* Only the escaped inside of a string, without quotes. */
void pw_json_escape(pw_buffer *, pw_str);

#endif
