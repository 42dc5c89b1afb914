/*
 * Renders a request to OpenAI Responses: POST /v1/responses, its resumption and its cancellation.
 *
 * The body is prefix + conversation + suffix. The prefix (model, instructions, tools, options) is a
 * function of the pinned definition alone; `input` is its last member and grows at its end only
 * (C10). Nothing is left at the provider (store: false): all items go back each time, without the
 * server's ids but where an item cannot be without its own. A request in the background must be
 * stored to be resumed; it is never referred to by another.
 *
 * A reasoning item goes back with the item behind it or not at all; to another provider or model
 * family neither of them goes as it was: the message or call is written anew from the neutral
 * fields.
 *
 * Ids: a call goes out as a fixed function of its assistant message's number and the engine's id
 * (pw_tool_id_of), at most 64 characters, equal for call and output and unique (D10).
 */
#include "model/responses_inner.h"

#include "base/format.h"
#include "base/utf8.h"

/* --- A user's content --- */

static pw_status put_data_url(pw_rendering *r, pw_json_writer *w, const char *key,
                              const pw_json *source)
{
    pw_buffer url;
    pw_buffer_init_arena(&url, r->arena, SIZE_MAX / 4);
    PW_TRY(pw_buffer_format(&url, "data:%.*s;base64,",
                            PW_STR_ARG(pw_json_text(pw_json_get(source, "media_type")))));
    PW_TRY(pw_buffer_add(&url, pw_json_text(pw_json_get(source, "data"))));
    return pw_put_text(r, w, key, pw_buffer_str(&url));
}

static pw_status put_input_text(pw_rendering *r, pw_json_writer *w, pw_str text)
{
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("input_text"));
    PW_TRY(pw_put_text(r, w, "text", text));
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_image(pw_rendering *r, pw_json_writer *w, const pw_json *source)
{
    const pw_json *url = pw_json_get(source, "url");
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("input_image"));
    pw_json_put_str(w, "detail", PW_STR("auto"));
    PW_TRY(url ? pw_put_text(r, w, "image_url", pw_json_text(url))
               : put_data_url(r, w, "image_url", source));
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_file(pw_rendering *r, pw_json_writer *w, const pw_json *document,
                          const pw_json *source)
{
    const pw_json *url = pw_json_get(source, "url");
    const pw_str title = pw_json_text(pw_json_get(document, "title"));
    const bool pdf = pw_str_is(pw_json_text(pw_json_get(source, "media_type")), "application/pdf");
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("input_file"));
    if (url) {
        PW_TRY(pw_put_text(r, w, "file_url", pw_json_text(url)));
    } else { /* data needs a name */
        PW_TRY(pw_put_text(r, w, "filename",
                           title.len > 0 ? title : pw_str_from(pdf ? "document.pdf" : "document")));
        PW_TRY(put_data_url(r, w, "file_data", source));
    }
    pw_json_object_end(w);
    return w->out->failed;
}

/* A document's text, under its title. */
static pw_status put_document_text(pw_rendering *r, pw_json_writer *w, const pw_json *document,
                                   pw_str data)
{
    const pw_str title = pw_json_text(pw_json_get(document, "title"));
    pw_buffer text;
    pw_buffer_init_arena(&text, r->arena, SIZE_MAX / 4);
    if (!pw_is_blank(title)) {
        PW_TRY(pw_buffer_add(&text, title));
        PW_TRY(pw_buffer_add(&text, PW_STR("\n\n")));
    }
    PW_TRY(pw_buffer_add(&text, data));
    return put_input_text(r, w, pw_buffer_str(&text));
}

