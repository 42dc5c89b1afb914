/*
 * The memory store's tables. It must never decide what an operation answers: that is memory_write.c
 * and memory_read.c.
 *
 * Deterministic: nothing here depends on addresses or time, so that a simulation gives the same
 * answers every run.
 */
#include "store/memory_table.h"

void *mem_alloc(mem_store *m, size_t size)
{
    void *ptr = m->allocator->resize(m->allocator->ctx, NULL, 0, size);
    if (ptr != NULL) {
        memset(ptr, 0, size);
    }
    return ptr;
}

void mem_free(mem_store *m, void *ptr, size_t size)
{
    if (ptr != NULL) {
        m->allocator->resize(m->allocator->ctx, ptr, size, 0);
    }
}

pw_str mem_put(char **at, pw_str s)
{
    char *to = *at;
    if (s.len > 0) {
        memcpy(to, s.ptr, s.len);
    }
    *at += s.len;
    return (pw_str){to, s.len};
}

/* --- hash index */

uint64_t mem_hash(uint64_t seed, pw_str s)
{
    uint64_t h = (seed + 1) * 0x9E3779B97F4A7C15u ^ s.len;
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t word;
        memcpy(&word, s.ptr + i, 8);
        h = (h ^ word) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    for (; i < s.len; i++) {
        h = (h ^ (uint8_t)s.ptr[i]) * 0x100000001B3u;
    }
    h ^= h >> 29;
    h *= 0xC4CEB9FE1A85EC53u;
    return h ^ (h >> 32);
}

static void slots_put(mem_slot *slots, size_t capacity, uint64_t hash, void *row)
{
    size_t at = hash & (capacity - 1);
    while (slots[at].row != NULL) {
        at = (at + 1) & (capacity - 1);
    }
    slots[at] = (mem_slot){hash, row};
}

pw_status mem_index_reserve(mem_index *index, const pw_allocator *allocator)
{
    if ((index->count + 1) * 3 <= index->capacity * 2) {
        return PW_OK;
    }
    size_t capacity = index->capacity == 0 ? 16 : index->capacity * 2;
    mem_slot *slots = allocator->resize(allocator->ctx, NULL, 0, capacity * sizeof(*slots));
    if (slots == NULL) {
        return PW_NOMEM;
    }
    memset(slots, 0, capacity * sizeof(*slots));
    for (size_t i = 0; i < index->capacity; i++) {
        if (index->slots[i].row != NULL) {
            slots_put(slots, capacity, index->slots[i].hash, index->slots[i].row);
        }
    }
    if (index->slots != NULL) {
        allocator->resize(allocator->ctx, index->slots, index->capacity * sizeof(*slots), 0);
    }
    index->slots = slots;
    index->capacity = capacity;
    return PW_OK;
}

void mem_index_put(mem_index *index, uint64_t hash, void *row)
{
    PW_ASSERT(index->count < index->capacity);
    slots_put(index->slots, index->capacity, hash, row);
    index->count++;
}

void *mem_index_next(const mem_index *index, uint64_t hash, size_t *cursor)
{
    while (*cursor < index->capacity) {
        const mem_slot *slot = &index->slots[(hash + *cursor) & (index->capacity - 1)];
        if (slot->row == NULL) {
            return NULL;
        }
        (*cursor)++;
        if (slot->hash == hash) {
            return slot->row;
        }
    }
    return NULL;
}

/* --- lists and texts */

pw_status mem_list_reserve(mem_list *list, const pw_allocator *allocator, size_t more)
{
    size_t need = list->count + more;
    if (need <= list->capacity) {
        return PW_OK;
    }
    size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
    if (capacity < need) {
        capacity = need;
    }
    void **items = allocator->resize(allocator->ctx, list->items, list->capacity * sizeof(*items),
                                     capacity * sizeof(*items));
    if (items == NULL) {
        return PW_NOMEM;
    }
    list->items = items;
    list->capacity = capacity;
    return PW_OK;
}

pw_status mem_text_reserve(mem_text *text, const pw_allocator *allocator, size_t size)
{
    if (size <= text->capacity) {
        return PW_OK;
    }
    char *ptr = allocator->resize(allocator->ctx, text->ptr, text->capacity, size);
    if (ptr == NULL) {
        return PW_NOMEM;
    }
    text->ptr = ptr;
    text->capacity = size;
    return PW_OK;
}

void mem_text_set(mem_text *text, pw_str s)
{
    PW_ASSERT(s.len <= text->capacity);
    if (s.len > 0) {
        memmove(text->ptr, s.ptr, s.len);
    }
    text->len = s.len;
}

/* --- sessions */

mem_session *mem_session_find(const mem_store *m, pw_str principal, pw_str name)
{
    uint64_t hash = mem_hash(mem_hash(0, principal), name);
    size_t cursor = 0;
    mem_session *s;
    while ((s = mem_index_next(&m->by_name, hash, &cursor)) != NULL) {
        if (pw_str_equal(s->name, name) && pw_str_equal(s->principal, principal)) {
            return s;
        }
    }
    return NULL;
}

