/*
 * A child process: posix_spawn without a shell, in a process group of its own, with clean signals
 * and nothing of ours open but its three streams.
 *
 * Its standard input is a file in memory that holds the whole input: the child reads as much of it
 * as it likes, when it likes, and nobody can block or break on a pipe. Its outputs are pipes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/tool_inner.h"

#if defined(PW_HAVE_PIDFD)
#include <sys/pidfd.h>
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

typedef struct streams {
    int input, out[2], err[2]; /* -1: not open */
} streams;

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* a pipe or a file in memory: nothing can be lost here */
        *fd = -1;
    }
}

static void close_all(streams *s)
{
    close_fd(&s->input);
    close_fd(&s->out[0]);
    close_fd(&s->out[1]);
    close_fd(&s->err[0]);
    close_fd(&s->err[1]);
}

/* Out of the way of the child's 0, 1 and 2, which a host may have closed. */
static bool lift(int *fd)
{
    if (*fd > STDERR_FILENO) {
        return true;
    }
    const int higher = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (higher < 0) {
        return false;
    }
    (void)close(*fd);
    *fd = higher;
    return true;
}

static int unnamed_file(void)
{
    int fd = memfd_create("pawl-arguments", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) { /* a kernel before 6.3 */
        fd = memfd_create("pawl-arguments", MFD_CLOEXEC);
    }
    if (fd < 0) {
        char name[] = "/tmp/pawl-XXXXXX";
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0) {
            (void)unlink(name);
        }
    }
    return fd;
}

static bool open_input(streams *s, pw_str input)
{
    s->input = unnamed_file();
    if (s->input < 0 || !lift(&s->input)) {
        return false;
    }
    while (input.len > 0) {
        const ssize_t written = write(s->input, input.ptr, input.len);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        if (written > 0) {
            input = pw_str_slice(input, (size_t)written, input.len);
        }
    }
    return lseek(s->input, 0, SEEK_SET) == 0;
}

static bool open_output(int pipe_fds[2])
{
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        pipe_fds[0] = pipe_fds[1] = -1;
        return false;
    }
    return lift(&pipe_fds[0]) && lift(&pipe_fds[1]) && fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK) == 0;
}

static int set_actions(posix_spawn_file_actions_t *actions, const streams *s, const char *directory)
{
    int failed = 0;
    if (directory != NULL) {
        failed = posix_spawn_file_actions_addchdir_np(actions, directory);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(actions, s->input, STDIN_FILENO);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(actions, s->out[1], STDOUT_FILENO);
    }
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(actions, s->err[1], STDERR_FILENO);
    }
#if defined(PW_HAVE_SPAWN_CLOSEFROM)
    if (failed == 0) {
        failed = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    }
#endif
    return failed;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    const short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    int failed = posix_spawnattr_setflags(attributes, flags);
    if (failed == 0) {
        failed = posix_spawnattr_setpgroup(attributes, 0);
    }
    if (failed == 0) {
        failed = posix_spawnattr_setsigmask(attributes, &none);
    }
    return failed != 0 ? failed : posix_spawnattr_setsigdefault(attributes, &all);
}

static int spawn(pw_spawn *child, const streams *s)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        failed = set_actions(&actions, s, child->directory);
        if (failed == 0) {
            failed = set_attributes(&attributes);
        }
        if (failed == 0) {
            failed = posix_spawnp(&child->pid, child->argv[0], &actions, &attributes, child->argv,
                                  child->envp);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static pw_status explain(int failed, const char *program, pw_error *error)
{
    char text[128];
    const char *reason = strerror_r(failed, text, sizeof text);
    switch (failed) {
    case ENOMEM:
        return PW_FAIL(error, PW_NOMEM, "cannot run \"%s\": %s", program, reason);
    case EAGAIN:
    case EMFILE:
    case ENFILE:
        return PW_FAIL(error, PW_IO, "cannot run \"%s\": %s", program, reason);
    default:
        return PW_FAIL(error, PW_NOT_FOUND, "cannot run \"%s\": %s", program, reason);
    }
}

pw_status pw_spawn_start(pw_spawn *child, pw_error *error)
{
    streams s = {.input = -1, .out = {-1, -1}, .err = {-1, -1}};
    if (!open_input(&s, child->input) || !open_output(s.out) || !open_output(s.err)) {
        const int failed = errno;
        close_all(&s);
        char text[128];
        return PW_FAIL(error, failed == ENOMEM ? PW_NOMEM : PW_IO, "cannot run \"%s\": %s",
                       child->argv[0], strerror_r(failed, text, sizeof text));
    }
    const int failed = spawn(child, &s);
    if (failed != 0) {
        close_all(&s);
        return explain(failed, child->argv[0], error);
    }
    child->out = s.out[0];
    child->err = s.err[0];
    s.out[0] = s.err[0] = -1;
    close_all(&s);
    return PW_OK;
}

int pw_spawn_watch(pid_t pid)
{
#if defined(PW_HAVE_PIDFD)
    return pidfd_open(pid, 0); /* close-on-exec from birth */
#else
    (void)pid;
    return -1;
#endif
}
