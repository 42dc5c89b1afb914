/*
 * What rendering a request takes at every provider: the conversation, of which each message is
 * rendered once (C10), ids that go out (D10), kept blocks, text made valid, URLs and headers.
 *
 * A codec says how a message of each role is written (pw_rendering_rules) and calls
 * pw_rendering_conversation; prefix, suffix and headers are its own.
 */
#ifndef PW_MODEL_RENDERING_H
#define PW_MODEL_RENDERING_H

#include "model/model.h"

#define PW_RENDERING_MAX_PREFIX ((size_t)32 << 20)

typedef struct pw_rendering pw_rendering;

/* Each writes whole array elements to the end of render->bytes, every one begun by
 * pw_rendering_element; it may write none. */
typedef struct pw_rendering_rules {
    const char *provider;                            /* whose raw blocks may go back */
    pw_status (*user)(pw_rendering *, size_t index); /* a trigger's message too */
    pw_status (*assistant)(pw_rendering *, size_t index);
    /* The results from … to - 1: all of one assistant message. */
    pw_status (*results)(pw_rendering *, size_t from, size_t to);
} pw_rendering_rules;

struct pw_rendering {
    const pw_rendering_rules *rules;
    const pw_model_request *request;
    pw_render *render;
    pw_arena *arena;
    pw_str family;   /* of the model that is asked */
    pw_str spelling; /* what else the bytes depend on, such as a dialect's name; or empty */
    /* Index of the first message whose bytes may still change (a server tool use that waits for
     * its answer): it and all after it stay out of the cache of rendered messages. */
    size_t open_from;
    size_t elements; /* begun so far */
    /* pw_rendering_find: an element, the message that wrote it, which of that message's it is */
    size_t wanted, found, found_at;
};
void pw_rendering_init(pw_rendering *, const pw_rendering_rules *, const pw_model_request *,
                       pw_render *, pw_arena *);
/* Renders what lies beyond request->same. After a failure the cache is empty and usable. */
pw_status pw_rendering_conversation(pw_rendering *);
/* Renders all anew and says which message wrote the element at this place, and as its how-manieth,
 * from 0. False: none, or no memory. */
bool pw_rendering_find(pw_rendering *, size_t element, size_t *ret_message, size_t *ret_at);
/* Begins the next element of the conversation's array. */
void pw_rendering_element(pw_rendering *, pw_json_writer *);
/* Takes back all that was written since the conversation was this long. */
void pw_rendering_take_back(pw_rendering *, size_t length);

/* The part of a model's name that signatures are bound to: without a date, "-latest", a version
 * tag, a host's prefix. */
pw_str pw_model_family(pw_str model);
/* Does this message's raw go back? By the name in the reply, or by the name it was asked for:
 * behind an alias the reply names another (C8). */
bool pw_rendering_same_family(const pw_rendering *, const pw_message *);
/* Someone speaks here: a user or a trigger. */
bool pw_message_speaks(const pw_message *);

/* --- Ids that go out --- */

#define PW_TOOL_ID_MAX 64
typedef struct pw_tool_id { /* or a name that goes out */
    char text[PW_TOOL_ID_MAX + 1];
} pw_tool_id;
/* A fixed function of the assistant message's number and the engine's id of the call: equal for
 * call and result, unique in the conversation, of at most 64 letters, digits, _ and - (D10). */
pw_tool_id pw_tool_id_of(int64_t n, pw_str call);
/* As above, of at most `most` (40 to 64) characters. */
pw_tool_id pw_tool_id_within(int64_t n, pw_str call, size_t most);
/* A call's name as every provider takes it: up to 64 letters, digits, _ and -. A tool's name is
 * such a one already; what a model made up is written with _ for every other character (C9). */
pw_tool_id pw_tool_name_of(pw_str name);
/* The number of the assistant message that the results from `from` on answer. */
int64_t pw_rendering_asked_by(const pw_rendering *, size_t from);

/* --- Text and blocks --- */

/* Nothing in it that a provider counts as text: white space of Unicode and separators of ASCII. */
bool pw_is_blank(pw_str text);
/* A member whose text is made valid where it is not. */
pw_status pw_put_text(pw_rendering *, pw_json_writer *, const char *key, pw_str text);
/* A member that is a tool's schema, of an object; NULL: any object. */
pw_status pw_put_schema(pw_rendering *, pw_json_writer *, const char *key, const pw_json *schema);
/* A kept block, exactly as it is (it was checked when it came; what is not valid is left out). */
void pw_put_kept(pw_json_writer *, pw_str raw);
/* A result as the model reads it: a JSON string's text, any other value's JSON. */
pw_status pw_rendering_result(pw_rendering *, const pw_message *, pw_str *ret);

/* Writes `block` with these members replaced, or appended where it has none. A NULL pointer: the
 * member stays as it is; an empty text: it is left out. */
typedef struct pw_member {
    const char *name;
    pw_str json;
} pw_member;
pw_status pw_block_write(pw_buffer *, const pw_json *block, const pw_member *, size_t count);

/* --- Where it goes --- */

/* base + path, with one slash between. */
pw_status pw_rendering_url(pw_arena *, pw_str base, const char *path, pw_str *ret);
/* A key's text is such that a header can carry it: visible ASCII. */
bool pw_is_header_text(pw_str text);

#endif
