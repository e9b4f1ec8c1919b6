/* Stores the header fields of a gRPC call, finds them, and passes them on as metadata. Loop thread only. */
#ifndef LOCKSTOCK_NET_GRPC_HEADERS_H
#define LOCKSTOCK_NET_GRPC_HEADERS_H

#include "net/grpc/grpc_state.h"

/* The value of the first field of a name, "" when there is none. */
lks_rpc_slice grpc_headers_value(const grpc_stream *s, const char *name);

/* Adds the response's hints to the trailers, for callers that do not decode the response. */
void grpc_headers_hint(grpc_stream *s, const ProtobufCMessage *response);

credentials grpc_headers_credentials(const grpc_stream *s);

/* As sink_call.read_metadata; metadata: the grpc_stream. */
void grpc_headers_read_metadata(const void *metadata, sink_see_entry *see, void *arg);

enum { GRPC_FIELDS_MAX = 64 };

/* Header fields as nghttp2 takes them; it copies. */
typedef struct grpc_nv {
    nghttp2_nv list[GRPC_FIELDS_MAX];
    size_t n;
} grpc_nv;

/* Adds a field, and fields, while there is room. */
void grpc_nv_put(grpc_nv *f, const char *name, const char *value, size_t len);
void grpc_nv_put_all(grpc_nv *f, const http_fields *from);

/* The first fields of an answer. */
void grpc_headers_head(const grpc_stream *s, grpc_nv *f);

/* The fields of the status; the texts are in the call's arena. */
void grpc_headers_status(grpc_stream *s, grpc_nv *f);

#endif
