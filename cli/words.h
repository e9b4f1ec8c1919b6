/* Words of the command line for names of descriptors: "force-release" for ForceRelease, "exclusive" for
 * LOCK_MODE_EXCLUSIVE. */
#ifndef LOCKSTOCK_CLI_WORDS_H
#define LOCKSTOCK_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

enum { WORDS_BYTES = 128 };

/* Writes "force-release" for "ForceRelease", of len bytes. */
void words_of_camel(const char *name, size_t len, char word[WORDS_BYTES]);

/* Writes "lease" for "lease_ms", "order-id" for "order_id". */
void words_of_field(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES]);

/* Writes the name of its flag: the same, and the singular for a list. */
void words_of_flag(const ProtobufCFieldDescriptor *field, char word[WORDS_BYTES]);

/* Returns whether a word of len bytes names the field: the word above, "lease-ms", "order" for "order_id", and the
 * singular for a list. */
bool words_mean_field(const char *word, size_t len, const ProtobufCFieldDescriptor *field);

/* Returns whether the field is a duration: an int64 "..._ms". */
bool words_is_duration(const ProtobufCFieldDescriptor *field);

/* Writes "token-bucket" for ALGORITHM_TOKEN_BUCKET, and the number for an unknown value. */
void words_of_enum(const ProtobufCEnumDescriptor *type, int value, char word[WORDS_BYTES]);

/* Finds a value by its word or its full name. */
bool words_find_enum(const ProtobufCEnumDescriptor *type, const char *word, int *ret);

/* Makes the letters of a word capitals. */
void words_upper(char *word);

/* Copies a text, with '?' for control characters and invalid UTF-8, cut to the size at a whole character. */
void words_printable(const char *text, char *to, size_t size);

/* Return the terminal columns of a printable text, and the bytes of its characters that fit into some columns. */
size_t words_width(const char *text);
size_t words_fitting(const char *text, size_t columns);

#endif
