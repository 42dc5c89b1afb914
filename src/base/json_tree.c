/*
 * What is done with whole trees: writing one compactly (as it is, or in canonical form), comparing
 * two, sorting an object's members. All walk with frames of their own, bounded as the reader bounds
 * depth.
 */
#include "base/json_inner.h"

/* Stable merge sort, bottom up; `from` and `to` take turns. Returns the one that is sorted. */
static const pw_json **merge_sort(const pw_json **from, const pw_json **to, size_t count)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            const size_t middle = low + width < count ? low + width : count;
            const size_t high = low + 2 * width < count ? low + 2 * width : count;
            size_t left = low, right = middle;
            for (size_t at = low; at < high; at++) {
                const bool take_left =
                    left < middle &&
                    (right >= high || pw_str_compare(from[left]->key, from[right]->key) <= 0);
                to[at] = take_left ? from[left++] : from[right++];
            }
        }
        const pw_json **swap = from;
        from = to;
        to = swap;
    }
    return from;
}

const pw_json **pw_json_sorted(const pw_json *object, pw_arena *scratch)
{
    const size_t count = object->count;
    if (count > SIZE_MAX / (2 * sizeof(const pw_json *))) {
        return NULL;
    }
    const pw_json **table = pw_arena_bytes(scratch, 2 * count * sizeof *table);
    if (table == NULL) {
        return NULL;
    }
    size_t at = 0;
    for (const pw_json *member = object->child; member != NULL; member = member->next) {
        table[at++] = member;
    }
    return merge_sort(table, table + count, count);
}

/* --- Writing compactly. */

typedef struct write_frame {
    const pw_json *next;   /* members in their order … */
    const pw_json **table; /* … or, when not NULL, in this one */
    uint32_t left;
    bool object, first;
    pw_arena_mark mark; /* where the table's memory begins */
} write_frame;

typedef struct compact_writer {
    pw_buffer *out;
    pw_arena *scratch; /* NULL: keys stay in their order, NUL is mended */
    uint32_t depth;
    write_frame frames[PW_JSON_MAX_DEPTH];
} compact_writer;

/* The buffer may have grown in this very arena since the mark: then the tables stay until it is
 * freed. */
static void scratch_rewind(compact_writer *w, pw_arena_mark mark)
{
    if (w->out->arena != w->scratch) {
        pw_arena_rewind(w->scratch, mark);
    }
}

static bool keys_ascend(const pw_json *object)
{
    const pw_json *member = object->child;
    for (; member != NULL && member->next != NULL; member = member->next) {
        if (pw_str_compare(member->key, member->next->key) >= 0) {
            return false;
        }
    }
    return true;
}

static pw_status enter(compact_writer *w, const pw_json *json)
{
    PW_ASSERT(w->depth < PW_JSON_MAX_DEPTH); /* the reader makes no deeper trees */
    write_frame *f = &w->frames[w->depth];
    *f = (write_frame){.next = json->child, .object = json->type == PW_JSON_OBJECT, .first = true};
    if (w->scratch != NULL && f->object && !keys_ascend(json)) {
        f->mark = pw_arena_mark_get(w->scratch);
        f->table = pw_json_sorted(json, w->scratch);
        if (f->table == NULL) {
            return PW_NOMEM;
        }
        /* Of a repeated key only the last one stays; equal keys are neighbours now, in order. */
        for (uint32_t i = 0; i < json->count; i++) {
            const bool same =
                f->left > 0 && pw_str_equal(f->table[f->left - 1]->key, f->table[i]->key);
            f->table[same ? f->left - 1 : f->left++] = f->table[i];
        }
    }
    w->depth++;
    return pw_buffer_byte(w->out, f->object ? '{' : '[');
}

static const pw_json *next_member(write_frame *f)
{
    if (f->table != NULL) {
        if (f->left == 0) {
            return NULL;
        }
        f->left--;
        return *f->table++;
    }
    const pw_json *member = f->next;
    if (member != NULL) {
        f->next = member->next;
    }
    return member;
}

static void write_string(compact_writer *w, pw_str text)
{
    pw_json_quote(w->out, text, w->scratch == NULL);
}

static pw_status write_value(compact_writer *w, const pw_json *json)
{
    if (json->type == PW_JSON_ARRAY || json->type == PW_JSON_OBJECT) {
        return enter(w, json);
    }
    if (json->type == PW_JSON_STRING && json->text.ptr != json->raw.ptr + 1) {
        write_string(w, json->text);
    } else {
        pw_buffer_add(w->out, json->raw); /* a borrowed text had nothing to escape */
    }
    return w->out->failed;
}

static pw_status write_tree(compact_writer *w, const pw_json *json)
{
    PW_TRY(write_value(w, json));
    while (w->depth > 0) {
        write_frame *f = &w->frames[w->depth - 1];
        const pw_json *member = next_member(f);
        if (member == NULL) {
            if (f->table != NULL) {
                scratch_rewind(w, f->mark);
            }
            pw_buffer_byte(w->out, f->object ? '}' : ']');
            w->depth--;
            continue;
        }
        if (!f->first) {
            pw_buffer_byte(w->out, ',');
        }
        f->first = false;
        if (f->object) {
            write_string(w, member->key);
            pw_buffer_byte(w->out, ':');
        }
        PW_TRY(write_value(w, member));
    }
    return w->out->failed;
}

