/* LockService, IdempotencyService, RateLimitService, StockService and GuardService as one server that grants everything or answers
 * as scripted, for tests of the client's helpers: the requests that it got, in which calls, and the behaviour of a
 * caller whose server is slow, silent or refuses. All functions are thread-safe. */
#ifndef LOCKSTOCK_TESTS_FAKE_SERVICE_H
#define LOCKSTOCK_TESTS_FAKE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstock/status.h>

typedef enum fake_method {
    FAKE_ACQUIRE,
    FAKE_RENEW,
    FAKE_RELEASE,
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
    FAKE_ENTER,
    FAKE_RENEW_ENTRY,
    FAKE_LEAVE,
    FAKE_METHODS
} fake_method;

enum { FAKE_RULES = 8 };

/* One call; of Renew one for each lease. What a method does not have is 0 or "". */
typedef struct fake_event {
    fake_method method;
    size_t call;               /* the how many-th of its method, from 0 */
    char group[40];            /* or scope */
    char id[40];               /* key, or order_id, or request_id */
    char token[40];            /* or attempt_token, or buyer_id */
    char name[40], owner[160]; /* of the first target; of the call */
    char parts[40];            /* of GuardService: "once limits stock locks" */
    char text[160];            /* body, detail, reason, or fingerprint */
    int64_t fence, mode, permits, capacity;
    int64_t lease_ms;                   /* or hold_ms */
    int64_t wait_ms, retain_ms, number; /* number: code, cost, or quantity of the first line */
    int64_t flag;                       /* fresh, reacquire_if_expired, FINAL, or the kind of a Leave */
    size_t n;                           /* headers, rules, or lines */
    char keys[FAKE_RULES][40];          /* of rules: "policy p:key" or "limit n:key"; of lines: skus */
    uint64_t at_ns;                     /* when it came */
} fake_event;

/* How it answers; all 0 = everything succeeds, with fence 7 of Begin, the next one of Acquire, and attempt 1. */
typedef struct fake_manner {
    int outcome[FAKE_METHODS];       /* as the method's own enum; 0 = the good one */
    lks_code fails[FAKE_METHODS];    /* calls of the method, with this code */
    lks_applied applied;             /* of those; 0 = NO */
    uint32_t fail_times;             /* so many of those calls, then no more; 0 = all */
    uint32_t fail_retry_ms;          /* the retry_after_ms of those errors */
    bool holds[FAKE_METHODS];        /* answers them only in another manner */
    uint32_t delay_ms[FAKE_METHODS]; /* answers late */
    const char *lost;                /* group whose renewal answers LOST */
    const char *poison;              /* group that makes a Renew fail that it is in */
    size_t leases_max;               /* of one Renew, more fail; 0 = 256 */
    const char *body;                /* of the result that Begin replays and Get finds; NULL = none */
    const char *failure;             /* instead: the detail of a final failure */
    int64_t retry_after_ms;          /* of Begin and of a Check's rules */
    size_t never_rule;               /* of a Check: this rule, from 1, denies permanently; 0 = none */
    uint32_t denied_times;           /* so many Checks get their outcome, then ALLOWED; 0 = all */
    int64_t hold_ms;                 /* hold_ms in answers of Reserve and ExtendHold; 0 = as requested */
    bool replayed;
} fake_manner;

typedef struct fake_service fake_service;

/* Returns NULL, with a message on stderr, when it cannot. */
fake_service *fake_start(void);

/* Answers the held calls and ends. Takes NULL. */
void fake_stop(fake_service *fake);

/* "SCHEME://127.0.0.1:PORT"; the scheme is LOCKSTOCK_TEST_SCHEME of the environment, else nng+tcp. */
const char *fake_url(const fake_service *fake);

/* From now on. What it holds is looked at again. */
void fake_behave(fake_service *fake, fake_manner manner);

/* Calls of a method so far. */
size_t fake_calls(fake_service *fake, fake_method method);

/* Events of a method and group so far; NULL = of all groups. */
size_t fake_seen(fake_service *fake, fake_method method, const char *group);

/* Blocks until there are `n` of those; false after a minute. */
bool fake_await(fake_service *fake, fake_method method, const char *group, size_t n);

/* The i-th of those, from 0; there must be one. */
fake_event fake_event_at(fake_service *fake, fake_method method, const char *group, size_t i);

#endif
