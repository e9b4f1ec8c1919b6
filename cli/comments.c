/* An element's comment is found by its path in the file: descriptor.proto, SourceCodeInfo. */
#include "comments.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <google/protobuf/descriptor.pb-c.h>

typedef Google__Protobuf__FileDescriptorProto file_proto;

enum {
    MESSAGE = 4,
    FIELD_OF_MESSAGE = 2,
    ENUM = 5,
    VALUE_OF_ENUM = 2,
    SERVICE = 6,
    METHOD_OF_SERVICE = 2
}; /* numbers of descriptor.proto */

struct comments {
    Google__Protobuf__FileDescriptorSet *set;
};

comments *comments_new(void)
{
    comments *all = calloc(1, sizeof *all);

    if (all)
        all->set = google__protobuf__file_descriptor_set__unpack(NULL, contract_comments_len, contract_comments);
    if (all && all->set)
        return all;
    free(all);
    return NULL;
}

void comments_free(comments *all)
{
    if (!all)
        return;
    google__protobuf__file_descriptor_set__free_unpacked(all->set, NULL);
    free(all);
}

static const char *at_path(const file_proto *file, const int32_t *path, size_t n)
{
    for (size_t i = 0; file->source_code_info && i < file->source_code_info->n_location; i++) {
        const Google__Protobuf__SourceCodeInfo__Location *location = file->source_code_info->location[i];
        if (location->n_path == n && memcmp(location->path, path, n * sizeof *path) == 0)
            return location->leading_comments ? location->leading_comments : "";
    }
    return "";
}

/* Whether `full` of len bytes is the name in the file's package. */
static bool is_name(const file_proto *file, const char *full, size_t len, const char *name)
{
    size_t package = strlen(file->package), name_len = strlen(name);

    return len == package + 1 + name_len && memcmp(full, file->package, package) == 0 && full[package] == '.' &&
           memcmp(full + package + 1, name, name_len) == 0;
}

/* The comment of a service, or of a method of it. */
static const char *of_service(const comments *all, const char *name, size_t len, const char *method)
{
    for (size_t f = 0; f < all->set->n_file; f++) {
        const file_proto *file = all->set->file[f];
        for (size_t s = 0; s < file->n_service; s++) {
            int32_t path[] = {SERVICE, (int32_t)s, METHOD_OF_SERVICE, 0};
            if (!is_name(file, name, len, file->service[s]->name))
                continue;
            if (!method)
                return at_path(file, path, 2);
            for (size_t m = 0; m < file->service[s]->n_method; m++) {
                path[3] = (int32_t)m;
                if (strcmp(file->service[s]->method[m]->name, method) == 0)
                    return at_path(file, path, 4);
            }
        }
    }
    return "";
}

const char *comments_of_service(const comments *all, const char *service, size_t len)
{
    return of_service(all, service, len, NULL);
}

const char *comments_of_method(const comments *all, const char *service, size_t len, const char *method)
{
    return of_service(all, service, len, method);
}

/* The comment of a message, or of a field of it. */
static const char *of_message(const comments *all, const char *message, const char *field)
{
    for (size_t f = 0; f < all->set->n_file; f++) {
        const file_proto *file = all->set->file[f];
        for (size_t m = 0; m < file->n_message_type; m++) {
            const Google__Protobuf__DescriptorProto *type = file->message_type[m];
            int32_t path[] = {MESSAGE, (int32_t)m, FIELD_OF_MESSAGE, 0};
            if (!is_name(file, message, strlen(message), type->name))
                continue;
            if (!field)
                return at_path(file, path, 2);
            for (size_t i = 0; i < type->n_field; i++) {
                path[3] = (int32_t)i;
                if (strcmp(type->field[i]->name, field) == 0)
                    return at_path(file, path, 4);
            }
        }
    }
    return "";
}

const char *comments_of_message(const comments *all, const char *message)
{
    return of_message(all, message, NULL);
}

const char *comments_of_field(const comments *all, const char *message, const char *field)
{
    return of_message(all, message, field);
}

/* The comment of an enum, or of a value of it. */
static const char *of_enum(const comments *all, const char *type, const char *value)
{
    for (size_t f = 0; f < all->set->n_file; f++) {
        const file_proto *file = all->set->file[f];
        for (size_t e = 0; e < file->n_enum_type; e++) {
            const Google__Protobuf__EnumDescriptorProto *one = file->enum_type[e];
            int32_t path[] = {ENUM, (int32_t)e, VALUE_OF_ENUM, 0};
            if (!is_name(file, type, strlen(type), one->name))
                continue;
            if (!value)
                return at_path(file, path, 2);
            for (size_t i = 0; i < one->n_value; i++) {
                path[3] = (int32_t)i;
                if (strcmp(one->value[i]->name, value) == 0)
                    return at_path(file, path, 4);
            }
        }
    }
    return "";
}

const char *comments_of_enum(const comments *all, const char *type)
{
    return of_enum(all, type, NULL);
}

const char *comments_of_value(const comments *all, const char *type, const char *value)
{
    return of_enum(all, type, value);
}

void comments_sentence(const char *comment, char *to, size_t size)
{
    size_t n = 0;

    for (const char *c = comment + (*comment == ' '); *c && n + 1 < size; c++) {
        if (*c == '\n' && c[1] == ' ')
            continue;
        if (*c == '\n' && (c[1] == '\n' || !c[1]))
            break;
        to[n++] = *c == '\n' ? ' ' : *c;
        if (*c == '.' && (c[1] == ' ' || c[1] == '\n' || !c[1]))
            break;
    }
    to[n] = '\0';
}
