/* What a call sends. It is made once, at the start, because the caller may free its request before a second try.
 * Constant after request_new, but for the token and the span id. */
#ifndef LOCKSTOCK_CLIENT_CALL_REQUEST_H
#define LOCKSTOCK_CLIENT_CALL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/call.h>
#include <lockstock/rpc/service.h>
#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "base/trace_context.h"

struct request {
    const lks_rpc_method *method;
    uint64_t deadline_ns;
    uint32_t wait_ms; /* how long the server may hold the call; 0 = it answers at once */
    bool no_retry;    /* never sent a second time */
    bool insist;      /* tried again after every refusal that may pass */
    bool repeatable;  /* may be sent again after a try that may have taken effect */
    bool coalesces;   /* may share a message with others, if it does not wait */
    /* A packed Call without its timeout: method and payload of the first try, and of later ones; the metadata. */
    lks_rpc_slice first, again, metadata;
    bool needs_token;  /* of get_token: the call has no authorization of its own */
    char *traceparent; /* in the metadata, without a NUL; NULL: none, or none that is valid */
    bool begins_trace; /* it was not given */
    uint8_t given_span[TRACE_SPAN_BYTES];
    lks_rpc_slice token; /* packed metadata, an allocation of its own; len 0: none yet */
};

/* The most bytes of a message of several calls. A longer call has a message of its own. */
enum { REQUEST_FRAME_BYTES_MAX = 16 * 1024 };

/* Copies everything into one allocation, freed with request_free. Fills in an empty natural id if the method says so.
 * `options` may be NULL; `defaults` are the channel's. LKS_INVALID_ARGUMENT: a request of another method, metadata
 * that cannot be sent, or too many bytes; LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error);

/* Takes NULL. */
void request_free(struct request *request);

/* Sets the metadata `authorization`, or sets it anew. False when out of memory. */
bool request_authorize(struct request *request, const char *authorization);

/* Makes up another span id for its traceparent, which exists. */
void request_new_span(struct request *request);

/* The traceparent, which exists, with the present span id, and as it was given. False: it was not given. */
bool request_traceparents(const struct request *request, char sent[TRACE_PARENT_CHARS + 1],
                          char given[TRACE_PARENT_CHARS + 1]);

/* The most bytes that it adds to a frame. `again`: an earlier try may have reached a server. */
size_t request_bytes_max(const struct request *request, bool again);

/* Adds it to a frame and returns the end. `unanswered`: an earlier try may have taken effect. timeout_ms: the time
 * that is left for the call. */
uint8_t *request_write(const struct request *request, bool again, bool unanswered, uint32_t timeout_ms, uint8_t *at);

/* For a cancelled call that may have reached a server: starts the call that the option `undo` of its method names,
 * in the background; without the option nothing. It names the call by the id that all tries had, so a server that
 * gets a late copy knows that it is over. */
void request_undo(const struct request *request, lks_channel *channel);

#endif