mem_session *mem_session_by_uid(const mem_store *m, pw_str uid)
{
    size_t cursor = 0;
    mem_session *s;
    while ((s = mem_index_next(&m->by_uid, mem_hash(1, uid), &cursor)) != NULL) {
        if (pw_str_equal(s->uid, uid)) {
            return s;
        }
    }
    return NULL;
}

mem_session *mem_session_by_id(const mem_store *m, int64_t id)
{
    return id >= 1 && (uint64_t)id <= m->sessions.count ? m->sessions.items[id - 1] : NULL;
}

mem_session *mem_session_make(mem_store *m, const pw_op *op)
{
    size_t size = sizeof(mem_session) + op->admit.uid.len + op->admit.principal.len +
                  op->admit.session.len + op->admit.agent.len;
    mem_session *s = mem_alloc(m, size);
    if (s == NULL) {
        return NULL;
    }
    char *at = (char *)(s + 1);
    s->size = size;
    s->uid = mem_put(&at, op->admit.uid);
    s->principal = mem_put(&at, op->admit.principal);
    s->name = mem_put(&at, op->admit.session);
    s->agent = mem_put(&at, op->admit.agent);
    s->wake_at_ms = -1;
    s->heap_at = MEM_NOT_IN_HEAP;
    s->created_at_ms = op->admit.now_ms;
    s->since_ms = op->admit.now_ms;
    return s;
}

pw_status mem_session_room(mem_store *m)
{
    PW_TRY(mem_list_reserve(&m->sessions, m->allocator, 1));
    PW_TRY(mem_list_reserve(&m->heap, m->allocator, m->sessions.count + 1 - m->heap.count));
    PW_TRY(mem_list_reserve(&m->scratch, m->allocator, 2 * (m->sessions.count + 1)));
    PW_TRY(mem_index_reserve(&m->by_name, m->allocator));
    return mem_index_reserve(&m->by_uid, m->allocator);
}

void mem_session_link(mem_store *m, mem_session *s)
{
    m->sessions.items[m->sessions.count++] = s;
    s->id = (int64_t)m->sessions.count;
    mem_index_put(&m->by_name, mem_hash(mem_hash(0, s->principal), s->name), s);
    mem_index_put(&m->by_uid, mem_hash(1, s->uid), s);
}

void mem_session_free(mem_store *m, mem_session *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->records.count; i++) {
        mem_record *r = s->records.items[i];
        mem_free(m, r, r->size);
    }
    for (size_t i = 0; i < s->inbox.count; i++) {
        mem_row_free(m, s->inbox.items[i]);
    }
    for (size_t i = 0; i < s->turns.count; i++) {
        mem_turn *t = s->turns.items[i];
        mem_free(m, t, t->size);
    }
    mem_free(m, s->records.items, s->records.capacity * sizeof(void *));
    mem_free(m, s->inbox.items, s->inbox.capacity * sizeof(void *));
    mem_free(m, s->turns.items, s->turns.capacity * sizeof(void *));
    mem_free(m, s->turn.ptr, s->turn.capacity);
    mem_free(m, s->reason.ptr, s->reason.capacity);
    mem_free(m, s, s->size);
}

/* --- the heap of wake times */

static bool wakes_before(const mem_session *a, const mem_session *b)
{
    return a->wake_at_ms != b->wake_at_ms ? a->wake_at_ms < b->wake_at_ms : a->id < b->id;
}

static void heap_set(mem_list *heap, size_t at, mem_session *s)
{
    heap->items[at] = s;
    s->heap_at = at;
}

static void heap_up(mem_list *heap, size_t at)
{
    mem_session *s = heap->items[at];
    while (at > 0 && wakes_before(s, heap->items[(at - 1) / 2])) {
        heap_set(heap, at, heap->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(heap, at, s);
}

static void heap_down(mem_list *heap, size_t at)
{
    mem_session *s = heap->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && wakes_before(heap->items[child + 1], heap->items[child])) {
            child++;
        }
        if (!wakes_before(heap->items[child], s)) {
            break;
        }
        heap_set(heap, at, heap->items[child]);
        at = child;
    }
    heap_set(heap, at, s);
}

void mem_session_wake(mem_store *m, mem_session *s, int64_t wake_at_ms)
{
    mem_list *heap = &m->heap;
    size_t at = s->heap_at;
    s->wake_at_ms = wake_at_ms;
    if (wake_at_ms >= 0 && at == MEM_NOT_IN_HEAP) {
        PW_ASSERT(heap->count < heap->capacity);
        heap->items[heap->count] = s;
        heap_up(heap, heap->count++);
    } else if (wake_at_ms >= 0) {
        heap_up(heap, at);
        heap_down(heap, s->heap_at);
    } else if (at != MEM_NOT_IN_HEAP) {
        mem_session *last = heap->items[--heap->count];
        s->heap_at = MEM_NOT_IN_HEAP;
        if (last != s) {
            heap_set(heap, at, last);
            heap_up(heap, at);
            heap_down(heap, last->heap_at);
        }
    }
}