static pw_status put_attachment(pw_rendering *r, pw_json_writer *w, pw_str raw)
{
    const pw_json *part = NULL;
    const pw_status status = pw_json_parse(r->arena, raw, PW_JSON_MEND_UTF8, &part, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? status : PW_OK;
    }
    const pw_str type = pw_json_text(pw_json_get(part, "type"));
    const pw_json *source = pw_json_get(part, "source");
    const pw_str kind = pw_json_text(pw_json_get(source, "type"));
    const pw_str context = pw_json_text(pw_json_get(part, "context"));
    if (pw_str_is(type, "text")) {
        const pw_str text = pw_json_text(pw_json_get(part, "text"));
        return pw_is_blank(text) ? PW_OK : put_input_text(r, w, text);
    }
    if (pw_str_is(type, "image") && !pw_str_is(kind, "text")) {
        return put_image(r, w, source);
    }
    if (!pw_str_is(type, "document")) {
        return PW_OK;
    }
    if (!pw_is_blank(context)) {
        PW_TRY(put_input_text(r, w, context));
    }
    return pw_str_is(kind, "text")
               ? put_document_text(r, w, part, pw_json_text(pw_json_get(source, "data")))
               : put_file(r, w, part, source);
}

static pw_status put_user_part(pw_rendering *r, pw_json_writer *w, const pw_part *part)
{
    if (part->kind == PW_PART_TEXT) {
        return pw_is_blank(part->text) ? PW_OK : put_input_text(r, w, part->text);
    }
    return part->kind == PW_PART_OTHER ? put_attachment(r, w, part->raw) : PW_OK;
}

pw_status pw_responses_count_contents(pw_rendering *r, const pw_part *part, size_t *ret)
{
    pw_buffer contents;
    pw_json_writer w;
    const pw_json *list = NULL;
    pw_buffer_init_arena(&contents, r->arena, SIZE_MAX / 4);
    pw_json_begin(&w, &contents);
    pw_json_array(&w);
    PW_TRY(put_user_part(r, &w, part));
    pw_json_array_end(&w);
    PW_TRY(contents.failed);
    PW_TRY(pw_json_parse(r->arena, pw_buffer_str(&contents), 0, &list, NULL));
    *ret = list->count;
    return PW_OK;
}

static pw_status render_user(pw_rendering *r, size_t index)
{
    const pw_message *message = r->request->messages[index];
    pw_json_writer w;
    pw_rendering_element(r, &w);
    pw_json_object(&w);
    pw_json_put_str(&w, "type", PW_STR("message"));
    pw_json_put_str(&w, "role", PW_STR("user"));
    pw_json_key(&w, "content");
    pw_json_array(&w);
    const size_t empty = r->render->bytes.len;
    for (size_t k = 0; k < message->part_count; k++) {
        PW_TRY(put_user_part(r, &w, &message->parts[k]));
    }
    if (r->render->bytes.len == empty) {
        PW_TRY(put_input_text(r, &w, PW_STR("(empty message)")));
    }
    pw_json_array_end(&w);
    pw_json_object_end(&w);
    return w.out->failed;
}

/* --- What the model said --- */

/* Items that are whole with the id they were given: encrypted reasoning is bound to its own, and
 * hosted tools' items are refused without one. Any other id would be looked up, and nothing is
 * stored to be found. */
static bool keeps_id(const pw_json *item)
{
    static const char *const types[] = {
        "code_interpreter_call", "file_search_call", "image_generation_call",
        "mcp_approval_request",  "mcp_call",         "mcp_list_tools"};
    const pw_str type = pw_json_text(pw_json_get(item, "type"));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (pw_str_is(type, types[i])) {
            return true;
        }
    }
    return pw_str_is(type, "reasoning") &&
           pw_json_text(pw_json_get(item, "encrypted_content")).len > 0;
}

/* Calls of tools that we never offer and nobody answers: sent back they would be refused. */
static bool waits_for_ever(const pw_json *item)
{
    static const char *const types[] = {"computer_call", "local_shell_call", "apply_patch_call"};
    const pw_str type = pw_json_text(pw_json_get(item, "type"));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (pw_str_is(type, types[i])) {
            return true;
        }
    }
    return pw_str_is(type, "tool_search_call") &&
           pw_str_is(pw_json_text(pw_json_get(item, "execution")), "client");
}

/* A kept item as it was, with these members instead, and without an id that nobody may look up. */
static pw_status put_item(pw_rendering *r, const pw_json *item, const pw_member *members,
                          size_t count)
{
    pw_member all[4] = {{.name = "id", .json = PW_STR_INIT("")}};
    PW_ASSERT(count + 1 <= sizeof all / sizeof all[0]);
    if (keeps_id(item)) {
        all[0].json = PW_STR_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        all[i + 1] = members[i];
    }
    pw_json_writer w;
    pw_rendering_element(r, &w);
    return pw_block_write(&r->render->bytes, item, all, count + 1);
}

