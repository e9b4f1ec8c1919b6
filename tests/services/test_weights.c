/* How many calls of each method an FCALL may carry: none holds Redis for long, however large
 * what is asked. What a unit of weight takes is measured by bench/fcall_time.py. */

#include "lockstock/v1/id.lks.h"
#include "lockstock/v1/idempotency.lks.h"
#include "lockstock/v1/lock.lks.h"
#include "lockstock/v1/ratelimit.lks.h"
#include "lockstock/v1/stock.lks.h"
#include "services/service.h"
#include "support/service_harness.h"
#include "test.h"

enum { MANY = 64 };

static char names[MANY][16];
static char *name_list[MANY];
static char token[] = "token-of-a-holder", name[] = "name", group[] = "group";

/* Sub-calls that one FCALL carries of the first call that the request plans. */
static unsigned carried(const service *s, const char *method, const void *request)
{
    const service_options options = {.sequence_block = 1};
    lks_rpc_arena *arena = lks_rpc_arena_new();
    unsigned n = 0;

    for (size_t i = 0; i < s->n_methods; i++) {
        const service_method *m = &s->methods[i];
        if (strcmp(strrchr(m->method->path, '/') + 1, method) != 0)
            continue;
        plan p = {.arena = arena,
                  .method = m->method,
                  .ns = lks_rpc_slice_of("default"),
                  .server = "server",
                  .state = s->open ? s->open(&options) : NULL};
        m->prepare(request, &p);
        if (plan_failed(&p) || p.n_calls == 0)
            fail_msg("%s: %s", method, p.error.message);
        assert_in_range(p.calls[0].weight, 1, STORE_WEIGHT_MAX);
        n = STORE_WEIGHT_MAX / p.calls[0].weight;
        if (s->close)
            s->close(p.state);
    }
    lks_rpc_arena_free(arena);
    return n;
}

/* ---- locks ---- */

static unsigned acquired(size_t n)
{
    static lks_target targets[16];
    lks_target *list[16];
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    for (size_t i = 0; i < n; i++) {
        targets[i] = (lks_target)LKS_TARGET_INIT;
        targets[i].name = names[i];
        list[i] = &targets[i];
    }
    request.group = group;
    request.targets = list;
    request.n_targets = n;
    request.token = token;
    request.lease_ms = 1000;
    return carried(&lock_service, "Acquire", &request);
}

static unsigned renewed(size_t n)
{
    lks_renew_request request = LKS_RENEW_REQUEST_INIT;
    lks_lease lease = LKS_LEASE_INIT, *leases[] = {&lease};

    lease.group = group;
    lease.names = name_list;
    lease.n_names = n;
    lease.token = token;
    lease.lease_ms = 1000;
    request.leases = leases;
    request.n_leases = 1;
    return carried(&lock_service, "Renew", &request);
}

static unsigned released(size_t n)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;

    request.group = group;
    request.names = name_list;
    request.n_names = n;
    request.token = token;
    return carried(&lock_service, "Release", &request);
}

TEST(locks)
{
    lks_inspect_request inspect = LKS_INSPECT_REQUEST_INIT;
    lks_force_release_request force = LKS_FORCE_RELEASE_REQUEST_INIT;
    lks_list_request list = LKS_LIST_REQUEST_INIT;
    lks_check_fence_request fence = LKS_CHECK_FENCE_REQUEST_INIT;

    assert_int_equal(acquired(1), 32);
    assert_int_equal(acquired(16), 6);
    assert_int_equal(renewed(1), 64);
    assert_int_equal(renewed(16), 32);
    assert_int_equal(renewed(0), 32);
    assert_int_equal(released(1), 64);
    assert_int_equal(released(16), 32);
    assert_int_equal(released(0), 32);
    inspect.name = force.name = fence.resource = name;
    fence.fence = 1;
    assert_int_equal(carried(&lock_service, "Inspect", &inspect), 1);
    assert_int_equal(carried(&lock_service, "ForceRelease", &force), 1);
    assert_int_equal(carried(&lock_service, "List", &list), 1);
    assert_int_equal(carried(&lock_service, "CheckFence", &fence), 64);
}

/* ---- stock ---- */

static lks_line **lines_of(size_t n)
{
    static lks_line lines[MANY];
    static lks_line *list[MANY];

    for (size_t i = 0; i < n; i++) {
        lines[i] = (lks_line)LKS_LINE_INIT;
        lines[i].sku = names[i];
        lines[i].quantity = 1;
        list[i] = &lines[i];
    }
    return list;
}

static unsigned deducted(size_t n)
{
    lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;

    request.group = group;
    request.order_id = name;
    request.lines = lines_of(n);
    request.n_lines = n;
    return carried(&stock_service, "Deduct", &request);
}

static unsigned reserved(size_t n)
{
    lks_reserve_request request = LKS_RESERVE_REQUEST_INIT;

    request.group = group;
    request.order_id = name;
    request.hold_ms = 1000;
    request.lines = lines_of(n);
    request.n_lines = n;
    return carried(&stock_service, "Reserve", &request);
}

