/* Invariant: `applied` of an error covers all rounds together: NO only if no round can have had an effect. Used by
 * dispatch, the tests of the services, and the fuzzer. */
#include "services/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

static rounds_state finish(rounds *r, uint64_t now_ns);

static void notify_service(const plan *p, size_t call)
{
    if (p->service->on_store_call)
        p->service->on_store_call(p->state, &p->calls[call]);
}

bool rounds_plan(rounds *r, const service_method *method, const ProtobufCMessage *request, const plan *settings)
{
    *r = (rounds){.method = method, .request = request, .plan = *settings};
    r->plan.method = method->method;
    method->prepare(request, &r->plan);
    r->error = r->plan.error;
    if (plan_failed(&r->plan))
        return false;
    for (size_t i = 0; i < r->plan.n_calls; i++)
        notify_service(&r->plan, i);
    return true;
}

static void begin_plan(rounds *r, uint64_t now_ns)
{
    r->plan.n_calls = 0;
    r->plan.prepares = false;
    r->plan.now_ns = now_ns;
    r->plan.round++;
}

static rounds_state run_plan(rounds *r, uint64_t now_ns)
{
    r->error = r->plan.error;
    return plan_failed(&r->plan) ? ROUNDS_FAILED : rounds_start(r, now_ns);
}

/* A plan without calls is finished at once. */
rounds_state rounds_start(rounds *r, uint64_t now_ns)
{
    size_t n = r->plan.n_calls;
    bool repeatable = lks_rpc_may_repeat(r->method->method, r->request);

    r->alarms = NULL;
    r->plan.asked_ns = now_ns;
    if (n == 0)
        return finish(r, now_ns);
    r->replies = memory_in(r->plan.arena, n * sizeof *r->replies);
    r->missing = n;
    for (size_t i = 0; i < n; i++)
        r->plan.calls[i].repeatable = repeatable;
    return ROUNDS_CALLS;
}

/* Ends a call instead of planning another round. */
static rounds_state end_wait(rounds *r, lks_code code, lks_applied applied, lks_reason reason, const char *message)
{
    lks_error_set_reason(&r->error, code, applied, reason, "%s", message);
    return ROUNDS_FAILED;
}

static bool is_for(const rounds *r, const service_event *event)
{
    const lks_rpc_slice ours = r->plan.undo.argument;

    return ours.len > 0 && event->to.len == ours.len && memcmp(event->to.data, ours.data, ours.len) == 0;
}

/* A grant to another call with the same key may already be revoked: this call asks. */
rounds_state rounds_wake(rounds *r, service_event event, uint64_t now_ns)
{
    begin_plan(r, now_ns);
    r->plan.event = event;
    r->method->prepare(r->request, &r->plan);
    if (event.kind == SERVICE_GRANTED && !is_for(r, &event))
        return rounds_wake(r, (service_event){.kind = SERVICE_WOKEN}, now_ns);
    if (event.kind == SERVICE_ABANDONED)
        return end_wait(r, LKS_CANCELLED, LKS_APPLIED_NO, LKS_REASON_CANCELLED, "the caller's connection is gone");
    if (event.kind == SERVICE_STOPPING) {
        r->plan.undo.function = NULL; /* its place stays in the queue: the caller sends the same call to another
                                       * server */
        return end_wait(r, LKS_UNAVAILABLE, LKS_APPLIED_MAYBE, LKS_REASON_SHUTTING_DOWN, "the server is shutting down");
    }
    return run_plan(r, now_ns);
}

static rounds_state plan_next_round(rounds *r, const answer *a, uint64_t now_ns)
{
    r->had_effect |= a->applied;
    r->any_succeeded = false;
    begin_plan(r, now_ns);
    a->next(r->request, &r->plan);
    if (r->had_effect && plan_failed(&r->plan))
        r->plan.error.applied = LKS_APPLIED_MAYBE;
    return run_plan(r, now_ns);
}

/* Ends a call after an error of the store. */
static rounds_state fail(rounds *r)
{
    if (r->method->method->effect == LKS_RPC_EFFECT_READ)
        r->error.applied = LKS_APPLIED_NO;
    else if (r->any_succeeded || r->had_effect)
        r->error.applied = LKS_APPLIED_MAYBE;
    else if (r->plan.prepares)
        r->error.applied = LKS_APPLIED_NO;
    return ROUNDS_FAILED;
}