/* NULL: nothing is kept, or not of this family, or it cannot be read. */
static pw_status kept_item(pw_rendering *r, const pw_part *part, bool same, const pw_json **ret)
{
    *ret = NULL;
    if (!same || part->raw.len == 0 || !pw_utf8_clean(part->raw)) {
        return PW_OK;
    }
    const pw_status status = pw_json_parse(r->arena, part->raw, PW_JSON_MEND_UTF8, ret, NULL);
    *ret = status == PW_OK && pw_json_is(*ret, PW_JSON_OBJECT) ? *ret : NULL;
    return status == PW_NOMEM ? status : PW_OK;
}

static void put_content(pw_rendering *r, pw_json_writer *w, const pw_part *part)
{
    const bool refusal = part->kind == PW_PART_REFUSAL;
    pw_json_array(w);
    pw_json_object(w);
    pw_json_put_str(w, "type", refusal ? PW_STR("refusal") : PW_STR("output_text"));
    if (pw_put_text(r, w, refusal ? "refusal" : "text", part->text) == PW_OK) {
        pw_json_object_end(w);
        pw_json_array_end(w);
    }
}

/* Would it be taken back? A blank text or refusal would not, nor what is no part at all; of a kind
 * of part that we do not know it is the provider who knows. */
static bool goes_back(const pw_json *content)
{
    const pw_str type = pw_json_text(pw_json_get(content, "type"));
    const bool refusal = pw_str_is(type, "refusal");
    if (refusal || pw_str_is(type, "output_text")) {
        return !pw_is_blank(pw_json_text(pw_json_get(content, refusal ? "refusal" : "text")));
    }
    return type.len > 0;
}

/* The kept contents, those left out that would be refused; the part's text where none is kept. */
static pw_status put_contents(pw_rendering *r, pw_json_writer *w, const pw_part *part,
                              const pw_json *kept)
{
    const bool list = pw_json_is(kept, PW_JSON_ARRAY);
    size_t sound = 0;
    for (const pw_json *one = list ? kept->child : NULL; one; one = one->next) {
        sound += goes_back(one);
    }
    if (sound == 0) {
        put_content(r, w, part);
        return w->out->failed;
    }
    if (sound == kept->count) {
        pw_json_raw(w, kept->raw);
        return w->out->failed;
    }
    pw_json_array(w);
    for (const pw_json *one = kept->child; one; one = one->next) {
        if (goes_back(one)) {
            pw_json_raw(w, one->raw);
        }
    }
    pw_json_array_end(w);
    return w->out->failed;
}

static pw_status put_said(pw_rendering *r, const pw_part *part, const pw_json *kept)
{
    pw_json_writer w;
    if (kept) {
        pw_buffer list;
        pw_buffer_init_arena(&list, r->arena, SIZE_MAX / 4);
        pw_json_begin(&w, &list);
        PW_TRY(put_contents(r, &w, part, pw_json_get(kept, "content")));
        const pw_member members[] = {{.name = "content", .json = pw_buffer_str(&list)},
                                     {.name = "role", .json = PW_STR_INIT("\"assistant\"")}};
        return put_item(r, kept, members, 2);
    }
    pw_rendering_element(r, &w);
    pw_json_object(&w);
    pw_json_put_str(&w, "type", PW_STR("message"));
    pw_json_put_str(&w, "role", PW_STR("assistant"));
    pw_json_key(&w, "content");
    put_content(r, &w, part);
    PW_TRY(w.out->failed);
    pw_json_object_end(&w);
    return w.out->failed;
}

/* The arguments as they go back: the bytes that were said, {} where they are not whole JSON (the
 * call's output says what was wrong). */
static pw_status call_arguments(pw_rendering *r, const pw_part *part, pw_str *ret)
{
    *ret = part->broken || part->arguments.len == 0 ? PW_STR("{}") : part->arguments;
    if (pw_utf8_clean(*ret)) {
        return PW_OK;
    }
    pw_buffer mended;
    pw_buffer_init_arena(&mended, r->arena, SIZE_MAX / 4);
    PW_TRY(pw_utf8_mend(&mended, *ret));
    *ret = pw_buffer_str(&mended);
    return PW_OK;
}

