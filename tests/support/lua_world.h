/* Real servers, stores and channels for scripts: the table `world`, whose functions are listed in lua_world.c and have
 * words in tests/e2e/lib/world.lua. Objects that a case makes exist until the case ends, also when it fails. */
#ifndef LOCKSTOCK_TESTS_LUA_WORLD_H
#define LOCKSTOCK_TESTS_LUA_WORLD_H

#include <lockstock/rpc/method.h>
#include <lua.h>

/* Methods of further services, by which scripts can call them. */
void lua_world_add_methods(const lks_rpc_method *const *more, size_t n);

void lua_world_open(lua_State *L);

/* Ends everything that was made since the last call, newest first. */
void lua_world_end(void);

#endif
