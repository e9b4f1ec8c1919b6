/* The watchdog: what is renewed and what is not, and that a loss is known before the
 * lease can have ended. A time is only ever compared where it holds whatever the
 * machine's load is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockstock/lockstock.h>

#include "support/counts.h"
#include "support/process.h"
#include "unit/lock_fake.h"

enum { LEASE_MS = 3000, SHORT_MS = 1500 };

static lock_fake *fake;
static lks_channel *channel;

static int setup(void **state)
{
    (void)state;
    fake = lock_fake_start();
    return fake != NULL && lks_channel_open(lock_fake_url(fake), NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    lks_channel_close(channel);
    lock_fake_stop(fake);
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- a witness of losses -------------------------------------------------------- */

struct witness {
    pthread_mutex_t lock;
    pthread_cond_t told;
    size_t times;
    char name[40];
    uint64_t fence;
    lks_loss_reason reason;
    /* What it tries in the callback. */
    lks_mutex *unlocks, *locks, *frees, *other;
    lks_code unlocked, unlocked_other, freed;
    lks_lock_result locked;
};

#define WITNESS_INIT {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER}

static void see_loss(void *arg, const lks_lock_loss *loss)
{
    struct witness *witness = arg;

    if (witness->unlocks != NULL)
        witness->unlocked = lks_mutex_unlock(witness->unlocks, NULL);
    if (witness->other != NULL)
        witness->unlocked_other = lks_mutex_unlock(witness->other, NULL);
    if (witness->locks != NULL)
        witness->locked = lks_mutex_lock(witness->locks, 0, NULL);
    if (witness->frees != NULL)
        witness->freed = lks_mutex_free(witness->frees);
    pthread_mutex_lock(&witness->lock);
    witness->times++;
    snprintf(witness->name, sizeof witness->name, "%s", loss->name);
    witness->fence = loss->fence;
    witness->reason = loss->reason;
    pthread_cond_broadcast(&witness->told);
    pthread_mutex_unlock(&witness->lock);
}

static size_t times_told(struct witness *witness)
{
    pthread_mutex_lock(&witness->lock);
    size_t times = witness->times;
    pthread_mutex_unlock(&witness->lock);
    return times;
}

static void await_loss_for(struct witness *witness, int seconds)
{
    struct timespec until;
    int failed = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&witness->lock);
    while (witness->times == 0 && failed == 0)
        failed = pthread_cond_timedwait(&witness->told, &witness->lock, &until);
    pthread_mutex_unlock(&witness->lock);
    assert_int_equal(failed, 0);
}

static void await_loss(struct witness *witness)
{
    await_loss_for(witness, 60);
}

static lks_mutex *new_mutex(const char *name, uint32_t lease_ms, struct witness *witness)
{
    const lks_lock_options options = {
        .lease_ms = lease_ms, .on_lost = witness != NULL ? see_loss : NULL, .arg = witness};
    lks_mutex *mutex = NULL;

    assert_int_equal(lks_mutex_new(channel, name, &options, &mutex, NULL), LKS_OK);
    return mutex;
}

static lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct witness *witness)
{
    lks_mutex *mutex = new_mutex(name, lease_ms, witness);

    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    return mutex;
}

static void unlock_and_free(lks_mutex *mutex, lks_code code)
{
    assert_int_equal(lks_mutex_unlock(mutex, NULL), code);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* Every look at a lock that says "held" was taken more than a tenth of the lease
 * before its end, counted from when the server got the request that set it: which is
 * the earliest that this lease can end. */
static void assert_is_lost_in_time(lks_mutex *mutex, uint64_t got_ns, uint64_t lease_ms)
{
    uint64_t looked_ns = now_ns();

    while (!lks_mutex_is_lost(mutex)) {
        assert_true(looked_ns < got_ns + (lease_ms - lease_ms / 10) * 1000000);
        process_pause();
        looked_ns = now_ns();
    }
}

/* Threads of this process that are watchdogs. */
static size_t watchdogs(void)
{
    DIR *tasks = opendir("/proc/self/task");
    size_t n = 0;

    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        n += fgets(name, sizeof name, file) != NULL && strcmp(name, "lks-watchdog\n") == 0;
        fclose(file);
    }
    closedir(tasks);
    return n;
}

/* ---- renewing ------------------------------------------------------------------- */

