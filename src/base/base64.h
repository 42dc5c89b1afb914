/* Base64 of RFC 4648, section 4: with padding, without line breaks. */
#ifndef PW_BASE_BASE64_H
#define PW_BASE_BASE64_H

#include "base/buffer.h"

#define PW_BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4 + 1) /* of the text and its NUL */

void pw_base64_text(pw_str bytes, char *to); /* writes PW_BASE64_SIZE(bytes.len) */
pw_status pw_base64_add(pw_buffer *, pw_str bytes);
/* Strict: whole groups, padding only at the end, no bits lost. PW_INVALID, PW_NOMEM. */
pw_status pw_base64_decode(pw_arena *, pw_str text, pw_str *ret);

#endif
