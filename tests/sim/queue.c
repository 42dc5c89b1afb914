/*
 * The event queue: a binary heap by time, then by the order in which events were put. So a run is
 * one sequence, the same for the same plan.
 */
#include <stdlib.h>

#include "sim.h"

static bool before(const sim_event *a, const sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void queue_push(sim *s, sim_event event)
{
    if (s->heap_count == s->heap_room) {
        s->heap_room = s->heap_room ? 2 * s->heap_room : 256;
        s->heap = realloc(s->heap, s->heap_room * sizeof *s->heap);
        PW_ASSERT(s->heap);
    }
    event.at = event.at < s->now ? s->now : event.at;
    event.order = ++s->order;
    size_t i = s->heap_count++;
    while (i > 0 && before(&event, &s->heap[(i - 1) / 2])) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = event;
}

bool queue_pop(sim *s, sim_event *ret)
{
    if (s->heap_count == 0) {
        return false;
    }
    *ret = s->heap[0];
    sim_event last = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_count) {
            break;
        }
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child])) {
            child++;
        }
        if (!before(&s->heap[child], &last)) {
            break;
        }
        s->heap[i] = s->heap[child];
        i = child;
    }
    if (s->heap_count > 0) {
        s->heap[i] = last;
    }
    return true;
}
