/* Runs a call: its rounds of store calls, its parking, its end. Invariant: `done` runs exactly once for a call,
 * after the call has left its caller. */
#include "calls/running.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "log.h"
#include "memory.h"

static const char shutting_down[] = "the server is shutting down";

void running_refuse_stopping(lks_error *error)
{
    lks_error_set_reason(error, LKS_UNAVAILABLE, LKS_APPLIED_NO, LKS_REASON_SHUTTING_DOWN, "%s", shutting_down);
}

enum {
    LAST_ROUND_MS = 250, /* time before the deadline that is reserved for the round after the wait */
    PARKED_BYTES = 1024  /* memory of an ordinary parked call; the number of parked calls is limited separately */
};

static alarms *alarms_of(const running *r)
{
    return r->target->dispatch->options.alarms;
}

/* ---- stages --------------------------------------------------------------------- */

/* Ends the current stage and begins another. */
static void end_stage(running *r, call_stage stage, uint64_t now_ns)
{
    static const char *const names[] = {[CALL_QUEUE] = "queue", [CALL_STORE] = "store", [CALL_WAIT] = "wait"};

    if (r->span)
        tracing_stage(r->span, names[stage], r->stage_ns, now_ns);
    r->spent_ns[stage] += now_ns - r->stage_ns;
    r->stage_ns = now_ns;
}

static unsigned long long ms(uint64_t ns)
{
    return ns / 1000000;
}

/* A wait that the caller asked for does not make a call slow. */
static bool is_slow(const running *r, uint64_t took_ns)
{
    uint32_t limit_ms = r->target->dispatch->options.slow_call_ms;

    return limit_ms > 0 && ms(took_ns - r->spent_ns[CALL_WAIT]) >= limit_ms;
}

static void log_slow(const running *r, const rounds *answered, uint64_t took_ns)
{
    log_warn("slow-call", "method=%s code=%s ms=%llu queue-ms=%llu store-ms=%llu wait-ms=%llu store-calls=%u waits=%u",
             answered->method->method->path + 1, lks_code_name(answered->error.code), ms(took_ns),
             ms(r->spent_ns[CALL_QUEUE]), ms(r->spent_ns[CALL_STORE]), ms(r->spent_ns[CALL_WAIT]), r->store_calls,
             r->waits);
}

static void end_span(running *r, const lks_error *error, uint64_t now_ns, bool slow)
{
    r->span->store_calls = r->store_calls;
    r->span->waits = r->waits;
    tracing_end(r->target->dispatch->options.tracing, r->span, error, now_ns, slow);
    r->span = NULL;
}

static void measure(running *r, const rounds *answered)
{
    dispatch *d = r->target->dispatch;
    uint64_t now_ns = clock_now_ns(), took_ns = now_ns - r->received_ns;

    end_stage(r, r->call.state == CALL_RUNNING ? CALL_STORE : CALL_QUEUE, now_ns);
    for (int i = 0; i < CALL_STAGES; i++)
        if (r->spent_ns[i] > 0)
            metrics_observe(&d->stages[i], r->spent_ns[i]);
    uint64_t *count =
        rpc_meter_handled(d->meter, answered->method->method, answered->response, &answered->error, took_ns);
    count[RPC_METER_UNITS] += answered->units;
    count[RPC_METER_STORE_CALLS] += r->store_calls;
    count[RPC_METER_WITHOUT_STORE] += answered->error.code == LKS_OK && r->store_calls == 0;
    bool slow = is_slow(r, took_ns);
    if (slow)
        log_slow(r, answered, took_ns);
    if (r->span)
        end_span(r, &answered->error, now_ns, slow);
}

/* ---- the end ------------------------------------------------------------------------ */

/* Removes as soon as possible what the call may have left in the store. Calls `done` last: the transport may reset the
 * arena. */
void running_end(running *r)
{
    const rounds *answered = &r->work->rounds;
    const service_alarm *left = answered->response ? NULL : rounds_undo(answered);
    const lks_rpc_method *method = answered->method->method;

    measure(r, answered);
    if (left)
        alarms_set(alarms_of(r), left);
    waiters_leave(r->target->dispatch->options.waiters, &r->waiter);
    if (r->work->origin)
        audit_call(method, r->work->origin, answered->plan.ns, answered->request, answered->response, &answered->error);
    if (r->parked) {
        budget_unnote(r->target->dispatch->options.memory, PARKED_BYTES);
        budget_give(caller_bytes(r->call.caller), r->parked->held);
    }
    caller_leave(&r->call);
    quotas_leave(r->target->dispatch->options.quotas, r->of_namespace);
    if (r->handle)
        *r->handle = NULL;
    sink_done *done = r->done;
    void *arg = r->arg;
    free(r->parked);
    free(r->event.numbers);
    free(r);
    done(arg, method, answered->response, &answered->error, NULL);
}

static void on_undone(void *arg, bool is_done)
{
    running *r = arg;

    if (is_done)
        r->work->rounds.plan.undo.function = NULL;
    running_end(r);
}

/* Removes from the store what an abandoned call has left there. This is a part of the call: it takes the call's places,
 * in the turn of the call's owner, so an owner that abandons many calls pays for it. Returns false if nothing is
 * left. */
static bool undo(running *r)
{
    const service_alarm *left = rounds_undo(&r->work->rounds);

    if (!left || r->target->dispatch->stopped)
        return false;
    alarms_call(alarms_of(r), left, r->work->rounds.plan.calls[0].weight, on_undone, r);
    return true;
}

/* ---- parking ----------------------------------------------------------------------- */

