/* Mutexes on a real lockstockd. tests/unit/test_mutex.c has read-write locks and semaphores. */

#include <pthread.h>
#include <stdatomic.h>

#include <lockstock/lockstock.h>

#include "support/counts.h"
#include "support/server_fixture.h"
#include "test.h"

enum { LONG_MS = 60000, LEASE_MS = 5000, DAY_MS = 86400000 };

static server_fixture *server;
static lks_channel *channel;

static int setup(void **state)
{
    server = server_fixture_start(NULL);
    return server && lks_channel_open(server_fixture_url(server), NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    lks_channel_close(channel);
    server_fixture_free(server);
    return 0;
}

/* The loss of a lock, as its on_lost got it. */
struct loss {
    atomic_bool told;
    lks_loss_reason reason;
};

static void see_loss(void *arg, const lks_lock_loss *told)
{
    struct loss *loss = arg;

    loss->reason = told->reason;
    atomic_store(&loss->told, true);
}

/* ctest ends the test if it never happens. */
static void await_loss(struct loss *loss)
{
    while (!atomic_load(&loss->told))
        process_pause();
}

static lks_mutex *new_mutex(const char *name, uint32_t lease_ms, struct loss *loss)
{
    const lks_lock_options options = {
        .lease_ms = lease_ms, .owner = "test", .on_lost = loss ? see_loss : NULL, .arg = loss};
    lks_mutex *mutex = NULL;

    assert_int_equal(lks_mutex_new(channel, name, &options, &mutex, NULL), LKS_OK);
    return mutex;
}

static lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct loss *loss)
{
    lks_mutex *mutex = new_mutex(name, lease_ms, loss);
    lks_error error;

    if (lks_mutex_lock(mutex, 0, &error) != LKS_LOCK_ACQUIRED)
        fail_msg("%s", error.message);
    return mutex;
}

static void unlock_and_free(lks_mutex *mutex, lks_code code)
{
    assert_int_equal(lks_mutex_unlock(mutex, NULL), code);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

struct attempt {
    lks_mutex *mutex;
    lks_lock_result result;
};

static void *lock_and_unlock(void *arg)
{
    struct attempt *attempt = arg;

    attempt->result = lks_mutex_lock(attempt->mutex, 0, NULL);
    lks_mutex_unlock(attempt->mutex, NULL);
    return NULL;
}

/* The result of another thread, which unlocks at once. */
static lks_lock_result attempt_elsewhere(lks_mutex *mutex)
{
    struct attempt attempt = {.mutex = mutex};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, lock_and_unlock, &attempt), 0);
    pthread_join(thread, NULL);
    return attempt.result;
}

static lks_inspect_response *inspect(const char *name)
{
    lks_inspect_request request = LKS_INSPECT_REQUEST_INIT;
    lks_inspect_response *response = NULL;

    request.name = name;
    assert_int_equal(lks_lock_inspect(channel, &request, NULL, &response, NULL), LKS_OK);
    return response;
}

/* ---- exclusion ------------------------------------------------------------------ */

struct shared {
    lks_mutex *mutex;
    int rounds;
    int counter; /* not atomic: the mutex is what keeps it */
    uint64_t fence;
    atomic_int failures;
};

static void *count_up(void *arg)
{
    struct shared *shared = arg;

    for (int i = 0; i < shared->rounds; i++) {
        LKS_MUTEX_GUARD guard = lks_mutex_guard_take(shared->mutex, LONG_MS, NULL);
        if (guard.result != LKS_LOCK_ACQUIRED || lks_mutex_fence(shared->mutex) <= shared->fence) {
            atomic_fetch_add(&shared->failures, 1);
            return NULL;
        }
        shared->fence = lks_mutex_fence(shared->mutex);
        int seen = shared->counter;
        sched_yield();
        shared->counter = seen + 1;
    }
    return NULL;
}

