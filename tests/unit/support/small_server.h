/*
 * An HTTP server for tests on 127.0.0.1: a thread a connection, one request a connection, read
 * whole, then answered by what the test says.
 */
#ifndef PW_TEST_SMALL_SERVER_H
#define PW_TEST_SMALL_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct small_server {
    int listener, port;
    atomic_int accepted, answered;
    /* `request`: head and body, NUL-terminated, at most 64 KiB. The connection is closed after. */
    void (*respond)(int fd, const char *request);
} small_server;

/* True: it listens, for as long as the program runs. */
bool small_server_start(small_server *, void (*respond)(int fd, const char *request));
void small_server_put(int fd, const char *text);
void small_server_reset(int fd);     /* the close to come is a reset */
void small_server_wait_gone(int fd); /* until the client has gone */

#endif
