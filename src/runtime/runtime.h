/*
 * Inside the runtime: what its files share. The runtime joins store, models and tools to the
 * session machine: gather what happened, step the sessions concerned, hand the appends to the
 * writer, step again when it answers, do the effects. It invents no effect of its own.
 *
 * Three kinds of threads: the loop (libuv: sessions, timers, models, commands), the writer (the
 * only one that writes to the store), and the callers' own. `struct pawl` is shared by all; each
 * member says who may touch it.
 */
#ifndef PW_RUNTIME_RUNTIME_H
#define PW_RUNTIME_RUNTIME_H

#include <pawl/pawl.h>

#include <stdatomic.h>

#include "agent/agent.h"
#include "net/guard.h"
#include "model/prices.h"
#include "runtime/hub.h"
#include "runtime/inside.h"
#include "runtime/waiters.h"
#include "store/store.h"

typedef struct pw_setup pw_setup;   /* setup.h */
typedef struct pw_writer pw_writer; /* writer.h */
typedef struct pw_loop pw_loop;     /* loop.h */

struct pawl {
    const pw_allocator *allocator;
    pw_arena arena;       /* what lives as long as the handle; written before start only */
    pawl_options options; /* copied; strings in `arena` */
    pw_str principal;
    pw_networks outbound; /* what the engine may call beyond public addresses */
    pw_store *store;      /* reads: any thread. Writes: the writer thread alone */
    pw_writer *writer;    /* NULL when opened read-only */
    pw_hub *hub;
    pw_loop *loop;                 /* NULL until pawl_start */
    const pw_agent *const *agents; /* fixed at start; the first or `default` is the default one */
    size_t agent_count;
    pw_prices own_prices;    /* of the file given; asked first */
    pw_prices list_prices;   /* of the program */
    const pw_prices *prices; /* where to begin; fixed at open */
    pw_store_traits traits;
    pw_setup *setup;    /* what may be added until start; its own mutex */
    pw_inside *inside;  /* which threads are in the host's code */
    pw_waiters waiters; /* threads in pawl_wait */
};
/* The loop, once started: `loop` is written by pawl_start while other threads may look. */
static inline pw_loop *pw_loop_of(pawl *p)
{
    return __atomic_load_n(&p->loop, __ATOMIC_ACQUIRE);
}

/* clocks of this process: the only ones in the engine */
int64_t pw_now_ms(void); /* wall */
int64_t pw_monotonic_ms(void);
void pw_entropy(uint8_t *to, size_t size);

void pw_log(pawl *, int32_t level, const char *event, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A document from JSON text (copied). doc.c */
int32_t pw_doc_new(pw_str json, pawl_doc **ret, pawl_error *);

/* The session's row by name under the handle's principal. PW_NOT_FOUND. read.c */
pw_status pw_find_session(pawl *, pw_str name, pw_arena *, pw_session_row *ret, pw_error *);
/* The Turn that `turn` is, as JSON (from records and rows). read_journal.c */
pw_status pw_read_turn(pawl *, const pw_session_row *, pw_str turn, pw_arena *, pw_buffer *ret,
                       pw_error *);
/* The same, but for what an open turn's records would have to be summed up for (null): it costs two
 * records, however long the turn. */
pw_status pw_read_turn_ends(pawl *, const pw_session_row *, pw_str turn, pw_arena *, pw_buffer *ret,
                            pw_error *);

#endif
