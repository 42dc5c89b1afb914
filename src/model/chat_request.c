/*
 * Renders a request to a server of Chat Completions: POST <base_url>/chat/completions.
 *
 * The body is prefix + conversation + suffix (rendering.h); `messages` is the last member of the
 * prefix, with the system message at its head, so that the bytes of step k are the beginning of
 * step k + 1's (C10). What a server wants otherwise is a switch of its dialect.
 *
 * Where user and assistant must take turns, neighbours of one role are joined to one message. A
 * message that comes to be joined changes the end of the bytes before it: there, and only there,
 * C10 cannot hold.
 *
 * Ids: a call goes out as a fixed function of its assistant message's number and its own id or
 * place, equal for call and result and unique in the conversation whatever ids the provider gave
 * (D10).
 */
#include "model/chat_inner.h"

#include "base/utf8.h"

#define NOTHING_SAID "(empty message)"

typedef enum speaker { NOBODY, PERSON, MODEL } speaker;

typedef struct renderer {
    pw_rendering base;
    const pw_chat_dialect *dialect;
    bool echo_reasoning;
    /* Where turns must be taken: who spoke last, and where that message begins. */
    speaker last;
    size_t last_from, last_at;
} renderer;

/* --- Ids that go out --- */

static void put_base62(char *at, size_t digits, uint64_t value)
{
    static const char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (size_t i = digits; i-- > 0;) {
        at[i] = alphabet[value % 62];
        value /= 62;
    }
}

/* Nine letters and digits hold no id, but the message's number and the call's place in it. */
static pw_tool_id short_id(const pw_message *message, pw_str call)
{
    pw_tool_id id = {.text = ""};
    size_t place = 0;
    while (place < message->part_count && !(message->parts[place].kind == PW_PART_TOOL_CALL &&
                                            pw_str_equal(message->parts[place].call, call))) {
        place++;
    }
    put_base62(id.text, 6, (uint64_t)message->n);
    put_base62(id.text + 6, 3, place);
    return id;
}

static pw_tool_id id_of(const renderer *r, const pw_message *message, pw_str call)
{
    switch (r->dialect->ids) {
    case PW_CHAT_IDS_9:
        return short_id(message, call);
    case PW_CHAT_IDS_40:
        break;
    }
    return pw_tool_id_within(message->n, call, 40);
}

/* --- What people said --- */

static bool is_plain(const pw_rendering *r, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->request->messages[i];
        for (size_t k = 0; pw_message_speaks(message) && k < message->part_count; k++) {
            if (message->parts[k].kind == PW_PART_OTHER) {
                return false;
            }
        }
    }
    return true;
}

static bool is_text(const pw_part *part)
{
    return part->kind == PW_PART_TEXT || part->kind == PW_PART_REFUSAL;
}

/* A person's texts, blank ones left out. */
static pw_status add_said(pw_buffer *out, const pw_message *message)
{
    for (size_t k = 0; k < message->part_count; k++) {
        const pw_part *part = &message->parts[k];
        if (is_text(part) && !pw_is_blank(part->text)) {
            PW_TRY(pw_buffer_add(out, out->len > 0 ? PW_STR("\n\n") : PW_STR("")));
            PW_TRY(pw_buffer_add(out, part->text));
        }
    }
    return PW_OK;
}

static pw_status put_user_parts(renderer *r, pw_json_writer *w, size_t from, size_t to)
{
    static const pw_part nothing = {.kind = PW_PART_TEXT, .text = PW_STR_INIT(NOTHING_SAID)};
    pw_json_key(w, "content");
    pw_json_array(w);
    const size_t empty = w->out->len;
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->base.request->messages[i];
        for (size_t k = 0; pw_message_speaks(message) && k < message->part_count; k++) {
            PW_TRY(pw_chat_put_user_part(&r->base, w, r->dialect->documents, &message->parts[k]));
        }
    }
    if (w->out->len == empty) {
        PW_TRY(pw_chat_put_user_part(&r->base, w, r->dialect->documents, &nothing));
    }
    pw_json_array_end(w);
    return w->out->failed;
}

