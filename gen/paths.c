/* As in the libraries, a map is a repeated message with the fields key and value. */
#include "paths.h"

#include <string.h>

static const gen_field *find(const gen_message *message, const char *name, size_t len)
{
    for (size_t i = 0; i < message->proto->n_field; i++) {
        const gen_field *field = message->proto->field[i];
        if (strlen(field->name) == len && memcmp(field->name, name, len) == 0)
            return field;
    }
    return NULL;
}

const gen_field *paths_field(const gen_message *message, const char *name)
{
    return find(message, name, strlen(name));
}

bool paths_is_repeated(const gen_field *field)
{
    return field->label == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__LABEL__LABEL_REPEATED;
}

bool paths_is_key(const gen_field *field)
{
    switch (field->type) {
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_GROUP:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BOOL:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_FLOAT:
    case GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_DOUBLE:
        return false;
    default:
        return true;
    }
}

const char *paths_follow(const gen_model *model, const gen_message *from, const char *path, gen_path *ret)
{
    *ret = (gen_path){.message = from};
    for (;;) {
        size_t len = strcspn(path, ".");
        const gen_field *field = find(ret->message, path, len);
        if (!field)
            return pool_format(model->pool, "%s has no field \"%.*s\"", ret->message->full_name, (int)len, path);
        ret->field = field;
        ret->repeated |= paths_is_repeated(field);
        if (field->has_oneof_index && !ret->oneof)
            ret->oneof = pool_format(model->pool, "%s.%s", ret->message->full_name, field->name);
        if (path[len] == '\0')
            return NULL;
        if (field->type != GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_MESSAGE)
            return pool_format(model->pool, "%s.%s is not a message", ret->message->full_name, field->name);
        ret->message = model_find_message(model, field->type_name);
        if (!ret->message)
            return pool_format(model->pool, "the type %s is in no file that protoc sent", field->type_name);
        path += len + 1;
    }
}
