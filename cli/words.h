/* The words that people type and read for what stands in descriptors: "force-release" for ForceRelease, "exclusive"
 * for LOCK_MODE_EXCLUSIVE, "1m30s" for 90000. Pure. */
#ifndef LOCKSTOCK_CLI_WORDS_H
#define LOCKSTOCK_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

enum { WORDS_BYTES = 128 };

/* "force-release" of "ForceRelease", len bytes of it. */
void words_of_camel(const char *name, size_t len, char word[WORDS_BYTES]);

/* "lease" of "lease_ms", "order-id" of "order_id". */
void words_of_field(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES]);

/* The same, of a list in the singular: what its flag is called. */
void words_of_flag(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES]);

/* Whether `word`, of len bytes, means the field: the word above, "lease-ms", "order" for "order_id", and for one that is
 * repeated the singular. */
bool words_mean_field(const char *word, size_t len, const ProtobufCFieldDescriptor *field);

/* Whether it is a time in milliseconds: an int64 "..._ms". */
bool words_is_duration(const ProtobufCFieldDescriptor *field);

/* "token-bucket" of ALGORITHM_TOKEN_BUCKET; a number that has no name as it is. */
void words_of_enum(const ProtobufCEnumDescriptor *type, int value, char word[WORDS_BYTES]);

/* Also by its full name. */
bool words_find_enum(const ProtobufCEnumDescriptor *type, const char *word, int *ret);

/* A copy with '?' for control characters and what is not UTF-8, cut to the size at a whole character. */
void words_printable(const char *text, char *to, size_t size);

/* Columns of a terminal that a printable text takes; and how many of its bytes fit into so many, at whole characters. */
size_t words_width(const char *text);
size_t words_fitting(const char *text, size_t columns);

#endif
