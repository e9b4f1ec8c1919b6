/* What the JSON mapping must know of a field of protobuf-c. */
#ifndef RPC_JSON_FIELD_H
#define RPC_JSON_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/rpc/fields.h>
#include <protobuf-c/protobuf-c.h>

typedef ProtobufCFieldDescriptor field_descriptor;

enum { FIELD_NAME_BYTES = 256 };

/* lowerCamelCase of a field's name, as protoc makes it; cut to the size. */
void field_json_name(const field_descriptor *field, char name[FIELD_NAME_BYTES]);

/* The field of that name, lowerCamelCase or the .proto's; NULL = none. */
const field_descriptor *field_find(const ProtobufCMessageDescriptor *type, const char *name);

/* Where a message has its value, or the pointer to its elements. */
static inline void *field_member(const ProtobufCMessage *message, const field_descriptor *field)
{
    return (char *)(uintptr_t)message + field->offset;
}

/* Where it has the number of elements, whether it is set, or which case of the oneof is. */
static inline void *field_quantifier(const ProtobufCMessage *message, const field_descriptor *field)
{
    return (char *)(uintptr_t)message + field->quantifier_offset;
}

static inline bool field_in_oneof(const field_descriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

#endif
