/* A model's place and key; see endpoint.h. */
#include "runtime/endpoint.h"

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
    if (variable.len == 0) {
        return PW_OK;
    }
    pw_error why = {0};
    pw_status status = pw_secret_env(variable, arena, &endpoint->key, &why);
    bool own_server = pw_json_get(model, "base_url") != NULL; /* perhaps one that asks for no key */
    if (status == PW_NOT_FOUND && !named && own_server) {
        return PW_OK;
    }
    return status == PW_OK ? PW_OK : PW_FAIL(error, status, "no key: %s", why.message);
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
