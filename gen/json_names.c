#include "json_names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "emit.h"
#include "mangle.h"
#include "rpc/json/field.h"

typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__FieldDescriptorProto field_proto;

typedef struct naming {
    gen_pool *pool;
    const char *text; /* NULL: out of memory */
} naming;

/* protoc gives each field a json_name; without the option it is the name in lowerCamelCase. */
static bool is_own(const field_proto *field)
{
    char room[FIELD_NAME_BYTES];

    field_lower_camel(field->name, room);
    return strcmp(room, field->json_name) != 0;
}

/* Returns a string literal, or NULL: out of memory. */
static const char *literal_of(gen_pool *pool, const char *name)
{
    size_t room = 4 * strlen(name) + sizeof "\"\"";
    char *literal = pool_alloc(pool, room, 1);
    FILE *out = fmemopen(literal, room, "w");

    if (!out)
        return NULL;
    emit_string(out, name);
    return fclose(out) == 0 ? literal : NULL;
}

static void name_field(naming *n, const char *type, const field_proto *field)
{
    static const char none[] = "0,NULL,NULL    /* reserved1";
    const char *begin = pool_format(n->pool, "    offsetof(%s, %s),\n", type, mangle_pb_field(n->pool, field->name));
    const char *at = n->text ? strstr(n->text, begin) : NULL;
    const char *reserved = at ? strstr(at, none) : NULL;

    if (!reserved)
        return; /* the field is in another file */
    const char *literal = literal_of(n->pool, field->json_name);
    n->text = !literal ? NULL
                       : pool_format(n->pool, "%.*s0,(void *) %s,NULL%s", (int)(reserved - n->text), n->text, literal,
                                     reserved + strlen("0,NULL,NULL"));
}

static void name_message(naming *n, const char *outer, const message_proto *message)
{
    const char *full = pool_format(n->pool, "%s%s%s", outer, outer[0] ? "." : "", message->name);

    for (size_t i = 0; i < message->n_field; i++)
        if (message->field[i]->json_name && is_own(message->field[i]))
            name_field(n, mangle_pb_type(n->pool, full), message->field[i]);
    for (size_t i = 0; i < message->n_nested_type; i++)
        name_message(n, full, message->nested_type[i]);
}

const char *json_names_add(gen_pool *pool, const Google__Protobuf__Compiler__CodeGeneratorRequest *request,
                           const char *text)
{
    naming n = {.pool = pool, .text = text};

    for (size_t i = 0; i < request->n_proto_file; i++) {
        const Google__Protobuf__FileDescriptorProto *file = request->proto_file[i];
        for (size_t j = 0; j < file->n_message_type; j++)
            name_message(&n, file->package ? file->package : "", file->message_type[j]);
    }
    return n.text;
}
