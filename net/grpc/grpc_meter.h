/* What the frames of an HTTP/2 connection cost that bring nothing: a leaky bucket of
 * strikes. It reads the frames' heads ahead of nghttp2, which tells nothing of those that
 * it ignores, so that what follows a frame too many is never looked at. Sans I/O.
 *
 * Costs nothing: the HEADERS of a new call, DATA that carries something.
 * Costs nothing as often as was earned, by calls and by answers: DATA of little or nothing,
 * WINDOW_UPDATE, PING. Costs a strike: all else. */
#ifndef LOCKSTOCK_NET_GRPC_METER_H
#define LOCKSTOCK_NET_GRPC_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_STRIKES_MAX = 1000,             /* at once */
    GRPC_STRIKES_PER_SECOND = 200,       /* in the long run */
    GRPC_HEADER_BYTES_WORST = 64 * 1024, /* of a call's headers, as they come and once decoded */
};

typedef struct grpc_meter {
    double strikes; /* they leak away */
    uint64_t strikes_ns;
    uint32_t earned;  /* frames */
    uint32_t last_id; /* of the calls that began */
    size_t block;     /* bytes of headers since the last HEADERS */
    uint8_t head[10]; /* a frame's, and the length of its padding */
    size_t head_len;
    size_t left; /* of the preface, or of a frame's payload */
} grpc_meter;

/* The meter of a new connection. */
grpc_meter grpc_meter_new(void);

/* Looks at bytes that came. False: the connection has to end, and nothing may be taken any
 * more.
 * *good of the bytes may be handed on in any case. */
bool grpc_meter_take(grpc_meter *m, const uint8_t *data, size_t len, size_t *good);

/* Something else cost a strike. False: it was one too many. */
bool grpc_meter_strike(grpc_meter *m);

/* The peer took an answer, or a good piece of one. */
void grpc_meter_earn(grpc_meter *m);

/* New calls cost strikes from now on: nobody may begin one. */
void grpc_meter_no_more_calls(grpc_meter *m);

#endif
