/*
 * Says what was wrong with a value, where, and what would have been right, for a model or a person
 * to act on. The place is found by looking for the node in its document, which is only done once
 * the verdict is known: applying a schema keeps no paths.
 */
#include "base/schema_inner.h"
#include "base/utf8.h"

/* --- Paths. */

static size_t index_of(const pw_json *parent, const pw_json *node)
{
    size_t index = 0;
    for (const pw_json *m = parent->child; m != node; m = m->next) {
        index++;
    }
    return index;
}

/* The members on the way from root to node, root itself left out; SIZE_MAX when it is not inside.
 */
static size_t way_to(const pw_json *root, const pw_json *node,
                     const pw_json *way[PW_JSON_MAX_DEPTH])
{
    size_t depth = 0;
    const pw_json *at = root;
    while (at != node) {
        if (at->child != NULL) {
            PW_ASSERT(depth < PW_JSON_MAX_DEPTH);
            at = at->child;
            way[depth++] = at;
            continue;
        }
        while (depth > 0 && way[depth - 1]->next == NULL) {
            depth--;
        }
        if (depth == 0) {
            return SIZE_MAX;
        }
        at = way[depth - 1]->next;
        way[depth - 1] = at;
    }
    return depth;
}

static void add_segment(pw_buffer *path, const pw_json *parent, const pw_json *member)
{
    pw_buffer_byte(path, '/');
    if (parent->type == PW_JSON_ARRAY) {
        pw_buffer_u64(path, index_of(parent, member));
        return;
    }
    for (size_t i = 0; i < member->key.len; i++) {
        const char c = member->key.ptr[i];
        if (c == '~' || c == '/') {
            pw_buffer_add(path, c == '~' ? PW_STR("~0") : PW_STR("~1"));
        } else {
            pw_buffer_byte(path, c);
        }
    }
}

static void *no_memory(void *ctx, void *ptr, size_t old_size, size_t new_size)
{
    (void)ctx, (void)ptr, (void)old_size, (void)new_size;
    return NULL;
}

/* Of a buffer that lives in a struct: it takes what fits and then refuses. */
static const pw_allocator refuses = {no_memory, NULL};

pw_schema_path pw_schema_path_of(const pw_json *root, const pw_json *node)
{
    const pw_json *way[PW_JSON_MAX_DEPTH];
    const size_t depth = way_to(root, node, way);
    pw_schema_path path;
    pw_buffer out;
    pw_buffer_init(&out, &refuses, sizeof path.text - 1);
    out.ptr = path.text;
    out.capacity = sizeof path.text;
    path.text[0] = '\0';
    if (depth == 0 || depth == SIZE_MAX) {
        pw_buffer_add(&out, PW_STR("(top)"));
    }
    for (size_t i = 0; depth != SIZE_MAX && i < depth; i++) {
        add_segment(&out, i == 0 ? root : way[i - 1], way[i]);
    }
    path.text[pw_utf8_cut(pw_buffer_str(&out), out.len)] = '\0';
    return path;
}

/* --- Messages. */

/* The same for lists of names and types: a buffer in a struct, full means cut. */
typedef struct short_text {
    char text[120];
    pw_buffer out;
} short_text;

static void short_begin(short_text *s)
{
    s->text[0] = '\0';
    pw_buffer_init(&s->out, &refuses, sizeof s->text - 1);
    s->out.ptr = s->text;
    s->out.capacity = sizeof s->text;
}

static pw_str article_of(pw_str type_name)
{
    static const pw_str names[][2] = {
        {PW_STR_INIT("object"), PW_STR_INIT("an object")},
        {PW_STR_INIT("array"), PW_STR_INIT("an array")},
        {PW_STR_INIT("string"), PW_STR_INIT("a string")},
        {PW_STR_INIT("number"), PW_STR_INIT("a number")},
        {PW_STR_INIT("integer"), PW_STR_INIT("an integer")},
        {PW_STR_INIT("boolean"), PW_STR_INIT("true or false")},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (pw_str_equal(names[i][0], type_name)) {
            return names[i][1];
        }
    }
    return type_name;
}

static void add_type(short_text *s, const pw_json *type)
{
    const bool list = pw_json_is(type, PW_JSON_ARRAY);
    for (const pw_json *t = list ? type->child : type; t != NULL; t = list ? t->next : NULL) {
        if (s->out.len > 0) {
            pw_buffer_add(&s->out, PW_STR(" or "));
        }
        pw_buffer_add(&s->out, article_of(pw_json_text(t)));
    }
}

/* "a string or null" where the alternatives differ by type, else how many there are. */
static void add_alternatives(short_text *s, const pw_json *alternatives)
{
    for (const pw_json *m = alternatives->child; m != NULL; m = m->next) {
        const pw_json *type = pw_json_get(m, "type");
        if (type == NULL) {
            short_begin(s);
            pw_buffer_format(&s->out, "one of %u forms", (unsigned)alternatives->count);
            return;
        }
        add_type(s, type);
    }
}

static void add_names(short_text *s, const pw_json *properties)
{
    const pw_json *m = pw_json_is(properties, PW_JSON_OBJECT) ? properties->child : NULL;
    for (; m != NULL; m = m->next) {
        pw_buffer_add(&s->out, s->out.len > 0 ? PW_STR(", ") : PW_STR(""));
        pw_buffer_add(&s->out, m->key);
    }
}

static unsigned long long characters(pw_str text)
{
    unsigned long long count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    return count;
}

static pw_str excerpt(pw_str s, size_t limit)
{
    return pw_str_slice(s, 0, pw_utf8_cut(s, limit));
}

