/*
 * Is this a schema we can apply? Asked once, when a definition is loaded, so that a wrong one is a
 * configuration error with a place, and not a surprise in the middle of a turn. Here too: finding
 * what a $ref means.
 */
#include "base/schema_inner.h"

#include "base/json_inner.h"
#include "base/utf8.h"

#define CHECK_STEPS 10000000 /* following references; some 30 ms */

/* --- $ref. */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next byte of a pointer in a URI fragment, %XX and ~0 ~1 undone; *p moves on. */
static char next_byte(const char **p, const char *end)
{
    char c = *(*p)++;
    if (c == '%' && end - *p >= 2 && hex_digit((*p)[0]) >= 0 && hex_digit((*p)[1]) >= 0) {
        c = (char)(hex_digit((*p)[0]) * 16 + hex_digit((*p)[1]));
        *p += 2;
    }
    if (c == '~' && *p < end && (**p == '0' || **p == '1')) {
        c = *(*p)++ == '0' ? '~' : '/';
    }
    return c;
}

static bool segment_is(pw_str segment, pw_str key)
{
    const char *p = segment.ptr, *const end = p + segment.len;
    size_t at = 0;
    while (p < end) {
        if (at == key.len || next_byte(&p, end) != key.ptr[at]) {
            return false;
        }
        at++;
    }
    return at == key.len;
}

static const pw_json *find_segment(const pw_json *in, pw_str segment, int64_t *steps)
{
    uint64_t index;
    *steps -= 1 + (int64_t)in->count;
    if (in->type == PW_JSON_ARRAY) {
        return pw_str_u64(segment, &index) && index < in->count ? pw_json_at(in, (size_t)index)
                                                                : NULL;
    }
    const pw_json *found = NULL;
    for (const pw_json *m = in->child; in->type == PW_JSON_OBJECT && m != NULL; m = m->next) {
        if (segment_is(segment, m->key)) {
            found = m;
        }
    }
    return found;
}

const pw_json *pw_schema_find(const pw_json *root, pw_str ref, int64_t *steps)
{
    if (ref.len == 0 || ref.ptr[0] != '#') {
        return NULL;
    }
    pw_str rest = pw_str_slice(ref, 1, ref.len);
    const pw_json *at = root;
    *steps -= 1;
    while (at != NULL && rest.len > 0) {
        if (rest.ptr[0] != '/') {
            return NULL; /* an anchor: not supported */
        }
        rest = pw_str_slice(rest, 1, rest.len);
        const size_t slash = pw_str_find(rest, PW_STR("/"));
        const size_t end = slash == SIZE_MAX ? rest.len : slash;
        at = *steps > 0 ? find_segment(at, pw_str_slice(rest, 0, end), steps) : NULL;
        rest = pw_str_slice(rest, end, rest.len);
    }
    return at != NULL && (at->type == PW_JSON_OBJECT || at->type == PW_JSON_BOOL) ? at : NULL;
}

/* --- Checking. */

typedef enum shape {
    SHAPE_ANY,
    SHAPE_TYPE, /* a type's name or a list of them */
    SHAPE_SCHEMA,
    SHAPE_SCHEMAS,      /* a list of schemas */
    SHAPE_ALTERNATIVES, /* the same, not empty */
    SHAPE_ITEMS,        /* a schema or (drafts up to 7) a list of them */
    SHAPE_MAP,          /* schemas by name */
    SHAPE_STRINGS,
    SHAPE_LIST,
    SHAPE_NUMBER,
    SHAPE_POSITIVE,
    SHAPE_COUNT,
    SHAPE_BOOLEAN,
    SHAPE_REF
} shape;

/* Indexed by pw_schema_keyword. */
static const struct keyword_row {
    pw_str name;
    shape shape;
    const char *expected;
} keywords[] = {
#define KEYWORD_ROW(id, name, shape, expected) {PW_STR_INIT(name), SHAPE_##shape, expected},
    PW_SCHEMA_KEYWORDS(KEYWORD_ROW)
#undef KEYWORD_ROW
};

pw_schema_keyword pw_schema_keyword_of(pw_str name)
{
    size_t i = 0;
    while (i < PW_SCHEMA_ANNOTATION && !pw_str_equal(keywords[i].name, name)) {
        i++;
    }
    return (pw_schema_keyword)i;
}

static bool is_schema(const pw_json *json)
{
    return json->type == PW_JSON_OBJECT || json->type == PW_JSON_BOOL;
}

