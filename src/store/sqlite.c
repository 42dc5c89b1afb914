/*
 * The SQLite store: transactions. It must never answer PW_OK before a synced COMMIT, never infer a
 * commit, and never leave the lock file's write lock behind.
 *
 * A batch is one transaction under the write lock. Trouble before COMMIT rolls everybody back
 * (certain: nothing changed) and the batch is run again one by one, so that one operation's fault
 * stays its own. Trouble in COMMIT is certain only when SQLite says that the log could not be
 * written to its end (full); after any other nobody knows. A foreign lock is waited for WAIT_MS and
 * then given back as PW_LOCKED: the caller tries again for ever.
 *
 * Checkpoints run before the next transaction, under the same lock, or when the writer has nothing
 * to do: never between a commit and its answer.
 */
#include "store/sqlite_inner.h"

enum {
    CALM_MS = 1000,          /* without a transaction, and the caches are emptied */
    WAIT_MS = 1000,          /* for locks, inside one execute */
    CHECKPOINT_PAGES = 1000, /* of 16 KiB: 16 MiB of log */
    RESTART_PAGES = 4000     /* 32 MiB: now readers are waited for, so that the log begins anew */
};

/* --- the log */

int sq_wal_hook(void *ctx, sqlite3 *db, const char *name, int pages)
{
    sq_store *q = ctx;
    (void)db;
    (void)name;
    if (pages < q->wal_pages) { /* the log began anew */
        q->checkpoint_at = CHECKPOINT_PAGES;
    }
    q->wal_pages = pages;
    return SQLITE_OK;
}

/* Under the write lock, outside a transaction. Failing is no trouble: the log only grows until the
 * next time. */
static void checkpoint(sq_store *q)
{
    int mode =
        q->wal_pages >= RESTART_PAGES ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE;
    sqlite3_wal_checkpoint_v2(q->writer.db, NULL, mode, NULL, NULL);
    q->checkpoint_at = q->wal_pages + CHECKPOINT_PAGES;
}

static bool checkpoint_due(const sq_store *q)
{
    return q->wal_pages >= (q->checkpoint_at > 0 ? q->checkpoint_at : CHECKPOINT_PAGES);
}

/* --- transactions */

/* PW_OK: in a transaction, under the lock. Otherwise the kind of trouble, and neither. */
static pw_status begin(sq_store *q, pw_error *error)
{
    q->written_ms = sq_now_ms();
    int64_t end = q->written_ms + WAIT_MS;
    pw_status status = q->writer.db != NULL ? PW_OK : sq_writer_open(q, error);
    if (status != PW_OK) {
        return status;
    }
    status = sq_lock_write(&q->lock, WAIT_MS);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "another process is writing to %s", q->path);
    }
    if (checkpoint_due(q)) {
        checkpoint(q);
    }
    int rc;
    do {
        rc = sq_conn_step(q->writer.begin);
    } while ((rc & 0xff) == SQLITE_BUSY && sq_now_ms() < end);
    if (rc != SQLITE_OK) {
        status = sq_trouble(&q->writer, rc, error);
        sq_lock_write_end(&q->lock);
        return status;
    }
    return PW_OK;
}

static void rollback(sq_store *q)
{
    if (sqlite3_get_autocommit(q->writer.db) == 0) {
        sq_conn_step(q->writer.rollback);
    }
    if (sqlite3_get_autocommit(q->writer.db) == 0) {
        /* No memory even for that. Closing undoes it as well and needs none; the next transaction
         * opens anew. */
        sq_conn_close(&q->writer, false);
    }
    sq_lock_write_end(&q->lock);
}

/* What a failed write is called: the kind of trouble stays in the error. */
static pw_status not_committed(pw_status kind)
{
    switch ((int)kind) {
    case PW_LOCKED:
    case PW_FULL:
    case PW_READ_ONLY:
    case PW_IO:
        return PW_NOT_COMMITTED;
    default: /* corrupt, no memory, too large … say it themselves; nothing was changed either way */
        return kind;
    }
}

/* PW_OK; PW_UNKNOWN; or nothing was changed. The transaction is over and the lock given back. */
static pw_status commit(sq_store *q, pw_error *error)
{
    int rc = sq_conn_step(q->writer.commit);
    if (rc == SQLITE_OK) {
        sq_lock_write_end(&q->lock);
        return PW_OK;
    }
    pw_status kind = sq_trouble(&q->writer, rc, error);
    rollback(q);
    /* Full: a frame of the log could not be written whole, and the one that commits is the last.
     * Locked: never begun. */
    return kind == PW_FULL || kind == PW_LOCKED ? PW_NOT_COMMITTED : PW_UNKNOWN;
}

