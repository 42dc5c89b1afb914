/*
 * What an Anthropic answer means, once it is whole: blocks to neutral parts, the raw blocks that
 * must go back as they came, and the stop (PROVIDERS.md 3.4 to 3.6).
 */
#include "model/anthropic_inner.h"
#include "model/rendering.h"

/* --- Writing blocks --- */

static pw_status write_raw(pw_arena *arena, const pw_json *block, const pw_member *members,
                           size_t count, pw_str *ret)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_READING_MAX_REPLY * 7);
    PW_TRY(pw_block_write(&out, block, members, count));
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

/* --- One kind of block each --- */

static pw_status text_part(pw_arena *arena, const pw_anthropic_block *block, const pw_json *start,
                           pw_part *ret)
{
    static const char *const known[] = {"type", "text", "citations", NULL};
    const pw_str text = pw_buffer_str(&block->text);
    const pw_json *first = pw_json_get(start, "citations");
    const bool cited_first = pw_json_is(first, PW_JSON_ARRAY) && first->count > 0;
    ret->kind = PW_PART_TEXT;
    PW_TRY(pw_reading_clean_text(arena, text, &ret->text));
    if (block->citations.len == 0 && !cited_first && pw_reading_only_members(start, known)) {
        return PW_OK;
    }
    pw_member members[] = {{.name = "text"}, {.name = "citations"}};
    PW_TRY(pw_reading_string_json(arena, text, &members[0].json));
    if (block->citations.len > 0) {
        pw_buffer list;
        pw_buffer_init_arena(&list, arena, PW_READING_MAX_REPLY * 2);
        (void)pw_buffer_byte(&list, '[');
        for (const pw_json *one = cited_first ? first->child : NULL; one; one = one->next) {
            (void)pw_buffer_add(&list, one->raw);
            (void)pw_buffer_byte(&list, ',');
        }
        (void)pw_buffer_add(&list, pw_buffer_str(&block->citations));
        (void)pw_buffer_byte(&list, ']');
        PW_TRY(list.failed);
        members[1].json = pw_buffer_str(&list);
    }
    return write_raw(arena, start, members, 2, &ret->raw);
}

static pw_status thinking_part(pw_arena *arena, const pw_anthropic_block *block,
                               const pw_json *start, pw_part *ret)
{
    const pw_str text = pw_buffer_str(&block->text);
    ret->kind = PW_PART_THINKING;
    PW_TRY(pw_reading_clean_text(arena, text, &ret->text));
    if (block->signature.len == 0) {
        return PW_OK; /* unsigned: it can never be sent */
    }
    pw_member members[] = {{.name = "thinking"}, {.name = "signature"}};
    PW_TRY(pw_reading_string_json(arena, text, &members[0].json));
    PW_TRY(pw_reading_string_json(arena, block->signature, &members[1].json));
    return write_raw(arena, start, members, 2, &ret->raw);
}

/* The answer was cut where a call's arguments may have been open. */
static bool may_be_cut(const pw_anthropic_stream *s, const pw_anthropic_block *block, bool last,
                       bool silent)
{
    const bool limit = pw_str_is(s->stop_reason, "max_tokens") ||
                       pw_str_is(s->stop_reason, "model_context_window_exceeded");
    const bool normal =
        pw_str_is(s->stop_reason, "tool_use") || pw_str_is(s->stop_reason, "end_turn");
    return (!block->closed && !normal) || (limit && last && silent);
}

static pw_status tool_part(pw_anthropic_stream *s, const pw_anthropic_block *block,
                           const pw_json *start, bool last, pw_part *ret)
{
    static const char *const known[] = {"type", "id", "name", "input", NULL};
    const pw_json *input = pw_json_get(start, "input");
    const bool silent = block->text.len == 0;
    pw_str arguments = pw_str_trim(pw_buffer_str(&block->text));
    bool object = false;
    if (arguments.len > 0) {
        pw_arena_reset(&s->reading.scratch);
        const pw_json *parsed = NULL;
        const pw_status status = pw_json_parse(&s->reading.scratch, arguments, 0, &parsed, NULL);
        if (status == PW_NOMEM) {
            return status;
        }
        object = status == PW_OK && pw_json_is(parsed, PW_JSON_OBJECT);
    } else {
        const bool given = input && input->type != PW_JSON_NULL;
        arguments = given ? input->raw : PW_STR("{}");
        object = !given || pw_json_is(input, PW_JSON_OBJECT);
    }
    const bool nothing = silent && !(pw_json_is(input, PW_JSON_OBJECT) && input->count > 0);
    ret->kind = PW_PART_TOOL_CALL;
    ret->broken = !object || may_be_cut(s, block, last, nothing);
    ret->raw = pw_reading_only_members(start, known) ? PW_STR_NONE : block->start;
    PW_TRY(pw_reading_clean_text(&s->reading.kept, pw_json_text(pw_json_get(start, "id")),
                                 &ret->provider_id));
    PW_TRY(pw_reading_clean_text(&s->reading.kept, pw_json_text(pw_json_get(start, "name")),
                                 &ret->name));
    return pw_reading_clean_text(&s->reading.kept, arguments, &ret->arguments);
}

