/*
 * The memory store: the same answers as the SQL stores, kept in this process, gone with it. It is
 * what the simulator runs on, so it is deterministic and fast; tests may make its commits fail
 * (memory.h). It must never answer something that a durable store would not.
 *
 * One mutex around everything: an execute is atomic because nobody looks in between, and because
 * each operation prepares what can fail before it changes anything. A batch never fails half-way:
 * operations are independent.
 */
#include "store/memory_table.h"

static void memory_execute(pw_store *store, pw_op *ops, size_t count)
{
    mem_store *m = (mem_store *)store;
    bool writes = false;
    for (size_t i = 0; i < count; i++) {
        writes = writes || pw_op_writes(&ops[i]);
    }
    pthread_mutex_lock(&m->mutex);
    pw_memory_fault fault = PW_MEMORY_FAULT_NONE;
    if (writes && m->fault != NULL) {
        fault = m->fault(m->fault_ctx, ops, count);
    }
    bool doing = fault == PW_MEMORY_FAULT_NONE || fault == PW_MEMORY_FAULT_UNKNOWN_DONE;
    for (size_t i = 0; i < count; i++) {
        pw_op *op = &ops[i];
        if (pw_op_begin(op) == PW_OK && doing) {
            op->status = mem_write(m, op);
        }
        if (fault != PW_MEMORY_FAULT_NONE) {
            pw_op_begin(op); /* no results */
            PW_FAIL(&op->error, PW_IO, "a test made this commit fail");
            op->status = fault == PW_MEMORY_FAULT_REFUSED ? PW_NOT_COMMITTED : PW_UNKNOWN;
        }
    }
    pthread_mutex_unlock(&m->mutex);
}

/* --- the world of pretended transactional tools */

static mem_cell *world_find(const pw_memory_world *w, pw_str key)
{
    size_t cursor = 0;
    mem_cell *cell;
    while ((cell = mem_index_next(&w->index, mem_hash(3, key), &cursor)) != NULL) {
        if (pw_str_equal(cell->key, key)) {
            return cell;
        }
    }
    return NULL;
}

static pw_status world_cell(pw_memory_world *w, pw_str key, mem_cell **ret)
{
    mem_store *m = w->store;
    *ret = world_find(w, key);
    if (*ret != NULL) {
        return PW_OK;
    }
    PW_TRY(mem_index_reserve(&w->index, m->allocator));
    PW_TRY(mem_list_reserve(&w->cells, m->allocator, 1));
    mem_cell *cell = mem_alloc(m, sizeof(*cell) + key.len);
    if (cell == NULL) {
        return PW_NOMEM;
    }
    char *at = (char *)(cell + 1);
    cell->size = sizeof(*cell) + key.len;
    cell->key = mem_put(&at, key);
    mem_index_put(&w->index, mem_hash(3, key), cell);
    w->cells.items[w->cells.count++] = cell;
    *ret = cell;
    return PW_OK;
}

pw_status pw_memory_world_add(pw_memory_world *w, pw_str key, int64_t delta)
{
    mem_store *m = w->store;
    mem_cell *cell;
    if (!w->open) {
        return PW_MISUSE;
    }
    PW_TRY(world_cell(w, key, &cell));
    if (w->undo_count == w->undo_capacity) {
        size_t capacity = w->undo_capacity == 0 ? 8 : w->undo_capacity * 2;
        mem_undo *undo = m->allocator->resize(
            m->allocator->ctx, w->undo, w->undo_capacity * sizeof(*undo), capacity * sizeof(*undo));
        if (undo == NULL) {
            return PW_NOMEM;
        }
        w->undo = undo;
        w->undo_capacity = capacity;
    }
    w->undo[w->undo_count++] = (mem_undo){cell, cell->value};
    cell->value += delta;
    return PW_OK;
}

int64_t pw_store_memory_world_get(pw_store *store, pw_str key)
{
    mem_store *m = (mem_store *)store;
    pthread_mutex_lock(&m->mutex);
    const mem_cell *cell = world_find(&m->world, key);
    int64_t value = cell != NULL ? cell->value : 0;
    pthread_mutex_unlock(&m->mutex);
    return value;
}

static void world_end(pw_memory_world *w, bool keep)
{
    while (!keep && w->undo_count > 0) {
        w->undo_count--;
        w->undo[w->undo_count].cell->value = w->undo[w->undo_count].value;
    }
    w->undo_count = 0;
    w->open = false;
}

/* --- transactions */

