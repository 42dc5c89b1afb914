/*
 * What the files of this room share; not a contract of the room.
 *
 * Life of a run (one started call):
 *
 *   start → going ──────────────► ended → told → released → freed
 *             │ abort                ▲
 *             └─► abandoned → told ──┘   (its thread or process ends later, untold)
 *
 * 1. `done` is called exactly once a run, from the runner's own queue on the loop thread, never
 *    from inside start or abort.
 * 2. A run's memory is freed only when nothing can touch it any more: its thread has returned, its
 *    handles are closed.
 * 3. Members marked (loop) belong to the loop thread, those marked (lock) are guarded by the
 *    pool's lock.
 */
#ifndef PW_TOOL_TOOL_INNER_H
#define PW_TOOL_TOOL_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include <pawl/pawl.h>

#include "net/http.h"
#include "tool/tool.h"

typedef struct pw_run pw_run;
typedef struct pw_command pw_command;

typedef struct pw_run_kind {
    const char *name;
    /* Not PW_OK: nothing was started; `release` is called all the same and undoes what was begun.
     */
    pw_status (*start)(pw_run *, const pw_tool_call *, const pw_tool_place *, pw_error *);
    void (*abort)(pw_run *);   /* once, while going */
    void (*release)(pw_run *); /* gives back what the run holds, then pw_run_free, now or later */
} pw_run_kind;

extern const pw_run_kind pw_run_native, pw_run_sql, pw_run_command, pw_run_http;

/* A pool thread. Made by the loop, joined by it; a stuck one at close is detached. */
typedef struct pw_worker pw_worker;
struct pw_worker {
    pthread_t thread;
    pw_tool_runner *runner;
    pw_run *run;                /* (lock) what it is at */
    bool stuck;                 /* (lock) `run` was abandoned: not counted as one of the pool's */
    pw_worker *previous, *next; /* (lock) all that live; then only `next`: those to be joined */
};

struct pw_run {
    pw_tool_runner *runner;
    const pw_run_kind *kind;
    uint64_t call;
    pw_run *previous, *next;                            /* (loop) all of the runner's */
    pw_run *ready_next;                                 /* (loop) those to be told or released */
    bool ready;                                         /* (loop) is in that queue */
    bool ended, told, abandoned, aborted, limit_passed; /* (loop) */
    pw_tool_outcome outcome;                            /* the run's own until `ended` */
    pw_arena arena;                                     /* likewise */
    int64_t due_ms;                                     /* monotonic: its limit */
    atomic_bool over;                                   /* asked to end */
    void (*work)(pw_run *);                             /* on a pool thread */
    pw_run *work_next; /* (lock) waiting for a thread, or ended on one */
    bool queued;       /* (lock) waiting for a thread */
    pw_worker *worker; /* (lock) the thread at it */
    void *state;       /* the kind's */
};

typedef struct pw_pool {
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pw_run *first, *last;        /* (lock) wait for a thread */
    size_t waiting;              /* (lock) how many */
    pw_run *ended;               /* (lock) for the loop to tell, newest first */
    pw_worker *workers;          /* (lock) threads that live */
    pw_worker *gone;             /* (lock) threads to be joined */
    size_t threads, idle, stuck; /* (lock) */
    bool waking;                 /* (lock) one was signalled and has not come yet */
    size_t cap;                  /* threads that are not stuck */
    bool stopping;               /* (lock) */
    bool deaf;                   /* (lock) the loop is gone: nobody may wake it */
} pw_pool;

typedef struct pw_native {
    pawl_tool tool; /* its strings in the runner's arena */
    struct pw_native *next;
} pw_native;

