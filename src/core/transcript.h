/*
 * The transcript checker (C9): the one gate every outgoing request passes.
 *
 * Valid: begins with a user or trigger message; each tool call of an assistant message has exactly
 * one result, before the next message that is not a result, in the order of the calls; no result
 * without its call; call ids unique in their message and messages' numbers rising (a call is named
 * by both, D10); every arguments text a JSON
 * object unless broken; text valid UTF-8 without NUL.
 */
#ifndef PW_CORE_TRANSCRIPT_H
#define PW_CORE_TRANSCRIPT_H

#include "core/message.h"

typedef struct pw_transcript_fault {
    const char *what; /* "missing_result" "orphan_result" "duplicate_result" "misplaced_result"
                         "repeated_call" "starts_wrong" "bad_text" "bad_arguments" */
    uint64_t seq;
    pw_str call;
} pw_transcript_fault;

/* True: valid. Otherwise the first fault. Linear; `scratch` holds a table of ids. */
pw_status pw_transcript_check(const pw_message *const *, size_t count, pw_arena *scratch,
                              bool *ret_valid, pw_transcript_fault *ret);

/* A valid overlay of a damaged transcript: real results found by call identity and put where they
 * belong, missing ones replaced by "outcome unknown", orphans and duplicates left out. Rows are not
 * touched. The list and new messages live in `arena`; `ret_faults` lists what was mended. */
pw_status pw_transcript_repair(const pw_message *const *, size_t count, pw_arena *,
                               const pw_message *const **ret, size_t *ret_count,
                               const pw_transcript_fault **ret_faults, size_t *ret_fault_count);

#endif
