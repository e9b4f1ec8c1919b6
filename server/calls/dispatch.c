/* Invariant: done runs exactly once for a call: at refusal, at the plan's own answer, or
 * when the last of a round of store calls has ended and the service does not wait for
 * more; and a call that was admitted leaves its caller before. */
#include "calls/dispatch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/rpc/exchange.h>

#include "services/service.h"
#include "calls/waiters.h"

static const service *const services[] = {
    &lock_service, &stock_service, &idempotency_service, &ratelimit_service, &id_service,
};
enum {
    N_SERVICES = sizeof services / sizeof services[0],
    LAST_ROUND_MS = 250, /* kept of the deadline for what a waiting call asks when its time is up */
};

/* A method, and what its service keeps in this server. */
typedef struct target {
    const service_method *method;
    void *state;
} target;

struct dispatch {
    dispatch_options options;
    void *states[N_SERVICES];
    target *targets;
    lks_rpc_route *routes; /* target: target */
    size_t n_routes;
    const identity *judge;
};

/* One call; lives in its arena.
 *
 *   PLANNED --order--> HELD --its turn--> ADMITTED --room--> BEGUN --> done    */
struct running {
    dispatch *dispatch;
    const service_method *method;
    caller_call call;
    bool held; /* by an earlier one of its order */
    bool begun;
    service_event event; /* what its next round is about, once it has begun */
    dispatch_order *order;
    TAILQ_ENTRY(running) in_order;
    running **handle;
    uint64_t received_ns, deadline_ns;
    const ProtobufCMessage *request;
    plan plan;
    waiter waiter;
    const store_value **replies;
    size_t waiting_for;
    bool any_succeeded;
    bool may_wait;   /* there may be something of it in the store that an answer would end */
    lks_error error; /* the first of the store's */
    dispatch_done *done;
    void *arg;
};

/* Which of a running call's replies a store callback is about. */
typedef struct awaited {
    running *running;
    size_t index;
} awaited;

lks_code dispatch_new(const dispatch_options *options, dispatch **ret, lks_error *error)
{
    dispatch *d = calloc(1, sizeof *d);
    size_t n = 0;

    if (!d)
        goto out_of_memory;
    for (size_t s = 0; s < N_SERVICES; s++)
        n += services[s]->n_methods;
    d->options = *options;
    d->targets = calloc(n, sizeof *d->targets);
    d->routes = calloc(n, sizeof *d->routes);
    if (!d->targets || !d->routes)
        goto out_of_memory;
    for (size_t s = 0; s < N_SERVICES; s++) {
        if (services[s]->open && !(d->states[s] = services[s]->open(&options->services)))
            goto out_of_memory;
        for (size_t m = 0; m < services[s]->n_methods; m++) {
            target *t = &d->targets[d->n_routes];
            *t = (target){.method = &services[s]->methods[m], .state = d->states[s]};
            d->routes[d->n_routes++] = (lks_rpc_route){.method = t->method->method, .target = t};
        }
    }
    if (lks_rpc_routes_sort(d->routes, d->n_routes, error) != LKS_OK) {
        dispatch_free(d);
        return error->code;
    }
    *ret = d;
    return LKS_OK;

out_of_memory:
    dispatch_free(d);
    return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
}

void dispatch_judge_by(dispatch *d, const identity *judge)
{
    d->judge = judge;
}

/* method NULL: one that is not there, which only who is let in may know. */
static lks_code judge(const dispatch *d, const credentials *who, const lks_rpc_method *method, identity_verdict *ret,
                      lks_error *error)
{
    *ret = (identity_verdict){.ns = who->ns};
    if (who->twice) /* a proxy before us may have looked at the other one */
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "metadata %s: stands twice", who->twice);
    if (d->judge && identity_admit(d->judge, who, method, time(NULL), ret, error) != LKS_OK)
        return error->code;
    if (!method)
        return lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: this server has no such method");
    return LKS_OK;
}

lks_code dispatch_judge(const dispatch *d, const credentials *who, const lks_rpc_method *method, lks_error *error)
{
    identity_verdict verdict;

    return judge(d, who, method, &verdict, error);
}

lks_code dispatch_would_take(const dispatch *d, const credentials *who, const char *path, lks_error *error)
{
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, path);

    return dispatch_judge(d, who, route ? route->method : NULL, error);
}

void dispatch_free(dispatch *d)
{
    if (d) {
        for (size_t s = 0; s < N_SERVICES; s++)
            if (d->states[s])
                services[s]->close(d->states[s]);
        free(d->targets);
        free(d->routes);
    }
    free(d);
}

