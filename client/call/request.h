/* What a call sends, made once when it starts: the caller's request may be gone
 * by the time of a second try. Constant after request_new, so free of locks. */
#ifndef LOCKSTOCK_CLIENT_CALL_REQUEST_H
#define LOCKSTOCK_CLIENT_CALL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/call.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "client/wire/link.h"

struct request {
    const lks_rpc_method *method;
    uint64_t deadline_ns;
    uint32_t wait_ms;                 /* how long the server may hold the call; 0 = it answers at once */
    bool no_retry;                    /* never to be sent a second time */
    bool insist;                      /* refusals that may pass are tried again, whatever their code */
    bool repeatable;                  /* may be sent again even when it may have been applied */
    ProtobufCBinaryData first, again; /* payloads of the first try, and of every later one */
    size_t n_metadata;
    Lockstock__Rpc__V1__Metadata **metadata;
};

/* Copies everything into one allocation, to be freed with free(). An empty natural id
 * that is to be filled in is. `options` may be NULL; `defaults` are the channel's.
 * LKS_INVALID_ARGUMENT: a request of another method, metadata that cannot be sent, or
 * too many bytes; LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error);

/* The frame of one try, the caller's; NULL when out of memory. `again`: a try before it may have
 * reached a server. timeout_ms is what is left for the call. */
link_message *request_frame(const struct request *request, bool again, uint32_t timeout_ms);

#endif
