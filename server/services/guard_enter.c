/* GuardService: Enter, as one call of the store. Invariant: a call that waits has its token as its name, for the queue
 * of its locks as for the end of another attempt; so one waiter serves it from its first round on. */
#include <string.h>

#include "memory.h"
#include "services/guard.h"
#include "services/idempotency.h"
#include "services/lock.h"
#include "services/ratelimit.h"
#include "services/stock.h"

/* ---- prepare ---- */

/* Returns the limits as a request for the functions of RateLimitService. */
static lks_check_request rules_of(const lks_guard_limits *limits)
{
    lks_check_request rules = LKS_CHECK_REQUEST_INIT;

    rules.n_rules = limits->n_rules;
    rules.rules = limits->rules;
    return rules;
}

static void check_parts(const lks_enter_request *request, plan *p, check_kept *limits)
{
    if (!request->once && !request->limits && !request->stock && !request->locks)
        plan_invalid(p, "once: or limits, stock or locks must be set");
    if (request->limits && !plan_failed(p)) {
        plan_check_range(p, "cost", request->limits->cost, 0, SERVICE_QUANTITY_MAX);
        ratelimit_keep_room(p, limits, request->limits->n_rules);
        guard_within(p, "limits");
    }
    if (request->stock && !plan_failed(p)) {
        plan_check_name_or_empty(p, "buyer_id", request->stock->buyer_id);
        if (request->stock->n_lines == 0)
            plan_invalid(p, "lines: must not be empty");
        stock_check_lines(p, request->stock->lines, request->stock->n_lines);
        guard_within(p, "stock");
    }
    if (request->locks && !plan_failed(p)) {
        lock_check_targets(p, request->locks->n_targets, request->locks->targets);
        guard_within(p, "locks");
    }
}

const char *enter_token(const lks_enter_request *request, plan *p)
{
    if (request->token[0] == '\0')
        return plan_id(p);
    return request->token;
}

static const char *targets_text(plan *p, const lks_guard_locks *locks)
{
    const char *text = "";

    for (size_t i = 0; locks && i < locks->n_targets; i++)
        text = memory_printf_in(p->arena, "%s%s%s", text, i > 0 ? "," : "", lock_target_text(p, locks->targets[i]));
    return text;
}

/* Returns the function's word for a call after an event. */
const char *enter_way(service_event_kind event)
{
    return event == SERVICE_NO_EVENT ? "" : event == SERVICE_WAIT_OVER ? "O" : "W";
}

static const char *key_of_call(plan *p, const guard_places *at, const char *token)
{
    return memory_printf_in(p->arena, "%.*s%s", (int)at->base.len, at->base.data, plan_encode(p->arena, token));
}

/* Returns "<server> <key>", the entry in the set of a record that wakes the call. */
static const char *waiter_of(plan *p, const guard_places *at, const char *token)
{
    return memory_printf_in(p->arena, "%s %s", p->server, key_of_call(p, at, token));
}

static const char *copy_of(plan *p)
{
    return memory_printf_in(p->arena, "%s.%s.", p->server, plan_id(p));
}

static bool once_waits(const lks_enter_request *request)
{
    return request->wait_ms > 0 && request->once && !request->once->no_wait;
}

bool enter_locks_wait(const lks_enter_request *request)
{
    return request->wait_ms > 0 && request->locks && !request->locks->no_wait;
}

/* Also for a plan that reads policies, or that is never carried out: its names must be there from the first plan on,
 * and be undone after the last. */
static void plan_wait(const lks_enter_request *request, plan *p, const guard_places *at, const char *token)
{
    if (plan_failed(p) || request->wait_ms == 0)
        return;
    const char *encoded = plan_encode(p->arena, token);
    if (enter_locks_wait(request))
        lock_plan_wait(p, at->base, request->locks->n_targets, request->locks->targets, encoded, copy_of(p));
    else
        plan_waits(p, at->base, encoded);
    if (once_waits(request))
        plan_watch(p, at->record, fn_idempotency_lease_over.name, lks_rpc_slice_of(waiter_of(p, at, token)));
}

