/* envoy.service.ratelimit.v3.RateLimitService: which policy a descriptor meets, and what
 * is told of it. */
#include "ratelimit_script.h"

#include "envoy/service/ratelimit/v3/rls.pb-c.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitRequest envoy_request;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse envoy_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus envoy_status;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor envoy_descriptor;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__RateLimitOverride envoy_override;
typedef Envoy__Extensions__Common__Ratelimit__V3__RateLimitDescriptor__Entry envoy_entry;

enum { DESCRIPTORS = 20, ENTRIES = 20 };
#define LONG_DIGEST "aa20c23e3201834050679e1d88941b9a6fed0557c9a705cb2c315e2e63fd486d"

/* A request as it is written: "path=/login remote=1.2.3.4; client=bob x3" has two descriptors, the
 * second with a hits_addend of its own; "!5/2" is a limit of its own, of 5 a minute. */
typedef struct written {
    char text[200000];
    envoy_request request;
    envoy_descriptor descriptor[DESCRIPTORS], *descriptors[DESCRIPTORS];
    envoy_entry entry[DESCRIPTORS][ENTRIES], *entries[DESCRIPTORS][ENTRIES];
    Google__Protobuf__UInt64Value hits[DESCRIPTORS];
    envoy_override limit[DESCRIPTORS];
} written;

static void add_entry(written *w, size_t d, char *word)
{
    envoy_descriptor *to = &w->descriptor[d];
    char *value = strchr(word, '=');

    if (!value && word[0] == '!') {
        envoy__extensions__common__ratelimit__v3__rate_limit_descriptor__rate_limit_override__init(&w->limit[d]);
        w->limit[d].requests_per_unit = (uint32_t)strtoul(word + 1, &word, 10);
        w->limit[d].unit = (int32_t)strtol(word + 1, NULL, 10);
        to->limit = &w->limit[d];
        return;
    }
    if (!value) {
        w->hits[d] = (Google__Protobuf__UInt64Value)GOOGLE__PROTOBUF__UINT64_VALUE__INIT;
        w->hits[d].value = strtoull(word + 1, NULL, 10);
        to->hits_addend = &w->hits[d];
        return;
    }
    *value = '\0';
    envoy_entry *entry = &w->entry[d][to->n_entries];
    envoy__extensions__common__ratelimit__v3__rate_limit_descriptor__entry__init(entry);
    entry->key = word;
    entry->value = (ProtobufCBinaryData){.len = strlen(value + 1), .data = (uint8_t *)value + 1};
    w->entries[d][to->n_entries++] = entry;
}

static void add_descriptor(written *w, char *text)
{
    size_t d = w->request.n_descriptors++;
    char *rest = NULL;

    envoy__extensions__common__ratelimit__v3__rate_limit_descriptor__init(&w->descriptor[d]);
    w->descriptor[d].entries = w->entries[d];
    w->descriptors[d] = &w->descriptor[d];
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        add_entry(w, d, word);
}

static const envoy_response *rate_limit(const char *domain, const char *descriptors, uint32_t hits)
{
    static written w;
    static char in[128];
    char *rest = NULL;

    snprintf(w.text, sizeof w.text, "%s", descriptors);
    snprintf(in, sizeof in, "%s", domain);
    envoy__service__ratelimit__v3__rate_limit_request__init(&w.request);
    w.request.domain = in;
    w.request.hits_addend = hits;
    w.request.descriptors = w.descriptors;
    for (char *at = strtok_r(w.text, ";", &rest); at; at = strtok_r(NULL, ";", &rest))
        add_descriptor(&w, at);
    return harness_call(h, &ratelimit_service, "ShouldRateLimit", &w.request, &err);
}

static const char *word_of_code(int code)
{
    return code == 1 ? "OK" : code == 2 ? "OVER" : "UNKNOWN";
}

