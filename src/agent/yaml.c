/*
 * YAML into JSON: libyaml's events are written as JSON text as they come, with an explicit stack.
 *
 * Scalars are read by YAML 1.2's JSON schema: null, true, false and JSON's numbers, when plain;
 * every other scalar is a string, so `yes`, `0x10`, `1.2.3` and dates stay what they look like.
 * Refused, each with its line: repeated keys, anchors and aliases, tags, a second document, more
 * than DEPTH_MAX levels.
 *
 * Beside the text a table is kept that leads from a value's place in it to the line it came from.
 */
#include <yaml.h>

#include "agent/agent.h"

#define DEPTH_MAX 64

typedef struct line_entry {
    size_t offset; /* of the value in the JSON text; they rise */
    int line;
} line_entry;

struct pw_yaml_lines {
    const line_entry *entries;
    size_t count;
};

typedef struct frame {
    bool mapping;
    bool after_key; /* MAPPING: the next node is a value */
    size_t count;
    size_t id; /* tells the keys of one mapping from another's */
    int key_line;
} frame;

typedef struct seen_key {
    uint64_t hash; /* 0: free */
    size_t frame;
    pw_str key;
    int line;
} seen_key;

typedef struct reader {
    pw_arena *arena;
    pw_str file;
    pw_error *error;
    pw_buffer out, lines;
    frame stack[DEPTH_MAX];
    size_t depth, frames, documents;
    seen_key *seen;
    size_t seen_count, seen_size; /* a power of two, at most half full */
} reader;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static pw_status wrong(const reader *r, int line, const char *what)
{
    return PW_FAIL(r->error, PW_INVALID, "%.*s:%d: %s", PW_STR_ARG(r->file), line, what);
}

static pw_status no_memory(const reader *r)
{
    return PW_FAIL(r->error, PW_NOMEM, "%.*s: out of memory", PW_STR_ARG(r->file));
}

/* --- Keys ------------------------------------------------------------------------------------- */

static uint64_t hash_of(size_t frame_id, pw_str key)
{
    uint64_t hash =
        UINT64_C(14695981039346656037) ^ (uint64_t)frame_id * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ (unsigned char)key.ptr[i]) * UINT64_C(1099511628211);
    }
    return hash | 1;
}

/* The key's slot, or the free one where it belongs. */
static seen_key *slot_of(const reader *r, uint64_t hash, size_t frame_id, pw_str key)
{
    size_t at = (size_t)(hash >> 7) & (r->seen_size - 1);
    while (r->seen[at].hash != 0 && !(r->seen[at].hash == hash && r->seen[at].frame == frame_id &&
                                      pw_str_equal(r->seen[at].key, key))) {
        at = (at + 1) & (r->seen_size - 1);
    }
    return &r->seen[at];
}

static bool make_room(reader *r)
{
    if (r->seen_count * 2 < r->seen_size) {
        return true;
    }
    const seen_key *old = r->seen;
    const size_t old_size = r->seen_size;
    const size_t size = old_size > 0 ? old_size * 2 : 64;
    seen_key *bigger = PW_NEW_ARRAY(r->arena, seen_key, size);
    if (bigger == NULL) {
        return false;
    }
    r->seen = bigger;
    r->seen_size = size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i].hash != 0) {
            *slot_of(r, old[i].hash, old[i].frame, old[i].key) = old[i];
        }
    }
    return true;
}

