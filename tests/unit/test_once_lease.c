/* lks_once against a scripted service: the lease while the function runs,
 * and the handling of its result. */

#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "unit/once_fixture.h"
#include "test.h"

/* ---- the lease ------------------------------------------------------------------------- */

/* promise C6 */
TEST(test_the_lease_is_extended_while_it_runs)
{
    struct job job = {.verdict = LKS_ONCE_STORE, .extends = 3};
    const lks_once_options options = {.scope = "charge", .key = "order-1", .lease_ms = SHORT_MS};

    assert_int_equal(run(&options, &job, NULL, NULL), LKS_ONCE_EXECUTED);
    assert_true(job.seen);
    assert_false(job.lost_last);
    fake_event extended = event_of(FAKE_EXTEND, 2);
    assert_string_equal(extended.group, "charge");
    assert_string_equal(extended.id, "order-1");
    assert_int_equal(extended.fence, 7);
    assert_int_equal(extended.lease_ms, SHORT_MS);
    /* Each at a third of the one before, and not sooner. */
    assert_true(event_of(FAKE_EXTEND, 1).at_ns - event_of(FAKE_BEGIN, 0).at_ns >= SHORT_MS / 2 * UINT64_C(1000000));
}

/* promise C7: a lease is lost at once when the server says so, and otherwise a tenth before its end, counted from the
 * sending; a lost lease stays lost; a late EXECUTE is confirmed */
/* promise C10 */
TEST(test_a_loss_is_reported_at_once)
{
    struct job job = {.verdict = LKS_ONCE_RETRY, .until_lost = true};
    lks_once_result *result = NULL;
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_EXTEND] = LKS_EXTEND_OUTCOME_LOST,
                                    .outcome[FAKE_FAIL] = LKS_FAIL_OUTCOME_SUPERSEDED,
                                    .body = "the winner's"});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_SUPERSEDED);
    assert_false(job.lost_first);
    assert_true(job.lost_ns[1] < job.lost_ns[0]); /* not by time */
    assert_int_equal(error.code, LKS_ABORTED);
    assert_non_null(result);
    assert_true(result->replayed);
    assert_string_equal(result->body, "the winner's");
    lks_once_result_free(result);
}

/* When it is lost as the answer to Begin has it, and as that to the first Extend has it. */
static lks_once_verdict see_ends(void *arg, lks_once_attempt *attempt)
{
    uint64_t *ends = arg;

    ends[0] = lost_ns(attempt);
    fake_await(fake, FAKE_EXTEND, NULL, 1);
    for (int i = 0; i < 20; i++) /* an answer that takes its time */
        process_pause();
    fake_behave(fake, (fake_manner){.body = NULL});
    while ((ends[1] = lost_ns(attempt)) == ends[0])
        process_pause();
    return LKS_ONCE_STORE;
}

/* It never counts as held for longer than it is: a tenth is left when it counts as
 * lost, counted from before the server saw the request. */
/* promise C7 */
TEST(test_a_lease_counts_from_the_sending)
{
    const uint64_t counts_ns = (LEASE_MS - LEASE_MS / 10) * UINT64_C(1000000);
    uint64_t ends[2];

    fake_behave(fake, (fake_manner){.holds[FAKE_EXTEND] = true, .delay_ms[FAKE_BEGIN] = 100});
    assert_int_equal(lks_once_run(channel, &plain, see_ends, ends, NULL, NULL), LKS_ONCE_EXECUTED);
    assert_true(ends[0] <= event_of(FAKE_BEGIN, 0).at_ns + counts_ns);
    assert_true(ends[1] <= event_of(FAKE_EXTEND, 0).at_ns + counts_ns);
    assert_true(ends[1] > event_of(FAKE_BEGIN, 0).at_ns + counts_ns);
}

/* The answer to a Begin that waited says nothing sure about a lease counted from its
 * sending. */
/* promise C7 */
TEST(test_a_late_begin_is_confirmed)
{
    const lks_once_options options = {.scope = "charge", .key = "order-1", .lease_ms = LEASE_MS, .wait_ms = 10000};
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_error error;

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_BEGIN] = LEASE_MS / 3 + 100});
    assert_int_equal(run(&options, &job, NULL, NULL), LKS_ONCE_EXECUTED);
    assert_int_equal(job.extended, 1);
    assert_int_equal(event_of(FAKE_EXTEND, 0).fence, 7);

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_BEGIN] = LEASE_MS / 3 + 100,
                                    .outcome[FAKE_EXTEND] = LKS_EXTEND_OUTCOME_LOST});
    assert_int_equal(run(&options, &job, NULL, &error), LKS_ONCE_IN_PROGRESS);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(atomic_load(&job.runs), 1);
}

/* promise C5 */
TEST(test_a_late_begin_in_doubt_is_given_back)
{
    const lks_once_options options = {.scope = "charge", .key = "order-1", .lease_ms = 900};
    struct job job = {.verdict = LKS_ONCE_STORE};

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_BEGIN] = 400, .fails[FAKE_EXTEND] = LKS_INTERNAL});
    assert_int_equal(run(&options, &job, NULL, NULL), LKS_ONCE_FAILED);
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_given_back(1);
    assert_int_equal(fake_calls(fake, FAKE_BEGIN), 1);
}

/* ---- the end -------------------------------------------------------------------------- */

