/*
 * Applying a schema to a value.
 *
 * A machine with frames of its own instead of recursion: a frame is one schema applied to one
 * value, standing at one keyword. A keyword that needs another schema applied (`properties`,
 * `anyOf`,
 * `$ref` …) pushes a frame and stands still until that one's verdict comes back.
 *
 * What bounds it: the number of frames, so that a schema that refers to itself ends; and steps, so
 * that one whose alternatives multiply ends. Both are PW_TOO_LARGE, which is neither yes nor no.
 */
#include "base/schema_inner.h"

#include "base/json_inner.h"

#define FRAMES_MAX                                                                                 \
    (4 * PW_JSON_MAX_DEPTH) /* a level of the value may take `$ref`, `anyOf`, `$ref` */
#define STEPS_BASE 1000000
#define STEPS_PER_BYTE 8 /* so that a large value may take its time */

typedef struct frame frame;
struct frame {
    frame *below, *above; /* `above` is kept for the next push */
    const pw_json *schema, *value;
    const pw_json *keyword; /* where it stands */
    const pw_json *form;    /* the alternative that is tried */
    const pw_json *member;  /* the member of the value that is looked at */
    uint32_t index;         /* of that member */
    uint32_t matched;       /* oneOf: forms that fitted */
    uint32_t level;         /* of the value, from the top */
    bool begun;             /* the cursors above belong to this keyword */
    pw_schema_fault best;   /* anyOf, oneOf: the fault of the form that came furthest */
};

typedef struct machine {
    const pw_json *root;
    pw_arena *scratch;
    frame *bottom, *top;
    uint32_t frames;
    int64_t steps;
    pw_schema_fault fault; /* the newest */
    pw_status failed;      /* no verdict can be had */
    pw_error *error;
} machine;

typedef enum verdict {
    VERDICT_NONE, /* not known yet: a frame was pushed */
    VERDICT_FITS,
    VERDICT_FAILS
} verdict;

static verdict give_up(machine *m, pw_status status, const char *why)
{
    m->failed = PW_FAIL(m->error, status, "%s", why);
    return VERDICT_FAILS;
}

static verdict push(machine *m, const pw_json *schema, const pw_json *value, uint32_t level)
{
    if (m->frames == FRAMES_MAX) {
        return give_up(m, PW_TOO_LARGE, "the schema refers to itself without end, or is too deep");
    }
    frame *f = m->top != NULL ? m->top->above : m->bottom;
    if (f == NULL) {
        f = PW_NEW(m->scratch, frame);
        if (f == NULL) {
            return give_up(m, PW_NOMEM, "out of memory while applying a schema");
        }
        if (m->top != NULL) {
            m->top->above = f;
        } else {
            m->bottom = f;
        }
    }
    f->below = m->top;
    f->schema = schema;
    f->value = value;
    f->keyword = schema->child;
    f->level = level;
    f->begun = false;
    m->top = f;
    m->frames++;
    return VERDICT_NONE;
}

static verdict fault_at(machine *m, const frame *f, const pw_json *at, const pw_json *detail)
{
    uint32_t weight = 2;
    const pw_schema_keyword keyword = pw_schema_keyword_of(f->keyword->key);
    if (keyword == PW_SCHEMA_CONST || keyword == PW_SCHEMA_ENUM) {
        weight = 0; /* most often the wrong form of a tagged union */
    } else if (keyword == PW_SCHEMA_TYPE) {
        weight = 1;
    }
    const uint32_t level = f->level + (at != f->value ? 1 : 0);
    m->fault = (pw_schema_fault){
        .at = at, .keyword = f->keyword, .detail = detail, .rank = 3 * level + weight};
    return VERDICT_FAILS;
}

static verdict fits_or_fault(machine *m, const frame *f, bool fits)
{
    return fits ? VERDICT_FITS : fault_at(m, f, f->value, NULL);
}

