/* Delivers events to calls that wait: a message that names the call, the end of its wait, the end of the server. A
 * call registers before its first store call, because a message may arrive before the reply. Nothing is polled.
 * Whether a call is parked is the call's own state (callers.h); it gets events in any state. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_WAITERS_H
#define LOCKSTOCK_SERVER_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>

#include "calls/alarms.h"
#include "hashed.h"
#include "base/heap.h"
#include "base/trace_context.h"
#include "services/service.h"

struct uv_loop_s;

typedef struct waiters waiters;

/* A waiting call's part in this; inside the caller's own struct. */
typedef struct waiter {
    /* The event's numbers are valid until this returns. May leave. */
    void (*on_event)(struct waiter *w, service_event event);
    watched *watches;           /* its alarms, while it is registered */
    trace_context *released_by; /* is set to the call that ends the wait, when that is known; NULL: not wanted */
    bool registered;
    struct timer deadline;
    UT_hash_handle hh; /* by the key that messages name; several waiters may have one key */
    TAILQ_ENTRY(waiter) in_all;
} waiter;

/* `alarms` must outlive it. */
waiters *waiters_new(struct uv_loop_s *loop, alarms *alarms);

/* No waiter may be registered. `closed` runs on the loop. */
void waiters_close(waiters *all, void (*closed)(void *arg), void *arg);

/* Registers a waiter of which on_event is set and the rest is zero; the key and the watches stay the caller's. When
 * the server stops, on_event runs before this returns. */
void waiters_enter(waiters *all, waiter *w, lks_rpc_slice key, service_watch *watches, uint64_t deadline_ns);

/* The waiter's key and watches, which are unchanged, have a new address. */
void waiters_moved(waiter *w, const char *key, watched *watches);

/* Does nothing when it is not registered. */
void waiters_leave(waiters *all, waiter *w);

/* A message on this server's channel:
 *   W <key>                                                  SERVICE_WOKEN
 *   R <number>[,<number>...] <key> <base> <function> <text>  SERVICE_GRANTED with the numbers, to the call whose undo is
 *                                                            function(text); other calls of the key ask the store.
 *                                                            When no waiter has the key, function(text) is called until
 *                                                            it succeeds
 *   T <traceparent> <key>                                    sets released_by, and comes before one of the above
 *   A <ms> <base> <function> <text>                          sets an alarm */
void waiters_message(waiters *all, const char *data, size_t len);

/* Messages may have been missed, or the store lost data: SERVICE_WOKEN for every waiter. */
void waiters_missed(waiters *all);

bool waiters_any(const waiters *all);

/* SERVICE_STOPPING for every waiter, registered now or later. */
void waiters_stop(waiters *all);

#endif
