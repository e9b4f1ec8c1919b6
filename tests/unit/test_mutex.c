/* The lock library's calls to the server: which, how often, by which object, and the handling
 * of each answer. */

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/mutex_fixture.h"
#include "test.h"

static lks_mutex *new_plain(const char *name)
{
    return new_mutex(name, 0, NULL);
}

static lks_mutex *new_with(const char *name, lks_lock_options options)
{
    lks_mutex *mutex = NULL;

    assert_int_equal(lks_mutex_new(channel, name, &options, &mutex, NULL), LKS_OK);
    return mutex;
}

static lks_rwlock *new_rwlock(const char *name)
{
    lks_rwlock *rwlock = NULL;

    assert_int_equal(lks_rwlock_new(channel, name, NULL, &rwlock, NULL), LKS_OK);
    return rwlock;
}

/* Earlier background calls have arrived when a later call is answered. */
static void assert_nothing_else_was_released(lks_mutex *mutex, size_t n)
{
    fake_behave(fake, (fake_manner){0});
    lock(mutex);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), n + 1);
}

/* ---- a lock and its calls ------------------------------------------------------ */

TEST(test_lock_and_unlock_are_a_call_each)
{
    lks_mutex *mutex = new_plain("door");
    lks_error error = {.code = LKS_INTERNAL};
    char host[64] = "", owner[160];

    assert_true(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_fence(mutex), 0);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 0);
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_ACQUIRED);
    assert_int_equal(error.code, LKS_OK);
    assert_false(lks_mutex_is_lost(mutex));
    assert_in_range(lks_mutex_left_ms(mutex), 1, 30000);
    assert_int_equal(lks_mutex_fence(mutex), 1);
    assert_int_equal(lks_mutex_unlock(mutex, &error), LKS_OK);
    assert_true(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_left_ms(mutex), 0);
    assert_int_equal(lks_mutex_fence(mutex), 0);

    fake_event asked = event_of(FAKE_ACQUIRE, 0), released = event_of(FAKE_RELEASE, 0);
    gethostname(host, sizeof host - 1);
    snprintf(owner, sizeof owner, "%s/%d", host, (int)getpid());
    assert_string_equal(asked.name, "door");
    assert_string_equal(asked.group, "door");
    assert_string_equal(asked.owner, owner);
    assert_int_equal(asked.mode, LKS_LOCK_MODE_EXCLUSIVE);
    assert_int_equal(asked.lease_ms, 30000);
    assert_int_equal(asked.wait_ms, 0);
    assert_int_equal(strlen(asked.token), 32);
    assert_string_equal(released.group, "door");
    assert_string_equal(released.token, asked.token);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* promise CH7: a wait of more than a day is one of a day */
TEST(test_options_are_sent)
{
    lks_mutex *mutex = new_with("door", (lks_lock_options){.group = "house", .owner = "me", .lease_ms = 12345});

    assert_int_equal(lks_mutex_lock(mutex, UINT32_MAX, NULL), LKS_LOCK_ACQUIRED);
    fake_event asked = event_of(FAKE_ACQUIRE, 0);
    assert_string_equal(asked.group, "house");
    assert_string_equal(asked.name, "door");
    assert_string_equal(asked.owner, "me");
    assert_int_equal(asked.lease_ms, 12345);
    assert_int_equal(asked.wait_ms, 86400000);
    unlock_and_free(mutex, LKS_OK);
}

/* An answer that was lost is asked for again as the same acquisition. */
/* promise M3: a new token each acquisition, the same in its retries */
TEST(test_each_acquisition_has_its_token)
{
    lks_mutex *mutex = new_locked("door", 0, NULL);

    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    fake_behave(fake,
                (fake_manner){.fails[FAKE_ACQUIRE] = LKS_UNAVAILABLE, .applied = LKS_APPLIED_MAYBE, .fail_times = 1});
    lock(mutex);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 3);
    assert_string_not_equal(event_of(FAKE_ACQUIRE, 0).token, event_of(FAKE_ACQUIRE, 1).token);
    assert_string_equal(event_of(FAKE_ACQUIRE, 1).token, event_of(FAKE_ACQUIRE, 2).token);
    unlock_and_free(mutex, LKS_OK);
}

/* ---- reentrancy ----------------------------------------------------------------- */

