/* What a call sends, made once when it starts: the caller's request may be gone
 * by the time of a second try. Constant after request_new, so free of locks. */
#ifndef LOCKSTOCK_CLIENT_CALL_REQUEST_H
#define LOCKSTOCK_CLIENT_CALL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/call.h>
#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>

struct request {
    const lks_rpc_method *method;
    uint64_t deadline_ns;
    uint32_t wait_ms; /* how long the server may hold the call; 0 = it answers at once */
    bool no_retry;    /* never to be sent a second time */
    bool insist;      /* refusals that may pass are tried again, whatever their code */
    bool repeatable;  /* may be sent again even when it may have been applied */
    bool coalesces;   /* may share a message with others, if it does not wait */
    /* A Call as it travels, but for its timeout: method and payload of the first try, and of every
     * later one; the metadata. */
    lks_rpc_slice first, again, metadata;
};

/* Messages of several calls are no longer; a call that is travels alone. */
enum { REQUEST_FRAME_BYTES_MAX = 16 * 1024 };

/* Copies everything into one allocation, to be freed with free(). An empty natural id
 * that is to be filled in is. `options` may be NULL; `defaults` are the channel's.
 * LKS_INVALID_ARGUMENT: a request of another method, metadata that cannot be sent, or
 * too many bytes; LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error);

/* The bytes that it adds to a frame, at most; `again`: a try before it may have reached a
 * server. */
size_t request_bytes_max(const struct request *request, bool again);

/* Adds it to a frame. `unanswered`: a try before it may have taken effect. timeout_ms is what is left for the call.
 * Returns the end. */
uint8_t *request_write(const struct request *request, bool again, bool unanswered, uint32_t timeout_ms, uint8_t *at);

/* The Call of its first try, to be freed with lockstock__rpc__v1__call__free_unpacked; NULL when out of memory. */
Lockstock__Rpc__V1__Call *request_call(const struct request *request);

#endif
