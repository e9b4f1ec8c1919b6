/* The global `struct` that Redis gives to functions: it packs values into text. */
#ifndef LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H
#define LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H

#include <lua.h>

/* Sets the global. Call it in protected mode.
 *
 *   struct.pack(format, value...) -> text
 *   struct.unpack(format, text, position from 1) -> value..., the position after them
 *
 *   < >      little-endian (the default), big-endian
 *   b B      a signed, an unsigned byte; h H 2 bytes; l L 8; i I 4; i<n> I<n> n bytes, at most 8
 *   f d      float, double
 *   s        text and a zero byte
 *   c<n>     n bytes of text; c means c1. c0 packs the whole text; when it unpacks, the previous value is the number of
 *            bytes, and the text replaces it
 *   x        a zero byte
 *
 * Spaces are ignored. Any other format is an error. Most error texts are those of Redis. */
void lua_struct_open(lua_State *L);

#endif
