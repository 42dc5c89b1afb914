/*
 * One SQLite connection: its settings, its prepared statements, and what its result codes mean. It
 * must never decide about an operation: it binds what sql.c says and hands the rows back.
 */
#include "store/sqlite_inner.h"

/* --- errors */

static pw_status trouble_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return PW_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return PW_LOCKED;
    case SQLITE_FULL:
        return PW_FULL;
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return PW_READ_ONLY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return PW_CORRUPT;
    case SQLITE_TOOBIG:
        return PW_TOO_LARGE;
    case SQLITE_INTERRUPT:
        return PW_TIMEOUT;
    case SQLITE_IOERR:
        return rc == SQLITE_IOERR_NOMEM ? PW_NOMEM : PW_IO;
    case SQLITE_CANTOPEN:
        return PW_IO;
    default:
        return PW_INTERNAL;
    }
}

pw_status sq_trouble(const sq_conn *c, int rc, pw_error *error)
{
    return PW_FAIL(error, trouble_of(rc), "sqlite (%d): %s", rc,
                   c->db != NULL ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc));
}

/* --- what a transactional tool may not do (D2) */

static bool is_ours(const char *name)
{
    return name != NULL && sqlite3_strnicmp(name, "pawl_", 5) == 0;
}

static int authorize(void *ctx, int action, const char *a, const char *b, const char *database,
                     const char *trigger)
{
    const sq_conn *c = ctx;
    (void)database;
    (void)trigger;
    if (!c->tool_runs) {
        return SQLITE_OK;
    }
    switch (action) {
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
        return SQLITE_DENY;
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_FUNCTION:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    default: /* inserts, updates, deletes, and every change of the schema: named first or on the
                table named second */
        return is_ours(a) || is_ours(b) ? SQLITE_DENY : SQLITE_OK;
    }
}

/* --- opening */

/* Caches are in pages: a size in KiB is divided once, by the 4 KiB that SQLite takes a page for
 * until it has read the file, and is then four times as large. The writer's (8 MiB in our files)
 * holds what 256 busy sessions write to at their ends; a reader's (512 KiB) one page of a list. */
static int configure(sq_conn *c, sq_mode mode)
{
    int rc = sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_extended_result_codes(c->db, 1);
    if (rc == SQLITE_OK) { /* most pragmas read the file, which others may be making */
        rc = sqlite3_busy_timeout(c->db, 5000);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(c->db, "pragma wal_autocheckpoint = 0", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK && mode == SQ_WRITER) {
        rc = sqlite3_set_authorizer(c->db, authorize, c);
    }
    if (rc == SQLITE_OK && mode == SQ_WRITER) {
        rc = sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    }
    if (rc == SQLITE_OK && mode == SQ_WRITER) {
        rc = sqlite3_exec(c->db, "pragma synchronous = full; pragma cache_size = 512", NULL, NULL,
                          NULL);
    }
    if (rc == SQLITE_OK && mode == SQ_READER) {
        rc = sqlite3_exec(c->db, "pragma query_only = 1; pragma cache_size = 32", NULL, NULL, NULL);
    }
    return rc;
}

static int prepare(sq_conn *c, const char *sql, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v3(c->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
}

pw_status sq_conn_open(sq_conn *c, const char *path, sq_mode mode, pw_error *error)
{
    int flags = SQLITE_OPEN_NOMUTEX;
    flags |= mode == SQ_IMMUTABLE ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    flags |= mode == SQ_WRITER ? SQLITE_OPEN_CREATE : 0;
    flags |= mode == SQ_IMMUTABLE ? SQLITE_OPEN_URI : 0;
    *c = (sq_conn){0};
    int rc = sqlite3_open_v2(path, &c->db, flags, NULL);
    if (rc == SQLITE_OK) {
        rc = configure(c, mode);
    }
    if (rc == SQLITE_OK) {
        rc = prepare(c, mode == SQ_WRITER ? "begin immediate" : "begin", &c->begin);
    }
    if (rc == SQLITE_OK) {
        rc = prepare(c, "commit", &c->commit);
    }
    if (rc == SQLITE_OK) {
        rc = prepare(c, "rollback", &c->rollback);
    }
    if (rc == SQLITE_OK && mode == SQ_WRITER) {
        rc = prepare(c, "pragma data_version", &c->version);
    }
    if (rc == SQLITE_OK && mode == SQ_WRITER && sqlite3_db_readonly(c->db, "main") == 1) {
        rc = SQLITE_READONLY;
    }
    if (rc == SQLITE_OK) {
        /* From here on a foreign lock is waited for in slices; the store counts them. */
        rc = sqlite3_busy_timeout(c->db, mode == SQ_WRITER ? 50 : 1000);
    }
    if (rc != SQLITE_OK) {
        pw_status status = sq_trouble(c, rc, error);
        sq_conn_close(c, false);
        return status;
    }
    return PW_OK;
}

void sq_conn_close(sq_conn *c, bool checkpoint)
{
    if (c->db == NULL) {
        return;
    }
    for (size_t i = 0; i < PW_SQL_COUNT; i++) {
        sqlite3_finalize(c->statements[i]);
    }
    sqlite3_finalize(c->begin);
    sqlite3_finalize(c->commit);
    sqlite3_finalize(c->rollback);
    sqlite3_finalize(c->version);
    if (checkpoint) {
        sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    }
    sqlite3_close_v2(c->db); /* a tool that forgot to finalize a statement must not keep us */
    *c = (sq_conn){0};
}

int sq_conn_exec(sq_conn *c, const char *sql)
{
    return sqlite3_exec(c->db, sql, NULL, NULL, NULL);
}

int sq_conn_number(sq_conn *c, const char *sql, int64_t fallback, int64_t *ret)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc != SQLITE_OK) {
        return rc;
    }
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(s, 0);
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        *ret = fallback;
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    return rc;
}

