/*
 * What the tests of models share: a stream run to its end in pieces of any size and told as one
 * text, so that two runs can be compared; messages built by hand; the recordings.
 */
#ifndef PW_TEST_MODEL_SUPPORT_H
#define PW_TEST_MODEL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/holds.h"
#include "base/heap.h"
#include "model/model.h"

#define NOW_MS INT64_C(1796050667123) /* 2026-11-30T14:57:47.123Z */

/* Whose codec is tested: Anthropic's until a test's main says otherwise. */
extern const pw_provider *tested;

/* Where a body is cut: `piece` bytes each (0: whole), or once at `cut_at` (SIZE_MAX: not). */
typedef struct cutting {
    size_t piece, cut_at;
} cutting;
#define WHOLE ((cutting){0, SIZE_MAX})
#define PIECES(n) ((cutting){(n), SIZE_MAX})
#define CUT_AT(n) ((cutting){0, (n)})

/* Runs the body and appends what came out:
 *   reply <stop> [<detail>] id=<> model=<> usage=<in>/<read>/<write>/<out>/<reasoning>[ cost=<>]
 *   <kind> id=<> name=<> text=<> arguments=<> broken? raw=<>          one line a part
 *   shown=<all text deltas>  thought=<all reasoning deltas>
 * or   failure <class> <code> until=<ms> usage=… message=<>
 * PW_OK, or what feed or end answered. */
pw_status run_stream(const pw_allocator *, pw_str body, cutting, pw_buffer *out);

/* As above on the heap; the caller frees. */
char *told(pw_str body, cutting);
char *told_text(const char *body);
/* An SSE body of events given as JSON texts, NULL ends. The caller frees. */
char *events(const char *first, ...);

/* A body read in pieces of this size, and what came of it; the caller frees the stream. */
typedef struct reading {
    pw_model_stream *stream;
    const pw_reply *reply;
    pw_failure failure;
    pw_status status;
} reading;
reading read_body(pw_str body, size_t piece);

/* A file's bytes; the caller frees. False: not there. */
bool read_file(const char *path, char **ret, size_t *ret_size);
/* A file under the shared folder (PAWL_SHARED, or ../shared beside the repository). Skips the test
 * when missing. */
pw_str shared_file(const char *name);

/* recordings/<protocol>/<file> and expected/<protocol>.<name>.json; `forget` frees both. */
void recording(const char *protocol, const char *file, pw_str *ret_body, pw_str *ret_expected);
void forget(pw_str a, pw_str b);
const pw_json *parse(pw_arena *, pw_str json);
/* The texts of all parts of a kind, in a row, are these. */
void check_text(const pw_reply *, pw_part_kind, pw_str wanted);

/* --- Requests by hand --- */
typedef struct fixture {
    pw_arena arena;
    pw_definition definition;
    pw_model_choice model;
    pw_message messages[64];
    const pw_message *list[64];
    size_t count;
    pw_render render;
    pw_model_request request;
} fixture;

void fixture_init(fixture *, const char *model_json);
void fixture_free(fixture *);
pw_message *add_message(fixture *, pw_role, size_t part_count);
pw_message *say(fixture *, const char *user_text);
pw_part *answer(fixture *, size_t part_count); /* an assistant message; its parts to be filled */
pw_message *result(fixture *, const char *call, const char *json);
/* Renders; the conversation's bytes as a new string the caller frees. `same`: messages equal to the
 * last time. */
char *conversation(fixture *, size_t same);
pw_part text_part(const char *text);
pw_part call_part(const char *call, const char *name, const char *arguments);
pw_part raw_part(pw_part_kind, const char *text, const char *raw);

#endif
