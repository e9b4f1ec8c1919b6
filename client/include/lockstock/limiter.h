/* A rate limit over all servers:
 *
 *     const lks_limiter_rule rule = {.policy = "login"};
 *     lks_limiter_new(channel, &(lks_limiter_options){.rules = &rule, .n_rules = 1}, &limiter, &error);
 *     ...
 *     if (!lks_limiter_allow(limiter, user_id, 1, &decision, NULL))
 *         return too_many(decision.retry_after_ms);
 *
 * Each allow is one call to a server. While no server can be asked, the limiter denies, unless it was made with
 * fail_open. All functions are thread-safe. */
#ifndef LOCKSTOCK_LIMITER_H
#define LOCKSTOCK_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/call.h>
#include <lockstock/channel.h>
#include <lockstock/rpc/method.h>
#include <lockstock/v1/ratelimit.lks.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lks_limiter lks_limiter;

enum { LKS_LIMITER_RULES_MAX = 8 };

/* Exactly one of policy and limit. */
typedef struct lks_limiter_rule {
    const char *policy;     /* the name of a stored policy */
    const lks_limit *limit; /* or a limit itself (lockstock/v1/ratelimit.lks.h) */
    const char *key;        /* the key that this rule counts, for all calls; NULL = the key of the call */
} lks_limiter_rule;

typedef struct lks_limiter_options {
    /* The group of the counters; NULL or "" = each key is its own group, only with one rule. */
    const char *group;
    const lks_limiter_rule *rules; /* 1..8; no rule is charged unless all pass */
    size_t n_rules;
    uint32_t timeout_ms; /* of one call, including retries; 0 = 1,000 */
    /* Allow calls while no server can be asked: for limits where serving too much is better than not serving. Not
     * for limits that guard money or a password. */
    bool fail_open;
    /* Each check has an id, which the store keeps as long as its charge counts and the check may be repeated. A
     * check whose answer was lost is repeated and counted once, and an allowed check can be refunded. Costs a record
     * in the store for each. */
    bool remembered;
    uint16_t reserved; /* 0 */
} lks_limiter_options;

/* With several rules, the values are those of the rule that denies for the longest time (for ever comes first), or, if
 * none denies, of the one with the least remaining. */
typedef struct lks_limiter_decision {
    lks_check_outcome outcome; /* 0: no server could be asked, or lks_limiter_stop was called */
    size_t rule;               /* from 0 */
    int64_t limit, remaining;
    int64_t retry_after_ms; /* until the same check may be allowed; 0 if it was, or if unknown; -1 = never */
    int64_t reset_after_ms; /* until the counter is fully reset */
    int64_t banned_ms;      /* remaining time of a ban */
    bool unchecked;         /* allowed by fail_open: no server was asked */
    char request_id[LKS_RPC_RANDOM_ID_LEN + 1]; /* for lks_limiter_refund; "" unless remembered */
} lks_limiter_decision;

/* Makes a limiter; sends nothing. Copies everything that options point to. The caller frees *ret. LKS_INVALID_ARGUMENT:
 * no rule, too many rules, a rule without a policy or limit or with both, or several rules without a group;
 * LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code lks_limiter_new_sized(lks_channel *channel, const lks_limiter_options *options, size_t options_bytes,
                               lks_limiter **ret, lks_error *error);

static inline lks_code lks_limiter_new(lks_channel *channel, const lks_limiter_options *options, lks_limiter **ret,
                                       lks_error *error)
{
    return lks_limiter_new_sized(channel, options, sizeof(lks_limiter_options), ret, error);
}

/* Checks whether something may happen now, `cost` times (1..2^53-1; 0 = once), and charges it if so. key: the counted
 * key, 1..128 bytes. Blocks for timeout_ms at most. decision and error may be NULL; both are always set. error->code is
 * LKS_OK when a server answered; otherwise the decision's outcome is 0 and error says why. With UNAVAILABLE,
 * DEADLINE_EXCEEDED and a transient RESOURCE_EXHAUSTED (of this process, or with a retry_after_ms) it is allowed if
 * fail_open; with other errors (an unknown policy, a malformed key, a key with too many counters) never. */
bool lks_limiter_allow(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_decision *decision,
                       lks_error *error);

/* decision and error as for lks_limiter_allow; valid until the callback returns. */
typedef void lks_limiter_done(void *arg, bool allowed, const lks_limiter_decision *decision, const lks_error *error);

/* lks_limiter_allow without a waiting thread. `done` runs once, on the channel's completion thread, and must not block.
 * *ret, unless ret is NULL, belongs to the caller: lks_call_cancel ends the check (error: LKS_CANCELLED, as when the
 * channel is closed), lks_call_free frees it. The limiter must exist until `done` has returned. On failure nothing was
 * started and `done` does not run: LKS_RESOURCE_EXHAUSTED, LKS_INVALID_ARGUMENT, LKS_FAILED_PRECONDITION (in a forked
 * child), LKS_CANCELLED (the channel is closing): fail_open is not applied to these. Thread-safe; does not block. */
lks_code lks_limiter_check_start(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_done *done, void *arg,
                                 lks_call **ret, lks_error *error);

/* Waits until it is allowed, charges it, and returns true. Sleeps as long as the server says before it asks again.
 * Returns false at once when it would not be allowed within timeout_ms; then the decision says when it would (-1:
 * never). Also returns false when no server could be asked (without fail_open), or after lks_limiter_stop (error:
 * LKS_CANCELLED). Waiters have no queue: the first to ask at the right moment is allowed. With a penalty, each check
 * counts as a try. */
bool lks_limiter_wait(lks_limiter *limiter, const char *key, int64_t cost, uint32_t timeout_ms,
                      lks_limiter_decision *decision, lks_error *error);

/* Gives back, once, the charge of the allow or wait that made this decision. LKS_FAILED_PRECONDITION: the limiter is
 * not `remembered`, or the decision does not allow. LKS_NOT_FOUND: the request id has expired. A second refund is
 * LKS_OK and changes nothing. */
lks_code lks_limiter_refund(lks_limiter *limiter, const char *key, const lks_limiter_decision *decision,
                            lks_error *error);

/* Ends every current and later lks_limiter_wait. */
void lks_limiter_stop(lks_limiter *limiter);

/* Must not be called while another thread uses the limiter. Takes NULL. */
void lks_limiter_free(lks_limiter *limiter);

#ifdef __cplusplus
}
#endif

#endif