static pw_status remember_key(reader *r, const frame *in, pw_str key, int line)
{
    if (!make_room(r)) {
        return no_memory(r);
    }
    const uint64_t hash = hash_of(in->id, key);
    seen_key *slot = slot_of(r, hash, in->id, key);
    if (slot->hash != 0) {
        const size_t shown = key.len < 60 ? key.len : 60;
        return PW_FAIL(r->error, PW_INVALID,
                       "%.*s:%d: the key \"%.*s\" is repeated; it is on line "
                       "%d already",
                       PW_STR_ARG(r->file), line, (int)shown, key.ptr, slot->line);
    }
    pw_str copied;
    if (pw_arena_dup(r->arena, key, &copied) != PW_OK) {
        return no_memory(r);
    }
    *slot = (seen_key){hash, in->id, copied, line};
    r->seen_count++;
    return PW_OK;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

static frame *top(reader *r)
{
    return r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
}

static bool at_key(reader *r)
{
    const frame *in = top(r);
    return in != NULL && in->mapping && !in->after_key;
}

/* Before a value's first byte: its comma and its line. */
static pw_status begin_value(reader *r, int line)
{
    frame *in = top(r);
    if (in != NULL && !in->mapping && in->count > 0) {
        (void)pw_buffer_byte(&r->out, ',');
    }
    const line_entry entry = {r->out.len, in != NULL && in->mapping ? in->key_line : line};
    (void)pw_buffer_add(&r->lines, (pw_str){(const char *)&entry, sizeof entry});
    if (in != NULL) {
        in->count++;
        in->after_key = false;
    }
    return r->lines.failed != PW_OK || r->out.failed != PW_OK ? no_memory(r) : PW_OK;
}

static pw_status begin_collection(reader *r, const yaml_event_t *event, bool mapping)
{
    const int line = line_of(event);
    const yaml_char_t *anchor =
        mapping ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    const yaml_char_t *tag =
        mapping ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    if (anchor != NULL) {
        return wrong(r, line, "anchors are not supported");
    }
    if (tag != NULL) {
        return wrong(r, line, "tags are not supported");
    }
    if (at_key(r)) {
        return wrong(r, line, "expected a key, found a list or a mapping");
    }
    if (r->depth == DEPTH_MAX) {
        return wrong(r, line, "nested too deep");
    }
    PW_TRY(begin_value(r, line));
    r->stack[r->depth++] = (frame){.mapping = mapping, .id = ++r->frames};
    return pw_buffer_byte(&r->out, mapping ? '{' : '[') != PW_OK ? no_memory(r) : PW_OK;
}

static pw_status end_collection(reader *r)
{
    PW_ASSERT(r->depth > 0);
    const bool mapping = r->stack[--r->depth].mapping;
    return pw_buffer_byte(&r->out, mapping ? '}' : ']') != PW_OK ? no_memory(r) : PW_OK;
}

static pw_status put_string(reader *r, pw_str text)
{
    (void)pw_buffer_byte(&r->out, '"');
    pw_json_escape(&r->out, text);
    return pw_buffer_byte(&r->out, '"') != PW_OK ? no_memory(r) : PW_OK;
}

static pw_status put_key(reader *r, pw_str key, bool plain, int line)
{
    frame *in = top(r);
    if (plain && key.len == 0) {
        return wrong(r, line, "expected a key, found nothing");
    }
    PW_TRY(remember_key(r, in, key, line));
    if (in->count > 0) {
        (void)pw_buffer_byte(&r->out, ',');
    }
    in->after_key = true;
    in->key_line = line;
    PW_TRY(put_string(r, key));
    return pw_buffer_byte(&r->out, ':') != PW_OK ? no_memory(r) : PW_OK;
}

/* What YAML 1.2's JSON schema makes of a plain scalar, if it is no string. */
static bool is_json_scalar(pw_str text)
{
    if (pw_str_is(text, "true") || pw_str_is(text, "false") || pw_str_is(text, "null")) {
        return true;
    }
    return text.len > 0 && (text.ptr[0] == '-' || (text.ptr[0] >= '0' && text.ptr[0] <= '9')) &&
           pw_json_valid(text);
}

static pw_status put_scalar(reader *r, const yaml_event_t *event)
{
    const int line = line_of(event);
    const pw_str text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    const pw_str tag = pw_str_from((const char *)event->data.scalar.tag);
    if (event->data.scalar.anchor != NULL) {
        return wrong(r, line, "anchors are not supported");
    }
    if (tag.len > 0 && !pw_str_is(tag, "!") && !pw_str_is(tag, YAML_STR_TAG)) {
        return wrong(r, line, "tags are not supported");
    }
    if (text.len > 0 && memchr(text.ptr, 0, text.len) != NULL) {
        return wrong(r, line, "a text must not hold NUL");
    }
    const bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && tag.len == 0;
    if (at_key(r)) {
        return put_key(r, text, plain, line);
    }
    PW_TRY(begin_value(r, line));
    if (!plain) {
        return put_string(r, text);
    }
    if (text.len == 0) {
        return pw_buffer_add(&r->out, PW_STR("null")) != PW_OK ? no_memory(r) : PW_OK;
    }
    if (is_json_scalar(text)) {
        return pw_buffer_add(&r->out, text) != PW_OK ? no_memory(r) : PW_OK;
    }
    return put_string(r, text);
}

static pw_status take_event(reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return ++r->documents > 1 ? wrong(r, line_of(event), "expected one document, found another")
                                  : PW_OK;
    case YAML_SCALAR_EVENT:
        return put_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return begin_collection(r, event, false);
    case YAML_MAPPING_START_EVENT:
        return begin_collection(r, event, true);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return end_collection(r);
    case YAML_ALIAS_EVENT:
        return wrong(r, line_of(event), "aliases are not supported");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
    return PW_OK;
}

static int line_at(pw_str text, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset && i < text.len; i++) {
        line += text.ptr[i] == '\n';
    }
    return line;
}