static size_t weight_of(const lks_enter_request *request)
{
    return (request->once ? IDEMPOTENCY_RESULT_WEIGHT : 1) + (request->limits ? request->limits->n_rules : 0) +
           (request->stock ? 1 + request->stock->n_lines / STOCK_LINES_OF_WEIGHT : 0) +
           (request->locks ? lock_weight(request->locks->n_targets) : 0);
}

static void add_pairs(const lks_enter_request *request, plan *p, size_t n_rules, const ratelimit_rule *rules)
{
    for (size_t i = 0; i < n_rules && !plan_failed(p); i++)
        each_guard_enter(p, .name = plan_encode(p->arena, request->limits->rules[i]->key), .text = rules[i].text);
    for (size_t i = 0; request->stock && i < request->stock->n_lines; i++)
        each_guard_enter(p, .name = request->stock->lines[i]->sku,
                         .text = memory_printf_in(p->arena, "%lld", (long long)request->stock->lines[i]->quantity));
}

static void add_call(const lks_enter_request *request, plan *p, const enter_call *call, size_t n_rules,
                     const ratelimit_rule *rules)
{
    const lks_guard_once *once = request->once;
    const lks_guard_stock *stock = request->stock;
    const guard_places *at = &call->at;
    const bool only_limits = !once && !stock && !call->with_locks;

    plan_call_at(p, &fn_guard_enter, request->locks ? at->base : at->rest, n_rules + (stock ? stock->n_lines : 0));
    plan_weighs(p, weight_of(request));
    args_guard_enter(p, .way = call->way, .token = call->token, .owner = request->owner,
                     .lease_ms = request->locks ? lock_stored_lease(p, request->lease_ms) : request->lease_ms,
                     .once_wait_ms = once_waits(request) ? request->wait_ms : 0,
                     .wait_ms = call->locks_wait ? request->wait_ms : 0, .copy = call->locks_wait ? copy_of(p) : ".",
                     .waiter = once_waits(request) ? waiter_of(p, at, call->token) : "", .record = at->record,
                     .fingerprint = once ? idempotency_fingerprint(p, &once->fingerprint) : lks_rpc_slice_of(""),
                     .retain_ms = once ? idempotency_retain_ms(p, once->retain_ms) : 0,
                     .targets = targets_text(p, request->locks), .rates = at->rates,
                     .cost = request->limits && request->limits->cost != 0 ? request->limits->cost : 1,
                     .request_id = only_limits ? ratelimit_repeatable_id(p, call->token) : "", .stock = at->stock,
                     .order_id = stock ? stock->order_id : "", .buyer = stock ? stock->buyer_id : "",
                     .hold_ms = stock ? stock->hold_ms : 0, .n_rules = (int64_t)n_rules);
    guard_within(p, "once");
    add_pairs(request, p, n_rules, rules);
}

void enter_plan_call(const lks_enter_request *parts, plan *p, const enter_call *call)
{
    const bool takes = strchr(call->way, 'O') == NULL; /* otherwise its rules do not matter */
    const size_t n_rules = takes && parts->limits ? parts->limits->n_rules : 0;
    guard_kept *kept = p->kept;
    ratelimit_rule rules[RATELIMIT_RULES_MAX];

    if (n_rules > 0 && !plan_failed(p)) {
        const lks_check_request check = rules_of(parts->limits);
        if (!ratelimit_plan_rules(p, &check, !kept->has_policies, false, rules)) {
            guard_within(p, "limits");
            return;
        }
        kept->has_policies = true;
    }
    if (!plan_failed(p))
        add_call(parts, p, call, n_rules, rules);
}

