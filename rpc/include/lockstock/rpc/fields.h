/* Fields of a message that is known by its descriptor only. Pure. */
#ifndef LOCKSTOCK_RPC_FIELDS_H
#define LOCKSTOCK_RPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The field of that name, which need not end after len bytes; NULL when there is none. */
const ProtobufCFieldDescriptor *lks_rpc_field_named(const ProtobufCMessageDescriptor *type, const char *name,
                                                    size_t len);

/* How many values a field has: the elements of a repeated one, 0 for a message that is not there and for what a oneof
 * has not chosen, else 1. */
size_t lks_rpc_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* The i-th of them, as its C type: a `char *`, a `ProtobufCMessage *`, an int64_t, ... */
const void *lks_rpc_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i);

/* Bytes of one value, or of one element. */
size_t lks_rpc_field_size(ProtobufCType type);

/* Whether it is a map, in a message of `type`: descriptors do not say it, so it is told by how protoc names and numbers
 * entries. A repeated "FieldNameEntry" of exactly key and value, nested in the message. */
bool lks_rpc_field_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field);

#ifdef __cplusplus
}
#endif

#endif