static bool is_custom(const pw_json *kept)
{
    return pw_str_is(pw_json_text(pw_json_get(kept, "type")), "custom_tool_call");
}

static pw_status put_call(pw_rendering *r, const pw_message *message, const pw_part *part,
                          const pw_json *kept)
{
    const pw_tool_id id = pw_tool_id_of(message->n, part->call);
    const pw_tool_id name = pw_tool_name_of(part->name);
    pw_str arguments = PW_STR_NONE;
    PW_TRY(call_arguments(r, part, &arguments));
    if (kept) {
        char quoted[PW_TOOL_ID_MAX + 3], quoted_name[PW_TOOL_ID_MAX + 3];
        pw_format(quoted, sizeof quoted, "\"%s\"", id.text);
        pw_format(quoted_name, sizeof quoted_name, "\"%s\"", name.text);
        pw_member members[] = {{.name = "call_id", .json = pw_str_from(quoted)},
                               {.name = "name", .json = pw_str_from(quoted_name)},
                               {.name = "arguments"}};
        if (!is_custom(kept)) {
            PW_TRY(pw_reading_string_json(r->arena, arguments, &members[2].json));
        }
        return put_item(r, kept, members, 3);
    }
    pw_json_writer w;
    pw_rendering_element(r, &w);
    pw_json_object(&w);
    pw_json_put_str(&w, "type", PW_STR("function_call"));
    pw_json_put_str(&w, "call_id", pw_str_from(id.text));
    pw_json_put_str(&w, "name", pw_str_from(name.text));
    pw_json_put_str(&w, "arguments", arguments);
    pw_json_object_end(&w);
    return w.out->failed;
}

/* Is there something of this part to send? Not of reasoning: that depends on what follows. */
static bool is_sent(const pw_part *part, const pw_json *kept)
{
    switch (part->kind) {
    case PW_PART_TEXT:
    case PW_PART_REFUSAL:
        return !pw_is_blank(part->text);
    case PW_PART_TOOL_CALL:
        return true;
    case PW_PART_SERVER_TOOL:
    case PW_PART_OTHER:
        return kept && !waits_for_ever(kept);
    case PW_PART_THINKING:
        return false;
    }
    return false;
}

static pw_status put_part(pw_rendering *r, const pw_message *message, const pw_part *part,
                          const pw_json *kept)
{
    switch (part->kind) {
    case PW_PART_TEXT:
    case PW_PART_REFUSAL:
        return put_said(r, part, kept);
    case PW_PART_TOOL_CALL:
        return put_call(r, message, part, kept);
    case PW_PART_THINKING:
    case PW_PART_SERVER_TOOL:
    case PW_PART_OTHER:
        return put_item(r, kept, NULL, 0);
    }
    return PW_OK;
}

/* Does the item behind the reasoning at `at` go back? */
static pw_status has_follower(pw_rendering *r, const pw_message *message, size_t at, bool *ret)
{
    *ret = false;
    while (at < message->part_count && message->parts[at].kind == PW_PART_THINKING) {
        at++;
    }
    if (at < message->part_count) {
        const pw_json *kept = NULL;
        PW_TRY(kept_item(r, &message->parts[at], true, &kept));
        *ret = is_sent(&message->parts[at], kept);
    }
    return PW_OK;
}

/* The part's kept item, and whether something of it goes back. */
static pw_status weigh_part(pw_rendering *r, const pw_message *message, size_t at,
                            const pw_json **ret_kept, bool *ret_sent)
{
    const pw_part *part = &message->parts[at];
    PW_TRY(kept_item(r, part, pw_rendering_same_family(r, message), ret_kept));
    *ret_sent = is_sent(part, *ret_kept);
    return part->kind == PW_PART_THINKING && *ret_kept ? has_follower(r, message, at, ret_sent)
                                                       : PW_OK;
}

static pw_status render_assistant(pw_rendering *r, size_t index)
{
    const pw_message *message = r->request->messages[index];
    for (size_t k = 0; k < message->part_count; k++) {
        const pw_json *kept = NULL;
        bool sent = false;
        PW_TRY(weigh_part(r, message, k, &kept, &sent));
        if (sent) {
            PW_TRY(put_part(r, message, &message->parts[k], kept));
        }
    }
    return r->render->bytes.failed;
}

