/* RateLimitService: DENIED and BANNED without asking the store. Invariant: an answer from memory is the answer that the
 * store would have given to the same call at a moment at most REFUSAL_KNOWN_NS ago, and is never given after the time
 * at which the call may pass. So only Checks of one rule and one unit are remembered: no unit is left, so only time, a
 * Refund, a Reset or another policy can change the counter. For a rule with a penalty only the ban is remembered,
 * because a denied try counts. A Check with a request_id may repeat one that was allowed, and a peek must read the
 * counter. */
#include <string.h>

#include "services/ratelimit.h"
#include "services/recent.h"

enum { MS = 1000000 };

enum { OUTCOME, LIMIT, REMAINING, RETRY_AT, RESET_AT, BAN_ENDS, NUMBERS }; /* instants in ns of CLOCK_MONOTONIC */
_Static_assert((int)NUMBERS <= (int)RECENT_NUMBERS, "a refusal has room");

struct ratelimit_question {
    recent_key key;
    bool has_penalty, is_known;
    recent_fact known;
};

void ratelimit_on_store_call(void *state, const store_call *call)
{
    recent *r = ratelimit_refusals_of(state);

    if (r && (strcmp(call->function, fn_rate_refund.name) == 0 || strcmp(call->function, fn_rate_reset.name) == 0))
        recent_drop(r, call->base);
}

static bool may_be_kept(const lks_check_request *request)
{
    return request->n_rules == 1 && request->cost <= 1 && !request->peek && request->request_id[0] == '\0';
}

bool ratelimit_is_known_refused(plan *p, const lks_check_request *request, const char *rule, bool has_penalty)
{
    recent *r = ratelimit_refusals_of(p->state);
    const char *key = request->rules[0]->key;

    check_kept *kept = p->kept;
    if (!r || !may_be_kept(request))
        return false;
    struct ratelimit_question *q = memory_in(p->arena, sizeof *q);
    *q = (struct ratelimit_question){.key = {{p->ns, lks_rpc_slice_of(answer_group(request->group, key)),
                                              lks_rpc_slice_of(key), lks_rpc_slice_of(rule)},
                                             4},
                                     .has_penalty = has_penalty};
    kept->question = q;
    const recent_fact *known = recent_find(r, &q->key, p->now_ns);
    if (known) {
        q->is_known = true;
        q->known = *known;
    }
    return q->is_known;
}

static int64_t ms_until(int64_t at_ns, uint64_t now_ns)
{
    int64_t left = at_ns - (int64_t)now_ns;

    return left > 0 ? (left + MS - 1) / MS : 0;
}

void ratelimit_count_rule(lks_check_response *response, const lks_rule_result *rule)
{
    if (rule->outcome > response->outcome) /* the enum is in ascending order of priority */
        response->outcome = rule->outcome;
    if (rule->outcome == LKS_CHECK_OUTCOME_ALLOWED || response->retry_after_ms < 0)
        return;
    if (rule->retry_after_ms < 0 || rule->retry_after_ms > response->retry_after_ms)
        response->retry_after_ms = rule->retry_after_ms;
}

void ratelimit_answer_known(answer *a, lks_check_response *response)
{
    const struct ratelimit_question *q = ((const check_kept *)a->plan->kept)->question;
    const int64_t *number = q->known.number;

    response->n_rules = 1;
    response->rules = answer_messages(a, &lockstock__v1__rule_result__descriptor, 1);
    lks_rule_result *rule = response->rules[0];
    rule->outcome = (lks_check_outcome)number[OUTCOME];
    rule->limit = number[LIMIT];
    rule->remaining = number[REMAINING];
    rule->retry_after_ms = ms_until(number[RETRY_AT], a->now_ns);
    rule->reset_after_ms = ms_until(number[RESET_AT], a->now_ns);
    rule->banned_ms = ms_until(number[BAN_ENDS], a->now_ns);
    ratelimit_count_rule(response, rule);
}

/* Returns the minimum time for which the refusal holds, counted from when it was requested: the store rounds durations
 * up. */
static int64_t valid_for_ms(const struct ratelimit_question *q, const lks_rule_result *rule)
{
    if (rule->outcome == LKS_CHECK_OUTCOME_BANNED)
        return rule->banned_ms - 1;
    if (rule->outcome != LKS_CHECK_OUTCOME_DENIED || q->has_penalty || rule->remaining > 0)
        return 0;
    return rule->retry_after_ms - 1;
}

void ratelimit_learn(const answer *a, const lks_check_response *response)
{
    const plan *p = a->plan;
    const struct ratelimit_question *q = ((const check_kept *)p->kept)->question;

    if (!q || a->error.code != LKS_OK)
        return;
    const lks_rule_result *rule = response->rules[0];
    recent *r = ratelimit_refusals_of(p->state);
    int64_t valid_ms = valid_for_ms(q, rule), now = (int64_t)a->now_ns;
    if (valid_ms <= 0) {
        recent_forget(r, &q->key, a->now_ns);
        return;
    }
    uint64_t until = valid_ms < (int64_t)(REFUSAL_KNOWN_NS / MS) ? (uint64_t)valid_ms * MS : REFUSAL_KNOWN_NS;
    const recent_fact what = {.ask_ns = p->asked_ns + (until < REFUSAL_ASK_NS ? until : REFUSAL_ASK_NS),
                              .until_ns = p->asked_ns + until,
                              .number = {[OUTCOME] = rule->outcome,
                                         [LIMIT] = rule->limit,
                                         [REMAINING] = rule->remaining,
                                         [RETRY_AT] = now + rule->retry_after_ms * MS,
                                         [RESET_AT] = now + rule->reset_after_ms * MS,
                                         [BAN_ENDS] = now + rule->banned_ms * MS}};
    recent_put(r, p->calls[0].base, &q->key, &what, a->now_ns);
}
