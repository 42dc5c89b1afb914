/*
 * Which call a tool-call delta belongs to (PROVIDERS.md 5.2, rules 1 to 10).
 *
 * Servers give every call index 0, leave out the index or the id, begin at index 1, repeat an id
 * for another call, send arguments in pieces, whole, or as an object. The rules: an id that is new
 * opens a call whatever the index; without an id the index decides; without both it is the latest
 * call. A call is closed only by the end of the answer, never because its text happens to parse.
 */
#include "model/chat_inner.h"

/* Where the arguments stand after these bytes: as much of JSON as tells whether they are whole. */
static void follow(pw_chat_call *call, pw_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        const char c = bytes.ptr[i];
        if (call->in_string) {
            call->in_string = call->escaped || c != '"';
            call->escaped = !call->escaped && c == '\\';
        } else if (c == '"') {
            call->in_string = true;
        } else if (c == '{' || c == '[') {
            call->begun = true;
            call->depth++;
        } else if ((c == '}' || c == ']') && call->depth > 0) {
            call->depth--;
        }
    }
}

static bool is_whole(const pw_chat_call *call)
{
    return call->begun && call->depth == 0;
}

static pw_status open_call(pw_chat_stream *s, pw_chat_call **ret)
{
    pw_chat_call *call = PW_NEW(&s->base.kept, pw_chat_call);
    if (!call) {
        return PW_NOMEM;
    }
    pw_buffer_init(&call->arguments, s->base.allocator, PW_READING_MAX_REPLY * 2);
    PW_TRY(pw_chat_list_add(s, (void ***)&s->calls, &s->call_count, &s->call_capacity,
                            PW_CHAT_MAX_CALLS, call));
    *ret = call;
    return PW_OK;
}

/* What a delta says of whose it is. */
typedef struct address {
    pw_str id, name;
    bool has_index;
    int64_t index;
} address;

static bool is_index(const pw_chat_call *call, const address *to)
{
    return to->has_index && call->has_index && call->index == to->index;
}

static pw_chat_call *find_call(const pw_chat_stream *s, const address *to)
{
    for (size_t i = s->call_count; i-- > 0;) {
        pw_chat_call *call = s->calls[i];
        const bool elsewhere = to->has_index && call->has_index && call->index != to->index;
        if (to->id.len > 0 ? pw_str_equal(call->id, to->id) && !elsewhere
                           : !to->has_index || is_index(call, to)) {
            return call;
        }
    }
    return NULL;
}

/* The call at this index that has no id yet: an id without a name may come late. */
static pw_chat_call *find_without_id(const pw_chat_stream *s, const address *to)
{
    for (size_t i = s->call_count; i-- > 0;) {
        if (is_index(s->calls[i], to)) {
            return s->calls[i]->id.len == 0 && to->name.len == 0 ? s->calls[i] : NULL;
        }
    }
    return NULL;
}

/* Is anything in it? An empty piece is sent by many and means nothing. */
static bool says(const pw_json *arguments)
{
    return arguments && arguments->type != PW_JSON_NULL &&
           (arguments->type != PW_JSON_STRING || arguments->text.len > 0);
}

static pw_status add_arguments(pw_chat_call *call, const pw_json *arguments)
{
    const size_t before = call->arguments.len;
    if (!says(arguments)) {
        return PW_OK;
    }
    PW_TRY(arguments->type == PW_JSON_STRING ? pw_buffer_add(&call->arguments, arguments->text)
                                             : pw_json_clean(&call->arguments, arguments));
    follow(call, pw_str_slice(pw_buffer_str(&call->arguments), before, call->arguments.len));
    return PW_OK;
}

/*
 * Is this the beginning of another call, although it is addressed like this one? So it is when a
 * name comes again after the arguments were whole (rule 10), as soon as arguments come with it or
 * after it; and when another name comes with neither id nor index (Gemini).
 */
static pw_status begins_another(pw_chat_stream *s, pw_chat_call *call, const address *to,
                                const pw_json *arguments, bool *ret)
{
    if (to->name.len > 0 && is_whole(call)) {
        PW_TRY(pw_arena_dup(&s->base.kept, to->name, &call->named_again));
    }
    const bool other_name = to->id.len == 0 && !to->has_index && to->name.len > 0 &&
                            call->name.len > 0 && !pw_str_equal(call->name, to->name);
    *ret = other_name || (call->named_again.len > 0 && says(arguments));
    return PW_OK;
}

static pw_status take(pw_chat_stream *s, pw_chat_call *call, const address *to,
                      const pw_json *function, const pw_json *extra)
{
    s->base.progress = true;
    if (call->id.len == 0 && to->id.len > 0) {
        PW_TRY(pw_arena_dup(&s->base.kept, to->id, &call->id));
    }
    if (to->has_index) {
        call->has_index = true;
        call->index = to->index;
    }
    if (call->name.len == 0) {
        PW_TRY(pw_reading_keep_text(&s->base, pw_json_get(function, "name"), &call->name));
    }
    if (pw_json_is(extra, PW_JSON_OBJECT)) {
        PW_TRY(pw_reading_keep_json(&s->base, extra, &call->extra));
    }
    return add_arguments(call, pw_json_get(function, "arguments"));
}

pw_status pw_chat_tool_delta(pw_chat_stream *s, const pw_json *delta)
{
    if (!pw_json_is(delta, PW_JSON_OBJECT)) {
        return PW_OK;
    }
    const pw_json *function = pw_json_get(delta, "function");
    const pw_json *index = pw_json_get(delta, "index");
    address to = {.id = pw_json_text(pw_json_get(delta, "id")),
                  .name = pw_json_text(pw_json_get(function, "name"))};
    to.has_index = pw_json_is(index, PW_JSON_NUMBER) && pw_json_i64(index, &to.index);
    pw_chat_call *call = find_call(s, &to);
    call = call ? call : find_without_id(s, &to);
    const pw_chat_call *before = NULL;
    if (call) {
        bool another = false;
        PW_TRY(begins_another(s, call, &to, pw_json_get(function, "arguments"), &another));
        before = another ? call : NULL;
    }
    if (!call || before) {
        PW_TRY(open_call(s, &call));
    }
    if (before) {
        call->id = before->id;
        call->has_index = before->has_index;
        call->index = before->index;
        call->name = before->named_again;
    }
    return take(s, call, &to, function, pw_json_get(delta, "extra_content"));
}

pw_status pw_chat_function_delta(pw_chat_stream *s, const pw_json *function)
{
    const address nowhere = {.has_index = false};
    if (!pw_json_is(function, PW_JSON_OBJECT)) {
        return PW_OK;
    }
    if (!s->old_function) {
        PW_TRY(open_call(s, &s->old_function));
    }
    return take(s, s->old_function, &nowhere, function, NULL);
}
