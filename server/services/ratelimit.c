/* RateLimitService: its table, Check, Refund and Reset. Invariant: a rule that reaches the store has all its numbers;
 * those of a policy are as this server read them less than a second ago. */
#include <string.h>

#include "services/ratelimit.h"

enum {
    REPLY_OF_RULE = 6,
    REPEAT_MS_MAX = 86400000,
    REPEAT_MARGIN_MS = 5000 /* allows for a copy that arrives late */
};

/* ---- Check ---- */

static const char *what_of(const lks_rule *rule, const char *spec)
{
    return rule->spec_case == LKS_RULE_SPEC_POLICY ? rule->policy : spec;
}

/* Two rules of the same counter would charge it twice. */
static void check_twice(plan *p, const lks_check_request *request, const char *const *specs, size_t i)
{
    const lks_rule *rule = request->rules[i];

    for (size_t j = 0; j < i && !plan_failed(p); j++) {
        const lks_rule *other = request->rules[j];
        if (rule->spec_case == other->spec_case && strcmp(rule->key, other->key) == 0 &&
            strcmp(what_of(rule, specs[i]), what_of(other, specs[j])) == 0)
            plan_invalid(p, "rules[%zu].key: the same counter as of rules[%zu]", i, j);
    }
}

/* Checks a rule; returns the text of an inline limit. */
static const char *check_rule(plan *p, const lks_rule *rule, size_t i)
{
    const char *text = "";

    plan_check_name(p, plan_path(p, "rules[%zu].key", i), rule->key);
    if (rule->spec_case == LKS_RULE_SPEC_POLICY) {
        plan_check_name(p, plan_path(p, "rules[%zu].policy", i), rule->policy);
    } else if (rule->spec_case == LKS_RULE_SPEC_LIMIT) {
        limit_spec spec = ratelimit_check_limit(p, plan_path(p, "rules[%zu].limit", i), rule->limit);
        text = plan_failed(p) ? "" : ratelimit_spec_text(p->arena, &spec);
    } else {
        plan_invalid(p, "%s: or limit must be set", plan_path(p, "rules[%zu].policy", i));
    }
    return text;
}

/* spec: the text of an inline limit. A repeated request_id may concern a policy that has been deleted, whose text is
 * "". */
static ratelimit_rule text_of(plan *p, const lks_rule *rule, const char *spec, const known_policy *policy,
                              bool may_repeat, size_t i)
{
    if (rule->spec_case != LKS_RULE_SPEC_POLICY)
        return (ratelimit_rule){spec, rule->limit->penalty && rule->limit->penalty->after != 0};
    if (!policy->exists && !may_repeat)
        lks_error_set(&p->error, LKS_NOT_FOUND, LKS_APPLIED_NO, "rules[%zu].policy: no such policy", i);
    return (ratelimit_rule){ratelimit_policy_text(p->arena, plan_encode(p->arena, rule->policy), policy->shadow,
                                                  policy->exists ? ratelimit_spec_text(p->arena, &policy->spec) : ""),
                            policy->spec.after != 0};
}

const char *ratelimit_repeatable_id(plan *p, const char *request_id)
{
    uint32_t repeat_ms = p->repeat_ms < REPEAT_MS_MAX ? p->repeat_ms : REPEAT_MS_MAX;

    if (*request_id == '\0')
        return "";
    return memory_printf_in(p->arena, "%s %u", plan_encode(p->arena, request_id), repeat_ms + REPEAT_MARGIN_MS);
}

void ratelimit_keep_room(plan *p, check_kept *kept, size_t n_rules)
{
    if (n_rules < 1 || n_rules > RATELIMIT_RULES_MAX)
        plan_invalid(p, "rules: must be 1 to %d", RATELIMIT_RULES_MAX);
    if (plan_failed(p))
        return;
    *kept = (check_kept){.policies = memory_in(p->arena, n_rules * sizeof *kept->policies)};
    p->kept = kept;
}

bool ratelimit_plan_rules(plan *p, const lks_check_request *request, bool may_read, bool may_repeat,
                          ratelimit_rule rules[RATELIMIT_RULES_MAX])
{
    const char *specs[RATELIMIT_RULES_MAX];

    for (size_t i = 0; i < request->n_rules && !plan_failed(p); i++) {
        specs[i] = check_rule(p, request->rules[i], i);
        check_twice(p, request, specs, i);
    }
    if (plan_failed(p))
        return false;
    known_policy *policies = ((check_kept *)p->kept)->policies;
    if (may_read && !ratelimit_find_policies(p, request, policies)) {
        ratelimit_read_policies(p, request);
        return false;
    }
    for (size_t i = 0; i < request->n_rules && !plan_failed(p); i++)
        rules[i] = text_of(p, request->rules[i], specs[i], &policies[i], may_repeat, i);
    return !plan_failed(p);
}

