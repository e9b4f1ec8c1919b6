/* What lua_world.c, lua_calls.c, lua_callers.c and lua_manager.c share: objects of scripts that end with their case. */
#ifndef LOCKSTOCK_TESTS_LUA_THINGS_H
#define LOCKSTOCK_TESTS_LUA_THINGS_H

#include <lauxlib.h>
#include <lockstock/rpc/arena.h>
#include <lockstock/rpc/method.h>

typedef struct thing {
    struct thing *before;
    void *it;
    void (*end)(void *it);
    void *memory; /* freed when all things have ended */
} thing;

/* Pushes an object; a Lua error when `it` is NULL. */
thing *thing_push(lua_State *L, const char *type, void *it, void (*end)(void *it));
void *thing_at(lua_State *L, int index, const char *type);
void things_define(lua_State *L, const char *type, const luaL_Reg *methods);

/* Copies that exist until the case ends. */
const char *kept_text(const char *text);
const char *const *kept_list(lua_State *L, int index); /* NULL-terminated; NULL of nil */

/* A field of the table at index, if there is one: NULL or 0 without it. */
const char *text_field(lua_State *L, int index, const char *name);
const char *const *list_field(lua_State *L, int index, const char *name);
lua_Integer number_field(lua_State *L, int index, const char *name);

/* "Lock.Acquire" is the method /lockstock.v1.LockService/Acquire. */
const lks_rpc_method *method_at(lua_State *L, int index);

/* Adds redis-servers, channels and calls to the table at the top; callers and their certificates; sockets of service
 * managers. */
void lua_world_open_calls(lua_State *L);
void lua_world_open_callers(lua_State *L);
void lua_world_open_manager(lua_State *L);

#endif
