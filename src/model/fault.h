/*
 * What providers say when a call fails, read and classed once for all of them (F5, PROVIDERS.md 8):
 * from the HTTP status, the error's type and code, and a short table of phrases where the protocol
 * gives nothing else (F8).
 *
 * What a person reads is the provider's message field only: cut at 2,000 characters, with the key,
 * and anything that looks like one, blotted out (N3).
 */
#ifndef PW_MODEL_FAULT_H
#define PW_MODEL_FAULT_H

#include "model/model.h"

/* What a failure was said to be, before it is classed. Whatever was not said is empty or 0. */
typedef struct pw_fault {
    int status;        /* HTTP's, or the one that stands for an in-band type */
    pw_str type, code; /* words: `rate_limit_error`, `rate_limit_exceeded`, `tokens` … */
    pw_str detail;     /* Anthropic's error.details.error_code */
    pw_str message;
    pw_str param; /* OpenAI: which field of the request is complained about */
    const pw_header *headers;
    size_t header_count;
} pw_fault;

/* The one table. Bytes are made in `arena`; the class needs no memory. */
pw_failure pw_fault_class(const pw_endpoint *, const pw_fault *, pw_arena *);

/* The pieces of an error's JSON, borrowed from it, in any shape that is known: an object or a text
 * under `error`, flat, a bare text, in an array, `detail` as text or list; a code that is a number
 * becomes `status` unless one is there. Headers are left alone. False: it is no error that we know.
 */
bool pw_fault_read(const pw_json *body, pw_fault *ret);

/* Is the phrase in the text, whatever its capitals? ASCII only; `phrase` is in lower case. */
bool pw_fault_says(pw_str text, const char *phrase);

/* The HTTP status that an in-band error stands for, by its status, its code, its type; 500 for
 * others. */
int pw_fault_status(const pw_fault *);

/* A whole not-2xx answer: pw_provider.failure for whoever speaks so. */
pw_failure pw_fault_of_answer(const pw_endpoint *, int http_status, const pw_header *,
                              size_t header_count, pw_str body, pw_arena *);

#endif
