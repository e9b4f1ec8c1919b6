/* The leases of an attempt and of locks, kept while the handler runs. Invariant: a lease refers to its call until its last
 * renewal has been answered. */
#include <lockstock/v1/idempotency.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>

#include "client/guard/guarded.h"
#include "client/lease/lease_time.h"
#include "client/once_attempt.h"

static struct guard_lease *of(struct lease *lease)
{
    return (struct guard_lease *)((char *)lease - offsetof(struct guard_lease, lease));
}

static void free_kept(struct lease *lease)
{
    guarded_unref(of(lease)->of);
}

void guarded_end(struct guard_lease *lease)
{
    if (!lease->of || lease->ended)
        return;
    lease->ended = true;
    lease_end(&lease->lease);
    lease_drop(&lease->lease);
}

lks_extend_request guarded_extend(const lks_guarded *g)
{
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;

    request.scope = g->guard->idempotency->scope;
    request.key = g->key;
    request.fence = g->fence;
    request.lease_ms = g->attempt.lease.lease_ms;
    return request;
}

static lks_code extend(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    const lks_extend_request request = guarded_extend(of(batch->renewals[0].lease)->of);

    return lks_idempotency_extend_start(channel, &request, &options, once_extended, batch, NULL, error);
}

/* Empty: each name is its own group, of which there is one. */
const char *guarded_group(const lks_guarded *g)
{
    return *g->guard->lock->group != '\0' ? g->guard->lock->group : g->names[0];
}

lks_lease guarded_renewal(lks_guarded *g)
{
    lks_lease lease = LKS_LEASE_INIT;

    lease.group = guarded_group(g);
    lease.token = g->locks.token;
    lease.lease_ms = g->locks.lease.lease_ms;
    return lease;
}

/* Of the one lease that was to be renewed; 0: it is lost. */
int64_t guarded_renewed_ms(const lks_renew_response *response)
{
    bool renewed = response->n_results == 1 && response->results[0]->outcome == LKS_RENEW_OUTCOME_RENEWED;

    return renewed ? response->results[0]->lease_ms : 0;
}

static void renewed(void *arg, lks_code code, const lks_renew_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;

    batch->renewals[0].left_ms = code == LKS_OK ? guarded_renewed_ms(response) : 0;
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_code renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_lease one = guarded_renewal(of(batch->renewals[0].lease)->of), *leases[] = {&one};

    request.n_leases = 1;
    request.leases = leases;
    return lks_lock_renew_start(channel, &request, &options, renewed, batch, NULL, error);
}

static const lease_kind attempt_kind = {.batch_max = 1, .renew = extend, .free = free_kept};
static const lease_kind locks_kind = {.batch_max = 1, .renew = renew, .free = free_kept};

static lks_code expect(lks_guarded *g, struct guard_lease *lease, const lease_kind *kind, int64_t lease_ms,
                       lks_error *error)
{
    lease->lease = (struct lease){.kind = kind,
                                  .channel = g->channel,
                                  .lease_ms = lease_ms > 0 ? (uint32_t)lease_ms : LEASE_DEFAULT_MS,
                                  .keep_ms = LEASE_ALWAYS};
    lks_code code = lease_expect(&lease->lease, error);

    if (code != LKS_OK)
        return code;
    lease->of = g;
    guarded_ref(g);
    lks_rpc_random_id(lease->token);
    return LKS_OK;
}

lks_code guarded_expect(lks_guarded *g, lks_error *error)
{
    const lks_rpc_guard *guard = g->guard;
    lks_code code = LKS_OK;

    if (guard->idempotency)
        code = expect(g, &g->attempt, &attempt_kind, guard->idempotency->lease_ms, error);
    if (code == LKS_OK && guard->lock)
        code = expect(g, &g->locks, &locks_kind, guard->lock->lease_ms, error);
    return code;
}
