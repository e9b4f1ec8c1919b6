/* lks_once against a scripted service: its requests, the handling of the
 * answers of Begin, and the results that the function may return. */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/process.h"
#include "unit/fake_service.h"
#include "unit/helpers_fixture.h"
#include "unit/once_fixture.h"
#include "test.h"

/* ---- a run and its calls ---------------------------------------------------------- */

/* promise C1 */
TEST(test_it_runs_and_its_result_is_stored)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_error error = {.code = LKS_INTERNAL};

    assert_int_equal(run(&(lks_once_options){.scope = "charge", .key = "order-1"}, &job, &result, &error),
                     LKS_ONCE_EXECUTED);
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(atomic_load(&job.runs), 1);
    assert_int_equal(job.number, 1);
    assert_int_equal(job.fence, 7);
    assert_false(job.lost_first);
    assert_int_equal(result->code, 201);
    assert_int_equal(result->body_len, 4);
    assert_string_equal(result->body, "paid");
    assert_int_equal(result->n_headers, 1);
    assert_string_equal(result->headers[0].key, "content-type");
    assert_string_equal(result->headers[0].value, "text/plain");
    assert_false(result->replayed);
    assert_null(result->failure);
    lks_once_result_free(result);

    fake_event begun = event_of(FAKE_BEGIN, 0), completed = event_of(FAKE_COMPLETE, 0);
    assert_string_equal(begun.group, "charge");
    assert_string_equal(begun.id, "order-1");
    assert_int_equal(strlen(begun.token), 32);
    assert_string_equal(begun.text, "");
    assert_int_equal(begun.lease_ms, 30000);
    assert_int_equal(begun.retain_ms, 0);
    assert_int_equal(begun.wait_ms, 0);
    assert_string_equal(completed.group, "charge");
    assert_string_equal(completed.id, "order-1");
    assert_int_equal(completed.fence, 7);
    assert_int_equal(completed.number, 201);
    assert_string_equal(completed.text, "paid");
    assert_int_equal(completed.n, 1);
    assert_string_equal(completed.keys[0], "content-type: text/plain");
    assert_int_equal(fake_calls(fake, FAKE_EXTEND), 0);
}

/* promise C1: once: Begin, the function, Complete; its result as it gave it */
/* promise CH7 */
TEST(test_options_are_sent)
{
    const lks_once_options options = {.scope = "a",
                                      .key = "b",
                                      .fingerprint = "sha",
                                      .fingerprint_len = 3,
                                      .lease_ms = 12345,
                                      .retain_ms = 3600000,
                                      .wait_ms = UINT32_MAX};
    struct job job = {.verdict = LKS_ONCE_STORE, .forgets = true};
    lks_once_result *result = NULL;

    assert_int_equal(run(&options, &job, &result, NULL), LKS_ONCE_EXECUTED);
    assert_int_equal(result->code, 0);
    assert_int_equal(result->body_len, 0);
    assert_string_equal(result->body, "");
    lks_once_result_free(result);
    fake_event begun = event_of(FAKE_BEGIN, 0);
    assert_string_equal(begun.text, "sha");
    assert_int_equal(begun.lease_ms, 12345);
    assert_int_equal(begun.retain_ms, 3600000);
    assert_int_equal(begun.wait_ms, 86400000);
}

/* An EXECUTE that was lost is asked for again as the same attempt. */
/* promise C4: a new token each run, the same in its retries */
TEST(test_each_run_is_another_attempt)
{
    struct job job = {.verdict = LKS_ONCE_STORE};

    assert_int_equal(run(&plain, &job, NULL, NULL), LKS_ONCE_EXECUTED);
    fake_behave(fake,
                (fake_manner){.fails[FAKE_BEGIN] = LKS_UNAVAILABLE, .applied = LKS_APPLIED_MAYBE, .fail_times = 1});
    assert_int_equal(run(&plain, &job, NULL, NULL), LKS_ONCE_EXECUTED);
    assert_int_equal(atomic_load(&job.runs), 2);
    assert_int_equal(fake_calls(fake, FAKE_BEGIN), 3);
    assert_string_not_equal(event_of(FAKE_BEGIN, 0).token, event_of(FAKE_BEGIN, 1).token);
    assert_string_equal(event_of(FAKE_BEGIN, 1).token, event_of(FAKE_BEGIN, 2).token);
}

/* ---- answers of Begin ---------------------------------------------------------------- */

