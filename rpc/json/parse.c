/* jansson parses the text into a tree, which is walked together with the descriptor. Limits are checked before
 * memory is allocated. */
#include "json.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/base64.h"
#include "field.h"
#include "not_json.h"
#include "numbers.h"
#include "path.h"
#include "well_known.h"

typedef struct parsing {
    const lks_rpc_scan_limits *limits;
    lks_rpc_arena *arena;
    const char *whole; /* the name for errors without a field */
    uint32_t elements;
    lks_error *error;
} parsing;

static bool invalid(const parsing *p, const json_path *at, const char *problem)
{
    return json_path_fail(at, p->whole, problem, p->error);
}

static bool no_memory(const parsing *p)
{
    lks_error_set(p->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return false;
}

/* ---- numbers ------------------------------------------------------------------ */

static bool parse_whole(const parsing *p, const json_path *at, const json_t *json, int64_t min, uint64_t max,
                        uint64_t *ret)
{
    const char *text = numbers_text(json, NULL);
    uint64_t magnitude;
    bool negative;

    numbers_result result = text ? numbers_whole(text, &negative, &magnitude) : NUMBERS_NOT_WHOLE;
    if (result == NUMBERS_NOT_WHOLE)
        return invalid(p, at, "must be a whole number");
    if (result == NUMBERS_TOO_LARGE || (negative ? min >= 0 || magnitude > -(uint64_t)min : magnitude > max))
        return invalid(p, at, "out of range");
    *ret = negative ? -magnitude : magnitude;
    return true;
}

static bool parse_real(const parsing *p, const json_path *at, const json_t *json, double *ret)
{
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    bool is_string, is_number = false;
    const char *text = numbers_text(json, &is_string);

    for (size_t i = 0; text && is_string && i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0) {
            *ret = names[i].value;
            return true;
        }
    if (text && numbers_real(text, ret, &is_number))
        return true;
    return invalid(p, at, is_number ? "out of range" : "must be a number");
}

static bool parse_float(const parsing *p, const json_path *at, double real, float *ret)
{
    /* A value half a step above the greatest float rounds to infinity. */
    if (isfinite(real) && fabs(real) >= (double)FLT_MAX + ldexp(1, 103))
        return invalid(p, at, "out of range");
    *ret = (float)real;
    return true;
}

/* ---- single values -------------------------------------------------------------- */

static bool parse_enum(const parsing *p, const json_path *at, const ProtobufCEnumDescriptor *type, const json_t *json,
                       uint32_t *ret)
{
    const ProtobufCEnumValue *value = NULL;
    size_t len;
    const char *name = numbers_string(json, &len);
    uint64_t number;

    if (json_is_null(json) && well_known_is_null(type)) {
        *ret = 0;
        return true;
    }
    if (name) {
        value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
        if (!value)
            return invalid(p, at, "not a value of the enum");
        *ret = (uint32_t)value->value;
        return true;
    }
    if (!numbers_text(json, NULL))
        return invalid(p, at, "must be a name or a number of the enum");
    if (!parse_whole(p, at, json, INT32_MIN, INT32_MAX, &number))
        return false;
    if (!p->limits->open_enums && !protobuf_c_enum_descriptor_get_value(type, (int)(int64_t)number))
        return invalid(p, at, "not a value of the enum");
    *ret = (uint32_t)number;
    return true;
}

static bool parse_string(const parsing *p, const json_path *at, const json_t *json, char **ret)
{
    size_t len;
    const char *text = numbers_string(json, &len);

    if (!text)
        return invalid(p, at, "must be a string");
    if (len > p->limits->string_bytes)
        return invalid(p, at, "string too long");
    if (memchr(text, '\0', len))
        return invalid(p, at, "contains a NUL");
    *ret = lks_rpc_arena_copy(p->arena, text, len);
    return *ret || no_memory(p);
}

static bool parse_bytes(const parsing *p, const json_path *at, const json_t *json, ProtobufCBinaryData *ret)
{
    size_t len;
    const char *text = numbers_string(json, &len);

    if (!text)
        return invalid(p, at, "must be a string, in base64");
    if (len / 4 > p->limits->bytes_bytes / 3 + 1)
        return invalid(p, at, "too many bytes");
    ret->data = lks_rpc_arena_alloc(p->arena, len / 4 * 3 + 2);
    if (!ret->data)
        return no_memory(p);
    if (!base64_decode(text, len, ret->data, &ret->len))
        return invalid(p, at, "not base64");
    return ret->len <= p->limits->bytes_bytes || invalid(p, at, "too many bytes");
}

static bool parse_message(parsing *p, const json_path *at, uint32_t depth, const ProtobufCMessageDescriptor *type,
                          json_t *json, ProtobufCMessage **ret);

/* Writes a value of the field's type to `to`. */
static bool parse_value(parsing *p, const json_path *at, uint32_t depth, const field_descriptor *field, json_t *json,
                        void *to)
{
    uint64_t number;
    double real;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        if (!parse_whole(p, at, json, INT32_MIN, INT32_MAX, &number))
            return false;
        *(uint32_t *)to = (uint32_t)number;
        return true;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        if (!parse_whole(p, at, json, 0, UINT32_MAX, &number))
            return false;
        *(uint32_t *)to = (uint32_t)number;
        return true;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return parse_whole(p, at, json, INT64_MIN, INT64_MAX, to);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return parse_whole(p, at, json, 0, UINT64_MAX, to);
    case PROTOBUF_C_TYPE_FLOAT:
        return parse_real(p, at, json, &real) && parse_float(p, at, real, to);
    case PROTOBUF_C_TYPE_DOUBLE:
        return parse_real(p, at, json, to);
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)to = json_is_true(json);
        return json_is_boolean(json) || invalid(p, at, "must be true or false");
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(p, at, field->descriptor, json, to);
    case PROTOBUF_C_TYPE_STRING:
        return parse_string(p, at, json, to);
    case PROTOBUF_C_TYPE_BYTES:
        return parse_bytes(p, at, json, to);
    case PROTOBUF_C_TYPE_MESSAGE:
        return parse_message(p, at, depth + 1, field->descriptor, json, to);
    }
    return invalid(p, at, "of an unknown type");
}

