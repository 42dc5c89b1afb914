/* What rendering a request takes at every provider (rendering.h). */
#include "model/rendering.h"

#include "base/format.h"
#include "base/sha256.h"
#include "base/utf8.h"

#define NOT_HERE SIZE_MAX /* in pw_render.offsets: no request may be cut at this message */

/* --- Model families --- */

static bool all_digits(pw_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
    }
    return s.len > 0;
}

static size_t find_last(pw_str s, char c)
{
    for (size_t i = s.len; i-- > 0;) {
        if (s.ptr[i] == c) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* OpenAI: gpt-5.1-2025-11-13. */
static pw_str without_day(pw_str model)
{
    const size_t length = sizeof "-2025-11-13" - 1;
    if (model.len <= length) {
        return model;
    }
    const pw_str day = pw_str_slice(model, model.len - length, model.len);
    const bool is_day = day.ptr[0] == '-' && day.ptr[5] == '-' && day.ptr[8] == '-' &&
                        all_digits(pw_str_slice(day, 1, 5)) &&
                        all_digits(pw_str_slice(day, 6, 8)) && all_digits(pw_str_slice(day, 9, 11));
    return is_day ? pw_str_slice(model, 0, model.len - length) : model;
}

pw_str pw_model_family(pw_str model)
{
    const pw_str makers[] = {PW_STR_INIT("anthropic."), PW_STR_INIT("openai.")};
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        const size_t host = pw_str_find(model, makers[i]); /* Bedrock: eu.anthropic.claude-…-v1:0 */
        if (host != SIZE_MAX) {
            model = pw_str_slice(model, host + makers[i].len, model.len);
        }
    }
    const size_t slash = find_last(model, '/');
    if (slash != SIZE_MAX) { /* gateways: anthropic/claude-… */
        model = pw_str_slice(model, slash + 1, model.len);
    }
    const char marks[] = {':', '@'};
    for (size_t i = 0; i < sizeof marks; i++) {
        const size_t at = find_last(model, marks[i]);
        model = at != SIZE_MAX && at > 0 ? pw_str_slice(model, 0, at) : model;
    }
    model = without_day(model);
    for (;;) {
        const size_t dash = find_last(model, '-');
        if (dash == SIZE_MAX || dash == 0) {
            return model;
        }
        const pw_str tail = pw_str_slice(model, dash + 1, model.len);
        const bool date = tail.len == 8 && all_digits(tail);
        const bool version =
            tail.len >= 2 && tail.ptr[0] == 'v' && all_digits(pw_str_slice(tail, 1, tail.len));
        if (!date && !version && !pw_str_is(tail, "latest") && !pw_str_is(tail, "0")) {
            return model;
        }
        model = pw_str_slice(model, 0, dash);
    }
}

bool pw_rendering_same_family(const pw_rendering *r, const pw_message *message)
{
    const bool asked =
        message->asked.len > 0 && pw_str_equal(pw_model_family(message->asked), r->family);
    return pw_str_is(message->provider, r->rules->provider) &&
           (asked || pw_str_equal(pw_model_family(message->model), r->family));
}

bool pw_message_speaks(const pw_message *message)
{
    return message->role == PW_ROLE_USER || message->role == PW_ROLE_TRIGGER;
}

/* --- Ids that go out --- */

static bool is_id_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/*
 * c<n>_<id> where that is within the alphabet and the length; p<n>_<position> for the engine's own
 * ".<position>"; h<n>_<beginning>_<hash> for anything else, the beginning only as far as it fits.
 * The first letter keeps the three apart.
 */
pw_tool_id pw_tool_id_within(int64_t n, pw_str call, size_t most)
{
    enum { HASH = 20, BEGINNING = 19 };
    pw_tool_id id;
    bool plain = call.len > 0;
    PW_ASSERT(most >= 40 && most <= PW_TOOL_ID_MAX);
    for (size_t i = 0; i < call.len; i++) {
        plain = plain && is_id_byte(call.ptr[i]);
    }
    const pw_str rest = call.len > 1 ? pw_str_slice(call, 1, call.len) : PW_STR_NONE;
    if (plain &&
        pw_format(id.text, sizeof id.text, "c%lld_%.*s", (long long)n, PW_STR_ARG(call)) <= most) {
        return id;
    }
    if (call.len > 1 && call.ptr[0] == '.' && all_digits(rest) &&
        pw_format(id.text, sizeof id.text, "p%lld_%.*s", (long long)n, PW_STR_ARG(rest)) <= most) {
        return id;
    }
    const size_t head = pw_format(id.text, sizeof id.text, "h%lld_", (long long)n);
    const size_t room = most - head > HASH + 1 ? most - head - HASH - 1 : 0;
    char start[BEGINNING + 1];
    size_t length = 0;
    for (; length < call.len && length < BEGINNING && length < room; length++) {
        start[length] = is_id_byte(call.ptr[length]) ? call.ptr[length] : '_';
    }
    const size_t hash_length = most - head < HASH ? most - head : HASH;
    const pw_hash hash = pw_sha256_of(call);
    const pw_hash_hex hex = pw_hash_to_hex(&hash);
    pw_format(id.text + head, sizeof id.text - head, "%.*s%s%.*s", (int)length, start,
              room > 0 ? "_" : "", (int)hash_length, hex.text);
    return id;
}

pw_tool_id pw_tool_id_of(int64_t n, pw_str call)
{
    return pw_tool_id_within(n, call, PW_TOOL_ID_MAX);
}

pw_tool_id pw_tool_name_of(pw_str name)
{
    pw_tool_id out = {.text = "_"};
    size_t length = 0;
    for (size_t i = 0; i < name.len && length < PW_TOOL_ID_MAX; i++) {
        if (((uint8_t)name.ptr[i] & 0xC0) != 0x80) { /* not inside a character */
            out.text[length++] = is_id_byte(name.ptr[i]) ? name.ptr[i] : '_';
            out.text[length] = '\0';
        }
    }
    return out;
}

/* --- Text and blocks --- */

bool pw_is_blank(pw_str text)
{
    for (size_t i = 0; i < text.len;) {
        const uint8_t c = (uint8_t)text.ptr[i];
        const uint8_t d = i + 1 < text.len ? (uint8_t)text.ptr[i + 1] : 0;
        const uint8_t e = i + 2 < text.len ? (uint8_t)text.ptr[i + 2] : 0;
        if (c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F)) {
            i += 1;
        } else if (c == 0xC2 && (d == 0x85 || d == 0xA0)) {
            i += 2;
        } else if ((c == 0xE1 && d == 0x9A && e == 0x80) || (c == 0xE3 && d == 0x80 && e == 0x80) ||
                   (c == 0xE2 && d == 0x81 && e == 0x9F) ||
                   (c == 0xE2 && d == 0x80 &&
                    ((e >= 0x80 && e <= 0x8A) || e == 0xA8 || e == 0xA9 || e == 0xAF))) {
            i += 3; /* U+1680, U+3000, U+205F, U+2000-200A, U+2028, U+2029, U+202F */
        } else {
            return false;
        }
    }
    return true;
}