static pw_status parser_failed(const reader *r, const yaml_parser_t *parser, pw_str yaml)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return no_memory(r);
    }
    const bool reading = parser->error == YAML_READER_ERROR;
    const int line =
        reading ? line_at(yaml, parser->problem_offset) : (int)parser->problem_mark.line + 1;
    return PW_FAIL(r->error, PW_INVALID, "%.*s:%d: not YAML: %s%s%s", PW_STR_ARG(r->file), line,
                   parser->context != NULL ? parser->context : "",
                   parser->context != NULL ? ", " : "",
                   parser->problem != NULL ? parser->problem : "it cannot be read");
}

static pw_status read_events(reader *r, yaml_parser_t *parser, pw_str yaml)
{
    bool end = false;
    while (!end) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            return parser_failed(r, parser, yaml);
        }
        end = event.type == YAML_STREAM_END_EVENT;
        const pw_status status = take_event(r, &event);
        yaml_event_delete(&event);
        PW_TRY(status);
    }
    return r->documents == 0 ? wrong(r, 1, "there is nothing in this file") : PW_OK;
}

pw_status pw_yaml_to_json(pw_str yaml, pw_str file_name, pw_arena *arena, pw_str *ret_json,
                          const pw_yaml_lines **lines, pw_error *error)
{
    reader *r = PW_NEW(arena, reader);
    pw_yaml_lines *table = PW_NEW(arena, pw_yaml_lines);
    yaml_parser_t parser;
    if (r == NULL || table == NULL || yaml.len > SIZE_MAX / 64 ||
        !yaml_parser_initialize(&parser)) {
        return PW_FAIL(error, PW_NOMEM, "%.*s: out of memory", PW_STR_ARG(file_name));
    }
    r->arena = arena;
    r->file = file_name;
    r->error = error;
    pw_buffer_init_arena(&r->out, arena, yaml.len * 8 + 64);
    pw_buffer_init_arena(&r->lines, arena, (yaml.len + 2) * sizeof(line_entry));
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)(yaml.ptr != NULL ? yaml.ptr : ""),
                                 yaml.len);
    const pw_status status = read_events(r, &parser, yaml);
    yaml_parser_delete(&parser);
    PW_TRY(status);
    *ret_json = pw_buffer_str(&r->out);
    if (lines != NULL) {
        table->entries = (const line_entry *)(const void *)r->lines.ptr;
        table->count = r->lines.len / sizeof(line_entry);
        *lines = table;
    }
    return PW_OK;
}

int pw_yaml_line(const pw_yaml_lines *lines, pw_str json, pw_str raw_of_value)
{
    if (lines == NULL || raw_of_value.ptr == NULL || raw_of_value.ptr < json.ptr ||
        raw_of_value.ptr >= json.ptr + json.len) {
        return 0;
    }
    const size_t offset = (size_t)(raw_of_value.ptr - json.ptr);
    size_t low = 0, high = lines->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (lines->entries[middle].offset < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < lines->count && lines->entries[low].offset == offset ? lines->entries[low].line
                                                                      : 0;
}
