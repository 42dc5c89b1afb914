/*
 * The outbound guard: may the engine connect to this address, when the URL it calls is not a
 * model's base_url? Pure, and asked about resolved addresses only, so how an address was spelled,
 * or which name led to it, is of no account.
 *
 * Allowed is what is public: unicast IPv4 outside the special-purpose registries (RFC 6890), IPv6
 * in 2000::/3 likewise, and NAT64 (64:ff9b::/96) of such an IPv4 address; an IPv4 address mapped
 * into IPv6 is that IPv4 address. Refused: private, loopback, link-local, shared (CGNAT),
 * multicast, unspecified, documentation, benchmarking and reserved ones, IPv4-compatible ones,
 * 6to4 and Teredo whatever they embed. Beyond that, what the allow-list names.
 */
#ifndef PW_NET_GUARD_H
#define PW_NET_GUARD_H

#include <netdb.h>
#include <sys/socket.h>

#include "base/arena.h"

typedef struct pw_network {
    uint8_t address[16]; /* IPv4 as mapped into IPv6 */
    uint8_t bits;        /* of the whole 128 */
} pw_network;

typedef struct pw_networks {
    const pw_network *list;
    size_t count;
} pw_networks;

#define PW_NETWORKS_MAX 256

/* "10.0.0.0/8, 127.0.0.1, fd00::/8": addresses and networks, by commas; empty: none. PW_INVALID
 * begins with `field` and names the entry: not an address, a length out of range, bits beyond the
 * length. PW_TOO_LARGE: more than PW_NETWORKS_MAX. */
pw_status pw_networks_parse(const char *field, pw_str text, pw_arena *, pw_networks *ret,
                            pw_error *);

/* `allow` may be NULL. Neither IPv4 nor IPv6: no. */
bool pw_guard_allows(const struct sockaddr *, const pw_networks *allow);
/* Every one of them, and there is one: a name that leads to a public and to a private address is
 * refused, whichever would be tried first. */
bool pw_guard_allows_all(const struct addrinfo *, const pw_networks *allow);

#endif