/* --- Keywords that look at the value alone. */

bool pw_schema_type_fits(pw_str name, const pw_json *value)
{
    switch ((pw_json_type)value->type) {
    case PW_JSON_NULL:
        return pw_str_is(name, "null");
    case PW_JSON_BOOL:
        return pw_str_is(name, "boolean");
    case PW_JSON_STRING:
        return pw_str_is(name, "string");
    case PW_JSON_ARRAY:
        return pw_str_is(name, "array");
    case PW_JSON_OBJECT:
        return pw_str_is(name, "object");
    case PW_JSON_NUMBER:
        break;
    }
    if (pw_str_is(name, "integer")) {
        const pw_decimal d = pw_decimal_of(value->raw);
        return pw_decimal_is_whole(&d);
    }
    return pw_str_is(name, "number");
}

static bool type_fits(const pw_json *type, const pw_json *value)
{
    if (type->type != PW_JSON_ARRAY) {
        return pw_schema_type_fits(pw_json_text(type), value);
    }
    for (const pw_json *t = type->child; t != NULL; t = t->next) {
        if (pw_schema_type_fits(pw_json_text(t), value)) {
            return true;
        }
    }
    return false;
}

static bool equal(machine *m, const pw_json *a, const pw_json *b)
{
    const size_t shorter = a->raw.len < b->raw.len ? a->raw.len : b->raw.len;
    m->steps -= 1 + (int64_t)(shorter / 64);
    if (a->type == PW_JSON_OBJECT || a->type == PW_JSON_ARRAY) {
        /* Objects may have to look for every key. */
        m->steps -= a->count < b->count ? (int64_t)a->count : (int64_t)b->count;
    }
    return pw_json_equal_value(a, b);
}

static bool in_list(machine *m, const pw_json *list, const pw_json *value)
{
    const pw_json *entry = list->type == PW_JSON_ARRAY ? list->child : NULL;
    for (; entry != NULL && m->steps > 0; entry = entry->next) {
        if (equal(m, entry, value)) {
            return true;
        }
    }
    return false;
}

static bool bound_holds(pw_schema_keyword keyword, const pw_json *limit, const pw_json *value)
{
    if (value->type != PW_JSON_NUMBER || limit->type != PW_JSON_NUMBER) {
        return true;
    }
    const pw_decimal v = pw_decimal_of(value->raw), l = pw_decimal_of(limit->raw);
    const int order = pw_decimal_compare(&v, &l);
    switch (keyword) {
    case PW_SCHEMA_MINIMUM:
        return order >= 0;
    case PW_SCHEMA_MAXIMUM:
        return order <= 0;
    case PW_SCHEMA_EXCLUSIVE_MINIMUM:
        return order > 0;
    default:
        return order < 0;
    }
}

/* Digit by digit, as on paper: the value may have any length. The divisor must fit. */
static bool multiple_holds(const pw_json *divisor, const pw_json *value)
{
    if (value->type != PW_JSON_NUMBER || divisor->type != PW_JSON_NUMBER) {
        return true;
    }
    const pw_decimal v = pw_decimal_of(value->raw), d = pw_decimal_of(divisor->raw);
    if (v.count == 0) {
        return true;
    }
    /* Both as whole numbers in units of the smaller scale: v = V × 10^zeros, d = D. */
    int64_t by;
    const int64_t shared = v.scale < d.scale ? v.scale : d.scale;
    if (shared < -1000 || shared > 1000 || !pw_decimal_i64(&d, (int)-shared, false, &by) ||
        by <= 0 || by > INT64_MAX / 16) {
        return true; /* beyond what is checked: an annotation */
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < v.count; i++) {
        rest = (rest * 10 + (uint64_t)pw_decimal_digit(&v, i)) % (uint64_t)by;
    }
    /* After 64 more factors of 2 and 5 nothing changes any more whether it is divisible. */
    const int64_t zeros = v.scale - shared;
    for (int64_t i = 0; i < zeros && i < 64; i++) {
        rest = rest * 10 % (uint64_t)by;
    }
    return rest == 0;
}

