/* Claims: which waiting messages are the next turn, and what they look like to the model (B2, B3,
 * B4, B8). */
#include "core/state.h"

#include "base/clock.h"

enum { CLAIM_MESSAGES_MAX = 32, CLAIM_BYTES_MAX = 256 * 1024, SLACK_DEBOUNCE_MS = 1000 };

static bool is_waiting(const pw_session *s, const pw_inbox_row *row)
{
    return row->kind == PW_INBOX_MESSAGE && row->disposition == PW_PENDING &&
           row->n > s->v.claimed_n;
}

const pw_inbox_row *pw_waiting_first(const pw_session *s)
{
    for (size_t i = 0; i < s->v.row_count; i++) {
        if (is_waiting(s, &s->v.rows[i])) {
            return &s->v.rows[i];
        }
    }
    return NULL;
}

size_t pw_waiting_count(const pw_session *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->v.row_count; i++) {
        count += is_waiting(s, &s->v.rows[i]) ? 1 : 0;
    }
    return count;
}

/* B2: the message's own time plus the debounce; default 1 s on Slack. */
int64_t pw_claim_due_ms(const pw_session *s, const pw_inbox_row *first)
{
    int64_t debounce = s->v.today->debounce_ms;
    if (debounce == 0 && !pw_json_get(s->v.today->json, "debounce_ms") &&
        pw_str_find(first->body, PW_STR("\"source\":\"slack\"")) != SIZE_MAX) {
        debounce = SLACK_DEBOUNCE_MS;
    }
    return debounce > 0 ? first->at_ms + debounce : 0;
}

/* --- The run of messages that belong together (B8). --- */

typedef struct run {
    const pw_inbox_row *rows[CLAIM_MESSAGES_MAX];
    const pw_json *first; /* the first one's body */
    size_t count;
    size_t bytes;
} run;

static bool same_member(const pw_json *a, const pw_json *b, const char *key)
{
    const pw_json *x = pw_json_get(a, key), *y = pw_json_get(b, key);
    const bool no_x = !x || pw_json_is(x, PW_JSON_NULL), no_y = !y || pw_json_is(y, PW_JSON_NULL);
    return no_x || no_y ? no_x && no_y : pw_json_equal(x, y);
}

static bool same_speaker(const pw_json *a, const pw_json *b)
{
    const pw_json *x = pw_json_get(a, "user"), *y = pw_json_get(b, "user");
    if (pw_json_is(x, PW_JSON_OBJECT) != pw_json_is(y, PW_JSON_OBJECT)) {
        return false;
    }
    return pw_str_equal(pw_json_text(pw_json_get(x, "id")), pw_json_text(pw_json_get(y, "id"))) &&
           pw_json_true(pw_json_get(x, "attested")) == pw_json_true(pw_json_get(y, "attested"));
}

static pw_status gather(pw_session *s, run *r)
{
    *r = (run){0};
    for (size_t i = 0; i < s->v.row_count && r->count < CLAIM_MESSAGES_MAX; i++) {
        const pw_inbox_row *row = &s->v.rows[i];
        if (!is_waiting(s, row)) {
            continue;
        }
        const pw_json *body;
        const pw_status status = pw_json_parse(&s->scratch, row->body, 0, &body, NULL);
        if (status != PW_OK) {
            return status == PW_NOMEM ? status : PW_CORRUPT;
        }
        if (r->count == 0) {
            r->first = body;
        } else if (r->bytes + row->body.len > CLAIM_BYTES_MAX ||
                   !same_member(r->first, body, "role") || !same_member(r->first, body, "source") ||
                   !same_member(r->first, body, "budget") || !same_speaker(r->first, body)) {
            return PW_OK;
        }
        r->rows[r->count++] = row;
        r->bytes += row->body.len;
    }
    return PW_OK;
}

