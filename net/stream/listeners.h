/* Listening sockets, for stream.c. Connections are accepted for a slice of each turn of the loop, so that a flood of
 * them delays others by one slice. Loop thread only. */
#ifndef LOCKSTOCK_NET_LISTENERS_H
#define LOCKSTOCK_NET_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/stream/stream_types.h"
#include "net/tls.h"

struct uv_stream_s;

typedef struct listeners listeners;

/* The protocol that an address serves. */
typedef struct served {
    const stream_protocol *protocol;
    void *arg;               /* of its `open` */
    tls_context *const *tls; /* NULL: without TLS */
    bool is_unix;
} served;

typedef struct listeners_options {
    struct uv_loop_s *loop;
    /* A connection arrived; take it with uv_accept. */
    void (*accept)(void *arg, struct uv_stream_s *from, const served *what);
    /* A connection arrived and was closed, because the process has no free descriptor. */
    void (*refused)(void *arg, const served *what);
    void *arg;
} listeners_options;

/* NULL when out of memory. */
listeners *listeners_new(const listeners_options *options);

/* As streams_listen. `what` is copied. */
lks_code listeners_add(listeners *all, const stream_address *at, const served *what, uint16_t *bound, lks_error *error);

/* Accepts no new connections from now on. */
void listeners_stop(listeners *all);

/* Stops. `closed` runs on the loop when everything is freed. */
void listeners_close(listeners *all, void (*closed)(void *arg), void *arg);

#endif
