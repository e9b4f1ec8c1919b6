/* envoy.service.ratelimit.v3.RateLimitService on stored policies (docs/envoy.md).
 * Invariant: what is asked of the store for a descriptor, and told of it, is of one
 * reading of its policy; so a policy that changes meanwhile mixes no numbers. A method of
 * RateLimitService's table: its policies are known here too. */
#include <string.h>

#include "envoy/service/ratelimit/v3/rls.pb-c.h"
#include "services/ratelimit.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest envoy_request;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse envoy_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus envoy_status;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit envoy_limit;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit envoy_unit;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor envoy_descriptor;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__Entry envoy_entry;

#define UNIT(NAME) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__RATE_LIMIT__UNIT__##NAME
#define CODE(NAME) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__##NAME

enum { DESCRIPTORS_MAX = 16, ENTRIES_MAX = 16, KEY_BYTES_MAX = 1024, ARGS_OF_CHECK = 7 };

/* A descriptor: what it says in full, and the names under which its policy may stand, the
 * most specific first, as rules, so that RateLimitService's own reading serves. */
typedef struct asked {
    const char *key;
    lks_rule **candidates;
    size_t n_candidates;
    const char *policy; /* NULL: there is none */
    limit_spec spec;    /* its numbers as they were sent */
} asked;

typedef struct question {
    asked *descriptors;
    lks_check_request candidates; /* of all of them */
} question;

static void *alloc(plan *p, size_t size)
{
    void *memory = plan_failed(p) ? NULL : lks_rpc_arena_alloc(p->arena, size);

    if (!memory)
        plan_no_memory(p);
    return memory;
}

/* ---- names ---------------------------------------------------------------------------- */

/* "key=value", or "key"; "/" before it unless it is the first. */
static char *append(plan *p, char *text, const char *key, const char *value)
{
    char *key_text = text ? plan_encode(p->arena, key) : NULL;
    char *value_text = key_text ? plan_encode(p->arena, value) : NULL;

    if (!value_text)
        return NULL;
    return lks_rpc_arena_printf(p->arena, "%s%s%s%s%s", text, text[0] ? "/" : "", key_text, value[0] ? "=" : "",
                                value_text);
}

/* Entries, the last `without` of them without their values. */
static char *entries_text(plan *p, const char *domain, const envoy_descriptor *from, size_t without)
{
    char *text = domain[0] ? plan_encode(p->arena, domain) : lks_rpc_arena_printf(p->arena, "%s", "");

    for (size_t i = 0; i < from->n_entries; i++)
        text = append(p, text, from->entries[i]->key, i + without < from->n_entries ? from->entries[i]->value : "");
    if (!text)
        plan_no_memory(p);
    return text;
}

/* A name that is too long is no policy's. */
static void add_candidate(plan *p, asked *to, char *name)
{
    lks_rule *rule = name && strlen(name) <= SERVICE_NAME_BYTES_MAX ? alloc(p, sizeof *rule) : NULL;

    if (!rule)
        return;
    *rule = (lks_rule)LKS_RULE_INIT;
    rule->spec_case = LKS_RULE_SPEC_POLICY;
    rule->policy = name;
    to->candidates[to->n_candidates++] = rule;
}

/* ---- the request ------------------------------------------------------------------------ */

static void check_descriptor(plan *p, const envoy_descriptor *from, size_t i)
{
    if (from->n_entries < 1 || from->n_entries > ENTRIES_MAX)
        plan_invalid(p, "descriptors[%zu].entries: must be 1 to %d", i, ENTRIES_MAX);
    for (size_t e = 0; e < from->n_entries && !plan_failed(p); e++)
        if (from->entries[e]->key[0] == '\0')
            plan_invalid(p, "descriptors[%zu].entries[%zu].key: must not be empty", i, e);
    if (from->hits_addend && from->hits_addend->value > (uint64_t)SERVICE_QUANTITY_MAX)
        plan_invalid(p, "descriptors[%zu].hits_addend: must be 0 to %lld", i, (long long)SERVICE_QUANTITY_MAX);
}

