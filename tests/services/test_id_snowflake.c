/* SNOWFLAKE and Decode: the bits, what is granted to whom, and what is refused. */
#include "functions/library.h"
#include "services/id_script.h"

#define EPOCH_MS INT64_C(1704067200000)

static const char workers_key[] = "ls:{meta}:id:workers";

static int32_t worker_of(int64_t id)
{
    return snowflake_parts_of(id).worker;
}

/* Time passes for the servers, and the clock of Redis stays: then it stepped back. */
static void hold_clock_ms(int64_t ms)
{
    harness_advance_ms(h, ms);
    harness_advance_ms(h, -ms);
}

/* Workers first..last belong to others, granted at `at_ms`. */
static void others_have(int first, int last, int64_t at_ms)
{
    static const char script[] =
        "for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do\n"
        "  redis.call('HSET', ARGV[1], n, string.format('0 %.0f %s other', ARGV[4] + 1000, ARGV[4]))\n"
        "end";
    char at[32];

    snprintf(at, sizeof at, "%lld", (long long)at_ms);
    harness_redis(h, "EVAL %s 0 %s %d %d %s", script, workers_key, first, last, at);
}

/* ---- the bits ------------------------------------------------------------------- */

TEST(decode_takes_an_id_apart)
{
    static const struct {
        int64_t id, at_ms;
        int32_t worker, sequence;
    } vectors[] = {
        {1, EPOCH_MS, 0, 1},
        {INT64_C(1) << 12, EPOCH_MS, 1, 0},
        {INT64_C(1) << 22, EPOCH_MS + 1, 0, 0},
        {(INT64_C(86400000) << 22) | (513 << 12) | 2050, EPOCH_MS + 86400000, 513, 2050},
        {INT64_MAX, EPOCH_MS + (INT64_C(1) << 41) - 1, 1023, 4095},
    };

    long calls = store_calls();
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        lks_decode_response parts = decode(vectors[i].id);
        assert_int_equal(err.code, LKS_OK);
        assert_int_equal(parts.at_ms, vectors[i].at_ms);
        assert_int_equal(parts.worker, vectors[i].worker);
        assert_int_equal(parts.sequence, vectors[i].sequence);
    }
    assert_int_equal(store_calls(), calls);
}

TEST(a_range_makes_these_ids)
{
    snowflake s;
    int64_t ids[4098];
    const snowflake_range range = {.worker = 5,
                                   .first_ms = EPOCH_MS + 100,
                                   .end_ms = EPOCH_MS + 103,
                                   .clock_ms = EPOCH_MS + 100,
                                   .asked_ns = 1000000000};

    snowflake_init(&s);
    assert_false(snowflake_has(&s, 1000000000, 1));
    assert_false(snowflake_take(&s, 1000000000, 1, ids));
    snowflake_grant(&s, &range);
    assert_true(snowflake_take(&s, 1000000000, 4098, ids));
    assert_int_equal(ids[0], (INT64_C(100) << 22) | (5 << 12));
    assert_int_equal(ids[1], (INT64_C(100) << 22) | (5 << 12) | 1);
    assert_int_equal(ids[4095], (INT64_C(100) << 22) | (5 << 12) | 4095);
    assert_int_equal(ids[4096], (INT64_C(101) << 22) | (5 << 12)); /* the ms was used up */
    assert_int_equal(snowflake_unused_ms(&s), EPOCH_MS + 102);
    /* 2 ms pass. */
    assert_true(snowflake_take(&s, 1002000000, 1, ids));
    assert_int_equal(ids[0], (INT64_C(102) << 22) | (5 << 12));
    /* The clock is behind the range's end, the ids are not. */
    assert_true(snowflake_take(&s, 1900000000, 4095, ids));
    assert_int_equal(ids[4094], (INT64_C(102) << 22) | (5 << 12) | 4095);
    assert_false(snowflake_has(&s, 1900000000, 1));
    assert_false(snowflake_take(&s, 1900000000, 1, ids));
}

