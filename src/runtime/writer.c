/*
 * The writer thread; see writer.h. Everything below `writer_main` runs on it alone. Must never hold
 * its mutex while it is in the store or in a job's `done`, and never touch a job after its `done`.
 *
 * Group commit: whatever waits when the thread comes for work is one batch, so that while one sync
 * is on, the next batch grows. Jobs keep their order; a transaction stands alone between the
 * batches before and after it (D2).
 */
#include "runtime/writer.h"

#include "runtime/loop.h"
#include "runtime/threads.h"

enum { LOOK_EVERY_MS = 20, LOOK_IDLE_MS = 100, BATCH_MAX = 1024 };

struct pw_writer {
    pawl *p;
    uv_mutex_t mutex;
    uv_cond_t wake;
    pw_job *first, *last; /* under the mutex */
    bool closing;
    uv_thread_t thread;
    /* the thread's own */
    pw_op *ops;
    size_t capacity;
    int64_t looked_ms;
    atomic_uint_fast64_t commits; /* read by anybody */
};

/* Has anybody else committed? Told to whoever waits for it; a hint only. */
static void look_for_others(pw_writer *writer)
{
    pawl *p = writer->p;
    int64_t now_ms = pw_monotonic_ms();
    if (!p->traits.many_processes || now_ms - writer->looked_ms < LOOK_EVERY_MS) {
        return;
    }
    writer->looked_ms = now_ms;
    if (!pw_store_changed(p->store)) {
        return;
    }
    pw_hub_changed(p->hub);
    pw_waiters_tell(&p->waiters, 0);
    pw_loop *loop = pw_loop_of(p);
    if (loop) {
        pw_loop_poke(loop);
    }
}

static uint64_t look_interval_ms(pw_writer *writer)
{
    pawl *p = writer->p;
    bool awaited =
        pw_loop_of(p) || atomic_load(&p->waiters.count) > 0 || pw_hub_has_interest(p->hub);
    return awaited ? LOOK_EVERY_MS : LOOK_IDLE_MS;
}

static bool reserve_ops(pw_writer *writer, size_t count)
{
    if (count <= writer->capacity) {
        return true;
    }
    size_t capacity = count < 64 ? 64 : count;
    const pw_allocator *allocator = writer->p->allocator;
    pw_op *ops = allocator->resize(allocator->ctx, writer->ops, writer->capacity * sizeof *ops,
                                   capacity * sizeof *ops);
    if (!ops) {
        return false;
    }
    writer->ops = ops;
    writer->capacity = capacity;
    return true;
}

/* Jobs from `first` up to `end` (not included), none a transaction: their operations in one call,
 * answers copied back. */
static void execute_together(pw_writer *writer, pw_job *first, pw_job *end, size_t count)
{
    if (first->next == end || !reserve_ops(writer, count)) {
        for (pw_job *job = first; job != end; job = job->next) {
            pw_store_execute(writer->p->store, job->ops, job->count);
        }
        return;
    }
    size_t at = 0;
    for (pw_job *job = first; job != end; job = job->next) {
        memcpy(writer->ops + at, job->ops, job->count * sizeof *job->ops);
        at += job->count;
    }
    pw_store_execute(writer->p->store, writer->ops, count);
    at = 0;
    for (pw_job *job = first; job != end; job = job->next) {
        memcpy(job->ops, writer->ops + at, job->count * sizeof *job->ops);
        at += job->count;
    }
}

static void answer(pw_job *first, pw_job *end)
{
    while (first != end) {
        pw_job *next = first->next;
        first->done(first);
        first = next;
    }
}

static void execute_all(pw_writer *writer, pw_job *first)
{
    while (first) {
        if (first->transact) {
            pw_job *next = first->next;
            pw_store_transact(writer->p->store, first->transact);
            atomic_fetch_add_explicit(&writer->commits, 1, memory_order_relaxed);
            first->done(first);
            first = next;
            continue;
        }
        pw_job *end = first;
        size_t count = 0;
        do {
            count += end->count;
            end = end->next;
        } while (end && !end->transact && count + end->count <= BATCH_MAX);
        execute_together(writer, first, end, count);
        atomic_fetch_add_explicit(&writer->commits, 1, memory_order_relaxed);
        answer(first, end);
        first = end;
    }
}

