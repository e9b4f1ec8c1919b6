#include "machine/lua_struct.h"

#include <lauxlib.h>

#include "machine/packed.h"

/* Moves *format behind its next option, and returns how many bytes that takes; 0: it was the last one. */
static size_t next_size(lua_State *L, const char **format)
{
    while (**format == '<')
        ++*format;
    switch (**format) {
    case '\0':
        return 0;
    case 'B':
        ++*format;
        return 1;
    case 'd':
        ++*format;
        return PACKED_FIXED_BYTES;
    default:
        return (size_t)luaL_argerror(L, 1, lua_pushfstring(L, "invalid format option '%c'", **format));
    }
}

static int pack(lua_State *L)
{
    const char *format = luaL_checkstring(L, 1);
    char bytes[PACKED_FIXED_BYTES];
    luaL_Buffer b;
    size_t size;

    lua_pushnil(L); /* so a missing argument is nil, and not a part of the buffer */
    luaL_buffinit(L, &b);
    for (int arg = 2; (size = next_size(L, &format)) > 0; arg++) {
        if (size == 1)
            bytes[0] = (char)luaL_checkinteger(L, arg);
        else
            packed_put_double(bytes, luaL_checknumber(L, arg));
        luaL_addlstring(&b, bytes, size);
    }
    luaL_pushresult(&b);
    return 1;
}

static int unpack(lua_State *L)
{
    const char *format = luaL_checkstring(L, 1);
    size_t len, size;
    const char *data = luaL_checklstring(L, 2, &len);
    lua_Integer position = luaL_optinteger(L, 3, 1);

    luaL_argcheck(L, position > 0, 3, "offset must be 1 or greater");
    lua_settop(L, 2);
    for (size_t at = (size_t)position - 1;; at += size) {
        luaL_checkstack(L, 1, "too many results");
        size = next_size(L, &format);
        if (size == 0) {
            lua_pushinteger(L, (lua_Integer)at + 1);
            return lua_gettop(L) - 2;
        }
        luaL_argcheck(L, at <= len && size <= len - at, 2, "data string too short");
        packed_reader r = packed_reader_of(data + at, size);
        lua_pushnumber(L, size == 1 ? packed_byte(&r) : packed_double(&r));
    }
}

void lua_struct_open(lua_State *L)
{
    static const luaL_Reg members[] = {{"pack", pack}, {"unpack", unpack}, {NULL, NULL}};

    luaL_register(L, "struct", members);
}
