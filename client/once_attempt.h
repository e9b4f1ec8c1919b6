/* An attempt of lks_once: its lease and its result. once.c begins and ends it; once_result.c has the functions that set
 * the result. */
#ifndef LOCKSTOCK_CLIENT_ONCE_ATTEMPT_H
#define LOCKSTOCK_CLIENT_ONCE_ATTEMPT_H

#include <lockstock/once.h>
#include <lockstock/rpc/method.h>
#include <lockstock/v1/idempotency.lks.h>

#include "client/lease/grant.h"

struct lks_once_attempt {
    struct grant grant;              /* first */
    char *scope, *key;               /* constant */
    ProtobufCBinaryData fingerprint; /* constant */
    uint64_t retain_ms;
    uint32_t wait_ms;
    char token[LKS_RPC_RANDOM_ID_LEN + 1];
    lks_once_done *done; /* NULL = a thread waits */
    void *arg;

    /* Set by the chain; constant while the function runs. */
    int64_t number;
    uint64_t fence;
    lks_once_outcome outcome;
    lks_once_result *found; /* the result for the caller */

    /* Set by the function. */
    lks_stored_result result;
    lks_result_header headers[LKS_ONCE_HEADERS_MAX], *header_list[LKS_ONCE_HEADERS_MAX];
    char *detail; /* NULL = none */
    lks_once_verdict verdict;
};

/* Frees the result that the function set. */
void once_forget_result(lks_once_attempt *attempt);

/* The request that stores its result; points into the attempt. */
lks_complete_request once_complete_request(const lks_once_attempt *attempt);

/* A copy for the caller; NULL when out of memory, or stored is NULL. */
lks_once_result *once_result_new(const lks_stored_result *stored, bool replayed);

/* The result of an attempt that gave up, as a server would replay it. */
lks_once_result *once_failure_new(char *detail);

#endif
