/* What calls from outside share: may it be called here, is that a session's name, one admission
 * until it is told. Any thread. */
#ifndef PW_RUNTIME_ADMIT_H
#define PW_RUNTIME_ADMIT_H

#include "runtime/runtime.h"

/* PW_MISUSE: no handle, read-only and `writes`, or on a thread that it would wait for. */
pw_status pw_call_allowed(pawl *, bool writes, pw_error *);
pw_status pw_session_name_check(pw_str, pw_error *);
/* Sends one admission, or another write that may be made twice, until the store has answered it
 * (A2). PW_UNAVAILABLE after 30 s; otherwise what the store said. */
pw_status pw_admit_op(pawl *, pw_op *, pw_error *);

void pw_pause_ms(int64_t ms); /* never on the loop */

#endif
