/* Random schedules against a model that knows no algorithm's trick: it keeps every charge
 * and counts anew each time, in integers of 128 bits. Each answer is compared to the
 * letter; each wait that is told is asked for exactly then, and a millisecond before; and
 * what was admitted is held against the bound of each algorithm at every instant.
 * LOCKSTOCK_SEED=n repeats a run, LOCKSTOCK_STEPS=n makes it longer. */
#include <time.h>
#include <unistd.h>

#include "ratelimit_script.h"
#include "support/counts.h"

enum { KEYS = 2, LIMITS = 10, IDS = 24, CHARGES_MAX = 1 << 16, RULES_MAX = 4, TOLD = 1024 };

__extension__ typedef __int128 wide;

/* A limit under test. Periods are minutes, so that real time does not matter beside them. */
typedef struct limit {
    const char *rule; /* as set_rules reads it */
    char algorithm;
    bool shadow;
    int64_t limit, period, burst; /* microseconds */
    int64_t after, ban, factor, max_ban;
} limit;

#define S INT64_C(1000000)
static const limit limits[LIMITS] = {
    {"FIXED 7/60000", 'F', false, 7, 60 * S, 7, 0, 0, 0, 0},
    {"LOG 7/60000", 'L', false, 7, 60 * S, 7, 0, 0, 0, 0},
    {"WINDOW 7/60000", 'S', false, 7, 60 * S, 7, 0, 0, 0, 0},
    {"BUCKET 7/60000", 'B', false, 7, 60 * S, 7, 0, 0, 0, 0},
    {"BUCKET 13/97000 burst=5", 'B', false, 13, 97 * S, 5, 0, 0, 0, 0},
    {"FIXED 5/60000 after=7 ban=20000 factor=3 max=150000", 'F', false, 5, 60 * S, 5, 7, 20 * S, 3, 150 * S},
    {"LOG 9/41000 after=5 ban=30000", 'L', false, 9, 41 * S, 9, 5, 30 * S, 1, 31622400 * S},
    {"BUCKET 6/60000 burst=2 after=3 ban=5000 factor=2", 'B', false, 6, 60 * S, 2, 3, 5 * S, 2, 31622400 * S},
    {"@window", 'S', false, 6, 50 * S, 6, 4, 9 * S, 1, 31622400 * S},
    {"@shadow", 'L', true, 4, 60 * S, 4, 6, 10 * S, 2, 31622400 * S},
};

typedef struct charge {
    int64_t at, cost, given_back;
    bool refunded, forgotten; /* by Reset */
} charge;

typedef struct counter {
    charge *charges;
    size_t n, first; /* none before `first` matters */
    wide tat;        /* of a bucket, in microseconds * limit */
    int64_t tries, tries_window, ban_end, ban;
} counter;

typedef struct request {
    bool exists, refunded;
    char text[256], told[TOLD];
    int64_t ends;
    size_t n;
    struct {
        counter *counter;
        const limit *limit;
        size_t charge;
    } charged[RULES_MAX];
} request;

static const char *const keys[KEYS] = {"bob", "e:ve"};
static counter counters[KEYS][LIMITS];
static request requests[IDS];

static int64_t below(int64_t n)
{
    return (int64_t)((uint64_t)random() % (uint64_t)n);
}

static int64_t window_of(int64_t at, int64_t period)
{
    return at - at % period;
}

/* ---- what a counter says ---- */

/* Units charged in (after, until], those given back not counted. */
static int64_t units(const counter *c, int64_t after, int64_t until)
{
    int64_t sum = 0;

    for (size_t i = c->n; i > 0; i--) {
        const charge *x = &c->charges[i - 1];
        if (x->at <= after)
            break;
        if (x->at <= until && !x->forgotten)
            sum += x->cost - x->given_back;
    }
    return sum;
}

/* A sliding window's count, times its period. */
static wide weighted(const limit *l, const counter *c, int64_t at)
{
    int64_t start = window_of(at, l->period);
    wide before = units(c, start - l->period - 1, start - 1);

    return before * (start + l->period - at) + (wide)units(c, start - 1, at) * l->period;
}

