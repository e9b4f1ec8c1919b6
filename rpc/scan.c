/* One pass over the bytes, one stack frame for each nested message, no allocation. protobuf-c unpacks a message that
 * passes without loss, into memory that is bounded by the limits and not by claimed lengths. The path of a field is
 * computed only for an error. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lockstock/rpc/scan.h>
#include <lockstock/rpc/utf8.h>

#include "wire.h"

const lks_rpc_scan_limits lks_rpc_scan_defaults = {
    .depth = 16,
    .elements = 20000,
    .string_bytes = 64 * 1024,
    .bytes_bytes = 1024 * 1024,
    .unknown = 1000,
};

const lks_rpc_scan_limits lks_rpc_scan_response = {
    .depth = 16,
    .elements = 200000,
    .string_bytes = 64 * 1024,
    .bytes_bytes = 1024 * 1024,
    .unknown = 1000,
    .open_enums = true,
};

typedef ProtobufCFieldDescriptor field_descriptor;

/* Counters over the whole message. */
typedef struct scan {
    const lks_rpc_scan_limits *limits;
    uint32_t elements;
    uint32_t unknown;
    lks_error *error;
} scan;

enum {
    PATH_BYTES = 192,
    /* The first occurrence of these fields is distinguished from later ones. Fields beyond these are counted every
     * time. */
    MET_BITS = 256,
    WORD_BITS = 64,
};

/* A message being read: the outermost, or the value of outer->field. */
typedef struct level level;
struct level {
    scan *scan;
    const level *outer;
    const ProtobufCMessageDescriptor *type;
    const uint8_t *start;
    const uint8_t *tag; /* the beginning of the current field */
    wire wire;
    const field_descriptor *field; /* the current field; NULL: none, or unknown */
    uint32_t packed;               /* elements read from the current packed run */
    uint32_t depth;
    uint64_t met[MET_BITS / WORD_BITS]; /* by position in the descriptor */
};

/* ---- errors ------------------------------------------------------------------ */

static uint32_t packed_elements(const field_descriptor *field, wire run)
{
    uint32_t n = 0;
    while (run.at < run.end && wire_skip(&run, wire_type_of(field->type)))
        n++;
    return n;
}

/* Returns the index of the element of a repeated field that begins at m->tag. */
static uint32_t element_index(const level *m)
{
    uint32_t n = m->packed;
    wire past = {.at = m->start, .end = m->tag};
    uint32_t number;
    wire_type type;
    while (wire_tag(&past, &number, &type)) {
        wire run;
        if (number == m->field->id && type == WIRE_LENGTH && wire_type_of(m->field->type) != WIRE_LENGTH) {
            if (!wire_prefixed(&past, &run))
                break;
            n += packed_elements(m->field, run);
        } else {
            if (!wire_skip(&past, type))
                break;
            n += number == m->field->id;
        }
    }
    return n;
}

