/* Reads the Protobuf wire format, a value at a time. A reader never moves past `end`, and does not move if it fails. */
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

/* Reads a varint of at most 10 bytes that fits 64 bits. */
bool wire_varint(wire *from, uint64_t *ret);

/* Reads a tag of at most 5 bytes: number 1 to 2^29-1, one of the four types. Rejects groups. */
bool wire_tag(wire *from, uint32_t *number, wire_type *type);

/* Takes `len` bytes. */
bool wire_take(wire *from, size_t len, wire *ret);

/* Takes a length of at most 5 bytes, and as many bytes. */
bool wire_prefixed(wire *from, wire *ret);

/* Skips a value. */
bool wire_skip(wire *from, wire_type type);

/* Returns the wire type of a field that is not packed. */
wire_type wire_type_of(ProtobufCType type);

#endif
