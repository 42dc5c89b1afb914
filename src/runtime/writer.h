/*
 * The writer: one thread that alone writes to the store, and so shares each sync among all who wait
 * (group commit).
 *
 * It takes every job that is waiting, executes their operations as one batch, and answers each. A
 * transactional tool runs here too, alone, between two batches (D2). It polls pw_store_changed
 * every 20 ms while this process owns or awaits something.
 */
#ifndef PW_RUNTIME_WRITER_H
#define PW_RUNTIME_WRITER_H

#include "runtime/runtime.h"

typedef struct pw_job pw_job;
struct pw_job {
    pw_op *ops; /* executed together with other jobs' */
    size_t count;
    pw_transact *transact;  /* or this, alone */
    void (*done)(pw_job *); /* on the writer thread, after the batch is durable (or refused) */
    pw_job *next;           /* the writer's */
};

pw_status pw_writer_new(pawl *, pw_writer **ret, pw_error *);
void pw_writer_close(pw_writer *);          /* finishes what was given, then joins; NULL is fine */
void pw_writer_give(pw_writer *, pw_job *); /* any thread; never blocks on the store; the job's
                                               memory is the giver's until done */
void pw_writer_give_all(
    pw_writer *,
    pw_job *first); /* a chain by `next`, ended by NULL, in its order: one hand-over for many */
uint64_t pw_writer_commits(pw_writer *); /* batches and transactions so far; any thread */
bool pw_writer_here(const pw_writer *);  /* is the calling thread the writer? */
/* Gives and waits for the answer: for API calls, never for the loop thread. */
void pw_writer_do(pw_writer *, pw_op *ops, size_t count);

#endif
