/* lks_limiter: Check, and waits between Checks. Invariant: a limiter is constant except for `stopped`. An allow sends
 * one Check; a wait sends another Check at each time that a server named. */
#include <lockstock/limiter.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstock/rpc/options.h>
#include <lockstock/v1/ratelimit.lks_client.h>

#include "rpc/transient.h"
#include "base/clock.h"

enum { TIMEOUT_MS = 1000 };

/* The rule as it is sent, except for the key of a call. It points to the other members and to texts behind the
 * limiter. */
struct rule {
    lks_rule rule;
    bool has_key;
    lks_limit limit;
    lks_penalty penalty;
};

struct lks_limiter {
    lks_channel *channel;
    const char *group;
    uint32_t timeout_ms;
    bool fail_open, remembered;
    size_t n_rules;
    struct rule rules[LKS_LIMITER_RULES_MAX];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopped; /* under the lock */
};

/* ---- making and freeing --------------------------------------------------------------- */

void lks_limiter_free(lks_limiter *limiter)
{
    if (!limiter)
        return;
    pthread_cond_destroy(&limiter->changed);
    pthread_mutex_destroy(&limiter->lock);
    free(limiter);
}

static bool has_text(const char *text)
{
    return text && *text != '\0';
}

static lks_code check_options(const lks_limiter_options *options, lks_error *error)
{
    if (options->n_rules < 1 || options->n_rules > LKS_LIMITER_RULES_MAX)
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO, "options.rules: must be 1 to %d",
                             LKS_LIMITER_RULES_MAX);
    if (options->n_rules > 1 && !has_text(options->group))
        return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                             "options.group: must be given with several rules");
    for (size_t i = 0; i < options->n_rules; i++)
        if (has_text(options->rules[i].policy) == !!options->rules[i].limit)
            return lks_error_set(error, LKS_INVALID_ARGUMENT, LKS_APPLIED_NO,
                                 "options.rules[%zu]: must have a policy or a limit, and not both", i);
    return LKS_OK;
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static const char *put_text(char **at, const char *text)
{
    const char *put = *at;

    *at = stpcpy(*at, text) + 1;
    return put;
}

static void copy_rule(const lks_limiter_rule *from, struct rule *to, char **at)
{
    to->rule = (lks_rule)LKS_RULE_INIT;
    to->has_key = has_text(from->key);
    if (to->has_key)
        to->rule.key = put_text(at, from->key);
    if (!from->limit) {
        lks_rule_set_policy(&to->rule, put_text(at, from->policy));
        return;
    }
    to->limit = *from->limit;
    if (from->limit->penalty) {
        to->penalty = *from->limit->penalty;
        to->limit.penalty = &to->penalty;
    }
    lks_rule_set_limit(&to->rule, &to->limit);
}

lks_code lks_limiter_new_sized(lks_channel *channel, const lks_limiter_options *given, size_t given_bytes,
                               lks_limiter **ret, lks_error *error)
{
    lks_limiter_options own, *options = &own;
    lks_code code = lks_rpc_options_read(&own, sizeof own, given, given_bytes, "lks_limiter_options", error);
    if (code != LKS_OK || (code = check_options(options, error)) != LKS_OK)
        return code;
    size_t bytes = text_bytes(options->group);
    for (size_t i = 0; i < options->n_rules; i++)
        bytes += text_bytes(options->rules[i].policy) + text_bytes(options->rules[i].key);
    lks_limiter *limiter = calloc(1, sizeof *limiter + bytes);
    if (!limiter)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    pthread_mutex_init(&limiter->lock, NULL);
    pthread_cond_init(&limiter->changed, NULL);
    limiter->channel = channel;
    limiter->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_MS;
    limiter->fail_open = options->fail_open;
    limiter->remembered = options->remembered;
    char *at = (char *)(limiter + 1);
    limiter->group = has_text(options->group) ? put_text(&at, options->group) : NULL;
    limiter->n_rules = options->n_rules;
    for (size_t i = 0; i < options->n_rules; i++)
        copy_rule(&options->rules[i], &limiter->rules[i], &at);
    *ret = limiter;
    lks_error_clear(error);
    return LKS_OK;
}

