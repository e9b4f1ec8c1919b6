/* Where the engines' calls go. An engine (sp_server, grpc, nng) turns bytes into calls and
 * answers into bytes; what a call means, who may make it and when it runs is the sink's:
 * lockstockd's (server/calls/intake.h) or a host's (host/calls.h). Loop thread only.
 *
 *   connection --open--> caller --take--> call --done--> answer
 *              --lost--> each of its calls is abandoned      */
#ifndef LOCKSTOCK_NET_SINK_H
#define LOCKSTOCK_NET_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>
#include <lockstock/status.h>

#include "net/admission/budget.h"

/* What the sink keeps for a connection, and for a call that is not done. */
typedef struct caller caller;
struct running;

/* What a call is judged by. */
typedef struct credentials {
    lks_rpc_slice authorization; /* metadata "authorization"; empty = none */
    lks_rpc_slice ns;            /* metadata "lockstock-namespace"; empty = none */
    const char *certificate;     /* a verified client certificate's name; NULL = none */
    const uid_t *uid;            /* of a unix peer; NULL = none */
    bool says_authorization, says_ns;
    const char *twice; /* an entry that stands twice, so that it could be read in two ways; NULL = none */
} credentials;

/* Takes an entry of a call's metadata, if it is one of these two. Nothing is copied. */
static inline void credentials_take(credentials *who, const char *name, lks_rpc_slice value)
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

/* What several calls of one message share. */
typedef struct sink_message {
    const char *full; /* NULL, or why calls that have not begun are refused with RESOURCE_EXHAUSTED */
} sink_message;

/* Is told an entry of metadata: the caller's until it returns. */
typedef void sink_see_entry(void *arg, const char *key, lks_rpc_slice value);

/* For a call that waits, after take has returned; with the argument of its done. */
typedef struct sink_lender {
    void (*give)(void *arg);           /* what it needs of its arena is elsewhere: the arena is the engine's again */
    lks_rpc_arena *(*take)(void *arg); /* an arena to go on in; NULL when out of memory */
} sink_lender;

/* One call as its engine read it. */
typedef struct sink_call {
    const char *path;
    const void *payload;
    size_t len;
    uint32_t timeout_ms;  /* 0 = none named */
    uint64_t received_ns; /* CLOCK_MONOTONIC */
    caller *caller;
    credentials who;
    bool unanswered_before;           /* the caller says so: an earlier try of the call may have run, or run now */
    const sink_message *message;      /* NULL: no other call shares its message, so it may wait */
    const struct sink_lender *lender; /* NULL: it keeps its arena until done */
    struct running **handle;          /* for abandon: what it points to is set until done; NULL: not wanted */
    /* Tells all entries of the call's metadata; binary ones of gRPC decoded. */
    void (*tell_metadata)(const void *metadata, sink_see_entry *see, void *arg);
    const void *metadata;
} sink_call;

/* Runs exactly once. `response` is NULL unless error->code is LKS_OK; both are the sink's and
 * valid until this returns. `method` is static, NULL when there is no such one. */
typedef void sink_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response,
                       const lks_error *error);

/* A connection as its engine knows it. */
typedef struct sink_connection {
    budget_share *bytes;        /* its share; outlives its calls (budget.h sees to that) */
    const char *wire, *from;    /* how the log names it; they live as long as the connection */
    const char *origin;         /* the address without a port, or the user; NULL: not known. Not kept */
    void (*on_room)(void *arg); /* it does not queue any more; not from inside a function of the sink */
    void *arg;
} sink_connection;

typedef struct sink {
    /* A new connection; NULL when out of memory. */
    caller *(*open)(void *arg, const sink_connection *c);
    /* The connection is gone: its calls are abandoned. Takes NULL. */
    void (*lost)(caller *c);
    /* While it is held, no call of it starts. */
    void (*hold)(caller *c, bool held);
    /* Whether it has more calls than may start: the engine may as well stop reading. */
    bool (*queues)(const caller *c);
    /* Whether such a call would be let in, before its request is read. effect 0: it is of the sink's own
     * methods, and LKS_UNIMPLEMENTED means that there is none of that path; else it is one that
     * the engine serves itself, and this is the right that it needs. */
    lks_code (*judge)(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                      lks_error *error);
    /* Takes a call. The caller, the message and the handle must live until done, which may run before
     * this returns, and so must the arena, which is for what the call needs; what else `call` points to
     * is not kept. */
    void (*take)(void *arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *done_arg);
    /* Nobody will read the answer of a call that is not done. */
    void (*abandon)(struct running *call);
    void *arg;
} sink;

#endif
