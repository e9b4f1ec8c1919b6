/* Invariant: a request that says the same has the same fingerprint, whoever packed it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "client/guard/keys.h"

static const void *member(const ProtobufCMessage *message, size_t offset)
{
    return (const char *)message + offset;
}

/* protobuf-c keeps no mark of a map: it is told by how protoc names and numbers an entry, as nothing else may be. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
    static const char suffix[] = "Entry";

    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const ProtobufCMessageDescriptor *type = field->descriptor;
    size_t len = strlen(type->short_name);
    return type->n_fields == 2 && type->fields[0].id == 1 && strcmp(type->fields[0].name, "key") == 0 &&
           type->fields[1].id == 2 && strcmp(type->fields[1].name, "value") == 0 && len > sizeof suffix - 1 &&
           strcmp(type->short_name + len - (sizeof suffix - 1), suffix) == 0;
}

/* Any order will do that is the same for the same entries. */
static int compare_entries(const void *a, const void *b)
{
    const ProtobufCMessage *left = *(ProtobufCMessage *const *)a, *right = *(ProtobufCMessage *const *)b;
    const ProtobufCFieldDescriptor *key = &left->descriptor->fields[0];
    const void *left_key = member(left, key->offset), *right_key = member(right, key->offset);

    switch (key->type) {
    case PROTOBUF_C_TYPE_STRING:
        return strcmp(*(char *const *)left_key, *(char *const *)right_key);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return memcmp(left_key, right_key, sizeof(int64_t));
    default:
        return memcmp(left_key, right_key, sizeof(int32_t));
    }
}

static void order_maps(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        const void *value = member(message, field->offset);

        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            ProtobufCMessage **elements = *(ProtobufCMessage * *const *)value;
            size_t n = *(const size_t *)member(message, field->quantifier_offset);

            if (n > 1 && is_map(field))
                qsort(elements, n, sizeof *elements, compare_entries);
            for (size_t k = 0; k < n; k++)
                order_maps(elements[k]);
        } else if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
                   *(const uint32_t *)member(message, field->quantifier_offset) == field->id) {
            const ProtobufCMessage *inner = *(ProtobufCMessage *const *)value;

            if (inner)
                order_maps(inner);
        }
    }
}

lks_code guard_fingerprint(const lks_rpc_method *method, ProtobufCMessage *request,
                           uint8_t ret[GUARD_FINGERPRINT_BYTES], lks_error *error)
{
    size_t path_len = strlen(method->path) + 1;

    order_maps(request);
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(path_len + len);
    if (!bytes)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    memcpy(bytes, method->path, path_len);
    protobuf_c_message_pack(request, bytes + path_len);
    SHA256(bytes, path_len + len, ret);
    free(bytes);
    return LKS_OK;
}
