/*
 * The JSON reader: one strict pass over the text that builds the tree, or builds nothing and only
 * judges (pw_json_valid): both are the same code, so they cannot disagree.
 *
 * Open containers are frames on a bounded list, not calls: the text decides how deep it nests, and
 * the stack must not be the text's to spend. Strings are looked at eight bytes at a time; one
 * without escapes is borrowed, one with escapes is measured while it is checked and then decoded
 * into exactly that much of the arena.
 */
#include "base/json_inner.h"
#include "base/utf8.h"
#include "base/utf8_inner.h"

#define NODES_AT_A_TIME 16u /* small texts are the many, and nodes are zeroed */

typedef struct frame {
    pw_json *node;
    pw_json *last; /* the newest member */
    bool object;
} frame;

typedef struct reader {
    const char *start, *p, *end;
    pw_arena *arena; /* NULL: judge only, all nodes are `spare` */
    int flags;
    pw_error *error;
    pw_json *nodes; /* taken from the arena, not used yet */
    size_t nodes_left;
    pw_str key; /* of the member that comes next */
    bool key_mended;
    uint32_t depth, depth_max;
    pw_json spare;
    frame frames[PW_JSON_MAX_DEPTH];
} reader;

static pw_status fail(reader *r, const char *at, const char *expected)
{
    const size_t offset = (size_t)(at - r->start);
    if (at == r->end) {
        return PW_FAIL(r->error, PW_INVALID,
                       "JSON byte %zu: expected %s, found the end of the text", offset, expected);
    }
    const unsigned char c = (unsigned char)*at;
    if (c > 0x20 && c < 0x7F) {
        return PW_FAIL(r->error, PW_INVALID, "JSON byte %zu: expected %s, found '%c'", offset,
                       expected, c);
    }
    return PW_FAIL(r->error, PW_INVALID, "JSON byte %zu: expected %s, found byte 0x%02x", offset,
                   expected, c);
}

static pw_status fail_memory(reader *r)
{
    return PW_FAIL(r->error, PW_NOMEM, "out of memory while reading JSON of %zu bytes",
                   (size_t)(r->end - r->start));
}

static inline void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t')) {
        r->p++;
    }
}

/* --- Strings. */

typedef struct string_shape {
    const char *end;  /* its closing quote */
    ptrdiff_t growth; /* decoded length less length as written */
    bool plain;       /* the text can be borrowed */
    bool mended;
} string_shape;

static bool read_hex4(const char *p, const char *end, uint32_t *ret)
{
    if (end - p < 4) {
        return false;
    }
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        uint32_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint32_t)(c - 'a') + 10;
        } else if (c >= 'A' && c <= 'F') {
            digit = (uint32_t)(c - 'A') + 10;
        } else {
            return false;
        }
        value = value << 4 | digit;
    }
    *ret = value;
    return true;
}

/*
 * The escape at p, which is a backslash: its code point (U+FFFD for half a surrogate pair, *mended
 * set) and length as written; 0 when it is not one.
 */
static size_t read_escape(const char *p, const char *end, uint32_t *ret, bool *mended)
{
    if (end - p < 2) {
        return 0;
    }
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
        *ret = (uint32_t)p[1];
        return 2;
    case 'b':
        *ret = '\b';
        return 2;
    case 'f':
        *ret = '\f';
        return 2;
    case 'n':
        *ret = '\n';
        return 2;
    case 'r':
        *ret = '\r';
        return 2;
    case 't':
        *ret = '\t';
        return 2;
    case 'u':
        break;
    default:
        return 0;
    }
    uint32_t code, low;
    if (!read_hex4(p + 2, end, &code)) {
        return 0;
    }
    if (code >= 0xD800 && code <= 0xDBFF && end - p >= 12 && p[6] == '\\' && p[7] == 'u' &&
        read_hex4(p + 8, end, &low) && low >= 0xDC00 && low <= 0xDFFF) {
        *ret = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        return 12;
    }
    if (code >= 0xD800 && code <= 0xDFFF) {
        code = 0xFFFD;
        *mended = true;
    }
    *ret = code;
    return 6;
}