static rounds_state finish(rounds *r, uint64_t now_ns)
{
    const lks_rpc_method *method = r->method->method;
    answer a = {.arena = r->plan.arena,
                .plan = &r->plan,
                .replies = r->replies,
                .n_replies = r->plan.n_calls,
                .now_ns = now_ns};

    if (r->error.code != LKS_OK)
        return fail(r);
    ProtobufCMessage *response = memory_in(r->plan.arena, method->response->sizeof_message);
    protobuf_c_message_init(method->response, response);
    r->method->finish(r->request, &a, response);
    r->alarms = a.alarms;
    if (a.error.code != LKS_OK) {
        r->error = a.error;
        if (method->effect == LKS_RPC_EFFECT_READ)
            r->error.applied = LKS_APPLIED_NO;
        return ROUNDS_FAILED;
    }
    if (a.next)
        return plan_next_round(r, &a, now_ns);
    if (a.waits) {
        r->has_waited = true;
        return ROUNDS_WAITS;
    }
    r->response = response;
    r->units = a.units;
    return ROUNDS_ANSWERED;
}

/* A function may return a list of one value as that value (functions/common.lua). */
static const store_value *as_list(lks_rpc_arena *arena, const store_value *value)
{
    if (value->type != STORE_INTEGER && value->type != STORE_STRING)
        return value;
    store_value *list = memory_in(arena, sizeof *list);
    *list = (store_value){.type = STORE_ARRAY, .n = 1, .element = value};
    return list;
}

rounds_state rounds_reply(rounds *r, size_t call, const store_result *result, uint64_t now_ns)
{
    notify_service(&r->plan, call);
    if (result->code == LKS_OK) {
        r->any_succeeded |= !r->plan.prepares;
        r->replies[call] = as_list(r->plan.arena, result->value);
    } else if (r->error.code == LKS_OK) {
        lks_error_set_reason(&r->error, result->code, result->applied, result->reason, "%s", result->message);
        r->error.retry_after_ms = result->retry_after_ms;
    }
    return --r->missing > 0 ? ROUNDS_EXPECTS : finish(r, now_ns);
}

/* ---- packed --------------------------------------------------------------------- */

struct rounds_packed {
    uint32_t repeat_ms, request_len;
    uint16_t round, lock_slack_ms;
    uint8_t ns_len;
    bool any_succeeded, had_effect;
    char id[LKS_RPC_RANDOM_ID_LEN + 1];
    uint8_t bytes[]; /* the request; the namespace */
};

size_t rounds_packed_bytes(const rounds *r)
{
    return sizeof(rounds_packed) + protobuf_c_message_get_packed_size(r->request) + r->plan.ns.len;
}

void rounds_pack(const rounds *r, rounds_packed *packed)
{
    size_t len = protobuf_c_message_get_packed_size(r->request);
    const lks_rpc_slice *ns = &r->plan.ns;

    *packed = (rounds_packed){.repeat_ms = r->plan.repeat_ms,
                              .request_len = (uint32_t)len,
                              .round = (uint16_t)r->plan.round,
                              .lock_slack_ms = (uint16_t)r->plan.lock_slack_ms,
                              .ns_len = (uint8_t)ns->len,
                              .any_succeeded = r->any_succeeded,
                              .had_effect = r->had_effect};
    memcpy(packed->id, r->plan.id, sizeof packed->id);
    protobuf_c_message_pack(r->request, packed->bytes);
    memcpy(packed->bytes + len, ns->data, ns->len);
}

void rounds_unpack(rounds *r, const service_method *method, const rounds_packed *packed, const plan *settings)
{
    ProtobufCAllocator *allocator = lks_rpc_arena_allocator(settings->arena);

    *r = (rounds){.method = method, .plan = *settings, .has_waited = true};
    r->any_succeeded = packed->any_succeeded;
    r->had_effect = packed->had_effect;
    r->request = protobuf_c_message_unpack(method->method->request, allocator, packed->request_len, packed->bytes);
    if (!r->request)
        abort(); /* out of memory, as memory_alloc: this server packed the bytes */
    r->plan.method = method->method;
    r->plan.ns = (lks_rpc_slice){.data = (const char *)packed->bytes + packed->request_len, .len = packed->ns_len};
    r->plan.repeat_ms = packed->repeat_ms;
    r->plan.round = packed->round;
    r->plan.lock_slack_ms = packed->lock_slack_ms;
    memcpy(r->plan.id, packed->id, sizeof packed->id);
}

const service_alarm *rounds_undo(const rounds *r)
{
    const service_alarm *undo = &r->plan.undo;

    return undo->function && (r->has_waited || r->error.applied == LKS_APPLIED_MAYBE) ? undo : NULL;
}
