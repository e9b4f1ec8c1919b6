/* Records of idempotency in every state, tickets used and unused; counters of every
 * algorithm with bans, request ids and stored policies; ids of every kind. */

#include <lockstock/v1/id.lks_client.h>
#include <lockstock/v1/idempotency.lks_client.h>
#include <lockstock/v1/ratelimit.lks_client.h>

#include "fault/memory_load.h"
#include "test.h"

enum { BRIEF_MS = 20, LONG_MS = 60000, NAME_MAX_BYTES = 64, SEQUENCES = 4 };

/* "what-round", to be overwritten by the next but 63. */
static char *named(const char *what, size_t round)
{
    static char names[64][NAME_MAX_BYTES];
    static size_t next;
    char *name = names[next++ % 64];

    snprintf(name, NAME_MAX_BYTES, "%s-of-the-round-%zu", what, round);
    return name;
}

/* ---- idempotency ---------------------------------------------------------------- */

static char scope[] = "pay";

static lks_begin_request begin_request(size_t round, const char *what, const char *token, int64_t lease_ms)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = scope;
    request.key = named(what, round);
    request.attempt_token = named(token, round);
    request.lease_ms = lease_ms;
    return request;
}

static uint64_t begin(lks_channel *channel, lks_begin_request request, int64_t wait_ms, lks_begin_outcome expected)
{
    lks_begin_response *response = NULL;
    lks_error error;

    request.wait_ms = wait_ms;
    load_ok(lks_idempotency_begin(channel, &request, NULL, &response, &error), &error, "Begin");
    assert_int_equal(response->outcome, expected);
    uint64_t fence = response->fence;
    lks_begin_response_free(response);
    return fence;
}

static void complete(lks_channel *channel, size_t round, const char *what, uint64_t fence)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;
    uint8_t body[100] = {1};
    lks_error error;

    request.scope = scope;
    request.key = named(what, round);
    request.fence = fence;
    request.body.data = body;
    request.body.len = sizeof body;
    load_ok(lks_idempotency_complete(channel, &request, NULL, NULL, &error), &error, "Complete");
}

static void fail_attempt(lks_channel *channel, size_t round, const char *what, uint64_t fence, lks_fail_kind kind)
{
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;
    lks_error error;

    request.scope = scope;
    request.key = named(what, round);
    request.fence = fence;
    request.kind = kind;
    load_ok(lks_idempotency_fail(channel, &request, NULL, NULL, &error), &error, "Fail");
}

static void tickets(lks_channel *const channels[], size_t round)
{
    for (int i = 0; i < 2; i++) {
        lks_issue_ticket_request issue = LKS_ISSUE_TICKET_REQUEST_INIT;
        lks_consume_ticket_request consume = LKS_CONSUME_TICKET_REQUEST_INIT;
        lks_issue_ticket_response *response = NULL;
        lks_error error;
        issue.scope = consume.scope = scope;
        issue.subject = consume.subject = named("subject", round);
        issue.ttl_ms = LONG_MS;
        load_ok(lks_idempotency_issue_ticket(channels[0], &issue, NULL, &response, &error), &error, "IssueTicket");
        consume.ticket = response->ticket;
        if (i == 0)
            load_ok(lks_idempotency_consume_ticket(channels[1], &consume, NULL, NULL, &error), &error, "ConsumeTicket");
        lks_issue_ticket_response_free(response);
    }
}

void load_idempotency(lks_channel *const channels[LOAD_SERVERS], size_t round)
{
    lks_delete_request forget = LKS_DELETE_REQUEST_INIT;
    lks_call *waiting = NULL;
    lks_error error;

    /* Completed while another one waits for it. */
    uint64_t fence =
        begin(channels[0], begin_request(round, "completed", "token-one", LONG_MS), 0, LKS_BEGIN_OUTCOME_EXECUTE);
    lks_begin_request other = begin_request(round, "completed", "token-two", LONG_MS);
    other.wait_ms = LONG_MS;
    load_ok(lks_idempotency_begin_start(channels[1], &other, NULL, NULL, NULL, &waiting, &error), &error, "Begin");
    load_look("idem:w");
    complete(channels[0], round, "completed", fence);
    load_ok(lks_call_wait(waiting, &error), &error, "the waiting Begin");
    assert_int_equal(lks_idempotency_begin_response(waiting)->outcome, LKS_BEGIN_OUTCOME_REPLAY);
    lks_call_free(waiting);

    fence = begin(channels[0], begin_request(round, "failed", "token-one", LONG_MS), 0, LKS_BEGIN_OUTCOME_EXECUTE);
    fail_attempt(channels[1], round, "failed", fence, LKS_FAIL_KIND_RETRYABLE);
    fence = begin(channels[0], begin_request(round, "failed", "token-two", LONG_MS), 0, LKS_BEGIN_OUTCOME_EXECUTE);
    fail_attempt(channels[1], round, "failed", fence, LKS_FAIL_KIND_FINAL);

    begin(channels[0], begin_request(round, "taken-over", "token-one", BRIEF_MS), 0, LKS_BEGIN_OUTCOME_EXECUTE);
    begin(channels[1], begin_request(round, "taken-over", "token-two", LONG_MS), LONG_MS, LKS_BEGIN_OUTCOME_EXECUTE);
    begin(channels[0], begin_request(round, "taken-over", "token-six", LONG_MS), BRIEF_MS,
          LKS_BEGIN_OUTCOME_IN_PROGRESS);

    begin(channels[0], begin_request(round, "forgotten", "token-one", LONG_MS), 0, LKS_BEGIN_OUTCOME_EXECUTE);
    forget.scope = scope;
    forget.key = named("forgotten", round);
    load_ok(lks_idempotency_delete(channels[0], &forget, NULL, NULL, &error), &error, "Delete");
    tickets(channels, round);
}

