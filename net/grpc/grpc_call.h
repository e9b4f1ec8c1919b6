/* One gRPC call: an HTTP/2 stream of grpc.c. Private to grpc*.c. */
#ifndef LOCKSTOCK_NET_GRPC_CALL_H
#define LOCKSTOCK_NET_GRPC_CALL_H

#include "net/grpc/grpc_state.h"

/* A new call on a stream; NULL when out of memory. */
grpc_stream *grpc_call_new(grpc_connection *from, int32_t id);

/* Call it when the HTTP/2 stream is gone. Frees the call, now or when the sink is done with it. */
void grpc_call_detach(grpc_stream *s);

/* A header arrived. */
void grpc_call_header(grpc_stream *s, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len);

/* All headers arrived. */
void grpc_call_begin(grpc_stream *s);

/* Bytes of DATA arrived. */
void grpc_call_data(grpc_stream *s, const uint8_t *data, size_t len);

/* The client has sent everything. */
void grpc_call_half_close(grpc_stream *s);

/* Ends the call if its time limit has passed. False: its connection must end too. */
bool grpc_call_tick(grpc_stream *s, uint64_t now_ns);

/* grpc_http.c: a call that is not gRPC, on a connection with a site. In this order: the header fields are complete; the
 * status alone is the answer; the time limit has passed. */
void grpc_http_begin(grpc_stream *s);
void grpc_http_refuse(grpc_stream *s, const char *status); /* also without a site */
void grpc_http_late(grpc_stream *s);

/* Sends an HTTP answer: the fields and the body, which the call then owns. */
void grpc_call_answer_http(grpc_stream *s, const nghttp2_nv *fields, size_t n, uint8_t *body, size_t len);

/* Ends a streaming call because the server stops. */
void grpc_call_stop(grpc_stream *s);

#endif