/* --- what the store keeps in mind beside the file */

static const sq_known *known_of(const sq_store *q, const pw_op *op)
{
    if (op->kind != PW_OP_APPEND) {
        return NULL;
    }
    const sq_known *known = &q->known[(uint64_t)op->append.session_id % SQ_KNOWN];
    return known->session_id == op->append.session_id && known->epoch == op->append.epoch ? known
                                                                                          : NULL;
}

static void remember_append(sq_store *q, int64_t session_id, uint64_t epoch,
                            const pw_append *append)
{
    sq_known *known = &q->known[(uint64_t)session_id % SQ_KNOWN];
    bool same = known->session_id == session_id && known->epoch == epoch;
    *known = (sq_known){.session_id = session_id,
                        .epoch = epoch,
                        .last_seq = append->records[append->record_count - 1].seq,
                        .calm = append->receipt || (same && known->calm)};
}

/* Only what is committed may be remembered. */
static void remember(sq_store *q, const pw_op *op)
{
    if (op->status != PW_OK) {
        return;
    }
    if (op->kind == PW_OP_TAKE && op->take.answer == PW_TOOK) {
        q->known[(uint64_t)op->take.session_id % SQ_KNOWN] =
            (sq_known){.session_id = op->take.session_id,
                       .epoch = op->take.row.epoch,
                       .last_seq = op->take.row.last_seq,
                       .calm = op->take.row.crashes == 0};
    } else if (op->kind == PW_OP_APPEND) {
        remember_append(q, op->append.session_id, op->append.epoch, op->append.append);
    } else if (op->kind == PW_OP_LEAVE) {
        sq_lock_owner_end(&q->lock, &op->owner.owner);
    }
}

/* Owners that died with nothing in hand: no taking will ever find them, so a beat does. */
static int bury_idle(sq_store *q, const pw_owner_id *me)
{
    pw_op leave = {.kind = PW_OP_LEAVE};
    pw_owner_id found[16];
    size_t count = 0;
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(q->writer.db, pw_sql_text[PW_SQL_OWNERS_IDLE], -1, &s, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_bind_text(s, 1, me->text, -1, SQLITE_STATIC);
    }
    while (rc == SQLITE_OK && count < 16 && sqlite3_step(s) == SQLITE_ROW) {
        const char *id = (const char *)sqlite3_column_text(s, 0);
        if (id != NULL && strlen(id) < sizeof(found[0].text)) {
            memcpy(found[count++].text, id, strlen(id) + 1);
        }
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_finalize(s);
    } else {
        sqlite3_finalize(s);
    }
    for (size_t i = 0; i < count && rc == SQLITE_OK; i++) {
        if (sq_lock_owner_alive(&q->lock, &found[i]) == 0) {
            leave.owner.owner = found[i];
            rc = sq_conn_run(&q->writer, &leave, &q->scratch, NULL);
        }
    }
    return rc;
}

/* --- batches of writes */

static void refuse(pw_op *ops, size_t count, pw_status status, const pw_error *why)
{
    for (size_t i = 0; i < count; i++) {
        if (pw_op_begin(&ops[i]) == PW_OK) { /* clears what an undone run has answered */
            ops[i].error = *why;
            ops[i].status = status;
        }
    }
}

/* False: the transaction must go, and `why` says so. */
static bool run_in_batch(sq_store *q, pw_op *op, pw_error *why)
{
    if (pw_op_begin(op) != PW_OK) {
        return true;
    }
    if (op->kind ==
        PW_OP_JOIN) { /* before the row can be seen: a row without a lock is a dead owner's */
        op->status = sq_lock_owner(&q->lock, &op->owner.owner);
        if (op->status != PW_OK) {
            PW_FAIL(&op->error, op->status, "the owner's lock is not to be had");
            return true;
        }
    }
    int rc = sq_conn_run(&q->writer, op, &q->scratch, known_of(q, op));
    if (rc == SQLITE_OK && op->kind == PW_OP_BEAT && op->status == PW_OK) {
        rc = bury_idle(q, &op->owner.owner);
    }
    if (rc != SQLITE_OK) {
        sq_trouble(&q->writer, rc, why);
        return false;
    }
    if (pw_op_writes(op) && (op->status == PW_NOMEM || op->status == PW_CORRUPT)) {
        *why = op->error; /* its rows are written but its answer cannot be given */
        return false;
    }
    return true;
}

