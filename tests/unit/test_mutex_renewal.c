/* The keeper renews held locks, in few calls, and nothing else. */

#include <dirent.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/process.h"
#include "unit/mutex_fixture.h"
#include "test.h"

/* Threads of this process that are keepers. */
static size_t keepers(void)
{
    DIR *tasks = opendir("/proc/self/task");
    size_t n = 0;

    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        n += fgets(name, sizeof name, file) && strcmp(name, "lks-keeper\n") == 0;
        fclose(file);
    }
    closedir(tasks);
    return n;
}

/* ---- one lock ------------------------------------------------------------------- */

/* promise M7 */
TEST(test_a_lease_is_renewed_as_long_as_it_is_held)
{
    struct witness witness = {0};
    uint64_t began_ns = clock_now_ns();
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);

    assert_true(fake_await(fake, FAKE_RENEW, "door", 5)); /* the first when a watch begins */
    fake_event asked = fake_event_at(fake, FAKE_ACQUIRE, "door", 0);
    fake_event renewed = fake_event_at(fake, FAKE_RENEW, "door", 4);
    assert_string_equal(renewed.token, asked.token);
    assert_int_equal(renewed.lease_ms, LEASE_MS);
    /* The others at a third of each lease, not earlier; so by now it would be over. */
    assert_true(renewed.at_ns >= began_ns + UINT64_C(4) * LEASE_MS / 3 * 1000000);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(atomic_load(&witness.times), 0);
    unlock_and_free(mutex, LKS_OK);
}

/* ---- many locks ----------------------------------------------------------------- */

/* 10,000 locks of one process cost at most one call a hundred locks. */
/* promise M8: 10,000 locks, at most a call a hundred */
TEST(test_renewals_of_many_locks_are_few_calls)
{
    enum { LOCKS = 10000, LONG_LEASE_MS = 15000 };
    struct witness witness = {0};
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LONG_LEASE_MS, &witness);
    size_t calls = fake_calls(fake, FAKE_RENEW), leases = fake_seen(fake, FAKE_RENEW, NULL);

    assert_true(fake_await(fake, FAKE_RENEW, NULL, leases + 2 * LOCKS));
    leases = fake_seen(fake, FAKE_RENEW, NULL) - leases;
    calls = fake_calls(fake, FAKE_RENEW) - calls;
    print_message("%zu leases renewed in %zu calls\n", leases, calls);
    assert_true(calls * 100 <= leases);
    assert_int_equal(atomic_load(&witness.times), 0);
    free_mutexes(mutexes, LOCKS);
}

/* One lease that makes its whole call fail falls alone. */
/* promise M9 */
TEST(test_a_poisoned_lease_is_lost_alone)
{
    enum { LOCKS = 20 };
    struct witness calm = {0}, witness = {0};
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LEASE_MS, &calm), *mutex = new_locked("door", LEASE_MS, &witness);

    fake_behave(fake, (fake_manner){.poison = "door"});
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    size_t n = fake_seen(fake, FAKE_RENEW, "lock-7");
    assert_true(fake_await(fake, FAKE_RENEW, "lock-7", n + 2));
    assert_int_equal(atomic_load(&calm.times), 0);
    unlock_and_free(mutex, LKS_ABORTED);
    free_mutexes(mutexes, LOCKS);
}

/* A server that takes fewer leases in a call than we send. */
/* promise M9 */
TEST(test_a_server_with_smaller_limits)
{
    enum { LOCKS = 150, MAX = 64 };
    struct witness witness = {0};

    fake_behave(fake, (fake_manner){.leases_max = MAX});
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LEASE_MS, &witness);
    let_pass(clock_now_ns(), LEASE_MS);
    assert_int_equal(atomic_load(&witness.times), 0);
    free_mutexes(mutexes, LOCKS);
}

/* ---- the thread ----------------------------------------------------------------- */

/* Each of two channels renews its own leases, and one thread serves both. */
/* promise M10 */
TEST(test_one_thread_for_all)
{
    const lks_lock_options options = {.lease_ms = LEASE_MS};
    fake_service *other = fake_start();
    lks_channel *second = NULL;
    lks_mutex *elsewhere = NULL;

    assert_non_null(other);
    assert_int_equal(lks_channel_open(fake_url(other), NULL, &second, NULL), LKS_OK);
    assert_int_equal(lks_mutex_new(second, "gate", &options, &elsewhere, NULL), LKS_OK);
    lks_mutex *mutex = new_locked("door", LEASE_MS, NULL);
    assert_int_equal(lks_mutex_lock(elsewhere, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_true(fake_await(fake, FAKE_RENEW, "door", 2));
    assert_true(fake_await(other, FAKE_RENEW, "gate", 2));
    assert_int_equal(keepers(), 1);
    assert_int_equal(fake_seen(fake, FAKE_RENEW, "gate") + fake_seen(other, FAKE_RENEW, "door"), 0);
    assert_int_equal(lks_mutex_unlock(elsewhere, NULL), LKS_OK);
    assert_int_equal(lks_mutex_free(elsewhere), LKS_OK);
    lks_channel_close(second);
    fake_stop(other);
    unlock_and_free(mutex, LKS_OK);
}

/* It ends when nothing is held any more, and comes back when something is. */
/* promise M10 */
TEST(test_the_keeper_starts_and_ends_with_the_leases)
{
    lks_mutex *mutex = new_mutex("door", LEASE_MS, NULL);

    for (size_t i = 1; i <= 2; i++) {
        lock(mutex);
        assert_true(fake_await(fake, FAKE_RENEW, "door", i));
        assert_int_equal(keepers(), 1);
        assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
        while (keepers() != 0) /* ctest ends it if it never happens */
            process_pause();
    }
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* promise M10: one thread, which starts and ends with the locks and leaves nothing behind */
TEST(test_a_thousand_cycles_leak_nothing)
{
    lks_mutex *mutex = new_locked("door", LEASE_MS, NULL);

    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    size_t fds = process_fd_count(getpid()), threads = process_thread_count(getpid());
    for (int i = 0; i < 1000; i++) {
        lock(mutex);
        assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    }
    assert_int_equal(process_fd_count(getpid()), fds);
    assert_true(process_thread_count(getpid()) <= threads);
    assert_true(keepers() <= 1);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
