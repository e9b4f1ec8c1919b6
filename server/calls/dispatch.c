/* Invariant: done runs exactly once for a call: at refusal, at the plan's own answer, or
 * when the last of a round of store calls has ended and the service does not wait for
 * more; and a call that was admitted leaves its caller before. */
#include "calls/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/rpc/exchange.h>

#include "base/clock.h"
#include "calls/audit.h"
#include "calls/waiters.h"
#include "memory.h"
#include "services/rounds.h"
#include "services/service.h"

static const char shutting_down[] = "the server is shutting down";

enum {
    LAST_ROUND_MS = 250, /* kept of the deadline for what a waiting call asks when its time is up */
};

/* That the store may take to end what an abandoned call began. */
#define UNDO_NS (UINT64_C(5) * 1000000000)

/* A method, its service, and what that keeps in this server. */
typedef struct target {
    dispatch *dispatch;
    const service_method *method;
    const service *service;
    void *state;
} target;

struct dispatch {
    dispatch_options options;
    void *states[SERVICES];
    target *targets;
    lks_rpc_route *routes; /* target: target */
    size_t n_routes;
    const identity *judge;
    audit audit;
    bool stopped; /* the store is asked nothing more */
};

/* One call. call.state is its state (callers.h). Its work is in an arena that the engine lends it, except while it is PARKED
 * or WOKEN: then `parked` has what it needs to resume. */
struct running {
    const target *target;
    struct work *work;
    struct parked *parked; /* from its first wait on */
    caller_call call;
    service_event event; /* that its current round is about; the numbers are the call's own */
    unsigned pending;    /* kinds of events that came while it was not PARKED, a bit each */
    running **handle;
    uint64_t deadline_ns;
    waiter waiter;
    named_entry *of_namespace; /* that it counts for while it waits; NULL: nobody counts */
    sink_done *done;
    const sink_lender *lender;
    void *arg;
};

/* State that does not exist while the call is parked. */
typedef struct work {
    rounds rounds;
    uint64_t received_ns;
    const audit_origin *origin;  /* of an ADMIN call; else NULL */
    const sink_message *message; /* NULL: the call is alone in its message */
} work;

/* State that a parked call needs in addition to struct running, in one allocation. */
typedef struct parked {
    size_t held; /* of its connection's bytes: an ordinary call holds none */
    rounds_packed *rounds;
    watched watches[];
} parked;

/* Which of its store calls a store callback is about. */
typedef struct awaited {
    running *running;
    size_t call;
} awaited;

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
            target *t = &d->targets[d->n_routes];
            *t = (target){.dispatch = d,
                          .method = &all_services[s]->methods[m],
                          .service = all_services[s],
                          .state = d->states[s]};
            d->routes[d->n_routes++] = (lks_rpc_route){.method = t->method->method, .target = t};
        }
    }
    alarms_tell(options->alarms, on_alarm_called, d);
    lks_rpc_routes_sort(d->routes, d->n_routes, NULL); /* no service has another's name */
    return d;
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
    lks_code code = d->judge ? identity_admit(d->judge, who, method, time(NULL), ret, error) : LKS_OK;
    if (code == LKS_OK && !method)
        code = lks_error_set(error, LKS_UNIMPLEMENTED, LKS_APPLIED_NO, "method: this server has no such method");
    return code;
}

lks_code dispatch_judge(dispatch *d, const caller *from, const credentials *who, const lks_rpc_method *method,
                        lks_error *error)
{
    identity_verdict verdict;

    lks_code code = judge(d, who, method, &verdict, error);
    if (code != LKS_OK)
        audit_refusal(&d->audit, method, from, verdict.principal, error);
    return code;
}

lks_code dispatch_would_take(dispatch *d, const caller *from, const credentials *who, const char *path,
                             lks_error *error)
{
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, path);

    return dispatch_judge(d, from, who, route ? route->method : NULL, error);
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
        free(d->targets);
        free(d->routes);
    }
    free(d);
}

/* It was let in, and has a plan. */
static void tell_audit(const running *r)
{
    const rounds *answered = &r->work->rounds;

    if (r->work->origin)
        audit_call(answered->method->method, r->work->origin, answered->plan.ns, answered->request, answered->response,
                   &answered->error);
}