static void execute_one_by_one(sq_store *q, pw_op *ops, size_t count);

static void execute_writes(sq_store *q, pw_op *ops, size_t count)
{
    pw_error why = {0};
    pw_status status = begin(q, &why);
    if (status != PW_OK) {
        refuse(ops, count, not_committed(status), &why);
        return;
    }
    pw_arena_reset(&q->scratch);
    for (size_t i = 0; i < count; i++) {
        if (!run_in_batch(q, &ops[i], &why)) {
            rollback(q);
            if (count == 1) {
                refuse(ops, 1, not_committed((pw_status)why.code), &why);
            } else {
                execute_one_by_one(q, ops, count);
            }
            return;
        }
    }
    status = commit(q, &why);
    if (status == PW_NOT_COMMITTED && count > 1) {
        execute_one_by_one(q, ops, count);
    } else if (status != PW_OK) {
        refuse(ops, count, status, &why);
    } else {
        for (size_t i = 0; i < count; i++) {
            remember(q, &ops[i]);
        }
    }
}

static void execute_one_by_one(sq_store *q, pw_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        execute_writes(q, &ops[i], 1);
        if (ops[i].error.code == PW_LOCKED) { /* each would wait as long for nothing */
            pw_error why = ops[i].error;
            refuse(&ops[i + 1], count - i - 1, PW_NOT_COMMITTED, &why);
            return;
        }
    }
}

/* --- reads, on connections of their own */

static void reader_put(sq_store *q, sq_conn *c)
{
    pthread_mutex_lock(&q->pool_mutex);
    q->reader_busy[c - q->readers] = false;
    pthread_cond_signal(&q->pool_free);
    pthread_mutex_unlock(&q->pool_mutex);
}

static sq_conn *reader_get(sq_store *q, pw_error *error)
{
    size_t at = 0;
    pthread_mutex_lock(&q->pool_mutex);
    for (;;) {
        for (at = 0; at < SQ_READERS && q->reader_busy[at]; at++) {
        }
        if (at < SQ_READERS) {
            break;
        }
        pthread_cond_wait(&q->pool_free, &q->pool_mutex);
    }
    q->reader_busy[at] = true;
    pthread_mutex_unlock(&q->pool_mutex);
    sq_conn *c = &q->readers[at];
    if (c->db == NULL && sq_conn_open(c, q->read_path, q->read_mode, error) != PW_OK) {
        reader_put(q, c);
        return NULL;
    }
    return c;
}

/* Operations of one statement see one moment of the file without being asked to. */
static bool needs_snapshot(const pw_op *ops, size_t count)
{
    switch (ops[0].kind) {
    case PW_OP_SESSION:
    case PW_OP_SESSIONS:
    case PW_OP_MESSAGE:
    case PW_OP_TURN:
    case PW_OP_BLOB:
    case PW_OP_OWNERS:
        return count > 1;
    default:
        return true;
    }
}

static void run_reads(sq_store *q, sq_conn *c, pw_op *ops, size_t count)
{
    pw_error why = {0};
    pw_arena scratch;
    bool snapshot = needs_snapshot(ops, count);
    int rc = snapshot ? sq_conn_step(c->begin) : SQLITE_OK;
    if (rc != SQLITE_OK) {
        pw_status status = sq_trouble(c, rc, &why);
        refuse(ops, count, status, &why);
        return;
    }
    pw_arena_init(&scratch, q->allocator, 0, 0);
    for (size_t i = 0; i < count; i++) {
        if (pw_op_begin(&ops[i]) == PW_OK) {
            rc = sq_conn_run(c, &ops[i], &scratch, NULL);
            if (rc != SQLITE_OK) {
                pw_status status = sq_trouble(c, rc, &why);
                refuse(&ops[i], 1, status, &why);
            }
        }
    }
    pw_arena_free(&scratch);
    if (sqlite3_get_autocommit(c->db) == 0) {
        sq_conn_step(c->rollback);
    }
}

