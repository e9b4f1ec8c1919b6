/* A limit that is stored under a name, so that it can be changed at any time: three text messages an hour for each
 * number. A message that was not sent is given back.
 *
 *     ratelimit [URL] */
#include <lockstock/lockstock.h>
#include <stdio.h>

static lks_code put_limit(lks_channel *channel, lks_error *error)
{
    lks_limit limit = LKS_LIMIT_INIT;
    limit.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    limit.limit = 3;
    limit.period_ms = 3600000;
    lks_put_policy_request request = LKS_PUT_POLICY_REQUEST_INIT;
    request.name = "text-message";
    request.limit = &limit;
    return lks_rate_limit_put_policy(channel, &request, NULL, NULL, error);
}

/* `id` identifies this message: a repeat gets the same answer, and is charged once. */
static lks_code check(lks_channel *channel, const char *number, const char *id, lks_error *error)
{
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_rule_set_policy(&rule, "text-message");
    rule.key = number;
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    request.n_rules = 1;
    request.rules = rules;
    request.request_id = id;
    lks_check_response *response;
    lks_code code = lks_rate_limit_check(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    const lks_rule_result *result = response->rules[0];
    if (response->outcome == LKS_CHECK_OUTCOME_ALLOWED)
        printf("%s: sent, %lld left\n", id, (long long)result->remaining);
    else
        printf("%s: not before %s\n", id, result->retry_after_ms > 60000 ? "many minutes" : "a moment");
    lks_check_response_free(response);
    return LKS_OK;
}

/* A check without a group uses its key as the group. */
static lks_code give_back(lks_channel *channel, const char *number, const char *id, lks_error *error)
{
    lks_refund_request request = LKS_REFUND_REQUEST_INIT;
    request.group = number;
    request.request_id = id;
    lks_refund_response *response;
    lks_code code = lks_rate_limit_refund(channel, &request, NULL, &response, error);
    if (code != LKS_OK)
        return code;
    printf("%s: %s\n", id, response->outcome == LKS_REFUND_OUTCOME_REFUNDED ? "given back" : "nothing to give back");
    lks_refund_response_free(response);
    return LKS_OK;
}

int main(int argc, char **argv)
{
    static const char *const messages[] = {"message-1", "message-2", "message-3", "message-4", "message-5"};
    lks_channel *channel;
    lks_error error;
    lks_code code = lks_channel_open(argc > 1 ? argv[1] : "tcp://127.0.0.1:7700", NULL, &channel, &error);
    if (code == LKS_OK) {
        code = put_limit(channel, &error);
        for (int i = 0; i < 4 && code == LKS_OK; i++)
            code = check(channel, "+431234567", messages[i], &error);
        if (code == LKS_OK && (code = give_back(channel, "+431234567", messages[2], &error)) == LKS_OK)
            code = check(channel, "+431234567", messages[4], &error);
        lks_channel_close(channel);
    }
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error.message);
    return code != LKS_OK;
}