pw_status pw_put_text(pw_rendering *r, pw_json_writer *w, const char *key, pw_str text)
{
    if (pw_utf8_clean(text)) {
        pw_json_put_str(w, key, text.ptr ? text : PW_STR(""));
        return w->out->failed;
    }
    pw_buffer mended;
    pw_buffer_init_arena(&mended, r->arena, SIZE_MAX / 4);
    PW_TRY(pw_utf8_mend(&mended, text));
    pw_json_put_str(w, key, pw_buffer_str(&mended));
    return w->out->failed;
}

pw_status pw_put_schema(pw_rendering *r, pw_json_writer *w, const char *key, const pw_json *schema)
{
    pw_buffer whole;
    pw_buffer_init_arena(&whole, r->arena, PW_RENDERING_MAX_PREFIX);
    if (!schema) {
        PW_TRY(pw_buffer_add(&whole, PW_STR("{\"type\":\"object\"}")));
    } else if (pw_json_is(schema, PW_JSON_OBJECT) && !pw_json_get(schema, "type")) {
        const pw_member object[] = {{.name = "type", .json = PW_STR_INIT("\"object\"")}};
        PW_TRY(pw_block_write(&whole, schema, object, 1));
    } else {
        PW_TRY(pw_buffer_add(&whole, schema->raw));
    }
    pw_json_put_raw(w, key, pw_buffer_str(&whole));
    return w->out->failed;
}