static void execute_reads(sq_store *q, pw_op *ops, size_t count)
{
    pw_error why = {0};
    sq_conn *c = reader_get(q, &why);
    if (c == NULL) {
        refuse(ops, count, (pw_status)why.code, &why);
        return;
    }
    run_reads(q, c, ops, count);
    reader_put(q, c);
}

static void sq_execute(pw_store *store, pw_op *ops, size_t count)
{
    sq_store *q = (sq_store *)store;
    bool writes = false;
    for (size_t i = 0; i < count; i++) {
        writes = writes || pw_op_writes(&ops[i]);
    }
    if (!writes) {
        execute_reads(q, ops, count);
    } else if (q->read_only) {
        pw_error why;
        PW_FAIL(&why, PW_READ_ONLY, "%s was opened for reading", q->path);
        refuse(ops, count, PW_NOT_COMMITTED, &why);
    } else {
        execute_writes(q, ops, count);
    }
}

/* --- a transactional tool (D2) */

typedef struct tool_limit {
    int64_t end_ms;
} tool_limit;

static int over_limit(void *ctx)
{
    const tool_limit *limit = ctx;
    return sq_now_ms() >= limit->end_ms;
}

/* A transaction that the tool lost (OR ROLLBACK, RAISE, an I/O error) would leave it writing by
 * itself: every commit is undone. */
static int no_commit(void *ctx)
{
    (void)ctx;
    return 1;
}

static bool is_own_statement(const sq_conn *c, const sqlite3_stmt *s)
{
    for (size_t i = 0; i < PW_SQL_COUNT; i++) {
        if (c->statements[i] == s) {
            return true;
        }
    }
    return s == c->begin || s == c->commit || s == c->rollback || s == c->version;
}

/* What the tool left running would keep COMMIT from ending. */
static void reset_left(sq_conn *c)
{
    for (sqlite3_stmt *s = sqlite3_next_stmt(c->db, NULL); s != NULL;
         s = sqlite3_next_stmt(c->db, s)) {
        if (!is_own_statement(c, s) && sqlite3_stmt_busy(s)) {
            sqlite3_reset(s);
        }
    }
}

static pw_status run_tool(sq_store *q, pw_transact *t)
{
    sq_conn *c = &q->writer;
    tool_limit limit = {sq_now_ms() + t->limit_ms};
    sqlite3_progress_handler(c->db, 1000, over_limit, &limit);
    sqlite3_commit_hook(c->db, no_commit, NULL);
    c->tool_runs = true;
    pw_status status = t->run(t->ctx, c->db, t->arena, &t->body);
    c->tool_runs = false;
    sqlite3_commit_hook(c->db, NULL, NULL);
    sqlite3_progress_handler(c->db, 0, NULL, NULL);
    reset_left(c);
    bool gone = sqlite3_get_autocommit(c->db) != 0;
    t->limit_passed = gone || sq_now_ms() >= limit.end_ms;
    if (gone) {
        return PW_FAIL(&t->error, PW_TIMEOUT,
                       "the tool's transaction is gone; what it wrote is undone");
    }
    if (t->limit_passed) {
        return PW_FAIL(&t->error, PW_TIMEOUT, "the tool ran over %lld ms; what it wrote is undone",
                       (long long)t->limit_ms);
    }
    if (status != PW_OK) {
        return PW_FAIL(&t->error, status, "the tool did not succeed; what it wrote is undone");
    }
    return PW_OK;
}

