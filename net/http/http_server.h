/* http:// and https://: HTTP/1.1, and HTTP/2 when a connection begins with its preface; on the loop. A connection of
 * HTTP/1.1 answers one request at a time, and is not read meanwhile. HTTP/2 is grpc.h, which also speaks gRPC. Loop
 * thread only. */
#ifndef LOCKSTOCK_NET_HTTP_HTTP_SERVER_H
#define LOCKSTOCK_NET_HTTP_HTTP_SERVER_H

#include <lockstock/status.h>

#include "net/grpc/grpc.h"
#include "net/http/exchange.h"
#include "net/stream/stream.h"

typedef struct http_server http_server;

typedef struct http_server_options {
    streams *streams;  /* outlives it */
    grpc_server *grpc; /* for HTTP/2; outlives it */
    http_site *site;   /* outlives it */
} http_server_options;

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code http_server_new(const http_server_options *options, http_server **ret, lks_error *error);

/* Errors as streams_listen. */
lks_code http_server_listen(http_server *all, const stream_address *at, uint16_t *bound, lks_error *error);

/* Ends connections of HTTP/1.1 that are idle, and others after their answer. Set the site's `draining` first. */
void http_server_drain(http_server *all);

/* Requests of HTTP/1.1 that are not answered. */
size_t http_server_in_flight(const http_server *all);

/* The streams must be closed, and no request in progress. Takes NULL. */
void http_server_free(http_server *all);

#endif
