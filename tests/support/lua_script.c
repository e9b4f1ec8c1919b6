#include "support/lua_script.h"

#include <lauxlib.h>
#include <lualib.h>

#include "test.h"

static const lua_script *script;
static lua_State *running; /* set until the case has ended well */

static int with_traceback(lua_State *L)
{
    luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
    return 1;
}

/* Runs the script, which only defines cases. Returns NULL after printing the error. */
static lua_State *load(void)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    script->open(L);
    lua_pushcfunction(L, with_traceback);
    lua_getglobal(L, "package");
    lua_pushstring(L, script->package_path);
    lua_setfield(L, -2, "path");
    lua_pop(L, 1);
    lua_getglobal(L, "require");
    lua_pushstring(L, script->first);
    if (lua_pcall(L, 1, 0, 1) == LUA_OK && luaL_loadfile(L, script->path) == LUA_OK && lua_pcall(L, 0, 0, 1) == LUA_OK)
        return L;
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    lua_close(L);
    return NULL;
}

static int begin_case(void **state)
{
    if (script->begin)
        script->begin();
    running = load();
    return running ? 0 : -1;
}

static int end_case(void **state)
{
    if (running) {
        luaL_traceback(running, running, NULL, 0);
        print_error("%s\n", lua_tostring(running, -1));
        lua_close(running);
        running = NULL;
    }
    if (script->end)
        script->end();
    return 0;
}

static void run_case(void **state)
{
    lua_State *L = running;

    lua_getglobal(L, "run_case");
    lua_pushstring(L, *state);
    int result = lua_pcall(L, 1, 0, 1);
    lua_getglobal(L, "skipped");
    if (lua_toboolean(L, -1)) {
        running = NULL;
        lua_close(L);
        skip();
    }
    lua_pop(L, 1);
    if (result != LUA_OK) {
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

int lua_script_main(lua_script *of, int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s script.lua\n", argv[0]);
        return 2;
    }
    of->path = argv[1];
    script = of;
    lua_State *L = load();
    if (!L)
        return 2;
    lua_getglobal(L, "case_names");
    for (lua_Integer i = 1; lua_geti(L, -1, i) == LUA_TSTRING; i++, lua_pop(L, 1)) {
        const char *name = lua_tostring(L, -1);
        test_add_with(name, run_case, begin_case, end_case, (void *)(uintptr_t)name);
    }
    int failed = test_run(&(const test_fixtures){.setup_all = of->setup_all, .teardown_all = of->teardown_all});
    lua_close(L);
    return failed;
}
