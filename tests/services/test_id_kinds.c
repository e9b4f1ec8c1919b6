/* UUID_V7 and SEQUENCE, and what of a request is refused. */
#include "services/id_script.h"

#include <time.h>

#define MAX INT64_C(9007199254740991)

/* ---- UUID_V7 ------------------------------------------------------------------------ */

TEST_WITH(the_layout_of_rfc_9562, NULL, NULL)
{
    char text[ID_UUID_LEN + 1];

    /* Appendix A.6: 2022-02-22 14:22:22.000 -0500, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F. */
    uuid_format(UINT64_C(0x17F22E279B0) << 12 | 0xCC3, UINT64_C(0x18C4DC0C0C07398F) << 2, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    uuid_format((UINT64_C(1) << 60) - 1, UINT64_MAX, text);
    assert_string_equal(text, "ffffffff-ffff-7fff-bfff-ffffffffffff");
    uuid_format(0, 0, text);
    assert_string_equal(text, "00000000-0000-7000-8000-000000000000");
}

TEST_WITH(a_tick_is_the_time_or_the_next_one, NULL, NULL)
{
    const uint64_t second = UINT64_C(1000) << 12;

    assert_int_equal(uuid_tick(0, 1, 0), second);
    assert_int_equal(uuid_tick(0, 1, 999999), second + 4095);
    assert_int_equal(uuid_tick(0, 1, 1000000), second + 4096);
    assert_int_equal(uuid_tick(0, 1, 500000), second + 2048);
    assert_int_equal(uuid_tick(second, 1, 0), second + 1);           /* in the same one */
    assert_int_equal(uuid_tick(2 * second, 1, 0), 2 * second + 1);   /* the clock stepped back */
    assert_int_equal(uuid_tick(second + 4095, 1, 0), second + 4096); /* the ms is used up */
}

static int64_t real_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 19, *(char *const *)b + 19);
}

TEST(uuids_increase_and_are_random)
{
    enum { N = 10000 };
    char last[ID_UUID_LEN + 1] = "";
    unsigned long long ms = 0;

    long calls = store_calls();
    int64_t before = real_ms();
    for (int call = 0; call < 3; call++) {
        const lks_next_response *response = next(LKS_ID_KIND_UUID_V7, "", N);
        assert_non_null(response);
        assert_int_equal(response->n_uuids, N);
        assert_int_equal(response->order_scope, LKS_ORDER_SCOPE_SERVER);
        for (size_t i = 0; i < N; i++) {
            const char *text = response->uuids[i];
            if (strlen(text) != ID_UUID_LEN || strcmp(text, last) <= 0 || text[14] != '7' || !strchr("89ab", text[19]))
                fail_msg("%s after %s", text, last);
            memcpy(last, text, sizeof last);
        }
        /* The random parts are all different. */
        qsort(response->uuids, N, sizeof *response->uuids, by_text);
        for (size_t i = 1; i < N; i++)
            assert_true(by_text(&response->uuids[i - 1], &response->uuids[i]) < 0);
    }
    assert_int_equal(store_calls(), calls);
    char digits[13] = {0};
    memcpy(digits, last, 8);
    memcpy(digits + 8, last + 9, 4);
    ms = strtoull(digits, NULL, 16);
    assert_in_range(ms, before, real_ms() + 10); /* 30,000 take 7.3 ms of ticks at least */
}

/* ---- SEQUENCE ------------------------------------------------------------------------ */

TEST(a_sequence_counts)
{
    assert_int_equal(next_of("s"), 1);
    assert_int_equal(next_of("s"), 2);
    harness_server(h, "B");
    const lks_next_response *response = next(LKS_ID_KIND_SEQUENCE, "s", 10000);
    assert_int_equal(response->n_ids, 10000);
    assert_int_equal(response->order_scope, LKS_ORDER_SCOPE_GLOBAL);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(response->ids[i], 3 + i);
    harness_server(h, "harness");
    assert_int_equal(next_of("s"), 10003); /* in one order over all servers */
    assert_int_equal(next_of("t"), 1);
    harness_namespace(h, "other");
    assert_int_equal(next_of("s"), 1);
    harness_namespace(h, "default");
    assert_int_equal(next_of("s"), 10004);
    assert_string_equal(harness_redis(h, "GET ls:{default/s}:id:s"), "10004");
    assert_string_equal(harness_redis(h, "TTL ls:{default/s}:id:s"), "-1");
}