static void leave_order(running *r);

/* What may be left of a call in the store is taken out there in any case, as soon as it
 * can be. */
static void undo(const running *r, const lks_error *error)
{
    const service_alarm *left = &r->plan.undo;

    if (left->function && (r->may_wait || error->applied == LKS_APPLIED_MAYBE))
        alarms_chore(r->dispatch->options.alarms, left->base, left->function, left->argument, 0);
}

/* Ends a call that is planned. The last line: the transport may reset the arena. */
static void end(running *r, const ProtobufCMessage *response, const lks_error *error)
{
    if (!response)
        undo(r, error);
    waiters_leave(r->dispatch->options.waiters, &r->waiter);
    leave_order(r); /* while the caller lives: those that this one held are its too */
    caller_leave(&r->call);
    if (r->handle)
        *r->handle = NULL;
    r->done(r->arg, r->method->method, response, error);
}

static void start_round(running *r);
static void finish(running *r);

static void begin_plan(running *r)
{
    r->plan.n_calls = 0;
    r->plan.now_ns = lks_rpc_now_ns();
    r->plan.round++;
}

static void run_plan(running *r)
{
    if (plan_failed(&r->plan))
        end(r, NULL, &r->plan.error);
    else
        start_round(r);
}

/* One more round of store calls for a call that waits. */
static void look_again(running *r)
{
    if (r->event == SERVICE_STOPPING) {
        /* Its place is kept: the caller sends the same call to another server. */
        r->plan.undo.function = NULL;
        lks_error_set(&r->error, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, "the server is shutting down");
        end(r, NULL, &r->error);
        return;
    }
    begin_plan(r);
    r->plan.wake(r->request, &r->plan, r->event);
    run_plan(r);
}

static void on_waiter_event(waiter *w, service_event event)
{
    running *r = (running *)((char *)w - offsetof(running, waiter));

    r->event = event;
    caller_resume(&r->call);
}

static void set_alarms(alarms *all, const service_alarm *list)
{
    for (const service_alarm *alarm = list; alarm; alarm = alarm->next) {
        if (alarm->lasting)
            alarms_chore(all, alarm->base, alarm->function, alarm->argument, alarm->in_ms);
        else
            alarms_set(all, alarm->base, alarm->function, alarm->argument, alarm->in_ms);
    }
}

static void wait(running *r)
{
    r->may_wait = true;
    if (waiters_park(r->dispatch->options.waiters, &r->waiter, &r->event))
        look_again(r);
    else
        caller_park(&r->call);
}

/* A further round. `applied`: what was done so far was an effect of the method's own. */
static void go_on(running *r, service_next *next, bool applied)
{
    r->any_succeeded = applied;
    begin_plan(r);
    next(r->request, &r->plan);
    if (applied)
        r->plan.error.applied = LKS_APPLIED_MAYBE;
    run_plan(r);
}

static void finish(running *r)
{
    const lks_rpc_method *method = r->method->method;
    answer a = {.arena = r->plan.arena, .plan = &r->plan, .replies = r->replies, .n_replies = r->plan.n_calls};

    if (r->error.code != LKS_OK) {
        if (method->effect == LKS_RPC_EFFECT_READ)
            r->error.applied = LKS_APPLIED_NO;
        else if (r->any_succeeded)
            r->error.applied = LKS_APPLIED_MAYBE;
        end(r, NULL, &r->error);
        return;
    }
    ProtobufCMessage *response = lks_rpc_response_new(method, r->plan.arena);
    if (!response) {
        lks_error_set(&a.error, LKS_RESOURCE_EXHAUSTED, lks_rpc_applied_of(method), "out of memory");
    } else {
        r->method->finish(r->request, &a, response);
        if (a.error.code != LKS_OK && method->effect == LKS_RPC_EFFECT_READ)
            a.error.applied = LKS_APPLIED_NO;
    }
    set_alarms(r->dispatch->options.alarms, a.alarms);
    if (a.next && a.error.code == LKS_OK)
        go_on(r, a.next, a.applied);
    else if (a.waits && a.error.code == LKS_OK)
        wait(r);
    else
        end(r, a.error.code == LKS_OK ? response : NULL, &a.error);
}

