/* The C client and the real server over each transport of their own, and whom the client
 * does not talk to over TLS. */

#include <stdatomic.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/certificates.h"
#include "support/server_fixture.h"
#include "support/tempdir.h"
#include "test.h"

enum { PIPELINED = 1000, IDS = 1000 };

static struct {
    char *dir;
    char tls_url[64], grpc_url[64], grpcs_url[64], unix_url[256], strict_url[64], expired_url[64], plain_url[64];
    server_fixture *server, *strict, *expired;
} here;

static server_fixture *serve(char url[64], const char *certificate, const char *key, bool strict)
{
    snprintf(url, 64, "tls://localhost:%u", server_fixture_free_port());
    char listen[64], grpc[64], grpcs[64];
    snprintf(listen, sizeof listen, "tls://127.0.0.1:%s", strrchr(url, ':') + 1);
    snprintf(grpc, sizeof grpc, "grpc://127.0.0.1:%u", server_fixture_free_port());
    snprintf(grpcs, sizeof grpcs, "grpcs://127.0.0.1:%u", server_fixture_free_port());
    if (!here.grpc_url[0]) {
        snprintf(here.grpc_url, sizeof here.grpc_url, "%s", grpc);
        snprintf(here.grpcs_url, sizeof here.grpcs_url, "grpcs://localhost%s", strrchr(grpcs, ':'));
    }
    const char *args[] = {"--listen",
                          listen,
                          "--listen",
                          here.unix_url,
                          "--listen",
                          grpc,
                          "--listen",
                          grpcs,
                          "--tls-certificate",
                          certificate,
                          "--tls-key",
                          key,
                          strict ? "--tls-client-ca" : NULL,
                          "ca.pem",
                          "--tls-client-required",
                          NULL};
    const server_fixture_options options = {.args = args};
    return server_fixture_start(&options);
}

static int set_up(void **state)
{
    here.dir = tempdir_make();
    assert_int_equal(chdir(here.dir), 0);
    authority *ours = authority_new("ours"), *others = authority_new("others");
    authority_write(ours, "ca.pem");
    authority_write(others, "other-ca.pem");
    certificate_wish wish = {.common = {"server", 0}, .dns = {{"localhost", 0}, {"lockstock.test", 0}}};
    authority_sign(ours, &wish, "server.pem", "server.key");
    wish.valid_from_s = -7200;
    wish.valid_until_s = -3600;
    authority_sign(ours, &wish, "expired.pem", "expired.key");
    authority_sign(ours, &(certificate_wish){.common = {"client", 0}}, "client.pem", "client.key");
    authority_sign(others, &(certificate_wish){.common = {"client", 0}}, "stranger.pem", "stranger.key");
    authority_sign(ours, &(certificate_wish){.common = {"client", 0}, .password = "secret"}, "locked.pem",
                   "locked.key");
    authority_free(ours);
    authority_free(others);
    snprintf(here.unix_url, sizeof here.unix_url, "unix://%s/a.sock", here.dir);
    here.server = serve(here.tls_url, "server.pem", "server.key", false);
    snprintf(here.unix_url, sizeof here.unix_url, "unix://%s/b.sock", here.dir);
    here.strict = serve(here.strict_url, "server.pem", "server.key", true);
    snprintf(here.unix_url, sizeof here.unix_url, "unix://%s/c.sock", here.dir);
    here.expired = serve(here.expired_url, "expired.pem", "expired.key", false);
    snprintf(here.unix_url, sizeof here.unix_url, "unix://%s/a.sock", here.dir);
    return here.server && here.strict && here.expired ? 0 : -1;
}

static int tear_down(void **state)
{
    server_fixture_free(here.server);
    server_fixture_free(here.strict);
    server_fixture_free(here.expired);
    tempdir_remove(here.dir);
    return 0;
}

static lks_channel *open_or_fail(const char *url, lks_channel_options options)
{
    lks_channel *channel = NULL;
    lks_error error;

    if (lks_channel_open(url, &options, &channel, &error) != LKS_OK)
        fail_msg("%s: %s", url, error.message);
    return channel;
}