static uint64_t characters(pw_str text)
{
    uint64_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    return count;
}

/* minLength to maxProperties. A limit that is no number we know is no limit. */
static bool size_holds(machine *m, pw_schema_keyword keyword, const pw_json *limit,
                       const pw_json *value)
{
    const bool length = keyword == PW_SCHEMA_MIN_LENGTH || keyword == PW_SCHEMA_MAX_LENGTH;
    const bool items = keyword == PW_SCHEMA_MIN_ITEMS || keyword == PW_SCHEMA_MAX_ITEMS;
    const bool least = keyword == PW_SCHEMA_MIN_LENGTH || keyword == PW_SCHEMA_MIN_ITEMS ||
                       keyword == PW_SCHEMA_MIN_PROPERTIES;
    const pw_json_type type = length ? PW_JSON_STRING : items ? PW_JSON_ARRAY : PW_JSON_OBJECT;
    int64_t wanted;
    if (value->type != type || !pw_json_i64(limit, &wanted)) {
        return true;
    }
    if (length) {
        m->steps -= (int64_t)(value->text.len / 64);
    }
    const int64_t size = length ? (int64_t)characters(value->text) : (int64_t)value->count;
    return least ? size >= wanted : size <= wanted;
}

static const pw_json *missing_name(machine *m, const pw_json *names, const pw_json *value)
{
    if (value->type != PW_JSON_OBJECT || names->type != PW_JSON_ARRAY) {
        return NULL;
    }
    for (const pw_json *name = names->child; name != NULL && m->steps > 0; name = name->next) {
        m->steps -= 1 + value->count / 8;
        if (pw_json_get_str(value, pw_json_text(name)) == NULL) {
            return name;
        }
    }
    return NULL;
}

/* --- uniqueItems. */

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint64_t hash_text(pw_str text)
{
    uint64_t hash = text.len;
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001B3);
    }
    return hash_add(hash, 1);
}

/* Equal for values that pw_json_equal_value calls equal. What is inside containers is left out. */
static uint64_t hash_shallow(const pw_json *value)
{
    uint64_t hash = (uint64_t)value->type + 1;
    if (value->type == PW_JSON_STRING) {
        hash = hash_add(hash, hash_text(value->text));
    } else if (value->type == PW_JSON_BOOL) {
        hash = hash_add(hash, value->truth);
    } else if (value->type == PW_JSON_NUMBER) {
        const pw_decimal d = pw_decimal_of(value->raw);
        hash = hash_add(hash, (uint64_t)d.scale * 2 + d.negative);
        for (size_t i = 0; i < d.count; i++) {
            hash = hash_add(hash, (uint64_t)pw_decimal_digit(&d, i));
        }
    }
    return hash;
}

/* One level deeper, for lists of records. Members that a later one supersedes must not count. */
static uint64_t hash_value(const pw_json *value)
{
    uint64_t hash = hash_shallow(value);
    if (value->type == PW_JSON_ARRAY) {
        for (const pw_json *item = value->child; item != NULL; item = item->next) {
            hash = hash_add(hash, hash_shallow(item));
        }
    } else if (value->type == PW_JSON_OBJECT && value->count <= 16) {
        for (const pw_json *item = value->child; item != NULL; item = item->next) {
            if (pw_json_get_str(value, item->key) == item) {
                hash += hash_add(hash_text(item->key), hash_shallow(item)); /* in any order */
            }
        }
    }
    return hash;
}

