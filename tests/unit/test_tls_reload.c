/* Certificates that change while a host and a channel are open. */
#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/certificates.h"
#include "support/tempdir.h"
#include "test.h"

typedef Lockstock__Test__Order order;

static struct {
    char *dir, url[64];
    char certificate[256], key[256], ca[256];
    authority *signs[2];
    lks_host *host;
    lks_channel *first; /* has a connection of the time before */
} here;

static void write_files(int which)
{
    const certificate_wish wish = {.common = {.text = "localhost"}};

    authority_sign(here.signs[which], &wish, here.certificate, here.key);
    authority_write(here.signs[which], here.ca);
}

static lks_channel *connect_channel(void)
{
    lks_channel *channel = NULL;
    lks_error error;

    assert_int_equal(lks_channel_open(here.url, &(lks_channel_options){.ca_file = here.ca, .server_name = "localhost"},
                                      &channel, &error),
                     LKS_OK);
    return channel;
}

static lks_code call(lks_channel *channel)
{
    const lks_call_options options = {.timeout_ms = 20000};
    order request = LOCKSTOCK__TEST__ORDER__INIT;

    return lks_call_run(channel, &shop_buy_method, &request.base, &options, NULL, NULL);
}

/* Whether a client that trusts the present authority accepts a new connection. */
static void expect_accepted(void)
{
    lks_channel *channel = connect_channel();

    assert_int_equal(call(channel), LKS_OK);
    lks_channel_close(channel);
}

static int set_up(void **state)
{
    uint16_t port = 0;
    lks_error error;

    here.dir = tempdir_make();
    snprintf(here.certificate, sizeof here.certificate, "%s/host.pem", here.dir);
    snprintf(here.key, sizeof here.key, "%s/host.key", here.dir);
    snprintf(here.ca, sizeof here.ca, "%s/ca.pem", here.dir);
    here.signs[0] = authority_new("first");
    here.signs[1] = authority_new("second");
    write_files(0);
    const lks_host_options options = {.tls_certificate = here.certificate, .tls_key = here.key};
    assert_int_equal(lks_host_open(&options, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.host, "tls://127.0.0.1:0", &port, &error), LKS_OK);
    snprintf(here.url, sizeof here.url, "tls://127.0.0.1:%u", port);
    here.first = connect_channel();
    assert_int_equal(call(here.first), LKS_OK);
    return 0;
}

static int tear_down(void **state)
{
    lks_channel_close(here.first);
    lks_host_close(here.host, 1000);
    authority_free(here.signs[0]);
    authority_free(here.signs[1]);
    tempdir_remove(here.dir);
    return 0;
}

/* promise CH32: certificates are read again on request, for new connections; bad files change nothing */
TEST(a_host_has_another_certificate)
{
    lks_error error;

    write_files(1);
    assert_int_equal(lks_host_reload_tls(here.host, &error), LKS_OK);
    expect_accepted();
    assert_int_equal(call(here.first), LKS_OK); /* by the connection of before */
    FILE *file = fopen(here.key, "we");
    fputs("no key", file);
    fclose(file);
    assert_int_equal(lks_host_reload_tls(here.host, &error), LKS_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "tls_key"));
    expect_accepted();
}

/* promise CH32 */
TEST(a_channel_trusts_another_authority)
{
    lks_error error;

    authority_write(here.signs[1], here.ca);
    lks_channel *channel = connect_channel();
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    const lks_call_options brief = {.timeout_ms = 300};
    assert_int_equal(lks_call_run(channel, &shop_buy_method, &request.base, &brief, NULL, &error), LKS_UNAVAILABLE);
    FILE *file = fopen(here.ca, "we");
    fputs("no certificate", file);
    fclose(file);
    assert_int_equal(lks_channel_reload_tls(channel, &error), LKS_INVALID_ARGUMENT);
    authority_write(here.signs[0], here.ca);
    assert_int_equal(lks_channel_reload_tls(channel, &error), LKS_OK);
    assert_int_equal(call(channel), LKS_OK);
    lks_channel_close(channel);
}

TEST(reload_without_a_certificate_fails)
{
    lks_channel *channel = NULL;
    lks_host *host = NULL;
    lks_error error;

    assert_int_equal(lks_channel_open("tcp://127.0.0.1:1", NULL, &channel, &error), LKS_OK);
    assert_int_equal(lks_channel_reload_tls(channel, &error), LKS_FAILED_PRECONDITION);
    lks_channel_close(channel);
    assert_int_equal(lks_host_open(NULL, &host, &error), LKS_OK);
    assert_int_equal(lks_host_reload_tls(host, &error), LKS_FAILED_PRECONDITION);
    lks_host_close(host, 0);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
