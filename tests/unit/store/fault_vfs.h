/*
 * A SQLite file system for tests: it passes everything on, counts it, and makes the k-th call fail,
 * once or for ever. Registered as the default, so the store under test does not know. One thread at
 * a time.
 */
#ifndef PW_TEST_FAULT_VFS_H
#define PW_TEST_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FAULT_OPEN = 1,
    FAULT_READ = 2,
    FAULT_WRITE = 4,
    FAULT_SYNC = 8,
    FAULT_TRUNCATE = 16,
    FAULT_SHM = 32,
    FAULT_ANY = 63,
    FAULT_MEMORY = 64 /* SQLite's own allocations */
};

typedef struct fault_vfs {
    unsigned what;  /* which calls count */
    uint64_t at;    /* this one fails; 0: none */
    bool forever;   /* and all after it */
    bool full;      /* no space (writes, truncates) instead of an I/O error */
    bool torn;      /* a failing write is half done */
    uint64_t calls; /* that counted, so far */
    uint64_t failed;
    uint64_t syncs, writes; /* all of them */
    bool disk; /* each synced file is copied beside itself as <name>.disk: what a power failure
                  would leave at worst */
} fault_vfs;

extern fault_vfs fault_plan;

int fault_vfs_register(void); /* SQLITE_OK; before SQLite is used at all */
void fault_vfs_clear(void);   /* nothing fails any more; counts from 0 */

#endif
