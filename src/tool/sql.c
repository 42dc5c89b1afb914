/*
 * SQL tools: binds a call's arguments to statements, runs them, and makes JSON of what came back.
 *
 * It begins and ends no transaction: a transactional tool's statements run inside the store's (D2),
 * read-only ones on a connection of their own (sql_read.c). Numbers keep their text where SQLite
 * can hold them exactly: integers of 64 bits as integers, larger ones as text, others as doubles
 * that read back equal.
 */
#include <locale.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "tool/tool_inner.h"

#define ROWS_MAX 1000
#define BYTES_MAX ((size_t)4 * 1024 * 1024)

typedef struct sql_work {
    sqlite3 *db;
    const pw_json *arguments;
    pw_arena *arena;
    locale_t c_locale;
    bool any_rows;  /* a statement returned columns: `rows` holds the last one's */
    pw_buffer rows; /* the members of the JSON array */
    int row_count;
    bool more; /* rows were left off */
    int64_t changes;
} sql_work;

/* --- Arguments in ----------------------------------------------------------------------------- */

static bool is_integer_text(pw_str number)
{
    for (size_t i = 0; i < number.len; i++) {
        const char c = number.ptr[i];
        if (c == '.' || c == 'e' || c == 'E') {
            return false;
        }
    }
    return true;
}

static int bind_text(sqlite3_stmt *statement, int at, pw_str text)
{
    const char *bytes = text.ptr != NULL ? text.ptr : "";
    return sqlite3_bind_text64(statement, at, bytes, text.len, SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_number(const sql_work *work, sqlite3_stmt *statement, int at, pw_str number)
{
    int64_t whole = 0;
    if (pw_str_i64(number, &whole)) {
        return sqlite3_bind_int64(statement, at, whole);
    }
    if (is_integer_text(number)) {
        return bind_text(statement, at, number);
    }
    pw_str copied;
    if (pw_arena_dup(work->arena, number, &copied) != PW_OK) {
        return SQLITE_NOMEM;
    }
    const locale_t before = uselocale(work->c_locale); /* strtod reads the decimal comma of some */
    const double real = strtod(copied.ptr, NULL);
    (void)uselocale(before);
    return sqlite3_bind_double(statement, at, real);
}

static int bind_value(const sql_work *work, sqlite3_stmt *statement, int at, const pw_json *value)
{
    if (value == NULL) {
        return sqlite3_bind_null(statement, at);
    }
    switch ((pw_json_type)value->type) {
    case PW_JSON_NULL:
        return sqlite3_bind_null(statement, at);
    case PW_JSON_BOOL:
        return sqlite3_bind_int(statement, at, value->truth ? 1 : 0);
    case PW_JSON_NUMBER:
        return bind_number(work, statement, at, value->raw);
    case PW_JSON_STRING:
        return bind_text(statement, at, value->text);
    case PW_JSON_ARRAY:
    case PW_JSON_OBJECT:
        return bind_text(statement, at, value->raw);
    }
    return SQLITE_MISUSE;
}

static int bind_all(const sql_work *work, sqlite3_stmt *statement)
{
    const int count = sqlite3_bind_parameter_count(statement);
    for (int at = 1; at <= count; at++) {
        const char *name = sqlite3_bind_parameter_name(statement, at);
        const pw_json *value = NULL; /* one that no argument names is NULL */
        if (name != NULL && name[0] == ':') {
            value = pw_json_get(work->arguments, name + 1);
        }
        const int code = bind_value(work, statement, at, value);
        if (code != SQLITE_OK) {
            return code;
        }
    }
    return SQLITE_OK;
}

/* --- Rows out --------------------------------------------------------------------------------- */

static void put_double(const sql_work *work, pw_buffer *out, double real)
{
    if (real != real || real - real != 0.0) { /* JSON has no infinities */
        (void)pw_buffer_add(out, real > 0 ? PW_STR("\"Infinity\"") : PW_STR("\"-Infinity\""));
        return;
    }
    char text[40] = "";
    const locale_t before = uselocale(work->c_locale);
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, real);
        const double back = strtod(text, NULL);
        if (memcmp(&back, &real, sizeof real) == 0) {
            break;
        }
    }
    (void)uselocale(before);
    (void)pw_buffer_add(out, pw_str_from(text));
    if (is_integer_text(pw_str_from(text))) {
        (void)pw_buffer_add(out, PW_STR(".0")); /* it was a real and stays one */
    }
}

