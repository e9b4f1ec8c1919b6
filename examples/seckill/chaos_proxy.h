/* A bad network between lockstock's client and server: forwards SP messages over
 * TCP and mistreats those that the given faults choose. */
#ifndef SECKILL_CHAOS_PROXY_H
#define SECKILL_CHAOS_PROXY_H

#include "chaos_faults.h"

typedef struct chaos_proxy chaos_proxy;

/* Listens on a free port of 127.0.0.1 and forwards each connection to the server
 * at 127.0.0.1:server_port, in a thread of its own. NULL with errno set. */
chaos_proxy *chaos_proxy_start(unsigned short server_port, const chaos_fault faults[], size_t n);

/* "nng+tcp://127.0.0.1:PORT", until chaos_proxy_stop. */
const char *chaos_proxy_url(const chaos_proxy *proxy);

/* Messages that were hit so far. Thread-safe. */
uint64_t chaos_proxy_hits(chaos_proxy *proxy);

/* Closes every connection, ends the thread, frees. Takes NULL. */
void chaos_proxy_stop(chaos_proxy *proxy);

#endif
