/* The origin of a connection, for limits and for the log. */
#ifndef LOCKSTOCK_NET_REMOTE_H
#define LOCKSTOCK_NET_REMOTE_H

#include <netinet/in.h>

#include "net/admission/places.h"

enum { REMOTE_TEXT_BYTES = INET6_ADDRSTRLEN + sizeof "[]:65535" };

typedef struct remote {
    place_origin origin;
    char origin_text[INET6_ADDRSTRLEN]; /* the origin: "192.0.2.1", "2001:db8::", "uid:1000" */
    char text[REMOTE_TEXT_BYTES];       /* "192.0.2.1:4711", "[2001:db8::1]:4711", "uid:1000" */
    int64_t uid, pid;                   /* of the process that connected over a unix socket; -1: not a unix socket */
} remote;

/* The peer of a socket. "?" when the peer is already gone. */
void remote_of(int fd, remote *ret);

#endif
