/* The threads that run handlers, and the messages that wait for one, first come
 * first served. */
#ifndef HOST_WORKERS_H
#define HOST_WORKERS_H

#include <stdint.h>

#include <lockstock/status.h>

#include "serve.h"

typedef struct workers workers;

/* Starts the threads. `table` must be complete before the first push. At most
 * `capacity` messages wait. LKS_RESOURCE_EXHAUSTED: no memory or no threads. */
lks_code workers_new(const serve_table *table, uint32_t threads, uint32_t capacity, workers **ret, lks_error *error);

/* Takes over a request. Never more than `capacity` at a time: the caller sees to
 * it. Does not block; any thread. */
void workers_push(workers *all, lks_rpc_nng_request *request);

/* Lets the threads empty the queue for at most drain_ms, refuses what is left then
 * (UNAVAILABLE, applied NO), waits for the threads and frees. Nothing may be pushed
 * any more. Takes NULL. */
void workers_close(workers *all, uint32_t drain_ms);

#endif
