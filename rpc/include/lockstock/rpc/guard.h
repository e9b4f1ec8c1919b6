/* The guard of a method: the option (lockstock.rpc.v1.guard) in the generated skeleton. options.proto describes each
 * part. Static and constant. The generator has checked all paths. Strings are "" if the option is empty. */
#ifndef LOCKSTOCK_RPC_GUARD_H
#define LOCKSTOCK_RPC_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Paths end with NULL. An outcome is a number of the enum of lks_rpc_guard.outcome; 0: the refusal is a code. */
typedef struct lks_rpc_guard_limit {
    const char *const *key;
    const char *name; /* NULL or "": the path of the method */
    const char *group;
    const char *policy; /* "": use limit and period_ms */
    int64_t limit, period_ms, burst;
    int algorithm; /* of lockstock.v1.Algorithm; 0: SLIDING_WINDOW */
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

/* NULL: none. */
typedef struct lks_rpc_guard {
    const lks_rpc_guard_limit *rate_limit;
    const lks_rpc_guard_idempotency *idempotency;
    const lks_rpc_guard_lock *lock;
    const char *group;       /* of each part without a group; NULL or "": each has its own */
    const char *outcome;     /* a field of the response */
    const char *retry_after; /* a field of the response */
} lks_rpc_guard;

#ifdef __cplusplus
}
#endif

#endif