pw_status pw_responses_part_of_item(pw_rendering *r, const pw_message *message, size_t item,
                                    size_t *ret)
{
    *ret = SIZE_MAX;
    for (size_t k = 0; k < message->part_count; k++) {
        const pw_json *kept = NULL;
        bool sent = false;
        PW_TRY(weigh_part(r, message, k, &kept, &sent));
        if (sent && item-- == 0) {
            *ret = k;
            return PW_OK;
        }
    }
    return PW_OK;
}

pw_status pw_responses_id_of_part(pw_rendering *r, const pw_message *message, size_t part,
                                  pw_str *ret)
{
    const pw_json *kept = NULL;
    PW_TRY(kept_item(r, &message->parts[part], pw_rendering_same_family(r, message), &kept));
    *ret = pw_json_text(pw_json_get(kept, "id"));
    return PW_OK;
}

/* --- Results --- */

/* The part that this result answers, and whether it went out as a custom tool's call. */
static pw_status answers_custom(pw_rendering *r, size_t from, pw_str call, bool *ret)
{
    size_t asked = from;
    while (asked > 0 && r->request->messages[asked - 1]->role == PW_ROLE_TOOL) {
        asked--;
    }
    const pw_message *message = asked > 0 ? r->request->messages[asked - 1] : NULL;
    *ret = false;
    for (size_t k = 0; message && k < message->part_count; k++) {
        const pw_part *part = &message->parts[k];
        const pw_json *kept = NULL;
        if (part->kind == PW_PART_TOOL_CALL && part->broken && pw_str_equal(part->call, call)) {
            PW_TRY(kept_item(r, part, pw_rendering_same_family(r, message), &kept));
            *ret = is_custom(kept);
        }
    }
    return PW_OK;
}

static pw_status render_results(pw_rendering *r, size_t from, size_t to)
{
    const int64_t n = pw_rendering_asked_by(r, from);
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->request->messages[i];
        const pw_tool_id id = pw_tool_id_of(n, message->call);
        pw_str output = PW_STR_NONE;
        bool custom = false;
        pw_json_writer w;
        PW_TRY(pw_rendering_result(r, message, &output));
        PW_TRY(answers_custom(r, from, message->call, &custom));
        pw_rendering_element(r, &w);
        pw_json_object(&w);
        pw_json_put_str(&w, "type",
                        custom ? PW_STR("custom_tool_call_output")
                               : PW_STR("function_call_output"));
        pw_json_put_str(&w, "call_id", pw_str_from(id.text));
        PW_TRY(pw_put_text(r, &w, "output", output));
        pw_json_object_end(&w);
        PW_TRY(w.out->failed);
    }
    return PW_OK;
}

static const pw_rendering_rules rules = {.provider = "openai",
                                         .user = render_user,
                                         .assistant = render_assistant,
                                         .results = render_results};

void pw_responses_rendering(pw_rendering *r, const pw_model_request *request, pw_render *render,
                            pw_arena *arena)
{
    pw_rendering_init(r, &rules, request, render, arena);
}

/* --- Prefix --- */

/* OpenAI refuses an object without `properties`. */
static pw_status put_parameters(pw_rendering *r, pw_json_writer *w, const pw_json *schema)
{
    static const pw_member members[] = {{.name = "properties", .json = PW_STR_INIT("{}")}};
    const pw_json *whole = schema;
    pw_buffer text;
    if (schema && (!pw_json_is(schema, PW_JSON_OBJECT) || pw_json_get(schema, "properties"))) {
        return pw_put_schema(r, w, "parameters", schema);
    }
    pw_buffer_init_arena(&text, r->arena, PW_RENDERING_MAX_PREFIX);
    PW_TRY(schema ? pw_block_write(&text, schema, members, 1)
                  : pw_buffer_add(&text, PW_STR("{\"type\":\"object\",\"properties\":{}}")));
    PW_TRY(pw_json_parse(r->arena, pw_buffer_str(&text), PW_JSON_MEND_UTF8, &whole, NULL));
    return pw_put_schema(r, w, "parameters", whole);
}

