/*
 * What only the environment or a file of its own holds: keys, signing secrets. Read anew at every
 * use, so that a rotated one needs no restart, and kept only in the arena given (N3).
 */
#ifndef PW_NET_SECRET_H
#define PW_NET_SECRET_H

#include "base/arena.h"

#define PW_SECRET_MAX 8192

/* Without white space around it. PW_NOT_FOUND: not set, or empty. */
pw_status pw_secret_env(pw_str name, pw_arena *, pw_str *ret, pw_error *);
/* A small file's content likewise, looked for from the program's working directory. PW_NOT_FOUND:
 * it cannot be read, is empty or over PW_SECRET_MAX. */
pw_status pw_secret_file(pw_str path, pw_arena *, pw_str *ret, pw_error *);

#endif
