/* Invariant: only the test causes events. */
#include "dispatch_scene.h"

#include "base/clock.h"

struct scene here;

/* Replies are static: a copy is the value itself. */
const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value)
{
    return value;
}

/* ---- waiters that stay until the test ends them ---------------------------------------- */

void waiters_enter(waiters *all, waiter *w, lks_rpc_slice key, service_watch *watches, uint64_t deadline_ns)
{
    all->entered = w;
    all->key = key;
    all->deadline_ns = deadline_ns;
}

void waiters_moved(waiter *w, const char *key, watched *watches)
{
    here.waiters.key.data = key;
    w->watches = watches;
}

void tell_event(service_event_kind kind)
{
    here.waiters.entered->on_event(here.waiters.entered, (service_event){.kind = kind});
}

void waiters_leave(waiters *all, waiter *w)
{
    if (all->entered == w)
        all->entered = NULL;
}

/* ---- alarms that are only kept --------------------------------------------------- */

void alarms_set(alarms *all, const service_alarm *what)
{
    if (!what->lasting) {
        all->alarm = what->argument;
        return;
    }
    assert_int_equal(what->in_ms, 0);
    all->n_lasting++;
    snprintf(all->lasting, sizeof all->lasting, "%.*s %s %.*s", (int)what->base.len, what->base.data, what->function,
             (int)what->argument.len, what->argument.data);
}

static void on_called(void *arg, const store_result *result)
{
    const alarms *all = arg;

    all->done(all->done_arg, result->code == LKS_OK && result->value->element[1].integer < 0);
}

void alarms_call(alarms *all, const service_alarm *what, unsigned weight, void (*done)(void *arg, bool is_done),
                 void *arg)
{
    all->call = (store_call){.base = what->base, .function = what->function, .weight = weight};
    all->done = done;
    all->done_arg = arg;
    store_submit(all->store, &all->call, 0, on_called, all);
}

void alarms_on_call(alarms *all, void (*called)(void *arg, const store_call *call), void *arg)
{
    all->called = called;
    all->called_arg = arg;
}

/* ---- one call and its answer -------------------------------------------------- */

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error,
                    const lks_rpc_additions *added)
{
    here.n_done++;
    here.n_full += error->code == LKS_RESOURCE_EXHAUSTED && error->applied == LKS_APPLIED_NO &&
                   strcmp(error->message, "that is enough") == 0;
    here.error = *error;
    here.response = response;
}

static int setup_with(uint32_t running_max, uint32_t running_per_caller)
{
    lks_error error;
    dispatch_options options = {.store = &here.store,
                                .waiters = &here.waiters,
                                .alarms = &here.alarms,
                                .server = "this",
                                .timeout_ms = 10000,
                                .timeout_max_ms = 20000};
    const callers_options room = {.loop = &here.loop,
                                  .running_max = running_max,
                                  .running_per_caller = running_per_caller,
                                  .waiting_max = 4,
                                  .waiting_per_caller = 2,
                                  .turn_ns = UINT64_MAX,
                                  .stall_ns = UINT64_MAX};

    memset(&here, 0, sizeof here);
    here.alarms.store = &here.store;
    uv_loop_init(&here.loop);
    here.store.loop = &here.loop;
    here.arena = lks_rpc_arena_new();
    here.budget = options.memory = budget_new(1 << 20);
    if (callers_new(&room, &here.callers, &error) != LKS_OK)
        return -1;
    for (size_t i = 0; i < PEERS; i++)
        here.peers[i] = caller_new(here.callers, budget_open(here.budget), NULL, NULL);
    options.callers = here.callers;
    here.dispatch = dispatch_new(&options);
    here.sink = dispatch_sink(here.dispatch);
    return 0;
}

int setup(void **state)
{
    return setup_with(4, 3);
}

int setup_with_room(void **state)
{
    return setup_with(1000, 1000);
}

void lose(size_t peer)
{
    budget_share *bytes = caller_bytes(here.peers[peer]);

    caller_lost(here.peers[peer]);
    budget_close(bytes);
    here.peers[peer] = NULL;
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

int teardown(void **state)
{
    bool closed = false;

    dispatch_stop(here.dispatch);
    for (size_t i = 0; i < PEERS; i++)
        if (here.peers[i])
            lose(i);
    for (size_t i = 0; i < here.store.n; i++)
        if (here.store.asked[i].done)
            answer_with(i, LKS_UNAVAILABLE, LKS_APPLIED_NO);
    if (callers_any(here.callers))
        return -1;
    callers_close(here.callers, on_closed, &closed);
    while (!closed)
        uv_run(&here.loop, UV_RUN_DEFAULT);
    budget_free(here.budget);
    dispatch_free(here.dispatch);
    lks_rpc_arena_free(here.arena);
    return uv_loop_close(&here.loop);
}

static void keep(void *arg)
{
}

static lks_rpc_arena *kept(void *arg)
{
    return here.arena;
}

static const sink_lender keeper = {.give = keep, .take = kept};

void start(const char *path, const ProtobufCMessage *request, size_t peer, const sink_call *change)
{
    size_t len = request ? protobuf_c_message_get_packed_size(request) : 0;
    uint8_t *payload = lks_rpc_arena_alloc(here.arena, len + 1);
    sink_call *call = lks_rpc_arena_alloc(here.arena, sizeof *call);

    if (request)
        protobuf_c_message_pack(request, payload);
    *call = change ? *change : (sink_call){0};
    call->path = path;
    call->payload = payload;
    call->len = len;
    call->caller = here.peers[peer];
    if (!call->lender)
        call->lender = &keeper;
    if (call->received_ns == 0)
        call->received_ns = clock_now_ns();
    here.sink.take(here.sink.arg, call, here.arena, on_done, NULL);
}

const char get_item[] = "/lockstock.v1.StockService/GetItem";

void start_get_item(size_t peer, const sink_call *change)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = "tea";
    start(get_item, &request.base, peer, change);
}

void start_acquire(size_t peer, int64_t wait_ms, const sink_call *change)
{
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    target.name = "n";
    request.targets = targets;
    request.n_targets = 1;
    request.token = "0123456789abcdef";
    request.lease_ms = 1000;
    request.wait_ms = wait_ms;
    start("/lockstock.v1.LockService/Acquire", &request.base, peer, change);
}

void answer_with(size_t i, lks_code code, lks_applied applied)
{
    static const store_value empty = {.type = STORE_ARRAY};

    asked_answer_with(
        &here.store, i,
        &(store_result){
            .code = code, .applied = applied, .retry_after_ms = 7, .message = "the store said so", .value = &empty});
}

void expect(lks_code code, lks_applied applied, const char *text)
{
    if (here.n_done != 1 || here.error.code != code || here.error.applied != applied ||
        !strstr(here.error.message, text))
        fail_msg("expected one %s, %s, \"%s\"; got %d: %s, %s, \"%s\"", lks_code_name(code), lks_applied_name(applied),
                 text, here.n_done, lks_code_name(here.error.code), lks_applied_name(here.error.applied),
                 here.error.message);
}