/* promise M1: reentrant by (thread, channel, group, name): one call */
TEST(test_reentrancy_is_one_call)
{
    lks_mutex *mutex = new_plain("door"), *same = new_plain("door");
    lks_rwlock *writer = new_rwlock("door");

    lock(mutex);
    lock(mutex);
    lock(same);
    assert_int_equal(lks_rwlock_write(writer, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_mutex_fence(same), 1);
    assert_false(lks_rwlock_is_lost(writer));
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(lks_mutex_unlock(same, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 0);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 1);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
    assert_int_equal(lks_mutex_free(same), LKS_OK);
    assert_int_equal(lks_rwlock_free(writer), LKS_OK);
}

/* (channel, group, name) identifies a lock. */
/* promise M1 */
TEST(test_other_locks_are_other_locks)
{
    lks_channel *other_channel = NULL;
    lks_mutex *elsewhere = NULL;
    lks_mutex *mutexes[] = {
        new_plain("door"),
        new_with("gate", (lks_lock_options){.group = "door"}),
        new_with("door", (lks_lock_options){.group = "house"}),
    };

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lks_mutex_lock(mutexes[i], 0, NULL), LKS_LOCK_ACQUIRED);
        assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), i + 1);
    }
    assert_int_equal(lks_channel_open(fake_url(fake), NULL, &other_channel, NULL), LKS_OK);
    assert_int_equal(lks_mutex_new(other_channel, "door", NULL, &elsewhere, NULL), LKS_OK);
    assert_int_equal(lks_mutex_unlock(elsewhere, NULL), LKS_FAILED_PRECONDITION);
    lock(elsewhere);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 4);
    unlock_and_free(elsewhere, LKS_OK);
    lks_channel_close(other_channel);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(lks_mutex_unlock(mutexes[i], NULL), LKS_OK);
        lks_mutex_free(mutexes[i]);
    }
}

/* The state of a lock of this thread, as another thread sees it. */
struct intruder {
    lks_mutex *mutex;
    lks_code unlocked;
    bool lost;
    uint64_t fence;
    lks_lock_result locked;
    lks_code unlocked_own;
};

static void *intrude(void *arg)
{
    struct intruder *intruder = arg;

    intruder->unlocked = lks_mutex_unlock(intruder->mutex, NULL);
    intruder->lost = lks_mutex_is_lost(intruder->mutex);
    intruder->fence = lks_mutex_fence(intruder->mutex);
    intruder->locked = lks_mutex_lock(intruder->mutex, 0, NULL);
    intruder->unlocked_own = lks_mutex_unlock(intruder->mutex, NULL);
    return NULL;
}

/* promise M2 */
TEST(test_another_thread_is_another_owner)
{
    lks_mutex *mutex = new_locked("door", 0, NULL);
    struct intruder intruder = {.mutex = mutex};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, intrude, &intruder), 0);
    pthread_join(thread, NULL);
    assert_int_equal(intruder.unlocked, LKS_FAILED_PRECONDITION);
    assert_true(intruder.lost);
    assert_int_equal(intruder.fence, 0);
    /* It asked the server for itself, and gave back its own (this server grants all). */
    assert_int_equal(intruder.locked, LKS_LOCK_ACQUIRED);
    assert_int_equal(intruder.unlocked_own, LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 2);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 1);
    assert_string_equal(event_of(FAKE_RELEASE, 0).token, event_of(FAKE_ACQUIRE, 1).token);

    assert_false(lks_mutex_is_lost(mutex));
    unlock_and_free(mutex, LKS_OK);
}

/* ---- refusals and failures ------------------------------------------------------ */

/* promise M5: BUSY, TIMED_OUT and failures apart */
/* promise M6 */
TEST(test_refusals_are_distinguished)
{
    lks_mutex *mutex = new_plain("door");
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_ACQUIRE] = LKS_ACQUIRE_OUTCOME_BUSY});
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_BUSY);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(error.reason, LKS_REASON_BUSY);
    assert_int_equal(lks_mutex_lock(mutex, 0, NULL), LKS_LOCK_BUSY);
    fake_behave(fake, (fake_manner){.outcome[FAKE_ACQUIRE] = LKS_ACQUIRE_OUTCOME_TIMED_OUT});
    assert_int_equal(lks_mutex_lock(mutex, 5, &error), LKS_LOCK_TIMED_OUT);
    assert_int_equal(error.code, LKS_DEADLINE_EXCEEDED);
    fake_behave(fake, (fake_manner){.outcome[FAKE_ACQUIRE] = LKS_ACQUIRE_OUTCOME_TOKEN_SPENT});
    assert_int_equal(lks_mutex_lock(mutex, 5, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_ABORTED);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_FAILED_PRECONDITION);
    assert_true(lks_mutex_is_lost(mutex));
    assert_nothing_else_was_released(mutex, 0);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* A lock that cannot be released at once is released in the background. */