/* The first item that equals an earlier one, by a hash table that lives only here. */
static const pw_json *repeated_item(machine *m, const pw_json *array)
{
    const pw_arena_mark mark = pw_arena_mark_get(m->scratch);
    size_t slots = 4;
    while (slots < (size_t)array->count * 2) {
        slots *= 2;
    }
    const pw_json **table = PW_NEW_ARRAY(m->scratch, const pw_json *, slots);
    if (table == NULL) {
        give_up(m, PW_NOMEM, "out of memory while applying a schema");
        return NULL;
    }
    const pw_json *repeated = NULL;
    for (const pw_json *item = array->child; item != NULL && repeated == NULL; item = item->next) {
        m->steps -= 1 + (int64_t)(item->raw.len / 64);
        size_t slot = (size_t)hash_value(item) & (slots - 1);
        while (table[slot] != NULL && m->steps > 0 && repeated == NULL) {
            repeated = equal(m, table[slot], item) ? item : NULL;
            slot = (slot + 1) & (slots - 1);
        }
        if (m->steps <= 0) {
            break;
        }
        if (repeated == NULL) {
            table[slot] = item;
        }
    }
    pw_arena_rewind(m->scratch, mark);
    return repeated;
}

static verdict apply_simple(machine *m, const frame *f, pw_schema_keyword keyword)
{
    const pw_json *wanted = f->keyword, *value = f->value;
    switch (keyword) {
    case PW_SCHEMA_TYPE:
        m->steps -= wanted->count;
        return fits_or_fault(m, f, type_fits(wanted, value));
    case PW_SCHEMA_ENUM:
        return fits_or_fault(m, f, in_list(m, wanted, value));
    case PW_SCHEMA_CONST:
        return fits_or_fault(m, f, equal(m, wanted, value));
    case PW_SCHEMA_MINIMUM:
    case PW_SCHEMA_MAXIMUM:
    case PW_SCHEMA_EXCLUSIVE_MINIMUM:
    case PW_SCHEMA_EXCLUSIVE_MAXIMUM:
        m->steps -= (int64_t)(value->raw.len / 64);
        return fits_or_fault(m, f, bound_holds(keyword, wanted, value));
    case PW_SCHEMA_MULTIPLE_OF:
        m->steps -= (int64_t)(value->raw.len / 16);
        return fits_or_fault(m, f, multiple_holds(wanted, value));
    case PW_SCHEMA_MIN_LENGTH:
    case PW_SCHEMA_MAX_LENGTH:
    case PW_SCHEMA_MIN_ITEMS:
    case PW_SCHEMA_MAX_ITEMS:
    case PW_SCHEMA_MIN_PROPERTIES:
    case PW_SCHEMA_MAX_PROPERTIES:
        return fits_or_fault(m, f, size_holds(m, keyword, wanted, value));
    case PW_SCHEMA_REQUIRED: {
        const pw_json *name = missing_name(m, wanted, value);
        return name != NULL ? fault_at(m, f, value, name) : VERDICT_FITS;
    }
    case PW_SCHEMA_UNIQUE_ITEMS: {
        const pw_json *item =
            pw_json_true(wanted) && value->type == PW_JSON_ARRAY ? repeated_item(m, value) : NULL;
        return item != NULL ? fault_at(m, f, item, NULL) : VERDICT_FITS;
    }
    default:
        return VERDICT_FITS; /* an annotation */
    }
}

/* --- Keywords that apply other schemas. `came` is the verdict on the last frame they pushed. */

static verdict apply_ref(machine *m, frame *f, verdict came)
{
    if (came != VERDICT_NONE) {
        return came;
    }
    const pw_json *target = pw_schema_find(m->root, pw_json_text(f->keyword), &m->steps);
    if (target == NULL && m->steps > 0) {
        return give_up(m, PW_INVALID, "a $ref of the schema leads nowhere");
    }
    return target != NULL ? push(m, target, f->value, f->level) : VERDICT_FAILS;
}

static verdict apply_not(machine *m, frame *f, verdict came)
{
    if (came == VERDICT_NONE) {
        return push(m, f->keyword, f->value, f->level);
    }
    return fits_or_fault(m, f, came == VERDICT_FAILS);
}

