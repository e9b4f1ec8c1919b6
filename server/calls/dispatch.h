/* From a call to its answer: finds the method, checks rights, namespace and deadline,
 * unpacks, lets the service plan, finds room (callers.h), asks the store, lets the service
 * finish. Every transport hands its calls to this, as its sink. Loop thread only.
 *
 *   call --> refused (rights, deadline, unknown method, bad request, no room) ---> done
 *        \-> prepare --> queued --> answered ----------------------------------/
 *                               \-> store calls ... all replied --> finish -----/
 */
#ifndef LOCKSTOCK_SERVER_DISPATCH_H
#define LOCKSTOCK_SERVER_DISPATCH_H

#include "calls/running.h"
#include "net/metrics/metrics.h"
#include "net/sink.h"

dispatch *dispatch_new(const dispatch_options *options);

/* Later calls are checked against `rights`, which the caller keeps. At first, and with NULL, everyone has full
 * access. */
void dispatch_set_identity(dispatch *d, const identity *rights);

/* The store is about to be closed: no more store calls are made. Those under way end normally; a call that needs
 * another one is UNAVAILABLE. */
void dispatch_stop(dispatch *d);

/* Call this when no call is under way. Takes NULL. */
void dispatch_free(dispatch *d);

/* The sink of lockstockd's engines. `d` must outlive it. */
sink dispatch_sink(dispatch *d);

/* Writes the metrics of calls: METRICS_STARTED to METRICS_STAGES. */
void dispatch_write_metrics(const dispatch *d, metrics_text *t);

#endif
