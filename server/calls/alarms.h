/* Redis functions have no timers. An alarm is a store call that this server makes at a given time, such as the end of a
 * lease:
 *
 *   watched   by waiting calls: it rings at each time that is set, and is dropped with the last such call
 *   lasting   it rings until it replies -1, is refused permanently, or the server stops
 *
 * Function and argument name an alarm of a base. Its reply is {'OK', ms until it rings again, or -1: when it is set}.
 * Loop thread only. */
#ifndef LOCKSTOCK_SERVER_ALARMS_H
#define LOCKSTOCK_SERVER_ALARMS_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#include "services/service.h"
#include "store/store.h"

struct uv_loop_s;

typedef struct alarms alarms;

alarms *alarms_new(struct uv_loop_s *loop, store *store);

/* Calls `called` for each store call that ends from now on, with any result. */
void alarms_on_call(alarms *all, void (*called)(void *arg, const store_call *call), void *arg);

/* Call this when nothing is watched and no store call is under way. `closed` runs on the loop when it is freed. */
void alarms_close(alarms *all, void (*closed)(void *arg), void *arg);

/* Watches all alarms of a list. The caller keeps the list; text is copied. The result is part of the list, may be
 * moved, and must be unwatched. */
watched *alarms_watch(alarms *all, service_watch *list);
void alarms_unwatch(alarms *all, watched *list);

/* Makes the alarm ring in in_ms; -1 = never. Of several times the earliest counts. An alarm that is not lasting is
 * ignored when no call watches it; a new lasting alarm beyond 262,144 of them is ignored. */
void alarms_set(alarms *all, const service_alarm *what);

/* Makes the store call of an alarm once, now. `is_done`: it replied -1. `what` must live until then. */
void alarms_call(alarms *all, const service_alarm *what, unsigned weight, void (*done)(void *arg, bool is_done),
                 void *arg);

/* The server stops: lasting alarms are dropped, and no alarm rings any more. */
void alarms_stop(alarms *all);

#endif
