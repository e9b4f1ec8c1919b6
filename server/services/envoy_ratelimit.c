/* envoy.service.ratelimit.v3.RateLimitService on stored policies (docs/envoy.md), a method in RateLimitService's table.
 * Invariants: the check and the answer of a descriptor use the same reading of its policy, so a policy that changes
 * meanwhile does not mix numbers. No request from a client of the proxy makes the call fail, because the proxy lets a
 * request pass if it gets no answer. */
#include <string.h>

#include "digest.h"
#include "envoy/service/ratelimit/v3/rls.pb-c.h"
#include "services/ratelimit.h"
#include "services/ratelimit_domains.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest envoy_request;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse envoy_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus envoy_status;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit envoy_limit;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit envoy_unit;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor envoy_descriptor;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__RateLimitOverride envoy_override;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__Entry envoy_entry;

#define UNIT(NAME) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__RATE_LIMIT__UNIT__##NAME
#define CODE(NAME) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__##NAME

enum {
    DESCRIPTORS_MAX = 16,
    ENTRIES_MAX = 16,
    POLICIES_MAX = 10000, /* in a domain */
    PAGE_POLICIES = 200,
    VIEWS_AT = 3,
};

/* After this time all policies are read again, because an older server changes them without changing their version. */
#define RELOAD_NS UINT64_C(30000000000)

/* The policy in the name of a counter, for a limit given in the descriptor. No encoded name contains a $. */
#define OVERRIDE_POLICY "$limit"

typedef enum verdict {
    FREE,      /* no policy, or one without a limit: OK */
    MALFORMED, /* not a valid descriptor: UNKNOWN */
    NEVER,     /* a limit of 0 in the descriptor: OVER_LIMIT */
    COUNTED,   /* the store decides */
} verdict;

typedef struct asked {
    verdict verdict;
    const char *key; /* all its entries */
    domain_entry *entries;
    const char *policy; /* "": the limit in the descriptor */
    limit_spec spec;    /* its numbers as they were sent */
} asked;

/* State that a call keeps between its rounds. */
typedef struct question {
    asked *descriptors;
    const char *domain; /* percent-encoded */
    /* While the domain's policies are read: */
    domain_policies read;
    domain_policy *policies;
    size_t room;
    const char *after; /* the last name that was read; "": none, or all names were read */
} question;

/* ---- names ---------------------------------------------------------------------------- */

/* Returns "$" and the SHA-256 in hex; no encoded text contains a $. */
static char *short_name(plan *p, const void *data, size_t len)
{
    char *text = memory_in(p->arena, 1 + DIGEST_HEX_LEN + 1);

    text[0] = '$';
    digest_hex(data, len, text + 1);
    return text;
}

/* Percent-encodes a text. `*start` is the part that fits into a policy's name. A longer text is replaced by a short
 * one, so that names of counters stay short. */
static const char *name_of(plan *p, const void *data, size_t len, const char **start)
{
    size_t head = len < SERVICE_NAME_BYTES_MAX ? len : SERVICE_NAME_BYTES_MAX;
    char *text = plan_encode_bytes(p->arena, data, head);
    bool whole = head == len && strlen(text) <= SERVICE_NAME_BYTES_MAX;

    if (!whole && strlen(text) > SERVICE_NAME_BYTES_MAX)
        text[SERVICE_NAME_BYTES_MAX] = '\0';
    *start = text;
    return whole ? text : short_name(p, data, len);
}

static void read_entry(plan *p, const envoy_entry *from, domain_entry *to)
{
    const char *unused;

    to->key = name_of(p, from->key, strlen(from->key), &unused);
    to->value = name_of(p, from->value.data, from->value.len, &to->start);
}

/* Returns "key=value/key". An entry without a value is only its key. */
static const char *join(plan *p, const domain_entry *entries, size_t n)
{
    const char *text = "";

    for (size_t i = 0; i < n; i++)
        text = memory_printf_in(p->arena, "%s%s%s%s%s", text, i > 0 ? "/" : "", entries[i].key,
                                entries[i].value[0] != '\0' ? "=" : "", entries[i].value);
    return text;
}

