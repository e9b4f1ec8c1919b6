/* Invariant: what is failed is the attempt of the token that began it, no other. */
#include "client/once_back.h"

#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/idempotency.lks_client.h>

#include "client/lease/lease_time.h"

static const lks_call_options in_background = {.timeout_ms = LEASE_BACKGROUND_MS, .insist = true};

void once_fail(lks_channel *channel, const char *scope, const char *key, uint64_t fence)
{
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;

    request.scope = scope;
    request.key = key;
    request.fence = fence;
    request.kind = LKS_FAIL_KIND_RETRYABLE;
    lks_idempotency_fail_start(channel, &request, &in_background, NULL, NULL, NULL, NULL);
}

struct abandoned {
    lks_channel *channel;
    char *scope, *key;
};

static void abandoned_free(struct abandoned *abandoned)
{
    free(abandoned->scope);
    free(abandoned->key);
    free(abandoned);
}

/* On the completion thread. */
static void fail_begun(void *arg, lks_code code, const lks_begin_response *response, const lks_error *error)
{
    struct abandoned *abandoned = arg;

    (void)error;
    if (code == LKS_OK && response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)
        once_fail(abandoned->channel, abandoned->scope, abandoned->key, response->fence);
    abandoned_free(abandoned);
}

void once_give_back(lks_channel *channel, const lks_begin_request *begin)
{
    lks_begin_request request = *begin;
    struct abandoned *abandoned = calloc(1, sizeof *abandoned);

    if (!abandoned)
        return;
    abandoned->channel = channel;
    abandoned->scope = strdup(begin->scope);
    abandoned->key = strdup(begin->key);
    request.wait_ms = 0;
    if (!abandoned->scope || !abandoned->key ||
        lks_idempotency_begin_start(channel, &request, &in_background, fail_begun, abandoned, NULL, NULL) != LKS_OK)
        abandoned_free(abandoned);
}
