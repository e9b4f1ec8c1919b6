/* Calls that wait. A call registers before its first store call, so that a wake
 * message which overtakes the reply is not lost, and is parked while the store has
 * said that it must wait. Nothing is polled: a parked call costs memory, and is
 * looked at again when a wake message names it, its wait is over, or its
 * connection is lost.
 *
 *   BUSY --waiters_park--> PARKED --event--> BUSY     an event that comes while BUSY
 *     \--waiters_leave                                is told by the next waiters_park
 *
 * Redis functions have no timers. An alarm is a store call that this server makes at
 * a moment (the end of a lease), as long as a call of the same group waits here; a
 * chore is one that it makes in any case.
 * Loop thread only. */
#ifndef LOCKSTOCK_SERVER_WAITERS_H
#define LOCKSTOCK_SERVER_WAITERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#include "services/service.h"
#include "store/store.h"
#include "store/wakes.h"

struct uv_loop_s;

typedef struct waiters waiters;

/* A waiting call's part in this; inside the caller's own struct. */
typedef struct waiter {
    lks_rpc_slice key; /* base and what follows it; wake messages name it */
    /* The waiter is BUSY again. Runs from the loop, never from waiters_enter, _park or
     * _leave. */
    void (*on_event)(struct waiter *w, service_event event);
    bool parked;
    unsigned pending; /* events that came while BUSY, a bit each */
    wake deadline;
    struct room *room;
    TAILQ_ENTRY(waiter) in_room;
    TAILQ_ENTRY(waiter) in_all;
} waiter;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code waiters_new(struct uv_loop_s *loop, store *store, waiters **ret, lks_error *error);

/* With no waiter registered; closes its timer. `closed` runs on the loop when it is
 * freed. */
void waiters_close(waiters *all, void (*closed)(void *arg), void *arg);

/* Registers a waiter: key and on_event are set, the rest zero; the key stays the
 * caller's. Its base ends with the first "}:". False: out of memory. */
bool waiters_enter(waiters *all, waiter *w, uint64_t deadline_ns);

/* Parks it; true with *event when one is pending: it is BUSY still. */
bool waiters_park(waiters *all, waiter *w, service_event *event);

/* Forgets it, in any state; nothing when it was never registered. */
void waiters_leave(waiters *all, waiter *w);

/* Calls `function`(argument) in in_ms; its reply {'OK', ms} says when again (-1:
 * never). Of several for the same function and argument the earliest counts. Ignored
 * when nobody of the base is registered. Text is copied. */
void waiters_alarm(waiters *all, lks_rpc_slice base, const char *function, lks_rpc_slice argument, int64_t in_ms);

/* The same without an argument, whether or not anybody is registered, until it replies
 * -1, or the server stops. Ignored beyond 65,536 of them. */
void waiters_chore(waiters *all, lks_rpc_slice base, const char *function, int64_t in_ms);

/* A message on this server's channel:
 *   W <key>                           wake
 *   A <ms> <base> <function> <text>   alarm */
void waiters_message(waiters *all, const char *data, size_t len);

/* Messages may have been missed: every waiter is woken. */
void waiters_missed(waiters *all);

/* Nobody will read what a registered waiter is told: SERVICE_ABANDONED, now or when it
 * parks. Nothing for one that is not registered. */
void waiters_abandon(waiters *all, waiter *w);

/* The server is stopping: every waiter gets SERVICE_STOPPING, now or when it parks. */
void waiters_stop(waiters *all);

#endif
