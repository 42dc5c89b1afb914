/*
 * A URL that the engine may be told to call, read strictly: less than every other reader of URLs
 * takes, so that none of them can find another host in it than this one does. Pure.
 */
#ifndef PW_NET_URL_H
#define PW_NET_URL_H

#include "base/status.h"
#include "base/str.h"

#define PW_URL_MAX 2048

typedef struct pw_url {
    bool secure;  /* https */
    bool literal; /* an IPv6 address; `host` has no brackets */
    pw_str host;
    uint16_t port;
} pw_url;

/* http(s)://HOST[:PORT][/PATH][?QUERY] of printable ASCII. PW_INVALID: the error says what is
 * wrong, without the URL: neither http nor https, no host, credentials, a fragment, a bad port, a
 * character. PW_TOO_LARGE: over PW_URL_MAX bytes. */
pw_status pw_url_parse(pw_str text, pw_url *ret, pw_error *);

#endif