TEST(a_sequence_ends)
{
    harness_redis(h, "SET ls:{default/s}:id:s 9007199254740981");
    const lks_next_response *response = next(LKS_ID_KIND_SEQUENCE, "s", 10);
    assert_int_equal(response->ids[9], MAX);
    assert_null(next(LKS_ID_KIND_SEQUENCE, "s", 1));
    expect_refused(LKS_OUT_OF_RANGE, "name: ");
    harness_redis(h, "SET ls:{default/s}:id:s 9007199254740981");
    assert_null(next(LKS_ID_KIND_SEQUENCE, "s", 11));
    expect_refused(LKS_OUT_OF_RANGE, "name: ");
    assert_int_equal(next_of("s"), MAX - 9); /* a refusal takes nothing */
}

static int with_blocks(void **state)
{
    static const service_options options = {.sequence_block = 100};

    started_store(state);
    harness_service_options(h, &options);
    return 0;
}

TEST_WITH(a_block_is_taken_ahead, with_blocks, NULL)
{
    long calls = store_calls();
    const lks_next_response *response = next(LKS_ID_KIND_SEQUENCE, "s", 10);
    assert_int_equal(response->order_scope, LKS_ORDER_SCOPE_SERVER);
    for (int i = 0; i < 10; i++)
        assert_int_equal(response->ids[i], 1 + i);
    for (int i = 11; i <= 100; i++)
        assert_int_equal(next_of("s"), i);
    assert_int_equal(store_calls() - calls, 1);
    harness_server(h, "B");
    assert_int_equal(next_of("s"), 101);
    assert_int_equal(next_of("t"), 1);
    harness_namespace(h, "other");
    assert_int_equal(next_of("s"), 1);
    harness_namespace(h, "default");
    harness_server(h, "harness");
    assert_int_equal(next_of("s"), 201); /* what B has not given, B may */
    harness_server(h, "B");
    assert_int_equal(next_of("s"), 102);
    harness_server_ends(h, "B");
    assert_int_equal(next_of("s"), 301); /* a restart leaves a gap */
}

TEST_WITH(more_than_a_block, with_blocks, NULL)
{
    assert_int_equal(next_of("s"), 1);
    const lks_next_response *response = next(LKS_ID_KIND_SEQUENCE, "s", 250);
    for (int i = 0; i < 250; i++) /* nobody came between: on from where it was */
        assert_int_equal(response->ids[i], 2 + i);
    assert_int_equal(next_of("s"), 252);
    harness_server(h, "B");
    assert_int_equal(next_of("s"), 351);
    harness_server(h, "harness");
    response = next(LKS_ID_KIND_SEQUENCE, "s", 100); /* 99 are left */
    for (int i = 0; i < 100; i++)
        assert_int_equal(response->ids[i], 451 + i);
}

TEST_WITH(blocks_asked_for_at_once, with_blocks, NULL)
{
    enum { N = 20 };
    lks_next_request request = message(next_request, .kind = LKS_ID_KIND_SEQUENCE, .name = "s");
    const void *requests[N], *responses[N];
    lks_error errors[N];

    for (int i = 0; i < N; i++)
        requests[i] = &request;
    ask_together(N, requests, responses, errors);
    for (int i = 0; i < N; i++)
        assert_int_equal(((const lks_next_response *)responses[i])->ids[0], 1 + i);
    assert_int_equal(next_of("s"), N + 1); /* no block was lost */
}

static const lks_next_response *begin(harness_waiting *call)
{
    lks_error error;

    harness_begin(h, call);
    const lks_next_response *response = harness_answer(call, &error);
    if (!response)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    return response;
}

