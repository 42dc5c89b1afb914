/*
 * What a loop written by hand costs for the same rows on the same disk: prepared statements, WAL,
 * full sync, one commit a group. No conditions, no sessions, no turns; the bar that the engine is
 * measured against.
 */
#include "bench.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP_MAX = 65536, CHECKPOINT_PAGES = 1000 };

typedef struct row {
    sqlite3_int64 numbers[4]; /* session, seq, epoch, at */
    char *texts[4];           /* kind, turn, step, body; in one allocation, at texts[0] */
    int sizes[4];
} row;

typedef struct loop {
    sqlite3 *from, *to;
    sqlite3_stmt *read, *insert, *begin, *commit;
    row *rows;
    size_t count, capacity;
    double seconds;
} loop;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char schema[] =
    "pragma page_size = 16384; pragma journal_mode = wal; pragma synchronous = full; pragma "
    "cache_size = 512;"
    "create table journal(pos integer primary key, session integer not null, seq integer not null, "
    "epoch integer not null, at integer not null, kind text not null, turn text not null, "
    "step text not null, body text not null);"
    "create unique index journal_seq on journal(session, seq);";

static int open_both(loop *l, const char *from, const char *to)
{
    int rc = sqlite3_open_v2(from, &l->from, SQLITE_OPEN_READONLY, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(
            l->from,
            "select session, seq, epoch, at, kind, turn, step, body from pawl_journal order by pos",
            -1, &l->read, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_open(to, &l->to);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(l->to, schema, NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_wal_autocheckpoint(l->to, CHECKPOINT_PAGES);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(l->to,
                                "insert into journal(session, seq, epoch, at, kind, turn, step, "
                                "body) values(?,?,?,?,?,?,?,?)",
                                -1, &l->insert, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(l->to, "begin immediate", -1, &l->begin, NULL);
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_prepare_v2(l->to, "commit", -1, &l->commit, NULL);
    }
    return rc;
}

static bool keep(row *r, sqlite3_stmt *read)
{
    size_t total = 1;
    for (int i = 0; i < 4; i++) {
        r->numbers[i] = sqlite3_column_int64(read, i);
        r->sizes[i] = sqlite3_column_bytes(read, 4 + i);
        total += (size_t)r->sizes[i];
    }
    char *at = malloc(total);
    if (!at) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        r->texts[i] = at;
        if (r->sizes[i] > 0) {
            memcpy(at, sqlite3_column_text(read, 4 + i), (size_t)r->sizes[i]);
        }
        at += r->sizes[i];
    }
    return true;
}

static void drop(loop *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->rows[i].texts[0]);
    }
    l->count = 0;
}

/* SQLITE_ROW: as many as asked for; SQLITE_DONE: what was left. */
static int gather(loop *l, size_t wanted)
{
    int rc = SQLITE_ROW;
    while (l->count < wanted && (rc = sqlite3_step(l->read)) == SQLITE_ROW) {
        if (!keep(&l->rows[l->count], l->read)) {
            return SQLITE_NOMEM;
        }
        l->count++;
    }
    return rc;
}

static int done(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int insert(loop *l, const row *r)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < 4 && rc == SQLITE_OK; i++) {
        rc = sqlite3_bind_int64(l->insert, i + 1, r->numbers[i]);
    }
    for (int i = 0; i < 4 && rc == SQLITE_OK; i++) {
        rc = sqlite3_bind_text(l->insert, i + 5, r->texts[i], r->sizes[i], SQLITE_STATIC);
    }
    return rc == SQLITE_OK ? done(l->insert) : rc;
}

static int write_group(loop *l)
{
    double began = now();
    int rc = done(l->begin);
    for (size_t i = 0; i < l->count && rc == SQLITE_OK; i++) {
        rc = insert(l, &l->rows[i]);
    }
    if (rc == SQLITE_OK) {
        rc = done(l->commit);
    }
    l->seconds += now() - began;
    return rc;
}

static int copy(loop *l, double group)
{
    double owed = 0; /* groups are of whole rows; the average is kept */
    for (;;) {
        owed += group < 1 ? 1 : group > GROUP_MAX ? GROUP_MAX : group;
        size_t wanted = (size_t)owed;
        owed -= (double)wanted;
        if (wanted > l->capacity) {
            row *rows = realloc(l->rows, wanted * 2 * sizeof(*rows));
            if (!rows) {
                return SQLITE_NOMEM;
            }
            l->rows = rows;
            l->capacity = wanted * 2;
        }
        int rc = gather(l, wanted);
        bool more = rc == SQLITE_ROW;
        if (!more && rc != SQLITE_DONE) {
            return rc;
        }
        rc = l->count > 0 ? write_group(l) : SQLITE_OK;
        drop(l);
        if (rc != SQLITE_OK || !more) {
            return rc;
        }
    }
}

static void remove_all(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char name[4096];
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
        int len = snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        if (len > 0 && (size_t)len < sizeof(name)) {
            (void)unlink(name);
        }
    }
}

bool cli_bench_baseline(const char *from, const char *to, double group, double *ret_seconds,
                        char *message, size_t message_size)
{
    loop l = {0};
    remove_all(to);
    int rc = open_both(&l, from, to);
    if (rc == SQLITE_OK) {
        rc = copy(&l, group);
    }
    if (rc != SQLITE_OK) {
        snprintf(message, message_size, "the baseline: %s", sqlite3_errstr(rc));
    } else {
        *ret_seconds = l.seconds;
    }
    drop(&l);
    free(l.rows);
    sqlite3_finalize(l.read);
    sqlite3_finalize(l.insert);
    sqlite3_finalize(l.begin);
    sqlite3_finalize(l.commit);
    sqlite3_close(l.from);
    sqlite3_close(l.to);
    remove_all(to);
    return rc == SQLITE_OK;
}
