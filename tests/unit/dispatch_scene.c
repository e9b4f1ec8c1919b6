/* Invariant: nothing happens but what a test makes happen. */
#include "dispatch_scene.h"

#include "base/clock.h"

/* ---- a store that keeps what it is given until the test answers it ------------ */

/* Of quotas, which none of these tests has. */
bool store_part_from(const store *s, uint32_t from, store_part *ret)
{
    (void)s, (void)from, (void)ret;
    return false;
}

void store_submit(store *s, const store_call *call, uint64_t deadline_ns, store_done *done, void *arg)
{
    assert_true(s->n < SUBMITTED_MAX);
    s->submitted[s->n++] = (struct submitted){call, deadline_ns, done, arg};
}

/* Values here are static: a copy is the value itself. */
const store_value *store_value_copy(lks_rpc_arena *arena, const store_value *value)
{
    (void)arena;
    return value;
}

/* ---- a waiting room that keeps who waits ---------------------------------------- */

void waiters_enter(waiters *all, waiter *w, service_watch *watches, uint64_t deadline_ns)
{
    (void)watches;
    all->entered = w;
    all->deadline_ns = deadline_ns;
}

void waiters_moved(waiter *w, lks_rpc_slice key, watched *watches)
{
    w->key = key;
    w->watches = watches;
}

void tell_event(fixture *f, service_event_kind kind)
{
    f->waiters.entered->on_event(f->waiters.entered, (service_event){.kind = kind});
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

static void on_done(void *arg, const lks_rpc_method *method, const ProtobufCMessage *response, const lks_error *error)
{
    fixture *f = arg;
    (void)method;
    f->n_done++;
    f->n_full += error->code == LKS_RESOURCE_EXHAUSTED && error->applied == LKS_APPLIED_NO &&
                 strcmp(error->message, "that is enough") == 0;
    f->error = *error;
    f->response = response;
}

static int setup_with(void **state, uint32_t running_max, uint32_t running_per_caller)
{
    fixture *f = calloc(1, sizeof *f);
    lks_error error;
    const dispatch_options options = {.store = &f->store,
                                      .waiters = &f->waiters,
                                      .alarms = &f->alarms,
                                      .server = "this",
                                      .timeout_ms = 10000,
                                      .timeout_max_ms = 20000};

    f->alarms.store = &f->store;
    uv_loop_init(&f->loop);
    const callers_options room = {.loop = &f->loop,
                                  .running_max = running_max,
                                  .running_per_caller = running_per_caller,
                                  .waiting_max = 4,
                                  .waiting_per_caller = 2,
                                  .turn_ns = UINT64_MAX,
                                  .stall_ns = UINT64_MAX};
    f->arena = lks_rpc_arena_new();
    f->budget = budget_new(1 << 20);
    if (callers_new(&room, &f->callers, &error) != LKS_OK)
        return -1;
    for (size_t i = 0; i < PEERS; i++)
        f->peers[i] = caller_new(f->callers, budget_open(f->budget), NULL, NULL);
    f->dispatch = dispatch_new(&options);
    *state = f;
    return 0;
}

int setup(void **state)
{
    return setup_with(state, 4, 3);
}

int setup_with_room(void **state)
{
    return setup_with(state, 1000, 1000);
}

int setup_with_much_room(void **state)
{
    return setup_with(state, 10000, 10000);
}

void lose(fixture *f, size_t peer)
{
    budget_share *bytes = caller_bytes(f->peers[peer]);

    caller_lost(f->peers[peer]);
    budget_close(bytes);
    f->peers[peer] = NULL;
}

static void on_closed(void *arg)
{
    ((fixture *)arg)->closed = true;
}

int teardown(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < PEERS; i++)
        if (f->peers[i])
            lose(f, i);
    if (callers_running(f->callers) > 0)
        return -1;
    callers_close(f->callers, on_closed, f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    if (!f->closed || uv_loop_close(&f->loop) != 0)
        return -1;
    budget_free(f->budget);
    dispatch_free(f->dispatch);
    lks_rpc_arena_free(f->arena);
    free(f);
    return 0;
}

static void keep(void *arg)
{
    (void)arg;
}

static lks_rpc_arena *kept(void *arg)
{
    return ((fixture *)arg)->arena;
}

static const sink_lender keeper = {.give = keep, .take = kept};

void start(fixture *f, const char *path, const ProtobufCMessage *request, size_t peer, const sink_call *change)
{
    size_t len = request ? protobuf_c_message_get_packed_size(request) : 0;
    uint8_t *payload = lks_rpc_arena_alloc(f->arena, len + 1);
    sink_call *call = lks_rpc_arena_alloc(f->arena, sizeof *call);

    if (request)
        protobuf_c_message_pack(request, payload);
    *call = change ? *change : (sink_call){0};
    call->path = path;
    call->payload = payload;
    call->len = len;
    call->caller = f->peers[peer];
    if (!call->lender)
        call->lender = &keeper;
    if (call->received_ns == 0)
        call->received_ns = clock_now_ns();
    dispatch_call_start(f->dispatch, call, f->arena, on_done, f);
}

const char get_item[] = "/lockstock.v1.StockService/GetItem";

void start_get_item(fixture *f, size_t peer, const sink_call *change)
{
    lks_get_item_request request = LKS_GET_ITEM_REQUEST_INIT;
    request.sku = "tea";
    start(f, get_item, &request.base, peer, change);
}

void answer_with(fixture *f, size_t i, lks_code code, lks_applied applied)
{
    static const store_value empty = {.type = STORE_ARRAY};
    const store_result result = {
        .code = code, .applied = applied, .retry_after_ms = 7, .message = "the store said so", .value = &empty};
    f->store.submitted[i].done(f->store.submitted[i].arg, &result);
}

void expect(const fixture *f, lks_code code, lks_applied applied, const char *text)
{
    if (f->n_done != 1 || f->error.code != code || f->error.applied != applied || !strstr(f->error.message, text))
        fail_msg("expected one %s, %s, \"%s\"; got %d: %s, %s, \"%s\"", lks_code_name(code), lks_applied_name(applied),
                 text, f->n_done, lks_code_name(f->error.code), lks_applied_name(f->error.applied), f->error.message);
}
