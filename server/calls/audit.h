/* What the log tells of calls: who did what others rely on, and who was refused. Never what a request says, but
 * for a reason, which the contract has for the log.
 *
 *   event=audit          each call of an ADMIN method that was let in, when it has ended
 *   event=refused        at level warn: by identity (UNAUTHENTICATED, PERMISSION_DENIED)
 *   event=call-refused   at level debug: before it was looked into, for other reasons
 *
 * Refusals are some lines a second of each kind. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_CALLS_AUDIT_H
#define LOCKSTOCK_SERVER_CALLS_AUDIT_H

#include <lockstock/rpc/method.h>

#include "calls/callers.h"
#include "calls/identity.h"
#include "net/log_rate.h"

enum { AUDIT_KINDS = 4 };

/* Zero at first. */
typedef struct audit {
    log_rate refusals[AUDIT_KINDS];
} audit;

/* The call has ended: with a response, or with an error. who NULL: nobody has to be known here. Not of
 * methods that are not ADMIN. */
void audit_call(const lks_rpc_method *method, const caller *from, const char *who, lks_rpc_slice ns,
                const ProtobufCMessage *request, const ProtobufCMessage *response, const lks_error *error);

/* method NULL: there is none of the path that came. who NULL: not known. */
void audit_refusal(audit *a, const lks_rpc_method *method, const caller *from, const char *who, const lks_error *error);

#endif