static void plan_round(const lks_enter_request *request, plan *p, const guard_places *at)
{
    const enter_call whole = {.way = enter_way(p->event.kind),
                              .token = enter_token(request, p),
                              .at = *at,
                              .locks_wait = enter_locks_wait(request),
                              .with_locks = request->locks != NULL};

    if (at->in_two_stores)
        two_stores_plan(request, p, at);
    else
        enter_plan_call(request, p, &whole);
}

static guard_places places_of(const lks_enter_request *request, plan *p)
{
    return guard_find_places(p, request->group, request->once, request->limits, request->stock, request->locks);
}

void enter_prepare(const lks_enter_request *request, plan *p)
{
    guard_kept *kept = memory_in(p->arena, sizeof *kept);

    kept->may_be_queued = p->event.kind != SERVICE_NO_EVENT && enter_locks_wait(request);
    p->kept = kept;
    plan_check_text(p, "owner", request->owner, 0, SERVICE_NAME_BYTES_MAX);
    plan_check_range(p, "wait_ms", request->wait_ms, 0, LOCK_WAIT_MS_MAX);
    if (request->once || request->locks)
        lock_check_lease(p, "lease_ms", request->lease_ms);
    check_parts(request, p, &kept->limits);
    if (request->token[0] != '\0')
        lock_check_token(p, "token", request->token);
    const guard_places at = places_of(request, p);
    kept->stock = at.stock;
    plan_wait(request, p, &at, enter_token(request, p));
    plan_round(request, p, &at);
}

void enter_next(const ProtobufCMessage *message, plan *p)
{
    const lks_enter_request *request = (const lks_enter_request *)(const void *)message;
    const guard_places at = places_of(request, p);

    plan_round(request, p, &at);
}

/* ---- finish ---- */

static lks_rpc_slice argument(const answer *a, size_t place)
{
    return a->plan->calls[0].args[place];
}

/* Makes the call wait; when a lease ends, this server calls the functions that end the wait. */
void enter_keep_waiting(const lks_enter_request *request, answer *a, const store_value *reply)
{
    if (!answer_says(reply, "WAIT")) {
        lock_keep_waiting(a, request->locks->n_targets, request->locks->targets, reply);
        return;
    }
    answer_alarm(a, argument(a, ARG_GUARD_ENTER_RECORD), fn_idempotency_lease_over.name,
                 argument(a, ARG_GUARD_ENTER_WAITER).data, answer_int(a, reply, 2));
    answer_waits(a);
}

/* Returns the elements of a reply from `from` on. */
static store_value rest_of(answer *a, const store_value *reply, size_t from)
{
    const size_t n = answer_count(a, reply);

    return from <= n ? (store_value){.type = STORE_ARRAY, .n = n - from, .element = reply->element + from}
                     : (store_value){.type = STORE_NIL};
}

static void read_rules(const lks_enter_request *request, answer *a, const store_value *reply, size_t from,
                       lks_enter_response *response)
{
    const store_value rules = rest_of(a, reply, from);
    lks_check_response check = LKS_CHECK_RESPONSE_INIT;

    ratelimit_read_reply(a, &rules, request->limits->n_rules, &check);
    response->n_rules = check.n_rules;
    response->rules = check.rules;
    response->retry_after_ms = check.retry_after_ms;
}

/* Reads {"OUT_OF_STOCK", outcome, number, then place and available of each line that is refused}. */
static void read_refused_order(const lks_enter_request *request, answer *a, const store_value *reply,
                               lks_enter_response *response)
{
    const size_t count = answer_count(a, reply);

    response->stock_outcome =
        (lks_reserve_outcome)answer_enum(a, reply, 1, &lockstock__v1__reserve_outcome__descriptor);
    response->n_lines = count > 3 ? (count - 3) / 2 : 0;
    response->lines =
        stock_read_lines(a, reply, 3, response->n_lines, true, request->stock->lines, request->stock->n_lines);
}

bool enter_was_replayed(answer *a, const store_value *reply)
{
    return answer_int(a, reply, 1) != 0;
}

