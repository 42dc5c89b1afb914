/* The tests' small server (small_server.h). */
#include "small_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MAX ((size_t)64 << 10)

typedef struct connection {
    small_server *server;
    int fd;
} connection;

void small_server_put(int fd, const char *text)
{
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

void small_server_reset(int fd)
{
    const struct linger hard = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

void small_server_wait_gone(int fd)
{
    char byte;
    while (recv(fd, &byte, 1, 0) > 0) {
    }
}

/* False: the client is gone before all of it came. */
static bool take(int fd, char *request)
{
    size_t used = 0, wanted = 0;
    const char *end = NULL;
    while (end == NULL || used < wanted) {
        const ssize_t got = recv(fd, request + used, REQUEST_MAX - used, 0);
        if (got <= 0) {
            return false;
        }
        used += (size_t)got;
        request[used] = '\0';
        if (end == NULL && (end = strstr(request, "\r\n\r\n")) != NULL) {
            const char *length = strcasestr(request, "content-length:");
            wanted = (size_t)(end + 4 - request) + (length ? strtoul(length + 15, NULL, 10) : 0);
        }
    }
    return true;
}

static void *serve_one(void *arg)
{
    connection *c = arg;
    char *request = malloc(REQUEST_MAX + 1);
    if (request != NULL && take(c->fd, request)) {
        c->server->respond(c->fd, request);
        atomic_fetch_add(&c->server->answered, 1);
    }
    free(request);
    (void)close(c->fd);
    free(c);
    return NULL;
}

static void *serve(void *arg)
{
    small_server *server = arg;
    for (;;) {
        connection *c = malloc(sizeof *c);
        if (c == NULL) {
            return NULL;
        }
        *c = (connection){server, accept(server->listener, NULL, NULL)};
        pthread_t thread;
        if (c->fd < 0) {
            free(c);
            return NULL;
        }
        atomic_fetch_add(&server->accepted, 1);
        if (pthread_create(&thread, NULL, serve_one, c) != 0 || pthread_detach(thread) != 0) {
            abort();
        }
    }
}

bool small_server_start(small_server *server, void (*respond)(int fd, const char *request))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    pthread_t thread;
    server->respond = respond;
    server->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(server->listener, 128) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, serve, server) != 0) {
        return false;
    }
    server->port = ntohs(address.sin_port);
    return pthread_detach(thread) == 0;
}
