/* Shared by the files of RateLimitService, and used in part by GuardService. */
#ifndef LOCKSTOCK_SERVER_RATELIMIT_H
#define LOCKSTOCK_SERVER_RATELIMIT_H

#include "lockstock/v1/ratelimit.lks.h"
#include "functions/arguments.h"
#include "memory.h"
#include "services/service.h"

/* ---- ratelimit_limits.c ---- */

/* The highest limit. */
#define RATELIMIT_UNITS_MAX 1000000000000LL

/* A limit with its defaults. The algorithm of an unlimited policy is UNSPECIFIED. */
typedef struct limit_spec {
    lks_algorithm algorithm;
    int64_t limit, period_ms, burst;
    int64_t after, ban_ms, factor, max_ban_ms;
} limit_spec;

/* Checks a limit in a request; errors name fields below `field`. */
limit_spec ratelimit_check_limit(plan *p, const char *field, const lks_limit *limit);

/* Returns "F,5,1000,0,7,2000,1,4000", the text that functions read, equal for equal limits; "U": unlimited. */
char *ratelimit_spec_text(lks_rpc_arena *arena, const limit_spec *spec);

/* Returns the text of a policy: "@<name> F,5,1000", or "@<name> !F,5,1000" of a shadow. The name is percent-encoded;
 * spec "": there is no such policy. */
char *ratelimit_policy_text(lks_rpc_arena *arena, const char *name, bool shadow, const char *spec);

/* ---- ratelimit_policies.c ---- */

/* Open and close of the service. */
void *ratelimit_open(const service_options *options);
void ratelimit_close(void *state);
struct ratelimit_domains *ratelimit_domains_of(const plan *p);

/* NULL: the server does not remember refusals. */
struct recent *ratelimit_refusals_of(void *state);

/* The maximum age of a known policy; the rest of a second is for the way to the store. */
#define RATELIMIT_POLICY_AGE_MAX_NS UINT64_C(900000000)

/* The group of all policies of a namespace. */
extern const char ratelimit_policies_group[];

/* Reads the numbers of a policy's view, whose element 0 is the name. */
limit_spec ratelimit_read_view(answer *a, const store_value *view, bool *shadow);

/* A stored policy as this server knows it. */
typedef struct known_policy {
    bool exists, shadow;
    limit_spec spec;
} known_policy;

/* State that a Check keeps between its rounds. */
typedef struct check_kept {
    known_policy *policies;              /* for each rule that names one */
    struct ratelimit_question *question; /* ratelimit_refusals.c; NULL: its refusal may not be remembered */
} check_kept;

/* Finds the policies that the rules name: policies[i] is for rules[i]. Returns false if some were not read recently
 * enough. */
bool ratelimit_find_policies(const plan *p, const lks_check_request *request, known_policy *policies);

/* Plan the reading of the policies; tell whether a plan reads policies; read the reply. */
void ratelimit_read_policies(plan *p, const lks_check_request *request);
bool ratelimit_reads_policies(const plan *p);
void ratelimit_keep_policies(answer *a, const lks_check_request *request, known_policy *policies);

LKS_RATE_LIMIT_METHODS(SERVICE_DECLARE)

/* ---- ratelimit.c: the rules of a Check, and of other requests that have some ---- */

enum { RATELIMIT_RULES_MAX = 8 };

/* A rule in the form that functions read. */
typedef struct ratelimit_rule {
    const char *text;
    bool has_penalty;
} ratelimit_rule;

/* Checks the number of rules, and sets p->kept to `kept`. */
void ratelimit_keep_room(plan *p, check_kept *kept, size_t n_rules);

/* Checks the rules and reads them into `rules`. Returns false if the plan failed; or, with may_read, if it reads
 * unknown policies: then finish calls ratelimit_keep_policies and plans a round without may_read. may_repeat: the
 * request may repeat one whose policy has been deleted. */
bool ratelimit_plan_rules(plan *p, const lks_check_request *request, bool may_read, bool may_repeat,
                          ratelimit_rule rules[RATELIMIT_RULES_MAX]);

/* Returns the request's id as the functions take it, with the time in which it may be repeated. */
const char *ratelimit_repeatable_id(plan *p, const char *request_id);

/* Reads the reply of rate_check, but does not learn refusals from it. */
void ratelimit_read_reply(answer *a, const store_value *reply, size_t n_rules, lks_check_response *response);

/* ---- ratelimit_refusals.c: what this server remembers of Checks that were refused ---- */

/* on_store_call of the service. */
void ratelimit_on_store_call(void *state, const store_call *call);

/* In prepare: whether a Check with the single rule `rule` is remembered as refused. Then nothing is planned, and finish
 * answers with ratelimit_answer_known; otherwise finish passes the store's answer to ratelimit_learn. */
bool ratelimit_is_known_refused(plan *p, const lks_check_request *request, const char *rule, bool has_penalty);

/* Adds a rule's result to the summary of all rules in the response. */
void ratelimit_count_rule(lks_check_response *response, const lks_rule_result *rule);
void ratelimit_answer_known(answer *a, lks_check_response *response);
void ratelimit_learn(const answer *a, const lks_check_response *response);

/* ---- envoy_ratelimit.c ---- */

/* A method in this service's table. */
extern const lks_rpc_method envoy_should_rate_limit_method;
void envoy_should_rate_limit_prepare(const ProtobufCMessage *request, plan *p);
void envoy_should_rate_limit_finish(const ProtobufCMessage *request, answer *a, ProtobufCMessage *response);

#endif
