/*
 * The world: a model that says anything a model may say, tools that do and answer anything a tool
 * may, and what they did. All of it is a function of the seed and of names, so that the same call
 * of the same plan goes the same way.
 */
#include "sim.h"

static const char *const tool_names[] = {"look", "scan", "put", "pay", "book", "gone"};

static const char *const words[] = {
    "one ",         "two ",       "caf\xc3\xa9 ", "\xe2\x82\xac ", "\xf0\x9f\x90\xa6 ",
    "it is done. ", "\\ and \" ", "line\n"};

static pw_str random_text(sim *s, pw_random *r, uint64_t most)
{
    char room[400];
    size_t length = 0;
    for (uint64_t i = 1 + pw_random_below(r, most); i > 0; i--) {
        const char *word = words[pw_random_below(r, 8)];
        memcpy(room + length, word, strlen(word));
        length += strlen(word);
    }
    return sim_dup(s, (pw_str){room, length});
}

uint64_t world_parts_hash(const pw_part *parts, size_t count, bool with_calls)
{
    uint64_t h = 17;
    for (size_t i = 0; i < count; i++) {
        const pw_part *p = &parts[i];
        h = sim_mix(h, (uint64_t)p->kind);
        h = sim_hash(p->text, h);
        h = sim_hash(p->provider_id, h);
        h = sim_hash(p->name, h);
        h = sim_hash(p->arguments, h);
        h = sim_hash(p->raw, h);
        if (with_calls) {
            h = sim_hash(p->call, h);
        }
    }
    return h;
}

/* Of a JSON value, however it is spaced and escaped; numbers by their text (C8). */
uint64_t world_value_hash(pw_str json)
{
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 4096, 0);
    const pw_json *value = NULL;
    pw_buffer out;
    pw_buffer_init_arena(&out, &arena, 1 << 20);
    if (pw_json_parse(&arena, json, 0, &value, NULL) == PW_OK) {
        (void)pw_json_canonical(&out, value, &arena);
    }
    uint64_t hash = sim_hash(pw_buffer_str(&out), 2);
    pw_arena_free(&arena);
    return hash;
}

/* --- What a model says ------------------------------------------------------------------------ */

static pw_str provider_id(sim *s, pw_random *r, uint64_t style, size_t at)
{
    switch (style) {
    case 0:
        return PW_STR_NONE;
    case 1:
        return PW_STR("call_1"); /* in every message, and twice in one */
    case 2:
        return PW_STR("call/1 \xc3\xa9");
    case 3:
        return PW_STR(
            "toolu_0123456789012345678901234567890123456789012345678901234567890123456789");
    case 4:
        return sim_format(s, "call_%d", (int)at); /* the same ones in each message */
    default:
        return sim_format(s, "call_%llx", (unsigned long long)pw_random_next(r));
    }
}

static void add_call(sim *s, sim_said *said, pw_random *r, const char *name)
{
    static const char *const arguments[] = {"{\"x\":1}",
                                            "{}",
                                            "{\"x\":1.10,\"deep\":{\"a\":[1,2,{\"b\":null}]}}",
                                            "{ \"x\" : 7 , \"s\":\"\\u00e9\" }",
                                            "{\"x\":12345678901234567890,\"y\":1e400}",
                                            "{\"x\":\"no number\"}",
                                            "[1]",
                                            "null",
                                            "\"text\""};
    pw_part *p = &said->parts[said->reply.part_count];
    *p = (pw_part){.kind = PW_PART_TOOL_CALL};
    p->provider_id = provider_id(s, r, pw_random_below(r, 16), said->reply.part_count);
    p->name = pw_str_from(name);
    uint64_t roll = pw_random_below(r, 100);
    if (roll < 4 && !s->plan->story) {
        p->broken = true;
        p->arguments = roll < 2 ? PW_STR("{\"x\":") : PW_STR("");
    } else {
        p->arguments =
            pw_str_from(arguments[roll < 75 || s->plan->story ? 0 : pw_random_below(r, 9)]);
    }
    said->reply.part_count++;
}

static void add_text(sim *s, sim_said *said, pw_random *r)
{
    said->text = random_text(s, r, 12);
    said->parts[said->reply.part_count++] = (pw_part){.kind = PW_PART_TEXT, .text = said->text};
    int32_t pieces = 0;
    for (size_t from = 0; from < said->text.len && pieces < 4; pieces++) {
        from += pw_utf8_cut(pw_str_slice(said->text, from, said->text.len), 7);
    }
    said->pieces = pw_random_below(r, 3) == 0 ? 0 : pieces;
}

