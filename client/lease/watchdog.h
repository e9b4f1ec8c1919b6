/* The one thread of the process that renews leases and tells of those that are lost.
 * All functions are thread-safe and do not block, but for watchdog_quiesce. */
#ifndef LOCKSTOCK_CLIENT_LEASE_WATCHDOG_H
#define LOCKSTOCK_CLIENT_LEASE_WATCHDOG_H

#include "client/lease/hold.h"

/* The watch over the leases of a channel, one a channel, counted. NULL: out of memory. */
struct watch *watchdog_attach(lks_channel *channel);
void watchdog_detach(struct watch *watch);

/* Before a lock is asked for: sees to a thread and to room, so that nothing can go
 * wrong once it is granted. Ended by watchdog_unexpect or watchdog_end.
 * LKS_RESOURCE_EXHAUSTED. */
lks_code watchdog_expect(struct watch *watch, lks_error *error);
void watchdog_unexpect(struct watch *watch);

/* The lease of a hold has `left_ms` to run, from when `sent_ns` was. The hold has one
 * reference, its holder's. */
void watchdog_begin(struct hold *hold, uint64_t sent_ns, int64_t left_ms);

/* When it returns nothing renews the hold any more, and its on_lost does not begin any
 * more. Returns whether it was lost by then. */
bool watchdog_end(struct hold *hold);

/* Gives the holder's reference up: the hold is freed, now or after the renewal or
 * on_lost that it is in. */
void watchdog_drop(struct hold *hold);

bool watchdog_is_lost(const struct hold *hold);

/* Until it counts as lost unless it is renewed; 0 = it does. */
uint64_t watchdog_left_ns(const struct hold *hold);

/* The hold whose on_lost the calling thread runs; NULL: it runs none. */
const struct hold *watchdog_telling(void);

/* Waits until no on_lost of this lock, which has no holds any more, runs. Not in an
 * on_lost. */
void watchdog_quiesce(const struct lock *lock);

#endif
