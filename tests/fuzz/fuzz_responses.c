/* Fuzzes the OpenAI Responses codec with the bytes of an answer. */
#include "codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pw_fuzz_codec(&pw_provider_openai, "{}", data, size);
    return 0;
}