static size_t tell_status(char *out, size_t room, const envoy_status *s)
{
    size_t len = (size_t)snprintf(out, room, ": %s", word_of_code((int)s->code));

    if (s->duration_until_reset)
        len += (size_t)snprintf(out + len, room - len, " %u %lld.%03d", s->limit_remaining,
                                (long long)s->duration_until_reset->seconds, s->duration_until_reset->nanos / 1000000);
    if (s->current_limit)
        len += (size_t)snprintf(out + len, room - len, " %u/%d %s", s->current_limit->requests_per_unit,
                                (int)s->current_limit->unit, s->current_limit->name);
    return len;
}

/* "OVER", and of each descriptor ": OK remaining reset limit/unit policy", as far as it is told. */
static void expect_statuses(const envoy_response *r, const char *expected)
{
    char got[4096];

    if (!r)
        fail_msg("%s: %s", lks_code_name(err.code), err.message);
    size_t len = (size_t)snprintf(got, sizeof got, "%s", word_of_code((int)r->overall_code));
    for (size_t i = 0; i < r->n_statuses; i++)
        len += tell_status(got + len, sizeof got - len, r->statuses[i]);
    assert_string_equal(got, expected);
}

TEST(a_descriptor_without_a_policy_is_unlimited)
{
    remember();
    for (int i = 0; i < 3; i++)
        expect_statuses(rate_limit("web", "client=bob;client=alice x1000000", 0), "OK: OK: OK");
    expect_unchanged();
}

TEST(a_policy_is_named_by_domain_and_entries)
{
    put_policy("web/client", "FIXED 2/1000", false, 0);
    expect_statuses(rate_limit("web", "client=bob", 0), "OK: OK 1 1.000 2/1 web/client");
    expect_statuses(rate_limit("web", "client=bob", 0), "OK: OK 0 1.000 2/1 web/client");
    expect_statuses(rate_limit("web", "client=bob", 0), "OVER: OVER 0 1.000 2/1 web/client");
    expect_statuses(rate_limit("web", "client=alice", 0), "OK: OK 1 1.000 2/1 web/client");
    expect_statuses(rate_limit("other", "client=bob", 0), "OK: OK");
    expect_statuses(rate_limit("web", "client=bob path=x", 0), "OK: OK");
}

TEST(the_most_specific_policy_wins)
{
    put_policy("web/path/client", "FIXED 100/1000", false, 0);
    put_policy("web/path=login/client", "FIXED 50/1000", false, 0);
    put_policy("web/path=login/client=bob", "FIXED 7/1000", false, 0);
    expect_statuses(rate_limit("web", "path=login client=bob;path=login client=eve;path=home client=bob", 0),
                    "OK: OK 6 1.000 7/1 web/path=login/client=bob: OK 49 1.000 50/1 web/path=login/client"
                    ": OK 99 1.000 100/1 web/path/client");
    delete_policy("web/path=login/client=bob", 0);
    expect_statuses(rate_limit("web", "path=login client=bob", 0), "OK: OK 49 1.000 50/1 web/path=login/client");
}

/* What comes from a request cannot choose another policy than its key's. */
TEST(no_value_names_another_policy)
{
    put_policy("web/path=a/client", "FIXED 1/1000", false, 0);
    expect_statuses(rate_limit("web", "path=a/client=bob", 0), "OK: OK");
    put_policy("web/path=a%2Fb", "FIXED 5/1000", false, 0);
    expect_statuses(rate_limit("web", "path=a/b", 0), "OK: OK 4 1.000 5/1 web/path=a%2Fb");
}

TEST(descriptors_are_judged_each_by_itself)
{
    put_policy("web/a", "FIXED 1/1000", false, 0);
    put_policy("web/b", "FIXED 10/1000", false, 0);
    expect_statuses(rate_limit("web", "a=1;b=1", 0), "OK: OK 0 1.000 1/1 web/a: OK 9 1.000 10/1 web/b");
    expect_statuses(rate_limit("web", "a=1;c=1;b=1", 0), "OVER: OVER 0 1.000 1/1 web/a: OK: OK 8 1.000 10/1 web/b");
    expect_statuses(rate_limit("web", "b=1;b=1", 0), "OK: OK 7 1.000 10/1 web/b: OK 6 1.000 10/1 web/b");
}

