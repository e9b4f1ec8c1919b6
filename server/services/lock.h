/* Shared by lock.c and lock_admin.c, and used in part by GuardService. All functions are in lock.c. */
#ifndef LOCKSTOCK_SERVER_LOCK_H
#define LOCKSTOCK_SERVER_LOCK_H

#include "lockstock/v1/lock.lks.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"

enum { LOCK_WAIT_MS_MAX = 86400000 };

/* Returns the weight of a call that takes n targets. */
size_t lock_weight(size_t n_targets);

/* Check a request; errors name the field. */
void lock_check_token(plan *p, const char *field, const char *token);
void lock_check_lease(plan *p, const char *field, int64_t lease_ms);
void lock_check_targets(plan *p, size_t n, lks_target *const *targets);

/* Convert a lease as its holder knows it to the lease in the store, and back. */
int64_t lock_stored_lease(const plan *p, int64_t lease_ms);
int64_t lock_holder_lease(const plan *p, int64_t stored_ms);

/* Returns a target as the functions take and store it: EXCLUSIVE is the name alone. */
const char *lock_target_text(plan *p, const lks_target *target);

/* Lets the call wait: events name it by its token, it watches the alarms of its targets, and when it ends without an
 * answer the store removes this copy of it, and no other. token: as the functions take it. */
void lock_plan_wait(plan *p, lks_rpc_slice base, size_t n, lks_target *const *targets, const char *token,
                    const char *copy);

/* Renews everything that the token holds in the group. */
void lock_plan_renew_all(plan *p, lks_rpc_slice base, const char *token, int64_t lease_ms);

/* Releases everything that the token holds or waits for in the group, with lock_release or lock_release_unseen. */
void lock_plan_release_all(plan *p, const plan_function *function, lks_rpc_slice base, const char *token);

/* Handles {"QUEUED", ms...}: the call waits; this server calls lock_promote when a lease or an offer that it waits for
 * ends. */
void lock_keep_waiting(answer *a, size_t n, lks_target *const *targets, const store_value *reply);

/* Returns the fences of a grant, without their numbers. */
lks_fence **lock_fences(answer *a, size_t n, lks_target *const *targets);

/* Reads {outcome, place of a target, its holder's owner, ms left}. */
lks_holder *lock_holder(answer *a, size_t n, lks_target *const *targets, const store_value *reply);

#endif