/* B3: lowercase hex SHA-256 of the ids sorted bytewise and joined with \n. */
static pw_hash_hex turn_id(const run *r)
{
    pw_str ids[CLAIM_MESSAGES_MAX];
    for (size_t i = 0; i < r->count; i++) {
        size_t at = i;
        while (at > 0 && pw_str_compare(ids[at - 1], r->rows[i]->request_id) > 0) {
            ids[at] = ids[at - 1];
            at--;
        }
        ids[at] = r->rows[i]->request_id;
    }
    pw_sha256 hash;
    pw_sha256_begin(&hash);
    for (size_t i = 0; i < r->count; i++) {
        if (i > 0) {
            pw_sha256_add(&hash, PW_STR("\n"));
        }
        pw_sha256_add(&hash, ids[i]);
    }
    const pw_hash whole = pw_sha256_end(&hash);
    return pw_hash_to_hex(&whole);
}

/* A5: the first attested speaker of the generation. */
static pw_status initiator(pw_session *s, const pw_json *body, pw_str *ret)
{
    *ret = s->d.initiator;
    const pw_json *user = pw_json_get(body, "user");
    if (ret->len > 0 || !pw_json_true(pw_json_get(user, "attested"))) {
        return PW_OK;
    }
    pw_buffer out;
    pw_buffer_init_arena(&out, &s->scratch, PW_BODY_MAX);
    pw_json_writer w;
    pw_json_begin(&w, &out);
    pw_json_object(&w);
    pw_json_put_str(&w, "id", pw_json_text(pw_json_get(user, "id")));
    pw_json_object_end(&w);
    PW_TRY(out.failed);
    *ret = pw_buffer_str(&out);
    return PW_OK;
}

static pw_status consume(pw_session *s, const run *r)
{
    pw_build *b = &s->build;
    b->consumed = PW_NEW_ARRAY(&b->room->arena, pw_consumed, r->count);
    if (!b->consumed) {
        return PW_NOMEM;
    }
    for (size_t i = 0; i < r->count; i++) {
        b->consumed[i] = (pw_consumed){.n = r->rows[i]->n, .disposition = PW_CLAIMED};
        b->claimed_n = r->rows[i]->n > b->claimed_n ? r->rows[i]->n : b->claimed_n;
    }
    b->consumed_count = r->count;
    return PW_OK;
}

pw_status pw_claim(pw_session *s)
{
    run r;
    PW_TRY(gather(s, &r));
    PW_ASSERT(r.count > 0);
    PW_TRY(pw_build_begin(s));
    const pw_hash_hex id = turn_id(&r);
    const pw_definition *definition = s->v.today;
    pw_claimed claimed = {
        .definition = definition,
        .rows = r.rows,
        .row_count = r.count,
        .budget = definition->budget,
        .deadline_at_ms = -1,
    };
    if (pw_budget_apply(&claimed.budget, pw_json_get(r.first, "budget"), NULL) != PW_OK) {
        return PW_CORRUPT; /* it was checked when the message was admitted */
    }
    if (claimed.budget.deadline_ms >= 0) {
        claimed.deadline_at_ms = s->v.now_ms + claimed.budget.deadline_ms;
    }
    uint8_t random[10];
    pw_random_bytes(&s->v.random, random, sizeof(random));
    const pw_uuid run_id = pw_uuid_v7(s->v.now_ms, random);
    claimed.run = pw_str_from(run_id.text);
    claimed.first_seq = pw_context_first_seq(s, definition->context_messages, s->d.last_seq + 1);
    PW_TRY(initiator(s, r.first, &claimed.initiator));
    PW_TRY(pw_arena_dup(&s->build.room->arena, pw_str_from(id.text), &claimed.turn));
    pw_draft draft = {.kind = PW_RECORD_TURN_OPENED, .turn = claimed.turn};
    PW_TRY(pw_encode_turn_opened(s, &claimed, &draft.body));
    PW_TRY(pw_build_add(s, &draft));
    PW_TRY(consume(s, &r));
    PW_TRY(pw_build_blob(s, &definition->hash, definition->text));
    s->build.claims = true;
    s->build.turn = claimed.turn;
    pw_phase_move(s, PW_PHASE_OPENING);
    return PW_OK;
}

