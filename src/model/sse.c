/*
 * The reader of server-sent events (sse.h).
 *
 * Lines are found on bytes; a line that lies whole in the input is read where it lies, only cut
 * ones are gathered in `line`. A CR ends a line at once, and a LF right after it is skipped, so a
 * CRLF cut between two pieces makes no empty line.
 */
#include "model/sse.h"

void pw_sse_init(pw_sse *sse, const pw_allocator *allocator, size_t maximum)
{
    *sse = (pw_sse){.bytes = 0};
    pw_buffer_init(&sse->line, allocator, maximum);
    pw_buffer_init(&sse->data, allocator, maximum);
    pw_buffer_init(&sse->name, allocator, maximum);
    pw_buffer_init(&sse->unknown, allocator, maximum);
    pw_buffer_init(&sse->unknown_name, allocator, maximum);
}

void pw_sse_free(pw_sse *sse)
{
    if (!sse) {
        return;
    }
    pw_buffer_free(&sse->line);
    pw_buffer_free(&sse->data);
    pw_buffer_free(&sse->name);
    pw_buffer_free(&sse->unknown);
    pw_buffer_free(&sse->unknown_name);
}

static pw_status replace(pw_buffer *buffer, pw_str with)
{
    pw_buffer_clear(buffer);
    return pw_buffer_add(buffer, with);
}

static void forget_event(pw_sse *sse)
{
    pw_buffer_clear(&sse->data);
    pw_buffer_clear(&sse->name);
    pw_buffer_clear(&sse->unknown);
    pw_buffer_clear(&sse->unknown_name);
    sse->has_data = false;
}

static pw_status dispatch(pw_sse *sse, pw_sse_handler handler, void *ctx)
{
    const pw_sse_event event = {.name = pw_buffer_str(&sse->name),
                                .data = pw_buffer_str(&sse->data),
                                .unknown = pw_buffer_str(&sse->unknown),
                                .unknown_name = pw_buffer_str(&sse->unknown_name)};
    const bool tells = sse->has_data || pw_str_is(event.unknown_name, "error");
    const pw_status status = tells ? handler(ctx, &event) : PW_OK;
    forget_event(sse);
    return status;
}

static pw_status take_field(pw_sse *sse, pw_str field, pw_str value)
{
    if (pw_str_is(field, "data")) {
        if (sse->has_data) {
            PW_TRY(pw_buffer_byte(&sse->data, '\n'));
        }
        PW_TRY(pw_buffer_add(&sse->data, value));
        sse->has_data = true;
        return PW_OK;
    }
    if (pw_str_is(field, "event")) {
        return replace(&sse->name, value);
    }
    if (pw_str_is(field, "id") || pw_str_is(field, "retry")) {
        return PW_OK;
    }
    PW_TRY(replace(&sse->unknown_name, field));
    return replace(&sse->unknown, value);
}

static pw_status take_line(pw_sse *sse, pw_str line, pw_sse_handler handler, void *ctx)
{
    if (!sse->started) {
        sse->started = true;
        if (pw_str_begins(line, PW_STR("\xEF\xBB\xBF"))) {
            line = pw_str_slice(line, 3, line.len);
        }
    }
    if (line.len == 0) {
        return dispatch(sse, handler, ctx);
    }
    size_t at = 0;
    while (at < line.len && line.ptr[at] != ':') {
        at++;
    }
    if (at == line.len) {
        return take_field(sse, line, PW_STR(""));
    }
    if (at == 0) {
        return PW_OK; /* a comment */
    }
    size_t from = at + 1;
    if (from < line.len && line.ptr[from] == ' ') {
        from++;
    }
    return take_field(sse, pw_str_slice(line, 0, at), pw_str_slice(line, from, line.len));
}

static pw_status explain(pw_sse *sse, pw_status status, pw_error *error)
{
    if (status == PW_TOO_LARGE && sse->data.failed == PW_OK && sse->line.failed == PW_OK &&
        sse->name.failed == PW_OK && sse->unknown.failed == PW_OK &&
        sse->unknown_name.failed == PW_OK) {
        return status; /* the handler's own word */
    }
    if (status == PW_TOO_LARGE) {
        return PW_FAIL(error, status, "an event of the stream is over %zu bytes",
                       sse->data.maximum);
    }
    if (status == PW_NOMEM) {
        return PW_FAIL(error, status, "out of memory while reading the stream");
    }
    return status;
}

/* Length of the first line in `bytes`, its end not counted; SIZE_MAX when it does not end here. */
static size_t line_length(pw_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] == '\n' || bytes.ptr[i] == '\r') {
            return i;
        }
    }
    return SIZE_MAX;
}

pw_status pw_sse_feed(pw_sse *sse, pw_str bytes, pw_sse_handler handler, void *ctx, pw_error *error)
{
    sse->bytes += bytes.len;
    while (bytes.len > 0) {
        if (sse->after_cr) {
            sse->after_cr = false;
            if (bytes.ptr[0] == '\n') {
                bytes = pw_str_slice(bytes, 1, bytes.len);
                continue;
            }
        }
        const size_t length = line_length(bytes);
        if (length == SIZE_MAX) {
            return explain(sse, pw_buffer_add(&sse->line, bytes), error);
        }
        if (length > sse->line.maximum) {
            sse->line.failed = PW_TOO_LARGE;
            return explain(sse, PW_TOO_LARGE, error);
        }
        pw_str line = pw_str_slice(bytes, 0, length);
        sse->after_cr = bytes.ptr[length] == '\r';
        bytes = pw_str_slice(bytes, length + 1, bytes.len);
        const bool gathered = sse->line.len > 0;
        if (gathered) {
            const pw_status status = pw_buffer_add(&sse->line, line);
            if (status != PW_OK) {
                return explain(sse, status, error);
            }
            line = pw_buffer_str(&sse->line);
        }
        const pw_status status = take_line(sse, line, handler, ctx);
        if (gathered) {
            pw_buffer_clear(&sse->line);
        }
        if (status != PW_OK) {
            return explain(sse, status, error);
        }
    }
    return PW_OK;
}

pw_status pw_sse_end(pw_sse *sse, pw_sse_handler handler, void *ctx, pw_error *error)
{
    if (sse->line.len > 0) {
        const pw_status status = take_line(sse, pw_buffer_str(&sse->line), handler, ctx);
        pw_buffer_clear(&sse->line);
        if (status != PW_OK) {
            return explain(sse, status, error);
        }
    }
    const pw_str data = pw_buffer_str(&sse->data);
    const bool whole =
        sse->has_data && (pw_json_valid(data) || pw_str_is(pw_str_trim(data), "[DONE]"));
    if (whole || (!sse->has_data && sse->unknown_name.len > 0)) {
        return explain(sse, dispatch(sse, handler, ctx), error);
    }
    forget_event(sse);
    return PW_OK;
}
