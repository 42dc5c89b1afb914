/*
 * The signature of Standard Webhooks (v1, symmetric): who gets a call can tell that it came from
 * here, unaltered and not long ago. Pure.
 */
#ifndef PW_NET_SIGN_H
#define PW_NET_SIGN_H

#include "base/arena.h"

/* "whsec_" and base64 of 16 to 64 bytes, or the base64 alone. PW_INVALID: the error does not show
 * it. */
pw_status pw_sign_key(pw_str secret, pw_arena *, pw_str *ret_key, pw_error *);

typedef struct pw_signature {
    char text[48]; /* "v1," and base64 of the HMAC-SHA-256, and a NUL */
} pw_signature;

/* Of `id.seconds.body`; the three go out as webhook-id, webhook-timestamp and the body. */
pw_signature pw_sign(pw_str key, pw_str id, int64_t seconds, pw_str body);

#endif
