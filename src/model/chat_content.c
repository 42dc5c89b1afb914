/*
 * What a person said, as Chat Completions has it: text, image_url and file parts of the neutral
 * text, image and document (core/content.c).
 */
#include "model/chat_inner.h"

static pw_status put_text_part(pw_rendering *r, pw_json_writer *w, pw_str text)
{
    if (pw_is_blank(text)) {
        return PW_OK;
    }
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("text"));
    PW_TRY(pw_put_text(r, w, "text", text));
    pw_json_object_end(w);
    return w->out->failed;
}

/* A source as a URL: itself, or its bytes as a data URL. */
static pw_status url_of(pw_rendering *r, const pw_json *source, pw_str *ret)
{
    *ret = pw_json_text(pw_json_get(source, "url"));
    if (ret->len > 0) {
        return PW_OK;
    }
    pw_buffer url;
    pw_buffer_init_arena(&url, r->arena, SIZE_MAX / 4);
    (void)pw_buffer_add(&url, PW_STR("data:"));
    (void)pw_buffer_add(&url, pw_json_text(pw_json_get(source, "media_type")));
    (void)pw_buffer_add(&url, PW_STR(";base64,"));
    (void)pw_buffer_add(&url, pw_json_text(pw_json_get(source, "data")));
    *ret = pw_buffer_str(&url);
    return url.failed;
}

static pw_status put_image(pw_rendering *r, pw_json_writer *w, const pw_json *source)
{
    pw_str url = PW_STR_NONE;
    PW_TRY(url_of(r, source, &url));
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("image_url"));
    pw_json_key(w, "image_url");
    pw_json_object(w);
    PW_TRY(pw_put_text(r, w, "url", url));
    pw_json_object_end(w);
    pw_json_object_end(w);
    return w->out->failed;
}

/* Title, context and text of a document, as far as they are there, as one text. */
static pw_status put_document_text(pw_rendering *r, pw_json_writer *w, const pw_json *document,
                                   pw_str text)
{
    const pw_str pieces[] = {pw_json_text(pw_json_get(document, "title")),
                             pw_json_text(pw_json_get(document, "context")), text};
    pw_buffer out;
    pw_buffer_init_arena(&out, r->arena, SIZE_MAX / 4);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (!pw_is_blank(pieces[i])) {
            PW_TRY(pw_buffer_add(&out, out.len > 0 ? PW_STR("\n\n") : PW_STR("")));
            PW_TRY(pw_buffer_add(&out, pieces[i]));
        }
    }
    return put_text_part(r, w, pw_buffer_str(&out));
}

static pw_status put_file(pw_rendering *r, pw_json_writer *w, const pw_json *document, pw_str url)
{
    const pw_str title = pw_json_text(pw_json_get(document, "title"));
    PW_TRY(put_text_part(r, w, pw_json_text(pw_json_get(document, "context"))));
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("file"));
    pw_json_key(w, "file");
    pw_json_object(w);
    PW_TRY(pw_put_text(r, w, "filename", pw_is_blank(title) ? PW_STR("document.pdf") : title));
    PW_TRY(pw_put_text(r, w, "file_data", url));
    pw_json_object_end(w);
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_document_url(pw_rendering *r, pw_json_writer *w, const pw_json *document,
                                  pw_str url)
{
    PW_TRY(put_text_part(r, w, pw_json_text(pw_json_get(document, "context"))));
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("document_url"));
    PW_TRY(pw_put_text(r, w, "document_url", url));
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_document(pw_rendering *r, pw_json_writer *w, pw_chat_documents how,
                              const pw_json *document)
{
    const pw_json *source = pw_json_get(document, "source");
    const pw_str type = pw_json_text(pw_json_get(source, "type"));
    if (pw_str_is(type, "text")) {
        return put_document_text(r, w, document, pw_json_text(pw_json_get(source, "data")));
    }
    pw_str url = PW_STR_NONE;
    PW_TRY(url_of(r, source, &url));
    switch (how) {
    case PW_CHAT_FILE:
        return pw_str_is(type, "url") ? put_document_text(r, w, document, url)
                                      : put_file(r, w, document, url);
    case PW_CHAT_FILE_OR_URL:
        return put_file(r, w, document, url);
    case PW_CHAT_DOCUMENT_URL:
        return put_document_url(r, w, document, url);
    }
    return PW_OK;
}

pw_status pw_chat_put_user_part(pw_rendering *r, pw_json_writer *w, pw_chat_documents how,
                                const pw_part *part)
{
    if (part->kind == PW_PART_TEXT) {
        return put_text_part(r, w, part->text);
    }
    const pw_json *json = NULL;
    const pw_status status = pw_json_parse(r->arena, part->raw, PW_JSON_MEND_UTF8, &json, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? status : PW_OK;
    }
    const pw_json *source = pw_json_get(json, "source");
    const pw_str type = pw_json_text(pw_json_get(json, "type"));
    if (pw_str_is(type, "document")) {
        return put_document(r, w, how, json);
    }
    if (!pw_str_is(type, "image")) {
        return PW_OK;
    }
    return pw_str_is(pw_json_text(pw_json_get(source, "type")), "text")
               ? put_text_part(r, w, pw_json_text(pw_json_get(source, "data")))
               : put_image(r, w, source);
}