static pw_status write_user(renderer *r, size_t from, size_t to)
{
    pw_json_writer w;
    pw_rendering_element(&r->base, &w);
    pw_json_object(&w);
    pw_json_put_str(&w, "role", PW_STR("user"));
    if (!is_plain(&r->base, from, to)) {
        PW_TRY(put_user_parts(r, &w, from, to));
    } else {
        pw_buffer text;
        pw_buffer_init_arena(&text, r->base.arena, SIZE_MAX / 4);
        for (size_t i = from; i < to; i++) {
            const pw_message *message = r->base.request->messages[i];
            if (pw_message_speaks(message)) {
                PW_TRY(add_said(&text, message));
            }
        }
        const pw_str said = text.len > 0 ? pw_buffer_str(&text) : PW_STR(NOTHING_SAID);
        PW_TRY(pw_put_text(&r->base, &w, "content", said));
    }
    pw_json_object_end(&w);
    return w.out->failed;
}

/* --- What the model said --- */

static bool has_calls(const pw_message *message)
{
    for (size_t k = 0; k < message->part_count; k++) {
        if (message->parts[k].kind == PW_PART_TOOL_CALL) {
            return true;
        }
    }
    return false;
}

static bool says_something(const pw_message *message)
{
    for (size_t k = 0; k < message->part_count; k++) {
        const pw_part *part = &message->parts[k];
        if (part->kind == PW_PART_TOOL_CALL || (is_text(part) && !pw_is_blank(part->text))) {
            return true;
        }
    }
    return false;
}

/* A member of what was kept of this part; empty where there is none, or it is not to go back. */
static pw_status kept_member(renderer *r, const pw_part *part, const char *name, bool wanted,
                             pw_str *ret)
{
    const pw_json *raw = NULL;
    *ret = PW_STR_NONE;
    if (!wanted || part->raw.len == 0 || !pw_utf8_clean(part->raw)) {
        return PW_OK;
    }
    const pw_status status = pw_json_parse(r->base.arena, part->raw, 0, &raw, NULL);
    const pw_json *member = status == PW_OK ? pw_json_get(raw, name) : NULL;
    *ret = member ? member->raw : PW_STR_NONE;
    return status == PW_NOMEM ? status : PW_OK;
}

static pw_status put_call(renderer *r, pw_json_writer *w, const pw_message *message,
                          const pw_part *part, bool same)
{
    const pw_tool_id id = id_of(r, message, part->call);
    pw_str extra = PW_STR_NONE;
    PW_TRY(kept_member(r, part, "extra_content", same && r->dialect->echo_extra, &extra));
    pw_json_object(w);
    pw_json_put_str(w, "id", pw_str_from(id.text));
    pw_json_put_str(w, "type", PW_STR("function"));
    pw_json_key(w, "function");
    pw_json_object(w);
    pw_json_put_str(w, "name", pw_str_from(pw_tool_name_of(part->name).text));
    /* Of a broken call its result says what was wrong. */
    const bool sound = !part->broken && pw_json_valid(part->arguments);
    PW_TRY(pw_put_text(&r->base, w, "arguments", sound ? part->arguments : PW_STR("{}")));
    pw_json_object_end(w);
    if (extra.len > 0) {
        pw_json_put_raw(w, "extra_content", extra);
    }
    pw_json_object_end(w);
    return w->out->failed;
}

static pw_status put_calls(renderer *r, pw_json_writer *w, const pw_message *message, bool same)
{
    if (!has_calls(message)) {
        return PW_OK;
    }
    pw_json_key(w, "tool_calls");
    pw_json_array(w);
    for (size_t k = 0; k < message->part_count; k++) {
        if (message->parts[k].kind == PW_PART_TOOL_CALL) {
            PW_TRY(put_call(r, w, message, &message->parts[k], same));
        }
    }
    pw_json_array_end(w);
    return w->out->failed;
}

/* The members that the provider bound to itself, the first of each. */
static pw_status put_bound(renderer *r, pw_json_writer *w, const pw_message *message)
{
    const struct {
        const char *name;
        bool wanted;
    } members[] = {{"reasoning_details", r->dialect->echo_details},
                   {"extra_content", r->dialect->echo_extra}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        pw_str json = PW_STR_NONE;
        for (size_t k = 0; k < message->part_count && json.len == 0; k++) {
            const bool thinking = message->parts[k].kind == PW_PART_THINKING;
            PW_TRY(kept_member(r, &message->parts[k], members[i].name,
                               thinking && members[i].wanted, &json));
        }
        if (json.len > 0) {
            pw_json_put_raw(w, members[i].name, json);
        }
    }
    return w->out->failed;
}

