/* The messages of google.protobuf with a special JSON form, and the texts of those whose form is a string. Pure;
 * thread-safe. Source: https://protobuf.dev/programming-guides/json/ */
#ifndef RPC_JSON_WELL_KNOWN_H
#define RPC_JSON_WELL_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/rpc/arena.h>
#include <protobuf-c/protobuf-c.h>

typedef enum well_known {
    WELL_KNOWN_NONE,
    WELL_KNOWN_WRAPPER, /* Int32Value and its like: the value alone */
    WELL_KNOWN_TIMESTAMP,
    WELL_KNOWN_DURATION,
    WELL_KNOWN_FIELD_MASK,
    WELL_KNOWN_STRUCT,
    WELL_KNOWN_VALUE,
    WELL_KNOWN_LIST
} well_known;

well_known well_known_of(const ProtobufCMessageDescriptor *type);

/* Whether it is google.protobuf.NullValue, which is null. */
bool well_known_is_null(const ProtobufCEnumDescriptor *type);

enum { WELL_KNOWN_TEXT_BYTES = 40 };

/* "2026-11-27T08:00:00.5Z", years 1 to 9999; "-1.5s", up to 10,000 years. False: out of range, or malformed. */
bool well_known_write_timestamp(int64_t seconds, int32_t nanos, char text[WELL_KNOWN_TEXT_BYTES]);
bool well_known_read_timestamp(const char *text, int64_t *seconds, int32_t *nanos);
bool well_known_write_duration(int64_t seconds, int32_t nanos, char text[WELL_KNOWN_TEXT_BYTES]);
bool well_known_read_duration(const char *text, int64_t *seconds, int32_t *nanos);

/* A path of a FieldMask, "lines.unit_price", as "lines.unitPrice", and back. Reading writes at most twice len bytes,
 * writing at most len. Returns the length; SIZE_MAX: it has no form that can be read back. */
size_t well_known_write_path(const char *path, char *out);
size_t well_known_read_path(const char *text, size_t len, char *out);

#endif
