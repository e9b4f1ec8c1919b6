/* An SP REQ peer over TCP, TLS, a unix socket or WebSocket that says who it is: with metadata, a client certificate,
 * its uid. One call at a time, by the wires of the conformance suite. Every wait ends after LINE_TIMEOUT_MS. */
#ifndef LOCKSTOCK_TESTS_SP_CALLER_H
#define LOCKSTOCK_TESTS_SP_CALLER_H

#include <protobuf-c/protobuf-c.h>

#include "conformance/caller.h"
#include "conformance/line.h"

typedef struct sp_caller sp_caller;

/* Connects to "tcp://127.0.0.1:PORT", "tls://127.0.0.1:PORT", "wss://127.0.0.1:PORT/PATH" or "unix:///path" and
 * shakes hands; tls NULL: none. NULL when it is refused, at whichever step. The caller closes. */
sp_caller *sp_caller_open(const char *url, const line_tls *tls);
void sp_caller_close(sp_caller *c);

/* The common name of the server's certificate; the caller's. Only over TLS. */
const char *sp_caller_server_name(const sp_caller *c);

typedef struct sp_caller_call {
    const char *method;
    const ProtobufCMessage *request; /* NULL: no bytes */
    const char *token;               /* NULL: none */
    const char *ns;                  /* NULL: none */
} sp_caller_call;

/* Sends a call and reads its answer, whose payload is to be freed. False when the connection ends first. */
bool sp_caller_ask(sp_caller *c, const sp_caller_call *call, outcome *ret);

#endif
