/* Works on requests through descriptors, independent of services. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <lockstock/rpc/exchange.h>
#include <lockstock/rpc/fields.h>
#include <lockstock/rpc/method.h>

#include "waits.h"

/* ---- random ids -------------------------------------------------------------- */

static const char id_alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";

enum {
    ALPHABET_LEN = sizeof id_alphabet - 1,
    /* Bytes from here on are discarded, so that all letters are equally likely. */
    FAIR_BYTES = 256 - 256 % ALPHABET_LEN,
};

void lks_rpc_random_id(char id[LKS_RPC_RANDOM_ID_LEN + 1])
{
    size_t len = 0;
    while (len < LKS_RPC_RANDOM_ID_LEN) {
        unsigned char bytes[LKS_RPC_RANDOM_ID_LEN];
        ssize_t got = getrandom(bytes, sizeof bytes, 0);
        /* For so few bytes only a signal interrupts getrandom. There is no safe id without it. */
        if (got < 0 && errno != EINTR)
            abort();
        for (ssize_t i = 0; i < got && len < LKS_RPC_RANDOM_ID_LEN; i++)
            if (bytes[i] < FAIR_BYTES)
                id[len++] = id_alphabet[bytes[i] % ALPHABET_LEN];
    }
    id[len] = '\0';
}

/* ---- fields ------------------------------------------------------------------ */

static const void *member(const ProtobufCMessage *message, size_t offset)
{
    return (const char *)message + offset;
}

static bool all_zero(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Returns whether the struct has a `has_` member for the field: optional numbers and bytes of proto2 and proto3.
 * Strings and messages have a pointer instead. */
static bool has_presence(const ProtobufCFieldDescriptor *field)
{
    return field->label == PROTOBUF_C_LABEL_OPTIONAL && (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 &&
           field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE;
}

static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    return *(const protobuf_c_boolean *)member(message, field->quantifier_offset) != 0;
}

/* Returns whether a field is sent and not empty. A number with presence may be 0; other fields must not be zero. A
 * member of a oneof must be selected. A default that is not sent does not count. */
static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return lks_rpc_field_count(message, field) > 0;
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        if (*(const uint32_t *)member(message, field->quantifier_offset) != field->id)
            return false;
    if (has_presence(field) && !is_present(message, field))
        return false;
    const void *value = member(message, field->offset);
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)value;
        return text && text != field->default_value && text[0] != '\0';
    }
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len > 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(ProtobufCMessage *const *)value;
    default:
        return has_presence(field) || !all_zero(value, lks_rpc_field_size(field->type));
    }
}

/* Returns whether the field at `path` is set in all elements of the repeated messages on the path. */
static bool path_is_set(const ProtobufCMessage *message, const char *path)
{
    size_t len = strcspn(path, ".");
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(message->descriptor, path, len);
    if (!field || !is_set(message, field))
        return false;
    if (path[len] == '\0')
        return true;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return false;
    const char *rest = path + len + 1;
    const void *value = member(message, field->offset);
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return path_is_set(*(ProtobufCMessage *const *)value, rest);
    ProtobufCMessage *const *elements = *(ProtobufCMessage * *const *)value;
    for (size_t i = 0; i < lks_rpc_field_count(message, field); i++)
        if (!path_is_set(elements[i], rest))
            return false;
    return true;
}

/* Whether it is a string that is not repeated and not in a oneof. */
static bool is_plain_text(const ProtobufCFieldDescriptor *field)
{
    return field && field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED &&
           !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF);
}

bool lks_rpc_may_repeat(const lks_rpc_method *method, const ProtobufCMessage *request)
{
    if (method->effect == LKS_RPC_EFFECT_READ)
        return true;
    return method->natural_id && path_is_set(request, method->natural_id);
}

char **lks_rpc_field_to_fill(const lks_rpc_method *method, ProtobufCMessage *request)
{
    if (method->fill != LKS_RPC_FILL_RANDOM || !method->natural_id)
        return NULL;
    const ProtobufCFieldDescriptor *field =
        lks_rpc_field_named(request->descriptor, method->natural_id, strlen(method->natural_id));
    if (!is_plain_text(field) || is_set(request, field))
        return NULL;
    return (char **)((char *)request + field->offset);
}

