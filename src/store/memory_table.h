/*
 * The memory store's tables: rows, the hash index that finds them, and the heap of wake times.
 * Private to memory*.c.
 *
 * Every change is prepared first (what may fail: memory) and then made (what cannot fail), so that
 * an operation either happens whole or not at all.
 */
#ifndef PW_STORE_MEMORY_TABLE_H
#define PW_STORE_MEMORY_TABLE_H

#include "store/backend.h"
#include "store/memory.h"

#include <pthread.h>

/* --- A hash index: hash → rows; who asks compares the row itself. Nothing is ever taken out. */
typedef struct mem_slot {
    uint64_t hash;
    void *row;
} mem_slot;
typedef struct mem_index {
    mem_slot *slots;
    size_t count, capacity; /* capacity 0 or a power of two */
} mem_index;
uint64_t mem_hash(uint64_t seed, pw_str);
pw_status mem_index_reserve(mem_index *, const pw_allocator *); /* room for one more */
void mem_index_put(mem_index *, uint64_t hash, void *row);
/* The next row under `hash`, NULL at the end. `*cursor` begins as 0. */
void *mem_index_next(const mem_index *, uint64_t hash, size_t *cursor);

/* --- Growable arrays of pointers, and texts that change. */
typedef struct mem_list {
    void **items;
    size_t count, capacity;
} mem_list;
pw_status mem_list_reserve(mem_list *, const pw_allocator *, size_t more);

typedef struct mem_text {
    char *ptr;
    size_t len, capacity;
} mem_text;
pw_status mem_text_reserve(mem_text *, const pw_allocator *, size_t size);
void mem_text_set(mem_text *, pw_str); /* after reserve */
static inline pw_str mem_text_str(const mem_text *t)
{
    return (pw_str){t->ptr, t->len};
}

/* --- Rows. */
typedef struct mem_session mem_session;

typedef struct mem_turn {
    mem_session *session;
    pw_str turn; /* behind the struct, in the same block */
    uint64_t opened_seq, ended_seq;
    pw_turn_state state;
    size_t size;
} mem_turn;

typedef struct mem_row { /* of an inbox */
    mem_session *session;
    uint64_t n;
    pw_inbox_kind kind;
    pw_disposition disposition;
    int64_t at_ms;
    pw_str request_id, digest; /* behind the struct */
    char *body;                /* a block of its own: given back at the claim */
    size_t body_len;
    mem_turn *turn;              /* claimed by */
    struct mem_row *prev, *next; /* among the pending ones of its kind */
    size_t size;
} mem_row;

typedef struct mem_waiting {
    mem_row *first, *last;
    size_t count;
} mem_waiting;

typedef struct mem_record {
    pw_record record; /* its bytes are behind the struct */
    uint64_t epoch;
    size_t size;
} mem_record;

#define MEM_NOT_IN_HEAP SIZE_MAX

struct mem_session {
    int64_t id;
    pw_str uid, principal, name, agent; /* behind the struct */
    size_t size;
    int64_t generation;
    uint64_t epoch;
    pw_owner_id owner; /* "" : nobody */
    mem_text turn, reason;
    pw_turn_state state;
    uint64_t base_seq;
    int64_t wake_at_ms;
    size_t heap_at;
    int64_t crashes;
    bool quarantined;
    int64_t created_at_ms, since_ms;
    mem_list records; /* mem_record *, by seq - 1 */
    mem_list inbox;   /* mem_row *, by n - 1; NULL where a row was admitted anew under a later n */
    mem_list turns;   /* mem_turn *, in opening order */
    mem_waiting messages, cancels;
};

typedef struct mem_owner {
    pw_owner_id id;
    uint64_t beat;
    pw_str address; /* a block of its own */
    int64_t at_ms;
    size_t owned; /* sessions that name it */
} mem_owner;

typedef struct mem_blob {
    pw_hash_hex hash;
    pw_str bytes; /* behind the struct */
    size_t size;
} mem_blob;

