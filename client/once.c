/* lks_once: Begin, Extend after a long wait, then Complete or Fail. Invariant: an attempt runs only after an EXECUTE
 * whose lease is known to be valid, and until its Complete or Fail. An attempt that may have begun and is not run is
 * given back. */
#include <lockstock/once.h>

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/idempotency.lks_client.h>

#include "base/clock.h"
#include "client/call/channel.h"
#include "client/lease/lease_time.h"
#include "client/once_attempt.h"

static lks_once_attempt *of(struct grant *grant)
{
    return (lks_once_attempt *)grant;
}

static void refuse(lks_once_attempt *attempt, lks_once_outcome outcome, lks_code code, lks_reason reason,
                   const char *text)
{
    attempt->outcome = outcome;
    lks_error_set_reason(&attempt->error, code, LKS_APPLIED_NO, reason, "%s", text);
}

static void fail_unexpected(lks_once_attempt *attempt, const char *text)
{
    lks_error_set(&attempt->error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s", text);
}

/* Reports the outcome, the result and the error to the caller. */
static void report(lks_once_attempt *attempt)
{
    lks_once_result *found = attempt->found;

    if (!attempt->done)
        return;
    attempt->found = NULL;
    attempt->done(attempt->arg, attempt->outcome, found, &attempt->error);
}

/* ---- the lease ------------------------------------------------------------------ */

static lks_extend_request extend_request(const lks_once_attempt *attempt)
{
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.lease_ms = attempt->grant.lease.lease_ms;
    return request;
}

static void extended(void *arg, lks_code code, const lks_extend_response *response, const lks_error *error)
{
    struct lease_batch *batch = arg;
    struct lease_renewal *renewal = &batch->renewals[0];

    if (code == LKS_OK && response->outcome == LKS_EXTEND_OUTCOME_EXTENDED)
        renewal->left_ms = renewal->lease->lease_ms;
    lease_answered(batch, code == LKS_OK ? NULL : error);
}

static lks_code extend(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    const lks_call_options options = {.timeout_ms = timeout_ms, .insist = true};
    const lks_extend_request request = extend_request((const lks_once_attempt *)batch->renewals[0].lease);

    return lks_idempotency_extend_start(channel, &request, &options, extended, batch, NULL, error);
}

static void free_attempt(struct lease *lease)
{
    lks_once_attempt *attempt = (lks_once_attempt *)lease;

    once_forget_result(attempt);
    lks_once_result_free(attempt->found);
    grant_fini(&attempt->grant);
    free(attempt);
}

static const lease_kind kind = {.batch_max = 1, .renew = extend, .free = free_attempt};

/* ---- giving back ------------------------------------------------------------------ */

static lks_fail_request fail_request(const lks_once_attempt *attempt)
{
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.kind = attempt->verdict == LKS_ONCE_GIVE_UP ? LKS_FAIL_KIND_FINAL : LKS_FAIL_KIND_RETRYABLE;
    if (attempt->detail)
        request.detail = attempt->detail;
    return request;
}

/* Fails the attempt in the background, so that the next one runs. If that cannot be sent, the attempt ends with its
 * lease. */
static void fail_later(const lks_once_attempt *attempt)
{
    const lks_call_options options = {.timeout_ms = LEASE_BACKGROUND_MS, .insist = true};
    const lks_fail_request request = fail_request(attempt);

    lks_idempotency_fail_start(attempt->grant.lease.channel, &request, &options, NULL, NULL, NULL, NULL);
}

static lks_begin_request begin_request(const lks_once_attempt *attempt)
{
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.attempt_token = attempt->token;
    request.fingerprint = attempt->fingerprint;
    request.lease_ms = attempt->grant.lease.lease_ms;
    request.retain_ms = attempt->retain_ms < INT64_MAX ? (int64_t)attempt->retain_ms : INT64_MAX;
    return request;
}

static void found_begun(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_begin_response *response = (const lks_begin_response *)message;

    (void)error;
    if (code != LKS_OK || response->outcome != LKS_BEGIN_OUTCOME_EXECUTE)
        return;
    of(grant)->fence = response->fence;
    fail_later(of(grant));
}

/* Gives back an attempt that may have begun: repeats the Begin, whose answer has the fence that the Fail needs. */
static void give_back(lks_once_attempt *attempt)
{
    const lks_call_options options = {.timeout_ms = LEASE_BACKGROUND_MS, .insist = true};
    const lks_begin_request request = begin_request(attempt);

    grant_start(&attempt->grant, GRANT_GIVES_BACK, &lks_idempotency_begin_method, &request.base, &options, found_begun,
                NULL);
}

/* ---- beginning ---------------------------------------------------------------------- */

static void settle(lks_once_attempt *attempt)
{
    bool has_begun = attempt->outcome == LKS_ONCE_BEGUN;

    if (!grant_settle(&attempt->grant)) {
        if (has_begun)
            fail_later(attempt);
        return;
    }
    if (has_begun || attempt->outcome == LKS_ONCE_REPLAYED)
        attempt->error = (lks_error){.code = LKS_OK};
    if (has_begun)
        lease_begin(&attempt->grant.lease, attempt->grant.sent_ns, attempt->grant.lease.lease_ms);
    report(attempt);
}

static void confirmed(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_once_attempt *attempt = of(grant);

    if (code != LKS_OK) {
        attempt->outcome = LKS_ONCE_FAILED;
        attempt->error = *error;
        attempt->error.applied = LKS_APPLIED_MAYBE; /* the attempt has begun */
        give_back(attempt);
    } else if (((const lks_extend_response *)response)->outcome != LKS_EXTEND_OUTCOME_EXTENDED) {
        refuse(attempt, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_LEASE_LOST,
               "another attempt took over before the start of this one was confirmed");
    }
    settle(attempt);
}

static void confirm(lks_once_attempt *attempt)
{
    const lks_call_options options = {.timeout_ms = grant_timeout_ms(&attempt->grant, 0), .insist = true};
    const lks_extend_request request = extend_request(attempt);

    grant_call(&attempt->grant, GRANT_CONTINUES, &lks_idempotency_extend_method, &request.base, &options, confirmed);
}

static void take_replay(lks_once_attempt *attempt, const lks_stored_result *stored)
{
    attempt->found = once_result_new(stored, true);
    if (attempt->found)
        attempt->outcome = LKS_ONCE_REPLAYED;
    else if (stored)
        refuse(attempt, LKS_ONCE_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM,
               "out of memory for the stored result");
    else
        fail_unexpected(attempt, "the answer has no stored result");
}

static void take_answer(lks_once_attempt *attempt, const lks_begin_response *response)
{
    switch ((int)response->outcome) {
    case LKS_BEGIN_OUTCOME_EXECUTE:
        attempt->outcome = LKS_ONCE_BEGUN;
        attempt->number = response->attempt;
        attempt->fence = response->fence;
        break;
    case LKS_BEGIN_OUTCOME_REPLAY:
        take_replay(attempt, response->result);
        break;
    case LKS_BEGIN_OUTCOME_IN_PROGRESS:
        refuse(attempt, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_BUSY,
               "another attempt has not ended: it is running, or its process is gone and its lease has not expired");
        attempt->error.retry_after_ms = lease_retry_ms(response->retry_after_ms);
        break;
    case LKS_BEGIN_OUTCOME_MISMATCH:
        refuse(attempt, LKS_ONCE_MISMATCH, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED,
               "the key was used for another request");
        break;
    default:
        fail_unexpected(attempt, "the answer has an unknown outcome");
    }
}

static void begun(struct grant *grant, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    lks_once_attempt *attempt = of(grant);

    attempt->error = *error;
    attempt->outcome = LKS_ONCE_FAILED;
    if (code == LKS_OK)
        take_answer(attempt, (const lks_begin_response *)response);
    if (attempt->outcome == LKS_ONCE_BEGUN && grant_needs_confirmation(grant)) {
        confirm(attempt);
        return;
    }
    if (attempt->outcome == LKS_ONCE_FAILED && attempt->error.applied != LKS_APPLIED_NO)
        give_back(attempt);
    settle(attempt);
}

/* A cancel does not end the Begin: otherwise a server that lets it wait would begin an attempt for a caller that is
 * gone. */
static lks_code begin(lks_once_attempt *attempt, lks_error *error)
{
    lks_begin_request request = begin_request(attempt);
    const lks_call_options options = {.timeout_ms = grant_first_timeout_ms(&attempt->grant, attempt->wait_ms)};

    request.wait_ms = attempt->wait_ms;
    attempt->grant.sent_ns = clock_now_ns();
    return grant_start(&attempt->grant, GRANT_CONTINUES, &lks_idempotency_begin_method, &request.base, &options, begun,
                       error);
}

/* One allocation: the attempt and its texts. */
static lks_code new_attempt(lks_channel *channel, const lks_once_options *options, size_t options_bytes, bool waits,
                            lks_once_attempt **ret, lks_error *error)
{
    lks_once_options own, *o = &own;
    lks_code code = lks_rpc_options_read(&own, sizeof own, options, options_bytes, "lks_once_options", error);

    if (code != LKS_OK)
        return code;
    if (!o->scope || !o->key)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options: scope and key must be given");
    code = lease_check_ms(o->lease_ms, error);
    if (code != LKS_OK)
        return code;
    lks_once_attempt *attempt = calloc(1, sizeof *attempt + strlen(o->scope) + strlen(o->key) + 2 + o->fingerprint_len);
    if (!attempt)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    attempt->scope = (char *)(attempt + 1);
    attempt->key = stpcpy(attempt->scope, o->scope) + 1;
    attempt->fingerprint.data = (uint8_t *)stpcpy(attempt->key, o->key) + 1;
    attempt->fingerprint.len = o->fingerprint_len;
    if (o->fingerprint_len > 0)
        memcpy(attempt->fingerprint.data, o->fingerprint, o->fingerprint_len);
    attempt->retain_ms = o->retain_ms;
    attempt->wait_ms = lease_wait_ms(o->wait_ms);
    attempt->outcome = LKS_ONCE_FAILED;
    attempt->verdict = LKS_ONCE_RETRY;
    attempt->result = (lks_stored_result)LKS_STORED_RESULT_INIT;
    attempt->result.headers = attempt->header_list;
    lks_rpc_random_id(attempt->token);
    attempt->grant.lease = (struct lease){.kind = &kind,
                                          .channel = channel,
                                          .lease_ms = o->lease_ms != 0 ? o->lease_ms : LEASE_DEFAULT_MS,
                                          .keep_ms = LEASE_ALWAYS};
    code = grant_init(&attempt->grant, waits, 0, error);
    if (code == LKS_OK)
        *ret = attempt;
    else
        free_attempt(&attempt->grant.lease);
    return code;
}

void lks_once_free(lks_once_attempt *attempt)
{
    if (!attempt || lease_check_process(NULL) != LKS_OK)
        return;
    if (atomic_load(&attempt->grant.state) == GRANT_SETTLED && attempt->outcome == LKS_ONCE_BEGUN)
        fail_later(attempt);
    lease_end(&attempt->grant.lease);
    lease_drop(&attempt->grant.lease);
}

lks_code lks_once_begin_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                              uint32_t timeout_ms, lks_once_done *done, void *arg, lks_once_attempt **ret,
                              lks_error *error)
{
    lks_once_attempt *attempt = NULL;
    lks_code code = new_attempt(channel, options, options_bytes, false, &attempt, error);

    if (code != LKS_OK)
        return code;
    if (timeout_ms > 0)
        attempt->grant.until_ns = clock_in_ms(timeout_ms);
    attempt->done = done;
    attempt->arg = arg;
    *ret = attempt; /* before the callback can run */
    code = begin(attempt, error);
    if (code != LKS_OK) {
        *ret = NULL;
        lks_once_free(attempt);
    }
    return code;
}