/* Allocates the parked state, and moves the waiter's key and watches to it. */
static parked *new_parked(running *r)
{
    lks_rpc_slice key = r->work->rounds.plan.wait_key;
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
    waiters_moved(&r->waiter, memcpy((char *)p->rounds + rounds_bytes, key.data, key.len), n > 0 ? p->watches : NULL);
    return p;
}

/* Packs the call and gives its arena back. */
static void park_call(running *r)
{
    if (!r->parked) {
        r->parked = new_parked(r);
        budget_note(r->target->dispatch->options.memory, PARKED_BYTES);
        if (r->parked->held > 0)
            budget_force(caller_bytes(r->call.caller), r->parked->held);
    }
    end_stage(r, CALL_STORE, clock_now_ns());
    r->waits++;
    r->work = NULL;
    r->lender->give(r->arg);
    caller_park(&r->call);
}

/* Undoes park_call: unpacks the call into a new arena. */
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

/* Sets the event for the next round. */
static void set_event(running *r, service_event event)
{
    size_t bytes = event.n_numbers * sizeof *event.numbers;

    free(r->event.numbers);
    r->event = event;
    if (event.kind == SERVICE_GRANTED) {
        r->event.numbers = memcpy(memory_alloc(bytes + event.to.len), event.numbers, bytes);
        r->event.to.data = memcpy((char *)r->event.numbers + bytes, event.to.data, event.to.len);
    }
}

/* Takes the pending event of the highest priority. Returns false if none is pending. */
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

/* A grant that comes while the call has a store call under way may be older than the reply: the call asks again. */
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
    on_event(container_of(w, running, waiter), event);
}

/* ---- store calls ---------------------------------------------------------------------- */

/* The store call that a store callback is about. */
typedef struct awaited {
    running *running;
    size_t call;
} awaited;

static void on_store(void *arg, const store_result *result);

/* The store never answers from inside store_submit. */
static void make_calls(running *r)
{
    plan *p = &r->work->rounds.plan;
    awaited *to = memory_in(p->arena, p->n_calls * sizeof *to);

    r->store_calls += (uint32_t)p->n_calls;
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

static void set_alarms(const running *r)
{
    for (const service_alarm *alarm = r->work->rounds.alarms; alarm; alarm = alarm->next)
        alarms_set(alarms_of(r), alarm);
}

/* Acts on the new state after a step of the rounds. */
static void handle_state(running *r, rounds_state state)
{
    if (state == ROUNDS_EXPECTS)
        return;
    set_alarms(r);
    while (state == ROUNDS_WAITS && take_pending(r)) {
        state = rounds_wake(&r->work->rounds, r->event, clock_now_ns());
        set_alarms(r);
    }
    if (state == ROUNDS_WAITS) {
        park_call(r);
    } else if (state == ROUNDS_CALLS && !r->target->dispatch->stopped) {
        make_calls(r);
    } else {
        if (state == ROUNDS_CALLS)
            refuse_calls(r);
        if (r->event.kind != SERVICE_ABANDONED || !undo(r))
            running_end(r);
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
    handle_state(r, rounds_reply(&r->work->rounds, to->call, &kept, clock_now_ns()));
}

/* ---- begin, resume, abandon --------------------------------------------------------- */

/* Returns the end of the wait: early enough for its last round to end by the deadline. */
static uint64_t wait_until(const running *r)
{
    uint64_t wait_ns = (uint64_t)lks_rpc_wait_ms(r->work->rounds.method->method, r->work->rounds.request) * 1000000;
    uint64_t last_ns = (uint64_t)LAST_ROUND_MS * 1000000;
    uint64_t half_ns = (r->deadline_ns - r->received_ns) / 2;
    uint64_t latest_ns = r->deadline_ns - (last_ns < half_ns ? last_ns : half_ns);

    return r->received_ns + wait_ns < latest_ns ? r->received_ns + wait_ns : latest_ns;
}

static running *running_of(caller_call *call)
{
    return container_of(call, running, call);
}

/* Returns false with rounds.error set. */
static bool may_begin(running *r, uint64_t now_ns)
{
    lks_error *error = &r->work->rounds.error;

    if (r->target->dispatch->stopped)
        running_refuse_stopping(error);
    else if (r->deadline_ns <= now_ns)
        lks_error_set_reason(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, LKS_REASON_DEADLINE_BEFORE_START,
                             "the deadline passed before there was room");
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

    end_stage(r, CALL_QUEUE, now_ns);
    if (!may_begin(r, now_ns)) {
        running_end(r);
        return;
    }
    if (p->wait_key.len > 0) { /* before the first store call: the message may come before the reply */
        r->waiter = (waiter){.on_event = on_waiter_event, .released_by = r->span ? &r->span->released_by : NULL};
        waiters_enter(r->target->dispatch->options.waiters, &r->waiter, p->wait_key, p->watches, wait_until(r));
    }
    handle_state(r, rounds_start(&r->work->rounds, now_ns));
}

static void on_resume(caller_call *call)
{
    running *r = running_of(call);

    end_stage(r, CALL_WAIT, clock_now_ns());
    restore_call(r);
    handle_state(r, rounds_wake(&r->work->rounds, r->event, clock_now_ns()));
}

void running_abandon(running *r)
{
    if (r->call.state != CALL_QUEUED) {
        on_event(r, (service_event){.kind = SERVICE_ABANDONED});
        return;
    }
    lks_error_set_reason(&r->work->rounds.error, LKS_CANCELLED, LKS_APPLIED_NO, LKS_REASON_CANCELLED,
                         "the caller is gone");
    running_end(r);
}

static void on_abandoned(caller_call *call)
{
    running_abandon(running_of(call));
}

const call_ops running_ops = {.begin = on_begin, .resume = on_resume, .abandoned = on_abandoned};
