/* The interceptors of a channel around one of its calls. */
#ifndef LOCKSTOCK_CLIENT_CALL_INTERCEPT_H
#define LOCKSTOCK_CLIENT_CALL_INTERCEPT_H

#include <lockstock/call.h>

typedef struct intercepted {
    void **own; /* a pointer of each interceptor; NULL: there are none */
    size_t n;   /* interceptors that admitted the call: their `after` is to run */
} intercepted;

/* Runs `before` of each interceptor until one refuses. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code intercept_before(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                          const ProtobufCMessage *request, lks_call_options *options, lks_error *error);

/* Runs `after` of those that admitted the call, the last one first. */
void intercept_after(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                     const ProtobufCMessage *response, const lks_error *error);

#endif