static void read_entered(const lks_enter_request *request, answer *a, const store_value *reply,
                         lks_enter_response *response)
{
    size_t at = 6;

    response->replayed = enter_was_replayed(a, reply);
    response->attempt = answer_int(a, reply, 2);
    response->attempt_fence = (uint64_t)answer_int(a, reply, 3);
    if (request->once || request->locks)
        response->lease_ms = answer_int(a, reply, 4);
    if (request->locks) {
        response->lease_ms = lock_holder_lease(a->plan, response->lease_ms);
        response->n_fences = request->locks->n_targets;
        response->fences = lock_fences(a, response->n_fences, request->locks->targets);
        for (size_t i = 0; i < response->n_fences; i++)
            response->fences[i]->fence = (uint64_t)answer_int(a, reply, at++);
    }
    if (request->stock) {
        response->hold_ms = answer_int(a, reply, 5);
        response->n_lines = request->stock->n_lines;
        response->lines =
            stock_read_lines(a, reply, at, response->n_lines, false, request->stock->lines, response->n_lines);
        at += response->n_lines;
        for (size_t i = 0; !response->replayed && i < request->stock->n_lines; i++)
            a->units += (uint64_t)request->stock->lines[i]->quantity;
        if (request->stock->hold_ms > 0) /* the hold of a repeated order may have ended */
            answer_lasting_alarm(a, ((const guard_kept *)a->plan->kept)->stock, fn_stock_expire.name,
                                 response->hold_ms > 0 ? response->hold_ms : -1);
    }
    if (answer_count(a, reply) > at)
        read_rules(request, a, reply, at, response);
}

void enter_read_reply(const lks_enter_request *request, answer *a, const store_value *reply,
                      lks_enter_response *response)
{
    response->token = answer_id(a, request->token);
    response->outcome = (lks_enter_outcome)answer_enum(a, reply, 0, &lockstock__v1__enter_outcome__descriptor);
    switch ((int)response->outcome) {
    case LKS_ENTER_OUTCOME_ENTERED:
        read_entered(request, a, reply, response);
        break;
    case LKS_ENTER_OUTCOME_REPLAY:
        response->attempt = answer_int(a, reply, 1);
        response->result = idempotency_result(a, reply, 2);
        break;
    case LKS_ENTER_OUTCOME_IN_PROGRESS:
        response->attempt = answer_int(a, reply, 1);
        response->retry_after_ms = answer_int(a, reply, 2);
        break;
    case LKS_ENTER_OUTCOME_LIMITED:
        read_rules(request, a, reply, 1, response);
        break;
    case LKS_ENTER_OUTCOME_OUT_OF_STOCK:
        read_refused_order(request, a, reply, response);
        break;
    case LKS_ENTER_OUTCOME_BUSY:
    case LKS_ENTER_OUTCOME_TIMED_OUT:
        if (request->locks)
            response->holder = lock_holder(a, request->locks->n_targets, request->locks->targets, reply);
        break;
    default:
        break;
    }
}

void enter_finish(const lks_enter_request *request, answer *a, lks_enter_response *response)
{
    const store_value *reply = a->replies[0];
    guard_kept *kept = a->plan->kept;

    if (ratelimit_reads_policies(a->plan)) {
        const lks_check_request check = rules_of(request->limits);
        ratelimit_keep_policies(a, &check, kept->limits.policies);
        kept->has_policies = true;
        answer_next_round(a, enter_next);
    } else if (kept->step != ENTER_WHOLE) {
        two_stores_finish(request, a, response);
    } else if (answer_says(reply, "MORE")) {
        answer_next_round(a, enter_next);
    } else if (answer_says(reply, "QUEUED") || answer_says(reply, "WAIT")) {
        enter_keep_waiting(request, a, reply);
    } else {
        enter_read_reply(request, a, reply, response);
    }
}
