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

/* An id of a caller's own choosing, 16..64 bytes; one that is made up when it is empty. */
const char *idempotency_id(plan *p, const char *field, const char *id);

void idempotency_check_lease(plan *p, int64_t lease_ms);

/* idempotency_result.c. A result is stored as it will be sent: serialised. */

void idempotency_check_result(plan *p, size_t body_len, size_t n_headers, lks_result_header *const *headers);
lks_rpc_slice idempotency_packed(plan *p, const lks_stored_result *result);

/* The result by which a FINAL failure is replayed. */
lks_rpc_slice idempotency_failure(plan *p, const char *detail);

/* Element i of a reply; NULL with a->error set when it is none. Lives in the arena. */
lks_stored_result *idempotency_result(answer *a, const store_value *reply, size_t i);

/* idempotency_attempt.c: how an attempt ends, and what became of it. */
void extend_prepare(const lks_extend_request *request, plan *p);
void complete_prepare(const lks_complete_request *request, plan *p);
void fail_prepare(const lks_fail_request *request, plan *p);
void get_prepare(const lks_get_request *request, plan *p);
void delete_prepare(const lks_delete_request *request, plan *p);
void extend_finish(const lks_extend_request *request, answer *a, lks_extend_response *response);
void complete_finish(const lks_complete_request *request, answer *a, lks_complete_response *response);
void fail_finish(const lks_fail_request *request, answer *a, lks_fail_response *response);
void get_finish(const lks_get_request *request, answer *a, lks_get_response *response);
void delete_finish(const lks_delete_request *request, answer *a, lks_delete_response *response);

/* idempotency_ticket.c */
void issue_ticket_prepare(const lks_issue_ticket_request *request, plan *p);
void consume_ticket_prepare(const lks_consume_ticket_request *request, plan *p);
void issue_ticket_finish(const lks_issue_ticket_request *request, answer *a, lks_issue_ticket_response *response);
void consume_ticket_finish(const lks_consume_ticket_request *request, answer *a, lks_consume_ticket_response *response);

#endif
