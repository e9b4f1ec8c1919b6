/* What a caller sees of a channel: success, lifetimes, retry and what `applied` says,
 * against scripted servers on loopback sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lockstock/call.h>

#include "channel.pb-c.h"
#include "unit/channel_server.h"

typedef Lockstock__Test__PingRequest ping_request;
typedef Lockstock__Test__PingResponse ping_response;

/* A long one: no test here is about running out of time unless it says so. */
enum { LONG_MS = 60000 };

static lks_channel *open_channel(const char *urls, lks_channel_options options)
{
    lks_channel *channel = NULL;
    lks_error error;

    if (options.timeout_ms == 0)
        options.timeout_ms = LONG_MS;
    lks_code code = lks_channel_open(urls, &options, &channel, &error);
    if (code != LKS_OK)
        fail_msg("open %s: %s %s", urls, lks_code_name(code), error.message);
    return channel;
}

static ping_request ping(const char *id)
{
    ping_request request = LOCKSTOCK__TEST__PING_REQUEST__INIT;
    request.id = (char *)id;
    return request;
}

static lks_code run(lks_channel *channel, const lks_rpc_method *method, const char *id, ping_response **ret,
                    lks_error *error)
{
    ping_request request = ping(id);
    ProtobufCMessage *response = NULL;
    lks_code code = lks_call_run(channel, method, &request.base, NULL, ret != NULL ? &response : NULL, error);

    if (ret != NULL)
        *ret = (ping_response *)(void *)response;
    return code;
}

__attribute__((unused)) static void assert_error(const lks_error *error, lks_code code, lks_applied applied)
{
    if (error->code != code || error->applied != applied)
        fail_msg("expected %s, %s; got %s, %s: %s", lks_code_name(code), lks_applied_name(applied),
                 lks_code_name(error->code), lks_applied_name(error->applied), error->message);
}

/* ---- answers ------------------------------------------------------------------ */

static void a_synchronous_call_returns_the_response(void **state)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.ns = "shop"});
    ping_response *response;
    lks_error error;
    (void)state;

    assert_int_equal(run(channel, &server_write, "a", &response, &error), LKS_OK);
    assert_int_equal(error.code, LKS_OK);
    assert_string_equal(error.message, "");
    assert_string_equal(response->id, "a");
    assert_int_equal(response->before, 0);
    lks_message_free(&response->base);
    assert_int_equal(run(channel, &server_write, "b", NULL, NULL), LKS_OK);

    server_request seen = server_request_at(server, 0);
    assert_string_equal(seen.method, "/lockstock.test.PingService/Write");
    assert_string_equal(seen.ns, "shop");
    assert_in_range(seen.timeout_ms, 1, LONG_MS);
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_synchronous_call_returns_the_response),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
