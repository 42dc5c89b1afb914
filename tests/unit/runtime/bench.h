/*
 * What the runtime's tests share: a handle on a store of either kind with one scripted agent, and
 * the questions they ask of it through pawl.h alone.
 */
#ifndef PW_TEST_RUNTIME_BENCH_H
#define PW_TEST_RUNTIME_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pawl/pawl.h>

#define S(literal) ((pawl_str){(literal), sizeof(literal) - 1})

typedef struct bench {
    pawl *p;
    char directory[64];
    char url[96];
    atomic_int errors; /* log lines of level 0 */
} bench;

pawl_str bench_str(const char *);
/* A fresh directory and the URL of a store in it: "sqlite" or "memory". */
void bench_begin(bench *, const char *kind);
void bench_end(bench *); /* closes what is open, removes the directory */

void bench_open(bench *);
/* An agent "default" with this script and these tools (JSON arrays); further members of the
 * definition may follow. */
void bench_agent(bench *, const char *script, const char *tools, const char *more);
void bench_tool(bench *, const char *name, int32_t effects, pawl_tool_fn, void *ctx,
                int32_t limit_ms);
void bench_start(bench *);
void bench_start_with(bench *, const pawl_start_options *);
void bench_close(bench *);

/* Submits text under an id; the code. */
int32_t bench_submit(bench *, const char *session, const char *id, const char *text);
/* Waits; the turn's document, to be freed. Fails the test when it does not end in 20 s. */
pawl_doc *bench_wait(bench *, const char *session, const char *id);
/* Submits, waits and compares state and text. */
void bench_turn(bench *, const char *session, const char *id, const char *text, const char *state,
                const char *reply);
void bench_expect(const pawl_doc *, const char *path, const char *value);
/* A member as text; static storage, good for the next few calls. */
const char *bench_get(const pawl_doc *, const char *path);
pawl_doc *bench_read(bench *, const char *path);
/* The session row's turn, waited for until one is open (in this process or another). */
void bench_turn_id(bench *, const char *session, const char *id, char to[80]);
/* Polls a condition for at most 20 s. */
void bench_until(int (*holds)(void *), void *ctx);

#endif
