/* RateLimitService on two real servers and one Redis, in real time: threads that hammer
 * one key while a server is killed never get more than each algorithm's bound; a policy
 * reaches the other server; and what still works when the store is short of memory.
 * Nothing here says that something is fast. */

#include <pthread.h>
#include <time.h>

#include <lockstock/v1/ratelimit.lks_client.h>

#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "support/two_servers.h"
#include "test.h"

enum { SERVERS = 2, THREADS = 8, ALGORITHMS = 4, LIMIT = 20, PERIOD_MS = 500, ALLOWED_MAX = 200000 };
#define PERIOD_US ((int64_t)PERIOD_MS * 1000)

typedef two_servers fixture;

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    fixture *f = calloc(1, sizeof *f);

    *state = f;
    return two_servers_start(f, NULL, (server_fixture_options){.args = unsafe}) ? 0 : -1;
}

static int teardown(void **state)
{
    two_servers_end(*state);
    free(*state);
    return 0;
}

/* ---- many on one key -------------------------------------------------------------------- */

/* A unit that was allowed at some instant between the two. */
typedef struct allowed {
    int64_t sent_us, told_us;
} allowed;

typedef struct hammer {
    lks_channel *channel;
    int64_t until_us;
    allowed *of[ALGORITHMS];
    size_t n[ALGORITHMS];
    long answers, failures;
} hammer;

static int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* One rule an algorithm, each for itself. */
static void hit(hammer *hm)
{
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_rule rules[ALGORITHMS], *rule[ALGORITHMS];
    lks_limit limits[ALGORITHMS];
    lks_check_response *response = NULL;
    allowed when = {.sent_us = wall_us()};

    for (int i = 0; i < ALGORITHMS; i++) {
        limits[i] = (lks_limit)LKS_LIMIT_INIT;
        limits[i].algorithm = (lks_algorithm)(i + 1);
        limits[i].limit = LIMIT;
        limits[i].period_ms = PERIOD_MS;
        rules[i] = (lks_rule)LKS_RULE_INIT;
        lks_rule_set_limit(&rules[i], &limits[i]);
        rules[i].key = "hot";
        rule[i] = &rules[i];
    }
    request.group = "hammer";
    request.mode = LKS_CHECK_MODE_INDEPENDENT;
    request.n_rules = ALGORITHMS;
    request.rules = rule;
    if (lks_rate_limit_check(hm->channel, &request, NULL, &response, NULL) != LKS_OK) {
        hm->failures++; /* its server was killed: it may have been charged, and was not told so */
        return;
    }
    when.told_us = wall_us();
    hm->answers++;
    for (size_t i = 0; i < response->n_rules; i++)
        if (response->rules[i]->outcome == LKS_CHECK_OUTCOME_ALLOWED && hm->n[i] < ALLOWED_MAX)
            hm->of[i][hm->n[i]++] = when;
    lks_check_response_free(response);
}

static void *hammer_on(void *arg)
{
    hammer *hm = arg;

    while (wall_us() < hm->until_us)
        hit(hm);
    return NULL;
}

static int by_sent(const void *a, const void *b)
{
    const allowed *x = a, *y = b;

    return (x->sent_us > y->sent_us) - (x->sent_us < y->sent_us);
}

/* The most units that were surely allowed within [from, from + span]. */
static int64_t surely_in(const allowed *all, size_t n, int64_t from, int64_t span)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += all[i].sent_us >= from && all[i].told_us <= from + span;
    return sum;
}

static void expect_bound(const char *what, int64_t admitted, double bound, int64_t span)
{
    if ((double)admitted > bound + 1e-6)
        fail_msg("%s: %lld allowed in %lld us, the bound is %.3f", what, (long long)admitted, (long long)span, bound);
}

static void within_bounds(int algorithm, const allowed *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t from = all[i].sent_us, window = from - from % PERIOD_US;
        switch (algorithm + 1) {
        case LKS_ALGORITHM_FIXED_WINDOW:
            expect_bound("FIXED_WINDOW", surely_in(all, n, window, PERIOD_US - 1), LIMIT, PERIOD_US);
            break;
        case LKS_ALGORITHM_SLIDING_LOG:
            expect_bound("SLIDING_LOG", surely_in(all, n, from, PERIOD_US - 1), LIMIT, PERIOD_US);
            break;
        default:
            for (size_t k = i; k < n && all[k].told_us - from <= 4 * PERIOD_US; k++) {
                int64_t span = all[k].told_us - from;
                if (algorithm + 1 == LKS_ALGORITHM_SLIDING_WINDOW && span > PERIOD_US)
                    continue;
                expect_bound(algorithm + 1 == LKS_ALGORITHM_SLIDING_WINDOW ? "SLIDING_WINDOW" : "TOKEN_BUCKET",
                             surely_in(all, n, from, span), LIMIT * (1 + (double)span / (double)PERIOD_US), span);
            }
        }
    }
}

