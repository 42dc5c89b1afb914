/*
 * The outbound guard: every special-purpose network, both its ends and what lies just beyond, in
 * every dress that IPv6 has for IPv4; the allow-list; URLs.
 */
#include "../support/failing_allocator.h"
#include "../support/holds.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/un.h>

#include "base/heap.h"
#include "net/guard.h"
#include "net/url.h"

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
} address;

static address address_of(const char *text)
{
    address a = {0};
    if (strchr(text, ':')) {
        a.v6.sin6_family = AF_INET6;
        assert_int_equal(inet_pton(AF_INET6, text, &a.v6.sin6_addr), 1);
    } else {
        a.v4.sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, text, &a.v4.sin_addr), 1);
    }
    return a;
}

static bool allowed(const char *text, const pw_networks *allow)
{
    const address a = address_of(text);
    return pw_guard_allows(&a.any, allow);
}

static void expect(const char *text, bool want)
{
    if (allowed(text, NULL) != want) {
        fail_msg("%s: expected %s", text, want ? "allowed" : "refused");
    }
}

/* first and last of each network, then the neighbours that are public (NULL: not public either) */
static const struct {
    const char *first, *last, *below, *above;
} v4_networks[] = {
    {"0.0.0.0", "0.255.255.255", NULL, "1.0.0.0"},
    {"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
    {"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
    {"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
    {"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
    {"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
    {"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
    {"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
    {"192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"},
    {"192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"},
    {"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
    {"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
    {"192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"},
    {"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
    {"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
    {"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
    {"224.0.0.0", "239.255.255.255", "223.255.255.255", NULL},
    {"240.0.0.0", "255.255.255.255", NULL, NULL},
};

static void expect_v4(const char *v4, bool want)
{
    char text[64];
    expect(v4, want);
    snprintf(text, sizeof text, "::ffff:%s", v4); /* mapped: the same */
    expect(text, want);
    snprintf(text, sizeof text, "64:ff9b::%s", v4); /* NAT64: as what it leads to */
    expect(text, want);
    snprintf(text, sizeof text, "::%s", v4); /* compatible: never */
    expect(text, false);
    snprintf(text, sizeof text, "64:ff9b:1::%s", v4); /* local NAT64: never */
    expect(text, false);
    const address a = address_of(v4);
    const uint8_t *b = (const uint8_t *)&a.v4.sin_addr;
    snprintf(text, sizeof text, "2002:%02x%02x:%02x%02x::1", b[0], b[1], b[2], b[3]); /* 6to4 */
    expect(text, false);
    snprintf(text, sizeof text, "2001:0:%02x%02x:%02x%02x::1", b[0], b[1], b[2], b[3]); /* Teredo */
    expect(text, false);
}

static void test_every_special_ipv4_network_is_refused_in_every_dress(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof v4_networks / sizeof v4_networks[0]; i++) {
        expect_v4(v4_networks[i].first, false);
        expect_v4(v4_networks[i].last, false);
        if (v4_networks[i].below) {
            expect_v4(v4_networks[i].below, true);
        }
        if (v4_networks[i].above) {
            expect_v4(v4_networks[i].above, true);
        }
    }
    expect_v4("169.254.169.254", false); /* where clouds keep credentials */
    expect_v4("8.8.8.8", true);
}

static void test_ipv6_is_refused_but_for_global_unicast(void **state)
{
    (void)state;
    static const char *const refused[] = {"::",
                                          "::1",
                                          "::2",
                                          "1::1",
                                          "100::1",
                                          "64:ff9a::1",
                                          "64:ff9b:0:0:0:1::1",
                                          "400::1",
                                          "1fff:ffff::1",
                                          "4000::1",
                                          "5f00::1",
                                          "8000::1",
                                          "fc00::1",
                                          "fdff::1",
                                          "fe00::1",
                                          "fe80::1",
                                          "febf::1",
                                          "fec0::1",
                                          "ff02::1",
                                          "ff0e::1",
                                          "ffff::1",
                                          "2001::1",
                                          "2001:1ff::1",
                                          "2001:2::1",
                                          "2001:10::1",
                                          "2001:20::1",
                                          "2001:db8::1",
                                          "2001:db8:ffff::1",
                                          "2002::1",
                                          "2620:4f:8000::1",
                                          "3ffe::1",
                                          "3fff::1",
                                          "3fff:fff::1",
                                          "::ffff:0:127.0.0.1"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        expect(refused[i], false);
    }
    static const char *const fine[] = {"2000::1",      "2001:200::1", "2001:4860:4860::8888",
                                       "2001:db7::1",  "2001:db9::1", "2003::1",
                                       "2606:4700::1", "2a00::1",     "3fff:1000::1"};
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        expect(fine[i], true);
    }
}

static void test_other_families_are_refused(void **state)
{
    (void)state;
    const struct sockaddr_un here = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    assert_false(pw_guard_allows((const struct sockaddr *)&here, NULL));
}

static pw_networks parse(const char *text, pw_arena *arena)
{
    pw_networks ret = {0};
    pw_error error = {0};
    if (pw_networks_parse("outbound_allow", pw_str_from(text), arena, &ret, &error) != PW_OK) {
        fail_msg("%s", error.message);
    }
    return ret;
}

static void test_the_allow_list_lets_pass_what_it_names_and_no_more(void **state)
{
    (void)state;
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    pw_networks allow = parse(" 127.0.0.1 ,10.1.0.0/16, fd00::/8,192.168.1.128/25", &arena);
    assert_int_equal(allow.count, 4);
    static const char *const pass[] = {"127.0.0.1",     "::ffff:127.0.0.1", "64:ff9b::127.0.0.1",
                                       "10.1.0.0",      "10.1.255.255",     "fd12::1",
                                       "192.168.1.128", "192.168.1.255",    "8.8.8.8"};
    static const char *const stop[] = {"127.0.0.2",     "10.0.255.255", "10.2.0.0",
                                       "fc00::1",       "::1",          "::127.0.0.1",
                                       "192.168.1.127", "192.168.2.0",  "2002:7f00:1::1"};
    for (size_t i = 0; i < sizeof pass / sizeof pass[0]; i++) {
        assert_true(allowed(pass[i], &allow));
        assert_false(allowed(stop[i], &allow));
    }
    allow = parse("0.0.0.0/0", &arena);
    assert_true(allowed("127.0.0.1", &allow));
    assert_false(allowed("::1", &allow));
    allow = parse("::/0", &arena);
    assert_true(allowed("127.0.0.1", &allow));
    assert_true(allowed("fe80::1", &allow));
    assert_int_equal(parse("", &arena).count, 0);
    assert_int_equal(parse("  ", &arena).count, 0);
    pw_arena_free(&arena);
}

static void test_a_bad_allow_list_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"localhost", "\"localhost\" is not an address"},
        {"127.0.0.1,,::1", "\"\" is not an address"},
        {"127.1", "is not an address"},
        {"0x7f.0.0.1", "is not an address"},
        {"010.0.0.1/8", "is not an address"},
        {"[::1]", "is not an address"},
        {"fe80::1%eth0", "is not an address"},
        {"10.0.0.0/33", "not 0 to 32"},
        {"10.0.0.0/", "not 0 to 32"},
        {"10.0.0.0/-1", "not 0 to 32"},
        {"fd00::/129", "not 0 to 128"},
        {"fd00::/18446744073709551617", "not 0 to 128"},
        {"10.0.0.1/8", "has bits set beyond its length"},
        {"fd00::1/8", "has bits set beyond its length"},
    };
    pw_arena arena;
    pw_arena_init(&arena, &pw_heap, 0, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pw_networks ret = {0};
        pw_error error = {0};
        assert_int_equal(
            pw_networks_parse("outbound_allow", pw_str_from(bad[i].text), &arena, &ret, &error),
            PW_INVALID);
        assert_holds(error.message, "outbound_allow: ");
        assert_holds(error.message, bad[i].says);
        assert_null(ret.list);
    }
    char many[PW_NETWORKS_MAX * 10 + 20] = "10.0.0.1";
    for (size_t i = 0; i < PW_NETWORKS_MAX; i++) {
        strcat(many, ",10.0.0.1");
    }
    pw_networks ret = {0};
    pw_error error = {0};
    assert_int_equal(pw_networks_parse("outbound_allow", pw_str_from(many), &arena, &ret, &error),
                     PW_TOO_LARGE);
    assert_holds(error.message, "at most 256");
    pw_arena_free(&arena);
    pw_test_allocator t;
    pw_test_allocator_init(&t);
    pw_test_allocator_fail(&t, 1, true);
    pw_arena_init(&arena, &t.allocator, 0, 0);
    assert_int_equal(pw_networks_parse("x", PW_STR("::1"), &arena, &ret, NULL), PW_NOMEM);
}

/* Rebinding's cousin: a name with a good and a bad address is refused whichever stands first. */
static void test_one_bad_address_spoils_the_answer(void **state)
{
    (void)state;
    address good = address_of("8.8.8.8"), bad = address_of("10.0.0.1");
    struct addrinfo second = {.ai_addr = &bad.any}, first = {.ai_addr = &good.any};
    assert_true(pw_guard_allows_all(&first, NULL));
    first.ai_next = &second;
    assert_false(pw_guard_allows_all(&first, NULL));
    second.ai_next = &first;
    first.ai_next = NULL;
    assert_false(pw_guard_allows_all(&second, NULL));
    assert_false(pw_guard_allows_all(NULL, NULL));
}

static void test_urls(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
        bool secure, literal;
    } good[] = {
        {"http://a", "a", 80, false, false},
        {"https://a.example/x?y=1", "a.example", 443, true, false},
        {"https://a.example:8443", "a.example", 8443, true, false},
        {"http://127.0.0.1:1/", "127.0.0.1", 1, false, false},
        {"http://2130706433/", "2130706433", 80, false, false},
        {"http://0x7f.1?q", "0x7f.1", 80, false, false},
        {"http://[::1]:8080/x", "::1", 8080, false, true},
        {"http://[::ffff:127.0.0.1]", "::ffff:127.0.0.1", 80, false, true},
        {"http://a/x@y:z?u=http://b", "a", 80, false, false},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        pw_url url = {0};
        assert_int_equal(pw_url_parse(pw_str_from(good[i].text), &url, NULL), PW_OK);
        assert_true(pw_str_is(url.host, good[i].host));
        assert_int_equal(url.port, good[i].port);
        assert_int_equal(url.secure, good[i].secure);
        assert_int_equal(url.literal, good[i].literal);
    }
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "http://"},
        {"ftp://a/", "http://"},
        {"file:///etc/passwd", "http://"},
        {"HTTP://a/", "http://"},
        {"//a/", "http://"},
        {"http://", "host"},
        {"http:///x", "host"},
        {"http://?x", "host"},
        {"http://.", "host"},
        {"http://a..b/", "host"},
        {"http://a./", "host"},
        {"http://[::1/", "host"},
        {"http://[fe80::1%25eth0]/", "host"},
        {"http://[]/", "host"},
        {"http://[v1.x]/", "host"},
        {"http://a%2eb/", "host"},
        {"http://m\xc3\xbcnchen/", "byte 9"},
        {"http://a b/", "byte 9"},
        {"http://a\\@b/", "byte 9"},
        {"http://a/\n", "byte 10"},
        {"http://user:secret@a/", "credentials"},
        {"http://secret@a/", "credentials"},
        {"http://a/#x", "fragment"},
        {"http://a:0/", "port"},
        {"http://a:65536/", "port"},
        {"http://a:/", "port"},
        {"http://a:8x/", "port"},
        {"http://[::1]8/", "port"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pw_url url = {0};
        pw_error error = {0};
        assert_int_equal(pw_url_parse(pw_str_from(bad[i].text), &url, &error), PW_INVALID);
        assert_holds(error.message, bad[i].says);
        assert_lacks(error.message, "secret");
    }
    char longest[PW_URL_MAX + 2];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "http://a/", 9);
    pw_url url = {0};
    assert_int_equal(pw_url_parse(pw_str_from(longest), &url, NULL), PW_TOO_LARGE);
    longest[PW_URL_MAX] = '\0';
    assert_int_equal(pw_url_parse(pw_str_from(longest), &url, NULL), PW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_special_ipv4_network_is_refused_in_every_dress),
        cmocka_unit_test(test_ipv6_is_refused_but_for_global_unicast),
        cmocka_unit_test(test_other_families_are_refused),
        cmocka_unit_test(test_the_allow_list_lets_pass_what_it_names_and_no_more),
        cmocka_unit_test(test_a_bad_allow_list_is_named),
        cmocka_unit_test(test_one_bad_address_spoils_the_answer),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