/* ---- fields ------------------------------------------------------------------- */

static bool count_elements(parsing *p, const json_path *at, size_t n)
{
    if (n > p->limits->elements - p->elements)
        return invalid(p, at, "too many elements in the whole message");
    p->elements += (uint32_t)n;
    return true;
}

static bool parse_array(parsing *p, const json_path *at, uint32_t depth, const field_descriptor *field, json_t *json,
                        ProtobufCMessage *message)
{
    size_t n = json_array_size(json), size = lks_rpc_field_size(field->type);

    if (!json_is_array(json))
        return invalid(p, at, "must be an array");
    if (!count_elements(p, at, n))
        return false;
    char *elements = n > 0 ? lks_rpc_arena_alloc(p->arena, n * size) : NULL;
    if (n > 0 && !elements)
        return no_memory(p);
    for (size_t i = 0; i < n; i++) {
        const json_path element = {.outer = at, .index = i};
        if (!parse_value(p, &element, depth, field, json_array_get(json, i), elements + i * size))
            return false;
    }
    *(size_t *)field_quantifier(message, field) = n;
    *(void **)field_member(message, field) = elements;
    return true;
}

/* Converts the name of a member to the field `key` of a map. Whole numbers have only one form, so that two names cannot
 * be the same key. */
static bool parse_key(parsing *p, const json_path *at, const field_descriptor *field, const char *key, void *to)
{
    bool is_bool = field->type == PROTOBUF_C_TYPE_BOOL, is_text = field->type == PROTOBUF_C_TYPE_STRING;
    json_t *json;

    if (is_bool)
        json = strcmp(key, "true") == 0 ? json_true() : strcmp(key, "false") == 0 ? json_false() : json_null();
    else if (!is_text && !numbers_is_canonical(key))
        return invalid(p, at, "must be a whole number in decimal digits");
    else
        json = json_string(key);
    if (!json)
        return no_memory(p);
    bool good = parse_value(p, at, 0, field, json, to);
    json_decref(json);
    return good;
}

static void mark_set(ProtobufCMessage *message, const field_descriptor *field)
{
    if (field_in_oneof(field))
        *(uint32_t *)field_quantifier(message, field) = field->id;
    else if (field->label == PROTOBUF_C_LABEL_OPTIONAL && field->type != PROTOBUF_C_TYPE_STRING &&
             field->type != PROTOBUF_C_TYPE_MESSAGE)
        *(protobuf_c_boolean *)field_quantifier(message, field) = 1;
}

