/* A short list of marks under a mutex; see inside.h. Must never call the host while the mutex is
 * held. */
#include "runtime/inside.h"

struct pw_inside {
    const pw_allocator *allocator;
    uv_mutex_t mutex;
    size_t references;
    pw_inside_mark *first;
};

pw_status pw_inside_new(const pw_allocator *allocator, pw_inside **ret)
{
    pw_inside *inside = allocator->resize(allocator->ctx, NULL, 0, sizeof *inside);
    if (!inside) {
        return PW_NOMEM;
    }
    *inside = (pw_inside){.allocator = allocator, .references = 1};
    if (uv_mutex_init(&inside->mutex) != 0) {
        allocator->resize(allocator->ctx, inside, sizeof *inside, 0);
        return PW_NOMEM;
    }
    *ret = inside;
    return PW_OK;
}

pw_inside *pw_inside_ref(pw_inside *inside)
{
    uv_mutex_lock(&inside->mutex);
    inside->references++;
    uv_mutex_unlock(&inside->mutex);
    return inside;
}

void pw_inside_unref(pw_inside *inside)
{
    if (!inside) {
        return;
    }
    uv_mutex_lock(&inside->mutex);
    bool last = --inside->references == 0;
    uv_mutex_unlock(&inside->mutex);
    if (last) {
        uv_mutex_destroy(&inside->mutex);
        inside->allocator->resize(inside->allocator->ctx, inside, sizeof *inside, 0);
    }
}

void pw_inside_enter(pw_inside *inside, pw_inside_mark *mark)
{
    mark->thread = uv_thread_self();
    mark->before = NULL;
    uv_mutex_lock(&inside->mutex);
    mark->next = inside->first;
    if (mark->next) {
        mark->next->before = mark;
    }
    inside->first = mark;
    uv_mutex_unlock(&inside->mutex);
}

void pw_inside_leave(pw_inside *inside, pw_inside_mark *mark)
{
    uv_mutex_lock(&inside->mutex);
    if (mark->before) {
        mark->before->next = mark->next;
    } else {
        inside->first = mark->next;
    }
    if (mark->next) {
        mark->next->before = mark->before;
    }
    uv_mutex_unlock(&inside->mutex);
}

bool pw_inside_here(pw_inside *inside)
{
    uv_thread_t self = uv_thread_self();
    bool here = false;
    uv_mutex_lock(&inside->mutex);
    for (pw_inside_mark *mark = inside->first; mark && !here; mark = mark->next) {
        here = uv_thread_equal(&mark->thread, &self) != 0;
    }
    uv_mutex_unlock(&inside->mutex);
    return here;
}
