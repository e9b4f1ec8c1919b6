/* Locks, taken and given back: what mutex.c, rwlock.c and semaphore.c are faces of.
 * Results, codes and errors are those of the public headers. */
#ifndef LOCKSTOCK_CLIENT_LEASE_LOCK_H
#define LOCKSTOCK_CLIENT_LEASE_LOCK_H

#include "client/lease/hold.h"

/* `capacity` is that of a semaphore; else 0. */
lks_code lock_new(lks_channel *channel, const char *name, int64_t capacity, const lks_lock_options *options,
                  struct lock **ret, lks_error *error);
lks_code lock_free(struct lock *lock);

/* A hold of nobody in particular. */
lks_lock_result lock_take(struct lock *lock, lks_lock_mode mode, int64_t permits, uint32_t timeout_ms,
                          struct hold **ret, lks_error *error);
lks_code lock_give_back(struct hold *hold, lks_error *error);
bool lock_is_lost(const struct hold *hold);
uint64_t lock_left_ns(const struct hold *hold);

/* Releases what the token holds in the group, in the background; where that cannot even be started the lease ends by
 * itself. */
void lock_release_later(lks_channel *of, const char *group, const char *token);

/* The calling thread's hold of the lock, counted. */
lks_lock_result lock_enter(struct lock *lock, lks_lock_mode mode, uint32_t timeout_ms, lks_error *error);
lks_code lock_leave(struct lock *lock, lks_error *error);

/* How this process is told to who asks who holds a lock: "host/pid"; to be freed. NULL when out of memory. */
char *lock_own_name(void);

/* The calling thread's hold; NULL when there is none. */
const struct hold *lock_mine(const struct lock *lock);

#endif