/* DeepSeek asks for it with every answer that calls, even where there was no reasoning, and takes
 * it with the answer after the results. */
static pw_status put_reasoning(renderer *r, pw_json_writer *w, const pw_message *message,
                               bool after_results, bool same)
{
    const bool calls = has_calls(message);
    if (!r->echo_reasoning || (!calls && !after_results)) {
        return PW_OK;
    }
    pw_buffer text;
    pw_buffer_init_arena(&text, r->base.arena, SIZE_MAX / 4);
    for (size_t k = 0; same && k < message->part_count; k++) {
        if (message->parts[k].kind == PW_PART_THINKING && !message->parts[k].left_out) {
            PW_TRY(pw_buffer_add(&text, message->parts[k].text));
        }
    }
    return calls || text.len > 0
               ? pw_put_text(&r->base, w, "reasoning_content", pw_buffer_str(&text))
               : PW_OK;
}

static bool follows_results(const pw_rendering *r, size_t index)
{
    return index > 0 && r->request->messages[index - 1]->role == PW_ROLE_TOOL;
}

/* The texts of the answers from … to - 1: of one as they stand, a blank line between two. */
static pw_status answers_text(const pw_rendering *r, size_t from, size_t to, pw_buffer *out)
{
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->request->messages[i];
        if (message->role != PW_ROLE_ASSISTANT || !says_something(message)) {
            continue;
        }
        PW_TRY(pw_buffer_add(out, out->len > 0 ? PW_STR("\n\n") : PW_STR("")));
        for (size_t k = 0; k < message->part_count; k++) {
            if (is_text(&message->parts[k])) {
                PW_TRY(pw_buffer_add(out, message->parts[k].text));
            }
        }
    }
    return PW_OK;
}

/* The answers from … to - 1 as one; where there are several, only the last may call. */
static pw_status write_assistant(renderer *r, size_t from, size_t to)
{
    pw_json_writer w;
    pw_buffer text;
    const pw_message *last = r->base.request->messages[to - 1];
    pw_buffer_init_arena(&text, r->base.arena, SIZE_MAX / 4);
    PW_TRY(answers_text(&r->base, from, to, &text));
    pw_rendering_element(&r->base, &w);
    pw_json_object(&w);
    pw_json_put_str(&w, "role", PW_STR("assistant"));
    if (!pw_is_blank(pw_buffer_str(&text))) {
        PW_TRY(pw_put_text(&r->base, &w, "content", pw_buffer_str(&text)));
    } else {
        pw_json_put_raw(&w, "content", pw_str_from(r->dialect->no_content));
    }
    const bool same = pw_rendering_same_family(&r->base, last);
    PW_TRY(put_reasoning(r, &w, last, follows_results(&r->base, to - 1), same));
    if (same) {
        PW_TRY(put_bound(r, &w, last));
    }
    PW_TRY(put_calls(r, &w, last, same));
    pw_json_object_end(&w);
    return w.out->failed;
}

/* --- One message each --- */

/* Where the message of this speaker begins: here, or, where turns must be taken, with the one
 * before it, which is then written anew. */
static size_t begin(renderer *r, speaker who, size_t index)
{
    if (r->dialect->alternates && r->last == who) {
        pw_rendering_take_back(&r->base, r->last_at);
    } else {
        r->last = who;
        r->last_from = index;
        r->last_at = r->base.render->bytes.len;
    }
    return r->last_from;
}

static pw_status user(pw_rendering *base, size_t index)
{
    renderer *r = (renderer *)base;
    const size_t from = begin(r, PERSON, index);
    return write_user(r, from, index + 1);
}

static pw_status assistant(pw_rendering *base, size_t index)
{
    renderer *r = (renderer *)base;
    const pw_message *message = base->request->messages[index];
    if (!says_something(message)) { /* nothing to say: the message goes */
        return PW_OK;
    }
    const size_t from = begin(r, MODEL, index);
    PW_TRY(write_assistant(r, from, index + 1));
    r->last = has_calls(message) ? NOBODY : MODEL;
    return PW_OK;
}

