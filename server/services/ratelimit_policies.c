/* RateLimitService: stored limits. Invariant: a Check uses policies, or the absence of a policy, as read from the store
 * less than RATELIMIT_POLICY_AGE_MAX_NS before the Check was planned; so a change takes effect on every server within a
 * second. */
#include <stdlib.h>
#include <string.h>

#include "services/ratelimit.h"
#include "services/ratelimit_domains.h"
#include "services/recent.h"

enum {
    POLICIES = 4096,
    DOMAIN_POLICIES = 40000,
    REFUSALS = 4096,
    PAGE_DEFAULT = 100,
    PAGE_MAX = 1000,
    VIEW_NUMBERS = 4,
    POLICIES_OF_WEIGHT = 16,
};

const char ratelimit_policies_group[] = "policies";

typedef struct ratelimit_state {
    recent *policies;
    ratelimit_domains *domains;
    recent *refusals; /* NULL: refusals are not remembered */
} ratelimit_state;

void ratelimit_close(void *state)
{
    ratelimit_state *s = state;

    recent_free(s->policies);
    ratelimit_domains_free(s->domains);
    recent_free(s->refusals);
    free(s);
}

void *ratelimit_open(const service_options *options)
{
    ratelimit_state *s = memory_alloc(sizeof *s);

    s->refusals = options->remembers_refusals ? recent_new(REFUSALS) : NULL;
    s->policies = recent_new(POLICIES);
    s->domains = ratelimit_domains_new(DOMAIN_POLICIES);
    return s;
}

ratelimit_domains *ratelimit_domains_of(const plan *p)
{
    return ((const ratelimit_state *)p->state)->domains;
}

recent *ratelimit_refusals_of(void *state)
{
    return ((const ratelimit_state *)state)->refusals;
}

/* ---- views ---- */

/* The kind of a policy, as functions store it. Older servers treat UNLIMITED as a shadow. */
enum { PLAIN, SHADOW, UNLIMITED };

limit_spec ratelimit_read_view(answer *a, const store_value *view, bool *shadow)
{
    const int64_t kind = answer_int(a, view, 2);

    *shadow = kind == SHADOW;
    if (kind == UNLIMITED)
        return (limit_spec){.algorithm = LKS_ALGORITHM_UNSPECIFIED};
    return (limit_spec){
        .algorithm = (lks_algorithm)answer_enum(a, view, 3, &lockstock__v1__algorithm__descriptor),
        .limit = answer_int(a, view, VIEW_NUMBERS),
        .period_ms = answer_int(a, view, VIEW_NUMBERS + 1),
        .burst = answer_int(a, view, VIEW_NUMBERS + 2),
        .after = answer_int(a, view, VIEW_NUMBERS + 3),
        .ban_ms = answer_int(a, view, VIEW_NUMBERS + 4),
        .factor = answer_int(a, view, VIEW_NUMBERS + 5),
        .max_ban_ms = answer_int(a, view, VIEW_NUMBERS + 6),
    };
}

static lks_penalty *new_penalty(answer *a, const limit_spec *spec)
{
    lks_penalty *penalty = memory_in(a->arena, sizeof *penalty);

    *penalty = (lks_penalty)LKS_PENALTY_INIT;
    penalty->after = spec->after;
    penalty->ban_ms = spec->ban_ms;
    penalty->factor = (int32_t)spec->factor;
    penalty->max_ban_ms = spec->max_ban_ms;
    return penalty;
}

static lks_limit *new_limit(answer *a, const limit_spec *spec)
{
    lks_limit *limit = memory_in(a->arena, sizeof *limit);

    *limit = (lks_limit)LKS_LIMIT_INIT;
    limit->algorithm = spec->algorithm;
    limit->limit = spec->limit;
    limit->period_ms = spec->period_ms;
    limit->burst = spec->burst;
    if (spec->after != 0)
        limit->penalty = new_penalty(a, spec);
    return limit;
}

static lks_policy *new_policy(answer *a, const store_value *view)
{
    lks_policy *policy = memory_in(a->arena, sizeof *policy);

    *policy = (lks_policy)LKS_POLICY_INIT;
    bool shadow;
    limit_spec spec = ratelimit_read_view(a, view, &shadow);
    policy->name = answer_text(a, view, 0);
    policy->version = answer_int(a, view, 1);
    policy->shadow = shadow;
    policy->unlimited = spec.algorithm == LKS_ALGORITHM_UNSPECIFIED;
    policy->limit = policy->unlimited ? NULL : new_limit(a, &spec);
    return policy;
}

