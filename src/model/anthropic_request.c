/*
 * Renders a request to Anthropic: POST /v1/messages.
 *
 * The body is prefix + conversation + suffix. The prefix (model, options, system, tools) is a
 * function of the pinned definition alone; the conversation is a function of the messages alone and
 * each message is rendered once, so the bytes of step k are the beginning of step k + 1's (C10).
 * `messages` is the last member for that reason. The moving cache marker is the top-level
 * cache_control, which changes no byte of the conversation; the system text and the last tool carry
 * the other two markers (at most four are allowed).
 *
 * Header and version: `x-api-key` with 2023-06-01. The newer 2026-10-21 (with a bearer token)
 * refuses temperature even at its default, which is an option here, and gives this codec nothing it
 * uses; the older version still works and is the one that gateways know. OAuth tokens (sk-ant-oat…)
 * must be bearer tokens and are sent so.
 *
 * Ids: a call goes out as a fixed function of its assistant message's number and the engine's id,
 * equal for call and result and unique in the conversation whatever ids the provider gave (D10).
 *
 * What is left out, and why, is PROVIDERS.md 10: blank text, unsigned thinking, blocks bound to
 * another model family, server tool uses that nothing will answer any more, results of those. A
 * user's message is never left out: one without content says "(empty message)". A server tool use
 * that may still be answered keeps its message and all after it out of the cache of rendered
 * messages: its bytes are the same when the answer comes, and it goes when the person speaks first.
 */
#include "model/anthropic_inner.h"
#include "model/rendering.h"

#include "base/format.h"
#include "base/utf8.h"

#define VERSION "2023-06-01"
#define MAX_TOKENS_DEFAULT 8192

static pw_status put_text_block(pw_rendering *r, pw_json_writer *w, pw_str text)
{
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("text"));
    PW_TRY(pw_put_text(r, w, "text", text));
    pw_json_object_end(w);
    return w->out->failed;
}

/* --- Server tools: which uses and results stand together --- */

typedef struct id_list {
    pw_str *ids;
    size_t count;
} id_list;

/* What a server tool's block is: the id it answers, or its own id. */
static pw_status server_block(pw_rendering *r, pw_str raw, bool *ret_result, pw_str *ret_id)
{
    const pw_json *block = NULL;
    *ret_id = PW_STR_NONE;
    *ret_result = false;
    const pw_status status = pw_json_parse(r->arena, raw, PW_JSON_MEND_UTF8, &block, NULL);
    if (status != PW_OK) {
        return status == PW_NOMEM ? status : PW_OK;
    }
    *ret_result = pw_str_ends(pw_json_text(pw_json_get(block, "type")), PW_STR("_tool_result"));
    *ret_id = pw_json_text(pw_json_get(block, *ret_result ? "tool_use_id" : "id"));
    return PW_OK;
}

/* Ids of all uses, or of all that results answer, in the messages from … to - 1. */
static pw_status collect(pw_rendering *r, size_t from, size_t to, bool results, id_list *ret)
{
    size_t most = 0;
    for (size_t i = from; i < to; i++) {
        most += r->request->messages[i]->part_count;
    }
    ret->count = 0;
    ret->ids = PW_NEW_ARRAY(r->arena, pw_str, most);
    if (!ret->ids) {
        return PW_NOMEM;
    }
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->request->messages[i];
        if (message->role != PW_ROLE_ASSISTANT || !pw_rendering_same_family(r, message)) {
            continue;
        }
        for (size_t k = 0; k < message->part_count; k++) {
            bool result = false;
            pw_str id = PW_STR_NONE;
            if (message->parts[k].kind == PW_PART_SERVER_TOOL) {
                PW_TRY(server_block(r, message->parts[k].raw, &result, &id));
                if (result == results && id.len > 0) {
                    ret->ids[ret->count++] = id;
                }
            }
        }
    }
    return PW_OK;
}

static bool is_listed(const id_list *list, pw_str id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (pw_str_equal(list->ids[i], id)) {
            return true;
        }
    }
    return false;
}

typedef struct server_view {
    id_list uses, results;
    bool answer_may_come; /* nobody has spoken since */
    bool dropped, open;   /* found on the way */
} server_view;

static pw_status look_at_servers(pw_rendering *r, size_t index, server_view *ret)
{
    const pw_model_request *request = r->request;
    const pw_message *message = request->messages[index];
    *ret = (server_view){.dropped = false};
    size_t servers = 0;
    for (size_t k = 0; k < message->part_count; k++) {
        servers += message->parts[k].kind == PW_PART_SERVER_TOOL;
    }
    if (servers == 0) {
        return PW_OK;
    }
    size_t from = index, to = index;
    while (from > 0 && !pw_message_speaks(request->messages[from - 1])) {
        from--;
    }
    while (to < request->count && !pw_message_speaks(request->messages[to])) {
        to++;
    }
    ret->answer_may_come = to == request->count;
    PW_TRY(collect(r, from, index + 1, false, &ret->uses));
    return collect(r, index, to, true, &ret->results);
}