/* ---- the request ------------------------------------------------------------------------ */

static bool is_malformed(const envoy_descriptor *from)
{
    bool malformed = from->n_entries < 1 || from->n_entries > ENTRIES_MAX;

    for (size_t i = 0; i < from->n_entries && !malformed; i++)
        malformed = from->entries[i]->key[0] == '\0';
    return malformed;
}

static void read_descriptor(plan *p, const envoy_descriptor *from, asked *to)
{
    *to = (asked){.verdict = is_malformed(from) ? MALFORMED : FREE};
    if (to->verdict == MALFORMED)
        return;
    to->entries = memory_in(p->arena, from->n_entries * sizeof *to->entries);
    for (size_t i = 0; i < from->n_entries; i++)
        read_entry(p, from->entries[i], &to->entries[i]);
    to->key = join(p, to->entries, from->n_entries);
}

static question *read_request(plan *p, const envoy_request *request)
{
    question *q = memory_in(p->arena, sizeof *q);

    *q = (question){.descriptors = memory_in(p->arena, request->n_descriptors * sizeof *q->descriptors),
                    .domain = plan_encode(p->arena, request->domain)};
    for (size_t i = 0; i < request->n_descriptors; i++)
        read_descriptor(p, request->descriptors[i], &q->descriptors[i]);
    return q;
}

/* ---- the plan --------------------------------------------------------------------------- */

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
enum { N_UNITS = sizeof units / sizeof units[0] };

/* Takes the limit given in the descriptor. Returns false if there is none or its unit is unknown. */
static bool take_override(const envoy_override *limit, asked *d)
{
    size_t i = 0;

    while (limit && i < N_UNITS && (int32_t)units[i].unit != limit->unit)
        i++;
    if (!limit || i == N_UNITS)
        return false;
    d->verdict = limit->requests_per_unit > 0 ? COUNTED : NEVER;
    d->policy = "";
    d->spec = (limit_spec){
        .algorithm = LKS_ALGORITHM_FIXED_WINDOW, .limit = limit->requests_per_unit, .period_ms = units[i].ms};
    return true;
}

static void plan_check(plan *p, const envoy_request *request, const envoy_descriptor *from, const asked *d, bool shadow)
{
    uint64_t hits = from->hits_addend ? from->hits_addend->value : request->hits_addend != 0 ? request->hits_addend : 1;

    if (hits > (uint64_t)SERVICE_QUANTITY_MAX)
        hits = (uint64_t)SERVICE_QUANTITY_MAX; /* this too is over any limit */
    plan_call(p, hits != 0 ? &fn_rate_check : &fn_rate_peek, request->domain, NULL, 1);
    args_rate_check(p, .cost = hits != 0 ? (int64_t)hits : 1, .mode = "I", .request_id = "");
    const char *policy = d->policy[0] != '\0' ? plan_encode(p->arena, d->policy) : OVERRIDE_POLICY;
    each_rate_check(p, .key = d->key,
                    .rule = ratelimit_policy_text(p->arena, policy, shadow, ratelimit_spec_text(p->arena, &d->spec)));
}

/* Plans a check of one rule, unless there is no limit to check. */
static void plan_descriptor(plan *p, const envoy_request *request, size_t i, asked *d, const domain_policies *known)
{
    const envoy_descriptor *from = request->descriptors[i];
    const question *q = p->kept;
    bool shadow = false;

    if (d->verdict == MALFORMED)
        return;
    if (!take_override(from->limit, d)) {
        const domain_policy *policy = domain_policies_find(known, q->domain, d->entries, from->n_entries);
        if (!policy || policy->spec.algorithm == LKS_ALGORITHM_UNSPECIFIED)
            return;
        d->verdict = COUNTED;
        d->spec = policy->spec;
        shadow = policy->shadow;
        d->policy = memory_text_in(p->arena, policy->name);
    }
    if (d->verdict == COUNTED)
        plan_check(p, request, from, d, shadow);
}