static bool parse_map(parsing *p, const json_path *at, uint32_t depth, const field_descriptor *field, json_t *json,
                      ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = field->descriptor;
    const field_descriptor *key_field = &type->fields[0], *value_field = &type->fields[1];
    const char *key;
    json_t *value;
    size_t n = 0;

    if (!json_is_object(json))
        return invalid(p, at, "must be an object");
    if (depth >= p->limits->depth)
        return invalid(p, at, "nested too deep");
    if (!count_elements(p, at, json_object_size(json)))
        return false;
    ProtobufCMessage **entries = lks_rpc_arena_alloc(p->arena, json_object_size(json) * sizeof *entries);
    if (!entries)
        return no_memory(p);
    json_object_foreach(json, key, value)
    {
        const json_path entry_path = {.outer = at, .key = numbers_name(key)};
        ProtobufCMessage *entry = lks_rpc_arena_alloc(p->arena, type->sizeof_message);
        if (!entry)
            return no_memory(p);
        protobuf_c_message_init(type, entry);
        if (value_field->type == PROTOBUF_C_TYPE_MESSAGE && !count_elements(p, &entry_path, 1))
            return false;
        if (!parse_key(p, &entry_path, key_field, key, field_member(entry, key_field)) ||
            !parse_value(p, &entry_path, depth + 1, value_field, value, field_member(entry, value_field)))
            return false;
        mark_set(entry, key_field);
        mark_set(entry, value_field);
        entries[n++] = entry;
    }
    *(size_t *)field_quantifier(message, field) = n;
    *(ProtobufCMessage ***)field_member(message, field) = entries;
    return true;
}

static bool parse_field(parsing *p, const json_path *at, uint32_t depth, const field_descriptor *field, json_t *json,
                        ProtobufCMessage *message)
{
    if (lks_rpc_field_is_map(message->descriptor, field))
        return parse_map(p, at, depth, field, json, message);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return parse_array(p, at, depth, field, json, message);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && !count_elements(p, at, 1))
        return false;
    if (field_in_oneof(field) && *(uint32_t *)field_quantifier(message, field) != 0)
        return invalid(p, at, "another field of its oneof is set too");
    if (!parse_value(p, at, depth, field, json, field_member(message, field)))
        return false;
    mark_set(message, field);
    return true;
}

/* ---- messages -------------------------------------------------------------------- */

/* Whether null is a value of the field. For other fields it means that they are not set. */
static bool may_be_null(const field_descriptor *field)
{
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return false;
    return (field->type == PROTOBUF_C_TYPE_MESSAGE && well_known_of(field->descriptor) == WELL_KNOWN_VALUE) ||
           (field->type == PROTOBUF_C_TYPE_ENUM && field_in_oneof(field) && well_known_is_null(field->descriptor));
}

static bool parse_fields(parsing *p, const json_path *at, uint32_t depth, json_t *json, ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    bool *met = lks_rpc_arena_alloc(p->arena, type->n_fields);
    const char *name;
    json_t *value;

    if (!met)
        return no_memory(p);
    json_object_foreach(json, name, value)
    {
        const field_descriptor *field = field_find(type, name);
        const json_path path = {.outer = at, .name = field ? field->name : numbers_name(name)};
        if (!field)
            return invalid(p, &path, "unknown field");
        if (met[field - type->fields])
            return invalid(p, &path, "given twice, by two names");
        met[field - type->fields] = true;
        if ((!json_is_null(value) || may_be_null(field)) && !parse_field(p, &path, depth, field, value, message))
            return false;
        if (json_is_null(value) && field->label == PROTOBUF_C_LABEL_REQUIRED)
            met[field - type->fields] = false;
    }
    for (unsigned i = 0; i < type->n_fields; i++) {
        const json_path path = {.outer = at, .name = type->fields[i].name};
        if (type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && !met[i])
            return invalid(p, &path, "required and missing");
    }
    return true;
}

/* ---- messages with a special JSON form -------------------------------------------------- */

static const field_descriptor *field_number(const ProtobufCMessage *message, unsigned number)
{
    return protobuf_c_message_descriptor_get_field(message->descriptor, number);
}

/* Timestamp or Duration. */
static bool parse_time(parsing *p, const json_path *at, well_known kind, json_t *json, ProtobufCMessage *message)
{
    size_t len;
    const char *text = numbers_string(json, &len);
    int64_t *seconds = field_member(message, field_number(message, 1));
    int32_t *nanos = field_member(message, field_number(message, 2));

    if (kind == WELL_KNOWN_TIMESTAMP)
        return (text && strlen(text) == len && well_known_read_timestamp(text, seconds, nanos)) ||
               invalid(p, at, "must be a time as \"2026-11-27T08:00:00Z\"");
    return (text && strlen(text) == len && well_known_read_duration(text, seconds, nanos)) ||
           invalid(p, at, "must be a duration as \"1.5s\"");
}

