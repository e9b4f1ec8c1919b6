/* The Connect protocol for unary calls (https://connectrpc.com/docs/protocol): POST with JSON or Protobuf, and GET of
 * methods that only read. A request without Connect's header fields is plain JSON over HTTP. */
#ifndef LOCKSTOCK_NET_HTTP_CONNECT_H
#define LOCKSTOCK_NET_HTTP_CONNECT_H

struct http_protocol;
extern const struct http_protocol connect_protocol;

#endif
