/* tcp://, tls://, unix://, ws:// and wss://: frames over SP connections (sp.h), on the loop. A connection's requests
 * are answered in the order in which they are done. While its calls queue for room, it is not read. Loop thread
 * only. */
#ifndef LOCKSTOCK_NET_SP_SERVER_H
#define LOCKSTOCK_NET_SP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/sp/frames.h"
#include "net/stream/stream.h"

typedef struct sp_server sp_server;

typedef struct sp_server_options {
    streams *streams; /* outlives it */
    frames *frames;
    const sink *sink; /* that of the frames */
    size_t message_bytes_max;
    char *const *origins; /* of web pages that may connect; must outlive it */
    size_t n_origins;
} sp_server_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code sp_server_new(const sp_server_options *options, sp_server **ret, lks_error *error);

/* Errors as streams_listen. */
lks_code sp_server_listen(sp_server *all, const stream_address *at, uint16_t *bound, lks_error *error);

/* path: of the request, "/lockstock". LKS_INVALID_ARGUMENT: also for an invalid path. */
lks_code sp_server_check_path(const char *path, lks_error *error);
lks_code sp_server_listen_websocket(sp_server *all, const stream_address *at, const char *path, uint16_t *bound,
                                    lks_error *error);

/* Messages that are not answered. */
size_t sp_server_in_flight(const sp_server *all);

/* No message may be in progress, and the streams must be closed. Takes NULL. */
void sp_server_free(sp_server *all);

#endif
