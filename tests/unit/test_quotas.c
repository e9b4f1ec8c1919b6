/* Quotas of namespaces, over a store of the test's own, on a real loop. */
/* promise K18 */
#include <uv.h>

#include "calls/quotas.h"
#include "test.h"

struct store {
    store_done *done;
    void *arg;
};

static uv_loop_t loop;
static store asked;
static quotas *q;

bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    (void)s;
    *ret = (store_part){.base = "ls:{}:"};
    return from == 0;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    (void)deadline_ns;
    assert_string_equal(call->function, "quota_count_keys");
    *s = (store){done, arg};
    uv_stop(&loop);
}

static int begin(void **state)
{
    (void)state;
    uv_loop_init(&loop);
    q = quotas_new(&loop, &asked, &(quotas_limits){.keys = 10, .waiters = 2});
    quotas_begin(q);
    return 0;
}

static int end(void **state)
{
    (void)state;
    quotas_close(q);
    while (uv_run(&loop, UV_RUN_DEFAULT))
        ;
    return uv_loop_close(&loop);
}

/* The next step finds so many keys of "shop", or fails (keys < 0). */
static void step(const char *cursor, int64_t keys)
{
    asked.done = NULL;
    while (!asked.done)
        uv_run(&loop, UV_RUN_DEFAULT);
    const store_value row[] = {{.type = STORE_STRING, .string = {"shop", 4}},
                               {.type = STORE_INTEGER, .integer = keys},
                               {.type = STORE_INTEGER, .integer = 0}};
    const store_value elements[] = {{.type = STORE_STRING, .string = {"OK", 2}},
                                    {.type = STORE_STRING, .string = {cursor, strlen(cursor)}},
                                    {.type = STORE_ARRAY, .n = 3, .element = row}};
    const store_value reply = {.type = STORE_ARRAY, .n = keys > 0 ? 3 : 2, .element = elements};
    const store_result result = {.code = keys < 0 ? LKS_UNAVAILABLE : LKS_OK, .value = &reply};
    asked.done(asked.arg, &result);
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
    step("7", 5);
    step("", 5);
    assert_false(may_store("ls:{shop/tea}:"));
    assert_true(may_store("ls:{shops/tea}:"));
    assert_true(may_store("ls:{sho/tea}:"));
    step("", 9);
    assert_true(may_store("ls:{shop/tea}:"));
}

TEST(a_pass_that_failed_changes_nothing)
{
    step("", 10);
    step("", -1);
    assert_false(may_store("ls:{shop/tea}:"));
    step("7", 10);
    assert_false(may_store("ls:{shop/tea}:"));
    step("", 0);
    assert_false(may_store("ls:{shop/tea}:"));
    step("", 0);
    assert_true(may_store("ls:{shop/tea}:"));
}

/* Sums that no Redis tells. */
/* promise T13 */
TEST(counts_without_end_do_no_harm)
{
    step("7", INT64_MAX);
    step("", INT64_MAX);
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

int main(void)
{
    return TEST_RUN(.setup = begin, .teardown = end);
}
