/* The text is written into a buffer in the arena that doubles when it is full. */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/rpc/utf8.h>

#include "base/base64.h"
#include "field.h"
#include "path.h"
#include "well_known.h"

enum { FIRST_BYTES = 512, NUMBER_BYTES = 40 };

typedef struct printing {
    lks_rpc_json_options options;
    lks_rpc_arena *arena;
    const char *whole; /* the name for errors without a field */
    char *text;
    size_t len, room;
    unsigned level;
    bool no_memory;
    lks_error *error;
} printing;

/* ---- the text -------------------------------------------------------------------- */

/* Returns room for `len` more bytes, or NULL when out of memory. */
static char *reserve(printing *p, size_t len)
{
    if (p->no_memory)
        return NULL;
    if (len > p->room - p->len) {
        size_t room = p->room > 0 ? 2 * p->room : FIRST_BYTES;
        while (room - p->len < len)
            room *= 2;
        char *text = lks_rpc_arena_alloc(p->arena, room);
        p->no_memory = !text;
        if (!text)
            return NULL;
        if (p->len > 0)
            memcpy(text, p->text, p->len);
        p->text = text;
        p->room = room;
    }
    char *at = p->text + p->len;
    p->len += len;
    return at;
}

static void put_bytes(printing *p, const char *bytes, size_t len)
{
    char *at = reserve(p, len);
    if (at && len > 0)
        memcpy(at, bytes, len);
}

static void put(printing *p, const char *text)
{
    put_bytes(p, text, strlen(text));
}

static void put_line(printing *p)
{
    if (!p->options.indent)
        return;
    put(p, "\n");
    for (unsigned i = 0; i < p->level; i++)
        put(p, "  ");
}

static void put_colon(printing *p)
{
    put(p, p->options.indent ? ": " : ":");
}

/* Writes the separator before a member or an element, or, if `more` is false, before the closing bracket. */
static void put_between(printing *p, bool more, size_t n_before)
{
    if (more && n_before > 0)
        put(p, ",");
    if (!more)
        p->level--;
    if (more || n_before > 0)
        put_line(p);
}

static void open_with(printing *p, const char *bracket)
{
    put(p, bracket);
    p->level++;
}

static void close_with(printing *p, const char *bracket, size_t n)
{
    put_between(p, false, n);
    put(p, bracket);
}

/* Writes a text of len bytes between quotes. */
static void put_quoted(printing *p, const char *text, size_t len)
{
    static const char escaped[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    size_t from = 0;
    char hex[8];

    put(p, "\"");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= ' ' && c != '"' && c != '\\')
            continue;
        const char *known = c ? strchr(escaped, c) : NULL;
        put_bytes(p, text + from, i - from);
        from = i + 1;
        if (known)
            snprintf(hex, sizeof hex, "\\%c", letters[known - escaped]);
        else
            snprintf(hex, sizeof hex, "\\u%04x", c);
        put(p, hex);
    }
    put_bytes(p, text + from, len - from);
    put(p, "\"");
}

/* ---- values ------------------------------------------------------------------- */

