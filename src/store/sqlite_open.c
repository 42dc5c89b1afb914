/*
 * Opening a SQLite file: look before touching (J8), make or migrate the schema in one transaction,
 * then connect. A file that a newer program wrote, or that is no database, must be left exactly as
 * it is.
 *
 * Everything that changes the file happens under the write lock, so that any number of processes
 * may race to create one.
 */
#include "base/format.h"
#include "store/sqlite_inner.h"

#include <sys/stat.h>

enum { OPEN_WAIT_MS = 5000 };

/* --- looking */

int64_t sq_log_size(const char *path)
{
    char name[4096];
    struct stat st;
    if (pw_format(name, sizeof(name), "%s-wal", path) >= sizeof(name) || stat(name, &st) != 0) {
        return 0;
    }
    return (int64_t)st.st_size;
}

/* 0: no schema of ours. */
static int schema_version(sq_conn *c, int64_t *ret)
{
    int64_t there = 0;
    int rc =
        sq_conn_number(c, "select count(*) from sqlite_master where name = 'pawl_meta'", 0, &there);
    *ret = 0;
    if (rc == SQLITE_OK && there > 0) {
        rc = sq_conn_number(c, "select cast(value as integer) from pawl_meta where key = 'schema'",
                            0, ret);
    }
    return rc;
}

/* Whoever reads a log first keeps others out while it does. */
static int schema_version_patiently(sq_conn *c, int64_t *ret)
{
    int64_t end = sq_now_ms() + OPEN_WAIT_MS;
    int rc;
    do {
        rc = schema_version(c, ret);
    } while ((rc & 0xff) == SQLITE_BUSY && sq_now_ms() < end);
    return rc;
}

static pw_status version_check(int64_t version, pw_error *error)
{
    if (version > PW_SQL_SCHEMA_VERSION) {
        return PW_FAIL(error, PW_NEWER_SCHEMA,
                       "the file has schema %lld, this program knows %d: use a newer pawl",
                       (long long)version, PW_SQL_SCHEMA_VERSION);
    }
    return PW_OK;
}

/* Before anything that could write: journal mode, recovery by checkpoint, schema. The connection
 * stays as the first reader: closed as the only one of a file, the next would read the whole log
 * anew. */
static pw_status look(sq_store *q, pw_error *error)
{
    sq_conn *c = &q->readers[0];
    int64_t version = 0;
    PW_TRY(sq_conn_open(c, q->path, SQ_READER, error));
    int rc = schema_version_patiently(c, &version);
    pw_status status = rc == SQLITE_OK ? version_check(version, error) : sq_trouble(c, rc, error);
    if (status != PW_OK) {
        /* Without a log a close changes nothing and takes its own files away; with one it would
         * checkpoint. */
        sq_conn_close(c, sq_log_size(q->path) == 0);
    }
    return status;
}

/* --- making */

static int run_schema(sq_conn *c)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; pw_sql_schema[i] != NULL && rc == SQLITE_OK; i++) {
        rc = sq_conn_exec(c, pw_sql_schema[i]);
    }
    return rc;
}

static int begin_patiently(sq_conn *c)
{
    int64_t end = sq_now_ms() + OPEN_WAIT_MS;
    int rc;
    do {
        rc = sq_conn_step(c->begin);
    } while ((rc & 0xff) == SQLITE_BUSY && sq_now_ms() < end);
    return rc;
}

/* Pages of 16 KiB, where the file is made here: a step's row of 1 to 5 KB leaves little of one
 * empty. With 8 KiB a row of 5 KB has a page to itself, with 4 KiB two rows of 1.4 KB have (case
 * I1). */
static int log_mode(sq_conn *c)
{
    int64_t end = sq_now_ms() + OPEN_WAIT_MS;
    int rc;
    do {
        rc = sq_conn_exec(c, "pragma page_size = 16384; pragma journal_mode = wal");
    } while ((rc & 0xff) == SQLITE_BUSY && sq_now_ms() < end);
    return rc;
}

/* Under the write lock. */
static pw_status prepare_file(sq_store *q, pw_error *error)
{
    sq_conn *c = &q->writer;
    int64_t version = 0;
    int rc = log_mode(c);
    if (rc == SQLITE_OK) {
        rc = schema_version_patiently(c, &version);
    }
    if (rc == SQLITE_OK && version == 0) {
        rc = begin_patiently(c);
        if (rc == SQLITE_OK) {
            rc = run_schema(c);
            int end = sq_conn_step(rc == SQLITE_OK ? c->commit : c->rollback);
            rc = rc == SQLITE_OK ? end : rc;
            version = PW_SQL_SCHEMA_VERSION;
        }
    }
    if (rc != SQLITE_OK) {
        return sq_trouble(c, rc, error);
    }
    return version_check(version, error);
}

pw_status sq_writer_open(sq_store *q, pw_error *error)
{
    PW_TRY(sq_conn_open(&q->writer, q->path, SQ_WRITER, error));
    sqlite3_wal_hook(q->writer.db, sq_wal_hook, q);
    return PW_OK;
}

static pw_status connect_writer(sq_store *q, pw_error *error)
{
    PW_TRY(sq_writer_open(q, error));
    pw_status status = sq_lock_write(&q->lock, OPEN_WAIT_MS);
    if (status != PW_OK) {
        return PW_FAIL(error, status, "another process is writing to %s", q->path);
    }
    status = prepare_file(q, error);
    sq_lock_write_end(&q->lock);
    PW_TRY(status);
    int rc = sq_conn_number(&q->writer, "pragma data_version", 0, &q->data_version);
    return rc == SQLITE_OK ? PW_OK : sq_trouble(&q->writer, rc, error);
}