/* Of the keywords that compare a size: what is counted and how many of it there are. */
static pw_status report_size(const char *path, const char *bound, const char *unit,
                             unsigned long long found, const pw_json *keyword, pw_error *error)
{
    const pw_str limit = excerpt(keyword->raw, 20);
    return PW_FAIL(error, PW_INVALID, "%s: expected %s %.*s %s, found %llu", path, bound,
                   PW_STR_ARG(limit), unit, found);
}

static pw_status report_expected(const char *path, const char *what, pw_str wanted,
                                 const pw_json *at, pw_error *error)
{
    const pw_str found = excerpt(at->raw, 40);
    return PW_FAIL(error, PW_INVALID, "%s: expected %s%.*s, found %.*s", path, what,
                   PW_STR_ARG(wanted), PW_STR_ARG(found));
}

static pw_status report_property(const char *path, const pw_schema_fault *fault, pw_error *error)
{
    if (fault->detail == NULL) {
        return PW_FAIL(error, PW_INVALID, "%s: this property is not allowed here", path);
    }
    const pw_str name = excerpt(pw_json_text(fault->detail), 60);
    if (pw_json_is(fault->detail, PW_JSON_STRING)) {
        return PW_FAIL(error, PW_INVALID, "%s: the property \"%.*s\" is missing", path,
                       PW_STR_ARG(name));
    }
    short_text s;
    short_begin(&s);
    add_names(&s, fault->detail);
    return PW_FAIL(error, PW_INVALID, "%s: this property is not allowed here; allowed: %.*s", path,
                   PW_STR_ARG(pw_buffer_str(&s.out)));
}

static pw_status report_alternatives(const char *path, const pw_schema_fault *fault,
                                     pw_error *error)
{
    if (fault->several) {
        return PW_FAIL(error, PW_INVALID, "%s: fits several forms where it must fit exactly one",
                       path);
    }
    short_text s;
    short_begin(&s);
    add_alternatives(&s, fault->keyword);
    return report_expected(path, "", pw_buffer_str(&s.out), fault->at, error);
}

static pw_status report_type(const char *path, const pw_schema_fault *fault, pw_error *error)
{
    short_text s;
    short_begin(&s);
    add_type(&s, fault->keyword);
    return report_expected(path, "", pw_buffer_str(&s.out), fault->at, error);
}

pw_status pw_schema_report(const pw_json *root, const pw_schema_fault *fault, pw_error *error)
{
    if (error == NULL) {
        return PW_INVALID;
    }
    const pw_schema_path where = pw_schema_path_of(root, fault->at);
    const char *const path = where.text;
    const pw_json *const at = fault->at, *const keyword = fault->keyword;
    if (keyword == NULL) {
        return PW_FAIL(error, PW_INVALID, "%s: nothing is allowed here", path);
    }
    const pw_str wanted = excerpt(keyword->raw, 80);
    switch (pw_schema_keyword_of(keyword->key)) {
    case PW_SCHEMA_TYPE:
        return report_type(path, fault, error);
    case PW_SCHEMA_REQUIRED:
    case PW_SCHEMA_ADDITIONAL:
        return report_property(path, fault, error);
    case PW_SCHEMA_ENUM:
        return report_expected(path, "one of ", wanted, at, error);
    case PW_SCHEMA_CONST:
        return report_expected(path, "", wanted, at, error);
    case PW_SCHEMA_MINIMUM:
        return report_expected(path, "at least ", wanted, at, error);
    case PW_SCHEMA_MAXIMUM:
        return report_expected(path, "at most ", wanted, at, error);
    case PW_SCHEMA_EXCLUSIVE_MINIMUM:
        return report_expected(path, "more than ", wanted, at, error);
    case PW_SCHEMA_EXCLUSIVE_MAXIMUM:
        return report_expected(path, "less than ", wanted, at, error);
    case PW_SCHEMA_MULTIPLE_OF:
        return report_expected(path, "a multiple of ", wanted, at, error);
    case PW_SCHEMA_MIN_LENGTH:
        return report_size(path, "at least", "characters", characters(at->text), keyword, error);
    case PW_SCHEMA_MAX_LENGTH:
        return report_size(path, "at most", "characters", characters(at->text), keyword, error);
    case PW_SCHEMA_MIN_ITEMS:
        return report_size(path, "at least", "items", at->count, keyword, error);
    case PW_SCHEMA_MAX_ITEMS:
        return report_size(path, "at most", "items", at->count, keyword, error);
    case PW_SCHEMA_MIN_PROPERTIES:
        return report_size(path, "at least", "properties", at->count, keyword, error);
    case PW_SCHEMA_MAX_PROPERTIES:
        return report_size(path, "at most", "properties", at->count, keyword, error);
    case PW_SCHEMA_UNIQUE_ITEMS:
        return PW_FAIL(error, PW_INVALID, "%s: repeats an earlier item", path);
    case PW_SCHEMA_ANY_OF:
    case PW_SCHEMA_ONE_OF:
        return report_alternatives(path, fault, error);
    case PW_SCHEMA_NOT:
        return report_expected(path, "anything but what the schema excludes", PW_STR(""), at,
                               error);
    case PW_SCHEMA_PROPERTIES:
    case PW_SCHEMA_DEFS:
    case PW_SCHEMA_DEFINITIONS:
    case PW_SCHEMA_ITEMS:
    case PW_SCHEMA_PREFIX_ITEMS:
    case PW_SCHEMA_ALL_OF:
    case PW_SCHEMA_REF:
    case PW_SCHEMA_ANNOTATION:
        break; /* their faults are those of the schemas they apply */
    }
    return PW_FAIL(error, PW_INTERNAL, "%s: does not fit", path);
}