static lks_code next(lks_channel *channel, uint32_t timeout_ms, lks_error *error)
{
    lks_next_request request = LKS_NEXT_REQUEST_INIT;

    request.kind = LKS_ID_KIND_SNOWFLAKE;
    request.count = 1;
    return lks_id_next(channel, &request, &(lks_call_options){.timeout_ms = timeout_ms}, NULL, error);
}

static void count_ids(void *arg, lks_code code, const lks_next_response *response, const lks_error *error)
{
    if (code != LKS_OK)
        fprintf(stderr, "%s: %s\n", lks_code_name(code), error->message);
    else if (response->n_ids == IDS)
        atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(each_transport_carries_calls)
{
    const char *const urls[] = {server_fixture_url(here.server), here.unix_url, here.tls_url, here.grpc_url,
                                here.grpcs_url};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        lks_channel *channel = open_or_fail(
            urls[i], (lks_channel_options){.ca_file = strstr(urls[i], "s://") ? "ca.pem" : NULL, .timeout_ms = 60000});
        lks_next_request request = LKS_NEXT_REQUEST_INIT;
        atomic_int answered = 0;

        request.kind = LKS_ID_KIND_SNOWFLAKE;
        request.count = IDS;
        for (int j = 0; j < PIPELINED; j++)
            assert_int_equal(lks_id_next_start(channel, &request, NULL, count_ids, &answered, NULL, NULL), LKS_OK);
        lks_error error;
        while (atomic_load(&answered) < PIPELINED && next(channel, 60000, &error) == LKS_OK) {
        }
        lks_channel_close(channel);
        assert_int_equal(atomic_load(&answered), PIPELINED);
    }
}

TEST(big_messages_go_both_ways_over_tls)
{
    static uint8_t body[200000];
    lks_channel *channel = open_or_fail(here.tls_url, (lks_channel_options){.ca_file = "ca.pem", .timeout_ms = 60000});
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (uint8_t)(i * 31 >> 3);
    for (int i = 0; i < 20; i++) {
        lks_begin_request begin = LKS_BEGIN_REQUEST_INIT;
        lks_begin_response *begun, *replayed;
        lks_complete_request complete = LKS_COMPLETE_REQUEST_INIT;
        lks_error error;
        char key[32], token[64];

        snprintf(key, sizeof key, "key-%d", i);
        begin.scope = complete.scope = "big";
        begin.key = complete.key = key;
        snprintf(token, sizeof token, "attempt-token-of-key-%d", i);
        begin.attempt_token = token;
        begin.lease_ms = 60000;
        begin.retain_ms = 60000;
        if (lks_idempotency_begin(channel, &begin, NULL, &begun, &error) != LKS_OK)
            fail_msg("%s", error.message);
        complete.fence = begun->fence;
        complete.body = (ProtobufCBinaryData){.len = sizeof body, .data = body};
        lks_message_free(&begun->base);
        assert_int_equal(lks_idempotency_complete(channel, &complete, NULL, NULL, NULL), LKS_OK);
        begin.attempt_token = "attempt-token-of-another";
        assert_int_equal(lks_idempotency_begin(channel, &begin, NULL, &replayed, NULL), LKS_OK);
        assert_non_null(replayed->result);
        assert_int_equal(replayed->result->body.len, sizeof body);
        assert_memory_equal(replayed->result->body.data, body, sizeof body);
        lks_message_free(&replayed->base);
    }
    lks_channel_close(channel);
}

static void assert_refused(const char *url, lks_channel_options options, const char *why)
{
    lks_channel *channel = open_or_fail(url, options);
    lks_error error;

    assert_int_equal(next(channel, 700, &error), LKS_UNAVAILABLE);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    if (!strstr(error.message, why))
        fail_msg("\"%s\" instead of \"%s\"", error.message, why);
    lks_channel_close(channel);
}

