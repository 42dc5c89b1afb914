/*
 * The status table's texts, the one place where errors are born, and the end of the road for
 * assertions. An error's message is whatever its maker formatted, made safe to show: valid UTF-8,
 * no NUL inside, cut on a character boundary.
 */
#include "base/status.h"

#include "base/format.h"
#include "base/utf8.h"

typedef struct status_row {
    int number;
    const char *code;
    const char *meaning;
    bool may_retry;
} status_row;

static const status_row status_rows[] = {
#define STATUS_ROW(name, number, code, text, retry) {number, code, text, retry},
    PW_STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

static const status_row *row_of(pw_status status)
{
    const size_t count = sizeof status_rows / sizeof status_rows[0];
    for (size_t i = 0; i < count; i++) {
        if (status_rows[i].number == (int)status) {
            return &status_rows[i];
        }
    }
    return &status_rows[count - 1]; /* "internal" closes the table */
}

const char *pw_status_code(pw_status status)
{
    return row_of(status)->code;
}

const char *pw_status_meaning(pw_status status)
{
    return row_of(status)->meaning;
}

bool pw_status_may_retry(pw_status status)
{
    return row_of(status)->may_retry;
}

/* In place, so what is ill-formed becomes '?' (one byte) and not U+FFFD (three). */
static void make_showable(char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        at += pw_utf8_valid_prefix((pw_str){text + at, len - at});
        if (at < len) {
            text[at++] = '?';
        }
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0') {
            text[i] = '?';
        }
    }
    text[len] = '\0';
}

pw_status pw_error_set(pw_error *error, pw_status code, const char *file, int line,
                       const char *format, ...)
{
    if (error == NULL) {
        return code;
    }
    error->code = (int32_t)code;
    error->line = (int32_t)line;
    error->file = file;
    va_list args;
    va_start(args, format);
    size_t whole = pw_format_va(error->message, sizeof error->message, format, args);
    va_end(args);
    size_t len = whole;
    if (whole >= sizeof error->message) {
        len = pw_utf8_cut((pw_str){error->message, sizeof error->message - 1},
                          sizeof error->message - 1);
    }
    make_showable(error->message, len);
    return code;
}

/* The only mutable static of base: set once by a host at start, read by any thread that fails. */
static _Atomic(pw_assert_handler) assert_handler;

void pw_assert_handler_set(pw_assert_handler handler)
{
    assert_handler = handler;
}

_Noreturn void pw_assert_failed(const char *file, int line, const char *what)
{
    pw_assert_handler handler = assert_handler;
    if (handler != NULL) {
        handler(file, line, what);
    }
    __builtin_trap();
}
