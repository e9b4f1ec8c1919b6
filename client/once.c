/* lks_once: Begin, the function under a kept lease, Complete or Fail. Invariant: the
 * function runs only between an EXECUTE whose lease is known to run and the end that is
 * told to the server; an attempt that may have begun and is not run is given back. */
#include <lockstock/once.h>

#include <lockstock/v1/idempotency.lks_client.h>

#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "base/clock.h"
#include "client/once_attempt.h"
#include "client/once_back.h"

static lks_once_outcome refuse(lks_error *error, lks_once_outcome outcome, lks_code code, lks_reason reason,
                               const char *text)
{
    lks_error_set_reason(error, code, LKS_APPLIED_NO, reason, "%s", text);
    return outcome;
}

static void succeed(lks_error *error)
{
    *error = (lks_error){.code = LKS_OK};
}

/* ---- beginning ---------------------------------------------------------------------- */

static lks_once_result *keep_result(const lks_stored_result *stored, bool replayed)
{
    return stored ? once_result_new(stored, replayed) : NULL;
}

/* EXECUTED: the function is to be run. */
static lks_once_outcome begun(lks_once_attempt *attempt, const lks_begin_response *response, lks_once_result **result,
                              lks_error *error)
{
    switch ((int)response->outcome) {
    case LKS_BEGIN_OUTCOME_EXECUTE:
        attempt->number = response->attempt;
        attempt->fence = response->fence;
        return LKS_ONCE_EXECUTED;
    case LKS_BEGIN_OUTCOME_REPLAY:
        if (!response->result) {
            lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the answer has no stored result");
            return LKS_ONCE_FAILED;
        }
        *result = keep_result(response->result, true);
        if (*result)
            return LKS_ONCE_REPLAYED;
        return refuse(error, LKS_ONCE_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM,
                      "out of memory for the stored result");
    case LKS_BEGIN_OUTCOME_IN_PROGRESS:
        refuse(error, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_BUSY,
               "another attempt has not ended: it runs, or its process is gone and its lease goes on");
        error->retry_after_ms = response->retry_after_ms < UINT32_MAX ? (uint32_t)response->retry_after_ms : UINT32_MAX;
        return LKS_ONCE_IN_PROGRESS;
    case LKS_BEGIN_OUTCOME_MISMATCH:
        return refuse(error, LKS_ONCE_MISMATCH, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED,
                      "the key was used for another request");
    default:
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
        return LKS_ONCE_FAILED;
    }
}

/* After a wait the lease, counted from when the request was sent, may seem to be over
 * although it has just begun: only Extend tells. */
static lks_once_outcome confirm(const lks_once_attempt *attempt, lks_error *error)
{
    const lks_call_options options = {.insist = true};
    const struct lease *lease = &attempt->lease;
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;
    lks_extend_response *response = NULL;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.lease_ms = lease->lease_ms;
    if (lks_idempotency_extend(lease->channel, &request, &options, &response, error) != LKS_OK) {
        error->applied = LKS_APPLIED_MAYBE; /* the attempt has begun */
        return LKS_ONCE_FAILED;
    }
    bool extended = response->outcome == LKS_EXTEND_OUTCOME_EXTENDED;
    lks_extend_response_free(response);
    return extended ? LKS_ONCE_EXECUTED
                    : refuse(error, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_LEASE_LOST,
                             "taken over before it was known to have begun");
}

static lks_once_outcome begin(lks_once_attempt *attempt, const lks_once_options *options, lks_once_result **result,
                              lks_error *error)
{
    struct lease *lease = &attempt->lease;
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;
    lks_begin_response *response = NULL;
    lks_once_outcome outcome = LKS_ONCE_FAILED;
    uint64_t sent_ns = clock_now_ns();

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.attempt_token = attempt->token;
    request.fingerprint =
        (ProtobufCBinaryData){.len = options->fingerprint_len, .data = (uint8_t *)options->fingerprint};
    request.lease_ms = lease->lease_ms;
    request.retain_ms = options->retain_ms < INT64_MAX ? (int64_t)options->retain_ms : INT64_MAX;
    request.wait_ms = lease_wait_ms(options->wait_ms);
    if (lks_idempotency_begin(lease->channel, &request, NULL, &response, error) == LKS_OK)
        outcome = begun(attempt, response, result, error);
    lks_begin_response_free(response);
    uint64_t now_ns = clock_now_ns();
    if (outcome == LKS_ONCE_EXECUTED && lease_is_doubtful(lease->lease_ms, sent_ns, now_ns)) {
        sent_ns = now_ns;
        outcome = confirm(attempt, error);
    }
    if (outcome == LKS_ONCE_EXECUTED)
        lease_begin(lease, sent_ns, lease->lease_ms);
    else if (outcome == LKS_ONCE_FAILED && error->applied != LKS_APPLIED_NO)
        once_give_back(lease->channel, &request);
    return outcome;
}