TEST(a_late_grant_takes_nothing_back)
{
    snowflake s;
    int64_t before[2], after[2];
    const snowflake_range old = {
        .worker = 5, .first_ms = EPOCH_MS + 100, .end_ms = EPOCH_MS + 200, .clock_ms = EPOCH_MS + 100, .asked_ns = 0};
    const snowflake_range other = {
        .worker = 6, .first_ms = EPOCH_MS + 100, .end_ms = EPOCH_MS + 200, .clock_ms = EPOCH_MS + 100, .asked_ns = 0};

    snowflake_init(&s);
    snowflake_grant(&s, &old);
    assert_true(snowflake_take(&s, 0, 2, before));
    snowflake_grant(&s, &old);
    assert_true(snowflake_take(&s, 0, 2, after));
    assert_int_equal(after[0], before[1] + 1); /* goes on within the ms */
    snowflake_grant(&s, &other);
    assert_true(snowflake_take(&s, 0, 1, before));
    assert_int_equal(before[0], (INT64_C(101) << 22) | (6 << 12)); /* another worker's: not within it */
    snowflake_grant(&s, &old);
    assert_true(snowflake_take(&s, 0, 1, after));
    assert_int_equal(after[0], (INT64_C(102) << 22) | (5 << 12));
}

TEST(ids_are_of_the_time)
{
    int64_t begun = clock_ms(); /* Redis' clock goes on, this server's is only moved */
    for (int i = 0; i < 5; i++) {
        int64_t step_ms = i < 3 ? 300 : 86400000;
        lks_decode_response parts = decode(next_snowflake());
        assert_in_range(parts.at_ms, begun - 1, clock_ms() + 1);
        assert_int_equal(parts.worker, 0);
        harness_advance_ms(h, step_ms);
        begun += step_ms;
    }
}

TEST(ten_thousand_at_once)
{
    const int64_t *ids = next_snowflakes(10000);
    int64_t span = decode(ids[9999]).at_ms - decode(ids[0]).at_ms;
    assert_int_equal(span, 2);
    assert_true(next_snowflake() > ids[9999]);
    assert_int_equal(next(LKS_ID_KIND_SNOWFLAKE, "", 0)->n_ids, 1);
}

/* ---- grants ------------------------------------------------------------------------ */

TEST(a_range_is_asked_for_once_a_second)
{
    long calls = store_calls();
    int64_t last = next_snowflake();
    for (int i = 0; i < 100; i++) {
        int64_t id = next_snowflake();
        assert_true(id > last);
        last = id;
    }
    assert_in_range(store_calls() - calls, 1, 2); /* 2 on a machine that needs a second for this */
    calls = store_calls();
    harness_advance_ms(h, RANGE_MS);
    assert_true(next_snowflake() > last);
    assert_int_equal(store_calls() - calls, 1);
}

TEST(each_server_has_a_worker)
{
    int64_t a = next_snowflake();
    harness_server(h, "B");
    assert_int_equal(worker_of(next_snowflake()), 1);
    harness_namespace(h, "other"); /* workers are the store's */
    harness_server(h, "C");
    assert_int_equal(worker_of(next_snowflake()), 2);
    harness_server(h, "harness");
    harness_advance_ms(h, RANGE_MS);
    assert_int_equal(worker_of(next_snowflake()), worker_of(a));
    harness_advance_ms(h, 86400000); /* nobody else wanted it */
    assert_int_equal(worker_of(next_snowflake()), worker_of(a));
}

TEST(a_worker_is_leased)
{
    int64_t a = next_snowflake();
    harness_server_ends(h, "harness");
    harness_advance_ms(h, LEASE_MS - 500);
    int64_t b = next_snowflake();
    assert_int_equal(worker_of(b), worker_of(a) + 1);
    harness_server(h, "C");
    harness_advance_ms(h, 600); /* a's is over, b's is not */
    int64_t c = next_snowflake();
    assert_int_equal(worker_of(c), worker_of(a));
    assert_true(c > b && b > a);
}

TEST(a_server_that_lost_its_worker_takes_another)
{
    int64_t a = next_snowflake();
    others_have(0, 0, clock_ms());
    int64_t same = next_snowflake(); /* of the range it has, which nobody else gets */
    assert_int_equal(worker_of(same), worker_of(a));
    harness_advance_ms(h, RANGE_MS);
    int64_t b = next_snowflake();
    assert_int_equal(worker_of(b), 1);
    assert_true(b > same);
}

