/* What the tests of models share (support.h). */
#include "support.h"

#include <string.h>

const pw_provider *tested = &pw_provider_anthropic;

bool read_file(const char *path, char **ret, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    size_t size = 0, capacity = 1 << 16;
    char *bytes = malloc(capacity + 1);
    for (;;) {
        const size_t got = fread(bytes + size, 1, capacity - size, file);
        if (got == 0) {
            break;
        }
        size += got;
        if (size == capacity) {
            capacity *= 2;
            bytes = realloc(bytes, capacity + 1);
        }
    }
    fclose(file);
    bytes[size] = '\0';
    *ret = bytes;
    *ret_size = size;
    return true;
}

pw_str shared_file(const char *name)
{
    char path[1024];
    const char *shared = getenv("PAWL_SHARED");
    snprintf(path, sizeof path, "%s/%s", shared ? shared : PAWL_TEST_ROOT "/../shared", name);
    char *bytes = NULL;
    size_t size = 0;
    if (!read_file(path, &bytes, &size)) {
        print_message("skipped: %s is not here (PAWL_SHARED says where)\n", name);
        skip();
    }
    return (pw_str){bytes, size};
}

/* --- Streams --- */

static void tell_reply(pw_buffer *out, const pw_reply *reply)
{
    static const char *const stops[] = {
#define NAME(name, text) [PW_STOP_##name] = text,
        PW_STOP_TABLE(NAME)
#undef NAME
    };
    static const char *const kinds[] = {
#define NAME(name, text) [PW_PART_##name] = text,
        PW_PART_TABLE(NAME)
#undef NAME
    };
    pw_buffer_format(out, "reply %s [%.*s] id=%.*s model=%.*s ", stops[reply->stop],
                     PW_STR_ARG(reply->stop_detail), PW_STR_ARG(reply->response_id),
                     PW_STR_ARG(reply->model));
    for (size_t i = 0; i < reply->part_count; i++) {
        const pw_part *part = &reply->parts[i];
        pw_buffer_format(out, "\n%s id=%.*s name=%.*s text=", kinds[part->kind],
                         PW_STR_ARG(part->provider_id), PW_STR_ARG(part->name));
        pw_buffer_add(out, part->text);
        pw_buffer_add(out, PW_STR(" arguments="));
        pw_buffer_add(out, part->arguments);
        pw_buffer_add(out, part->broken ? PW_STR(" broken raw=") : PW_STR(" raw="));
        pw_buffer_add(out, part->raw);
    }
}

static void tell_failure(pw_buffer *out, const pw_failure *failure)
{
    static const char *const classes[] = {
#define NAME(name, text) [PW_FAILURE_##name] = text,
        PW_FAILURE_TABLE(NAME)
#undef NAME
    };
    pw_buffer_format(out, "failure %s %.*s until=%lld message=", classes[failure->failure_class],
                     PW_STR_ARG(failure->code), (long long)failure->until_ms);
    pw_buffer_add(out, failure->message);
}

static void tell_usage(pw_buffer *out, const pw_usage *u)
{
    pw_buffer_format(out, "\nusage=%lld/%lld/%lld/%lld/%lld", (long long)u->in_uncached,
                     (long long)u->in_cache_read, (long long)u->in_cache_write, (long long)u->out,
                     (long long)u->reasoning);
    if (u->cost_micros >= 0) {
        pw_buffer_format(out, " cost=%lld", (long long)u->cost_micros);
    }
}

