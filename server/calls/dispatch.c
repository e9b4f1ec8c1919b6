/* Starts a call: finds its method, checks the caller's rights, plans it, and has it admitted. */
#include "calls/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "memory.h"
#include "rpc/waits.h"

static void on_alarm_called(void *arg, const store_call *call)
{
    const dispatch *d = arg;

    for (size_t s = 0; s < SERVICES; s++)
        if (all_services[s]->on_store_call)
            all_services[s]->on_store_call(d->states[s], call);
}

dispatch *dispatch_new(const dispatch_options *options)
{
    dispatch *d = memory_alloc(sizeof *d);
    size_t n = 0;

    for (size_t s = 0; s < SERVICES; s++)
        n += all_services[s]->n_methods;
    d->options = *options;
    d->targets = memory_alloc(n * sizeof *d->targets);
    d->routes = memory_alloc(n * sizeof *d->routes);
    for (size_t s = 0; s < SERVICES; s++) {
        d->states[s] = all_services[s]->open ? all_services[s]->open(&options->services) : NULL;
        for (size_t m = 0; m < all_services[s]->n_methods; m++) {
            call_target *t = &d->targets[d->n_routes];
            *t = (call_target){.dispatch = d,
                               .method = &all_services[s]->methods[m],
                               .service = all_services[s],
                               .state = d->states[s],
                               .may_wait = waits_field(all_services[s]->methods[m].method->request)};
            d->routes[d->n_routes++] = (lks_rpc_route){.method = t->method->method, .target = t};
        }
    }
    alarms_on_call(options->alarms, on_alarm_called, d);
    lks_rpc_routes_sort(d->routes, d->n_routes, NULL); /* the names of services are unique */
    d->meter = rpc_meter_new(d->routes, d->n_routes);
    if (!d->meter)
        abort(); /* as memory_alloc */
    return d;
}

void dispatch_set_identity(dispatch *d, const identity *rights)
{
    d->identity = rights;
}

/* method NULL: no such method; only admitted callers may learn that. */
static lks_code check_rights(const dispatch *d, const credentials *who, const lks_rpc_method *method,
                             identity_verdict *ret, lks_error *error)
{
    *ret = (identity_verdict){.ns = who->ns};
    if (who->twice) /* a proxy in front of this server may have used the other one */
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "metadata %s: given more than once",
                             who->twice);
    lks_code code = d->identity ? identity_admit(d->identity, who, method, time(NULL), ret, error) : LKS_OK;
    if (code == LKS_OK && !method)
        code = lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: this server has no such method");
    return code;
}

void dispatch_write_metrics(const dispatch *d, metrics_text *t)
{
    static const char *const names[] = {
        [CALL_QUEUE] = "stage=\"queue\"", [CALL_STORE] = "stage=\"store\"", [CALL_WAIT] = "stage=\"wait\""};

    rpc_meter_write(d->meter, t);
    metrics_begin(t, METRICS_STAGES);
    for (int i = 0; i < CALL_STAGES; i++)
        metrics_durations(t, names[i], &d->stages[i]);
}

void dispatch_stop(dispatch *d)
{
    d->stopped = true;
}

void dispatch_free(dispatch *d)
{
    if (d) {
        for (size_t s = 0; s < SERVICES; s++)
            if (d->states[s])
                all_services[s]->close(d->states[s]);
        rpc_meter_free(d->meter);
        free(d->targets);
        free(d->routes);
    }
    free(d);
}

/* Returns the deadline of a call that may wait for `wait_ms`. */
static uint64_t deadline_of(const dispatch *d, const sink_call *call, uint64_t wait_ms)
{
    uint64_t limit_ms = d->options.timeout_max_ms + wait_ms;
    uint64_t timeout_ms = call->timeout_ms ? call->timeout_ms : d->options.timeout_ms + wait_ms;

    return call->received_ns + (timeout_ms < limit_ms ? timeout_ms : limit_ms) * 1000000;
}

