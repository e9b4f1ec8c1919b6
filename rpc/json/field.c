/* A descriptor of protobuf-c has no json_name: protoc-gen-lockstock puts one that is not the field's name in lowerCamelCase
 * into `reserved2` (gen/json_names.h), which protoc-c leaves NULL. */
#include "field.h"

#include <stdint.h>
#include <string.h>

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void field_lower_camel(const char *name, char room[FIELD_NAME_BYTES])
{
    bool after_underscore = false;
    size_t n = 0;

    for (const char *c = name; *c && n + 1 < FIELD_NAME_BYTES; c++) {
        if (*c != '_')
            room[n++] = after_underscore ? upper(*c) : *c;
        after_underscore = *c == '_';
    }
    room[n] = '\0';
}

const char *field_json_name(const field_descriptor *field, char room[FIELD_NAME_BYTES])
{
    if (field->reserved2)
        return field->reserved2;
    field_lower_camel(field->name, room);
    return room;
}

/* A name in JSON comes before one in the .proto: they may be equal for two fields. */
const field_descriptor *field_find(const ProtobufCMessageDescriptor *type, const char *name)
{
    char room[FIELD_NAME_BYTES];

    for (unsigned i = 0; i < type->n_fields; i++) {
        const field_descriptor *field = &type->fields[i];
        bool may_be = field->reserved2 || field->name[0] == name[0] || field->name[0] == '_';
        if (may_be && strcmp(field_json_name(field, room), name) == 0)
            return field;
    }
    return protobuf_c_message_descriptor_get_field_by_name(type, name);
}
