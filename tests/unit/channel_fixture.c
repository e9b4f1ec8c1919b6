/* Only the main thread asserts: see() runs on completion threads and records. */
#include "channel_fixture.h"
#include "test.h"

lks_channel *open_channel(const char *urls, lks_channel_options options)
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

ping_request ping(const char *id)
{
    ping_request request = LOCKSTOCK__TEST__PING_REQUEST__INIT;
    request.id = (char *)id;
    return request;
}

lks_code run(lks_channel *channel, const lks_rpc_method *method, const char *id, const lks_call_options *options,
             ping_response **ret, lks_error *error)
{
    ping_request request = ping(id);
    ProtobufCMessage *response = NULL;
    lks_code code = lks_call_run(channel, method, &request.base, options, ret ? &response : NULL, error);

    if (ret)
        *ret = (ping_response *)(void *)response;
    return code;
}

void see(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
         const lks_error *error)
{
    struct witness *witness = arg;
    (void)function;

    witness->thread = pthread_self();
    witness->error = *error;
    if (code != error->code || (code == LKS_OK) != !!response)
        witness->error.code = LKS_UNKNOWN;
    if (response)
        snprintf(witness->id, sizeof witness->id, "%s", ((const ping_response *)(const void *)response)->id);
    atomic_fetch_add(&witness->runs, 1);
}

void start(lks_channel *channel, const lks_rpc_method *method, const char *id, const lks_call_options *options,
           struct witness *witness)
{
    ping_request request = ping(id);
    lks_error error;

    memset(witness, 0, sizeof *witness);
    lks_code code = lks_call_start(channel, method, &request.base, options, see, NULL, witness, &witness->call, &error);
    if (code != LKS_OK)
        fail_msg("start %s: %s %s", id, lks_code_name(code), error.message);
}

void assert_error(const lks_error *error, lks_code code, lks_applied applied)
{
    if (error->code != code || error->applied != applied)
        fail_msg("expected %s, applied %s; got %s, applied %s: %s", lks_code_name(code), lks_applied_name(applied),
                 lks_code_name(error->code), lks_applied_name(error->applied), error->message);
}

void assert_ended(struct witness *witness, lks_code code, lks_applied applied)
{
    lks_error error;

    assert_int_equal(lks_call_wait(witness->call, &error), code);
    assert_error(&error, code, applied);
    assert_error(&witness->error, code, applied);
    assert_int_equal(atomic_load(&witness->runs), 1);
    lks_call_free(witness->call);
}
