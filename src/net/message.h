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

#endif
