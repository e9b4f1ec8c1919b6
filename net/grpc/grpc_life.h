/* The lifetime of an HTTP/2 connection, and the pings that detect whether the peer is alive. No I/O.
 *
 *   silence for keepalive_ms --> a ping --nothing for keepalive_timeout_ms--> the peer is gone
 *   age of connection_age_ms --> GOAWAY --connection_age_grace_ms--> it ends */
#ifndef LOCKSTOCK_NET_GRPC_LIFE_H
#define LOCKSTOCK_NET_GRPC_LIFE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct grpc_life_options {
    uint32_t keepalive_ms; /* 0: no pings */
    uint32_t keepalive_timeout_ms;
    uint32_t ping_min_ms;             /* between the peer's pings, while nothing is sent to it; 0: any number */
    uint32_t connection_age_ms;       /* of a connection, give or take a tenth; 0: any age */
    uint32_t connection_age_grace_ms; /* for its calls to end, from then on */
} grpc_life_options;

typedef struct grpc_life {
    uint64_t heard_ns;      /* when bytes came last */
    uint64_t pinged_ns;     /* when the unanswered ping was sent; 0: none */
    uint64_t leaves_ns;     /* UINT64_MAX: never */
    uint64_t ends_ns;       /* UINT64_MAX: not set yet */
    uint64_t ping_ns;       /* when the peer's last ping came; 0: none since something was sent to it */
    uint32_t n_early_pings; /* pings of the peer that came too early */
} grpc_life;

typedef enum grpc_life_due { LIFE_NOTHING, LIFE_PING, LIFE_GONE, LIFE_LEAVE, LIFE_OVER } grpc_life_due;

/* The life of a new connection. `random`: any number. */
grpc_life grpc_life_new(const grpc_life_options *options, uint64_t now_ns, uint64_t random);

/* Bytes came. */
void grpc_life_heard(grpc_life *life, uint64_t now_ns);

/* A ping of the peer came. False: too many came too early. */
bool grpc_life_ping(grpc_life *life, const grpc_life_options *options, uint64_t now_ns);

/* Call it when part of an answer was sent: the peer may then ping again. */
void grpc_life_answered(grpc_life *life);

/* Returns what to do now, and records it as done. */
grpc_life_due grpc_life_look(grpc_life *life, const grpc_life_options *options, uint64_t now_ns);

#endif
