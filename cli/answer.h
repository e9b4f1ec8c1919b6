/* Prints answers: names and values in two columns, lists as tables. */
#ifndef LOCKSTOCK_CLI_ANSWER_H
#define LOCKSTOCK_CLI_ANSWER_H

#include <stdbool.h>

#include <lockstock/rpc/arena.h>
#include <protobuf-c/protobuf-c.h>

#include "exits.h"

struct json_t;

/* Prints a message. Leaves out what the arena has no memory for. Replaces control characters in texts. */
void answer_print(const ProtobufCMessage *message, lks_rpc_arena *arena);

/* Returns a text with "?" for control characters, in the arena; "" when out of memory. */
const char *answer_printable(const char *text, lks_rpc_arena *arena);

/* Prints a message as JSON, on one line or indented. */
void answer_print_json(const ProtobufCMessage *message, bool indent, lks_rpc_arena *arena);

/* Prints a value as one line of JSON, and frees it. digits: of real numbers; 0: all. Returns EXIT_OTHER after printing
 * an error if the value is NULL or cannot be written. */
exit_code answer_print_line(struct json_t *json, unsigned digits);

/* Returns whether its outcome, or the outcome of an element of its results, is a refusal. */
bool answer_refuses(const ProtobufCMessage *message);

#endif