static void test_a_lease_is_renewed_as_long_as_it_is_held(void **state)
{
    struct witness witness = WITNESS_INIT;
    uint64_t began_ns = now_ns();
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);

    (void)state;
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 4));
    fake_event asked = lock_fake_event(fake, FAKE_ACQUIRE, "door", 0);
    fake_event renewed = lock_fake_event(fake, FAKE_RENEW, "door", 3);
    assert_string_equal(renewed.token, asked.token);
    assert_int_equal(renewed.lease_ms, LEASE_MS);
    /* At a third of each lease, not earlier; so by now it would be over. */
    assert_true(renewed.at_ns >= began_ns + UINT64_C(4) * LEASE_MS / 3 * 1000000);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(times_told(&witness), 0);
    unlock_and_free(mutex, LKS_OK);
}

static void test_nothing_is_renewed_after_the_unlock(void **state)
{
    lks_mutex *mutex = new_locked("door", SHORT_MS, NULL), *other = new_locked("gate", SHORT_MS, NULL);

    (void)state;
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 1));
    unlock_and_free(new_locked("yard", SHORT_MS, NULL), LKS_OK); /* so its answer is there too */
    assert_int_not_equal(lks_mutex_unlock(mutex, NULL), LKS_FAILED_PRECONDITION);
    /* One that was on its way has come when the next is there. */
    size_t others = lock_fake_seen(fake, FAKE_RENEW, "gate");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", others + 2));
    size_t n = lock_fake_seen(fake, FAKE_RENEW, "door");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", others + 6));
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "door"), n);
    assert_int_not_equal(lks_mutex_unlock(other, NULL), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
    assert_int_equal(lks_mutex_free(other), LKS_OK);
}

/* A renewal whose answer comes after the unlock revives nothing. */
static void test_a_renewal_in_flight_at_the_unlock_is_without_effect(void **state)
{
    struct witness witness = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);

    (void)state;
    lock_fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 1));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
    lock_fake_behave(fake, (fake_manner){0});
    mutex = new_locked("door", LEASE_MS, NULL);
    size_t tries = lock_fake_seen(fake, FAKE_RENEW, "door");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", tries + 1));
    fake_event renewed = lock_fake_event(fake, FAKE_RENEW, "door", tries);
    assert_string_equal(renewed.token, lock_fake_event(fake, FAKE_ACQUIRE, "door", 1).token);
    assert_int_equal(times_told(&witness), 0);
    unlock_and_free(mutex, LKS_OK);
}

static void test_a_renewal_that_fails_is_repeated(void **state)
{
    static const lks_code codes[] = {LKS_RESOURCE_EXHAUSTED, LKS_INTERNAL};
    struct witness witness = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        size_t n = lock_fake_calls(fake, FAKE_RENEW);
        lock_fake_behave(fake, (fake_manner){.fails[FAKE_RENEW] = codes[i], .fail_times = 1});
        assert_true(lock_fake_await(fake, FAKE_RENEW, "door", n + 3));
        assert_false(lks_mutex_is_lost(mutex));
    }
    assert_int_equal(times_told(&witness), 0);
    unlock_and_free(mutex, LKS_OK);
}

/* Of two channels each renews its own, and one thread sees to both. */
static void test_one_thread_for_all(void **state)
{
    lks_channel *second = NULL;
    lks_mutex *elsewhere = NULL;
    const lks_lock_options options = {.lease_ms = LEASE_MS};
    lock_fake *other = lock_fake_start();

    (void)state;
    assert_non_null(other);
    assert_int_equal(lks_channel_open(lock_fake_url(other), NULL, &second, NULL), LKS_OK);
    assert_int_equal(lks_mutex_new(second, "gate", &options, &elsewhere, NULL), LKS_OK);
    lks_mutex *mutex = new_mutex("door", LEASE_MS, NULL);
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_mutex_lock(elsewhere, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 2));
    assert_true(lock_fake_await(other, FAKE_RENEW, "gate", 2));
    assert_int_equal(watchdogs(), 1);
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "gate") + lock_fake_seen(other, FAKE_RENEW, "door"), 0);
    assert_int_equal(lks_mutex_unlock(elsewhere, NULL), LKS_OK);
    assert_int_equal(lks_mutex_free(elsewhere), LKS_OK);
    lks_channel_close(second);
    lock_fake_stop(other);
    unlock_and_free(mutex, LKS_OK);
}