/* ---- what this server knows ---- */

enum { KIND, FIRST_NUMBER, NUMBERS = FIRST_NUMBER + 7 }; /* kind: the algorithm and flags */
enum { EXISTS = 1 << 8, IS_SHADOW = 1 << 9, ALGORITHM = EXISTS - 1 };
_Static_assert((int)NUMBERS <= (int)RECENT_NUMBERS, "a policy has room");

static recent *policies_of(const plan *p)
{
    return ((const ratelimit_state *)p->state)->policies;
}

static recent_key key_of(const plan *p, const char *name)
{
    return (recent_key){{p->ns, lks_rpc_slice_of(name)}, 2};
}

static bool find_policy(const plan *p, const char *name, known_policy *ret)
{
    const recent_key key = key_of(p, name);
    const recent_fact *known = recent_find(policies_of(p), &key, p->now_ns);

    if (!known)
        return false;
    const int64_t *n = &known->number[FIRST_NUMBER], kind = known->number[KIND];
    *ret = (known_policy){.exists = kind & EXISTS,
                          .shadow = kind & IS_SHADOW,
                          .spec = {(lks_algorithm)(kind & ALGORITHM), n[0], n[1], n[2], n[3], n[4], n[5], n[6]}};
    return true;
}

static void keep_policy(const answer *a, const char *name, const known_policy *policy)
{
    const recent_key key = key_of(a->plan, name);
    const limit_spec *s = &policy->spec;
    const uint64_t until_ns = a->plan->now_ns + RATELIMIT_POLICY_AGE_MAX_NS;
    const int64_t kind = s->algorithm | (policy->exists ? EXISTS : 0) | (policy->shadow ? IS_SHADOW : 0);
    const recent_fact fact = {
        until_ns, until_ns, {kind, s->limit, s->period_ms, s->burst, s->after, s->ban_ms, s->factor, s->max_ban_ms}};

    recent_put(policies_of(a->plan), lks_rpc_slice_of(""), &key, &fact, a->now_ns);
}

/* Forgets the policy, so that this server sees its own change at once. */
static void forget(const answer *a, const char *name)
{
    const recent_key key = key_of(a->plan, name);

    recent_forget(policies_of(a->plan), &key, a->now_ns);
    ratelimit_domains_forget(ratelimit_domains_of(a->plan), a->plan->ns, name);
}

/* ---- for Check ---- */

static const char *policy_named(const lks_check_request *request, size_t i)
{
    return request->rules[i]->spec_case == LKS_RULE_SPEC_POLICY ? request->rules[i]->policy : NULL;
}

bool ratelimit_find_policies(const plan *p, const lks_check_request *request, known_policy *policies)
{
    for (size_t i = 0; i < request->n_rules; i++)
        if (policy_named(request, i) && !find_policy(p, policy_named(request, i), &policies[i]))
            return false;
    return true;
}

void ratelimit_read_policies(plan *p, const lks_check_request *request)
{
    plan_call(p, &fn_rate_get_policies, ratelimit_policies_group, NULL, request->n_rules);
    for (size_t i = 0; i < request->n_rules; i++)
        if (policy_named(request, i))
            each_rate_get_policies(p, .name = policy_named(request, i));
}

bool ratelimit_reads_policies(const plan *p)
{
    return plan_calls(p, &fn_rate_get_policies);
}

void ratelimit_keep_policies(answer *a, const lks_check_request *request, known_policy *policies)
{
    size_t at = 1;

    for (size_t i = 0; i < request->n_rules && a->error.code == LKS_OK; i++) {
        if (!policy_named(request, i))
            continue;
        const store_value *view = answer_at(a, a->replies[0], at++);
        policies[i] = (known_policy){.exists = answer_count(a, view) > 0};
        if (policies[i].exists)
            policies[i].spec = ratelimit_read_view(a, view, &policies[i].shadow);
        keep_policy(a, policy_named(request, i), &policies[i]);
    }
}

/* ---- PutPolicy, GetPolicy ---- */

