/* An attempt of lks_once: what its function sees of it, the result in the making, and
 * the lease of its lease. */
#ifndef LOCKSTOCK_CLIENT_ONCE_ATTEMPT_H
#define LOCKSTOCK_CLIENT_ONCE_ATTEMPT_H

#include <lockstock/once.h>
#include <lockstock/rpc/method.h>
#include <lockstock/v1/idempotency.lks.h>

#include "client/lease/lease.h"

struct lks_once_attempt {
    struct lease lease;
    char *scope, *key; /* constant */
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
    /* Constant while the function runs. */
    int64_t number;
    uint64_t fence;
    /* The function's. */
    lks_stored_result result;
    lks_result_header headers[LKS_ONCE_HEADERS_MAX], *header_list[LKS_ONCE_HEADERS_MAX];
    char *detail; /* NULL = none */
};

/* One that has not begun, to be ended with lease_end(&attempt->lease). */
lks_code once_attempt_new(lks_channel *channel, const lks_once_options *options, lks_once_attempt **ret,
                          lks_error *error);

/* The answer to an Extend that renews a lease; arg: the batch. */
void once_extended(void *arg, lks_code code, const lks_extend_response *response, const lks_error *error);

/* What stores its result; points into the attempt. */
lks_complete_request once_complete_request(const lks_once_attempt *attempt);

/* A copy for the caller; NULL when out of memory. */
lks_once_result *once_result_new(const lks_stored_result *stored, bool replayed);

/* The result of an attempt that gave up, as a server would replay it. */
lks_once_result *once_failure_new(char *detail);

#endif
