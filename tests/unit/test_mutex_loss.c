/* A loss is noticed before the lease can have ended, is reported once, and is permanent. Times are
 * only compared where the result does not depend on the machine's load. */

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/process.h"
#include "unit/mutex_fixture.h"
#include "test.h"

/* The library's next reading of the clock on this thread blocks until then; 0 = it does not. */
static _Thread_local uint64_t clock_blocks_until_ns;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ts)
{
    uint64_t until_ns = clock_blocks_until_ns;

    clock_blocks_until_ns = 0;
    if (until_ns != 0)
        let_pass(until_ns, 0);
    return (int)syscall(SYS_clock_gettime, clock, ts);
}

/* Every check that finds a lock held happened more than a tenth of the lease
 * before its end, counted from when the server got the request that set it, which is
 * the earliest end of this lease. */
static void assert_is_lost_in_time(lks_mutex *mutex, uint64_t got_ns, uint64_t lease_ms)
{
    uint64_t looked_ns = clock_now_ns();

    while (!lks_mutex_is_lost(mutex)) {
        uint64_t left_ns = lks_mutex_left_ms(mutex) * UINT64_C(1000000);
        assert_true(looked_ns + left_ns < got_ns + (lease_ms - lease_ms / 10) * 1000000);
        process_pause();
        looked_ns = clock_now_ns();
    }
    assert_int_equal(lks_mutex_left_ms(mutex), 0);
}

/* ---- why ------------------------------------------------------------------------ */

/* A server that is reached and does not answer. */
/* promise M11: a lock is lost a tenth before its lease ends, counted from the sending */
/* promise M14: a lost lock: LOST when locked again, ABORTED when unlocked, and a Release is sent */
TEST(test_an_unrenewed_lease_is_lost_in_time)
{
    struct witness witness = {0};
    lks_mutex *mutex = new_locked("door", LEASE_MS, &witness);
    fake_event asked = fake_event_at(fake, FAKE_ACQUIRE, "door", 0);
    lks_error error;

    fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    assert_is_lost_in_time(mutex, asked.at_ns, LEASE_MS);
    await_loss(&witness);
    assert_string_equal(witness.name, "door");
    assert_int_equal(witness.fence, 1);
    assert_int_equal(witness.reason, LKS_LOSS_UNRENEWED);
    assert_true(fake_seen(fake, FAKE_RENEW, "door") > 0);

    /* It is not had again while it is not unlocked, and then it is a new one. */
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_LOST);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_unlock(mutex, &error), LKS_ABORTED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.reason, LKS_REASON_LEASE_LOST);
    assert_true(fake_await(fake, FAKE_RELEASE, "door", 1));
    assert_string_equal(fake_event_at(fake, FAKE_RELEASE, "door", 0).token, asked.token);
    fake_behave(fake, (fake_manner){0});
    lock(mutex);
    assert_int_equal(lks_mutex_fence(mutex), 2);
    assert_int_equal(atomic_load(&witness.times), 1);
    unlock_and_free(mutex, LKS_OK);
}

/* The loss is reported at once, not when the lease would have ended. */
/* promise M12: LOST is reported at once */
TEST(test_the_server_says_lost)
{
    enum { LONG_LEASE_MS = 86400000 }; /* it is renewed when a watch begins */
    struct witness witness = {0}, calm = {0};
    lks_mutex *mutex = new_locked("door", LONG_LEASE_MS, &witness), *other = new_locked("gate", LEASE_MS, &calm);

    fake_behave(fake, (fake_manner){.lost = "door"});
    assert_true(fake_await(fake, FAKE_RENEW, "door", 1));
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_TAKEN);
    assert_true(lks_mutex_is_lost(mutex));
    size_t n = fake_seen(fake, FAKE_RENEW, "gate");
    assert_true(fake_await(fake, FAKE_RENEW, "gate", n + 2));
    assert_false(lks_mutex_is_lost(other));
    assert_int_equal(atomic_load(&calm.times), 0);
    assert_int_equal(fake_seen(fake, FAKE_RENEW, "door"), 1);
    unlock_and_free(mutex, LKS_ABORTED);
    unlock_and_free(other, LKS_OK);
}

