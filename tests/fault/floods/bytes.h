/* What attackers send, put together by hand: frames of HTTP/2 and messages of SP. */
#ifndef LOCKSTOCK_TESTS_FLOODS_BYTES_H
#define LOCKSTOCK_TESTS_FLOODS_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "target.h"

/* Zeroed is empty. */
typedef struct bytes {
    uint8_t *data;
    size_t len, room;
} bytes;

void bytes_put(bytes *b, const void *data, size_t len);
void bytes_fill(bytes *b, uint8_t value, size_t len);
void bytes_free(bytes *b);

/* ---- HTTP/2 ---- */

/* The client's preface, SETTINGS, and the ACK of the server's; window: of each stream, negative = the default. */
void h2_put_preface(bytes *b, long window);

void h2_put_frame(bytes *b, uint8_t type, uint8_t flags, uint32_t id, const void *data, size_t len);

/* A field of a header block, not indexed. */
void hpack_put_field(bytes *b, const char *name, const char *value);

/* The fields that every gRPC call has. */
void hpack_put_start(bytes *b, const char *path);

typedef struct h2_call {
    const char *path;
    const char *token;        /* NULL: none */
    const char *name, *value; /* one more field; NULL: none */
} h2_call;

/* HEADERS of a gRPC call; flags: END_STREAM or 0. */
void h2_put_call(bytes *b, uint32_t id, const h2_call *call, uint8_t flags);

/* A whole gRPC message as DATA frames; flags: of the last one. */
void h2_put_message(bytes *b, uint32_t id, const void *data, size_t len, bool compressed, uint8_t flags);

/* ---- SP ---- */

/* What a connection begins with; over WebSocket its request. */
void sp_put_greeting(bytes *b, wire w);

/* The length of a message of so many bytes, with what goes before it. */
void sp_put_length(bytes *b, wire w, uint64_t len);

typedef struct sp_call {
    const char *path;
    const void *payload;
    size_t len;
    const char *token; /* NULL: none */
    uint32_t timeout_ms;
} sp_call;

/* A message with n times the same call. */
void sp_put_frame(bytes *b, wire w, uint32_t id, const sp_call *call, size_t n);

/* ---- requests ---- */

void pack(bytes *b, const ProtobufCMessage *message);

/* Next{UUID_V7, 10000}: some 390 kB of answer. */
void pack_uuids(bytes *b);

/* Acquire of the lock that a row's preparation holds, with a token of its own, and `padding`
 * bytes of a field that nobody knows. */
void pack_waiting_acquire(bytes *b, unsigned nth, uint32_t wait_ms, size_t padding);

#define PATH_NEXT "/lockstock.v1.IdService/Next"
#define PATH_DECODE "/lockstock.v1.IdService/Decode"
#define PATH_GET_ITEM "/lockstock.v1.StockService/GetItem"
#define PATH_ACQUIRE "/lockstock.v1.LockService/Acquire"
#define PATH_RELEASE "/lockstock.v1.LockService/Release"
#define PATH_GET "/lockstock.v1.IdempotencyService/Get"
#define PATH_BEGIN "/lockstock.v1.IdempotencyService/Begin"
#define PATH_COMPLETE "/lockstock.v1.IdempotencyService/Complete"
#define PATH_REFLECTION "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define HELD_LOCK "held"

#endif
