/* GuardService: its table, Renew and Leave, and the places of the parts of a request. Invariant: all parts of a request
 * that reaches the store are valid; functions/guard.lua decides whether they can be taken. */
#include "services/guard.h"

#include <string.h>

#include "memory.h"
#include "services/idempotency.h"
#include "services/lock.h"
#include "services/ratelimit.h"
#include "services/stock.h"

void guard_within(plan *p, const char *part)
{
    if (!plan_failed(p) || p->error.code == LKS_INTERNAL)
        return;
    const char *message = memory_text_in(p->arena, p->error.message);
    lks_error_set(&p->error, p->error.code, LKS_APPLIED_NO, "%s.%s", part, message);
}

/* only: the single name in the part; NULL: it has no name, or several. */
static lks_rpc_slice place_of(plan *p, const char *part, const char *own, const char *common, const char *only)
{
    const char *group = own[0] != '\0' ? own : common[0] != '\0' ? common : only ? only : "";

    if (group[0] == '\0')
        plan_invalid(p, "group: must be set, here or for the request");
    plan_check_name(p, "group", group);
    guard_within(p, part);
    return plan_failed(p) ? lks_rpc_slice_of("") : plan_base(p, group, NULL);
}

static lks_rpc_slice place_of_record(plan *p, const char *common, const lks_guard_once *once)
{
    const lks_rpc_slice base =
        idempotency_base(p, once->group[0] != '\0' ? once->group : common, once->scope, once->key);

    guard_within(p, "once");
    return base;
}

static lks_rpc_slice place_of_stock(plan *p, const char *common, const lks_guard_stock *stock)
{
    plan_check_name(p, "order_id", stock->order_id);
    if (stock->hold_ms != 0)
        plan_check_range(p, "hold_ms", stock->hold_ms, STOCK_HOLD_MIN_MS, STOCK_HOLD_MAX_MS);
    return place_of(p, "stock", stock->group, common, stock->n_lines == 1 ? stock->lines[0]->sku : NULL);
}

guard_places guard_find_places(plan *p, const char *group, const lks_guard_once *once, const lks_guard_limits *limits,
                               const lks_guard_stock *stock, const lks_guard_locks *locks)
{
    guard_places at = {.base = lks_rpc_slice_of("")};

    plan_check_name_or_empty(p, "group", group);
    at.record = at.rates = at.stock = at.base;
    if (once && !plan_failed(p))
        at.base = at.record = place_of_record(p, group, once);
    if (limits && !plan_failed(p))
        at.base = at.rates =
            place_of(p, "limits", limits->group, group, limits->n_rules == 1 ? limits->rules[0]->key : NULL);
    if (stock && !plan_failed(p))
        at.base = at.stock = place_of_stock(p, group, stock);
    at.rest = at.base;
    if (locks && !plan_failed(p))
        at.base = place_of(p, "locks", locks->group, group, locks->n_targets == 1 ? locks->targets[0]->name : NULL);
    at.in_two_stores = locks && at.rest.len > 0 && p->lock_slack_ms > 0;
    return at;
}

/* Returns the stock of a request if Renew and Leave concern it, otherwise NULL. */
static const lks_guard_stock *held(const lks_guard_stock *stock)
{
    return stock && stock->hold_ms > 0 ? stock : NULL;
}

static void need_something(plan *p, const lks_guard_once *once, const lks_guard_stock *stock,
                           const lks_guard_locks *locks)
{
    if (!once && !stock && !locks)
        plan_invalid(p, "once: or stock with hold_ms, or locks must be set");
}

/* The state of Renew and Leave. In two stores the locks come last, in a separate round: the next holder of the locks
 * then finds the result of the attempt. */
typedef struct guard_rounds {
    lks_rpc_slice stock;      /* base of the stock */
    lks_rpc_slice locks;      /* base of the locks, if they follow in another round; otherwise empty */
    lks_leave_response *rest; /* the answer of Leave without the locks */
} guard_rounds;

static guard_places places_of_end(plan *p, const char *group, const lks_guard_once *once, const lks_guard_stock *stock,
                                  const lks_guard_locks *locks)
{
    const guard_places at = guard_find_places(p, group, once, NULL, stock, locks);
    guard_rounds *of = p->kept = memory_in(p->arena, sizeof *of);

    of->stock = at.stock;
    if (at.in_two_stores)
        of->locks = at.base;
    return at;
}