/* promise M2: another thread is another owner, and cannot unlock */
TEST(test_threads_exclude_each_other)
{
    enum { THREADS = 4 };
    struct shared shared = {.mutex = new_mutex("door", 30000, NULL), .rounds = (int)counts_of(50, 2000)};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&shared.failures), 0);
    assert_int_equal(shared.counter, THREADS * shared.rounds);
    assert_int_equal(lks_mutex_free(shared.mutex), LKS_OK);
}

/* ---- keeping --------------------------------------------------------------------- */

/* promise M7 */
TEST(test_many_locks_are_held_over_several_leases)
{
    enum { LOCKS = 300 };
    lks_mutex *mutexes[LOCKS];
    struct loss loss = {0};
    int64_t held_ms;

    for (size_t i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "lock-%zu", i);
        mutexes[i] = new_locked(name, LEASE_MS, &loss);
    }
    do {
        process_pause();
        lks_inspect_response *response = inspect("lock-7");
        assert_int_equal(response->n_holders, 1);
        assert_string_equal(response->holders[0]->owner, "test");
        held_ms = response->holders[0]->held_ms;
        lks_inspect_response_free(response);
    } while (held_ms < 3 * LEASE_MS);
    assert_false(atomic_load(&loss.told));
    for (size_t i = 0; i < LOCKS; i++) {
        if (i % 100 == 0)
            assert_int_equal(attempt_elsewhere(mutexes[i]), LKS_LOCK_BUSY);
        assert_false(lks_mutex_is_lost(mutexes[i]));
        unlock_and_free(mutexes[i], LKS_OK);
    }
}

/* ---- losing ---------------------------------------------------------------------- */

TEST(test_a_server_that_comes_back)
{
    struct loss loss = {0};
    lks_mutex *mutex = new_locked("door", LEASE_MS, &loss);
    uint64_t fence = lks_mutex_fence(mutex);

    server_fixture_kill(server);
    await_loss(&loss);
    assert_int_equal(loss.reason, LKS_LOSS_UNRENEWED);
    assert_true(server_fixture_restart(server));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_ABORTED);
    assert_int_equal(lks_mutex_lock(mutex, LONG_MS, NULL), LKS_LOCK_ACQUIRED);
    assert_true(lks_mutex_fence(mutex) > fence);
    unlock_and_free(mutex, LKS_OK);
}

static void take_away(char *name)
{
    lks_force_release_request request = LKS_FORCE_RELEASE_REQUEST_INIT;

    request.name = name;
    assert_int_equal(lks_lock_force_release(channel, &request, NULL, NULL, NULL), LKS_OK);
}

/* promise M12 */
/* The leases are so long that none is renewed before ctest ends the test. */
TEST(test_a_lock_that_is_taken_away)
{
    struct loss loss[2] = {0};
    lks_mutex *first = new_locked("door", DAY_MS, &loss[0]), *second = new_locked("window", DAY_MS, &loss[1]);
    lks_mutex *quick = new_locked("gate", DAY_MS, NULL);
    char door[] = "door", window[] = "window", gate[] = "gate";

    take_away(door);
    await_loss(&loss[0]);
    assert_int_equal(loss[0].reason, LKS_LOSS_TAKEN);
    take_away(window); /* a watch began before it */
    await_loss(&loss[1]);
    unlock_and_free(first, LKS_ABORTED);
    unlock_and_free(second, LKS_ABORTED);
    /* The unlock is told where the keeper did not know yet. */
    take_away(gate);
    unlock_and_free(quick, LKS_ABORTED);
}

TEST(test_a_lock_that_is_taken_away_after_a_restart)
{
    struct loss loss = {0};
    lks_mutex *mutex = new_locked("door", DAY_MS, &loss);
    char door[] = "door";

    server_fixture_kill(server);
    assert_true(server_fixture_restart(server));
    take_away(door);
    await_loss(&loss);
    unlock_and_free(mutex, LKS_ABORTED);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