static pw_status write_compact(pw_buffer *out, const pw_json *json, pw_arena *scratch)
{
    PW_TRY(out->failed);
    const size_t before = out->len;
    compact_writer w;
    w.out = out;
    w.scratch = scratch;
    w.depth = 0;
    pw_arena_mark mark = {NULL, 0};
    if (scratch != NULL) {
        mark = pw_arena_mark_get(scratch);
    }
    const pw_status status = write_tree(&w, json);
    if (status != PW_OK) {
        if (scratch != NULL) {
            scratch_rewind(&w, mark);
        }
        if (out->ptr != NULL) {
            out->len = before; /* all or nothing */
            out->ptr[before] = '\0';
        }
        out->failed = status;
    }
    return status;
}

pw_status pw_json_canonical(pw_buffer *out, const pw_json *json, pw_arena *scratch)
{
    return write_compact(out, json, scratch);
}

pw_status pw_json_clean(pw_buffer *out, const pw_json *json)
{
    return write_compact(out, json, NULL);
}

/* --- Comparing. */

typedef struct pair_frame {
    const pw_json *a, *b;    /* the members compared now; `b` is not used when keys are looked up */
    const pw_json *b_object; /* not NULL: look keys up here */
    bool object;
} pair_frame;

static bool same_scalar(const pw_json *a, const pw_json *b, bool by_value)
{
    switch ((pw_json_type)a->type) {
    case PW_JSON_NULL:
    case PW_JSON_OBJECT:
        return true;
    case PW_JSON_BOOL:
        return a->truth == b->truth;
    case PW_JSON_STRING:
        return pw_str_equal(a->text, b->text);
    case PW_JSON_ARRAY:
        return a->count == b->count;
    case PW_JSON_NUMBER:
        break;
    }
    if (!by_value || pw_str_equal(a->raw, b->raw)) {
        return pw_str_equal(a->raw, b->raw);
    }
    const pw_decimal x = pw_decimal_of(a->raw), y = pw_decimal_of(b->raw);
    return pw_decimal_compare(&x, &y) == 0;
}

static bool keys_aligned(const pw_json *a, const pw_json *b)
{
    if (a->count != b->count) {
        return false;
    }
    const pw_json *y = b->child;
    for (const pw_json *x = a->child; x != NULL; x = x->next, y = y->next) {
        if (!pw_str_equal(x->key, y->key)) {
            return false;
        }
    }
    return true;
}

/* Looks at two values; containers are put on the frames for their members to be looked at. */
static bool pair_enter(pair_frame *frames, uint32_t *depth, const pw_json *a, const pw_json *b,
                       bool by_value)
{
    if (b == NULL || a->type != b->type || !same_scalar(a, b, by_value)) {
        return false;
    }
    if (a->type != PW_JSON_ARRAY && a->type != PW_JSON_OBJECT) {
        return true;
    }
    pair_frame f = {.a = a->child, .b = b->child, .object = a->type == PW_JSON_OBJECT};
    if (f.object && !keys_aligned(a, b)) {
        for (const pw_json *y = b->child; y != NULL; y = y->next) {
            if (pw_json_get_str(a, y->key) == NULL) {
                return false;
            }
        }
        f.b_object = b;
    }
    PW_ASSERT(*depth < PW_JSON_MAX_DEPTH);
    frames[(*depth)++] = f;
    return true;
}

/* Its key comes again later in the object, so what it says does not count. */
static bool superseded(const pair_frame *f)
{
    if (f->object) {
        for (const pw_json *later = f->a->next; later != NULL; later = later->next) {
            if (pw_str_equal(later->key, f->a->key)) {
                return true;
            }
        }
    }
    return false;
}

static void pair_advance(pair_frame *f)
{
    f->a = f->a->next;
    if (f->b_object == NULL) {
        f->b = f->b->next;
    }
}

static bool equal(const pw_json *a, const pw_json *b, bool by_value)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    pair_frame frames[PW_JSON_MAX_DEPTH];
    uint32_t depth = 0;
    if (!pair_enter(frames, &depth, a, b, by_value)) {
        return false;
    }
    while (depth > 0) {
        pair_frame *f = &frames[depth - 1];
        if (f->a != NULL) {
            const pw_json *partner =
                f->b_object != NULL ? pw_json_get_str(f->b_object, f->a->key) : f->b;
            const uint32_t before = depth;
            if (pair_enter(frames, &depth, f->a, partner, by_value)) {
                if (depth > before) {
                    continue; /* its members first */
                }
            } else {
                /* A difference counts unless something around it is superseded. */
                while (depth > 0 && !superseded(&frames[depth - 1])) {
                    depth--;
                }
                if (depth == 0) {
                    return false;
                }
            }
        } else {
            depth--; /* the container was equal: its parent goes on */
        }
        if (depth > 0) {
            pair_advance(&frames[depth - 1]);
        }
    }
    return true;
}

bool pw_json_equal(const pw_json *a, const pw_json *b)
{
    return equal(a, b, false);
}

bool pw_json_equal_value(const pw_json *a, const pw_json *b)
{
    return equal(a, b, true);
}
