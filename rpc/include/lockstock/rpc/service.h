/* A typed service as a server sees it: methods bound to handlers. The generated
 * skeleton makes one from typed handlers; `host/` runs it. */
#ifndef LOCKSTOCK_RPC_SERVICE_H
#define LOCKSTOCK_RPC_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/guard.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a handler may know of its call beside the request. Valid until the
 * handler returns, or the call is finished that it deferred (lockstock/host.h). */
typedef struct lks_rpc_context {
    lks_rpc_arena *arena; /* memory for the response; freed after it was sent */
    const lks_rpc_method *method;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    size_t n_metadata;
    const struct lks_rpc_metadata {
        const char *key;
        lks_rpc_slice value;
    } * metadata;
    const char *certificate;     /* the name in the caller's verified certificate; NULL = none */
    struct lks_guarded *guarded; /* what the guards of the method hold (lockstock/guard.h); NULL = it has none */
} lks_rpc_context;

typedef struct lks_rpc_service lks_rpc_service;

/* Runs one call of `service`: a generated skeleton's casts the messages to their
 * types and calls the typed handler. `response` is initialised; what it points to must live in the
 * arena or be static. Returns LKS_OK, or a code with *error set (applied too).
 * May block; runs on a worker thread, several at a time. */
typedef lks_code lks_rpc_handler(const lks_rpc_service *service, lks_rpc_context *context,
                                 const ProtobufCMessage *request, ProtobufCMessage *response, lks_error *error);

typedef struct lks_rpc_binding {
    const lks_rpc_method *method;
    lks_rpc_handler *handle;
    const lks_rpc_guard *guard; /* what is to be done around it; NULL = nothing */
} lks_rpc_binding;

struct lks_rpc_service {
    const char *name; /* "shop.v1.ShopService" */
    size_t n_bindings;
    const lks_rpc_binding *bindings;
    const void *handlers; /* the typed handlers, of a type that the bindings know */
    void *self;           /* given to each handler */
    /* For reflection: the .proto file and all that it imports, as a serialised google.protobuf.FileDescriptorSet;
     * descriptor.proto and lockstock/rpc/v1/options.proto may be left out. NULL: nothing is told. */
    const void *descriptors;
    size_t n_descriptors;
};

#ifdef __cplusplus
}
#endif

#endif