static pw_status put_server_block(pw_rendering *r, pw_json_writer *w, pw_str raw,
                                  const server_view *view)
{
    bool result = false;
    pw_str id = PW_STR_NONE;
    PW_TRY(server_block(r, raw, &result, &id));
    if (result ? is_listed(&view->uses, id)
               : is_listed(&view->results, id) || view->answer_may_come) {
        pw_put_kept(w, raw);
    }
    return w->out->failed;
}

/* Is a use left out here, and does one wait for its answer? */
static pw_status weigh_servers(pw_rendering *r, const pw_message *message, server_view *view)
{
    for (size_t k = 0; k < message->part_count; k++) {
        bool result = false;
        pw_str id = PW_STR_NONE;
        if (message->parts[k].kind == PW_PART_SERVER_TOOL) {
            PW_TRY(server_block(r, message->parts[k].raw, &result, &id));
            if (!result && !is_listed(&view->results, id)) {
                view->open |= view->answer_may_come;
                view->dropped |= !view->answer_may_come;
            }
        }
    }
    return PW_OK;
}

/* --- Messages --- */

static pw_status put_call(pw_rendering *r, pw_json_writer *w, const pw_message *message,
                          const pw_part *part, bool keep_raw)
{
    const pw_tool_id id = pw_tool_id_of(message->n, part->call);
    const pw_tool_id name = pw_tool_name_of(part->name);
    const pw_json *arguments = NULL, *block = NULL;
    pw_buffer input;
    pw_buffer_init_arena(&input, r->arena, SIZE_MAX / 4);
    if (!part->broken) {
        const pw_status status =
            pw_json_parse(r->arena, part->arguments, PW_JSON_MEND_UTF8, &arguments, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
    }
    if (pw_json_is(arguments, PW_JSON_OBJECT)) {
        PW_TRY(pw_json_clean(&input, arguments)); /* keys in order, numbers as their text */
    } else {
        PW_TRY(pw_buffer_add(&input, PW_STR("{}"))); /* its result says what was wrong */
    }
    if (keep_raw && part->raw.len > 0 && pw_utf8_clean(part->raw)) {
        PW_TRY(pw_json_parse(r->arena, part->raw, PW_JSON_MEND_UTF8, &block, NULL));
        char quoted[PW_TOOL_ID_MAX + 3], quoted_name[PW_TOOL_ID_MAX + 3];
        pw_format(quoted, sizeof quoted, "\"%s\"", id.text);
        pw_format(quoted_name, sizeof quoted_name, "\"%s\"", name.text);
        const pw_member members[] = {{.name = "id", .json = pw_str_from(quoted)},
                                     {.name = "name", .json = pw_str_from(quoted_name)},
                                     {.name = "input", .json = pw_buffer_str(&input)}};
        pw_buffer whole;
        pw_buffer_init_arena(&whole, r->arena, SIZE_MAX / 4);
        PW_TRY(pw_block_write(&whole, block, members, 3));
        pw_json_raw(w, pw_buffer_str(&whole));
        return w->out->failed;
    }
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("tool_use"));
    pw_json_put_str(w, "id", pw_str_from(id.text));
    pw_json_put_str(w, "name", pw_str_from(name.text));
    pw_json_put_raw(w, "input", pw_buffer_str(&input));
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_assistant_part(pw_rendering *r, pw_json_writer *w, const pw_message *message,
                                    const pw_part *part, const server_view *view)
{
    const bool same = pw_rendering_same_family(r, message);
    switch (part->kind) {
    case PW_PART_TEXT:
    case PW_PART_REFUSAL:
        if (pw_is_blank(part->text)) {
            return PW_OK;
        }
        if (same && part->raw.len > 0) {
            pw_put_kept(w, part->raw);
            return w->out->failed;
        }
        return put_text_block(r, w, part->text);
    case PW_PART_THINKING: /* without raw it is unsigned */
    case PW_PART_OTHER:
        if (same) {
            pw_put_kept(w, part->raw);
        }
        return w->out->failed;
    case PW_PART_SERVER_TOOL:
        return same ? put_server_block(r, w, part->raw, view) : PW_OK;
    case PW_PART_TOOL_CALL:
        return put_call(r, w, message, part, same && !view->dropped);
    }
    return PW_OK;
}

static void begin_message(pw_rendering *r, pw_json_writer *w, const char *role)
{
    pw_rendering_element(r, w);
    pw_json_object(w);
    pw_json_put_str(w, "role", pw_str_from(role));
    pw_json_key(w, "content");
    pw_json_array(w);
}

static pw_status end_message(pw_json_writer *w)
{
    pw_json_array_end(w);
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status render_assistant(pw_rendering *r, size_t index)
{
    pw_buffer *bytes = &r->render->bytes;
    const pw_message *message = r->request->messages[index];
    const size_t before = bytes->len;
    server_view view = {.dropped = false};
    if (pw_rendering_same_family(r, message)) {
        PW_TRY(look_at_servers(r, index, &view));
        PW_TRY(weigh_servers(r, message, &view));
    }
    pw_json_writer w;
    begin_message(r, &w, "assistant");
    const size_t empty = bytes->len;
    for (size_t k = 0; k < message->part_count; k++) {
        PW_TRY(put_assistant_part(r, &w, message, &message->parts[k], &view));
    }
    PW_TRY(bytes->failed);
    if (view.open && r->open_from > index) {
        r->open_from = index;
    }
    if (bytes->len == empty) { /* nothing left to say: the message goes */
        pw_rendering_take_back(r, before);
        return PW_OK;
    }
    return end_message(&w);
}

static pw_status put_user_part(pw_rendering *r, pw_json_writer *w, const pw_part *part)
{
    if (part->kind == PW_PART_TEXT && !pw_is_blank(part->text)) {
        return put_text_block(r, w, part->text);
    }
    if (part->kind == PW_PART_OTHER) {
        pw_put_kept(w, part->raw);
    }
    return w->out->failed;
}

static pw_status render_user(pw_rendering *r, size_t index)
{
    const pw_message *message = r->request->messages[index];
    pw_json_writer w;
    begin_message(r, &w, "user");
    const size_t empty = r->render->bytes.len;
    for (size_t k = 0; k < message->part_count; k++) {
        PW_TRY(put_user_part(r, &w, &message->parts[k]));
    }
    if (r->render->bytes.len == empty) {
        PW_TRY(put_text_block(r, &w, PW_STR("(empty message)")));
    }
    return end_message(&w);
}

static pw_status put_result(pw_rendering *r, pw_json_writer *w, int64_t n,
                            const pw_message *message)
{
    const pw_tool_id id = pw_tool_id_of(n, message->call);
    pw_str content = PW_STR_NONE;
    PW_TRY(pw_rendering_result(r, message, &content));
    pw_json_object(w);
    pw_json_put_str(w, "type", PW_STR("tool_result"));
    pw_json_put_str(w, "tool_use_id", pw_str_from(id.text));
    if (!pw_is_blank(content)) {
        PW_TRY(pw_put_text(r, w, "content", content));
    }
    if (message->is_error) {
        pw_json_put_bool(w, "is_error", true);
    }
    pw_json_object_end(w);
    return w->out->failed;
}

/* All results of one assistant message are one user message, in the order of its calls. */
static pw_status render_results(pw_rendering *r, size_t from, size_t to)
{
    const int64_t n = pw_rendering_asked_by(r, from);
    pw_json_writer w;
    begin_message(r, &w, "user");
    for (size_t i = from; i < to; i++) {
        PW_TRY(put_result(r, &w, n, r->request->messages[i]));
    }
    return end_message(&w);
}

/* --- Prefix, headers --- */

static void put_cache_marker(pw_json_writer *w)
{
    pw_json_put_raw(w, "cache_control", PW_STR("{\"type\":\"ephemeral\"}"));
}

static pw_status put_tools(pw_rendering *r, pw_json_writer *w, const pw_definition *definition)
{
    if (definition->tool_count == 0) {
        return PW_OK;
    }
    pw_json_key(w, "tools");
    pw_json_array(w);
    for (size_t i = 0; i < definition->tool_count; i++) {
        const pw_tool_declaration *tool = &definition->tools[i];
        pw_json_object(w);
        PW_TRY(pw_put_text(r, w, "name", tool->name));
        if (!pw_is_blank(tool->description)) {
            PW_TRY(pw_put_text(r, w, "description", tool->description));
        }
        PW_TRY(pw_put_schema(r, w, "input_schema", tool->input));
        if (i + 1 == definition->tool_count) {
            put_cache_marker(w);
        }
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
    return w->out->failed;
}

static pw_status put_options(pw_json_writer *w, const pw_json *model)
{
    const pw_json *thinking = pw_json_get(model, "thinking");
    const pw_json *temperature = pw_json_get(model, "temperature");
    if (pw_json_is(thinking, PW_JSON_STRING)) { /* "adaptive", "disabled" */
        pw_json_key(w, "thinking");
        pw_json_object(w);
        pw_json_put_str(w, "type", thinking->text);
        pw_json_object_end(w);
    } else if (thinking) {
        pw_json_put_raw(w, "thinking", thinking->raw);
    }
    if (temperature) {
        pw_json_put_raw(w, "temperature", temperature->raw);
    }
    put_cache_marker(w);
    pw_json_put_bool(w, "stream", true);
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
    pw_json_put_i64(
        &w, "max_tokens",
        pw_json_i64_or(pw_json_get(r->request->model->options, "max_tokens"), MAX_TOKENS_DEFAULT));
    if (!pw_is_blank(definition->instructions)) {
        pw_json_key(&w, "system");
        pw_json_array(&w);
        pw_json_object(&w);
        pw_json_put_str(&w, "type", PW_STR("text"));
        PW_TRY(pw_put_text(r, &w, "text", definition->instructions));
        put_cache_marker(&w);
        pw_json_object_end(&w);
        pw_json_array_end(&w);
    }
    PW_TRY(put_tools(r, &w, definition));
    PW_TRY(put_options(&w, r->request->model->options));
    pw_json_key(&w, "messages");
    PW_TRY(pw_buffer_byte(&out, '['));
    *ret = pw_buffer_str(&out);
    return out.failed;
}

static pw_status put_headers(pw_arena *arena, pw_str key, pw_http_request *ret)
{
    pw_header *headers = PW_NEW_ARRAY(arena, pw_header, 6);
    if (!headers) {
        return PW_NOMEM;
    }
    size_t count = 0;
    headers[count++] = (pw_header){PW_STR("content-type"), PW_STR("application/json")};
    headers[count++] = (pw_header){PW_STR("accept"), PW_STR("text/event-stream")};
    headers[count++] = (pw_header){PW_STR("accept-encoding"), PW_STR("identity")};
    headers[count++] = (pw_header){PW_STR("anthropic-version"), PW_STR(VERSION)};
    pw_buffer value;
    pw_buffer_init_arena(&value, arena, 64 << 10);
    if (pw_str_begins(key, PW_STR("sk-ant-oat"))) {
        PW_TRY(pw_buffer_add(&value, PW_STR("Bearer ")));
        PW_TRY(pw_buffer_add(&value, key));
        headers[count++] = (pw_header){PW_STR("authorization"), pw_buffer_str(&value)};
    } else if (key.len > 0) {
        PW_TRY(pw_buffer_add(&value, key));
        headers[count++] = (pw_header){PW_STR("x-api-key"), pw_buffer_str(&value)};
    }
    ret->headers = headers;
    ret->header_count = count;
    return PW_OK;
}

static const pw_rendering_rules rules = {.provider = "anthropic",
                                         .user = render_user,
                                         .assistant = render_assistant,
                                         .results = render_results};

/* The part alone, into a buffer of its own: what it is here depends on its message's neighbours. */
pw_status pw_anthropic_part_shows(const pw_model_request *request, size_t index, size_t part,
                                  pw_arena *arena, bool *ret)
{
    pw_rendering r;
    pw_rendering_init(&r, &rules, request, NULL, arena);
    const pw_message *message = request->messages[index];
    pw_buffer block;
    pw_json_writer w;
    pw_buffer_init_arena(&block, arena, SIZE_MAX / 4);
    pw_json_begin(&w, &block);
    if (message->role == PW_ROLE_ASSISTANT) {
        server_view view = {.dropped = false};
        if (pw_rendering_same_family(&r, message)) {
            PW_TRY(look_at_servers(&r, index, &view));
            PW_TRY(weigh_servers(&r, message, &view));
        }
        PW_TRY(put_assistant_part(&r, &w, message, &message->parts[part], &view));
    } else {
        PW_TRY(put_user_part(&r, &w, &message->parts[part]));
    }
    *ret = block.len > 0;
    return PW_OK;
}

pw_status pw_anthropic_request(const pw_endpoint *endpoint, const pw_model_request *request,
                               pw_render *render, pw_arena *arena, pw_http_request *ret,
                               pw_error *error)
{
    pw_rendering r;
    pw_rendering_init(&r, &rules, request, render, arena);
    pw_http_request http = {.method = PW_STR("POST")};
    if (!pw_is_header_text(endpoint->key)) {
        return PW_FAIL(error, PW_INVALID, "the API key holds characters that no header can carry");
    }
    pw_status status = pw_rendering_conversation(&r);
    if (status == PW_OK && render->bytes.len == 0) {
        return PW_FAIL(error, PW_INVALID, "there is no message to send");
    }
    status = status == PW_OK ? render_prefix(&r, &http.body[0]) : status;
    status = status == PW_OK ? put_headers(arena, endpoint->key, &http) : status;
    status = status == PW_OK
                 ? pw_rendering_url(arena, endpoint->base_url, "/v1/messages", &http.url)
                 : status;
    if (status != PW_OK) {
        return PW_FAIL(error, status, "the request could not be rendered");
    }
    http.body[1] = pw_buffer_str(&render->bytes);
    http.body[2] = PW_STR("]}");
    *ret = http;
    return PW_OK;
}
