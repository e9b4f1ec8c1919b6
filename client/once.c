/* lks_once: Begin, Extend after a long wait, then Complete or Fail. Invariant: an attempt runs only after an EXECUTE
 * whose lease is known to be valid, and until its Complete or Fail. */
#include <lockstock/once.h>

#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/idempotency.lks_client.h>

#include "client/lease/lease_time.h"
#include "client/once_attempt.h"

static lks_once_attempt *of(struct grant *grant)
{
    return (lks_once_attempt *)grant;
}

static grant_answer refuse(lks_once_attempt *attempt, lks_once_outcome outcome, lks_code code, lks_reason reason,
                           const char *text)
{
    attempt->outcome = outcome;
    lks_error_set_reason(&attempt->grant.error, code, LKS_APPLIED_NO, reason, "%s", text);
    return GRANT_NOTHING;
}

static grant_answer fail_unexpected(lks_once_attempt *attempt, const char *text)
{
    lks_error_set(&attempt->grant.error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "%s", text);
    return GRANT_FAILED;
}

/* Reports the outcome, the result and the error to the caller. */
static void report(struct grant *grant)
{
    lks_once_attempt *attempt = of(grant);
    lks_once_result *found = attempt->found;

    if (!attempt->done)
        return;
    attempt->found = NULL;
    attempt->done(attempt->arg, attempt->outcome, found, &grant->error);
}

/* ---- the requests ----------------------------------------------------------------- */

static lks_code send_begin(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_once_attempt *attempt = of(grant);
    lks_begin_request request = LKS_BEGIN_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.attempt_token = attempt->token;
    request.fingerprint = attempt->fingerprint;
    request.lease_ms = grant->lease.lease_ms;
    request.retain_ms = attempt->retain_ms < INT64_MAX ? (int64_t)attempt->retain_ms : INT64_MAX;
    request.wait_ms = call->kind == GRANT_ASKS ? attempt->wait_ms : 0;
    return grant_send(grant, call, &lks_idempotency_begin_method, &request.base, error);
}

static lks_code send_extend(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_once_attempt *attempt = of(grant);
    lks_extend_request request = LKS_EXTEND_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.lease_ms = grant->lease.lease_ms;
    return grant_send(grant, call, &lks_idempotency_extend_method, &request.base, error);
}

static lks_code send_complete(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_complete_request request = once_complete_request(of(grant));

    return grant_send(grant, call, &lks_idempotency_complete_method, &request.base, error);
}

static lks_code send_fail(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    const lks_once_attempt *attempt = of(grant);
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;

    request.scope = attempt->scope;
    request.key = attempt->key;
    request.fence = attempt->fence;
    request.kind = attempt->verdict == LKS_ONCE_GIVE_UP ? LKS_FAIL_KIND_FINAL : LKS_FAIL_KIND_RETRYABLE;
    if (attempt->detail)
        request.detail = attempt->detail;
    return grant_send(grant, call, &lks_idempotency_fail_method, &request.base, error);
}

static void found_begun(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_begin_response *response = (const lks_begin_response *)message;
    const struct grant_call call = {.kind = GRANT_BACKGROUND, .timeout_ms = LEASE_BACKGROUND_MS};

    (void)error;
    if (code != LKS_OK || response->outcome != LKS_BEGIN_OUTCOME_EXECUTE)
        return;
    of(grant)->fence = response->fence;
    send_fail(grant, &call, NULL);
}

/* Fails the attempt, so that the next one runs. Without its fence, it repeats the Begin, whose answer has the fence. */
static lks_code send_give_back(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    struct grant_call begin = *call;

    begin.next = found_begun;
    return of(grant)->fence != 0 ? send_fail(grant, call, error) : send_begin(grant, &begin, error);
}

/* ---- beginning ---------------------------------------------------------------------- */