/* r->p is after the opening quote; it stays there. */
static pw_status scan_string(reader *r, string_shape *shape)
{
    const char *p = r->p, *const end = r->end;
    *shape = (string_shape){.plain = true};
    for (;;) {
        while (end - p >= 8) {
            const uint64_t word = pw_load8(p);
            const uint64_t marks = pw_bytes_not_plain(word);
            if (marks != 0) {
                p += pw_bytes_before_mark(marks);
                break;
            }
            p += 8;
        }
        if (p == end) {
            return fail(r, p, "the closing quote of a string");
        }
        const unsigned char c = (unsigned char)*p;
        if (c == '"') {
            shape->end = p;
            return PW_OK;
        }
        if (c < 0x20) {
            return fail(r, p, "control characters in a string to be escaped");
        }
        if (c == '\\') {
            uint32_t code;
            char encoded[4];
            const size_t length = read_escape(p, end, &code, &shape->mended);
            if (length == 0) {
                return fail(r, end - p < 2 ? end : p + 1, "a valid escape after the backslash");
            }
            shape->growth += (ptrdiff_t)pw_utf8_encode(code, encoded) - (ptrdiff_t)length;
            shape->plain = false;
            p += length;
        } else if (c < 0x80) {
            p++;
        } else {
            bool ok;
            const size_t length = pw_utf8_step((const uint8_t *)p, (const uint8_t *)end, &ok);
            if (!ok) {
                if (!(r->flags & PW_JSON_MEND_UTF8)) {
                    return fail(r, p, "valid UTF-8");
                }
                shape->growth += 3 - (ptrdiff_t)length;
                shape->plain = false;
                shape->mended = true;
            }
            p += length;
        }
    }
}

/* What scan_string measured; nothing can be wrong any more. */
static void decode_string(const char *p, const char *end, char *to)
{
    while (p < end) {
        bool ok = true;
        if (*p == '\\') {
            uint32_t code = 0;
            p += read_escape(p, end, &code, &ok);
            to += pw_utf8_encode(code, to);
            continue;
        }
        if (end - p >= 8) {
            const uint64_t word = pw_load8(p);
            if ((pw_bytes_equal(word, '\\') | (word & PW_EACH_BYTE(0x80))) == 0) {
                memcpy(to, p, 8);
                p += 8;
                to += 8;
                continue;
            }
        }
        const size_t length = pw_utf8_step((const uint8_t *)p, (const uint8_t *)end, &ok);
        if (ok) {
            for (size_t i = 0; i < length; i++) {
                *to++ = p[i];
            }
        } else {
            to += pw_utf8_encode(0xFFFD, to);
        }
        p += length;
    }
}

/* r->p is at the opening quote, and after the closing one when this is PW_OK. */
static pw_status read_string(reader *r, pw_str *ret, bool *ret_mended)
{
    r->p++;
    string_shape shape;
    PW_TRY(scan_string(r, &shape));
    const char *from = r->p;
    r->p = shape.end + 1;
    *ret_mended = shape.mended;
    *ret = (pw_str){from, (size_t)(shape.end - from)};
    if (shape.plain || r->arena == NULL) {
        return PW_OK;
    }
    ret->len = (size_t)((ptrdiff_t)ret->len + shape.growth);
    char *to = pw_arena_bytes(r->arena, ret->len);
    if (to == NULL) {
        return fail_memory(r);
    }
    decode_string(from, shape.end, to);
    ret->ptr = to;
    return PW_OK;
}

/* --- Values. */

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }
    return p;
}

static pw_status read_number(reader *r)
{
    const char *p = r->p, *const end = r->end;
    if (*p == '-') {
        p++;
    }
    const char *digits = p;
    p = p < end && *p == '0' ? p + 1 : skip_digits(p, end);
    if (p == digits) {
        return fail(r, p, "a digit");
    }
    if (p < end && *p == '.') {
        digits = p + 1;
        p = skip_digits(digits, end);
        if (p == digits) {
            return fail(r, p, "a digit after the point");
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) {
            p++;
        }
        digits = p;
        p = skip_digits(digits, end);
        if (p == digits) {
            return fail(r, p, "a digit in the exponent");
        }
    }
    r->p = p;
    return PW_OK;
}

static pw_status read_word(reader *r, pw_str word)
{
    if ((size_t)(r->end - r->p) < word.len || memcmp(r->p, word.ptr, word.len) != 0) {
        return fail(r, r->p, "true, false, null or another value");
    }
    r->p += word.len;
    return PW_OK;
}

static pw_json *node_new(reader *r)
{
    if (r->arena == NULL) {
        return &r->spare;
    }
    if (r->nodes_left == 0) {
        /* No more than what is left of the text could need: every value has a byte and a comma. */
        const size_t possible = (size_t)(r->end - r->p) / 2 + 1;
        const size_t count = possible < NODES_AT_A_TIME ? possible : NODES_AT_A_TIME;
        r->nodes = PW_NEW_ARRAY(r->arena, pw_json, count);
        if (r->nodes == NULL) {
            return NULL;
        }
        r->nodes_left = count;
    }
    r->nodes_left--;
    return r->nodes++;
}

