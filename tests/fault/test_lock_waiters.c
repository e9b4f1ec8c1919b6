/* Many waiters on one hot lock over two servers; then, while they wait, a third of
 * the clients cancel, a third are killed, and one server is killed: everyone who is
 * left gets the lock, one at a time, and nothing is left of the queue. */

#include <signal.h>

#include <lockstock/v1/lock.lks_client.h>

#include "fault/waiting_register.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"
#include "test.h"

enum { CLIENTS = 15, LIMIT_MS = 240000 };

static char token[] = "the-holder-of-the-hot-lock";

static lks_channel *channel_of(const char *urls)
{
    lks_channel *channel = NULL;
    assert_int_equal(lks_channel_open(urls, NULL, &channel, NULL), LKS_OK);
    return channel;
}

static void hold(lks_channel *channel)
{
    lks_target target = LKS_TARGET_INIT;
    lks_target *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_acquire_response *response = NULL;

    target.name = "hot";
    request.targets = targets;
    request.n_targets = 1;
    request.token = token;
    request.lease_ms = 600000;
    assert_int_equal(lks_lock_acquire(channel, &request, NULL, &response, NULL), LKS_OK);
    assert_int_equal(response->outcome, LKS_ACQUIRE_OUTCOME_ACQUIRED);
    lks_acquire_response_free(response);
}

static void release(lks_channel *channel)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 60000};
    lks_release_response *response = NULL;

    request.group = "hot";
    request.token = token;
    assert_int_equal(lks_lock_release(channel, &request, &options, &response, NULL), LKS_OK);
    assert_int_equal(response->outcome, LKS_RELEASE_OUTCOME_RELEASED);
    lks_release_response_free(response);
}

static int64_t waiters_of(lks_channel *channel)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    const lks_call_options options = {.timeout_ms = 60000};
    lks_inspect_response *response = NULL;

    request.name = "hot";
    assert_int_equal(lks_lock_inspect(channel, &request, &options, &response, NULL), LKS_OK);
    int64_t n = response->waiters;
    lks_inspect_response_free(response);
    return n;
}

/* Waits until `n` wait, no more and no fewer. */
static void until_waiting(lks_channel *channel, int64_t n)
{
    long long end = process_now_ms() + LIMIT_MS;
    int64_t now;

    while ((now = waiters_of(channel)) != n && process_now_ms() < end)
        process_pause();
    assert_int_equal(now, n);
}

/* The keys of the group that match, as the reply counts them. */
static void expect_no_keys(redis_fixture *redis, const char *pattern)
{
    char command[128];
    snprintf(command, sizeof command, "KEYS ls:{default/hot}:%s", pattern);
    char *reply = redis_fixture_command(redis, command);
    assert_non_null(reply);
    assert_string_equal(reply, "*0\r\n");
    free(reply);
}

/* ---- two servers on one Redis, one lock that is held, and clients that wait ---- */

typedef struct fixture {
    redis_fixture *redis;
    server_fixture *servers[2];
    process *clients[CLIENTS];
    size_t each; /* waiting calls of a client */
    waiting_register *shared;
    lks_channel *channel;
} fixture;

static int setup(void **state)
{
    static const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    fixture *f = calloc(1, sizeof *f);
    char path[256];

    *state = f;
    f->each = counts_of(20, 67);
    f->redis = redis_fixture_start(NULL);
    if (!f->redis)
        return -1;
    for (int i = 0; i < 2; i++) {
        f->servers[i] =
            server_fixture_start(&(server_fixture_options){.store = redis_fixture_url(f->redis), .args = unsafe});
        if (!f->servers[i])
            return -1;
    }
    snprintf(path, sizeof path, "%s/register", redis_fixture_dir(f->redis));
    f->shared = waiting_register_map(path);
    return f->shared ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;

    lks_channel_close(f->channel);
    for (int i = 0; i < CLIENTS; i++)
        process_free(f->clients[i]);
    for (int i = 0; i < 2; i++)
        server_fixture_free(f->servers[i]);
    redis_fixture_free(f->redis);
    if (f->shared)
        munmap(f->shared, sizeof *f->shared);
    free(f);
    return 0;
}