/* ---- Renew ---- */

static void renew_prepare(const lks_guard_service_renew_request *request, plan *p)
{
    const lks_guard_stock *stock = held(request->stock);

    lock_check_token(p, "token", request->token);
    lock_check_lease(p, "lease_ms", request->lease_ms);
    need_something(p, request->once, stock, request->locks);
    const guard_places at = places_of_end(p, request->group, request->once, stock, request->locks);
    const bool with_locks = request->locks && !at.in_two_stores;
    plan_call_at(p, &fn_guard_renew, with_locks ? at.base : at.rest, 0);
    plan_weighs(p, 2 + STOCK_ORDER_WEIGHT);
    args_guard_renew(p, .token = request->token,
                     .lease_ms = with_locks ? lock_stored_lease(p, request->lease_ms) : request->lease_ms,
                     .locks = with_locks, .apart = at.in_two_stores, .record = at.record, .stock = at.stock,
                     .order_id = stock ? stock->order_id : "", .hold_ms = stock ? stock->hold_ms : 0);
}

static void renew_locks(const ProtobufCMessage *message, plan *p)
{
    const lks_guard_service_renew_request *request = (const lks_guard_service_renew_request *)(const void *)message;

    lock_plan_renew_all(p, ((const guard_rounds *)p->kept)->locks, request->token, request->lease_ms);
}

static lks_renew_guard_outcome lost_part(answer *a, const store_value *reply)
{
    const char *part = answer_text(a, reply, 1);

    return strcmp(part, "ONCE") == 0    ? LKS_RENEW_GUARD_OUTCOME_ATTEMPT_LOST
           : strcmp(part, "LOCKS") == 0 ? LKS_RENEW_GUARD_OUTCOME_LOCK_LOST
                                        : LKS_RENEW_GUARD_OUTCOME_HOLD_ENDED;
}

static void renew_finish(const lks_guard_service_renew_request *request, answer *a,
                         lks_guard_service_renew_response *response)
{
    const lks_guard_stock *stock = held(request->stock);
    const guard_rounds *of = a->plan->kept;
    const store_value *reply = a->replies[0];
    const bool is_of_locks = plan_calls(a->plan, &fn_lock_renew), renewed = answer_says(reply, "RENEWED");

    if (renewed && !is_of_locks && of->locks.len > 0) {
        answer_next_round_applied(a, renew_locks);
        return;
    }
    response->outcome = renewed       ? LKS_RENEW_GUARD_OUTCOME_RENEWED
                        : is_of_locks ? LKS_RENEW_GUARD_OUTCOME_LOCK_LOST
                                      : lost_part(a, reply);
    if (stock && (renewed || is_of_locks))
        answer_lasting_alarm(a, of->stock, fn_stock_expire.name, stock->hold_ms);
}

/* ---- Leave ---- */

/* The end of the attempt, as it is stored. */
typedef struct attempt_end {
    const char *state;
    lks_rpc_slice result;
} attempt_end;

static attempt_end end_of(plan *p, const lks_leave_request *request)
{
    const lks_rpc_slice none = lks_rpc_slice_of("");
    lks_rpc_slice result;

    switch ((int)request->kind) {
    case LKS_LEAVE_KIND_COMPLETE:
        result = idempotency_success(p, request->code, request->body, request->n_headers, request->headers);
        return (attempt_end){"C", request->once ? result : none};
    case LKS_LEAVE_KIND_RETRYABLE:
        return (attempt_end){"T", none};
    case LKS_LEAVE_KIND_FINAL:
        return (attempt_end){"F", idempotency_failure(p, request->detail)};
    default:
        plan_invalid(p, "kind: must be COMPLETE, RETRYABLE or FINAL");
        return (attempt_end){"", none};
    }
}

