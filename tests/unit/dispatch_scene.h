/* Dispatch over a store, a waiting room and alarms of the test's own: no Redis, no socket. Main thread only. */
#ifndef LOCKSTOCK_TESTS_DISPATCH_SCENE_H
#define LOCKSTOCK_TESTS_DISPATCH_SCENE_H

#include <lockstock/v1/idempotency.lks.h>
#include <lockstock/v1/lock.lks.h>
#include <lockstock/v1/ratelimit.lks.h>
#include <lockstock/v1/stock.lks.h>
#include <uv.h>

#include "asked_store.h"
#include "calls/dispatch.h"

enum { PEERS = 10 };

struct waiters {
    waiter *entered; /* the last one */
    lks_rpc_slice key;
    uint64_t deadline_ns;
};

struct alarms {
    lks_rpc_slice alarm;
    char lasting[160]; /* "<base> <function> <argument>" */
    size_t n_lasting;
    void (*called)(void *arg, const store_call *call);
    void *called_arg;
    store *store;
    store_call call; /* of alarms_call, the last one */
    void (*done)(void *arg, bool is_done);
    void *done_arg;
};

/* New for each case; calls that are under way in the end are ended then. */
extern struct scene {
    uv_loop_t loop;
    store store;
    waiters waiters;
    alarms alarms;
    budget *budget;
    callers *callers;
    caller *peers[PEERS];
    dispatch *dispatch;
    sink sink;
    lks_rpc_arena *arena;
    int n_done, n_full; /* n_full: with "that is enough" */
    lks_error error;
    const ProtobufCMessage *response;
} here;

extern const char get_item[];

int setup(void **state);
int setup_with_room(void **state);
void lose(size_t peer);
int teardown(void **state);
/* Starts a call from connection `peer`; `change` may be NULL. Without another lender it keeps its arena. */
void start(const char *path, const ProtobufCMessage *request, size_t peer, const sink_call *change);
void start_get_item(size_t peer, const sink_call *change);
/* An Acquire of the name "n". */
void start_acquire(size_t peer, int64_t wait_ms, const sink_call *change);
/* Tells the call that entered last. */
void tell_event(service_event_kind kind);
void answer_with(size_t i, lks_code code, lks_applied applied);
void expect(lks_code code, lks_applied applied, const char *text);

#endif
