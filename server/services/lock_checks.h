/* What GuardService uses of LockService; lock.c has it. */
#ifndef LOCKSTOCK_SERVER_LOCK_CHECKS_H
#define LOCKSTOCK_SERVER_LOCK_CHECKS_H

#include "lockstock/v1/lock.lks.h"
#include "services/service.h"

enum { LOCK_WAIT_MS_MAX = 86400000 };

/* What a call to take so many targets weighs. */
size_t lock_weight(size_t n_targets);

/* Checks of a request, which name the field. */
void lock_check_token(plan *p, const char *field, const char *token);
void lock_check_lease(plan *p, const char *field, int64_t lease_ms);
void lock_check_targets(plan *p, size_t n, lks_target *const *targets);

/* As the functions take and store it: EXCLUSIVE is the name alone. */
const char *lock_target_text(plan *p, const lks_target *target);

#endif