/* promise M6 */
TEST(test_a_refused_lock_is_given_back_as_soon_as_a_server_answers)
{
    lks_mutex *mutex = new_plain("door");
    lks_error error;

    fake_behave(fake, (fake_manner){.fails[FAKE_ACQUIRE] = LKS_UNAVAILABLE,
                                    .applied = LKS_APPLIED_MAYBE,
                                    .fail_times = 1,
                                    .outcome[FAKE_ACQUIRE] = LKS_ACQUIRE_OUTCOME_BUSY,
                                    .holds[FAKE_RELEASE] = true});
    assert_int_equal(lks_mutex_lock(mutex, 0, &error), LKS_LOCK_BUSY);
    assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
    size_t n = fake_calls(fake, FAKE_RELEASE);
    assert_true(fake_await(fake, FAKE_RELEASE, "door", n + 1));
    fake_behave(fake, (fake_manner){0});
    for (size_t i = 0; i <= n; i++)
        assert_string_equal(event_of(FAKE_RELEASE, i).token, event_of(FAKE_ACQUIRE, 0).token);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* As its tries did, or at its deadline: on a machine that is busy the last of them may be cut short. */
static void assert_failed_as(lks_code code, lks_code of_each_try)
{
    if (code != of_each_try)
        assert_int_equal(code, LKS_DEADLINE_EXCEEDED);
}

TEST(test_unlock_returns_its_outcome)
{
    lks_mutex *mutex = new_locked("door", 0, NULL);
    lks_error error;

    fake_behave(fake, (fake_manner){.outcome[FAKE_RELEASE] = LKS_RELEASE_OUTCOME_NOT_HELD});
    assert_int_equal(lks_mutex_unlock(mutex, &error), LKS_ABORTED);
    assert_int_equal(error.code, LKS_ABORTED);

    lock(mutex);
    fake_behave(fake, (fake_manner){.fails[FAKE_RELEASE] = LKS_INTERNAL});
    assert_failed_as(lks_mutex_unlock(mutex, &error), LKS_INTERNAL);
    assert_int_equal(lks_mutex_unlock(mutex, &error), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
}

/* The option `undo` of Acquire: a call that its caller cancels leaves nothing. */
/* promise CH14 */
TEST(test_a_cancelled_acquire_is_released)
{
    lks_acquire_request request = LKS_ACQUIRE_REQUEST_INIT;
    lks_target target = LKS_TARGET_INIT, *targets[] = {&target};
    const fake_manner slow = {.holds = {[FAKE_ACQUIRE] = true}};
    static char *const groups[] = {"", "a group"};

    fake_behave(fake, slow);
    target.name = "door";
    request.n_targets = 1;
    request.targets = targets;
    request.lease_ms = 30000;
    request.wait_ms = 60000;
    for (size_t i = 0; i < 2; i++) {
        lks_call *call = NULL;
        lks_error error;
        request.group = groups[i];
        assert_int_equal(lks_lock_acquire_start(channel, &request, NULL, NULL, NULL, &call, NULL), LKS_OK);
        assert_true(fake_await(fake, FAKE_ACQUIRE, NULL, i + 1));
        lks_call_cancel(call);
        assert_int_equal(lks_call_wait(call, &error), LKS_CANCELLED);
        assert_int_equal(error.applied, LKS_APPLIED_MAYBE);
        lks_call_free(call);
        assert_true(fake_await(fake, FAKE_RELEASE, NULL, i + 1));
        fake_event released = event_of(FAKE_RELEASE, i);
        assert_string_equal(released.group, i == 0 ? "door" : "a group");
        assert_string_equal(released.token, event_of(FAKE_ACQUIRE, i).token);
    }
    fake_behave(fake, (fake_manner){0});
}

/* promise CH3 */
TEST(test_a_release_is_retried_until_it_succeeds)
{
    const lks_channel_options brief = {.timeout_ms = 2000};
    lks_mutex *mutex = new_plain("door"), *other = NULL;
    lks_channel *impatient = NULL;
    lks_error error;

    lock(mutex);
    fake_behave(fake, (fake_manner){.fails[FAKE_RELEASE] = LKS_RESOURCE_EXHAUSTED, .fail_times = 3});
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 4);
    lks_mutex_free(mutex);

    /* Longer than its caller waits, in the background. */
    assert_int_equal(lks_channel_open(fake_url(fake), &brief, &impatient, NULL), LKS_OK);
    assert_int_equal(lks_mutex_new(impatient, "gate", NULL, &other, NULL), LKS_OK);
    lock(other);
    fake_behave(fake, (fake_manner){.fails[FAKE_RELEASE] = LKS_UNAVAILABLE});
    assert_failed_as(lks_mutex_unlock(other, &error), LKS_UNAVAILABLE);
    size_t tried = fake_calls(fake, FAKE_RELEASE);
    fake_behave(fake, (fake_manner){.outcome[FAKE_ACQUIRE] = 0});
    assert_true(fake_await(fake, FAKE_RELEASE, "gate", tried - 4 + 1));
    lks_mutex_free(other);
    lks_channel_close(impatient);
}

/* promise M18: the scoped form unlocks; a held lock is not freed */
TEST(test_a_held_mutex_is_not_freed)
{
    lks_mutex *mutex = new_plain("door"), *same = new_plain("door");

    assert_int_equal(lks_mutex_free(NULL), LKS_OK);
    lock(mutex);
    lock(same);
    assert_int_equal(lks_mutex_free(mutex), LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(lks_mutex_free(mutex), LKS_FAILED_PRECONDITION);
    unlock_and_free(mutex, LKS_OK);
    assert_int_equal(lks_mutex_free(same), LKS_OK);
}

/* ---- the scoped form ------------------------------------------------------------ */

static lks_lock_result work_under_guard(lks_mutex *mutex, uint64_t *fence)
{
    LKS_MUTEX_GUARD guard = lks_mutex_guard_take(mutex, 0, NULL);

    if (guard.result != LKS_LOCK_ACQUIRED)
        return guard.result;
    *fence = lks_mutex_fence(mutex);
    return guard.result;
}

/* promise M18 */
TEST(test_a_guard_unlocks_at_the_end_of_its_block)
{
    lks_mutex *mutex = new_plain("door");
    uint64_t fence = 0;

    assert_int_equal(work_under_guard(mutex, &fence), LKS_LOCK_ACQUIRED);
    assert_int_equal(fence, 1);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 1);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_FAILED_PRECONDITION);
    {
        LKS_MUTEX_GUARD guard = lks_mutex_guard_take(mutex, 0, NULL);
        lks_mutex_guard_release(&guard);
        assert_int_equal(fake_calls(fake, FAKE_RELEASE), 2);
    }
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 2);
    fake_behave(fake, (fake_manner){.outcome[FAKE_ACQUIRE] = LKS_ACQUIRE_OUTCOME_BUSY});
    assert_int_equal(work_under_guard(mutex, &fence), LKS_LOCK_BUSY);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 2);
    lks_mutex_free(mutex);
}

