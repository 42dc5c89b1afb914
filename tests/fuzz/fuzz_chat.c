/* Fuzzes the Chat Completions codec with the bytes of an answer; the first byte also chooses to
 * whom the reply goes back. */
#include "codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const options[] = {"{}", "{\"dialect\":\"mistral\"}",
                                          "{\"dialect\":\"deepseek\"}",
                                          "{\"dialect\":\"perplexity\"}"};
    pw_fuzz_codec(&pw_provider_chat, options[size > 0 ? data[0] / 64 : 0], data, size);
    return 0;
}
