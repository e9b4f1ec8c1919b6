/* One channel on a real server, as it comes: ten thousand Acquires wait on it, and the
 * Release that they wait for goes out past them. */

#include <pthread.h>
#include <signal.h>

#include <lockstock/lockstock.h>

#include "support/server_fixture.h"
#include "test.h"

enum { WAITS = 10000, AT_ONCE = 20000, SMALL = 64, WAIT_MS = 600000 };

/* Written on the completion thread. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t granted, ended, refused_by_store;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_answer(void *arg, lks_code code, const lks_acquire_response *response, const lks_error *error)
{
    (void)arg;
    pthread_mutex_lock(&seen.lock);
    seen.refused_by_store += code == LKS_RESOURCE_EXHAUSTED && strstr(error->message, "calls to the store");
    seen.granted += code == LKS_OK && response->outcome == LKS_ACQUIRE_OUTCOME_ACQUIRED;
    seen.ended++;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static lks_acquire_request acquire_request(char *name, char *token, int64_t wait_ms)
{
    static lks_target target, *targets[] = {&target};
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;

    target = (lks_target)LKS_TARGET_INIT;
    target.name = name;
    target.mode = LKS_LOCK_MODE_EXCLUSIVE;
    request.group = name;
    request.n_targets = 1;
    request.targets = targets;
    request.token = token;
    request.lease_ms = WAIT_MS;
    request.wait_ms = wait_ms;
    return request;
}

TEST(test_a_release_goes_out_past_thousands_of_waits)
{
    char holder[] = "the-holder-of-the-door", other[] = "the-holder-of-the-gate", token[32];
    server_fixture *server = server_fixture_start(NULL);
    lks_release_request release = LKS_RELEASE_REQUEST_INIT;
    lks_acquire_request request;
    lks_channel *channel = NULL;
    lks_error error;

    assert_non_null(server);
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, NULL), LKS_OK);
    request = acquire_request("door", holder, 0);
    assert_int_equal(lks_lock_acquire(channel, &request, NULL, NULL, NULL), LKS_OK);
    for (int i = 0; i < WAITS; i++) {
        snprintf(token, sizeof token, "waits-for-the-door-%06d", i);
        request = acquire_request("door", token, WAIT_MS);
        assert_int_equal(lks_lock_acquire_start(channel, &request, NULL, on_answer, NULL, NULL, NULL), LKS_OK);
    }
    /* Whoever asks for something that is free gets it, waiting or not. */
    request = acquire_request("gate", other, WAIT_MS);
    if (lks_lock_acquire(channel, &request, NULL, NULL, &error) != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    release.group = "door";
    release.token = holder;
    if (lks_lock_release(channel, &release, NULL, NULL, &error) != LKS_OK)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
    pthread_mutex_lock(&seen.lock);
    while (seen.granted == 0 && seen.ended == 0)
        pthread_cond_wait(&seen.changed, &seen.lock);
    assert_int_equal(seen.ended, seen.granted);
    assert_int_equal(seen.granted, 1);
    pthread_mutex_unlock(&seen.lock);
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    assert_int_equal(seen.ended, WAITS);
    server_fixture_free(server);
}

/* The server refuses it without the store, after it has read all calls that wait and were sent before it. A slow machine refuses
 * it because calls queue for too long. */
static void wait_until_read(lks_channel *channel)
{
    lks_acquire_request nothing = LKS_ACQUIRE_REQUEST_INIT;
    lks_error error;

    nothing.wait_ms = WAIT_MS;
    lks_lock_acquire(channel, &nothing, NULL, NULL, &error);
    if (error.code != LKS_INVALID_ARGUMENT && error.reason != LKS_REASON_TOO_MANY_CALLS)
        fail_msg("%s: %s", lks_code_name(error.code), error.message);
}

/* While Redis stands still all that the server may run is under way to it. */
/* promise T10 */
TEST(test_the_store_takes_what_the_server_may_run)
{
    static const char *const args[] = {"--in-flight", "65536", "--in-flight-per-connection", "65536",
                                       "--waiting",   "65536", "--waiting-per-connection",   "65536",
                                       NULL};
    server_fixture *server = server_fixture_start(&(server_fixture_options){.args = args});
    char name[32], token[32];
    lks_channel *channel = NULL;

    assert_non_null(server);
    seen.granted = seen.ended = 0;
    assert_int_equal(lks_channel_open(server_fixture_url(server), NULL, &channel, NULL), LKS_OK);
    for (int i = 0; i < SMALL; i++) { /* until its answers are known to be small, a call takes the room of several */
        snprintf(name, sizeof name, "gate-%d", i);
        lks_acquire_request request = acquire_request(name, "comes-to-the-gate-000001", 0);
        lks_lock_acquire(channel, &request, NULL, NULL, NULL);
    }
    wait_until_read(channel);
    kill(server_fixture_redis_pid(server), SIGSTOP);
    for (int i = 0; i < AT_ONCE; i++) {
        snprintf(name, sizeof name, "door-%05d", i);
        snprintf(token, sizeof token, "comes-to-the-door-%06d", i);
        lks_acquire_request request = acquire_request(name, token, WAIT_MS);
        assert_int_equal(lks_lock_acquire_start(channel, &request, NULL, on_answer, NULL, NULL, NULL), LKS_OK);
    }
    wait_until_read(channel);
    kill(server_fixture_redis_pid(server), SIGCONT);
    pthread_mutex_lock(&seen.lock);
    while (seen.ended < AT_ONCE)
        pthread_cond_wait(&seen.changed, &seen.lock);
    assert_int_equal(seen.refused_by_store, 0); /* on a slow machine some have queued for too long */
    pthread_mutex_unlock(&seen.lock);
    assert_int_equal(lks_channel_close(channel), LKS_OK);
    server_fixture_free(server);
}

TEST_MAIN()
