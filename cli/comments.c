/* The path of an element in its file leads to its comment: SourceCodeInfo of descriptor.proto. */
#include "comments.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <google/protobuf/descriptor.pb-c.h>

#include "rpc/json/field.h"

typedef Google__Protobuf__FileDescriptorProto file_proto;

typedef Google__Protobuf__FileDescriptorSet file_set; /* that is what `comments` is */

comments *comments_new(void)
{
    return (comments *)google__protobuf__file_descriptor_set__unpack(NULL, contract_comments_len, contract_comments);
}

void comments_free(comments *all)
{
    google__protobuf__file_descriptor_set__free_unpacked((file_set *)all, NULL);
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

/* Returns the list in the field with a number. */
static elements elements_of(const void *message, int32_t number)
{
    const ProtobufCMessage *base = message;
    const field_descriptor *field = protobuf_c_message_descriptor_get_field(base->descriptor, (unsigned)number);

    return (elements){*(size_t *)field_quantifier(base, field), *(void ***)field_member(base, field)};
}

/* Of a kind of type that has the field `types` in a file and its members in the field MEMBERS. */
enum { MEMBERS = 2 };

static const char *find_in(const file_proto *file, int32_t kind, const char *name, size_t len, const char *member)
{
    elements types = elements_of(file, kind);

    for (size_t t = 0; t < types.n; t++) {
        int32_t path[] = {kind, (int32_t)t, MEMBERS, 0};
        if (!is_name(file, name, len, name_at(types, t)))
            continue;
        if (!member)
            return at_path(file, path, 2);
        elements members = elements_of(types.of[t], MEMBERS);
        for (size_t m = 0; m < members.n; m++) {
            path[3] = (int32_t)m;
            if (strcmp(name_at(members, m), member) == 0)
                return at_path(file, path, 4);
        }
    }
    return "";
}

const char *comments_of(const comments *all, const char *name, size_t len, const char *member)
{
    static const int32_t kinds[] = {6, 4, 5}; /* fields of a file: its services, messages and enums */
    const file_set *set = (const file_set *)all;
    const char *found = "";

    for (size_t f = 0; f < set->n_file; f++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !*found; k++)
            found = find_in(set->file[f], kinds[k], name, len, member);
    return found;
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
