/* The calls of a host, from the engines to the threads that run handlers, and back. It is the engines' sink.
 * Connections with calls to run take turns, one call each time, in the order of arrival. Calls that their
 * interceptors admitted go first, because they may hold something. Loop thread only, except for what workers do inside.
 *
 *   QUEUED --its turn--> RUNNING --its last step has ended--> OVER
 *                        RUNNING --lks_host_defer--> DEFERRING --the step returns--> DEFERRED
 *                        DEFERRING or DEFERRED --lks_host_finish--> FINISHED --> RUNNING
 *                                                                        \--the next step may block--> READY
 *   READY --its turn--> RUNNING
 *
 * The steps are those of work.c: interceptors, of which the method's guards are the last, and the handler. A call that
 * is stopped (the caller is gone, the deadline passes, the host closes) ends at once when QUEUED. Otherwise its
 * deferred step is notified, its handler does not begin, and `after` runs for each interceptor that admitted it. A call
 * that has not ended at its deadline is answered with an error. It still counts as a call until its handler has
 * ended. */
#ifndef HOST_CALLS_H
#define HOST_CALLS_H

#include <lockstock/host.h>
#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/service.h>

#include "host/services.h"
#include "net/sink.h"

struct uv_loop_s;

typedef struct calls calls;

/* Starts the threads. Copies the options, which are complete. The services are complete before the first call, and
 * freed with the calls. LKS_RESOURCE_EXHAUSTED: no memory or no threads; *ret must be closed and freed even then, unless
 * it is NULL. */
lks_code calls_new(struct uv_loop_s *loop, const lks_host_options *options, services *services, calls **ret,
                   lks_error *error);

/* Their sink. Everyone may call the methods that the engines serve themselves. */
sink calls_sink(calls *all);

/* Counts calls in the meter. Call it before the first call. The meter must outlive the loop. */
void calls_count(calls *all, rpc_meter *meter);

/* Calls whose handlers have not ended. */
size_t calls_under_way(const calls *all);

/* Without threads: runs the waiting calls on this thread. Steps that become ready meanwhile wait for the next
 * calls_run. */
void calls_run(calls *all);

/* Whether the calling thread runs a handler of these calls. Takes NULL. */
bool calls_is_handler(const calls *all);

/* Refuses calls that wait for a thread or for guards, and all later calls (UNAVAILABLE, NO), and cancels running
 * calls. */
void calls_stop(calls *all);

/* Answers all calls that have not ended (UNAVAILABLE, MAYBE). */
void calls_answer_rest(calls *all);

/* Closes the handles on the loop. Every connection must be lost. Returns how many calls have not ended: they end
 * without the loop. */
size_t calls_close(calls *all);

/* Call it when the loop has ended. Waits for the threads that have no call; the other threads free the rest. Takes
 * NULL. */
void calls_free(calls *all);

#endif
