/* The makers of ids (services/id.h) for scripts: the global table `ids`. */
#ifndef LOCKSTOCK_TESTS_LUA_IDS_H
#define LOCKSTOCK_TESTS_LUA_IDS_H

#include <lua.h>

void lua_ids_open(lua_State *L);

#endif
