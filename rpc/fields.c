#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <lockstock/rpc/fields.h>

static const void *member(const ProtobufCMessage *message, size_t offset)
{
    return (const char *)message + offset;
}

const ProtobufCFieldDescriptor *lks_rpc_field_named(const ProtobufCMessageDescriptor *type, const char *name,
                                                    size_t len)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const char *candidate = type->fields[i].name;
        if (candidate && strlen(candidate) == len && memcmp(candidate, name, len) == 0)
            return &type->fields[i];
    }
    return NULL;
}

size_t lks_rpc_field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)member(message, field->quantifier_offset);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
        *(const uint32_t *)member(message, field->quantifier_offset) != field->id)
        return 0;
    return field->type != PROTOBUF_C_TYPE_MESSAGE || *(ProtobufCMessage *const *)member(message, field->offset);
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING:
        return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(int64_t);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return sizeof(int32_t);
    }
}

const void *lks_rpc_field_value(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t i)
{
    const void *at = member(message, field->offset);

    return field->label == PROTOBUF_C_LABEL_REPEATED ? *(const char *const *)at + i * size_of(field->type) : at;
}
