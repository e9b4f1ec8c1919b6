/* Leaving: Release, and Complete or Fail, at once. Invariant: a caller is never told that its call failed because
 * storing its result did: it would call again, and the effect would happen twice. */
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>
#include <lockstock/v1/idempotency.lks_client.h>
#include <lockstock/v1/lock.lks_client.h>

#include "client/call/channel.h"
#include "client/guard/guarded.h"
#include "client/lease/lease_time.h"
#include "client/once_back.h"

enum {
    LEAVE_MS_MIN = 1000, /* for a call that ends at its deadline */
    BODY_MAX = 256 * 1024,
    CALL_BYTES = 1024 /* more than a Complete is longer on the way, but for its body and the channel's metadata */
};

/* One of the calls that are waited for has ended. */
static void left(lks_guarded *g)
{
    if (atomic_fetch_sub(&g->leaving, 1) != 1)
        return;
    g->done(g->arg);
    guarded_unref(g);
}

/* Of a call that the caller waits for: it is to be answered in time, and soon. */
static lks_call_options leaving(const lks_guarded *g)
{
    uint32_t usable_ms = guarded_usable_ms(g, g->channel->options.timeout_ms);

    return (lks_call_options){.timeout_ms = usable_ms > LEAVE_MS_MIN ? usable_ms : LEAVE_MS_MIN, .insist = true};
}

/* ---- the locks ----------------------------------------------------------------------------- */

static void released(void *arg, lks_code code, const lks_release_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)response;
    (void)error;
    if (code != LKS_OK)
        guarded_release(g);
    left(g);
}

static void release(lks_guarded *g)
{
    const lks_call_options options = leaving(g);
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    guarded_end(&g->locks);
    request.group = guarded_group(g);
    request.token = g->locks.token;
    if (lks_lock_release_start(g->channel, &request, &options, released, g, NULL, NULL) != LKS_OK)
        left(g);
}

/* ---- the attempt ---------------------------------------------------------------------------- */

static void attempt_left(lks_guarded *g)
{
    guarded_end(&g->attempt);
    left(g);
}

static void got(void *arg, lks_code code, const lks_get_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (code == LKS_OK && response->record && response->record->result)
        guard_replay(response->record->result, &g->answer);
    else
        lks_error_set_reason(&g->answer.error, LKS_ABORTED, LKS_APPLIED_MAYBE, LKS_REASON_LEASE_LOST,
                             "another attempt took over: what this one did is not stored");
    attempt_left(g);
}

/* Another attempt took over: the caller is told what that one stored, so that all are told the same. */
static void superseded(lks_guarded *g)
{
    const lks_call_options options = {.timeout_ms = leaving(g).timeout_ms};
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_error error;

    request.scope = g->guard->idempotency->scope;
    request.key = g->key;
    lks_code code = lks_idempotency_get_start(g->channel, &request, &options, got, g, NULL, &error);
    if (code != LKS_OK)
        got(g, code, NULL, &error);
}

static lks_complete_request complete_request(const lks_guarded *g)
{
    lks_complete_request request = LKS_COMPLETE_REQUEST_INIT;

    request.scope = g->guard->idempotency->scope;
    request.key = g->key;
    request.fence = g->fence;
    request.code = g->result.code;
    request.body = g->result.body;
    return request;
}

/* For as long as the lease; where that cannot be done either the attempt ends with it. */
static void complete_later(const lks_guarded *g)
{
    uint32_t lease_ms = g->attempt.lease.lease_ms;
    const lks_call_options options = {.timeout_ms = lease_ms > LEASE_BACKGROUND_MS ? lease_ms : LEASE_BACKGROUND_MS,
                                      .insist = true};
    const lks_complete_request request = complete_request(g);

    lks_idempotency_complete_start(g->channel, &request, &options, NULL, NULL, NULL, NULL);
}

static void completed(void *arg, lks_code code, const lks_complete_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (code == LKS_OK && response->outcome == LKS_COMPLETE_OUTCOME_SUPERSEDED) {
        superseded(g);
        return;
    }
    if (code != LKS_OK)
        complete_later(g);
    attempt_left(g);
}

/* Whether a Complete with that body can be sent, and would be taken. */
static bool fits(const lks_guarded *g, size_t len)
{
    const lks_channel_options *o = &g->channel->options;
    size_t beside = CALL_BYTES + (o->ns ? strlen(o->ns) : 0) + (o->token ? strlen(o->token) : 0);

    return len <= BODY_MAX && o->message_bytes_max > beside && len <= o->message_bytes_max - beside;
}

/* What is stored, and sent again, of what the handler answered: where that is too long, an error, which the caller is
 * told as well as all who repeat it. */
static bool make_result(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    if (code == LKS_OK && !fits(g, protobuf_c_message_get_packed_size(response))) {
        error = &g->answer.error;
        code =
            lks_error_set_reason(&g->answer.error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_YES, LKS_REASON_TOO_LARGE,
                                 "the response is longer than can be stored for a repeat, which is %d bytes", BODY_MAX);
    }
    g->result.code = (int32_t)code;
    return guard_store(code, response, error, &g->result.body.data, &g->result.body.len);
}

static void complete(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error)
{
    const lks_call_options options = leaving(g);

    if (!make_result(g, code, response, error)) {
        attempt_left(g);
        return;
    }
    const lks_complete_request request = complete_request(g);
    if (lks_idempotency_complete_start(g->channel, &request, &options, completed, g, NULL, NULL) != LKS_OK)
        attempt_left(g);
}

static void failed(void *arg, lks_code code, const lks_fail_response *response, const lks_error *error)
{
    lks_guarded *g = arg;

    (void)error;
    if (code == LKS_OK && response->outcome == LKS_FAIL_OUTCOME_SUPERSEDED) {
        superseded(g);
        return;
    }
    if (code != LKS_OK)
        once_fail(g->channel, g->guard->idempotency->scope, g->key, g->fence);
    attempt_left(g);
}

static void fail(lks_guarded *g, const char *detail)
{
    const lks_call_options options = leaving(g);
    lks_fail_request request = LKS_FAIL_REQUEST_INIT;

    request.scope = g->guard->idempotency->scope;
    request.key = g->key;
    request.fence = g->fence;
    request.kind = LKS_FAIL_KIND_RETRYABLE;
    if (lks_rpc_utf8_valid(detail, strlen(detail)))
        request.detail = detail;
    if (lks_idempotency_fail_start(g->channel, &request, &options, failed, g, NULL, NULL) != LKS_OK)
        attempt_left(g);
}

void lks_guard_leave(lks_guarded *g, lks_code code, const ProtobufCMessage *response, const lks_error *error,
                     lks_guard_done *done, void *arg)
{
    bool locks = g->guard->lock, attempt = g->guard->idempotency;

    g->done = done;
    g->arg = arg;
    guarded_ref(g);
    g->leaving = 1U + locks + attempt; /* one until both are started */
    if (locks)
        release(g);
    if (attempt && guard_is_final(code, error->applied))
        complete(g, code, response, error);
    else if (attempt)
        fail(g, error->message);
    left(g);
}
