/* Receives the calls of the engines. An engine (sp_server, grpc) turns bytes into calls and answers into bytes. The
 * sink decides what a call means, which callers may make it and when it runs: lockstockd's is server/calls/dispatch.h, a
 * host's is host/calls.h. Loop thread only.
 *
 *   connection --open--> caller --take--> call --done--> answer
 *              --lost--> each of its calls is abandoned
 */
#ifndef LOCKSTOCK_NET_SINK_H
#define LOCKSTOCK_NET_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/rpc/service.h>
#include <lockstock/status.h>

#include "net/admission/budget.h"

/* The sink's state of a connection, and of a call that is not done. */
typedef struct caller caller;
struct running;

/* What the rights of a call depend on. */
typedef struct credentials {
    lks_rpc_slice authorization; /* metadata "authorization"; empty = none */
    lks_rpc_slice ns;            /* metadata "lockstock-namespace"; empty = none */
    const char *certificate;     /* a verified client certificate's name; NULL = none */
    const uid_t *uid;            /* of a unix peer; NULL = none */
    bool says_authorization, says_ns;
    const char *twice; /* an entry that is given more than once, and so is ambiguous; NULL = none */
} credentials;

/* Reads an entry of a call's metadata if it is "authorization" or "lockstock-namespace". Copies nothing. */
static inline void credentials_read(credentials *who, const char *name, lks_rpc_slice value)
{
    bool is_ns = strcmp(name, "lockstock-namespace") == 0;
    bool *said = is_ns ? &who->says_ns : strcmp(name, "authorization") == 0 ? &who->says_authorization : NULL;

    if (!said)
        return;
    if (*said)
        who->twice = name;
    *said = true;
    *(is_ns ? &who->ns : &who->authorization) = value;
}

/* Shared by the calls of one message. */
typedef struct sink_message {
    const char *full; /* NULL, or why calls that have not begun are refused with RESOURCE_EXHAUSTED */
} sink_message;

/* Called with an entry of metadata, which is valid until it returns. */
typedef void sink_see_entry(void *arg, const char *key, lks_rpc_slice value);

/* For a call that parks after take has returned. The argument is that of the call's `done`. */
typedef struct sink_lender {
    void (*give)(void *arg);           /* the call does not need its arena any more: the engine takes it back */
    lks_rpc_arena *(*take)(void *arg); /* a new arena; NULL when out of memory */
} sink_lender;

/* One call, as the engine read it. */
typedef struct sink_call {
    const char *path;
    const void *payload;
    size_t len;
    uint32_t timeout_ms;  /* 0 = none */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    caller *caller;
    credentials who;
    bool unanswered_before;           /* set by the caller: an earlier attempt may have run, or may be running */
    const sink_message *message;      /* NULL: the call is alone in its message, so it may park */
    const struct sink_lender *lender; /* NULL: the call keeps its arena until done */
    struct running **handle;          /* for abandon; set until done; NULL: not wanted */
    /* Calls `see` for each entry of the call's metadata. Binary entries of gRPC are decoded. */
    void (*read_metadata)(const void *metadata, sink_see_entry *see, void *arg);
    const void *metadata;
} sink_call;

/* Runs exactly once. `response` is NULL unless error->code is LKS_OK. All pointers belong to the sink and are valid
 * until this returns. `method` is static, NULL when the method does not exist. added NULL: nothing. */
typedef void sink_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response,
                       const lks_error *error, const lks_rpc_additions *added);

/* A connection, as the engine describes it. */
typedef struct sink_connection {
    budget_share *bytes;        /* its share of the budget; lives as long as its calls hold bytes */
    lks_rpc_peer peer;          /* its pointers are valid as long as the connection */
    const char *origin;         /* the address without a port, or the user; NULL: not known; copied by the sink */
    void (*on_room)(void *arg); /* the sink queues no call of it any more; never runs inside a function of the sink */
    void *arg;
} sink_connection;

typedef struct sink {
    /* A new connection; NULL when out of memory. */
    caller *(*open)(void *arg, const sink_connection *c);
    /* The connection is closed. Its calls are abandoned. Takes NULL. */
    void (*lost)(caller *c);
    /* While a connection is held, none of its calls starts. */
    void (*hold)(caller *c, bool held);
    /* Whether the connection has more calls than may start. Then the engine should stop reading. */
    bool (*queues)(const caller *c);
    /* The method of a path, without a check of rights; NULL: there is none. */
    const lks_rpc_method *(*method)(void *arg, const char *path);
    /* Whether a call would be admitted, before its request is read. effect 0: a method of the sink;
     * LKS_UNIMPLEMENTED when the path is unknown. Otherwise the engine serves the method itself, and `effect` is the
     * right that the call needs. */
    lks_code (*check)(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                      lks_error *error);
    /* Takes a call. The caller, the message, the handle and the arena must live until done, which may run before
     * this returns. Nothing else that `call` points to is kept. The sink allocates in the arena. */
    void (*take)(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg);
    /* The answer of this call will not be read. The call must not be done yet. */
    void (*abandon)(struct running *call);
    void *arg;
} sink;

#endif