int64_t lks_rpc_wait_ms(const lks_rpc_method *method, const ProtobufCMessage *request)
{
    const ProtobufCFieldDescriptor *field = waits_field(method->request);
    if (!field)
        return 0;
    const int64_t *wait_ms = member(request, field->offset);
    if (has_presence(field) && !is_present(request, field))
        wait_ms = field->default_value; /* the value that the server reads then */
    else if (!is_set(request, field))
        wait_ms = NULL;
    return wait_ms && *wait_ms > 0 ? *wait_ms : 0;
}

/* The value of a field with that name, type and one value; NULL: there is none. */
static const void *one_value(const ProtobufCMessage *message, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(message->descriptor, name, strlen(name));

    if (!field || field->type != type || field->label == PROTOBUF_C_LABEL_REPEATED ||
        lks_rpc_field_count(message, field) == 0)
        return NULL;
    return lks_rpc_field_value(message, field, 0);
}

lks_rpc_hints lks_rpc_hints_of(const ProtobufCMessage *response)
{
    const protobuf_c_boolean *replayed = one_value(response, "replayed", PROTOBUF_C_TYPE_BOOL);
    const int64_t *retry_after_ms = one_value(response, "retry_after_ms", PROTOBUF_C_TYPE_INT64);
    lks_rpc_hints hints = {.replayed = replayed && *replayed};

    if (retry_after_ms && *retry_after_ms > 0)
        hints.retry_after_ms = *retry_after_ms < UINT32_MAX ? (uint32_t)*retry_after_ms : UINT32_MAX;
    return hints;
}

bool lks_rpc_end_first_try(const lks_rpc_method *method, ProtobufCMessage *request)
{
    if (!method->first_try)
        return false;
    const ProtobufCFieldDescriptor *field =
        lks_rpc_field_named(request->descriptor, method->first_try, strlen(method->first_try));
    if (!field || field->type != PROTOBUF_C_TYPE_BOOL || field->label == PROTOBUF_C_LABEL_REPEATED ||
        (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return false;
    bool presence = has_presence(field);
    protobuf_c_boolean *value = (protobuf_c_boolean *)((char *)request + field->offset);
    const protobuf_c_boolean *sent = presence && !is_present(request, field) ? field->default_value : value;
    if (!sent || !*sent)
        return false;
    *value = false;
    if (presence)
        *(protobuf_c_boolean *)((char *)request + field->quantifier_offset) = true;
    return true;
}

/* Returns the text at `path`, or NULL if it is not set or a repeated message on the path has not exactly one
 * element. */
static char *text_at(const ProtobufCMessage *message, const char *path)
{
    size_t len = strcspn(path, ".");
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(message->descriptor, path, len);
    bool repeated = field && field->label == PROTOBUF_C_LABEL_REPEATED;

    if (!field || !is_set(message, field) || (repeated && lks_rpc_field_count(message, field) != 1))
        return NULL;
    const void *value = member(message, field->offset);
    if (path[len] == '\0')
        return field->type == PROTOBUF_C_TYPE_STRING && !repeated ? *(char *const *)value : NULL;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return NULL;
    const ProtobufCMessage *inner =
        repeated ? (*(ProtobufCMessage * *const *)value)[0] : *(ProtobufCMessage *const *)value;
    return text_at(inner, path + len + 1);
}

ProtobufCMessage *lks_rpc_undo_request(const lks_rpc_method *method, const ProtobufCMessage *request)
{
    const lks_rpc_undo *undo = method->undo;
    ProtobufCMessage *made = undo ? malloc(undo->method->request->sizeof_message) : NULL;

    if (!made)
        return NULL;
    undo->method->request->message_init(made);
    for (size_t i = 0; i < undo->n_fields; i++) {
        const char *name = undo->fields[i].field;
        const ProtobufCFieldDescriptor *field = lks_rpc_field_named(made->descriptor, name, strlen(name));
        char *text = NULL;
        for (const char *const *from = undo->fields[i].from; *from && !text; from++)
            text = text_at(request, *from);
        if (text && is_plain_text(field))
            *(char **)((char *)made + field->offset) = text;
    }
    return made;
}
