/* Charges the card once for an order, however often it is asked to: the first call charges, the others get its
 * result. */
#include <lockstock/lockstock.h>
#include <stdio.h>
#include <string.h>

/* Stores the result of the attempt, and wakes the callers that wait for it. */
static lks_code complete(lks_channel *channel, const char *order, uint64_t fence, const char *receipt, lks_error *error)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;
    request.scope = "charge";
    request.key = order;
    request.fence = fence;
    request.code = 200;
    request.body.data = (uint8_t *)receipt;
    request.body.len = strlen(receipt);
    lks_complete_response *response;
    lks_code code = lks_idempotency_complete(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    printf(response->outcome == LKS_COMPLETE_OUTCOME_STORED ? "charged: %s\n" : "too late: %s\n", receipt);
    lks_complete_response_free(response);
    return LKS_OK;
}

static lks_code charge(lks_channel *channel, const char *order, const char *amount, lks_error *error)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    request.scope = "charge";
    request.key = order;
    request.fingerprint.data = (uint8_t *)amount; /* another amount for the order is an error */
    request.fingerprint.len = strlen(amount);
    request.lease_ms = 30000; /* after that another caller may try; the card service has the order as its key, too */
    request.wait_ms = 5000;
    lks_begin_response *response;
    lks_code code = lks_idempotency_begin(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    char receipt[64];
    switch (response->outcome) {
    case LKS_BEGIN_OUTCOME_EXECUTE:
        snprintf(receipt, sizeof receipt, "%s for %s", amount, order); /* here the card would be charged */
        code = complete(channel, order, response->fence, receipt, error);
        break;
    case LKS_BEGIN_OUTCOME_REPLAY:
        printf("charged before: %.*s\n", (int)response->result->body.len, (char *)response->result->body.data);
        break;
    case LKS_BEGIN_OUTCOME_MISMATCH:
        printf("refused: %s was for another amount\n", order);
        break;
    default:
        printf("still running\n");
    }
    lks_begin_response_free(response);
    return code;
}

int main(int argc, char **argv)
{
    lks_channel *channel;
    lks_error error;
    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK) {
        if ((code = charge(channel, "order-7", "20 EUR", &error)) == LKS_OK &&
            (code = charge(channel, "order-7", "20 EUR", &error)) == LKS_OK)
            code = charge(channel, "order-7", "90 EUR", &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s, applied %s: %s\n", lks_code_name(code), lks_applied_name(error.applied), error.message);
    return code != LKS_OK;
}
