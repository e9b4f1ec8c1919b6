/* Only the main thread asserts: see() runs on completion threads and records. */
#include "channel_fixture.h"
#include "test.h"

struct server *server;
lks_channel *channel;

int set_up(void **state)
{
    server = server_start(0);
    channel = open_channel(server_url(server), (lks_channel_options){0});
    return 0;
}

int tear_down(void **state)
{
    lks_channel_close(channel);
    server_stop(server);
    channel = NULL;
    server = NULL;
    return 0;
}

lks_channel *open_channel(const char *urls, lks_channel_options options)
{
    lks_channel *opened = NULL;
    lks_error error;

    if (options.timeout_ms == 0)
        options.timeout_ms = LONG_MS;
    lks_code code = lks_channel_open(urls, &options, &opened, &error);
    if (code != LKS_OK)
        fail_msg("open %s: %s %s", urls, lks_code_name(code), error.message);
    return opened;
}

void close_channel(void)
{
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    channel = NULL;
}

void reopen(lks_channel_options options)
{
    close_channel();
    channel = open_channel(server_url(server), options);
}

void restart(lks_channel_options options)
{
    tear_down(NULL);
    server = server_start(0);
    channel = open_channel(server_url(server), options);
}

ping_request ping(const char *id)
{
    ping_request request = LOCKSTOCK__TEST__PING_REQUEST__INIT;
    request.id = (char *)id;
    return request;
}

lks_code run_on(lks_channel *on, const lks_rpc_method *method, const char *id, const lks_call_options *options,
                ping_response **ret, lks_error *error)
{
    ping_request request = ping(id);
    ProtobufCMessage *response = NULL;
    lks_code code = lks_call_run(on, method, &request.base, options, ret ? &response : NULL, error);

    if (ret)
        *ret = (ping_response *)(void *)response;
    return code;
}

lks_code run(const lks_rpc_method *method, const char *id, const lks_call_options *options, ping_response **ret,
             lks_error *error)
{
    return run_on(channel, method, id, options, ret, error);
}

void run_ok(const lks_rpc_method *method, const char *id)
{
    run_to(method, id, NULL, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

void run_to(const lks_rpc_method *method, const char *id, const lks_call_options *options, lks_code code,
            lks_applied applied)
{
    lks_error error;

    run(method, id, options, NULL, &error);
    assert_error(&error, code, applied);
}

void see(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
         const lks_error *error)
{
    struct witness *witness = arg;

    witness->thread = pthread_self();
    witness->error = *error;
    if (code != error->code || (code == LKS_OK) != !!response)
        witness->error.code = LKS_UNKNOWN;
    if (response)
        snprintf(witness->id, sizeof witness->id, "%s", ((const ping_response *)(const void *)response)->id);
    atomic_fetch_add(&witness->runs, 1);
}

void start_request(const lks_rpc_method *method, const ping_request *request, const lks_call_options *options,
                   struct witness *witness)
{
    lks_error error;

    memset(witness, 0, sizeof *witness);
    snprintf(witness->asked, sizeof witness->asked, "%s", request->id);
    lks_code code =
        lks_call_start(channel, method, &request->base, options, see, NULL, witness, &witness->call, &error);
    if (code != LKS_OK)
        fail_msg("start %s: %s %s", request->id, lks_code_name(code), error.message);
}

void start(const lks_rpc_method *method, const char *id, const lks_call_options *options, struct witness *witness)
{
    ping_request request = ping(id);

    start_request(method, &request, options, witness);
}

void start_many(const lks_rpc_method *method, const char *prefix, struct witness *calls, size_t n)
{
    char id[64];

    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "%s-%zu", prefix, i);
        start(method, id, NULL, &calls[i]);
    }
}

void start_waiting(const lks_rpc_method *method, const char *id, struct witness *witness)
{
    ping_request request = ping(id);

    request.wait_ms = LONG_MS;
    start_request(method, &request, NULL, witness);
}

void assert_error(const lks_error *error, lks_code code, lks_applied applied)
{
    if (error->code != code || error->applied != applied)
        fail_msg("expected %s, applied %d; got %s, applied %d: %s", lks_code_name(code), (int)applied,
                 lks_code_name(error->code), (int)error->applied, error->message);
}

void assert_ended(struct witness *witness, lks_code code, lks_applied applied)
{
    lks_error error;

    assert_int_equal(lks_call_wait(witness->call, &error), code);
    assert_error(&error, code, applied);
    assert_error(&witness->error, code, applied);
    assert_int_equal(atomic_load(&witness->runs), 1);
    assert_string_equal(witness->id, code == LKS_OK ? witness->asked : "");
    lks_call_free(witness->call);
}

void assert_all(struct witness *calls, size_t n, lks_code code, lks_applied applied)
{
    for (size_t i = 0; i < n; i++)
        assert_ended(&calls[i], code, applied);
}

void assert_done(struct witness *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lks_call_wait(calls[i].call, NULL), LKS_OK);
        lks_call_free(calls[i].call);
    }
}

void assert_ok(struct witness *calls, size_t n)
{
    assert_all(calls, n, LKS_OK, LKS_APPLIED_UNSPECIFIED);
}

void hold(uint32_t times)
{
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, times});
}

void fail_calls(server_status status, uint32_t times)
{
    server_set_status(server, status);
    server_add_fault(server, (server_fault){SERVER_FAILS, 0, times});
}
