/* Why a lock has a fence: the first holder freezes for longer than its lease, the second one works, and the late write
 * of the first one is refused. */
#include <lockstock/lockstock.h>
#include <stdio.h>

/* Acquires the lock "report"; waits for its turn. */
static lks_code lock(lks_channel *channel, const char *owner, int64_t lease_ms, uint64_t *fence, lks_error *error)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    target.name = "report";
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    request.n_targets = 1;
    request.targets = targets;
    request.owner = owner;
    request.lease_ms = lease_ms;
    request.wait_ms = 5000;
    lks_acquire_response *response;
    lks_code code = lks_lock_acquire(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    if (response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED)
        *fence = response->fences[0]->fence; /* and response->token, to renew and release */
    else
        code = lks_error_set(error, LKS_ABORTED, LKS_APPLIED_NO, "%s holds it", response->holder->owner);
    lks_acquire_response_free(response);
    return code;
}

/* Writes if no later holder has. A database would do this in its own transaction:
 * UPDATE report SET body = ..., fence = :fence WHERE id = 1 AND fence <= :fence */
static lks_code write_report(lks_channel *channel, const char *who, uint64_t fence, lks_error *error)
{
    lks_check_fence_request request = LKS_CHECK_FENCE_REQUEST_INIT;
    request.resource = "report";
    request.fence = fence;
    lks_check_fence_response *response;
    lks_code code = lks_lock_check_fence(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    printf("%s %s\n", who, response->outcome == LKS_CHECK_FENCE_OUTCOME_OK ? "writes" : "is too late");
    lks_check_fence_response_free(response);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_error error;
    uint64_t first, second;
    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK) {
        if ((code = lock(channel, "the first", 100, &first, &error)) == LKS_OK && /* and freezes */
            (code = lock(channel, "the second", 1000, &second, &error)) == LKS_OK &&
            (code = write_report(channel, "the second", second, &error)) == LKS_OK)
            code = write_report(channel, "the first", first, &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    return code != LKS_OK;
}
