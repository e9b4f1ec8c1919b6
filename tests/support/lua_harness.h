/* service_harness for scripts in Lua: the global table `harness` (its functions are listed in lua_harness.c and
 * wrapped by tests/services/lib/test.lua). Main thread only. */
#ifndef LOCKSTOCK_TESTS_LUA_HARNESS_H
#define LOCKSTOCK_TESTS_LUA_HARNESS_H

#include <lua.h>

#include "support/service_harness.h"

/* Empties the harness (harness_reset) and ends all subscriptions: before each case. */
void lua_harness_reset(harness *h);

/* Makes the global `harness` of a state; h stays the caller's. */
void lua_harness_open(lua_State *L, harness *h);

/* Ends all subscriptions: before harness_free. */
void lua_harness_close(void);

#endif
