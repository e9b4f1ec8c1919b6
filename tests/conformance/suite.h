/* What the cases of the suite share: a server on the wire under test, with a store that
 * can be taken away, and calls in one line. */
#ifndef LOCKSTOCK_TESTS_SUITE_H
#define LOCKSTOCK_TESTS_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "conformance/caller.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"

#define STOCK "/lockstock.v1.StockService/"
#define LOCK "/lockstock.v1.LockService/"

enum {
    IN_FLIGHT = 64, /* the server's limits */
    WAITING = 160,
    PATIENCE_MS = 30000,
};

typedef struct wire {
    const char *name;
    const char *scheme;
    const wire_driver *driver;
    bool by_libnng;      /* the server's side: it keeps some of what hostile peers leave (docs/nng.md) */
    bool closes;         /* what is too long ends the connection; else it is RESOURCE_EXHAUSTED */
    const char *vectors; /* which of vectors.txt it speaks: "sp", "unix", "ws" or "grpc"; NULL: none */
} wire;

typedef struct suite {
    const wire *wire;
    redis_fixture *redis;
    server_fixture *server;
} suite;

extern suite here;

/* Starts a server on the wire; more arguments as in server_fixture_options. */
server_fixture *suite_server(const char *const *args);

/* A connection to a server; never NULL. */
void *suite_open(const server_fixture *server);
void suite_close(void *caller);

/* Starts a call of a request message; gives its number; 0 when the connection is over. */
unsigned suite_try(void *caller, const char *method, const void *request, uint32_t timeout_ms);

/* The same where it must not be over. */
unsigned suite_start(void *caller, const char *method, const void *request, uint32_t timeout_ms);

/* The next answer, which must be that call's. */
outcome suite_await(void *caller, unsigned call);

/* Both. */
outcome suite_ask(void *caller, const char *method, const void *request, uint32_t timeout_ms);

/* What a call must have come to: the message begins with `begins`. Frees it. */
void suite_expect(outcome got, lks_code code, lks_applied applied, const char *begins);

/* Its response, to be freed with protobuf_c_message_free_unpacked; it must be OK. Frees it. */
void *suite_response(outcome got, const ProtobufCMessageDescriptor *type);

/* PutItem and GetItem of a sku in a group of that name. */
void suite_put(void *caller, const char *sku, int64_t on_hand);
outcome suite_get(void *caller, const char *sku);
void suite_expect_available(outcome got, const char *sku, int64_t available);

/* Acquire of one EXCLUSIVE lock with a lease of a minute. */
unsigned suite_acquire(void *caller, const char *name, const char *token, int64_t wait_ms, uint32_t timeout_ms);
void suite_expect_acquired(outcome got, lks_acquire_outcome wanted);
void suite_release(void *caller, const char *name, const char *token);

/* Returns when so many wait for the lock. */
void suite_until_waiters(void *caller, const char *name, int64_t n);

/* ---- the cases --------------------------------------------------------------------- */

void a_call_is_answered(void **state);
void each_refusal_says_what_and_whether(void **state);
void a_namespace_is_a_world_of_its_own(void **state);
void a_store_that_hangs_is_a_deadline(void **state);
void a_store_that_is_away_is_unavailable(void **state);
void answers_come_when_they_are_ready(void **state);
void big_messages_go_both_ways(void **state);
void what_is_too_long_is_refused(void **state);

void who_waits_is_told_when_time_is_up(void **state);
void a_wait_ends_with_its_connection(void **state);
void a_cancelled_wait_is_withdrawn(void **state);
void who_waits_does_not_stop_who_runs(void **state);
void a_stopping_server_answers_and_refuses(void **state);

void noise_harms_nobody(void **state);
void half_open_connections_harm_nobody(void **state);
void vanishing_peers_leave_nothing(void **state);

void the_vectors_are_what_is_spoken(void **state);

#endif
