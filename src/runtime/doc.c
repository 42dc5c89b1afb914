/* Documents: JSON text with its tree, so that a caller may pick members out of it. It owns its
 * bytes and nothing else. */
#include "runtime/runtime.h"

#include "base/heap.h"

struct pawl_doc {
    pw_arena arena; /* holds the text and the tree */
    pw_str text;
    const pw_json *tree;
};

int32_t pw_doc_new(pw_str json, pawl_doc **ret, pawl_error *error)
{
    pawl_doc *doc = pw_heap.resize(pw_heap.ctx, NULL, 0, sizeof(*doc));
    if (!doc) {
        return PW_FAIL((pw_error *)error, PW_NOMEM, "no memory for the answer");
    }
    *doc = (pawl_doc){0};
    pw_arena_init(&doc->arena, &pw_heap, json.len + 1024, 0);
    pw_status status = pw_arena_dup(&doc->arena, json, &doc->text);
    if (status == PW_OK) {
        status = pw_json_parse(&doc->arena, doc->text, 0, &doc->tree, NULL);
    }
    if (status != PW_OK) {
        pawl_doc_free(doc);
        status = status == PW_NOMEM ? PW_NOMEM : PW_INTERNAL;
        return PW_FAIL((pw_error *)error, status, "the answer could not be made into a document");
    }
    *ret = doc;
    return PAWL_OK;
}

int32_t pawl_doc_parse(pawl_str json, pawl_doc **ret, pawl_error *error)
{
    int32_t code = pw_doc_new((pw_str){json.ptr, json.len}, ret, error);
    return code == PAWL_INTERNAL ? PW_FAIL((pw_error *)error, PW_INVALID, "the text is not JSON")
                                 : code;
}

pawl_str pawl_doc_text(const pawl_doc *doc)
{
    return doc ? (pawl_str){doc->text.ptr, doc->text.len} : (pawl_str){"", 0};
}

/* One step down: a member by name, or an element by its number. */
static const pw_json *step_down(const pw_json *value, pw_str name)
{
    if (pw_json_is(value, PW_JSON_OBJECT)) {
        return pw_json_get_str(value, name);
    }
    uint64_t index;
    bool numbered = pw_json_is(value, PW_JSON_ARRAY) && pw_str_u64(name, &index);
    return numbered && index < value->count ? pw_json_at(value, (size_t)index) : NULL;
}

int32_t pawl_doc_get(const pawl_doc *doc, const char *path, pawl_str *ret)
{
    if (!doc || !path || !ret) {
        return PAWL_INVALID;
    }
    const pw_json *value = doc->tree;
    pw_str rest = pw_str_from(path);
    while (value && rest.len > 0) {
        size_t dot = pw_str_find(rest, PW_STR("."));
        size_t end = dot == SIZE_MAX ? rest.len : dot;
        value = step_down(value, pw_str_slice(rest, 0, end));
        rest = pw_str_slice(rest, end < rest.len ? end + 1 : end, rest.len);
    }
    if (!value) {
        return PAWL_NOT_FOUND;
    }
    pw_str found = pw_json_is(value, PW_JSON_STRING) ? value->text : value->raw;
    *ret = (pawl_str){found.ptr, found.len};
    return PAWL_OK;
}

void pawl_doc_free(pawl_doc *doc)
{
    if (doc) {
        pw_arena_free(&doc->arena);
        pw_heap.resize(pw_heap.ctx, doc, sizeof(*doc), 0);
    }
}
