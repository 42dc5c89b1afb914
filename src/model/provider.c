/* The table of providers, and the small things every provider shares: render caches, transport
 * failures. */
#include "model/model.h"

#define RENDER_MAX_BYTES (256u << 20) /* a provider's own limit on a request is far below */

static const pw_provider *const providers[] = {&pw_provider_anthropic, &pw_provider_openai,
                                               &pw_provider_chat, &pw_provider_scripted};
#define PROVIDER_COUNT (sizeof providers / sizeof providers[0])

const pw_provider *pw_provider_find(pw_str name)
{
    for (size_t i = 0; i < PROVIDER_COUNT; i++) {
        if (pw_str_is(name, providers[i]->name)) {
            return providers[i];
        }
    }
    return NULL;
}

const char *const *pw_provider_names(void)
{
    static const char *const names[] = {"anthropic", "openai", "openai-chat", "scripted", NULL};
    return names;
}

pw_failure pw_transport_failure(const char *code, pw_str message)
{
    return (pw_failure){.failure_class = PW_FAILURE_RETRY,
                        .code = pw_str_from(code),
                        .message = message,
                        .usage = PW_USAGE_UNKNOWN};
}

void pw_render_init(pw_render *render, const pw_allocator *allocator)
{
    *render = (pw_render){.allocator = allocator};
    pw_buffer_init(&render->bytes, allocator, RENDER_MAX_BYTES);
}

void pw_render_free(pw_render *render)
{
    if (!render || !render->allocator) {
        return;
    }
    const pw_allocator *allocator = render->allocator;
    pw_buffer_free(&render->bytes);
    if (render->offsets) {
        allocator->resize(allocator->ctx, render->offsets, render->capacity * sizeof(size_t), 0);
    }
    if (render->key.ptr) {
        allocator->resize(allocator->ctx, (void *)(uintptr_t)render->key.ptr, render->key.len + 1,
                          0);
    }
    *render = (pw_render){.allocator = NULL};
}