/* promise M18 */
TEST(test_guards_of_rwlocks_and_permits)
{
    lks_rwlock *rwlock = new_rwlock("book");
    lks_semaphore *semaphore = NULL;

    assert_int_equal(lks_semaphore_new(channel, "seats", 2, NULL, &semaphore, NULL), LKS_OK);
    {
        LKS_RWLOCK_GUARD reader = lks_rwlock_guard_read(rwlock, 0, NULL);
        LKS_PERMIT lks_permit *permit = NULL, *none = NULL;
        assert_int_equal(reader.result, LKS_LOCK_ACQUIRED);
        assert_int_equal(lks_semaphore_acquire(semaphore, 1, 0, &permit, NULL), LKS_LOCK_ACQUIRED);
        assert_null(none);
    }
    {
        LKS_RWLOCK_GUARD writer = lks_rwlock_guard_write(rwlock, 0, NULL);
        assert_int_equal(writer.result, LKS_LOCK_ACQUIRED);
    }
    assert_int_equal(fake_seen(fake, FAKE_RELEASE, "book"), 2);
    assert_int_equal(fake_seen(fake, FAKE_RELEASE, "seats"), 1);
    assert_int_equal(lks_rwlock_free(rwlock), LKS_OK);
    assert_int_equal(lks_semaphore_free(semaphore), LKS_OK);
}

