/* Invariant: two requests with different values at a path never give the same key. If a key may have several values,
 * the separator is escaped in each value, and no value is empty. If several paths may have several values, paths have
 * a second separator. */
#include "host/guard/keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/fields.h>

/* ---- keys ----------------------------------------------------------------------------- */

/* The state of making a key or names. */
typedef struct key_maker {
    const char *path;   /* of the option */
    const char *prefix; /* before each text */
    size_t bytes_max;
    bool escapes;
    bool separates; /* the paths, by a second colon */
    lks_error *error;
    char text[GUARD_KEY_BYTES_MAX + 1]; /* so far */
    size_t len;
    char **names; /* NULL: all values become one key */
    size_t n_names;
} key_maker;

static lks_code out_of_memory(lks_error *error)
{
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

static lks_code unset(const key_maker *to)
{
    return lks_error_set(to->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "%s: must be set, because it is a key of the guard", to->path);
}

static lks_code too_long(const key_maker *to)
{
    return lks_error_set(to->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                         "%s: too long; the key of the guard may have at most %zu bytes", to->path, to->bytes_max);
}

/* Appends to the text. */
static lks_code append(key_maker *to, const char *text, size_t len)
{
    if (len > to->bytes_max - to->len)
        return too_long(to);
    memcpy(to->text + to->len, text, len);
    to->len += len;
    to->text[to->len] = '\0';
    return LKS_OK;
}

static lks_code append_value(key_maker *to, const char *text, size_t len)
{
    lks_code code = LKS_OK;

    if (!to->escapes)
        return append(to, text, len);
    for (size_t i = 0; i < len && code == LKS_OK; i++)
        code = text[i] == '%' ? append(to, "%25", 3) : text[i] == ':' ? append(to, "%3A", 3) : append(to, &text[i], 1);
    return code;
}

static lks_code begin(key_maker *to)
{
    if (to->len > 0)
        return append(to, ":", 1);
    if (*to->prefix == '\0')
        return LKS_OK;
    lks_code code = append(to, to->prefix, strlen(to->prefix));
    return code == LKS_OK ? append(to, ":", 1) : code;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Makes the text a name, unless there is an equal one already. */
static lks_code end(key_maker *to)
{
    if (!to->names)
        return LKS_OK;
    for (size_t i = 0; i < to->n_names; i++) {
        if (strcmp(to->names[i], to->text) == 0) {
            to->len = 0;
            return LKS_OK;
        }
    }
    if (to->n_names == GUARD_NAMES_MAX)
        return lks_error_set(to->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "%s: gives more than %d locks for one call", to->path, GUARD_NAMES_MAX);
    to->len = 0;
    to->names[to->n_names] = strdup(to->text);
    return to->names[to->n_names++] ? LKS_OK : out_of_memory(to->error);
}

static lks_code add_text(key_maker *to, const char *text, size_t len)
{
    lks_code code = begin(to);

    if (code == LKS_OK)
        code = append_value(to, text, len);
    return code == LKS_OK ? end(to) : code;
}

static lks_code add_bytes(key_maker *to, const ProtobufCBinaryData *bytes)
{
    lks_code code = begin(to);
    char hex[3];

    for (size_t i = 0; i < bytes->len && code == LKS_OK; i++) {
        snprintf(hex, sizeof hex, "%02x", bytes->data[i]);
        code = append(to, hex, 2);
    }
    return code == LKS_OK ? end(to) : code;
}

__attribute__((format(printf, 2, 3))) static lks_code add_number(key_maker *to, const char *format, ...)
{
    char text[24];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return strcmp(text, "0") == 0 ? unset(to) : add_text(to, text, (size_t)len);
}

static lks_code add_value(key_maker *to, const ProtobufCFieldDescriptor *field, const void *value)
{
    const char *text;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        text = *(const char *const *)value;
        return text && *text != '\0' ? add_text(to, text, strlen(text)) : unset(to);
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len > 0 ? add_bytes(to, value) : unset(to);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return add_number(to, "%" PRId64, *(const int64_t *)value);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return add_number(to, "%" PRIu64, *(const uint64_t *)value);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return add_number(to, "%" PRIu32, *(const uint32_t *)value);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        return add_number(to, "%" PRId32, *(const int32_t *)value);
    default:
        return unset(to);
    }
}

/* Whether a field with presence is not set. */
static bool is_absent(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *at = (const char *)message;

    if (field->label != PROTOBUF_C_LABEL_OPTIONAL || (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return false;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(const void *const *)(const void *)(at + field->offset) == field->default_value;
    return field->type != PROTOBUF_C_TYPE_MESSAGE &&
           !*(const protobuf_c_boolean *)(const void *)(at + field->quantifier_offset);
}

/* Adds the values at `path`, which is to->path or its rest. */
static lks_code add_path(key_maker *to, const ProtobufCMessage *message, const char *path)
{
    size_t len = strcspn(path, ".");
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(message->descriptor, path, len);
    size_t n = field && !is_absent(message, field) ? lks_rpc_field_count(message, field) : 0;
    lks_code code = n > 0 ? LKS_OK : unset(to);

    for (size_t i = 0; i < n && code == LKS_OK; i++) {
        const void *value = lks_rpc_field_value(message, field, i);

        if (path[len] == '\0')
            code = add_value(to, field, value);
        else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            code = add_path(to, *(const ProtobufCMessage *const *)value, path + len + 1);
        else
            code = unset(to);
    }
    return code;
}

/* Whether a path may give more than one value. */
static bool is_plural(const ProtobufCMessageDescriptor *type, const char *path)
{
    size_t len = strcspn(path, ".");
    const ProtobufCFieldDescriptor *field = lks_rpc_field_named(type, path, len);

    return field &&
           (field->label == PROTOBUF_C_LABEL_REPEATED || (path[len] != '\0' && field->type == PROTOBUF_C_TYPE_MESSAGE &&
                                                          is_plural(field->descriptor, path + len + 1)));
}

static lks_code make(key_maker *to, const ProtobufCMessage *request, const char *const *paths)
{
    lks_code code = LKS_OK;

    for (size_t i = 0; paths[i] && code == LKS_OK; i++) {
        to->path = paths[i];
        if (i > 0 && to->separates)
            code = append(to, ":", 1);
        if (code == LKS_OK)
            code = add_path(to, request, paths[i]);
    }
    return code;
}

lks_code guard_key(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                   char **ret, lks_error *error)
{
    key_maker to = {.prefix = prefix, .bytes_max = bytes_max, .error = error};
    size_t n_plural = 0;

    for (size_t i = 0; paths[i]; i++)
        n_plural += is_plural(request->descriptor, paths[i]);
    to.escapes = paths[1] || n_plural > 0;
    to.separates = n_plural > 1;
    lks_code code = make(&to, request, paths);

    if (code != LKS_OK)
        return code;
    *ret = strdup(to.text);
    return *ret ? LKS_OK : out_of_memory(error);
}

lks_code guard_names(const ProtobufCMessage *request, const char *const *paths, const char *prefix, size_t bytes_max,
                     char *names[GUARD_NAMES_MAX], size_t *n, lks_error *error)
{
    key_maker to = {.prefix = prefix, .bytes_max = bytes_max, .error = error, .names = names};
    lks_code code = make(&to, request, paths);

    if (code != LKS_OK) {
        while (to.n_names > 0)
            free(names[--to.n_names]);
        return code;
    }
    qsort(names, to.n_names, sizeof *names, compare_names);
    *n = to.n_names;
    return LKS_OK;
}
