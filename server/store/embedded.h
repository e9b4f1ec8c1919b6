/* A private redis-server: its directory, process and socket. */
#ifndef LOCKSTOCK_SERVER_STORE_EMBEDDED_H
#define LOCKSTOCK_SERVER_STORE_EMBEDDED_H

#include <stdbool.h>

#include <lockstock/status.h>

#include "store/types.h"

typedef struct embedded embedded;

typedef struct embedded_options {
    const store_options *store; /* its loop, fsync and stop_requested; it must outlive the embedded */
    const char *dir;
    /* redis-server will not be started again: it ended by itself before it served, the first time or three times in a
     * row, or its data is damaged or missing. */
    void (*on_broken)(void *arg, store_fault fault);
    /* redis-server is not started, because the disk is full; see embedded_full. */
    void (*on_full)(void *arg);
    void *arg;
} embedded_options;

/* Locks `dir`, after making it if it is missing, repairs its file (aof.h), starts redis-server and waits up to 10 s
 * until it listens. Starts it again whenever it ends, after a pause, which grows until it has served for some seconds;
 * then another thread repairs the file first. Main thread only, which must live as long as the store: the kernel kills
 * redis-server when that thread ends. LKS_FAILED_PRECONDITION: as on_broken; LKS_CANCELLED: stop_requested;
 * LKS_INVALID_ARGUMENT: dir or fsync; LKS_UNAVAILABLE: another server uses dir, its disk is full, or redis-server is
 * missing or does not start. */
lks_code embedded_open(const embedded_options *options, embedded **ret, lks_error *error);

/* Whether its append-only file is there: somebody may have removed it. redis-server does not notice. */
bool embedded_has_files(const embedded *embedded);

/* Returns a static text while redis-server is not started because the disk is full; otherwise NULL. */
const char *embedded_full(const embedded *embedded);

/* Returns how often redis-server was started, and the free bytes on the disk of its directory. */
store_process embedded_look(const embedded *embedded);

/* Notes that redis-server has answered. */
void embedded_serves(embedded *embedded);

/* Notes that a connection to it was lost. Starts redis-server again if its socket was removed. */
void embedded_lost(embedded *embedded);

/* The socket's path for this process; it stays the same over restarts and when DIR is moved. */
const char *embedded_socket(const embedded *embedded);

/* The socket's path for people: DIR/redis.sock. */
const char *embedded_address(const embedded *embedded);

/* Ends redis-server (SIGTERM; SIGKILL after 10 s) and unlocks the directory; `closed` runs on the loop, last. */
void embedded_close(embedded *embedded, void (*closed)(void *arg), void *arg);

#endif
