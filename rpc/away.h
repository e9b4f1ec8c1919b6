/* What the end of a call says: that nobody could be asked, or something about the question; and whether a try is in
 * doubt. */
#ifndef LOCKSTOCK_RPC_AWAY_H
#define LOCKSTOCK_RPC_AWAY_H

#include <stdbool.h>

#include <lockstock/status.h>

/* Whether it says nothing against the question. What is full and passes tells when to ask
 * again; what does not (a key with too many counters) is the caller's own. */
static inline bool error_is_away(const lks_error *error)
{
    bool passes = error->origin == LKS_ORIGIN_LOCAL || error->retry_after_ms != 0;

    return error->code == LKS_UNAVAILABLE || error->code == LKS_DEADLINE_EXCEEDED ||
           (error->code == LKS_RESOURCE_EXHAUSTED && passes);
}

/* Whether a try of the call, which failed or was answered with a refusal, may have taken effect or still do so. */
static inline bool error_is_doubtful(const lks_error *error)
{
    return error->applied != LKS_APPLIED_NO && (error->code != LKS_OK || error->applied != LKS_APPLIED_UNSPECIFIED);
}

#endif
