/* The interceptors of a channel around one of its calls. */
#ifndef LOCKSTOCK_CLIENT_CALL_INTERCEPT_H
#define LOCKSTOCK_CLIENT_CALL_INTERCEPT_H

#include <lockstock/call.h>

typedef struct intercepted {
    void **own; /* the interceptors' own pointers; NULL: there are no interceptors */
    size_t n;   /* interceptors that admitted the call; their `after` must run */
} intercepted;

/* Runs `before` of each interceptor until one refuses. LKS_RESOURCE_EXHAUSTED: no memory. */
lks_code intercept_before(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                          const ProtobufCMessage *request, lks_call_options *options, lks_error *error);

/* Runs `after` of the interceptors that admitted the call, in reverse order. */
void intercept_after(lks_channel *channel, intercepted *state, const lks_rpc_method *method,
                     const ProtobufCMessage *response, const lks_error *error);

#endif
