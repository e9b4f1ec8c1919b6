/* The lockstockd under attack: every wire at once, a policy and two principals with all
 * rights; without a token all calls are refused. Main thread only. */
#ifndef LOCKSTOCK_TESTS_FLOODS_TARGET_H
#define LOCKSTOCK_TESTS_FLOODS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "conformance/caller.h"

typedef enum wire { WIRE_TCP, WIRE_UNIX, WIRE_TLS, WIRE_WS, WIRE_GRPC, WIRE_GRPCS, N_WIRES } wire;

#define TARGET_OTHERS_TOKEN "others-0123456789abcdef0123456789abcdef"
#define TARGET_ATTACKERS_TOKEN "attackers-0123456789abcdef0123456789abcd"

/* Starts the store and the server. args: more arguments, NULL-terminated, must stay valid; NULL: none. */
bool target_start(const char *const *args);

/* True when it ended with 0 at SIGTERM. Also when it does not run. */
bool target_stop(void);

/* False: it ended. Tells how on stderr. */
bool target_is_alive(void);

const char *target_url(wire w);
unsigned short target_port(wire w);     /* 0: a unix socket */
const char *target_certificate(wire w); /* NULL: in plain */
const wire_driver *target_driver(wire w);
bool target_uses_h2(wire w);
bool target_has_tls(wire w);
const char *target_wire_name(wire w);

typedef struct target_figures {
    size_t rss_kib, descriptors;
    double cpu_s; /* of the server, since it began */
} target_figures;

target_figures target_measure(void);

#endif
