/* Names to addresses without blocking the caller: getaddrinfo(3) runs on a thread of its own, which nobody waits for,
 * neither at a timeout nor when the program ends. */
#ifndef LOCKSTOCK_NET_RESOLVE_H
#define LOCKSTOCK_NET_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>

struct resolution;

/* Addresses of a numeric host, at once; NULL when it is a name. Freed by freeaddrinfo. */
struct addrinfo *resolve_numeric(const char *host, const char *port);

/* Begins to resolve; `found` is called by another thread when that has ended, and must not call anything here. NULL
 * when there is no memory or no thread. Ended by resolve_end or resolve_cancel. */
struct resolution *resolve_start(const char *host, const char *port, void (*found)(void *arg), void *arg);

/* Whether it has ended. */
bool resolve_is_over(struct resolution *resolution);

/* When it has ended: frees it and returns the addresses; NULL when there are none (*why says so, static). */
struct addrinfo *resolve_end(struct resolution *resolution, const char **why);

/* Frees it; `found` is not called after this returns. Takes NULL. */
void resolve_cancel(struct resolution *resolution);

#endif
