/* Callers of another version than the libraries: their option structs are shorter or longer. */
#include <lockstock/hold.h>
#include <lockstock/host.h>
#include <lockstock/limiter.h>
#include <lockstock/mutex.h>
#include <lockstock/once.h>
#include <lockstock/reservation.h>
#include <lockstock/rwlock.h>
#include <lockstock/semaphore.h>
#include <lockstock/v1/id.lks_client.h>

#include "test.h"

enum { LONGER = 16, NOTHING = 0xa5 };

/* Where a struct ends with padding, a field that is added there does not change the size, and an older caller's padding
 * is read as its value. Then add a field `reserved`. The last field of each: */
#define ENDS_WITH(type, last) \
    _Static_assert(sizeof(type) == offsetof(type, last) + sizeof(((type *)0)->last), #type " ends with padding")
ENDS_WITH(lks_host_options, driven);
ENDS_WITH(lks_channel_options, on_try_arg);
ENDS_WITH(lks_call_options, context);
ENDS_WITH(lks_lock_options, arg);
ENDS_WITH(lks_hold_options, arg);
ENDS_WITH(lks_once_options, reserved);
ENDS_WITH(lks_limiter_options, reserved);
ENDS_WITH(lks_reservation_order, keep_ms);

static lks_channel *channel; /* to no server */

static int set_up(void **state)
{
    lks_error error;
    return lks_channel_open("tcp://127.0.0.1:1", NULL, &channel, &error) == LKS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    return lks_channel_close(channel) == LKS_OK ? 0 : -1;
}

/* ---- each function that takes a struct ------------------------------------------------------------ */

static void unused_done(void *arg, lks_code code, const lks_next_response *response, const lks_error *error)
{
    fail_msg("a call that was refused has begun");
}

static void host_open(const void *options, size_t bytes, lks_error *error)
{
    lks_host *host = NULL;
    if (lks_host_open_sized(options, bytes, &host, error) == LKS_OK)
        lks_host_close(host, 0);
}

static void channel_open(const void *options, size_t bytes, lks_error *error)
{
    lks_channel *other = NULL;
    if (lks_channel_open_sized("tcp://127.0.0.1:1", options, bytes, &other, error) == LKS_OK)
        lks_channel_close(other);
}

static void call_run(const void *options, size_t bytes, lks_error *error)
{
    const lks_next_request request = LKS_NEXT_REQUEST_INIT;
    lks_id_next_sized(channel, &request, options, bytes, NULL, error);
}

static void call_start(const void *options, size_t bytes, lks_error *error)
{
    const lks_next_request request = LKS_NEXT_REQUEST_INIT;
    lks_id_next_start_sized(channel, &request, options, bytes, unused_done, NULL, NULL, error);
}

static void mutex_new(const void *options, size_t bytes, lks_error *error)
{
    lks_mutex *mutex = NULL;
    lks_mutex_new_sized(channel, "m", options, bytes, &mutex, error);
    lks_mutex_free(mutex);
}

static void rwlock_new(const void *options, size_t bytes, lks_error *error)
{
    lks_rwlock *rwlock = NULL;
    lks_rwlock_new_sized(channel, "m", options, bytes, &rwlock, error);
    lks_rwlock_free(rwlock);
}

static void semaphore_new(const void *options, size_t bytes, lks_error *error)
{
    lks_semaphore *semaphore = NULL;
    lks_semaphore_new_sized(channel, "m", 1, options, bytes, &semaphore, error);
    lks_semaphore_free(semaphore);
}

static void hold_acquire(const void *options, size_t bytes, lks_error *error)
{
    lks_hold *hold = NULL;
    lks_hold_acquire_sized(channel, options, bytes, NULL, NULL, &hold, error);
}

static void once_run(const void *options, size_t bytes, lks_error *error)
{
    lks_once_run_sized(channel, options, bytes, NULL, NULL, NULL, error);
}

static void once_begin(const void *options, size_t bytes, lks_error *error)
{
    lks_once_attempt *attempt = NULL;
    lks_once_begin_sized(channel, options, bytes, 0, NULL, NULL, &attempt, error);
}

static void limiter_new(const void *options, size_t bytes, lks_error *error)
{
    lks_limiter *limiter = NULL;
    lks_limiter_new_sized(channel, options, bytes, &limiter, error);
    lks_limiter_free(limiter);
}

static void reservation_make(const void *options, size_t bytes, lks_error *error)
{
    lks_reservation *reservation = NULL;
    lks_reservation_make_sized(channel, options, bytes, &reservation, error);
}

static void reservation_make_start(const void *options, size_t bytes, lks_error *error)
{
    lks_reservation *reservation = NULL;
    lks_reservation_make_start_sized(channel, options, bytes, NULL, NULL, &reservation, error);
}

static const struct taker {
    const char *type;
    size_t bytes;
    void (*take)(const void *options, size_t bytes, lks_error *error);
    lks_code of_zeros; /* of a struct of no bytes; -1: would try to reach a server */
} takers[] = {
    {"lks_host_options", sizeof(lks_host_options), host_open, LKS_OK},
    {"lks_channel_options", sizeof(lks_channel_options), channel_open, LKS_OK},
    {"lks_call_options", sizeof(lks_call_options), call_run, -1},
    {"lks_call_options", sizeof(lks_call_options), call_start, -1},
    {"lks_lock_options", sizeof(lks_lock_options), mutex_new, LKS_OK},
    {"lks_lock_options", sizeof(lks_lock_options), rwlock_new, LKS_OK},
    {"lks_lock_options", sizeof(lks_lock_options), semaphore_new, LKS_OK},
    {"lks_hold_options", sizeof(lks_hold_options), hold_acquire, LKS_INVALID_ARGUMENT},
    {"lks_once_options", sizeof(lks_once_options), once_run, LKS_INVALID_ARGUMENT},
    {"lks_once_options", sizeof(lks_once_options), once_begin, LKS_INVALID_ARGUMENT},
    {"lks_limiter_options", sizeof(lks_limiter_options), limiter_new, LKS_INVALID_ARGUMENT},
    {"lks_reservation_order", sizeof(lks_reservation_order), reservation_make, LKS_INVALID_ARGUMENT},
    {"lks_reservation_order", sizeof(lks_reservation_order), reservation_make_start, LKS_INVALID_ARGUMENT},
};

/* promise AB1: an option struct of an older caller is read to its end, and what follows counts as 0 */
TEST(a_shorter_struct_is_completed_with_zeros)
{
    unsigned char options[256];
    lks_error error;

    memset(options, NOTHING, sizeof options);
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++) {
        const struct taker *t = &takers[i];
        if ((int)t->of_zeros == -1)
            continue;
        t->take(options, 0, &error);
        if (error.code != t->of_zeros)
            fail_msg("%s (row %zu): %s", t->type, i, error.message);
    }
}

/* promise AB2: an option struct of a newer caller is refused, by name, if it sets what the library does not have */
TEST(longer_struct_that_sets_unknown_fields_is_refused)
{
    lks_error error;

    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++) {
        const struct taker *t = &takers[i];
        unsigned char *options = calloc(1, t->bytes + LONGER);

        options[t->bytes + LONGER - 1] = 1;
        t->take(options, t->bytes + LONGER, &error);
        if (error.code != LKS_INVALID_ARGUMENT || strncmp(error.message, t->type, strlen(t->type)) != 0)
            fail_msg("%s (row %zu): %s", t->type, i, error.message);
        options[t->bytes + LONGER - 1] = 0;
        if ((int)t->of_zeros != -1) {
            t->take(options, t->bytes + LONGER, &error);
            if (error.code != t->of_zeros)
                fail_msg("%s (row %zu), with zeros: %s", t->type, i, error.message);
        }
        free(options);
    }
}

TEST_MAIN(.setup_all = set_up, .teardown_all = tear_down)
