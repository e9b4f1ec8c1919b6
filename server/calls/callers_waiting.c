/* Called by callers.c. */
#include "calls/callers_state.h"

enum { PRINCIPAL_PART = 2 }; /* of all that may wait, one principal's */

lks_code callers_no_room(lks_error *error, lks_reason reason, const char *why)
{
    lks_code code = lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, reason, "%s", why);

    error->retry_after_ms = CALLERS_RETRY_AFTER_MS;
    return code;
}

lks_code callers_enter_waiting(caller_call *call, const char *principal, lks_error *error)
{
    caller *c = call->caller;
    callers *all = c->all;
    const callers_options *o = &all->options;
    named_entry *sum = principal ? named_enter(&all->principals, principal, sizeof *sum) : NULL;
    const char *full = NULL;

    if (principal && !sum)
        full = "out of memory";
    else if (all->n_waiting >= o->waiting_max)
        full = "too many calls wait";
    else if (c->n_waiting >= o->waiting_per_caller)
        full = "too many calls wait on this connection";
    else if (sum && sum->members > (o->waiting_max + PRINCIPAL_PART - 1) / PRINCIPAL_PART)
        full = "too many calls of this principal wait";
    if (full) {
        named_leave(&all->principals, sum);
        return callers_no_room(error, principal && !sum ? LKS_REASON_NO_ROOM : LKS_REASON_TOO_MANY_CALLS, full);
    }
    call->waiting = sum;
    c->n_waiting++;
    all->n_waiting++;
    return LKS_OK;
}

void callers_leave_waiting(caller_call *call)
{
    caller *c = call->caller;

    named_leave(&c->all->principals, call->waiting);
    call->waiting = NULL;
    c->n_waiting--;
    c->all->n_waiting--;
}