TEST(hits_are_the_requests_or_the_descriptors)
{
    put_policy("web/a", "FIXED 100/1000", false, 0);
    expect_statuses(rate_limit("web", "a=1", 10), "OK: OK 90 1.000 100/1 web/a");
    expect_statuses(rate_limit("web", "a=1 x5;a=1", 10), "OK: OK 85 1.000 100/1 web/a: OK 75 1.000 100/1 web/a");
    expect_statuses(rate_limit("web", "a=1 x76;a=1 x75", 0), "OVER: OVER 75 1.000 100/1 web/a: OK 0 1.000 100/1 web/a");
}

/* Of 0 hits it is told whether one would pass. */
TEST(no_hits_are_a_look)
{
    put_policy("web/a", "FIXED 1/1000", false, 0);
    for (int i = 0; i < 3; i++)
        expect_statuses(rate_limit("web", "a=1 x0", 10), "OK: OK 1 0.000 1/1 web/a");
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
    expect_statuses(rate_limit("web", "a=1 x0", 0), "OVER: OVER 0 1.000 1/1 web/a");
}

/* In Envoy's answer a week is 7; a period that is no unit is not told. */
TEST(units_are_envoys)
{
    static const struct {
        const char *limit, *told;
    } cases[] = {
        {"FIXED 9/1000", " 9/1 web/a"},       {"FIXED 9/60000", " 9/2 web/a"},
        {"FIXED 9/3600000", " 9/3 web/a"},    {"FIXED 9/86400000", " 9/4 web/a"},
        {"FIXED 9/2592000000", " 9/5 web/a"}, {"FIXED 9/31536000000", " 9/6 web/a"},
        {"FIXED 9/604800000", " 9/7 web/a"},  {"FIXED 9/2000", ""},
        {"FIXED 4294967296/1000", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char told_limit[64] = "";
        put_policy("web/a", cases[i].limit, false, 0);
        const envoy_response *r = rate_limit("web", "a=1 x0", 0);
        assert_non_null(r);
        if (r->statuses[0]->current_limit)
            snprintf(told_limit, sizeof told_limit, " %u/%d %s", r->statuses[0]->current_limit->requests_per_unit,
                     (int)r->statuses[0]->current_limit->unit, r->statuses[0]->current_limit->name);
        assert_string_equal(told_limit, cases[i].told);
        assert_true(delete_policy("web/a", 0));
    }
}

TEST(a_shadow_is_never_over)
{
    put_policy("web/a", "FIXED 1/1000", true, 0);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
}

/* It stands before what is less specific, which then counts nothing. */
TEST(an_unlimited_policy_is_ok_and_not_counted)
{
    put_policy("web/client", "FIXED 1/1000", false, 0);
    put_policy("web/client=b*", "FIXED 1/1000", false, 0);
    put_unlimited("web/client=bob");
    expect_statuses(rate_limit("web", "client=bob", 0), "OK: OK");
    remember();
    for (int i = 0; i < 3; i++)
        expect_statuses(rate_limit("web", "client=bob x1000000;client=bob", 0), "OK: OK: OK");
    expect_unchanged();
    expect_statuses(rate_limit("web", "client=bill", 0), "OK: OK 0 1.000 1/1 web/client=b*");
    expect_statuses(rate_limit("web", "client=bob;client=bill", 0), "OVER: OK: OVER 0 1.000 1/1 web/client=b*");
    expect_statuses(rate_limit("web", "client=bob !1/1", 0), "OK: OK 0 1.000 1/1 "); /* its own limit comes first */
    put_unlimited("web/path=*/client=*");
    put_policy("web/path/client", "FIXED 1/1000", false, 0);
    expect_statuses(rate_limit("web", "path=/x client=bob", 0), "OK: OK");
    assert_true(delete_policy("web/client=bob", 0));
    expect_statuses(rate_limit("web", "client=bob", 0), "OK: OK 0 1.000 1/1 web/client=b*");
}

TEST(a_ban_is_over_until_its_end)
{
    put_policy("web/a", "FIXED 1/1000 after=1 ban=5000", false, 0);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
    expect_statuses(rate_limit("web", "a=1", 0), "OVER: OVER 0 5.000 1/1 web/a");
    advance(4000);
    expect_statuses(rate_limit("web", "a=1", 0), "OVER: OVER 1 1.000 1/1 web/a");
    advance(1000);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
}

/* The counter is Check's of the same names. */
TEST(the_counter_is_that_of_check)
{
    put_policy("g/a", "FIXED 10/1000", false, 0);
    expect_statuses(rate_limit("g", "a=x/y", 4), "OK: OK 6 1.000 10/1 g/a");
    expect_told(check_rules("a=x%2Fy @g/a"), "ALLOWED: ALLOWED 10 5 0 1000 0");
    assert_true(reset("g", "a=x%2Fy"));
    expect_statuses(rate_limit("g", "a=x/y", 0), "OK: OK 9 1.000 10/1 g/a");
}

TEST(another_servers_change_is_followed_within_a_second)
{
    put_policy("web/a", "FIXED 1/60000", false, 0);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 60.000 1/2 web/a");
    harness_server(h, "other");
    put_policy("web/a", "FIXED 5/60000", false, 0);
    put_policy("web/a=1", "FIXED 7/60000", false, 0);
    harness_server(h, "harness");
    advance(1000);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 6 59.000 7/2 web/a=1");
}

TEST(namespaces_have_policies_of_their_own)
{
    put_policy("web/a", "FIXED 1/1000", false, 0);
    expect_statuses(rate_limit("web", "a=1", 0), "OK: OK 0 1.000 1/1 web/a");
    static const char *const others[] = {"elsewhere", "defaulx"};
    for (size_t i = 0; i < 2; i++) {
        harness_namespace(h, others[i]);
        expect_statuses(rate_limit("web", "a=1", 0), "OK: OK");
    }
}

/* What a request through the proxy can say makes neither it nor the others go unjudged. */
TEST(what_cannot_be_judged_hides_nothing_else)
{
    char many[1200] = "";
    put_policy("web/a", "FIXED 1/1000", false, 0);
    expect_statuses(rate_limit("web", "a=1;x1;b=1 =2;c=1", 0), "OK: OK 0 1.000 1/1 web/a: UNKNOWN: UNKNOWN: OK");
    for (int i = 0; i < 17; i++)
        strcat(many, "a=1 ");
    strcat(many, ";a=1");
    expect_statuses(rate_limit("web", many, 0), "OVER: UNKNOWN: OVER 0 1.000 1/1 web/a");
    advance(1000);
    expect_statuses(rate_limit("web", "a=1 x9007199254740992;b=1", 0), "OVER: OVER 1 0.000 1/1 web/a: OK");
    expect_statuses(rate_limit("web", "a=1 x18446744073709551615", 0), "OVER: OVER 1 0.000 1/1 web/a");
}

/* Two of them, which differ in the last byte only, have a counter each; and the beginning still counts. */
TEST(a_long_value_is_limited_like_any_other)
{
    static char longer[150000];
    put_policy("web/a", "FIXED 2/1000", false, 0);
    static const size_t lengths[] = {129, 1024, 70000, sizeof longer - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(longer, 'x', sizeof longer);
        memcpy(longer, "a=", 2);
        longer[lengths[i] + 2 < sizeof longer ? lengths[i] + 2 : sizeof longer - 1] = '\0';
        size_t last = strlen(longer) - 1;
        expect_statuses(rate_limit("web", longer, 0), "OK: OK 1 1.000 2/1 web/a");
        expect_statuses(rate_limit("web", longer, 2), "OVER: OVER 1 1.000 2/1 web/a");
        longer[last] = 'y';
        expect_statuses(rate_limit("web", longer, 2), "OK: OK 0 1.000 2/1 web/a");
    }
    put_policy("web/a=xx*", "FIXED 9/1000", false, 0);
    expect_statuses(rate_limit("web", longer, 0), "OK: OK 8 1.000 9/1 web/a=xx*");
}

/* Its counter can be reset: SHA-256 of 200 times x. */
TEST(a_long_value_has_a_short_name)
{
    char longer[203];
    memset(longer, 'x', sizeof longer - 1);
    memcpy(longer, "a=", 2);
    longer[sizeof longer - 1] = '\0';
    put_policy("g/a", "FIXED 5/1000", false, 0);
    expect_statuses(rate_limit("g", longer, 0), "OK: OK 4 1.000 5/1 g/a");
    assert_true(reset("g", "a=$" LONG_DIGEST));
    expect_statuses(rate_limit("g", longer, 0), "OK: OK 4 1.000 5/1 g/a");
    longer[130] = '\0'; /* 128 bytes: as it is */
    expect_statuses(rate_limit("g", longer, 0), "OK: OK 4 1.000 5/1 g/a");
    put_policy(longer, "FIXED 5/1000", false, 0);
    expect_error(LKS_INVALID_ARGUMENT, "name");
}

/* Bytes that are no text, and a NUL, are values like others. */
TEST(values_are_bytes)
{
    static uint8_t bytes[] = {'x', 0xff, 0xfe, 0, 'y'};
    static envoy_entry entry;
    static envoy_entry *entries[] = {&entry};
    static envoy_descriptor descriptor;
    static envoy_descriptor *descriptors[] = {&descriptor};
    static envoy_request request;
    envoy__extensions__common__ratelimit__v3__rate_limit_descriptor__entry__init(&entry);
    envoy__extensions__common__ratelimit__v3__rate_limit_descriptor__init(&descriptor);
    envoy__service__ratelimit__v3__rate_limit_request__init(&request);
    entry.key = (char[]){"a"};
    entry.value = (ProtobufCBinaryData){.len = sizeof bytes, .data = bytes};
    descriptor.n_entries = 1;
    descriptor.entries = entries;
    request.domain = (char[]){"web"};
    request.n_descriptors = 1;
    request.descriptors = descriptors;
    put_policy("web/a", "FIXED 2/1000", false, 0);
    put_policy("web/a=x%FF%FE%00y", "FIXED 5/1000", false, 0);
    expect_statuses(harness_call(h, &ratelimit_service, "ShouldRateLimit", &request, &err),
                    "OK: OK 4 1.000 5/1 web/a=x%FF%FE%00y");
    bytes[4] = 'z';
    expect_statuses(harness_call(h, &ratelimit_service, "ShouldRateLimit", &request, &err), "OK: OK 1 1.000 2/1 web/a");
    bytes[4] = 'y';
}

TEST(a_star_stands_for_the_rest_of_a_value)
{
    put_policy("web/path", "FIXED 100/1000", false, 0);
    put_policy("web/path=%2Fapi%2F*", "FIXED 50/1000", false, 0);
    put_policy("web/path=%2Fapi%2Fv1*", "FIXED 20/1000", false, 0);
    put_policy("web/path=%2Fapi%2Fv1", "FIXED 5/1000", false, 0);
    expect_statuses(rate_limit("web", "path=/api/v1;path=/api/v1/x;path=/api/v2;path=/api", 0),
                    "OK: OK 4 1.000 5/1 web/path=%2Fapi%2Fv1: OK 19 1.000 20/1 web/path=%2Fapi%2Fv1*"
                    ": OK 49 1.000 50/1 web/path=%2Fapi%2F*: OK 99 1.000 100/1 web/path");
    put_policy("web/path=*", "FIXED 70/1000", false, 0);
    expect_statuses(rate_limit("web", "path=/other", 0), "OK: OK 69 1.000 70/1 web/path=*");
    expect_statuses(rate_limit("web", "path=*", 0),
                    "OK: OK 69 1.000 70/1 web/path=*"); /* no star of a request is one */
    put_policy("web/path=*/client=b*", "FIXED 7/1000", false, 0);
    expect_statuses(rate_limit("web", "path=/api client=bob;path=/api client=eve", 0),
                    "OK: OK 6 1.000 7/1 web/path=*/client=b*: OK");
}

/* Each entry with or without its value; the first counts most. */
TEST(any_entry_may_go_without_its_value)
{
    put_policy("web/path/client=bob", "FIXED 30/1000", false, 0);
    put_policy("web/path=login/client/agent=x", "FIXED 3/1000", false, 0);
    expect_statuses(rate_limit("web", "path=login client=bob;path=login client=eve", 0),
                    "OK: OK 29 1.000 30/1 web/path/client=bob: OK");
    put_policy("web/path=login/client", "FIXED 20/1000", false, 0);
    expect_statuses(rate_limit("web", "path=login client=bob", 0), "OK: OK 19 1.000 20/1 web/path=login/client");
    expect_statuses(rate_limit("web", "path=login client=bob agent=x;path=login client=bob agent=y", 0),
                    "OK: OK 2 1.000 3/1 web/path=login/client/agent=x: OK");
    expect_statuses(rate_limit("web", "path=login;client=bob", 0), "OK: OK: OK"); /* whole descriptors only */
}

/* A descriptor's own limit stands before any policy, and needs none. */
TEST(a_limit_that_comes_along_counts)
{
    put_policy("web/a", "FIXED 100/1000", false, 0);
    expect_statuses(rate_limit("web", "a=1 !2/2", 0), "OK: OK 1 60.000 2/2 ");
    expect_statuses(rate_limit("web", "a=1 !2/2;a=1", 0), "OK: OK 0 60.000 2/2 : OK 99 1.000 100/1 web/a");
    expect_statuses(rate_limit("web", "a=1 !2/2;a=2 !2/2", 0), "OVER: OVER 0 60.000 2/2 : OK 1 60.000 2/2 ");
    expect_statuses(rate_limit("web", "a=1 !5/2", 0), "OK: OK 2 60.000 5/2 "); /* what was charged stays */
    expect_statuses(rate_limit("web", "a=3 !0/1", 0), "OVER: OVER 0/1 ");
    expect_statuses(rate_limit("web", "a=3 !7/0;a=3 !7/9", 0), "OK: OK 99 1.000 100/1 web/a: OK 98 1.000 100/1 web/a");
}

/* More policies than a page holds, names that begin alike, and one that goes. */
TEST(a_domain_may_have_many_policies)
{
    char name[64], asked_for[64], expected[128];
    put_policy("web0/a", "FIXED 1/1000", false, 0);
    put_policy("web-/a", "FIXED 1/1000", false, 0);
    for (int i = 0; i < 450; i++) {
        snprintf(name, sizeof name, "web/a=%d", i);
        assert_non_null(put_policy(name, "FIXED 9/1000", false, 0));
    }
    for (int i = 0; i < 450; i += 7) {
        snprintf(asked_for, sizeof asked_for, "a=%d", i);
        snprintf(expected, sizeof expected, "OK: OK 8 1.000 9/1 web/a=%d", i);
        expect_statuses(rate_limit("web", asked_for, 0), expected);
    }
    expect_statuses(rate_limit("web", "a=450;a=44x", 0), "OK: OK: OK");
    assert_true(delete_policy("web/a=449", 0));
    expect_statuses(rate_limit("web", "a=449", 0), "OK: OK");
}

TEST(what_is_wrong_is_named)
{
    char many[1200] = "";
    assert_null(rate_limit("", "a=1", 0));
    expect_error(LKS_INVALID_ARGUMENT, "domain");
    assert_null(rate_limit("web", "", 0));
    expect_error(LKS_INVALID_ARGUMENT, "descriptors");
    for (int i = 0; i < 17; i++)
        strcat(many, "a=1;");
    assert_null(rate_limit("web", many, 0));
    expect_error(LKS_INVALID_ARGUMENT, "descriptors");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)
