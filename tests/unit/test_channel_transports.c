/* The same call over each transport, answered by libnng's own REP socket. */

#include "net/nng/nng_rep.h"
#include <lockstock/rpc/v1/envelope.pb-c.h>

#include "unit/channel_fixture.h"
#include "test.h"

static void answer(void *arg, lks_rpc_nng_request *request)
{
    Lockstock__Test__PingResponse response = LOCKSTOCK__TEST__PING_RESPONSE__INIT;
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT, *results[] = {&result};
    Lockstock__Rpc__V1__Reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;
    uint8_t payload[32];
    (void)arg;

    response.id = "nng";
    result.payload.data = payload;
    result.payload.len = lockstock__test__ping_response__pack(&response, payload);
    reply.n_results = 1;
    reply.results = results;
    lockstock__rpc__v1__reply__pack(
        &reply, lks_rpc_nng_request_answer(request, lockstock__rpc__v1__reply__get_packed_size(&reply)));
    lks_rpc_nng_request_reply(request);
}

TEST(each_transport_carries_calls)
{
    static const struct {
        const char *dialled, *scheme, *path;
    } transports[] = {{"tcp", "tcp", ""}, {"nng+tcp", "tcp", ""}, {"nng+ws", "ws", "/lockstock"}};
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        lks_rpc_nng_rep_options options = {.on_request = answer};
        lks_rpc_nng_rep *rep = NULL;
        ping_response *response = NULL;
        uint16_t port = 0;
        char listen[64], url[64];

        assert_int_equal(lks_rpc_nng_rep_open(&options, &rep, NULL), LKS_OK);
        snprintf(listen, sizeof listen, "%s://127.0.0.1:0%s", transports[i].scheme, transports[i].path);
        assert_int_equal(lks_rpc_nng_rep_listen(rep, listen, &port, NULL), LKS_OK);
        snprintf(url, sizeof url, "%s://127.0.0.1:%u%s", transports[i].dialled, port, transports[i].path);
        lks_channel *channel = open_channel(url, (lks_channel_options){0});
        for (int j = 0; j < 20; j++) {
            assert_int_equal(run(channel, &server_plain, "a", NULL, &response, NULL), LKS_OK);
            assert_string_equal(response->id, "nng");
            lks_message_free(&response->base);
        }
        lks_channel_close(channel);
        lks_rpc_nng_rep_stop_receiving(rep);
        lks_rpc_nng_rep_close(rep);
    }
}

TEST_MAIN()
