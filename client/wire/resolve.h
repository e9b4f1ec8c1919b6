/* Names to addresses without blocking the loop thread: getaddrinfo(3) runs on a thread of
 * its own, which nobody waits for. */
#ifndef LOCKSTOCK_CLIENT_WIRE_RESOLVE_H
#define LOCKSTOCK_CLIENT_WIRE_RESOLVE_H

#include <netdb.h>

#include "client/loop/loop.h"

struct resolution;

/* Addresses of a numeric host, at once; NULL when it is a name. Freed by
 * freeaddrinfo. */
struct addrinfo *resolve_numeric(const char *host, const char *port);

/* Begins to resolve; `found` is posted to the loop when that has ended. NULL when
 * there is no memory or no thread. To be ended by resolve_end. */
struct resolution *resolve_start(const char *host, const char *port, struct loop *loop, loop_task *found);

/* Frees it and returns the addresses, NULL when there are none (*why says so, static;
 * `why` may be NULL), or none yet: then `found` is not posted any more. Takes NULL. */
struct addrinfo *resolve_end(struct resolution *resolution, const char **why);

#endif
