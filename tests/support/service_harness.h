/* A service of lockstockd without server, sockets or loop: one request runs
 * through the wire scanner, prepare, the real function library (with a clock that
 * tests move) on a redis-server of the test's own, and finish, as in dispatch.
 *
 *     harness *h = harness_new();
 *     lks_deduct_request request = LKS_DEDUCT_REQUEST_INIT;
 *     ...
 *     const lks_deduct_response *response = harness_call(h, "Stock.Deduct", &request, &error);
 *
 * Main thread only. A harness that itself fails (no Redis, a library that does
 * not load) fails the running cmocka test. */
#ifndef LOCKSTOCK_TESTS_SERVICE_HARNESS_H
#define LOCKSTOCK_TESTS_SERVICE_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "services/service.h"

typedef struct harness harness;

/* Starts Redis and loads the library. NULL on failure. Where the environment has LOCKSTOCK_TEST_ENGINE=machine, there
 * is no Redis: support/machine_engine.h takes its place. With LOCKSTOCK_TEST_ENGINE=both the locks are in the machine, as
 * in a lock store, and the rest in Redis. Where it has LOCKSTOCK_MUTATION_FIND, that text of the library is replaced with
 * LOCKSTOCK_MUTATION_REPLACE (tests/mutations/lua_operators.py). */
harness *harness_new(void);
void harness_free(harness *h);

/* Empties Redis, puts the clock and the namespace ("default") back, frees what
 * was answered so far, and undoes harness_alter. For a test's setup. */
void harness_reset(harness *h);

/* The namespace of the calls that follow; not copied. */
void harness_namespace(harness *h, const char *ns);

/* The time that callers have for the following calls, in which they may repeat them; 1,000 at first. */
void harness_repeat_ms(harness *h, uint32_t repeat_ms);

/* The server that the calls which follow are made of, "harness" at first (not copied).
 * Each has a state of its own of every service that keeps one. */
void harness_server(harness *h, const char *server);

/* Ends the server: its next call starts with a new state. */
void harness_server_ends(harness *h, const char *server);

/* Settings of states that are made from now on; at first all zero but a
 * sequence_block of 1. harness_reset keeps them. */
void harness_service_options(harness *h, const service_options *options);

/* "Stock.Deduct" is the method /lockstock.v1.StockService/Deduct. A method that is not there fails the test. */
const service_method *harness_method(const char *name, const service **ret);

/* Runs one request of the method. Returns the response, valid until harness_reset or harness_forget; NULL with *error set
 * when the call fails. On success error->code is LKS_OK. */
const void *harness_call(harness *h, const char *method, const void *request, lks_error *error);

/* The same for a serialised request, which need not be well-formed. */
const void *harness_call_bytes(harness *h, const char *method, const void *bytes, size_t len, lks_error *error);

/* A call that may wait, on the server with that id (not copied). Functions publish to
 * "ls:wake:<id>"; only subscribers receive it. Valid like a response. */
typedef struct harness_waiting harness_waiting;

/* In two steps: a call may queue between its plan and its result. */
harness_waiting *harness_plan(harness *h, const char *server, const char *method, const void *request);
void harness_begin(harness *h, harness_waiting *w);

/* How many store calls it has planned, and the weight of the first. */
size_t harness_planned(const harness_waiting *w, size_t *weight);

/* Tells the service of a store call that somebody planned (service.on_store_call), on this server. */
void harness_store_call(harness *h, const service *s, const char *function, const char *base);

/* What an event makes of it; nothing when it does not wait. at_once: the event came during the call's last round, and the
 * call is not packed in between. */
void harness_event(harness *h, harness_waiting *w, service_event event, bool at_once);

/* Before store call n (from 1) of the calls that follow, f runs once; it may make calls. Unless it returns YES, that
 * store call is not made and fails, with that `applied`. */
void harness_before(harness *h, unsigned n, lks_applied (*f)(void *arg), void *arg);

/* Its answer; NULL while it waits, or with *error set. */
const void *harness_answer(const harness_waiting *w, lks_error *error);
bool harness_is_parked(const harness_waiting *w);

/* The alarms that its last round asked for, lasting alarms among them. */
const service_alarm *harness_alarms(const harness_waiting *w);

/* Those of the last harness_call. */
const service_alarm *harness_last_alarms(const harness *h);

/* Makes the store call that an alarm asks for; gives the ms it replies. */
int64_t harness_ring(harness *h, const service_alarm *alarm);

/* Runs n requests, each of one call to the same function and base, as one FCALL.
 * responses[i] is NULL where errors[i] is set. */
void harness_call_together(harness *h, const char *method, size_t n, const void *const requests[],
                           const void *responses[], lks_error errors[]);

/* Frees all responses and texts given so far: for tests of very many calls. */
void harness_forget(harness *h);

/* Moves the library's clock, back when negative, and if forward plan.now_ns, which does not change otherwise. TTLs of
 * Redis itself do not move; those of the machine do. */
void harness_advance_ms(harness *h, int64_t ms);

/* Sends any command, printf style as in hiredis ("GET %s", "SET %b %b"), and gives
 * its reply as text: integers in digits, nil as "", an array's elements one a
 * line. Valid like a response. */
const char *harness_redis(harness *h, const char *format, ...);

/* The same of n words with their lengths. */
const char *harness_redis_words(harness *h, int n, const char *const words[], const size_t lens[]);

/* How often Redis has run that command ("fcall", in small letters) since it started or the
 * last CONFIG RESETSTAT, inside functions too. */
long harness_commands(harness *h, const char *command);

/* NULL: there is none. */
struct machine_engine *harness_machine(const harness *h);
bool harness_has_redis(const harness *h);

/* One line for each key (but the clock's): name, type, instant of its end, digest
 * of its value. Two equal snapshots: nothing was changed. Valid like a response. */
const char *harness_snapshot(harness *h);

/* Loads the library with each `find` replaced, as a library with a fault would be. */
void harness_alter(harness *h, const char *find, const char *replace);

#endif