pw_status run_stream(const pw_allocator *allocator, pw_str body, cutting how, pw_buffer *out)
{
    const pw_provider *provider = tested;
    const pw_endpoint endpoint = {.key = PW_STR_INIT("test-key-0123456789"), .now_ms = NOW_MS};
    pw_model_stream *stream = NULL;
    PW_TRY(provider->stream_new(allocator, &stream));
    pw_buffer shown, thought;
    pw_buffer_init(&shown, &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&thought, &pw_heap, SIZE_MAX / 4);
    pw_status status = PW_OK;
    for (size_t at = 0; status == PW_OK && at < body.len;) {
        size_t end = how.piece ? at + how.piece : body.len;
        end = how.cut_at > at && how.cut_at < end ? how.cut_at : end;
        end = end > body.len ? body.len : end;
        /* A copy of exactly this size, so that reading past a piece is seen. */
        char *piece = malloc(end - at);
        memcpy(piece, body.ptr + at, end - at);
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = false;
        status =
            provider->feed(stream, (pw_str){piece, end - at}, &deltas, &count, &progress, NULL);
        free(piece);
        for (size_t i = 0; status == PW_OK && i < count; i++) {
            pw_buffer_add(deltas[i].reasoning ? &thought : &shown, deltas[i].bytes);
        }
        if (status == PW_OK && count > 0) {
            assert_true(progress);
        }
        at = end;
    }
    const pw_reply *reply = NULL;
    pw_failure failure = {.usage = PW_USAGE_UNKNOWN};
    status = status == PW_OK ? provider->end(stream, &endpoint, &reply, &failure) : status;
    if (status == PW_OK) {
        tell_reply(out, reply);
        tell_usage(out, &reply->usage);
    } else if (status == PW_END) {
        tell_failure(out, &failure);
        tell_usage(out, &failure.usage);
    }
    pw_buffer_add(out, PW_STR("\nshown="));
    pw_buffer_add(out, pw_buffer_str(&shown));
    pw_buffer_add(out, PW_STR("\nthought="));
    pw_buffer_add(out, pw_buffer_str(&thought));
    pw_buffer_free(&shown);
    pw_buffer_free(&thought);
    provider->stream_free(stream);
    return status;
}

char *told(pw_str body, cutting how)
{
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    const pw_status status = run_stream(&pw_heap, body, how, &out);
    if (status != PW_OK && status != PW_END) {
        fail_msg("the stream answered %s", pw_status_code(status));
    }
    char *text = malloc(out.len + 1);
    memcpy(text, out.ptr, out.len + 1);
    pw_buffer_free(&out);
    return text;
}

char *told_text(const char *body)
{
    return told(pw_str_from(body), WHOLE);
}

char *events(const char *first, ...)
{
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    va_list list;
    va_start(list, first);
    for (const char *one = first; one; one = va_arg(list, const char *)) {
        pw_buffer_add(&out, PW_STR("data: "));
        pw_buffer_add(&out, pw_str_from(one));
        pw_buffer_add(&out, PW_STR("\n\n"));
    }
    va_end(list);
    char *text = calloc(1, out.len + 1);
    if (out.len > 0) {
        memcpy(text, out.ptr, out.len);
    }
    pw_buffer_free(&out);
    return text;
}

/* --- Recordings --- */

reading read_body(pw_str body, size_t piece)
{
    const pw_endpoint endpoint = {.now_ms = NOW_MS};
    reading r = {.status = PW_OK};
    assert_int_equal(tested->stream_new(&pw_heap, &r.stream), PW_OK);
    for (size_t at = 0; at < body.len; at += piece) {
        const size_t end = body.len - at < piece ? body.len : at + piece;
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = false;
        const pw_str bytes = pw_str_slice(body, at, end);
        assert_int_equal(tested->feed(r.stream, bytes, &deltas, &count, &progress, NULL), PW_OK);
    }
    r.status = tested->end(r.stream, &endpoint, &r.reply, &r.failure);
    return r;
}

void recording(const char *protocol, const char *file, pw_str *ret_body, pw_str *ret_expected)
{
    char name[200];
    const char *dot = strrchr(file, '.');
    snprintf(name, sizeof name, "recordings/%s/%s", protocol, file);
    *ret_body = shared_file(name);
    snprintf(name, sizeof name, "recordings/expected/%s.%.*s.json", protocol, (int)(dot - file),
             file);
    *ret_expected = shared_file(name);
}

void forget(pw_str a, pw_str b)
{
    free((void *)(uintptr_t)a.ptr);
    free((void *)(uintptr_t)b.ptr);
}

const pw_json *parse(pw_arena *arena, pw_str text)
{
    const pw_json *json = NULL;
    pw_error error = {.message = ""};
    if (pw_json_parse(arena, text, 0, &json, &error) != PW_OK) {
        fail_msg("%s: %.*s", error.message, PW_STR_ARG(text));
    }
    return json;
}

void check_text(const pw_reply *reply, pw_part_kind kind, pw_str wanted)
{
    pw_buffer out;
    pw_buffer_init(&out, &pw_heap, SIZE_MAX / 4);
    for (size_t i = 0; i < reply->part_count; i++) {
        if (reply->parts[i].kind == kind) {
            pw_buffer_add(&out, reply->parts[i].text);
        }
    }
    if (!pw_str_equal(pw_buffer_str(&out), wanted)) {
        fail_msg("%.*s\n  is not\n%.*s", PW_STR_ARG(pw_buffer_str(&out)), PW_STR_ARG(wanted));
    }
    pw_buffer_free(&out);
}

