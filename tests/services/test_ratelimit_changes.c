/* Policies that change at random while three servers, each with a cache of its own, go by
 * them: no server goes by numbers that were replaced more than a second ago, and what is
 * admitted stays within the bound of the numbers that admitted it, what the old ones had
 * let in counted. LOCKSTOCK_SEED=n repeats a run, LOCKSTOCK_STEPS=n makes it longer. */
#include <time.h>
#include <unistd.h>

#include "ratelimit_script.h"
#include "support/counts.h"

enum { SERVERS = 3, POLICIES = 4, CHANGES_MAX = 1 << 14, CHARGES_MAX = 1 << 16, PERIOD_MS = 20000 };
#define PERIOD_US ((int64_t)PERIOD_MS * 1000)

typedef struct change {
    int64_t at, units; /* the limit; of the bucket its burst */
} change;

typedef struct charge {
    int64_t at, cost;
} charge;

typedef struct policy {
    const char *name;
    char algorithm;
    change changes[CHANGES_MAX];
    size_t n_changes;
    charge charges[CHARGES_MAX];
    size_t n_charges;
} policy;

static policy policies[POLICIES] = {
    {.name = "fixed", .algorithm = 'F'},
    {.name = "log", .algorithm = 'L'},
    {.name = "window", .algorithm = 'S'},
    {.name = "bucket", .algorithm = 'B'},
};

static int64_t below(int64_t n)
{
    return (int64_t)((uint64_t)random() % (uint64_t)n);
}

/* The bucket's rate, ten a period, stays: its burst is what changes. */
static void put_change(policy *p)
{
    static const char *const words[] = {"FIXED", "LOG", "WINDOW"};
    int64_t units = 1 + below(9);
    char limit[64];

    if (p->algorithm == 'B')
        snprintf(limit, sizeof limit, "BUCKET 10/%d burst=%lld", PERIOD_MS, (long long)units);
    else
        snprintf(limit, sizeof limit, "%s %lld/%d", words[p - policies], (long long)units, PERIOD_MS);
    assert_non_null(put_policy(p->name, limit, false, 0));
    if (p->n_changes == CHANGES_MAX)
        fail_msg("more than %d changes", CHANGES_MAX);
    p->changes[p->n_changes++] = (change){.at = now_us(), .units = units};
}

/* The most that any numbers allow which were in force within the last second; *known:
 * whether `units` are among them. */
static int64_t most_in_force(const policy *p, int64_t units, bool *known)
{
    int64_t most = 0;

    *known = false;
    for (size_t i = p->n_changes; i > 0; i--) {
        const change *c = &p->changes[i - 1];
        most = c->units > most ? c->units : most;
        *known |= c->units == units;
        if (c->at <= now_us() - 1000000)
            break; /* all before it were replaced by then */
    }
    return most;
}

static int64_t charged_since(const policy *p, int64_t from)
{
    int64_t sum = 0;

    for (size_t i = p->n_charges; i > 0 && p->charges[i - 1].at >= from; i--)
        sum += p->charges[i - 1].cost;
    return sum;
}

/* What was just admitted, against the bound of `units`. */
static void expect_bound(const policy *p, int64_t units)
{
    int64_t now = now_us(), window = now - now % PERIOD_US;

    if (p->algorithm == 'F' && charged_since(p, window) > units)
        fail_msg("%lld of %lld in a window", (long long)charged_since(p, window), (long long)units);
    if (p->algorithm == 'L' && charged_since(p, now - PERIOD_US + 1) > units)
        fail_msg("%lld of %lld in a period", (long long)charged_since(p, now - PERIOD_US + 1), (long long)units);
    for (size_t i = p->n_charges; i > 0; i--) {
        int64_t span = now - p->charges[i - 1].at, sum = charged_since(p, p->charges[i - 1].at);
        if (span > 4 * PERIOD_US)
            break;
        if (p->algorithm == 'B' && sum * PERIOD_US > units * PERIOD_US + span * 10)
            fail_msg("%lld of a burst of %lld in %lld us", (long long)sum, (long long)units, (long long)span);
        if (p->algorithm == 'S' && span <= PERIOD_US && p->charges[i - 1].at >= window && sum > units)
            fail_msg("%lld of %lld in a window", (long long)sum, (long long)units);
    }
}

static void step_check(policy *p)
{
    int64_t cost = 1 + below(3);
    char rule[32];
    bool known;

    snprintf(rule, sizeof rule, "bob @%s", p->name);
    const lks_check_response *got = check_cost(rule, cost);
    if (!got)
        fail_msg("%s", err.message);
    int64_t most = most_in_force(p, got->rules[0]->limit, &known);
    if (p->algorithm != 'B' && !known)
        fail_msg("%s: a limit of %lld was replaced more than a second ago", p->name, (long long)got->rules[0]->limit);
    if (got->outcome != LKS_CHECK_OUTCOME_ALLOWED)
        return;
    if (p->n_charges == CHARGES_MAX)
        fail_msg("more than %d charges", CHARGES_MAX);
    p->charges[p->n_charges++] = (charge){.at = now_us(), .cost = cost};
    expect_bound(p, p->algorithm == 'B' ? most : got->rules[0]->limit);
}

TEST(changes_are_in_force_within_a_second_and_keep_their_bound)
{
    static const char *const servers[SERVERS] = {"one", "two", "three"};
    const char *seed_text = getenv("LOCKSTOCK_SEED"), *steps_text = getenv("LOCKSTOCK_STEPS");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
    long steps = steps_text ? atol(steps_text) : (long)counts_of(10000, 200000);
    print_message("LOCKSTOCK_SEED=%u\n", seed);
    srandom(seed);
    for (int i = 0; i < POLICIES; i++)
        put_change(&policies[i]);
    for (long i = 0; i < steps; i++) {
        harness_server(h, servers[below(SERVERS)]);
        int64_t what = below(40);
        if (what == 0)
            put_change(&policies[below(POLICIES)]);
        else if (what < 12)
            advance_us(below(what == 1 ? PERIOD_US : 500000));
        else
            step_check(&policies[below(POLICIES)]);
        harness_forget(h);
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)