static void plan_descriptors(const ProtobufCMessage *any, plan *p)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;
    question *q = p->kept;
    const domain_policies *known = ratelimit_domains_find(ratelimit_domains_of(p), p->ns, q->domain);

    for (size_t i = 0; i < request->n_descriptors && !plan_failed(p); i++)
        plan_descriptor(p, request, i, &q->descriptors[i], known);
}

/* ---- reading the domain's policies ------------------------------------------------------ */

/* Plans the next page; `version` is the version already known, "" = none. It is alone in its FCALL, because it is the
 * longest call. */
static void plan_page(plan *p, const char *version)
{
    const question *q = p->kept;

    plan_call(p, &fn_rate_domain_policies, ratelimit_policies_group, NULL, 0);
    args_rate_domain_policies(p, .domain = q->domain, .known = version, .after = q->after, .page_size = PAGE_POLICIES);
    plan_weighs(p, STORE_WEIGHT_MAX);
}

static void plan_next_page(const ProtobufCMessage *any, plan *p)
{
    (void)any;
    plan_page(p, "");
}

static void plan_first_page(plan *p, const domain_policies *known)
{
    question *q = p->kept;
    bool may_be_same = known && p->now_ns < known->read_ns + RELOAD_NS;
    const char *version = may_be_same ? memory_printf_in(p->arena, "%lld", (long long)known->version) : "";

    q->read = (domain_policies){.read_ns = p->now_ns, .checked_ns = p->now_ns};
    q->after = "";
    plan_page(p, version);
}

void envoy_should_rate_limit_prepare(const ProtobufCMessage *any, plan *p)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;

    plan_check_name(p, "domain", request->domain);
    if (request->n_descriptors < 1 || request->n_descriptors > DESCRIPTORS_MAX)
        plan_invalid(p, "descriptors: must be 1 to %d", DESCRIPTORS_MAX);
    if (plan_failed(p))
        return;
    question *q = read_request(p, request);
    p->kept = q;
    const domain_policies *known = ratelimit_domains_find(ratelimit_domains_of(p), p->ns, q->domain);
    if (known && p->now_ns < known->checked_ns + RATELIMIT_POLICY_AGE_MAX_NS)
        plan_descriptors(any, p);
    else
        plan_first_page(p, known);
}

/* Makes room for `more` policies: doubles the room, or adds as much as needed. */
static bool make_room(answer *a, question *q, size_t more)
{
    size_t room = q->read.n + more > 2 * q->room ? q->read.n + more : 2 * q->room;

    if (q->read.n + more > POLICIES_MAX) {
        lks_error_set(&a->error, LKS_FAILED_PRECONDITION, LKS_APPLIED_NO,
                      "domain: more than %d policies have names that begin with it", POLICIES_MAX);
        return false;
    }
    if (q->read.n + more <= q->room)
        return true;
    domain_policy *policies = memory_in(a->arena, room * sizeof *policies);
    if (q->read.n > 0)
        memcpy(policies, q->policies, q->read.n * sizeof *policies);
    q->policies = policies;
    q->read.policy = policies;
    q->room = room;
    return true;
}

static void take_views(answer *a, question *q, const store_value *reply)
{
    size_t n = answer_count(a, reply);

    if (n > VIEWS_AT && !make_room(a, q, n - VIEWS_AT))
        return;
    for (size_t i = VIEWS_AT; i < n && a->error.code == LKS_OK; i++) {
        const store_value *view = answer_at(a, reply, i);
        domain_policy *to = &q->policies[q->read.n++];
        to->name = answer_text(a, view, 0);
        to->spec = ratelimit_read_view(a, view, &to->shadow);
    }
}

/* Reads a page, or the reply that nothing has changed. The version is the first page's: if policies change before the
 * last page, the next look finds a newer version. */