/* Writes the shortest text that reads back as the number; `digits` always suffice. */
static void put_real(printing *p, double real, int digits, bool is_float)
{
    char text[NUMBER_BYTES];

    if (!isfinite(real)) {
        put(p, isnan(real) ? "\"NaN\"" : real > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    for (int n = is_float ? 6 : 15; n <= digits; n++) {
        snprintf(text, sizeof text, "%.*g", n, real);
        double back = strtod(text, NULL);
        if (is_float ? (float)back == (float)real : back == real && !signbit(back) == !signbit(real))
            break;
    }
    for (char *c = text; *c; c++)
        if (*c == ',') /* the decimal point of the locale */
            *c = '.';
    put(p, strcmp(text, "-0") == 0 ? "-0.0" : text); /* an integer has no sign of zero */
}

static bool put_string(printing *p, const json_path *at, const char *text)
{
    const char *shown = text ? text : ""; /* NULL: a string of proto2 that is not set */
    size_t len = strlen(shown);

    if (!lks_rpc_utf8_valid(shown, len))
        return json_path_fail(at, p->whole, "not valid UTF-8", p->error);
    put_quoted(p, shown, len);
    return true;
}

static void put_base64(printing *p, const ProtobufCBinaryData *bytes)
{
    put(p, "\"");
    char *at = reserve(p, BASE64_ENCODED_BYTES(bytes->len));
    if (at)
        base64_encode(bytes->data, bytes->len, at);
    put(p, "\"");
}

static void put_enum(printing *p, const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    char text[NUMBER_BYTES];

    snprintf(text, sizeof text, "%d", value);
    if (well_known_is_null(type))
        put(p, "null");
    else if (known)
        put_quoted(p, known->name, strlen(known->name));
    else
        put(p, text);
}

static bool put_message(printing *p, const json_path *at, const ProtobufCMessage *message);

/* Writes an unset message as an empty one. */
static bool put_unset(printing *p, const json_path *at, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *empty = lks_rpc_arena_alloc(p->arena, type->sizeof_message);

    p->no_memory = p->no_memory || !empty;
    if (!empty)
        return true;
    protobuf_c_message_init(type, empty);
    return put_message(p, at, empty);
}

static bool put_value(printing *p, const json_path *at, const field_descriptor *field, const void *from)
{
    char text[NUMBER_BYTES] = "";

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        snprintf(text, sizeof text, "%" PRId32, *(const int32_t *)from);
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        snprintf(text, sizeof text, "%" PRIu32, *(const uint32_t *)from);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        snprintf(text, sizeof text, "\"%" PRId64 "\"", *(const int64_t *)from);
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        snprintf(text, sizeof text, "\"%" PRIu64 "\"", *(const uint64_t *)from);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        put_real(p, (double)*(const float *)from, 9, true);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        put_real(p, *(const double *)from, 17, false);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        put(p, *(const protobuf_c_boolean *)from ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(p, field->descriptor, *(const int *)from);
        break;
    case PROTOBUF_C_TYPE_STRING:
        return put_string(p, at, *(const char *const *)from);
    case PROTOBUF_C_TYPE_BYTES:
        put_base64(p, from);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (*(const ProtobufCMessage *const *)from)
            return put_message(p, at, *(const ProtobufCMessage *const *)from);
        return put_unset(p, at, field->descriptor); /* an entry of a map may have no value */
    }
    put(p, text);
    return true;
}

/* Writes the key of a map as the name of a member. */
static bool put_key(printing *p, const json_path *at, const field_descriptor *field, const void *from)
{
    /* 64-bit numbers are between quotes anyway. */
    bool bare = field->type != PROTOBUF_C_TYPE_STRING && lks_rpc_field_size(field->type) < sizeof(uint64_t);

    if (bare)
        put(p, "\"");
    if (!put_value(p, at, field, from))
        return false;
    if (bare)
        put(p, "\"");
    put_colon(p);
    return true;
}

/* ---- fields ------------------------------------------------------------------- */

static bool put_array(printing *p, const json_path *at, const field_descriptor *field, const char *elements, size_t n)
{
    open_with(p, "[");
    for (size_t i = 0; i < n; i++) {
        const json_path element = {.outer = at, .index = i};
        put_between(p, true, i);
        if (!put_value(p, &element, field, elements + i * lks_rpc_field_size(field->type)))
            return false;
    }
    close_with(p, "]", n);
    return true;
}

static int compare_keys(const field_descriptor *key, const ProtobufCMessage *one, const ProtobufCMessage *other)
{
    const void *x = field_member(one, key), *y = field_member(other, key);

    if (key->type != PROTOBUF_C_TYPE_STRING)
        return memcmp(x, y, lks_rpc_field_size(key->type));
    const char *s = *(const char *const *)x, *t = *(const char *const *)y;
    return strcmp(s ? s : "", t ? t : "");
}

/* Orders entries by key, then by position. */
static int compare_entries(const void *a, const void *b, void *key)
{
    const ProtobufCMessage *const *one = *(const ProtobufCMessage *const *const *)a;
    const ProtobufCMessage *const *other = *(const ProtobufCMessage *const *const *)b;
    int order = compare_keys(key, *one, *other);

    return order != 0 ? order : (one > other) - (one < other);
}

/* Returns for each entry whether a later one has the same key. NULL: out of memory. */
static const bool *replaced_entries(printing *p, const field_descriptor *key, const ProtobufCMessage *const *entries,
                                    size_t n)
{
    const ProtobufCMessage *const **sorted = lks_rpc_arena_alloc(p->arena, n * sizeof *sorted);
    bool *replaced = lks_rpc_arena_alloc(p->arena, n);

    if (!sorted || !replaced)
        return NULL;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &entries[i];
    qsort_r(sorted, n, sizeof *sorted, compare_entries, (void *)(uintptr_t)key);
    for (size_t i = 0; i < n; i++)
        replaced[sorted[i] - entries] = i + 1 < n && compare_keys(key, *sorted[i], *sorted[i + 1]) == 0;
    return replaced;
}

/* Writes only the last entry of each key, as any reader of Protobuf does. */
static bool put_map(printing *p, const json_path *at, const field_descriptor *field,
                    const ProtobufCMessage *const *entries, size_t n)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    const bool *replaced = replaced_entries(p, &type->fields[0], entries, n);
    size_t written = 0;

    p->no_memory |= !replaced;
    open_with(p, "{");
    for (size_t i = 0; i < n && replaced; i++) {
        const json_path element = {.outer = at, .index = i};
        if (replaced[i])
            continue;
        put_between(p, true, written++);
        if (!put_key(p, &element, &type->fields[0], field_member(entries[i], &type->fields[0])) ||
            !put_value(p, &element, &type->fields[1], field_member(entries[i], &type->fields[1])))
            return false;
    }
    close_with(p, "}", written);
    return true;
}

static bool is_zero(const field_descriptor *field, const void *at)
{
    static const char zero[sizeof(ProtobufCBinaryData)];

    if (field->type == PROTOBUF_C_TYPE_STRING)
        return !*(const char *const *)at || **(const char *const *)at == '\0';
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len == 0;
    return memcmp(at, zero, lks_rpc_field_size(field->type)) == 0; /* -0.0 is not 0 */
}

/* Returns whether a field that is not repeated is written. */
static bool is_written(const printing *p, const ProtobufCMessage *message, const field_descriptor *field)
{
    const void *at = field_member(message, field);

    if (field_in_oneof(field))
        return *(const uint32_t *)field_quantifier(message, field) == field->id;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const ProtobufCMessage *const *)at != NULL;
    if (p->options.defaults || field->label == PROTOBUF_C_LABEL_REQUIRED)
        return true;
    if (field->label != PROTOBUF_C_LABEL_OPTIONAL)
        return !is_zero(field, at);
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return *(const char *const *)at && *(const char *const *)at != field->default_value;
    return *(const protobuf_c_boolean *)field_quantifier(message, field) != 0;
}