static bool parse_mask(parsing *p, const json_path *at, json_t *json, ProtobufCMessage *message)
{
    size_t len, n = 0, path_len;
    const char *text = numbers_string(json, &len);

    if (!text || strlen(text) != len)
        return invalid(p, at, "must be a string of paths, with commas between them");
    for (size_t i = 0; i < len; i++)
        n += text[i] == ',';
    if (!count_elements(p, at, n + 1))
        return false;
    char **paths = lks_rpc_arena_alloc(p->arena, (n + 1) * sizeof *paths);
    for (n = 0; paths && *text; text += path_len + (text[path_len] == ',')) {
        path_len = strcspn(text, ",");
        paths[n] = lks_rpc_arena_alloc(p->arena, 2 * path_len + 1);
        size_t read = paths[n] ? well_known_read_path(text, path_len, paths[n]) : 0;
        if (read == SIZE_MAX)
            return invalid(p, at, "must be paths of names in lowerCamelCase");
        if (!paths[n])
            return no_memory(p);
        if (read > p->limits->string_bytes)
            return invalid(p, at, "string too long");
        paths[n++][read] = '\0';
    }
    *(size_t *)field_quantifier(message, field_number(message, 1)) = n;
    *(char ***)field_member(message, field_number(message, 1)) = paths;
    return paths || no_memory(p);
}

enum { VALUE_NULL = 1, VALUE_NUMBER, VALUE_STRING, VALUE_BOOL, VALUE_STRUCT, VALUE_LIST };

static bool parse_any_value(parsing *p, const json_path *at, uint32_t depth, json_t *json, ProtobufCMessage *message)
{
    bool is_string = true;
    unsigned number = VALUE_NULL;

    if (json_is_object(json))
        number = VALUE_STRUCT;
    else if (json_is_array(json))
        number = VALUE_LIST;
    else if (json_is_boolean(json))
        number = VALUE_BOOL;
    else if (json_is_string(json))
        number = numbers_text(json, &is_string) && !is_string ? VALUE_NUMBER : VALUE_STRING;
    const field_descriptor *field = field_number(message, number);
    if (!parse_value(p, at, depth, field, json, field_member(message, field)))
        return false;
    mark_set(message, field);
    return true;
}

/* depth: of the message. */
static bool parse_well_known(parsing *p, const json_path *at, uint32_t depth, well_known kind, json_t *json,
                             ProtobufCMessage *message)
{
    const field_descriptor *first = field_number(message, 1);

    switch (kind) {
    case WELL_KNOWN_TIMESTAMP:
    case WELL_KNOWN_DURATION:
        return parse_time(p, at, kind, json, message);
    case WELL_KNOWN_FIELD_MASK:
        return parse_mask(p, at, json, message);
    case WELL_KNOWN_STRUCT:
        return parse_map(p, at, depth, first, json, message);
    case WELL_KNOWN_LIST:
        return parse_array(p, at, depth, first, json, message);
    case WELL_KNOWN_VALUE:
        return parse_any_value(p, at, depth, json, message);
    default:
        return parse_value(p, at, depth, first, json, field_member(message, first));
    }
}

static bool parse_message(parsing *p, const json_path *at, uint32_t depth, const ProtobufCMessageDescriptor *type,
                          json_t *json, ProtobufCMessage **ret)
{
    well_known kind = well_known_of(type);

    if (kind == WELL_KNOWN_NONE && !json_is_object(json))
        return invalid(p, at, "must be an object");
    if (depth > p->limits->depth)
        return invalid(p, at, "nested too deep");
    ProtobufCMessage *message = lks_rpc_arena_alloc(p->arena, type->sizeof_message);
    if (!message)
        return no_memory(p);
    protobuf_c_message_init(type, message);
    *ret = message;
    return kind != WELL_KNOWN_NONE ? parse_well_known(p, at, depth, kind, json, message)
                                   : parse_fields(p, at, depth, json, message);
}

static lks_code not_json(const json_error_t *why, const char *marked, lks_error *error)
{
    if (json_error_code(why) == json_error_out_of_memory)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "line %d, column %d: not JSON: %.*s", why->line,
                         why->column - numbers_inserted(marked, (size_t)why->position), NOT_JSON_WHY(why));
}

lks_code lks_rpc_json_parse(const ProtobufCMessageDescriptor *type, const void *text, size_t len,
                            const lks_rpc_scan_limits *limits, lks_rpc_arena *arena, ProtobufCMessage **ret,
                            lks_error *error)
{
    json_error_t why;
    lks_error unread;
    char *marked = lks_rpc_arena_alloc(arena, NUMBERS_MARKED_BYTES(len));
    size_t marked_len = marked ? numbers_mark(text, len, marked) : 0;
    parsing p = {.limits = limits, .arena = arena, .whole = type->short_name, .error = error ? error : &unread};
    ProtobufCMessage *message = NULL;

    if (!marked)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    size_t alone = well_known_of(type) != WELL_KNOWN_NONE ? JSON_DECODE_ANY : 0; /* the whole text may be a string */
    json_t *json = json_loadb(marked, marked_len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | alone, &why);
    if (!json)
        return not_json(&why, marked, error);
    bool good = parse_message(&p, NULL, 1, type, json, &message);
    json_decref(json);
    if (good)
        *ret = message;
    return good ? LKS_OK : p.error->code;
}
