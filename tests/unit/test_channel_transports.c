/* The same call over each transport, answered by libnng's own REP socket. */

#include <pthread.h>
#include <unistd.h>

#include <lockstock/rpc/v1/envelope.pb-c.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include "unit/channel_fixture.h"
#include "test.h"

static size_t pack_answer(uint8_t answer[64])
{
    Lockstock__Test__PingResponse response = LOCKSTOCK__TEST__PING_RESPONSE__INIT;
    Lockstock__Rpc__V1__Result result = LOCKSTOCK__RPC__V1__RESULT__INIT, *results[] = {&result};
    Lockstock__Rpc__V1__Reply reply = LOCKSTOCK__RPC__V1__REPLY__INIT;
    uint8_t payload[32];

    response.id = "nng";
    result.payload.data = payload;
    result.payload.len = lockstock__test__ping_response__pack(&response, payload);
    reply.n_results = 1;
    reply.results = results;
    return lockstock__rpc__v1__reply__pack(&reply, answer);
}

/* Until the socket is closed. */
static void *serve(void *arg)
{
    const nng_socket *socket = arg;
    uint8_t answer[64], request[1024];
    size_t len = pack_answer(answer);

    for (;;) {
        size_t request_len = sizeof request;
        int result = nng_recv(*socket, request, &request_len, 0);
        if (result == 0)
            result = nng_send(*socket, answer, len, 0);
        if (result != 0)
            return NULL;
    }
}

TEST(each_transport_carries_calls)
{
    static const struct {
        const char *dialled, *scheme, *path;
    } transports[] = {{"tcp", "tcp", ""}, {"nng+tcp", "tcp", ""}, {"nng+ws", "ws", "/lockstock"}};
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        ping_response *response = NULL;
        nng_socket socket;
        pthread_t thread;
        uint16_t port; /* libnng does not tell which one it chooses for WebSocket */
        char listen[64], url[64];

        close(ports_bind(&port));
        assert_int_equal(nng_rep0_open(&socket), 0);
        snprintf(listen, sizeof listen, "%s://127.0.0.1:%u%s", transports[i].scheme, port, transports[i].path);
        assert_int_equal(nng_listen(socket, listen, NULL, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, serve, &socket), 0);
        snprintf(url, sizeof url, "%s://127.0.0.1:%u%s", transports[i].dialled, port, transports[i].path);
        channel = open_channel(url, (lks_channel_options){0});
        for (int j = 0; j < 20; j++) {
            assert_int_equal(run(&server_plain, "a", NULL, &response, NULL), LKS_OK);
            assert_string_equal(response->id, "nng");
            lks_message_free(&response->base);
        }
        close_channel();
        assert_int_equal(nng_close(socket), 0);
        pthread_join(thread, NULL);
    }
}

TEST_MAIN()