static void put_text(sql_work *work, pw_buffer *out, pw_str text)
{
    (void)pw_buffer_byte(out, '"');
    if (pw_utf8_clean(text)) {
        pw_json_escape(out, text);
    } else {
        pw_buffer mended;
        pw_buffer_init(&mended, work->arena->allocator, text.len * 3 + 1);
        if (pw_utf8_mend(&mended, text) == PW_OK) {
            pw_json_escape(out, pw_buffer_str(&mended));
        } else {
            out->failed = PW_NOMEM;
        }
        pw_buffer_free(&mended);
    }
    (void)pw_buffer_byte(out, '"');
}

static void put_value(sql_work *work, sqlite3_stmt *statement, int column)
{
    pw_buffer *out = &work->rows;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        (void)pw_buffer_i64(out, sqlite3_column_int64(statement, column));
        return;
    case SQLITE_FLOAT:
        put_double(work, out, sqlite3_column_double(statement, column));
        return;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        const int size = sqlite3_column_bytes(statement, column);
        put_text(work, out, (pw_str){text, text != NULL ? (size_t)size : 0});
        return;
    }
    case SQLITE_BLOB: {
        const uint8_t *bytes = sqlite3_column_blob(statement, column);
        const int size = sqlite3_column_bytes(statement, column);
        (void)pw_buffer_add(out, PW_STR("{\"base64\":\""));
        (void)pw_base64_add(out, (pw_str){(const char *)bytes, bytes != NULL ? (size_t)size : 0});
        (void)pw_buffer_add(out, PW_STR("\"}"));
        return;
    }
    default:
        (void)pw_buffer_add(out, PW_STR("null"));
        return;
    }
}

/* The columns' names as keys with their colons; a name that came before gets its number, as JSON
 * wants names unique. */
static pw_status make_keys(sql_work *work, sqlite3_stmt *statement, int count, pw_str **ret)
{
    pw_str *keys = PW_NEW_ARRAY(work->arena, pw_str, (size_t)count);
    if (keys == NULL) {
        return PW_NOMEM;
    }
    for (int column = 0; column < count; column++) {
        const char *name = sqlite3_column_name(statement, column);
        if (name == NULL) {
            return PW_NOMEM;
        }
        int same = 1;
        for (int before = 0; before < column; before++) {
            const char *other = sqlite3_column_name(statement, before);
            same += other != NULL && strcmp(other, name) == 0;
        }
        pw_buffer key;
        pw_buffer_init_arena(&key, work->arena, BYTES_MAX);
        (void)pw_buffer_byte(&key, '"');
        pw_json_escape(&key,
                       pw_str_from(name)); /* it came from the statement, which is valid UTF-8 */
        if (same > 1) {
            (void)pw_buffer_format(&key, "_%d", same);
        }
        (void)pw_buffer_add(&key, PW_STR("\":"));
        if (key.failed != PW_OK) {
            return key.failed;
        }
        keys[column] = pw_buffer_str(&key);
    }
    *ret = keys;
    return PW_OK;
}

/* PW_TOO_LARGE: it does not fit any more and was left off. */
static pw_status put_row(sql_work *work, sqlite3_stmt *statement, const pw_str *keys, int count)
{
    pw_buffer *out = &work->rows;
    if (work->row_count == ROWS_MAX) {
        return PW_TOO_LARGE;
    }
    const size_t before = out->len;
    if (work->row_count > 0) {
        (void)pw_buffer_byte(out, ',');
    }
    (void)pw_buffer_byte(out, '{');
    for (int column = 0; column < count; column++) {
        if (column > 0) {
            (void)pw_buffer_byte(out, ',');
        }
        (void)pw_buffer_add(out, keys[column]);
        put_value(work, statement, column);
    }
    (void)pw_buffer_byte(out, '}');
    const pw_status status = out->failed;
    if (status != PW_OK) {
        out->len = before;
        out->failed = PW_OK;
        return status;
    }
    work->row_count++;
    return PW_OK;
}

/* --- Running ---------------------------------------------------------------------------------- */

