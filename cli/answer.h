/* Answers for people: names and values in two columns, lists as tables. */
#ifndef LOCKSTOCK_CLI_ANSWER_H
#define LOCKSTOCK_CLI_ANSWER_H

#include <stdbool.h>

#include <lockstock/rpc/arena.h>
#include <protobuf-c/protobuf-c.h>

/* Prints it on standard output; what the arena has no memory for is left out. Texts of others come without control
 * characters. */
void answer_print(const ProtobufCMessage *message, lks_rpc_arena *arena);

/* Prints it as JSON, on one line or on several. */
void answer_print_json(const ProtobufCMessage *message, bool indent, lks_rpc_arena *arena);

/* Whether an outcome in it, or in an element of a list of outcomes, says no. */
bool answer_refuses(const ProtobufCMessage *message);

#endif