/* promise C2: REPLAY: the stored result, `replayed`; a failure for good too */
TEST(test_a_stored_result_is_replayed)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_error error = {.code = LKS_INTERNAL};

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_REPLAY, .body = "first"});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_REPLAYED);
    assert_int_equal(error.code, LKS_OK);
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_true(result->replayed);
    assert_int_equal(result->code, 200);
    assert_int_equal(result->body_len, 5);
    assert_string_equal(result->body, "first");
    assert_int_equal(result->n_headers, 1);
    assert_null(result->failure);
    lks_once_result_free(result);
    assert_nothing_else_came(FAKE_BEGIN, 1);
}

/* promise C2 */
TEST(test_a_final_failure_is_replayed)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_REPLAY, .failure = "no money"});
    assert_int_equal(run(&plain, &job, &result, NULL), LKS_ONCE_REPLAYED);
    assert_string_equal(result->failure, "no money");
    assert_int_equal(result->code, -1);
    assert_int_equal(result->n_headers, 0);
    assert_true(result->replayed);
    lks_once_result_free(result);
}

TEST(test_a_replay_without_a_result_is_an_error)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_REPLAY});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_FAILED);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_string_equal(error.message, "the answer has no stored result");
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_null(result);
}

/* promise C3: IN_PROGRESS with retry_after, MISMATCH, failures apart */
/* promise C5: an attempt that may have begun and does not run is given back, and no other */
TEST(test_refusals_are_distinguished)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = (lks_once_result *)&job; /* to be made NULL */
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_IN_PROGRESS, .retry_after_ms = 4321});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_IN_PROGRESS);
    assert_null(result);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_int_equal(error.retry_after_ms, 4321);
    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = LKS_BEGIN_OUTCOME_MISMATCH});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_MISMATCH);
    assert_int_equal(error.code, LKS_ALREADY_EXISTS);
    fake_behave(fake, (fake_manner){.fails[FAKE_BEGIN] = LKS_INVALID_ARGUMENT});
    assert_int_equal(run(&plain, &job, &result, &error), LKS_ONCE_FAILED);
    assert_int_equal(error.code, LKS_INVALID_ARGUMENT);
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_nothing_else_came(FAKE_BEGIN, 3);
    assert_int_equal(fake_calls(fake, FAKE_FAIL), 0);
}

/* ---- an attempt that may have begun is given back ----------------------------------- */

/* promise C5 */
TEST(test_a_doubtful_begin_is_given_back)
{
    const lks_once_options options = {
        .scope = "charge", .key = "order-1", .fingerprint = "sha", .fingerprint_len = 3, .wait_ms = 50};
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_error error;

    fake_behave(fake, (fake_manner){.fails[FAKE_BEGIN] = LKS_INTERNAL, .applied = LKS_APPLIED_MAYBE, .fail_times = 1});
    assert_int_equal(run(&options, &job, NULL, &error), LKS_ONCE_FAILED);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_given_back(2);
}

/* promise C5 */
TEST(test_an_unknown_answer_is_given_back)
{
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_BEGIN] = 99});
    assert_int_equal(run(&plain, &job, NULL, &error), LKS_ONCE_FAILED);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    assert_true(fake_await(fake, FAKE_BEGIN, NULL, 2));
    assert_int_equal(atomic_load(&job.runs), 0);
    assert_nothing_else_came(FAKE_FAIL, 0); /* it was none */
}

/* ---- results of a function ------------------------------------------------------------ */

static lks_once_verdict say_too_much(void *arg, lks_once_attempt *attempt)
{
    static char body[LKS_ONCE_BODY_MAX + 1], value[4098], key[130];
    struct job *job = arg;

    memset(value, 'v', sizeof value - 1);
    memset(key, 'k', sizeof key - 1);
    job->codes[0] = lks_once_return(attempt, 1, body, LKS_ONCE_BODY_MAX);
    job->codes[1] = lks_once_return(attempt, 2, body, LKS_ONCE_BODY_MAX + 1);
    job->codes[2] = lks_once_add_header(attempt, "Lockstock-Failure", "");
    job->codes[3] = lks_once_add_header(attempt, key, "");
    job->codes[4] = lks_once_add_header(attempt, "", "");
    job->codes[5] = lks_once_add_header(attempt, "k", value);
    for (size_t i = 0; i < LKS_ONCE_HEADERS_MAX + 1; i++)
        if (lks_once_add_header(attempt, key + 1, value + 1) == LKS_OK)
            job->extended++;
    return LKS_ONCE_STORE;
}

