/* The wire format of https://protobuf.dev/programming-guides/encoding/ without groups. It is stricter than
 * protobuf-c where protobuf-c guesses, and protobuf-c reads what passes in the same way. */
#include "wire.h"

enum {
    VARINT_BYTES_MAX = 10,
    SHORT_VARINT_BYTES_MAX = 5, /* tags and lengths: protobuf-c reads at most 5 bytes */
    NUMBER_SHIFT = 3,
    TYPE_MASK = 7,
};

static bool varint(wire *from, size_t bytes_max, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes_max && i < (size_t)(from->end - from->at); i++) {
        uint64_t byte = from->at[i];
        if (i == VARINT_BYTES_MAX - 1 && byte > 1)
            return false;
        value |= (byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            from->at += i + 1;
            *ret = value;
            return true;
        }
    }
    return false;
}

bool wire_varint(wire *from, uint64_t *ret)
{
    return varint(from, VARINT_BYTES_MAX, ret);
}

bool wire_tag(wire *from, uint32_t *number, wire_type *type)
{
    wire read = *from;
    uint64_t tag;
    if (!varint(&read, SHORT_VARINT_BYTES_MAX, &tag) || tag > UINT32_MAX || tag >> NUMBER_SHIFT == 0)
        return false;
    unsigned kind = (unsigned)(tag & TYPE_MASK);
    if (kind != WIRE_VARINT && kind != WIRE_FIXED64 && kind != WIRE_LENGTH && kind != WIRE_FIXED32)
        return false;
    *from = read;
    *number = (uint32_t)(tag >> NUMBER_SHIFT);
    *type = (wire_type)kind;
    return true;
}

bool wire_take(wire *from, size_t len, wire *ret)
{
    if (len > (size_t)(from->end - from->at))
        return false;
    *ret = (wire){.at = from->at, .end = from->at + len};
    from->at += len;
    return true;
}

bool wire_prefixed(wire *from, wire *ret)
{
    wire read = *from;
    uint64_t len;
    if (!varint(&read, SHORT_VARINT_BYTES_MAX, &len) || !wire_take(&read, (size_t)len, ret))
        return false;
    *from = read;
    return true;
}

bool wire_skip(wire *from, wire_type type)
{
    uint64_t number;
    wire bytes;
    switch (type) {
    case WIRE_VARINT:
        return wire_varint(from, &number);
    case WIRE_FIXED64:
        return wire_take(from, 8, &bytes);
    case WIRE_FIXED32:
        return wire_take(from, 4, &bytes);
    case WIRE_LENGTH:
        return wire_prefixed(from, &bytes);
    }
    return false;
}

wire_type wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return WIRE_VARINT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_FIXED64;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_FIXED32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return WIRE_LENGTH;
}
