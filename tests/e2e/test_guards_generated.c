/* A guard as it is written in a .proto, run around the handler of a generated skeleton and called by a generated
 * stub. */
/* promise GD11 */

#include <lockstock/guard.h>

#include "guarded_order.lks_client.h"
#include "guarded_order.lks_server.h"

#include "e2e/guards_scene.h"
#include "support/http_ask.h"
#include "test.h"

static lks_host *desk;
static lks_channel *way;
static int n_runs;
static uint16_t http;

static lks_code desk_order(void *self, lks_rpc_context *context, const gen_order_request *request,
                           gen_order_response *response, lks_error *error)
{
    char *locks = lks_rpc_arena_copy(context->arena, "", 0);
    (void)self;
    (void)request;
    (void)error;

    n_runs++;
    for (size_t i = 0; i < lks_guard_n_locks(context); i++) {
        assert_true(lks_guard_fence(context, i) == lks_guard_fence_of(context, lks_guard_lock_name(context, i)));
        locks = lks_rpc_arena_printf(context->arena, "%s %s", locks, lks_guard_lock_name(context, i));
    }
    response->outcome = GEN_ORDER_OUTCOME_ORDERED;
    response->locks = locks;
    return LKS_OK;
}

static int setup(void **state)
{
    static const gen_desk_handlers handlers = GEN_DESK_HANDLERS(desk_);
    const lks_rpc_service service = gen_desk_service(&handlers, NULL);
    char url[64];
    uint16_t port;

    n_runs = 0;
    if (scene_setup(state) != 0 ||
        lks_host_open(&(lks_host_options){.threads = 1, .guards = channel}, &desk, NULL) != LKS_OK ||
        lks_host_add(desk, &service, NULL) != LKS_OK ||
        lks_host_listen(desk, "tcp://127.0.0.1:0", &port, NULL) != LKS_OK ||
        lks_host_listen(desk, "http://127.0.0.1:0", &http, NULL) != LKS_OK)
        return -1;
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", port);
    return lks_channel_open(url, NULL, &way, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lks_channel_close(way);
    lks_host_close(desk, 1000);
    return scene_teardown(state);
}

static void expect_order(const char *id, gen_order_request_goods_entry **goods, size_t n_goods,
                         gen_order_outcome outcome, const char *locks)
{
    gen_who who = GEN_WHO_INIT;
    gen_order_request request = GEN_ORDER_REQUEST_INIT;
    gen_order_response *response = NULL;
    lks_error error;

    who.id = id;
    who.buyer_id = "ann";
    request.order = &who;
    request.goods = goods;
    request.n_goods = n_goods;
    if (gen_desk_order(way, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    assert_int_equal(response->outcome, outcome);
    assert_string_equal(response->locks, locks);
    assert_int_equal(response->retry_after_ms > 0, outcome == GEN_ORDER_OUTCOME_LIMITED);
    gen_order_response_free(response);
}

/* As the host's page /metrics says. */
static void expect_guarded(const char *outcome, int n)
{
    char page[65536], wanted[160];

    http_ask(http, HTTP_GET("/metrics"), page, sizeof page);
    snprintf(wanted, sizeof wanted, "\nlockstock_guarded_calls_total{%s,grpc_method=\"Order\",outcome=\"%s\"} %d\n",
             "grpc_service=\"lockstock.test.generated.Desk\"", outcome, n);
    if (!strstr(page, wanted))
        fail_msg("without %s: %s", wanted, page);
}

TEST(a_guard_of_a_proto_runs_around_a_generated_skeleton)
{
    gen_order_request_goods_entry phone = GEN_ORDER_REQUEST_GOODS_ENTRY_INIT, cable = phone;
    gen_order_request_goods_entry *goods[] = {&phone, &cable};

    phone.key = "phone";
    phone.value = 1;
    cable.key = "cable";
    cable.value = 2;
    expect_order("o-1", goods, 2, GEN_ORDER_OUTCOME_ORDERED, " goods:cable goods:phone");
    expect_order("o-1", goods, 2, GEN_ORDER_OUTCOME_ORDERED, " goods:cable goods:phone");
    expect_order("o-2", goods, 1, GEN_ORDER_OUTCOME_ORDERED, " goods:phone"); /* a replay is not charged */
    expect_order("o-3", goods, 1, GEN_ORDER_OUTCOME_LIMITED, "");
    assert_int_equal(n_runs, 2);
    expect_guarded("ran", 2);
    expect_guarded("answered", 2);
    expect_guarded("refused", 0);
}

TEST(a_generated_outcome_tells_of_another_request)
{
    gen_order_request_goods_entry phone = GEN_ORDER_REQUEST_GOODS_ENTRY_INIT, *goods[] = {&phone};

    phone.key = "phone";
    expect_order("o-1", goods, 1, GEN_ORDER_OUTCOME_ORDERED, " goods:phone");
    phone.value = 3;
    expect_order("o-1", goods, 1, GEN_ORDER_OUTCOME_OTHER, "");
    assert_int_equal(n_runs, 1);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
