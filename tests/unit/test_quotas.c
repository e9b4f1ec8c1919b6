/* Quotas of namespaces, over a store of the test's own, on a real loop. */
/* promise K18 */
#include "asked_store.h"
#include "calls/quotas.h"

static uv_loop_t loop;
static store asked;
static quotas *q;

static int setup(void **state)
{
    uv_loop_init(&loop);
    asked = (store){.loop = &loop};
    q = quotas_new(&loop, &asked, &(quotas_limits){.keys = 10, .waiters = 2});
    quotas_begin(q);
    return 0;
}

static int teardown(void **state)
{
    quotas_close(q);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    return uv_loop_close(&loop);
}

static bool may_store(const char *base)
{
    lks_error error = {0};
    lks_code code = quotas_check(q, lks_rpc_slice_of(base), lks_rpc_slice_of("shop"), &error);

    assert_true(code == LKS_OK || (code == LKS_RESOURCE_EXHAUSTED && error.applied == LKS_APPLIED_NO));
    return code == LKS_OK;
}

TEST(a_namespace_is_full_when_a_whole_pass_found_as_many_keys)
{
    asked_answer(&asked, "OK '7' [shop 5 0]");
    asked_answer(&asked, "OK '' [shop 5 0]");
    assert_false(may_store("ls:{shop/tea}:"));
    assert_true(may_store("ls:{shops/tea}:"));
    assert_true(may_store("ls:{sho/tea}:"));
    asked_answer(&asked, "OK '' [shop 9 0]");
    assert_true(may_store("ls:{shop/tea}:"));
}

TEST(a_pass_that_failed_changes_nothing)
{
    asked_answer(&asked, "OK '' [shop 10 0]");
    asked_fail(&asked, LKS_UNAVAILABLE);
    assert_false(may_store("ls:{shop/tea}:"));
    asked_answer(&asked, "OK '' [shop '1' 0]");
    assert_false(may_store("ls:{shop/tea}:"));
    asked_answer(&asked, "OK '7' [shop 10 0]");
    assert_false(may_store("ls:{shop/tea}:"));
    asked_answer(&asked, "OK ''");
    assert_false(may_store("ls:{shop/tea}:"));
    asked_answer(&asked, "OK ''");
    assert_true(may_store("ls:{shop/tea}:"));
}

/* Impossible sums. */
/* promise T13 */
TEST(huge_counts_do_not_overflow)
{
    asked_answer(&asked, "OK '7' [shop 9223372036854775807 0]");
    asked_answer(&asked, "OK '' [shop 9223372036854775807 0]");
    assert_false(may_store("ls:{shop/tea}:"));
}

TEST(waiters_are_counted_by_namespace)
{
    named_entry *sums[3];
    lks_error error;

    assert_int_equal(quotas_wait(q, lks_rpc_slice_of("a"), &sums[0], &error), LKS_OK);
    assert_int_equal(quotas_wait(q, lks_rpc_slice_of("a"), &sums[1], &error), LKS_OK);
    assert_int_equal(quotas_wait(q, lks_rpc_slice_of("a"), &sums[2], &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(quotas_wait(q, lks_rpc_slice_of("b"), &sums[2], &error), LKS_OK);
    quotas_leave(q, sums[0]);
    assert_int_equal(quotas_wait(q, lks_rpc_slice_of("a"), &sums[0], &error), LKS_OK);
    for (size_t i = 0; i < 3; i++)
        quotas_leave(q, sums[i]);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