TEST(calls_at_once_share_what_is_granted)
{
    enum { N = 20 };
    lks_next_request request = message(next_request, .kind = LKS_ID_KIND_SNOWFLAKE);
    const void *requests[N], *responses[N];
    lks_error errors[N];
    int64_t last = 0;

    for (int i = 0; i < N; i++)
        requests[i] = &request;
    ask_together(N, requests, responses, errors);
    for (int i = 0; i < N; i++) {
        const lks_next_response *response = responses[i];
        assert_non_null(response);
        assert_true(response->ids[0] > last);
        last = response->ids[0];
    }
    lks_decode_response parts = decode(last);
    assert_int_equal(parts.worker, 0);
    assert_true(parts.at_ms <= clock_ms()); /* no range was burnt */
    assert_string_equal(harness_redis(h, "HLEN %s", workers_key), "2");
}

TEST(all_workers_taken)
{
    others_have(0, 1023, clock_ms() - 1000);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_RESOURCE_EXHAUSTED, "kind: all 1024 workers");
    assert_in_range(err.retry_after_ms, 1, LEASE_MS - 1000);
    others_have(700, 700, clock_ms() - LEASE_MS);
    assert_int_equal(worker_of(next_snowflake()), 700);
    others_have(1023, 1023, clock_ms() - LEASE_MS);
    harness_server(h, "B");
    assert_int_equal(worker_of(next_snowflake()), 1023);
}

/* ---- the clock steps back ------------------------------------------------------------- */

TEST(a_running_server_goes_on)
{
    int64_t last = next_snowflakes(5000)[4999];
    harness_advance_ms(h, -3600000);
    for (int i = 0; i < 20; i++) {
        int64_t id = next_snowflake();
        assert_true(id > last);
        last = id;
        harness_advance_ms(h, 400);
    }
    /* Its ids stay where they were until the clock is there: no second of them a second. */
    assert_true(decode(last).at_ms < clock_ms() + 3600000);
}

static void primary_is(const char *generation)
{
    harness_redis(h, "FCALL id_generation_%s 1 ls:{meta}: 1 %s", functions_digest, generation);
}

/* What a primary granted and did not pass on is not granted again by the next one. */
TEST(another_primary_grants_nothing_before_all_that_may_be_lost_is_over)
{
    char field[16];

    primary_is("a/1");
    int64_t lost = next_snowflake();
    snprintf(field, sizeof field, "%d", worker_of(lost));
    harness_redis(h, "HDEL %s %s", workers_key, field);
    primary_is("b/2");
    harness_server(h, "other");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    assert_int_equal(err.code, LKS_UNAVAILABLE);
    harness_advance_ms(h, LEASE_MS);
    assert_true(snowflake_parts_of(next_snowflake()).at_ms > snowflake_parts_of(lost).at_ms + RANGE_MS + AHEAD_MS);
}

TEST(the_same_primary_goes_on_at_once)
{
    primary_is("a/1");
    next_snowflake();
    primary_is("a/1");
    harness_server(h, "other");
    next_snowflake();
}

/* What CLUSTER NODES says of the node that runs the functions. */
static void cluster_epoch(int epoch)
{
    harness_redis(h, "SET ls:test:myself %s",
                  epoch == 1 ? "id host myself - 0 0 1 connected" : "id host myself - 0 0 2 connected");
}

TEST(in_a_cluster_another_primary_is_known_by_the_grant_itself)
{
    char field[16];

    harness_alter(h, "local mine = myself()", "local mine = redis.call('GET', 'ls:test:myself')");
    cluster_epoch(1);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1)); /* nobody has noted which one it is */
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    harness_advance_ms(h, LEASE_MS);
    int64_t lost = next_snowflake();
    harness_server(h, "same");
    next_snowflake();
    snprintf(field, sizeof field, "%d", worker_of(lost));
    harness_redis(h, "HDEL %s %s", workers_key, field);
    cluster_epoch(2);
    harness_server(h, "other");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    assert_int_equal(err.retry_after_ms, LEASE_MS);
    harness_advance_ms(h, LEASE_MS);
    assert_true(snowflake_parts_of(next_snowflake()).at_ms > snowflake_parts_of(lost).at_ms + RANGE_MS + AHEAD_MS);
}

