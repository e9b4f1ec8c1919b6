/* What the files of RateLimitService share, and what GuardService uses of it. */
#ifndef LOCKSTOCK_SERVER_RATELIMIT_H
#define LOCKSTOCK_SERVER_RATELIMIT_H

#include "lockstock/v1/ratelimit.lks.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"

/* ---- ratelimit_limits.c ---- */

/* No limit is higher. */
#define RATELIMIT_UNITS_MAX 1000000000000LL

/* A limit with its defaults. The algorithm of an unlimited policy is UNSPECIFIED. */
typedef struct limit_spec {
    lks_algorithm algorithm;
    int64_t limit, period_ms, burst;
    int64_t after, ban_ms, factor, max_ban_ms;
} limit_spec;

/* Checks a limit of a request; errors name fields below `field`. */
limit_spec ratelimit_check_limit(plan *p, const char *field, const lks_limit *limit);

/* "F,5,1000,0,7,2000,1,4000" as functions read it, the same for equal limits; "U": unlimited. */
char *ratelimit_spec_text(lks_rpc_arena *arena, const limit_spec *spec);

/* The same of a policy: "@<name> F,5,1000", "@<name> !F,5,1000" of a shadow. The name is percent-encoded;
 * spec "": there is no such policy. */
char *ratelimit_policy_text(lks_rpc_arena *arena, const char *name, bool shadow, const char *spec);

/* ---- ratelimit_policies.c ---- */

/* The service's open and close. */
void *ratelimit_open(const service_options *options);
void ratelimit_close(void *state);
struct ratelimit_domains *ratelimit_domains_of(const plan *p);

/* NULL: the server does not remember refusals. */
struct recent *ratelimit_refusals_of(void *state);

/* How old a known policy may be; the rest of a second is for the way to the store. */
#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(900000000)

/* The group of all policies of a namespace. */
extern const char ratelimit_policies_group[];

/* The numbers of a policy's view, of which element 0 is the name. */
limit_spec ratelimit_read_view(answer *a, const store_value *view, bool *shadow);

/* A stored policy as this server knows it. */
typedef struct known_policy {
    bool exists, shadow;
    limit_spec spec;
} known_policy;

/* What a Check keeps from round to round. */
typedef struct check_kept {
    known_policy *policies;              /* of each rule that names one */
    struct ratelimit_question *question; /* ratelimit_refusals.c; NULL: nothing may be remembered of it */
} check_kept;

/* Finds the policies that the rules name, policies[i] of rules[i]. False: some were not read a moment ago. */
bool ratelimit_find_policies(const plan *p, const lks_check_request *request, known_policy *policies);

/* Plans to read them; whether a plan is of that kind; reads the reply. */
void ratelimit_read_policies(plan *p, const lks_check_request *request);
bool ratelimit_reads_policies(const plan *p);
void ratelimit_keep_policies(answer *a, const lks_check_request *request, known_policy *policies);

LKS_RATE_LIMIT_METHODS(SERVICE_DECLARE)

/* ---- ratelimit.c: the rules of a Check, and of other requests that have some ---- */

enum { RATELIMIT_RULES_MAX = 8 };

/* A rule as the functions read it. */
typedef struct ratelimit_rule {
    const char *text;
    bool has_penalty;
} ratelimit_rule;

/* Checks their number, and makes p->kept that check_kept. */
void ratelimit_keep_room(plan *p, check_kept *kept, size_t n_rules);

/* Checks the rules and reads them into `rules`. False: the plan failed; or, with may_read, it reads the policies that
 * are not known, and finish calls ratelimit_keep_policies and plans a round without may_read. may_repeat: the request
 * may be a repeat about a policy that has been deleted. */
bool ratelimit_plan_rules(plan *p, const lks_check_request *request, bool may_read, bool may_repeat,
                          ratelimit_rule rules[RATELIMIT_RULES_MAX]);

/* The request's id as the functions take it, and for how long it may be repeated. */
const char *ratelimit_repeatable_id(plan *p, const char *request_id);

/* Reads what rate_check returns, except for what this server learns from it. */
void ratelimit_read_reply(answer *a, const store_value *reply, size_t n_rules, lks_check_response *response);

/* ---- ratelimit_refusals.c: what this server remembers of Checks that were refused ---- */

/* The service's on_store_call. */
void ratelimit_on_store_call(void *state, const store_call *call);

/* In prepare: whether a Check with the one rule `rule` is remembered as refused. Then nothing is planned, and finish
 * answers by ratelimit_tell_known; else finish reports the store's answer to ratelimit_learn. */
bool ratelimit_is_known_refused(plan *p, const lks_check_request *request, const char *rule, bool has_penalty);

/* Counts a rule's result in what the response says of all rules. */
void ratelimit_count_rule(lks_check_response *response, const lks_rule_result *rule);
void ratelimit_tell_known(answer *a, lks_check_response *response);
void ratelimit_learn(const answer *a, const lks_check_response *response);

/* ---- envoy_ratelimit.c ---- */

/* A method in this service's table. */
extern const lks_rpc_method envoy_should_rate_limit_method;
void envoy_should_rate_limit_prepare(const ProtobufCMessage *request, plan *p);
void envoy_should_rate_limit_finish(const ProtobufCMessage *request, answer *a, ProtobufCMessage *response);

#endif
