/* Invariant: a job is written by the run that has it, and read when that has returned. */
#include "once_fixture.h"
#include "test.h"

#include "support/process.h"

#include "client/once_attempt.h"

const lks_once_options plain = {.scope = "charge", .key = "order-1", .lease_ms = LEASE_MS};

/* The keeper's lock is hidden, and a stale value is as good. */
__attribute__((no_sanitize("thread"))) uint64_t lost_ns(lks_once_attempt *attempt)
{
    return *(volatile uint64_t *)&attempt->grant.lease.lost_ns;
}

lks_once_verdict work(void *arg, lks_once_attempt *attempt)
{
    struct job *job = arg;

    atomic_fetch_add(&job->runs, 1);
    job->extended = fake_calls(fake, FAKE_EXTEND);
    job->number = lks_once_number(attempt);
    job->fence = lks_once_fence(attempt);
    job->lost_first = lks_once_is_lost(attempt);
    job->lost_ns[0] = lost_ns(attempt);
    job->seen = fake_await(fake, FAKE_EXTEND, NULL, job->extends);
    while (job->until_lost && !lks_once_is_lost(attempt))
        process_pause();
    if (job->lets_go) {
        size_t before = fake_calls(fake, FAKE_EXTEND);
        fake_behave(fake, (fake_manner){.outcome[FAKE_COMPLETE] = LKS_COMPLETE_OUTCOME_SUPERSEDED});
        for (int i = 0; i < 50; i++) /* late answers come in */
            process_pause();
        job->seen = fake_calls(fake, FAKE_EXTEND) == before;
    }
    job->lost_last = lks_once_is_lost(attempt);
    job->lost_ns[1] = lost_ns(attempt);
    if (!job->forgets) {
        job->codes[0] = lks_once_return(attempt, 500, "overwritten", 11);
        job->codes[1] = lks_once_return(attempt, 201, "paid", 4);
        job->codes[2] = lks_once_add_header(attempt, "content-type", "text/plain");
    }
    if (job->detail)
        job->codes[3] = lks_once_set_detail(attempt, job->detail);
    return job->verdict;
}

lks_once_outcome run(const lks_once_options *options, struct job *job, lks_once_result **ret, lks_error *error)
{
    return lks_once_run(channel, options, work, job, ret, error);
}

/* Earlier background calls have arrived when a later call is answered. */
void assert_nothing_else_came(fake_method method, size_t n)
{
    struct job job = {.verdict = LKS_ONCE_STORE};

    fake_behave(fake, (fake_manner){.body = NULL});
    assert_int_equal(run(&plain, &job, NULL, NULL), LKS_ONCE_EXECUTED);
    assert_int_equal(fake_calls(fake, method), method == FAKE_BEGIN ? n + 1 : n);
}

void assert_given_back(size_t begins)
{
    assert_true(fake_await(fake, FAKE_BEGIN, NULL, begins));
    assert_true(fake_await(fake, FAKE_FAIL, NULL, 1));
    fake_event first = event_of(FAKE_BEGIN, 0), last = event_of(FAKE_BEGIN, begins - 1),
               failed = event_of(FAKE_FAIL, 0);
    assert_string_equal(last.token, first.token);
    assert_string_equal(last.group, first.group);
    assert_string_equal(last.id, first.id);
    assert_string_equal(last.text, first.text);
    assert_int_equal(last.lease_ms, first.lease_ms);
    assert_int_equal(last.wait_ms, 0);
    assert_int_equal(failed.fence, 7);
    assert_string_equal(failed.group, first.group);
    assert_string_equal(failed.id, first.id);
    assert_false(failed.flag);
}
