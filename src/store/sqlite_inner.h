/*
 * The SQLite backend's insides, shared by sqlite.c (transactions), sqlite_open.c (files and
 * schema), sqlite_conn.c (one connection) and sqlite_lock.c (the lock file). No one else may
 * include this.
 */
#ifndef PW_STORE_SQLITE_INNER_H
#define PW_STORE_SQLITE_INNER_H

#include "store/sql.h"

#include <pthread.h>
#include <sqlite3.h>

/* --- The lock file `<file>-lock`: empty, only its byte locks matter. They are open file
 * description locks, so they die with the process and another descriptor of the same process sees
 * them. byte 0  presence: shared by whoever has the store open; exclusive only to remove the file
 *   byte 1  writing: from BEGIN IMMEDIATE to COMMIT and around checkpoints (LIBRARIES.md)
 *   far off one byte an owner (J2), by the hash of its id */
typedef struct sq_lock {
    int fd; /* -1: none (a reader only) */
    char *path;
    size_t path_size;
} sq_lock;

pw_status sq_lock_open(sq_lock *, const pw_allocator *, pw_str database, bool read_only,
                       pw_error *);
/* PW_LOCKED after wait_ms. wait_ms 0 tries once. */
pw_status sq_lock_write(sq_lock *, int64_t wait_ms);
void sq_lock_write_end(sq_lock *);
pw_status sq_lock_owner(sq_lock *, const pw_owner_id *); /* PW_CONFLICT: another process holds it */
void sq_lock_owner_end(sq_lock *, const pw_owner_id *);
int sq_lock_owner_alive(const sq_lock *, const pw_owner_id *);
/* Under the write lock: true when nobody else has the store open. */
bool sq_lock_alone(sq_lock *);
void sq_lock_close(sq_lock *, const pw_allocator *, bool remove_file);
int64_t sq_now_ms(void); /* monotonic: for waits and limits, never stored */
void sq_sleep_ms(int64_t ms);

/* What is known of a session under an epoch, from its taking and our own committed appends: nobody
 * else may change either without changing the epoch. It spares statements; what is forgotten costs
 * no more than that. */
typedef struct sq_known {
    int64_t session_id;
    uint64_t epoch;
    uint64_t last_seq;
    bool calm; /* its crash count is 0 */
} sq_known;

/* --- One connection and its prepared statements. Used by one thread at a time. */
typedef struct sq_conn {
    sqlite3 *db;
    sqlite3_stmt *statements[PW_SQL_COUNT];
    sqlite3_stmt *begin, *commit, *rollback, *version;
    bool tool_runs; /* inside a transactional tool: the authorizer is strict */
} sq_conn;

typedef enum sq_mode { SQ_WRITER, SQ_READER, SQ_IMMUTABLE } sq_mode;
pw_status sq_conn_open(sq_conn *, const char *path, sq_mode, pw_error *);
void sq_conn_close(sq_conn *, bool checkpoint);
int sq_conn_exec(sq_conn *, const char *sql); /* no rows wanted */
/* `select` one integer, `fallback` when there is no row. */
int sq_conn_number(sq_conn *, const char *sql, int64_t fallback, int64_t *ret);
/* Runs one prepared BEGIN, COMMIT, ROLLBACK. */
int sq_conn_step(sqlite3_stmt *);
/* One operation, whole; `known` (may be NULL) is of its session and epoch. SQLITE_OK: the op has
 * its answer (whatever it is); otherwise SQLite's code, and the transaction must go. */
int sq_conn_run(sq_conn *, pw_op *, pw_arena *scratch, const sq_known *);
/* What a result code means: the kind of trouble is set in the error and returned. */
pw_status sq_trouble(const sq_conn *, int rc, pw_error *);

/* --- The store. */
#define SQ_READERS 4
#define SQ_KNOWN 4096
typedef struct sq_store {
    pw_store base;
    const pw_allocator *allocator;
    char *path;
    size_t path_size;
    char *uri; /* the same as an immutable file */
    size_t uri_size;
    bool read_only;
    sq_mode read_mode;
    const char *read_path; /* what readers open: path or uri */
    sq_lock lock;
    sq_conn writer;
    pw_arena scratch;      /* the writer's, for one batch */
    int64_t wal_pages;     /* in the log after our last commit */
    int64_t checkpoint_at; /* pages at which the next one is due */
    int64_t data_version;
    int64_t written_ms;       /* when the last transaction began; 0: caches were emptied since */
    sq_known known[SQ_KNOWN]; /* by session id modulo SQ_KNOWN */
    pthread_mutex_t pool_mutex;
    pthread_cond_t pool_free;
    sq_conn readers[SQ_READERS];
    bool reader_busy[SQ_READERS]; /* under pool_mutex; a reader that is not busy is nobody's */
} sq_store;

extern const pw_backend sq_backend;
void sq_store_free(sq_store *);                   /* the memory only */
pw_status sq_writer_open(sq_store *, pw_error *); /* only connects: the file is prepared already */
int64_t sq_log_size(const char *path);            /* bytes of <path>-wal; 0 when it is not there */
int sq_wal_hook(void *ctx, sqlite3 *, const char *name, int pages);

#endif