static void add_thinking(sim *s, sim_said *said, pw_random *r)
{
    pw_part *p = &said->parts[said->reply.part_count++];
    *p = (pw_part){.kind = PW_PART_THINKING, .text = random_text(s, r, 4)};
    p->raw = sim_format(s, "{\"type\":\"thinking\",  \"signature\":\"%llx==\"}",
                        (unsigned long long)pw_random_next(r));
}

static void say_calls(sim *s, sim_said *said, pw_random *r)
{
    uint64_t count = 1 + pw_random_below(r, s->plan->many ? 6 : 3);
    bool same = pw_random_below(r, 12) == 0; /* stuck: the same call over and over (F4) */
    for (uint64_t i = 0; i < count && said->reply.part_count < 8; i++) {
        uint64_t roll = pw_random_below(r, 23);
        add_call(s, said, r, same ? "look" : tool_names[roll < 20 ? roll % 5 : roll < 22 ? 0 : 5]);
    }
    said->reply.stop = PW_STOP_TOOL_CALLS;
}

static void say_failure(sim *s, sim_said *said, pw_random *r)
{
    static const char *const codes[] = {"cut_off", "connect", "http_500", "stalled"};
    static const int64_t waits[] = {200, 3000, 9000, 40000};
    uint64_t roll = pw_random_below(r, 100);
    said->fails = true;
    said->failure = (pw_failure){.failure_class = PW_FAILURE_RETRY,
                                 .code = pw_str_from(codes[roll % 4]),
                                 .message = PW_STR("it went wrong"),
                                 .usage = {roll % 2 ? 5 : -1, -1, -1, roll % 3 ? 2 : -1, -1, -1}};
    if (roll % 4 == 3) {
        said->piece_ms = 20000;
    }
    if (roll < 22) {
        said->failure.failure_class = PW_FAILURE_WAIT;
        said->failure.code = PW_STR("rate_limit_error");
        said->failure.until_ms = roll == 0 ? 0 : sim_wall(s) + waits[pw_random_below(r, 4)];
    } else if (roll < 30) {
        said->failure.failure_class = PW_FAILURE_NEXT;
        said->failure.code = PW_STR("not_found_error");
    } else if (roll < 33) {
        said->failure.failure_class = PW_FAILURE_FINAL;
        said->failure.code = PW_STR("invalid_request_error");
    } else if (roll < 38) {
        said->failure.failure_class = PW_FAILURE_REPAIR;
        said->failure.code = PW_STR("context_length");
    }
    add_text(s, said, r);
    said->reply.part_count = 0;
    said->pieces = roll % 4 == 0 ? 2 : 0;
    if (said->text.len < 30) {
        said->pieces = 0;
    }
}

static bool may_leave(const pw_message *m, const pw_part *part)
{
    const bool person = m->role == PW_ROLE_USER && !part->left_out;
    const bool model = m->role == PW_ROLE_ASSISTANT && part->kind == PW_PART_THINKING;
    return person || (model && !part->left_out);
}

/* The provider complains about a part of the request by its position: any part, also one that
 * must stay, or one that is not there. */
static void say_rejected(sim_said *said, pw_random *r, const pw_model_request *q, bool any)
{
    size_t at = (size_t)pw_random_below(r, q->count + 1);
    for (size_t i = 0; !any && i < q->count; i++) { /* a story's: the first image that is left */
        const pw_message *m = q->messages[i];
        at = m->role == PW_ROLE_USER && m->part_count > 1 && m->parts[1].kind == PW_PART_OTHER ? i
                                                                                               : at;
    }
    const pw_message *m = at < q->count ? q->messages[at] : NULL;
    const size_t part = !any ? 1 : m ? (size_t)pw_random_below(r, m->part_count + 1) : 0;
    said->fails = true;
    said->failure = (pw_failure){.failure_class = PW_FAILURE_FINAL,
                                 .code = PW_STR("rejected"),
                                 .message = PW_STR("that part is bad"),
                                 .usage = PW_USAGE_UNKNOWN,
                                 .rejected = true,
                                 .rejected_message = at,
                                 .rejected_part = part};
    said->rejects = (sim_part){.seq = m ? m->seq : UINT64_MAX, .part = part};
    said->may_leave = m && part < m->part_count && may_leave(m, &m->parts[part]);
    said->pieces = 0;
}

