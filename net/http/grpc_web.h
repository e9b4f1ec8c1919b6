/* gRPC-Web (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md) for unary calls, in binary and in base64. */
#ifndef LOCKSTOCK_NET_HTTP_GRPC_WEB_H
#define LOCKSTOCK_NET_HTTP_GRPC_WEB_H

#include <stdbool.h>

#include "net/http/exchange_types.h"

struct http_protocol;
extern const struct http_protocol grpc_web_protocol;

/* Whether a Content-Type is one of gRPC-Web; notes in the exchange how messages are coded. */
bool grpc_web_is_type(http_exchange *e, lks_rpc_slice type);

#endif