struct pw_tool_runner {
    pw_tool_host host;
    pw_arena arena;                   /* registrations, paths */
    atomic_size_t holders;            /* the owner and every thread: the last one frees */
    pw_native *natives;               /* fixed once calls begin */
    pw_run *runs;                     /* (loop) */
    pw_run *ready_first, *ready_last; /* (loop) */
    pw_command *commands;             /* (loop) watched by SIGCHLD, not by a pidfd */
    uv_async_t wake;
    uv_timer_t last_call; /* at close: the latest limit of a native call */
    uv_signal_t child;
    bool child_watched, no_pidfd; /* (loop) */
    int handles;                  /* (loop) own handles not yet closed */
    pw_pool pool;
    pw_http *http;        /* (loop) from the first http tool on; models have another */
    bool closing, ending; /* (loop) */
    void (*closed)(void *ctx);
    void *closed_ctx;
    pthread_mutex_t transact_lock;
    pawl_call *transacting; /* (transact_lock) the native call on the writer thread */
    uint64_t transacting_call;
};

int64_t pw_tool_now_ms(void); /* monotonic */

/* tool.c */
void pw_run_end(pw_run *);     /* (loop) `outcome` is there: it will be told and released */
void pw_run_abandon(pw_run *); /* (loop) it will be told as abandoned; what it left goes on */
void pw_run_free(pw_run *);    /* (loop) by `release` */
void pw_runner_unhold(pw_tool_runner *); /* any thread */
void pw_outcome_error(pw_tool_outcome *, const char *error_class,
                      const char *message); /* static texts */
/* JSON as a tool gave it, made fit to keep (A8): byte-exact unless it holds lone surrogates, NUL or
 * invalid UTF-8. PW_INVALID: not JSON. */
pw_status pw_tool_json(pw_arena *, pw_str text, pw_str *ret);
/* Any other text as a JSON string, appended: made valid, without the line's end at its end. */
pw_status pw_tool_text(pw_buffer *, const pw_allocator *, pw_str text);

/* declaration.c */
bool pw_tool_good_variable(pw_str name); /* of the environment */

/* pool.c */
pw_status pw_pool_init(pw_pool *, size_t cap);
pw_status pw_pool_give(pw_tool_runner *, pw_run *,
                       pw_error *);                 /* runs `work` on a thread, then ends the run */
bool pw_pool_take_back(pw_tool_runner *, pw_run *); /* true: no thread had begun it */
bool pw_pool_abandon(pw_tool_runner *, pw_run *);   /* true: a thread is at it, and is now stuck */
void pw_pool_collect(pw_tool_runner *);             /* (loop) ended runs and threads */
bool pw_pool_stop(pw_tool_runner *);  /* (loop) no more work; true: only stuck threads are left */
void pw_pool_leave(pw_tool_runner *); /* (loop) last thing: lets go of stuck threads */
void pw_pool_free(pw_pool *);

/* native.c */
const pw_native *pw_native_find(const pw_tool_runner *, pw_str name);
void pw_call_over(pawl_call *); /* any thread */
pw_status pw_native_transact(pw_tool_runner *, const pw_tool_call *, const pw_tool_place *,
                             void *handle, int32_t handle_kind, pw_arena *, pw_tool_outcome *);

/* sql.c; pw_sql_check in sql_check.c: parameters against the schema's properties */
struct sqlite3;
pw_status pw_sql_run(struct sqlite3 *, const pw_json *sql, const pw_json *arguments, pw_arena *,
                     pw_tool_outcome *ret);
pw_status pw_sql_check(const pw_tool_declaration *, pw_error *);

/* http_check.c */
pw_status pw_http_check(const pw_tool_declaration *, pw_error *);

/* command.c, spawn.c */
void pw_command_child(pw_tool_runner *); /* (loop) a SIGCHLD came */
void pw_command_drop(pw_run *); /* (loop) at close: the process is not waited for any more */

typedef struct pw_spawn {
    char *const *argv, *const *envp;
    const char *directory; /* NULL: ours */
    pw_str input;
    int out, err; /* results: our ends of its pipes, non-blocking */
    pid_t pid;
} pw_spawn;
/* A new process in a process group of its own. PW_NOT_FOUND: it cannot be run (message says why);
 * PW_IO, PW_NOMEM: no resources. */
pw_status pw_spawn_start(pw_spawn *, pw_error *);
int pw_spawn_watch(pid_t); /* a pidfd, or -1 */

#endif