/* ---- one question ------------------------------------------------------------------ */

/* A rule's retry_after_ms as a number in which -1 (never) is the largest. */
static uint64_t wait_of(const lks_rule_result *result)
{
    return (uint64_t)result->retry_after_ms;
}

/* Whether `a` decides rather than `b`: a denial that lasts longer, or, among rules that pass, the one with less left.
 * */
static bool decides(const lks_rule_result *a, const lks_rule_result *b)
{
    bool a_passes = a->outcome == LKS_CHECK_OUTCOME_ALLOWED, b_passes = b->outcome == LKS_CHECK_OUTCOME_ALLOWED;

    if (a_passes != b_passes)
        return b_passes;
    return a_passes ? a->remaining < b->remaining : wait_of(a) > wait_of(b);
}

static lks_code take_answer(const lks_limiter *limiter, const lks_check_response *response,
                            lks_limiter_decision *decision, lks_error *error)
{
    size_t rule = 0;

    if (response->n_rules != limiter->n_rules || response->outcome < LKS_CHECK_OUTCOME_ALLOWED ||
        response->outcome > LKS_CHECK_OUTCOME_BANNED)
        return lks_error_set(error, LKS_INTERNAL, LKS_APPLIED_MAYBE, "the answer has an unknown outcome");
    for (size_t i = 1; i < response->n_rules; i++)
        if (decides(response->rules[i], response->rules[rule]))
            rule = i;
    const lks_rule_result *result = response->rules[rule];
    decision->outcome = response->outcome;
    decision->rule = rule;
    decision->limit = result->limit;
    decision->remaining = result->remaining;
    decision->retry_after_ms = response->outcome != LKS_CHECK_OUTCOME_ALLOWED ? result->retry_after_ms : 0;
    decision->reset_after_ms = result->reset_after_ms;
    decision->banned_ms = result->banned_ms;
    return LKS_OK;
}

/* A question, and what becomes of the answer. */
struct question {
    const lks_limiter *limiter;
    lks_limiter_done *done; /* NULL = a thread waits */
    void *arg;
    lks_limiter_decision decision;
    bool allowed;
    lks_error error;
};

static void checked(void *arg, lks_code code, const lks_check_response *response, const lks_error *error)
{
    struct question *q = arg;

    q->error = *error;
    if (code == LKS_OK)
        code = take_answer(q->limiter, response, &q->decision, &q->error);
    q->decision.unchecked = code != LKS_OK && q->limiter->fail_open && error_is_transient(&q->error);
    q->allowed = q->decision.unchecked || (code == LKS_OK && q->decision.outcome == LKS_CHECK_OUTCOME_ALLOWED);
    if (!q->done)
        return;
    q->done(q->arg, q->allowed, &q->decision, &q->error);
    free(q);
}

/* Sends a Check, whose answer `checked` gets, on this thread if it waits. */
static lks_code ask(struct question *q, const char *key, int64_t cost, lks_call **ret, lks_error *error)
{
    const lks_limiter *limiter = q->limiter;
    const lks_call_options options = {.timeout_ms = limiter->timeout_ms};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_rule rules[LKS_LIMITER_RULES_MAX], *list[LKS_LIMITER_RULES_MAX];
    lks_check_response *response = NULL;

    for (size_t i = 0; i < limiter->n_rules; i++) {
        rules[i] = limiter->rules[i].rule;
        if (!limiter->rules[i].has_key)
            rules[i].key = key;
        list[i] = &rules[i];
    }
    if (limiter->group)
        request.group = limiter->group;
    request.n_rules = limiter->n_rules;
    request.rules = list;
    request.cost = cost;
    if (limiter->remembered) {
        lks_rpc_random_id(q->decision.request_id);
        request.request_id = q->decision.request_id;
    }
    if (q->done)
        return lks_rate_limit_check_start(limiter->channel, &request, &options, checked, q, ret, error);
    lks_code code = lks_rate_limit_check(limiter->channel, &request, &options, &response, error);
    checked(q, code, response, error);
    lks_check_response_free(response);
    return code;
}

static bool allow(const lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_decision *decision,
                  lks_error *error)
{
    struct question q = {.limiter = limiter};

    ask(&q, key, cost, NULL, error);
    *decision = q.decision;
    *error = q.error;
    return q.allowed;
}

