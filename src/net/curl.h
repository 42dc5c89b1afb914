/*
 * libcurl, loaded when it is first needed: the few functions of it that are called here, by name
 * without `curl_`, with the types of its own header. Its constants and types come from that header
 * too. Any thread may load.
 */
#ifndef PW_NET_CURL_H
#define PW_NET_CURL_H

#include <curl/curl.h>

#include "base/status.h"

#define PW_CURL_FUNCTIONS(X)                                                                       \
    X(global_init)                                                                                 \
    X(global_cleanup)                                                                              \
    X(version_info)                                                                                \
    X(easy_init)                                                                                   \
    X(easy_setopt)                                                                                 \
    X(easy_getinfo)                                                                                \
    X(easy_strerror)                                                                               \
    X(easy_cleanup)                                                                                \
    X(multi_init)                                                                                  \
    X(multi_setopt)                                                                                \
    X(multi_add_handle)                                                                            \
    X(multi_remove_handle)                                                                         \
    X(multi_info_read)                                                                             \
    X(multi_socket_action)                                                                         \
    X(multi_assign)                                                                                \
    X(multi_cleanup)                                                                               \
    X(slist_append)                                                                                \
    X(slist_free_all)

typedef struct pw_curl {
#define PW_CURL_MEMBER(name) __typeof__(curl_##name) *name;
    PW_CURL_FUNCTIONS(PW_CURL_MEMBER)
#undef PW_CURL_MEMBER
} pw_curl;

/* The same table for the whole process, for ever. NULL: PW_UNAVAILABLE, the error says what is
 * missing; asking again answers the same. */
const pw_curl *pw_curl_load(pw_error *);

#endif
