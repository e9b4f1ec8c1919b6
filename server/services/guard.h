/* What the files of GuardService share. */
#ifndef LOCKSTOCK_SERVER_GUARD_H
#define LOCKSTOCK_SERVER_GUARD_H

#include "lockstock/v1/guard.lks.h"
#include "functions/arguments.h"
#include "services/service.h"

/* Where the parts of a request lie; a base is empty when the request lacks the part. */
typedef struct guard_places {
    lks_rpc_slice base; /* of the function's call: that of the locks, if there are any, because alarms use it */
    lks_rpc_slice record, rates, stock;
} guard_places;

/* Checks groups and names of the parts. limits may be NULL, like every part. */
guard_places guard_find_places(plan *p, const char *group, const lks_guard_once *once, const lks_guard_limits *limits,
                               const lks_guard_stock *stock, const lks_guard_locks *locks);

/* What follows in the plan's error is within a part: "rules[0].key" becomes "limits.rules[0].key". */
void guard_within(plan *p, const char *part);

/* ---- guard_enter.c ---- */

void enter_prepare(const lks_enter_request *request, plan *p);
void enter_finish(const lks_enter_request *request, answer *a, lks_enter_response *response);

#endif
