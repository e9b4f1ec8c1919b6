/* What the files of IdempotencyService share. */
#ifndef LOCKSTOCK_SERVER_IDEMPOTENCY_H
#define LOCKSTOCK_SERVER_IDEMPOTENCY_H

#include "lockstock/v1/idempotency.lks.h"
#include "functions/arguments.h"
#include "services/service.h"

/* Bounds of the contract that several methods have. */
enum {
    IDEMPOTENCY_LEASE_MS_MIN = 10,
    IDEMPOTENCY_LEASE_MS_MAX = 86400000,
};

/* Checks scope and key, and starts a call to `function` in their record's group. */
void idempotency_call(plan *p, const plan_function *function, const char *scope, const char *key);

/* An id that the caller has chosen, 16 to 64 bytes; when it is empty, a random one. */
const char *idempotency_id(plan *p, const char *field, const char *id);

void idempotency_check_lease(plan *p, int64_t lease_ms);

/* idempotency_result.c. A result is stored serialised, as it will be sent. */

void idempotency_check_result(plan *p, size_t body_len, size_t n_headers, lks_result_header *const *headers);
lks_rpc_slice idempotency_packed(plan *p, const lks_stored_result *result);

/* The result that is replayed after a FINAL failure. */
lks_rpc_slice idempotency_failure(plan *p, const char *detail);

/* Element i of a reply, in the arena. NULL, with a->error set: it is not a result. */
lks_stored_result *idempotency_result(answer *a, const store_value *reply, size_t i);

LKS_IDEMPOTENCY_METHODS(SERVICE_DECLARE)

#endif
