/* What the files of IdempotencyService share, and what GuardService uses of it. */
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

/* Checks scope and key, and makes the base of their record: a group of its own, or within `group`, which is not empty. */
lks_rpc_slice idempotency_base(plan *p, const char *group, const char *scope, const char *key);

/* The most that the record's result adds to the weight of a call. */
enum { IDEMPOTENCY_RESULT_WEIGHT = 4 };

/* Checks them, each naming its field; retain_ms 0 becomes the default. */
lks_rpc_slice idempotency_fingerprint(plan *p, const ProtobufCBinaryData *fingerprint);
int64_t idempotency_retain_ms(plan *p, int64_t retain_ms);

/* Starts a call to `function` for the record. */
void idempotency_call(plan *p, const plan_function *function, const char *group, const char *scope, const char *key);

/* An id that the caller has chosen, 16 to 64 bytes; when it is empty, a random one. */
const char *idempotency_id(plan *p, const char *field, const char *id);

void idempotency_check_lease(plan *p, int64_t lease_ms);

enum { IDEMPOTENCY_DETAIL_BYTES_MAX = 1024 };

/* idempotency_result.c. A result is stored serialised, as it will be sent. */

void idempotency_check_result(plan *p, size_t body_len, size_t n_headers, lks_result_header *const *headers);
lks_rpc_slice idempotency_packed(plan *p, const lks_stored_result *result);

/* The result that is replayed after a FINAL failure. */
lks_rpc_slice idempotency_failure(plan *p, const char *detail);

/* Element i of a reply, in the arena. NULL, with a->error set: it is not a result. */
lks_stored_result *idempotency_result(answer *a, const store_value *reply, size_t i);

LKS_IDEMPOTENCY_METHODS(SERVICE_DECLARE)

#endif