/* Its names; the candidates are the tail of `room`. */
static void read_descriptor(plan *p, const envoy_request *request, size_t i, asked *to, lks_rule **room)
{
    const envoy_descriptor *from = request->descriptors[i];

    check_descriptor(p, from, i);
    if (plan_failed(p))
        return;
    to->key = entries_text(p, "", from, 0);
    to->candidates = room;
    if (to->key && strlen(to->key) > KEY_BYTES_MAX)
        plan_invalid(p, "descriptors[%zu].entries: longer than %d bytes, percent-encoded", i, KEY_BYTES_MAX);
    for (size_t without = 0; without <= from->n_entries && !plan_failed(p); without++)
        add_candidate(p, to, entries_text(p, request->domain, from, without));
}

static question *read_request(plan *p, const envoy_request *request)
{
    question *q = alloc(p, sizeof *q);
    asked *descriptors = alloc(p, (request->n_descriptors + 1) * sizeof *descriptors);
    lks_rule **rules = alloc(p, (size_t)DESCRIPTORS_MAX * (ENTRIES_MAX + 1) * sizeof *rules);
    size_t n = 0;

    if (!rules)
        return NULL;
    *q = (question){.descriptors = descriptors, .candidates = LKS_CHECK_REQUEST_INIT};
    for (size_t i = 0; i < request->n_descriptors && !plan_failed(p); i++) {
        descriptors[i] = (asked){.key = NULL};
        read_descriptor(p, request, i, &descriptors[i], rules + n);
        n += descriptors[i].n_candidates;
    }
    q->candidates.rules = rules;
    q->candidates.n_rules = n;
    return q;
}

/* ---- the plan --------------------------------------------------------------------------- */

/* A check of one rule; none where there is no policy. */
static void plan_descriptor(plan *p, const envoy_request *request, size_t i, asked *d)
{
    const envoy_descriptor *from = request->descriptors[i];
    int64_t hits = request->hits_addend != 0 ? request->hits_addend : 1;
    const limit_spec *spec = NULL;
    bool shadow = false;

    if (from->hits_addend)
        hits = (int64_t)from->hits_addend->value;
    for (size_t c = 0; c < d->n_candidates && !spec; c++) {
        d->policy = d->candidates[c]->policy;
        spec = ratelimit_policy(p, d->policy, &shadow);
    }
    if (!spec) {
        d->policy = NULL;
        return;
    }
    d->spec = *spec;
    plan_call(p, hits != 0 ? "rate_check" : "rate_peek", request->domain, NULL, ARGS_OF_CHECK);
    plan_arg_int(p, hits != 0 ? hits : 1);
    plan_arg(p, "I");
    plan_arg(p, "");
    plan_arg_encoded(p, d->key);
    plan_arg_encoded(p, d->policy);
    const char *text = ratelimit_spec_text(p->arena, spec);
    if (!text)
        plan_no_memory(p);
    plan_arg(p, text ? text : "");
    plan_arg(p, shadow ? "1" : "0");
}

static void plan_descriptors(const ProtobufCMessage *any, plan *p)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;
    question *q = p->kept;

    for (size_t i = 0; i < request->n_descriptors && !plan_failed(p); i++)
        plan_descriptor(p, request, i, &q->descriptors[i]);
}

void envoy_should_rate_limit_prepare(const ProtobufCMessage *any, plan *p)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;

    plan_check_name(p, "domain", request->domain);
    if (request->n_descriptors < 1 || request->n_descriptors > DESCRIPTORS_MAX)
        plan_invalid(p, "descriptors: must be 1 to %d", DESCRIPTORS_MAX);
    question *q = read_request(p, request);
    p->kept = q;
    if (plan_failed(p))
        return;
    if (ratelimit_policies_known(p, &q->candidates))
        plan_descriptors(any, p);
    else
        ratelimit_read_policies(p, &q->candidates);
}

