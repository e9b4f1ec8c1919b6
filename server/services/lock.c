/* LockService: its table, and Acquire, Renew, Release. Invariant: requests are checked here, and functions/lock.lua
 * decides about locks. prepare depends only on the request, except for the random token of a request without one, and
 * the id that distinguishes copies of a waiting call. */
#include <string.h>

#include "services/lock.h"

LKS_LOCK_METHODS(SERVICE_DECLARE)

enum {
    LEASE_MS_MIN = 10,
    LEASE_MS_MAX = 86400000,
    LEASES_MAX = 256,           /* in one Renew: a process may hold thousands of locks */
    LOCK_TARGETS_OF_WEIGHT = 2, /* targets per unit of weight, each with all the waiters that a call may pass */
    LOCK_NAMES_OF_WEIGHT = 12,  /* names that a unit of weight reads, checks and writes */
};

/* ---- prepare ------------------------------------------------------------------ */

void lock_check_token(plan *p, const char *field, const char *token)
{
    plan_check_text(p, field, token, SERVICE_TOKEN_BYTES_MIN, SERVICE_TOKEN_BYTES_MAX);
    for (const char *c = token; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            plan_invalid(p, "%s: must be visible text without spaces", field);
}

int64_t lock_stored_lease(const plan *p, int64_t lease_ms)
{
    return lease_ms + p->lock_slack_ms;
}

int64_t lock_holder_lease(const plan *p, int64_t stored_ms)
{
    return stored_ms > p->lock_slack_ms ? stored_ms - p->lock_slack_ms : 0;
}

void lock_check_lease(plan *p, const char *field, int64_t lease_ms)
{
    plan_check_range(p, field, lease_ms, LEASE_MS_MIN, LEASE_MS_MAX);
}

/* Checks names that one token holds: few, each once. `list` is the path of their field. */
static void check_names(plan *p, const char *list, size_t n, const char *const *names)
{
    if (n > SERVICE_TARGETS_MAX)
        plan_invalid(p, "%s: at most %d", list, SERVICE_TARGETS_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        plan_check_name(p, plan_path(p, "%s[%zu]", list, i), names[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                plan_invalid(p, "%s[%zu]: the same name twice", list, i);
    }
}

static void check_target(plan *p, size_t i, const lks_target *target)
{
    plan_check_name(p, plan_path(p, "targets[%zu].name", i), target->name);
    if (target->mode == LKS_LOCK_MODE_PERMIT) {
        plan_check_range(p, plan_path(p, "targets[%zu].capacity", i), target->capacity, 1, SERVICE_QUANTITY_MAX);
        plan_check_range(p, plan_path(p, "targets[%zu].permits", i), target->permits, 0, target->capacity);
    } else if (target->permits != 0 || target->capacity != 0) {
        plan_invalid(p, "targets[%zu].%s: only with LOCK_MODE_PERMIT", i,
                     target->permits != 0 ? "permits" : "capacity");
    }
}

void lock_check_targets(plan *p, size_t n, lks_target *const *targets)
{
    if (n < 1 || n > SERVICE_TARGETS_MAX)
        plan_invalid(p, "targets: must be 1 to %d", SERVICE_TARGETS_MAX);
    for (size_t i = 0; i < n && !plan_failed(p); i++) {
        check_target(p, i, targets[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(targets[i]->name, targets[j]->name) == 0)
                plan_invalid(p, "targets[%zu].name: the same name twice", i);
    }
}

const char *lock_target_text(plan *p, const lks_target *target)
{
    const char *name = plan_encode(p->arena, target->name);

    switch ((int)target->mode) {
    case LKS_LOCK_MODE_SHARED:
        return memory_printf_in(p->arena, "%s S 1 0", name);
    case LKS_LOCK_MODE_PERMIT:
        return memory_printf_in(p->arena, "%s P %lld %lld", name, (long long)(target->permits ? target->permits : 1),
                                (long long)target->capacity);
    default:
        return name;
    }
}

size_t lock_weight(size_t n_targets)
{
    return 2 + n_targets / LOCK_TARGETS_OF_WEIGHT;
}

/* An event calls another function with the same arguments. */
static const plan_function *acquire_function(service_event_kind event)
{
    switch (event) {
    case SERVICE_WOKEN:
        return &fn_lock_claim;
    case SERVICE_WAIT_OVER:
        return &fn_lock_withdraw;
    default:
        return &fn_lock_acquire;
    }
}

void lock_plan_wait(plan *p, lks_rpc_slice base, size_t n, lks_target *const *targets, const char *token,
                    const char *copy)
{
    plan_waits(p, base, token);
    for (size_t i = 0; i < n && !plan_failed(p); i++)
        plan_watch(p, base, fn_lock_promote.name, lks_rpc_slice_of(plan_encode(p->arena, targets[i]->name)));
    plan_undo(p, base, fn_lock_abandon.name, lks_rpc_slice_of(memory_printf_in(p->arena, "%s %s", token, copy)));
}

void acquire_prepare(const lks_acquire_request *request, plan *p)
{
    const char *only = request->n_targets == 1 ? request->targets[0]->name : NULL;
    const char *token = request->token;
    const char *parked = "."; /* "<server>.<copy>.<lease_ms>": distinguishes copies of the same call */

    lock_check_targets(p, request->n_targets, request->targets); /* first: clients may set the name as the group */
    plan_check_name_or_empty(p, "group", request->group);
    if (token[0] != '\0')
        lock_check_token(p, "token", token);
    plan_check_text(p, "owner", request->owner, 0, SERVICE_NAME_BYTES_MAX);
    lock_check_lease(p, "lease_ms", request->lease_ms);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, LOCK_WAIT_MS_MAX);
    if (token[0] == '\0')
        token = plan_id(p);
    if (request->wait_ms > 0)
        parked = plan_path(p, "%s.%s.%lld", p->server, plan_id(p), (long long)lock_stored_lease(p, request->lease_ms));
    plan_call(p, acquire_function(p->event.kind), request->group, only, request->n_targets);
    plan_weighs(p, lock_weight(request->n_targets));
    args_lock_acquire(p, .token = token, .owner = request->owner, .lease_ms = lock_stored_lease(p, request->lease_ms),
                      .wait_ms = request->wait_ms, .copy = parked);
    for (size_t i = 0; i < request->n_targets && !plan_failed(p); i++)
        each_lock_acquire(p, .target = lock_target_text(p, request->targets[i]));
    if (request->wait_ms > 0 && !plan_failed(p))
        lock_plan_wait(p, plan_last_base(p), request->n_targets, request->targets,
                       p->calls[0].args[ARG_LOCK_ACQUIRE_TOKEN].data, parked);
    if (p->event.kind == SERVICE_GRANTED)
        p->n_calls = 0; /* the event has the fences */
}

/* Sets the weight of a plan that releases or renews n names; 0: everything that the token has. */
static void set_weight(plan *p, size_t n)
{
    plan_weighs(p, 1 + (n ? n : SERVICE_TARGETS_MAX) / LOCK_NAMES_OF_WEIGHT);
}

/* Adds the arguments before the n names. */
static void add_renewed(plan *p, size_t n, const char *token, int64_t lease_ms)
{
    set_weight(p, n);
    args_lock_renew(p, .token = token, .lease_ms = lock_stored_lease(p, lease_ms));
}

static void add_released(plan *p, size_t n, const char *token)
{
    set_weight(p, n);
    args_lock_release(p, .token = token, .server = p->server, .trace = p->trace ? p->trace : "");
}

void renew_prepare(const lks_renew_request *request, plan *p)
{
    if (request->n_leases < 1 || request->n_leases > LEASES_MAX)
        plan_invalid(p, "leases: must be 1 to %d", LEASES_MAX);
    for (size_t i = 0; i < request->n_leases && !plan_failed(p); i++) {
        const lks_lease *lease = request->leases[i];
        check_names(p, plan_path(p, "leases[%zu].names", i), lease->n_names, lease->names);
        plan_check_name_or_empty(p, plan_path(p, "leases[%zu].group", i), lease->group);
        if (lease->group[0] == '\0' && lease->n_names != 1)
            plan_invalid(p, "leases[%zu].group: must be set unless names is exactly one", i);
        lock_check_token(p, plan_path(p, "leases[%zu].token", i), lease->token);
        lock_check_lease(p, plan_path(p, "leases[%zu].lease_ms", i), lease->lease_ms);
        plan_call(p, &fn_lock_renew, lease->group, lease->n_names == 1 ? lease->names[0] : NULL, lease->n_names);
        add_renewed(p, lease->n_names, lease->token, lease->lease_ms);
        for (size_t k = 0; k < lease->n_names; k++)
            each_lock_renew(p, .name = lease->names[k]);
    }
}

void lock_plan_renew_all(plan *p, lks_rpc_slice base, const char *token, int64_t lease_ms)
{
    plan_call_at(p, &fn_lock_renew, base, 0);
    add_renewed(p, 0, token, lease_ms);
}

void lock_plan_release_all(plan *p, const plan_function *function, lks_rpc_slice base, const char *token)
{
    plan_call_at(p, function, base, 0);
    add_released(p, 0, token);
}

static void plan_release(const lks_release_request *request, plan *p, const plan_function *function)
{
    check_names(p, "names", request->n_names, request->names);
    plan_check_name_or_empty(p, "group", request->group);
    lock_check_token(p, "token", request->token);
    plan_call(p, function, request->group, request->n_names == 1 ? request->names[0] : NULL, request->n_names);
    add_released(p, request->n_names, request->token);
    for (size_t i = 0; i < request->n_names; i++)
        each_lock_release(p, .name = request->names[i]);
}

void release_prepare(const lks_release_request *request, plan *p)
{
    plan_release(request, p, &fn_lock_release);
}

static void release_unseen(const ProtobufCMessage *request, plan *p)
{
    plan_release((const lks_release_request *)(const void *)request, p, &fn_lock_release_unseen);
}

/* ---- finish ------------------------------------------------------------------- */

lks_holder *lock_holder(answer *a, size_t n, lks_target *const *targets, const store_value *reply)
{
    lks_holder *holder = memory_in(a->arena, sizeof *holder);
    size_t place = (size_t)answer_int(a, reply, 1);

    *holder = (lks_holder)LKS_HOLDER_INIT;
    if (place < n)
        holder->name = targets[place]->name;
    holder->owner = answer_decoded(a, reply, 2);
    holder->lease_ms = lock_holder_lease(a->plan, answer_int(a, reply, 3));
    return holder;
}

void lock_keep_waiting(answer *a, size_t n, lks_target *const *targets, const store_value *reply)
{
    for (size_t i = 0; i < n; i++)
        answer_alarm(a, a->plan->calls[0].base, fn_lock_promote.name, plan_encode(a->arena, targets[i]->name),
                     answer_int(a, reply, 1 + i));
    answer_waits(a);
}

lks_fence **lock_fences(answer *a, size_t n, lks_target *const *targets)
{
    lks_fence **fences = answer_messages(a, &lockstock__v1__fence__descriptor, n);

    for (size_t i = 0; i < n; i++)
        fences[i]->name = targets[i]->name;
    return fences;
}

/* Fills in a grant, except for the numbers of the fences. */
static void fill_grant(const lks_acquire_request *request, answer *a, int64_t lease_ms, lks_acquire_response *response)
{
    response->outcome = LKS_ACQUIRE_OUTCOME_ACQUIRED;
    response->lease_ms = lease_ms;
    response->n_fences = request->n_targets;
    response->fences = lock_fences(a, request->n_targets, request->targets);
}

static void finish_granted(const lks_acquire_request *request, answer *a, lks_acquire_response *response)
{
    fill_grant(request, a, request->lease_ms, response);
    for (size_t i = 0; i < response->n_fences; i++)
        response->fences[i]->fence = (uint64_t)answer_event_number(a, i);
}

static void finish_replied(const lks_acquire_request *request, answer *a, lks_acquire_response *response)
{
    const store_value *reply = a->replies[0];
    bool is_new = answer_is_numbers(reply); /* a new grant is a list of fences */

    response->outcome =
        is_new ? LKS_ACQUIRE_OUTCOME_ACQUIRED
               : (lks_acquire_outcome)answer_enum(a, reply, 0, &lockstock__v1__acquire_outcome__descriptor);
    if (response->outcome == LKS_ACQUIRE_OUTCOME_BUSY || response->outcome == LKS_ACQUIRE_OUTCOME_TIMED_OUT)
        response->holder = lock_holder(a, request->n_targets, request->targets, reply);
    if (response->outcome != LKS_ACQUIRE_OUTCOME_ACQUIRED)
        return;
    response->replayed = !is_new;
    fill_grant(request, a, is_new ? request->lease_ms : lock_holder_lease(a->plan, answer_int(a, reply, 1)), response);
    for (size_t i = 0; i < response->n_fences; i++)
        response->fences[i]->fence = (uint64_t)answer_int(a, reply, (is_new ? 0 : 2) + i);
}

void acquire_finish(const lks_acquire_request *request, answer *a, lks_acquire_response *response)
{
    if (a->n_replies > 0 && answer_says(a->replies[0], "QUEUED")) {
        lock_keep_waiting(a, request->n_targets, request->targets, a->replies[0]);
        return;
    }
    response->token = answer_id(a, request->token);
    response->group = answer_group(request->group, request->targets[0]->name);
    if (a->n_replies == 0)
        finish_granted(request, a, response);
    else
        finish_replied(request, a, response);
}

void renew_finish(const lks_renew_request *request, answer *a, lks_renew_response *response)
{
    response->n_results = request->n_leases;
    response->results = answer_messages(a, &lockstock__v1__lease_result__descriptor, response->n_results);
    for (size_t i = 0; i < response->n_results; i++) {
        const lks_lease *lease = request->leases[i];
        lks_lease_result *result = response->results[i];
        result->outcome =
            (lks_renew_outcome)answer_enum(a, a->replies[i], 0, &lockstock__v1__renew_outcome__descriptor);
        result->lease_ms = lock_holder_lease(a->plan, answer_int(a, a->replies[i], 1));
        result->group = answer_group(lease->group, lease->n_names ? lease->names[0] : lease->group);
    }
}

void release_finish(const lks_release_request *request, answer *a, lks_release_response *response)
{
    const ProtobufCEnumDescriptor *outcome = &lockstock__v1__release_outcome__descriptor;
    const store_value *reply = a->replies[0];

    (void)request;
    if (answer_says(reply, "UNSEEN")) {
        answer_next_round(a, release_unseen);
        return;
    }
    response->outcome = (lks_release_outcome)answer_enum(a, reply, 0, outcome);
    size_t n = answer_count(a, reply);
    response->replayed = n > 1 && answer_int(a, reply, 1) != 0;
    response->n_names = n > 2 && a->error.code == LKS_OK ? (n - 2) / 2 : 0;
    response->names = answer_messages(a, &lockstock__v1__release_name__descriptor, response->n_names);
    for (size_t i = 0; i < response->n_names; i++) {
        response->names[i]->name = answer_decoded(a, reply, 2 + 2 * i);
        response->names[i]->outcome = (lks_release_outcome)answer_enum(a, reply, 3 + 2 * i, outcome);
    }
}

LKS_LOCK_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_LOCK_METHODS(SERVICE_ROW)};

const service lock_service = {.n_methods = sizeof methods / sizeof methods[0], .methods = methods};
