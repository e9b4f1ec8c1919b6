/* Page tokens over several parts of a store: each slot is listed once, and none that moved meanwhile is missed. */
/* promise T22 */
#include <string.h>

#include "services/walk.h"
#include "test.h"

static lks_rpc_arena *arena;

static int setup(void **state)
{
    arena = lks_rpc_arena_new();
    return 0;
}

static int teardown(void **state)
{
    lks_rpc_arena_free(arena);
    return 0;
}

static uint16_t slot_of(const walk *w)
{
    store_call call = {.slot = 77};
    plan p = {.calls = &call, .n_calls = 1};

    walk_place(w, &p);
    assert_true(call.whole_shard);
    return call.slot;
}

/* The token after a page of `token`. */
static const char *next(const char *token, const char *node, const char *slots, const char *rest)
{
    const walk *w = walk_read(arena, token);

    assert_non_null(w);
    return walk_next(arena, w, node, slots, rest);
}

TEST(with_one_part_a_token_is_the_services_own)
{
    assert_string_equal(next("", "", "", "17.ab"), "17.ab");
    assert_string_equal(walk_read(arena, "17.ab")->rest, "17.ab");
    assert_string_equal(next("17.ab", "", "", ""), "");
    assert_int_equal(slot_of(walk_read(arena, "17.ab")), 0);
}

TEST(one_part_follows_the_other)
{
    const char *token = next("", "A", "0-8000", "5");
    const walk *w = walk_read(arena, token);

    assert_string_equal(w->node, "A");
    assert_string_equal(w->rest, "5");
    assert_int_equal(slot_of(w), 0);
    assert_string_equal(walk_listed(arena, w), "");
    token = next(token, "A", "0-8000", "");
    w = walk_read(arena, token);
    assert_string_equal(w->rest, "");
    assert_int_equal(slot_of(w), 8001);
    assert_string_equal(walk_listed(arena, w), "0-8000");
    assert_string_equal(next(token, "B", "8001-16383", ""), "");
}

/* 5 goes to B while A is listed, and B is listed before that: so it is listed again. */
TEST(a_slot_that_moves_is_listed_where_it_is_then)
{
    const char *token = next("", "B", "8000-16383", "");

    token = next(token, "A", "0-7999", "9");
    token = next(token, "A", "0-4,6-7999", "");
    assert_string_equal(walk_listed(arena, walk_read(arena, token)), "0-4,6-16383");
    assert_int_equal(slot_of(walk_read(arena, token)), 5);
    assert_string_equal(next(token, "B", "5,8000-16383", ""), "");
}

TEST(slot_that_arrives_during_the_listing_is_listed_again)
{
    const char *token = next("", "A", "0-99", "9");

    token = next(token, "A", "0-199", "");
    assert_string_equal(walk_listed(arena, walk_read(arena, token)), "0-99");
}

TEST(a_slot_that_is_leaving_is_not_done_with)
{
    const char *token = next("", "A", "0-99,!7", "");

    assert_string_equal(walk_listed(arena, walk_read(arena, token)), "0-6,8-99");
    assert_int_equal(slot_of(walk_read(arena, token)), 7);
}

/* A replica took the place of A: its cursor is of no use there. */
TEST(replaced_node_is_listed_from_the_beginning)
{
    const char *token = next("", "A", "0-99", "9");

    token = next(token, "C", "0-99,500", "4");
    const walk *w = walk_read(arena, token);
    assert_string_equal(w->node, "C");
    assert_string_equal(walk_listed(arena, w), "");
    token = next(token, "C", "0-99,500", "");
    assert_string_equal(walk_listed(arena, walk_read(arena, token)), "0-99,500-500");
}

TEST(invalid_token_is_refused)
{
    char rows[] = "~|~!|~!!|~x!!!|~1-!!!|~5-4!!!|~0-16383,0-16383!!!|~!5,4!!|~16384!!!|~!0-16384!!|~1 2!!!|~-1!!!|"
                  "~99999999999999999999!!!|~!!0123456789012345678901234567890123456789x!";

    for (char *rest = rows, *row; (row = strsep(&rest, "|"));)
        if (walk_read(arena, row))
            fail_msg("%s was read", row);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
