/*
 * SQL tools with effects `none`: a pool thread with a connection of its own to the store's file.
 *
 * The connection can only read: it is opened so, told so, and an authorizer keeps it from other
 * files and from settings. It never checkpoints: that is the writer's alone. A progress handler
 * ends it at its limit or when it is asked to end.
 */
#include <sqlite3.h>

#include "tool/tool_inner.h"

#define PROGRESS_STEPS 1000
#define BUSY_MS 1000

typedef struct sql_read {
    pw_str arguments, sql; /* JSON texts */
} sql_read;

static int refuse(void *ctx, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)ctx;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    switch (action) {
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_PRAGMA:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return SQLITE_DENY;
    default:
        return SQLITE_OK;
    }
}

static int progress(void *ctx)
{
    const pw_run *run = ctx;
    return atomic_load(&run->over) || pw_tool_now_ms() > run->due_ms;
}

static bool settle_in(sqlite3 *db, pw_run *run)
{
    sqlite3_progress_handler(db, PROGRESS_STEPS, progress, run);
    return sqlite3_busy_timeout(db, BUSY_MS) == SQLITE_OK &&
           sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK &&
           sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) == SQLITE_OK &&
           sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) == SQLITE_OK &&
           sqlite3_wal_autocheckpoint(db, 0) == SQLITE_OK &&
           sqlite3_exec(db, "pragma query_only = 1", NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_set_authorizer(db, refuse, NULL) == SQLITE_OK;
}

static pw_status run_on(sqlite3 *db, pw_run *run)
{
    const sql_read *read = run->state;
    const pw_json *sql = NULL, *arguments = NULL;
    PW_TRY(pw_json_parse(&run->arena, read->sql, 0, &sql, NULL));
    PW_TRY(pw_json_parse(&run->arena, read->arguments, 0, &arguments, NULL));
    return pw_sql_run(db, sql, arguments, &run->arena, &run->outcome);
}

static void work(pw_run *run)
{
    sqlite3 *db = NULL;
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(run->runner->host.store_path.ptr, &db, flags, NULL);
    pw_status status = db == NULL || code == SQLITE_NOMEM ? PW_NOMEM : PW_OK;
    if (status == PW_OK && (code != SQLITE_OK || !settle_in(db, run))) {
        pw_outcome_error(&run->outcome, "SQLError", "the store's file cannot be opened");
    } else if (status == PW_OK) {
        status = run_on(db, run);
    }
    if (status != PW_OK) {
        pw_outcome_error(&run->outcome, "OutOfMemory", "the statement was not run: out of memory");
    } else if (run->outcome.kind == PW_TOOL_ERROR && progress(run)) {
        run->outcome = (pw_tool_outcome){.kind = PW_TOOL_ABANDONED};
    }
    (void)sqlite3_close(db);
}

static pw_status start(pw_run *run, const pw_tool_call *call, const pw_tool_place *place,
                       pw_error *error)
{
    (void)place;
    if (run->runner->host.store_path.len == 0) {
        return PW_FAIL(error, PW_UNSUPPORTED, "a tool of kind sql needs a store in a SQLite file");
    }
    const pw_json *sql = pw_json_get(call->tool->config, "sql");
    sql_read *read = PW_NEW(&run->arena, sql_read);
    if (read == NULL || pw_arena_dup(&run->arena, call->arguments, &read->arguments) != PW_OK ||
        pw_arena_dup(&run->arena, sql != NULL ? sql->raw : PW_STR("[]"), &read->sql) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    run->state = read;
    run->work = work;
    return pw_pool_give(run->runner, run, error);
}

static void abort_read(pw_run *run)
{
    if (pw_pool_take_back(run->runner, run)) {
        pw_outcome_error(&run->outcome, "NotStarted",
                         "the tool was not run: no thread was free in time");
        pw_run_end(run);
    } /* else its progress handler looks at `over` */
}

const pw_run_kind pw_run_sql = {
    .name = "sql", .start = start, .abort = abort_read, .release = pw_run_free};
