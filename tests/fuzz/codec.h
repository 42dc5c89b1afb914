/* What the fuzz targets of codecs share: an answer's bytes through a codec, and its reply back. */
#ifndef PW_FUZZ_CODEC_H
#define PW_FUZZ_CODEC_H

#include "model/model.h"

/* The first byte chooses how the rest is cut. `options` is the model's, as JSON. Traps where an
 * oracle is broken. */
void pw_fuzz_codec(const pw_provider *, const char *options, const uint8_t *data, size_t size);

#endif
