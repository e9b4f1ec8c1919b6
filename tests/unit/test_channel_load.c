/* Many calls, many channels: every call ends once and nothing is left over. fault/test_client_links.c has many threads. */
#include <malloc.h>
#include <unistd.h>

#include "support/process.h"
#include "unit/channel_fixture.h"
#include "test.h"

enum { ASYNC_CALLS = 10000 };

/* Most of them wait in the channel over libnng, where waiting calls share the room of the others. */
/* promise CH2 */
TEST(ten_thousand_calls_wait_on_one_channel)
{
    uint32_t at_server = strcmp(server_scheme(), "tcp") == 0 ? ASYNC_CALLS : 192;
    struct witness *calls = calloc(ASYNC_CALLS, sizeof *calls);

    hold(at_server);
    for (size_t i = 0; i < ASYNC_CALLS; i++)
        start_waiting(&server_write, "wait", &calls[i]);
    assert_true(server_await(server, at_server));
    run_ok(&server_write, "release");
    server_release(server);
    assert_ok(calls, ASYNC_CALLS);
    assert_int_equal(server_seen(server), ASYNC_CALLS + 1);
    free(calls);
}

/* The server has answered calls, one at a time, for long enough to know the pace, and now holds one. */
/* promise K14 */
TEST(a_call_that_would_queue_for_too_long_is_refused_at_once)
{
    enum { ANSWERED = 3000, QUEUED = 1000 };
    const lks_call_options brief = {.timeout_ms = 1}, insists = {.timeout_ms = 1, .insist = true};
    struct witness *calls = calloc(ANSWERED + QUEUED, sizeof *calls), late;
    lks_error error;

    reopen((lks_channel_options){.in_flight_max = 1});
    server_add_fault(server, (server_fault){SERVER_HOLDS, ANSWERED, 1});
    start_many(&server_plain, "a", calls, ANSWERED + QUEUED);
    assert_ok(calls, ANSWERED);
    run(&server_write, "late", &brief, NULL, &error);
    assert_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    start(&server_write, "insists", &insists, &late);
    assert_ended(&late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    server_release(server);
    assert_ok(calls + ANSWERED, QUEUED);
    free(calls);
}

TEST(closed_channel_leaks_nothing)
{
    enum { WARM_UP = 20, ROUNDS = 200, BYTES_A_ROUND = 1024 }; /* the server keeps a record of each call */
    size_t descriptors = 0, threads = 0, bytes = 0;

    for (int i = 0; i < WARM_UP + ROUNDS; i++) {
        if (i == WARM_UP) { /* libnng has its threads and tables by now */
            descriptors = process_fd_count(getpid());
            threads = process_thread_count(getpid());
            bytes = mallinfo2().uordblks;
        }
        reopen((lks_channel_options){0});
        run_ok(&server_write, "a");
    }
    assert_in_range(process_fd_count(getpid()), 1, descriptors + 1); /* the server may close its last one late */
    assert_in_range(process_thread_count(getpid()), 1, threads + 1); /* the one that closes sockets may still end */
    assert_in_range(mallinfo2().uordblks, 0, bytes + ROUNDS * BYTES_A_ROUND);
}

TEST_MAIN(.setup = set_up, .teardown = tear_down)
