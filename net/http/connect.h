/* The Connect protocol for unary calls (https://connectrpc.com/docs/protocol): POST with JSON or Protobuf, and GET of
 * methods that only read. Without fields of its own a request is plain JSON over HTTP. */
#ifndef LOCKSTOCK_NET_HTTP_CONNECT_H
#define LOCKSTOCK_NET_HTTP_CONNECT_H

#include <lockstock/status.h>

struct http_protocol;
extern const struct http_protocol connect_protocol;

/* The HTTP status of a code, and the code's name ("invalid_argument"); unknown numbers are UNKNOWN. Thread-safe. */
unsigned connect_status(lks_code code);
const char *connect_code_name(lks_code code);

#endif