static pw_status reader_try(sq_store *q, int64_t *ret_version, pw_error *error)
{
    PW_TRY(sq_conn_open(&q->readers[0], q->read_path, q->read_mode, error));
    int rc = schema_version(&q->readers[0], ret_version);
    if (rc != SQLITE_OK) {
        pw_status status = sq_trouble(&q->readers[0], rc, error);
        sq_conn_close(&q->readers[0], false);
        return status;
    }
    return PW_OK;
}

/* For inspection only. A log that is not there is made for as long as this is open, and taken away
 * with it. */
static pw_status connect_reader(sq_store *q, pw_error *error)
{
    int64_t version = 0;
    pw_status status = reader_try(q, &version, error);
    if ((status == PW_IO || status == PW_READ_ONLY) && sq_log_size(q->path) == 0) {
        /* No log, and no right to make one: nobody writes, and the file alone is the store. */
        q->read_mode = SQ_IMMUTABLE;
        q->read_path = q->uri;
        status = reader_try(q, &version, error);
    }
    PW_TRY(status);
    if (version == 0) {
        return PW_FAIL(error, PW_INVALID, "%s is no pawl store", q->path);
    }
    return version_check(version, error);
}

/* --- the store object */

void sq_store_free(sq_store *q)
{
    const pw_allocator *a = q->allocator;
    if (q->path != NULL) {
        a->resize(a->ctx, q->path, q->path_size, 0);
    }
    if (q->uri != NULL) {
        a->resize(a->ctx, q->uri, q->uri_size, 0);
    }
    a->resize(a->ctx, q, sizeof(*q), 0);
}

/* "file:" and the path with what a URI would read otherwise as %XX. */
static void uri_write(char *to, pw_str path)
{
    static const char digits[] = "0123456789abcdef";
    memcpy(to, "file:", 5);
    to += 5;
    for (size_t i = 0; i < path.len; i++) {
        unsigned char byte = (unsigned char)path.ptr[i];
        if (byte == '%' || byte == '?' || byte == '#') {
            *to++ = '%';
            *to++ = digits[byte >> 4];
            *to++ = digits[byte & 15];
        } else {
            *to++ = (char)byte;
        }
    }
    memcpy(to, "?immutable=1", sizeof("?immutable=1"));
}

static sq_store *store_make(const pw_store_options *options, pw_str path)
{
    const pw_allocator *a = options->allocator;
    sq_store *q = a->resize(a->ctx, NULL, 0, sizeof(*q));
    if (q == NULL) {
        return NULL;
    }
    memset(q, 0, sizeof(*q));
    q->base.backend = &sq_backend;
    q->allocator = a;
    q->read_only = options->read_only;
    q->read_mode = SQ_READER;
    q->lock.fd = -1;
    q->path_size = path.len + 1;
    q->path = a->resize(a->ctx, NULL, 0, q->path_size);
    q->uri_size = 3 * path.len + 32;
    q->uri = a->resize(a->ctx, NULL, 0, q->uri_size);
    if (q->path == NULL || q->uri == NULL) {
        sq_store_free(q);
        return NULL;
    }
    memcpy(q->path, path.ptr, path.len);
    q->path[path.len] = '\0';
    uri_write(q->uri, path);
    q->read_path = q->path;
    pw_arena_init(&q->scratch, a, 0, 0);
    return q;
}

static pw_status path_check(pw_str path, bool read_only, struct stat *st, char *text,
                            pw_error *error)
{
    if (path.len == 0 || pw_str_is(path, ":memory:")) {
        return PW_FAIL(error, PW_INVALID,
                       "a sqlite store needs a path; `memory:` is the other one");
    }
    if (path.len > 4000 || memchr(path.ptr, '\0', path.len) != NULL) {
        return PW_FAIL(error, PW_INVALID, "this is no path");
    }
    memcpy(text, path.ptr, path.len);
    text[path.len] = '\0';
    if (stat(text, st) != 0) {
        *st = (struct stat){0};
        if (read_only) {
            return PW_FAIL(error, PW_NOT_FOUND, "there is no file %s", text);
        }
    } else if (!S_ISREG(st->st_mode)) {
        return PW_FAIL(error, PW_INVALID, "%s is no file", text);
    }
    return PW_OK;
}

static pw_status open_steps(sq_store *q, bool there, pw_error *error)
{
    pw_str path = {q->path, q->path_size - 1};
    PW_TRY(sq_lock_open(&q->lock, q->allocator, path, q->read_only, error));
    if (q->read_only) {
        return connect_reader(q, error);
    }
    if (there) {
        PW_TRY(look(q, error));
    }
    return connect_writer(q, error);
}

pw_status pw_sqlite_open(const pw_store_options *options, pw_str path, pw_store **ret,
                         pw_error *error)
{
    struct stat st;
    char text[4096];
    pw_error mine = {0};
    error = error != NULL ? error : &mine;
    PW_TRY(path_check(path, options->read_only, &st, text, error));
    sq_store *q = store_make(options, path);
    if (q == NULL) {
        return PW_FAIL(error, PW_NOMEM, "no memory for a store");
    }
    if (pthread_mutex_init(&q->pool_mutex, NULL) != 0) {
        sq_store_free(q);
        return PW_FAIL(error, PW_NOMEM, "no mutex for a store");
    }
    if (pthread_cond_init(&q->pool_free, NULL) != 0) {
        pthread_mutex_destroy(&q->pool_mutex);
        sq_store_free(q);
        return PW_FAIL(error, PW_NOMEM, "no condition for a store");
    }
    pw_status status = open_steps(q, st.st_size > 0, error);
    if (status != PW_OK) {
        sq_backend.close(&q->base);
        return status;
    }
    *ret = &q->base;
    return PW_OK;
}
