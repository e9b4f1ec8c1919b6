/* IdempotencyService: Extend, Complete, Fail, Get, Delete. Invariant: a request that reaches the store has valid
 * fields; the functions check only the record. */
#include "memory.h"
#include "services/idempotency.h"

static int64_t checked_fence(plan *p, uint64_t fence)
{
    if (fence < 1 || fence > (uint64_t)SERVICE_QUANTITY_MAX)
        plan_invalid(p, "fence: must be 1 to %lld", (long long)SERVICE_QUANTITY_MAX);
    return (int64_t)fence;
}

/* ---- Extend --------------------------------------------------------------------- */

void extend_prepare(const lks_extend_request *request, plan *p)
{
    idempotency_call(p, &fn_idempotency_extend, "", request->scope, request->key);
    int64_t fence = checked_fence(p, request->fence);
    idempotency_check_lease(p, request->lease_ms);
    args_idempotency_extend(p, .fence = fence, .lease_ms = request->lease_ms);
}

void extend_finish(const lks_extend_request *request, answer *a, lks_extend_response *response)
{
    (void)request;
    response->outcome =
        (lks_extend_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__extend_outcome__descriptor);
}

/* ---- Complete ------------------------------------------------------------------- */

void complete_prepare(const lks_complete_request *request, plan *p)
{
    idempotency_call(p, &fn_idempotency_complete, "", request->scope, request->key);
    int64_t fence = checked_fence(p, request->fence);
    args_idempotency_complete(
        p, .fence = fence,
        .result = idempotency_success(p, request->code, request->body, request->n_headers, request->headers));
}

void complete_finish(const lks_complete_request *request, answer *a, lks_complete_response *response)
{
    (void)request;
    response->outcome =
        (lks_complete_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__complete_outcome__descriptor);
    response->replayed = answer_int(a, a->replies[0], 1) != 0;
}

/* ---- Fail ----------------------------------------------------------------------- */

void fail_prepare(const lks_fail_request *request, plan *p)
{
    idempotency_call(p, &fn_idempotency_fail, "", request->scope, request->key);
    int64_t fence = checked_fence(p, request->fence);
    if (request->kind == LKS_FAIL_KIND_UNSPECIFIED)
        plan_invalid(p, "kind: must be RETRYABLE or FINAL");
    plan_check_text(p, "detail", request->detail, 0, IDEMPOTENCY_DETAIL_BYTES_MAX);
    args_idempotency_fail(p, .fence = fence, .detail = request->detail);
    if (request->kind == LKS_FAIL_KIND_FINAL)
        each_idempotency_fail(p, .result = idempotency_failure(p, request->detail));
}

void fail_finish(const lks_fail_request *request, answer *a, lks_fail_response *response)
{
    (void)request;
    response->outcome = (lks_fail_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__fail_outcome__descriptor);
    response->replayed = answer_int(a, a->replies[0], 1) != 0;
}

/* ---- Get ------------------------------------------------------------------------ */

void get_prepare(const lks_get_request *request, plan *p)
{
    idempotency_call(p, &fn_idempotency_get, request->group, request->scope, request->key);
}

static bool has_result(lks_record_state state)
{
    return state == LKS_RECORD_STATE_COMPLETED || state == LKS_RECORD_STATE_FAILED_FINAL;
}

void get_finish(const lks_get_request *request, answer *a, lks_get_response *response)
{
    const store_value *reply = a->replies[0];

    if (answer_says(reply, "NONE")) {
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "key: no such record");
        return;
    }
    lks_record *record = memory_in(a->arena, sizeof *record);
    *record = (lks_record)LKS_RECORD_INIT;
    record->scope = request->scope;
    record->key = request->key;
    record->state = (lks_record_state)answer_enum(a, reply, 1, &lockstock__v1__record_state__descriptor);
    record->attempt = answer_int(a, reply, 2);
    record->fingerprint.data = (uint8_t *)answer_text(a, reply, 3);
    record->fingerprint.len = answer_at(a, reply, 3)->string.len;
    record->lease_ms = answer_int(a, reply, 4);
    record->retain_ms = answer_int(a, reply, 5);
    record->detail = answer_text(a, reply, 6);
    if (has_result(record->state))
        record->result = idempotency_result(a, reply, 7);
    response->record = record;
}

/* ---- Delete --------------------------------------------------------------------- */

void delete_prepare(const lks_delete_request *request, plan *p)
{
    idempotency_call(p, &fn_idempotency_delete, request->group, request->scope, request->key);
}

void delete_finish(const lks_delete_request *request, answer *a, lks_delete_response *response)
{
    (void)request;
    (void)a;
    (void)response;
}
