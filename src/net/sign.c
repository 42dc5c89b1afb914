/* Standard Webhooks' signature (sign.h). Must never show a secret. */
#include "net/sign.h"

#include "base/base64.h"
#include "base/format.h"
#include "base/hmac.h"

#define KEY_LEAST 16
#define KEY_MOST 64

pw_status pw_sign_key(pw_str secret, pw_arena *arena, pw_str *ret_key, pw_error *error)
{
    const pw_str prefix = PW_STR("whsec_");
    if (pw_str_begins(secret, prefix)) {
        secret = pw_str_slice(secret, prefix.len, secret.len);
    }
    const pw_status status = pw_base64_decode(arena, secret, ret_key);
    if (status == PW_NOMEM) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    if (status != PW_OK || ret_key->len < KEY_LEAST || ret_key->len > KEY_MOST) {
        return PW_FAIL(error, PW_INVALID,
                       "expected a signing secret: whsec_ and the base64 of %d to %d bytes",
                       KEY_LEAST, KEY_MOST);
    }
    return PW_OK;
}

pw_signature pw_sign(pw_str key, pw_str id, int64_t seconds, pw_str body)
{
    char number[24];
    const size_t digits = pw_format(number, sizeof number, "%lld", (long long)seconds);
    pw_hmac hmac;
    pw_hmac_begin(&hmac, key);
    pw_hmac_add(&hmac, id);
    pw_hmac_add(&hmac, PW_STR("."));
    pw_hmac_add(&hmac, (pw_str){number, digits});
    pw_hmac_add(&hmac, PW_STR("."));
    pw_hmac_add(&hmac, body);
    const pw_hash hash = pw_hmac_end(&hmac);
    pw_signature ret = {.text = "v1,"};
    pw_base64_text((pw_str){(const char *)hash.bytes, sizeof hash.bytes}, ret.text + 3);
    return ret;
}