static pw_status results(pw_rendering *base, size_t from, size_t to)
{
    renderer *r = (renderer *)base;
    size_t asker = from;
    while (asker > 0 && base->request->messages[asker]->role != PW_ROLE_ASSISTANT) {
        asker--;
    }
    for (size_t i = from; i < to; i++) {
        const pw_message *message = base->request->messages[i];
        const pw_tool_id id = id_of(r, base->request->messages[asker], message->call);
        pw_str content = PW_STR_NONE;
        pw_json_writer w;
        PW_TRY(pw_rendering_result(base, message, &content));
        pw_rendering_element(base, &w);
        pw_json_object(&w);
        pw_json_put_str(&w, "role", PW_STR("tool"));
        pw_json_put_str(&w, "tool_call_id", pw_str_from(id.text));
        PW_TRY(pw_put_text(base, &w, "content", content));
        pw_json_object_end(&w);
        PW_TRY(w.out->failed);
    }
    r->last = NOBODY;
    return PW_OK;
}

static const pw_rendering_rules rules = {
    .provider = "openai-chat", .user = user, .assistant = assistant, .results = results};

/* --- Prefix --- */

static pw_status put_tools(renderer *r, pw_json_writer *w, const pw_json *options)
{
    const pw_definition *definition = r->base.request->definition;
    const pw_json *parallel = pw_json_get(options, "parallel_tool_calls");
    if (definition->tool_count == 0) {
        return PW_OK;
    }
    pw_json_key(w, "tools");
    pw_json_array(w);
    for (size_t i = 0; i < definition->tool_count; i++) {
        const pw_tool_declaration *tool = &definition->tools[i];
        pw_json_object(w);
        pw_json_put_str(w, "type", PW_STR("function"));
        pw_json_key(w, "function");
        pw_json_object(w);
        PW_TRY(pw_put_text(&r->base, w, "name", tool->name));
        if (!pw_is_blank(tool->description)) {
            PW_TRY(pw_put_text(&r->base, w, "description", tool->description));
        }
        PW_TRY(pw_put_schema(&r->base, w, "parameters", tool->input));
        pw_json_object_end(w);
        pw_json_object_end(w);
    }
    pw_json_array_end(w);
    if (parallel) { /* refused where there are no tools */
        pw_json_put_bool(w, "parallel_tool_calls", pw_json_true(parallel));
    }
    return w->out->failed;
}

static void put_cache_marker(pw_json_writer *w)
{
    pw_json_put_raw(w, "cache_control", PW_STR("{\"type\":\"ephemeral\"}"));
}

static bool marks_cache(const renderer *r)
{
    return r->dialect->cache_markers && pw_str_begins(r->base.family, PW_STR("claude"));
}

static pw_status put_system(renderer *r, pw_json_writer *w, const pw_json *options)
{
    const pw_str text = r->base.request->definition->instructions;
    const pw_str role = pw_json_text(pw_json_get(options, "system_role"));
    if (pw_is_blank(text)) {
        return PW_OK;
    }
    pw_json_object(w);
    pw_json_put_str(w, "role", role.len > 0 ? role : PW_STR("system"));
    if (!marks_cache(r)) {
        PW_TRY(pw_put_text(&r->base, w, "content", text));
    } else {
        pw_json_key(w, "content");
        pw_json_array(w);
        pw_json_object(w);
        pw_json_put_str(w, "type", PW_STR("text"));
        PW_TRY(pw_put_text(&r->base, w, "text", text));
        put_cache_marker(w);
        pw_json_object_end(w);
        pw_json_array_end(w);
    }
    pw_json_object_end(w);
    return pw_buffer_byte(w->out, ',');
}

static pw_status put_options(renderer *r, pw_json_writer *w, const pw_json *options)
{
    const pw_json *most = pw_json_get(options, "max_tokens");
    const pw_json *temperature = pw_json_get(options, "temperature");
    const pw_json *effort = pw_json_get(options, "reasoning_effort");
    const pw_str field = pw_json_text(pw_json_get(options, "max_tokens_field"));
    if (most && field.len > 0) {
        pw_json_key_str(w, field);
        pw_json_raw(w, most->raw);
    } else if (most) {
        pw_json_put_raw(w, r->dialect->tokens_field, most->raw);
    }
    if (temperature) {
        pw_json_put_raw(w, "temperature", temperature->raw);
    }
    if (effort) {
        PW_TRY(pw_put_text(&r->base, w, "reasoning_effort", effort->text));
    }
    return w->out->failed;
}