/* ---- read-write locks and semaphores --------------------------------------------- */

/* promise M4: no upgrade; a writer reads */
TEST(test_readers_and_writers)
{
    lks_rwlock *rwlock = new_rwlock("book");
    lks_mutex *mutex = new_plain("book");
    lks_error error;

    assert_int_equal(lks_rwlock_read(rwlock, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_rwlock_read(rwlock, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(event_of(FAKE_ACQUIRE, 0).mode, LKS_LOCK_MODE_SHARED);
    /* An upgrade would wait for itself, as a mutex too. */
    assert_int_equal(lks_rwlock_write(rwlock, 1000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    assert_non_null(strstr(error.message, "reading"));
    assert_int_equal(lks_mutex_lock(mutex, 1000, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(lks_rwlock_unlock(rwlock, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 0);
    assert_int_equal(lks_rwlock_unlock(rwlock, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 1);

    /* A writer may read, and still holds the write lock afterwards. */
    assert_int_equal(lks_rwlock_write(rwlock, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(event_of(FAKE_ACQUIRE, 1).mode, LKS_LOCK_MODE_EXCLUSIVE);
    assert_int_equal(lks_rwlock_read(rwlock, 0, NULL), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_rwlock_fence(rwlock), 2);
    assert_int_equal(lks_rwlock_unlock(rwlock, NULL), LKS_OK);
    lock(mutex);
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(lks_rwlock_unlock(rwlock, NULL), LKS_OK);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 2);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 2);
    lks_rwlock_free(rwlock);
    lks_mutex_free(mutex);
}

static void *release_permit(void *permit)
{
    return (void *)(uintptr_t)lks_permit_release(permit, NULL);
}

TEST(test_permits_belong_to_no_thread)
{
    lks_semaphore *semaphore = NULL;
    lks_permit *first = NULL, *second = NULL;
    lks_error error;
    pthread_t thread;
    void *released = (void *)1;

    assert_int_equal(lks_semaphore_new(channel, "seats", 5, NULL, &semaphore, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_acquire(semaphore, 0, 0, &first, &error), LKS_LOCK_FAILED);
    assert_int_equal(error.code, LKS_INVALID_ARGUMENT);
    assert_int_equal(lks_semaphore_acquire(semaphore, 3, 0, &first, &error), LKS_LOCK_ACQUIRED);
    assert_int_equal(lks_semaphore_acquire(semaphore, 2, 40, &second, &error), LKS_LOCK_ACQUIRED);
    fake_event asked = event_of(FAKE_ACQUIRE, 0), again = event_of(FAKE_ACQUIRE, 1);
    assert_int_equal(asked.mode, LKS_LOCK_MODE_PERMIT);
    assert_int_equal(asked.permits, 3);
    assert_int_equal(asked.capacity, 5);
    assert_int_equal(again.permits, 2);
    assert_int_equal(again.wait_ms, 40);
    assert_string_not_equal(asked.token, again.token);
    assert_int_equal(lks_permit_fence(first), 1);
    assert_int_equal(lks_permit_fence(second), 2);
    assert_false(lks_permit_is_lost(first));

    assert_int_equal(lks_semaphore_free(semaphore), LKS_FAILED_PRECONDITION);
    assert_int_equal(pthread_create(&thread, NULL, release_permit, first), 0);
    pthread_join(thread, &released);
    assert_ptr_equal(released, NULL);
    assert_string_equal(event_of(FAKE_RELEASE, 0).token, asked.token);
    assert_int_equal(lks_permit_release(second, &error), LKS_OK);
    assert_string_equal(event_of(FAKE_RELEASE, 1).token, again.token);
    assert_int_equal(lks_permit_release(NULL, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_free(semaphore), LKS_OK);
}

/* ---- where locking is not possible ----------------------------------------------- */

struct late {
    lks_mutex *mutex;
    lks_permit *permit;
    lks_lock_result locked;
    lks_error error;
    lks_code released;
};

static void lock_on_completion(void *arg, lks_code code, const lks_release_response *response, const lks_error *error)
{
    struct late *late = arg;

    late->locked = lks_mutex_lock(late->mutex, 0, &late->error);
    late->released = lks_permit_release(late->permit, NULL);
}

/* A callback of a call must not block: it may give a permit back, but not lock. */
TEST(test_on_the_completion_thread)
{
    lks_release_request request = LKS_RELEASE_REQUEST_INIT;
    struct late late = {.mutex = new_plain("door")};
    lks_semaphore *semaphore = NULL;
    lks_call *call = NULL;

    assert_int_equal(lks_semaphore_new(channel, "seats", 1, NULL, &semaphore, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_acquire(semaphore, 1, 0, &late.permit, NULL), LKS_LOCK_ACQUIRED);
    char group[] = "any", token[] = "a-token-of-some-length";
    request.group = group;
    request.token = token;
    assert_int_equal(lks_lock_release_start(channel, &request, NULL, lock_on_completion, &late, &call, NULL), LKS_OK);
    assert_int_equal(lks_call_wait(call, NULL), LKS_OK);
    lks_call_free(call);
    assert_int_equal(late.locked, LKS_LOCK_FAILED);
    assert_int_equal(late.error.code, LKS_FAILED_PRECONDITION);
    assert_int_equal(late.released, LKS_OK);
    assert_true(fake_await(fake, FAKE_RELEASE, "seats", 1));
    assert_int_equal(lks_semaphore_free(semaphore), LKS_OK);
    assert_int_equal(lks_mutex_free(late.mutex), LKS_OK);
}

/* The results of all functions in a child of fork, one bit for each unexpected one. */
static int try_all_in_child(lks_mutex *mutex, lks_permit *permit, lks_semaphore *semaphore)
{
    lks_mutex *new = NULL;
    lks_permit *other = NULL;
    lks_error error;
    int wrong = 0;

    wrong |= (lks_mutex_lock(mutex, 0, &error) != LKS_LOCK_FAILED || error.code != LKS_FAILED_PRECONDITION) << 0;
    wrong |= (lks_mutex_unlock(mutex, &error) != LKS_FAILED_PRECONDITION) << 1;
    wrong |= (!lks_mutex_is_lost(mutex)) << 2;
    wrong |= (lks_mutex_fence(mutex) != 0) << 3;
    wrong |= (lks_mutex_free(mutex) != LKS_FAILED_PRECONDITION) << 4;
    wrong |= (lks_mutex_new(channel, "new", NULL, &new, &error) != LKS_FAILED_PRECONDITION) << 5;
    wrong |= (lks_permit_release(permit, &error) != LKS_FAILED_PRECONDITION) << 6;
    wrong |= (!lks_permit_is_lost(permit) || lks_semaphore_acquire(semaphore, 1, 0, &other, &error) != LKS_LOCK_FAILED)
             << 7;
    return wrong;
}

/* promise M19: a child of fork holds no lock */
TEST(test_a_forked_child_holds_no_lock)
{
    lks_mutex *mutex = new_plain("door");
    lks_semaphore *semaphore = NULL;
    lks_permit *permit = NULL;
    int status = -1;

    assert_int_equal(lks_semaphore_new(channel, "seats", 1, NULL, &semaphore, NULL), LKS_OK);
    assert_int_equal(lks_semaphore_acquire(semaphore, 1, 0, &permit, NULL), LKS_LOCK_ACQUIRED);
    lock(mutex);
    pid_t child = fork();
    if (child == 0)
        _exit(try_all_in_child(mutex, permit, semaphore));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(fake_calls(fake, FAKE_RELEASE), 0);
    assert_int_equal(fake_calls(fake, FAKE_ACQUIRE), 2);
    assert_false(lks_mutex_is_lost(mutex));
    assert_int_equal(lks_mutex_unlock(mutex, NULL), LKS_OK);
    assert_int_equal(lks_permit_release(permit, NULL), LKS_OK);
    assert_int_equal(lks_mutex_free(mutex), LKS_OK);
    assert_int_equal(lks_semaphore_free(semaphore), LKS_OK);
}

TEST_MAIN(.setup = setup, .teardown = teardown)
