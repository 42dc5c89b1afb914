/*
 * What can be said of an SQL tool without its database: that `sql` holds statements, and that each
 * :parameter in them is a property of the arguments' schema. A misspelt one would be NULL for ever.
 */
#include "tool/tool_inner.h"

typedef struct scan {
    pw_str sql;
    size_t at;
} scan;

static char peek(const scan *s, size_t ahead)
{
    return s->at + ahead < s->sql.len ? s->sql.ptr[s->at + ahead] : '\0';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || (unsigned char)c >= 0x80;
}

static void skip_quoted(scan *s, char end)
{
    s->at++;
    while (s->at < s->sql.len && s->sql.ptr[s->at] != end) {
        s->at++;
    }
    s->at++; /* a doubled quote begins the next quoted piece: the same text is skipped */
}

static void skip_to(scan *s, pw_str end)
{
    const pw_str rest = pw_str_slice(s->sql, s->at, s->sql.len);
    const size_t found = pw_str_find(rest, end);
    s->at = found == SIZE_MAX ? s->sql.len : s->at + found + end.len;
}

/* True if something that is neither white space nor a comment was skipped, a literal or an
 * identifier. */
static bool skip_plain(scan *s)
{
    const char c = peek(s, 0);
    if (c == '\'' || c == '"' || c == '`' || c == '[') {
        skip_quoted(s, c == '[' ? ']' : c);
    } else if (c == '-' && peek(s, 1) == '-') {
        skip_to(s, PW_STR("\n"));
    } else if (c == '/' && peek(s, 1) == '*') {
        s->at += 2;
        skip_to(s, PW_STR("*/"));
    } else if (is_word(c) && c != '$') {
        while (is_word(peek(s, 0))) {
            s->at++;
        }
    } else {
        return false;
    }
    return true;
}

/* The next parameter with its mark, or an empty string at the end. */
static pw_str next_parameter(scan *s)
{
    while (s->at < s->sql.len) {
        if (skip_plain(s)) {
            continue;
        }
        const char c = peek(s, 0);
        const size_t from = s->at++;
        if (c == '?' || ((c == ':' || c == '@' || c == '$') && is_word(peek(s, 0)))) {
            while (is_word(peek(s, 0))) {
                s->at++;
            }
            return pw_str_slice(s->sql, from, s->at);
        }
    }
    return PW_STR_NONE;
}

static pw_status check_text(const pw_json *text, const pw_json *properties, pw_error *error)
{
    if (!pw_json_is(text, PW_JSON_STRING) || pw_str_trim(text->text).len == 0) {
        return PW_FAIL(error, PW_INVALID, "sql: expected a statement or a list of statements");
    }
    scan s = {.sql = text->text};
    for (pw_str p = next_parameter(&s); p.len > 0; p = next_parameter(&s)) {
        if (p.ptr[0] != ':') {
            return PW_FAIL(error, PW_INVALID,
                           "sql: expected parameters by name, like :item, found %.*s",
                           PW_STR_ARG(p));
        }
        const pw_str name = pw_str_slice(p, 1, p.len);
        if (properties != NULL && pw_json_get_str(properties, name) == NULL) {
            return PW_FAIL(error, PW_INVALID, "sql: %.*s is not a property of `input`",
                           PW_STR_ARG(p));
        }
    }
    return PW_OK;
}

pw_status pw_sql_check(const pw_tool_declaration *tool, pw_error *error)
{
    if (tool->effects != PW_EFFECTS_TRANSACTIONAL && tool->effects != PW_EFFECTS_NONE) {
        return PW_FAIL(error, PW_INVALID,
                       "effects: expected transactional or none for a tool of kind sql, found %s",
                       pw_effects_name(tool->effects));
    }
    const pw_json *sql = pw_json_get(tool->config, "sql");
    const pw_json *properties = pw_json_get(tool->input, "properties");
    if (!pw_json_is(sql, PW_JSON_ARRAY)) {
        return check_text(sql, properties, error);
    }
    if (sql->count == 0) {
        return PW_FAIL(error, PW_INVALID, "sql: expected at least one statement");
    }
    for (const pw_json *one = sql->child; one != NULL; one = one->next) {
        PW_TRY(check_text(one, properties, error));
    }
    return PW_OK;
}
