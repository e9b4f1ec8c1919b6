/* Access to fields of a message by its descriptor. Thread-safe. */
#ifndef LOCKSTOCK_RPC_FIELDS_H
#define LOCKSTOCK_RPC_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the field with a name of len bytes, or NULL. */
const ProtobufCFieldDescriptor *lks_rpc_field_named(const ProtobufCMessageDescriptor *type, const char *name,
                                                    size_t len);

/* Returns the number of values of a field: the elements of a repeated field, 0 for a message that is not set and for
 * a member that its oneof has not selected, else 1. */
size_t lks_rpc_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Returns the address of the i-th value, of its C type: a `char *`, a `ProtobufCMessage *`, an int64_t, ... */
const void *lks_rpc_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i);

/* Returns the size of a value or an element in bytes. */
size_t lks_rpc_field_size(ProtobufCType type);

/* Returns whether a field of `type` is a map. Descriptors do not have this information, so it is a repeated, nested
 * "FieldNameEntry" with exactly key and value, as protoc names and numbers entries. */
bool lks_rpc_field_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field);

#ifdef __cplusplus
}
#endif

#endif
