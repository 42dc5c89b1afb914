/* What a codec is held to, whatever the bytes (codec.h):
 *   - cut or whole, the same reply or failure and the same text shown;
 *   - text is valid and without NUL, raw blocks are JSON, arguments that are not broken are an
 * object;
 *   - a reply can be sent back, the request is JSON, and the next one begins with the same bytes
 * (C10);
 *   - a failure's message never holds the key (N3).
 */
#include "codec.h"

#include "base/heap.h"
#include "base/utf8.h"

#define CHECK(condition) ((condition) ? (void)0 : __builtin_trap())
#define KEY "sk-fuzz-canary"

typedef struct reading {
    pw_model_stream *stream;
    pw_status status;
    const pw_reply *reply;
    pw_failure failure;
    pw_buffer shown[2];
} reading;

static const pw_endpoint endpoint = {.base_url = PW_STR_INIT("http://127.0.0.1"),
                                     .key = PW_STR_INIT(KEY)};

static void read_body(const pw_provider *p, reading *r, pw_str input, size_t piece)
{
    *r = (reading){.status = PW_OK};
    pw_buffer_init(&r->shown[0], &pw_heap, SIZE_MAX / 4);
    pw_buffer_init(&r->shown[1], &pw_heap, SIZE_MAX / 4);
    CHECK(p->stream_new(&pw_heap, &r->stream) == PW_OK);
    for (size_t at = 0; r->status == PW_OK && at < input.len;) {
        const size_t end = input.len - at < piece ? input.len : at + piece;
        const pw_delta *deltas = NULL;
        size_t count = 0;
        bool progress = false;
        r->status =
            p->feed(r->stream, pw_str_slice(input, at, end), &deltas, &count, &progress, NULL);
        for (size_t i = 0; r->status == PW_OK && i < count; i++) {
            CHECK(progress && deltas[i].bytes.len > 0 && pw_utf8_clean(deltas[i].bytes));
            CHECK(pw_buffer_add(&r->shown[deltas[i].reasoning], deltas[i].bytes) == PW_OK);
        }
        at = end;
    }
    if (r->status == PW_OK) {
        r->status = p->end(r->stream, &endpoint, &r->reply, &r->failure);
    }
}

static void forget(const pw_provider *p, reading *r)
{
    p->stream_free(r->stream);
    pw_buffer_free(&r->shown[0]);
    pw_buffer_free(&r->shown[1]);
}

static void check_parts(const pw_reply *reply)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    for (size_t i = 0; i < reply->part_count; i++) {
        const pw_part *part = &reply->parts[i];
        CHECK(pw_utf8_clean(part->text) && pw_utf8_clean(part->name) &&
              pw_utf8_clean(part->provider_id));
        CHECK(pw_utf8_clean(part->arguments) && pw_utf8_valid(part->raw));
        CHECK(part->raw.len == 0 || pw_json_valid(part->raw));
        if (part->kind == PW_PART_TOOL_CALL && !part->broken) {
            const pw_json *json = NULL;
            CHECK(pw_json_parse(&arena, part->arguments, 0, &json, NULL) == PW_OK);
            CHECK(pw_json_is(json, PW_JSON_OBJECT));
        }
    }
    pw_arena_free(&arena);
}

/* Sends the reply back: user, the reply, its results; then once more with a user's word after it.
 */
