/* IdempotencyService: its table, and Begin. Invariant: requests are checked here, and functions/idempotency.lua decides
 * about records. A Begin whose caller may be gone never starts an attempt: when its wait is over it only reads the
 * record, and when its connection is lost it does not call the store. */
#include "services/idempotency.h"

#include <string.h>

#include "memory.h"

enum {
    KEY_BYTES_MAX = 255,
    LEASE_MS_MIN = 10,
    LEASE_MS_MAX = 86400000,
    FINGERPRINT_BYTES_MAX = 64,
    RETAIN_MS_MIN = 1000,
    RETAIN_MS_DEFAULT = 86400000,
    WAIT_MS_MAX = 86400000,
};
#define RETAIN_MS_MAX ((int64_t)30 * 86400000)

/* Messages use this name for all parked calls of a record; see idempotency_record.lua. */
#define WAITERS "idem:w"

lks_rpc_slice idempotency_base(plan *p, const char *group, const char *scope, const char *key)
{
    plan_check_name_or_empty(p, "group", group);
    plan_check_name(p, "scope", scope);
    plan_check_text(p, "key", key, 1, KEY_BYTES_MAX);
    if (plan_failed(p))
        return lks_rpc_slice_of("");
    if (group[0] == '\0')
        return plan_base(p, scope, key);
    lks_rpc_slice base = plan_base(p, group, NULL);
    return lks_rpc_slice_of(memory_printf_in(p->arena, "%.*s%s/%s:", (int)base.len, base.data,
                                             plan_encode(p->arena, scope), plan_encode(p->arena, key)));
}

lks_rpc_slice idempotency_fingerprint(plan *p, const ProtobufCBinaryData *fingerprint)
{
    if (fingerprint->len > FINGERPRINT_BYTES_MAX)
        plan_invalid(p, "fingerprint: must be 0 to %d bytes long", FINGERPRINT_BYTES_MAX);
    return (lks_rpc_slice){(const char *)fingerprint->data, fingerprint->len};
}

int64_t idempotency_retain_ms(plan *p, int64_t retain_ms)
{
    if (retain_ms == 0)
        return RETAIN_MS_DEFAULT;
    plan_check_range(p, "retain_ms", retain_ms, RETAIN_MS_MIN, RETAIN_MS_MAX);
    return retain_ms;
}

void idempotency_call(plan *p, const plan_function *function, const char *group, const char *scope, const char *key)
{
    plan_call_at(p, function, idempotency_base(p, group, scope, key), 1);
    plan_weighs(p, IDEMPOTENCY_RESULT_WEIGHT);
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
    plan_check_range(p, "lease_ms", lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);
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
    idempotency_call(p, begin_function(p->event.kind), "", request->scope, request->key);
    const char *token = idempotency_id(p, "attempt_token", request->attempt_token);
    const lks_rpc_slice fingerprint = idempotency_fingerprint(p, &request->fingerprint);
    idempotency_check_lease(p, request->lease_ms);
    const int64_t retain_ms = idempotency_retain_ms(p, request->retain_ms);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, WAIT_MS_MAX);
    args_idempotency_begin(p, .token = token, .fingerprint = fingerprint, .lease_ms = request->lease_ms,
                           .retain_ms = retain_ms, .wait_ms = request->wait_ms,
                           .server = request->wait_ms > 0 ? p->server : "");
    if (request->wait_ms > 0) {
        plan_waits(p, plan_last_base(p), WAITERS);
        plan_watch(p, plan_last_base(p), fn_idempotency_lease_over.name, lks_rpc_slice_of(p->server));
    }
}

void begin_finish(const lks_begin_request *request, answer *a, lks_begin_response *response)
{
    const store_value *reply = a->replies[0];

    (void)request;
    if (answer_says(reply, "WAIT")) {
        answer_alarm(a, a->plan->calls[0].base, fn_idempotency_lease_over.name, a->plan->server,
                     answer_int(a, reply, 2));
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