static bool is_type_name(const pw_json *json)
{
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (json->type == PW_JSON_STRING && pw_str_is(json->text, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_string(const pw_json *json)
{
    return json->type == PW_JSON_STRING;
}

static bool all_members(const pw_json *json, pw_json_type container, bool (*fits)(const pw_json *))
{
    bool all = json->type == container;
    for (const pw_json *m = json->child; all && m != NULL; m = m->next) {
        all = fits(m);
    }
    return all;
}

/* A chain of nothing but $ref that never arrives. Longer cycles are left to the depth bound. */
static bool ref_arrives(const pw_json *root, const pw_json *ref, int64_t *steps)
{
    for (int hops = 0; hops < PW_JSON_MAX_DEPTH; hops++) {
        const pw_json *target = pw_schema_find(root, pw_json_text(ref), steps);
        if (target == NULL) {
            return false;
        }
        ref = pw_json_get(target, "$ref");
        if (ref == NULL) {
            return true;
        }
    }
    return false;
}

static bool is_number_over_zero(const pw_json *json)
{
    if (json->type != PW_JSON_NUMBER) {
        return false;
    }
    const pw_decimal d = pw_decimal_of(json->raw);
    return d.count > 0 && !d.negative;
}

static bool has_shape(const pw_json *root, const pw_json *json, shape wanted, int64_t *steps)
{
    int64_t count;
    switch (wanted) {
    case SHAPE_ANY:
        return true;
    case SHAPE_TYPE:
        return is_type_name(json) ||
               (json->count > 0 && all_members(json, PW_JSON_ARRAY, is_type_name));
    case SHAPE_SCHEMA:
        return is_schema(json);
    case SHAPE_SCHEMAS:
        return all_members(json, PW_JSON_ARRAY, is_schema);
    case SHAPE_ALTERNATIVES:
        return json->count > 0 && all_members(json, PW_JSON_ARRAY, is_schema);
    case SHAPE_ITEMS:
        return is_schema(json) || all_members(json, PW_JSON_ARRAY, is_schema);
    case SHAPE_MAP:
        return all_members(json, PW_JSON_OBJECT, is_schema);
    case SHAPE_STRINGS:
        return all_members(json, PW_JSON_ARRAY, is_string);
    case SHAPE_LIST:
        return json->type == PW_JSON_ARRAY;
    case SHAPE_NUMBER:
        return json->type == PW_JSON_NUMBER;
    case SHAPE_POSITIVE:
        return is_number_over_zero(json);
    case SHAPE_COUNT:
        return pw_json_i64(json, &count) && count >= 0;
    case SHAPE_BOOLEAN:
        return json->type == PW_JSON_BOOL;
    case SHAPE_REF:
        return ref_arrives(root, json, steps);
    }
    return false;
}

/* What a node of the schema document is: only schemas and what leads to them is walked. */
typedef enum node_role { ROLE_DATA, ROLE_SCHEMA, ROLE_SCHEMAS } node_role;

static node_role role_of(shape wanted, const pw_json *member)
{
    switch (wanted) {
    case SHAPE_SCHEMA:
        return ROLE_SCHEMA;
    case SHAPE_ITEMS:
        return member->type == PW_JSON_ARRAY ? ROLE_SCHEMAS : ROLE_SCHEMA;
    case SHAPE_SCHEMAS:
    case SHAPE_ALTERNATIVES:
    case SHAPE_MAP:
        return ROLE_SCHEMAS;
    case SHAPE_ANY:
    case SHAPE_TYPE:
    case SHAPE_STRINGS:
    case SHAPE_LIST:
    case SHAPE_NUMBER:
    case SHAPE_POSITIVE:
    case SHAPE_COUNT:
    case SHAPE_BOOLEAN:
    case SHAPE_REF:
        break;
    }
    return ROLE_DATA;
}

typedef struct level {
    const pw_json *next; /* member of this level to look at next */
    node_role role;      /* of the node whose members these are */
} level;

static pw_status check_keyword(const pw_json *root, const pw_json *member,
                               const struct keyword_row *row, int64_t *steps, pw_error *error)
{
    if (has_shape(root, member, row->shape, steps)) {
        return PW_OK;
    }
    if (*steps <= 0) {
        return PW_FAIL(error, PW_TOO_LARGE, "the schema has too many references to follow");
    }
    const pw_str found = pw_str_slice(member->raw, 0, pw_utf8_cut(member->raw, 40));
    return PW_FAIL(error, PW_INVALID, "schema %s: expected %s, found %.*s",
                   pw_schema_path_of(root, member).text, row->expected, PW_STR_ARG(found));
}

static pw_status check_tree(const pw_json *root, pw_error *error)
{
    level levels[PW_JSON_MAX_DEPTH];
    uint32_t depth = 0;
    int64_t steps = CHECK_STEPS;
    levels[depth++] = (level){root->child, ROLE_SCHEMA};
    while (depth > 0) {
        level *top = &levels[depth - 1];
        const pw_json *member = top->next;
        if (member == NULL) {
            depth--;
            continue;
        }
        top->next = member->next;
        node_role role = ROLE_SCHEMA; /* in a list or map of schemas every member is one */
        if (top->role == ROLE_SCHEMA) {
            role = ROLE_DATA;
            const pw_schema_keyword keyword = pw_schema_keyword_of(member->key);
            if (keyword != PW_SCHEMA_ANNOTATION) {
                PW_TRY(check_keyword(root, member, &keywords[keyword], &steps, error));
                role = role_of(keywords[keyword].shape, member);
            }
        }
        if (role != ROLE_DATA && member->child != NULL) {
            PW_ASSERT(depth < PW_JSON_MAX_DEPTH); /* the reader makes no deeper trees */
            levels[depth++] = (level){member->child, role};
        }
    }
    return PW_OK;
}

pw_status pw_schema_check(const pw_json *schema, pw_arena *scratch, pw_error *error)
{
    (void)scratch; /* nothing has needed it yet */
    if (schema == NULL || !is_schema(schema)) {
        return PW_FAIL(error, PW_INVALID, "a schema is an object or a boolean");
    }
    return check_tree(schema, error);
}
