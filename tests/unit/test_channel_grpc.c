/* A channel over gRPC to a host: what a call sends, and what it gets back. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <lockstock/host.h>
#include <lockstock/lockstock.h>

#include "method.pb-c.h"
#include "shop.h"
#include "support/certificates.h"
#include "support/tempdir.h"
#include "test.h"

typedef Lockstock__Test__Order order;

enum { BRIEF_MS = 1000, BYTES_MAX = 12 << 20 };

static struct {
    char *dir;
    char url[64];
    lks_host *host, *other;
    lks_channel *channel;
} here;

static bool is_encrypted(const char *scheme)
{
    return strcmp(scheme, "tls") == 0 || strcmp(scheme, "grpcs") == 0;
}

static void serve(const char *scheme)
{
    const lks_host_options options = {
        .tls_certificate = "server.pem", .tls_key = "server.key", .message_bytes_max = BYTES_MAX};
    const lks_channel_options client = {
        .ca_file = is_encrypted(scheme) ? "authority.pem" : NULL, .timeout_ms = 60000, .message_bytes_max = BYTES_MAX};
    uint16_t port = 0;
    lks_error error;

    shop_close();
    snprintf(here.url, sizeof here.url, "%s://127.0.0.1:0", scheme);
    assert_int_equal(lks_host_open(&options, &here.host, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.host, &shop_service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.host, here.url, &port, &error), LKS_OK);
    snprintf(here.url, sizeof here.url, "%s://localhost:%u", scheme, port);
    assert_int_equal(lks_channel_open(here.url, &client, &here.channel, &error), LKS_OK);
}

static int tear_down(void **state)
{
    shop_open();
    lks_channel_close(here.channel);
    lks_host_close(here.host, 1000);
    lks_host_close(here.other, 1000);
    here.channel = NULL;
    here.host = here.other = NULL;
    return 0;
}

static order *run(const lks_rpc_method *method, const order *request, const lks_call_options *options, lks_error *error)
{
    ProtobufCMessage *response = NULL;

    lks_call_run(here.channel, method, &request->base, options, &response, error);
    return (order *)response;
}

static void expect_bought(const char *scheme)
{
    const lks_metadata metadata = {"traceparent", "00-1", 4};
    const lks_call_options options = {.metadata = &metadata, .n_metadata = 1, .timeout_ms = 20000};
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_error error;

    serve(scheme);
    request.id = (char *)"pear";
    order *response = run(&shop_buy_method, &request, &options, &error);
    assert_int_equal(error.code, LKS_OK);
    assert_string_equal(response->id, "pear of /lockstock.test.Shop/Buy, user-agent=lockstock/" LOCKSTOCK_VERSION);
    assert_in_range(response->wait_ms, 1, 20000);
    lks_message_free(&response->base);
}

/* promise GC1: a channel over grpc:// and grpcs:// calls a host, with metadata and the deadline */
TEST_WITH(a_call_over_grpc, NULL, tear_down)
{
    expect_bought("grpc");
    tear_down(NULL);
    expect_bought("grpcs");
}

TEST_WITH(a_failure_has_its_status_field_and_applied, NULL, tear_down)
{
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_error error;

    serve("grpc");
    request.id = (char *)"pear";
    assert_null(run(&shop_refuse_method, &request, NULL, &error));
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_string_equal(error.message, "id: sold");
    assert_string_equal(error.field, "id");
    assert_int_equal(error.origin, LKS_ORIGIN_PEER);
}

/* Larger than the windows of flow control. */
TEST_WITH(a_large_message_passes_both_ways, NULL, tear_down)
{
    enum { BYTES = BYTES_MAX - 1000 };
    order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_error error;

    serve("grpc");
    request.key = (ProtobufCBinaryData){BYTES, calloc(1, BYTES)};
    request.fence = BYTES;
    order *response = run(&shop_look_method, &request, NULL, &error);
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(response->key.len, BYTES);
    lks_message_free(&response->base);
    free(request.key.data);
}

static void *close_host(void *arg)
{
    lks_host_close(here.host, 60000);
    here.host = NULL;
    return NULL;
}

static bool has_sold(shop *of)
{
    pthread_mutex_lock(&of->lock);
    bool sold = of->bought > 0;
    pthread_mutex_unlock(&of->lock);
    return sold;
}

/* promise GC18: while a host closes, it answers what it took, and other calls go to another server */
TEST_WITH(a_host_that_closes, NULL, tear_down)
{
    const lks_channel_options client = {.timeout_ms = 60000};
    const order request = LOCKSTOCK__TEST__ORDER__INIT;
    static shop other = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    lks_rpc_service service = shop_service;
    char urls[512];
    pthread_t closing;
    lks_call *call;
    lks_error error;

    serve("grpc");
    service.self = &other;
    lks_channel_close(here.channel);
    snprintf(urls, sizeof urls, "%s,grpc+unix://%s/other", here.url, here.dir);
    assert_int_equal(lks_channel_open(urls, &client, &here.channel, &error), LKS_OK);
    assert_int_equal(
        lks_call_start(here.channel, &shop_block_method, &request.base, NULL, NULL, NULL, NULL, &call, &error), LKS_OK);
    shop_await(1);
    assert_int_equal(lks_host_open(NULL, &here.other, &error), LKS_OK);
    assert_int_equal(lks_host_add(here.other, &service, &error), LKS_OK);
    assert_int_equal(lks_host_listen(here.other, strstr(urls, "grpc+unix"), NULL, &error), LKS_OK);
    assert_int_equal(pthread_create(&closing, NULL, close_host, NULL), 0);
    while (!has_sold(&other)) {
        order *response = run(&shop_buy_method, &request, NULL, &error);
        assert_int_equal(error.code, LKS_OK);
        assert_int_equal(error.applied, LKS_APPLIED_UNSPECIFIED);
        lks_message_free(&response->base);
    }
    shop_open();
    assert_int_equal(lks_call_wait(call, &error), LKS_OK);
    lks_call_free(call);
    pthread_join(closing, NULL);
}

static void expect_unreachable(const char *scheme, const char *host_speaks, const char *why)
{
    const lks_call_options options = {.timeout_ms = BRIEF_MS};
    const order request = LOCKSTOCK__TEST__ORDER__INIT;
    lks_error error;
    char url[64];

    serve(host_speaks);
    snprintf(url, sizeof url, "%s%s", scheme, strstr(here.url, "://"));
    lks_channel_close(here.channel);
    const lks_channel_options client = {.ca_file = is_encrypted(scheme) ? "authority.pem" : NULL};
    assert_int_equal(lks_channel_open(url, &client, &here.channel, &error), LKS_OK);
    assert_null(run(&shop_buy_method, &request, &options, &error));
    assert_int_equal(error.code, LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_non_null(strstr(error.message, why));
}

/* promise GC16: a server that does not speak HTTP/2, or over TLS does not choose h2, gets no call */
TEST_WITH(a_server_that_does_not_speak_http2, NULL, tear_down)
{
    expect_unreachable("grpc", "tcp", "did not speak HTTP/2");
    tear_down(NULL);
    expect_unreachable("grpcs", "tls", "another protocol");
}

int main(void)
{
    const certificate_wish wish = {.common = {.text = "localhost"}};

    signal(SIGPIPE, SIG_IGN);
    here.dir = tempdir_make();
    if (chdir(here.dir) != 0)
        return 1;
    authority *signs = authority_new("test");
    authority_sign(signs, &wish, "server.pem", "server.key");
    authority_write(signs, "authority.pem");
    authority_free(signs);
    int failed = TEST_RUN();
    tempdir_remove(here.dir);
    return failed;
}
