/*
 * What a client may say (A8, case M1), and the digest by which the same thing said twice is known
 * (A6).
 *
 * The gate of everything that comes in: a message holds text, images and documents, nothing that
 * only the engine or a model says. What passes is valid, mended where it was not, and written in
 * one form.
 */
#include "core/view_inner.h"

#include "base/utf8.h"

/* X("type", "members it may have besides type, each between commas", needs source) */
#define CONTENT_TYPES(X)                                                                           \
    X("text", ",text,", false)                                                                     \
    X("image", ",source,", true)                                                                   \
    X("document", ",source,title,context,", true)

typedef struct content_type {
    const char *name;
    const char *members;
    bool source;
} content_type;

static const content_type types[] = {
#define TYPE_ROW(name, members, source) {name, members, source},
    CONTENT_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

static const content_type *type_of(const pw_json *part)
{
    pw_str name = pw_json_text(pw_json_get(part, "type"));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (pw_str_is(name, types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

/* A name as it may stand in an error: short, whole characters. */
static pw_str shown(pw_str text)
{
    return pw_str_slice(text, 0, pw_utf8_cut(text, 40));
}

static bool listed(const char *members, pw_str key)
{
    for (const char *at = members; *at;) { /* `at` stands on a comma */
        at++;
        const char *end = at;
        while (*end && *end != ',') {
            end++;
        }
        if (end > at && pw_str_equal(key, (pw_str){at, (size_t)(end - at)})) {
            return true;
        }
        at = end;
    }
    return false;
}

static pw_status source_check(const pw_json *source, size_t index, pw_error *error)
{
    if (!pw_json_is(source, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "content[%zu].source: is missing or not an object",
                       index);
    }
    pw_str type = pw_json_text(pw_json_get(source, "type"));
    bool url = pw_str_is(type, "url");
    if (!url && !pw_str_is(type, "base64") && !pw_str_is(type, "text")) {
        return PW_FAIL(error, PW_INVALID,
                       "content[%zu].source.type: is not one of base64, text, url", index);
    }
    const char *needed = url ? "url" : "data";
    if (pw_json_text(pw_json_get(source, needed)).len == 0) {
        return PW_FAIL(error, PW_INVALID, "content[%zu].source.%s: is missing or not a string",
                       index, needed);
    }
    if (!url && pw_json_text(pw_json_get(source, "media_type")).len == 0) {
        return PW_FAIL(error, PW_INVALID,
                       "content[%zu].source.media_type: is missing or not a string", index);
    }
    for (const pw_json *m = source->child; m; m = m->next) {
        if (!listed(url ? ",type,url," : ",type,data,media_type,", m->key)) {
            return PW_FAIL(error, PW_INVALID, "content[%zu].source.%.*s: is not known", index,
                           PW_STR_ARG(shown(m->key)));
        }
    }
    return PW_OK;
}

static pw_status part_check(const pw_json *part, size_t index, pw_error *error)
{
    if (!pw_json_is(part, PW_JSON_OBJECT)) {
        return PW_FAIL(error, PW_INVALID, "content[%zu]: is not an object", index);
    }
    const content_type *type = type_of(part);
    if (!type) {
        pw_str said = shown(pw_json_text(pw_json_get(part, "type")));
        return PW_FAIL(error, PW_INVALID,
                       "content[%zu].type: \"%.*s\" is not something a client may say; text, image "
                       "and document are",
                       index, PW_STR_ARG(said));
    }
    for (const pw_json *m = part->child; m; m = m->next) {
        if (!pw_str_is(m->key, "type") && !listed(type->members, m->key)) {
            return PW_FAIL(error, PW_INVALID, "content[%zu].%.*s: is not known", index,
                           PW_STR_ARG(shown(m->key)));
        }
        if (!pw_str_is(m->key, "source") && !pw_json_is(m, PW_JSON_STRING)) {
            return PW_FAIL(error, PW_INVALID, "content[%zu].%.*s: is not a string", index,
                           PW_STR_ARG(shown(m->key)));
        }
    }
    if (type->source) {
        return source_check(pw_json_get(part, "source"), index, error);
    }
    if (!pw_json_get(part, "text")) {
        return PW_FAIL(error, PW_INVALID, "content[%zu].text: is missing", index);
    }
    if (pw_str_trim(pw_json_text(pw_json_get(part, "text"))).len == 0) {
        return PW_FAIL(error, PW_INVALID, "content[%zu].text: is blank", index);
    }
    return PW_OK;
}

static pw_status from_text(pw_str text, pw_buffer *out, pw_arena *arena, pw_error *error)
{
    if (pw_str_trim(text).len == 0) {
        return PW_FAIL(error, PW_INVALID, "text: is blank");
    }
    pw_buffer mended;
    pw_buffer_init_arena(&mended, arena, PW_VIEW_MAXIMUM);
    PW_TRY(pw_utf8_mend(&mended, text));
    pw_json_writer w;
    pw_json_begin(&w, out);
    pw_json_array(&w);
    pw_json_object(&w);
    pw_json_put_str(&w, "type", PW_STR("text"));
    pw_json_put_str(&w, "text", pw_buffer_str(&mended));
    pw_json_object_end(&w);
    pw_json_array_end(&w);
    return out->failed;
}

static pw_status from_parts(pw_str json, pw_buffer *out, pw_arena *arena, pw_error *error)
{
    const pw_json *parts;
    pw_error why = {0};
    pw_status status =
        pw_json_parse(arena, json, PW_JSON_UNIQUE_KEYS | PW_JSON_MEND_UTF8, &parts, &why);
    if (status == PW_NOMEM) {
        return status;
    }
    if (status != PW_OK) {
        return PW_FAIL(error, PW_INVALID, "content: %s", why.message);
    }
    if (!pw_json_is(parts, PW_JSON_ARRAY)) {
        return PW_FAIL(error, PW_INVALID, "content: is not an array of parts");
    }
    if (parts->count == 0) {
        return PW_FAIL(error, PW_INVALID, "content: is empty");
    }
    size_t index = 0;
    for (const pw_json *p = parts->child; p; p = p->next) {
        PW_TRY(part_check(p, index, error));
        index++;
    }
    return pw_json_clean(out, parts);
}

pw_status pw_content_normalize(pw_str text, pw_str content_json, pw_arena *arena, pw_str *ret,
                               pw_error *error)
{
    if (text.len > 0 && content_json.len > 0) {
        return PW_FAIL(error, PW_INVALID, "content: text and content exclude each other");
    }
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_VIEW_MAXIMUM);
    PW_TRY(content_json.len > 0 ? from_parts(content_json, &out, arena, error)
                                : from_text(text, &out, arena, error));
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

pw_status pw_content_digest(pw_str role, pw_str content, pw_arena *scratch, pw_hash_hex *ret)
{
    const pw_json *parts;
    PW_TRY(pw_json_parse(scratch, content, 0, &parts, NULL));
    pw_buffer text;
    pw_buffer_init_arena(&text, scratch, PW_VIEW_MAXIMUM);
    (void)pw_buffer_add(&text, PW_STR("{\"content\":"));
    (void)pw_json_canonical(&text, parts, scratch);
    (void)pw_buffer_add(&text, PW_STR(",\"role\":\""));
    pw_json_escape(&text, role);
    (void)pw_buffer_add(&text, PW_STR("\"}"));
    PW_TRY(text.failed);
    pw_hash hash = pw_sha256_of(pw_buffer_str(&text));
    *ret = pw_hash_to_hex(&hash);
    return PW_OK;
}
