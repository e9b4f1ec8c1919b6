/* What the files of RateLimitService share: ratelimit.c holds the table, Check, Refund
 * and Reset, ratelimit_policies.c the stored limits. Private to ratelimit*.c. */
#ifndef LOCKSTOCK_SERVER_RATELIMIT_H
#define LOCKSTOCK_SERVER_RATELIMIT_H

#include "lockstock/v1/ratelimit.lks.h"
#include "services/service.h"

/* Zeroed memory of the arena; NULL makes the call fail. */
void *ratelimit_alloc(answer *a, size_t size);

/* Appends text to the last call started, percent-encoded as keys hold it. */
void ratelimit_arg(plan *p, const char *text);

/* ---- ratelimit_limits.c ---- */

/* A limit of which every number is set: defaults filled in. */
typedef struct limit_spec {
    lks_algorithm algorithm;
    int64_t limit, period_ms, burst;
    int64_t after, ban_ms, factor, max_ban_ms;
} limit_spec;

/* Checks a limit of a request, naming fields below `field`; gives it with its defaults. */
limit_spec ratelimit_check_limit(plan *p, const char *field, const lks_limit *limit);

/* "F,5,1000,0,7,2000,1,4000" as functions read it, the same for limits that are the same;
 * NULL when out of memory. */
char *ratelimit_spec_text(lks_rpc_arena *arena, const limit_spec *spec);

#endif