/* promise C11 */
TEST(test_a_too_large_result_is_refused)
{
    struct job job = {.extended = 0};
    lks_once_result *result = NULL;
    lks_error error;

    if (lks_once_run(channel, &plain, say_too_much, &job, &result, &error) != LKS_ONCE_EXECUTED)
        fail_msg("%s", error.message);
    assert_int_equal(job.codes[0], LKS_OK);
    for (size_t i = 1; i < 6; i++)
        assert_int_equal(job.codes[i], LKS_INVALID_ARGUMENT);
    assert_int_equal(job.extended, LKS_ONCE_HEADERS_MAX);
    assert_int_equal(result->code, 1);
    assert_int_equal(result->body_len, LKS_ONCE_BODY_MAX);
    assert_int_equal(result->n_headers, LKS_ONCE_HEADERS_MAX);
    assert_int_equal(strlen(result->headers[LKS_ONCE_HEADERS_MAX - 1].value), 4096);
    lks_once_result_free(result);
}

static lks_once_verdict return_invalid_text(void *arg, lks_once_attempt *attempt)
{
    struct job *job = arg;

    job->codes[0] = lks_once_set_detail(attempt, "kept");
    job->codes[1] = lks_once_set_detail(attempt, "caf\xE9");
    job->codes[2] = lks_once_add_header(attempt, "caf\xE9", "");
    job->codes[3] = lks_once_add_header(attempt, "k", "caf\xE9");
    job->codes[4] = lks_once_add_header(attempt, "k", "\xED\xA0\x80");
    return job->verdict;
}

/* Refused later it would be too late: the server says no to a result that is not UTF-8,
 * and the function is run again. */
/* promise C11 */
TEST(test_a_result_that_is_not_utf8_is_refused_at_once)
{
    struct job jobs[] = {{.verdict = LKS_ONCE_GIVE_UP}, {.verdict = LKS_ONCE_STORE}};

    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(lks_once_run(channel, &plain, return_invalid_text, &jobs[i], NULL, NULL), LKS_ONCE_EXECUTED);
        assert_int_equal(jobs[i].codes[0], LKS_OK);
        for (size_t j = 1; j < 5; j++)
            assert_int_equal(jobs[i].codes[j], LKS_INVALID_ARGUMENT);
    }
    assert_string_equal(event_of(FAKE_FAIL, 0).text, "kept");
    assert_int_equal(event_of(FAKE_COMPLETE, 0).n, 0);
}

enum { SMALL_BYTES = 2048 };

static lks_once_verdict return_unsendable(void *arg, lks_once_attempt *attempt)
{
    static char body[SMALL_BYTES], value[SMALL_BYTES / 2 + 1];
    struct job *job = arg;

    memset(value, 'v', sizeof value - 1);
    job->codes[0] = lks_once_return(attempt, 1, body, SMALL_BYTES / 2);
    job->codes[1] = lks_once_add_header(attempt, "k", value);
    job->codes[2] = lks_once_return(attempt, 2, body, SMALL_BYTES);
    job->codes[3] = lks_once_add_header(attempt, "k", "v");
    return LKS_ONCE_STORE;
}

/* promise C11 */
TEST(test_a_result_too_long_for_the_channel_is_refused_at_once)
{
    const lks_channel_options small = {.message_bytes_max = SMALL_BYTES, .ns = "default", .token = "token"};
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_once_result *result = NULL;
    lks_channel *narrow = NULL;

    assert_int_equal(lks_channel_open(fake_url(fake), &small, &narrow, NULL), LKS_OK);
    assert_int_equal(lks_once_run(narrow, &plain, return_unsendable, &job, &result, NULL), LKS_ONCE_EXECUTED);
    assert_int_equal(job.codes[0], LKS_OK);
    assert_int_equal(job.codes[1], LKS_INVALID_ARGUMENT);
    assert_int_equal(job.codes[2], LKS_INVALID_ARGUMENT);
    assert_int_equal(job.codes[3], LKS_OK);
    assert_int_equal(result->code, 1);
    assert_int_equal(result->body_len, SMALL_BYTES / 2);
    assert_int_equal(result->n_headers, 1);
    lks_once_result_free(result);
    assert_int_equal(lks_channel_close(narrow), LKS_OK);
}

