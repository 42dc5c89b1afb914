/*
 * JSON Schema, the part that tool arguments, answers and configuration use: type, properties,
 * required, additionalProperties (also as a schema), items, enum, const, minimum, maximum,
 * exclusiveMinimum, exclusiveMaximum, multipleOf (integers), minLength, maxLength (characters),
 * minItems, maxItems, uniqueItems, minProperties, maxProperties, anyOf, oneOf, allOf, not, local
 * $ref (#, #/$defs/…). `pattern`, `format`, `default`, titles and unknown keywords are annotations.
 * Bounded: depth PW_JSON_MAX_DEPTH, and a budget of steps so that no schema runs for ever.
 */
#ifndef PW_BASE_SCHEMA_H
#define PW_BASE_SCHEMA_H

#include "base/json.h"

/* At load: is this a schema we can apply? A remote or dangling $ref, a keyword of a wrong type, is
 * PW_INVALID and names where. */
pw_status pw_schema_check(const pw_json *schema, pw_arena *scratch, pw_error *);
/* PW_OK: the value fits. PW_INVALID: the error says which path (`/items/3/name`), what was expected
 * and what was found, for a model or a person to read. `ret_at` (may be NULL) gets the value at
 * fault, so that a loader can name file and line. */
pw_status pw_schema_apply(const pw_json *schema, const pw_json *value, pw_arena *scratch,
                          const pw_json **ret_at, pw_error *);

#endif
