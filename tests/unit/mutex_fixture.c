/* Only the main thread asserts: see_loss runs on the keeper's thread and records. */
#include "mutex_fixture.h"
#include "test.h"

#include "base/clock.h"
#include "support/process.h"

void see_loss(void *arg, const lks_lock_loss *loss)
{
    struct witness *witness = arg;

    snprintf(witness->name, sizeof witness->name, "%s", loss->name);
    witness->fence = loss->fence;
    witness->reason = loss->reason;
    atomic_fetch_add(&witness->times, 1);
}

void await_loss(const struct witness *witness)
{
    while (atomic_load(&witness->times) == 0)
        process_pause();
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

void lock(lks_mutex *mutex)
{
    lks_error error;

    if (lks_mutex_lock(mutex, 0, &error) != LKS_LOCK_ACQUIRED)
        fail_msg("lock: %s", error.message);
}

lks_mutex *new_locked(const char *name, uint32_t lease_ms, struct witness *witness)
{
    lks_mutex *mutex = new_mutex(name, lease_ms, witness);

    lock(mutex);
    return mutex;
}

void unlock_and_free(lks_mutex *mutex, lks_code code)
{
    assert_int_equal(lks_mutex_unlock(mutex, NULL), code);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

void free_held_or_lost(lks_mutex *mutex)
{
    lks_code code = lks_mutex_unlock(mutex, NULL);

    assert_true(code == LKS_OK || code == LKS_ABORTED);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
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

void let_pass(uint64_t from_ns, uint64_t ms)
{
    while (clock_now_ns() < from_ns + ms * CLOCK_NS_PER_MS)
        process_pause();
}
