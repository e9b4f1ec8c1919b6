/* A connection of bytes to a server: TCP, TCP with TLS, or a unix socket; never blocks.
 * All functions are the loop thread's, and so are the callbacks, which never run inside
 * of them.
 *
 *   conn_open --> [resolve] --> connect, one address after the other --> [TLS] --> up
 *        \-----------\-------------------\---------------------------------\----> over */
#ifndef LOCKSTOCK_CLIENT_WIRE_CONN_H
#define LOCKSTOCK_CLIENT_WIRE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "client/loop/loop.h"
#include "net/tls.h"

typedef struct conn conn;

typedef struct conn_options {
    const char *host, *port; /* or */
    const char *path;        /* of a unix socket */
    tls_context *tls;        /* NULL = plain */
    const char *server_name; /* to be in the server's certificate */
    struct loop *loop;
    uint32_t *holds; /* one more while something is to come back as a task: not to be closed then */
    void (*up)(void *arg);
    void (*readable)(void *arg); /* conn_read until it gives none */
    void (*over)(void *arg);     /* before it was up: conn_why */
    void *arg;
} conn_options;

/* Begins. What the options point to outlives it. NULL when out of memory. */
conn *conn_open(const conn_options *options);

/* Before it is up: goes no further, and calls nothing back. */
void conn_abandon(conn *c);

/* Takes NULL. */
void conn_close(conn *c);

/* Once up: bytes; 0 when there are none now, -1 when it is over. */
ssize_t conn_read(conn *c, uint8_t *data, size_t len);

/* Once up: takes as many bytes as can be written now, or soon: TLS keeps some that are as
 * good as written. Whether it is over is found by reading, after all that came before. */
size_t conn_write(conn *c, const struct iovec *parts, size_t n);

/* Writes what is kept; once a turn. False when no bytes are taken at present. */
bool conn_flush(conn *c);

/* Why it is over; the connection's. */
const char *conn_why(const conn *c);

/* Once up: where its bytes come. */
loop_source *conn_source(conn *c);

#endif
