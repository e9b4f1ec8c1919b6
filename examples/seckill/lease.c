#include "lease.h"

#include <stdio.h>

lks_code lease_acquire(lks_channel *channel, const char *name, const char *owner, int64_t lease_ms, int64_t wait_ms,
                       lease *held, lks_acquire_outcome *ret, lks_error *error)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;

    target.name = name;
    request.n_targets = 1;
    request.targets = targets;
    request.token = held->token;
    request.owner = owner;
    request.lease_ms = lease_ms;
    request.wait_ms = wait_ms;
    lks_code code = lks_lock_acquire(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    *ret = response->outcome;
    if (response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED) {
        snprintf(held->token, sizeof held->token, "%s", response->token);
        held->fence = response->fences[0]->fence;
    }
    lks_acquire_response_free(response);
    return LKS_OK;
}

lks_code lease_release(lks_channel *channel, const char *name, const lease *held, bool *was_held, lks_error *error)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    lks_release_response *response = NULL;

    request.group = name;
    request.token = held->token;
    lks_code code = lks_lock_release(channel, &request, NULL, &response, error);
    if (code == LKS_OK && was_held)
        *was_held = response->outcome == LKS_RELEASE_OUTCOME_RELEASED;
    lks_release_response_free(response);
    return code;
}

lks_code lease_inspect(lks_channel *channel, const char *name, lease_look *ret, lks_error *error)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response = NULL;

    request.name = name;
    lks_code code = lks_lock_inspect(channel, &request, NULL, &response, error);
    if (code == LKS_OK) {
        *ret = (lease_look){.held = response->n_holders > 0, .waiters = response->waiters};
        ret->left_ms = ret->held ? response->holders[0]->lease_ms : 0;
    }
    lks_inspect_response_free(response);
    return code;
}

lks_code lease_check_fence(lks_channel *channel, const char *resource, uint64_t fence, bool *ret, lks_error *error)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    lks_check_fence_response *response = NULL;

    request.resource = resource;
    request.fence = fence;
    lks_code code = lks_lock_check_fence(channel, &request, NULL, &response, error);
    if (code == LKS_OK)
        *ret = response->outcome == LKS_CHECK_FENCE_OUTCOME_OK;
    lks_check_fence_response_free(response);
    return code;
}
