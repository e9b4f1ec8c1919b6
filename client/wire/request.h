/* The bytes that a call sends. They are made once, at the start, because the caller may free its request before a
 * second try. Constant after request_new, except for the token and the span id. */
#ifndef LOCKSTOCK_CLIENT_WIRE_REQUEST_H
#define LOCKSTOCK_CLIENT_WIRE_REQUEST_H

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
    bool insist;      /* tried again after every transient refusal */
    bool repeatable;  /* may be sent again after a try that may have taken effect */
    bool coalesces;   /* may share a message with other calls, if it does not wait */
    /* A packed Call without its timeout: method and payload of the first try; the same of later tries; the metadata. */
    lks_rpc_slice first, again, metadata;
    bool needs_token;  /* the call has no authorization, so it needs the token of get_token */
    char *traceparent; /* in the metadata, without a NUL; NULL: none, or an invalid one */
    bool begins_trace; /* no traceparent was given */
    uint8_t given_span[TRACE_SPAN_BYTES];
    lks_rpc_slice token; /* packed metadata, in its own allocation; len 0: none yet */
};

/* The most bytes of a message of several calls. A longer call is sent alone. */
enum { REQUEST_FRAME_BYTES_MAX = 16 * 1024 };

/* Copies everything into one allocation, freed with request_free. Fills in an empty natural id if the method says so.
 * `options` may be NULL; `defaults` are the channel's. LKS_INVALID_ARGUMENT: a request of another method, metadata
 * that cannot be sent, or too many bytes; LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code request_new(const lks_rpc_method *method, const ProtobufCMessage *message, const lks_call_options *options,
                     const lks_channel_options *defaults, struct request **ret, lks_error *error);

/* Takes NULL. */
void request_free(struct request *request);

/* Sets or replaces the metadata `authorization`. False when out of memory. */
bool request_authorize(struct request *request, const char *authorization);

/* Makes a new span id for the traceparent, which must exist. */
void request_new_span(struct request *request);

/* Writes the traceparent, which must exist, with the current span id, and as it was given. False: it was not given. */
bool request_traceparents(const struct request *request, char sent[TRACE_PARENT_CHARS + 1],
                          char given[TRACE_PARENT_CHARS + 1]);

/* The most bytes that the request adds to a frame. `again`: an earlier try may have reached a server. */
size_t request_bytes_max(const struct request *request, bool again);

/* Writes the request into a frame and returns its end. `unanswered`: an earlier try may have taken effect. timeout_ms:
 * the time that is left for the call. */
uint8_t *request_write(const struct request *request, bool again, bool unanswered, uint32_t timeout_ms, uint8_t *at);

/* For a cancelled call that may have reached a server: starts the call that the option `undo` of its method names, in
 * the background; does nothing without the option. The undo names the call by the id that all tries had, so a server
 * refuses a late copy of the call. */
void request_undo(const struct request *request, lks_channel *channel);

#endif
