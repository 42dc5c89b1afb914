/* See fault_vfs.h: every method is the real one behind a look at the plan. */
#include "fault_vfs.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

typedef struct fault_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct */
    const char *name;   /* SQLite keeps it as long as the file is open */
} fault_file;

fault_vfs fault_plan;
static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;

void fault_vfs_clear(void)
{
    memset(&fault_plan, 0, sizeof(fault_plan));
}

static bool fails(unsigned what)
{
    if ((fault_plan.what & what) == 0) {
        return false;
    }
    fault_plan.calls++;
    bool hit = fault_plan.at != 0 && (fault_plan.forever ? fault_plan.calls >= fault_plan.at
                                                         : fault_plan.calls == fault_plan.at);
    fault_plan.failed += hit;
    return hit;
}

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((fault_file *)(void *)f)->real;
}

static int f_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int f_read(sqlite3_file *f, void *to, int size, sqlite3_int64 at)
{
    return fails(FAULT_READ) ? SQLITE_IOERR_READ
                             : real_of(f)->pMethods->xRead(real_of(f), to, size, at);
}

static int f_write(sqlite3_file *f, const void *from, int size, sqlite3_int64 at)
{
    fault_plan.writes++;
    if (fails(FAULT_WRITE)) {
        if (fault_plan.torn && size > 1) {
            real_of(f)->pMethods->xWrite(real_of(f), from, size / 2, at);
        }
        return fault_plan.full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return real_of(f)->pMethods->xWrite(real_of(f), from, size, at);
}

static int f_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    if (fails(FAULT_TRUNCATE)) {
        return fault_plan.full ? SQLITE_FULL : SQLITE_IOERR_TRUNCATE;
    }
    return real_of(f)->pMethods->xTruncate(real_of(f), size);
}

static void copy_to_disk(sqlite3_file *f)
{
    const char *name = ((fault_file *)(void *)f)->name;
    char to[512], bytes[4096];
    sqlite3_int64 size = 0;
    if (name == NULL || snprintf(to, sizeof(to), "%s.disk", name) >= (int)sizeof(to)) {
        return;
    }
    FILE *out = fopen(to, "wb");
    real_of(f)->pMethods->xFileSize(real_of(f), &size);
    for (sqlite3_int64 at = 0; out != NULL && at < size; at += (sqlite3_int64)sizeof(bytes)) {
        sqlite3_int64 left = size - at;
        int part = left < (sqlite3_int64)sizeof(bytes) ? (int)left : (int)sizeof(bytes);
        if (real_of(f)->pMethods->xRead(real_of(f), bytes, part, at) == SQLITE_OK) {
            fwrite(bytes, 1, (size_t)part, out);
        }
    }
    if (out != NULL) {
        fclose(out);
    }
}

static int f_sync(sqlite3_file *f, int flags)
{
    fault_plan.syncs++;
    if (fails(FAULT_SYNC)) {
        return SQLITE_IOERR_FSYNC;
    }
    int rc = real_of(f)->pMethods->xSync(real_of(f), flags);
    if (rc == SQLITE_OK && fault_plan.disk) {
        copy_to_disk(f);
    }
    return rc;
}

static int f_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int f_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int f_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int f_reserved(sqlite3_file *f, int *ret)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int f_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int f_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int f_traits(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int f_shm_map(sqlite3_file *f, int region, int size, int extend, void volatile **ret)
{
    if (fails(FAULT_SHM)) {
        return SQLITE_IOERR_SHMMAP;
    }
    return real_of(f)->pMethods->xShmMap(real_of(f), region, size, extend, ret);
}

static int f_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return real_of(f)->pMethods->xShmLock(real_of(f), offset, n, flags);
}

static void f_shm_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int f_shm_unmap(sqlite3_file *f, int remove)
{
    return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = f_close,
    .xRead = f_read,
    .xWrite = f_write,
    .xTruncate = f_truncate,
    .xSync = f_sync,
    .xFileSize = f_size,
    .xLock = f_lock,
    .xUnlock = f_unlock,
    .xCheckReservedLock = f_reserved,
    .xFileControl = f_control,
    .xSectorSize = f_sector,
    .xDeviceCharacteristics = f_traits,
    .xShmMap = f_shm_map,
    .xShmLock = f_shm_lock,
    .xShmBarrier = f_shm_barrier,
    .xShmUnmap = f_shm_unmap,
};

static int v_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    fault_file *file = (fault_file *)(void *)f;
    (void)v;
    memset(file, 0, sizeof(*file));
    if (fails(FAULT_OPEN)) {
        return SQLITE_CANTOPEN;
    }
    file->real = (sqlite3_file *)(void *)(file + 1);
    int rc = real_vfs->xOpen(real_vfs, name, file->real, flags, ret_flags);
    file->name = name;
    file->base.pMethods = file->real->pMethods != NULL ? &methods : NULL;
    return rc;
}

static sqlite3_mem_methods real_memory;

static void *m_alloc(int size)
{
    return fails(FAULT_MEMORY) ? NULL : real_memory.xMalloc(size);
}

static void *m_resize(void *ptr, int size)
{
    return fails(FAULT_MEMORY) ? NULL : real_memory.xRealloc(ptr, size);
}

int fault_vfs_register(void)
{
    sqlite3_mem_methods memory;
    int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
    memory = real_memory;
    memory.xMalloc = m_alloc;
    memory.xRealloc = m_resize;
    if (rc == SQLITE_OK) {
        rc = sqlite3_config(SQLITE_CONFIG_MALLOC, &memory);
    }
    if (rc != SQLITE_OK) {
        return rc;
    }
    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "fault";
    vfs.szOsFile = (int)sizeof(fault_file) + real_vfs->szOsFile;
    vfs.xOpen = v_open;
    return sqlite3_vfs_register(&vfs, 1);
}
