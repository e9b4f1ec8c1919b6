/* Reading the Protobuf wire format, one value at a time. A reader never moves
 * past `end`, and after a failure it has not moved at all. */
#ifndef RPC_WIRE_H
#define RPC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

typedef struct wire {
    const uint8_t *at;
    const uint8_t *end;
} wire;

typedef enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_LENGTH = 2,
    WIRE_FIXED32 = 5,
} wire_type;

/* At most 10 bytes; what does not fit 64 bits is refused. */
bool wire_varint(wire *from, uint64_t *ret);

/* At most 5 bytes, number 1..2^29-1, one of the four types: groups are refused. */
bool wire_tag(wire *from, uint32_t *number, wire_type *type);

/* `len` raw bytes. */
bool wire_take(wire *from, size_t len, wire *ret);

/* A length of at most 5 bytes and as many bytes. */
bool wire_prefixed(wire *from, wire *ret);

/* Any value. */
bool wire_skip(wire *from, wire_type type);

/* How a type travels when it is not packed. */
wire_type wire_type_of(ProtobufCType type);

#endif