TEST(a_reassigned_worker_goes_on_behind)
{
    int64_t a = next_snowflake();
    int64_t end_ms = decode(a).at_ms + RANGE_MS;
    int64_t far_ms = clock_ms() + 3600000;
    others_have(1, 1023, far_ms);
    harness_advance_ms(h, -60000);
    harness_server(h, "B"); /* a lease from the future is no lease */
    int64_t b = next_snowflake();
    assert_int_equal(worker_of(b), worker_of(a));
    assert_true(decode(b).at_ms >= end_ms);
    harness_server(h, "C");
    int64_t c = next_snowflake();
    assert_int_equal(worker_of(c), 1);
    assert_true(decode(c).at_ms >= far_ms + RANGE_MS);
}

TEST(a_grant_that_was_not_heard_of)
{
    int64_t a = next_snowflake();
    int64_t end_ms = decode(a).at_ms + RANGE_MS;
    others_have(1, 1023, clock_ms() + 3600000);
    harness_advance_ms(h, LEASE_MS);
    harness_server(h, "B");
    harness_alter(h, "return {'OK', worker.n", "error('lost')\n  return {'OK', worker.n");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    assert_int_equal(err.code, LKS_INTERNAL);
    assert_int_equal(err.applied, LKS_APPLIED_MAYBE);
    harness_alter(h, "RANGE_MS = 1000", "RANGE_MS = 1000");
    harness_advance_ms(h, -60000);
    int64_t b = next_snowflake();
    assert_int_equal(worker_of(b), worker_of(a));
    assert_true(decode(b).at_ms >= end_ms);
}

/* The reply may still come: what it says must stay true. */
TEST(an_end_that_was_written_stays)
{
    harness_redis(h, "HSET %s floor 0", workers_key);
    int64_t end_ms = clock_ms() + RANGE_MS;
    harness_alter(h, "return {'OK', worker.n", "error('lost')\n  return {'OK', worker.n");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    harness_alter(h, "RANGE_MS = 1000", "RANGE_MS = 1000");
    harness_advance_ms(h, -60000);
    next_snowflake();
    const char *record = harness_redis(h, "HGET %s 0", workers_key);
    assert_true(strtoll(strchr(record, ' '), NULL, 10) >= end_ms);
}

TEST(a_worker_of_the_present_is_preferred)
{
    int64_t now = clock_ms();
    others_have(0, 9, now + 3600000); /* by a clock that was wrong */
    int64_t id = next_snowflake();
    assert_int_equal(worker_of(id), 10);
    assert_true(decode(id).at_ms <= clock_ms());
}

TEST(who_is_ahead_gets_a_range_a_second)
{
    harness_alter(h, "till = first + RANGE_MS", "till = first + 2"); /* 8192 ids */
    next_snowflake();
    harness_advance_ms(h, -60000);
    harness_advance_ms(h, RANGE_MS);
    int64_t last = next_snowflake();
    hold_clock_ms(RANGE_MS);
    const int64_t *ids = next_snowflakes(8000); /* what it has is its own, however old */
    assert_true(ids[0] > last);
    last = ids[7999];
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 8000));
    expect_refused(LKS_RESOURCE_EXHAUSTED, "kind: this server has made more");
    assert_in_range(err.retry_after_ms, 1, RANGE_MS);
    harness_advance_ms(h, RANGE_MS);
    assert_true(next_snowflakes(8000)[0] > last);
}

TEST(a_little_ahead_is_no_matter)
{
    int64_t last = next_snowflake();
    for (int i = 0; i < 3; i++) {
        hold_clock_ms(RANGE_MS);
        int64_t id = next_snowflake();
        assert_true(id > last);
        last = id;
    }
}

/* ---- a range that is used up ------------------------------------------------------------ */

TEST(a_range_that_is_used_up_is_followed)
{
    harness_alter(h, "RANGE_MS = 1000", "RANGE_MS = 5");
    long calls = store_calls();
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        const int64_t *ids = next_snowflakes(10000);
        assert_true(ids[0] > last);
        last = ids[9999];
    }
    assert_true(store_calls() - calls >= 3);
}

