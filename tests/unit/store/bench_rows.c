/*
 * How many journal rows a second: the store against a hand-written loop that inserts the same rows
 * into the same table in groups of the same size, turn and turn about, best of several rounds each.
 *
 *     bench_rows [rows] [bytes a body] [rounds]
 */
#include "base/heap.h"
#include "store/store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256 };

typedef struct bench {
    int sessions, rows;
    char *body;
    size_t body_len;
    char path[256];
} bench;

static const char turn[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int truth, const char *what)
{
    if (!truth) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void remove_files(const bench *b)
{
    static const char *const parts[] = {"", "-wal", "-shm", "-lock"};
    char name[300];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", b->path, parts[i]);
        unlink(name);
    }
}

/* --- by hand */

static double by_hand(const bench *b)
{
    sqlite3 *db;
    sqlite3_stmt *insert, *begin, *commit;
    remove_files(b);
    check(sqlite3_open(b->path, &db) == SQLITE_OK, "open");
    check(sqlite3_exec(
              db,
              "pragma journal_mode = wal; pragma synchronous = full;"
              "create table pawl_journal(pos integer primary key, session integer not null, "
              "seq integer not null, epoch integer not null, at integer not null, "
              "kind text not null, turn text not null, step text not null, body text not null);"
              "create unique index pawl_journal_seq on pawl_journal(session, seq)",
              NULL, NULL, NULL) == SQLITE_OK,
          "schema");
    sqlite3_prepare_v2(db,
                       "insert into pawl_journal(session, seq, epoch, at, kind, turn, step, body) "
                       "values(?, ?, ?, ?, ?, ?, ?, ?)",
                       -1, &insert, NULL);
    sqlite3_prepare_v2(db, "begin immediate", -1, &begin, NULL);
    sqlite3_prepare_v2(db, "commit", -1, &commit, NULL);
    double start = now();
    for (int done = 0, seq = 1; done < b->rows; seq++) {
        sqlite3_step(begin);
        sqlite3_reset(begin);
        for (int i = 0; i < b->sessions && done < b->rows; i++, done++) {
            sqlite3_bind_int64(insert, 1, i + 1);
            sqlite3_bind_int64(insert, 2, seq);
            sqlite3_bind_int64(insert, 3, 1);
            sqlite3_bind_int64(insert, 4, 1700000000000);
            sqlite3_bind_text(insert, 5, "model.completed", -1, SQLITE_STATIC);
            sqlite3_bind_text(insert, 6, turn, -1, SQLITE_STATIC);
            sqlite3_bind_text(insert, 7, "model:12", -1, SQLITE_STATIC);
            sqlite3_bind_text(insert, 8, b->body, (int)b->body_len, SQLITE_STATIC);
            check(sqlite3_step(insert) == SQLITE_DONE, "insert");
            sqlite3_reset(insert);
        }
        check(sqlite3_step(commit) == SQLITE_DONE, "commit");
        sqlite3_reset(commit);
    }
    double took = now() - start;
    sqlite3_finalize(insert);
    sqlite3_finalize(begin);
    sqlite3_finalize(commit);
    sqlite3_close(db);
    return b->rows / took;
}

/* --- by the store */

static pw_store *prepare(const bench *b, pw_arena *arena)
{
    pw_store *store = NULL;
    pw_error error = {0};
    char url[300];
    pw_owner_id me = {"01890000-0000-7000-8000-000000000001"};
    remove_files(b);
    snprintf(url, sizeof(url), "sqlite:%s", b->path);
    pw_store_options options = {.url = pw_str_from(url), .allocator = &pw_heap};
    check(pw_store_open(&options, &store, &error) == PW_OK, error.message);
    pw_op op = {.kind = PW_OP_JOIN, .arena = arena, .owner = {.owner = me}};
    pw_store_execute(store, &op, 1);
    for (int i = 0; i < b->sessions; i++) {
        char name[16];
        snprintf(name, sizeof(name), "s%d", i);
        op = (pw_op){.kind = PW_OP_ADMIT,
                     .arena = arena,
                     .admit = {.principal = PW_STR("p"),
                               .session = pw_str_from(name),
                               .uid = pw_str_from(name),
                               .agent = PW_STR("a"),
                               .request_id = PW_STR("r"),
                               .digest = PW_STR("d"),
                               .body = PW_STR("{}")}};
        pw_store_execute(store, &op, 1);
        check(op.status == PW_OK && op.admit.session_id == i + 1, op.error.message);
        op = (pw_op){
            .kind = PW_OP_TAKE,
            .arena = arena,
            .take = {
                .session_id = i + 1, .owner = me, .max_attempts = 5, .refuse_suspect_from = -1}};
        pw_store_execute(store, &op, 1);
        check(op.status == PW_OK && op.take.answer == PW_TOOK, op.error.message);
    }
    return store;
}

static double by_store(const bench *b)
{
    static pw_op ops[MOST];
    static pw_record records[MOST];
    static pw_append appends[MOST];
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_store *store = prepare(b, &arena);
    double start = now();
    int done = 0;
    for (uint64_t seq = 1; done < b->rows; seq++) {
        int n = 0;
        for (; n < b->sessions && done < b->rows; n++, done++) {
            records[n] = (pw_record){.seq = seq,
                                     .at_ms = 1700000000000,
                                     .kind = PW_RECORD_MODEL_COMPLETED,
                                     .turn = PW_STR(turn),
                                     .step = PW_STR("model:12"),
                                     .body = {b->body, b->body_len}};
            appends[n] = (pw_append){.records = &records[n], .record_count = 1, .receipt = true};
            ops[n] = (pw_op){.kind = PW_OP_APPEND, .append = {n + 1, 1, &appends[n]}};
        }
        pw_store_execute(store, ops, (size_t)n);
        for (int i = 0; i < n; i++) {
            check(ops[i].status == PW_OK, ops[i].error.message);
        }
        if (seq % 64 == 0) {
            pw_store_changed(store); /* as the writer does: now and then */
        }
    }
    double took = now() - start;
    pw_store_close(store);
    pw_arena_free(&arena);
    return b->rows / took;
}

static void compare(bench *b, int rounds, const char *what)
{
    double hand = 0, store = 0;
    for (int i = 0; i < rounds; i++) {
        double h = by_hand(b), s = by_store(b);
        hand = h > hand ? h : hand;
        store = s > store ? s : store;
    }
    remove_files(b);
    printf("%-12s by hand %8.0f rows/s   store %8.0f rows/s   %.2f\n", what, hand, store,
           store / hand);
}

int main(int argc, char **argv)
{
    bench b = {.rows = argc > 1 ? atoi(argv[1]) : 100000,
               .body_len = argc > 2 ? (size_t)atoi(argv[2]) : 1024};
    int rounds = argc > 3 ? atoi(argv[3]) : 3;
    const char *dir = getenv("TMPDIR");
    int rows = b.rows;
    b.body = calloc(1, b.body_len + 1);
    check(b.body != NULL, "no memory");
    memset(b.body, 'x', b.body_len);
    snprintf(b.path, sizeof(b.path), "%s/pawl-bench-%d.db", dir != NULL ? dir : "/tmp",
             (int)getpid());
    b.sessions = 256;
    compare(&b, rounds, "256 at once");
    b.sessions = 16;
    b.rows = rows / 4;
    compare(&b, rounds, "16 at once");
    b.sessions = 1;
    b.rows = rows / 20;
    compare(&b, rounds, "1 alone");
    free(b.body);
    return 0;
}