static void check_echo(const pw_provider *p, const char *options, pw_reply *reply)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    const pw_part hello = {.kind = PW_PART_TEXT, .text = PW_STR_INIT("hi")};
    pw_message *all = PW_NEW_ARRAY(&arena, pw_message, reply->part_count + 3);
    const pw_message **list = PW_NEW_ARRAY(&arena, const pw_message *, reply->part_count + 3);
    const pw_json *model = NULL;
    CHECK(all && list && pw_json_parse(&arena, pw_str_from(options), 0, &model, NULL) == PW_OK);
    size_t count = 0;
    all[count++] = (pw_message){.role = PW_ROLE_USER, .n = 1, .parts = &hello, .part_count = 1};
    all[count++] = (pw_message){.role = PW_ROLE_ASSISTANT,
                                .n = 2,
                                .parts = reply->parts,
                                .part_count = reply->part_count,
                                .provider = reply->provider,
                                .model = reply->model};
    for (size_t i = 0; i < reply->part_count; i++) {
        if (reply->parts[i].kind == PW_PART_TOOL_CALL) {
            char id[24];
            pw_buffer text;
            pw_buffer_init_arena(&text, &arena, sizeof id);
            CHECK(pw_buffer_format(&text, ".%zu", i) == PW_OK);
            reply->parts[i].call = pw_buffer_str(&text);
            all[count] = (pw_message){.role = PW_ROLE_TOOL,
                                      .n = (int64_t)count + 1,
                                      .call = reply->parts[i].call,
                                      .result = PW_STR_INIT("{}")};
            count++;
        }
    }
    all[count] = (pw_message){
        .role = PW_ROLE_USER, .n = (int64_t)count + 1, .parts = &hello, .part_count = 1};
    for (size_t i = 0; i <= count; i++) {
        list[i] = &all[i];
    }
    const pw_model_choice choice = {.options = model, .name = reply->model};
    const pw_definition definition = {.models = &choice, .model_count = 1};
    pw_model_request request = {
        .definition = &definition, .model = &choice, .messages = list, .count = count};
    pw_render render, anew;
    pw_render_init(&render, &pw_heap);
    pw_render_init(&anew, &pw_heap);
    for (int round = 0; round < 2; round++) {
        pw_http_request http = {.method = PW_STR_NONE}, again = {.method = PW_STR_NONE};
        CHECK(p->request(&endpoint, &request, &render, &arena, &http, NULL) == PW_OK);
        pw_buffer body;
        pw_buffer_init(&body, &pw_heap, SIZE_MAX / 4);
        for (size_t i = 0; i < 3; i++) {
            CHECK(pw_buffer_add(&body, http.body[i]) == PW_OK);
        }
        CHECK(pw_json_valid(pw_buffer_str(&body)));
        pw_buffer_free(&body);
        request.same = 0;
        CHECK(p->request(&endpoint, &request, &anew, &arena, &again, NULL) == PW_OK);
        CHECK(pw_str_equal(http.body[1], again.body[1]));
        request.same = count;
        request.count = count + 1;
    }
    pw_render_free(&render);
    pw_render_free(&anew);
    pw_arena_free(&arena);
}

static void compare(const reading *a, const reading *b)
{
    CHECK(a->status == b->status);
    CHECK(a->status == PW_OK || a->status == PW_END || a->status == PW_TOO_LARGE);
    if (a->status == PW_TOO_LARGE) {
        return;
    }
    CHECK(pw_str_equal(pw_buffer_str(&a->shown[0]), pw_buffer_str(&b->shown[0])));
    CHECK(pw_str_equal(pw_buffer_str(&a->shown[1]), pw_buffer_str(&b->shown[1])));
    if (a->status == PW_END) {
        CHECK(a->failure.failure_class == b->failure.failure_class);
        CHECK(pw_str_equal(a->failure.code, b->failure.code));
        CHECK(pw_str_equal(a->failure.message, b->failure.message));
        CHECK(pw_str_find(a->failure.message, PW_STR(KEY)) == SIZE_MAX);
        return;
    }
    CHECK(a->reply->part_count == b->reply->part_count && a->reply->stop == b->reply->stop);
    for (size_t i = 0; i < a->reply->part_count; i++) {
        const pw_part *p = &a->reply->parts[i], *q = &b->reply->parts[i];
        CHECK(p->kind == q->kind && p->broken == q->broken && pw_str_equal(p->text, q->text));
        CHECK(pw_str_equal(p->arguments, q->arguments) && pw_str_equal(p->raw, q->raw));
    }
}

void pw_fuzz_codec(const pw_provider *p, const char *options, const uint8_t *data, size_t size)
{
    if (size < 1) {
        return;
    }
    const pw_str input = {(const char *)data + 1, size - 1};
    reading whole, cut;
    read_body(p, &whole, input, SIZE_MAX / 2);
    read_body(p, &cut, input, (size_t)data[0] % 64 + 1);
    compare(&whole, &cut);
    if (whole.status == PW_OK) {
        check_parts(whole.reply);
        check_echo(p, options, (pw_reply *)(uintptr_t)whole.reply);
    }
    forget(p, &whole);
    forget(p, &cut);
}
