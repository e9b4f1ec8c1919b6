/* The flash sale's scenes against a real lockstockd with its embedded store: every
 * run of each is exact. */

#include "scenes.h"
#include "support/counts.h"
#include "support/server_fixture.h"
#include "test.h"

static server_fixture *server;

static int start_server(void **state)
{
    server = server_fixture_start(NULL);
    return server ? 0 : -1;
}

/* An orderly end belongs to the test: sanitizers report at exit. */
static int stop_server(void **state)
{
    int status = server_fixture_stop(server, 60000) ? 0 : -1;
    server_fixture_free(server);
    return status;
}

static const sale_scene *scene_named(const char *name)
{
    const sale_scene *scene = scenes;

    while (scene->name[0] != name[0])
        scene++;
    return scene;
}

static void run(const char *name, const sale_plan *plan, size_t runs, size_t expected_sold, size_t expected_refused)
{
    const sale_scene *scene = scene_named(name);

    for (size_t i = 0; i < runs; i++) {
        scene_report report;
        lks_error error = {0};
        if (scene_run(scene, server_fixture_url(server), plan, &report, &error) != LKS_OK)
            fail_msg("%s: %s", lks_code_name(error.code), error.message);
        scene_print(scene, plan, &report);
        assert_true(report.result.exact);
        assert_int_equal(report.result.unsettled, 0);
        assert_int_equal(report.result.sold, expected_sold);
        if (expected_refused != SIZE_MAX)
            assert_int_equal(report.result.refused, expected_refused);
        /* Each buyer is counted once. */
        assert_int_equal(report.result.bought, expected_sold);
        assert_int_equal(report.result.told_sold_out, plan->n_buyers - expected_sold);
        assert_int_equal(report.result.no_answer, 0);
        assert_int_equal(report.result.by_later_choice > 0, plan->n_goods > 1);
        for (size_t good = 0; good < plan->n_goods; good++) {
            assert_int_equal(report.result.goods[good].left, 0);
            assert_int_equal(report.result.goods[good].orders, plan->stock);
        }
    }
}

/* Each buyer gets one of two goods: nothing is left, every order is another. */
TEST(test_threads_empty_two_goods)
{
    sale_plan plan = {.n_goods = 2, .n_buyers = counts_of(200, 1000), .patience_ms = 120000};
    plan.stock = (int64_t)plan.n_buyers / 2;
    run("a", &plan, counts_of(2, 20), plan.n_buyers, SIZE_MAX);
}

TEST(test_async_buyers_fight_for_few)
{
    sale_plan plan = {.n_goods = 1, .stock = 100, .n_buyers = counts_of(1000, 10000), .patience_ms = 120000};
    run("b", &plan, counts_of(2, 20), 100, plan.n_buyers - 100);
}

TEST(test_every_reply_lost_once)
{
    sale_plan plan = {.n_goods = 1, .stock = 50, .n_buyers = counts_of(100, 1000), .patience_ms = 120000};
    run("c", &plan, counts_of(1, 5), 50, plan.n_buyers - 50);
}

TEST_MAIN(.setup_all = start_server, .teardown_all = stop_server)