/* --- B4
 * -----------------------------------------------------------------------------------------------------------
 */

typedef struct renderer {
    pw_arena *arena;
    pw_part *parts;
    size_t count;
    pw_buffer text; /* of the text part being written */
} renderer;

static pw_status put_other(renderer *r, const pw_json *part)
{
    pw_part *to = &r->parts[r->count++];
    to->kind = PW_PART_OTHER;
    return pw_arena_dup(r->arena, part->raw, &to->raw);
}

static bool is_text(const pw_json *part)
{
    return pw_str_is(pw_json_text(pw_json_get(part, "type")), "text");
}

static pw_status flush_text(renderer *r)
{
    if (r->text.len > 0) {
        pw_part *to = &r->parts[r->count++];
        to->kind = PW_PART_TEXT;
        PW_TRY(pw_arena_dup(r->arena, pw_buffer_str(&r->text), &to->text));
        pw_buffer_clear(&r->text);
    }
    return PW_OK;
}

/* `[HH:MM] text`, the text parts of one request as its lines; what is not text follows. */
static pw_status put_entry(renderer *r, const pw_json *request)
{
    const pw_json *content = pw_json_get(request, "content");
    const pw_time_text at = pw_time_hh_mm(pw_json_i64_or(pw_json_get(request, "at"), 0));
    if (r->text.len > 0) {
        (void)pw_buffer_add(&r->text, PW_STR("\n\n"));
    }
    (void)pw_buffer_format(&r->text, "[%s]", at.text);
    const char *between = " ";
    for (const pw_json *part = content ? content->child : NULL; part; part = part->next) {
        if (is_text(part)) {
            (void)pw_buffer_add(&r->text, pw_str_from(between));
            (void)pw_buffer_add(&r->text, pw_json_text(pw_json_get(part, "text")));
            between = "\n";
        }
    }
    PW_TRY(r->text.failed);
    for (const pw_json *part = content ? content->child : NULL; part; part = part->next) {
        if (!is_text(part)) {
            PW_TRY(flush_text(r));
            PW_TRY(put_other(r, part));
        }
    }
    return PW_OK;
}

static pw_status put_verbatim(renderer *r, const pw_json *request)
{
    const pw_json *content = pw_json_get(request, "content");
    for (const pw_json *part = content ? content->child : NULL; part; part = part->next) {
        if (!is_text(part)) {
            PW_TRY(put_other(r, part));
            continue;
        }
        pw_part *to = &r->parts[r->count++];
        to->kind = PW_PART_TEXT;
        PW_TRY(pw_arena_dup(r->arena, pw_json_text(pw_json_get(part, "text")), &to->text));
    }
    return PW_OK;
}

pw_status pw_render_batch(const pw_json *requests, pw_arena *arena, const pw_part **ret,
                          size_t *ret_count)
{
    size_t most = requests->count + 1;
    for (const pw_json *request = requests->child; request; request = request->next) {
        const pw_json *content = pw_json_get(request, "content");
        most += content ? content->count : 0;
    }
    renderer r = {.arena = arena};
    r.parts = PW_NEW_ARRAY(arena, pw_part, most);
    if (!r.parts) {
        return PW_NOMEM;
    }
    pw_buffer_init_arena(&r.text, arena, PW_BODY_MAX);
    if (requests->count == 1) {
        PW_TRY(put_verbatim(&r, requests->child));
    } else {
        PW_TRY(pw_buffer_add(&r.text, PW_STR("## Unanswered messages")));
        for (const pw_json *request = requests->child; request; request = request->next) {
            PW_TRY(put_entry(&r, request));
        }
        PW_TRY(flush_text(&r));
    }
    *ret = r.parts;
    *ret_count = r.count;
    return PW_OK;
}
