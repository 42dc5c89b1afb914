/* A queue and two threads over pw_store_execute; see readers.h. Must never be given an operation
 * that writes. */
#include "runtime/readers.h"

#include "runtime/threads.h"

struct pw_readers {
    pawl *p;
    uv_mutex_t mutex;
    uv_cond_t wake;
    pw_job *first, *last;
    bool closing;
    uv_thread_t threads[PW_READERS_THREADS];
    size_t thread_count;
};

static void reader_main(void *argument)
{
    pw_readers *readers = argument;
    uv_mutex_lock(&readers->mutex);
    for (;;) {
        pw_job *job = readers->first;
        if (!job) {
            if (readers->closing) {
                break;
            }
            uv_cond_wait(&readers->wake, &readers->mutex);
            continue;
        }
        readers->first = job->next;
        if (!readers->first) {
            readers->last = NULL;
        }
        uv_mutex_unlock(&readers->mutex);
        job->next = NULL;
        if (job->count > 0) {
            pw_store_execute(readers->p->store, job->ops, job->count);
        }
        job->done(job);
        uv_mutex_lock(&readers->mutex);
    }
    uv_mutex_unlock(&readers->mutex);
}

pw_status pw_readers_new(pawl *p, pw_readers **ret, pw_error *error)
{
    pw_readers *readers = p->allocator->resize(p->allocator->ctx, NULL, 0, sizeof *readers);
    if (!readers) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    *readers = (pw_readers){.p = p};
    if (uv_mutex_init(&readers->mutex) != 0) {
        p->allocator->resize(p->allocator->ctx, readers, sizeof *readers, 0);
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (uv_cond_init(&readers->wake) != 0) {
        uv_mutex_destroy(&readers->mutex);
        p->allocator->resize(p->allocator->ctx, readers, sizeof *readers, 0);
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < PW_READERS_THREADS; i++) {
        pw_status status = pw_thread_start(&readers->threads[i], reader_main, readers, error);
        if (status != PW_OK) {
            pw_readers_close(readers);
            return status;
        }
        readers->thread_count++;
    }
    *ret = readers;
    return PW_OK;
}

void pw_readers_close(pw_readers *readers)
{
    if (!readers) {
        return;
    }
    uv_mutex_lock(&readers->mutex);
    readers->closing = true;
    uv_cond_broadcast(&readers->wake);
    uv_mutex_unlock(&readers->mutex);
    for (size_t i = 0; i < readers->thread_count; i++) {
        (void)uv_thread_join(&readers->threads[i]);
    }
    uv_cond_destroy(&readers->wake);
    uv_mutex_destroy(&readers->mutex);
    readers->p->allocator->resize(readers->p->allocator->ctx, readers, sizeof *readers, 0);
}

void pw_readers_give(pw_readers *readers, pw_job *job)
{
    job->next = NULL;
    uv_mutex_lock(&readers->mutex);
    if (readers->last) {
        readers->last->next = job;
    } else {
        readers->first = job;
    }
    readers->last = job;
    uv_cond_signal(&readers->wake);
    uv_mutex_unlock(&readers->mutex);
}