/* Holds the lock and has all clients queue up for it, half at each server. */
static void queue_up(fixture *f)
{
    char path[256], urls[2][160], count[16], id[16];

    for (int i = 0; i < 2; i++)
        snprintf(urls[i], sizeof urls[i], "%s,%s", server_fixture_url(f->servers[i]),
                 server_fixture_url(f->servers[1 - i]));
    snprintf(path, sizeof path, "%s/register", redis_fixture_dir(f->redis));
    snprintf(count, sizeof count, "%zu", f->each);
    f->channel = channel_of(urls[0]);
    hold(f->channel);
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(id, sizeof id, "%d", i);
        const char *const argv[] = {WAIT_FOR_LOCK_PATH, urls[i % 2], path, id, count, NULL};
        f->clients[i] = process_spawn(argv, NULL);
        assert_non_null(f->clients[i]);
    }
    until_waiting(f->channel, (int64_t)(CLIENTS * f->each));
}

/* Waits for a client's end; how many it was granted, the others it cancelled. */
static size_t granted_to(fixture *f, int i, size_t *cancelled)
{
    char line[256];
    size_t got;

    if (!process_exited_with(f->clients[i], 0, LIMIT_MS))
        fail_msg("client %d is stuck or failed; %d of all are granted", i, atomic_load(&f->shared->granted));
    assert_true(process_wait_line(f->clients[i], "done", line, sizeof line, LIMIT_MS));
    assert_int_equal(sscanf(strstr(line, "done"), "done %zu %zu", &got, cancelled), 2);
    assert_int_equal(got + *cancelled, f->each);
    return got;
}

static void expect_one_at_a_time(fixture *f, size_t granted)
{
    assert_int_equal(atomic_load(&f->shared->granted), granted);
    assert_int_equal(atomic_load(&f->shared->overlaps), 0);
    assert_int_equal(atomic_load(&f->shared->fences_back), 0);
    until_waiting(f->channel, 0);
    expect_no_keys(f->redis, "lock:w*");
    expect_no_keys(f->redis, "lock:q*");
    expect_no_keys(f->redis, "lock:s*");
}

/* ---- tests -------------------------------------------------------------------- */

TEST(each_waiter_that_is_left_gets_the_lock_once)
{
    fixture *f = *state;
    size_t expected = 0, cancelled;

    queue_up(f);
    /* The first third cancel some, the second third die, and one server dies. */
    for (int i = 0; i < CLIENTS / 3; i++)
        process_signal(f->clients[i], SIGUSR1);
    for (int i = CLIENTS / 3; i < 2 * CLIENTS / 3; i++)
        process_kill(f->clients[i]);
    server_fixture_kill(f->servers[1]);
    release(f->channel);

    for (int i = 0; i < CLIENTS / 3; i++) {
        expected += granted_to(f, i, &cancelled);
        assert_true(cancelled > 0);
    }
    for (int i = 2 * CLIENTS / 3; i < CLIENTS; i++) {
        expected += granted_to(f, i, &cancelled);
        assert_int_equal(cancelled, 0);
    }
    expect_one_at_a_time(f, expected);
}

/* promise W14 */
TEST(a_server_that_stops_sends_its_waiters_to_another)
{
    fixture *f = *state;
    size_t cancelled;

    queue_up(f);
    assert_true(server_fixture_stop(f->servers[1], LIMIT_MS));
    until_waiting(f->channel, (int64_t)(CLIENTS * f->each));
    release(f->channel);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(granted_to(f, i, &cancelled), f->each);
    expect_one_at_a_time(f, CLIENTS * f->each);
}

/* Commands that Redis has carried out; asking is one itself. */
static long long commands(fixture *f)
{
    char *info = redis_fixture_command(f->redis, "INFO stats");
    assert_non_null(info);
    const char *at = strstr(info, "total_commands_processed:");
    assert_non_null(at);
    long long n = strtoll(at + strlen("total_commands_processed:"), NULL, 10);
    free(info);
    return n;
}

/* Time itself is under test: a waiter that polls would do so within a second. Each second a server sends eleven commands, however
 * many callers wait: three ask for the mark of the store, three probe it, five are its note. */
TEST(waiting_costs_no_command_a_waiter)
{
    fixture *f = *state;

    queue_up(f);
    long long before = commands(f), start = process_now_ms(), end = start + 1000;
    while (process_now_ms() < end)
        process_pause();
    long long looks = 2 * (1 + (process_now_ms() - start) / 1000);
    assert_in_range(commands(f) - before, 1, 1 + (3 + 3 + 5) * looks);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