bool lks_limiter_allow(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_decision *decision,
                       lks_error *error)
{
    lks_limiter_decision unwanted_decision;
    lks_error unwanted;

    return allow(limiter, key, cost, decision ? decision : &unwanted_decision, error ? error : &unwanted);
}

lks_code lks_limiter_check_start(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_done *done, void *arg,
                                 lks_call **ret, lks_error *error)
{
    struct question *q = malloc(sizeof *q);

    if (!q)
        return lks_error_set(error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO, "out of memory");
    *q = (struct question){.limiter = limiter, .done = done, .arg = arg};
    lks_code code = ask(q, key, cost, ret, error);
    if (code != LKS_OK)
        free(q);
    return code;
}

/* ---- waiting ----------------------------------------------------------------------- */

/* False when the limiter was stopped. */
static bool sleep_until(lks_limiter *limiter, uint64_t at_ns)
{
    const struct timespec at = clock_timespec(at_ns);
    int failed = 0;

    pthread_mutex_lock(&limiter->lock);
    while (!limiter->stopped && failed == 0)
        failed = pthread_cond_clockwait(&limiter->changed, &limiter->lock, CLOCK_MONOTONIC, &at);
    bool stopped = limiter->stopped;
    pthread_mutex_unlock(&limiter->lock);
    return !stopped;
}

static bool wait_until(lks_limiter *limiter, const char *key, int64_t cost, uint64_t until_ns,
                       lks_limiter_decision *decision, lks_error *error)
{
    uint64_t at_ns = 0; /* the first sleep is empty, and checks for a stop */

    while (sleep_until(limiter, at_ns)) {
        if (allow(limiter, key, cost, decision, error))
            return true;
        uint64_t now = clock_now_ns();
        /* Without a time in the answer, it does not ask again. */
        if (error->code != LKS_OK || decision->retry_after_ms <= 0 || now >= until_ns ||
            (uint64_t)decision->retry_after_ms > (until_ns - now) / CLOCK_NS_PER_MS)
            return false;
        at_ns = now + (uint64_t)decision->retry_after_ms * CLOCK_NS_PER_MS;
    }
    *decision = (lks_limiter_decision){.request_id = ""};
    lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "the limiter was stopped");
    return false;
}

bool lks_limiter_wait(lks_limiter *limiter, const char *key, int64_t cost, uint32_t timeout_ms,
                      lks_limiter_decision *decision, lks_error *error)
{
    uint64_t until_ns = clock_in_ms(timeout_ms);
    lks_limiter_decision unwanted_decision;
    lks_error unwanted;

    return wait_until(limiter, key, cost, until_ns, decision ? decision : &unwanted_decision,
                      error ? error : &unwanted);
}

void lks_limiter_stop(lks_limiter *limiter)
{
    pthread_mutex_lock(&limiter->lock);
    limiter->stopped = true;
    pthread_cond_broadcast(&limiter->changed);
    pthread_mutex_unlock(&limiter->lock);
}

/* ---- giving back -------------------------------------------------------------------- */

lks_code lks_limiter_refund(lks_limiter *limiter, const char *key, const lks_limiter_decision *decision,
                            lks_error *error)
{
    lks_refund_request request = LKS_REFUND_REQUEST_INIT;
    lks_refund_response *response = NULL;
    const lks_call_options options = {.insist = true};

    if (decision->outcome != LKS_CHECK_OUTCOME_ALLOWED || decision->request_id[0] == '\0')
        return lks_error_set(error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                             "only a decision that allows, of a limiter that is `remembered`, can be refunded");
    request.group = limiter->group ? limiter->group : limiter->rules[0].has_key ? limiter->rules[0].rule.key : key;
    request.request_id = decision->request_id;
    lks_code code = lks_rate_limit_refund(limiter->channel, &request, &options, &response, error);
    if (code == LKS_OK && response->outcome == LKS_REFUND_OUTCOME_UNKNOWN)
        code = lks_error_set(error, LKS_NOT_FOUND, LKS_APPLIED_NO, "the request id has expired");
    lks_refund_response_free(response);
    return code;
}
