/* What is to be done around a method's handler: the option (lockstock.rpc.v1.guard) as the generated skeleton holds it.
 * options.proto says what each part means. Static and constant; paths exist, and lead where options.proto says: the
 * generator has seen to it. Strings are "" where the option is empty. */
#ifndef LOCKSTOCK_RPC_GUARD_H
#define LOCKSTOCK_RPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The paths end with NULL. An outcome is the number of a value of lks_rpc_guard.outcome's enum; 0 = the refusal is
 * told by a code. */
typedef struct lks_rpc_guard_limit {
    const char *const *key;
    const char *name; /* NULL or "": the method's path */
    const char *group;
    const char *policy; /* "": limit and period_ms */
    int64_t limit, period_ms, burst;
    int algorithm; /* as lockstock.v1.Algorithm; 0 = SLIDING_WINDOW */
    bool fail_open;
    int denied;
} lks_rpc_guard_limit;

typedef struct lks_rpc_guard_idempotency {
    const char *scope;
    const char *const *key;
    const char *group;
    int64_t lease_ms, retain_ms, wait_ms;
    bool key_alone;
    int in_progress, mismatch;
} lks_rpc_guard_idempotency;

typedef struct lks_rpc_guard_lock {
    const char *prefix;
    const char *const *keys;
    const char *group;
    int64_t wait_ms, lease_ms;
    int busy;
} lks_rpc_guard_lock;

/* NULL: not there. */
typedef struct lks_rpc_guard {
    const lks_rpc_guard_limit *rate_limit;
    const lks_rpc_guard_idempotency *idempotency;
    const lks_rpc_guard_lock *lock;
    const char *outcome;     /* a field of the response */
    const char *retry_after; /* a field of the response */
} lks_rpc_guard;

#ifdef __cplusplus
}
#endif

#endif
