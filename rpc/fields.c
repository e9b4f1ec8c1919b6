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

size_t lks_rpc_field_size(ProtobufCType type)
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

    return field->label == PROTOBUF_C_LABEL_REPEATED ? *(const char *const *)at + i * lks_rpc_field_size(field->type)
                                                     : at;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* Returns whether `entry` has the name that protoc gives to the entries of the map. */
static bool is_entry_name(const char *entry, const ProtobufCMessageDescriptor *type,
                          const ProtobufCFieldDescriptor *field)
{
    size_t len = strlen(type->name);
    bool capital = true;

    if (strncmp(entry, type->name, len) != 0 || entry[len] != '.')
        return false;
    entry += len + 1;
    for (const char *c = field->name; *c; c++) {
        if (*c != '_' && *entry++ != (capital ? upper(*c) : *c))
            return false;
        capital = *c == '_';
    }
    return strcmp(entry, "Entry") == 0;
}

bool lks_rpc_field_is_map(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;

    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE || entry->n_fields != 2)
        return false;
    const ProtobufCFieldDescriptor *key = &entry->fields[0], *value = &entry->fields[1];
    switch (key->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return false;
    default:
        return key->id == 1 && value->id == 2 && strcmp(key->name, "key") == 0 && strcmp(value->name, "value") == 0 &&
               key->label != PROTOBUF_C_LABEL_REPEATED && value->label != PROTOBUF_C_LABEL_REPEATED &&
               is_entry_name(entry->name, type, field);
    }
}
