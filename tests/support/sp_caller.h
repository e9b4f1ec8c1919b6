/* An SP REQ peer over TCP, TLS or a unix socket that says who it is: with metadata, a
 * client certificate, its uid. One call at a time. Every wait ends after
 * SP_CALLER_TIMEOUT_MS. */
#ifndef LOCKSTOCK_TESTS_SP_CALLER_H
#define LOCKSTOCK_TESTS_SP_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>

enum { SP_CALLER_TIMEOUT_MS = 30000 };

typedef struct sp_caller sp_caller;

typedef struct sp_caller_tls {
    const char *ca;                /* who signed the server's certificate, PEM */
    const char *certificate, *key; /* NULL: none */
} sp_caller_tls;

/* Connects to "tcp://127.0.0.1:PORT", "tls://127.0.0.1:PORT", "wss://127.0.0.1:PORT/PATH" or "unix:///path" and
 * shakes hands. NULL when it is refused, at whichever step. The caller closes. */
sp_caller *sp_caller_open(const char *url, const sp_caller_tls *tls);
void sp_caller_close(sp_caller *c);

/* The common name of the server's certificate; the caller's. Only over TLS. */
const char *sp_caller_server_name(const sp_caller *c);

typedef struct sp_caller_call {
    const char *method;
    const ProtobufCMessage *request; /* NULL: no bytes */
    const char *token;               /* NULL: none */
    const char *ns;                  /* NULL: none */
} sp_caller_call;

/* Sends a call and reads the reply, to be freed with
 * lockstock__rpc__v1__reply__free_unpacked(reply, NULL). NULL when the connection ends
 * first. */
Lockstock__Rpc__V1__Reply *sp_caller_ask(sp_caller *c, const sp_caller_call *call);

#endif