/* An unlimited policy is stored with numbers that refuse nothing, for older servers. */
static limit_spec spec_to_put(plan *p, const lks_put_policy_request *request)
{
    if (request->unlimited) {
        if (request->limit)
            plan_invalid(p, "limit: must not be set for an unlimited policy");
        if (request->shadow)
            plan_invalid(p, "shadow: must not be set for an unlimited policy");
        return (limit_spec){.algorithm = LKS_ALGORITHM_FIXED_WINDOW, .limit = RATELIMIT_UNITS_MAX, .period_ms = 1};
    }
    if (request->limit)
        return ratelimit_check_limit(p, "limit", request->limit);
    plan_invalid(p, "limit: must be set");
    return (limit_spec){0};
}

void put_policy_prepare(const lks_put_policy_request *request, plan *p)
{
    plan_check_name(p, "name", request->name);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    limit_spec spec = spec_to_put(p, request);
    if (plan_failed(p))
        return;
    plan_call(p, &fn_rate_put_policy, ratelimit_policies_group, NULL, 0);
    args_rate_put_policy(p, .name = request->name, .expected_version = request->expected_version,
                         .kind = request->unlimited ? UNLIMITED
                                 : request->shadow  ? SHADOW
                                                    : PLAIN,
                         .algorithm = lks_algorithm_name(spec.algorithm), .limit = spec.limit,
                         .period_ms = spec.period_ms, .burst = spec.burst, .after = spec.after, .ban_ms = spec.ban_ms,
                         .factor = spec.factor, .max_ban_ms = spec.max_ban_ms);
}

void put_policy_finish(const lks_put_policy_request *request, answer *a, lks_put_policy_response *response)
{
    forget(a, request->name);
    response->policy = new_policy(a, answer_at(a, a->replies[0], 1));
}

void get_policy_prepare(const lks_get_policy_request *request, plan *p)
{
    plan_check_name(p, "name", request->name);
    plan_call(p, &fn_rate_get_policies, ratelimit_policies_group, NULL, 1);
    each_rate_get_policies(p, .name = request->name);
}

void get_policy_finish(const lks_get_policy_request *request, answer *a, lks_get_policy_response *response)
{
    const store_value *view = answer_at(a, a->replies[0], 1);

    (void)request;
    if (answer_count(a, view) == 0 && a->error.code == LKS_OK)
        lks_error_set(&a->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "name: no such policy");
    else
        response->policy = new_policy(a, view);
}

/* ---- ListPolicies: a page token is the last name of the page before ---- */

void list_policies_prepare(const lks_list_policies_request *request, plan *p)
{
    int32_t size = request->page_size != 0 ? request->page_size : PAGE_DEFAULT;

    plan_check_range(p, "page_size", size, 1, PAGE_MAX);
    plan_check_name_or_empty(p, "page_token", request->page_token);
    plan_call(p, &fn_rate_list_policies, ratelimit_policies_group, NULL, 0);
    plan_weighs(p, 1 + (size_t)size / POLICIES_OF_WEIGHT);
    args_rate_list_policies(p, .after = request->page_token, .page_size = size);
}

void list_policies_finish(const lks_list_policies_request *request, answer *a, lks_list_policies_response *response)
{
    const store_value *reply = a->replies[0];
    size_t n = answer_count(a, reply);

    (void)request;
    response->policies = memory_in(a->arena, n * sizeof *response->policies);
    for (size_t i = 2; i < n && a->error.code == LKS_OK; i++)
        response->policies[response->n_policies++] = new_policy(a, answer_at(a, reply, i));
    if (answer_int(a, reply, 1) != 0 && response->n_policies > 0)
        response->next_page_token = response->policies[response->n_policies - 1]->name;
}

/* ---- DeletePolicy ---- */

void delete_policy_prepare(const lks_delete_policy_request *request, plan *p)
{
    plan_check_name(p, "name", request->name);
    plan_check_range(p, "expected_version", request->expected_version, 0, SERVICE_QUANTITY_MAX);
    plan_call(p, &fn_rate_delete_policy, ratelimit_policies_group, NULL, 0);
    args_rate_delete_policy(p, .name = request->name, .expected_version = request->expected_version);
}

void delete_policy_finish(const lks_delete_policy_request *request, answer *a, lks_delete_policy_response *response)
{
    (void)response;
    forget(a, request->name);
    answer_at(a, a->replies[0], 0);
}