static pw_status put_tools(pw_rendering *r, pw_json_writer *w, const pw_definition *definition)
{
    const pw_json *strict = pw_json_get(r->request->model->options, "strict_tools");
    if (definition->tool_count == 0) {
        return PW_OK;
    }
    pw_json_key(w, "tools");
    pw_json_array(w);
    for (size_t i = 0; i < definition->tool_count; i++) {
        const pw_tool_declaration *tool = &definition->tools[i];
        pw_json_object(w);
        pw_json_put_str(w, "type", PW_STR("function"));
        PW_TRY(pw_put_text(r, w, "name", tool->name));
        if (!pw_is_blank(tool->description)) {
            PW_TRY(pw_put_text(r, w, "description", tool->description));
        }
        PW_TRY(put_parameters(r, w, tool->input));
        pw_json_put_bool(w, "strict",
                         pw_json_true(strict)); /* the protocol's own default is true */
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
    return w->out->failed;
}

/* Models that do not reason refuse to be asked for what they would reason. */
static bool reasons(pw_str family)
{
    return !pw_str_begins(family, PW_STR("gpt-3")) && !pw_str_begins(family, PW_STR("gpt-4")) &&
           !pw_str_begins(family, PW_STR("chatgpt-"));
}

static pw_status put_options(pw_json_writer *w, const pw_json *model, pw_str family)
{
    static const struct {
        const char *option, *member;
    } copied[] = {{"max_tokens", "max_output_tokens"},
                  {"temperature", "temperature"},
                  {"reasoning", "reasoning"},
                  {"text", "text"},
                  {"service_tier", "service_tier"}};
    const bool background = pw_json_true(pw_json_get(model, "background"));
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        const pw_json *option = pw_json_get(model, copied[i].option);
        if (option) {
            pw_json_put_raw(w, copied[i].member, option->raw);
        }
    }
    if (background) {
        pw_json_put_bool(w, "background", true);
    }
    pw_json_put_bool(w, "store", background);
    if (reasons(family)) {
        pw_json_put_raw(w, "include", PW_STR("[\"reasoning.encrypted_content\"]"));
    }
    pw_json_put_bool(w, "stream", true);
    pw_json_put_raw(w, "stream_options", PW_STR("{\"include_obfuscation\":false}"));
    return w->out->failed;
}

static pw_status render_prefix(pw_rendering *r, pw_str *ret)
{
    const pw_definition *definition = r->request->definition;
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, r->arena, PW_RENDERING_MAX_PREFIX);
    pw_json_begin(&w, &out);
    pw_json_object(&w);
    PW_TRY(pw_put_text(r, &w, "model", r->request->model->name));
    if (!pw_is_blank(definition->instructions)) {
        PW_TRY(pw_put_text(r, &w, "instructions", definition->instructions));
    }
    PW_TRY(put_tools(r, &w, definition));
    PW_TRY(put_options(&w, r->request->model->options, r->family));
    pw_json_key(&w, "input");
    PW_TRY(pw_buffer_byte(&out, '['));
    *ret = pw_buffer_str(&out);
    return out.failed;
}

/* --- Where it goes --- */

