/* An arena for each case: TEST_MAIN(.setup = make, .teardown = drop). Included after test.h. */
#ifndef LOCKSTOCK_TESTS_ARENA_FIXTURE_H
#define LOCKSTOCK_TESTS_ARENA_FIXTURE_H

#include <lockstock/rpc/arena.h>

static lks_rpc_arena *arena;

static int make(void **state)
{
    arena = lks_rpc_arena_new();
    return arena ? 0 : -1;
}

static int drop(void **state)
{
    lks_rpc_arena_free(arena);
    return 0;
}

#endif
