/* grpc:// and grpcs://: gRPC over HTTP/2 with nghttp2, on the loop. Unary calls go to the sink, as from every
 * transport. Streaming methods are served by the code that registers them. Loop thread only.
 *
 *   stream --HEADERS--> method? --DATA, END_STREAM--> sink --> HEADERS, DATA, trailers
 *                          \--> streaming method: message... --> send..., finish
 */
#ifndef LOCKSTOCK_NET_GRPC_H
#define LOCKSTOCK_NET_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

#include "net/grpc/grpc_types.h"
#include "net/stream/stream.h"

enum { GRPC_TICK_MS = 500 };

/* LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code grpc_server_new(const grpc_server_options *options, grpc_server **ret, lks_error *error);

/* Errors as streams_listen; without TLS it is h2c with prior knowledge. */
lks_code grpc_server_listen(grpc_server *all, const stream_address *at, uint16_t *bound, lks_error *error);

/* Takes over a connection of an http:// URL before its preface. Requests that are not gRPC go to the site
 * (http/exchange.h). Returns the state for the functions of grpc_server_protocol, which the caller calls; NULL: out of
 * memory. */
struct http_site;
void *grpc_server_adopt(grpc_server *all, stream *s, const struct http_site *site, bool is_local);
const stream_protocol *grpc_server_protocol(void);

/* Ends calls and connections whose time limits have passed. Call it every GRPC_TICK_MS. */
void grpc_server_tick(grpc_server *all);

/* Tells every client to send no new calls (GOAWAY, in two steps), and refuses calls that come nevertheless. */
void grpc_server_drain(grpc_server *all);

/* Calls whose answer is not complete. */
size_t grpc_server_in_flight(const grpc_server *all);

/* The streams must be closed and no call in progress. Takes NULL. */
void grpc_server_free(grpc_server *all);

#endif