static void assert_taken(const char *url, lks_channel_options options)
{
    lks_channel *channel = open_or_fail(url, options);
    lks_error error;

    if (next(channel, 20000, &error) != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    lks_channel_close(channel);
}

/* promise C35: TLS: only a server whose certificate is valid, for its name, and signed by a trusted authority */
TEST(a_server_must_show_a_certificate_for_its_name)
{
    char by_address[64], as_plain[64], as_tls[64];
    snprintf(by_address, sizeof by_address, "tls://127.0.0.1:%s", strrchr(here.tls_url, ':') + 1);
    snprintf(as_plain, sizeof as_plain, "tcp://127.0.0.1:%s", strrchr(here.tls_url, ':') + 1);
    snprintf(as_tls, sizeof as_tls, "tls://127.0.0.1:%u", server_fixture_port(here.server));
    assert_taken(here.tls_url, (lks_channel_options){.ca_file = "ca.pem"});
    assert_taken(by_address, (lks_channel_options){.ca_file = "ca.pem", .server_name = "lockstock.test"});
    assert_refused(by_address, (lks_channel_options){.ca_file = "ca.pem"}, "IP address mismatch");
    assert_refused(here.tls_url, (lks_channel_options){.ca_file = "ca.pem", .server_name = "other.test"},
                   "ostname mismatch");
    assert_refused(here.tls_url, (lks_channel_options){.ca_file = "other-ca.pem"}, "certificate");
    assert_refused(here.tls_url, (lks_channel_options){0}, "certificate");
    assert_refused(here.expired_url, (lks_channel_options){.ca_file = "ca.pem"}, "certificate has expired");
    assert_refused(as_plain, (lks_channel_options){0}, "");
    assert_refused(as_tls, (lks_channel_options){.ca_file = "ca.pem"}, "TLS: ");
}

/* promise C36 */
TEST(a_server_may_ask_for_a_certificate)
{
    assert_taken(here.strict_url, (lks_channel_options){
                                      .ca_file = "ca.pem", .certificate_file = "client.pem", .key_file = "client.key"});
    assert_refused(here.strict_url, (lks_channel_options){.ca_file = "ca.pem"}, "certificate required");
    assert_refused(
        here.strict_url,
        (lks_channel_options){.ca_file = "ca.pem", .certificate_file = "stranger.pem", .key_file = "stranger.key"},
        "TLS: ");
}

/* promise C36: TLS: the client's own certificate; unusable files are refused by name */
TEST(files_that_cannot_be_used_are_named)
{
    const struct {
        lks_channel_options options;
        const char *named;
    } bad[] = {
        {{.ca_file = "missing.pem"}, "missing.pem"},
        {{.ca_file = "client.key"}, "client.key"},
        {{.ca_file = "ca.pem", .certificate_file = "client.pem"}, "key_file"},
        {{.ca_file = "ca.pem", .key_file = "client.key"}, "certificate_file"},
        {{.ca_file = "ca.pem", .certificate_file = "client.pem", .key_file = "stranger.key"}, "stranger.key"},
        {{.ca_file = "ca.pem", .certificate_file = "locked.pem", .key_file = "locked.key"}, "locked.key"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lks_channel *channel = NULL;
        lks_error error;

        assert_int_equal(lks_channel_open(here.tls_url, &bad[i].options, &channel, &error), LKS_INVALID_ARGUMENT);
        assert_int_equal(lks_channel_open(here.tls_url, &bad[i].options, &channel, NULL), LKS_INVALID_ARGUMENT);
        assert_null(channel);
        if (!strstr(error.message, bad[i].named))
            fail_msg("\"%s\" does not name %s", error.message, bad[i].named);
    }
}

TEST(options_of_tls_need_an_encrypted_url)
{
    const lks_channel_options unused[] = {{.ca_file = "ca.pem"}, {.server_name = "shop"}, {.key_file = "client.key"}};
    char both[128];
    lks_channel *channel = NULL;
    lks_error error;

    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
        assert_int_equal(lks_channel_open("unix:///nonexistent/s", &unused[i], &channel, &error), LKS_INVALID_ARGUMENT);
        assert_non_null(strstr(error.message, ": needs a URL of tls:// or grpcs://"));
        assert_null(channel);
    }
    snprintf(both, sizeof both, "unix:///nonexistent/s,%s", here.tls_url);
    assert_int_equal(lks_channel_open(both, &unused[0], &channel, &error), LKS_OK);
    lks_channel_close(channel);
}

TEST_MAIN(.setup_all = set_up, .teardown_all = tear_down)