static grant_answer take_replay(lks_once_attempt *attempt, const lks_stored_result *stored)
{
    if (!stored)
        return fail_unexpected(attempt, "the answer has no stored result");
    attempt->found = once_result_new(stored, true);
    if (!attempt->found)
        return refuse(attempt, LKS_ONCE_FAILED, LKS_RESOURCE_EXHAUSTED, LKS_REASON_NO_ROOM,
                      "out of memory for the stored result");
    attempt->outcome = LKS_ONCE_REPLAYED;
    attempt->grant.error = (lks_error){.code = LKS_OK};
    return GRANT_NOTHING;
}

/* With the same token, a Begin in doubt that began is answered by EXECUTE again, so a refusal is sure. */
static grant_answer begun(struct grant *grant, const ProtobufCMessage *message)
{
    const lks_begin_response *response = (const lks_begin_response *)message;
    lks_once_attempt *attempt = of(grant);

    switch ((int)response->outcome) {
    case LKS_BEGIN_OUTCOME_EXECUTE:
        attempt->outcome = LKS_ONCE_BEGUN;
        attempt->number = response->attempt;
        attempt->fence = response->fence;
        grant->left_ms = grant->lease.lease_ms;
        return grant_is_late(grant) ? GRANT_UNCONFIRMED : GRANT_GRANTED;
    case LKS_BEGIN_OUTCOME_REPLAY:
        return take_replay(attempt, response->result);
    case LKS_BEGIN_OUTCOME_IN_PROGRESS:
        refuse(attempt, LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_BUSY,
               "another attempt has not ended: it is running, or its process is gone and its lease has not expired");
        grant->error.retry_after_ms = lease_retry_ms(response->retry_after_ms);
        return GRANT_NOTHING;
    case LKS_BEGIN_OUTCOME_MISMATCH:
        return refuse(attempt, LKS_ONCE_MISMATCH, LKS_ALREADY_EXISTS, LKS_REASON_ID_REUSED,
                      "the key was used for another request");
    default:
        return fail_unexpected(attempt, "the answer has an unknown outcome");
    }
}

static int64_t left_ms(const struct grant *grant, const ProtobufCMessage *response)
{
    return ((const lks_extend_response *)response)->outcome == LKS_EXTEND_OUTCOME_EXTENDED ? grant->lease.lease_ms : 0;
}

static grant_answer unconfirmed(struct grant *grant, bool answered)
{
    if (answered)
        return refuse(of(grant), LKS_ONCE_IN_PROGRESS, LKS_ABORTED, LKS_REASON_LEASE_LOST,
                      "another attempt took over before the start of this one was confirmed");
    of(grant)->outcome = LKS_ONCE_FAILED;
    return GRANT_FAILED;
}

static void fini(struct grant *grant)
{
    once_forget_result(of(grant));
    lks_once_result_free(of(grant)->found);
}

static const grant_kind chain = {.begin = send_begin,
                                 .begun = begun,
                                 .confirm = send_extend,
                                 .left_ms = left_ms,
                                 .unconfirmed = unconfirmed,
                                 .give_back = send_give_back,
                                 .give_back_ms = LEASE_BACKGROUND_MS,
                                 .settled = report,
                                 .fini = fini};

/* One allocation: the attempt and its texts. */
static lks_code new_attempt(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                            uint32_t timeout_ms, lks_once_attempt **ret, lks_error *error)
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
    attempt->grant.kind = &chain;
    /* Otherwise a server that lets the Begin wait would begin an attempt for a caller that is gone. */
    attempt->grant.asks_on = true;
    attempt->grant.lease = (struct lease){.kind = &grant_lease,
                                          .channel = channel,
                                          .lease_ms = o->lease_ms != 0 ? o->lease_ms : LEASE_DEFAULT_MS,
                                          .keep_ms = LEASE_ALWAYS};
    code = grant_init(&attempt->grant, timeout_ms, error);
    if (code == LKS_OK)
        *ret = attempt;
    return code;
}

void lks_once_free(lks_once_attempt *attempt)
{
    grant_free((struct grant *)attempt);
}

