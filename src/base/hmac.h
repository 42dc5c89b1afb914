/* HMAC-SHA-256 (RFC 2104), for signatures that others verify. Freestanding. */
#ifndef PW_BASE_HMAC_H
#define PW_BASE_HMAC_H

#include "base/sha256.h"

typedef struct pw_hmac {
    pw_sha256 inner, outer;
} pw_hmac;

void pw_hmac_begin(pw_hmac *, pw_str key);
void pw_hmac_add(pw_hmac *, pw_str);
pw_hash pw_hmac_end(pw_hmac *);

#endif
