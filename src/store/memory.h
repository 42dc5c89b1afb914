/*
 * The memory store's own doors, for the simulator and for tests: faults at the moment of commit,
 * and a small world that pretended transactional tools write to. Nothing but tests may need this
 * header.
 *
 * The store object survives a simulated crash: a new runtime simply goes on with it.
 */
#ifndef PW_STORE_MEMORY_H
#define PW_STORE_MEMORY_H

#include "store/store.h"

/* Asked once for each execute that writes and for each transact that would commit, at its commit.
 */
typedef enum pw_memory_fault {
    PW_MEMORY_FAULT_NONE,
    PW_MEMORY_FAULT_REFUSED,         /* nothing is changed, every op is PW_NOT_COMMITTED */
    PW_MEMORY_FAULT_UNKNOWN_DONE,    /* it is changed, every op is PW_UNKNOWN */
    PW_MEMORY_FAULT_UNKNOWN_NOT_DONE /* nothing is changed, every op is PW_UNKNOWN */
} pw_memory_fault;
/* `ops` are as they were given (results not yet there); NULL and 0 for a transact. It must not call
 * the store. */
typedef pw_memory_fault (*pw_memory_fault_fn)(void *ctx, const pw_op *ops, size_t count);
void pw_store_memory_fault(pw_store *, pw_memory_fault_fn, void *ctx); /* NULL: no faults */

/* Pretend to have transactions (D2): `run` of a transact is handed a pw_memory_world *. Off at
 * first. */
void pw_store_memory_set_transactions(pw_store *, bool);

/* What transactional tools write to: numbers by name, undone with the transaction. */
typedef struct pw_memory_world pw_memory_world;
pw_status pw_memory_world_add(pw_memory_world *, pw_str key, int64_t delta); /* only inside `run` */
int64_t pw_store_memory_world_get(pw_store *, pw_str key); /* 0 when never written */

#endif