static bool put_field(printing *p, const json_path *at, const ProtobufCMessage *message, const field_descriptor *field,
                      size_t n)
{
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return put_value(p, at, field, field_member(message, field));
    const void *elements = *(void **)field_member(message, field);
    if (lks_rpc_field_is_map(message->descriptor, field))
        return put_map(p, at, field, elements, n);
    return put_array(p, at, field, elements, n);
}

/* ---- messages with a special JSON form -------------------------------------------------- */

static bool put_time(printing *p, const json_path *at, well_known kind, int64_t seconds, int32_t nanos)
{
    char text[WELL_KNOWN_TEXT_BYTES];

    if (kind == WELL_KNOWN_TIMESTAMP ? !well_known_write_timestamp(seconds, nanos, text)
                                     : !well_known_write_duration(seconds, nanos, text))
        return json_path_fail(at, p->whole, "out of range for its type", p->error);
    put_quoted(p, text, strlen(text));
    return true;
}

static bool put_mask(printing *p, const json_path *at, const char *const *paths, size_t n)
{
    put(p, "\"");
    for (size_t i = 0; i < n; i++) {
        const json_path path = {.outer = at, .index = i};
        size_t len = strlen(paths[i]);
        if (i > 0)
            put(p, ",");
        char *to = reserve(p, len);
        size_t written = to ? well_known_write_path(paths[i], to) : len;
        bool is_plain =
            paths[i][strspn(paths[i], "abcdefghijklmnopqrstuvwxyz0123456789_.ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0';
        if (written == SIZE_MAX || !is_plain)
            return json_path_fail(&path, p->whole, "not a path of names in lower_case", p->error);
        p->len -= len - written;
    }
    put(p, "\"");
    return true;
}

/* Writes the field of a Value that is set. */
static bool put_any_value(printing *p, const json_path *at, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const field_descriptor *field = &type->fields[i];
        const void *from = field_member(message, field);
        if (*(const uint32_t *)field_quantifier(message, field) != field->id)
            continue;
        if (field->type == PROTOBUF_C_TYPE_DOUBLE && !isfinite(*(const double *)from))
            return json_path_fail(at, p->whole, "not a number of JSON", p->error);
        return put_value(p, at, field, from);
    }
    return json_path_fail(at, p->whole, "has no value", p->error);
}

static bool put_well_known(printing *p, const json_path *at, well_known kind, const ProtobufCMessage *message)
{
    const field_descriptor *first = protobuf_c_message_descriptor_get_field(message->descriptor, 1);
    const void *value = field_member(message, first);
    bool is_list = first->label == PROTOBUF_C_LABEL_REPEATED;
    size_t n = is_list ? *(const size_t *)field_quantifier(message, first) : 0;

    switch (kind) {
    case WELL_KNOWN_TIMESTAMP:
    case WELL_KNOWN_DURATION:
        return put_time(
            p, at, kind, *(const int64_t *)value,
            *(const int32_t *)field_member(message, protobuf_c_message_descriptor_get_field(message->descriptor, 2)));
    case WELL_KNOWN_FIELD_MASK:
        return put_mask(p, at, *(const char *const *const *)value, n);
    case WELL_KNOWN_STRUCT:
        return put_map(p, at, first, *(const ProtobufCMessage *const *const *)value, n);
    case WELL_KNOWN_LIST:
        return put_array(p, at, first, *(const char *const *)value, n);
    case WELL_KNOWN_VALUE:
        return put_any_value(p, at, message);
    default:
        return put_value(p, at, first, value);
    }
}

static bool put_message(printing *p, const json_path *at, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    well_known kind = well_known_of(type);
    size_t written = 0;

    if (kind != WELL_KNOWN_NONE)
        return put_well_known(p, at, kind, message);
    open_with(p, "{");
    for (unsigned i = 0; i < type->n_fields; i++) {
        const field_descriptor *field = &type->fields[i];
        const json_path path = {.outer = at, .name = field->name};
        char room[FIELD_NAME_BYTES];
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = repeated ? *(const size_t *)field_quantifier(message, field) : 0;
        if (repeated ? n == 0 && !p->options.defaults : !is_written(p, message, field))
            continue;
        put_between(p, true, written++);
        const char *shown = p->options.original_names ? field->name : field_json_name(field, room);
        put_quoted(p, shown, strlen(shown));
        put_colon(p);
        if (!put_field(p, &path, message, field, n))
            return false;
    }
    close_with(p, "}", written);
    return true;
}

lks_code lks_rpc_json_print(const ProtobufCMessage *message, const lks_rpc_json_options *options, lks_rpc_arena *arena,
                            lks_rpc_slice *ret, lks_error *error)
{
    printing p = {.options = *options, .arena = arena, .whole = message->descriptor->short_name, .error = error};

    if (!put_message(&p, NULL, message))
        return LKS_INVALID_ARGUMENT;
    put_bytes(&p, "", 1);
    if (p.no_memory)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *ret = (lks_rpc_slice){.data = p.text, .len = p.len - 1};
    return LKS_OK;
}