/* Ends a call. What may be left of it in the store is taken out there in any case, as soon as it
 * can be. The last line: the transport may reset the arena. */
static void end(running *r)
{
    const service_alarm *left = r->work->rounds.response ? NULL : rounds_undo(&r->work->rounds);

    if (left)
        alarms_set_lasting(r->target->dispatch->options.alarms, left->base, left->function, left->argument, 0);
    waiters_leave(r->target->dispatch->options.waiters, &r->waiter);
    tell_audit(r);
    budget_share *bytes = r->parked && r->parked->held > 0 ? caller_bytes(r->call.caller) : NULL;
    caller_leave(&r->call);
    quotas_leave(r->target->dispatch->options.quotas, r->of_namespace);
    if (r->handle)
        *r->handle = NULL;
    if (bytes)
        budget_give(bytes, r->parked->held);
    const rounds *answered = &r->work->rounds;
    sink_done *done = r->done;
    void *arg = r->arg;
    free(r->parked);
    free(r->event.numbers);
    free(r);
    done(arg, answered->method->method, answered->response, &answered->error);
}

/* ---- a call that is abandoned while it waits ------------------------------------ */

/* One call of the store. */
typedef struct undoing {
    running *running;
    store_call call;
    lks_rpc_slice args[1];
} undoing;

/* The function tells whether it has to be called again, and when. */
static bool has_undone(const store_result *result)
{
    const store_value *v = result->value;

    return result->code == LKS_OK && v->type == STORE_ARRAY && v->n == 2 && v->element[1].type == STORE_INTEGER &&
           v->element[1].integer < 0;
}

static void on_undone(void *arg, const store_result *result)
{
    const undoing *u = arg;

    on_alarm_called(u->running->target->dispatch, &u->call);
    if (has_undone(result))
        u->running->work->rounds.plan.undo.function = NULL;
    end(u->running);
}

/* Nobody reads its answer, so what it began is ended as a part of it: with its room to run and to wait, in its owner's
 * turn. Who abandons many calls waits until they are ended. False: there is nothing to be ended this way. */
static bool undo(running *r)
{
    const service_alarm *what = rounds_undo(&r->work->rounds);
    const plan *p = &r->work->rounds.plan;

    if (!what || !r->call.caller || r->target->dispatch->stopped)
        return false;
    undoing *u = memory_in(p->arena, sizeof *u);
    *u = (undoing){.running = r, .args = {what->argument}};
    u->call = (store_call){.base = what->base,
                           .function = what->function,
                           .n_args = 1,
                           .max_args = 1,
                           .args = u->args,
                           .weight = p->calls[0].weight,
                           .repeatable = true};
    store_submit(r->target->dispatch->options.store, &u->call, clock_now_ns() + UNDO_NS, on_undone, u);
    return true;
}

static void set_alarms(alarms *all, const service_alarm *list)
{
    for (const service_alarm *alarm = list; alarm; alarm = alarm->next)
        if (alarm->lasting)
            alarms_set_lasting(all, alarm->base, alarm->function, alarm->argument, alarm->in_ms);
        else
            alarms_set(all, alarm->base, alarm->function, alarm->argument, alarm->in_ms);
}

static void on_store(void *arg, const store_result *result);

/* The store never answers from inside store_submit. */
static void make_calls(running *r)
{
    plan *p = &r->work->rounds.plan;
    awaited *to = memory_in(p->arena, p->n_calls * sizeof *to);

    for (size_t i = 0; i < p->n_calls; i++) {
        to[i] = (awaited){.running = r, .call = i};
        store_submit(r->target->dispatch->options.store, &p->calls[i], r->deadline_ns, on_store, &to[i]);
    }
}

static void refuse_calls(running *r)
{
    const store_result refused = {.code = LKS_UNAVAILABLE,
                                  .applied = LKS_APPLIED_NO,
                                  .reason = LKS_REASON_SHUTTING_DOWN,
                                  .message = shutting_down};

    for (size_t i = r->work->rounds.plan.n_calls; i > 0; i--)
        rounds_reply(&r->work->rounds, i - 1, &refused, clock_now_ns());
}

/* ---- parking ----------------------------------------------------------------------- */

