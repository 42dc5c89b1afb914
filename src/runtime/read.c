/*
 * pawl_read: the path and query taken apart and checked, then answered by whom the table names. It
 * knows which paths exist and which parameters they take; what is in an answer is the other files'
 * business.
 */
#include "runtime/read_inner.h"

#include "base/heap.h"
#include "base/utf8.h"

typedef struct route {
    const char *pattern;    /* after /v1/; * is any one part */
    const char *parameters; /* between commas */
    bool session;           /* part 1 names a session that must be there */
    pw_status (*answer)(pw_question *);
} route;

static const route routes[] = {
    {"sessions", ",status,agent,limit,cursor,", false, pw_answer_sessions},
    {"sessions/*", ",", true, pw_answer_session},
    {"sessions/*/why", ",", true, pw_answer_why},
    {"sessions/*/messages", ",limit,cursor,include,", true, pw_answer_messages},
    {"sessions/*/messages/*", ",", true, pw_answer_message},
    {"sessions/*/turns", ",limit,cursor,", true, pw_answer_turns},
    {"sessions/*/turns/*", ",", true, pw_answer_turn},
    {"sessions/*/turns/*/steps", ",limit,cursor,", true, pw_answer_steps},
    {"sessions/*/events", ",after,limit,", true, pw_answer_events},
    {"agents", ",limit,cursor,", false, pw_answer_agents},
    {"agents/*", ",", false, pw_answer_agent},
};

/* --- Taking a path apart --- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

static pw_status decode(pw_question *q, pw_str text, const char *what, pw_str *ret)
{
    char *to = pw_arena_bytes(q->arena, text.len + 1);
    if (!to) {
        return PW_NOMEM;
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            bool room = text.len - i > 2;
            int high = room ? hex_digit(text.ptr[i + 1]) : -1;
            int low = room ? hex_digit(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return PW_FAIL(q->error, PW_INVALID, "%s: a %% is not followed by two hex digits",
                               what);
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        to[len++] = c;
    }
    to[len] = '\0';
    if (!pw_utf8_clean((pw_str){to, len})) {
        return PW_FAIL(q->error, PW_INVALID, "%s: is not valid UTF-8", what);
    }
    *ret = (pw_str){to, len};
    return PW_OK;
}

static pw_str until(pw_str *rest, char separator)
{
    size_t at = 0;
    while (at < rest->len && rest->ptr[at] != separator) {
        at++;
    }
    pw_str head = pw_str_slice(*rest, 0, at);
    *rest = pw_str_slice(*rest, at < rest->len ? at + 1 : at, rest->len);
    return head;
}

static pw_status no_such_path(pw_question *q)
{
    return PW_FAIL(q->error, PW_NOT_FOUND,
                   "there is no such path; the paths that can be read are in docs/api.md");
}

static pw_status take_path_apart(pw_question *q, pw_str path)
{
    pw_str prefix = PW_STR("/v1/");
    if (!pw_str_begins(path, prefix)) {
        return no_such_path(q);
    }
    path = pw_str_slice(path, prefix.len, path.len);
    while (path.len > 0) {
        pw_str part = until(&path, '/');
        if (part.len == 0 || q->part_count == sizeof(q->part) / sizeof(q->part[0])) {
            return no_such_path(q);
        }
        PW_TRY(decode(q, part, "path", &q->part[q->part_count++]));
    }
    return PW_OK;
}

static pw_status take_query_apart(pw_question *q, pw_str query)
{
    while (query.len > 0) {
        pw_str pair = until(&query, '&');
        if (pair.len == 0) {
            continue;
        }
        if (q->parameter_count == sizeof(q->parameters) / sizeof(q->parameters[0])) {
            return PW_FAIL(q->error, PW_INVALID, "query: too many parameters");
        }
        pw_parameter *p = &q->parameters[q->parameter_count++];
        pw_str name = until(&pair, '=');
        PW_TRY(decode(q, name, "query", &p->name));
        PW_TRY(decode(q, pair, "query", &p->value));
    }
    return PW_OK;
}

static bool matches(const pw_question *q, const char *pattern)
{
    pw_str rest = pw_str_from(pattern);
    for (size_t i = 0; i < q->part_count; i++) {
        pw_str want = until(&rest, '/');
        if (want.len == 0 || (!pw_str_is(want, "*") && !pw_str_equal(want, q->part[i]))) {
            return false;
        }
    }
    return rest.len == 0;
}

static const route *find_route(const pw_question *q)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (matches(q, routes[i].pattern)) {
            return &routes[i];
        }
    }
    return NULL;
}

static bool takes(const char *parameters, pw_str name)
{
    for (pw_str rest = pw_str_from(parameters + 1); rest.len > 0;) {
        if (pw_str_equal(until(&rest, ','), name)) {
            return true;
        }
    }
    return false;
}

static pw_status check_parameters(pw_question *q, const char *parameters)
{
    for (size_t i = 0; i < q->parameter_count; i++) {
        pw_str name = q->parameters[i].name;
        pw_str shown = pw_str_slice(name, 0, pw_utf8_cut(name, 60));
        if (!takes(parameters, name)) {
            return PW_FAIL(q->error, PW_INVALID, "%.*s: is not a parameter of this question",
                           PW_STR_ARG(shown));
        }
        for (size_t j = 0; j < i; j++) {
            if (pw_str_equal(q->parameters[j].name, name)) {
                return PW_FAIL(q->error, PW_INVALID, "%.*s: is given twice", PW_STR_ARG(shown));
            }
        }
    }
    pw_str limit = pw_question_parameter(q, "limit");
    uint64_t number = PW_PAGE_DEFAULT;
    if (limit.ptr && (!pw_str_u64(limit, &number) || number < 1 || number > PW_PAGE_MAX)) {
        return PW_FAIL(q->error, PW_INVALID, "limit: is not a number from 1 to %d", PW_PAGE_MAX);
    }
    q->limit = (size_t)number;
    return PW_OK;
}

pw_status pw_question_query(pw_question *q, pw_str query, const char *parameters)
{
    PW_TRY(take_query_apart(q, query));
    return check_parameters(q, parameters);
}

pw_str pw_question_parameter(const pw_question *q, const char *name)
{
    for (size_t i = 0; i < q->parameter_count; i++) {
        if (pw_str_is(q->parameters[i].name, name)) {
            return q->parameters[i].value.ptr ? q->parameters[i].value : PW_STR("");
        }
    }
    return PW_STR_NONE;
}

pw_status pw_cursor_number(pw_question *q, uint64_t *ret)
{
    pw_str cursor = pw_question_parameter(q, "cursor");
    *ret = 0;
    if (cursor.ptr && !pw_str_u64(cursor, ret)) {
        return PW_FAIL(q->error, PW_INVALID, "cursor: is not one of this list; next_cursor is");
    }
    return PW_OK;
}

void pw_page_begin(pw_question *q)
{
    pw_json_object(q->w);
    pw_json_key(q->w, "items");
    pw_json_array(q->w);
}

void pw_page_end(pw_question *q, pw_str next_cursor)
{
    pw_json_array_end(q->w);
    pw_json_put_str(q->w, "next_cursor", next_cursor);
    pw_json_object_end(q->w);
}

/* --- Answering --- */