typedef struct mem_cell {
    pw_str key; /* behind the struct */
    int64_t value;
    size_t size;
} mem_cell;
typedef struct mem_undo {
    mem_cell *cell;
    int64_t value;
} mem_undo;

typedef struct mem_store mem_store;
struct pw_memory_world {
    mem_store *store;
    mem_index index;
    mem_list cells; /* mem_cell * */
    mem_undo *undo;
    size_t undo_count, undo_capacity;
    bool open; /* inside `run` */
};

struct mem_store {
    pw_store base;
    const pw_allocator *allocator;
    pthread_mutex_t mutex;
    mem_list sessions; /* mem_session *, by id - 1 */
    mem_index by_name, by_uid, by_request, by_turn, by_hash;
    mem_list heap;    /* mem_session *, earliest wake first; room for every session */
    mem_list scratch; /* room for every session, for walks and sorting */
    mem_list blobs;
    mem_owner *owners;
    size_t owner_count, owner_capacity;
    bool transactions;
    pw_memory_fault_fn fault;
    void *fault_ctx;
    pw_memory_world world;
};

void *mem_alloc(mem_store *, size_t size); /* zeroed */
void mem_free(mem_store *, void *ptr, size_t size);
pw_str mem_put(char **at, pw_str); /* copies to *at and moves it on */

mem_session *mem_session_find(const mem_store *, pw_str principal, pw_str name);
mem_session *mem_session_by_id(const mem_store *, int64_t id);
mem_session *mem_session_by_uid(const mem_store *, pw_str uid);
/* Made but in no table yet: mem_session_link puts it there after mem_session_room. */
mem_session *mem_session_make(mem_store *, const pw_op *admit);
pw_status mem_session_room(mem_store *);
void mem_session_link(mem_store *, mem_session *);
void mem_session_free(mem_store *, mem_session *);
void mem_session_wake(mem_store *, mem_session *, int64_t wake_at_ms);

mem_row *mem_row_find(const mem_store *, const mem_session *, pw_inbox_kind, pw_str request_id);
uint64_t mem_row_hash(const mem_session *, pw_inbox_kind, pw_str request_id);
mem_row *mem_row_make(mem_store *, mem_session *, pw_inbox_kind, pw_str request_id, pw_str digest,
                      pw_str body);
void mem_row_free(mem_store *, mem_row *);
void mem_row_wait(mem_row *); /* it is pending: to the end of its list */
void mem_row_settle(mem_store *, mem_row *,
                    pw_disposition); /* off the list; a claim gives the body back */

mem_turn *mem_turn_find(const mem_store *, const mem_session *, pw_str turn);
uint64_t mem_turn_hash(const mem_session *, pw_str turn);
mem_blob *mem_blob_find(const mem_store *, pw_str hash);

mem_owner *mem_owner_find(const mem_store *, const pw_owner_id *);
void mem_owner_remove(mem_store *, mem_owner *);
/* Nobody's, or its owner is gone, or dead with the beat that was seen (J2). */
bool mem_owner_dead(const mem_store *, const mem_session *, const pw_dead_owner *dead,
                    size_t count);
static inline bool mem_owner_same(const pw_owner_id *a, const pw_owner_id *b)
{
    return strcmp(a->text, b->text) == 0;
}

/* --- The operations: each returns the status and, when that is not PW_OK, has set the error and
 * changed nothing. */
pw_status mem_write(mem_store *, pw_op *);
pw_status mem_read(mem_store *, pw_op *);
pw_status mem_append_check(mem_store *, int64_t session_id, uint64_t epoch, const pw_append *,
                           pw_error *);
pw_status mem_append(mem_store *, int64_t session_id, uint64_t epoch, const pw_append *,
                     pw_error *);
pw_status mem_copy_session(pw_arena *, const mem_session *, pw_session_row *ret);
pw_status mem_copy_message(pw_arena *, const mem_row *, pw_message_row *ret);

#endif