/* promise M16: max_hold_ms */
TEST(test_max_hold_ends_renewing)
{
    struct witness witness = {0};
    const lks_lock_options options = {
        .lease_ms = LEASE_MS, .max_hold_ms = LEASE_MS / 2, .on_lost = see_loss, .arg = &witness};
    lks_mutex *mutex = NULL;

    assert_int_equal(lks_mutex_new(channel, "door", &options, &mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    await_loss(&witness);
    assert_int_equal(witness.reason, LKS_LOSS_MAX_HOLD);
    assert_int_equal(fake_seen(fake, FAKE_RENEW, "door"), 2); /* with a watch, and a third later */
    unlock_and_free(mutex, LKS_ABORTED);
}

/* ---- once and for all ------------------------------------------------------------ */

/* A renewal that ends after the loss, in whichever way. */
/* promise M13 */
/* promise M14 */
TEST(test_a_lost_lock_stays_lost)
{
    enum { TINY_MS = 30 }; /* a call takes longer than its rest */
    struct witness witness = {0};
    lks_mutex *mutex = new_locked("door", TINY_MS, &witness), *inner = new_mutex("door", TINY_MS, NULL);

    lks_lock_result again = lks_mutex_lock(inner, 0, NULL);
    fake_behave(fake, (fake_manner){.holds[FAKE_RENEW] = true});
    await_loss(&witness);
    fake_behave(fake, (fake_manner){0});
    lks_mutex *other = new_locked("gate", SHORT_MS, NULL);
    assert_true(fake_await(fake, FAKE_RENEW, "gate", 1));
    size_t n = fake_seen(fake, FAKE_RENEW, "door");
    assert_true(fake_await(fake, FAKE_RENEW, "gate", 3));
    assert_int_equal(fake_seen(fake, FAKE_RENEW, "door"), n);
    assert_true(lks_mutex_is_lost(mutex));
    assert_true(lks_mutex_is_lost(inner));
    assert_int_equal(atomic_load(&witness.times), 1);
    if (again == LKS_LOCK_ACQUIRED)
        assert_int_equal(lks_mutex_unlock(inner, NULL), LKS_ABORTED); /* the inner unlock gets it too */
    unlock_and_free(mutex, LKS_ABORTED);
    assert_int_equal(lks_mutex_free(inner), LKS_OK);
    free_held_or_lost(other);
}

/* A thread checks its lock and sleeps until the lease would have ended without the renewals. */
/* promise M13 */
TEST(test_a_look_during_a_renewal_does_not_say_lost_and_then_held)
{
    lks_mutex *mutex = new_locked("door", SHORT_MS, NULL);

    clock_blocks_until_ns = clock_now_ns() + SHORT_MS * UINT64_C(1000000);
    bool lost = lks_mutex_is_lost(mutex);
    assert_int_equal(clock_blocks_until_ns, 0);
    if (lost)
        assert_true(lks_mutex_is_lost(mutex));
    free_held_or_lost(mutex);
}

/* ---- counted from the sending ---------------------------------------------------- */

/* To wait for a late answer. */
static void open_channel_without_retries(void)
{
    const lks_channel_options once = {.no_retry = true};

    lks_channel_close(channel);
    assert_int_equal(lks_channel_open(fake_url(fake), &once, &channel, NULL), LKS_OK);
}

/* The answer is late, the lease began when the request came. */
/* promise M11 */
TEST(test_a_late_answer_makes_no_longer_lease)
{
    enum { LONG_LEASE_MS = 9000, LATE_MS = 1000 }; /* not so late that a renewal is due */

    open_channel_without_retries();
    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ACQUIRE] = LATE_MS, .holds[FAKE_RENEW] = true});
    lks_mutex *mutex = new_locked("door", LONG_LEASE_MS, NULL);
    fake_event asked = fake_event_at(fake, FAKE_ACQUIRE, "door", 0);
    assert_is_lost_in_time(mutex, asked.at_ns, LONG_LEASE_MS);
    unlock_and_free(mutex, LKS_ABORTED);
}

