/* Many waiters on one hot lock over two servers; then, while they wait, a third of
 * the clients cancel, a third are killed, and one server is killed: everyone who is
 * left gets the lock, one at a time, and nothing is left of the queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstock/v1/lock.lks_client.h>

#include "fault/waiting_register.h"
#include "support/counts.h"
#include "support/redis_fixture.h"
#include "support/server_fixture.h"

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

static void everyone_left_gets_the_lock_once(void **state)
{
    size_t each = counts_of(20, 67);
    redis_fixture *redis = redis_fixture_start(NULL);
    const char *const unsafe[] = {"--allow-unsafe-store", NULL};
    server_fixture *servers[2];
    process *clients[CLIENTS];
    char path[256], urls[2][160], count[16], id[16], line[256];
    int granted = 0, expected = 0;
    (void)state;

    assert_non_null(redis);
    for (int i = 0; i < 2; i++) {
        servers[i] = server_fixture_start(&(server_fixture_options){
            .store = redis_fixture_url(redis), .args = unsafe, .peers_die = true});
        assert_non_null(servers[i]);
    }
    for (int i = 0; i < 2; i++)
        snprintf(urls[i], sizeof urls[i], "%s,%s", server_fixture_url(servers[i]), server_fixture_url(servers[1 - i]));
    snprintf(path, sizeof path, "%s/register", redis_fixture_dir(redis));
    snprintf(count, sizeof count, "%zu", each);
    waiting_register *shared = waiting_register_map(path);
    assert_non_null(shared);

    lks_channel *channel = channel_of(urls[0]);
    hold(channel);
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(id, sizeof id, "%d", i);
        const char *const argv[] = {WAIT_FOR_LOCK_PATH, urls[i % 2], path, id, count, NULL};
        clients[i] = process_spawn(argv, NULL);
        assert_non_null(clients[i]);
    }
    until_waiting(channel, (int64_t)(CLIENTS * each));

    /* The first third cancel some, the second third die, and one server dies. */
    for (int i = 0; i < CLIENTS / 3; i++)
        process_signal(clients[i], SIGUSR1);
    for (int i = CLIENTS / 3; i < 2 * CLIENTS / 3; i++)
        process_kill(clients[i]);
    server_fixture_kill(servers[1]);
    release(channel);

    for (int i = 0; i < CLIENTS; i++) {
        int got, cancelled;
        if (i >= CLIENTS / 3 && i < 2 * CLIENTS / 3)
            continue;
        if (!process_exited_with(clients[i], 0, LIMIT_MS))
            fail_msg("client %d is stuck or failed; %d of them are granted", i, atomic_load(&shared->granted));
        assert_true(process_wait_line(clients[i], "done", line, sizeof line, 1000));
        assert_int_equal(sscanf(strstr(line, "done"), "done %d %d", &got, &cancelled), 2);
        assert_int_equal(got + cancelled, each);
        if (i >= CLIENTS / 3)
            assert_int_equal(cancelled, 0);
        expected += got;
    }
    granted = atomic_load(&shared->granted);
    assert_int_equal(granted, expected);
    assert_int_equal(atomic_load(&shared->overlaps), 0);
    assert_int_equal(atomic_load(&shared->fences_back), 0);
    until_waiting(channel, 0);
    expect_no_keys(redis, "lock:w*");
    expect_no_keys(redis, "lock:q*");
    print_message("%d of %zu were granted, the rest cancelled or died\n", granted, CLIENTS * each);

    lks_channel_close(channel);
    for (int i = 0; i < CLIENTS; i++)
        process_free(clients[i]);
    for (int i = 0; i < 2; i++)
        server_fixture_free(servers[i]);
    redis_fixture_free(redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everyone_left_gets_the_lock_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
