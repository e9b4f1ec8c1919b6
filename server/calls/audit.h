/* Log events about calls: ADMIN calls, and refusals. Of a request only an ADMIN call's reason and target are logged:
 * its group and name, sku or resource. Keys, owners, tokens and payloads never are.
 *
 *   event=audit          each admitted call of an ADMIN method, at its end; at any --log-level
 *   event=refused        level warn: refused by identity (UNAUTHENTICATED, PERMISSION_DENIED)
 *   event=call-refused   level debug: refused for other reasons, before it was planned
 *
 * Refusals are limited to some lines a second of each kind. Loop thread only. */
#ifndef LOCKSTOCK_SERVER_CALLS_AUDIT_H
#define LOCKSTOCK_SERVER_CALLS_AUDIT_H

#include <lockstock/rpc/method.h>

#include "calls/callers.h"
#include "calls/identity.h"
#include "base/log_rate.h"

enum { AUDIT_KINDS = 4 };

/* Zero at first. */
typedef struct audit {
    log_rate refusals[AUDIT_KINDS];
} audit;

/* The caller of a call, copied: its connection may be closed when the call ends. */
typedef struct audit_origin {
    const char *principal; /* "": there is no policy */
    const char *wire, *from;
} audit_origin;

/* In the arena. who NULL: there is no policy. */
audit_origin *audit_origin_new(lks_rpc_arena *arena, const caller *from, const char *who);

/* The call has ended: with a response, or with an error. Not of methods that are not ADMIN. */
void audit_call(const lks_rpc_method *method, const audit_origin *origin, lks_rpc_slice ns,
                const ProtobufCMessage *request, const ProtobufCMessage *response, const lks_error *error);

/* method NULL: there is no such method. who NULL: unknown; with LKS_UNAUTHENTICATED it is the
 * principal of a token that has ended, which only the log tells. */
void audit_refusal(audit *a, const lks_rpc_method *method, const caller *from, const char *who, const lks_error *error);

#endif