static verdict apply_all(machine *m, frame *f, verdict came)
{
    if (came == VERDICT_FAILS || f->form == NULL) {
        return came == VERDICT_FAILS ? VERDICT_FAILS : VERDICT_FITS;
    }
    const pw_json *form = f->form;
    f->form = form->next;
    return push(m, form, f->value, f->level);
}

/* No form fitted. One that failed deep inside says more than that none fitted. */
static verdict no_form_fits(machine *m, const frame *f)
{
    if (f->best.at != NULL && f->best.rank > 3 * f->level + 1) {
        m->fault = f->best;
        return VERDICT_FAILS;
    }
    return fault_at(m, f, f->value, NULL);
}

static verdict apply_any(machine *m, frame *f, bool exactly_one, verdict came)
{
    if (came == VERDICT_FAILS && (f->best.at == NULL || m->fault.rank > f->best.rank)) {
        f->best = m->fault;
    }
    if (came == VERDICT_FITS) {
        f->matched++;
        if (!exactly_one) {
            return VERDICT_FITS;
        }
        if (f->matched > 1) {
            fault_at(m, f, f->value, NULL);
            m->fault.several = true;
            return VERDICT_FAILS;
        }
    }
    if (f->form == NULL) {
        return f->matched == 1 ? VERDICT_FITS : no_form_fits(m, f);
    }
    const pw_json *form = f->form;
    f->form = form->next;
    return push(m, form, f->value, f->level);
}

static verdict apply_properties(machine *m, frame *f, verdict came)
{
    if (came == VERDICT_FAILS || f->value->type != PW_JSON_OBJECT) {
        return came == VERDICT_FAILS ? VERDICT_FAILS : VERDICT_FITS;
    }
    while (f->member != NULL && m->steps > 0) {
        const pw_json *member = f->member;
        f->member = member->next;
        m->steps -= 1 + f->keyword->count / 8;
        const pw_json *schema = pw_json_get_str(f->keyword, member->key);
        if (schema != NULL) {
            return push(m, schema, member, f->level + 1);
        }
    }
    return VERDICT_FITS;
}

static verdict apply_additional(machine *m, frame *f, verdict came)
{
    if (came == VERDICT_FAILS || f->value->type != PW_JSON_OBJECT) {
        return came == VERDICT_FAILS ? VERDICT_FAILS : VERDICT_FITS;
    }
    const pw_json *properties = pw_json_get(f->schema, "properties");
    if (pw_json_get(f->schema, "patternProperties") != NULL) {
        return VERDICT_FITS; /* patterns are not applied: any other name may be meant by one */
    }
    while (f->member != NULL && m->steps > 0) {
        const pw_json *member = f->member;
        f->member = member->next;
        m->steps -= 1 + (properties != NULL ? properties->count / 8 : 0);
        if (pw_json_get_str(properties, member->key) != NULL) {
            continue;
        }
        if (pw_json_is(f->keyword, PW_JSON_BOOL) && !f->keyword->truth) {
            return fault_at(m, f, member, properties);
        }
        return push(m, f->keyword, member, f->level + 1);
    }
    return VERDICT_FITS;
}

/* The schema of an array's item, by its place; NULL when nothing is said about it. */
static const pw_json *item_schema(frame *f, bool prefix)
{
    if (prefix || f->keyword->type == PW_JSON_ARRAY) {
        const pw_json *form = f->form;
        f->form = form != NULL ? form->next : NULL;
        return form;
    }
    const pw_json *first = pw_json_get(f->schema, "prefixItems");
    return pw_json_is(first, PW_JSON_ARRAY) && f->index < first->count ? NULL : f->keyword;
}

