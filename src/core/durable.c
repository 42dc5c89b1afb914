/* The durable half as text: what the fold made of the journal, all of it, so that two folds can be
 * compared. */
#include "core/state.h"

static void put_hash(pw_json_writer *w, const char *key, const pw_short_hash *hash)
{
    char hex[2 * sizeof hash->bytes];
    for (size_t i = 0; i < sizeof hex; i++) {
        hex[i] = "0123456789abcdef"[hash->bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    }
    pw_json_put_str(w, key, (pw_str){hex, sizeof hex});
}

static void put_part(pw_json_writer *w, const pw_part *part)
{
    pw_json_object(w);
    pw_json_put_i64(w, "kind", part->kind);
    pw_json_put_str(w, "text", part->text);
    pw_json_put_str(w, "call", part->call);
    pw_json_put_str(w, "id", part->provider_id);
    pw_json_put_str(w, "name", part->name);
    pw_json_put_str(w, "arguments", part->arguments);
    pw_json_put_bool(w, "broken", part->broken);
    pw_json_put_str(w, "raw", part->raw);
    pw_json_put_bool(w, "left_out", part->left_out);
    pw_json_object_end(w);
}

static void put_message(pw_json_writer *w, const pw_message *message)
{
    pw_json_object(w);
    pw_json_put_i64(w, "role", message->role);
    pw_json_put_i64(w, "n", message->n);
    pw_json_put_i64(w, "seq", (int64_t)message->seq);
    pw_json_put_i64(w, "at", message->at_ms);
    pw_json_put_str(w, "turn", message->turn);
    pw_json_put_str(w, "step", message->step);
    pw_json_put_str(w, "provider", message->provider);
    pw_json_put_str(w, "model", message->model);
    pw_json_put_str(w, "asked", message->asked);
    pw_json_put_str(w, "call", message->call);
    pw_json_put_str(w, "name", message->name);
    pw_json_put_str(w, "result", message->result);
    pw_json_put_bool(w, "is_error", message->is_error);
    pw_json_key(w, "parts");
    pw_json_array(w);
    for (size_t i = 0; i < message->part_count; i++) {
        put_part(w, &message->parts[i]);
    }
    pw_json_array_end(w);
    pw_json_object_end(w);
}

static void put_call(pw_json_writer *w, const pw_call *call)
{
    pw_json_object(w);
    pw_json_put_str(w, "step", call->step);
    pw_json_put_i64(w, "n", call->n);
    put_hash(w, "signature", &call->signature);
    pw_json_put_i64(w, "streak", call->streak);
    put_hash(w, "streak_outcome", &call->streak_outcome);
    pw_json_put_i64(w, "intents", call->intents);
    pw_json_put_i64(w, "limit_at", call->limit_at_ms);
    pw_json_put_i64(w, "perhaps", call->perhaps);
    pw_json_put_str(w, "outcome",
                    call->closed ? pw_str_from(pw_outcome_name(call->outcome)) : PW_STR_NONE);
    if (call->closed) {
        put_hash(w, "outcome_hash", &call->outcome_hash);
    }
    pw_json_object_end(w);
}

static void put_turn(pw_json_writer *w, const pw_turn *turn)
{
    pw_json_object(w);
    pw_json_put_bool(w, "damaged", turn->damaged);
    pw_json_put_str(w, "id", turn->id);
    pw_json_put_str(w, "run", turn->run);
    pw_json_put_str(w, "agent", turn->agent);
    pw_json_put_str(w, "definition", turn->definition);
    pw_json_put_str(w, "source", turn->source);
    pw_json_put_str(w, "speaker", turn->speaker);
    pw_json_put_raw(w, "requests", turn->requests);
    pw_json_key(w, "budget");
    pw_encode_budget(w, &turn->budget);
    pw_json_put_i64(w, "opened_at", turn->opened_at_ms);
    pw_json_put_i64(w, "deadline_at", turn->deadline_at_ms);
    pw_json_put_i64(w, "opened_seq", (int64_t)turn->opened_seq);
    pw_json_put_i64(w, "first_seq", (int64_t)turn->first_seq);
    pw_json_put_i64(w, "attempts", turn->attempts);
    pw_json_key(w, "usage");
    pw_encode_totals(w, &turn->totals);
    pw_json_put_str(w, "model", turn->model);
    pw_json_put_i64(w, "choice", turn->choice);
    pw_json_put_bool(w, "answered", turn->answered);
    pw_json_put_i64(w, "quarantines", turn->quarantines);
    pw_json_put_i64(w, "earlier_quarantines", turn->earlier_quarantines);
    pw_json_put_str(w, "response_id", turn->response_id);
    pw_json_put_bool(w, "response_unsure", turn->response_unsure);
    pw_json_put_i64(w, "retries", turn->retries);
    pw_json_put_i64(w, "waits", turn->waits);
    pw_json_put_i64(w, "empties", turn->empties);
    pw_json_put_i64(w, "wait_until", turn->wait_until_ms);
    pw_json_put_i64(w, "calls_n", turn->calls_n);
    pw_json_key(w, "calls");
    pw_json_array(w);
    for (size_t i = 0; i < turn->call_count; i++) {
        put_call(w, &turn->calls[i]);
    }
    pw_json_array_end(w);
    pw_json_put_bool(w, "changed_something", turn->changed_something);
    pw_json_key(w, "operations");
    pw_json_array(w);
    for (const pw_operation *o = turn->operations; o; o = o->before) {
        pw_json_string(w, o->step);
        pw_json_string(w, pw_str_from(pw_outcome_name(o->outcome)));
    }
    pw_json_array_end(w);
    pw_json_object_end(w);
}

pw_status pw_session_durable_text(const pw_session *s, pw_buffer *out)
{
    const pw_durable *d = &s->d;
    pw_json_writer w;
    pw_json_begin(&w, out);
    pw_json_object(&w);
    pw_json_put_i64(&w, "last_seq", (int64_t)d->last_seq);
    pw_json_put_i64(&w, "generation", d->generation);
    pw_json_put_i64(&w, "messages", d->messages);
    pw_json_put_i64(&w, "turns", d->turns);
    pw_json_key(&w, "usage");
    pw_encode_totals(&w, &d->totals);
    pw_json_put_str(&w, "initiator", d->initiator);
    pw_json_put_i64(&w, "window_seq", (int64_t)d->window_seq);
    pw_json_key(&w, "turn");
    if (d->turn.open) {
        put_turn(&w, &d->turn);
    } else {
        pw_json_nothing(&w);
    }
    pw_json_key(&w, "window");
    pw_json_array(&w);
    for (size_t i = d->first; i < d->end; i++) {
        put_message(&w, d->list[i]);
    }
    pw_json_array_end(&w);
    pw_json_object_end(&w);
    return out->failed;
}