/* ---- losing --------------------------------------------------------------------- */

/* A server that is reached and does not answer. */
static void test_a_lease_that_nobody_renews_is_lost_in_time(void **state)
{
    struct witness witness = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);
    fake_event asked = lock_fake_event(fake, FAKE_ACQUIRE, "door", 0);
    lks_error error;

    (void)state;
    lock_fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    assert_is_lost_in_time(mutex, asked.at_ns, LEASE_MS);
    await_loss(&witness);
    assert_string_equal(witness.name, "door");
    assert_int_equal(witness.fence, 1);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    assert_true(lock_fake_seen(fake, FAKE_RENEW, "door") > 0);

    /* It is not had again while it is not unlocked, and then it is a new one. */
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_LOST);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_unlock(mutex, &error), LKS_ABORTED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_true(lock_fake_await(fake, FAKE_RELEASE, "door", 1));
    assert_string_equal(lock_fake_event(fake, FAKE_RELEASE, "door", 0).token, asked.token);
    lock_fake_behave(fake, (fake_manner){0});
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_mutex_fence(mutex), 2);
    assert_int_equal(times_told(&witness), 1);
    unlock_and_free(mutex, LKS_OK);
}

/* Renewals that are answered after the loss, and say that all is well. */
static void test_what_was_lost_stays_lost(void **state)
{
    struct witness witness = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", SHORT_MS, &witness);
    lks_mutex *inner = new_mutex("door", SHORT_MS, NULL), *other = NULL;

    (void)state;
    lks_lock_result again = lks_mutex_lock(inner, 0, NULL);
    lock_fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    await_loss(&witness);
    lock_fake_behave(fake, (fake_manner){0});
    other = new_locked("gate", SHORT_MS, NULL);
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", 1));
    size_t n = lock_fake_seen(fake, FAKE_RENEW, "door");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", 5));
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "door"), n);
    assert_true(lks_mutex_is_lost(mutex));
    assert_true(lks_mutex_is_lost(inner));
    assert_int_equal(times_told(&witness), 1);
    if (again == LKS_LOCK_ACQUIRED)
        assert_int_equal(lks_mutex_unlock(inner, NULL), LKS_ABORTED); /* the inner unlock is told too */
    unlock_and_free(mutex, LKS_ABORTED);
    assert_int_equal(lks_mutex_free(inner), LKS_OK);
    assert_int_not_equal(lks_mutex_unlock(other, NULL), LKS_FAILED_PRECONDITION);
    lks_mutex_free(other);
}

/* A renewal was to be tried again later, and by then the lock is lost. */
static void test_what_is_lost_is_not_renewed(void **state)
{
    struct witness witness = WITNESS_INIT;

    (void)state;
    lock_fake_behave(fake, (fake_manner){.fails[FAKE_RENEW] = LKS_RESOURCE_EXHAUSTED,
                                         .fail_times = 1, .retry_after_ms = 2 * SHORT_MS});
    lks_mutex *mutex = new_locked("door", SHORT_MS, &witness);
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    lks_mutex *other = new_locked("gate", SHORT_MS, NULL);
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", 5));
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "door"), 1);
    unlock_and_free(mutex, LKS_ABORTED);
    assert_int_not_equal(lks_mutex_unlock(other, NULL), LKS_FAILED_PRECONDITION);
    lks_mutex_free(other);
}

/* It is told at once, not when the lease would have ended. */
static void test_the_server_says_lost(void **state)
{
    enum { LONG_LEASE_MS = 24000 }; /* of which 16 s are left at a renewal */
    struct witness witness = WITNESS_INIT, calm = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", LONG_LEASE_MS, &witness), *other = new_locked("gate", LEASE_MS, &calm);

    (void)state;
    lock_fake_behave(fake, (fake_manner){.lost = "door"});
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 1));
    await_loss_for(&witness, 10);
    assert_int_equal(witness.reason, LKS_LOSS_TAKEN);
    assert_true(lks_mutex_is_lost(mutex));
    size_t n = lock_fake_seen(fake, FAKE_RENEW, "gate");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "gate", n + 2));
    assert_false(lks_mutex_is_lost(other));
    assert_int_equal(times_told(&calm), 0);
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "door"), 1);
    unlock_and_free(mutex, LKS_ABORTED);
    unlock_and_free(other, LKS_OK);
}