/* --- Requests by hand --- */

void fixture_init(fixture *f, const char *model_json)
{
    memset(f, 0, sizeof *f);
    pw_arena_init(&f->arena, &pw_heap, 0, 0);
    pw_render_init(&f->render, &pw_heap);
    const pw_json *model = NULL;
    assert_int_equal(pw_json_parse(&f->arena, pw_str_from(model_json), 0, &model, NULL), PW_OK);
    f->model = (pw_model_choice){.options = model,
                                 .provider = pw_json_text(pw_json_get(model, "provider")),
                                 .name = pw_json_text(pw_json_get(model, "name"))};
    f->definition =
        (pw_definition){.name = PW_STR_INIT("agent"), .models = &f->model, .model_count = 1};
    f->request = (pw_model_request){.call = 1,
                                    .turn = PW_STR_INIT("turn"),
                                    .attempt = 1,
                                    .tries = 1,
                                    .definition = &f->definition,
                                    .model = &f->model,
                                    .messages = f->list};
}

void fixture_free(fixture *f)
{
    pw_render_free(&f->render);
    pw_arena_free(&f->arena);
}

pw_message *add_message(fixture *f, pw_role role, size_t part_count)
{
    assert_true(f->count < 64);
    pw_message *message = &f->messages[f->count];
    *message = (pw_message){.role = role,
                            .n = (int64_t)f->count + 1,
                            .turn = PW_STR_INIT("turn"),
                            .parts = PW_NEW_ARRAY(&f->arena, pw_part, part_count),
                            .part_count = part_count};
    f->list[f->count++] = message;
    f->request.count = f->count;
    return message;
}

pw_message *say(fixture *f, const char *user_text)
{
    pw_message *message = add_message(f, PW_ROLE_USER, 1);
    ((pw_part *)(uintptr_t)message->parts)[0] = text_part(user_text);
    return message;
}

pw_part *answer(fixture *f, size_t part_count)
{
    pw_message *message = add_message(f, PW_ROLE_ASSISTANT, part_count);
    message->provider = pw_str_from(tested->name);
    message->model = f->model.name;
    return (pw_part *)(uintptr_t)message->parts;
}

pw_message *result(fixture *f, const char *call, const char *json)
{
    pw_message *message = add_message(f, PW_ROLE_TOOL, 0);
    message->call = pw_str_from(call);
    message->name = PW_STR("tool");
    message->result = pw_str_from(json);
    return message;
}

char *conversation(fixture *f, size_t same)
{
    const pw_endpoint endpoint = {.base_url = PW_STR_INIT("http://127.0.0.1:1"),
                                  .key = PW_STR_INIT("test-key-0123456789")};
    pw_http_request http = {.method = PW_STR_NONE};
    pw_error error = {.message = ""};
    f->request.same = same;
    const pw_status status =
        tested->request(&endpoint, &f->request, &f->render, &f->arena, &http, &error);
    if (status != PW_OK) {
        fail_msg("%s", error.message);
    }
    pw_buffer whole;
    pw_buffer_init(&whole, &pw_heap, SIZE_MAX / 4);
    for (size_t i = 0; i < 3; i++) {
        pw_buffer_add(&whole, http.body[i]);
    }
    if (!pw_json_valid(pw_buffer_str(&whole))) {
        fail_msg("not JSON: %s", whole.ptr);
    }
    pw_buffer_free(&whole);
    char *text = malloc(http.body[1].len + 1);
    memcpy(text, http.body[1].ptr, http.body[1].len);
    text[http.body[1].len] = '\0';
    return text;
}

pw_part text_part(const char *text)
{
    return (pw_part){.kind = PW_PART_TEXT, .text = pw_str_from(text)};
}

pw_part call_part(const char *call, const char *name, const char *arguments)
{
    return (pw_part){.kind = PW_PART_TOOL_CALL,
                     .call = pw_str_from(call),
                     .name = pw_str_from(name),
                     .arguments = pw_str_from(arguments)};
}

pw_part raw_part(pw_part_kind kind, const char *text, const char *raw)
{
    return (pw_part){.kind = kind, .text = pw_str_from(text), .raw = pw_str_from(raw)};
}
