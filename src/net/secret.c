/* Reads a secret (secret.h). Errors name the variable or the file, never what it holds. */
#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

pw_status pw_secret_env(pw_str name, pw_arena *arena, pw_str *ret, pw_error *error)
{
    pw_str variable, value;
    if (pw_arena_dup(arena, name, &variable) != PW_OK ||
        pw_arena_dup(arena, pw_str_trim(pw_str_from(getenv(variable.ptr))), &value) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (value.len == 0) {
        return PW_FAIL(error, PW_NOT_FOUND, "%s is not set", variable.ptr);
    }
    *ret = value;
    return PW_OK;
}

static bool read_small(const char *path, char *bytes, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    size_t len = 0;
    ssize_t got = 0;
    while (len < PW_SECRET_MAX && ((got = read(fd, bytes + len, PW_SECRET_MAX - len)) > 0 ||
                                   (got < 0 && errno == EINTR))) {
        len += got > 0 ? (size_t)got : 0;
    }
    *ret_len = len;
    return close(fd) == 0 && got == 0;
}

pw_status pw_secret_file(pw_str path, pw_arena *arena, pw_str *ret, pw_error *error)
{
    pw_str name;
    char *bytes = pw_arena_bytes(arena, PW_SECRET_MAX);
    if (!bytes || pw_arena_dup(arena, path, &name) != PW_OK) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    size_t len = 0;
    const bool good = read_small(name.ptr, bytes, &len);
    const pw_str value = pw_str_trim((pw_str){bytes, len});
    if (!good || value.len == 0) {
        return PW_FAIL(error, PW_NOT_FOUND, "the file %s cannot be read or is empty", name.ptr);
    }
    *ret = value;
    return PW_OK;
}
