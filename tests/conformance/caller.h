/* A client that writes the bytes of one wire. The cases of the suite use it. A driver
 * implements the wire and does not depend on the calls. One thread. */
#ifndef LOCKSTOCK_TESTS_CALLER_H
#define LOCKSTOCK_TESTS_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

struct line;

/* How a call ended. */
typedef struct outcome {
    unsigned call; /* which, as `start` numbered it */
    lks_code code;
    lks_applied applied;
    char message[LKS_ERROR_MESSAGE_MAX];
    bool bare;        /* an SP wire's refusal: only the fields above and the retry delay */
    bool says_when;   /* to come again: retry_after_ms, or RetryInfo */
    uint8_t *payload; /* to be freed; NULL unless code is LKS_OK */
    size_t len;
} outcome;

typedef struct call_spec {
    const char *method; /* "/lockstock.v1.LockService/Acquire" */
    const void *payload;
    size_t len;
    uint32_t timeout_ms;
    const char *ns;            /* metadata lockstock-namespace; NULL: none */
    const char *authorization; /* "Bearer ..."; NULL: none */
} call_spec;

typedef struct wire_driver {
    /* url and certificate: the fixture's. NULL when the connection is refused. */
    void *(*open)(const char *url, const char *certificate);
    /* The same on an open line, which the caller then owns; NULL stays NULL. Not every wire has it. */
    void *(*open_on)(struct line *l, const char *url);
    /* Sends a call and gives its number, never 0; 0 when the connection is over. */
    unsigned (*start)(void *caller, const call_spec *call);
    /* The next answer, whichever call's it is. False: the connection ended first. */
    bool (*await)(void *caller, outcome *ret);
    /* Cancels one call; NULL: the wire cannot, other than by closing the connection. */
    void (*cancel)(void *caller, unsigned call);
    void (*close)(void *caller);
} wire_driver;

extern const wire_driver sp_driver;   /* its own bytes, over TCP, TLS and unix sockets */
extern const wire_driver ws_driver;   /* the same over WebSocket, in plain and over TLS */
extern const wire_driver nng_driver;  /* REQ sockets of libnng, unmodified */
extern const wire_driver grpc_driver; /* nghttp2's client */

#endif
