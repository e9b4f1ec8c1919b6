/* Properties of fields that the JSON mapping needs. */
#ifndef RPC_JSON_FIELD_H
#define RPC_JSON_FIELD_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstock/rpc/fields.h>
#include <protobuf-c/protobuf-c.h>

typedef ProtobufCFieldDescriptor field_descriptor;

enum { FIELD_NAME_BYTES = 256 };

/* Writes a name of a .proto in lowerCamelCase, as protoc does, cut to the room. */
void field_lower_camel(const char *name, char room[FIELD_NAME_BYTES]);

/* Returns the name of a field in JSON: its json_name, or its name in lowerCamelCase, written to `room` and cut to that. */
const char *field_json_name(const field_descriptor *field, char room[FIELD_NAME_BYTES]);

/* Returns the field with a name, in JSON or in the .proto, or NULL. */
const field_descriptor *field_find(const ProtobufCMessageDescriptor *type, const char *name);

/* Returns the address of the value of a field, or of the pointer to its elements. */
static inline void *field_member(const ProtobufCMessage *message, const field_descriptor *field)
{
    return (char *)(uintptr_t)message + field->offset;
}

/* Returns the address of the number of elements, of `has_`, or of the case of the oneof. */
static inline void *field_quantifier(const ProtobufCMessage *message, const field_descriptor *field)
{
    return (char *)(uintptr_t)message + field->quantifier_offset;
}

static inline bool field_in_oneof(const field_descriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

#endif
