/* Every public function that takes an lks_error sets it or clears it, on each of its ways out; wrong options are named. */
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

/* Refuses options, and says which. */
#define NAMES(text, call) (SETS(LKS_INVALID_ARGUMENT, call), assert_non_null(strstr(error.message, text)))

/* ---- requests of the calls --------------------------------------------------------------------- */

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

static lks_code no_token(void *arg, char token[LKS_TOKEN_BYTES_MAX + 1], uint32_t *lasts_ms, lks_error *why)
{
    return LKS_UNAVAILABLE;
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

static lks_code open_with(lks_channel_options options)
{
    lks_channel *none = NULL;

    return lks_channel_open("grpc://127.0.0.1:1", &options, &none, &error);
}

TEST(wrong_options_of_a_channel_are_named)
{
    lks_call_options call_options = long_metadata;
    char urls[64 * 32 + 32] = "tcp://127.0.0.1:1";

    for (int i = 0; i < 64; i++)
        strcat(urls, ",tcp://127.0.0.1:1");
    NAMES("options.keepalive_ms: must be 0 or at least 1,000", open_with((lks_channel_options){.keepalive_ms = 999}));
    NAMES("options.keepalive_timeout_ms: needs keepalive_ms",
          open_with((lks_channel_options){.keepalive_timeout_ms = 5000}));
    NAMES("options.get_token: must be NULL if options.token is set",
          open_with((lks_channel_options){.token = "x", .get_token = no_token}));
    NAMES("options.driven", open_with((lks_channel_options){.driven = 2}));
    NAMES("urls: must have at most 64 URLs", lks_channel_open(urls, NULL, &(lks_channel *){NULL}, &error));
    call_options.n_metadata = 65;
    NAMES("options.metadata: must have at most 64 entries",
          lks_idempotency_extend(channel, &extend, &call_options, NULL, &error));
}

TEST(locks_set_or_clear_their_error)
{
    lks_mutex *mutex = NULL;
    lks_rwlock *rwlock = NULL;
    lks_semaphore *semaphore = NULL;
    lks_permit *permit = NULL;
    lks_hold *hold = NULL;
    const char *names[] = {"h", "i"};

    NAMES("name: ", lks_mutex_new(channel, "", NULL, &mutex, &error));
    NAMES("name: ", lks_mutex_new(channel, NULL, NULL, &mutex, &error));
    NAMES("lease_ms", lks_mutex_new(channel, "m", &(lks_lock_options){.lease_ms = 9}, &mutex, &error));
    NAMES("lease_ms", lks_mutex_new(channel, "m", &(lks_lock_options){.lease_ms = 86400001}, &mutex, &error));
    assert_null(mutex);
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

    NAMES("capacity", lks_semaphore_new(channel, "s", 0, NULL, &semaphore, &error));
    CLEARS(lks_semaphore_new(channel, "s", 2, NULL, &semaphore, &error));
    SETS(LKS_INVALID_ARGUMENT, lks_semaphore_acquire(semaphore, 0, 0, &permit, &error));
    CLEARS(lks_permit_release(NULL, &error));
    CLEARS(lks_semaphore_acquire(semaphore, 1, 0, &permit, &error));
    CLEARS(lks_permit_release(permit, &error));
    lks_semaphore_free(semaphore);

    NAMES("options.names", lks_hold_acquire(channel, NULL, hold_done, NULL, &hold, &error));
    NAMES("options.group: must be given with several names",
          lks_hold_acquire(channel, &(lks_hold_options){.names = names, .n_names = 2}, hold_done, NULL, &hold, &error));
    CLEARS(
        lks_hold_acquire(channel, &(lks_hold_options){.names = names, .n_names = 1}, hold_done, NULL, &hold, &error));
    await_ended(1);
    CLEARS(lks_hold_release(hold, 0, released, NULL, &error));
    await_ended(2);
}

/* promise C11: what a function may return; a result that cannot be stored is refused when it is set; options have
 * ranges */
/* promise C14 */
TEST(wrong_options_of_once_and_limiters_are_named)
{
    const lks_limit limit = LKS_LIMIT_INIT;
    const lks_limiter_rule rules[9] = {{.policy = "a"}, {.policy = "b"}}, none = {.key = "a"},
                           both = {.policy = "a", .limit = &limit};
    const lks_once_options wrong[] = {{.key = "k"},
                                      {.scope = "s"},
                                      {.scope = "s", .key = "k", .lease_ms = 9},
                                      {.scope = "s", .key = "k", .lease_ms = 86400001}};
    const struct {
        lks_limiter_options options;
        const char *named;
    } bad[] = {
        {{.n_rules = 0}, "rules"},
        {{.group = "g", .rules = rules, .n_rules = 9}, "rules"},
        {{.rules = rules, .n_rules = 2}, "group"},
        {{.group = "", .rules = rules, .n_rules = 2}, "group"},
        {{.rules = &none, .n_rules = 1}, "rules[0]"},
        {{.rules = &both, .n_rules = 1}, "rules[0]"},
    };
    lks_limiter *limiter = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        NAMES(i < 2 ? "scope and key" : "lease_ms", lks_once_run(channel, &wrong[i], once, NULL, NULL, &error));
    assert_int_equal(fake_calls(fake, FAKE_BEGIN), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        NAMES(bad[i].named, lks_limiter_new(channel, &bad[i].options, &limiter, &error));
    assert_null(limiter);
    lks_limiter_free(NULL);
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

/* promise C21 */
TEST(wrong_orders_are_named)
{
    const lks_reservation_line many[65] = {{.sku = "phone", .quantity = 1}, {.sku = "cover", .quantity = 1}},
                               none = {.quantity = 1};
    const struct {
        lks_reservation_order order;
        const char *named;
    } bad[] = {
        {{.n_lines = 0}, "order.lines: "},
        {{.group = "g", .lines = many, .n_lines = 65}, "order.lines: "},
        {{.lines = &none, .n_lines = 1}, "lines[0].sku"},
        {{.lines = many, .n_lines = 2}, "group"},
    };
    lks_reservation *reservation = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        NAMES(bad[i].named, lks_reservation_make(channel, &bad[i].order, &reservation, &error));
    assert_null(reservation);
    assert_int_equal(fake_calls(fake, FAKE_RESERVE), 0);
    lks_reservation_free(NULL);
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
