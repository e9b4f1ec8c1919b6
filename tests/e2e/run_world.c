/* Runs the cases of a script of real servers: lockstock-e2e tests/e2e/waiting.lua. */
#include "e2e/guarded_shop.h"
#include "support/lua_script.h"
#include "support/lua_world.h"

int main(int argc, char **argv)
{
    lua_script script = {.package_path = TESTS_DIR "/e2e/lib/?.lua;" TESTS_DIR "/services/lib/?.lua",
                         .first = "world",
                         .open = lua_world_open,
                         .end = lua_world_end};

    lua_world_add_methods(guarded_methods, guarded_methods_len);
    return lua_script_main(&script, argc, argv);
}
