/* The path of an element in its file leads to its comment: SourceCodeInfo of descriptor.proto. */
#include "comments.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <google/protobuf/descriptor.pb-c.h>

typedef Google__Protobuf__FileDescriptorProto file_proto;

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

/* Returns whether `full`, of len bytes, is the name in the package of the file. */
static bool is_name(const file_proto *file, const char *full, size_t len, const char *name)
{
    size_t package = strlen(file->package), name_len = strlen(name);

    return len == package + 1 + name_len && memcmp(full, file->package, package) == 0 && full[package] == '.' &&
           memcmp(full + package + 1, name, name_len) == 0;
}

/* Elements of a descriptor: pointers to messages that begin with their base and their name. */
typedef struct elements {
    size_t n;
    void *const *of;
} elements;

/* All descriptors of descriptor.proto that have a name begin so. */
typedef struct named_proto {
    ProtobufCMessage base;
    char *name;
} named_proto;

static const char *name_at(elements all, size_t i)
{
    return ((const named_proto *)all.of[i])->name;
}

/* The types of a file, or the members of a type, of one kind; their numbers in descriptor.proto. */
typedef struct kind {
    int32_t type_field, member_field;
    elements (*types)(const file_proto *file);
    elements (*members)(const void *type);
} kind;

#define ELEMENTS(from, list) ((elements){(from)->n_##list, (void *const *)(from)->list})

static elements services(const file_proto *file)
{
    return ELEMENTS(file, service);
}

static elements methods(const void *type)
{
    return ELEMENTS((const Google__Protobuf__ServiceDescriptorProto *)type, method);
}

static elements messages(const file_proto *file)
{
    return ELEMENTS(file, message_type);
}

static elements fields(const void *type)
{
    return ELEMENTS((const Google__Protobuf__DescriptorProto *)type, field);
}

static elements enums(const file_proto *file)
{
    return ELEMENTS(file, enum_type);
}

static elements values(const void *type)
{
    return ELEMENTS((const Google__Protobuf__EnumDescriptorProto *)type, value);
}

static const kind service_kind = {6, 2, services, methods}, message_kind = {4, 2, messages, fields},
                  enum_kind = {5, 2, enums, values};

static const char *find(const comments *all, const kind *k, const char *name, size_t len, const char *member)
{
    for (size_t f = 0; f < all->set->n_file; f++) {
        const file_proto *file = all->set->file[f];
        elements types = k->types(file);
        for (size_t t = 0; t < types.n; t++) {
            int32_t path[] = {k->type_field, (int32_t)t, k->member_field, 0};
            if (!is_name(file, name, len, name_at(types, t)))
                continue;
            if (!member)
                return at_path(file, path, 2);
            elements members = k->members(types.of[t]);
            for (size_t m = 0; m < members.n; m++) {
                path[3] = (int32_t)m;
                if (strcmp(name_at(members, m), member) == 0)
                    return at_path(file, path, 4);
            }
        }
    }
    return "";
}

const char *comments_of_service(const comments *all, const char *service, size_t len, const char *method)
{
    return find(all, &service_kind, service, len, method);
}

const char *comments_of_message(const comments *all, const char *message, const char *field)
{
    return find(all, &message_kind, message, strlen(message), field);
}

const char *comments_of_enum(const comments *all, const char *type, const char *value)
{
    return find(all, &enum_kind, type, strlen(type), value);
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