static void writer_main(void *argument)
{
    pw_writer *writer = argument;
    uv_mutex_lock(&writer->mutex);
    for (;;) {
        pw_job *jobs = writer->first;
        if (!jobs && writer->closing) {
            break;
        }
        if (!jobs && !writer->p->traits.many_processes) {
            uv_cond_wait(&writer->wake, &writer->mutex);
            continue;
        }
        if (!jobs) {
            (void)uv_cond_timedwait(&writer->wake, &writer->mutex,
                                    look_interval_ms(writer) * 1000000u);
        }
        jobs = writer->first;
        writer->first = writer->last = NULL;
        uv_mutex_unlock(&writer->mutex);
        execute_all(writer, jobs);
        look_for_others(writer);
        uv_mutex_lock(&writer->mutex);
    }
    uv_mutex_unlock(&writer->mutex);
}

pw_status pw_writer_new(pawl *p, pw_writer **ret, pw_error *error)
{
    pw_writer *writer = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof *writer);
    if (!writer) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *writer = (pw_writer){.p = p};
    pw_status status = PW_NOMEM;
    if (uv_mutex_init(&writer->mutex) != 0) {
        goto no_mutex;
    }
    if (uv_cond_init(&writer->wake) != 0) {
        goto no_cond;
    }
    status = pw_thread_start(&writer->thread, writer_main, writer, error);
    if (status == PW_OK) {
        *ret = writer;
        return PW_OK;
    }
    uv_cond_destroy(&writer->wake);
no_cond:
    uv_mutex_destroy(&writer->mutex);
no_mutex:
    p->allocator->resize(p->allocator->ctx, writer, sizeof *writer, 0);
    return status == PW_NOMEM ? PW_FAIL(error, PW_NOMEM, "out of memory") : status;
}

void pw_writer_close(pw_writer *writer)
{
    if (!writer) {
        return;
    }
    uv_mutex_lock(&writer->mutex);
    writer->closing = true;
    uv_cond_signal(&writer->wake);
    uv_mutex_unlock(&writer->mutex);
    (void)uv_thread_join(&writer->thread);
    uv_cond_destroy(&writer->wake);
    uv_mutex_destroy(&writer->mutex);
    const pw_allocator *allocator = writer->p->allocator;
    if (writer->ops) {
        allocator->resize(allocator->ctx, writer->ops, writer->capacity * sizeof *writer->ops, 0);
    }
    allocator->resize(allocator->ctx, writer, sizeof *writer, 0);
}

void pw_writer_give_all(pw_writer *writer, pw_job *first)
{
    if (!first) {
        return;
    }
    pw_job *last = first;
    while (last->next) {
        last = last->next;
    }
    uv_mutex_lock(&writer->mutex);
    bool idle = !writer->first;
    if (writer->last) {
        writer->last->next = first;
    } else {
        writer->first = first;
    }
    writer->last = last;
    uv_mutex_unlock(&writer->mutex);
    if (idle) {
        uv_cond_signal(&writer->wake);
    }
}

void pw_writer_give(pw_writer *writer, pw_job *job)
{
    job->next = NULL;
    pw_writer_give_all(writer, job);
}

uint64_t pw_writer_commits(pw_writer *writer)
{
    return atomic_load_explicit(&writer->commits, memory_order_relaxed);
}

bool pw_writer_here(const pw_writer *writer)
{
    uv_thread_t self = uv_thread_self();
    return uv_thread_equal(&writer->thread, &self) != 0;
}

typedef struct waiting_job {
    pw_job job; /* first: done() gets back to the whole */
    uv_sem_t answered;
} waiting_job;

static void wake_giver(pw_job *job)
{
    uv_sem_post(&((waiting_job *)(void *)job)->answered);
}

void pw_writer_do(pw_writer *writer, pw_op *ops, size_t count)
{
    waiting_job waiting = {.job = {.ops = ops, .count = count, .done = wake_giver}};
    if (uv_sem_init(&waiting.answered, 0) != 0) {
        for (size_t i = 0; i < count; i++) {
            ops[i].status = PW_FAIL(&ops[i].error, PW_NOMEM, "out of memory");
        }
        return;
    }
    pw_writer_give(writer, &waiting.job);
    uv_sem_wait(&waiting.answered);
    uv_sem_destroy(&waiting.answered);
}
