/*
 * The lock file beside a SQLite store. It must never be waited for without end: a process stopped
 * while it writes holds it, and whoever waits has to be able to say so.
 */
#include "store/sqlite_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* macOS has POSIX locks only, which a close of any descriptor of the file drops: there the file is
 * opened once. */
#ifdef F_OFD_SETLK
#define SET_LOCK F_OFD_SETLK
#define GET_LOCK F_OFD_GETLK
#else
#define SET_LOCK F_SETLK
#define GET_LOCK F_GETLK
#endif

enum { BYTE_PRESENCE = 0, BYTE_WRITE = 1 };
#define OWNERS_FROM ((off_t)1 << 40)

int64_t sq_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

void sq_sleep_ms(int64_t ms)
{
    sleep_us((long)ms * 1000);
}

static struct flock byte_lock(short type, off_t byte)
{
    struct flock lock = {0};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return lock;
}

/* 0, or the error. */
static int lock_try(int fd, short type, off_t byte)
{
    struct flock lock = byte_lock(type, byte);
    int rc;
    do {
        rc = fcntl(fd, SET_LOCK, &lock);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : errno;
}

static pw_status lock_wait(int fd, short type, off_t byte, int64_t wait_ms)
{
    int64_t end = 0;
    long pause_us = 50;
    for (;;) {
        int trouble = lock_try(fd, type, byte);
        if (trouble == 0) {
            return PW_OK;
        }
        if (trouble != EAGAIN && trouble != EACCES) {
            return PW_IO;
        }
        int64_t now = sq_now_ms();
        end = end == 0 ? now + wait_ms : end;
        if (now >= end) {
            return PW_LOCKED;
        }
        sleep_us(pause_us);
        pause_us = pause_us < 2000 ? pause_us * 2 : 2000;
    }
}

/* The file that the path names may have been removed by the last user between our open and our
 * lock. */
static bool still_there(const sq_lock *l)
{
    struct stat mine, named;
    return fstat(l->fd, &mine) == 0 && stat(l->path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

static pw_status lock_file_open(sq_lock *l, mode_t mode, pw_error *error)
{
    for (;;) {
        l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
        if (l->fd < 0) {
            pw_status code = errno == EROFS || errno == EACCES || errno == EPERM ? PW_READ_ONLY
                             : errno == ENOSPC || errno == EDQUOT                ? PW_FULL
                             : errno == ENOENT || errno == ENOTDIR               ? PW_UNAVAILABLE
                                                                                 : PW_IO;
            return PW_FAIL(error, code, "cannot open the lock file %s", l->path);
        }
        pw_status status = lock_wait(l->fd, F_RDLCK, BYTE_PRESENCE, 5000);
        if (status != PW_OK) {
            close(l->fd);
            l->fd = -1;
            return PW_FAIL(error, status, "cannot lock %s", l->path);
        }
        if (still_there(l)) {
            return PW_OK;
        }
        close(l->fd);
    }
}

/* A new store is its owner's alone; SQLite gives the files beside it the same rights. One that is
 * there is left as it is, and not even opened: closing it would drop the locks that another
 * connection of this process holds. So too under the write lock: nobody writes to it before it is
 * closed. What goes wrong here SQLite finds again, and says. */
static void file_make(sq_lock *l, const char *database)
{
    if (sq_lock_write(l, 5000) != PW_OK) {
        return;
    }
    const int fd = open(database, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)close(fd);
    }
    sq_lock_write_end(l);
}

pw_status sq_lock_open(sq_lock *l, const pw_allocator *a, pw_str database, bool read_only,
                       pw_error *error)
{
    static const char suffix[] = "-lock";
    l->path_size = database.len + sizeof(suffix);
    l->path = a->resize(a->ctx, NULL, 0, l->path_size);
    if (l->path == NULL) {
        return PW_FAIL(error, PW_NOMEM, "no memory for a path");
    }
    memcpy(l->path, database.ptr, database.len);
    memcpy(l->path + database.len, suffix, sizeof(suffix));
    if (read_only) {
        return PW_OK;
    }
    struct stat st;
    l->path[database.len] = '\0'; /* the database's own */
    const bool there = stat(l->path, &st) == 0;
    l->path[database.len] = suffix[0];
    PW_TRY(lock_file_open(l, there ? st.st_mode & 0666 : 0600, error));
    if (!there) {
        l->path[database.len] = '\0';
        file_make(l, l->path);
        l->path[database.len] = suffix[0];
    }
    return PW_OK;
}

pw_status sq_lock_write(sq_lock *l, int64_t wait_ms)
{
    return lock_wait(l->fd, F_WRLCK, BYTE_WRITE, wait_ms);
}

void sq_lock_write_end(sq_lock *l)
{
    lock_try(l->fd, F_UNLCK,
             BYTE_WRITE); /* unlocking a byte we hold cannot fail but for memory in the kernel */
}

static off_t owner_byte(const pw_owner_id *owner)
{
    pw_hash hash = pw_sha256_of(pw_str_from(owner->text));
    uint64_t number;
    memcpy(&number, hash.bytes, sizeof(number));
    return OWNERS_FROM + (off_t)(number >> 3);
}

pw_status sq_lock_owner(sq_lock *l, const pw_owner_id *owner)
{
    int trouble = lock_try(l->fd, F_WRLCK, owner_byte(owner));
    return trouble == 0 ? PW_OK : trouble == EAGAIN || trouble == EACCES ? PW_CONFLICT : PW_IO;
}

void sq_lock_owner_end(sq_lock *l, const pw_owner_id *owner)
{
    lock_try(l->fd, F_UNLCK, owner_byte(owner));
}

int sq_lock_owner_alive(const sq_lock *l, const pw_owner_id *owner)
{
#ifdef F_OFD_GETLK
    /* A descriptor of its own: a lock never stands in the way of the one that holds it. */
    int fd = open(l->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    struct flock lock = byte_lock(F_WRLCK, owner_byte(owner));
    int rc = fcntl(fd, GET_LOCK, &lock);
    close(fd);
    return rc != 0 ? -1 : lock.l_type != F_UNLCK;
#else
    (void)l;
    (void)owner;
    return -1;
#endif
}

bool sq_lock_alone(sq_lock *l)
{
    return lock_try(l->fd, F_WRLCK, BYTE_PRESENCE) == 0;
}

void sq_lock_close(sq_lock *l, const pw_allocator *a, bool remove_file)
{
    if (l->fd >= 0) {
        if (remove_file) {
            unlink(l->path);
        }
        close(l->fd);
    }
    l->fd = -1;
    if (l->path != NULL) {
        a->resize(a->ctx, l->path, l->path_size, 0);
    }
    l->path = NULL;
}