static void take_page(answer *a, question *q)
{
    ratelimit_domains *domains = ratelimit_domains_of(a->plan);
    domain_policies *known = ratelimit_domains_find(domains, a->plan->ns, q->domain);
    const store_value *reply = a->replies[0];
    bool more = false;

    if (q->after[0] == '\0')
        q->read.version = answer_int(a, reply, 1);
    if (answer_count(a, reply) >= VIEWS_AT) {
        q->after = answer_text(a, reply, 2);
        take_views(a, q, reply);
        if (a->error.code == LKS_OK && q->after[0] == '\0')
            ratelimit_domains_put(domains, a->plan->ns, q->domain, &q->read);
        more = q->after[0] != '\0';
    } else if (known) {
        known->checked_ns = q->read.checked_ns;
    } else {
        more = true; /* its place was needed for another domain meanwhile */
    }
    if (a->error.code == LKS_OK)
        answer_next_round(a, more ? plan_next_page : plan_descriptors);
}

/* ---- the answer --------------------------------------------------------------------------- */

/* Returns NULL if Envoy has no unit for the period. */
static envoy_limit *limit_of(answer *a, const asked *d)
{
    for (size_t i = 0; i < N_UNITS; i++) {
        if (units[i].ms != d->spec.period_ms || d->spec.limit > UINT32_MAX)
            continue;
        envoy_limit *limit = memory_in(a->arena, sizeof *limit);
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
    Google__Protobuf__Duration *duration = memory_in(a->arena, sizeof *duration);

    google__protobuf__duration__init(duration);
    duration->seconds = ms / 1000;
    duration->nanos = (int32_t)(ms % 1000 * 1000000);
    return duration;
}

/* Reads {outcome, limit, remaining, ms until a check may pass, ms until the counter is as if unused}. */
static void fill_counted(answer *a, const asked *d, const store_value *reply, envoy_status *status)
{
    int outcome = answer_enum(a, reply, 0, &lockstock__v1__check_outcome__descriptor);
    int64_t remaining = answer_int(a, reply, 2), retry = answer_int(a, reply, 3), reset = answer_int(a, reply, 4);

    status->code = outcome == LKS_CHECK_OUTCOME_ALLOWED ? CODE(OK) : CODE(OVER_LIMIT);
    status->limit_remaining = remaining < UINT32_MAX ? (uint32_t)remaining : UINT32_MAX;
    status->duration_until_reset = duration_of(a, retry > reset ? retry : reset);
    status->current_limit = limit_of(a, d);
}

static void fill_status(answer *a, const asked *d, const store_value *reply, envoy_status *status)
{
    static const Envoy__Service__Ratelimit__V3__RateLimitResponse__Code codes[] = {
        [FREE] = CODE(OK), [MALFORMED] = CODE(UNKNOWN), [NEVER] = CODE(OVER_LIMIT)};

    if (reply) {
        fill_counted(a, d, reply, status);
        return;
    }
    status->code = codes[d->verdict];
    if (d->verdict == NEVER)
        status->current_limit = limit_of(a, d);
}

void envoy_should_rate_limit_finish(const ProtobufCMessage *any, answer *a, ProtobufCMessage *any_response)
{
    const envoy_request *request = (const envoy_request *)(const void *)any;
    envoy_response *response = (envoy_response *)(void *)any_response;
    question *q = a->plan->kept;
    size_t next = 0;

    if (plan_calls(a->plan, &fn_rate_domain_policies)) {
        take_page(a, q);
        return;
    }
    response->overall_code = CODE(OK);
    response->n_statuses = request->n_descriptors;
    response->statuses = answer_messages(
        a, &envoy__service__ratelimit__v3__rate_limit_response__descriptor_status__descriptor, response->n_statuses);
    for (size_t i = 0; i < request->n_descriptors; i++) {
        const asked *d = &q->descriptors[i];
        envoy_status *status = response->statuses[i];
        fill_status(a, d, d->verdict == COUNTED ? a->replies[next++] : NULL, status);
        if (status->code == CODE(OVER_LIMIT))
            response->overall_code = CODE(OVER_LIMIT);
    }
}

const lks_rpc_method envoy_should_rate_limit_method = {
    .path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    .request = &envoy__service__ratelimit__v3__rate_limit_request__descriptor,
    .response = &envoy__service__ratelimit__v3__rate_limit_response__descriptor,
    .effect = LKS_RPC_EFFECT_WRITE,
};
