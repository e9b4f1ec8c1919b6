/* Scene j: "five a second; who tries more than seven times is locked out for two seconds", as a stored policy with a
 * penalty. A robot tries ten times in one second; between its tries others try, once each. */
#include "lock_scenes.h"

#include <inttypes.h>
#include <string.h>

#include <lockstock/limiter.h>
#include <lockstock/v1/ratelimit.lks_client.h>

#include "patience.h"

enum { ALLOWED = 5, FREE_TRIES = 7, PERIOD_MS = 1000, BAN_MS = 2000, TRIES = 10, ROUNDS = 100, PATIENCE_MS = 60000 };

typedef struct penalty_try {
    lks_check_outcome outcome;
    int64_t reset_after_ms, banned_ms;
} penalty_try;

typedef struct penalty_play {
    lks_channel *channel;
    char policy[40], robot[72];
    penalty_try tries[TRIES], others[TRIES];
    bool freed; /* when the lock was over, it was allowed again */
} penalty_play;

static lks_code put_policy(penalty_play *p, lks_error *error)
{
    lks_put_policy_request request = LKS_PUT_POLICY_REQUEST_INIT;
    lks_limit limit = LKS_LIMIT_INIT;
    lks_penalty penalty = LKS_PENALTY_INIT;

    limit.algorithm = LKS_ALGORITHM_FIXED_WINDOW;
    limit.limit = ALLOWED;
    limit.period_ms = PERIOD_MS;
    limit.penalty = &penalty;
    penalty.after = FREE_TRIES;
    penalty.ban_ms = BAN_MS;
    request.name = p->policy;
    request.limit = &limit;
    return lks_rate_limit_put_policy(p->channel, &request, NULL, NULL, error);
}

static void delete_policy(penalty_play *p)
{
    lks_delete_policy_request request = LKS_DELETE_POLICY_REQUEST_INIT;

    request.name = p->policy;
    lks_rate_limit_delete_policy(p->channel, &request, NULL, NULL, NULL);
}

static lks_code try_once(penalty_play *p, char *who, penalty_try *ret, lks_error *error)
{
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_check_response *response = NULL;

    lks_rule_set_policy(&rule, p->policy);
    rule.key = who;
    request.rules = rules;
    request.n_rules = 1;
    lks_code code = lks_rate_limit_check(p->channel, &request, NULL, &response, error);
    if (code == LKS_OK) {
        *ret = (penalty_try){response->outcome, response->rules[0]->reset_after_ms, response->rules[0]->banned_ms};
        lks_check_response_free(response);
    }
    return code;
}

/* *ret: all of the robot's tries up to the one that is too many were in one second of the clock: none came after the
 * end of the first one's. */
static lks_code play_round(penalty_play *p, int round, bool *ret, lks_error *error)
{
    char other[80];
    lks_code code = LKS_OK;
    int64_t start_ms = clock_ms();

    *ret = true;
    snprintf(p->robot, sizeof p->robot, "%s-robot-%d", p->policy, round);
    for (int i = 0; code == LKS_OK && i < TRIES; i++) {
        snprintf(other, sizeof other, "%s-other-%d-%d", p->policy, round, i);
        code = try_once(p, p->robot, &p->tries[i], error);
        if (i == FREE_TRIES)
            *ret = clock_ms() < start_ms + p->tries[0].reset_after_ms;
        if (code == LKS_OK)
            code = try_once(p, other, &p->others[i], error);
    }
    return code;
}

/* Waits as long as it is told to; nothing polls. */
static lks_code wait_for_the_end(penalty_play *p, lks_error *error)
{
    const lks_limiter_rule rule = {.policy = p->policy};
    const lks_limiter_options options = {.rules = &rule, .n_rules = 1};
    lks_limiter *limiter = NULL;
    lks_code code = lks_limiter_new(p->channel, &options, &limiter, error);

    if (code == LKS_OK) {
        p->freed = lks_limiter_wait(limiter, p->robot, 1, PATIENCE_MS, NULL, error);
        code = error->code;
    }
    lks_limiter_free(limiter);
    return code;
}

static const char *word(lks_check_outcome outcome)
{
    return outcome == LKS_CHECK_OUTCOME_ALLOWED  ? "allowed"
           : outcome == LKS_CHECK_OUTCOME_DENIED ? "denied"
           : outcome == LKS_CHECK_OUTCOME_BANNED ? "locked"
                                                 : "?";
}

static void check(lock_claims *claims, const penalty_play *p)
{
    for (int i = 0; i < TRIES; i++) {
        lks_check_outcome right = i < ALLOWED      ? LKS_CHECK_OUTCOME_ALLOWED
                                  : i < FREE_TRIES ? LKS_CHECK_OUTCOME_DENIED
                                                   : LKS_CHECK_OUTCOME_BANNED;
        lock_claim(claims, p->tries[i].outcome == right, "try %d was %s", i + 1, word(p->tries[i].outcome));
        lock_claim(claims, p->others[i].outcome == LKS_CHECK_OUTCOME_ALLOWED, "another buyer was %s",
                   word(p->others[i].outcome));
        if (i > FREE_TRIES)
            lock_claim(claims, p->tries[i].banned_ms <= p->tries[i - 1].banned_ms, "try %d made the lock longer",
                       i + 1);
    }
    lock_claim(claims, p->tries[FREE_TRIES].banned_ms == BAN_MS, "the lock is of %" PRId64 " ms",
               p->tries[FREE_TRIES].banned_ms);
    lock_claim(claims, p->freed, "the lock does not end");
}

lks_code scene_penalty(const lock_setup *setup, lock_claims *claims, lks_error *error)
{
    penalty_play p = {.freed = false};
    bool in_one_second = false;
    char run[17];
    lks_code code = lock_run_id(run, error);

    if (code != LKS_OK || (code = lks_channel_open(setup->urls, NULL, &p.channel, error)) != LKS_OK)
        return code;
    snprintf(p.policy, sizeof p.policy, "seckill-%s", run);
    code = put_policy(&p, error);
    for (int round = 0; code == LKS_OK && !in_one_second; round++) {
        code = play_round(&p, round, &in_one_second, error);
        if (code == LKS_OK && round == ROUNDS)
            code = lks_error_set(error, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO, "%d tries take more than a second",
                                 FREE_TRIES + 1);
    }
    if (code != LKS_OK || (code = wait_for_the_end(&p, error)) != LKS_OK)
        goto cleanup;
    fprintf(claims->table, "scene j: %d allowed a second, over %d tries locked out for %d s\n", ALLOWED, FREE_TRIES,
            BAN_MS / 1000);
    fprintf(claims->table, "  %-14s  %-9s  %s\n", "try", "the robot", "another buyer");
    for (int i = 0; i < TRIES; i++)
        fprintf(claims->table, "  %-14d  %-9s  %s\n", i + 1, word(p.tries[i].outcome), word(p.others[i].outcome));
    fprintf(claims->table, "  %-14s  %s\n", "after the lock", p.freed ? "allowed" : "REFUSED");
    check(claims, &p);
cleanup:
    delete_policy(&p);
    lks_channel_close(p.channel);
    return code;
}