/* The epoch and the named rows, before anything runs. */
static pw_status check_first(sq_store *q, pw_transact *t)
{
    pw_append probe = *t->append;
    pw_op op = {
        .kind = PW_OP_APPEND, .arena = t->arena, .append = {t->session_id, t->epoch, &probe}};
    int rc = sq_conn_exec(&q->writer, "savepoint pawl_probe");
    if (rc == SQLITE_OK) {
        rc = sq_conn_run(&q->writer, &op, &q->scratch, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sq_conn_exec(&q->writer, "rollback to pawl_probe; release pawl_probe");
    }
    if (rc != SQLITE_OK) {
        return not_committed(sq_trouble(&q->writer, rc, &t->error));
    }
    t->error = op.error;
    return op.status;
}

static pw_status transact_inside(sq_store *q, pw_transact *t)
{
    pw_append append;
    PW_TRY(check_first(q, t));
    PW_TRY(run_tool(q, t));
    PW_TRY(pw_transact_fill(t, t->body, &append));
    pw_op op = {
        .kind = PW_OP_APPEND, .arena = t->arena, .append = {t->session_id, t->epoch, &append}};
    int rc = sq_conn_run(&q->writer, &op, &q->scratch, NULL);
    if (rc != SQLITE_OK) {
        return not_committed(sq_trouble(&q->writer, rc, &t->error));
    }
    t->error = op.error;
    return op.status;
}

static void sq_transact(pw_store *store, pw_transact *t)
{
    sq_store *q = (sq_store *)store;
    if (q->read_only) {
        PW_FAIL(&t->error, PW_READ_ONLY, "%s was opened for reading", q->path);
        t->status = PW_NOT_COMMITTED;
        return;
    }
    t->status = begin(q, &t->error);
    if (t->status != PW_OK) {
        t->status = not_committed(t->status);
        return;
    }
    pw_arena_reset(&q->scratch);
    t->status = transact_inside(q, t);
    if (t->status == PW_OK) {
        t->status = commit(q, &t->error);
    } else {
        rollback(q);
    }
    if (t->status == PW_OK) {
        remember_append(q, t->session_id, t->epoch, t->append);
    } else {
        t->body = PW_STR_NONE;
    }
}

/* --- the rest */

/* A process that rests holds no pages: it has them again from the kernel. */
static void empty_caches(sq_store *q)
{
    q->written_ms = 0;
    sqlite3_db_release_memory(q->writer.db);
    pthread_mutex_lock(&q->pool_mutex);
    for (size_t i = 0; i < SQ_READERS; i++) {
        if (!q->reader_busy[i] && q->readers[i].db != NULL) {
            sqlite3_db_release_memory(q->readers[i].db);
        }
    }
    pthread_mutex_unlock(&q->pool_mutex);
}

static bool sq_changed(pw_store *store)
{
    sq_store *q = (sq_store *)store;
    if (q->read_only) {
        return true; /* no connection of its own to ask: look */
    }
    if (q->writer.db == NULL) {
        return true;
    }
    if (q->written_ms > 0 && sq_now_ms() - q->written_ms >= CALM_MS) {
        empty_caches(q);
    }
    if (checkpoint_due(q) && sq_lock_write(&q->lock, 0) == PW_OK) {
        checkpoint(q);
        sq_lock_write_end(&q->lock);
    }
    int64_t version = q->data_version;
    if (sqlite3_step(q->writer.version) == SQLITE_ROW) {
        version = sqlite3_column_int64(q->writer.version, 0);
    }
    sqlite3_reset(q->writer.version);
    bool changed = version != q->data_version;
    q->data_version = version;
    return changed;
}

static int sq_owner_alive(pw_store *store, const pw_owner_id *owner)
{
    return sq_lock_owner_alive(&((sq_store *)store)->lock, owner);
}

static pw_store_traits sq_traits(const pw_store *store)
{
    const sq_store *q = (const sq_store *)store;
    return (pw_store_traits){.name = "sqlite",
                             .schema = PW_SQL_SCHEMA_VERSION,
                             .transactions = !q->read_only,
                             .many_processes = true,
                             .value_limit = -1,
                             .handle_kind = 1, /* PAWL_SQLITE */
                             .version = sqlite3_libversion()};
}

static void sq_close(pw_store *store)
{
    sq_store *q = (sq_store *)store;
    /* A store for reading alone has no writer to close after its readers: with no log there is
     * nothing to write either. */
    bool tidy = q->read_only && sq_log_size(q->path) == 0;
    for (size_t i = 0; i < SQ_READERS; i++) {
        sq_conn_close(&q->readers[i], tidy);
    }
    /* One closes after the other, so that the last one knows that it is the last. */
    bool locked = q->lock.fd >= 0 && sq_lock_write(&q->lock, 10 * WAIT_MS) == PW_OK;
    bool alone = locked && sq_lock_alone(&q->lock);
    sq_conn_close(&q->writer, alone);
    sq_lock_close(&q->lock, q->allocator, alone);
    pw_arena_free(&q->scratch);
    pthread_cond_destroy(&q->pool_free);
    pthread_mutex_destroy(&q->pool_mutex);
    sq_store_free(q);
}

const pw_backend sq_backend = {
    .execute = sq_execute,
    .transact = sq_transact,
    .changed = sq_changed,
    .owner_alive = sq_owner_alive,
    .traits = sq_traits,
    .close = sq_close,
};