static void append(char path[PATH_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char path[PATH_BYTES], const char *format, ...)
{
    size_t used = strlen(path);
    va_list args;
    va_start(args, format);
    vsnprintf(path + used, PATH_BYTES - used, format, args);
    va_end(args);
}

static void append_path(const level *m, char path[PATH_BYTES])
{
    if (m->outer)
        append_path(m->outer, path);
    if (!m->field)
        return;
    append(path, "%s", path[0] ? "." : "");
    /* Descriptors compiled for code size have no names. */
    if (m->field->name && m->field->name[0])
        append(path, "%s", m->field->name);
    else
        append(path, "%u", m->field->id);
    if (m->field->label == PROTOBUF_C_LABEL_REPEATED)
        append(path, "[%u]", element_index(m));
}

static bool fail(const level *m, const char *problem)
{
    char path[PATH_BYTES] = "";
    append_path(m, path);
    bool has_field = path[0];
    if (!has_field)
        append(path, "%s", m->type->short_name && m->type->short_name[0] ? m->type->short_name : "message");
    lks_error_set(m->scan->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "%s: %s", path, problem);
    if (!has_field && m->scan->error)
        m->scan->error->field[0] = '\0'; /* the path is empty, so the name of the message is used */
    return false;
}

/* ---- values ------------------------------------------------------------------ */

static bool scan_message(level *m);

static bool count_element(const level *m)
{
    if (m->scan->elements >= m->scan->limits->elements)
        return fail(m, "too many elements in the whole message");
    m->scan->elements++;
    return true;
}

static bool fits_int32(uint64_t value)
{
    return value <= INT32_MAX || value >= (uint64_t)INT32_MIN;
}

static bool enum_known(const level *m, uint64_t value)
{
    if (m->scan->limits->open_enums)
        return true;
    return protobuf_c_enum_descriptor_get_value(m->field->descriptor, (int)(int64_t)value);
}

static bool scan_varint(const level *m, wire *from)
{
    uint64_t value;
    if (!wire_varint(from, &value))
        return fail(m, "not a whole varint");
    switch (m->field->type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_SINT32:
        return value <= UINT32_MAX || fail(m, "more than 32 bits");
    case PROTOBUF_C_TYPE_INT32:
        return fits_int32(value) || fail(m, "more than 32 bits");
    case PROTOBUF_C_TYPE_ENUM:
        return (fits_int32(value) && enum_known(m, value)) || fail(m, "not a value of the enum");
    default:
        return true;
    }
}

static bool scan_string(const level *m, wire text)
{
    size_t len = (size_t)(text.end - text.at);
    if (len > m->scan->limits->string_bytes)
        return fail(m, "string too long");
    /* A C string would end at the NUL. */
    if (len > 0 && memchr(text.at, '\0', len))
        return fail(m, "contains a NUL");
    return lks_rpc_utf8_valid(text.at, len) || fail(m, "not valid UTF-8");
}

static bool scan_bytes(const level *m, wire bytes)
{
    return (size_t)(bytes.end - bytes.at) <= m->scan->limits->bytes_bytes || fail(m, "too many bytes");
}

static bool scan_nested(const level *m, wire bytes)
{
    if (m->depth >= m->scan->limits->depth)
        return fail(m, "nested too deep");
    level inner = {
        .scan = m->scan,
        .outer = m,
        .type = m->field->descriptor,
        .start = bytes.at,
        .wire = bytes,
        .depth = m->depth + 1,
    };
    return scan_message(&inner);
}

/* Scans a value of m->field that is not packed, or an element of a packed run. */
static bool scan_value(const level *m, wire *from)
{
    wire bytes;
    switch (wire_type_of(m->field->type)) {
    case WIRE_VARINT:
        return scan_varint(m, from);
    case WIRE_FIXED64:
        return wire_take(from, 8, &bytes) || fail(m, "ends inside the value");
    case WIRE_FIXED32:
        return wire_take(from, 4, &bytes) || fail(m, "ends inside the value");
    case WIRE_LENGTH:
        break;
    }
    if (!wire_prefixed(from, &bytes))
        return fail(m, "ends inside the value");
    if (m->field->type == PROTOBUF_C_TYPE_STRING)
        return scan_string(m, bytes);
    if (m->field->type == PROTOBUF_C_TYPE_BYTES)
        return scan_bytes(m, bytes);
    return scan_nested(m, bytes);
}

static bool scan_packed(level *m)
{
    wire run;
    if (!wire_prefixed(&m->wire, &run))
        return fail(m, "ends inside the value");
    for (m->packed = 0; run.at < run.end; m->packed++)
        if (!count_element(m) || !scan_value(m, &run))
            return false;
    m->packed = 0;
    return true;
}

/* ---- messages ---------------------------------------------------------------- */

/* Marks m->field as seen. Returns whether it was seen before, as far as known. */
static bool met_before(level *m)
{
    size_t i = (size_t)(m->field - m->type->fields);
    if (i >= MET_BITS)
        return true;
    uint64_t bit = UINT64_C(1) << (i % WORD_BITS);
    bool before = (m->met[i / WORD_BITS] & bit) != 0;
    m->met[i / WORD_BITS] |= bit;
    return before;
}

static bool scan_field(level *m, wire_type type)
{
    const field_descriptor *field = m->field;
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    /* Whether unpacking the field needs memory outside its struct. */
    bool message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    bool again = met_before(m);
    bool counted = again || repeated || message;
    wire_type declared = wire_type_of(field->type);
    if (repeated && type == WIRE_LENGTH && declared != WIRE_LENGTH)
        return scan_packed(m);
    if (type != declared)
        return fail(m, "not of the wire type of the field");
    /* protobuf-c would lose numbers of the first occurrence. */
    if (message && !repeated && again && element_index(m) > 0)
        return fail(m, "comes in more than one part");
    return (!counted || count_element(m)) && scan_value(m, &m->wire);
}

static bool scan_unknown(level *m, wire_type type)
{
    if (++m->scan->unknown > m->scan->limits->unknown)
        return fail(m, "too many unknown fields");
    return wire_skip(&m->wire, type) || fail(m, "ends inside an unknown field");
}

/* proto2: protobuf-c rejects a message without a required field, but does not name the field. */
static bool scan_required(level *m)
{
    for (unsigned i = 0; i < m->type->n_fields; i++) {
        m->field = &m->type->fields[i];
        m->tag = m->wire.end;
        if (m->field->label == PROTOBUF_C_LABEL_REQUIRED && element_index(m) == 0)
            return fail(m, "required and missing");
    }
    return true;
}

static bool scan_message(level *m)
{
    while (m->wire.at < m->wire.end) {
        uint32_t number;
        wire_type type;
        m->field = NULL;
        m->tag = m->wire.at;
        if (!wire_tag(&m->wire, &number, &type))
            return fail(m, "not a field's tag");
        m->field = protobuf_c_message_descriptor_get_field(m->type, number);
        if (!(m->field ? scan_field(m, type) : scan_unknown(m, type)))
            return false;
    }
    return scan_required(m);
}

lks_code lks_rpc_scan(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                      const lks_rpc_scan_limits *limits, lks_error *error)
{
    scan all = {.limits = limits, .error = error};
    const uint8_t *start = data;
    level outermost = {
        .scan = &all,
        .type = type,
        .start = start,
        .wire = {.at = start, .end = len > 0 ? start + len : start},
        .depth = 1,
    };
    return scan_message(&outermost) ? LKS_OK : LKS_INVALID_ARGUMENT;
}