/* A model that is down for this turn: whatever is asked of it fails until the next one is asked. */
static bool is_down(const sim *s, const pw_model_request *q)
{
    return q->definition->model_count > 1 && s->plan->failures > 0 && !s->plan->story &&
           sim_chance(s, sim_hash(q->turn, 9), sim_hash(q->model->name, 3), 8) == 0;
}

static void say_down(sim *s, sim_said *said, const pw_model_request *q)
{
    const bool next = sim_chance(s, sim_hash(q->turn, 4), 0, 2) == 0;
    said->fails = true;
    said->failure = (pw_failure){.failure_class = next ? PW_FAILURE_NEXT : PW_FAILURE_RETRY,
                                 .code = next ? PW_STR("not_found_error") : PW_STR("http_500"),
                                 .message = PW_STR("it is down"),
                                 .usage = PW_USAGE_UNKNOWN};
}

static void say_odd(sim *s, sim_said *said, pw_random *r)
{
    static const pw_stop stops[] = {PW_STOP_MAX_OUTPUT, PW_STOP_STOP_SEQUENCE, PW_STOP_REFUSED,
                                    PW_STOP_FILTERED};
    uint64_t roll = pw_random_below(r, 100);
    if (roll < 20) {
        said->reply.stop = PW_STOP_DONE; /* nothing in it */
    } else if (roll < 28) {
        said->reply.stop = stops[roll % 4]; /* an abnormal end with nothing in it */
    } else if (roll < 40) {
        add_text(s, said, r);
        said->reply.stop = PW_STOP_PAUSED;
    } else if (roll < 46) {
        add_text(s, said, r);
        said->reply.stop = PW_STOP_CONTEXT_FULL;
    } else if (roll < 60) { /* calls, and an end that does not say so */
        say_calls(s, said, r);
        said->reply.stop = roll % 2 ? PW_STOP_DONE : PW_STOP_MAX_OUTPUT;
    } else if (roll < 64) { /* says calls, has none */
        add_text(s, said, r);
        said->reply.stop = PW_STOP_TOOL_CALLS;
    } else if (roll < 70) {
        add_thinking(s, said, r); /* and nothing more */
        said->reply.stop = PW_STOP_DONE;
    } else {
        add_text(s, said, r);
        said->reply.stop = stops[roll % 4];
        said->reply.stop_detail = PW_STR("why");
    }
}

static void say_story(sim *s, const sim_ledger *l, sim_said *said, pw_random *r,
                      const pw_model_request *q, const char *line)
{
    char token[16];
    said->reply.stop = PW_STOP_TOOL_CALLS;
    while (*line) {
        size_t length = strcspn(line, "+");
        PW_ASSERT(length < sizeof token);
        memcpy(token, line, length);
        token[length] = '\0';
        line += length + (line[length] == '+');
        if (strcmp(token, "text") == 0) {
            add_text(s, said, r);
            said->reply.stop = PW_STOP_DONE;
        } else if (strcmp(token, "retry") == 0 || strcmp(token, "wait") == 0 ||
                   strcmp(token, "next") == 0) {
            said->fails = true;
            said->failure = (pw_failure){.failure_class = PW_FAILURE_RETRY,
                                         .code = PW_STR("cut_off"),
                                         .message = PW_STR("cut"),
                                         .usage = PW_USAGE_UNKNOWN};
            if (token[0] == 'w') {
                said->failure.failure_class = PW_FAILURE_WAIT;
                said->failure.until_ms = sim_wall(s) + 9000;
                said->failure.code = PW_STR("rate_limit_error");
            } else if (token[0] == 'n') {
                said->failure.failure_class = PW_FAILURE_NEXT;
                said->failure.code = PW_STR("not_found_error");
            }
        } else if (strcmp(token, "accept") == 0) {
            said->response = sim_format(s, "resp_%d", l->asks);
        } else if (strcmp(token, "reject") == 0) {
            say_rejected(said, r, q, false);
        } else if (strcmp(token, "empty") == 0) {
            said->reply.stop = PW_STOP_DONE;
        } else if (strcmp(token, "paused") == 0) {
            add_text(s, said, r);
            said->reply.stop = PW_STOP_PAUSED;
        } else {
            add_call(s, said, r, sim_dup(s, pw_str_from(token)).ptr);
        }
    }
}

/* What was said under this id, once more from its beginning, or why that is not possible. false: it
 * goes on as a story says. */