TEST(calls_at_once_that_use_up_a_range)
{
    lks_next_request request = message(next_request, .kind = LKS_ID_KIND_SNOWFLAKE, .count = 10000);
    const void *requests[3] = {&request, &request, &request}, *responses[3];
    lks_error errors[3];

    harness_alter(h, "RANGE_MS = 1000", "RANGE_MS = 5");
    ask_together(3, requests, responses, errors);
    assert_non_null(responses[0]);
    assert_non_null(responses[1]);
    assert_null(responses[2]); /* asks again, which calls sent together do not in a harness */
    assert_int_equal(errors[2].code, LKS_OK);
}

TEST(more_than_a_range_holds_is_refused)
{
    harness_alter(h, "RANGE_MS = 1000", "RANGE_MS = 2");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 10000));
    expect_refused(LKS_RESOURCE_EXHAUSTED, "kind: more ids");
    assert_int_equal(next(LKS_ID_KIND_SNOWFLAKE, "", 4096)->n_ids, 4096);
}

/* ---- a store that is new, or lost its data ----------------------------------------------- */

TEST_WITH(a_new_store_grants_nothing_for_a_lease, empty_store, NULL)
{
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    assert_int_equal(err.retry_after_ms, LEASE_MS);
    harness_advance_ms(h, LEASE_MS - 1000);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    assert_in_range(err.retry_after_ms, 1, 1000);
    harness_advance_ms(h, 1000);
    assert_non_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    /* The other kinds need not wait. */
    harness_redis(h, "DEL %s", workers_key);
    assert_non_null(next(LKS_ID_KIND_UUID_V7, "", 1));
    assert_non_null(next(LKS_ID_KIND_SEQUENCE, "s", 1));
}

TEST(after_a_loss_nothing_comes_twice)
{
    int64_t a = next_snowflakes(10000)[9999];
    harness_redis(h, "DEL %s", workers_key);
    assert_true(next_snowflake() > a); /* of the range it has */
    harness_server(h, "B");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_UNAVAILABLE, "kind: the store is new");
    harness_advance_ms(h, LEASE_MS);
    int64_t b = next_snowflake();
    assert_int_equal(worker_of(b), worker_of(a));
    assert_true(decode(b).at_ms >= decode(a).at_ms + RANGE_MS);
}

TEST(what_was_lost_stays_behind_when_the_clock_steps_back)
{
    int64_t a = next_snowflake();
    harness_redis(h, "DEL %s", workers_key);
    harness_server_ends(h, "harness");
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    harness_advance_ms(h, -60000); /* while it waits */
    int64_t b = next_snowflake();
    assert_true(decode(b).at_ms >= decode(a).at_ms + RANGE_MS);
    harness_advance_ms(h, 120000);
    next_snowflake();
    harness_server(h, "B"); /* on a worker that was never granted since */
    harness_advance_ms(h, -3600000);
    int64_t c = next_snowflake();
    assert_true(decode(c).at_ms >= decode(a).at_ms + RANGE_MS);
}

TEST(before_2024_and_after_2093_there_are_no_ids)
{
    int64_t back_ms = EPOCH_MS - clock_ms();
    harness_redis(h, "HSET %s floor 0", workers_key);
    harness_advance_ms(h, back_ms - 60000);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_OUT_OF_RANGE, "kind: ");
    harness_advance_ms(h, 120000);
    assert_true(decode(next_snowflake()).at_ms < EPOCH_MS + 120000);
    harness_advance_ms(h, INT64_C(1) << 41);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_OUT_OF_RANGE, "kind: ");
}

/* ---- foreign data ------------------------------------------------------------------------ */

TEST(foreign_data_is_left_alone)
{
    harness_redis(h, "HSET %s 0 junk", workers_key);
    const char *before = harness_snapshot(h);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_FAILED_PRECONDITION, "the store holds foreign data");
    assert_string_equal(harness_snapshot(h), before);
    harness_redis(h, "HSET %s floor soon", workers_key);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_FAILED_PRECONDITION, "the store holds foreign data");
    harness_redis(h, "SET %s text", workers_key);
    assert_null(next(LKS_ID_KIND_SNOWFLAKE, "", 1));
    expect_refused(LKS_FAILED_PRECONDITION, "the store holds foreign data");
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = started_store)