/* How many units would pass at a later instant, nothing else happening; negative when over. */
static int64_t room(const limit *l, const counter *c, int64_t at)
{
    wide used;

    switch (l->algorithm) {
    case 'F':
        return l->limit - units(c, window_of(at, l->period) - 1, at);
    case 'L':
        return l->limit - units(c, at - l->period, at);
    case 'S':
        used = weighted(l, c, at);
        return l->limit - (int64_t)((used + l->period - 1) / l->period);
    default:
        used = c->tat - (wide)at * l->limit;
        return l->burst - (used > 0 ? (int64_t)((used + l->period - 1) / l->period) : 0);
    }
}

static int64_t as_new_at(const limit *l, const counter *c, int64_t at)
{
    int64_t start = window_of(at, l->period), last = 0;

    switch (l->algorithm) {
    case 'F':
        return units(c, start - 1, at) > 0 ? start + l->period : at;
    case 'L':
        for (size_t i = c->n; i > 0 && last == 0; i--)
            if (!c->charges[i - 1].forgotten && c->charges[i - 1].given_back == 0)
                last = c->charges[i - 1].at;
        return last + l->period > at ? last + l->period : at;
    case 'S':
        if (units(c, start - 1, at) > 0)
            return start + 2 * l->period;
        return units(c, start - l->period - 1, start - 1) > 0 ? start + l->period : at;
    default:
        return c->tat > (wide)at * l->limit ? (int64_t)((c->tat + l->limit - 1) / l->limit) : at;
    }
}

static int64_t tries(const counter *c, const limit *l, int64_t at)
{
    return c->tries_window == window_of(at, l->period) ? c->tries : 0;
}

/* Whether the rule would let it pass at a later instant. */
static bool passes(const limit *l, const counter *c, int64_t cost, int64_t at)
{
    if (l->after > 0 && (at < c->ban_end || tries(c, l, at) >= l->after))
        return false;
    return room(l, c, at) >= cost;
}

