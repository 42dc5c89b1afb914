/*
 * What checking a schema (schema_check.c), applying one (schema.c) and saying what was wrong
 * (schema_report.c) share; not a contract of the room.
 */
#ifndef PW_BASE_SCHEMA_INNER_H
#define PW_BASE_SCHEMA_INNER_H

#include "base/schema.h"

/* X(ID, "name", shape of its value, "what is expected there") */
#define PW_SCHEMA_KEYWORDS(X)                                                                      \
    X(TYPE, "type", TYPE, "the name of a type or a list of them")                                  \
    X(PROPERTIES, "properties", MAP, "an object of schemas")                                       \
    X(DEFS, "$defs", MAP, "an object of schemas")                                                  \
    X(DEFINITIONS, "definitions", MAP, "an object of schemas")                                     \
    X(REQUIRED, "required", STRINGS, "a list of names")                                            \
    X(ADDITIONAL, "additionalProperties", SCHEMA, "a schema or a boolean")                         \
    X(ITEMS, "items", ITEMS, "a schema")                                                           \
    X(PREFIX_ITEMS, "prefixItems", SCHEMAS, "a list of schemas")                                   \
    X(ENUM, "enum", LIST, "a list of values")                                                      \
    X(CONST, "const", ANY, "a value")                                                              \
    X(MINIMUM, "minimum", NUMBER, "a number")                                                      \
    X(MAXIMUM, "maximum", NUMBER, "a number")                                                      \
    X(EXCLUSIVE_MINIMUM, "exclusiveMinimum", NUMBER, "a number")                                   \
    X(EXCLUSIVE_MAXIMUM, "exclusiveMaximum", NUMBER, "a number")                                   \
    X(MULTIPLE_OF, "multipleOf", POSITIVE, "a number over 0")                                      \
    X(MIN_LENGTH, "minLength", COUNT, "a whole number of 0 or more")                               \
    X(MAX_LENGTH, "maxLength", COUNT, "a whole number of 0 or more")                               \
    X(MIN_ITEMS, "minItems", COUNT, "a whole number of 0 or more")                                 \
    X(MAX_ITEMS, "maxItems", COUNT, "a whole number of 0 or more")                                 \
    X(MIN_PROPERTIES, "minProperties", COUNT, "a whole number of 0 or more")                       \
    X(MAX_PROPERTIES, "maxProperties", COUNT, "a whole number of 0 or more")                       \
    X(UNIQUE_ITEMS, "uniqueItems", BOOLEAN, "true or false")                                       \
    X(ANY_OF, "anyOf", ALTERNATIVES, "a list of schemas, not empty")                               \
    X(ONE_OF, "oneOf", ALTERNATIVES, "a list of schemas, not empty")                               \
    X(ALL_OF, "allOf", ALTERNATIVES, "a list of schemas, not empty")                               \
    X(NOT, "not", SCHEMA, "a schema")                                                              \
    X(REF, "$ref", REF, "a reference inside this schema, such as #/$defs/name")

typedef enum pw_schema_keyword {
#define PW_SCHEMA_ENUM(id, name, shape, expected) PW_SCHEMA_##id,
    PW_SCHEMA_KEYWORDS(PW_SCHEMA_ENUM)
#undef PW_SCHEMA_ENUM
        PW_SCHEMA_ANNOTATION /* anything else: says nothing about a value */
} pw_schema_keyword;

pw_schema_keyword pw_schema_keyword_of(pw_str name);
bool pw_schema_type_fits(pw_str type_name, const pw_json *value);

/*
 * Where a local $ref (`#`, `#/$defs/name`) leads, or NULL. Each member looked at takes one from
 * `steps`; at 0 the answer is NULL.
 */
const pw_json *pw_schema_find(const pw_json *root, pw_str ref, int64_t *steps);

/* What did not fit: the value, and the keyword of the schema that it did not meet. */
typedef struct pw_schema_fault {
    const pw_json *at;
    const pw_json *keyword; /* a member of a schema; NULL: the whole schema is `false` */
    const pw_json *detail;  /* of `required`: the name that is missing */
    uint32_t rank;          /* how far the value had come: of several faults the highest is told */
    bool several;           /* of oneOf: more than one form fitted */
} pw_schema_fault;

pw_status pw_schema_report(const pw_json *root, const pw_schema_fault *, pw_error *);

/* A JSON Pointer (RFC 6901) to `node` inside `root`, cut when it is long; "(top)" for root itself.
 */
typedef struct pw_schema_path {
    char text[100];
} pw_schema_path;
pw_schema_path pw_schema_path_of(const pw_json *root, const pw_json *node);

#endif
