/* The keeper of leases, with a kind of lease whose renewals the test answers. */
/* promise C6 */
/* promise C12 */
/* promise C25 */

#include <pthread.h>

#include "base/clock.h"
#include "client/lease/lease.h"
#include "support/process.h"
#include "test.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lease lease;
static struct lease_batch *sent; /* the renewal that waits for its answer */
static int renewed, refused, reported, freed;
static bool is_away;
static lks_loss_reason reason;

static lks_code renew(lks_channel *channel, struct lease_batch *batch, uint32_t timeout_ms, lks_error *error)
{
    pthread_mutex_lock(&lock);
    bool away = is_away;
    assert_true(timeout_ms >= 20);
    refused += away;
    renewed += !away;
    if (!away)
        sent = batch;
    pthread_mutex_unlock(&lock);
    return away ? lks_error_set(error, LKS_CANCELLED, LKS_APPLIED_NO, "away") : LKS_OK;
}

static void report(struct lease *of, lks_loss_reason why)
{
    pthread_mutex_lock(&lock);
    reported++;
    reason = why;
    assert_ptr_equal(lease_reporting(), of);
    pthread_mutex_unlock(&lock);
}

static void count_free(struct lease *of)
{
    assert_ptr_equal(of, &lease);
    freed++;
}

static const lease_kind kind = {.batch_max = 1, .renew = renew, .lost = report, .free = count_free};

static int setup(void **state)
{
    renewed = refused = reported = freed = 0;
    is_away = false;
    sent = NULL;
    return 0;
}

static int count(const int *counter)
{
    pthread_mutex_lock(&lock);
    int n = *counter;
    pthread_mutex_unlock(&lock);
    return n;
}

static void await(const int *counter, int n)
{
    while (count(counter) < n) /* ctest ends it if it never happens */
        process_pause();
}

/* Begun so long ago that its first renewal is due. */
static void begin(uint64_t keep_ms, int64_t left_ms)
{
    lease = (struct lease){.kind = &kind, .lease_ms = 30, .keep_ms = keep_ms};
    assert_int_equal(lease_expect(&lease, NULL), LKS_OK);
    assert_true(lease_is_lost(&lease));
    lease_begin(&lease, clock_now_ns() - 10 * CLOCK_NS_PER_MS, left_ms);
}

static void answer(int64_t left_ms, const lks_error *error)
{
    pthread_mutex_lock(&lock);
    struct lease_batch *batch = sent;
    pthread_mutex_unlock(&lock);
    assert_int_equal(batch->n, 1);
    batch->renewals[0].left_ms = left_ms;
    lease_answered(batch, error);
}

static void end(bool lost)
{
    assert_int_equal(lease_end(&lease), lost);
    assert_null(lease.set);
    lease_drop(&lease);
}

/* promise M7: a lock is renewed at a third of its lease while it is held, and not after the unlock */
TEST(a_lease_lives_until_its_renewal_is_answered)
{
    begin(LEASE_ALWAYS, 60000);
    await(&renewed, 1);
    end(false);
    assert_int_equal(freed, 0);
    answer(60000, NULL);
    assert_int_equal(freed, 1);
    assert_int_equal(lease.state, LEASE_ENDED);
}

/* Without a call of its own the keeper tries again: the error says nothing about the lease. */
/* promise C6: a lease is extended while it is needed, again after a failure, and not after its end */
TEST(a_renewal_that_fails_is_repeated)
{
    static const lks_code codes[] = {LKS_RESOURCE_EXHAUSTED, LKS_INTERNAL, LKS_FAILED_PRECONDITION};

    begin(LEASE_ALWAYS, 60000);
    for (int i = 0; i < 3; i++) {
        await(&renewed, i + 1);
        answer(0, &(lks_error){.code = codes[i]});
    }
    await(&renewed, 4);
    assert_false(lease_is_lost(&lease));
    end(false);
    answer(0, NULL);
    assert_int_equal(count(&reported), 0);
}

/* Another lease's `lost` keeps the keeper's thread busy, so that the loss is not noticed before the answer comes. */
static bool is_any(const struct lease *of, const void *arg)
{
    return of && !arg;
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(struct lease *of, lks_loss_reason why)
{
    report(of, why);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void free_nothing(struct lease *of)
{
}

/* promise C7 */
/* promise M13 */
TEST(an_answer_after_the_loss_and_before_its_report_revives_nothing)
{
    static const lease_kind other_kind = {.batch_max = 1, .renew = renew, .lost = wait_at_gate, .free = free_nothing};
    struct lease other = {.kind = &other_kind, .lease_ms = 30, .keep_ms = LEASE_ALWAYS};

    begin(LEASE_ALWAYS, 1000);
    await(&renewed, 1);
    pthread_mutex_lock(&gate);
    assert_int_equal(lease_expect(&other, NULL), LKS_OK);
    lease_begin(&other, clock_now_ns() - 10 * CLOCK_NS_PER_MS, 1);
    await(&reported, 1);
    while (!lease_is_lost(&lease))
        process_pause();
    answer(60000, NULL);
    assert_true(lease_is_lost(&lease));
    pthread_mutex_unlock(&gate);
    await(&reported, 2);
    end(true);
    assert_true(lease_end(&other));
    lease_quiesce(is_any, NULL);
    lease_drop(&other);
}

TEST(a_lease_that_is_not_kept_costs_no_timer)
{
    begin(0, 60000);
    assert_null(lease.set);
    assert_false(lease_is_lost(&lease));
    end(false);
    assert_int_equal(freed, 1);
    begin(0, 1);
    assert_true(lease_is_lost(&lease));
    end(true);
}

/* promise C7 */
/* promise M13: a lost lock stays lost, is reported once, and is not renewed */
TEST(a_lease_that_is_lost_at_once_is_not_renewed)
{
    begin(LEASE_ALWAYS, 1);
    await(&reported, 1);
    assert_int_equal(count(&renewed), 0);
    end(true);
}

/* The lease of its last renewal is its last. */
/* promise C25 */
TEST(a_lease_is_kept_no_longer_than_keep_ms)
{
    begin(5, 60000); /* the renewal shortens it */
    await(&renewed, 1);
    answer(100, NULL); /* the next renewal would be due after the 5 ms */
    await(&reported, 1);
    assert_int_equal(reason, LKS_LOSS_MAX_HOLD);
    assert_int_equal(count(&renewed), 1);
    end(true);
}

/* promise M9: a renewal that fails is repeated */
TEST(a_renewal_that_cannot_start_is_repeated)
{
    is_away = true;
    begin(LEASE_ALWAYS, 60000);
    await(&refused, 2);
    pthread_mutex_lock(&lock);
    is_away = false;
    pthread_mutex_unlock(&lock);
    await(&renewed, 1);
    answer(60000, NULL);
    end(false);
}

/* A server that asks for a pause gets it. */
TEST(a_failed_renewal_waits_as_long_as_the_server_asks)
{
    const lks_error error = {.code = LKS_UNAVAILABLE, .retry_after_ms = 30000};

    begin(LEASE_ALWAYS, 60000);
    await(&renewed, 1);
    uint64_t now = clock_now_ns();
    answer(0, &error);
    assert_true(lease.renewal.at_ns >= now + 30000 * CLOCK_NS_PER_MS);
    assert_false(lease_is_lost(&lease));
    end(false);
}

TEST_MAIN(.setup = setup)
