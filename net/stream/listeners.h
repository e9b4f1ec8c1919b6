/* Sockets that listen, for stream.c. Connections are accepted a few at a time: so long as
 * the turn of the loop allows, then in the next, so that a flood of them costs others one
 * such part of a turn. Loop thread only. */
#ifndef LOCKSTOCK_NET_LISTENERS_H
#define LOCKSTOCK_NET_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/stream/stream.h"

struct uv_stream_s;

typedef struct listeners listeners;

/* What an address serves. */
typedef struct served {
    const stream_protocol *protocol;
    void *arg;               /* of its `open` */
    tls_context *const *tls; /* NULL: in plain */
    bool is_unix;
} served;

typedef struct listeners_options {
    struct uv_loop_s *loop;
    /* A connection came: to be taken by uv_accept. */
    void (*accept)(void *arg, struct uv_stream_s *from, const served *what);
    /* One came and was closed, because there was no descriptor for it. */
    void (*refused)(void *arg, const served *what);
    void *arg;
} listeners_options;

/* NULL when out of memory. */
listeners *listeners_new(const listeners_options *options);

/* As streams_listen_tcp and streams_listen_unix. `what` is copied. */
lks_code listeners_add_tcp(listeners *all, const char *address, const served *what, uint16_t *bound, lks_error *error);
lks_code listeners_add_unix(listeners *all, const char *path, const served *what, lks_error *error);

/* No new connections from now on. */
void listeners_stop(listeners *all);

/* Stops; `closed` runs on the loop when all is freed. */
void listeners_close(listeners *all, void (*closed)(void *arg), void *arg);

#endif
