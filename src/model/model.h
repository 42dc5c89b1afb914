/*
 * Models: codecs without I/O behind one contract, and the script player. A codec renders a request
 * and reads a reply's bytes; who carries the bytes (src/net, a test, a simulator) is not its
 * business.
 *
 * A codec never stores or logs a key: the key comes in pw_endpoint at the moment of rendering and
 * goes only into a header (N3).
 */
#ifndef PW_MODEL_MODEL_H
#define PW_MODEL_MODEL_H

#include "core/session.h"
#include "net/message.h"

/* Where and as whom. Resolved by the runtime from the agent's model options and the environment;
 * never journalled. */
typedef struct pw_endpoint {
    pw_str base_url; /* "https://api.anthropic.com" or the agent's; no trailing slash */
    pw_str key;      /* may be empty */
    int64_t now_ms;  /* for headers that hold times (failure) */
} pw_endpoint;

/* A session's rendered conversation: each message is rendered once, and the request of step k + 1
 * begins with the bytes of step k's conversation by construction (C10). One per session and
 * provider; owned by the runtime. */
typedef struct pw_render {
    pw_buffer bytes; /* the messages so far, as they stand in the body */
    size_t *offsets; /* offsets[i]: length of `bytes` after the first i messages; SIZE_MAX where no
                        request may be cut */
    size_t count, capacity; /* messages rendered */
    const pw_allocator *allocator;
    pw_str key; /* provider and model family it was rendered for; another one starts anew */
} pw_render;
void pw_render_init(pw_render *, const pw_allocator *);
void pw_render_free(pw_render *);

typedef struct pw_delta {
    bool reasoning;
    pw_str bytes;
} pw_delta;

typedef struct pw_model_stream
    pw_model_stream; /* a reply being read; its memory comes from the allocator given */

typedef struct pw_provider {
    const char *name; /* "anthropic" */
    const char *default_base_url;
    const char *default_key_env; /* "ANTHROPIC_API_KEY" */
    bool local;                  /* no endpoint: answered by `play` (scripted) */

    /* Are the agent's model options right? Names the field. Unknown options are errors. */
    pw_status (*check)(const pw_json *model, pw_arena *scratch, pw_error *);
    /* The next request. Only messages beyond `request->same` are rendered anew into `render`.
     * `arena` holds the rest. body is prefix, conversation, suffix; body[1] is render's own memory:
     * it lives until the next request with this render, or pw_render_free. PW_INVALID: no message,
     * or a key no header can carry. */
    pw_status (*request)(const pw_endpoint *, const pw_model_request *, pw_render *render,
                         pw_arena *arena, pw_http_request *ret, pw_error *);

    pw_status (*stream_new)(const pw_allocator *, pw_model_stream **ret);
    void (*stream_free)(pw_model_stream *);
    /* Body bytes of a 2xx answer in any pieces → deltas (valid until the next call). After anything
     * but PW_OK the stream can only be freed. `*ret_progress`: content, tool traffic or reasoning
     * came in (F9), keep-alives are none. PW_TOO_LARGE: over a cap. A failure found in band is kept
     * until `end`. */
    pw_status (*feed)(pw_model_stream *, pw_str bytes, const pw_delta **ret, size_t *ret_count,
                      bool *ret_progress, pw_error *);
    /* The id under which the provider works on this reply and by which a later request can resume
     * it (pw_model_request.resume), once it is known; empty until then. NULL: nothing can be
     * resumed. The runtime tells the session at once (PW_IN_MODEL_ACCEPTED), before any delta. */
    pw_str (*accepted)(const pw_model_stream *);
    /* Asks the provider to stop working on such a reply. NULL with `accepted`. */
    pw_status (*cancel)(const pw_endpoint *, pw_str response_id, pw_arena *, pw_http_request *ret,
                        pw_error *);
    /* The end of the body, once. PW_OK: a whole reply. PW_END: `*ret_failure` says why not
     * (cut_off, in-band error, unreadable). PW_NOMEM. Bytes live in the stream. Also right after a
     * transport that broke: a known stop reason makes the reply whole. */
    pw_status (*end)(pw_model_stream *, const pw_endpoint *, const pw_reply **ret,
                     pw_failure *ret_failure);

    /* A not-2xx answer: the class, once; RETRY may carry `until_ms` as a hint (F5, PROVIDERS.md 8).
     * Text is made in `arena`; message is the provider's message field only, at most 2,000
     * characters, keys blotted out. */
    pw_failure (*failure)(const pw_endpoint *, int http_status, const pw_header *,
                          size_t header_count, pw_str body, pw_arena *arena);
    /* Which part a not-2xx answer to this request complains about by its position (C9): an index
     * into request->messages and into that message's parts. The provider's positions are those of
     * the body it was sent, so the renderer's walk is gone through again. false: it does not say,
     * or it is none that may be left out (pw_part_may_leave), or no memory. NULL: this provider
     * never says. */
    bool (*rejected)(const pw_model_request *, int http_status, pw_str body, pw_arena *,
                     size_t *ret_message, size_t *ret_part);
} pw_provider;

const pw_provider *pw_provider_find(pw_str name); /* NULL: no such provider */
extern const pw_provider pw_provider_anthropic;
extern const pw_provider pw_provider_chat;     /* "openai-chat": any server of Chat Completions */
extern const pw_provider pw_provider_openai;   /* Responses */
extern const pw_provider pw_provider_scripted; /* check only */
const char *const *pw_provider_names(void);    /* NULL ends */

/* No connection, DNS, TLS, reset, time-out: failures that no provider words. code: "connect" "dns"
 * "tls" "reset" "timeout" "stalled" "cut_off" */
pw_failure pw_transport_failure(const char *code, pw_str message);

/* --- scripted: answers from a script (JSON in the agent's model options, "script")
 * -------------------- A list of rules, the first whose matchers all hold answers: { "when": {
 * "last": "contains…" (text of the last message), "role": "user|tool", "tool": name of a tool just
 * answered, "is_error": bool, "step": n-th model call of this turn from 1, "try": n, "attempt": n,
 * "turn": "contains" (the turn's user text) },   all optional "delay": "300ms", "think": "…",
 * "text": "…" (streamed in pieces of `chunk` characters, default 16, each after `pace`), "calls":
 * [{ "name", "arguments": {…}, "id"?, "broken"?: text that is not whole JSON }], "stop": a pw_stop
 * name, "usage": {"input_tokens","output_tokens","cached_tokens","reasoning_tokens","cost_usd"}
 * (left out: all 0; cost_usd null: unknown), "error": { "class": "retry|wait|repair|next|fail",
 * "code", "message", "after": "2s" }, "cut": true (stream breaks after the text), "repeat": n
 * (filler bytes) } No rule matches: text "(no rule of the script matches)". `{{last}}` in text or
 * arguments is the last message's text. Deterministic. docs/scripted.md has it in full. */
typedef enum pw_play_kind {
    PW_PLAY_ACCEPTED, /* `bytes`: the id by which this reply can be resumed */
    PW_PLAY_DELTA,
    PW_PLAY_REASONING,
    PW_PLAY_REPLY,
    PW_PLAY_FAILED
} pw_play_kind;
typedef struct pw_play {
    int64_t delay_ms; /* after the one before */
    pw_play_kind kind;
    pw_str bytes;
    pw_reply reply;
    pw_failure failure;
} pw_play;
/* The whole answer as a timed list that ends with REPLY or FAILED, made in `arena`. */
pw_status pw_scripted_play(const pw_model_request *, int64_t now_ms, pw_arena *arena,
                           const pw_play **ret, size_t *ret_count, pw_error *);

#endif
