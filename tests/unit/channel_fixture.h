/* What tests of channels share: calls of the scripted server's service in one line,
 * and a witness of asynchronous ones. */
#ifndef LOCKSTOCK_TESTS_CHANNEL_FIXTURE_H
#define LOCKSTOCK_TESTS_CHANNEL_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/call.h>

#include "channel.pb-c.h"
#include "unit/channel_server.h"

/* A timeout for calls that are not to run into one. */
enum { LONG_MS = 60000 };

typedef Lockstock__Test__PingRequest ping_request;
typedef Lockstock__Test__PingResponse ping_response;

/* What was seen of one asynchronous call. Read after lks_call_wait or
 * lks_channel_close. */
struct witness {
    atomic_int runs;
    pthread_t thread;
    lks_error error;
    char id[64]; /* of the response; empty when there was none */
    lks_call *call;
};

/* LONG_MS when the options name no timeout. Fails the test when it cannot. */
lks_channel *open_channel(const char *urls, lks_channel_options options);

ping_request ping(const char *id);

/* A synchronous call. ret may be NULL; else *ret is to be freed with lks_message_free. */
lks_code run(lks_channel *channel, const lks_rpc_method *method, const char *id, const lks_call_options *options,
             ping_response **ret, lks_error *error);

/* Starts a call that the witness sees the end of; witness->call is to be freed. Fails
 * the test when it cannot. */
void start(lks_channel *channel, const lks_rpc_method *method, const char *id, const lks_call_options *options,
           struct witness *witness);

/* A `done` whose arg is a witness. */
void see(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
         const lks_error *error);

void assert_error(const lks_error *error, lks_code code, lks_applied applied);

/* Waits for the call; it must have ended so, and `done` have run once. Frees it. */
void assert_ended(struct witness *witness, lks_code code, lks_applied applied);

#endif