/* Links a new node into the open container and gives it the key that was read for it. */
static pw_json *node_add(reader *r)
{
    pw_json *node = node_new(r);
    if (node == NULL) {
        return NULL;
    }
    node->key = r->key;
    node->mended = r->key_mended;
    r->key = PW_STR_NONE;
    r->key_mended = false;
    if (r->depth > 0) {
        frame *f = &r->frames[r->depth - 1];
        if (f->last != NULL) {
            f->last->next = node;
        } else {
            f->node->child = node;
        }
        f->last = node;
        f->node->count++;
    }
    return node;
}

static pw_status open_container(reader *r, pw_json *node, bool object)
{
    if (r->depth == r->depth_max) {
        return PW_FAIL(r->error, PW_TOO_LARGE, "JSON byte %zu: nested deeper than %d",
                       (size_t)(r->p - r->start), (int)r->depth_max);
    }
    node->type = object ? PW_JSON_OBJECT : PW_JSON_ARRAY;
    r->frames[r->depth++] = (frame){.node = node, .object = object};
    r->p++;
    return PW_OK;
}

/* A whole scalar, or the opening of a container (*ret_opened). */
static pw_status read_value(reader *r, bool *ret_opened)
{
    skip_space(r);
    *ret_opened = false;
    const char c = r->p < r->end ? *r->p : '\0';
    const bool starts_value = c == '"' || c == '{' || c == '[' || c == '-' ||
                              (c >= '0' && c <= '9') || c == 't' || c == 'f' || c == 'n';
    if (!starts_value) {
        return fail(r, r->p, "a value");
    }
    pw_json *node = node_add(r);
    if (node == NULL) {
        return fail_memory(r);
    }
    const char *from = r->p;
    node->raw.ptr = from;
    if (c == '"') {
        bool mended;
        node->type = PW_JSON_STRING;
        PW_TRY(read_string(r, &node->text, &mended));
        node->mended = node->mended || mended;
    } else if (c == '{' || c == '[') {
        *ret_opened = true;
        return open_container(r, node, c == '{');
    } else if (c == 't' || c == 'f') {
        node->type = PW_JSON_BOOL;
        node->truth = c == 't';
        PW_TRY(read_word(r, c == 't' ? PW_STR("true") : PW_STR("false")));
    } else if (c == 'n') {
        node->type = PW_JSON_NULL;
        PW_TRY(read_word(r, PW_STR("null")));
    } else {
        node->type = PW_JSON_NUMBER;
        PW_TRY(read_number(r));
    }
    node->raw.len = (size_t)(r->p - from);
    return PW_OK;
}

static pw_status read_key(reader *r, const char *expected)
{
    skip_space(r);
    if (r->p == r->end || *r->p != '"') {
        return fail(r, r->p, expected);
    }
    PW_TRY(read_string(r, &r->key, &r->key_mended));
    skip_space(r);
    if (r->p == r->end || *r->p != ':') {
        return fail(r, r->p, "a colon");
    }
    r->p++;
    return PW_OK;
}

static pw_status check_unique(reader *r, const pw_json *object)
{
    const pw_arena_mark mark = pw_arena_mark_get(r->arena);
    const pw_json **members = pw_json_sorted(object, r->arena);
    if (members == NULL) {
        return fail_memory(r);
    }
    const pw_json *repeated = NULL;
    for (uint32_t i = 1; i < object->count && repeated == NULL; i++) {
        if (pw_str_equal(members[i - 1]->key, members[i]->key)) {
            repeated = members[i];
        }
    }
    pw_arena_rewind(r->arena, mark);
    if (repeated == NULL) {
        return PW_OK;
    }
    const pw_str shown =
        pw_str_slice(repeated->key, 0, repeated->key.len < 80 ? repeated->key.len : 80);
    return PW_FAIL(r->error, PW_INVALID, "JSON byte %zu: the key \"%.*s\" is repeated",
                   (size_t)(repeated->raw.ptr - r->start), PW_STR_ARG(shown));
}

static pw_status close_container(reader *r)
{
    pw_json *node = r->frames[--r->depth].node;
    const bool object = r->frames[r->depth].object;
    r->p++;
    if (r->arena == NULL) {
        return PW_OK;
    }
    node->raw.len = (size_t)(r->p - node->raw.ptr);
    if (object && (r->flags & PW_JSON_UNIQUE_KEYS) && node->count > 1) {
        return check_unique(r, node);
    }
    return PW_OK;
}

