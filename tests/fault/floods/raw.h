/* One connection of an attacker: bytes as they are, over TCP, a unix socket or TLS, from
 * any address of 127.0.0.0/8. It does not block for long: `stop` ends every wait. One
 * thread at a time. SIGPIPE must be ignored. */
#ifndef LOCKSTOCK_TESTS_FLOODS_RAW_H
#define LOCKSTOCK_TESTS_FLOODS_RAW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <openssl/ssl.h>

#include "target.h"

typedef struct raw {
    int fd;
    SSL *tls; /* NULL: in plain */
    const atomic_bool *stop;
    bool deaf;       /* nothing is read: the server's output fills the socket */
    int patience_ms; /* how long raw_send waits without progress; 0 = until it is stopped */
    bool stalled;    /* that ran out */
} raw;

/* Connects from 127.0.0.1 + address, without a TLS handshake. False: refused, or stopped. */
bool raw_connect(raw *r, wire w, unsigned address, const atomic_bool *stop);

/* The same with TLS where the wire has it. */
bool raw_open(raw *r, wire w, unsigned address, const atomic_bool *stop);

/* Sends all of it; what comes meanwhile is read and dropped, unless deaf. False: the
 * connection is over, stopped or stalled. */
bool raw_send(raw *r, const void *data, size_t len);

/* Waits up to timeout_ms for bytes and reads some: their count, 0 = none came, -1 = over. */
ssize_t raw_receive(raw *r, void *data, size_t len, int timeout_ms);

/* Reads and drops what there is. False: the connection is over. */
bool raw_drop(raw *r);

/* Reads until the other side closes; false when it did not within timeout_ms. */
bool raw_ends(raw *r, int timeout_ms);

void raw_close(raw *r);

/* Frees what the connections share. */
void raw_cleanup(void);

#endif
