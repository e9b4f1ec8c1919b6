/* Bytes held for connections, against limits of a connection, a principal and the server. */
/* promise CN8: freed memory returns to the system once after a peak, not while use goes up and down */
/* promise K8 */

#include "net/admission/budget.h"
#include "test.h"

enum { KIB = 1024, BYTES = 1024 * KIB, SHARES = 1000 };

static budget *all;

static int open_budget(void **state)
{
    all = budget_new(BYTES);
    return 0;
}

static int free_budget(void **state)
{
    size_t held = budget_held(all);

    budget_free(all);
    return held == 0 ? 0 : -1;
}

TEST(a_connection_holds_an_eighth_at_most)
{
    budget_share *one = budget_open(all);
    assert_true(budget_take(one, BYTES / 8));
    assert_false(budget_take(one, 1));
    assert_int_equal(budget_held(all), BYTES / 8);
    budget_give(one, 1);
    assert_true(budget_take(one, 1));
    budget_give(one, BYTES / 8);
    budget_close(one);
}

/* Like calls that held none of it when their connection was lost. */
TEST(nothing_may_be_given_to_a_share_that_is_gone)
{
    budget_share *one = budget_open(all);
    budget_close(one);
    budget_give(one, 0);
}

TEST(many_that_take_all_leave_room_for_one_more)
{
    budget_share *greedy[SHARES];
    size_t taken[SHARES] = {0};
    for (size_t i = 0; i < SHARES; i++)
        greedy[i] = budget_open(all);
    for (size_t kib = 1; kib <= 256; kib++) /* all of them, a step each time */
        for (size_t i = 0; i < 40; i++)
            taken[i] += budget_take(greedy[i], KIB) ? KIB : 0;
    size_t held = budget_held(all);
    assert_true(held < BYTES);
    for (size_t i = 0; i < 40; i++)
        assert_true(taken[i] <= BYTES - held + KIB);
    budget_share *modest = budget_open(all);
    const size_t little = BYTES - held > BUDGET_SMALL_BYTES ? BUDGET_SMALL_BYTES : 1;
    assert_true(budget_take(modest, little));
    budget_give(modest, little);
    budget_close(modest);
    for (size_t i = 0; i < SHARES; i++) {
        budget_give(greedy[i], taken[i]);
        budget_close(greedy[i]);
    }
}

TEST(a_small_part_is_always_there)
{
    budget_share *full = budget_open(all), *late = budget_open(all);
    budget_force(full, 2 * BYTES);
    assert_false(budget_take(full, 1));
    assert_true(budget_take(late, BUDGET_SMALL_BYTES));
    assert_false(budget_take(late, 1));
    budget_give(late, BUDGET_SMALL_BYTES);
    budget_give(full, 2 * BYTES);
    budget_close(full);
    budget_close(late);
}

TEST(a_principal_holds_half_at_most_over_all_its_connections)
{
    budget_share *own[8], *other = budget_open(all);
    size_t held = 0, taken[8] = {0};
    for (size_t i = 0; i < 8; i++) {
        own[i] = budget_open(all);
        budget_set_principal(own[i], "billing");
        while (budget_take(own[i], 4 * KIB))
            taken[i] += 4 * KIB;
        held += taken[i];
    }
    /* Each connection may have its small part all the same. */
    assert_true(held <= BYTES / 2 + 8 * BUDGET_SMALL_BYTES);
    assert_true(held >= BYTES / 2);
    assert_true(budget_take(other, BYTES / 8));
    budget_give(other, BYTES / 8);
    for (size_t i = 0; i < 8; i++) {
        budget_give(own[i], taken[i]);
        budget_close(own[i]);
    }
    budget_close(other);
}

TEST(bytes_of_a_share_move_with_it_to_another_principal)
{
    budget_share *a = budget_open(all), *b = budget_open(all), *c = budget_open(all);
    budget_set_principal(a, "one");
    budget_force(a, BYTES / 2);
    budget_set_principal(b, "one");
    budget_set_principal(b, "one"); /* again: nothing changes */
    assert_false(budget_take(b, 2 * BUDGET_SMALL_BYTES));
    budget_set_principal(a, "two");
    assert_true(budget_take(b, 2 * BUDGET_SMALL_BYTES));
    budget_set_principal(c, "two");
    assert_false(budget_take(c, 2 * BUDGET_SMALL_BYTES));
    budget_set_principal(c, NULL);
    assert_true(budget_take(c, 2 * BUDGET_SMALL_BYTES));
    budget_give(a, BYTES / 2);
    budget_give(b, 2 * BUDGET_SMALL_BYTES);
    budget_give(c, 2 * BUDGET_SMALL_BYTES);
    budget_close(a);
    budget_close(b);
    budget_close(c);
}

TEST(a_closed_share_counts_until_all_of_it_is_given_back)
{
    budget_share *gone = budget_open(all);
    budget_set_principal(gone, "one");
    assert_true(budget_take(gone, 2 * KIB));
    budget_close(gone);
    assert_int_equal(budget_held(all), 2 * KIB);
    budget_give(gone, KIB);
    budget_give(gone, KIB);
    assert_int_equal(budget_held(all), 0);
    budget_close(NULL);
}

TEST(noted_bytes_take_no_room_and_count_as_held)
{
    budget_share *one = budget_open(all);
    budget_note(all, 2 * BYTES);
    assert_int_equal(budget_held(all), 2 * BYTES);
    assert_int_equal(budget_peak(all), 2 * BYTES);
    assert_true(budget_take(one, KIB));
    budget_unnote(all, 2 * BYTES);
    budget_give(one, KIB);
    budget_close(one);
    assert_int_equal(budget_held(all), 0);
    assert_int_equal(budget_peak(all), 2 * BYTES + KIB);
    assert_int_equal(budget_peak(all), 0);
}

TEST_MAIN(.setup = open_budget, .teardown = free_budget)
