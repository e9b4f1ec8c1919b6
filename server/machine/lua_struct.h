/* The global `struct` that Redis gives to functions: it packs numbers into text. */
#ifndef LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H
#define LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H

#include <lua.h>

/* Sets the global. Call it in protected mode. It has what the functions of locks use:
 *
 *   struct.pack(format, number...) -> text
 *   struct.unpack(format, text, position from 1) -> number..., the position after them
 *
 *   <    little-endian, which is also the default
 *   B    an unsigned byte
 *   d    a double
 *
 * Any other format is an error. The error texts are those of Redis. */
void lua_struct_open(lua_State *L);

#endif
