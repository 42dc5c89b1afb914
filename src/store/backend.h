/*
 * What a backend is to store.c: one table of functions behind every pw_store. It must never grow
 * decisions about turns, and no backend may include another.
 *
 * A backend's own struct begins with a pw_store. Every function is given a store that its own
 * `open` made.
 */
#ifndef PW_STORE_BACKEND_H
#define PW_STORE_BACKEND_H

#include "store/store.h"

typedef struct pw_backend {
    void (*execute)(pw_store *, pw_op *ops, size_t count);
    void (*transact)(pw_store *, pw_transact *);
    bool (*changed)(pw_store *);
    int (*owner_alive)(pw_store *, const pw_owner_id *);
    pw_store_traits (*traits)(const pw_store *);
    void (*close)(pw_store *);
} pw_backend;

struct pw_store {
    const pw_backend *backend;
};

/* `path` is the URL after its scheme. */
typedef pw_status (*pw_backend_open)(const pw_store_options *, pw_str path, pw_store **ret,
                                     pw_error *);
pw_status pw_memory_open(const pw_store_options *, pw_str path, pw_store **ret, pw_error *);
pw_status pw_sqlite_open(const pw_store_options *, pw_str path, pw_store **ret, pw_error *);

/* --- What all backends ask of an operation before they look at their rows (op.c). */

bool pw_op_writes(const pw_op *);
/* Clears the op's results and checks its arguments. Not PW_OK: status and error are set and the
 * backend leaves the op alone. */
pw_status pw_op_begin(pw_op *);
pw_status pw_append_check(const pw_append *, pw_error *);
/* The append of a transaction with its hole filled; made in the transact's arena. */
pw_status pw_transact_fill(pw_transact *, pw_str body, pw_append *ret);

/* Why this process has the session now, from the row as it was before it was taken (C4). */
typedef struct pw_take_before {
    bool nobody, mine, dead; /* the owner before */
    bool quarantined;
    bool turn_open;
    pw_turn_state state; /* of the open turn */
} pw_take_before;
/* An interruption: the owner died with a running turn in hand, and nobody asked by name. */
bool pw_take_interrupts(const pw_take_before *, bool take_over);
pw_cause pw_take_cause(const pw_take_before *, bool take_over);

#endif