pw_status pw_read_op(pawl *p, pw_op *op, pw_arena *arena, pw_error *error)
{
    op->arena = arena;
    pw_store_execute(p->store, op, 1);
    if (op->status != PW_OK && error) {
        *error = op->error;
    }
    return op->status;
}

pw_status pw_find_session(pawl *p, pw_str name, pw_arena *arena, pw_session_row *ret,
                          pw_error *error)
{
    pw_op op = {.kind = PW_OP_SESSION, .session = {.principal = p->principal, .session = name}};
    pw_status status = pw_read_op(p, &op, arena, error);
    if (status == PW_NOT_FOUND) {
        pw_str shown = pw_str_slice(name, 0, pw_utf8_cut(name, 120));
        return PW_FAIL(error, PW_NOT_FOUND, "there is no session \"%.*s\"", PW_STR_ARG(shown));
    }
    if (status == PW_OK) {
        *ret = op.session.row;
    }
    return status;
}

static pw_status answer(pw_question *q, pw_str path)
{
    pw_str query = path;
    path = until(&query, '?');
    PW_TRY(take_path_apart(q, path));
    PW_TRY(take_query_apart(q, query));
    const route *r = find_route(q);
    if (!r) {
        return no_such_path(q);
    }
    PW_TRY(check_parameters(q, r->parameters));
    if (r->session) {
        PW_TRY(pw_find_session(q->p, q->part[1], q->arena, &q->row, q->error));
    }
    PW_TRY(r->answer(q));
    return q->w->out->failed;
}

int32_t pawl_read(pawl *p, pawl_str path, pawl_doc **ret, pawl_error *error)
{
    pw_error *e = (pw_error *)error;
    if (!p || !ret) {
        return PW_FAIL(e, PW_MISUSE, "pawl_read needs a handle and a place for its answer");
    }
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_buffer text;
    pw_buffer_init(&text, &pw_heap, PW_ANSWER_MAX);
    pw_json_writer writer;
    pw_json_begin(&writer, &text);
    pw_question question = {.p = p, .arena = &arena, .error = e, .w = &writer};
    pw_status status = answer(&question, (pw_str){path.ptr, path.len});
    if (status == PW_NOMEM) {
        status = PW_FAIL(e, PW_NOMEM, "no memory for the answer");
    }
    if (status == PW_OK) {
        status = pw_doc_new(pw_buffer_str(&text), ret, error);
    }
    pw_buffer_free(&text);
    pw_arena_free(&arena);
    return status;
}
