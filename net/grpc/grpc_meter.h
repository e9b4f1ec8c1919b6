/* Counts frames of an HTTP/2 connection that carry nothing useful, in a leaky bucket of strikes. It reads the heads
 * of frames before nghttp2, which does not report frames that it ignores, so that nothing after the limit is
 * processed. No I/O.
 *
 * The HEADERS of a new call and DATA with content are free. DATA with little or nothing, WINDOW_UPDATE and PING are
 * free as often as calls and answers have earned. Everything else costs a strike. */
#ifndef LOCKSTOCK_NET_GRPC_METER_H
#define LOCKSTOCK_NET_GRPC_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_STRIKES_MAX = 1000,             /* at once */
    GRPC_STRIKES_PER_SECOND = 200,       /* in the long run */
    GRPC_HEADER_BYTES_WORST = 64 * 1024, /* of a call's headers, encoded and decoded */
};

typedef struct grpc_meter {
    double strikes; /* they decrease with time */
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

/* Reads bytes that arrived. False: the connection must end, and no more bytes may be read. The first *good bytes may be
 * passed on in any case. */
bool grpc_meter_take(grpc_meter *m, const uint8_t *data, size_t len, size_t *good);

/* Adds a strike. False: the limit is exceeded, and the connection must end. */
bool grpc_meter_strike(grpc_meter *m);

/* Call it when the peer took an answer, or a large part of one. */
void grpc_meter_earn(grpc_meter *m);

/* From now on new calls cost strikes, because no call may begin. */
void grpc_meter_no_more_calls(grpc_meter *m);

#endif