static pw_status put_headers(pw_arena *arena, pw_str key, const pw_json *model,
                             pw_http_request *ret)
{
    const pw_str organization = pw_json_text(pw_json_get(model, "organization"));
    const pw_str project = pw_json_text(pw_json_get(model, "project"));
    pw_header *headers = PW_NEW_ARRAY(arena, pw_header, 6);
    if (!headers) {
        return PW_NOMEM;
    }
    size_t count = 0;
    headers[count++] = (pw_header){PW_STR("content-type"), PW_STR("application/json")};
    headers[count++] = (pw_header){PW_STR("accept"), PW_STR("text/event-stream")};
    headers[count++] = (pw_header){PW_STR("accept-encoding"), PW_STR("identity")};
    if (key.len > 0) {
        pw_buffer value;
        pw_buffer_init_arena(&value, arena, 64 << 10);
        PW_TRY(pw_buffer_add(&value, PW_STR("Bearer ")));
        PW_TRY(pw_buffer_add(&value, key));
        headers[count++] = (pw_header){PW_STR("authorization"), pw_buffer_str(&value)};
    }
    if (organization.len > 0) {
        headers[count++] = (pw_header){PW_STR("openai-organization"), organization};
    }
    if (project.len > 0) {
        headers[count++] = (pw_header){PW_STR("openai-project"), project};
    }
    ret->headers = headers;
    ret->header_count = count;
    return PW_OK;
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* base/v1/responses, or what lies under one of them. An id is text from outside: whatever is not
 * plain in it is escaped, and "." and ".." are no names. */
static pw_status put_url(pw_arena *arena, pw_str base, pw_str id, const char *rest, pw_str *ret)
{
    pw_buffer path;
    pw_buffer_init_arena(&path, arena, 64 << 10);
    while (base.len > 0 && base.ptr[base.len - 1] == '/') {
        base.len--;
    }
    const bool versioned = pw_str_ends(base, PW_STR("/v1"));
    PW_TRY(pw_buffer_add(&path, versioned ? PW_STR("/responses") : PW_STR("/v1/responses")));
    if (id.len > 0) {
        PW_TRY(pw_buffer_byte(&path, '/'));
    }
    for (size_t i = 0; i < id.len; i++) {
        const bool dots = pw_str_is(id, ".") || pw_str_is(id, "..");
        PW_TRY(is_unreserved(id.ptr[i]) && !dots
                   ? pw_buffer_byte(&path, id.ptr[i])
                   : pw_buffer_format(&path, "%%%02x", (unsigned)(uint8_t)id.ptr[i]));
    }
    PW_TRY(pw_buffer_add(&path, pw_str_from(rest)));
    return pw_rendering_url(arena, base, path.ptr, ret);
}

static pw_status check_key(const pw_endpoint *endpoint, pw_error *error)
{
    return pw_is_header_text(endpoint->key)
               ? PW_OK
               : PW_FAIL(error, PW_INVALID,
                         "the API key holds characters that no header can carry");
}

static pw_status render_all(pw_rendering *r, pw_http_request *http)
{
    PW_TRY(render_prefix(r, &http->body[0]));
    http->body[1] = pw_buffer_str(&r->render->bytes);
    http->body[2] = PW_STR("]}");
    return PW_OK;
}

pw_status pw_responses_request(const pw_endpoint *endpoint, const pw_model_request *request,
                               pw_render *render, pw_arena *arena, pw_http_request *ret,
                               pw_error *error)
{
    const bool resumes = request->resume.len > 0;
    const pw_json *options = request->model->options;
    pw_http_request http = {.method = resumes ? PW_STR("GET") : PW_STR("POST")};
    pw_rendering r;
    pw_responses_rendering(&r, request, render, arena);
    PW_TRY(check_key(endpoint, error));
    /* Rendered also when it is not sent: the next request's `same` counts from this one. */
    pw_status status = pw_rendering_conversation(&r);
    if (status == PW_OK && render->bytes.len == 0 && !resumes) {
        return PW_FAIL(error, PW_INVALID, "there is no message to send");
    }
    status = status == PW_OK && !resumes ? render_all(&r, &http) : status;
    status = status == PW_OK ? put_headers(arena, endpoint->key, options, &http) : status;
    status = status == PW_OK ? put_url(arena, endpoint->base_url, request->resume,
                                       resumes ? "?stream=true" : "", &http.url)
                             : status;
    if (status != PW_OK) {
        return PW_FAIL(error, status, "the request could not be rendered");
    }
    *ret = http;
    return PW_OK;
}

pw_status pw_responses_cancel(const pw_endpoint *endpoint, pw_str response_id, pw_arena *arena,
                              pw_http_request *ret, pw_error *error)
{
    pw_http_request http = {.method = PW_STR("POST")};
    if (response_id.len == 0) {
        return PW_FAIL(error, PW_INVALID, "there is no response to cancel");
    }
    PW_TRY(check_key(endpoint, error));
    PW_TRY(put_headers(arena, endpoint->key, NULL, &http));
    PW_TRY(put_url(arena, endpoint->base_url, response_id, "/cancel", &http.url));
    *ret = http;
    return PW_OK;
}
