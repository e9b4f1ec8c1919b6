/* The view of a store of several nodes is that of the worst node. */
/* promise CL6 */
#include "store/view.h"

#include "test.h"

/* A node that appends; "" = it has never been greeted. */
static store_view good(const char *version)
{
    return (store_view){.version = version, .known = true, .appends = true, .fsync = "always"};
}

static store_view of(const store_view *a, const store_view *b)
{
    store_view all = {.version = "", .fsync = ""};

    view_add(&all, a);
    view_add(&all, b);
    return all;
}

TEST(the_worst_node_counts_in_either_order)
{
    store_view fine = good("7.0"), bad = good("7.2");
    bad.appends = false;
    bad.snapshots = true;
    bad.evicts = true;
    bad.known = false;
    bad.fsync = "";
    for (int i = 0; i < 2; i++) {
        store_view all = i ? of(&fine, &bad) : of(&bad, &fine);
        assert_false(all.appends);
        assert_true(all.snapshots); /* one has a file, the other snapshots: at least these */
        assert_true(all.evicts);
        assert_false(all.known);
    }
    bad.snapshots = false;
    assert_false(of(&fine, &bad).snapshots);
}

TEST(the_weakest_fsync_counts)
{
    store_view fine = good("7.0"), slack = good("7.0");
    slack.fsync = "everysec";
    assert_string_equal(of(&fine, &slack).fsync, "everysec");
    assert_string_equal(of(&slack, &fine).fsync, "everysec");
    assert_string_equal(of(&fine, &fine).fsync, "always");
    fine.fsync = "no";
    assert_string_equal(of(&slack, &fine).fsync, "no");
}

TEST(a_node_that_has_never_been_greeted_says_nothing)
{
    store_view fine = good("7.0"), unknown = {.version = "", .fsync = ""};
    assert_true(of(&unknown, &fine).appends);
    assert_true(of(&fine, &unknown).known);
    assert_string_equal(of(&unknown, &fine).version, "7.0");
}

TEST_MAIN()
