/*
 * The threads that run native tools and read-only SQL.
 *
 * The pool grows to `cap` threads as work waits. C cannot be killed: a thread whose call was
 * abandoned (D6) stays counted as stuck until it returns, and another takes its place, so that
 * others go on. To bound what a broken tool can cost, at most STUCK_MAX threads are replaced.
 */
#include <signal.h>

#include "tool/tool_inner.h"

#define STUCK_MAX ((size_t)64)

pw_status pw_pool_init(pw_pool *pool, size_t cap)
{
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        return PW_NOMEM;
    }
    if (pthread_cond_init(&pool->wanted, NULL) != 0) {
        pthread_mutex_destroy(&pool->lock);
        return PW_NOMEM;
    }
    pool->cap = cap;
    return PW_OK;
}

void pw_pool_free(pw_pool *pool)
{
    pthread_cond_destroy(&pool->wanted);
    pthread_mutex_destroy(&pool->lock);
}

/* --- A thread --------------------------------------------------------------------------------- */

static size_t lively(const pw_pool *pool)
{
    return pool->threads - pool->stuck;
}

/* With the lock held. One thread at a time is woken: it wakes the next one when it finds more than
 * it takes, so that many short calls given at once do not cost a wake-up each. */
static void wake_one(pw_pool *pool)
{
    if (pool->idle > 0 && !pool->waking) {
        pool->waking = true;
        pthread_cond_signal(&pool->wanted);
    }
}

static pw_run *take(pw_pool *pool)
{
    pw_run *run = pool->first;
    if (run != NULL) {
        pool->first = run->work_next;
        if (pool->first == NULL) {
            pool->last = NULL;
        }
        pool->waiting--;
        run->queued = false;
        run->work_next = NULL;
        if (pool->first != NULL) {
            wake_one(pool);
        }
    }
    return run;
}

/* With the lock held. False: the loop is gone, and what ended is this thread's to free. */
static bool report(pw_tool_runner *runner, pw_run *run)
{
    pw_pool *pool = &runner->pool;
    if (pool->deaf) {
        return false;
    }
    run->work_next = pool->ended;
    pool->ended = run;
    (void)uv_async_send(&runner->wake);
    return true;
}

static void free_orphan(pw_run *run)
{
    const pw_allocator *allocator = run->runner->host.allocator;
    pw_arena_free(&run->arena);
    allocator->resize(allocator->ctx, run, sizeof *run, 0);
}

/* With the lock held; gives it up while the work is done. False: the thread must go. */
static bool work_once(pw_worker *worker, pw_run *run)
{
    pw_tool_runner *runner = worker->runner;
    pw_pool *pool = &runner->pool;
    worker->run = run;
    run->worker = worker;
    pthread_mutex_unlock(&pool->lock);
    run->work(run);
    pthread_mutex_lock(&pool->lock);
    run->worker = NULL;
    worker->run = NULL;
    if (worker->stuck) {
        worker->stuck = false;
        pool->stuck--;
    }
    if (!report(runner, run)) {
        free_orphan(run);
    }
    return lively(pool) <= pool->cap;
}

static void unlink_worker(pw_pool *pool, pw_worker *worker)
{
    if (worker->previous != NULL) {
        worker->previous->next = worker->next;
    } else {
        pool->workers = worker->next;
    }
    if (worker->next != NULL) {
        worker->next->previous = worker->previous;
    }
}

static void *thread_main(void *argument)
{
    pw_worker *worker = argument;
    pw_tool_runner *runner = worker->runner;
    pw_pool *pool = &runner->pool;
    const pw_allocator *allocator = runner->host.allocator;
    bool stay = true;
    pthread_mutex_lock(&pool->lock);
    while (stay) {
        pw_run *run = take(pool);
        if (run != NULL) {
            stay = work_once(worker, run);
        } else if (pool->stopping) {
            stay = false;
        } else {
            pool->idle++;
            pthread_cond_wait(&pool->wanted, &pool->lock);
            pool->idle--;
            pool->waking = false;
        }
    }
    pool->threads--;
    unlink_worker(pool, worker);
    const bool deaf = pool->deaf;
    if (!deaf) {
        worker->next = pool->gone;
        pool->gone = worker;
        (void)uv_async_send(&runner->wake);
    }
    pthread_mutex_unlock(&pool->lock);
    if (deaf) { /* detached: nobody joins it */
        allocator->resize(allocator->ctx, worker, sizeof *worker, 0);
    }
    pw_runner_unhold(runner);
    return NULL;
}