/* ---- ending ------------------------------------------------------------------------- */

/* For as long as the lease, whatever is full meanwhile: what is not stored is done again by the next one. */
static lks_call_options ending_options(const struct lease *lease)
{
    uint32_t timeout_ms = lease->channel->options.timeout_ms;

    return (lks_call_options){.timeout_ms = timeout_ms > lease->lease_ms ? timeout_ms : lease->lease_ms,
                              .insist = true};
}

/* The result of the attempt that took over, if it has ended. */
static lks_once_outcome superseded(const lks_once_attempt *attempt, lks_once_result **result, lks_error *error)
{
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_get_response *response = NULL;

    request.scope = attempt->scope;
    request.key = attempt->key;
    if (lks_idempotency_get(attempt->lease.channel, &request, NULL, &response, NULL) == LKS_OK && response->record)
        *result = keep_result(response->record->result, true);
    lks_get_response_free(response);
    lks_error_set_reason(error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                         "another attempt took over: this one's result is not stored");
    return LKS_ONCE_SUPERSEDED;
}

static lks_once_outcome complete(const lks_once_attempt *attempt, lks_once_result **result, lks_error *error)
{
    const lks_call_options options = ending_options(&attempt->lease);
    const lks_complete_request request = once_complete_request(attempt);
    lks_complete_response *response = NULL;

    lks_code code = lks_idempotency_complete(attempt->lease.channel, &request, &options, &response, error);
    lks_complete_outcome outcome = code == LKS_OK ? response->outcome : LKS_COMPLETE_OUTCOME_UNSPECIFIED;
    lks_complete_response_free(response);
    if (outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED)
        return superseded(attempt, result, error);
    *result = keep_result(&attempt->result, false);
    if (outcome == LKS_COMPLETE_OUTCOME_STORED)
        return LKS_ONCE_EXECUTED;
    if (code == LKS_OK)
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
    return LKS_ONCE_DOUBTFUL;
}

static lks_once_outcome fail(const lks_once_attempt *attempt, bool finally, lks_once_result **result, lks_error *error)
{
    const lks_call_options options = ending_options(&attempt->lease);
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;
    lks_fail_response *response = NULL;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.kind = finally ? LKS_FAIL_KIND_FINAL : LKS_FAIL_KIND_RETRYABLE;
    if (attempt->detail)
        request.detail = attempt->detail;
    lks_code code = lks_idempotency_fail(attempt->lease.channel, &request, &options, &response, error);
    lks_fail_outcome outcome = code == LKS_OK ? response->outcome : LKS_FAIL_OUTCOME_UNSPECIFIED;
    lks_fail_response_free(response);
    if (outcome == LKS_FAIL_OUTCOME_SUPERSEDED)
        return superseded(attempt, result, error);
    if (code == LKS_OK && outcome != LKS_FAIL_OUTCOME_STORED)
        lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "an answer of an unknown kind");
    if (finally) {
        *result = once_failure_new(attempt->detail);
        return outcome == LKS_FAIL_OUTCOME_STORED ? LKS_ONCE_EXECUTED : LKS_ONCE_DOUBTFUL;
    }
    if (outcome == LKS_FAIL_OUTCOME_STORED)
        lks_error_set(error, LKS_ABORTED, LKS_APPLIED_YES, "it failed for now: %s", request.detail);
    return LKS_ONCE_RETRYABLE;
}

/* ---- running ------------------------------------------------------------------------ */

static lks_once_outcome run(lks_once_attempt *attempt, lks_once_function *function, void *arg, lks_once_result **result,
                            lks_error *error)
{
    switch (function(arg, attempt)) {
    case LKS_ONCE_RETRY:
        return fail(attempt, false, result, error);
    case LKS_ONCE_GIVE_UP:
        return fail(attempt, true, result, error);
    case LKS_ONCE_STORE:
    default:
        return complete(attempt, result, error);
    }
}

lks_once_outcome lks_once_run(lks_channel *channel, const lks_once_options *options, lks_once_function *function,
                              void *arg, lks_once_result **ret, lks_error *error)
{
    lks_once_attempt *attempt = NULL;
    lks_once_result *result = NULL;
    lks_error unwanted;

    error = error ? error : &unwanted;
    if (ret)
        *ret = NULL;
    if (once_attempt_new(channel, options, &attempt, error) != LKS_OK)
        return LKS_ONCE_FAILED;
    lks_once_outcome outcome = begin(attempt, options, &result, error);
    if (outcome == LKS_ONCE_EXECUTED)
        outcome = run(attempt, function, arg, &result, error);
    lease_end(&attempt->lease);
    lease_drop(&attempt->lease);
    if (outcome == LKS_ONCE_EXECUTED || outcome == LKS_ONCE_REPLAYED)
        succeed(error);
    if (ret)
        *ret = result;
    else
        lks_once_result_free(result);
    return outcome;
}
