/* Runs the cases of a script of services, each on an empty store: lockstock-script tests/services/lock/acquire.lua. */
#include "support/lua_harness.h"
#include "support/lua_script.h"
#include "test.h"

static harness *h;

static void open(lua_State *L)
{
    lua_harness_open(L, h);
}

static int open_harness(void **state)
{
    h = harness_new();
    return h ? 0 : -1;
}

static int close_harness(void **state)
{
    lua_harness_close();
    harness_free(h);
    return 0;
}

static void begin_case(void)
{
    lua_harness_reset(h);
}

int main(int argc, char **argv)
{
    lua_script script = {.package_path = LOCKSTOCK_SCRIPTS "/lib/?.lua",
                         .first = "test",
                         .open = open,
                         .setup_all = open_harness,
                         .teardown_all = close_harness,
                         .begin = begin_case};

    return lua_script_main(&script, argc, argv);
}
