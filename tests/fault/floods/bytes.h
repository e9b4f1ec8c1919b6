/* The bytes that attackers send, built without a library: frames of HTTP/2 and messages of SP. */
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
void bytes_drop(bytes *b, size_t len); /* the first ones */
void bytes_free(bytes *b);

/* A call of an attacker. */
typedef struct wire_call {
    const char *path;
    const void *payload;
    size_t len;
    const char *token;        /* NULL: none */
    const char *name, *value; /* one more field over HTTP/2; NULL: none */
    uint32_t timeout_ms;      /* over SP; 0 = none */
} wire_call;

/* ---- both protocols ---- */

/* What a connection begins with: preface or greeting. */
void put_beginning(bytes *b, wire w);

/* A whole call, the nth of its connection, from 0 on. */
void put_call(bytes *b, wire w, uint32_t nth, const wire_call *c);

/* ---- HTTP/2 ---- */

/* The client's preface, SETTINGS, and the ACK of the server's; window: of each stream, negative = the default. */
void h2_put_preface(bytes *b, long window);

void h2_put_frame(bytes *b, uint8_t type, uint8_t flags, uint32_t id, const void *data, size_t len);

/* The fields that every gRPC call has, not indexed. */
void hpack_put_start(bytes *b, const char *path);

/* HEADERS of a gRPC call whose message follows. */
void h2_put_headers(bytes *b, uint32_t id, const wire_call *c);

/* A whole gRPC message as DATA frames; flags: of the last one. */
void h2_put_message(bytes *b, uint32_t id, const void *data, size_t len, bool compressed, uint8_t flags);

/* ---- SP ---- */

/* The length of a message of so many bytes, with what goes before it. */
void sp_put_length(bytes *b, wire w, uint64_t len);

/* A message with n times the same call. */
void sp_put_frame(bytes *b, wire w, uint32_t id, const wire_call *c, size_t n);

/* ---- requests ---- */

void pack(bytes *b, const ProtobufCMessage *message);

/* Next{UUID_V7, 10000}: some 390 kB of answer. */
void pack_uuids(bytes *b);

/* Acquire of one lock, with a lease of a minute. */
void pack_acquire(bytes *b, const char *name, const char *token, uint32_t wait_ms);

/* Acquire of the lock that a row's preparation holds, with a token of its own, and `padding` bytes of a field that
 * nobody knows. */
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