TEST(bounds_hold_while_threads_hammer_and_servers_die)
{
    fixture *f = *state;
    static hammer hammers[THREADS];
    static allowed all[ALLOWED_MAX];
    pthread_t threads[THREADS];
    int64_t from = wall_us(), until = from + (int64_t)counts_of(3, 30) * 1000000;
    long answers = 0, failures = 0;

    for (int t = 0; t < THREADS; t++) {
        hammers[t] = (hammer){.channel = f->channels[t % SERVERS], .until_us = until};
        for (int a = 0; a < ALGORITHMS; a++)
            assert_non_null(hammers[t].of[a] = calloc(ALLOWED_MAX / THREADS, sizeof(allowed)));
        assert_int_equal(pthread_create(&threads[t], NULL, hammer_on, &hammers[t]), 0);
    }
    while (wall_us() < from + (until - from) / 3)
        process_pause();
    server_fixture_kill(f->servers[0]);
    bool restarted = server_fixture_restart(f->servers[0]);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        answers += hammers[t].answers;
        failures += hammers[t].failures;
    }
    assert_true(restarted);
    print_message("%ld checks answered, %ld not\n", answers, failures);
    for (int a = 0; a < ALGORITHMS; a++) {
        size_t n = 0;
        for (int t = 0; t < THREADS; t++) {
            assert_true(n + hammers[t].n[a] <= ALLOWED_MAX);
            memcpy(all + n, hammers[t].of[a], hammers[t].n[a] * sizeof *all);
            n += hammers[t].n[a];
            free(hammers[t].of[a]);
        }
        qsort(all, n, sizeof *all, by_sent);
        within_bounds(a, all, n);
        assert_true(n >= LIMIT); /* nobody else used it up */
    }
}

/* ---- policies --------------------------------------------------------------------------- */

static void put(lks_channel *channel, char *name, int64_t limit)
{
    lks_put_policy_request request = LKS_PUT_POLICY_REQUEST_INIT;
    lks_limit of = LKS_LIMIT_INIT;
    lks_put_policy_response *response = NULL;
    lks_error error;

    of.algorithm = LKS_ALGORITHM_SLIDING_LOG;
    of.limit = limit;
    of.period_ms = 3600000;
    request.name = name;
    request.limit = &of;
    if (lks_rate_limit_put_policy(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("PutPolicy: %s", error.message);
    lks_put_policy_response_free(response);
}

static lks_code check_policy(lks_channel *channel, char *name, char *request_id, lks_check_response **ret,
                             lks_error *error)
{
    lks_check_request request = LKS_CHECK_REQUEST_INIT;
    lks_rule rule = LKS_RULE_INIT, *rules[] = {&rule};

    lks_rule_set_policy(&rule, name);
    rule.key = "bob";
    request.n_rules = 1;
    request.rules = rules;
    request.request_id = request_id;
    return lks_rate_limit_check(channel, &request, NULL, ret, error);
}

/* The limit that a check by policy goes by; 0: there is no such policy. */
static int64_t limit_in_force(lks_channel *channel, char *name)
{
    lks_check_response *response = NULL;
    lks_error error;
    lks_code code = check_policy(channel, name, "", &response, &error);

    if (code == LKS_NOT_FOUND)
        return 0;
    if (code != LKS_OK)
        fail_msg("Check: %s: %s", lks_code_name(code), error.message);
    int64_t limit = response->rules[0]->limit;
    lks_check_response_free(response);
    return limit;
}

/* Seen by the other server; how soon is shown on a driven clock. */
TEST(a_policy_reaches_the_other_server)
{
    fixture *f = *state;
    lks_delete_policy_request request = LKS_DELETE_POLICY_REQUEST_INIT;
    lks_delete_policy_response *response = NULL;

    assert_int_equal(limit_in_force(f->channels[1], "spread"), 0);
    for (int64_t limit = 1; limit <= 3; limit++) {
        put(f->channels[0], "spread", limit);
        assert_int_equal(limit_in_force(f->channels[0], "spread"), limit);
        while (limit_in_force(f->channels[1], "spread") != limit)
            process_pause();
    }
    request.name = "spread";
    assert_int_equal(lks_rate_limit_delete_policy(f->channels[1], &request, NULL, &response, NULL), LKS_OK);
    lks_delete_policy_response_free(response);
    while (limit_in_force(f->channels[0], "spread") != 0)
        process_pause();
}

/* ---- a store without memory ------------------------------------------------------------- */

static lks_refund_outcome refund(lks_channel *channel, char *request_id)
{
    lks_refund_request request = LKS_REFUND_REQUEST_INIT;
    lks_refund_response *response = NULL;
    lks_error error;

    request.group = "bob";
    request.request_id = request_id;
    if (lks_rate_limit_refund(channel, &request, NULL, &response, &error) != LKS_OK)
        fail_msg("Refund: %s", error.message);
    lks_refund_outcome outcome = response->outcome;
    lks_refund_response_free(response);
    return outcome;
}

TEST(without_memory_only_checks_are_refused)
{
    fixture *f = *state;
    lks_check_response *response = NULL;
    lks_reset_request reset = LKS_RESET_REQUEST_INIT;
    lks_reset_response *done = NULL;
    lks_error error = {0};

    put(f->channels[0], "memory", 5);
    assert_int_equal(check_policy(f->channels[0], "memory", "first", &response, &error), LKS_OK);
    assert_int_equal(response->rules[0]->remaining, 4);
    lks_check_response_free(response);
    free(redis_fixture_command(f->redis, "CONFIG SET maxmemory 1"));
    assert_int_equal(check_policy(f->channels[0], "memory", "", &response, &error), LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_int_equal(refund(f->channels[0], "first"), LKS_REFUND_OUTCOME_REFUNDED);
    assert_int_equal(refund(f->channels[1], "first"), LKS_REFUND_OUTCOME_ALREADY_REFUNDED);
    reset.key = "bob";
    assert_int_equal(lks_rate_limit_reset(f->channels[0], &reset, NULL, &done, &error), LKS_OK);
    lks_reset_response_free(done);
    free(redis_fixture_command(f->redis, "CONFIG SET maxmemory 0"));
    assert_int_equal(check_policy(f->channels[1], "memory", "second", &response, &error), LKS_OK);
    assert_int_equal(response->rules[0]->remaining, 4);
    lks_check_response_free(response);
}

TEST_MAIN(.setup_all = setup, .teardown_all = teardown)
