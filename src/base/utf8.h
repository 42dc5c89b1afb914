/*
 * UTF-8 (RFC 3629): validating, mending and cutting text. Overlong forms, surrogates and values
 * over U+10FFFF are invalid. Rule A8: all text is made valid on the way in.
 */
#ifndef PW_BASE_UTF8_H
#define PW_BASE_UTF8_H

#include "base/buffer.h"

bool pw_utf8_valid(pw_str);          /* a NUL byte is valid here */
size_t pw_utf8_valid_prefix(pw_str); /* length of the longest valid prefix */
bool pw_utf8_clean(pw_str);          /* valid and without NUL: nothing to mend */
pw_status
pw_utf8_mend(pw_buffer *,
             pw_str); /* appends; each maximal ill-formed part and each NUL becomes U+FFFD */
size_t pw_utf8_cut(pw_str, size_t limit); /* the greatest length <= limit that cuts no character;
                                             one that the string's own end cuts is dropped too */
bool pw_utf8_has_control(pw_str);         /* U+0000-001F, U+007F-009F: refused in ids (A8) */
size_t pw_utf8_encode(uint32_t code_point,
                      char to[4]); /* 1-4; a surrogate or too large one is written as U+FFFD */

#endif