/* With the lock held. Signals are the loop thread's. */
static bool grow(pw_tool_runner *runner)
{
    pw_pool *pool = &runner->pool;
    const pw_allocator *allocator = runner->host.allocator;
    pw_worker *worker = allocator->resize(allocator->ctx, NULL, 0, sizeof *worker);
    if (worker == NULL) {
        return false;
    }
    *worker = (pw_worker){.runner = runner};
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&runner->holders, 1);
    const int failed = pthread_create(&worker->thread, NULL, thread_main, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) {
        atomic_fetch_sub(&runner->holders, 1);
        allocator->resize(allocator->ctx, worker, sizeof *worker, 0);
        return false;
    }
    worker->next = pool->workers;
    if (worker->next != NULL) {
        worker->next->previous = worker;
    }
    pool->workers = worker;
    pool->threads++;
    return true;
}

/* --- The loop's side -------------------------------------------------------------------------- */

pw_status pw_pool_give(pw_tool_runner *runner, pw_run *run, pw_error *error)
{
    pw_pool *pool = &runner->pool;
    pthread_mutex_lock(&pool->lock);
    bool can = true;
    if (pool->idle <= pool->waiting && lively(pool) < pool->cap && pool->stuck < STUCK_MAX) {
        can = grow(runner);
    }
    if (!can && lively(pool) == 0) {
        pthread_mutex_unlock(&pool->lock);
        return PW_FAIL(error, PW_NOMEM, "no thread could be started");
    }
    run->queued = true;
    run->work_next = NULL;
    if (pool->last != NULL) {
        pool->last->work_next = run;
    } else {
        pool->first = run;
    }
    pool->last = run;
    pool->waiting++;
    wake_one(pool);
    pthread_mutex_unlock(&pool->lock);
    return PW_OK;
}

bool pw_pool_take_back(pw_tool_runner *runner, pw_run *run)
{
    pw_pool *pool = &runner->pool;
    pthread_mutex_lock(&pool->lock);
    const bool mine = run->queued;
    if (mine) {
        pw_run *before = NULL;
        for (pw_run *at = pool->first; at != run; at = at->work_next) {
            before = at;
        }
        if (before != NULL) {
            before->work_next = run->work_next;
        } else {
            pool->first = run->work_next;
        }
        if (pool->last == run) {
            pool->last = before;
        }
        pool->waiting--;
        run->queued = false;
        run->work_next = NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    return mine;
}

bool pw_pool_abandon(pw_tool_runner *runner, pw_run *run)
{
    pw_pool *pool = &runner->pool;
    pthread_mutex_lock(&pool->lock);
    pw_worker *worker = run->worker;
    const bool running = worker != NULL;
    if (running && !worker->stuck) {
        worker->stuck = true;
        pool->stuck++;
        if (pool->waiting > pool->idle && lively(pool) < pool->cap && pool->stuck < STUCK_MAX) {
            (void)grow(runner); /* without one the others wait for a thread that is there */
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return running;
}

static void join_all(pw_worker *gone, const pw_allocator *allocator)
{
    while (gone != NULL) {
        pw_worker *next = gone->next;
        pthread_join(gone->thread, NULL); /* it has nothing left to do but return */
        allocator->resize(allocator->ctx, gone, sizeof *gone, 0);
        gone = next;
    }
}

void pw_pool_collect(pw_tool_runner *runner)
{
    pw_pool *pool = &runner->pool;
    const pw_allocator *allocator = runner->host.allocator;
    pthread_mutex_lock(&pool->lock);
    pw_run *ended = pool->ended;
    pool->ended = NULL;
    pw_worker *gone = pool->gone;
    pool->gone = NULL;
    pthread_mutex_unlock(&pool->lock);
    pw_run *in_order = NULL;
    while (ended != NULL) {
        pw_run *next = ended->work_next;
        ended->work_next = in_order;
        in_order = ended;
        ended = next;
    }
    while (in_order != NULL) {
        pw_run *next = in_order->work_next;
        in_order->work_next = NULL;
        pw_run_end(in_order);
        in_order = next;
    }
    join_all(gone, allocator);
}

bool pw_pool_stop(pw_tool_runner *runner)
{
    pw_pool *pool = &runner->pool;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wanted);
    const bool gone = lively(pool) == 0 && pool->gone == NULL && pool->ended == NULL;
    pthread_mutex_unlock(&pool->lock);
    return gone;
}

void pw_pool_leave(pw_tool_runner *runner)
{
    pw_pool *pool = &runner->pool;
    const pw_allocator *allocator = runner->host.allocator;
    pthread_mutex_lock(&pool->lock);
    pool->deaf = true;
    for (pw_worker *worker = pool->workers; worker != NULL; worker = worker->next) {
        (void)pthread_detach(worker->thread);
    }
    pw_run *ended = pool->ended; /* of stuck threads that returned just now */
    pool->ended = NULL;
    pw_worker *gone = pool->gone;
    pool->gone = NULL;
    pthread_mutex_unlock(&pool->lock);
    while (ended != NULL) {
        pw_run *next = ended->work_next;
        free_orphan(ended);
        ended = next;
    }
    join_all(gone, allocator);
}