static int64_t retry_ms(const limit *l, const counter *c, int64_t cost, int64_t at)
{
    int64_t low = 0, high = INT64_C(1) << 33; /* ms: denied, and passes */

    if (cost > (l->algorithm == 'B' ? l->burst : l->limit))
        return -1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (passes(l, c, cost, at + middle * 1000))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- what a check does to it ---- */

static size_t add_charge(const limit *l, counter *c, int64_t cost, int64_t at)
{
    wide now = (wide)at * l->limit;

    if (c->n == CHARGES_MAX)
        fail_msg("more than %d charges", CHARGES_MAX);
    c->charges[c->n] = (charge){.at = at, .cost = cost};
    if (l->algorithm == 'B')
        c->tat = (c->tat > now ? c->tat : now) + (wide)cost * l->period;
    return c->n++;
}

static void give_back(const limit *l, counter *c, size_t i, int64_t at)
{
    charge *x = &c->charges[i];

    if (x->forgotten)
        return;
    x->refunded = true;
    if (l->algorithm == 'B') {
        wide left = (wide)x->cost * l->period - (wide)(at - x->at) * l->limit;
        if (left > 0)
            c->tat -= left;
    } else {
        x->given_back = x->cost;
    }
}

static void count_try(const limit *l, counter *c, int64_t at)
{
    c->tries = tries(c, l, at) + 1;
    c->tries_window = window_of(at, l->period);
    if (c->tries <= l->after)
        return;
    int64_t remembered = c->ban > l->period ? c->ban : l->period;
    int64_t ban = c->ban > 0 && at < c->ban_end + remembered ? c->ban * l->factor : l->ban;
    c->ban = ban < l->max_ban ? ban : l->max_ban;
    c->ban_end = at + c->ban;
    c->tries = 0;
}

/* ---- one step ---- */

typedef struct asked {
    size_t n;
    int key[RULES_MAX], limit[RULES_MAX];
    int64_t cost;
    bool independent, peek;
    char text[256];
} asked;

static void add_rule(asked *a)
{
    int key = (int)below(KEYS), which = (int)below(LIMITS);

    for (size_t i = 0; i < a->n; i++)
        if (a->key[i] == key && a->limit[i] == which)
            return;
    a->key[a->n] = key;
    a->limit[a->n++] = which;
}

static asked random_check(void)
{
    asked a = {.cost = below(3) == 0 ? 1 + below(10) : 1, .independent = below(4) == 0, .peek = below(8) == 0};
    size_t n = below(2) == 0 ? 1 : 1 + (size_t)below(RULES_MAX);

    while (a.n < n)
        add_rule(&a);
    for (size_t i = 0; i < a.n; i++)
        snprintf(a.text + strlen(a.text), sizeof a.text - strlen(a.text), "%s%s %s", i > 0 ? ";" : "", keys[a.key[i]],
                 limits[a.limit[i]].rule);
    return a;
}

static const lks_check_response *send_check(const asked *a, const char *request_id)
{
    lks_check_request r = message(check_request, .group = "g", .cost = a->cost, .peek = a->peek,
                                  .mode = a->independent ? LKS_CHECK_MODE_INDEPENDENT : LKS_CHECK_MODE_ALL_OR_NOTHING,
                                  .request_id = request_id);

    set_rules(&r, a->text);
    return check(&r);
}

/* What the check answers, and what it does to the model; *effect: anything was charged. */
static void decide(const asked *a, int64_t at, char *told_text, request *r, bool *effect)
{
    static const char *const words[] = {"ALLOWED", "DENIED", "BANNED"};
    const limit *l[RULES_MAX];
    counter *c[RULES_MAX];
    bool banned[RULES_MAX], refuses[RULES_MAX], all_pass = true;
    int worst = 0;
    char lines[TOLD] = "";

    for (size_t i = 0; i < a->n; i++) {
        l[i] = &limits[a->limit[i]];
        c[i] = &counters[a->key[i]][a->limit[i]];
        banned[i] = l[i]->after > 0 && at < c[i]->ban_end;
        refuses[i] = !passes(l[i], c[i], a->cost, at);
        all_pass &= !refuses[i] || l[i]->shadow;
    }
    for (size_t i = 0; i < a->n && !a->peek; i++) {
        if (!refuses[i] && (a->independent || all_pass)) {
            r->charged[r->n].counter = c[i];
            r->charged[r->n].limit = l[i];
            r->charged[r->n++].charge = add_charge(l[i], c[i], a->cost, at);
        }
        if (l[i]->after > 0 && !banned[i] && (a->independent || all_pass || refuses[i])) {
            count_try(l[i], c[i], at);
            banned[i] = at < c[i]->ban_end;
        }
    }
    for (size_t i = 0; i < a->n; i++) {
        int outcome = banned[i] ? 2 : refuses[i] ? 1 : 0;
        int64_t left = room(l[i], c[i], at);
        int64_t retry = outcome == 0 ? 0 : retry_ms(l[i], c[i], a->cost, at);
        if (l[i]->shadow)
            outcome = 0;
        worst = outcome > worst ? outcome : worst;
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines), ": %s %lld %lld %lld %lld %lld", words[outcome],
                 (long long)l[i]->limit, (long long)(left > 0 ? left : 0), (long long)retry,
                 (long long)((as_new_at(l[i], c[i], at) - at + 999) / 1000),
                 (long long)(banned[i] ? (c[i]->ban_end - at + 999) / 1000 : 0));
    }
    snprintf(told_text, TOLD, "%s%s", words[worst], lines);
    *effect = worst == 0 || r->n > 0;
}

static void expect_as_model(const char *what, const char *expected, const char *got)
{
    if (strcmp(expected, got) != 0)
        fail_msg("%s\nthe model: %s\nthe answer: %s", what, expected, got);
}

static void step_repeat(request *r, const char *id, const asked *a)
{
    char expected[TOLD + 16];

    if (strcmp(r->text, a->text) != 0) {
        assert_null(send_check(a, id));
        expect_error(LKS_ALREADY_EXISTS, "request_id");
        return;
    }
    size_t word = strcspn(r->told, ":");
    snprintf(expected, sizeof expected, "%.*s replayed%s", (int)word, r->told, r->told + word);
    expect_as_model(a->text, expected, told(send_check(a, id)));
}

