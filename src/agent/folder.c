/*
 * The files of an agent's folder. What an agent is made of lies inside it: names that lead out,
 * also by a symbolic link, are refused, so that a folder can be moved, copied and trusted as a
 * whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_inner.h"

_Static_assert(PW_AGENT_PATH_MAX >= 4096, "realpath needs PATH_MAX bytes");

static pw_status from_errno(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
        return PW_NOT_FOUND;
    case ENOMEM:
        return PW_NOMEM;
    case ENAMETOOLONG:
    case ELOOP:
        return PW_INVALID;
    default:
        return PW_IO;
    }
}

static pw_status say(int code, pw_error *error)
{
    char text[128];
    const pw_status status = from_errno(code);
    return status == PW_NOT_FOUND
               ? PW_FAIL(error, status, "there is no such file")
               : PW_FAIL(error, status, "cannot be read: %s", strerror_r(code, text, sizeof text));
}

static pw_status join(pw_arena *arena, pw_str directory, pw_str name, pw_str *ret)
{
    pw_buffer path;
    pw_buffer_init_arena(&path, arena, (size_t)2 * PW_AGENT_PATH_MAX);
    (void)pw_buffer_add(&path, directory);
    if (directory.len > 0 && directory.ptr[directory.len - 1] != '/') {
        (void)pw_buffer_byte(&path, '/');
    }
    (void)pw_buffer_add(&path, name);
    *ret = pw_buffer_str(&path);
    return path.failed;
}

pw_status pw_folder_open(pw_folder *folder, pw_str directory, pw_arena *arena, pw_error *error)
{
    pw_str path;
    if (directory.len == 0 || memchr(directory.ptr, 0, directory.len) != NULL) {
        return PW_FAIL(error, PW_INVALID, "expected the path of a folder");
    }
    if (pw_arena_dup(arena, directory, &path) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    folder->arena = arena;
    folder->shown = path;
    if (realpath(path.ptr, folder->real) == NULL) {
        const int code = errno;
        char text[128];
        return PW_FAIL(error, from_errno(code), "%s: %s", path.ptr,
                       strerror_r(code, text, sizeof text));
    }
    return PW_OK;
}

pw_str pw_folder_shown(const pw_folder *folder, pw_str name)
{
    pw_str path;
    return join(folder->arena, folder->shown, name, &path) == PW_OK ? path : name;
}

static pw_status read_all(int fd, size_t size, pw_arena *arena, pw_str *ret, pw_error *error)
{
    pw_buffer text;
    pw_buffer_init_arena(&text, arena, PW_AGENT_FILE_MAX);
    pw_status status = pw_buffer_reserve(&text, size < PW_AGENT_FILE_MAX ? size + 1 : size);
    char piece[4096];
    ssize_t got = 0;
    while (status == PW_OK && (got = read(fd, piece, sizeof piece)) != 0) {
        if (got > 0) {
            status = pw_buffer_add(&text, (pw_str){piece, (size_t)got});
        } else if (errno != EINTR) {
            return say(errno, error);
        }
    }
    if (status == PW_TOO_LARGE) {
        return PW_FAIL(error, status, "is larger than 1 MiB");
    }
    if (status != PW_OK) {
        return PW_FAIL(error, status, "out of memory");
    }
    *ret = text.ptr != NULL ? pw_buffer_str(&text) : PW_STR("");
    return PW_OK;
}

static pw_status read_file(const char *real, pw_arena *arena, pw_str *ret, pw_error *error)
{
    const int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0) {
        return say(errno, error);
    }
    struct stat about;
    pw_status status = PW_OK;
    if (fstat(fd, &about) != 0) {
        status = say(errno, error);
    } else if (!S_ISREG(about.st_mode)) {
        status = PW_FAIL(error, PW_INVALID, "is not a file");
    } else if (about.st_size > (off_t)PW_AGENT_FILE_MAX) {
        status = PW_FAIL(error, PW_TOO_LARGE, "is larger than 1 MiB");
    } else {
        status = read_all(fd, (size_t)about.st_size, arena, ret, error);
    }
    (void)close(fd); /* it was read only */
    return status;
}

pw_status pw_folder_read(const pw_folder *folder, pw_str name, pw_str *ret, pw_error *error)
{
    if (name.len == 0 || memchr(name.ptr, 0, name.len) != NULL) {
        return PW_FAIL(error, PW_INVALID, "expected the name of a file");
    }
    if (name.ptr[0] == '/') {
        return PW_FAIL(error, PW_FORBIDDEN, "lies outside the agent's folder");
    }
    pw_str path;
    if (join(folder->arena, pw_str_from(folder->real), name, &path) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    char real[PW_AGENT_PATH_MAX];
    if (realpath(path.ptr, real) == NULL) {
        return say(errno, error);
    }
    const size_t inside = strlen(folder->real);
    const bool at_root = inside == 1; /* "/" */
    if (!pw_str_begins(pw_str_from(real), pw_str_from(folder->real)) ||
        (!at_root && real[inside] != '/')) {
        return PW_FAIL(error, PW_FORBIDDEN, "lies outside the agent's folder");
    }
    return read_file(real, folder->arena, ret, error);
}

pw_status pw_configuration_read(pw_str path, pw_arena *arena, pw_str *ret, pw_error *error)
{
    pw_str name;
    char real[PW_AGENT_PATH_MAX];
    if (path.len == 0 || memchr(path.ptr, 0, path.len) != NULL) {
        return PW_FAIL(error, PW_INVALID, "expected the name of a file");
    }
    if (pw_arena_dup(arena, path, &name) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    return realpath(name.ptr, real) ? read_file(real, arena, ret, error) : say(errno, error);
}

bool pw_folder_has(pw_str directory, pw_str name, pw_str under)
{
    char path[2 * PW_AGENT_PATH_MAX];
    if (directory.len + name.len + under.len + 3 > sizeof path) {
        return false;
    }
    char *at = path;
    const pw_str parts[] = {directory, name, under};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].len > 0) {
            memcpy(at, parts[i].ptr, parts[i].len);
            at += parts[i].len;
            *at++ = '/';
        }
    }
    at[-1] = '\0';
    return access(path, F_OK) == 0;
}