static int step_all(sql_work *work, sqlite3_stmt *statement)
{
    const int columns = sqlite3_column_count(statement);
    pw_str *keys = NULL;
    if (columns > 0) {
        work->any_rows = true;
        work->row_count = 0;
        work->more = false;
        pw_buffer_clear(&work->rows);
        if (make_keys(work, statement, columns, &keys) != PW_OK) {
            return SQLITE_NOMEM;
        }
    }
    const int64_t before = sqlite3_total_changes64(work->db);
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const pw_status status = put_row(work, statement, keys, columns);
        if (status == PW_TOO_LARGE) {
            work->more = true;
            code = SQLITE_DONE; /* a statement that changes rows does so before its first row */
            break;
        }
        if (status != PW_OK) {
            return SQLITE_NOMEM;
        }
    }
    if (code == SQLITE_DONE && sqlite3_total_changes64(work->db) != before) {
        work->changes += sqlite3_changes64(work->db);
    }
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* All statements of one text. */
static int run_text(sql_work *work, pw_str sql)
{
    while (sql.len > 0) {
        sqlite3_stmt *statement = NULL;
        const char *tail = NULL;
        if (sql.len > INT32_MAX) {
            return SQLITE_TOOBIG;
        }
        int code = sqlite3_prepare_v2(work->db, sql.ptr, (int)sql.len, &statement, &tail);
        if (code != SQLITE_OK) {
            return code;
        }
        sql = pw_str_slice(sql, (size_t)(tail - sql.ptr), sql.len);
        if (statement == NULL) {
            continue; /* white space or a comment */
        }
        code = bind_all(work, statement);
        if (code == SQLITE_OK) {
            code = step_all(work, statement);
        }
        const int finalized =
            sqlite3_finalize(statement); /* repeats what step said, with its message */
        if (code != SQLITE_OK || finalized != SQLITE_OK) {
            return code != SQLITE_OK ? code : finalized;
        }
    }
    return SQLITE_OK;
}

static int run_all(sql_work *work, const pw_json *sql)
{
    if (pw_json_is(sql, PW_JSON_STRING)) {
        return run_text(work, sql->text);
    }
    int code = SQLITE_OK;
    for (const pw_json *one = sql != NULL ? sql->child : NULL; one != NULL && code == SQLITE_OK;
         one = one->next) {
        code = run_text(work, pw_json_text(one));
    }
    return code;
}

static pw_status make_result(sql_work *work, pw_tool_outcome *ret)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, work->arena, BYTES_MAX + 1024);
    if (work->any_rows) {
        (void)pw_buffer_reserve(&text, work->rows.len + 128);
        (void)pw_buffer_add(&text, PW_STR("{\"rows\":["));
        (void)pw_buffer_add(&text, pw_buffer_str(&work->rows));
        (void)pw_buffer_byte(&text, ']');
        if (work->more) {
            (void)pw_buffer_format(&text, ",\"truncated\":\"only the first %d rows are here\"",
                                   work->row_count);
        }
        (void)pw_buffer_byte(&text, '}');
    } else {
        (void)pw_buffer_format(&text, "{\"changes\":%lld}", (long long)work->changes);
    }
    PW_TRY(text.failed);
    *ret = (pw_tool_outcome){.kind = PW_TOOL_RESULT, .json = pw_buffer_str(&text)};
    return PW_OK;
}

static pw_status make_error(sql_work *work, pw_tool_outcome *ret)
{
    const pw_str message = pw_str_from(sqlite3_errmsg(work->db));
    pw_buffer mended;
    pw_buffer_init_arena(&mended, work->arena, message.len * 3 + 1);
    PW_TRY(pw_utf8_mend(&mended, message));
    *ret = (pw_tool_outcome){.kind = PW_TOOL_ERROR,
                             .error_class = PW_STR("SQLError"),
                             .message = pw_buffer_str(&mended)};
    return PW_OK;
}

pw_status pw_sql_run(sqlite3 *db, const pw_json *sql, const pw_json *arguments, pw_arena *arena,
                     pw_tool_outcome *ret)
{
    sql_work work = {.db = db, .arguments = arguments, .arena = arena};
    work.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (work.c_locale == (locale_t)0) {
        return PW_NOMEM;
    }
    pw_buffer_init(&work.rows, arena->allocator, BYTES_MAX);
    const int code = run_all(&work, sql);
    pw_status status = PW_OK;
    if (code == SQLITE_OK) {
        status = make_result(&work, ret);
    } else if ((code & 0xFF) == SQLITE_NOMEM) {
        status = PW_NOMEM;
    } else {
        status = make_error(&work, ret);
    }
    pw_buffer_free(&work.rows);
    freelocale(work.c_locale);
    return status;
}