static void plan_leave(const lks_leave_request *request, plan *p, const plan_function *function)
{
    const lks_guard_stock *stock = held(request->stock);

    lock_check_token(p, "token", request->token);
    plan_check_text(p, "detail", request->detail, 0, IDEMPOTENCY_DETAIL_BYTES_MAX);
    need_something(p, request->once, stock, request->locks);
    const attempt_end end = end_of(p, request);
    const guard_places at = places_of_end(p, request->group, request->once, stock, request->locks);
    const bool with_locks = request->locks && !at.in_two_stores;
    plan_call_at(p, function, with_locks ? at.base : at.rest, 0);
    plan_weighs(p, 2 + STOCK_ORDER_WEIGHT + (request->once ? IDEMPOTENCY_RESULT_WEIGHT : 0));
    args_guard_leave(p, .token = request->token, .server = p->server, .trace = p->trace ? p->trace : "",
                     .locks = with_locks, .apart = at.in_two_stores, .record = at.record, .state = end.state,
                     .detail = request->kind == LKS_LEAVE_KIND_COMPLETE ? "" : request->detail, .result = end.result,
                     .stock = at.stock, .order_id = stock ? stock->order_id : "");
}

static void leave_prepare(const lks_leave_request *request, plan *p)
{
    plan_leave(request, p, &fn_guard_leave);
}

static void leave_unseen(const ProtobufCMessage *request, plan *p)
{
    plan_leave((const lks_leave_request *)(const void *)request, p, &fn_guard_leave_unseen);
}

/* Converts the outcomes of stock_confirm and stock_cancel to states. */
static lks_order_state state_of(const char *outcome)
{
    return strcmp(outcome, "CONFIRMED") == 0 || strcmp(outcome, "ALREADY_CONFIRMED") == 0 ? LKS_ORDER_STATE_CONFIRMED
           : strcmp(outcome, "CANCELLED") == 0                                            ? LKS_ORDER_STATE_CANCELLED
           : strcmp(outcome, "EXPIRED") == 0                                              ? LKS_ORDER_STATE_EXPIRED
                                                                                          : LKS_ORDER_STATE_UNSPECIFIED;
}

static void plan_leave_locks(const ProtobufCMessage *message, plan *p, const plan_function *function)
{
    const lks_leave_request *request = (const lks_leave_request *)(const void *)message;

    lock_plan_release_all(p, function, ((const guard_rounds *)p->kept)->locks, request->token);
}

static void leave_locks(const ProtobufCMessage *request, plan *p)
{
    plan_leave_locks(request, p, &fn_lock_release);
}

static void leave_locks_unseen(const ProtobufCMessage *request, plan *p)
{
    plan_leave_locks(request, p, &fn_lock_release_unseen);
}

static void leave_locks_finish(answer *a, lks_leave_response *response)
{
    if (answer_says(a->replies[0], "UNSEEN")) {
        answer_next_round_applied(a, leave_locks_unseen);
        return;
    }
    *response = *((const guard_rounds *)a->plan->kept)->rest;
    response->locks =
        (lks_release_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__release_outcome__descriptor);
}

static void leave_finish(const lks_leave_request *request, answer *a, lks_leave_response *response)
{
    const store_value *reply = a->replies[0];
    guard_rounds *of = a->plan->kept;

    (void)request;
    if (of->rest) {
        leave_locks_finish(a, response);
        return;
    }
    if (answer_says(reply, "UNSEEN")) {
        answer_next_round(a, leave_unseen);
        return;
    }
    if (answer_says(reply, "HOLD_ENDED")) {
        response->outcome = LKS_LEAVE_OUTCOME_HOLD_ENDED;
        response->stock = state_of(answer_text(a, reply, 1));
        return;
    }
    response->outcome =
        strcmp(answer_text(a, reply, 1), "SUPERSEDED") == 0 ? LKS_LEAVE_OUTCOME_SUPERSEDED : LKS_LEAVE_OUTCOME_LEFT;
    response->replayed = answer_int(a, reply, 2) != 0;
    if (answer_text(a, reply, 3)[0] != '\0')
        response->locks = (lks_release_outcome)answer_enum(a, reply, 3, &lockstock__v1__release_outcome__descriptor);
    response->stock = state_of(answer_text(a, reply, 4));
    if (of->locks.len > 0) {
        of->rest = memory_in(a->arena, sizeof *of->rest);
        *of->rest = *response;
        answer_next_round_applied(a, leave_locks);
    }
}

/* ---- the table ---- */

LKS_GUARD_METHODS(SERVICE_PAIR)

static const service_method methods[] = {LKS_GUARD_METHODS(SERVICE_ROW)};

/* Its state is this server's knowledge of rate limit policies. */
const service guard_service = {.n_methods = sizeof methods / sizeof methods[0],
                               .methods = methods,
                               .open = ratelimit_open,
                               .close = ratelimit_close};
