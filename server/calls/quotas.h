/* What a namespace may have: keys and bytes in the store, and calls that wait at this server. A namespace that has as much as
 * its quota gets no more: calls that take are refused, those that end or keep something (Release, Confirm) and ADMIN calls are
 * not. Keys and bytes are counted by passes through the store, of which one begins a second after the other has ended. So a
 * namespace may go over by what it stores in two passes, and is refused until the pass after it has deleted. What Redis has
 * outside of namespaces is not counted. Loop thread only. */
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

/* The store is ready: begins to count, when there is a limit to what it holds. */
void quotas_begin(quotas *q);

/* Whether the namespace may store more. base: of a call that takes, "ls:{<namespace>/...}:", the namespace percent-encoded.
 * ns: the namespace, for the message. LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO: it may not. */
lks_code quotas_check(const quotas *q, lks_rpc_slice base, lks_rpc_slice ns, lks_error *error);

/* One more call of the namespace waits, until quotas_leave. *ret NULL: nobody counts. LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO:
 * its quota is used up, or no memory; nothing is counted. */
lks_code quotas_wait(quotas *q, lks_rpc_slice ns, named_entry **ret, lks_error *error);

/* Nothing where sum is NULL. */
void quotas_leave(quotas *q, named_entry *sum);

/* As those of pass.h; when it is closed nobody waits. Take NULL. */
void quotas_stop(quotas *q);
void quotas_close(quotas *q);

#endif