static pw_status render_prefix(renderer *r, pw_str *ret)
{
    const pw_json *options = r->base.request->model->options;
    const pw_json *usage = pw_json_get(options, "stream_options");
    pw_buffer out;
    pw_json_writer w;
    pw_buffer_init_arena(&out, r->base.arena, PW_RENDERING_MAX_PREFIX);
    pw_json_begin(&w, &out);
    pw_json_object(&w);
    PW_TRY(pw_put_text(&r->base, &w, "model", r->base.request->model->name));
    PW_TRY(put_options(r, &w, options));
    PW_TRY(put_tools(r, &w, options));
    if (marks_cache(r)) {
        put_cache_marker(&w);
    }
    pw_json_put_bool(&w, "stream", true);
    if (usage ? pw_json_true(usage) : r->dialect->stream_options) {
        pw_json_put_raw(&w, "stream_options", PW_STR("{\"include_usage\":true}"));
    }
    pw_json_key(&w, "messages");
    PW_TRY(pw_buffer_byte(&out, '['));
    pw_json_writer system;
    pw_json_begin(&system, &out);
    PW_TRY(put_system(r, &system, options));
    *ret = pw_buffer_str(&out);
    return out.failed;
}

/* --- Headers, URL --- */

static pw_status put_headers(const renderer *r, const pw_endpoint *endpoint, pw_http_request *ret)
{
    const pw_json *options = r->base.request->model->options;
    const pw_str auth = pw_json_text(pw_json_get(options, "auth"));
    const bool bare =
        auth.len > 0 ? pw_str_is(auth, "api-key") : r->dialect->auth == PW_CHAT_API_KEY;
    pw_header *headers = PW_NEW_ARRAY(r->base.arena, pw_header, 4);
    if (!headers) {
        return PW_NOMEM;
    }
    size_t count = 0;
    headers[count++] = (pw_header){PW_STR("content-type"), PW_STR("application/json")};
    headers[count++] = (pw_header){PW_STR("accept"), PW_STR("text/event-stream")};
    headers[count++] = (pw_header){PW_STR("accept-encoding"), PW_STR("identity")};
    if (endpoint->key.len > 0) {
        pw_buffer value;
        pw_buffer_init_arena(&value, r->base.arena, 64 << 10);
        PW_TRY(pw_buffer_add(&value, bare ? PW_STR("") : PW_STR("Bearer ")));
        PW_TRY(pw_buffer_add(&value, endpoint->key));
        headers[count++] =
            (pw_header){bare ? PW_STR("api-key") : PW_STR("authorization"), pw_buffer_str(&value)};
    }
    ret->headers = headers;
    ret->header_count = count;
    return PW_OK;
}

static pw_status put_url(const renderer *r, const pw_endpoint *endpoint, pw_str *ret)
{
    const pw_str version =
        pw_json_text(pw_json_get(r->base.request->model->options, "api_version"));
    PW_TRY(pw_rendering_url(r->base.arena, endpoint->base_url, "/chat/completions", ret));
    if (version.len == 0) {
        return PW_OK;
    }
    pw_buffer url;
    pw_buffer_init_arena(&url, r->base.arena, 64 << 10);
    (void)pw_buffer_add(&url, *ret);
    (void)pw_buffer_add(&url, PW_STR("?api-version="));
    (void)pw_buffer_add(&url, version);
    *ret = pw_buffer_str(&url);
    return url.failed;
}

