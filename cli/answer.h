/* Prints answers: names and values in two columns, lists as tables. */
#ifndef LOCKSTOCK_CLI_ANSWER_H
#define LOCKSTOCK_CLI_ANSWER_H

#include <stdbool.h>

#include <lockstock/rpc/arena.h>
#include <protobuf-c/protobuf-c.h>

/* Prints a message. Leaves out what the arena has no memory for. Replaces control characters in texts. */
void answer_print(const ProtobufCMessage *message, lks_rpc_arena *arena);

/* Prints a message as JSON, on one line or indented. */
void answer_print_json(const ProtobufCMessage *message, bool indent, lks_rpc_arena *arena);

/* Returns whether its outcome, or the outcome of an element of its results, is a refusal. */
bool answer_refuses(const ProtobufCMessage *message);

#endif