static bool resume(sim *s, const sim_ledger *l, sim_said *said, pw_random *r,
                   const pw_model_request *request)
{
    const sim_said *before = NULL;
    for (int32_t i = 0; i < s->call_count && !before; i++) {
        const sim_call *c = &s->calls[i];
        if (c->model && &s->ledgers[c->session] == l && c->said &&
            pw_str_equal(c->said->response, request->resume)) {
            before = c->said;
        }
    }
    if (!before) {
        sim_fail(s, "G6", "%s: a reply is resumed that nobody began: %.*s", l->name,
                 PW_STR_ARG(request->resume));
        return true;
    }
    const uint64_t roll = s->plan->story || l->asked > 16 ? 99 : pw_random_below(r, 100);
    said->response = before->response;
    if (roll < 12) {
        said->fails = true;
        said->response = PW_STR_NONE;
        said->failure = (pw_failure){.failure_class = PW_FAILURE_RETRY,
                                     .code = PW_STR("response_gone"),
                                     .message = PW_STR("there is no such response"),
                                     .usage = PW_USAGE_UNKNOWN};
    } else if (roll < 30) {
        said->fails = true;
        said->failure = (pw_failure){.failure_class = PW_FAILURE_RETRY,
                                     .code = roll < 24 ? PW_STR("cut_off") : PW_STR("http_500"),
                                     .message = PW_STR("cut"),
                                     .usage = PW_USAGE_UNKNOWN};
    } else if (roll < 42) {
        static const int64_t waits_ms[] = {0, 2000, 9000};
        const int64_t wait_ms = waits_ms[roll % 3];
        said->fails = true;
        said->failure =
            (pw_failure){.failure_class = wait_ms > 0 ? PW_FAILURE_WAIT : PW_FAILURE_RETRY,
                         .code = PW_STR("busy"),
                         .message = PW_STR("busy"),
                         .until_ms = wait_ms > 0 ? sim_wall(s) + wait_ms : 0,
                         .usage = PW_USAGE_UNKNOWN,
                         .still_works = true};
    } else if (!before->fails) {
        const int64_t piece_ms = said->piece_ms;
        *said = *before;
        said->reply.parts = said->parts;
        said->piece_ms = piece_ms;
    } else if (s->plan->story) {
        return false;
    } else {
        add_text(s, said, r);
    }
    return true;
}

sim_said *world_model(sim *s, sim_ledger *l, const pw_model_request *request)
{
    sim_said *said = PW_NEW(&s->arena, sim_said);
    PW_ASSERT(said);
    l->asked = pw_str_equal(l->asked_step, request->step) ? l->asked + 1 : 1;
    l->asked_step = sim_dup(s, request->step);
    pw_random r = {sim_mix(sim_hash(request->step, s->plan->seed),
                           (uint64_t)(l - s->ledgers) * 64 + (uint64_t)l->asked)};
    said->reply = (pw_reply){.parts = said->parts,
                             .stop = PW_STOP_DONE,
                             .provider = sim_dup(s, request->model->provider),
                             .model = sim_dup(s, request->model->name),
                             .usage = PW_USAGE_UNKNOWN};
    if (pw_random_below(&r, 9) == 0) { /* it does not say who it is: the one that was asked */
        said->reply.provider = said->reply.model = PW_STR_NONE;
    }
    said->piece_ms = 1 + (int64_t)pw_random_below(&r, 300);
    if (pw_random_below(&r, 6) > 0) {
        said->reply.usage =
            (pw_usage){(int64_t)pw_random_below(&r, 60), 3, -1,
                       (int64_t)pw_random_below(&r, 40), 1, pw_random_below(&r, 3) ? 300 : -1};
    }
    if (request->resume.len > 0 && resume(s, l, said, &r, request)) {
        return said;
    }
    int32_t at = l->asks++;
    uint64_t roll = pw_random_below(&r, 100);
    if (!s->plan->story && pw_random_below(&r, 3) == 0) {
        said->response = sim_format(s, "resp_%llx", (unsigned long long)pw_random_next(&r));
    }
    const char *const *script = s->plan->story ? s->plan->story->model : NULL;
    for (int32_t i = 0; script && *script && i < at; i++) {
        script++;
    }
    if (script) {
        say_story(s, l, said, &r, request, *script ? *script : "text");
    } else if (is_down(s, request)) {
        say_down(s, said, request);
    } else if (l->asked > 16 || roll < 38) {
        add_text(s, said, &r);
    } else if (roll < 38 + (uint64_t)s->plan->failures / 2) {
        say_rejected(said, &r, request, true);
    } else if (roll < 38 + (uint64_t)s->plan->failures * 3) {
        say_failure(s, said, &r);
    } else if (roll < 90) {
        if (pw_random_below(&r, 5) == 0) {
            add_thinking(s, said, &r);
        }
        if (pw_random_below(&r, 5) == 0) {
            add_text(s, said, &r);
        }
        say_calls(s, said, &r);
    } else {
        say_odd(s, said, &r);
    }
    return said;
}

