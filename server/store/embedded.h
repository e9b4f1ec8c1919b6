/* A private redis-server: its directory, process, socket and end. */
#ifndef LOCKSTOCK_SERVER_STORE_EMBEDDED_H
#define LOCKSTOCK_SERVER_STORE_EMBEDDED_H

#include <stdbool.h>

#include <lockstock/status.h>

#include "store/store.h"

struct uv_loop_s;

typedef struct embedded embedded;

typedef struct embedded_options {
    struct uv_loop_s *loop;
    const char *dir;
    const char *fsync; /* "always" or "everysec"; static */
    /* redis-server ended by itself before it served, the first time or three times in a row, or its data is damaged or
     * gone: it will not serve, and is not started again. */
    void (*on_broken)(void *arg, store_fault fault);
    /* The disk is full: from now on embedded_full says why redis-server is not started again. */
    void (*on_full)(void *arg);
    /* Asked now and then until embedded_open returns, whether it is to give up; NULL: never. */
    bool (*told_to_stop)(void *arg);
    void *arg;
} embedded_options;

/* Takes `dir` (made when missing), mends its file (aof.h) and starts redis-server on
 * it; waits for at most 10 s until it listens. Starts it again whenever it ends, after
 * a pause that grows while it does not serve for some seconds; the file is then mended by another thread.
 * Main thread only, which must live as long as the store: the kernel kills
 * redis-server when that thread ends. LKS_FAILED_PRECONDITION: as on_broken; LKS_CANCELLED: it was told to
 * stop; LKS_INVALID_ARGUMENT: dir or fsync; LKS_UNAVAILABLE: another server uses dir, its disk is full, or
 * redis-server is missing or does not start. */
lks_code embedded_open(const embedded_options *options, embedded **ret, lks_error *error);

/* Why redis-server is not started again: its disk is full. NULL: it is not. Static. */
const char *embedded_full(const embedded *embedded);

/* redis-server has answered. */
void embedded_serves(embedded *embedded);

/* A connection to it was lost. If that is because its socket was removed while it runs, it is ended and
 * started again. */
void embedded_lost(embedded *embedded);

/* Path by which this process reaches its socket, the same over restarts, and when DIR is moved. */
const char *embedded_socket(const embedded *embedded);

/* How the socket is called for people: DIR/redis.sock, DIR as it was when it was opened. */
const char *embedded_address(const embedded *embedded);

/* Ends redis-server (SIGTERM; SIGKILL after 10 s) and lets the directory go;
 * `closed` runs on the loop, last. */
void embedded_close(embedded *embedded, void (*closed)(void *arg), void *arg);

#endif