static void on_store(void *arg, const store_result *result)
{
    const awaited *to = arg;
    running *r = to->running;

    if (result->code == LKS_OK) {
        r->any_succeeded = true;
        r->replies[to->index] = store_value_copy(r->plan.arena, result->value);
        if (!r->replies[to->index] && r->error.code == LKS_OK)
            lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_MAYBE, "out of memory");
    } else if (r->error.code == LKS_OK) {
        lks_error_set(&r->error, result->code, result->applied, "%s", result->message);
        r->error.retry_after_ms = result->retry_after_ms;
    }
    if (--r->waiting_for == 0)
        finish(r);
}

/* Sends the plan's calls; the store never answers from inside store_submit. A plan
 * without any is finished at once. */
static void start_round(running *r)
{
    size_t n = r->plan.n_calls;

    if (n == 0) {
        finish(r);
        return;
    }
    awaited *to = lks_rpc_arena_alloc(r->plan.arena, n * sizeof *to);

    r->replies = lks_rpc_arena_alloc(r->plan.arena, n * sizeof *r->replies);
    if (!to || !r->replies) {
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
        end(r, NULL, &r->error);
        return;
    }
    bool repeatable = lks_rpc_may_repeat(r->method->method, r->request);
    r->waiting_for = n;
    for (size_t i = 0; i < n; i++) {
        to[i] = (awaited){.running = r, .index = i};
        r->plan.calls[i].repeatable = repeatable;
        store_submit(r->dispatch->options.store, &r->plan.calls[i], r->deadline_ns, on_store, &to[i]);
    }
}

/* The call's deadline; 0 when it is past already. */
static uint64_t deadline_of(const dispatch *d, const dispatch_call *call, const lks_rpc_method *method,
                            const ProtobufCMessage *request)
{
    uint64_t wait = (uint64_t)lks_rpc_wait_ms(method, request);
    uint64_t limit = d->options.timeout_max_ms + wait;
    uint64_t timeout = call->timeout_ms ? call->timeout_ms : d->options.timeout_ms + wait;
    uint64_t deadline = call->received_ns + (timeout < limit ? timeout : limit) * 1000000;

    return deadline > lks_rpc_now_ns() ? deadline : 0;
}

/* ---- order -------------------------------------------------------------------- */

static bool share_a_group(const running *a, const running *b)
{
    for (size_t i = 0; i < a->plan.n_calls; i++) {
        const lks_rpc_slice *x = &a->plan.calls[i].base;
        for (size_t j = 0; j < b->plan.n_calls; j++) {
            const lks_rpc_slice *y = &b->plan.calls[j].base;
            if (x->len == y->len && memcmp(x->data, y->data, x->len) == 0)
                return true;
        }
    }
    return false;
}

/* Calls of one method go to the store in their order anyway. */
static bool must_wait(const running *r)
{
    const running *earlier;

    TAILQ_FOREACH(earlier, &r->order->calls, in_order) {
        if (earlier == r)
            return false;
        if ((earlier->method != r->method || earlier->held) && share_a_group(earlier, r))
            return true;
    }
    return false;
}

static void admit(running *r, const char *who)
{
    lks_error error = {0};

    if (caller_admit(&r->call, who, &error) == LKS_OK)
        return; /* it may be over */
    r->call.caller = NULL;
    end(r, NULL, &error);
}

/* Those that this one held begin. Each may end others, so the list is looked at anew. */
static void leave_order(running *r)
{
    dispatch_order *order = r->order;
    running *next;

    if (!order)
        return;
    r->order = NULL;
    TAILQ_REMOVE(&order->calls, r, in_order);
    do {
        TAILQ_FOREACH(next, &order->calls, in_order)
            if (next->held && !must_wait(next))
                break;
        if (next) {
            next->held = false;
            admit(next, NULL);
        }
    } while (next);
}

/* ---- a call begins ------------------------------------------------------------ */

/* When its wait is over; early enough that its last round ends by the deadline. */
static uint64_t wait_until(const running *r)
{
    uint64_t wait_ns = (uint64_t)lks_rpc_wait_ms(r->method->method, r->request) * 1000000;
    uint64_t last_ns = (uint64_t)LAST_ROUND_MS * 1000000;
    uint64_t half_ns = (r->deadline_ns - r->received_ns) / 2;
    uint64_t latest_ns = r->deadline_ns - (last_ns < half_ns ? last_ns : half_ns);

    return r->received_ns + wait_ns < latest_ns ? r->received_ns + wait_ns : latest_ns;
}