/* A call that occupies the store for long takes more places, because its replies come one after another. */
static uint32_t more_places(const plan *p)
{
    uint32_t weight = 0;

    for (size_t i = 0; i < p->n_calls; i++)
        weight += p->calls[i].weight > 0 ? p->calls[i].weight : STORE_WEIGHT_MAX;
    return weight > 0 ? weight - 1 : 0;
}

static void admit(running *r, const char *who)
{
    r->call.more = more_places(&r->work->rounds.plan);
    if (caller_admit(&r->call, who, &r->work->rounds.error) == LKS_OK)
        return; /* the call may have ended */
    audit_refusal(&r->target->dispatch->audit, r->target->method->method, r->call.caller, NULL, &r->work->rounds.error);
    r->call.caller = NULL;
    r->work->origin = NULL;
    running_end(r);
}

/* Returns false, with rounds.error set, if a quota is used up. */
static bool is_within_quotas(running *r)
{
    quotas *q = r->target->dispatch->options.quotas;
    const lks_rpc_method *method = r->target->method->method;
    bool takes = method->effect == LKS_RPC_EFFECT_WRITE && !method->settles;
    const plan *p = &r->work->rounds.plan;
    lks_error *error = &r->work->rounds.error;

    if (!q)
        return true;
    for (size_t i = 0; takes && i < p->n_calls; i++)
        if (quotas_check(q, p->calls[i].base, p->ns, error) != LKS_OK)
            return false;
    return !r->call.waits || quotas_wait(q, p->ns, &r->of_namespace, error) == LKS_OK;
}

static uint32_t lock_slack_ms(const service_options *services, lks_rpc_slice ns)
{
    return services->lock_slack_ms ? services->lock_slack_ms(services->lock_store, ns) : 0;
}

/* Unpacks and plans a call. Returns false with rounds.error set. */
static bool prepare(running *r, const sink_call *call, const identity_verdict *verdict, const call_target *t,
                    lks_rpc_arena *arena)
{
    lks_rpc_slice ns = verdict->ns;
    const dispatch_options *options = &r->target->dispatch->options;
    const lks_rpc_method *method = t->method->method;
    lks_error *error = &r->work->rounds.error;
    ProtobufCMessage *request;

    if (lks_rpc_request_unpack(method, call->payload, call->len, arena, &request, error) != LKS_OK)
        return false;
    int64_t wait_ms = lks_rpc_wait_ms(method, request);
    r->deadline_ns = deadline_of(r->target->dispatch, call, (uint64_t)wait_ms);
    uint64_t now_ns = clock_now_ns();
    if (r->deadline_ns <= now_ns) {
        lks_error_set_reason(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "the deadline had passed on arrival");
        return false;
    }
    r->call.waits = wait_ms > 0;
    if (t->may_wait && !r->call.waits && !method->settles &&
        caller_refuse_if_late(call->caller, r->deadline_ns, error) != LKS_OK)
        return false;
    if (call->message && r->call.waits) {
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "wait_ms: a call that waits must be alone in its frame");
        return false;
    }
    if (ns.len == 0)
        ns = lks_rpc_slice_of("default");
    else
        ns.data = memory_copy_in(arena, ns.data, ns.len); /* the identity may be replaced */
    char *trace = NULL;
    if (r->span && r->span->own.sampled) {
        trace = memory_in(arena, TRACE_PARENT_CHARS + 1);
        trace_context_write(&r->span->own, trace);
    }
    const plan settings = {.arena = arena,
                           .ns = ns,
                           .caller = &verdict->caller,
                           .server = options->server,
                           .trace = trace,
                           .service = t->service,
                           .state = t->state,
                           .now_ns = now_ns,
                           .lock_slack_ms = lock_slack_ms(&options->services, ns),
                           .repeat_ms = call->timeout_ms ? call->timeout_ms : options->timeout_ms};
    return rounds_plan(&r->work->rounds, t->method, request, &settings) && is_within_quotas(r);
}

