/* Only the main thread asserts: see_loss runs on the watchdog's thread and records. */
#include "mutex_fixture.h"
#include "test.h"

#include <time.h>

#include "support/process.h"

fake_service *fake;
lks_channel *channel;

int setup(void **state)
{
    fake = fake_start();
    return fake && lks_channel_open(fake_url(fake), NULL, &channel, NULL) == LKS_OK ? 0 : -1;
}

int teardown(void **state)
{
    lks_channel_close(channel);
    fake_stop(fake);
    return 0;
}

void see_loss(void *arg, const lks_lock_loss *loss)
{
    struct witness *witness = arg;

    if (witness->unlocks)
        witness->unlocked = lks_mutex_unlock(witness->unlocks, NULL);
    if (witness->other)
        witness->unlocked_other = lks_mutex_unlock(witness->other, NULL);
    if (witness->locks)
        witness->locked = lks_mutex_lock(witness->locks, 0, NULL);
    if (witness->frees)
        witness->freed = lks_mutex_free(witness->frees);
    pthread_mutex_lock(&witness->lock);
    witness->times++;
    snprintf(witness->name, sizeof witness->name, "%s", loss->name);
    witness->fence = loss->fence;
    witness->reason = loss->reason;
    pthread_cond_broadcast(&witness->told);
    pthread_mutex_unlock(&witness->lock);
}

size_t times_told(struct witness *witness)
{
    pthread_mutex_lock(&witness->lock);
    size_t times = witness->times;
    pthread_mutex_unlock(&witness->lock);
    return times;
}

void await_loss_for(struct witness *witness, int seconds)
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

void await_loss(struct witness *witness)
{
    await_loss_for(witness, 60);
}

lks_mutex *new_mutex(const char *name, uint32_t lease_ms, struct witness *witness)
{
    const lks_lock_options options = {.lease_ms = lease_ms, .on_lost = witness ? see_loss : NULL, .arg = witness};
    lks_mutex *mutex = NULL;
    lks_error error;

    if (lks_mutex_new(channel, name, &options, &mutex, &error) != LKS_OK)
        fail_msg("new %s: %s", name, error.message);
    return mutex;
}

lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct witness *witness)
{
    lks_mutex *mutex = new_mutex(name, lease_ms, witness);
    lks_error error;

    if (lks_mutex_lock(mutex, 0, &error) != LKS_LOCK_ACQUIRED)
        fail_msg("lock %s: %s", name, error.message);
    return mutex;
}

void unlock_and_free(lks_mutex *mutex, lks_code code)
{
    assert_int_equal(lks_mutex_unlock(mutex, NULL), code);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

void unlock_held_or_lost(lks_mutex *mutex)
{
    lks_code code = lks_mutex_unlock(mutex, NULL);

    assert_true(code == LKS_OK || code == LKS_ABORTED);
}

lks_mutex **new_locked_mutexes(size_t n, uint32_t lease_ms, struct witness *witness)
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

void free_mutexes(lks_mutex **mutexes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        unlock_and_free(mutexes[i], LKS_OK);
    free(mutexes);
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void let_pass(uint64_t from_ns, uint64_t ms)
{
    while (now_ns() < from_ns + ms * 1000000)
        process_pause();
}