enum { PARKED_BYTES = 1024 }; /* of an ordinary call; how many calls may be parked is limited by their number */

/* Moves the key and the watches of the waiter there, too. */
static parked *new_parked(running *r)
{
    lks_rpc_slice key = r->waiter.by_key.key;
    size_t n = 0, i = 0;

    for (const watched *w = r->waiter.watches; w; w = w->next)
        n++;
    size_t rounds_bytes = rounds_packed_bytes(&r->work->rounds);
    size_t bytes = sizeof(parked) + n * sizeof(watched) + rounds_bytes + key.len;
    parked *p = memory_alloc(bytes);
    p->held = bytes > PARKED_BYTES ? bytes - PARKED_BYTES : 0;
    p->rounds = (rounds_packed *)(void *)&p->watches[n];
    for (const watched *w = r->waiter.watches; w; w = w->next, i++)
        p->watches[i] = (watched){.next = i + 1 < n ? &p->watches[i + 1] : NULL, .alarm = w->alarm};
    rounds_pack(&r->work->rounds, p->rounds);
    key.data = memcpy((char *)p->rounds + rounds_bytes, key.data, key.len);
    waiters_moved(&r->waiter, key, n > 0 ? p->watches : NULL);
    return p;
}

/* Packs the call and gives its arena back. */
static void park_call(running *r)
{
    if (!r->parked) {
        r->parked = new_parked(r);
        if (r->parked->held > 0)
            budget_force(caller_bytes(r->call.caller), r->parked->held);
    }
    r->work = NULL;
    r->lender->give(r->arg);
    caller_park(&r->call);
}

/* The opposite: unpacks the call into a new arena. */
static void restore_call(running *r)
{
    lks_rpc_arena *arena = r->lender->take(r->arg);

    if (!arena)
        abort(); /* as memory_alloc */
    r->work = memory_in(arena, sizeof *r->work);
    rounds_unpack(&r->work->rounds, r->target->method, r->parked->rounds,
                  &(plan){.arena = arena,
                          .server = r->target->dispatch->options.server,
                          .service = r->target->service,
                          .state = r->target->state,
                          .now_ns = clock_now_ns()});
}

/* The next round is about that event. */
static void set_event(running *r, service_event event)
{
    size_t bytes = event.n_numbers * sizeof *event.numbers;

    free(r->event.numbers);
    r->event = event;
    if (bytes > 0)
        r->event.numbers = memcpy(memory_alloc(bytes), event.numbers, bytes);
}

/* Takes the pending event of the highest priority; false: none is pending. */
static bool take_pending(running *r)
{
    for (int kind = SERVICE_STOPPING; kind < SERVICE_N_EVENTS; kind++)
        if (r->pending & (1U << kind)) {
            r->pending &= ~(1U << kind);
            set_event(r, (service_event){.kind = (service_event_kind)kind});
            return true;
        }
    return false;
}

/* A grant that comes while the call asks the store may be older than the reply: the call asks again. */
static void on_event(running *r, service_event event)
{
    if (r->call.state == CALL_PARKED) {
        set_event(r, event);
        caller_resume(&r->call);
    } else {
        r->pending |= 1U << (event.kind == SERVICE_GRANTED ? SERVICE_WOKEN : event.kind);
    }
}

static void on_waiter_event(waiter *w, service_event event)
{
    on_event((running *)((char *)w - offsetof(running, waiter)), event);
}

/* Does what a step of its rounds has come to. */
static void go_on(running *r, rounds_state state)
{
    if (state == ROUNDS_EXPECTS)
        return;
    set_alarms(r->target->dispatch->options.alarms, r->work->rounds.alarms);
    while (state == ROUNDS_WAITS && take_pending(r)) {
        state = rounds_wake(&r->work->rounds, r->event, clock_now_ns());
        set_alarms(r->target->dispatch->options.alarms, r->work->rounds.alarms);
    }
    if (state == ROUNDS_WAITS) {
        park_call(r);
    } else if (state == ROUNDS_CALLS && !r->target->dispatch->stopped) {
        make_calls(r);
    } else {
        if (state == ROUNDS_CALLS)
            refuse_calls(r);
        if (r->event.kind != SERVICE_ABANDONED || !undo(r))
            end(r);
    }
}

