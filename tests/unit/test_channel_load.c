/* Many threads, many calls, many channels: every call ends once and nothing is left
 * over. */
#include <dirent.h>
#include <malloc.h>

#include "unit/channel_fixture.h"
#include "test.h"

enum { THREADS = 64, CALLS_A_THREAD = 100, ASYNC_CALLS = 10000 };

struct caller {
    pthread_t thread;
    lks_channel *channel;
    size_t number, right;
};

static void *call_and_call(void *arg)
{
    struct caller *caller = arg;

    for (size_t i = 0; i < CALLS_A_THREAD; i++) {
        ping_response *response = NULL;
        char id[32];

        snprintf(id, sizeof id, "%zu-%zu", caller->number, i);
        if (run(caller->channel, &server_write, id, NULL, &response, NULL) == LKS_OK)
            caller->right += strcmp(response->id, id) == 0 && response->before == 0;
        if (response)
            lks_message_free(&response->base);
    }
    return NULL;
}

TEST(many_threads_share_a_channel)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    static struct caller callers[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.channel = channel, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_and_call, &callers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].right, CALLS_A_THREAD);
    }
    assert_int_equal(server_seen(server), THREADS * CALLS_A_THREAD);
    lks_channel_close(channel);
    server_stop(server);
}

TEST(thousands_of_calls_at_once)
{
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness *calls = calloc(ASYNC_CALLS, sizeof *calls);
    char id[32];
    for (size_t i = 0; i < ASYNC_CALLS; i++) {
        snprintf(id, sizeof id, "%zu", i);
        start(channel, &server_write, id, NULL, &calls[i]);
    }
    for (size_t i = 0; i < ASYNC_CALLS; i++) {
        snprintf(id, sizeof id, "%zu", i);
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
        assert_string_equal(calls[i].id, id);
    }
    assert_int_equal(server_seen(server), ASYNC_CALLS);
    lks_channel_close(channel);
    server_stop(server);
    free(calls);
}

/* Calls that wait for something at the server never take the room of what it may be. Over
 * libnng most of them wait here. */
/* promise CH2 */
TEST(ten_thousand_calls_wait_on_one_channel)
{
    bool over_nng = strcmp(server_scheme(), "tcp") != 0;
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
    struct witness *calls = calloc(ASYNC_CALLS, sizeof *calls);
    ping_request waiting = ping("wait");
    waiting.wait_ms = LONG_MS;
    server_add_fault(server, (server_fault){SERVER_HOLDS, 0, over_nng ? 192 : ASYNC_CALLS});
    for (size_t i = 0; i < ASYNC_CALLS; i++)
        assert_int_equal(
            lks_call_start(channel, &server_write, &waiting.base, NULL, see, NULL, &calls[i], &calls[i].call, NULL),
            LKS_OK);
    assert_true(server_await(server, over_nng ? 192 : ASYNC_CALLS));
    assert_int_equal(run(channel, &server_write, "release", NULL, NULL, NULL), LKS_OK);
    server_release(server);
    for (size_t i = 0; i < ASYNC_CALLS; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(server_seen(server), ASYNC_CALLS + 1);
    lks_channel_close(channel);
    server_stop(server);
    free(calls);
}

/* The server has answered calls, one at a time, for long enough to know the pace, and now holds one. */
/* promise K14 */
TEST(a_call_that_would_queue_for_too_long_is_refused_at_once)
{
    enum { ANSWERED = 3000, QUEUED = 1000 };
    struct server *server = server_start(0);
    lks_channel *channel = open_channel(server_url(server), (lks_channel_options){.in_flight_max = 1});
    struct witness *calls = calloc(ANSWERED + QUEUED, sizeof *calls), late;
    const lks_call_options brief = {.timeout_ms = 1}, insists = {.timeout_ms = 1, .insist = true};
    ping_request request = ping("late");
    lks_error error;

    server_add_fault(server, (server_fault){SERVER_HOLDS, ANSWERED, 1});
    for (size_t i = 0; i < ANSWERED + QUEUED; i++)
        start(channel, &server_write, "a", NULL, &calls[i]);
    for (size_t i = 0; i < ANSWERED; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    assert_int_equal(lks_call_start(channel, &server_write, &request.base, &brief, see, NULL, &late, NULL, &error),
                     LKS_RESOURCE_EXHAUSTED);
    assert_error(&error, LKS_RESOURCE_EXHAUSTED, LKS_APPLIED_NO);
    assert_int_equal(error.reason, LKS_REASON_TOO_MANY_CALLS);
    start(channel, &server_write, "insists", &insists, &late);
    assert_ended(&late, LKS_DEADLINE_EXCEEDED, LKS_APPLIED_NO);
    server_release(server);
    for (size_t i = ANSWERED; i < ANSWERED + QUEUED; i++)
        assert_ended(&calls[i], LKS_OK, LKS_APPLIED_UNSPECIFIED);
    lks_channel_close(channel);
    server_stop(server);
    free(calls);
}

static size_t entries_of(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

TEST(nothing_is_left_of_a_closed_channel)
{
    enum { WARM_UP = 20, ROUNDS = 200, BYTES_A_ROUND = 1024 }; /* the server keeps a record of each call */
    struct server *server = server_start(0);
    size_t descriptors = 0, threads = 0, bytes = 0;
    for (int i = 0; i < WARM_UP + ROUNDS; i++) {
        if (i == WARM_UP) { /* libnng has its threads and tables by now */
            descriptors = entries_of("/proc/self/fd");
            threads = entries_of("/proc/self/task");
            bytes = mallinfo2().uordblks;
        }
        lks_channel *channel = open_channel(server_url(server), (lks_channel_options){0});
        assert_int_equal(run(channel, &server_write, "a", NULL, NULL, NULL), LKS_OK);
        assert_int_equal(lks_channel_close(channel), LKS_OK);
    }
    assert_in_range(entries_of("/proc/self/fd"), 1, descriptors + 1); /* the server may close its last one late */
    assert_in_range(entries_of("/proc/self/task"), 1, threads + 1);   /* the one that closes sockets may still end */
    assert_in_range(mallinfo2().uordblks, 0, bytes + ROUNDS * BYTES_A_ROUND);
    server_stop(server);
}

TEST_MAIN()
