/* protobuf-c messages as Lua tables and back, by their descriptors: fields by name, lists from 1, enums by
 * the last part of their names ("SHARED"), 64-bit numbers as integers. An optional field that is not set is nil. */
#ifndef LOCKSTOCK_TESTS_LUA_MESSAGE_H
#define LOCKSTOCK_TESTS_LUA_MESSAGE_H

#include <lua.h>

#include <lockstock/rpc/arena.h>
#include <lockstock/status.h>
#include <protobuf-c/protobuf-c.h>

/* The table at `index` as a message in the arena. A field that the type does not have is a Lua error. */
ProtobufCMessage *lua_message_read(lua_State *L, int index, const ProtobufCMessageDescriptor *type,
                                   lks_rpc_arena *arena);

/* Pushes the message as a table; NULL as nil. */
void lua_message_push(lua_State *L, const ProtobufCMessage *message);

/* Pushes the response, or nil, and the error as a table; returns 2. */
int lua_message_push_answer(lua_State *L, const ProtobufCMessage *response, const lks_error *error);

#endif
