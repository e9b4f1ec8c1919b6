/* Resolves names without blocking the caller. getaddrinfo(3) runs on its own thread, and nothing waits for that
 * thread, neither at a timeout nor at exit. */
#ifndef LOCKSTOCK_NET_RESOLVE_H
#define LOCKSTOCK_NET_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

struct resolution;

/* The addresses of a numeric host, without a thread. NULL when it is a name. Free with freeaddrinfo. */
struct addrinfo *resolve_numeric(const char *host, uint16_t port);

/* Starts to resolve. Another thread calls `found` when the result is available; `found` must not call functions of this
 * file. Returns NULL when out of memory or threads. End it with resolve_end or resolve_cancel. */
struct resolution *resolve_start(const char *host, uint16_t port, void (*found)(void *arg), void *arg);

/* Whether the result is available. */
bool resolve_is_over(struct resolution *resolution);

/* Call it when the result is available. Frees the resolution and returns the addresses, or NULL with the reason in *why
 * (static). */
struct addrinfo *resolve_end(struct resolution *resolution, const char **why);

/* Frees the resolution. `found` is not called after this returns. Takes NULL. */
void resolve_cancel(struct resolution *resolution);

#endif