/* Asks again when it was told to, and a millisecond before; then the clock stays there. */
static void step_wait(const asked *a, int64_t wait_ms)
{
    asked look = *a;

    look.peek = true;
    advance(wait_ms - 1);
    if (send_check(&look, "")->outcome == LKS_CHECK_OUTCOME_ALLOWED)
        fail_msg("%s of %lld passed a millisecond before it was to", a->text, (long long)a->cost);
    advance(1);
    if (send_check(&look, "")->outcome != LKS_CHECK_OUTCOME_ALLOWED)
        fail_msg("%s of %lld did not pass when it was to: %s", a->text, (long long)a->cost,
                 told(send_check(&look, "")));
}

/* Until when a check is remembered: while it may be repeated, and what it charged counts. */
static int64_t end_of(const request *r, int64_t at)
{
    int64_t ends = at + 6 * S; /* the harness' second, and the margin */

    for (size_t i = 0; i < r->n; i++) {
        int64_t counts = as_new_at(r->charged[i].limit, r->charged[i].counter, at);
        ends = counts > ends ? counts : ends;
    }
    return ends;
}

static void step_check(void)
{
    int64_t at = now_us(), wait = 0;
    asked a = random_check();
    char expected[TOLD], id[16] = "";
    request fresh = {.exists = true}, *r = NULL;
    bool effect = false, never = false;

    if (!a.peek && below(3) == 0) {
        size_t i = (size_t)below(IDS);
        r = &requests[i];
        snprintf(id, sizeof id, "r%zu", i);
        a.cost = 2; /* the model compares the rules only */
        a.independent = false;
        if (r->exists && at < r->ends) {
            if (below(2) == 0)
                snprintf(a.text, sizeof a.text, "%s", r->text);
            step_repeat(r, id, &a);
            return;
        }
    }
    decide(&a, at, expected, &fresh, &effect);
    const lks_check_response *got = send_check(&a, id);
    expect_as_model(a.text, expected, told(got));
    for (size_t i = 0; i < got->n_rules; i++) {
        if (limits[a.limit[i]].shadow)
            continue;
        wait = got->rules[i]->retry_after_ms > wait ? got->rules[i]->retry_after_ms : wait;
        never |= got->rules[i]->retry_after_ms < 0;
    }
    if (r && effect) {
        *r = fresh;
        r->ends = end_of(r, at);
        snprintf(r->text, sizeof r->text, "%s", a.text);
        snprintf(r->told, sizeof r->told, "%s", expected);
    }
    /* What was charged beside a rule that refuses may be in the way of the repeat. */
    if (wait > 0 && !never && fresh.n == 0 && below(20) == 0)
        step_wait(&a, wait);
}

static void step_refund(void)
{
    size_t i = (size_t)below(IDS);
    request *r = &requests[i];
    bool known = r->exists && now_us() < r->ends;
    char id[16];

    snprintf(id, sizeof id, "r%zu", i);
    assert_string_equal(refund("g", id), !known ? "UNKNOWN" : r->refunded ? "ALREADY_REFUNDED" : "REFUNDED");
    if (!known || r->refunded)
        return;
    r->refunded = true;
    for (size_t k = 0; k < r->n; k++)
        give_back(r->charged[k].limit, r->charged[k].counter, r->charged[k].charge, now_us());
}

static void step_reset(void)
{
    int k = (int)below(KEYS);

    assert_true(reset("g", keys[k]));
    advance(1); /* a counter is told from the one before it by when it began */
    for (int l = 0; l < LIMITS; l++) {
        counter *c = &counters[k][l];
        for (size_t i = 0; i < c->n; i++)
            c->charges[i].forgotten = true;
        c->tat = 0;
        c->tries = c->ban_end = c->ban = 0;
    }
}

static void step_time(void)
{
    int64_t period = limits[below(LIMITS)].period;
    int64_t edge = window_of(now_us(), period) + period - now_us();

    switch (below(6)) {
    case 0:
        advance_us(1 + below(3));
        break;
    case 1:
        advance_us(edge - 1);
        break;
    case 2:
        advance_us(edge);
        break;
    case 3:
        advance_us(below(100 * S));
        break;
    default:
        advance_us(below(9 * S));
    }
}

/* ---- the bounds, over all that was admitted ---- */

