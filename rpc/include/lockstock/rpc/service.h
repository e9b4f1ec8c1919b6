/* A service of a server: methods bound to handlers. A generated skeleton makes it from typed handlers; liblockstock-
 * host runs it. */
#ifndef LOCKSTOCK_RPC_SERVICE_H
#define LOCKSTOCK_RPC_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/guard.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_rpc_metadata {
    const char *key;
    lks_rpc_slice value;
} lks_rpc_metadata;

typedef struct lks_rpc_list {
    lks_rpc_metadata *items;
    size_t n;
} lks_rpc_list;

/* The additions of a handler to its answer (lockstock/host.h). */
typedef struct lks_rpc_additions {
    lks_rpc_list headers, trailers;
    lks_rpc_list details; /* of an error; key: the type's URL, value: the serialised message */
    const char *text;     /* of an error, instead of the error's; NULL: none */
} lks_rpc_additions;

/* A name in a certificate: the subject's common name, or one of the subject's alternative names. */
typedef enum lks_rpc_name_kind {
    LKS_RPC_NAME_COMMON,
    LKS_RPC_NAME_DNS,
    LKS_RPC_NAME_URI,
    LKS_RPC_NAME_EMAIL,
} lks_rpc_name_kind;

typedef struct lks_rpc_name {
    lks_rpc_name_kind kind;
    const char *text;
} lks_rpc_name;

/* The other end of a connection. */
typedef struct lks_rpc_peer {
    const char *wire;          /* "tcp", "tls", "unix", "ws", "wss", "grpc", "grpcs", "grpc+unix" */
    const char *address;       /* "192.0.2.1:4711", "[2001:db8::1]:4711", "uid:1000" of a unix socket */
    int64_t uid, pid;          /* of the peer when it connected over a unix socket; otherwise -1 */
    const lks_rpc_name *names; /* in its verified certificate */
    size_t n_names;
} lks_rpc_peer;

/* The context of a call. Valid until the handler returns, or until a deferred call is finished (lockstock/host.h). */
typedef struct lks_rpc_context {
    lks_rpc_arena *arena; /* memory for the response, freed after it is sent */
    const lks_rpc_method *method;
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    size_t n_metadata;
    const lks_rpc_metadata *metadata;
    const char *certificate;     /* the name in the caller's verified certificate: its first DNS name, or without one
                                    its common name; NULL: none */
    struct lks_guarded *guarded; /* the state of the guards (lockstock/guard.h); NULL: no guards */
    const lks_rpc_peer *peer;
    lks_rpc_additions added;
    struct lks_rpc_follower *followers; /* calls that it made (lks_call_options.context); internal */
    bool stopped, followed;             /* internal */
    const char *principal;              /* the caller as identified by `authenticate` of the host's options; "": none */
} lks_rpc_context;

/* A member of a call that a handler makes, so that this call ends with the handler's call. For lockstock's own
 * libraries. */
typedef struct lks_rpc_follower {
    void (*stop)(struct lks_rpc_follower *follower); /* must not block, nor follow or unfollow a context */
    struct lks_rpc_follower *next, **at;             /* its place in the context's list; at NULL: in none */
} lks_rpc_follower;

/* Makes `stop` run once when the context's call is cancelled or its deadline passes. False: this has already happened,
 * and `stop` will not run. Thread-safe. */
bool lks_rpc_follow(lks_rpc_context *context, lks_rpc_follower *follower);

/* When it returns, `stop` is not running and will not run. Thread-safe. */
void lks_rpc_unfollow(lks_rpc_follower *follower);

/* Stops the followers, also those that are added later. */
void lks_rpc_context_stop(lks_rpc_context *context);

/* Ends the context without stopping its followers. */
void lks_rpc_context_end(lks_rpc_context *context);

typedef struct lks_rpc_service lks_rpc_service;

/* Runs a call of `service`. The function of a generated skeleton casts the messages to their types and calls the
 * typed handler. `response` is initialised; it must point into the arena or to static memory. Returns LKS_OK, or a
 * code with *error set, also its `applied`. May block; runs on several worker threads at a time. */
typedef lks_code lks_rpc_handler(const lks_rpc_service *service, lks_rpc_context *context,
                                 const ProtobufCMessage *request, ProtobufCMessage *response, lks_error *error);

typedef struct lks_rpc_binding {
    const lks_rpc_method *method;
    lks_rpc_handler *handle;
    const lks_rpc_guard *guard; /* NULL: none */
} lks_rpc_binding;

struct lks_rpc_service {
    const char *name; /* "shop.v1.ShopService" */
    size_t n_bindings;
    const lks_rpc_binding *bindings;
    const void *handlers; /* the typed handlers, whose type the bindings know */
    void *self;           /* passed to each handler */
    /* For reflection: the .proto file and its imports as a serialised google.protobuf.FileDescriptorSet;
     * descriptor.proto and lockstock/rpc/v1/options.proto may be left out. NULL: not in reflection. */
    const void *descriptors;
    size_t n_descriptors;
};

#ifdef __cplusplus
}
#endif

#endif
