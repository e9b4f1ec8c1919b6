/* Calls that wait. A call registers before its first store call, so that a wake
 * message which overtakes the reply is not lost, and is parked while the store has
 * said that it must wait. Nothing is polled: a parked call costs memory, and is
 * looked at again when a wake message names it, its wait is over, or its
 * connection is lost.
 *
 *   BUSY --waiters_park--> PARKED --event--> BUSY     an event that comes while BUSY
 *     \--waiters_leave                                is told by the next waiters_park
 *
 * Loop thread only. */
#ifndef LOCKSTOCK_SERVER_WAITERS_H
#define LOCKSTOCK_SERVER_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#include "calls/alarms.h"
#include "calls/key_table.h"
#include "base/heap.h"
#include "services/service.h"

struct uv_loop_s;

typedef struct waiters waiters;

/* A waiting call's part in this; inside the caller's own struct. */
typedef struct waiter {
    watched *watches; /* its alarms, as long as it is registered */
    /* The waiter is BUSY again. Runs from the loop, never from waiters_enter, _park or
     * _leave. */
    void (*on_event)(struct waiter *w, service_event event);
    bool parked;
    unsigned pending; /* events that came while BUSY, a bit each */
    bool registered;
    char *reply; /* numbers that came with a wake: the store's answer to what it would ask; else NULL */
    struct timer deadline;
    keyed by_key; /* wake messages name its key */
    TAILQ_ENTRY(waiter) in_all;
} waiter;

/* `alarms` must outlive it. */
waiters *waiters_new(struct uv_loop_s *loop, alarms *alarms);

/* With no waiter registered; closes its timer. `closed` runs on the loop when it is
 * freed. */
void waiters_close(waiters *all, void (*closed)(void *arg), void *arg);

/* Registers a waiter: by_key.key and on_event are set, the rest zero; key and watches stay the caller's. */
void waiters_enter(waiters *all, waiter *w, service_watch *watches, uint64_t deadline_ns);

/* Its key and its watches, the same as before, have another place. */
void waiters_moved(waiter *w, lks_rpc_slice key, watched *watches);

/* Parks it; true with *event when one is pending: it is BUSY still. */
bool waiters_park(waiters *all, waiter *w, service_event *event);

/* Forgets it, in any state; nothing when it was never registered. */
void waiters_leave(waiters *all, waiter *w);

/* The reply that woke a waiter, which the caller frees; NULL: it has to ask. */
char *waiters_take_reply(waiter *w);

/* A message on this server's channel:
 *   W <key>                                                wake
 *   A <ms> <base> <function> <text>                        alarm
 *   R <number>[,<number>...] <key> <base> <function> <text>  wake; the numbers are the reply to what the woken call
 *                                                          would ask. Where nobody waits with that key, function(text)
 *                                                          is called until it is done */
void waiters_message(waiters *all, const char *data, size_t len);

/* Messages may have been missed, or what the store kept is lost: every waiter is woken. */
void waiters_missed(waiters *all);

/* Nobody will read what a registered waiter is told: SERVICE_ABANDONED, now or when it
 * parks. Nothing for one that is not registered. */
void waiters_abandon(waiters *all, waiter *w);

/* Whether anybody is registered. */
bool waiters_any(const waiters *all);

/* The server is stopping: every waiter gets SERVICE_STOPPING, now or when it parks. */
void waiters_stop(waiters *all);

#endif
