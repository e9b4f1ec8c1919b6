/* The three services under the helpers for daily use (Idempotency, RateLimit, Stock),
 * as one server that says what it is told to, for tests of lks_once, lks_limiter and
 * lks_reservation: what it was asked, and what becomes of a caller whose server is dumb,
 * away or says no. All functions are thread-safe. */
#ifndef LOCKSTOCK_TESTS_HELPERS_FAKE_H
#define LOCKSTOCK_TESTS_HELPERS_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef enum fake_method {
    FAKE_BEGIN,
    FAKE_EXTEND,
    FAKE_COMPLETE,
    FAKE_FAIL,
    FAKE_GET,
    FAKE_CHECK,
    FAKE_REFUND,
    FAKE_RESERVE,
    FAKE_CONFIRM,
    FAKE_EXTEND_HOLD,
    FAKE_CANCEL,
    FAKE_METHODS
} fake_method;

enum { FAKE_RULES = 8 };

/* One call. What a method does not have is 0 or "". */
typedef struct fake_event {
    fake_method method;
    char scope[40]; /* or group */
    char id[40];    /* key, or order_id, or request_id */
    char token[40]; /* attempt_token, or buyer_id */
    char text[160]; /* body, detail, reason, or fingerprint */
    uint64_t fence;
    int64_t lease_ms;                   /* or hold_ms */
    int64_t wait_ms, retain_ms, number; /* number: code, cost, or quantity of the first line */
    bool flag;                          /* fresh, reacquire_if_expired, or FINAL */
    size_t n;                           /* headers, rules, or lines */
    char keys[FAKE_RULES][40];          /* of rules: "policy p:key" or "limit n:key"; of lines: skus */
    uint64_t at_ns;
} fake_event;

/* How it answers; all 0 = everything succeeds, with fence 7 and attempt 1. */
typedef struct fake_manner {
    int outcome[FAKE_METHODS];    /* as the method's own enum; 0 = the good one */
    lks_code fails[FAKE_METHODS]; /* calls of the method, with this code */
    lks_applied applied;          /* of those; 0 = NO */
    uint32_t fail_times;          /* so many of those calls, then no more; 0 = all */
    uint32_t fail_retry_ms;       /* the retry_after_ms told with those */
    bool holds[FAKE_METHODS];     /* answers them only in another manner */
    uint32_t begin_delay_ms;      /* answers Begin late */
    const char *body;             /* of the result that Begin replays and Get finds; NULL = none */
    const char *failure;          /* instead: the detail of a failure for good */
    int64_t retry_after_ms;       /* of Begin and of a Check's rules */
    size_t never_rule;            /* of a Check: this rule, from 1, denies for ever; 0 = none */
    uint32_t denied_times;        /* so many Checks get their outcome, then ALLOWED; 0 = all */
    int64_t hold_ms;              /* left, told by Reserve and ExtendHold; 0 = as asked */
    bool replayed;
} fake_manner;

typedef struct helpers_fake helpers_fake;

/* NULL when it cannot. */
helpers_fake *helpers_fake_start(void);

/* Answers what it holds, ends. Takes NULL. */
void helpers_fake_stop(helpers_fake *fake);

/* "nng+tcp://127.0.0.1:PORT" */
const char *helpers_fake_url(const helpers_fake *fake);

/* From now on. What it holds is looked at again. */
void helpers_fake_behave(helpers_fake *fake, fake_manner manner);

/* Calls of a method so far. */
size_t helpers_fake_seen(helpers_fake *fake, fake_method method);

/* Blocks until there are `n` of those; false after a minute. */
bool helpers_fake_await(helpers_fake *fake, fake_method method, size_t n);

/* The i-th of those, from 0; there must be one. */
fake_event helpers_fake_event(helpers_fake *fake, fake_method method, size_t i);

#endif
