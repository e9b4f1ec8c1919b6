/* The flash sale of examples/seckill on a real lockstockd with its embedded store: every run is exact. */

#include "sale.h"
#include "support/counts.h"
#include "support/lossy_proxy.h"
#include "support/server_fixture.h"
#include "test.h"

static server_fixture *server;

static int start_server(void **state)
{
    server = server_fixture_start(NULL);
    return server ? 0 : -1;
}

/* The sanitizers of the server report when it exits. */
static int stop_server(void **state)
{
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    return status;
}

static lks_channel *open_channel(const char *url)
{
    lks_channel *channel = NULL;

    assert_int_equal(lks_channel_open(url, NULL, &channel, NULL), LKS_OK);
    return channel;
}

typedef bool sell_way(flash_sale *sale, lks_channel *channel, sale_result *result);

/* Buyers call through `url`; what they were told is checked past it. All stock is sold. */
static sale_result run(const char *url, sell_way *sell, size_t n_goods, int64_t stock, size_t buyers)
{
    const sale_plan plan = {.n_goods = n_goods, .stock = stock, .n_buyers = buyers, .patience_ms = 120000};
    lks_channel *direct = open_channel(server_fixture_url(server)), *channel = open_channel(url);
    size_t sold = n_goods * (size_t)stock;
    flash_sale sale;
    sale_result r = {0};
    lks_error error = {0};

    if (sale_open(direct, &plan, &sale, &error) != LKS_OK || !sell(&sale, channel, &r) ||
        sale_check(&sale, direct, &r, &error) != LKS_OK)
        fail_msg("%s%s", r.why, error.message);
    if (!r.exact)
        fail_msg("%s", r.why);
    assert_int_equal(r.unsettled, 0);
    assert_int_equal(r.sold, sold);
    assert_int_equal(r.bought, sold);
    assert_int_equal(r.told_sold_out, buyers - sold);
    assert_int_equal(r.no_answer, 0);
    assert_int_equal(r.by_later_choice > 0, n_goods > 1);
    for (size_t good = 0; good < n_goods; good++) {
        assert_int_equal(r.goods[good].left, 0);
        assert_int_equal(r.goods[good].orders, stock);
    }
    sale_close(&sale);
    lks_channel_close(channel);
    lks_channel_close(direct);
    return r;
}

/* Each buyer gets one of two goods: nothing is left, every order is another. */
TEST(test_threads_empty_two_goods)
{
    size_t buyers = counts_of(200, 1000);

    for (size_t i = 0; i < counts_of(2, 20); i++)
        run(server_fixture_url(server), sell_by_threads, 2, (int64_t)buyers / 2, buyers);
}

TEST(test_async_buyers_fight_for_few)
{
    for (size_t i = 0; i < counts_of(2, 20); i++) {
        size_t buyers = counts_of(1000, 10000);
        sale_result r = run(server_fixture_url(server), sell_by_async, 1, 100, buyers);
        assert_int_equal(r.refused, buyers - 100);
    }
}

/* Scene c: each lost answer is asked for again, and each sale is answered a second time. */
TEST(test_every_reply_lost_once)
{
    for (size_t i = 0; i < counts_of(1, 5); i++) {
        size_t buyers = counts_of(100, 1000);
        lossy_proxy *proxy = lossy_proxy_start(server_fixture_port(server), LOSE_FIRST_REPLIES);
        assert_non_null(proxy);
        sale_result r = run(lossy_proxy_url(proxy), sell_by_async, 1, 50, buyers);
        assert_int_equal(r.replayed, r.sold);
        assert_true(lossy_proxy_hits(proxy) >= buyers);
        lossy_proxy_stop(proxy);
    }
}

TEST_MAIN(.setup_all = start_server, .teardown_all = stop_server)
