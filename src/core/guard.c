/* What keeps a model from hurting the turn: protocol failures (F3), repetition (F4), and which tool
 * may run (C7). */
#include "core/state.h"

#include "base/schema.h"
#include "base/utf8.h"

enum { PREVIEW_MAX = 200, SCHEMA_MAX = 700, MESSAGE_MAX = 1900 };

/* The length of the name comes first, so that no two calls make one text. */
pw_status pw_signature(const pw_session *s, const pw_part *part, pw_arena *scratch,
                       pw_short_hash *ret)
{
    pw_buffer text;
    const pw_json *tree = NULL;
    if (!part->broken && pw_json_parse(scratch, part->arguments, 0, &tree, NULL) == PW_NOMEM) {
        return PW_NOMEM;
    }
    pw_buffer_init_arena(&text, scratch, PW_BODY_MAX);
    (void)pw_buffer_reserve(&text, part->name.len + part->arguments.len + 32);
    (void)pw_buffer_u64(&text, part->name.len);
    (void)pw_buffer_byte(&text, part->broken ? '!' : ' ');
    (void)pw_buffer_add(&text, part->name);
    PW_TRY(tree ? pw_json_canonical(&text, tree, scratch) : pw_buffer_add(&text, part->arguments));
    PW_TRY(text.failed);
    *ret = pw_siphash(&s->alike, pw_buffer_str(&text));
    return PW_OK;
}

/* An error is an error whatever it says; results are alike when their bytes are. */
pw_short_hash pw_outcome_hash(const pw_session *s, pw_outcome outcome, pw_str result)
{
    return pw_siphash(&s->alike, outcome == PW_OUTCOME_DONE ? result : PW_STR("error"));
}

/* C7: none < idempotent < once; to or from transactional: as declared at the start. */
bool pw_call_tool(const pw_session *s, pw_str name, const pw_tool_declaration **ret,
                  pw_effects_class *ret_effects)
{
    const pw_tool_declaration *pinned = s->v.pinned ? pw_definition_tool(s->v.pinned, name) : NULL;
    const pw_tool_declaration *today = s->v.today ? pw_definition_tool(s->v.today, name) : NULL;
    if (!pinned) {
        return false;
    }
    *ret = pinned;
    *ret_effects = pinned->effects;
    if (!today) {
        return false;
    }
    if (pinned->effects != PW_EFFECTS_TRANSACTIONAL && today->effects != PW_EFFECTS_TRANSACTIONAL &&
        today->effects > pinned->effects) {
        *ret_effects = today->effects;
    }
    return true;
}

/* --- F3
 * ---------------------------------------------------------------------------------------------------
 */

typedef struct complaint {
    const char *code;
    pw_str what;     /* what was wrong */
    pw_str expected; /* or empty */
} complaint;

static pw_str cut(pw_str text, size_t limit)
{
    text.len = pw_utf8_cut(text, limit);
    return text;
}

static pw_status write_complaint(const pw_part *part, const complaint *c, pw_arena *arena,
                                 pw_str *ret)
{
    pw_buffer words;
    pw_str preview, name;
    PW_TRY(pw_value_text(arena, cut(part->arguments, PREVIEW_MAX), SIZE_MAX, &preview));
    PW_TRY(pw_value_text(arena, cut(part->name, 64), SIZE_MAX, &name));
    pw_buffer_init_arena(&words, arena, PW_BODY_MAX);
    (void)pw_buffer_add(&words, PW_STR("The call of "));
    (void)pw_buffer_add(&words, name.len > 0 ? name : PW_STR("a tool without a name"));
    (void)pw_buffer_add(&words, PW_STR(" was not run: "));
    (void)pw_buffer_add(&words, c->what);
    (void)pw_buffer_add(&words, PW_STR(" Arguments: "));
    (void)pw_buffer_add(&words, preview);
    if (part->arguments.len > PREVIEW_MAX) {
        (void)pw_buffer_format(&words, " [cut; %zu bytes in all]", part->arguments.len);
    }
    if (c->expected.len > 0) {
        (void)pw_buffer_add(&words, PW_STR("\nExpected: "));
        (void)pw_buffer_add(&words, cut(c->expected, SCHEMA_MAX));
        (void)pw_buffer_add(&words, c->expected.len > SCHEMA_MAX ? PW_STR(" [cut]") : PW_STR(""));
    }
    PW_TRY(words.failed);
    pw_str text = pw_buffer_str(&words);
    text.len = pw_value_escaped_cut(text, MESSAGE_MAX);
    return pw_value_of_error(arena, PW_STR_NONE, text, ret);
}

static pw_status sentence(pw_arena *arena, const char *lead, const char *why, pw_str *ret)
{
    pw_buffer out;
    pw_buffer_init_arena(&out, arena, PW_BODY_MAX);
    (void)pw_buffer_add(&out, pw_str_from(lead));
    (void)pw_buffer_add(&out, pw_str_from(why));
    (void)pw_buffer_byte(&out, '.');
    PW_TRY(out.failed);
    return pw_value_text(arena, pw_buffer_str(&out), SIZE_MAX, ret);
}

/* Are the arguments an object that fits? `c->code` stays NULL when they are. */
static pw_status judge_arguments(const pw_part *part, const pw_tool_declaration *tool,
                                 pw_arena *arena, complaint *c)
{
    c->expected = tool->input ? tool->input->raw : PW_STR("a JSON object");
    if (part->broken) {
        c->code = "broken_arguments";
        c->what = PW_STR("its arguments are not whole JSON.");
        return PW_OK;
    }
    const pw_json *tree;
    pw_error why = {0};
    pw_status status = pw_json_parse(arena, part->arguments, 0, &tree, &why);
    if (status == PW_NOMEM) {
        return status;
    }
    if (status != PW_OK) {
        c->code = "broken_arguments";
        return sentence(arena, "its arguments are not whole JSON: ", why.message, &c->what);
    }
    if (!pw_json_is(tree, PW_JSON_OBJECT)) {
        c->code = "not_an_object";
        c->what = PW_STR("its arguments are not a JSON object.");
        return PW_OK;
    }
    status = tool->input ? pw_schema_apply(tool->input, tree, arena, NULL, &why) : PW_OK;
    if (status == PW_OK || status == PW_NOMEM) {
        return status;
    }
    c->code = "schema";
    return sentence(arena, "its arguments do not fit the schema: ", why.message, &c->what);
}

pw_status pw_call_check(pw_session *s, const pw_part *part, pw_arena *arena, const char **ret_code,
                        pw_str *ret_result)
{
    const pw_tool_declaration *tool;
    pw_effects_class effects;
    complaint c = {0};
    if (!pw_call_tool(s, part->name, &tool, &effects)) {
        c.code = "unknown_tool";
        c.what = PW_STR("there is no tool of that name.");
    } else {
        PW_TRY(judge_arguments(part, tool, arena, &c));
    }
    *ret_code = c.code;
    return c.code ? write_complaint(part, &c, arena, ret_result) : PW_OK;
}