static size_t bytes_of(const store_value *value)
{
    size_t bytes = value->string.len;

    for (size_t i = 0; i < value->n; i++)
        bytes += bytes_of(&value->element[i]);
    return bytes;
}

static void on_store(void *arg, const store_result *result)
{
    const awaited *to = arg;
    running *r = to->running;
    store_result kept = *result;

    if (result->code == LKS_OK)
        kept.value = store_value_copy(r->work->rounds.plan.arena, result->value);
    if (r->call.more > 0)
        caller_had_answer(r->call.caller, result->code == LKS_OK ? bytes_of(result->value) : 0);
    go_on(r, rounds_reply(&r->work->rounds, to->call, &kept, clock_now_ns()));
}

/* As far as is known before its request is read: without what it asks to wait. */
static uint64_t first_deadline_of(const dispatch *d, const sink_call *call)
{
    return call->received_ns + (uint64_t)(call->timeout_ms ? call->timeout_ms : d->options.timeout_ms) * 1000000;
}

/* The call's deadline; 0 when it is past already. */
static uint64_t deadline_of(const dispatch *d, const sink_call *call, const lks_rpc_method *method,
                            const ProtobufCMessage *request)
{
    uint64_t wait = (uint64_t)lks_rpc_wait_ms(method, request);
    uint64_t limit = d->options.timeout_max_ms + wait;
    uint64_t timeout = call->timeout_ms ? call->timeout_ms : d->options.timeout_ms + wait;
    uint64_t deadline = call->received_ns + (timeout < limit ? timeout : limit) * 1000000;

    return deadline > clock_now_ns() ? deadline : 0;
}

/* What holds up the store for long takes more of the room to run: its answers come one after the other. */
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
        return; /* it may be over */
    audit_refusal(&r->target->dispatch->audit, r->target->method->method, r->call.caller, NULL, &r->work->rounds.error);
    r->call.caller = NULL;
    r->work->origin = NULL;
    end(r);
}

/* ---- a call begins ------------------------------------------------------------ */

/* When its wait is over; early enough that its last round ends by the deadline. */
static uint64_t wait_until(const running *r)
{
    uint64_t wait_ns = (uint64_t)lks_rpc_wait_ms(r->work->rounds.method->method, r->work->rounds.request) * 1000000;
    uint64_t last_ns = (uint64_t)LAST_ROUND_MS * 1000000;
    uint64_t half_ns = (r->deadline_ns - r->work->received_ns) / 2;
    uint64_t latest_ns = r->deadline_ns - (last_ns < half_ns ? last_ns : half_ns);

    return r->work->received_ns + wait_ns < latest_ns ? r->work->received_ns + wait_ns : latest_ns;
}

static running *running_of(caller_call *call)
{
    return (running *)((char *)call - offsetof(running, call));
}

/* False: rounds.error says why the call is not begun, although there is room. */
static bool may_begin(running *r, uint64_t now_ns)
{
    lks_error *error = &r->work->rounds.error;

    if (r->target->dispatch->stopped)
        lks_error_set_reason(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN, "%s", shutting_down);
    else if (r->deadline_ns <= now_ns)
        lks_error_set_reason(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "the deadline was over before there was room");
    else if (r->work->message && r->work->message->full)
        lks_error_set_reason(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, LKS_REASON_TOO_LARGE, "%s",
                             r->work->message->full);
    return error->code == LKS_OK;
}

static void on_begin(caller_call *call)
{
    running *r = running_of(call);
    const plan *p = &r->work->rounds.plan;
    uint64_t now_ns = clock_now_ns();

    if (!may_begin(r, now_ns)) {
        end(r);
        return;
    }
    if (p->wait_key.len > 0) { /* before the first store call: its message may come before the reply */
        r->waiter = (waiter){.by_key.key = p->wait_key, .on_event = on_waiter_event};
        waiters_enter(r->target->dispatch->options.waiters, &r->waiter, p->watches, wait_until(r));
    }
    go_on(r, rounds_start(&r->work->rounds, now_ns));
}

static void on_resume(caller_call *call)
{
    running *r = running_of(call);

    restore_call(r);
    go_on(r, rounds_wake(&r->work->rounds, r->event, clock_now_ns()));
}