static void on_take(void *sink_arg, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    dispatch *d = sink_arg;
    lks_error error = {0};
    identity_verdict verdict;
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, call->path);
    const lks_rpc_method *method = route ? route->method : NULL;
    lks_code code = check_rights(d, &call->who, method, &verdict, &error);

    rpc_meter_started(d->meter, method);
    if (code == LKS_OK && verdict.ns.len > SERVICE_NAME_BYTES_MAX)
        code = lks_error_set(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "metadata lockstock-namespace: must be 1 to %d bytes long", SERVICE_NAME_BYTES_MAX);
    if (code == LKS_OK && d->stopped) {
        running_refuse_stopping(&error);
        code = error.code;
    }
    const call_target *t = route ? route->target : NULL;
    if (code == LKS_OK && !method->settles && !t->may_wait)
        code = caller_refuse_if_late(call->caller, deadline_of(d, call, 0), &error);
    span *traced = method ? tracing_begin(d->options.tracing, call, method) : NULL;
    if (code != LKS_OK) {
        uint64_t now_ns = clock_now_ns();
        rpc_meter_handled(d->meter, method, NULL, &error, now_ns - call->received_ns);
        if (traced)
            tracing_end(d->options.tracing, traced, &error, now_ns, false);
        audit_refusal(&d->audit, method, call->caller, verdict.caller.principal, &error);
        done(arg, method, NULL, &error, NULL);
        return;
    }
    if (d->identity)
        budget_set_principal(caller_bytes(call->caller), verdict.caller.principal);
    running *r = memory_alloc(sizeof *r);
    *r = (running){.target = t,
                   .work = memory_in(arena, sizeof *r->work),
                   .lender = call->lender,
                   .handle = call->handle,
                   .call = {.settles = route->method->settles, .ops = &running_ops},
                   .received_ns = call->received_ns,
                   .stage_ns = call->received_ns,
                   .span = traced,
                   .done = done,
                   .arg = arg};
    *r->work = (work){.rounds.method = t->method};
    if (r->handle)
        *r->handle = r;
    if (!prepare(r, call, &verdict, t, arena)) {
        running_end(r);
        return;
    }
    r->call.caller = call->caller;
    if (route->method->effect == LKS_RPC_EFFECT_ADMIN)
        r->work->origin = audit_origin_new(arena, call->caller, verdict.caller.principal);
    r->work->message = call->message;
    admit(r, verdict.caller.principal);
}

/* ---- the sink ----------------------------------------------------------------------- */

static caller *on_open(void *arg, const sink_connection *connection)
{
    const dispatch *d = arg;
    caller *c = caller_new(d->options.callers, connection->bytes, connection->on_room, connection->arg);

    if (c)
        caller_name(c, connection->peer.wire, connection->peer.address);
    if (c && connection->origin)
        caller_set_owner(c, connection->origin);
    return c;
}

static const lks_rpc_method *on_method(void *arg, const char *path)
{
    const dispatch *d = arg;
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, path);

    return route ? route->method : NULL;
}

static lks_code on_check(void *arg, const caller *from, const credentials *who, const char *path, lks_rpc_effect effect,
                         lks_error *error)
{
    dispatch *d = arg;
    const lks_rpc_method elsewhere = {.path = path, .effect = effect};
    const lks_rpc_method *method = effect ? &elsewhere : on_method(d, path);
    identity_verdict verdict;

    lks_code code = check_rights(d, who, method, &verdict, error);
    if (code != LKS_OK)
        audit_refusal(&d->audit, method, from, verdict.caller.principal, error);
    return code;
}

sink dispatch_sink(dispatch *d)
{
    return (sink){.open = on_open,
                  .lost = caller_lost,
                  .hold = caller_hold,
                  .queues = caller_queues,
                  .method = on_method,
                  .check = on_check,
                  .take = on_take,
                  .abandon = running_abandon,
                  .arg = d};
}