static pw_status server_part(pw_arena *arena, const pw_anthropic_block *block, const pw_json *start,
                             pw_part *ret)
{
    const pw_str input = pw_str_trim(pw_buffer_str(&block->text));
    ret->kind = PW_PART_SERVER_TOOL;
    ret->raw = block->start;
    if (input.len == 0 || !pw_json_valid(input)) {
        return PW_OK;
    }
    const pw_member members[] = {{.name = "input", .json = input}};
    return write_raw(arena, start, members, 1, &ret->raw);
}

static pw_status other_part(pw_arena *arena, const pw_anthropic_block *block, const pw_json *start,
                            pw_part *ret)
{
    ret->kind = PW_PART_OTHER;
    ret->raw = block->start;
    if (!block->assigned) {
        return PW_OK;
    }
    const pw_member members[] = {{.name = "content", .json = pw_buffer_str(&block->text)}};
    return write_raw(arena, start, members, 1, &ret->raw);
}

static pw_status make_part(pw_anthropic_stream *s, size_t index, pw_part *ret)
{
    const pw_anthropic_block *block = s->blocks[index];
    const pw_json *start = NULL;
    PW_TRY(pw_json_parse(&s->reading.kept, block->start, PW_JSON_MEND_UTF8, &start, NULL));
    if (pw_str_is(block->type, "text")) {
        return text_part(&s->reading.kept, block, start, ret);
    }
    if (pw_str_is(block->type, "thinking")) {
        return thinking_part(&s->reading.kept, block, start, ret);
    }
    if (pw_str_is(block->type, "redacted_thinking")) {
        *ret = (pw_part){.kind = PW_PART_THINKING, .raw = block->start};
        return PW_OK;
    }
    if (pw_str_is(block->type, "tool_use")) {
        return tool_part(s, block, start, index + 1 == s->block_count, ret);
    }
    if (pw_str_ends(block->type, PW_STR("_tool_use")) ||
        pw_str_ends(block->type, PW_STR("_tool_result"))) {
        return server_part(&s->reading.kept, block, start, ret);
    }
    return other_part(&s->reading.kept, block, start, ret);
}

/* --- The stop --- */

static pw_stop stop_of(const pw_anthropic_stream *s, bool asks)
{
    static const struct {
        const char *reason;
        pw_stop stop;
        bool calls_win; /* a call that is there counts more than this reason */
    } table[] = {
        {"end_turn", PW_STOP_DONE, true},
        {"tool_use", PW_STOP_DONE, true},
        {"stop_sequence", PW_STOP_STOP_SEQUENCE, true},
        {"pause_turn", PW_STOP_PAUSED, true},
        {"max_tokens", PW_STOP_MAX_OUTPUT, false},
        {"model_context_window_exceeded", PW_STOP_CONTEXT_FULL, false},
        {"refusal", PW_STOP_REFUSED, false},
        {"compaction", PW_STOP_COMPACTED, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (pw_str_is(s->stop_reason, table[i].reason)) {
            return asks && table[i].calls_win ? PW_STOP_TOOL_CALLS : table[i].stop;
        }
    }
    return asks ? PW_STOP_TOOL_CALLS : PW_STOP_DONE;
}

static bool known_reason(pw_str reason)
{
    return pw_str_is(reason, "end_turn") || pw_str_is(reason, "tool_use") ||
           pw_str_is(reason, "pause_turn") || pw_str_is(reason, "max_tokens") ||
           pw_str_is(reason, "model_context_window_exceeded") || pw_str_is(reason, "compaction");
}

pw_status pw_anthropic_reply_make(pw_anthropic_stream *s)
{
    pw_part *parts = PW_NEW_ARRAY(&s->reading.kept, pw_part, s->block_count);
    if (!parts) {
        return PW_NOMEM;
    }
    bool asks = false;
    for (size_t i = 0; i < s->block_count; i++) {
        PW_TRY(make_part(s, i, &parts[i]));
        asks |= parts[i].kind == PW_PART_TOOL_CALL;
    }
    pw_str detail = PW_STR_NONE; /* which stop sequence, why refused, or a reason we do not know */
    if (pw_str_is(s->stop_reason, "stop_sequence")) {
        detail = s->stop_sequence;
    } else if (pw_str_is(s->stop_reason, "refusal")) {
        detail = s->stop_details;
    } else if (!known_reason(s->stop_reason)) {
        detail = s->stop_reason;
    }
    s->reply = (pw_reply){.parts = parts,
                          .part_count = s->block_count,
                          .stop = stop_of(s, asks),
                          .provider = PW_STR("anthropic"),
                          .usage = s->usage};
    PW_TRY(pw_reading_clean_text(&s->reading.kept, detail, &s->reply.stop_detail));
    PW_TRY(pw_reading_clean_text(&s->reading.kept, s->id, &s->reply.response_id));
    return pw_reading_clean_text(&s->reading.kept, s->model, &s->reply.model);
}