void lks_once_cancel(lks_once_attempt *attempt)
{
    lks_error error;

    if (grant_cancel(&attempt->grant, &error))
        attempt->done(attempt->arg, LKS_ONCE_FAILED, NULL, &error);
}

/* ---- ending ------------------------------------------------------------------------- */

static void end(lks_once_attempt *attempt, lks_once_outcome outcome)
{
    attempt->outcome = outcome;
    if (outcome == LKS_ONCE_EXECUTED)
        attempt->error = (lks_error){.code = LKS_OK};
    lease_end(&attempt->grant.lease);
    report(attempt);
}

static void got(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_get_response *response = (const lks_get_response *)message;
    lks_once_attempt *attempt = of(grant);

    (void)error;
    if (code == LKS_OK && response->record)
        attempt->found = once_result_new(response->record->result, true);
    lks_error_set_reason(&attempt->error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                         "another attempt took over; the result of this one is not stored");
    end(attempt, LKS_ONCE_SUPERSEDED);
}

/* Gets the result of the attempt that took over, if it has ended, for the caller. */
static void supersede(lks_once_attempt *attempt)
{
    const lks_call_options options = {.timeout_ms = grant_timeout_ms(&attempt->grant, 0)};
    lks_get_request request = LKS_GET_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    grant_call(&attempt->grant, GRANT_CONTINUES, &lks_idempotency_get_method, &request.base, &options, got);
}

