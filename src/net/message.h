/*
 * What a request over HTTP is, without who carries it: plain data, so that codecs that render
 * requests stay free of I/O and compile freestanding.
 */
#ifndef PW_NET_MESSAGE_H
#define PW_NET_MESSAGE_H

#include "base/str.h"

typedef struct pw_header {
    pw_str name, value;
} pw_header;

typedef struct pw_http_request {
    pw_str method, url;
    const pw_header *headers;
    size_t header_count;
    pw_str body[3]; /* sent in a row: what comes before, the bulk (borrowed), what comes after */
} pw_http_request;

/* The first header of that name, without space around it, or empty; `name` is in lower case. */
static inline pw_str pw_header_get(const pw_header *headers, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        const pw_str own = headers[i].name;
        size_t at = 0;
        while (at < own.len && name[at] != '\0' &&
               (own.ptr[at] >= 'A' && own.ptr[at] <= 'Z' ? own.ptr[at] + 32 : own.ptr[at]) ==
                   name[at]) {
            at++;
        }
        if (at == own.len && name[at] == '\0') {
            return pw_str_trim(headers[i].value);
        }
    }
    return PW_STR("");
}

#endif