int sq_conn_step(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* --- statements */

static int bind(sqlite3_stmt *s, const pw_sql_statement *st)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; i < st->count && rc == SQLITE_OK; i++) {
        const pw_sql_value *p = &st->params[i];
        int at = (int)i + 1;
        switch (p->type) {
        case PW_SQL_NULL:
            rc = sqlite3_bind_null(s, at);
            break;
        case PW_SQL_INTEGER:
            rc = sqlite3_bind_int64(s, at, p->number);
            break;
        case PW_SQL_TEXT:
            rc = sqlite3_bind_text64(s, at, p->text.ptr, p->text.len, SQLITE_STATIC, SQLITE_UTF8);
            break;
        case PW_SQL_BYTES:
            rc = sqlite3_bind_blob64(s, at, p->text.ptr, p->text.len, SQLITE_STATIC);
            break;
        }
    }
    return rc;
}

/* Cells borrow SQLite's memory until the next step. */
static int cells_of(sqlite3_stmt *s, pw_sql_value *cells, int count)
{
    for (int i = 0; i < count; i++) {
        cells[i] = (pw_sql_value){.type = PW_SQL_NULL, .text = {"", 0}};
        switch (sqlite3_column_type(s, i)) {
        case SQLITE_INTEGER:
            cells[i].type = PW_SQL_INTEGER;
            cells[i].number = sqlite3_column_int64(s, i);
            break;
        case SQLITE_NULL:
            break;
        case SQLITE_BLOB:
            cells[i].type = PW_SQL_BYTES;
            cells[i].text.ptr = sqlite3_column_blob(s, i);
            cells[i].text.len = (size_t)sqlite3_column_bytes(s, i);
            break;
        default:
            cells[i].type = PW_SQL_TEXT;
            cells[i].text.ptr = (const char *)sqlite3_column_text(s, i);
            cells[i].text.len = (size_t)sqlite3_column_bytes(s, i);
            break;
        }
        if (cells[i].text.ptr == NULL) {
            if (sqlite3_errcode(sqlite3_db_handle(s)) == SQLITE_NOMEM) {
                return SQLITE_NOMEM;
            }
            cells[i].text = (pw_str){"", 0};
        }
    }
    return SQLITE_OK;
}

static int step_rows(sqlite3_stmt *s, pw_sql_run *run)
{
    pw_sql_value cells[PW_SQL_MAX_CELLS];
    int count = sqlite3_column_count(s);
    int rc;
    PW_ASSERT(count <= PW_SQL_MAX_CELLS);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        rc = cells_of(s, cells, count);
        if (rc != SQLITE_OK) {
            return rc;
        }
        pw_sql_row(run, cells, (size_t)count);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int statement(sq_conn *c, pw_sql_run *run, const pw_sql_statement *st)
{
    sqlite3_stmt **s = &c->statements[st->id];
    int rc = *s != NULL ? SQLITE_OK : prepare(c, pw_sql_text[st->id], s);
    if (rc == SQLITE_OK) {
        rc = bind(*s, st);
    }
    if (rc != SQLITE_OK) {
        return rc;
    }
    rc = step_rows(*s, run);
    pw_sql_did(run, sqlite3_column_count(*s) > 0 ? 0 : sqlite3_changes64(c->db));
    sqlite3_reset(*s);
    return rc;
}

/* The file itself, below the tables. */
static int integrity(sq_conn *c, pw_sql_run *run)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(c->db, "pragma integrity_check(100)", -1, &s, NULL);
    while (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        pw_str line = pw_str_from((const char *)sqlite3_column_text(s, 0));
        if (!pw_str_is(line, "ok")) {
            pw_sql_fault(run, line);
        }
    }
    return sqlite3_finalize(s);
}

/* A damaged page is what VERIFY looks for: a line of its report, not the end of it. */
static int damage_told(sq_conn *c, pw_sql_run *run, int rc)
{
    bool damage = (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
    if (run->op->kind != PW_OP_VERIFY || !damage) {
        return rc;
    }
    pw_sql_fault(run, pw_str_from(sqlite3_errmsg(c->db)));
    return SQLITE_OK;
}

int sq_conn_run(sq_conn *c, pw_op *op, pw_arena *scratch, const sq_known *known)
{
    pw_sql_run run;
    pw_sql_statement st;
    int rc = SQLITE_OK;
    pw_sql_start(&run, op, scratch);
    if (known != NULL) {
        run.calm = known->calm;
        run.follows = op->append.append->records[0].seq == known->last_seq + 1;
    }
    if (op->kind == PW_OP_VERIFY) {
        rc = damage_told(c, &run, integrity(c, &run));
    }
    while (rc == SQLITE_OK && pw_sql_next(&run, &st)) {
        rc = damage_told(c, &run, statement(c, &run, &st));
    }
    if (rc == SQLITE_OK) {
        pw_sql_end(&run);
    }
    return rc;
}