/* Plans a round. */
static void plan_check(const lks_check_request *request, plan *p, bool may_read)
{
    const char *id = request->peek ? "" : request->request_id;
    ratelimit_rule rules[RATELIMIT_RULES_MAX];

    if (!ratelimit_plan_rules(p, request, may_read, id[0] != '\0', rules) ||
        ratelimit_is_known_refused(p, request, rules[0].text, rules[0].has_penalty))
        return;
    plan_call(p, request->peek ? &fn_rate_peek : &fn_rate_check, request->group,
              request->n_rules == 1 ? request->rules[0]->key : NULL, request->n_rules);
    plan_weighs(p, request->n_rules); /* a key may have the maximum number of counters */
    args_rate_check(p, .cost = request->cost != 0 ? request->cost : 1,
                    .mode = request->mode == LKS_CHECK_MODE_INDEPENDENT ? "I" : "A",
                    .request_id = ratelimit_repeatable_id(p, id));
    for (size_t i = 0; i < request->n_rules && !plan_failed(p); i++)
        each_rate_check(p, .key = request->rules[i]->key, .rule = rules[i].text);
}

void check_prepare(const lks_check_request *request, plan *p)
{
    plan_check_range(p, "cost", request->cost, 0, SERVICE_QUANTITY_MAX);
    plan_check_name_or_empty(p, "request_id", request->request_id);
    ratelimit_keep_room(p, memory_in(p->arena, sizeof(check_kept)), request->n_rules);
    if (!plan_failed(p))
        plan_check(request, p, true);
}

/* Uses the policies that were just read, however long that took. */
static void check_next(const ProtobufCMessage *request, plan *p)
{
    plan_check((const lks_check_request *)(const void *)request, p, false);
}

void check_finish(const lks_check_request *request, answer *a, lks_check_response *response)
{
    if (a->n_replies == 0) {
        ratelimit_answer_known(a, response);
        return;
    }
    if (ratelimit_reads_policies(a->plan)) {
        ratelimit_keep_policies(a, request, ((check_kept *)a->plan->kept)->policies);
        answer_next_round(a, check_next);
        return;
    }
    ratelimit_read_reply(a, a->replies[0], request->n_rules, response);
    ratelimit_learn(a, response);
}

void ratelimit_read_reply(answer *a, const store_value *reply, size_t n_rules, lks_check_response *response)
{
    const ProtobufCEnumDescriptor *outcome = &lockstock__v1__check_outcome__descriptor;

    response->replayed = answer_count(a, reply) > REPLY_OF_RULE * n_rules;
    response->n_rules = n_rules;
    response->rules = answer_messages(a, &lockstock__v1__rule_result__descriptor, response->n_rules);
    for (size_t i = 0; i < n_rules; i++) {
        size_t at = REPLY_OF_RULE * i;
        lks_rule_result *result = response->rules[i];
        result->outcome = (lks_check_outcome)answer_enum(a, reply, at, outcome);
        result->limit = answer_int(a, reply, at + 1);
        result->remaining = answer_int(a, reply, at + 2);
        result->retry_after_ms = answer_int(a, reply, at + 3);
        result->reset_after_ms = answer_int(a, reply, at + 4);
        result->banned_ms = answer_int(a, reply, at + 5);
        ratelimit_count_rule(response, result);
    }
}

/* ---- Refund, Reset ---- */

/* A request_id does not contain its group, so the request must name it. */
void refund_prepare(const lks_refund_request *request, plan *p)
{
    plan_check_name(p, "request_id", request->request_id);
    plan_call(p, &fn_rate_refund, request->group, NULL, 0);
    plan_weighs(p, RATELIMIT_RULES_MAX);
    args_rate_refund(p, .request_id = request->request_id);
}

void refund_finish(const lks_refund_request *request, answer *a, lks_refund_response *response)
{
    (void)request;
    response->outcome =
        (lks_refund_outcome)answer_enum(a, a->replies[0], 0, &lockstock__v1__refund_outcome__descriptor);
}

void reset_prepare(const lks_reset_request *request, plan *p)
{
    plan_check_name(p, "key", request->key);
    plan_call(p, &fn_rate_reset, request->group, request->key, 0);
    plan_weighs(p, RATELIMIT_RULES_MAX);
    args_rate_reset(p, .key = request->key);
}

void reset_finish(const lks_reset_request *request, answer *a, lks_reset_response *response)
{
    (void)request;
    (void)response;
    answer_at(a, a->replies[0], 0);
}

LKS_RATE_LIMIT_METHODS(SERVICE_PAIR)

static const service_method methods[] = {
    {&envoy_should_rate_limit_method, envoy_should_rate_limit_prepare, envoy_should_rate_limit_finish},
    LKS_RATE_LIMIT_METHODS(SERVICE_ROW)};

const service ratelimit_service = {.n_methods = sizeof methods / sizeof methods[0],
                                   .methods = methods,
                                   .open = ratelimit_open,
                                   .close = ratelimit_close,
                                   .on_store_call = ratelimit_on_store_call};