/* An answer older than the lease: only a renewal shows whether the lock is held. */
/* promise M15: a grant older than a third of its lease is confirmed */
TEST(test_a_grant_after_a_long_wait_is_confirmed)
{
    lks_mutex *mutex = new_mutex("door", SHORT_MS, NULL);
    lks_error error;

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ACQUIRE] = SHORT_MS + 300});
    assert_int_equal(lks_mutex_lock(mutex, 60000, NULL), LKS_LOCK_ACQUIRED);
    assert_true(fake_seen(fake, FAKE_RENEW, "door") >= 1);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ACQUIRE] = SHORT_MS, .lost = "door"});
    assert_int_equal(lks_mutex_lock(mutex, 60000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_true(fake_await(fake, FAKE_RELEASE, "door", 2));

    fake_behave(fake, (fake_manner){.delay_ms[FAKE_ACQUIRE] = SHORT_MS, .fails[FAKE_RENEW] = LKS_INTERNAL});
    assert_int_equal(lks_mutex_lock(mutex, 60000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_INTERNAL);
    assert_true(fake_await(fake, FAKE_RELEASE, "door", 3));
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(fake_event_at(fake, FAKE_RELEASE, "door", i).token,
                            fake_event_at(fake, FAKE_ACQUIRE, "door", i).token);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* ---- callbacks ------------------------------------------------------------------ */

/* What is tried in an on_lost, and what came of it. */
struct tries {
    struct witness seen;
    lks_mutex *mutex, *other;
    lks_code unlocked, unlocked_other, freed;
    lks_lock_result locked;
};

static void try_all(void *arg, const lks_lock_loss *loss)
{
    struct tries *tries = arg;

    tries->unlocked = lks_mutex_unlock(tries->mutex, NULL);
    tries->unlocked_other = lks_mutex_unlock(tries->other, NULL);
    tries->locked = lks_mutex_lock(tries->mutex, 0, NULL);
    tries->freed = lks_mutex_free(tries->mutex);
    see_loss(&tries->seen, loss);
}

/* promise M17 */
TEST(test_calls_allowed_in_a_loss_callback)
{
    struct tries tries = {.other = new_locked("gate", LEASE_MS, NULL)};
    const lks_lock_options options = {.lease_ms = LEASE_MS, .on_lost = try_all, .arg = &tries};

    assert_int_equal(lks_mutex_new(channel, "door", &options, &tries.mutex, NULL), LKS_OK);
    lock(tries.mutex);
    fake_behave(fake, (fake_manner){.lost = "door"});
    await_loss(&tries.seen);
    assert_int_equal(tries.unlocked, LKS_ABORTED);
    assert_true(fake_await(fake, FAKE_RELEASE, "door", 1));
    assert_int_equal(tries.unlocked_other, LKS_FAILED_PRECONDITION);
    assert_int_equal(tries.locked, LKS_LOCK_FAILED);
    assert_int_equal(tries.freed, LKS_FAILED_PRECONDITION);
    assert_int_equal(fake_seen(fake, FAKE_RELEASE, "gate"), 0);
    assert_false(lks_mutex_is_lost(tries.other));
    unlock_and_free(tries.mutex, LKS_ABORTED);
    unlock_and_free(tries.other, LKS_OK);
}

struct slow {
    atomic_bool began, freed, freed_meanwhile, ended;
};

static void be_slow(void *arg, const lks_lock_loss *loss)
{
    struct slow *slow = arg;

    atomic_store(&slow->began, true);
    for (int i = 0; i < 100 && !atomic_load(&slow->freed); i++)
        process_pause();
    atomic_store(&slow->freed_meanwhile, atomic_load(&slow->freed));
    atomic_store(&slow->ended, true);
}

/* promise M17: what callbacks may call; free waits for them */
TEST(test_free_waits_for_the_callback)
{
    struct slow slow = {0};
    const lks_lock_options options = {.lease_ms = SHORT_MS, .on_lost = be_slow, .arg = &slow};
    lks_mutex *mutex = NULL;

    fake_behave(fake, (fake_manner){.lost = "door"});
    assert_int_equal(lks_mutex_new(channel, "door", &options, &mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_ACQUIRED);
    while (!atomic_load(&slow.began))
        process_pause();
    unlock_and_free(mutex, LKS_ABORTED);
    atomic_store(&slow.freed, true);
    while (!atomic_load(&slow.ended))
        process_pause();
    assert_false(atomic_load(&slow.freed_meanwhile));
}

/* A permit that its own callback releases. The semaphore stays until after that. */
struct owner {
    lks_semaphore *semaphore;
    lks_permit *_Atomic permit;
    lks_code released, freed;
    atomic_bool told;
};

static void release_in_callback(void *arg, const lks_lock_loss *loss)
{
    struct owner *owner = arg;

    while (!atomic_load(&owner->permit))
        process_pause();
    owner->released = lks_permit_release(atomic_load(&owner->permit), NULL);
    owner->freed = lks_semaphore_free(owner->semaphore);
    atomic_store(&owner->told, true);
}

/* promise M17 */
TEST(test_a_callback_may_release_its_permit)
{
    struct owner owner = {0};
    lks_permit *permit = NULL;
    const lks_lock_options options = {.lease_ms = SHORT_MS, .on_lost = release_in_callback, .arg = &owner};

    fake_behave(fake, (fake_manner){.lost = "seats"});
    assert_int_equal(lks_semaphore_new(channel, "seats", 2, &options, &owner.semaphore, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_acquire(owner.semaphore, 1, 0, &permit, NULL), LKS_LOCK_ACQUIRED);
    atomic_store(&owner.permit, permit);
    while (!atomic_load(&owner.told))
        process_pause();
    assert_int_equal(owner.released, LKS_ABORTED);
    assert_int_equal(owner.freed, LKS_FAILED_PRECONDITION);
    assert_true(fake_await(fake, FAKE_RELEASE, "seats", 1));
    assert_int_equal(lks_semaphore_free(owner.semaphore), LKS_OK);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
