/* Names and sizes of fields; descriptors hold neither json_name nor map_entry. */
#include "field.h"

#include <stdint.h>
#include <string.h>

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void field_json_name(const field_descriptor *field, char name[FIELD_NAME_BYTES])
{
    bool after_underscore = false;
    size_t n = 0;

    for (const char *c = field->name; *c && n + 1 < FIELD_NAME_BYTES; c++) {
        if (*c != '_')
            name[n++] = after_underscore ? upper(*c) : *c;
        after_underscore = *c == '_';
    }
    name[n] = '\0';
}

const field_descriptor *field_find(const ProtobufCMessageDescriptor *type, const char *name)
{
    char json_name[FIELD_NAME_BYTES];

    for (unsigned i = 0; i < type->n_fields; i++) {
        field_json_name(&type->fields[i], json_name);
        if (strcmp(json_name, name) == 0 || strcmp(type->fields[i].name, name) == 0)
            return &type->fields[i];
    }
    return NULL;
}

/* Whether `entry` is called as protoc calls the entries of the map. */
static bool is_entry_name(const char *entry, const ProtobufCMessageDescriptor *type, const field_descriptor *field)
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

bool field_is_map(const ProtobufCMessageDescriptor *type, const field_descriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;

    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE || entry->n_fields != 2)
        return false;
    const field_descriptor *key = &entry->fields[0], *value = &entry->fields[1];
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

size_t field_value_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_DOUBLE:
        return sizeof(double);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return sizeof(uint32_t);
    }
}
