/* The calls of a host, from the engines to the threads that run handlers, and back. It is the engines' sink.
 * Connections with calls to run take turns, each call by call in the order of arrival. Calls that their
 * interceptors admitted go first, because they may hold something. Loop thread only, except for what workers do inside.
 *
 *   QUEUED --its turn--> RUNNING --its last step has ended--> OVER
 *                        RUNNING --lks_host_defer--> DEFERRING --the step returns--> DEFERRED
 *                        DEFERRING or DEFERRED --lks_host_finish--> FINISHED --> RUNNING
 *                                                                        \--the next step may block--> READY
 *   READY --its turn--> RUNNING
 *
 * The steps are those of work.c: interceptors, of which the method's guards are the last, and the handler. A call that is
 * stopped (the caller is gone, the deadline passes, the host closes) ends at once when QUEUED. Else its deferred step is
 * told, its handler does not begin, and `after` runs for each interceptor that admitted it.
 * At its deadline a call is answered for. It keeps its place among the calls until its handler has ended. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include <lockstock/host.h>
#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/service.h>

#include "host/services.h"
#include "net/sink.h"

struct uv_loop_s;

typedef struct calls calls;

typedef struct calls_options {
    struct uv_loop_s *loop;
    services *services;         /* complete before the first call; freed with the calls */
    lks_rpc_scan_limits limits; /* of a request */
    struct lks_channel *guards; /* NULL: no method has one */
    lks_host_log *tell;         /* may be NULL */
    void *tell_arg;
    const lks_host_interceptor *interceptors;
    size_t n_interceptors;
    lks_host_authenticate *authenticate; /* NULL: no caller has a principal */
    void *authenticate_arg;
    uint32_t timeout_ms; /* of a call that names none, and the longest */
    uint32_t threads, threads_max;
    uint32_t in_flight_max;            /* calls that wait or run; more are refused */
    uint32_t in_flight_per_connection; /* beyond it a connection is not read from */
} calls_options;

/* Starts the threads. LKS_RESOURCE_EXHAUSTED: no memory or no threads; *ret, unless it is NULL then, is to be
 * closed and freed all the same. */
lks_code calls_new(const calls_options *options, calls **ret, lks_error *error);

/* Their sink. Everyone may call the methods that the engines serve themselves. */
sink calls_sink(calls *all);

/* Counts calls from now on; before the first one. The meter must outlive the loop. */
void calls_count(calls *all, rpc_meter *meter);

/* Calls whose handlers have not ended. */
size_t calls_under_way(const calls *all);

/* Without threads: runs what waits for one, here. Handlers that move on meanwhile wait for the next call. */
void calls_run(calls *all);

/* Whether the calling thread runs a handler of these calls. Takes NULL. */
bool calls_is_handler(const calls *all);

/* Refuses what waits for a thread or for guards, and what comes from then on (UNAVAILABLE, NO), and cancels what runs. */
void calls_stop(calls *all);

/* Answers for what has not ended (UNAVAILABLE, MAYBE). */
void calls_answer_for(calls *all);

/* With every connection lost: closes what it has on the loop. Returns how many calls have not ended: they end without
 * the loop. */
size_t calls_close(calls *all);

/* Waits for the threads that have no call, once the loop has ended. The others free what is left. Takes NULL. */
void calls_free(calls *all);

#endif