/* Before the first store call: its wake message may come before its reply. */
static bool enter_waiters(running *r)
{
    r->waiter.key = r->plan.wait_key;
    r->waiter.watches = r->plan.watches;
    r->waiter.on_event = on_waiter_event;
    return waiters_enter(r->dispatch->options.waiters, &r->waiter, wait_until(r));
}

static running *running_of(caller_call *call)
{
    return (running *)((char *)call - offsetof(running, call));
}

/* It has room: at first, or for what it was woken for. */
static void on_start(caller_call *call)
{
    running *r = running_of(call);

    if (r->begun) {
        look_again(r);
        return;
    }
    r->begun = true;
    if (r->deadline_ns <= lks_rpc_now_ns())
        lks_error_set(&r->error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "the deadline was over before there was room");
    else if (r->plan.wait_key.len > 0 && !enter_waiters(r))
        lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    if (r->error.code != LKS_OK)
        end(r, NULL, &r->error);
    else
        start_round(r);
}

void dispatch_abandon(running *r)
{
    if (r->begun) {
        waiters_abandon(r->dispatch->options.waiters, &r->waiter);
        return;
    }
    lks_error_set(&r->error, LKS_CANCELLED, LKS_APPLIED_NO, "the caller is gone");
    end(r, NULL, &r->error);
}

static void on_abandoned(caller_call *call)
{
    dispatch_abandon(running_of(call));
}

/* Unpacks and plans a call. */
static lks_code prepare(running *r, const dispatch_call *call, lks_rpc_slice ns, void *state, lks_rpc_arena *arena)
{
    const lks_rpc_method *method = r->method->method;
    ProtobufCMessage *request;

    if (lks_rpc_request_unpack(method, call->payload, call->len, arena, &request, &r->error) != LKS_OK)
        return r->error.code;
    r->request = request;
    r->deadline_ns = deadline_of(r->dispatch, call, method, request);
    if (r->deadline_ns == 0)
        return lks_error_set(&r->error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "the deadline was over on arrival");
    r->call.waits = lks_rpc_wait_ms(method, request) > 0;
    if (call->order && r->call.waits)
        return lks_error_set(&r->error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "wait_ms: a call that waits must be alone in its frame");
    r->plan = (plan){.arena = arena,
                     .method = method,
                     .ns = ns,
                     .server = r->dispatch->options.server,
                     .state = state,
                     .now_ns = lks_rpc_now_ns(),
                     .repeat_ms = call->timeout_ms ? call->timeout_ms : r->dispatch->options.timeout_ms};
    if (ns.len == 0)
        r->plan.ns = lks_rpc_slice_of("default");
    else if (!(r->plan.ns.data = lks_rpc_arena_copy(arena, ns.data, ns.len))) /* who judged may go */
        return lks_error_set(&r->error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    r->method->prepare(request, &r->plan);
    if (plan_failed(&r->plan))
        r->error = r->plan.error;
    return r->error.code;
}

void dispatch_call_start(dispatch *d, const dispatch_call *call, lks_rpc_arena *arena, dispatch_done *done, void *arg)
{
    lks_error error = {0};
    identity_verdict verdict;
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, call->path);
    running *r = NULL;

    if (judge(d, &call->who, route ? route->method : NULL, &verdict, &error) == LKS_OK) {
        if (verdict.ns.len > SERVICE_NAME_BYTES_MAX)
            lks_error_set(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                          "metadata lockstock-namespace: must be 1 to %d bytes long", SERVICE_NAME_BYTES_MAX);
        else if (!(r = lks_rpc_arena_alloc(arena, sizeof *r)))
            lks_error_set(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    }
    if (!r) {
        done(arg, route ? route->method : NULL, NULL, &error);
        return;
    }
    if (d->judge)
        budget_set_principal(caller_bytes(call->caller), verdict.principal);
    const target *t = route->target;
    *r = (running){.dispatch = d,
                   .method = t->method,
                   .handle = call->handle,
                   .call = {.settles = route->method->settles, .start = on_start, .abandoned = on_abandoned},
                   .received_ns = call->received_ns,
                   .done = done,
                   .arg = arg};
    if (r->handle)
        *r->handle = r;
    if (prepare(r, call, verdict.ns, t->state, arena) != LKS_OK) {
        end(r, NULL, &r->error);
        return;
    }
    r->call.caller = call->caller;
    if (call->order) {
        r->order = call->order;
        TAILQ_INSERT_TAIL(&call->order->calls, r, in_order);
        r->held = must_wait(r);
    }
    if (!r->held)
        admit(r, verdict.principal);
}
