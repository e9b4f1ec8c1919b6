/* Words in which tests of RateLimitService are written: one function a request, one
 * check a promise. Requests go through `h`; a request that fails returns NULL and
 * leaves its error in `err`. The store's clock stands still but for `advance`. */
#ifndef LOCKSTOCK_TESTS_RATELIMIT_SCRIPT_H
#define LOCKSTOCK_TESTS_RATELIMIT_SCRIPT_H

#include "lockstock/v1/ratelimit.lks.h"
#include "services/script.h"

/* For cmocka, before each test; the clock is then at the beginning of a second, minute,
 * hour and day. */
int ratelimit_reset(void **state);

/* Keys written from now on end when they should, by the real clock; else an hour later. */
void let_keys_end(void);

/* Logs in chunks of three entries, so that those of a short test have several. */
void shorten_chunks(void);

/* The store's clock, in microseconds. */
int64_t now_us(void);
void advance_us(int64_t us);
void advance(int64_t ms);

/* ---- requests; text is not copied ---- */

/* "FIXED 5/1000" is limit 5, period_ms 1000; more words: "burst=10", "after=7", "ban=2000",
 * "factor=2", "max=8000". Algorithms FIXED, LOG, WINDOW, BUCKET. "@name" is a policy.
 * "key" before it: "bob FIXED 5/1000"; rules are separated by ';'. They last until RULES_KEPT others were set. */
enum { RULES_KEPT = 512 };
void set_rules(lks_check_request *request, const char *rules);
void set_limit(lks_limit *limit, lks_penalty *penalty, const char *text);

const lks_check_response *check(const lks_check_request *request);

/* Of one unit, in group "g". */
const lks_check_response *check_rules(const char *rules);
const lks_check_response *check_cost(const char *rules, int64_t cost);
const lks_check_response *check_id(const char *rules, int64_t cost, const char *request_id);
const lks_check_response *peek(const char *rules, int64_t cost);
/* "REFUNDED"; NULL when it fails. */
const char *refund(const char *group, const char *request_id);
bool reset(const char *group, const char *key);
const lks_policy *put_policy(const char *name, const char *limit, bool shadow, int64_t expected_version);
const lks_policy *put_unlimited(const char *name);
const lks_policy *get_policy(const char *name);
bool delete_policy(const char *name, int64_t expected_version);

/* ---- checks ---- */

/* "ALLOWED" or "ALLOWED replayed", and of each rule ": OUTCOME limit remaining retry reset banned" */
const char *told(const lks_check_response *response);
void expect_told(const lks_check_response *response, const char *expected);
void expect_outcome(const lks_check_response *response, const char *outcome);

#endif
