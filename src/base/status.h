/*
 * One status code for the whole program, from one table, and the caller-owned error that goes with
 * it.
 *
 * PW_OK is 0, everything else is negative. The numbers are part of the public ABI (PAWL_* in
 * pawl/pawl.h are checked against this table when the library is compiled) and never change.
 * A status alone is enough to decide; an error adds where it was born and a sentence for a person.
 */
#ifndef PW_BASE_STATUS_H
#define PW_BASE_STATUS_H

#include "base/mem.h"

/* X(NAME, number, "code for JSON", "what it means", may_retry) */
#define PW_STATUS_TABLE(X)                                                                         \
    X(OK, 0, "ok", "done", 0)                                                                      \
    X(NOMEM, -1, "no_memory", "out of memory; nothing was changed", 1)                             \
    X(INVALID, -2, "invalid", "the input is not acceptable", 0)                                    \
    X(NOT_FOUND, -3, "not_found", "there is no such thing", 0)                                     \
    X(CONFLICT, -4, "conflict", "the same id was used with other content", 0)                      \
    X(BUSY, -5, "busy", "the session is busy", 1)                                                  \
    X(TOO_LARGE, -6, "too_large", "the input is over its limit", 0)                                \
    X(FORBIDDEN, -7, "forbidden", "not allowed", 0)                                                \
    X(CLOSED, -8, "closed", "it has ended already", 0)                                             \
    X(EXPIRED, -9, "expired", "it is too late", 0)                                                 \
    X(TIMEOUT, -10, "timeout", "the time allowed passed", 1)                                       \
    X(SUSPENDED, -11, "suspended", "the turn waits for a person", 0)                               \
    X(UNAVAILABLE, -12, "unavailable", "the store or server cannot be reached", 1)                 \
    X(NOT_COMMITTED, -13, "not_committed", "the store changed nothing", 1)                         \
    X(STALE, -14, "stale", "a row is no longer as it was said to be; nothing was changed", 0)      \
    X(FENCED, -15, "fenced", "another owner took the session", 0)                                  \
    X(UNKNOWN, -16, "unknown", "it is not known whether the store committed", 0)                   \
    X(MISUSE, -17, "misuse", "the call is not allowed here", 0)                                    \
    X(UNSUPPORTED, -18, "unsupported", "this build or backend cannot do it", 0)                    \
    X(NEWER_SCHEMA, -19, "newer_schema", "the store was written by a newer program", 0)            \
    X(READ_ONLY, -20, "read_only", "the store cannot be written", 0)                               \
    X(FULL, -21, "full", "the disk is full", 1)                                                    \
    X(CORRUPT, -22, "corrupt", "the store is damaged", 0)                                          \
    X(IO, -23, "io", "reading or writing failed", 1)                                               \
    X(LOCKED, -24, "locked", "another program holds the lock", 1)                                  \
    X(END, -25, "end", "there is nothing more", 0)                                                 \
    X(CANCELLED, -26, "cancelled", "it was cancelled", 0)                                          \
    X(QUARANTINED, -27, "quarantined", "the session is set aside after repeated crashes", 0)       \
    X(INTERNAL, -28, "internal", "a fault of the engine's own", 0)

typedef enum pw_status {
#define PW_STATUS_ENUM(name, number, code, text, retry) PW_##name = number,
    PW_STATUS_TABLE(PW_STATUS_ENUM)
#undef PW_STATUS_ENUM
} pw_status;

const char *pw_status_code(pw_status); /* "not_found"; "internal" for a number not in the table */
const char *pw_status_meaning(pw_status); /* one clause, lower case, no full stop */
bool pw_status_may_retry(pw_status);

/* The caller owns it; every function that takes one accepts NULL. Same layout as pawl_error. */
typedef struct pw_error {
    int32_t code;
    int32_t line;
    const char *file;
    char message[240]; /* NUL-terminated, valid UTF-8, cut on a character boundary */
} pw_error;

/* Every error is born here (one breakpoint shows all origins). Returns `code`. The formats are
 * those of pw_format (base/format.h). */
pw_status pw_error_set(pw_error *error, pw_status code, const char *file, int line,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
#define PW_FAIL(error, code, ...) pw_error_set((error), (code), __FILE__, __LINE__, __VA_ARGS__)

/* For our own bugs only; outside input is never asserted. On in every build. Calls the handler set
 * with pw_assert_handler_set (it may log), then traps. */
typedef void (*pw_assert_handler)(const char *file, int line, const char *what);
void pw_assert_handler_set(pw_assert_handler);
_Noreturn void pw_assert_failed(const char *file, int line, const char *what);
#define PW_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : pw_assert_failed(__FILE__, __LINE__, #condition))

/* Propagates a failure: for functions without anything to clean up. */
#define PW_TRY(expression)                                                                         \
    do {                                                                                           \
        pw_status pw_try_status = (expression);                                                    \
        if (pw_try_status != PW_OK) {                                                              \
            return pw_try_status;                                                                  \
        }                                                                                          \
    } while (0)

#endif