/* ---- the answer --------------------------------------------------------------------------- */

static const struct {
    int64_t ms;
    envoy_unit unit;
} units[] = {
    {1000, UNIT(SECOND)},
    {60 * 1000, UNIT(MINUTE)},
    {60 * 60 * 1000, UNIT(HOUR)},
    {INT64_C(24) * 60 * 60 * 1000, UNIT(DAY)},
    {INT64_C(7) * 24 * 60 * 60 * 1000, UNIT(WEEK)},
    {INT64_C(30) * 24 * 60 * 60 * 1000, UNIT(MONTH)},
    {INT64_C(365) * 24 * 60 * 60 * 1000, UNIT(YEAR)},
};

/* NULL where it cannot be said in Envoy's words. */
static envoy_limit *limit_of(answer *a, const asked *d)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].ms != d->spec.period_ms || d->spec.limit > UINT32_MAX)
            continue;
        envoy_limit *limit = answer_alloc(a, sizeof *limit);
        if (!limit)
            return NULL;
        envoy__service__ratelimit__v3__rate_limit_response__rate_limit__init(limit);
        limit->name = (char *)(uintptr_t)d->policy;
        limit->requests_per_unit = (uint32_t)d->spec.limit;
        limit->unit = units[i].unit;
        return limit;
    }
    return NULL;
}

static Google__Protobuf__Duration *duration_of(answer *a, int64_t ms)
{
    Google__Protobuf__Duration *duration = answer_alloc(a, sizeof *duration);

    if (!duration)
        return NULL;
    google__protobuf__duration__init(duration);
    duration->seconds = ms / 1000;
    duration->nanos = (int32_t)(ms % 1000 * 1000000);
    return duration;
}

/* The reply's rule: outcome, limit, remaining, and ms until it may pass, is as new. */
static void tell(answer *a, const asked *d, const store_value *reply, envoy_status *status)
{
    int outcome = answer_enum(a, reply, 2, &lockstock__v1__check_outcome__descriptor);
    int64_t remaining = answer_int(a, reply, 4), retry = answer_int(a, reply, 5), reset = answer_int(a, reply, 6);

    status->code = outcome == LKS_CHECK_OUTCOME_ALLOWED ? CODE(OK) : CODE(OVER_LIMIT);
    status->limit_remaining = remaining < UINT32_MAX ? (uint32_t)remaining : UINT32_MAX;
    status->duration_until_reset = duration_of(a, retry > reset ? retry : reset);
    status->current_limit = limit_of(a, d);
}

void envoy_should_rate_limit_finish(const ProtobufCMessage *any, answer *a, ProtobufCMessage *any_response)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;
    envoy_response *response = (envoy_response *)(void *)any_response;
    const question *q = a->plan->kept;
    size_t next = 0;

    if (a->n_replies > 0 && ratelimit_reads_policies(a->plan)) {
        ratelimit_keep_policies(a, &q->candidates);
        answer_again(a, plan_descriptors);
        return;
    }
    response->overall_code = CODE(OK);
    if (!(response->statuses = answer_alloc(a, request->n_descriptors * sizeof *response->statuses)))
        return;
    for (size_t i = 0; i < request->n_descriptors && a->error.code == LKS_OK; i++) {
        envoy_status *status = answer_alloc(a, sizeof *status);
        if (!status)
            return;
        envoy__service__ratelimit__v3__rate_limit_response__descriptor_status__init(status);
        status->code = CODE(OK);
        if (q->descriptors[i].policy)
            tell(a, &q->descriptors[i], a->replies[next++], status);
        if (status->code != CODE(OK))
            response->overall_code = CODE(OVER_LIMIT);
        response->statuses[response->n_statuses++] = status;
    }
}

const lks_rpc_method envoy_should_rate_limit_method = {
    .path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
    .response = &envoy__service__ratelimit__v3__rate_limit_response__descriptor,
    .effect = LKS_RPC_EFFECT_WRITE,
};
