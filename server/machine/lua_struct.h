/* The global `struct` of Redis' functions: packs values into text. */
#ifndef LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H
#define LOCKSTOCK_SERVER_MACHINE_LUA_STRUCT_H

#include <lua.h>

/* Sets it in a state. Called in protected mode.
 *
 *   struct.pack(format, value...) -> text
 *   struct.unpack(format, text, position from 1) -> value..., the next position
 *
 *   < >      little-endian (as at first), big-endian
 *   b B      a byte, signed and not; h H 2 bytes; l L 8; i I 4, i<n> I<n> n bytes, 8 at most
 *   f d      float, double
 *   s        text and a zero byte
 *   c<n>     n bytes of text, without <n> 1; c0 packs the whole text; it unpacks as many bytes as the previous number
 *            says, and replaces that number
 *   x        a zero byte; a space means nothing
 *
 * Other formats are errors. The errors have the words of Redis. */
void lua_struct_open(lua_State *L);

#endif
