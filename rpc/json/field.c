/* Descriptors have no json_name. */
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