static pw_status transact_run(mem_store *m, pw_transact *t)
{
    PW_TRY(mem_append_check(m, t->session_id, t->epoch, t->append, &t->error));
    pw_append append;
    m->world.open = true;
    pw_status status = t->run(t->ctx, &m->world, t->arena, &t->body);
    if (status != PW_OK) {
        t->limit_passed = status == PW_TIMEOUT;
        return PW_FAIL(&t->error, status, "the tool did not succeed; what it wrote is undone");
    }
    PW_TRY(pw_transact_fill(t, t->body, &append));
    pw_memory_fault fault =
        m->fault != NULL ? m->fault(m->fault_ctx, NULL, 0) : PW_MEMORY_FAULT_NONE;
    if (fault == PW_MEMORY_FAULT_REFUSED) {
        PW_FAIL(&t->error, PW_IO, "a test made this commit fail");
        return PW_NOT_COMMITTED;
    }
    if (fault != PW_MEMORY_FAULT_UNKNOWN_NOT_DONE) {
        PW_TRY(mem_append(m, t->session_id, t->epoch, &append, &t->error));
        world_end(&m->world, true);
    }
    if (fault != PW_MEMORY_FAULT_NONE) {
        PW_FAIL(&t->error, PW_IO, "a test made this commit fail");
        return PW_UNKNOWN;
    }
    return PW_OK;
}

static void memory_transact(pw_store *store, pw_transact *t)
{
    mem_store *m = (mem_store *)store;
    pthread_mutex_lock(&m->mutex);
    if (m->transactions) {
        t->status = transact_run(m, t);
        world_end(&m->world, false);
        if (t->status != PW_OK) {
            t->body = PW_STR_NONE;
        }
    } else {
        t->status = PW_FAIL(&t->error, PW_UNSUPPORTED, "the memory store has no transactions (D2)");
    }
    pthread_mutex_unlock(&m->mutex);
}

/* --- the rest */

static bool memory_changed(pw_store *store)
{
    (void)store;
    return false; /* nobody else can write here */
}

static int memory_owner_alive(pw_store *store, const pw_owner_id *owner)
{
    (void)store;
    (void)owner;
    return -1;
}

static pw_store_traits memory_traits(const pw_store *store)
{
    const mem_store *m = (const mem_store *)store;
    return (pw_store_traits){.name = "memory",
                             .transactions = m->transactions,
                             .many_processes = false,
                             .value_limit = -1,
                             .handle_kind = 0,
                             .version = "1"};
}

static void index_free(mem_store *m, mem_index *index)
{
    mem_free(m, index->slots, index->capacity * sizeof(mem_slot));
}

static void list_free(mem_store *m, mem_list *list)
{
    mem_free(m, list->items, list->capacity * sizeof(void *));
}

static void memory_close(pw_store *store)
{
    mem_store *m = (mem_store *)store;
    for (size_t i = 0; i < m->sessions.count; i++) {
        mem_session_free(m, m->sessions.items[i]);
    }
    for (size_t i = 0; i < m->blobs.count; i++) {
        mem_blob *b = m->blobs.items[i];
        mem_free(m, b, b->size);
    }
    for (size_t i = 0; i < m->world.cells.count; i++) {
        mem_cell *c = m->world.cells.items[i];
        mem_free(m, c, c->size);
    }
    while (m->owner_count > 0) {
        mem_owner_remove(m, &m->owners[m->owner_count - 1]);
    }
    mem_free(m, m->owners, m->owner_capacity * sizeof(mem_owner));
    mem_free(m, m->world.undo, m->world.undo_capacity * sizeof(mem_undo));
    index_free(m, &m->by_name);
    index_free(m, &m->by_uid);
    index_free(m, &m->by_request);
    index_free(m, &m->by_turn);
    index_free(m, &m->by_hash);
    index_free(m, &m->world.index);
    list_free(m, &m->sessions);
    list_free(m, &m->heap);
    list_free(m, &m->scratch);
    list_free(m, &m->blobs);
    list_free(m, &m->world.cells);
    pthread_mutex_destroy(&m->mutex);
    mem_free(m, m, sizeof(*m));
}

static const pw_backend memory_backend = {
    .execute = memory_execute,
    .transact = memory_transact,
    .changed = memory_changed,
    .owner_alive = memory_owner_alive,
    .traits = memory_traits,
    .close = memory_close,
};

pw_status pw_memory_open(const pw_store_options *options, pw_str path, pw_store **ret,
                         pw_error *error)
{
    const pw_allocator *a = options->allocator;
    if (path.len > 0) {
        return PW_FAIL(error, PW_INVALID, "`memory:` takes no path");
    }
    mem_store *m = a->resize(a->ctx, NULL, 0, sizeof(*m));
    if (m == NULL) {
        return PW_FAIL(error, PW_NOMEM, "no memory for a store");
    }
    *m = (mem_store){.base = {&memory_backend}, .allocator = a};
    m->world.store = m;
    if (pthread_mutex_init(&m->mutex, NULL) != 0) {
        mem_free(m, m, sizeof(*m));
        return PW_FAIL(error, PW_NOMEM, "no mutex for a store");
    }
    *ret = &m->base;
    return PW_OK;
}

void pw_store_memory_fault(pw_store *store, pw_memory_fault_fn fn, void *ctx)
{
    mem_store *m = (mem_store *)store;
    PW_ASSERT(store->backend == &memory_backend);
    m->fault = fn;
    m->fault_ctx = ctx;
}

void pw_store_memory_set_transactions(pw_store *store, bool on)
{
    PW_ASSERT(store->backend == &memory_backend);
    ((mem_store *)store)->transactions = on;
}