/* promise C8: failures for now and for good */
TEST(test_a_failure_for_now)
{
    struct job job = {.verdict = LKS_ONCE_RETRY, .detail = "bank is closed"};
    lks_once_result *result = NULL;
    lks_error error;

    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_RETRYABLE);
    assert_null(result);
    assert_int_equal(error.applied, LKS_APPLIED_YES);
    assert_non_null(strstr(error.message, "bank is closed"));
    fake_event failed = event_of(FAKE_FAIL, 0);
    assert_false(failed.flag);
    assert_int_equal(failed.fence, 7);
    assert_string_equal(failed.text, "bank is closed");
    assert_int_equal(fake_calls(fake, FAKE_COMPLETE), 0);

    fake_behave(fake, (fake_manner){.fails[FAKE_FAIL] = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_RETRYABLE);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
}

/* promise C8 */
TEST(test_a_final_failure)
{
    struct job job = {.verdict = LKS_ONCE_GIVE_UP, .detail = "card is stolen"};
    lks_once_result *result = NULL;
    lks_error error;

    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_EXECUTED);
    assert_int_equal(error.code, LKS_OK);
    assert_string_equal(result->failure, "card is stolen");
    assert_int_equal(result->code, -1);
    assert_int_equal(result->n_headers, 0);
    assert_false(result->replayed);
    lks_once_result_free(result);
    assert_true(event_of(FAKE_FAIL, 0).flag);
    assert_string_equal(event_of(FAKE_FAIL, 0).text, "card is stolen");

    fake_behave(fake, (fake_manner){.fails[FAKE_FAIL] = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE});
    job.detail = NULL;
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_DOUBTFUL);
    assert_string_equal(result->failure, "");
    lks_once_result_free(result);
}

/* A Complete is tried for as long as the lease, also where the channel is less patient. */
/* promise C9 */
TEST(test_a_result_is_worth_a_lease_of_patience)
{
    const lks_channel_options impatient = {.timeout_ms = 200};
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_channel *other = NULL;

    assert_int_equal(lks_channel_open(fake_url(fake), &impatient, &other, NULL), LKS_OK);
    fake_behave(fake, (fake_manner){.fails[FAKE_COMPLETE] = LKS_UNAVAILABLE, .fail_times = 9});
    assert_int_equal(lks_once_run(other, &(lks_once_options){.scope = "a", .key = "b"}, work, &job, NULL, NULL),
                     LKS_ONCE_EXECUTED);
    assert_int_equal(fake_calls(fake, FAKE_COMPLETE), 10);
    assert_int_equal(lks_channel_close(other), LKS_OK);
}

/* Whatever is in the way, as long as it may pass: also an answer that was lost. */
/* promise C9: a lost or refused Complete is sent again for as long as the lease lasts; else the result is DOUBTFUL */
/* promise CH3 */
TEST(test_a_result_outlasts_refusals)
{
    static const struct {
        lks_code code;
        lks_applied applied;
    } failures[] = {{LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO},
                    {LKS_INTERNAL, LKS_APPLIED_NO},
                    {LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO},
                    {LKS_UNAVAILABLE, LKS_APPLIED_MAYBE}};
    static const struct {
        lks_once_verdict verdict;
        fake_method ends;
        lks_once_outcome outcome;
    } ends[] = {{LKS_ONCE_STORE, FAKE_COMPLETE, LKS_ONCE_EXECUTED},
                {LKS_ONCE_GIVE_UP, FAKE_FAIL, LKS_ONCE_EXECUTED},
                {LKS_ONCE_RETRY, FAKE_FAIL, LKS_ONCE_RETRYABLE}};
    lks_error error;

    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        for (size_t j = 0; j < sizeof ends / sizeof *ends; j++) {
            struct job job = {.verdict = ends[j].verdict};
            fake_manner manner = {.fail_times = 4, .fail_retry_ms = 1, .applied = failures[i].applied};
            size_t before = fake_calls(fake, ends[j].ends);

            manner.fails[ends[j].ends] = failures[i].code;
            fake_behave(fake, manner);
            assert_int_equal(run(&plain, &job, NULL, &error), ends[j].outcome);
            assert_int_equal(error.applied, ends[j].verdict == LKS_ONCE_RETRY ? LKS_APPLIED_YES : 0);
            assert_int_equal(fake_calls(fake, ends[j].ends), before + 5);
            assert_int_equal(atomic_load(&job.runs), 1);
        }
}

/* promise C9 */
TEST(test_a_result_that_may_not_be_stored_is_doubtful)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_error error;
    const fake_manner manners[] = {
        {.fails[FAKE_COMPLETE] = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE},
        {.outcome[FAKE_COMPLETE] = 99},
    };

    for (size_t i = 0; i < 2; i++) {
        fake_behave(fake, manners[i]);
        assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_DOUBTFUL);
        assert_int_equal(error.code, LKS_INTERNAL);
        assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
        assert_string_equal(result->body, "paid");
        assert_false(result->replayed);
        lks_once_result_free(result);
    }
    assert_nothing_else_came(FAKE_FAIL, 0); /* its effect may be there: it is not given back */
}

/* promise C10: SUPERSEDED is reported, with the winner's result if there is one */
TEST(test_the_winners_result_is_given)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_COMPLETE] = LKS_COMPLETE_OUTCOME_SUPERSEDED, .body = "the winner's"});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_SUPERSEDED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_true(result->replayed);
    assert_string_equal(result->body, "the winner's");
    lks_once_result_free(result);

    fake_behave(fake, (fake_manner){.outcome[FAKE_COMPLETE] = LKS_COMPLETE_OUTCOME_SUPERSEDED,
                                    .fails[FAKE_GET] = LKS_NOT_FOUND});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_SUPERSEDED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_null(result);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