void dispatch_abandon(running *r)
{
    if (r->call.state != CALL_QUEUED) {
        on_event(r, (service_event){.kind = SERVICE_ABANDONED});
        return;
    }
    lks_error_set_reason(&r->work->rounds.error, LKS_CANCELLED, LKS_APPLIED_NO, LKS_REASON_CANCELLED,
                         "the caller is gone");
    end(r);
}

static void on_abandoned(caller_call *call)
{
    dispatch_abandon(running_of(call));
}

/* False: rounds.error says which quota is used up. */
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

/* Unpacks and plans a call; false: rounds.error says why not. */
static bool prepare(running *r, const sink_call *call, lks_rpc_slice ns, const target *t, lks_rpc_arena *arena)
{
    const dispatch_options *options = &r->target->dispatch->options;
    const lks_rpc_method *method = t->method->method;
    lks_error *error = &r->work->rounds.error;
    ProtobufCMessage *request;

    if (lks_rpc_request_unpack(method, call->payload, call->len, arena, &request, error) != LKS_OK)
        return false;
    r->deadline_ns = deadline_of(r->target->dispatch, call, method, request);
    if (r->deadline_ns == 0) {
        lks_error_set_reason(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "the deadline was over on arrival");
        return false;
    }
    r->call.waits = lks_rpc_wait_ms(method, request) > 0;
    if (call->message && r->call.waits) {
        lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                      "wait_ms: a call that waits must be alone in its frame");
        return false;
    }
    if (ns.len == 0)
        ns = lks_rpc_slice_of("default");
    else
        ns.data = memory_copy_in(arena, ns.data, ns.len); /* who judged may go */
    const plan settings = {.arena = arena,
                           .ns = ns,
                           .server = options->server,
                           .service = t->service,
                           .state = t->state,
                           .now_ns = clock_now_ns(),
                           .repeat_ms = call->timeout_ms ? call->timeout_ms : options->timeout_ms};
    return rounds_plan(&r->work->rounds, t->method, request, &settings) && is_within_quotas(r);
}

static const call_ops ops = {.begin = on_begin, .resume = on_resume, .abandoned = on_abandoned};

void dispatch_call_start(dispatch *d, const sink_call *call, lks_rpc_arena *arena, sink_done *done, void *arg)
{
    lks_error error = {0};
    identity_verdict verdict;
    const lks_rpc_route *route = lks_rpc_route_find(d->routes, d->n_routes, call->path);
    lks_code code = judge(d, &call->who, route ? route->method : NULL, &verdict, &error);

    if (code == LKS_OK && verdict.ns.len > SERVICE_NAME_BYTES_MAX)
        code = lks_error_set(&error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "metadata lockstock-namespace: must be 1 to %d bytes long", SERVICE_NAME_BYTES_MAX);
    if (code == LKS_OK && d->stopped)
        code = lks_error_set_reason(&error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN, "%s",
                                    shutting_down);
    if (code == LKS_OK && !route->method->settles)
        code = caller_foresee(call->caller, first_deadline_of(d, call), &error);
    if (code != LKS_OK) {
        audit_refusal(&d->audit, route ? route->method : NULL, call->caller, verdict.principal, &error);
        done(arg, route ? route->method : NULL, NULL, &error);
        return;
    }
    if (d->judge)
        budget_set_principal(caller_bytes(call->caller), verdict.principal);
    const target *t = route->target;
    running *r = memory_alloc(sizeof *r);
    *r = (running){.target = t,
                   .work = memory_in(arena, sizeof *r->work),
                   .lender = call->lender,
                   .handle = call->handle,
                   .call = {.settles = route->method->settles, .ops = &ops},
                   .done = done,
                   .arg = arg};
    *r->work = (work){.rounds.method = t->method, .received_ns = call->received_ns};
    if (r->handle)
        *r->handle = r;
    if (!prepare(r, call, verdict.ns, t, arena)) {
        end(r);
        return;
    }
    r->call.caller = call->caller;
    if (route->method->effect == LKS_RPC_EFFECT_ADMIN)
        r->work->origin = audit_origin_new(arena, call->caller, verdict.principal);
    r->work->message = call->message;
    admit(r, verdict.principal);
}
