/*
 * Where a model is asked, and as whom. Any thread. A key lives in the arena that is given, for one
 * call, and nowhere else (N3); it is read anew each time, so that a rotated one needs no restart.
 */
#ifndef PW_RUNTIME_ENDPOINT_H
#define PW_RUNTIME_ENDPOINT_H

#include "model/model.h"

/* The base URL and the time, without a key. */
pw_status pw_endpoint_place(const pw_provider *, const pw_json *model, pw_arena *,
                            pw_endpoint *ret);
/* PW_NOT_FOUND: the error says which variable or file has no key. */
pw_status pw_endpoint_key(const pw_provider *, const pw_json *model, pw_arena *, pw_endpoint *,
                          pw_error *);

#endif