static void test_the_server_ends(void **state)
{
    struct witness witness = WITNESS_INIT;
    lks_mutex *mutex = new_locked("door", SHORT_MS, &witness);

    (void)state;
    lock_fake_stop(fake);
    fake = NULL;
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    unlock_and_free(mutex, LKS_ABORTED);
}

static void test_max_hold_ends_renewing(void **state)
{
    struct witness witness = WITNESS_INIT;
    const lks_lock_options options = {
        .lease_ms = LEASE_MS, .max_hold_ms = LEASE_MS / 2, .on_lost = see_loss, .arg = &witness};
    lks_mutex *mutex = NULL;

    (void)state;
    assert_int_equal(lks_mutex_new(channel, "door", &options, &mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_MAX_HOLD);
    assert_int_equal(lock_fake_seen(fake, FAKE_RENEW, "door"), 1); /* at a third, not at two thirds */
    unlock_and_free(mutex, LKS_ABORTED);
}

static void test_a_permit_is_kept_and_lost_like_a_lock(void **state)
{
    struct witness witness = WITNESS_INIT;
    const lks_lock_options options = {.lease_ms = LEASE_MS, .on_lost = see_loss, .arg = &witness};
    lks_semaphore *semaphore = NULL;
    lks_permit *permit = NULL;

    (void)state;
    assert_int_equal(lks_semaphore_new(channel, "seats", 2, &options, &semaphore, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_acquire(semaphore, 1, 0, &permit, NULL), LKS_LOCK_ACQUIRED);
    assert_true(lock_fake_await(fake, FAKE_RENEW, "seats", 2));
    assert_false(lks_permit_is_lost(permit));
    lock_fake_behave(fake, (fake_manner){.lost = "seats"});
    await_loss(&witness);
    assert_int_equal(witness.fence, lks_permit_fence(permit));
    assert_true(lks_permit_is_lost(permit));
    assert_int_equal(lks_permit_release(permit, NULL), LKS_ABORTED);
    assert_int_equal(lks_semaphore_free(semaphore), LKS_OK);
}

/* ---- counted from the sending ---------------------------------------------------- */

/* The answer is late, the lease began when the request came. */
static void test_a_late_answer_makes_no_longer_lease(void **state)
{
    lock_fake_behave(fake, (fake_manner){.acquire_delay_ms = 700, .holds[FAKE_RENEW] = true});
    lks_mutex *mutex = new_locked("door", LEASE_MS, NULL);
    fake_event asked = lock_fake_event(fake, FAKE_ACQUIRE, "door", 0);

    (void)state;
    assert_is_lost_in_time(mutex, asked.at_ns, LEASE_MS);
    unlock_and_free(mutex, LKS_ABORTED);
}

/* The same for the answer to a renewal: it takes most of the time until the next. */
static void test_a_late_renewal_makes_no_longer_lease(void **state)
{
    const lks_channel_options once = {.no_retry = true};

    (void)state;
    lks_channel_close(channel);
    assert_int_equal(lks_channel_open(lock_fake_url(fake), &once, &channel, NULL), LKS_OK);
    lks_mutex *mutex = new_locked("door", LEASE_MS, NULL);
    lock_fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    assert_true(lock_fake_await(fake, FAKE_RENEW, "door", 1));
    uint64_t got_ns = lock_fake_event(fake, FAKE_RENEW, "door", 0).at_ns;
    while (now_ns() < got_ns + 700000000)
        process_pause();
    lock_fake_behave(fake, (fake_manner){0});
    while (now_ns() < got_ns + 900000000)
        process_pause();
    lock_fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    size_t last = lock_fake_seen(fake, FAKE_RENEW, "door") - 1;
    assert_is_lost_in_time(mutex, lock_fake_event(fake, FAKE_RENEW, "door", last).at_ns, LEASE_MS);
    unlock_and_free(mutex, LKS_ABORTED);
}

/* An answer older than the lease: only a renewal tells whether the lock is held. */
static void test_a_grant_after_a_long_wait_is_confirmed(void **state)
{
    enum { LEASE = 1500 };
    lks_mutex *mutex = new_mutex("door", LEASE, NULL);
    lks_error error;

    (void)state;
    lock_fake_behave(fake, (fake_manner){.acquire_delay_ms = LEASE + 300});
    assert_int_equal(lks_mutex_lock(mutex, 60000, NULL), LKS_LOCK_ACQUIRED);
    assert_true(lock_fake_seen(fake, FAKE_RENEW, "door") >= 1);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);

    lock_fake_behave(fake, (fake_manner){.acquire_delay_ms = LEASE, .lost = "door"});
    assert_int_equal(lks_mutex_lock(mutex, 60000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_true(lock_fake_await(fake, FAKE_RELEASE, "door", 2));

    lock_fake_behave(fake, (fake_manner){.acquire_delay_ms = LEASE, .fails[FAKE_RENEW] = LKS_INTERNAL});
    assert_int_equal(lks_mutex_lock(mutex, 60000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_true(lock_fake_await(fake, FAKE_RELEASE, "door", 3));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(lock_fake_event(fake, FAKE_RELEASE, "door", i).token,
                            lock_fake_event(fake, FAKE_ACQUIRE, "door", i).token);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* ---- callbacks ------------------------------------------------------------------ */

static void test_what_a_callback_may_do(void **state)
{
    struct witness witness = WITNESS_INIT;
    lks_mutex *other = new_locked("gate", LEASE_MS, NULL), *mutex = new_mutex("door", LEASE_MS, &witness);

    (void)state;
    witness.unlocks = witness.locks = witness.frees = mutex;
    witness.other = other;
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    lock_fake_behave(fake, (fake_manner){.lost = "door"});
    await_loss(&witness);
    assert_int_equal(witness.unlocked, LKS_ABORTED);
    assert_true(lock_fake_await(fake, FAKE_RELEASE, "door", 1));
    assert_int_equal(witness.unlocked_other, LKS_FAILED_PRECONDITION);
    assert_int_equal(witness.locked, LKS_LOCK_FAILED);
    assert_int_equal(witness.freed, LKS_FAILED_PRECONDITION);
    assert_int_equal(lock_fake_seen(fake, FAKE_RELEASE, "gate"), 0);
    assert_false(lks_mutex_is_lost(other));
    unlock_and_free(mutex, LKS_ABORTED);
    unlock_and_free(other, LKS_OK);
}

struct slow {
    atomic_bool began, freed, freed_meanwhile, ended;
    lks_mutex *mutex;
};

static void be_slow(void *arg, const lks_lock_loss *loss)
{
    struct slow *slow = arg;

    (void)loss;
    atomic_store(&slow->began, true);
    for (int i = 0; i < 100 && !atomic_load(&slow->freed); i++)
        process_pause();
    atomic_store(&slow->freed_meanwhile, atomic_load(&slow->freed));
    atomic_store(&slow->ended, true);
}

static void test_free_waits_for_the_callback(void **state)
{
    struct slow slow = {0};
    const lks_lock_options options = {.lease_ms = LEASE_MS, .on_lost = be_slow, .arg = &slow};

    (void)state;
    assert_int_equal(lks_mutex_new(channel, "door", &options, &slow.mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_lock(slow.mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    lock_fake_behave(fake, (fake_manner){.lost = "door"});
    while (!atomic_load(&slow.began))
        process_pause();
    unlock_and_free(slow.mutex, LKS_ABORTED);
    atomic_store(&slow.freed, true);
    while (!atomic_load(&slow.ended))
        process_pause();
    assert_false(atomic_load(&slow.freed_meanwhile));
}

/* ---- many locks ----------------------------------------------------------------- */

static lks_mutex **new_locked_mutexes(size_t n, uint32_t lease_ms, struct witness *witness)
{
    lks_mutex **mutexes = calloc(n, sizeof(lks_mutex *));

    assert_non_null(mutexes);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "lock-%zu", i);
        mutexes[i] = new_locked(name, lease_ms, witness);
    }
    return mutexes;
}

static void free_mutexes(lks_mutex **mutexes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(lks_mutex_unlock(mutexes[i], NULL), LKS_OK);
        assert_int_equal(lks_mutex_free(mutexes[i]), LKS_OK);
    }
    free(mutexes);
}

/* 10,000 locks of one process cost at most one call a hundred locks. */
static void test_renewals_of_many_locks_are_few_calls(void **state)
{
    enum { LOCKS = 10000, LEASE = 15000 };
    struct witness witness = WITNESS_INIT;
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LEASE, &witness);
    size_t calls = lock_fake_calls(fake, FAKE_RENEW), leases = lock_fake_seen(fake, FAKE_RENEW, NULL);

    (void)state;
    assert_true(lock_fake_await(fake, FAKE_RENEW, NULL, leases + 2 * LOCKS));
    leases = lock_fake_seen(fake, FAKE_RENEW, NULL) - leases;
    calls = lock_fake_calls(fake, FAKE_RENEW) - calls;
    print_message("%zu leases renewed in %zu calls\n", leases, calls);
    assert_true(calls * 100 <= leases);
    assert_int_equal(times_told(&witness), 0);
    free_mutexes(mutexes, LOCKS);
}

/* One lease that makes its whole call fail falls alone. */
static void test_a_poisoned_lease_falls_alone(void **state)
{
    enum { LOCKS = 20 };
    struct witness calm = WITNESS_INIT, witness = WITNESS_INIT;
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LEASE_MS, &calm), *mutex = new_locked("door", LEASE_MS, &witness);

    (void)state;
    lock_fake_behave(fake, (fake_manner){.poison = "door"});
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    size_t n = lock_fake_seen(fake, FAKE_RENEW, "lock-7");
    assert_true(lock_fake_await(fake, FAKE_RENEW, "lock-7", n + 2));
    assert_int_equal(times_told(&calm), 0);
    unlock_and_free(mutex, LKS_ABORTED);
    free_mutexes(mutexes, LOCKS);
}

/* A server that takes fewer leases in a call than we send. */
static void test_a_server_with_smaller_limits(void **state)
{
    enum { LOCKS = 150, MAX = 64 };
    struct witness witness = WITNESS_INIT;

    (void)state;
    lock_fake_behave(fake, (fake_manner){.leases_max = MAX});
    lks_mutex **mutexes = new_locked_mutexes(LOCKS, LEASE_MS, &witness);
    for (size_t i = 0; i < LOCKS; i += 50) {
        char name[32];
        snprintf(name, sizeof name, "lock-%zu", i);
        assert_true(lock_fake_await(fake, FAKE_RENEW, name, 5));
    }
    assert_int_equal(times_told(&witness), 0);
    free_mutexes(mutexes, LOCKS);
}

/* ---- nothing is left -------------------------------------------------------------- */

static void test_nothing_is_left_of_a_thousand_cycles(void **state)
{
    lks_mutex *mutex = new_locked("door", LEASE_MS, NULL);

    (void)state;
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    size_t fds = process_fd_count(getpid()), threads = process_thread_count(getpid());
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
        assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    }
    assert_int_equal(process_fd_count(getpid()), fds);
    assert_true(process_thread_count(getpid()) <= threads);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* The watchdog ends when nothing is held any more, and comes back when something is. */
static void test_the_watchdog_comes_and_goes(void **state)
{
    lks_mutex *mutex = new_mutex("door", LEASE_MS, NULL);

    (void)state;
    for (size_t i = 1; i <= 2; i++) {
        assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
        assert_true(lock_fake_await(fake, FAKE_RENEW, "door", i));
        assert_int_equal(watchdogs(), 1);
        assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
        while (watchdogs() != 0) /* ctest ends it if it never happens */
            process_pause();
    }
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_lease_is_renewed_as_long_as_it_is_held),
        TEST(test_nothing_is_renewed_after_the_unlock),
        TEST(test_a_renewal_in_flight_at_the_unlock_is_without_effect),
        TEST(test_a_renewal_that_fails_is_repeated),
        TEST(test_one_thread_for_all),
        TEST(test_a_lease_that_nobody_renews_is_lost_in_time),
        TEST(test_what_was_lost_stays_lost),
        TEST(test_what_is_lost_is_not_renewed),
        TEST(test_the_server_says_lost),
        TEST(test_the_server_ends),
        TEST(test_max_hold_ends_renewing),
        TEST(test_a_permit_is_kept_and_lost_like_a_lock),
        TEST(test_a_late_answer_makes_no_longer_lease),
        TEST(test_a_late_renewal_makes_no_longer_lease),
        TEST(test_a_grant_after_a_long_wait_is_confirmed),
        TEST(test_what_a_callback_may_do),
        TEST(test_free_waits_for_the_callback),
        TEST(test_renewals_of_many_locks_are_few_calls),
        TEST(test_a_poisoned_lease_falls_alone),
        TEST(test_a_server_with_smaller_limits),
        TEST(test_nothing_is_left_of_a_thousand_cycles),
        TEST(test_the_watchdog_comes_and_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
