/* Delivers events to calls that wait: a message that names the call, the end of its wait, the end of the server. A call
 * registers before its first store call, because a message may arrive before the reply. The module polls nothing.
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

/* The state of a waiting call; a member of the caller's own struct. */
typedef struct waiter {
    /* The event's numbers are valid until this returns. May call waiters_leave. */
    void (*on_event)(struct waiter *w, service_event event);
    watched *watches;           /* its alarms, while it is registered */
    trace_context *released_by; /* set to the trace of the call that ends the wait, if known; NULL: not wanted */
    bool registered;
    struct timer deadline;
    UT_hash_handle hh; /* by the key that messages name; several waiters may have one key */
    TAILQ_ENTRY(waiter) in_all;
} waiter;

/* `alarms` must outlive it. */
waiters *waiters_new(struct uv_loop_s *loop, alarms *alarms);

/* No waiter may be registered. `closed` runs on the loop. */
void waiters_close(waiters *all, void (*closed)(void *arg), void *arg);

/* Registers a waiter whose on_event is set and whose other members are zero. The caller keeps the key and the watches.
 * If the server is stopping, on_event runs before this returns. */
void waiters_enter(waiters *all, waiter *w, lks_rpc_slice key, service_watch *watches, uint64_t deadline_ns);

/* The waiter's key and watches have moved, unchanged, to a new address. */
void waiters_moved(waiter *w, const char *key, watched *watches);

/* Does nothing for a waiter that is not registered. */
void waiters_leave(waiters *all, waiter *w);

/* A message on this server's channel:
 *   W <key>                                                  SERVICE_WOKEN
 *   R <number>[,<number>...] <key> <base> <function> <text>  SERVICE_GRANTED with the numbers, to the call whose undo
 *                                                            is function(text); other calls of the key ask the store.
 *                                                            When no waiter has the key, function(text) is called until
 *                                                            it succeeds
 *   T <traceparent> <key>                                    sets released_by, and comes before one of the above
 *   A <ms> <base> <function> <text>                          sets an alarm */
void waiters_message(waiters *all, const char *data, size_t len);

/* Sends SERVICE_WOKEN to every waiter, because messages may have been missed or the store lost data. */
void waiters_missed(waiters *all);

/* Sends SERVICE_STOPPING to every waiter that is registered now or later. */
void waiters_stop(waiters *all);

#endif
