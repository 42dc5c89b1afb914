/*
 * The outbound guard (guard.h): tables of networks and one comparison. Must never let pass what no
 * table knows: IPv6 is allowed by being in the global unicast range and in no exception of it, not
 * by being absent from a list of bad ones.
 */
#include "net/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define MAPPED 96 /* bits before an IPv4 address that is mapped into IPv6 */
#define V4(a, b, c, d, length)                                                                     \
    {                                                                                              \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, MAPPED + (length)                  \
    }

static const pw_network mapped = V4(0, 0, 0, 0, 0);

static const pw_network not_public_v4[] = {
    V4(0, 0, 0, 0, 8),       /* this network, unspecified */
    V4(10, 0, 0, 0, 8),      /* private */
    V4(100, 64, 0, 0, 10),   /* shared (CGNAT) */
    V4(127, 0, 0, 0, 8),     /* loopback */
    V4(169, 254, 0, 0, 16),  /* link-local, clouds' metadata */
    V4(172, 16, 0, 0, 12),   /* private */
    V4(192, 0, 0, 0, 24),    /* protocol assignments */
    V4(192, 0, 2, 0, 24),    /* documentation */
    V4(192, 31, 196, 0, 24), /* AS112 */
    V4(192, 52, 193, 0, 24), /* AMT */
    V4(192, 88, 99, 0, 24),  /* 6to4 relays */
    V4(192, 168, 0, 0, 16),  /* private */
    V4(192, 175, 48, 0, 24), /* AS112 */
    V4(198, 18, 0, 0, 15),   /* benchmarking */
    V4(198, 51, 100, 0, 24), /* documentation */
    V4(203, 0, 113, 0, 24),  /* documentation */
    V4(224, 0, 0, 0, 4),     /* multicast */
    V4(240, 0, 0, 0, 4),     /* reserved, broadcast */
};

static const pw_network global_v6 = {{0x20}, 3};
static const pw_network not_public_v6[] = {
    {{0x20, 0x01, 0x00}, 23},             /* protocol assignments: Teredo, ORCHID, benchmarking */
    {{0x20, 0x01, 0x0d, 0xb8}, 32},       /* documentation */
    {{0x20, 0x02}, 16},                   /* 6to4 */
    {{0x26, 0x20, 0x00, 0x4f, 0x80}, 48}, /* AS112 */
    {{0x3f, 0xfe}, 16},                   /* the old test network */
    {{0x3f, 0xff}, 20},                   /* documentation */
};

static const pw_network nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};

static bool is_in(const uint8_t *address, const pw_network *network)
{
    const size_t bytes = network->bits / 8, rest = network->bits % 8;
    const uint8_t mask = (uint8_t)(0xff00u >> rest);
    return memcmp(address, network->address, bytes) == 0 &&
           (rest == 0 || ((address[bytes] ^ network->address[bytes]) & mask) == 0);
}

static bool is_in_any(const uint8_t *address, const pw_network *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_in(address, &list[i])) {
            return true;
        }
    }
    return false;
}

static void map_v4(const void *from, uint8_t *to)
{
    memcpy(to, mapped.address, 12);
    memcpy(to + 12, from, 4);
}

static bool allows(const uint8_t *address, const pw_networks *allow)
{
    if (allow && is_in_any(address, allow->list, allow->count)) {
        return true;
    }
    if (is_in(address, &mapped)) {
        return !is_in_any(address, not_public_v4, sizeof not_public_v4 / sizeof not_public_v4[0]);
    }
    if (is_in(address, &nat64)) {
        uint8_t inside[16];
        map_v4(address + 12, inside);
        return allows(inside, allow); /* once: an IPv4 address embeds nothing */
    }
    return is_in(address, &global_v6) &&
           !is_in_any(address, not_public_v6, sizeof not_public_v6 / sizeof not_public_v6[0]);
}

bool pw_guard_allows(const struct sockaddr *address, const pw_networks *allow)
{
    uint8_t bytes[16];
    if (address->sa_family == AF_INET) {
        map_v4(&((const struct sockaddr_in *)(const void *)address)->sin_addr, bytes);
    } else if (address->sa_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    } else {
        return false;
    }
    return allows(bytes, allow);
}

bool pw_guard_allows_all(const struct addrinfo *list, const pw_networks *allow)
{
    const struct addrinfo *at = list;
    while (at && at->ai_addr && pw_guard_allows(at->ai_addr, allow)) {
        at = at->ai_next;
    }
    return list && !at;
}

/* --- The allow-list --- */

static pw_status wrong(const char *field, pw_str entry, const char *why, pw_error *error)
{
    const pw_str shown = pw_str_slice(entry, 0, entry.len < 60 ? entry.len : 60);
    return PW_FAIL(error, PW_INVALID, "%s: \"%.*s\" %s", field, PW_STR_ARG(shown), why);
}

static bool parse_address(pw_str text, pw_network *ret)
{
    char copy[64];
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.ptr, '\0', text.len)) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    struct in_addr v4;
    if (inet_pton(AF_INET, copy, &v4) == 1) {
        map_v4(&v4, ret->address);
        ret->bits = MAPPED;
        return true;
    }
    ret->bits = 0;
    return inet_pton(AF_INET6, copy, ret->address) == 1;
}

static bool has_bits_beyond(const pw_network *network)
{
    for (size_t bit = network->bits; bit < 128; bit++) {
        if (network->address[bit / 8] & (0x80u >> bit % 8)) {
            return true;
        }
    }
    return false;
}

static pw_status parse_network(const char *field, pw_str entry, pw_network *ret, pw_error *error)
{
    const size_t slash = pw_str_find(entry, PW_STR("/"));
    uint64_t length = 0;
    if (!parse_address(slash == SIZE_MAX ? entry : pw_str_slice(entry, 0, slash), ret)) {
        return wrong(field, entry, "is not an address or network such as 10.0.0.0/8 or fd00::/8",
                     error);
    }
    const uint8_t most = (uint8_t)(128 - ret->bits);
    if (slash == SIZE_MAX) {
        length = most;
    } else if (!pw_str_u64(pw_str_slice(entry, slash + 1, entry.len), &length) || length > most) {
        return wrong(field, entry,
                     most == 32 ? "has a length that is not 0 to 32"
                                : "has a length that is not 0 to 128",
                     error);
    }
    ret->bits = (uint8_t)(ret->bits + length);
    return has_bits_beyond(ret)
               ? wrong(field, entry, "has bits set beyond its length: name the network", error)
               : PW_OK;
}

pw_status pw_networks_parse(const char *field, pw_str text, pw_arena *arena, pw_networks *ret,
                            pw_error *error)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == ',';
    }
    if (pw_str_trim(text).len == 0) {
        *ret = (pw_networks){0};
        return PW_OK;
    }
    if (count > PW_NETWORKS_MAX) {
        return PW_FAIL(error, PW_TOO_LARGE, "%s: %zu networks, at most %d are taken", field, count,
                       PW_NETWORKS_MAX);
    }
    pw_network *list = PW_NEW_ARRAY(arena, pw_network, count);
    if (!list) {
        return PW_FAIL(error, PW_NOMEM, "out of memory");
    }
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        size_t to = from;
        while (to < text.len && text.ptr[to] != ',') {
            to++;
        }
        PW_TRY(parse_network(field, pw_str_trim(pw_str_slice(text, from, to)), &list[i], error));
        from = to + 1;
    }
    *ret = (pw_networks){list, count};
    return PW_OK;
}