/* Continues in the background after the caller's timeout. */
static void complete_later(const lks_once_attempt *attempt)
{
    const lks_call_options options = {.timeout_ms = grant_end_timeout_ms(&attempt->grant, LEASE_BACKGROUND_MS),
                                      .insist = true};
    const lks_complete_request request = once_complete_request(attempt);

    lks_idempotency_complete_start(attempt->grant.lease.channel, &request, &options, NULL, NULL, NULL, NULL);
}

static bool had_less_time(const lks_once_attempt *attempt)
{
    return attempt->grant.until_ns != CLOCK_NEVER;
}

static void completed(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_complete_response *response = (const lks_complete_response *)message;
    lks_once_attempt *attempt = of(grant);
    lks_complete_outcome outcome = code == LKS_OK ? response->outcome : LKS_COMPLETE_OUTCOME_UNSPECIFIED;

    attempt->error = *error;
    if (outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED) {
        supersede(attempt);
        return;
    }
    if (code != LKS_OK && had_less_time(attempt))
        complete_later(attempt);
    else if (code == LKS_OK && outcome != LKS_COMPLETE_OUTCOME_STORED)
        fail_unexpected(attempt, "the answer has an unknown outcome");
    attempt->found = once_result_new(&attempt->result, false);
    end(attempt, outcome == LKS_COMPLETE_OUTCOME_STORED ? LKS_ONCE_EXECUTED : LKS_ONCE_DOUBTFUL);
}

