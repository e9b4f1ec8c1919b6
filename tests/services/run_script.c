/* Runs the cases of a script: lockstock-script tests/services/lock/acquire.lua. A case is a function of the
 * script's table `case`; they run in the order in which they stand, each in a Lua state of its own on an empty store.
 * LOCKSTOCK_TEST_ONLY chooses some, as in C (test.h). The words of scripts: tests/services/lib/test.lua. */
#include "support/lua_harness.h"
#include "support/lua_ids.h"
#include "test.h"

#include <lauxlib.h>
#include <lualib.h>

static const char *path;
static harness *h;
static lua_State *running; /* set until the case has ended well */

static int with_traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

/* Runs the script, which only defines cases. NULL after telling why not. */
static lua_State *load(void)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_harness_open(L, h);
    lua_ids_open(L);
    lua_pushcfunction(L, with_traceback);
    lua_getglobal(L, "package");
    lua_pushliteral(L, LOCKSTOCK_SCRIPTS "/lib/?.lua");
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
    if (luaL_dostring(L, "require 'test'") == LUA_OK && luaL_loadfile(L, path) == LUA_OK &&
        lua_pcall(L, 0, 0, 1) == LUA_OK)
        return L;
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_close(L);
    return NULL;
}

static int open_harness(void **state)
{
    (void)state;
    h = harness_new();
    return h ? 0 : -1;
}

static int close_harness(void **state)
{
    (void)state;
    lua_harness_close();
    harness_free(h);
    return 0;
}

static int begin_case(void **state)
{
    (void)state;
    lua_harness_reset(h);
    running = load();
    return running ? 0 : -1;
}

static int end_case(void **state)
{
    (void)state;
    if (running) {
        luaL_traceback(running, running, NULL, 0);
        print_error("%s\n", lua_tostring(running, -1));
        lua_close(running);
        running = NULL;
    }
    return 0;
}

static void run_case(void **state)
{
    lua_State *L = running;

    lua_getglobal(L, "run_case");
    lua_pushstring(L, *state);
    if (lua_pcall(L, 1, 0, 1) != LUA_OK) {
        char *text = strdup(lua_tostring(L, -1));
        running = NULL;
        lua_close(L);
        fprintf(stderr, "%s\n", text);
        free(text);
        fail();
    }
    lua_close(L);
    running = NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s script.lua\n", argv[0]);
        return 2;
    }
    path = argv[1];
    lua_State *L = load();
    if (!L)
        return 2;
    lua_getglobal(L, "case_names");
    for (lua_Integer i = 1; lua_geti(L, -1, i) == LUA_TSTRING; i++, lua_pop(L, 1)) {
        const char *name = lua_tostring(L, -1);
        test_add_with(name, run_case, begin_case, end_case, (void *)name);
    }
    int failed = test_run(&(const test_fixtures){.setup_all = open_harness, .teardown_all = close_harness});
    lua_close(L);
    return failed;
}