/* After a value: closes what ends here. *ret_more: a comma was passed and another value follows. */
static pw_status read_after_value(reader *r, bool *ret_more)
{
    while (r->depth > 0) {
        const bool object = r->frames[r->depth - 1].object;
        skip_space(r);
        const char c = r->p < r->end ? *r->p : '\0';
        if (c == ',') {
            r->p++;
            *ret_more = true;
            return object ? read_key(r, "a key") : PW_OK;
        }
        if (c != (object ? '}' : ']')) {
            return fail(r, r->p, object ? "a comma or '}'" : "a comma or ']'");
        }
        PW_TRY(close_container(r));
    }
    *ret_more = false;
    skip_space(r);
    return r->p == r->end ? PW_OK : fail(r, r->p, "nothing after the value");
}

static pw_status read_all(reader *r)
{
    bool more = true;
    while (more) {
        bool opened;
        PW_TRY(read_value(r, &opened));
        if (opened) {
            const bool object = r->frames[r->depth - 1].object;
            skip_space(r);
            if (r->p == r->end || *r->p != (object ? '}' : ']')) {
                if (object) {
                    PW_TRY(read_key(r, "a key or '}'"));
                }
                continue;
            }
            PW_TRY(close_container(r));
        }
        PW_TRY(read_after_value(r, &more));
    }
    return PW_OK;
}

static void reader_init(reader *r, pw_arena *arena, pw_str text, int flags, pw_error *error)
{
    r->start = r->p = text.ptr != NULL ? text.ptr : "";
    r->end = r->start + text.len;
    r->arena = arena;
    r->flags = flags;
    r->error = error;
    r->nodes = NULL;
    r->nodes_left = 0;
    r->key = PW_STR_NONE;
    r->key_mended = false;
    r->depth = 0;
    r->depth_max = PW_JSON_MAX_DEPTH;
    r->spare = (pw_json){0};
}

pw_status pw_json_parse(pw_arena *arena, pw_str text, int flags, const pw_json **ret,
                        pw_error *error)
{
    if (text.len >= UINT32_MAX) {
        return PW_FAIL(error, PW_TOO_LARGE, "JSON of %zu bytes is too large", text.len);
    }
    const pw_arena_mark mark = pw_arena_mark_get(arena);
    reader r;
    reader_init(&r, arena, text, flags, error);
    /* The root hangs off a frame-less node: remember where the first one is. */
    pw_json *root = node_new(&r);
    if (root == NULL) {
        return fail_memory(&r);
    }
    r.nodes--;
    r.nodes_left++;
    const pw_status status = read_all(&r);
    if (status != PW_OK) {
        pw_arena_rewind(arena, mark);
        return status;
    }
    *ret = root;
    return PW_OK;
}

bool pw_json_valid_within(pw_str text, uint32_t depth)
{
    reader r;
    reader_init(&r, NULL, text, 0, NULL);
    r.depth_max = depth < PW_JSON_MAX_DEPTH ? depth : PW_JSON_MAX_DEPTH;
    return text.len < UINT32_MAX && read_all(&r) == PW_OK;
}

bool pw_json_valid(pw_str text)
{
    return pw_json_valid_within(text, PW_JSON_MAX_DEPTH);
}

/* --- Look-ups. */

bool pw_json_is(const pw_json *json, pw_json_type type)
{
    return json != NULL && json->type == type;
}

const pw_json *pw_json_get_str(const pw_json *object, pw_str key)
{
    if (!pw_json_is(object, PW_JSON_OBJECT)) {
        return NULL;
    }
    const pw_json *found = NULL;
    for (const pw_json *member = object->child; member != NULL; member = member->next) {
        if (pw_str_equal(member->key, key)) {
            found = member; /* of a repeated key the last one counts */
        }
    }
    return found;
}

const pw_json *pw_json_get(const pw_json *object, const char *key)
{
    return pw_json_get_str(object, pw_str_from(key));
}

const pw_json *pw_json_at(const pw_json *array, size_t index)
{
    if (!pw_json_is(array, PW_JSON_ARRAY) || index >= array->count) {
        return NULL;
    }
    const pw_json *member = array->child;
    while (index-- > 0) {
        member = member->next;
    }
    return member;
}

pw_str pw_json_text(const pw_json *json)
{
    return pw_json_is(json, PW_JSON_STRING) ? json->text : PW_STR_NONE;
}

bool pw_json_true(const pw_json *json)
{
    return pw_json_is(json, PW_JSON_BOOL) && json->truth;
}