/* promise C11 */
TEST(test_a_detail_is_cut_at_a_character)
{
    char detail[1100];
    struct job job = {.verdict = LKS_ONCE_RETRY, .detail = detail};

    memset(detail, 'a', sizeof detail);
    memcpy(detail + 1023, "\xC3\xA9", 3); /* an e with an accent: bytes 1023 and 1024 */
    assert_int_equal(run(&plain, &job, NULL, NULL), LKS_ONCE_RETRYABLE);
    assert_int_equal(event_of(FAKE_FAIL, 0).n, 1023);
    memset(detail, 'a', sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    assert_int_equal(run(&plain, &job, NULL, NULL), LKS_ONCE_RETRYABLE);
    assert_int_equal(event_of(FAKE_FAIL, 1).n, 1024);
}

/* ---- threads and processes ---------------------------------------------------------------- */

/* promise C26 */
TEST(test_not_in_a_forked_child)
{
    int status = 0;

    pid_t child = fork();
    if (child == 0) {
        struct job job = {.verdict = LKS_ONCE_STORE};
        lks_error error;
        bool refused = run(&plain, &job, NULL, &error) == LKS_ONCE_FAILED && error.code == LKS_FAILED_PRECONDITION;
        _exit(refused && atomic_load(&job.runs) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(fake_calls(fake, FAKE_BEGIN), 0);
}

/* One more than the channel has room for is refused before anything is sent. */
/* promise C12: a full channel begins no attempt and leaves no call behind */
TEST(test_a_full_channel_begins_nothing)
{
    enum { ROOM = 4 };
    const lks_channel_options small = {.in_flight_max = 1, .queue_max = ROOM - 1};
    struct job job = {.verdict = LKS_ONCE_STORE};
    lks_channel *other = NULL;
    lks_get_request request = LKS_GET_REQUEST_INIT;
    lks_call *calls[ROOM];
    lks_error error;

    assert_int_equal(lks_channel_open(fake_url(fake), &small, &other, NULL), LKS_OK);
    fake_behave(fake, (fake_manner){.holds[FAKE_GET] = true});
    for (size_t i = 0; i < ROOM; i++)
        assert_int_equal(lks_idempotency_get_start(other, &request, NULL, NULL, NULL, &calls[i], NULL), LKS_OK);
    assert_int_equal(lks_once_run(other, &plain, work, &job, NULL, &error), LKS_ONCE_FAILED);
    assert_int_equal(error.code, LKS_RESOURCE_EXHAUSTED);
    assert_int_equal(error.applied, LKS_APPLIED_NO);
    assert_int_equal(fake_calls(fake, FAKE_BEGIN), 0);
    fake_behave(fake, (fake_manner){.body = NULL});
    for (size_t i = 0; i < ROOM; i++) {
        lks_call_wait(calls[i], NULL);
        lks_call_free(calls[i]);
    }
    /* Refused and ended results free their room. */
    for (size_t i = 0; i < 3 * ROOM; i++)
        assert_int_equal(lks_once_run(other, &plain, work, &job, NULL, &error), LKS_ONCE_EXECUTED);
    assert_int_equal(lks_channel_close(other), LKS_OK);
}

struct crowd {
    int rounds;
    atomic_int executed;
};

static lks_once_verdict pause_a_little(void *arg, lks_once_attempt *attempt)
{
    process_pause();
    return lks_once_return(attempt, 200, "x", 1) == LKS_OK ? LKS_ONCE_STORE : LKS_ONCE_RETRY;
}

static void *run_often(void *arg)
{
    const lks_once_options options = {.scope = "charge", .key = "order-1", .lease_ms = 10};
    struct crowd *crowd = arg;

    for (int i = 0; i < crowd->rounds; i++) {
        lks_once_result *result = NULL;
        lks_once_outcome outcome = lks_once_run(channel, &options, pause_a_little, NULL, &result, NULL);
        if (outcome == LKS_ONCE_EXECUTED && result)
            atomic_fetch_add(&crowd->executed, 1);
        lks_once_result_free(result);
    }
    return NULL;
}

/* Leases so short that they are extended, and lost, in the midst of everything. */
TEST(test_many_at_once)
{
    enum { THREADS = 6, ROUNDS = 40 };
    struct crowd crowd = {.rounds = ROUNDS};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &crowd), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&crowd.executed), THREADS * ROUNDS);
    assert_int_equal(fake_calls(fake, FAKE_COMPLETE), THREADS * ROUNDS);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
