/* Classifies the error of a call: whether no server could answer, and whether a try is in doubt. */
#ifndef LOCKSTOCK_RPC_TRANSIENT_H
#define LOCKSTOCK_RPC_TRANSIENT_H

#include <stdbool.h>

#include <lockstock/status.h>

/* Whether no server could be asked, so that the error is transient and not about the request. A full server says when
 * to retry; a limit that belongs to the request (a key with too many counters) does not. */
static inline bool error_is_transient(const lks_error *error)
{
    bool passes = error->origin == LKS_ORIGIN_LOCAL || error->retry_after_ms != 0;

    return error->code == LKS_UNAVAILABLE || error->code == LKS_DEADLINE_EXCEEDED ||
           (error->code == LKS_RESOURCE_EXHAUSTED && passes);
}

/* Whether a try of the call, which failed or was refused, may have taken effect or still do so. */
static inline bool error_is_doubtful(const lks_error *error)
{
    return error->applied != LKS_APPLIED_NO && (error->code != LKS_OK || error->applied != LKS_APPLIED_UNSPECIFIED);
}

#endif
