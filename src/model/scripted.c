/*
 * The script player: a model that answers from rules in its own options, for tests, demonstrations
 * and offline work.
 *
 * The same request gives the same answer for ever: there is no clock (the time is an argument), no
 * random number and no state; "the n-th call" is counted in the transcript itself. docs/scripted.md
 * describes the rules.
 */
#include "base/format.h"
#include "base/utf8.h"
#include "model/model.h"
#include "model/options.h"

#define CHUNK_DEFAULT 16
#define REPEAT_MOST (INT64_C(64) << 20)
#define ANSWER_MOST ((size_t)65 << 20)

static const char *const stop_names[] = {
#define STOP_NAME(name, text) [PW_STOP_##name] = text,
    PW_STOP_TABLE(STOP_NAME)
#undef STOP_NAME
};
#define STOP_COUNT (sizeof stop_names / sizeof stop_names[0])

static const char *const failure_names[] = {
#define FAILURE_NAME(name, text) [PW_FAILURE_##name] = text,
    PW_FAILURE_TABLE(FAILURE_NAME)
#undef FAILURE_NAME
};
#define FAILURE_COUNT (sizeof failure_names / sizeof failure_names[0])

static bool name_index(pw_str name, const char *const *names, size_t count, size_t *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (pw_str_is(name, names[i])) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* --- Checking a script at load --- */

static const pw_option model_options[] = {
    {.name = "provider", .type = PW_OPTION_STRING},
    {.name = "fallback", .type = PW_OPTION_ARRAY}, /* read with the definition */
    {.name = "name", .type = PW_OPTION_STRING, .required = true},
    {.name = "script", .type = PW_OPTION_ARRAY, .required = true},
    {.name = "max_tokens", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
    {.name = "first_token_timeout_ms", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
    {.name = "idle_timeout_ms", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
};
static const pw_option rule_options[] = {
    {.name = "when", .type = PW_OPTION_OBJECT},
    {.name = "delay", .type = PW_OPTION_DURATION},
    {.name = "think", .type = PW_OPTION_STRING},
    {.name = "text", .type = PW_OPTION_STRING},
    {.name = "repeat", .type = PW_OPTION_INTEGER, .least = 0, .most = REPEAT_MOST},
    {.name = "chunk", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
    {.name = "pace", .type = PW_OPTION_DURATION},
    {.name = "calls", .type = PW_OPTION_ARRAY},
    {.name = "stop", .type = PW_OPTION_STRING},
    {.name = "usage", .type = PW_OPTION_OBJECT},
    {.name = "error", .type = PW_OPTION_OBJECT},
    {.name = "cut", .type = PW_OPTION_BOOLEAN},
    {.name = "accepted", .type = PW_OPTION_STRING},
};
static const pw_option when_options[] = {
    {.name = "last", .type = PW_OPTION_STRING},
    {.name = "resume", .type = PW_OPTION_STRING},
    {.name = "role", .type = PW_OPTION_STRING},
    {.name = "tool", .type = PW_OPTION_STRING},
    {.name = "is_error", .type = PW_OPTION_BOOLEAN},
    {.name = "turn", .type = PW_OPTION_STRING},
    {.name = "step", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
    {.name = "try", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
    {.name = "attempt", .type = PW_OPTION_INTEGER, .least = 1, .most = 1 << 30},
};
static const pw_option call_options[] = {
    {.name = "name", .type = PW_OPTION_STRING, .required = true},
    {.name = "arguments", .type = PW_OPTION_ANY},
    {.name = "broken", .type = PW_OPTION_STRING},
    {.name = "id", .type = PW_OPTION_STRING},
};
static const pw_option usage_options[] = {
    {.name = "input_tokens", .type = PW_OPTION_INTEGER, .least = 0, .most = INT64_MAX},
    {.name = "output_tokens", .type = PW_OPTION_INTEGER, .least = 0, .most = INT64_MAX},
    {.name = "cached_tokens", .type = PW_OPTION_INTEGER, .least = 0, .most = INT64_MAX},
    {.name = "reasoning_tokens", .type = PW_OPTION_INTEGER, .least = 0, .most = INT64_MAX},
    {.name = "cost_usd", .type = PW_OPTION_ANY},
};
static const pw_option error_options[] = {
    {.name = "class", .type = PW_OPTION_STRING},
    {.name = "code", .type = PW_OPTION_STRING},
    {.name = "message", .type = PW_OPTION_STRING},
    {.name = "after", .type = PW_OPTION_DURATION},
};
#define CHECK(object, where, table, error)                                                         \
    pw_options_check((object), (where), (table), sizeof(table) / sizeof(table)[0], (error))

static pw_status check_names(const pw_json *rule, const char *where, pw_error *error)
{
    size_t ignored = 0;
    const pw_json *stop = pw_json_get(rule, "stop");
    if (stop && !name_index(stop->text, stop_names, STOP_COUNT, &ignored)) {
        return PW_FAIL(error, PW_INVALID, "%sstop: there is no stop reason %.*s", where,
                       PW_STR_ARG(stop->text));
    }
    const pw_json *class = pw_json_get(pw_json_get(rule, "error"), "class");
    if (class && !name_index(class->text, failure_names, FAILURE_COUNT, &ignored)) {
        return PW_FAIL(error, PW_INVALID,
                       "%serror.class: expected retry, wait, repair, next or fail, not %.*s", where,
                       PW_STR_ARG(class->text));
    }
    const pw_json *role = pw_json_get(pw_json_get(rule, "when"), "role");
    if (role && !pw_str_is(role->text, "user") && !pw_str_is(role->text, "tool")) {
        return PW_FAIL(error, PW_INVALID, "%swhen.role: expected user or tool, not %.*s", where,
                       PW_STR_ARG(role->text));
    }
    const pw_json *cost = pw_json_get(pw_json_get(rule, "usage"), "cost_usd");
    int64_t micros = 0;
    if (cost && cost->type != PW_JSON_NULL && (!pw_json_micros(cost, &micros) || micros < 0)) {
        return PW_FAIL(error, PW_INVALID, "%susage.cost_usd: expected an amount or null", where);
    }
    return PW_OK;
}

static pw_status check_part(const pw_json *rule, const char *name, const pw_option *table,
                            size_t count, const char *where, pw_error *error)
{
    const pw_json *part = pw_json_get(rule, name);
    char path[96];
    pw_format(path, sizeof path, "%s%s.", where, name);
    return part ? pw_options_check(part, path, table, count, error) : PW_OK;
}

static pw_status check_rule(const pw_json *rule, size_t index, pw_error *error)
{
    char where[64];
    pw_format(where, sizeof where, "model.script[%zu].", index);
    PW_TRY(CHECK(rule, where, rule_options, error));
    PW_TRY(check_part(rule, "when", when_options, sizeof when_options / sizeof when_options[0],
                      where, error));
    PW_TRY(check_part(rule, "usage", usage_options, sizeof usage_options / sizeof usage_options[0],
                      where, error));
    PW_TRY(check_part(rule, "error", error_options, sizeof error_options / sizeof error_options[0],
                      where, error));
    const pw_json *calls = pw_json_get(rule, "calls");
    size_t i = 0;
    for (const pw_json *call = calls ? calls->child : NULL; call; call = call->next, i++) {
        char path[96];
        pw_format(path, sizeof path, "%scalls[%zu].", where, i);
        PW_TRY(CHECK(call, path, call_options, error));
    }
    return check_names(rule, where, error);
}

static pw_status scripted_check(const pw_json *model, pw_arena *scratch, pw_error *error)
{
    (void)scratch;
    PW_TRY(CHECK(model, "model.", model_options, error));
    size_t i = 0;
    for (const pw_json *rule = pw_json_get(model, "script")->child; rule; rule = rule->next, i++) {
        PW_TRY(check_rule(rule, i, error));
    }
    return PW_OK;
}

/* --- Finding the rule --- */

static pw_status message_text(const pw_message *message, pw_arena *arena, pw_str *ret)
{
    if (message->role == PW_ROLE_TOOL) {
        const pw_json *result = NULL;
        *ret = message->result;
        if (message->result.len == 0 || message->result.ptr[0] != '"') {
            return PW_OK;
        }
        const pw_status status =
            pw_json_parse(arena, message->result, PW_JSON_MEND_UTF8, &result, NULL);
        if (status != PW_OK) {
            return status == PW_NOMEM ? status : PW_OK;
        }
        pw_buffer clean;
        pw_buffer_init_arena(&clean, arena, ANSWER_MOST);
        PW_TRY(pw_utf8_mend(&clean, result->text));
        *ret = pw_buffer_str(&clean);
        return PW_OK;
    }
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, ANSWER_MOST);
    for (size_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].kind == PW_PART_TEXT) {
            PW_TRY(pw_buffer_add(&text, message->parts[i].text));
        }
    }
    *ret = pw_buffer_str(&text);
    return PW_OK;
}

static bool contains(pw_str text, pw_str what)
{
    return what.len == 0 || pw_str_find(text, what) != SIZE_MAX;
}

/* One of the results after the last assistant message is of this tool and, when asked, (no) error.
 */
static bool just_answered(const pw_model_request *request, const pw_json *tool,
                          const pw_json *is_error)
{
    for (size_t i = request->count; i-- > 0;) {
        const pw_message *message = request->messages[i];
        if (message->role != PW_ROLE_TOOL) {
            return false;
        }
        if ((!tool || pw_str_equal(message->name, tool->text)) &&
            (!is_error || message->is_error == is_error->truth)) {
            return true;
        }
    }
    return false;
}

static pw_status turn_says(const pw_model_request *request, pw_str what, pw_arena *arena, bool *ret)
{
    *ret = false;
    for (size_t i = 0; i < request->count && !*ret; i++) {
        const pw_message *message = request->messages[i];
        if ((message->role == PW_ROLE_USER || message->role == PW_ROLE_TRIGGER) &&
            pw_str_equal(message->turn, request->turn)) {
            pw_str text = PW_STR_NONE;
            PW_TRY(message_text(message, arena, &text));
            *ret = contains(text, what);
        }
    }
    return PW_OK;
}

static int64_t step_number(const pw_model_request *request)
{
    int64_t step = 1;
    for (size_t i = 0; i < request->count; i++) {
        step += request->messages[i]->role == PW_ROLE_ASSISTANT &&
                pw_str_equal(request->messages[i]->turn, request->turn);
    }
    return step;
}

static pw_status rule_matches(const pw_json *rule, const pw_model_request *request, pw_str last,
                              pw_arena *arena, bool *ret)
{
    *ret = true;
    const pw_json *when = pw_json_get(rule, "when");
    if (!when) {
        return PW_OK;
    }
    const pw_message *end = request->count ? request->messages[request->count - 1] : NULL;
    const pw_json *role = pw_json_get(when, "role");
    const pw_json *tool = pw_json_get(when, "tool");
    const pw_json *is_error = pw_json_get(when, "is_error");
    const pw_json *resume = pw_json_get(when, "resume");
    const bool ends_in_tool = end && end->role == PW_ROLE_TOOL;
    *ret =
        contains(last, pw_json_text(pw_json_get(when, "last"))) &&
        (!role || pw_str_is(role->text, "tool") == ends_in_tool) &&
        (!resume || pw_str_equal(resume->text, request->resume)) &&
        ((!tool && !is_error) || just_answered(request, tool, is_error)) &&
        pw_json_i64_or(pw_json_get(when, "step"), step_number(request)) == step_number(request) &&
        pw_json_i64_or(pw_json_get(when, "try"), request->tries) == request->tries &&
        pw_json_i64_or(pw_json_get(when, "attempt"), request->attempt) == request->attempt;
    const pw_json *turn = pw_json_get(when, "turn");
    return *ret && turn ? turn_says(request, turn->text, arena, ret) : PW_OK;
}

/* --- Playing it --- */

typedef struct player {
    pw_arena *arena;
    const pw_model_request *request;
    const pw_json *rule; /* NULL: no rule matches */
    pw_str last;
    int64_t now_ms;
    pw_play *list;
    size_t count, capacity;
    int64_t delay_ms; /* before the next entry */
} player;

static pw_status add(player *p, pw_play entry)
{
    if (p->count == p->capacity) {
        const size_t capacity = p->capacity ? p->capacity * 2 : 16;
        pw_play *list = PW_NEW_ARRAY(p->arena, pw_play, capacity);
        if (!list) {
            return PW_NOMEM;
        }
        if (p->count > 0) {
            memcpy(list, p->list, p->count * sizeof *list);
        }
        p->list = list;
        p->capacity = capacity;
    }
    entry.delay_ms = p->delay_ms;
    p->delay_ms = 0;
    p->list[p->count++] = entry;
    return PW_OK;
}

/* `text` with every {{last}} replaced; inside JSON the replacement is escaped. */
static pw_status fill(player *p, pw_str text, bool json, pw_str *ret)
{
    const pw_str mark = PW_STR("{{last}}");
    pw_buffer out;
    pw_buffer_init_arena(&out, p->arena, ANSWER_MOST);
    for (;;) {
        const size_t at = pw_str_find(text, mark);
        if (at == SIZE_MAX) {
            break;
        }
        (void)pw_buffer_add(&out, pw_str_slice(text, 0, at));
        if (json) {
            pw_json_escape(&out, p->last);
        } else {
            (void)pw_buffer_add(&out, p->last);
        }
        text = pw_str_slice(text, at + mark.len, text.len);
    }
    (void)pw_buffer_add(&out, text);
    *ret = out.len > 0 ? pw_buffer_str(&out) : PW_STR("");
    return out.failed;
}

static pw_status fill_repeat(player *p, pw_str *text)
{
    static const char filler[] = "The quick brown fox jumps over the lazy dog. ";
    int64_t more = pw_json_i64_or(pw_json_get(p->rule, "repeat"), 0);
    if (more <= 0) {
        return PW_OK;
    }
    pw_buffer out;
    pw_buffer_init_arena(&out, p->arena, ANSWER_MOST * 2);
    PW_TRY(pw_buffer_reserve(&out, text->len + (size_t)more));
    (void)pw_buffer_add(&out, *text);
    while (more > 0) {
        const size_t piece = more < (int64_t)sizeof filler - 1 ? (size_t)more : sizeof filler - 1;
        (void)pw_buffer_add(&out, (pw_str){filler, piece});
        more -= (int64_t)piece;
    }
    *text = pw_buffer_str(&out);
    return out.failed;
}

static size_t characters(pw_str text, int64_t count)
{
    size_t at = 0;
    while (at < text.len && count > 0) {
        at++;
        while (at < text.len && ((uint8_t)text.ptr[at] & 0xC0) == 0x80) {
            at++;
        }
        count--;
    }
    return at;
}

static pw_status stream_text(player *p, pw_str text, pw_play_kind kind)
{
    const int64_t chunk = pw_json_i64_or(pw_json_get(p->rule, "chunk"), CHUNK_DEFAULT);
    const int64_t pace = pw_option_duration(pw_json_get(p->rule, "pace"), 0);
    while (text.len > 0) {
        const size_t piece = characters(text, chunk);
        p->delay_ms += pace;
        PW_TRY(add(p, (pw_play){.kind = kind, .bytes = pw_str_slice(text, 0, piece)}));
        text = pw_str_slice(text, piece, text.len);
    }
    return PW_OK;
}

static pw_usage usage_of(const pw_json *rule)
{
    const pw_json *said = pw_json_get(rule, "usage");
    const pw_json *cost = pw_json_get(said, "cost_usd");
    pw_usage usage = {.in_uncached = pw_json_i64_or(pw_json_get(said, "input_tokens"), 0),
                      .in_cache_read = pw_json_i64_or(pw_json_get(said, "cached_tokens"), 0),
                      .out = pw_json_i64_or(pw_json_get(said, "output_tokens"), 0),
                      .reasoning = pw_json_i64_or(pw_json_get(said, "reasoning_tokens"), 0)};
    if (cost && cost->type == PW_JSON_NULL) {
        usage.cost_micros = -1;
    } else if (cost) {
        (void)pw_json_micros(cost, &usage.cost_micros);
    }
    return usage;
}

static pw_status call_part(player *p, const pw_json *call, size_t position, pw_part *ret)
{
    const pw_json *arguments = pw_json_get(call, "arguments");
    const pw_json *broken = pw_json_get(call, "broken");
    const pw_json *id = pw_json_get(call, "id");
    *ret = (pw_part){.kind = PW_PART_TOOL_CALL, .name = pw_json_text(pw_json_get(call, "name"))};
    ret->broken = broken || (arguments && !pw_json_is(arguments, PW_JSON_OBJECT));
    ret->arguments = broken ? broken->text : PW_STR("{}");
    if (!broken && arguments) {
        PW_TRY(fill(p, arguments->raw, true, &ret->arguments));
    }
    char made[32];
    pw_format(made, sizeof made, "call_%zu", position);
    return pw_arena_dup(p->arena, id ? id->text : pw_str_from(made), &ret->provider_id);
}

static pw_status make_reply(player *p, pw_str think, pw_str text, pw_reply *ret)
{
    const pw_json *calls = pw_json_get(p->rule, "calls");
    const size_t call_count = calls ? calls->count : 0;
    pw_part *parts = PW_NEW_ARRAY(p->arena, pw_part, call_count + 2);
    if (!parts) {
        return PW_NOMEM;
    }
    size_t count = 0, position = 0;
    if (think.len > 0) {
        parts[count++] = (pw_part){.kind = PW_PART_THINKING, .text = think};
    }
    if (text.len > 0) {
        parts[count++] = (pw_part){.kind = PW_PART_TEXT, .text = text};
    }
    for (const pw_json *call = calls ? calls->child : NULL; call; call = call->next) {
        PW_TRY(call_part(p, call, ++position, &parts[count++]));
    }
    size_t stop = call_count > 0 ? PW_STOP_TOOL_CALLS : PW_STOP_DONE;
    const pw_json *stop_name = pw_json_get(p->rule, "stop");
    if (stop_name) {
        (void)name_index(stop_name->text, stop_names, STOP_COUNT, &stop);
    }
    char id[64];
    pw_format(id, sizeof id, "scripted-%lld-%d", (long long)step_number(p->request),
              (int)p->request->tries);
    *ret = (pw_reply){.parts = parts,
                      .part_count = count,
                      .stop = (pw_stop)stop,
                      .model = p->request->model->name,
                      .provider = PW_STR("scripted"),
                      .usage = usage_of(p->rule)};
    return pw_arena_dup(p->arena, pw_str_from(id), &ret->response_id);
}

static pw_failure make_failure(const player *p, const pw_json *error)
{
    size_t class = PW_FAILURE_RETRY;
    const pw_json *code = pw_json_get(error, "code");
    const pw_json *message = pw_json_get(error, "message");
    const pw_json *after = pw_json_get(error, "after");
    (void)name_index(pw_json_text(pw_json_get(error, "class")), failure_names, FAILURE_COUNT,
                     &class);
    return (pw_failure){.failure_class = (pw_failure_class) class,
                        .code = code ? code->text : PW_STR("scripted"),
                        .message = message ? message->text : PW_STR("the script says so"),
                        .until_ms = after ? p->now_ms + pw_option_duration(after, 0) : 0,
                        .usage = usage_of(p->rule)};
}

static pw_status play(player *p)
{
    pw_str think = PW_STR(""), text = PW_STR("(no rule of the script matches)");
    if (p->rule) {
        p->delay_ms = pw_option_duration(pw_json_get(p->rule, "delay"), 0);
        PW_TRY(fill(p, pw_json_text(pw_json_get(p->rule, "think")), false, &think));
        PW_TRY(fill(p, pw_json_text(pw_json_get(p->rule, "text")), false, &text));
        PW_TRY(fill_repeat(p, &text));
    }
    const pw_str accepted = pw_json_text(pw_json_get(p->rule, "accepted"));
    if (accepted.len > 0) { /* at once: what delays the answer comes after it */
        const int64_t delay_ms = p->delay_ms;
        p->delay_ms = 0;
        PW_TRY(add(p, (pw_play){.kind = PW_PLAY_ACCEPTED, .bytes = accepted}));
        p->delay_ms = delay_ms;
    }
    PW_TRY(stream_text(p, think, PW_PLAY_REASONING));
    PW_TRY(stream_text(p, text, PW_PLAY_DELTA));
    const pw_json *error = pw_json_get(p->rule, "error");
    if (error) {
        return add(p, (pw_play){.kind = PW_PLAY_FAILED, .failure = make_failure(p, error)});
    }
    if (pw_json_true(pw_json_get(p->rule, "cut"))) {
        const pw_str message = PW_STR("the stream ended before its end");
        pw_failure failure = pw_transport_failure("cut_off", message);
        failure.usage = usage_of(p->rule);
        return add(p, (pw_play){.kind = PW_PLAY_FAILED, .failure = failure});
    }
    pw_play last = {.kind = PW_PLAY_REPLY};
    PW_TRY(make_reply(p, think, text, &last.reply));
    return add(p, last);
}

pw_status pw_scripted_play(const pw_model_request *request, int64_t now_ms, pw_arena *arena,
                           const pw_play **ret, size_t *ret_count, pw_error *error)
{
    player p = {.arena = arena, .request = request, .now_ms = now_ms};
    const pw_json *script = pw_json_get(request->model->options, "script");
    pw_status status = PW_OK;
    if (request->count > 0) {
        status = message_text(request->messages[request->count - 1], arena, &p.last);
    }
    const pw_json *rule = pw_json_is(script, PW_JSON_ARRAY) ? script->child : NULL;
    for (; rule && status == PW_OK && !p.rule; rule = rule->next) {
        bool matches = false;
        status = rule_matches(rule, request, p.last, arena, &matches);
        p.rule = matches ? rule : NULL;
    }
    if (status == PW_OK) {
        status = play(&p);
    }
    if (status != PW_OK) {
        return PW_FAIL(error, status, "the script's answer could not be made");
    }
    *ret = p.list;
    *ret_count = p.count;
    return PW_OK;
}

const pw_provider pw_provider_scripted = {
    .name = "scripted",
    .default_base_url = "",
    .default_key_env = "",
    .local = true,
    .check = scripted_check,
};
