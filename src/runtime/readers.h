/*
 * Readers: two threads that read from the store for the loop, which never waits for a disk. A job
 * here holds reads only; it is executed, then `done` is called on the reader's thread.
 */
#ifndef PW_RUNTIME_READERS_H
#define PW_RUNTIME_READERS_H

#include "runtime/writer.h"

#define PW_READERS_THREADS 2

typedef struct pw_readers pw_readers;

pw_status pw_readers_new(pawl *, pw_readers **ret, pw_error *);
void pw_readers_close(pw_readers *); /* finishes what was given, then joins; NULL is fine */
void pw_readers_give(pw_readers *, pw_job *);

#endif
