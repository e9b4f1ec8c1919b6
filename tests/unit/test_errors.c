/* Every public function that takes an lks_error sets it or clears it, on each of its ways out. */
#include <lockstock/hold.h>
#include <lockstock/host.h>
#include <lockstock/limiter.h>
#include <lockstock/lockstock.h>
#include <lockstock/mutex.h>
#include <lockstock/once.h>
#include <lockstock/reservation.h>
#include <lockstock/rwlock.h>
#include <lockstock/semaphore.h>
#include <lockstock/v1/lock.lks_client.h>

#include <stdatomic.h>

#include "support/process.h"
#include "unit/helpers_fixture.h"
#include "unit/shop.h"
#include "test.h"

enum { POISON = 0xa5 };

static lks_error error;
static atomic_int ended; /* operations that were started */

static void check(const char *call, lks_code code)
{
    bool ends = memchr(error.message, '\0', sizeof error.message) && memchr(error.field, '\0', sizeof error.field);

    if (error.code != code || !ends || (code == LKS_OK) != (error.message[0] == '\0') || (unsigned)error.origin > 1 ||
        (unsigned)error.applied > LKS_APPLIED_MAYBE)
        fail_msg("%s: *error is %d, not %s", call, (int)error.code, lks_code_name(code));
}

#define SETS(expected, call) (memset(&error, POISON, sizeof error), (void)(call), check(#call, expected))
#define CLEARS(call) SETS(LKS_OK, call)

/* ---- what the calls need --------------------------------------------------------------------- */

static lks_once_verdict once(void *arg, lks_once_attempt *attempt)
{
    return LKS_ONCE_STORE;
}

static void once_done(void *arg, lks_once_outcome outcome, lks_once_result *result, const lks_error *why)
{
    lks_once_result_free(result);
}

static void answered(void *arg, lks_code code, const lks_inspect_response *response, const lks_error *why)
{
}

/* A callback that counts. */
#define ENDS(name, ...)              \
    static void name(__VA_ARGS__)    \
    {                                \
        atomic_fetch_add(&ended, 1); \
    }
ENDS(hold_done, void *arg, lks_hold *hold, lks_lock_result result, const lks_error *why)
ENDS(checked, void *arg, bool allowed, const lks_limiter_decision *decision, const lks_error *why)
ENDS(made, void *arg, lks_reserve_outcome outcome, const lks_error *why)
ENDS(confirmed, void *arg, lks_confirm_outcome outcome, const lks_error *why)
ENDS(cancelled, void *arg, lks_cancel_outcome outcome, const lks_error *why)
ENDS(released, void *arg, lks_code code, const lks_error *why)

static void await_ended(int n)
{
    while (atomic_load(&ended) < n) /* ctest ends it if it never happens */
        process_pause();
}

static const lks_extend_request extend = LKS_EXTEND_REQUEST_INIT;
static const lks_call_options long_metadata = {.metadata = &(lks_metadata){.key = "BAD KEY"}, .n_metadata = 1};

