/* Shared by the cases of the suite: a server on the wire under test, with a store that
 * can be stopped, and calls in one line. */
#ifndef LOCKSTOCK_TESTS_SUITE_H
#define LOCKSTOCK_TESTS_SUITE_H

#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/stock.lks.h>

#include "conformance/caller.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

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
    bool closes;         /* a message that is too long ends the connection; else it is RESOURCE_EXHAUSTED */
    const char *vectors; /* its entries in vectors.txt: "sp", "unix", "ws" or "grpc"; NULL: none */
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

/* Expects the outcome of a call; its message begins with `begins`. Frees it. */
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

#endif
