/* Invariant: equal requests have equal fingerprints and keys, regardless of the program that packed them. */
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/fields.h>
#include <openssl/sha.h>

#include "host/guard/keys.h"

/* An absent key of a proto2 message is NULL. */
static const char *text_of(const void *value)
{
    const char *text = *(char *const *)value;

    return text ? text : "";
}

/* Any order that is the same for equal entries. */
static int compare_entries(const void *a, const void *b)
{
    const ProtobufCMessage *left = *(ProtobufCMessage *const *)a, *right = *(ProtobufCMessage *const *)b;
    const ProtobufCFieldDescriptor *key = &left->descriptor->fields[0];
    const void *left_key = lks_rpc_field_value(left, key, 0), *right_key = lks_rpc_field_value(right, key, 0);

    switch (key->type) {
    case PROTOBUF_C_TYPE_STRING:
        return strcmp(text_of(left_key), text_of(right_key));
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

void guard_order_maps(ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        size_t n = field->type == PROTOBUF_C_TYPE_MESSAGE ? lks_rpc_field_count(message, field) : 0;

        if (n > 1 && lks_rpc_field_is_map(type, field))
            qsort((void *)lks_rpc_field_value(message, field, 0), n, sizeof(ProtobufCMessage *), compare_entries);
        for (size_t k = 0; k < n; k++)
            guard_order_maps(*(ProtobufCMessage *const *)lks_rpc_field_value(message, field, k));
    }
}

lks_code guard_fingerprint(const lks_rpc_method *method, const ProtobufCMessage *request,
                           uint8_t ret[GUARD_FINGERPRINT_BYTES], lks_error *error)
{
    size_t path_len = strlen(method->path) + 1;

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