static void failed(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_fail_response *response = (const lks_fail_response *)message;
    lks_once_attempt *attempt = of(grant);
    lks_fail_outcome outcome = code == LKS_OK ? response->outcome : LKS_FAIL_OUTCOME_UNSPECIFIED;
    bool stored = outcome == LKS_FAIL_OUTCOME_STORED;

    attempt->error = *error;
    if (outcome == LKS_FAIL_OUTCOME_SUPERSEDED) {
        supersede(attempt);
        return;
    }
    if (code != LKS_OK && had_less_time(attempt))
        fail_later(attempt);
    else if (code == LKS_OK && !stored)
        fail_unexpected(attempt, "the answer has an unknown outcome");
    if (attempt->verdict == LKS_ONCE_GIVE_UP) {
        attempt->found = once_failure_new(attempt->detail);
        end(attempt, stored ? LKS_ONCE_EXECUTED : LKS_ONCE_DOUBTFUL);
        return;
    }
    if (stored)
        lks_error_set(&attempt->error, LKS_ABORTED, LKS_APPLIED_YES, "the attempt failed for now: %s",
                      attempt->detail ? attempt->detail : "");
    end(attempt, LKS_ONCE_RETRYABLE);
}

static void end_attempt(lks_once_attempt *attempt, lks_once_verdict verdict, uint32_t timeout_ms)
{
    const lks_call_options options = {.timeout_ms = grant_begin_end(&attempt->grant, timeout_ms), .insist = true};
    const lks_complete_request complete = once_complete_request(attempt);

    attempt->verdict = verdict;
    const lks_fail_request fail = fail_request(attempt);
    if (verdict == LKS_ONCE_RETRY || verdict == LKS_ONCE_GIVE_UP)
        grant_call(&attempt->grant, GRANT_CONTINUES, &lks_idempotency_fail_method, &fail.base, &options, failed);
    else
        grant_call(&attempt->grant, GRANT_CONTINUES, &lks_idempotency_complete_method, &complete.base, &options,
                   completed);
}

void lks_once_end(lks_once_attempt *attempt, lks_once_verdict verdict, uint32_t timeout_ms, lks_once_done *done,
                  void *arg)
{
    attempt->done = done;
    attempt->arg = arg;
    end_attempt(attempt, verdict, timeout_ms);
    lease_drop(&attempt->grant.lease);
}

/* ---- running ------------------------------------------------------------------------ */

lks_once_outcome lks_once_run_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                                    lks_once_function *function, void *arg, lks_once_result **ret, lks_error *error)
{
    lks_once_attempt *attempt = NULL;
    lks_error unwanted;

    error = error ? error : &unwanted;
    if (ret)
        *ret = NULL;
    if (new_attempt(channel, options, options_bytes, true, &attempt, error) != LKS_OK)
        return LKS_ONCE_FAILED;
    begin(attempt, &attempt->error);
    if (attempt->outcome == LKS_ONCE_BEGUN)
        end_attempt(attempt, function(arg, attempt), 0);
    lks_once_outcome outcome = attempt->outcome;
    *error = attempt->error;
    if (ret) {
        *ret = attempt->found;
        attempt->found = NULL;
    }
    lks_once_free(attempt);
    return outcome;
}

/* ---- for its function ------------------------------------------------------------------ */

bool lks_once_is_lost(const lks_once_attempt *attempt)
{
    return lease_is_lost(&attempt->grant.lease);
}

int64_t lks_once_number(const lks_once_attempt *attempt)
{
    return attempt->number;
}

uint64_t lks_once_fence(const lks_once_attempt *attempt)
{
    return attempt->fence;
}