pw_status pw_chat_request(const pw_endpoint *endpoint, const pw_model_request *request,
                          pw_render *render, pw_arena *arena, pw_http_request *ret, pw_error *error)
{
    const pw_json *options = request->model->options;
    renderer r = {.dialect = pw_chat_dialect_find(options, endpoint->base_url)};
    pw_http_request http = {.method = PW_STR("POST")};
    if (!r.dialect) {
        return PW_FAIL(error, PW_INVALID, "model.dialect: there is no such dialect");
    }
    if (!pw_is_header_text(endpoint->key)) {
        return PW_FAIL(error, PW_INVALID, "the API key holds characters that no header can carry");
    }
    pw_rendering_init(&r.base, &rules, request, render, arena);
    r.echo_reasoning = pw_chat_echoes_reasoning(r.dialect, options);
    r.base.spelling = pw_str_from(r.dialect->name);
    if (r.dialect->alternates) { /* what was rendered may have to be joined with what comes */
        render->count = 0;
    }
    pw_status status = pw_rendering_conversation(&r.base);
    if (status == PW_OK && render->bytes.len == 0) {
        return PW_FAIL(error, PW_INVALID, "there is no message to send");
    }
    status = status == PW_OK ? render_prefix(&r, &http.body[0]) : status;
    status = status == PW_OK ? put_headers(&r, endpoint, &http) : status;
    status = status == PW_OK ? put_url(&r, endpoint, &http.url) : status;
    if (status != PW_OK) {
        return PW_FAIL(error, status, "the request could not be rendered");
    }
    http.body[1] = pw_buffer_str(&render->bytes);
    http.body[2] = PW_STR("]}");
    *ret = http;
    return PW_OK;
}

/* --- Positions --- */

/* How many elements of `content` a part becomes. */
static bool count_elements(renderer *r, const pw_part *part, size_t *ret)
{
    pw_json_writer w;
    pw_buffer out;
    const pw_json *list = NULL;
    pw_buffer_init_arena(&out, r->base.arena, SIZE_MAX / 4);
    pw_json_begin(&w, &out);
    pw_json_array(&w);
    const pw_status status = pw_chat_put_user_part(&r->base, &w, r->dialect->documents, part);
    pw_json_array_end(&w);
    if (status != PW_OK || out.failed != PW_OK ||
        pw_json_parse(r->base.arena, pw_buffer_str(&out), 0, &list, NULL) != PW_OK) {
        return false;
    }
    *ret = list->count;
    return true;
}

/* The part in the person's messages from … to - 1 that is element `wanted` of the content; where
 * the content is one text or the element is not named, the only part there is. */
static bool find_element(renderer *r, size_t from, size_t to, size_t wanted, size_t *ret_message,
                         size_t *ret_part)
{
    const bool named = wanted != SIZE_MAX && !is_plain(&r->base, from, to);
    size_t before = 0, found = 0;
    for (size_t i = from; i < to; i++) {
        const pw_message *message = r->base.request->messages[i];
        for (size_t k = 0; pw_message_speaks(message) && k < message->part_count; k++) {
            size_t count = 0;
            if (!count_elements(r, &message->parts[k], &count)) {
                return false;
            }
            if (named ? wanted >= before && wanted < before + count : count > 0) {
                *ret_message = i;
                *ret_part = k;
                found++;
            }
            before += count;
        }
    }
    return found == 1;
}

bool pw_chat_find_part(const pw_model_request *request, size_t element, size_t content,
                       pw_arena *arena, size_t *ret_message, size_t *ret_part)
{
    const pw_json *options = request->model->options;
    const pw_json *url = pw_json_get(options, "base_url");
    renderer r = {.dialect = pw_chat_dialect_find(
                      options, url ? url->text : pw_str_from(pw_provider_chat.default_base_url))};
    if (!r.dialect) {
        return false;
    }
    pw_rendering_init(&r.base, &rules, request, NULL, arena);
    size_t at = pw_is_blank(request->definition->instructions) ? 0 : 1; /* the system message */
    speaker last = NOBODY;
    size_t from = 0, to = 0; /* of the element, where people speak in it */
    for (size_t i = 0; i < request->count; i++) {
        const pw_message *message = request->messages[i];
        if (message->role == PW_ROLE_ASSISTANT && !says_something(message)) {
            continue;
        }
        const speaker who = pw_message_speaks(message)           ? PERSON
                            : message->role == PW_ROLE_ASSISTANT ? MODEL
                                                                 : NOBODY;
        const bool joined = r.dialect->alternates && who != NOBODY && who == last;
        at += joined ? 0 : 1;
        last = who == MODEL && has_calls(message) ? NOBODY : who;
        if (at == element + 1 && who == PERSON) {
            from = joined ? from : i;
            to = i + 1;
        }
    }
    return to > 0 && find_element(&r, from, to, content, ret_message, ret_part);
}