/* --- inbox rows */

uint64_t mem_row_hash(const mem_session *s, pw_inbox_kind kind, pw_str request_id)
{
    return mem_hash((uint64_t)s->id * 2 + (kind == PW_INBOX_CANCEL), request_id);
}

mem_row *mem_row_find(const mem_store *m, const mem_session *s, pw_inbox_kind kind,
                      pw_str request_id)
{
    uint64_t hash = mem_row_hash(s, kind, request_id);
    size_t cursor = 0;
    mem_row *row;
    while ((row = mem_index_next(&m->by_request, hash, &cursor)) != NULL) {
        if (row->session == s && row->kind == kind && pw_str_equal(row->request_id, request_id)) {
            return row;
        }
    }
    return NULL;
}

mem_row *mem_row_make(mem_store *m, mem_session *s, pw_inbox_kind kind, pw_str request_id,
                      pw_str digest, pw_str body)
{
    size_t size = sizeof(mem_row) + request_id.len + digest.len;
    mem_row *row = mem_alloc(m, size);
    if (row == NULL) {
        return NULL;
    }
    row->size = size;
    row->body = mem_alloc(m, body.len + 1);
    if (row->body == NULL) {
        mem_free(m, row, size);
        return NULL;
    }
    char *at = row->body;
    row->body_len = mem_put(&at, body).len;
    at = (char *)(row + 1);
    row->request_id = mem_put(&at, request_id);
    row->digest = mem_put(&at, digest);
    row->session = s;
    row->kind = kind;
    return row;
}

void mem_row_free(mem_store *m, mem_row *row)
{
    if (row != NULL) {
        mem_free(m, row->body, row->body_len + 1);
        mem_free(m, row, row->size);
    }
}

static mem_waiting *waiting_of(mem_row *row)
{
    return row->kind == PW_INBOX_MESSAGE ? &row->session->messages : &row->session->cancels;
}

void mem_row_wait(mem_row *row)
{
    mem_waiting *w = waiting_of(row);
    row->disposition = PW_PENDING;
    row->next = NULL;
    row->prev = w->last;
    if (w->last != NULL) {
        w->last->next = row;
    } else {
        w->first = row;
    }
    w->last = row;
    w->count++;
}

void mem_row_settle(mem_store *m, mem_row *row, pw_disposition disposition)
{
    mem_waiting *w = waiting_of(row);
    PW_ASSERT(row->disposition == PW_PENDING && w->count > 0);
    if (row->prev != NULL) {
        row->prev->next = row->next;
    } else {
        w->first = row->next;
    }
    if (row->next != NULL) {
        row->next->prev = row->prev;
    } else {
        w->last = row->prev;
    }
    row->prev = NULL;
    row->next = NULL;
    w->count--;
    row->disposition = disposition;
    if (disposition == PW_CLAIMED) { /* the body has moved to the journal */
        mem_free(m, row->body, row->body_len + 1);
        row->body = NULL;
        row->body_len = 0;
    }
}

/* --- turns, blobs, owners */

uint64_t mem_turn_hash(const mem_session *s, pw_str turn)
{
    return mem_hash((uint64_t)s->id, turn);
}

mem_turn *mem_turn_find(const mem_store *m, const mem_session *s, pw_str turn)
{
    size_t cursor = 0;
    mem_turn *t;
    while ((t = mem_index_next(&m->by_turn, mem_turn_hash(s, turn), &cursor)) != NULL) {
        if (t->session == s && pw_str_equal(t->turn, turn)) {
            return t;
        }
    }
    return NULL;
}

mem_blob *mem_blob_find(const mem_store *m, pw_str hash)
{
    size_t cursor = 0;
    mem_blob *b;
    while ((b = mem_index_next(&m->by_hash, mem_hash(2, hash), &cursor)) != NULL) {
        if (pw_str_is(hash, b->hash.text)) {
            return b;
        }
    }
    return NULL;
}

mem_owner *mem_owner_find(const mem_store *m, const pw_owner_id *id)
{
    for (size_t i = 0; i < m->owner_count; i++) {
        if (mem_owner_same(&m->owners[i].id, id)) {
            return &m->owners[i];
        }
    }
    return NULL;
}

void mem_owner_remove(mem_store *m, mem_owner *o)
{
    size_t at = (size_t)(o - m->owners);
    mem_free(m, (char *)o->address.ptr, o->address.len + 1);
    memmove(o, o + 1, (m->owner_count - at - 1) * sizeof(*o));
    m->owner_count--;
}

bool mem_owner_dead(const mem_store *m, const mem_session *s, const pw_dead_owner *dead,
                    size_t count)
{
    const mem_owner *o = mem_owner_find(m, &s->owner);
    if (o == NULL) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (mem_owner_same(&dead[i].id, &s->owner) && dead[i].beat == o->beat) {
            return true;
        }
    }
    return false;
}
