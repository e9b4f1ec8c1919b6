/* Shared by the tests of channels: a scripted server and a channel to it for each case, calls in one line, and
 * witnesses of asynchronous ones. */
#ifndef LOCKSTOCK_TESTS_CHANNEL_FIXTURE_H
#define LOCKSTOCK_TESTS_CHANNEL_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/call.h>

#include "channel.pb-c.h"
#include "support/ports.h"
#include "unit/channel_server.h"

/* A timeout that no call of a test reaches. */
enum { LONG_MS = 60000 };

typedef Lockstock__Test__PingRequest ping_request;
typedef Lockstock__Test__PingResponse ping_response;

/* The observations of one asynchronous call. Read after lks_call_wait or lks_channel_close. */
struct witness {
    atomic_int runs;
    pthread_t thread;
    lks_error error;
    char id[64], asked[64]; /* of the response, empty when there was none; of the request */
    lks_call *call;
};

/* For TEST_MAIN. */
extern struct server *server;
extern lks_channel *channel;
int set_up(void **state);
int tear_down(void **state);

/* LONG_MS when the options name no timeout. Fails the test when it cannot. */
lks_channel *open_channel(const char *urls, lks_channel_options options);

/* `channel`: closes it and sets it to NULL; opens it with other options; the same with a new server. */
void close_channel(void);
void reopen(lks_channel_options options);
void restart(lks_channel_options options);

ping_request ping(const char *id);

/* A synchronous call. ret may be NULL; else *ret is to be freed with lks_message_free. */
lks_code run(const lks_rpc_method *method, const char *id, const lks_call_options *options, ping_response **ret,
             lks_error *error);
lks_code run_on(lks_channel *on, const lks_rpc_method *method, const char *id, const lks_call_options *options,
                ping_response **ret, lks_error *error);

/* A synchronous call that must succeed, as if there had been no other try; that must end so. */
void run_ok(const lks_rpc_method *method, const char *id);
void run_to(const lks_rpc_method *method, const char *id, const lks_call_options *options, lks_code code,
            lks_applied applied);

/* Starts a call that the witness sees the end of; witness->call is to be freed. Fails the test when it cannot. */
void start(const lks_rpc_method *method, const char *id, const lks_call_options *options, struct witness *witness);
void start_request(const lks_rpc_method *method, const ping_request *request, const lks_call_options *options,
                   struct witness *witness);

/* n calls with the ids PREFIX-0, PREFIX-1 ... */
void start_many(const lks_rpc_method *method, const char *prefix, struct witness *calls, size_t n);

/* A call that waits at the server for LONG_MS. */
void start_waiting(const lks_rpc_method *method, const char *id, struct witness *witness);

/* A `done` whose arg is a witness. */
void see(lks_call_function *function, void *arg, lks_code code, const ProtobufCMessage *response,
         const lks_error *error);

void assert_error(const lks_error *error, lks_code code, lks_applied applied);

/* Waits for the call; it must have ended so, with its own response, and `done` have run once. Frees it. */
void assert_ended(struct witness *witness, lks_code code, lks_applied applied);

/* Each of them succeeded, after any number of tries. Frees them. */
void assert_done(struct witness *calls, size_t n);

/* Each of them ended so; each succeeded, as if there had been no other try. */
void assert_all(struct witness *calls, size_t n, lks_code code, lks_applied applied);
void assert_ok(struct witness *calls, size_t n);

/* The server holds the answers to so many calls. A test whose server holds answers uses methods that may not be repeated,
 * or calls that wait: each try of another call ends after 1.5 s, which a slow machine reaches. */
void hold(uint32_t times);

/* The server fails so many calls with this status. */
void fail_calls(server_status status, uint32_t times);

#endif
