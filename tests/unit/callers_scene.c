#include "callers_scene.h"

#include "base/clock.h"

struct scene here;

uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
    return here.now_ns++;
}

void on_start(caller_call *call)
{
    here.started[here.n_started++] = (size_t)(call - here.calls);
    here.now_ns += here.costs_ns;
    if (here.leave_at_once)
        caller_leave(call);
}

static void on_abandoned(caller_call *call)
{
    here.n_abandoned++;
    caller_leave(call);
}

static const call_ops ops = {on_start, on_start, on_abandoned};

static void on_room(void *arg)
{
    here.n_rooms++;
}

int setup_with(uint64_t turn_ns, uint64_t stall_ns, uint32_t waiting_per_caller, uint32_t share)
{
    const callers_options options = {.loop = &here.loop,
                                     .running_max = RUNNING,
                                     .running_per_caller = EACH,
                                     .running_per_owner = share,
                                     .waiting_max = waiting_per_caller > WAITING ? waiting_per_caller : WAITING,
                                     .waiting_per_caller = waiting_per_caller,
                                     .turn_ns = turn_ns,
                                     .stall_ns = stall_ns};
    lks_error error;

    memset(&here, 0, sizeof here);
    here.now_ns = UINT64_C(1) << 40;
    uv_loop_init(&here.loop);
    here.budget = budget_new(1 << 20);
    uv_async_init(&here.loop, &here.alive, NULL); /* a loop without handles has no turns */
    return callers_new(&options, &here.all, &error) == LKS_OK ? 0 : -1;
}

void lose(caller *c)
{
    budget_share *bytes = caller_bytes(c);

    for (size_t i = 0; i < here.n_connections; i++)
        if (here.connections[i] == c)
            here.connections[i] = NULL;
    caller_lost(c);
    budget_close(bytes);
}

void leave_all(void)
{
    for (size_t i = 0; i < here.n; i++)
        caller_leave(&here.calls[i]);
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

int teardown(void **state)
{
    leave_all();
    for (size_t i = 0; i < here.n_connections; i++)
        if (here.connections[i])
            lose(here.connections[i]);
    bool left = callers_any(here.all);
    callers_close(here.all, on_closed, &here.closed);
    uv_close((uv_handle_t *)&here.alive, NULL);
    uv_run(&here.loop, UV_RUN_DEFAULT);
    budget_free(here.budget);
    return !here.closed || left || uv_loop_close(&here.loop) != 0;
}

caller *connect_one(void)
{
    caller *c = caller_new(here.all, budget_open(here.budget), on_room, NULL);

    assert_true(here.n_connections < CONNECTIONS_MAX);
    return here.connections[here.n_connections++] = c;
}

caller *connect_of(const char *owner)
{
    caller *c = connect_one();

    caller_set_owner(c, owner);
    return c;
}

caller_call *make(caller *c)
{
    caller_call *call = &here.calls[here.n++];

    *call = (caller_call){.caller = c, .ops = &ops};
    return call;
}

caller_call *admit(caller *c, bool settles)
{
    caller_call *call = make(c);
    lks_error error;

    call->settles = settles;
    assert_int_equal(caller_admit(call, NULL, &error), LKS_OK);
    return call;
}

/* One call more is refused. */
void refused(caller *c, bool settles)
{
    caller_call *call = make(c);
    lks_error error = {0};

    call->settles = settles;
    assert_int_equal(caller_admit(call, NULL, &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_true(error.retry_after_ms > 0);
    call->caller = NULL;
}

lks_code wait_as(caller *c, const char *principal)
{
    caller_call *call = make(c);
    lks_error error = {0};

    call->waits = true;
    lks_code code = caller_admit(call, principal, &error);
    if (code == LKS_OK)
        return code;
    here.n--;
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_true(error.retry_after_ms > 0);
    assert_non_null(strstr(error.message, "wait"));
    return code;
}

caller_call *park_one(caller *c, const char *principal)
{
    assert_int_equal(wait_as(c, principal), LKS_OK);
    caller_call *call = &here.calls[here.n - 1];
    assert_int_equal(call->state, CALL_RUNNING);
    caller_park(call);
    return call;
}

void admit_many(caller *c, size_t n, bool settles)
{
    while (n-- > 0)
        admit(c, settles);
}

void fill_room(caller *c)
{
    while (!caller_queues(c))
        take(c);
}

void turn(void)
{
    uv_run(&here.loop, UV_RUN_NOWAIT);
}
