/* A rate limit that holds over all servers, asked in one line:
 *
 *     const lks_limiter_rule rule = {.policy = "login"};
 *     lks_limiter_new(channel, &(lks_limiter_options){.rules = &rule, .n_rules = 1}, &limiter, &error);
 *     ...
 *     if (!lks_limiter_allow(limiter, user_id, 1, &decision, NULL))
 *         return too_many(decision.retry_after_ms);
 *
 * Each allow is one call to a server. What is answered while no server can be asked is
 * the limiter's own choice: it is closed unless it was made with fail_open. All
 * functions are thread-safe. */
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
    const char *key;        /* what this rule counts, for all calls; NULL = the key of the call */
} lks_limiter_rule;

typedef struct lks_limiter_options {
    const char *group;             /* in which keys are counted; NULL or "" = each key is its own group, which
                                      is for one rule only */
    const lks_limiter_rule *rules; /* 1..8: no rule is charged unless all pass */
    size_t n_rules;
    uint32_t timeout_ms; /* of one question, retries included; 0 = 1,000 */
    bool fail_open;      /* allow what no server can be asked about: where serving too much is better than
                            not serving. Not where the limit guards money or a password */
    bool remembered;     /* each question carries an id, kept as long as what it was charged counts, and as it
                            may be asked again: one whose answer was lost is asked again and counted once,
                            and what was allowed can be refunded. Costs a record in the store for each */
    uint16_t reserved;   /* 0 */
} lks_limiter_options;

/* Of a decision of several rules: that one which denies for longest, first of all for ever;
 * if none does, the one with the least remaining. */
typedef struct lks_limiter_decision {
    lks_check_outcome outcome; /* 0: no server could be asked, or lks_limiter_stop */
    size_t rule;               /* from 0 */
    int64_t limit, remaining;
    int64_t retry_after_ms; /* until the same may be allowed; 0 when it was, or when nobody knows; -1 = never */
    int64_t reset_after_ms; /* until the counter is as new */
    int64_t banned_ms;      /* left of a ban */
    bool unchecked;         /* allowed by fail_open: no server was asked */
    char request_id[LKS_RPC_RANDOM_ID_LEN + 1]; /* for lks_limiter_refund; "" unless remembered */
} lks_limiter_decision;

/* A limiter; nothing is sent. All that options point to is copied. *ret is the caller's
 * to free. LKS_INVALID_ARGUMENT: no rule, too many, one without a policy or limit or
 * with both, several without a group; LKS_RESOURCE_EXHAUSTED: out of memory. */
lks_code lks_limiter_new_sized(lks_channel *channel, const lks_limiter_options *options, size_t options_bytes,
                               lks_limiter **ret, lks_error *error);

static inline lks_code lks_limiter_new(lks_channel *channel, const lks_limiter_options *options, lks_limiter **ret,
                                       lks_error *error)
{
    return lks_limiter_new_sized(channel, options, sizeof(lks_limiter_options), ret, error);
}

/* Whether this may happen now, `cost` times (1..2^53-1; 0 = once); charges it if so. key
 * is what is counted, 1..128 bytes. Blocks for timeout_ms at most. decision and error
 * may be NULL; both are set in every case. error->code is LKS_OK when a server was
 * asked, whatever it said; else the decision's outcome is 0 and error says why: with
 * UNAVAILABLE, DEADLINE_EXCEEDED and a RESOURCE_EXHAUSTED that passes (of this process, or
 * with a retry_after_ms) it is allowed if fail_open, with anything else (a policy that does
 * not exist, a malformed key, one with too many counters) never. */
bool lks_limiter_allow(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_decision *decision,
                       lks_error *error);

/* decision and error as with lks_limiter_allow; valid until the callback returns. */
typedef void lks_limiter_done(void *arg, bool allowed, const lks_limiter_decision *decision, const lks_error *error);

/* lks_limiter_allow without a thread that waits. `done` runs once, on the channel's completion thread, and must not
 * block. *ret, unless ret is NULL, is the caller's: lks_call_cancel ends the question (error: LKS_CANCELLED, as when
 * the channel is closed), lks_call_free frees it. The limiter must live until `done` has returned. On failure nothing
 * was started and `done` does not run: LKS_RESOURCE_EXHAUSTED, LKS_INVALID_ARGUMENT, LKS_FAILED_PRECONDITION (in a
 * forked child), LKS_CANCELLED (the channel is closing): fail_open is not applied to these. Thread-safe; does not
 * block. */
lks_code lks_limiter_check_start(lks_limiter *limiter, const char *key, int64_t cost, lks_limiter_done *done, void *arg,
                                 lks_call **ret, lks_error *error);

/* Waits until it is allowed, and charges it: true. Sleeps for as long as the server says
 * and asks again; nothing polls. False at once when it would not be allowed within
 * timeout_ms; then the decision says when it would (-1: never). Also when no server could be asked
 * (and not fail_open), or after lks_limiter_stop (error: LKS_CANCELLED). There is no queue
 * of those that wait: the first to ask at the right moment is allowed. With a penalty, each
 * question counts as a try. */
bool lks_limiter_wait(lks_limiter *limiter, const char *key, int64_t cost, uint32_t timeout_ms,
                      lks_limiter_decision *decision, lks_error *error);

/* Gives back what was charged by the allow or wait that made this decision, once. The
 * limiter must be one that is `remembered` and the decision one that allows
 * (LKS_FAILED_PRECONDITION). LKS_NOT_FOUND: the request id has expired. A second refund is
 * LKS_OK and changes nothing. */
lks_code lks_limiter_refund(lks_limiter *limiter, const char *key, const lks_limiter_decision *decision,
                            lks_error *error);

/* Ends every lks_limiter_wait, now and from now on. */
void lks_limiter_stop(lks_limiter *limiter);

/* Not while another thread uses it. Takes NULL. */
void lks_limiter_free(lks_limiter *limiter);

#ifdef __cplusplus
}
#endif

#endif