void pw_put_kept(pw_json_writer *w, pw_str raw)
{
    if (raw.len > 0 && pw_utf8_clean(raw)) {
        pw_json_raw(w, raw);
    }
}

pw_status pw_block_write(pw_buffer *out, const pw_json *block, const pw_member *members,
                         size_t count)
{
    pw_json_writer w;
    pw_json_begin(&w, out);
    pw_json_object(&w);
    for (const pw_json *member = block->child; member; member = member->next) {
        pw_str value = member->raw;
        for (size_t i = 0; i < count; i++) {
            if (members[i].json.ptr && pw_str_is(member->key, members[i].name)) {
                value = members[i].json;
            }
        }
        if (value.len > 0) {
            pw_json_key_str(&w, member->key);
            pw_json_raw(&w, value);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (members[i].json.len > 0 && !pw_json_get(block, members[i].name)) {
            pw_json_put_raw(&w, members[i].name, members[i].json);
        }
    }
    pw_json_object_end(&w);
    return out->failed;
}

pw_status pw_rendering_result(pw_rendering *r, const pw_message *message, pw_str *ret)
{
    *ret = message->result;
    if (ret->len > 0 && ret->ptr[0] == '"') { /* a string is read as its text */
        const pw_json *string = NULL;
        const pw_status status = pw_json_parse(r->arena, *ret, PW_JSON_MEND_UTF8, &string, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
        *ret = status == PW_OK ? string->text : *ret;
    }
    return PW_OK;
}

/* --- The cache of rendered messages --- */

void pw_rendering_init(pw_rendering *r, const pw_rendering_rules *rules,
                       const pw_model_request *request, pw_render *render, pw_arena *arena)
{
    *r = (pw_rendering){.rules = rules,
                        .request = request,
                        .render = render,
                        .arena = arena,
                        .family = pw_model_family(request->model->name),
                        .open_from = SIZE_MAX,
                        .wanted = SIZE_MAX,
                        .found = SIZE_MAX};
}

void pw_rendering_element(pw_rendering *r, pw_json_writer *w)
{
    if (r->render->bytes.len > 0) {
        (void)pw_buffer_byte(&r->render->bytes, ',');
    }
    r->elements++;
    pw_json_begin(w, &r->render->bytes);
}

void pw_rendering_take_back(pw_rendering *r, size_t length)
{
    pw_buffer *bytes = &r->render->bytes;
    bytes->len = length;
    if (bytes->ptr) {
        bytes->ptr[length] = '\0';
    }
}

int64_t pw_rendering_asked_by(const pw_rendering *r, size_t from)
{
    int64_t n = 0;
    for (size_t i = from; i-- > 0 && n == 0;) {
        n = r->request->messages[i]->role == PW_ROLE_ASSISTANT ? r->request->messages[i]->n : 0;
    }
    return n;
}

static void forget(pw_render *render)
{
    render->count = 0;
    pw_buffer_clear(&render->bytes);
}

static pw_status reserve(pw_render *render, size_t count)
{
    if (render->capacity >= count + 1) {
        return PW_OK;
    }
    size_t capacity = render->capacity ? render->capacity : 16;
    while (capacity < count + 1) {
        capacity *= 2;
    }
    size_t *offsets =
        render->allocator->resize(render->allocator->ctx, render->offsets,
                                  render->capacity * sizeof *offsets, capacity * sizeof *offsets);
    if (!offsets) {
        return PW_NOMEM;
    }
    render->offsets = offsets;
    render->capacity = capacity;
    render->offsets[0] = 0;
    return PW_OK;
}

/* The cache is for one provider, spelling and model family; another one starts anew. */
static pw_status rekey(pw_rendering *r)
{
    pw_render *render = r->render;
    pw_buffer wanted;
    pw_buffer_init_arena(&wanted, r->arena, 64 << 10);
    PW_TRY(pw_buffer_format(&wanted, "%s %.*s ", r->rules->provider, PW_STR_ARG(r->spelling)));
    PW_TRY(pw_buffer_add(&wanted, r->family));
    if (pw_str_equal(render->key, pw_buffer_str(&wanted))) {
        return PW_OK;
    }
    forget(render);
    const pw_allocator *a = render->allocator;
    char *text = a->resize(a->ctx, NULL, 0, wanted.len + 1);
    if (!text) {
        return PW_NOMEM;
    }
    memcpy(text, wanted.ptr, wanted.len + 1);
    if (render->key.ptr) {
        a->resize(a->ctx, (void *)(uintptr_t)render->key.ptr, render->key.len + 1, 0);
    }
    render->key = (pw_str){text, wanted.len};
    return PW_OK;
}

static pw_status render_from(pw_rendering *r, size_t index)
{
    const pw_model_request *request = r->request;
    pw_render *render = r->render;
    while (index < request->count) {
        size_t next = index + 1;
        const size_t before = r->elements;
        pw_status status = PW_OK;
        const pw_role role = request->messages[index]->role;
        if (role == PW_ROLE_TOOL) {
            while (next < request->count && request->messages[next]->role == PW_ROLE_TOOL) {
                render->offsets[next++] = NOT_HERE;
            }
            status = r->rules->results(r, index, next);
        } else if (role == PW_ROLE_ASSISTANT) {
            status = r->rules->assistant(r, index);
        } else {
            status = r->rules->user(r, index);
        }
        PW_TRY(status);
        render->offsets[next] = render->bytes.len;
        if (r->found == SIZE_MAX && r->elements > r->wanted) {
            r->found = index;
            r->found_at = r->wanted - before;
        }
        index = next;
    }
    for (size_t i = r->open_from; i < request->count; i++) {
        render->offsets[i + 1] = NOT_HERE;
    }
    render->count = request->count;
    return PW_OK;
}

pw_status pw_rendering_conversation(pw_rendering *r)
{
    pw_render *render = r->render;
    PW_TRY(rekey(r));
    PW_TRY(reserve(render, r->request->count));
    size_t from = r->request->same < render->count ? r->request->same : render->count;
    while (from > 0 && render->offsets[from] == NOT_HERE) {
        from--;
    }
    render->count = from;
    render->bytes.len = from > 0 ? render->offsets[from] : 0;
    render->bytes.failed = PW_OK;
    const pw_status status = render_from(r, from);
    if (status != PW_OK) {
        forget(render);
    }
    return status;
}

bool pw_rendering_find(pw_rendering *r, size_t element, size_t *ret_message, size_t *ret_at)
{
    forget(r->render);
    r->elements = 0;
    r->wanted = element;
    r->found = SIZE_MAX;
    if (pw_rendering_conversation(r) != PW_OK || r->found == SIZE_MAX) {
        return false;
    }
    *ret_message = r->found;
    *ret_at = r->found_at;
    return true;
}

bool pw_is_header_text(pw_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((uint8_t)text.ptr[i] <= 0x20 || (uint8_t)text.ptr[i] >= 0x7F) {
            return false;
        }
    }
    return true;
}

pw_status pw_rendering_url(pw_arena *arena, pw_str base, const char *path, pw_str *ret)
{
    while (base.len > 0 && base.ptr[base.len - 1] == '/') {
        base.len--;
    }
    pw_buffer url;
    pw_buffer_init_arena(&url, arena, 64 << 10);
    PW_TRY(pw_buffer_add(&url, base));
    PW_TRY(pw_buffer_add(&url, pw_str_from(path)));
    *ret = pw_buffer_str(&url);
    return PW_OK;
}
