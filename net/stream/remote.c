/* Invariant: unused bytes of an origin are zero, so that memcmp compares origins. Called by stream.c. */
#include "net/stream/remote.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { NETWORK_BYTES = 8, V4_BYTES = 4, V4_AT = 12 /* in an IPv4-mapped address */ };

static void set_v4(const uint8_t *bytes, in_port_t port, remote *ret)
{
    ret->origin.kind = PLACE_IPV4;
    memcpy(ret->origin.bytes, bytes, V4_BYTES);
    snprintf(ret->origin_text, sizeof ret->origin_text, "%u.%u.%u.%u", bytes[0], bytes[1], bytes[2], bytes[3]);
    snprintf(ret->text, sizeof ret->text, "%s:%u", ret->origin_text, ntohs(port));
}

static void set_v6(const struct in6_addr *address, in_port_t port, remote *ret)
{
    char text[INET6_ADDRSTRLEN];

    ret->origin.kind = PLACE_IPV6;
    memcpy(ret->origin.bytes, address->s6_addr, NETWORK_BYTES);
    struct in6_addr network = {0};
    memcpy(network.s6_addr, address->s6_addr, NETWORK_BYTES);
    inet_ntop(AF_INET6, &network, ret->origin_text, sizeof ret->origin_text);
    inet_ntop(AF_INET6, address, text, sizeof text);
    snprintf(ret->text, sizeof ret->text, "[%s]:%u", text, ntohs(port));
}

static void set_user(int fd, remote *ret)
{
    struct ucred peer;
    socklen_t len = sizeof peer;

    ret->origin.kind = PLACE_USER;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return;
    memcpy(ret->origin.bytes, &peer.uid, sizeof peer.uid);
    ret->uid = peer.uid;
    ret->pid = peer.pid;
    snprintf(ret->origin_text, sizeof ret->origin_text, "uid:%u", (unsigned)peer.uid);
    snprintf(ret->text, sizeof ret->text, "%s", ret->origin_text);
}

void remote_of(int fd, remote *ret)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage room;
    } name;
    socklen_t len = sizeof name;

    *ret = (remote){.origin_text = "?", .text = "?", .uid = -1, .pid = -1};
    if (getpeername(fd, &name.any, &len) != 0)
        return;
    if (name.any.sa_family == AF_INET)
        set_v4((const uint8_t *)&name.v4.sin_addr, name.v4.sin_port, ret);
    else if (name.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&name.v6.sin6_addr))
        set_v4(name.v6.sin6_addr.s6_addr + V4_AT, name.v6.sin6_port, ret);
    else if (name.any.sa_family == AF_INET6)
        set_v6(&name.v6.sin6_addr, name.v6.sin6_port, ret);
    else if (name.any.sa_family == AF_UNIX)
        set_user(fd, ret);
}
