/*
 * What every codec needs to read an answer: the body told apart by its first byte (events, one JSON
 * value, something foreign), events as JSON with their type, what is shown of them, the cap on
 * bytes, and the first failure, which is kept while everything after it is ignored.
 *
 * A codec's own stream begins with a pw_model_stream and is made by pw_reading_new with its size;
 * pw_reading_feed and pw_reading_free serve as the provider's feed and stream_free.
 */
#ifndef PW_MODEL_READING_H
#define PW_MODEL_READING_H

#include "model/fault.h"
#include "model/sse.h"

/* Bytes of one answer, all its events together. Whatever is assembled of it fits in there, but for
 * what escaping and mending add: buffers made of it have a few times that as their maximum. */
#define PW_READING_MAX_REPLY ((size_t)64 << 20)

/* What a codec does with what is read. */
typedef struct pw_reader {
    size_t size; /* of the codec's stream */
    /* An event: `type` is data.type, or the event's name where the data has none. Not called after
     * a failure, after `ended` or after [DONE]. The tree lives until it returns. */
    pw_status (*event)(pw_model_stream *, pw_str type, const pw_json *event);
    /* The whole body, when it was one JSON value. It lives as long as the stream. */
    pw_status (*object)(pw_model_stream *, const pw_json *body);
    void (*release)(pw_model_stream *); /* what the codec took of the allocator; or NULL */
} pw_reader;

typedef enum pw_body { PW_BODY_UNDECIDED, PW_BODY_EVENTS, PW_BODY_OBJECT, PW_BODY_FOREIGN } pw_body;

typedef enum pw_trouble {
    PW_TROUBLE_NONE,
    PW_TROUBLE_SAID,      /* by the provider, in band: `fault` */
    PW_TROUBLE_UNREADABLE /* `fault.message` says why */
} pw_trouble;

struct pw_model_stream {
    const pw_reader *reader;
    const pw_allocator *allocator;
    pw_sse sse;
    pw_arena kept;    /* lives as long as the stream */
    pw_arena scratch; /* one event */
    pw_arena deltas;  /* one feed */
    pw_delta *delta_list;
    size_t delta_count, delta_capacity;
    pw_body body;
    pw_buffer object; /* PW_BODY_OBJECT: the body so far */
    size_t received;
    bool progress; /* set by the codec when content, tool traffic or reasoning came (F9) */
    bool ended;    /* set by the codec: what comes after is not read */
    bool done;     /* [DONE] came: what comes after is not read */
    pw_trouble trouble;
    pw_fault fault;
};

pw_status pw_reading_new(const pw_reader *, const pw_allocator *, pw_model_stream **ret);
void pw_reading_free(pw_model_stream *);
pw_status pw_reading_feed(pw_model_stream *, pw_str bytes, const pw_delta **ret, size_t *ret_count,
                          bool *ret_progress, pw_error *);
/* The end of the body: events still pending, or the whole object, go to the codec. */
pw_status pw_reading_end(pw_model_stream *);
/* Why there is no reply: what was said in band, what could not be read, else cut_off. PW_END. */
pw_status pw_reading_failure(pw_model_stream *, const pw_endpoint *, const pw_usage *,
                             pw_failure *ret);

/* --- For the codec's handlers --- */

/* Text for those who watch, copied and made valid; counts as progress unless it is empty. */
pw_status pw_reading_show(pw_model_stream *, pw_str text, bool reasoning);
/* Remember the first failure only. The error's texts are copied. */
pw_status pw_reading_fail(pw_model_stream *, const pw_json *error);
pw_status pw_reading_unreadable(pw_model_stream *, const char *what);
/* A whole body that is no reply: an error said in band where it is one, else unreadable. */
pw_status pw_reading_no_reply(pw_model_stream *, const pw_json *body);

/* A value's bytes, kept as long as the stream: exactly, unless they are not valid UTF-8. */
pw_status pw_reading_keep_json(pw_model_stream *, const pw_json *, pw_str *ret);
/* Keeps a string when it is one; otherwise leaves `ret` alone. */
pw_status pw_reading_keep_text(pw_model_stream *, const pw_json *string, pw_str *ret);
/* Text for people and for the transcript: valid, and without NUL (A8). Borrowed where it is. */
pw_status pw_reading_clean_text(pw_arena *, pw_str text, pw_str *ret);
/* A text as a JSON string. */
pw_status pw_reading_string_json(pw_arena *, pw_str text, pw_str *ret);
/* A count as said, kept within what any answer can hold; null and nonsense leave what was there. */
void pw_reading_count(int64_t *count, const pw_json *holder, const char *name);
/* Has the object no members but these (NULL ends)? */
bool pw_reading_only_members(const pw_json *object, const char *const *names);

#endif
