/* Signatures against vectors from outside: RFC 4231 (HMAC), RFC 4648 (base64), Standard Webhooks.
 */
#include "../support/failing_allocator.h"
#include "../support/holds.h"

#include <stdlib.h>

#include "base/base64.h"
#include "base/heap.h"
#include "base/hmac.h"
#include "net/secret.h"
#include "net/sign.h"

static void test_hmac_is_as_rfc_4231_says(void **state)
{
    (void)state;
    char twenty[20], aa[131], dd[50];
    memset(twenty, 0x0b, sizeof twenty);
    memset(aa, 0xaa, sizeof aa);
    memset(dd, 0xdd, sizeof dd);
    const struct {
        pw_str key, data;
        const char *hex;
    } vectors[] = {
        {{twenty, 20},
         PW_STR("Hi There"),
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {PW_STR("Jefe"), PW_STR("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {{aa, 20}, {dd, 50}, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {{aa, 131},
         PW_STR("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        pw_hmac hmac;
        pw_hmac_begin(&hmac, vectors[i].key);
        for (size_t k = 0; k < vectors[i].data.len; k += 7) { /* in pieces */
            const size_t left = vectors[i].data.len - k;
            pw_hmac_add(&hmac, pw_str_slice(vectors[i].data, k, k + (left < 7 ? left : 7)));
        }
        const pw_hash hash = pw_hmac_end(&hmac);
        assert_string_equal(pw_hash_to_hex(&hash).text, vectors[i].hex);
    }
}

static void test_base64_is_as_rfc_4648_says(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfd", "//79"}};
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[32];
        pw_str back;
        pw_base64_text(pw_str_from(pairs[i][0]), text);
        assert_string_equal(text, pairs[i][1]);
        assert_int_equal(pw_base64_decode(&arena, pw_str_from(pairs[i][1]), &back), PW_OK);
        assert_true(pw_str_is(back, pairs[i][0]));
    }
    static const char *const bad[] = {"Zg",   "Zg=",  "Zg===", "=Zg=", "Z===", "Zg=a",
                                      "Zm9-", "Zm 9", "Zh==",  "Zm9=", "====", "Zm9v\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pw_str back;
        assert_int_equal(pw_base64_decode(&arena, pw_str_from(bad[i]), &back), PW_INVALID);
    }
    char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(i * 7);
    }
    for (size_t size = 0; size <= sizeof bytes; size += 37) {
        pw_buffer buffer;
        pw_str back;
        pw_buffer_init_arena(&buffer, &arena, 4000);
        assert_int_equal(pw_base64_add(&buffer, (pw_str){bytes, size}), PW_OK);
        assert_int_equal(pw_base64_decode(&arena, pw_buffer_str(&buffer), &back), PW_OK);
        assert_true(pw_str_equal(back, (pw_str){bytes, size}));
    }
    pw_arena_free(&arena);
}

static void test_a_signature_is_as_standard_webhooks_says(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str key;
    assert_int_equal(
        pw_sign_key(PW_STR("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), &arena, &key, NULL), PW_OK);
    const pw_signature signature = pw_sign(key, PW_STR("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                                           PW_STR("{\"test\": 2432232314}"));
    assert_string_equal(signature.text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    static const char *const bad[] = {"", "whsec_", "whsec_c2hvcnQ=", "whsec_not-base64!",
                                      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pw_error error = {0};
        assert_int_equal(pw_sign_key(pw_str_from(bad[i]), &arena, &key, &error), PW_INVALID);
        assert_holds(error.message, "whsec_ and the base64 of 16 to 64 bytes");
        assert_lacks(error.message, "MfKQ");
        assert_lacks(error.message, "not-base64");
    }
    pw_arena_free(&arena);
}

static void test_secrets_come_from_where_they_are_named(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_str value;
    pw_error error = {0};
    setenv("PAWL_TEST_SECRET", " canary \n", 1);
    assert_int_equal(pw_secret_env(PW_STR("PAWL_TEST_SECRET"), &arena, &value, &error), PW_OK);
    assert_true(pw_str_is(value, "canary"));
    setenv("PAWL_TEST_SECRET", " ", 1);
    assert_int_equal(pw_secret_env(PW_STR("PAWL_TEST_SECRET"), &arena, &value, &error),
                     PW_NOT_FOUND);
    assert_string_equal(error.message, "PAWL_TEST_SECRET is not set");
    assert_int_equal(pw_secret_file(PW_STR("/none/such"), &arena, &value, &error), PW_NOT_FOUND);
    assert_holds(error.message, "/none/such");
    assert_int_equal(pw_secret_file(PW_STR("/"), &arena, &value, &error), PW_NOT_FOUND);
    assert_int_equal(pw_secret_file(PW_STR("/dev/zero"), &arena, &value, &error), PW_NOT_FOUND);
    pw_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hmac_is_as_rfc_4231_says),
        cmocka_unit_test(test_base64_is_as_rfc_4648_says),
        cmocka_unit_test(test_a_signature_is_as_standard_webhooks_says),
        cmocka_unit_test(test_secrets_come_from_where_they_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
