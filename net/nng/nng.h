/* nng+tcp://: frames over a libnng REP socket. nng's threads only
 * push a message onto a list and wake the loop; everything else is the loop's. */
#ifndef LOCKSTOCK_NET_NNG_H
#define LOCKSTOCK_NET_NNG_H

#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/sp/frames.h"

struct uv_loop_s;

typedef struct wire_nng wire_nng;

typedef struct wire_nng_options {
    struct uv_loop_s *loop;
    frames *frames;
    size_t message_bytes_max;
    uint32_t in_flight_max; /* messages, also of calls that wait; see nng_rep.h */
    uint32_t in_flight_per_peer;
    uint32_t connections_max;
    const sink *sink; /* that of the frames */
    budget *budget;
} wire_nng_options;

lks_code wire_nng_new(const wire_nng_options *options, wire_nng **ret, lks_error *error);

/* Serves an address; *port gets the bound one. Errors as lks_rpc_nng_rep_listen. */
lks_code wire_nng_listen(wire_nng *w, const char *url, uint16_t *port, lks_error *error);

/* Messages taken and not yet answered, answers being sent included. Of any thread. */
size_t wire_nng_in_flight(const wire_nng *w);

/* Takes up what has arrived; from then on new connections are closed and new
 * messages refused (UNAVAILABLE, NO) without reaching `frames`. */
void wire_nng_stop_receiving(wire_nng *w);

/* Closes; waits for nng's threads. After wire_nng_stop_receiving, with every message
 * answered. `closed` runs on the loop when it is freed. */
void wire_nng_close(wire_nng *w, void (*closed)(void *arg), void *arg);

#endif
