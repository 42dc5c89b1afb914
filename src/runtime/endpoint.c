/* A model's place and key; see endpoint.h. */
#include "runtime/endpoint.h"

#include <stdlib.h>

#include "net/secret.h"
#include "runtime/runtime.h"

pw_status pw_endpoint_key(const pw_provider *provider, const pw_json *model, pw_arena *arena,
                          pw_endpoint *endpoint, pw_error *error)
{
    pw_str file = pw_json_text(pw_json_get(model, "api_key_file"));
    pw_str variable = pw_json_text(pw_json_get(model, "api_key_env"));
    if (file.len > 0) {
        return pw_secret_file(file, arena, &endpoint->key, error);
    }
    bool named = variable.len > 0;
    if (!named && provider->default_key_env) {
        variable = pw_str_from(provider->default_key_env);
    }
    pw_str name = PW_STR_NONE;
    PW_TRY(pw_arena_dup(arena, variable, &name));
    const char *value = name.len > 0 ? getenv(name.ptr) : NULL;
    PW_TRY(pw_arena_dup(arena, pw_str_trim(pw_str_from(value)), &endpoint->key));
    bool own_server = pw_json_get(model, "base_url") != NULL; /* perhaps one that asks for no key */
    if (endpoint->key.len == 0 && name.len > 0 && (named || !own_server)) {
        return PW_FAIL(error, PW_NOT_FOUND, "no key: %s is not set", name.ptr);
    }
    return PW_OK;
}

pw_status pw_endpoint_place(const pw_provider *provider, const pw_json *model, pw_arena *arena,
                            pw_endpoint *ret)
{
    pw_str base = pw_json_text(pw_json_get(model, "base_url"));
    if (base.len == 0) {
        base = pw_str_from(provider->default_base_url);
    }
    while (base.len > 0 && base.ptr[base.len - 1] == '/') {
        base.len--;
    }
    ret->now_ms = pw_now_ms();
    return pw_arena_dup(arena, base, &ret->base_url);
}
