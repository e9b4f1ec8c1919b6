/* Runs the cases of a Lua script as cmocka's: a case is a function of the script's table `case`. They run in the
 * order of the file, each in a Lua state of its own. LOCKSTOCK_TEST_ONLY chooses some, as in C (test.h). The
 * words of scripts: tests/services/lib/test.lua. */
#ifndef LOCKSTOCK_TESTS_LUA_SCRIPT_H
#define LOCKSTOCK_TESTS_LUA_SCRIPT_H

#include <lua.h>

typedef struct lua_script {
    const char *path;         /* of the script; lua_script_main sets it from argv */
    const char *package_path; /* where `require` looks, as package.path */
    const char *first;        /* required before the script */
    void (*open)(lua_State *L);
    int (*setup_all)(void **state); /* around all cases, or NULL */
    int (*teardown_all)(void **state);
    void (*begin)(void); /* before and after each case, or NULL */
    void (*end)(void);
} lua_script;

/* The program's main: "program SCRIPT". */
int lua_script_main(lua_script *script, int argc, char **argv);

#endif