/* --- What a tool does ------------------------------------------------------------------------- */

static pw_str result_of(sim *s, pw_random *r)
{
    static const char *const results[] = {"{\"ok\":true}",
                                          "null",
                                          "[]",
                                          "\"\"",
                                          "1.10",
                                          "1e400",
                                          "{\"s\":\"\\u00e9 \xe2\x82\xac\"}",
                                          "{\"n\":12345678901234567890}",
                                          "  { \"spaced\" : [ 1 , 2 ] }",
                                          "\"\\ud83d\\ude00\""};
    uint64_t roll = pw_random_below(r, 14);
    if (roll < 10) {
        return pw_str_from(results[roll]);
    }
    if (roll < 13) {
        return sim_format(s, "{\"id\":\"%llx\"}", (unsigned long long)pw_random_next(r));
    }
    char room[1500]; /* over the limit of `scan`: cut on a character boundary */
    size_t length = 0;
    room[length++] = '"';
    for (uint64_t i = 480 + pw_random_below(r, 80); i > 0; i--) {
        memcpy(room + length, "\xe2\x82\xac", i % 3 ? 1 : 3);
        room[length] = i % 3 ? 'x' : room[length];
        length += i % 3 ? 1 : 3;
    }
    room[length++] = '"';
    return sim_dup(s, (pw_str){room, length});
}

void world_tool(sim *s, sim_ledger *l, const sim_step *step, pw_effects_class effects, sim_did *did)
{
    pw_random r = {sim_mix(sim_hash(step->id, s->plan->seed),
                           (uint64_t)(l - s->ledgers) * 8 + (uint64_t)step->starts)};
    *did = (sim_did){.effect_ms = (int64_t)pw_random_below(&r, 900),
                     .answer_ms = 1 + (int64_t)pw_random_below(&r, 500),
                     .writes = 1 + (int32_t)pw_random_below(&r, 3)};
    uint64_t roll = pw_random_below(&r, 200);
    uint64_t failures = (uint64_t)s->plan->failures;
    if (s->plan->story) {
        roll = 199;
    }
    if (roll < 3 * failures) {
        did->outcome = (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                                         .message = PW_STR("it did not work \xe2\x82\xac"),
                                         .error_class = roll % 2 ? PW_STR("Oops") : PW_STR_NONE};
    } else if (roll < 3 * failures + 1 && failures > 0) {
        did->outcome = (pw_tool_outcome){.kind = PW_TOOL_FATAL, .message = PW_STR("not set up")};
    } else {
        did->outcome = (pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = result_of(s, &r)};
        did->hangs = roll < 4 * failures + 1 && failures > 0;
    }
    did->late = pw_random_below(&r, 3) == 0;
    (void)effects;
}

/* It happens: whatever the tool does to the world, it does now. */
void world_run(sim *s, sim_ledger *l, sim_step *step, sim_call *c)
{
    step->runs++;
    sim_note(s, "    the world: %s %.*s runs (%d)", l->name, PW_STR_ARG(step->id), step->runs);
    if (c->effects == PW_EFFECTS_ONCE && step->runs > 1) {
        sim_fail(s, "D", "%s %.*s: a once tool ran %d times", l->name, PW_STR_ARG(step->id),
                 step->runs);
    }
    if (step->key[0] && memcmp(step->key, c->key, 64) != 0) {
        sim_fail(s, "D1", "%s %.*s: two executions with two keys", l->name, PW_STR_ARG(step->id));
    }
    memcpy(step->key, c->key, 64);
}

pw_str world_key(sim *s, const sim_ledger *l, const sim_step *step)
{
    return sim_format(s, "%s/%.*s/%.*s", l->uid, PW_STR_ARG(l->turns[step->turn].id),
                      PW_STR_ARG(step->id));
}