lks_code lks_once_begin_sized(lks_channel *channel, const lks_once_options *options, size_t options_bytes,
                              uint32_t timeout_ms, lks_once_done *done, void *arg, lks_once_attempt **ret,
                              lks_error *error)
{
    lks_once_attempt *attempt = NULL;
    lks_code code = new_attempt(channel, options, options_bytes, timeout_ms, &attempt, error);

    if (code != LKS_OK)
        return code;
    attempt->done = done;
    attempt->arg = arg;
    *ret = attempt; /* before the callback can run */
    code = grant_start(&attempt->grant, attempt->wait_ms, error);
    if (code != LKS_OK)
        *ret = NULL;
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
        attempt->grant.error = (lks_error){.code = LKS_OK};
    grant_set_held(&attempt->grant, false);
    lease_end(&attempt->grant.lease);
    report(&attempt->grant);
}

static lks_code send_get(struct grant *grant, const struct grant_call *call, lks_error *error)
{
    lks_get_request request = LKS_GET_REQUEST_INIT;

    request.scope = of(grant)->scope;
    request.key = of(grant)->key;
    return grant_send(grant, call, &lks_idempotency_get_method, &request.base, error);
}

static void got(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_get_response *response = (const lks_get_response *)message;
    lks_once_attempt *attempt = of(grant);

    (void)error;
    if (code == LKS_OK && response->record)
        attempt->found = once_result_new(response->record->result, true);
    lks_error_set_reason(&grant->error, LKS_ABORTED, LKS_APPLIED_NO, LKS_REASON_LEASE_LOST,
                         "another attempt took over; the result of this one is not stored");
    end(attempt, LKS_ONCE_SUPERSEDED);
}

/* Gets the result of the attempt that took over, if it has ended, for the caller. */
static void supersede(struct grant *grant)
{
    const struct grant_call call = {.kind = GRANT_ASKS, .timeout_ms = grant_timeout_ms(grant, 0), .next = got};

    grant_step(grant, send_get, &call);
}

static void completed(struct grant *grant, lks_code code, const ProtobufCMessage *message, const lks_error *error)
{
    const lks_complete_response *response = (const lks_complete_response *)message;
    lks_once_attempt *attempt = of(grant);
    lks_complete_outcome outcome = code == LKS_OK ? response->outcome : LKS_COMPLETE_OUTCOME_UNSPECIFIED;

    grant->error = *error;
    if (outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED) {
        supersede(grant);
        return;
    }
    if (code != LKS_OK)
        grant_end_later(grant, send_complete);
    else if (outcome != LKS_COMPLETE_OUTCOME_STORED)
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

    grant->error = *error;
    if (outcome == LKS_FAIL_OUTCOME_SUPERSEDED) {
        supersede(grant);
        return;
    }
    if (code != LKS_OK)
        grant_end_later(grant, send_fail);
    else if (!stored)
        fail_unexpected(attempt, "the answer has an unknown outcome");
    if (attempt->verdict == LKS_ONCE_GIVE_UP) {
        attempt->found = once_failure_new(attempt->detail);
        end(attempt, stored ? LKS_ONCE_EXECUTED : LKS_ONCE_DOUBTFUL);
        return;
    }
    if (stored)
        lks_error_set(&grant->error, LKS_ABORTED, LKS_APPLIED_YES, "the attempt failed for now: %s",
                      attempt->detail ? attempt->detail : "");
    end(attempt, LKS_ONCE_RETRYABLE);
}

static void end_attempt(lks_once_attempt *attempt, lks_once_verdict verdict, uint32_t timeout_ms)
{
    attempt->verdict = verdict;
    if (verdict == LKS_ONCE_RETRY || verdict == LKS_ONCE_GIVE_UP)
        grant_end(&attempt->grant, timeout_ms, send_fail, failed);
    else
        grant_end(&attempt->grant, timeout_ms, send_complete, completed);
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
    if (new_attempt(channel, options, options_bytes, 0, &attempt, error) != LKS_OK)
        return LKS_ONCE_FAILED;
    grant_run(&attempt->grant, attempt->wait_ms);
    if (attempt->outcome == LKS_ONCE_BEGUN)
        end_attempt(attempt, function(arg, attempt), 0);
    lks_once_outcome outcome = attempt->outcome;
    *error = attempt->grant.error;
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