/* ---- rates ----------------------------------------------------------------------- */

/* request_id NULL: none. */
static void check(lks_channel *channel, lks_rule *rules[], size_t n, size_t round, const char *request_id)
{
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_error error;

    request.group = named("gate", round);
    request.n_rules = n;
    request.rules = rules;
    if (request_id)
        request.request_id = named(request_id, round);
    load_ok(lks_rate_limit_check(channel, &request, NULL, NULL, &error), &error, "Check");
}

static void put_policy(lks_channel *channel, size_t round)
{
    lks_put_policy_request request = LKS_PUT_POLICY_REQUEST_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_error error;

    request.name = named("policy", round);
    request.limit = &limit;
    limit.algorithm = LKS_ALGORITHM_TOKEN_BUCKET;
    limit.limit = 10;
    limit.period_ms = 1000;
    load_ok(lks_rate_limit_put_policy(channel, &request, NULL, NULL, &error), &error, "PutPolicy");
}

void load_rates(lks_channel *const channels[LOAD_SERVERS], size_t round)
{
    static const lks_algorithm algorithms[] = {LKS_ALGORITHM_FIXED_WINDOW, LKS_ALGORITHM_SLIDING_LOG,
                                               LKS_ALGORITHM_SLIDING_WINDOW, LKS_ALGORITHM_TOKEN_BUCKET};
    enum { N = sizeof algorithms / sizeof *algorithms };
    lks_limit limits[N];
    lks_penalty penalty = LKS_PENALTY_INIT;
    lks_rule rules[N], *at[N + 1], by_name = LKS_RULE_INIT;
    lks_refund_request refund = LKS_REFUND_REQUEST_INIT;
    lks_reset_request reset = LKS_RESET_REQUEST_INIT;
    lks_delete_policy_request forget = LKS_DELETE_POLICY_REQUEST_INIT;
    lks_error error;

    penalty.after = 2;
    penalty.ban_ms = LONG_MS;
    penalty.factor = 2;
    penalty.max_ban_ms = 10 * LONG_MS;
    for (size_t i = 0; i < N; i++) {
        limits[i] = (lks_limit)LKS_LIMIT_INIT;
        limits[i].algorithm = algorithms[i];
        limits[i].limit = 2;
        limits[i].period_ms = LONG_MS;
        limits[i].penalty = &penalty;
        rules[i] = (lks_rule)LKS_RULE_INIT;
        rules[i].key = named("buyer", round);
        lks_rule_set_limit(&rules[i], &limits[i]);
        at[i] = &rules[i];
    }
    put_policy(channels[0], round);
    by_name.key = named("visitor", round);
    lks_rule_set_policy(&by_name, named("policy", round));
    at[N] = &by_name;
    check(channels[0], at, N + 1, round, "first-request");
    load_look("rate:p");
    refund.group = named("gate", round);
    refund.request_id = named("first-request", round);
    load_ok(lks_rate_limit_refund(channels[1], &refund, NULL, NULL, &error), &error, "Refund");
    for (size_t i = 0; i < 5; i++)
        check(channels[i % 2], at, N, round, i == 0 ? "second-request" : NULL);
    reset.group = named("gate", round);
    reset.key = named("visitor", round);
    load_ok(lks_rate_limit_reset(channels[0], &reset, NULL, NULL, &error), &error, "Reset");
    forget.name = named("policy", round);
    load_ok(lks_rate_limit_delete_policy(channels[1], &forget, NULL, NULL, &error), &error, "DeletePolicy");
}

/* ---- ids ------------------------------------------------------------------------- */

void load_ids(lks_channel *const channels[LOAD_SERVERS], size_t round)
{
    static const lks_id_kind kinds[] = {LKS_ID_KIND_SNOWFLAKE, LKS_ID_KIND_UUID_V7, LKS_ID_KIND_SEQUENCE};

    for (size_t i = 0; i < 3; i++) {
        lks_next_request request = LKS_NEXT_REQUEST_INIT;
        lks_error error;
        request.kind = kinds[i];
        request.name = kinds[i] == LKS_ID_KIND_SEQUENCE ? named("sequence", round % SEQUENCES) : request.name;
        load_ok(lks_id_next(channels[round % LOAD_SERVERS], &request, NULL, NULL, &error), &error, "Next");
    }
}
