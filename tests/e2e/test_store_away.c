/* What the client says of a call on a real server whose Redis is away: at once, and as
 * true as the server itself, however it goes on trying. */
/* promise CH1 */

#include <lockstock/lockstock.h>

#include <signal.h>

#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

static redis_fixture *redis;
static server_fixture *server;
static lks_channel *channel;

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};

    redis = redis_fixture_start(NULL);
    if (!redis)
        return -1;
    server = server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = unsafe});
    return server && lks_channel_open(server_fixture_url(server), NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lks_channel_close(channel);
    server_fixture_free(server);
    redis_fixture_free(redis);
    return 0;
}

static lks_code deduct(const lks_call_options *options, lks_error *error)
{
    lks_deduct_request order = LKS_DEDUCT_REQUEST_INIT;
    lks_line line = LKS_LINE_INIT, *lines[] = {&line};

    line.sku = "tea";
    line.quantity = 1;
    order.order_id = "order-1";
    order.n_lines = 1;
    order.lines = lines;
    return lks_stock_deduct(channel, &order, options, NULL, error);
}

static void assert_refused(const lks_error *error)
{
    if (error->code != LKS_UNAVAILABLE || error->applied != LKS_APPLIED_NO || error->origin != LKS_ORIGIN_PEER ||
        !strstr(error->message, "No such file"))
        fail_msg("%s, applied %s: %s", lks_code_name(error->code), lks_applied_name(error->applied), error->message);
}

TEST(test_a_call_without_a_store_is_refused)
{
    const lks_call_options once = {.no_retry = true};
    lks_get_item_request get = LKS_GET_ITEM_REQUEST_INIT;
    lks_error error;

    assert_int_equal(deduct(NULL, NULL), LKS_OK);
    assert_true(redis_fixture_stop(redis)); /* its socket goes with it */
    get.sku = "tea";
    do { /* what went out on the lost connection is MAYBE */
        lks_stock_get_item(channel, &get, &once, NULL, &error);
    } while (error.applied != LKS_APPLIED_NO);
    deduct(NULL, &error);
    assert_refused(&error);
    deduct(&once, &error);
    assert_refused(&error);
    lks_stock_get_item(channel, &get, NULL, NULL, &error);
    assert_refused(&error);

    assert_true(redis_fixture_restart(redis));
    while (deduct(NULL, &error) != LKS_OK)
        assert_int_equal(error.applied, LKS_APPLIED_NO);
}

/* promise T21: TLS to the store: who it must be, who we must be; a password that changes counts on SIGHUP without a
 * call lost; wrong files leave all as it was */
TEST(test_a_password_that_changes_is_read_on_sighup)
{
    char path[160];
    lks_error error;

    snprintf(path, sizeof path, "%s/password", redis_fixture_dir(redis));
    const char *const args[] = {"--allow-unsafe-store", "--store-password-file", path, NULL};
    assert_true(tempdir_write(path, "first\n"));
    free(redis_fixture_command(redis, "CONFIG SET requirepass first"));
    server_fixture *other =
        server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(redis), .args = args});
    assert_non_null(other);
    assert_true(tempdir_write(path, "second\n"));
    free(redis_fixture_command(redis, "AUTH first\r\nCONFIG SET requirepass second"));
    process_signal(server_fixture_process(other), SIGHUP);
    assert_true(process_wait_line(server_fixture_process(other), "event=reloaded", NULL, 0, 60000));
    free(redis_fixture_command(redis, "AUTH second\r\nCLIENT KILL TYPE normal"));
    assert_true(process_wait_line(server_fixture_process(other), "event=ready", NULL, 0, 60000));
    server_fixture_free(other);
    free(redis_fixture_command(redis, "AUTH second\r\nCONFIG SET requirepass \"\""));
    while (deduct(NULL, &error) != LKS_OK) /* the first server has never had one */
        assert_int_equal(error.applied, LKS_APPLIED_NO);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
