/* IdempotencyService: its table, and Begin. Invariant: requests are checked here, and functions/idempotency.lua decides
 * about records. A Begin whose caller may be gone never starts an attempt: when its wait is over it only looks, and
 * when its connection is lost it does not ask the store. */
#include "services/idempotency.h"

#include <string.h>

#include "memory.h"

enum {
    KEY_BYTES_MAX = 255,
    FINGERPRINT_BYTES_MAX = 64,
    RETAIN_MS_MIN = 1000,
    RETAIN_MS_DEFAULT = 86400000,
    WAIT_MS_MAX = 86400000,
    RESULT_WEIGHT = 4, /* a record may have the largest result */
};
#define RETAIN_MS_MAX ((int64_t)30 * 86400000)

/* Messages name all parked calls of a record by this; see idempotency_record.lua. */
#define WAITERS "idem:w"

void idempotency_call(plan *p, const plan_function *function, const char *scope, const char *key)
{
    plan_check_name(p, "scope", scope);
    plan_check_text(p, "key", key, 1, KEY_BYTES_MAX);
    plan_call_of_pair(p, function, scope, key);
    plan_weighs(p, RESULT_WEIGHT);
}

const char *idempotency_id(plan *p, const char *field, const char *id)
{
    if (id[0] != '\0') {
        plan_check_text(p, field, id, SERVICE_TOKEN_BYTES_MIN, SERVICE_TOKEN_BYTES_MAX);
        return id;
    }
    return plan_id(p);
}

void idempotency_check_lease(plan *p, int64_t lease_ms)
{
    plan_check_range(p, "lease_ms", lease_ms, IDEMPOTENCY_LEASE_MS_MIN, IDEMPOTENCY_LEASE_MS_MAX);
}

/* ---- Begin ---------------------------------------------------------------------- */

/* An event calls another function with the same arguments. */
static const plan_function *begin_function(service_event_kind event)
{
    switch (event) {
    case SERVICE_NO_EVENT:
        return &fn_idempotency_begin;
    case SERVICE_WAIT_OVER:
        return &fn_idempotency_begin_over;
    default:
        return &fn_idempotency_begin_again;
    }
}

void begin_prepare(const lks_begin_request *request, plan *p)
{
    idempotency_call(p, begin_function(p->event.kind), request->scope, request->key);
    const char *token = idempotency_id(p, "attempt_token", request->attempt_token);
    if (request->fingerprint.len > FINGERPRINT_BYTES_MAX)
        plan_invalid(p, "fingerprint: must be 0 to %d bytes long", FINGERPRINT_BYTES_MAX);
    idempotency_check_lease(p, request->lease_ms);
    if (request->retain_ms != 0)
        plan_check_range(p, "retain_ms", request->retain_ms, RETAIN_MS_MIN, RETAIN_MS_MAX);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
    args_idempotency_begin(
        p, .token = token, .fingerprint = {(const char *)request->fingerprint.data, request->fingerprint.len},
        .lease_ms = request->lease_ms, .retain_ms = request->retain_ms ? request->retain_ms : RETAIN_MS_DEFAULT,
        .wait_ms = request->wait_ms, .server = request->wait_ms > 0 ? p->server : "");
    if (request->wait_ms > 0) {
        plan_waits(p, WAITERS);
        plan_watch(p, fn_idempotency_lease_over.name, lks_rpc_slice_of(p->server));
    }
}

void begin_finish(const lks_begin_request *request, answer *a, lks_begin_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    if (answer_says(reply, "WAIT")) {
        answer_alarm(a, fn_idempotency_lease_over.name, a->plan->server, answer_int(a, reply, 2));
        answer_waits(a);
        return;
    }
    response->outcome = (lks_begin_outcome)answer_enum(a, reply, 0, &lockstock__v1__begin_outcome__descriptor);
    if (response->outcome == LKS_BEGIN_OUTCOME_MISMATCH)
        return;
    response->attempt = answer_int(a, reply, 1);
    if (response->outcome == LKS_BEGIN_OUTCOME_EXECUTE)
        response->fence = (uint64_t)answer_int(a, reply, 2);
    else if (response->outcome == LKS_BEGIN_OUTCOME_REPLAY)
        response->result = idempotency_result(a, reply, 2);
    else
        response->retry_after_ms = answer_int(a, reply, 2);
}

LKS_IDEMPOTENCY_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_IDEMPOTENCY_METHODS(SERVICE_ROW)};

const service idempotency_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};
