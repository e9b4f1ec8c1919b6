/* One asynchronous call. It is started by a generated `..._start` and completes exactly once, never inside its own
 * start. The generated stubs are typed wrappers of this header; call services through them. */
#ifndef LOCKSTOCK_CALL_H
#define LOCKSTOCK_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/channel.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_metadata {
    const char *key; /* lower case; lockstock-namespace and authorization override the channel's */
    const void *value;
    size_t len;
} lks_metadata;

typedef struct lks_call_options {
    /* For everything, including retries; 0 = the channel's, and at least wait_ms + 5,000 for a request that waits. */
    uint32_t timeout_ms;
    bool no_retry; /* never send it a second time */
    /* For calls that end or extend something, such as Release or Complete: every transient refusal with applied NO
     * is retried until the deadline, also RESOURCE_EXHAUSTED. Up to 1,024 such calls are accepted beyond queue_max,
     * as are calls of methods with the option settles. */
    bool insist;
    const lks_metadata *metadata; /* copied; at most 64, keys of a-z, 0-9, '-', '_', '.' */
    size_t n_metadata;
    /* Of the call whose handler makes this one: this call ends at the context's deadline at the latest, is cancelled
     * when that call is, and sends its traceparent and tracestate. Used only inside the function that starts the
     * call. NULL: none. */
    struct lks_rpc_context *context;
} lks_call_options;

typedef struct lks_call lks_call;

/* A callback of any type, which a call only stores. */
typedef void lks_call_function(void);

/* Runs once on the channel's completion thread, with the `function` and `arg` of
 * lks_call_start: a generated stub's `done` casts `function` back to the typed callback and calls it, because C must
 * not call it through another type. `response` is NULL unless code is LKS_OK; it and `error` are valid until `done`
 * returns. */
typedef void lks_call_done(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
                           const lks_error *error);

/* Starts a call. Copies the request before it returns. If the natural id is empty and the stub must fill it in, the
 * copy gets it. `done` (use lks_call_wait) and `function` may be NULL. If ret is NULL, the call frees itself;
 * otherwise *ret is set before `done` can run, and the caller frees it, at any time. options and error may be NULL. On
 * failure nothing was started and `done` never runs: LKS_RESOURCE_EXHAUSTED (queue full, memory),
 * LKS_INVALID_ARGUMENT, LKS_FAILED_PRECONDITION (in a forked child), LKS_CANCELLED (from a `done` while the channel
 * closes). Thread-safe; does not block. */
lks_code lks_call_start_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *request,
                              const lks_call_options *options, size_t options_bytes, lks_call_done *done,
                              lks_call_function *function, void *arg, lks_call **ret, lks_error *error);

static inline lks_code lks_call_start(lks_channel *channel, const lks_rpc_method *method,
                                      const ProtobufCMessage *request, const lks_call_options *options,
                                      lks_call_done *done, lks_call_function *function, void *arg, lks_call **ret,
                                      lks_error *error)
{
    return lks_call_start_sized(channel, method, request, options, sizeof(lks_call_options), done, function, arg, ret,
                                error);
}

/* Starts a call, waits, and takes the response; every synchronous stub does this. *ret is set only on LKS_OK; the
 * caller frees it with lks_message_free. ret may be NULL when the response is not needed. Fails as lks_call_start does,
 * with the error of the call, and on a completion thread with LKS_FAILED_PRECONDITION, without sending anything.
 * Thread-safe; blocks until the deadline at most. */
lks_code lks_call_run_sized(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *request,
                            const lks_call_options *options, size_t options_bytes, ProtobufCMessage **ret,
                            lks_error *error);

static inline lks_code lks_call_run(lks_channel *channel, const lks_rpc_method *method, const ProtobufCMessage *request,
                                    const lks_call_options *options, ProtobufCMessage **ret, lks_error *error)
{
    return lks_call_run_sized(channel, method, request, options, sizeof(lks_call_options), ret, error);
}

/* Blocks until the call completed and its `done` returned. Returns its code; error may be NULL.
 * LKS_FAILED_PRECONDITION: on a completion thread or in a forked child, where the wait would not end. May be called any
 * number of times, from several threads. */
lks_code lks_call_wait(lks_call *call, lks_error *error);

/* Whether the call completed and its `done` returned, so that lks_call_wait returns at once. Thread-safe; does not
 * block. */
bool lks_call_is_done(const lks_call *call);

/* Blocks until the call is done, timeout_ms at most, and returns whether it is. On a completion thread, or in a forked
 * child, it does not block. May be called any number of times, from several threads. */
bool lks_call_wait_for(lks_call *call, uint32_t timeout_ms);

/* The response of a call that completed with LKS_OK, valid until lks_call_free; otherwise NULL. Does not block. */
const ProtobufCMessage *lks_call_response(const lks_call *call);

/* The i-th header or trailer of the answer of a call that has ended (also in `done`), valid until lks_call_free. False:
 * there is no such entry. Do not block. */
bool lks_call_header(const lks_call *call, size_t i, lks_metadata *ret);
bool lks_call_trailer(const lks_call *call, size_t i, lks_metadata *ret);

/* The same for the messages that explain the error. Key: the type's URL ("type.googleapis.com/shop.v1.Shortage");
 * value: the serialised message. Over gRPC they include lockstock's own (google.rpc.ErrorInfo and others). */
bool lks_call_detail(const lks_call *call, size_t i, lks_metadata *ret);

/* The whole error text of a call that has ended, which may be cut in lks_error; "" if the call has not failed. Valid
 * until lks_call_free. Does not block. */
const char *lks_call_text(const lks_call *call);

/* Ends the call now with LKS_CANCELLED unless it has already completed: applied NO if it was never sent, otherwise
 * MAYBE. A late reply is dropped. Does not wait for `done`. The token of a cancelled Acquire that was sent is released
 * in the background, so that it leaves neither a place in the queue nor a lock. Does nothing in a forked child. */
void lks_call_cancel(lks_call *call);

/* Frees the caller's reference: a call under way continues and its `done` still runs. Takes NULL. */
void lks_call_free(lks_call *call);

/* Frees a response that a synchronous stub returned. Takes NULL. */
void lks_message_free(ProtobufCMessage *message);

#ifdef __cplusplus
}
#endif

#endif