/* Units admitted from charge `i` on within a span that begins with it. */
static int64_t admitted(const counter *c, size_t i, int64_t span)
{
    int64_t sum = 0;

    for (size_t k = i; k < c->n && c->charges[k].at - c->charges[i].at < span; k++)
        sum += c->charges[k].cost - c->charges[k].given_back;
    return sum;
}

static void within_bounds(const limit *l, const counter *c)
{
    for (size_t i = 0; i < c->n; i++) {
        int64_t start = c->charges[i].at, window = window_of(start, l->period);
        int64_t sum = 0, sliding = admitted(c, i, l->period);
        if (c->charges[i].forgotten)
            continue; /* what Reset forgot may be charged again */
        if (l->algorithm == 'F' && admitted(c, i, window + l->period - start) > l->limit)
            fail_msg("%s: %lld in a window of the clock", l->rule, (long long)sliding);
        if (l->algorithm == 'L' && sliding > l->limit)
            fail_msg("%s: %lld in a window", l->rule, (long long)sliding);
        for (size_t k = i; k < c->n && l->algorithm == 'S' && c->charges[k].at - start <= l->period; k++) {
            sum += c->charges[k].cost - c->charges[k].given_back;
            if ((wide)sum * l->period > (wide)l->limit * (l->period + c->charges[k].at - start))
                fail_msg("%s: %lld in %lld us", l->rule, (long long)sum, (long long)(c->charges[k].at - start));
        }
    }
}

/* Of a bucket: burst + rate * t between any two charges. */
static void bucket_within_bounds(const limit *l, const counter *c)
{
    for (size_t i = 0; i < c->n; i++) {
        int64_t sum = 0;
        for (size_t k = i; k < c->n && !c->charges[i].forgotten; k++) {
            wide span = c->charges[k].at - c->charges[i].at;
            sum += c->charges[k].refunded ? 0 : c->charges[k].cost;
            if ((wide)sum * l->period > (wide)l->burst * l->period + span * l->limit)
                fail_msg("%s: %lld in %lld us", l->rule, (long long)sum, (long long)span);
            if (span > 40 * l->period)
                break;
        }
    }
}

TEST(random_schedules_do_as_the_model)
{
    static const char *const servers[] = {"one", "two", "three"};
    const char *seed_text = getenv("LOCKSTOCK_SEED"), *steps_text = getenv("LOCKSTOCK_STEPS");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL) ^ (unsigned)getpid() << 8;
    long steps = steps_text ? atol(steps_text) : (long)counts_of(20000, 400000);
    print_message("LOCKSTOCK_SEED=%u\n", seed);
    srandom(seed);
    shorten_chunks();
    for (int k = 0; k < KEYS; k++)
        for (int l = 0; l < LIMITS; l++)
            counters[k][l].charges = calloc(CHARGES_MAX, sizeof(charge));
    assert_non_null(put_policy("window", "WINDOW 6/50000 after=4 ban=9000", false, 0));
    assert_non_null(put_policy("shadow", "LOG 4/60000 after=6 ban=10000 factor=2", true, 0));
    for (long i = 0; i < steps; i++) {
        harness_server(h, servers[below(3)]);
        switch (below(16)) {
        case 0:
            step_refund();
            break;
        case 1:
            if (below(40) == 0)
                step_reset();
            break;
        case 2:
        case 3:
        case 4:
            step_time();
            break;
        default:
            step_check();
        }
        harness_forget(h);
    }
    static const char lasting[] = "local n = 0 for _, key in ipairs(redis.call('KEYS', 'ls:{default/g}:*')) do\n"
                                  "if redis.call('PTTL', key) < 0 then n = n + 1 end end return n";
    assert_string_equal(harness_redis(h, "EVAL %s 0", lasting), "0"); /* all keys end by themselves */
    for (int k = 0; k < KEYS; k++) {
        for (int l = 0; l < LIMITS; l++) {
            if (limits[l].algorithm == 'B')
                bucket_within_bounds(&limits[l], &counters[k][l]);
            else
                within_bounds(&limits[l], &counters[k][l]);
            free(counters[k][l].charges);
        }
    }
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = ratelimit_reset)
