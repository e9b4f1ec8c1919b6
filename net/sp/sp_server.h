/* tcp://, tls://, unix://, ws:// and wss://: frames over SP connections of our own (sp.h), on
 * the loop from end to end. A connection's requests are taken as they come and answered in
 * the order in which they are done; while calls of it find no room, it is not read from.
 * Loop thread only. */
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
    char *const *origins; /* of pages that may connect over WebSocket; outlive it */
    size_t n_origins;
} sp_server_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code sp_server_new(const sp_server_options *options, sp_server **ret, lks_error *error);

/* Errors as streams_listen_*. */
lks_code sp_server_listen_tcp(sp_server *all, const char *address, tls_context *const *context, uint16_t *bound,
                              lks_error *error);
lks_code sp_server_listen_unix(sp_server *all, const char *path, lks_error *error);

/* path: of the request, "/lockstock". LKS_INVALID_ARGUMENT: no such path either. */
lks_code sp_server_check_path(const char *path, lks_error *error);
lks_code sp_server_listen_websocket(sp_server *all, const char *address, const char *path, tls_context *const *context,
                                    uint16_t *bound, lks_error *error);

/* Messages taken and not yet answered. */
size_t sp_server_in_flight(const sp_server *all);

/* With no message under way and the streams closed. Takes NULL. */
void sp_server_free(sp_server *all);

#endif