/* Both find enough in the block when they come; the first leaves too little. */
TEST_WITH(calls_that_queue_get_no_number_twice, with_blocks, NULL)
{
    lks_next_request request = message(next_request, .kind = LKS_ID_KIND_SEQUENCE, .name = "s", .count = 60);

    assert_int_equal(next_of("s"), 1);
    harness_waiting *first = harness_plan(h, &id_service, "harness", "Next", &request);
    harness_waiting *second = harness_plan(h, &id_service, "harness", "Next", &request);
    assert_int_equal(begin(first)->ids[59], 61);
    assert_int_equal(begin(second)->ids[0], 62);
    harness_server(h, "B");
    assert_int_equal(next_of("s"), 201);
}

TEST_WITH(a_call_that_queues_may_find_its_block_gone, with_blocks, NULL)
{
    enum { KEPT = 512 };
    lks_next_request request = message(next_request, .kind = LKS_ID_KIND_SEQUENCE, .name = "s");
    char name[8];

    assert_int_equal(next_of("s"), 1);
    harness_waiting *call = harness_plan(h, &id_service, "harness", "Next", &request);
    for (int i = 0; i < KEPT; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(next_of(name), 1);
    }
    assert_int_equal(begin(call)->ids[0], 101);
}

TEST_WITH(only_so_many_sequences_are_kept, with_blocks, NULL)
{
    enum { KEPT = 512 }; /* id_sequence.c: BLOCKS_MAX */
    static char names[KEPT][8];

    for (int i = 0; i < KEPT; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        assert_int_equal(next_of(names[i]), 1);
    }
    assert_int_equal(next_of("n0"), 2);
    assert_int_equal(next_of("one more"), 1);
    assert_int_equal(next_of("n0"), 3);
    assert_int_equal(next_of("n1"), 101); /* was not asked for the longest: a gap */
    assert_int_equal(next_of("n511"), 2);
}

/* ---- input ---------------------------------------------------------------------------- */

TEST(bad_input_is_named)
{
    static char longest[129], too_long[130];
    static const struct {
        lks_id_kind kind;
        const char *name;
        int32_t count;
        const char *field;
    } bad[] = {
        {LKS_ID_KIND_UNSPECIFIED, "", 1, "kind: "},    {(lks_id_kind)4, "", 1, "kind: "},
        {LKS_ID_KIND_SNOWFLAKE, "", -1, "count: "},    {LKS_ID_KIND_SNOWFLAKE, "", 10001, "count: "},
        {LKS_ID_KIND_UUID_V7, "", 10001, "count: "},   {LKS_ID_KIND_UUID_V7, "", INT32_MIN, "count: "},
        {LKS_ID_KIND_SEQUENCE, "s", 10001, "count: "}, {LKS_ID_KIND_SEQUENCE, "", 1, "name: "},
        {LKS_ID_KIND_SEQUENCE, too_long, 1, "name: "}, {LKS_ID_KIND_SNOWFLAKE, "s", 1, "name: "},
        {LKS_ID_KIND_UUID_V7, "s", 1, "name: "},
    };
    static const int64_t ids[] = {0, -1, INT64_MIN};

    memset(longest, 'x', sizeof longest - 1);
    memset(too_long, 'x', sizeof too_long - 1);
    const char *before = harness_snapshot(h);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (next(bad[i].kind, bad[i].name, bad[i].count))
            fail_msg("request %zu was taken", i);
        expect_refused(LKS_INVALID_ARGUMENT, bad[i].field);
    }
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        decode(ids[i]);
        expect_refused(LKS_INVALID_ARGUMENT, "id: ");
    }
    assert_string_equal(harness_snapshot(h), before);
    assert_int_equal(next_of(longest), 1);
}

TEST(a_foreign_sequence_is_left_alone)
{
    harness_redis(h, "SET ls:{default/s}:id:s text");
    harness_redis(h, "RPUSH ls:{default/t}:id:s text");
    const char *before = harness_snapshot(h);
    assert_null(next(LKS_ID_KIND_SEQUENCE, "s", 1));
    expect_refused(LKS_FAILED_PRECONDITION, "the store holds foreign data");
    assert_null(next(LKS_ID_KIND_SEQUENCE, "t", 1));
    expect_refused(LKS_FAILED_PRECONDITION, "the store holds foreign data");
    assert_string_equal(harness_snapshot(h), before);
}

TEST_MAIN(.setup_all = script_open, .teardown_all = script_close, .setup = started_store)
