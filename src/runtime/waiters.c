/* A hash of waiting threads by session, one condition each; see waiters.h. Must never hold its
 * mutex over the store. */
#include "runtime/waiters.h"

#include "runtime/runtime.h"

static pw_waiter **bucket_of(pw_waiters *waiters, int64_t session_id)
{
    return &waiters->buckets[(uint64_t)session_id % PW_WAITERS_BUCKETS];
}

pw_status pw_waiters_init(pw_waiters *waiters)
{
    memset(waiters->buckets, 0, sizeof waiters->buckets);
    atomic_init(&waiters->count, 0);
    waiters->closed = false;
    if (uv_mutex_init(&waiters->mutex) != 0) {
        return PW_NOMEM;
    }
    if (uv_cond_init(&waiters->empty) != 0) {
        uv_mutex_destroy(&waiters->mutex);
        return PW_NOMEM;
    }
    return PW_OK;
}

void pw_waiters_free(pw_waiters *waiters)
{
    uv_cond_destroy(&waiters->empty);
    uv_mutex_destroy(&waiters->mutex);
}

void pw_waiters_close(pw_waiters *waiters)
{
    pw_waiters_tell(waiters, 0);
    uv_mutex_lock(&waiters->mutex);
    waiters->closed = true;
    for (size_t i = 0; i < PW_WAITERS_BUCKETS; i++) {
        for (pw_waiter *waiter = waiters->buckets[i]; waiter; waiter = waiter->next) {
            uv_cond_signal(&waiter->wake);
        }
    }
    while (atomic_load(&waiters->count) > 0) {
        uv_cond_wait(&waiters->empty, &waiters->mutex);
    }
    uv_mutex_unlock(&waiters->mutex);
}

pw_status pw_waiters_enter(pw_waiters *waiters, pw_waiter *waiter, int64_t session_id)
{
    *waiter = (pw_waiter){.session_id = session_id};
    if (uv_cond_init(&waiter->wake) != 0) {
        return PW_NOMEM;
    }
    uv_mutex_lock(&waiters->mutex);
    bool closed = waiters->closed;
    if (!closed) {
        pw_waiter **bucket = bucket_of(waiters, session_id);
        waiter->next = *bucket;
        if (waiter->next) {
            waiter->next->before = waiter;
        }
        *bucket = waiter;
        atomic_fetch_add(&waiters->count, 1);
    }
    uv_mutex_unlock(&waiters->mutex);
    if (closed) {
        uv_cond_destroy(&waiter->wake);
        return PW_END;
    }
    return PW_OK;
}

void pw_waiters_leave(pw_waiters *waiters, pw_waiter *waiter)
{
    uv_mutex_lock(&waiters->mutex);
    if (waiter->before) {
        waiter->before->next = waiter->next;
    } else {
        *bucket_of(waiters, waiter->session_id) = waiter->next;
    }
    if (waiter->next) {
        waiter->next->before = waiter->before;
    }
    if (atomic_fetch_sub(&waiters->count, 1) == 1) {
        uv_cond_broadcast(&waiters->empty);
    }
    uv_mutex_unlock(&waiters->mutex);
    uv_cond_destroy(&waiter->wake);
}

pw_status pw_waiters_wait(pw_waiters *waiters, pw_waiter *waiter, int64_t until_ms)
{
    pw_status status = PW_OK;
    uv_mutex_lock(&waiters->mutex);
    while (!waiter->news && !waiters->closed && status == PW_OK) {
        if (until_ms < 0) {
            uv_cond_wait(&waiter->wake, &waiters->mutex);
            continue;
        }
        int64_t left_ms = until_ms - pw_monotonic_ms();
        if (left_ms <= 0) {
            status = PW_TIMEOUT;
        } else {
            (void)uv_cond_timedwait(&waiter->wake, &waiters->mutex, (uint64_t)left_ms * 1000000u);
        }
    }
    if (waiters->closed) {
        status = PW_END;
    } else if (waiter->news) {
        status = PW_OK;
    }
    waiter->news = false;
    uv_mutex_unlock(&waiters->mutex);
    return status;
}

void pw_waiters_tell(pw_waiters *waiters, int64_t session_id)
{
    if (atomic_load(&waiters->count) == 0) {
        return;
    }
    uv_mutex_lock(&waiters->mutex);
    for (size_t i = 0; i < PW_WAITERS_BUCKETS; i++) {
        pw_waiter **bucket = session_id ? bucket_of(waiters, session_id) : &waiters->buckets[i];
        for (pw_waiter *waiter = *bucket; waiter; waiter = waiter->next) {
            if (session_id == 0 || waiter->session_id == session_id) {
                waiter->news = true;
                uv_cond_signal(&waiter->wake);
            }
        }
        if (session_id) {
            break;
        }
    }
    uv_mutex_unlock(&waiters->mutex);
}
