/* Shared by the files of IdempotencyService, and used in part by GuardService. */
#ifndef LOCKSTOCK_SERVER_IDEMPOTENCY_H
#define LOCKSTOCK_SERVER_IDEMPOTENCY_H

#include "lockstock/v1/idempotency.lks.h"
#include "functions/arguments.h"
#include "services/service.h"

/* Checks scope and key, and returns the base of their record: a separate group, or within `group` if that is not
 * empty. */
lks_rpc_slice idempotency_base(plan *p, const char *group, const char *scope, const char *key);

/* The most that the record's result can add to the weight of a call. */
enum { IDEMPOTENCY_RESULT_WEIGHT = 4 };

/* Check a value and name its field in the error; retain_ms 0 becomes the default. */
lks_rpc_slice idempotency_fingerprint(plan *p, const ProtobufCBinaryData *fingerprint);
int64_t idempotency_retain_ms(plan *p, int64_t retain_ms);

/* Starts a call to `function` for the record. */
void idempotency_call(plan *p, const plan_function *function, const char *group, const char *scope, const char *key);

/* Returns the id that the caller has chosen, 16 to 64 bytes, or a random one if it is empty. */
const char *idempotency_id(plan *p, const char *field, const char *id);

void idempotency_check_lease(plan *p, int64_t lease_ms);

enum { IDEMPOTENCY_DETAIL_BYTES_MAX = 1024 };

/* idempotency_result.c. A result is stored serialized, as it will be sent. */

/* Checks and returns the result of a Complete; and the result that is replayed after a FINAL failure. */
lks_rpc_slice idempotency_success(plan *p, int32_t code, ProtobufCBinaryData body, size_t n_headers,
                                  lks_result_header **headers);
lks_rpc_slice idempotency_failure(plan *p, const char *detail);

/* Returns element i of a reply, in the arena. NULL, with a->error set: it is not a result. */
lks_stored_result *idempotency_result(answer *a, const store_value *reply, size_t i);

LKS_IDEMPOTENCY_METHODS(SERVICE_DECLARE)

#endif
