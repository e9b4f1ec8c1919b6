/* Quotas of namespaces: keys and bytes in the store, and calls that wait at this server. When a quota is used up, calls
 * that take are refused; calls that end or keep something (Release, Confirm) and ADMIN calls are not. Passes through
 * the store count keys and bytes; a pass begins a second after the last one ended. So a namespace may exceed its quota
 * by what it stores during two passes, and stays refused until a pass has seen that it deleted something. Keys outside
 * of namespaces are not counted. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_QUOTAS_H
#define LOCKSTOCK_SERVER_QUOTAS_H

#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>

#include "base/named.h"
#include "store/store.h"

struct uv_loop_s;

typedef struct quotas quotas;

/* Of each namespace; 0 = no limit. */
typedef struct quotas_limits {
    int64_t keys, bytes, waiters;
} quotas_limits;

quotas *quotas_new(struct uv_loop_s *loop, store *store, const quotas_limits *limits);

/* The store is ready: begins to count, if keys or bytes are limited. */
void quotas_begin(quotas *q);

/* Checks whether the namespace may store more. base: the base of a call that takes, "ls:{<namespace>/...}:", with the
 * namespace percent-encoded. ns: the namespace, for the message. LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO: it may not. */
lks_code quotas_check(const quotas *q, lks_rpc_slice base, lks_rpc_slice ns, lks_error *error);

/* Counts one more waiting call of the namespace, until quotas_leave. *ret is NULL when waiting calls are not limited.
 * LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO: the quota is used up, or out of memory; nothing is counted. */
lks_code quotas_wait(quotas *q, lks_rpc_slice ns, named_entry **ret, lks_error *error);

/* Takes NULL. */
void quotas_leave(quotas *q, named_entry *sum);

/* Like pass_stop and pass_close; close it when no call waits. They take NULL. */
void quotas_stop(quotas *q);
void quotas_close(quotas *q);

#endif