TEST(orders)
{
    lks_confirm_request confirm = LKS_CONFIRM_REQUEST_INIT;
    lks_cancel_request cancel = LKS_CANCEL_REQUEST_INIT;
    lks_return_request back = LKS_RETURN_REQUEST_INIT;
    lks_get_order_request get = LKS_GET_ORDER_REQUEST_INIT;

    assert_int_equal(deducted(1), 64);
    assert_int_equal(deducted(64), 7);
    assert_int_equal(reserved(1), 64);
    assert_int_equal(reserved(64), 7);
    confirm.group = cancel.group = back.group = get.group = group;
    confirm.order_id = cancel.order_id = back.order_id = back.return_id = get.order_id = name;
    /* The order may have 64 lines. */
    assert_int_equal(carried(&stock_service, "Confirm", &confirm), 10);
    assert_int_equal(carried(&stock_service, "Cancel", &cancel), 10);
    assert_int_equal(carried(&stock_service, "Return", &back), 10);
    assert_int_equal(carried(&stock_service, "GetOrder", &get), 64);
}

static unsigned listed(const char *of, int32_t size)
{
    lks_list_items_request request = LKS_LIST_ITEMS_REQUEST_INIT;

    request.group = harness_unconst(of);
    request.page_size = size;
    return carried(&stock_service, "ListItems", &request);
}

static unsigned read(int32_t limit, int64_t wait_ms)
{
    lks_read_ledger_request request = LKS_READ_LEDGER_REQUEST_INIT;

    request.group = group;
    request.limit = limit;
    request.wait_ms = wait_ms;
    return carried(&stock_service, "ReadLedger", &request);
}

TEST(items_and_ledger)
{
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    lks_batch_get_items_request batch = LKS_BATCH_GET_ITEMS_REQUEST_INIT;
    lks_trim_ledger_request trim = LKS_TRIM_LEDGER_REQUEST_INIT;

    get.sku = name;
    assert_int_equal(carried(&stock_service, "GetItem", &get), 64);
    batch.group = group;
    batch.skus = name_list;
    batch.n_skus = MANY;
    assert_int_equal(carried(&stock_service, "BatchGetItems", &batch), 12);
    batch.group = harness_unconst("");
    assert_int_equal(carried(&stock_service, "BatchGetItems", &batch), 64);
    assert_int_equal(listed(group, 10), 64);
    assert_int_equal(listed(group, 0), 9);
    assert_int_equal(listed(group, 1000), 4);
    assert_int_equal(listed("", 1000), 1);
    assert_int_equal(read(1, 0), 64);
    assert_int_equal(read(0, 0), 21);
    assert_int_equal(read(1000, 0), 3);
    assert_int_equal(read(1000, 1000), 3);
    trim.group = group;
    trim.up_to = harness_unconst("1-0");
    assert_int_equal(carried(&stock_service, "TrimLedger", &trim), 1);
}

/* ---- the others ---- */

static unsigned checked(size_t n)
{
    static lks_rule rules[8];
    lks_rule *list[8];
    lks_limit limit = LKS_LIMIT_INIT;
    lks_check_request request = LKS_CHECK_REQUEST_INIT;

    limit.algorithm = LKS_ALGORITHM_FIXED_WINDOW;
    limit.limit = 5;
    limit.period_ms = 1000;
    for (size_t i = 0; i < n; i++) {
        rules[i] = (lks_rule)LKS_RULE_INIT;
        rules[i].key = names[i];
        rules[i].spec_case = LKS_RULE_SPEC_LIMIT;
        rules[i].limit = &limit;
        list[i] = &rules[i];
    }
    request.group = group;
    request.rules = list;
    request.n_rules = n;
    return carried(&ratelimit_service, "Check", &request);
}

TEST(limits)
{
    lks_refund_request refund = LKS_REFUND_REQUEST_INIT;
    lks_reset_request reset = LKS_RESET_REQUEST_INIT;
    lks_list_policies_request list = LKS_LIST_POLICIES_REQUEST_INIT;

    assert_int_equal(checked(1), 64);
    assert_int_equal(checked(8), 8);
    refund.group = reset.group = group;
    refund.request_id = reset.key = name;
    assert_int_equal(carried(&ratelimit_service, "Refund", &refund), 8);
    assert_int_equal(carried(&ratelimit_service, "Reset", &reset), 8);
    list.page_size = 1000;
    assert_int_equal(carried(&ratelimit_service, "ListPolicies", &list), 1);
}

TEST(results_and_ids)
{
    lks_begin_request begin = LKS_BEGIN_REQUEST_INIT;
    lks_get_request get = LKS_GET_REQUEST_INIT;
    lks_next_request next = LKS_NEXT_REQUEST_INIT;

    begin.scope = get.scope = group;
    begin.key = get.key = name;
    begin.attempt_token = token;
    begin.lease_ms = 1000;
    assert_int_equal(carried(&idempotency_service, "Begin", &begin), 16);
    assert_int_equal(carried(&idempotency_service, "Get", &get), 16);
    next.kind = LKS_ID_KIND_SNOWFLAKE;
    assert_int_equal(carried(&id_service, "Next", &next), 2);
}

int main(void)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%02d", i);
        name_list[i] = names[i];
    }
    return TEST_RUN();
}