/* promise AB4: each public function sets or clears *error, whether it succeeds or fails */
TEST(calls_set_or_clear_their_error)
{
    lks_channel *other = NULL;
    lks_call *call = NULL;

    SETS(LKS_INVALID_ARGUMENT, lks_channel_open("no url", NULL, &other, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_channel_open("tcp://h:1", &(lks_channel_options){.token = " "}, &other, &error));
    CLEARS(lks_channel_open(fake_url(fake), NULL, &other, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_channel_reload_tls(other, &error));
    lks_channel_close(other);
    CLEARS(lks_channel_open("tls://127.0.0.1:1", NULL, &other, &error));
    CLEARS(lks_channel_reload_tls(other, &error));
    lks_channel_close(other);
    CLEARS(lks_idempotency_extend(channel, &extend, NULL, NULL, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_idempotency_extend(channel, &extend, &long_metadata, NULL, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_lock_inspect_start(channel, &(lks_inspect_request)LKS_INSPECT_REQUEST_INIT,
                                                      &long_metadata, answered, NULL, &call, &error));
    CLEARS(lks_lock_inspect_start(channel, &(lks_inspect_request)LKS_INSPECT_REQUEST_INIT, NULL, answered, NULL, &call,
                                  &error));
    SETS(LKS_UNIMPLEMENTED, lks_call_wait(call, &error));
    lks_call_free(call);
}

TEST(locks_set_or_clear_their_error)
{
    lks_mutex *mutex = NULL;
    lks_rwlock *rwlock = NULL;
    lks_semaphore *semaphore = NULL;
    lks_permit *permit = NULL;
    lks_hold *hold = NULL;
    const char *name = "h";
    const lks_lock_options short_lease = {.lease_ms = 1};

    SETS(LKS_INVALID_ARGUMENT, lks_mutex_new(channel, "m", &short_lease, &mutex, &error));
    CLEARS(lks_mutex_new(channel, "m", NULL, &mutex, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_mutex_unlock(mutex, &error));
    CLEARS(lks_mutex_lock(mutex, 0, &error));
    CLEARS(lks_mutex_lock(mutex, 0, &error));
    CLEARS(lks_mutex_unlock(mutex, &error));
    CLEARS(lks_mutex_unlock(mutex, &error));
    lks_mutex_guard guard = {0};
    CLEARS(guard = lks_mutex_guard_take(mutex, 0, &error));
    lks_mutex_guard_release(&guard);
    lks_mutex_free(mutex);

    SETS(LKS_INVALID_ARGUMENT, lks_rwlock_new(channel, "", NULL, &rwlock, &error));
    CLEARS(lks_rwlock_new(channel, "r", NULL, &rwlock, &error));
    CLEARS(lks_rwlock_read(rwlock, 0, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_rwlock_write(rwlock, 0, &error));
    CLEARS(lks_rwlock_unlock(rwlock, &error));
    lks_rwlock_free(rwlock);

    SETS(LKS_INVALID_ARGUMENT, lks_semaphore_new(channel, "s", 0, NULL, &semaphore, &error));
    CLEARS(lks_semaphore_new(channel, "s", 2, NULL, &semaphore, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_semaphore_acquire(semaphore, 0, 0, &permit, &error));
    CLEARS(lks_permit_release(NULL, &error));
    CLEARS(lks_semaphore_acquire(semaphore, 1, 0, &permit, &error));
    CLEARS(lks_permit_release(permit, &error));
    lks_semaphore_free(semaphore);

    SETS(LKS_INVALID_ARGUMENT, lks_hold_acquire(channel, NULL, hold_done, NULL, &hold, &error));
    CLEARS(
        lks_hold_acquire(channel, &(lks_hold_options){.names = &name, .n_names = 1}, hold_done, NULL, &hold, &error));
    await_ended(1);
    CLEARS(lks_hold_release(hold, 0, released, NULL, &error));
    await_ended(2);
}

TEST(once_and_limiters_set_or_clear_their_error)
{
    const lks_once_options options = {.scope = "s", .key = "k"};
    const lks_limiter_rule rule = {.policy = "p"};
    lks_once_attempt *attempt = NULL;
    lks_limiter *limiter = NULL;
    lks_limiter_decision decision;

    SETS(LKS_INVALID_ARGUMENT, lks_once_run(channel, NULL, once, NULL, NULL, &error));
    CLEARS(lks_once_run(channel, &options, once, NULL, NULL, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_once_begin(channel, NULL, 0, once_done, NULL, &attempt, &error));
    CLEARS(lks_once_begin(channel, &options, 0, once_done, NULL, &attempt, &error));
    lks_once_cancel(attempt);
    lks_once_free(attempt);

    SETS(LKS_INVALID_ARGUMENT, lks_limiter_new(channel, NULL, &limiter, &error));
    CLEARS(lks_limiter_new(channel, &(lks_limiter_options){.rules = &rule, .n_rules = 1, .remembered = true}, &limiter,
                           &error));
    CLEARS(lks_limiter_allow(limiter, "k", 1, &decision, &error));
    CLEARS(lks_limiter_wait(limiter, "k", 1, 0, &decision, &error));
    CLEARS(lks_limiter_refund(limiter, "k", &decision, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_limiter_refund(limiter, "k", &(lks_limiter_decision){0}, &error));
    CLEARS(lks_limiter_check_start(limiter, "k", 1, checked, NULL, NULL, &error));
    await_ended(1);
    lks_limiter_stop(limiter);
    SETS(LKS_CANCELLED, lks_limiter_wait(limiter, "k", 1, 0, &decision, &error));
    fake_behave(fake, (fake_manner){.fails = {[FAKE_CHECK] = LKS_NOT_FOUND}});
    SETS(LKS_NOT_FOUND, lks_limiter_allow(limiter, "k", 1, &decision, &error));
    lks_limiter_free(limiter);
}

TEST(reservations_set_or_clear_their_error)
{
    const lks_reservation_line line = {.sku = "tea", .quantity = 1};
    const lks_reservation_order order = {.lines = &line, .n_lines = 1};
    lks_reservation *one = NULL, *two = NULL;

    SETS(LKS_INVALID_ARGUMENT, lks_reservation_make(channel, NULL, &one, &error));
    CLEARS(lks_reservation_make(channel, &order, &one, &error));
    CLEARS(lks_reservation_confirm(one, false, &error));
    CLEARS(lks_reservation_confirm_start(one, false, confirmed, NULL, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_reservation_make_start(channel, NULL, made, NULL, &two, &error));
    CLEARS(lks_reservation_make_start(channel, &order, made, NULL, &two, &error));
    fake_await(fake, FAKE_RESERVE, NULL, 2);
    lks_reservation_make_cancel(two);
    await_ended(2); /* the answer may have been first */
    lks_reservation_free(two);
    CLEARS(lks_reservation_make(channel, &order, &two, &error));
    CLEARS(lks_reservation_cancel_start(two, NULL, cancelled, NULL, &error));
    await_ended(3);
    lks_reservation_free(one);
    lks_reservation_free(two);
    CLEARS(lks_reservation_make(channel, &order, &one, &error));
    CLEARS(lks_reservation_cancel(one, NULL, &error));
    lks_reservation_free(one);
}

TEST(hosts_set_or_clear_their_error)
{
    lks_host *host = NULL;

    SETS(LKS_INVALID_ARGUMENT, lks_host_open(&(lks_host_options){.tls_key = "key"}, &host, &error));
    CLEARS(lks_host_open(NULL, &host, &error));
    CLEARS(lks_host_add(host, &shop_service, &error));
    SETS(LKS_ALREADY_EXISTS, lks_host_add(host, &shop_service, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_host_listen(host, "no url", NULL, &error));
    SETS(LKS_NOT_FOUND, lks_host_limit(host, "/none", 1, &error));
    CLEARS(lks_host_limit(host, shop_buy_method.path, 1, &error));
    CLEARS(lks_host_listen(host, "tcp://127.0.0.1:0", NULL, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_host_add(host, &shop_service, &error));
    CLEARS(lks_host_set_health(host, shop_service.name, false, &error));
    SETS(LKS_NOT_FOUND, lks_host_set_health(host, "none", false, &error));
    SETS(LKS_FAILED_PRECONDITION, lks_host_reload_tls(host, &error));
    lks_host_close(host, 0);
}

static int begin(void **state)
{
    atomic_store(&ended, 0);
    return setup(state);
}

TEST_MAIN(.setup = begin, .teardown = teardown)