static verdict apply_items(machine *m, frame *f, bool prefix, verdict came)
{
    if (came == VERDICT_FAILS || f->value->type != PW_JSON_ARRAY) {
        return came == VERDICT_FAILS ? VERDICT_FAILS : VERDICT_FITS;
    }
    while (f->member != NULL && m->steps > 0) {
        const pw_json *member = f->member;
        const pw_json *schema = item_schema(f, prefix);
        f->member = member->next;
        f->index++;
        m->steps--;
        if (schema != NULL) {
            return push(m, schema, member, f->level + 1);
        }
    }
    return VERDICT_FITS;
}

static verdict apply_keyword(machine *m, frame *f, verdict came)
{
    const pw_schema_keyword keyword = pw_schema_keyword_of(f->keyword->key);
    if (!f->begun) {
        f->begun = true;
        f->form = f->keyword->child;
        f->member = f->value->child;
        f->index = 0;
        f->matched = 0;
        f->best = (pw_schema_fault){0};
    }
    switch (keyword) {
    case PW_SCHEMA_REF:
        return apply_ref(m, f, came);
    case PW_SCHEMA_NOT:
        return apply_not(m, f, came);
    case PW_SCHEMA_ALL_OF:
        return apply_all(m, f, came);
    case PW_SCHEMA_ANY_OF:
        return apply_any(m, f, false, came);
    case PW_SCHEMA_ONE_OF:
        return apply_any(m, f, true, came);
    case PW_SCHEMA_PROPERTIES:
        return apply_properties(m, f, came);
    case PW_SCHEMA_ADDITIONAL:
        return apply_additional(m, f, came);
    case PW_SCHEMA_ITEMS:
        return apply_items(m, f, false, came);
    case PW_SCHEMA_PREFIX_ITEMS:
        return apply_items(m, f, true, came);
    default:
        return apply_simple(m, f, keyword);
    }
}

/* The top frame goes on until it has a verdict or has pushed another one. */
static verdict advance(machine *m, verdict came)
{
    frame *f = m->top;
    if (f->schema->type == PW_JSON_BOOL && !f->schema->truth) {
        m->fault = (pw_schema_fault){.at = f->value, .rank = 3 * f->level + 2};
        return VERDICT_FAILS;
    }
    while (f->keyword != NULL && f->schema->type == PW_JSON_OBJECT) {
        m->steps--;
        const verdict v = apply_keyword(m, f, came);
        if (m->steps <= 0 && m->failed == PW_OK) {
            return give_up(m, PW_TOO_LARGE, "applying the schema takes too many steps");
        }
        if (v != VERDICT_FITS || m->failed != PW_OK) {
            return v;
        }
        came = VERDICT_NONE;
        f->keyword = f->keyword->next;
        f->begun = false;
    }
    return VERDICT_FITS;
}

static verdict run(machine *m, const pw_json *value)
{
    verdict v = push(m, m->root, value, 0);
    while (m->failed == PW_OK && m->top != NULL) {
        v = advance(m, v);
        if (v != VERDICT_NONE && m->failed == PW_OK) {
            m->top = m->top->below;
            m->frames--;
        }
    }
    return v;
}

pw_status pw_schema_apply(const pw_json *schema, const pw_json *value, pw_arena *scratch,
                          const pw_json **ret_at, pw_error *error)
{
    if (schema == NULL || value == NULL) {
        return PW_FAIL(error, PW_INVALID, "there is no %s", schema == NULL ? "schema" : "value");
    }
    const pw_arena_mark mark = pw_arena_mark_get(scratch);
    machine m = {
        .root = schema,
        .scratch = scratch,
        .steps = STEPS_BASE + STEPS_PER_BYTE * (int64_t)value->raw.len,
        .error = error,
    };
    const verdict v = run(&m, value);
    pw_arena_rewind(scratch, mark);
    if (m.failed != PW_OK) {
        return m.failed;
    }
    if (v == VERDICT_FITS) {
        return PW_OK;
    }
    if (ret_at != NULL) {
        *ret_at = m.fault.at;
    }
    return pw_schema_report(value, &m.fault, error);
}
